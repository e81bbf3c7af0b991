//! What is done next: a level is tried, or more for some; what nobody misses stays.

use super::judge::{self, Mood};
use super::level::Level;
use super::service::{PACKET, Standing};
use super::sets::{Set, Sets, Undone};
use super::subscriber::Subscriber;
use super::{needs, trade};
use crate::gateway::arc::bucket;
use crate::gateway::bounds::Bounds;
use crate::{Actions, Reason, Value};

/// Change of the set of flows that moves the level, part.
const NOTICED: f64 = 0.03;
/// The search begins at this part of what one bottleneck of the whole mesh would carry, but not below
/// so much for each, bit/s: pages at lower limits look like long transfers.
const LOW: f64 = 4.0;
const MODEST: f64 = 100e3;
/// s at the beginning in which at least such a part of all is taken to be there.
const BEGINNING: f64 = 20.0;
const MISSING: f64 = 1.0 / 6.0;
/// What who only sometimes sends may have at least, in shares.
const PAGES: f64 = 1.5;
/// Part of its limit that a transfer may miss where all others read.
const SLACK: f64 = 0.35;
/// Part of that while some are tried with more: what these take must show.
const CAREFUL: f64 = 0.3;
/// A newcomer counts once it has sent for so long, s.
const ARRIVED: f64 = 2.0;
/// Paces for which all are watched after a step of the first climb, after most changes, and after
/// the level has risen again; after so many times that a doubt is none.
const GLANCE: f64 = 0.9;
const WATCH: f64 = 2.0;
const LONG: f64 = 3.0;
const DOUBT: f64 = 2.5;
/// Paces for which all may recover from a try that failed, and between cuts.
const CALM: f64 = 12.0;
const AGAIN: f64 = 2.5;
/// What is left of the level after a cut for somebody who suffers, and for somebody who is short.
const CUT: f64 = 0.9;
const TRIM: f64 = 0.96;
/// Cuts that help nobody grow by this factor.
const DEEPER: f64 = 0.97;
/// Part of the level at which nothing helps.
const DEEPEST: f64 = 0.45;
/// Part of the old level to which the others return if nothing helps.
const RETURN: f64 = 0.96;
/// Part of the level that all have while somebody is doubted, paces for that, and what whoever has
/// starved gains at least.
const DOUBTED: f64 = 0.6;
const HEAR: f64 = 3.0;
/// The same part at the beginning, when nobody knows how high the level may be.
const DEEP: f64 = 0.2;
/// Mean part of its limit below which somebody who was never seen to have all is doubted, and is
/// doubted together with another.
const HALF: f64 = 0.5;
const SOON: f64 = 0.75;
const GAINED: f64 = 1.3;
/// Part of a lower limit that shows the same.
const FILLS: f64 = 0.85;
/// What is left of a share above the others' when it is not had, at least; and from which part above them on.
const YIELDS: f64 = 0.8;
const MORE: f64 = 1.05;
/// Parts of the level at which somebody is tried with more.
const WAYS: [f64; 5] = [0.95, 0.96, 0.97, 0.98, 0.99];
/// A factor of somebody who had more.
const LITTLE: f64 = 1.001;
/// s until somebody is asked again.
const ASKED: f64 = 300.0;
/// What must have passed at the level before, of what was short, for it to be asked.
const NEARLY: f64 = 0.9;
/// Part of its limit above which somebody short may be short by chance.
const FAR: f64 = 0.9;

/// Part of what each would have of all that there is that is nobody's loss while no edge is known, and
/// how long a level is remembered, s.
const YOUNG: f64 = 0.7;
const REMEMBERED: f64 = 40.0;

/// What is under way.
#[derive(Clone, Debug)]
enum Effort {
    Rest,
    /// The level is tried.
    Climb,
    /// These are tried with more.
    More(Set),
    /// Whether these could use more.
    Ask(Vec<usize>),
    /// The level is lower, to see who of these gains from it; what they had, bit/s.
    Doubt {
        who: Vec<(usize, f64)>,
        from: f64,
    },
    /// All wait until nobody is short; from which level, and after how many cuts.
    Settle {
        from: f64,
        cuts: i32,
        who: Vec<usize>,
    },
}

#[derive(Clone, Debug)]
pub(super) struct Search {
    level: Level,
    /// Part of its limit below which somebody is short in the long run.
    short: f64,
    effort: Effort,
    sets: Sets,
    /// Who was short first when all went up.
    first: Vec<usize>,
    /// Weights of those who are there, who only sometimes send by the part of the time that they do.
    present: f64,
    /// s since the beginning.
    age: f64,
    /// The highest level of late that was carried.
    high: f64,
    /// What a transfer may miss of its limit while others read, part: pages come and go faster than any level.
    slack: f64,
    /// The last try was kept just now.
    won: bool,
    /// By what the level was raised alone, without those who have more.
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

    /// The level at which nobody takes anything from others, as far as is known: the highest of late that
    /// was carried, and
    /// while no edge was met most of what `upper` is for each.
    pub fn highest(&self, upper: f64) -> f64 {
        let each = YOUNG * upper / self.present.max(f64::MIN_POSITIVE);
        if self.level.young() { self.high.max(each) } else { self.high }
    }

    /// Goes on after a time in which what anybody missed was somebody's flood.
    pub fn resume(&mut self, all: &mut [Subscriber]) {
        all.iter_mut().for_each(|s| s.service.forgive(0.0));
        Self::watch(all);
        self.level.since = 0.0;
    }

    /// All are expected, until counters say more.
    pub fn begin(&mut self, all: &[Subscriber]) {
        self.present = all.iter().map(|s| s.weight).sum();
        if self.present > 0.0 {
            let full = self.level.now();
            let total = (full / LOW).max(full.min(MODEST * self.present));
            self.level.begin(total / full / self.present, full / self.present);
        }
    }

    /// What all together have, bit/s: for a successor after a restart.
    pub fn learned(&self) -> f64 {
        self.level.now() * self.present.max(f64::MIN_POSITIVE)
    }

    pub fn recall(&mut self, learned: f64, all: &[Subscriber]) {
        let weights: f64 = all.iter().map(|s| s.weight).sum();
        if weights > 0.0 && learned.is_finite() {
            self.level.recall(learned / weights);
        }
    }

    /// Time that the slowest needs to show what a change does, s.
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
            // What was missing before was not for long.
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

    /// Who comes or goes takes or leaves its part at once.
    fn population(&mut self, all: &[Subscriber], actions: &mut Actions) {
        let count = |s: &Subscriber| {
            if s.watch.is_flood() {
                // It takes its part of the air, whatever it is due.
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
        // The first one alone may not have all that there is: others come in the same second.
        let mut least = 0.5 * lightest;
        if self.age < BEGINNING {
            // Who has not sent yet may do so any moment.
            least = least.max(MISSING * all.iter().map(|s| s.weight).sum::<f64>());
        }
        let present = present.max(least);
        // Where nobody was expected the first ones share what the search begins with.
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

    /// What passed before says nothing about the limits of now.
    fn watch(all: &mut [Subscriber]) {
        all.iter_mut().for_each(|s| s.service.begin_trial());
    }

    /// All wait until nobody is short.
    fn wait(&self, all: &mut [Subscriber]) -> Effort {
        Self::watch(all);
        Effort::Settle { from: self.level.now(), cuts: 0, who: Vec::new() }
    }

    /// Nothing is under way.
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
        if all.iter().any(|s| s.doubtful(HALF)) && self.level.since > pace {
            // Whoever would be doubted soon is doubted now.
            let soon = (0..all.len()).filter(|&i| all[i].doubtful(SOON));
            let doubtful: Vec<(usize, f64)> =
                soon.map(|i| (i, all[i].service.mean() * all[i].limit)).collect();
            let from = self.level.now();
            self.level.set(DOUBTED * from);
            Self::watch(all);
            let values = [Value::Flow(all[doubtful[0].0].flow), self.each()];
            actions.because(Reason::new(
                "maxmin.doubt",
                "does flow {} starve? {} each, to see",
                &values,
            ));
            return Effort::Doubt { who: doubtful, from };
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
            // Who has more than the level keeps just that.
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

    /// Somebody misses something though nothing was changed.
    fn miss(
        &mut self,
        place: usize,
        suffers: bool,
        all: &mut [Subscriber],
        actions: &mut Actions,
    ) -> Effort {
        let flow = Value::Flow(all[place].flow);
        let part = all[place].service.part();
        let from = self.level.now();
        if all[place].factor > 1.0 {
            let s = &mut all[place];
            s.factor = (s.factor * part.clamp(YIELDS, 0.97)).max(1.0);
            s.put_off();
            actions.because(Reason::new(
                "maxmin.less",
                "flow {} has {} of what it alone may",
                &[flow, Value::Percent(part)],
            ));
        } else {
            self.undo(flow, if suffers { CUT } else { TRIM }, true, all, actions);
        }
        all.iter_mut().for_each(|s| s.service.forgive(0.3));
        Self::watch(all);
        Effort::Settle { from, cuts: 1, who: vec![place] }
    }

    /// Takes back what was raised last, or goes down to a part of the level.
    fn undo(
        &mut self,
        flow: Value,
        part: f64,
        edge: bool,
        all: &mut [Subscriber],
        actions: &mut Actions,
    ) {
        let trim = !self.sets.level_last()
            && !self.sets.none()
            && trade::fair(&self.level, TRIM, None, all);
        let part = if trim { part.max(TRIM) } else { part };
        let stays = !self.sets.none() && !trade::fair(&self.level, 1.0, None, all);
        let undone = if trim { None } else { self.sets.undo(stays, all) };
        match undone {
            Some(Undone::One(who)) => {
                self.level.since = 0.0;
                let values = [flow, Value::Flow(all[who].flow)];
                let text = "flow {} is short: flow {} gives back what it had last";
                actions.because(Reason::new("maxmin.take", text, &values));
            }
            undone => {
                if edge && !self.level.startles() {
                    self.level.meet();
                }
                let part = match undone {
                    Some(Undone::Level(factor)) => {
                        (1.0 / factor).max(if self.sets.none() { 0.0 } else { CUT })
                    }
                    _ => part,
                };
                self.level.lower(part);
                let values = [flow, self.each()];
                actions.because(Reason::new(
                    "maxmin.short",
                    "flow {} is short: down to {} each",
                    &values,
                ));
            }
        }
    }

    fn climb(
        &mut self,
        mood: Mood,
        all: &mut [Subscriber],
        pace: f64,
        actions: &mut Actions,
    ) -> Effort {
        match mood {
            Mood::Unsure => Effort::Climb,
            Mood::Quiet if self.level.since < pace => Effort::Climb,
            Mood::Quiet => {
                let young = self.level.young();
                let rise = self.level.carries();
                if !young {
                    self.sets.level(rise);
                }
                if self.level.next().is_none() {
                    self.level.relax();
                }
                Effort::Rest
            }
            Mood::Short(_) if self.yields(1.0, all) => Effort::Climb,
            Mood::Short(place) => {
                self.first = judge::short(all, WATCH, self.slack);
                let before = self.level.carried() / self.level.now();
                // Who has lost nothing may have all that it wants.
                let nearly = |&i: &usize| {
                    let part = all[i].service.trial().1;
                    all[i].asked <= 0.0 && part > NEARLY * before && part < FAR
                };
                let ask: Vec<usize> = self.first.iter().copied().filter(nearly).collect();
                self.level.meet();
                self.level.back();
                for s in all.iter_mut().filter(|s| s.factor > 1.0) {
                    s.factor *= self.alone;
                }
                Sets::bound(&self.first, all);
                if !self.sets.none() && !trade::fair(&self.level, 1.0, None, all) {
                    self.sets.undo(true, all);
                }
                let values = [Value::Flow(all[place].flow), self.each()];
                actions.because(Reason::new(
                    "maxmin.edge",
                    "flow {} is short of it: back to {} each",
                    &values,
                ));
                all.iter_mut().for_each(|s| s.service.forgive(0.3));
                Self::watch(all);
                if !ask.is_empty() && ask.len() == self.first.len() && ask.len() * 2 <= all.len() {
                    for &i in &ask {
                        all[i].factor *= needs::ALONE;
                        all[i].asked = ASKED;
                    }
                    return Effort::Ask(ask);
                }
                Effort::Settle { from: self.level.now(), cuts: 0, who: self.first.clone() }
            }
        }
    }

    fn more(
        &mut self,
        set: Set,
        mood: Mood,
        all: &mut [Subscriber],
        actions: &mut Actions,
    ) -> Effort {
        let flow = Value::Flow(all[set.who[0]].flow);
        match mood {
            Mood::Unsure => Effort::More(set),
            Mood::Quiet if !set.who.iter().all(|&i| all[i].fills()) => {
                set.who.iter().for_each(|&i| all[i].factor /= set.raise);
                self.level.recover();
                self.level.relax();
                actions.because(Reason::new("maxmin.enough", "flow {} does not use more", &[flow]));
                for &i in &set.who {
                    if !all[i].fills() {
                        all[i].put_off();
                    }
                }
                self.sets.refuse(set, &[], 0.0, all);
                self.wait(all)
            }
            Mood::Quiet => {
                self.level.keep_low();
                self.level.relax();
                Self::watch(all);
                let values = [flow, Value::Rate(bucket(all[set.who[0]].share(self.level.now())))];
                actions.because(Reason::new(
                    "maxmin.free",
                    "flow {} takes from nobody: {}",
                    &values,
                ));
                self.sets.keep(set);
                self.won = true;
                Effort::Rest
            }
            Mood::Short(_)
                if self.yields(set.who.iter().map(|&i| all[i].factor).fold(1.0, f64::max), all) =>
            {
                Effort::More(set)
            }
            Mood::Short(_) if trade::pays(&self.level, self.slack, &set, all) => {
                let worst = trade::least(all).max(TRIM);
                self.level.keep_low();
                self.level.lower(worst);
                Self::watch(all);
                let values = [flow, Value::Percent(worst)];
                let text = "what flow {} has more is worth it: {} of the level for all";
                actions.because(Reason::new("maxmin.worth", text, &values));
                self.sets.keep(set);
                self.wait(all)
            }
            Mood::Short(place) => {
                let victims = judge::short(all, WATCH, self.slack);
                let cost = self.level.since * (1.0 - trade::least(all));
                set.who.iter().for_each(|&i| all[i].factor /= set.raise);
                self.level.recover();
                self.level.relax();
                let values = [flow, Value::Flow(all[place].flow)];
                actions.because(Reason::new(
                    "maxmin.bound",
                    "what flow {} has more flow {} misses",
                    &values,
                ));
                self.sets.refuse(set, &victims, cost, all);
                all.iter_mut().for_each(|s| s.service.forgive(0.3));
                self.wait(all)
            }
        }
    }

    /// Who is short and has more than so many times the level gives way, before anybody who has less; whether that is
    /// all that there is to do.
    fn yields(&mut self, above: f64, all: &mut [Subscriber]) -> bool {
        let short = judge::short(all, WATCH * Self::pace(all), self.slack);
        let more = |&i: &usize| all[i].factor > MORE * above;
        if short.is_empty() || !short.iter().all(more) {
            return false;
        }
        for i in short {
            let s = &mut all[i];
            let part = s.service.trial().1.clamp(YIELDS, 0.97);
            s.factor = (s.factor * part).max(above);
            s.put_off();
        }
        all.iter_mut().for_each(|s| s.service.forgive(0.3));
        Self::watch(all);
        self.level.since = 0.0;
        true
    }

    /// Whoever cannot use more alone needs no more.
    fn ask(
        &mut self,
        who: Vec<usize>,
        all: &mut [Subscriber],
        pace: f64,
        actions: &mut Actions,
    ) -> Effort {
        if self.level.since < WATCH * pace {
            return Effort::Ask(who);
        }
        needs::asked(&who, all, actions);
        all.iter_mut().for_each(|s| s.service.forgive(0.3));
        self.wait(all)
    }

    /// Whoever has much more when the others have less has starved.
    fn doubt(
        &mut self,
        who: Vec<(usize, f64)>,
        from: f64,
        all: &mut [Subscriber],
        pace: f64,
        actions: &mut Actions,
    ) -> Effort {
        if self.level.since < HEAR * pace {
            return Effort::Doubt { who, from };
        }
        let gained = |s: &Subscriber, before| s.sends() && s.service.rate() > GAINED * before;
        let fills = |s: &Subscriber| s.sends() && s.service.rate() > FILLS * s.limit;
        let starved = who.iter().find(|&&(i, before)| gained(&all[i], before)).map(|w| w.0);
        // What is known of the level at the beginning is little: it may be far too high.
        let doubted = who.iter().map(|w| &all[w.0]);
        let young = self.level.young() && (needs::few(all) || needs::many(doubted, all));
        let low = starved.is_some() || who.iter().any(|&(i, _)| fills(&all[i]));
        if !low && young && self.level.now() > DEEP * from {
            self.level.set(DOUBTED * self.level.now());
            Self::watch(all);
            return Effort::Doubt { who, from };
        }
        for &(i, before) in &who {
            let s = &mut all[i];
            if gained(s, before) { s.service.believe() } else { s.trust() }
        }
        if let Some(place) = starved {
            self.level.lower(1.0);
            let values = [Value::Flow(all[place].flow), self.each()];
            actions.because(Reason::new("maxmin.starved", "flow {} has starved: {} each", &values));
        } else {
            // From below it is found soon what all can have.
            if self.level.young() {
                self.level.lower(1.0)
            } else {
                self.level.back()
            }
            let text = "it wants no more: {} each";
            actions.because(Reason::new("maxmin.little", text, &[self.each()]));
        }
        all.iter_mut().for_each(|s| s.service.forgive(0.3));
        self.wait(all)
    }

    #[allow(clippy::too_many_arguments)]
    fn settle(
        &mut self,
        from: f64,
        cuts: i32,
        mut who: Vec<usize>,
        mood: Mood,
        all: &mut [Subscriber],
        pace: f64,
        actions: &mut Actions,
    ) -> Effort {
        match mood {
            Mood::Unsure => Effort::Settle { from, cuts, who },
            Mood::Quiet => {
                if cuts > 0 {
                    actions.because(Reason::new(
                        "maxmin.recovered",
                        "nobody is short any more: {} each",
                        &[self.each()],
                    ));
                }
                Effort::Rest
            }
            Mood::Short(_) if self.level.since < if cuts == 0 { CALM } else { AGAIN } * pace => {
                Effort::Settle { from, cuts, who }
            }
            Mood::Short(_) if self.yields(1.0, all) => Effort::Settle { from, cuts, who },
            Mood::Short(place) => {
                who = judge::short(all, WATCH * pace, self.slack);
                // Who is silent shows nothing before TCP tries again.
                if cuts > 0 && who.iter().all(|&i| all[i].service.silent() >= self.level.since) {
                    return Effort::Settle { from, cuts, who };
                }
                if self.level.now() * CUT < DEEPEST * from {
                    needs::leave(&who, all, actions);
                    self.level.set(RETURN * from);
                    self.level.carries();
                    self.sets.forget();
                    return self.wait(all);
                }
                let part = CUT * DEEPER.powi(cuts.min(8));
                self.undo(Value::Flow(all[place].flow), part, false, all, actions);
                all.iter_mut().for_each(|s| s.service.forgive(0.3));
                Self::watch(all);
                Effort::Settle { from, cuts: cuts + 1, who }
            }
        }
    }
}
