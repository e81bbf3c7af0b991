//! NetJSON NetworkGraph (netjson.org, draft 0): nodes with their addresses.

use std::collections::BTreeMap;

use fairmesh_linux::MacAddr;
use serde_json::Value;

use super::{Found, Nodes};
use crate::gateway::config::prefix;

/// Reads a NetworkGraph. A node's name is its label, else its id; so it is where several have one
/// label, or a node could pass for another by its choice of words. Addresses are the id,
/// `local_addresses` and `properties.addresses` as far as they are some.
pub(super) fn read(text: &str) -> Result<Vec<Found>, String> {
    let root = super::json(text)?;
    if root.get("type").and_then(Value::as_str) != Some("NetworkGraph") {
        return Err("not a NetJSON NetworkGraph".into());
    }
    let nodes = root.get("nodes").and_then(Value::as_array).ok_or("a graph without nodes")?;
    let mut out = Nodes::default();
    let word = |node: &Value, key: &str| node.get(key)?.as_str().map(|w| w.trim().to_owned());
    let mut names: BTreeMap<String, u32> = BTreeMap::new();
    for name in nodes.iter().flat_map(|n| [word(n, "label"), word(n, "id")]).flatten() {
        *names.entry(name).or_default() += 1;
    }
    for node in nodes {
        let Some(id) = node.get("id").and_then(Value::as_str) else { continue };
        let label = node.get("label").and_then(Value::as_str).map(str::trim);
        let alone = |l: &&str| !l.is_empty() && (*l == id.trim() || names.get(*l) == Some(&1));
        let label = label.filter(alone);
        let Some(found) = out.node(label.unwrap_or(id)) else { continue };
        let list = |v: Option<&Value>| v.and_then(Value::as_array).cloned().unwrap_or_default();
        let more = list(node.get("local_addresses"));
        let own = list(node.get("properties").and_then(|p| p.get("addresses")));
        let texts = more.iter().chain(&own).filter_map(Value::as_str);
        for address in core::iter::once(id).chain(texts) {
            if let Ok(mac) = address.parse::<MacAddr>() {
                found.add_mac(mac);
            } else if let Some(net) = prefix(address) {
                found.add_prefix(net);
            }
        }
    }
    Ok(out.list())
}
