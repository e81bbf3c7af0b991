//! Everybody goes down for somebody who suffers, as far as that helps it.

use super::level::Level;
use super::service::{PACKET, Standing, UNEASY};
use super::subscriber::{ROOM, Subscriber};
use crate::gateway::arc::bucket;
use crate::{Actions, Reason, Value};

/// What is left of the level after a cut, while its edge is known from large steps only, and later.
const COARSE: f64 = 0.85;
const FINE: f64 = 0.92;
/// Want with which a recovery begins, and above which somebody still suffers.
pub(super) const BEGIN: f64 = 0.5;
const WORSE: f64 = 0.65;
/// Part of its limit by which somebody must gain from a cut to have answered it.
const ANSWER: f64 = 0.05;
/// Part of the old level at which nothing helps who goes on at the same rate, at least this part of
/// its limit: it needs no more.
const GIVEN: f64 = 0.88;
const NEEDS: f64 = 0.2;
/// Part by which equal rates may differ, on top of a packet in a few seconds.
const EQUAL: f64 = 0.1;
/// Part of the old level at which nothing helps whoever else has not answered. Cuts without an
/// answer grow by this factor, so that half the air may be gone and is found soon.
const DEEPEST: f64 = 0.45;
const DEEPER: f64 = 0.92;
/// Paces between cuts, and those after which nobody is waited for who neither suffers nor shows that
/// it does not.
const CUT: f64 = 1.5;
const WAIT: f64 = 4.0;
/// Part of the old level to which the others return if nothing helps.
const RETURN: f64 = 0.96;

/// Whether it goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    On,
    Done,
}

/// Lowers the level, after so many cuts that nobody answered.
pub(super) fn cut(level: &mut Level, deaf: u32) {
    let part = if level.coarse() { COARSE } else { FINE };
    level.set(level.now() * part * DEEPER.powi(deaf.min(8) as i32));
}

#[derive(Clone, Debug)]
pub(super) struct Recovery {
    /// The level at which somebody suffered.
    from: f64,
    cuts: u32,
    /// Cuts in a row that nobody answered.
    deaf: u32,
    /// Who suffers, and what it had at the last cut, bit/s.
    who: Vec<(usize, f64)>,
}

impl Recovery {
    pub fn new(level: &Level, all: &[Subscriber]) -> Self {
        let mut recovery = Recovery { from: level.now(), cuts: 1, deaf: 0, who: Vec::new() };
        recovery.join(all);
        recovery
    }

    /// Whoever suffers by now.
    fn join(&mut self, all: &[Subscriber]) {
        for (i, s) in all.iter().enumerate().filter(|(_, s)| s.service.want() >= 1.0) {
            if !self.who.iter().any(|w| w.0 == i) {
                self.who.push((i, s.service.rate()));
            }
        }
    }

    pub fn scale(&mut self, factor: f64) {
        self.from *= factor;
    }

    pub fn step(
        &mut self,
        level: &mut Level,
        all: &mut [Subscriber],
        pace: f64,
        actions: &mut Actions,
    ) -> Step {
        self.join(all);
        let fine = |s: &Subscriber| match s.service.standing() {
            Standing::Idle => true,
            Standing::Lost => false,
            Standing::Sending => {
                s.service.want() < UNEASY
                    && (s.service.rate() > 0.85 * s.limit || s.service.bound())
            }
        };
        let mut left = self.who.iter().map(|w| w.0).filter(|&i| !fine(&all[i])).peekable();
        if left.peek().is_none() && level.since >= 0.5 * pace {
            if self.cuts > 1 {
                level.recovered();
            }
            level.since = 0.0;
            let each = Value::Rate(bucket(level.now()));
            let text = "nobody suffers any more: {} each";
            actions.because(Reason::new("maxmin.recovered", text, &[each]));
            return Step::Done;
        }
        if level.since < CUT * pace {
            return Step::On;
        }
        let left: Vec<usize> = left.collect();
        let worse = |&i: &usize| all[i].sends() && all[i].service.want() > WORSE;
        let suffer: Vec<usize> = left.iter().copied().filter(worse).collect();
        if suffer.is_empty() {
            let lost = left.iter().any(|&i| all[i].service.standing() == Standing::Lost);
            return if lost || level.since < WAIT * pace { Step::On } else { Step::Done };
        }
        let answered = self.who.iter().any(|&(i, before)| {
            suffer.contains(&i) && all[i].service.rate() > before + ANSWER * all[i].limit
        });
        self.deaf = if answered { 0 } else { self.deaf + 1 };
        let steady = |&i: &usize| {
            let (rate, limit) = (all[i].service.rate(), all[i].limit);
            let before = self.who.iter().find(|w| w.0 == i).map_or(rate, |w| w.1);
            rate > NEEDS * limit && (rate - before).abs() <= EQUAL * rate + PACKET / 4.0
        };
        let given = self.deaf > 0 && level.now() < GIVEN * self.from;
        let needs = given && suffer.iter().all(steady);
        if needs || level.now() < DEEPEST * self.from {
            Self::leave(&suffer, all, actions);
            level.set(RETURN * self.from);
            return Step::Done;
        }
        for (i, before) in &mut self.who {
            *before = all[*i].service.rate();
        }
        all.iter_mut().for_each(|s| s.service.forgive(BEGIN));
        cut(level, self.deaf);
        self.cuts += 1;
        let values = [Value::Count(suffer.len() as u64), Value::Rate(bucket(level.now()))];
        let text = "{} still suffer: down to {} each";
        actions.because(Reason::new("maxmin.further", text, &values));
        Step::On
    }

    /// Nothing that others give up helps: it needs no more, or something else holds it back.
    fn leave(suffer: &[usize], all: &mut [Subscriber], actions: &mut Actions) {
        for &i in suffer {
            let s = &mut all[i];
            let rate = s.service.rate();
            s.service.forgive(0.0);
            if rate < 0.85 * s.limit {
                s.cap = Some((ROOM * rate).max(PACKET / 10.0));
                let values = [Value::Flow(s.flow), Value::Rate(bucket(rate))];
                let text = "flow {} has {} whatever the others have: they get theirs back";
                actions.because(Reason::new("maxmin.own", text, &values));
            }
        }
    }
}
