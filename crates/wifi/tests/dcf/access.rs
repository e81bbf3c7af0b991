//! Channel access: DIFS, backoff, post-backoff (IEEE 802.11-2020 §10.3.4).

use crate::testbed::*;

/// Instant after every station's first backoff has ended.
const T: u64 = us(10_000);
const EXCHANGE: u64 = us(DATA + SIFS + ACK);

#[test]
fn an_idle_medium_costs_a_difs_and_never_less() {
    let mut w = Testbed::cell(2).build();
    w.at(T, 0, 1).at(us(1_000_000), 0, 1).run(us(2_000_000));
    assert_eq!(w.starts(0), [T + us(DIFS), us(1_000_000 + DIFS)]);
    // The response starts SIFS after the data and lasts 304 µs.
    let end = T + us(DIFS + DATA);
    assert_eq!(w.starts(1)[0], end + us(SIFS));
    assert_eq!(w.log.reports[0].0, end + us(SIFS + ACK));
    assert_eq!(w.log.received[0], (end, 1, 0, 0, false));
}

#[test]
fn every_station_starts_with_a_backoff() {
    let mut replay = fairmesh_units::Stream::new(7, "mac/0");
    let slots = u64::from(replay.below(32));
    assert!(slots > 0, "pick another seed");
    let mut w = Testbed::cell(2).build();
    w.at(0, 0, 1).run(T);
    assert_eq!(w.starts(0), [us(DIFS + slots * SLOT)]);
}

#[test]
fn the_next_packet_waits_for_the_post_backoff() {
    let mut w = Testbed::cell(2).build();
    w.at(T, 0, 1).at(T, 0, 1).at(T, 0, 1).run(us(100_000));
    let mut replay = BackoffReplay::of(0);
    let mut start = T + us(DIFS);
    let mut expected = vec![start];
    for _ in 0..2 {
        start += EXCHANGE + us(DIFS + replay.draw(31) * SLOT);
        expected.push(start);
    }
    assert_eq!(w.starts(0), expected);
}

#[test]
fn the_post_backoff_runs_without_a_packet_and_the_rest_is_owed() {
    let slots = BackoffReplay::of(0).draw(31);
    assert!(slots > 3, "pick another seed");
    let end = T + us(DIFS) + EXCHANGE;
    let mut w = Testbed::cell(2).build();
    // Two and a half slots into the post-backoff.
    w.at(T, 0, 1).at(end + us(DIFS + 2 * SLOT + 10), 0, 1).run(us(100_000));
    assert_eq!(w.starts(0)[1], end + us(DIFS + slots * SLOT));
    // After the post-backoff, a frame starts a DIFS after the packet's arrival.
    let late = end + us(DIFS + slots * SLOT + 1);
    let mut w = Testbed::cell(2).build();
    w.at(T, 0, 1).at(late, 0, 1).run(us(100_000));
    assert_eq!(w.starts(0)[1], late + us(DIFS));
}

#[test]
fn a_packet_that_finds_the_medium_busy_draws_a_backoff() {
    let mut w = Testbed::cell(3).build();
    w.at(T, 0, 2).at(T + us(1000), 1, 2).run(us(100_000));
    let end = T + us(DIFS) + EXCHANGE;
    let slots = BackoffReplay::of(1).draw(31);
    assert_eq!(w.starts(1), [end + us(DIFS + slots * SLOT)]);
}

/// Returns when station 1's second frame starts, from the end of station 0's exchange.
///
/// Station 1 has a second packet and `slots` to wait; station 0 starts `after_us` into that wait.
fn frozen_by_a_frame(after_us: u64) -> u64 {
    let mut w = Testbed::cell(3).build();
    let free = T + us(DIFS) + EXCHANGE + us(DIFS);
    w.at(T, 1, 2).at(T, 1, 2).at(free + us(after_us) - us(DIFS), 0, 2).run(us(100_000));
    let other = w.starts(0)[0];
    assert_eq!(other, free + us(after_us), "station 0 found the medium idle");
    w.starts(1)[1] - (other + EXCHANGE)
}

#[test]
fn a_backoff_freezes_while_the_medium_is_busy_and_only_whole_slots_count() {
    let slots = BackoffReplay::of(1).draw(31);
    assert!(slots > 5, "pick another seed");
    let left = |gone: u64| us(DIFS + (slots - gone) * SLOT);
    assert_eq!(frozen_by_a_frame(15), left(0));
    assert_eq!(frozen_by_a_frame(16), left(1));
    assert_eq!(frozen_by_a_frame(51), left(2));
    assert_eq!(frozen_by_a_frame(60), left(3));
    assert_eq!(frozen_by_a_frame(61), left(3));
    assert_eq!(frozen_by_a_frame(75), left(3));
    // A frame is detected 4 µs after its start: the slot that ends meanwhile counts.
    assert_eq!(frozen_by_a_frame(76), left(4));
    assert_eq!(frozen_by_a_frame(80), left(4));
}

#[test]
fn a_backoff_that_ends_within_the_detection_time_transmits() {
    for (later_us, collides) in [(0, true), (3, true), (4, true), (5, false)] {
        let mut w = Testbed::cell(3).build();
        w.at(T, 0, 2).at(T + us(later_us), 1, 2).run(T + us(5000));
        let together = w.starts(1) == [T + us(DIFS + later_us)];
        assert_eq!(together, collides, "{later_us} µs");
    }
}

/// A packet that arrived on an idle medium keeps its zero slots, as in ns-3.
///
/// This holds even if the medium turns busy before its DIFS has ended.
#[test]
fn a_difs_that_is_interrupted_is_taken_again_without_slots() {
    let mut w = Testbed::cell(3).build();
    w.at(T, 0, 2).at(T + us(20), 1, 2).run(us(100_000));
    assert_eq!(w.starts(1), [T + us(DIFS) + EXCHANGE + us(DIFS)]);
}

/// A relay after its post-backoff.
///
/// The packet arrives at the end instant of a reception, when the medium counts as idle, and leaves a DIFS
/// after the relay's own ACK.
#[test]
fn an_idle_relay_forwards_without_backoff() {
    let mut w = Testbed::new(3).link(0, 1).link(1, 2).build();
    w.log.relay = Some((1, w.packet(1, 2, 50)));
    w.at(T, 0, 1).at(T, 0, 1).run(T + us(40_000));
    let acked = T + us(DIFS) + EXCHANGE;
    assert_eq!(w.starts(1)[..2], [acked - us(ACK), acked + us(DIFS)]);
    assert_eq!(w.arrivals()[..2], [(1, 0), (2, 150)]);
    // The source still has its post-backoff and comes second; it senses the relay.
    assert!(w.starts(0)[1] > acked + us(DIFS + DATA));
}

#[test]
fn a_relay_that_owes_slots_keeps_them_through_its_own_ack() {
    let slots = BackoffReplay::of(1).draw(31);
    // The relay has just sent its own packet when one to forward begins to arrive.
    let free = T + us(DIFS) + EXCHANGE + us(DIFS);
    let start = free + us(SLOT + 5);
    assert!(slots > 2, "pick another seed");
    let mut w = Testbed::new(3).link(0, 1).link(1, 2).build();
    w.log.relay = Some((1, w.packet(1, 2, 50)));
    w.at(T, 1, 2).at(start - us(DIFS), 0, 1).run(us(60_000));
    assert_eq!(w.starts(0)[0], start);
    assert_eq!(w.starts(1)[2], start + EXCHANGE + us(DIFS + (slots - 1) * SLOT));
}

#[test]
fn propagation_delays_add_up() {
    // 200 m apart: 667 ns each way.
    let mut w =
        Testbed::new(2).pair(0, 1, STRONG_DBM, true, 667).pair(1, 0, STRONG_DBM, true, 667).build();
    w.at(T, 0, 1).at(T, 0, 1).run(us(100_000));
    let start = T + us(DIFS);
    let arrived = start + us(DATA) + 667;
    assert_eq!(w.log.received[0].0, arrived);
    assert_eq!(w.starts(1)[0], arrived + us(SIFS));
    let acked = arrived + us(SIFS + ACK) + 667;
    assert_eq!(w.log.reports[0].0, acked);
    assert_eq!(w.starts(0)[1], acked + us(DIFS + BackoffReplay::of(0).draw(31) * SLOT));
}
