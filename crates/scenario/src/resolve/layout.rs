//! Layouts: chains, grids, trees, random networks, cells, positions and links.

use std::collections::BTreeSet;

use fairmesh_units::Distance;

use super::places::{MAX_COORDINATE_M, USUAL_DECODE, place};
use super::{MAX_NODES, Result, fail};
use crate::draft::{Draft, LinkDraft, LinkEntry, NodeDraft, TopologyDraft};
use crate::error::{KeyPath, Problem, ScenarioError};
use crate::generate;
use crate::name::Name;
use crate::neighbours::Place;
use crate::scenario::NodeKind;

/// Result of a layout.
pub(super) struct Layout {
    pub names: Vec<Name>,
    pub places: Vec<Place>,
    pub links: Option<Vec<LinkDraft>>,
}

/// Distance between neighbours of chains and grids, Jamshaid 2010 §3.1.2.
const USUAL_SPACING: Distance = Distance(200.0);
/// Refuses more nodes than the limit.
pub(super) fn count(nodes: u64, key: &str) -> Result<()> {
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

impl Layout {
    pub fn build(draft: &Draft) -> Result<Self> {
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
                if extent.0 > MAX_COORDINATE_M {
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

    /// Adds nodes that only `[[node]]` names.
    fn add_single_nodes(&mut self, draft: &Draft) -> Result<()> {
        let known: BTreeSet<Name> = self.names.iter().cloned().collect();
        let single = |n: &&NodeDraft| n.kind == NodeKind::Wireless && !known.contains(&n.id);
        let singles: Vec<&NodeDraft> = draft.node.iter().filter(single).collect();
        if draft.topology.links.is_some() {
            // Words keep the order of their first appearance in the file.
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
            // Checked again, with its key, when the node is created.
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

/// Returns names in order of appearance.
fn graph(links: Vec<LinkDraft>) -> Layout {
    let mut seen = BTreeSet::new();
    let ends = links.iter().flat_map(|l| [&l.from, &l.to]);
    let names = ends.filter(|&n| seen.insert(n.clone())).cloned().collect();
    Layout { names, places: Vec::new(), links: Some(links) }
}

/// Returns Mancuso 2010's names of S and M nodes; deeper ones by level.
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
