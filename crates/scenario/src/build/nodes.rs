//! Which nodes there are, and where.

use std::collections::{BTreeMap, BTreeSet};

use fairmesh_units::{Distance, NodeId};

use super::kinds::{self, Kind};
use super::{MAX_NODES, Result, fail, gateways};
use crate::draft::{Draft, LinkDraft, LinkEntry, NodeDraft, Profile, TopologyDraft};
use crate::error::{KeyPath, Problem, ScenarioError};
use crate::generate;
use crate::name::Name;
use crate::neighbours::Place;
use crate::scenario::{Node, NodeKind};

/// The nodes: wireless ones first.
pub(super) struct Nodes {
    pub list: Vec<Node>,
    /// How many of them are wireless nodes; their further radios follow.
    pub devices: usize,
    /// How many are wireless: nodes and further radios.
    pub wireless: usize,
    /// By wireless node: its radios, by place among the kinds, each with the station that it is. The first is the node.
    pub radios: Vec<Vec<(usize, NodeId)>>,
    /// As named, each once.
    pub gateways: Vec<NodeId>,
    /// Links given or generated, where the topology is a graph; otherwise positions make them.
    pub links: Option<Vec<LinkDraft>>,
    index: BTreeMap<Name, NodeId>,
}

/// What a layout makes.
struct Layout {
    names: Vec<Name>,
    places: Vec<Place>,
    links: Option<Vec<LinkDraft>>,
}

/// Distance between neighbours of chains and grids, Jamshaid 2010 §3.1.2.
const USUAL_SPACING: Distance = Distance(200.0);
/// Range of ns-2's radio.
pub(super) const USUAL_DECODE: Distance = Distance(250.0);
/// Coordinates stay below this, m: differences and squares remain exact enough.
const FARTHEST: f64 = 1e7;

/// Checks a position.
pub(super) fn place([x, y]: [f64; 2], key: KeyPath) -> Result<Place> {
    for v in [x, y] {
        if !v.is_finite() || v.abs() > FARTHEST {
            return fail(key, Problem::range(v, "coordinates in metres, at most 10000 km"));
        }
    }
    Ok((x, y))
}

fn count(nodes: u64, key: &str) -> Result<()> {
    if nodes > MAX_NODES {
        return fail(key.into(), Problem::TooManyNodes { nodes, most: MAX_NODES });
    }
    Ok(())
}

fn positive(number: u32, key: &str) -> Result<u32> {
    if number == 0 {
        return fail(key.into(), Problem::range(number, "at least 1"));
    }
    Ok(number)
}

fn spacing(given: Option<Distance>, key: &str) -> Result<Distance> {
    let spacing = given.unwrap_or(USUAL_SPACING);
    if !(spacing.0 > 0.0 && spacing.0 <= 1e5) {
        return fail(key.into(), Problem::range(spacing, "above 0 m, at most 100 km"));
    }
    Ok(spacing)
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
        nodes.gateways = gateways::list(draft, &nodes)?;
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
                // hostapd's scale ends at 65535 of 256.
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

    /// Further radios are stations of their own, at the place of their node.
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

    /// The stations of one node.
    pub fn stations(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        let radios = self.radios.get(node.index()).map_or(&[][..], Vec::as_slice);
        let host = radios.is_empty().then_some(node);
        radios.iter().map(|r| r.1).chain(host)
    }

    /// The kinds of radio that two nodes have in common, in the order of the kinds.
    pub fn common(&self, a: NodeId, b: NodeId) -> impl Iterator<Item = usize> + '_ {
        let mut kinds: Vec<usize> =
            self.radios.get(a.index()).into_iter().flatten().map(|r| r.0).collect();
        kinds.sort_unstable();
        kinds.into_iter().filter(move |&k| self.station(b, k).is_some())
    }

    /// The station that is a node's radio of some kind.
    pub fn station(&self, node: NodeId, kind: usize) -> Option<NodeId> {
        let radios = self.radios.get(node.index())?;
        radios.iter().find(|r| r.0 == kind).map(|r| r.1)
    }

    /// The node of a station, or of a wired host.
    pub fn device(&self, station: NodeId) -> Option<NodeId> {
        let node = self.list.get(station.index())?;
        Some(node.of.unwrap_or(station))
    }

    /// Stations of one node, each with the node: what joins them takes no time.
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

    /// The node of this name.
    pub fn find(&self, name: &Name, key: KeyPath) -> Result<NodeId> {
        match self.index.get(name) {
            Some(&id) => Ok(id),
            None => fail(key, Problem::UnknownNode(name.to_string())),
        }
    }

    /// The node of this name, if there is one.
    pub fn known(&self, name: &Name) -> Option<NodeId> {
        self.index.get(name).copied()
    }

    /// The wireless node of this name.
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

impl Layout {
    fn build(draft: &Draft) -> Result<Self> {
        let t = &draft.topology;
        let given = [
            ("chain", t.chain.is_some()),
            ("grid", t.grid.is_some()),
            ("random", t.random.is_some()),
            ("tree", t.tree.is_some()),
            ("cell", t.cell.is_some()),
            ("positions", t.positions.is_some()),
            ("links", t.links.is_some()),
        ];
        let mut kinds = given.iter().filter(|g| g.1).map(|g| g.0);
        if let (Some(a), Some(b)) = (kinds.next(), kinds.next()) {
            let problem = Problem::refused(format!("`{a}` and `{b}` together"), "one layout");
            return fail(KeyPath::from("topology").key(b), problem);
        }
        let mut layout = Layout::of(draft, t)?;
        layout.add_single_nodes(draft)?;
        Ok(layout)
    }

    fn of(draft: &Draft, t: &TopologyDraft) -> Result<Self> {
        let placed = |places: Vec<Place>| Layout {
            names: (0..places.len()).map(Name::from).collect(),
            places,
            links: None,
        };
        if let Some(c) = &t.chain {
            count(u64::from(c.hops) + 1, "topology.chain.hops")?;
            positive(c.hops, "topology.chain.hops")?;
            return Ok(placed(generate::chain(
                c.hops,
                spacing(c.spacing, "topology.chain.spacing")?,
            )));
        }
        if let Some(g) = &t.grid {
            count(u64::from(g.rows) * u64::from(g.columns), "topology.grid")?;
            positive(g.rows, "topology.grid.rows")?;
            positive(g.columns, "topology.grid.columns")?;
            let spacing = spacing(g.spacing, "topology.grid.spacing")?;
            return Ok(placed(generate::grid(g.rows, g.columns, spacing)));
        }
        if let Some(r) = &t.random {
            count(u64::from(r.nodes), "topology.random.nodes")?;
            positive(r.nodes, "topology.random.nodes")?;
            let height = r.height.unwrap_or(r.width);
            for (key, extent) in [("width", r.width), ("height", height)] {
                if extent.0 > FARTHEST {
                    let key = KeyPath::from("topology.random").key(key);
                    return fail(key, Problem::range(extent, "at most 10000 km"));
                }
            }
            let range = draft.radio.decode.unwrap_or(USUAL_DECODE);
            let connected = r.connected.unwrap_or(true).then_some(range);
            return generate::random(r.nodes, (r.width, height), r.seed.unwrap_or(1), connected)
                .map(placed)
                .map_err(|attempts| {
                    let key = "topology.random".into();
                    ScenarioError::at(key, Problem::NotConnected { attempts })
                });
        }
        if let Some(places) = &t.positions {
            count(places.len() as u64, "topology.positions")?;
            let key = |i| KeyPath::from("topology.positions").index(i);
            let places = places.iter().enumerate().map(|(i, &p)| place(p, key(i)));
            return Ok(placed(places.collect::<Result<_>>()?));
        }
        if let Some(tree) = &t.tree {
            let depth = positive(tree.depth.unwrap_or(2), "topology.tree.depth")?;
            let branches = positive(tree.branches, "topology.tree.branches")?;
            count(1 + u64::from(branches) * u64::from(depth), "topology.tree")?;
            let mut links = tree_links(branches, depth);
            if tree.meshed {
                count(u64::from(branches) * u64::from(branches), "topology.tree.branches")?;
                let first: Vec<Name> = (1..=branches).map(|b| branch_name(1, b)).collect();
                let pairs = first.iter().enumerate();
                links.extend(pairs.flat_map(|(i, a)| first[i + 1..].iter().map(|b| link(a, b))));
            }
            return Ok(graph(links));
        }
        if let Some(cell) = &t.cell {
            let stations = positive(cell.stations, "topology.cell.stations")?;
            // Every pair is a link.
            count(u64::from(stations) * u64::from(stations), "topology.cell.stations")?;
            return Ok(graph(cell_links(stations)));
        }
        if let Some(entries) = &t.links {
            return explicit(entries);
        }
        Ok(placed(Vec::new()))
    }

    /// Nodes that only `[[node]]` names.
    fn add_single_nodes(&mut self, draft: &Draft) -> Result<()> {
        let known: BTreeSet<Name> = self.names.iter().cloned().collect();
        let single = |n: &&NodeDraft| n.kind == NodeKind::Wireless && !known.contains(&n.id);
        let singles: Vec<&NodeDraft> = draft.node.iter().filter(single).collect();
        if draft.topology.links.is_some() {
            // Words keep the order in which the file introduces them.
            let named = draft.node.iter().filter(|n| n.kind == NodeKind::Wireless);
            let mut names: Vec<Name> = named.map(|n| n.id.clone()).collect();
            let first: BTreeSet<Name> = names.iter().cloned().collect();
            names.extend(self.names.drain(..).filter(|n| !first.contains(n)));
            names.sort_by(Name::rank);
            self.names = names;
            return Ok(());
        }
        let positional = self.links.is_none();
        for node in singles {
            let Some(position) = node.position.filter(|_| positional) else {
                let i = draft.node.iter().position(|n| n.id == node.id).unwrap_or(0);
                let key = KeyPath::from("node").index(i);
                let problem = if positional && self.names.is_empty() {
                    Problem::MissingKey("position".to_owned())
                } else {
                    return fail(key.key("id"), Problem::UnknownNode(node.id.to_string()));
                };
                return fail(key, problem);
            };
            self.names.push(node.id.clone());
            // Checked again, with its key, when the node is made.
            self.places.push((position[0], position[1]));
        }
        if positional && !self.names.is_empty() {
            let mut order: Vec<usize> = (0..self.names.len()).collect();
            order.sort_by(|&a, &b| self.names[a].rank(&self.names[b]));
            self.names = order.iter().map(|&i| self.names[i].clone()).collect();
            self.places = order.iter().map(|&i| self.places[i]).collect();
        }
        if draft.topology.all_gateways().next().is_some() && self.names.is_empty() {
            return fail("topology".into(), Problem::Nothing { what: "wireless node" });
        }
        Ok(())
    }
}

fn link(from: &Name, to: &Name) -> LinkDraft {
    LinkDraft::new(from.clone(), to.clone())
}

/// Names in order of appearance.
fn graph(links: Vec<LinkDraft>) -> Layout {
    let mut seen = BTreeSet::new();
    let ends = links.iter().flat_map(|l| [&l.from, &l.to]);
    let names = ends.filter(|&n| seen.insert(n.clone())).cloned().collect();
    Layout { names, places: Vec::new(), links: Some(links) }
}

/// Mancuso 2010's S and M nodes; deeper ones by level.
fn branch_name(level: u32, branch: u32) -> Name {
    match level {
        0 => Name::from("gw"),
        1 => Name::from(format!("s{branch}")),
        2 => Name::from(format!("m{branch}")),
        _ => Name::from(format!("t{level}.{branch}")),
    }
}

fn tree_links(branches: u32, depth: u32) -> Vec<LinkDraft> {
    (1..=depth)
        .flat_map(|level| (1..=branches).map(move |b| (level, b)))
        .map(|(level, b)| link(&branch_name(level - 1, b), &branch_name(level, b)))
        .collect()
}

fn cell_links(stations: u32) -> Vec<LinkDraft> {
    let name = |i: u32| if i == 0 { Name::from("ap") } else { Name::from(i as usize) };
    (0..stations)
        .flat_map(|a| (a + 1..=stations).map(move |b| (a, b)))
        .map(|(a, b)| link(&name(a), &name(b)))
        .collect()
}

fn explicit(entries: &[LinkEntry]) -> Result<Layout> {
    let mut links = Vec::with_capacity(entries.len());
    for (i, entry) in entries.iter().enumerate() {
        let entry = match entry {
            LinkEntry::Pair([a, b]) => link(a, b),
            LinkEntry::Table(t) => t.clone(),
        };
        if entry.from == entry.to {
            let key = KeyPath::from("topology.links").index(i);
            return fail(key, Problem::SelfLink(entry.from.to_string()));
        }
        links.push(entry);
    }
    let layout = graph(links);
    count(layout.names.len() as u64, "topology.links")?;
    Ok(layout)
}

/// The profile in force.
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
