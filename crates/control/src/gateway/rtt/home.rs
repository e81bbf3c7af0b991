//! One home in one direction: how full its way through the mesh is, and how much of the level it uses.

use fairmesh_units::{FlowId, Span};

use super::{CHANGED, PACKET};
use crate::PathSigns;

/// Delay at the edge of what a mesh carries: this number of packets on the slowest link (a queue of a packet at each hop and
/// its neighbours), and this number of least round trips.
const PACKETS: f64 = 12.0;
const BASES: f64 = 8.0;
/// Round trips over which a home's delay is smoothed.
const SAMPLES: f64 = 5.0;
/// Time in which a delay without new round trips fades, s: a burst at the start must not count for minutes.
const FADE: f64 = 5.0;
/// Age of an unanswered packet from which it is late, s, and the same in packets at the home's limit.
const LATE: f64 = 0.4;
const LATE_PACKETS: f64 = 2.0;
/// Time over which a home's part of the level falls when it uses less, s; it rises by half at a look.
const IDLE: f64 = 10.0;
/// Silence after which a home has ended, s: TCP's timeouts last longer where it was in trouble.
const ENDED: f64 = 4.0;
const ENDED_IN_TROUBLE: f64 = 30.0;

/// Delay of a home at the edge of what the mesh carries.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Edge {
    /// Time of a packet on the slowest link, s.
    pub packet: f64,
    /// Longest delay that is allowed, s.
    pub longest: f64,
}

impl Edge {
    fn delay(&self, base: f64) -> f64 {
        (PACKETS * self.packet + BASES * base).min(self.longest)
    }
}

/// A counter at the last look and now.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Counter {
    pub now: Option<u64>,
    last: Option<u64>,
}

/// A home in one direction.
#[derive(Clone, Debug)]
pub(super) struct Home {
    pub flow: FlowId,
    /// True while it has a class.
    pub class: bool,
    pub weight: f64,
    /// bit/s.
    pub guarantee: f64,
    /// bit/s; infinite where the plan has none.
    pub ceiling: f64,
    /// Limit in force, bit/s.
    pub limit: f64,
    /// Samples of this look.
    pub bytes: Counter,
    pub queued: u32,
    pub signs: Option<PathSigns>,
    /// Packets wait in its class: it has what it may have.
    pub held: bool,
    /// Smoothed delay in the mesh, s.
    delay: f64,
    /// Delay over that at the edge.
    pub fullness: f64,
    /// A packet in the mesh is late.
    pub late: bool,
    /// Round trips of this look.
    pub round_trips: u32,
    /// Part of the level that it uses, 0 to 1.
    pub active: f64,
    silent: f64,
    troubled: bool,
}

impl Home {
    pub fn new(flow: FlowId) -> Self {
        Home {
            flow,
            class: false,
            weight: 1.0,
            guarantee: 0.0,
            ceiling: f64::INFINITY,
            limit: 0.0,
            bytes: Counter::default(),
            queued: 0,
            signs: None,
            held: false,
            delay: 0.0,
            fullness: 0.0,
            late: false,
            round_trips: 0,
            active: 0.0,
            silent: ENDED,
            troubled: false,
        }
    }

    /// Limit at a level, bit/s per weight; true if it is a new one.
    pub fn allow(&mut self, level: f64) -> bool {
        let limit = (level * self.weight).min(self.ceiling).max(self.guarantee).max(1.0);
        let changed = (limit - self.limit).abs() > CHANGED * self.limit;
        if changed {
            self.limit = limit;
        }
        changed
    }

    /// The flow is gone; its counter is kept, since it may come back.
    pub fn leave(&mut self) {
        (self.delay, self.fullness, self.active) = (0.0, 0.0, 0.0);
        (self.late, self.troubled) = (false, false);
    }

    /// Takes the samples of a look over `elapsed` s in.
    pub fn look(&mut self, elapsed: f64, edge: &Edge) {
        let sent = self.sent();
        let used = sent / (self.limit * elapsed).max(1.0);
        self.held = self.queued > 0;
        self.silent = if sent > 0.0 { 0.0 } else { self.silent + elapsed };
        let trip = self.signs.and_then(|s| s.round_trip);
        self.round_trips = trip.map_or(0, |t| t.count);
        let base = trip.map_or(0.0, |t| t.base.as_secs_f64());
        match trip {
            Some(trip) => {
                let grown = trip.median.saturating_sub(trip.base).as_secs_f64();
                let weight = 1.0 - (-f64::from(trip.count) / SAMPLES).exp();
                self.delay += weight * (grown - self.delay);
                self.fullness = self.delay / edge.delay(base);
            }
            None => {
                let fade = (-elapsed / FADE).exp();
                (self.delay, self.fullness) = (self.delay * fade, self.fullness * fade);
            }
        }
        self.wait(base);
        if self.held {
            self.troubled = false;
        } else if self.silent < 1.5 * elapsed {
            self.troubled |= self.fullness > 1.0 || self.late;
        }
        let ended = self.silent > if self.troubled { ENDED_IN_TROUBLE } else { ENDED };
        if ended {
            let active = self.active;
            self.leave();
            self.active = active;
        }
        let now = if self.held || used > 0.5 || self.troubled { 1.0 } else { used.min(1.0) };
        let weight = if now > self.active { 0.5 } else { 1.0 - (-elapsed / IDLE).exp() };
        self.active += weight * (now - self.active);
    }

    /// Ends a look: samples are for one look only.
    pub fn settle(&mut self) {
        self.bytes.last = self.bytes.now.take().or(self.bytes.last);
        (self.queued, self.signs) = (0, None);
    }

    /// Bits that have passed since the last look; 0 for a counter that is missing or ran backwards.
    fn sent(&self) -> f64 {
        let moved = self.bytes.now.zip(self.bytes.last).map(|(now, last)| now.saturating_sub(last));
        8.0 * moved.unwrap_or(0) as f64
    }

    /// Looks for a packet that waits long in the mesh while none waits here. One that waits while the class is full may be one
    /// that the class has dropped.
    fn wait(&mut self, base: f64) {
        let oldest = self.signs.and_then(|s| s.oldest).filter(|_| !self.held);
        let age = (oldest.unwrap_or(Span::ZERO).as_secs_f64() - base).max(0.0);
        let bound = LATE.max(LATE_PACKETS * PACKET / self.limit.max(1.0));
        self.late = age > bound;
    }
}
