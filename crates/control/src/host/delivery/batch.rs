//! Encoding of a batch: the header fields of a node's packets in one message.
//!
//! A body starts with its kind. A message of the mechanism follows the kind unchanged; a batch is a list of entries,
//! each for the packets of one class. An entry has a byte with its class and number of fields, the class, and its
//! fields: a byte with slot, rule and length, and the value in as few bytes as it needs.

use fairmesh_units::{FlowId, NodeId};

use crate::{HEADER_FIELDS, Header, Merge};

/// Largest body of a message, in bytes.
///
/// A message of 250 bytes also has a header, role, number, name and code.
pub(super) const MAX_BODY: usize = 190;
/// First byte of a message of the mechanism.
pub(super) const OWN: u8 = 0;
/// First byte of a batch.
pub(super) const BATCH: u8 = 1;

const ALL: u8 = 0;
const LINK: u8 = 1;
const FLOW: u8 = 2;
const ACK: u8 = 1 << 5;

/// Packets that carry the fields of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Packets {
    /// All packets of the sender.
    All,
    /// Packets to this neighbour.
    Link(NodeId),
    /// Packets of a flow to this neighbour, with what they carried before.
    Flow { flow: FlowId, ack: bool, to: NodeId },
}

/// A field of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Field {
    pub slot: u8,
    pub merge: Merge,
    pub value: u32,
}

/// Fields of some packets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub packets: Packets,
    /// At most [`HEADER_FIELDS`].
    pub fields: Vec<Field>,
}

/// A batch that no node sends under the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Malformed;

const MERGES: [Merge; 4] = [Merge::Set, Merge::Max, Merge::Min, Merge::Or];

impl Entry {
    /// Returns the header that packets with these fields alone would have.
    pub fn header(&self) -> Header {
        let mut header = Header::default();
        self.fields.iter().for_each(|f| header.write(f.slot, Merge::Set, f.value));
        header
    }

    /// Returns its bytes; `None` if a node number does not fit.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        let node = |n: NodeId| u16::try_from(n.0).ok().map(u16::to_be_bytes);
        let number = self.fields.len().min(HEADER_FIELDS) as u8;
        let mut bytes = Vec::with_capacity(16);
        match self.packets {
            Packets::All => bytes.push(ALL << 6 | number),
            Packets::Link(to) => {
                bytes.push(LINK << 6 | number);
                bytes.extend(node(to)?);
            }
            Packets::Flow { flow, ack, to } => {
                bytes.push(FLOW << 6 | if ack { ACK } else { 0 } | number);
                bytes.extend(flow.0.to_be_bytes());
                bytes.extend(node(to)?);
            }
        }
        for f in self.fields.iter().take(HEADER_FIELDS) {
            let merge = MERGES.iter().position(|m| *m == f.merge)? as u8;
            let value = f.value.to_be_bytes();
            let zeros = value.iter().take(3).take_while(|b| **b == 0).count();
            bytes.push(f.slot << 4 | merge << 2 | (3 - zeros as u8));
            bytes.extend(&value[zeros..]);
        }
        Some(bytes)
    }
}

/// Takes bytes from the front of a body.
fn take<const N: usize>(body: &mut &[u8]) -> Result<[u8; N], Malformed> {
    let (first, rest) = body.split_first_chunk::<N>().ok_or(Malformed)?;
    *body = rest;
    Ok(*first)
}

fn node(body: &mut &[u8]) -> Result<NodeId, Malformed> {
    Ok(NodeId(u32::from(u16::from_be_bytes(take(body)?))))
}

/// Reads the entries of a batch, without its first byte.
pub(super) fn read(mut body: &[u8]) -> Result<Vec<Entry>, Malformed> {
    if body.len() >= MAX_BODY {
        return Err(Malformed);
    }
    let mut entries = Vec::new();
    while !body.is_empty() {
        let [head] = take(&mut body)?;
        let packets = match (head >> 6, head & ACK != 0) {
            (ALL, false) => Packets::All,
            (LINK, false) => Packets::Link(node(&mut body)?),
            (FLOW, ack) => {
                let flow = FlowId(u32::from_be_bytes(take(&mut body)?));
                Packets::Flow { flow, ack, to: node(&mut body)? }
            }
            _ => return Err(Malformed),
        };
        let number = usize::from(head & 0x1f);
        if !(1..=HEADER_FIELDS).contains(&number) {
            return Err(Malformed);
        }
        let mut fields = Vec::with_capacity(number);
        for _ in 0..number {
            let [head] = take(&mut body)?;
            let (slot, merge) = (head >> 4, MERGES[usize::from(head >> 2 & 3)]);
            let length = usize::from(head & 3) + 1;
            let (bytes, rest) = body.split_at_checked(length).ok_or(Malformed)?;
            body = rest;
            let value = bytes.iter().fold(0, |v, b| v << 8 | u32::from(*b));
            if usize::from(slot) >= HEADER_FIELDS {
                return Err(Malformed);
            }
            fields.push(Field { slot, merge, value });
        }
        entries.push(Entry { packets, fields });
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entries() -> impl Strategy<Value = Vec<Entry>> {
        let field = (0..HEADER_FIELDS as u8, 0usize..4, any::<u32>(), 0u32..32);
        let field = field.prop_map(|(slot, merge, value, shift)| Field {
            slot,
            merge: MERGES[merge],
            value: value >> shift,
        });
        let packets =
            (0..3, any::<u32>(), any::<bool>(), any::<u16>()).prop_map(|(kind, flow, ack, to)| {
                match (kind, NodeId(to.into())) {
                    (0, _) => Packets::All,
                    (1, to) => Packets::Link(to),
                    (_, to) => Packets::Flow { flow: FlowId(flow), ack, to },
                }
            });
        let entry = (packets, prop::collection::vec(field, 1..=HEADER_FIELDS))
            .prop_map(|(packets, fields)| Entry { packets, fields });
        prop::collection::vec(entry, 0..5)
    }

    #[test]
    fn small_values_take_few_bytes() {
        let field = |value| Field { slot: 7, merge: Merge::Min, value };
        let packets = Packets::Flow { flow: FlowId(0x0102), ack: true, to: NodeId(9) };
        let entry = Entry { packets, fields: vec![field(0), field(0x01ff)] };
        let bytes = entry.bytes().unwrap();
        assert_eq!(bytes, [0xa2, 0, 0, 1, 2, 0, 9, 0x78, 0, 0x79, 1, 0xff]);
        assert_eq!(read(&bytes), Ok(vec![entry.clone()]));
        let far = Entry { packets: Packets::Link(NodeId(70_000)), ..entry };
        assert_eq!(far.bytes(), None);
    }

    #[test]
    fn truncated_overlong_and_unknown_messages_are_malformed() {
        let fields = vec![Field { slot: 0, merge: Merge::Set, value: 5 }];
        let bytes = Entry { packets: Packets::Link(NodeId(1)), fields }.bytes().unwrap();
        for length in 1..bytes.len() {
            assert_eq!(read(&bytes[..length]), Err(Malformed), "{length}");
        }
        assert_eq!(read(&[0; MAX_BODY]), Err(Malformed));
        for head in [0x00, 0x21, 0x41 | ACK, 0xc1, 0x09] {
            let mut bad = vec![head];
            bad.extend([0; 40]);
            assert_eq!(read(&bad), Err(Malformed), "{head:x}");
        }
        assert_eq!(read(&[0x01, 0x80, 5]), Err(Malformed), "a slot that does not exist");
    }

    proptest! {
        #[test]
        fn entries_come_back(entries in entries()) {
            let bytes: Vec<u8> = entries.iter().flat_map(|e| e.bytes().unwrap()).collect();
            if bytes.len() < MAX_BODY {
                prop_assert_eq!(read(&bytes), Ok(entries));
            }
        }

        #[test]
        fn nothing_breaks_it(body in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = read(&body);
        }
    }
}
