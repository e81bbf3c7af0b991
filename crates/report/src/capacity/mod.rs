//! Reports of a scenario's capacity: tables, drawings and pages.

mod drawing;
pub mod gap;
pub mod page;
mod phases;
pub mod region;
pub mod text;
