//! What a mechanism may do.

use core::fmt;

use fairmesh_units::{BitRate, FlowId, NodeId, Probability, Span};

use crate::{Header, Reason, SLOTS, Share};

/// A class of traffic at one node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    /// All traffic at the plan's [`crate::Point`].
    All,
    /// One flow's data.
    Flow(FlowId),
    /// Everything sent to one neighbour.
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

/// How a header field changes in a packet that already carries one.
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

/// Receivers of a message outside the air ([`Action::Tell`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// One node, however far.
    Node(NodeId),
    /// All nodes within so many hops of the sender, over links in either direction.
    Within(u32),
    /// All other gateways, over the wires behind them: not at once, and not for sure.
    Gateways,
}

/// Distribution of marks over packets. ECT(1) packets are never marked: their senders expect marks of another
/// meaning (RFC 9331 §5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Marking {
    /// Spread evenly over the packets that may be marked: from one mark to the next it is between
    /// 2/3 and 4/3 of 1 / probability packets, on average 1 / probability. Where each packet has a
    /// chance of its own, marks come in clusters (Floyd, Jacobson 1993 §7).
    pub even: bool,
}

/// A decision. What it sets stays in force until it is set anew.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Action {
    /// Limit a class to a rate of IP bytes. A class that the plan does not list is built from its
    /// template.
    SetRate {
        /// Which class.
        class: Class,
        /// Its new rate; `None` lifts the limit.
        rate: Option<BitRate>,
    },
    /// Limit a class to a share of the airtime.
    SetAirtime {
        /// Which class.
        class: Class,
        /// Its new share.
        share: Share,
    },
    /// Take a class built from the template away; what waits in it must not be lost.
    Remove {
        /// Which class.
        class: Class,
    },
    /// Set CE in ECN-capable packets of a class with this probability.
    Mark {
        /// Which class.
        class: Class,
        /// Per packet.
        probability: Probability,
        /// Which codepoints, and how the marks fall.
        how: Marking,
    },
    /// Drop packets of a class with this probability.
    Drop {
        /// Which class.
        class: Class,
        /// Per packet.
        probability: Probability,
    },
    /// Write a header field into every packet of a class that leaves this node, its own and
    /// forwarded ones, data and acknowledgements.
    Annotate {
        /// Which packets.
        class: Class,
        /// Which field.
        slot: u8,
        /// How to combine it with what is there.
        merge: Merge,
        /// Its value.
        value: u32,
    },
    /// Send a control message; [`Actions::body`] has its bytes.
    Send {
        /// The neighbour; `None` for a broadcast to all neighbours.
        to: Option<NodeId>,
        /// Where its bytes start.
        start: u32,
        /// Number of its bytes.
        len: u32,
    },
    /// Send a control message to a node that may be several hops away: it travels as other packets
    /// do, by the routes of the mesh, and may be lost; [`Actions::body`] has its bytes.
    Route {
        /// The node.
        to: NodeId,
        /// Where its bytes start.
        start: u32,
        /// Number of its bytes.
        len: u32,
    },
    /// Hand a message over outside the air, as an [`crate::Event::Message`] of this node. To other gateways
    /// it travels over the wire, as a datagram. To others it arrives at once, without airtime and without
    /// loss: an ideal that no router has, the "central repository" of Rangwala 2008 §4.1.
    Tell {
        /// For whom; the sender itself hears nothing.
        reach: Reach,
        /// Where its bytes start.
        start: u32,
        /// Number of its bytes.
        len: u32,
    },
    /// Carry these bits in every MAC acknowledgement that this node sends from now on, as a spare
    /// code of the frame control field can; 0 is a plain acknowledgement.
    AckBits {
        /// The bits.
        bits: u8,
    },
    /// Send new data of a local TCP flow at least this far apart, whatever its window says.
    Pace {
        /// Which flow.
        flow: FlowId,
        /// From one segment to the next; `None` leaves it to the window.
        interval: Option<Span>,
        /// Whether its congestion window still holds it back. Without, it is a rate-based
        /// transport with TCP's reliability: all segments, repeated ones too, go at this spacing,
        /// with at most 64 KiB in the network.
        window: bool,
    },
    /// Why: explains the actions that follow it in the same buffer, up to the next reason.
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
            /// Its name in messages.
            pub const fn name(self) -> &'static str {
                match self { $(ActionKind::$kind => $name),+ }
            }
        }

        impl Action {
            /// Its kind.
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
    /// [`Action::Tell`].
    Tell = "hand a message over outside the air",
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
    silent: bool,
}

impl Actions {
    /// An empty buffer that keeps reasons.
    pub fn new() -> Self {
        Actions::default()
    }

    /// An empty buffer that throws reasons away: for hosts where nobody listens.
    pub fn silent() -> Self {
        Actions { silent: true, ..Actions::default() }
    }

    /// The actions, in the order given.
    pub fn iter(&self) -> impl Iterator<Item = &Action> {
        self.list.iter()
    }

    /// Whether nothing was asked for.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Empties it for the next call.
    pub fn clear(&mut self) {
        self.list.clear();
        self.bodies.clear();
    }

    /// The bytes of a [`Action::Send`], [`Action::Route`] or [`Action::Tell`] in this buffer; empty for
    /// anything else.
    pub fn body(&self, action: &Action) -> &[u8] {
        match *action {
            Action::Send { start, len, .. }
            | Action::Route { start, len, .. }
            | Action::Tell { start, len, .. } => {
                let start = start as usize;
                self.bodies.get(start..start + len as usize).unwrap_or(&[])
            }
            _ => &[],
        }
    }

    /// Says why the actions that follow are taken.
    pub fn because(&mut self, reason: Reason) {
        if !self.silent {
            self.list.push(Action::Because(reason));
        }
    }

    /// [`Action::SetRate`] to a rate.
    pub fn set_rate(&mut self, class: Class, rate: BitRate) {
        self.list.push(Action::SetRate { class, rate: Some(rate) });
    }

    /// [`Action::SetRate`] to none.
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

    /// [`Action::Mark`] of ECT(0) packets only, each by a chance of its own; the probability is cut
    /// to 0…1.
    pub fn mark(&mut self, class: Class, probability: f64) {
        self.mark_as(class, probability, Marking::default());
    }

    /// [`Action::Mark`]; the probability is cut to 0…1.
    pub fn mark_as(&mut self, class: Class, probability: f64, how: Marking) {
        let probability = Probability(Share::new(probability).get());
        self.list.push(Action::Mark { class, probability, how });
    }

    /// [`Action::Drop`]; the probability is cut to 0…1.
    pub fn drop(&mut self, class: Class, probability: f64) {
        let probability = Probability(Share::new(probability).get());
        self.list.push(Action::Drop { class, probability });
    }

    /// [`Action::Annotate`]. `slot` must be below [`SLOTS`].
    pub fn annotate(&mut self, class: Class, slot: u8, merge: Merge, value: u32) {
        debug_assert!(usize::from(slot) < SLOTS);
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

    /// [`Action::Tell`] with these bytes.
    pub fn tell(&mut self, reach: Reach, body: &[u8]) {
        let (start, len) = self.keep(body);
        self.list.push(Action::Tell { reach, start, len });
    }

    /// An action as another buffer has it; its bytes, if it has any, are not taken over.
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
