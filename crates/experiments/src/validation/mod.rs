//! The simulator against ns-3 and ns-2: rows of reference results, the same scenarios here, verdicts.

pub mod reference;
pub mod scenario;
pub mod suite;
pub mod verdict;
