//! The command line's grammar.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use fairmesh_units::{BitRate, Span};

use crate::error::one_line;

/// Fair sharing for Wi-Fi meshes: simulate a mesh, see who starves and why.
#[derive(Debug, Parser)]
#[command(name = "fairmesh", version, max_term_width = 100)]
#[command(
    after_help = "Example:\n  fairmesh compare scenarios/stack.toml --control fifo,source\n\n\
                        Every command has its own --help with examples."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Simulate a scenario once and show what happened
    Run(RunArgs),
    /// Run a scenario in real time over real Linux network stacks (root)
    Emulate(EmulateArgs),
    /// Watch an emulated mesh starve, and what the gateway's daemon does about it (root)
    Demo(DemoArgs),
    /// Simulate a scenario under several controls, with several seeds each
    Compare(CompareArgs),
    /// Simulate a scenario for every combination of some settings
    Sweep(SweepArgs),
    /// What the flows of a scenario could have, by analytic models, and what limits them
    Capacity(CapacityArgs),
    /// Check a scenario file, or the simulator against ns-3
    Validate(ValidateArgs),
    /// Run the experiments behind the papers' tables and figures
    Reproduce(ReproduceArgs),
    /// Measure the simulator's speed
    Bench(BenchArgs),
    /// Compare the fingerprints of scenarios with kept ones
    Fingerprints(FingerprintArgs),
    /// Keep a mesh fair from its gateway: the daemon, and commands that ask it
    Gateway(GatewayArgs),
    /// List the controls
    List(ListArgs),
    /// Print the JSON schema of scenario files
    #[command(after_help = "Example:\n  fairmesh schema > scenario.schema.json")]
    Schema,
    /// One benchmark row, in a process of its own
    #[command(hide = true)]
    BenchRow(BenchRowArgs),
}

/// `fairmesh gateway`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  fairmesh gateway check --config gateway.toml\n  \
                        fairmesh gateway status\n  fairmesh gateway why \"roof 7\"")]
pub struct GatewayArgs {
    /// What to do there.
    #[command(subcommand)]
    pub command: fairmesh_agent::args::GatewayCommand,
}

/// The scenario and what may be changed about it from outside.
#[derive(Args, Clone, Debug, Default)]
pub struct ScenarioArgs {
    /// Scenario file: TOML, NetJSON NetworkGraph or meshviewer.json
    pub scenario: PathBuf,
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

/// `fairmesh emulate`.
#[derive(Args, Clone, Debug, Default)]
#[command(
    after_help = "Every node becomes a network namespace; frames pass through the simulated \
    radio.\n\nExamples:\n  \
    sudo fairmesh emulate scenarios/chain-3-up.toml --duration '60 s' --beside --out results/chain\n  \
    sudo fairmesh emulate scenarios/stack.toml --congestion cubic\n  \
    sudo fairmesh emulate scenarios/chain-3-up.toml --no-traffic --exec 0 'iperf3 -s' --shell 3\n  \
    sudo fairmesh emulate --clean"
)]
pub struct EmulateArgs {
    /// Scenario file: TOML, NetJSON NetworkGraph or meshviewer.json
    #[arg(required_unless_present = "clean")]
    pub scenario: Option<PathBuf>,
    /// Emulated time, which is real time, instead of the scenario's
    #[arg(long, value_name = "TIME")]
    pub duration: Option<Span>,
    /// Start of the measured interval instead of the scenario's
    #[arg(long, value_name = "TIME")]
    pub warmup: Option<Span>,
    /// Gateway, for maps: the name of a node
    #[arg(long, value_name = "ID")]
    pub gateway: Option<String>,
    /// Flows, for maps
    #[arg(long, value_name = "WAY")]
    pub flows: Option<Way>,
    /// Number of flows, for maps
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub flow_count: Option<u32>,
    /// Data rate, for maps
    #[arg(long, value_name = "RATE")]
    pub rate: Option<BitRate>,
    /// Seed of the radio's and the traffic's random streams
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The kernel's congestion control
    #[arg(long, value_name = "NAME", value_enum, default_value_t = CongestionArg::Reno)]
    pub congestion: CongestionArg,
    /// The kernel's TCP: with the scenario's settings as far as it has them, or as it comes
    #[arg(long, value_name = "SETTINGS", value_enum, default_value_t = TcpArg::Scenario)]
    pub tcp: TcpArg,
    /// Who finds the ways: the scenario, or a daemon in every namespace
    #[arg(long, value_name = "WHO", value_enum, default_value_t = RoutingArg::Static)]
    pub routing: RoutingArg,
    /// Resolve hardware addresses over the air (ARP) instead of knowing them
    #[arg(long)]
    pub arp: bool,
    /// Let the time the kernel takes to forward or answer a frame pass on the air, too
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
    /// Controls of the gateway's daemon, comma-separated, one emulation each; "fifo" is the mesh
    /// without the daemon
    #[arg(long, value_name = "NAMES", value_delimiter = ',', conflicts_with = "shell")]
    pub control: Vec<String>,
    /// A setting of these controls, such as epoch=2; may be given several times
    #[arg(long, value_name = "NAME=VALUE", requires = "control", value_parser = setting)]
    pub set: Vec<(String, f64)>,
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

/// `name=value` of a control's setting.
fn setting(text: &str) -> Result<(String, f64), String> {
    let parsed = text.split_once('=').and_then(|(name, value)| {
        Some((name.trim().to_owned(), value.trim().parse::<f64>().ok()?))
    });
    parsed.ok_or_else(|| "expected a name and a number, such as epoch=2".to_owned())
}

impl EmulateArgs {
    /// The scenario and what is changed about it, as other commands have it.
    pub fn scenario_args(&self) -> ScenarioArgs {
        ScenarioArgs {
            scenario: self.scenario.clone().unwrap_or_default(),
            duration: self.duration,
            warmup: self.warmup,
            gateway: self.gateway.clone(),
            flows: self.flows,
            flow_count: self.flow_count,
            rate: self.rate,
        }
    }
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

/// A congestion control of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum CongestionArg {
    /// NewReno.
    #[default]
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

/// Who finds the ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum RoutingArg {
    /// The scenario's routes.
    #[default]
    Static,
    /// babeld in every namespace.
    Babeld,
    /// The kernel's batman-adv.
    Batman,
}

/// Sampling of curves.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct SampleArgs {
    /// Interval of the curves over time; by default about 200 points per run
    #[arg(long, value_name = "TIME")]
    pub sample: Option<Span>,
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

/// `fairmesh capacity`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  fairmesh capacity scenarios/stack.toml\n  \
    fairmesh capacity map.netjson --gateway 10.254.0.10 --flows up --html capacity.html\n  \
    fairmesh capacity scenarios/chain-8.toml --hears sense --json\n  \
    fairmesh capacity scenarios/stack.toml --model region --html region.html\n  \
    fairmesh capacity --accuracy 50")]
pub struct CapacityArgs {
    /// Scenario file: TOML, NetJSON NetworkGraph or meshviewer.json
    #[arg(required_unless_present_any = ["accuracy", "boundary"], conflicts_with_all = ["accuracy", "boundary"])]
    pub scenario: Option<PathBuf>,
    /// Gateway, for maps: the name of a node
    #[arg(long, value_name = "ID", requires = "scenario")]
    pub gateway: Option<String>,
    /// Flows, for maps and --accuracy: from every node to the gateway, or the other way round
    #[arg(long, value_name = "WAY")]
    pub flows: Option<Way>,
    /// Number of flows, for maps; one per node by default
    #[arg(long, value_name = "N", requires = "scenario", value_parser = clap::value_parser!(u32).range(1..))]
    pub flow_count: Option<u32>,
    /// Data rate, for maps, such as "24 Mbit/s"
    #[arg(long, value_name = "RATE", requires = "scenario")]
    pub rate: Option<BitRate>,
    /// Who contends with whom, in both models: those who decode each other, or those who sense
    /// each other. By default domains decode and cliques sense
    #[arg(long, value_name = "HOW", requires = "scenario")]
    pub hears: Option<Hears>,
    /// Sets of links that share the air (collision domains and cliques), or the achievable rate
    /// region of the DCF
    #[arg(long, value_name = "MODEL", requires = "scenario", default_value = "sets")]
    pub model: ModelKind,
    /// With --model region: the flows whose rate is drawn against that of all others, by name,
    /// separated by commas
    #[arg(long, value_name = "FLOWS", value_delimiter = ',', requires = "scenario")]
    pub group: Vec<String>,
    /// With --model region: the largest share of time that a queue may be busy
    #[arg(long, value_name = "U", requires = "scenario", default_value_t = 1.0)]
    pub utilization: f64,
    /// With --model region: give frames up at the scenario's retry limits, and let at most 5 % of a
    /// flow's packets be lost; without, they are retried until they arrive
    #[arg(long, requires = "scenario")]
    pub retry_limits: bool,
    /// Draw topology, bottlenecks and contention graphs into a page
    #[arg(long, value_name = "FILE", requires = "scenario")]
    pub html: Option<PathBuf>,
    /// Instead of a scenario: compare the models with the simulator on so many random meshes
    /// (Jamshaid 2010, Table 4.1)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=10_000))]
    pub accuracy: Option<u32>,
    /// Instead of a scenario: compare the boundary of the achievable rate region with the simulator
    /// on so many random meshes
    #[arg(long, value_name = "N", conflicts_with = "accuracy", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub boundary: Option<u32>,
    /// With --boundary: the seed of the first mesh; the others follow
    #[arg(long, value_name = "SEED", requires = "boundary", default_value_t = 1)]
    pub first: u32,
    /// With --boundary: without RTS/CTS
    #[arg(long, requires = "boundary")]
    pub no_rts: bool,
    /// With --accuracy: runs per mesh and rate
    #[arg(long, value_name = "N", requires = "accuracy", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub seeds: u32,
    /// With --accuracy: what a receiver makes of overlapping frames
    #[arg(long, value_name = "RULE", requires = "accuracy", default_value = "ns2")]
    pub reception: Reception,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub threads: ThreadArgs,
}

/// Reception rules (docs/scenarios.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Reception {
    /// A receiver locks on the first frame it senses.
    Ns2,
    /// It locks on frames that it can decode.
    Sinr,
}

/// Families of capacity models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ModelKind {
    /// Collision domains and cliques.
    Sets,
    /// The achievable rate region (docs/models/region.md).
    Region,
}

/// Which nodes contend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Hears {
    /// Those who decode each other: transmission range.
    Decode,
    /// Those who sense each other: interference range.
    Sense,
}

/// `fairmesh validate`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  fairmesh validate scenarios/stack.toml\n  \
                        fairmesh validate --quick\n  fairmesh validate --group c,d --seeds 10")]
pub struct ValidateArgs {
    /// Scenario file to check; without one, the simulator is checked against ns-3
    pub scenario: Option<PathBuf>,
    /// Gateway, for maps: the name of a node
    #[arg(long, value_name = "ID", requires = "scenario")]
    pub gateway: Option<String>,
    /// Flows, for maps
    #[arg(long, value_name = "WAY", requires = "scenario")]
    pub flows: Option<Way>,
    /// A quick subset of the rows
    #[arg(long, conflicts_with = "scenario")]
    pub quick: bool,
    /// Only these groups of rows, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',', conflicts_with = "scenario")]
    pub group: Vec<String>,
    /// Seeds per row; as many as the reference has by default
    #[arg(long, value_name = "N", conflicts_with = "scenario", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub seeds: Option<u32>,
    /// Folder with reference.json and scen/
    #[arg(long, value_name = "FOLDER", default_value = "validation/ns3")]
    pub reference: PathBuf,
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
    /// Experiments (a short form such as fig-3.2 will do where one paper has it), all, list; or page, which makes
    /// docs/reproductions.md from the kept records
    #[arg(required = true, value_name = "ID")]
    pub ids: Vec<String>,
    /// As many seeds as the paper, and every topology
    #[arg(long)]
    pub full: bool,
    /// Number of seeds: 1, 2, … N
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub seeds: Option<u32>,
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
    /// Folder with cost.json, scen/ and the ns-3 harness
    #[arg(long, value_name = "FOLDER", default_value = "validation/ns3")]
    pub reference: PathBuf,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub json: bool,
}

/// Other simulators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Against {
    /// ns-3, through the harness in validation/ns3.
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

/// `fairmesh list`.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  fairmesh list")]
pub struct ListArgs {
    /// Print one JSON array
    #[arg(long)]
    pub json: bool,
}

/// What came of reading the command line.
#[derive(Debug)]
pub enum Parsed {
    /// A command to run.
    Command(Box<Command>),
    /// Text that was asked for: help or version.
    Text(String),
    /// A mistake, on one line.
    Mistake(String),
}

/// Reads the command line.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Parsed {
    match Cli::try_parse_from(args) {
        Ok(cli) => Parsed::Command(Box::new(cli.command)),
        Err(e) => match e.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Parsed::Text(e.to_string()),
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                Parsed::Mistake(format!("expected a command: {}", commands()))
            }
            _ => Parsed::Mistake(mistake(&e)),
        },
    }
}

fn commands() -> String {
    let command = Cli::command();
    let shown = command.get_subcommands().filter(|c| !c.is_hide_set());
    shown.map(clap::Command::get_name).collect::<Vec<_>>().join(", ")
}

/// The parser's message without usage and pointers, on one line.
fn mistake(e: &clap::Error) -> String {
    let text = e.to_string();
    let message = text.split("\nUsage:").next().unwrap_or(&text);
    let message = message.split("\nFor more information").next().unwrap_or(message);
    let message = message.trim().strip_prefix("error: ").unwrap_or(message.trim());
    one_line(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Parsed {
        parse(line.split(' ').map(OsString::from))
    }

    #[test]
    fn the_grammar_is_sound_and_every_command_has_an_example() {
        let command = Cli::command();
        command.clone().debug_assert();
        for sub in command.get_subcommands().filter(|c| !c.is_hide_set()) {
            let help = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Example"), "{}", sub.get_name());
            assert!(help.contains(&format!("fairmesh {}", sub.get_name())), "{}", sub.get_name());
        }
    }

    #[test]
    fn mistakes_are_one_line() {
        for line in [
            "fairmesh",
            "fairmesh compare",
            "fairmesh compare x.toml --seeds 0",
            "fairmesh compare x.toml --seeds many",
            "fairmesh compare x.toml --duration 5",
            "fairmesh run x.toml --sede 3",
            "fairmesh fly",
        ] {
            let Parsed::Mistake(m) = read(line) else { panic!("{line} was accepted") };
            assert!(!m.contains('\n') && !m.is_empty(), "{line}: {m}");
        }
        let Parsed::Mistake(m) = read("fairmesh compare x.toml --seeds 0") else { panic!() };
        assert!(m.contains("--seeds") && m.contains('0'), "{m}");
    }

    #[test]
    fn lists_and_quantities() {
        let args =
            ["fairmesh", "compare", "x.toml", "--control", "fifo,source", "--duration", "60 s"];
        let Parsed::Command(c) = parse(args.map(OsString::from)) else { panic!() };
        let Command::Compare(a) = *c else { panic!() };
        assert_eq!(a.control, ["fifo", "source"]);
        assert_eq!(a.scenario.duration, Some(Span::from_secs(60)));
    }
}
