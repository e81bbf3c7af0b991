//! Flows of homes that pass a router, by the counters of their packets on links.

use std::collections::BTreeMap;

use fairmesh_control::{FlowHere, Place};
use fairmesh_linux::MacAddr;
use fairmesh_linux::bpf::FlowCount;
use fairmesh_units::{FlowId, NodeId, Span, Time};

use super::numbers::Numbers;

/// Packets with data since the last look from which a flow counts.
const MIN_FLOW_PACKETS: u64 = 5;
/// Time without such packets after which a flow has ended.
const FLOW_TIMEOUT: Span = Span::from_secs(120);
/// Most flows at once.
const MAX_FLOWS: usize = 1024;
/// Payload of TCP with timestamps in a packet of 1500 bytes.
const TCP_PAYLOAD_BYTES: u32 = 1448;
const PACKET_BYTES: u32 = 1500;

/// Identity of a home's flow in one direction, the same at every router.
///
/// The first bit of an address is given up for the direction.
pub fn flow_of(home: u32, download: bool) -> FlowId {
    FlowId(home & !(1 << 31) | u32::from(download) << 31)
}

/// A change of the flows that pass.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Change {
    /// A flow has appeared, or takes another way.
    Seen(FlowHere),
    /// A flow has ended.
    Gone(FlowId),
}

#[derive(Clone, Copy, Debug)]
struct Known {
    home: (u32, bool),
    here: FlowHere,
    active: Time,
}

/// The flows that pass.
#[derive(Clone, Default, Debug)]
pub struct Passing {
    flows: BTreeMap<FlowId, Known>,
    /// Packets with data at the last look, by flow, direction and neighbour.
    last: BTreeMap<(FlowId, bool, MacAddr), u64>,
}

/// Packets of a flow since the last look.
#[derive(Clone, Copy, Default, Debug)]
struct FlowPackets {
    home: (u32, bool),
    came: u64,
    left: u64,
    /// Neighbour to which most packets left.
    next: Option<(u64, NodeId)>,
}

impl Passing {
    /// Returns home and direction of a flow: true for a download.
    pub fn home(&self, flow: FlowId) -> Option<(u32, bool)> {
        self.flows.get(&flow).map(|known| known.home)
    }

    /// Compares counters with those of the last look; returns the changes.
    ///
    /// `gateway`: packets that come by no link of the mesh come by a wire, otherwise from this router's homes.
    pub fn look(
        &mut self,
        now: Time,
        gateway: bool,
        counts: &[FlowCount],
        numbers: &mut Numbers,
    ) -> Vec<Change> {
        let mut moved: BTreeMap<FlowId, FlowPackets> = BTreeMap::new();
        let mut last = BTreeMap::new();
        for c in counts.iter().filter(|c| !c.ack) {
            let flow = flow_of(c.home, c.download);
            let key = (flow, c.out, c.neighbour);
            last.insert(key, c.packets);
            let before = self.last.get(&key).copied().unwrap_or(0);
            // A counter that begins again counts from zero.
            let packets = c.packets.checked_sub(before).unwrap_or(c.packets);
            let Some(neighbour) = numbers.of(c.neighbour).filter(|_| packets > 0) else { continue };
            let m = moved.entry(flow).or_default();
            m.home = (c.home, c.download);
            if c.out {
                m.left += packets;
                m.next = m.next.max(Some((packets, neighbour)));
            } else {
                m.came += packets;
            }
        }
        self.last = last;
        let mut changes = Vec::new();
        for (flow, m) in moved.into_iter().filter(|(_, m)| m.came.max(m.left) >= MIN_FLOW_PACKETS) {
            let place = match (m.came >= MIN_FLOW_PACKETS, m.left >= MIN_FLOW_PACKETS) {
                (true, false) => Place::Sink,
                (false, true) if !gateway => Place::Source,
                _ => Place::Forwarder,
            };
            let next_hop = m.next.map(|(_, node)| node).filter(|_| place != Place::Sink);
            let here = FlowHere::new(flow, place, TCP_PAYLOAD_BYTES, PACKET_BYTES)
                .with_next_hop(next_hop)
                .with_upstream(Some(!m.home.1));
            let room = self.flows.len() < MAX_FLOWS;
            match self.flows.get_mut(&flow) {
                Some(known) => {
                    known.active = now;
                    // A pause of one side is not another way.
                    let other = place != Place::Sink
                        && (known.here.place, known.here.next_hop) != (place, next_hop);
                    if other && m.came + m.left >= 2 * MIN_FLOW_PACKETS {
                        known.here = here;
                        changes.push(Change::Seen(here));
                    }
                }
                None if room => {
                    self.flows.insert(flow, Known { home: m.home, here, active: now });
                    changes.push(Change::Seen(here));
                }
                None => {}
            }
        }
        self.flows.retain(|flow, known| {
            let stays = now.since(known.active) <= FLOW_TIMEOUT;
            if !stays {
                changes.push(Change::Gone(*flow));
            }
            stays
        });
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UP: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
    const DOWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
    const HOME: u32 = 0x0a09_0004;

    fn count(neighbour: MacAddr, out: bool, download: bool, packets: u64) -> FlowCount {
        FlowCount {
            neighbour,
            out,
            ack: false,
            home: HOME,
            download,
            packets,
            bytes: 1500 * packets,
        }
    }

    fn seen(changes: &[Change]) -> Vec<(Place, Option<NodeId>)> {
        let of = |c: &Change| match c {
            Change::Seen(here) => Some((here.place, here.next_hop)),
            Change::Gone(_) => None,
        };
        changes.iter().filter_map(of).collect()
    }

    #[test]
    fn the_place_follows_from_the_links() {
        let mut numbers = Numbers::default();
        numbers.announce(UP, 1);
        numbers.announce(DOWN, 2);
        let mut place = |gateway, counts: &[FlowCount]| {
            let mut passing = Passing::default();
            seen(&passing.look(Time::ZERO, gateway, counts, &mut numbers))
        };
        let (to_gateway, to_home) = (Some(NodeId(1)), Some(NodeId(2)));
        let relayed = [count(DOWN, false, false, 100), count(UP, true, false, 98)];
        assert_eq!(place(false, &relayed), [(Place::Forwarder, to_gateway)]);
        assert_eq!(place(false, &[count(UP, true, false, 9)]), [(Place::Source, to_gateway)]);
        assert_eq!(place(true, &[count(DOWN, false, false, 9)]), [(Place::Sink, None)]);
        assert_eq!(place(true, &[count(DOWN, true, true, 9)]), [(Place::Forwarder, to_home)]);
        assert_eq!(place(false, &[count(UP, true, false, 4)]), [], "a few packets");
    }

    #[test]
    fn a_flow_that_pauses_stays_and_one_that_ends_goes() {
        let mut numbers = Numbers::default();
        let mut passing = Passing::default();
        let at = |s: u64| Time::ZERO + Span::from_secs(s);
        let flow = flow_of(HOME, false);
        let mut look = |s, counts: &[FlowCount]| passing.look(at(s), false, counts, &mut numbers);
        assert_eq!(look(1, &[count(UP, true, false, 50)]).len(), 1);
        assert_eq!(look(2, &[count(UP, true, false, 99)]), []);
        assert_eq!(look(100, &[count(UP, true, false, 99)]), []);
        // The counter was lost and begins again, over another neighbour.
        assert_eq!(look(101, &[count(DOWN, true, false, 20)]).len(), 1);
        assert_eq!(look(222, &[count(DOWN, true, false, 20)]), [Change::Gone(flow)]);
        assert_eq!(passing.home(flow), None);
    }

    #[test]
    fn directions_have_different_identities_and_thousands_of_homes_are_bounded() {
        assert_ne!(flow_of(HOME, true), flow_of(HOME, false));
        let counts: Vec<_> =
            (0..5000).map(|n| FlowCount { home: n, ..count(UP, true, false, 50) }).collect();
        let mut passing = Passing::default();
        let changes = passing.look(Time::ZERO, false, &counts, &mut Numbers::default());
        assert_eq!((changes.len(), passing.flows.len()), (MAX_FLOWS, MAX_FLOWS));
    }
}
