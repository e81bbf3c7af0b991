//! One end of a TCP connection: handshake, both directions, close.

use fairmesh_units::{Span, Time};

use crate::config::{Dialect, TcpConfig};
use crate::receive::Receiver;
use crate::segment::{Flags, Segment};
use crate::send::Sender;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// A client that has not connected.
    Idle,
    /// A server that waits for a SYN.
    Listen,
    SynSent,
    SynReceived,
    Established,
}

/// One end of a full-duplex TCP connection.
///
/// One end is a [`client`](Connection::client) and calls [`connect`](Connection::connect); the
/// other is a [`server`](Connection::server). Either may [`write`](Connection::write). After every
/// call that takes the time, and after `write` and `close`, the host sends segments from
/// [`poll_transmit`](Connection::poll_transmit) until it returns none, then reads
/// [`next_deadline`](Connection::next_deadline).
///
/// An end responds to its peer's FIN with its own when all written data is sent. The receive window
/// never limits: applications read immediately.
#[derive(Clone, Debug)]
pub struct Connection {
    state: State,
    sender: Sender,
    receiver: Receiver,
    /// True if both ends want ECN.
    ecn_wanted: bool,
    ecn: bool,
    syn_timeout: Span,
    syn_due: bool,
    syn_timer: Time,
    /// SYNs or SYN-ACKs sent.
    syns: u32,
    /// Departure of the first and of the latest SYN or SYN-ACK.
    syn_first: Time,
    syn_sent: Time,
    dialect: Dialect,
    acks_sent: u64,
    bytes_acked: u64,
    bytes_delivered: u64,
}

/// Effects of a received segment or packet.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Received {
    /// Application bytes that are now in order at this end.
    pub delivered: u64,
    /// Own bytes newly acknowledged.
    pub acked: u64,
    /// Round trip measured by this acknowledgement, cumulative or selective, if any.
    pub rtt: Option<Span>,
    /// True if the connection was established by this segment.
    pub established: bool,
    /// True if the peer's last byte and its FIN are now in order.
    pub finished: bool,
    /// Own packets newly reported as marked, if the transport counts them (QUIC).
    pub marks: u64,
}

/// State and counters of one end.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TcpStats {
    /// Congestion window, bytes (without the inflation of fast recovery).
    pub cwnd: u64,
    /// Slow-start threshold, bytes; `u64::MAX` before the first reduction.
    pub ssthresh: u64,
    /// Bytes believed to be in the network.
    pub in_flight: u64,
    /// Bytes sent and not cumulatively acknowledged.
    pub outstanding: u64,
    /// Smoothed round-trip time; `None` before the first sample.
    pub srtt: Option<Span>,
    /// Retransmission timeout with its present back-off.
    pub rto: Span,
    /// Data segments sent, retransmissions included.
    pub segments_sent: u64,
    /// Data segments retransmitted.
    pub retransmitted: u64,
    /// Retransmission timeouts of data.
    pub timeouts: u64,
    /// Number of fast recoveries.
    pub fast_recoveries: u64,
    /// Window reductions for congestion marks.
    pub ecn_reductions: u64,
    /// Segments sent that were only an ACK.
    pub acks_sent: u64,
    /// SYN or SYN-ACK segments sent.
    pub syns_sent: u32,
    /// Application bytes acknowledged by the peer.
    pub bytes_acked: u64,
    /// Application bytes received in order.
    pub bytes_delivered: u64,
}

impl Connection {
    /// Returns the end that opens the connection. `cfg` must be valid ([`TcpConfig::validate`]).
    pub fn client(cfg: &TcpConfig) -> Self {
        Connection::new(cfg, State::Idle)
    }

    /// Returns the end that accepts the connection.
    ///
    /// `cfg` must be valid ([`TcpConfig::validate`]).
    pub fn server(cfg: &TcpConfig) -> Self {
        Connection::new(cfg, State::Listen)
    }

    fn new(cfg: &TcpConfig, state: State) -> Self {
        Connection {
            state,
            sender: Sender::new(cfg),
            receiver: Receiver::new(cfg),
            ecn_wanted: cfg.ecn,
            ecn: false,
            syn_timeout: cfg.syn_timeout,
            syn_due: false,
            syn_timer: Time::NEVER,
            syns: 0,
            syn_first: Time::ZERO,
            syn_sent: Time::ZERO,
            dialect: cfg.dialect,
            acks_sent: 0,
            bytes_acked: 0,
            bytes_delivered: 0,
        }
    }

    /// Opens the connection. Does nothing at a server or a second time.
    pub fn connect(&mut self, now: Time) {
        if self.state == State::Idle {
            self.state = State::SynSent;
            self.start_syn(now);
        }
    }

    /// Writes `bytes` of application data; `u64::MAX` is an endless source.
    ///
    /// Ignored after [`close`](Connection::close). Possible before the connection is established.
    pub fn write(&mut self, bytes: u64) {
        self.sender.write(bytes);
    }

    /// Ends this direction after the written data.
    ///
    /// An endless source stops with the data sent so far.
    pub fn close(&mut self) {
        self.sender.close();
    }

    /// Spaces new data by at least this interval from now on, regardless of the window.
    ///
    /// `None` restores the configuration. Retransmissions are not delayed.
    ///
    /// With `window` false the interval replaces the congestion window: a rate-based transport with
    /// TCP's recovery, timeouts and flow control (Rangwala 2008 §3.1). Then retransmissions are
    /// spaced like new data, and at most 64 KiB are in the network.
    pub fn pace(&mut self, interval: Option<Span>, window: bool) {
        self.sender.pace(interval, window);
    }

    /// Returns true if both directions have ended and nothing is left to send.
    ///
    /// An end must stay until its peer is closed, too: it may have to repeat its last ACK.
    pub fn is_closed(&self) -> bool {
        self.sender.finished() && self.receiver.finished() && !self.receiver.due()
    }

    /// Returns true if the handshake is complete at this end.
    pub fn is_established(&self) -> bool {
        self.state == State::Established
    }

    /// Returns the bytes written and not yet sent for the first time.
    pub fn unsent(&self) -> u64 {
        self.sender.unsent()
    }

    /// Processes a segment from the network.
    ///
    /// `ce`: true if its IP header carries a congestion mark.
    pub fn on_segment(&mut self, now: Time, seg: &Segment, ce: bool) -> Received {
        let mut received = Received::default();
        match self.state {
            State::Idle => return received,
            State::Listen => {
                if seg.flags.has(Flags::SYN) && !seg.flags.has(Flags::ACK) {
                    // RFC 3168 §6.1.1: a SYN with ECE and CWR requests ECN
                    self.ecn = self.ecn_wanted && seg.flags.has(Flags::ECE | Flags::CWR);
                    self.receiver.on_syn();
                    self.state = State::SynReceived;
                    self.start_syn(now);
                }
                return received;
            }
            State::SynSent => {
                if !seg.flags.has(Flags::SYN | Flags::ACK) {
                    return received;
                }
                // RFC 3168 §6.1.1: a SYN-ACK with ECE alone agrees
                self.ecn =
                    self.ecn_wanted && seg.flags.has(Flags::ECE) && !seg.flags.has(Flags::CWR);
                self.receiver.on_syn();
                self.establish(now);
                self.receiver.request_ack();
                received.established = true;
                return received;
            }
            State::SynReceived => {
                if seg.flags.has(Flags::SYN) {
                    // Our SYN-ACK was lost or is late.
                    self.syn_due = true;
                    self.syns += 1;
                    return received;
                }
                if !seg.flags.has(Flags::ACK) {
                    return received;
                }
                self.establish(now);
                received.established = true;
            }
            State::Established => {
                if seg.flags.has(Flags::SYN) {
                    // The peer has not received the ACK of its SYN-ACK.
                    if seg.flags.has(Flags::ACK) {
                        self.receiver.request_ack();
                    }
                    return received;
                }
            }
        }
        if seg.flags.has(Flags::ACK) {
            let had_fin = self.sender.finished();
            let acked = self.sender.on_ack(now, seg);
            received.acked = acked - u64::from(self.sender.finished() && !had_fin);
            received.rtt = self.sender.sampled();
            self.bytes_acked += received.acked;
        }
        if seg.len > 0 || seg.flags.has(Flags::FIN) {
            let was_finished = self.receiver.finished();
            received.delivered = self.receiver.on_data(now, seg, ce && self.ecn);
            received.finished = !was_finished && self.receiver.finished();
            self.bytes_delivered += received.delivered;
            if received.finished {
                self.sender.close();
            }
        }
        received
    }

    /// Returns the next segment to send; `None` if there is none at present.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Segment> {
        if self.syn_due {
            self.syn_due = false;
            return Some(self.syn());
        }
        if self.state != State::Established {
            return None;
        }
        if self.receiver.due_alone() {
            return Some(self.ack());
        }
        if let Some(out) = self.sender.poll(now) {
            self.receiver.on_ack_sent(false);
            return Some(Segment {
                seq: out.seq,
                ack: self.receiver.next(),
                len: out.len,
                flags: Flags::ACK | out.flags | self.receiver.echo(),
                sack: self.receiver.blocks(),
                ce: self.receiver.marks(),
            });
        }
        self.receiver.due().then(|| self.ack())
    }

    /// Returns the instant at which [`on_deadline`](Connection::on_deadline) must be called.
    ///
    /// [`Time::NEVER`] if there is no deadline.
    pub fn next_deadline(&self) -> Time {
        self.sender.deadline().min(self.receiver.deadline()).min(self.syn_timer)
    }

    /// Handles a deadline. Harmless when called early.
    pub fn on_deadline(&mut self, now: Time) {
        if now >= self.syn_timer {
            self.start_syn(now);
        }
        if now >= self.receiver.deadline() {
            self.receiver.on_deadline();
        }
        if now >= self.sender.deadline() {
            self.sender.on_deadline(now);
        }
    }

    /// Returns state and counters.
    pub fn stats(&self) -> TcpStats {
        let counters = self.sender.counters();
        TcpStats {
            cwnd: self.sender.cwnd(),
            ssthresh: self.sender.ssthresh(),
            in_flight: self.sender.in_flight(),
            outstanding: self.sender.outstanding(),
            srtt: self.sender.srtt(),
            rto: self.sender.rto(),
            segments_sent: counters.sent,
            retransmitted: counters.resent,
            timeouts: counters.timeouts,
            fast_recoveries: counters.fast_recoveries,
            ecn_reductions: counters.ecn_reductions,
            acks_sent: self.acks_sent,
            syns_sent: self.syns,
            bytes_acked: self.bytes_acked,
            bytes_delivered: self.bytes_delivered,
        }
    }

    /// Sends a SYN or SYN-ACK and doubles the timeout.
    fn start_syn(&mut self, now: Time) {
        self.syn_due = true;
        if self.syns == 0 {
            self.syn_first = now;
        }
        self.syn_sent = now;
        // 2^32 times the first timeout is effectively infinite.
        self.syn_timer = now + self.syn_timeout.saturating_mul(1 << self.syns.min(32));
        self.syns += 1;
    }

    fn establish(&mut self, now: Time) {
        self.state = State::Established;
        self.syn_timer = Time::NEVER;
        self.syn_due = false;
        let rtt = match self.dialect {
            // RFC 6298 §3: no sample from a retransmitted SYN
            Dialect::Rfc => (self.syns == 1).then(|| now - self.syn_sent),
            // A SYN has no length, so ns-3 never finds it in its list to mark it as retransmitted: the
            // first sample counts from the first SYN, and a flow that lost one starts with a
            // timeout of many seconds.
            Dialect::Ns3 => Some(now - self.syn_first),
        };
        self.sender.establish(now, rtt, self.ecn);
    }

    fn syn(&self) -> Segment {
        let client = self.state == State::SynSent;
        let flags = if client {
            Flags::SYN.with(Flags::ECE | Flags::CWR, self.ecn_wanted)
        } else {
            (Flags::SYN | Flags::ACK).with(Flags::ECE, self.ecn)
        };
        Segment { ack: self.receiver.next(), flags, ..Segment::default() }
    }

    fn ack(&mut self) -> Segment {
        self.receiver.on_ack_sent(true);
        self.acks_sent += 1;
        Segment {
            seq: self.sender.next_seq(),
            ack: self.receiver.next(),
            len: 0,
            flags: Flags::ACK | self.receiver.echo(),
            sack: self.receiver.blocks(),
            ce: self.receiver.marks(),
        }
    }
}
