//! Classes in a radio's transmit queue: limits in airtime or bytes, served round robin.
//!
//! A class sends while its bucket holds the expected cost of its next packet. When the MAC has finished the packet, the
//! bucket is corrected to the actual cost, so retries and slower rates are charged to the class that causes them
//! (Jang 2010 §4).

use fairmesh_control::{Class, ClassPlan, Counters, Limit};
use fairmesh_phy::Rate;
use fairmesh_queueing::{Backlog, Discipline, Item, Queue, SpecError, Verdict};
use fairmesh_units::{Bytes, FlowId, NodeId, Span, Stream, Time};
use fairmesh_wifi::SendReport;

use super::{Cost, Directory, leaf};
use crate::shares::Shares;

/// One class: a token bucket and the queue of its packets.
#[derive(Debug)]
struct LinkClass {
    class: Class,
    queue: Discipline,
    /// The next packet, already taken out of `queue`.
    head: Option<Item>,
    limit: Limit,
    burst: Bytes,
    /// Tokens: nanoseconds of airtime, or bytes, depending on the limit.
    tokens: f64,
    /// Instant up to which the tokens are updated.
    at: u64,
    /// Rate of the last frame.
    rate: Rate,
    waiting: Backlog,
    sent: (u64, u64),
    drops: u64,
    overlimits: u64,
}

impl LinkClass {
    fn need(&self, ip: u32, cost: &Cost) -> f64 {
        match self.limit {
            Limit::Airtime(_) => cost.expected(ip, self.rate).as_nanos() as f64,
            _ => f64::from(ip),
        }
    }

    /// Returns tokens per nanosecond; `None` without a limit.
    fn speed(&self) -> Option<f64> {
        match self.limit {
            Limit::None => None,
            Limit::Rate(rate) => Some(rate.0 as f64 / 8e9),
            Limit::Airtime(share) => Some(share.get()),
        }
    }

    fn refill(&mut self, now: u64, cost: &Cost) {
        let Some(speed) = self.speed() else { return };
        let depth = self.need(u32::try_from(self.burst.0).unwrap_or(u32::MAX), cost);
        let passed = now.saturating_sub(self.at) as f64;
        self.tokens = (self.tokens + passed * speed).min(depth);
        self.at = self.at.max(now);
    }

    /// Returns the remaining wait of the next packet.
    ///
    /// `None` if there is no packet or it waits forever.
    fn wait(&mut self, now: u64, cost: &Cost) -> Option<Span> {
        if self.head.is_none() {
            self.head = self.queue.dequeue(Time::from_nanos(now));
        }
        let bytes = self.head?.bytes;
        let Some(speed) = self.speed() else { return Some(Span::ZERO) };
        self.refill(now, cost);
        // A packet larger than the bucket's depth is sent from a full bucket.
        let depth = self.need(u32::try_from(self.burst.0).unwrap_or(u32::MAX), cost);
        let lacks = self.need(bytes, cost).min(depth) - self.tokens;
        if lacks <= 0.0 {
            return Some(Span::ZERO);
        }
        // Rounded up; otherwise a deadline would repeatedly come slightly too early.
        (speed > 0.0).then(|| Span::from_nanos((lacks / speed) as u64 + 1))
    }
}

/// The set of classes that have packets, so that idle classes are not scanned.
#[derive(Debug, Default)]
struct Busy(Vec<u64>);

impl Busy {
    fn set(&mut self, class: usize, busy: bool) {
        let (word, bit) = (class / 64, 1 << (class % 64));
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        if busy { self.0[word] |= bit } else { self.0[word] &= !bit }
    }

    /// Returns the first busy class at or after an index.
    fn from(&self, class: usize) -> Option<usize> {
        let mut word = class / 64;
        let mut bits = self.0.get(word)? & (u64::MAX << (class % 64));
        while bits == 0 {
            word += 1;
            bits = *self.0.get(word)?;
        }
        Some(64 * word + bits.trailing_zeros() as usize)
    }
}

/// The classes at a radio.
#[derive(Debug)]
pub(crate) struct RadioClasses {
    classes: Vec<LinkClass>,
    directory: Directory,
    busy: Busy,
    /// Index of the class that is next. The index after the last class is the radio's own queue.
    turn: usize,
    /// Packets in the MAC: handle, class, and the cost charged to the class.
    charged: Vec<(u32, usize, f64)>,
    cost: Cost,
    rate: Rate,
    rng: Stream,
}

impl RadioClasses {
    /// Builds a set without classes.
    ///
    /// `rate` is assumed for a link until its first frame has been sent.
    pub fn new(flows: usize, cost: Cost, rate: Rate, rng: Stream) -> Self {
        RadioClasses {
            classes: Vec::new(),
            directory: Directory::new(flows),
            busy: Busy::default(),
            turn: 0,
            charged: Vec::new(),
            cost,
            rate,
            rng,
        }
    }

    /// Builds a class that does not exist yet.
    ///
    /// # Errors
    /// Returns an error if no discipline implements the queue.
    pub fn build(&mut self, plan: &ClassPlan) -> Result<(), SpecError> {
        let mut class = LinkClass {
            class: plan.class,
            queue: leaf(plan).build()?,
            head: None,
            limit: plan.limit,
            burst: plan.burst,
            tokens: 0.0,
            at: 0,
            rate: self.rate,
            waiting: Backlog::NONE,
            sent: (0, 0),
            drops: 0,
            overlimits: 0,
        };
        // Buckets start full.
        class.tokens = class.need(u32::try_from(plan.burst.0).unwrap_or(u32::MAX), &self.cost);
        self.directory.insert(plan.class, self.classes.len(), &Shares::default());
        self.classes.push(class);
        Ok(())
    }

    /// Returns the class of a packet.
    ///
    /// For data it is the flow's class, otherwise the link's, otherwise the common one.
    pub fn classify(&self, flow: Option<FlowId>, to: NodeId) -> Option<usize> {
        self.directory.classify(flow, || Some(to))
    }

    /// Returns the name of a class.
    pub fn name(&self, class: usize) -> Class {
        self.classes[class].class
    }

    /// Returns the backlog of a class.
    pub fn waiting(&self, class: usize) -> Backlog {
        self.classes[class].waiting
    }

    pub fn enqueue(&mut self, now: Time, class: usize, item: Item) -> Verdict {
        let c = &mut self.classes[class];
        let held = c.head.map_or(Backlog::NONE, |h| Backlog { packets: 1, bytes: h.bytes.into() });
        let verdict = c.queue.enqueue(now, item, held, &mut self.rng);
        match verdict {
            Verdict::Dropped(_) => c.drops += 1,
            Verdict::Evicted(out, _) => {
                c.drops += 1;
                c.waiting.add(item);
                c.waiting.sub(out);
            }
            Verdict::Queued | Verdict::Marked => c.waiting.add(item),
        }
        self.busy.set(class, c.waiting.packets > 0);
        verdict
    }

    /// Returns the next packet that may leave, with its class.
    ///
    /// `own` is the radio's own queue, which takes turns with the classes; class `None` means that
    /// queue.
    pub fn dequeue(&mut self, now: Time, own: &mut Discipline) -> Option<(Item, Option<usize>)> {
        let radio = self.classes.len();
        let (mut from, mut round) = (self.turn, false);
        loop {
            let i = self.busy.from(from).unwrap_or(radio);
            if round && i >= self.turn {
                return None;
            }
            let taken = match self.classes.get_mut(i) {
                None => own.dequeue(now),
                Some(c) => match c.wait(now.as_nanos(), &self.cost) {
                    Some(Span::ZERO) => c.head.take(),
                    Some(_) => {
                        c.overlimits += 1;
                        None
                    }
                    None => None,
                },
            };
            if let Some(item) = taken {
                self.turn = if i == radio { 0 } else { i + 1 };
                let Some(c) = self.classes.get_mut(i) else { return Some((item, None)) };
                let need = c.need(item.bytes, &self.cost);
                c.tokens -= need;
                c.waiting.sub(item);
                c.sent.0 += 1;
                c.sent.1 += u64::from(item.bytes);
                self.busy.set(i, c.waiting.packets > 0);
                self.charged.push((item.handle, i, need));
                return Some((item, Some(i)));
            }
            (from, round) = if i == radio { (0, true) } else { (i + 1, round) };
        }
    }

    /// Handles the MAC's report on a finished packet; returns the packet's class.
    pub fn settle(&mut self, report: &SendReport) -> Option<usize> {
        let at = self.charged.iter().position(|c| c.0 == report.packet.packet)?;
        let (_, i, charged) = self.charged.remove(at);
        let c = self.classes.get_mut(i)?;
        c.rate = report.rate;
        if let Limit::Airtime(_) = c.limit {
            c.tokens += charged - self.cost.actual(report).as_nanos() as f64;
        }
        Some(i)
    }

    /// Returns the instant at which the next packet may leave.
    pub fn next_ready(&mut self, now: Time, own: &Discipline) -> Time {
        let (mut least, mut from) = (None, 0);
        while let Some(i) = self.busy.from(from) {
            let wait = self.classes[i].wait(now.as_nanos(), &self.cost);
            least = least.into_iter().chain(wait).min();
            from = i + 1;
        }
        least.map_or(Time::NEVER, |w| now + w).min(own.next_ready(now))
    }

    /// Changes a class's limit.
    pub fn set(&mut self, now: Time, class: Class, limit: Limit) {
        let Some(index) = self.directory.find(class) else { return };
        let (c, cost) = (&mut self.classes[index], &self.cost);
        c.refill(now.as_nanos(), cost);
        let same = core::mem::discriminant(&c.limit) == core::mem::discriminant(&limit);
        c.limit = limit;
        c.at = c.at.max(now.as_nanos());
        if !same {
            c.tokens = c.need(u32::try_from(c.burst.0).unwrap_or(u32::MAX), cost);
            self.charged.retain(|(_, i, _)| *i != index);
        }
    }

    /// Removes a class and returns the packets that waited there, oldest first.
    pub fn remove(&mut self, class: Class) -> Vec<Item> {
        let Some(i) = self.directory.find(class) else { return Vec::new() };
        let mut gone = self.classes.remove(i);
        self.charged.retain(|c| c.1 != i);
        self.charged.iter_mut().filter(|c| c.1 > i).for_each(|c| c.1 -= 1);
        self.directory.renumber(|c| match c.cmp(&i) {
            core::cmp::Ordering::Less => Some(c),
            core::cmp::Ordering::Equal => None,
            core::cmp::Ordering::Greater => Some(c - 1),
        });
        self.busy = Busy::default();
        for (c, class) in self.classes.iter().enumerate() {
            self.busy.set(c, class.waiting.packets > 0);
        }
        self.turn = 0;
        gone.head.take().into_iter().chain(gone.queue.drain()).collect()
    }

    /// Returns the counters of every class.
    pub fn counters(&self) -> impl Iterator<Item = Counters> + '_ {
        self.classes.iter().map(|c| Counters {
            class: c.class,
            bytes: c.sent.1,
            packets: c.sent.0,
            drops: c.drops,
            overlimits: c.overlimits,
            queued_packets: c.waiting.packets,
            queued_bytes: c.waiting.bytes,
        })
    }

    /// Returns the state of a class in force.
    #[cfg(test)]
    pub fn in_force(
        &self,
        class: Class,
    ) -> Option<fairmesh_control::host::conformance::ClassInForce> {
        let LinkClass { limit, burst, queue, .. } = &self.classes[self.directory.find(class)?];
        let leaf = super::in_force::leaf(queue, |p| leaf(p).build().expect("a leaf"));
        let (limit, burst) = (*limit, *burst);
        Some(fairmesh_control::host::conformance::ClassInForce { limit, leaf, burst })
    }

    /// Returns the airtime share of a class; `None` without such a limit.
    pub fn airtime_of(&self, class: Class) -> Option<f64> {
        match self.classes[self.directory.find(class)?].limit {
            Limit::Airtime(share) => Some(share.get()),
            Limit::None | Limit::Rate(_) => None,
        }
    }

    /// Returns the queue length of every class.
    pub fn lengths(&self) -> impl Iterator<Item = (Class, Backlog)> + '_ {
        self.classes.iter().map(|c| (c.class, c.waiting))
    }
}

#[cfg(test)]
mod tests {
    use super::super::cost::tests::{ONE, cost, report};
    use super::*;
    use fairmesh_control::{Leaf, Share};
    use fairmesh_queueing::DisciplineSpec;

    fn plan(n: u32, share: f64) -> ClassPlan {
        ClassPlan {
            class: Class::Link(NodeId(n)),
            limit: Limit::Airtime(Share::new(share)),
            burst: Bytes(1500),
            leaf: Leaf::Fair { packets: 50 },
        }
    }

    fn set(shares: &[(u32, f64)]) -> RadioClasses {
        let mut set = RadioClasses::new(0, cost(), Rate(3), Stream::new(1, "test"));
        shares.iter().for_each(|&(n, share)| set.build(&plan(n, share)).unwrap());
        set
    }

    fn item(handle: u32) -> Item {
        Item { handle, bytes: 1500, flow: 0, ect: false, ect1: false, station: 0 }
    }

    /// Runs a backlogged class for a while.
    ///
    /// Returns the airtime used and the largest use of any window.
    fn run(share: f64, attempts: u32, secs: u64) -> (f64, f64) {
        let mut s = set(&[(1, share)]);
        let mut own = DisciplineSpec::drop_tail(50).build().unwrap();
        let (mut now, end) = (Time::ZERO, Time::ZERO + Span::from_secs(secs));
        let mut uses: Vec<(u64, f64)> = Vec::new();
        for h in 0.. {
            s.enqueue(now, 0, item(h));
            now = s.next_ready(now, &own);
            if now >= end {
                break;
            }
            let taken = s.dequeue(now, &mut own).unwrap().0;
            s.settle(&report(taken.handle, attempts, 3));
            uses.push((now.as_nanos(), s.cost.actual(&report(h, attempts, 3)).as_secs_f64()));
        }
        let total: f64 = uses.iter().map(|u| u.1).sum();
        let window = |from: u64| -> f64 {
            let to = from + 100_000_000;
            uses.iter().filter(|u| (from..to).contains(&u.0)).map(|u| u.1).sum()
        };
        let worst = uses.iter().map(|u| window(u.0)).fold(0.0, f64::max);
        (total / secs as f64, worst)
    }

    #[test]
    fn a_backlogged_link_uses_its_share_and_no_window_more_than_a_packet_above() {
        for share in [0.02, 1.0 / 12.0, 0.25] {
            let (used, worst) = run(share, 1, 20);
            assert!((used / share - 1.0).abs() < 0.02, "{used} of {share}");
            assert!(worst <= 0.1 * share + ONE.as_secs_f64() + 1e-9, "{worst} at {share}");
        }
    }

    #[test]
    fn retries_are_paid_for() {
        let (used, _) = run(0.1, 3, 20);
        assert!((used / 0.1 - 1.0).abs() < 0.05, "{used}");
    }

    #[test]
    fn turns_go_round_and_limits_change() {
        let mut s = set(&[(1, 1.0), (2, 1.0)]);
        let mut own = DisciplineSpec::drop_tail(50).build().unwrap();
        let t = Time::ZERO;
        for h in 0..2 {
            s.enqueue(t, 0, item(h));
            s.enqueue(t, 1, item(10 + h));
            own.enqueue(t, item(20 + h), Backlog::NONE, &mut Stream::new(1, "x"));
        }
        let order: Vec<u32> = (1..=6)
            .map(|k| s.dequeue(Time::from_nanos(k * 100_000_000), &mut own).unwrap().0.handle)
            .collect();
        assert_eq!(order, [0, 10, 20, 1, 11, 21]);
        assert_eq!(s.classify(None, NodeId(2)), Some(1));
        assert_eq!(s.classify(None, NodeId(3)), None);
        let third = Class::Link(NodeId(3));
        s.set(t, third, Limit::Airtime(Share::new(0.5)));
        assert_eq!(s.classify(None, NodeId(3)), None, "there is no such class");
        s.build(&plan(3, 1.0)).unwrap();
        s.set(t, third, Limit::Airtime(Share::new(0.5)));
        assert_eq!(s.classify(None, NodeId(3)), Some(2));
        // Without a share no packet leaves, and none is lost.
        s.set(t, third, Limit::Airtime(Share::new(0.0)));
        let late = Time::ZERO + Span::from_secs(9);
        s.enqueue(late, 2, item(30));
        s.enqueue(late, 2, item(31));
        let taken = s.dequeue(late, &mut own).expect("the bucket was full").0;
        s.settle(&report(taken.handle, 1, 3));
        assert_eq!(s.next_ready(late, &own), Time::NEVER);
        assert_eq!(s.remove(third).len(), 1);
        assert_eq!(s.classify(None, NodeId(3)), None);
    }
}
