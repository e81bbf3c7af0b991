//! The rules of ns-2.35, one by one, to the nanosecond (numbered in crates/wifi/src/ns2.rs).

use fairmesh_units::Distance;
use fairmesh_wifi::propagation::two_ray_ground;
use fairmesh_wifi::{FrameKind, MacRules, Ns2Rules, Outcome, Outgoing};

use crate::testbed::*;

const T: u64 = us(10_000);
/// Contention window: a backoff is drawn from 0 to CW − 1.
const CW: u32 = 31 - 1;
const CW_2: u32 = 63 - 1;

fn testbed(stations: u32) -> Testbed {
    with(stations, Ns2Rules::ALL)
}

fn with(stations: u32, rules: Ns2Rules) -> Testbed {
    let mut testbed = Testbed::new(stations);
    testbed.mac.rules = MacRules::Ns2(rules);
    testbed
}

/// Power of ns-2's radio at this distance, dBm.
fn at(metres: f64) -> f64 {
    two_ray_ground(Distance(metres)).as_dbm()
}

fn broadcast(packet: u32) -> Outgoing {
    Outgoing { packet, link: None, bytes: BYTES }
}

/// A station's first backoff, ns.
fn first(station: u32) -> u64 {
    us(BackoffReplay::of(station).draw(CW) * SLOT)
}

/// Instant at which a packet must arrive so that the station's first frame starts at `start`.
fn queued_for(start: u64, station: u32) -> u64 {
    start - us(DIFS) - first(station)
}

#[test]
fn a_frame_on_an_idle_medium_draws_a_backoff() {
    let mut w = testbed(2).link(0, 1).build();
    w.at(T, 0, 1).run(T + us(20_000));
    assert_eq!(w.starts(0), [T + us(DIFS) + first(0)]);
    // A packet that arrives during the post-backoff waits for the rest of it.
    let mut w = testbed(2).link(0, 1).build();
    let end = T + us(DIFS + DATA + SIFS + ACK) + first(0);
    w.at(T, 0, 1).at(end + us(DIFS), 0, 1).run(T + us(40_000));
    let mut replay = BackoffReplay::of(0);
    replay.draw(CW);
    assert_eq!(w.starts(0)[1], end + us(DIFS + replay.draw(CW) * SLOT));
}

#[test]
fn an_undecodable_frame_costs_an_eifs_and_a_difs() {
    let mut w = testbed(3).senses(0, 1, at(400.0)).decodable(1, 2, STRONG_DBM).build();
    w.queue(queued_for(T, 0), 0, broadcast(0)).at(T + us(1000), 1, 2).run(T + us(20_000));
    assert_eq!(w.starts(0)[0], T);
    assert_eq!(w.starts(1)[0], T + us(DATA + EIFS + DIFS) + first(1));
    assert_eq!(EIFS + DIFS, 414);
}

#[test]
fn a_nav_set_by_an_rts_does_not_lapse() {
    // 1 decodes the RTS, which gets no response.
    let mut w = testbed(4)
        .decodable(0, 1, STRONG_DBM)
        .decodable(0, 2, STRONG_DBM)
        .decodable(1, 3, STRONG_DBM)
        .attempts(1, 1);
    w.mac.rts_threshold = Some(1000);
    let mut w = w.loses(0, 2).build();
    let small = Outgoing { bytes: 100, ..w.packet(1, 3, 0) };
    w.at(queued_for(T, 0), 0, 2).queue(T + us(100), 1, small).run(T + us(30_000));
    assert_eq!(w.kinds(0), [FrameKind::Rts]);
    let nav = SIFS + CTS + SIFS + DATA + SIFS + ACK;
    assert_eq!(w.starts(1)[0], T + us(RTS + nav + DIFS) + first(1));
}

/// Returns true if 1 receives 0's frame, and the start of 1's countdown.
///
/// Station 1 has a packet; its countdown is in µs from the start of that frame. 0 sends to 1 at `own` dBm;
/// hidden stations 2, 3, … each start `later_us` after the one before, at `others` dBm.
fn overlap(own: f64, others: &[f64], later_us: u64) -> (bool, u64) {
    let n = others.len() as u32;
    let mut testbed = testbed(3 + n).decodable(0, 1, own).decodable(1, 2 + n, STRONG_DBM);
    for (i, &dbm) in others.iter().enumerate() {
        testbed = testbed.senses(2 + i as u32, 1, dbm);
    }
    let mut w = testbed.build();
    w.queue(queued_for(T, 0), 0, broadcast(0));
    for i in 0..n {
        let start = T + us(later_us * u64::from(i + 1));
        w.queue(queued_for(start, 2 + i), 2 + i, broadcast(200));
    }
    w.at(T + us(10), 1, 2 + n).run(T + us(40_000));
    let counted = w.starts(1)[0] - first(1) - us(DIFS) - T;
    (w.arrivals().contains(&(1, 0)), counted / 1000)
}

#[test]
fn each_frame_is_compared_with_the_one_in_reception_only() {
    // Two interferers, 12.04 dB below each and 9.03 dB below together: the frame captures the
    // receiver.
    let (received, idle) = overlap(at(200.0), &[at(400.0); 2], 1000);
    assert!(received);
    // The later of them sets the NAV to its end and an EIFS.
    assert_eq!(idle, 2000 + DATA + EIFS);
    assert_eq!(overlap(at(200.0), &[], 0), (true, DATA));
    assert_eq!(overlap(at(200.0), &[at(400.0)], 1), (true, 1 + DATA + EIFS));
}

#[test]
fn a_collision_lasts_as_long_as_the_longer_frame() {
    let (received, idle) = overlap(at(200.0), &[at(300.0)], 1000);
    assert!(!received);
    assert_eq!(idle, 1000 + DATA + EIFS);
    // A third frame is compared with the longer one, which is at 300 m, and collides with it.
    let (received, idle) = overlap(at(200.0), &[at(300.0), at(500.0)], 1000);
    assert!(!received);
    assert_eq!(idle, 2000 + DATA + EIFS);
}

#[test]
fn the_first_frame_is_taken_however_strong_the_second() {
    let mut w = testbed(3).decodable(0, 1, at(200.0)).decodable(2, 1, at(60.0)).build();
    w.queue(queued_for(T, 0), 0, broadcast(0)).queue(queued_for(T + us(1), 2), 2, broadcast(200));
    w.run(T + us(20_000));
    assert!(w.log.received.is_empty(), "both are lost");
}

#[test]
fn a_frame_that_outlasts_an_own_one_costs_an_eifs() {
    let mut w = testbed(3).decodable(0, 1, STRONG_DBM).decodable(1, 2, STRONG_DBM).build();
    w.at(queued_for(T, 1), 1, 2).queue(queued_for(T + us(4000), 0), 0, broadcast(0));
    w.run(T + us(14_000));
    let mut replay = BackoffReplay::of(1);
    replay.draw(CW);
    let again = T + us(4000 + DATA + EIFS + DIFS + replay.draw(CW_2) * SLOT);
    assert_eq!(w.starts(1)[1], again);
    // A frame that ends before the own one has no effect.
    let mut w = testbed(3).decodable(0, 1, STRONG_DBM).decodable(1, 2, STRONG_DBM).build();
    let short = Outgoing { bytes: 100, ..broadcast(0) };
    w.at(queued_for(T, 1), 1, 2).queue(queued_for(T + us(4000), 0), 0, short);
    w.run(T + us(14_000));
    let mut replay = BackoffReplay::of(1);
    replay.draw(CW);
    let again = T + us(DATA + SIFS + ACK + 4 + DIFS + replay.draw(CW_2) * SLOT);
    assert_eq!(w.starts(1)[1], again);
}

#[test]
fn an_own_response_loses_the_frame_in_reception() {
    // 2, hidden from 0, starts within SIFS of the end of 0's frame to 1, which responds
    // nevertheless.
    let mut w =
        testbed(4).link(0, 1).decodable(2, 1, STRONG_DBM).decodable(1, 3, STRONG_DBM).build();
    let begins = T + us(DATA + 5);
    w.at(queued_for(T, 0), 0, 1).queue(queued_for(begins, 2), 2, broadcast(200));
    w.at(T + us(10), 1, 3).run(T + us(30_000));
    assert_eq!(w.starts(1)[0], T + us(DATA + SIFS));
    assert_eq!(w.outcomes(0), [Outcome::Sent]);
    assert!(!w.arrivals().contains(&(1, 200)));
    assert_eq!(w.starts(1)[1], begins + us(DATA + EIFS + DIFS) + first(1));
}

#[test]
fn the_countdown_stops_with_the_first_energy() {
    let mut w = testbed(3).decodable(0, 1, STRONG_DBM).decodable(1, 2, STRONG_DBM).build();
    w.queue(queued_for(T, 0), 0, broadcast(0)).at(queued_for(T + us(1), 1), 1, 2);
    w.run(T + us(20_000));
    // The last slot lacked a microsecond.
    let left = if first(1) > 0 { SLOT } else { 0 };
    assert_eq!(w.starts(1)[0], T + us(DATA + DIFS + left));
}

#[test]
fn an_answer_is_awaited_for_its_airtime() {
    let mut w = testbed(2).decodable(0, 1, STRONG_DBM).build();
    w.at(queued_for(T, 0), 0, 1).run(T + us(12_000));
    let mut replay = BackoffReplay::of(0);
    replay.draw(CW);
    let again = T + us(DATA + SIFS + ACK + 4 + DIFS + replay.draw(CW_2) * SLOT);
    assert_eq!(w.starts(0)[1], again);
    let mut w = testbed(2).decodable(0, 1, STRONG_DBM).rts().build();
    w.at(queued_for(T, 0), 0, 1).run(T + us(3000));
    let mut replay = BackoffReplay::of(0);
    replay.draw(CW);
    let again = T + us(RTS + SIFS + CTS + 4 + DIFS + replay.draw(CW_2) * SLOT);
    assert_eq!(w.starts(0)[1], again);
}

#[test]
fn a_cts_is_sent_if_the_nav_is_over_when_it_is_due() {
    // 1 senses a frame of 3 without decoding it: NAV of an EIFS; 0's RTS begins `later` µs after it.
    let responds = |later: u64| {
        let mut w = testbed(4).link(0, 1).senses(3, 1, at(400.0)).rts().build();
        let rts = T + us(DATA + later);
        w.queue(queued_for(T, 3), 3, broadcast(300)).at(queued_for(rts, 0), 0, 1);
        w.run(rts + us(RTS + SIFS));
        w.starts(1)
    };
    let due = EIFS - RTS - SIFS;
    assert_eq!(responds(due - 1), [0; 0]);
    assert_eq!(responds(due), [T + us(DATA + due + RTS + SIFS)]);
}

#[test]
fn the_sender_of_a_cts_waits_until_the_data_are_over() {
    // 0 does not receive the CTS.
    let mut w = testbed(3)
        .decodable(0, 1, STRONG_DBM)
        .decodable(1, 0, STRONG_DBM)
        .decodable(1, 2, STRONG_DBM)
        .attempts(1, 1);
    w.mac.rts_threshold = Some(1000);
    let mut w = w.loses(1, 0).build();
    let small = Outgoing { bytes: 100, ..w.packet(1, 2, 0) };
    w.at(queued_for(T, 0), 0, 1).queue(T + us(10), 1, small).run(T + us(20_000));
    assert_eq!(w.kinds(1)[0], FrameKind::Cts);
    let end = RTS + SIFS + CTS;
    assert_eq!(w.starts(1)[1], T + us(end + SIFS + DATA + 4 + DIFS) + first(1));
}

#[test]
fn a_rule_that_is_left_out_gives_way_to_the_standards() {
    let all = Ns2Rules::ALL;
    // 1: the standard's EIFS in place of a NAV and a DIFS.
    let without = Ns2Rules { deferral: false, ..all };
    let mut w = with(3, without).senses(0, 1, at(400.0)).decodable(1, 2, STRONG_DBM).build();
    w.queue(queued_for(T, 0), 0, broadcast(0)).at(T + us(1000), 1, 2).run(T + us(20_000));
    assert_eq!(w.starts(1)[0], T + us(DATA + EIFS) + first(1));
    // 5: no backoff on an idle medium.
    let mut w = with(2, Ns2Rules { idle_backoff: false, ..all }).link(0, 1).build();
    w.at(T, 0, 1).run(T + us(20_000));
    assert_eq!(w.starts(0), [T + us(DIFS)]);
    // 5: the rule for relays does not apply to a station's own packets.
    let mut w = with(2, Ns2Rules { relay_backoff: false, ..all }).link(0, 1).build();
    w.at(T, 0, 1).run(T + us(20_000));
    assert_eq!(w.starts(0), [T + us(DIFS) + first(0)]);
    // 5: a backoff from 0 to CW.
    let mut w = with(2, Ns2Rules { window: false, ..all }).link(0, 1).build();
    w.at(T, 0, 1).run(T + us(20_000));
    assert_eq!(w.starts(0), [T + us(DIFS + BackoffReplay::of(0).draw(CW + 1) * SLOT)]);
    // 6: the standard's timeout.
    let missed = |rules| {
        let mut w = with(2, rules).decodable(0, 1, STRONG_DBM).build();
        w.at(T, 0, 1).run(T + us(30_000));
        w.starts(0)[1] - w.starts(0)[0]
    };
    assert_eq!(
        missed(all) - missed(Ns2Rules { timeout: false, ..all }),
        us(SIFS + ACK + 4 - TIMEOUT)
    );
}
