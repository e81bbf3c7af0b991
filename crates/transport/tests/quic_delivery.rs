//! QUIC delivers each byte once, in order, and terminates, over any network.

mod support;

use fairmesh_transport::Congestion;
use fairmesh_transport::quic::{Config, Ecn, Packet};
use fairmesh_units::{Span, Stream, Time};
use proptest::prelude::*;
use support::quic::{QuicWorld, perfect};
use support::{CLIENT, SERVER};

const ALL: [Congestion; 5] =
    [Congestion::NewReno, Congestion::Cubic, Congestion::Bbr, Congestion::Bbr3, Congestion::Prague];

fn any_config() -> impl Strategy<Value = Config> {
    let switches = (0usize..5, any::<[bool; 3]>(), 1200u32..9000, 1u32..12, 1u32..5);
    (switches, 0u64..200).prop_map(|((which, on, datagram, initial_window, burst), delay)| {
        let base = Config::new(ALL[which]);
        Config {
            datagram,
            ecn: base.ecn || on[0],
            ect1: base.ect1 || on[1],
            initial_window,
            max_ack_delay: Span::from_millis(delay),
            burst,
            hystart: on[2],
            ..base
        }
    })
}

/// Probabilities of impairments of a packet, and the spread of its delay.
#[derive(Clone, Copy, Debug)]
struct Impairments {
    drop: f64,
    duplicate: f64,
    mark: f64,
    /// Probability that the mark, or the codepoint, is removed.
    bleach: f64,
    spread_ms: f64,
}

fn any_impairments() -> impl Strategy<Value = Impairments> {
    let drop = prop_oneof![Just(0.0), 0.0..0.1, 0.1..0.5];
    let duplicate = prop_oneof![Just(0.0), 0.0..0.3];
    let mark = prop_oneof![Just(0.0), 0.0..0.5];
    let bleach = prop_oneof![Just(0.0), Just(0.0), 0.0..0.5];
    let spread = prop_oneof![Just(0.0), 0.0..200.0];
    (drop, duplicate, mark, bleach, spread).prop_map(
        |(drop, duplicate, mark, bleach, spread_ms)| Impairments {
            drop,
            duplicate,
            mark,
            bleach,
            spread_ms,
        },
    )
}

fn impaired_network(
    bad: Impairments,
    seed: u64,
) -> impl FnMut(usize, Time, &Packet, &mut Vec<(Time, Ecn)>) {
    let mut rng = Stream::new(seed, "network");
    move |_, now, packet: &Packet, out| {
        if rng.chance(bad.drop) {
            return;
        }
        let copies = 1 + u32::from(rng.chance(bad.duplicate));
        for _ in 0..copies {
            let delay = Span::from_secs_f64(rng.uniform(5.0, 5.001 + bad.spread_ms) / 1e3);
            let mut ecn = packet.ecn;
            if ecn != Ecn::NotEct && rng.chance(bad.mark) {
                ecn = Ecn::Ce;
            }
            if rng.chance(bad.bleach) {
                ecn = Ecn::NotEct;
            }
            out.push((now + delay, ecn));
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
        let mut world = QuicWorld::new(&cfg, impaired_network(bad, seed));
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
        // Then the connection becomes idle.
        while world.step() {
            steps += 1;
            prop_assert!(steps < 200_000, "no rest at {:?}: {:?}", world.now, world.ends[0].stats());
        }
        prop_assert_eq!(world.delivered, [down, up]);
        for end in [CLIENT, SERVER] {
            let stats = world.ends[end].stats();
            prop_assert_eq!(stats.in_flight, 0);
            prop_assert_eq!(stats.outstanding, 0);
            prop_assert_eq!(stats.bytes_acked, if end == CLIENT { up } else { down });
            prop_assert!(stats.spurious <= stats.lost && stats.lost <= stats.packets_sent);
            prop_assert!(stats.cwnd >= u64::from(cfg.initial_window.min(2) * cfg.datagram));
        }
    }

    /// Without loss and reordering, no packet is sent twice.
    ///
    /// No event counts as congestion either.
    #[test]
    fn nothing_is_resent_without_cause(cfg in any_config(), up in 0u64..300_000) {
        let mut world = QuicWorld::new(&cfg, perfect(Span::from_millis(5)));
        world.write(CLIENT, up);
        world.close(CLIENT);
        world.connect();
        while world.step() {}
        prop_assert_eq!(world.delivered[SERVER], up);
        let s = world.ends[CLIENT].stats();
        prop_assert_eq!((s.retransmitted, s.lost, s.probe_timeouts, s.congestion_events), (0, 0, 0, 0));
        prop_assert!(!s.ecn_failed && !world.ends[SERVER].stats().ecn_failed);
    }
}
