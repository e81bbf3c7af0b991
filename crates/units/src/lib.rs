//! Quantities with units, identifiers and named random streams.
//!
//! Everything above this crate uses these types. Time is an integer count of nanoseconds and
//! radio power an integer count of attowatts, so that adding and removing the same contributions
//! always gives back the same number: a run is bit-exact on every machine.

mod deadlines;
mod id;
mod parse;
mod power;
mod quantity;
mod rng;
mod time;
mod tournament;

pub use deadlines::Deadlines;
pub use id::{FlowId, NodeId};
pub use parse::{QuantityError, Unit};
pub use power::{Decibel, Power};
pub use quantity::{BitRate, Bytes, Distance, Frequency, Probability};
pub use rng::Stream;
pub use time::{Span, Time};
pub use tournament::Tournament;
