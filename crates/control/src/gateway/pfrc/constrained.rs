//! Telling a flow that needs little from one that is starved.
//!
//! At the gateway both look the same: less passes than is allowed. Plain PFRC takes every such flow
//! for a starved one, and the whole mesh goes down to the lower bound because somebody listens to
//! the radio (Jamshaid 2010 §8.2.4, Table 8.3). What differs is the answer to a decrease: a starved
//! flow gets more when the others get less; one that needs little goes on as before.
//!
//! A flow is taken to need what it uses once it has missed its allocation and used the same all the
//! time, within a tenth and a packet,
//! - three times, though the aggregate went down after each;
//! - twice, if the aggregate is at the lower bound and cannot go down. Once would do if that bound
//!   were a law. It is not, but a starved TCP is erratic, and a need is steady; or
//! - once, if this is what it needed before.
//!
//! Whether what it has was enough between the misses does not matter, as long as it left some of
//! its limit. It then counts with its need in the allocation and has a limit with some room above.
//! When it fills that limit its need counts double, and so on until it has its share: an elastic flow
//! is back in a few epochs, and one that only caught up with a backlog misses its new allocation
//! and is known again. A flow below γ of its need is protected like any other.

/// Misses at one rate that tell a need, and fewer at the lower bound.
const MISSES: u32 = 3;
const MISSES_AT_BOUND: u32 = 2;
/// Part by which equal rates may differ, on top of a packet.
const EQUAL: f64 = 0.1;
/// Part of its limit from which a flow fills it.
const FULL: f64 = 0.95;
/// By how much a need grows that fills its limit.
const GROWTH: f64 = 2.0;
/// A packet, bits.
const PACKET: f64 = 12_000.0;

/// What is known of a flow's need.
#[derive(Clone, Default, Debug)]
pub(super) struct Demand {
    /// What it counts with.
    need: Option<f64>,
    /// The last need that was told by misses; 0 if there was none.
    told: f64,
    /// The rate at the first of the misses, and how many there were at that rate.
    rate: f64,
    misses: u32,
}

/// A flow in one evaluation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// What passed, bit/s.
    pub rate: f64,
    /// Over this many seconds.
    pub seconds: f64,
    /// What it might have had.
    pub limit: f64,
}

impl Seen {
    fn same_as(&self, rate: f64) -> bool {
        (self.rate - rate).abs() <= EQUAL * rate + PACKET / self.seconds
    }
    fn fills(&self) -> bool {
        self.rate >= FULL * self.limit
    }
}

impl Demand {
    /// What it needs, bit/s, if that is known to be less than its share.
    pub fn known(&self) -> Option<f64> {
        self.need
    }

    /// It got what it was expected to; `share` is what it would have if it needed no less.
    pub fn met(&mut self, seen: Seen, share: f64) {
        if seen.fills() || !seen.same_as(self.rate) {
            self.misses = 0;
        }
        if let Some(need) = self.need {
            let more = if seen.fills() { GROWTH * need } else { need.max(seen.rate) };
            self.need = (more < share).then_some(more);
        }
    }

    /// It got too little; whether that is all it needs.
    pub fn missed(&mut self, seen: Seen, at_bound: bool) -> bool {
        if self.misses > 0 && seen.same_as(self.rate) {
            self.misses += 1;
        } else {
            (self.rate, self.misses) = (seen.rate, 1);
        }
        // Silence is no need; it ends the flow in time.
        if seen.rate <= 0.0 {
            return false;
        }
        let enough = if at_bound { MISSES_AT_BOUND } else { MISSES };
        let told_before = self.told > 0.0 && seen.same_as(self.told);
        if self.misses >= enough {
            self.told = seen.rate;
        } else if !told_before {
            return false;
        }
        self.need = Some(self.told);
        self.misses = 0;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(rate: f64, limit: f64) -> Seen {
        Seen { rate, seconds: 1e9, limit }
    }

    #[test]
    fn a_flow_that_does_not_answer_needs_no_more() {
        let mut d = Demand::default();
        assert!(!d.missed(seen(100.0, 200.0), false));
        assert!(!d.missed(seen(95.0, 180.0), false));
        d.met(seen(98.0, 130.0), 130.0);
        assert_eq!(d.known(), None);
        assert!(d.missed(seen(105.0, 150.0), false));
        assert_eq!(d.known(), Some(105.0));
    }

    #[test]
    fn a_starved_flow_answers() {
        let mut d = Demand::default();
        for rate in [100.0, 120.0, 150.0, 180.0, 220.0] {
            assert!(!d.missed(seen(rate, 400.0), false));
        }
        d.met(seen(300.0, 300.0), 300.0);
        assert_eq!(d.known(), None);
        for _ in 0..5 {
            assert!(!d.missed(seen(100.0, 200.0), false));
            d.met(seen(105.0, 108.0), 108.0);
        }
    }

    #[test]
    fn at_the_lower_bound_two_equal_misses_tell() {
        let mut d = Demand::default();
        assert!(!d.missed(seen(10.0, 100.0), true));
        assert!(!d.missed(seen(30.0, 100.0), true), "erratic: starved");
        assert!(d.missed(seen(31.0, 100.0), true));
        let mut silent = Demand::default();
        assert!((0..9).all(|_| !silent.missed(seen(0.0, 100.0), true)), "silence is no need");
    }

    #[test]
    fn slow_flows_may_differ_by_a_packet() {
        let mut d = Demand::default();
        let slow = |packets: f64| Seen { rate: packets * 1200.0, seconds: 10.0, limit: 1e5 };
        d.missed(slow(5.0), true);
        assert!(d.missed(slow(6.0), true));
    }

    #[test]
    fn a_need_that_fills_its_limit_doubles_up_to_the_share() {
        let mut d = Demand::default();
        d.missed(seen(100.0, 400.0), true);
        d.missed(seen(100.0, 400.0), true);
        d.met(seen(110.0, 125.0), 400.0);
        assert_eq!(d.known(), Some(110.0));
        d.met(seen(100.0, 137.5), 400.0);
        assert_eq!(d.known(), Some(110.0), "a quiet moment");
        d.met(seen(137.0, 137.5), 400.0);
        assert_eq!(d.known(), Some(220.0));
        d.met(seen(275.0, 275.0), 400.0);
        assert_eq!(d.known(), None, "an elastic flow");
        // It had only caught up: the need is known at once.
        assert!(d.missed(seen(103.0, 400.0), false));
        assert_eq!(d.known(), Some(100.0));
    }
}
