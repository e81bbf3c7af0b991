//! The nodes of a scenario and their positions.

use std::collections::BTreeMap;

use fairmesh_units::NodeId;

use super::kinds::{self, Kind};
use super::layout::{Layout, count};
use super::places::place;
use super::{Result, fail};
use crate::draft::{Draft, LinkDraft, NodeDraft, Profile};
use crate::error::{KeyPath, Problem, ScenarioError};
use crate::name::Name;
use crate::neighbours::Place;
use crate::scenario::{Node, NodeKind};

/// The nodes: wireless ones first.
pub(super) struct Nodes {
    pub list: Vec<Node>,
    /// Number of wireless nodes in the list; their further radios follow.
    pub devices: usize,
    /// Number of wireless stations: nodes and further radios.
    pub wireless: usize,
    /// Radios of each wireless node, by index of the kind, with the station of each.
    ///
    /// The first is the node.
    pub radios: Vec<Vec<(usize, NodeId)>>,
    /// Gateways as named, each once.
    pub gateways: Vec<NodeId>,
    /// Links, given or generated, if the topology is a graph; otherwise positions determine them.
    pub links: Option<Vec<LinkDraft>>,
    index: BTreeMap<Name, NodeId>,
}

impl Nodes {
    pub fn build(draft: &Draft, kinds: &[Kind<'_>]) -> Result<Self> {
        let layout = Layout::build(draft)?;
        let mut details: BTreeMap<&Name, (usize, &NodeDraft)> = BTreeMap::new();
        for (i, node) in draft.node.iter().enumerate() {
            if details.insert(&node.id, (i, node)).is_some() {
                let key = KeyPath::from("node").index(i).key("id");
                return fail(key, Problem::DuplicateNode(node.id.to_string()));
            }
        }
        let mut nodes = Nodes {
            list: Vec::new(),
            devices: 0,
            wireless: 0,
            radios: Vec::new(),
            gateways: Vec::new(),
            links: layout.links,
            index: BTreeMap::new(),
        };
        let places = layout.places.into_iter().map(Some).chain(std::iter::repeat(None));
        for (name, place) in layout.names.iter().zip(places) {
            let details = details.get(name).copied();
            let named = details.and_then(|(i, d)| {
                Some((d.radios.as_deref()?, KeyPath::from("node").index(i).key("radios")))
            });
            let own = kinds::of_node(draft, kinds, named)?;
            let first = &kinds[own[0]];
            nodes.push(name, details, place, NodeKind::Wireless, first)?;
            let id = NodeId(nodes.list.len() as u32 - 1);
            nodes.list[id.index()].radio = own[0] as u8;
            if own[0] != 0 && nodes.list[id.index()].queue.is_none() {
                nodes.list[id.index()].queue = Some(first.radio.queue.clone());
            }
            nodes.radios.push(own.into_iter().map(|k| (k, id)).collect());
        }
        nodes.devices = nodes.list.len();
        nodes.add_radios(kinds, &details)?;
        nodes.wireless = nodes.list.len();
        for (i, node) in draft.node.iter().enumerate() {
            if node.kind == NodeKind::Wired {
                nodes.push(&node.id, Some((i, node)), None, NodeKind::Wired, &kinds[0])?;
            }
        }
        for (i, host) in draft.wired.iter().flat_map(|w| &w.hosts).enumerate() {
            if nodes.index.contains_key(host) {
                let key = KeyPath::from("wired.hosts").index(i);
                return fail(key, Problem::DuplicateNode(host.to_string()));
            }
            nodes.push(host, None, None, NodeKind::Wired, &kinds[0])?;
        }
        count(nodes.list.len() as u64, "topology")?;
        if nodes.wireless == 0 {
            return fail("topology".into(), Problem::Nothing { what: "wireless node" });
        }
        nodes.gateways = gateways(draft, &nodes)?;
        Ok(nodes)
    }

    fn push(
        &mut self,
        name: &Name,
        details: Option<(usize, &NodeDraft)>,
        generated: Option<Place>,
        kind: NodeKind,
        radio: &Kind<'_>,
    ) -> Result<()> {
        let mut node = Node {
            name: name.to_string(),
            position: generated,
            kind,
            queue: None,
            airtime_weight: 1.0,
            radio: 0,
            of: None,
        };
        if let Some((i, draft)) = details {
            let key = KeyPath::from("node").index(i);
            if draft.kind != kind {
                let problem = Problem::refused(
                    format!("\"{name}\" is a wireless node of the topology"),
                    "`kind = \"wireless\"`, or another id",
                );
                return fail(key.key("kind"), problem);
            }
            if let Some(position) = draft.position {
                node.position = Some(place(position, key.clone().key("position"))?);
            }
            if let Some(weight) = draft.airtime_weight {
                // hostapd's scale ends at 65535, where 256 is weight 1.
                if !(1.0 / 256.0..=256.0).contains(&weight) {
                    let problem = Problem::range(weight, "a weight of 1/256 to 256");
                    return fail(key.key("airtime_weight"), problem);
                }
                node.airtime_weight = weight;
            }
            if draft.radios.is_some() && kind == NodeKind::Wired {
                let problem = Problem::refused("a wired host has no radio", "no `radios` there");
                return fail(key.key("radios"), problem);
            }
            if let Some(queue) = &draft.queue {
                if kind == NodeKind::Wired {
                    let problem =
                        Problem::refused("a wired host has no radio", "`queue` of the wire");
                    return fail(key.key("queue"), problem);
                }
                let built = queue.build(radio.radio.packet_time);
                node.queue = Some(built.map_err(|p| ScenarioError::at(key.key("queue"), p))?);
            }
        }
        self.index.insert(name.clone(), NodeId(self.list.len() as u32));
        self.list.push(node);
        Ok(())
    }

    /// Adds further radios as separate stations at the position of their node.
    fn add_radios(
        &mut self,
        kinds: &[Kind<'_>],
        details: &BTreeMap<&Name, (usize, &NodeDraft)>,
    ) -> Result<()> {
        for d in 0..self.devices {
            for r in 1..self.radios[d].len() {
                let kind = self.radios[d][r].0;
                let node = &self.list[d];
                let name = Name::from(format!("{}/{}", node.name, kinds[kind].name));
                if self.index.contains_key(&name) {
                    let problem = Problem::DuplicateNode(name.to_string());
                    let key = details
                        .get(&name)
                        .map_or("node".into(), |d| KeyPath::from("node").index(d.0).key("id"));
                    return fail(key, problem);
                }
                let own = details.get(&Name::from(node.name.as_str()));
                let queue = match own.and_then(|(i, d)| Some((i, d.queue.as_ref()?))) {
                    None => kinds[kind].radio.queue.clone(),
                    Some((i, queue)) => {
                        let key = KeyPath::from("node").index(*i).key("queue");
                        let built = queue.build(kinds[kind].radio.packet_time);
                        built.map_err(|p| ScenarioError::at(key, p))?
                    }
                };
                let station = Node {
                    name: name.to_string(),
                    queue: Some(queue),
                    radio: kind as u8,
                    of: Some(NodeId(d as u32)),
                    ..node.clone()
                };
                self.radios[d][r].1 = NodeId(self.list.len() as u32);
                self.list.push(station);
            }
        }
        let used = |k: usize| self.radios.iter().flatten().any(|r| r.0 == k);
        match (1..kinds.len()).find(|&k| !used(k)) {
            Some(k) => {
                let problem = Problem::refused("no node has this radio", "`radios` of some node");
                fail(KeyPath::from("radios").key(&kinds[k].name), problem)
            }
            None => Ok(()),
        }
    }

    /// Returns the stations of a node.
    pub fn stations(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        let radios = self.radios.get(node.index()).map_or(&[][..], Vec::as_slice);
        let host = radios.is_empty().then_some(node);
        radios.iter().map(|r| r.1).chain(host)
    }

    /// Returns the kinds of radio that two nodes have in common, in the order of the kinds.
    pub fn common(&self, a: NodeId, b: NodeId) -> impl Iterator<Item = usize> + '_ {
        let mut kinds: Vec<usize> =
            self.radios.get(a.index()).into_iter().flatten().map(|r| r.0).collect();
        kinds.sort_unstable();
        kinds.into_iter().filter(move |&k| self.station(b, k).is_some())
    }

    /// Returns the station of a node's radio of this kind.
    pub fn station(&self, node: NodeId, kind: usize) -> Option<NodeId> {
        let radios = self.radios.get(node.index())?;
        radios.iter().find(|r| r.0 == kind).map(|r| r.1)
    }

    /// Returns the node of a station, or of a wired host.
    pub fn device(&self, station: NodeId) -> Option<NodeId> {
        let node = self.list.get(station.index())?;
        Some(node.of.unwrap_or(station))
    }

    /// Returns the pairs of stations of each node; transfer between them takes no time.
    pub fn buses(&self) -> impl Iterator<Item = (NodeId, NodeId)> + '_ {
        let pairs = |own: &Vec<(usize, NodeId)>| {
            let ids: Vec<NodeId> = own.iter().map(|r| r.1).collect();
            let mut pairs = Vec::new();
            for (i, &a) in ids.iter().enumerate() {
                pairs.extend(ids[i + 1..].iter().map(|&b| (a, b)));
            }
            pairs
        };
        self.radios.iter().flat_map(pairs)
    }

    /// Returns the node of this name.
    pub fn find(&self, name: &Name, key: KeyPath) -> Result<NodeId> {
        match self.index.get(name) {
            Some(&id) => Ok(id),
            None => fail(key, Problem::UnknownNode(name.to_string())),
        }
    }

    /// Returns the node of this name, if it exists.
    pub fn known(&self, name: &Name) -> Option<NodeId> {
        self.index.get(name).copied()
    }

    /// Returns the wireless node of this name.
    pub fn wireless(&self, name: &Name, key: KeyPath) -> Result<NodeId> {
        let id = self.find(name, key.clone())?;
        if id.index() >= self.wireless {
            let what = format!("\"{name}\" is a wired host");
            return fail(key, Problem::refused(what, "a wireless node"));
        }
        Ok(id)
    }

    pub fn name(&self, id: NodeId) -> &str {
        &self.list[id.index()].name
    }
}

/// Returns the profile in force.
pub(super) fn profile(draft: &Draft, nodes: &Nodes) -> Result<Profile> {
    let graph = nodes.links.is_some();
    match draft.radio.profile {
        None if graph => Ok(Profile::Graph),
        None => Ok(Profile::Ns2),
        Some(Profile::Ns2 | Profile::LogDistance) if graph => fail(
            "radio.profile".into(),
            Problem::refused("explicit links have no distances", "`profile = \"graph\"`"),
        ),
        Some(profile) => Ok(profile),
    }
}

/// Returns the gateways as named, each once.
fn gateways(draft: &Draft, nodes: &Nodes) -> Result<Vec<NodeId>> {
    let t = &draft.topology;
    if t.gateway.is_some() && !t.gateways.is_empty() {
        let problem = Problem::refused("`gateway` and `gateways` together", "one of them");
        return fail("topology.gateways".into(), problem);
    }
    let mut list = Vec::new();
    for (name, key) in t.all_gateways() {
        let gateway = nodes.wireless(name, key.clone())?;
        if list.contains(&gateway) {
            let problem = Problem::refused(format!("\"{name}\" is named twice"), "each node once");
            return fail(key, problem);
        }
        list.push(gateway);
    }
    if list.len() > 1 && list.len() > u8::MAX as usize {
        let problem = Problem::range(format!("{} gateways", list.len()), "at most 255");
        return fail("topology.gateways".into(), problem);
    }
    Ok(list)
}
