//! Simultaneous frames at a receiver, under each of the three rules.

use fairmesh_units::{Distance, NodeId, Span};
use fairmesh_wifi::propagation::{FLAT_SENSE_DBM, Propagation, two_ray_ground};
use fairmesh_wifi::{Outcome, Outgoing, Reception};

use crate::testbed::*;

const T: u64 = us(10_000);

/// Power of ns-2's radio at this distance, dBm.
fn at(metres: f64) -> f64 {
    two_ray_ground(Distance(metres)).as_dbm()
}

/// Returns true if 1 receives 0's frame.
///
/// Frames of hidden stations 2, 3, … reach 1 at `others` dBm; each starts `later_us` after it.
fn survives(rule: Reception, own: f64, others: &[f64], later_us: i64) -> bool {
    let n = others.len() as u32;
    let mut testbed = Testbed::new(3 + n).reception(rule).decodable(0, 1, own).decodable(1, 0, own);
    for (i, &dbm) in others.iter().enumerate() {
        let from = 2 + i as u32;
        testbed = if dbm >= at(250.0) {
            testbed.decodable(from, 1, dbm)
        } else {
            testbed.senses(from, 1, dbm)
        };
        testbed = testbed.decodable(from, 2 + n, STRONG_DBM);
    }
    let mut w = testbed.build();
    w.at(T, 0, 1);
    for i in 0..n {
        w.at(T.wrapping_add_signed(later_us * 1000), 2 + i, 2 + n);
    }
    w.run(T + us(9000));
    w.arrivals().contains(&(1, 0))
}

const RULES: [Reception; 2] = [Reception::Ns2, Reception::Sinr];

#[test]
fn the_first_frame_survives_one_interferer_at_twice_the_distance_but_not_two() {
    for rule in RULES {
        assert!(survives(rule, at(200.0), &[at(400.0)], 1000), "12.04 dB");
        assert!(!survives(rule, at(200.0), &[at(400.0); 2], 1000), "9.03 dB together");
        assert!(!survives(rule, at(200.0), &[at(300.0)], 1000), "7.04 dB");
        // The margin is exactly 10 dB: 1.7783 times the distance.
        assert!(survives(rule, at(200.0), &[at(355.7)], 1000));
        assert!(!survives(rule, at(200.0), &[at(355.6)], 1000));
    }
}

#[test]
fn interference_that_came_first_counts_alike_where_it_is_not_locked_on() {
    // Sensed only: under `sinr` a later frame takes the lock.
    assert!(survives(Reception::Sinr, at(200.0), &[at(400.0)], -1000));
    assert!(!survives(Reception::Sinr, at(200.0), &[at(300.0)], -1000));
    // Under `ns2` the receiver is locked on the weak frame: the second is never received.
    assert!(!survives(Reception::Ns2, at(200.0), &[at(400.0)], -1000));
    assert!(!survives(Reception::Ns2, at(50.0), &[at(540.0)], -1000));
}

#[test]
fn a_frame_that_comes_second_is_never_received_however_strong() {
    for rule in RULES {
        // 0 is 20 dB stronger than the locked frame.
        assert!(!survives(rule, at(60.0), &[at(200.0)], -1000));
        assert!(!survives(rule, at(60.0), &[at(200.0)], -5));
    }
}

#[test]
fn of_frames_within_4_us_the_strongest_is_taken() {
    for rule in RULES {
        assert!(survives(rule, at(60.0), &[at(200.0)], -4));
        assert!(survives(rule, at(60.0), &[at(200.0)], 4));
        assert!(survives(rule, at(60.0), &[at(200.0)], 0));
        // A lock does not imply a reception.
        assert!(!survives(rule, at(150.0), &[at(200.0)], -3));
    }
}

#[test]
fn a_station_that_turns_to_a_stronger_frame_waits_for_its_end() {
    let mut w = Testbed::new(4)
        .decodable(0, 1, at(200.0))
        .decodable(2, 1, at(60.0))
        .decodable(1, 3, STRONG_DBM)
        .build();
    let broadcast = |packet, bytes| Outgoing { packet, link: None, bytes };
    w.queue(T, 0, broadcast(0, 100)).queue(T + us(2), 2, broadcast(2, BYTES));
    w.at(T + us(20), 1, 3).run(T + us(10_000));
    assert!(w.arrivals().contains(&(1, 2)));
    assert_eq!(w.starts(1)[0], T + us(2 + DIFS + DATA + DIFS));
}

#[test]
fn without_capture_every_overlap_destroys() {
    let flat = |dbm| survives(Reception::NoCapture, STRONG_DBM, &[dbm], 1000);
    assert!(!flat(STRONG_DBM));
    assert!(!flat(FLAT_SENSE_DBM));
    assert!(survives(Reception::NoCapture, STRONG_DBM, &[], 0));
}

#[test]
fn the_shortest_overlap_destroys_as_well() {
    // The other frame ends, or starts, a microsecond into the frame.
    let air = (DATA - 1) as i64;
    for rule in RULES {
        assert!(!survives(rule, STRONG_DBM, &[STRONG_DBM], air));
        assert!(survives(rule, STRONG_DBM, &[STRONG_DBM], air + 2));
    }
}

/// Station 1 senses station 0's frame without decoding it and has a packet of its own.
fn wait_after_sensing(rule: Reception) -> u64 {
    let testbed =
        Testbed::new(4).reception(rule).senses(0, 1, at(400.0)).decodable(0, 2, STRONG_DBM);
    let mut w = testbed.decodable(1, 3, STRONG_DBM).build();
    w.at(T, 0, 2).at(T + us(1000), 1, 3).run(T + us(20_000));
    assert!(w.log.overheard.is_empty());
    w.starts(1)[0] - (T + us(DIFS + DATA))
}

#[test]
fn a_sensed_frame_costs_an_eifs_where_it_is_locked_on() {
    let backoff = us(BackoffReplay::of(1).draw(31) * SLOT);
    assert_eq!(wait_after_sensing(Reception::Ns2), us(EIFS) + backoff);
    assert_eq!(wait_after_sensing(Reception::Sinr), us(DIFS) + backoff);
}

/// Returns the time from the end of the first frame to the start of station 1's countdown.
///
/// It locks on a broadcast of 0 and loses it to one of 2, which starts `later_us` after.
fn wait_after_a_collision(later_us: u64) -> u64 {
    let mut w = Testbed::new(4)
        .decodable(0, 1, STRONG_DBM)
        .decodable(2, 1, STRONG_DBM)
        .decodable(1, 3, STRONG_DBM)
        .build();
    let packet = |n| Outgoing { packet: n, link: None, bytes: BYTES };
    w.queue(T, 0, packet(0)).queue(T + us(later_us), 2, packet(2));
    w.at(T + us(1000), 1, 3).run(T + us(10_000));
    assert_eq!(w.air.counters(NodeId(1)).collided, 1);
    w.starts(1)[0] - (T + us(DIFS + DATA)) - us(BackoffReplay::of(1).draw(31) * SLOT)
}

#[test]
fn a_collision_costs_an_eifs_from_the_end_of_the_locked_frame() {
    assert_eq!(wait_after_a_collision(100), us(EIFS));
    assert_eq!(wait_after_a_collision(314), us(EIFS));
    // The rest of the other frame's energy is followed by a DIFS only.
    assert_eq!(wait_after_a_collision(315), us(315 + DIFS));
    assert_eq!(wait_after_a_collision(700), us(700 + DIFS));
}

#[test]
fn a_transmitter_receives_nothing() {
    let mut w = Testbed::new(3).decodable(0, 1, STRONG_DBM).decodable(1, 2, STRONG_DBM).build();
    let broadcast = Outgoing { packet: 0, link: None, bytes: BYTES };
    w.at(T, 1, 2).queue(T + us(4000), 0, broadcast).run(T + us(20_000));
    assert_eq!(w.arrivals()[0], (2, 100));
    assert!(w.arrivals().iter().all(|a| a.0 != 1));
    assert_eq!(w.air.counters(NodeId(1)).collided, 0);
    // Energy that outlasts its own frame defers the station, without EIFS.
    let quiet = T + us(DIFS + 4000 + DATA);
    assert_eq!(w.starts(1)[1], quiet + us(DIFS + BackoffReplay::of(1).draw(63) * SLOT));
}

#[test]
fn a_frame_after_an_own_one_is_received_again() {
    let testbed =
        Testbed::new(3).decodable(0, 1, STRONG_DBM).decodable(1, 2, STRONG_DBM).attempts(1, 1);
    let mut w = testbed.build();
    w.at(T, 1, 2).at(T + us(DATA), 0, 1).run(T + us(20_000));
    assert_eq!(w.arrivals(), [(2, 100), (1, 0)], "it began when the other ended");
    let mut w = Testbed::new(3)
        .decodable(0, 1, STRONG_DBM)
        .decodable(1, 2, STRONG_DBM)
        .attempts(1, 1)
        .build();
    w.at(T, 1, 2).at(T + us(DATA) - 1, 0, 1).run(T + us(20_000));
    assert_eq!(w.arrivals(), [(2, 100)], "a nanosecond earlier");
}

/// Two stations in range of each other at 550 m and out of range beyond.
///
/// Jamshaid 2010 §3.1.2.
#[test]
fn the_ranges_of_the_ns2_profile_in_time() {
    for (metres, deferred) in [(549.9, true), (550.1, false)] {
        let p = Propagation::NS2;
        let mut testbed = Testbed::new(4).link(0, 2).link(1, 3);
        if let Some((power, decodes)) = p.received(Distance(metres)) {
            assert!(!decodes);
            testbed = testbed.senses(0, 1, power.as_dbm()).senses(1, 0, power.as_dbm());
        }
        let mut w = testbed.build();
        w.at(T, 0, 2).at(T + us(1000), 1, 3).run(T + us(40_000));
        assert_eq!(w.starts(1)[0] > T + us(DATA), deferred, "{metres} m");
        assert_eq!(w.outcomes(0), [Outcome::Sent]);
    }
}

#[test]
fn time_is_accounted_for() {
    let mut w = Testbed::cell(3).build();
    w.at(T, 0, 1).run(T + us(DIFS + DATA / 2));
    // In the middle of the data frame.
    let now = fairmesh_units::Time::from_nanos(T + us(DIFS + DATA / 2));
    let spent = |w: &World, now, n| {
        let t = w.air.channel_time(now, NodeId(n));
        [t.active, t.busy, t.receive, t.transmit].map(Span::as_nanos)
    };
    let half = us(DATA / 2);
    let all = now.as_nanos();
    assert_eq!(spent(&w, now, 0), [all, 0, 0, half]);
    assert_eq!(spent(&w, now, 2), [all, half, half, 0]);
    w.run(us(100_000));
    let now = fairmesh_units::Time::from_nanos(us(100_000));
    assert_eq!(spent(&w, now, 0), [us(100_000), us(ACK), us(ACK), us(DATA)]);
    assert_eq!(spent(&w, now, 1), [us(100_000), us(DATA), us(DATA), us(ACK)]);
    assert_eq!(spent(&w, now, 2), [us(100_000), us(DATA + ACK), us(DATA + ACK), 0]);
}
