//! The simulator's radio as the medium of real 802.11 stacks.
//!
//! A [`Medium`] carries the frames of stations. Their MAC management, queues and rate control are
//! another program's, such as Linux's mac80211 behind `mac80211_hwsim`. Channel access, collisions,
//! frame errors, aggregation and airtime are those of [`fairmesh_wifi::Air`], as in
//! `fairmesh run`. The other side is a [`Kernel`]: it takes the frames that arrive and the transmit
//! status of those it sent.
//!
//! Sans-IO: time is an argument. `fairmesh_emulator::medium` is the driver for Linux.
//! docs/medium.md is the page for users.

mod agreements;
mod beacons;
mod frame;
mod medium;
mod rates;
mod station;

pub use frame::{Address, Frame};
pub use medium::{Kernel, Medium, MediumError, Reception, Status};
pub use rates::{RateChoice, RateFlags, UnknownRate};
pub use station::StationCounters;
