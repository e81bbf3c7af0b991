//! The simulator as a host of controls: its capabilities, and one control instance per node.

use std::sync::Arc;

use fairmesh_control::host::Driver;
use fairmesh_control::{
    Ability, AbilitySet, EventKind, EventSet, FlowHere, Knowledge, KnowledgeSet, Link, LinkModel,
    Mechanism, Needs, Neighbour, Offers, Place, Placement, Point, Setting, Site,
};
use fairmesh_scenario::{NodeKind, Scenario};
use fairmesh_units::{BitRate, FlowId, NodeId, Stream};

use crate::error::{Conflict, EngineError};
use crate::fair::FairRates;
use crate::link_model::Dcf;
use crate::model::{CapacityModel, nominal_capacity, packet_sizes};
use crate::shares::Shares;

/// Capabilities that the simulator offers to controls.
pub(crate) const OFFERS: Offers = Offers::everything("the simulator");

/// Returns the capabilities without fair rates, for runs in which none were computed.
fn without_fair_rates() -> Offers {
    Offers {
        events: OFFERS.events.without(EventSet::of(&[EventKind::Allocations])),
        knowledge: OFFERS.knowledge.without(KnowledgeSet::of(&[Knowledge::FairRates])),
        ..OFFERS
    }
}

/// Events and abilities without cost per packet; all others need listeners.
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
    /// Returns true if the control needs more than samples and limits.
    pub fn needs_listeners(&self) -> bool {
        let needs = self.driver.needs();
        !needs.events.without(PLAIN_EVENTS).is_empty()
            || !needs.abilities.without(PLAIN_ABILITIES).is_empty()
            || self.in_queue()
    }

    /// True if the control needs classes in the radio's queue, not only a replacement queue.
    pub fn in_queue(&self) -> bool {
        let plan = self.driver.plan();
        plan.point == Point::Interface
            && !plan.is_none()
            && !(self.driver.is_idle() && crate::classes::replacement(plan).is_some())
    }
}

/// A control at one node.
pub(crate) struct ControlAt {
    pub node: NodeId,
    pub driver: Driver,
    /// Grouping of flows that the control treats as one.
    pub shares: Shares,
}

/// Returns the hops of every wireless node to the nearest gateway over links and wires.
fn hops_to_gateway(scenario: &Scenario) -> Vec<Option<u32>> {
    let mut hops = vec![None; scenario.nodes().len()];
    if scenario.gateways().is_empty() {
        return hops;
    }
    let mut into: Vec<Vec<NodeId>> = vec![Vec::new(); scenario.nodes().len()];
    for l in scenario.links() {
        into[l.to.index()].push(l.from);
    }
    for w in scenario.wires() {
        into[w.a.index()].push(w.b);
        into[w.b.index()].push(w.a);
    }
    let several = scenario.has_several_radios();
    let mut wave = scenario.gateways().list().to_vec();
    if several {
        // All radios of a node have the node's distance.
        wave =
            scenario.wireless().filter(|n| scenario.gateways().has(scenario.device(*n))).collect();
        let outside = scenario.gateways().list().iter().filter(|g| !wave.contains(g));
        wave.extend(outside.copied().collect::<Vec<_>>());
    }
    wave.iter().for_each(|gateway| hops[gateway.index()] = Some(0));
    for distance in 1.. {
        let mut next = Vec::new();
        for node in wave {
            // Hosts behind several gateways do not connect parts of the mesh.
            if scenario.gateways().are_several()
                && scenario.nodes()[node.index()].kind == NodeKind::Wired
            {
                continue;
            }
            for &n in &into[node.index()] {
                let mut reach = |n: NodeId| {
                    if hops[n.index()].is_none() {
                        hops[n.index()] = Some(distance);
                        next.push(n);
                    }
                };
                reach(n);
                if several {
                    let device = scenario.device(n);
                    scenario.wireless().filter(|m| scenario.device(*m) == device).for_each(reach);
                }
            }
        }
        if next.is_empty() {
            break;
        }
        wave = next;
    }
    for (node, hops) in scenario.nodes().iter().zip(&mut hops) {
        if node.kind == NodeKind::Wired && *hops != Some(0) {
            *hops = None;
        }
    }
    hops
}

/// Returns true if a control treats a subscriber's flows of one direction as one.
///
/// It does so at a gateway, if the control uses counters and limits traffic that crosses it. A control that
/// marks, paces or sends messages treats each flow separately.
fn by_subscriber(site: &Site, needs: &Needs) -> bool {
    let peers = match needs.abilities.has(Ability::Peers) {
        true => EventSet::of(&[EventKind::Messages]),
        false => EventSet::NONE,
    };
    site.gateway
        && needs.abilities.has(Ability::LimitTransit)
        && needs.events.without(PLAIN_EVENTS).without(peers).is_empty()
}

/// Returns the flows that cross a node, as its control sees them.
fn flows_at(scenario: &Scenario, fair: &[f64], node: NodeId, shares: &Shares) -> Vec<FlowHere> {
    let here = |id: FlowId| {
        let fair = shares.sum(id, |f| fair.get(f).copied());
        let first = flow_at(scenario, fair, id, node)?;
        Some(match shares.share(id) {
            Some(s) => first.with_guarantee(s.guarantee).with_ceiling(s.ceiling),
            None => first,
        })
    };
    let all = (0..scenario.flows().len() as u32).map(FlowId);
    all.filter(|id| shares.names(*id)).filter_map(here).collect()
}

/// Returns a flow as a node on its path sees it.
pub(crate) fn flow_at(
    scenario: &Scenario,
    fair: Option<f64>,
    id: FlowId,
    node: NodeId,
) -> Option<FlowHere> {
    let flow = scenario.flows().get(id.index())?;
    let at = flow.path.iter().position(|&n| n == node)?;
    let (payload, packet) = packet_sizes(flow);
    let place = match at {
        0 => Place::Source,
        _ if at + 1 == flow.path.len() => Place::Sink,
        _ => Place::Forwarder,
    };
    // A home is the wireless end of the path.
    let on_air = |n: &NodeId| scenario.nodes()[n.index()].kind == NodeKind::Wireless;
    // The next node, excluding other radios of the same node.
    let other = |n: &&NodeId| !scenario.same_device(**n, node);
    let next = flow.path[at + 1..].iter().find(other).copied();
    let last = flow.path[..at].iter().rev().find(other).copied();
    let branch = next.filter(on_air).or(last.filter(on_air));
    let outside = |n: NodeId| scenario.gateways().has(n) || !on_air(&n);
    let upstream = !outside(flow.from);
    let home = if upstream { flow.from } else { flow.to };
    let here = FlowHere::new(id, place, payload, packet)
        .with_weight(flow.weight)
        .with_next_hop(next)
        .with_fair(fair.map(|r| BitRate(r as u64)))
        .with_guarantee(flow.guarantee)
        .with_ceiling(flow.plan)
        .with_hops(Some(flow.wireless_hops.max(1)))
        .with_branch(branch)
        .with_home(Some(home))
        .with_upstream(Some(upstream));
    Some(here)
}

/// Returns the kind of each node.
pub(crate) fn sites(scenario: &Scenario) -> Vec<Site> {
    let hops = hops_to_gateway(scenario);
    let site = |(i, node): (usize, &fairmesh_scenario::Node)| {
        let id = NodeId(i as u32);
        let gateway = scenario.gateways().has(id);
        let sources = scenario.flows().iter().any(|f| f.from == id);
        let agent = scenario.agents().as_ref().is_none_or(|a| a.contains(&id));
        Site::new()
            .with_gateway(gateway)
            .with_access_point(gateway && node.kind == NodeKind::Wireless)
            .with_sources(sources)
            .with_agent(sources && agent && !gateway && node.kind == NodeKind::Wireless)
            .with_hops(hops[i])
    };
    scenario.nodes().iter().enumerate().map(site).collect()
}

/// Returns true if the scenario's control may run at a node.
fn takes_part(scenario: &Scenario, node: NodeId) -> bool {
    scenario.taking_part().as_ref().is_none_or(|n| n.contains(&node))
}

/// Returns the number of nodes at which the scenario's control runs.
///
/// A control of the gateway runs nowhere in a scenario without gateways; the outcome is then that of `fifo`.
pub fn controlled_nodes(scenario: &Scenario) -> usize {
    let runs = |(i, site): &(usize, Site)| {
        takes_part(scenario, NodeId(*i as u32)) && scenario.control().needs(site).is_some()
    };
    sites(scenario).into_iter().enumerate().filter(runs).count()
}

/// Returns, by node, true if a control runs there.
pub(crate) fn controlled(scenario: &Scenario) -> Vec<bool> {
    let runs = |(i, site): (usize, Site)| {
        let mechanism = match scenario.at_gateways().filter(|_| site.gateway) {
            Some(theirs) => Some(theirs),
            None => takes_part(scenario, NodeId(i as u32)).then_some(scenario.control()),
        };
        mechanism.is_some_and(|m| m.needs(&site).is_some())
    };
    sites(scenario).into_iter().enumerate().map(runs).collect()
}

/// True if a control can use the merged samples of a node with several transmit queues.
///
/// `messages` is true if it may send messages over the air.
fn counts_at_nodes(
    mechanism: &Mechanism,
    why: Conflict,
    messages: bool,
) -> Result<(), EngineError> {
    const EVENTS: EventSet = EventSet::of(&[
        EventKind::FlowCounters,
        EventKind::Counters,
        EventKind::Allocations,
        EventKind::Messages,
        EventKind::PathSigns,
        EventKind::Probes,
    ]);
    const ABILITIES: AbilitySet = AbilitySet::of(&[
        Ability::LimitLocal,
        Ability::LimitTransit,
        Ability::FlowClasses,
        Ability::Route,
        Ability::Peers,
    ]);
    let place =
        |p: Placement| matches!(p, Placement::Gateway | Placement::Agents | Placement::Sources);
    let works = |n: &Needs| {
        n.at.iter().all(place)
            && n.events.without(EVENTS).is_empty()
            && n.abilities.without(ABILITIES).is_empty()
            && !n.knowledge.has(Knowledge::LinkModel)
            && n.header_bytes == 0
    };
    // Its messages could not be distinguished from data that waits in another category.
    let speaks = |n: &Needs| n.events.has(EventKind::Messages) || n.abilities.has(Ability::Route);
    let works = |n: &Needs| works(n) && (messages || !speaks(n));
    if mechanism.all_needs().iter().all(works) { Ok(()) } else { Err(refused(mechanism, why)) }
}

/// Returns the reason why a node has more than one transmit queue, if it has.
fn one_queue(scenario: &Scenario) -> Option<Conflict> {
    if scenario.has_several_radios() {
        return Some(Conflict::SeveralRadios);
    }
    scenario.has_access_categories().then_some(Conflict::AccessCategories)
}

fn refused(mechanism: &Mechanism, conflict: Conflict) -> EngineError {
    EngineError::Conflict { control: mechanism.to_string(), conflict }
}

/// Assignment of controls to nodes.
#[derive(Clone, Copy)]
pub(crate) struct Controls<'a> {
    /// Control at the participating nodes.
    pub mechanism: &'a Mechanism,
    /// Control at gateways, if it differs.
    pub at_gateways: Option<&'a Mechanism>,
}

impl<'a> Controls<'a> {
    /// Returns the scenario's own assignment.
    pub fn of(scenario: &'a Scenario) -> Self {
        Controls { mechanism: scenario.control(), at_gateways: scenario.at_gateways() }
    }
}

/// Starts a control at each participating node, and the gateways' own control at gateways.
///
/// # Errors
/// Returns an error if a control needs a capability that the simulator lacks, or rejects a setting.
pub(crate) fn start(
    scenario: &Scenario,
    controls: Controls<'_>,
    fair: Option<&FairRates>,
    seed: u64,
) -> Result<Vec<ControlAt>, EngineError> {
    let Controls { mechanism, at_gateways } = controls;
    let offers = if fair.is_some() { OFFERS } else { without_fair_rates() };
    let rates = fair.map_or(&[][..], FairRates::at_start);
    let links: Vec<Link> =
        scenario.links().iter().map(|l| Link { from: l.from, to: l.to }).collect();
    let one_queue = one_queue(scenario);
    if let Some(why) = one_queue {
        for m in std::iter::once(mechanism).chain(at_gateways) {
            counts_at_nodes(m, why, !scenario.has_access_categories())?;
        }
    }
    let mut controls = Vec::new();
    let mut model: Option<Arc<dyn LinkModel>> = None;
    for (i, site) in sites(scenario).into_iter().enumerate() {
        let (id, node) = (NodeId(i as u32), &scenario.nodes()[i]);
        let mechanism = match at_gateways.filter(|_| site.gateway) {
            Some(theirs) => theirs,
            None if takes_part(scenario, id) => mechanism,
            None => continue,
        };
        let Some(needs) = mechanism.needs(&site) else { continue };
        let own = scenario.links().iter().filter(|l| scenario.device(l.from) == id);
        let neighbours = own.map(|l| {
            let mac = scenario.mac_of(l.from);
            let rate = l.rate.unwrap_or(mac.rate);
            let capacity = BitRate(nominal_capacity(mac, rate) as u64);
            Neighbour::new(l.to, mac.phy.bit_rate(rate), capacity)
        });
        let model = needs.knowledge.has(Knowledge::LinkModel).then(|| {
            let new = || Arc::new(Dcf::new(&CapacityModel::new(scenario))) as Arc<dyn LinkModel>;
            model.get_or_insert_with(new).clone()
        });
        let stream = Stream::new(seed, &format!("control/{}", node.name));
        let mut shares = match by_subscriber(&site, &needs) {
            true => Shares::of(scenario),
            false => Shares::default(),
        };
        if site.gateway && needs.abilities.has(Ability::LimitTransit) {
            shares = shares.at_gateway(scenario, id);
        }
        let setting = Setting::new(id, site, stream)
            .with_gateways(scenario.gateways().total() as u32)
            .with_flows(flows_at(scenario, rates, id, &shares))
            .with_neighbours(neighbours)
            .with_links(links.iter().copied())
            .with_model(model);
        let started = Driver::start(mechanism, setting, &offers);
        if let Some(driver) = started.map_err(|e| EngineError::Control(Box::new(e)))? {
            if let Some(why) = one_queue
                && !driver.plan().is_none()
                && driver.plan().point == Point::Interface
            {
                return Err(refused(mechanism, why));
            }
            controls.push(ControlAt { node: id, driver, shares });
        }
    }
    Ok(controls)
}
