//! Everything above the MAC: queues, forwarding, transports, applications.

use fairmesh_control::Point;
use fairmesh_queueing::{Backlog, Discipline, Queue, Verdict};
use fairmesh_transport::traffic::{Do, Side};
use fairmesh_transport::{Datagram, Flags};
use fairmesh_units::{Deadlines, NodeId, Stream, Time};
use fairmesh_wifi::{OnAir, Outcome, Outgoing, SendReport, Upper};

use crate::flow::{Ends, FlowState, Hop};
use crate::live::{Arrival, Frame};
use crate::observe::{AirFrame, AirPacket, AirPayload, FrameKind, Observer};
use crate::packet::{Packet, Packets, Payload};
use crate::shaping::ClassSet;
use crate::wire::WireDirection;

/// A node's radio interface.
#[derive(Debug)]
pub(crate) struct Interface {
    pub queue: Discipline,
    rng: Stream,
    /// What the MAC holds; it still occupies the buffer.
    held: Backlog,
    /// Σ packets × ns, for the mean length, up to `counted`.
    pub area: u128,
    counted: u64,
}

/// The network above the radio. `WATCH`: the observer sees every frame.
pub(crate) struct Net<'a, const WATCH: bool> {
    pub packets: Packets,
    /// Packets that reached their endpoint, and those whose connection was gone.
    pub arrived: u64,
    pub stale: u64,
    /// Per wireless node.
    pub interfaces: Vec<Interface>,
    pub flows: Vec<FlowState>,
    pub wires: Vec<WireDirection>,
    /// One per flow, per wire direction, per interface, in this order.
    pub timers: Deadlines,
    /// Interfaces to tell the MAC about once the event is over.
    pub kicks: Vec<NodeId>,
    /// Start of the measured interval.
    pub measure_from: Time,
    /// Classes of the control, and per node the ones that stand there.
    pub classes: Vec<ClassSet>,
    classes_at: Vec<Option<u32>>,
    /// Per node where a control counts them: data that left it, per flow.
    pub left: Vec<Vec<Left>>,
    /// Frames from outside that reached a node, oldest first.
    pub arrivals: Vec<Arrival>,
    pub observer: Option<&'a mut dyn Observer>,
    /// Per node, when observed: the packet in service as it was handed to the MAC.
    snapshots: Vec<Option<AirPacket>>,
    pub rates: Vec<fairmesh_units::BitRate>,
}

/// Data of one flow that left a node.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Left {
    pub packets: u64,
    pub bytes: u64,
}

/// What controls have put into the network.
pub(crate) struct Shaping {
    /// Nodes, wired hosts included.
    pub nodes: usize,
    /// At most one set per node.
    pub classes: Vec<ClassSet>,
    /// Nodes whose passing data is counted per flow.
    pub counting: Vec<NodeId>,
    /// Number of controls.
    pub controls: usize,
}

/// What a timer slot stands for.
enum Timer {
    Flow(usize),
    Wire(usize),
    Interface(usize),
    Classes(usize),
    Control(usize),
}

impl<'a, const WATCH: bool> Net<'a, WATCH> {
    pub fn new(
        interfaces: Vec<(Discipline, Stream)>,
        flows: Vec<FlowState>,
        wires: Vec<WireDirection>,
        shaping: Shaping,
        measure_from: Time,
        observer: Option<&'a mut dyn Observer>,
        rates: Vec<fairmesh_units::BitRate>,
    ) -> Self {
        let Shaping { nodes, classes, counting, controls } = shaping;
        let slots = flows.len() + wires.len() + interfaces.len() + classes.len() + controls;
        let mut timers = Deadlines::new(slots);
        let mut classes_at = vec![None; nodes];
        for (i, set) in classes.iter().enumerate() {
            classes_at[set.node.index()] = Some(i as u32);
        }
        let mut left = vec![Vec::new(); nodes];
        for node in counting {
            left[node.index()] = vec![Left::default(); flows.len()];
        }
        for (i, flow) in flows.iter().enumerate() {
            timers.set(i, flow.next_deadline());
        }
        let interfaces: Vec<Interface> = interfaces
            .into_iter()
            .map(|(queue, rng)| Interface { queue, rng, held: Backlog::NONE, area: 0, counted: 0 })
            .collect();
        Net {
            packets: Packets::default(),
            arrived: 0,
            stale: 0,
            snapshots: vec![None; interfaces.len()],
            interfaces,
            flows,
            wires,
            timers,
            kicks: Vec::new(),
            measure_from,
            classes,
            classes_at,
            left,
            arrivals: Vec::new(),
            observer,
            rates,
        }
    }

    fn timer(&self, slot: usize) -> Timer {
        let (f, w, i) = (self.flows.len(), self.wires.len(), self.interfaces.len());
        if slot < f {
            Timer::Flow(slot)
        } else if slot < f + w {
            Timer::Wire(slot - f)
        } else if slot < f + w + i {
            Timer::Interface(slot - f - w)
        } else {
            let c = slot - f - w - i;
            let sets = self.classes.len();
            if c < sets { Timer::Classes(c) } else { Timer::Control(c - sets) }
        }
    }

    fn wire_slot(&self, direction: usize) -> usize {
        self.flows.len() + direction
    }
    fn interface_slot(&self, node: usize) -> usize {
        self.flows.len() + self.wires.len() + node
    }
    fn classes_slot(&self, set: usize) -> usize {
        self.flows.len() + self.wires.len() + self.interfaces.len() + set
    }
    /// The timer slot of a control.
    pub fn control_slot(&self, control: usize) -> usize {
        self.classes_slot(self.classes.len()) + control
    }

    /// A timer has come due. If it is a control's, its number is returned and the rest is the
    /// caller's.
    pub fn fire(&mut self, now: Time, slot: usize) -> Option<usize> {
        match self.timer(slot) {
            Timer::Flow(f) => self.flow_deadline(now, f),
            Timer::Wire(d) => {
                while let Some(packet) = self.wires[d].take(now) {
                    let to = self.wires[d].to;
                    self.arrive(now, to, packet);
                    if (to as usize) < self.interfaces.len() {
                        self.kicks.push(NodeId(to));
                    }
                }
                self.timers.set(slot, self.wires[d].next_deadline());
            }
            Timer::Interface(n) => {
                self.timers.set(slot, Time::NEVER);
                self.kicks.push(NodeId(n as u32));
            }
            Timer::Classes(set) => self.drain(now, set),
            Timer::Control(control) => return Some(control),
        }
        None
    }

    // ---- applications and transports

    fn flow_deadline(&mut self, now: Time, f: usize) {
        if self.flows[f].source.next_deadline() <= now {
            self.application(now, f, |source, out| source.on_deadline(now, out));
        }
        if let Ends::Tcp(ends, _) = &mut self.flows[f].ends {
            for end in ends.iter_mut() {
                if end.next_deadline() <= now {
                    end.on_deadline(now);
                }
            }
        }
        for end in 0..2 {
            let node = self.flush(now, f, end);
            if (node as usize) < self.interfaces.len() {
                self.kicks.push(NodeId(node));
            }
        }
        self.rearm_flow(f);
    }

    /// Lets the application speak, and does what it says.
    fn application(
        &mut self,
        now: Time,
        f: usize,
        speak: impl FnOnce(&mut fairmesh_transport::traffic::Source, &mut dyn FnMut(Do)),
    ) {
        // At most Connect, Write, Close at once.
        let mut said = [None; 4];
        let mut n = 0;
        speak(&mut self.flows[f].source, &mut |what| {
            said[n] = Some(what);
            n += 1;
        });
        for what in said.into_iter().flatten() {
            match what {
                Do::Connect => self.flows[f].reconnect(now),
                Do::Write { side, bytes } => {
                    let flow = &mut self.flows[f];
                    let end = flow.end_of(side);
                    if flow.has_transfers {
                        if side == Side::Client {
                            flow.meters.transfer_since.get_or_insert(now);
                        }
                        if end == 0 {
                            flow.meters.owed += bytes;
                        }
                    }
                    if let Ends::Tcp(ends, _) = &mut flow.ends {
                        ends[end].write(bytes);
                    }
                }
                Do::Datagram { bytes } => self.send_datagram(now, f, bytes),
                Do::Close => {
                    let flow = &mut self.flows[f];
                    let client = flow.client;
                    if let Ends::Tcp(ends, _) = &mut flow.ends {
                        ends[client].close();
                    }
                }
            }
        }
    }

    fn send_datagram(&mut self, now: Time, f: usize, bytes: u32) {
        let flow = &mut self.flows[f];
        let Ends::Udp { next, .. } = &mut flow.ends else { return };
        let datagram = Datagram { seq: *next, len: bytes, sent: now };
        *next += 1;
        if now >= self.measure_from {
            flow.meters.packets_sent += 1;
        }
        let packet = Packet {
            payload: Payload::Udp(datagram),
            born: now.as_nanos(),
            flow: f as u32,
            generation: flow.generation,
            bytes: datagram.ip_bytes(),
            place: 0,
            forward: true,
            ect: false,
            ce: false,
        };
        self.emit(now, f, packet);
    }

    /// Sends what an endpoint wants to send; returns the endpoint's node.
    fn flush(&mut self, now: Time, f: usize, end: usize) -> u32 {
        let last = self.flows[f].path.len() - 1;
        let place = if end == 0 { 0 } else { last };
        let node = self.flows[f].path[place];
        loop {
            let flow = &mut self.flows[f];
            let Ends::Tcp(ends, _) = &mut flow.ends else { break };
            let Some(segment) = ends[end].poll_transmit(now) else { break };
            let data = segment.len > 0;
            let ect = segment.flags.has(Flags::ECT);
            if data && end == 0 && now >= self.measure_from {
                flow.meters.packets_sent += 1;
            }
            let packet = Packet {
                payload: Payload::Tcp(segment),
                born: now.as_nanos(),
                flow: f as u32,
                generation: flow.generation,
                bytes: segment.ip_bytes(),
                place: place as u16,
                forward: end == 0,
                ect,
                ce: false,
            };
            self.emit(now, f, packet);
        }
        node
    }

    fn rearm_flow(&mut self, f: usize) {
        let at = self.flows[f].next_deadline();
        self.timers.set(f, at);
    }

    /// A new packet leaves its endpoint.
    fn emit(&mut self, now: Time, f: usize, packet: Packet) -> u32 {
        let node = self.flows[f].path[packet.place as usize];
        let handle = self.packets.insert(packet);
        self.transit(now, node, handle, true);
        handle
    }

    /// A frame comes from outside into one of the external flows.
    pub fn inject(&mut self, now: Time, f: usize, bytes: u32) -> u32 {
        if now >= self.measure_from {
            self.flows[f].meters.packets_sent += 1;
        }
        let packet = Packet {
            payload: Payload::External,
            born: now.as_nanos(),
            flow: f as u32,
            generation: 0,
            bytes,
            place: 0,
            forward: true,
            ect: false,
            ce: false,
        };
        let handle = self.emit(now, f, packet);
        let node = self.flows[f].path[0];
        match self.flows[f].forward[0] {
            Hop::Wire { .. } => {}
            Hop::Radio { .. } | Hop::Broadcast => self.kicks.push(NodeId(node)),
        }
        handle
    }

    /// A packet at a node, new there: through the control's classes, if any take it, and on.
    fn transit(&mut self, now: Time, node: u32, handle: u32, local: bool) {
        if let Some(set) = self.classes_at[node as usize] {
            let p = self.packets.get(handle);
            let set = set as usize;
            let taken = match self.classes[set].point {
                Point::Local => local,
                Point::Transit | Point::Interface => true,
            };
            if taken
                && p.forward
                && p.is_data()
                && let Some(class) = self.classes[set].classify(p.flow)
            {
                let item = p.item(handle);
                let verdict = self.classes[set].enqueue(now, class, item);
                if verdict == Verdict::Marked {
                    self.packets.get_mut(handle).ce = true;
                }
                if let Some(lost) = refused(verdict, handle) {
                    let lost = self.packets.remove(lost);
                    self.flows[lost.flow as usize].meters.drops.limiter += 1;
                }
                self.drain(now, set);
                return;
            }
        }
        self.pass(now, node, handle);
    }

    /// Lets go what a node's classes release.
    pub fn drain(&mut self, now: Time, set: usize) {
        let node = self.classes[set].node;
        while let Some(item) = self.classes[set].dequeue(now) {
            self.pass(now, node.0, item.handle);
        }
        let slot = self.classes_slot(set);
        self.timers.set(slot, self.classes[set].next_ready(now));
        if node.index() < self.interfaces.len() {
            self.kicks.push(node);
        }
    }

    /// A packet is done with the classes of a node: to its endpoint or into the next queue.
    pub fn pass(&mut self, now: Time, node: u32, handle: u32) {
        let p = self.packets.get(handle);
        if let Some(left) = self.left[node as usize].get_mut(p.flow as usize)
            && p.forward
            && p.is_data()
        {
            left.packets += 1;
            left.bytes += u64::from(p.bytes);
        }
        let f = p.flow as usize;
        let end = if p.forward { self.flows[f].path.len() - 1 } else { 0 };
        if p.place as usize == end {
            self.deliver(now, handle);
        } else {
            self.forward(now, handle);
        }
    }

    /// Puts a packet into the queue of its next hop.
    fn forward(&mut self, now: Time, handle: u32) {
        let p = self.packets.get(handle);
        let (f, place) = (p.flow as usize, p.place as usize);
        let flow = &self.flows[f];
        let hop = if p.forward { flow.forward[place] } else { flow.back[place - 1] };
        match hop {
            Hop::Radio { .. } | Hop::Broadcast => {
                let n = flow.path[place] as usize;
                let item = p.item(handle);
                let i = &mut self.interfaces[n];
                i.count(now);
                let verdict = i.queue.enqueue(now, item, i.held, &mut i.rng);
                if verdict == Verdict::Marked {
                    self.packets.get_mut(handle).ce = true;
                }
                if let Some(lost) = refused(verdict, handle) {
                    let lost = self.packets.remove(lost);
                    self.flows[lost.flow as usize].meters.drops.queue += 1;
                }
            }
            Hop::Wire { direction } => {
                let (d, bytes) = (direction as usize, p.bytes);
                if self.wires[d].send(now, handle, bytes) {
                    let slot = self.wire_slot(d);
                    self.timers.set(slot, self.wires[d].next_deadline());
                } else {
                    self.packets.remove(handle);
                    self.flows[f].meters.drops.wire += 1;
                }
            }
        }
    }

    /// A packet has reached the next node on its path.
    fn arrive(&mut self, now: Time, node: u32, handle: u32) {
        let p = self.packets.get_mut(handle);
        if p.forward {
            p.place += 1;
        } else {
            p.place -= 1;
        }
        self.transit(now, node, handle, false);
    }

    /// A packet has reached its destination.
    fn deliver(&mut self, now: Time, handle: u32) {
        let p = self.packets.remove(handle);
        let f = p.flow as usize;
        let end = usize::from(p.forward);
        let measuring = now >= self.measure_from;
        let flow = &mut self.flows[f];
        if p.forward && p.is_data() && measuring {
            flow.meters.packets_delivered += 1;
            flow.meters.delay.record(now.as_nanos() - p.born);
        }
        let delivered = match (&mut flow.ends, &p.payload) {
            (Ends::Tcp(ends, _), Payload::Tcp(segment)) => {
                if p.generation != flow.generation {
                    self.stale += 1;
                    return;
                }
                ends[end].on_segment(now, segment, p.ce).delivered
            }
            (Ends::Udp { sink, .. }, Payload::Udp(datagram)) => {
                sink.on_datagram(now, datagram);
                u64::from(datagram.len)
            }
            (Ends::External, Payload::External) => {
                let node = NodeId(flow.path[1]);
                self.arrivals.push(Arrival { at: now, node, frame: Frame(handle) });
                u64::from(p.bytes)
            }
            _ => 0,
        };
        self.arrived += 1;
        if delivered > 0 {
            self.delivered(now, f, end, delivered, measuring);
        }
        if matches!(self.flows[f].ends, Ends::Tcp(..)) {
            self.flush(now, f, end);
            self.rearm_flow(f);
        }
    }

    /// Application bytes have arrived in order at one end.
    fn delivered(&mut self, now: Time, f: usize, end: usize, bytes: u64, measuring: bool) {
        let flow = &mut self.flows[f];
        if end == 1 {
            let m = &mut flow.meters;
            m.delivered += bytes;
            if measuring {
                m.delivered_measured += bytes;
            }
            if flow.has_transfers {
                m.owed = m.owed.saturating_sub(bytes);
                if m.owed == 0
                    && let Some(since) = m.transfer_since.take()
                    && measuring
                {
                    m.completed += 1;
                    m.transfers.record((now - since).as_nanos());
                }
            }
        }
        if flow.has_transfers {
            let side = if end == flow.client { Side::Client } else { Side::Server };
            self.application(now, f, |source, out| source.on_delivered(now, side, bytes, out));
        }
    }
}

/// The packet a verdict gives back, if any.
fn refused(verdict: Verdict, offered: u32) -> Option<u32> {
    match verdict {
        Verdict::Queued | Verdict::Marked => None,
        Verdict::Dropped(_) => Some(offered),
        Verdict::Evicted(item, _) => Some(item.handle),
    }
}

impl Interface {
    /// Brings the queue-length integral up to date; call before the length changes.
    #[inline]
    pub fn count(&mut self, now: Time) {
        let at = now.as_nanos();
        let length = self.length();
        // Propagation delays let callbacks run a little ahead of the clock.
        self.area += u128::from(length) * u128::from(at.saturating_sub(self.counted));
        self.counted = self.counted.max(at);
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

impl<const WATCH: bool> Upper for Net<'_, WATCH> {
    const OBSERVE: bool = WATCH;

    #[inline]
    fn pull(&mut self, now: Time, node: NodeId) -> Option<Outgoing> {
        let n = node.index();
        let i = &mut self.interfaces[n];
        i.count(now);
        let Some(item) = i.queue.dequeue(now) else {
            let ready = i.queue.next_ready(now);
            let slot = self.interface_slot(n);
            self.timers.set(slot, ready);
            return None;
        };
        i.held = Backlog { packets: 1, bytes: u64::from(item.bytes) };
        let p = self.packets.get(item.handle);
        let flow = &self.flows[p.flow as usize];
        let place = p.place as usize;
        let hop = if p.forward { flow.forward[place] } else { flow.back[place - 1] };
        if WATCH {
            self.snapshots[n] = self.air_packet(item.handle);
        }
        let link = match hop {
            Hop::Radio { link } => Some(link),
            Hop::Broadcast => None,
            Hop::Wire { .. } => return None,
        };
        Some(Outgoing { packet: item.handle, link, bytes: item.bytes })
    }

    #[inline]
    fn received(&mut self, now: Time, node: NodeId, _: NodeId, packet: u32, broadcast: bool) {
        if broadcast {
            // The packet stays with its sender, for the next receiver.
            self.arrivals.push(Arrival { at: now, node, frame: Frame(packet) });
            return;
        }
        self.arrive(now, node.0, packet);
    }

    #[inline]
    fn sent(&mut self, now: Time, node: NodeId, report: &SendReport) {
        let i = &mut self.interfaces[node.index()];
        i.count(now);
        i.held = Backlog::NONE;
        if report.outcome == Outcome::Lost {
            let p = self.packets.remove(report.packet.packet);
            self.flows[p.flow as usize].meters.drops.retry_limit += 1;
        } else if report.packet.link.is_none() {
            // A broadcast has been heard by whoever could.
            self.packets.remove(report.packet.packet);
            self.arrived += 1;
        }
    }

    #[inline]
    fn on_air(&mut self, f: &OnAir) {
        let Some(observer) = &mut self.observer else { return };
        let kind = match f.kind {
            fairmesh_wifi::FrameKind::Data => FrameKind::Data,
            fairmesh_wifi::FrameKind::Ack => FrameKind::Ack,
            fairmesh_wifi::FrameKind::Rts => FrameKind::Rts,
            fairmesh_wifi::FrameKind::Cts => FrameKind::Cts,
            fairmesh_wifi::FrameKind::Noise => return,
        };
        observer.frame(&AirFrame {
            start: f.start,
            end: f.end,
            kind,
            from: f.from,
            to: f.to,
            rate: self.rates[f.rate.index()],
            mpdu_bytes: f.bytes,
            duration_us: f.nav.as_nanos().div_ceil(1000) as u16,
            retry: f.retry,
            sequence: f.sequence,
            packet: if f.packet.is_some() { self.snapshots[f.from.index()] } else { None },
        });
    }
}

impl<const WATCH: bool> Net<'_, WATCH> {
    /// What an observer sees of a packet; `None` if only the outside knows what it is.
    fn air_packet(&self, handle: u32) -> Option<AirPacket> {
        let p = self.packets.get(handle);
        let payload = match p.payload {
            Payload::Tcp(s) => AirPayload::Tcp(s),
            Payload::Udp(d) => AirPayload::Udp { sequence: d.seq },
            Payload::External => return None,
        };
        let path = &self.flows[p.flow as usize].path;
        let (first, last) = (NodeId(path[0]), NodeId(path[path.len() - 1]));
        let (source, destination) = if p.forward { (first, last) } else { (last, first) };
        Some(AirPacket {
            flow: fairmesh_units::FlowId(p.flow),
            source,
            destination,
            ip_bytes: p.bytes,
            ce: p.ce,
            ect: p.ect,
            payload,
        })
    }
}
