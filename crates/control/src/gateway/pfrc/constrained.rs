//! Distinction between a demand-limited flow and a starved one.
//!
//! At the gateway both are below their limit. Plain PFRC counts every such flow as starved, and a single
//! audio stream lowers the whole mesh to the lower bound (Jamshaid 2010 §8.2.4, Table 8.3). The reaction to a
//! decrease differs: a starved flow gets more when the others get less; a demand-limited one continues as
//! before.
//!
//! The demand of a flow is known after misses of its allocation at a constant rate, within a tenth and a packet,
//! - three times, though the aggregate went down after each;
//! - twice, if the aggregate is at the lower bound and cannot go down. Once would suffice if that bound were strict. It
//!   is not, but a starved TCP is erratic, and a demand is steady; or
//! - once, if this was its demand before.
//!
//! Its satisfaction between the misses does not matter, as long as it left some of its limit unused. It then
//! counts with its demand in the allocation and has a limit with some headroom. When it fills that limit, its
//! demand counts double, and so on until it has its share: an elastic flow regains its share in a few epochs,
//! and a flow that only drained a backlog misses its new allocation and is classified again. A flow below γ
//! of its demand is protected like any other.

/// Number of misses at one rate that establish a demand.
const DEMAND_MISSES: u32 = 3;
/// Number of misses at the lower bound.
const MISSES_AT_BOUND: u32 = 2;
/// Relative difference up to which rates count as equal, on top of a packet.
const EQUAL_RATE_TOLERANCE: f64 = 0.1;
/// Fraction of its limit from which a flow fills it.
const FILLED_FRACTION: f64 = 0.95;
/// Factor by which a demand grows when it fills its limit.
const DEMAND_GROWTH: f64 = 2.0;
/// Size of a packet, in bits.
const PACKET_BITS: f64 = 12_000.0;

/// Knowledge of a flow's demand.
#[derive(Clone, Default, Debug)]
pub(super) struct Demand {
    /// Demand with which it counts.
    need: Option<f64>,
    /// Last demand established by misses; 0 if there was none.
    established: f64,
    /// Rate at the first of the misses.
    rate: f64,
    /// Number of misses at that rate.
    misses: u32,
}

/// A flow in one evaluation.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowSample {
    /// Throughput, in bit/s.
    pub rate: f64,
    /// Time of measurement, in s.
    pub seconds: f64,
    /// Limit in force, in bit/s.
    pub limit: f64,
}

impl FlowSample {
    fn same_as(&self, rate: f64) -> bool {
        (self.rate - rate).abs() <= EQUAL_RATE_TOLERANCE * rate + PACKET_BITS / self.seconds
    }
    fn fills(&self) -> bool {
        self.rate >= FILLED_FRACTION * self.limit
    }
}

impl Demand {
    /// Returns the demand, bit/s, if it is known to be less than the share.
    pub fn known(&self) -> Option<f64> {
        self.need
    }

    /// Records that the flow has its expected rate; `share`: its rate if not limited by demand.
    pub fn met(&mut self, seen: FlowSample, share: f64) {
        if seen.fills() || !seen.same_as(self.rate) {
            self.misses = 0;
        }
        if let Some(need) = self.need {
            let more = if seen.fills() { DEMAND_GROWTH * need } else { need.max(seen.rate) };
            self.need = (more < share).then_some(more);
        }
    }

    /// Records a shortfall; returns true if the flow needs no more than it has.
    pub fn missed(&mut self, seen: FlowSample, at_bound: bool) -> bool {
        if self.misses > 0 && seen.same_as(self.rate) {
            self.misses += 1;
        } else {
            (self.rate, self.misses) = (seen.rate, 1);
        }
        // An idle flow has no demand; it ends after some epochs.
        if seen.rate <= 0.0 {
            return false;
        }
        let enough = if at_bound { MISSES_AT_BOUND } else { DEMAND_MISSES };
        let repeated = self.established > 0.0 && seen.same_as(self.established);
        if self.misses >= enough {
            self.established = seen.rate;
        } else if !repeated {
            return false;
        }
        self.need = Some(self.established);
        self.misses = 0;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(rate: f64, limit: f64) -> FlowSample {
        FlowSample { rate, seconds: 1e9, limit }
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
    fn at_the_lower_bound_two_equal_misses_are_a_sign() {
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
        let slow = |packets: f64| FlowSample { rate: packets * 1200.0, seconds: 10.0, limit: 1e5 };
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
        // It had only caught up: the demand is known at once.
        assert!(d.missed(seen(103.0, 400.0), false));
        assert_eq!(d.known(), Some(100.0));
    }
}
