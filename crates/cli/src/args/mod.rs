//! Grammar of the command line: the commands here, their common arguments in `shared`.

mod checks;
#[cfg(feature = "linux")]
mod emulate;
mod models;
mod runs;
mod shared;

use clap::{Args, Parser, Subcommand};

pub use self::checks::{FingerprintArgs, ValidateArgs};
#[cfg(feature = "linux")]
pub use self::emulate::{CongestionArg, DemoArgs, EmulateArgs, MediumArgs, RoutingArg, TcpArg};
pub use self::models::{CapacityArgs, ContentionRange, ModelKind, OptimumArgs};
pub use self::runs::{CompareArgs, RunArgs, SweepArgs};
pub use self::shared::{ChangeArgs, FlowDirection, SampleArgs, ScenarioArgs, Share};
pub use fairmesh_front::args::{CacheArgs, RevisionArgs, StoreArgs, ThreadArgs, report};

/// Fair sharing for Wi-Fi meshes: simulate a mesh, find the flows that starve and the reason.
#[derive(Debug, Parser)]
#[command(name = "fairmesh", version, max_term_width = 100)]
#[command(
    after_help = "Example:\n  fairmesh compare scenarios/stack.toml --control fifo,source\n\n\
                        Every command has its own --help with examples."
)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Simulate a scenario once and show the results
    Run(RunArgs),
    /// Run a scenario in real time over real Linux network stacks (root)
    #[cfg(feature = "linux")]
    Emulate(EmulateArgs),
    /// Carry the frames of simulated Wi-Fi cards (mac80211_hwsim) over a scenario's radio (root)
    #[cfg(feature = "linux")]
    Medium(MediumArgs),
    /// Watch an emulated mesh starve, and the effect of the gateway's daemon (root)
    #[cfg(feature = "linux")]
    Demo(DemoArgs),
    /// Simulate a scenario under several controls, with several seeds each
    Compare(CompareArgs),
    /// Simulate a scenario for every combination of some settings
    Sweep(SweepArgs),
    /// Compute the rates and bottlenecks of a scenario's flows by analytic models
    Capacity(CapacityArgs),
    /// Find the max-min rates of a scenario's flows that the simulator itself carries
    Optimum(OptimumArgs),
    /// Check a scenario file
    Validate(ValidateArgs),
    /// Compare the fingerprints of scenarios with stored ones
    Fingerprints(FingerprintArgs),
    /// Keep a mesh fair from its gateway: the daemon, and its client commands
    #[cfg(feature = "linux")]
    Gateway(GatewayArgs),
    /// Keep a mesh fair at its routers: the daemon `fairmesh-node`, and its client commands
    #[cfg(feature = "linux")]
    Node(NodeArgs),
    /// List the controls
    List(ListArgs),
    /// Print the JSON schema of scenario files or plans
    #[command(
        after_help = "Examples:\n  fairmesh schema > scenario.schema.json\n  fairmesh schema plan > plan.schema.json"
    )]
    Schema(SchemaArgs),
}

impl Command {
    /// Returns true if the command handles interrupts itself, as the daemon does.
    pub fn ends_in_its_own_way(&self) -> bool {
        #[cfg(feature = "linux")]
        return matches!(self, Command::Gateway(_) | Command::Node(_));
        #[cfg(not(feature = "linux"))]
        false
    }
}

/// `fairmesh gateway`.
#[cfg(feature = "linux")]
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  fairmesh gateway check --config gateway.toml\n  \
                        fairmesh gateway status\n  fairmesh gateway why \"roof 7\"")]
pub struct GatewayArgs {
    /// Command of the daemon or of its client.
    #[command(subcommand)]
    pub command: fairmesh_agent::args::GatewayCommand,
}

/// `fairmesh node`.
#[cfg(feature = "linux")]
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  fairmesh node check --config node.toml\n  fairmesh node status"
)]
pub struct NodeArgs {
    /// Command of the daemon or of its client.
    #[command(subcommand)]
    pub command: fairmesh_agent::node::args::NodeCommand,
}

/// `fairmesh schema`.
#[derive(Args, Clone, Copy, Debug)]
pub struct SchemaArgs {
    /// Kind of file
    #[arg(value_enum, default_value = "scenario")]
    pub of: FileKind,
}

/// A kind of file with a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum FileKind {
    /// Scenario files.
    Scenario,
    /// Plans of sweeps.
    Plan,
}

/// `fairmesh list`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  fairmesh list\n  fairmesh list pfrc+bursts")]
pub struct ListArgs {
    /// One control: its needs, its variants and its settings
    #[arg(value_name = "CONTROL")]
    pub control: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap::CommandFactory;
    use fairmesh_front::error::OPTIONS_OF_SETTINGS;
    use fairmesh_front::program::{Parsed, parse};
    use fairmesh_units::Span;

    use super::*;

    fn read(line: &str) -> Parsed<Cli> {
        parse(line.split(' ').map(OsString::from))
    }

    /// `--map` and `--row` are options of fairmesh-experiments.
    #[test]
    fn settings_of_the_laboratory_have_options() {
        let grammar = Cli::command();
        for (setting, flag) in
            OPTIONS_OF_SETTINGS.iter().filter(|(s, _)| !["map", "row"].contains(s))
        {
            let long = flag.trim_start_matches("--");
            let has = |c: &clap::Command| c.get_arguments().any(|a| a.get_long() == Some(long));
            assert!(grammar.get_subcommands().any(has), "{setting}: {flag}");
        }
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
        let Parsed::Command(c) = parse::<Cli>(args.map(OsString::from)) else { panic!() };
        let Command::Compare(a) = c.command else { panic!() };
        assert_eq!(a.control, ["fifo", "source"]);
        assert_eq!(a.scenario.changes.duration, Some(Span::from_secs(60)));
    }
}
