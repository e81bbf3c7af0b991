//! The simulator as a host of controls: what it offers them, and one instance per node.

use std::sync::Arc;

use fairmesh_control::{
    Ability, AbilitySet, Control, EventKind, EventSet, FlowHere, Knowledge, KnowledgeSet, Limit,
    Link, LinkModel, Mechanism, Needs, Neighbour, Offers, Place, Plan, Point, Setting, Site,
    lookup,
};
use fairmesh_scenario::{NodeKind, Scenario};
use fairmesh_units::{BitRate, FlowId, NodeId, Stream};

use crate::error::EngineError;
use crate::fair::FairRates;
use crate::link_model::Dcf;
use crate::model::{CapacityModel, nominal_capacity, packet_sizes};

/// What controls find here.
pub(crate) const OFFERS: Offers = Offers {
    host: "the simulator",
    events: EventSet::ALL,
    abilities: AbilitySet::ALL,
    knowledge: KnowledgeSet::ALL,
};

/// Events and abilities that cost nothing per packet; anything else needs taps.
const PLAIN_EVENTS: EventSet = EventSet::of(&[
    EventKind::Counters,
    EventKind::FlowCounters,
    EventKind::Channel,
    EventKind::QueueSamples,
    EventKind::Allocations,
]);
const PLAIN_ABILITIES: AbilitySet = AbilitySet::of(&[
    Ability::LimitLocal,
    Ability::LimitTransit,
    Ability::ReplaceQueue,
    Ability::FlowClasses,
]);

impl ControlAt {
    /// Whether it wants more than samples and limits.
    pub fn needs_taps(&self) -> bool {
        !self.needs.events.without(PLAIN_EVENTS).is_empty()
            || !self.needs.abilities.without(PLAIN_ABILITIES).is_empty()
            || self.in_queue()
    }

    /// Whether it wants classes in the radio's queue, and not just another queue.
    pub fn in_queue(&self) -> bool {
        let plan = &self.plan;
        plan.point == Point::Interface
            && !plan.is_none()
            && crate::shaping::replacement(plan).is_none()
    }
}

/// A control at one node.
pub(crate) struct ControlAt {
    pub node: NodeId,
    pub control: Box<dyn Control>,
    pub needs: Needs,
    pub plan: Plan,
}

/// The scenario's mechanism with its settings.
pub(crate) fn mechanism(scenario: &Scenario) -> Result<Mechanism, EngineError> {
    let refuse = |e: &dyn std::fmt::Display| EngineError::Control(e.to_string());
    let mut mechanism = lookup(&scenario.control.name).map_err(|e| refuse(&e))?;
    for (knob, value) in &scenario.control.settings {
        mechanism.set(knob, *value).map_err(|e| refuse(&e))?;
    }
    Ok(mechanism)
}

/// Hops of every node to the gateway over links and wires.
fn hops_to_gateway(scenario: &Scenario) -> Vec<Option<u32>> {
    let mut hops = vec![None; scenario.nodes.len()];
    let Some(gateway) = scenario.gateway else { return hops };
    let mut into: Vec<Vec<NodeId>> = vec![Vec::new(); scenario.nodes.len()];
    for l in &scenario.links {
        into[l.to.index()].push(l.from);
    }
    let mut wave = vec![gateway];
    hops[gateway.index()] = Some(0);
    for distance in 1.. {
        let mut next = Vec::new();
        for node in wave {
            for &n in &into[node.index()] {
                if hops[n.index()].is_none() {
                    hops[n.index()] = Some(distance);
                    next.push(n);
                }
            }
        }
        if next.is_empty() {
            break;
        }
        wave = next;
    }
    hops
}

/// Hops of a path that are not wires, at least 1.
fn wireless_hops(scenario: &Scenario, path: &[NodeId]) -> u32 {
    let wireless = |n: &NodeId| scenario.nodes[n.index()].kind == NodeKind::Wireless;
    path.windows(2).filter(|hop| hop.iter().all(wireless)).count().max(1) as u32
}

/// The flows that cross a node, as it knows them.
fn flows_at(scenario: &Scenario, fair: &[f64], node: NodeId) -> Vec<FlowHere> {
    let here = |i| flow_at(scenario, fair.get(i).copied(), FlowId(i as u32), node);
    (0..scenario.flows.len()).filter_map(here).collect()
}

/// A flow as a node on its path knows it.
pub(crate) fn flow_at(
    scenario: &Scenario,
    fair: Option<f64>,
    id: FlowId,
    node: NodeId,
) -> Option<FlowHere> {
    let flow = scenario.flows.get(id.index())?;
    let at = flow.path.iter().position(|&n| n == node)?;
    let (payload, packet) = packet_sizes(flow);
    Some(FlowHere {
        flow: id,
        weight: flow.weight,
        place: match at {
            0 => Place::Source,
            _ if at + 1 == flow.path.len() => Place::Sink,
            _ => Place::Forwarder,
        },
        next_hop: flow.path.get(at + 1).copied(),
        payload,
        packet,
        fair: fair.map(|r| BitRate(r as u64)),
        guarantee: flow.guarantee,
        ceiling: flow.plan,
        hops: Some(wireless_hops(scenario, &flow.path)),
    })
}

/// What kind of node each node is.
fn sites(scenario: &Scenario) -> Vec<Site> {
    let hops = hops_to_gateway(scenario);
    let site = |(i, node): (usize, &fairmesh_scenario::Node)| {
        let id = NodeId(i as u32);
        let gateway = scenario.gateway == Some(id);
        Site {
            gateway,
            access_point: gateway && node.kind == NodeKind::Wireless,
            sources: scenario.flows.iter().any(|f| f.from == id),
            hops: hops[i],
        }
    };
    scenario.nodes.iter().enumerate().map(site).collect()
}

/// At how many nodes the scenario's control runs. A control of the gateway runs nowhere in a
/// scenario that has none, and then the outcome is that of `fifo`.
///
/// # Errors
/// An unknown control or setting.
pub fn controlled_nodes(scenario: &Scenario) -> Result<usize, EngineError> {
    let mechanism = mechanism(scenario)?;
    Ok(sites(scenario).iter().filter(|site| mechanism.needs(site).is_some()).count())
}

/// Starts a control wherever it runs.
///
/// # Errors
/// One that needs what the simulator does not offer, or refuses its setting.
pub(crate) fn start(
    scenario: &Scenario,
    mechanism: &Mechanism,
    fair: &FairRates,
    seed: u64,
) -> Result<Vec<ControlAt>, EngineError> {
    let links: Vec<Link> = scenario.links.iter().map(|l| Link { from: l.from, to: l.to }).collect();
    let mut controls = Vec::new();
    let mut model: Option<Arc<dyn LinkModel>> = None;
    for (i, site) in sites(scenario).into_iter().enumerate() {
        let (id, node) = (NodeId(i as u32), &scenario.nodes[i]);
        let Some(needs) = mechanism.needs(&site) else { continue };
        let own = scenario.links.iter().filter(|l| l.from == id);
        let rate = |l: &fairmesh_scenario::Link| l.rate.unwrap_or(scenario.mac.rate);
        let neighbours = own
            .map(|l| Neighbour {
                node: l.to,
                rate: scenario.mac.phy.bit_rate(rate(l)),
                capacity: BitRate(nominal_capacity(&scenario.mac, rate(l)) as u64),
            })
            .collect();
        let setting = Setting {
            node: id,
            site,
            flows: flows_at(scenario, fair.at_start(), id),
            neighbours,
            links: links.clone(),
            model: needs.knowledge.has(Knowledge::LinkModel).then(|| {
                let new =
                    || Arc::new(Dcf::new(&CapacityModel::new(scenario))) as Arc<dyn LinkModel>;
                model.get_or_insert_with(new).clone()
            }),
            stream: Stream::new(seed, &format!("control/{}", node.name)),
        };
        let started =
            mechanism.start(setting, &OFFERS).map_err(|e| EngineError::Control(e.to_string()))?;
        if let Some(instance) = started {
            controls.push(ControlAt {
                node: id,
                control: instance.control,
                needs,
                plan: instance.plan,
            });
        }
    }
    Ok(controls)
}

/// Refuses a plan that this host does not build.
///
/// # Errors
/// Airtime limits anywhere but in the radio's queue: nothing there knows what a packet will cost.
pub(crate) fn check(scenario: &Scenario, at: &ControlAt) -> Result<(), EngineError> {
    let plan = &at.plan;
    let airtime = plan.classes.iter().chain(&plan.template);
    let airtime = airtime.filter(|c| matches!(c.limit, Limit::Airtime(_))).count();
    if plan.point == Point::Interface || airtime == 0 {
        return Ok(());
    }
    Err(EngineError::Control(format!(
        "{} wants airtime limits outside the radio queue of \"{}\"; the simulator keeps them there",
        scenario.control.name,
        scenario.nodes[at.node.index()].name
    )))
}
