//! `[peers]`: the other gateways.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use fairmesh_control::{Ability, Mechanism};
use fairmesh_document::{KeyPath, Problem};

use super::refuse::{Result, fail, refused};
use super::{PEER_KEY_PATH, PEER_PORT, Peers, draft};
use crate::gateway::offers::SITE;
use crate::gateway::peers::NUMBERS;
use crate::key::NODE_KEY_PATH;

/// Most other gateways that a control receives from.
const MAX_PEERS: usize = 63;

pub(super) fn build(draft: &draft::Peers) -> Result<Peers> {
    let key = |name: &str| KeyPath::from("peers").key(name);
    let range =
        "1 to 65535, unique for each gateway: the active gateway with the smallest number decides";
    let Some(given) = draft.number else {
        return refused(
            KeyPath::from("peers"),
            "this gateway has no number",
            format!("number = {range}"),
        );
    };
    let number = match u32::try_from(given) {
        Ok(n) if NUMBERS.contains(&n) => n,
        _ => return fail(key("number"), Problem::range(given, range)),
    };
    let expected =
        "the addresses of the other gateways: peer = [\"192.0.2.2:5247\", \"[2001:db8::2]:5247\"]";
    if draft.peer.is_empty() {
        return refused(KeyPath::from("peers"), "there is no other gateway", expected);
    }
    if draft.peer.len() > MAX_PEERS {
        let problem = Problem::range(format!("{} peers", draft.peer.len()), format!("{MAX_PEERS}"));
        return fail(key("peer"), problem);
    }
    let six = draft.peer.iter().any(|p| p.ip().to_canonical().is_ipv6());
    let any = if six { IpAddr::from(Ipv6Addr::UNSPECIFIED) } else { Ipv4Addr::UNSPECIFIED.into() };
    let listen = draft.listen.unwrap_or(SocketAddr::new(any, PEER_PORT));
    if listen.port() == 0 || listen.ip().is_multicast() {
        let what = format!("{listen} is not an address that other gateways can reach");
        return refused(
            key("listen"),
            what,
            "an address of this gateway with a port, \"192.0.2.1:5247\"",
        );
    }
    let mut peers: Vec<SocketAddr> = Vec::with_capacity(draft.peer.len());
    for (i, given) in draft.peer.iter().enumerate() {
        let at = || key("peer").index(i);
        let address = SocketAddr::new(given.ip().to_canonical(), given.port());
        let ip = address.ip();
        let not_unicast = ip.is_unspecified() || ip.is_multicast() || ip == Ipv4Addr::BROADCAST;
        if not_unicast || address.port() == 0 {
            let what = format!("{given} is not the address of a single gateway");
            return refused(at(), what, "address and port, \"192.0.2.2:5247\"");
        }
        if peers.contains(&address) {
            return refused(at(), format!("{given} is listed twice"), "each gateway once");
        }
        let own = SocketAddr::new(listen.ip().to_canonical(), listen.port());
        if address == own {
            return refused(
                at(),
                format!("{given} is the address of this gateway"),
                "the address of another gateway",
            );
        }
        // An IPv6 socket bound to one address reaches no IPv4 address, and vice versa.
        let family = own.ip().is_ipv4() == ip.is_ipv4() || listen.ip() == Ipv6Addr::UNSPECIFIED;
        if !family {
            let what = format!("{given} cannot be reached from {listen} (peers.listen)");
            let expected = format!("addresses of one kind, or listen = \"[::]:{}\"", listen.port());
            return refused(at(), what, expected);
        }
        peers.push(address);
    }
    let file = match &draft.key {
        Some(file) if !file.is_absolute() => {
            return refused(key("key"), format!("\"{}\"", file.display()), "an absolute path");
        }
        Some(file) => file.clone(),
        None => PathBuf::from(PEER_KEY_PATH),
    };
    Ok(Peers { number, listen, peers, key: file })
}

/// Returns the key of orders to routers, if the control sends orders.
pub(super) fn agents(
    mechanism: &Mechanism,
    draft: Option<&draft::Agents>,
) -> Result<Option<PathBuf>> {
    let orders = mechanism.needs(&SITE).is_some_and(|needs| needs.abilities.has(Ability::Route));
    match draft.map(|agents| agents.key.clone()) {
        Some(_) if !orders => refused(
            KeyPath::from("control.use"),
            format!("{mechanism} sends no orders to the routers of [agents]"),
            "rtt+agents, or no table [agents]",
        ),
        Some(Some(key)) if !key.is_absolute() => refused(
            KeyPath::from("agents").key("key"),
            format!("\"{}\"", key.display()),
            "an absolute path",
        ),
        Some(Some(key)) => Ok(Some(key)),
        _ => Ok(orders.then(|| PathBuf::from(NODE_KEY_PATH))),
    }
}

/// Refuses a control with `+peers` without `[peers]`, and `[peers]` with another control.
pub(super) fn match_control(mechanism: &Mechanism, peers: bool) -> Result<()> {
    let Some(needs) = mechanism.needs(&SITE) else { return Ok(()) };
    let exchanges = needs.abilities.has(Ability::Peers);
    let key = KeyPath::from("control.use");
    match (exchanges, peers) {
        (true, false) => refused(
            key,
            format!("{mechanism} exchanges counters with other gateways, and none is configured"),
            "a table [peers], or the control without +peers",
        ),
        (false, true) => refused(
            key,
            format!("{mechanism} exchanges nothing with the gateways of [peers]"),
            "rtt+peers or pfrc+peers",
        ),
        _ => Ok(()),
    }
}
