//! batman-adv as `batctl meshif … originators_json` and `transglobal_json` print it.

use fairmesh_linux::MacAddr;
use serde_json::Value;

use super::{Found, Nodes};

fn mac(entry: &Value, key: &str) -> Option<MacAddr> {
    entry.get(key)?.as_str()?.parse().ok()
}

/// A node per originator, with the clients that it announces.
pub(super) fn read(originators: &str, clients: &str) -> Result<Vec<Found>, String> {
    let originators: Vec<Value> = serde_json::from_str(originators).map_err(|e| e.to_string())?;
    let clients: Vec<Value> = serde_json::from_str(clients).unwrap_or_default();
    let mut out = Nodes::default();
    for entry in &originators {
        let Some(address) = mac(entry, "orig_address") else { continue };
        let Some(found) = out.node(&address.to_string()) else { continue };
        found.add_mac(address);
        // Whoever is its own next hop is one hop away; more is not known here.
        if entry.get("best").and_then(Value::as_bool) == Some(true)
            && mac(entry, "neigh_address") == Some(address)
        {
            found.hops = Some(1);
        }
    }
    for entry in &clients {
        let (Some(client), Some(address)) =
            (mac(entry, "client_address"), mac(entry, "orig_address"))
        else {
            continue;
        };
        if let Some(found) = out.node(&address.to_string()) {
            found.add_mac(client);
        }
    }
    Ok(out.list())
}
