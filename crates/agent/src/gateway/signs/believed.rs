//! What is believed of what was read.

use serde::{Deserialize, Serialize};

use fairmesh_control::{RoundTripSample, RoundTripSource};
use fairmesh_units::{Span, Time};

use super::Read;

/// What TCP's headers say of a subscriber in one direction.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct DirectionSignsReport {
    /// Bytes under way that are not acknowledged; `None`: not known, and the control goes by counters.
    pub awaited_bytes: Option<u64>,
    /// Segments that brought nothing new.
    pub repeated: u64,
    /// Part of its traffic of late that was TCP's; `None`: there was none.
    pub tcp_ratio: Option<f64>,
    /// Median round trip through the mesh of the last look that had any, without the time in this gateway's queue, s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_seconds: Option<f64>,
    /// Method of these round trips: tcp, spin or probe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_source: Option<String>,
    /// Least round trip of the last one to two minutes, s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_round_trip_seconds: Option<f64>,
    /// Seconds since that look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_age_seconds: Option<f64>,
    /// Age of the oldest packet in the mesh without an answer, s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_unanswered_seconds: Option<f64>,
}

/// Part of what a subscriber has that must be TCP's: who is served by QUIC as well says nothing by having no TCP
/// under way.
const MOSTLY: f64 = 0.9;
/// Time for which the round trip of an earlier look is shown.
const SHOWN: Span = Span::from_secs(60);
/// Part of what was known of that which a look with traffic keeps.
const KEEPS: f64 = 0.8;

/// What TCP's headers say of one direction.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct DirectionSigns {
    /// Bytes under way that are not acknowledged; `None`: nothing is known.
    pub awaited: Option<u64>,
    /// Segments that brought nothing new, since somebody reads headers.
    pub repeated: u64,
    /// Part of its traffic of late that was TCP's, 0 to 1; `None`: there was none.
    pub tcp: Option<f64>,
    /// Round trips through the mesh of this look.
    pub round_trip: Option<RoundTripSample>,
    /// Age of the oldest packet in the mesh that has not been answered.
    pub oldest: Option<Span>,
    /// The last look that had round trips.
    measured: Option<(Time, RoundTripSample)>,
    read: Option<Read>,
    /// Bytes of TCP and of everything at the last look.
    last: Option<[u64; 2]>,
    /// Of late.
    lately: [f64; 2],
    /// Packets that the class had counted at the last look.
    packets: Option<u64>,
}

impl DirectionSignsReport {
    /// Round trip through the mesh in words, where one is known.
    pub fn round_trip_text(&self) -> Option<String> {
        let ms = |s: f64| format!("{:.0} ms", 1e3 * s);
        let (median, base) = (self.round_trip_seconds?, self.base_round_trip_seconds?);
        let age = self.round_trip_age_seconds.filter(|a| *a >= 2.0);
        let age = age.map_or(String::new(), |a| format!(", {a:.0} s ago"));
        let oldest = self.oldest_unanswered_seconds.filter(|o| *o > 2.0 * median.max(0.5));
        let oldest =
            oldest.map_or(String::new(), |o| format!("; the oldest packet waits since {o:.1} s"));
        let (median, base) = (ms(median), ms(base));
        let method = match self.round_trip_source.as_deref() {
            Some("probe") => " by echo probes",
            Some("spin") => " by QUIC's spin bit",
            _ => "",
        };
        Some(format!("round trip through the mesh{method} {median}{age}, least {base}{oldest}"))
    }
}

impl DirectionSigns {
    /// What `why` tells of it, where anything was read.
    pub fn report(&self, now: Time) -> Option<DirectionSignsReport> {
        let trip = self.trip(now);
        (self.last.is_some() || trip.is_some()).then(|| DirectionSignsReport {
            awaited_bytes: self.awaited,
            repeated: self.repeated,
            tcp_ratio: self.tcp,
            round_trip_seconds: trip.map(|(_, t)| t.median.as_secs_f64()),
            round_trip_source: trip.map(|(_, t)| t.source.name().to_owned()),
            base_round_trip_seconds: trip.map(|(_, t)| t.base.as_secs_f64()),
            round_trip_age_seconds: trip.map(|(at, _)| now.since(at).as_secs_f64()),
            oldest_unanswered_seconds: self.oldest.map(Span::as_secs_f64),
        })
    }

    /// The last look that had round trips, unless it is too old to say something.
    pub fn trip(&self, now: Time) -> Option<(Time, RoundTripSample)> {
        self.measured.filter(|(at, _)| now.since(*at) <= SHOWN)
    }

    /// Takes over what was read at this look, `None` if nothing was; its round trips, and the age of the oldest packet that
    /// is not answered.
    pub fn take(
        &mut self,
        now: Time,
        read: Option<Read>,
        trip: Option<RoundTripSample>,
        oldest: Option<Span>,
    ) {
        (self.read, self.round_trip, self.oldest) = (read, trip, oldest);
        let probed = self.measured.is_some_and(|(_, t)| t.source == RoundTripSource::Probe);
        match (trip, read) {
            (Some(trip), _) => self.measured = Some((now, trip)),
            (None, None) if !probed => self.measured = None,
            (None, _) => {}
        }
    }

    /// Returns the packets since the last call by what the class has counted.
    pub fn carried(&mut self, counted: u64) -> u64 {
        self.packets.replace(counted).map_or(0, |last| counted.saturating_sub(last))
    }

    /// Weighs what was read by the bytes that the class has counted.
    pub fn weigh(&mut self, counted: u64) {
        let Some(read) = self.read.take() else {
            (self.awaited, self.last) = (None, None);
            return;
        };
        let last = self.last.replace([read.bytes, counted]).unwrap_or([read.bytes, counted]);
        let moved = [read.bytes.saturating_sub(last[0]), counted.saturating_sub(last[1])];
        if moved != [0, 0] {
            for (lately, moved) in self.lately.iter_mut().zip(moved) {
                *lately = KEEPS * *lately + moved as f64;
            }
        }
        let [tcp, all] = self.lately;
        self.tcp = (all > 0.0).then(|| (tcp / all).min(1.0));
        self.repeated = read.repeated;
        self.awaited = read.awaited.filter(|_| tcp >= MOSTLY * all);
    }
}
