//! External sources of energy.

use fairmesh_units::{NodeId, Power, Span, Time};
use fairmesh_wifi::{NoiseSource, Outcome, Outgoing};

use crate::testbed::*;

const T: u64 = us(10_000);

fn source(period_ms: u64, on_ms: u64, jitter: f64, sensed_by: &[u32]) -> NoiseSource {
    NoiseSource {
        name: "oven".to_owned(),
        sensed_by: sensed_by.iter().map(|&n| (n, Power::from_dbm(STRONG_DBM))).collect(),
        period: Span::from_millis(period_ms),
        on: Span::from_millis(on_ms),
        jitter,
        start: Time::ZERO,
        stop: Time::NEVER,
    }
}

fn busy_share(jitter: f64) -> f64 {
    let mut testbed = Testbed::cell(2);
    testbed.noise.push(source(10, 3, jitter, &[0]));
    let mut w = testbed.build();
    w.run(us(100_000_000));
    let now = Time::from_nanos(us(100_000_000));
    let t = w.air.channel_time(now, NodeId(0));
    let starts: Vec<f64> = w.frames(2).map(|f| f.start.as_secs_f64()).collect();
    let gaps = starts.windows(2).map(|s| s[1] - s[0]);
    let (least, most) = gaps.fold((1.0, 0.0), |(a, b): (f64, f64), g| (a.min(g), b.max(g)));
    assert!((least - 0.01 * (1.0 - jitter)).abs() < 1e-4, "{least}");
    assert!((most - 0.01 * (1.0 + jitter)).abs() < 1e-4, "{most}");
    assert_eq!(w.air.channel_time(now, NodeId(1)).busy, Span::ZERO, "1 does not sense it");
    t.busy.as_secs_f64() / t.active.as_secs_f64()
}

#[test]
fn the_duty_cycle_is_met() {
    assert_eq!(busy_share(0.0), 0.3);
    let jittered = busy_share(0.5);
    assert!((jittered - 0.3).abs() < 0.003, "{jittered}");
}

#[test]
fn bursts_defer_and_destroy() {
    // Sensed by the sender: it waits for the end of the burst, a DIFS and its backoff.
    let mut w = Testbed::cell(2).noise(0, STRONG_DBM, T / 1000, 5000).build();
    w.at(T + us(1000), 0, 1).run(us(100_000));
    assert_eq!(w.starts(0)[0], T + us(5000 + DIFS + BackoffReplay::of(0).draw(31) * SLOT));
    assert_eq!(w.outcomes(0), [Outcome::Sent]);
    // Sensed only by the receiver, during a frame: the frame is lost and retransmitted.
    let mut w = Testbed::cell(2).noise(1, STRONG_DBM, T / 1000 + 4000, 10).build();
    w.at(T, 0, 1).run(us(100_000));
    assert_eq!(w.starts(0).len(), 2);
    assert_eq!(w.air.counters(NodeId(1)).collided, 1);
    // 10 dB below the frame, its only effect is to defer the stations that sense it.
    let mut w = Testbed::cell(2).noise(1, STRONG_DBM - 10.1, T / 1000 + 4000, 10).build();
    w.at(T, 0, 1).run(us(100_000));
    assert_eq!(w.starts(0).len(), 1);
}

#[test]
fn noise_is_not_a_frame() {
    // No EIFS after it, no lock on it, no NAV from it.
    let mut w = Testbed::cell(3).noise(0, STRONG_DBM, T / 1000, 700).build();
    w.at(T + us(100), 1, 0).at(T + us(100), 0, 2).run(us(100_000));
    // 1 does not sense it and sends immediately; 0 cannot receive and continues right after.
    assert_eq!(w.starts(1)[0], T + us(100 + DIFS));
    assert!(w.arrivals().contains(&(0, 100)));
    assert!(w.arrivals().contains(&(2, 0)));
}

#[test]
fn noise_never_takes_a_frames_place() {
    // Stronger than the frame, 2 µs later and short: the frame is lost, but locked until its end,
    // where the EIFS starts.
    let testbed = Testbed::new(3).decodable(0, 1, STRONG_DBM).decodable(1, 2, STRONG_DBM);
    let mut w = testbed.noise(1, STRONG_DBM + 5.0, T / 1000 + DIFS + 2, 100).build();
    let broadcast = Outgoing { packet: 0, link: None, bytes: BYTES };
    w.queue(T, 0, broadcast).at(T + us(1000), 1, 2).run(T + us(20_000));
    assert_eq!(w.air.counters(NodeId(1)).collided, 1);
    let end = T + us(DIFS + DATA);
    assert_eq!(w.starts(1)[0], end + us(EIFS + BackoffReplay::of(1).draw(31) * SLOT));
}
