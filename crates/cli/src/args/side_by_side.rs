//! `side-by-side`.

use std::path::PathBuf;

use clap::Args;

use super::shared::ThreadArgs;

/// `fairmesh side-by-side`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  fairmesh side-by-side --quick\n  \
    fairmesh side-by-side --map maps/freifunk-leipzig.netjson --record\n  \
    fairmesh side-by-side --map maps/freifunk-leipzig.netjson --control cna --record\n  \
    fairmesh side-by-side --check\n  \
    fairmesh side-by-side --today --quick\n  \
    fairmesh side-by-side --today --record")]
pub struct SideBySideArgs {
    /// Instead: radios, queues and transports of today, and the controls over them, on ten small networks
    #[arg(long, conflicts_with_all = ["map", "control"])]
    pub today: bool,
    /// A real map, known by its file name; may be given several times. Maps that are not given are
    /// not run
    #[arg(long, value_name = "FILE")]
    pub map: Vec<PathBuf>,
    /// A few topologies, briefly
    #[arg(long)]
    pub quick: bool,
    /// Number of seeds: 1, 2, … N
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub seeds: Option<u32>,
    /// Only these controls, separated by commas; with --record the kept record keeps the others
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub control: Vec<String>,
    /// Keep the record, and make the page and the picture from it
    #[arg(long)]
    pub record: bool,
    /// Run nothing: make the page and the picture from the kept record
    #[arg(long, conflicts_with_all = ["record", "map", "quick", "seeds", "control", "json", "out"])]
    pub page: bool,
    /// Run nothing: compare the page and the picture with what the kept record gives
    #[arg(long, conflicts_with_all = ["record", "map", "quick", "seeds", "control", "json", "out"])]
    pub check: bool,
    /// Folder of experiments; ./reproductions by default, or what the program brings along
    #[arg(long, value_name = "FOLDER")]
    pub from: Option<PathBuf>,
    /// Folder of documents
    #[arg(long, value_name = "FOLDER")]
    pub docs: Option<PathBuf>,
    /// Folder for results; results/side-by-side by default (results/today with --today), none with --json
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    /// Print the record as one JSON object and nothing else
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub threads: ThreadArgs,
}
