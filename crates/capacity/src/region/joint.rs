//! Who is on the air together: the joint distribution of exchanges, given how much of the time
//! each takes (Rangwala 2008 §3.2, "Combining collision and idle probabilities").
//!
//! The paper's rule: two exchanges that interfere are never on at once, and two that do not are
//! independent while all that interfere with both are off. The one distribution with that property
//! for every pair gives each set of exchanges that do not interfere a weight that is a product of
//! one factor each (a Markov random field, the stationary distribution of an ideal CSMA network).
//! Its factors are found from the shares of time. For the networks of the paper it is the paper's
//! formula; where interferers of two links overlap among themselves, the formula is an
//! approximation of it.

use std::collections::BTreeMap;

/// The most links: sets of them are bits of a word.
pub(super) const MOST_LINKS: usize = 128;
/// The most sets that do not interfere.
pub(super) const MOST_SETS: usize = 100_000;

/// All sets of links that can be on the air together.
#[derive(Clone, Debug)]
pub(super) struct Joint {
    /// By link, itself and all that interfere with it.
    near: Vec<u128>,
    sets: Vec<u128>,
    /// Probability of each set.
    weight: Vec<f64>,
    /// By link, its factor.
    factor: Vec<f64>,
    /// Sets of links whose silence is asked for again and again, and its probability.
    watched: Vec<u128>,
    silent: Vec<f64>,
    index: BTreeMap<u128, u32>,
}

/// A set of links whose silence [`Joint::off`] gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Watch(u32);

/// More sets than [`MOST_SETS`], or more links than [`MOST_LINKS`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TooMany;

impl Joint {
    /// From who interferes with whom; every link interferes with itself.
    pub fn new(links: usize, interfere: impl Fn(usize, usize) -> bool) -> Result<Self, TooMany> {
        if links > MOST_LINKS {
            return Err(TooMany);
        }
        let row = |a: usize| {
            (0..links).filter(|&b| a == b || interfere(a, b)).fold(0u128, |m, b| m | 1 << b)
        };
        let near: Vec<u128> = (0..links).map(row).collect();
        let mut sets = vec![0u128];
        // Every set is extended by links after its last one.
        let mut at = 0;
        while at < sets.len() {
            let set = sets[at];
            let first = (128 - set.leading_zeros()) as usize;
            for (link, near) in near.iter().enumerate().skip(first) {
                if near & set == 0 {
                    if sets.len() == MOST_SETS {
                        return Err(TooMany);
                    }
                    sets.push(set | 1 << link);
                }
            }
            at += 1;
        }
        let weight = vec![0.0; sets.len()];
        Ok(Joint {
            near,
            sets,
            weight,
            factor: vec![0.0; links],
            watched: Vec::new(),
            silent: Vec::new(),
            index: BTreeMap::new(),
        })
    }

    /// Keeps the probability that none of these links is on, from the next [`Joint::look`].
    pub fn watch(&mut self, links: u128) -> Watch {
        let next = self.watched.len() as u32;
        let at = *self.index.entry(links).or_insert(next);
        if at == next {
            self.watched.push(links);
            self.silent.push(1.0);
        }
        Watch(at)
    }

    /// The probability that none of the links of a watch is on.
    pub fn off(&self, watch: Watch) -> f64 {
        self.silent[watch.0 as usize]
    }

    /// Computes all watches from the distribution as fitted.
    pub fn look(&mut self) {
        self.silent.fill(0.0);
        for (set, weight) in self.sets.iter().zip(&self.weight) {
            if *weight <= 0.0 {
                continue;
            }
            for (links, silent) in self.watched.iter().zip(&mut self.silent) {
                if set & links == 0 {
                    *silent += weight;
                }
            }
        }
    }

    /// Forgets what was fitted: the next fit does not depend on earlier ones.
    pub fn reset(&mut self) {
        self.factor.fill(0.0);
    }

    /// Finds the distribution in which each link is on for its share of the time. False where
    /// there is none: the shares are more than any schedule could give.
    pub fn fit(&mut self, shares: &[f64]) -> bool {
        let found = self.approach(shares);
        if !found {
            self.factor.fill(0.0);
        }
        found
    }

    fn approach(&mut self, shares: &[f64]) -> bool {
        const ROUNDS: usize = 400;
        for (factor, &share) in self.factor.iter_mut().zip(shares) {
            if share <= 0.0 {
                *factor = 0.0;
            } else if *factor <= 0.0 {
                *factor = share;
            }
        }
        for _ in 0..ROUNDS {
            self.weigh();
            let mut worst = 0.0f64;
            for (link, &share) in shares.iter().enumerate() {
                if share <= 0.0 {
                    continue;
                }
                let idle = self.idle(self.near[link]);
                let wanted = share / idle;
                if !wanted.is_finite() || wanted > 1e9 {
                    return false;
                }
                worst = worst.max((self.factor[link] * idle / share - 1.0).abs());
                self.factor[link] = libm::sqrt(self.factor[link] * wanted);
            }
            if worst < 1e-6 {
                return true;
            }
        }
        false
    }

    fn weigh(&mut self) {
        let mut total = 0.0;
        for (set, weight) in self.sets.iter().zip(&mut self.weight) {
            let (mut rest, mut product) = (*set, 1.0);
            while rest != 0 {
                product *= self.factor[rest.trailing_zeros() as usize];
                rest &= rest - 1;
            }
            *weight = product;
            total += product;
        }
        self.weight.iter_mut().for_each(|w| *w /= total);
    }

    /// A link and all that interfere with it.
    pub fn near(&self, link: usize) -> u128 {
        self.near[link]
    }

    /// The probability that none of these links is on.
    pub fn idle(&self, links: u128) -> f64 {
        let sets = self.sets.iter().zip(&self.weight);
        sets.filter(|(set, _)| **set & links == 0).map(|(_, w)| w).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The Stack seen from 4 → 5: two outer regions, each of which excludes the middle one. The
    /// paper's formula: P(A ∩ C) = P(A) P(C) / (1 − P(B)).
    #[test]
    fn the_papers_rule_where_it_is_exact() {
        let mut joint = Joint::new(3, |a, b| a.abs_diff(b) == 1).unwrap();
        let (a, b, c) = (0.3, 0.25, 0.2);
        assert!(joint.fit(&[a, b, c]));
        let union = 1.0 - joint.idle(0b101);
        assert!((union - (a + c - a * c / (1.0 - b))).abs() < 1e-5, "{union}");
        assert!((joint.idle(0b111) - (1.0 - b - (a + c - a * c / (1.0 - b)))).abs() < 1e-5);
        assert!((1.0 - joint.idle(0b010) - b).abs() < 1e-5);
    }

    #[test]
    fn shares_beyond_any_schedule_are_refused() {
        let mut joint = Joint::new(3, |_, _| true).unwrap();
        assert!(joint.fit(&[0.3, 0.3, 0.3]));
        assert!(!joint.fit(&[0.5, 0.3, 0.3]));
        // A fit after that starts anew.
        let mut ring = Joint::new(5, |a, b| (a + 1) % 5 == b || (b + 1) % 5 == a).unwrap();
        assert!(ring.fit(&[0.3; 5]));
        assert!(!ring.fit(&[0.45; 5]));
    }

    #[test]
    fn too_many_sets_are_refused() {
        assert_eq!(Joint::new(40, |_, _| false).err(), Some(TooMany));
        assert_eq!(Joint::new(129, |_, _| true).err(), Some(TooMany));
        assert!(Joint::new(128, |_, _| true).is_ok());
    }
}
