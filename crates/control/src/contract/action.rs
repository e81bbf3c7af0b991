//! Actions that a mechanism may take.

use core::fmt;

use fairmesh_units::{BitRate, FlowId, NodeId, Probability, Span};

use crate::{HEADER_FIELDS, Header, Reason, Share};

/// A class of traffic at one node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    /// All traffic at the plan's [`crate::Point`].
    All,
    /// One flow's data.
    Flow(FlowId),
    /// All packets sent to one neighbour.
    Link(NodeId),
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Class::All => f.write_str("all traffic"),
            Class::Flow(flow) => write!(f, "flow {}", flow.0),
            Class::Link(node) => write!(f, "traffic to node {}", node.0),
        }
    }
}

/// Rule by which a header field changes in a packet that already carries one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Merge {
    /// Overwrite it.
    Set,
    /// Keep the larger value.
    Max,
    /// Keep the smaller value; a field that is still 0 counts as unset.
    Min,
    /// Set bits that are not set.
    Or,
}

impl Header {
    /// Writes one field; a slot that does not exist is ignored.
    pub fn write(&mut self, slot: u8, merge: Merge, value: u32) {
        if let Some(field) = self.0.get_mut(usize::from(slot)) {
            *field = match merge {
                Merge::Set => value,
                Merge::Max => value.max(*field),
                Merge::Min if *field == 0 => value,
                Merge::Min => value.min(*field),
                Merge::Or => value | *field,
            };
        }
    }
}

/// Receivers of a message outside the air ([`Action::HandOver`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// One node, at any number of hops.
    Node(NodeId),
    /// All nodes within this number of hops of the sender, over links in either direction.
    Within(u32),
    /// All other gateways, over the wired network behind them.
    ///
    /// Messages are delayed and can be lost.
    Gateways,
}

/// Distribution of marks over packets.
///
/// ECT(1) packets are never marked: their senders expect marks with another meaning (RFC 9331 §5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Marking {
    /// True if marks are spread evenly over the packets that may be marked.
    ///
    /// The distance between two marks is then 2/3 to 4/3 of 1 / probability packets, on average 1 /
    /// probability. With an independent chance per packet, marks come in clusters (Floyd, Jacobson 1993 §7).
    pub even: bool,
}

/// A decision. Its setting stays in force until it is replaced.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Action {
    /// Limits a class to a rate of IP bytes.
    ///
    /// A class that the plan does not list is built from its template.
    SetRate {
        /// The class.
        class: Class,
        /// New rate; `None` lifts the limit.
        rate: Option<BitRate>,
    },
    /// Limits a class to a share of the airtime.
    SetAirtime {
        /// The class.
        class: Class,
        /// New share.
        share: Share,
    },
    /// Removes a class built from the template; its queued packets must not be lost.
    Remove {
        /// The class.
        class: Class,
    },
    /// Sets CE in ECN-capable packets of a class with this probability.
    Mark {
        /// The class.
        class: Class,
        /// Probability per packet.
        probability: Probability,
        /// Codepoints that are marked, and the distribution of the marks.
        how: Marking,
    },
    /// Drops packets of a class with this probability.
    Drop {
        /// The class.
        class: Class,
        /// Probability per packet.
        probability: Probability,
    },
    /// Writes a header field into every packet of a class that leaves this node.
    ///
    /// This includes local and forwarded packets, data and acknowledgements.
    Annotate {
        /// The class.
        class: Class,
        /// Index of the field.
        slot: u8,
        /// Rule for a packet that already carries the field.
        merge: Merge,
        /// Value of the field.
        value: u32,
    },
    /// Sends a control message; [`Actions::body`] returns its bytes.
    Send {
        /// The neighbour; `None` for a broadcast to all neighbours.
        to: Option<NodeId>,
        /// Offset of its first byte.
        start: u32,
        /// Number of its bytes.
        len: u32,
    },
    /// Sends a control message to a node that may be several hops away.
    ///
    /// It follows the routes of the mesh like other packets and may be lost; [`Actions::body`] returns its bytes.
    Route {
        /// The node.
        to: NodeId,
        /// Offset of its first byte.
        start: u32,
        /// Number of its bytes.
        len: u32,
    },
    /// Delivers a message outside the air, as an [`crate::Event::Message`] of this node.
    ///
    /// To other gateways it travels over the wire, as a datagram. To other nodes it arrives at once, without airtime
    /// and without loss: an ideal that no router has, the "central repository" of Rangwala 2008 §4.1.
    HandOver {
        /// Receivers; the sender is never a receiver.
        reach: Reach,
        /// Offset of its first byte.
        start: u32,
        /// Number of its bytes.
        len: u32,
    },
    /// Carries these bits in every later MAC acknowledgement of this node.
    ///
    /// A spare code of the frame control field can carry them; 0 is a plain acknowledgement.
    AckBits {
        /// The bits.
        bits: u8,
    },
    /// Spaces new data of a local TCP flow at least this far apart, whatever its window allows.
    Pace {
        /// The flow.
        flow: FlowId,
        /// Time from one segment to the next; `None` leaves the spacing to the window.
        interval: Option<Span>,
        /// True if the congestion window still applies.
        ///
        /// Otherwise the flow is a rate-based transport with TCP's reliability: all segments, retransmissions included,
        /// go at this spacing, with at most 64 KiB in the network.
        window: bool,
    },
    /// The reason for the actions that follow in the same buffer, up to the next reason.
    Because(Reason),
}

macro_rules! action_kinds {
    ($( $(#[$doc:meta])* $kind:ident = $name:literal, )+) => {
        /// A kind of [`Action`].
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum ActionKind { $( $(#[$doc])* $kind, )+ }

        impl ActionKind {
            /// Every kind.
            pub const ALL: &'static [ActionKind] = &[$(ActionKind::$kind),+];
            /// Returns the name of the kind in messages.
            pub const fn name(self) -> &'static str {
                match self { $(ActionKind::$kind => $name),+ }
            }
        }

        impl Action {
            /// Returns the kind of the action.
            pub const fn kind(&self) -> ActionKind {
                match self { $(Action::$kind { .. } => ActionKind::$kind),+ }
            }
        }
    };
}

action_kinds! {
    /// [`Action::SetRate`].
    SetRate = "set a rate",
    /// [`Action::SetAirtime`].
    SetAirtime = "set a share of the airtime",
    /// [`Action::Remove`].
    Remove = "remove a class",
    /// [`Action::Mark`].
    Mark = "mark packets",
    /// [`Action::Drop`].
    Drop = "drop packets",
    /// [`Action::Annotate`].
    Annotate = "write a header field",
    /// [`Action::Send`].
    Send = "send a message",
    /// [`Action::Route`].
    Route = "send a message over several hops",
    /// [`Action::HandOver`].
    HandOver = "hand a message over outside the air",
    /// [`Action::AckBits`].
    AckBits = "set bits of acknowledgements",
    /// [`Action::Pace`].
    Pace = "pace a flow",
    /// [`Action::Because`].
    Because = "give a reason",
}

/// A reusable buffer of actions: once it has grown, filling it allocates nothing.
#[derive(Clone, Default, Debug)]
pub struct Actions {
    list: Vec<Action>,
    bodies: Vec<u8>,
    discards_reasons: bool,
}

impl Actions {
    /// An empty buffer that keeps reasons.
    pub fn new() -> Self {
        Actions::default()
    }

    /// An empty buffer that discards reasons, for hosts that do not record them.
    pub fn without_reasons() -> Self {
        Actions { discards_reasons: true, ..Actions::default() }
    }

    /// The actions, in the order given.
    pub fn iter(&self) -> impl Iterator<Item = &Action> {
        self.list.iter()
    }

    /// True if the buffer has no action.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Empties it for the next call.
    pub fn clear(&mut self) {
        self.list.clear();
        self.bodies.clear();
    }

    /// Returns the bytes of a message in this buffer; empty for other actions.
    ///
    /// Messages are [`Action::Send`], [`Action::Route`] and [`Action::HandOver`].
    pub fn body(&self, action: &Action) -> &[u8] {
        match *action {
            Action::Send { start, len, .. }
            | Action::Route { start, len, .. }
            | Action::HandOver { start, len, .. } => {
                let start = start as usize;
                self.bodies.get(start..start + len as usize).unwrap_or(&[])
            }
            _ => &[],
        }
    }

    /// Adds the reason for the actions that follow.
    pub fn because(&mut self, reason: Reason) {
        if !self.discards_reasons {
            self.list.push(Action::Because(reason));
        }
    }

    /// [`Action::SetRate`] to a rate.
    pub fn set_rate(&mut self, class: Class, rate: BitRate) {
        self.list.push(Action::SetRate { class, rate: Some(rate) });
    }

    /// [`Action::SetRate`] without a rate: lifts the limit.
    pub fn lift_limit(&mut self, class: Class) {
        self.list.push(Action::SetRate { class, rate: None });
    }

    /// [`Action::SetAirtime`].
    pub fn set_airtime(&mut self, class: Class, share: Share) {
        self.list.push(Action::SetAirtime { class, share });
    }

    /// [`Action::Remove`].
    pub fn remove(&mut self, class: Class) {
        self.list.push(Action::Remove { class });
    }

    /// [`Action::Mark`] of ECT(0) packets only, each with an independent chance.
    ///
    /// The probability is clamped to 0…1.
    pub fn mark(&mut self, class: Class, probability: f64) {
        self.mark_as(class, probability, Marking::default());
    }

    /// [`Action::Mark`]; the probability is clamped to 0…1.
    pub fn mark_as(&mut self, class: Class, probability: f64, how: Marking) {
        let probability = Probability(Share::new(probability).get());
        self.list.push(Action::Mark { class, probability, how });
    }

    /// [`Action::Drop`]; the probability is clamped to 0…1.
    pub fn drop(&mut self, class: Class, probability: f64) {
        let probability = Probability(Share::new(probability).get());
        self.list.push(Action::Drop { class, probability });
    }

    /// [`Action::Annotate`]. `slot` must be below [`HEADER_FIELDS`].
    pub fn annotate(&mut self, class: Class, slot: u8, merge: Merge, value: u32) {
        debug_assert!(usize::from(slot) < HEADER_FIELDS);
        self.list.push(Action::Annotate { class, slot, merge, value });
    }

    /// [`Action::AckBits`].
    pub fn ack_bits(&mut self, bits: u8) {
        self.list.push(Action::AckBits { bits });
    }

    /// [`Action::Pace`] with an interval.
    pub fn pace(&mut self, flow: FlowId, interval: Span) {
        self.list.push(Action::Pace { flow, interval: Some(interval), window: true });
    }

    /// [`Action::Pace`] with an interval in place of the congestion window.
    pub fn clock(&mut self, flow: FlowId, interval: Span) {
        self.list.push(Action::Pace { flow, interval: Some(interval), window: false });
    }

    /// [`Action::Pace`] without an interval.
    pub fn unpace(&mut self, flow: FlowId) {
        self.list.push(Action::Pace { flow, interval: None, window: true });
    }

    /// [`Action::Send`] with these bytes.
    pub fn send(&mut self, to: Option<NodeId>, body: &[u8]) {
        let (start, len) = self.keep(body);
        self.list.push(Action::Send { to, start, len });
    }

    /// [`Action::Route`] with these bytes.
    pub fn route(&mut self, to: NodeId, body: &[u8]) {
        let (start, len) = self.keep(body);
        self.list.push(Action::Route { to, start, len });
    }

    /// [`Action::HandOver`] with these bytes.
    pub fn hand_over(&mut self, reach: Reach, body: &[u8]) {
        let (start, len) = self.keep(body);
        self.list.push(Action::HandOver { reach, start, len });
    }

    /// Appends an action of another buffer; its bytes, if any, are not copied.
    pub(crate) fn push(&mut self, action: Action) {
        match action {
            Action::Because(reason) => self.because(reason),
            other => self.list.push(other),
        }
    }

    fn keep(&mut self, body: &[u8]) -> (u32, u32) {
        let start = self.bodies.len() as u32;
        self.bodies.extend_from_slice(body);
        (start, body.len() as u32)
    }
}
