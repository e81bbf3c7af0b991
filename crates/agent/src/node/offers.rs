//! Capabilities of a mesh router for mechanisms, by its routing and its drivers.

use fairmesh_control::host::{ClassKind, ClassOffer, Driver, LeafKind, LimitKind, PointOffer};
use fairmesh_control::{
    Ability, AbilitySet, EventKind, EventSet, FlowHere, Knowledge, KnowledgeSet, Mechanism,
    Neighbour, Offers, Place, Placement, Point, Setting, Site, StartError,
};
use fairmesh_units::{BitRate, Bytes, FlowId, NodeId, Stream};

use super::config::{Config, Routing};
use super::machine::Port;
use super::message::Role;
use crate::gateway::config::Mode;

/// Findings about the drivers of the mesh interfaces.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Probe {
    /// A driver reports counters and rates of neighbours.
    pub stations: bool,
    /// A driver reports the use of its channel.
    pub survey: bool,
    /// All drivers of radios report the queues of their neighbours.
    pub queues: bool,
    /// All drivers of radios report the airtime of their neighbours.
    pub airtime: bool,
    /// The kernel runs our programs, which mark packets and count flows.
    pub programs: bool,
}

impl Probe {
    /// Sums up the mesh interfaces.
    pub fn of(ports: &[Port]) -> Self {
        let mut radios = ports.iter().filter(|p| p.stations).peekable();
        Probe {
            stations: radios.peek().is_some(),
            survey: ports.iter().any(|p| p.survey),
            programs: ports.iter().all(|p| p.programs),
            queues: radios.peek().is_some() && radios.clone().all(|p| p.queues),
            airtime: radios.peek().is_some() && radios.all(|p| p.airtime),
        }
    }
}

/// Returns the capabilities of this router.
///
/// In mode "observe" actions are only recorded, so that those count that the routing permits. In mode "apply" those
/// count that this program carries out.
pub fn offers(config: &Config, probe: Probe) -> Offers {
    let mut events = vec![EventKind::Counters, EventKind::Messages, EventKind::Neighbours];
    if probe.stations {
        events.push(EventKind::Stations);
        if config.role == Role::Gateway {
            // The bytes received from each neighbour.
            events.push(EventKind::FlowCounters);
        }
    }
    if probe.survey {
        events.push(EventKind::Channel);
    }
    if probe.queues {
        events.push(EventKind::QueueSamples);
    }
    let mut knowledge = vec![Knowledge::Hops];
    if probe.stations || config.rate.is_some() {
        knowledge.push(Knowledge::LinkRates);
    }
    if guarantees(&config.mechanism) {
        events.push(EventKind::Allocations);
        knowledge.push(Knowledge::FairRates);
    }
    let mut abilities = vec![Ability::LimitLocal, Ability::Send];
    let (mut flows, mut next_hops) = (false, false);
    // Frames that 802.11s forwards pass no queueing discipline and no filter.
    if config.routing != Routing::Hwmp {
        if config.mode == Mode::Observe || probe.programs {
            abilities.push(Ability::Mark);
        }
        if probe.programs {
            events.extend([EventKind::FlowLinks, EventKind::Flows]);
        }
        // Classes of flows are on one interface, where nothing encapsulates their packets.
        if probe.programs && config.routing == Routing::Layer3 && config.interfaces.len() == 1 {
            abilities.push(Ability::FlowClasses);
            if config.role == Role::Gateway {
                // Packets from the wire; those from the mesh to the mesh have no classes.
                abilities.push(Ability::LimitTransit);
            }
            flows = true;
        }
        if probe.airtime {
            abilities.extend([Ability::ReplaceQueue, Ability::LinkClasses, Ability::Airtime]);
            next_hops = true;
        }
    }
    Offers {
        host: host(config),
        events: EventSet::of(&events),
        abilities: AbilitySet::of(&abilities),
        knowledge: KnowledgeSet::of(&knowledge),
        plans: match (flows, next_hops) {
            (false, false) => &[ALL_LOCAL],
            (false, true) => &[ALL_LOCAL, NEXT_HOPS],
            (true, false) => &[LOCAL_FLOWS, ENTERING_FLOWS],
            (true, true) => &[LOCAL_FLOWS, ENTERING_FLOWS, NEXT_HOPS],
        },
    }
}

/// True if the configuration gives the rate that the mechanism guarantees a node.
fn guarantees(mechanism: &Mechanism) -> bool {
    mechanism.value("guarantee").is_some_and(|rate| rate > 0.0)
}

fn host(config: &Config) -> &'static str {
    match (config.routing, config.mode) {
        (Routing::BatmanAdv, Mode::Observe) => "a router with batman-adv in mode observe",
        (Routing::BatmanAdv, Mode::Apply) => "a router with batman-adv in mode apply",
        (Routing::Layer3, Mode::Observe) => "a router with routing by layer 3 in mode observe",
        (Routing::Layer3, Mode::Apply) => "a router with routing by layer 3 in mode apply",
        (Routing::Hwmp, Mode::Observe) => "a router with HWMP in mode observe",
        (Routing::Hwmp, Mode::Apply) => "a router with HWMP in mode apply",
    }
}

/// One class with the traffic that the router itself sends into the mesh.
const LOCAL_CLASS: ClassOffer = ClassOffer {
    kind: ClassKind::All,
    limits: &[LimitKind::None, LimitKind::Rate],
    leaves: &[LeafKind::DropTail, LeafKind::Fair],
    packets: (1, 10_000),
    burst: (Bytes(1), Bytes(16_000_000)),
    alike: true,
};

/// A class for all packets to one next hop, forwarded ones included.
const NEXT_HOP_CLASS: ClassOffer = ClassOffer {
    kind: ClassKind::Link,
    limits: &[LimitKind::Airtime],
    leaves: &[LeafKind::Fair],
    packets: (1, 10_000),
    burst: (Bytes(1), Bytes(16_000_000)),
    alike: true,
};

/// A class for each flow that enters the mesh here.
const FLOW_CLASS: ClassOffer =
    ClassOffer { kind: ClassKind::Flow, leaves: &[LeafKind::DropTail], ..LOCAL_CLASS };

const ALL_LOCAL: PointOffer = PointOffer { point: Point::Local, classes: &[LOCAL_CLASS] };
const LOCAL_FLOWS: PointOffer =
    PointOffer { point: Point::Local, classes: &[LOCAL_CLASS, FLOW_CLASS] };
const ENTERING_FLOWS: PointOffer = PointOffer { point: Point::Transit, classes: &[FLOW_CLASS] };
const NEXT_HOPS: PointOffer = PointOffer { point: Point::Interface, classes: &[NEXT_HOP_CLASS] };

/// Role in the mesh, for mechanisms. `gateway`: a gateway is one of its neighbours.
pub fn site(role: Role, gateway: bool) -> Site {
    let hops = match role {
        Role::Gateway => Some(0),
        _ => gateway.then_some(1),
    };
    Site::new()
        .with_gateway(role == Role::Gateway)
        .with_access_point(role == Role::AccessPoint)
        .with_sources(role != Role::Gateway)
        .with_agent(role != Role::Gateway)
        .with_hops(hops)
}

/// True if this router carries out a gateway's orders.
pub fn takes_orders(config: &Config) -> bool {
    let needs = config.mechanism.needs(&site(config.role, false));
    needs.is_some_and(|needs| needs.at.has(Placement::Agents))
}

/// Starts the mechanism with an imagined neighbour, to find out if it can run here.
///
/// # Errors
/// Everything that this router lacks, or parameters that the mechanism refuses.
pub fn trial(config: &Config, probe: Probe) -> Result<(), StartError> {
    if config.mechanism.is_none() {
        return Ok(());
    }
    let other = NodeId(1);
    let rate = config.rate.unwrap_or(BitRate(1_000_000_000));
    let flow = flow(config.role, FlowId(1), other);
    let site = site(config.role, true);
    let setting = Setting::new(NodeId(0), site, Stream::new(0, "trial"))
        .with_flows([flow])
        .with_neighbours([Neighbour::new(other, rate, config.capacity.unwrap_or(rate))]);
    Driver::start_alone(&config.mechanism, setting, &offers(config, probe)).map(drop)
}

/// The traffic between this router and the Internet; at a gateway, that with one neighbour.
pub fn flow(role: Role, flow: FlowId, neighbour: NodeId) -> FlowHere {
    let place = if role == Role::Gateway { Place::Forwarder } else { Place::Source };
    // Payload of TCP with timestamps in a packet of 1500 bytes.
    FlowHere::new(flow, place, 1448, 1500)
        .with_next_hop((role != Role::Gateway).then_some(neighbour))
        .with_hops(Some(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(routing: &str, more: &str, probe: Probe) -> String {
        let text = format!("interfaces = [\"m\"]\nrouting = \"{routing}\"\n{more}");
        let config = Config::parse("node.toml", &text).unwrap();
        trial(&config, probe).err().map(|e| e.to_string()).unwrap_or_default()
    }

    const RADIO: Probe =
        Probe { stations: true, survey: true, queues: true, airtime: true, programs: true };
    const CABLE: Probe =
        Probe { stations: false, survey: false, queues: false, airtime: false, programs: true };

    #[test]
    fn gap_runs_on_every_routing_if_rates_and_a_guarantee_are_known() {
        let gap = "mode = \"apply\"\n[control]\nuse = \"gap\"\nguarantee = 500\n";
        for routing in ["hwmp", "batman-adv", "layer3"] {
            assert_eq!(refused(routing, gap, RADIO), "");
            assert_eq!(refused(routing, &format!("role = \"gateway\"\n{gap}"), RADIO), "");
        }
        let no_rate = refused("hwmp", gap, CABLE);
        assert!(no_rate.contains("gap cannot run on a router with HWMP"), "{no_rate}");
        assert!(no_rate.contains("not known: link rates"), "{no_rate}");
        assert_eq!(refused("hwmp", &format!("rate = \"54 Mbit/s\"\n{gap}"), CABLE), "");
        let free = refused("hwmp", "[control]\nuse = \"gap\"\n", RADIO);
        assert!(free.contains("not known: fair rate of each flow"), "{free}");
        let gateway =
            refused("hwmp", &format!("role = \"gateway\"\nrate = \"54 Mbit/s\"\n{gap}"), CABLE);
        assert!(
            gateway.contains("gap cannot run") && gateway.contains("not delivered:"),
            "{gateway}"
        );
    }

    #[test]
    fn marks_are_refused_by_name_where_frames_pass_no_filter() {
        let lbm = "role = \"access-point\"\n[control]\nuse = \"lbm\"\n";
        assert_eq!(refused("layer3", lbm, RADIO), "");
        let hwmp = refused("hwmp", lbm, RADIO);
        assert!(hwmp.contains("not possible: mark packets with ECN"), "{hwmp}");
        let pi = lbm.replace("lbm", "lbm+pi");
        assert_eq!(refused("layer3", &pi, RADIO), "");
        let old = refused("layer3", &pi, Probe { queues: false, ..RADIO });
        assert!(old.contains("not delivered:") && old.contains("queue"), "{old}");
        let apply = |probe| refused("layer3", &format!("mode = \"apply\"\n{lbm}"), probe);
        assert_eq!(apply(RADIO), "");
        let apply = apply(Probe { programs: false, ..RADIO });
        assert!(apply.contains("in mode apply: not possible: mark packets"), "{apply}");
        let cable = refused("layer3", &format!("rate = \"54 Mbit/s\"\n{lbm}"), CABLE);
        assert!(cable.contains("not delivered: "), "{cable}");
    }

    #[test]
    fn airtime_is_limited_where_drivers_report_it_and_frames_pass_queues() {
        let cna = "mode = \"apply\"\n[control]\nuse = \"cna+sampled+messages\"\n";
        assert_eq!(refused("layer3", cna, RADIO), "");
        assert_eq!(refused("batman-adv", cna, RADIO), "");
        let lacks = |routing: &str, probe, what: &str| {
            let text = refused(routing, cna, probe);
            assert!(text.contains(what), "{text}");
        };
        lacks("layer3", Probe { airtime: false, ..RADIO }, "limits in airtime");
        lacks("layer3", Probe { programs: false, ..RADIO }, "counters of each flow on each link");
        lacks("hwmp", RADIO, "a class per neighbour");
    }

    #[test]
    fn mechanisms_of_other_places_and_events_per_frame_are_refused_by_name() {
        let of = |name: &str| refused("layer3", &format!("[control]\nuse = \"{name}\"\n"), RADIO);
        assert!(of("pfrc").contains("it runs at"), "{}", of("pfrc"));
        assert!(of("lbm").contains("it runs at access points"), "{}", of("lbm"));
        assert_eq!(of("mesh-maxmin+sampled+messages"), "");
        for name in ["cna", "cna+sampled", "wcp", "mesh-maxmin"] {
            assert!(of(name).contains("not delivered: "), "{}", of(name));
        }
        assert_eq!(of("fifo"), "");
        assert_eq!(of("lbm+multihop+messages"), "");
    }
}
