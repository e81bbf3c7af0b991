//! A class tree with the semantics of Linux HTB (Devera 2002; `sch_htb`).
//!
//! - A leaf sends from its own tokens (`rate`) while it has any; beyond that it borrows from the
//!   nearest ancestor that has tokens, but never beyond its own or a lower ancestor's `ceil`.
//! - Levels are served bottom up: a class within its rate goes before any class that borrows, and
//!   one that borrows near before one that borrows far.
//! - Within a level, lower `prio` first; among equals deficit round robin by `quantum`.
//!
//! Files: `mod` the configuration and public calls, `class` one class, `ring` the round-robin
//! rings, `schedule` activation, charging and dequeueing.

mod class;
mod ring;
mod schedule;

use fairmesh_units::{BitRate, Bytes, Stream, Time};

use crate::spec::{SpecError, burst, nonzero};
use crate::{Backlog, DisciplineSpec, DropTail, Item, Limit, Queue, Verdict};
use class::{Class, Kind};
use ring::NONE;
use schedule::Schedule;

/// Depth of the tree: leaves are level 0, the topmost inner classes level 7 (`TC_HTB_MAXDEPTH`).
pub(crate) const LEVELS: usize = 8;
/// Number of priorities (`TC_HTB_NUMPRIO`).
pub(crate) const PRIOS: usize = 8;

/// A class's number, as the minor number in `tc`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClassId(pub u32);

impl std::fmt::Display for ClassId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "1:{:x}", self.0)
    }
}

/// A class's two token buckets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClassRates {
    /// Guaranteed rate.
    pub rate: BitRate,
    /// Rate never to be exceeded, own and borrowed together.
    pub ceil: BitRate,
    /// Bytes sent back to back at `rate`.
    pub burst: Bytes,
    /// Bytes sent back to back at `ceil`.
    pub cburst: Bytes,
}

impl ClassRates {
    /// A class that cannot borrow: ceiling and rate are one, bursts as `tc` chooses them (one
    /// packet).
    pub fn fixed(rate: BitRate) -> Self {
        ClassRates::between(rate, rate)
    }

    /// A class guaranteed `rate` that may borrow up to `ceil`, bursts as `tc` chooses them.
    pub fn between(rate: BitRate, ceil: BitRate) -> Self {
        ClassRates { rate, ceil, burst: Bytes(1600), cburst: Bytes(1600) }
    }

    fn check(&self, class: ClassId) -> Result<(), SpecError> {
        nonzero(self.rate.0, "rate")?;
        burst(self.burst)?;
        burst(self.cburst)?;
        if self.ceil < self.rate {
            return Err(SpecError::CeilBelowRate { class, rate: self.rate, ceil: self.ceil });
        }
        Ok(())
    }
}

/// What a class is built from.
#[derive(Clone, PartialEq, Debug)]
pub struct ClassSpec {
    /// Its number.
    pub id: ClassId,
    /// The class it borrows from, if any.
    pub parent: Option<ClassId>,
    /// Its rates.
    pub rates: ClassRates,
    /// 0 (first) to 7 (last), among classes that send from the same level. Leaves only.
    pub prio: u8,
    /// Bytes per round when sharing with classes of the same priority. `None`: the rate in bytes
    /// per second divided by the tree's `r2q`, between 1000 and 200 000.
    pub quantum: Option<u32>,
    /// The leaf's queue; `None` makes an inner class.
    pub leaf: Option<DisciplineSpec>,
}

impl ClassSpec {
    /// A leaf of priority 0.
    pub fn leaf(
        id: u32,
        parent: Option<ClassId>,
        rates: ClassRates,
        queue: DisciplineSpec,
    ) -> Self {
        ClassSpec { id: ClassId(id), parent, rates, prio: 0, quantum: None, leaf: Some(queue) }
    }

    /// An inner class.
    pub fn inner(id: u32, parent: Option<ClassId>, rates: ClassRates) -> Self {
        ClassSpec { id: ClassId(id), parent, rates, prio: 0, quantum: None, leaf: None }
    }
}

/// What an [`Htb`] is built from.
#[derive(Clone, PartialEq, Debug)]
pub struct HtbSpec {
    /// Classes, parents before children.
    pub classes: Vec<ClassSpec>,
    /// Which class takes which flow.
    pub flows: Vec<(u32, ClassId)>,
    /// The class of all other flows; `None` sends them at once, ahead of every class.
    pub default: Option<ClassId>,
    /// Buffer for flows that no class takes.
    pub direct: Limit,
    /// Divides a rate in bytes per second to give its quantum; `tc` has 10.
    pub r2q: u32,
}

impl Default for HtbSpec {
    /// No classes; 1000 packets go directly.
    fn default() -> Self {
        HtbSpec {
            classes: Vec::new(),
            flows: Vec::new(),
            default: None,
            direct: Limit::Packets(1000),
            r2q: 10,
        }
    }
}

/// Why a change to a class tree was refused.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HtbError {
    /// The class or rates are invalid.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// An inner class cannot go before its children.
    #[error("class {0} still has child classes")]
    HasChildren(ClassId),
}

/// A class's counters, as `tc -s class show` gives them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ClassCounters {
    /// Bytes sent, by the class and those below it.
    pub bytes: u64,
    /// Packets sent, by the class and those below it.
    pub packets: u64,
    /// Packets dropped by the leaf's queue.
    pub drops: u64,
    /// Times the class became unable to send, even by borrowing.
    pub overlimits: u64,
    /// Packets sent from tokens of the class itself, its own or a borrower's.
    pub lends: u64,
    /// Packets sent from an ancestor's tokens.
    pub borrows: u64,
    /// What waits in the leaf's queue.
    pub backlog: Backlog,
}

/// A class tree.
#[derive(Clone, Debug)]
pub struct Htb {
    classes: Vec<Class>,
    schedule: Schedule,
    /// Class index by flow number; NONE for the default.
    flows: Vec<u32>,
    default: u32,
    direct: DropTail,
    r2q: u32,
    backlog: Backlog,
}

impl Htb {
    /// Builds the tree.
    ///
    /// # Errors
    /// The first invalid class, or flows sent to a class that cannot take them.
    pub fn new(spec: &HtbSpec) -> Result<Self, SpecError> {
        nonzero(u64::from(spec.r2q), "r2q")?;
        if spec.direct.is_zero() {
            return Err(SpecError::Zero { what: "direct buffer" });
        }
        let mut htb = Htb {
            classes: Vec::new(),
            schedule: Schedule::default(),
            flows: Vec::new(),
            default: NONE,
            direct: DropTail::new(spec.direct),
            r2q: spec.r2q,
            backlog: Backlog::NONE,
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
                if matches!(queue, DisciplineSpec::Shaper(_) | DisciplineSpec::Htb(_)) {
                    return Err(SpecError::LeafHoldsBack(spec.id));
                }
                nonzero(u64::from(spec.quantum.unwrap_or(1)), "quantum")?;
                (0, Kind::leaf(queue.build()?))
            }
            None if below == 0 => return Err(SpecError::TooDeep(spec.id)),
            None => (below, Kind::inner()),
        };
        let mut class = Class::new(spec, parent, level, kind);
        class.set_quantum(self.r2q);
        match self.classes.iter().position(Class::is_vacant) {
            Some(index) => self.classes[index] = class,
            None => self.classes.push(class),
        }
        Ok(())
    }

    /// Changes a class's rates in place: queued packets stay, tokens gained so far stay, the
    /// quantum follows the rate unless it was given.
    ///
    /// # Errors
    /// Unknown class or invalid rates; nothing changes then.
    pub fn set_rates(
        &mut self,
        now: Time,
        id: ClassId,
        rates: ClassRates,
    ) -> Result<(), SpecError> {
        rates.check(id)?;
        let index = self.find(id).ok_or(SpecError::UnknownClass(id))?;
        let class = &mut self.classes[index as usize];
        class.rate.set(now, rates.rate, rates.burst);
        class.ceil.set(now, rates.ceil, rates.cburst);
        class.set_quantum(self.r2q);
        self.schedule.reconsider(&mut self.classes, now, index);
        Ok(())
    }

    /// A class's rates.
    pub fn rates(&self, id: ClassId) -> Option<ClassRates> {
        let class = &self.classes[self.find(id)? as usize];
        Some(ClassRates {
            rate: class.rate.rate(),
            ceil: class.ceil.rate(),
            burst: class.rate.burst(),
            cburst: class.ceil.burst(),
        })
    }

    /// Removes a class and hands back what waited in it, oldest first per flow. Its flows go to
    /// the default class from now on.
    ///
    /// # Errors
    /// Unknown class, or one with children.
    pub fn remove_class(&mut self, id: ClassId) -> Result<Vec<Item>, HtbError> {
        let index = self.find(id).ok_or(SpecError::UnknownClass(id))?;
        if self.classes.iter().any(|c| !c.is_vacant() && c.parent == index) {
            return Err(HtbError::HasChildren(id));
        }
        self.schedule.forget(&mut self.classes, index);
        let class = &mut self.classes[index as usize];
        let waiting = match std::mem::replace(&mut class.kind, Kind::Vacant) {
            Kind::Leaf(mut leaf) => leaf.queue.drain().collect(),
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

    /// Sends a flow's packets to a leaf from now on; those queued elsewhere stay there.
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

    /// Sends a flow's packets to the default class from now on.
    pub fn unassign(&mut self, flow: u32) {
        if let Some(entry) = self.flows.get_mut(flow as usize) {
            *entry = NONE;
        }
    }

    /// Chooses the class of all flows not assigned; `None` lets them pass unshaped.
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

    /// A class's counters.
    pub fn counters(&self, id: ClassId) -> Option<ClassCounters> {
        let class = &self.classes[self.find(id)? as usize];
        let mut counters = class.counters;
        if let Kind::Leaf(leaf) = &class.kind {
            counters.backlog = leaf.queue.backlog();
        }
        Some(counters)
    }

    /// The numbers of all classes, in no particular order.
    pub fn class_ids(&self) -> impl Iterator<Item = ClassId> + '_ {
        self.classes.iter().filter(|c| !c.is_vacant()).map(|c| c.id)
    }

    fn find(&self, id: ClassId) -> Option<u32> {
        self.classes.iter().position(|c| !c.is_vacant() && c.id == id).map(|i| i as u32)
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
            let index = self.classes.iter().position(|c| c.backlog().packets > 0)?;
            let Kind::Leaf(leaf) = &mut self.classes[index].kind else { return None };
            let item = leaf.queue.pop();
            if leaf.queue.backlog().packets == 0 {
                self.schedule.deactivate(&mut self.classes, index as u32);
            }
            item
        })?;
        self.backlog.sub(item);
        Some(item)
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
            let class = &mut self.classes[index as usize];
            let Kind::Leaf(leaf) = &mut class.kind else {
                unreachable!("flows are assigned to leaves only")
            };
            // Which class a frame in service came from is not known here, so no leaf pays for it.
            let verdict = leaf.queue.enqueue(now, item, Backlog::NONE, rng);
            match verdict {
                Verdict::Dropped(_) | Verdict::Evicted(..) => class.counters.drops += 1,
                Verdict::Queued | Verdict::Marked => {
                    if class.activity == 0 {
                        self.schedule.activate(&mut self.classes, index);
                    }
                }
            }
            verdict
        };
        match verdict {
            Verdict::Queued | Verdict::Marked => self.backlog.add(item),
            Verdict::Evicted(out, _) => {
                self.backlog.add(item);
                self.backlog.sub(out);
            }
            Verdict::Dropped(_) => {}
        }
        verdict
    }

    fn dequeue(&mut self, now: Time) -> Option<Item> {
        let item = match self.direct.pop() {
            Some(item) => item,
            None if self.backlog.packets == 0 => return None,
            None => self.schedule.dequeue(&mut self.classes, now)?,
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
}
