//! batman-adv as `batctl meshif … originators_json` and `transtable_global_json` print it.
//!
//! The names of attributes are those of batctl's `genl_json.c`, since its release 2021.0.

use fairmesh_linux::MacAddr;
use serde_json::Value;

use super::{NextNode, Nodes, Omission, Reading, SourceError};

fn mac(entry: &Value, key: &str) -> Option<MacAddr> {
    entry.get(key)?.as_str()?.parse().ok()
}

/// True if a flag is set; an absent flag is not.
fn flag(entry: &Value, key: &str) -> bool {
    entry.get(key).and_then(Value::as_bool) == Some(true)
}

/// Returns a node per originator, with the clients that it announces.
///
/// Its own address is that of its radio, which no frame on the gateway's bat0 has: those have clients' addresses, and
/// the node's own bat0 is one of the clients.
pub(super) fn read(originators: &str, clients: &str) -> Result<Reading, SourceError> {
    let list = |text: &str| -> Result<Vec<Value>, SourceError> {
        match super::json(text)? {
            Value::Array(list) => Ok(list),
            _ => Err(SourceError::NotAList),
        }
    };
    let (originators, clients) = (list(originators)?, list(clients)?);
    let mut out = Nodes::default();
    for entry in &clients {
        let (Some(client), Some(address)) = (mac(entry, "tt_address"), mac(entry, "orig_address"))
        else {
            out.omit(Omission::Malformed);
            continue;
        };
        let going = entry.get("tt_flags").is_some_and(|flags| flag(flags, "del"));
        if going {
            out.omit(Omission::Unreachable);
        } else if !flag(entry, "best") {
            // A client that several announce is reached through the best of them.
            out.omit(Omission::Alternative);
        } else if let Some(node) = out.node(&address.to_string()) {
            node.add_mac(client);
        }
    }
    for entry in &originators {
        let Some(address) = mac(entry, "orig_address") else {
            out.omit(Omission::Malformed);
            continue;
        };
        let Some(node) = out.node(&address.to_string()) else { continue };
        // A node that is its own next hop is one hop away; other distances are unknown here.
        let next = mac(entry, "neigh_address").filter(|_| flag(entry, "best"));
        if next == Some(address) {
            node.found.hops = Some(1);
            node.via = Some(NextNode::DIRECT);
        } else if let Some(next) = next {
            node.via = Some(NextNode::first_hop(&next.to_string(), None));
        }
    }
    let reading = out.list();
    if reading.homes.is_empty() && !originators.is_empty() {
        return Err(SourceError::NoClients { originators: originators.len() });
    }
    Ok(reading)
}
