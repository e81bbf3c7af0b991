//! Progressive filling: rise together, fix those that cannot rise alone, go on with the rest.

use super::bench::{Bench, Rates, Received};
use super::bound::Bound;
use super::fit::{Fit, Trials, limits};
use super::groups::{Groups, Stop};
use super::rise::{EASY, floor, rise};
use super::settings::{Group, OptimumError, Settings};

/// How far a flow is raised to see whether it can be: at least and at most, and per flow that still
/// grows. One of n that share a bottleneck fills it by a part of n only.
const RAISE: (f64, f64) = (0.2, 1.0);
const RAISE_EACH: f64 = 0.05;
/// A raise that takes more from others than this part of what it brings is none.
const PRICE: f64 = 1.0 / 3.0;
/// The same of the second half of a raise twice as far.
const MARGINAL_PRICE: f64 = 0.5;
/// A raise that brings less than this part of what it should is none.
const GAIN: f64 = 0.5;
/// Below this part of its target at the lowest level, a flow receives nothing.
const RECEIVED: f64 = 0.5;
/// Runs of the check last so many times longer.
pub(super) const LONGER: f64 = 2.0;
/// What is taken from a flow that the check finds short, and from all that have as much; how often.
const LOWER: f64 = 0.02;
const LOWERINGS: usize = 15;
/// So often even if nothing more may be spent.
const FEW: usize = 3;
/// A repair is begun if so many runs per flow are left.
const SEARCHED: usize = 6;
/// How often flows that could rise after all are let.
const REPAIRS: usize = 1;
/// By what part flows are raised in the end that cannot rise by the double, and how often each is.
const LAST: f64 = 0.25;
const LASTS: usize = 4;
/// A last raise may bring somewhat less: losses that limit a flow do so by and by.
const LAST_GAIN: f64 = 0.4;
/// Levels that differ by this part count as one: whoever has so much more has no more.
const LEVEL: f64 = 0.05;

/// What was found, by flow of the stretch.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// The vector.
    pub targets: Rates,
    pub limits: Rates,
    /// What the check received of it.
    pub received: Rates,
    pub stops: Vec<Stop>,
}

/// The search in one stretch.
pub(super) struct Search<'a> {
    trials: Trials<'a>,
    groups: Groups,
    bound: Bound,
}

impl<'a> Search<'a> {
    pub fn new(bench: &'a Bench<'a>, groups: &[Group], settings: &'a Settings) -> Self {
        Search {
            trials: Trials::new(bench, settings),
            groups: Groups::new(&bench.steady.flows, groups),
            bound: Bound::new(&bench.steady.scenario),
        }
    }

    pub fn run(mut self) -> Result<Found, OptimumError> {
        let mut level = 0.0;
        for repair in 0.. {
            self.fill(level)?;
            let (targets, received) = self.check()?;
            let more = repair < REPAIRS && self.affords(targets.len() * SEARCHED);
            let again = if more { self.repair(&targets)? } else { None };
            let Some(from) = again else {
                let (targets, received) = self.polish(targets, received)?;
                let limits = limits(&targets, &self.trials.room);
                // What noise could have added is nobody's.
                let noisy = 0.5 * self.trials.settings.tolerance;
                let sure = |(m, &target): (usize, &f64)| {
                    let sure = received.error(m) <= noisy * target;
                    if sure { target } else { target.min(received.mean[m]) }
                };
                let targets: Rates = targets.iter().enumerate().map(sure).collect();
                let stops = self.groups.fixed().iter();
                return Ok(Found {
                    limits,
                    stops: stops.map(|f| f.map_or(Stop::Air, |f| f.why)).collect(),
                    received: received.mean,
                    targets,
                });
            };
            level = from;
        }
        unreachable!("repairs end")
    }

    /// Raises and fixes until all are fixed.
    fn fill(&mut self, mut level: f64) -> Result<(), OptimumError> {
        while !self.groups.open().is_empty() {
            let (reached, fit) = rise(&mut self.trials, &self.groups, &self.bound, level)?;
            let fit = match fit {
                Some(fit) => fit,
                None if reached > 0.0 => self.as_it_is(reached)?,
                None => {
                    self.give_up()?;
                    continue;
                }
            };
            level = reached;
            self.fix(&fit)?;
        }
        Ok(())
    }

    /// What is received at a level that fitted before.
    fn as_it_is(&self, level: f64) -> Result<Fit, OptimumError> {
        self.at(&self.groups.targets(level))
    }

    /// Not even the lowest level fits: first for what is promised, then for those that receive
    /// nothing worth the name at any of some low levels; at least the worst.
    fn give_up(&mut self) -> Result<(), OptimumError> {
        self.groups.forget_promises();
        let top = self.bound.top(&self.groups.targets(0.0), &self.groups.slopes());
        let lowest = floor(&self.trials, &self.groups);
        let open = self.groups.open();
        let mut best = vec![0.0f64; open.len()];
        for level in EASY.map(|part| top * part).into_iter().filter(|l| *l > lowest).chain([lowest])
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
            if part < RECEIVED || part == worst {
                self.groups.fix(m, 0.0, Stop::Nothing);
            }
        }
        Ok(())
    }

    /// Whether so many more runs are within what may be spent.
    fn affords(&self, runs: usize) -> bool {
        self.trials.bench.meter.affords(runs)
    }

    /// Fixes flows that have what they ask for, and those that cannot rise from where all are.
    fn fix(&mut self, at: &Fit) -> Result<(), OptimumError> {
        let flows = &self.trials.bench.steady.flows;
        for m in self.groups.open() {
            if at.targets[m] >= flows[m].demand {
                self.groups.fix(m, flows[m].demand, Stop::Demand);
            }
        }
        let open = self.groups.open();
        let each = self.trials.settings.search.len();
        if !self.affords(open.len() * each) {
            for m in open {
                self.groups.fix(m, at.received.mean[m].min(at.targets[m]), Stop::Effort);
            }
            return Ok(());
        }
        // What the others have here is what they may lose a little of.
        let have = |(got, target): (&f64, &f64)| got.min(*target);
        let have: Rates = at.received.mean.iter().zip(&at.targets).map(have).collect();
        let (scores, _) = self.scores(&open, at, &have, RAISE_EACH * open.len() as f64)?;
        // If each could rise alone, but all could not: the one that is nearest to its limit.
        let hardest = scores.iter().copied().fold(0.0, f64::max);
        for (m, score) in open.into_iter().zip(scores) {
            if score >= hardest.min(1.0) {
                // What it does receive: to hold the others, it has to lose some of that.
                let rate = at.received.mean[m].min(at.targets[m]);
                self.groups.fix(m, rate, Stop::Air);
            }
        }
        Ok(())
    }

    /// How far each of `flows` is from being able to rise alone: from 1 on, it cannot. `owed`: what
    /// the others are to keep, but for the tolerance.
    ///
    /// Where all stand a little below the edge, the first part of a rise is free for anybody. So
    /// who seems able is raised twice as far, and it is what the second half costs that counts.
    fn scores(
        &self,
        flows: &[usize],
        at: &Fit,
        owed: &[f64],
        part: f64,
    ) -> Result<(Vec<f64>, Vec<Received>), OptimumError> {
        let part = part.clamp(RAISE.0, RAISE.1);
        let (first, received) = self.raised(flows, at, owed, part)?;
        let tolerance = self.trials.settings.tolerance;
        let mut scores: Vec<f64> = first.iter().map(|r| r.score(GAIN, tolerance)).collect();
        let able: Vec<usize> = (0..flows.len()).filter(|&i| scores[i] < 1.0).collect();
        let again: Vec<usize> = able.iter().map(|&i| flows[i]).collect();
        let (second, _) = self.raised(&again, at, owed, 2.0 * part)?;
        for (&i, far) in able.iter().zip(&second) {
            scores[i] = scores[i].max(far.beyond(&first[i]));
        }
        Ok((scores, received))
    }

    /// What each of `flows` gains when it asks for a part more, and what that takes from others.
    fn raised(
        &self,
        flows: &[usize],
        at: &Fit,
        owed: &[f64],
        part: f64,
    ) -> Result<(Vec<Raise>, Vec<Received>), OptimumError> {
        let asks = |&m: &usize| {
            let mut targets = at.targets.clone();
            targets[m] = (targets[m] * (1.0 + part)).min(self.trials.bench.steady.flows[m].demand);
            targets
        };
        let asked: Vec<Rates> = flows.iter().map(asks).collect();
        let received = self.trials.receive(&asked, &at.targets, &self.trials.settings.search)?;
        let levels = self.groups.levels(&at.targets);
        let each = flows.iter().zip(asked.iter().zip(&received));
        let raises = each.map(|(&m, (asked, got))| {
            // Max-min asks only what those lose that have no more.
            let no_more = |i: usize| levels[i] <= (1.0 + LEVEL) * levels[m];
            Raise::of(m, at, owed, asked[m], got, no_more)
        });
        Ok((raises.collect(), received))
    }

    /// Measures what was found with other seeds, and lowers it where it does not hold.
    fn check(&mut self) -> Result<(Rates, Received), OptimumError> {
        let seeds = &self.trials.settings.check;
        let mut last = None;
        for done in 0..=LOWERINGS {
            if done >= FEW && !self.affords(0) {
                break;
            }
            let targets = self.groups.targets(0.0);
            match self.trials.fits(&targets, seeds, LONGER)? {
                Ok(fit) => {
                    self.trials.room = fit.room;
                    return Ok((targets, fit.received));
                }
                Err(hurt) => self.groups.lower(hurt, LOWER),
            }
            last = Some(targets);
        }
        // Nothing holds here: what is received is all that can be said.
        let asked = last.unwrap_or_default();
        let limits = limits(&asked, &self.trials.room);
        let received = self.trials.bench.measure(&[&limits], &asked, seeds, LONGER)?;
        let received = received.into_iter().next().unwrap_or_default();
        let targets = asked.iter().zip(&received.mean).map(|(t, r)| r.min(*t)).collect();
        Ok((targets, received))
    }

    /// Gives single flows what they alone can still gain, lowest first, while nobody misses what it
    /// is owed: steps that `scores` refuses since their doubles cannot be had.
    fn polish(
        &mut self,
        targets: Rates,
        received: Received,
    ) -> Result<(Rates, Received), OptimumError> {
        let mut now = targets.clone();
        let each = self.trials.settings.search.len();
        for _ in 0..LASTS {
            let levels = self.groups.levels(&now);
            let mut air: Vec<usize> = self.stopped_by_air();
            air.sort_by(|&a, &b| levels[a].total_cmp(&levels[b]).then(a.cmp(&b)));
            let mut at = self.at(&now)?;
            let mut risen = false;
            for m in self.gainers(&air, &at)?.0 {
                if !self.affords(2 * each) {
                    break;
                }
                if risen {
                    at = self.at(&now)?;
                }
                let (still, got) = self.gainers(&[m], &at)?;
                if !still.is_empty() {
                    // What it receives then, which is less where it is its losses that limit it.
                    let rate = got[0].mean[m].min(now[m] * (1.0 + LAST));
                    self.groups.fix(m, rate, Stop::Air);
                    now = self.groups.targets(0.0);
                    risen = true;
                }
            }
            if !risen {
                break;
            }
        }
        if now == targets { Ok((targets, received)) } else { self.check() }
    }

    /// Those of `flows` whose last raise is one, and what all received with each.
    fn gainers(
        &self,
        flows: &[usize],
        at: &Fit,
    ) -> Result<(Vec<usize>, Vec<Received>), OptimumError> {
        let (raises, received) = self.raised(flows, at, &at.targets, LAST)?;
        let tolerance = self.trials.settings.tolerance;
        let gains = flows.iter().zip(raises).filter(|(_, r)| r.score(LAST_GAIN, tolerance) < 1.0);
        Ok((gains.map(|(&m, _)| m).collect(), received))
    }

    fn stopped_by_air(&self) -> Vec<usize> {
        let fixed = self.groups.fixed().iter().enumerate();
        fixed.filter(|(_, f)| f.is_some_and(|f| f.why == Stop::Air)).map(|(m, _)| m).collect()
    }

    /// What is received under these targets.
    fn at(&self, targets: &[f64]) -> Result<Fit, OptimumError> {
        let all = &self.trials.settings.search;
        let received = self.trials.receive(&[targets.to_vec()], targets, all)?;
        Ok(Fit {
            targets: targets.to_vec(),
            room: self.trials.room.clone(),
            received: received.into_iter().next().unwrap_or_default(),
        })
    }

    /// Lets flows rise that could after all; the level to go on from, or `None` if there are none.
    /// Who has more than the one that rises and loses by it begins again from there.
    fn repair(&mut self, targets: &[f64]) -> Result<Option<f64>, OptimumError> {
        let air = self.stopped_by_air();
        let at = self.at(targets)?;
        let (scores, got) = self.scores(&air, &at, targets, RAISE_EACH * air.len() as f64)?;
        let able: Vec<usize> = (0..air.len()).filter(|&i| scores[i] < 1.0).collect();
        if able.is_empty() {
            return Ok(None);
        }
        let levels = self.groups.levels(targets);
        let mut open: Vec<usize> = able.iter().map(|&i| air[i]).collect();
        let lowest = open.iter().map(|&m| levels[m]).fold(f64::INFINITY, f64::min);
        for &i in air.iter().filter(|&&i| levels[i] > (1.0 + LEVEL) * lowest) {
            let least = able.iter().map(|&a| got[a].mean[i]).fold(f64::INFINITY, f64::min);
            if least < (1.0 - self.trials.settings.tolerance) * targets[i] && !open.contains(&i) {
                open.push(i);
            }
        }
        Ok(Some(self.groups.reopen(&open, lowest)))
    }
}

/// What came of raising one flow.
#[derive(Clone, Copy, Debug)]
struct Raise {
    /// What it was to gain, and did, bit/s.
    asked: f64,
    gain: f64,
    /// What those lost together that have no more, and its standard error.
    lost: f64,
    noise: f64,
    /// The largest part of its target that one of them misses of what it is owed, a standard error
    /// less.
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
            // What is above the target was nobody's.
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

    /// 1 and above: it is no raise, which has to bring the part `enough` of what it should. What noise
    /// alone could be is not held against it.
    fn score(&self, enough: f64, tolerance: f64) -> f64 {
        if self.gain <= 0.0 {
            return f64::INFINITY;
        }
        let price = (self.lost - self.noise).max(0.0) / self.gain;
        (price / PRICE).max(enough * self.asked / self.gain).max(self.worst / tolerance)
    }

    /// The same of what this raise adds to a smaller one; 0 if it adds nothing.
    fn beyond(&self, smaller: &Raise) -> f64 {
        let gain = self.gain - smaller.gain;
        if gain < GAIN * (self.asked - smaller.asked) || gain <= 0.0 {
            return 0.0;
        }
        (self.lost - smaller.lost - self.noise).max(0.0) / gain / MARGINAL_PRICE
    }
}
