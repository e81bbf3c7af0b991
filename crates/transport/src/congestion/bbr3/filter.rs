//! Maxima over windows of cycles and of round trips.

/// The maximum over two cycles of probing: the present one and the one before. §5.5.5, §5.5.6
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MaxOfCycles {
    before: f64,
    running: f64,
}

impl MaxOfCycles {
    pub(super) const fn get(self) -> f64 {
        self.before.max(self.running)
    }

    pub(super) fn update(&mut self, value: f64) {
        self.running = self.running.max(value);
    }

    /// Ends a cycle. A cycle without a measurement discards nothing.
    pub(super) fn advance(&mut self) {
        if self.running > 0.0 {
            (self.before, self.running) = (self.running, 0.0);
        }
    }
}

/// The maximum over the last round trips.
#[derive(Clone, Debug, Default)]
pub(super) struct MaxOfRounds {
    /// Values as (round, value), decreasing in value, increasing in round.
    values: Vec<(u64, u64)>,
}

impl MaxOfRounds {
    pub(super) fn get(&self) -> u64 {
        self.values.first().map_or(0, |v| v.1)
    }

    /// Adds a value; removes values older than `length` rounds.
    pub(super) fn update(&mut self, round: u64, value: u64, length: u64) {
        self.values.retain(|v| v.1 > value && v.0 + length > round);
        self.values.push((round, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_maximum_lasts_two_cycles() {
        let mut f = MaxOfCycles::default();
        f.update(5.0);
        f.update(3.0);
        f.advance();
        f.update(2.0);
        assert_eq!(f.get(), 5.0);
        f.advance();
        assert_eq!(f.get(), 2.0);
        // Nothing was measured meanwhile, so nothing is discarded.
        f.advance();
        assert_eq!(f.get(), 2.0);
    }

    #[test]
    fn a_maximum_lasts_the_given_number_of_rounds() {
        let mut f = MaxOfRounds::default();
        f.update(1, 9, 10);
        f.update(2, 4, 10);
        f.update(5, 6, 10);
        assert_eq!(f.get(), 9);
        f.update(10, 1, 10);
        assert_eq!(f.get(), 9);
        f.update(11, 1, 10);
        assert_eq!(f.get(), 6);
        f.update(12, 1, 1);
        assert_eq!(f.get(), 1);
    }
}
