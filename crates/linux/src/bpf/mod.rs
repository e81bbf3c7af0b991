//! eBPF programs at an interface: marks and drops, departure times, counters of flows.
//!
//! Files: `asm` assembles instructions, `program` loads and runs them by bpf(2), `hook` attaches them, `headers` is the
//! part that finds the IP header; `rule` is the program that marks and `marker` sets its chances; `pace` is the program
//! of departure times; `flows` counts. No compiler and no library of BPF is needed.

pub mod asm;
mod flows;
mod headers;
pub(crate) mod hook;
mod marker;
pub(crate) mod pace;
pub mod program;
mod rule;

pub use flows::{FlowCount, FlowMeter, home};
pub use hook::Hook;
pub use marker::{MarkCounters, Marker};
pub use rule::{MarkRule, NotEct, Spacing};
