//! Trials of a higher level.

use super::{Effort, Search, WATCH};
use crate::gateway::maxmin::judge::{self, Mood};
use crate::gateway::maxmin::needs;
use crate::gateway::maxmin::sets::Sets;
use crate::gateway::maxmin::subscriber::Subscriber;
use crate::gateway::maxmin::trade;
use crate::{Actions, Reason, Value};

/// Time until a subscriber is tested again, s.
const ASKED: f64 = 300.0;
/// Fraction of its rate at the previous level that a short subscriber must keep to be tested.
const NEARLY: f64 = 0.9;
/// Fraction of its limit above which a short subscriber may be short by chance.
const FAR: f64 = 0.9;

impl Search {
    pub(super) fn climb(
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
                // A subscriber that has lost nothing may have all that it wants.
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
}
