//! What several commands take.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use fairmesh_units::{BitRate, Span};

/// The scenario and what is changed about it.
#[derive(Args, Clone, Debug, Default)]
pub struct ScenarioArgs {
    /// Scenario file: TOML, NetJSON NetworkGraph or meshviewer.json
    pub scenario: PathBuf,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub changes: ChangeArgs,
}

/// What may be changed about a scenario from outside.
#[derive(Args, Clone, Debug, Default)]
pub struct ChangeArgs {
    /// Simulated time instead of the scenario's, such as "60 s"
    #[arg(long, value_name = "TIME")]
    pub duration: Option<Span>,
    /// Start of the measured interval instead of the scenario's
    #[arg(long, value_name = "TIME")]
    pub warmup: Option<Span>,
    /// Gateway, for maps: the name of a node
    #[arg(long, value_name = "ID")]
    pub gateway: Option<String>,
    /// Flows, for maps: from every node to the gateway, or the other way round
    #[arg(long, value_name = "WAY")]
    pub flows: Option<Way>,
    /// Number of flows, for maps; one per node by default
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub flow_count: Option<u32>,
    /// Data rate, for maps, such as "24 Mbit/s"
    #[arg(long, value_name = "RATE")]
    pub rate: Option<BitRate>,
}

/// Direction of the flows of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Way {
    /// From every node to the gateway.
    Up,
    /// From the gateway to every node.
    Down,
}

/// How to spread runs over the machine.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct ThreadArgs {
    /// Runs at a time; all cores by default. Results do not depend on it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,
}

/// Sampling of curves.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct SampleArgs {
    /// Interval of the curves over time; by default about 200 points per run
    #[arg(long, value_name = "TIME")]
    pub sample: Option<Span>,
}
