//! A-MSDUs of 802.11n at 65 Mbit/s: several packets in one MPDU, lost or delivered together.
//!
//! IEEE 802.11-2020 §9.3.2.2, §10.11.

use fairmesh_units::{NodeId, Span};
use fairmesh_wifi::{FrameKind, Outcome, Outgoing, Subframe};

use crate::testbed::{CapturedFrame, Testbed, World, us};

/// A packet of the testbed as a subframe: 14 + 8 + 964 bytes, padded to 988.
const LAST: u32 = 986;
const PADDED: u32 = 988;
const HEADER: u32 = 30;
/// HT-mixed preamble with one stream, µs.
const PREAMBLE: u64 = 36;

/// Each MPDU of a frame: number, packets in it, length.
fn mpdus(frame: &CapturedFrame) -> Vec<(u16, usize, u32)> {
    let mut all: Vec<(u16, usize, u32)> = Vec::new();
    for m in &frame.mpdus {
        match (m.subframe, all.last_mut()) {
            (Some(Subframe { index, .. }), Some(last)) if index > 0 => {
                assert_eq!((last.0, last.1, last.2), (m.sequence, usize::from(index), m.bytes));
                last.1 += 1;
            }
            _ => all.push((m.sequence, 1, m.bytes)),
        }
    }
    all
}

fn data(w: &World, station: u32) -> Vec<&CapturedFrame> {
    w.frames(station).filter(|f| f.kind == FrameKind::Data).collect()
}

fn queued(testbed: Testbed, packets: u32) -> World {
    let mut w = testbed.build();
    (0..packets).for_each(|_| {
        w.at(0, 0, 1);
    });
    w
}

fn order(w: &World) -> Vec<u32> {
    w.log.received.iter().map(|r| r.3).collect()
}

#[test]
fn packets_share_an_mpdu_up_to_its_limit_and_an_ack() {
    let mut w = queued(Testbed::today(2, 64).link(0, 1).amsdu(3839, 0), 4);
    w.run(us(20_000));
    let frames = data(&w, 0);
    // Three make 2962 bytes, four would be 3950.
    assert_eq!(mpdus(frames[0]), [(1, 3, 2 * PADDED + LAST + HEADER)]);
    assert_eq!(frames[0].bytes, 2 * PADDED + LAST + HEADER);
    // 16 + 8 × 2992 + 6 bits in symbols of 260.
    assert_eq!(frames[0].end - frames[0].start, Span::from_micros(PREAMBLE + 4 * 93));
    // A single packet is an ordinary MPDU.
    assert_eq!(mpdus(frames[1]), [(2, 1, 964 + 8 + HEADER)]);
    assert!(frames[1].mpdus[0].subframe.is_none());
    assert_eq!(w.kinds(1), [FrameKind::Ack; 2]);
    assert_eq!(w.arrivals(), [(1, 0), (1, 1), (1, 2), (1, 3)]);
    assert_eq!(w.outcomes(0), [Outcome::Sent; 4]);
    let c = w.air.counters(NodeId(0));
    assert_eq!((c.data, c.mpdus), (2, 2));
    // Medium time of the frame and its response, divided among its packets to the nanosecond.
    let parts: Vec<Span> = w.log.reports.iter().take(3).map(|r| r.2.airtime).collect();
    assert_eq!(
        parts.iter().fold(Span::ZERO, |s, &p| s + p),
        Span::from_micros(PREAMBLE + 4 * 93 + 28)
    );
    assert!(parts[0].as_nanos().abs_diff(parts[2].as_nanos()) <= 2);
}

#[test]
fn mpdus_in_an_ampdu_of_11n_have_at_most_4095_bytes() {
    let mut w = queued(Testbed::today(2, 64).link(0, 1).amsdu(7935, 65_535), 10);
    w.run(us(20_000));
    let [frame] = data(&w, 0)[..] else { panic!("one frame") };
    let four = 3 * PADDED + LAST + HEADER;
    assert_eq!(mpdus(frame), [(1, 4, four), (2, 4, four), (3, 2, PADDED + LAST + HEADER)]);
    // Delimiters, and padding except after the last.
    let padded = (four + 4).next_multiple_of(4);
    assert_eq!(frame.bytes, 2 * padded + 4 + PADDED + LAST + HEADER);
    let response = w.frames(1).next().unwrap();
    assert_eq!(response.block_ack.unwrap().bitmap[0], 0b111);
    assert_eq!(order(&w), (0..10).collect::<Vec<_>>());
    // Without A-MPDUs it may reach its own limit.
    let mut w = queued(Testbed::today(2, 64).link(0, 1).amsdu(7935, 0), 10);
    w.run(us(20_000));
    assert_eq!(mpdus(data(&w, 0)[0]), [(1, 8, 7 * PADDED + LAST + HEADER)]);
}

#[test]
fn the_frames_limit_counts_too() {
    // A first MPDU of two packets leaves room for one more packet, not for two.
    let mut w = queued(Testbed::today(2, 64).link(0, 1).amsdu(2000, 3100), 6);
    w.run(us(20_000));
    let packets: Vec<Vec<usize>> =
        data(&w, 0).iter().map(|f| mpdus(f).iter().map(|m| m.1).collect()).collect();
    assert_eq!(packets, [vec![2, 1], vec![2, 1]]);
}

#[test]
fn an_amsdu_is_lost_and_sent_again_as_a_whole() {
    let testbed = || Testbed::today(2, 64).link(0, 1).amsdu(2000, 65_535);
    let start = {
        let mut w = queued(testbed(), 4);
        w.run(us(20_000));
        w.log.frames[0].start.as_nanos() / 1000
    };
    // A burst in the first MPDU, which has two packets.
    let mut w = queued(testbed().noise(1, -60.0, start + PREAMBLE + 20, 5), 4);
    // Later packets do not join an MPDU that was sent.
    w.at(us(900), 0, 1);
    w.run(us(30_000));
    let frames = data(&w, 0);
    let two = PADDED + LAST + HEADER;
    assert_eq!(mpdus(frames[0]), [(1, 2, two), (2, 2, two)]);
    assert_eq!(w.frames(1).next().unwrap().block_ack.unwrap().bitmap[0], 0b10);
    assert_eq!(mpdus(frames[1])[0], (1, 2, two));
    assert!(frames[1].mpdus[0].retry && frames[1].mpdus[1].retry);
    // The packets of the second MPDU wait for those of the first.
    assert_eq!(order(&w), [0, 1, 2, 3, 4]);
    let at: Vec<u64> = w.log.received.iter().map(|r| r.0).collect();
    assert!(at[0] == at[3]);
    assert_eq!(w.outcomes(0), [Outcome::Sent; 5]);
    assert_eq!(w.air.counters(NodeId(1)).mpdus_missed, 1);
    let of = |packet| w.log.reports.iter().find(|r| r.2.packet.packet == packet).unwrap().2;
    assert_eq!([0, 1, 2, 3].map(|p| of(p).data_attempts), [2, 2, 1, 1]);
}

#[test]
fn each_packet_of_an_abandoned_amsdu_is_counted() {
    for ampdu in [0, 65_535] {
        let mut w = queued(Testbed::today(2, 64).link(0, 1).loses(0, 1).amsdu(3839, ampdu), 3);
        w.run(us(1_000_000));
        assert_eq!(data(&w, 0).len(), 7);
        assert_eq!(w.outcomes(0), [Outcome::Lost; 3]);
        assert_eq!(w.air.counters(NodeId(0)).gave_up, 3);
        let mut w = queued(Testbed::today(2, 64).link(0, 1).loses(1, 0).amsdu(3839, ampdu), 3);
        w.run(us(1_000_000));
        assert_eq!(w.arrivals(), [(1, 0), (1, 1), (1, 2)]);
        assert_eq!(w.outcomes(0), [Outcome::Unconfirmed; 3]);
        assert_eq!(w.air.counters(NodeId(1)).duplicates, 6);
    }
}

#[test]
fn numbers_are_reused_and_per_receiver() {
    // More MPDUs than a window has numbers, each of one to three packets, alternating between two
    // receivers.
    let mut w = Testbed::cell(3);
    w.mac = Testbed::today(3, 64).mac;
    let mut w = w.amsdu(3839, 16_383).build();
    let mut sent = 0;
    for burst in 0..600u64 {
        for k in 0..=burst % 3 {
            let to = 1 + (burst % 2) as u32;
            let packet = Outgoing { bytes: 200 + 100 * k as u32, ..w.packet(0, to, sent) };
            w.queue(us(3000 * burst), 0, packet);
            sent += 1;
        }
    }
    w.run(us(3_000_000));
    assert_eq!(order(&w), (0..sent).collect::<Vec<_>>());
    assert_eq!(w.outcomes(0).len(), sent as usize);
    // An overhearing station gets each packet.
    assert_eq!(w.log.overheard.len(), sent as usize);
}
