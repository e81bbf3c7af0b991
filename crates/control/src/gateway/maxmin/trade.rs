//! What some have more, and what it costs the others.

use super::judge;
use super::level::Level;
use super::service::Standing;
use super::sets::Set;
use super::subscriber::Subscriber;

/// What the others lose of a raise must bring so many times as much, and nobody has less than this part meanwhile.
const PAYS: f64 = 6.0;
const BEAR: f64 = 0.93;
/// Part of what all could have that is left to them at least, and what they may lose whatever comes of it.
const SPARE: f64 = 0.9;
const FREE: f64 = 0.02;
/// What is left of the level when some have more and the others lose little, at least.
const TRIM: f64 = 0.96;

/// The least part of its limit that anybody has since limits were changed.
pub(super) fn least(all: &[Subscriber]) -> f64 {
    let judged = all.iter().filter(|s| s.service.backlogged());
    judged
        .map(|s| if s.service.silent() > judge::SILENT { 0.5 } else { s.service.trial().1 })
        .fold(1.0, f64::min)
}

/// Whether what some have more than all could have is worth what the others have less, should these have this part
/// of the level and a set more still.
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

/// Whether the others lose little of what these gain, and can bear it.
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
