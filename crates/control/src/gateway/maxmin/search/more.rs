//! Trials of more for some subscribers.

use super::{Effort, Search, TRIM, WATCH, YIELDS};
use crate::gateway::arc::bucket;
use crate::gateway::maxmin::judge::{self, Mood};
use crate::gateway::maxmin::sets::Set;
use crate::gateway::maxmin::subscriber::Subscriber;
use crate::gateway::maxmin::trade;
use crate::{Actions, Reason, Value};

/// Ratio to the share of the others above which a subscriber gives way before them.
const MORE: f64 = 1.05;

impl Search {
    pub(super) fn more(
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

    /// Lowers the short subscribers if all of them have more than `MORE` times `above`.
    ///
    /// They give way before those that have less. Returns true if nothing else is to be done.
    pub(super) fn yields(&mut self, above: f64, all: &mut [Subscriber]) -> bool {
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
}
