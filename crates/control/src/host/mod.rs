//! What every host of mechanisms does the same way, whatever it is made of.
//!
//! A host is the simulator's node, the gateway's daemon, or whatever else runs a [`Control`]. It
//! brings its senses and its hands ([`Node`]); the [`Driver`] does the rest: it takes samples in
//! the contract's order, calls the mechanism, turns its actions into [`Effect`]s with the reason
//! of each, keeps its deadlines, and contains a mechanism that breaks the contract. What a host
//! builds of a plan stands in its offers ([`PointOffer`]); what it does not is refused by name.
//!
//! `docs/control.md`, "Contract", has both sides in words.

#[cfg(feature = "conformance")]
pub mod conformance;
mod driver;
mod effect;
mod offers;
mod signs;
mod standing;
#[cfg(test)]
mod tests;

pub use driver::{Driver, Node, Samples};
pub use effect::{Effect, EffectKind};
pub use offers::{ClassKind, ClassOffer, Lack, LeafKind, LimitKind, PointOffer, Unbuildable};
pub use signs::Signs;
