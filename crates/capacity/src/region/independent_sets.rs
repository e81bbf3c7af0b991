//! Joint distribution of the links on the air (Rangwala 2008 §3.2).
//!
//! Links that interfere are never on the air together. Links that do not interfere are independent
//! of each other while all common interferers are off. One distribution has this property for every
//! pair: the weight of a set of links that do not interfere is a product over its links. Its
//! factors are fitted to the shares of time. For the networks of the paper it equals the paper's
//! formula, which is an approximation of it where interferers of two links overlap among
//! themselves.
//!
//! The sets are not enumerated. The sum of weights over the sets within some links is a polynomial
//! in the factors, Z(M) = Z(M − v) + f·Z(M − v and all that interfere with v), and the product over
//! its parts if M is disconnected. All sums needed are stored as one list of such steps with common
//! subexpressions; an evaluation is one pass over the list.

use std::collections::BTreeMap;

/// Maximum number of links: sets are bits of a word.
pub(super) const MAX_LINKS: usize = 128;
/// Maximum number of steps in the list.
pub(super) const MAX_STEPS: usize = 50_000;
/// Maximum number of rounds of a fit.
const MAX_ROUNDS: usize = 400;

/// One step of the list, in terms of earlier ones.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The empty set alone.
    One,
    /// Without the link, and with it: the remaining links in each case.
    Branch { link: u8, without: u32, with: u32 },
    /// Two parts that do not interfere.
    Product(u32, u32),
}

/// Joint distribution over all sets of links that can be on the air together.
#[derive(Clone, Debug)]
pub(super) struct IndependentSets {
    /// By link, itself and all links that interfere with it.
    near: Vec<u128>,
    steps: Vec<Step>,
    /// Value of each step.
    value: Vec<f64>,
    /// Step of the sum over the sets within some links.
    index: BTreeMap<u128, u32>,
    /// Step of all sets; by link, step of the sets without it and all that interfere with it.
    ///
    /// These come first: a fit needs the steps up to `fitted`.
    all: u32,
    free: Vec<u32>,
    fitted: usize,
    /// By link, its factor.
    pub factor: Vec<f64>,
    /// True if a requested sum exceeded the list's capacity.
    full: bool,
}

/// A set of links.
///
/// [`IndependentSets::probability_off`] returns the probability that all are off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct OffSet(u32);

/// Error: more than [`MAX_STEPS`] steps or [`MAX_LINKS`] links.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TooMany;

impl IndependentSets {
    /// Builds the sets from the interference relation; every link interferes with itself.
    pub fn new(links: usize, interfere: impl Fn(usize, usize) -> bool) -> Result<Self, TooMany> {
        if links > MAX_LINKS {
            return Err(TooMany);
        }
        let row = |a: usize| {
            (0..links).filter(|&b| a == b || interfere(a, b)).fold(0u128, |m, b| m | 1 << b)
        };
        let mut sets = IndependentSets {
            near: (0..links).map(row).collect(),
            steps: vec![Step::One],
            value: Vec::new(),
            index: BTreeMap::from([(0, 0)]),
            all: 0,
            free: Vec::new(),
            fitted: 0,
            factor: vec![0.0; links],
            full: false,
        };
        let everything = sets.everything();
        sets.all = sets.write(everything);
        sets.free = (0..links).map(|l| sets.write(everything & !sets.near[l])).collect();
        sets.fitted = sets.steps.len();
        sets.value = vec![1.0; sets.fitted];
        if sets.full() { Err(TooMany) } else { Ok(sets) }
    }

    fn everything(&self) -> u128 {
        (0..self.near.len()).fold(0, |m, l| m | 1 << l)
    }

    /// Returns true if the requests exceeded the list's capacity, so that its values are invalid.
    pub fn full(&self) -> bool {
        self.full
    }

    /// Writes the sum over the sets within some links; returns its step.
    fn write(&mut self, within: u128) -> u32 {
        if let Some(known) = self.index.get(&within) {
            return *known;
        }
        if self.steps.len() >= MAX_STEPS {
            self.full = true;
        }
        if self.full {
            return 0;
        }
        let part = self.part(within);
        let step = if part == within {
            // Removing the link with the most interferers disconnects the rest earliest.
            let interferers = |&l: &usize| (self.near[l] & within).count_ones();
            let link = bits(within).max_by_key(interferers).unwrap_or(0);
            let without = self.write(within & !(1 << link));
            let with = self.write(within & !self.near[link]);
            Step::Branch { link: link as u8, without, with }
        } else {
            Step::Product(self.write(part), self.write(within & !part))
        };
        self.steps.push(step);
        let at = self.steps.len() as u32 - 1;
        self.index.insert(within, at);
        at
    }

    /// Returns the connected component of the first link among these links.
    fn part(&self, within: u128) -> u128 {
        let mut part = within & within.wrapping_neg();
        let mut fresh = part;
        while fresh != 0 {
            let reached = bits(fresh).fold(0, |m, l| m | self.near[l]) & within;
            fresh = reached & !part;
            part |= reached;
        }
        part
    }

    /// Requests the probability that none of these links is on.
    ///
    /// It is valid after the next [`IndependentSets::evaluate`].
    pub fn off_set(&mut self, links: u128) -> OffSet {
        let at = self.write(self.everything() & !links);
        self.value.resize(self.steps.len(), 1.0);
        OffSet(at)
    }

    /// Returns the probability that none of the set's links is on.
    pub fn probability_off(&self, of: OffSet) -> f64 {
        self.value[of.0 as usize] / self.value[self.all as usize]
    }

    /// Computes all requested values from the fitted distribution.
    pub fn evaluate(&mut self) {
        self.walk(self.steps.len());
    }

    /// Computes the first steps.
    fn walk(&mut self, steps: usize) {
        for (at, step) in self.steps[..steps].iter().enumerate() {
            self.value[at] = match *step {
                Step::One => 1.0,
                Step::Branch { link, without, with } => {
                    let with = self.factor[usize::from(link)] * self.value[with as usize];
                    self.value[without as usize] + with
                }
                Step::Product(a, b) => self.value[a as usize] * self.value[b as usize],
            };
        }
    }

    /// Finds the distribution in which each link is on for its share of the time.
    ///
    /// The relative accuracy is `fine`. Returns false if there is none: the shares exceed every schedule.
    pub fn fit(&mut self, shares: &[f64], fine: f64) -> bool {
        let found = self.approach(shares, fine);
        if !found {
            self.factor.fill(0.0);
        }
        found
    }

    fn approach(&mut self, shares: &[f64], fine: f64) -> bool {
        for (factor, &share) in self.factor.iter_mut().zip(shares) {
            if share <= 0.0 {
                *factor = 0.0;
            } else if *factor <= 0.0 {
                *factor = share;
            }
        }
        for _ in 0..MAX_ROUNDS {
            self.walk(self.fitted);
            let total = self.value[self.all as usize];
            let mut worst = 0.0f64;
            for (link, &share) in shares.iter().enumerate() {
                if share <= 0.0 {
                    continue;
                }
                let idle = self.value[self.free[link] as usize] / total;
                let wanted = share / idle;
                if !wanted.is_finite() || wanted > 1e9 {
                    return false;
                }
                worst = worst.max((self.factor[link] * idle / share - 1.0).abs());
                self.factor[link] = libm::sqrt(self.factor[link] * wanted);
            }
            if worst < fine {
                return true;
            }
        }
        false
    }

    /// Returns a link and all that interfere with it.
    pub fn near(&self, link: usize) -> u128 {
        self.near[link]
    }
}

/// Returns the indices of the set bits.
pub(super) fn bits(mut set: u128) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        (set != 0).then(|| {
            let at = set.trailing_zeros() as usize;
            set &= set - 1;
            at
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FINE: f64 = 1e-6;

    fn idle(sets: &mut IndependentSets, links: u128) -> f64 {
        let silence = sets.off_set(links);
        sets.evaluate();
        sets.probability_off(silence)
    }

    /// The Stack seen from 4 → 5: two outer regions, each of which excludes the middle one.
    ///
    /// The paper's formula: P(A ∩ C) = P(A) P(C) / (1 − P(B)).
    #[test]
    fn the_papers_formula_holds_where_it_is_exact() {
        let mut sets = IndependentSets::new(3, |a, b| a.abs_diff(b) == 1).unwrap();
        let (a, b, c) = (0.3, 0.25, 0.2);
        assert!(sets.fit(&[a, b, c], FINE));
        let union = 1.0 - idle(&mut sets, 0b101);
        assert!((union - (a + c - a * c / (1.0 - b))).abs() < 1e-5, "{union}");
        let none = idle(&mut sets, 0b111);
        assert!((none - (1.0 - b - (a + c - a * c / (1.0 - b)))).abs() < 1e-5);
        assert!((1.0 - idle(&mut sets, 0b010) - b).abs() < 1e-5);
    }

    /// Compares the list of steps with an enumeration of all sets.
    #[test]
    fn sums_are_those_over_all_sets() {
        let mut state = 7u64;
        let mut draw = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as u32
        };
        for _ in 0..40 {
            let n = 3 + draw() as usize % 9;
            let pairs: Vec<bool> = (0..n * n).map(|_| draw() % 10 < 3).collect();
            let interfere = |a: usize, b: usize| pairs[a.min(b) * n + a.max(b)];
            let mut sets = IndependentSets::new(n, interfere).unwrap();
            let watched = u128::from(draw()) & ((1 << n) - 1);
            let silence = sets.off_set(watched);
            sets.factor = (0..n).map(|_| f64::from(draw() % 1000) / 300.0).collect();
            sets.evaluate();
            let (mut probability_off, mut total) = (0.0, 0.0);
            for set in 0..1u128 << n {
                let apart = |a: usize| bits(set).all(|b| a == b || !interfere(a, b));
                if bits(set).all(apart) {
                    let weight: f64 = bits(set).map(|l| sets.factor[l]).product();
                    total += weight;
                    probability_off += if set & watched == 0 { weight } else { 0.0 };
                }
            }
            assert!(
                (sets.probability_off(silence) - probability_off / total).abs() < 1e-12,
                "{n} links"
            );
        }
    }

    #[test]
    fn shares_beyond_any_schedule_are_refused() {
        let mut sets = IndependentSets::new(3, |_, _| true).unwrap();
        assert!(sets.fit(&[0.3, 0.3, 0.3], FINE));
        assert!(!sets.fit(&[0.5, 0.3, 0.3], FINE));
        // A fit after a failed one starts from the initial state.
        let mut ring =
            IndependentSets::new(5, |a, b| (a + 1) % 5 == b || (b + 1) % 5 == a).unwrap();
        assert!(ring.fit(&[0.3; 5], FINE));
        assert!(!ring.fit(&[0.45; 5], FINE));
    }

    #[test]
    fn too_long_a_list_is_refused() {
        // Without interference the list is as long as the number of links.
        assert!(IndependentSets::new(128, |_, _| false).is_ok());
        assert!(IndependentSets::new(128, |_, _| true).is_ok());
        assert_eq!(IndependentSets::new(129, |_, _| true).err(), Some(TooMany));
        // Unstructured interference exceeds it.
        let mixed = |a: usize, b: usize| (a.min(b) * 7919 + a.max(b) * 104_729) % 101 < 8;
        assert_eq!(IndependentSets::new(128, mixed).err(), Some(TooMany));
    }
}
