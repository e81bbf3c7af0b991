//! `run`, `compare`, `sweep`.

use std::path::PathBuf;

use clap::Args;

use fairmesh_front::args::{CacheArgs, RevisionArgs, StoreArgs, ThreadArgs};
use fairmesh_lab::Seeds;
use fairmesh_units::Span;

use super::shared::{SampleArgs, ScenarioArgs, SetArgs, Share};

/// `fairmesh run`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  fairmesh run scenarios/stack.toml\n  \
                        fairmesh run scenarios/stack.toml --control source --seed 7 --pcap stack.pcap\n  \
                        fairmesh run scenarios/stack.toml --trace stack.pftrace --from \"31.2 s\" --for \"500 ms\"")]
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
    #[command(flatten)]
    #[allow(missing_docs)]
    pub set: SetArgs,
    /// Write the frames on the air to a capture file for Wireshark, in a folder that exists
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
    /// Capture only frames that this node sends and receives; of repeated or forwarded ones, the MAC header
    #[arg(long, value_name = "NODE", requires = "pcap")]
    pub pcap_at: Option<String>,
    /// Write every frame, backoff and queue of a window as a timeline for Perfetto, in a folder that exists
    #[arg(long, value_name = "FILE", conflicts_with = "pcap")]
    pub trace: Option<PathBuf>,
    /// Start of the timeline; by default the end of the warm-up
    #[arg(long, value_name = "TIME", requires = "trace")]
    pub from: Option<Span>,
    /// Length of the timeline, at most 60 s
    #[arg(long = "for", value_name = "TIME", requires = "trace", default_value = "500 ms")]
    pub length: Span,
    /// Run independent parts of the mesh on all cores, and report the reasons that join others
    ///
    /// The record is that of a run of the whole, fingerprint and number of events apart
    #[arg(long, conflicts_with_all = ["pcap", "trace"])]
    pub islands: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub threads: ThreadArgs,
    /// Write a result folder (JSON, Parquet, report.html)
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    /// Write the mesh as NetJSON with the run's measures in `properties`, in a folder that exists
    #[arg(long, value_name = "FILE")]
    pub netjson: Option<PathBuf>,
    /// Print the run's record as one JSON object
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub store: StoreArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub revision: RevisionArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub sample: SampleArgs,
}

/// `fairmesh compare`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    fairmesh compare scenarios/stack.toml --control fifo,source\n  \
    fairmesh compare map.netjson --gateway 10.254.0.10 --flows up --control fifo,source --seeds 5\n  \
    fairmesh compare scenarios/stack.toml --control fifo,wcp --optimum\n  \
    fairmesh compare scenarios/chain-3-up.toml --control fifo --seeds 10 --json")]
pub struct CompareArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub scenario: ScenarioArgs,
    /// Controls, separated by commas; the scenario's own by default
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub control: Vec<String>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub set: SetArgs,
    /// Seeds: N for 1 to N, or a range such as 11..=20
    #[arg(long, value_name = "SEEDS", default_value = "5")]
    pub seeds: Seeds,
    /// Result folder; results/SCENARIO-CONTROLS by default, none with --json
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    /// Print a line for every flow; by default, of more than ten, the worst ten and a summary by hops
    #[arg(long)]
    pub all: bool,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub json: bool,
    /// Also show the rates of each flow and control relative to the optimum: the max-min rates that
    /// the simulator carries, searched first or taken from the store (docs/models/optimum.md)
    #[arg(long)]
    pub optimum: bool,
    /// Unit of sharing in the optimum; by default the scenario's subscribers, or each flow
    #[arg(long, value_name = "UNIT", requires = "optimum")]
    pub per: Option<Share>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub cache: CacheArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub store: StoreArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub revision: RevisionArgs,
    /// Capture the first seed of every control to FOLDER/CONTROL.pcap; the folder must exist
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
    Values that are not numbers, true or false are taken as text. A plan file (docs/sweeps.md) has several scenarios,\n\
    keys that vary together, filters and adaptive seeds.\n\nExamples:\n  \
    fairmesh sweep plan.toml --out sweeps/plan\n  \
    fairmesh sweep scenarios/chain-3-up.toml --vary radio.rts=false,true --out sweeps/rts\n  \
    fairmesh sweep scenarios/chain-3-udp-up.toml --vary 'traffic.traffic.rate=100 kbit/s,150 kbit/s' \\\n    \
    --control fifo,source --seeds 10 --out sweeps/load\n\n\
    An interrupted sweep continues where it stopped when it is started again; several processes may\n\
    work on one sweep. One stored run of each control is repeated first: if its result differs, or the\n\
    store has runs of another revision of fairmesh, nothing is run or mixed. --fresh removes all stored\n\
    runs; --keep leaves those of the other revision unused."
)]
pub struct SweepArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub scenario: ScenarioArgs,
    /// A setting and its values, KEY=V1,V2,…; several of them make a grid. A plan has its own
    #[arg(long, value_name = "KEY=VALUES")]
    pub vary: Vec<String>,
    /// Controls, separated by commas; the scenario's own by default
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub control: Vec<String>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub set: SetArgs,
    /// Seeds: N for 1 to N, or a range such as 11..=20; 5 by default, or those of the plan
    #[arg(long, value_name = "SEEDS")]
    pub seeds: Option<Seeds>,
    /// Folder for the results and, in store, for each run when it is complete
    #[arg(long, value_name = "FOLDER")]
    pub out: PathBuf,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub revision: RevisionArgs,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub threads: ThreadArgs,
    /// Scheduler of a Dask cluster for the runs, such as tcp://10.0.0.1:8786
    ///
    /// The Python package fairmesh of this revision must be installed
    #[arg(long, value_name = "ADDRESS", conflicts_with = "threads")]
    pub on: Option<String>,
}
