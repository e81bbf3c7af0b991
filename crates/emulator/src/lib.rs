//! The emulator: real Linux network stacks over the simulator's radio, in real time.
//!
//! [`emulate`] creates one network namespace per node, connects each to the engine by TAP devices,
//! and runs the engine in real time. Forwarding, queues below the applications and TCP are the
//! kernel's; medium access and reception are simulated by the same code as in `fairmesh run`.
//! [`medium`] makes the same radio the medium of real 802.11 stacks.
//! docs/emulator.md lists the differences.

// The rest of the workspace takes time as an argument; this crate provides it.
#![allow(clippy::disallowed_methods)]

mod children;
mod clock;
mod engine;
mod error;
pub mod frame;
pub mod lateness;
pub mod medium;
mod network;
mod options;
mod outcome;
pub mod plan;
mod run;
mod settings;
mod stalls;
pub mod switch;
mod traffic;

pub use error::EmulatorError;
pub use network::{Network, clean};
pub use options::{EmulateOptions, Routing};
pub use outcome::Outcome;
pub use run::{Progress, check, emulate};
pub use settings::{KernelCongestion, TcpSettings};
