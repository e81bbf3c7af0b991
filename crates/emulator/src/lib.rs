//! The emulator: real Linux network stacks over the simulator's radio, in real time.
//!
//! [`emulate`] makes one network namespace per node, joins each to the engine by TAP devices and
//! runs the engine by the clock. Forwarding, queues below the applications and TCP are the
//! kernel's; who may transmit when, and what arrives, is decided by the code that
//! `fairmesh run` runs. docs/emulator.md says what differs.

// The rest of the workspace takes time as an argument; here is where it comes from.
#![allow(clippy::disallowed_methods)]

mod children;
mod clock;
mod engine;
mod error;
pub mod frame;
pub mod lateness;
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
