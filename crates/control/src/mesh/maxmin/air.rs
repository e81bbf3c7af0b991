//! Comparison of the sensed airtime with the airtime that nodes in range report.
//!
//! If a node senses much more, nodes out of the range of its headers disturb it, and it disturbs them.

use crate::{Channel, Sent, SentSum};

/// Weight of each sample in the averages.
const SAMPLE_GAIN: f64 = 0.02;
/// Busy fraction of the air from which the comparison is made.
const MIN_BUSY: f64 = 0.2;
/// Reported fraction of the busy air below which much more is sensed than reported.
const UNREPORTED_ENTER: f64 = 0.8;
/// Reported fraction of the others' air above which this state ends.
const UNREPORTED_EXIT: f64 = 0.9;
/// Fraction of the air taken by others below which their reports are not evaluated.
const MIN_OTHERS_AIRTIME: f64 = 0.1;

/// DIFS and SIFS of an attempt, in s: 44 to 60 µs in all PHYs (IEEE 802.11-2020 §10.3.2.3).
const INTERFRAME_SPACES: f64 = 50e-6;

/// State of the air as a node senses it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Air {
    /// Airtime of own exchanges since the last sample, in s.
    spent: f64,
    /// Latest counters.
    last: Option<Channel>,
    /// Moving average of the fraction of time of own exchanges.
    own: f64,
    /// Moving average of the fraction of time in which the air is busy.
    pub busy: f64,
    /// True if the node senses much more than is reported.
    pub wide: bool,
}

impl Air {
    /// Handles an exchange of this node.
    pub fn spent(&mut self, sent: &Sent) {
        let backoff = sent.backoff.as_secs_f64() * f64::from(sent.attempts.min(1));
        self.spent += (sent.airtime.as_secs_f64() - backoff).max(0.0);
    }

    /// Handles the exchanges of a period, with no gaps and no backoff in their airtime.
    pub fn spent_sum(&mut self, sum: &SentSum) {
        let gaps = INTERFRAME_SPACES * f64::from(sum.attempts);
        self.spent += sum.airtime.as_secs_f64() + gaps;
    }

    /// Handles counters of the channel; returns false if they are invalid.
    pub fn survey(&mut self, c: &Channel) -> bool {
        let spent = core::mem::take(&mut self.spent);
        let Some(last) = self.last.replace(*c) else { return true };
        if c.active < last.active || c.busy < last.busy {
            return false;
        }
        let active = c.active.saturating_sub(last.active).as_secs_f64();
        let busy = c.busy.saturating_sub(last.busy).as_secs_f64();
        // Drivers read the two one after the other, a frame apart.
        if active <= 0.0 || busy > 1.1 * active + 0.03 {
            return false;
        }
        self.own += SAMPLE_GAIN * ((spent / active).min(1.0) - self.own);
        self.busy += SAMPLE_GAIN * ((busy / active).min(1.0) - self.busy);
        true
    }

    /// Returns the fraction of time of own exchanges.
    pub fn own(&self) -> f64 {
        self.own
    }

    /// Compares the sensed airtime with the airtime that this node and those in its range report.
    pub fn compare(&mut self, reported: f64) {
        if self.busy < MIN_BUSY {
            self.wide = false;
        } else if !self.wide {
            self.wide = reported < UNREPORTED_ENTER * self.busy;
        } else {
            // A node that uses nearly all of the air explains it by its own exchanges, and blocks nodes out
            // of its range.
            let others = self.busy - self.own;
            self.wide =
                others < MIN_OTHERS_AIRTIME || reported - self.own < UNREPORTED_EXIT * others;
        }
    }
}

#[cfg(test)]
mod tests {
    use fairmesh_units::{BitRate, Span};

    use super::*;

    const SECOND: u64 = 1000;

    /// Returns the state after seconds with these parts: own exchanges, ms, and busy air.
    fn after(exchange: u64, backoff: u64, attempts: u8, busy: u64) -> Air {
        let mut air = Air::default();
        for n in 0..1000 {
            let span = |ms: u64| Span::from_millis(n * ms);
            let (receive, transmit) = (Span::ZERO, Span::ZERO);
            let channel = Channel { active: span(SECOND), busy: span(busy), receive, transmit };
            assert!(air.survey(&channel));
            air.spent(&Sent {
                to: None,
                flow: None,
                ack: false,
                bytes: 1500,
                airtime: Span::from_millis(exchange),
                backoff: Span::from_millis(backoff),
                attempts,
                rate: BitRate(11_000_000),
                delivered: attempts > 0,
                ack_bits: None,
            });
        }
        air
    }

    #[test]
    fn own_airtime_excludes_the_first_backoff() {
        assert!((after(300, 0, 1, 500).own() - 0.3).abs() < 1e-6);
        assert!((after(300, 100, 1, 500).own() - 0.2).abs() < 1e-6);
        assert!((after(300, 100, 4, 500).own() - 0.2).abs() < 1e-6, "later ones are the loss's");
        assert!((after(300, 100, 0, 500).own() - 0.3).abs() < 1e-6, "it was never drawn");
        assert!((after(300, 0, 1, 500).busy - 0.5).abs() < 1e-6);
    }

    #[test]
    fn sensed_airtime_above_the_reported_one_means_distant_interference() {
        let wide = |busy: u64, reported: f64| {
            let mut air = after(100, 0, 1, busy);
            air.compare(reported);
            air.wide
        };
        assert!(wide(500, 0.39) && !wide(500, 0.41));
        assert!(!wide(190, 0.0), "in little traffic nothing is to be seen");
        // The exchange ends later than it begins.
        let mut air = after(100, 0, 1, 500);
        let seen = [0.41, 0.39, 0.44, 0.46, 0.44].map(|reported| {
            air.compare(reported);
            air.wide
        });
        assert_eq!(seen, [false, true, true, false, false]);
    }

    /// A node that blocks others out of its range uses nearly all of the air.
    ///
    /// That explains nothing.
    #[test]
    fn a_node_with_nearly_all_airtime_keeps_its_distant_interference() {
        let mut air = after(700, 0, 1, 750);
        air.compare(0.72);
        assert!(!air.wide, "its own traffic alone proves nothing either");
        air = Air { wide: true, ..air };
        air.compare(0.74);
        assert!(air.wide);
        // Others take more, and those in range report it.
        let mut air = Air { wide: true, ..after(500, 0, 1, 750) };
        air.compare(0.70);
        assert!(air.wide);
        air.compare(0.74);
        assert!(!air.wide);
    }
}
