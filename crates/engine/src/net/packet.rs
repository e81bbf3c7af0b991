//! Packets in flight, in one slab.

use fairmesh_queueing::Item;
use fairmesh_transport::{Datagram, Segment, quic};
use fairmesh_units::Time;

/// Value in place of a flow or a neighbour if there is none.
pub(crate) const NO_FLOW: u32 = u32::MAX;

/// Payload of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Payload {
    Tcp(Segment),
    Udp(Datagram),
    /// A QUIC packet with separately stored content ([`Packets::body`]); true if it has data.
    Quic {
        body: u32,
        data: bool,
    },
    /// A control's message, by number.
    Message(u32),
    /// A control's echo request or its reply, by sequence number.
    Echo {
        sequence: u16,
        answer: bool,
    },
    /// Content known only outside the engine.
    External,
}

/// An IP packet somewhere in the network.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    pub payload: Payload,
    /// Instant at which the source's transport built it, in ns.
    pub born: u64,
    pub flow: u32,
    /// Connection of the flow it belongs to; older ones are discarded on arrival.
    pub generation: u32,
    /// IP datagram length.
    pub bytes: u32,
    /// Position on the flow's path.
    pub place: u16,
    /// True from the flow's origin to its destination, false in reverse.
    pub forward: bool,
    /// True if ECN-capable.
    pub ect: bool,
    /// True if ECN-capable by ECT(1) instead of ECT(0).
    pub ect1: bool,
    pub ce: bool,
}

impl Packet {
    /// Builds a packet of one hop and of no transport.
    ///
    /// It is a frame from outside, or a control's message.
    pub fn single(payload: Payload, born: Time, flow: u32, bytes: u32) -> Self {
        Packet {
            payload,
            born: born.as_nanos(),
            flow,
            generation: 0,
            bytes,
            place: 0,
            forward: true,
            ect: false,
            ect1: false,
            ce: false,
        }
    }

    /// Returns the packet as queues see it; each direction of a flow is a separate flow there.
    ///
    /// `numbers`: those of flows where they are not their indices.
    #[inline]
    pub fn item(&self, handle: u32, numbers: &[u32]) -> Item {
        let number = numbers.get(self.flow as usize).copied().unwrap_or(self.flow);
        let flow = 2 * number + u32::from(!self.forward);
        Item { handle, bytes: self.bytes, flow, ect: self.ect, ect1: self.ect1, station: 0 }
    }

    /// Returns true if it carries application data (as opposed to a bare acknowledgement).
    pub fn is_data(&self) -> bool {
        match self.payload {
            Payload::Tcp(s) => s.len > 0,
            Payload::Quic { data, .. } => data,
            Payload::Udp(_) | Payload::External => true,
            Payload::Message(_) | Payload::Echo { .. } => false,
        }
    }
}

/// Packets by handle.
///
/// Freed slots are reused, so a run allocates as much as it ever holds.
#[derive(Debug, Default)]
pub(crate) struct Packets {
    slots: Vec<Packet>,
    free: Vec<u32>,
    created: u64,
    /// Contents of QUIC packets, which differ in length, and the free slots among them.
    bodies: Vec<quic::Packet>,
    free_bodies: Vec<u32>,
}

impl Packets {
    #[inline]
    pub fn insert(&mut self, packet: Packet) -> u32 {
        self.created += 1;
        if let Some(i) = self.free.pop() {
            self.slots[i as usize] = packet;
            i
        } else {
            self.slots.push(packet);
            self.slots.len() as u32 - 1
        }
    }

    /// Counts a packet that was refused before it was built.
    #[inline]
    pub fn count(&mut self) {
        self.created += 1;
    }

    pub fn remove(&mut self, handle: u32) -> Packet {
        self.free.push(handle);
        let packet = self.slots[handle as usize];
        if let Payload::Quic { body, .. } = packet.payload {
            self.free_bodies.push(body);
        }
        packet
    }

    /// Stores the content of a QUIC packet until the packet is removed.
    pub fn keep(&mut self, body: quic::Packet) -> Payload {
        let data = body.data() > 0;
        let place = if let Some(i) = self.free_bodies.pop() {
            self.bodies[i as usize] = body;
            i
        } else {
            self.bodies.push(body);
            self.bodies.len() as u32 - 1
        };
        Payload::Quic { body: place, data }
    }

    /// Returns the stored content; also of a packet that has just been removed.
    pub fn body(&self, body: u32) -> &quic::Packet {
        &self.bodies[body as usize]
    }

    #[inline]
    pub fn get(&self, handle: u32) -> &Packet {
        &self.slots[handle as usize]
    }

    #[inline]
    pub fn get_mut(&mut self, handle: u32) -> &mut Packet {
        &mut self.slots[handle as usize]
    }

    /// Returns the number of packets built so far.
    pub fn created(&self) -> u64 {
        self.created
    }

    /// Returns the number of packets that still exist.
    pub fn live(&self) -> u64 {
        (self.slots.len() - self.free.len()) as u64
    }
}
