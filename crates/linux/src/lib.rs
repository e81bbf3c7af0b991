//! The Linux side of fairmesh: the only crate with system calls.
//!
//! - [`shaper`]: what a gateway enforces and counts. [`DataPlane`] is the contract,
//!   carried out with HTB and nftables (docs/gateway-dataplane.md).

#![allow(clippy::disallowed_methods)] // clocks and files begin here

pub mod error;
pub mod mac;
pub mod shaper;

pub use error::Error;
pub use ipnet::IpNet;
pub use mac::MacAddr;
pub use shaper::{
    Bypass, ClassCounters, ClassId, Classifier, DataPlane, Direction, Features, Installed,
    Interface, InterfaceCounters, Layout, LayoutError, LeafChoice, LeafKind, RateChange, Relaid,
    Removed, Side, Slot, Subscriber, Verification,
};
