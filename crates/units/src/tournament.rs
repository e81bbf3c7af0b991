//! Search for the earliest of many deadlines if most events move the earliest one.

use crate::Time;

/// One deadline per slot `0..len`, and the earliest of them all.
///
/// It is a tournament of pairs: moving a deadline replays its games until one has the same winner as before, at most
/// log₂ of the number of slots; the earliest is known at any time. If many deadlines move between two queries,
/// [`crate::Deadlines`] is faster. Equal deadlines come due in slot order, which makes the order of events total.
#[derive(Clone, Debug)]
pub struct Tournament {
    /// Players of each game: the last game is at 1, the two before it at 2 and 3, and so on.
    ///
    /// Slots are the players of the first round.
    games: Vec<[Player; 2]>,
    /// Winner of the last game.
    first: Player,
    len: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Player {
    /// Deadline, in ns.
    at: u64,
    slot: u32,
}

impl Tournament {
    /// Returns `len` slots, none with a deadline.
    ///
    /// # Panics
    /// With 2³¹ slots or more.
    pub fn new(len: usize) -> Self {
        let rounds = len.max(2).next_power_of_two();
        let slot = |slot| u32::try_from(slot).expect("fewer than 2^31 slots");
        // Of equal players the first wins.
        let player = |place: usize| Player {
            at: u64::MAX,
            slot: slot((place << (rounds.ilog2() - place.ilog2())) - rounds),
        };
        let games = (0..rounds).map(|game| [player((2 * game).max(1)), player(2 * game + 1)]);
        Tournament { games: games.collect(), first: player(1), len }
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
        Time::from_nanos(self.games[(self.games.len() + slot) / 2][slot % 2].at)
    }

    /// Sets or (with [`Time::NEVER`]) clears the deadline of a slot.
    #[inline]
    pub fn set(&mut self, slot: usize, at: Time) {
        let games = &mut self.games[..];
        let mut place = games.len() + slot;
        let mut winner = Player { at: at.as_nanos(), slot: slot as u32 };
        while place > 1 {
            let game = &mut games[place / 2];
            let player = &mut game[place % 2];
            if *player == winner {
                return;
            }
            *player = winner;
            winner = if game[1].at < game[0].at { game[1] } else { game[0] };
            place /= 2;
        }
        self.first = winner;
    }

    /// Returns the earliest deadline and its slot; the lowest slot among equals.
    #[inline]
    pub fn earliest(&self) -> (Time, usize) {
        (Time::from_nanos(self.first.at), self.first.slot as usize)
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
