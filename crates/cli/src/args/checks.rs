//! `validate`, `fingerprints`.

use std::path::PathBuf;

use clap::Args;
use fairmesh_front::args::ThreadArgs;

use super::shared::{FlowDirection, RadioArgs};

/// `fairmesh validate`.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  fairmesh validate scenarios/stack.toml")]
pub struct ValidateArgs {
    /// Scenario file
    pub scenario: PathBuf,
    /// Gateway, for maps: the name of a node; once for each of several
    #[arg(long, value_name = "ID")]
    pub gateway: Vec<String>,
    /// Flows, for maps
    #[arg(long, value_name = "WAY")]
    pub flows: Option<FlowDirection>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub radio: RadioArgs,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub json: bool,
}

/// `fairmesh fingerprints`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  fairmesh fingerprints\n  fairmesh fingerprints --update")]
pub struct FingerprintArgs {
    /// Folder of scenario files
    #[arg(default_value = "scenarios")]
    pub scenarios: PathBuf,
    /// File of kept fingerprints
    #[arg(long, value_name = "FILE", default_value = "crates/engine/fingerprints/scenarios.json")]
    pub check: PathBuf,
    /// Rewrite the kept fingerprints
    #[arg(long)]
    pub update: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub threads: ThreadArgs,
}
