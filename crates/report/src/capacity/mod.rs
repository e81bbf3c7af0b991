//! What a scenario could carry: tables, drawings and pages.

mod drawing;
pub mod gap;
pub mod page;
mod phases;
pub mod region;
pub mod text;
