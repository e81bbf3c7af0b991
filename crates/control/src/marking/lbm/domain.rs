//! LBM at every node of a multihop network: the receive rates in its collision domain (§4.3).
//!
//! The nodes that interfere with a transmission are those in range of its receiver, so the rates at
//! which nodes *receive* are summed up: those of the neighbours, and those of the neighbours'
//! neighbours as far as the sender is not the neighbour itself. This is the one rule under which
//! every statement of §4.5.1 about Figs. 4.2 and 4.3 holds; docs/notes/2026-11-lbm.md goes through them.
//!
//! Every packet that leaves a node carries its own receive rate and, in turn, one of the other
//! rates that it knows: two bytes and four. A node without traffic sends the same values in a small
//! broadcast once per averaging time.

use fairmesh_units::{NodeId, Span, Time};

use crate::{
    Actions, Class, Control, Event, EventKind, EventSet, Header, Instance, Marking, Merge, Plan,
    Reason, Setting, Value,
};

use super::curve::Curve;
use super::measure::{Meter, SAMPLES_PER_AVERAGE};

/// Bytes of the header: a rate of 16 bits; a node of 16 bits and its rate.
pub(super) const HEADER_BYTES: u32 = 6;
/// Slot with the sender's own receive rate.
const OWN_RATE_SLOT: u8 = 0;
/// Slot with another node's receive rate.
const OTHER_RATE_SLOT: u8 = 1;
/// Number of averaging times after which a report is forgotten.
const REPORT_LIFETIME: u64 = 3;
/// Maximum number of reports.
const MAX_REPORTS: usize = 4096;
/// Number of codes in units of 1 kbit/s.
const FINE_STEPS: f64 = 32_768.0;
/// Unit of the codes above, kbit/s.
const COARSE_UNIT: f64 = 64.0;
/// First byte of a broadcast.
const TAG: u8 = 0x4c;
/// Maximum number of other nodes in a broadcast.
const MAX_ENTRIES: usize = 8;

pub(super) fn build(options: &super::Options, setting: Setting) -> Instance {
    let t_avg = Span::from_secs_f64(options.t_avg);
    let sample = Span::from_secs_f64(options.t_avg / f64::from(SAMPLES_PER_AVERAGE));
    Instance {
        control: Box::new(Domain {
            me: setting.node,
            curve: Curve::of(options),
            how: super::marking(options),
            meter: Meter::new(0.0, &setting.neighbours),
            reports: Vec::new(),
            entries: Vec::new(),
            turn: 0,
            marking: 0.0,
            memory: t_avg.saturating_mul(REPORT_LIFETIME),
            sample,
            due: Time::ZERO + sample,
            left: SAMPLES_PER_AVERAGE,
        }),
        plan: Plan::none(),
    }
}

/// A receive rate reported by a neighbour.
#[derive(Clone, Copy, Debug)]
struct Report {
    /// Node with this rate.
    node: NodeId,
    /// Node that reported the rate; for a node's own rate, the node itself.
    from: NodeId,
    /// Rate in bit/s.
    rate: f64,
    at: Time,
}

#[derive(Debug)]
struct Domain {
    me: NodeId,
    curve: Curve,
    how: Marking,
    meter: Meter,
    /// Reports received, at most one per node and reporter.
    reports: Vec<Report>,
    /// Rates of others that this node reports: node, and the rate as 16 bits.
    entries: Vec<(NodeId, u16)>,
    /// Index of the node in the next header.
    turn: usize,
    marking: f64,
    memory: Span,
    sample: Span,
    due: Time,
    left: u32,
}

/// Encodes a rate in 16 bits, with 0 for "unset".
///
/// The unit is 1 kbit/s up to 32.767 Mbit/s and 64 kbit/s above, up to 2.13 Gbit/s, whatever the sender's channel:
/// neighbours have links of other rates.
fn encode(rate: f64) -> u16 {
    let kbit = (rate / 1e3).max(0.0);
    let steps =
        if kbit < FINE_STEPS { kbit } else { FINE_STEPS + (kbit - FINE_STEPS) / COARSE_UNIT };
    1 + steps.min(65_534.0) as u16
}

fn decode(code: u16) -> Option<f64> {
    let steps = f64::from(code.checked_sub(1)?);
    let coarse = (steps - FINE_STEPS).max(0.0);
    Some(1e3 * (steps.min(FINE_STEPS) + coarse * COARSE_UNIT))
}

impl Domain {
    fn note(&mut self, now: Time, from: NodeId, node: NodeId, code: u16) {
        let Some(rate) = decode(code) else { return };
        // Nodes are neighbours by routing; a report about this node itself carries no information.
        if node == self.me || !self.meter.with.iter().any(|w| w.node == from) {
            return;
        }
        let report = Report { node, from, rate, at: now };
        match self.reports.iter().position(|r| r.node == node && r.from == from) {
            Some(known) => self.reports[known] = report,
            // Forged reports must not fill the memory.
            None if self.reports.len() < MAX_REPORTS => self.reports.push(report),
            None => {}
        }
    }

    fn header(&mut self, now: Time, from: NodeId, header: &Header) {
        let (own, other) =
            (header.0[usize::from(OWN_RATE_SLOT)], header.0[usize::from(OTHER_RATE_SLOT)]);
        if let Ok(code) = u16::try_from(own) {
            self.note(now, from, from, code);
        }
        self.note(now, from, NodeId(other >> 16), other as u16);
    }

    fn message(&mut self, now: Time, from: NodeId, body: &[u8]) {
        let [TAG, high, low, rest @ ..] = body else { return };
        if rest.len() % 4 != 0 || rest.len() / 4 > MAX_ENTRIES {
            return;
        }
        self.note(now, from, from, u16::from_be_bytes([*high, *low]));
        for entry in rest.chunks_exact(4) {
            let node = u16::from_be_bytes([entry[0], entry[1]]);
            let code = u16::from_be_bytes([entry[2], entry[3]]);
            self.note(now, from, NodeId(u32::from(node)), code);
        }
    }

    /// Returns the utilisation of the collision domain.
    fn utilization(&self) -> f64 {
        let near = |node| self.meter.with.iter().any(|w| w.node == node);
        let mut sum = 0.0;
        for (i, r) in self.reports.iter().enumerate() {
            if r.node == r.from {
                sum += r.rate;
            } else if !near(r.node) {
                // Two hops away, perhaps reported by several neighbours: counted once, with the
                // largest rate.
                let again = |s: &&Report| s.node == r.node && s.from != s.node;
                let more = |s: &Report| s.rate > r.rate;
                let first = self.reports[..i].iter().filter(again).all(|s| s.rate < r.rate);
                if first && !self.reports[i + 1..].iter().filter(again).any(more) {
                    sum += r.rate;
                }
            }
        }
        sum / self.meter.channel
    }

    /// Reports the rate at which each neighbour receives from others.
    fn send_reports(&mut self, own: f64, packets: u64, actions: &mut Actions) {
        let own = encode(own);
        self.entries.clear();
        for w in &self.meter.with {
            let Some(r) = self.reports.iter().find(|r| r.node == w.node && r.from == w.node) else {
                continue;
            };
            let others = r.rate - w.sent;
            // Rates of two nodes are not measured at the same time: a small difference is not
            // significant.
            if others > 0.1 * r.rate && w.node.0 <= u32::from(u16::MAX) {
                self.entries.push((w.node, encode(others)));
            }
        }
        actions.because(Reason::new(
            "lbm.report",
            "reports own reception and that of {} neighbours",
            &[Value::Count(self.entries.len() as u64)],
        ));
        actions.annotate(Class::All, OWN_RATE_SLOT, Merge::Set, u32::from(own));
        self.next_turn(actions);
        if packets == 0 && (own > 1 || !self.entries.is_empty()) {
            let mut body = [0; 3 + 4 * MAX_ENTRIES];
            body[0] = TAG;
            body[1..3].copy_from_slice(&own.to_be_bytes());
            let mut len = 3;
            for (node, code) in self.entries.iter().take(MAX_ENTRIES) {
                body[len..len + 2].copy_from_slice(&(node.0 as u16).to_be_bytes());
                body[len + 2..len + 4].copy_from_slice(&code.to_be_bytes());
                len += 4;
            }
            actions.send(None, &body[..len]);
        }
    }

    /// Selects the next node for the header, which carries one other node at a time.
    fn next_turn(&mut self, actions: &mut Actions) {
        let value = match self.entries.len() {
            0 => 0,
            n => {
                self.turn = (self.turn + 1) % n;
                let (node, code) = self.entries[self.turn];
                node.0 << 16 | u32::from(code)
            }
        };
        actions.annotate(Class::All, OTHER_RATE_SLOT, Merge::Set, value);
    }

    fn decide(&mut self, now: Time, actions: &mut Actions) {
        let measured = self.meter.take(now);
        let memory = self.memory;
        self.reports.retain(|r| now.since(r.at) <= memory);
        self.send_reports(measured.received, measured.packets, actions);
        let rho = self.utilization();
        let probability = self.curve.probability(rho);
        if probability == self.marking {
            return;
        }
        self.marking = probability;
        actions.because(Reason::new(
            "lbm.load",
            "utilisation of the collision domain {}, marks from {} on: {} of the packets are marked",
            &[
                Value::Percent(rho),
                Value::Percent(self.curve.rho0),
                Value::Percent(probability),
            ],
        ));
        actions.mark_as(Class::All, probability, self.how);
    }
}

impl Control for Domain {
    fn on(&mut self, now: Time, event: &Event<'_>, actions: &mut Actions) {
        match event {
            Event::Received(h) | Event::Overheard(h) => self.header(now, h.link.from, &h.header),
            Event::Fields(f) => self.header(now, f.from, &f.header),
            Event::Message(m) => self.message(now, m.from, m.body),
            Event::Deadline if now >= self.due => {
                self.left -= 1;
                if self.left == 0 {
                    self.left = SAMPLES_PER_AVERAGE;
                    self.decide(now, actions);
                } else if self.entries.len() > 1 {
                    actions.because(Reason::new("lbm.turn", "speaks of the next neighbour", &[]));
                    self.next_turn(actions);
                }
                self.due = now + self.sample;
            }
            other => self.meter.sample(other),
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        Some(self.due)
    }

    fn wants(&self) -> EventSet {
        EventSet::of(&[EventKind::Neighbours])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_survive_their_code() {
        for rate in [0.0, 7e3, 1.5e6, 32.7e6, 33e6, 300e6, 2.1e9] {
            let read = decode(encode(rate)).unwrap();
            assert!(read <= rate && rate - read <= 1e3 + 0.002 * rate, "{rate} {read}");
        }
        // A value out of range, or not a number, is encoded as a valid one.
        assert_eq!(encode(1e12), 65_535);
        assert_eq!([decode(encode(-1.0)), decode(encode(f64::NAN))], [Some(0.0); 2]);
        assert_eq!(decode(0), None);
    }
}
