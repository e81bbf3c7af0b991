//! Analytic capacity models.
//!
//! They give the possible throughput of a mesh, for comparison with measured throughput.
//!
//! - [`link`]: the nominal capacity of one link, from the MAC's arithmetic;
//! - [`bianchi`]: many saturated stations in one cell;
//! - [`domain`]: links that share the air (Jamshaid 2010 §4.1);
//! - [`graph`], [`clique`]: the same relation as a graph, of links or of directed transmissions,
//!   and its maximal cliques;
//! - [`maxmin`]: water-filling over shared resources (Jamshaid 2010 §7.2);
//! - [`convex`]: proportional fairness, largest aggregate and largest utilisation over them;
//! - [`bounds`]: bounds on the aggregate at a gateway without a map (Jamshaid 2010 §7.5.2);
//! - [`fair`]: from nodes, paths and rates to max-min fair rates per flow;
//! - [`gap`]: the fluid model of a gateway with two priorities and an elastic limit (Mancuso 2010
//!   §V);
//! - [`region`]: the achievable rate region of the DCF (Rangwala 2008 §3.2);
//! - [`analysis`]: all models and criteria.
//!
//! Rates are bits of application payload per second and times are seconds, both `f64`: they are
//! solutions of equations, not measurements. See docs/models/capacity.md.

pub mod analysis;
pub mod bianchi;
pub mod bounds;
pub mod clique;
pub mod convex;
pub mod domain;
pub mod fair;
pub mod gap;
pub mod graph;
pub mod link;
pub mod maxmin;
pub mod region;
