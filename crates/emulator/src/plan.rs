//! Plan of the network: names, addresses, interfaces, routes.
//!
//! Derived from the scenario alone.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::Ipv4Addr;

use fairmesh_queueing::{DisciplineSpec, Limit};
use fairmesh_scenario::{NodeKind, Scenario, Transport};
use fairmesh_transport::traffic::TrafficSpec;
use fairmesh_transport::{Congestion, TcpConfig};
use fairmesh_units::NodeId;

use crate::error::EmulatorError;
use crate::frame::Mac;

/// Prefix of the names of the emulator's namespaces.
pub(crate) const NAMESPACE_PREFIX: &str = "fairmesh-";

/// Largest IP datagram in an unfragmented 802.11 frame.
///
/// It has 2304 bytes of MSDU (IEEE 802.11-2020 Table 9-25) less 8 of LLC.
const MAX_DATAGRAM: u32 = 2296;

/// Longest queue that a TAP device keeps exactly.
///
/// From 32 entries on the kernel releases them in batches of 16 (`__ptr_ring_set_size` in
/// `linux/ptr_ring.h`), so that 0 to 15 of them are missing.
const MAX_RING_PACKETS: u32 = 31;

/// Length of the kernel's queue if the engine implements the node's queue.
const KERNEL_QUEUE_PACKETS: u32 = 1000;

/// An interface of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfacePlan {
    /// Node of the interface.
    pub node: NodeId,
    /// Name of the interface in the node's namespace.
    pub name: String,
    /// Hardware address.
    pub mac: Mac,
    /// Medium that it connects to.
    pub side: Side,
    /// Length of the kernel's queue, in packets.
    pub queue: u32,
    /// Packets that the engine takes ahead of the one in the MAC, as a driver does.
    ///
    /// When they are taken, the kernel's queue fills and drops. `None`: the engine takes all
    /// packets and drops by itself.
    pub ahead: Option<u32>,
}

/// Medium of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The radio.
    Radio,
    /// One end of a wire.
    Wire {
        /// Index of the wire in the scenario.
        wire: usize,
        /// True for end `b`.
        b: bool,
    },
}

/// Plan of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePlan {
    /// Name of the namespace.
    pub namespace: String,
    /// Address of the node, equal on all its interfaces.
    pub address: Ipv4Addr,
    /// The next hop to every other reachable node: destination, interface, neighbour.
    pub routes: Vec<RoutePlan>,
}

/// A route of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoutePlan {
    /// Destination.
    pub to: NodeId,
    /// Source of the packets that use it; set only where flows to one node take different paths.
    pub from: Option<NodeId>,
    /// Next hop.
    pub via: NodeId,
    /// Index of the interface.
    pub interface: usize,
}

/// Plan of the whole network.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Per node of the scenario.
    pub nodes: Vec<NodePlan>,
    /// All interfaces, grouped by node.
    pub interfaces: Vec<InterfacePlan>,
    /// Largest IP datagram.
    pub mtu: u32,
    /// TCP settings that the kernel supports.
    pub tcp: Option<TcpConfig>,
    /// Differences from the simulator, one line each.
    pub notes: Vec<String>,
}

impl Plan {
    /// Plans a scenario; `run` makes the names of this run's namespaces unique.
    ///
    /// # Errors
    /// A scenario that cannot be emulated.
    pub fn new(scenario: &Scenario, run: &str) -> Result<Self, EmulatorError> {
        if let Some(further) = scenario.further().first() {
            return Err(EmulatorError::Radios(further.name.clone()));
        }
        if scenario.has_access_categories() {
            return Err(EmulatorError::Categories);
        }
        if scenario.nodes().len() > MAX_NODES {
            return Err(EmulatorError::TooLarge(scenario.nodes().len()));
        }
        let mut notes = Vec::new();
        let interfaces = interfaces(scenario);
        let mut taken = BTreeSet::new();
        let mut nodes = Vec::with_capacity(scenario.nodes().len());
        for (i, node) in scenario.nodes().iter().enumerate() {
            let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '_' };
            let mut short: String = node.name.chars().map(plain).take(64).collect();
            if !taken.insert(short.clone()) {
                short = format!("{short}-{i}");
                taken.insert(short.clone());
            }
            let namespace = format!("{NAMESPACE_PREFIX}{run}-{short}");
            nodes.push(NodePlan { namespace, address: address(i), routes: Vec::new() });
        }
        for (i, routes) in routes(scenario, &interfaces)?.into_iter().enumerate() {
            nodes[i].routes = routes;
        }
        let own = Some(scenario.control()).filter(|c| !c.is_none());
        for control in own.into_iter().chain(scenario.at_gateways()) {
            notes.push(format!(
                "control {control} is the simulator's; in the emulator a control is a program in a namespace"
            ));
        }
        Ok(Plan {
            nodes,
            interfaces,
            mtu: mtu(scenario, &mut notes),
            tcp: tcp(scenario, &mut notes),
            notes,
        })
    }

    /// Returns a node's interfaces with their indices.
    pub fn interfaces_of(&self, node: NodeId) -> impl Iterator<Item = (usize, &InterfacePlan)> {
        self.interfaces.iter().enumerate().filter(move |(_, i)| i.node == node)
    }

    /// Returns the interface at the other end of a hop.
    pub fn peer(&self, from: usize, to: NodeId) -> Option<&InterfacePlan> {
        let same = |i: &&InterfacePlan| match (self.interfaces[from].side, i.side) {
            (Side::Radio, Side::Radio) => true,
            (Side::Wire { wire: a, .. }, Side::Wire { wire: b, .. }) => a == b,
            _ => false,
        };
        self.interfaces.iter().filter(same).find(|i| i.node == to)
    }
}

/// Maximum number of nodes; each has a namespace with a device.
const MAX_NODES: usize = 1000;

/// Returns 10.66.x.y, from 10.66.0.1 on.
pub fn address(node: usize) -> Ipv4Addr {
    let n = node as u32 + 1;
    Ipv4Addr::new(10, 66, (n >> 8) as u8, n as u8)
}

fn interfaces(scenario: &Scenario) -> Vec<InterfacePlan> {
    let mut all = Vec::new();
    for (i, node) in scenario.nodes().iter().enumerate() {
        let id = NodeId(i as u32);
        if node.kind == NodeKind::Wireless {
            let queue = node.queue.as_ref().unwrap_or(scenario.queue());
            let (queue, ahead) = match (&queue.discipline, queue.device) {
                (DisciplineSpec::DropTail(Limit::Packets(n)), 0) => {
                    // One packet is in service, and one is ready to follow it.
                    let ring = n.saturating_sub(2).clamp(1, MAX_RING_PACKETS);
                    (ring, Some(n.saturating_sub(ring + 1).max(1)))
                }
                _ => (KERNEL_QUEUE_PACKETS, None),
            };
            let (name, mac) = ("mesh0".to_owned(), Mac::radio(i as u16));
            all.push(InterfacePlan { node: id, name, mac, side: Side::Radio, queue, ahead });
        }
        let mut own = 0;
        for (k, wire) in scenario.wires().iter().enumerate() {
            for (end, b) in [(wire.a, false), (wire.b, true)] {
                if end == id {
                    all.push(InterfacePlan {
                        node: id,
                        name: format!("wire{own}"),
                        mac: Mac::wire(k as u16, b),
                        side: Side::Wire { wire: k, b },
                        queue: KERNEL_QUEUE_PACKETS,
                        ahead: None,
                    });
                    own += 1;
                }
            }
        }
    }
    all
}

/// Returns the interface from one node to its neighbour.
fn toward(scenario: &Scenario, all: &[InterfacePlan], from: NodeId, to: NodeId) -> Option<usize> {
    // If two nodes share a wire and a link, the wire is used.
    let radio = scenario.wire(from, to).is_none() && scenario.link(from, to).is_some();
    all.iter().position(|i| {
        i.node == from
            && match i.side {
                Side::Radio => radio,
                Side::Wire { wire, b } => {
                    let w = &scenario.wires()[wire];
                    !radio && to == if b { w.a } else { w.b }
                }
            }
    })
}

/// Returns the routes of each node.
///
/// These are the paths of the flows, in both directions, and shortest paths for all other pairs.
fn routes(
    scenario: &Scenario,
    interfaces: &[InterfacePlan],
) -> Result<Vec<Vec<RoutePlan>>, EmulatorError> {
    let n = scenario.nodes().len();
    let no_link = |from: NodeId, to: NodeId| EmulatorError::NoLink {
        from: scenario.nodes()[from.index()].name.clone(),
        to: scenario.nodes()[to.index()].name.clone(),
    };
    let mut paths: BTreeMap<(NodeId, NodeId), Vec<NodeId>> = BTreeMap::new();
    for flow in scenario.flows() {
        for path in [flow.path.clone(), flow.path.iter().rev().copied().collect()] {
            let ends = (path[0], path[path.len() - 1]);
            if paths.get(&ends).is_some_and(|other| *other != path) {
                let name = |n: NodeId| scenario.nodes()[n.index()].name.clone();
                return Err(EmulatorError::TwoPaths { from: name(ends.0), to: name(ends.1) });
            }
            paths.insert(ends, path);
        }
    }
    // Where paths to one node diverge, the first keeps the ordinary route.
    let mut next: Vec<BTreeMap<NodeId, NodeId>> = vec![BTreeMap::new(); n];
    let mut special: Vec<BTreeMap<(NodeId, NodeId), NodeId>> = vec![BTreeMap::new(); n];
    for ((from, to), path) in &paths {
        for hop in path.windows(2) {
            let at = hop[0].index();
            if *next[at].entry(*to).or_insert(hop[1]) != hop[1] {
                special[at].insert((*from, *to), hop[1]);
            }
        }
    }
    // All other pairs use shortest paths. A node without a flow's route leads one hop nearer, so
    // that packets reach the destination or a flow's path.
    let edges = neighbours(scenario);
    for to in 0..n as u32 {
        let mut distance = vec![u32::MAX; n];
        distance[to as usize] = 0;
        let mut wave = VecDeque::from([to]);
        while let Some(u) = wave.pop_front() {
            for &v in &edges[u as usize] {
                if distance[v as usize] == u32::MAX {
                    distance[v as usize] = distance[u as usize] + 1;
                    wave.push_back(v);
                    next[v as usize].entry(NodeId(to)).or_insert(NodeId(u));
                }
            }
        }
    }
    let mut routes = Vec::with_capacity(n);
    for at in 0..n {
        let mut own = Vec::new();
        let usual = next[at].iter().map(|(to, via)| (None, *to, *via));
        let pairs = special[at].iter().map(|((from, to), via)| (Some(*from), *to, *via));
        for (from, to, via) in usual.chain(pairs) {
            let here = NodeId(at as u32);
            let interface =
                toward(scenario, interfaces, here, via).ok_or_else(|| no_link(here, via))?;
            own.push(RoutePlan { to, from, via, interface });
        }
        routes.push(own);
    }
    Ok(routes)
}

/// Returns each node's neighbours: nodes one hop away in both directions, in ascending order.
fn neighbours(scenario: &Scenario) -> Vec<Vec<u32>> {
    let mut edges = vec![Vec::new(); scenario.nodes().len()];
    for l in scenario.links() {
        if scenario.link(l.to, l.from).is_some() {
            edges[l.from.index()].push(l.to.0);
        }
    }
    for w in scenario.wires() {
        edges[w.a.index()].push(w.b.0);
        edges[w.b.index()].push(w.a.0);
    }
    for e in &mut edges {
        e.sort_unstable();
        e.dedup();
    }
    edges
}

/// Returns 1500, or the length of the largest packet of the traffic if it is more.
fn mtu(scenario: &Scenario, notes: &mut Vec<String>) -> u32 {
    let needs = scenario.flows().iter().map(|f| match (&f.transport, f.traffic) {
        (Transport::Tcp(tcp), _) => tcp.mss + 40,
        (Transport::Quic(quic), _) => quic.full_packet().1,
        (Transport::Udp, TrafficSpec::Cbr { datagram, .. }) => datagram + 28,
        (Transport::Udp, _) => 1500,
    });
    let wanted = needs.max().unwrap_or(1500).max(1500);
    if wanted > MAX_DATAGRAM {
        notes.push(format!(
            "packets of {wanted} B are larger than {MAX_DATAGRAM} B; the kernel fragments them"
        ));
    }
    wanted.min(MAX_DATAGRAM)
}

/// Returns the TCP settings of the flows, if they agree.
fn tcp(scenario: &Scenario, notes: &mut Vec<String>) -> Option<TcpConfig> {
    let mut all = scenario.flows().iter().filter_map(|f| match f.transport {
        Transport::Tcp(tcp) => Some(tcp),
        Transport::Quic(_) | Transport::Udp => None,
    });
    let first = all.next()?;
    let comparable = |t: TcpConfig| TcpConfig { congestion: Congestion::NewReno, ..t };
    if all.any(|t| comparable(t) != comparable(first)) {
        notes.push("the flows' TCP settings differ; the kernel gets those of the first".into());
    }
    Some(first)
}

#[cfg(test)]
mod tests {
    use fairmesh_scenario::{ImportOptions, parse};

    use super::*;

    /// A file without settings that the kernel does not support, and the same with each of them.
    #[test]
    fn unsupported_settings_are_refused_by_name() {
        let text = |radio: &str, flow: &str| {
            format!(
                "duration = \"2 s\"\n[radio]\nphy = \"802.11n\"\nmcs = 3\n{radio}\n[topology]\n\
                 chain = {{ hops = 1 }}\n[[flow]]\nfrom = 1\nto = 0\ntraffic = \"bulk\"\n{flow}\n"
            )
        };
        let plan = |radio: &str, flow: &str| {
            let text = text(radio, flow);
            let scenario = parse("t.toml", text.as_bytes(), &ImportOptions::default()).unwrap();
            Plan::new(&scenario, "1.0").map(|_| ()).map_err(|e| e.to_string())
        };
        assert_eq!(plan("", ""), Ok(()));
        let refused = plan("", "access = \"voice\"").unwrap_err();
        assert!(refused.contains("access categor") && refused.contains("expected"), "{refused}");
    }
}
