//! Messages of controls on their way, and what signalling costs.

use fairmesh_control::Header;
use fairmesh_units::{NodeId, Span};
use fairmesh_wifi::{LinkId, Outgoing};

use super::{InService, Listeners};

/// Control messages that wait at a node; more are refused.
const MESSAGES: usize = 16;
/// IP and UDP headers of a control message.
pub(crate) const MESSAGE_HEADERS: u32 = 28;

/// In a message's way, for a link: the next station is another radio of the same node.
pub(crate) const BUS: LinkId = LinkId(u32::MAX);

/// A control message on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    handle: u32,
    link: Option<LinkId>,
    to: Option<NodeId>,
    bytes: u32,
}

/// What a message says, to whoever it is on its way to.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    pub origin: NodeId,
    pub body: Vec<u8>,
    /// The last first.
    pub way: Vec<(NodeId, LinkId)>,
}

/// What signalling has cost.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Signalling {
    /// Messages asked for, transmissions of them, their IP bytes and airtime.
    pub messages: u64,
    pub message_frames: u64,
    pub message_bytes: u64,
    pub message_airtime: Span,
    /// Header bytes in the air, and the airtime they took.
    pub header_bytes: u64,
    pub header_airtime: Span,
    /// Messages that found no room, or were given up by the MAC.
    pub refused: u64,
    pub lost: u64,
    /// Echo requests sent.
    pub probes: u64,
    /// Messages handed over outside the air, and their bytes.
    pub outside: u64,
    pub outside_bytes: u64,
}

impl Listeners {
    /// Keeps a message's bytes, and the nodes that it is still to pass, the last first; gives its
    /// number.
    pub fn keep(&mut self, origin: NodeId, body: &[u8], way: &[(NodeId, LinkId)]) -> u32 {
        let i = self.free.pop().unwrap_or_else(|| {
            self.messages.push(Kept::default());
            self.messages.len() as u32 - 1
        });
        let kept = &mut self.messages[i as usize];
        kept.origin = origin;
        kept.body.clear();
        kept.body.extend_from_slice(body);
        kept.way.clear();
        kept.way.extend(way.iter().rev());
        i
    }

    /// The radio of a node from which a message goes on, or where it ends, if not the one that received it.
    pub fn cross(&mut self, mut node: NodeId, message: u32) -> NodeId {
        let way = &mut self.messages[message as usize].way;
        while let Some(&(radio, BUS)) = way.last() {
            node = radio;
            way.pop();
        }
        node
    }

    /// The node after this one on the way of a message, which is now behind it; `None` at its end.
    pub fn advance(&mut self, message: u32) -> Option<(NodeId, LinkId)> {
        self.messages[message as usize].way.pop()
    }

    pub fn forget(&mut self, message: u32) {
        self.free.push(message);
    }

    /// Queues a message; they go before data, as the kernel's default discipline sends what is
    /// marked as control. Returns whether there was room.
    pub fn post(
        &mut self,
        node: usize,
        handle: u32,
        to: Option<(NodeId, LinkId)>,
        bytes: u32,
    ) -> bool {
        let Some(queue) = self.waiting.get_mut(node).filter(|q| q.len() < MESSAGES) else {
            self.signalling.refused += 1;
            return false;
        };
        queue.push_back(Waiting { handle, link: to.map(|t| t.1), to: to.map(|t| t.0), bytes });
        true
    }

    /// The next message of a node, for its MAC.
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
