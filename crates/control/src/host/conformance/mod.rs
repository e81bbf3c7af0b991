//! One suite for every host: what it accepts it does, what it cannot do it refuses by name.
//!
//! A host under test is a [`Subject`]: it starts a mechanism, lets traffic flow, and says what is in
//! force, read from where packets are served rather than from what was asked for. The suite
//! ([`hold`]) runs every registered mechanism with each of its variants, and a mechanism of its own
//! ([`probe`]) that does everything the host offers, one thing after the other; it keeps its own
//! account of what each of them heard and did, and compares.
//!
//! [`mutants`] shows that the suite notices: a host that loses one single effect, kind of sample or
//! reason does not pass.

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
    /// What it may send.
    pub limit: Limit,
    /// Where its packets wait.
    pub leaf: Leaf,
    /// What may leave back to back.
    pub burst: Bytes,
}

/// What becomes of packets by chance.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct ChanceInForce {
    /// Probability of a mark, and how marks fall.
    pub mark: (f64, Marking),
    /// Probability of a loss.
    pub drop: f64,
}

/// A host under test, with traffic of its own: flows in both directions through its gateway. What
/// it does not offer it need not answer.
pub trait Subject {
    /// What it offers.
    fn offers(&self) -> Offers;

    /// The nodes at which it would run a mechanism.
    fn sites(&self) -> Vec<Site>;

    /// Starts a mechanism, once.
    ///
    /// # Errors
    /// Its refusal, in words.
    fn start(&mut self, mechanism: &Mechanism) -> Result<(), String>;

    /// Lets everything before `until` happen.
    fn advance(&mut self, until: Time);

    /// How long after its time a deadline may come.
    fn lateness(&self) -> Span {
        Span::ZERO
    }

    /// How packets of this class are served at a node; `None` if no class takes them.
    fn class(&self, node: NodeId, class: Class) -> Option<ClassInForce>;

    /// What chance does to packets of this class.
    fn chance(&self, _node: NodeId, _class: Class) -> ChanceInForce {
        ChanceInForce::default()
    }

    /// What is written into a field of packets of this class.
    fn field(&self, _node: NodeId, _class: Class, _slot: u8) -> Option<(Merge, u32)> {
        None
    }

    /// The bits in a node's acknowledgements.
    fn ack_bits(&self, _node: NodeId) -> u8 {
        0
    }

    /// The spacing of a flow's segments, and whether its window still counts.
    fn pace(&self, _flow: FlowId) -> Option<(Option<Span>, bool)> {
        None
    }

    /// Messages asked for so far: in the air, and outside it.
    fn messages(&self) -> (u64, u64) {
        (0, 0)
    }

    /// Packets lost so far, for whatever cause, those not accounted for included.
    fn lost(&self) -> u64;

    /// How often a decision with this code was recorded at a node.
    fn decided(&self, node: NodeId, code: &str) -> u64;
}
