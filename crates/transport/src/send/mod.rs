//! The sending half: content and timing of segments.
//!
//! `recovery` handles acknowledgements and timeouts.
//!
//! Both kinds of recovery use one account. `pipe` is the data believed to be in the network (RFC
//! 6675 §4). Without SACK, each duplicate ACK adds a segment to `inflation` instead: the window
//! inflation of RFC 6582 §3.2.

mod marks;
mod models;
mod rack;
mod recovery;
mod rto;
mod scoreboard;
#[cfg(test)]
mod tests;

use fairmesh_units::{Span, Time};

use self::rack::Rack;
use self::rto::Rto;
use self::scoreboard::{Scoreboard, Sent};
use crate::config::{Congestion, Dialect, TcpConfig};
use crate::congestion::delivery::{Delivery, Stamp};
use crate::congestion::hystart::HyStart;
use crate::congestion::pacing::Pacing;
use crate::congestion::window::{self, Window};
use crate::congestion::{Controller, Setup};
use crate::segment::Flags;

/// Phase of loss recovery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// No loss is being repaired.
    Open,
    /// Fast recovery, until `recover` is acknowledged.
    Recovery,
    /// After a timeout, until `recover` is acknowledged.
    Loss,
}

/// A data segment (or a lone FIN) to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing {
    pub(crate) seq: u64,
    pub(crate) len: u32,
    /// FIN, CWR, ECT and ECT1 as applicable.
    pub(crate) flags: Flags,
}

/// Counters of one direction.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Counters {
    pub(crate) sent: u64,
    pub(crate) resent: u64,
    pub(crate) timeouts: u64,
    pub(crate) fast_recoveries: u64,
    pub(crate) ecn_reductions: u64,
}

/// The sender of one direction of an established connection.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    /// Oldest byte not acknowledged.
    una: u64,
    /// Next byte never sent.
    next: u64,
    /// End of the written data; `u64::MAX` if it is endless.
    end: u64,
    closing: bool,
    fin_sent: bool,

    board: Scoreboard,
    window: Window,
    control: Controller,
    /// Algorithm that ends the first slow start.
    hystart: Option<HyStart>,
    /// Loss detection by time.
    rack: Option<Box<Rack>>,
    delivery: Option<Box<Delivery>>,
    phase: Phase,
    /// End of the present or last recovery. RFC 6582 §3.2, RFC 6675 §2
    recover: u64,
    dup_acks: u32,
    inflation: u64,
    /// True if a retransmission is due regardless of the window.
    forced: bool,
    first_partial: bool,
    /// RescueRxt of RFC 6675 §2.
    rescued: u64,

    pacing: Pacing,
    /// True if the spacing replaces the congestion window.
    clocked: bool,
    rto: Rto,
    /// Round trip measured by the last acknowledgement, cumulative or selective.
    sampled: Option<Span>,
    /// Delivery rate sample of the present acknowledgement.
    rate: Option<window::RateSample>,
    timer: Time,
    /// `una` at the last timeout.
    timed_out_at: Option<u64>,
    last_sent: Time,

    ecn: bool,
    ect1: bool,
    /// Sequence number before which marks cause no second reduction. RFC 3168 §6.1.2
    reduced_until: u64,
    announce_reduction: bool,
    /// True after a mark at a window of one segment: new data waits for the timer.
    ///
    /// RFC 3168 §6.1.2
    held: bool,
    /// Number of such marks in a row; each except the first doubles the timer (`ecn_backoff`).
    marks_at_one: u32,
    ecn_backoff: bool,
    /// Marked datagrams reported by the peer.
    marks: u32,

    mss: u32,
    max_window: u64,
    initial_cwnd: u64,
    sack: bool,
    limited_transmit: bool,
    /// True if one segment per round trip is timed, and none that ends before this number.
    one_rtt_sample: bool,
    timed_from: u64,
    validate_window: bool,
    idle_restart: bool,
    dialect: Dialect,
    counters: Counters,
}

/// Largest window without scaling, bytes (RFC 9293 §3.1).
///
/// It is used for flow control without a congestion window.
const UNSCALED_WINDOW: u64 = 65_535;

impl Sender {
    pub(crate) fn new(cfg: &TcpConfig) -> Self {
        let window = Window::new(cfg);
        let rack = cfg.rack && cfg.sack;
        let model = cfg.congestion.is_model();
        // Prague paces. §2.4.5 of its draft
        let paced = cfg.pacing || cfg.congestion == Congestion::Prague;
        Sender {
            una: 1,
            next: 1,
            end: 1,
            closing: false,
            fin_sent: false,
            board: Scoreboard::new(rack || model, cfg.congestion == Congestion::Bbr3),
            initial_cwnd: window.cwnd,
            window,
            control: Controller::new(&Setup {
                congestion: cfg.congestion,
                initial: u64::from(cfg.mss) * u64::from(cfg.initial_window),
                each_loss: cfg.sack,
                spill: cfg.dialect == Dialect::Ns3,
            }),
            hystart: Controller::hystart(cfg.congestion, cfg.hystart, cfg.pacing),
            rack: rack.then(|| Box::new(Rack::new())),
            delivery: model.then(Box::default),
            phase: Phase::Open,
            recover: 0,
            dup_acks: 0,
            inflation: 0,
            forced: false,
            first_partial: true,
            rescued: 0,
            pacing: Pacing::new(paced, u64::from(cfg.burst) * u64::from(cfg.mss)),
            clocked: false,
            rto: Rto::new(cfg),
            sampled: None,
            rate: None,
            timer: Time::NEVER,
            timed_out_at: None,
            last_sent: Time::ZERO,
            ecn: false,
            reduced_until: 0,
            announce_reduction: false,
            held: false,
            marks_at_one: 0,
            ecn_backoff: cfg.ecn_backoff,
            marks: 0,
            ect1: cfg.ect1,
            mss: cfg.mss,
            max_window: cfg.max_window.map_or(u64::MAX, |n| u64::from(n) * u64::from(cfg.mss)),
            sack: cfg.sack,
            limited_transmit: cfg.limited_transmit,
            one_rtt_sample: cfg.one_rtt_sample,
            timed_from: 0,
            validate_window: cfg.validate_window,
            idle_restart: cfg.idle_restart,
            dialect: cfg.dialect,
            counters: Counters::default(),
        }
    }

    /// Handles the end of the handshake. `rtt`: its round trip, unless a SYN was retransmitted.
    pub(crate) fn establish(&mut self, now: Time, rtt: Option<Span>, ecn: bool) {
        self.ecn = ecn;
        match rtt {
            Some(rtt) => self.rto.sample(rtt),
            None => {
                self.rto.after_lost_syn();
                if self.dialect == Dialect::Rfc {
                    // RFC 5681 §3.1: one segment if the SYN or SYN-ACK was lost
                    self.window.cwnd = self.window.mss.min(self.window.cwnd);
                }
            }
        }
        if let Some(model) = self.control.as_model() {
            model.start(now, &self.window, rtt);
            if model.pacing_rate() > 0.0 {
                self.pacing.set_rate(model.pacing_rate(), model.quantum(self.window.mss));
            }
        }
    }

    /// Adds written application data; `u64::MAX` means endless.
    pub(crate) fn write(&mut self, bytes: u64) {
        if !self.closing {
            self.end = self.end.saturating_add(bytes);
        }
    }

    /// Closes the stream; an endless source ends at the data sent so far.
    pub(crate) fn close(&mut self) {
        self.closing = true;
        if self.end == u64::MAX {
            self.end = self.next;
        }
    }

    /// Returns true if the FIN was acknowledged.
    pub(crate) const fn finished(&self) -> bool {
        self.fin_sent && self.una == self.next
    }
    pub(crate) fn deadline(&self) -> Time {
        let rack = self.rack.as_ref().map_or(Time::NEVER, |r| r.reorder_timer.min(r.probe_timer));
        self.timer.min(self.pacing.due()).min(rack)
    }
    /// Sets the spacing of new data; `None` restores the configuration.
    pub(crate) fn pace(&mut self, interval: Option<Span>, window: bool) {
        self.clocked = interval.is_some() && !window;
        self.pacing.set(interval);
    }
    /// Returns the round trip that the last acknowledgement measured.
    pub(crate) const fn sampled(&self) -> Option<Span> {
        self.sampled
    }
    pub(crate) const fn next_seq(&self) -> u64 {
        self.next
    }
    pub(crate) const fn unsent(&self) -> u64 {
        self.end.saturating_sub(self.next)
    }
    pub(crate) const fn outstanding(&self) -> u64 {
        self.next - self.una
    }
    pub(crate) const fn in_flight(&self) -> u64 {
        self.board.pipe().saturating_sub(self.inflation)
    }
    pub(crate) const fn cwnd(&self) -> u64 {
        self.window.cwnd
    }
    pub(crate) const fn ssthresh(&self) -> u64 {
        self.window.ssthresh
    }
    pub(crate) const fn rto(&self) -> Span {
        self.rto.get()
    }
    pub(crate) fn srtt(&self) -> Option<Span> {
        self.rto.srtt()
    }
    pub(crate) const fn counters(&self) -> Counters {
        self.counters
    }

    /// Returns the next segment that may be sent now.
    pub(crate) fn poll(&mut self, now: Time) -> Option<Outgoing> {
        if (self.clocked || self.control.is_model()) && !self.pacing.may_send(now) {
            return None;
        }
        if self.rack.as_ref().is_some_and(|r| r.probe_due) {
            return self.send_probe(now);
        }
        if self.forced {
            self.forced = false;
            if let Some(i) = self.board.first_missing() {
                return Some(self.resend(now, i));
            }
        }
        if self.board.any_missing() {
            let i = self.board.first_missing()?;
            return self.fits(self.board.get(i).payload()).then(|| self.resend(now, i));
        }
        if let Some(out) = self.send_new(now) {
            return Some(out);
        }
        if self.sack && self.phase == Phase::Recovery { self.send_doubtful(now) } else { None }
    }

    /// Returns true if the window has room for `len` more bytes.
    fn fits(&self, len: u32) -> bool {
        let window = if self.clocked { UNSCALED_WINDOW } else { self.window.cwnd + self.inflation };
        self.board.pipe() + u64::from(len) <= window
    }

    fn send_new(&mut self, now: Time) -> Option<Outgoing> {
        let left = self.unsent();
        if left == 0 && (!self.closing || self.fin_sent) {
            return None;
        }
        if self.board.is_empty() {
            self.restart_after_idle(now);
        }
        let len = left.min(u64::from(self.mss)) as u32;
        // A FIN without data is not delayed: it uses no capacity.
        let room = self.outstanding() + u64::from(len) <= self.max_window && self.fits(len);
        if (!room || self.held) && len > 0 {
            return None;
        }
        if len > 0 && !self.pacing.may_send(now) {
            return None;
        }
        Some(self.push_new(now, len))
    }

    /// Sends new data of this length, or a lone FIN.
    fn push_new(&mut self, now: Time, len: u32) -> Outgoing {
        let fin = self.closing && u64::from(len) == self.unsent();
        let seq = self.next;
        let idle = self.board.pipe() == 0;
        if self.board.is_empty() && self.delivery.as_ref().is_some_and(|d| d.is_starved()) {
            self.restart_model(now);
        }
        self.board.push(now, seq, len, fin);
        self.stamp(now, self.board.len() - 1, idle);
        self.next += u64::from(len) + u64::from(fin);
        self.fin_sent |= fin;
        // RFC 3168 §6.1.2: CWR on the first new data after a reduction; §6.1.4: ECT on data
        let data = self.ecn && len > 0;
        let flags = Flags::NONE
            .with(Flags::FIN, fin)
            .with(Flags::ECT, data)
            .with(Flags::ECT1, data && self.ect1)
            .with(Flags::CWR, data && self.announce_reduction);
        if data {
            self.announce_reduction = false;
        }
        if self.pacing.is_on() && len > 0 {
            // In slow start Prague's window must be able to double.
            let doubles = self.control.is_prague() && self.window.in_slow_start();
            let cwnd = self.window.cwnd << u32::from(doubles);
            self.pacing.sent(now, len, cwnd, self.rto.srtt());
        }
        self.left(now);
        self.arm_probe(now);
        Outgoing { seq, len, flags }
    }

    /// Applies rules (3) and (4) of RFC 6675 §4, NextSeg.
    ///
    /// They apply to probable losses, if nothing more certain can be sent.
    fn send_doubtful(&mut self, now: Time) -> Option<Outgoing> {
        if !self.fits(self.mss) {
            return None;
        }
        if let Some(i) = self.board.first_doubtful() {
            return Some(self.resend(now, i));
        }
        // ns-3 does not implement rule (4).
        if self.una > self.rescued && self.dialect == Dialect::Rfc {
            let i = self.board.unsacked_tail()?;
            self.rescued = self.recover;
            return Some(self.resend(now, i));
        }
        None
    }

    fn resend(&mut self, now: Time, i: usize) -> Outgoing {
        let idle = self.board.pipe() == 0;
        let s: Sent = self.board.resend(i);
        self.stamp(now, i, idle);
        self.counters.resent += 1;
        if self.clocked || self.control.is_model() {
            self.pacing.sent(now, s.payload(), self.window.cwnd, self.rto.srtt());
        }
        self.left(now);
        // RFC 3168 §6.1.5: a retransmission is never ECT
        Outgoing { seq: s.seq, len: s.payload(), flags: Flags::NONE.with(Flags::FIN, s.fin()) }
    }

    /// Records the transmission of a segment, if needed for measurements.
    #[inline]
    fn stamp(&mut self, now: Time, i: usize, idle: bool) {
        if self.rack.is_some() || self.delivery.is_some() {
            self.keep_stamp(now, i, idle);
        }
    }

    #[cold]
    fn keep_stamp(&mut self, now: Time, i: usize, idle: bool) {
        let stamp = match &mut self.delivery {
            Some(d) => d.stamp(now, idle),
            None => Delivery::default().stamp(now, true),
        };
        let in_flight = self.board.pipe().saturating_sub(self.inflation);
        let stamp = Stamp { in_flight, lost: self.board.lost(), ..stamp };
        self.board.stamp(i, stamp);
    }

    /// Sends a probe for a lost tail: new data, otherwise the last segment again. RFC 8985 §7.3
    fn send_probe(&mut self, now: Time) -> Option<Outgoing> {
        let len = self.unsent().min(u64::from(self.mss)) as u32;
        let room = self.outstanding() + u64::from(len) <= self.max_window;
        let new = len > 0 && room && !self.held;
        let last = self.board.last_unsacked();
        if let Some(rack) = &mut self.rack {
            rack.probe_due = false;
        }
        let out = match last {
            _ if new => self.push_new(now, len),
            Some(i) => self.resend(now, i),
            None => return None,
        };
        if let Some(rack) = &mut self.rack {
            rack.probed(self.next, !new);
        }
        self.timer = now + self.rto.get();
        Some(out)
    }

    /// Sets the probe's timer if a probe may be needed. RFC 8985 §7.2
    #[inline]
    fn arm_probe(&mut self, now: Time) {
        if self.rack.is_some() {
            self.set_probe(now);
        }
    }

    #[cold]
    fn set_probe(&mut self, now: Time) {
        let Some(rack) = &mut self.rack else { return };
        let quiet = self.phase == Phase::Open && !self.board.is_empty() && !self.board.any_sacked();
        if quiet && !rack.probing() && !self.held {
            rack.arm_probe(now, self.rto.srtt(), self.board.len(), self.timer);
        } else {
            rack.disarm_probe();
        }
    }

    fn left(&mut self, now: Time) {
        self.counters.sent += 1;
        self.last_sent = now;
        if self.timer == Time::NEVER {
            self.timer = now + self.rto.get(); // RFC 6298 §5.1
        }
    }

    /// Notifies the model of data sent after an idle period.
    #[cold]
    fn restart_model(&mut self, now: Time) {
        let delivered = self.delivery.as_ref().map_or(0, |d| d.total());
        if let Some(model) = self.control.as_model() {
            model.restart(now, &mut self.window, delivered);
            self.pacing.set_rate(model.pacing_rate(), model.quantum(self.window.mss));
        }
    }

    fn restart_after_idle(&mut self, now: Time) {
        // A model resumes at its estimated rate.
        if self.idle_restart && !self.control.is_model() && now - self.last_sent > self.rto.get() {
            // RFC 5681 §4.1
            self.window.cwnd = self.window.cwnd.min(self.initial_cwnd);
        }
    }
}
