//! Fair queueing: a buffer per flow, served by deficit round robin.

use fairmesh_units::{Stream, Time};

use crate::{Backlog, DropCause, Item, Limit, Queue, Verdict};

const NIL: u32 = u32::MAX;

/// Description of a [`Fair`].
#[derive(Clone, PartialEq, Debug)]
pub struct FairSpec {
    /// Buffer of each flow; arrivals beyond it are dropped.
    pub per_flow: Limit,
    /// Maximum number of packets of all flows.
    ///
    /// Above it the flow with most bytes loses its oldest packet.
    pub total: Option<u32>,
    /// Bytes that a flow may send per round, at least the largest packet.
    ///
    /// With less, some rounds send nothing.
    pub quantum: u32,
    /// Bytes per round of individual buckets, by number; those beyond its end have `quantum`.
    pub quanta: Vec<u32>,
    /// Number of buckets: flows are distinguished modulo this number, as by SFQ's hash.
    pub buckets: u32,
}

impl FairSpec {
    /// Returns buffers of this size per flow: rounds of 1500 bytes, 1024 buckets.
    ///
    /// There is no common limit.
    pub fn per_flow(limit: Limit) -> Self {
        FairSpec { per_flow: limit, total: None, quantum: 1500, quanta: Vec::new(), buckets: 1024 }
    }
}

/// Per-flow queueing with deficit round robin (Shreedhar & Varghese 1995).
///
/// It is used at the gateway in Jamshaid 2010 §6.2.1. Separate buffers keep one flow's burst from dropping
/// another flow's packets.
#[derive(Clone, Debug)]
pub struct Fair {
    spec: FairSpec,
    flows: Vec<Flow>,
    cells: Vec<Cell>,
    free: u32,
    /// Ring of flows with packets: `tail.next` is its head. NIL when empty.
    tail: u32,
    backlog: Backlog,
}

#[derive(Clone, Debug)]
struct Flow {
    first: u32,
    last: u32,
    next: u32,
    deficit: u32,
    backlog: Backlog,
}

#[derive(Clone, Debug)]
struct Cell {
    item: Item,
    next: u32,
}

impl Fair {
    /// Builds the queue. `spec` must have been checked: no field zero.
    pub(crate) fn new(spec: FairSpec) -> Self {
        Fair {
            spec,
            flows: Vec::new(),
            cells: Vec::new(),
            free: NIL,
            tail: NIL,
            backlog: Backlog::NONE,
        }
    }

    fn quantum(&self, slot: u32) -> u32 {
        self.spec.quanta.get(slot as usize).copied().unwrap_or(self.spec.quantum)
    }

    pub(crate) fn pop(&mut self) -> Option<Item> {
        if self.tail == NIL {
            return None;
        }
        loop {
            let slot = self.flows[self.tail as usize].next;
            let quantum = self.quantum(slot);
            let flow = &mut self.flows[slot as usize];
            let bytes = self.cells[flow.first as usize].item.bytes;
            if flow.deficit >= bytes {
                flow.deficit -= bytes;
                return Some(self.take_first(slot));
            }
            // End of its turn: it gets a quantum for the next one, and the next flow in the ring
            // follows.
            flow.deficit = flow.deficit.saturating_add(quantum);
            self.tail = slot;
        }
    }

    /// Takes the oldest packet of a flow that has one.
    fn take_first(&mut self, slot: u32) -> Item {
        let flow = &mut self.flows[slot as usize];
        let index = flow.first;
        let cell = &mut self.cells[index as usize];
        let item = cell.item;
        flow.first = cell.next;
        cell.next = self.free;
        self.free = index;
        flow.backlog.sub(item);
        self.backlog.sub(item);
        if flow.first == NIL {
            self.unlink(slot);
        }
        item
    }

    /// Removes an empty flow from the ring.
    fn unlink(&mut self, slot: u32) {
        let mut before = self.tail;
        while self.flows[before as usize].next != slot {
            before = self.flows[before as usize].next;
        }
        if before == slot {
            self.tail = NIL;
            return;
        }
        self.flows[before as usize].next = self.flows[slot as usize].next;
        if self.tail == slot {
            self.tail = before;
        }
    }

    /// Returns the flow with most bytes queued; the earliest in the ring among equals.
    fn longest(&self) -> u32 {
        let mut slot = self.flows[self.tail as usize].next;
        let mut best = slot;
        while slot != self.tail {
            slot = self.flows[slot as usize].next;
            if self.flows[slot as usize].backlog.bytes > self.flows[best as usize].backlog.bytes {
                best = slot;
            }
        }
        best
    }

    fn push(&mut self, slot: u32, item: Item) {
        let index = self.free;
        let index = if index == NIL {
            self.cells.push(Cell { item, next: NIL });
            (self.cells.len() - 1) as u32
        } else {
            let cell = &mut self.cells[index as usize];
            self.free = cell.next;
            *cell = Cell { item, next: NIL };
            index
        };
        let tail = self.tail;
        let ring_head = if tail == NIL { slot } else { self.flows[tail as usize].next };
        let quantum = self.quantum(slot);
        let flow = &mut self.flows[slot as usize];
        if flow.first == NIL {
            flow.first = index;
            flow.deficit = quantum;
            flow.next = ring_head;
            if tail != NIL {
                self.flows[tail as usize].next = slot;
            }
            self.tail = slot;
        } else {
            self.cells[flow.last as usize].next = index;
        }
        let flow = &mut self.flows[slot as usize];
        flow.last = index;
        flow.backlog.add(item);
        self.backlog.add(item);
    }
}

impl Queue for Fair {
    fn enqueue(&mut self, _now: Time, item: Item, held: Backlog, _rng: &mut Stream) -> Verdict {
        let slot = item.flow % self.spec.buckets;
        if slot as usize >= self.flows.len() {
            let fresh =
                Flow { first: NIL, last: NIL, next: NIL, deficit: 0, backlog: Backlog::NONE };
            self.flows.resize(slot as usize + 1, fresh);
        }
        let mine = self.flows[slot as usize].backlog;
        if !self.spec.per_flow.admits(mine, Backlog::NONE, item) {
            return Verdict::Dropped(DropCause::FlowFull);
        }
        let full = self.spec.total.is_some_and(|n| self.backlog.packets + held.packets >= n);
        if !full {
            self.push(slot, item);
            return Verdict::Queued;
        }
        if self.tail == NIL {
            return Verdict::Dropped(DropCause::Full);
        }
        // The flow with most of the buffer loses a packet; the arrival counts for its own flow.
        let longest = self.longest();
        let arriving = mine.bytes + u64::from(item.bytes);
        let victim = if self.flows[longest as usize].backlog.bytes > arriving {
            longest
        } else if mine.packets > 0 {
            slot
        } else {
            return Verdict::Dropped(DropCause::Full);
        };
        let out = self.take_first(victim);
        self.push(slot, item);
        Verdict::Evicted(out, DropCause::Full)
    }

    fn dequeue(&mut self, _now: Time) -> Option<Item> {
        self.pop()
    }

    fn next_ready(&self, now: Time) -> Time {
        if self.tail == NIL { Time::NEVER } else { now }
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }
}
