//! Counters, and the objects of qdisc and class dumps.

use super::htb::{long, word};
use super::{Handle, Head, attributes};

const TCA_KIND: u16 = libc::TCA_KIND;
const TCA_OPTIONS: u16 = libc::TCA_OPTIONS;
const TCA_STATS2: u16 = libc::TCA_STATS2;
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;
const TCA_STATS_PKT64: u16 = 8;

/// Counters of a qdisc or class (`TCA_STATS2`).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    /// Bytes sent.
    pub bytes: u64,
    /// Packets sent.
    pub packets: u64,
    /// Packets waiting.
    pub queued_packets: u32,
    /// Bytes waiting.
    pub queued_bytes: u32,
    /// Packets dropped.
    pub drops: u32,
    /// Times that a limit delayed a packet.
    pub overlimits: u32,
}

impl Stats {
    /// Reads the value of `TCA_STATS2`.
    pub fn read(value: &[u8]) -> Option<Stats> {
        let mut stats = Stats::default();
        let mut wide = None;
        for (kind, value) in attributes(value) {
            match kind {
                TCA_STATS_BASIC => {
                    stats.bytes = long(value)?;
                    stats.packets = u64::from(word(value, 8)?);
                }
                TCA_STATS_PKT64 => wide = long(value),
                TCA_STATS_QUEUE => {
                    stats.queued_packets = word(value, 0)?;
                    stats.queued_bytes = word(value, 4)?;
                    stats.drops = word(value, 8)?;
                    stats.overlimits = word(value, 16)?;
                }
                _ => {}
            }
        }
        if let Some(packets) = wide {
            stats.packets = packets;
        }
        Some(stats)
    }
}

/// A qdisc, class or filter as dumped; borrows from the message.
#[derive(Clone, Copy, Debug)]
pub struct Dumped<'a> {
    /// Interface, handle, parent.
    pub head: Head,
    /// Kind.
    pub kind: &'a str,
    /// The value of `TCA_OPTIONS`.
    pub options: &'a [u8],
    /// Counters, if there are any.
    pub stats: Option<Stats>,
}

impl<'a> Dumped<'a> {
    /// Reads the payload of a message.
    pub fn read(payload: &'a [u8]) -> Option<Dumped<'a>> {
        let (head, rest) = Head::read(payload)?;
        let mut dumped = Dumped { head, kind: "", options: &[], stats: None };
        for (kind, value) in attributes(rest) {
            match kind {
                TCA_KIND => {
                    dumped.kind = std::str::from_utf8(value).ok()?.trim_end_matches('\0');
                }
                TCA_OPTIONS => dumped.options = value,
                TCA_STATS2 => dumped.stats = Stats::read(value),
                _ => {}
            }
        }
        Some(dumped)
    }

    /// True if the kernel made it by itself, as every interface's first root qdisc.
    pub fn is_kernels_default(&self) -> bool {
        self.head.parent == Handle::ROOT && self.head.handle == Handle::NONE
    }
}
