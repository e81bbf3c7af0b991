//! Measures of a flow while it runs.

use fairmesh_units::{Span, Time};

use crate::measures::Delays;
use crate::record::{Cause, Drops, QuicRecord};

/// Measures of a flow.
#[derive(Clone, Debug)]
pub(crate) struct Meters {
    /// Application bytes delivered in order at the destination, whole run and when measuring.
    pub delivered: u64,
    pub delivered_measured: u64,
    pub delay: Delays,
    pub packets_sent: u64,
    pub packets_delivered: u64,
    /// All lost packets of the whole run, then of those sent while measuring, by direction.
    ///
    /// The latter are data packets, and packets of the other direction.
    pub drops: Drops,
    pub data_drops: Drops,
    pub answer_drops: Drops,
    /// Segments of former connections.
    pub segments: u64,
    pub retransmits: u64,
    pub timeouts: u64,
    /// Counters of former QUIC connections.
    pub quic: QuicRecord,
    /// For traffic made of transfers: durations of the completed ones.
    pub transfers: Delays,
    pub completed: u64,
    /// Time with a transfer in progress while measuring, and the start of the present one.
    ///
    /// For traffic made of transfers.
    active: Span,
    active_since: Option<Time>,
}

impl Meters {
    pub fn new() -> Self {
        Meters {
            delivered: 0,
            delivered_measured: 0,
            delay: Delays::new(),
            packets_sent: 0,
            packets_delivered: 0,
            drops: Drops::default(),
            data_drops: Drops::default(),
            answer_drops: Drops::default(),
            segments: 0,
            retransmits: 0,
            timeouts: 0,
            quic: QuicRecord::default(),
            transfers: Delays::new(),
            completed: 0,
            active: Span::ZERO,
            active_since: None,
        }
    }

    /// Counts a lost packet.
    ///
    /// `data`: a data packet, or one of the other direction, that was sent while measuring; `None`:
    /// sent during the warm-up.
    pub fn lost(&mut self, cause: Cause, data: Option<bool>) {
        self.drops.count(cause);
        match data {
            Some(true) => self.data_drops.count(cause),
            Some(false) => self.answer_drops.count(cause),
            None => {}
        }
    }

    /// Records from `now` on whether a transfer is in progress.
    ///
    /// Time before `measure_from` does not count.
    pub fn note_activity(&mut self, now: Time, active: bool, measure_from: Time) {
        match (active, self.active_since) {
            (true, None) => self.active_since = Some(now),
            (false, Some(since)) => {
                self.active += now.since(since.max(measure_from));
                self.active_since = None;
            }
            (true, Some(_)) | (false, None) => {}
        }
    }

    /// Returns the time with a transfer in progress from `measure_from` to `end`.
    pub fn active(&self, measure_from: Time, end: Time) -> Span {
        let open = self.active_since.map(|since| end.since(since.max(measure_from)));
        self.active + open.unwrap_or(Span::ZERO)
    }
}
