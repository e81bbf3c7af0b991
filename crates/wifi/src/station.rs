//! One station's view of the medium and its backoff.
//!
//! Each condition that suspends the countdown is stored as its *end*: energy on the medium, own
//! frames, the NAV, an EIFS. The countdown starts a DIFS after the latest end. A waiting station
//! therefore needs no events: the instant of its next transmission is computed from these ends, and
//! recomputed only when one of them changes (IEEE 802.11-2020 §10.3.4).

use fairmesh_units::Time;

use crate::neighbours::Neighbour;

/// Station index that means "no station".
pub(crate) const NO_STATION: u32 = u32::MAX;
/// Instant that means "never", ns.
pub(crate) const NEVER: u64 = Time::NEVER.as_nanos();

/// Intervals of the DCF, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Intervals {
    pub slot: u64,
    pub sifs: u64,
    pub difs: u64,
    /// EIFS − DIFS: delay of the countdown's start after a bad frame.
    pub eifs_extra: u64,
    /// Time from a frame's first energy until an idle station detects it (aCCATime).
    ///
    /// A backoff that ends within this time still transmits.
    pub cca: u64,
    /// Time from a frame's first energy to the start of its payload, if equal for all frames.
    pub rx_start: u64,
}

/// Phase of a station's own traffic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// Nothing to send; a post-backoff may still count down.
    Idle,
    /// A frame waits for the backoff to end.
    Contending,
    /// The frame's data is on the air or unanswered.
    AwaitAck,
    /// The frame's RTS is on the air or unanswered.
    AwaitCts,
    /// The CTS came; data follows after SIFS.
    ClearToSend,
    /// A broadcast is on the air.
    Broadcasting,
    /// Not a station: an external source of energy.
    Noise,
}

/// Response that a station has to send after SIFS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Response {
    Ack,
    Cts,
    BlockAck,
}

/// State of one station's medium access and frame exchange. Instants in nanoseconds.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct Station {
    // First cache line: fields that each frame of a neighbour accesses.
    /// Sum of the powers arriving here, attowatts.
    pub energy: u64,
    /// Energy above which the locked frame is lost.
    pub lock_limit: u64,
    /// End of all energy, own frames and timeouts known so far.
    pub idle_at: u64,
    /// End of the frames that arrived during the locked one.
    pub after_lock: u64,
    /// End of all energy and of its own frames, for the busy-time counter.
    pub busy_end: u64,
    /// Time with energy on the medium, from other stations or its own frames.
    pub busy_total: u64,
    /// End of its own frame on the air.
    pub tx_end: u64,
    /// Transmitter of the locked frame.
    pub lock_from: u32,
    pub phase: Phase,
    /// True if the locked frame can no longer be received.
    pub doomed: bool,
    /// True if the locked frame is too weak to decode even alone.
    pub too_weak: bool,
    /// True if hardware detects the start of the locked frame above the energy on the air.
    pub noticed: bool,
    pub response: Response,
    /// True if no backoff is running, with the rules of ns-2.
    pub expired: bool,

    // Second line: the backoff.
    /// Earliest start of the countdown.
    pub backoff_from: u64,
    /// End of a bad frame's EIFS; the countdown starts a DIFS after it.
    pub eifs_at: u64,
    pub nav_at: u64,
    /// Station that set the NAV by its exchange.
    pub nav_of: u32,
    /// Time from the end of the busy medium to the start of the countdown, in ns.
    ///
    /// It is DIFS, or the AIFS of the active category.
    pub aifs: u32,
    /// Instant at which a NAV set by an RTS expires unless a reception begins; 0: none.
    pub nav_reset_at: u64,
    pub slots: u32,
    pub cw: u32,
    /// Arrival and end of the locked frame.
    pub lock_at: u64,
    pub lock_end: u64,
    pub lock_power: u64,

    // Third line: own exchange.
    /// In `AwaitAck`, `AwaitCts`: the timeout; in `ClearToSend`: start of the data.
    pub wait_at: u64,
    /// Instant at which `response` is due; `NEVER`: nothing to send.
    pub response_at: u64,
    /// Receiver of the response, and the neighbour entry of the frame that it responds to.
    pub response_to: u32,
    pub response_rate: u8,
    /// Duration field that the response will carry, in ns.
    pub response_nav: u64,
    pub rts_failures: u32,
    pub short_retries: u32,
    pub long_retries: u32,
    pub sequence: u16,
    /// End of the TXOP; `NEVER`: one frame.
    pub txop_end: u64,
}

impl Station {
    pub fn new(cw_min: u32, aifs: u32) -> Self {
        Station {
            energy: 0,
            lock_limit: 0,
            idle_at: 0,
            after_lock: 0,
            busy_end: 0,
            busy_total: 0,
            tx_end: 0,
            lock_from: NO_STATION,
            phase: Phase::Idle,
            doomed: false,
            too_weak: false,
            noticed: false,
            response: Response::Ack,
            expired: false,
            backoff_from: 0,
            eifs_at: 0,
            nav_at: 0,
            nav_of: NO_STATION,
            aifs,
            nav_reset_at: 0,
            slots: 0,
            cw: cw_min,
            lock_at: 0,
            lock_end: 0,
            lock_power: 0,
            wait_at: NEVER,
            response_at: NEVER,
            response_to: NO_STATION,
            response_rate: 0,
            response_nav: 0,
            rts_failures: 0,
            short_retries: 0,
            long_retries: 0,
            sequence: 0,
            txop_end: NEVER,
        }
    }

    /// Counts the time from `from` to `to` as busy, unless it is already counted.
    #[inline]
    pub fn occupy(&mut self, from: u64, to: u64) {
        if to > self.busy_end {
            self.busy_total += to - from.max(self.busy_end);
            self.busy_end = to;
        }
    }

    /// Returns the reception time of the locked frame at `at`, as hardware counts it.
    #[inline]
    pub fn received(&self, at: u64) -> u64 {
        if self.noticed { at.saturating_sub(self.lock_at) } else { 0 }
    }

    /// Returns the end of the NAV as known now.
    ///
    /// A NAV set by an RTS is expected to expire until a reception shows that the exchange
    /// continues.
    #[inline]
    pub fn nav_end(&self) -> u64 {
        if self.nav_reset_at == 0 { self.nav_at } else { self.nav_at.min(self.nav_reset_at) }
    }

    /// Returns true if a frame queued now must draw a backoff (IEEE 802.11-2020 §10.3.4.2).
    #[inline]
    pub fn busy(&self, now: u64) -> bool {
        self.idle_at > now || self.nav_end() > now
    }

    /// Returns the end of every condition that keeps the station from counting down.
    #[inline]
    pub fn clear(&self) -> u64 {
        self.idle_at.max(self.eifs_at).max(self.nav_end())
    }

    /// Returns the instant at which the countdown starts or started.
    #[inline]
    pub fn countdown_start(&self) -> u64 {
        self.backoff_from.max(self.clear() + u64::from(self.aifs))
    }

    /// Returns the instant at which the backoff ends if nothing else happens.
    #[inline]
    pub fn access_at(&self, t: &Intervals) -> u64 {
        self.countdown_start() + u64::from(self.slots) * t.slot
    }

    /// Counts down the slots that were idle until `now`.
    ///
    /// Only whole slots count: the current one is lost (IEEE 802.11-2020 §10.3.4.3). `begun`: 1 with EDCA, which counts
    /// a slot when it begins (§10.23.2.4).
    #[inline]
    pub fn count_down(&mut self, now: u64, t: &Intervals, begun: u64) {
        if self.slots == 0 {
            return;
        }
        let start = self.countdown_start();
        if now >= start + (1 - begun) * t.slot {
            let idle = ((now - start) / t.slot + begun).min(u64::from(self.slots));
            self.slots -= idle as u32;
            self.backoff_from = start + idle * t.slot;
        }
    }

    /// Handles the start of a reception at `at`.
    ///
    /// A NAV set by an RTS is confirmed, or has expired already.
    #[inline]
    pub fn settle_nav(&mut self, at: u64, rx_start: u64) {
        if self.nav_reset_at != 0 {
            if at + rx_start > self.nav_reset_at {
                self.nav_at = self.nav_at.min(self.nav_reset_at);
            }
            self.nav_reset_at = 0;
        }
    }

    /// Returns the instant of the station's next own action.
    #[inline]
    pub fn wake_at(&self, t: &Intervals) -> u64 {
        let own = match self.phase {
            Phase::Idle | Phase::Broadcasting | Phase::Noise => NEVER,
            Phase::Contending => self.access_at(t),
            Phase::AwaitAck | Phase::AwaitCts | Phase::ClearToSend => self.wait_at,
        };
        own.min(self.response_at)
    }

    /// Returns true if the station's next own action at `wake` is to transmit.
    #[inline]
    pub fn transmits_at(&self, wake: u64) -> bool {
        self.response_at == wake || matches!(self.phase, Phase::Contending | Phase::ClearToSend)
    }

    /// Starts to receive.
    #[inline]
    pub fn lock(&mut self, from: u32, n: &Neighbour, arrival: u64, end: u64) {
        self.lock_from = from;
        self.lock_at = arrival;
        self.lock_end = end;
        self.lock_power = n.power;
        self.lock_limit = n.limit;
        self.too_weak = !n.decodes();
        self.noticed = self.energy <= n.limit;
        self.doomed = self.too_weak || !self.noticed;
    }
}

/// Returns the instant at which a frame that finds the medium idle may be sent.
///
/// It is the next boundary of the slots that began with the idle period (IEEE 802.11-2020 §10.23.2.4).
pub(crate) fn next_slot(start: u64, slot: u64, now: u64) -> u64 {
    if now > start && start < NEVER { start + ((now - start) / slot + 1) * slot } else { start }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Intervals = Intervals {
        slot: 20_000,
        sifs: 10_000,
        difs: 50_000,
        eifs_extra: 314_000,
        cca: 4_000,
        rx_start: 192_000,
    };
    const US: u64 = 1000;

    fn contending(slots: u32) -> Station {
        Station { phase: Phase::Contending, slots, ..Station::new(31, T.difs as u32) }
    }

    #[test]
    fn backoff_starts_a_difs_after_the_medium() {
        let mut s = contending(5);
        s.idle_at = 1000 * US;
        assert_eq!(s.access_at(&T), 1150 * US);
        s.eifs_at = 1000 * US + T.eifs_extra; // EIFS = 364 µs in all
        assert_eq!(s.access_at(&T), 1000 * US + (364 + 100) * US);
        s.nav_at = 2000 * US;
        assert_eq!(s.access_at(&T), 2150 * US);
        s.backoff_from = 3000 * US;
        assert_eq!(s.access_at(&T), 3100 * US);
    }

    #[test]
    fn only_whole_idle_slots_count() {
        let mut s = contending(5);
        s.idle_at = 1000 * US;
        s.count_down(1050 * US + 39 * US, &T, 0);
        assert_eq!((s.slots, s.backoff_from), (4, 1070 * US));
        // Counting down twice neither loses nor repeats a slot.
        s.count_down(1050 * US + 41 * US, &T, 0);
        assert_eq!((s.slots, s.backoff_from), (3, 1090 * US));
        // The medium was busy until 2 ms: the rest waits for another DIFS.
        s.idle_at = 2000 * US;
        assert_eq!(s.access_at(&T), 2000 * US + 50 * US + 60 * US);
        s.count_down(9000 * US, &T, 0);
        assert_eq!(s.slots, 0);
    }

    #[test]
    fn busy_before_the_countdown_started_costs_no_slot() {
        let mut s = contending(3);
        s.idle_at = 1000 * US;
        s.count_down(1049 * US, &T, 0);
        assert_eq!(s.slots, 3);
        s.count_down(1069 * US, &T, 0);
        assert_eq!(s.slots, 3);
    }

    #[test]
    fn nav_from_an_rts_lapses_without_a_reception() {
        let mut s = contending(0);
        (s.nav_at, s.nav_reset_at) = (5000 * US, 1000 * US);
        assert_eq!(s.access_at(&T), 1050 * US);
        let mut alive = s.clone();
        alive.settle_nav(808 * US, T.rx_start); // payload starts at 1000 µs sharp
        assert_eq!(alive.access_at(&T), 5050 * US);
        s.settle_nav(809 * US, T.rx_start);
        assert_eq!(s.access_at(&T), 1050 * US);
    }
}
