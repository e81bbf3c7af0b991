//! The rules of the basic disciplines, one by one.

mod common;

use common::{at_ms, drop_of, item, put, stream, within};
use fairmesh_queueing::*;
use fairmesh_units::{BitRate, Bytes, Span, Time};
use proptest::prelude::*;

const T0: Time = Time::ZERO;

fn ms(n: u64) -> Span {
    Span::from_millis(n)
}
fn offer(q: &mut Discipline, it: Item) -> Verdict {
    q.enqueue(T0, it, Backlog::NONE, &mut stream())
}
fn handles(q: &mut Discipline) -> Vec<u32> {
    std::iter::from_fn(|| q.dequeue(T0)).map(|it| it.handle).collect()
}

#[test]
fn drop_tail_counts_queued_and_held_packets() {
    let mut q = DisciplineSpec::drop_tail(3).build().unwrap();
    let held = Backlog { packets: 1, bytes: 1500 };
    for n in 0..2 {
        assert_eq!(q.enqueue(T0, item(n, 1500, 0), held, &mut stream()), Verdict::Queued);
    }
    let full = Verdict::Dropped(DropCause::Full);
    assert_eq!(q.enqueue(T0, item(2, 40, 0), held, &mut stream()), full);
    assert_eq!(offer(&mut q, item(3, 40, 0)), Verdict::Queued);
    assert_eq!(offer(&mut q, item(4, 40, 0)), full);
    assert_eq!(q.backlog(), Backlog { packets: 3, bytes: 3040 });
    assert_eq!(handles(&mut q), [0, 1, 3]);
}

#[test]
fn drop_tail_in_bytes_lets_small_packets_pass() {
    let mut q = DisciplineSpec::DropTail(Limit::Bytes(2000)).build().unwrap();
    assert_eq!(offer(&mut q, item(0, 1500, 0)), Verdict::Queued);
    assert_eq!(drop_of(offer(&mut q, item(1, 501, 0))), Some(DropCause::Full));
    assert_eq!(offer(&mut q, item(2, 500, 0)), Verdict::Queued);
}

#[test]
fn fair_serves_round_robin_by_bytes() {
    let spec = FairSpec { quantum: 1000, ..FairSpec::per_flow(Limit::Packets(10)) };
    let mut q = DisciplineSpec::Fair(spec).build().unwrap();
    for n in 0..4 {
        put(&mut q, T0, item(n, 1000, 1));
    }
    for n in 10..18 {
        put(&mut q, T0, item(n, 500, 2));
    }
    assert_eq!(handles(&mut q), [0, 10, 11, 1, 12, 13, 2, 14, 15, 3, 16, 17]);
}

#[test]
fn a_flow_that_joins_sends_in_its_first_turn() {
    let spec = FairSpec { quantum: 1000, ..FairSpec::per_flow(Limit::Packets(10)) };
    let mut q = DisciplineSpec::Fair(spec).build().unwrap();
    for n in 0..3 {
        put(&mut q, T0, item(n, 1000, 1));
    }
    assert_eq!(q.dequeue(T0).unwrap().handle, 0);
    put(&mut q, T0, item(10, 1000, 2));
    assert_eq!(handles(&mut q), [10, 1, 2]);
}

#[test]
fn fair_keeps_a_greedy_flow_to_its_own_buffer() {
    // Jamshaid 2010 §6.3.3: five packets per flow
    let mut q = DisciplineSpec::Fair(FairSpec::per_flow(Limit::Packets(5))).build().unwrap();
    let verdicts: Vec<_> = (0..8).map(|n| drop_of(offer(&mut q, item(n, 1500, 0)))).collect();
    assert_eq!(verdicts[..5], [None; 5]);
    assert_eq!(verdicts[5..], [Some(DropCause::FlowFull); 3]);
    assert_eq!(offer(&mut q, item(9, 1500, 1)), Verdict::Queued);
}

#[test]
fn a_full_fair_queue_evicts_from_the_longest_flow() {
    let spec = FairSpec { total: Some(4), ..FairSpec::per_flow(Limit::Packets(9)) };
    let mut q = DisciplineSpec::Fair(spec).build().unwrap();
    for n in 0..3 {
        put(&mut q, T0, item(n, 1000, 0));
    }
    put(&mut q, T0, item(3, 1000, 1));
    let verdict = offer(&mut q, item(4, 1000, 2));
    assert_eq!(verdict, Verdict::Evicted(item(0, 1000, 0), DropCause::Full));
    // Flows 0, 1 and 2 have 2, 1 and 1 packets; an arrival of flow 0 makes flow 0 the longest.
    let verdict = offer(&mut q, item(5, 1000, 0));
    assert_eq!(verdict, Verdict::Evicted(item(1, 1000, 0), DropCause::Full));
    assert_eq!(handles(&mut q), [2, 3, 4, 5]);
    // On a tie, the arriving flow loses a packet.
    for n in [10, 11, 12, 13] {
        put(&mut q, T0, item(n, 1000, n / 12));
    }
    q.dequeue(T0);
    put(&mut q, T0, item(14, 500, 0));
    assert_eq!(
        offer(&mut q, item(15, 500, 2)),
        Verdict::Evicted(item(12, 1000, 1), DropCause::Full)
    );
    assert_eq!(
        offer(&mut q, item(16, 1000, 2)),
        Verdict::Evicted(item(15, 500, 2), DropCause::Full)
    );
    while q.dequeue(T0).is_some() {}
    // With all places held elsewhere there is no packet to evict.
    let held = Backlog { packets: 4, bytes: 6000 };
    let verdict = q.enqueue(T0, item(6, 1000, 0), held, &mut stream());
    assert_eq!(verdict, Verdict::Dropped(DropCause::Full));
}

proptest! {
    /// Shreedhar & Varghese 1995, Theorem 2.
    ///
    /// Over any interval in which two flows have packets, their sent bytes differ by at most a quantum and
    /// two packets.
    #[test]
    fn fair_shares_by_quanta(weights in prop::array::uniform3(1u32..20)) {
        let quanta = weights.map(|w| 100 * w).to_vec();
        let spec = FairSpec { quanta, ..FairSpec::per_flow(Limit::Packets(300)) };
        let mut q = DisciplineSpec::Fair(spec).build().unwrap();
        for flow in 0..3 {
            (0..300).for_each(|_| { put(&mut q, T0, item(0, 1000, flow)); });
        }
        let mut sent = [0u32; 3];
        while sent.iter().all(|n| *n < 300) {
            sent[q.dequeue(T0).unwrap().flow as usize] += 1;
        }
        for a in 0..3 {
            for b in 0..3 {
                // Deficit round robin: at most a quantum and a packet ahead.
                let ahead = f64::from(sent[a]) / f64::from(weights[a]) - f64::from(sent[b]) / f64::from(weights[b]);
                let bound = 0.2 + 1.0 / f64::from(weights[a]) + 1.0 / f64::from(weights[b]);
                prop_assert!(ahead.abs() <= bound, "{sent:?} by {weights:?}");
            }
        }
    }

    #[test]
    fn fair_shares_within_the_bound(
        sizes in prop::array::uniform3(prop::collection::vec(40u32..1500, 300)),
        quantum in 100u32..4000,
    ) {
        let spec = FairSpec { quantum, ..FairSpec::per_flow(Limit::Packets(300)) };
        let mut q = DisciplineSpec::Fair(spec).build().unwrap();
        for (flow, sizes) in sizes.iter().enumerate() {
            for &bytes in sizes {
                put(&mut q, T0, item(0, bytes, flow as u32));
            }
        }
        let mut left = [300; 3];
        let mut sent = [0i64; 3];
        let (mut lowest, mut highest) = ([[0i64; 3]; 3], [[0i64; 3]; 3]);
        while left.iter().all(|n| *n > 0) {
            let it = q.dequeue(T0).unwrap();
            left[it.flow as usize] -= 1;
            sent[it.flow as usize] += i64::from(it.bytes);
            for a in 0..3 {
                for b in 0..3 {
                    let ahead = sent[a] - sent[b];
                    lowest[a][b] = lowest[a][b].min(ahead);
                    highest[a][b] = highest[a][b].max(ahead);
                    prop_assert!(highest[a][b] - lowest[a][b] <= i64::from(quantum) + 2 * 1500);
                }
            }
        }
    }

    /// Over any interval at most rate × time + burst leaves a shaper.
    ///
    /// A backlogged one is late by less than one packet.
    #[test]
    fn a_shaper_keeps_its_rate(
        rate in 10_000u64..5_000_000, burst in 1500u64..6000,
        sizes in prop::collection::vec(40u32..1500, 1..200),
    ) {
        let inner = DisciplineSpec::drop_tail(1000);
        let mut q = DisciplineSpec::shaped(BitRate(rate), Bytes(burst), inner).build().unwrap();
        let mut total = 0u128;
        for &bytes in &sizes {
            put(&mut q, T0, item(0, bytes, 0));
            total += u128::from(bytes);
        }
        let mut sent = Vec::new();
        let mut now = T0;
        while q.backlog().packets > 0 {
            now = q.next_ready(now);
            let item = q.dequeue(now);
            prop_assert!(item.is_some());
            sent.push(common::Sent { at: now, item: item.unwrap() });
        }
        prop_assert_eq!(within(&sent, BitRate(rate), burst), Ok(()));
        let earned = u128::from(rate) * u128::from(now.as_nanos()) / 8_000_000_000;
        prop_assert!(total + 1 >= earned, "{total} sent, {earned} earned");
    }
}

#[test]
fn a_shaper_changes_rate_in_place() {
    let inner = DisciplineSpec::drop_tail(100);
    let mut q = DisciplineSpec::shaped(BitRate(8_000_000), Bytes(1000), inner).build().unwrap();
    for n in 0..3 {
        put(&mut q, T0, item(n, 1000, 0));
    }
    assert_eq!(q.dequeue(T0).unwrap().handle, 0);
    assert_eq!(q.next_ready(T0), at_ms(1));
    let only = |burst| ClassRates {
        burst: Bytes(burst),
        cburst: Bytes(burst),
        ..ClassRates::fixed(BitRate(800_000))
    };
    q.as_htb_mut().unwrap().set_rates(T0, ClassId(1), only(1000)).unwrap();
    assert_eq!(q.next_ready(T0), at_ms(10));
    assert_eq!(q.dequeue(at_ms(9)), None);
    assert_eq!(q.dequeue(at_ms(10)).unwrap().handle, 1);
    // A burst below the waiting packet must not block it.
    q.as_htb_mut().unwrap().set_rates(at_ms(10), ClassId(1), only(500)).unwrap();
    assert_eq!(q.dequeue(q.next_ready(at_ms(10))).unwrap().handle, 2);
    let verdict = q.enqueue(at_ms(100), item(3, 501, 0), Backlog::NONE, &mut stream());
    assert_eq!(verdict, Verdict::Dropped(DropCause::TooBig));
}

#[test]
fn a_shapers_head_fills_a_place_of_its_buffer() {
    let inner = DisciplineSpec::drop_tail(2);
    let mut q = DisciplineSpec::shaped(BitRate(8_000), Bytes(1500), inner).build().unwrap();
    let verdicts: Vec<_> = (0..3).map(|n| drop_of(offer(&mut q, item(n, 1500, 0)))).collect();
    assert_eq!(verdicts, [None, None, Some(DropCause::Full)]);
}

fn red(max_p: f64, gentle: bool, ecn: bool) -> Discipline {
    // Weight 1: the average equals the queue, so that each zone can be set directly.
    let spec = RedSpec {
        min: 2.0,
        max: 4.0,
        max_p,
        weight: 1.0,
        gentle,
        ecn,
        ..RedSpec::packets(20, ms(1))
    };
    DisciplineSpec::Red(spec).build().unwrap()
}

/// Share of arrivals that a queue of `depth` packets drops or marks early.
fn early(q: &mut Discipline, depth: u32, ect: bool) -> (f64, f64) {
    let mut rng = stream();
    let (mut drops, mut marks) = (0, 0);
    let mut n = 0;
    let trials = 20_000;
    while n < trials {
        let it = Item { ect, ..item(0, 1000, 0) };
        // Only arrivals that find exactly `depth` packets are trials.
        let counts = q.backlog().packets == depth;
        n += u32::from(counts);
        match q.enqueue(T0, it, Backlog::NONE, &mut rng) {
            Verdict::Dropped(DropCause::Early) => drops += u32::from(counts),
            Verdict::Marked => marks += u32::from(counts),
            Verdict::Queued => {}
            v => panic!("{v:?}"),
        }
        if q.backlog().packets > depth {
            q.dequeue(T0);
        }
    }
    (f64::from(drops) / f64::from(trials), f64::from(marks) / f64::from(trials))
}

/// Floyd & Jacobson 1993 §VII.
///
/// The rule p_a = p_b / (1 − count · p_b) spreads the gaps between drops evenly. Their Fig. 2 counts the
/// first packet after a drop as 1, so that gaps are uniform on 1 … 1/p_b − 1 and the share dropped is 1 /
/// mean gap = 2 p_b.
#[test]
fn red_drops_evenly_spread_at_the_rate_of_the_paper() {
    let p_b = 0.1 * (3.0 - 2.0) / (4.0 - 2.0);
    let (drops, marks) = early(&mut red(0.1, false, false), 3, true);
    assert!((drops - 2.0 * p_b).abs() < 0.002, "{drops}");
    assert_eq!(marks, 0.0, "ECN is off");
    let (drops, _) = early(&mut red(0.1, false, false), 1, false);
    assert_eq!(drops, 0.0, "below min nothing is dropped");
}

#[test]
fn red_marks_ecn_capable_packets() {
    let (drops, marks) = early(&mut red(0.1, false, true), 3, true);
    assert_eq!(drops, 0.0);
    assert!((marks - 0.1).abs() < 0.002, "{marks}");
    let (drops, marks) = early(&mut red(0.1, false, true), 3, false);
    assert!((drops - 0.1).abs() < 0.002, "{drops}");
    assert_eq!(marks, 0.0);
}

/// Rangwala 2008 §4.1: the average causes no drops, and only ECN-capable packets are marked.
#[test]
fn a_threshold_marks_above_it_and_drops_only_at_the_limit() {
    let spec = ThresholdSpec { threshold: 2.0, weight: 1.0, ..ThresholdSpec::packets(5, ms(1)) };
    let mut q = DisciplineSpec::Threshold(spec).build().unwrap();
    let arrive = |q: &mut Discipline, n, ect| offer(q, Item { ect, ..item(n, 1000, 0) });
    for n in 0..3 {
        assert_eq!(arrive(&mut q, n, true), Verdict::Queued, "{n} packets wait");
    }
    assert_eq!(arrive(&mut q, 3, true), Verdict::Marked);
    assert_eq!(arrive(&mut q, 4, false), Verdict::Queued, "an acknowledgement passes");
    for ect in [true, false] {
        assert_eq!(arrive(&mut q, 5, ect), Verdict::Dropped(DropCause::Full));
    }
    assert_eq!(handles(&mut q), [0, 1, 2, 3, 4]);
    // Table 1: the average of a queue of ten passes 4 with the 26th sample, and falls with idle time.
    let spec = ThresholdSpec::packets(64, ms(2));
    let mut q = DisciplineSpec::Threshold(spec).build().unwrap();
    (0..10).for_each(|n| put(&mut q, T0, item(n, 1000, 0)));
    let before = (0..).find(|n| {
        q.dequeue(T0);
        arrive(&mut q, *n, true) == Verdict::Marked
    });
    assert!((20..=30).contains(&before.unwrap()), "{before:?}");
    while q.dequeue(T0).is_some() {}
    let late = T0 + ms(200);
    let verdict =
        q.enqueue(late, Item { ect: true, ..item(0, 1000, 0) }, Backlog::NONE, &mut stream());
    assert_eq!(verdict, Verdict::Queued);
    for threshold in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let spec = ThresholdSpec { threshold, ..ThresholdSpec::packets(64, ms(2)) };
        let refused = DisciplineSpec::Threshold(spec).build().map(|_| ()).unwrap_err();
        assert!(matches!(refused, SpecError::Threshold(_)), "{refused}");
    }
}

fn red_average(q: &Discipline) -> f64 {
    match q {
        Discipline::Red(red) => red.average(),
        _ => panic!("not RED"),
    }
}

#[test]
fn red_above_max_drops_all() {
    // A negligible probability, so that the queue can grow to max.
    let mut q = red(1e-9, false, true);
    while q.backlog().packets < 4 {
        put(&mut q, T0, item(0, 1000, 0));
    }
    let ect = Item { ect: true, ..item(0, 1000, 0) };
    assert_eq!(offer(&mut q, ect), Verdict::Dropped(DropCause::Forced), "RFC 3168 §7");
}

#[test]
fn gentle_red_drops_all_only_above_twice_max() {
    let spec =
        RedSpec { min: 2.0, max: 4.0, max_p: 1e-9, weight: 0.01, ..RedSpec::packets(2000, ms(1)) };
    let mut q = DisciplineSpec::Red(spec).build().unwrap();
    let mut rng = stream();
    let (mut passed, mut forced) = (0, 0);
    for _ in 0..1000 {
        let verdict = q.enqueue(T0, item(0, 1000, 0), Backlog::NONE, &mut rng);
        let average = red_average(&q);
        assert_eq!(verdict == Verdict::Dropped(DropCause::Forced), average >= 8.0, "{average}");
        passed += u32::from(average >= 4.0 && verdict == Verdict::Queued);
        forced += u32::from(average >= 8.0);
    }
    assert!(passed > 0 && forced > 0, "{passed} {forced}");
}

#[test]
fn red_average_decays_over_idle_time() {
    let spec =
        RedSpec { min: 2.0, max: 4.0, weight: 0.5, max_p: 1e-9, ..RedSpec::packets(20, ms(10)) };
    let mut q = DisciplineSpec::Red(spec).build().unwrap();
    for _ in 0..3 {
        put(&mut q, T0, item(0, 1000, 0));
    }
    let before = red_average(&q); // samples 0 (idle), 1, 2
    assert!((before - 1.25).abs() < 1e-12, "{before}");
    while q.dequeue(T0).is_some() {}
    // Idle for three typical packets: three halvings.
    put(&mut q, at_ms(30), item(0, 1000, 0));
    assert!((red_average(&q) - before / 8.0).abs() < 1e-12, "{}", red_average(&q));
}

#[test]
fn red_in_bytes_drops_large_packets_sooner() {
    let spec = RedSpec {
        limit: Limit::Bytes(100_000),
        min: 1000.0,
        max: 9000.0,
        max_p: 0.1,
        weight: 1.0,
        mean_packet: 500,
        ..RedSpec::packets(1, ms(1))
    };
    let share = |bytes: u32| {
        let mut q = DisciplineSpec::Red(spec.clone()).build().unwrap();
        let mut rng = stream();
        let mut drops = 0;
        for n in 0..40_000 {
            // Every second arrival is a probe of this size, with 5000 bytes of other packets
            // queued.
            while q.backlog().bytes < 5000 {
                q.enqueue(T0, item(n, 500, 0), Backlog::NONE, &mut rng);
            }
            while q.backlog().bytes > 5000 {
                q.dequeue(T0);
            }
            drops += u32::from(
                drop_of(q.enqueue(T0, item(n, bytes, 1), Backlog::NONE, &mut rng)).is_some(),
            );
        }
        f64::from(drops) / 40_000.0
    };
    let (small, large) = (share(100), share(1000));
    assert!(large > 5.0 * small && small > 0.0, "{small} {large}");
}

fn fred(weight: f64, many_flows: bool) -> Discipline {
    let spec = FredSpec { weight, many_flows, ..FredSpec::packets(40, ms(1)) };
    DisciplineSpec::Fred(spec).build().unwrap()
}

#[test]
fn fred_caps_a_greedy_flow_at_max_q() {
    let mut q = fred(0.002, true);
    let drops: Vec<_> = (0..12).map(|n| drop_of(offer(&mut q, item(n, 1000, 0)))).collect();
    assert_eq!(drops[..10], [None; 10], "max_q is a quarter of the buffer");
    assert_eq!(drops[10..], [Some(DropCause::Unresponsive); 2]);
    // After two strikes, the flow may not exceed the average flow (here one packet).
    while q.backlog().packets > 1 {
        q.dequeue(T0);
    }
    assert_eq!(drop_of(offer(&mut q, item(20, 1000, 0))), Some(DropCause::Unresponsive));
    assert_eq!(offer(&mut q, item(21, 1000, 1)), Verdict::Queued, "others are free");
    // The state of a drained flow is removed.
    while q.dequeue(T0).is_some() {}
    put(&mut q, T0, item(22, 1000, 0));
    put(&mut q, T0, item(23, 1000, 0));
}

#[test]
fn fred_spares_flows_with_few_packets() {
    // About 15 packets, between 10 and 20, half of them of one flow, which alone is subject to
    // drops.
    let mut q = fred(1.0, true);
    let mut rng = stream();
    let mut put = |q: &mut Discipline, flow| {
        drop_of(q.enqueue(T0, item(0, 1000, flow), Backlog::NONE, &mut rng))
    };
    let mut early = 0;
    for fresh in 1..3000 {
        assert_eq!(put(&mut q, fresh), None, "a flow's first packet is never dropped at random");
        early += u32::from(put(&mut q, 0) == Some(DropCause::Early));
        while q.backlog().packets > 15 {
            q.dequeue(T0);
        }
    }
    assert!(early > 0, "robust flows are dropped at random");
}

#[test]
fn fred_above_max_leaves_two_packets_per_flow_or_none() {
    for many_flows in [true, false] {
        let mut q = fred(1.0, many_flows);
        let mut rng = stream();
        let mut flow = 0;
        // Twenty-one flows of one packet bring the average to max (20).
        while q.backlog().packets < 21 {
            q.enqueue(T0, item(0, 1000, flow), Backlog::NONE, &mut rng);
            flow += 1;
        }
        let verdict = drop_of(q.enqueue(T0, item(0, 1000, 500), Backlog::NONE, &mut rng));
        if many_flows {
            assert_eq!(verdict, None);
            q.enqueue(T0, item(0, 1000, 500), Backlog::NONE, &mut rng);
            let third = drop_of(q.enqueue(T0, item(0, 1000, 500), Backlog::NONE, &mut rng));
            assert_eq!(third, Some(DropCause::Unresponsive));
        } else {
            assert_eq!(verdict, Some(DropCause::Forced));
        }
    }
}

#[test]
fn fred_above_max_strikes_those_with_twice_the_share() {
    let mut q = fred(1.0, false);
    let mut rng = stream();
    let mut put = |q: &mut Discipline, flow| {
        drop_of(q.enqueue(T0, item(0, 1000, flow), Backlog::NONE, &mut rng))
    };
    for flow in (0..15).chain([0, 0, 0, 0, 0, 0]) {
        assert_eq!(put(&mut q, flow), None);
    }
    // 21 packets, average 20 over 15 flows; flow 0 holds 7, flow 1 one.
    assert_eq!(put(&mut q, 0), Some(DropCause::Unresponsive));
    assert_eq!(put(&mut q, 1), Some(DropCause::Forced));
}

#[test]
fn fred_takes_its_average_at_departures_too() {
    let mut q = fred(0.5, true);
    for flow in 0..3 {
        put(&mut q, T0, item(0, 1000, flow)); // samples 0 (idle), 1, 2
    }
    q.dequeue(T0); // sample 2
    q.dequeue(T0); // sample 1
    let Discipline::Fred(fred) = &q else { panic!() };
    assert_eq!(fred.average(), 0.5 * (0.5 * (1.25 + 2.0) + 1.0));
}

#[test]
fn specs_are_checked() {
    let refused = |s: DisciplineSpec| s.build().unwrap_err().to_string();
    assert_eq!(refused(DisciplineSpec::drop_tail(0)), "buffer must not be zero");
    let fair = FairSpec { quantum: 0, ..FairSpec::per_flow(Limit::Packets(5)) };
    assert_eq!(refused(DisciplineSpec::Fair(fair)), "quantum must not be zero");
    let red = RedSpec { min: 15.0, max: 5.0, ..RedSpec::packets(50, ms(1)) };
    assert_eq!(
        refused(DisciplineSpec::Red(red)),
        "thresholds must satisfy 0 < min < max, but min is 15 and max is 5"
    );
    let fred = FredSpec { max_p: f64::NAN, ..FredSpec::packets(50, ms(1)) };
    assert_eq!(refused(DisciplineSpec::Fred(fred)), "max_p must lie in (0, 1], but is NaN");
    let shaped = |rate, burst| {
        DisciplineSpec::shaped(BitRate(rate), Bytes(burst), DisciplineSpec::drop_tail(1))
    };
    assert_eq!(refused(shaped(0, 1500)), "rate must not be zero");
    assert!(matches!(shaped(1, 1 << 40).build(), Err(SpecError::Burst(_))));
}
