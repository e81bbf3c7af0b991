//! Causes of unanswered frames: the stations with frames that overlapped them.

use fairmesh_units::NodeId;
use fairmesh_wifi::LinkLosses;

use crate::testbed::*;

fn losses(w: &World, from: u32, to: u32) -> LinkLosses {
    w.air.losses(w.air.link(NodeId(from), NodeId(to)).unwrap()).clone()
}

#[test]
fn a_hidden_terminal_is_named_at_both_links() {
    // 0 → 1 ← 2: 0 and 2 do not sense each other, and begin at the same instant.
    let mut w = Testbed::new(3).link(0, 1).link(2, 1).build();
    w.at(us(10_000), 0, 1).at(us(10_000), 2, 1).run(us(18_600));
    for (from, hidden) in [(0, 2), (2, 0)] {
        let l = losses(&w, from, 1);
        assert_eq!((l.attempts, l.unanswered, l.clean, l.response_lost), (1, 1, 0, 0));
        assert_eq!(l.overlapped_by, [(NodeId(hidden), 1)]);
        assert!(!w.air.senses(NodeId(from), NodeId(hidden)));
    }
    assert!(w.air.senses(NodeId(1), NodeId(0)));
}

#[test]
fn a_receiver_that_was_sending_is_named() {
    // 1 sends to 2 and does not sense 0, which sends to 1 meanwhile.
    let mut w = Testbed::new(3).decodable(0, 1, STRONG_DBM).link(1, 2).build();
    w.at(us(10_000), 1, 2).at(us(12_000), 0, 1).run(us(20_600));
    // The acknowledgement of 2 overlaps the frame, too.
    assert_eq!(losses(&w, 0, 1).overlapped_by, [(NodeId(1), 1), (NodeId(2), 1)]);
}

#[test]
fn frame_errors_and_lost_responses_name_no_station() {
    let mut w = Testbed::new(2).link(0, 1).loses(0, 1).attempts(3, 3).build();
    w.at(us(10_000), 0, 1).run(us(100_000));
    let l = losses(&w, 0, 1);
    assert_eq!((l.attempts, l.unanswered, l.clean), (3, 3, 3));
    // The return path is too weak: every response is lost.
    let mut w =
        Testbed::new(2).decodable(0, 1, STRONG_DBM).senses(1, 0, -90.0).attempts(3, 3).build();
    w.at(us(10_000), 0, 1).run(us(100_000));
    let l = losses(&w, 0, 1);
    assert_eq!((l.attempts, l.unanswered, l.response_lost), (3, 3, 3));
    assert!(l.overlapped_by.is_empty());
}

#[test]
fn an_interferer_has_the_number_after_the_stations() {
    let mut w =
        Testbed::new(2).link(0, 1).attempts(1, 1).noise(1, STRONG_DBM, 12_000, 1_000).build();
    w.at(us(10_000), 0, 1).run(us(30_000));
    assert_eq!(losses(&w, 0, 1).overlapped_by, [(NodeId(2), 1)]);
}
