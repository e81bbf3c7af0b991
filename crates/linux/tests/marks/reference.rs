//! The rule of marks in plain code, and frames for it.

use fairmesh_linux::bpf::{MarkRule, NotEct};
use proptest::prelude::*;

/// Fate of a frame when the chance is 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// The rule does not apply.
    Passes,
    Marked,
    Dropped,
}

/// Returns the fate of a frame, and marks it.
pub fn apply(rule: MarkRule, frame: &mut [u8]) -> Fate {
    match ip_header(frame) {
        Some(at) => choose(rule, &mut frame[at..]),
        None => Fate::Passes,
    }
}

fn choose(rule: MarkRule, ip: &mut [u8]) -> Fate {
    let v4 = ip[0] >> 4 == 4;
    let ecn = if v4 { ip[1] & 3 } else { ip[1] >> 4 & 3 };
    match ecn {
        0 if rule.not_ect == NotEct::Drop => return Fate::Dropped,
        1 if rule.ect1 => {}
        2 => {}
        _ => return Fate::Passes,
    }
    if v4 {
        let before = u16::from_be_bytes([ip[0], ip[1]]);
        ip[1] |= 3;
        let after = u16::from_be_bytes([ip[0], ip[1]]);
        // RFC 1624 §3, equation 3.
        let old = u16::from_be_bytes([ip[10], ip[11]]);
        let mut sum = u32::from(!old) + u32::from(!before) + u32::from(after);
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        ip[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    } else {
        ip[1] |= 0x30;
    }
    Fate::Marked
}

/// Returns the offset of a whole IP header behind tags and batman-adv.
fn ip_header(frame: &[u8]) -> Option<usize> {
    if frame.len() < 14 || frame[0] & 1 == 1 {
        return None;
    }
    let (mut kind, mut at) = untagged(frame, 12)?;
    if kind == 0x4305 {
        let header = match (frame.get(at)?, frame.get(at + 1)?) {
            (0x40, 15) => 10,
            (0x42, 15) => 18,
            _ => return None,
        };
        (kind, at) = untagged(frame, at + header + 12)?;
    }
    let ip = &frame[at.min(frame.len())..];
    let whole = match (kind, ip.first()? >> 4) {
        (0x0800, 4) => usize::from(ip[0] & 15) * 4,
        (0x86dd, 6) => 40,
        _ => return None,
    };
    (whole >= 20 && ip.len() >= whole).then_some(at)
}

/// Returns the ethertype behind at most one tag and the offset of the header that follows.
fn untagged(frame: &[u8], at: usize) -> Option<(u16, usize)> {
    let kind = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
    match kind(at)? {
        0x8100 | 0x88a8 => Some((kind(at + 4)?, at + 6)),
        other => Some((other, at + 2)),
    }
}

/// Sum of a header's words with carries: 0xffff if the checksum is right (RFC 1071).
pub fn sum(header: &[u8]) -> u16 {
    let words = header.chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    ((folded & 0xffff) + (folded >> 16)) as u16
}

/// A frame of parts.
#[derive(Clone, Debug)]
pub struct Frame {
    pub to: [u8; 6],
    pub tag: Option<u16>,
    /// Type and version of a batman-adv header.
    pub batman: Option<(u8, u8)>,
    pub inner_tag: Option<u16>,
    pub v6: bool,
    pub ecn: u8,
    pub dscp: u8,
    /// Words of IPv4 options.
    pub options: u8,
    pub payload: Vec<u8>,
}

pub const NEXT_HOP: [u8; 6] = [2, 0, 0, 0, 2, 0];

impl Frame {
    pub fn plain(v6: bool, ecn: u8) -> Self {
        let payload = (0..60).collect();
        Frame {
            to: NEXT_HOP,
            tag: None,
            batman: None,
            inner_tag: None,
            v6,
            ecn,
            dscp: 10,
            options: 0,
            payload,
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        ethernet(&mut out, self.to, self.tag);
        if let Some((kind, version)) = self.batman {
            out.extend(0x4305u16.to_be_bytes());
            out.extend([kind, version, 50, 1, 2, 0, 0, 0, 9, 0]);
            if kind == 0x42 {
                out.extend([2, 0, 0, 0, 8, 0, 1, 0]);
            }
            ethernet(&mut out, [2, 1, 1, 1, 1, 1], self.inner_tag);
        }
        let class = self.dscp << 2 | self.ecn;
        if self.v6 {
            out.extend(0x86ddu16.to_be_bytes());
            out.extend([0x60 | class >> 4, class << 4 | 7, 1, 2]);
            out.extend((self.payload.len() as u16).to_be_bytes());
            out.extend([17, 64]);
            out.extend((0..32).map(|n| n * 7));
        } else {
            out.extend(0x0800u16.to_be_bytes());
            let start = out.len();
            let length = (20 + 4 * self.options as usize + self.payload.len()) as u16;
            out.extend([0x45 + self.options, class]);
            out.extend(length.to_be_bytes());
            out.extend([1, 2, 0x40, 0, 64, 17, 0, 0, 10, 2, 0, 1, 10, 9, 0, 2]);
            out.extend(std::iter::repeat_n(1, 4 * self.options as usize)); // no operation
            let checksum = !sum(&out[start..]);
            out[start + 10..start + 12].copy_from_slice(&checksum.to_be_bytes());
        }
        out.extend(&self.payload);
        out
    }

    /// Returns the offset of the IP header.
    pub fn ip(&self) -> usize {
        let tag = |tag: Option<u16>| if tag.is_some() { 4 } else { 0 };
        let batman = match self.batman {
            None => 0,
            Some((0x42, _)) => 18 + 14 + tag(self.inner_tag),
            Some(_) => 10 + 14 + tag(self.inner_tag),
        };
        14 + tag(self.tag) + batman
    }
}

fn ethernet(out: &mut Vec<u8>, to: [u8; 6], tag: Option<u16>) {
    out.extend(to);
    out.extend([2, 0, 0, 0, 1, 0]);
    if let Some(kind) = tag {
        out.extend(kind.to_be_bytes());
        out.extend([0, 7]);
    }
}

/// Frames of every kind, most of them such that the rule applies.
pub fn frames() -> impl Strategy<Value = Frame> {
    let tag = || prop_oneof![3 => Just(None), 1 => Just(Some(0x8100)), 1 => Just(Some(0x88a8))];
    let batman = prop_oneof![
        2 => Just(None),
        2 => Just(Some((0x40, 15))),
        2 => Just(Some((0x42, 15))),
        1 => (any::<u8>(), 14u8..=16).prop_map(Some),
    ];
    let to = prop_oneof![6 => Just(NEXT_HOP), 1 => any::<[u8; 6]>()];
    let ip = (any::<bool>(), 0u8..4, 0u8..64, 0u8..=10);
    let payload = proptest::collection::vec(any::<u8>(), 0..100);
    (to, tag(), batman, tag(), ip, payload).prop_map(|(to, tag, batman, inner_tag, ip, payload)| {
        let (v6, ecn, dscp, options) = ip;
        Frame { to, tag, batman, inner_tag, v6, ecn, dscp, options, payload }
    })
}
