//! Result of reading a source: homes, and the number of entries that became none, by reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use fairmesh_linux::{IpNet, MacAddr};
use serde::{Deserialize, Serialize};

use super::{Found, NextNode};
use crate::gateway::config::{UNMAPPED, is_plain};

/// Reason why an entry of a source became neither a home nor an address of one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Omission {
    /// The entry lacks a field, or a field cannot be read.
    Malformed,
    /// The node's name is too long, empty, reserved, or has unprintable characters.
    Name,
    /// The node has no address that packets of a home carry.
    NoAddress,
    /// The address is a default route, a group, a link-local or a loopback address.
    NoHost,
    /// The entry belongs to the gateway itself.
    Own,
    /// The route is broken, retracted or withdrawn, or the neighbour does not respond.
    Unreachable,
    /// Another path to the same address is in use.
    Alternative,
    /// The route applies to some source addresses only, so it leads out of the mesh.
    SourceSpecific,
    /// The route is not a unicast route.
    NotUnicast,
    /// The router that announces the prefix is not among the nodes.
    NoRouter,
    /// The address belongs to another subscriber.
    Taken,
    /// As many homes as `discover.most` permits are known.
    Full,
    /// The home shows more addresses than one home may have.
    TooManyAddresses,
}

impl Omission {
    /// The name in JSON and in labels of metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Omission::Malformed => "malformed",
            Omission::Name => "name",
            Omission::NoAddress => "no-address",
            Omission::NoHost => "no-host",
            Omission::Own => "own",
            Omission::Unreachable => "unreachable",
            Omission::Alternative => "alternative",
            Omission::SourceSpecific => "source-specific",
            Omission::NotUnicast => "not-unicast",
            Omission::NoRouter => "no-router",
            Omission::Taken => "taken",
            Omission::Full => "full",
            Omission::TooManyAddresses => "too-many-addresses",
        }
    }

    /// Description for a reader, after a number of entries.
    const fn text(self) -> &'static str {
        match self {
            Omission::Malformed => "that cannot be read",
            Omission::Name => "with an unusable name",
            Omission::NoAddress => "without an address",
            Omission::NoHost => "with a link-local, group or default address",
            Omission::Own => "of this gateway",
            Omission::Unreachable => "that cannot be reached",
            Omission::Alternative => "with a better path in use",
            Omission::SourceSpecific => "for some source addresses only",
            Omission::NotUnicast => "that are not unicast routes",
            Omission::NoRouter => "of an unknown router",
            Omission::Taken => "with addresses of other subscribers",
            Omission::Full => "beyond `discover.most`",
            Omission::TooManyAddresses => "with too many addresses",
        }
    }

    /// True if the operator should check it: a home may be missing because of it.
    pub const fn suspicious(self) -> bool {
        match self {
            Omission::Malformed
            | Omission::Name
            | Omission::NoAddress
            | Omission::NoRouter
            | Omission::Taken
            | Omission::Full
            | Omission::TooManyAddresses => true,
            Omission::NoHost
            | Omission::Own
            | Omission::Unreachable
            | Omission::Alternative
            | Omission::SourceSpecific
            | Omission::NotUnicast => false,
        }
    }
}

/// Numbers of entries left out, by reason.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
#[serde(transparent)]
pub struct Omissions(BTreeMap<Omission, u64>);

impl Omissions {
    /// Counts entries that are left out.
    pub fn add(&mut self, why: Omission, entries: u64) {
        if entries > 0 {
            *self.0.entry(why).or_default() += entries;
        }
    }

    /// Returns the number for a reason.
    pub fn of(&self, why: Omission) -> u64 {
        self.0.get(&why).copied().unwrap_or_default()
    }

    /// Iterates over reasons that occurred.
    pub fn iter(&self) -> impl Iterator<Item = (Omission, u64)> + '_ {
        self.0.iter().map(|(why, n)| (*why, *n))
    }

    /// True if nothing was left out.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Omissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (why, n)) in self.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{n} {}", why.text())?;
        }
        Ok(())
    }
}

/// A source's nodes.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Reading {
    /// Nodes with an address, in the order of their names: homes.
    pub homes: Vec<Found>,
    /// Number of nodes, with and without an address.
    pub nodes: u64,
    /// Entries left out.
    pub omitted: Omissions,
    /// Next nodes towards the gateway, also of nodes without an address.
    pub paths: BTreeMap<String, NextNode>,
    /// True if these are whole paths; otherwise they are first hops.
    pub whole: bool,
}

/// A node while its entries are read.
#[derive(Default, Debug)]
pub(super) struct Node {
    pub found: Found,
    /// Next node towards the gateway, if the source shows it.
    pub via: Option<NextNode>,
    /// Number of its addresses that do not belong to a host.
    no_host: u64,
}

impl Node {
    /// Adds a prefix; [`Nodes::list`] removes duplicates.
    ///
    /// Default routes, the gateway's own link and groups belong to no node.
    pub fn add_prefix(&mut self, prefix: IpNet) {
        let prefix = prefix.trunc();
        let address = prefix.addr();
        let no_host = prefix.prefix_len() == 0
            || address.is_multicast()
            || address.is_loopback()
            || address.is_unspecified()
            || is_link_local(address);
        if no_host {
            self.no_host += 1;
        } else {
            self.found.prefixes.push(prefix);
        }
    }

    /// Adds an Ethernet address; those of groups belong to no node.
    pub fn add_mac(&mut self, mac: MacAddr) {
        if mac.is_unicast() && mac.0 != [0; 6] {
            self.found.macs.push(mac);
        } else {
            self.no_host += 1;
        }
    }
}

/// Collects nodes by name, in the order of their names.
#[derive(Default, Debug)]
pub(super) struct Nodes {
    all: BTreeMap<String, Node>,
    omitted: Omissions,
}

impl Nodes {
    /// Returns the node of a name, adding it if needed; `None` if the name is invalid.
    pub fn node(&mut self, name: &str) -> Option<&mut Node> {
        let name = name.trim();
        // A node of this name would get all unmapped traffic.
        if name.chars().count() > 64 || !is_plain(name) || name == UNMAPPED {
            self.omit(Omission::Name);
            return None;
        }
        let new = || Node {
            found: Found { name: name.to_owned(), ..Found::default() },
            ..Node::default()
        };
        Some(self.all.entry(name.to_owned()).or_insert_with(new))
    }

    /// Returns the node of a name, if there is one already.
    pub fn known(&mut self, name: &str) -> Option<&mut Node> {
        self.all.get_mut(name)
    }

    /// Counts an entry that is left out.
    pub fn omit(&mut self, why: Omission) {
        self.omitted.add(why, 1);
    }

    /// Returns the nodes with an address, and counts the others.
    pub fn list(mut self) -> Reading {
        let nodes = self.all.len() as u64 + self.omitted.of(Omission::Name);
        let mut homes = Vec::with_capacity(self.all.len());
        let mut paths = BTreeMap::new();
        for mut node in self.all.into_values() {
            if let Some(via) = node.via.take() {
                paths.insert(node.found.name.clone(), via);
            }
            self.omitted.add(Omission::NoHost, node.no_host);
            once(&mut node.found.prefixes);
            once(&mut node.found.macs);
            if node.found.prefixes.is_empty() && node.found.macs.is_empty() {
                self.omitted.add(Omission::NoAddress, 1);
            } else {
                homes.push(node.found);
            }
        }
        Reading { homes, nodes, omitted: self.omitted, paths, whole: false }
    }
}

/// Removes duplicates, keeping the first.
pub(super) fn once<T: Ord + Copy>(list: &mut Vec<T>) {
    let mut seen = BTreeSet::new();
    list.retain(|x| seen.insert(*x));
}

fn is_link_local(address: std::net::IpAddr) -> bool {
    match address {
        std::net::IpAddr::V4(a) => a.is_link_local(),
        std::net::IpAddr::V6(a) => a.segments()[0] & 0xffc0 == 0xfe80,
    }
}

/// A source at the last query.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize, Debug)]
pub struct SourceReport {
    /// The source: a file, a command or an address.
    pub name: String,
    /// Number of its nodes, with and without an address.
    #[serde(default)]
    pub nodes: u64,
    /// Number of addresses of its homes: prefixes and Ethernet addresses.
    #[serde(default)]
    pub addresses: u64,
    /// Number of its homes: nodes with an address, which become subscribers.
    pub subscribers: usize,
    /// Numbers of entries left out, by reason.
    #[serde(default, skip_serializing_if = "Omissions::is_empty")]
    pub omitted: Omissions,
    /// Reason of a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

impl SourceReport {
    /// Returns the report about a reading.
    pub(super) fn of(name: &str, reading: &Reading) -> Self {
        let addresses = |f: &Found| (f.prefixes.len() + f.macs.len()) as u64;
        SourceReport {
            name: name.to_owned(),
            nodes: reading.nodes,
            addresses: reading.homes.iter().map(addresses).sum(),
            subscribers: reading.homes.len(),
            omitted: reading.omitted.clone(),
            failed: None,
        }
    }

    /// Returns one line with the counts, without the source's name.
    pub fn counts(&self) -> String {
        let number = |n: u64, one: &str, more: &str| match n {
            1 => format!("1 {one}"),
            n => format!("{n} {more}"),
        };
        let mut text = format!(
            "{}, {}, {}",
            number(self.nodes, "node", "nodes"),
            number(self.addresses, "address", "addresses"),
            number(self.subscribers as u64, "home", "homes"),
        );
        if !self.omitted.is_empty() {
            text += &format!("; left out: {}", self.omitted);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names in metrics are those in JSON.
    #[test]
    fn reasons_have_one_name() {
        let all = [
            Omission::Malformed,
            Omission::Name,
            Omission::NoAddress,
            Omission::NoHost,
            Omission::Own,
            Omission::Unreachable,
            Omission::Alternative,
            Omission::SourceSpecific,
            Omission::NotUnicast,
            Omission::NoRouter,
            Omission::Taken,
            Omission::Full,
            Omission::TooManyAddresses,
        ];
        for why in all {
            assert_eq!(serde_json::to_value(why).unwrap(), why.name());
        }
        let mut omitted = Omissions::default();
        all.into_iter().for_each(|why| omitted.add(why, 2));
        let text = serde_json::to_string(&omitted).unwrap();
        assert_eq!(serde_json::from_str::<Omissions>(&text).unwrap(), omitted);
    }

    #[test]
    fn counts_are_one_line() {
        let mut report =
            SourceReport { nodes: 1, addresses: 2, subscribers: 1, ..SourceReport::default() };
        assert_eq!(report.counts(), "1 node, 2 addresses, 1 home");
        report.omitted.add(Omission::NoAddress, 3);
        report.omitted.add(Omission::Own, 1);
        assert!(report.counts().ends_with("; left out: 3 without an address, 1 of this gateway"));
    }
}
