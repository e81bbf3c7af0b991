//! External behaviour.
//!
//! It includes timing of handshakes and ACKs, use of a link, response to loss and marks.

mod support;

use fairmesh_transport::{Congestion, Connection, Dialect, Flags, Segment, TcpConfig};
use fairmesh_units::{Span, Time};
use support::{Arrival, Bottleneck, CLIENT, Network, SERVER, World};

const DELAY: Span = Span::from_millis(10);

fn at(ms: u64) -> Time {
    Time::ZERO + Span::from_millis(ms)
}

/// Delivers all segments after 10 ms.
fn perfect(_: usize, now: Time, _: &Segment, out: &mut Vec<Arrival>) {
    out.push(Arrival { at: now + DELAY, ce: false });
}

/// As `perfect`, but loses the data segments with these (first) transmission numbers.
fn losing(lost: &'static [u64]) -> impl Network {
    let mut count = 0;
    move |from: usize, now: Time, seg: &Segment, out: &mut Vec<Arrival>| {
        if from == CLIENT && seg.len > 0 {
            count += 1;
            if lost.contains(&(count - 1)) {
                return;
            }
        }
        out.push(Arrival { at: now + DELAY, ce: false });
    }
}

#[test]
fn syn_is_repeated_without_end() {
    let mut world =
        World::new(&TcpConfig::ns3(), |_: usize, _: Time, _: &Segment, _: &mut Vec<Arrival>| {});
    world.connect();
    world.run_until(at(200_000));
    let times: Vec<f64> = world.log.iter().map(|(t, ..)| t.as_secs_f64()).collect();
    assert_eq!(times, [0.0, 3.0, 9.0, 21.0, 45.0, 93.0, 189.0]);
    assert!(world.log.iter().all(|(_, _, s)| s.flags == Flags::SYN && s.ip_bytes() == 40));
}

/// Returns the client's smoothed round trip at the end of a transfer with two lost SYN-ACKs.
fn round_trip_after_lost_syn_acks(dialect: Dialect) -> Option<Span> {
    let mut lost = 2;
    let net = move |from: usize, now: Time, _: &Segment, out: &mut Vec<Arrival>| {
        if from == SERVER && lost > 0 {
            lost -= 1;
            return;
        }
        out.push(Arrival { at: now + DELAY, ce: false });
    };
    let mut world = World::new(&TcpConfig { dialect, ..TcpConfig::ns3() }, net);
    world.write(CLIENT, 1000);
    world.connect();
    world.run_until(at(60_000));
    assert_eq!(world.delivered[SERVER], 1000);
    world.ends[CLIENT].stats().srtt
}

#[test]
fn syn_ack_is_repeated_until_it_arrives() {
    // RFC 6298 §3: no sample from a repeated SYN, so the only sample is the data segment's.
    assert_eq!(round_trip_after_lost_syn_acks(Dialect::Rfc), Some(DELAY * 2));
    // ns-3 counts from the first SYN: seconds, reduced by an eighth through the data's sample.
    assert!(round_trip_after_lost_syn_acks(Dialect::Ns3) > Some(Span::from_secs(2)));
}

#[test]
fn ecn_needs_both_ends() {
    let on = TcpConfig { ecn: true, ..TcpConfig::ns3() };
    let off = TcpConfig::ns3();
    for (a, b, expected) in [(on, on, true), (on, off, false), (off, on, false)] {
        let (mut client, mut server) = (Connection::client(&a), Connection::server(&b));
        client.write(5000);
        client.connect(Time::ZERO);
        let mut ect = false;
        for _ in 0..4 {
            while let Some(seg) = client.poll_transmit(Time::ZERO) {
                ect |= seg.flags.has(Flags::ECT);
                server.on_segment(Time::ZERO, &seg, false);
            }
            while let Some(seg) = server.poll_transmit(Time::ZERO) {
                assert!(!seg.flags.has(Flags::ECT), "pure ACKs are not ECT");
                client.on_segment(Time::ZERO, &seg, false);
            }
        }
        assert_eq!(ect, expected);
    }
}

#[test]
fn ect1_instead_of_ect0() {
    for ect1 in [false, true] {
        let cfg = TcpConfig { ecn: true, ect1, ..TcpConfig::ns3() };
        let (mut client, mut server) = (Connection::client(&cfg), Connection::server(&cfg));
        client.write(5000);
        client.connect(Time::ZERO);
        let mut data = 0;
        for _ in 0..4 {
            while let Some(seg) = client.poll_transmit(Time::ZERO) {
                assert_eq!(seg.flags.has(Flags::ECT), seg.len > 0);
                assert_eq!(seg.flags.has(Flags::ECT1), seg.len > 0 && ect1);
                data += u32::from(seg.len > 0);
                server.on_segment(Time::ZERO, &seg, false);
            }
            while let Some(seg) = server.poll_transmit(Time::ZERO) {
                assert!(!seg.flags.has(Flags::ECT1));
                client.on_segment(Time::ZERO, &seg, false);
            }
        }
        assert_eq!(data, 4);
    }
}

#[test]
fn congestion_is_echoed_until_answered() {
    let cfg = TcpConfig { ecn: true, ..TcpConfig::ns3() };
    let (mut client, mut server) = (Connection::client(&cfg), Connection::server(&cfg));
    client.connect(Time::ZERO);
    while let Some(seg) = client.poll_transmit(Time::ZERO) {
        server.on_segment(Time::ZERO, &seg, false);
        while let Some(seg) = server.poll_transmit(Time::ZERO) {
            client.on_segment(Time::ZERO, &seg, false);
        }
    }
    assert!(server.is_established());
    let mut send = |n: u64, flags: Flags, ce: bool| {
        let seg = Segment {
            seq: 1 + 100 * n,
            ack: 1,
            len: 100,
            flags: Flags::ACK | flags,
            ..Segment::default()
        };
        server.on_segment(Time::ZERO, &seg, ce);
        let ack = server.poll_transmit(Time::ZERO).unwrap();
        assert!(server.poll_transmit(Time::ZERO).is_none());
        ack.flags.has(Flags::ECE)
    };
    assert!(!send(0, Flags::NONE, false));
    assert!(send(1, Flags::NONE, true));
    assert!(send(2, Flags::NONE, false));
    assert!(!send(3, Flags::CWR, false));
    assert!(send(4, Flags::CWR, true), "marked again on the way");
}

#[test]
fn delayed_acks() {
    let delay = Span::from_millis(200);
    let cfg =
        TcpConfig { delayed_ack: Some(delay), initial_window: 10, mss: 1000, ..TcpConfig::ns3() };
    let mut world = World::new(&cfg, perfect);
    world.write(CLIENT, 6000);
    world.connect();
    world.run_until(at(1000));
    let acks: Vec<(Time, u64)> = world
        .log
        .iter()
        .filter(|(_, end, s)| *end == SERVER && s.is_pure_ack())
        .map(|(t, _, s)| (*t, s.ack))
        .collect();
    // The first immediately, then every second, and the last one after the delay.
    let arrived = at(30);
    assert_eq!(acks, [(arrived, 1001), (arrived, 3001), (arrived, 5001), (arrived + delay, 6001)]);
}

#[test]
fn gaps_are_acknowledged_at_once() {
    let cfg = TcpConfig {
        delayed_ack: Some(Span::from_millis(200)),
        initial_window: 10,
        mss: 1000,
        sack: true,
        ..TcpConfig::ns3()
    };
    let mut world = World::new(&cfg, losing(&[1]));
    world.write(CLIENT, 6000);
    world.connect();
    world.run_until(at(1000));
    let acks: Vec<(u64, Vec<(u32, u32)>)> = world
        .log
        .iter()
        .filter(|(_, end, s)| *end == SERVER && s.is_pure_ack())
        .map(|(_, _, s)| (s.ack, s.sack.as_slice().to_vec()))
        .collect();
    let hole = |to: u32| (1001, vec![(1000, to)]);
    assert_eq!(
        acks,
        [(1001, vec![]), hole(2000), hole(3000), hole(4000), hole(5000), (6001, vec![])]
    );
    // The retransmission was sent on the third duplicate, without a timer.
    assert_eq!(world.ends[CLIENT].stats().timeouts, 0);
    assert_eq!(world.ends[CLIENT].stats().retransmitted, 1);
}

#[test]
fn sack_repairs_many_losses_in_one_round_trip() {
    // Six segments of a window of 30 are lost. With SACK they are repaired within two round trips
    // of the first duplicate; without, one per round trip.
    const LOST: &[u64] = &[20, 22, 25, 30, 31, 40];
    let finish = |sack: bool| {
        let cfg = TcpConfig { sack, initial_window: 50, mss: 1000, ..TcpConfig::ns3() };
        let mut world = World::new(&cfg, losing(LOST));
        world.write(CLIENT, 50_000);
        world.connect();
        while world.delivered[SERVER] < 50_000 {
            assert!(world.step());
        }
        let stats = world.ends[CLIENT].stats();
        assert_eq!(stats.timeouts, 0);
        assert_eq!(stats.retransmitted, LOST.len() as u64);
        world.now
    };
    // Data is sent at 20 ms, duplicates return at 40, the repairs arrive at 50.
    assert_eq!(finish(true), at(50));
    // NewReno: the first at 50, then five more round trips of 20 ms.
    assert_eq!(finish(false), at(150));
}

#[test]
fn a_clean_link_is_filled() {
    for congestion in [Congestion::NewReno, Congestion::Cubic] {
        for cfg in [TcpConfig::ns3(), TcpConfig::rfc()] {
            let cfg = TcpConfig { congestion, ..cfg };
            // 10 Mbit/s, 20 ms round trip: 17 segments; the queue holds twice that.
            let mut world = World::new(&cfg, Bottleneck::new(10_000_000, DELAY, 40));
            world.write(CLIENT, u64::MAX);
            world.connect();
            world.run_until(at(10_000));
            let before = world.delivered[SERVER];
            // The overshoot of the first slow start may need a timeout; later losses do not.
            let timeouts = world.ends[CLIENT].stats().timeouts;
            world.run_until(at(40_000));
            let rate = (world.delivered[SERVER] - before) as f64 * 8.0 / 30.0;
            let share = rate / (10e6 * 1460.0 / 1500.0);
            assert!((0.97..=1.0).contains(&share), "{congestion:?}: {share}");
            assert_eq!(world.ends[CLIENT].stats().timeouts, timeouts, "{congestion:?}");
        }
    }
}

#[test]
fn marks_replace_losses() {
    let cfg = TcpConfig { ecn: true, ..TcpConfig::rfc() };
    let mut net = Bottleneck::new(10_000_000, DELAY, 60);
    net.mark_at = 20;
    let mut world = World::new(&cfg, net);
    world.write(CLIENT, u64::MAX);
    world.connect();
    world.run_until(at(30_000));
    let stats = world.ends[CLIENT].stats();
    assert_eq!((stats.retransmitted, stats.timeouts), (0, 0));
    assert!(stats.ecn_reductions > 5);
    // At most one reduction per round trip, which takes at least 20 ms with a queue of 20 to 40
    // segments.
    assert!(stats.ecn_reductions < 30_000 / 20);
    let share = world.delivered[SERVER] as f64 * 8.0 / 30.0 / (10e6 * 1460.0 / 1500.0);
    assert!(share > 0.95, "{share}");
}

#[test]
fn the_window_saws_between_half_and_full() {
    // Congestion avoidance on a fixed pipe loses one segment per tooth: the window grows from P/2
    // to P by one per round trip (3/8 P² segments), P more are sent before the loss is detected,
    // and P/2 during the recovery.
    let mut world = World::new(&TcpConfig::ns3(), Bottleneck::new(2_000_000, DELAY, 20));
    world.write(CLIENT, u64::MAX);
    world.connect();
    world.run_until(at(20_000));
    let before = world.ends[CLIENT].stats();
    world.run_until(at(220_000));
    let after = world.ends[CLIENT].stats();
    let sent = (after.segments_sent - before.segments_sent) as f64;
    let losses = (after.fast_recoveries - before.fast_recoveries) as f64;
    // The pipe: 20 in the queue and the 20 ms of 2 Mbit/s in flight; one more is lost.
    let peak = 20.0 + 20e-3 * 2e6 / 12_000.0 + 1.0;
    let expected = 1.0 / (3.0 / 8.0 * peak * peak + 1.5 * peak);
    let ratio = losses / sent / expected;
    assert!((0.9..1.1).contains(&ratio), "{ratio}");
}

#[test]
fn both_ends_close_and_become_idle() {
    let mut world = World::new(&TcpConfig::ns3(), losing(&[]));
    world.write(CLIENT, 3000);
    world.write(SERVER, 700);
    world.close(CLIENT);
    world.connect();
    while world.step() {}
    assert_eq!(world.delivered, [700, 3000]);
    for end in &world.ends {
        assert!(end.is_closed());
        assert_eq!(end.next_deadline(), Time::NEVER);
    }
    // The FIN is on the last data segment.
    let fins: Vec<u32> = world
        .log
        .iter()
        .filter(|(_, end, s)| *end == CLIENT && s.flags.has(Flags::FIN))
        .map(|(_, _, s)| s.len)
        .collect();
    assert_eq!(fins, [3000 - 2 * 1460]);
}

#[test]
fn an_endless_source_stops_where_it_is() {
    let mut world = World::new(&TcpConfig::ns3(), Bottleneck::new(1_000_000, DELAY, 30));
    world.write(CLIENT, u64::MAX);
    world.connect();
    world.run_until(at(5_000));
    world.close(CLIENT);
    while world.step() {}
    assert!(world.ends[CLIENT].is_closed() && world.ends[SERVER].is_closed());
    assert!(world.now < at(6_000));
    assert_eq!(world.delivered[SERVER], world.ends[CLIENT].stats().bytes_acked);
}

/// Instants at which new data was sent, ms.
fn departures<N: Network>(world: &World<N>) -> Vec<f64> {
    let mut top = 0;
    let new = |(at, from, seg): &(Time, usize, Segment)| {
        if *from != CLIENT || seg.len == 0 || seg.seq < top {
            return None;
        }
        top = seg.seq + 1;
        Some(at.as_secs_f64() * 1e3)
    };
    world.log.iter().filter_map(new).collect()
}

#[test]
fn pacing_keeps_the_set_spacing_with_any_window() {
    let mut world = World::new(&TcpConfig::ns3(), perfect);
    world.ends[CLIENT].pace(Some(Span::from_millis(7)), true);
    world.write(CLIENT, 100 * 1460);
    world.connect();
    world.run_until(at(2000));
    assert_eq!(world.delivered[SERVER], 100 * 1460);
    let left = departures(&world);
    // The window of one round trip (20 ms) holds two segments at first, three and more later.
    assert!(left.windows(2).all(|w| w[1] - w[0] >= 7.0 - 1e-6), "{left:?}");
    let steady = &left[10..];
    assert!(steady.windows(2).all(|w| (w[1] - w[0] - 7.0).abs() < 1e-6), "{left:?}");
}

/// Rangwala 2008 §3.1: a rate, TCP's recovery, no congestion window.
#[test]
fn an_interval_replaces_the_congestion_window() {
    let mut world = World::new(&TcpConfig { sack: true, ..TcpConfig::ns3() }, losing(&[10, 11]));
    world.ends[CLIENT].pace(Some(Span::from_millis(2)), false);
    world.write(CLIENT, 200 * 1460);
    world.connect();
    world.run_until(at(2000));
    assert_eq!(world.delivered[SERVER], 200 * 1460);
    assert_eq!(world.ends[CLIENT].stats().retransmitted, 2);
    let data = |(_, from, seg): &&(Time, usize, Segment)| *from == CLIENT && seg.len > 0;
    let left: Vec<f64> =
        world.log.iter().filter(data).map(|(t, _, _)| t.as_secs_f64() * 1e3).collect();
    // From the first segment on, through losses and including repeated segments.
    assert!(left.windows(2).all(|w| (w[1] - w[0] - 2.0).abs() < 1e-6), "{left:?}");
}

#[test]
fn spacing_ends_when_it_is_lifted() {
    let mut world = World::new(&TcpConfig::ns3(), perfect);
    world.ends[CLIENT].pace(Some(Span::from_millis(100)), true);
    world.write(CLIENT, 10 * 1460);
    world.connect();
    world.run_until(at(250));
    world.ends[CLIENT].pace(None, true);
    world.run_until(at(1000));
    let left = departures(&world);
    assert_eq!(left[..3], [20.0, 120.0, 220.0]);
    // The waiting segment is sent at its time at the latest; the rest by the window.
    assert_eq!((left.len(), world.delivered[SERVER]), (10, 10 * 1460));
    assert!(left[9] < 450.0, "{left:?}");
}

#[test]
fn retransmissions_are_not_held_back() {
    let mut world = World::new(&TcpConfig::ns3(), losing(&[10]));
    world.ends[CLIENT].pace(Some(Span::from_millis(7)), true);
    world.write(CLIENT, 60 * 1460);
    world.connect();
    world.run_until(at(2000));
    assert_eq!(world.delivered[SERVER], 60 * 1460);
    let again = world.ends[CLIENT].stats();
    assert_eq!((again.retransmitted, again.timeouts), (1, 0));
    let data: Vec<f64> = world
        .log
        .iter()
        .filter(|(_, from, s)| *from == CLIENT && s.len > 0)
        .map(|(t, ..)| t.as_secs_f64() * 1e3)
        .collect();
    assert!(data.windows(2).any(|w| w[1] - w[0] < 7.0 - 1e-6), "all waited");
}

#[test]
fn pacing_by_the_window_spreads_it_over_a_round_trip() {
    let cfg = TcpConfig { pacing: true, max_window: Some(10), ..TcpConfig::ns3() };
    let mut world = World::new(&cfg, perfect);
    world.write(CLIENT, 400 * 1460);
    world.connect();
    world.run_until(at(5000));
    let left = departures(&world);
    // Round trip 20 ms; when the window has grown far beyond ten segments, ten are sent per round
    // trip: in bursts without pacing, separated with it.
    let rest = &left[300..];
    let together = rest.windows(2).filter(|w| w[1] - w[0] < 0.05).count();
    assert!(together == 0, "{together} of {} back to back", rest.len());
    assert_eq!(world.delivered[SERVER], 400 * 1460);
}
