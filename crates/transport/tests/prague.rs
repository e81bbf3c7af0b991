//! Prague over simulated links.
//!
//! Covers its sawtooth under a step threshold, its queue, and its behaviour without marks.

mod support;

use fairmesh_transport::{Congestion, TcpConfig};
use fairmesh_units::{Span, Time};
use support::shared::Shared;

fn at(ms: u64) -> Time {
    Time::ZERO + Span::from_millis(ms)
}

fn ms(n: u64) -> Span {
    Span::from_millis(n)
}

fn linux(congestion: Congestion) -> TcpConfig {
    let l4s = congestion == Congestion::Prague;
    TcpConfig { congestion, ecn: l4s, ect1: l4s, ..TcpConfig::linux() }
}

/// Returns the shares of two flows from 30 to 90 s, and the mean wait.
///
/// The flows have these one-way delays; the second starts 2 s after the first.
fn two(mut net: Shared, flows: [(Congestion, u64); 2]) -> ([f64; 2], f64) {
    net.add(&linux(flows[0].0), ms(flows[0].1));
    net.run_until(at(2_000));
    net.add(&linux(flows[1].0), ms(flows[1].1));
    net.run_until(at(30_000));
    let (parts, wait) = net.shares(at(90_000));
    println!("{flows:?}: {parts:?}, {:.2} ms, {} drops", wait * 1e3, net.queue.drops);
    ([parts[0], parts[1]], wait)
}

/// A queue of 40 Mbit/s that marks above 1 ms of waiting.
fn marking() -> Shared {
    let mut net = Shared::new(40_000_000, 2000);
    net.queue.mark_at = ms(1);
    net
}

/// DCTCP's steady state (Alizadeh et al. 2010, §3.3).
///
/// A window that reaches the threshold at W segments has `α² (1 − α/4) = (2W + 1)/(W + 1)²`, and falls by `(W
/// + 1) α/2`.
#[test]
fn the_sawtooth_under_a_step_threshold_is_dctcps() {
    for (rate, one_way, threshold) in
        [(24_000_000, 20, 5), (60_000_000, 20, 5), (60_000_000, 20, 10)]
    {
        let mut net = Shared::new(rate, 1000);
        net.queue.mark_at = ms(threshold);
        let cfg = TcpConfig { delayed_ack: None, ..linux(Congestion::Prague) };
        net.add(&cfg, ms(one_way));
        net.run_until(at(20_000));
        let before = net.marks(0);
        let (mut least, mut most) = (u64::MAX, 0);
        for t in 20_000..60_000 {
            net.run_until(at(t));
            let cwnd = net.sender(0).stats().cwnd;
            (least, most) = (least.min(cwnd), most.max(cwnd));
        }
        let after = net.marks(0);
        let marked = (after.0 - before.0) as f64 / (after.1 - before.1) as f64;
        let w = rate as f64 * (2 * one_way + threshold) as f64 / 12e6;
        let mut alpha = 0.1;
        for _ in 0..100 {
            alpha = ((2.0 * w + 1.0) / (w + 1.0_f64).powi(2) / (1.0 - alpha / 4.0)).sqrt();
        }
        let depth = (most - least) as f64 / 1460.0;
        let expected = (w + 1.0) * alpha / 2.0;
        println!("W {w}: marked {marked:.4} of {alpha:.4}, depth {depth:.2} of {expected:.2}");
        // The marked fraction is the mean of α.
        assert!((marked / alpha - 1.0).abs() < 0.1, "{marked} {alpha}");
        // The average is lowest when the next marks arrive, so reductions are smaller than by its
        // mean.
        assert!((0.75..=1.0).contains(&(depth / expected)), "{depth} {expected}");
        assert!((most as f64 / 1460.0 / w - 1.0).abs() < 0.05, "{most}");
        assert_eq!((net.queue.drops, net.sender(0).stats().retransmitted), (0, 0));
    }
}

#[test]
fn marks_keep_the_queue_at_the_threshold_and_the_link_busy() {
    let flow = (Congestion::Prague, 10);
    let ([a, b], wait) = two(marking(), [flow, flow]);
    assert!(a + b > 0.97 && (a - b).abs() < 0.1, "{a} {b}");
    assert!(wait < 1e-3, "{wait}");
}

#[test]
fn below_25_ms_the_round_trip_hardly_matters() {
    // 4 and 24 ms: with equal growth of windows the rates would be six to one.
    let ([short, long], _) = two(marking(), [(Congestion::Prague, 2), (Congestion::Prague, 12)]);
    assert!(short > long / 2.0 && long > short / 2.0, "{short} {long}");
}

#[test]
fn without_marks_it_behaves_as_reno() {
    let bottleneck = || Shared::new(20_000_000, 66);
    for other in [Congestion::NewReno, Congestion::Cubic] {
        let ([a, b], _) = two(bottleneck(), [(Congestion::Prague, 20), (other, 20)]);
        assert!(a + b > 0.97 && a > 0.3 && b > 0.3, "{a} {b}");
    }
}
