//! One suite for every host: an accepted request is carried out, others are refused by name.
//!
//! A host under test is a [`Subject`]: it starts a mechanism, generates traffic, and reports the
//! settings in force, read at the point where packets are served rather than from the requests. The
//! suite ([`hold`]) runs every registered mechanism with each of its variants, and a mechanism of
//! its own ([`probe`]) that uses every capability of the host, one after the other. It keeps its
//! own record of the events and actions of each mechanism, and compares.
//!
//! [`mutants`] shows that the suite detects faults: a host that loses a single effect, kind of
//! sample or reason does not pass.

mod account;
pub(super) mod lost;
mod probe;
mod spy;
mod suite;

use fairmesh_units::{Bytes, FlowId, NodeId, Span, Time};

use crate::{Class, Leaf, Limit, Marking, Mechanism, Merge, Offers, Site};

pub use lost::Mutation;
pub use suite::{Summary, hold, mutants};

/// A class as a host serves it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ClassInForce {
    /// Limit of the class.
    pub limit: Limit,
    /// Queue of its packets.
    pub leaf: Leaf,
    /// Bytes that may leave back to back.
    pub burst: Bytes,
}

/// Random treatment of packets.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct ChanceInForce {
    /// Probability of a mark, and the distribution of the marks.
    pub mark: (f64, Marking),
    /// Probability of a loss.
    pub drop: f64,
}

/// A host under test, with traffic of its own: flows in both directions through its gateway.
///
/// Methods for capabilities that it does not offer need no implementation.
pub trait Subject {
    /// Returns its capabilities.
    fn offers(&self) -> Offers;

    /// Returns the nodes at which it would run a mechanism.
    fn sites(&self) -> Vec<Site>;

    /// Starts a mechanism, once.
    ///
    /// # Errors
    /// Returns the refusal, as text.
    fn start(&mut self, mechanism: &Mechanism) -> Result<(), String>;

    /// Runs up to `until`, exclusive.
    fn advance(&mut self, until: Time);

    /// Returns the largest delay of a deadline after its time.
    fn lateness(&self) -> Span {
        Span::ZERO
    }

    /// Returns the treatment of packets of this class at a node; `None` if no class takes them.
    fn class(&self, node: NodeId, class: Class) -> Option<ClassInForce>;

    /// Returns the random treatment of packets of this class.
    fn chance(&self, _node: NodeId, _class: Class) -> ChanceInForce {
        ChanceInForce::default()
    }

    /// Returns the merge rule and value written into a field of packets of this class.
    fn field(&self, _node: NodeId, _class: Class, _slot: u8) -> Option<(Merge, u32)> {
        None
    }

    /// Returns the bits in a node's acknowledgements.
    fn ack_bits(&self, _node: NodeId) -> u8 {
        0
    }

    /// Returns the spacing of a flow's segments; the bool is true if its window still applies.
    fn pace(&self, _flow: FlowId) -> Option<(Option<Span>, bool)> {
        None
    }

    /// Returns the number of messages requested so far: in the air, and outside it.
    fn messages(&self) -> (u64, u64) {
        (0, 0)
    }

    /// Returns the number of packets lost so far, for any cause, unaccounted packets included.
    fn lost(&self) -> u64;

    /// Returns the number of times that a decision with this code was recorded at a node.
    fn decided(&self, node: NodeId, code: &str) -> u64;
}
