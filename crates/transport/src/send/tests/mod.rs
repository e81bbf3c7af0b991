//! Rules of the sender, segment by segment. Segments are 1000 bytes; the first byte is 1.

mod marks;

use super::*;
use crate::config::Congestion;
use crate::segment::{SackBlocks, Segment};

const MSS: u64 = 1000;

fn at(ms: u64) -> Time {
    Time::ZERO + Span::from_millis(ms)
}

/// A sender in mid-transfer and its clock.
struct Rig {
    s: Sender,
    now: Time,
}

/// Returns the start of segment `n`, from 0.
fn seq(n: u64) -> u64 {
    1 + n * MSS
}

impl Rig {
    /// Returns an established connection with endless data and a round trip of 100 ms.
    ///
    /// It is in congestion avoidance with a full window of `segments`.
    fn full(cfg: TcpConfig, segments: u64) -> Rig {
        let cfg = TcpConfig { mss: MSS as u32, ..cfg };
        let mut s = Sender::new(&cfg);
        s.establish(Time::ZERO, Some(Span::from_millis(100)), cfg.ecn);
        s.write(u64::MAX);
        s.window.cwnd = segments * MSS;
        s.window.ssthresh = segments * MSS;
        let mut rig = Rig { s, now: at(100) };
        assert_eq!(rig.sent().len() as u64, segments);
        rig
    }

    /// Returns the segment numbers that may be sent now.
    fn sent(&mut self) -> Vec<u64> {
        std::iter::from_fn(|| self.s.poll(self.now)).map(|o| (o.seq - 1) / MSS).collect()
    }

    /// Processes an ACK of everything below segment `n`, with these SACK ranges in segments.
    fn ack_with(&mut self, n: u64, sacked: &[(u64, u64)], flags: Flags) -> Vec<u64> {
        let mut sack = SackBlocks::default();
        for &(from, to) in sacked {
            sack.push(((from - n) * MSS) as u32, ((to - n) * MSS) as u32);
        }
        let ack = Segment { ack: seq(n), flags: Flags::ACK | flags, sack, ..Segment::default() };
        self.s.on_ack(self.now, &ack);
        self.sent()
    }

    fn ack(&mut self, n: u64) -> Vec<u64> {
        self.ack_with(n, &[], Flags::NONE)
    }

    fn time_out(&mut self) -> Vec<u64> {
        self.now = self.s.deadline();
        self.s.on_deadline(self.now);
        self.sent()
    }
}

fn rfc_reno() -> TcpConfig {
    TcpConfig { sack: false, limited_transmit: false, ..TcpConfig::rfc() }
}

fn rfc_sack() -> TcpConfig {
    TcpConfig { sack: true, ..TcpConfig::rfc() }
}

#[test]
fn fast_retransmit_and_inflation_rfc_5681() {
    let mut r = Rig::full(rfc_reno(), 10);
    assert_eq!(r.ack(0), []);
    assert_eq!(r.ack(0), []);
    // The third: retransmit, ssthresh 10/2, and cwnd 5 + 3 < 10 in flight.
    assert_eq!(r.ack(0), [0]);
    assert_eq!((r.s.window.ssthresh, r.s.window.cwnd), (5 * MSS, 5 * MSS));
    // 9, 10 of inflated window, then one new segment per duplicate.
    assert_eq!(r.ack(0), []);
    assert_eq!(r.ack(0), []);
    assert_eq!(r.ack(0), [10]);
    assert_eq!(r.ack(0), [11]);
    // Full ACK with two left in flight: min(ssthresh, flight + 1) = 3 (RFC 6582 option 1).
    assert_eq!(r.ack(10), [12]);
    assert_eq!(r.s.window.cwnd, 3 * MSS);
    assert_eq!(r.s.phase, Phase::Open);
    assert_eq!(r.s.counters.fast_recoveries, 1);
}

#[test]
fn partial_acks_rfc_6582() {
    let mut r = Rig::full(rfc_reno(), 10);
    for _ in 0..9 {
        r.ack(0);
    }
    // 9 duplicates: window 5 + 9 = 14, so 10..13 are out.
    assert_eq!(r.s.next, seq(14));
    let armed = r.s.deadline();
    r.now = at(300);
    // Segments 0..3 arrived, 4 is lost: retransmitted; window 14 - 4 + 1 = 11, of which 13 - 4 + 1
    // = 10 are in flight.
    assert_eq!(r.ack(4), [4, 14]);
    let restarted = r.s.deadline();
    assert!(restarted > armed);
    r.now = at(400);
    // The second partial ACK does not restart the timer ("impatient").
    assert_eq!(r.ack(6)[0], 6);
    assert_eq!(r.s.deadline(), restarted);
    assert_eq!(r.s.counters.fast_recoveries, 1);
    r.ack(15);
    assert_eq!(r.s.phase, Phase::Open);
}

#[test]
fn duplicates_up_to_recover_start_no_second_recovery() {
    let mut r = Rig::full(rfc_reno(), 10);
    for _ in 0..3 {
        r.ack(0);
    }
    r.ack(10); // full ACK; 10.. are new
    for _ in 0..5 {
        // RFC 6582 §3.2 step 1: they do not cover more than `recover`
        r.ack(10);
    }
    assert_eq!(r.s.counters.fast_recoveries, 1);
    r.ack(11);
    for _ in 0..3 {
        r.ack(11);
    }
    assert_eq!(r.s.counters.fast_recoveries, 2);
}

#[test]
fn recovery_as_ns3_does_it() {
    let mut r = Rig::full(TcpConfig::ns3(), 10);
    r.ack(0);
    r.ack(0);
    assert_eq!(r.ack(0), [0]);
    // Half of the rest after one duplicate is subtracted.
    assert_eq!(r.s.window.ssthresh, 4500);
    // The inflated window is 4.5 + 1; six more duplicates before it exceeds the ten in flight.
    for _ in 0..5 {
        assert_eq!(r.ack(0), []);
    }
    assert_eq!(r.ack(0), [10]);
    // A full ACK leaves ssthresh plus one step of congestion avoidance.
    r.ack(10);
    assert_eq!(r.s.window.cwnd, 4500 + 1_000_000 / 4500);
}

#[test]
fn acks_with_data_are_no_duplicates() {
    let mut r = Rig::full(rfc_reno(), 10);
    for _ in 0..5 {
        let data =
            Segment { ack: seq(0), len: 100, flags: Flags::ACK, seq: 1, ..Segment::default() };
        r.s.on_ack(r.now, &data);
    }
    assert_eq!(r.sent(), []);
    assert_eq!(r.s.phase, Phase::Open);
}

#[test]
fn limited_transmit_rfc_3042() {
    let mut r = Rig::full(TcpConfig { limited_transmit: true, ..rfc_reno() }, 4);
    assert_eq!(r.ack(0), [4]);
    assert_eq!(r.ack(0), [5]);
    assert_eq!(r.ack(0), [0]);
    // The two do not count in FlightSize (RFC 5681 §3.2 step 2).
    assert_eq!(r.s.window.ssthresh, 2 * MSS);
}

#[test]
fn timeout_goes_back_and_slow_starts() {
    for cfg in [rfc_reno(), TcpConfig::ns3()] {
        let mut r = Rig::full(cfg, 8);
        let rto = r.s.rto();
        assert_eq!(r.s.deadline(), r.now + rto);
        assert_eq!(r.time_out(), [0]);
        assert_eq!((r.s.window.ssthresh, r.s.window.cwnd), (4 * MSS, MSS));
        assert_eq!(r.s.rto(), rto * 2);
        assert_eq!(r.s.deadline(), r.now + rto * 2);
        // Duplicates have no effect now.
        for _ in 0..4 {
            assert_eq!(r.ack(0), []);
        }
        assert_eq!(r.ack(1), [1, 2]);
        // 2 to 4 had arrived: the ACK jumps, and the data that it covers is not sent again.
        assert_eq!(r.ack(5), [5, 6, 7]);
        // The duplicate of 7 is acknowledged last; then new data.
        let new = r.ack(8);
        assert_eq!(new[0], 8);
        assert_eq!(r.s.phase, Phase::Open);
        assert_eq!(r.s.counters.timeouts, 1);
    }
}

#[test]
fn repeated_timeouts() {
    for (cfg, ssthresh) in [(rfc_reno(), 5 * MSS), (TcpConfig::ns3(), 2 * MSS)] {
        let mut r = Rig::full(cfg, 10);
        let mut waits = Vec::new();
        for _ in 0..10 {
            let before = r.now;
            assert_eq!(r.time_out(), [0]);
            waits.push(r.now - before);
        }
        // RFC 5681 §3.1 holds ssthresh for a segment that times out again; ns-3 does not.
        assert_eq!(r.s.window.ssthresh, ssthresh);
        for pair in waits.windows(2) {
            assert_eq!(pair[1], (pair[0] * 2).min(Span::from_secs(60)));
        }
        assert_eq!(*waits.last().unwrap(), Span::from_secs(60));
    }
}

#[test]
fn karn_takes_no_sample_from_a_retransmission() {
    let mut r = Rig::full(rfc_reno(), 4);
    let srtt = r.s.srtt();
    r.time_out();
    r.now += Span::from_secs(5);
    r.ack(4);
    assert_eq!(r.s.srtt(), srtt);
    // RFC 6298 §5.7: the back-off stays until there is a sample.
    assert_eq!(r.s.rto(), Span::from_secs(2));
    r.now += Span::from_millis(100);
    r.ack(5);
    assert_eq!(r.s.rto(), Span::from_secs(1));
}

/// RFC 6298 §3 requires at least one sample per round trip; ns-2 takes one only.
#[test]
fn one_segment_per_round_trip_is_timed_if_configured() {
    for (once, expected) in [(true, 1), (false, 4)] {
        let mut r = Rig::full(TcpConfig { one_rtt_sample: once, ..rfc_reno() }, 4);
        let mut ack = |n| {
            let before = r.s.srtt();
            r.now += Span::from_millis(40);
            r.ack(n);
            usize::from(r.s.srtt() != before)
        };
        let samples: usize = (1..=4).map(&mut ack).sum();
        assert_eq!(samples, expected);
        // The next is the first segment sent after the sample.
        assert_eq!(ack(5), 1);
        assert_eq!(ack(6), usize::from(!once));
    }
}

#[test]
fn an_ack_of_old_and_new_after_a_timeout() {
    for (cfg, sampled) in [(rfc_reno(), false), (TcpConfig::ns3(), true)] {
        let mut r = Rig::full(cfg, 4);
        let srtt = r.s.srtt();
        r.time_out();
        r.now += Span::from_millis(50);
        r.ack(1);
        assert_eq!(r.ack(3), [3, 4]); // 4 is new
        r.now += Span::from_millis(300);
        r.ack(5); // the oldest it covers, 3, was sent before the timeout
        assert_eq!(r.s.srtt() != srtt, sampled);
    }
}

#[test]
fn sack_repairs_only_the_holes() {
    // Segments 1, 4 and 5 of 12 are lost.
    let mut r = Rig::full(rfc_sack(), 12);
    r.ack(1);
    let start = r.s.next;
    assert_eq!(r.ack_with(1, &[(2, 3)], Flags::NONE).len(), 1); // limited transmit: pipe fell
    assert_eq!(r.ack_with(1, &[(2, 4)], Flags::NONE).len(), 1);
    // Three segments above: lost, retransmitted.
    assert_eq!(r.ack_with(1, &[(6, 7), (2, 4)], Flags::NONE), [1]);
    assert_eq!(r.s.phase, Phase::Recovery);
    assert!(r.s.next > start);
    assert_eq!(r.s.window.cwnd, r.s.window.ssthresh);
    let mut repaired = Vec::new();
    for to in 8..14 {
        repaired.extend(r.ack_with(1, &[(6, to), (2, 4)], Flags::NONE));
    }
    // 4 and 5 as soon as the pipe is below the window, before new data.
    assert_eq!(repaired[..2], [4, 5]);
    assert!(repaired[2..].iter().all(|&n| n >= 14));
    assert_eq!(r.s.counters.resent, 3);
}

#[test]
fn selective_acknowledgements_measure_round_trips() {
    // Segment 1 of 12 is lost.
    let mut r = Rig::full(rfc_sack(), 12);
    r.ack(1);
    let (srtt, left) = (r.s.srtt(), r.now);
    r.now += Span::from_millis(70);
    r.ack_with(1, &[(2, 3)], Flags::NONE);
    assert!(r.s.sampled() >= Some(r.now - left), "{:?}", r.s.sampled());
    r.ack_with(1, &[(2, 3)], Flags::NONE);
    assert_eq!(r.s.sampled(), None, "nothing new");
    assert_eq!(r.s.srtt(), srtt, "RFC 6298 samples only what is acknowledged cumulatively");
}

#[test]
fn pipe_never_exceeds_the_window_in_sack_recovery() {
    let mut r = Rig::full(rfc_sack(), 20);
    r.ack(0);
    for to in 2..20 {
        r.ack_with(0, &[(1, to)], Flags::NONE);
        if r.s.phase == Phase::Recovery && to > 14 {
            assert!(r.s.board.pipe() <= r.s.window.cwnd, "{to}");
        }
    }
    // 19, the retransmitted one, and the data released by the window.
    assert_eq!(r.s.board.pipe(), r.s.window.cwnd);
}

#[test]
fn rescue_retransmission_once() {
    // Ten segments and the end of the data; 0 and the last two are lost.
    let cfg = TcpConfig { mss: MSS as u32, ..rfc_sack() };
    let mut s = Sender::new(&cfg);
    s.establish(Time::ZERO, Some(Span::from_millis(100)), false);
    s.write(10 * MSS);
    s.window.cwnd = 10 * MSS;
    let mut r = Rig { s, now: at(100) };
    assert_eq!(r.sent().len(), 10);
    let mut out = Vec::new();
    for to in 2..=8 {
        out.extend(r.ack_with(0, &[(1, to)], Flags::NONE));
    }
    // 0 by IsLost; then 9, the highest outstanding, as the single rescue (RFC 6675 §4 rule 4).
    assert_eq!(out, [0, 9]);
    assert_eq!(r.ack_with(8, &[(9, 10)], Flags::NONE), [8]);
}

#[test]
fn a_timeout_with_sack_skips_received_segments() {
    let mut r = Rig::full(rfc_sack(), 6);
    r.ack_with(0, &[(2, 4)], Flags::NONE);
    assert_eq!(r.time_out(), [0]);
    assert_eq!(r.ack_with(1, &[(2, 4)], Flags::NONE), [1, 4]);
    assert_eq!(r.ack(4), [5, 6]);
}

#[test]
fn idle_restart_rfc_5681() {
    let cfg = TcpConfig { initial_window: 4, ..rfc_reno() };
    for (idle_restart, expected) in [(true, 4), (false, 20)] {
        let cfg = TcpConfig { mss: MSS as u32, idle_restart, ..cfg };
        let mut s = Sender::new(&cfg);
        s.establish(Time::ZERO, Some(Span::from_millis(100)), false);
        s.window.cwnd = 20 * MSS;
        s.write(MSS);
        let mut r = Rig { s, now: at(100) };
        r.sent();
        r.now = at(200);
        r.ack(1);
        r.now = at(5000);
        r.s.write(100 * MSS);
        assert_eq!(r.sent().len(), expected);
    }
}

#[test]
fn the_sender_window_limits() {
    let cfg = TcpConfig { max_window: Some(4), ..TcpConfig::ns3() };
    let cfg = TcpConfig { mss: MSS as u32, initial_window: 10, ..cfg };
    let mut s = Sender::new(&cfg);
    s.establish(Time::ZERO, Some(Span::from_millis(100)), false);
    s.write(u64::MAX);
    let mut r = Rig { s, now: at(100) };
    assert_eq!(r.sent(), [0, 1, 2, 3]);
    assert_eq!(r.ack(2), [4, 5]);
}

#[test]
fn a_lost_syn_costs_the_initial_window_and_a_slow_timer() {
    let mut s = Sender::new(&rfc_reno());
    s.establish(Time::ZERO, None, false);
    assert_eq!(s.cwnd(), 1460);
    assert_eq!(s.rto(), Span::from_secs(3)); // RFC 6298 §5.7
    let mut s = Sender::new(&TcpConfig::ns3());
    s.establish(Time::ZERO, None, false);
    assert_eq!(s.cwnd(), 2 * 1460);
}

#[test]
fn cubic_backs_off_by_its_own_factor() {
    let cfg = TcpConfig { congestion: Congestion::Cubic, ..rfc_sack() };
    let mut r = Rig::full(cfg, 20);
    for to in 2..=4 {
        r.ack_with(0, &[(1, to)], Flags::NONE);
    }
    assert_eq!(r.s.phase, Phase::Recovery);
    // 20 and the two of limited transmit outstanding: 0.7 of 22.
    assert_eq!(r.s.window.cwnd, 15_400);
}
