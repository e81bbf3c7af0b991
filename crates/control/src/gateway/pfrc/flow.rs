//! PFRC's state of a flow.

use fairmesh_units::BitRate;

use super::bursts::{Bursts, Verdict};
use super::constrained::Demand;
use crate::gateway::arc::bucket;
use crate::water_filling::Claim;

/// Weight, plan, limit, and throughput since the last evaluation.
#[derive(Clone, Debug)]
pub(super) struct Share {
    /// Weight in the allocation.
    pub weight: f64,
    pub guarantee: f64,
    pub ceiling: f64,
    /// Limit in force.
    pub limit: BitRate,
    /// True if the host has a class for the flow.
    pub class: bool,
    /// Expected rate, bit/s: b_i, or its demand if that is less.
    pub expected: f64,
    /// Bits that passed since the last evaluation.
    pub passed: f64,
    /// Bits that were expected since the last evaluation.
    pub due: f64,
    /// Time in which they were measured, in s.
    pub seconds: f64,
    /// True if active since the last evaluation.
    pub whole: bool,
    pub demand: Demand,
    /// State of `+bursts`.
    pub bursts: Option<Bursts>,
}

impl Share {
    /// An unannounced flow.
    pub fn new(bursts: bool) -> Self {
        Share {
            weight: 1.0,
            guarantee: 0.0,
            ceiling: f64::INFINITY,
            limit: BitRate(0),
            class: false,
            expected: 0.0,
            passed: 0.0,
            due: 0.0,
            seconds: 0.0,
            whole: false,
            demand: Demand::default(),
            bursts: bursts.then(Bursts::default),
        }
    }

    /// Returns its claim on the aggregate.
    pub fn claim(&self) -> Claim {
        let most = self.ceiling.min(self.demand.known().unwrap_or(f64::INFINITY));
        Claim { weight: self.weight, least: self.guarantee.min(most), most }
    }

    /// Returns its contribution to the aggregate: its average share if it sends only at times.
    pub fn counted(&self) -> Claim {
        let claim = self.claim();
        match self.bursts.as_ref().map(Bursts::duty) {
            Some(duty) => Claim {
                weight: claim.weight * duty,
                most: (claim.most * duty).max(claim.least),
                ..claim
            },
            None => claim,
        }
    }

    /// Returns r_i since the last evaluation.
    pub fn rate(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.passed / self.seconds)
    }

    /// Returns r_i / b_i since the last evaluation.
    pub fn part(&self) -> Option<f64> {
        (self.due > 0.0).then(|| self.passed / self.due)
    }

    /// Evaluates line 2 of Algorithm 4; with `+bursts` by the rate while it sent.
    pub fn verdict(&mut self, part: f64, gamma: f64) -> Verdict {
        let Some(bursts) = &mut self.bursts else {
            return if part >= gamma { Verdict::Enough } else { Verdict::Starved };
        };
        let burst = bursts.verdict(gamma);
        // A flow that is starved, or has most of its allocation, counts in full.
        let chose = matches!(burst, Verdict::Enough | Verdict::Unknown);
        bursts.learn(if part < gamma && chose { part } else { 1.0 });
        if part >= gamma { Verdict::Enough } else { burst }
    }

    /// Sets expectation and limit for a rate per weight; returns true if the limit has changed.
    pub fn allow(&mut self, level: f64, headroom: Option<f64>) -> bool {
        self.expected = self.claim().at(level);
        let most = match self.demand.known() {
            // Its demand and some headroom, so that a growing demand shows; its share at most.
            Some(need) => {
                let share =
                    Claim { weight: self.weight, least: self.guarantee, most: self.ceiling };
                share.at(level).min(need * (1.0 + headroom.unwrap_or(0.0))).max(self.guarantee)
            }
            None => self.expected,
        };
        let new = bucket(most);
        let old = core::mem::replace(&mut self.limit, new);
        // Changing a class costs a system call: less than a part in a thousand is not a change.
        let changed = new.0.abs_diff(old.0) > old.0 / 1000;
        if !changed {
            self.limit = old;
        }
        changed
    }

    pub fn restart(&mut self, active: bool) {
        (self.passed, self.due, self.seconds, self.whole) = (0.0, 0.0, 0.0, active);
        if let Some(bursts) = &mut self.bursts {
            bursts.restart();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the weight of a flow after epochs at these rates, kbit/s, with 200 allowed.
    fn counts(kbps: [u64; 10], verdict: Verdict) -> f64 {
        let mut share = Share::new(true);
        for _ in 0..20 {
            let mut moved = 0;
            let part = kbps.iter().sum::<u64>() as f64 / 2000.0;
            for rate in kbps {
                moved += rate * 1000 / 8;
                share.bursts.as_mut().unwrap().glance(moved, 200_000.0);
            }
            assert_eq!(share.verdict(part, 0.7), verdict);
            share.bursts.as_mut().unwrap().looked();
            share.bursts.as_mut().unwrap().restart();
        }
        share.bursts.unwrap().duty()
    }

    #[test]
    fn demand_limited_flows_count_by_their_rate_and_starved_flows_in_full() {
        let pages = counts([0, 200, 200, 200, 0, 0, 0, 0, 0, 0], Verdict::Enough);
        assert!((pages - 0.3).abs() < 0.01, "{pages}");
        assert!(counts([20; 10], Verdict::Starved) > 0.99);
        assert!(counts([190; 10], Verdict::Enough) > 0.99, "it has most of what it may");
    }
}
