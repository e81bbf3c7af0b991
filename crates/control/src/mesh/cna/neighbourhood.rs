//! A node's knowledge of its neighbourhood, and the quantities of Table 2.
//!
//! These are one-hop, two-hop and neighbourhood quantities (Jang 2010 §3, §4).
//!
//! A link stands for both of its directions unless stated otherwise: W↔, RA↔, A′↔.

use fairmesh_units::{NodeId, Time};

use super::codec::{OneHop, TwoHop};

/// A neighbour, as far as it has reported.
#[derive(Clone, Debug)]
pub(super) struct NeighbourState {
    pub id: NodeId,
    /// M, ACA and S of its latest one-hop values, and the time of their arrival.
    pub one: Option<(Time, OneHop)>,
    pub two: Option<(Time, TwoHop)>,
    /// Neighbours of the neighbour, from its topology message.
    pub neighbours: Option<Vec<NodeId>>,
}

impl NeighbourState {
    fn new(id: NodeId) -> Self {
        NeighbourState { id, one: None, two: None, neighbours: None }
    }
}

/// A link of a neighbour with a third node.
#[derive(Clone, Copy, Debug)]
pub(super) struct OverheardLink {
    /// The smaller id first.
    pub ends: (NodeId, NodeId),
    pub weight: f64,
    pub reusable: f64,
    pub airtime: f64,
    pub received: Time,
}

/// One of the node's own links.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnLink {
    pub to: NodeId,
    /// W of either direction.
    pub out: f64,
    pub back: f64,
    /// U of either direction: the used part of its entitlement.
    pub used: f64,
    pub used_back: f64,
    /// Results: NW, D, NRA, A′ out and back, NS.
    pub around: f64,
    pub divider: f64,
    pub reusable: f64,
    pub gained: f64,
    pub airtime: f64,
    pub airtime_back: f64,
    /// Limit of the outward direction: A U + W NRA.
    pub limit: f64,
    pub scaling: f64,
}

impl OwnLink {
    pub fn new(to: NodeId) -> Self {
        OwnLink {
            to,
            out: 0.0,
            back: 0.0,
            used: 1.0,
            used_back: 1.0,
            around: 0.0,
            divider: 1.0,
            reusable: 0.0,
            gained: 0.0,
            airtime: 0.0,
            airtime_back: 0.0,
            limit: 0.0,
            scaling: 1.0,
        }
    }

    pub fn weight(&self) -> f64 {
        self.out + self.back
    }

    fn is_active(&self) -> bool {
        self.weight() > 0.0
    }

    /// Returns A of the direction out of the node.
    pub fn share(&self) -> f64 {
        self.out / self.divider
    }

    /// Returns the maximum of `weight` of its flows: A + W NRA.
    fn entitled(&self, weight: f64) -> f64 {
        weight * (1.0 / self.divider + self.gained)
    }

    /// Returns the maximum of the direction out of the node.
    pub fn most(&self) -> f64 {
        self.entitled(self.out)
    }

    /// Returns the unused airtime of a direction.
    ///
    /// It is A less its use, and the fraction `pass` of unused airtime that others gave it.
    fn unused(&self, weight: f64, part: f64, pass: f64) -> f64 {
        let (share, entitled) = (weight / self.divider, self.entitled(weight));
        let used = part * entitled;
        (share - used).max(0.0) + pass * (entitled - used.max(share)).max(0.0)
    }
}

/// All values that a node knows.
#[derive(Clone, Debug)]
pub(super) struct Neighbourhood {
    pub node: NodeId,
    pub own: Vec<OwnLink>,
    pub far: Vec<NeighbourState>,
    pub known: Vec<OverheardLink>,
    /// ACA of this node.
    pub available: f64,
    /// Margins for rounded codes ([`GROWTH_FACTOR`], [`MAX_AIRTIME_SUM`]).
    pub tolerant: bool,
    /// Fraction of the received and unused airtime that a link passes on.
    pub pass: f64,
    /// Results: M, S.
    pub largest: f64,
    pub scaling: f64,
    /// Results: W′, M′, RA′, V, S′.
    pub two: TwoHop,
}

/// Returns the moving average of codes, which alternate around a value.
///
/// A code too far from the average to be next to it replaces the average.
fn mix(old: f64, new: f64) -> f64 {
    if (new - old).abs() > REPLACE_DIFFERENCE * old.max(new) {
        new
    } else {
        old + CODE_GAIN * (new - old)
    }
}

/// Weight of each new code.
const CODE_GAIN: f64 = 0.1;
/// Relative difference from which a code replaces the average.
const REPLACE_DIFFERENCE: f64 = 0.25;

/// Factor by which a link that leaves airtime unused may exceed its use with `+tolerant`.
///
/// It applies if the link is entitled to that. A limit equal to its use would appear to limit the link.
const GROWTH_FACTOR: f64 = 1.2;

/// Sum beyond which limits are scaled down with `+tolerant`.
///
/// Rounded codes and old reports add up to a little more than all airtime.
const MAX_AIRTIME_SUM: f64 = 1.1;

impl Neighbourhood {
    pub fn new(node: NodeId, neighbours: impl Iterator<Item = NodeId>) -> Self {
        let own: Vec<OwnLink> = neighbours.map(OwnLink::new).collect();
        Neighbourhood {
            node,
            far: own.iter().map(|o| NeighbourState::new(o.to)).collect(),
            own,
            known: Vec::new(),
            available: 1.0,
            tolerant: false,
            pass: 0.0,
            largest: 0.0,
            scaling: 1.0,
            two: TwoHop { scaling: 1.0, ..TwoHop::default() },
        }
    }

    /// Adds a neighbour, and a link to it.
    pub fn add(&mut self, id: NodeId) {
        self.own.push(OwnLink::new(id));
        self.far.push(NeighbourState::new(id));
    }

    /// Keeps those neighbours that are still there, and the links to them.
    pub fn retain(&mut self, there: impl Fn(NodeId) -> bool) {
        self.own.retain(|o| there(o.to));
        self.far.retain(|f| there(f.id));
    }

    pub fn neighbour_mut(&mut self, id: NodeId) -> Option<&mut NeighbourState> {
        self.far.iter_mut().find(|f| f.id == id)
    }

    fn far(&self, id: NodeId) -> Option<&NeighbourState> {
        self.far.iter().find(|f| f.id == id)
    }

    /// Handles one-hop values that neighbour `k` sent to `l`.
    ///
    /// Returns true if a count has changed.
    pub fn take_one_hop(&mut self, now: Time, k: NodeId, l: NodeId, values: OneHop) -> bool {
        let Some(far) = self.neighbour_mut(k) else { return false };
        let before = far.one.replace((now, values));
        let mut changed = before.is_none_or(|(_, b)| b.largest != values.largest);
        if l == self.node {
            if let Some(own) = self.own.iter_mut().find(|o| o.to == k) {
                own.used_back = values.used;
            }
        } else {
            let link = OverheardLink {
                ends: (k.min(l), k.max(l)),
                weight: values.weight,
                reusable: values.reusable,
                airtime: values.airtime,
                received: now,
            };
            match self.known.iter_mut().find(|x| x.ends == link.ends) {
                Some(x) => {
                    let moved = x.weight != link.weight || changed;
                    changed = moved;
                    // After a change the old averages are invalid.
                    *x = if moved {
                        link
                    } else {
                        OverheardLink {
                            reusable: mix(x.reusable, link.reusable),
                            airtime: mix(x.airtime, link.airtime),
                            ..link
                        }
                    };
                }
                None => {
                    changed = true;
                    self.known.push(link);
                }
            }
        }
        changed
    }

    /// Handles two-hop values of neighbour `k`; returns true if a count has changed.
    pub fn take_two_hop(&mut self, now: Time, k: NodeId, values: TwoHop) -> bool {
        let Some(far) = self.neighbour_mut(k) else { return false };
        let moved =
            far.two.is_none_or(|(_, t)| (t.weight, t.largest) != (values.weight, values.largest));
        let kept = match far.two {
            Some((_, t)) if !moved => TwoHop {
                reusable: mix(t.reusable, values.reusable),
                airtime: mix(t.airtime, values.airtime),
                ..values
            },
            _ => values,
        };
        far.two = Some((now, kept));
        moved
    }

    /// Removes values received before `since`; returns true if there were any.
    pub fn forget(&mut self, since: Time) -> bool {
        let before = self.known.len();
        self.known.retain(|k| k.received >= since);
        let mut gone = self.known.len() < before;
        for far in &mut self.far {
            if far.one.is_some_and(|(at, _)| at < since) {
                (far.one, gone) = (None, true);
            }
            if far.two.is_some_and(|(at, _)| at < since) {
                (far.two, gone) = (None, true);
            }
        }
        gone
    }

    /// Returns Σ over K_i, the active links within two hops: (W, RA, A′).
    fn sum(&self, take: impl Fn((NodeId, NodeId)) -> bool) -> [f64; 3] {
        let own = self.own.iter().filter(|o| o.is_active()).map(|o| {
            let ends = (self.node.min(o.to), self.node.max(o.to));
            (ends, [o.weight(), o.reusable, o.airtime + o.airtime_back])
        });
        let known = self.known.iter().map(|k| (k.ends, [k.weight, k.reusable, k.airtime]));
        own.chain(known)
            .filter(|(ends, _)| take(*ends))
            .fold([0.0; 3], |s, (_, v)| [s[0] + v[0], s[1] + v[1], s[2] + v[2]])
    }

    /// Returns Σ over K_i ∩ K_j, and true if the sum is complete.
    ///
    /// Without the topology message of `j` only links at either end of i↔j are known to be common, since these lie
    /// within two hops of both.
    fn common(&self, j: NodeId) -> ([f64; 3], bool) {
        let reported = self.far(j).and_then(|f| f.neighbours.as_ref());
        let near = |n: NodeId| {
            n == j || n == self.node || reported.is_some_and(|around| around.contains(&n))
        };
        (self.sum(|(a, b)| near(a) || near(b)), reported.is_some())
    }

    /// Returns a neighbourhood quantity by Table 2: own + theirs − common.
    ///
    /// `which` selects W, RA or A′.
    fn around(&self, own: [f64; 3], j: NodeId, link: [f64; 3], which: usize) -> f64 {
        let theirs =
            self.far(j).and_then(|f| f.two).map(|(_, t)| [t.weight, t.reusable, t.airtime][which]);
        // Not received yet: as if the neighbour had nothing but this link.
        let theirs = theirs.unwrap_or(link[which]);
        // Values sent at different times may be inconsistent.
        let least = own[which].max(theirs);
        let (common, all) = self.common(j);
        // Weights and airtime at their maximum, reusable airtime at its minimum.
        if which == 1 && !all { least } else { (own[which] + theirs - common[which]).max(least) }
    }

    /// Computes all results from the known values.
    pub fn work_out(&mut self) {
        // W′, NW, M, M′, D
        let own = self.sum(|_| true);
        self.largest = 0.0;
        for i in 0..self.own.len() {
            let o = self.own[i];
            if o.is_active() {
                let around = self.around(own, o.to, [o.weight(), 0.0, 0.0], 0);
                self.own[i].around = around;
                self.largest = self.largest.max(around);
            }
        }
        self.two.weight = own[0];
        let reported = |f: &NeighbourState| f.one.map_or(0.0, |(_, o)| o.largest);
        self.two.largest = self.far.iter().map(reported).fold(self.largest, f64::max);
        for i in 0..self.own.len() {
            let o = self.own[i];
            let theirs = self.far(o.to).and_then(|f| f.two).map_or(0.0, |(_, t)| t.largest);
            let divider = self.two.largest.max(theirs).max(o.around).max(1.0);
            // UA and RA = UA / NW, both directions
            let pass = self.pass;
            let o = &mut self.own[i];
            o.divider = divider;
            let unused = o.unused(o.out, o.used, pass) + o.unused(o.back, o.used_back, pass);
            o.reusable = if o.around > 0.0 { unused.min(1.0) / o.around } else { 0.0 };
        }
        // RA′, NRA, A′ = A U + NRA W
        let own = self.sum(|_| true);
        self.two.reusable = own[1];
        for i in 0..self.own.len() {
            let o = self.own[i];
            let gained = self.around(own, o.to, [0.0, o.reusable, 0.0], 1);
            let (pass, tolerant) = (self.pass, self.tolerant);
            let o = &mut self.own[i];
            let used = o.used * o.most();
            o.gained = gained;
            let limit = o.most() - (o.share() - used).max(0.0);
            o.limit = if tolerant { limit.max(o.most().min(GROWTH_FACTOR * used)) } else { limit };
            // Airtime that is passed on is counted at its receivers.
            let kept = |weight, part| o.entitled(weight) - o.unused(weight, part, pass);
            (o.airtime, o.airtime_back) = (kept(o.out, o.used), kept(o.back, o.used_back));
        }
        // V, NA′, S, S′, NS
        let own = self.sum(|_| true);
        self.two.airtime = own[2];
        self.scaling = 1.0;
        for o in self.own.iter().filter(|o| o.is_active()) {
            let all = self.around(own, o.to, [0.0, 0.0, o.airtime + o.airtime_back], 2);
            let theirs = self.far(o.to).and_then(|f| f.one).map_or(1.0, |(_, o)| o.available);
            let available = self.available.min(theirs);
            let slack = if self.tolerant { MAX_AIRTIME_SUM } else { 1.0 };
            let allowed = if available < 1.0 { available } else { slack };
            if all > allowed {
                self.scaling = self.scaling.min((available / all).max(0.0));
            }
        }
        let reported = |f: &NeighbourState| f.one.map_or(1.0, |(_, o)| o.scaling);
        self.two.scaling = self.far.iter().map(reported).fold(self.scaling, f64::min);
        for i in 0..self.own.len() {
            let to = self.own[i].to;
            let theirs = self.far(to).and_then(|f| f.two).map_or(1.0, |(_, t)| t.scaling);
            self.own[i].scaling = self.two.scaling.min(theirs);
        }
    }

    /// Returns the values of this node and the link that packets to a neighbour carry.
    pub fn one(&self, o: &OwnLink) -> OneHop {
        OneHop {
            weight: o.weight(),
            largest: self.largest.max(o.weight()),
            used: o.used,
            reusable: o.reusable,
            airtime: o.airtime + o.airtime_back,
            available: self.available,
            scaling: self.scaling,
        }
    }

    /// Returns the gathered values that they carry.
    pub fn two(&self) -> TwoHop {
        TwoHop { largest: self.two.largest.max(self.two.weight), ..self.two }
    }
}
