//! Current transports over simulated links: BBR, RACK-TLP, HyStart++, bursts.

mod support;

use fairmesh_transport::{Congestion, Segment, TcpConfig};
use fairmesh_units::{Span, Stream, Time};
use support::{Arrival, Bottleneck, CLIENT, Network, SERVER, World};

const DELAY: Span = Span::from_millis(10);

fn at(ms: u64) -> Time {
    Time::ZERO + Span::from_millis(ms)
}

fn linux(congestion: Congestion) -> TcpConfig {
    TcpConfig { congestion, ..TcpConfig::linux() }
}

/// A bottleneck with random loss of this fraction of the data, besides its queue's drops.
fn lossy(mut net: Bottleneck, loss: f64) -> impl Network {
    let mut rng = Stream::new(1, "loss");
    move |from: usize, now: Time, seg: &Segment, out: &mut Vec<Arrival>| {
        if from == CLIENT && seg.len > 0 && rng.chance(loss) {
            return;
        }
        net.carry(from, now, seg, out);
    }
}

/// Returns the share of the bottleneck, the smoothed round trip, and the retransmissions.
///
/// The share is that between 5 and 35 s; the others are those at the end.
fn endless(cfg: &TcpConfig, net: impl Network, rate: f64) -> (f64, Span, u64) {
    let mut world = World::new(cfg, net);
    world.write(CLIENT, u64::MAX);
    world.connect();
    world.run_until(at(5_000));
    let before = world.delivered[SERVER];
    world.run_until(at(35_000));
    let bits = (world.delivered[SERVER] - before) as f64 * 8.0;
    let stats = world.ends[CLIENT].stats();
    (bits / 30.0 / (rate * 1460.0 / 1500.0), stats.srtt.unwrap(), stats.retransmitted)
}

#[test]
fn bbr_fills_a_path_without_filling_its_queue() {
    // 10 Mbit/s, 20 ms; a queue of half a second.
    let net = || Bottleneck::new(10_000_000, DELAY, 400);
    let (share, srtt, again) = endless(&linux(Congestion::Bbr), net(), 10e6);
    println!("bbr {share} {srtt} {again}");
    assert!((0.9..=1.0).contains(&share), "{share}");
    // At most about a bandwidth-delay product waits: inflight is 2 BDP and three bursts.
    assert!(srtt < Span::from_millis(60), "{srtt}");
    assert_eq!(again, 0);
    let (share, srtt, _) = endless(&linux(Congestion::Cubic), net(), 10e6);
    println!("cubic {share} {srtt}");
    assert!(share > 0.97 && srtt > Span::from_millis(100), "{share} {srtt}");
}

#[test]
fn bbr_does_not_take_every_loss_for_congestion() {
    let net = || lossy(Bottleneck::new(10_000_000, Span::from_millis(20), 100), 0.02);
    let (bbr, ..) = endless(&linux(Congestion::Bbr), net(), 10e6);
    let (cubic, ..) = endless(&linux(Congestion::Cubic), net(), 10e6);
    println!("bbr {bbr} cubic {cubic}");
    assert!(bbr > 0.85, "{bbr}");
    assert!(cubic < 0.6 * bbr, "{cubic}");
}

#[test]
fn bbr_finds_more_and_less_bandwidth() {
    // 10 Mbit/s, 2 from 15 s on, 10 again from 30 s on.
    let mut nets = [10_000_000, 2_000_000].map(|r| Bottleneck::new(r, DELAY, 100));
    let net = move |from: usize, now: Time, seg: &Segment, out: &mut Vec<Arrival>| {
        let slow = (at(15_000)..at(30_000)).contains(&now);
        nets[usize::from(slow)].carry(from, now, seg, out);
    };
    let mut world = World::new(&linux(Congestion::Bbr), net);
    world.write(CLIENT, u64::MAX);
    world.connect();
    let mut shares = Vec::new();
    for (from, to, rate) in [(5, 15, 10.0), (20, 30, 2.0), (40, 50, 10.0)] {
        world.run_until(at(from * 1000));
        let before = world.delivered[SERVER];
        world.run_until(at(to * 1000));
        shares.push((world.delivered[SERVER] - before) as f64 * 8e-6 / (to - from) as f64 / rate);
    }
    println!("{shares:?}");
    assert!(shares.iter().all(|s| (0.85..1.0).contains(s)), "{shares:?}");
}

/// Loses the transmissions of data with these numbers, in sending order.
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

/// Returns the time to deliver this many segments, the timeouts, and the retransmissions.
fn transfer(rack: bool, lost: &'static [u64], segments: u64) -> (f64, u64, u64) {
    let cfg = TcpConfig {
        congestion: Congestion::NewReno,
        initial_window: 20,
        rack,
        hystart: false,
        delayed_ack: None,
        ..TcpConfig::linux()
    };
    let mut world = World::new(&cfg, losing(lost));
    world.write(CLIENT, segments * 1460);
    world.connect();
    while world.delivered[SERVER] < segments * 1460 {
        assert!(world.step());
    }
    let stats = world.ends[CLIENT].stats();
    (world.now.as_secs_f64() * 1e3, stats.timeouts, stats.retransmitted)
}

#[test]
fn a_lost_tail_is_probed() {
    // The last two of twenty: no later acknowledgement reports them.
    let (with, timeouts, again) = transfer(true, &[18, 19], 20);
    // Data is sent at 20 ms, the last ACK returns at 40, the probe is sent 2 SRTT later, and its
    // response reports the other loss.
    assert_eq!((timeouts, again), (0, 2));
    assert!(with < 130.0, "{with}");
    let (without, timeouts, _) = transfer(false, &[18, 19], 20);
    assert_eq!(timeouts, 1);
    assert!(without > 200.0, "{without}");
}

#[test]
fn a_lost_repair_is_repaired_without_a_timeout() {
    // Segment 5 is lost, and so is its first repair: about the 26th transmission of 60.
    let repair: &[u64] = &[5, 28];
    let (_, timeouts, again) = transfer(true, repair, 60);
    assert_eq!(timeouts, 0);
    assert!(again >= 1);
    let mut repaired = 0;
    for second in 20..40u64 {
        let lost: &'static [u64] = Box::leak(Box::new([5, second]));
        let (_, with, _) = transfer(true, lost, 60);
        let (_, without, _) = transfer(false, lost, 60);
        assert_eq!(with, 0, "transmission {second}");
        repaired += without;
    }
    assert!(repaired > 0, "one of these is the repair, which RFC 6675 waits for");
}

#[test]
fn reordering_within_a_quarter_of_a_round_trip_is_no_loss() {
    // Every tenth segment is 4 ms late; the others arrive 0.3 ms apart.
    let mut count = 0u64;
    let mut free = Time::ZERO;
    let net = move |from: usize, now: Time, seg: &Segment, out: &mut Vec<Arrival>| {
        let mut late = Span::ZERO;
        if from == CLIENT && seg.len > 0 {
            count += 1;
            if count.is_multiple_of(10) {
                late = Span::from_millis(4);
            }
            free = free.max(now) + Span::from_micros(300);
            out.push(Arrival { at: free + DELAY + late, ce: false });
            return;
        }
        out.push(Arrival { at: now + DELAY, ce: false });
    };
    let cfg = TcpConfig { max_window: Some(40), hystart: false, ..linux(Congestion::NewReno) };
    let mut world = World::new(&cfg, net);
    world.write(CLIENT, u64::MAX);
    world.connect();
    world.run_until(at(3_000));
    let early = world.ends[CLIENT].stats().retransmitted;
    world.run_until(at(10_000));
    let stats = world.ends[CLIENT].stats();
    // After detecting reordering, it waits.
    assert_eq!(stats.retransmitted, early, "{stats:?}");
    assert!(stats.segments_sent > 5_000);
}

#[test]
fn hystart_leaves_before_the_queue_is_full() {
    // 20 Mbit/s, 40 ms (67 segments), a queue of 1000. Longer round trips appear a round after the
    // path is full, at about 240 segments, and conservative slow start grows threefold.
    let first = |hystart: bool| {
        let cfg = TcpConfig { hystart, ..linux(Congestion::Cubic) };
        let net = Bottleneck::new(20_000_000, Span::from_millis(20), 1000);
        let mut world = World::new(&cfg, net);
        world.write(CLIENT, u64::MAX);
        world.connect();
        world.run_until(at(4_000));
        world.ends[CLIENT].stats().retransmitted
    };
    let (with, without) = (first(true), first(false));
    println!("{with} {without}");
    assert_eq!(with, 0);
    assert!(without > 40, "{without}");
}

/// The overshoot of a slow start is repaired once.
///
/// Data outstanding beyond the window, after so much was delivered, is not a measure of the path.
#[test]
fn an_overshoot_does_not_feed_itself() {
    let cfg = linux(Congestion::Cubic);
    let (share, srtt, again) =
        endless(&cfg, Bottleneck::new(20_000_000, Span::from_millis(20), 140), 20e6);
    println!("{share} {srtt} {again}");
    assert!(share > 0.95, "{share}");
    assert!(again < 400, "{again}");
}

#[test]
fn paced_bursts_leave_together() {
    let perfect = |_: usize, now: Time, _: &Segment, out: &mut Vec<Arrival>| {
        out.push(Arrival { at: now + DELAY, ce: false });
    };
    let cfg = TcpConfig { pacing: true, burst: 4, max_window: Some(16), ..TcpConfig::ns3() };
    let mut world = World::new(&cfg, perfect);
    world.write(CLIENT, u64::MAX);
    world.connect();
    world.run_until(at(3_000));
    let left: Vec<f64> = (world.log.iter())
        .filter(|(_, from, seg)| *from == CLIENT && seg.len > 0)
        .map(|(at, ..)| at.as_secs_f64() * 1e3)
        .collect();
    let rest = &left[left.len() - 161..];
    let starts = rest.windows(2).filter(|w| w[1] - w[0] > 0.05).count();
    // 160 segments in groups of four.
    assert!((36..=44).contains(&starts), "{starts}");
}
