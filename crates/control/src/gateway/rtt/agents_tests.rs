//! Floods at a gateway of homes that may have agents: messages, limits and waiting.

use std::collections::BTreeMap;

use fairmesh_units::{FlowId, NodeId, Span, Time};

use super::PACKET_BITS;
use crate::sources::agent::codec::Order;
use crate::testing::{flow, gateway, limits_of, reasons_of, start_with};
use crate::{
    Action, Actions, Class, Counters, Event, FlowCounters, Instance, Limit, PathSigns, Place,
    RoundTripSample, RoundTripSource,
};

/// Offered load of a flood for any limit, in bit/s.
const FLOOD: f64 = 1.2e6;

struct Gateway {
    instance: Instance,
    now: Time,
    limits: BTreeMap<FlowId, f64>,
    /// Bits that passed and packets that were dropped.
    counted: BTreeMap<FlowId, (f64, f64)>,
    /// Delay of all flows in the mesh, ms; `None` if no round trip is known.
    delay: Option<u64>,
    reasons: Vec<String>,
    /// Limits sent to homes, in order.
    sent: Vec<(NodeId, Option<u64>)>,
}

/// Flows that come up the mesh from these homes.
fn homes(name: &str, homes: &[u32]) -> Gateway {
    homes_with(name, homes, &[])
}

fn homes_with(name: &str, homes: &[u32], options: &[(&str, f64)]) -> Gateway {
    let here =
        |(id, home): (u32, &u32)| flow(id).with_home(Some(NodeId(*home))).with_upstream(Some(true));
    let setting = gateway(&[]).with_flows((0..).zip(homes).map(here));
    assert!(setting.flows.iter().all(|f| f.place == Place::Forwarder));
    let instance = start_with(name, setting, options).unwrap();
    let limits = instance.plan.classes.iter().map(|c| match (c.class, c.limit) {
        (Class::Flow(f), Limit::Rate(r)) => (f, r.0 as f64),
        other => panic!("{other:?}"),
    });
    Gateway {
        now: Time::ZERO,
        limits: limits.collect(),
        counted: BTreeMap::new(),
        delay: None,
        reasons: Vec::new(),
        sent: Vec::new(),
        instance,
    }
}

impl Gateway {
    /// Runs seconds in which flows offer this rate, bit/s, and at most their limit passes.
    ///
    /// Keeps the reasons and messages of these seconds.
    fn run(&mut self, seconds: u32, brings: impl Fn(u32, f64) -> f64) {
        (self.reasons, self.sent) = (Vec::new(), Vec::new());
        for _ in 0..seconds {
            let mut actions = Actions::new();
            for (&id, &limit) in &self.limits {
                let counted = self.counted.entry(id).or_default();
                let came = brings(id.0, limit);
                counted.0 += came.min(limit);
                counted.1 += ((came - limit) / PACKET_BITS).max(0.0);
                let (bytes, packets) = ((counted.0 / 8.0) as u64, (counted.0 / PACKET_BITS) as u64);
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
                let trip = |delay| RoundTripSample {
                    median: Span::from_millis(20 + delay),
                    base: Span::from_millis(20),
                    count: 10,
                    source: RoundTripSource::Tcp,
                };
                let signs = PathSigns::new(id).with_trips(self.delay.map(trip), None);
                self.instance.control.on(self.now, &Event::PathSigns(signs), &mut actions);
            }
            self.instance.control.on(self.now, &Event::Deadline, &mut actions);
            for (class, rate) in limits_of(&actions) {
                let Class::Flow(id) = class else { panic!("{class}") };
                self.limits.insert(id, rate as f64);
            }
            for action in actions.iter() {
                if let Action::Route { to, .. } = *action {
                    let order = Order::decode(actions.body(action)).unwrap();
                    self.sent.push((to, order.limit.map(|l| l.0.0)));
                }
            }
            self.reasons.extend(reasons_of(&actions));
            self.now += Span::from_secs(1);
        }
    }

    fn has_reason(&self, what: &str) -> bool {
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
fn a_limit_at_the_source_is_lifted_once_the_flood_is_over_and_not_before() {
    let mut g = homes("rtt+agents", &[10, 10, 11]);
    g.run(5, keeps);
    assert!(g.sent.is_empty());
    g.run(30, floods);
    assert!(g.has_reason("flow 0 is a flood") && !g.sent.is_empty(), "{:?}", g.reasons);
    let always = |g: &Gateway| g.sent.iter().all(|t| t.0 == NodeId(10) && t.1.is_some());
    assert!(always(&g), "{:?}", g.sent);
    g.run(20, keeps);
    assert!(g.has_reason("node 10, keeps its limit") && always(&g), "{:?} {:?}", g.reasons, g.sent);
    g.run(40, |id, limit| if id == 0 { 0.0 } else { limit });
    assert!(g.has_reason("flow 0 is not a flood any more"), "{:?}", g.reasons);
    let lifted: Vec<usize> = (0..g.sent.len()).filter(|&i| g.sent[i].1.is_none()).collect();
    assert_eq!(lifted, [g.sent.len() - 1], "the last message: {:?}", g.sent);
}

/// An agent drops a limit after `keep`, also where that is shorter than a few seconds.
#[test]
fn a_limit_at_the_source_is_renewed_before_it_ends() {
    let mut g = homes_with("rtt+agents", &[10, 11], &[("keep", 2.0)]);
    g.run(5, keeps);
    g.run(12, floods);
    g.run(20, keeps);
    assert!(g.has_reason("node 10, keeps its limit"), "{:?}", g.reasons);
    g.run(10, keeps);
    assert!(g.sent.len() >= 5, "one in two seconds: {:?}", g.sent);
}

#[test]
fn a_flood_without_a_limit_at_its_source_costs_its_own_home() {
    let mut g = homes("rtt+agents", &[10, 10, 11]);
    g.run(40, floods);
    assert!(
        g.has_reason("flow 0 is a flood") && g.has_reason("no agent responds there"),
        "{:?}",
        g.reasons
    );
    assert!(g.has_reason("flow 1 has a quarter") && !g.has_reason("flow 2 has"), "{:?}", g.reasons);
    assert!(g.limit(1) < 0.3 * g.limit(2), "{:?}", g.limits);
    // Once its source keeps the limit its home has its share.
    g.run(20, keeps);
    assert!((g.limit(1) / g.limit(2) - 1.0).abs() < 0.02, "{:?}", g.limits);
}

#[test]
fn a_flood_lowers_the_level_only_while_its_source_is_limited() {
    let full = Some(900);
    let mut g = homes("rtt+agents", &[10, 11, 12]);
    g.run(15, keeps);
    g.run(10, floods);
    assert!(g.has_reason("flow 0 is a flood"), "{:?}", g.reasons);
    let before = g.limit(2);
    g.delay = full;
    g.run(30, floods);
    assert!(g.limit(2) >= before, "{before} {:?}", g.limits);
    // With a limit at its source it is a home like others, and the path is as full as before.
    let mut held = false;
    let lowered = (0..40).any(|_| {
        g.run(1, keeps);
        held |= g.has_reason("node 10, keeps its limit");
        g.limit(2) < 0.9 * before
    });
    assert!(held && lowered, "{before} {:?} {:?}", g.limits, g.reasons);
}

#[test]
fn a_gateway_with_peers_has_no_agents() {
    let refused = start_with("rtt+agents+peers", gateway(&[0]), &[]).unwrap_err();
    assert!(refused.to_string().contains("agents of its own homes only"), "{refused}");
    let refused = start_with("rtt+topology+peers", gateway(&[0]), &[]).unwrap_err();
    assert!(refused.to_string().contains("do not exchange fair rates"), "{refused}");
}
