//! Attempts, windows, timeouts, duplicates (IEEE 802.11-2020 §10.3.3, §10.3.4.4).

use fairmesh_units::NodeId;
use fairmesh_wifi::{FrameKind, Outcome, Outgoing};

use crate::testbed::*;

const T: u64 = us(10_000);

/// Starts of the attempts at one unanswered packet, given the contention windows.
fn attempts(replay: &mut BackoffReplay, first: u64, air: u64, windows: &[u32]) -> Vec<u64> {
    let mut starts = vec![first];
    for &cw in windows {
        let last = starts[starts.len() - 1];
        starts.push(last + us(air + TIMEOUT + DIFS + replay.draw(cw) * SLOT));
    }
    starts
}

#[test]
fn seven_attempts_under_doubling_windows_then_a_fresh_start() {
    let mut w = Testbed::cell(2).loses(0, 1).build();
    w.at(T, 0, 1).at(T, 0, 1).run(us(1_000_000));
    let mut replay = BackoffReplay::of(0);
    let windows = [63, 127, 255, 511, 1023, 1023];
    let first = attempts(&mut replay, T + us(DIFS), DATA, &windows);
    let given_up = first[6] + us(DATA + TIMEOUT);
    let next = given_up + us(DIFS + replay.draw(31) * SLOT);
    let second = attempts(&mut replay, next, DATA, &windows);
    assert_eq!(w.starts(0), [first, second].concat());
    assert_eq!(w.outcomes(0), [Outcome::Lost, Outcome::Lost]);
    let report = &w.log.reports[0];
    assert_eq!((report.0, report.2.data_attempts), (given_up, 7));
    assert_eq!(report.2.airtime.as_nanos(), 7 * us(DATA));
    assert_eq!(report.2.service.as_nanos(), given_up - T);
    assert_eq!(w.air.counters(NodeId(0)).timeouts, 14);
    assert_eq!(w.air.counters(NodeId(0)).gave_up, 2);
    assert_eq!(w.air.counters(NodeId(1)).errored, 14);
    assert!(w.arrivals().is_empty());
    let retry: Vec<bool> = w.frames(0).map(|f| f.mpdus[0].retry).collect();
    assert_eq!(retry, [0, 1, 1, 1, 1, 1, 1].map(|r| r == 1).repeat(2));
    let numbers: Vec<u16> = w.frames(0).map(|f| f.mpdus[0].sequence).collect();
    assert_eq!(numbers, [[1; 7], [2; 7]].concat());
}

#[test]
fn success_resets_the_window() {
    // Noise at the receiver destroys the first three attempts.
    let mut replay = BackoffReplay::of(0);
    let mut starts = attempts(&mut replay, T + us(DIFS), DATA, &[63, 127, 255]);
    let quiet = starts[2] + us(DATA) - us(1000);
    let testbed = Testbed::cell(2).noise(1, STRONG_DBM, T / 1000, (quiet - T) / 1000);
    let mut w = testbed.build();
    w.at(T, 0, 1).at(T, 0, 1).run(us(1_000_000));
    let acked = starts[3] + us(DATA + SIFS + ACK);
    starts.push(acked + us(DIFS + replay.draw(31) * SLOT));
    assert_eq!(w.starts(0), starts);
    assert_eq!(w.outcomes(0), [Outcome::Sent; 2]);
    assert_eq!(w.air.counters(NodeId(1)).collided, 3, "locked on over the noise, and lost");
}

/// Returns the time of the retry from the end of the sender's data frame.
///
/// The sender receives a foreign frame that starts `begin_us` after that end.
fn retry_after_a_foreign_frame(begin_us: u64, good: bool) -> u64 {
    // 0's frames to 1 are lost; 2, which receives no station, sends to 3; 0 receives 2.
    let testbed = Testbed::new(4).link(0, 1).loses(0, 1).decodable(2, 0, STRONG_DBM).link(2, 3);
    let mut w = if good { testbed } else { testbed.loses(2, 0) }.build();
    let end = T + us(DIFS + DATA);
    w.at(T, 0, 1).at(end + us(begin_us) - us(DIFS), 2, 3).run(end + us(20_000));
    assert_eq!(w.starts(2)[0], end + us(begin_us));
    w.starts(0)[1] - end
}

#[test]
fn a_reception_that_begins_within_30_us_holds_the_timeout_up() {
    let slots = BackoffReplay::of(0).draw(63);
    let ends = |begin_us| us(begin_us + DATA);
    for begin_us in [0, 12, 29] {
        // The frame was for another station: the attempt fails at its end, and the NAV it set
        // covers the ACK.
        let nav = us(SIFS + ACK);
        let expected = ends(begin_us) + nav + us(DIFS + slots * SLOT);
        assert_eq!(retry_after_a_foreign_frame(begin_us, true), expected);
        // An undecodable one: EIFS from its end.
        let expected = ends(begin_us) + us(EIFS + slots * SLOT);
        assert_eq!(retry_after_a_foreign_frame(begin_us, false), expected);
    }
    // A later frame does not defer the timeout, which then finds the medium busy.
    let expected = ends(31) + us(SIFS + ACK + DIFS + slots * SLOT);
    assert_eq!(retry_after_a_foreign_frame(31, true), expected);
}

/// ns-3's delay of the timeout after a reception, 400 ns, does not delay the next backoff.
#[test]
fn the_backoff_after_a_timeout_held_up_counts_from_the_reception() {
    let mut w = Testbed::new(3).link(0, 1).loses(0, 1).decodable(2, 0, STRONG_DBM).build();
    let end = T + us(DIFS + DATA);
    let broadcast = Outgoing { packet: 9, link: None, bytes: BYTES };
    w.at(T, 0, 1).queue(end + us(7) - us(DIFS), 2, broadcast).run(end + us(20_000));
    let slots = BackoffReplay::of(0).draw(63);
    assert_eq!(w.starts(0)[1], end + us(7 + DATA + DIFS + slots * SLOT));
}

#[test]
fn a_timeout_held_up_strikes_when_the_reception_ends() {
    // At 30 µs the payload would start at the instant of the timeout.
    for (begin_us, struck) in [(29, 29 + DATA), (31, TIMEOUT)] {
        let testbed = Testbed::new(4)
            .link(0, 1)
            .loses(0, 1)
            .decodable(2, 0, STRONG_DBM)
            .link(2, 3)
            .attempts(1, 1);
        let mut w = testbed.build();
        let end = T + us(DIFS + DATA);
        w.at(T, 0, 1).at(end + us(begin_us) - us(DIFS), 2, 3).run(end + us(20_000));
        let report = w.log.reports.iter().find(|r| r.1 == 0).unwrap();
        let slack = if begin_us == 29 { 400 } else { 0 };
        assert_eq!(report.0, end + us(struck) + slack, "{begin_us} µs");
    }
}

#[test]
fn lost_acks_make_duplicates_which_are_acked_and_not_passed_up() {
    let mut w = Testbed::cell(2).loses(1, 0).build();
    w.at(T, 0, 1).at(T, 0, 1).run(us(1_000_000));
    assert_eq!(w.arrivals(), [(1, 0), (1, 1)]);
    assert_eq!(w.kinds(1), [FrameKind::Ack; 14]);
    let c = w.air.counters(NodeId(1));
    assert_eq!((c.received, c.duplicates, c.ack), (2, 12, 14));
    assert_eq!(w.outcomes(0), [Outcome::Unconfirmed; 2]);
    assert_eq!(w.air.counters(NodeId(0)).errored, 14);
}

/// A data frame for the waiting sender is answered, and the sender's attempt fails.
#[test]
fn two_stations_that_send_to_each_other_simultaneously_both_fail() {
    let mut w = Testbed::cell(2).build();
    w.at(T, 0, 1).at(T + us(2), 1, 0).run(T + us(10_000));
    assert!(w.arrivals().is_empty(), "half duplex");
    let end = T + us(DIFS + DATA);
    let slots = [BackoffReplay::of(0).draw(63), BackoffReplay::of(1).draw(63)];
    assert_ne!(slots[0], slots[1], "pick another seed");
    let first = if slots[0] < slots[1] { 0 } else { 1 };
    // Neither station received a frame, so there is no EIFS.
    let ends = [end, end + us(2)];
    let again = |i: usize| ends[i] + us(TIMEOUT + DIFS + slots[i] * SLOT);
    assert_eq!(w.starts(first as u32)[1], again(first));
}

#[test]
fn data_for_a_station_that_waits_for_its_ack_is_answered() {
    // 0's frames to 1 are lost; 2, which does not receive 0, sends to 0 before its timeout.
    let mut w = Testbed::new(3).link(0, 1).loses(0, 1).decodable(2, 0, STRONG_DBM).build();
    let end = T + us(DIFS + DATA);
    w.at(T, 0, 1).at(end + us(5) - us(DIFS), 2, 0).run(end + us(9000));
    assert_eq!(w.arrivals(), [(0, 200)]);
    assert_eq!(w.kinds(0)[1], FrameKind::Ack);
    assert_eq!(w.starts(0)[1], end + us(5 + DATA + SIFS));
    assert_eq!(w.air.counters(NodeId(0)).timeouts, 1);
}
