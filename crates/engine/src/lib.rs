//! The simulated world: radio, queues, transports and applications of one scenario, run to its end.
//!
//! [`run`] takes a validated [`Scenario`](fairmesh_scenario::Scenario) and a seed and gives a
//! [`record::RunRecord`]. The engine never reads a clock: two runs of one scenario and seed are the
//! same to the last bit, on any machine.

mod airs;
mod classes;
mod control_loop;
mod error;
pub mod external;
mod fair;
mod host;
mod link_model;
mod listeners;
pub mod measures;
mod model;
mod net;
pub mod observe;
pub mod record;
mod shares;
mod world;

pub use error::EngineError;
pub use fair::{FairRates, fair_rates};
pub use host::controlled_nodes;
pub use model::CapacityModel;
pub use observe::Observer;
pub use world::{RunOptions, run, run_observed, run_told, run_under, subscribers};
