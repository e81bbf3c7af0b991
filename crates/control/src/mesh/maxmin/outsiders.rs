//! Detection of unlimited flows that take the air around a node.
//!
//! A node that yields to them ends without capacity, so it then limits no flow.

use fairmesh_units::{Span, Time};

use super::SMOOTHING_PACKETS;

/// Fraction of the packets around that may belong to such flows.
const UNLIMITED_FRACTION: f64 = 0.1;
/// Ratio of a flow around to the level from which it counts as unlimited.
const UNLIMITED_RATIO: f64 = 4.0;
/// Time after which such a flow counts as unlimited.
const UNLIMITED_TIME: Span = Span::from_secs(6);
/// First and longest time for which a node then limits no flow; it doubles each time.
const PAUSE_BOUNDS: (Span, Span) = (Span::from_secs(5), Span::from_secs(320));
/// Time without such a flow after which the doubling starts again.
const PAUSE_RESET_TIME: Span = Span::from_secs(60);

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outsiders {
    /// Packets that have met no node that takes part, with exponential decay.
    strange: f64,
    /// Other packets, with exponential decay.
    known: f64,
    /// Time since which a flow around is much faster than the level.
    faster: Option<Time>,
    /// Time until which no flow is limited for this reason.
    until: Time,
    /// Length of the last such time.
    rest: Span,
    there: bool,
}

impl Outsiders {
    /// Counts a packet; `known` is true if a participating node has handled it.
    pub fn packet(&mut self, known: bool) {
        *if known { &mut self.known } else { &mut self.strange } += 1.0;
    }

    /// Counts packets that a participating node has handled.
    pub fn known_packets(&mut self, number: u32) {
        self.known += f64::from(number);
    }

    /// True if there are such flows, so that no flow is limited.
    pub fn there(&self) -> bool {
        self.there
    }

    /// Updates the state; returns true if such flows were newly detected.
    ///
    /// Counts decay by the factor `fade`; `fastest` is the fastest flow around, and `level` the level, if there is one.
    pub fn look(&mut self, now: Time, fade: f64, fastest: f64, level: Option<f64>) -> bool {
        self.strange *= fade;
        self.known *= fade;
        let part = self.strange / (self.strange + self.known + SMOOTHING_PACKETS);
        let many = part > if self.there { 0.5 * UNLIMITED_FRACTION } else { UNLIMITED_FRACTION };
        // Or their packets have met such a node: then they are faster than the level that limits all flows.
        let faster = level.is_some_and(|level| fastest > UNLIMITED_RATIO * level);
        self.faster = faster.then(|| self.faster.unwrap_or(now));
        if now >= self.until + PAUSE_RESET_TIME {
            self.rest = Span::ZERO;
        }
        if self.faster.is_some_and(|at| now.since(at) >= UNLIMITED_TIME) {
            self.faster = None;
            self.rest = (self.rest + self.rest).clamp(PAUSE_BOUNDS.0, PAUSE_BOUNDS.1);
            self.until = now + self.rest;
        }
        let before = core::mem::replace(&mut self.there, many || now < self.until);
        self.there && !before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a tick every 100 ms with these packets before each.
    ///
    /// Returns the seconds with unlimited flows.
    fn seconds(o: &mut Outsiders, from: u64, to: u64, packets: (u32, u32), fastest: f64) -> f64 {
        let mut there = 0;
        for tick in 10 * from..10 * to {
            (0..packets.0).for_each(|_| o.packet(false));
            (0..packets.1).for_each(|_| o.packet(true));
            let level = (!o.there()).then_some(100e3);
            o.look(Time::ZERO + Span::from_millis(100 * tick), 0.95, fastest, level);
            there += u32::from(o.there());
        }
        f64::from(there) / 10.0
    }

    #[test]
    fn a_few_packets_of_others_change_nothing_and_many_do_until_they_end() {
        let mut o = Outsiders::default();
        assert_eq!(seconds(&mut o, 0, 20, (1, 20), 150e3), 0.0);
        assert!(seconds(&mut o, 20, 40, (10, 10), 150e3) > 19.0);
        assert!(seconds(&mut o, 40, 60, (0, 20), 150e3) < 6.0);
        assert!(!o.there());
    }

    #[test]
    fn a_flow_that_no_level_holds_is_an_outsiders_and_is_asked_again_ever_later() {
        let mut o = Outsiders::default();
        assert_eq!(seconds(&mut o, 0, 5, (0, 20), 500e3), 0.0, "it may be about to be held");
        // Six seconds, then it rests for five; six, then ten; and so on.
        for (from, to, rest) in [(5, 11, 5.0), (11, 27, 10.0), (27, 53, 20.0)] {
            let there = seconds(&mut o, from, to, (0, 20), 500e3);
            assert!((there - rest).abs() < 1.0, "{from}: {there}");
        }
        assert!(seconds(&mut o, 60, 1000, (0, 20), 500e3) > 850.0);
        // The flow is limited after all: the last wait ends without another one.
        seconds(&mut o, 1000, 1400, (0, 20), 150e3);
        assert!(!o.there());
    }
}
