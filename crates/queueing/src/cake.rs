//! The main parts of CAKE.
//!
//! These are a shaper, round robin of hosts and their flows, an eight-way hash, COBALT (Høiland-Jørgensen,
//! Täht, Morton, *Piece of CAKE*, LANMAN 2018; Linux `sch_cake`).

use std::collections::VecDeque;

use fairmesh_units::{BitRate, Bytes, Span, Stream, Time};

use crate::cobalt::{Cobalt, HeadAction};
use crate::codel::Entry;
use crate::flow_queues::mix;
use crate::{Backlog, DeferredVerdict, DropCause, Item, Queue, Verdict};

const NIL: u32 = u32::MAX;
/// Number of queues in a set of the hash.
const WAYS: u32 = 8;
/// Length of an Ethernet frame without its checksum, in bytes.
///
/// Times and quantum are adjusted to it.
const MTU: u32 = 1514;

/// Hosts among which capacity is shared fairly before their flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostFairness {
    /// No hosts: flows only (`flows`).
    None,
    /// Senders (`dual-srchost`).
    Sources,
    /// Receivers (`dual-dsthost`).
    Destinations,
    /// Senders and receivers (`triple-isolate`).
    Both,
}

/// Description of a [`Cake`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CakeSpec {
    /// Shaping rate; `None`: unlimited.
    pub rate: Option<BitRate>,
    /// Bytes of all flows together.
    ///
    /// `None`: four intervals at the rate, at least 4 MiB, or 32 MiB without a rate.
    pub memory: Option<Bytes>,
    /// Queues, in sets of eight.
    pub flows: u32,
    /// Waiting time without drops; longer at rates at which a packet takes longer.
    pub target: Span,
    /// Expected round trip.
    pub interval: Span,
    /// Hosts that share fairly.
    pub hosts: HostFairness,
}

impl Default for CakeSpec {
    /// Returns no shaper, 1024 queues, 5 and 100 ms, triple isolation.
    fn default() -> Self {
        CakeSpec {
            rate: None,
            memory: None,
            flows: 1024,
            target: Span::from_millis(5),
            interval: Span::from_millis(100),
            hosts: HostFairness::Both,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum List {
    None,
    /// New, or below its share.
    Sparse,
    Bulk,
}

#[derive(Clone, Debug)]
struct Flow {
    number: u32,
    ring: VecDeque<Entry>,
    bytes: u64,
    list: List,
    deficit: i64,
    cobalt: Cobalt,
    /// Hosts of the flow while it is counted as a bulk flow.
    counted: Option<(u16, u16)>,
}

/// CAKE with one tin.
#[derive(Clone, Debug)]
pub struct Cake {
    spec: CakeSpec,
    times: (Span, Span),
    quantum: i64,
    memory: u64,
    flows: Vec<Flow>,
    /// Flow of each place in the hash; `NIL` if there is none.
    places: Vec<u32>,
    sparse: VecDeque<u32>,
    bulk: VecDeque<u32>,
    /// Sender and receiver of each flow number; (0, 0) for higher numbers.
    hosts: Vec<(u16, u16)>,
    /// Bulk flows per host as sender, and as receiver.
    sending: Vec<u32>,
    receiving: Vec<u32>,
    backlog: Backlog,
    /// Instant at which the shaper releases the next packet.
    next: Time,
    salt: Option<u64>,
    drawn: u64,
    deferred: VecDeque<DeferredVerdict>,
}

impl Cake {
    pub(crate) fn new(spec: CakeSpec) -> Self {
        let time = |rate: BitRate| rate.time_for(u64::from(MTU)).as_nanos() * 3 / 2;
        let target = spec.target.max(Span::from_nanos(spec.rate.map_or(0, time)));
        let longer = target.saturating_sub(spec.target);
        let interval = (spec.interval + longer).max(target.saturating_mul(2));
        // A quantum of 2^-12 s at the rate, from 300 bytes to a packet, as in Linux.
        let quantum =
            spec.rate.map_or(u64::from(MTU), |r| ((r.0 / 8) >> 12).clamp(300, u64::from(MTU)));
        let memory = match (spec.memory, spec.rate) {
            (Some(bytes), _) => bytes.0,
            (None, None) => 32 << 20,
            (None, Some(rate)) => {
                ((rate.0 as f64 / 2.0 * interval.as_secs_f64()) as u64).max(4 << 20)
            }
        };
        Cake {
            times: (target, interval),
            quantum: quantum as i64,
            memory,
            flows: Vec::new(),
            places: vec![NIL; spec.flows.next_multiple_of(WAYS) as usize],
            sparse: VecDeque::new(),
            bulk: VecDeque::new(),
            hosts: Vec::new(),
            sending: Vec::new(),
            receiving: Vec::new(),
            backlog: Backlog::NONE,
            next: Time::ZERO,
            salt: None,
            drawn: 0,
            deferred: VecDeque::new(),
            spec,
        }
    }

    /// Sets sender and receiver of each flow number, as small dense numbers.
    pub fn set_hosts(&mut self, hosts: Vec<(u16, u16)>) {
        self.hosts = hosts;
    }

    fn host_pair(&self, number: u32) -> (u16, u16) {
        self.hosts.get(number as usize).copied().unwrap_or_default()
    }

    /// Returns the queue of a flow.
    ///
    /// It is its own, or an empty one of its set, or one shared with another flow.
    fn place(&mut self, number: u32, rng: &mut Stream) -> u32 {
        let salt = *self.salt.get_or_insert_with(|| rng.bits());
        let hash = mix(salt ^ u64::from(number));
        let sets = self.places.len() as u64 / u64::from(WAYS);
        let from = ((hash % sets) * u64::from(WAYS)) as usize;
        let set = from..from + WAYS as usize;
        let is = |f: u32, ours: &Self| f != NIL && ours.flows[f as usize].number == number;
        if let Some(i) = set.clone().find(|&i| is(self.places[i], self)) {
            return self.places[i];
        }
        let free = |f: u32, ours: &Self| f != NIL && ours.flows[f as usize].list == List::None;
        let i = set.clone().find(|&i| free(self.places[i], self));
        let i = i.or_else(|| set.clone().find(|&i| self.places[i] == NIL));
        let Some(i) = i else {
            // All eight flows of the set are taken: the flow shares the queue of one of them.
            return self.places[from + (hash >> 32) as usize % WAYS as usize];
        };
        if self.places[i] == NIL {
            self.places[i] = self.flows.len() as u32;
            self.flows.push(Flow {
                number,
                ring: VecDeque::new(),
                bytes: 0,
                list: List::None,
                deficit: 0,
                cobalt: Cobalt::default(),
                counted: None,
            });
        }
        let flow = &mut self.flows[self.places[i] as usize];
        flow.number = number;
        self.places[i]
    }

    /// Adds a flow to the bulk flows of its hosts, or removes it.
    fn count(&mut self, f: u32, bulk: bool) {
        let flow = &self.flows[f as usize];
        match (bulk, flow.counted) {
            (true, None) => {
                let pair = self.host_pair(flow.number);
                for (all, host) in [(&mut self.sending, pair.0), (&mut self.receiving, pair.1)] {
                    let host = usize::from(host);
                    if all.len() <= host {
                        all.resize(host + 1, 0);
                    }
                    all[host] += 1;
                }
                self.flows[f as usize].counted = Some(pair);
            }
            (false, Some(pair)) => {
                self.sending[usize::from(pair.0)] -= 1;
                self.receiving[usize::from(pair.1)] -= 1;
                self.flows[f as usize].counted = None;
            }
            _ => {}
        }
    }

    /// Returns a flow's gain per turn.
    ///
    /// It is its host's quantum divided by the number of the host's bulk flows.
    fn gain(&self, f: u32) -> i64 {
        let Some((from, to)) = self.flows[f as usize].counted else { return self.quantum };
        let (from, to) = (self.sending[usize::from(from)], self.receiving[usize::from(to)]);
        let load = match self.spec.hosts {
            HostFairness::None => 1,
            HostFairness::Sources => from,
            HostFairness::Destinations => to,
            HostFairness::Both => from.max(to),
        };
        (self.quantum / i64::from(load.max(1))).max(1)
    }

    fn chance(&mut self) -> f64 {
        self.drawn += 1;
        (mix(self.salt.unwrap_or(0) ^ self.drawn.wrapping_mul(0x9e37_79b9_7f4a_7c15)) >> 11) as f64
            / (1u64 << 53) as f64
    }

    fn take_first(&mut self, f: u32) -> Option<Entry> {
        let flow = &mut self.flows[f as usize];
        let entry = flow.ring.pop_front()?;
        flow.bytes -= u64::from(entry.item.bytes);
        self.backlog.sub(entry.item);
        Some(entry)
    }

    /// Drops the oldest packet of the flow with most bytes.
    fn drop_from_longest(&mut self, now: Time) {
        let listed = self.sparse.iter().chain(&self.bulk).copied();
        let Some(f) = listed.max_by_key(|&f| self.flows[f as usize].bytes) else { return };
        self.flows[f as usize].cobalt.full(now, self.times.0);
        if let Some(entry) = self.take_first(f) {
            self.deferred.push_back(DeferredVerdict::Dropped(entry.item, DropCause::Full));
        }
    }

    /// Returns the next packet of a flow that COBALT does not drop.
    ///
    /// The last one is never dropped.
    fn draw(&mut self, now: Time, f: u32) -> Option<Item> {
        loop {
            let entry = self.take_first(f)?;
            let (chance, times) = (self.chance(), self.times);
            let flow = &mut self.flows[f as usize];
            let waited = now.since(entry.since);
            match flow.cobalt.decide(now, waited, times, entry.item.ect, chance) {
                HeadAction::Drop if !flow.ring.is_empty() => {
                    self.deferred
                        .push_back(DeferredVerdict::Dropped(entry.item, DropCause::Waited));
                    continue;
                }
                HeadAction::Mark => self.deferred.push_back(DeferredVerdict::Marked(entry.item)),
                HeadAction::Drop | HeadAction::Pass => {}
            }
            return Some(entry.item);
        }
    }

    pub(crate) fn pop(&mut self) -> Option<Item> {
        let f = (0..self.flows.len()).find(|&f| !self.flows[f].ring.is_empty())?;
        self.take_first(f as u32).map(|e| e.item)
    }
}

impl Queue for Cake {
    /// Accepts every packet.
    ///
    /// Packets dropped because of the limit are returned by [`Queue::deferred_verdict`].
    fn enqueue(&mut self, now: Time, item: Item, held: Backlog, rng: &mut Stream) -> Verdict {
        let f = self.place(item.flow, rng);
        let flow = &mut self.flows[f as usize];
        flow.bytes += u64::from(item.bytes);
        flow.ring.push_back(Entry { item, since: now });
        self.backlog.add(item);
        if flow.list == List::None {
            flow.list = List::Sparse;
            flow.deficit = self.quantum;
            self.sparse.push_back(f);
        }
        while self.backlog.bytes + held.bytes > self.memory && self.backlog.packets > 0 {
            self.drop_from_longest(now);
        }
        Verdict::Queued
    }

    fn dequeue(&mut self, now: Time) -> Option<Item> {
        if self.spec.rate.is_some() && now < self.next {
            return None;
        }
        while self.backlog.packets > 0 {
            let (f, sparse) = match (self.sparse.front(), self.bulk.front()) {
                (Some(&f), _) => (f, true),
                (None, Some(&f)) => (f, false),
                (None, None) => return None,
            };
            let empty = self.flows[f as usize].ring.is_empty();
            if !empty && self.flows[f as usize].deficit > 0 {
                let item = self.draw(now, f)?;
                self.flows[f as usize].deficit -= i64::from(item.bytes);
                if let Some(rate) = self.spec.rate {
                    // No burst: unused capacity is lost.
                    self.next = self.next.max(now) + rate.time_for(u64::from(item.bytes));
                }
                return Some(item);
            }
            if sparse {
                self.sparse.pop_front()
            } else {
                self.bulk.pop_front()
            };
            if empty && !sparse {
                let times = self.times;
                let flow = &mut self.flows[f as usize];
                flow.cobalt.empty(now, times);
                flow.list = List::None;
                self.count(f, false);
                continue;
            }
            // Above its share a flow becomes a bulk flow. An emptied sparse one waits a turn,
            // uncounted.
            if !empty {
                self.count(f, true);
                let gain = self.gain(f);
                self.flows[f as usize].deficit += gain;
            }
            self.flows[f as usize].list = List::Bulk;
            self.bulk.push_back(f);
        }
        None
    }

    fn next_ready(&self, now: Time) -> Time {
        match (self.backlog.packets, self.spec.rate) {
            (0, _) => Time::NEVER,
            (_, Some(_)) => self.next.max(now),
            _ => now,
        }
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }

    fn deferred_verdict(&mut self) -> Option<DeferredVerdict> {
        self.deferred.pop_front()
    }
}
