//! Invariants of all disciplines: no packet is lost, created, or reordered within a flow.

mod common;

use std::collections::BTreeMap;

use common::{item, stream};
use fairmesh_queueing::*;
use fairmesh_units::{BitRate, Bytes, Span, Time};
use proptest::prelude::*;

fn ms(n: u64) -> Span {
    Span::from_millis(n)
}

fn tree(release: Release, queue: DisciplineSpec) -> DisciplineSpec {
    let rates = |r, c| ClassRates::between(BitRate(r), BitRate(c));
    let queue = || queue.clone();
    let root = Some(ClassId(1));
    DisciplineSpec::Htb(HtbSpec {
        classes: vec![
            ClassSpec::inner(1, None, rates(2_000_000, 2_000_000)),
            ClassSpec::leaf(
                10,
                root,
                rates(200_000, 2_000_000),
                DisciplineSpec::Fair(FairSpec {
                    total: Some(6),
                    ..FairSpec::per_flow(Limit::Packets(3))
                }),
            ),
            ClassSpec { prio: 3, ..ClassSpec::leaf(11, root, rates(900_000, 1_000_000), queue()) },
            ClassSpec::inner(2, root, rates(100_000, 700_000)),
            ClassSpec::leaf(20, Some(ClassId(2)), rates(50_000, 500_000), queue()),
        ],
        flows: vec![(0, ClassId(10)), (1, ClassId(10)), (2, ClassId(11)), (3, ClassId(20))],
        default: None,
        direct: Limit::Packets(3),
        r2q: 10,
        release,
    })
}

fn quick(ecn: bool) -> CodelSpec {
    CodelSpec { target: ms(2), interval: ms(10), ecn, mtu: 500, ..CodelSpec::default() }
}

fn fq_codel() -> DisciplineSpec {
    DisciplineSpec::FqCodel(FqCodelSpec {
        packets: 9,
        flows: 3,
        quantum: 300,
        drop_batch: 4,
        codel: quick(true),
        ..FqCodelSpec::default()
    })
}

fn cake(rate: Option<BitRate>) -> CakeSpec {
    let (memory, interval) = (Some(Bytes(9000)), ms(10));
    CakeSpec { rate, memory, flows: 8, target: ms(2), interval, ..CakeSpec::default() }
}

fn stations(airtime: Option<Span>) -> StationsSpec {
    StationsSpec {
        packets: 12,
        flows: 4,
        codel: quick(true),
        airtime,
        aql: None,
        ..StationsSpec::default()
    }
}

fn every_kind() -> impl Strategy<Value = DisciplineSpec> {
    let fair = FairSpec { buckets: 3, ..FairSpec::per_flow(Limit::Packets(4)) };
    let red = RedSpec { min: 2.0, max: 5.0, weight: 0.2, ecn: true, ..RedSpec::packets(10, ms(1)) };
    let red_bytes = RedSpec { limit: Limit::Bytes(8000), min: 1500.0, max: 4000.0, ..red.clone() };
    let fred = FredSpec { weight: 0.2, buckets: 4, ..FredSpec::packets(12, ms(1)) };
    let leaf = prop::sample::select(vec![
        DisciplineSpec::drop_tail(4),
        DisciplineSpec::DropTail(Limit::Bytes(5000)),
        DisciplineSpec::Fair(FairSpec { quantum: 100, total: Some(8), ..fair.clone() }),
        DisciplineSpec::Fair(FairSpec { per_flow: Limit::Bytes(3000), ..fair }),
        DisciplineSpec::Wfq(WfqSpec {
            weights: vec![0.5, 3.0],
            buckets: 3,
            ..WfqSpec::per_flow(Limit::Packets(4))
        }),
        DisciplineSpec::Red(red),
        DisciplineSpec::Red(red_bytes),
        DisciplineSpec::Threshold(ThresholdSpec {
            weight: 0.2,
            ..ThresholdSpec::packets(10, ms(1))
        }),
        DisciplineSpec::Fred(FredSpec { many_flows: false, ..fred.clone() }),
        DisciplineSpec::Fred(fred),
        DisciplineSpec::Codel(Limit::Packets(9), quick(false)),
        fq_codel(),
        DisciplineSpec::Cake(cake(None)),
        DisciplineSpec::Cake(cake(Some(BitRate(900_000)))),
        DisciplineSpec::DualPi2(DualPi2Spec { limit: Limit::Packets(9), ..DualPi2Spec::default() }),
        DisciplineSpec::Stations(stations(Some(ms(1)))),
        DisciplineSpec::Stations(StationsSpec { slow: None, ..stations(None) }),
        tree(Release::Debt, DisciplineSpec::drop_tail(5)),
        tree(Release::Whole, DisciplineSpec::drop_tail(5)),
        tree(Release::Debt, fq_codel()),
        tree(Release::Whole, fq_codel()),
    ]);
    (leaf, any::<bool>()).prop_map(|(d, shaped)| {
        use DisciplineSpec::{Cake, DualPi2, Htb, Stations};
        let leaf = !matches!(d, Htb(_) | Cake(_) | DualPi2(_) | Stations(_));
        let shaped = shaped && leaf;
        if shaped { DisciplineSpec::shaped(BitRate(1_500_000), Bytes(1400), d) } else { d }
    })
}

#[derive(Clone, Debug)]
enum Step {
    Arrive { flow: u32, bytes: u32, held: u32 },
    Leave,
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => (0u32..6, 40u32..1500, 0u32..2)
            .prop_map(|(flow, bytes, held)| Step::Arrive { flow, bytes, held }),
        4 => Just(Step::Leave),
        1 => (0u64..20_000_000).prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 1..400)
}

/// Expected content, tracked by the caller.
#[derive(Default)]
struct Expected {
    flows: BTreeMap<u32, Vec<Item>>,
}

impl Expected {
    fn enter(&mut self, it: Item) {
        self.flows.entry(it.flow).or_default().push(it);
    }
    /// Removes an evicted packet, which may be any of the flow.
    fn evict(&mut self, it: Item) -> bool {
        let q = self.flows.entry(it.flow).or_default();
        q.iter().position(|x| *x == it).map(|at| q.remove(at)).is_some()
    }
    /// Removes a packet that left, which must be the oldest of its flow.
    fn leave(&mut self, it: Item) -> bool {
        let q = self.flows.entry(it.flow).or_default();
        !q.is_empty() && q.remove(0) == it
    }
    /// Applies the queue's later outcomes for accepted packets.
    fn settle(&mut self, q: &mut Discipline, left: Option<Item>) -> Result<(), TestCaseError> {
        let ahead = matches!(q, Discipline::Htb(_));
        while let Some(late) = q.deferred_verdict() {
            match late {
                DeferredVerdict::Dropped(it, _) => {
                    prop_assert!(self.evict(it), "{it:?} was not there")
                }
                // A tree with the rule of `tbf` takes a leaf's next packet before it may leave.
                DeferredVerdict::Marked(it) => prop_assert!(it.ect && (ahead || left == Some(it))),
            }
        }
        Ok(())
    }
    fn backlog(&self) -> Backlog {
        let mut b = Backlog::NONE;
        self.flows.values().flatten().for_each(|it| b.add(*it));
        b
    }
}

proptest! {
    #[test]
    fn in_equals_out_plus_dropped_plus_backlog(spec in every_kind(), steps in steps(), swap in every_kind()) {
        let mut q = spec.build().unwrap();
        let mut rng = stream();
        let mut expected = Expected::default();
        let mut now = Time::ZERO;
        for (n, step) in steps.iter().enumerate() {
            match *step {
                Step::Arrive { flow, bytes, held } => {
                    let it = Item { ect: n % 2 == 0, station: flow as u16 / 2, ..item(n as u32, bytes, flow) };
                    let held = Backlog { packets: held, bytes: u64::from(held) * 500 };
                    match q.enqueue(now, it, held, &mut rng) {
                        Verdict::Queued => expected.enter(it),
                        Verdict::Marked => {
                            prop_assert!(it.ect, "only ECN-capable packets are marked");
                            expected.enter(it);
                        }
                        Verdict::Dropped(_) => {}
                        Verdict::Evicted(out, _) => {
                            expected.enter(it);
                            prop_assert!(expected.evict(out));
                        }
                    }
                    expected.settle(&mut q, None)?;
                }
                Step::Leave => {
                    let ready = q.next_ready(now);
                    prop_assert!(ready >= now);
                    let out = q.dequeue(now);
                    prop_assert!(out.is_none() || ready == now, "left before it was ready");
                    expected.settle(&mut q, out)?;
                    if let Some(it) = out {
                        prop_assert!(expected.leave(it), "{it:?} out of order");
                    }
                }
                Step::Wait(ns) => now += Span::from_nanos(ns),
            }
            prop_assert_eq!(q.backlog(), expected.backlog());
            prop_assert_eq!(q.next_ready(now) == Time::NEVER, q.backlog().packets == 0);
        }
        // Half of the packets leave when due; the rest moves to another discipline.
        let half = q.backlog().packets / 2;
        while q.backlog().packets > half {
            now = q.next_ready(now);
            let out = q.dequeue(now);
            expected.settle(&mut q, out)?;
            prop_assert!(out.is_some_and(|it| expected.leave(it)), "ready but nothing comes: {out:?}");
        }
        let mut to = swap.build().unwrap();
        let mut rest = Expected::default();
        for it in q.drain() {
            prop_assert!(expected.leave(it), "drained out of order");
            match to.enqueue(now, it, Backlog::NONE, &mut rng) {
                Verdict::Dropped(_) => {}
                Verdict::Evicted(out, _) => { rest.enter(it); prop_assert!(rest.evict(out)); }
                _ => rest.enter(it),
            }
            rest.settle(&mut to, None)?;
        }
        prop_assert_eq!(expected.backlog(), Backlog::NONE);
        prop_assert_eq!(q.backlog(), Backlog::NONE);
        prop_assert_eq!(q.next_ready(now), Time::NEVER);
        prop_assert_eq!(to.backlog(), rest.backlog());
        // A drained queue works like a new one.
        common::put(&mut q, now + ms(60_000), item(9999, 100, 0));
        prop_assert_eq!(q.backlog().packets, 1);
        let again = q.next_ready(now + ms(60_000));
        prop_assert_eq!(q.dequeue(again).map(|it| it.handle), Some(9999));
    }
}
