//! Random marks and losses.

use fairmesh_control::{Class, Marking};
use fairmesh_units::Stream;

/// Mark and loss probabilities of a class.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chance {
    pub class: Class,
    /// Probability of a mark.
    pub mark: f64,
    pub how: Marking,
    /// Probability of a loss.
    pub lose: f64,
    /// Progress towards the next mark when marks are evenly spaced.
    ///
    /// Marks owed for the packets passed so far, and the value at which the next mark falls.
    owed: f64,
    due: f64,
}

impl Chance {
    /// Returns a state that neither marks nor loses packets of `class`.
    pub fn new(class: Class) -> Self {
        Chance { class, mark: 0.0, how: Marking::default(), lose: 0.0, owed: 0.0, due: 1.0 }
    }

    /// Returns true if this packet is to be marked.
    pub fn falls(&mut self, rng: &mut Stream) -> bool {
        if !self.how.even {
            return rng.chance(self.mark);
        }
        self.owed += self.mark;
        if self.owed < self.due {
            return false;
        }
        self.owed -= self.due;
        self.due = rng.uniform(2.0 / 3.0, 4.0 / 3.0);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the numbers of packets from one mark to the next.
    fn gaps(probability: f64, even: bool) -> Vec<f64> {
        let mut chance = Chance::new(Class::All);
        (chance.mark, chance.how.even) = (probability, even);
        let mut rng = Stream::new(1, "test");
        let marked = (0..100_000).filter(|_| chance.falls(&mut rng)).collect::<Vec<u32>>();
        marked.windows(2).map(|w| f64::from(w[1] - w[0])).collect()
    }

    #[test]
    fn even_marks_are_as_many_and_keep_their_distance() {
        for probability in [0.03, 0.2, 0.7, 1.0] {
            let mean = 1.0 / probability;
            for even in [false, true] {
                let gaps = gaps(probability, even);
                let got = gaps.iter().sum::<f64>() / gaps.len() as f64;
                assert!((got / mean - 1.0).abs() < 0.05, "{probability} {even}: {got}");
            }
            // Packets are whole: a mark falls on the first packet at which it is owed.
            let near = |g: &f64| (*g - mean).abs() <= mean / 3.0 + 1.0;
            assert!(gaps(probability, true).iter().all(near), "{probability}");
        }
        let close = gaps(0.03, false).iter().filter(|g| **g < 10.0).count();
        assert!(close > 100, "by chance {close} marks follow one another closely");
    }

    #[test]
    fn a_new_probability_counts_from_the_next_packet_on() {
        let mut chance = Chance::new(Class::All);
        chance.how.even = true;
        let mut rng = Stream::new(1, "test");
        chance.mark = 0.001;
        assert!((0..300).all(|_| !chance.falls(&mut rng)));
        chance.mark = 1.0;
        assert!(chance.falls(&mut rng));
        chance.mark = 0.0;
        assert!((0..300).all(|_| !chance.falls(&mut rng)));
    }
}
