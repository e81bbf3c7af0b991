//! Whether anybody misses something at the limits of the moment.

use super::service::{PACKET, Standing};
use super::subscriber::Subscriber;

/// Want from which nothing is raised.
pub(super) const UNEASY: f64 = 0.3;
/// Want from which a try has failed at once.
const WANT: f64 = 0.5;
/// Part of its limit below which somebody is short after a few seconds, and after a whole watch.
const EARLY: f64 = 0.82;
const SHORT: f64 = 0.95;
/// How much more of the slack counts after a few seconds.
const EARLIER: f64 = 1.5;
/// From here on nobody doubts.
const FINE: f64 = 0.965;
/// s after which the early bound counts.
const FEW: f64 = 3.0;
/// s without a packet that are no chance.
pub(super) const SILENT: f64 = 1.5;

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Mood {
    /// Everybody with much to send has what it may.
    Quiet,
    /// Not watched for long enough.
    Unsure,
    /// Somebody, at this place, has not.
    Short(usize),
}

/// Everybody's mood after they were to be watched for so long, s; all may miss `slack` of their limits.
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

/// Whoever is short, by place.
pub(super) fn short(all: &[Subscriber], watch: f64, slack: f64) -> Vec<usize> {
    (0..all.len()).filter(|&i| matches!(of(&all[i], watch, false, slack), Mood::Short(_))).collect()
}

fn of(s: &Subscriber, watch: f64, patient: bool, slack: f64) -> Mood {
    if !s.service.backlogged() {
        return Mood::Quiet;
    }
    let (seen, part) = s.service.trial();
    // What a packet more or less would make of it.
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
