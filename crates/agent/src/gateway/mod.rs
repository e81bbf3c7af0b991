//! The gateway at work: what it is told, what it decides, what it finds out. No clock, no thread;
//! files and commands only in [`sources`] and [`doctor`].

pub mod config;
pub mod doctor;
#[cfg(test)]
pub(crate) mod fake;
pub mod governor;
pub mod host;
pub mod journal;
mod offers;
pub mod peers;
pub mod report;
pub mod signs;
pub mod sources;
