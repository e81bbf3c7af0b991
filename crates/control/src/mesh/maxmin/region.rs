//! A node's knowledge of the nodes around it: levels and rates by circle.

use fairmesh_units::{NodeId, Span, Time};

use super::codec::{Circles, OuterValues, Values, least};

/// A neighbour, as far as it has reported.
#[derive(Clone, Copy, Debug)]
pub(super) struct Neighbour {
    pub id: NodeId,
    levels: Option<(Time, Circles)>,
    rates: Option<(Time, Circles)>,
    outer: Option<(Time, OuterValues)>,
    /// Time at which a packet for this node last came from there.
    pub came: Option<Time>,
    /// Time at which a packet last went there.
    pub went: Option<Time>,
}

impl Neighbour {
    fn new(id: NodeId) -> Self {
        Neighbour { id, levels: None, rates: None, outer: None, came: None, went: None }
    }

    /// True if it was received within the hold time.
    pub fn has_sent(&self) -> bool {
        self.levels.is_some()
    }
}

/// All neighbours.
#[derive(Clone, Debug)]
pub(super) struct Region {
    pub neighbours: Vec<Neighbour>,
    hold: Span,
}

impl Region {
    pub fn new(neighbours: impl Iterator<Item = NodeId>, hold: Span) -> Self {
        Region { neighbours: neighbours.map(Neighbour::new).collect(), hold }
    }

    /// Adds a neighbour that has reported nothing yet.
    pub fn add(&mut self, id: NodeId) {
        self.neighbours.push(Neighbour::new(id));
    }

    pub fn find(&mut self, id: NodeId) -> Option<&mut Neighbour> {
        self.neighbours.iter_mut().find(|n| n.id == id)
    }

    pub fn take_values(&mut self, now: Time, from: NodeId, reported: Values) {
        let Some(n) = self.find(from) else { return };
        match reported {
            Values::Levels(c) => n.levels = Some((now, c)),
            Values::Rates(c) => n.rates = Some((now, c)),
            Values::Outer(f) => n.outer = Some((now, f)),
        }
    }

    /// Removes values older than the hold time.
    pub fn forget(&mut self, now: Time) {
        let hold = self.hold;
        let fresh = |at: Time| now.since(at) < hold;
        for n in &mut self.neighbours {
            n.levels = n.levels.filter(|l| fresh(l.0));
            n.rates = n.rates.filter(|r| fresh(r.0));
            n.outer = n.outer.filter(|f| fresh(f.0));
            n.came = n.came.filter(|at| fresh(*at));
            n.went = n.went.filter(|at| fresh(*at));
        }
    }

    /// Returns the lowest level of each circle around a node with level `own`.
    pub fn levels(&self, own: u8) -> Circles {
        self.circles(own, least, |n| n.levels)
    }

    /// Returns the fastest flow of each circle around a node with the fastest flow `own`.
    pub fn rates(&self, own: u8) -> Circles {
        self.circles(own, u8::max, |n| n.rates)
    }

    /// Returns the fastest flow around the node or around its receivers.
    ///
    /// The node's level is for these flows.
    pub fn fastest(&self, own: u8) -> u8 {
        let receivers = self.neighbours.iter().filter(|n| n.went.is_some());
        let theirs = receivers.filter_map(|n| n.rates).map(|(_, c)| c.0[2]);
        theirs.fold(self.rates(own).0[2], u8::max)
    }

    /// Returns the next circle: the neighbours' values of their widest one.
    pub fn outer(&self, air: u8, level: u8, rate: u8) -> OuterValues {
        let levels = self.neighbours.iter().filter_map(|n| n.levels).map(|(_, c)| c.0[2]);
        let rates = self.neighbours.iter().filter_map(|n| n.rates).map(|(_, c)| c.0[2]);
        OuterValues { air, level: levels.fold(level, least), rate: rates.fold(rate, u8::max) }
    }

    /// Returns the circle after that.
    pub fn outermost(&self, own: OuterValues) -> OuterValues {
        let outer = self.neighbours.iter().filter_map(|n| n.outer).map(|(_, f)| f);
        outer.fold(own, |a, b| OuterValues {
            air: a.air.saturating_add(b.air),
            level: least(a.level, b.level),
            rate: a.rate.max(b.rate),
        })
    }

    fn circles(
        &self,
        own: u8,
        join: fn(u8, u8) -> u8,
        of: impl Fn(&Neighbour) -> Option<(Time, Circles)>,
    ) -> Circles {
        let reported = |n: &Neighbour| of(n).map_or([0; 3], |t| t.1.0);
        let senders = self.neighbours.iter().filter(|n| n.came.is_some());
        let into = senders.fold(own, |v, n| join(v, reported(n)[0]));
        let around =
            self.neighbours.iter().fold(into, |v, n| join(v, join(reported(n)[0], reported(n)[1])));
        Circles([own, into, around])
    }
}
