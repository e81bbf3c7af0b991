//! Mechanisms that mark or drop packets, so that TCP slows down by itself.

pub(crate) mod lbm;
pub(crate) mod lred;
pub(crate) mod nred;
