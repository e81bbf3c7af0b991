//! The 802.11 radio: the DCF, the medium between stations, frame errors, rate adaptation.
//!
//! [`Air`] is the whole radio, sans-IO: the host requests the next deadline, runs the step, and is
//! called back through [`Upper`] for packets. A frame carries a list of MPDUs: one with 802.11a, b
//! and g, up to 256 with 802.11n, ac and ax. Rates and durations are those of `fairmesh-phy`. A new error
//! process is a variant of [`loss::FrameErrors`]; a new rate adaptation a variant of [`adapt::Adapter`].
//! Model page: docs/models/radio.md.

mod access;
pub mod adapt;
mod aggregate;
mod air;
mod ampdu;
pub mod amsdu;
mod attempts;
mod batch;
mod categories;
mod config;
mod counters;
mod edca;
mod exchange;
mod frame;
pub mod loss;
mod losses;
mod mpdu;
mod msdus;
mod neighbours;
mod noise;
mod ns2;
mod packet;
pub mod propagation;
mod reorder;
mod state;
mod station;
mod steps;
mod survival;
mod upper;

pub use access::{Access, AccessParameters, Edca};
pub use air::{Air, Setup};
pub use batch::Batch;
pub use config::{Adaptation, MacConfig, MacRules, NoiseSource, Ns2Rules, Reception, SensedPair};
pub use counters::{ChannelTime, MacCounters};
pub use frame::{BlockAck, FrameKind, OnAir, OnAirMpdu, Subframe};
pub use losses::{AttemptOutcome, LinkLosses};
pub use packet::{AttemptRate, LinkId, Outcome, Outgoing, SendReport};
pub use state::{Backoff, MacState};
pub use upper::Upper;
