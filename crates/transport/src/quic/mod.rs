//! A QUIC transport.
//!
//! It has RFC 9000's packets, acknowledgements and streams as far as they determine content and timing of
//! packets, and RFC 9002's loss detection and congestion control.
//!
//! One stream each way, one packet per datagram, one packet number space; the handshake is a
//! datagram each way. Payload is counted, not stored. docs/models/quic.md lists the omissions.

mod config;
mod ecn;
mod packet;
mod ranges;
mod receive;
mod recovery;
mod rtt;
mod send;
mod stream;
#[cfg(test)]
mod tests;

use fairmesh_units::{Span, Time};

pub use self::config::{Config, ConfigError};
pub use self::packet::{Ack, Ecn, EcnCounts, Kind, PLAIN_ACK, Packet, StreamFrame};
use self::receive::Received as Arrivals;
use self::send::Sender;
use self::stream::Incoming;
use crate::connection::Received;

/// First timeout, RFC 9002 §6.2.2: twice the assumed initial round trip plus its variation.
const FIRST_TIMEOUT: Span = Span::from_millis(999);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// A client that has not connected.
    Idle,
    /// A server that waits for a client.
    Listen,
    /// A client that waits for the server's response.
    Connecting,
    /// A server that waits for the client's first packet after its response.
    Answering,
    Established,
}

/// One end of a QUIC connection, with the same methods as TCP's [`crate::Connection`].
///
/// Flow control never limits: applications read immediately. Connections never give up.
#[derive(Clone, Debug)]
pub struct Connection {
    state: State,
    sender: Sender,
    arrivals: Arrivals,
    incoming: Incoming,
    /// True if a datagram of the handshake is due.
    handshake_due: bool,
    handshake_timer: Time,
    /// Handshake datagrams sent so far, and their instants.
    handshakes: u32,
    handshake_times: Vec<Time>,
    /// The client's attempt to which the server responds.
    attempt: u32,
    /// True if the client's first packet must be ack-eliciting, because it ends the handshake.
    finish_due: bool,
    /// True if data was received since the last PING.
    ping_useful: bool,
    pinged: Time,
    acks_sent: u64,
    bytes_acked: u64,
    bytes_delivered: u64,
    spin: Spin,
}

/// The spin bit of one end. RFC 9000 §17.4
#[derive(Clone, Debug)]
struct Spin {
    on: bool,
    client: bool,
    bit: bool,
    /// Largest packet number that has arrived.
    largest: Option<u64>,
}

impl Spin {
    /// Updates the bit.
    ///
    /// A server returns that of the packet with the largest number, a client inverts it.
    fn arrived(&mut self, number: u64, bit: bool) {
        if self.largest.is_none_or(|largest| number > largest) {
            self.largest = Some(number);
            self.bit = self.on && bit != self.client;
        }
    }
}

/// State and counters of one end.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Stats {
    /// Congestion window, bytes of UDP payload.
    pub cwnd: u64,
    /// Slow-start threshold, bytes; `u64::MAX` before the first reduction.
    pub ssthresh: u64,
    /// Bytes of UDP payload in flight.
    pub in_flight: u64,
    /// Bytes of the stream that were sent and are not yet acknowledged without a gap.
    pub outstanding: u64,
    /// Smoothed round-trip time; `None` before the first sample.
    pub srtt: Option<Span>,
    /// Probe timeout with its present back-off.
    pub probe_timeout: Span,
    /// Ack-eliciting packets sent.
    pub packets_sent: u64,
    /// Ack-eliciting packets with data that was sent before.
    pub retransmitted: u64,
    /// Packets declared lost.
    pub lost: u64,
    /// Packets declared lost that arrived later.
    pub spurious: u64,
    /// Probe timeouts.
    pub probe_timeouts: u64,
    /// Reductions of the window, by losses or marks, at most one per loss epoch.
    pub congestion_events: u64,
    /// Number of persistent congestions.
    pub persistent_congestions: u64,
    /// Own packets reported as marked by the peer.
    pub marks: u64,
    /// True if the path failed ECN validation.
    pub ecn_failed: bool,
    /// Packets with only an ACK, possibly with a PING.
    pub acks_sent: u64,
    /// Datagrams of the handshake that were sent.
    pub handshakes_sent: u32,
    /// Application bytes acknowledged by the peer.
    pub bytes_acked: u64,
    /// Application bytes received in order.
    pub bytes_delivered: u64,
}

impl Connection {
    /// Returns the end that opens the connection. `cfg` must be valid ([`Config::validate`]).
    pub fn client(cfg: &Config) -> Self {
        Connection::new(cfg, State::Idle)
    }

    /// Returns the end that accepts the connection. `cfg` must be valid ([`Config::validate`]).
    pub fn server(cfg: &Config) -> Self {
        Connection::new(cfg, State::Listen)
    }

    fn new(cfg: &Config, state: State) -> Self {
        Connection {
            state,
            sender: Sender::new(cfg),
            arrivals: Arrivals::new(cfg.max_ack_delay),
            incoming: Incoming::default(),
            handshake_due: false,
            handshake_timer: Time::NEVER,
            handshakes: 0,
            handshake_times: Vec::new(),
            attempt: 0,
            finish_due: false,
            ping_useful: false,
            pinged: Time::ZERO,
            acks_sent: 0,
            bytes_acked: 0,
            bytes_delivered: 0,
            spin: Spin { on: cfg.spin, client: state == State::Idle, bit: false, largest: None },
        }
    }

    /// Opens the connection. Does nothing at a server or a second time.
    pub fn connect(&mut self, now: Time) {
        if self.state == State::Idle {
            self.state = State::Connecting;
            self.send_handshake(now);
        }
    }

    /// Writes `bytes` of application data; `u64::MAX` is an endless source.
    ///
    /// Ignored after [`close`](Connection::close). Possible before the connection is established.
    pub fn write(&mut self, bytes: u64) {
        self.sender.stream.write(bytes);
    }

    /// Ends this direction after the written data.
    ///
    /// An endless source stops with the data sent so far.
    pub fn close(&mut self) {
        self.sender.stream.close();
    }

    /// Spaces packets by at least this interval from now on; `None`: by the window.
    ///
    /// With `window` false the interval replaces the congestion window, as in TCP's
    /// [`crate::Connection::pace`].
    pub fn pace(&mut self, interval: Option<Span>, window: bool) {
        self.sender.pace(interval, window);
    }

    /// Returns true if both directions have ended and nothing is left to send.
    pub fn is_closed(&self) -> bool {
        self.sender.stream.finished() && self.incoming.finished() && !self.arrivals.due()
    }

    /// Returns true if the handshake is complete at this end.
    pub fn is_established(&self) -> bool {
        self.state == State::Established
    }

    /// Returns the bytes written and not yet sent for the first time.
    pub fn unsent(&self) -> u64 {
        self.sender.stream.unsent()
    }

    /// Processes a packet from the network, with the ECN field of its IP header.
    pub fn on_packet(&mut self, now: Time, packet: &Packet, ecn: Ecn) -> Received {
        match (packet.kind, self.state) {
            (Kind::Initial { attempt }, State::Listen | State::Answering) => {
                // The client retries only when its timer has expired; so does the server.
                let first = self.state == State::Listen;
                self.state = State::Answering;
                self.attempt = self.attempt.max(attempt);
                if first {
                    self.send_handshake(now);
                } else {
                    self.handshake_due = true;
                }
                Received::default()
            }
            (Kind::Handshake { attempt }, State::Connecting) => {
                // The response names its attempt, so this is a sample even after several attempts.
                let sent = self.handshake_times.get(attempt as usize);
                let rtt = sent.map(|&sent| now - sent);
                self.establish(now, rtt);
                self.finish_due = true;
                Received { established: true, rtt, ..Received::default() }
            }
            (Kind::Handshake { .. }, State::Established) => {
                // The server has not received the end of the handshake.
                self.finish_due = true;
                Received::default()
            }
            (Kind::OneRtt { number }, State::Answering) => {
                let sample = self.handshake_times.first().filter(|_| self.handshakes == 1);
                let rtt = sample.map(|&sent| now - sent);
                self.establish(now, rtt);
                let received = self.take(now, number, packet, ecn);
                Received { established: true, ..received }
            }
            (Kind::OneRtt { number }, State::Established) => self.take(now, number, packet, ecn),
            _ => Received::default(),
        }
    }

    fn take(&mut self, now: Time, number: u64, packet: &Packet, ecn: Ecn) -> Received {
        self.spin.arrived(number, packet.spin);
        let mut received = Received::default();
        if !self.arrivals.on_packet(now, number, packet.is_ack_eliciting(), ecn) {
            return received;
        }
        if let Some(ack) = &packet.ack {
            let effects = self.sender.on_ack(now, ack);
            if let Some(largest) = effects.seen {
                self.arrivals.forget(largest);
            }
            (received.acked, received.rtt, received.marks) =
                (effects.acked, effects.rtt, effects.marks);
            self.bytes_acked += effects.acked;
        }
        if let Some(frame) = &packet.stream {
            self.ping_useful = true;
            let was_finished = self.incoming.finished();
            received.delivered = self.incoming.on_frame(frame);
            received.finished = !was_finished && self.incoming.finished();
            self.bytes_delivered += received.delivered;
            if received.finished {
                self.sender.stream.close();
            }
        }
        received
    }

    /// Returns the next packet to send; `None` if there is none at present.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Packet> {
        let spin = self.spin.bit;
        let packet = self.next_packet(now)?;
        let spins = matches!(packet.kind, Kind::OneRtt { .. });
        Some(Packet { spin: spin && spins, ..packet })
    }

    fn next_packet(&mut self, now: Time) -> Option<Packet> {
        if self.handshake_due {
            self.handshake_due = false;
            self.handshakes += 1;
            return Some(Packet::handshake(if self.state == State::Connecting {
                Kind::Initial { attempt: self.handshakes - 1 }
            } else {
                Kind::Handshake { attempt: self.attempt }
            }));
        }
        if self.state != State::Established {
            return None;
        }
        let arrivals = &mut self.arrivals;
        // RFC 9000 §13.2.1: an ACK frame is added to a packet that is sent for another reason
        let bundle = || if arrivals.waits() { arrivals.ack(now) } else { None };
        if let Some(packet) = self.sender.poll(now, bundle) {
            self.finish_due = false;
            return Some(packet);
        }
        if !self.finish_due && !self.arrivals.due() {
            return None;
        }
        let ping = core::mem::take(&mut self.finish_due) || self.wants_ping(now);
        if ping {
            (self.pinged, self.ping_useful) = (now, false);
        }
        self.acks_sent += 1;
        let ack = self.arrivals.ack(now);
        Some(self.sender.acknowledge(now, ack, ping))
    }

    /// Returns true if an ACK must carry a PING, so that the report of its holes can end.
    ///
    /// That is once per round trip with received data. RFC 9000 §13.2.4
    fn wants_ping(&self, now: Time) -> bool {
        let round = self.sender.rtt.smoothed();
        self.arrivals.has_holes() && self.ping_useful && now - self.pinged >= round
    }

    /// Returns the instant at which [`on_deadline`](Connection::on_deadline) must be called.
    ///
    /// [`Time::NEVER`] if there is no deadline.
    pub fn next_deadline(&self) -> Time {
        self.handshake_timer.min(self.arrivals.deadline()).min(self.sender.deadline())
    }

    /// Handles a deadline. Harmless when called early.
    pub fn on_deadline(&mut self, now: Time) {
        if now >= self.handshake_timer {
            self.send_handshake(now);
        }
        self.arrivals.on_deadline(now);
        self.sender.on_deadline(now);
    }

    /// Returns state and counters.
    pub fn stats(&self) -> Stats {
        let s = &self.sender;
        let c = s.counters;
        Stats {
            cwnd: s.window.cwnd,
            ssthresh: s.window.ssthresh,
            in_flight: s.in_flight,
            outstanding: s.stream.outstanding(),
            srtt: s.rtt.srtt(),
            probe_timeout: s.probe_timeout(),
            packets_sent: c.packets,
            retransmitted: c.resent,
            lost: c.lost,
            spurious: c.spurious,
            probe_timeouts: c.probe_timeouts,
            congestion_events: c.congestion_events,
            persistent_congestions: c.persistent_congestions,
            marks: c.marks,
            ecn_failed: s.ecn.failed(),
            acks_sent: self.acks_sent,
            handshakes_sent: self.handshakes,
            bytes_acked: self.bytes_acked,
            bytes_delivered: self.bytes_delivered,
        }
    }

    /// Sends a datagram of the handshake, repeated after a doubling timeout.
    ///
    /// It is outside the window, and its loss is not a sign of congestion: its keys are discarded,
    /// and its packets with them (RFC 9002 §6.4).
    fn send_handshake(&mut self, now: Time) {
        self.handshake_due = true;
        self.handshake_times.push(now);
        let times = self.handshake_times.len() as u32 - 1;
        self.handshake_timer = now + FIRST_TIMEOUT.saturating_mul(1 << times.min(30));
    }

    fn establish(&mut self, now: Time, rtt: Option<Span>) {
        self.state = State::Established;
        self.handshake_timer = Time::NEVER;
        self.handshake_due = false;
        self.sender.establish(now, rtt);
    }
}
