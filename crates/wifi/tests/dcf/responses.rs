//! SIFS responses, broadcasts, overhearing.

use fairmesh_phy::{Phy, Preamble};
use fairmesh_units::{BitRate, NodeId};
use fairmesh_wifi::{FrameKind, Outcome, Outgoing, Reception};

use crate::testbed::*;

const T: u64 = us(10_000);

#[test]
fn an_ack_is_sent_on_a_busy_medium() {
    // Station 2 is 15 dB weaker at 1 and senses no station: it does not destroy 0's frame, and
    // outlasts it.
    let testbed =
        Testbed::new(4).link(0, 1).decodable(2, 1, STRONG_DBM - 15.0).decodable(2, 3, STRONG_DBM);
    let mut w = testbed.build();
    w.at(T, 0, 1).at(T + us(4000), 2, 3).run(T + us(30_000));
    let end = T + us(DIFS + DATA);
    assert!(w.starts(2)[0] < end && w.frames(2).next().unwrap().end.as_nanos() > end);
    assert_eq!(w.starts(1), [end + us(SIFS)]);
    assert_eq!(w.outcomes(0), [Outcome::Sent]);
}

#[test]
fn a_cts_goes_out_under_energy_too_weak_to_disturb() {
    // 2 is sensed at 1 before, during and after the RTS; only the NAV can prevent a CTS.
    let testbed = Testbed::new(4).rts().reception(Reception::Sinr).link(0, 1);
    let mut w = testbed.senses(2, 1, STRONG_DBM - 15.0).decodable(2, 3, STRONG_DBM).build();
    let broadcast = Outgoing { packet: 0, link: None, bytes: BYTES };
    w.queue(T, 2, broadcast).at(T + us(1000), 0, 1).run(T + us(5000));
    assert_eq!(w.kinds(1), [FrameKind::Cts]);
    assert_eq!(w.starts(1), [T + us(1000 + DIFS + RTS + SIFS)]);
}

/// A frame that arrives in the SIFS before a response is abandoned, without EIFS.
///
/// The rest of that frame, and of any other, keeps the medium busy.
#[test]
fn an_answer_ends_the_reception_of_a_newcomer() {
    for (second, last) in [(false, 3), (true, 9)] {
        let testbed = Testbed::new(5)
            .link(0, 1)
            .decodable(2, 1, STRONG_DBM)
            .link(2, 3)
            .decodable(1, 3, STRONG_DBM);
        let mut w = testbed.decodable(4, 1, STRONG_DBM).decodable(4, 3, STRONG_DBM).build();
        let end = T + us(DIFS + DATA);
        w.at(T, 0, 1).at(end + us(3) - us(DIFS), 2, 3).at(T + us(1000), 1, 3);
        if second {
            w.at(end + us(9) - us(DIFS), 4, 3);
        }
        w.run(T + us(19_000));
        assert_eq!(w.starts(2)[0], end + us(3));
        assert_eq!(w.starts(1)[0], end + us(SIFS));
        let slots = BackoffReplay::of(1).draw(31);
        assert_eq!(w.starts(1)[1], end + us(last + DATA + DIFS + slots * SLOT));
        assert_eq!(w.air.counters(NodeId(1)).collided, 0);
    }
}

#[test]
fn control_frames_keep_to_the_basic_rates() {
    let mut testbed = Testbed::cell(2);
    testbed.mac.phy = Phy::dot11b(Preamble::Long);
    testbed.mac.rate = testbed.mac.phy.rate(BitRate(11_000_000)).unwrap();
    let mut w = testbed.build();
    w.at(T, 0, 1).run(T + us(10_000));
    let rates: Vec<u64> = w.log.frames.iter().map(|f| w.air.phy().bit_rate(f.rate).0).collect();
    assert_eq!(rates, [11_000_000, 2_000_000]);
    assert_eq!(w.starts(1)[0], T + us(DIFS + 192 + 728 + SIFS));
    assert_eq!(w.log.frames[0].nav.as_nanos(), us(SIFS + 248));
}

#[test]
fn a_broadcast_is_sent_once_at_the_lowest_basic_rate() {
    let mut testbed = Testbed::cell(3);
    testbed.mac.phy = Phy::dot11b(Preamble::Long);
    testbed.mac.rate = testbed.mac.phy.highest();
    testbed.mac.rts_threshold = Some(0);
    let mut w = testbed.loses(0, 2).build();
    let packet = Outgoing { packet: 5, link: None, bytes: BYTES };
    w.queue(T, 0, packet).queue(T, 0, packet).run(T + us(30_000));
    let first = T + us(DIFS);
    let second = first + us(DATA + DIFS + BackoffReplay::of(0).draw(31) * SLOT);
    assert_eq!(w.starts(0), [first, second]);
    assert!(w.frames(0).all(|f| f.to.is_none() && !f.mpdus[0].retry && f.nav.as_nanos() == 0));
    assert!(w.frames(0).all(|f| w.air.phy().bit_rate(f.rate) == BitRate(1_000_000)));
    assert_eq!(w.log.frames.len(), 2, "no station responds");
    assert_eq!(w.log.received[0], (first + us(DATA), 1, 0, 5, true));
    assert_eq!(w.arrivals(), [(1, 5), (1, 5)], "none arrives at 2, and none is repeated");
    assert_eq!(w.outcomes(0), [Outcome::Sent; 2]);
    assert_eq!(w.air.counters(NodeId(0)).broadcast, 2);
}

#[test]
fn decoded_data_for_others_is_overheard() {
    let mut w = Testbed::cell(4).loses(0, 3).build();
    w.at(T, 0, 1).run(T + us(10_000));
    let end = T + us(DIFS + DATA);
    assert_eq!(w.log.overheard, [(end, 2, 0, 0, false)], "not by 3, not the ACK");
    assert_eq!(w.arrivals(), [(1, 0)]);
}

#[test]
fn kinds_are_counted() {
    let mut w = Testbed::cell(2).rts().build();
    w.at(T, 0, 1).run(T + us(20_000));
    let (a, b) = (w.air.counters(NodeId(0)), w.air.counters(NodeId(1)));
    assert_eq!((a.rts, a.data, b.cts, b.ack, b.received), (1, 1, 1, 1, 1));
    assert_eq!(w.kinds(1), [FrameKind::Cts, FrameKind::Ack]);
    assert_eq!(w.air.transmissions(), 4);
}
