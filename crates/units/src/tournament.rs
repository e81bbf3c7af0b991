//! The earliest of many deadlines, where most events move the earliest one.

use crate::Time;

/// One deadline per slot `0..len`, and the earliest of them all.
///
/// A tournament of pairs: moving a deadline replays its games until one has the same winner as before,
/// at most log₂ of the number of slots; the earliest is known at any time. Whoever moves many
/// deadlines between two answers is better off with [`crate::Deadlines`]. Equal deadlines come due in
/// slot order, which makes the order of events total.
#[derive(Clone, Debug)]
pub struct Tournament {
    /// Deadlines by slot, ns, padded to a power of two.
    slots: Vec<u64>,
    /// Winners of all games: the last from place 1 on, the two before it from 2 on, and so forth; the
    /// slots themselves from `slots.len()` on.
    winners: Vec<u32>,
    len: usize,
}

impl Tournament {
    /// `len` slots, none with a deadline.
    ///
    /// # Panics
    /// With 2³¹ slots or more.
    pub fn new(len: usize) -> Self {
        let places = len.max(2).next_power_of_two();
        let mut winners = vec![0; 2 * places];
        for slot in 0..places {
            winners[places + slot] = u32::try_from(slot).expect("fewer than 2^31 slots");
        }
        for game in (1..places).rev() {
            // Of equals the first.
            winners[game] = winners[2 * game];
        }
        Tournament { slots: vec![u64::MAX; places], winners, len }
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
        Time::from_nanos(self.slots[slot])
    }

    /// Sets or (with [`Time::NEVER`]) clears the deadline of a slot.
    #[inline]
    pub fn set(&mut self, slot: usize, at: Time) {
        self.slots[slot] = at.as_nanos();
        let (slots, winners) = (&self.slots[..], &mut self.winners[..]);
        let mut game = (slots.len() + slot) / 2;
        while game > 0 {
            let (a, b) = (winners[2 * game], winners[2 * game + 1]);
            let winner = if slots[b as usize] < slots[a as usize] { b } else { a };
            if winners[game] == winner && winner as usize != slot {
                return;
            }
            winners[game] = winner;
            game /= 2;
        }
    }

    /// The earliest deadline and its slot; the lowest slot among equals.
    #[inline]
    pub fn earliest(&self) -> (Time, usize) {
        let slot = self.winners[1] as usize;
        (Time::from_nanos(self.slots[slot]), slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_scan(len in 1usize..600, moves in prop::collection::vec((any::<u32>(), 0u64..50), 1..200)) {
            let mut t = Tournament::new(len);
            let mut plain = vec![u64::MAX; len];
            for (slot, at) in moves {
                let slot = slot as usize % len;
                let at = if at == 0 { u64::MAX } else { at };
                t.set(slot, Time::from_nanos(at));
                plain[slot] = at;
                prop_assert_eq!(t.get(slot).as_nanos(), at);
                let (min, first) = plain.iter().copied().zip(0..).min().unwrap();
                prop_assert_eq!((t.earliest().0.as_nanos(), t.earliest().1), (min, first));
            }
        }
    }
}
