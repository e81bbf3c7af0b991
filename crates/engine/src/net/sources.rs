//! Datagram sources with their own queue, which send in batches.
//!
//! A batch contains all datagrams due before the radio's next event.
//!
//! While a node's MAC is busy, a packet that reaches its queue only waits there. If no other source
//! uses that queue, the result is the same whether the source sends at its times or, up to the
//! radio's next event, in one batch: the packets carry their times. A source that fills A-MPDUs
//! then costs one event per A-MPDU, not per MPDU.

use fairmesh_queueing::Verdict;
use fairmesh_transport::Datagram;
use fairmesh_units::{NodeId, Time};

use super::flow::{Ends, FlowState, Hop};
use super::packet::{Packet, Payload};
use super::{Interface, Net};
use crate::record::Cause;

/// Value instead of a node if the flow shares its queue.
const SHARED_QUEUE: u32 = u32::MAX;

/// Flows with a first queue of their own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Owners {
    /// Per flow: the radio at which it begins.
    radios: Vec<u32>,
}

impl<const WATCH: bool, const HOST: bool> Net<WATCH, HOST> {
    /// Finds the flows that own their queue. There are none where a control listens.
    pub fn find_owners(&mut self) {
        let radios = (0..self.flows.len()).map(|f| self.owned(f).unwrap_or(SHARED_QUEUE)).collect();
        self.owners = Owners { radios };
    }

    fn owned(&self, f: usize) -> Option<u32> {
        let flow = &self.flows[f];
        let (Ends::Udp { .. }, Some(Hop::Radio { .. })) = (&flow.ends, flow.forward.first()) else {
            return None;
        };
        let node = flow.path[0];
        let n = node as usize;
        let passes = |(g, other): (usize, &FlowState)| g != f && other.senders().contains(&node);
        let free = !HOST
            && self.lanes.is_empty()
            && flow.keeps_its_path()
            && self.classes_at[n].is_none()
            && self.departed[n].is_empty()
            && self.interfaces.get(n).is_some_and(Interface::is_plain)
            && !self.flows.iter().enumerate().any(passes);
        free.then_some(node)
    }

    /// Returns the radio with a queue used by this timer's flow alone.
    #[inline]
    pub fn owner(&self, slot: usize) -> Option<NodeId> {
        let node = *self.owners.radios.get(slot)?;
        (node != SHARED_QUEUE).then_some(NodeId(node))
    }

    /// Sends all datagrams due before `until` of a source with its own queue and a busy MAC.
    ///
    /// Returns their number.
    pub fn send_ahead(&mut self, f: usize, until: Time) -> u64 {
        let flow = &mut self.flows[f];
        let interface = &mut self.interfaces[flow.path[0] as usize];
        let mut sent = 0;
        loop {
            let now = flow.source.next_deadline();
            if now >= until {
                break;
            }
            let Some(bytes) = flow.source.datagram(now) else { break };
            sent += 1;
            let Some(datagram) = flow.number(now, bytes, self.measure_from) else { continue };
            if interface.is_full(datagram.ip_bytes()) {
                // Counts as built, refused and removed.
                self.packets.count();
                flow.meters.lost(Cause::Queue, (now >= self.measure_from).then_some(true));
                continue;
            }
            let packet = flow.packet(f, datagram);
            let handle = self.packets.insert(packet);
            interface.count(now);
            let verdict = interface.enqueue::<HOST>(now, packet.item(handle, &self.numbers), None);
            debug_assert!(verdict == Verdict::Queued, "a plain queue with room takes a packet");
        }
        self.timers.set(f, self.flows[f].next_deadline());
        sent
    }
}

impl FlowState {
    fn keeps_its_path(&self) -> bool {
        self.way().len() == self.path.len()
    }

    /// Returns the nodes with queues for its packets; datagrams have no return traffic.
    fn senders(&self) -> &[u32] {
        match self.ends {
            Ends::Udp { .. } if self.keeps_its_path() => &self.path[..self.path.len() - 1],
            _ => &self.path,
        }
    }

    /// Numbers the next datagram, of `bytes` bytes; `None` if the flow has none.
    #[inline]
    pub fn number(&mut self, now: Time, bytes: u32, measure_from: Time) -> Option<Datagram> {
        let Ends::Udp { next, .. } = &mut self.ends else { return None };
        let datagram = Datagram { seq: *next, len: bytes, sent: now };
        *next += 1;
        if now >= measure_from {
            self.meters.packets_sent += 1;
        }
        Some(datagram)
    }

    /// Builds a datagram that leaves the origin.
    #[inline]
    pub fn packet(&self, f: usize, datagram: Datagram) -> Packet {
        Packet {
            payload: Payload::Udp(datagram),
            born: datagram.sent.as_nanos(),
            flow: f as u32,
            generation: self.generation,
            bytes: datagram.ip_bytes(),
            place: self.place_of(0) as u16,
            forward: true,
            ect: false,
            ect1: false,
            ce: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use fairmesh_scenario::draft_from_toml;
    use fairmesh_units::Span;
    use proptest::prelude::*;

    use super::Owners;
    use crate::island_rates::fair_rates;
    use crate::world::{RunOptions, World, collect};

    const RADIOS: [&str; 3] = [
        "phy = \"802.11b\"\nrate = \"11 Mbit/s\"",
        "phy = \"802.11ac\"\nwidth = \"80 MHz\"\nmcs = 7\nreception = \"nocap\"\nrts = true",
        "phy = \"802.11n\"\nmcs = 3\nreception = \"nocap\"\nampdu = \"16383 B\"",
    ];
    const QUEUES: [&str; 3] = ["7", "300", "{ kind = \"drop-tail\", bytes = \"90000 B\" }"];

    /// Returns the record of a run as text, and the number of flows that sent ahead.
    fn record(text: &str, options: &RunOptions, ahead: bool) -> (String, usize) {
        let scenario = draft_from_toml("test.toml", text).unwrap().build().unwrap();
        let fair = fair_rates(&scenario).unwrap();
        let mut world =
            World::<false, false>::new(scenario.into(), options, Some(fair), vec![], None).unwrap();
        if !ahead {
            world.net.owners = Owners::default();
        }
        let owners = (0..world.net.flows.len()).filter(|&f| world.net.owner(f).is_some()).count();
        let end = world.run();
        (format!("{:?}", collect::record(&mut world, end)), owners)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn sending_ahead_does_not_change_a_run(
            seed in 0u64..1000, radio in 0usize..3, queue in 0usize..3, kbps in 50u32..60_000,
            bytes in 40u32..1470, jitter in prop::sample::select(vec!["0", "0.5"]),
            sampled in any::<bool>(), second in any::<bool>(),
        ) {
            // A star, with a chain at one of its ends, and a source that stops.
            let (radio, queue) = (RADIOS[radio], QUEUES[queue]);
            let traffic = format!(
                "traffic = {{ kind = \"cbr\", rate = \"{kbps} kbit/s\", packet = \"{bytes} B\", jitter = {jitter} }}\n\
                 transport = \"udp\""
            );
            let more = if second { "[[flow]]\nfrom = 3\nto = 4\n" } else { "" };
            let text = format!(
                "duration = \"700 ms\"\nwarmup = \"100 ms\"\n[radio]\n{radio}\nqueue = {queue}\n[topology]\n\
                 links = [[0, 1], [0, 2], [0, 3], [3, 4]]\ngateway = 0\n[traffic]\n{traffic}\n\
                 [[flow]]\nfrom = 1\nto = 0\n[[flow]]\nfrom = 2\nto = 0\nstop = \"300 ms\"\n\
                 [[flow]]\nfrom = 4\nto = 0\n{more}"
            );
            let sample = sampled.then(|| Span::from_millis(90));
            let options = RunOptions { seed, sample, ..RunOptions::default() };
            let (ahead, owners) = record(&text, &options, true);
            let (one_by_one, none) = record(&text, &options, false);
            prop_assert_eq!((owners, none), (3, 0));
            prop_assert_eq!(ahead, one_by_one);
        }
    }
}
