//! OLSR's jsoninfo: `/routes`, `/hna` and `/mid`.

use std::collections::BTreeMap;
use std::net::IpAddr;

use fairmesh_linux::IpNet;
use serde_json::Value;

use super::{NextNode, Nodes, Omission, Reading, SourceError};

/// Cost of a broken route (ROUTE_COST_BROKEN of olsrd).
const BROKEN_ROUTE_COST: u64 = 0xffff_ffff;

fn body(text: &str) -> &str {
    match text.find(['{', '[']) {
        Some(start) => &text[start..],
        None => "",
    }
}

fn address(entry: &Value, key: &str) -> Option<IpAddr> {
    entry.get(key)?.as_str()?.parse().ok()
}

/// Returns network and length of an entry.
fn net(entry: &Value) -> Option<IpNet> {
    let length = entry.get("genmask").or_else(|| entry.get("genMask"))?.as_u64()?;
    IpNet::new(address(entry, "destination")?, u8::try_from(length).ok()?).ok()
}

/// Returns a table of a response; empty if a daemon does not have it.
fn table(text: &str, key: &'static str) -> Result<Vec<Value>, SourceError> {
    let body = body(text);
    if body.is_empty() {
        return Ok(Vec::new());
    }
    let all = super::json(body)
        .map_err(|problem| SourceError::Table { table: key, problem: Box::new(problem) })?;
    Ok(all.get(key).and_then(Value::as_array).cloned().unwrap_or_default())
}

/// Main address of a router by its further addresses (RFC 3626 §5).
///
/// Multiple Interface Declarations give them.
struct MainAddresses(BTreeMap<IpAddr, IpAddr>);

impl MainAddresses {
    fn read(mid: &[Value]) -> Self {
        let one = |v: &Value| match v {
            Value::String(text) => text.parse().ok(),
            other => address(other, "ipAddress"),
        };
        let mut mains = BTreeMap::new();
        for entry in mid {
            // `main` in olsrd 0.9.7 and later, the entry's own address in earlier versions.
            let main = entry.get("main").and_then(one).or_else(|| address(entry, "ipAddress"));
            let Some(main) = main else { continue };
            let aliases = entry.get("aliases").and_then(Value::as_array);
            for alias in aliases.into_iter().flatten().filter_map(one) {
                // An address that two routers announce stays with the first.
                mains.entry(alias).or_insert(main);
            }
        }
        MainAddresses(mains)
    }

    fn of(&self, address: IpAddr) -> IpAddr {
        self.0.get(&address).copied().unwrap_or(address)
    }
}

/// Returns a node per router with the host routes to its addresses.
///
/// Networks belong to the router that announces them.
pub(super) fn read(routes: &str, hna: &str, mid: &str) -> Result<Reading, SourceError> {
    let routes = super::json(body(routes))?;
    let routes = routes.get("routes").and_then(Value::as_array).ok_or(SourceError::NoRoutes)?;
    let mains = MainAddresses::read(&table(mid, "mid")?);
    let mut out = Nodes::default();
    for entry in routes {
        let Some(net) = net(entry) else {
            out.omit(Omission::Malformed);
            continue;
        };
        // Routes to networks are in `/hna` with the router that announces them.
        if net.prefix_len() != net.max_prefix_len() {
            continue;
        }
        if entry
            .get("rtpMetricCost")
            .and_then(Value::as_u64)
            .is_some_and(|c| c >= BROKEN_ROUTE_COST)
        {
            out.omit(Omission::Unreachable);
            continue;
        }
        let main = mains.of(net.addr());
        let Some(node) = out.node(&main.to_string()) else { continue };
        node.add_prefix(net);
        let hops = entry.get("metric").and_then(Value::as_u64);
        let hops = hops.and_then(|h| u32::try_from(h).ok()).filter(|h| (1..=64).contains(h));
        node.found.hops = [node.found.hops, hops].into_iter().flatten().min();
        // The route to the main address; those to further addresses may differ.
        if let Some(next) = address(entry, "gateway").filter(|_| net.addr() == main) {
            let next = mains.of(next);
            let direct = next == main || hops == Some(1);
            let first_hop = || NextNode::first_hop(&next.to_string(), hops);
            node.via = Some(if direct { NextNode::DIRECT } else { first_hop() });
        }
    }
    for entry in table(hna, "hna")? {
        let (Some(net), Some(gateway)) = (net(&entry), address(&entry, "gateway")) else {
            out.omit(Omission::Malformed);
            continue;
        };
        if let Some(node) = out.node(&mains.of(gateway).to_string()) {
            node.add_prefix(net);
        }
    }
    Ok(out.list())
}
