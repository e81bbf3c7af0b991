//! Traffic-control messages (`linux/pkt_sched.h`, `linux/rtnetlink.h`) as bytes.
//!
//! There is no socket.
//!
//! Files: `mod` handles, message head and attributes; `htb` the qdisc and its classes; `leaf` queues in a class;
//! `filter` classification, `foreign` that of other programs; `stats` counters and dumped objects.

pub mod filter;
pub mod foreign;
pub mod fq;
pub mod htb;
pub mod leaf;
pub mod stats;

use std::fmt;

/// An attribute's kind without `NLA_F_NESTED` and `NLA_F_NET_BYTEORDER`.
const NLA_TYPE_MASK: u16 = 0x3fff;

/// A qdisc's handle or a class's number: major and minor, as `tc` writes `fa1:10`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub u32);

impl Handle {
    /// Parent of a root qdisc (`TC_H_ROOT`).
    pub const ROOT: Handle = Handle(0xffff_ffff);
    /// No handle (`TC_H_UNSPEC`). Qdiscs with this handle were made by the kernel itself.
    pub const NONE: Handle = Handle(0);
    /// Handle of a `clsact` qdisc.
    pub const CLSACT: Handle = Handle(0xffff_0000);
    /// Parent of a `clsact` qdisc (`TC_H_CLSACT`).
    pub const CLSACT_PARENT: Handle = Handle(0xffff_fff1);
    /// Filters of arriving packets on `clsact` (`TC_H_MIN_INGRESS`).
    pub const INGRESS: Handle = Handle(0xffff_fff2);
    /// Filters of leaving packets on `clsact` (`TC_H_MIN_EGRESS`).
    pub const EGRESS: Handle = Handle(0xffff_fff3);

    /// Returns the handle of two halves.
    pub const fn new(major: u16, minor: u16) -> Self {
        Handle((major as u32) << 16 | minor as u32)
    }

    /// Returns the qdisc's half.
    pub const fn major(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// Returns the class's half.
    pub const fn minor(self) -> u16 {
        self.0 as u16
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.minor() {
            0 => write!(f, "{:x}:", self.major()),
            minor => write!(f, "{:x}:{minor:x}", self.major()),
        }
    }
}
impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// `struct tcmsg`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// Index of the interface.
    pub index: u32,
    /// Handle of the object.
    pub handle: Handle,
    /// Parent of the object.
    pub parent: Handle,
    /// For filters: priority and protocol. For other objects: references.
    pub info: u32,
}

impl Head {
    /// Size, in bytes.
    pub const SIZE: usize = 20;

    /// Returns the head of an object on an interface.
    pub const fn new(index: u32, handle: Handle, parent: Handle) -> Self {
        Head { index, handle, parent, info: 0 }
    }

    /// Appends the head.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend([0; 4]); // family AF_UNSPEC, padding
        for word in [self.index, self.handle.0, self.parent.0, self.info] {
            out.extend(word.to_ne_bytes());
        }
    }

    /// Reads the head from the beginning of a payload; returns the attributes as well.
    pub fn read(payload: &[u8]) -> Option<(Head, &[u8])> {
        let word = |at: usize| payload.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
        let head = Head {
            index: word(4)?,
            handle: Handle(word(8)?),
            parent: Handle(word(12)?),
            info: word(16)?,
        };
        Some((head, &payload[Head::SIZE..]))
    }
}

/// Appends an attribute, padded to 4 bytes.
pub fn put(out: &mut Vec<u8>, kind: u16, value: &[u8]) {
    out.extend((value.len() as u16 + 4).to_ne_bytes());
    out.extend(kind.to_ne_bytes());
    out.extend(value);
    out.resize(out.len().next_multiple_of(4), 0);
}

/// Appends a 32-bit number.
pub(crate) fn put_u32(out: &mut Vec<u8>, kind: u16, value: u32) {
    put(out, kind, &value.to_ne_bytes());
}

/// Appends a 64-bit number.
pub(crate) fn put_u64(out: &mut Vec<u8>, kind: u16, value: u64) {
    put(out, kind, &value.to_ne_bytes());
}

/// Appends a string with its final zero.
pub(crate) fn put_str(out: &mut Vec<u8>, kind: u16, value: &str) {
    let mut bytes = Vec::with_capacity(value.len() + 1);
    bytes.extend(value.as_bytes());
    bytes.push(0);
    put(out, kind, &bytes);
}

/// Appends an attribute that contains others.
///
/// The flag `NLA_F_NESTED` is omitted, as `tc` does for these old attributes.
pub(crate) fn nest(out: &mut Vec<u8>, kind: u16, inside: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend([0, 0]);
    out.extend(kind.to_ne_bytes());
    inside(out);
    let length = (out.len() - start) as u16;
    out[start..start + 2].copy_from_slice(&length.to_ne_bytes());
}

/// Iterates over the attributes in some bytes: kind without flags, value.
///
/// It stops at an invalid one.
///
/// `netlink-packet-core` has this too, but its values do not outlive its iterator's items, so they would have to be
/// copied, which is slow for a sample of 20,000 classes.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let head: &[u8; 4] = bytes.first_chunk()?;
        let length = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((u16::from_ne_bytes([head[2], head[3]]) & NLA_TYPE_MASK, value))
    })
}

/// Appends `TCA_KIND`.
pub(crate) fn put_kind(out: &mut Vec<u8>, kind: &str) {
    put_str(out, libc::TCA_KIND, kind);
}

#[cfg(test)]
mod tests;
