//! Choice of the next sender: activation, mode changes, charging, dequeueing.

use std::collections::BTreeSet;

use fairmesh_units::Time;

use super::class::{Class, Kind, Mode};
use super::ring::NONE;
use super::ring::Ring;
use super::{LEVELS, PRIOS, Release};
use crate::Item;

/// Time of refilling that bounds a debt, in s.
///
/// Larger debts are reduced to it (`mbuffer` in the kernel).
const MAX_DEBT_SECONDS: u64 = 60;

/// State of the scheduler, without the classes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Schedule {
    /// Classes that send from their own tokens, by level and priority.
    ///
    /// These are backlogged leaves, and classes that lend to one.
    rows: [[Ring; PRIOS]; LEVELS],
    /// Priorities (bits) with members, by level.
    row_mask: [u8; LEVELS],
    /// By level: classes that cannot send on their own, by the instant of the next check.
    waiting: [BTreeSet<(Time, u32)>; LEVELS],
    /// Leaves that have data to send.
    active: Vec<u32>,
    pub release: Release,
    /// Number of inner classes in the tree.
    pub inner: usize,
    /// Number of classes visited in dequeueing.
    #[cfg(test)]
    pub visits: u64,
}

/// Yields the priorities in a mask, the first ones first.
fn prios(mut mask: u8) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        if mask == 0 {
            return None;
        }
        let prio = mask.trailing_zeros();
        mask &= mask - 1;
        Some(prio as usize)
    })
}

impl Schedule {
    pub fn new(release: Release) -> Self {
        Schedule { release, ..Schedule::default() }
    }

    /// Activates a leaf that has its first packet.
    pub fn activate(&mut self, classes: &mut [Class], index: u32) {
        let class = &mut classes[index as usize];
        class.activity = 1 << class.prio;
        class.place = self.active.len() as u32;
        self.active.push(index);
        self.join(classes, index);
    }

    /// Deactivates a leaf that has lost its last packet.
    pub fn deactivate(&mut self, classes: &mut [Class], index: u32) {
        if classes[index as usize].activity != 0 {
            self.leave(classes, index);
            let class = &mut classes[index as usize];
            class.activity = 0;
            let place = class.place;
            self.active.swap_remove(place as usize);
            if let Some(&moved) = self.active.get(place as usize) {
                classes[moved as usize].place = place;
            }
        }
    }

    /// Enters an active class into the rings from which its mode lets it send.
    ///
    /// These are its level's row, or its parent's ring and, if that ring was empty, recursively the parent's.
    fn join(&mut self, classes: &mut [Class], index: u32) {
        let mut at = index;
        let mut mask = classes[at as usize].activity;
        loop {
            let Class { id, parent, level, mode, .. } = classes[at as usize];
            if mask == 0 {
                return;
            }
            match mode {
                Mode::CanSend => {
                    for prio in prios(mask) {
                        self.rows[level as usize][prio].insert(id.0, at);
                    }
                    self.row_mask[level as usize] |= mask;
                    return;
                }
                Mode::MayBorrow if parent != NONE => {
                    let above = &mut classes[parent as usize];
                    let mut new = 0;
                    for prio in prios(mask) {
                        let ring = above.ring(prio);
                        if ring.is_empty() {
                            new |= 1 << prio;
                        }
                        ring.insert(id.0, at);
                    }
                    above.activity |= new;
                    mask = new;
                    at = parent;
                }
                _ => return,
            }
        }
    }

    /// Reverses `join`; must be called before the mode changes.
    fn leave(&mut self, classes: &mut [Class], index: u32) {
        let mut at = index;
        let mut mask = classes[at as usize].activity;
        loop {
            let Class { id, parent, level, mode, .. } = classes[at as usize];
            if mask == 0 {
                return;
            }
            match mode {
                Mode::CanSend => {
                    for prio in prios(mask) {
                        let ring = &mut self.rows[level as usize][prio];
                        ring.remove(id.0);
                        if ring.is_empty() {
                            self.row_mask[level as usize] &= !(1 << prio);
                        }
                    }
                    return;
                }
                Mode::MayBorrow if parent != NONE => {
                    let above = &mut classes[parent as usize];
                    let mut gone = 0;
                    for prio in prios(mask) {
                        let ring = above.ring(prio);
                        ring.remove(id.0);
                        if ring.is_empty() {
                            gone |= 1 << prio;
                        }
                    }
                    // The parent leaves its own rings before it clears these priorities.
                    mask = gone;
                    at = parent;
                    above.activity &= !gone;
                }
                _ => return,
            }
        }
    }

    /// Sets the mode that a class's buckets require, and schedules its next possible improvement.
    pub fn reconsider(&mut self, classes: &mut [Class], now: Time, index: u32) {
        #[cfg(test)]
        {
            self.visits += 1;
        }
        let class = &classes[index as usize];
        let (mode, wake) = class.decide(now);
        // If a packet waits for all of its tokens, its release is known, and determines that of the
        // tree.
        let early = self.release == Release::Debt;
        if mode == class.mode && early && class.wake > now && class.wake <= wake {
            // A later check suffices; moving the entry at every packet would be costly.
            return;
        }
        self.set_wake(classes, index, wake);
        let class = &mut classes[index as usize];
        if mode == class.mode {
            return;
        }
        if mode == Mode::CannotSend {
            class.counters.overlimits += 1;
        }
        if class.activity == 0 {
            class.mode = mode;
            return;
        }
        self.leave(classes, index);
        classes[index as usize].mode = mode;
        self.join(classes, index);
    }

    fn set_wake(&mut self, classes: &mut [Class], index: u32, wake: Time) {
        let class = &mut classes[index as usize];
        if class.wake == wake {
            return;
        }
        let waiting = &mut self.waiting[class.level as usize];
        if class.wake != Time::NEVER {
            waiting.remove(&(class.wake, index));
        }
        class.wake = wake;
        if wake != Time::NEVER {
            waiting.insert((wake, index));
        }
    }

    /// Returns a leaf that has data to send.
    pub fn busy(&self) -> Option<u32> {
        self.active.first().copied()
    }

    /// Removes a class from every ring and list.
    pub fn drop_class(&mut self, classes: &mut [Class], index: u32) {
        self.deactivate(classes, index);
        self.set_wake(classes, index, Time::NEVER);
    }

    /// Returns the next packet and its class.
    pub fn dequeue(&mut self, classes: &mut [Class], now: Time) -> Option<(u32, Item)> {
        for level in 0..LEVELS {
            while let Some(&(wake, index)) = self.waiting[level].first()
                && wake <= now
            {
                self.reconsider(classes, now, index);
            }
            if let Some(prio) = prios(self.row_mask[level]).next() {
                return Some(self.send(classes, now, level, prio));
            }
        }
        None
    }

    /// Sends the next packet of a row that has members.
    fn send(&mut self, classes: &mut [Class], now: Time, level: usize, prio: usize) -> (u32, Item) {
        // Independent buckets do not take turns.
        let turns = level > 0 || self.release == Release::Debt;
        let index =
            if turns { self.turn(classes, level, prio) } else { self.rows[0][prio].first() };
        let class = &mut classes[index as usize];
        let parent = class.parent;
        let Kind::Leaf(leaf) = &mut class.kind else { unreachable!("turns end at leaves") };
        let item = leaf.dequeue(now).expect("an active leaf has a packet and never waits");
        let mut next = false;
        if turns {
            leaf.deficit[level] -= i64::from(item.bytes);
            next = leaf.deficit[level] < 0;
            if next {
                leaf.deficit[level] += i64::from(leaf.quantum);
            }
        }
        let empty = leaf.backlog().packets == 0;
        class.counters.bytes += u64::from(item.bytes);
        class.counters.packets += 1;
        if next {
            self.ring(classes, if level == 0 { NONE } else { parent }, level, prio).advance();
        }
        if empty {
            self.deactivate(classes, index);
        }
        self.charge(classes, now, index, level, item.bytes);
        (index, item)
    }

    /// Follows the turns of the rings from a row down to a leaf.
    fn turn(&mut self, classes: &mut [Class], level: usize, prio: usize) -> u32 {
        let mut path = [NONE; LEVELS + 1];
        let mut depth = 0;
        loop {
            let ring = self.ring(classes, path[depth], level, prio);
            let index = ring.current();
            if index == NONE {
                // End of a round: starts the next; on the level above, the turn passes to another
                // class.
                ring.rewind();
                if depth > 0 {
                    depth -= 1;
                    self.ring(classes, path[depth], level, prio).advance();
                }
            } else if classes[index as usize].is_inner() {
                depth += 1;
                path[depth] = index;
            } else {
                return index;
            }
        }
    }

    /// Returns a class's ring of children, or a level's row.
    fn ring<'a>(
        &'a mut self,
        classes: &'a mut [Class],
        owner: u32,
        level: usize,
        prio: usize,
    ) -> &'a mut Ring {
        if owner == NONE { &mut self.rows[level][prio] } else { classes[owner as usize].ring(prio) }
    }

    /// Charges a packet sent from the tokens of the ancestor at `level`.
    ///
    /// Each class up to the root is charged at its ceiling; the lender and those above it also at
    /// their rate.
    fn charge(&mut self, classes: &mut [Class], now: Time, leaf: u32, level: usize, bytes: u32) {
        let mut at = leaf;
        while at != NONE {
            let class = &mut classes[at as usize];
            let own = class.level as usize;
            if own >= level {
                if own == level {
                    class.counters.lends += 1;
                }
                class.rate.take(now, bytes);
                class.rate.cap_debt(MAX_DEBT_SECONDS);
            } else {
                class.counters.borrows += 1;
            }
            class.ceil.take(now, bytes);
            class.ceil.cap_debt(MAX_DEBT_SECONDS);
            if at != leaf {
                class.counters.bytes += u64::from(bytes);
                class.counters.packets += 1;
            }
            let parent = class.parent;
            self.reconsider(classes, now, at);
            at = parent;
        }
    }

    /// Returns the instant at which the first packet can leave.
    pub fn next_ready(&self, classes: &[Class], now: Time) -> Time {
        if self.row_mask.iter().any(|&m| m != 0) {
            return now;
        }
        if self.release == Release::Whole && self.inner == 0 {
            let mut active = self.waiting[0].iter().filter(|w| classes[w.1 as usize].activity != 0);
            return active.next().map_or(Time::NEVER, |w| w.0.max(now));
        }
        let mut best = Time::NEVER;
        for leaf in self.active.iter().map(|&index| &classes[index as usize]) {
            // Before its own mode improves, a leaf can send only by borrowing.
            let borrows = leaf.mode == Mode::MayBorrow && leaf.parent != NONE;
            if !borrows && leaf.wake >= best {
                continue;
            }
            // The nearest lender, once each ceiling below it allows.
            let mut allowed = now;
            let mut class = leaf;
            loop {
                allowed = allowed.max(class.allowed_at(now));
                if allowed >= best {
                    break;
                }
                best = best.min(allowed.max(class.funded_at(now)));
                if class.parent == NONE {
                    break;
                }
                class = &classes[class.parent as usize];
            }
        }
        best
    }
}
