//! A class tree with the semantics of Linux HTB (Devera 2002; `sch_htb`).
//!
//! - A leaf sends from its own tokens (`rate`) while it has any. Then it borrows from the nearest
//!   ancestor that has tokens, up to its own and each lower ancestor's `ceil`.
//! - Levels are served bottom up: a class within its rate precedes any class that borrows, and one
//!   that borrows from a near ancestor precedes one that borrows from a far one.
//! - Within a level, lower `prio` first; among equals deficit round robin by `quantum`.
//!
//! With [`Release::Whole`] its leaves are token buckets as in Linux `tbf`.
//!
//! Files: `config` the description of a tree, `mod` the public calls, `class` one class, `ring` the
//! round-robin rings, `schedule` activation, charging and dequeueing.

mod class;
mod config;
mod ring;
mod schedule;

use std::collections::{BTreeMap, VecDeque};

use fairmesh_units::{Stream, Time};

use crate::spec::{SpecError, nonzero};
use crate::{Backlog, DeferredVerdict, Discipline, DropCause, DropTail, Item, Queue, Verdict};
use class::{Class, Kind};
use ring::NONE;
use schedule::Schedule;

pub use config::{ClassCounters, ClassId, ClassRates, ClassSpec, HtbError, HtbSpec, Release};

/// Depth of the tree.
///
/// Leaves are level 0, the topmost inner classes level 7 (`TC_HTB_MAXDEPTH`).
pub(crate) const LEVELS: usize = 8;
/// Number of priorities (`TC_HTB_NUMPRIO`).
pub(crate) const PRIOS: usize = 8;

/// A class tree.
#[derive(Clone, Debug)]
pub struct Htb {
    classes: Vec<Class>,
    /// Indices of the classes by number.
    places: BTreeMap<ClassId, u32>,
    vacant: Vec<u32>,
    schedule: Schedule,
    /// Class index by flow number; NONE for the default.
    flows: Vec<u32>,
    default: u32,
    direct: DropTail,
    r2q: u32,
    backlog: Backlog,
    deferred: VecDeque<DeferredVerdict>,
}

impl Htb {
    /// Builds the tree.
    ///
    /// # Errors
    /// Returns the first invalid class, or flows sent to a class that cannot take them.
    pub fn new(spec: &HtbSpec) -> Result<Self, SpecError> {
        nonzero(u64::from(spec.r2q), "r2q")?;
        if spec.direct.is_zero() {
            return Err(SpecError::Zero { what: "direct buffer" });
        }
        let mut htb = Htb {
            classes: Vec::new(),
            places: BTreeMap::new(),
            vacant: Vec::new(),
            schedule: Schedule::new(spec.release),
            flows: Vec::new(),
            default: NONE,
            direct: DropTail::new(spec.direct),
            r2q: spec.r2q,
            backlog: Backlog::NONE,
            deferred: VecDeque::new(),
        };
        for class in &spec.classes {
            htb.add_class(class)?;
        }
        if let Some(id) = spec.default {
            htb.set_default(Some(id))?;
        }
        for &(flow, id) in &spec.flows {
            htb.assign(flow, id)?;
        }
        Ok(htb)
    }

    /// Adds a class, with full buckets.
    ///
    /// # Errors
    /// An invalid description, a number in use, or a parent that is missing or a leaf.
    pub fn add_class(&mut self, spec: &ClassSpec) -> Result<(), SpecError> {
        spec.rates.check(spec.id)?;
        if spec.prio as usize >= PRIOS {
            return Err(SpecError::Priority { class: spec.id, prio: spec.prio });
        }
        if self.find(spec.id).is_some() {
            return Err(SpecError::DuplicateClass(spec.id));
        }
        let (parent, below) = match spec.parent {
            None => (NONE, LEVELS as u8 - 1),
            Some(id) => {
                let parent = self.find(id).ok_or(SpecError::UnknownClass(id))?;
                let above = &self.classes[parent as usize];
                if !above.is_inner() {
                    return Err(SpecError::LeafParent(id));
                }
                (parent, above.level - 1)
            }
        };
        let (level, kind) = match &spec.leaf {
            Some(queue) => {
                if queue.holds_back() {
                    return Err(SpecError::LeafHoldsBack(spec.id));
                }
                nonzero(u64::from(spec.quantum.unwrap_or(1)), "quantum")?;
                (0, Kind::leaf(queue.build()?, self.schedule.release))
            }
            None if below == 0 => return Err(SpecError::TooDeep(spec.id)),
            None => (below, Kind::inner()),
        };
        let mut class = Class::new(spec, parent, level, kind);
        class.set_quantum(self.r2q);
        self.schedule.inner += usize::from(class.is_inner());
        let index = match self.vacant.pop() {
            Some(index) => {
                self.classes[index as usize] = class;
                index
            }
            None => {
                self.classes.push(class);
                self.classes.len() as u32 - 1
            }
        };
        self.places.insert(spec.id, index);
        Ok(())
    }

    /// Changes a class's rates in place.
    ///
    /// Queued packets and tokens stay; the quantum follows the rate unless it was given. With
    /// [`Release::Whole`] a rate of zero stops the class.
    ///
    /// # Errors
    /// Unknown class or invalid rates; then nothing changes.
    pub fn set_rates(
        &mut self,
        now: Time,
        id: ClassId,
        rates: ClassRates,
    ) -> Result<(), SpecError> {
        if rates.rate.0 > 0 || self.schedule.release == Release::Debt {
            rates.check(id)?;
        }
        let index = self.find(id).ok_or(SpecError::UnknownClass(id))?;
        let class = &mut self.classes[index as usize];
        class.rate.set(now, rates.rate, rates.burst);
        class.ceil.set(now, rates.ceil, rates.cburst);
        class.set_quantum(self.r2q);
        self.schedule.reconsider(&mut self.classes, now, index);
        Ok(())
    }

    /// Returns a class's rates.
    pub fn rates(&self, id: ClassId) -> Option<ClassRates> {
        let class = &self.classes[self.find(id)? as usize];
        Some(ClassRates {
            rate: class.rate.rate(),
            ceil: class.ceil.rate(),
            burst: class.rate.burst(),
            cburst: class.ceil.burst(),
        })
    }

    /// Removes a class and returns its queued packets, oldest first per flow.
    ///
    /// Its flows go to the default class from now on.
    ///
    /// # Errors
    /// Unknown class, or one with children.
    pub fn remove_class(&mut self, id: ClassId) -> Result<Vec<Item>, HtbError> {
        let index = self.find(id).ok_or(SpecError::UnknownClass(id))?;
        if self.classes.iter().any(|c| !c.is_vacant() && c.parent == index) {
            return Err(HtbError::HasChildren(id));
        }
        self.schedule.drop_class(&mut self.classes, index);
        self.places.remove(&id);
        self.vacant.push(index);
        let class = &mut self.classes[index as usize];
        self.schedule.inner -= usize::from(class.is_inner());
        let waiting: Vec<Item> = match std::mem::replace(&mut class.kind, Kind::Vacant) {
            Kind::Leaf(mut leaf) => std::iter::from_fn(|| leaf.pop()).collect(),
            _ => Vec::new(),
        };
        for &item in &waiting {
            self.backlog.sub(item);
        }
        for flow in &mut self.flows {
            if *flow == index {
                *flow = NONE;
            }
        }
        if self.default == index {
            self.default = NONE;
        }
        Ok(waiting)
    }

    /// Assigns a flow to a leaf from now on; packets queued elsewhere stay there.
    ///
    /// # Errors
    /// Unknown class, or an inner one.
    pub fn assign(&mut self, flow: u32, id: ClassId) -> Result<(), SpecError> {
        let index = self.leaf(id)?;
        if flow as usize >= self.flows.len() {
            self.flows.resize(flow as usize + 1, NONE);
        }
        self.flows[flow as usize] = index;
        Ok(())
    }

    /// Assigns a flow to the default class from now on.
    pub fn unassign(&mut self, flow: u32) {
        if let Some(entry) = self.flows.get_mut(flow as usize) {
            *entry = NONE;
        }
    }

    /// Sets the class of all flows not assigned; `None` lets them pass unshaped.
    ///
    /// # Errors
    /// Unknown class, or an inner one.
    pub fn set_default(&mut self, id: Option<ClassId>) -> Result<(), SpecError> {
        self.default = match id {
            Some(id) => self.leaf(id)?,
            None => NONE,
        };
        Ok(())
    }

    /// Returns a class's counters.
    pub fn counters(&self, id: ClassId) -> Option<ClassCounters> {
        let class = &self.classes[self.find(id)? as usize];
        let mut counters = class.counters;
        if let Kind::Leaf(leaf) = &class.kind {
            counters.backlog = leaf.backlog();
        }
        Some(counters)
    }

    /// Returns the numbers of all classes, in no particular order.
    pub fn class_ids(&self) -> impl Iterator<Item = ClassId> + '_ {
        self.classes.iter().filter(|c| !c.is_vacant()).map(|c| c.id)
    }

    fn find(&self, id: ClassId) -> Option<u32> {
        self.places.get(&id).copied()
    }

    fn leaf(&self, id: ClassId) -> Result<u32, SpecError> {
        let index = self.find(id).ok_or(SpecError::UnknownClass(id))?;
        if self.classes[index as usize].is_inner() {
            return Err(SpecError::InnerTarget(id));
        }
        Ok(index)
    }

    pub(crate) fn pop(&mut self) -> Option<Item> {
        let item = self.direct.pop().or_else(|| {
            let index = self.schedule.busy()?;
            let Kind::Leaf(leaf) = &mut self.classes[index as usize].kind else { return None };
            let item = leaf.pop();
            if leaf.backlog().packets == 0 {
                self.schedule.deactivate(&mut self.classes, index);
            }
            item
        })?;
        self.backlog.sub(item);
        Some(item)
    }

    /// Returns the queues of all leaves.
    pub(crate) fn leaves(&self) -> impl Iterator<Item = &Discipline> {
        self.classes.iter().filter_map(|class| match &class.kind {
            Kind::Leaf(leaf) => Some(leaf.queue()),
            _ => None,
        })
    }

    /// Returns the queue of a leaf; the next packet may already be taken from it.
    pub fn queue_of(&self, id: ClassId) -> Option<&Discipline> {
        match &self.classes[self.find(id)? as usize].kind {
            Kind::Leaf(leaf) => Some(leaf.queue()),
            _ => None,
        }
    }

    /// Returns the instant at which a leaf's own tokens release its next packet.
    ///
    /// It is independent of turns; [`Time::NEVER`] without a packet.
    pub fn next_ready_of(&self, now: Time, id: ClassId) -> Time {
        let class = self.find(id).map(|index| &self.classes[index as usize]);
        class
            .filter(|c| c.activity != 0)
            .map_or(Time::NEVER, |class| class.allowed_at(now).max(class.funded_at(now)))
    }

    /// Offers a packet to a leaf, regardless of its flow.
    ///
    /// # Errors
    /// Unknown class, or an inner one; the caller keeps the packet.
    pub fn offer(
        &mut self,
        now: Time,
        id: ClassId,
        item: Item,
        rng: &mut Stream,
    ) -> Result<Verdict, SpecError> {
        let index = self.leaf(id)?;
        let verdict = self.put(now, index, item, rng);
        self.count(item, verdict);
        self.settle(index);
        Ok(verdict)
    }

    /// Puts a packet into a leaf.
    fn put(&mut self, now: Time, index: u32, item: Item, rng: &mut Stream) -> Verdict {
        let class = &mut self.classes[index as usize];
        let most = class.rate.burst().0.min(class.ceil.burst().0);
        let Kind::Leaf(leaf) = &mut class.kind else {
            unreachable!("flows are assigned to leaves only")
        };
        let verdict = leaf.enqueue(now, item, most, rng);
        let empty = leaf.backlog().packets == 0;
        match verdict {
            Verdict::Dropped(_) | Verdict::Evicted(..) => class.counters.drops += 1,
            Verdict::Queued | Verdict::Marked => {
                if class.activity == 0 && !empty {
                    if self.schedule.release == Release::Whole {
                        // The bytes that its buckets must hold are known only now.
                        self.schedule.reconsider(&mut self.classes, now, index);
                    }
                    self.schedule.activate(&mut self.classes, index);
                }
            }
        }
        verdict
    }

    /// Takes over the later outcomes of a leaf's accepted packets.
    ///
    /// A class without packets is deactivated (`htb_qlen_notify`). As in the kernel, drops by CoDel are not in
    /// the class's counter.
    fn settle(&mut self, index: u32) {
        let class = &mut self.classes[index as usize];
        let Kind::Leaf(leaf) = &mut class.kind else { return };
        while let Some(late) = leaf.deferred_verdict() {
            if let DeferredVerdict::Dropped(item, cause) = late {
                self.backlog.sub(item);
                class.counters.drops += u64::from(cause == DropCause::Full);
            }
            self.deferred.push_back(late);
        }
        if leaf.backlog().packets == 0 {
            self.schedule.deactivate(&mut self.classes, index);
        }
    }

    fn count(&mut self, item: Item, verdict: Verdict) {
        match verdict {
            Verdict::Queued | Verdict::Marked => self.backlog.add(item),
            Verdict::Evicted(out, _) => {
                self.backlog.add(item);
                self.backlog.sub(out);
            }
            Verdict::Dropped(_) => {}
        }
    }
}

impl Queue for Htb {
    fn enqueue(&mut self, now: Time, item: Item, held: Backlog, rng: &mut Stream) -> Verdict {
        let mut index = self.flows.get(item.flow as usize).copied().unwrap_or(NONE);
        if index == NONE {
            index = self.default;
        }
        let verdict = if index == NONE {
            self.direct.enqueue(now, item, held, rng)
        } else {
            self.put(now, index, item, rng)
        };
        self.count(item, verdict);
        if index != NONE {
            self.settle(index);
        }
        verdict
    }

    fn dequeue(&mut self, now: Time) -> Option<Item> {
        let item = match self.direct.pop() {
            Some(item) => item,
            None if self.backlog.packets == 0 => return None,
            None => {
                let (index, item) = self.schedule.dequeue(&mut self.classes, now)?;
                self.settle(index);
                item
            }
        };
        self.backlog.sub(item);
        Some(item)
    }

    fn next_ready(&self, now: Time) -> Time {
        if self.backlog.packets == 0 {
            Time::NEVER
        } else if self.direct.backlog().packets > 0 {
            now
        } else {
            self.schedule.next_ready(&self.classes, now)
        }
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }

    #[inline]
    fn deferred_verdict(&mut self) -> Option<DeferredVerdict> {
        self.deferred.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DisciplineSpec;
    use fairmesh_units::BitRate;

    /// Returns the classes visited per packet, with this number of backlogged classes.
    fn visits(classes: u32, release: Release, parent: bool) -> f64 {
        let root = ClassSpec::inner(u32::MAX, None, ClassRates::fixed(BitRate(1 << 40)));
        let rates = ClassRates::fixed(BitRate(100_000));
        let leaf = |id| {
            let parent = parent.then_some(root.id);
            ClassSpec::leaf(id, parent, rates, DisciplineSpec::drop_tail(4))
        };
        let mut all: Vec<ClassSpec> = (0..classes).map(leaf).collect();
        if parent {
            all.insert(0, root.clone());
        }
        let flows = (0..classes).map(|id| (id, ClassId(id))).collect();
        let spec = HtbSpec { classes: all, flows, release, ..HtbSpec::default() };
        let mut tree = Htb::new(&spec).unwrap();
        let mut rng = Stream::new(1, "visits");
        let mut put = |tree: &mut Htb, now, flow| {
            let item = Item { handle: 0, bytes: 1500, flow, ect: false, ect1: false, station: 0 };
            assert_eq!(tree.enqueue(now, item, Backlog::NONE, &mut rng), Verdict::Queued);
        };
        // Staggered starts, so that classes do not wake together.
        let at = |k: u32| Time::from_nanos(u64::from(k) * 7_919);
        (0..4 * classes).for_each(|k| put(&mut tree, at(k), k % classes));
        let (mut now, mut served) = (at(4 * classes), 0);
        let before = tree.schedule.visits;
        while served < 3 * classes {
            now = tree.next_ready(now);
            let item = tree.dequeue(now).expect("ready when announced");
            put(&mut tree, now, item.flow);
            served += 1;
        }
        (tree.schedule.visits - before) as f64 / f64::from(served)
    }

    #[test]
    fn serving_a_packet_does_not_walk_the_classes() {
        for (release, parent) in
            [(Release::Whole, false), (Release::Debt, false), (Release::Debt, true)]
        {
            let few = visits(10, release, parent);
            for classes in [100, 1000] {
                let many = visits(classes, release, parent);
                eprintln!("{release:?} {parent}: {few:.2} of 10, {many:.2} of {classes}");
                assert!(many <= few + 1.0 && many < 6.0, "{many} of {classes}, {few} of 10");
            }
        }
    }
}
