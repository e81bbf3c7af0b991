//! One alone is given more than the level, to see whether anybody misses it.

use super::level::Level;
use super::service::{Standing, UNEASY};
use super::subscriber::Subscriber;
use crate::gateway::arc::bucket;
use crate::{Actions, Reason, Value};

/// By what it is raised.
const RAISE: f64 = 1.25;
/// Times the level from which nobody is raised further: what small steps cannot tell would add up.
const MOST: f64 = 1.6;
/// By how much a want must grow to be laid to it.
const HURT: f64 = 0.4;
/// Paces after which it may stay.
const WATCH: f64 = 2.0;
/// s until it is raised again after one that nobody missed, and after one of which that is not sure.
const AGAIN: f64 = 30.0;
const UNSURE: f64 = 60.0;

/// Whether it goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    On,
    Done,
}

#[derive(Clone, Debug)]
pub(super) struct Apart {
    who: usize,
    /// Its factor before.
    before: f64,
    /// The wants of all before.
    wants: Vec<f64>,
}

impl Apart {
    /// Raises the next one: the nearest first, because its packets take least air.
    pub fn begin(level: f64, all: &mut [Subscriber], actions: &mut Actions) -> Option<Self> {
        let may = |i: &usize| all[*i].ready() && all[*i].factor < MOST;
        let next = (0..all.len()).filter(may).min_by_key(|&i| all[i].hops.unwrap_or(1));
        let who = next?;
        let before = all[who].factor;
        all[who].factor *= RAISE;
        let wants = all.iter().map(|s| s.service.want()).collect();
        let values = [Value::Flow(all[who].flow), Value::Rate(bucket(all[who].share(level)))];
        actions.because(Reason::new("maxmin.try", "flow {} alone may have {}", &values));
        Some(Apart { who, before, wants })
    }

    pub fn step(
        &mut self,
        level: &mut Level,
        short: f64,
        all: &mut [Subscriber],
        pace: f64,
        actions: &mut Actions,
    ) -> Step {
        let who = self.who;
        let hurt = |(i, s): (usize, &Subscriber)| {
            // Who has come since has nothing to compare with.
            let grown = self.wants.get(i).is_some_and(|before| s.service.want() > before + HURT);
            i != who
                && (s.service.want() >= 1.0
                    || grown
                    || s.service.standing() == Standing::Lost
                    || s.service.paused() > 0.8 * pace)
        };
        let flow = Value::Flow(all[who].flow);
        if all.iter().enumerate().any(hurt) {
            all[who].factor = self.before;
            all[who].put_off();
            level.since = 0.0;
            let text = "flow {} takes from others: back to {}";
            let values = [flow, Value::Rate(bucket(all[who].share(level.now())))];
            actions.because(Reason::new("maxmin.bound", text, &values));
            return Step::Done;
        }
        if level.since < WATCH * pace {
            return Step::On;
        }
        level.since = 0.0;
        let unsure = all.iter().enumerate().any(|(i, s)| {
            i != who && (s.service.want() > UNEASY || s.service.part() < short + 0.01)
        });
        if all[who].fills() {
            all[who].pause(if unsure { UNSURE } else { AGAIN });
            return Step::Done;
        }
        // What it uses is what it can.
        let part = all[who].service.rate() / (level.now() * all[who].weight);
        let most = all[who].factor;
        all[who].factor = part.clamp(1.0, most);
        all[who].service.forgive(0.0);
        all[who].put_off();
        let text = "flow {} takes from nobody what it can use: {}";
        let values = [flow, Value::Rate(bucket(all[who].share(level.now())))];
        actions.because(Reason::new("maxmin.free", text, &values));
        Step::Done
    }
}
