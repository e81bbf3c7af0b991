//! Detection of subscribers that lack service at the present limits.

use super::service::{PACKET, Standing};
use super::subscriber::Subscriber;

/// Debt, as a fraction of the starvation threshold, above which nothing is raised.
pub(super) const UNEASY: f64 = 0.3;
/// Debt, as a fraction of the starvation threshold, at which a trial fails at once.
const WANT: f64 = 0.5;
/// Fraction of the limit below which a subscriber is short after a few seconds.
const EARLY: f64 = 0.82;
/// Fraction of the limit below which a subscriber is short after a whole watch.
const SHORT: f64 = 0.95;
/// Factor of the slack in the early bound.
const EARLIER: f64 = 1.5;
/// Fraction of the limit above which a subscriber certainly has full service.
const FINE: f64 = 0.965;
/// Time after which the early bound applies, s.
const FEW: f64 = 3.0;
/// Idle time that is not due to chance, s.
pub(super) const SILENT: f64 = 1.5;

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Mood {
    /// All backlogged subscribers have their full limit.
    Quiet,
    /// The time of observation is too short.
    Unsure,
    /// The subscriber at this place does not have its full limit.
    Short(usize),
}

/// Returns the verdict over all subscribers after `watch` s; each may miss `slack` of its limit.
pub(super) fn mood(all: &[Subscriber], watch: f64, patient: bool, slack: f64) -> Mood {
    let mut mood = Mood::Quiet;
    for (i, s) in all.iter().enumerate() {
        match of(s, watch, patient, slack) {
            Mood::Short(_) => return Mood::Short(i),
            Mood::Unsure => mood = Mood::Unsure,
            Mood::Quiet => {}
        }
    }
    mood
}

/// Returns the places of the subscribers that are short.
pub(super) fn short(all: &[Subscriber], watch: f64, slack: f64) -> Vec<usize> {
    (0..all.len()).filter(|&i| matches!(of(&all[i], watch, false, slack), Mood::Short(_))).collect()
}

fn of(s: &Subscriber, watch: f64, patient: bool, slack: f64) -> Mood {
    if !s.service.backlogged() {
        return Mood::Quiet;
    }
    let (seen, part) = s.service.trial();
    // Effect of one packet more or less.
    let grain = 0.5 * PACKET / (s.limit * seen.max(1.0));
    let early =
        seen >= FEW && part < EARLY - grain - EARLIER * slack || s.service.silent() > SILENT;
    match () {
        () if s.service.standing() == Standing::Lost || s.service.want() >= WANT || early => {
            Mood::Short(0)
        }
        () if seen < watch => Mood::Unsure,
        () if part < SHORT - grain - slack => Mood::Short(0),
        () if part < FINE - grain - slack && patient => Mood::Unsure,
        () => Mood::Quiet,
    }
}
