//! A node's own links, and its neighbours' reports of theirs (Rangwala 2008 §3.1).

use fairmesh_units::{FlowId, NodeId, Span, Time};

use super::link_state::LinkState;

/// Airtime of a full packet with RTS and CTS at 11 Mbit/s.
///
/// The average of an empty queue falls once in this time.
const FRAME_AIRTIME: Span = Span::from_millis(2);
/// Maximum number of links of one neighbour.
const MAX_NEIGHBOUR_LINKS: usize = 64;

/// A flow with data that goes out on a link.
#[derive(Clone, Copy, Debug)]
pub(super) struct CarriedFlow {
    pub flow: FlowId,
    /// Last state from its source.
    pub word: LinkState,
    pub at: Time,
}

/// A link from this node.
#[derive(Debug)]
pub(super) struct OwnLink {
    pub to: NodeId,
    length: u32,
    /// Moving average of the queue, in packets.
    pub queue: f64,
    pub flows: Vec<CarriedFlow>,
    /// Own state in force, as words of a header.
    pub sent_words: [u32; 3],
    /// Shared state in its packets.
    pub shared: LinkState,
    pub marking: bool,
}

impl OwnLink {
    pub fn new(to: NodeId) -> Self {
        let shared = LinkState::default();
        let (flows, sent_words) = (Vec::new(), [0; 3]);
        OwnLink { to, length: 0, queue: 0.0, flows, sent_words, shared, marking: false }
    }

    /// Records a change of the queue's length.
    ///
    /// The average takes it in when a packet is inserted, as RED's (Floyd and Jacobson 1993 §4).
    pub fn changed(&mut self, length: u32, weight: f64) {
        if length > self.length {
            self.queue += weight * (f64::from(length) - self.queue);
        }
        self.length = length;
    }

    /// Advances the time.
    ///
    /// The average of an empty queue falls as if packets had been inserted (Floyd and Jacobson 1993 §4).
    pub fn idle(&mut self, passed: Span, weight: f64) {
        if self.length == 0 {
            let frames = passed.as_secs_f64() / FRAME_AIRTIME.as_secs_f64();
            self.queue *= libm::pow(1.0 - weight, frames);
        }
    }

    /// Records that data of a flow goes out here.
    pub fn carries(&mut self, now: Time, flow: FlowId, word: LinkState) {
        match self.flows.iter_mut().find(|c| c.flow == flow) {
            Some(known) => *known = CarriedFlow { flow, word, at: now },
            None => self.flows.push(CarriedFlow { flow, word, at: now }),
        }
    }

    /// Returns the link's state.
    ///
    /// Its round trips are the means of its flows'; it is congested if its average queue is above the threshold.
    pub fn state(&self, threshold: f64) -> LinkState {
        let mean = |part: fn(&LinkState) -> u32| {
            let known = || self.flows.iter().map(|c| part(&c.word)).filter(|x| *x > 0);
            let (sum, count) = (known().sum::<u32>(), known().count() as u32);
            if count == 0 { 0 } else { sum.div_ceil(count) }
        };
        let congested = self.queue > threshold;
        LinkState {
            average: mean(|w| w.average),
            instant: mean(|w| w.instant),
            rate: if congested { mean(|w| w.rate).max(1) } else { 0 },
        }
    }
}

/// State of a neighbour, as reported.
#[derive(Debug)]
pub(super) struct NeighbourState {
    pub node: NodeId,
    /// Links of the neighbour, each as reported by its packets on that link.
    links: Vec<(NodeId, LinkState, Time)>,
    /// State of all links into it.
    into: LinkState,
    /// State of all links with this neighbour in their neighbourhood.
    around: LinkState,
    at: Time,
}

impl NeighbourState {
    pub fn new(node: NodeId) -> Self {
        let word = LinkState::default();
        NeighbourState { node, links: Vec::new(), into: word, around: word, at: Time::ZERO }
    }

    /// Handles a packet's values; returns true if the congestion of any link has changed.
    pub fn take_report(
        &mut self,
        now: Time,
        to: NodeId,
        own: LinkState,
        into: LinkState,
        around: LinkState,
    ) -> bool {
        let mut changed = self.into.congested() != into.congested()
            || self.around.congested() != around.congested();
        (self.into, self.around, self.at) = (into, around, now);
        match self.links.iter().position(|l| l.0 == to) {
            Some(known) => {
                changed |= self.links[known].1.congested() != own.congested();
                self.links[known] = (to, own, now);
            }
            None if self.links.len() < MAX_NEIGHBOUR_LINKS => {
                changed |= own.congested();
                self.links.push((to, own, now));
            }
            None => {}
        }
        changed
    }

    pub fn forget(&mut self, since: Time) {
        self.links.retain(|l| l.2 >= since);
        if self.at < since {
            (self.into, self.around) = (LinkState::default(), LinkState::default());
        }
    }
}

/// A node's knowledge of the links around it.
///
/// L(i→j) is every link with an end in N, that is i, j and their neighbours. So a node is in N if it is i or j, or in
/// range of i or j: from i it receives the link's state in the packets on it, from j the state that j has gathered of
/// the links into it (`into`). The join of all that is `around`, and a link x→y is in L(i→j) if x or y is in N: the
/// `around` of x and that of y together are all that it shares the channel with.
#[derive(Debug)]
pub(super) struct Neighbourhood {
    node: NodeId,
    pub own: Vec<OwnLink>,
    pub far: Vec<NeighbourState>,
}

impl Neighbourhood {
    pub fn new(node: NodeId, neighbours: impl Iterator<Item = NodeId> + Clone) -> Self {
        let own = neighbours.clone().map(OwnLink::new).collect();
        Neighbourhood { node, own, far: neighbours.map(NeighbourState::new).collect() }
    }

    pub fn own_mut(&mut self, to: NodeId) -> Option<&mut OwnLink> {
        self.own.iter_mut().find(|o| o.to == to)
    }

    /// Removes states that were not repeated since then.
    pub fn forget(&mut self, since: Time) {
        self.own.iter_mut().for_each(|o| o.flows.retain(|c| c.at >= since));
        self.far.iter_mut().for_each(|f| f.forget(since));
    }

    /// Returns the state of all links into this node.
    pub fn inward(&self) -> LinkState {
        let links = self.far.iter().flat_map(|f| &f.links).filter(|l| l.0 == self.node);
        links.fold(LinkState::default(), |all, l| all.join(l.1))
    }

    /// Returns the state of all links with this node in their neighbourhood.
    pub fn around(&self, threshold: f64) -> LinkState {
        let own = self.own.iter().map(|o| o.state(threshold));
        let reported = self.far.iter().flat_map(|f| f.links.iter().map(|l| l.1).chain([f.into]));
        own.chain(reported).fold(LinkState::default(), LinkState::join)
    }

    /// Returns the state of all links that share the channel with an own link.
    pub fn shared(&self, to: NodeId, around: LinkState) -> LinkState {
        self.far.iter().find(|f| f.node == to).map_or(around, |f| around.join(f.around))
    }
}
