//! Two links at a time: the four classes, and the effects of one link on the other.
//!
//! Rangwala 2008 §3.2.

use crate::domain::Contention;
use crate::graph::Hop;
use crate::link::Access;

/// Mutual visibility of two possibly interfering links, by transmitters T and receivers R.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PairClass {
    /// The transmitters are in range of each other, or equal.
    Coordinated,
    /// The transmitters are not, but each is in range of the other's receiver.
    NearHidden,
    /// One transmitter is in range of the other's receiver, but not vice versa.
    Asymmetric {
        /// True if the first link's transmitter is the one out of range of the other link.
        first_unaware: bool,
    },
    /// Only the receivers are in range of each other.
    FarHidden,
    /// No node of one link is in range of a node of the other.
    Independent,
}

impl PairClass {
    /// Returns the class of two links.
    pub fn of(c: &Contention, one: Hop, other: Hop) -> Self {
        let first_aware = c.in_range(one.from, other.to);
        let second_aware = c.in_range(other.from, one.to);
        if c.in_range(one.from, other.from) {
            PairClass::Coordinated
        } else if first_aware && second_aware {
            PairClass::NearHidden
        } else if first_aware || second_aware {
            PairClass::Asymmetric { first_unaware: !first_aware }
        } else if c.in_range(one.to, other.to) {
            PairClass::FarHidden
        } else {
            PairClass::Independent
        }
    }
}

/// Returns true if two links never carry exchanges together.
///
/// With RTS/CTS both ends defer every node in range; without, only senders do, and senders out of
/// range of each other overlap and collide.
pub(super) fn exclude(c: &Contention, access: Access, one: Hop, other: Hop) -> bool {
    let senders = c.in_range(one.from, other.from);
    match access {
        Access::RtsCts => PairClass::of(c, one, other) != PairClass::Independent,
        Access::Basic => senders || one.from == other.to || one.to == other.from,
    }
}

/// Effects of a second link on a first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct PairEffects {
    /// True if the first's sender detects an exchange on the second: its medium is busy.
    pub seen: bool,
    /// True if only the first's receiver detects it: attempts of the sender fail.
    pub hidden: bool,
    /// True if both senders may begin in the same slot, and the first's frame is lost.
    pub same_slot: bool,
    /// True if the second's sender may begin during the first's opening frame and destroy it.
    ///
    /// The opening frame is the RTS, or data without RTS.
    pub overtakes: bool,
    /// True if the second may be in its RTS, undetected by the first's sender until the CTS.
    pub overtaken: bool,
    /// True if the second's sender may start at the moment of the CTS that should defer it.
    ///
    /// It then destroys the data frame.
    pub misses_cts: bool,
    /// True if the second's CTS may start during the first's RTS.
    ///
    /// The CTS reaches only the first's receiver.
    pub cts: bool,
    /// True if the frame that destroys the first's opening frame is lost too, so that both retry.
    pub mutual: bool,
    /// True if, without RTS, the second's ACK may destroy the first's data frame.
    pub acks: bool,
}

impl PairEffects {
    pub fn collides(&self) -> bool {
        self.same_slot
            || self.overtakes
            || self.overtaken
            || self.misses_cts
            || self.acks
            || self.cts
    }
}

/// Returns the effects of `other` on `one`.
pub(super) fn effects(c: &Contention, access: Access, one: Hop, other: Hop) -> PairEffects {
    let senders_in_range = c.in_range(one.from, other.from);
    let sender_in_range_of_receiver = c.in_range(one.from, other.to);
    let receiver_in_range_of_sender = c.in_range(one.to, other.from);
    let receivers_in_range = c.in_range(one.to, other.to);
    // Other links of the same sender share its queue, so they never collide.
    if one.from == other.from {
        return PairEffects { seen: true, ..PairEffects::default() };
    }
    let mut t = PairEffects {
        same_slot: senders_in_range && receiver_in_range_of_sender,
        ..PairEffects::default()
    };
    let receives_frames = !senders_in_range && receiver_in_range_of_sender;
    t.mutual = sender_in_range_of_receiver && receiver_in_range_of_sender;
    match access {
        Access::RtsCts => {
            t.seen = senders_in_range || sender_in_range_of_receiver;
            t.hidden = !t.seen && (receiver_in_range_of_sender || receivers_in_range);
            t.overtakes = receives_frames;
            t.overtaken = receives_frames && sender_in_range_of_receiver;
            t.misses_cts = receives_frames;
            t.cts = t.hidden && !receiver_in_range_of_sender;
        }
        Access::Basic => {
            // The Duration field of a data frame covers its ACK: being in range of the sender
            // suffices.
            t.seen = senders_in_range || one.from == other.to;
            t.overtakes = receives_frames;
            // If both destroy each other, no exchange is active during the other: their frames
            // collide.
            t.hidden = receives_frames && !t.seen && !t.mutual;
            t.overtaken = receives_frames && !t.hidden;
            t.acks = !t.seen && receivers_in_range && !receiver_in_range_of_sender;
        }
    }
    t
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairmesh_units::NodeId;

    fn stack() -> Contention {
        let pairs = [(1, 2), (2, 3), (4, 5), (5, 6), (7, 8), (8, 9), (2, 5), (5, 8)];
        let pairs = pairs.map(|(a, b)| (NodeId(a), NodeId(b)));
        Contention::from_pairs(10, &pairs).unwrap()
    }

    fn hop(from: u32, to: u32) -> Hop {
        Hop { from: NodeId(from), to: NodeId(to) }
    }

    /// The examples of Rangwala 2008 §3.2, all from the Stack.
    #[test]
    fn the_papers_examples() {
        let c = stack();
        let class = |other| PairClass::of(&c, hop(4, 5), other);
        assert_eq!(class(hop(5, 6)), PairClass::Coordinated);
        assert_eq!(class(hop(6, 5)), PairClass::NearHidden);
        assert_eq!(class(hop(2, 3)), PairClass::Asymmetric { first_unaware: true });
        assert_eq!(class(hop(1, 2)), PairClass::FarHidden);
        let reversed = PairClass::of(&c, hop(2, 3), hop(4, 5));
        assert_eq!(reversed, PairClass::Asymmetric { first_unaware: false });
        assert_eq!(PairClass::of(&c, hop(1, 2), hop(7, 8)), PairClass::Independent);
    }

    #[test]
    fn collisions_of_the_middle_flow_of_the_stack() {
        let c = stack();
        let of = |one, other| effects(&c, Access::RtsCts, one, other);
        // 4 is out of range of the outer flows, 5 is in range.
        for other in [hop(1, 2), hop(2, 3), hop(3, 2), hop(8, 9)] {
            let t = of(hop(4, 5), other);
            assert!(t.hidden && !t.seen, "{other:?}");
        }
        // The outer flows' senders detect 4 → 5 by the CTS of 5, at node 2 but not at node 1.
        assert!(of(hop(2, 3), hop(4, 5)).seen);
        assert!(of(hop(1, 2), hop(4, 5)).hidden);
        assert!(!of(hop(5, 6), hop(4, 5)).same_slot, "6 is out of range of 4");
        assert!(of(hop(6, 5), hop(4, 5)).overtaken);
    }
}
