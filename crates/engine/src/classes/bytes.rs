//! Classes limited in bytes, where packets are forwarded: leaves of a tree of token buckets.

use fairmesh_control::{Class, ClassPlan, Counters, Limit, Point};
use fairmesh_queueing::{
    ClassId, ClassRates, ClassSpec, DeferredVerdict, DisciplineSpec, Htb, HtbError, HtbSpec, Item,
    Queue, Release, SpecError, Verdict,
};
use fairmesh_units::{BitRate, Bytes, FlowId, NodeId, Stream, Time};

use super::{Directory, leaf};
use crate::shares::Shares;

/// Rate of a class without a limit, bit/s: faster than any link behind it.
const UNLIMITED: BitRate = BitRate(1_000_000_000_000);

/// Bytes per round of the heaviest flow in a fair queue, and the minimum of the lightest.
///
/// Rounded values are exact to 0.3 %.
const FULL_PACKET: f64 = 1500.0;
const FEWEST_BYTES: f64 = 150.0;

/// One class.
#[derive(Debug)]
struct ByteClass {
    class: Class,
    /// Leaf of the class in the tree.
    leaf: ClassId,
    burst: Bytes,
    rate: Option<BitRate>,
    overlimits: u64,
}

/// The classes at one node.
#[derive(Debug)]
pub(crate) struct ByteClasses {
    pub node: NodeId,
    pub point: Point,
    classes: Vec<ByteClass>,
    directory: Directory,
    shares: Shares,
    /// Bytes per round of each flow in a queue that all flows share; empty if they are equal.
    quanta: Vec<u32>,
    /// Tree of independent leaves without an inner class, because plans are not nested.
    tree: Htb,
    /// Number of leaves built so far.
    made: u32,
    rng: Stream,
}

/// Returns the bytes per round of each flow in both directions.
///
/// Empty if all weights are equal. Flows are numbered as the buckets of a fair queue.
///
/// The heaviest flow sends a packet per round, so that its share needs no long backlog, unless the lightest
/// would have too few bytes to keep the ratio.
fn quanta(weights: &[f64]) -> Vec<u32> {
    let lightest = weights.iter().copied().fold(f64::INFINITY, f64::min);
    let heaviest = weights.iter().copied().fold(0.0, f64::max);
    if lightest >= heaviest {
        return Vec::new();
    }
    let unit = (FULL_PACKET / heaviest).max(FEWEST_BYTES / lightest);
    // A float above the largest integer saturates to it.
    let quantum = |w: &f64| (unit * w).round() as u32;
    weights.iter().flat_map(|w| [quantum(w); 2]).collect()
}

fn rates(rate: Option<BitRate>, burst: Bytes) -> ClassRates {
    let rate = rate.unwrap_or(UNLIMITED);
    ClassRates { rate, ceil: rate, burst, cburst: burst }
}

impl ByteClasses {
    /// Builds a node's empty set of classes at one point.
    ///
    /// `weights`: of every flow.
    pub fn new(node: NodeId, point: Point, weights: &[f64], shares: Shares, rng: Stream) -> Self {
        let spec = HtbSpec { release: Release::Whole, ..HtbSpec::default() };
        let mut directory = Directory::new(weights.len());
        directory.pass(|flow| shares.is_elsewhere(flow));
        ByteClasses {
            node,
            point,
            classes: Vec::new(),
            directory,
            shares,
            quanta: quanta(weights),
            tree: Htb::new(&spec).expect("a tree without classes"),
            made: 0,
            rng,
        }
    }

    /// Builds a class that does not exist yet.
    ///
    /// # Errors
    /// Returns an error if no discipline implements the queue or the burst.
    pub fn build(&mut self, plan: &ClassPlan) -> Result<(), SpecError> {
        let rate = match plan.limit {
            Limit::Rate(rate) => Some(rate),
            Limit::None | Limit::Airtime { .. } => None,
        };
        let own = match plan.class {
            Class::Flow(share) => self.shares.queue(share, plan.leaf),
            Class::All | Class::Link(_) => None,
        };
        let mut queue = own.unwrap_or_else(|| leaf(plan));
        if let (Class::All, DisciplineSpec::Fair(fair)) = (plan.class, &mut queue) {
            fair.quanta.clone_from(&self.quanta);
            fair.buckets = fair.buckets.max(self.quanta.len() as u32);
        }
        self.tree.add_class(&ClassSpec::leaf(self.made, None, rates(rate, plan.burst), queue))?;
        self.directory.insert(plan.class, self.classes.len(), &self.shares);
        self.classes.push(ByteClass {
            class: plan.class,
            leaf: ClassId(self.made),
            burst: plan.burst,
            rate,
            overlimits: 0,
        });
        self.made += 1;
        Ok(())
    }

    /// Returns the class of data of this flow on its path to the node returned by `next`.
    ///
    /// `None` if the packet passes unclassified.
    #[inline]
    pub fn classify(&self, flow: u32, next: impl FnOnce() -> Option<u32>) -> Option<usize> {
        self.directory.classify(Some(FlowId(flow)), || next().map(NodeId))
    }

    pub fn enqueue(&mut self, now: Time, class: usize, mut item: Item) -> Verdict {
        let c = &mut self.classes[class];
        if c.class == Class::All && !self.shares.is_none() {
            // A subscriber has one buffer in this class for all its flows.
            item.flow = 2 * self.shares.of_number(item.flow / 2);
        }
        let offered = self.tree.offer(now, c.leaf, item, &mut self.rng);
        let verdict = offered.expect("every class has a leaf of the tree");
        if let Verdict::Queued | Verdict::Marked = verdict
            && self.tree.next_ready_of(now, c.leaf) > now
        {
            c.overlimits += 1;
        }
        verdict
    }

    /// Returns the next packet that a class releases.
    pub fn dequeue(&mut self, now: Time) -> Option<Item> {
        self.tree.dequeue(now)
    }

    /// Returns a later outcome for an accepted packet.
    #[inline]
    pub fn deferred_verdict(&mut self) -> Option<DeferredVerdict> {
        self.tree.deferred_verdict()
    }

    /// Returns the instant at which the next packet may leave.
    pub fn next_ready(&self, now: Time) -> Time {
        self.tree.next_ready(now)
    }

    /// Sets or removes a class's limit.
    pub fn set_rate(&mut self, now: Time, class: Class, rate: Option<BitRate>) {
        let Some(index) = self.directory.find(class) else { return };
        let c = &mut self.classes[index];
        c.rate = rate;
        let set = self.tree.set_rates(now, c.leaf, rates(rate, c.burst));
        set.expect("a leaf of the tree, and a burst that it was built with");
    }

    /// Removes a class and returns the packets that waited in it, oldest first.
    pub fn remove(&mut self, class: Class) -> Vec<Item> {
        let Some(index) = self.directory.find(class) else { return Vec::new() };
        let gone = self.classes.swap_remove(index);
        let moved = self.classes.len();
        self.directory.renumber(|i| match i {
            i if i == index => None,
            i if i == moved => Some(index),
            i => Some(i),
        });
        let left: Result<_, HtbError> = self.tree.remove_class(gone.leaf);
        left.expect("a leaf of the tree has no children")
    }

    /// Returns the counters of every class, as in a host's samples.
    pub fn counters(&self) -> impl Iterator<Item = Counters> + '_ {
        self.classes.iter().filter_map(|c| {
            let counted = self.tree.counters(c.leaf)?;
            Some(Counters {
                class: c.class,
                bytes: counted.bytes,
                packets: counted.packets,
                drops: counted.drops,
                overlimits: c.overlimits,
                queued_packets: counted.backlog.packets,
                queued_bytes: counted.backlog.bytes,
            })
        })
    }

    /// Returns the state of a class in force.
    #[cfg(test)]
    pub fn in_force(
        &self,
        class: Class,
    ) -> Option<fairmesh_control::host::conformance::ClassInForce> {
        let id = self.classes[self.directory.find(class)?].leaf;
        let queue = self.tree.queue_of(id)?;
        let leaf = super::in_force::leaf(queue, |plan| leaf(plan).build().expect("a leaf"));
        let ClassRates { rate, burst, .. } = self.tree.rates(id)?;
        let limit = if rate == UNLIMITED { Limit::None } else { Limit::Rate(rate) };
        Some(fairmesh_control::host::conformance::ClassInForce { limit, leaf, burst })
    }

    /// Returns the limit of a flow's own class.
    pub fn limit_of(&self, flow: FlowId) -> Option<BitRate> {
        self.classes[self.directory.find(Class::Flow(flow))?].rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairmesh_control::Leaf;
    use fairmesh_units::Span;

    fn plan(class: Class, rate: Option<u64>) -> ClassPlan {
        ClassPlan {
            class,
            limit: rate.map_or(Limit::None, |r| Limit::Rate(BitRate(r))),
            burst: Bytes(1500),
            leaf: Leaf::DropTail { packets: 3 },
        }
    }

    fn set(classes: &[(Class, Option<u64>)]) -> ByteClasses {
        let mut set = {
            let (point, rng) = (Point::Transit, Stream::new(1, "test"));
            ByteClasses::new(NodeId(0), point, &[1.0; 3], Shares::default(), rng)
        };
        classes.iter().for_each(|&(class, rate)| set.build(&plan(class, rate)).unwrap());
        set
    }

    fn item(flow: u32) -> Item {
        Item { handle: flow, bytes: 1500, flow: 2 * flow, ect: false, ect1: false, station: 0 }
    }

    #[test]
    fn a_flow_has_its_class_or_the_common_one_or_none() {
        let s = set(&[(Class::All, None), (Class::Flow(FlowId(1)), None)]);
        assert_eq!([0, 1, 2].map(|f| s.classify(f, || None)), [Some(0), Some(1), Some(0)]);
        let s = set(&[(Class::Flow(FlowId(1)), None)]);
        assert_eq!([0, 1].map(|f| s.classify(f, || None)), [None, Some(0)]);
    }

    #[test]
    fn rates_hold_change_and_are_counted() {
        let ms = |n| Time::ZERO + Span::from_millis(n);
        let mut s = set(&[(Class::Flow(FlowId(0)), Some(1_000_000))]);
        for _ in 0..3 {
            assert_eq!(s.enqueue(ms(0), 0, item(0)), Verdict::Queued);
        }
        assert!(s.dequeue(ms(0)).is_some(), "the burst");
        assert!(s.dequeue(ms(0)).is_none());
        assert_eq!(s.next_ready(ms(0)), ms(12));
        // Ten times the rate from now on.
        s.set_rate(ms(0), Class::Flow(FlowId(0)), Some(BitRate(10_000_000)));
        assert!(s.dequeue(ms(2)).is_some());
        // A class added while it runs.
        s.set_rate(ms(2), Class::Flow(FlowId(2)), Some(BitRate(5)));
        assert_eq!(s.limit_of(FlowId(2)), None, "there is no such class");
        s.build(&plan(Class::Flow(FlowId(2)), None)).unwrap();
        s.set_rate(ms(2), Class::Flow(FlowId(2)), Some(BitRate(5)));
        assert_eq!(s.limit_of(FlowId(2)), Some(BitRate(5)));
        let c = s.counters().next().unwrap();
        assert_eq!((c.packets, c.bytes, c.queued_packets), (2, 3000, 1));
        // Removing a class loses no packet, and the other class keeps its turn.
        assert_eq!(s.remove(Class::Flow(FlowId(0))).len(), 1);
        assert_eq!([0, 2].map(|f| s.classify(f, || None)), [None, Some(0)]);
    }
}
