//! Evaluation of the data that was read from headers.

use serde::{Deserialize, Serialize};

use fairmesh_control::{RoundTripSample, RoundTripSource};
use fairmesh_units::{Span, Time};

use super::Read;

/// TCP header data of a subscriber in one direction.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct DirectionSignsReport {
    /// Unacknowledged bytes in flight; `None`: unknown, and the control uses counters.
    pub awaited_bytes: Option<u64>,
    /// Segments without new data.
    pub repeated: u64,
    /// TCP's part of its recent traffic; `None`: there was none.
    pub tcp_ratio: Option<f64>,
    /// Median round trip through the mesh at the last sample with one, in s.
    ///
    /// It excludes the queueing time in this gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_seconds: Option<f64>,
    /// Method of these round trips: tcp, spin or probe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_source: Option<String>,
    /// Least round trip of the last one to two minutes, in s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_round_trip_seconds: Option<f64>,
    /// Seconds since that sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_age_seconds: Option<f64>,
    /// Age of the oldest unanswered packet in the mesh, in s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_unanswered_seconds: Option<f64>,
}

/// Minimum fraction of TCP in a subscriber's traffic for a conclusion.
///
/// Beside QUIC traffic, the absence of TCP data in flight gives no information.
const MIN_TCP_FRACTION: f64 = 0.9;
/// Time for which the round trip of an earlier sample is shown.
const ROUND_TRIP_AGE: Span = Span::from_secs(60);
/// Factor of earlier traffic at a sample with traffic.
const DECAY: f64 = 0.8;

/// TCP header data of one direction.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct DirectionSigns {
    /// Unacknowledged bytes in flight; `None`: unknown.
    pub awaited: Option<u64>,
    /// Segments without new data, since headers are read.
    pub repeated: u64,
    /// TCP's part of its recent traffic, 0 to 1; `None`: there was none.
    pub tcp: Option<f64>,
    /// Round trips through the mesh in this sample.
    pub round_trip: Option<RoundTripSample>,
    /// Age of the oldest unanswered packet in the mesh.
    pub oldest: Option<Span>,
    /// Last sample with round trips.
    measured: Option<(Time, RoundTripSample)>,
    read: Option<Read>,
    /// Bytes of TCP and of all traffic at the last sample.
    last: Option<[u64; 2]>,
    /// Recent bytes of TCP and of all traffic, with decay.
    lately: [f64; 2],
    /// Packets that the class had counted at the last sample.
    packets: Option<u64>,
}

impl DirectionSignsReport {
    /// Returns the round trip through the mesh as text, if it is known.
    pub fn round_trip_text(&self) -> Option<String> {
        let ms = |s: f64| format!("{:.0} ms", 1e3 * s);
        let (median, base) = (self.round_trip_seconds?, self.base_round_trip_seconds?);
        let age = self.round_trip_age_seconds.filter(|a| *a >= 2.0);
        let age = age.map_or(String::new(), |a| format!(", {a:.0} s ago"));
        let oldest = self.oldest_unanswered_seconds.filter(|o| *o > 2.0 * median.max(0.5));
        let oldest =
            oldest.map_or(String::new(), |o| format!("; oldest unanswered packet {o:.1} s ago"));
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
    /// Returns the part of `why`, if any header was read.
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

    /// Returns the last sample with round trips, unless it is too old.
    pub fn trip(&self, now: Time) -> Option<(Time, RoundTripSample)> {
        self.measured.filter(|(at, _)| now.since(*at) <= ROUND_TRIP_AGE)
    }

    /// Records the data of this sample.
    ///
    /// `read`: header data, `None` if there is none; `trip`: round trips; `oldest`: age of the oldest unanswered
    /// packet.
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

    /// Returns the packets since the last call, from the class's counter.
    pub fn carried(&mut self, counted: u64) -> u64 {
        self.packets.replace(counted).map_or(0, |last| counted.saturating_sub(last))
    }

    /// Weighs the header data by the bytes that the class has counted.
    pub fn weigh(&mut self, counted: u64) {
        let Some(read) = self.read.take() else {
            (self.awaited, self.last) = (None, None);
            return;
        };
        let last = self.last.replace([read.bytes, counted]).unwrap_or([read.bytes, counted]);
        let moved = [read.bytes.saturating_sub(last[0]), counted.saturating_sub(last[1])];
        if moved != [0, 0] {
            for (lately, moved) in self.lately.iter_mut().zip(moved) {
                *lately = DECAY * *lately + moved as f64;
            }
        }
        let [tcp, all] = self.lately;
        self.tcp = (all > 0.0).then(|| (tcp / all).min(1.0));
        self.repeated = read.repeated;
        self.awaited = read.awaited.filter(|_| tcp >= MIN_TCP_FRACTION * all);
    }
}
