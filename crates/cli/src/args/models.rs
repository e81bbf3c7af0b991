//! `capacity`, `optimum`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use fairmesh_lab::analysis;

use fairmesh_front::args::{CacheArgs, RevisionArgs, ThreadArgs};

use super::shared::{FlowDirection, RadioArgs, ScenarioArgs, Share};

/// `fairmesh capacity`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  fairmesh capacity scenarios/stack.toml\n  \
    fairmesh capacity map.netjson --gateway 10.254.0.10 --flows up --html capacity.html\n  \
    fairmesh capacity scenarios/chain-8.toml --hears sense --json\n  \
    fairmesh capacity scenarios/stack.toml --model region --html region.html")]
pub struct CapacityArgs {
    /// Scenario file: TOML, NetJSON NetworkGraph or meshviewer.json
    pub scenario: PathBuf,
    /// Gateway, for maps: id, address or label of a node; once for each of several. By default the map's own
    #[arg(long, value_name = "ID")]
    pub gateway: Vec<String>,
    /// Flows, for maps: from every node to the gateway, or the other way round
    #[arg(long, value_name = "WAY")]
    pub flows: Option<FlowDirection>,
    /// Number of flows, for maps; one per node by default
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub flow_count: Option<u32>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub radio: RadioArgs,
    /// Contention in both models: between nodes that decode each other, or that sense each other.
    /// By default domains decode and cliques sense
    #[arg(long = "hears", value_name = "HOW")]
    pub contention_range: Option<ContentionRange>,
    /// Sets of links that share the air (collision domains and cliques), the achievable rate region
    /// of the DCF, or GAP's fluid model
    #[arg(long, value_name = "MODEL", default_value = "sets")]
    pub model: ModelKind,
    /// With --model region: the flows of which the rate is drawn against that of all others, by
    /// name, separated by commas
    #[arg(long, value_name = "FLOWS", value_delimiter = ',')]
    pub group: Vec<String>,
    /// With --model region: the largest share of time that a queue may be busy
    #[arg(long, value_name = "U", default_value_t = 1.0)]
    pub utilization: f64,
    /// With --model region: drop frames at the scenario's retry limits, and let at most 5 % of a
    /// flow's packets be lost; without, they are retried until they arrive
    #[arg(long)]
    pub retry_limits: bool,
    /// Draw topology, bottlenecks and contention graphs into a page; with --model gap its phase
    /// pictures, alone if the file is called *.svg
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub json: bool,
}

/// `fairmesh optimum`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  fairmesh optimum scenarios/stack.toml\n  \
    fairmesh optimum map.netjson --gateway 10.254.0.10 --flows up --flow-count 8\n  \
    fairmesh optimum scenarios/jamshaid-fig-7.3.toml --json | jq '.flows[] | {name, optimum_bps}'")]
pub struct OptimumArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub scenario: ScenarioArgs,
    /// Unit of sharing; by default the scenario's subscribers, or each flow if it has none
    #[arg(long, value_name = "UNIT")]
    pub per: Option<Share>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub cache: CacheArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub revision: RevisionArgs,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub threads: ThreadArgs,
}

/// Families of capacity models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ModelKind {
    /// Collision domains and cliques.
    Sets,
    /// The achievable rate region (docs/models/region.md).
    Region,
    /// GAP's fluid model (docs/models/gap-fluid.md).
    Gap,
}

/// Relation that decides which nodes contend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ContentionRange {
    /// Nodes that decode each other: transmission range.
    Decode,
    /// Nodes that sense each other: interference range.
    Sense,
}

impl ContentionRange {
    /// Returns the relation of the models.
    pub fn model(self) -> analysis::ContentionRange {
        match self {
            ContentionRange::Decode => analysis::ContentionRange::Decode,
            ContentionRange::Sense => analysis::ContentionRange::Sense,
        }
    }
}
