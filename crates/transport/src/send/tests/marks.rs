//! Marks (RFC 3168).

use super::*;

#[test]
fn one_reduction_per_window_of_marks() {
    let mut r = Rig::full(TcpConfig { ecn: true, ..rfc_reno() }, 10);
    let marked = |r: &mut Rig, n| r.ack_with(n, &[], Flags::ECE);
    assert_eq!(marked(&mut r, 1), []);
    assert_eq!(r.s.window.cwnd, 5000); // half of the ten that were in flight
    for n in 2..=10 {
        marked(&mut r, n); // still the window of the first mark
    }
    assert_eq!(r.s.counters.ecn_reductions, 1);
    assert_eq!(r.s.window.cwnd, 5000);
    marked(&mut r, 11);
    assert_eq!(r.s.counters.ecn_reductions, 2);
    assert_eq!(r.s.counters.resent, 0);
}

/// Sends one segment at a time with every acknowledgement marked.
///
/// Returns the state and the waits.
fn marked_at_one(cfg: TcpConfig, marks: u64) -> (Rig, Vec<Span>) {
    let mut r = Rig::full(TcpConfig { ecn: true, ..cfg }, 1);
    r.s.window.ssthresh = 2 * MSS;
    let mut waits = Vec::new();
    for n in 1..=marks {
        r.now += Span::from_millis(100);
        assert_eq!(r.ack_with(n, &[], Flags::ECE), [], "held");
        assert_eq!((r.s.window.cwnd, r.s.window.ssthresh), (MSS, 2 * MSS));
        waits.push(r.s.deadline() - r.now);
        r.now = r.s.deadline();
        r.s.on_deadline(r.now);
        // No segment was lost: one new segment, which reports the reduction.
        let out = r.s.poll(r.now).unwrap();
        assert_eq!((out.seq, out.flags), (seq(n), Flags::ECT | Flags::CWR));
        assert!(r.s.poll(r.now).is_none());
    }
    assert_eq!((r.s.counters.resent, r.s.counters.timeouts), (0, 0));
    (r, waits)
}

#[test]
fn a_mark_halves_down_to_one_segment() {
    let mut r = Rig::full(TcpConfig { ecn: true, ..rfc_reno() }, 2);
    assert_eq!(r.ack_with(1, &[], Flags::ECE), []);
    // RFC 3168 §6.1.2: half of two; RFC 5681 §3.1 (4): the threshold stays at two.
    assert_eq!((r.s.window.cwnd, r.s.window.ssthresh), (MSS, 2 * MSS));
    // The echo continues until the receiver is notified: no second reduction, no wait.
    assert_eq!(r.ack_with(2, &[], Flags::ECE), [2]);
    assert_eq!(r.ack(3), [3, 4]);
    // CUBIC: 0.7 of two (RFC 9438 §4.6).
    let mut r = Rig::full(TcpConfig { ecn: true, congestion: Congestion::Cubic, ..rfc_reno() }, 2);
    r.ack_with(1, &[], Flags::ECE);
    assert_eq!((r.s.window.cwnd, r.s.window.ssthresh), (1400, 2 * MSS));
}

#[test]
fn a_mark_at_one_segment_waits_for_the_timer_rfc_3168() {
    let (mut r, waits) = marked_at_one(rfc_reno(), 4);
    assert_eq!(waits, [Span::from_secs(1); 4]);
    r.now += Span::from_millis(100);
    // Without a mark, slow start resumes.
    assert_eq!(r.ack(5), [5, 6]);
}

#[test]
fn marks_at_one_segment_back_off_as_in_ns2() {
    let cfg = TcpConfig { limited_transmit: false, ..TcpConfig::ns2() };
    let (mut r, waits) = marked_at_one(cfg, 4);
    for pair in waits[1..].windows(2) {
        // The estimate itself changes slightly.
        let ratio = pair[1].as_secs_f64() / pair[0].as_secs_f64();
        assert!((1.5..=2.0).contains(&ratio), "{waits:?}");
    }
    r.now += Span::from_millis(100);
    assert_eq!(r.ack(5), [5, 6]);
    assert_eq!(r.s.marks_at_one, 0);
    assert!(r.s.rto() < waits[1]);
}

#[test]
fn ns3_keeps_two_segments_at_any_mark() {
    let mut r = Rig::full(TcpConfig { ecn: true, ..TcpConfig::ns3() }, 2);
    for n in 1..20 {
        assert!(!r.ack_with(n, &[], Flags::ECE).is_empty());
        assert_eq!(r.s.window.cwnd, 2 * MSS);
    }
}

#[test]
fn a_loss_beside_the_wait_is_still_repaired() {
    // Two are outstanding although the window is one: the wait must not hide the loss of the
    // second.
    let mut r = Rig::full(TcpConfig { ecn: true, ..rfc_reno() }, 2);
    r.s.window.cwnd = MSS;
    assert_eq!(r.ack_with(1, &[], Flags::ECE), []);
    assert_eq!(r.time_out(), [1]);
    assert_eq!(r.s.counters.timeouts, 1);
}

#[test]
fn a_reduction_is_announced_once_on_new_data() {
    let mut r = Rig::full(TcpConfig { ecn: true, ..rfc_reno() }, 4);
    let mark = Segment { ack: seq(1), flags: Flags::ACK | Flags::ECE, ..Segment::default() };
    r.s.on_ack(r.now, &mark);
    let mut cwr = 0;
    for n in 2..12 {
        let ack = Segment { ack: seq(n), flags: Flags::ACK, ..Segment::default() };
        r.s.on_ack(r.now, &ack);
        while let Some(out) = r.s.poll(r.now) {
            assert!(out.flags.has(Flags::ECT));
            cwr += u32::from(out.flags.has(Flags::CWR));
        }
    }
    assert_eq!(cwr, 1);
    // A retransmission is neither ECT nor CWR.
    r.now = r.s.deadline();
    r.s.on_deadline(r.now);
    assert_eq!(r.s.poll(r.now).unwrap().flags, Flags::NONE);
}

#[test]
fn a_loss_in_a_marked_window_costs_nothing_more() {
    let mut r = Rig::full(TcpConfig { ecn: true, ..rfc_reno() }, 10);
    r.ack_with(1, &[], Flags::ECE);
    let cwnd = r.s.window.cwnd;
    for _ in 0..3 {
        r.ack(1);
    }
    assert_eq!(r.s.phase, Phase::Recovery);
    assert_eq!(r.s.window.cwnd, cwnd);
}

/// Returns Prague with a full window of ten segments, not paced.
fn prague() -> Rig {
    let cfg = TcpConfig {
        congestion: Congestion::Prague,
        ecn: true,
        ect1: true,
        mss: MSS as u32,
        ..rfc_sack()
    };
    let mut s = Sender::new(&cfg);
    s.pacing = Pacing::new(false, MSS);
    s.establish(Time::ZERO, Some(Span::from_millis(100)), true);
    s.write(u64::MAX);
    (s.window.cwnd, s.window.ssthresh) = (10 * MSS, 10 * MSS);
    let mut rig = Rig { s, now: at(100) };
    assert_eq!(rig.sent().len(), 10);
    rig
}

/// Returns an ACK of everything below segment `n` that reports this total of marks.
fn counted(r: &mut Rig, n: u64, ce: u32) {
    let ack = Segment { ack: seq(n), flags: Flags::ACK, ce, ..Segment::default() };
    r.s.on_ack(r.now, &ack);
    r.sent();
}

#[test]
fn counted_marks_cut_once_in_a_round_trip_and_a_late_count_not_at_all() {
    let mut r = prague();
    counted(&mut r, 1, 1);
    // α is one at the first mark.
    assert_eq!(r.s.window.cwnd, 5 * MSS);
    counted(&mut r, 3, 3);
    assert_eq!((r.s.window.cwnd, r.s.counters.ecn_reductions), (5 * MSS, 1));
    // Unmarked data continues to open the window in the same round trip.
    counted(&mut r, 8, 3);
    assert_eq!(r.s.window.cwnd, 6 * MSS);
    counted(&mut r, 11, 2);
    assert_eq!(r.s.counters.ecn_reductions, 1);
    counted(&mut r, 12, 4);
    assert_eq!(r.s.counters.ecn_reductions, 2);
    assert_eq!(r.s.counters.resent, 0);
}

#[test]
fn a_loss_in_a_round_trip_that_met_marks_cuts_no_deeper_than_alone() {
    let mut r = prague();
    counted(&mut r, 1, 1);
    let cut = r.s.window.cwnd;
    // Segments 2 to 4 arrive, 1 does not.
    r.ack_with(1, &[(2, 3)], Flags::NONE);
    r.ack_with(1, &[(2, 4)], Flags::NONE);
    r.ack_with(1, &[(2, 5)], Flags::NONE);
    assert_eq!(r.s.phase, Phase::Recovery);
    // Half of the ten before the marks, which the first mark has already caused.
    assert_eq!((cut, r.s.window.cwnd), (5 * MSS, 5 * MSS));
}
