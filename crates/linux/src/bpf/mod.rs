//! eBPF programs at an interface's egress: CE marks with early drops, and departure times.
//!
//! Files: `asm` assembles instructions, `program` loads and runs them by bpf(2), `hook` attaches them, `rule` is the
//! program that marks, `marker` sets its chances, `pace` is the program of departure times. No compiler and no library of BPF is needed.

pub mod asm;
pub(crate) mod hook;
mod marker;
pub(crate) mod pace;
pub mod program;
mod rule;

pub use hook::Hook;
pub use marker::{MarkCounters, Marker};
pub use rule::{MarkRule, NotEct, Spacing};
