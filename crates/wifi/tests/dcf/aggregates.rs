//! A-MPDUs and block acknowledgements of 802.11n at 65 Mbit/s: 260 bits per symbol of 4 µs.

use fairmesh_units::{Span, Time};
use fairmesh_wifi::{FrameKind, Outcome, Outgoing};

use crate::testbed::{CapturedFrame, Testbed, World, us};

/// An MPDU of the testbed's datagrams: 964 + 8 + 30 bytes, and 4 of delimiter, padded: 1008.
const MPDU: u32 = 1002;
const SUBFRAME: u32 = 1008;
/// HT-mixed preamble with one stream, µs.
const PREAMBLE: u64 = 36;

fn numbers(frame: &CapturedFrame) -> Vec<u16> {
    frame.mpdus.iter().map(|m| m.sequence).collect()
}

fn data(w: &World, station: u32) -> Vec<&CapturedFrame> {
    w.frames(station).filter(|f| f.kind == FrameKind::Data).collect()
}

/// Two stations with this many packets from 0 to 1 at the first instant.
fn queued(testbed: Testbed, packets: u32) -> World {
    let mut w = testbed.build();
    (0..packets).for_each(|_| {
        w.at(0, 0, 1);
    });
    w
}

#[test]
fn queued_packets_share_a_frame_and_a_block_ack() {
    let mut w = queued(Testbed::today(2, 64).link(0, 1), 5);
    w.run(us(20_000));
    let [frame] = data(&w, 0)[..] else { panic!("one frame") };
    assert_eq!(numbers(frame), [1, 2, 3, 4, 5]);
    assert!(frame.mpdus.iter().all(|m| m.bytes == MPDU && !m.retry));
    // The last is not padded: 4 × 1008 + 1006 bytes are 156 symbols.
    assert_eq!(frame.bytes, 4 * SUBFRAME + MPDU + 4);
    assert_eq!(frame.end - frame.start, Span::from_micros(PREAMBLE + 4 * 156));
    assert_eq!(w.kinds(1), [FrameKind::BlockAck]);
    let response = w.frames(1).next().unwrap();
    assert_eq!(response.start - frame.end, Span::from_micros(16));
    // 32 bytes at 24 Mbit/s: 20 + 3 × 4 µs.
    assert_eq!(response.end - response.start, Span::from_micros(32));
    assert_eq!(frame.nav, Span::from_micros(16 + 32));
    let acknowledged = response.block_ack.unwrap();
    assert_eq!((acknowledged.first, acknowledged.bitmap[0]), (1, 0b11111));
    assert_eq!(w.arrivals(), [(1, 0), (1, 1), (1, 2), (1, 3), (1, 4)]);
    assert_eq!(w.outcomes(0), [Outcome::Sent; 5]);
    // Medium time of the frame and its response, divided among the MPDUs.
    let airtime: Span = w.log.reports.iter().fold(Span::ZERO, |sum, r| sum + r.2.airtime);
    assert_eq!(airtime, Span::from_micros(PREAMBLE + 4 * 156 + 32));
}

#[test]
fn one_packet_goes_alone_without_a_delimiter_and_gets_an_ack() {
    let mut w = queued(Testbed::today(2, 64).link(0, 1), 1);
    w.run(us(20_000));
    let [frame] = data(&w, 0)[..] else { panic!("one frame") };
    assert_eq!(frame.bytes, MPDU);
    assert_eq!(w.kinds(1), [FrameKind::Ack]);
}

/// Middle of the MPDU at this index in a frame that starts at `start`, µs from 0.
fn middle_of(start: Time, place: u64) -> u64 {
    let bits = 16 + 8 * u64::from(SUBFRAME) * place + 4 * u64::from(SUBFRAME);
    start.as_nanos() / 1000 + PREAMBLE + bits * 4 / 260
}

#[test]
fn lost_mpdus_precede_new_ones_and_are_passed_up_in_order() {
    let start = {
        let mut w = queued(Testbed::today(2, 4).link(0, 1), 6);
        w.run(us(20_000));
        w.log.frames[0].start
    };
    // A burst in the middle of the second MPDU.
    let testbed = Testbed::today(2, 4).link(0, 1).noise(1, -60.0, middle_of(start, 1), 5);
    let mut w = queued(testbed, 6);
    w.run(us(20_000));
    let frames = data(&w, 0);
    assert_eq!(numbers(frames[0]), [1, 2, 3, 4]);
    let acknowledged = w.frames(1).next().unwrap().block_ack.unwrap();
    assert_eq!((acknowledged.first, acknowledged.bitmap[0]), (1, 0b1101));
    // The window of four begins with the missing MPDU.
    assert_eq!(numbers(frames[1]), [2, 5]);
    assert_eq!(frames[1].mpdus.iter().map(|m| m.retry).collect::<Vec<_>>(), [true, false]);
    assert_eq!(numbers(frames[2]), [6]);
    assert_eq!(w.arrivals().iter().map(|a| a.1).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
    // MPDUs 3 and 4 arrived before 2 and were held back.
    let at: Vec<u64> = w.log.received.iter().map(|r| r.0).collect();
    assert!(at[0] < at[1] && at[1] == at[2] && at[2] == at[3]);
    assert_eq!(w.air.counters(fairmesh_units::NodeId(1)).mpdus_missed, 1);
    assert_eq!(w.air.counters(fairmesh_units::NodeId(0)).timeouts, 0);
}

#[test]
fn a_disturbed_header_loses_the_whole_frame() {
    let start = {
        let mut w = queued(Testbed::today(2, 64).link(0, 1), 3);
        w.run(us(20_000));
        w.log.frames[0].start
    };
    // HT-SIG is between 20 and 28 µs; energy that ends within the first 4 µs is harmless.
    let from = start.as_nanos() / 1000;
    for (burst, answered) in [((from + 22, 2), false), ((from + 30, 3), true), ((from, 3), true)] {
        let testbed = Testbed::today(2, 64).link(0, 1).noise(1, -60.0, burst.0, burst.1);
        let mut w = queued(testbed, 3);
        w.run(us(900) + start.as_nanos());
        let timeouts = w.air.counters(fairmesh_units::NodeId(0)).timeouts;
        assert_eq!(timeouts == 0, answered, "{burst:?}");
    }
}

#[test]
fn lost_responses_neither_lose_nor_duplicate_packets() {
    let mut w = queued(Testbed::today(2, 64).link(0, 1).loses(1, 0), 3);
    w.run(us(1_000_000));
    assert_eq!(data(&w, 0).len(), 7);
    assert_eq!(w.arrivals(), [(1, 0), (1, 1), (1, 2)]);
    assert_eq!(w.outcomes(0), [Outcome::Unconfirmed; 3]);
    assert_eq!(w.air.counters(fairmesh_units::NodeId(1)).duplicates, 18);
}

#[test]
fn an_abandoned_mpdu_does_not_block_later_ones() {
    // All MPDUs are lost, seven times; then the next packets arrive.
    let mut w = Testbed::today(2, 64).link(0, 1).loses(0, 1).build();
    for k in 0..4 {
        w.at(us(500_000) * (k / 2), 0, 1);
    }
    w.run(us(1_000_000));
    assert_eq!(w.outcomes(0), [Outcome::Lost; 4]);
    assert_eq!(w.air.counters(fairmesh_units::NodeId(0)).gave_up, 4);
    assert_eq!(data(&w, 0).len(), 14);
    assert_eq!(numbers(data(&w, 0)[7]), [3, 4]);
}

#[test]
fn other_neighbours_wait_and_keep_their_turn() {
    let mut w = Testbed::today(3, 64).link(0, 1).link(0, 2).build();
    for to in [1, 2, 1, 2, 1] {
        w.at(0, 0, to);
    }
    w.run(us(20_000));
    let sent: Vec<(u32, usize)> =
        data(&w, 0).iter().map(|f| (f.to.unwrap().0, f.mpdus.len())).collect();
    assert_eq!(sent, [(1, 3), (2, 2)]);
    // Sequence numbers are per link.
    assert_eq!(numbers(data(&w, 0)[1]), [1, 2]);
}

#[test]
fn a_station_keeps_the_medium_for_a_txop() {
    let mut testbed = Testbed::today(2, 1).link(0, 1);
    // A frame lasts 36 + 31 × 4 µs, its response 28 µs: four exchanges in 1 ms, separated by SIFS.
    testbed.mac.txop = Span::from_micros(1000);
    let mut w = queued(testbed, 6);
    w.run(us(20_000));
    let starts = w.starts(0);
    let gaps: Vec<u64> = starts.windows(2).map(|s| (s[1] - s[0]) / 1000).collect();
    let exchange = 36 + 31 * 4 + 16 + 28 + 16;
    assert_eq!(gaps[..3], [exchange; 3]);
    assert!(gaps[3] >= exchange - 16 + 43, "{gaps:?}");
    assert_eq!(gaps[4], exchange);
    assert_eq!(w.outcomes(0), [Outcome::Sent; 6]);
}

#[test]
fn rts_goes_before_an_aggregate_by_its_size() {
    let mut testbed = Testbed::today(2, 64).link(0, 1);
    testbed.mac.rts_threshold = Some(2 * MPDU);
    let mut w = testbed.build();
    w.at(0, 0, 1);
    for _ in 0..2 {
        w.at(us(10_000), 0, 1);
    }
    w.run(us(20_000));
    assert_eq!(w.kinds(0), [FrameKind::Data, FrameKind::Rts, FrameKind::Data]);
    // Counts up to the end of the block acknowledgement.
    let frames: Vec<&CapturedFrame> =
        w.log.frames.iter().filter(|f| f.start.as_nanos() > us(9_000)).collect();
    let [rts, cts, data, response] = frames[..] else { panic!("four frames") };
    assert_eq!(rts.end + rts.nav, response.end);
    assert_eq!(cts.end + cts.nav, response.end);
    assert_eq!(data.end + data.nav, response.end);
}

#[test]
fn a_broadcast_goes_alone_at_the_lowest_basic_rate() {
    let mut w = Testbed::today(2, 64).link(0, 1).build();
    w.queue(0, 0, Outgoing { packet: 9, link: None, bytes: 100 });
    w.at(0, 0, 1);
    w.run(us(20_000));
    let first = &w.log.frames[0];
    assert_eq!(first.to, None);
    // 6 Mbit/s: 24 bits per symbol; no QoS Control field.
    assert_eq!(
        first.end - first.start,
        Span::from_micros(20 + 4 * (22 + 8 * 136_u64).div_ceil(24))
    );
}
