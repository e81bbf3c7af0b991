//! The Linux side of fairmesh: the only crate with system calls.
//!
//! - [`shaper`]: enforcement and counters of a gateway. [`Shaper`] is the contract, [`HtbShaper`] implements it with
//!   HTB and nftables (docs/gateway-dataplane.md).
//! - [`tc`]: the kernel's traffic-control messages as bytes, without a socket; [`nft`]: the rule set as text;
//!   [`nl80211`]: survey and station dumps as bytes.
//! - [`netlink`]: requests, batches, dumps; [`link`]: interfaces and their events; [`probe`]: features of this kernel;
//! - [`bpf`]: CE marks and early drops by an eBPF program;
//! - [`capture`]: TCP headers that pass an interface;
//! - [`broadcast`]: datagrams to all neighbours on an interface;
//! - [`echo`]: echo requests over an interface;
//! - [`hwsim`]: the medium's side of simulated radios;
//! - [`command`]: other programs;
//! - [`netns`], [`tap`], [`tcp`], [`realtime`]: foundations of the emulator.

#![allow(clippy::disallowed_methods)] // clocks and files begin here

pub mod bpf;
pub mod broadcast;
pub mod capture;
pub mod command;
pub mod echo;
pub mod error;
pub mod hwsim;
pub mod link;
pub mod mac;
pub mod netlink;
pub mod netns;
pub mod nft;
pub mod nl80211;
mod packet;
pub mod probe;
pub mod realtime;
pub mod shaper;
pub mod tap;
pub mod tc;
pub mod tcp;

pub use error::Error;
pub use ipnet::IpNet;
pub use mac::MacAddr;
pub use shaper::{
    AirtimeSample, AirtimeShares, Bypass, ClassCounters, ClassId, Classifier, Deviation, Direction,
    EdtShaper, Features, GatewayShaper, HtbShaper, Installed, Interface, InterfaceCounters, Layout,
    LayoutError, LeafChoice, LeafKind, LocalPlace, LocalShaper, NextHopShaper, RateChange,
    RelayoutResult, Removed, SentCounters, Shaper, ShaperChoice, ShaperKind, Side, Slot,
    Subscriber, UNLIMITED_PRIORITY, Verification,
};
