//! Test of targets: they fit if every flow receives its own when the sources are limited.

use super::bench::{Bench, HOPELESS_TARGET_FRACTION, Rates, Received};
use super::meter::Halt;
use super::settings::Settings;

/// Maximum ratio of a limit to its target.
/// Lost datagrams are not retransmitted, so the limit has to be higher.
const MOST_ROOM: f64 = 4.0;
/// Exponent of the growth of room with the missing fraction.
///
/// It is above 1 because additional datagrams are lost, too.
const ROOM_GROWTH_EXPONENT: f64 = 1.5;
/// Maximum number of corrections of room.
const MAX_CORRECTIONS: usize = 6;
/// Minimum relative reduction of the worst shortfall for another correction.
const MIN_SHORTFALL_REDUCTION: f64 = 0.15;
/// Excess over its target above which a flow's room is reduced, as a fraction of the target.
const TRIMMED_EXCESS: f64 = 0.03;
/// Maximum number of reductions of room.
const MAX_TRIMS: usize = 2;
/// Number of seeds that are tried first.
pub(super) const FIRST_SEEDS: usize = 2;
/// Worst shortfall up to which the other seeds are tried, in tolerances.
const PROMISING_SHORTFALL: f64 = 3.0;

/// Targets that fit.
#[derive(Clone, Debug)]
pub(super) struct Fit {
    pub targets: Rates,
    /// Limit over target, by flow.
    pub room: Vec<f64>,
    pub received: Received,
}

/// Tests of targets.
pub(super) struct Trials<'a> {
    pub bench: &'a Bench<'a>,
    pub settings: &'a Settings,
    /// Limit over target, by flow: allowance for losses that are not retransmitted.
    pub room: Vec<f64>,
}

impl<'a> Trials<'a> {
    pub fn new(bench: &'a Bench<'a>, settings: &'a Settings) -> Self {
        Trials { bench, settings, room: vec![1.0; bench.steady.flows.len()] }
    }

    /// Returns the received rates with present room under each of several targets.
    /// Runs are as long as `at` requires.
    pub fn receive(
        &self,
        targets: &[Rates],
        at: &[f64],
        seeds: &[u64],
    ) -> Result<Vec<Received>, Halt> {
        let limits: Vec<Rates> = targets.iter().map(|t| limits(t, &self.room)).collect();
        let limits: Vec<&[f64]> = limits.iter().map(Vec::as_slice).collect();
        self.bench.measure(&limits, at, seeds, 1.0)
    }

    /// Returns the rates received with the first seed under each of several targets.
    ///
    /// The lowest target is the last. Runs end early if a flow is far below its target.
    pub fn preview(&self, targets: &[Rates]) -> Result<Vec<Received>, Halt> {
        let all: Vec<Rates> = targets.iter().map(|t| limits(t, &self.room)).collect();
        self.bench.preview(&all, targets, self.settings.search[0])
    }

    /// Returns the fraction of its target that each flow with a target receives.
    /// Packets are whole: two may be missing. A shortfall within one standard error, and within half the tolerance,
    /// does not count.
    fn parts(&self, targets: &[f64], received: &Received, longer: f64) -> Vec<(f64, usize)> {
        let time = self.bench.measured(targets, longer);
        let part = |(m, target): (usize, &f64)| {
            let two = 16.0 * self.bench.steady.flows[m].payload / time;
            let noise = received.error(m).min(0.5 * self.settings.tolerance * target);
            ((received.mean[m] + two + noise) / target, m)
        };
        targets.iter().enumerate().filter(|(_, t)| **t > 0.0).map(part).collect()
    }

    /// Returns the smallest fraction of its target that any flow receives.
    pub fn worst(&self, targets: &[f64], received: &Received, longer: f64) -> f64 {
        let parts = self.parts(targets, received, longer);
        parts.into_iter().map(|p| p.0).fold(f64::INFINITY, f64::min)
    }

    /// Returns the flows that miss more than the tolerance, the worst first.
    fn short(&self, targets: &[f64], received: &Received, longer: f64) -> Vec<usize> {
        let mut parts = self.parts(targets, received, longer);
        parts.retain(|p| p.0 < 1.0 - self.settings.tolerance);
        parts.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        parts.into_iter().map(|p| p.1).collect()
    }

    /// Tests targets with as much room as they need.
    ///
    /// A few seeds are enough for a rejection. If it rejects, it returns the flows that miss more
    /// than the tolerance, the worst first.
    pub fn fits(
        &self,
        targets: &[f64],
        seeds: &[u64],
        longer: f64,
    ) -> Result<Result<Fit, Vec<usize>>, Halt> {
        let (first, others) = seeds.split_at(FIRST_SEEDS.min(seeds.len()));
        let tolerance = self.settings.tolerance;
        let mut room = self.room.clone();
        let mut before = 0.0;
        let mut hurt = Vec::new();
        for _ in 0..MAX_CORRECTIONS {
            let limits = limits(targets, &room);
            let measure = |seeds| self.bench.measure(&[&limits], targets, seeds, longer);
            let mut received = measure(first)?.remove(0);
            let mut part = self.worst(targets, &received, longer);
            if part >= 1.0 - PROMISING_SHORTFALL * tolerance && !others.is_empty() {
                received = received.and(measure(others)?.remove(0));
                part = self.worst(targets, &received, longer);
            }
            if part >= 1.0 - tolerance {
                let fit = Fit { targets: targets.to_vec(), room, received };
                return Ok(Ok(self.trim(fit, seeds, longer)?));
            }
            hurt = self.short(targets, &received, longer);
            let was = room.clone();
            self.correct(&mut room, targets, &received.mean);
            let idle = part < before + MIN_SHORTFALL_REDUCTION * (1.0 - before) || room == was;
            if part < HOPELESS_TARGET_FRACTION || idle {
                break;
            }
            before = part;
        }
        Ok(Err(hurt))
    }

    /// Reduces the room of flows that receive more than their targets, while the rest fits too.
    ///
    /// Other flows miss the excess of these flows.
    fn trim(&self, mut fit: Fit, seeds: &[u64], longer: f64) -> Result<Fit, Halt> {
        for _ in 0..MAX_TRIMS {
            let mut less = fit.room.clone();
            let room = &fit.room;
            let over = |m: usize| {
                room[m] > 1.0 && fit.received.mean[m] > (1.0 + TRIMMED_EXCESS) * fit.targets[m]
            };
            for m in (0..room.len()).filter(|&m| over(m)) {
                less[m] = (room[m] * fit.targets[m] / fit.received.mean[m]).max(1.0);
            }
            if less == fit.room {
                break;
            }
            let limits = limits(&fit.targets, &less);
            let received = self.bench.measure(&[&limits], &fit.targets, seeds, longer)?.remove(0);
            let part = self.worst(&fit.targets, &received, longer);
            if part < 1.0 - self.settings.tolerance {
                break;
            }
            (fit.room, fit.received) = (less, received);
        }
        Ok(fit)
    }

    /// Stores the room of targets that fit.
    pub fn learn(&mut self, fit: &Fit) {
        let mut room = fit.room.clone();
        self.correct(&mut room, &fit.targets, &fit.received.mean);
        self.room = room;
    }

    /// Updates the room from the rates received with present room.
    pub fn learn_from(&mut self, targets: &[f64], received: &[f64]) {
        let mut room = self.room.clone();
        self.correct(&mut room, targets, received);
        self.room = room;
    }

    /// Corrects the room of datagrams.
    ///
    /// The room is increased if a flow receives less than its target, and reduced otherwise.
    ///
    /// A stream needs no room: it retransmits losses, and its application then catches up.
    fn correct(&self, room: &mut [f64], targets: &[f64], received: &[f64]) {
        let flows = room.iter_mut().zip(&self.bench.steady.flows);
        for ((room, flow), (target, got)) in flows.zip(targets.iter().zip(received)) {
            if flow.datagrams {
                *room = corrected(*room, *target, *got);
            }
        }
    }
}

/// Returns the limits that leave room above targets.
pub(super) fn limits(targets: &[f64], room: &[f64]) -> Rates {
    targets.iter().zip(room).map(|(t, r)| t * r).collect()
}

/// Returns the room for a flow that was to receive `target` and received `got`.
fn corrected(room: f64, target: f64, got: f64) -> f64 {
    if !(target > 0.0 && got > 0.0) {
        return room;
    }
    let missing = target / got;
    let factor = if missing > 1.0 { missing.powf(ROOM_GROWTH_EXPONENT) } else { missing };
    (room * factor).clamp(1.0, MOST_ROOM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headroom_follows_the_shortfall_within_bounds() {
        assert!((corrected(1.0, 100.0, 80.0) - 1.25f64.powf(1.5)).abs() < 1e-12, "ahead of it");
        assert!((corrected(1.2, 100.0, 110.0) - 1.2 / 1.1).abs() < 1e-12);
        assert_eq!(corrected(1.0, 100.0, 120.0), 1.0, "never below the target");
        assert_eq!(corrected(2.0, 0.0, 50.0), 2.0, "nothing was asked for");
        assert_eq!(corrected(1.0, 10.0, 1.0), MOST_ROOM);
    }
}
