//! Recovery from a shortage without a trial, or from one that remains after a trial.

use super::{Effort, Search, TRIM, WATCH, YIELDS};
use crate::gateway::maxmin::judge::{self, Mood};
use crate::gateway::maxmin::needs;
use crate::gateway::maxmin::sets::Undone;
use crate::gateway::maxmin::subscriber::Subscriber;
use crate::gateway::maxmin::trade;
use crate::{Actions, Reason, Value};

/// Paces for which all may recover from a failed trial.
const CALM: f64 = 12.0;
/// Paces between cuts.
const AGAIN: f64 = 2.5;
/// Fraction of the level that is left after a cut for a starved subscriber.
const CUT: f64 = 0.9;
/// Factor by which cuts deepen if they do not help.
const DEEPER: f64 = 0.97;
/// Fraction of the old level below which cuts are given up.
const DEEPEST: f64 = 0.45;
/// Fraction of the old level to which the others return if no cut helps.
const RETURN: f64 = 0.96;

impl Search {
    /// Handles a shortage that occurs without a change of limits.
    pub(super) fn miss(
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

    /// Undoes the last raise, or lowers the level to a fraction.
    pub(super) fn undo(
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

    #[allow(clippy::too_many_arguments)]
    pub(super) fn settle(
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
                // An idle subscriber shows no effect before TCP retransmits.
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
