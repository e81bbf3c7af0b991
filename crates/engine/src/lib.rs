//! The simulated world: radio, queues, transports and applications of one scenario, run to its end.
//!
//! [`run`] takes a validated [`Scenario`](fairmesh_scenario::Scenario) and a seed and gives a
//! [`record::RunRecord`]. The engine never reads a clock: two runs of one scenario and seed are the
//! same to the last bit, on any machine.

mod airtime;
mod collect;
mod error;
mod fair;
mod flow;
mod host;
mod link_model;
pub mod live;
pub mod measures;
mod model;
mod net;
pub mod observe;
mod outside;
mod packet;
pub mod record;
mod run;
mod shaping;
mod steer;
mod taps;
mod wire;
mod world;

pub use error::EngineError;
pub use fair::{FairRates, fair_rates};
pub use host::controlled_nodes;
pub use model::CapacityModel;
pub use observe::Observer;
pub use run::{run, run_observed, run_under};
pub use world::RunOptions;
