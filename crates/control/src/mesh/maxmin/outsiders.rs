//! Whether flows that nobody limits take the air around a node. Whoever gives way to them has nothing
//! in the end, so the node then holds nobody back.

use fairmesh_units::{Span, Time};

use super::FEW;

/// Part of the packets around that may be of such flows.
const MANY: f64 = 0.1;
/// A flow around so many times as fast as the level, for so long, is held by nobody; and for how long
/// a node then holds nobody back, at first and at most: each time twice as long.
const FASTER: f64 = 4.0;
const UNHELD: Span = Span::from_secs(6);
const REST: (Span, Span) = (Span::from_secs(5), Span::from_secs(320));
/// Nobody was so fast for this long after the last time: it begins anew.
const QUIET: Span = Span::from_secs(60);

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outsiders {
    /// Packets that have met nobody who takes part, and others, fading.
    strange: f64,
    known: f64,
    /// Since when a flow around is much faster than the level; until when nobody is held back for
    /// that, and for how long that was last.
    faster: Option<Time>,
    until: Time,
    rest: Span,
    there: bool,
}

impl Outsiders {
    /// A packet was heard or sent; `known`: it has met somebody who takes part.
    pub fn packet(&mut self, known: bool) {
        *if known { &mut self.known } else { &mut self.strange } += 1.0;
    }

    /// They are there: nobody is held back.
    pub fn there(&self) -> bool {
        self.there
    }

    /// A look: counts fade by `fade`; the fastest flow around, and the level, if there is one. Returns whether they
    /// are there since now.
    pub fn look(&mut self, now: Time, fade: f64, fastest: f64, level: Option<f64>) -> bool {
        self.strange *= fade;
        self.known *= fade;
        let part = self.strange / (self.strange + self.known + FEW);
        let many = part > if self.there { 0.5 * MANY } else { MANY };
        // Or their packets have met somebody: then they are faster than what holds everybody.
        let faster = level.is_some_and(|level| fastest > FASTER * level);
        self.faster = faster.then(|| self.faster.unwrap_or(now));
        if now >= self.until + QUIET {
            self.rest = Span::ZERO;
        }
        if self.faster.is_some_and(|at| now.since(at) >= UNHELD) {
            self.faster = None;
            self.rest = (self.rest + self.rest).clamp(REST.0, REST.1);
            self.until = now + self.rest;
        }
        let before = core::mem::replace(&mut self.there, many || now < self.until);
        self.there && !before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks every 100 ms for `seconds`, with so many packets before each; seconds with outsiders.
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
        // Six seconds, then it has five; six, then ten; and so on.
        for (from, to, rest) in [(5, 11, 5.0), (11, 27, 10.0), (27, 53, 20.0)] {
            let there = seconds(&mut o, from, to, (0, 20), 500e3);
            assert!((there - rest).abs() < 1.0, "{from}: {there}");
        }
        assert!(seconds(&mut o, 60, 1000, (0, 20), 500e3) > 850.0);
        // It is held after all: the last wait ends, and no other begins.
        seconds(&mut o, 1000, 1400, (0, 20), 150e3);
        assert!(!o.there());
    }
}
