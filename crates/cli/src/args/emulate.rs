//! `emulate`, `medium`, `demo`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use fairmesh_units::Span;

use fairmesh_lab::changes::Assignment;

use super::shared::{ChangeArgs, SampleArgs};

/// `fairmesh emulate`.
#[derive(Args, Clone, Debug, Default)]
#[command(
    after_help = "Every node becomes a network namespace; frames pass through the simulated \
    radio.\n\nExamples:\n  \
    sudo fairmesh emulate scenarios/chain-3-up.toml --duration '60 s' --beside --out results/chain\n  \
    sudo fairmesh emulate scenarios/stack.toml --congestion cubic\n  \
    sudo fairmesh emulate scenarios/chain-3-up.toml --no-traffic --exec 0 'iperf3 -s' --shell 3\n  \
    sudo fairmesh emulate --clean",
    mut_arg("duration", |a| a.help("Emulated time, which is real time, instead of the scenario's"))
)]
pub struct EmulateArgs {
    /// Scenario file: TOML, NetJSON NetworkGraph or meshviewer.json
    #[arg(required_unless_present = "clean")]
    pub scenario: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub changes: ChangeArgs,
    /// Seed of the radio's and the traffic's random streams
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The kernel's congestion control: each flow its scenario's, or one for all
    #[arg(long, value_name = "NAME", value_enum, default_value_t = CongestionArg::Scenario)]
    pub congestion: CongestionArg,
    /// The kernel's TCP: with the scenario's settings as far as it has them, or as it comes
    #[arg(long, value_name = "SETTINGS", value_enum, default_value_t = TcpArg::Scenario)]
    pub tcp: TcpArg,
    /// Routing: the scenario's paths, or a daemon in every namespace
    #[arg(long, value_name = "SOURCE", value_enum, default_value_t = RoutingArg::Static)]
    pub routing: RoutingArg,
    /// Resolve hardware addresses over the air (ARP) instead of knowing them
    #[arg(long)]
    pub arp: bool,
    /// Let the time that the kernel takes to forward or answer a frame pass on the air, too
    #[arg(long)]
    pub kernel_time: bool,
    /// Start only the network, without the scenario's traffic
    #[arg(long)]
    pub no_traffic: bool,
    /// Start a shell command in a node's namespace; may be given several times
    #[arg(long, num_args = 2, value_names = ["NODE", "COMMAND"], action = clap::ArgAction::Append)]
    pub exec: Vec<String>,
    /// Open a shell in a node's namespace; the run ends when it does
    #[arg(long, value_name = "NODE", conflicts_with = "duration")]
    pub shell: Option<String>,
    /// Controls of the gateway's daemon or of the routers' daemons, comma-separated, one emulation
    /// each; "fifo" is the mesh without daemons
    #[arg(long, value_name = "NAMES", value_delimiter = ',', conflicts_with = "shell")]
    pub control: Vec<String>,
    /// Daemons observe: their limits are recorded, not set
    #[arg(long, requires = "control")]
    pub observe: bool,
    /// Another value for a parameter of these controls, such as epoch=2, or pfrc.epoch=2 for one
    /// of them; may be given several times
    #[arg(long, value_name = "NAME=VALUE", requires = "control")]
    pub set: Vec<Assignment>,
    /// Also simulate the scenario, and show both side by side
    #[arg(long)]
    pub beside: bool,
    /// Simulated runs of each control for --beside, with seeds from --seed on
    #[arg(long, value_name = "N", default_value_t = 1, requires = "beside")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub beside_seeds: u32,
    /// Write a result folder (JSON, Parquet, report.html)
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    /// Print the run's record as one JSON object
    #[arg(long)]
    pub json: bool,
    /// Remove what emulations that are no longer running left behind
    #[arg(long, exclusive = true)]
    pub clean: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub sample: SampleArgs,
}

/// A congestion control of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum CongestionArg {
    /// NewReno as reno, CUBIC as cubic, BBR as bbr.
    #[default]
    Scenario,
    /// NewReno.
    Reno,
    /// RFC 9438.
    Cubic,
    /// BBR.
    Bbr,
}

/// Settings of the kernel's TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum TcpArg {
    /// The scenario's.
    #[default]
    Scenario,
    /// The kernel's.
    Kernel,
}

/// Origin of the routes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum RoutingArg {
    /// The scenario's routes.
    #[default]
    Static,
    /// babeld in every namespace.
    Babeld,
}

/// `fairmesh demo`.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "The daemon's command runs in the gateway's namespace. It finds its interfaces in \
    FAIRMESH_MESH\nand FAIRMESH_WIRED and the homes, name=address, in FAIRMESH_SUBSCRIBERS.\n\n\
    Example:\n  sudo fairmesh demo --live --daemon './my-shaper --on $FAIRMESH_WIRED'"
)]
pub struct DemoArgs {
    /// Emulate a starving mesh, show its rates, and start the gateway's daemon (root)
    #[arg(long, required = true)]
    pub live: bool,
    /// Scenario instead of the built-in chain of four homes
    #[arg(long, value_name = "FILE")]
    pub scenario: Option<PathBuf>,
    /// Shell command that runs the daemon
    #[arg(long, value_name = "COMMAND")]
    pub daemon: Option<String>,
    /// Start of the daemon; by default after a third of the time
    #[arg(long, value_name = "TIME")]
    pub after: Option<Span>,
    /// Duration of the whole demonstration
    #[arg(long, value_name = "TIME")]
    pub duration: Option<Span>,
}

/// `fairmesh medium`.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Station i of the scenario is radio i of mac80211_hwsim. Mesh, rate control, queues and routing \
    are the kernel's.\n\nExamples:\n  \
    sudo modprobe mac80211_hwsim radios=4\n  \
    sudo fairmesh medium scenarios/testbed-chain-up.toml\n  \
    sudo fairmesh medium mesh.toml --duration '60 s' --json",
    mut_arg("duration", |a| a.help("End after this time; without it, at an interrupt"))
)]
pub struct MediumArgs {
    /// Scenario file: TOML, NetJSON NetworkGraph or meshviewer.json
    pub scenario: PathBuf,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub changes: ChangeArgs,
    /// Seed of the radio's random streams
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Send data frames at the scenario's rates instead of the kernel's
    #[arg(long)]
    pub scenario_rates: bool,
    /// Pass frames for other stations to monitor interfaces
    #[arg(long)]
    pub overhear: bool,
    /// Print the results as JSON
    #[arg(long)]
    pub json: bool,
}
