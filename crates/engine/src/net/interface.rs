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
    /// What a control put in place of the queue. What they do not take waits in `queue`.
    pub classes: Option<Box<RadioClasses>>,
    /// Out of the queue for other neighbours than the one whose frame was filled; next in turn.
    pub aside: VecDeque<Item>,
    /// The station of the packets in the MAC.
    pub serving: u16,
    /// Packets that the card's own queue takes, which is `aside` then; 0: it has none.
    pub device: usize,
    /// The queue may drop what it has let in, or tells neighbours apart, or stands above a card's own: one look for
    /// all of it.
    pub modern: bool,
    /// Stations that the card has served, the last one last.
    turns: Vec<u16>,
    /// What the MAC holds, and what was put aside; it still occupies the buffer. With classes, what waits there too.
    pub held: Backlog,
    /// Σ packets × ns, for the mean length, up to `counted`.
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

    /// Whether the queue asks which neighbour a packet is for.
    #[inline]
    pub fn tells_stations(&self) -> bool {
        self.modern
    }

    /// Brings the queue-length integral up to date; call before the length changes.
    #[inline]
    pub fn count(&mut self, now: Time) {
        let at = now.as_nanos();
        // Many packets of one frame change it at one instant, and propagation delays let callbacks run a little ahead
        // of the clock.
        if at > self.counted {
            self.area += u128::from(self.length()) * u128::from(at - self.counted);
            self.counted = at;
        }
    }

    /// The class of a packet to a neighbour, of data of `flow`; `None`: it waits in the queue.
    #[inline]
    pub fn classify<const HOST: bool>(&self, flow: Option<FlowId>, to: NodeId) -> Option<usize> {
        if !HOST {
            return None;
        }
        self.classes.as_ref()?.classify(flow, to)
    }

    /// Takes a packet in, into a class or into the queue.
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
        // What the card has taken fills its own queue.
        let held = if self.device == 0 { self.held } else { Backlog::NONE };
        self.queue.enqueue(now, item, held, &mut self.rng)
    }

    /// The next packet for the MAC, which holds it from now on.
    #[inline]
    pub fn dequeue<const HOST: bool>(&mut self, now: Time) -> Option<Item> {
        let item = match self.next_aside() {
            Some(item) => item,
            None => self.draw::<HOST>(now)?,
        };
        self.serving = item.station;
        Some(item)
    }

    /// Of what was drawn before: the oldest, or from a card's own queue the oldest of the station whose last
    /// turn is longest ago, as cards serve their queues in turn.
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

    /// Moves packets into the card's own queue, as many as it takes.
    #[cold]
    pub fn fill_device<const HOST: bool>(&mut self, now: Time) {
        while self.aside.len() < self.device {
            let Some(item) = self.draw::<HOST>(now) else { break };
            self.aside.push_back(item);
        }
    }

    /// The queue with a set of flows for each neighbour, if packets for one of them can be taken from it
    /// into a frame.
    pub fn stations(&mut self) -> Option<&mut Stations> {
        if self.device > 0 || self.classes.is_some() {
            return None;
        }
        self.queue.as_stations_mut()
    }

    /// Whether packets leave in the order in which they came, so that one for a neighbour may be
    /// looked for behind those for others.
    pub fn is_fifo(&self) -> bool {
        matches!(self.queue, Discipline::DropTail(_)) && self.classes.is_none()
    }

    /// Whether it is a drop-tail queue and nothing else, which takes what there is room for.
    pub fn is_plain(&self) -> bool {
        self.is_fifo() && !self.modern
    }

    /// Whether a plain one has no room for a packet of so many bytes.
    #[inline]
    pub fn is_full(&self, bytes: u32) -> bool {
        matches!(&self.queue, Discipline::DropTail(q) if !q.has_room(self.held, bytes))
    }

    /// The next packet out of the queue.
    #[inline]
    pub fn draw<const HOST: bool>(&mut self, now: Time) -> Option<Item> {
        if HOST && let Some(classes) = &mut self.classes {
            let (item, class) = classes.dequeue(now, &mut self.queue)?;
            // What waits in classes is held already.
            if class.is_none() {
                self.held.add(item);
            }
            return Some(item);
        }
        let item = self.queue.dequeue(now)?;
        self.held.add(item);
        Some(item)
    }

    /// The next packet out of a plain one's queue.
    #[inline]
    pub fn draw_plain(&mut self) -> Option<Item> {
        let Discipline::DropTail(queue) = &mut self.queue else { return None };
        let item = queue.pop()?;
        self.held.add(item);
        Some(item)
    }

    /// When there is a packet for the MAC.
    #[inline]
    pub fn next_ready<const HOST: bool>(&mut self, now: Time) -> Time {
        if HOST && let Some(classes) = &mut self.classes {
            return classes.next_ready(now, &self.queue);
        }
        self.queue.next_ready(now)
    }

    /// The MAC is done with a packet of so many bytes.
    #[inline]
    pub fn release(&mut self, bytes: u32) {
        self.held.packets = self.held.packets.saturating_sub(1);
        self.held.bytes = self.held.bytes.saturating_sub(u64::from(bytes));
    }

    /// The MAC tells what its packet has cost; gives the packet's class.
    pub fn settle(&mut self, report: &SendReport) -> Option<usize> {
        self.classes.as_mut()?.settle(report)
    }

    /// What waits, the packet in service included.
    pub fn backlog(&self) -> Backlog {
        self.queue.backlog().plus(self.held)
    }

    /// Packets waiting, the one in service included.
    #[inline]
    pub fn length(&self) -> u32 {
        self.queue.backlog().packets + self.held.packets
    }
}
