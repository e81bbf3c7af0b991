use fairmesh_units::{BitRate, FlowId, NodeId, Span, Stream, Time};

use super::codec::{BROADCAST_BYTES, Demand, DemandReport, MAX_DEMANDS};
use crate::testing::{limits_of, start_with};
use crate::{
    Action, Actions, Class, Counters, Event, FlowHere, Instance, Limit, Message, Neighbour, Place,
    Point, Setting, Site,
};

fn here(flow: u32, place: Place, hops: u32, fair: u64) -> FlowHere {
    FlowHere::new(FlowId(flow), place, 1500, 1500)
        .with_fair(Some(BitRate(fair)))
        .with_hops(Some(hops))
}

fn node(id: u32, flows: Vec<FlowHere>) -> Instance {
    let link = |n| Neighbour::new(NodeId(n), BitRate(2_000_000), BitRate(500_000));
    let site = Site::new().with_gateway(id == 0).with_sources(id > 0).with_hops(Some(id));
    let setting = Setting::new(NodeId(id), site, Stream::new(1, &format!("control/{id}")))
        .with_flows(flows)
        .with_neighbours([link(id + 1)]);
    start_with("ifa", setting, &[("efficiency", 1.0)]).unwrap()
}

/// A chain 0-1-2 with flow 1 from node 1 and flow 2 from node 2.
///
/// The air carries 300 kbit/s over one hop.
fn chain() -> [Instance; 3] {
    let gateway = vec![here(1, Place::Sink, 1, 100_000), here(2, Place::Sink, 2, 100_000)];
    let middle = vec![here(1, Place::Source, 1, 100_000), here(2, Place::Forwarder, 2, 100_000)];
    [node(0, gateway), node(1, middle), node(2, vec![here(2, Place::Source, 2, 100_000)])]
}

/// Runs one broadcast of each node, far end first; returns the limits: (node, flow, rate).
fn round(
    nodes: &mut [Instance; 3],
    n: u64,
    offered: [Option<u64>; 3],
    sent: &mut [u64; 3],
) -> Vec<(usize, u32, u64)> {
    let now = Time::ZERO + Span::from_millis(300 * n);
    let mut limits = Vec::new();
    let note = |limits: &mut Vec<_>, i: usize, actions: &Actions| {
        for (class, rate) in limits_of(actions) {
            let Class::Flow(FlowId(f)) = class else { panic!("{class}") };
            limits.push((i, f, rate));
        }
    };
    for i in [2usize, 1, 0] {
        let mut actions = Actions::new();
        if i > 0 {
            // `None` fills its class; otherwise this number of bytes passes in the period.
            sent[i] += offered[i].unwrap_or(3_000);
            let counters = Counters {
                class: Class::Flow(FlowId(i as u32)),
                bytes: sent[i],
                packets: 0,
                drops: 0,
                overlimits: 0,
                queued_packets: u32::from(offered[i].is_none()),
                queued_bytes: 0,
            };
            nodes[i].control.on(now, &Event::Counters(counters), &mut actions);
        }
        nodes[i].control.on(now, &Event::Deadline, &mut actions);
        note(&mut limits, i, &actions);
        let body = actions.iter().find_map(|a| match a {
            Action::Send { to: None, .. } => Some(actions.body(a).to_vec()),
            _ => None,
        });
        let body = body.expect("a broadcast every period");
        assert_eq!(body.len(), 50);
        for j in [i.wrapping_sub(1), i + 1] {
            if let Some(neighbour) = nodes.get_mut(j) {
                let mut actions = Actions::new();
                let message = Message { from: NodeId(i as u32), body: &body };
                neighbour.control.on(now, &Event::Message(message), &mut actions);
                note(&mut limits, j, &actions);
            }
        }
    }
    limits
}

#[test]
fn demands_travel_up_and_the_level_travels_down() {
    let mut nodes = chain();
    let [class] = nodes[2].plan.classes[..] else { panic!("its own flow only") };
    assert_eq!((class.class, class.limit), (Class::Flow(FlowId(2)), Limit::Rate(BitRate(100_000))));
    assert_eq!(nodes[2].plan.point, Point::Local);
    let mut sent = [0; 3];
    // All backlogged: 100 kbit/s each, as at the start, so that nothing changes.
    for n in 1..=3 {
        assert_eq!(round(&mut nodes, n, [None; 3], &mut sent), []);
    }
    // The far flow falls to 375 B in 300 ms, 10 kbit/s: 300 − 2 · 10 are left for the near one.
    let change: Vec<_> =
        (4..=6).flat_map(|n| round(&mut nodes, n, [None, None, Some(375)], &mut sent)).collect();
    assert!(change.contains(&(1, 1, 280_000)), "{change:?}");
    assert!(change.contains(&(2, 2, 280_000)), "it could have as much: {change:?}");
    // Its demand rises again, and both are back at a third.
    let change: Vec<_> = (7..=9).flat_map(|n| round(&mut nodes, n, [None; 3], &mut sent)).collect();
    assert!(change.contains(&(1, 1, 100_000)) && change.contains(&(2, 2, 100_000)), "{change:?}");
}

#[test]
fn without_demand_the_level_is_the_capacity() {
    let mut nodes = chain();
    let mut sent = [0; 3];
    let last: Vec<_> =
        (1..=4).flat_map(|n| round(&mut nodes, n, [None, Some(0), Some(0)], &mut sent)).collect();
    assert!(last.contains(&(1, 1, 300_000)), "{last:?}");
}

#[test]
fn a_demand_report_fits_into_fifty_bytes() {
    let demand = |flow, rate| Demand { flow: FlowId(flow), rate };
    let report = DemandReport {
        sequence: 200,
        level: Some(123_456.0),
        demands: vec![demand(7, 5e6), demand(65_535, f64::INFINITY), demand(8, 0.0)],
    };
    assert_eq!(DemandReport::decode(&report.encode()), Some(report.clone()));
    let rounded = DemandReport { demands: vec![demand(1, 1.0)], level: None, ..report.clone() };
    assert_eq!(DemandReport::decode(&rounded.encode()).unwrap().demands, [demand(1, 1_000.0)]);
    let many = DemandReport { demands: (0..20).map(|f| demand(f, 1e3)).collect(), ..report };
    assert_eq!(DemandReport::decode(&many.encode()).unwrap().demands.len(), MAX_DEMANDS);
    let mut bad = many.encode();
    bad[6] = 200;
    for junk in [&[][..], &[0x49; 49], &[0; BROADCAST_BYTES], &bad] {
        assert_eq!(DemandReport::decode(junk), None);
    }
}

/// Nodes that are switched on together do not broadcast together.
#[test]
fn first_broadcasts_are_spread_over_a_period() {
    let first = |id| node(id, Vec::new()).control.next_deadline().unwrap().since(Time::ZERO);
    let all: Vec<Span> = (0..20).map(first).collect();
    let period = Span::from_millis(300);
    assert!(all.iter().all(|at| (Span::from_millis(3)..=period).contains(at)), "{all:?}");
    let late = all.iter().filter(|at| **at > Span::from_millis(150)).count();
    assert!((4..=16).contains(&late), "{all:?}");
}

#[test]
fn flows_beyond_one_message_are_reported_in_turn() {
    let flows = 2 * MAX_DEMANDS as u32 + 3;
    let mut node = node(1, (1..=flows).map(|f| here(f, Place::Source, 1, 100_000)).collect());
    let (mut reported, mut messages) = (std::collections::BTreeSet::new(), 0);
    while messages < 5 {
        let now = node.control.next_deadline().unwrap();
        let mut actions = Actions::new();
        for f in 1..=flows {
            let (class, queued_packets) = (Class::Flow(FlowId(f)), 1);
            let (bytes, packets, drops, overlimits, queued_bytes) = (0, 0, 0, 0, 0);
            let counters =
                Counters { class, bytes, packets, drops, overlimits, queued_packets, queued_bytes };
            node.control.on(now, &Event::Counters(counters), &mut actions);
        }
        node.control.on(now, &Event::Deadline, &mut actions);
        for action in actions.iter().filter(|a| matches!(a, Action::Send { .. })) {
            let report = DemandReport::decode(actions.body(action)).unwrap();
            reported.extend(report.demands.iter().map(|d| d.flow.0));
            messages += usize::from(!report.demands.is_empty());
        }
    }
    assert_eq!(reported, (1..=flows).collect(), "all within five messages");
}
