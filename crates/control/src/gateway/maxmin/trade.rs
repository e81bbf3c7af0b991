//! Trade-off between the gain of some subscribers and the loss of the others.

use super::judge;
use super::level::Level;
use super::service::Standing;
use super::sets::Set;
use super::subscriber::Subscriber;

/// Minimum ratio of the gain of a raise to the loss of the others.
const PAYS: f64 = 6.0;
/// Minimum fraction of its limit that every subscriber must have during a raise.
const BEAR: f64 = 0.93;
/// Minimum fraction of the common level that is left to the others.
const SPARE: f64 = 0.9;
/// Fraction of their common share that the others may lose whatever the gain.
const FREE: f64 = 0.02;
/// Minimum fraction of the level that is left when some have more and the others lose little.
const TRIM: f64 = 0.96;

/// Returns the smallest fraction of its limit that a backlogged subscriber has had since limits changed.
pub(super) fn least(all: &[Subscriber]) -> f64 {
    let judged = all.iter().filter(|s| s.service.backlogged());
    judged
        .map(|s| if s.service.silent() > judge::SILENT { 0.5 } else { s.service.trial().1 })
        .fold(1.0, f64::min)
}

/// True if the gain above the common level outweighs the loss of the others.
///
/// The others are assumed to have this part of the level, and `set`, if given, its raise.
pub(super) fn fair(level: &Level, part: f64, set: Option<&Set>, all: &[Subscriber]) -> bool {
    let (level, common) = (part * level.carried(), level.common());
    let (mut gain, mut loss, mut owed) = (0.0, 0.0, 0.0);
    for (i, s) in all.iter().enumerate().filter(|(_, s)| s.service.backlogged() && s.cap.is_none())
    {
        let raise = set.map_or(1.0, |set| if set.who.contains(&i) { set.raise } else { 1.0 });
        let share = s.weight * (s.factor * raise * level - common);
        if s.factor * raise > 1.0 {
            gain += share
        } else {
            (loss, owed) = (loss - share, owed + s.weight * common)
        }
    }
    level >= SPARE * common && (loss <= FREE * owed || gain >= PAYS * loss)
}

/// True if the others lose little compared to the gain of `set`, and none falls too low.
pub(super) fn pays(level: &Level, slack: f64, set: &Set, all: &[Subscriber]) -> bool {
    let judged = |s: &&Subscriber| s.service.backlogged();
    let worst = least(all);
    let calm = all
        .iter()
        .filter(judged)
        .all(|s| s.service.want() < 0.5 && s.service.standing() == Standing::Sending);
    let gain: f64 =
        set.who.iter().map(|&i| (all[i].service.trial().1 - 1.0 / set.raise) * all[i].limit).sum();
    let others = (0..all.len()).filter(|i| !set.who.contains(i));
    let loss: f64 = others
        .filter(|&i| judged(&&all[i]))
        .map(|i| (1.0 - all[i].service.trial().1).max(0.0) * all[i].limit)
        .sum();
    calm && worst >= BEAR - slack
        && gain > 0.0
        && PAYS * loss <= gain
        && fair(level, worst.max(TRIM), None, all)
}

#[cfg(test)]
mod tests {
    use fairmesh_units::FlowId;

    use super::super::service::{PACKET, Passed, Rules};
    use super::*;

    /// Returns true if a raise of one subscriber to 1.4 of the level pays.
    ///
    /// Each of the `others` has `part` of the level since then.
    fn pays_if(others: u32, part: f64) -> bool {
        let rules = Rules { full: 0.93, debt: 2.5, packets: 5.0 };
        let mut all: Vec<Subscriber> = (0..=others).map(|f| Subscriber::new(FlowId(f))).collect();
        let second = |all: &mut [Subscriber], part: f64| {
            for (i, s) in all.iter_mut().enumerate() {
                s.limit = 1e6 * s.factor;
                let bits = if i == 0 { s.limit } else { part * s.limit };
                let (packets, bound, under_way) = (bits / PACKET, false, None);
                let passed = Passed { elapsed: 1.0, bits, packets, bound, under_way };
                s.service.look(&passed, s.limit, &rules);
            }
        };
        (0..30).for_each(|_| second(&mut all, 1.0));
        all[0].factor = 1.4;
        all.iter_mut().for_each(|s| s.service.begin_trial());
        (0..20).for_each(|_| second(&mut all, part));
        pays(&Level::new(1e6, 9e6, 0.97), 0.0, &Set { who: vec![0], raise: 1.4 }, &all)
    }

    #[test]
    fn a_raise_pays_that_brings_six_times_what_the_others_lose() {
        // The one gains 400 kbit/s, and each of the others loses this part of 1 Mbit/s.
        assert!(pays_if(2, 0.975));
        assert!(!pays_if(2, 0.96));
        assert!(pays_if(4, 0.985));
        assert!(!pays_if(30, 0.985), "many lose a little each");
    }
}
