//! 802.11 physical layers: rate and MCS tables, waveforms, frame sizes, airtime, channels.
//!
//! Integer arithmetic on nanoseconds and bits, as the standard defines it: no medium, no stations, no
//! state. The radio (`fairmesh-wifi`), the capacity models, scenarios and the gateway daemon use it. A new
//! PHY is a rate table ([`Phy`], [`mcs`]) and a duration rule ([`Waveform`]). Model pages:
//! docs/models/airtime.md, docs/models/radios-of-today.md.

mod airtime;
pub mod frame;
mod full_frame;
pub mod mcs;
mod phy;
mod rates;
pub mod spectrum;
mod timing;
mod waveform;

pub use full_frame::FullFrame;
pub use phy::{Band, Compatibility, Modern, Phy, PhyError};
pub use rates::{Modulation, Preamble, Rate, RateInfo};
pub use timing::{PhyTiming, Response};
pub use waveform::{LONGEST_PPDU, Waveform};
