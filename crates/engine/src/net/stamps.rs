//! TCP's timestamps (RFC 7323 §3) of packets in the network.
//!
//! They are stored separately if a control reads headers. Simulated segments carry them without the option's
//! 12 bytes.

use fairmesh_units::Time;

/// Timestamps of packets by handle, and of connections by flow.
#[derive(Clone, Default, Debug)]
pub(crate) struct Stamps {
    packets: Vec<[u32; 2]>,
    connections: Vec<Connection>,
}

/// The most recent connection of a flow that has sent packets.
#[derive(Clone, Copy, Default, Debug)]
struct Connection {
    generation: u32,
    /// By end: TSval of the last segment that it received; 0 before the first.
    recent: [u32; 2],
}

impl Stamps {
    /// Builds the timestamps of a network with this number of flows.
    pub fn new(flows: usize) -> Self {
        Stamps { packets: Vec::new(), connections: vec![Connection::default(); flows] }
    }

    /// Records that an end of a flow sends a packet.
    ///
    /// TSval is the time in ms from 1, TSecr the last TSval that the end received.
    pub fn send(&mut self, now: Time, handle: u32, flow: usize, generation: u32, end: usize) {
        let connection = &mut self.connections[flow];
        if generation > connection.generation {
            *connection = Connection { generation, recent: [0; 2] };
        }
        let handle = handle as usize;
        if self.packets.len() <= handle {
            self.packets.resize(handle + 1, [0; 2]);
        }
        let value = (now.as_nanos() / 1_000_000) as u32 + 1;
        self.packets[handle] = [value, connection.recent[end]];
    }

    /// Records that an end of a flow receives a packet of its present connection.
    pub fn receive(&mut self, handle: u32, flow: usize, end: usize) {
        self.connections[flow].recent[end] = self.packets[handle as usize][0];
    }

    /// Returns TSval and TSecr of a packet.
    pub fn of(&self, handle: u32) -> [u32; 2] {
        self.packets.get(handle as usize).copied().unwrap_or_default()
    }
}
