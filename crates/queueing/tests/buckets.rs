//! A tree with `Release::Whole`, the simulator's shaper, beside independent token buckets.
//!
//! Both release the same packets at the same nanoseconds.

mod common;

use std::collections::VecDeque;

use common::{item, stream};
use fairmesh_queueing::*;
use fairmesh_units::{BitRate, Bytes, Span, Time};
use proptest::prelude::*;

/// A bucket and its queue.
struct IndependentBucket {
    bucket: TokenBucket,
    waiting: VecDeque<Item>,
}

impl IndependentBucket {
    fn ready(&self, now: Time) -> Time {
        self.waiting.front().map_or(Time::NEVER, |it| self.bucket.ready_at(now, it.bytes))
    }
}

const QUEUE: u32 = 6;

fn rates(rate: u64, burst: u64) -> ClassRates {
    let (rate, burst) = (BitRate(rate), Bytes(burst));
    ClassRates { rate, ceil: rate, burst, cburst: burst }
}

#[derive(Clone, Debug)]
enum Step {
    Arrive { class: u32, bytes: u32 },
    Rate { class: u32, rate: u64 },
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0u32..5, 40u32..1700).prop_map(|(class, bytes)| Step::Arrive { class, bytes }),
        1 => (0u32..5, prop_oneof![Just(0), Just(8_000_000), 1_000u64..50_000_000])
            .prop_map(|(class, rate)| Step::Rate { class, rate }),
        // Whole milliseconds make several buckets due together.
        3 => prop_oneof![(0u64..9).prop_map(|ms| ms * 1_000_000), 0u64..3_000_000]
            .prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 1..300)
}

proptest! {
    #[test]
    fn leaves_are_independent_buckets(burst in 1500u64..4000, steps in steps()) {
        const FIRST: u64 = 8_000_000;
        let leaf = |id| {
            ClassSpec::leaf(id, None, rates(FIRST, burst), DisciplineSpec::drop_tail(QUEUE))
        };
        let mut tree = Htb::new(&HtbSpec {
            classes: (0..5).map(leaf).collect(),
            release: Release::Whole,
            ..HtbSpec::default()
        })
        .unwrap();
        let alone = |_| IndependentBucket {
            bucket: TokenBucket::new(BitRate(FIRST), Bytes(burst)),
            waiting: VecDeque::new(),
        };
        let mut alone: Vec<IndependentBucket> = (0..5).map(alone).collect();
        let mut now = Time::ZERO;
        for (n, step) in steps.into_iter().enumerate() {
            let mut until = now;
            match step {
                Step::Arrive { class, bytes } => {
                    let it = item(n as u32, bytes, class);
                    let verdict = tree.offer(now, ClassId(class), it, &mut stream()).unwrap();
                    let a = &mut alone[class as usize];
                    if u64::from(bytes) > burst {
                        prop_assert_eq!(verdict, Verdict::Dropped(DropCause::TooBig));
                    } else if a.waiting.len() >= QUEUE as usize {
                        prop_assert_eq!(verdict, Verdict::Dropped(DropCause::Full));
                    } else {
                        prop_assert_eq!(verdict, Verdict::Queued);
                        a.waiting.push_back(it);
                    }
                }
                Step::Rate { class, rate } => {
                    tree.set_rates(now, ClassId(class), rates(rate, burst)).unwrap();
                    alone[class as usize].bucket.set(now, BitRate(rate), Bytes(burst));
                }
                Step::Wait(ns) => until = now + Span::from_nanos(ns),
            }
            // Packets due before the step leave at their times.
            loop {
                let due = alone.iter().map(|a| a.ready(now)).min().unwrap();
                prop_assert_eq!(tree.next_ready(now), due);
                for (id, a) in alone.iter().enumerate() {
                    prop_assert_eq!(tree.next_ready_of(now, ClassId(id as u32)), a.ready(now));
                }
                if due > until {
                    break;
                }
                now = due;
                // The first of several.
                let first = alone.iter_mut().find(|a| a.ready(now) == now).unwrap();
                let it = first.waiting.pop_front().unwrap();
                first.bucket.take(now, it.bytes);
                prop_assert_eq!(tree.dequeue(now), Some(it));
            }
            prop_assert_eq!(tree.dequeue(now), None);
            now = until;
        }
    }
}
