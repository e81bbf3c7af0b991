//! One flow: its application, its two endpoints, its measures.

use fairmesh_scenario::{Flow, Transport};
use fairmesh_transport::traffic::{FlowEnd, Side, Source, TrafficSpec};
use fairmesh_transport::{Connection, DatagramSink, quic};
use fairmesh_units::{NodeId, Span, Stream, Time};
use fairmesh_wifi::{Access, LinkId};

use super::connection::{Endpoint, Pair};
use super::meters::Meters;

/// The next step from a node on a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hop {
    /// Over the air.
    Radio { link: LinkId },
    /// Over the air to every node that decodes it.
    Broadcast,
    /// To another radio of the same node, in no time.
    Bus { to: u32 },
    /// Into one direction of a wire.
    Wire { direction: u32 },
}

/// Both ends' transport.
#[derive(Clone, Debug)]
pub(crate) enum Ends {
    Tcp(Pair<Connection>),
    Quic(Pair<quic::Connection>),
    Udp {
        next: u64,
        sink: DatagramSink,
    },
    /// Frames from outside, which leave the engine again.
    External,
}

/// Applies an expression to the connection of either transport.
///
/// `$otherwise` for flows without one.
macro_rules! connection {
    ($ends:expr, $pair:ident => $work:expr, $otherwise:expr) => {
        match $ends {
            Ends::Tcp($pair) => $work,
            Ends::Quic($pair) => $work,
            Ends::Udp { .. } | Ends::External => $otherwise,
        }
    };
}
pub(super) use connection;

/// A running flow.
#[derive(Clone, Debug)]
pub(crate) struct FlowState {
    pub ends: Ends,
    pub source: Source,
    /// Index in `ends` of the end that connects.
    pub client: usize,
    /// The access category of its packets, both ways.
    pub access: Access,
    /// Connections opened so far.
    pub generation: u32,
    /// Nodes of the path, origin first.
    ///
    /// If the path changes, all paths are concatenated, and a packet's place counts through them.
    pub path: Vec<u32>,
    /// `forward[i]` leads from `path[i]` to `path[i + 1]`, `back[i]` in reverse.
    pub forward: Vec<Hop>,
    pub back: Vec<Hop>,
    /// Places of the ends of the path that new packets take, and of former paths.
    ends_at: [usize; 2],
    former: Vec<[usize; 2]>,
    /// True if the application's work consists of transfers with a beginning and an end.
    pub has_transfers: bool,
    /// Spacing that a control has set; true if the congestion window still applies.
    pace: (Option<Span>, bool),
    pub meters: Meters,
}

impl FlowState {
    /// Builds a flow. `hops`: the hops in both directions between every two nodes of the path.
    pub fn new(flow: &Flow, seed: u64, hops: &[[Hop; 2]]) -> Self {
        let mut rng = Stream::new(seed, &format!("flow/{}", flow.name));
        let late = flow.start_jitter.as_secs_f64() * rng.unit();
        let start = Time::ZERO + flow.start + Span::from_secs_f64(late);
        let stop = flow.stop.map_or(Time::NEVER, |s| Time::ZERO + s);
        let client = match flow.traffic.opener() {
            FlowEnd::From => 0,
            FlowEnd::To => 1,
        };
        let ends = match &flow.transport {
            Transport::Tcp(config) => Ends::Tcp(Pair::new(*config, client)),
            Transport::Quic(config) => Ends::Quic(Pair::new(*config, client)),
            Transport::Udp => Ends::Udp { next: 0, sink: DatagramSink::default() },
        };
        FlowState {
            ends,
            source: Source::new(&flow.traffic, start, stop, rng),
            client,
            access: flow.access,
            generation: 0,
            path: flow.path.iter().map(|n| n.0).collect(),
            forward: hops.iter().map(|h| h[0]).collect(),
            back: hops.iter().map(|h| h[1]).collect(),
            ends_at: [0, hops.len()],
            former: Vec::new(),
            has_transfers: matches!(
                flow.traffic,
                TrafficSpec::Files { .. } | TrafficSpec::Http { .. }
            ),
            pace: (None, true),
            meters: Meters::new(),
        }
    }

    /// Builds a flow of frames from outside over one hop.
    pub fn external(from: u32, to: u32, hop: Hop) -> Self {
        // A source that never starts.
        let never = Source::new(&TrafficSpec::Bulk, Time::NEVER, Time::NEVER, Stream::new(0, ""));
        FlowState {
            ends: Ends::External,
            source: never,
            client: 0,
            access: Access::BestEffort,
            generation: 0,
            path: vec![from, to],
            forward: vec![hop],
            back: Vec::new(),
            ends_at: [0, 1],
            former: Vec::new(),
            has_transfers: false,
            pace: (None, true),
            meters: Meters::new(),
        }
    }

    /// Adds a path that packets may take later, with its hops as in `new`.
    pub fn also(&mut self, path: &[NodeId], hops: &[[Hop; 2]]) {
        self.path.extend(path.iter().map(|n| n.0));
        // No packet passes from the end of one path to the start of the next.
        let none = [Hop::Broadcast; 2];
        for [forward, back] in core::iter::once(&none).chain(hops) {
            self.forward.push(*forward);
            self.back.push(*back);
        }
    }

    /// Moves new packets to the next path, which has this number of nodes.
    pub fn reroute(&mut self, nodes: usize) {
        self.former.push(self.ends_at);
        let first = self.ends_at[1] + 1;
        self.ends_at = [first, first + nodes - 1];
    }

    /// Returns the nodes of the path that new packets take, origin first.
    pub fn way(&self) -> &[u32] {
        &self.path[self.ends_at[0]..=self.ends_at[1]]
    }

    /// Returns the place at which packets of an end begin.
    ///
    /// 0 is the origin's end, 1 the destination's.
    #[inline]
    pub fn place_of(&self, end: usize) -> usize {
        self.ends_at[end]
    }

    /// Returns true if a packet has reached its destination.
    #[inline]
    pub fn has_arrived(&self, place: usize, forward: bool) -> bool {
        let end = usize::from(forward);
        place == self.ends_at[end] || self.former.iter().any(|ends| place == ends[end])
    }

    /// Opens a new connection in place of the old one.
    pub fn reconnect(&mut self, now: Time) {
        self.retire();
        self.generation += 1;
        let (client, pace) = (self.client, self.pace);
        connection!(&mut self.ends, pair => pair.reconnect(now, client, pace), ());
    }

    /// Spaces segments from the origin, in this connection and later ones.
    pub fn pace(&mut self, interval: Option<Span>, window: bool) {
        self.pace = (interval, window);
        connection!(&mut self.ends, pair => pair.ends[0].pace(interval, window), ());
    }

    /// Returns the spacing that a control has set, and true if the window still applies.
    #[cfg(test)]
    pub fn pace_of(&self) -> (Option<Span>, bool) {
        self.pace
    }

    /// Returns the payload rate that a control's spacing in place of the window allows, in bit/s.
    pub fn spaced(&self) -> Option<f64> {
        let payload = connection!(&self.ends, pair => pair.payload(), return None);
        let (Some(interval), false) = self.pace else { return None };
        Some(f64::from(payload) * 8.0 / interval.as_secs_f64())
    }

    /// Adds the counters of the connection to the totals.
    pub fn retire(&mut self) {
        connection!(&self.ends, pair => pair.add_to(&mut self.meters), ());
    }

    /// Returns the segments that the origin's TCP connection has retransmitted.
    ///
    /// For QUIC, these are the packets declared lost.
    pub fn resent(&self) -> u64 {
        connection!(&self.ends, pair => pair.ends[0].resent(), 0)
    }

    /// Returns the end on this side.
    pub fn end_of(&self, side: Side) -> usize {
        match side {
            Side::Client => self.client,
            Side::Server => 1 - self.client,
        }
    }

    /// Returns the earliest of the flow's deadlines.
    #[inline]
    pub fn next_deadline(&self) -> Time {
        let app = self.source.next_deadline();
        connection!(&self.ends, pair => app.min(pair.next_deadline()), app)
    }

    /// Returns the congestion window at the flow's origin, bytes; `None` for UDP.
    pub fn cwnd(&self) -> Option<u64> {
        connection!(&self.ends, pair => Some(pair.ends[0].window()), None)
    }
}
