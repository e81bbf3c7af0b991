//! One home in one direction: the fullness of its path and its use of the level.

use fairmesh_units::{FlowId, NodeId, Span};

use super::PACKET_BITS;
use super::tuning::Tuning;
use crate::PathSigns;

/// Longest timeout of TCP, in s (RFC 6298 §2.4).
///
/// A packet without an answer for longer limits no other home: its acknowledgement is withheld. The level does not
/// fall for that time, doubled up to eight times, after a fall without use.
pub(super) const MAX_TIMEOUT: f64 = 60.0;

/// Delay of a home at the edge of the mesh's capacity.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Edge {
    /// Time of a packet on the slowest link, in s.
    pub packet: f64,
    /// Longest delay that is allowed, in s.
    pub longest: f64,
    pub tuning: &'static Tuning,
}

impl Edge {
    fn delay(&self, base: f64) -> f64 {
        let t = self.tuning;
        (t.edge_delay_packets * self.packet + t.edge_delay_round_trips * base).min(self.longest)
    }
}

/// A counter at the last sample and now.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Counter {
    pub now: Option<u64>,
    last: Option<u64>,
}

/// A home in one direction.
#[derive(Clone, Default, Debug)]
pub(super) struct Home {
    tuning: &'static Tuning,
    pub flow: FlowId,
    /// Node of the mesh that its packets come from or go to; `None` where it is not known.
    pub node: Option<NodeId>,
    /// True for traffic to the gateway, false for traffic from it; `None` where it is not known.
    pub upstream: Option<bool>,
    /// True while it has a class.
    pub class: bool,
    pub weight: f64,
    /// Analytic fair rate per weight, bit/s of application data; `None` where it is not known.
    pub fair: Option<f64>,
    /// Multiple of the level by the analytic fair rates.
    ///
    /// It is 1 for the least of them, and without topology.
    pub allotted: f64,
    /// Multiple of the level by a path that has room while another is full ([`super::raise`]).
    ///
    /// It is 1 for most homes.
    pub raised: f64,
    /// Wireless hops to it, as routing reports them.
    pub hops: Option<u32>,
    /// Minimum round trip, s; 0 until one is known.
    pub base_s: f64,
    /// Cost of a bit over the mean cost of all homes ([`super::objective`]).
    ///
    /// It is 1 under max-min fairness.
    pub cost: f64,
    /// Multiple of the level by its cost.
    ///
    /// It is 1 for the most expensive home, and for all homes under max-min fairness.
    pub multiple: f64,
    /// Rate that the objective guarantees, in bit/s.
    pub floor: f64,
    /// bit/s.
    pub guarantee: f64,
    /// bit/s; infinite where the plan has none.
    pub ceiling: f64,
    /// Limit in force, in bit/s.
    pub limit: f64,
    /// Samples of this control period.
    pub bytes: Counter,
    pub packets: Counter,
    pub drops: Counter,
    pub queued: u32,
    pub signs: Option<PathSigns>,
    /// True if packets wait in its class, so that its limit is in effect.
    pub held: bool,
    /// Rate of its bytes in this control period, in bit/s.
    pub carried: f64,
    /// True if more than its limit has passed, because limits are not in force.
    pub unlimited: bool,
    /// True if its counters were read in the last control period.
    continuous: bool,
    /// Delay in the mesh relative to that at the edge of the mesh's capacity.
    pub fullness: f64,
    /// Mean of the fullness.
    pub mean: f64,
    /// Fraction of the time with backlog.
    pub held_part: f64,
    /// True if a packet in the mesh is late.
    pub late: bool,
    /// Retries of the late packet that have failed in this control period.
    ///
    /// Its sender waits twice as long each time (RFC 6298 §5.5), so each doubling of its age is one.
    pub failures: f64,
    /// Retries that have failed since it is late.
    retries: f64,
    /// Round trips of this control period.
    pub round_trips: u32,
    /// Part of the level that it uses, 0 to 1.
    pub active: f64,
    /// Time for which it has offered much more than its limit, s, at most the time of a flood.
    over: f64,
    flood: bool,
    /// True if it has become a flood or ceased to be one in this control period.
    pub renamed: bool,
    /// Mean multiple of its limit that it offers.
    ///
    /// Each period counts at most [`Tuning::flood_ratio`].
    brings: f64,
    /// True for a flood with a source that keeps the limit.
    pub limited: bool,
    /// True if another flow of its node is a flood without a limit at its source.
    pub beside: bool,
    silent: f64,
    troubled: bool,
}

impl Counter {
    /// Growth since the last sample; 0 for a counter that is missing or ran backwards.
    fn moved(&self) -> u64 {
        let moved = self.now.zip(self.last).map(|(now, last)| now.saturating_sub(last));
        moved.unwrap_or(0)
    }

    fn settle(&mut self) {
        self.last = self.now.take().or(self.last);
    }
}

impl Home {
    pub fn new(flow: FlowId, tuning: &'static Tuning) -> Self {
        Home {
            tuning,
            flow,
            weight: 1.0,
            allotted: 1.0,
            raised: 1.0,
            cost: 1.0,
            multiple: 1.0,
            ceiling: f64::INFINITY,
            silent: MAX_TIMEOUT,
            ..Home::default()
        }
    }

    /// Returns its rate over the level, by weight, objective and topology.
    ///
    /// An increase by [`super::raise`] is taken from no other home.
    pub fn part(&self) -> f64 {
        self.weight * self.allotted * self.multiple
    }

    /// Limit at a level, bit/s, and never above `most`; true if it is a new one.
    pub fn allow(&mut self, level: f64, most: f64) -> bool {
        let fair = self.floor.max(level * self.part());
        let share = (fair * self.raised).min(most.max(level * self.weight));
        let share = if self.beside { self.tuning.residual_share() * share } else { share };
        let limit = share.min(self.ceiling).max(self.guarantee).max(1.0);
        // A tenth of the growth in a second.
        let changed = (limit - self.limit).abs() > 0.1 * self.tuning.gain * self.limit;
        if changed {
            self.limit = limit;
        }
        changed
    }

    /// Ends the flow; its counter is kept, since the flow may return.
    pub fn leave(&mut self) {
        (self.fullness, self.mean, self.active) = (0.0, 0.0, 0.0);
        (self.held_part, self.raised) = (0.0, 1.0);
        (self.late, self.troubled, self.failures) = (false, false, 0.0);
    }

    /// Evaluates the samples of a control period of `elapsed` s.
    pub fn look(&mut self, elapsed: f64, edge: &Edge) {
        let sent = self.sent();
        let used = sent / (self.limit * elapsed).max(1.0);
        self.held = self.queued > 0;
        self.carried = sent / elapsed;
        // A change of the limit within the period, a burst and a packet's transmission pass beside it.
        let most = self.tuning.compliant_ratio * self.limit * elapsed + 3.0 * PACKET_BITS;
        self.unlimited = self.class && self.continuous && !self.held && sent > most;
        self.silent = if sent > 0.0 { 0.0 } else { self.silent + elapsed };
        let trip = self.signs.and_then(|s| s.round_trip);
        self.round_trips = trip.map_or(0, |t| t.count);
        let memory = self.tuning.fullness_memory;
        match trip {
            Some(trip) => {
                self.base_s = trip.base.as_secs_f64();
                let delay = trip.median.saturating_sub(trip.base).as_secs_f64();
                self.fullness += Tuning::weight(f64::from(trip.count), memory)
                    * (delay / edge.delay(self.base_s) - self.fullness);
            }
            None => self.fullness *= (-elapsed / memory).exp(),
        }
        self.wait(trip.map_or(0.0, |t| t.base.as_secs_f64()));
        // TCP's timeouts last longer in trouble, and the home wants to send.
        self.troubled = !self.held && (self.troubled || self.late || self.fullness > 1.0);
        if self.silent > 0.5 * MAX_TIMEOUT {
            let active = self.active;
            self.leave();
            self.active = active;
        }
        let weight = Tuning::weight(elapsed, self.tuning.long());
        self.mean += weight * (self.fullness - self.mean);
        self.held_part += weight * (f64::from(u8::from(self.held)) - self.held_part);
        let now = if self.held || used > 0.5 || self.troubled { 1.0 } else { used.min(1.0) };
        let falls = Tuning::weight(elapsed, self.tuning.memory);
        self.active += if now > self.active { 0.5 } else { falls } * (now - self.active);
    }

    /// Detects traffic that does not respond to its limit.
    ///
    /// Traffic from outside is limited before it uses airtime.
    pub fn watch(&mut self, elapsed: f64) {
        if self.upstream == Some(false) {
            return;
        }
        let passed = self.packets.moved().max(1) as f64;
        let dropped = self.drops.moved() as f64 * self.sent() / passed;
        let brought = (self.sent() + dropped) / (self.limit * elapsed).max(1.0);
        let t = self.tuning;
        self.brings += Tuning::weight(elapsed, 0.25 * t.flood_time)
            * (brought.min(t.flood_ratio) - self.brings);
        let bound = if self.limited { t.residual_share() } else { t.flood_ratio };
        let more = self.class && brought > bound && !self.unlimited;
        let before = self.flood;
        let over = self.over + if more { elapsed } else { -elapsed };
        let long = t.flood_time.max(0.75 * t.effect_time(self.limit));
        self.flood = if before { over > 0.0 } else { over >= long };
        self.over = over.clamp(0.0, if self.flood { t.flood_time } else { long });
        self.renamed |= self.flood != before;
    }

    /// True for a home with traffic that does not respond to its limit.
    ///
    /// The limit may be enforced here or at the source.
    pub fn is_flood(&self) -> bool {
        self.flood
    }

    /// True for a home that has offered much more than its limit for a while.
    pub fn is_suspected(&self) -> bool {
        self.over >= 0.25 * self.tuning.flood_time
    }

    /// True for a flood that is not limited at its source.
    pub fn floods(&self) -> bool {
        self.flood && !self.limited
    }

    /// True if it offers no more than its limit.
    pub fn keeps(&self) -> bool {
        self.brings <= self.tuning.compliant_ratio
    }

    /// True if its counters were read in this control period.
    pub fn is_sampled(&self) -> bool {
        self.bytes.now.is_some()
    }

    /// Ends a control period: discards its samples.
    pub fn settle(&mut self) {
        self.continuous = self.is_sampled();
        for counter in [&mut self.bytes, &mut self.packets, &mut self.drops] {
            counter.settle();
        }
        (self.queued, self.signs) = (0, None);
    }

    /// Bits that have passed since the last sample.
    fn sent(&self) -> f64 {
        8.0 * self.bytes.moved() as f64
    }

    /// Detects a packet that is late in the mesh while none waits here.
    ///
    /// If the class is full, the class may have dropped that packet.
    fn wait(&mut self, base: f64) {
        let oldest = self.signs.and_then(|s| s.oldest).filter(|_| !self.held);
        let age = (oldest.unwrap_or(Span::ZERO).as_secs_f64() - base).max(0.0);
        self.late = (self.tuning.late_age..MAX_TIMEOUT).contains(&age);
        let retries = if self.late { 1.0 + (age / self.tuning.late_age).log2() } else { 0.0 };
        self.failures = (retries - self.retries).max(0.0);
        self.retries = if self.late { retries.max(self.retries) } else { 0.0 };
    }
}
