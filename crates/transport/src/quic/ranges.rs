//! Sets of numbers as sorted ranges.
//!
//! They hold received packet numbers, and stream bytes received or to be resent.

/// Disjoint ranges that do not touch, ascending, each as (first, end), end exclusive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn as_slice(&self) -> &[(u64, u64)] {
        &self.0
    }

    pub(super) fn first(&self) -> Option<(u64, u64)> {
        self.0.first().copied()
    }

    pub(super) fn last(&self) -> Option<(u64, u64)> {
        self.0.last().copied()
    }

    /// Returns the range that contains `n`.
    pub(super) fn around(&self, n: u64) -> Option<(u64, u64)> {
        let i = self.0.partition_point(|r| r.1 <= n);
        self.0.get(i).copied().filter(|r| r.0 <= n)
    }

    /// Adds `from..to`.
    pub(super) fn add(&mut self, mut from: u64, mut to: u64) {
        if from >= to {
            return;
        }
        // Merges ranges that overlap or touch it.
        let i = self.0.partition_point(|r| r.1 < from);
        let j = self.0.partition_point(|r| r.0 <= to);
        if i < j {
            from = from.min(self.0[i].0);
            to = to.max(self.0[j - 1].1);
            self.0.drain(i + 1..j);
            self.0[i] = (from, to);
        } else {
            self.0.insert(i, (from, to));
        }
    }

    /// Removes `from..to`.
    pub(super) fn remove(&mut self, from: u64, to: u64) {
        if from >= to {
            return;
        }
        let i = self.0.partition_point(|r| r.1 <= from);
        let j = self.0.partition_point(|r| r.0 < to);
        if i >= j {
            return;
        }
        let (head, tail) = (self.0[i].0, self.0[j - 1].1);
        let left = (head < from).then_some((head, from));
        let right = (to < tail).then_some((to, tail));
        self.0.splice(i..j, left.into_iter().chain(right));
    }

    /// Removes all numbers below `n`.
    pub(super) fn remove_below(&mut self, n: u64) {
        self.remove(0, n);
    }

    /// Removes the lowest range.
    pub(super) fn pop_first(&mut self) -> Option<(u64, u64)> {
        (!self.0.is_empty()).then(|| self.0.remove(0))
    }

    /// Returns the parts of `from..to` that are not in it.
    pub(super) fn missing(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let i = self.0.partition_point(|r| r.1 <= from);
        let mut at = from;
        let gaps = self.0[i..].iter().take_while(move |r| r.0 < to).map(Some).chain([None]);
        gaps.filter_map(move |r| {
            let (start, end) = r.copied().unwrap_or((to, to));
            let gap = (at, start.min(to));
            at = at.max(end);
            (gap.0 < gap.1).then_some(gap)
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares it with a set of numbers.
        #[test]
        fn is_a_set(ops in prop::collection::vec((any::<bool>(), 0u64..60, 0u64..12), 0..60)) {
            let (mut ranges, mut set) = (Ranges::default(), vec![false; 80]);
            for (add, from, len) in ops {
                let to = from + len;
                if add { ranges.add(from, to) } else { ranges.remove(from, to) }
                set[from as usize..to as usize].fill(add);
                for (n, &there) in set.iter().enumerate() {
                    prop_assert_eq!(ranges.around(n as u64).is_some(), there);
                }
                for pair in ranges.as_slice().windows(2) {
                    prop_assert!(pair[0].1 < pair[1].0);
                }
                let missing: Vec<u64> = ranges.missing(10, 40).flat_map(|(a, b)| a..b).collect();
                let expected: Vec<u64> = (10..40).filter(|&n| !set[n as usize]).collect();
                prop_assert_eq!(missing, expected);
            }
        }
    }
}
