//! OLSR's jsoninfo plugin: `/routes` and `/hna`, behind HTTP headers or bare.

use std::net::IpAddr;

use fairmesh_linux::IpNet;
use serde_json::Value;

use super::{Found, Nodes};

fn body(text: &str) -> &str {
    match text.find(['{', '[']) {
        Some(start) => &text[start..],
        None => "",
    }
}

fn address(entry: &Value, key: &str) -> Option<IpAddr> {
    entry.get(key)?.as_str()?.parse().ok()
}

/// Network and length of an entry.
fn net(entry: &Value) -> Option<IpNet> {
    let length = entry.get("genmask").or_else(|| entry.get("genMask"))?.as_u64()?;
    IpNet::new(address(entry, "destination")?, u8::try_from(length).ok()?).ok()
}

/// A node per host route; networks belong to the node that announces them.
pub(super) fn read(routes: &str, hna: &str) -> Result<Vec<Found>, String> {
    let routes = super::json(body(routes))?;
    let list = |v: &Value, key: &str| v.get(key).and_then(Value::as_array).cloned();
    let routes = list(&routes, "routes").ok_or("an answer without \"routes\"")?;
    let mut out = Nodes::default();
    for entry in &routes {
        let Some(net) = net(entry).filter(|n| n.prefix_len() == n.max_prefix_len()) else {
            continue;
        };
        let Some(found) = out.node(&net.addr().to_string()) else { continue };
        found.add_prefix(net);
        let hops = entry.get("metric").and_then(Value::as_u64);
        found.hops = hops.and_then(|h| u32::try_from(h).ok()).filter(|h| (1..=64).contains(h));
    }
    let hna = super::json(body(hna)).unwrap_or(Value::Null);
    for entry in list(&hna, "hna").unwrap_or_default() {
        let (Some(net), Some(gateway)) = (net(&entry), address(&entry, "gateway")) else {
            continue;
        };
        if let Some(found) = out.node(&gateway.to_string()) {
            found.add_prefix(net);
        }
    }
    Ok(out.list())
}
