//! 802.11: airtime arithmetic, the DCF, the medium between stations, frame errors, rate adaptation.
//!
//! [`Air`] is the whole radio, sans-IO: the host asks for the next deadline, lets the step happen,
//! and is called back through [`Upper`] for packets. A new PHY is a rate table and a duration rule
//! ([`phy`], [`airtime`]); a new error process a variant of [`loss::FrameErrors`]; a new rate
//! adaptation a variant of [`adapt::Adapter`]. Model page: docs/models/radio.md.

pub mod adapt;
mod air;
pub mod airtime;
mod config;
mod counters;
mod exchange;
pub mod loss;
mod mpdu;
mod neighbours;
mod noise;
pub mod phy;
pub mod propagation;
mod station;
mod upper;
mod waveform;

pub use air::{Air, Setup};
pub use config::{Adaptation, Hearing, MacConfig, NoiseSource, Reception};
pub use counters::{ChannelTime, MacCounters};
pub use upper::{FrameKind, LinkId, OnAir, OnAirMpdu, Outcome, Outgoing, SendReport, Upper};
