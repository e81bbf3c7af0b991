//! Parts that are common to all hosts of mechanisms.
//!
//! A host is the simulator's node, the gateway's daemon, or any other program that runs a [`Control`](crate::Control).
//! It provides the sensors and actuators ([`Node`]). The [`Driver`] does the rest: it takes samples in the contract's
//! order, calls the mechanism, passes each [`Action`](crate::Action) that the contract allows to the host with its
//! reason, keeps its deadlines, and contains a mechanism that breaks the contract. The offers of a host list the parts
//! of a plan that it builds ([`PointOffer`]); other parts are refused by name.
//!
//! `docs/control.md`, "Contract", describes both sides; `docs/control-hosts.md` the work of a host.

#[cfg(feature = "conformance")]
pub mod conformance;
pub(crate) mod delivery;
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
pub use offers::{
    ClassKind, ClassOffer, LeafKind, LimitKind, PointOffer, Unbuildable, UnbuildablePart,
};
pub use probes::{Probe, Probes};
pub use signs::Signs;
pub use spin::Spin;
pub use trips::{Answer, Data, RoundTripLook, RoundTrips, Side, Trip, Trips};
