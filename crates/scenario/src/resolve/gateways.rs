//! `topology.gateway`, `topology.gateways`, `node.gateway`, and routes of several gateways.

use std::collections::BTreeSet;

use fairmesh_units::NodeId;

use super::nodes::Nodes;
use super::{Result, fail};
use crate::draft::Draft;
use crate::error::{KeyPath, Problem};
use crate::routing::{Graph, Router, UNREACHABLE};
use crate::scenario::{Gateways, NodeKind, Wire};

/// Graphs for routing.
///
/// One graph holds all links and wires. With several gateways, the mesh and the wires behind it are
/// also kept separately, because hosts of the wired world do not carry the mesh's traffic from one
/// gateway to another.
pub(super) struct Routes {
    /// Links and wires.
    pub all: Graph,
    apart: Option<SplitGraph>,
    pub gateways: Gateways,
}

struct SplitGraph {
    /// Without the hosts behind the gateways.
    mesh: Graph,
    /// Only these hosts, the gateways, and the wires between them.
    behind: Graph,
    outside: BTreeSet<NodeId>,
}

impl Routes {
    /// Builds the graphs from `edges`: all links and wires, with their costs.
    pub fn build(
        draft: &Draft,
        nodes: &Nodes,
        wires: &[Wire],
        edges: &[(NodeId, NodeId, u64)],
    ) -> Result<Self> {
        let all = Graph::new(nodes.list.len(), edges);
        let list = nodes.gateways.clone();
        if list.len() < 2 {
            refuse_needless_names(draft, nodes, &list)?;
            let gateways = list.first().map_or_else(Gateways::default, |&g| Gateways::one(g));
            return Ok(Routes { all, apart: None, gateways });
        }
        let outside = behind(nodes, wires, &list);
        let part = |keep: &dyn Fn(NodeId) -> bool| {
            let own = edges.iter().copied().filter(|&(a, b, _)| keep(a) && keep(b));
            own.collect::<Vec<_>>()
        };
        let mesh = Graph::new(nodes.list.len(), &part(&|n| !outside.contains(&n)));
        let joins = |&(a, b, _): &(NodeId, NodeId, u64)| {
            outside.contains(&a) && (outside.contains(&b) || list.contains(&b))
                || outside.contains(&b) && list.contains(&a)
        };
        let wired: Vec<_> = edges.iter().copied().filter(joins).collect();
        let behind = Graph::new(nodes.list.len(), &wired);
        let of = assign(draft, nodes, &mesh, &outside, &list)?;
        let gateways = Gateways::several(list, of);
        Ok(Routes { all, apart: Some(SplitGraph { mesh, behind, outside }), gateways })
    }

    pub fn finder(&self) -> Finder<'_> {
        let apart = self.apart.as_ref();
        Finder {
            routes: self,
            all: Router::new(&self.all),
            apart: apart.map(|a| (a, Router::new(&a.mesh), Router::new(&a.behind))),
        }
    }
}

/// Path search.
pub(super) struct Finder<'a> {
    routes: &'a Routes,
    all: Router<'a>,
    apart: Option<(&'a SplitGraph, Router<'a>, Router<'a>)>,
}

impl Finder<'_> {
    /// Returns the path between two different nodes, both included.
    ///
    /// `hub` is the end that more flows share. With several gateways, traffic leaves the mesh at
    /// the gateway of its mesh node.
    pub fn path(&mut self, from: NodeId, to: NodeId, hub: NodeId) -> Option<Vec<NodeId>> {
        let Some((apart, mesh, behind)) = &mut self.apart else {
            return self.all.path(from, to, hub);
        };
        let (out, back) = (apart.outside.contains(&to), apart.outside.contains(&from));
        let inner = if out { from } else { to };
        if out == back {
            let within = if out { None } else { mesh.path(from, to, hub) };
            return within.or_else(|| self.all.path(from, to, hub));
        }
        let gateway = self.routes.gateways.of(inner)?;
        let outer = if out { to } else { from };
        let wired = behind.path(gateway, outer, outer)?;
        let air = match inner == gateway {
            true => vec![gateway],
            false => mesh.path(inner, gateway, gateway)?,
        };
        let way = air.into_iter().chain(wired.into_iter().skip(1));
        let mut way: Vec<NodeId> = way.collect();
        if !out {
            // Ties between links are decided at every node of the path, so the mesh's part is
            // computed again.
            way.reverse();
            if inner != gateway {
                let at = way.iter().position(|&n| n == gateway)?;
                way.truncate(at);
                way.extend(mesh.path(gateway, inner, gateway)?);
            }
        }
        Some(way)
    }
}

/// Returns hosts connected to a gateway by wires without a mesh node in between.
fn behind(nodes: &Nodes, wires: &[Wire], gateways: &[NodeId]) -> BTreeSet<NodeId> {
    let mut found = BTreeSet::new();
    let mut todo = gateways.to_vec();
    while let Some(at) = todo.pop() {
        for w in wires {
            let next = match () {
                () if w.a == at => w.b,
                () if w.b == at => w.a,
                () => continue,
            };
            if nodes.list[next.index()].kind == NodeKind::Wired && found.insert(next) {
                todo.push(next);
            }
        }
    }
    found
}

/// Returns by node the gateway that it names, otherwise the nearest, the first on a tie.
fn assign(
    draft: &Draft,
    nodes: &Nodes,
    mesh: &Graph,
    outside: &BTreeSet<NodeId>,
    list: &[NodeId],
) -> Result<Vec<Option<NodeId>>> {
    let far: Vec<Vec<u64>> = list.iter().map(|g| mesh.distances(g.0)).collect();
    let nearest = |n: usize| {
        let best = (0..list.len()).min_by_key(|&g| (far[g][n], g))?;
        (far[best][n] != UNREACHABLE).then_some(list[best])
    };
    let inside = |n: usize| !outside.contains(&NodeId(n as u32));
    let mut of: Vec<Option<NodeId>> =
        (0..nodes.list.len()).map(|n| if inside(n) { nearest(n) } else { None }).collect();
    for (i, node) in draft.node.iter().enumerate() {
        let Some(name) = &node.gateway else { continue };
        let key = KeyPath::from("node").index(i).key("gateway");
        let (at, wanted) = (nodes.find(&node.id, key.clone())?, nodes.find(name, key.clone())?);
        let names: Vec<&str> = list.iter().map(|&g| nodes.name(g)).collect();
        let expected = format!("one of `topology.gateways`: {}", names.join(", "));
        let Some(g) = list.iter().position(|&g| g == wanted) else {
            return fail(key, Problem::refused(format!("\"{name}\" is not a gateway"), expected));
        };
        if outside.contains(&at) {
            let what = format!("\"{}\" is a host behind the gateways", node.id);
            return fail(key, Problem::refused(what, "`gateway` at nodes of the mesh"));
        }
        if list.contains(&at) && at != wanted {
            let what = format!("\"{}\" is a gateway itself", node.id);
            return fail(key, Problem::refused(what, "no `gateway` there"));
        }
        if far[g][at.index()] == UNREACHABLE {
            let (from, to) = (node.id.to_string(), name.to_string());
            return fail(key, Problem::Unreachable { from, to });
        }
        of[at.index()] = Some(wanted);
    }
    Ok(of)
}

/// Refuses `node.gateway` if there is at most one gateway.
fn refuse_needless_names(draft: &Draft, nodes: &Nodes, list: &[NodeId]) -> Result<()> {
    for (i, node) in draft.node.iter().enumerate() {
        let Some(name) = &node.gateway else { continue };
        let key = KeyPath::from("node").index(i).key("gateway");
        if list.first() != Some(&nodes.find(name, key.clone())?) {
            let what = format!("\"{name}\" is not a gateway");
            return fail(key, Problem::refused(what, "one of `topology.gateways`"));
        }
    }
    Ok(())
}
