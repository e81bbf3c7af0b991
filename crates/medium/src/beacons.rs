//! Beacons apart from each other.
//!
//! The radios of `mac80211_hwsim` have one timing synchronisation function (TSF), so that all
//! beacons begin at one instant, collide for ever, and no peer is found. Each station's beacons are
//! held for a time of its own.

use std::collections::BTreeMap;

use fairmesh_units::{Span, Time};

/// Time between beacons of consecutive stations; 100 TU divided by 14.
const BEACON_SPACING: Span = Span::from_micros(7_300);
/// Time in which all stations have a turn: the usual beacon interval, 100 TU.
const BEACON_INTERVAL: Span = Span::from_micros(102_400);

/// Beacons that wait for their instant.
#[derive(Clone, Debug, Default)]
pub(crate) struct Beacons(BTreeMap<(Time, u32), u32>);

impl Beacons {
    /// Holds a beacon of a station.
    pub fn hold(&mut self, now: Time, station: u32, frame: u32) {
        let turn =
            BEACON_SPACING.as_nanos() * (u64::from(station) + 1) % BEACON_INTERVAL.as_nanos();
        let mut at = now + Span::from_nanos(turn);
        while self.0.contains_key(&(at, station)) {
            at += Span::from_nanos(1);
        }
        self.0.insert((at, station), frame);
    }

    /// Returns the instant of the next one; [`Time::NEVER`] if there is none.
    pub fn next_deadline(&self) -> Time {
        self.0.first_key_value().map_or(Time::NEVER, |(&(at, _), _)| at)
    }

    /// Takes the station and the frame of the next one, if it is due at `now`.
    pub fn take(&mut self, now: Time) -> Option<(u32, u32)> {
        if self.next_deadline() > now {
            return None;
        }
        self.0.pop_first().map(|((_, station), frame)| (station, frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stations_have_instants_of_their_own() {
        let mut b = Beacons::default();
        for station in 0..14 {
            b.hold(Time::ZERO, station, station);
        }
        let mut last = Time::ZERO;
        for _ in 0..14 {
            let at = b.next_deadline();
            assert!(at - last >= Span::from_micros(100), "{at:?} follows {last:?}");
            assert!(at < Time::ZERO + BEACON_INTERVAL);
            assert!(b.take(last).is_none());
            assert!(b.take(at).is_some());
            last = at;
        }
        assert_eq!(b.next_deadline(), Time::NEVER);
    }
}
