//! Header fields that a node has set and received, for its messages.

use fairmesh_units::{FlowId, NodeId, Span, Time};

use super::batch::{self, BATCH, Entry, Field, MAX_BODY, Packets};
use crate::{Class, Event, Fields, Header, Merge};

/// Time for which packets on a link, or of a flow, count as present.
const TRAFFIC_LIFETIME: Span = Span::from_millis(500);
/// Time for which the fields of a flow's packets count that a neighbour reported.
const CARRIED_LIFETIME: Span = Span::from_secs(3);
/// Largest number of flows with fields of other nodes.
const MAX_FLOWS: usize = 4096;

/// A field to write into packets of a class.
#[derive(Clone, Copy, Debug)]
struct Written {
    class: Class,
    field: Field,
}

/// Fields with which a flow's packets come from the node before this one.
#[derive(Clone, Debug)]
struct Carried {
    flow: FlowId,
    ack: bool,
    from: NodeId,
    fields: Vec<Field>,
    at: Time,
}

/// Neighbour and, if known, flow of packets that leave the node; time of the last one.
#[derive(Clone, Copy, Debug)]
struct Traffic {
    to: NodeId,
    flow: Option<(FlowId, bool)>,
    at: Time,
}

/// Fields that a node has set, and those that it received for passing flows.
#[derive(Debug)]
pub(super) struct Board {
    me: NodeId,
    written: Vec<Written>,
    carried: Vec<Carried>,
    traffic: Vec<Traffic>,
    /// Index of the first entry of the next batch, if one batch does not hold all.
    turn: usize,
}

/// True if a rule keeps something of what a packet carried before.
fn keeps(merge: Merge) -> bool {
    merge != Merge::Set
}

/// Merges a field into a list, as a node's packets do.
fn put(fields: &mut Vec<Field>, new: Field) {
    match fields.iter_mut().find(|f| f.slot == new.slot) {
        Some(known) => {
            let mut header = Header::default();
            header.write(new.slot, Merge::Set, known.value);
            header.write(new.slot, new.merge, new.value);
            *known = Field { value: header.0[usize::from(new.slot)], ..new };
        }
        None => fields.push(new),
    }
}

impl Board {
    pub fn new(me: NodeId) -> Self {
        Board { me, written: Vec::new(), carried: Vec::new(), traffic: Vec::new(), turn: 0 }
    }

    /// Returns the node's own number.
    pub fn me(&self) -> NodeId {
        self.me
    }

    /// Sets a field of a class.
    pub fn write(&mut self, class: Class, field: Field) {
        let same = |w: &Written| w.class == class && w.field.slot == field.slot;
        match self.written.iter().position(same) {
            Some(known) => self.written[known].field = field,
            None => self.written.push(Written { class, field }),
        }
    }

    /// Records packets that leave the node.
    pub fn sent(&mut self, now: Time, to: NodeId, flow: Option<(FlowId, bool)>) {
        match self.traffic.iter().position(|t| t.to == to && t.flow == flow) {
            Some(known) => self.traffic[known].at = now,
            None if self.traffic.len() < MAX_FLOWS => {
                self.traffic.push(Traffic { to, flow, at: now });
            }
            None => {}
        }
    }

    /// Returns the entries for the packets of the last moment.
    fn entries(&mut self, now: Time) -> Vec<Entry> {
        self.traffic.retain(|t| now.since(t.at) <= TRAFFIC_LIFETIME);
        self.carried.retain(|c| now.since(c.at) <= CARRIED_LIFETIME);
        let mut entries = Vec::new();
        if self.traffic.is_empty() {
            return entries;
        }
        let set = |class: Class| {
            let of = self.written.iter().filter(move |w| w.class == class);
            of.map(|w| w.field).filter(|f| !keeps(f.merge)).collect::<Vec<_>>()
        };
        entries.push(Entry { packets: Packets::All, fields: set(Class::All) });
        let mut links: Vec<NodeId> = self.traffic.iter().map(|t| t.to).collect();
        links.sort_unstable();
        links.dedup();
        let of_link = |to| Entry { packets: Packets::Link(to), fields: set(Class::Link(to)) };
        entries.extend(links.into_iter().map(of_link));
        for t in &self.traffic {
            let Some((flow, ack)) = t.flow else { continue };
            let before = self.carried.iter().find(|c| (c.flow, c.ack) == (flow, ack));
            // A packet does not go back to the node that sent it.
            let before = before.filter(|c| c.from != t.to);
            let mut fields = before.map_or_else(Vec::new, |c| c.fields.clone());
            for w in &self.written {
                let belongs = match w.class {
                    Class::All => keeps(w.field.merge),
                    Class::Link(to) => to == t.to && keeps(w.field.merge),
                    Class::Flow(of) => of == flow && !ack,
                };
                if belongs {
                    put(&mut fields, w.field);
                }
            }
            entries.push(Entry { packets: Packets::Flow { flow, ack, to: t.to }, fields });
        }
        entries.retain(|e| !e.fields.is_empty());
        entries
    }

    /// Returns the next batch; empty if there is nothing to send.
    ///
    /// If one batch does not hold all entries, the next one starts with the others.
    pub fn batch(&mut self, now: Time) -> Vec<u8> {
        let entries = self.entries(now);
        let mut body = vec![BATCH];
        let mut number = 0;
        for i in 0..entries.len() {
            let Some(bytes) = entries[(self.turn + i) % entries.len()].bytes() else { continue };
            if body.len() + bytes.len() > MAX_BODY {
                break;
            }
            body.extend(bytes);
            number = i + 1;
        }
        let all = number >= entries.len();
        self.turn = if all { 0 } else { (self.turn + number) % entries.len() };
        if body.len() > 1 { body } else { Vec::new() }
    }

    /// Handles a batch of a neighbour, without its first byte.
    ///
    /// # Errors
    /// A malformed batch changes nothing.
    pub fn receive(
        &mut self,
        now: Time,
        from: NodeId,
        body: &[u8],
        mut give: impl FnMut(Event<'_>),
    ) -> Result<(), batch::Malformed> {
        for entry in batch::read(body)? {
            let header = entry.header();
            let fields = match entry.packets {
                Packets::All => Fields { from, to: None, flow: None, ack: false, header },
                Packets::Link(to) => Fields { from, to: Some(to), flow: None, ack: false, header },
                Packets::Flow { flow, ack, to } if to == self.me => {
                    self.carry(Carried { flow, ack, from, fields: entry.fields, at: now });
                    Fields { from, to: Some(to), flow: Some(flow), ack, header }
                }
                // Only the next node passes them on.
                Packets::Flow { .. } => continue,
            };
            give(Event::Fields(fields));
        }
        Ok(())
    }

    fn carry(&mut self, new: Carried) {
        let same = |c: &Carried| (c.flow, c.ack) == (new.flow, new.ack);
        match self.carried.iter().position(same) {
            Some(known) => self.carried[known] = new,
            None if self.carried.len() < MAX_FLOWS => self.carried.push(new),
            None => {}
        }
    }

    /// Forgets the fields that a node sent before its restart.
    pub fn forget(&mut self, node: NodeId) {
        self.carried.retain(|c| c.from != node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_millis(ms)
    }

    fn field(slot: u8, merge: Merge, value: u32) -> Field {
        Field { slot, merge, value }
    }

    /// Passes a batch on; returns the fields that arrive.
    fn pass(now: Time, from: &mut Board, to: &mut Board) -> Vec<Fields> {
        let body = from.batch(now);
        let mut all = Vec::new();
        if let Some((&BATCH, entries)) = body.split_first() {
            let give = |e: Event<'_>| match e {
                Event::Fields(f) => all.push(f),
                other => panic!("{other:?}"),
            };
            to.receive(now, from.me, entries, give).unwrap();
        }
        all
    }

    /// The least value on a path of three nodes, as packets with a `Min` field carry it.
    #[test]
    fn a_field_that_is_merged_crosses_several_nodes() {
        let [mut a, mut b, mut c] = [0, 1, 2].map(|n| Board::new(NodeId(n)));
        let flow = Some((FlowId(4), false));
        a.write(Class::All, field(0, Merge::Min, 30));
        b.write(Class::All, field(0, Merge::Min, 20));
        b.write(Class::All, field(1, Merge::Set, 7));
        a.sent(at(0), NodeId(1), flow);
        let arrived = pass(at(0), &mut a, &mut b);
        assert_eq!(arrived.len(), 1);
        assert_eq!((arrived[0].flow, arrived[0].header.0[0]), (Some(FlowId(4)), 30));
        b.sent(at(10), NodeId(2), flow);
        let arrived = pass(at(10), &mut b, &mut c);
        assert_eq!(arrived.len(), 2, "all packets, and the flow");
        assert_eq!((arrived[0].flow, arrived[0].header.0[1]), (None, 7));
        assert_eq!((arrived[1].flow, arrived[1].header.0[0]), (Some(FlowId(4)), 20));
        a.write(Class::All, field(0, Merge::Min, 10));
        pass(at(20), &mut a, &mut b);
        assert_eq!(pass(at(30), &mut b, &mut c)[1].header.0[0], 10);
        // The first node has sent nothing for long.
        b.sent(at(4000), NodeId(2), flow);
        assert_eq!(pass(at(4000), &mut b, &mut c)[1].header.0[0], 20);
    }

    #[test]
    fn a_link_without_packets_sends_no_fields() {
        let [mut a, mut b] = [0, 1].map(|n| Board::new(NodeId(n)));
        a.write(Class::Link(NodeId(1)), field(0, Merge::Set, 5));
        a.write(Class::Link(NodeId(2)), field(0, Merge::Set, 6));
        assert!(pass(at(0), &mut a, &mut b).is_empty());
        a.sent(at(0), NodeId(2), None);
        let to = |fields: Vec<Fields>| fields.iter().map(|f| f.to).collect::<Vec<_>>();
        assert_eq!(to(pass(at(100), &mut a, &mut b)), [Some(NodeId(2))]);
        assert!(pass(at(601), &mut a, &mut b).is_empty());
    }

    #[test]
    fn the_rest_is_sent_with_the_next_batch() {
        let [mut a, mut b] = [0, 1].map(|n| Board::new(NodeId(n)));
        for n in 1..=100 {
            a.write(Class::Link(NodeId(n)), field(0, Merge::Set, u32::MAX));
            a.sent(at(0), NodeId(n), None);
        }
        let mut seen = std::collections::BTreeSet::new();
        // Eight bytes each: 23 in a batch.
        for _ in 0..5 {
            seen.extend(pass(at(0), &mut a, &mut b).iter().filter_map(|f| f.to));
        }
        assert_eq!(seen.len(), 100);
    }
}
