//! Weighted fair queueing compared with its definition: shares by weight, and a fluid server.

mod common;

use std::collections::VecDeque;

use common::{drop_of, item, put, stream};
use fairmesh_queueing::*;
use fairmesh_units::Time;
use proptest::prelude::*;

const T0: Time = Time::ZERO;
const LARGEST: u32 = 1500;

fn queue(weights: &[f64]) -> Discipline {
    let base = WfqSpec::per_flow(Limit::Packets(1000));
    DisciplineSpec::Wfq(WfqSpec { weights: weights.to_vec(), ..base }).build().unwrap()
}

fn handles(q: &mut Discipline) -> Vec<u32> {
    std::iter::from_fn(|| q.dequeue(T0)).map(|it| it.handle).collect()
}

#[test]
fn packets_leave_in_order_of_their_finish_tags() {
    // Tags of flow 0, weight 2: 250, 500, 750, 1000; of flow 1, weight 1: 400, 800, 1200.
    let mut q = queue(&[2.0, 1.0]);
    (0..4).for_each(|n| put(&mut q, T0, item(n, 500, 0)));
    (10..13).for_each(|n| put(&mut q, T0, item(n, 400, 1)));
    assert_eq!(handles(&mut q), [0, 10, 1, 2, 11, 3, 12]);
}

#[test]
fn a_flow_that_was_idle_has_no_credit() {
    let mut q = queue(&[]);
    (0..6).for_each(|n| put(&mut q, T0, item(n, 1000, 0)));
    for n in 0..4 {
        assert_eq!(q.dequeue(T0).unwrap().handle, n);
    }
    // Virtual time is 4000: its tags are 5000 and 6000, as those of the two packets that wait.
    put(&mut q, T0, item(10, 1000, 1));
    put(&mut q, T0, item(11, 1000, 1));
    assert_eq!(handles(&mut q), [4, 10, 5, 11]);
}

#[test]
fn a_flow_ahead_of_the_fluid_server_waits_although_its_buffer_was_empty() {
    let mut q = queue(&[1.0, 1.0]);
    // Tags 1000 and 1500: the first leaves at virtual time 500.
    put(&mut q, T0, item(0, 1000, 0));
    put(&mut q, T0, item(1, 1500, 1));
    assert_eq!(q.dequeue(T0).unwrap().handle, 0);
    // Tag 1000 + 600, behind flow 1's 1500, and not 500 + 600.
    put(&mut q, T0, item(2, 600, 0));
    assert_eq!(handles(&mut q), [1, 2]);
}

#[test]
fn each_flow_has_its_own_buffer() {
    let mut q = DisciplineSpec::Wfq(WfqSpec::per_flow(Limit::Packets(2))).build().unwrap();
    let mut offer = |it| drop_of(q.enqueue(T0, it, Backlog::NONE, &mut stream()));
    assert_eq!(offer(item(0, 1500, 0)), None);
    assert_eq!(offer(item(1, 1500, 0)), None);
    assert_eq!(offer(item(2, 1500, 0)), Some(DropCause::FlowFull));
    assert_eq!(offer(item(3, 1500, 1)), None);
}

#[test]
fn invalid_weights_are_refused() {
    for weight in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let base = WfqSpec::per_flow(Limit::Packets(2));
        let spec = DisciplineSpec::Wfq(WfqSpec { weights: vec![1.0, weight], ..base });
        let refused = spec.build().map(|_| ()).unwrap_err();
        assert_eq!(refused.to_string(), format!("the weight must be above 0, but is {weight}"));
    }
}

fn weights() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec((1u32..40).prop_map(|w| f64::from(w) / 4.0), 2..6)
}

/// A fluid server, which serves all backlogged flows simultaneously by weight.
///
/// Its clock is the number of bytes served.
struct Fluid {
    weights: Vec<f64>,
    /// Unserved bytes of each packet.
    waiting: Vec<VecDeque<(u32, f64)>>,
    clock: f64,
    /// Clock at the end of each packet, by handle.
    ends: Vec<f64>,
}

impl Fluid {
    fn serve(&mut self, mut bytes: f64) {
        loop {
            let busy = |f: &usize| !self.waiting[*f].is_empty();
            let active: Vec<usize> = (0..self.weights.len()).filter(busy).collect();
            let total: f64 = active.iter().map(|&f| self.weights[f]).sum();
            let part = |f: usize| self.weights[f] / total;
            let ends_after = |f: usize| self.waiting[f][0].1 / part(f);
            let Some(least) = active.iter().map(|&f| ends_after(f)).min_by(f64::total_cmp) else {
                return;
            };
            let step = least.min(bytes);
            self.clock += step;
            for &f in &active {
                let amount = step * part(f);
                let first = &mut self.waiting[f][0];
                first.1 -= amount;
                if first.1 <= 1e-6 {
                    self.ends[first.0 as usize] = self.clock;
                    self.waiting[f].pop_front();
                }
            }
            bytes -= step;
            if bytes <= 1e-6 {
                return;
            }
        }
    }
}

proptest! {
    /// Two flows that stay backlogged have equal served bytes per weight, within a packet each.
    #[test]
    fn backlogged_flows_share_by_weight_within_a_packet(
        weights in weights(),
        sizes in prop::collection::vec(40..=LARGEST, 200),
    ) {
        let mut q = queue(&weights);
        let mut size = sizes.iter().cycle();
        let mut served = vec![0.0; weights.len()];
        let mut waiting = vec![0; weights.len()];
        for _ in 0..400 {
            for (flow, n) in waiting.iter_mut().enumerate() {
                while *n < 3 {
                    put(&mut q, T0, item(0, *size.next().unwrap(), flow as u32));
                    *n += 1;
                }
            }
            let it = q.dequeue(T0).unwrap();
            waiting[it.flow as usize] -= 1;
            served[it.flow as usize] += f64::from(it.bytes);
            for (i, wi) in weights.iter().enumerate() {
                for (j, wj) in weights.iter().enumerate() {
                    let ahead = served[i] / wi - served[j] / wj;
                    prop_assert!(ahead <= f64::from(LARGEST) / wi.min(*wj) + 1e-6, "{i} is {ahead} ahead of {j}");
                }
            }
        }
    }

    /// Parekh & Gallager 1993, Theorem 1.
    ///
    /// No packet ends later than under the fluid server by more than one packet.
    #[test]
    fn no_packet_is_later_than_the_fluid_server_by_more_than_a_packet(
        weights in weights(),
        steps in prop::collection::vec(prop::option::of((0u32..6, 40..=LARGEST)), 1..400),
    ) {
        let flows = weights.len();
        let mut q = queue(&weights);
        let mut fluid = Fluid { waiting: vec![VecDeque::new(); flows], weights, clock: 0.0, ends: Vec::new() };
        let mut ends = Vec::new();
        let mut clock = 0.0;
        // Without further arrivals, all queued packets leave.
        let steps = steps.into_iter().chain(std::iter::repeat_n(None, 400));
        for step in steps {
            if let Some((flow, bytes)) = step {
                let (flow, handle) = (flow as usize % flows, ends.len() as u32);
                put(&mut q, T0, item(handle, bytes, flow as u32));
                fluid.waiting[flow].push_back((handle, f64::from(bytes)));
                fluid.ends.push(f64::INFINITY);
                ends.push(f64::INFINITY);
            } else if let Some(it) = q.dequeue(T0) {
                fluid.serve(f64::from(it.bytes));
                clock += f64::from(it.bytes);
                ends[it.handle as usize] = clock;
            }
        }
        prop_assert_eq!(q.backlog(), Backlog::NONE);
        for (ours, fluid) in ends.iter().zip(&fluid.ends) {
            prop_assert!(*ours <= fluid + f64::from(LARGEST) + 1e-3, "{} after {}", ours, fluid);
        }
    }
}
