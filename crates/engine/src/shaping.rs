//! The classes that a control asked for, at the nodes where it runs.

use fairmesh_control::{Class, ClassPlan, Counters, Leaf, Limit, Plan, Point};
use fairmesh_queueing::{
    Backlog, Discipline, DisciplineSpec, FairSpec, FredSpec, Item, Limit as Buffer, Queue, RedSpec,
    SpecError, Verdict,
};
use fairmesh_units::{BitRate, Bytes, FlowId, NodeId, Span, Stream, Time};

/// What a class without a limit runs at: faster than anything it leads to.
const UNLIMITED: BitRate = BitRate(1_000_000_000_000);

/// Typical time between packets of a class, by which RED and FRED age their averages: 1500 bytes
/// at 1 Mbit/s.
const PACKET_TIME: Span = Span::from_millis(12);

/// One class: a token bucket and where its packets wait.
#[derive(Debug)]
struct ClassState {
    class: Class,
    queue: Discipline,
    burst: Bytes,
    rate: Option<BitRate>,
    sent: Backlog64,
    drops: u64,
    overlimits: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Backlog64 {
    packets: u64,
    bytes: u64,
}

/// The classes at one node.
#[derive(Debug)]
pub(crate) struct ClassSet {
    pub node: NodeId,
    pub point: Point,
    classes: Vec<ClassState>,
    template: Option<ClassPlan>,
    /// Per flow: its class, `NONE` if it has none of its own.
    of_flow: Vec<u32>,
    /// Neighbours with a class.
    of_link: Vec<(NodeId, u32)>,
    all: u32,
    rng: Stream,
}

const NONE: u32 = u32::MAX;

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

/// The queue that a plan puts in place of a radio's own: one class for all, without a limit.
/// `None` if the plan asks for something else there, which no host of this kind builds.
pub(crate) fn replacement(plan: &Plan) -> Option<DisciplineSpec> {
    match plan.classes.as_slice() {
        [only] if only.class == Class::All && only.limit == Limit::None => Some(leaf(only)),
        _ => None,
    }
}

fn discipline(plan: &ClassPlan) -> Result<(Discipline, Option<BitRate>, Bytes), SpecError> {
    let leaf = leaf(plan);
    let (rate, burst) = match plan.limit {
        Limit::Rate(rate) => (Some(rate), plan.burst),
        Limit::None | Limit::Airtime { .. } => (None, plan.burst),
    };
    let built = DisciplineSpec::shaped(rate.unwrap_or(UNLIMITED), burst, leaf).build()?;
    Ok((built, rate, burst))
}

impl ClassSet {
    pub fn new(node: NodeId, plan: &Plan, flows: usize, rng: Stream) -> Result<Self, SpecError> {
        let mut set = ClassSet {
            node,
            point: plan.point,
            classes: Vec::new(),
            template: plan.template,
            of_flow: vec![NONE; flows],
            of_link: Vec::new(),
            all: NONE,
            rng,
        };
        for class in &plan.classes {
            set.add(class)?;
        }
        Ok(set)
    }

    fn add(&mut self, plan: &ClassPlan) -> Result<(), SpecError> {
        let (queue, rate, burst) = discipline(plan)?;
        let index = self.classes.len() as u32;
        match plan.class {
            Class::All => self.all = index,
            Class::Flow(f) => {
                if let Some(of) = self.of_flow.get_mut(f.index()) {
                    *of = index;
                }
            }
            Class::Link(n) => self.of_link.push((n, index)),
        }
        self.classes.push(ClassState {
            class: plan.class,
            queue,
            burst,
            rate,
            sent: Backlog64::default(),
            drops: 0,
            overlimits: 0,
        });
        Ok(())
    }

    fn index_of(&self, class: Class) -> Option<usize> {
        let i = match class {
            Class::All => self.all,
            Class::Flow(f) => *self.of_flow.get(f.index())?,
            Class::Link(n) => self.of_link.iter().find(|l| l.0 == n)?.1,
        };
        (i != NONE).then_some(i as usize)
    }

    /// The class that takes data of this flow, on its way to the node that `next` gives; `None`: it
    /// passes untouched.
    #[inline]
    pub fn classify(&self, flow: u32, next: impl FnOnce() -> Option<u32>) -> Option<usize> {
        let own = self.of_flow[flow as usize];
        if own == NONE
            && !self.of_link.is_empty()
            && let Some(to) = next()
            && let Some(l) = self.of_link.iter().find(|l| l.0.0 == to)
        {
            return Some(l.1 as usize);
        }
        let i = if own == NONE { self.all } else { own };
        (i != NONE).then_some(i as usize)
    }

    pub fn enqueue(&mut self, now: Time, class: usize, item: Item) -> Verdict {
        let c = &mut self.classes[class];
        let verdict = c.queue.enqueue(now, item, Backlog::NONE, &mut self.rng);
        match verdict {
            Verdict::Dropped(_) | Verdict::Evicted(..) => c.drops += 1,
            Verdict::Queued | Verdict::Marked => {
                if c.queue.next_ready(now) > now {
                    c.overlimits += 1;
                }
            }
        }
        verdict
    }

    /// The next packet that some class lets go.
    pub fn dequeue(&mut self, now: Time) -> Option<Item> {
        for c in &mut self.classes {
            if let Some(item) = c.queue.dequeue(now) {
                c.sent.packets += 1;
                c.sent.bytes += u64::from(item.bytes);
                return Some(item);
            }
        }
        None
    }

    /// When the next packet may go.
    pub fn next_ready(&self, now: Time) -> Time {
        self.classes.iter().map(|c| c.queue.next_ready(now)).min().unwrap_or(Time::NEVER)
    }

    /// Sets or lifts a class's limit; a class that does not exist is built from the template.
    ///
    /// # Errors
    /// If the template cannot be built.
    pub fn set_rate(
        &mut self,
        now: Time,
        class: Class,
        rate: Option<BitRate>,
    ) -> Result<(), SpecError> {
        let index = match (self.index_of(class), self.template) {
            (Some(index), _) => index,
            (None, Some(template)) => {
                self.add(&ClassPlan { class, ..template })?;
                self.classes.len() - 1
            }
            (None, None) => return Ok(()),
        };
        let c = &mut self.classes[index];
        c.rate = rate;
        let burst = c.burst;
        if let Some(shaper) = c.queue.as_shaper_mut() {
            shaper.set(now, rate.unwrap_or(UNLIMITED), burst);
        }
        Ok(())
    }

    /// Takes a class away and gives back what waited in it, oldest first.
    pub fn remove(&mut self, class: Class) -> Vec<Item> {
        let Some(index) = self.index_of(class) else { return Vec::new() };
        let mut gone = self.classes.swap_remove(index);
        let moved = self.classes.len() as u32;
        self.of_link.retain(|l| l.1 != index as u32);
        let links = self.of_link.iter_mut().map(|l| &mut l.1);
        for i in self.of_flow.iter_mut().chain([&mut self.all]).chain(links) {
            if *i == index as u32 {
                *i = NONE;
            } else if *i == moved {
                *i = index as u32;
            }
        }
        gone.queue.drain().collect()
    }

    /// Counters of every class, as a host's samples.
    pub fn counters(&self) -> impl Iterator<Item = Counters> + '_ {
        self.classes.iter().map(|c| {
            let waiting = c.queue.backlog();
            Counters {
                class: c.class,
                bytes: c.sent.bytes,
                packets: c.sent.packets,
                drops: c.drops,
                overlimits: c.overlimits,
                queued_packets: waiting.packets,
                queued_bytes: waiting.bytes,
            }
        })
    }

    /// The limit of a flow's own class.
    pub fn limit_of(&self, flow: FlowId) -> Option<BitRate> {
        self.classes[self.index_of(Class::Flow(flow))?].rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(classes: &[(Class, Option<u64>)]) -> ClassSet {
        let plan = |&(class, rate): &(Class, Option<u64>)| ClassPlan {
            class,
            limit: rate.map_or(Limit::None, |r| Limit::Rate(BitRate(r))),
            burst: Bytes(1500),
            leaf: Leaf::DropTail { packets: 3 },
        };
        let plan = Plan {
            point: Point::Transit,
            classes: classes.iter().map(plan).collect(),
            template: Some(plan(&(Class::All, None))),
        };
        ClassSet::new(NodeId(0), &plan, 3, Stream::new(1, "test")).unwrap()
    }

    fn item(flow: u32) -> Item {
        Item { handle: flow, bytes: 1500, flow: 2 * flow, ect: false }
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
        s.set_rate(ms(0), Class::Flow(FlowId(0)), Some(BitRate(10_000_000))).unwrap();
        assert!(s.dequeue(ms(2)).is_some());
        // Made from the template.
        s.set_rate(ms(2), Class::Flow(FlowId(2)), Some(BitRate(5))).unwrap();
        assert_eq!(s.limit_of(FlowId(2)), Some(BitRate(5)));
        let c = s.counters().next().unwrap();
        assert_eq!((c.packets, c.bytes, c.queued_packets), (2, 3000, 1));
        // Nothing that waits is lost with its class, and the other one keeps its place.
        assert_eq!(s.remove(Class::Flow(FlowId(0))).len(), 1);
        assert_eq!([0, 2].map(|f| s.classify(f, || None)), [None, Some(0)]);
    }
}
