//! Analytic capacity models: what a mesh could carry, to print beside what it did carry.
//!
//! - [`link`]: the nominal capacity of one link, from the MAC's arithmetic;
//! - [`bianchi`]: many saturated stations in one cell;
//! - [`domain`]: which links share the air with which (Jamshaid 2010 §4.1);
//! - [`maxmin`]: water-filling over shared resources (Jamshaid 2010 §7.2);
//! - [`fair`]: all of it together, from nodes, paths and rates to fair rates per flow.
//!
//! Rates are bits of application payload per second and times are seconds, both `f64`: they are
//! solutions of equations, not measurements. See docs/models/capacity.md.

pub mod bianchi;
pub mod domain;
pub mod fair;
pub mod link;
pub mod maxmin;
