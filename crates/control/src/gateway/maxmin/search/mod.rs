//! The search: trials of a higher level, or of more for some subscribers; raises without loss to others stay.
//!
//! Each effort has its file: `climb`, `more`, `want`, and `recover` for failed trials.

mod climb;
mod more;
mod recover;
mod want;

use super::judge::{self, Mood};
use super::level::Level;
use super::service::{PACKET, Standing};
use super::sets::{Set, Sets};
use super::subscriber::Subscriber;
use super::{needs, trade};
use crate::gateway::arc::bucket;
use crate::gateway::bounds::Bounds;
use crate::{Actions, Reason, Value};

/// Relative change of the set of flows that moves the level.
const NOTICED: f64 = 0.03;
/// Divisor of the capacity that one bottleneck of the whole mesh would have, where the search begins.
const LOW: f64 = 4.0;
/// Minimum initial rate of each subscriber, bit/s: pages at lower limits look like long transfers.
const MODEST: f64 = 100e3;
/// Time at the beginning in which at least `MISSING` of all weights are assumed to be present, s.
const BEGINNING: f64 = 20.0;
/// Fraction of all weights that is assumed to be present at the beginning.
const MISSING: f64 = 1.0 / 6.0;
/// Minimum share of a subscriber that sends intermittently, in regular shares.
const PAGES: f64 = 1.5;
/// Fraction of its limit that a transfer may miss if all others are readers of pages.
const SLACK: f64 = 0.35;
/// Fraction of the slack that remains while some are tried with more, so that their effect shows.
const CAREFUL: f64 = 0.3;
/// Time that a newcomer must have sent before it counts, s.
const ARRIVED: f64 = 2.0;
/// Paces of observation after a step of the first climb.
const GLANCE: f64 = 0.9;
/// Paces of observation after most changes.
const WATCH: f64 = 2.0;
/// Paces of observation after the level has risen again.
const LONG: f64 = 3.0;
/// Multiple of the observation time up to which doubts about full service count.
const DOUBT: f64 = 2.5;
/// Fraction of the level that is left after a subscriber was slightly short.
const TRIM: f64 = 0.96;
/// Minimum fraction of an individual share that is left if it is not used.
const YIELDS: f64 = 0.8;
/// Fractions of the level at which subscribers may be tried with more.
const WAYS: [f64; 5] = [0.95, 0.96, 0.97, 0.98, 0.99];
/// Minimum factor of a subscriber that has more than the level.
const LITTLE: f64 = 1.001;
/// Fraction of an equal share of the upper bound that takes nothing from others while no edge is known.
const YOUNG: f64 = 0.7;
/// Time constant with which the highest carried level decays, s.
const REMEMBERED: f64 = 40.0;

/// The effort under way.
#[derive(Clone, Debug)]
enum Effort {
    Rest,
    /// A higher level is tried.
    Climb,
    /// These subscribers are tried with more.
    More(Set),
    /// These subscribers are tested for a need of more.
    Ask(Vec<usize>),
    /// The level is lowered to find which of these gain from it; their rates before, bit/s.
    Doubt {
        who: Vec<(usize, f64)>,
        from: f64,
    },
    /// All wait until none is short; the level at the start, and the number of cuts.
    Settle {
        from: f64,
        cuts: i32,
        who: Vec<usize>,
    },
}

#[derive(Clone, Debug)]
pub(super) struct Search {
    level: Level,
    /// Fraction of its limit below which a subscriber is short in the long run.
    short: f64,
    effort: Effort,
    sets: Sets,
    /// Subscribers that were short first when all were raised.
    first: Vec<usize>,
    /// Weights of the subscribers present; intermittent ones count by the fraction of time in which they are active.
    present: f64,
    /// Time since the beginning, s.
    age: f64,
    /// Highest recent level that was carried.
    high: f64,
    /// Fraction of its limit that a transfer may miss beside readers: pages come and go faster than any level.
    slack: f64,
    /// True if the last trial was kept just now.
    won: bool,
    /// Factor by which the level was raised without the subscribers that have more.
    alone: f64,
}

impl Search {
    pub fn new(bounds: Bounds, rest: f64, short: f64) -> Self {
        Search {
            level: Level::new(bounds.lowest, bounds.upper, rest),
            short,
            effort: Effort::Rest,
            sets: Sets::default(),
            first: Vec::new(),
            present: 0.0,
            age: 0.0,
            high: 0.0,
            slack: 0.0,
            won: false,
            alone: 1.0,
        }
    }

    pub fn slack(&self) -> f64 {
        self.slack
    }

    pub fn level(&self) -> f64 {
        self.level.now()
    }

    /// Returns the level at which no subscriber takes anything from others, as far as is known.
    ///
    /// This is the highest recent level that was carried; while no edge was met, it is at least most of an equal
    /// share of `upper`.
    pub fn highest(&self, upper: f64) -> f64 {
        let each = YOUNG * upper / self.present.max(f64::MIN_POSITIVE);
        if self.level.young() { self.high.max(each) } else { self.high }
    }

    /// Resumes after a time in which shortages were due to a flood.
    pub fn resume(&mut self, all: &mut [Subscriber]) {
        all.iter_mut().for_each(|s| s.service.forgive(0.0));
        Self::watch(all);
        self.level.since = 0.0;
    }

    /// Assumes that all subscribers are present, until counters are known.
    pub fn begin(&mut self, all: &[Subscriber]) {
        self.present = all.iter().map(|s| s.weight).sum();
        if self.present > 0.0 {
            let full = self.level.now();
            let total = (full / LOW).max(full.min(MODEST * self.present));
            self.level.begin(total / full / self.present, full / self.present);
        }
    }

    /// Returns the total rate of all, bit/s, for a successor after a restart.
    pub fn learned(&self) -> f64 {
        self.level.now() * self.present.max(f64::MIN_POSITIVE)
    }

    pub fn recall(&mut self, learned: f64, all: &[Subscriber]) {
        let weights: f64 = all.iter().map(|s| s.weight).sum();
        if weights > 0.0 && learned.is_finite() {
            self.level.recall(learned / weights);
        }
    }

    /// Returns the time that the slowest subscriber needs to show the effect of a change, s.
    fn pace(all: &[Subscriber]) -> f64 {
        let sending = all.iter().filter(|s| s.sends() && s.cap.is_none());
        let slowest = sending.map(|s| s.limit).fold(f64::INFINITY, f64::min);
        (4.0 + 10.0 * PACKET / slowest).min(60.0)
    }

    pub fn step(&mut self, elapsed: f64, all: &mut [Subscriber], actions: &mut Actions) {
        self.level.pass(elapsed);
        self.age += elapsed;
        self.high = self.level.carried().max(self.high * (-elapsed / REMEMBERED).exp());
        self.sets.pass(elapsed);
        if self.sets.none() {
            self.level.level();
        }
        self.population(all, actions);
        needs::grow(all, self.level.now(), actions);
        let most =
            all.iter().filter(|s| s.service.backlogged()).map(|s| s.factor).fold(1.0, f64::max);
        for s in all.iter_mut() {
            s.room = if s.service.sometimes() { most.max(PAGES) } else { 1.0 };
        }
        let pace = Self::pace(all);
        let watch = match (&self.effort, self.level.young()) {
            (Effort::Climb, true) => GLANCE * pace,
            (Effort::Climb, false) => LONG * pace,
            _ => WATCH * pace,
        };
        let patient = self.level.since < DOUBT * watch;
        let slack = match self.effort {
            Effort::More(_) => CAREFUL * self.slack,
            _ => self.slack,
        };
        let mood = judge::mood(all, watch, patient, slack);
        if mood == Mood::Quiet && !matches!(self.effort, Effort::Rest) {
            // Earlier shortages were temporary.
            all.iter_mut().for_each(|s| s.service.forgive(0.3));
        }
        self.effort = match core::mem::replace(&mut self.effort, Effort::Rest) {
            Effort::Rest => self.rest(all, pace, actions),
            Effort::Climb => self.climb(mood, all, pace, actions),
            Effort::More(set) => self.more(set, mood, all, actions),
            Effort::Ask(who) => self.ask(who, all, pace, actions),
            Effort::Doubt { who, from } => self.doubt(who, from, all, pace, actions),
            Effort::Settle { from, cuts, who } => {
                self.settle(from, cuts, who, mood, all, pace, actions)
            }
        };
    }

    /// Adapts the level at once when subscribers come or go.
    fn population(&mut self, all: &[Subscriber], actions: &mut Actions) {
        let count = |s: &Subscriber| {
            if s.watch.is_flood() {
                // A flood takes its part of the air, whatever its share is.
                return s.weight;
            }
            let standing = s.service.standing();
            let arrives = standing == Standing::Sending && s.service.sent_for() < ARRIVED;
            match standing == Standing::Idle || arrives || s.service.reads() {
                true => s.weight * s.service.presence(),
                false => s.weight,
            }
        };
        let present: f64 = all.iter().map(count).sum();
        let reads = |s: &&Subscriber| s.service.reads() && !s.service.thin();
        let reading: f64 = all.iter().filter(reads).map(count).sum();
        let moving: f64 = all.iter().filter(|s| !s.service.thin()).map(count).sum();
        self.slack = SLACK * reading / moving.max(f64::MIN_POSITIVE);
        let lightest = all.iter().map(|s| s.weight).fold(f64::INFINITY, f64::min);
        if !lightest.is_finite() {
            return;
        }
        // The first subscriber may not take the whole capacity: others arrive in the same second.
        let mut least = 0.5 * lightest;
        if self.age < BEGINNING {
            // Subscribers that have not sent yet may do so at any time.
            least = least.max(MISSING * all.iter().map(|s| s.weight).sum::<f64>());
        }
        let present = present.max(least);
        // If none was expected, the first ones share the initial rate of the search.
        let factor = if self.present > 0.0 { self.present } else { 1.0 } / present;
        if (factor - 1.0).abs() <= NOTICED {
            return;
        }
        self.present = present;
        self.level.scale(factor);
        if let Effort::Settle { from, .. } = &mut self.effort {
            *from *= factor;
        }
        actions.because(Reason::new(
            "maxmin.flows",
            "weights of {} are there now: {} each",
            &[Value::Number((10.0 * present).round() / 10.0), self.each()],
        ));
    }

    fn each(&self) -> Value {
        Value::Rate(bucket(self.level.now()))
    }

    /// Starts a trial of all: earlier traffic does not describe the present limits.
    fn watch(all: &mut [Subscriber]) {
        all.iter_mut().for_each(|s| s.service.begin_trial());
    }

    /// Makes all wait until none is short.
    fn wait(&self, all: &mut [Subscriber]) -> Effort {
        Self::watch(all);
        Effort::Settle { from: self.level.now(), cuts: 0, who: Vec::new() }
    }

    /// Selects the next effort when none is under way.
    fn rest(&mut self, all: &mut [Subscriber], pace: f64, actions: &mut Actions) -> Effort {
        let judged = |s: &&Subscriber| s.service.backlogged();
        let suffers = all.iter().position(|s| {
            judged(&s) && (s.service.want() >= 1.0 || s.service.standing() == Standing::Lost)
        });
        let worst = (0..all.len())
            .filter(|&i| judged(&&all[i]) && all[i].service.part() < self.short - self.slack)
            .min_by(|&a, &b| all[a].service.part().total_cmp(&all[b].service.part()));
        if let Some(place) = suffers.or(worst.filter(|_| self.level.since > WATCH * pace)) {
            return self.miss(place, suffers.is_some(), all, actions);
        }
        if self.level.since > pace
            && let Some(doubt) = self.in_doubt(all, actions)
        {
            return doubt;
        }
        let uneasy = all.iter().any(|s| judged(&s) && s.service.want() > judge::UNEASY);
        let unknown = all.iter().any(|s| s.service.unknown());
        if uneasy
            || unknown
            || !all.iter().any(|s| s.service.full())
            || self.level.since < pace && !self.won
        {
            return Effort::Rest;
        }
        let busy = self.sets.busy() && self.level.close();
        if let Some(to) = self.level.next().filter(|_| !busy) {
            // Subscribers with more than the level keep their present rate.
            self.alone = to / self.level.now();
            for s in all.iter_mut().filter(|s| s.factor > 1.0) {
                s.factor = (s.factor / self.alone).max(LITTLE);
            }
            self.level.set(to);
            Self::watch(all);
            actions.because(Reason::new(
                "maxmin.rise",
                "nobody is short: up to {} each",
                &[self.each()],
            ));
            return Effort::Climb;
        }
        self.won = false;
        if let Some(set) = self.sets.next(all) {
            let part = WAYS
                .into_iter()
                .find(|&part| trade::fair(&self.level, part, Some(&set), all))
                .unwrap_or(1.0);
            set.who.iter().for_each(|&i| all[i].factor *= set.raise);
            self.level.give_way(part);
            Self::watch(all);
            let values = [
                Value::Count(set.who.len() as u64),
                Value::Flow(all[set.who[0]].flow),
                Value::Rate(bucket(all[set.who[0]].share(self.level.now()))),
            ];
            actions.because(Reason::new("maxmin.try", "{} may have more: flow {} {}", &values));
            return Effort::More(set);
        }
        if self.level.relax() {
            Self::watch(all);
        }
        Effort::Rest
    }
}
