//! COBALT, CAKE's queue management.
//!
//! It consists of CoDel with a gradually falling count, and BLUE for unresponsive flows (Høiland-Jørgensen,
//! Täht, Morton, *Piece of CAKE*, LANMAN 2018, §II-B; Palmei et al. 2019).

use fairmesh_units::{Span, Time};

/// Increase of BLUE's probability when the queue overflows (Linux: 1/256).
const BLUE_INCREASE: f64 = 1.0 / 256.0;
/// Decrease of BLUE's probability when the queue is empty (Linux: 1/4096).
const BLUE_DECREASE: f64 = 1.0 / 4096.0;

/// State for one flow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cobalt {
    count: u32,
    dropping: bool,
    drop_next: Time,
    probability: f64,
    blue_at: Time,
}

/// Outcome for a packet at the head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HeadAction {
    Pass,
    Mark,
    Drop,
}

impl Cobalt {
    fn step(&self, t: Time, interval: Span) -> Time {
        let step = interval.as_nanos() as f64 / libm::sqrt(f64::from(self.count.max(1)));
        t + Span::from_nanos(step as u64)
    }

    /// Returns the outcome for a packet that has waited for this time.
    ///
    /// `chance` is uniform in 0..1.
    pub fn decide(
        &mut self,
        now: Time,
        waited: Span,
        (target, interval): (Span, Span),
        ect: bool,
        chance: f64,
    ) -> HeadAction {
        let mut fate = HeadAction::Pass;
        let mut due = self.count > 0 && now >= self.drop_next;
        if waited > target {
            if !self.dropping {
                self.dropping = true;
                self.drop_next = self.step(now, interval);
            }
            self.count = self.count.max(1);
        } else {
            self.dropping = false;
        }
        if due && self.dropping {
            fate = if ect { HeadAction::Mark } else { HeadAction::Drop };
            self.count = self.count.saturating_add(1);
            self.drop_next = self.step(self.drop_next, interval);
        } else {
            // While waits are short, the count falls at the rate at which it rose.
            while due {
                self.count -= 1;
                self.drop_next = self.step(self.drop_next, interval);
                due = self.count > 0 && now >= self.drop_next;
            }
        }
        if self.probability > 0.0 && chance < self.probability { HeadAction::Drop } else { fate }
    }

    /// Records a buffer overflow that cost this flow a packet.
    pub fn full(&mut self, now: Time, target: Span) {
        if now.since(self.blue_at) > target {
            self.probability = (self.probability + BLUE_INCREASE).min(1.0);
            self.blue_at = now;
        }
        self.dropping = true;
        self.drop_next = now;
        self.count = self.count.max(1);
    }

    /// Records that the flow has no packets.
    pub fn empty(&mut self, now: Time, (target, interval): (Span, Span)) {
        if self.probability > 0.0 && now.since(self.blue_at) > target {
            self.probability = (self.probability - BLUE_DECREASE).max(0.0);
            self.blue_at = now;
        }
        self.dropping = false;
        if self.count > 0 && now >= self.drop_next {
            self.count -= 1;
            self.drop_next = self.step(self.drop_next, interval);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Time {
        Time::ZERO + Span::from_millis(n)
    }
    const TIMES: (Span, Span) = (Span::from_millis(5), Span::from_millis(100));

    #[test]
    fn drops_as_codel_and_decays_as_slowly() {
        let mut c = Cobalt::default();
        let long = Span::from_millis(50);
        let drops: Vec<u64> = (0..400)
            .filter(|&t| c.decide(ms(t), long, TIMES, false, 0.9) == HeadAction::Drop)
            .collect();
        // First after an interval, then after 100/√2, 100/√3 ms, …: by hand.
        assert_eq!(drops, [100, 171, 229, 279, 324, 364]);
        assert_eq!(c.decide(ms(403), long, TIMES, true, 0.9), HeadAction::Mark);
        let high = c.count;
        for t in 404..450 {
            assert_eq!(c.decide(ms(t), Span::ZERO, TIMES, false, 0.9), HeadAction::Pass);
        }
        assert!(c.count < high && c.count > 1, "{}", c.count);
    }

    #[test]
    fn blue_rises_when_full_and_falls_when_empty() {
        let mut c = Cobalt::default();
        (1..=100).for_each(|t| c.full(ms(10 * t), TIMES.0));
        assert!((c.probability - 100.0 / 256.0).abs() < 1e-9);
        assert_eq!(c.decide(ms(1000), Span::ZERO, TIMES, true, 0.2), HeadAction::Drop);
        assert_ne!(c.decide(ms(1000), Span::ZERO, TIMES, true, 0.8), HeadAction::Drop);
        (0..100).for_each(|t| c.empty(ms(2000 + 10 * t), TIMES));
        assert!((c.probability - (100.0 / 256.0 - 100.0 / 4096.0)).abs() < 1e-9);
    }
}
