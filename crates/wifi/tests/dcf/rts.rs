//! RTS/CTS exchanges (IEEE 802.11-2020 §10.3.2.4, §10.3.2.9).

use fairmesh_phy::{Phy, Preamble};
use fairmesh_units::{BitRate, NodeId};
use fairmesh_wifi::loss::FrameErrors;
use fairmesh_wifi::{FrameKind, Outcome};

use crate::testbed::*;

const T: u64 = us(10_000);

#[test]
fn an_exchange_of_four_frames() {
    let mut w = Testbed::cell(2).rts().build();
    w.at(T, 0, 1).run(us(100_000));
    let rts = T + us(DIFS);
    let cts = rts + us(RTS + SIFS);
    let data = cts + us(CTS + SIFS);
    let ack = data + us(DATA + SIFS);
    assert_eq!(w.starts(0), [rts, data]);
    assert_eq!(w.starts(1), [cts, ack]);
    assert_eq!(w.kinds(0), [FrameKind::Rts, FrameKind::Data]);
    assert_eq!(w.kinds(1), [FrameKind::Cts, FrameKind::Ack]);
    let fields: Vec<u64> = w.log.frames.iter().map(|f| f.nav.as_nanos()).collect();
    let rest = us(DATA + 2 * SIFS + ACK);
    assert_eq!(fields, [rest + us(SIFS + CTS), rest, us(SIFS + ACK), 0]);
    let sizes: Vec<u32> = w.log.frames.iter().map(|f| f.bytes).collect();
    assert_eq!(sizes, [20, 14, BYTES + 36, 14]);
    let report = w.log.reports[0].2;
    assert_eq!((report.rts_attempts, report.data_attempts), (1, 1));
    assert_eq!(report.airtime.as_nanos(), us(RTS + CTS + DATA + ACK));
}

#[test]
fn the_threshold_spares_short_frames() {
    let mut testbed = Testbed::cell(2);
    testbed.mac.rts_threshold = Some(BYTES + 36);
    let mut w = testbed.build();
    let short = fairmesh_wifi::Outgoing { bytes: BYTES - 1, ..w.packet(0, 1, 9) };
    w.at(T, 0, 1).queue(T + us(50_000), 0, short).run(us(100_000));
    assert_eq!(w.kinds(0), [FrameKind::Rts, FrameKind::Data, FrameKind::Data]);
}

#[test]
fn seven_rts_without_a_response_drop_the_packet() {
    let mut w = Testbed::cell(2).rts().loses(0, 1).build();
    w.at(T, 0, 1).at(T, 0, 1).run(us(1_000_000));
    let mut replay = BackoffReplay::of(0);
    let mut start = T + us(DIFS);
    let mut expected = vec![];
    for _ in 0..2 {
        expected.push(start);
        for cw in [63, 127, 255, 511, 1023, 1023] {
            start += us(RTS + TIMEOUT + DIFS + replay.draw(cw) * SLOT);
            expected.push(start);
        }
        start += us(RTS + TIMEOUT + DIFS + replay.draw(31) * SLOT);
    }
    assert_eq!(w.starts(0), expected);
    assert_eq!(w.kinds(0), [FrameKind::Rts; 14]);
    assert_eq!(w.outcomes(0), [Outcome::Lost; 2]);
    assert_eq!((w.log.reports[0].2.rts_attempts, w.log.reports[0].2.data_attempts), (7, 0));
}

/// Data frames at 11 Mbit/s never arrive, RTS at 2 Mbit/s always do.
#[test]
fn four_data_frames_without_an_ack_drop_the_packet() {
    let mut testbed = Testbed::cell(2).rts();
    testbed.mac.phy = Phy::dot11b(Preamble::Long);
    testbed.mac.rate = testbed.mac.phy.rate(BitRate(11_000_000)).unwrap();
    testbed.errors.push((0, 1, FrameErrors::per_bit(&[0.0, 0.0, 0.0, 1.0]).unwrap()));
    let mut w = testbed.build();
    w.at(T, 0, 1).run(us(1_000_000));
    // 272 and 248 µs at 2 Mbit/s; 1000 bytes at 11 Mbit/s: 192 + 728.
    let (rts, cts, data) = (272, 248, 920);
    let mut replay = BackoffReplay::of(0);
    let mut start = T + us(DIFS);
    let mut expected = vec![];
    for cw in [63, 127, 255, 31] {
        let send = start + us(rts + SIFS + cts + SIFS);
        expected.extend([start, send]);
        start = send + us(data + TIMEOUT + DIFS + replay.draw(cw) * SLOT);
    }
    assert_eq!(w.starts(0), expected);
    assert_eq!(w.outcomes(0), [Outcome::Lost]);
    assert_eq!((w.log.reports[0].2.rts_attempts, w.log.reports[0].2.data_attempts), (4, 4));
    assert_eq!(w.air.counters(NodeId(0)).timeouts, 4);
}

/// Noise destroys the first and the third RTS, the link all data.
///
/// With two RTS allowed, the CTS between them keeps the packet.
#[test]
fn a_cts_resets_the_count_of_lost_rts() {
    let mut testbed = Testbed::cell(2).rts().attempts(2, 2);
    testbed.mac.phy = Phy::dot11b(Preamble::Long).with_retry_limits(2, 2).unwrap();
    testbed.mac.rate = testbed.mac.phy.highest();
    testbed.errors.push((0, 1, FrameErrors::per_bit(&[0.0, 0.0, 0.0, 1.0]).unwrap()));
    let (rts, cts, data) = (272, 248, 920);
    let mut replay = BackoffReplay::of(0);
    let first = T + us(DIFS);
    let second = first + us(rts + TIMEOUT + DIFS + replay.draw(63) * SLOT);
    let sent = second + us(rts + SIFS + cts + SIFS);
    let third = sent + us(data + TIMEOUT + DIFS + replay.draw(127) * SLOT);
    let mut w = testbed
        .noise(1, STRONG_DBM, first / 1000, 10)
        .noise(1, STRONG_DBM, third / 1000 + 100, 10)
        .build();
    w.at(T, 0, 1).run(us(100_000));
    use FrameKind::{Data, Rts};
    assert_eq!(w.starts(0)[..4], [first, second, sent, third]);
    assert_eq!(w.kinds(0), [Rts, Rts, Data, Rts, Rts, Data]);
    assert_eq!(w.outcomes(0), [Outcome::Lost], "after the second data frame");
}
