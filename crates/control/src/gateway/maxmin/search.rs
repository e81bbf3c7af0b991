//! What is done next: the level climbs or rests, is lowered for somebody, or somebody alone is tried.

use super::apart::{self, Apart};
use super::level::Level;
use super::recovery::{self, Recovery};
use super::service::{PACKET, Standing, UNEASY};
use super::subscriber::Subscriber;
use crate::gateway::arc::bucket;
use crate::gateway::bounds::Bounds;
use crate::{Actions, Reason, Value};

/// Above what counts as short, by how much all must be before the level is raised.
const CALM: f64 = 0.015;
/// By how much those who have more than the level give way to it.
const GIVE: f64 = 0.3;
/// s for which they are not raised again.
const GIVEN: f64 = 60.0;
/// By how much a need grows that fills its room, and the part from which it does.
const GROWS: f64 = 1.3;
const FILLED: f64 = 0.93;
/// Change of the set of flows that moves the level, part.
const NOTICED: f64 = 0.03;
/// A newcomer counts once it has sent for so long, s.
const ARRIVED: f64 = 2.0;

/// What is under way.
#[derive(Clone, Debug)]
enum Effort {
    /// The level climbs or rests.
    Rest,
    Recovery(Recovery),
    Apart(Apart),
}

#[derive(Clone, Debug)]
pub(super) struct Search {
    level: Level,
    /// Part of its limit below which somebody is short.
    short: f64,
    effort: Effort,
    /// Weights of those who are there, who only sometimes send by the part of the time that they do.
    present: f64,
}

impl Search {
    pub fn new(bounds: Bounds, rest: f64, short: f64) -> Self {
        Search {
            level: Level::new(bounds.lowest, bounds.upper, rest),
            short,
            effort: Effort::Rest,
            present: 0.0,
        }
    }

    pub fn level(&self) -> f64 {
        self.level.now()
    }

    /// All are expected, until counters say more.
    pub fn begin(&mut self, all: &[Subscriber]) {
        self.present = all.iter().map(|s| s.weight).sum();
        if self.present > 0.0 {
            self.level.scale(1.0 / self.present);
        }
    }

    /// What all together have, bit/s: for a successor after a restart.
    pub fn learned(&self) -> f64 {
        self.level.now() * self.present.max(f64::MIN_POSITIVE)
    }

    pub fn recall(&mut self, learned: f64, all: &[Subscriber]) {
        let weights: f64 = all.iter().map(|s| s.weight).sum();
        if weights > 0.0 && learned.is_finite() {
            self.level.set(learned / weights);
        }
    }

    /// Time that the slowest needs to show what a change does, s.
    fn pace(all: &[Subscriber]) -> f64 {
        let sending = all.iter().filter(|s| s.sends() && s.cap.is_none());
        let slowest = sending.map(|s| s.limit).fold(f64::INFINITY, f64::min);
        (4.0 + 5.0 * PACKET / slowest).min(60.0)
    }

    pub fn step(&mut self, elapsed: f64, all: &mut [Subscriber], actions: &mut Actions) {
        self.level.pass(elapsed);
        self.population(all, actions);
        let pace = Self::pace(all);
        match core::mem::replace(&mut self.effort, Effort::Rest) {
            Effort::Rest => match all.iter().any(|s| s.service.want() >= 1.0) {
                true => self.suffers(all, pace, actions),
                false => self.rest(all, pace, actions),
            },
            Effort::Recovery(mut recovery) => {
                if recovery.step(&mut self.level, all, pace, actions) == recovery::Step::On {
                    self.effort = Effort::Recovery(recovery);
                }
            }
            Effort::Apart(mut apart) => {
                if apart.step(&mut self.level, self.short, all, pace, actions) == apart::Step::On {
                    self.effort = Effort::Apart(apart);
                }
            }
        }
    }

    /// Who comes or goes takes or leaves its part at once.
    fn population(&mut self, all: &[Subscriber], actions: &mut Actions) {
        let count = |s: &Subscriber| {
            let standing = s.service.standing();
            let arrives = standing == Standing::Sending && s.service.sent_for() < ARRIVED;
            match standing == Standing::Idle || arrives {
                true => s.weight * s.service.presence(),
                false => s.weight,
            }
        };
        let present: f64 = all.iter().map(count).sum();
        let lightest = all.iter().map(|s| s.weight).fold(f64::INFINITY, f64::min);
        if !lightest.is_finite() {
            return;
        }
        // The first one alone may not have all that there is: others come in the same second.
        let present = present.max(0.5 * lightest);
        let factor = self.present / present;
        if (factor - 1.0).abs() <= NOTICED {
            return;
        }
        self.present = present;
        self.level.scale(factor);
        if let Effort::Recovery(recovery) = &mut self.effort {
            recovery.scale(factor);
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

    /// Whoever has more than the level.
    fn above(all: &[Subscriber]) -> bool {
        all.iter().any(|s| s.factor > 1.0)
    }

    /// They give some of it.
    fn give(all: &mut [Subscriber], part: f64) {
        for s in all.iter_mut().filter(|s| s.factor > 1.0) {
            let left = (1.0 - part) * (s.factor - 1.0);
            s.factor = if left > 0.05 { 1.0 + left } else { 1.0 };
            s.pause(GIVEN);
        }
    }

    /// Somebody has had too little for too long.
    fn suffers(&mut self, all: &mut [Subscriber], pace: f64, actions: &mut Actions) {
        let recovery = Recovery::new(&self.level, all);
        let worst = all.iter().max_by(|a, b| a.service.want().total_cmp(&b.service.want()));
        let flow = Value::Flow(worst.map_or(fairmesh_units::FlowId(0), |s| s.flow));
        let above = Self::above(all);
        if above && !self.level.fresh(5.0, pace) && self.level.spent() {
            Self::give(all, 0.5);
            self.level.since = 0.0;
            let text = "flow {} suffers: who has more than {} gives half of that";
            actions.because(Reason::new("maxmin.take", text, &[flow, self.each()]));
        } else {
            self.level.meet(above);
            recovery::cut(&mut self.level, 0);
            let text = "flow {} suffers: down to {} each";
            actions.because(Reason::new("maxmin.suffers", text, &[flow, self.each()]));
        }
        all.iter_mut().for_each(|s| s.service.forgive(recovery::BEGIN));
        self.effort = Effort::Recovery(recovery);
    }

    /// Nobody suffers.
    fn rest(&mut self, all: &mut [Subscriber], pace: f64, actions: &mut Actions) {
        Self::grow(all, self.level.now(), actions);
        let worst = all.iter().map(|s| s.service.part()).fold(1.0, f64::min);
        if worst < self.short && self.level.since > 2.0 * pace && self.level.known() {
            return self.shorten(worst, all, pace, actions);
        }
        let calm = !self.level.known() || worst > self.short + CALM;
        let uneasy = !calm || all.iter().any(|s| s.service.want() > UNEASY);
        let lost = all.iter().any(|s| s.service.standing() == Standing::Lost);
        let used = all.iter().any(|s| s.service.full());
        if uneasy || lost || !used || self.level.since < pace {
            return;
        }
        match self.level.next(calm) {
            Some((to, paces)) if self.level.since >= paces * pace => {
                self.level.rise(to);
                let text = "nobody is short: up to {} each";
                actions.because(Reason::new("maxmin.rise", text, &[self.each()]));
            }
            Some(_) => {}
            None => {
                if let Some(apart) = Apart::begin(self.level.now(), all, actions) {
                    self.level.since = 0.0;
                    self.effort = Effort::Apart(apart);
                }
            }
        }
    }

    /// Somebody has a little less than it may.
    fn shorten(&mut self, worst: f64, all: &mut [Subscriber], pace: f64, actions: &mut Actions) {
        let above = Self::above(all);
        if above && !self.level.fresh(5.0, pace) && self.level.spent() {
            Self::give(all, GIVE);
            self.level.since = 0.0;
            actions.because(Reason::new(
                "maxmin.give",
                "somebody has {} of what it may: who has more than {} gives some of that",
                &[Value::Percent(worst), self.each()],
            ));
        } else {
            self.level.meet(above);
            self.level.refine();
            self.level.set(self.level.now() * (worst / (self.short + 0.03)).clamp(0.85, 0.97));
            actions.because(Reason::new(
                "maxmin.short",
                "somebody has {} of what it may: down to {} each",
                &[Value::Percent(worst), self.each()],
            ));
        }
        all.iter_mut().for_each(|s| s.service.forgive(1.0));
    }

    /// Needs that fill their room grow, up to a share like everybody's.
    fn grow(all: &mut [Subscriber], level: f64, actions: &mut Actions) {
        for s in all.iter_mut() {
            if let Some(cap) = s.cap
                && s.sends()
                && s.service.rate() > FILLED * cap
            {
                let cap = GROWS * cap;
                s.cap = (cap < s.share(level)).then_some(cap);
                s.service.forgive(0.0);
                let values = [Value::Flow(s.flow), Value::Rate(bucket(cap.min(s.share(level))))];
                let text = "flow {} uses all that it could before: {}";
                actions.because(Reason::new("maxmin.grows", text, &values));
            }
        }
    }
}
