//! Small sets of named kinds.

use core::fmt;

macro_rules! kinds {
    (
        $(#[$doc:meta])* $kind:ident,
        $(#[$set_doc:meta])* $set:ident {
            $( $(#[$vdoc:meta])* $variant:ident = $name:literal, )+
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum $kind { $( $(#[$vdoc])* $variant, )+ }

        impl $kind {
            /// Every kind.
            pub const ALL: &'static [$kind] = &[$($kind::$variant),+];
            /// Name in messages.
            pub const fn name(self) -> &'static str {
                match self { $($kind::$variant => $name),+ }
            }
        }

        $(#[$set_doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Default)]
        pub struct $set(u32);

        impl $set {
            /// The empty set.
            pub const NONE: $set = $set(0);
            /// Every kind.
            pub const ALL: $set = $set::of($kind::ALL);

            /// The set of these kinds.
            pub const fn of(kinds: &[$kind]) -> $set {
                let (mut bits, mut i) = (0, 0);
                while i < kinds.len() {
                    bits |= 1 << kinds[i] as u32;
                    i += 1;
                }
                $set(bits)
            }
            /// True if the set contains `kind`.
            pub const fn has(self, kind: $kind) -> bool {
                self.0 & (1 << kind as u32) != 0
            }
            /// Returns the union of both sets.
            pub const fn or(self, other: $set) -> $set {
                $set(self.0 | other.0)
            }
            /// Returns the kinds that are not in `other`.
            pub const fn without(self, other: $set) -> $set {
                $set(self.0 & !other.0)
            }
            /// True if the set is empty.
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }
            /// Returns the kinds in order.
            pub fn iter(self) -> impl Iterator<Item = $kind> {
                $kind::ALL.iter().copied().filter(move |k| self.has(*k))
            }
        }
        impl fmt::Display for $set {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                for (n, kind) in self.iter().enumerate() {
                    write!(f, "{}{}", if n > 0 { ", " } else { "" }, kind.name())?;
                }
                Ok(())
            }
        }
        impl fmt::Debug for $set {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{{{self}}}")
            }
        }
    };
}

kinds! {
    /// A kind of [`crate::Event`] that a host may deliver.
    ///
    /// [`crate::Event::Deadline`] needs no declaration.
    EventKind,
    /// A set of event kinds.
    EventSet {
        /// [`crate::Event::Counters`], before each deadline.
        Counters = "counters of its classes",
        /// [`crate::Event::FlowCounters`], before each deadline.
        FlowCounters = "counters of each flow",
        /// [`crate::Event::PathSigns`], before each deadline.
        PathSigns = "signs of each flow's path: TCP headers and round trips",
        /// Echo probes for flows with packets that give no round trip.
        ///
        /// Their round trips are in [`crate::Event::PathSigns`].
        Probes = "echo probes where packets give no round trip",
        /// [`crate::Event::Station`], before each deadline.
        Stations = "counters of each neighbour (station dump)",
        /// [`crate::Event::Channel`], before each deadline.
        Channel = "channel counters (survey)",
        /// [`crate::Event::Queue`], before each deadline.
        QueueSamples = "samples of queue lengths",
        /// [`crate::Event::Queue`], whenever a length changes.
        QueueChanges = "every change of a queue's length",
        /// [`crate::Event::Sent`], for every frame.
        Sent = "transmit status of every frame",
        /// [`crate::Event::Received`], for every data packet.
        Received = "every data packet received",
        /// [`crate::Event::Overheard`], for every data packet addressed to another node.
        Overheard = "data packets overheard",
        /// [`crate::Event::Message`] and, if the host can detect it, [`crate::Event::Restarted`].
        Messages = "control messages of other nodes",
        /// [`crate::Event::Feedback`], for every acknowledgement at a flow's source.
        Feedback = "transport feedback at the source",
        /// [`crate::Event::RoundTrip`], at most once for every acknowledgement that passes.
        RoundTrips = "round trips beyond the node of passing flows",
        /// [`crate::Event::FlowSeen`] and [`crate::Event::FlowGone`].
        Flows = "flows seen and gone",
        /// [`crate::Event::Allocation`].
        Allocations = "analytic fair rates",
        /// [`crate::Event::FlowLink`], before each deadline.
        FlowLinks = "counters of each flow on each link",
        /// [`crate::Event::Neighbours`], after a change.
        Neighbours = "changes of neighbours and of their rates",
    }
}

kinds! {
    /// Something that a host may be able to do for a mechanism.
    Ability,
    /// A set of abilities.
    AbilitySet {
        /// Queue and limit packets of local flows ([`crate::Point::Local`]).
        LimitLocal = "limit traffic sourced at the node",
        /// Queue and limit packets that cross the node ([`crate::Point::Transit`]).
        LimitTransit = "limit traffic that crosses the node",
        /// Replace the radio's transmit queue ([`crate::Point::Interface`]).
        ReplaceQueue = "replace the radio's transmit queue",
        /// Classes per flow ([`crate::Class::Flow`]).
        FlowClasses = "a class per flow",
        /// Classes per neighbour ([`crate::Class::Link`]).
        LinkClasses = "a class per neighbour",
        /// Limits in airtime ([`crate::Action::SetAirtime`]).
        Airtime = "limits in airtime",
        /// ECN marking ([`crate::Action::Mark`]).
        Mark = "mark packets with ECN",
        /// Random dropping ([`crate::Action::Drop`]).
        Drop = "drop packets at random",
        /// Header fields in data packets ([`crate::Action::Annotate`]).
        Annotate = "write header fields into data packets",
        /// Control messages ([`crate::Action::Send`]).
        Send = "send control messages",
        /// Control messages over several hops ([`crate::Action::Route`]).
        Route = "send control messages over several hops",
        /// Messages outside the air ([`crate::Action::HandOver`]).
        IdealExchange = "exchange outside the air",
        /// Messages to other gateways over the wire ([`crate::Reach::Gateways`]).
        Peers = "exchange messages with other gateways over the wire",
        /// Spare bits of MAC acknowledgements ([`crate::Action::AckBits`]).
        AckBits = "carry bits in MAC acknowledgements",
        /// Spacing of local TCP senders' new data ([`crate::Action::Pace`]).
        Pace = "pace the node's TCP senders",
    }
}

kinds! {
    /// A fact that a host may know when a mechanism is started.
    Knowledge,
    /// A set of facts.
    KnowledgeSet {
        /// [`crate::Setting::neighbours`] with rate and capacity of their links.
        LinkRates = "link rates of its neighbours",
        /// [`crate::Setting::links`] beyond the node's own.
        Topology = "links within two hops",
        /// [`crate::FlowHere::fair`] at the start.
        FairRates = "fair rate of each flow",
        /// [`crate::FlowHere::hops`].
        Hops = "hops on the path of each flow",
        /// [`crate::Setting::model`].
        LinkModel = "a model of what links can carry together",
    }
}

kinds! {
    /// A kind of node at which a mechanism runs.
    Placement,
    /// A set of kinds of nodes; the empty set means that the mechanism runs nowhere.
    PlacementSet {
        /// Gateways.
        Gateway = "gateway",
        /// Nodes one hop from a gateway.
        GatewayNeighbours = "neighbours of the gateway",
        /// Nodes that may source flows.
        Sources = "sources",
        /// Access points.
        AccessPoints = "access points",
        /// Nodes that may source flows and run this project's agent; gateways are excluded.
        Agents = "sources with an agent",
        /// All nodes.
        EveryNode = "every node",
    }
}
