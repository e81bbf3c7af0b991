//! The MAC of ns-2.35 where it differs from the standard (`radio.rules = "ns2"`).
//!
//! Each rule names the function of ns-2.35 that implements it (`mac/mac-802_11.cc`,
//! `mac/mac-timers.cc`); the code here is original. validation/ns2 compares the results with the
//! packaged ns-2.35.
//!
//! 1. *Deferral.* A frame that cannot be decoded sets the NAV to EIFS from its end (`recv_timer`),
//!    and the countdown resumes a DIFS after the NAV (`navHandler`): 414 µs at 1 Mbit/s, where the
//!    standard has 364. The NAV is never shortened, neither by a good frame nor by an RTS without a
//!    CTS.
//! 2. *Capture.* A receiver takes the first frame that it senses and compares each later one only
//!    with the frame in reception (`recv`). If the latter is stronger by the capture margin, it
//!    survives, and the later frame sets the NAV to its end plus EIFS (`capture`). Otherwise both
//!    are lost, and the reception lasts as long as the longer of them (`collision`).
//! 3. *Reception during an own transmission.* A frame that overlaps an own transmission is received
//!    and lost: it sets the NAV as in rule 1, unless the own transmission outlasts it (`recv`,
//!    `transmit`, `recv_timer`).
//! 4. *Carrier sense.* The countdown stops with the first energy, without aCCATime (`setRxState`).
//! 5. *Backoff.* It is drawn from 0 to CW − 1 (`BackoffTimer::start`). A packet that finds the
//!    medium idle and no backoff running also draws one, after a DIFS (`send`).
//! 6. *Timeouts.* The timeout for a response is SIFS, its airtime and 4 µs (`check_pktTx`,
//!    `check_pktRTS`); a reception that has begun does not extend it.
//! 7. *RTS/CTS.* A CTS is sent if the medium and the NAV are idle when it is due, not when the RTS
//!    ends. A station that has sent one counts as transmitting until the data frame is over
//!    (`check_pktCTRL`). Data after a CTS are delayed by a backoff if the medium is busy when they
//!    are due (`check_pktTx`).
//!
//! Each of rules 1 to 6 can be replaced by the standard's (`Ns2Rules`), to measure its effect.

use fairmesh_phy::frame::CTS;
use fairmesh_units::Time;

use crate::air::Air;
use crate::frame::{FrameKind, Transmission};
use crate::neighbours::Neighbour;
use crate::station::{Intervals, NO_STATION, Phase, Station};

/// Two propagation delays (ns-2's `DSSS_MaxPropagationDelay`), part of each timeout, ns.
const PROPAGATION_NS: u64 = 4_000;

impl Station {
    /// Returns true if a frame is being received at `at`.
    pub(crate) fn receives(&self, at: u64) -> bool {
        self.lock_from != NO_STATION && self.lock_at <= at && self.lock_end > at
    }

    /// Counts down and records the end of a backoff (rule 5).
    pub(crate) fn count_down_ns2(&mut self, now: u64, t: &Intervals) {
        if self.access_at(t) <= now {
            (self.slots, self.expired) = (0, true);
        } else {
            self.count_down(now, t, 0);
        }
    }

    /// Extends the NAV to `until`.
    pub(crate) fn extend_nav(&mut self, until: u64) {
        self.nav_at = self.nav_at.max(until);
        self.nav_reset_at = 0;
    }

    /// Starts a reception (rule 2).
    ///
    /// `transmits`: the station transmits (rule 3); `masked`: other frames are too strong.
    fn receive(
        &mut self,
        (from, n): (u32, &Neighbour),
        arrival: u64,
        end: u64,
        transmits: bool,
        masked: bool,
    ) {
        self.lock_from = from;
        self.lock_at = arrival;
        self.lock_end = end;
        self.lock_power = n.power;
        self.after_lock = 0;
        self.too_weak = transmits || !n.decodes();
        self.noticed = !transmits;
        self.doomed = self.too_weak || masked;
    }
}

impl Air {
    /// Processes the arrival of a new frame at the transmitter's neighbours.
    #[inline(never)]
    pub(crate) fn arrive_ns2(&mut self, from: u32, now: u64, f: &Transmission) {
        let eifs = self.t.difs + self.t.eifs_extra;
        let (t, rules) = (self.t, self.rules);
        for k in self.neighbours.of(from) {
            let n = *self.neighbours.entry(k);
            let (arrival, end) = (now + n.delay(), f.end + n.delay());
            let noticed = arrival + t.cca;
            let r = n.to as usize;
            let wake = self.wakes.get(r).as_nanos();
            let s = &mut self.stations[r];
            s.energy += n.power;
            s.occupy(arrival, end);
            let about_to = wake <= noticed && s.transmits_at(wake);
            let transmits = s.tx_end > arrival || about_to;
            if !transmits && s.lock_from == NO_STATION {
                if rules.backs_off() {
                    s.count_down_ns2(noticed, &t);
                } else {
                    s.count_down(noticed, &t, 0);
                }
            }
            let energy = s.energy;
            let others = |own: u64| if rules.pairwise { n.power } else { energy - own };
            let captures = s.lock_power as f64 >= self.capture * others(s.lock_power) as f64;
            if !n.lockable() {
                // Energy of an interferer, which ns-2 does not model, acts like a frame that is not
                // received.
                s.idle_at = s.idle_at.max(end);
                s.doomed |= s.lock_from != NO_STATION && !captures;
            } else if s.lock_from == NO_STATION && transmits && !rules.own_frame {
                s.idle_at = s.idle_at.max(end);
            } else if s.lock_from == NO_STATION {
                s.idle_at = s.idle_at.max(end);
                let above = (energy - n.power) as f64 * self.capture;
                let masked = !rules.pairwise && above > n.power as f64;
                s.receive((from, &n), arrival, end, transmits, masked);
            } else if captures && rules.capture_nav {
                s.extend_nav(end + eifs);
            } else if captures {
                s.idle_at = s.idle_at.max(end);
            } else {
                s.doomed = true;
                if end > s.lock_end && rules.collision {
                    (s.lock_from, s.lock_end, s.lock_power) = (from, end, n.power);
                }
                s.idle_at = s.idle_at.max(end);
            }
            if !about_to && s.phase == Phase::Contending && !self.on_air[r].on_air {
                let wake = s.wake_at(&self.t);
                self.wakes.set(r, Time::from_nanos(wake));
            }
        }
    }

    /// Returns true if a CTS, or the data after one, must not be sent now (rule 7).
    pub(crate) fn is_deferred_ns2(&self, station: u32, now: u64) -> bool {
        let s = &self.stations[station as usize];
        s.receives(now) || s.nav_at > now
    }

    /// Suspends the countdown of the sender of a CTS until the data frame is over (rule 7).
    pub(crate) fn await_data_ns2(&mut self, station: u32, cts: &Transmission) {
        let ack = self.phy.response(cts.rate).ack.as_nanos();
        let s = &mut self.stations[station as usize];
        s.idle_at =
            s.idle_at.max((cts.end + cts.nav + PROPAGATION_NS).saturating_sub(self.t.sifs + ack));
    }

    /// Returns the time from the end of a frame to its response timeout, ns (rule 6).
    pub(crate) fn response_timeout_ns2(&self, f: &Transmission) -> u64 {
        let response = self.phy.response(f.rate);
        let response = match f.kind {
            FrameKind::Rts => self.phy.airtime(f.rate, CTS),
            _ => response.ack,
        };
        self.t.sifs + response.as_nanos() + PROPAGATION_NS
    }
}
