//! The grammar of `fairmesh-experiments`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use fairmesh_front::args::{CacheArgs, RevisionArgs, ThreadArgs};

/// Experiments with fairmesh: reproductions of the papers, comparisons, validation, benchmarks.
#[derive(Debug, Parser)]
#[command(name = "fairmesh-experiments", version, max_term_width = 100)]
#[command(after_help = "Example:\n  fairmesh-experiments reproduce jamshaid-table-6.2\n\n\
                        Every command has its own --help with examples.")]
pub struct Cli {
    /// Command to run.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run experiments: those behind the papers' tables and figures, and comparisons of all controls
    Reproduce(ReproduceArgs),
    /// Compare the simulator with ns-3 and ns-2
    Validate(ValidateArgs),
    /// Measure the simulator's speed
    Bench(BenchArgs),
    /// Compare the capacity models with the simulator on random meshes (Jamshaid 2010, Table 4.1)
    Accuracy(AccuracyArgs),
    /// Compare the boundary of the achievable rate region with the simulator on random meshes
    Boundary(BoundaryArgs),
    /// One benchmark row, in a separate process
    #[command(hide = true)]
    BenchRow(BenchRowArgs),
    /// The gateway daemon of an emulated arm, in a separate process
    #[cfg(feature = "linux")]
    #[command(hide = true)]
    Gateway {
        /// Command of the daemon.
        #[command(subcommand)]
        command: fairmesh_agent::args::GatewayCommand,
    },
}

impl Command {
    /// Returns true if the command handles interrupts itself, as the daemon does.
    pub fn handles_interrupts(&self) -> bool {
        #[cfg(feature = "linux")]
        return matches!(self, Command::Gateway { .. });
        #[cfg(not(feature = "linux"))]
        false
    }
}

/// `fairmesh-experiments validate`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  fairmesh-experiments validate --quick\n  \
                        fairmesh-experiments validate --group c,d --seeds 10\n  \
                        fairmesh-experiments validate --reference validation/ns2")]
pub struct ValidateArgs {
    /// A quick subset of the rows
    #[arg(long)]
    pub quick: bool,
    /// Only these groups of rows, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub group: Vec<String>,
    /// Seeds per row; by default the number of the reference
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub seeds: Option<u32>,
    /// Folders with reference.json and scen/, separated by commas
    #[arg(long, value_name = "FOLDERS", value_delimiter = ',',
          default_values = ["validation/ns3", "validation/ns3-modern", "validation/ns2"])]
    pub reference: Vec<PathBuf>,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub threads: ThreadArgs,
}

/// `fairmesh-experiments reproduce`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  fairmesh-experiments reproduce list\n  \
                        fairmesh-experiments reproduce jamshaid-table-6.2\n  \
                        fairmesh-experiments reproduce fig-3.2 fig-5.1 --full\n  fairmesh-experiments reproduce all\n  \
                        fairmesh-experiments reproduce side-by-side --full --map maps/freifunk-leipzig.netjson --control cna --record")]
pub struct ReproduceArgs {
    /// Experiments (a short form such as fig-3.2 is enough if one paper has it), all, list; page,
    /// which generates the pages of the stored records; or judge, which judges these again by the
    /// current declarations
    #[arg(required = true, value_name = "ID")]
    pub ids: Vec<String>,
    /// Use the paper's number of seeds, and every topology
    #[arg(long)]
    pub full: bool,
    /// Number of seeds: 1, 2, … N
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub seeds: Option<u32>,
    /// Generated networks, for experiments with such: of each family in turn
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub networks: Option<u32>,
    /// A real map, for experiments with maps; identified by its file name; may be given several times
    #[arg(long, value_name = "FILE")]
    pub map: Vec<PathBuf>,
    /// Only arms of these controls, separated by commas; with --record the stored record keeps the others
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub control: Vec<String>,
    /// Only arms that the stored record lacks; with --record they are added to it
    #[arg(long, conflicts_with = "control")]
    pub missing: bool,
    /// Store the records: reproductions/records/ID.json
    #[arg(long)]
    pub record: bool,
    /// Folder of experiments; ./reproductions by default, or the embedded ones
    #[arg(long, value_name = "FOLDER")]
    pub from: Option<PathBuf>,
    /// Folder for results, one folder per experiment; results/reproduce by default, none with
    /// --json. With page: the overview, results/pages/reproductions.md by default
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub cache: CacheArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub revision: RevisionArgs,
    /// Print one JSON array and nothing else
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub threads: ThreadArgs,
}

/// `fairmesh-experiments bench`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  fairmesh-experiments bench\n  fairmesh-experiments bench --against ns3\n  \
                        fairmesh-experiments bench --scale\n  fairmesh-experiments bench --instructions"
)]
pub struct BenchArgs {
    /// Run another simulator on the same rows in turn
    #[arg(long, value_name = "SIMULATOR")]
    pub against: Option<OtherSimulator>,
    /// Measure the cost of a transmission from 10 to 3,000 nodes at constant density
    #[arg(long, conflicts_with_all = ["against", "instructions"])]
    pub scale: bool,
    /// Count instructions under valgrind and compare them with the stored counts
    #[arg(long, conflicts_with = "against")]
    pub instructions: bool,
    /// With --instructions: rewrite the stored counts
    #[arg(long, requires = "instructions")]
    pub update: bool,
    /// File of stored instruction counts
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
pub enum OtherSimulator {
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

/// `fairmesh-experiments accuracy`.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  fairmesh-experiments accuracy 50 --flows down")]
pub struct AccuracyArgs {
    /// Number of random meshes
    #[arg(value_name = "N", value_parser = clap::value_parser!(u32).range(2..=10_000))]
    pub meshes: u32,
    /// Direction of all streams: to the gateway or from it
    #[arg(long, value_name = "WAY", default_value = "up")]
    pub flows: FlowDirection,
    /// Runs per mesh and rate
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub seeds: u32,
    /// Reception of overlapping frames
    #[arg(long, value_name = "RULE", default_value = "ns2")]
    pub reception: Reception,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub threads: ThreadArgs,
}

/// Direction of streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FlowDirection {
    /// To the gateway.
    Up,
    /// From the gateway.
    Down,
}

/// Reception rules (docs/scenarios/radio.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Reception {
    /// A receiver locks on the first frame it senses.
    Ns2,
    /// A receiver locks on frames that it can decode.
    Sinr,
}

/// `fairmesh-experiments boundary`.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  fairmesh-experiments boundary 30 --first 101 --no-rts")]
pub struct BoundaryArgs {
    /// Number of random meshes
    #[arg(value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub meshes: u32,
    /// Seed of the first mesh; the others follow
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub first: u32,
    /// Without RTS/CTS
    #[arg(long)]
    pub no_rts: bool,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub threads: ThreadArgs,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use fairmesh_front::error::OPTIONS_OF_SETTINGS;

    use super::*;

    #[test]
    fn every_command_has_an_example() {
        let command = Cli::command();
        command.clone().debug_assert();
        for sub in command.get_subcommands().filter(|c| !c.is_hide_set()) {
            let help = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("fairmesh-experiments "), "{}", sub.get_name());
        }
    }

    #[test]
    fn settings_of_the_laboratory_that_are_not_the_product_s_have_options() {
        let grammar = Cli::command();
        for (setting, flag) in
            OPTIONS_OF_SETTINGS.iter().filter(|(s, _)| ["map", "row"].contains(s))
        {
            let long = flag.trim_start_matches("--");
            let has = |c: &clap::Command| c.get_arguments().any(|a| a.get_long() == Some(long));
            assert!(grammar.get_subcommands().any(has), "{setting}: {flag}");
        }
    }
}
