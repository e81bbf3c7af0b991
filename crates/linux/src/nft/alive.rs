//! Dead man's switch of the classification (`linux/netfilter/nf_tables.h`).
//!
//! The interfaces on which packets are classified are elements of a set, and the elements expire. If the renewals stop,
//! for any reason, no traffic is limited (fail-open). The renewal also checks that our rules are in place.
//!
//! The requests go to the kernel directly: `nft` would have to be started every few seconds.

use std::time::Duration;

use crate::error::Error;
use crate::netlink::{Batch, Netlink};
use crate::tc::{attributes, nest, put, put_str};

/// Name of the set.
pub(crate) const SET_NAME: &str = "alive";

const SUBSYSTEM: u16 = 10;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const GET_TABLE: u16 = SUBSYSTEM << 8 | 1;
pub(super) const GET_RULE: u16 = SUBSYSTEM << 8 | 7;
const GET_ELEMENTS: u16 = SUBSYSTEM << 8 | 13;
const GET_GENERATION: u16 = SUBSYSTEM << 8 | 16;
const NEW_ELEMENTS: u16 = SUBSYSTEM << 8 | 12;
const DELETE_ELEMENTS: u16 = SUBSYSTEM << 8 | 14;
pub(crate) const NFPROTO_INET: u8 = 1;
pub(super) const NFPROTO_NETDEV: u8 = 5;
const NESTED: u16 = 0x8000;
const NFTA_RULE_TABLE: u16 = 1;
const NFTA_RULE_HANDLE: u16 = 3;
const NFTA_TABLE_NAME: u16 = 1;
const NFTA_TABLE_FLAGS: u16 = 2;
const NFT_TABLE_DORMANT: u32 = 1;
const NFTA_LIST_TABLE: u16 = 1;
const NFTA_LIST_SET: u16 = 2;
const NFTA_LIST_ELEMENTS: u16 = 3;
const NFTA_LIST_ELEM: u16 = 1;
const NFTA_GEN_ID: u16 = 1;
const NFTA_ELEM_KEY: u16 = 1;
const NFTA_ELEM_DATA: u16 = 2;
const NFTA_ELEM_TIMEOUT: u16 = 4;
const NFTA_DATA_VALUE: u16 = 1;
/// `struct nfgenmsg`.
const NFGENMSG_BYTES: usize = 4;

fn head(out: &mut Vec<u8>, family: u8, resource: u16) {
    out.extend([family, 0]);
    out.extend(resource.to_be_bytes());
}

/// Lets packets on these interfaces be classified for the given time from now on.
///
/// # Errors
/// [`libc::ENOENT`] if our table or its set is gone.
pub(crate) fn renew(
    netfilter: &mut Netlink,
    families: &[u8],
    table: &str,
    interfaces: &[u32],
    lasts: Duration,
) -> Result<(), Error> {
    let mut batch = Batch::new();
    batch.push(BATCH_BEGIN, 0, |out| head(out, 0, SUBSYSTEM));
    for &family in families {
        // An existing element keeps its timeout, so all elements are deleted first; in one transaction, so that the set
        // is never empty for a packet.
        batch.push(DELETE_ELEMENTS, 0, |out| {
            head(out, family, 0);
            put_str(out, NFTA_LIST_TABLE, table);
            put_str(out, NFTA_LIST_SET, SET_NAME);
        });
        batch.push(NEW_ELEMENTS, libc::NLM_F_CREATE as u16, |out| {
            head(out, family, 0);
            put_str(out, NFTA_LIST_TABLE, table);
            put_str(out, NFTA_LIST_SET, SET_NAME);
            nest(out, NFTA_LIST_ELEMENTS | NESTED, |out| {
                for interface in interfaces {
                    nest(out, NFTA_LIST_ELEM | NESTED, |out| element(out, *interface, lasts));
                }
            });
        });
    }
    batch.push(BATCH_END, 0, |out| head(out, 0, SUBSYSTEM));
    netfilter.transaction("renewing our rules", &mut batch)
}

fn element(out: &mut Vec<u8>, interface: u32, lasts: Duration) {
    put(out, NFTA_ELEM_TIMEOUT, &(lasts.as_millis() as u64).to_be_bytes());
    nest(out, NFTA_ELEM_KEY | NESTED, |out| put(out, NFTA_DATA_VALUE, &interface.to_ne_bytes()));
}

/// Identity of a set of rules: their number and their handles.
///
/// A replaced rule has a new handle.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct RuleSet {
    count: usize,
    handles: u64,
}

/// Returns the identity of the rules in our tables.
///
/// # Errors
/// Returns the kernel's refusal.
pub(crate) fn rules(
    netfilter: &mut Netlink,
    families: &[u8],
    table: &str,
) -> Result<RuleSet, Error> {
    let mut set = RuleSet::default();
    for &family in families {
        let ask = |out: &mut Vec<u8>| {
            head(out, family, 0);
            put_str(out, NFTA_RULE_TABLE, table);
        };
        netfilter.dump("nftables rules", GET_RULE, ask, |_, payload| {
            if of_table(payload, table) {
                set.count += 1;
                // Handles differ within a table, so their sum changes with each replacement.
                set.handles = set.handles.wrapping_add(handle(payload).unwrap_or(0));
            }
        })?;
    }
    Ok(set)
}

fn handle(payload: &[u8]) -> Option<u64> {
    let mut attributes = attributes(payload.get(NFGENMSG_BYTES..)?);
    let (_, value) = attributes.find(|(kind, _)| *kind == NFTA_RULE_HANDLE)?;
    Some(u64::from_be_bytes(value.try_into().ok()?))
}

/// Returns true if the rules of a table are disabled (`flags dormant`).
///
/// # Errors
/// Returns the kernel's refusal.
pub(crate) fn dormant(netfilter: &mut Netlink, family: u8, table: &str) -> Result<bool, Error> {
    let ask = |out: &mut Vec<u8>| {
        head(out, family, 0);
        put_str(out, NFTA_TABLE_NAME, table);
    };
    let read = |_, payload: &[u8]| {
        let mut attributes = attributes(payload.get(NFGENMSG_BYTES..)?);
        let (_, value) = attributes.find(|(kind, _)| *kind == NFTA_TABLE_FLAGS)?;
        Some(u32::from_be_bytes(value.try_into().ok()?))
    };
    match netfilter.get("a table of nftables", GET_TABLE, ask, read) {
        Err(e) if e.errno() == Some(libc::ENOENT) => Ok(true),
        answer => Ok(answer?.is_some_and(|flags| flags & NFT_TABLE_DORMANT != 0)),
    }
}

/// Returns the generation number of the rule set; `None` on an old kernel.
///
/// It increases with every change by any program in this namespace.
///
/// # Errors
/// Returns the kernel's refusal.
pub(crate) fn generation(netfilter: &mut Netlink) -> Result<Option<u32>, Error> {
    let ask = |out: &mut Vec<u8>| head(out, 0, 0);
    let read = |_, payload: &[u8]| {
        let mut attributes = attributes(payload.get(NFGENMSG_BYTES..)?);
        let (_, value) = attributes.find(|(kind, _)| *kind == NFTA_GEN_ID)?;
        Some(u32::from_be_bytes(value.try_into().ok()?))
    };
    match netfilter.get("the rule set's number", GET_GENERATION, ask, read) {
        Err(e) if matches!(e.errno(), Some(libc::EINVAL | libc::EOPNOTSUPP)) => Ok(None),
        answer => answer,
    }
}

/// Key and value of a map's element, as the kernel's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Element<'a> {
    /// An address in network byte order.
    pub key: &'a [u8],
    /// A class as priority or mark.
    pub value: u32,
}

/// Calls `each` for the elements of one of our maps; for none if the map is gone.
///
/// An element that cannot be read is `None`.
///
/// # Errors
/// Returns the kernel's refusal.
pub(crate) fn elements(
    netfilter: &mut Netlink,
    family: u8,
    table: &str,
    map: &str,
    mut each: impl FnMut(Option<Element<'_>>),
) -> Result<(), Error> {
    let ask = |out: &mut Vec<u8>| {
        head(out, family, 0);
        put_str(out, NFTA_LIST_TABLE, table);
        put_str(out, NFTA_LIST_SET, map);
    };
    let read = |_, payload: &[u8]| listed(payload, &mut each);
    match netfilter.dump("elements of nftables", GET_ELEMENTS, ask, read) {
        Err(e) if e.errno() == Some(libc::ENOENT) => Ok(()),
        answer => answer,
    }
}

fn listed(payload: &[u8], each: &mut impl FnMut(Option<Element<'_>>)) {
    let lists = attributes(payload.get(NFGENMSG_BYTES..).unwrap_or_default());
    for (_, list) in lists.filter(|(kind, _)| *kind == NFTA_LIST_ELEMENTS) {
        for (_, element) in attributes(list).filter(|(kind, _)| *kind == NFTA_LIST_ELEM) {
            each(read_element(element));
        }
    }
}

fn read_element(element: &[u8]) -> Option<Element<'_>> {
    let value = |wanted: u16| {
        let (_, nested) = attributes(element).find(|(kind, _)| *kind == wanted)?;
        Some(attributes(nested).find(|(kind, _)| *kind == NFTA_DATA_VALUE)?.1)
    };
    let class = u32::from_ne_bytes(value(NFTA_ELEM_DATA)?.try_into().ok()?);
    Some(Element { key: value(NFTA_ELEM_KEY)?, value: class })
}

fn of_table(payload: &[u8], table: &str) -> bool {
    let mut attributes = attributes(payload.get(NFGENMSG_BYTES..).unwrap_or_default());
    attributes.any(|(kind, value)| {
        kind == NFTA_RULE_TABLE && value.strip_suffix(&[0]).unwrap_or(value) == table.as_bytes()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The elements' part of `add element inet t alive { 3 timeout 10s }` matches `nft` 1.0.6.
    ///
    /// The bytes are taken from `strace`.
    #[test]
    fn an_element_has_the_bytes_of_nft() {
        let mut out = Vec::new();
        nest(&mut out, NFTA_LIST_ELEM | NESTED, |out| element(out, 3, Duration::from_secs(10)));
        let sent =
            [28, 0, 1, 0x80, 12, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0x27, 0x10, 12, 0, 1, 0x80, 8, 0, 1, 0];
        assert_eq!(out[..24], sent);
        assert_eq!(out[24..], 3_u32.to_ne_bytes());
    }

    #[test]
    fn elements_have_key_and_class() {
        let mut out = vec![NFPROTO_INET, 0, 0, 0];
        nest(&mut out, NFTA_LIST_ELEMENTS | NESTED, |out| {
            nest(out, NFTA_LIST_ELEM | NESTED, |out| {
                nest(out, NFTA_ELEM_KEY | NESTED, |out| put(out, NFTA_DATA_VALUE, &[10, 1, 2, 0]));
                nest(out, NFTA_ELEM_DATA | NESTED, |out| {
                    put(out, NFTA_DATA_VALUE, &0x0fa1_0002_u32.to_ne_bytes());
                });
            });
            nest(out, NFTA_LIST_ELEM | NESTED, |_| {});
        });
        let mut found = Vec::new();
        listed(&out, &mut |e| found.push(e.map(|e| (e.key.to_vec(), e.value))));
        assert_eq!(found, [Some((vec![10, 1, 2, 0], 0x0fa1_0002)), None]);
    }

    #[test]
    fn rules_of_others_are_not_ours() {
        let rule = |table: &str| {
            let mut out = vec![NFPROTO_INET, 0, 0, 0];
            put_str(&mut out, NFTA_RULE_TABLE, table);
            out
        };
        assert!(of_table(&rule("fairmesh"), "fairmesh"));
        assert!(!of_table(&rule("fairmesh2"), "fairmesh") && !of_table(&[], "fairmesh"));
    }
}
