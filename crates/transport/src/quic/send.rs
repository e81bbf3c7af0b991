//! The sending half: content and timing of packets.
//!
//! `recovery` handles acknowledgements and timeouts.

use std::collections::VecDeque;

use fairmesh_units::{Span, Time};

use super::config::Config;
use super::ecn::EcnPath;
use super::packet::{Ack, Ecn, Kind, Packet, StreamFrame};
use super::rtt::Rtt;
use super::stream::Outgoing;
use crate::congestion::delivery::{Delivery, Stamp};
use crate::congestion::hystart::HyStart;
use crate::congestion::pacing::Pacing;
use crate::congestion::window::Window;
use crate::congestion::{Controller, Setup};

/// Minimum window, datagrams. RFC 9002 §7.2
pub(super) const MIN_WINDOW: u64 = 2;
/// Number of packets sent after a probe timeout. RFC 9002 §6.2.4
const PROBE_PACKETS: u32 = 2;
/// Bytes allowed without a congestion window, if a control spaces packets.
///
/// It is the largest window without scaling, as with TCP.
const UNSCALED_WINDOW: u64 = 65_535;

/// A sent packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) time: Time,
    /// UDP payload, bytes, if it is ack-eliciting and so in flight; otherwise 0.
    pub(super) size: u32,
    pub(super) state: State,
    pub(super) stream: Option<StreamFrame>,
    /// Largest number acknowledged by its ACK frame.
    pub(super) acked: Option<u64>,
    pub(super) ect: bool,
    /// Bytes sent before the packet.
    pub(super) position: u64,
    /// Delivery stamp, for models of the path.
    pub(super) stamp: Option<Stamp>,
}

impl Sent {
    pub(super) const fn eliciting(&self) -> bool {
        self.size > 0
    }

    pub(super) const fn end(&self) -> u64 {
        self.position + self.size as u64
    }
}

/// State of a sent packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    Outstanding,
    Acked,
    /// Declared lost. It may still arrive.
    Lost,
}

/// Counters of one direction.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Counters {
    pub(super) packets: u64,
    pub(super) resent: u64,
    pub(super) lost: u64,
    pub(super) spurious: u64,
    pub(super) probe_timeouts: u64,
    pub(super) congestion_events: u64,
    pub(super) persistent_congestions: u64,
    pub(super) marks: u64,
}

/// The sender of an established connection: its packet numbers, its stream, its window.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    pub(super) stream: Outgoing,
    /// Packets from number `base` on; the oldest is outstanding, or was lost recently.
    pub(super) sent: VecDeque<Sent>,
    pub(super) base: u64,
    /// Number of the next packet, never reused (RFC 9000 §12.3).
    pub(super) next: u64,
    pub(super) largest_acked: Option<u64>,

    /// Total bytes sent in flight; those up to the largest acknowledged; those declared lost.
    pub(super) position: u64,
    pub(super) acked_position: u64,
    pub(super) lost_bytes: u64,
    pub(super) in_flight: u64,
    /// Packets in flight.
    pub(super) eliciting: u32,

    pub(super) rtt: Rtt,
    /// Instant at which the first round trip was measured.
    pub(super) first_rtt: Option<Time>,
    pub(super) window: Window,
    pub(super) control: Controller,
    pub(super) hystart: Option<HyStart>,
    pub(super) delivery: Option<Box<Delivery>>,
    pub(super) pacing: Pacing,
    /// True if a control spaces packets; with `clocked`, instead of the window.
    spaced: bool,
    clocked: bool,
    /// True if the application had no more data while the window had room. RFC 9002 §7.8
    pub(super) starved: bool,

    /// Packets sent up to this instant belong to the loss epoch. RFC 9002 §7.3.2
    pub(super) recovery_from: Option<Time>,
    /// Set if a model was notified of losses that are not repaired.
    pub(super) repairing: Option<Time>,
    /// Delivered position before which marks cause no second reduction.
    pub(super) marked_until: u64,
    /// True if one packet may be sent beyond the window. RFC 9002 §7.3.2
    pub(super) one_more: bool,

    /// Instant at which the next packet is lost by time.
    pub(super) loss_time: Time,
    last_eliciting: Time,
    pub(super) probe_count: u32,
    probes_due: u32,
    /// Position at which the next probe searches for data to repeat.
    probe_from: u64,
    max_ack_delay: Span,

    pub(super) ecn: EcnPath,
    datagram: u32,
    pub(super) counters: Counters,
}

impl Sender {
    pub(super) fn new(cfg: &Config) -> Self {
        let initial = cfg.initial_cwnd();
        let mss = u64::from(cfg.datagram);
        let setup = Setup { congestion: cfg.congestion, initial, each_loss: true, spill: false };
        Sender {
            stream: Outgoing::default(),
            sent: VecDeque::new(),
            base: 0,
            next: 0,
            largest_acked: None,
            position: 0,
            acked_position: 0,
            lost_bytes: 0,
            in_flight: 0,
            eliciting: 0,
            rtt: Rtt::new(),
            first_rtt: None,
            window: Window { cwnd: initial, ssthresh: u64::MAX, mss },
            control: Controller::new(&setup),
            hystart: Controller::hystart(cfg.congestion, cfg.hystart, true),
            delivery: cfg.congestion.is_model().then(Box::default),
            pacing: Pacing::leaky_bucket(u64::from(cfg.burst) * mss),
            spaced: false,
            clocked: false,
            starved: true,
            recovery_from: None,
            repairing: None,
            marked_until: 0,
            one_more: false,
            loss_time: Time::NEVER,
            last_eliciting: Time::ZERO,
            probe_count: 0,
            probes_due: 0,
            probe_from: 0,
            max_ack_delay: cfg.max_ack_delay,
            ecn: EcnPath::new(cfg.ecn, cfg.ect1),
            datagram: cfg.datagram,
            counters: Counters::default(),
        }
    }

    /// Handles the end of the handshake; `rtt`: its round trip, if one was measured.
    pub(super) fn establish(&mut self, now: Time, rtt: Option<Span>) {
        if let Some(rtt) = rtt {
            self.rtt.sample(rtt, Span::ZERO);
            self.first_rtt = Some(now);
        }
        if let Some(model) = self.control.as_model() {
            model.start(now, &self.window, rtt);
            if model.pacing_rate() > 0.0 {
                self.pacing.set_rate(model.pacing_rate(), model.quantum(self.window.mss));
            }
        }
    }

    /// Sets the spacing of packets, with or without the window; `None`: the transport's own.
    pub(super) fn pace(&mut self, interval: Option<Span>, window: bool) {
        self.spaced = interval.is_some();
        self.clocked = self.spaced && !window;
        self.pacing.set(interval);
    }

    /// Returns the probe timeout, doubled for each unanswered probe (RFC 9002 §6.2.1).
    ///
    /// It is the sum of smoothed round trip, variation and the peer's delay.
    pub(super) fn probe_timeout(&self) -> Span {
        self.probe_period().saturating_mul(1 << self.probe_count.min(30))
    }

    pub(super) fn probe_period(&self) -> Span {
        self.rtt.probe_timeout() + self.max_ack_delay
    }

    pub(super) const fn max_ack_delay(&self) -> Span {
        self.max_ack_delay
    }

    /// Returns the instant of the loss or probe timer.
    ///
    /// RFC 9002 Appendix A.8
    fn loss_timer(&self) -> Time {
        if self.loss_time < Time::NEVER {
            self.loss_time
        } else if self.eliciting == 0 {
            Time::NEVER
        } else {
            self.last_eliciting + self.probe_timeout()
        }
    }

    pub(super) fn deadline(&self) -> Time {
        self.loss_timer().min(self.pacing.due())
    }

    /// Handles an expired timer.
    ///
    /// RFC 9002 Appendix A.9
    pub(super) fn on_deadline(&mut self, now: Time) {
        self.pacing.on_deadline(now);
        if now < self.loss_timer() {
            return;
        }
        if self.loss_time < Time::NEVER {
            self.detect_lost(now);
        } else {
            // RFC 9002 §6.2.4
            self.probes_due = PROBE_PACKETS;
            self.probe_from = 0;
            self.probe_count += 1;
            self.counters.probe_timeouts += 1;
            // No timeout runs until the probes have been sent.
            self.last_eliciting = now;
        }
    }

    /// Returns the bytes that may be in flight.
    const fn allowed(&self) -> u64 {
        if self.clocked { UNSCALED_WINDOW } else { self.window.cwnd }
    }

    /// Returns true if the window, not the application, limits the sender.
    pub(super) fn is_limited(&self) -> bool {
        let full = self.in_flight + self.window.mss > self.window.cwnd;
        // RFC 9002 §7.8: pacing is not an application limit; the spacing of a control is.
        if self.spaced { full } else { !self.starved }
    }

    /// Returns the next packet; `ack` builds its ACK frame, if one is needed.
    pub(super) fn poll(
        &mut self,
        now: Time,
        mut ack: impl FnMut() -> Option<Ack>,
    ) -> Option<Packet> {
        if self.probes_due > 0 {
            self.probes_due -= 1;
            if let Some(packet) = self.probe(now, &mut ack) {
                return Some(packet);
            }
            self.probes_due = 0;
        }
        if !self.stream.wants() {
            self.starved = self.in_flight + self.window.mss <= self.window.cwnd;
            return None;
        }
        self.starved = false;
        let size = self.upcoming();
        // RFC 9002 §7.3.2: immediately, so that it belongs to the loss epoch that it repairs
        let fits = self.in_flight + size <= self.allowed();
        let may = self.one_more || (fits && self.pacing.may_send(now));
        if !may {
            return None;
        }
        self.one_more = false;
        let mut packet = self.packet();
        packet.ack = ack();
        let (frame, again) = self.stream.peek(|offset| packet.room(self.datagram, offset))?;
        packet.stream = Some(frame);
        self.counters.resent += u64::from(again);
        Some(self.leave(now, packet))
    }

    /// Returns the length of the next packet with data, without an ACK frame.
    fn upcoming(&self) -> u64 {
        let packet = self.packet();
        let frame = self.stream.peek(|offset| packet.room(self.datagram, offset));
        u64::from(Packet { stream: frame.map(|f| f.0), ..packet }.udp_bytes())
    }

    fn packet(&self) -> Packet {
        Packet::handshake(Kind::OneRtt { number: self.next })
    }

    /// Returns a probe.
    ///
    /// It has lost or new data, otherwise the oldest unacknowledged data, otherwise a PING. RFC 9002 §6.2.4
    fn probe(&mut self, now: Time, ack: &mut impl FnMut() -> Option<Ack>) -> Option<Packet> {
        let first = self.probes_due + 1 == PROBE_PACKETS;
        let (wants, from) = (self.stream.wants(), self.probe_from);
        let repeats = !wants && self.stream.again(from, |_| 1).is_some();
        if !wants && !repeats && !first {
            return None;
        }
        let mut packet = Packet { ack: ack(), ..self.packet() };
        let room = |offset| packet.room(self.datagram, offset);
        let (frame, again) = match self.stream.peek(room) {
            Some((frame, again)) => (Some(frame), again),
            None => (self.stream.again(from, room), repeats),
        };
        if let (true, Some(frame)) = (repeats, &frame) {
            self.probe_from = frame.end();
        }
        packet.ping = frame.is_none();
        packet.stream = frame;
        self.counters.resent += u64::from(again);
        Some(self.leave(now, packet))
    }

    /// Sends a packet with only an ACK frame; with `ping` it is ack-eliciting.
    pub(super) fn acknowledge(&mut self, now: Time, ack: Option<Ack>, ping: bool) -> Packet {
        let packet = Packet { ack, ping, ..self.packet() };
        self.leave(now, packet)
    }

    /// Records a departing packet.
    ///
    /// RFC 9002 Appendix A.5
    fn leave(&mut self, now: Time, mut packet: Packet) -> Packet {
        let eliciting = packet.is_ack_eliciting();
        let idle = self.in_flight == 0;
        if eliciting {
            packet.ecn = self.ecn.codepoint();
            self.ecn.on_sent(packet.ecn);
        }
        let size = if eliciting { packet.udp_bytes() } else { 0 };
        if let Some(frame) = &packet.stream {
            if idle && self.delivery.as_ref().is_some_and(|d| d.is_starved()) {
                self.restart_model(now);
            }
            self.stream.on_sent(frame);
        }
        self.in_flight += u64::from(size);
        let stamp = self.delivery.as_mut().filter(|_| eliciting).map(|d| Stamp {
            in_flight: self.in_flight,
            lost: self.lost_bytes,
            ..d.stamp(now, idle)
        });
        self.sent.push_back(Sent {
            time: now,
            size,
            state: State::Outstanding,
            stream: packet.stream,
            acked: packet.ack.as_ref().map(Ack::largest),
            ect: packet.ecn != Ecn::NotEct,
            position: self.position,
            stamp,
        });
        self.next += 1;
        self.position += u64::from(size);
        if eliciting {
            self.counters.packets += 1;
            self.eliciting += 1;
            self.last_eliciting = now;
            self.pacing.sent(now, size, self.paced_window(), self.rtt.srtt());
        }
        self.retire(now);
        packet
    }

    /// Returns the window that pacing spreads over a round trip.
    ///
    /// It is a quarter larger, so that the window can be filled (RFC 9002 §7.7). Prague uses the window
    /// itself, or twice that in slow start (§2.4.5 of its draft).
    fn paced_window(&self) -> u64 {
        if self.control.is_prague() {
            return self.window.cwnd << u32::from(self.window.in_slow_start());
        }
        self.window.cwnd / 4 * 5
    }

    /// Notifies the model of data sent after an idle period.
    fn restart_model(&mut self, now: Time) {
        let delivered = self.delivery.as_ref().map_or(0, |d| d.total());
        if let Some(model) = self.control.as_model() {
            model.restart(now, &mut self.window, delivered);
            self.pacing.set_rate(model.pacing_rate(), model.quantum(self.window.mss));
        }
    }
}
