//! Floods at a gateway whose homes may have agents: messages, limits and waiting.

use std::collections::BTreeMap;

use fairmesh_units::{FlowId, NodeId, Span, Time};

use super::service::PACKET;
use crate::sources::agent::codec::Order;
use crate::testing::{flow, gateway, limits_of, reasons_of, start};
use crate::{Action, Actions, Class, Counters, Event, FlowCounters, Instance, Limit, Place};

/// Bit/s that a flood brings, whatever its limit is.
const FLOOD: f64 = 1.2e6;

struct Gateway {
    instance: Instance,
    now: Time,
    limits: BTreeMap<FlowId, f64>,
    /// Bits that passed and packets that were dropped.
    counted: BTreeMap<FlowId, (f64, f64)>,
    reasons: Vec<String>,
    /// Limits sent to homes, in order.
    told: Vec<(NodeId, Option<u64>)>,
}

/// Flows that come up the mesh from these homes.
fn homes(name: &str, homes: &[u32]) -> Gateway {
    let here =
        |(id, home): (u32, &u32)| flow(id).with_home(Some(NodeId(*home))).with_upstream(Some(true));
    let setting = gateway(&[]).with_flows((0..).zip(homes).map(here));
    assert!(setting.flows.iter().all(|f| f.place == Place::Forwarder));
    let instance = start(name, setting);
    let limits = instance.plan.classes.iter().map(|c| match (c.class, c.limit) {
        (Class::Flow(f), Limit::Rate(r)) => (f, r.0 as f64),
        other => panic!("{other:?}"),
    });
    Gateway {
        now: Time::ZERO,
        limits: limits.collect(),
        counted: BTreeMap::new(),
        reasons: Vec::new(),
        told: Vec::new(),
        instance,
    }
}

impl Gateway {
    /// Seconds in which flows bring so much, bit/s, of which no more than their limit passes; what is said and told
    /// in them.
    fn run(&mut self, seconds: u32, brings: impl Fn(u32, f64) -> f64) {
        (self.reasons, self.told) = (Vec::new(), Vec::new());
        for _ in 0..seconds {
            let mut actions = Actions::new();
            for (&id, &limit) in &self.limits {
                let counted = self.counted.entry(id).or_default();
                let came = brings(id.0, limit);
                counted.0 += came.min(limit);
                counted.1 += ((came - limit) / PACKET).max(0.0);
                let (bytes, packets) = ((counted.0 / 8.0) as u64, (counted.0 / PACKET) as u64);
                let counters = FlowCounters { flow: id, bytes, packets };
                self.instance.control.on(self.now, &Event::FlowCounters(counters), &mut actions);
                let (class, drops) = (Class::Flow(id), counted.1 as u64);
                let (overlimits, queued_packets, queued_bytes) = (0, 0, 0);
                let class = Counters {
                    class,
                    bytes,
                    packets,
                    drops,
                    overlimits,
                    queued_packets,
                    queued_bytes,
                };
                self.instance.control.on(self.now, &Event::Counters(class), &mut actions);
            }
            self.instance.control.on(self.now, &Event::Deadline, &mut actions);
            for (class, rate) in limits_of(&actions) {
                let Class::Flow(id) = class else { panic!("{class}") };
                self.limits.insert(id, rate as f64);
            }
            for action in actions.iter() {
                if let Action::Route { to, .. } = *action {
                    let order = Order::decode(actions.body(action)).unwrap();
                    self.told.push((to, order.limit.map(|l| l.0.0)));
                }
            }
            self.reasons.extend(reasons_of(&actions));
            self.now += Span::from_secs(1);
        }
    }

    fn says(&self, what: &str) -> bool {
        self.reasons.iter().any(|r| r.contains(what))
    }

    fn limit(&self, id: u32) -> f64 {
        self.limits[&FlowId(id)]
    }
}

fn floods(id: u32, limit: f64) -> f64 {
    if id == 0 { FLOOD } else { limit }
}

fn keeps(_: u32, limit: f64) -> f64 {
    limit
}

#[test]
fn a_home_is_told_to_forget_once_its_flood_is_over_and_not_before() {
    let mut g = homes("maxmin+agents", &[10, 10, 11]);
    g.run(5, keeps);
    assert!(g.told.is_empty());
    g.run(30, floods);
    assert!(g.says("flow 0 is a flood") && !g.told.is_empty(), "{:?}", g.reasons);
    // Another home's transfer that overshoots, and answers.
    let begins = g.limit(2);
    g.run(30, |id, limit| match id {
        0 => FLOOD,
        2 => 400e3 * (limit / begins).min(1.0),
        _ => limit,
    });
    assert!(g.says("flow 2 brings"), "{:?}", g.reasons);
    let always = |g: &Gateway| g.told.iter().all(|t| t.0 == NodeId(10) && t.1.is_some());
    assert!(always(&g), "{:?}", g.told);
    g.run(20, keeps);
    assert!(g.says("node 10, keeps its limit") && always(&g), "{:?} {:?}", g.reasons, g.told);
    g.run(40, |id, limit| if id == 0 { 0.0 } else { limit });
    assert!(g.says("flow 0 is no flood any more"), "{:?}", g.reasons);
    let forget: Vec<usize> = (0..g.told.len()).filter(|&i| g.told[i].1.is_none()).collect();
    assert_eq!(forget, [g.told.len() - 1], "the last that it hears: {:?}", g.told);
}

#[test]
fn a_flood_that_nothing_limits_at_its_source_is_its_own_homes_loss() {
    let mut g = homes("maxmin+agents", &[10, 10, 11]);
    g.run(40, floods);
    assert!(g.says("flow 0 is a flood"), "{:?}", g.reasons);
    assert!(g.says("flow 1 has") && !g.says("flow 2 has"), "{:?}", g.reasons);
    assert!(g.limit(1) < 0.3 * g.limit(2), "{:?}", g.limits);
    // Once its source keeps the limit its home has its share.
    g.run(20, keeps);
    assert!((g.limit(1) / g.limit(2) - 1.0).abs() < 0.02, "{:?}", g.limits);
}

#[test]
fn what_others_missed_because_of_a_flood_is_not_held_against_the_level() {
    let mut g = homes("maxmin+agents", &[10, 11, 12]);
    g.run(15, keeps);
    g.run(30, |id, limit| match id {
        0 => FLOOD,
        1 => 0.4 * limit,
        _ => limit,
    });
    assert!(g.says("flow 0 is a flood") && !g.says("is short: down"), "{:?}", g.reasons);
    // The source keeps its limit, and the others recover.
    g.run(40, keeps);
    assert!(g.says("node 10, keeps its limit") && !g.says("is short: down"), "{:?}", g.reasons);
    // From then on a short flow is noticed.
    g.run(40, |id, limit| if id == 1 { 0.4 * limit } else { limit });
    assert!(g.says("flow 1 is short"), "{:?}", g.reasons);
}
