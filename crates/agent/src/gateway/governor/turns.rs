//! Quanta of subscribers that share a limit, from their weights.

use fairmesh_linux::Subscriber;

/// Largest ratio of two quanta. At 10 Mbit/s a quantum of 100 full frames takes 120 ms.
pub(super) const MAX_RATIO: f64 = 100.0;

/// Scale from weights to bytes per round: the smallest weight gets the shortest quantum.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Turns {
    /// Weight of the shortest quantum.
    unit: f64,
    /// Smallest weight.
    lightest: f64,
}

impl Turns {
    /// Returns the scale for these weights, all above 0; without any, that of weight 1.
    pub fn of(weights: impl IntoIterator<Item = f64>) -> Self {
        let extremes = weights.into_iter().fold(None, |so_far: Option<(f64, f64)>, w| {
            let (low, high) = so_far.unwrap_or((w, w));
            Some((low.min(w), high.max(w)))
        });
        let (lightest, heaviest) = extremes.unwrap_or((1.0, 1.0));
        Turns { unit: lightest.max(heaviest / MAX_RATIO), lightest }
    }

    /// Returns the quantum of a weight, in bytes.
    pub fn bytes(self, weight: f64) -> u32 {
        let turn = f64::from(Subscriber::QUANTUM) * weight / self.unit;
        (turn.round() as u32).clamp(Subscriber::QUANTUM, Subscriber::MAX_QUANTUM)
    }

    /// Returns the weight to which smaller ones are raised, if the ratio is above [`MAX_RATIO`].
    pub fn counted_as(self) -> Option<f64> {
        (self.unit > self.lightest).then_some(self.unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(weights: &[f64]) -> Vec<u32> {
        let turns = Turns::of(weights.iter().copied());
        weights.iter().map(|&w| turns.bytes(w)).collect()
    }

    #[test]
    fn turns_have_the_ratios_of_the_weights() {
        assert_eq!(bytes(&[0.5, 1.0, 2.0]), [1514, 3028, 6056]);
        assert_eq!(bytes(&[1.0, 1.5]), [1514, 2271]);
        assert_eq!(bytes(&[3.0, 3.0]), [1514, 1514]);
        assert_eq!(bytes(&[0.01, 1.0]), [1514, 151_400]);
        assert_eq!(Turns::of([0.5, 2.0]).counted_as(), None);
    }

    #[test]
    fn ratios_above_the_largest_are_cut_from_below() {
        assert_eq!(bytes(&[0.01, 1.0, 2.0, 100.0]), [1514, 1514, 3028, 151_400]);
        assert_eq!(Turns::of([0.01, 100.0]).counted_as(), Some(1.0));
    }
}
