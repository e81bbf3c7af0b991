//! Rules of RFC 9000 and RFC 9002 one by one.
//!
//! Datagrams are 1200 bytes; the round trip is 100 ms.

use super::stream::Outgoing;
use super::*;
use crate::config::Congestion;

const DATAGRAM: u64 = 1200;

fn at(ms: u64) -> Time {
    Time::ZERO + Span::from_millis(ms)
}

fn ms(n: u64) -> Span {
    Span::from_millis(n)
}

/// A sender in mid-transfer and its clock.
struct Rig {
    s: Sender,
    now: Time,
}

impl Rig {
    /// Returns an established connection with endless data, not in slow start.
    ///
    /// Its window has this many datagrams.
    /// Pacing is disabled.
    fn new(cfg: Config, datagrams: u64) -> Rig {
        let cfg = Config { datagram: DATAGRAM as u32, burst: 1000, hystart: false, ..cfg };
        let mut s = Sender::new(&cfg);
        s.establish(Time::ZERO, Some(ms(100)));
        s.stream.write(u64::MAX);
        s.window.cwnd = datagrams * DATAGRAM;
        s.window.ssthresh = s.window.cwnd;
        Rig { s, now: at(100_000) }
    }

    fn reno(datagrams: u64) -> Rig {
        Rig::new(Config::new(Congestion::NewReno), datagrams)
    }

    /// Returns the packets that may be sent now.
    fn packets(&mut self) -> Vec<Packet> {
        let mut all = Vec::new();
        while let Some(packet) = self.s.poll(self.now, || None) {
            all.push(packet);
        }
        all
    }

    /// Returns their numbers.
    fn sent(&mut self) -> Vec<u64> {
        self.packets().iter().filter_map(Packet::number).collect()
    }

    fn ack_with(&mut self, ranges: &[(u64, u64)], delay: Span, ecn: Option<EcnCounts>) {
        let ack = Ack { ranges: ranges.to_vec(), delay, ecn };
        self.s.on_ack(self.now, &ack);
    }

    fn ack(&mut self, ranges: &[(u64, u64)]) {
        self.ack_with(ranges, Span::ZERO, None);
    }

    fn time_out(&mut self) -> Vec<Packet> {
        self.now = self.s.deadline();
        self.s.on_deadline(self.now);
        self.packets()
    }

    fn lost(&self) -> u64 {
        self.s.counters.lost
    }
}

// ---- loss detection ----

#[test]
fn a_packet_is_lost_when_one_three_later_has_arrived() {
    let mut r = Rig::reno(10);
    assert_eq!(r.sent(), (0..10).collect::<Vec<_>>());
    r.now += ms(100);
    r.ack(&[(1, 2)]);
    assert_eq!(r.lost(), 0);
    // RFC 9002 §6.1.1: 0 is three below 3
    r.ack(&[(1, 3)]);
    assert_eq!(r.lost(), 1);
    // Its data is sent in a packet with a new number, before new data. RFC 9000 §12.3
    let next = r.packets();
    assert_eq!(next[0].number(), Some(10));
    assert_eq!(next[0].stream.map(|f| f.offset), Some(0));
}

#[test]
fn a_packet_is_lost_nine_eighths_of_a_round_trip_after_it_left() {
    let mut r = Rig::reno(2);
    assert_eq!(r.sent(), [0, 1]);
    let left = r.now;
    r.now += ms(100);
    r.ack(&[(1, 1)]);
    assert_eq!(r.lost(), 0);
    // RFC 9002 §6.1.2
    assert_eq!(r.s.loss_time, left + Span::from_micros(112_500));
    r.now = r.s.loss_time;
    r.s.on_deadline(Time::from_nanos(r.now.as_nanos() - 1));
    assert_eq!(r.lost(), 0);
    r.s.on_deadline(r.now);
    assert_eq!((r.lost(), r.s.counters.probe_timeouts), (1, 0));
}

#[test]
fn data_declared_lost_that_arrives_is_not_resent() {
    let mut r = Rig::reno(4);
    r.sent();
    r.now += ms(100);
    r.ack(&[(3, 3)]);
    assert_eq!(r.lost(), 1);
    r.ack(&[(0, 3)]);
    assert_eq!((r.s.counters.spurious, r.s.in_flight), (1, 0));
    let offsets: Vec<u64> = r.packets().iter().filter_map(|p| p.stream).map(|f| f.offset).collect();
    assert!(offsets.iter().all(|&o| o >= 4 * 1100), "{offsets:?}");
}

// ---- probe timeout ----

#[test]
fn a_timeout_sends_two_probes_and_doubles() {
    let mut r = Rig::reno(4);
    r.sent();
    // RFC 9002 §6.2.1: 100 ms, four times 50 ms of variation, the peer's 25 ms
    assert_eq!(r.s.deadline(), r.now + ms(325));
    let mut at = r.now;
    for n in 0..4 {
        let probes = r.time_out();
        assert_eq!(r.now, at + ms(325 << n));
        at = r.now;
        // §6.2.4: new data if there is any, even if the window is full (§7.5).
        assert_eq!(probes.len(), 2);
        assert!(probes.iter().all(|p| p.stream.is_some_and(|f| f.offset >= 4 * 1100)));
    }
    // §6.2: a probe timeout does not indicate losses or congestion.
    assert_eq!((r.lost(), r.s.counters.congestion_events), (0, 0));
    assert_eq!(r.s.window.cwnd, 4 * DATAGRAM);
    assert_eq!(r.s.counters.probe_timeouts, 4);
    r.now += ms(100);
    r.ack(&[(11, 11)]);
    assert_eq!(r.s.probe_count, 0);
}

#[test]
fn without_new_data_a_probe_repeats_the_oldest() {
    let mut r = Rig::reno(4);
    r.s.stream.close();
    r.s.stream = Outgoing::default();
    r.s.stream.write(2500);
    let sent = r.packets();
    assert_eq!(sent.len(), 3);
    r.now += ms(100);
    r.ack(&[(0, 0)]);
    let probes = r.time_out();
    let frames: Vec<_> = probes.iter().map(|p| p.stream).collect();
    assert_eq!(frames, [sent[1].stream, sent[2].stream]);
    assert!(probes.iter().all(|p| p.number() > Some(2)));
    // Without data to repeat, a PING.
    r.now += ms(100);
    r.ack(&[(0, 4)]);
    assert_eq!(r.s.deadline(), Time::NEVER);
    let ping = r.s.acknowledge(r.now, None, true);
    assert!(ping.ping && ping.is_ack_eliciting());
    let probes = r.time_out();
    assert_eq!(probes.iter().map(|p| (p.ping, p.stream)).collect::<Vec<_>>(), [(true, None)]);
}

// ---- congestion ----

#[test]
fn the_window_is_halved_once_per_loss_epoch() {
    let mut r = Rig::reno(20);
    r.sent();
    r.now += ms(100);
    r.ack(&[(1, 3)]);
    assert_eq!((r.s.window.cwnd, r.s.window.ssthresh), (10 * DATAGRAM, 10 * DATAGRAM));
    // RFC 9002 §7.3.2: one packet immediately, although sixteen are in flight.
    assert_eq!(r.sent(), [20]);
    // More losses of the same flight.
    r.ack(&[(1, 3), (10, 12)]);
    assert_eq!(r.s.window.cwnd, 10 * DATAGRAM);
    assert_eq!(r.s.counters.congestion_events, 1);
    // Data sent before does not increase it, either.
    r.ack(&[(1, 3), (10, 19)]);
    assert_eq!(r.s.window.cwnd, 10 * DATAGRAM);
    r.now += ms(1);
    let next = r.sent();
    assert_eq!(next[0], 21);
    // The loss of a later packet starts another epoch; that of the one sent with the reduction does
    // not.
    r.now += ms(100);
    r.ack(&[(21, 24)]);
    assert!(r.lost() > 6);
    assert_eq!(r.s.counters.congestion_events, 1, "20 left when the epoch began");
    r.ack(&[(21, 24), (28, 29)]);
    assert_eq!(r.s.counters.congestion_events, 2);
}

#[test]
fn slow_start_grows_by_acknowledged_bytes_and_avoidance_by_a_datagram_per_window() {
    let mut r = Rig::reno(10);
    r.s.window.ssthresh = u64::MAX;
    r.sent();
    r.now += ms(100);
    r.ack(&[(0, 9)]);
    // RFC 9002 §7.3.1; all packets are full.
    assert_eq!(r.s.window.cwnd, 20 * DATAGRAM);
    let mut r = Rig::reno(10);
    r.sent();
    r.now += ms(100);
    r.ack(&[(0, 8)]);
    assert_eq!(r.s.window.cwnd, 10 * DATAGRAM);
    r.ack(&[(0, 9)]);
    assert_eq!(r.s.window.cwnd, 11 * DATAGRAM);
}

#[test]
fn the_window_does_not_grow_while_the_application_is_the_limit() {
    let mut r = Rig::reno(10);
    r.s.stream = Outgoing::default();
    r.s.window.ssthresh = u64::MAX;
    r.s.stream.write(3000);
    r.sent();
    r.now += ms(100);
    r.ack(&[(0, 2)]);
    assert_eq!(r.s.window.cwnd, 10 * DATAGRAM); // RFC 9002 §7.8
}

#[test]
fn pacing_is_no_limit_of_the_application() {
    let cfg = Config { datagram: DATAGRAM as u32, ..Config::new(Congestion::NewReno) };
    let mut s = Sender::new(&cfg);
    s.establish(Time::ZERO, Some(ms(100)));
    s.stream.write(u64::MAX);
    let mut r = Rig { s, now: at(1000) };
    // The bucket holds two.
    assert_eq!(r.sent(), [0, 1]);
    // RFC 9002 §7.7: a quarter more than the window per round trip
    let next = r.s.deadline();
    assert_eq!((next - r.now).as_nanos(), 100_000_000 * DATAGRAM / (r.s.window.cwnd / 4 * 5));
    r.now = next;
    r.s.on_deadline(next);
    assert_eq!(r.sent(), [2]);
    let before = r.s.window.cwnd;
    r.now += ms(80);
    r.ack(&[(0, 1)]);
    assert_eq!(r.s.window.cwnd, before + 2 * DATAGRAM); // RFC 9002 §7.8
}

/// Runs ten seconds in which only these numbers arrive.
///
/// It then acknowledges them and the last probe. Returns the windows before and afterwards, in datagrams.
fn outage(r: &mut Rig, spared: &[u64]) -> (u64, u64) {
    let before = r.s.window.cwnd / DATAGRAM;
    let mut last = r.sent().last().copied().unwrap();
    for _ in 0..5 {
        last = r.time_out().iter().filter_map(Packet::number).max().unwrap_or(last);
    }
    r.now += ms(100);
    let ranges: Vec<_> = spared.iter().chain(&[last]).map(|&n| (n, n)).collect();
    r.ack(&ranges);
    (before, r.s.window.cwnd / DATAGRAM)
}

#[test]
fn congestion_is_persistent_when_all_is_lost_for_three_probe_timeouts() {
    let mut r = Rig::reno(10);
    // RFC 9002 §7.6.2: two, plus the growth by the probe that arrived.
    assert_eq!(outage(&mut r, &[]), (10, 3));
    assert_eq!(r.s.counters.persistent_congestions, 1);
    // Slow start begins, and the epoch has ended (Appendix B.8).
    assert!(r.s.window.in_slow_start() && r.s.recovery_from.is_none());
    // One of each pair of probes, which are at most 5.2 s apart, arrives: the total loss is never
    // long enough.
    let mut r = Rig::reno(10);
    assert_eq!(outage(&mut r, &[10, 12, 14, 16]), (10, 5));
    assert_eq!(r.s.counters.persistent_congestions, 0);
    // Packets that left before the first round trip was measured do not count.
    let mut r = Rig::reno(10);
    r.s.first_rtt = None;
    assert_eq!(outage(&mut r, &[]), (10, 5));
}

// ---- marks ----

fn ecn_reno() -> Rig {
    Rig::new(Config { ecn: true, ..Config::new(Congestion::NewReno) }, 8)
}

fn counts(ect0: u64, ce: u64) -> Option<EcnCounts> {
    Some(EcnCounts { ect0, ect1: 0, ce })
}

#[test]
fn a_mark_counts_as_a_loss_once_per_epoch() {
    let mut r = ecn_reno();
    assert!(r.packets().iter().all(|p| p.ecn == Ecn::Ect0));
    r.now += ms(100);
    r.ack_with(&[(0, 1)], Span::ZERO, counts(1, 1));
    assert_eq!((r.s.window.cwnd, r.s.counters.marks), (4 * DATAGRAM, 1)); // RFC 9002 §7.1
    // A second mark of the same flight.
    r.ack_with(&[(0, 7)], Span::ZERO, counts(5, 3));
    assert_eq!((r.s.window.cwnd, r.s.counters.marks), (4 * DATAGRAM, 3));
    assert_eq!((r.lost(), r.s.counters.congestion_events), (0, 1));
    r.now += ms(1);
    assert!(r.packets().iter().all(|p| p.ecn == Ecn::Ect0));
}

#[test]
fn impossible_counts_turn_ecn_off() {
    // RFC 9000 §13.4.2.1: no counts, and fewer than packets acknowledged.
    for reported in [None, counts(1, 0)] {
        let mut r = ecn_reno();
        r.sent();
        r.now += ms(100);
        r.ack_with(&[(0, 3)], Span::ZERO, reported);
        assert!(r.s.ecn.failed());
        let next = r.packets();
        assert!(!next.is_empty() && next.iter().all(|p| p.ecn == Ecn::NotEct));
        // Marks are ignored from here on.
        let before = r.s.window.cwnd;
        r.ack_with(&[(0, 7)], Span::ZERO, counts(4, 4));
        assert!(r.s.window.cwnd >= before);
    }
}

#[test]
fn prague_cuts_by_the_part_that_was_marked() {
    let mut r = Rig::new(Config::new(Congestion::Prague), 10);
    assert!(r.packets().iter().all(|p| p.ecn == Ecn::Ect1));
    r.now += ms(100);
    let counts = |ect1, ce| Some(EcnCounts { ect0: 0, ect1, ce });
    // The first mark initialises the average to one, which decays by a sixteenth through the
    // unmarked half of this round trip; the other half opens the window. §2.3.2, §2.4.2, §2.4.3 of
    // its draft
    r.ack_with(&[(0, 1)], Span::ZERO, counts(1, 1));
    let left = 10 * DATAGRAM * 33 / 64;
    assert_eq!(r.s.window.cwnd, left + DATAGRAM * DATAGRAM / left);
    // Not a second time in this round trip.
    r.ack_with(&[(0, 9)], Span::ZERO, counts(5, 5));
    assert!(r.s.window.cwnd >= 5 * DATAGRAM);
    assert_eq!(r.s.counters.congestion_events, 0);
}

// ---- the connection ----

/// Carries packets between two ends until neither has more to send at this instant.
///
/// Refused packets are lost.
fn exchange(
    ends: &mut [Connection; 2],
    now: Time,
    mut carries: impl FnMut(usize, &Packet) -> bool,
) -> Vec<(usize, Packet)> {
    let mut log = Vec::new();
    loop {
        let Some((from, packet)) =
            (0..2).find_map(|i| ends[i].poll_transmit(now).map(|packet| (i, packet)))
        else {
            return log;
        };
        if carries(from, &packet) {
            ends[1 - from].on_packet(now, &packet, packet.ecn);
        }
        log.push((from, packet));
    }
}

fn ends(cfg: &Config) -> [Connection; 2] {
    [Connection::client(cfg), Connection::server(cfg)]
}

#[test]
fn the_handshake_is_one_round_trip_and_its_losses_are_no_congestion() {
    let cfg = Config::new(Congestion::NewReno);
    let mut ends = ends(&cfg);
    ends[0].write(1000);
    ends[0].connect(Time::ZERO);
    // Two Initials and the first response are lost.
    let log = exchange(&mut ends, Time::ZERO, |_, _| false);
    assert_eq!(log.len(), 1);
    assert_eq!(ends[0].next_deadline(), at(999)); // RFC 9002 §6.2.2
    ends[0].on_deadline(at(999));
    exchange(&mut ends, at(999), |_, _| false);
    assert_eq!(ends[0].next_deadline(), at(999 + 1998));
    ends[0].on_deadline(at(2997));
    exchange(&mut ends, at(2997), |from, _| from == 0);
    ends[1].on_deadline(ends[1].next_deadline());
    let log = exchange(&mut ends, at(3996), |_, _| true);
    assert!(ends.iter().all(Connection::is_established));
    assert!(matches!(log[0].1.kind, Kind::Handshake { attempt: 2 }));
    let s = ends[0].stats();
    // The response names its attempt, so there is a sample: from the third, RFC 9000 §12.3.
    assert_eq!(s.srtt, Some(ms(999)));
    assert_eq!((s.lost, s.congestion_events, s.handshakes_sent), (0, 0, 3));
    assert_eq!(s.cwnd, cfg.initial_cwnd());
    assert_eq!(ends[1].stats().bytes_delivered, 1000);
}

#[test]
fn a_client_without_data_ends_the_handshake_all_the_same() {
    let mut ends = ends(&Config::new(Congestion::Cubic));
    ends[1].write(5000);
    ends[0].connect(Time::ZERO);
    exchange(&mut ends, Time::ZERO, |_, _| true);
    assert!(ends.iter().all(Connection::is_established));
    let mut now = Time::ZERO;
    while ends[0].stats().bytes_delivered < 5000 {
        now = ends[0].next_deadline().min(ends[1].next_deadline());
        ends.iter_mut().for_each(|e| e.on_deadline(now));
        exchange(&mut ends, now, |_, _| true);
    }
    assert!(now < at(100));
}
