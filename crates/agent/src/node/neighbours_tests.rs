use proptest::prelude::*;

use super::*;
use crate::key::Key;
use crate::node::message::Field;

const PERIOD: Span = Span::from_secs(1);

fn at(ms: u64) -> Time {
    Time::ZERO + Span::from_millis(ms)
}

fn key(octet: u8) -> MeshKey {
    MeshKey::new(Key::new([octet; 32]))
}

fn mac(n: u32) -> MacAddr {
    let [a, b, c, d] = n.to_be_bytes();
    MacAddr([2, 0, a, b, c, d])
}

fn receiver() -> Neighbours {
    Neighbours::new(key(1), vec![mac(0)], PERIOD, Time::ZERO)
}

fn announcer(n: u32, run: u32) -> Announcer {
    Announcer::new(key(1), mac(n), run)
}

fn body(text: &[u8]) -> Draft {
    let mut draft = Draft::new();
    assert!(draft.push(Field::Mechanism("gap")) && draft.push(Field::Body(text)));
    draft
}

fn count(n: &Neighbours, cause: Cause) -> u64 {
    n.refused().find(|r| r.0 == cause).unwrap().1
}

#[test]
fn a_message_is_accepted_once_and_in_order_only() {
    let (mut here, mut there) = (receiver(), announcer(1, 7));
    let bytes: Vec<_> = (0..3).map(|i| there.seal(at(i), &body(b"x")).unwrap()).collect();
    let first = here.receive(at(10), Carrier::Udp, &bytes[0]).unwrap();
    assert!(first.appeared && !first.restarted && first.message.mac == mac(1));
    assert_eq!(here.receive(at(11), Carrier::Udp, &bytes[0]), Err(Cause::Replayed));
    assert!(!here.receive(at(12), Carrier::Udp, &bytes[2]).unwrap().appeared);
    assert_eq!(here.receive(at(13), Carrier::Udp, &bytes[1]), Err(Cause::Replayed), "an older one");
    assert_eq!(here.senders().next().unwrap().1.lost, 1);
    // A restart: from then on, the earlier run is refused.
    let next = announcer(1, 8).seal(at(20), &body(b"x")).unwrap();
    assert!(here.receive(at(20), Carrier::Udp, &next).unwrap().restarted);
    let old = there.seal(at(30), &body(b"x")).unwrap();
    assert_eq!(here.receive(at(31), Carrier::Udp, &old), Err(Cause::Replayed));
}

#[test]
fn a_copy_over_the_other_carrier_is_ignored_without_a_warning() {
    let (mut here, mut there) = (receiver(), announcer(1, 7));
    let bytes: Vec<_> = (0..2).map(|i| there.seal(at(i), &body(b"x")).unwrap()).collect();
    let mut receive = |ms, carrier, n: usize| here.receive(at(ms), carrier, &bytes[n]).map(drop);
    assert_eq!(receive(10, Carrier::ActionFrames, 0), Ok(()));
    assert_eq!(receive(11, Carrier::Udp, 0), Err(Cause::Copy));
    assert_eq!(receive(12, Carrier::ActionFrames, 0), Err(Cause::Replayed), "the same carrier");
    assert_eq!(receive(13, Carrier::Udp, 1), Ok(()));
    assert_eq!(receive(14, Carrier::ActionFrames, 0), Err(Cause::Replayed), "an older one");
    assert_eq!(receive(15, Carrier::ActionFrames, 1), Err(Cause::Copy));
    assert_eq!(here.last_refused(), Some((Some(mac(1)), Cause::Replayed)));
    assert_eq!(here.senders().next().unwrap().1.received, 2);
}

#[test]
fn a_sender_expires_by_the_clock_of_the_receiver() {
    let (mut here, mut there) = (receiver(), announcer(1, 7));
    let bytes = there.seal(at(0), &body(b"x")).unwrap();
    here.receive(at(1000), Carrier::Udp, &bytes).unwrap();
    assert_eq!(here.next_expiry(), at(4000) + Span::from_nanos(1));
    assert_eq!(here.expire(at(4000)), []);
    assert_eq!(here.expire(here.next_expiry()), [mac(1)]);
    assert_eq!(here.expire(at(5000)), [], "reported once");
    assert_eq!(here.next_expiry(), Time::NEVER);
    // A recorded message does not revive it; a new one does.
    assert_eq!(here.receive(at(6000), Carrier::Udp, &bytes), Err(Cause::Replayed));
    assert!(
        here.receive(at(7000), Carrier::Udp, &there.seal(at(7000), &body(b"x")).unwrap())
            .unwrap()
            .appeared
    );
    assert_eq!(here.senders().count(), 1);
    assert_eq!(here.expire(at(7000) + SENDER_LIFETIME + Span::from_nanos(1)), [mac(1)]);
    assert_eq!(here.senders().count(), 0, "forgotten");
}

#[test]
fn thousands_of_forged_addresses_use_no_memory() {
    let mut here = receiver();
    for n in 0..5000 {
        // Of a mesh that an attacker can imitate except for its key.
        let mut forged = Announcer::new(key(2), mac(n), 1).seal(at(0), &body(b"x")).unwrap();
        forged[4..8].copy_from_slice(&announcer(1, 1).seal(at(0), &body(b"x")).unwrap()[4..8]);
        assert!(here.receive(at(u64::from(n)), Carrier::Udp, &forged).is_err());
    }
    assert_eq!(here.senders().count(), 0);
    assert!(count(&here, Cause::Tag) > 4000 && count(&here, Cause::Own) == 1);
}

/// A member with the key that invents neighbours.
#[test]
fn thousands_of_signed_addresses_use_a_bounded_table() {
    let mut here = receiver();
    for n in 1..=5000 {
        let _ =
            here.receive(at(0), Carrier::Udp, &announcer(n, 1).seal(at(0), &body(b"x")).unwrap());
    }
    assert_eq!(here.senders().count(), MAX_NEIGHBOURS);
    let [crowd, flood] = [Cause::Crowd, Cause::Flood].map(|c| count(&here, c));
    assert_eq!(crowd + flood, 5000 - MAX_NEIGHBOURS as u64);
    assert_eq!(flood, 5000 - u64::from(CHECKS_PER_SECOND), "tags checked in one second");
    // Places of inactive ones are free.
    let late = announcer(9000, 1).seal(at(0), &body(b"x")).unwrap();
    assert_eq!(here.receive(at(3000), Carrier::Udp, &late), Err(Cause::Crowd));
    assert!(here.receive(at(3001), Carrier::Udp, &late).is_ok());
    assert_eq!(here.senders().count(), MAX_NEIGHBOURS);
}

#[test]
fn a_sender_keeps_its_rate_and_a_receiver_enforces_it() {
    for size in [1, 150] {
        let text = vec![0; size];
        let (mut here, mut there) = (receiver(), announcer(1, 1));
        let (mut sent, mut octets) = (0_u32, 0_usize);
        for ms in 0..10_000 {
            match there.seal(at(ms), &body(&text)) {
                Ok(bytes) => {
                    sent += 1;
                    octets += bytes.len();
                    assert!(here.receive(at(ms), Carrier::Udp, &bytes).is_ok(), "{ms}");
                }
                Err(next) => assert!(next > at(ms) && next <= at(ms + 1000)),
            }
        }
        assert!(sent <= 10 * MESSAGES_PER_SECOND && octets <= 10 * OCTETS_PER_SECOND as usize);
        assert!(sent == 100 || octets > 9000, "{sent} messages, {octets} octets");
    }
    // Without the sender's restraint.
    let mut here = receiver();
    let accepted = (1..=1000).filter(|n| {
        let bytes = message::seal(&key(1), mac(1), 1, *n, &body(b"x"));
        here.receive(at(u64::from(*n)), Carrier::Udp, &bytes).is_ok()
    });
    assert_eq!(accepted.count(), 19, "the depth of a second, and a second");
}

proptest! {
    /// No order of messages of several runs makes a sender's state go back.
    #[test]
    fn numbers_only_rise(order in prop::collection::vec((0u32..4, 0u32..20, 0u64..2000), 1..80)) {
        let mut here = receiver();
        let (mut now, mut newest) = (0, None);
        for (run, sequence, pause) in order {
            now += pause;
            let bytes = message::seal(&key(1), mac(1), run, sequence, &Draft::new());
            here.expire(at(now));
            let accepted = here.receive(at(now), Carrier::Udp, &bytes).is_ok();
            let newer = newest.is_none_or(|n| (run, sequence) > n);
            prop_assert!(newer || !accepted);
            if accepted {
                newest = Some((run, sequence));
            }
        }
    }
}
