use proptest::prelude::*;

use super::*;

fn at(ms: u64) -> Time {
    Time::ZERO + Span::from_millis(ms)
}

fn address(n: u32) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, n as u8], 5247))
}

fn key(octet: u8) -> Key {
    Key::new([octet; 32])
}

/// Returns a source of numbers that differ from start to start.
fn random_source(seed: u64) -> Box<dyn FnMut() -> u64> {
    let mut stream = fairmesh_units::Stream::new(seed, "peers");
    Box::new(move || u64::from(stream.below(u32::MAX)) << 32 | u64::from(stream.below(u32::MAX)))
}

fn gateway(n: u32, others: &[u32], seed: u64) -> Exchange {
    let peers: Vec<SocketAddr> = others.iter().map(|n| address(*n)).collect();
    Exchange::new(n, key(1), &peers, random_source(seed))
}

/// A wire between gateways that keeps all datagrams.
#[derive(Default)]
struct Wire {
    /// Sender, receiver, bytes.
    all: Vec<(SocketAddr, SocketAddr, Vec<u8>)>,
    /// Receiver, sender and body of accepted messages.
    received: Vec<(u32, u32, Vec<u8>)>,
}

impl Wire {
    /// Sends all due heartbeats and responses, and delivers them.
    fn pass(&mut self, now: Time, gateways: &mut [&mut Exchange]) {
        let mut out = Vec::new();
        for g in gateways.iter_mut() {
            let mut sent_datagrams = Vec::new();
            g.keep_alive(now, &mut sent_datagrams);
            let from = address(g.number);
            out.extend(sent_datagrams.into_iter().map(|(_, to, bytes)| (from, to, bytes)));
        }
        self.carry(now, gateways, out);
    }

    fn carry(
        &mut self,
        now: Time,
        gateways: &mut [&mut Exchange],
        out: Vec<(SocketAddr, SocketAddr, Vec<u8>)>,
    ) {
        for (from, to, bytes) in out {
            if let Some(g) = gateways.iter_mut().find(|g| address(g.number) == to)
                && let Ok(received) = g.receive(now, from, &bytes)
                && let Some(body) = received.body
            {
                self.received.push((g.number, received.number, body.to_vec()));
            }
            self.all.push((from, to, bytes));
        }
    }

    fn send_message(
        &mut self,
        now: Time,
        gateways: &mut [&mut Exchange],
        sender: usize,
        body: &[u8],
    ) {
        let mut sent_datagrams = Vec::new();
        gateways[sender].send_message(now, body, &mut sent_datagrams);
        let from = address(gateways[sender].number);
        let out = sent_datagrams.into_iter().map(|(_, to, bytes)| (from, to, bytes)).collect();
        self.carry(now, gateways, out);
    }

    /// Passes every 250 ms between two times.
    fn run(&mut self, from: u64, to: u64, gateways: &mut [&mut Exchange]) {
        for ms in (from..to).step_by(250) {
            self.pass(at(ms), gateways);
        }
    }
}

fn state(e: &Exchange, now: Time) -> String {
    e.report(now)[0].state.clone()
}

fn count(e: &Exchange, cause: Cause) -> u64 {
    e.rejected().find(|r| r.0 == cause).unwrap().1
}

#[test]
fn two_starting_gateways_connect_within_a_second() {
    let (mut a, mut b) = (gateway(1, &[2], 1), gateway(2, &[1], 2));
    let mut wire = Wire::default();
    wire.run(0, 1250, &mut [&mut a, &mut b]);
    assert_eq!([state(&a, at(1250)), state(&b, at(1250))], ["here", "here"]);
    wire.send_message(at(1250), &mut [&mut a, &mut b], 0, b"state");
    assert_eq!(wire.received, [(2, 1, b"state".to_vec())]);
    assert_eq!(a.changes(at(1250)), [Change::Active(2, address(2))]);
    let late = |a: &Exchange, b: &Exchange| count(a, Cause::Late) + count(b, Cause::Late);
    let before = late(&a, &b);
    // A minute later, after several changes of the challenges.
    wire.run(1500, 60_000, &mut [&mut a, &mut b]);
    assert!(a.changes(at(60_000)).is_empty());
    assert_eq!(late(&a, &b), before);
    // A heartbeat in two seconds, in each direction.
    assert!((28..40).contains(&a.report(at(60_000))[0].sent), "{:?}", a.report(at(60_000)));
}

#[test]
fn replayed_datagrams_are_rejected() {
    let (mut a, mut b) = (gateway(1, &[2], 1), gateway(2, &[1], 2));
    let mut wire = Wire::default();
    for second in 0..30 {
        wire.run(1000 * second, 1000 * (second + 1), &mut [&mut a, &mut b]);
        wire.send_message(at(1000 * second + 999), &mut [&mut a, &mut b], 0, b"state");
    }
    let received = wire.received.len();
    assert!(received >= 28);
    let again = |b: &mut Exchange, now| {
        let believed = |e: &&(SocketAddr, SocketAddr, Vec<u8>)| b.receive(now, e.0, &e.2).is_ok();
        wire.all.iter().filter(|e| e.1 == address(2)).filter(believed).count()
    };
    assert_eq!(again(&mut b, at(30_000)), 0, "at the same gateway");
    assert!(count(&b, Cause::Replayed) >= received as u64);
    // After its own restart, whatever its clock shows then.
    for now in [0, 30_000, 1_000_000_000] {
        assert_eq!(again(&mut gateway(2, &[1], 3), at(now)), 0, "after a restart");
    }
    // After a restart of the sender: its earlier run is over.
    let mut a2 = gateway(1, &[2], 4);
    let mut next = Wire::default();
    next.run(30_000, 32_000, &mut [&mut a2, &mut b]);
    assert_eq!(state(&b, at(32_000)), "here");
    assert_eq!(b.report(at(32_000))[0].starts, 2);
    assert!(b.changes(at(32_000)).contains(&Change::Restarted(1, address(1))));
    assert_eq!(again(&mut b, at(32_000)), 0, "of an earlier run");
    next.run(32_000, 34_000, &mut [&mut a2, &mut b]);
    next.send_message(at(34_000), &mut [&mut a2, &mut b], 0, b"new");
    assert_eq!(next.received.last(), Some(&(2, 1, b"new".to_vec())), "it stays connected");
    // And to a gateway that was not the receiver, and to the sender itself.
    let mut c = gateway(3, &[1, 2], 5);
    assert_eq!(again(&mut c, at(34_000)), 0);
    let own: Vec<_> = wire.all.iter().filter(|e| e.0 == address(1)).collect();
    assert!(own.iter().all(|e| a.receive(at(34_000), address(2), &e.2) == Err(Cause::Number)));
}

/// The only effect of an attacker that delays datagrams.
#[test]
fn long_delayed_datagrams_are_rejected() {
    for held in [5_000, 9_000, 21_000, 100_000] {
        let (mut a, mut b) = (gateway(1, &[2], 1), gateway(2, &[1], 2));
        let mut wire = Wire::default();
        wire.run(0, 3000, &mut [&mut a, &mut b]);
        let mut sent_datagrams = Vec::new();
        a.send_message(at(3000), b"old", &mut sent_datagrams);
        assert_eq!(sent_datagrams.len(), 1);
        let received =
            b.receive(at(3000 + held), address(1), &sent_datagrams[0].2).map(|h| h.number);
        let expected = if held > 20_000 { Err(Cause::Late) } else { Ok(1) };
        assert_eq!(received, expected, "{held} ms");
    }
}

#[test]
fn a_wire_that_is_cut_for_a_minute_is_used_again() {
    let (mut a, mut b) = (gateway(1, &[2], 1), gateway(2, &[1], 2));
    let mut wire = Wire::default();
    wire.run(0, 5000, &mut [&mut a, &mut b]);
    a.changes(at(5000));
    for ms in (5000..65_000).step_by(250) {
        // Each sends, none receives.
        wire.pass(at(ms), &mut [&mut a]);
        wire.pass(at(ms), &mut [&mut b]);
    }
    assert_eq!(a.changes(at(65_000)), [Change::TimedOut(2, address(2))]);
    assert_eq!(state(&a, at(65_000)), "silent");
    let mut out = Vec::new();
    a.send_message(at(65_000), b"no receiver", &mut out);
    assert!(out.iter().all(|d| Frame::open(&d.2, &key(1)).unwrap().body.is_none()));
    wire.run(65_000, 68_000, &mut [&mut a, &mut b]);
    assert_eq!([state(&a, at(68_000)), state(&b, at(68_000))], ["here", "here"]);
    assert_eq!(a.report(at(68_000))[0].starts, 1, "it was the same all the time");
    // One direction only is not a connection.
    for ms in (68_000..120_000).step_by(250) {
        let mut sent_datagrams = Vec::new();
        a.keep_alive(at(ms), &mut sent_datagrams);
        for (_, _, bytes) in sent_datagrams {
            let _ = b.receive(at(ms), address(1), &bytes);
        }
        b.keep_alive(at(ms), &mut Vec::new());
        b.changes(at(ms));
    }
    assert_eq!(state(&b, at(120_000)), "silent");
}

/// A replay of earlier datagrams by an attacker does not separate two gateways.
#[test]
fn replayed_datagrams_do_not_disconnect_peers() {
    let (mut a, mut b) = (gateway(1, &[2], 1), gateway(2, &[1], 2));
    let mut wire = Wire::default();
    wire.run(0, 20_000, &mut [&mut a, &mut b]);
    let kept = wire.all.clone();
    let (mut here, mut received) = (0, 0);
    for ms in (20_000..60_000).step_by(250) {
        if ms == 40_000 {
            // One restarts during the replay.
            a = gateway(1, &[2], 7);
        }
        wire.pass(at(ms), &mut [&mut a, &mut b]);
        for (from, to, bytes) in kept.iter().skip(ms as usize % 7).step_by(7) {
            let g = if *to == address(1) { &mut a } else { &mut b };
            received += u32::from(g.receive(at(ms), *from, bytes).is_ok());
        }
        here += u32::from(state(&b, at(ms)) == "here" && state(&a, at(ms)) == "here");
        b.changes(at(ms));
    }
    assert_eq!(received, 0);
    assert!(here > 150, "{here} of 160 quarters of a second");
}

#[test]
fn wrong_keys_numbers_and_versions_are_reported() {
    let now = at(1000);
    let mut b = gateway(2, &[1, 3], 2);
    let hello = |n: u32, k: u8| {
        let mut out = Vec::new();
        let mut other = Exchange::new(n, key(k), &[address(2)], random_source(u64::from(n)));
        other.keep_alive(now, &mut out);
        out.remove(0).2
    };
    let problem = |b: &Exchange| b.report(now)[0].problem.clone().unwrap_or_default();
    assert_eq!(b.receive(now, address(1), &hello(1, 9)), Err(Cause::Tag));
    assert!(problem(&b).contains("copy the same key file"), "{}", problem(&b));
    assert_eq!(b.receive(now, address(1), &hello(2, 1)), Err(Cause::Number), "this one's");
    assert!(problem(&b).contains("peers.number"));
    assert_eq!(b.receive(now, address(9), &hello(1, 1)), Err(Cause::Stranger));
    let other_port = SocketAddr::from(([192, 0, 2, 1], 9));
    assert_eq!(b.receive(now, other_port, &hello(1, 1)), Err(Cause::Stranger));
    let mut newer = hello(1, 1);
    newer[4] = 2;
    assert_eq!(b.receive(now, address(1), &newer), Err(Cause::Version));
    assert_eq!(b.receive(now, address(1), b"GET / HTTP/1.1"), Err(Cause::Malformed));
    // Two with one number: the first one keeps it.
    let (mut a, mut liar) = (gateway(1, &[2], 1), gateway(1, &[2], 5));
    let mut wire = Wire::default();
    wire.run(2000, 4000, &mut [&mut a, &mut b]);
    let mut sent_datagrams = Vec::new();
    liar.keep_alive(at(4000), &mut sent_datagrams);
    assert_eq!(b.receive(at(4000), address(3), &sent_datagrams[0].2), Err(Cause::Number));
    assert_eq!(b.report(at(4000))[0].problem, None, "no other peer has a problem");
    let mapped: SocketAddr = "[::ffff:192.0.2.1]:5247".parse().unwrap();
    let mut sent_datagrams = Vec::new();
    a.send_message(at(4000), b"x", &mut sent_datagrams);
    assert!(b.receive(at(4000), mapped, &sent_datagrams[0].2).is_ok(), "IPv4 on a socket for both");
}

/// A flood from one peer's address causes a bounded number of tag checks.
///
/// It does not affect the other peers.
#[test]
fn a_flood_is_cut_off() {
    let (mut a, mut b) = (gateway(1, &[2], 1), gateway(2, &[1, 3], 2));
    let mut wire = Wire::default();
    wire.run(0, 2000, &mut [&mut a, &mut b]);
    let junk = Frame { number: 3, epoch: 1, sequence: 1, challenge: 1, echo: 1, body: None };
    let junk = junk.seal(&key(9));
    let tags: Vec<_> = (0..5000).map(|_| b.receive(at(2000), address(3), &junk)).collect();
    assert_eq!(tags.iter().filter(|t| **t == Err(Cause::Tag)).count(), 400);
    assert_eq!(count(&b, Cause::Flood), 4600);
    wire.send_message(at(2000), &mut [&mut a, &mut b], 0, b"state");
    assert_eq!(wire.received.len(), 1);
    assert_eq!(b.receive(at(3000), address(3), &junk), Err(Cause::Tag), "a second later");
}

proptest! {
    /// With datagrams lost, repeated, late and in any order, each accepted one is new.
    ///
    /// They are in the order of sending, and at most two challenge periods old.
    #[test]
    fn accepted_datagrams_are_new_and_in_order(
        acts in prop::collection::vec((0u8..5, any::<prop::sample::Index>(), any::<bool>()), 1..300),
    ) {
        let (mut a, mut b) = (gateway(1, &[2], 1), gateway(2, &[1], 2));
        let mut wire: Vec<(u64, bool, Vec<u8>)> = Vec::new();
        let (mut n, mut last, mut now) = (0_u64, None, 0_u64);
        let mut seed = 10;
        for (act, which, to_b) in acts {
            now += 700;
            let mut out = Vec::new();
            match act {
                0 => {
                    n += 1;
                    a.send_message(at(now), &n.to_be_bytes(), &mut out);
                    wire.extend(out.drain(..).map(|d| (now, true, d.2)));
                }
                1 => {
                    a.keep_alive(at(now), &mut out);
                    wire.extend(out.drain(..).map(|d| (now, true, d.2)));
                    b.keep_alive(at(now), &mut out);
                    wire.extend(out.drain(..).map(|d| (now, false, d.2)));
                }
                // The newest one, in the right order more often than not.
                2 | 3 if !wire.is_empty() => {
                    let at_wire = if act == 2 { wire.len() - 1 } else { which.index(wire.len()) };
                    let (sent_datagrams, to, bytes) = wire[at_wire].clone();
                    let (g, from) = if to { (&mut b, address(1)) } else { (&mut a, address(2)) };
                    if let Ok(received) = g.receive(at(now), from, &bytes) {
                        prop_assert!(now - sent_datagrams <= 20_000, "{} ms old", now - sent_datagrams);
                        if let Some(body) = received.body {
                            let body = u64::from_be_bytes(body.try_into().unwrap());
                            prop_assert!(last.is_none_or(|l| body > l), "{body} after {last:?}");
                            last = Some(body);
                        }
                    }
                }
                4 if to_b && which.index(8) == 0 => {
                    seed += 1;
                    a = gateway(1, &[2], seed);
                }
                _ => {}
            }
        }
    }
}
