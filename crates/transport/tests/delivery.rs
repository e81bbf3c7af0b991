//! TCP delivers each byte once, in order, and terminates, over any network.

mod support;

use fairmesh_transport::{Congestion, Dialect, Segment, TcpConfig};
use fairmesh_units::{Span, Stream, Time};
use proptest::prelude::*;
use support::{Arrival, CLIENT, SERVER, World};

fn any_config() -> impl Strategy<Value = TcpConfig> {
    let switches = (any::<[bool; 12]>(), 100u32..1500, 1u32..12);
    let times = (1u64..1500, 0u64..50, prop::option::of(1u64..500), 100u64..4000);
    (switches, times, prop::option::of(1u32..30)).prop_map(
        |((on, mss, initial_window), (min_rto, granularity, delayed_ack, syn), max_window)| {
            let ms = Span::from_millis;
            TcpConfig {
                congestion: match (on[0], on[8]) {
                    (true, _) if on[2] && on[6] && on[11] => Congestion::Prague,
                    (true, _) => Congestion::NewReno,
                    (false, true) => Congestion::Cubic,
                    (false, false) if on[11] => Congestion::Bbr3,
                    (false, false) => Congestion::Bbr,
                },
                mss,
                sack: on[1],
                ecn: on[2],
                ect1: on[6],
                ecn_backoff: on[3],
                initial_window,
                initial_rto: Span::from_secs(1),
                min_rto: ms(min_rto),
                max_rto: Span::from_secs(60),
                clock_granularity: ms(granularity),
                delayed_ack: delayed_ack.map(ms),
                max_window,
                syn_timeout: ms(syn),
                limited_transmit: on[3],
                one_rtt_sample: false,
                validate_window: on[4],
                idle_restart: on[5],
                pacing: on[7],
                burst: if on[9] { 1 } else { 4 },
                hystart: on[9],
                rack: on[1] && on[10],
                dialect: if on[6] { Dialect::Rfc } else { Dialect::Ns3 },
            }
        },
    )
}

/// Probabilities of impairments of a segment, and the spread of its delay.
#[derive(Clone, Copy, Debug)]
struct Impairments {
    drop: f64,
    duplicate: f64,
    mark: f64,
    spread_ms: f64,
}

fn any_impairments() -> impl Strategy<Value = Impairments> {
    let drop = prop_oneof![Just(0.0), 0.0..0.1, 0.1..0.5];
    let duplicate = prop_oneof![Just(0.0), 0.0..0.3];
    let spread = prop_oneof![Just(0.0), 0.0..200.0];
    (drop, duplicate, prop_oneof![Just(0.0), 0.0..0.5], spread).prop_map(
        |(drop, duplicate, mark, spread_ms)| Impairments { drop, duplicate, mark, spread_ms },
    )
}

fn impaired_network(
    bad: Impairments,
    seed: u64,
) -> impl FnMut(usize, Time, &Segment, &mut Vec<Arrival>) {
    let mut rng = Stream::new(seed, "network");
    move |_, now, _: &Segment, out| {
        if rng.chance(bad.drop) {
            return;
        }
        let copies = 1 + u32::from(rng.chance(bad.duplicate));
        for _ in 0..copies {
            let delay = Span::from_secs_f64(rng.uniform(5.0, 5.001 + bad.spread_ms) / 1e3);
            out.push(Arrival { at: now + delay, ce: rng.chance(bad.mark) });
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn every_byte_once_in_order_and_an_end(
        cfg in any_config(),
        bad in any_impairments(),
        seed: u64,
        up in 0u64..150_000,
        down in prop_oneof![Just(0u64), 0u64..60_000],
        server_closes: bool,
    ) {
        let mut world = World::new(&cfg, impaired_network(bad, seed));
        world.write(CLIENT, up);
        world.write(SERVER, down);
        world.connect();
        world.close(CLIENT);
        if server_closes {
            world.close(SERVER);
        }
        let mut steps = 0;
        while !(world.ends[CLIENT].is_closed() && world.ends[SERVER].is_closed()) {
            prop_assert!(world.step(), "deadlock: {:?} {:?}", world.ends[0], world.ends[1]);
            steps += 1;
            prop_assert!(steps < 200_000, "livelock at {:?}: {:?}", world.now, world.ends[0].stats());
        }
        prop_assert_eq!(world.delivered, [down, up]);
        for end in [CLIENT, SERVER] {
            let stats = world.ends[end].stats();
            prop_assert_eq!(stats.in_flight, 0);
            prop_assert_eq!(stats.outstanding, 0);
            prop_assert_eq!(stats.bytes_acked, if end == CLIENT { up } else { down });
        }
    }

    /// On a network without loss and reordering, no segment is sent twice.
    #[test]
    fn nothing_is_resent_without_cause(cfg in any_config(), up in 0u64..300_000) {
        // A round trip of 10 ms; the timeout must exceed it plus the peer's ACK delay.
        let cfg = TcpConfig {
            min_rto: cfg.min_rto.max(Span::from_millis(20) + cfg.delayed_ack.unwrap_or(Span::ZERO)),
            max_rto: Span::from_secs(60),
            // A probe may take a delayed ACK of several segments for a lost tail (RFC 8985 §7.2).
            rack: cfg.rack && cfg.delayed_ack.is_none(),
            ..cfg
        };
        let delay = Span::from_millis(5);
        let net = move |_: usize, now: Time, _: &Segment, out: &mut Vec<Arrival>| {
            out.push(Arrival { at: now + delay, ce: false });
        };
        let mut world = World::new(&cfg, net);
        world.write(CLIENT, up);
        world.close(CLIENT);
        world.connect();
        while world.step() {}
        prop_assert_eq!(world.delivered[SERVER], up);
        let stats = world.ends[CLIENT].stats();
        prop_assert_eq!((stats.retransmitted, stats.timeouts, stats.fast_recoveries), (0, 0, 0));
    }
}
