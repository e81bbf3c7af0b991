//! What gateways tell each other, and its bytes.
//!
//! A message is a heading and, of one kind, records: what a gateway's subscribers have sent, or what those of
//! others may send. Integers are LEB128 (DWARF 5 §7.6), at most ten bytes each. It says nothing of who may be
//! believed: on a wire that others reach, the host signs what it carries.

use fairmesh_units::{BitRate, FlowId, NodeId};

/// The most bytes of a message: with the headers of IPv6 and UDP, 48, and what a host wraps around it, 76 in
/// the daemon, it crosses every link in one piece (RFC 8200 §5: 1280).
pub(super) const MOST: usize = 1152;
/// Changes with the format.
const VERSION: u8 = 1;
const REPORT: u8 = 1;
const LIMITS: u8 = 2;
/// Bytes that a record of a flow takes at most.
const RECORD: usize = 80;

/// What every message says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Heading {
    /// Who says it.
    pub from: NodeId,
    /// Whom it follows; itself if it leads.
    pub leader: NodeId,
    /// Rises from start to start, and within a run from message to message.
    pub run: u64,
    pub sequence: u64,
    /// When its counters were read, ms of a clock of its own.
    pub sampled: u64,
    /// Of the limits that it was told, or tells: the number of their last change.
    pub version: u64,
}

/// What a flow has sent through its gateway, and what its subscriber has bought.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct FlowReport {
    pub flow: FlowId,
    /// Since some moment.
    pub bytes: u64,
    pub packets: u64,
    /// By its class; `None`: it has none, or nobody counts.
    pub drops: Option<u64>,
    pub weight: f32,
    pub hops: Option<u32>,
    pub branch: Option<NodeId>,
    pub guarantee: Option<BitRate>,
    pub ceiling: Option<BitRate>,
    /// Bytes of its full packets.
    pub packet: u32,
}

/// What a flow of another gateway may send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FlowLimit {
    /// Whose flow.
    pub gateway: NodeId,
    pub flow: FlowId,
    pub rate: BitRate,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) enum Said {
    Report(Vec<FlowReport>),
    Limits(Vec<FlowLimit>),
}

/// A message.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct PeerMessage {
    pub heading: Heading,
    pub said: Said,
}

fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn number(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            // What does not fit is no number.
            value |= part.checked_shl(shift).filter(|v| v >> shift == part)?;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn small(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    fn if_set(&mut self, flags: u8, bit: u8) -> Option<Option<u64>> {
        if flags & bit == 0 { Some(None) } else { self.number().map(Some) }
    }
}

const DROPS: u8 = 1;
const WEIGHT: u8 = 2;
const HOPS: u8 = 4;
const BRANCH: u8 = 8;
const GUARANTEE: u8 = 16;
const CEILING: u8 = 32;

impl FlowReport {
    fn encode(&self, out: &mut Vec<u8>) {
        let weighted = self.weight != 1.0;
        let set = [
            (DROPS, self.drops),
            (WEIGHT, weighted.then(|| u64::from(self.weight.to_bits()))),
            (HOPS, self.hops.map(u64::from)),
            (BRANCH, self.branch.map(|b| u64::from(b.0))),
            (GUARANTEE, self.guarantee.map(|r| r.0)),
            (CEILING, self.ceiling.map(|r| r.0)),
        ];
        put(out, u64::from(self.flow.0));
        out.push(set.iter().filter(|s| s.1.is_some()).map(|s| s.0).sum());
        put(out, self.bytes);
        put(out, self.packets);
        put(out, u64::from(self.packet));
        set.iter().filter_map(|s| s.1).for_each(|value| put(out, value));
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        let flow = FlowId(from.small()?);
        let flags = from.byte().filter(|f| *f < 2 * CEILING)?;
        let (bytes, packets, packet) = (from.number()?, from.number()?, from.small()?);
        let drops = from.if_set(flags, DROPS)?;
        let weight = match from.if_set(flags, WEIGHT)? {
            Some(bits) => f32::from_bits(u32::try_from(bits).ok()?),
            None => 1.0,
        };
        let hops = from.if_set(flags, HOPS)?;
        let branch = from.if_set(flags, BRANCH)?;
        let guarantee = from.if_set(flags, GUARANTEE)?.map(BitRate);
        let ceiling = from.if_set(flags, CEILING)?.map(BitRate);
        let narrow = |v: Option<u64>| v.map(u32::try_from).transpose().ok();
        let (hops, branch) = (narrow(hops)?, narrow(branch)?.map(NodeId));
        if !(weight > 0.0 && weight.is_finite()) {
            return None;
        }
        let report = FlowReport {
            flow,
            bytes,
            packets,
            drops,
            weight,
            hops,
            branch,
            guarantee,
            ceiling,
            packet,
        };
        Some(report)
    }
}

impl PeerMessage {
    /// As many messages as it takes, one at least: none is longer than [`MOST`].
    pub fn pack(heading: Heading, said: &Said, mut each: impl FnMut(&[u8])) -> u64 {
        let head = |sequence: u64, kind: u8| {
            let mut out = vec![VERSION, kind];
            for value in [u64::from(heading.from.0), u64::from(heading.leader.0), heading.run] {
                put(&mut out, value);
            }
            for value in [sequence, heading.sampled, heading.version] {
                put(&mut out, value);
            }
            out
        };
        let mut sequence = heading.sequence;
        let kind = match said {
            Said::Report(_) => REPORT,
            Said::Limits(_) => LIMITS,
        };
        let mut out = head(sequence, kind);
        let mut record = Vec::with_capacity(RECORD);
        let many = match said {
            Said::Report(all) => all.len(),
            Said::Limits(all) => all.len(),
        };
        for i in 0..many {
            record.clear();
            match said {
                Said::Report(all) => all[i].encode(&mut record),
                Said::Limits(all) => {
                    put(&mut record, u64::from(all[i].gateway.0));
                    put(&mut record, u64::from(all[i].flow.0));
                    put(&mut record, all[i].rate.0);
                }
            }
            if out.len() + record.len() > MOST {
                each(&out);
                sequence += 1;
                out = head(sequence, kind);
            }
            out.extend_from_slice(&record);
        }
        each(&out);
        sequence + 1
    }

    /// `None` if it is not such a message.
    pub fn decode(body: &[u8]) -> Option<Self> {
        if body.len() > MOST {
            return None;
        }
        let mut from = Reader(body);
        if from.byte()? != VERSION {
            return None;
        }
        let kind = from.byte()?;
        let (sender, leader) = (NodeId(from.small()?), NodeId(from.small()?));
        let (run, sequence) = (from.number()?, from.number()?);
        let (sampled, version) = (from.number()?, from.number()?);
        let heading = Heading { from: sender, leader, run, sequence, sampled, version };
        let said = match kind {
            REPORT => {
                let mut all = Vec::new();
                while !from.0.is_empty() {
                    all.push(FlowReport::decode(&mut from)?);
                }
                Said::Report(all)
            }
            LIMITS => {
                let mut all = Vec::new();
                while !from.0.is_empty() {
                    let (gateway, flow) = (NodeId(from.small()?), FlowId(from.small()?));
                    let rate = BitRate(from.number().filter(|r| *r > 0)?);
                    all.push(FlowLimit { gateway, flow, rate });
                }
                Said::Limits(all)
            }
            _ => return None,
        };
        Some(PeerMessage { heading, said })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_full_before_the_next_begins() {
        let (from, leader) = (NodeId(1), NodeId(1));
        let heading = Heading { from, leader, run: 1, sequence: 1, sampled: 1, version: 1 };
        let lengths = |limits: &[FlowLimit]| {
            let mut all = Vec::new();
            PeerMessage::pack(heading, &Said::Limits(limits.to_vec()), |body| all.push(body.len()));
            all
        };
        // A record is a byte each of its gateway and its flow, and so many of its rate.
        let limit = |bytes: usize| FlowLimit {
            gateway: NodeId(2),
            flow: FlowId(3),
            rate: BitRate(1 << (7 * (bytes - 1))),
        };
        let empty = lengths(&[])[0];
        let room = MOST - empty;
        let mut limits = vec![limit(1); room / 3 - 1];
        limits.push(limit(1 + room % 3));
        assert_eq!(lengths(&limits), [MOST]);
        limits.push(limit(1));
        assert_eq!(lengths(&limits), [MOST, empty + 3]);
    }
}
