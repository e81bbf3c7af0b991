//! Progressive filling.
//!
//! All flows are raised together, flows that cannot rise alone are fixed, and the rest is raised
//! further.

use std::collections::BTreeMap;

use super::bench::{Bench, Rates, Received};
use super::bound::Bound;
use super::error::OptimumError;
use super::fit::{FIRST_SEEDS, Fit, Trials, limits};
use super::groups::{Groups, Stop};
use super::meter::Halt;
use super::rise::{LEARNING_LEVELS, RisenLevel, floor, rise};
use super::settings::{Group, Settings};

/// Relative raise of a flow in a test for a rise: minimum and maximum.
///
/// If n flows share a bottleneck, a raise of one of them loads it by only an n-th of the raise.
const RAISE_RANGE: (f64, f64) = (0.2, 1.0);
/// Addition to the raise per growing flow, up to the maximum of `RAISE_RANGE`.
const RAISE_EACH: f64 = 0.05;
/// Ratio of the losses of other flows to the gain of a raise above which the raise fails.
const MAX_LOSS_TO_GAIN: f64 = 1.0 / 3.0;
/// Ratio of losses to gain for the second half of a raise of twice the size.
const MARGINAL_PRICE: f64 = 0.5;
/// Fraction of its intended gain below which a raise fails.
const MIN_GAIN_FRACTION: f64 = 0.5;
/// Score of the first runs above which a raise fails; 1 is the limit.
const FAILING_SCORE: f64 = 1.5;
/// Score up to which a raise succeeds after `EARLY_SUCCESS_SEEDS` seeds.
const EARLY_SUCCESS_SCORE: f64 = 0.5;
/// Number of seeds after which a score up to `EARLY_SUCCESS_SCORE` decides.
const EARLY_SUCCESS_SEEDS: usize = 3;
/// Relative difference below which two levels count as the same tested level.
const SAME_LEVEL_TOLERANCE: f64 = 0.03;
/// Fraction of its target at the lowest level below which a flow counts as receiving nothing.
const STARVED_TARGET_FRACTION: f64 = 0.5;
/// Factor between the lengths of runs of the check and of the search.
pub(super) const CHECK_LENGTH_FACTOR: f64 = 2.0;
/// Relative reduction of a flow that the check finds short, and of all with as high a rate.
const SHORTFALL_REDUCTION: f64 = 0.02;
/// Maximum number of reductions.
const MAX_REDUCTIONS: usize = 15;
/// Fraction of the check's seeds that is enough before the last check.
const EARLY_CHECK_FRACTION: f64 = 0.5;
/// Relative raise at the end for flows that cannot rise by twice as much.
const LAST_RAISE: f64 = 0.25;
/// Maximum number of last raises of each flow.
const MAX_LAST_RAISES: usize = 4;
/// Minimum gain of a last raise.
///
/// It is lower than `MIN_GAIN_FRACTION` because losses limit a flow gradually.
const LAST_GAIN: f64 = 0.4;
/// Packet rate below which a stream has idle times that ten runs may miss, in 1/s.
///
/// They are retransmission timeouts that double up to a minute. Such streams are judged by a
/// multiple of the check's runs.
const SLOW_STREAM_PPS: f64 = 10.0;
/// Number of runs of such a stream, in multiples of the check's seeds.
const SLOW_STREAM_RUNS: u64 = 5;
/// Offset of the seeds of these runs, so that no other run uses them.
const SLOW_STREAM_SEED_OFFSET: u64 = 1_000_000;
/// Divisor of the remaining budget for tests of individual flows.
const FLOW_TEST_BUDGET_DIVISOR: usize = 2;
/// Relative difference below which levels count as equal.
///
/// A flow within it has no higher rate.
const EQUAL_LEVEL_TOLERANCE: f64 = 0.05;

/// Results, by flow of the stretch.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// The vector.
    pub targets: Rates,
    pub limits: Rates,
    /// Received rates of the check.
    pub received: Rates,
    pub stops: Vec<Stop>,
    /// True if it ended before all tests.
    pub bounded: bool,
}

/// A vector that was measured with the check's seeds.
struct Checked {
    targets: Rates,
    limits: Rates,
    received: Received,
    stops: Vec<Stop>,
}

/// The search in one stretch.
pub(super) struct Search<'a> {
    trials: Trials<'a>,
    groups: Groups,
    bound: Bound,
    risen: RisenLevel,
    /// The level of the last tests for a rise, and the flows' scores.
    scored: (f64, BTreeMap<usize, f64>),
    checked: Option<Checked>,
    bounded: bool,
}

impl<'a> Search<'a> {
    pub fn new(bench: &'a Bench<'a>, groups: &[Group], settings: &'a Settings) -> Self {
        Search {
            trials: Trials::new(bench, settings),
            groups: Groups::new(&bench.steady.flows, groups),
            bound: Bound::new(&bench.steady.scenario),
            risen: RisenLevel::default(),
            scored: (0.0, BTreeMap::new()),
            checked: None,
            bounded: false,
        }
    }

    /// Searches within its budget, and measures the result.
    ///
    /// `stretches` is the number of stretches not yet searched, including this one.
    pub fn run(mut self, stretches: usize) -> Result<Found, OptimumError> {
        let meter = self.trials.bench.meter;
        let all = meter.share(stretches);
        let done = self.search();
        meter.allow(all);
        let last = done.and_then(|()| self.judge());
        match last {
            Ok(()) => {}
            Err(Halt::Failed(e)) => return Err(e),
            Err(Halt::Spent) => {
                self.bounded = true;
                let last = if self.checked.is_none() { self.as_far() } else { Ok(()) };
                match last.and_then(|()| self.judge()) {
                    Ok(()) | Err(Halt::Spent) => {}
                    Err(Halt::Failed(e)) => return Err(e),
                }
            }
        }
        let Some(Checked { targets, limits, received, stops }) = self.checked else {
            unreachable!("what ends a search leaves a vector")
        };
        // A gain that noise may have caused is not counted.
        let noisy = 0.5 * self.trials.settings.tolerance;
        let sure = |(m, &target): (usize, &f64)| {
            let sure = received.error(m) <= noisy * target;
            if sure { target } else { target.min(received.mean[m]) }
        };
        Ok(Found {
            targets: targets.iter().enumerate().map(sure).collect(),
            limits,
            received: received.mean,
            stops,
            bounded: self.bounded,
        })
    }

    fn search(&mut self) -> Result<(), Halt> {
        self.fill()?;
        self.check(EARLY_CHECK_FRACTION)?;
        self.polish()
    }

    /// Raises and fixes flows until all are fixed.
    fn fill(&mut self) -> Result<(), Halt> {
        while !self.groups.open().is_empty() {
            rise(&mut self.trials, &self.groups, &self.bound, &mut self.risen)?;
            let fit = match &self.risen.fit {
                Some(fit) => fit.clone(),
                None if self.risen.level > 0.0 => {
                    self.at(&self.groups.targets(self.risen.level))?
                }
                None => {
                    self.give_up()?;
                    continue;
                }
            };
            self.fix(&fit)?;
        }
        Ok(())
    }

    /// Ends a search that never reached its check.
    ///
    /// Growing flows get the level that was reached. The result is the rate that each flow then
    /// receives.
    fn as_far(&mut self) -> Result<(), Halt> {
        let level = match self.risen.level {
            0.0 => floor(&self.trials, &self.groups),
            level => level,
        };
        let reached = self.groups.targets(level);
        for m in self.groups.open() {
            self.groups.fix(m, reached[m], Stop::Effort);
        }
        let targets = self.groups.targets(0.0);
        let (bench, seeds) = (self.trials.bench, &self.trials.settings.check);
        let affords = |longer| bench.meter.affords(bench.lasts(&targets, longer).1);
        let longer =
            if affords(CHECK_LENGTH_FACTOR) < seeds.len() { 1.0 } else { CHECK_LENGTH_FACTOR };
        let runs = affords(longer).clamp(1, seeds.len());
        // At least one run: there is no other result.
        bench.meter.allow(u64::MAX);
        self.received(targets, runs, longer)
    }

    /// Replaces the vector by the rates received under targets.
    ///
    /// `runs` is the number of the check's seeds.
    fn received(&mut self, targets: Rates, runs: usize, longer: f64) -> Result<(), Halt> {
        let limits = limits(&targets, &self.trials.room);
        let seeds = &self.trials.settings.check[..runs];
        let received = self.trials.bench.measure(&[&limits], &targets, seeds, longer)?.remove(0);
        let least = |(t, r): (&f64, &f64)| r.min(*t);
        let targets = targets.iter().zip(&received.mean).map(least).collect();
        self.keep(targets, limits, received);
        Ok(())
    }

    fn keep(&mut self, targets: Rates, limits: Rates, received: Received) {
        let stops = self.groups.fixed().iter().map(|f| f.map_or(Stop::Air, |f| f.why)).collect();
        self.checked = Some(Checked { targets, limits, received, stops });
    }

    /// Reduces slow streams to the rate received with many more seeds if the check measured more.
    fn judge(&mut self) -> Result<(), Halt> {
        let Some(found) = &mut self.checked else { return Ok(()) };
        let flows = &self.trials.bench.steady.flows;
        let slow = |&m: &usize| {
            let packets = found.targets[m] / (8.0 * flows[m].payload);
            !flows[m].datagrams && packets > 0.0 && packets < SLOW_STREAM_PPS
        };
        let slow: Vec<usize> = (0..flows.len()).filter(slow).collect();
        if slow.is_empty() {
            return Ok(());
        }
        let (tolerance, check) = (self.trials.settings.tolerance, &self.trials.settings.check);
        let seeds: Vec<u64> = (1..=SLOW_STREAM_RUNS)
            .flat_map(|k| check.iter().map(move |s| s + k * SLOW_STREAM_SEED_OFFSET))
            .collect();
        let bench = self.trials.bench;
        let more =
            bench.measure(&[&found.limits], &found.targets, &seeds, CHECK_LENGTH_FACTOR)?.remove(0);
        for m in slow {
            // The seeds of the check have selected the target; the seeds here have not.
            let sure = more.mean[m] - more.error(m);
            if sure < (1.0 - tolerance) * found.targets[m] {
                found.targets[m] = sure;
            }
        }
        found.received = std::mem::take(&mut found.received).and(more);
        Ok(())
    }

    /// Handles a lowest level that does not fit.
    ///
    /// It removes guarantees first. Then it gives up the flows that receive a negligible rate at
    /// each of some low levels, or at least the worst flow.
    fn give_up(&mut self) -> Result<(), Halt> {
        self.groups.forget_promises();
        let top = self.bound.top(&self.groups.targets(0.0), &self.groups.slopes());
        let lowest = floor(&self.trials, &self.groups);
        let open = self.groups.open();
        let mut best = vec![0.0f64; open.len()];
        for level in LEARNING_LEVELS
            .map(|part| top * part)
            .into_iter()
            .filter(|l| *l > lowest)
            .chain([lowest])
        {
            let targets = self.groups.targets(level);
            let all = &self.trials.settings.search;
            let received = self.trials.receive(std::slice::from_ref(&targets), &targets, all)?;
            for (best, &m) in best.iter_mut().zip(&open) {
                let part = received[0].mean[m] / targets[m].max(f64::MIN_POSITIVE);
                *best = best.max(part);
            }
        }
        let worst = best.iter().copied().fold(f64::INFINITY, f64::min);
        for (m, part) in open.into_iter().zip(best) {
            if part < STARVED_TARGET_FRACTION || part == worst {
                self.groups.fix(m, 0.0, Stop::Nothing);
            }
        }
        Ok(())
    }

    /// Fixes flows with met demand, and flows that cannot rise from the common level.
    fn fix(&mut self, at: &Fit) -> Result<(), Halt> {
        let flows = &self.trials.bench.steady.flows;
        for m in self.groups.open() {
            if at.targets[m] >= flows[m].demand {
                self.groups.fix(m, flows[m].demand, Stop::Demand);
            }
        }
        let open = self.groups.open();
        let asking = 2 * self.trials.settings.search.len();
        let bench = self.trials.bench;
        let room = bench.meter.affords(bench.lasts(&at.targets, 1.0).1)
            / (FLOW_TEST_BUDGET_DIVISOR * asking);
        let open = if room < open.len() { self.fix_unasked(at, open, room) } else { open };
        // The others may lose a little of their rates here.
        let have = |(got, target): (&f64, &f64)| got.min(*target);
        let have: Rates = at.received.mean.iter().zip(&at.targets).map(have).collect();
        if open.is_empty() {
            return Ok(());
        }
        let scores = match self.scored_at(&open) {
            Some(scores) => scores,
            None => {
                let part = RAISE_EACH * open.len() as f64;
                let scores = self.scores(&open, at, &have, part)?.0;
                self.scored =
                    (self.risen.level, open.iter().copied().zip(scores.clone()).collect());
                scores
            }
        };
        // If each could rise alone but not all together, the one nearest to its limit is fixed.
        let hardest = scores.iter().copied().fold(0.0, f64::max);
        for (m, score) in open.into_iter().zip(scores) {
            if score >= hardest.min(1.0) {
                // Use the received rate: to limit other flows, it must lose some of that rate.
                let rate = at.received.mean[m].min(at.targets[m]);
                self.groups.fix(m, rate, Stop::Air);
            }
        }
        Ok(())
    }

    /// Returns the scores of `flows` measured at nearly this level; `None` if there are none.
    fn scored_at(&self, flows: &[usize]) -> Option<Vec<f64>> {
        let (level, scores) = &self.scored;
        let same = self.risen.level <= *level * (1.0 + SAME_LEVEL_TOLERANCE);
        let known = |m: &usize| scores.get(m).copied();
        if same { flows.iter().map(known).collect() } else { None }
    }

    /// Fixes flows without a test if testing each is too expensive.
    ///
    /// These are the flows short at the next level, which is measured already. If there are none,
    /// it returns as many flows as can be tested, those that use the least air, and fixes the
    /// others.
    fn fix_unasked(&mut self, at: &Fit, mut open: Vec<usize>, room: usize) -> Vec<usize> {
        self.bounded = true;
        let short = |m: &usize| self.risen.short.contains(m);
        let (mut held, mut asked): (Vec<usize>, _) = open.iter().partition(|m| short(m));
        if held.is_empty() {
            let cost = |m: usize| self.bound.cost(m);
            open.sort_by(|&a, &b| cost(a).total_cmp(&cost(b)).then(a.cmp(&b)));
            held = open.split_off(room);
            asked = open;
        } else {
            asked.clear();
        }
        for m in held {
            self.groups.fix(m, at.received.mean[m].min(at.targets[m]), Stop::Effort);
        }
        asked
    }

    /// Returns each flow's score for a raise alone; from 1 on, the flow cannot rise.
    ///
    /// `owed`: the rates that the other flows are to keep, except for the tolerance.
    ///
    /// If all flows are slightly below the limit, the first part of a raise costs nothing. Flows
    /// that seem able to rise are therefore raised by twice as much, and the cost of the second
    /// half counts.
    fn scores(
        &self,
        flows: &[usize],
        at: &Fit,
        owed: &[f64],
        part: f64,
    ) -> Result<(Vec<f64>, Vec<Received>), Halt> {
        let part = part.clamp(RAISE_RANGE.0, RAISE_RANGE.1);
        let tolerance = self.trials.settings.tolerance;
        let alone = |_: usize, raise: &Raise| raise.score(MIN_GAIN_FRACTION, tolerance);
        let (first, received) = self.raised(flows, at, owed, part, EARLY_SUCCESS_SCORE, &alone)?;
        let mut scores: Vec<f64> =
            first.iter().map(|r| r.score(MIN_GAIN_FRACTION, tolerance)).collect();
        let able: Vec<usize> = (0..flows.len()).filter(|&i| scores[i] < 1.0).collect();
        let again: Vec<usize> = able.iter().map(|&i| flows[i]).collect();
        let further = |i: usize, raise: &Raise| raise.beyond(&first[able[i]]);
        let (second, _) =
            self.raised(&again, at, owed, 2.0 * part, EARLY_SUCCESS_SCORE, &further)?;
        for (&i, far) in able.iter().zip(&second) {
            scores[i] = scores[i].max(far.beyond(&first[i]));
        }
        Ok((scores, received))
    }

    /// Measures the gain of each of `flows` when it is raised by a fraction, and the losses.
    ///
    /// Seeds are used one by one until `score` is clear; a score of 1 or more is a failure. It is
    /// clear if the flow could not be raised even without any loss of other flows in the remaining
    /// runs, or if the score of the runs so far is far from 1. `free`: the score up to which it is
    /// clear that a flow can be raised.
    /// can be raised.
    fn raised(
        &self,
        flows: &[usize],
        at: &Fit,
        owed: &[f64],
        part: f64,
        free: f64,
        score: &dyn Fn(usize, &Raise) -> f64,
    ) -> Result<(Vec<Raise>, Vec<Received>), Halt> {
        let seeds = &self.trials.settings.search;
        let asks = |&m: &usize| {
            let mut targets = at.targets.clone();
            targets[m] = (targets[m] * (1.0 + part)).min(self.trials.bench.steady.flows[m].demand);
            targets
        };
        let asked: Vec<Rates> = flows.iter().map(asks).collect();
        let levels = self.groups.levels(&at.targets);
        let raise = |i: usize, got: &Received| {
            let m = flows[i];
            // For max-min only the losses of flows that have no more matter.
            let no_more = |other: usize| levels[other] <= (1.0 + EQUAL_LEVEL_TOLERANCE) * levels[m];
            Raise::of(m, at, owed, asked[i][m], got, no_more)
        };
        let best = |i: usize, got: &Received| {
            let best = got.completed(&at.received, |run| {
                for (rate, target) in run.iter_mut().zip(&asked[i]) {
                    *rate = rate.max(*target);
                }
            });
            raise(i, &best)
        };
        let mut received = vec![Received::default(); flows.len()];
        let mut raises: Vec<Option<Raise>> = vec![None; flows.len()];
        let mut made = 0;
        while made < seeds.len() && raises.iter().any(Option::is_none) {
            let upto = if made == 0 { FIRST_SEEDS.min(seeds.len()) } else { made + 1 };
            let open: Vec<usize> = (0..flows.len()).filter(|&i| raises[i].is_none()).collect();
            let targets: Vec<Rates> = open.iter().map(|&i| asked[i].clone()).collect();
            let more = self.trials.receive(&targets, &at.targets, &seeds[made..upto])?;
            made = upto;
            for (&i, more) in open.iter().zip(more) {
                received[i] = std::mem::take(&mut received[i]).and(more);
                let (best, so_far) = (best(i, &received[i]), raise(i, &received[i]));
                let now = score(i, &so_far);
                raises[i] = if score(i, &best) >= 1.0 {
                    Some(best)
                } else if now >= FAILING_SCORE
                    || (now <= free && made >= EARLY_SUCCESS_SEEDS)
                    || made == seeds.len()
                {
                    Some(so_far)
                } else {
                    None
                };
            }
        }
        Ok((raises.into_iter().flatten().collect(), received))
    }

    /// Measures the result with a fraction of the check's seeds, and lowers it until it holds.
    ///
    /// The result is stored.
    fn check(&mut self, part: f64) -> Result<(), Halt> {
        let all = &self.trials.settings.check;
        let runs = ((part * all.len() as f64).ceil() as usize).clamp(1, all.len());
        let seeds = &all[..runs];
        let mut last = None;
        for _ in 0..=MAX_REDUCTIONS {
            let targets = self.groups.targets(0.0);
            match self.trials.fits(&targets, seeds, CHECK_LENGTH_FACTOR)? {
                Ok(fit) => {
                    self.trials.room = fit.room;
                    let limits = limits(&targets, &self.trials.room);
                    self.keep(targets, limits, fit.received);
                    return Ok(());
                }
                Err(short) => self.groups.lower(short[0], SHORTFALL_REDUCTION),
            }
            last = Some(targets);
        }
        // Nothing holds here, so the received rates are the only result.
        self.received(last.unwrap_or_default(), runs, CHECK_LENGTH_FACTOR)
    }

    /// Raises single flows that can still gain alone while all others keep their owed rates.
    ///
    /// The lowest are first. `scores` rejects these steps because raises of twice the size fail.
    fn polish(&mut self) -> Result<(), Halt> {
        let Some(found) = &self.checked else { return Ok(()) };
        let mut now = found.targets.clone();
        let mut asked = self.stopped_by_air();
        for _ in 0..MAX_LAST_RAISES {
            let levels = self.groups.levels(&now);
            asked.sort_by(|&a, &b| levels[a].total_cmp(&levels[b]).then(a.cmp(&b)));
            let mut at = self.at(&now)?;
            let mut risen = Vec::new();
            for m in self.gainers(&asked, &at)?.0 {
                if !risen.is_empty() {
                    at = self.at(&now)?;
                }
                let (still, got) = self.gainers(&[m], &at)?;
                if !still.is_empty() {
                    // Use the received rate, which is lower if its losses limit the flow.
                    let rate = got[0].mean[m].min(now[m] * (1.0 + LAST_RAISE));
                    self.groups.fix(m, rate, Stop::Air);
                    now = self.groups.targets(0.0);
                    risen.push(m);
                }
            }
            if risen.is_empty() {
                break;
            }
            // A flow that could not rise cannot rise when others have more.
            asked = risen;
        }
        self.check(1.0)
    }

    /// Returns the flows with a successful last raise, and the received rates of all with each.
    fn gainers(&self, flows: &[usize], at: &Fit) -> Result<(Vec<usize>, Vec<Received>), Halt> {
        let tolerance = self.trials.settings.tolerance;
        let gain = |_: usize, raise: &Raise| raise.score(LAST_GAIN, tolerance);
        let (raises, received) = self.raised(flows, at, &at.targets, LAST_RAISE, 0.0, &gain)?;
        let gains = flows.iter().zip(raises).filter(|(_, r)| r.score(LAST_GAIN, tolerance) < 1.0);
        Ok((gains.map(|(&m, _)| m).collect(), received))
    }

    fn stopped_by_air(&self) -> Vec<usize> {
        let fixed = self.groups.fixed().iter().enumerate();
        fixed.filter(|(_, f)| f.is_some_and(|f| f.why == Stop::Air)).map(|(m, _)| m).collect()
    }

    /// Returns the rates received under these targets.
    fn at(&self, targets: &[f64]) -> Result<Fit, Halt> {
        let all = &self.trials.settings.search;
        let received = self.trials.receive(&[targets.to_vec()], targets, all)?;
        Ok(Fit {
            targets: targets.to_vec(),
            room: self.trials.room.clone(),
            received: received.into_iter().next().unwrap_or_default(),
        })
    }
}

/// Result of raising one flow.
#[derive(Clone, Copy, Debug)]
struct Raise {
    /// Intended and actual gain, in bit/s.
    asked: f64,
    gain: f64,
    /// Joint loss of the flows that have no more, and its standard error.
    lost: f64,
    noise: f64,
    /// Largest fraction of its target by which one of them misses its owed rate.
    ///
    /// One standard error is subtracted.
    worst: f64,
}

impl Raise {
    fn of(
        m: usize,
        at: &Fit,
        owed: &[f64],
        asked: f64,
        got: &Received,
        no_more: impl Fn(usize) -> bool,
    ) -> Self {
        let (mut lost, mut noise, mut worst) = (0.0, 0.0, 0.0f64);
        let others = (0..at.targets.len()).filter(|&i| i != m && at.targets[i] > 0.0);
        for i in others.filter(|&i| no_more(i)) {
            // Rates above the target do not count.
            let target = at.targets[i];
            let drop = at.received.mean[i].min(target) - got.mean[i].min(target);
            let variance = at.received.variance(i) + got.variance(i);
            worst = worst.max((owed[i] - got.mean[i] - variance.sqrt()) / target);
            lost += drop;
            noise += variance;
        }
        let gain = got.mean[m] - at.received.mean[m];
        Raise { asked: asked - at.targets[m], gain, lost, noise: noise.sqrt(), worst }
    }

    /// Returns the score of a raise that must gain the fraction `enough`; 1 or more is a failure.
    ///
    /// Losses within noise do not count.
    fn score(&self, enough: f64, tolerance: f64) -> f64 {
        if self.gain <= 0.0 {
            return f64::INFINITY;
        }
        let price = (self.lost - self.noise).max(0.0) / self.gain;
        (price / MAX_LOSS_TO_GAIN).max(enough * self.asked / self.gain).max(self.worst / tolerance)
    }

    /// Returns the score of the part of this raise beyond a smaller one; 0 if it adds nothing.
    fn beyond(&self, smaller: &Raise) -> f64 {
        let gain = self.gain - smaller.gain;
        if gain < MIN_GAIN_FRACTION * (self.asked - smaller.asked) || gain <= 0.0 {
            return 0.0;
        }
        (self.lost - smaller.lost - self.noise).max(0.0) / gain / MARGINAL_PRICE
    }
}
