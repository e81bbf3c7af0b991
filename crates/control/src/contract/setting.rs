//! Facts about a node that a mechanism gets at its start, and small types shared by events.

use std::sync::Arc;

use fairmesh_units::{BitRate, FlowId, NodeId, Stream};

use crate::LinkModel;

/// A directed link between neighbours.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Link {
    /// Transmitter.
    pub from: NodeId,
    /// Receiver.
    pub to: NodeId,
}

/// Role of a node in the mesh.
///
/// Built by [`Site::new`], so that a new field changes no host.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct Site {
    /// True if the node joins the mesh to the backhaul.
    pub gateway: bool,
    /// True if wireless hosts attach to the node.
    pub access_point: bool,
    /// True if the node may source flows, at present or later.
    pub sources: bool,
    /// Hops to the nearest gateway, 0 at the gateway; `None` if there is none.
    pub hops: Option<u32>,
    /// True if the node may source flows, is not a gateway, and runs this project's agent.
    pub agent: bool,
}

impl Site {
    /// A node that only forwards packets, in a mesh without a gateway.
    pub const fn new() -> Self {
        Site { gateway: false, access_point: false, sources: false, hops: None, agent: false }
    }

    /// Sets [`Site::gateway`].
    #[must_use]
    pub const fn with_gateway(self, gateway: bool) -> Self {
        Site { gateway, ..self }
    }

    /// Sets [`Site::access_point`].
    #[must_use]
    pub const fn with_access_point(self, access_point: bool) -> Self {
        Site { access_point, ..self }
    }

    /// Sets [`Site::sources`].
    #[must_use]
    pub const fn with_sources(self, sources: bool) -> Self {
        Site { sources, ..self }
    }

    /// Sets [`Site::agent`].
    #[must_use]
    pub const fn with_agent(self, agent: bool) -> Self {
        Site { agent, ..self }
    }

    /// Sets [`Site::hops`].
    #[must_use]
    pub const fn with_hops(self, hops: Option<u32>) -> Self {
        Site { hops, ..self }
    }
}

/// A share of time, between 0 and 1.
#[derive(Clone, Copy, PartialEq, PartialOrd, Default, Debug)]
pub struct Share(f64);

impl Share {
    /// `share` clamped to 0…1; NaN gives 0.
    pub fn new(share: f64) -> Self {
        Share(if share > 0.0 { share.min(1.0) } else { 0.0 })
    }
    /// Returns the share as a number.
    pub fn get(self) -> f64 {
        self.0
    }
}

/// Number of fields in a [`Header`].
pub const HEADER_FIELDS: usize = 8;

/// Header fields that a mechanism carries in data packets.
///
/// Each mechanism defines the meaning of the slots that it uses. The host chooses their transport
/// (WCP's transport header, CNA's unused bits of the IP header) and accounts for the bytes they add
/// ([`Needs::header_bytes`]).
///
/// [`Needs::header_bytes`]: crate::Needs::header_bytes
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Header(pub [u32; HEADER_FIELDS]);

/// Role of this node for a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// The flow starts here.
    Source,
    /// The flow passes here; at a gateway also if its far end lies in the backhaul.
    Forwarder,
    /// The flow ends here.
    Sink,
}

/// A flow as one node on its path sees it.
///
/// Built by [`FlowHere::new`], so that a new field changes no host.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct FlowHere {
    /// The flow.
    pub flow: FlowId,
    /// Weight of the flow in the fair allocation; 1 unless configured.
    pub weight: f64,
    /// Role of this node for the flow.
    pub place: Place,
    /// Neighbour to which this node sends the flow's data.
    pub next_hop: Option<NodeId>,
    /// Application bytes in a full packet (for TCP its segment size); positive.
    pub payload: u32,
    /// IP bytes of that packet.
    pub packet: u32,
    /// The analytic fair rate of application data, if the host has one.
    pub fair: Option<BitRate>,
    /// Guaranteed rate of the subscriber in IP bytes; `None` for no guarantee.
    pub guarantee: Option<BitRate>,
    /// Maximum rate of the subscriber's plan in IP bytes; `None` for no ceiling.
    pub ceiling: Option<BitRate>,
    /// Wireless hops on its path, as routing reports them; at least 1.
    pub hops: Option<u32>,
    /// Radio neighbour through which routing reaches the flow's home from this node.
    pub branch: Option<NodeId>,
    /// [`FlowHere::home`] plus 1; 0 for none. Kept small for the size of events.
    pub(crate) home: u16,
    /// True if it goes from the home to the gateway.
    pub upstream: Option<bool>,
}

impl FlowHere {
    /// A flow of weight 1 without further facts.
    ///
    /// The arguments are this node's role for it, and the application bytes and IP bytes of its
    /// full packets.
    pub const fn new(flow: FlowId, place: Place, payload: u32, packet: u32) -> Self {
        FlowHere {
            flow,
            weight: 1.0,
            place,
            next_hop: None,
            payload,
            packet,
            fair: None,
            guarantee: None,
            ceiling: None,
            hops: None,
            branch: None,
            home: 0,
            upstream: None,
        }
    }

    /// Sets [`FlowHere::weight`].
    #[must_use]
    pub const fn with_weight(self, weight: f64) -> Self {
        FlowHere { weight, ..self }
    }

    /// Sets [`FlowHere::next_hop`].
    #[must_use]
    pub const fn with_next_hop(self, next_hop: Option<NodeId>) -> Self {
        FlowHere { next_hop, ..self }
    }

    /// Sets [`FlowHere::fair`].
    #[must_use]
    pub const fn with_fair(self, fair: Option<BitRate>) -> Self {
        FlowHere { fair, ..self }
    }

    /// Sets [`FlowHere::guarantee`].
    #[must_use]
    pub const fn with_guarantee(self, guarantee: Option<BitRate>) -> Self {
        FlowHere { guarantee, ..self }
    }

    /// Sets [`FlowHere::ceiling`].
    #[must_use]
    pub const fn with_ceiling(self, ceiling: Option<BitRate>) -> Self {
        FlowHere { ceiling, ..self }
    }

    /// Sets [`FlowHere::hops`].
    #[must_use]
    pub const fn with_hops(self, hops: Option<u32>) -> Self {
        FlowHere { hops, ..self }
    }

    /// Sets [`FlowHere::branch`].
    #[must_use]
    pub const fn with_branch(self, branch: Option<NodeId>) -> Self {
        FlowHere { branch, ..self }
    }

    /// Sets [`FlowHere::home`]; a number of 65,535 or more counts as none.
    #[must_use]
    pub const fn with_home(self, home: Option<NodeId>) -> Self {
        let home = match home {
            Some(NodeId(n)) if n < u16::MAX as u32 => n as u16 + 1,
            _ => 0,
        };
        FlowHere { home, ..self }
    }

    /// Returns the node of the flow's home, or any number that all flows of one home share.
    pub fn home(&self) -> Option<NodeId> {
        self.home.checked_sub(1).map(|n| NodeId(n.into()))
    }

    /// Sets [`FlowHere::upstream`].
    #[must_use]
    pub const fn with_upstream(self, upstream: Option<bool>) -> Self {
        FlowHere { upstream, ..self }
    }

    /// Returns the rate of IP bytes that carries `goodput` in full packets, rounded up.
    ///
    /// It is goodput × packet / payload.
    pub fn ip_rate(&self, goodput: BitRate) -> BitRate {
        let payload = u128::from(self.payload.max(1));
        let ip = (u128::from(goodput.0) * u128::from(self.packet)).div_ceil(payload);
        BitRate(u64::try_from(ip).unwrap_or(u64::MAX))
    }
}

/// A neighbour to which the node has a link.
///
/// Built by [`Neighbour::new`], so that a new field changes no host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Neighbour {
    /// The neighbour.
    pub node: NodeId,
    /// Nominal rate of the link to the neighbour.
    pub rate: BitRate,
    /// IP throughput of a lone saturated sender across the link, in packets of 1500 bytes.
    ///
    /// It is the rate less headers, gaps, mean backoff and acknowledgements of the MAC, without loss
    /// (Jamshaid 2010 §7.5.2, "With 802.11 Scheduling").
    pub capacity: BitRate,
}

impl Neighbour {
    /// A neighbour, with the nominal rate and the capacity of the link to it.
    pub const fn new(node: NodeId, rate: BitRate, capacity: BitRate) -> Self {
        Neighbour { node, rate, capacity }
    }
}

/// All facts about its node that a mechanism gets at its start.
///
/// Built by [`Setting::new`], so that a new field changes no host.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Setting {
    /// This node.
    pub node: NodeId,
    /// Role of the node in the mesh.
    pub site: Site,
    /// Number of gateways of the mesh, as far as is known.
    pub gateways: u32,
    /// Number of the run: larger at every start of the same node.
    pub run: u64,
    /// Flows that cross the node, each once.
    pub flows: Vec<FlowHere>,
    /// Neighbours of the node, each once.
    pub neighbours: Vec<Neighbour>,
    /// Links that the routing protocol reports.
    pub links: Vec<Link>,
    /// Model of the host's radio, if it has one.
    pub model: Option<Arc<dyn LinkModel>>,
    /// Random stream of the mechanism.
    pub stream: Stream,
}

impl Setting {
    /// A node without further facts.
    pub const fn new(node: NodeId, site: Site, stream: Stream) -> Self {
        Setting {
            node,
            site,
            gateways: 1,
            run: 0,
            flows: Vec::new(),
            neighbours: Vec::new(),
            links: Vec::new(),
            model: None,
            stream,
        }
    }

    /// Sets [`Setting::gateways`].
    #[must_use]
    pub fn with_gateways(self, gateways: u32) -> Self {
        Setting { gateways, ..self }
    }

    /// Sets [`Setting::run`].
    #[must_use]
    pub fn with_run(self, run: u64) -> Self {
        Setting { run, ..self }
    }

    /// Sets [`Setting::flows`].
    #[must_use]
    pub fn with_flows(self, flows: impl IntoIterator<Item = FlowHere>) -> Self {
        Setting { flows: flows.into_iter().collect(), ..self }
    }

    /// Sets [`Setting::neighbours`].
    #[must_use]
    pub fn with_neighbours(self, neighbours: impl IntoIterator<Item = Neighbour>) -> Self {
        Setting { neighbours: neighbours.into_iter().collect(), ..self }
    }

    /// Sets [`Setting::links`].
    #[must_use]
    pub fn with_links(self, links: impl IntoIterator<Item = Link>) -> Self {
        Setting { links: links.into_iter().collect(), ..self }
    }

    /// Sets [`Setting::model`].
    #[must_use]
    pub fn with_model(self, model: Option<Arc<dyn LinkModel>>) -> Self {
        Setting { model, ..self }
    }
}
