//! `validate`, `reproduce`, `bench`, `fingerprints`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::shared::{CacheArgs, RadioArgs, ThreadArgs, Way};

/// `fairmesh validate`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  fairmesh validate scenarios/stack.toml\n  \
                        fairmesh validate --quick\n  fairmesh validate --group c,d --seeds 10")]
pub struct ValidateArgs {
    /// Scenario file to check; without one, the simulator is checked against ns-3
    pub scenario: Option<PathBuf>,
    /// Gateway, for maps: the name of a node; once for each of several
    #[arg(long, value_name = "ID", requires = "scenario")]
    pub gateway: Vec<String>,
    /// Flows, for maps
    #[arg(long, value_name = "WAY", requires = "scenario")]
    pub flows: Option<Way>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub radio: RadioArgs,
    /// A quick subset of the rows
    #[arg(long, conflicts_with = "scenario")]
    pub quick: bool,
    /// Only these groups of rows, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',', conflicts_with = "scenario")]
    pub group: Vec<String>,
    /// Seeds per row; as many as the reference has by default
    #[arg(long, value_name = "N", conflicts_with = "scenario", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub seeds: Option<u32>,
    /// Folders with reference.json and scen/, separated by commas
    #[arg(long, value_name = "FOLDERS", value_delimiter = ',',
          default_values = ["validation/ns3", "validation/ns3-modern"])]
    pub reference: Vec<PathBuf>,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub threads: ThreadArgs,
}

/// `fairmesh reproduce`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  fairmesh reproduce list\n  \
                        fairmesh reproduce jamshaid-table-6.2\n  \
                        fairmesh reproduce fig-3.2 fig-5.1 --full\n  fairmesh reproduce all")]
pub struct ReproduceArgs {
    /// Experiments (a short form such as fig-3.2 will do where one paper has it), all, list; page, which makes
    /// docs/reproductions.md and the pages beside it from the kept records; or judge, which judges these again
    /// by the declarations as they are
    #[arg(required = true, value_name = "ID")]
    pub ids: Vec<String>,
    /// As many seeds as the paper, and every topology
    #[arg(long)]
    pub full: bool,
    /// Number of seeds: 1, 2, … N
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub seeds: Option<u32>,
    /// Generated networks, where an experiment generates some: of each family in turn
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub networks: Option<u32>,
    /// Keep the records: reproductions/records/ID.json
    #[arg(long)]
    pub record: bool,
    /// With page: compare instead of writing
    #[arg(long)]
    pub check: bool,
    /// Folder of experiments; ./reproductions by default, or what the program brings along
    #[arg(long, value_name = "FOLDER")]
    pub from: Option<PathBuf>,
    /// Folder for results, one folder per experiment; results/reproduce by default, none with
    /// --json. With page: the file
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub cache: CacheArgs,
    /// Print one JSON array and nothing else
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub threads: ThreadArgs,
}

/// `fairmesh bench`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  fairmesh bench\n  fairmesh bench --against ns3\n  \
                        fairmesh bench --scale\n  fairmesh bench --instructions")]
pub struct BenchArgs {
    /// Run another simulator on the same rows in turn
    #[arg(long, value_name = "SIMULATOR")]
    pub against: Option<Against>,
    /// Cost of a transmission from 10 to 3,000 nodes at constant density
    #[arg(long, conflicts_with_all = ["against", "instructions"])]
    pub scale: bool,
    /// Count instructions under valgrind and compare them with the kept counts
    #[arg(long, conflicts_with = "against")]
    pub instructions: bool,
    /// With --instructions: rewrite the kept counts
    #[arg(long, requires = "instructions")]
    pub update: bool,
    /// File of kept instruction counts
    #[arg(long, value_name = "FILE", default_value = "validation/bench/instructions.json")]
    pub kept: PathBuf,
    /// Only these rows, separated by commas
    #[arg(long, value_name = "TAGS", value_delimiter = ',')]
    pub row: Vec<String>,
    /// Repetitions of every row
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: u32,
    /// Folders with cost.json, scen/ and the ns-3 harness, separated by commas
    #[arg(
        long,
        value_name = "FOLDERS",
        value_delimiter = ',',
        default_value = "validation/ns3,validation/ns3-modern"
    )]
    pub reference: Vec<PathBuf>,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub json: bool,
}

/// Other simulators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Against {
    /// ns-3, through the harnesses in validation/ns3 and validation/ns3-modern.
    Ns3,
}

/// One row of a benchmark; [`BenchArgs`] starts these.
#[derive(Args, Debug)]
pub struct BenchRowArgs {
    /// A row of cost.json, or `scale:N`.
    pub row: String,
    /// Folder with cost.json and scen/.
    #[arg(long, default_value = "validation/ns3")]
    pub reference: PathBuf,
    /// Simulated seconds instead of the row's.
    #[arg(long)]
    pub seconds: Option<f64>,
}

/// `fairmesh fingerprints`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  fairmesh fingerprints\n  fairmesh fingerprints --update")]
pub struct FingerprintArgs {
    /// Folder of scenario files
    #[arg(default_value = "scenarios")]
    pub scenarios: PathBuf,
    /// File of kept fingerprints
    #[arg(long, value_name = "FILE", default_value = "validation/fingerprints.json")]
    pub check: PathBuf,
    /// Rewrite the kept fingerprints
    #[arg(long)]
    pub update: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub threads: ThreadArgs,
}
