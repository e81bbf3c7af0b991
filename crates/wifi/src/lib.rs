//! 802.11: airtime arithmetic, the DCF, the medium between stations, frame errors, rate adaptation.
//!
//! [`Air`] is the whole radio, sans-IO: the host asks for the next deadline, lets the step happen,
//! and is called back through [`Upper`] for packets. A frame carries a list of MPDUs: one with 802.11a, b
//! and g, up to 256 with 802.11n, ac and ax ([`mcs`]). A new PHY is a rate table and a duration rule
//! ([`phy`], [`airtime`]); a new error process a variant of [`loss::FrameErrors`]; a new rate
//! adaptation a variant of [`adapt::Adapter`]. Model page: docs/models/radio.md.

mod access;
pub mod adapt;
mod aggregate;
mod air;
pub mod airtime;
mod ampdu;
pub mod amsdu;
mod batch;
mod categories;
mod config;
mod counters;
mod edca;
mod exchange;
mod frame;
mod full_frame;
pub mod loss;
pub mod mcs;
mod mpdu;
mod msdus;
mod neighbours;
mod noise;
mod packet;
pub mod phy;
pub mod propagation;
mod reorder;
pub mod spectrum;
mod station;
mod steps;
mod survival;
mod upper;
mod waveform;

pub use access::{Access, AccessParameters, Edca};
pub use air::{Air, Setup};
pub use batch::Batch;
pub use config::{Adaptation, Hearing, MacConfig, NoiseSource, Reception};
pub use counters::{ChannelTime, MacCounters};
pub use frame::{BlockAck, FrameKind, OnAir, OnAirMpdu, Subframe};
pub use full_frame::FullFrame;
pub use packet::{LinkId, Outcome, Outgoing, SendReport};
pub use upper::Upper;
