//! A scenario as the capacity models need it.
//!
//! It consists of links with their rates, carrier sense, and the traffic that a packet of each flow puts on
//! the air.

use fairmesh_capacity::fair::{FlowSpec, LinkSpec, WireUse};
use fairmesh_capacity::link::{Access, Traffic, saturated_goodput};
use fairmesh_capacity::maxmin::Demand;
use fairmesh_phy::FullFrame;
use fairmesh_phy::frame::DATA_OVERHEAD;
use fairmesh_phy::{Phy, Rate};
use fairmesh_scenario::{Flow, NodeKind, Scenario, Transport};
use fairmesh_transport::quic;
use fairmesh_transport::traffic::TrafficSpec;
use fairmesh_units::{BitRate, NodeId};
use fairmesh_wifi::MacConfig;

/// Length of a full-sized IP packet, in bytes.
///
/// Used where one packet size represents a flow's data.
const FULL_PACKET: u32 = 1500;
/// Delivery probability below which a link carries no traffic, because all retries fail.
const MIN_DELIVERY: f64 = 1e-6;

/// The part of a scenario that analytic models need.
#[derive(Clone, Debug)]
pub struct CapacityModel<'a> {
    /// Scenario from which the model was built.
    pub scenario: &'a Scenario,
    /// By node, the nodes with frames that it decodes: knowledge available to a real network.
    pub decodes: Vec<Vec<NodeId>>,
    /// By node, the nodes that it decodes or senses: knowledge available only to a simulator.
    pub senses: Vec<Vec<NodeId>>,
    /// Directed links with their rates and delivery probabilities.
    pub links: Vec<LinkSpec>,
    /// Access with or without RTS, as the scenario uses it for full-sized packets.
    pub access: Access,
    /// By flow.
    paths: Vec<FlowPath>,
    /// By flow: its weight, or an equal part of its subscriber's.
    weights: Vec<f64>,
}

/// Links and wires that a flow crosses.
#[derive(Clone, Debug, Default)]
struct FlowPath {
    /// The wireless nodes on its path.
    path: Vec<NodeId>,
    /// The wires on its path, those between two wireless nodes among them.
    wires: Vec<WireUse>,
    /// True if any hop is radio.
    on_air: bool,
    /// True if it crosses a link that delivers nothing.
    dead: bool,
}

impl FlowPath {
    fn new(scenario: &Scenario, flow: &Flow) -> Self {
        let t = traffic(flow, 0);
        let bits = |psdu: u32| f64::from(psdu - DATA_OVERHEAD) / f64::from(t.payload);
        let mut way = FlowPath::default();
        // True if a wire was crossed since the last wireless node.
        let mut wired = false;
        for (i, &node) in flow.path.iter().enumerate() {
            if i.checked_sub(1).is_some_and(|b| scenario.same_device(flow.path[b], node)) {
                // Uses no capacity; its number follows those of the wires.
                let (hop, wire) =
                    (way.path.len().checked_sub(1), 2 * scenario.wires().len() as u32);
                way.wires.push(WireUse { hop, wire, share: 0.0 });
                way.path.push(node);
                continue;
            }
            let wire = i.checked_sub(1).and_then(|before| scenario.wire(flow.path[before], node));
            if let Some((at, back)) = wire {
                wired = true;
                let number = |back| 2 * at as u32 + u32::from(back);
                let rate = scenario.wires()[at].rate.0 as f64;
                let there = WireUse { hop: None, wire: number(back), share: bits(t.psdu) / rate };
                way.wires.push(there);
                if t.reverse_per_packet > 0.0 {
                    let share = bits(t.reverse_psdu) * t.reverse_per_packet / rate;
                    way.wires.push(WireUse { hop: None, wire: number(!back), share });
                }
            }
            if scenario.nodes()[node.index()].kind == NodeKind::Wireless {
                match way.path.len().checked_sub(1) {
                    Some(hop) if wired => {
                        // This hop does not use the air, regardless of the wire named between its
                        // nodes.
                        way.wires.iter_mut().next_back().into_iter().for_each(|w| w.hop = Some(hop))
                    }
                    Some(_) => way.on_air = true,
                    None => {}
                }
                way.path.push(node);
                wired = false;
            }
        }
        way
    }
}

impl<'a> CapacityModel<'a> {
    /// Builds the model of any scenario.
    pub fn new(scenario: &'a Scenario) -> Self {
        let nodes = scenario.nodes().len();
        let (mut decodes, mut senses) = (vec![Vec::new(); nodes], vec![Vec::new(); nodes]);
        for h in scenario.sensed_pairs() {
            senses[h.to as usize].push(NodeId(h.from));
        }
        let mut links = Vec::with_capacity(scenario.links().len());
        for link in scenario.links() {
            decodes[link.to.index()].push(link.from);
            let rate = link.rate.unwrap_or(scenario.mac_of(link.from).rate);
            let errors = scenario.errors_of(link);
            let size = FULL_PACKET + scenario.mac().llc_bytes + DATA_OVERHEAD;
            let delivery = errors.delivery(size, rate).max(MIN_DELIVERY);
            links.push(LinkSpec { from: link.from, to: link.to, rate, delivery });
        }
        let access = access(scenario.mac());
        // An A-MSDU is lost as often as one of its packets would be.
        let carries = |l: &LinkSpec, psdu: u32| {
            let full = FullFrame::of(&scenario.mac_of(l.from).phy, l.rate, psdu);
            let together = full.packets.div_ceil(full.mpdus);
            (0..together).fold(1.0, |all, _| all * l.delivery) > MIN_DELIVERY
        };
        let dead = |path: &[NodeId], psdu: u32| {
            let crosses =
                |from, to| links.iter().any(|l| (l.from, l.to) == (from, to) && !carries(l, psdu));
            path.windows(2).any(|hop| crosses(hop[0], hop[1]))
        };
        let mut paths: Vec<FlowPath> =
            scenario.flows().iter().map(|f| FlowPath::new(scenario, f)).collect();
        if links.iter().any(|l| l.delivery < 1.0) {
            let llc = scenario.mac().llc_bytes;
            for (way, flow) in paths.iter_mut().zip(scenario.flows()) {
                way.dead = way.on_air && dead(&way.path, traffic(flow, llc).psdu);
            }
        }
        let mut weights: Vec<f64> = scenario.flows().iter().map(|f| f.weight).collect();
        for subscriber in &scenario.subscribers().list {
            let many = subscriber.flows().count() as f64;
            subscriber.flows().for_each(|f| weights[f] = subscriber.weight / many);
        }
        CapacityModel { scenario, decodes, senses, links, access, paths, weights }
    }

    /// Returns the PHY and access of each station if radios differ in them.
    ///
    /// Otherwise the scenario's own apply to all stations.
    pub fn radios(&self) -> Vec<(&'a Phy, Access)> {
        let scenario = self.scenario;
        if scenario.further().iter().all(|r| r.medium == 0) {
            return Vec::new();
        }
        let of = |n| {
            let mac = scenario.mac_of(n);
            (&mac.phy, access(mac))
        };
        scenario.wireless().map(of).collect()
    }

    /// Returns the flows among `wanted` that use the air, as indices into the scenario's flows.
    pub fn on_air(&self, wanted: impl Fn(usize) -> bool) -> Vec<usize> {
        (0..self.paths.len()).filter(|&i| wanted(i) && self.paths[i].on_air).collect()
    }

    /// Returns true if no packet of a flow arrives; it takes no part in the division of the air.
    pub fn dead(&self, i: usize) -> bool {
        self.paths[i].dead
    }

    /// Returns a flow's description for the models.
    pub fn flow(&self, i: usize) -> FlowSpec<'_> {
        let flow = &self.scenario.flows()[i];
        FlowSpec {
            path: &self.paths[i].path,
            wires: &self.paths[i].wires,
            traffic: traffic(flow, self.scenario.mac().llc_bytes),
            demand: Demand { weight: self.weights[i], ..demand(flow) },
        }
    }

    /// Returns a flow's guaranteed rate, bit/s of application data; at most its demand.
    pub fn minimum(&self, i: usize) -> f64 {
        let flow = &self.scenario.flows()[i];
        flow.guarantee.map_or(0.0, |least| goodput(flow, least).min(demand(flow).limit))
    }
}

/// Returns the access method. One threshold applies to all frames; full-sized data decides.
fn access(mac: &MacConfig) -> Access {
    match mac.rts_threshold {
        Some(t) if t <= FULL_PACKET => Access::RtsCts,
        _ => Access::Basic,
    }
}

/// Returns the rate of a lone sender over a lossless link at `rate`, bit/s.
///
/// The rate is of IP packets of 1500 bytes.
pub(crate) fn nominal_capacity(mac: &MacConfig, rate: Rate) -> f64 {
    let psdu = FULL_PACKET + mac.llc_bytes + DATA_OVERHEAD;
    let full = Traffic { payload: FULL_PACKET, psdu, reverse_psdu: 0, reverse_per_packet: 0.0 };
    saturated_goodput(&mac.phy, rate, &full, access(mac))
}

/// Returns the application bytes and IP bytes of a full packet of a flow.
pub(crate) fn packet_sizes(flow: &Flow) -> (u32, u32) {
    let t = traffic(flow, 0);
    (t.payload, t.psdu - DATA_OVERHEAD)
}

/// Returns the air traffic caused by each application packet of a flow.
pub(crate) fn traffic(flow: &Flow, llc: u32) -> Traffic {
    let psdu = |ip: u32| ip + llc + DATA_OVERHEAD;
    match &flow.transport {
        Transport::Tcp(tcp) => Traffic {
            payload: tcp.mss,
            psdu: psdu(tcp.mss + 40),
            reverse_psdu: psdu(40),
            reverse_per_packet: if tcp.delayed_ack.is_some() { 0.5 } else { 1.0 },
        },
        Transport::Quic(quic) => {
            let (payload, packet) = quic.full_packet();
            // An ACK frame without holes, for every second packet (RFC 9000 §13.2.2).
            Traffic {
                payload,
                psdu: psdu(packet),
                reverse_psdu: psdu(quic::PLAIN_ACK),
                reverse_per_packet: 0.5,
            }
        }
        Transport::Udp => {
            let payload = match flow.traffic {
                TrafficSpec::Cbr { datagram, .. } => datagram,
                _ => 1472,
            };
            Traffic { payload, psdu: psdu(payload + 28), reverse_psdu: 0, reverse_per_packet: 0.0 }
        }
    }
}

/// Converts a rate in IP bytes to a rate in application bytes, for full packets of this flow.
fn goodput(flow: &Flow, rate: BitRate) -> f64 {
    let (payload, packet) = packet_sizes(flow);
    rate.0 as f64 * f64::from(payload) / f64::from(packet)
}

fn demand(flow: &Flow) -> Demand {
    let plan = flow.plan.map_or(f64::INFINITY, |plan| goodput(flow, plan));
    let limit: f64 = match flow.traffic {
        TrafficSpec::Cbr { rate, .. } | TrafficSpec::Limited { rate, .. } => rate.0 as f64,
        TrafficSpec::Bulk | TrafficSpec::Files { .. } | TrafficSpec::Http { .. } => f64::INFINITY,
    };
    Demand { weight: flow.weight, limit: limit.min(plan) }
}
