//! Messages of controls in transit, and the cost of signalling.

use fairmesh_control::Header;
use fairmesh_units::{NodeId, Span};
use fairmesh_wifi::{LinkId, Outgoing};

use super::{InService, Listeners};

/// Maximum number of control messages that wait at a node; more are refused.
const MAX_PENDING_MESSAGES: usize = 16;
/// Length of the IP and UDP headers of a control message, in bytes.
pub(crate) const MESSAGE_HEADERS: u32 = 28;

/// Link in a message's path to another radio of the same node.
pub(crate) const INTERNAL_LINK: LinkId = LinkId(u32::MAX);

/// A control message in transit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    handle: u32,
    link: Option<LinkId>,
    to: Option<NodeId>,
    bytes: u32,
}

/// Content of a message in transit.
#[derive(Clone, Debug, Default)]
pub(super) struct StoredMessage {
    pub origin: NodeId,
    pub body: Vec<u8>,
    /// Remaining path, the last node first.
    pub way: Vec<(NodeId, LinkId)>,
}

/// Cost of signalling.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Signalling {
    /// Messages requested, their transmissions, IP bytes and airtime.
    pub messages: u64,
    pub message_frames: u64,
    pub message_bytes: u64,
    pub message_airtime: Span,
    /// Header bytes on the air, and their airtime.
    pub header_bytes: u64,
    pub header_airtime: Span,
    /// Messages without room in the queue, or dropped by the MAC.
    pub refused: u64,
    pub lost: u64,
    /// Echo requests sent.
    pub probes: u64,
    /// Messages delivered outside the air, and their bytes.
    pub outside: u64,
    pub outside_bytes: u64,
}

impl Listeners {
    /// Stores a message's bytes and its remaining path, the last node first; returns its number.
    pub fn keep(&mut self, origin: NodeId, body: &[u8], way: &[(NodeId, LinkId)]) -> u32 {
        let i = self.free.pop().unwrap_or_else(|| {
            self.messages.push(StoredMessage::default());
            self.messages.len() as u32 - 1
        });
        let stored = &mut self.messages[i as usize];
        stored.origin = origin;
        stored.body.clear();
        stored.body.extend_from_slice(body);
        stored.way.clear();
        stored.way.extend(way.iter().rev());
        i
    }

    /// Returns the node's radio at which a message continues or ends, if not the receiving one.
    pub fn cross(&mut self, mut node: NodeId, message: u32) -> NodeId {
        let way = &mut self.messages[message as usize].way;
        while let Some(&(radio, INTERNAL_LINK)) = way.last() {
            node = radio;
            way.pop();
        }
        node
    }

    /// Removes and returns the next node on a message's path; `None` at its end.
    pub fn advance(&mut self, message: u32) -> Option<(NodeId, LinkId)> {
        self.messages[message as usize].way.pop()
    }

    pub fn forget(&mut self, message: u32) {
        self.free.push(message);
    }

    /// Queues a message.
    ///
    /// Messages precede data, as the kernel's default discipline sends packets marked as control.
    /// Returns true if there was room.
    pub fn post(
        &mut self,
        node: usize,
        handle: u32,
        to: Option<(NodeId, LinkId)>,
        bytes: u32,
    ) -> bool {
        let Some(queue) = self.waiting.get_mut(node).filter(|q| q.len() < MAX_PENDING_MESSAGES)
        else {
            self.signalling.refused += 1;
            return false;
        };
        queue.push_back(Waiting { handle, link: to.map(|t| t.1), to: to.map(|t| t.0), bytes });
        true
    }

    /// Returns the next message of a node, for its MAC.
    pub fn next_message(&mut self, node: usize) -> Option<Outgoing> {
        let w = self.waiting[node].pop_front()?;
        let header = Header::default();
        let (to, bytes) = (w.to, w.bytes);
        self.serve(
            node,
            w.handle,
            InService { to, flow: None, ack: false, echo: false, bytes, header, passed_up: false },
        );
        Some(Outgoing { packet: w.handle, link: w.link, bytes })
    }
}
