//! What a host has to do.

use fairmesh_units::{BitRate, FlowId, NodeId, Probability, Span};

use crate::{Class, ClassPlan, Marking, Merge, Reach, Share};

/// Something that a mechanism has decided and its host carries out now. What it sets stays in
/// force until it is set anew.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Effect<'a> {
    /// Build a class: of the plan, at the start; later from the plan's template, before anything
    /// else is said of it.
    Build(&'a ClassPlan),
    /// Limit a class that stands to a rate of IP bytes; `None` lifts its limit.
    SetRate {
        /// Which class.
        class: Class,
        /// Its new rate, never 0.
        rate: Option<BitRate>,
    },
    /// Limit a class that stands to a share of the airtime.
    SetAirtime {
        /// Which class.
        class: Class,
        /// Its new share.
        share: Share,
    },
    /// Take a class that stands away, with its limit; what waits in it goes on.
    Remove {
        /// Which class.
        class: Class,
    },
    /// See [`crate::Action::Mark`].
    Mark {
        /// Which packets.
        class: Class,
        /// Per packet.
        probability: Probability,
        /// Which codepoints, and how the marks fall.
        how: Marking,
    },
    /// See [`crate::Action::Drop`].
    Drop {
        /// Which packets.
        class: Class,
        /// Per packet.
        probability: Probability,
    },
    /// See [`crate::Action::Annotate`].
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
    /// See [`crate::Action::Send`].
    Send {
        /// The neighbour; `None` for all.
        to: Option<NodeId>,
        /// What it says.
        body: &'a [u8],
    },
    /// See [`crate::Action::Route`].
    Route {
        /// The node, however far.
        to: NodeId,
        /// What it says.
        body: &'a [u8],
    },
    /// See [`crate::Action::Tell`].
    Tell {
        /// For whom.
        reach: Reach,
        /// What it says.
        body: &'a [u8],
    },
    /// See [`crate::Action::AckBits`].
    AckBits {
        /// The bits.
        bits: u8,
    },
    /// See [`crate::Action::Pace`].
    Pace {
        /// Which flow.
        flow: FlowId,
        /// From one segment to the next.
        interval: Option<Span>,
        /// Whether its congestion window still holds it back.
        window: bool,
    },
}

macro_rules! effect_kinds {
    ($( $(#[$doc:meta])* $kind:ident = $name:literal, )+) => {
        /// A kind of [`Effect`].
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum EffectKind { $( $(#[$doc])* $kind, )+ }

        impl EffectKind {
            /// Every kind.
            pub const ALL: &'static [EffectKind] = &[$(EffectKind::$kind),+];
            /// What it is called in messages.
            pub const fn name(self) -> &'static str {
                match self { $(EffectKind::$kind => $name),+ }
            }
        }

        impl Effect<'_> {
            /// Its kind.
            pub const fn kind(&self) -> EffectKind {
                match self { $(Effect::$kind { .. } => EffectKind::$kind),+ }
            }
        }
    };
}

effect_kinds! {
    /// [`Effect::Build`].
    Build = "build a class",
    /// [`Effect::SetRate`].
    SetRate = "set a rate",
    /// [`Effect::SetAirtime`].
    SetAirtime = "set a share of the airtime",
    /// [`Effect::Remove`].
    Remove = "remove a class",
    /// [`Effect::Mark`].
    Mark = "mark packets",
    /// [`Effect::Drop`].
    Drop = "drop packets",
    /// [`Effect::Annotate`].
    Annotate = "write a header field",
    /// [`Effect::Send`].
    Send = "send a message",
    /// [`Effect::Route`].
    Route = "send a message over several hops",
    /// [`Effect::Tell`].
    Tell = "hand a message over outside the air",
    /// [`Effect::AckBits`].
    AckBits = "set bits of acknowledgements",
    /// [`Effect::Pace`].
    Pace = "pace a flow",
}
