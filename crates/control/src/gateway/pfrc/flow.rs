//! What PFRC notes of a flow.

use fairmesh_units::BitRate;

use super::bursts::{Bursts, Verdict};
use super::constrained::Demand;
use crate::gateway::arc::bucket;
use crate::water_filling::Claim;

/// Weight, plan, limit, and what passed since the last evaluation.
#[derive(Clone, Debug)]
pub(super) struct Share {
    /// In the allocation.
    pub weight: f64,
    pub guarantee: f64,
    pub ceiling: f64,
    /// The limit in force, and whether the host has a class for it.
    pub limit: BitRate,
    pub class: bool,
    /// What it is expected to get of it, bit/s: b_i, or what it needs where that is less.
    pub expected: f64,
    /// Bits that passed and bits that were expected since the last evaluation, and the time in
    /// which they were measured.
    pub passed: f64,
    pub due: f64,
    pub seconds: f64,
    /// Active since the last evaluation.
    pub whole: bool,
    pub demand: Demand,
    /// With `+bursts`.
    pub bursts: Option<Bursts>,
}

impl Share {
    /// A flow that nobody has announced.
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

    /// What it may have.
    pub fn claim(&self) -> Claim {
        let most = self.ceiling.min(self.demand.known().unwrap_or(f64::INFINITY));
        Claim { weight: self.weight, least: self.guarantee.min(most), most }
    }

    /// What it counts for in the aggregate: of a flow that only sometimes sends, the part that it
    /// uses on average.
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

    /// r_i since the last evaluation.
    pub fn rate(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.passed / self.seconds)
    }

    /// r_i / b_i since the last evaluation.
    pub fn part(&self) -> Option<f64> {
        (self.due > 0.0).then(|| self.passed / self.due)
    }

    /// Line 2 of Algorithm 4, with `+bursts` by what it had while it sent.
    pub fn verdict(&mut self, part: f64, gamma: f64) -> Verdict {
        let Some(bursts) = &mut self.bursts else {
            return if part >= gamma { Verdict::Enough } else { Verdict::Starved };
        };
        let burst = bursts.verdict(gamma);
        // A flow that is starved, or has most of what it may, counts in full.
        let chose = matches!(burst, Verdict::Enough | Verdict::Unknown);
        bursts.learn(if part < gamma && chose { part } else { 1.0 });
        if part >= gamma { Verdict::Enough } else { burst }
    }

    /// Sets expectation and limit for a rate per weight; whether the limit is a new one.
    pub fn allow(&mut self, level: f64, headroom: Option<f64>) -> bool {
        self.expected = self.claim().at(level);
        let most = match self.demand.known() {
            // What it uses and a bit more, so that growing demand shows; its share at most.
            Some(need) => {
                let share =
                    Claim { weight: self.weight, least: self.guarantee, most: self.ceiling };
                share.at(level).min(need * (1.0 + headroom.unwrap_or(0.0))).max(self.guarantee)
            }
            None => self.expected,
        };
        let new = bucket(most);
        let old = core::mem::replace(&mut self.limit, new);
        // Changing a class costs a system call: less than a part in a thousand is no change.
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

    /// What a flow counts for after some epochs of seconds at these rates, kbit/s, of 200 allowed.
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
    fn who_chose_to_send_little_counts_for_what_it_sends_and_who_starves_in_full() {
        let pages = counts([0, 200, 200, 200, 0, 0, 0, 0, 0, 0], Verdict::Enough);
        assert!((pages - 0.3).abs() < 0.01, "{pages}");
        assert!(counts([20; 10], Verdict::Starved) > 0.99);
        assert!(counts([190; 10], Verdict::Enough) > 0.99, "it has most of what it may");
    }
}
