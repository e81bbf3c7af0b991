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
    /// Who play each game: the last is at 1, the two before it at 2 and 3, and so forth; slots are the players
    /// of the first round.
    games: Vec<[Player; 2]>,
    /// Who has won the last.
    first: Player,
    len: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Player {
    /// ns.
    at: u64,
    slot: u32,
}

impl Tournament {
    /// `len` slots, none with a deadline.
    ///
    /// # Panics
    /// With 2³¹ slots or more.
    pub fn new(len: usize) -> Self {
        let rounds = len.max(2).next_power_of_two();
        let slot = |slot| u32::try_from(slot).expect("fewer than 2^31 slots");
        // Of equals the first has won.
        let player = |place: usize| Player {
            at: u64::MAX,
            slot: slot((place << (rounds.ilog2() - place.ilog2())) - rounds),
        };
        let games = (0..rounds).map(|game| [player((2 * game).max(1)), player(2 * game + 1)]);
        Tournament { games: games.collect(), first: player(1), len }
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

    /// The earliest deadline and its slot; the lowest slot among equals.
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
