//! CE marks and early drops by an eBPF program at an interface's egress.
//!
//! Files: `asm` assembles instructions, `program` loads and runs them by bpf(2), `rule` is the program that marks,
//! `marker` attaches it and sets its chances. No compiler and no library of BPF is needed.

pub mod asm;
mod marker;
pub mod program;
mod rule;

pub use marker::{Hook, MarkCounters, Marker};
pub use rule::{MarkRule, NotEct, Spacing};
