//! Whether a flow may have more than its level: tried where it enters the mesh (`+tries`).
//!
//! Levels are equal for all around a node, also for a flow that costs the node next to nothing. Nobody sees that from
//! what is sent, but the entrance can from what follows: it gives the flow half as much again for a while, and sees
//! whether the level falls. What a dear flow has more all around it miss, and it does, too.

use fairmesh_units::{Span, Time};

/// What a try gives, times what the flow has.
const STEP: f64 = 1.5;
/// How long limits that have just changed say nothing; then the time over which levels are compared.
const SETTLE: Span = Span::from_secs(5);
const WINDOW: Span = Span::from_secs(15);
/// Part of the level that all steps of a flow together may cost: as much as levels swing by themselves.
const COSTS: f64 = 0.04;
/// A cost that is no chance: the next try waits for twice as long.
const MUCH: f64 = 0.1;
/// Levels of two windows that are farther apart are still on their way.
const STEADY: f64 = 0.1;
/// A fall by this much in a window ends all that was given: others have come.
const CHANGED: f64 = 0.4;
/// s until a flow is tried for the first time, for each of its hops; until the next time after one that failed, and at
/// most; and until what it has more is doubted.
const FIRST: f64 = 15.0;
const AGAIN: f64 = 30.0;
const LATEST: f64 = 480.0;
const DOUBT: f64 = 60.0;
/// Chance to begin at the end of a window that allows it: others wait for the same moment.
const ONE_OF: f64 = 0.3;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Rest,
    /// It has more for a while, or less than it had.
    More,
    Less,
}

/// What a tick had to tell.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Told {
    Tried,
    /// It costs nobody anything.
    Free,
    /// Others miss it: this part of the level.
    Dear(f64),
    /// It is no longer given: levels are others.
    Over,
}

/// A mean of logarithms.
#[derive(Clone, Copy, Default, Debug)]
struct Mean {
    sum: f64,
    count: f64,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1.0;
    }

    fn of(self) -> Option<f64> {
        (self.count > 0.0).then(|| self.sum / self.count)
    }
}

/// A flow's tries.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tries {
    /// Times its level.
    more: f64,
    stage: Stage,
    /// When the window begins, and the level in it; whether the limit has held the flow for all of it.
    from: Time,
    now: Mean,
    held: bool,
    /// The level of the window before, or before the try: a logarithm.
    last: Option<f64>,
    /// When it may be tried next, and how long it waits if that fails, s.
    due: Option<Time>,
    wait: f64,
    /// The same for doubts.
    doubted: Time,
    doubt: f64,
}

impl Tries {
    pub fn new() -> Self {
        Tries {
            more: 1.0,
            stage: Stage::Rest,
            from: Time::ZERO,
            now: Mean::default(),
            last: None,
            held: true,
            due: None,
            wait: AGAIN,
            doubted: Time::ZERO,
            doubt: DOUBT,
        }
    }

    /// What the flow may have, times its level.
    pub fn more(&self) -> f64 {
        match self.stage {
            Stage::Rest => self.more,
            Stage::More => self.more * STEP,
            Stage::Less => (self.more / STEP).max(1.0),
        }
    }

    /// Whether it is tried now.
    pub fn under_way(&self) -> bool {
        self.stage != Stage::Rest
    }

    fn stage(&mut self, now: Time, stage: Stage) {
        (self.stage, self.from, self.now, self.held) = (stage, now + SETTLE, Mean::default(), true);
        if stage == Stage::Rest {
            self.last = None;
        }
    }

    fn later(now: Time, seconds: f64, chance: f64) -> Time {
        now + Span::from_secs_f64(seconds * (0.75 + 0.5 * chance))
    }

    /// A tick: the least level around the flow's way and whether its limit holds it; its hops, and how many times its
    /// level it may have; whether another one is tried here; a number of 0 to 1 by chance.
    pub fn look(
        &mut self,
        now: Time,
        (level, held): (f64, bool),
        (hops, most): (u32, f64),
        busy: bool,
        chance: f64,
    ) -> Option<Told> {
        let due = *self.due.get_or_insert(Self::later(now, FIRST * f64::from(hops), chance));
        let level = libm::log(level);
        if now >= self.from {
            self.now.add(level);
            self.held &= held;
        }
        let (mean, last) = (self.now.of()?, self.last);
        let passed = now >= self.from + WINDOW;
        if let Some(last) = last
            && self.more() > 1.0
            && self.now.count >= 30.0
            && mean < last - CHANGED
        {
            self.more = 1.0;
            self.due = Some(Self::later(now, self.wait, chance));
            self.stage(now, Stage::Rest);
            return Some(Told::Over);
        }
        match (self.stage, last) {
            (Stage::Rest, _) if passed => {
                self.last = Some(mean);
                let steady = last.is_some_and(|e| (mean - e).abs() < STEADY);
                let fits = core::mem::replace(&mut self.held, true) && steady && !busy;
                (self.from, self.now) = (now, Mean::default());
                // The same chance spreads what is waited for: its other digits.
                let lot = chance * 1000.0 - libm::floor(chance * 1000.0);
                let fits = fits && lot < ONE_OF;
                if fits && self.more > 1.0 && now >= self.doubted {
                    self.stage(now, Stage::Less);
                    self.last = Some(mean);
                    return Some(Told::Tried);
                }
                if fits && self.more * STEP <= most && now >= due {
                    self.stage(now, Stage::More);
                    self.last = Some(mean);
                    return Some(Told::Tried);
                }
                None
            }
            (Stage::More, Some(before)) => {
                let cost = before - mean;
                let soon = self.now.count >= 30.0 && cost > 3.0 * COSTS;
                if !(passed || soon) {
                    return None;
                }
                if cost <= COSTS && self.held {
                    self.more *= STEP;
                    self.wait = AGAIN;
                    self.doubt = DOUBT;
                    self.doubted = Self::later(now, self.doubt, chance);
                    // All steps together may cost what one may.
                    let stage = if self.more * STEP <= most { Stage::More } else { Stage::Rest };
                    self.stage(now, stage);
                    self.last = Some(before);
                    return Some(Told::Free);
                }
                self.due = Some(Self::later(now, self.wait, chance));
                if cost > MUCH {
                    self.wait = (2.0 * self.wait).min(LATEST);
                }
                self.stage(now, Stage::Rest);
                Some(Told::Dear(1.0 - libm::exp(-cost)))
            }
            (Stage::Less, Some(before)) if passed => {
                let cost = mean - before;
                let dear = cost > COSTS;
                if dear {
                    self.more = (self.more / STEP).max(1.0);
                    self.due = Some(Self::later(now, self.wait, chance));
                    self.wait = (2.0 * self.wait).min(LATEST);
                    self.doubt = DOUBT;
                } else {
                    self.doubt = (2.0 * self.doubt).min(LATEST);
                }
                self.doubted = Self::later(now, self.doubt, chance);
                self.stage(now, Stage::Rest);
                Some(if dear { Told::Dear(1.0 - libm::exp(-cost)) } else { Told::Free })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use fairmesh_units::Stream;

    use super::*;

    /// Runs a flow of one hop for `seconds` over a level of 100 kbit/s that falls by the part `cost` where the flow has
    /// half as much again, and swings by `noise`: what it may have in the end, in the mean, and what was told.
    fn run(seconds: u64, cost: f64, noise: f64, seed: u64) -> (f64, f64, Vec<Told>) {
        let (mut tries, mut told) = (Tries::new(), Vec::new());
        let mut stream = Stream::new(seed, "tries");
        let (mut swing, mut sum) = (0.0, 0.0);
        for tick in 1..=10 * seconds {
            let now = Time::ZERO + Span::from_millis(100 * tick);
            // A first-order lag of 2 s; its standard deviation is `noise`.
            swing += 0.05 * (noise * 6.24 * libm::sqrt(3.0) * (2.0 * stream.unit() - 1.0) - swing);
            let steps = libm::log(tries.more()) / libm::log(STEP);
            let level = 100e3 * libm::exp(swing + steps * libm::log(1.0 - cost));
            let chance = stream.unit();
            told.extend(tries.look(now, (level, true), (1, 3.4), false, chance));
            sum += tries.more();
        }
        (tries.more(), sum / (10 * seconds) as f64, told)
    }

    #[test]
    fn who_costs_nobody_anything_has_three_times_its_level_and_keeps_it() {
        for seed in 0..10 {
            let (more, mean, told) = run(3600, 0.0, 0.0, seed);
            assert!(more > 2.2 && mean > 2.8, "{more} {mean}");
            assert!(told.iter().all(|t| matches!(t, Told::Tried | Told::Free)), "{told:?}");
        }
    }

    #[test]
    fn who_costs_others_a_fifth_is_tried_ever_more_seldom() {
        for seed in 0..10 {
            let (_, mean, told) = run(3600, 0.2, 0.0, seed);
            assert!(told.iter().all(|t| matches!(t, Told::Tried | Told::Dear(_))), "{told:?}");
            let tries = told.iter().filter(|t| **t == Told::Tried).count();
            assert!((4..=14).contains(&tries) && mean < 1.03, "{tries} {mean}");
        }
    }

    #[test]
    fn in_noise_cheap_and_dear_are_told_apart_in_the_mean() {
        let mean = |cost| (0..20).map(|seed| run(900, cost, 0.06, seed).1).sum::<f64>() / 20.0;
        let (cheap, dear) = (mean(0.005), mean(0.15));
        assert!(cheap > 1.8 && dear < 1.1, "{cheap} {dear}");
    }

    #[test]
    fn others_that_come_end_what_was_given() {
        let mut tries = Tries::new();
        let mut at = |seconds: core::ops::Range<u64>, level: f64| {
            let mut told = Vec::new();
            for tick in 10 * seconds.start..10 * seconds.end {
                let now = Time::ZERO + Span::from_millis(100 * tick);
                told.extend(tries.look(now, (level, true), (1, 3.4), false, 0.5));
            }
            (tries.more(), told.last().copied())
        };
        let (more, _) = at(1..200, 100e3);
        assert!(more > 3.0, "{more}");
        assert_eq!(at(200..230, 50e3), (1.0, Some(Told::Over)));
    }

    #[test]
    fn who_does_not_use_its_limit_is_not_tried() {
        let mut tries = Tries::new();
        for tick in 1..6000 {
            let now = Time::ZERO + Span::from_millis(100 * tick);
            assert_eq!(tries.look(now, (100e3, tick % 90 != 0), (1, 3.4), false, 0.5), None);
        }
    }
}
