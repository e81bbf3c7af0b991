//! The classes of a control's plan.
//!
//! They are limited in bytes where packets are forwarded, in bytes or airtime in a radio's queue.
//!
//! Both sets find a packet's class in one [`Directory`] and build leaves and classes from the same templates.
//! They differ in their buckets: `bytes` has the class tree of `fairmesh_queueing` with integer buckets;
//! `airtime` gets the cost of a packet only from the MAC.

pub(crate) mod airtime;
pub(crate) mod bytes;
mod cost;

use fairmesh_control::{Class, ClassPlan, Leaf, Limit, Plan};
use fairmesh_queueing::{DisciplineSpec, FairSpec, FredSpec, Limit as Buffer, RedSpec};
use fairmesh_units::{FlowId, NodeId, Span};

use crate::shares::Shares;

pub(crate) use airtime::RadioClasses;
pub(crate) use bytes::ByteClasses;
pub(crate) use cost::Cost;

/// Typical time between packets of a class, 12 ms: 1500 bytes at 1 Mbit/s.
///
/// RED and FRED age their averages by it.
const PACKET_TIME: Span = Span::from_millis(12);

/// Returns the queue discipline of a class.
pub(crate) fn leaf(plan: &ClassPlan) -> DisciplineSpec {
    match plan.leaf {
        Leaf::DropTail { packets } => DisciplineSpec::drop_tail(packets),
        Leaf::Fair { packets } => {
            DisciplineSpec::Fair(FairSpec::per_flow(Buffer::Packets(packets)))
        }
        Leaf::Red { packets, ecn } => {
            DisciplineSpec::Red(RedSpec { ecn, ..RedSpec::packets(packets, PACKET_TIME) })
        }
        Leaf::Fred { packets } => DisciplineSpec::Fred(FredSpec::packets(packets, PACKET_TIME)),
    }
}

/// Returns the queue that a plan puts in place of a radio's own.
///
/// It has one class for all, without a limit. `None` if the plan requests any other arrangement there, which
/// this kind of host does not build.
pub(crate) fn replacement(plan: &Plan) -> Option<DisciplineSpec> {
    match plan.classes.as_slice() {
        [only] if only.class == Class::All && only.limit == Limit::None => Some(leaf(only)),
        _ => None,
    }
}

/// Index of a class that does not exist.
const NO_CLASS: u32 = u32::MAX;
/// Index of a packet that belongs to no class, regardless of the classes.
const UNCLASSIFIED: u32 = u32::MAX - 1;

/// Mapping from packets to classes.
///
/// It is a flow's class, otherwise its link's, otherwise the common one.
#[derive(Debug)]
struct Directory {
    of_flow: Vec<u32>,
    /// By neighbour, up to the last one with a class.
    of_link: Vec<u32>,
    all: u32,
}

impl Directory {
    fn new(flows: usize) -> Self {
        Directory { of_flow: vec![NO_CLASS; flows], of_link: Vec::new(), all: NO_CLASS }
    }

    /// Marks the flows that no class of this node takes.
    fn pass(&mut self, elsewhere: impl Fn(FlowId) -> bool) {
        for (flow, slot) in (0..).map(FlowId).zip(&mut self.of_flow) {
            if elsewhere(flow) {
                *slot = UNCLASSIFIED;
            }
        }
    }

    /// Adds a class. `shares`: the shares with a class for the data of several flows.
    fn insert(&mut self, class: Class, index: usize, shares: &Shares) {
        let slot = match class {
            Class::All => Some(&mut self.all),
            Class::Flow(share) => {
                for f in shares.members(share) {
                    if let Some(slot) = self.of_flow.get_mut(f.index()) {
                        *slot = index as u32;
                    }
                }
                None
            }
            Class::Link(n) => {
                if self.of_link.len() <= n.index() {
                    self.of_link.resize(n.index() + 1, NO_CLASS);
                }
                self.of_link.get_mut(n.index())
            }
        };
        slot.into_iter().for_each(|slot| *slot = index as u32);
    }

    fn find(&self, class: Class) -> Option<usize> {
        let i = match class {
            Class::All => self.all,
            Class::Flow(f) => *self.of_flow.get(f.index())?,
            Class::Link(n) => *self.of_link.get(n.index())?,
        };
        (i < UNCLASSIFIED).then_some(i as usize)
    }

    /// Returns the class of a packet: of data of `flow`, to the neighbour returned by `next`.
    #[inline]
    fn classify(
        &self,
        flow: Option<FlowId>,
        next: impl FnOnce() -> Option<NodeId>,
    ) -> Option<usize> {
        let own = flow.and_then(|f| self.of_flow.get(f.index())).copied().unwrap_or(NO_CLASS);
        if own == NO_CLASS
            && !self.of_link.is_empty()
            && let Some(to) = next()
            && let Some(&link) = self.of_link.get(to.index())
            && link != NO_CLASS
        {
            return Some(link as usize);
        }
        let i = if own == NO_CLASS { self.all } else { own };
        (i < UNCLASSIFIED).then_some(i as usize)
    }

    /// Gives every class its new index; `None`: it was removed.
    fn renumber(&mut self, to: impl Fn(usize) -> Option<usize>) {
        let slots = self.of_flow.iter_mut().chain(&mut self.of_link).chain([&mut self.all]);
        for slot in slots.filter(|i| **i < UNCLASSIFIED) {
            *slot = to(*slot as usize).map_or(NO_CLASS, |i| i as u32);
        }
    }
}

#[cfg(test)]
pub(crate) mod in_force {
    //! Reads the state in force from the queues themselves.

    use fairmesh_control::host::LeafKind;
    use fairmesh_control::{Class, ClassPlan, Leaf, Limit};
    use fairmesh_queueing::{Backlog, Discipline, Item, Queue, Verdict};
    use fairmesh_units::{Bytes, Stream, Time};

    /// Returns a queue's behaviour while no packet leaves.
    ///
    /// These are its kind, its capacity for one flow and for as many flows as packets, and true if it would
    /// mark.
    fn profile(queue: &Discipline) -> (LeafKind, [u32; 2], bool) {
        let words = format!("{queue:?}");
        let kinds = [
            ("Fred(", LeafKind::Fred),
            ("Red(", LeafKind::Red),
            ("Fair(", LeafKind::Fair),
            ("DropTail(", LeafKind::DropTail),
        ];
        let kind = kinds.iter().find(|k| words.contains(k.0)).expect("a queue").1;
        let holds = |flow: fn(u32) -> u32| {
            let (mut queue, mut rng) = (queue.clone(), Stream::new(1, "profile"));
            queue.drain().for_each(drop);
            let item = |n| Item {
                handle: n,
                bytes: 40,
                flow: flow(n),
                ect: false,
                ect1: false,
                station: 0,
            };
            let takes = |n: &u32| {
                let verdict = queue.enqueue(Time::ZERO, item(*n), Backlog::NONE, &mut rng);
                matches!(verdict, Verdict::Queued | Verdict::Marked)
            };
            (0..300).take_while(takes).count() as u32
        };
        (kind, [holds(|_| 0), holds(|n| n)], words.contains("ecn: true"))
    }

    /// Returns the leaf type that behaves like this queue; `build` builds the queue of a leaf.
    pub fn leaf(queue: &Discipline, build: impl Fn(&ClassPlan) -> Discipline) -> Leaf {
        let found = profile(queue);
        let sizes = (1..=200).map(|packets| match found.0 {
            LeafKind::DropTail => Leaf::DropTail { packets },
            LeafKind::Fair => Leaf::Fair { packets },
            LeafKind::Red => Leaf::Red { packets, ecn: found.2 },
            LeafKind::Fred => Leaf::Fred { packets },
        });
        let (class, limit, burst) = (Class::All, Limit::None, Bytes(1500));
        let like =
            |leaf: &Leaf| profile(&build(&ClassPlan { class, limit, burst, leaf: *leaf })) == found;
        let mut sizes = sizes;
        sizes.find(like).expect("a leaf of up to 200 packets")
    }
}
