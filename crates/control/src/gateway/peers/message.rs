//! Messages between gateways, and their encoding.
//!
//! A message is a heading followed by records of one kind: the traffic of a gateway's subscribers, or the limits of
//! other gateways' subscribers. Integers are LEB128 (DWARF 5 §7.6), at most ten bytes each. Messages carry no
//! authentication: on a wire that others can reach, the host signs them.

use fairmesh_units::{BitRate, FlowId, NodeId, Span};

use crate::{RoundTripSample, RoundTripSource};

/// Largest message in bytes.
///
/// With the headers of IPv6 and UDP, 48, and the wrapping of a host, 76 in the daemon, it crosses every link in one
/// piece (RFC 8200 §5: 1280).
pub(super) const MAX_MESSAGE_BYTES: usize = 1152;
/// Version of the format.
const VERSION: u8 = 2;
const REPORT: u8 = 1;
const LIMITS: u8 = 2;
/// Largest record of a flow in bytes.
const MAX_RECORD_BYTES: usize = 128;

/// Heading of every message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Heading {
    /// Sender.
    pub from: NodeId,
    /// Leader that the sender follows; the sender itself if it leads.
    pub leader: NodeId,
    /// Number of the run, which rises with each start.
    pub run: u64,
    /// Number of the message, which rises within a run.
    pub sequence: u64,
    /// Time at which the counters were read, ms of the sender's clock.
    pub sampled: u64,
    /// Number of the last change of the limits that it has received, or sends.
    pub version: u64,
}

/// Traffic of a flow through its gateway, and the plan of its subscriber.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct FlowReport {
    pub flow: FlowId,
    /// Cumulative bytes.
    pub bytes: u64,
    pub packets: u64,
    /// Drops of its class; `None` without a class or without a counter.
    pub drops: Option<u64>,
    pub weight: f32,
    pub hops: Option<u32>,
    pub branch: Option<NodeId>,
    pub guarantee: Option<BitRate>,
    pub ceiling: Option<BitRate>,
    /// Size of its full packets in bytes.
    pub packet: u32,
    /// Packets that wait in its class.
    pub queued: u32,
    /// Round trips through the mesh since the last report, in whole microseconds.
    ///
    /// `None` if there were none.
    pub trip: Option<RoundTripSample>,
    /// Age of its oldest unanswered packet in the mesh, in whole microseconds.
    pub oldest: Option<Span>,
}

/// Limit of a flow of another gateway.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FlowLimit {
    /// Gateway of the flow.
    pub gateway: NodeId,
    pub flow: FlowId,
    pub rate: BitRate,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) enum Content {
    Report(Vec<FlowReport>),
    Limits(Vec<FlowLimit>),
}

/// A message.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct PeerMessage {
    pub heading: Heading,
    pub content: Content,
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
            // Bits beyond 64 make the number invalid.
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

    fn micros(&mut self) -> Option<Span> {
        self.number()?.checked_mul(1000).map(Span::from_nanos)
    }

    fn if_set(&mut self, flags: u32, bit: u32) -> Option<Option<u64>> {
        if flags & bit == 0 { Some(None) } else { self.number().map(Some) }
    }
}

const DROPS: u32 = 1;
const WEIGHT: u32 = 2;
const HOPS: u32 = 4;
const BRANCH: u32 = 8;
const GUARANTEE: u32 = 16;
const CEILING: u32 = 32;
const QUEUED: u32 = 64;
const OLDEST: u32 = 128;
const TRIP: u32 = 256;

fn micros(span: Span) -> u64 {
    span.as_nanos() / 1000
}

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
            (QUEUED, (self.queued > 0).then(|| self.queued.into())),
            (OLDEST, self.oldest.map(micros)),
        ];
        let trip = if self.trip.is_some() { TRIP } else { 0 };
        let flags: u32 = set.iter().filter(|s| s.1.is_some()).map(|s| s.0).sum();
        put(out, u64::from(self.flow.0));
        put(out, u64::from(flags | trip));
        put(out, self.bytes);
        put(out, self.packets);
        put(out, u64::from(self.packet));
        set.iter().filter_map(|s| s.1).for_each(|value| put(out, value));
        if let Some(trip) = self.trip {
            let source = RoundTripSource::ALL.iter().position(|s| *s == trip.source);
            let counts = [u64::from(trip.count), source.unwrap_or(0) as u64];
            for value in [micros(trip.median), micros(trip.base)].into_iter().chain(counts) {
                put(out, value);
            }
        }
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        let flow = FlowId(from.small()?);
        let flags = from.small().filter(|f| *f < 2 * TRIP)?;
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
        let queued = from.if_set(flags, QUEUED)?.unwrap_or(0);
        let queued = u32::try_from(queued).ok()?;
        let oldest = match flags & OLDEST {
            0 => None,
            _ => Some(from.micros()?),
        };
        let trip = match flags & TRIP {
            0 => None,
            _ => {
                let (median, base, count) = (from.micros()?, from.micros()?, from.small()?);
                let source = *RoundTripSource::ALL.get(from.small()? as usize)?;
                Some(RoundTripSample { median, base, count, source })
            }
        };
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
            queued,
            trip,
            oldest,
        };
        Some(report)
    }
}

impl PeerMessage {
    /// Encodes as many messages as needed, at least one; returns the next sequence number.
    ///
    /// None is longer than [`MAX_MESSAGE_BYTES`].
    pub fn pack(heading: Heading, content: &Content, mut each: impl FnMut(&[u8])) -> u64 {
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
        let kind = match content {
            Content::Report(_) => REPORT,
            Content::Limits(_) => LIMITS,
        };
        let mut out = head(sequence, kind);
        let mut record = Vec::with_capacity(MAX_RECORD_BYTES);
        let many = match content {
            Content::Report(all) => all.len(),
            Content::Limits(all) => all.len(),
        };
        for i in 0..many {
            record.clear();
            match content {
                Content::Report(all) => all[i].encode(&mut record),
                Content::Limits(all) => {
                    put(&mut record, u64::from(all[i].gateway.0));
                    put(&mut record, u64::from(all[i].flow.0));
                    put(&mut record, all[i].rate.0);
                }
            }
            if out.len() + record.len() > MAX_MESSAGE_BYTES {
                each(&out);
                sequence += 1;
                out = head(sequence, kind);
            }
            out.extend_from_slice(&record);
        }
        each(&out);
        sequence + 1
    }

    /// Decodes a message; `None` if it is invalid.
    pub fn decode(body: &[u8]) -> Option<Self> {
        if body.len() > MAX_MESSAGE_BYTES {
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
        let content = match kind {
            REPORT => {
                let mut all = Vec::new();
                while !from.0.is_empty() {
                    all.push(FlowReport::decode(&mut from)?);
                }
                Content::Report(all)
            }
            LIMITS => {
                let mut all = Vec::new();
                while !from.0.is_empty() {
                    let (gateway, flow) = (NodeId(from.small()?), FlowId(from.small()?));
                    let rate = BitRate(from.number().filter(|r| *r > 0)?);
                    all.push(FlowLimit { gateway, flow, rate });
                }
                Content::Limits(all)
            }
            _ => return None,
        };
        Some(PeerMessage { heading, content })
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
            PeerMessage::pack(heading, &Content::Limits(limits.to_vec()), |body| {
                all.push(body.len())
            });
            all
        };
        // A record has a byte for its gateway, a byte for its flow, and `bytes` bytes for its rate.
        let limit = |bytes: usize| FlowLimit {
            gateway: NodeId(2),
            flow: FlowId(3),
            rate: BitRate(1 << (7 * (bytes - 1))),
        };
        let empty = lengths(&[])[0];
        let room = MAX_MESSAGE_BYTES - empty;
        let mut limits = vec![limit(1); room / 3 - 1];
        limits.push(limit(1 + room % 3));
        assert_eq!(lengths(&limits), [MAX_MESSAGE_BYTES]);
        limits.push(limit(1));
        assert_eq!(lengths(&limits), [MAX_MESSAGE_BYTES, empty + 3]);
    }
}
