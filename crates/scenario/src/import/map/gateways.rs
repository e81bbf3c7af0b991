//! Choice of a map's gateways, and of the nodes with flows.

use super::names::Unresolved;
use super::{MAX_LISTED_NAMES, Map};
use crate::error::{Problem, ScenarioError};
use crate::import::graph::component_sizes;
use crate::import::{ImportOptions, Result};
use crate::name::Name;

/// Maximum number of candidates in an error.
const MAX_LISTED_CANDIDATES: usize = 4;

impl Map {
    /// Returns the requested gateways, each once; by default the map's own.
    pub(super) fn chosen(
        &mut self,
        options: &ImportOptions,
        around: &[Vec<usize>],
    ) -> Result<Vec<usize>> {
        let mut chosen = Vec::new();
        for wanted in &options.gateways {
            let wanted = wanted.trim();
            let refuse = |problem| Err(ScenarioError::at("gateway".into(), problem));
            match self.names.find(&Name::from(wanted)) {
                Err(Unresolved::Unknown) => {
                    let what = format!("there is no node \"{wanted}\"");
                    let expected = format!(
                        "the id, address or label of a node, such as {}",
                        self.candidates(around).join(", ")
                    );
                    return refuse(Problem::refused(what, expected));
                }
                Err(Unresolved::Ambiguous(a, b)) => {
                    let what = format!("\"{wanted}\" is a name of several nodes");
                    let (a, b) = (&self.nodes[a].id, &self.nodes[b].id);
                    let expected = format!("the id of one: \"{a}\" or \"{b}\"");
                    return refuse(Problem::refused(what, expected));
                }
                Ok(g) if chosen.contains(&g) => {
                    let what = format!("\"{wanted}\" is named twice");
                    return refuse(Problem::refused(what, "each gateway once"));
                }
                Ok(g) => chosen.push(g),
            }
        }
        if chosen.is_empty() {
            chosen.push(self.gateway(around)?);
        }
        Ok(chosen)
    }

    /// Returns ids of possible gateways: those marked by the map, then the nodes with most links.
    fn candidates(&self, around: &[Vec<usize>]) -> Vec<String> {
        let marked = self.gateways.iter().chain(&self.used_gateways).chain(&self.uplinks);
        let mut found: Vec<usize> = marked.filter_map(|n| self.names.find(n).ok()).collect();
        let mut others: Vec<usize> = (0..self.nodes.len()).collect();
        others.sort_by_key(|&i| core::cmp::Reverse(around[i].len()));
        found.extend(others);
        let mut seen = vec![false; self.nodes.len()];
        found.retain(|&i| !around[i].is_empty() && !core::mem::replace(&mut seen[i], true));
        found
            .iter()
            .take(MAX_LISTED_CANDIDATES)
            .map(|&i| format!("\"{}\"", self.nodes[i].id))
            .collect()
    }

    fn gateway(&mut self, around: &[Vec<usize>]) -> Result<usize> {
        let sizes = component_sizes(around);
        let best = |candidates: &mut dyn Iterator<Item = usize>| {
            candidates
                .filter(|&i| !around[i].is_empty())
                .max_by_key(|&i| (sizes[i], around[i].len(), core::cmp::Reverse(i)))
        };
        let known = |names: &[Name]| {
            let mut found: Vec<usize> =
                names.iter().filter_map(|n| self.names.find(n).ok()).collect();
            found.sort_unstable();
            found.dedup();
            found
        };
        // In order of certainty: the map's gateways, then the routers at the other end of their
        // tunnels (servers have no radio), then nodes with an uplink.
        let gateways = if self.gateways.is_empty() { &self.used_gateways } else { &self.gateways };
        let called = known(gateways);
        let mut behind = Vec::new();
        for (a, b) in &self.tunnels {
            for (server, router) in [(a, b), (b, a)] {
                if self.names.find(server).is_ok_and(|s| called.contains(&s)) {
                    behind.push(router.clone());
                }
            }
        }
        let ends = self.tunnels.iter().flat_map(|(a, b)| [a.clone(), b.clone()]);
        let uplinks: Vec<Name> = self.uplinks.iter().cloned().chain(ends).collect();
        let ways = [
            (called.clone(), "gateways"),
            (known(&behind), "nodes with a tunnel to a gateway"),
            (known(&uplinks), "nodes with a way out"),
        ];
        for (candidates, what) in ways {
            let Some(i) = best(&mut candidates.iter().copied()) else { continue };
            let name = &self.nodes[i].id;
            let others = candidates.iter().filter(|&&c| !around[c].is_empty()).count();
            if others > 1 {
                self.warnings.push(format!(
                    "the map has {others} {what}: \"{name}\", in the largest connected part with most links, was taken"
                ));
            } else if let (Some(&server), false) = (called.first(), called.contains(&i)) {
                let server = &self.nodes[server].id;
                self.warnings.push(format!(
                    "the map's gateway \"{server}\" has no radio link and no cable: \"{name}\" was taken"
                ));
            }
            return Ok(i);
        }
        let Some(i) = best(&mut (0..self.nodes.len())) else {
            return Err(ScenarioError::at("links".into(), Problem::Nothing { what: "radio link" }));
        };
        let name = &self.nodes[i].id;
        self.warnings.push(format!(
            "the map names no gateway: \"{name}\", the best connected node, was taken"
        ));
        Ok(i)
    }

    /// Returns the nodes with a flow, and a warning about nodes that cannot have one.
    pub(super) fn homes(
        &mut self,
        options: &ImportOptions,
        gateways: &[usize],
        hops: &[Option<u32>],
    ) -> Result<Vec<usize>> {
        let mut reachable: Vec<usize> =
            (0..self.nodes.len()).filter(|&i| hops[i].is_some_and(|h| h > 0)).collect();
        let lost: Vec<&str> = (0..self.nodes.len())
            .filter(|&i| hops[i].is_none())
            .map(|i| self.nodes[i].id.as_str())
            .collect();
        if !lost.is_empty() {
            let more = if lost.len() > MAX_LISTED_NAMES { ", …" } else { "" };
            let first = lost[..lost.len().min(MAX_LISTED_NAMES)].join(", ");
            self.warnings.push(format!(
                "{} of {} nodes cannot be reached from the gateway and get no flow: {first}{more}",
                lost.len(),
                self.nodes.len()
            ));
        }
        if reachable.is_empty() {
            let names: Vec<&str> = gateways.iter().map(|&g| self.nodes[g].id.as_str()).collect();
            let names = names.join("\", \"");
            let problem = Problem::refused(
                format!("no node can be reached from the gateway \"{names}\""),
                "a gateway with links to other nodes",
            );
            return Err(ScenarioError::at("gateway".into(), problem));
        }
        let wanted = options.flows.unwrap_or(reachable.len()).min(reachable.len());
        if wanted == 0 {
            return Err(ScenarioError::at("flows".into(), Problem::range(0, "at least one flow")));
        }
        reachable.sort_by_key(|&i| (hops[i], i));
        // From the nearest to the farthest, both included if there are at least two.
        let last = reachable.len() - 1;
        let pick = |k: usize| if wanted == 1 { last } else { k * last / (wanted - 1) };
        Ok((0..wanted).map(|k| reachable[pick(k)]).collect())
    }
}
