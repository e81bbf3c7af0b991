//! The earliest of many deadlines.

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
    /// `levels[0]` holds the deadlines, each level above the minima of 16 below; the last has at
    /// most 16.
    levels: Vec<Vec<u64>>,
    /// Per level above the first: blocks whose minimum must be looked up again.
    stale: Vec<Vec<u64>>,
    /// The last answer, while it holds: most events move a few deadlines, few the earliest.
    first: Option<(u64, usize)>,
    len: usize,
}

impl Deadlines {
    /// `len` slots, none with a deadline.
    pub fn new(len: usize) -> Self {
        let mut levels = vec![vec![u64::MAX; len.max(1).next_multiple_of(WIDTH)]];
        let mut stale = Vec::new();
        while levels[levels.len() - 1].len() > WIDTH {
            let blocks = levels[levels.len() - 1].len() / WIDTH;
            levels.push(vec![u64::MAX; blocks.next_multiple_of(WIDTH)]);
            stale.push(vec![0; blocks.div_ceil(64)]);
        }
        Deadlines { levels, stale, first: None, len }
    }

    /// Number of slots.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no slots.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The deadline of a slot.
    #[inline]
    pub fn get(&self, slot: usize) -> Time {
        Time::from_nanos(self.levels[0][slot])
    }

    /// Sets or (with [`Time::NEVER`]) clears the deadline of a slot.
    #[inline]
    pub fn set(&mut self, slot: usize, at: Time) {
        let at = at.as_nanos();
        let old = core::mem::replace(&mut self.levels[0][slot], at);
        if let Some((first, holder)) = self.first
            && (slot == holder || at <= first)
        {
            self.first = None;
        }
        let mut block = slot / WIDTH;
        for level in 0..self.stale.len() {
            let min = &mut self.levels[level + 1][block];
            if at < *min {
                *min = at;
            } else {
                if old == *min && at > old {
                    self.stale[level][block / 64] |= 1 << (block % 64);
                }
                return;
            }
            block /= WIDTH;
        }
    }

    /// The earliest deadline and its slot; the lowest slot among equals.
    #[inline]
    pub fn earliest(&mut self) -> (Time, usize) {
        let (at, slot) = match self.first {
            Some(first) => first,
            None => self.search(),
        };
        (Time::from_nanos(at), slot)
    }

    fn search(&mut self) -> (u64, usize) {
        self.refresh();
        let mut slot = 0;
        let mut at = u64::MAX;
        for level in self.levels.iter().rev() {
            let base = slot * WIDTH;
            let block: &[u64; WIDTH] =
                level[base..base + WIDTH].try_into().expect("levels are padded to whole blocks");
            at = min_of(block);
            slot = base + place_of(block, at);
        }
        self.first = Some((at, slot));
        (at, slot)
    }

    /// Looks up the minima of the blocks whose earliest deadline moved back.
    #[inline]
    fn refresh(&mut self) {
        for level in 0..self.stale.len() {
            for word in 0..self.stale[level].len() {
                let mut bits = core::mem::take(&mut self.stale[level][word]);
                while bits != 0 {
                    let block = word * 64 + bits.trailing_zeros() as usize;
                    bits &= bits - 1;
                    let base = block * WIDTH;
                    let below: &[u64; WIDTH] = self.levels[level][base..base + WIDTH]
                        .try_into()
                        .expect("levels are padded to whole blocks");
                    let min = min_of(below);
                    let old = core::mem::replace(&mut self.levels[level + 1][block], min);
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

/// Smallest value.
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

/// First place where `value`, which is there, stands.
#[inline]
fn place_of(block: &[u64; WIDTH], value: u64) -> usize {
    let mut found = 0u32;
    for (i, v) in block.iter().enumerate() {
        found |= u32::from(*v == value) << i;
    }
    found.trailing_zeros() as usize
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
