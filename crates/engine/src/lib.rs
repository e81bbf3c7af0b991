//! The simulated world: radio, queues, transports and applications of one scenario.
//!
//! A [`Simulation`] owns a validated [`Scenario`](fairmesh_scenario::Scenario), advances in steps
//! of any size and ends with a [`record::RunRecord`]; [`run`] does this in one call. The engine
//! does not read a clock: two runs of one scenario and seed are bit-identical on any machine.

mod airs;
mod classes;
mod control_loop;
mod error;
pub mod external;
mod fair;
mod host;
mod island_rates;
mod islands;
mod link_model;
mod listeners;
pub mod measures;
mod model;
mod net;
pub mod observe;
pub mod record;
mod revision;
mod shares;
mod simulation;
mod world;

pub use error::{Conflict, EngineError};
pub use fair::FairRates;
pub use host::controlled_nodes;
pub use island_rates::fair_rates;
pub use islands::{Island, IslandLink, Islands, islands};
pub use model::CapacityModel;
pub use observe::Observer;
pub use revision::REVISION;
pub use simulation::{
    CancelToken, FlowSnapshot, Inputs, QueueSnapshot, Simulation, Snapshot, Status,
    needs_fair_rates, run, run_observed, run_observed_until, run_under,
};
pub use world::{RunOptions, subscribers};
