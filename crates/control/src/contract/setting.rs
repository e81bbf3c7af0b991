//! What a mechanism is told about its node when it starts, and small types shared by events.

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

/// Which part a node plays in the mesh.
///
/// Built by [`Site::new`], so that one fact more changes no host.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct Site {
    /// It joins the mesh to the backhaul.
    pub gateway: bool,
    /// Wireless hosts attach to it.
    pub access_point: bool,
    /// It may source flows: now or later.
    pub sources: bool,
    /// Hops to the nearest gateway, 0 at the gateway; `None` if there is none.
    pub hops: Option<u32>,
    /// It may source flows, is no gateway, and runs this project's agent.
    pub agent: bool,
}

impl Site {
    /// A node that only passes packets on, in a mesh without a gateway.
    pub const fn new() -> Self {
        Site { gateway: false, access_point: false, sources: false, hops: None, agent: false }
    }

    /// With [`Site::gateway`].
    #[must_use]
    pub const fn with_gateway(self, gateway: bool) -> Self {
        Site { gateway, ..self }
    }

    /// With [`Site::access_point`].
    #[must_use]
    pub const fn with_access_point(self, access_point: bool) -> Self {
        Site { access_point, ..self }
    }

    /// With [`Site::sources`].
    #[must_use]
    pub const fn with_sources(self, sources: bool) -> Self {
        Site { sources, ..self }
    }

    /// With [`Site::agent`].
    #[must_use]
    pub const fn with_agent(self, agent: bool) -> Self {
        Site { agent, ..self }
    }

    /// With [`Site::hops`].
    #[must_use]
    pub const fn with_hops(self, hops: Option<u32>) -> Self {
        Site { hops, ..self }
    }
}

/// A share of the time, between 0 and 1.
#[derive(Clone, Copy, PartialEq, PartialOrd, Default, Debug)]
pub struct Share(f64);

impl Share {
    /// `share` cut to 0…1; NaN gives 0.
    pub fn new(share: f64) -> Self {
        Share(if share > 0.0 { share.min(1.0) } else { 0.0 })
    }
    /// As a number.
    pub fn get(self) -> f64 {
        self.0
    }
}

/// Number of fields in a [`Header`].
pub const SLOTS: usize = 8;

/// Header fields that a mechanism carries in data packets. Each mechanism gives its own meaning to
/// the slots it uses; how they travel (WCP's transport header, CNA's unused bits of the IP header)
/// is the host's business, and so are the bytes they add ([`Needs::header_bytes`]).
///
/// [`Needs::header_bytes`]: crate::Needs::header_bytes
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Header(pub [u32; SLOTS]);

/// What this node is to a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// The flow starts here.
    Source,
    /// The flow passes here; at a gateway also when its far end lies in the backhaul.
    Forwarder,
    /// The flow ends here.
    Sink,
}

/// A flow as one node on its path knows it.
///
/// Built by [`FlowHere::new`], so that one fact more changes no host.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct FlowHere {
    /// Which flow.
    pub flow: FlowId,
    /// Its weight in the fair allocation; 1 unless configured.
    pub weight: f64,
    /// What this node is to it.
    pub place: Place,
    /// The neighbour to which its data goes from here.
    pub next_hop: Option<NodeId>,
    /// Application bytes in a full packet (for TCP its segment size); positive.
    pub payload: u32,
    /// IP bytes of that packet.
    pub packet: u32,
    /// The analytic fair rate of application data, if the host has one.
    pub fair: Option<BitRate>,
    /// IP bytes that its subscriber is promised; `None` promises nothing.
    pub guarantee: Option<BitRate>,
    /// IP bytes above which its subscriber's plan does not go; `None` is no ceiling.
    pub ceiling: Option<BitRate>,
    /// Wireless hops on its path, as routing reports them; at least 1.
    pub hops: Option<u32>,
    /// This node's neighbour in the air through which its home is reached, as routing reports it.
    pub branch: Option<NodeId>,
    /// See [`FlowHere::home`], plus 1; 0 is none. Events stay small.
    pub(crate) home: u16,
    /// Whether it goes from the home to the gateway.
    pub upstream: Option<bool>,
}

impl FlowHere {
    /// A flow of weight 1 of which nothing else is known: what this node is to it, and the
    /// application bytes and IP bytes of its full packets.
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

    /// With [`FlowHere::weight`].
    #[must_use]
    pub const fn with_weight(self, weight: f64) -> Self {
        FlowHere { weight, ..self }
    }

    /// With [`FlowHere::next_hop`].
    #[must_use]
    pub const fn with_next_hop(self, next_hop: Option<NodeId>) -> Self {
        FlowHere { next_hop, ..self }
    }

    /// With [`FlowHere::fair`].
    #[must_use]
    pub const fn with_fair(self, fair: Option<BitRate>) -> Self {
        FlowHere { fair, ..self }
    }

    /// With [`FlowHere::guarantee`].
    #[must_use]
    pub const fn with_guarantee(self, guarantee: Option<BitRate>) -> Self {
        FlowHere { guarantee, ..self }
    }

    /// With [`FlowHere::ceiling`].
    #[must_use]
    pub const fn with_ceiling(self, ceiling: Option<BitRate>) -> Self {
        FlowHere { ceiling, ..self }
    }

    /// With [`FlowHere::hops`].
    #[must_use]
    pub const fn with_hops(self, hops: Option<u32>) -> Self {
        FlowHere { hops, ..self }
    }

    /// With [`FlowHere::branch`].
    #[must_use]
    pub const fn with_branch(self, branch: Option<NodeId>) -> Self {
        FlowHere { branch, ..self }
    }

    /// With [`FlowHere::home`]; a number from 65,535 on is none.
    #[must_use]
    pub const fn with_home(self, home: Option<NodeId>) -> Self {
        let home = match home {
            Some(NodeId(n)) if n < u16::MAX as u32 => n as u16 + 1,
            _ => 0,
        };
        FlowHere { home, ..self }
    }

    /// The node whose home it belongs to, or any number that all flows of one home have.
    pub fn home(&self) -> Option<NodeId> {
        self.home.checked_sub(1).map(|n| NodeId(n.into()))
    }

    /// With [`FlowHere::upstream`].
    #[must_use]
    pub const fn with_upstream(self, upstream: Option<bool>) -> Self {
        FlowHere { upstream, ..self }
    }

    /// The rate of IP bytes that carries `goodput` of application data in full packets, rounded
    /// up: goodput × packet / payload.
    pub fn ip_rate(&self, goodput: BitRate) -> BitRate {
        let payload = u128::from(self.payload.max(1));
        let ip = (u128::from(goodput.0) * u128::from(self.packet)).div_ceil(payload);
        BitRate(u64::try_from(ip).unwrap_or(u64::MAX))
    }
}

/// A neighbour to which the node has a link.
///
/// Built by [`Neighbour::new`], so that one fact more changes no host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Neighbour {
    /// The neighbour.
    pub node: NodeId,
    /// Nominal rate of the link to it.
    pub rate: BitRate,
    /// IP bytes that a lone saturated sender gets across the link in packets of 1500 bytes: its
    /// rate less headers, gaps, mean backoff and acknowledgements of the MAC; nothing is lost
    /// (Jamshaid 2010 §7.5.2, "With 802.11 Scheduling").
    pub capacity: BitRate,
}

impl Neighbour {
    /// A neighbour, and the nominal rate and the capacity of the link to it.
    pub const fn new(node: NodeId, rate: BitRate, capacity: BitRate) -> Self {
        Neighbour { node, rate, capacity }
    }
}

/// Everything a mechanism is told about its node when it starts.
///
/// Built by [`Setting::new`], so that one fact more changes no host.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Setting {
    /// This node.
    pub node: NodeId,
    /// Its part in the mesh.
    pub site: Site,
    /// How many gateways the mesh has, as far as is known.
    pub gateways: u32,
    /// Larger at every start of one and the same node.
    pub run: u64,
    /// The flows that cross it, each once.
    pub flows: Vec<FlowHere>,
    /// Its neighbours, each once.
    pub neighbours: Vec<Neighbour>,
    /// Links that the routing protocol reports, as far as it looks.
    pub links: Vec<Link>,
    /// The arithmetic of the host's radio, if it has one.
    pub model: Option<Arc<dyn LinkModel>>,
    /// The mechanism's own random stream.
    pub stream: Stream,
}

impl Setting {
    /// A node of which nothing else is known.
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

    /// With [`Setting::gateways`].
    #[must_use]
    pub fn with_gateways(self, gateways: u32) -> Self {
        Setting { gateways, ..self }
    }

    /// With [`Setting::run`].
    #[must_use]
    pub fn with_run(self, run: u64) -> Self {
        Setting { run, ..self }
    }

    /// With [`Setting::flows`].
    #[must_use]
    pub fn with_flows(self, flows: impl IntoIterator<Item = FlowHere>) -> Self {
        Setting { flows: flows.into_iter().collect(), ..self }
    }

    /// With [`Setting::neighbours`].
    #[must_use]
    pub fn with_neighbours(self, neighbours: impl IntoIterator<Item = Neighbour>) -> Self {
        Setting { neighbours: neighbours.into_iter().collect(), ..self }
    }

    /// With [`Setting::links`].
    #[must_use]
    pub fn with_links(self, links: impl IntoIterator<Item = Link>) -> Self {
        Setting { links: links.into_iter().collect(), ..self }
    }

    /// With [`Setting::model`].
    #[must_use]
    pub fn with_model(self, model: Option<Arc<dyn LinkModel>>) -> Self {
        Setting { model, ..self }
    }
}
