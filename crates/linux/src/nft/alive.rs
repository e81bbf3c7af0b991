//! The dead man's switch (`linux/netfilter/nf_tables.h`): the interfaces on which packets are
//! classified are elements of a set that run out by themselves. Whoever no longer renews them, for
//! whatever reason, limits nobody. What renews them finds out as well whether our rules are there.
//!
//! Asked of the kernel directly: `nft` would have to be started every few seconds.

use std::time::Duration;

use crate::error::Error;
use crate::netlink::{Batch, Netlink};
use crate::tc::{attributes, nest, put, put_str};

/// The set's name.
pub(crate) const SET: &str = "alive";

const SUBSYSTEM: u16 = 10;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const GET_RULE: u16 = SUBSYSTEM << 8 | 7;
const GET_ELEMENTS: u16 = SUBSYSTEM << 8 | 13;
const GET_GENERATION: u16 = SUBSYSTEM << 8 | 16;
const NEW_ELEMENTS: u16 = SUBSYSTEM << 8 | 12;
const DELETE_ELEMENTS: u16 = SUBSYSTEM << 8 | 14;
pub(super) const NFPROTO_INET: u8 = 1;
pub(super) const NFPROTO_NETDEV: u8 = 5;
const NESTED: u16 = 0x8000;
const NFTA_RULE_TABLE: u16 = 1;
const NFTA_LIST_TABLE: u16 = 1;
const NFTA_LIST_SET: u16 = 2;
const NFTA_LIST_ELEMENTS: u16 = 3;
const NFTA_LIST_ELEM: u16 = 1;
const NFTA_GEN_ID: u16 = 1;
const NFTA_ELEM_KEY: u16 = 1;
const NFTA_ELEM_TIMEOUT: u16 = 4;
const NFTA_DATA_VALUE: u16 = 1;
/// `struct nfgenmsg`.
const HEAD: usize = 4;

fn head(out: &mut Vec<u8>, family: u8, resource: u16) {
    out.extend([family, 0]);
    out.extend(resource.to_be_bytes());
}

/// Has packets classified on these interfaces for so long from now on.
///
/// # Errors
/// [`libc::ENOENT`] where our table or its set is gone.
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
        // An element that is there already keeps its time, so that all go first; in one
        // transaction, so that no packet finds none.
        batch.push(DELETE_ELEMENTS, 0, |out| {
            head(out, family, 0);
            put_str(out, NFTA_LIST_TABLE, table);
            put_str(out, NFTA_LIST_SET, SET);
        });
        batch.push(NEW_ELEMENTS, libc::NLM_F_CREATE as u16, |out| {
            head(out, family, 0);
            put_str(out, NFTA_LIST_TABLE, table);
            put_str(out, NFTA_LIST_SET, SET);
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

/// How many rules our tables have.
///
/// # Errors
/// The kernel's refusal.
pub(crate) fn rules(netfilter: &mut Netlink, families: &[u8], table: &str) -> Result<usize, Error> {
    let mut count = 0;
    for &family in families {
        let ask = |out: &mut Vec<u8>| {
            head(out, family, 0);
            put_str(out, NFTA_RULE_TABLE, table);
        };
        netfilter.dump("nftables rules", GET_RULE, ask, |_, payload| {
            count += usize::from(of_table(payload, table));
        })?;
    }
    Ok(count)
}

/// The number of the rule set, which rises with every change that anybody makes in this namespace; `None`: an old kernel.
///
/// # Errors
/// The kernel's refusal.
pub(crate) fn generation(netfilter: &mut Netlink) -> Result<Option<u32>, Error> {
    let ask = |out: &mut Vec<u8>| head(out, 0, 0);
    let read = |_, payload: &[u8]| {
        let mut attributes = attributes(payload.get(HEAD..)?);
        let (_, value) = attributes.find(|(kind, _)| *kind == NFTA_GEN_ID)?;
        Some(u32::from_be_bytes(value.try_into().ok()?))
    };
    match netfilter.get("the rule set's number", GET_GENERATION, ask, read) {
        Err(e) if matches!(e.errno(), Some(libc::EINVAL | libc::EOPNOTSUPP)) => Ok(None),
        answer => answer,
    }
}

/// How many elements a map of ours has; none where it is gone.
///
/// # Errors
/// The kernel's refusal.
pub(crate) fn elements(
    netfilter: &mut Netlink,
    family: u8,
    table: &str,
    map: &str,
) -> Result<usize, Error> {
    let mut count = 0;
    let ask = |out: &mut Vec<u8>| {
        head(out, family, 0);
        put_str(out, NFTA_LIST_TABLE, table);
        put_str(out, NFTA_LIST_SET, map);
    };
    let read = |_, payload: &[u8]| count += listed(payload);
    match netfilter.dump("elements of nftables", GET_ELEMENTS, ask, read) {
        Err(e) if e.errno() == Some(libc::ENOENT) => Ok(0),
        Err(e) => Err(e),
        Ok(()) => Ok(count),
    }
}

fn listed(payload: &[u8]) -> usize {
    let lists = attributes(payload.get(HEAD..).unwrap_or_default());
    let lists = lists.filter(|(kind, _)| *kind == NFTA_LIST_ELEMENTS);
    lists
        .map(|(_, list)| attributes(list).filter(|(kind, _)| *kind == NFTA_LIST_ELEM).count())
        .sum()
}

fn of_table(payload: &[u8], table: &str) -> bool {
    let mut attributes = attributes(payload.get(HEAD..).unwrap_or_default());
    attributes.any(|(kind, value)| {
        kind == NFTA_RULE_TABLE && value.strip_suffix(&[0]).unwrap_or(value) == table.as_bytes()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `nft` 1.0.6 sends `add element inet t alive { 3 timeout 10s }`: the elements' part, as
    /// `strace` shows it.
    #[test]
    fn an_element_is_what_nft_sends() {
        let mut out = Vec::new();
        nest(&mut out, NFTA_LIST_ELEM | NESTED, |out| element(out, 3, Duration::from_secs(10)));
        let sent =
            [28, 0, 1, 0x80, 12, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0x27, 0x10, 12, 0, 1, 0x80, 8, 0, 1, 0];
        assert_eq!(out[..24], sent);
        assert_eq!(out[24..], 3_u32.to_ne_bytes());
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
