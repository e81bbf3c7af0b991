//! A node's radio interface: its queue, and the classes a control may put before it.

use std::collections::VecDeque;

use fairmesh_queueing::{Backlog, Discipline, Item, Queue, Stations, Verdict};
use fairmesh_units::{FlowId, NodeId, Stream, Time};
use fairmesh_wifi::SendReport;

use crate::classes::RadioClasses;

/// A node's radio interface.
#[derive(Debug)]
pub(crate) struct Interface {
    pub queue: Discipline,
    pub rng: Stream,
    /// Classes that a control put in place of the queue.
    ///
    /// Packets outside the classes wait in `queue`.
    pub classes: Option<Box<RadioClasses>>,
    /// Packets taken from the queue for other neighbours while a frame was filled; next in turn.
    pub aside: VecDeque<Item>,
    /// Station of the packets in the MAC.
    pub serving: u16,
    /// Capacity of the card's own queue, packets, which is then `aside`; 0 if it has none.
    pub device: usize,
    /// True for a queue that needs the general path.
    ///
    /// It may drop accepted packets, distinguishes neighbours, or is above a card's own queue: one test
    /// covers all three.
    pub modern: bool,
    /// Stations that the card has served, the most recent last.
    turns: Vec<u16>,
    /// Packets in the MAC and in `aside`, which still occupy the buffer.
    ///
    /// With classes, also their backlog.
    pub held: Backlog,
    /// Integral of the length, Σ packets × ns, up to `counted`, for the mean length.
    pub area: u128,
    counted: u64,
}

impl Interface {
    pub fn new(queue: Discipline, device: u32, classes: Option<RadioClasses>, rng: Stream) -> Self {
        let classes = classes.map(Box::new);
        let modern = device > 0 || queue.is_modern();
        Interface {
            queue,
            rng,
            classes,
            aside: VecDeque::new(),
            serving: 0,
            turns: Vec::new(),
            device: device as usize,
            modern,
            held: Backlog::NONE,
            area: 0,
            counted: 0,
        }
    }

    /// Returns true if the queue distinguishes the neighbours of packets.
    #[inline]
    pub fn distinguishes_neighbours(&self) -> bool {
        self.modern
    }

    /// Updates the queue-length integral; call before the length changes.
    #[inline]
    pub fn count(&mut self, now: Time) {
        let at = now.as_nanos();
        // Many packets of one frame change it at one instant, and callbacks may be slightly ahead
        // of the clock by propagation delays.
        if at > self.counted {
            self.area += u128::from(self.length()) * u128::from(at - self.counted);
            self.counted = at;
        }
    }

    /// Returns the class of a packet to a neighbour, of data of `flow`.
    ///
    /// `None`: it waits in the queue.
    #[inline]
    pub fn classify<const HOST: bool>(&self, flow: Option<FlowId>, to: NodeId) -> Option<usize> {
        if !HOST {
            return None;
        }
        self.classes.as_ref()?.classify(flow, to)
    }

    /// Takes a packet into a class or into the queue.
    #[inline]
    pub fn enqueue<const HOST: bool>(
        &mut self,
        now: Time,
        item: Item,
        class: Option<usize>,
    ) -> Verdict {
        if HOST && let Some(classes) = &mut self.classes {
            let Some(class) = class else {
                return self.queue.enqueue(now, item, Backlog::NONE, &mut self.rng);
            };
            let before = classes.waiting(class);
            let verdict = classes.enqueue(now, class, item);
            let after = classes.waiting(class);
            self.held.packets = self.held.packets + after.packets - before.packets;
            self.held.bytes = self.held.bytes + after.bytes - before.bytes;
            return verdict;
        }
        // Packets that the card has taken fill its own queue.
        let held = if self.device == 0 { self.held } else { Backlog::NONE };
        self.queue.enqueue(now, item, held, &mut self.rng)
    }

    /// Returns the next packet for the MAC, which holds it from now on.
    #[inline]
    pub fn dequeue<const HOST: bool>(&mut self, now: Time) -> Option<Item> {
        let item = match self.next_aside() {
            Some(item) => item,
            None => self.draw::<HOST>(now)?,
        };
        self.serving = item.station;
        Some(item)
    }

    /// Returns the next packet of `aside`: the oldest, or, for a card's own queue, by station.
    ///
    /// A card serves its queues in turn, so that is the oldest packet of the least recently served station.
    #[inline]
    fn next_aside(&mut self) -> Option<Item> {
        if self.device == 0 { self.aside.pop_front() } else { self.next_of_device() }
    }

    #[cold]
    fn next_of_device(&mut self) -> Option<Item> {
        let turn = |station: u16| self.turns.iter().rposition(|&s| s == station);
        let (at, station) = (self.aside.iter().enumerate())
            .min_by_key(|(_, item)| turn(item.station).map_or(0, |t| t + 1))
            .map(|(at, item)| (at, item.station))?;
        self.turns.retain(|&s| s != station);
        self.turns.push(station);
        self.aside.remove(at)
    }

    /// Moves packets into the card's own queue until it is full.
    #[cold]
    pub fn fill_device<const HOST: bool>(&mut self, now: Time) {
        while self.aside.len() < self.device {
            let Some(item) = self.draw::<HOST>(now) else { break };
            self.aside.push_back(item);
        }
    }

    /// Returns the queue with a set of flows per neighbour.
    ///
    /// `None` if a frame cannot take packets for one neighbour from it.
    pub fn stations(&mut self) -> Option<&mut Stations> {
        if self.device > 0 || self.classes.is_some() {
            return None;
        }
        self.queue.as_stations_mut()
    }

    /// Returns true if packets leave in order of arrival.
    ///
    /// A packet for a neighbour may then be taken from behind packets for others.
    pub fn is_fifo(&self) -> bool {
        matches!(self.queue, Discipline::DropTail(_)) && self.classes.is_none()
    }

    /// Returns true if it is only a drop-tail queue, which accepts packets while there is room.
    pub fn is_plain(&self) -> bool {
        self.is_fifo() && !self.modern
    }

    /// Returns true if a plain queue has no room for a packet of this length.
    #[inline]
    pub fn is_full(&self, bytes: u32) -> bool {
        matches!(&self.queue, Discipline::DropTail(q) if !q.has_room(self.held, bytes))
    }

    /// Takes the next packet out of the queue.
    #[inline]
    pub fn draw<const HOST: bool>(&mut self, now: Time) -> Option<Item> {
        if HOST && let Some(classes) = &mut self.classes {
            let (item, class) = classes.dequeue(now, &mut self.queue)?;
            // The backlog of classes is already counted in `held`.
            if class.is_none() {
                self.held.add(item);
            }
            return Some(item);
        }
        let item = self.queue.dequeue(now)?;
        self.held.add(item);
        Some(item)
    }

    /// Takes the next packet out of a plain queue.
    #[inline]
    pub fn draw_plain(&mut self) -> Option<Item> {
        let Discipline::DropTail(queue) = &mut self.queue else { return None };
        let item = queue.pop()?;
        self.held.add(item);
        Some(item)
    }

    /// Returns the instant at which a packet is available for the MAC.
    #[inline]
    pub fn next_ready<const HOST: bool>(&mut self, now: Time) -> Time {
        if HOST && let Some(classes) = &mut self.classes {
            return classes.next_ready(now, &self.queue);
        }
        self.queue.next_ready(now)
    }

    /// Records that the MAC has finished a packet of this length.
    #[inline]
    pub fn release(&mut self, bytes: u32) {
        self.held.packets = self.held.packets.saturating_sub(1);
        self.held.bytes = self.held.bytes.saturating_sub(u64::from(bytes));
    }

    /// Handles the MAC's report of a packet's cost; returns the packet's class.
    pub fn settle(&mut self, report: &SendReport) -> Option<usize> {
        self.classes.as_mut()?.settle(report)
    }

    /// Returns the backlog, the packet in service included.
    pub fn backlog(&self) -> Backlog {
        self.queue.backlog().plus(self.held)
    }

    /// Returns the number of waiting packets, the one in service included.
    #[inline]
    pub fn length(&self) -> u32 {
        self.queue.backlog().packets + self.held.packets
    }
}
