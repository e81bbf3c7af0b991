//! The queues of mac80211.
//!
//! They have fair queueing and CoDel per station, stations in turns of equal airtime, and a limit of the data
//! that the card may hold for each (AQL).
//!
//! Høiland-Jørgensen, Kazior, Täht, Hurtig, Brunstrom, *Ending the Anomaly*, USENIX ATC 2017:
//! Algorithms 1 to 3; numbers from Linux (net/mac80211, include/net/cfg80211.h), where AQL was
//! added in 2019.

use std::collections::VecDeque;

use fairmesh_units::{BitRate, Span, Stream, Time};

use crate::codel::CodelSpec;
use crate::flow_queues::FlowQueues;
use crate::{Backlog, DeferredVerdict, Item, Queue, Verdict};

/// Description of a [`Stations`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StationsSpec {
    /// Maximum number of packets of all stations.
    pub packets: u32,
    /// Maximum number of bytes of all stations.
    pub memory: u64,
    /// Buckets of the hash, which all stations share.
    pub flows: u32,
    /// Bytes that a flow may send per turn within its station.
    pub quantum: u32,
    /// The control law of each flow.
    pub codel: CodelSpec,
    /// CoDel's times for slow stations; `None` if they are equal for all.
    pub slow: Option<SlowSpec>,
    /// Airtime that a station of weight 1 gets per turn (Algorithm 3). `None`: a turn is a frame.
    pub airtime: Option<Span>,
    /// Limits of the airtime queued in the card; `None`: until the card is full.
    pub aql: Option<AqlSpec>,
}

/// CoDel's times for slow stations.
///
/// One of their bursts then does not count as a standing queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlowSpec {
    /// Rate times the number of stations below which a station is slow.
    pub below: BitRate,
    /// TARGET of slow stations.
    pub target: Span,
    /// INTERVAL of slow stations.
    pub interval: Span,
}

/// Airtime queue limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AqlSpec {
    /// Limit of one station's airtime in the card while the card is heavily loaded.
    pub low: Span,
    /// Limit of one station's airtime in the card otherwise.
    pub high: Span,
    /// Total airtime in the card above which it counts as heavily loaded.
    pub total: Span,
}

impl Default for AqlSpec {
    /// Returns 5, 12 and 24 ms.
    fn default() -> Self {
        let ms = Span::from_millis;
        AqlSpec { low: ms(5), high: ms(12), total: ms(24) }
    }
}

impl Default for SlowSpec {
    /// Returns 6 Mbit/s, 50 ms and 300 ms.
    fn default() -> Self {
        let ms = Span::from_millis;
        SlowSpec { below: BitRate(6_000_000), target: ms(50), interval: ms(300) }
    }
}

impl Default for StationsSpec {
    /// Returns mac80211's defaults for 802.11ac.
    ///
    /// They are 8192 packets, 16 MiB, 4096 flows, turns of 300 bytes, CoDel at 20 and 100 ms with marks,
    /// airtime turns of 256 µs, AQL.
    fn default() -> Self {
        StationsSpec {
            packets: 8192,
            memory: 16 << 20,
            flows: 4096,
            quantum: 300,
            codel: CodelSpec { target: Span::from_millis(20), ecn: true, ..CodelSpec::default() },
            slow: Some(SlowSpec::default()),
            airtime: Some(Span::from_micros(256)),
            aql: Some(AqlSpec::default()),
        }
    }
}

/// Airtime assumed for a packet while its station's rate is unknown, in ns.
///
/// The smallest amount that counts, as in Linux.
const DEFAULT_AIRTIME: u64 = 4_000;

/// List in which a station waits for its turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum List {
    None,
    New,
    Old,
}

#[derive(Clone, Debug)]
struct Station {
    tin: usize,
    /// Oldest packet of the station, dequeued for a frame without room for it.
    head: Option<Item>,
    list: List,
    /// Remaining airtime of its turn, in ns.
    deficit: i64,
    /// Airtime gained per turn, in ns.
    gain: i64,
    /// Data in the card.
    pending: Backlog,
    /// Recent airtime per byte, in ns.
    cost: f64,
    /// Total airtime of its frames.
    used: Span,
}

impl Station {
    /// Returns the airtime of its data in the card, in ns.
    fn pending_ns(&self) -> u64 {
        let known = self.pending.bytes as f64 * self.cost;
        (known as u64).max(u64::from(self.pending.packets) * DEFAULT_AIRTIME)
    }
}

/// mac80211's intermediate queues.
#[derive(Clone, Debug)]
pub struct Stations {
    spec: StationsSpec,
    flows: FlowQueues,
    stations: Vec<Station>,
    /// Index of each station number; `u32::MAX`: none yet.
    index: Vec<u32>,
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    heads: Backlog,
    deferred: VecDeque<DeferredVerdict>,
}

impl Stations {
    pub(crate) fn new(spec: StationsSpec) -> Self {
        Stations {
            flows: FlowQueues::new(spec.flows, spec.quantum),
            spec,
            stations: Vec::new(),
            index: Vec::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            heads: Backlog::NONE,
            deferred: VecDeque::new(),
        }
    }

    fn station(&mut self, number: u16) -> usize {
        let n = usize::from(number);
        if self.index.len() <= n {
            self.index.resize(n + 1, u32::MAX);
        }
        if self.index[n] == u32::MAX {
            self.index[n] = self.stations.len() as u32;
            self.stations.push(Station {
                tin: self.flows.add_tin(),
                head: None,
                list: List::None,
                deficit: 0,
                gain: self.spec.airtime.map_or(0, |q| q.as_nanos() as i64),
                pending: Backlog::NONE,
                cost: 0.0,
                used: Span::ZERO,
            });
        }
        self.index[n] as usize
    }

    /// Sets a station's airtime weight relative to others (`airtime_weight` / 256 of hostapd).
    pub fn set_weight(&mut self, station: u16, weight: f64) {
        let quantum = self.spec.airtime.unwrap_or(Span::ZERO).as_nanos() as f64;
        let s = self.station(station);
        self.stations[s].gain = ((quantum * weight) as i64).max(1);
    }

    /// Returns the next packet for the same station, regardless of turns, to fill its frame.
    pub fn dequeue_for(&mut self, now: Time, station: u16) -> Option<Item> {
        let s = self.station(station);
        self.take(now, s)
    }

    /// Puts back the packet that was last taken for its station.
    pub fn put_back(&mut self, item: Item) {
        let s = self.station(item.station);
        debug_assert!(self.stations[s].head.is_none());
        self.stations[s].pending.sub(item);
        self.stations[s].head = Some(item);
        self.heads.add(item);
        if self.stations[s].list == List::None {
            self.stations[s].list = List::Old;
            self.old.push_back(s);
        }
    }

    /// Records that the card has finished a packet of a station at this cost in airtime.
    pub fn settle(&mut self, station: u16, bytes: u32, airtime: Span) {
        let s = self.station(station);
        let st = &mut self.stations[s];
        st.pending.packets = st.pending.packets.saturating_sub(1);
        st.pending.bytes = st.pending.bytes.saturating_sub(u64::from(bytes));
        let cost = airtime.as_nanos() as f64 / f64::from(bytes.max(1));
        // A mean over several aggregates; the first packet sets it.
        st.cost = if st.cost == 0.0 { cost } else { st.cost + (cost - st.cost) / 32.0 };
        self.charge(station, airtime);
    }

    /// Charges a station for airtime without a packet sent to it: frames received from it.
    pub fn charge(&mut self, station: u16, airtime: Span) {
        let s = self.station(station);
        let st = &mut self.stations[s];
        st.used += airtime;
        if self.spec.airtime.is_some() {
            st.deficit -= airtime.as_nanos() as i64;
        }
    }

    /// Returns the airtime charged to a station so far.
    pub fn used(&self, station: u16) -> Span {
        let s = self.index.get(usize::from(station)).and_then(|s| self.stations.get(*s as usize));
        s.map_or(Span::ZERO, |s| s.used)
    }

    /// Returns true if a station may pass another packet to the card.
    fn may_queue(&self, s: usize) -> bool {
        let Some(aql) = &self.spec.aql else { return true };
        let mine = self.stations[s].pending_ns();
        if mine < aql.low.as_nanos() {
            return true;
        }
        let all: u64 = self.stations.iter().map(Station::pending_ns).sum();
        all < aql.total.as_nanos() && mine < aql.high.as_nanos()
    }

    /// Returns true if a station in the lists has packets that may leave.
    fn any_ready(&self) -> bool {
        self.backlog().packets > 0
            && (self.spec.aql.is_none()
                || self.new.iter().chain(&self.old).any(|&s| self.waits(s) && self.may_queue(s)))
    }

    fn waits(&self, s: usize) -> bool {
        let st = &self.stations[s];
        st.head.is_some() || self.flows.tin_backlog(st.tin).packets > 0
    }

    fn take(&mut self, now: Time, s: usize) -> Option<Item> {
        let n = self.stations.len() as u64;
        let st = &mut self.stations[s];
        let item = if let Some(head) = st.head.take() {
            self.heads.sub(head);
            head
        } else {
            let mut codel = self.spec.codel;
            if let Some(slow) = &self.spec.slow
                && st.cost * (slow.below.0 * n) as f64 > 8e9
            {
                (codel.target, codel.interval) = (slow.target, slow.interval);
            }
            self.flows.dequeue(now, st.tin, &codel, &mut self.deferred)?
        };
        st.pending.add(item);
        Some(item)
    }

    /// Moves the station at the head of the lists behind all others.
    fn rotate(&mut self, s: usize) {
        if self.stations[s].list == List::New {
            self.new.pop_front()
        } else {
            self.old.pop_front()
        };
        self.old.push_back(s);
        self.stations[s].list = List::Old;
    }

    pub(crate) fn pop(&mut self) -> Option<Item> {
        if self.heads.packets > 0
            && let Some(head) = self.stations.iter_mut().find_map(|s| s.head.take())
        {
            self.heads.sub(head);
            return Some(head);
        }
        self.flows.pop()
    }
}

impl Queue for Stations {
    /// Accepts each packet.
    ///
    /// Packets dropped because of a limit, possibly the new one, are returned by [`Queue::deferred_verdict`].
    fn enqueue(&mut self, now: Time, item: Item, held: Backlog, rng: &mut Stream) -> Verdict {
        let s = self.station(item.station);
        let st = &mut self.stations[s];
        if st.list == List::None {
            // A sparse station is served first, once: Ending the Anomaly §3.2.
            st.list = List::New;
            st.deficit = st.gain;
            self.new.push_back(s);
        }
        self.flows.enqueue(now, st.tin, item, rng);
        loop {
            let all = self.flows.backlog().plus(held);
            let above = all.packets > self.spec.packets || all.bytes > self.spec.memory;
            if !above || self.flows.backlog().packets == 0 {
                return Verdict::Queued;
            }
            self.flows.drop_from_longest(1, &mut self.deferred);
        }
    }

    /// Returns the next packet. Ending the Anomaly, Algorithm 3.
    fn dequeue(&mut self, now: Time) -> Option<Item> {
        while self.any_ready() {
            let s = self.new.front().or(self.old.front()).copied()?;
            if !self.may_queue(s) {
                self.rotate(s);
                continue;
            }
            let st = &mut self.stations[s];
            // Data in the card counts although it is charged later (Linux since 2022).
            let held = if self.spec.aql.is_some() { st.pending_ns() as i64 } else { 0 };
            if self.spec.airtime.is_some() && st.deficit - held <= 0 {
                st.deficit += st.gain;
                self.rotate(s);
                continue;
            }
            if let Some(item) = self.take(now, s) {
                if self.spec.airtime.is_none() {
                    self.rotate(s);
                }
                return Some(item);
            }
            if self.stations[s].list == List::New {
                self.rotate(s);
            } else {
                self.old.pop_front();
                self.stations[s].list = List::None;
            }
        }
        None
    }

    fn next_ready(&self, now: Time) -> Time {
        if self.any_ready() { now } else { Time::NEVER }
    }

    fn backlog(&self) -> Backlog {
        self.flows.backlog().plus(self.heads)
    }

    fn deferred_verdict(&mut self) -> Option<DeferredVerdict> {
        self.deferred.pop_front()
    }
}
