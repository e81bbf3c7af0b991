//! NetJSON NetworkGraph (netjson.org, draft 0): nodes with their addresses.

use std::collections::{BTreeMap, BTreeSet};

use fairmesh_linux::MacAddr;
use serde_json::Value;

use super::paths::Links;
use super::{NextNode, Nodes, Omission, Reading, SourceError};
use crate::gateway::config::prefix;

/// Largest nesting depth of collections.
const MAX_DEPTH: usize = 8;

/// Collects the graphs of a file: itself, or those of a NetworkCollection.
fn graphs<'a>(value: &'a Value, depth: usize, out: &mut Vec<&'a Value>) {
    match value.get("type").and_then(Value::as_str) {
        Some("NetworkGraph") => out.push(value),
        Some("NetworkCollection") if depth < MAX_DEPTH => {
            let members = value.get("collection").and_then(Value::as_array);
            members.into_iter().flatten().for_each(|m| graphs(m, depth + 1, out));
        }
        _ => {}
    }
}

fn word<'a>(node: &'a Value, key: &str) -> Option<&'a str> {
    node.get(key)?.as_str().map(str::trim).filter(|w| !w.is_empty())
}

fn property<'a>(node: &'a Value, key: &str) -> Option<&'a str> {
    word(node.get("properties")?, key)
}

fn is_address(text: &str) -> bool {
    text.parse::<MacAddr>().is_ok() || prefix(text).is_some()
}

/// Returns the prefix that a node stands for; `None` for a router.
///
/// OLSRv2 lists networks behind routers as nodes of type `lan` or `attached`, labelled by their prefix.
fn attached(node: &Value) -> Option<&str> {
    let own = word(node, "label").or_else(|| word(node, "id")?.rsplit('_').next())?;
    let net = prefix(own).filter(|_| own.contains('/'))?;
    let behind = property(node, "type").is_some_and(|t| matches!(t, "lan" | "attached"));
    (behind || net.prefix_len() < net.max_prefix_len()).then_some(own)
}

/// Returns the router that announces a prefix.
///
/// It is the router that the node names, else the one that a link joins it with.
fn owner<'a>(node: &'a Value, links: &BTreeMap<&str, &'a str>) -> Option<&'a str> {
    property(node, "router_id").or_else(|| links.get(word(node, "id")?).copied())
}

/// Reads a NetworkGraph, or the graphs of a NetworkCollection.
///
/// A node's name is its label, else its id. The id is also used if several nodes have one label: otherwise a node could
/// pass for another by its choice of a label. Addresses are the id (OLSRv2's without its `id_`), `local_addresses`, and
/// of the properties `addresses` and `router_addr`; a label is an address if the id is none. Prefixes that are nodes
/// belong to their router.
pub(super) fn read(text: &str) -> Result<Reading, SourceError> {
    let root = super::json(text)?;
    let mut all = Vec::new();
    graphs(&root, 0, &mut all);
    if all.is_empty() {
        return Err(SourceError::NotAGraph);
    }
    let mut out = Nodes::default();
    let mut routers = 0;
    for graph in all {
        routers += add(graph, &mut out)?;
    }
    let mut reading = out.list();
    reading.whole = true;
    if reading.homes.is_empty() && routers > 0 {
        return Err(SourceError::NoAddresses { nodes: routers });
    }
    Ok(reading)
}

/// Adds the paths from the router that wrote the graph; there are none if it is not named.
fn tree(graph: &Value, own: &BTreeSet<&str>, named: &BTreeMap<&str, String>, out: &mut Nodes) {
    let author = || word(graph, "router_id").filter(|id| named.contains_key(id));
    let Some(root) = own.first().copied().or_else(author) else { return };
    let mut links = Links::default();
    for link in graph.get("links").and_then(Value::as_array).into_iter().flatten() {
        let ends = [word(link, "source"), word(link, "target")];
        let known = |id: &&str| named.contains_key(id) || own.contains(id);
        let [Some(a), Some(b)] = ends.map(|id| id.filter(known)) else { continue };
        links.add(a, b, link.get("cost").map_or(Some(1.0), Value::as_f64).unwrap_or(f64::NAN));
    }
    for (id, before) in links.tree(root) {
        let Some(node) = named.get(id).and_then(|name| out.known(name)) else { continue };
        let via = named.get(before).filter(|_| before != root);
        let via = via.map(|name| NextNode { node: Some(name.clone()), exact: true });
        node.via = Some(via.unwrap_or(NextNode::DIRECT));
    }
}

/// Adds the nodes of a graph; returns its number of routers.
fn add(graph: &Value, out: &mut Nodes) -> Result<usize, SourceError> {
    let nodes = graph.get("nodes").and_then(Value::as_array).ok_or(SourceError::NoNodes)?;
    let mut names: BTreeMap<&str, u32> = BTreeMap::new();
    for name in nodes.iter().flat_map(|n| [word(n, "label"), word(n, "id")]).flatten() {
        *names.entry(name).or_default() += 1;
    }
    let mut joined = BTreeMap::new();
    let prefixes: BTreeSet<&str> =
        nodes.iter().filter(|n| attached(n).is_some()).filter_map(|n| word(n, "id")).collect();
    let links = graph.get("links").and_then(Value::as_array);
    for link in links.into_iter().flatten() {
        let (Some(a), Some(b)) = (word(link, "source"), word(link, "target")) else { continue };
        for (net, router) in [(a, b), (b, a)] {
            if prefixes.contains(net) {
                joined.entry(net).or_insert(router);
            }
        }
    }
    // Names by the ids of routers.
    let mut named: BTreeMap<&str, String> = BTreeMap::new();
    let mut own = BTreeSet::new();
    let mut routers = 0;
    for node in nodes.iter().filter(|n| attached(n).is_none()) {
        let Some(id) = word(node, "id") else {
            out.omit(Omission::Malformed);
            continue;
        };
        if property(node, "type") == Some("local") {
            // The router that wrote the graph: this gateway.
            own.insert(id);
            out.omit(Omission::Own);
            continue;
        }
        routers += 1;
        let alone = |l: &&str| *l == id || names.get(*l) == Some(&1);
        let label = word(node, "label").filter(alone);
        let Some(entry) = out.node(label.unwrap_or(id)) else { continue };
        named.insert(id, entry.found.name.clone());
        let list = |v: Option<&'_ Value>| -> Vec<String> {
            let all = v.and_then(Value::as_array);
            all.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let mut unread = 0;
        let mut addresses = vec![id.strip_prefix("id_").unwrap_or(id).to_owned()];
        if !is_address(&addresses[0]) {
            addresses.extend(label.map(str::to_owned));
        }
        // An id and a label may be plain names; the rest has to be addresses.
        let names = addresses.len();
        addresses.extend(property(node, "router_addr").map(str::to_owned));
        addresses.extend(list(node.get("local_addresses")));
        addresses.extend(list(node.get("properties").and_then(|p| p.get("addresses"))));
        for (i, address) in addresses.iter().enumerate() {
            if let Ok(mac) = address.parse::<MacAddr>() {
                entry.add_mac(mac);
            } else if let Some(net) = prefix(address) {
                entry.add_prefix(net);
            } else if i >= names {
                unread += 1;
            }
        }
        (0..unread).for_each(|_| out.omit(Omission::Malformed));
    }
    tree(graph, &own, &named, out);
    for node in nodes {
        let Some(net) = attached(node) else { continue };
        let router = owner(node, &joined);
        if router.is_some_and(|r| own.contains(r)) {
            out.omit(Omission::Own);
            continue;
        }
        let name = router.and_then(|r| named.get(r)).map(String::as_str);
        match (name.and_then(|n| out.known(n)), prefix(net)) {
            (Some(entry), Some(net)) => entry.add_prefix(net),
            _ => out.omit(Omission::NoRouter),
        }
    }
    Ok(routers)
}
