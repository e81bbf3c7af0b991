//! Numbers of routers, by which mechanisms and their messages name them.
//!
//! A number holds in the whole mesh: a router derives its own from an Ethernet address, or its configuration sets it,
//! and every message announces it. A neighbour that announces none has a number beyond those, which never leaves this
//! router.

use std::collections::BTreeMap;

use fairmesh_linux::MacAddr;
use fairmesh_units::NodeId;

/// Most neighbours with a number; others are left out.
const MAX_NUMBERS: usize = 256;
/// First number of neighbours that announce none.
const FIRST_UNANNOUNCED: u32 = 1 << 16;

/// Returns the number of a router with this address.
///
/// FNV-1a, folded to 16 bits, and 1 instead of 0.
pub fn derived(mac: MacAddr) -> u16 {
    let hash =
        mac.0.iter().fold(0x811c_9dc5_u32, |h, b| (h ^ u32::from(*b)).wrapping_mul(0x0100_0193));
    ((hash >> 16) as u16 ^ hash as u16).max(1)
}

/// Numbers of this router and of its neighbours.
#[derive(Clone, Default, Debug)]
pub struct Numbers {
    own: Option<u16>,
    neighbours: BTreeMap<MacAddr, NodeId>,
}

impl Numbers {
    /// Returns this router's number, 0 while it has none.
    pub fn own(&self) -> NodeId {
        NodeId(self.own.unwrap_or(0).into())
    }

    /// Returns the number to announce.
    pub fn announced(&self) -> Option<u16> {
        self.own
    }

    /// Sets this router's number.
    pub fn set_own(&mut self, number: u16) {
        self.own = Some(number);
    }

    /// Returns the number of a neighbour; `None` if there are too many.
    ///
    /// Several addresses of one neighbour have one number.
    pub fn of(&mut self, mac: MacAddr) -> Option<NodeId> {
        if let Some(known) = self.neighbours.get(&mac) {
            return Some(*known);
        }
        if self.neighbours.len() >= MAX_NUMBERS {
            return None;
        }
        let unannounced = self.neighbours.values().map(|n| n.0 + 1).max().unwrap_or(0);
        let number = NodeId(unannounced.max(FIRST_UNANNOUNCED));
        self.neighbours.insert(mac, number);
        Some(number)
    }

    /// Records the number that a neighbour announces.
    pub fn announce(&mut self, mac: MacAddr, number: u16) {
        if self.neighbours.len() < MAX_NUMBERS || self.neighbours.contains_key(&mac) {
            self.neighbours.insert(mac, NodeId(number.into()));
        }
    }

    /// Forgets neighbours that are gone.
    pub fn retain(&mut self, stays: impl Fn(&MacAddr) -> bool) {
        self.neighbours.retain(|mac, _| stays(mac));
    }

    /// Returns the first address of the neighbour with this number.
    pub fn mac(&self, node: NodeId) -> Option<MacAddr> {
        self.neighbours.iter().find(|(_, n)| **n == node).map(|(mac, _)| *mac)
    }

    /// Returns a neighbour that announces this router's number.
    pub fn clash(&self) -> Option<MacAddr> {
        self.own.and_then(|own| self.mac(NodeId(own.into())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mac(n: u8) -> MacAddr {
        MacAddr([2, 0, 0, 0, 0, n])
    }

    #[test]
    fn neighbours_have_the_numbers_that_they_announce() {
        let mut numbers = Numbers::default();
        assert_eq!(numbers.of(mac(1)), Some(NodeId(FIRST_UNANNOUNCED)));
        numbers.announce(mac(1), 7);
        // The second address of the same router.
        numbers.announce(mac(2), 7);
        assert_eq!((numbers.of(mac(1)), numbers.of(mac(2))), (Some(NodeId(7)), Some(NodeId(7))));
        assert_eq!(numbers.mac(NodeId(7)), Some(mac(1)));
        let others = [numbers.of(mac(3)), numbers.of(mac(4))];
        assert_eq!(others, [Some(NodeId(FIRST_UNANNOUNCED)), Some(NodeId(FIRST_UNANNOUNCED + 1))]);
        assert_eq!((numbers.own(), numbers.clash()), (NodeId(0), None));
        numbers.set_own(7);
        assert_eq!((numbers.own(), numbers.clash()), (NodeId(7), Some(mac(1))));
    }

    #[test]
    fn thousands_of_neighbours_are_bounded() {
        let mut numbers = Numbers::default();
        let macs = (0..3000u32).map(|n| MacAddr([2, 0, 0, 0, (n >> 8) as u8, n as u8]));
        let known = macs.clone().filter_map(|mac| numbers.of(mac)).count();
        macs.for_each(|mac| numbers.announce(mac, 3));
        assert_eq!((known, numbers.neighbours.len()), (MAX_NUMBERS, MAX_NUMBERS));
    }

    #[test]
    fn numbers_of_a_meshs_addresses_rarely_meet() {
        let all: std::collections::BTreeSet<u16> =
            (0..=255).map(|n| derived(MacAddr([0xdc, 0x9f, 0xdb, 0x10, 0x20, n]))).collect();
        assert!(all.len() > 250 && !all.contains(&0), "{}", all.len());
    }
}
