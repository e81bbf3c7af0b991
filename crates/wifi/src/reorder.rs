//! The receiver's reorder buffer for block acknowledgements.

use std::collections::VecDeque;

/// Mask of sequence numbers, which have 12 bits.
pub(crate) const SEQUENCE_MASK: u16 = 0xfff;

#[derive(Clone, Copy, Debug)]
enum Place {
    /// Not received yet.
    Missing,
    /// Given up by the sender.
    Gone,
    Packet(u32),
}

/// The reorder buffer of one link (IEEE 802.11-2020 §10.25.6.6).
#[derive(Clone, Debug)]
pub(crate) struct Reorder {
    /// Next number to pass up.
    next: u16,
    /// States of the numbers from `next` on, up to the highest known one.
    held: VecDeque<Place>,
}

impl Reorder {
    /// Returns an empty buffer; the sender's first number is 1.
    pub fn new() -> Self {
        Reorder { next: 1, held: VecDeque::new() }
    }

    /// Stores an MPDU received for the first time.
    ///
    /// `up` gets the number and packet of each MPDU that may be passed up.
    #[inline]
    pub fn accept(&mut self, sequence: u16, packet: u32, mut up: impl FnMut(u16, u32)) {
        if self.held.is_empty() && sequence == self.next {
            self.next = (self.next + 1) & SEQUENCE_MASK;
            up(sequence, packet);
            return;
        }
        self.put(sequence, Place::Packet(packet), up);
    }

    /// Records that the sender has given up a number, which then no longer blocks later ones.
    pub fn skip(&mut self, sequence: u16, up: impl FnMut(u16, u32)) {
        self.put(sequence, Place::Gone, up);
    }

    fn put(&mut self, sequence: u16, place: Place, mut up: impl FnMut(u16, u32)) {
        let at = usize::from(sequence.wrapping_sub(self.next) & SEQUENCE_MASK);
        if self.held.len() <= at {
            self.held.resize(at + 1, Place::Missing);
        }
        self.held[at] = place;
        while let Some(front) = self.held.front() {
            match *front {
                Place::Missing => return,
                Place::Gone => {}
                Place::Packet(packet) => up(self.next, packet),
            }
            self.held.pop_front();
            self.next = (self.next + 1) & SEQUENCE_MASK;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(r: &mut Reorder, numbers: &[u16]) -> Vec<u32> {
        let mut up = vec![];
        let mut keep = |number: u16, packet: u32| {
            assert_eq!(u32::from(number), packet);
            up.push(packet);
        };
        numbers.iter().for_each(|&n| r.accept(n, u32::from(n), &mut keep));
        up
    }

    #[test]
    fn in_order_behind_gaps_and_around_the_end_of_numbers() {
        let mut r = Reorder::new();
        assert_eq!(feed(&mut r, &[1, 2]), [1, 2]);
        assert_eq!(feed(&mut r, &[4, 6]), [0; 0]);
        assert_eq!(feed(&mut r, &[3]), [3, 4]);
        let mut up = vec![];
        r.skip(5, |_, packet| up.push(packet));
        assert_eq!(up, [6]);
        r.next = 4095;
        assert_eq!(feed(&mut r, &[0]), [0; 0]);
        assert_eq!(feed(&mut r, &[4095, 1]), [4095, 0, 1]);
    }
}
