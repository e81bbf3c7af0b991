//! The kernel's tables: routes and neighbours of `ip -json`, and paths of a mesh point.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use fairmesh_linux::nl80211::{MeshPath, Proxied};
use fairmesh_linux::{IpNet, MacAddr};
use serde_json::Value;

use super::{NextNode, Nodes, Omission, Reading, SourceError};
use crate::gateway::config::{RoutesBy, prefix};

fn entries(text: &str) -> Result<Vec<Value>, SourceError> {
    // `ip -json` prints nothing at all for an empty table.
    let text = if text.trim().is_empty() { "[]" } else { text };
    match super::json(text)? {
        Value::Array(list) => Ok(list),
        _ => Err(SourceError::NotAList),
    }
}

/// Returns address and Ethernet address of a reachable entry of the neighbour table.
fn neighbour(entry: &Value) -> Result<(IpAddr, MacAddr), Omission> {
    let word = |key: &str| entry.get(key).and_then(Value::as_str);
    let dead = entry.get("state").and_then(Value::as_array).is_some_and(|states| {
        states.iter().any(|s| matches!(s.as_str(), Some("FAILED" | "INCOMPLETE" | "NOARP")))
    });
    if dead {
        return Err(Omission::Unreachable);
    }
    let mac = word("lladdr").and_then(|m| m.parse::<MacAddr>().ok());
    let address = word("dst").and_then(|a| a.parse::<IpAddr>().ok());
    address.zip(mac).ok_or(Omission::Malformed)
}

/// Returns a node per station in the mesh interface's neighbour table, with its addresses.
///
/// `proxied`: on an 802.11s mesh point, the addresses behind others and their mesh points. There an address behind a
/// mesh point belongs to that one's node, and only a path has the distance.
pub(super) fn neighbours(text: &str, proxied: Option<&[Proxied]>) -> Result<Reading, SourceError> {
    let proxies: BTreeMap<MacAddr, MacAddr> =
        proxied.unwrap_or_default().iter().map(|p| (p.address, p.proxy)).collect();
    let mut out = Nodes::default();
    for entry in entries(text)? {
        let (address, mac) = match neighbour(&entry) {
            Ok(neighbour) => neighbour,
            Err(why) => {
                out.omit(why);
                continue;
            }
        };
        let owner = proxies.get(&mac).unwrap_or(&mac);
        if let Some(node) = out.node(&owner.to_string()) {
            // Only routing knows its routed prefixes; its Ethernet address covers the rest.
            node.add_mac(mac);
            node.add_prefix(IpNet::from(address));
            node.found.hops = proxied.is_none().then_some(1);
        }
    }
    Ok(out.list())
}

/// Returns a node per mesh point that a path in use leads to, with the addresses behind it.
pub(super) fn paths(paths: &[MeshPath], proxied: &[Proxied]) -> Reading {
    let mut out = Nodes::default();
    for path in paths {
        if !path.active {
            out.omit(Omission::Unreachable);
        } else if let Some(node) = out.node(&path.destination.to_string()) {
            node.add_mac(path.destination);
            let hops = path.hops.map(u32::from).filter(|hops| (1..=64).contains(hops));
            node.found.hops = hops;
            let direct = path.next_hop == path.destination;
            let first_hop = || NextNode::first_hop(&path.next_hop.to_string(), hops);
            node.via = Some(if direct { NextNode::DIRECT } else { first_hop() });
        }
    }
    for behind in proxied {
        match out.known(&behind.proxy.to_string()) {
            Some(node) => node.add_mac(behind.address),
            None => out.omit(Omission::Unreachable),
        }
    }
    out.list()
}

/// Protocols of routing daemons: names and numbers in `ip route` (iproute2's rt_protos).
///
/// Their next hop is the first router on the path, not the home at its end.
const DAEMONS: [&str; 14] = [
    "babel", "42", "olsr", "100", "bird", "zebra", "ospf", "isis", "rip", "bgp", "eigrp", "openr",
    "bmx", "gated",
];

/// Identity of a home: Ethernet address or IP address of its router, else its prefix.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Home {
    Mac(MacAddr),
    NextHop(IpAddr),
    Alone(IpNet),
}

/// Returns the Ethernet address that a link-local address contains (RFC 4291 Appendix A).
fn eui64(address: IpAddr) -> Option<MacAddr> {
    let IpAddr::V6(a) = address else { return None };
    let o = a.octets();
    let of_mac = o[..2] == [0xfe, 0x80] && o[11..13] == [0xff, 0xfe];
    of_mac.then(|| MacAddr([o[8] ^ 2, o[9], o[10], o[13], o[14], o[15]]))
}

/// Returns a subscriber per home that unicast routes over the mesh interface lead to.
///
/// The default route and the link's own routes lead to none. `neighbours` is the neighbour table, which shows the next
/// hops that are one router.
pub(super) fn routes(
    texts: &[&str],
    neighbours: &str,
    by: RoutesBy,
) -> Result<Reading, SourceError> {
    let macs: BTreeMap<IpAddr, MacAddr> =
        entries(neighbours)?.iter().filter_map(|e| neighbour(e).ok()).collect();
    let mut out = Nodes::default();
    let mut homes: BTreeMap<Home, (BTreeSet<IpAddr>, Vec<IpNet>)> = BTreeMap::new();
    // A daemon's next hop is a neighbour; that of another route may be any router of a mesh on layer 2.
    let mut by_daemons = BTreeSet::new();
    for text in texts {
        for entry in entries(text)? {
            let word = |key: &str| entry.get(key).and_then(Value::as_str);
            let plain = word("type").is_none_or(|t| t == "unicast");
            if !plain {
                out.omit(Omission::NotUnicast);
                continue;
            }
            // Routes of the kernel itself are the gateway's own network.
            if word("protocol") == Some("kernel") {
                out.omit(Omission::Own);
                continue;
            }
            let Some(net) = word("dst").and_then(prefix) else {
                let default = word("dst") == Some("default");
                out.omit(if default { Omission::NoHost } else { Omission::Malformed });
                continue;
            };
            let by_daemon = word("protocol").is_some_and(|p| DAEMONS.contains(&p));
            let alone = match by {
                RoutesBy::NextHop => false,
                RoutesBy::Route => true,
                RoutesBy::Origin => by_daemon,
            };
            let on_link = (net.prefix_len() == net.max_prefix_len()).then(|| net.addr());
            let next = next_hop(&entry);
            let home = match next.or(on_link).filter(|_| !alone) {
                None => Home::Alone(net),
                Some(router) => match macs.get(&router).copied().or_else(|| eui64(router)) {
                    Some(mac) => Home::Mac(mac),
                    None => next.map_or(Home::Alone(net), Home::NextHop),
                },
            };
            if by_daemon {
                by_daemons.insert(home.clone());
            }
            let (routers, nets) = homes.entry(home).or_default();
            routers.extend(next);
            nets.push(net);
        }
    }
    let vias: BTreeMap<Home, NextNode> = by_daemons
        .into_iter()
        .map(|home| {
            let next = homes.get(&home).and_then(|(routers, _)| routers.first().copied());
            let via = match (&home, next) {
                (Home::Alone(net), Some(next)) if *net != IpNet::from(next) => {
                    let router = Home::Alone(IpNet::from(next));
                    let known = homes.contains_key(&router);
                    let name = if known { IpNet::from(next).to_string() } else { next.to_string() };
                    NextNode::first_hop(&name, None)
                }
                _ => NextNode::DIRECT,
            };
            (home, via)
        })
        .collect();
    for (home, (routers, nets)) in homes {
        let via = vias.get(&home).cloned();
        // The lowest address, if possible of IPv4.
        let router = routers.first().map(ToString::to_string);
        let own = nets.iter().min().map(ToString::to_string);
        let name = match home {
            Home::Alone(net) => Some(net.to_string()),
            Home::Mac(_) | Home::NextHop(_) => router.or(own),
        };
        if let Some(node) = name.and_then(|n| out.node(&n)) {
            nets.into_iter().for_each(|net| node.add_prefix(net));
            node.via = via;
        }
    }
    Ok(out.list())
}

/// Returns the next hop of a route, the first of several; `None` on the link itself.
fn next_hop(entry: &Value) -> Option<IpAddr> {
    let of = |v: &Value| {
        let via = v.get("via").and_then(|via| via.get("host"));
        v.get("gateway").or(via)?.as_str()?.parse().ok()
    };
    of(entry).or_else(|| entry.get("nexthops")?.as_array()?.first().and_then(of))
}
