//! Interfaces to the mesh and to the Internet, and the direct neighbours by radio.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use fairmesh_linux::Interface;
use fairmesh_linux::link::{Link, route};
use fairmesh_linux::netlink::Netlink;
use fairmesh_linux::nl80211::{Nl80211, Radio, RadioMode};

use super::ask::Candidate;
use super::{InterfaceChoice, Station, Survey};
use crate::gateway::config::Subscriber;
use crate::gateway::link_rates::with_ports;
use crate::gateway::sources::mesh_point_names;

/// Documentation addresses (RFC 5737, RFC 3849): their routes are the default routes.
const DEFAULT_ROUTE_ADDRESSES: [&str; 2] = ["192.0.2.1", "2001:db8::1"];
/// Most homes for a lookup of routes.
const MAX_LOOKUPS: usize = 256;
/// Addresses of a home's network that are tried: the gateway itself may have one of them.
const MAX_HOSTS: usize = 3;

/// Returns an interface that the operator has named, with a note if it does not exist.
pub(super) fn given(
    links: &[Link],
    interface: &Interface,
    survey: &mut Survey,
    option: &str,
) -> InterfaceChoice {
    if !links.iter().any(|l| l.name == interface.name()) {
        survey.note("interface", format!("there is no interface {interface} ({option})"));
    }
    InterfaceChoice { interface: interface.clone(), reason: format!("named by {option}") }
}

/// Returns the interface of the default route.
pub(super) fn uplink(netlink: &mut Netlink, links: &[Link]) -> Option<InterfaceChoice> {
    DEFAULT_ROUTE_ADDRESSES.iter().find_map(|address| {
        let link = towards(netlink, links, address.parse().ok()?)?;
        let interface = Interface::new(&link.name).ok()?;
        Some(InterfaceChoice { interface, reason: "the default route leads over it".to_owned() })
    })
}

fn towards<'a>(netlink: &mut Netlink, links: &'a [Link], to: IpAddr) -> Option<&'a Link> {
    let index = route::towards(netlink, to).ok()??;
    links.iter().find(|l| l.index == index)
}

/// Returns the interface over which a home is reached, by its prefixes.
fn reached<'a>(netlink: &mut Netlink, links: &'a [Link], home: &Subscriber) -> Option<&'a str> {
    let mut hosts = home.prefixes.iter().flat_map(|net| net.hosts().take(MAX_HOSTS));
    hosts.find_map(|host| towards(netlink, links, host)).map(|link| link.name.as_str())
}

/// Returns interfaces that could lead to a mesh, with their radio modes.
///
/// The uplink and ports of other interfaces are left out; a bridge has the mode of a mesh point in it.
pub(super) fn candidates(
    links: &[Link],
    wired: Option<&str>,
    named: Option<&str>,
) -> Vec<(Interface, Option<RadioMode>)> {
    let could = |l: &&Link| match named {
        Some(name) => l.name == name,
        None => l.up && l.name != "lo" && l.controller.is_none() && Some(l.name.as_str()) != wired,
    };
    let mode =
        |name: &str| Nl80211::open(mesh_point_names(links, name).first()?).ok()?.mode().ok()?;
    let of = |l: &Link| Some((Interface::new(&l.name).ok()?, mode(&l.name)));
    links.iter().filter(could).filter_map(of).collect()
}

/// Chooses the mesh interface of a source, and compares it with the routes to the homes.
pub(super) fn check_mesh(
    netlink: &mut Netlink,
    links: &[Link],
    candidate: &Candidate,
    homes: &[Subscriber],
    survey: &mut Survey,
) {
    let wired = survey.wired.as_ref().map(|c| c.interface.name().to_owned());
    let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
    for home in homes.iter().take(MAX_LOOKUPS) {
        if let Some(name) = reached(netlink, links, home) {
            *votes.entry(name).or_default() += 1;
        }
    }
    let asked: usize = votes.values().sum();
    let elsewhere = |name: &str| Some(name) != wired.as_deref();
    if survey.mesh.is_none() {
        let voted = votes.iter().filter(|(name, _)| elsewhere(name)).max_by_key(|(_, n)| **n);
        survey.mesh = match (candidate.interface(), voted) {
            (Some(interface), _) => Some(InterfaceChoice {
                interface: interface.clone(),
                reason: "the source of homes is bound to it".to_owned(),
            }),
            (None, Some((name, n))) => {
                Interface::new(*name).ok().map(|interface| InterfaceChoice {
                    interface,
                    reason: format!("{n} of {asked} homes with routes are reached over it"),
                })
            }
            (None, None) => None,
        };
    }
    let Some(mesh) = survey.mesh.as_ref().map(|c| c.interface.name().to_owned()) else { return };
    let others: Vec<String> = votes
        .iter()
        .filter(|(name, _)| **name != mesh)
        .map(|(name, n)| format!("{n} over {name}"))
        .collect();
    if !others.is_empty() {
        let text = format!(
            "homes that are reached over other interfaces than {mesh} are not limited: {}",
            others.join(", ")
        );
        survey.note("elsewhere", text);
    }
    let link = links.iter().find(|l| l.name == mesh);
    if let Some(bridge) = link.and_then(|l| links.iter().find(|b| Some(b.index) == l.controller)) {
        let text = format!(
            "{mesh} is a port of {}: if homes are reached over the bridge, set --mesh to the bridge",
            bridge.name
        );
        survey.note("bridge", text);
    }
}

/// Adds the stations of the mesh interface and of its ports, with their rates.
pub(super) fn stations(links: &[Link], mesh: &str, survey: &mut Survey) {
    let names: BTreeMap<_, _> =
        survey.homes.iter().flat_map(|h| h.macs.iter().map(|mac| (*mac, h.name.clone()))).collect();
    let mut used = BTreeSet::new();
    for link in with_ports(links, mesh) {
        let found = Nl80211::open(&link.name).and_then(|mut radio| radio.stations());
        for station in found.unwrap_or_default() {
            let own = names.get(&station.mac).filter(|name| !used.contains(*name));
            let name = own.cloned().unwrap_or_else(|| station.mac.to_string());
            if !used.insert(name.clone()) {
                // A neighbour by two radios.
                continue;
            }
            survey.neighbours.push(Station {
                name,
                interface: link.name.clone(),
                mac: station.mac,
                rate: station.tx_rate,
                expected: station.expected_throughput,
                signal: station.signal_average.or(station.signal),
            });
        }
    }
    let without = survey.neighbours.iter().filter(|n| super::text::rate(n).is_none()).count();
    if survey.neighbours.len() == without {
        survey.note(
            "rates",
            "no radio reports the rates of its neighbours: add [[neighbour]] tables and choose a control; \
             `fifo` only measures",
        );
    } else if without > 0 {
        let text = format!("{without} neighbours have no rate yet: add them as [[neighbour]]");
        survey.note("rates", text);
    }
}
