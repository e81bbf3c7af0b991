//! Queues per flow under deficit round robin with a list of new flows, CoDel in each.
//!
//! RFC 8290 §4. Basis of [`FqCodel`](crate::FqCodel), with a single set of flows, and of
//! [`Stations`](crate::Stations), with one set per station (a *tin* in mac80211).

use std::collections::VecDeque;

use fairmesh_units::{Stream, Time};

use crate::codel::{CodelSpec, Control, Entry, Fifo, Source};
use crate::{Backlog, DeferredVerdict, DropCause, Item};

const NIL: u32 = u32::MAX;

/// One flow's packets.
#[derive(Clone, Debug)]
struct Flow {
    packets: Fifo,
    control: Control,
    deficit: i64,
    /// Tin with the list that contains it; `NIL` if none.
    tin: u32,
    /// Index of the flow among those that have packets.
    place: u32,
}

/// A set of flows that take turns.
#[derive(Clone, Debug)]
struct Tin {
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    backlog: Backlog,
    /// Queue for packets with a bucket of another tin.
    ///
    /// Ending the Anomaly, Algorithm 1
    overflow: u32,
}

/// All flows of a queue.
#[derive(Clone, Debug)]
pub(crate) struct FlowQueues {
    flows: Vec<Flow>,
    /// Flow of each bucket of the hash; `NIL` if there is none yet.
    buckets: Vec<u32>,
    tins: Vec<Tin>,
    /// Flows that have packets, in no order.
    active: Vec<u32>,
    /// Salt of the hash; drawn at the first packet.
    salt: Option<u64>,
    quantum: i64,
    backlog: Backlog,
}

/// Mixes 64 bits bijectively (the finalizer of `SplitMix64`), to spread flows over buckets.
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl FlowQueues {
    pub fn new(buckets: u32, quantum: u32) -> Self {
        FlowQueues {
            flows: Vec::new(),
            buckets: vec![NIL; buckets as usize],
            tins: Vec::new(),
            active: Vec::new(),
            salt: None,
            quantum: i64::from(quantum),
            backlog: Backlog::NONE,
        }
    }

    /// Adds a set of flows; returns its number.
    pub fn add_tin(&mut self) -> usize {
        let (new, old) = (VecDeque::new(), VecDeque::new());
        self.tins.push(Tin { new, old, backlog: Backlog::NONE, overflow: NIL });
        self.tins.len() - 1
    }

    pub fn backlog(&self) -> Backlog {
        self.backlog
    }

    pub fn tin_backlog(&self, tin: usize) -> Backlog {
        self.tins[tin].backlog
    }

    fn add_flow(&mut self) -> u32 {
        self.flows.push(Flow {
            packets: Fifo::default(),
            control: Control::default(),
            deficit: 0,
            tin: NIL,
            place: NIL,
        });
        self.flows.len() as u32 - 1
    }

    /// Returns the queue of a flow number within a tin.
    fn flow_of(&mut self, tin: usize, number: u32, rng: &mut Stream) -> u32 {
        // While the overflow queue has packets of the flow, later ones wait behind them; the kernel
        // lets them overtake.
        let spare = self.tins[tin].overflow;
        if let Some(flow) = self.flows.get(spare as usize)
            && flow.packets.ring.iter().any(|e| e.item.flow == number)
        {
            return spare;
        }
        let salt = *self.salt.get_or_insert_with(|| rng.bits());
        let bucket = (mix(salt ^ u64::from(number)) % self.buckets.len() as u64) as usize;
        let mut flow = self.buckets[bucket];
        if flow == NIL {
            flow = self.add_flow();
            self.buckets[bucket] = flow;
        }
        let owner = self.flows[flow as usize].tin;
        if owner == NIL || owner as usize == tin {
            return flow;
        }
        if self.tins[tin].overflow == NIL {
            self.tins[tin].overflow = self.add_flow();
        }
        self.tins[tin].overflow
    }

    /// Appends a packet, regardless of the limits; returns its flow.
    pub fn enqueue(&mut self, now: Time, tin: usize, item: Item, rng: &mut Stream) -> u32 {
        let f = self.flow_of(tin, item.flow, rng);
        let flow = &mut self.flows[f as usize];
        if flow.packets.ring.is_empty() {
            flow.place = self.active.len() as u32;
            self.active.push(f);
        }
        if flow.tin == NIL {
            // RFC 8290 §4.1: a flow in no list is new, and has a full quantum.
            flow.tin = tin as u32;
            flow.deficit = self.quantum;
            self.tins[tin].new.push_back(f);
        }
        flow.packets.bytes += u64::from(item.bytes);
        flow.packets.ring.push_back(Entry { item, since: now });
        self.tins[tin].backlog.add(item);
        self.backlog.add(item);
        f
    }

    /// Returns the next packet of a tin. RFC 8290 §4.2
    pub fn dequeue(
        &mut self,
        now: Time,
        tin: usize,
        codel: &CodelSpec,
        deferred: &mut VecDeque<DeferredVerdict>,
    ) -> Option<Item> {
        loop {
            let t = &mut self.tins[tin];
            let (f, is_new) = match (t.new.front(), t.old.front()) {
                (Some(&f), _) => (f, true),
                (None, Some(&f)) => (f, false),
                (None, None) => return None,
            };
            let flow = &mut self.flows[f as usize];
            if flow.deficit <= 0 {
                flow.deficit += self.quantum;
                if is_new {
                    t.new.pop_front()
                } else {
                    t.old.pop_front()
                };
                t.old.push_back(f);
                continue;
            }
            let before = flow.packets.backlog();
            let item = flow.control.dequeue(now, codel, &mut flow.packets, deferred);
            let after = flow.packets.backlog();
            let gone = Backlog {
                packets: before.packets - after.packets,
                bytes: before.bytes - after.bytes,
            };
            self.account(tin, f, gone);
            let t = &mut self.tins[tin];
            let Some(item) = item else {
                // An emptied new flow passes through the old ones once; otherwise it would stay
                // new.
                if is_new {
                    t.new.pop_front();
                    t.old.push_back(f);
                } else {
                    t.old.pop_front();
                    self.flows[f as usize].tin = NIL;
                }
                continue;
            };
            self.flows[f as usize].deficit -= i64::from(item.bytes);
            return Some(item);
        }
    }

    /// Records that data has left a flow.
    fn account(&mut self, tin: usize, f: u32, gone: Backlog) {
        for backlog in [&mut self.backlog, &mut self.tins[tin].backlog] {
            backlog.packets -= gone.packets;
            backlog.bytes -= gone.bytes;
        }
        let flow = &self.flows[f as usize];
        if gone.packets > 0 && flow.packets.ring.is_empty() {
            let place = flow.place as usize;
            self.active.swap_remove(place);
            if let Some(&moved) = self.active.get(place) {
                self.flows[moved as usize].place = place as u32;
            }
        }
    }

    /// Takes the oldest packet of a flow, regardless of CoDel.
    fn take_first(&mut self, f: u32) -> Option<Item> {
        let flow = &mut self.flows[f as usize];
        let item = flow.packets.take()?.item;
        let tin = flow.tin as usize;
        self.account(tin, f, Backlog { packets: 1, bytes: u64::from(item.bytes) });
        Some(item)
    }

    /// Drops from the head of the flow with most bytes (RFC 8290 §4.1).
    ///
    /// It drops at most `most` packets and half of its bytes.
    pub fn drop_from_longest(&mut self, most: u32, deferred: &mut VecDeque<DeferredVerdict>) {
        let bytes = |f: &&u32| self.flows[**f as usize].packets.bytes;
        // The first among equals.
        let Some(&f) = self.active.iter().rev().max_by_key(bytes) else { return };
        let half = self.flows[f as usize].packets.bytes / 2;
        let (mut packets, mut bytes) = (0, 0);
        while packets < most && (packets == 0 || bytes < half) {
            let Some(item) = self.take_first(f) else { break };
            packets += 1;
            bytes += u64::from(item.bytes);
            deferred.push_back(DeferredVerdict::Dropped(item, DropCause::Full));
        }
        self.flows[f as usize].control.count_drops(packets);
    }

    /// Takes the oldest packet of any flow.
    pub fn pop(&mut self) -> Option<Item> {
        let f = *self.active.first()?;
        self.take_first(f)
    }
}
