//! Comparison of the simulator with ns-3 and ns-2.
//!
//! Rows of reference results are compared with runs of the same scenarios here.

pub mod reference;
pub mod scenario;
pub mod suite;
pub mod verdict;
