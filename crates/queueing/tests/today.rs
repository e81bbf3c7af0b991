//! Queues of current kernels: rules and bounds.

mod common;

use common::{at_ms, item, stream};
use fairmesh_queueing::*;
use fairmesh_units::{Span, Time};
use proptest::prelude::*;

fn offer(q: &mut impl Queue, now: Time, it: Item) {
    assert_eq!(q.enqueue(now, it, Backlog::NONE, &mut stream()), Verdict::Queued);
}

fn losses(q: &mut impl Queue) -> Vec<Item> {
    let mut all = Vec::new();
    while let Some(late) = q.deferred_verdict() {
        if let DeferredVerdict::Dropped(it, _) = late {
            all.push(it);
        }
    }
    all
}

fn fq(spec: FqCodelSpec) -> Discipline {
    DisciplineSpec::FqCodel(spec).build().unwrap()
}

fn build(spec: StationsSpec) -> Stations {
    match DisciplineSpec::Stations(spec).build().unwrap() {
        Discipline::Stations(q) => *q,
        other => panic!("{other:?}"),
    }
}

fn to(station: u16, handle: u32) -> Item {
    Item { station, ..item(handle, 1500, u32::from(station)) }
}

#[test]
fn a_new_flow_goes_before_those_that_wait() {
    let mut q = fq(FqCodelSpec::default());
    for n in 0..20 {
        offer(&mut q, at_ms(0), item(n, 1500, 1));
    }
    assert_eq!(q.dequeue(at_ms(0)).unwrap().handle, 0);
    assert_eq!(q.dequeue(at_ms(0)).unwrap().handle, 1, "a quantum is a little above a packet");
    // A sparse flow's packet is next, because the busy flow has used its turn; a second one is not.
    offer(&mut q, at_ms(1), item(100, 100, 2));
    assert_eq!(q.dequeue(at_ms(1)).unwrap().handle, 100);
    assert_eq!(q.dequeue(at_ms(1)).unwrap().handle, 2);
}

#[test]
fn the_longest_flow_is_dropped_from_in_batches() {
    let spec = FqCodelSpec { packets: 200, drop_batch: 64, ..FqCodelSpec::default() };
    let mut q = fq(spec);
    for n in 0..190 {
        offer(&mut q, at_ms(0), item(n, 1000, 1));
    }
    for n in 0..10 {
        offer(&mut q, at_ms(0), item(1000 + n, 1000, 2));
    }
    assert!(losses(&mut q).is_empty());
    offer(&mut q, at_ms(0), item(2000, 1000, 2));
    // 64, since half of 190 is more; from the head.
    let lost: Vec<u32> = losses(&mut q).iter().map(|it| it.handle).collect();
    assert_eq!(lost, (0..64).collect::<Vec<_>>());
    // Half of the flow's packets, if that is less.
    let mut q = fq(FqCodelSpec { packets: 20, ..FqCodelSpec::default() });
    (0..21).for_each(|n| offer(&mut q, at_ms(0), item(n, 1000, 1)));
    assert_eq!(losses(&mut q).len(), 11);
    // Bytes count, too.
    let mut q = fq(FqCodelSpec { memory: 5000, drop_batch: 1, ..FqCodelSpec::default() });
    (0..6).for_each(|n| offer(&mut q, at_ms(0), item(n, 1000, 1)));
    assert_eq!(losses(&mut q).len(), 1);
}

#[test]
fn one_unresponsive_flow_costs_another_nothing() {
    // Flow 1 offers twice the link's capacity, flow 2 a tenth of it: 1 ms per packet.
    let mut q = fq(FqCodelSpec { packets: 300, ..FqCodelSpec::default() });
    let (mut got, mut worst) = (0, Span::ZERO);
    let mut came = std::collections::HashMap::new();
    for t in 0..20_000u64 {
        offer(&mut q, at_ms(t), item(0, 1000, 1));
        offer(&mut q, at_ms(t), item(0, 1000, 1));
        if t % 10 == 0 {
            came.insert(t as u32, t);
            offer(&mut q, at_ms(t), item(t as u32, 1000, 2));
        }
        let out = q.dequeue(at_ms(t)).unwrap();
        if out.flow == 2 {
            got += 1;
            worst = worst.max(at_ms(t).since(at_ms(came[&out.handle])));
        }
        assert!(losses(&mut q).iter().all(|it| it.flow == 1));
    }
    assert!(got >= 1999);
    assert!(worst <= Span::from_millis(2), "{worst}");
}

/// Airtime of saturated stations with these airtimes per packet, over 20 s.
fn airtimes(spec: StationsSpec, costs: &[u64], weights: &[f64]) -> Vec<f64> {
    let mut q = build(spec);
    for (s, w) in weights.iter().enumerate() {
        q.set_weight(s as u16, *w);
    }
    let mut used = vec![0.0; costs.len()];
    let (mut now, mut waiting) = (Time::ZERO, vec![0; costs.len()]);
    while now < at_ms(20_000) {
        for (s, w) in waiting.iter_mut().enumerate() {
            while *w < 4 {
                offer(&mut q, now, to(s as u16, 0));
                *w += 1;
            }
        }
        let out = q.dequeue(now).unwrap();
        let s = usize::from(out.station);
        waiting[s] -= 1 + losses(&mut q).iter().filter(|it| it.station == out.station).count();
        let cost = Span::from_micros(costs[s]);
        now += cost;
        used[s] += cost.as_secs_f64();
        q.settle(out.station, out.bytes, cost);
    }
    used
}

#[test]
fn stations_share_airtime_by_weight_or_take_turns() {
    let spec = StationsSpec { aql: None, ..StationsSpec::default() };
    let used = airtimes(spec, &[200, 300, 4000], &[]);
    used.iter().for_each(|u| assert!((u / 6.667 - 1.0).abs() < 0.005, "{used:?}"));
    let used = airtimes(spec, &[200, 300, 4000], &[1.0, 2.0, 1.0]);
    assert!((used[1] / 10.0 - 1.0).abs() < 0.005, "{used:?}");
    let used = airtimes(StationsSpec { airtime: None, ..spec }, &[200, 300, 4000], &[]);
    // Packet by packet: 200, 300 and 4000 of 4500.
    assert!((used[2] / 20.0 - 4.0 / 4.5).abs() < 0.005, "{used:?}");
}

proptest! {
    /// Deficit round robin in airtime.
    ///
    /// Two backlogged stations differ by at most a turn and a packet of each.
    #[test]
    fn airtime_is_shared_within_a_turn_and_a_packet(a in 50u64..5000, b in 50u64..5000) {
        let spec = StationsSpec { aql: None, ..StationsSpec::default() };
        let used = airtimes(spec, &[a, b], &[]);
        let most = (256 + a + b) as f64 * 1e-6;
        prop_assert!((used[0] - used[1]).abs() <= most, "{used:?} {most}");
    }

    /// The bound of fq_codel, in bytes.
    #[test]
    fn bytes_are_shared_within_a_turn_and_a_packet(a in 60u32..1514, b in 60u32..1514) {
        let mut q = fq(FqCodelSpec::default());
        let mut sent = [0u64; 2];
        let sizes = [a, b];
        for _ in 0..5 {
            (0..2).for_each(|f| offer(&mut q, at_ms(0), item(0, sizes[f], f as u32)));
        }
        for _ in 0..3000 {
            let it = q.dequeue(at_ms(0)).unwrap();
            let f = it.flow as usize;
            sent[f] += u64::from(it.bytes);
            offer(&mut q, at_ms(0), item(0, sizes[f], it.flow));
        }
        prop_assert!(sent[0].abs_diff(sent[1]) <= u64::from(1514 + a + b), "{sent:?}");
    }
}

#[test]
fn a_frame_is_filled_from_its_own_station() {
    let mut q = build(StationsSpec { aql: None, ..StationsSpec::default() });
    for n in 0..10 {
        offer(&mut q, at_ms(0), to(1, n));
        offer(&mut q, at_ms(0), to(2, 100 + n));
    }
    assert_eq!(q.dequeue(at_ms(0)).unwrap().handle, 0);
    assert_eq!(q.dequeue_for(at_ms(0), 1).unwrap().handle, 1);
    let back = q.dequeue_for(at_ms(0), 1).unwrap();
    q.put_back(back);
    assert_eq!(q.backlog().packets, 18);
    // It is first within its station, at its station's turn.
    q.settle(1, 1500, Span::from_millis(1));
    q.settle(1, 1500, Span::from_millis(1));
    assert_eq!(q.dequeue(at_ms(0)).unwrap().handle, 100);
    q.settle(2, 1500, Span::from_millis(9));
    assert_eq!(q.dequeue(at_ms(0)).unwrap().handle, 2);
    assert_eq!(q.dequeue_for(at_ms(0), 3), None);
}

#[test]
fn a_sparse_station_goes_first() {
    let mut q = build(StationsSpec { aql: None, ..StationsSpec::default() });
    (0..10).for_each(|n| offer(&mut q, at_ms(0), to(1, n)));
    for cost in [1000, 10] {
        q.dequeue(at_ms(0)).unwrap();
        q.settle(1, 1500, Span::from_micros(cost));
    }
    offer(&mut q, at_ms(1), to(2, 100));
    // Station 1 has airtime left, but the new station is first.
    assert_eq!(q.dequeue(at_ms(1)).unwrap().handle, 100);
}

#[test]
fn aql_limits_the_airtime_in_the_card() {
    let aql = AqlSpec::default();
    let mut q = build(StationsSpec { airtime: None, ..StationsSpec::default() });
    // A packet of either station has cost 1 ms.
    for s in [1, 2] {
        offer(&mut q, at_ms(0), to(s, 0));
        q.dequeue(at_ms(0)).unwrap();
        q.settle(s, 1500, Span::from_millis(1));
        (0..50).for_each(|n| offer(&mut q, at_ms(0), to(s, n)));
    }
    let mut taken = [0; 3];
    while let Some(it) = q.dequeue(at_ms(0)) {
        taken[usize::from(it.station)] += 1;
    }
    // 12 ms each, since both together do not exceed 24.
    assert_eq!(taken, [0, 12, 12]);
    assert_eq!(q.next_ready(at_ms(0)), Time::NEVER);
    // The total is reached: each must fall to 5 ms first.
    for _ in 0..7 {
        q.settle(1, 1500, Span::from_millis(1));
    }
    (0..30).for_each(|n| offer(&mut q, at_ms(0), to(3, n)));
    assert_eq!(q.dequeue(at_ms(0)).unwrap().station, 3);
    assert_eq!(aql.low, Span::from_millis(5));
    q.settle(1, 1500, Span::from_millis(1));
    assert!(q.next_ready(at_ms(0)) == at_ms(0));
}

#[test]
fn flows_that_meet_another_stations_bucket_keep_their_order() {
    // One bucket for all: the second station's packets go to its overflow queue.
    let mut q = build(StationsSpec { flows: 1, aql: None, ..StationsSpec::default() });
    for n in 0..5 {
        offer(&mut q, at_ms(0), to(1, n));
        offer(&mut q, at_ms(0), to(2, 100 + n));
    }
    let mut seen: [Vec<u32>; 2] = [Vec::new(), Vec::new()];
    while let Some(it) = q.dequeue(at_ms(0)) {
        seen[usize::from(it.station) - 1].push(it.handle);
        q.settle(it.station, it.bytes, Span::from_millis(1));
    }
    assert_eq!(seen, [vec![0, 1, 2, 3, 4], vec![100, 101, 102, 103, 104]]);
}

#[test]
fn refusals() {
    let codel = CodelSpec { target: Span::from_millis(100), ..CodelSpec::default() };
    let text = |spec: DisciplineSpec| spec.build().unwrap_err().to_string();
    assert_eq!(
        text(DisciplineSpec::Codel(Limit::Packets(9), codel)),
        "target must be below interval, but is 100 ms of 100 ms"
    );
    let fq = FqCodelSpec { quantum: 0, ..FqCodelSpec::default() };
    assert_eq!(text(DisciplineSpec::FqCodel(fq)), "quantum must not be zero");
    let aql = Some(AqlSpec { low: Span::from_millis(20), ..AqlSpec::default() });
    let spec = StationsSpec { aql, ..StationsSpec::default() };
    assert_eq!(
        text(DisciplineSpec::Stations(spec)),
        "aql_low must not be above aql_high, but is 20 ms to 12 ms"
    );
}

fn cake(spec: CakeSpec, hosts: Vec<(u16, u16)>) -> Cake {
    match DisciplineSpec::Cake(spec).build().unwrap() {
        Discipline::Cake(mut q) => {
            q.set_hosts(hosts);
            *q
        }
        other => panic!("{other:?}"),
    }
}

/// Bytes that each flow sends within this number of packets of 1000 bytes, all backlogged.
fn served(q: &mut Cake, flows: u32, packets: usize) -> Vec<u64> {
    let mut sent = vec![0; flows as usize];
    for f in 0..flows {
        (0..3).for_each(|_| offer(q, at_ms(0), item(0, 1000, f)));
    }
    for _ in 0..packets {
        let it = q.dequeue(at_ms(1)).unwrap();
        sent[it.flow as usize] += 1000;
        offer(q, at_ms(1), it);
    }
    sent
}

#[test]
fn cake_shares_among_hosts_first() {
    // Host 1 sends eight flows, host 2 one; all receivers differ.
    let hosts: Vec<(u16, u16)> = (0..9).map(|f| (if f < 8 { 1 } else { 2 }, 10 + f)).collect();
    for (fairness, share) in [
        (HostFairness::Sources, 0.5),
        (HostFairness::Both, 0.5),
        (HostFairness::Destinations, 1.0 / 9.0),
        (HostFairness::None, 1.0 / 9.0),
    ] {
        let mut q = cake(CakeSpec { hosts: fairness, ..CakeSpec::default() }, hosts.clone());
        let sent = served(&mut q, 9, 9000);
        let lone = sent[8] as f64 / sent.iter().sum::<u64>() as f64;
        assert!((lone / share - 1.0).abs() < 0.05, "{fairness:?}: {lone}");
        let (least, most) = (sent[..8].iter().min().unwrap(), sent[..8].iter().max().unwrap());
        assert!(most - least <= 3000, "{sent:?}");
    }
}

#[test]
fn cakes_hash_keeps_eight_flows_of_a_set_apart() {
    // One set: eight flows have separate queues; a common queue would serve them by arrival.
    let mut q =
        cake(CakeSpec { flows: 8, hosts: HostFairness::None, ..CakeSpec::default() }, vec![]);
    let sent = served(&mut q, 8, 800);
    assert!(sent.iter().all(|&s| (97_000..=103_000).contains(&s)), "{sent:?}");
    // A ninth shares the queue of another, without loss.
    let sent = served(&mut q, 9, 900);
    assert!(sent.iter().all(|&s| s > 0), "{sent:?}");
}

#[test]
fn cake_shapes_without_bursts() {
    // 8 Mbit/s: a ms for 1000 bytes.
    let rate = Some(fairmesh_units::BitRate(8_000_000));
    let mut q = cake(CakeSpec { rate, ..CakeSpec::default() }, vec![]);
    (0..100).for_each(|n| offer(&mut q, at_ms(0), item(n, 1000, n % 3)));
    let mut now = at_ms(0);
    let mut left = Vec::new();
    while left.len() < 50 {
        now = q.next_ready(now);
        q.dequeue(now).unwrap();
        left.push(now);
        assert_eq!(q.dequeue(now), None);
    }
    let expected: Vec<Time> = (0..50).map(at_ms).collect();
    assert_eq!(left, expected);
    // An idle period gives no credit.
    let mut q = cake(CakeSpec { rate, ..CakeSpec::default() }, vec![]);
    (0..2).for_each(|n| offer(&mut q, at_ms(500), item(n, 1000, 0)));
    assert!(q.dequeue(at_ms(500)).is_some());
    assert_eq!(q.next_ready(at_ms(500)), at_ms(501));
}

#[test]
fn cakes_limit_drops_from_the_longest_flow() {
    let memory = Some(fairmesh_units::Bytes(20_000));
    let mut q = cake(CakeSpec { memory, ..CakeSpec::default() }, vec![]);
    (0..18).for_each(|n| offer(&mut q, at_ms(0), item(n, 1000, 1)));
    (0..10).for_each(|n| offer(&mut q, at_ms(0), item(100 + n, 1000, 2)));
    let lost: Vec<u32> = losses(&mut q).iter().map(|it| it.handle).collect();
    assert_eq!(lost, (0..8).collect::<Vec<_>>());
}
