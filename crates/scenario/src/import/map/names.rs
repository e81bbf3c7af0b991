//! Names of a map's nodes.

use core::net::IpAddr;
use std::collections::BTreeMap;

use super::MapNode;
use crate::name::Name;

/// Owner of a name: one node or several.
#[derive(Clone, Copy)]
enum Known {
    One(usize),
    Several(usize, usize),
}

/// A name that does not identify a node.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Unresolved {
    /// No node has it.
    Unknown,
    /// At least these two have it.
    Ambiguous(usize, usize),
}

/// Names of nodes, in order of priority: ids, addresses of interfaces, labels.
#[derive(Default)]
pub(super) struct Names {
    ids: BTreeMap<Name, usize>,
    folded: BTreeMap<String, Known>,
    addresses: BTreeMap<String, Known>,
    labels: BTreeMap<String, Known>,
}

/// Returns the canonical spelling of a name.
///
/// It has MAC addresses with colons, IP addresses in short form without prefix length, lower case.
pub(super) fn canonical(text: &str) -> String {
    let text = text.trim();
    let address = text.split('/').next().unwrap_or_default();
    if let Ok(ip) = address.parse::<IpAddr>() {
        return ip.to_string();
    }
    let lower = text.to_lowercase();
    let digits: String = lower.chars().filter(|c| !matches!(c, ':' | '-')).collect();
    let is_mac = digits.len() == 12
        && digits.bytes().all(|b| b.is_ascii_hexdigit())
        && matches!(lower.len(), 12 | 17);
    if is_mac { digits } else { lower }
}

fn note(names: &mut BTreeMap<String, Known>, name: &str, node: usize) {
    let known = names.entry(canonical(name)).or_insert(Known::One(node));
    match *known {
        Known::One(other) if other != node => *known = Known::Several(other, node),
        _ => {}
    }
}

impl Names {
    /// Adds a node; returns true if its id is unique so far.
    pub fn add(&mut self, node: &MapNode, at: usize) -> bool {
        if self.ids.insert(node.id.clone(), at).is_some() {
            return false;
        }
        note(&mut self.folded, node.id.as_str(), at);
        node.addresses.iter().for_each(|a| note(&mut self.addresses, a, at));
        node.names.iter().for_each(|n| note(&mut self.labels, n, at));
        true
    }

    /// Returns the node of a name. An id in its exact spelling has priority.
    pub fn find(&self, name: &Name) -> Result<usize, Unresolved> {
        if let Some(&at) = self.ids.get(name) {
            return Ok(at);
        }
        let word = canonical(name.as_str());
        for names in [&self.folded, &self.addresses, &self.labels] {
            match names.get(&word) {
                Some(&Known::One(at)) => return Ok(at),
                Some(&Known::Several(a, b)) => return Err(Unresolved::Ambiguous(a, b)),
                None => {}
            }
        }
        Err(Unresolved::Unknown)
    }

    /// Returns another node with this interface address, as its id or as an own interface.
    pub fn other(&self, address: &str, than: usize) -> Option<usize> {
        let word = canonical(address);
        let known = [self.folded.get(&word), self.addresses.get(&word)];
        known.into_iter().flatten().find_map(|known| match *known {
            Known::One(at) => (at != than).then_some(at),
            Known::Several(a, b) => Some(if a == than { b } else { a }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_spelling_for_all() {
        assert_eq!(canonical(" 02:AA:00:00:00:01 "), canonical("02-aa-00-00-00-01"));
        assert_eq!(canonical("02AA00000001"), canonical("02:aa:00:00:00:01"));
        assert_eq!(canonical("FD00:0::1/64"), "fd00::1");
        assert_eq!(canonical("10.0.0.1/16"), "10.0.0.1");
        assert_eq!(canonical("Tower"), "tower");
        assert_ne!(canonical("tower/2"), canonical("tower"));
    }
}
