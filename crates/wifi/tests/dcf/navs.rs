//! Virtual carrier sense (IEEE 802.11-2020 §10.3.2.4).

use fairmesh_phy::{Phy, Preamble};
use fairmesh_wifi::{FrameKind, Outgoing};

use crate::testbed::*;

const T: u64 = us(10_000);

#[test]
fn an_overhearing_station_waits_for_an_ack_it_cannot_receive() {
    // 2 receives the sender only.
    let mut w =
        Testbed::new(4).link(0, 1).decodable(0, 2, STRONG_DBM).decodable(2, 3, STRONG_DBM).build();
    w.at(T, 0, 1).at(T + us(1000), 2, 3).run(us(100_000));
    let end = T + us(DIFS + DATA + SIFS + ACK);
    assert_eq!(w.starts(2)[0], end + us(DIFS + BackoffReplay::of(2).draw(31) * SLOT));
}

#[test]
fn a_packet_that_comes_under_the_nav_draws_a_backoff() {
    let mut w =
        Testbed::new(4).link(0, 1).decodable(0, 2, STRONG_DBM).decodable(2, 3, STRONG_DBM).build();
    let end = T + us(DIFS + DATA + SIFS + ACK);
    w.at(T, 0, 1).at(end - us(1), 2, 3).run(us(100_000));
    let slots = BackoffReplay::of(2).draw(31);
    assert!(slots > 0, "pick another seed");
    assert_eq!(w.starts(2)[0], end + us(DIFS + slots * SLOT));
}

#[test]
fn an_undecodable_frame_sets_no_nav_and_costs_an_eifs() {
    let mut w = Testbed::new(4)
        .link(0, 1)
        .decodable(0, 2, STRONG_DBM)
        .loses(0, 2)
        .decodable(2, 3, STRONG_DBM)
        .build();
    w.at(T, 0, 1).at(T + us(1000), 2, 3).run(us(100_000));
    let end = T + us(DIFS + DATA);
    assert_eq!(w.starts(2)[0], end + us(EIFS + BackoffReplay::of(2).draw(31) * SLOT));
}

#[test]
fn a_good_frame_cancels_the_eifs() {
    // 2 loses the data but receives the ACK, which at 2 Mbit/s lasts 248 µs: 56 µs less than the
    // ACK that the EIFS covers.
    let mut testbed = Testbed::cell(3).loses(0, 2);
    testbed.mac.phy = Phy::dot11b(Preamble::Long);
    testbed.mac.rate = testbed.mac.phy.highest();
    let mut w = testbed.build();
    w.at(T, 0, 1).at(T + us(500), 2, 1).run(us(100_000));
    let end = T + us(DIFS + 192 + 728 + SIFS + 248);
    assert_eq!(w.starts(2)[0], end + us(DIFS + BackoffReplay::of(2).draw(31) * SLOT));
}

#[test]
fn rts_and_cts_reserve_the_whole_exchange() {
    // 2 receives the sender, 3 the receiver; each has a frame for 4.
    let mut w = Testbed::new(5)
        .rts()
        .link(0, 1)
        .decodable(0, 2, STRONG_DBM)
        .decodable(1, 3, STRONG_DBM)
        .decodable(2, 4, STRONG_DBM)
        .decodable(3, 4, STRONG_DBM)
        .build();
    w.at(T, 0, 1).at(T + us(DIFS + RTS + 100), 2, 4).at(T + us(2000), 3, 4).run(T + us(12_000));
    let end = T + us(DIFS + RTS + SIFS + CTS + SIFS + DATA + SIFS + ACK);
    assert_eq!(w.starts(2)[0], end + us(DIFS + BackoffReplay::of(2).draw(31) * SLOT));
    assert_eq!(w.starts(3)[0], end + us(DIFS + BackoffReplay::of(3).draw(31) * SLOT));
}

#[test]
fn a_shorter_nav_does_not_replace_a_longer_one() {
    // 2 receives 1's CTS, then a short frame from 3 to 4 with a NAV that ends long before.
    let mut testbed =
        Testbed::new(5).rts().link(0, 1).decodable(1, 2, STRONG_DBM).decodable(3, 2, STRONG_DBM);
    testbed.mac.rts_threshold = Some(BYTES + 36);
    let mut w = testbed.link(3, 4).decodable(2, 4, STRONG_DBM).build();
    let short = Outgoing { bytes: 100, ..w.packet(3, 4, 0) };
    w.at(T, 0, 1).queue(T + us(2000), 3, short).at(T + us(1200), 2, 4).run(T + us(12_000));
    let end = T + us(DIFS + RTS + SIFS + CTS + SIFS + DATA + SIFS + ACK);
    assert_eq!(w.log.overheard[0].1, 2, "3's frame set a NAV");
    assert_eq!(w.starts(2)[0], end + us(DIFS + BackoffReplay::of(2).draw(31) * SLOT));
}

/// Returns when station 2, which received an RTS, transmits.
///
/// The RTS gets no CTS; with `begin_us`, station 3 starts a frame for another station this long
/// after its end.
fn after_a_vain_rts(begin_us: Option<u64>) -> u64 {
    let testbed =
        Testbed::new(5).rts().attempts(1, 1).link(0, 1).loses(0, 1).decodable(0, 2, STRONG_DBM);
    let mut w = testbed
        .decodable(2, 4, STRONG_DBM)
        .decodable(3, 2, STRONG_DBM)
        .loses(3, 2)
        .decodable(3, 4, STRONG_DBM)
        .build();
    let end = T + us(DIFS + RTS);
    w.at(T, 0, 1).at(T + us(200), 2, 4);
    if let Some(begin_us) = begin_us {
        w.at(end + us(begin_us) - us(DIFS), 3, 4);
    }
    w.run(end + us(30_000));
    w.starts(2)[0] - end
}

#[test]
fn the_nav_of_an_rts_lapses_unless_the_exchange_goes_on() {
    let slots = BackoffReplay::of(2).draw(31);
    // 2 SIFS + CTS + 192 + 2 slots after the RTS.
    let reset = 2 * SIFS + CTS + 192 + 2 * SLOT;
    assert_eq!(after_a_vain_rts(None), us(reset + DIFS + slots * SLOT));
    // A reception with a payload that begins by then, even an undecodable one, confirms the NAV.
    let nav = 3 * SIFS + CTS + DATA + ACK;
    assert_eq!(after_a_vain_rts(Some(reset - 192)), us(nav + DIFS + slots * SLOT));
    // A later reception finds the NAV expired: only its own end and the EIFS count.
    let later = reset - 192 + 1;
    assert_eq!(after_a_vain_rts(Some(later)), us(later + RTS + EIFS + slots * SLOT));
}

#[test]
fn no_cts_under_a_nav() {
    // 0 → 1 with RTS; 2 receives only 1, so its NAV lasts until the end; 3 → 2 meanwhile.
    let testbed = Testbed::new(4).rts().link(0, 1).decodable(1, 2, STRONG_DBM).link(2, 3);
    let mut w = testbed.build();
    w.at(T, 0, 1).at(T + us(2000), 3, 2).run(T + us(60_000));
    let end = T + us(DIFS + RTS + SIFS + CTS + SIFS + DATA + SIFS + ACK);
    let rts: Vec<u64> = w.starts(3);
    let unanswered = rts.iter().take_while(|&&s| s + us(RTS) < end).count();
    assert!(unanswered >= 1);
    assert_eq!(rts[0], T + us(2000 + DIFS));
    let cts = w.frames(2).next().unwrap();
    assert_eq!(cts.kind, FrameKind::Cts);
    // The first RTS that ends after the NAV is answered.
    assert_eq!(cts.start.as_nanos(), rts[unanswered] + us(RTS + SIFS));
    assert_eq!(w.arrivals(), [(1, 0), (2, 300)]);
}

#[test]
fn a_cts_under_a_nav_by_the_rules_of_ns_3_only() {
    // 0 → 1, 28 packets in one frame; 2 receives only 1, and 3 sends it an RTS meanwhile.
    let answer_to_first = |testbed: Testbed| {
        let mut w = testbed.rts().link(0, 1).decodable(1, 2, STRONG_DBM).link(2, 3).build();
        for k in 0..28 {
            let packet = w.packet(0, 1, k);
            w.queue(T, 0, packet);
        }
        w.at(T + us(2000), 3, 2).run(T + us(60_000));
        let data = w.frames(0).find(|f| f.kind == FrameKind::Data).unwrap();
        let rts = w.frames(3).next().unwrap();
        assert!(data.start < rts.start && rts.end < data.end, "asked under the NAV");
        let cts = w.frames(2).find(|f| f.kind == FrameKind::Cts).unwrap();
        (cts.start.as_nanos() - rts.end.as_nanos(), w.arrivals().contains(&(2, 300)))
    };
    let (late, arrives) = answer_to_first(Testbed::today(4, 64));
    assert!(late > us(1000) && arrives);
    assert_eq!(answer_to_first(Testbed::today(4, 64).by_ns3()), (16_000, true));
}

#[test]
fn an_ack_is_sent_under_a_nav() {
    // As above, but station 3 sends its data without RTS.
    let mut testbed = Testbed::new(4).rts().link(0, 1).decodable(1, 2, STRONG_DBM).link(2, 3);
    testbed.mac.rts_threshold = Some(BYTES + 36);
    let mut w = testbed.build();
    let small = Outgoing { bytes: 100, ..w.packet(3, 2, 0) };
    w.at(T, 0, 1).queue(T + us(2000), 3, small).run(T + us(8000));
    assert_eq!(w.kinds(2), [FrameKind::Ack]);
    assert_eq!(w.starts(2)[0], w.starts(3)[0] + us(192 + 8 * 136 + SIFS));
}
