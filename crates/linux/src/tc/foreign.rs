//! Filters of other programs that give packets a class, a priority or a mark.
//!
//! Numbers of attributes: `linux/pkt_cls.h`, `linux/tc_act/tc_skbedit.h`.

use super::stats::Dumped;
use super::{Handle, attributes};

/// Parent of filters on egress, if the interface has a `clsact` qdisc.
pub const EGRESS: Handle = Handle::new(0xffff, 0xfff3);

const TCA_ACT_KIND: u16 = 1;
const TCA_ACT_OPTIONS: u16 = 2;
const TCA_SKBEDIT_PRIORITY: u16 = 3;
const TCA_SKBEDIT_MARK: u16 = 5;
const TCA_SKBEDIT_FLAGS: u16 = 9;
const TCA_BPF_FLAGS: u16 = 8;
const TCA_BPF_FLAG_ACT_DIRECT: u32 = 1;
/// `SKBEDIT_F_INHERITDSFIELD`: the priority becomes the packet's DSCP.
const SKBEDIT_F_INHERITDSFIELD: u64 = 0x20;

/// Properties of a filter that concern classes.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Filter {
    /// Kind: `u32`, `flower`, `matchall`, ….
    pub kind: String,
    /// Priority among filters of one parent: the lowest is tried first.
    pub prio: u16,
    /// The class that it names, or the first of several.
    pub class: Option<Handle>,
    /// Values that its actions write into the priority; `None` for one that is not constant.
    pub priorities: Vec<Option<u32>>,
    /// Values that its actions write into the mark.
    pub marks: Vec<u32>,
    /// True if it is or runs a program, which may write any value.
    pub program: bool,
}

impl Filter {
    /// Reads a dumped filter; `None` for any other message.
    pub fn read(payload: &[u8]) -> Option<Filter> {
        let Dumped { head, kind, options, .. } = Dumped::read(payload)?;
        let mut filter =
            Filter { kind: kind.to_owned(), prio: (head.info >> 16) as u16, ..Filter::default() };
        let (class, actions) = match kind {
            "bpf" => (3, 1),
            "flow" => (3, 9),
            "u32" => (1, 7),
            "fw" => (1, 4),
            "route" => (1, 6),
            "basic" | "flower" => (1, 3),
            "matchall" => (1, 2),
            "cgroup" => (u16::MAX, 1),
            _ => return Some(filter),
        };
        for (attribute, value) in attributes(options) {
            if attribute == class {
                filter.class = word(value).map(Handle);
            } else if attribute == actions {
                attributes(value).for_each(|(_, action)| filter.action(action));
            } else if kind == "bpf" && attribute == TCA_BPF_FLAGS {
                filter.program |= word(value).is_some_and(|f| f & TCA_BPF_FLAG_ACT_DIRECT != 0);
            }
        }
        Some(filter)
    }

    fn action(&mut self, action: &[u8]) {
        let of = |wanted| attributes(action).find(|(kind, _)| *kind == wanted).map(|(_, v)| v);
        let kind = of(TCA_ACT_KIND).and_then(|kind| kind.split(|b| *b == 0).next());
        match kind {
            Some(b"bpf") => self.program = true,
            Some(b"skbedit") => {
                for (attribute, value) in attributes(of(TCA_ACT_OPTIONS).unwrap_or_default()) {
                    match attribute {
                        TCA_SKBEDIT_PRIORITY => self.priorities.extend(word(value).map(Some)),
                        TCA_SKBEDIT_MARK => self.marks.extend(word(value)),
                        TCA_SKBEDIT_FLAGS if inherits(value) => self.priorities.push(None),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
}

fn inherits(flags: &[u8]) -> bool {
    flags
        .first_chunk()
        .is_some_and(|flags| u64::from_ne_bytes(*flags) & SKBEDIT_F_INHERITDSFIELD != 0)
}

fn word(value: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(*value.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tc::{Head, nest, put, put_kind, put_u32};

    fn filter(kind: &str, options: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        let head = Head { info: 10 << 16 | 0x300, ..Head::new(3, Handle(1), EGRESS) };
        head.write(&mut out);
        put_kind(&mut out, kind);
        nest(&mut out, libc::TCA_OPTIONS, options);
        out
    }

    fn action(out: &mut Vec<u8>, kind: &str, options: impl Fn(&mut Vec<u8>)) {
        nest(out, 1, |out| {
            put(out, TCA_ACT_KIND, format!("{kind}\0").as_bytes());
            nest(out, TCA_ACT_OPTIONS, options);
        });
    }

    #[test]
    fn classes_and_values_of_actions_are_read() {
        let whole = filter("matchall", |out| {
            put_u32(out, 1, 0x0fa1_0002);
            nest(out, 2, |out| {
                action(out, "skbedit", |out| {
                    put_u32(out, TCA_SKBEDIT_PRIORITY, 0x0fa1_0003);
                    put_u32(out, TCA_SKBEDIT_MARK, 7);
                    put(out, TCA_SKBEDIT_FLAGS, &SKBEDIT_F_INHERITDSFIELD.to_ne_bytes());
                });
                action(out, "gact", |_| {});
            });
        });
        let read = Filter::read(&whole).unwrap();
        assert_eq!((read.kind.as_str(), read.prio), ("matchall", 10));
        assert_eq!(read.class, Some(Handle(0x0fa1_0002)));
        assert_eq!((read.priorities, read.marks), (vec![Some(0x0fa1_0003), None], vec![7]));
        assert!(!read.program);
        for length in 0..whole.len() {
            let _ = Filter::read(&whole[..length]);
        }
        let direct = filter("bpf", |out| put_u32(out, TCA_BPF_FLAGS, TCA_BPF_FLAG_ACT_DIRECT));
        assert!(Filter::read(&direct).unwrap().program);
        let classic = filter("bpf", |out| put_u32(out, 3, 0x0fa1_0004));
        let read = Filter::read(&classic).unwrap();
        assert_eq!((read.class, read.program), (Some(Handle(0x0fa1_0004)), false));
        let run = filter("u32", |out| nest(out, 7, |out| action(out, "bpf", |_| {})));
        assert!(Filter::read(&run).unwrap().program);
    }
}
