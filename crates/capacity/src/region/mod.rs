//! The achievable rate region of an 802.11 mesh.
//!
//! Rangwala 2008 §3.2, after Jindal and Psounis.
//!
//! Domains and cliques assume a scheduler. Here the DCF itself is the scheduler: a link's expected
//! service time grows with the collisions at its receiver and the share of time in which its sender
//! finds the medium busy, and both grow with the rates of the surrounding links. Rates are
//! achievable if every node's queue is stable: Σ λ E\[S\] ≤ U over its outgoing links.
//!
//! Layers, each of which uses those before it:
//!
//! 1. `types`: inputs and results; `pair`: two links at a time; `independent_sets`: links on the
//!    air together; `timing`: durations;
//! 2. `network`: the checked input; `interference`: interference relations of each link;
//! 3. `retry_chain`: one frame and its attempts; `unknowns`: the variables to be solved for;
//! 4. `arrivals`, `collisions`: the equations; `anderson`: acceleration; `fixed_point`;
//! 5. `link_region`: loads on links; `flow_region`: rates of flows; `boundary`: their boundary.
//!
//! docs/notes/2026-11-region.md has the equations, every assumption, and a comparison with the simulator.

mod anderson;
mod arrivals;
mod boundary;
mod collisions;
mod fixed_point;
mod flow_region;
mod independent_sets;
mod interference;
mod link_region;
mod network;
mod pair;
mod retry_chain;
mod timing;
mod types;
mod unknowns;

pub use boundary::{MAX_CONCESSION, MIN_GAIN_OF_CONCESSION, Point, Section};
pub use flow_region::{Mesh, Region};
pub use link_region::LinkRegion;
pub use pair::PairClass;
pub use types::{
    LinkMesh, LinkState, Load, MEET_AGAIN, NoState, NodeState, Outside, RegionError, Retries,
    Settings, State, Stream,
};
