//! Rules of other programs that write one of our classes into packets.
//!
//! Such a rule moves packets into the class of one subscriber, whoever they belong to; counters of
//! classes alone do not show it. Rules are read from the kernel as expressions
//! (`linux/netfilter/nf_tables.h`), those of `iptables-nft` included.

use std::collections::BTreeMap;
use std::fmt;

use super::alive::GET_RULE;
use crate::error::Error;
use crate::netlink::Netlink;
use crate::tc::attributes;

/// `struct nfgenmsg`.
const HEAD: usize = 4;
const NFTA_RULE_TABLE: u16 = 1;
const NFTA_RULE_CHAIN: u16 = 2;
const NFTA_RULE_EXPRESSIONS: u16 = 4;
const NFTA_LIST_ELEM: u16 = 1;
const NFTA_EXPR_NAME: u16 = 1;
const NFTA_EXPR_DATA: u16 = 2;
const NFTA_IMMEDIATE_DREG: u16 = 1;
const NFTA_IMMEDIATE_DATA: u16 = 2;
const NFTA_DATA_VALUE: u16 = 1;
const NFTA_META_KEY: u16 = 2;
const NFTA_META_SREG: u16 = 3;
const NFTA_TARGET_NAME: u16 = 1;
const NFTA_TARGET_INFO: u16 = 3;
const META_PRIORITY: u32 = 2;
const META_MARK: u32 = 3;

/// A rule of another program, and the class that it gives to packets.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ForeignRule {
    family: u8,
    table: String,
    chain: String,
    /// Priority or mark.
    pub class: u32,
}

impl fmt::Display for ForeignRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = match self.family {
            1 => "inet",
            2 => "ip",
            5 => "netdev",
            7 => "bridge",
            10 => "ip6",
            _ => "?",
        };
        write!(f, "{family} {} {}", self.table, self.chain)
    }
}

/// Finds rules outside of a table that write a constant priority or mark of which `ours` is true.
///
/// # Errors
/// The kernel's refusal.
pub(crate) fn find(
    netfilter: &mut Netlink,
    own: &str,
    ours: impl Fn(u32) -> bool,
) -> Result<Vec<ForeignRule>, Error> {
    let mut found = Vec::new();
    let ask = |out: &mut Vec<u8>| out.extend([0; HEAD]);
    netfilter.dump("nftables rules", GET_RULE, ask, |_, payload| {
        found.extend(read(payload).filter(|rule| rule.table != own && ours(rule.class)));
    })?;
    found.sort();
    found.dedup();
    Ok(found)
}

/// Reads a rule; `None` if it writes neither priority nor mark, or none that is constant.
pub fn read(payload: &[u8]) -> Option<ForeignRule> {
    let of = |kind: u16| value(payload.get(HEAD..)?, kind);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned();
    let class = class(of(NFTA_RULE_EXPRESSIONS)?)?;
    let (table, chain) = (text(of(NFTA_RULE_TABLE)?), text(of(NFTA_RULE_CHAIN)?));
    Some(ForeignRule { family: *payload.first()?, table, chain, class })
}

fn value(of: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(of).find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
}

fn number(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.first_chunk()?))
}

/// The constant that expressions write into a packet's priority or mark.
fn class(expressions: &[u8]) -> Option<u32> {
    let mut constants: BTreeMap<u32, u32> = BTreeMap::new();
    for (_, expression) in attributes(expressions).filter(|(kind, _)| *kind == NFTA_LIST_ELEM) {
        let Some(data) = value(expression, NFTA_EXPR_DATA) else { continue };
        match value(expression, NFTA_EXPR_NAME)?.split(|b| *b == 0).next()? {
            b"immediate" => {
                let constant = value(data, NFTA_IMMEDIATE_DATA)
                    .and_then(|data| value(data, NFTA_DATA_VALUE)?.first_chunk().copied());
                let register = value(data, NFTA_IMMEDIATE_DREG).and_then(number);
                if let (Some(register), Some(constant)) = (register, constant) {
                    constants.insert(register, u32::from_ne_bytes(constant));
                }
            }
            b"meta" => {
                let key = value(data, NFTA_META_KEY).and_then(number);
                let source = value(data, NFTA_META_SREG).and_then(number);
                if let (Some(META_PRIORITY | META_MARK), Some(source)) = (key, source)
                    && let Some(class) = constants.get(&source)
                {
                    return Some(*class);
                }
            }
            // `struct xt_classify_target_info`, `struct xt_mark_tginfo2`: the value is first.
            b"target" => {
                let name = value(data, NFTA_TARGET_NAME)?;
                if name.starts_with(b"CLASSIFY\0") || name.starts_with(b"MARK\0") {
                    let info = value(data, NFTA_TARGET_INFO)?;
                    return Some(u32::from_ne_bytes(*info.first_chunk()?));
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tc::{nest, put, put_str};

    fn rule(expressions: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = vec![1, 0, 0, 0];
        put_str(&mut out, NFTA_RULE_TABLE, "other");
        put_str(&mut out, NFTA_RULE_CHAIN, "post");
        nest(&mut out, NFTA_RULE_EXPRESSIONS | 0x8000, expressions);
        out
    }

    fn expression(out: &mut Vec<u8>, name: &str, data: impl Fn(&mut Vec<u8>)) {
        nest(out, NFTA_LIST_ELEM | 0x8000, |out| {
            put_str(out, NFTA_EXPR_NAME, name);
            nest(out, NFTA_EXPR_DATA | 0x8000, &data);
        });
    }

    fn set(key: u32, constant: u32) -> Vec<u8> {
        rule(|out| {
            expression(out, "immediate", |out| {
                put(out, NFTA_IMMEDIATE_DREG, &8u32.to_be_bytes());
                nest(out, NFTA_IMMEDIATE_DATA | 0x8000, |out| {
                    put(out, NFTA_DATA_VALUE, &constant.to_ne_bytes());
                });
            });
            expression(out, "meta", |out| {
                put(out, NFTA_META_KEY, &key.to_be_bytes());
                put(out, NFTA_META_SREG, &8u32.to_be_bytes());
            });
        })
    }

    #[test]
    fn constants_that_become_priority_or_mark() {
        let found = read(&set(META_PRIORITY, 0x0fa1_0002)).unwrap();
        assert_eq!((found.class, found.to_string().as_str()), (0x0fa1_0002, "inet other post"));
        assert_eq!(read(&set(META_MARK, 5)).unwrap().class, 5);
        assert_eq!(read(&set(1, 5)), None, "another key");
        let classify = rule(|out| {
            expression(out, "target", |out| {
                put_str(out, NFTA_TARGET_NAME, "CLASSIFY");
                put(out, NFTA_TARGET_INFO, &0x0fa1_0003u32.to_ne_bytes());
            });
        });
        assert_eq!(read(&classify).unwrap().class, 0x0fa1_0003);
        let whole = set(META_PRIORITY, 1);
        for length in 0..whole.len() {
            assert!(read(&whole[..length]).is_none_or(|r| r.class == 1), "{length}");
        }
    }
}
