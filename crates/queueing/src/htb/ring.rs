//! A ring of classes that take turns, in the order of their numbers.

/// Index that means "no class".
pub(crate) const NONE: u32 = u32::MAX;

/// A round-robin ring that keeps its position when members come and go.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ring {
    /// Class numbers and indices, ascending by number.
    members: Vec<(u32, u32)>,
    /// Number of the member that is next, or the next higher one if it was removed.
    ///
    /// `None` after the last member.
    turn: Option<u32>,
}

impl Ring {
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    fn position(&self, id: u32) -> usize {
        self.members.partition_point(|m| m.0 < id)
    }

    pub fn insert(&mut self, id: u32, index: u32) {
        let at = self.position(id);
        if self.members.get(at).is_none_or(|m| m.0 != id) {
            self.members.insert(at, (id, index));
        }
    }

    pub fn remove(&mut self, id: u32) {
        let at = self.position(id);
        if self.members.get(at).is_some_and(|m| m.0 == id) {
            self.members.remove(at);
        }
    }

    /// Returns the index of the first member; NONE if there is none.
    pub fn first(&self) -> u32 {
        self.members.first().map_or(NONE, |m| m.1)
    }

    /// Returns the index of the class that is next; NONE after the last member.
    pub fn current(&mut self) -> u32 {
        let Some(id) = self.turn else { return NONE };
        match self.members.get(self.position(id)) {
            Some(&(id, index)) => {
                self.turn = Some(id);
                index
            }
            None => {
                self.turn = None;
                NONE
            }
        }
    }

    /// Advances the turn; to the end after the last member.
    pub fn advance(&mut self) {
        let Some(id) = self.turn else { return };
        let at = self.members.partition_point(|m| m.0 <= id);
        self.turn = self.members.get(at).map(|m| m.0);
    }

    /// Returns to the first member.
    pub fn rewind(&mut self) {
        self.turn = self.members.first().map(|m| m.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_its_place_when_members_come_and_go() {
        let mut ring = Ring::default();
        for id in [10, 30, 20] {
            ring.insert(id, id);
        }
        assert_eq!(ring.current(), NONE, "a new ring stands past its end");
        ring.rewind();
        assert_eq!(ring.current(), 10);
        ring.advance();
        ring.insert(15, 15);
        assert_eq!(ring.current(), 20, "15 came too late for this round");
        ring.remove(20);
        assert_eq!(ring.current(), 30, "the turn passes to the next");
        ring.advance();
        ring.insert(40, 40);
        assert_eq!(ring.current(), NONE, "the round was over before 40 came");
        ring.rewind();
        assert_eq!(ring.current(), 10);
        ring.remove(10);
        ring.insert(10, 10);
        assert_eq!(ring.current(), 10, "back before its turn was given away");
    }
}
