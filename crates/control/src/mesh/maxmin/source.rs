//! Flows at a node: their rates, and the limit of those that enter the mesh here.

use fairmesh_units::{BitRate, FlowId, NodeId, Span, Time};

use crate::{Counters, FlowHere, Place};

/// Time constant of the measured rates, in s.
const RATE_TIME_CONSTANT: f64 = 1.0;
/// Time for which a flow may lack throughput without a delivery since a loss.
///
/// The loss is a packet discarded by the MAC; the time is four timeouts of TCP.
const UNDELIVERED_TIMEOUT: Span = Span::from_secs(16);
/// Time for which a flow may lack throughput with deliveries since: two TCP timeouts.
const DELIVERED_TIMEOUT: Span = Span::from_secs(6);

/// A flow that crosses the node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passing {
    pub here: FlowHere,
    /// True if its data enters the mesh here, and is limited here.
    pub enters: bool,
    /// IP bytes of data that have left since the last sample.
    bytes: u64,
    /// Moving average of the rate, application bits per second and unit of weight.
    pub rate: f64,
    /// Moving average of the rate over a shorter time.
    quick: f64,
    /// Time at which the MAC last gave up a packet of the flow.
    pub failed: Option<Time>,
    /// Time of its last delivered data.
    through: Option<Time>,
    /// Limit in force, in the same unit.
    pub limit: Option<f64>,
    /// Lowest level on the path of its acknowledgements, and its time.
    pub way: Option<(Time, f64)>,
    /// Least level that its data met before it came here, and the time.
    pub before: Option<(Time, f64)>,
    /// Neighbour from which its data comes.
    pub from: Option<NodeId>,
    /// Time at which that neighbour was last sent a message about it.
    pub reported: Option<Time>,
    /// Time at which an acknowledgement last came or went.
    pub answered: Option<Time>,
    /// Time at which its data last came or went.
    pub seen: Option<Time>,
    /// Number of packets that wait in its class at the last sample.
    waits: u32,
    /// Drops of its class at the last sample.
    drops: u64,
    held: Option<Time>,
    /// Fraction of its packets that are marked.
    pub marked: f64,
}

impl Passing {
    pub fn new(here: FlowHere, enters: bool) -> Self {
        Passing {
            here,
            enters,
            bytes: 0,
            rate: 0.0,
            quick: 0.0,
            failed: None,
            through: None,
            limit: None,
            way: None,
            before: None,
            from: None,
            reported: None,
            answered: None,
            seen: None,
            waits: 0,
            drops: 0,
            held: None,
            marked: 0.0,
        }
    }

    /// True if its limit holds it back.
    pub fn held(&self) -> bool {
        self.held.is_some()
    }

    pub fn flow(&self) -> FlowId {
        self.here.flow
    }

    /// Records that data of the flow has left.
    pub fn left(&mut self, now: Time, bytes: u32) {
        self.bytes += u64::from(bytes);
        self.through = Some(now);
        self.seen = Some(now);
    }

    /// Handles the counters of its class, before a deadline.
    pub fn counted(&mut self, now: Time, c: &Counters) {
        self.waits = c.queued_packets;
        if c.queued_packets > 0 || c.drops > self.drops {
            self.held = Some(now);
        }
        self.drops = c.drops;
    }

    /// Returns the number of packets that wait for the limit.
    pub fn waits(&self) -> u32 {
        self.waits
    }

    /// Returns the fraction of its packets to mark.
    ///
    /// It follows from the time that those beyond `free` will wait at the limit in force. All are marked from
    /// `patience` on.
    pub fn marks(&self, free: f64, patience: Span) -> f64 {
        let over = (f64::from(self.waits) - free).max(0.0);
        let Some(limit) = self.limit else { return 0.0 };
        let wait = 8.0 * f64::from(self.here.packet) * over / self.ip(limit).0.max(1) as f64;
        (wait / patience.as_secs_f64()).min(1.0)
    }

    /// Updates the measured rate, and removes values older than the hold time.
    pub fn look(&mut self, now: Time, passed: Span, hold: Span) {
        self.way = self.way.filter(|w| now.since(w.0) < hold);
        self.before = self.before.filter(|w| now.since(w.0) < hold);
        self.held = self.held.filter(|at| now.since(*at) < hold);
        let dt = passed.as_secs_f64();
        if dt <= 0.0 {
            return;
        }
        let bits = 8.0 * core::mem::take(&mut self.bytes) as f64;
        let payload = f64::from(self.here.payload) / f64::from(self.here.packet.max(1));
        let rate = bits * payload / dt / self.here.weight;
        self.quick += (dt / RATE_TIME_CONSTANT).min(1.0) * (rate - self.quick);
        let time = if rate > self.rate { RATE_TIME_CONSTANT } else { 4.0 * RATE_TIME_CONSTANT };
        self.rate += (dt / time).min(1.0) * (rate - self.rate);
    }

    /// Returns the missing fraction of its former rate since a packet was discarded.
    ///
    /// TCP may be idle for seconds after that, and longer each time. `most` is its present maximum.
    pub fn lacks(&self, now: Time, most: f64) -> f64 {
        let Some(failed) = self.failed else { return 0.0 };
        let ago = now.since(failed);
        if self.through.is_none_or(|at| at < failed) {
            return if ago < UNDELIVERED_TIMEOUT { 1.0 } else { 0.0 };
        }
        let had = self.rate.min(most);
        if ago < DELIVERED_TIMEOUT && had > 0.0 {
            (1.0 - self.quick / had).clamp(0.0, 1.0)
        } else {
            0.0
        }
    }

    /// True if its packets have been seen recently.
    pub fn active(&self, now: Time) -> bool {
        self.seen.is_some_and(|at| now.since(at) < UNDELIVERED_TIMEOUT)
    }

    /// Returns the lowest level known on its path, without this node.
    pub fn least(&self) -> f64 {
        let [after, before] = [self.way, self.before].map(|w| w.map_or(f64::INFINITY, |w| w.1));
        after.min(before)
    }

    /// Returns its effective rate: the limit if that holds it back, otherwise its own rate.
    pub fn counts(&self) -> f64 {
        match self.limit {
            Some(limit) if self.held() => limit.max(self.rate),
            _ => self.rate,
        }
    }

    /// Returns the limit of its class, in IP bits, for a level.
    pub fn ip(&self, level: f64) -> BitRate {
        let goodput = BitRate((level * self.here.weight).max(1.0) as u64);
        self.here.ip_rate(goodput)
    }
}

/// True if a flow's data enters the mesh at a node: it starts there, or comes in by a wire.
pub(super) fn enters(here: &FlowHere, gateway: bool) -> bool {
    match here.place {
        Place::Source => true,
        Place::Forwarder => gateway && here.upstream != Some(true),
        Place::Sink => false,
    }
}

#[cfg(test)]
mod tests {
    use fairmesh_units::FlowId;

    use super::*;

    #[test]
    fn the_rate_of_a_flow_rises_four_times_as_fast_as_it_falls() {
        let here = FlowHere::new(FlowId(0), Place::Forwarder, 1500, 1500);
        let mut flow = Passing::new(here, false);
        let at = |n: u64| Time::ZERO + Span::from_millis(10 * n);
        let mut second = |bytes: u32| {
            for n in 1..=100 {
                if bytes > 0 {
                    flow.left(at(n), bytes / 100);
                }
                flow.look(at(n), Span::from_millis(10), Span::from_secs(1));
            }
            flow.counts()
        };
        // 1 Mbit/s: of a step a first-order lag leaves 1/e after its time constant.
        let left = libm::exp(-1.0);
        assert!((second(125_000) / 1e6 - (1.0 - left)).abs() < 0.01);
        let before = (0..10).map(|_| second(125_000)).last().unwrap();
        assert!((before / 1e6 - 1.0).abs() < 0.001);
        assert!((second(0) / before - libm::exp(-0.25)).abs() < 0.01);
        (0..3).for_each(|_| _ = second(0));
        assert!((second(0) / before - libm::exp(-1.25)).abs() < 0.01);
    }

    /// Two packets beyond the free one wait 20 ms at 1 Mbit/s, and 200 ms at 100 kbit/s.
    #[test]
    fn packets_are_marked_by_their_expected_wait() {
        let here = FlowHere::new(FlowId(0), Place::Source, 1250, 1250);
        let mut flow = Passing::new(here, true);
        flow.waits = 3;
        let patience = Span::from_millis(100);
        assert_eq!(flow.marks(1.0, patience), 0.0, "nothing holds it");
        let mut at = |limit: f64, free: f64| {
            flow.limit = Some(limit);
            flow.marks(free, patience)
        };
        assert!((at(1e6, 1.0) - 0.2).abs() < 1e-6);
        assert_eq!((at(1e5, 1.0), at(1e6, 3.0)), (1.0, 0.0));
    }
}
