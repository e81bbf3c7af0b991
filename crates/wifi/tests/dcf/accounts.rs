//! Accounts of a run: the fingerprint of its transmissions and the outcome of its frames.

use fairmesh_phy::Phy;
use fairmesh_units::{NodeId, Span, Stream, Time};
use fairmesh_wifi::loss::{FrameErrors, ThreeState, ThreeStateModel};
use fairmesh_wifi::{FrameKind, Outgoing};

use crate::testbed::*;

const T: u64 = us(10_000);

/// Returns the fingerprint of an exchange at 54 Mbit/s among three stations in range.
fn fingerprint(start: u64, from: u32, to: u32, bytes: u32) -> u64 {
    let mut testbed = Testbed::cell(3);
    testbed.mac.phy = Phy::dot11a();
    testbed.mac.rate = testbed.mac.phy.highest();
    let mut w = testbed.build();
    let packet = Outgoing { bytes, ..w.packet(from, to, 0) };
    w.queue(start, from, packet).run(us(100_000));
    assert_eq!(w.log.frames.len(), 2, "data and ACK");
    w.air.fingerprint()
}

#[test]
fn the_fingerprint_covers_start_stations_and_length() {
    let one = fingerprint(T, 0, 1, 1500);
    assert_eq!(one, fingerprint(T, 0, 1, 1500));
    // 16 + 12288 + 6 bits and 32 fewer are both 57 symbols of 216: only the length differs.
    let others = [(T + 1, 0, 1, 1500), (T, 2, 1, 1500), (T, 0, 2, 1500), (T, 0, 1, 1496)];
    let mut all =
        others.map(|(start, from, to, bytes)| fingerprint(start, from, to, bytes)).to_vec();
    all.push(one);
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 5);
}

/// The channel's state at a frame's first bit decides its outcome.
///
/// Source: Triantafyllidou 2005 §4.5.1. The channel changes faster than a frame lasts; another draw decides
/// the next attempt.
#[test]
fn the_state_at_a_frames_first_bit_decides_its_outcome() {
    let row = [0.4, 0.4, 0.2];
    let step = Span::from_millis(3);
    let model = ThreeStateModel::new([row; 3], [0.0, 1.0, 0.5], step).unwrap();
    let mut channel = FrameErrors::ThreeState(ThreeState::new(model.into()));
    const DELAY: u64 = 667;
    let mut testbed =
        Testbed::new(2).pair(0, 1, STRONG_DBM, true, DELAY).pair(1, 0, STRONG_DBM, true, DELAY);
    testbed.errors.push((0, 1, channel.clone()));
    let mut w = testbed.build();
    for k in 0..40 {
        w.at(T + us(20_000) * k, 0, 1);
    }
    w.run(us(2_000_000));
    let mut draws = Stream::new(SEED, "error/0>1");
    let (mut lost, mut sent) = (0, 0);
    for f in w.frames(0) {
        let first_bit = f.start + Span::from_nanos(DELAY);
        let air = f.end - f.start;
        let fate = channel.lost(first_bit, air, f.bytes, f.rate, &mut draws);
        let response = f.end.as_nanos() + DELAY + us(SIFS);
        let answered = w.frames(1).any(|a| a.start == Time::from_nanos(response));
        assert_eq!(answered, !fate, "the frame of {:?}", f.start);
        lost += u64::from(fate);
        sent += u64::from(!fate);
    }
    assert_eq!((sent, w.air.counters(NodeId(1)).errored), (40, lost));
    assert!(lost > 10, "the test shows nothing: {lost} lost");
    assert!(w.kinds(1).iter().all(|k| *k == FrameKind::Ack));
}
