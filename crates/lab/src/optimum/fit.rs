//! Whether targets fit: whether every flow receives its own when the sources are limited.

use super::bench::{Bench, Rates, Received};
use super::settings::{OptimumError, Settings};

/// A limit is at most so many times what is to be received. Much of it serves a flow that the air
/// holds back anyway: it then sends whenever it can.
const MOST_ROOM: f64 = 4.0;
/// By which power of what is missing room grows: a flow that loses its place for a while has to
/// catch up in the rest of the time.
const HASTE: f64 = 2.5;
/// Times that room is corrected.
const CORRECTIONS: usize = 6;
/// It goes on while what the worst misses shrinks by this part.
const LEARNS: f64 = 0.15;
/// Room is taken back from who receives more than its target by this part; how often.
const OVER: f64 = 0.03;
const TRIMS: usize = 2;
/// Who receives less of its target is not helped by more room.
const HOPELESS: f64 = 0.5;
/// Seeds that are tried first, and how many tolerances the worst may miss for the others to be
/// tried.
const FIRST: usize = 2;
const NEAR: f64 = 2.0;

/// Targets that fitted.
#[derive(Clone, Debug)]
pub(super) struct Fit {
    pub targets: Rates,
    /// Limit over target, by flow.
    pub room: Vec<f64>,
    pub received: Received,
}

/// Tries targets.
pub(super) struct Trials<'a> {
    pub bench: &'a Bench<'a>,
    pub settings: &'a Settings,
    /// Limit over target, by flow: what is lost and sent again on the way.
    pub room: Vec<f64>,
}

impl<'a> Trials<'a> {
    pub fn new(bench: &'a Bench<'a>, settings: &'a Settings) -> Self {
        Trials { bench, settings, room: vec![1.0; bench.steady.flows.len()] }
    }

    /// What is received with present room under each of several targets, in runs as long as `at`
    /// asks for.
    pub fn receive(
        &self,
        targets: &[Rates],
        at: &[f64],
        seeds: &[u64],
    ) -> Result<Vec<Received>, OptimumError> {
        let limits: Vec<Rates> = targets.iter().map(|t| limits(t, &self.room)).collect();
        let limits: Vec<&[f64]> = limits.iter().map(Vec::as_slice).collect();
        self.bench.measure(&limits, at, seeds, 1.0)
    }

    /// The smallest part of its target that any flow receives, and which one. Packets are whole:
    /// two may be missing.
    pub fn worst(&self, targets: &[f64], received: &[f64], longer: f64) -> (f64, usize) {
        let time = longer * self.bench.duration(targets);
        let part = |(m, target): (usize, &f64)| {
            let two = 16.0 * self.bench.steady.flows[m].payload / time;
            ((received[m] + two) / target, m)
        };
        let asked = targets.iter().enumerate().filter(|(_, t)| **t > 0.0);
        asked.map(part).fold((f64::INFINITY, 0), |a, b| if b.0 < a.0 { b } else { a })
    }

    /// Tries targets, with as much room as they turn out to need. A few seeds are enough to say no.
    pub fn fits(
        &self,
        targets: &[f64],
        seeds: &[u64],
        longer: f64,
    ) -> Result<Result<Fit, usize>, OptimumError> {
        let (first, others) = seeds.split_at(FIRST.min(seeds.len()));
        let tolerance = self.settings.tolerance;
        let mut room = self.room.clone();
        let mut before = 0.0;
        let mut hurt = 0;
        for _ in 0..CORRECTIONS {
            let limits = limits(targets, &room);
            let measure = |seeds| self.bench.measure(&[&limits], targets, seeds, longer);
            let mut received = measure(first)?.remove(0);
            let (mut part, mut who) = self.worst(targets, &received.mean, longer);
            if part >= 1.0 - NEAR * tolerance && !others.is_empty() {
                received = received.and(measure(others)?.remove(0));
                (part, who) = self.worst(targets, &received.mean, longer);
            }
            if part >= 1.0 - tolerance {
                let fit = Fit { targets: targets.to_vec(), room, received };
                return Ok(Ok(self.trim(fit, seeds, longer)?));
            }
            hurt = who;
            if part < HOPELESS || part < before + LEARNS * (1.0 - before) {
                break;
            }
            before = part;
            correct(&mut room, targets, &received.mean);
        }
        Ok(Err(hurt))
    }

    /// Takes room from flows that receive more than their targets, as long as the rest then fits as
    /// well: what they have too much is missing elsewhere.
    fn trim(&self, mut fit: Fit, seeds: &[u64], longer: f64) -> Result<Fit, OptimumError> {
        for _ in 0..TRIMS {
            let mut room = fit.room.clone();
            let over = |m: usize| fit.received.mean[m] > (1.0 + OVER) * fit.targets[m];
            for m in (0..room.len()).filter(|&m| over(m)) {
                room[m] = (room[m] * fit.targets[m] / fit.received.mean[m]).max(1.0);
            }
            if room == fit.room {
                break;
            }
            let limits = limits(&fit.targets, &room);
            let received = self.bench.measure(&[&limits], &fit.targets, seeds, longer)?.remove(0);
            let (part, _) = self.worst(&fit.targets, &received.mean, longer);
            if part < 1.0 - self.settings.tolerance {
                break;
            }
            (fit.room, fit.received) = (room, received);
        }
        Ok(fit)
    }

    /// Learns from what fitted.
    pub fn learn(&mut self, fit: &Fit) {
        self.room.clone_from(&fit.room);
        correct(&mut self.room, &fit.targets, &fit.received.mean);
    }

    /// Learns from what was received with present room.
    pub fn learn_from(&mut self, targets: &[f64], received: &[f64]) {
        correct(&mut self.room, targets, received);
    }
}

/// The limits that leave room above targets.
pub(super) fn limits(targets: &[f64], room: &[f64]) -> Rates {
    targets.iter().zip(room).map(|(t, r)| t * r).collect()
}

/// More room for flows that receive less than their targets, less for those that receive more.
fn correct(room: &mut [f64], targets: &[f64], received: &[f64]) {
    for (room, (target, got)) in room.iter_mut().zip(targets.iter().zip(received)) {
        if *target > 0.0 && *got > 0.0 {
            let missing = target / got;
            let factor = if missing > 1.0 { missing.powf(HASTE) } else { missing };
            *room = (*room * factor).clamp(1.0, MOST_ROOM);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_follows_what_is_missing_within_bounds() {
        let mut room = vec![1.0, 1.2, 1.0, 2.0, 1.0];
        correct(&mut room, &[100.0, 100.0, 100.0, 0.0, 10.0], &[80.0, 110.0, 120.0, 50.0, 1.0]);
        assert!((room[0] - 1.25f64.powf(2.5)).abs() < 1e-12, "ahead of what is missing");
        assert!((room[1] - 1.2 / 1.1).abs() < 1e-12);
        assert_eq!(room[2], 1.0, "never below the target");
        assert_eq!(room[3], 2.0, "nothing was asked for");
        assert_eq!(room[4], MOST_ROOM);
    }
}
