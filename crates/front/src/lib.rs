//! Shared parts of the command-line programs.
//!
//! They are error lines and exit codes, interrupts, progress bars, common options, and JSON output.
//!
//! A program has a grammar (a `clap` parser), commands that return [`error::CliError`], and a `main` that
//! calls [`program::main`].

// The rest of the workspace gets time and environment as arguments; front ends read them.
#![allow(clippy::disallowed_methods)]

pub mod args;
#[cfg(feature = "linux")]
pub mod emulation;
pub mod error;
pub mod interrupt;
pub mod output;
pub mod program;
pub mod terminal;
