//! `+overhear`: a neighbour's own estimate of the gateway's utilisation (§IV.A).
//!
//! The paper lets neighbours watch the gateway's acknowledgements. Here the input is that of a router's
//! monitor interface: data frames to and from the gateway, and the transport's acknowledgements that the
//! gateway sends to nodes with data out of range. Its errors are frames that collide here and not at the
//! gateway, sizes if only acknowledgements are overheard, and flows with a first hop that is entirely out of
//! range.

use std::collections::BTreeMap;

use fairmesh_units::{FlowId, NodeId, Span, Time};

use crate::{FlowHere, ReceivedFrame, Sent};

/// Maximum number of flows that are remembered.
///
/// Forged ones beyond it do not count as far away.
const MAX_FLOWS: usize = 1024;
/// Time since the last packet of a far hop within which this node senses that hop.
const SENSING_WINDOW: Span = Span::from_secs(1);

/// State of the gateway's traffic, as overheard.
#[derive(Debug)]
pub(super) struct Overhear {
    /// The gateway; `None` if the node sends nothing to it.
    gateway: Option<NodeId>,
    /// The node's own and forwarded flows, with the weight of each byte by hops.
    mine: Vec<(FlowId, u64)>,
    known: BTreeMap<FlowId, Known>,
    /// Assumed size of a packet of unknown size.
    packet: u32,
    /// Bytes since the last sample, each weighted by its hops.
    weighed: u64,
    /// Part of `weighed` on hops that are too far away to be sensed.
    unsensed: u64,
    /// U* in bit/s.
    fills: f64,
    weight: f64,
    sampled: Option<Time>,
    /// Moving averages of `weighed` and `unsensed`, bit/s.
    carried: Option<(f64, f64)>,
}

/// State of another node's flow.
#[derive(Clone, Copy, Default, Debug)]
struct Known {
    /// True if it was overheard on a hop without the gateway, so that it has another hop.
    far: bool,
    /// Bytes of its data to and from the gateway since the last sample.
    data: u64,
    /// Acknowledgements of the flow by the gateway since the last sample.
    acks: u64,
    /// Time of its last data on another hop.
    beyond: Option<Time>,
}

impl Known {
    /// Returns the number of times that the air around the gateway carries each of its bytes.
    ///
    /// The number of further hops of a far flow is unknown.
    fn cost(&self) -> u64 {
        if self.far { 2 } else { 1 }
    }
}

impl Overhear {
    /// `fills`: U* in bit/s of IP.
    pub fn new(
        gateway: Option<NodeId>,
        flows: &[FlowHere],
        packet: u32,
        fills: f64,
        weight: f64,
    ) -> Self {
        let cost = |f: &FlowHere| u64::from(f.hops.unwrap_or(1).clamp(1, 3));
        Overhear {
            gateway,
            mine: flows.iter().map(|f| (f.flow, cost(f))).collect(),
            known: BTreeMap::new(),
            packet,
            weighed: 0,
            unsensed: 0,
            fills,
            weight,
            sampled: None,
            carried: None,
        }
    }

    /// Returns the weight of one of the node's own or forwarded flows.
    fn cost(&self, flow: FlowId) -> u64 {
        self.mine.iter().find(|m| m.0 == flow).map_or(1, |m| m.1)
    }

    fn known(&mut self, flow: FlowId) -> Option<&mut Known> {
        let room = self.known.len() < MAX_FLOWS;
        match self.known.get(&flow) {
            None if !room => None,
            _ => Some(self.known.entry(flow).or_default()),
        }
    }

    /// Handles a frame that the node sent.
    pub fn sent(&mut self, sent: &Sent) {
        let Some(flow) = sent.flow else { return };
        if !sent.ack && sent.delivered && sent.to.is_some() && sent.to == self.gateway {
            self.weighed += u64::from(sent.bytes) * self.cost(flow);
        }
    }

    /// Handles a packet for this node.
    pub fn received(&mut self, frame: &ReceivedFrame) {
        if !frame.ack && Some(frame.link.from) == self.gateway {
            self.weighed += u64::from(frame.bytes) * self.cost(frame.flow);
        }
    }

    /// Handles a packet for another node.
    pub fn overheard(&mut self, now: Time, frame: &ReceivedFrame) {
        let Some(gateway) = self.gateway else { return };
        let (from, to) = (frame.link.from == gateway, frame.link.to == gateway);
        if !from && !to {
            if let Some(k) = self.known(frame.flow) {
                k.far = true;
                if !frame.ack {
                    k.beyond = Some(now);
                }
            }
            return;
        }
        let Some(k) = self.known(frame.flow) else { return };
        if !frame.ack {
            k.data += u64::from(frame.bytes);
        } else if from {
            k.acks += 1;
        }
    }

    /// Ends a sample: evaluates the packets since the last one.
    pub fn take(&mut self, now: Time) {
        let packet = u64::from(self.packet);
        for k in self.known.values_mut() {
            // Two counts of the same packets, each incomplete: acknowledgements are short and
            // collide less; data is present when acknowledgements are delayed.
            let bytes = std::mem::take(&mut k.data).max(std::mem::take(&mut k.acks) * packet);
            let hidden = k.far && k.beyond.is_none_or(|at| now.since(at) > SENSING_WINDOW);
            self.weighed += bytes * k.cost();
            self.unsensed += if hidden { bytes } else { 0 };
        }
        let bytes = (std::mem::take(&mut self.weighed), std::mem::take(&mut self.unsensed));
        let Some(before) = self.sampled.replace(now) else { return };
        let seconds = now.since(before).as_secs_f64();
        if seconds > 0.0 {
            let rate = |bytes: u64| 8.0 * bytes as f64 / seconds;
            let new = (rate(bytes.0), rate(bytes.1));
            let old = self.carried.unwrap_or(new);
            let follow = |old: f64, new: f64| old + self.weight * (new - old);
            self.carried = Some((follow(old.0, new.0), follow(old.1, new.1)));
        }
    }

    /// Returns U over U*.
    ///
    /// `sensed` is the same by the node's survey, which includes collisions but not the far hops of
    /// other branches; the decoded packets include these, but not collisions.
    pub fn utilization(&self, sensed: f64) -> f64 {
        let (all, unsensed) = self.carried.unwrap_or_default();
        (all / self.fills).max(sensed + unsensed / self.fills)
    }
}

#[cfg(test)]
mod tests {
    use fairmesh_units::BitRate;

    use super::*;
    use crate::{Header, Link, Place};

    const GATEWAY: NodeId = NodeId(0);

    fn frame(from: u32, to: u32, flow: u32, ack: bool) -> ReceivedFrame {
        let link = Link { from: NodeId(from), to: NodeId(to) };
        let bytes = if ack { 40 } else { 1000 };
        ReceivedFrame { link, flow: FlowId(flow), ack, bytes, header: Header::default() }
    }

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_millis(ms)
    }

    /// Node 1 with an own flow (0) and a forwarded one (1); U* of 80 kbit/s, no memory.
    fn node() -> Overhear {
        let here = |flow, hops| {
            FlowHere::new(FlowId(flow), Place::Source, 960, 1000)
                .with_next_hop(Some(GATEWAY))
                .with_hops(Some(hops))
        };
        let mut o = Overhear::new(Some(GATEWAY), &[here(0, 1), here(1, 2)], 1000, 80e3, 1.0);
        o.take(at(0));
        o
    }

    /// Returns the utilisation after a second with the events of `what`.
    fn after(what: impl FnOnce(&mut Overhear)) -> f64 {
        let mut o = node();
        what(&mut o);
        o.take(at(1000));
        o.utilization(0.0)
    }

    fn sent(to: u32, flow: u32, delivered: bool) -> Sent {
        Sent {
            to: Some(NodeId(to)),
            flow: Some(FlowId(flow)),
            ack: false,
            bytes: 1000,
            airtime: Span::ZERO,
            backoff: Span::ZERO,
            attempts: 1,
            rate: BitRate(1),
            delivered,
            ack_bits: None,
        }
    }

    #[test]
    fn bytes_count_as_often_as_their_hops() {
        assert_eq!(after(|_| ()), 0.0);
        assert_eq!(after(|o| o.sent(&sent(0, 0, true))), 0.1, "8 kbit in a second of 80 kbit/s");
        assert_eq!(after(|o| o.sent(&sent(0, 1, true))), 0.2, "forwarded from a second hop");
        assert_eq!(after(|o| o.sent(&sent(0, 0, false))), 0.0, "the gateway got nothing");
        assert_eq!(after(|o| o.sent(&sent(5, 0, true))), 0.0, "not for the gateway");
        assert_eq!(after(|o| o.received(&frame(0, 1, 1, false))), 0.2, "a download");
        assert_eq!(after(|o| o.overheard(at(5), &frame(2, 0, 7, false))), 0.1);
    }

    #[test]
    fn flows_overheard_beyond_the_gateways_hop_are_far() {
        let far = after(|o| {
            // Node 2 forwards an acknowledgement to node 3: the flow comes from there.
            o.overheard(at(1), &frame(2, 3, 7, true));
            o.overheard(at(2), &frame(2, 0, 7, false));
        });
        assert_eq!(far, 0.2);
        let mut o = node();
        o.overheard(at(1), &frame(2, 3, 7, true));
        o.overheard(at(2), &frame(2, 0, 7, false));
        o.take(at(1000));
        assert_eq!(o.utilization(0.5), 0.6, "its far hop was not sensed");
        o.overheard(at(1001), &frame(3, 2, 7, false));
        o.overheard(at(1002), &frame(2, 0, 7, false));
        o.take(at(2000));
        assert_eq!(o.utilization(0.5), 0.5, "now it was");
    }

    #[test]
    fn acknowledgements_stand_for_data_out_of_range() {
        assert_eq!(after(|o| o.overheard(at(1), &frame(0, 2, 7, true))), 0.1);
        let both = after(|o| {
            o.overheard(at(1), &frame(2, 0, 7, false));
            o.overheard(at(2), &frame(0, 2, 7, true));
        });
        assert_eq!(both, 0.1, "counted once");
        let own = after(|o| o.overheard(at(1), &frame(2, 0, 7, true)));
        assert_eq!(own, 0.0, "towards the gateway it acknowledges what the gateway has sent");
    }

    #[test]
    fn invented_flows_fill_no_memory() {
        let mut o = node();
        for f in 0..5000 {
            o.overheard(at(1), &frame(2, 3, 100 + f, false));
        }
        assert_eq!(o.known.len(), MAX_FLOWS);
    }
}
