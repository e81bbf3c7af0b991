//! Sums of minutes: the minutes of one hour of the clock as one period.

use std::collections::BTreeMap;

use super::{DirectionUse, HomeUse, MeshUse, Period, Stamp, Usage};

/// Seconds of an hour.
const HOUR: u64 = 3600;

/// Sum of consecutive periods.
#[derive(Clone, Default, Debug)]
pub struct Coarse {
    stamp: Option<Stamp>,
    mesh: MeshUse,
    homes: BTreeMap<String, [DirectionUse; 2]>,
}

impl Coarse {
    /// Adds a minute; returns the sum of the hour before it, if that hour has ended.
    ///
    /// An hour also ends with the daemon's run and with a jump of the clock into another hour.
    pub fn add(&mut self, minute: &Period) -> Option<Period> {
        let hour = |s: &Stamp| s.wall.saturating_sub(1) / HOUR;
        let ended = self
            .stamp
            .is_some_and(|s| s.run != minute.stamp.run || hour(&s) != hour(&minute.stamp));
        let before = if ended { self.take() } else { None };
        let first = self.stamp.map_or(minute.stamp.first, |s| s.first);
        self.stamp = Some(Stamp { first, ..minute.stamp });
        self.mesh.add(&minute.mesh);
        for home in &minute.homes {
            match self.homes.get_mut(&home.name) {
                Some(sum) => sum.iter_mut().zip(&home.directions).for_each(|(sum, d)| sum.add(d)),
                // Only a new home costs a copy of its name.
                None => {
                    self.homes.insert(home.name.clone(), home.directions.clone());
                }
            }
        }
        before
    }

    /// Returns the sum so far and starts again; `None` without a minute.
    pub fn take(&mut self) -> Option<Period> {
        let Coarse { stamp, mesh, homes } = core::mem::take(self);
        let stamp = stamp?;
        let homes =
            homes.into_iter().map(|(name, directions)| HomeUse { name, directions }).collect();
        Some(Period { stamp, end: stamp.wall, mesh, homes })
    }
}

/// Returns the mean of two values with times as weights.
fn mean(a: Option<u64>, a_seconds: u32, b: Option<u64>, b_seconds: u32) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => {
            let (x, y) = (u128::from(a_seconds), u128::from(b_seconds));
            let sum = u128::from(a) * x + u128::from(b) * y;
            Some(u64::try_from(sum / (x + y).max(1)).unwrap_or(u64::MAX))
        }
        (a, b) => a.or(b),
    }
}

fn sum(total: &mut u32, more: u32) {
    *total = total.saturating_add(more);
}

impl MeshUse {
    /// Adds a later period.
    pub fn add(&mut self, more: &MeshUse) {
        self.level = mean(self.level, self.level_seconds, more.level, more.level_seconds);
        self.bound = more.bound.or(self.bound);
        self.congested_bytes = self.congested_bytes.saturating_add(more.congested_bytes);
        for (total, more) in [
            (&mut self.seconds, more.seconds),
            (&mut self.apply, more.apply),
            (&mut self.enforced, more.enforced),
            (&mut self.visible, more.visible),
            (&mut self.congested, more.congested),
            (&mut self.at_bound, more.at_bound),
            (&mut self.held, more.held),
            (&mut self.delayed, more.delayed),
            (&mut self.level_seconds, more.level_seconds),
        ] {
            sum(total, more);
        }
    }
}

impl DirectionUse {
    /// Adds a later period.
    pub fn add(&mut self, more: &DirectionUse) {
        self.usage.add(&more.usage);
        if !more.reason.is_empty() && self.reason != more.reason {
            self.reason.clone_from(&more.reason);
        }
    }
}

impl Usage {
    /// Adds a later period.
    pub fn add(&mut self, more: &Usage) {
        self.limit = mean(self.limit, self.limited, more.limit, more.limited);
        self.ceiling = more.ceiling.or(self.ceiling);
        self.limited_by = more.limited_by;
        self.round_trip_ms = self.round_trip_ms.max(more.round_trip_ms);
        for (total, more) in [
            (&mut self.bytes, more.bytes),
            (&mut self.drops, more.drops),
            (&mut self.starved_bytes, more.starved_bytes),
            (&mut self.due_bytes, more.due_bytes),
        ] {
            *total = total.saturating_add(more);
        }
        for (total, more) in [
            (&mut self.limited, more.limited),
            (&mut self.active, more.active),
            (&mut self.held, more.held),
            (&mut self.starved, more.starved),
            (&mut self.confirmed, more.confirmed),
        ] {
            sum(total, more);
        }
    }
}
