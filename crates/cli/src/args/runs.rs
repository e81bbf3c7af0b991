//! `run`, `compare`, `sweep`, `demo`.

use std::path::PathBuf;

use clap::Args;
use fairmesh_units::Span;

use super::shared::{SampleArgs, ScenarioArgs, ThreadArgs};

/// `fairmesh run`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  fairmesh run scenarios/stack.toml\n  \
                        fairmesh run scenarios/stack.toml --control source --seed 7 --pcap stack.pcap")]
pub struct RunArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub scenario: ScenarioArgs,
    /// Seed of every random stream
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Control instead of the scenario's
    #[arg(long, value_name = "NAME")]
    pub control: Option<String>,
    /// Write the frames on the air to a capture file for Wireshark
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
    /// Capture only what this node sends and receives
    #[arg(long, value_name = "NODE", requires = "pcap")]
    pub pcap_at: Option<String>,
    /// Write a result folder (JSON, Parquet, report.html)
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    /// Print the run's record as one JSON object
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub sample: SampleArgs,
}

/// `fairmesh demo`.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "The daemon's command runs in the gateway's namespace. It finds its interfaces in \
    FAIRMESH_MESH\nand FAIRMESH_WIRED and the homes, name=address, in FAIRMESH_SUBSCRIBERS.\n\n\
    Example:\n  sudo fairmesh demo --live --daemon './my-shaper --on $FAIRMESH_WIRED'"
)]
pub struct DemoArgs {
    /// Emulate a starving mesh, watch it, turn the gateway's daemon on (root)
    #[arg(long, required = true)]
    pub live: bool,
    /// Scenario instead of the built-in chain of four homes
    #[arg(long, value_name = "FILE")]
    pub scenario: Option<PathBuf>,
    /// Shell command that is the daemon
    #[arg(long, value_name = "COMMAND")]
    pub daemon: Option<String>,
    /// When it is turned on; by default after a third of the time
    #[arg(long, value_name = "TIME")]
    pub after: Option<Span>,
    /// How long the whole takes
    #[arg(long, value_name = "TIME")]
    pub duration: Option<Span>,
}

/// `fairmesh compare`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    fairmesh compare scenarios/stack.toml --control fifo,source\n  \
    fairmesh compare map.netjson --gateway 10.254.0.10 --flows up --control fifo,source --seeds 5\n  \
    fairmesh compare scenarios/chain.toml --control fifo --seeds 10 --json")]
pub struct CompareArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub scenario: ScenarioArgs,
    /// Controls, separated by commas; the scenario's own by default
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub control: Vec<String>,
    /// Number of seeds: 1, 2, … N
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub seeds: u32,
    /// Result folder; results/SCENARIO-CONTROLS by default, none with --json
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub json: bool,
    /// Capture the first seed of every control to FOLDER/CONTROL.pcap
    #[arg(long, value_name = "FOLDER")]
    pub pcap: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub threads: ThreadArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub sample: SampleArgs,
}

/// `fairmesh sweep`.
#[derive(Args, Debug)]
#[command(
    after_help = "A key is a path in the scenario file; * stands for every element of a list. \
    Values that are not numbers, true or false are taken as text.\n\nExamples:\n  \
    fairmesh sweep scenarios/chain.toml --vary radio.rts=false,true --out sweeps/rts\n  \
    fairmesh sweep scenarios/chain-udp.toml --vary 'flow.*.traffic.rate=100 kbit/s,150 kbit/s' \\\n    \
    --control fifo,source --seeds 10 --out sweeps/load\n\n\
    An interrupted sweep goes on where it stopped when started again."
)]
pub struct SweepArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub scenario: ScenarioArgs,
    /// A setting and its values, KEY=V1,V2,…; several of them make a grid
    #[arg(long, value_name = "KEY=VALUES", required = true)]
    pub vary: Vec<String>,
    /// Controls, separated by commas; the scenario's own by default
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub control: Vec<String>,
    /// Number of seeds: 1, 2, … N
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub seeds: u32,
    /// Folder for the journal of finished runs and the results
    #[arg(long, value_name = "FOLDER")]
    pub out: PathBuf,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub threads: ThreadArgs,
}
