//! What every host of mechanisms does the same way, whatever it is made of.
//!
//! A host is the simulator's node, the gateway's daemon, or whatever else runs a [`Control`](crate::Control). It
//! brings its senses and its hands ([`Node`]); the [`Driver`] does the rest: it takes samples in
//! the contract's order, calls the mechanism, hands each [`Action`](crate::Action) that the contract allows to the
//! host with its reason, keeps its deadlines, and contains a mechanism that breaks the contract. The
//! offers of a host list what it builds of a plan ([`PointOffer`]); the rest is refused by name.
//!
//! `docs/control.md`, "Contract", has both sides in words.

#[cfg(feature = "conformance")]
pub mod conformance;
mod driver;
mod offers;
mod probes;
mod signs;
mod spin;
mod standing;
#[cfg(test)]
mod tests;
mod trips;

pub use driver::{Driver, Node, Samples};
pub use offers::{ClassKind, ClassOffer, Lack, LeafKind, LimitKind, PointOffer, Unbuildable};
pub use probes::{Probe, Probes};
pub use signs::Signs;
pub use spin::Spin;
pub use trips::{Answer, Data, RoundTripLook, RoundTrips, Side, Trip, Trips};
