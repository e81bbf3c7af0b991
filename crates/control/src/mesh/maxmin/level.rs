//! The level of a node: the rate of each flow around it, by the queue of its radio.

use fairmesh_units::{Span, Time};

/// Parameters of the rule.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    /// Number of packets at the radio, the one in service included, at which the level stays.
    pub backlog: f64,
    /// Change of the level's logarithm per second with an empty queue.
    pub rise: f64,
    /// Change of the level's logarithm per second at twice `backlog`.
    pub fall: f64,
    /// Fraction by which the reported level falls at once, at twice `backlog`.
    pub damping: f64,
    /// Relative distance of the level above the fastest flow around it, at most.
    pub headroom: f64,
    /// Pressure per fraction of packets discarded by the MAC.
    pub loss: f64,
    /// Pressure that a node tolerates if a lower level around it limits its flows.
    pub aside: f64,
    /// Factor by which the level moves faster in that case.
    pub brisk: f64,
}

/// Multiple of `backlog` beyond which waiting packets add no pressure.
const MAX_BACKLOG_MULTIPLE: f64 = 4.0;
/// Time constant of the fast part of the reported level, in s.
const FAST_TIME_CONSTANT: f64 = 0.3;
/// Change of the level's logarithm per second until packets have waited for the first time.
const INITIAL_GROWTH: f64 = 0.7;
/// Time with an empty queue after which the level grows faster, in s.
const EMPTY_QUEUE_TIMEOUT: f64 = 2.0;
/// Pressure below which the queue counts as empty.
const EMPTY_PRESSURE: f64 = 0.35;

/// Queue of a radio over time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backlog {
    waiting: f64,
    at: Time,
    /// Time at which packets began to wait.
    began: Time,
    /// Packets times seconds since the last sample.
    sum: f64,
    looked: Time,
}

impl Backlog {
    pub fn new() -> Self {
        let zero = Time::ZERO;
        Backlog { waiting: 0.0, at: zero, began: zero, sum: 0.0, looked: zero }
    }

    pub fn is(&mut self, now: Time, packets: f64) {
        self.sum += self.waiting * now.since(self.at).as_secs_f64();
        if self.waiting <= 0.0 {
            self.began = now;
        }
        (self.at, self.waiting) = (now, packets);
    }

    pub fn waiting(&self) -> f64 {
        self.waiting
    }

    /// Returns the time since which packets have waited without a break, if any wait.
    pub fn since(&self) -> Option<Time> {
        (self.waiting > 0.0).then_some(self.began)
    }

    /// Returns the mean number of waiting packets since the last sample.
    pub fn look(&mut self, now: Time) -> f64 {
        let waiting = self.waiting;
        self.is(now, waiting);
        let passed = now.since(self.looked).as_secs_f64();
        self.looked = now;
        let sum = core::mem::take(&mut self.sum);
        if passed > 0.0 { sum / passed } else { waiting }
    }
}

/// The level.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level {
    /// Rate in application bits per second and unit of weight.
    rate: f64,
    /// Smallest and largest rate.
    bounds: (f64, f64),
    /// Moving average of the pressure above 1.
    push: f64,
    /// True if packets have waited.
    opened: bool,
    /// Time for which nothing has waited, in s.
    empty: f64,
}

impl Level {
    pub fn new(start: f64, bounds: (f64, f64)) -> Self {
        Level {
            rate: start.clamp(bounds.0, bounds.1),
            bounds,
            push: 0.0,
            opened: false,
            empty: 0.0,
        }
    }

    /// Sets the smallest and the largest rate.
    pub fn bound(&mut self, bounds: (f64, f64)) {
        (self.rate, self.bounds) = (self.rate.clamp(bounds.0, bounds.1), bounds);
    }

    /// Returns the level, in bit/s.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// Returns the reported level: below the level while too many packets wait.
    pub fn reported(&self, rule: &Rule) -> f64 {
        (self.rate / (1.0 + rule.damping * self.push)).max(self.bounds.0)
    }

    /// Updates the level after `passed`; returns false if the input is invalid.
    ///
    /// The input is the number of waiting packets, the fraction discarded, the fastest flow around, and the ratio of
    /// this level to the one that limits the node's own flows.
    pub fn look(
        &mut self,
        rule: &Rule,
        passed: Span,
        waited: f64,
        lost: f64,
        fastest: f64,
        lower: f64,
    ) -> bool {
        let dt = passed.as_secs_f64();
        let pressure = waited / rule.backlog + rule.loss * lost;
        if pressure.is_nan() || pressure < 0.0 || !fastest.is_finite() {
            return false;
        }
        // Flows that a lower level limits already need no other: the node tolerates more, and limits only flows that
        // are not limited there.
        let aside = libm::cbrt(lower.max(1.0)).min(rule.aside);
        let pressure = pressure.min(MAX_BACKLOG_MULTIPLE) / aside;
        let error = 1.0 - pressure;
        let quick = (dt / FAST_TIME_CONSTANT).min(1.0);
        self.push += quick * ((-error).max(0.0) - self.push);
        self.opened |= error < 0.0;
        self.empty = if pressure < EMPTY_PRESSURE { self.empty + dt } else { 0.0 };
        let ceiling = (fastest * (1.0 + rule.headroom)).max(self.bounds.0);
        if error < 0.0 {
            // A level that limited no flow starts at the ceiling.
            self.rate = self.rate.min(ceiling);
        }
        let speed = match error {
            e if e < 0.0 && aside > 1.1 => rule.fall * rule.brisk,
            e if e < 0.0 => rule.fall,
            _ if !self.opened => INITIAL_GROWTH,
            _ if aside > 1.1 => rule.rise * rule.brisk,
            _ => rule.rise * (1.0 + (self.empty - EMPTY_QUEUE_TIMEOUT).clamp(0.0, 4.0)),
        };
        let rate = self.rate * libm::exp((speed * error * dt).clamp(-0.5, 0.5));
        // No flow needs more than this; a level far above would react late when it is needed.
        let rate = if rate > ceiling { ceiling.max(self.rate * libm::exp(-dt)) } else { rate };
        self.rate = rate.clamp(self.bounds.0, self.bounds.1);
        self.rate.is_finite()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the level after `seconds` at a pressure, with another level `lower` times lower.
    fn after(seconds: u32, waited: f64, lower: f64) -> f64 {
        let rule = Rule {
            backlog: 2.0,
            rise: 0.06,
            fall: 0.06,
            damping: 0.1,
            headroom: 0.5,
            loss: 15.0,
            aside: 1.7,
            brisk: 3.0,
        };
        let mut level = Level::new(100e3, (2e3, 5e6));
        level.look(&rule, Span::from_millis(1), 8.0, 0.0, 1e6, 1.0);
        for _ in 0..10 * seconds {
            assert!(level.look(&rule, Span::from_millis(100), waited, 0.0, 1e6, lower));
        }
        level.rate() / 100e3
    }

    #[test]
    fn a_level_moves_the_faster_the_more_waits() {
        // Packets beyond the two that may wait, relative to these: 0.06 of the level in a second of each.
        for (waited, error) in [(2.5, -0.25), (3.0, -0.5), (4.0, -1.0), (1.0, 0.5)] {
            let expected: f64 = 2.0 * 0.06 * error;
            let moved = after(2, waited, 1.0);
            assert!((moved / libm::exp(expected) - 1.0).abs() < 0.003, "{waited}: {moved}");
        }
    }

    #[test]
    fn flows_limited_elsewhere_may_wait_longer_and_rise_faster() {
        // Three packets wait where two may: no flow of the node is limited elsewhere, so the level falls.
        assert!(after(10, 3.0, 1.0) < 0.8);
        assert!(after(10, 3.0, 0.5) < 0.8, "a higher level elsewhere holds nothing");
        // A level six times lower limits them: others may have more.
        assert!(after(10, 3.0, 6.0) > 1.05);
        // Not without bound.
        assert!(after(10, 4.0, 6.0) < 0.8 && after(10, 4.0, 100.0) < 0.8);
        // Few packets wait: three times as fast, and more is tolerated.
        let (alone, aside) = (after(2, 0.9, 1.0), after(2, 0.9, 6.0));
        assert!((aside - 1.0) > 2.5 * (alone - 1.0), "{alone} {aside}");
    }
}
