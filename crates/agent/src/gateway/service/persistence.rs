//! State that survives a restart: learned rates, overrides, class numbers.

use std::collections::BTreeMap;

use fairmesh_linux::Shaper;
use fairmesh_units::{BitRate, Span, Time};

use super::Gateway;
use crate::daemon::process::resources;
use crate::daemon::service::Effect;
use crate::gateway::governor::{Override, direction_name};
use crate::gateway::journal::Level;
use crate::gateway::kept::{QUOTAS_FILE, SavedOverride, SavedRate, SavedState};
use crate::gateway::sources::excerpt;

/// Interval of the checks for new state to store.
pub(super) const SAVE_INTERVAL: Span = Span::from_secs(30);
/// Interval of the writes of the metrics file: that of collectors.
const PUBLISH_INTERVAL: Span = Span::from_secs(15);
/// Interval of the writes of the control's learned rate: long, to limit writes to flash.
const LEARN_INTERVAL: Span = Span::from_secs(600);
/// Interval of the writes of quotas' use: a crash loses no more than a minute.
const QUOTA_INTERVAL: Span = Span::from_secs(55);
/// Change of an override's end that is ignored, in s.
const IGNORED_CHANGE_S: u64 = 60;
/// Age after which a learned rate is discarded, s: a week.
const LEARNED_LIFETIME_S: u64 = 7 * 86_400;

impl<P: Shaper> Gateway<P> {
    /// Records the control's learned rate, from time to time and at the end.
    pub(super) fn learn(&mut self, end: bool) {
        let now = self.now();
        let due = self.learned.as_ref().is_none_or(|(at, _)| now.since(*at) >= LEARN_INTERVAL);
        if !(end || due && now.since(Time::ZERO) >= LEARN_INTERVAL) {
            return;
        }
        if let Some(rate) = self.host.governor.learned() {
            let control = self.host.governor.mechanism().to_string();
            self.learned = Some((now, SavedRate { control, rate: rate.0, at: self.at.wall }));
        }
    }

    fn kept(&self) -> SavedState {
        let governor = &self.host.governor;
        let (now, wall) = (self.now(), self.at.wall);
        let classes = governor.class_ids().entries().map(|(n, c)| (n.to_owned(), c)).collect();
        let learned = self.learned.as_ref().map(|(_, l)| l.clone());
        let layout = Some(governor.base_layout());
        let quotas = governor.calendar.usage();
        let mut kept = SavedState { classes, learned, layout, quotas, ..SavedState::default() };
        let before: BTreeMap<_, _> = self
            .overrides
            .iter()
            .map(|o| ((o.subscriber.as_str(), o.direction.as_str(), o.rate), o))
            .collect();
        let keep = |(name, d, o): (&str, usize, Override)| {
            let (direction, rate) = (direction_name(d), o.rate.map(|r| r.0));
            let left = o.until.since(now).as_secs_f64().round() as u64;
            let until = wall.saturating_add(left);
            match before.get(&(name, direction, rate)) {
                // A small difference of clocks is not written.
                Some(before) if before.until.abs_diff(until) < IGNORED_CHANGE_S => {
                    (*before).clone()
                }
                _ => SavedOverride {
                    subscriber: name.to_owned(),
                    direction: direction.to_owned(),
                    rate,
                    until,
                    left: Some(left),
                },
            }
        };
        kept.overrides = governor.overrides().map(keep).collect();
        kept
    }

    pub(super) fn save(&mut self) {
        self.saved = self.now();
        self.learn(false);
        let kept = self.kept();
        // Subscribers change all the time in some meshes, so they are written seldom.
        let urgent = kept.overrides != self.overrides || kept.layout != self.kept_layout;
        let due = self.written.is_none_or(|at| self.saved.since(at) >= LEARN_INTERVAL);
        let (at, quotas) = &self.quotas_written;
        let minute = at.is_none_or(|at| self.saved.since(at) >= QUOTA_INTERVAL);
        if (minute || due) && *quotas != kept.quotas {
            self.quotas_written = (Some(self.saved), kept.quotas.clone());
            self.effects.push(Effect::SavePart { name: QUOTAS_FILE, text: kept.quotas_text() });
        }
        if !(urgent || due) {
            return;
        }
        self.written = Some(self.saved);
        self.overrides.clone_from(&kept.overrides);
        self.kept_layout.clone_from(&kept.layout);
        self.effects.push(Effect::Save(kept.text()));
    }

    /// Writes the page of the metrics for a collector of text files.
    pub(super) fn publish(&mut self) {
        let Some(file) = self.config.textfile.clone() else { return };
        let now = self.now();
        if self.published.is_some_and(|at| now.since(at) < PUBLISH_INTERVAL) {
            return;
        }
        self.published = Some(now);
        let text = self.page(resources());
        self.effects.push(Effect::Publish { file, text });
    }

    pub(super) fn restore(&mut self, kept: &SavedState) {
        let (now, wall) = (self.now(), self.at.wall);
        let same = |l: &&SavedRate| l.control == self.host.governor.mechanism().to_string();
        if let Some(l) = kept.learned.as_ref().filter(same)
            && Override::RATES.contains(&l.rate)
            && wall.saturating_sub(l.at) < LEARNED_LIFETIME_S
        {
            self.learned = Some((now, l.clone()));
            self.host.governor.recall(now, BitRate(l.rate));
        }
        self.overrides.clone_from(&kept.overrides);
        self.kept_layout.clone_from(&kept.layout);
        for o in kept.overrides.iter().filter(|o| o.until > wall) {
            let Some((direction, value)) = o.read(now, wall) else {
                let name = excerpt(&o.subscriber);
                self.note(Level::Warning, "state.refused", || {
                    format!("the saved override of \"{name}\" is invalid and is discarded")
                });
                continue;
            };
            self.host.governor.restore_override(now, &o.subscriber, direction, value);
        }
    }
}
