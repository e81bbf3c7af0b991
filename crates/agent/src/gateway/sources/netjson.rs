//! NetJSON NetworkGraph (netjson.org, draft 0): nodes with their addresses.

use fairmesh_linux::MacAddr;
use serde_json::Value;

use super::{Found, Nodes};
use crate::gateway::config::prefix;

/// Reads a NetworkGraph. A node's name is its label, else its id; addresses are the id,
/// `local_addresses` and `properties.addresses` as far as they are some.
pub(super) fn read(text: &str) -> Result<Vec<Found>, String> {
    let root: Value = serde_json::from_str(text).map_err(|e| e.to_string())?;
    if root.get("type").and_then(Value::as_str) != Some("NetworkGraph") {
        return Err("not a NetJSON NetworkGraph".into());
    }
    let nodes = root.get("nodes").and_then(Value::as_array).ok_or("a graph without nodes")?;
    let mut out = Nodes::default();
    for node in nodes {
        let Some(id) = node.get("id").and_then(Value::as_str) else { continue };
        let label = node.get("label").and_then(Value::as_str).filter(|l| !l.trim().is_empty());
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
