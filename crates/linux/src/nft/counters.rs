//! Named counters of a table (`linux/netfilter/nf_tables.h`), read from the kernel directly.
//!
//! `nft` would read all maps first, which takes long with thousands of subscribers.

use std::collections::BTreeMap;

use crate::error::Error;
use crate::netlink::Netlink;
use crate::tc::{attributes, put, put_str};

/// `NFNL_SUBSYS_NFTABLES` and `NFT_MSG_GETOBJ`.
const GET_OBJECT: u16 = 10 << 8 | 19;
const NFPROTO_INET: u8 = 1;
const NFPROTO_NETDEV: u8 = 5;
const NFTA_OBJ_TABLE: u16 = 1;
const NFTA_OBJ_NAME: u16 = 2;
const NFTA_OBJ_TYPE: u16 = 3;
const NFTA_OBJ_DATA: u16 = 4;
const NFT_OBJECT_COUNTER: u32 = 1;
const NFTA_COUNTER_PACKETS: u16 = 2;
/// `struct nfgenmsg`.
const NFGENMSG_BYTES: usize = 4;

/// Returns the packets of each counter; counters of one name in both families are added up.
///
/// # Errors
/// Returns the kernel's refusal.
pub fn packets(netfilter: &mut Netlink, table: &str) -> Result<BTreeMap<String, u64>, Error> {
    let mut sums = BTreeMap::new();
    for family in [NFPROTO_INET, NFPROTO_NETDEV] {
        let ask = |out: &mut Vec<u8>| question(out, family, table);
        netfilter.dump("nftables counters", GET_OBJECT, ask, |_, payload| {
            if let Some((name, packets)) = read(payload, table) {
                *sums.entry(name.to_owned()).or_default() += packets;
            }
        })?;
    }
    Ok(sums)
}

fn question(out: &mut Vec<u8>, family: u8, table: &str) {
    out.extend([family, 0, 0, 0]);
    put_str(out, NFTA_OBJ_TABLE, table);
    put(out, NFTA_OBJ_TYPE, &NFT_OBJECT_COUNTER.to_be_bytes());
}

/// Reads name and packets of a counter of the table; `None` for any other payload.
pub fn read<'a>(payload: &'a [u8], table: &str) -> Option<(&'a str, u64)> {
    let text = |value: &'a [u8]| Some(std::str::from_utf8(value).ok()?.trim_end_matches('\0'));
    let (mut name, mut packets) = (None, None);
    for (kind, value) in attributes(payload.get(NFGENMSG_BYTES..)?) {
        match kind {
            NFTA_OBJ_TABLE if text(value)? != table => return None,
            NFTA_OBJ_NAME => name = text(value),
            NFTA_OBJ_TYPE if value != NFT_OBJECT_COUNTER.to_be_bytes() => return None,
            NFTA_OBJ_DATA => {
                let (_, value) = attributes(value).find(|(k, _)| *k == NFTA_COUNTER_PACKETS)?;
                packets = value.first_chunk().map(|b| u64::from_be_bytes(*b));
            }
            _ => {}
        }
    }
    Some((name?, packets?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tc::nest;

    #[test]
    fn a_counter_is_read_and_other_objects_are_not() {
        let object = |table: &str, kind: u32| {
            let mut out = vec![NFPROTO_INET, 0, 0, 5];
            put_str(&mut out, NFTA_OBJ_TABLE, table);
            put_str(&mut out, NFTA_OBJ_NAME, "classified_down");
            put(&mut out, NFTA_OBJ_TYPE, &kind.to_be_bytes());
            nest(&mut out, NFTA_OBJ_DATA | 0x8000, |out| {
                put(out, 1, &6_000u64.to_be_bytes());
                put(out, NFTA_COUNTER_PACKETS, &5_000_000_001u64.to_be_bytes());
            });
            out
        };
        let ours = object("fairmesh", 1);
        assert_eq!(read(&ours, "fairmesh"), Some(("classified_down", 5_000_000_001)));
        assert_eq!(read(&object("fairmesh", 2), "fairmesh"), None, "a quota");
        assert_eq!(read(&object("other", 1), "fairmesh"), None);
        assert_eq!(read(&ours[..3], "fairmesh"), None);
    }
}
