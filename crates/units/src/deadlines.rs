//! Search for the earliest of many deadlines.

use crate::Time;

const WIDTH: usize = 16;

/// One deadline per slot `0..len`, and the earliest of them all.
///
/// Most deadlines are moved many times before they come due (a station's backoff at each busy
/// period, a retransmission timer at each ACK), so moving one is O(1) and leaves no stale entry
/// behind; finding the earliest costs a scan of 16 per level, log₁₆ of the number of slots. Equal
/// deadlines come due in slot order, which makes the order of events total.
#[derive(Clone, Debug)]
pub struct Deadlines {
    /// The deadlines, padded to whole blocks.
    slots: Vec<u64>,
    /// Above them, each with the minima of 16 below; the last has at most 16.
    levels: Vec<Vec<u64>>,
    /// Blocks below each level of minima with a minimum that must be recomputed.
    stale: Vec<Vec<u64>>,
    /// Cached result, while valid: most events move a few deadlines, few the earliest.
    first: Option<(u64, usize)>,
    len: usize,
}

impl Deadlines {
    /// Returns `len` slots, none with a deadline.
    pub fn new(len: usize) -> Self {
        let slots = vec![u64::MAX; len.max(1).next_multiple_of(WIDTH)];
        let (mut levels, mut stale) = (Vec::new(), Vec::new());
        let mut below = slots.len();
        while below > WIDTH {
            let blocks = below / WIDTH;
            below = blocks.next_multiple_of(WIDTH);
            levels.push(vec![u64::MAX; below]);
            stale.push(vec![0; blocks.div_ceil(64)]);
        }
        Deadlines { slots, levels, stale, first: None, len }
    }

    /// Returns the number of slots.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there are no slots.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the deadline of a slot.
    #[inline]
    pub fn get(&self, slot: usize) -> Time {
        Time::from_nanos(self.slots[slot])
    }

    /// Sets or (with [`Time::NEVER`]) clears the deadline of a slot.
    #[inline]
    pub fn set(&mut self, slot: usize, at: Time) {
        let at = at.as_nanos();
        let old = core::mem::replace(&mut self.slots[slot], at);
        if let Some((first, holder)) = self.first {
            if at < first || (at == first && slot < holder) {
                self.first = Some((at, slot));
            } else if slot == holder && at > first {
                self.first = None;
            }
        }
        if !self.stale.is_empty() {
            self.raise(slot, old, at);
        }
    }

    /// Updates the minima above a slot that moved.
    #[inline]
    fn raise(&mut self, slot: usize, old: u64, at: u64) {
        let mut block = slot / WIDTH;
        for (minima, stale) in self.levels.iter_mut().zip(&mut self.stale) {
            let min = &mut minima[block];
            if at < *min {
                *min = at;
            } else {
                if old == *min && at > old {
                    stale[block / 64] |= 1 << (block % 64);
                }
                return;
            }
            block /= WIDTH;
        }
    }

    /// Returns the earliest deadline and its slot; the lowest slot among equals.
    #[inline]
    pub fn earliest(&mut self) -> (Time, usize) {
        let (at, slot) = match self.first {
            Some(first) => first,
            None => self.search(),
        };
        (Time::from_nanos(at), slot)
    }

    fn search(&mut self) -> (u64, usize) {
        if self.levels.is_empty() {
            let first = first_of(&self.slots, self.len);
            self.first = Some(first);
            return first;
        }
        self.refresh();
        let mut slot = 0;
        for level in self.levels.iter().rev() {
            slot = slot * WIDTH + first_of(&level[slot * WIDTH..], WIDTH).1;
        }
        let (at, place) = first_of(&self.slots[slot * WIDTH..], WIDTH);
        let first = (at, slot * WIDTH + place);
        self.first = Some(first);
        first
    }

    /// Recomputes the minima of the blocks with an earliest deadline that moved back.
    #[inline]
    fn refresh(&mut self) {
        for level in 0..self.stale.len() {
            for word in 0..self.stale[level].len() {
                let mut bits = core::mem::take(&mut self.stale[level][word]);
                while bits != 0 {
                    let block = word * 64 + bits.trailing_zeros() as usize;
                    bits &= bits - 1;
                    let below = match level {
                        0 => &self.slots,
                        _ => &self.levels[level - 1],
                    };
                    let min = min_of(block_at(&below[block * WIDTH..]));
                    let old = core::mem::replace(&mut self.levels[level][block], min);
                    if let Some(up) = self.stale.get_mut(level + 1)
                        && min != old
                    {
                        let parent = block / WIDTH;
                        up[parent / 64] |= 1 << (parent % 64);
                    }
                }
            }
        }
    }
}

/// Returns the block at the start of `padded`.
#[inline]
fn block_at(padded: &[u64]) -> &[u64; WIDTH] {
    padded.first_chunk().expect("levels are padded to whole blocks")
}

/// Returns the smallest of the first `len` values of a block, and its first place.
///
/// It scans groups of four.
#[inline]
fn first_of(padded: &[u64], len: usize) -> (u64, usize) {
    let groups = block_at(padded).as_chunks::<4>().0;
    let (mut least, mut at) = (u64::MAX, 0);
    for (i, group) in groups.iter().enumerate().take(len.div_ceil(4)) {
        let min = group[0].min(group[1]).min(group[2].min(group[3]));
        if min < least {
            (least, at) = (min, i);
        }
    }
    let place = groups[at].iter().position(|&v| v == least);
    (least, 4 * at + place.unwrap_or(0))
}

/// Returns the smallest value.
#[inline]
fn min_of(block: &[u64; WIDTH]) -> u64 {
    // Four chains, so that the comparisons overlap.
    let mut best = [block[0], block[1], block[2], block[3]];
    for i in (4..WIDTH).step_by(4) {
        for (j, b) in best.iter_mut().enumerate() {
            *b = (*b).min(block[i + j]);
        }
    }
    best[0].min(best[1]).min(best[2].min(best[3]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_scan(len in 1usize..6000, moves in prop::collection::vec((any::<u32>(), 0u64..50), 1..200)) {
            let mut d = Deadlines::new(len);
            let mut plain = vec![u64::MAX; len];
            for (i, (slot, at)) in moves.into_iter().enumerate() {
                let slot = slot as usize % len;
                let at = if at == 0 { u64::MAX } else { at };
                d.set(slot, Time::from_nanos(at));
                plain[slot] = at;
                prop_assert_eq!(d.get(slot).as_nanos(), at);
                if i % 3 == 0 {
                    let (min, first) = plain.iter().copied().zip(0..).min().unwrap();
                    let (t, s) = d.earliest();
                    prop_assert_eq!(t.as_nanos(), min);
                    if min != u64::MAX {
                        prop_assert_eq!(s, first);
                    }
                }
            }
        }
    }
}
