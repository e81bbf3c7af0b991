//! The kernel's own tables as `ip -json` prints them.

use std::net::IpAddr;

use fairmesh_linux::{IpNet, MacAddr};
use serde_json::Value;

use super::{Found, Nodes};
use crate::gateway::config::prefix;

fn entries(text: &str) -> Result<Vec<Value>, String> {
    // `ip -json` prints nothing at all where there is nothing.
    let text = if text.trim().is_empty() { "[]" } else { text };
    match super::json(text)? {
        Value::Array(list) => Ok(list),
        _ => Err("not a list".into()),
    }
}

/// A node per station in the neighbour table of the mesh interface, with all its addresses.
pub(super) fn neighbours(text: &str) -> Result<Vec<Found>, String> {
    let mut out = Nodes::default();
    for entry in entries(text)? {
        let word = |key: &str| entry.get(key).and_then(Value::as_str);
        let dead = entry.get("state").and_then(Value::as_array).is_some_and(|states| {
            states.iter().any(|s| matches!(s.as_str(), Some("FAILED" | "INCOMPLETE" | "NOARP")))
        });
        let Some(mac) = word("lladdr").and_then(|m| m.parse::<MacAddr>().ok()) else { continue };
        let Some(address) = word("dst").and_then(|a| a.parse::<IpAddr>().ok()) else { continue };
        if dead {
            continue;
        }
        if let Some(found) = out.node(&mac.to_string()) {
            // Its routed prefixes are known only to routing; its Ethernet address takes the rest.
            found.add_mac(mac);
            found.add_prefix(IpNet::from(address));
            found.hops = Some(1);
        }
    }
    Ok(out.list())
}

/// A subscriber per unicast route over the mesh interface, but the default and the link's own.
pub(super) fn routes(text: &str) -> Result<Vec<Found>, String> {
    let mut out = Nodes::default();
    for entry in entries(text)? {
        let word = |key: &str| entry.get(key).and_then(Value::as_str);
        let plain = word("type").is_none_or(|t| t == "unicast");
        // What the kernel itself put there is the gateway's own network.
        if !plain || word("protocol") == Some("kernel") {
            continue;
        }
        let Some(net) = word("dst").and_then(prefix) else { continue };
        if let Some(found) = out.node(&net.to_string()) {
            found.add_prefix(net);
        }
    }
    Ok(out.list())
}
