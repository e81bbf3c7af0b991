//! Tests if subscribers want more.

use super::{Effort, Search, WATCH};
use crate::gateway::maxmin::needs;
use crate::gateway::maxmin::subscriber::Subscriber;
use crate::{Actions, Reason, Value};

/// Fraction of the level that all have while a subscriber is doubted.
const DOUBTED: f64 = 0.6;
/// Paces for which a doubt is observed.
const HEAR: f64 = 3.0;
/// Minimum gain of a starved subscriber, as a factor.
const GAINED: f64 = 1.3;
/// Lowest fraction of the level for doubts at the beginning, when its height is unknown.
const DEEP: f64 = 0.2;
/// Mean fraction of its limit below which a subscriber that never used its full limit is doubted.
const HALF: f64 = 0.5;
/// Mean fraction of its limit below which it is doubted together with another.
const SOON: f64 = 0.75;
/// Fraction of a lower limit whose use counts like a gain.
const FILLS: f64 = 0.85;

impl Search {
    /// Ends the test of subscribers that were raised alone; those that cannot use more need no more.
    pub(super) fn ask(
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

    /// Lowers the level, if a subscriber is doubtful, to find if it is starved.
    pub(super) fn in_doubt(
        &mut self,
        all: &mut [Subscriber],
        actions: &mut Actions,
    ) -> Option<Effort> {
        if !all.iter().any(|s| s.doubtful(HALF)) {
            return None;
        }
        // Subscribers that would be doubted soon are doubted now.
        let soon = (0..all.len()).filter(|&i| all[i].doubtful(SOON));
        let who: Vec<(usize, f64)> =
            soon.map(|i| (i, all[i].service.mean() * all[i].limit)).collect();
        let from = self.level.now();
        self.level.set(DOUBTED * from);
        Self::watch(all);
        let values = [Value::Flow(all[who[0].0].flow), self.each()];
        let text = "does flow {} starve? {} each, to see";
        actions.because(Reason::new("maxmin.doubt", text, &values));
        Some(Effort::Doubt { who, from })
    }

    /// Ends a doubt: a subscriber that gets much more when the others have less was starved.
    pub(super) fn doubt(
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
        // At the beginning little is known of the level: it may be far too high.
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
            // From below, the level that all can have is found quickly.
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
}
