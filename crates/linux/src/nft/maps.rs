//! Maps from prefixes and Ethernet addresses to classes.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use crate::mac::MacAddr;
use crate::shaper::Subscriber;

/// Identity of a map of the rule set: a family and a prefix length, or Ethernet addresses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum MapName {
    /// IPv4 prefixes of a length.
    V4(u8),
    /// IPv6 prefixes of a length.
    V6(u8),
    /// Ethernet addresses.
    Mac,
}

impl MapName {
    /// Returns the type of the map's keys.
    pub const fn key_type(self) -> &'static str {
        match self {
            MapName::V4(_) => "ipv4_addr",
            MapName::V6(_) => "ipv6_addr",
            MapName::Mac => "ether_addr",
        }
    }

    /// Returns the expression that masks an address to the length, with a leading space.
    ///
    /// It is empty for whole addresses.
    pub fn mask(self) -> String {
        match self {
            MapName::V4(32) | MapName::V6(128) | MapName::Mac => String::new(),
            MapName::V4(n) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(n)).unwrap_or(0);
                format!(" & {}", Ipv4Addr::from(mask))
            }
            MapName::V6(n) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(n)).unwrap_or(0);
                format!(" & {}", Ipv6Addr::from(mask))
            }
        }
    }
}

impl fmt::Display for MapName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MapName::V4(n) => write!(f, "4_{n}"),
            MapName::V6(n) => write!(f, "6_{n}"),
            MapName::Mac => f.write_str("mac"),
        }
    }
}

/// A key of a map.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Key {
    /// A prefix's address; the bits beyond its length are 0.
    Ip(IpAddr),
    /// An Ethernet address.
    Mac(MacAddr),
}

impl Key {
    /// Reads a key in network byte order; `None` if the length does not match.
    pub fn read(map: MapName, bytes: &[u8]) -> Option<Key> {
        Some(match map {
            MapName::V4(_) => Key::Ip(IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?)),
            MapName::V6(_) => Key::Ip(IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?)),
            MapName::Mac => Key::Mac(MacAddr(bytes.try_into().ok()?)),
        })
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Ip(ip) => ip.fmt(f),
            Key::Mac(mac) => mac.fmt(f),
        }
    }
}

/// All maps.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Maps(BTreeMap<MapName, BTreeMap<Key, u16>>);

static EMPTY: BTreeMap<Key, u16> = BTreeMap::new();

impl Maps {
    /// Returns the maps of some subscribers. The layout has been checked: no key occurs twice.
    pub fn of(subscribers: &[Subscriber]) -> Self {
        let mut maps: BTreeMap<MapName, BTreeMap<Key, u16>> = BTreeMap::new();
        for s in subscribers {
            for prefix in &s.prefixes {
                let name = match prefix {
                    IpNet::V4(p) => MapName::V4(p.prefix_len()),
                    IpNet::V6(p) => MapName::V6(p.prefix_len()),
                };
                maps.entry(name).or_default().insert(Key::Ip(prefix.network()), s.class.0);
            }
            for &mac in &s.macs {
                maps.entry(MapName::Mac).or_default().insert(Key::Mac(mac), s.class.0);
            }
        }
        Maps(maps)
    }

    /// Adds maps that only `old` has, empty: rules that refer to them can stay.
    pub fn keep(&mut self, old: &Maps) {
        for &name in old.0.keys() {
            self.0.entry(name).or_default();
        }
    }

    /// Returns the elements of one map.
    pub fn get(&self, name: MapName) -> Option<Elements<'_>> {
        self.0.get(&name).map(Elements)
    }

    /// Returns the map of Ethernet addresses.
    pub fn macs(&self) -> &BTreeMap<Key, u16> {
        self.0.get(&MapName::Mac).unwrap_or(&EMPTY)
    }

    /// Returns the class of an address as the rules look it up.
    ///
    /// The longest prefix that contains it decides, otherwise the Ethernet address.
    pub fn class_of(&self, ip: IpAddr, mac: Option<MacAddr>) -> Option<u16> {
        let bits = match ip {
            IpAddr::V4(a) => u128::from(u32::from(a)) << 96,
            IpAddr::V6(a) => u128::from(a),
        };
        for (name, elements) in self.0.iter().rev() {
            let cut = |n: u8| bits & u128::MAX.checked_shl(128 - u32::from(n)).unwrap_or(0);
            let key = match (name, ip, mac) {
                (MapName::V4(n), IpAddr::V4(_), _) => Ipv4Addr::from((cut(*n) >> 96) as u32).into(),
                (MapName::V6(n), IpAddr::V6(_), _) => Ipv6Addr::from(cut(*n)).into(),
                _ => continue,
            };
            if let Some(class) = elements.get(&Key::Ip(key)) {
                return Some(*class);
            }
        }
        self.macs().get(&Key::Mac(mac?)).copied()
    }

    /// Iterates over the maps with their elements, in a stable order.
    pub fn each(&self) -> impl Iterator<Item = (MapName, Elements<'_>)> {
        self.0.iter().map(|(name, elements)| (*name, Elements(elements)))
    }

    /// Iterates over the maps of a family, longest prefixes first.
    pub fn lengths(&self, v6: bool) -> impl Iterator<Item = MapName> + '_ {
        let of_family = move |name: &MapName| match name {
            MapName::V4(_) => !v6,
            MapName::V6(_) => v6,
            MapName::Mac => false,
        };
        self.0.keys().rev().copied().filter(of_family)
    }
}

/// The elements of one map.
#[derive(Clone, Copy, Debug)]
pub struct Elements<'a>(&'a BTreeMap<Key, u16>);

impl<'a> Elements<'a> {
    /// Returns the number of elements.
    pub fn len(self) -> usize {
        self.0.len()
    }

    /// True if there are no elements.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Returns the class of a key.
    pub fn get(self, key: &Key) -> Option<u16> {
        self.0.get(key).copied()
    }
}

impl<'a> IntoIterator for Elements<'a> {
    type Item = (Key, u16);
    type IntoIter = std::iter::Map<
        std::collections::btree_map::Iter<'a, Key, u16>,
        fn((&'a Key, &'a u16)) -> (Key, u16),
    >;
    fn into_iter(self) -> Self::IntoIter {
        self.0.iter().map(|(key, class)| (*key, *class))
    }
}
