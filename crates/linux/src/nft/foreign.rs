//! Rules of other programs that write one of our classes into packets.
//!
//! Such a rule moves packets into the class of one subscriber, whatever their subscriber is; counters of
//! classes alone do not show it. Rules are read from the kernel as expressions
//! (`linux/netfilter/nf_tables.h`), including those of `iptables-nft`. The value is a constant, an element of
//! a map (which is then read), or computed. In the last case the rule may write any class.

use std::collections::BTreeMap;
use std::fmt;

use super::alive::{self, GET_RULE};
use crate::error::Error;
use crate::netlink::Netlink;
use crate::tc::attributes;

/// `struct nfgenmsg`.
const NFGENMSG_BYTES: usize = 4;
const NFTA_RULE_TABLE: u16 = 1;
const NFTA_RULE_CHAIN: u16 = 2;
const NFTA_RULE_EXPRESSIONS: u16 = 4;
const NFTA_LIST_ELEM: u16 = 1;
const NFTA_EXPR_NAME: u16 = 1;
const NFTA_EXPR_DATA: u16 = 2;
const NFTA_IMMEDIATE_DREG: u16 = 1;
const NFTA_IMMEDIATE_DATA: u16 = 2;
const NFTA_DATA_VALUE: u16 = 1;
const NFTA_LOOKUP_SET: u16 = 1;
const NFTA_LOOKUP_DREG: u16 = 3;
const NFTA_META_KEY: u16 = 2;
const NFTA_META_SREG: u16 = 3;
const NFTA_TARGET_NAME: u16 = 1;
const NFTA_TARGET_INFO: u16 = 3;
/// Attribute of the register that an expression writes.
///
/// It is the first attribute in most of them (`payload`, `ct`, `numgen`, …).
const FIRST_DREG: u16 = 1;
const SECOND_DREG: u16 = 2;
const META_PRIORITY: u32 = 2;
const META_MARK: u32 = 3;

/// A rule of another program that writes a packet's priority or mark.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ForeignRule {
    family: u8,
    table: String,
    chain: String,
    /// Value that the rule writes.
    pub value: Value,
}

/// Value that a rule writes into a packet's priority or mark.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Value {
    /// A constant value.
    Constant(u32),
    /// An element of the map of this name.
    Map(String),
    /// A priority computed from other properties of the packet.
    Computed,
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

/// Finds rules outside of a table that may write one of our classes.
///
/// That is a priority or mark for which `ours` is true, or a computed priority. For a map, the value is the first
/// element for which `ours` is true.
///
/// # Errors
/// Returns the kernel's refusal.
pub(crate) fn find(
    netfilter: &mut Netlink,
    own: &str,
    ours: impl Fn(u32) -> bool,
) -> Result<Vec<ForeignRule>, Error> {
    let mut found = Vec::new();
    let ask = |out: &mut Vec<u8>| out.extend([0; NFGENMSG_BYTES]);
    netfilter.dump("nftables rules", GET_RULE, ask, |_, payload| {
        found.extend(read(payload).filter(|rule| rule.table != own));
    })?;
    found.sort();
    found.dedup();
    let mut kept = Vec::new();
    for mut rule in found {
        if let Value::Map(map) = &rule.value {
            let mut class = None;
            alive::elements(netfilter, rule.family, &rule.table, map, |element| {
                class = class.or(element.map(|e| e.value).filter(|value| ours(*value)));
            })?;
            let Some(class) = class else { continue };
            rule.value = Value::Constant(class);
        }
        if !matches!(rule.value, Value::Constant(class) if !ours(class)) {
            kept.push(rule);
        }
    }
    Ok(kept)
}

/// Reads a rule that writes a priority, or a mark from a constant or a map; else `None`.
pub fn read(payload: &[u8]) -> Option<ForeignRule> {
    let of = |kind: u16| attribute(payload.get(NFGENMSG_BYTES..)?, kind);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned();
    let value = written(of(NFTA_RULE_EXPRESSIONS)?)?;
    let (table, chain) = (text(of(NFTA_RULE_TABLE)?), text(of(NFTA_RULE_CHAIN)?));
    Some(ForeignRule { family: *payload.first()?, table, chain, value })
}

fn attribute(of: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(of).find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
}

fn number(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.first_chunk()?))
}

fn name(bytes: &[u8]) -> Option<&[u8]> {
    bytes.split(|b| *b == 0).next()
}

/// Returns the value that expressions write into the packet's priority or mark.
fn written(expressions: &[u8]) -> Option<Value> {
    let mut registers: BTreeMap<u32, Value> = BTreeMap::new();
    for (_, expression) in attributes(expressions).filter(|(kind, _)| *kind == NFTA_LIST_ELEM) {
        let Some(data) = attribute(expression, NFTA_EXPR_DATA) else { continue };
        let expression = name(attribute(expression, NFTA_EXPR_NAME)?)?;
        let (register, value) = match expression {
            b"immediate" => {
                let constant = attribute(data, NFTA_IMMEDIATE_DATA)
                    .and_then(|data| attribute(data, NFTA_DATA_VALUE)?.first_chunk().copied());
                let constant = constant.map(|c| Value::Constant(u32::from_ne_bytes(c)));
                (NFTA_IMMEDIATE_DREG, constant)
            }
            b"lookup" => {
                let map = attribute(data, NFTA_LOOKUP_SET).and_then(name);
                let map = map.map(|map| Value::Map(String::from_utf8_lossy(map).into_owned()));
                (NFTA_LOOKUP_DREG, map)
            }
            b"meta" => {
                let key = attribute(data, NFTA_META_KEY).and_then(number);
                let source = attribute(data, NFTA_META_SREG).and_then(number);
                if let (Some(META_PRIORITY | META_MARK), Some(source)) = (key, source) {
                    match (key, registers.get(&source)) {
                        (_, Some(value)) => return Some(value.clone()),
                        (Some(META_PRIORITY), None) => return Some(Value::Computed),
                        // Many programs that do not use classes compute marks.
                        _ => {}
                    }
                }
                (FIRST_DREG, None)
            }
            // `struct xt_classify_target_info`, `struct xt_mark_tginfo2`: the value is the first field.
            b"target" => {
                let name = attribute(data, NFTA_TARGET_NAME)?;
                if name.starts_with(b"CLASSIFY\0") || name.starts_with(b"MARK\0") {
                    let info = attribute(data, NFTA_TARGET_INFO)?;
                    return Some(Value::Constant(u32::from_ne_bytes(*info.first_chunk()?)));
                }
                continue;
            }
            b"bitwise" | b"byteorder" | b"hash" => (SECOND_DREG, None),
            _ => (FIRST_DREG, None),
        };
        if let Some(register) = attribute(data, register).and_then(number) {
            match value {
                Some(value) => registers.insert(register, value),
                None => registers.remove(&register),
            };
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

    fn constant(out: &mut Vec<u8>, constant: u32) {
        expression(out, "immediate", |out| {
            put(out, NFTA_IMMEDIATE_DREG, &8u32.to_be_bytes());
            nest(out, NFTA_IMMEDIATE_DATA | 0x8000, |out| {
                put(out, NFTA_DATA_VALUE, &constant.to_ne_bytes());
            });
        });
    }

    fn write(out: &mut Vec<u8>, key: u32) {
        expression(out, "meta", |out| {
            put(out, NFTA_META_KEY, &key.to_be_bytes());
            put(out, NFTA_META_SREG, &8u32.to_be_bytes());
        });
    }

    fn set(key: u32, value: u32) -> Vec<u8> {
        rule(|out| {
            constant(out, value);
            write(out, key);
        })
    }

    #[test]
    fn mapped_and_computed_values_are_distinguished() {
        let mapped = rule(|out| {
            constant(out, 5);
            expression(out, "lookup", |out| {
                put_str(out, NFTA_LOOKUP_SET, "__map0");
                put(out, NFTA_LOOKUP_DREG, &8u32.to_be_bytes());
            });
            write(out, META_PRIORITY);
        });
        assert_eq!(read(&mapped).unwrap().value, Value::Map("__map0".into()));
        let computed = |key| {
            rule(|out| {
                constant(out, 5);
                expression(out, "bitwise", |out| {
                    put(out, FIRST_DREG, &8u32.to_be_bytes());
                    put(out, SECOND_DREG, &8u32.to_be_bytes());
                });
                write(out, key);
            })
        };
        assert_eq!(read(&computed(META_PRIORITY)).unwrap().value, Value::Computed);
        assert_eq!(read(&computed(META_MARK)), None, "marks are computed by many");
    }

    #[test]
    fn constants_that_become_priority_or_mark() {
        let found = read(&set(META_PRIORITY, 0x0fa1_0002)).unwrap();
        assert_eq!(found.value, Value::Constant(0x0fa1_0002));
        assert_eq!(found.to_string(), "inet other post");
        assert_eq!(read(&set(META_MARK, 5)).unwrap().value, Value::Constant(5));
        assert_eq!(read(&set(1, 5)), None, "another key");
        let classify = rule(|out| {
            expression(out, "target", |out| {
                put_str(out, NFTA_TARGET_NAME, "CLASSIFY");
                put(out, NFTA_TARGET_INFO, &0x0fa1_0003u32.to_ne_bytes());
            });
        });
        assert_eq!(read(&classify).unwrap().value, Value::Constant(0x0fa1_0003));
        let whole = set(META_PRIORITY, 1);
        for length in 0..whole.len() {
            let read = read(&whole[..length]);
            assert!(read.is_none_or(|r| matches!(r.value, Value::Constant(1) | Value::Computed)));
        }
    }
}
