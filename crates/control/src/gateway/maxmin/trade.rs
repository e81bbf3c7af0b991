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

#[cfg(test)]
mod tests {
    use fairmesh_units::FlowId;

    use super::super::service::{PACKET, Passed, Rules};
    use super::*;

    /// Whether it pays that one has 1.4 of the level, if so many others have this part of it since then.
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
        // It has 400 kbit/s more, and each of the others loses this part of 1 Mbit/s.
        assert!(pays_if(2, 0.975));
        assert!(!pays_if(2, 0.96));
        assert!(pays_if(4, 0.985));
        assert!(!pays_if(30, 0.985), "many lose a little each");
    }
}
