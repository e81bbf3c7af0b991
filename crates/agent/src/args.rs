//! The grammar of `fairmesh gateway` and `fairmesh-gateway`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use fairmesh_linux::Interface;
use fairmesh_units::{BitRate, Span};

use crate::gateway::config::{CONFIG_PATH, Endpoint, Mode};
use crate::gateway::init::InitOptions;

/// Fair shares at the gateway of a Wi-Fi mesh: measures the traffic of every subscriber, computes
/// shares with a control, and sets limits in the kernel.
#[derive(Debug, Parser)]
#[command(name = "fairmesh-gateway", version, max_term_width = 100)]
#[command(after_help = "Example:\n  fairmesh-gateway check && fairmesh-gateway run")]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: GatewayCommand,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum GatewayCommand {
    /// Run the daemon in the foreground, until a signal ends it
    #[command(after_help = "SIGHUP reads the configuration again.\n\n\
        Example:\n  fairmesh-gateway run --config /etc/fairmesh/gateway.toml")]
    Run(RunArgs),
    /// Survey this machine and its mesh, and write a configuration in mode "observe"
    #[command(
        after_help = "Examples:\n  fairmesh-gateway init --output /etc/fairmesh/gateway.toml\n  \
        fairmesh-gateway init --babel /run/babeld.sock --mesh mesh0 --json"
    )]
    Init(InitArgs),
    /// Check the configuration and this kernel without changing anything
    #[command(after_help = "Example:\n  fairmesh-gateway check --config gateway.toml")]
    Check(CheckArgs),
    /// Set limits: write `mode = "apply"` to the configuration, and reload it
    #[command(
        after_help = "Examples:\n  fairmesh-gateway apply\n  fairmesh-gateway apply --observe"
    )]
    Apply(ApplyArgs),
    /// Show the rates and limits of all subscribers
    #[command(after_help = "Example:\n  fairmesh-gateway status --json")]
    Status(AskArgs),
    /// Explain one subscriber's limits
    #[command(after_help = "Example:\n  fairmesh-gateway why \"roof 7\"")]
    Why(WhyArgs),
    /// Set a subscriber's limit by hand for a time
    #[command(
        after_help = "Examples:\n  fairmesh-gateway override roof --rate \"5 Mbit/s\" --for 1h\n  \
        fairmesh-gateway override roof --rate unlimited --up --for 30min\n  \
        fairmesh-gateway override roof --clear"
    )]
    Override(OverrideArgs),
    /// Reload the configuration in the running daemon; rates change in place
    #[command(after_help = "Example:\n  fairmesh-gateway reload")]
    Reload(AskArgs),
    /// Remove the queues and rules of this program, and no others, from the kernel
    #[command(after_help = "Examples:\n  fairmesh-gateway reset\n  \
        fairmesh-gateway reset --fall-back\n  \
        fairmesh-gateway reset --lift")]
    Reset(ResetArgs),
    /// Summarise the history: homes that starved, times and bottlenecks
    #[command(after_help = "Examples:\n  fairmesh-gateway report --since 7d\n  \
        fairmesh-gateway report --since 24h --html report.html")]
    Report(ReportArgs),
    /// Find causes of ineffective limits
    #[command(after_help = "Example:\n  fairmesh-gateway doctor")]
    Doctor(AskArgs),
    /// Print a new key for the gateways of one mesh
    #[command(after_help = "Example:\n  umask 077; fairmesh-gateway key > peers.key")]
    Key(KeyArgs),
    /// The guard process that lifts limits if the daemon dies
    #[command(hide = true)]
    Guard(GuardArgs),
    /// A call of rpcd, for OpenWrt's ubus object `fairmesh`
    #[command(hide = true, subcommand)]
    Ubus(UbusCommand),
}

/// `run`.
#[derive(Args, Debug)]
pub struct RunArgs {
    /// Configuration file
    #[arg(long, value_name = "FILE", default_value = CONFIG_PATH)]
    pub config: PathBuf,
    /// If the file is invalid, use the last configuration that worked
    #[arg(long)]
    pub fall_back: bool,
    /// Run without the guard process that lifts limits if the daemon is killed
    #[arg(long)]
    pub no_guard: bool,
    /// Print events as JSON objects
    #[arg(long)]
    pub json: bool,
}

/// `init`.
#[derive(Args, Debug)]
pub struct InitArgs {
    /// File to write; without it the configuration is printed
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace an existing file; a dated copy of it is kept
    #[arg(long)]
    pub force: bool,
    /// Interface to the mesh [default: the one over which the homes are reached]
    #[arg(long, value_name = "INTERFACE", value_parser = interface)]
    pub mesh: Option<Interface>,
    /// Interface to the Internet [default: the one of the default route]
    #[arg(long, value_name = "INTERFACE", value_parser = interface)]
    pub wired: Option<Interface>,
    /// NetJSON NetworkGraph or NetworkCollection with the homes
    #[arg(long, value_name = "FILE")]
    pub netjson: Option<PathBuf>,
    /// batman-adv interface [default: all]
    #[arg(long, value_name = "INTERFACE", value_parser = interface)]
    pub batman: Option<Interface>,
    /// Address and port of babeld's local interface, or its Unix socket
    #[arg(long, value_name = "ADDRESS")]
    pub babel: Option<Endpoint>,
    /// olsrd's jsoninfo, such as 127.0.0.1:9090
    #[arg(long, value_name = "ADDRESS")]
    pub olsr: Option<SocketAddr>,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub json: bool,
}

impl From<InitArgs> for InitOptions {
    fn from(a: InitArgs) -> Self {
        InitOptions {
            mesh: a.mesh,
            wired: a.wired,
            netjson: a.netjson,
            batman: a.batman,
            babel: a.babel,
            olsr: a.olsr,
            output: a.output,
            force: a.force,
            json: a.json,
        }
    }
}

fn interface(name: &str) -> Result<Interface, String> {
    Interface::new(name).map_err(|e| e.to_string())
}

/// `reset`.
#[derive(Args, Debug)]
pub struct ResetArgs {
    /// Configuration file
    #[arg(long, value_name = "FILE", default_value = CONFIG_PATH)]
    pub config: PathBuf,
    /// If the file is invalid or missing, use the last configuration that worked
    #[arg(long)]
    pub fall_back: bool,
    /// Only lift all limits; queues and rules stay, so that the next start loses no packet
    #[arg(long)]
    pub lift: bool,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub json: bool,
}

/// `check`.
#[derive(Args, Debug)]
pub struct CheckArgs {
    /// Configuration file
    #[arg(long, value_name = "FILE", default_value = CONFIG_PATH)]
    pub config: PathBuf,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub json: bool,
}

/// `apply`.
#[derive(Args, Debug)]
pub struct ApplyArgs {
    /// Set `mode = "observe"` instead: limits are lifted
    #[arg(long)]
    pub observe: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub ask: CheckArgs,
}

impl ApplyArgs {
    /// The mode to set.
    pub const fn mode(&self) -> Mode {
        if self.observe { Mode::Observe } else { Mode::Apply }
    }
}

/// Options of the commands that ask the daemon.
#[derive(Args, Debug)]
pub struct AskArgs {
    /// Configuration file, which names the daemon's socket
    #[arg(long, value_name = "FILE", default_value = CONFIG_PATH)]
    pub config: PathBuf,
    /// The daemon's socket; if given, the configuration is not read
    #[arg(long, value_name = "FILE")]
    pub socket: Option<PathBuf>,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub json: bool,
}

/// `report`.
#[derive(Args, Debug)]
pub struct ReportArgs {
    /// Start, as time before now: 7d, 24h or "90 min"
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = ago)]
    pub since: Ago,
    /// End, as time before now [default: now]
    #[arg(long, value_name = "TIME", value_parser = ago)]
    pub until: Option<Ago>,
    /// Also write an HTML page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Configuration file, which names the folder of the history
    #[arg(long, value_name = "FILE", default_value = CONFIG_PATH)]
    pub config: PathBuf,
    /// Folder of the history; if given, the configuration is not read
    #[arg(long, value_name = "FOLDER")]
    pub folder: Option<PathBuf>,
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub json: bool,
}

/// A time before now on the command line, s.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ago(pub u64);

fn ago(text: &str) -> Result<Ago, String> {
    let days = text.trim().strip_suffix('d').and_then(|n| n.trim().parse::<u32>().ok());
    if let Some(days) = days {
        return Ok(Ago(u64::from(days) * 86_400));
    }
    let span: Span = text.parse().map_err(|e| format!("{e}, or days such as \"7d\""))?;
    Ok(Ago(span / Span::from_secs(1)))
}

/// `key`.
#[derive(Args, Debug)]
pub struct KeyArgs {
    /// Print one JSON object and nothing else
    #[arg(long)]
    pub json: bool,
}

/// `why`.
#[derive(Args, Debug)]
pub struct WhyArgs {
    /// Name of the subscriber, as `status` shows it
    pub subscriber: String,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub ask: AskArgs,
}

/// `override`.
#[derive(Args, Debug)]
pub struct OverrideArgs {
    /// Name of the subscriber, as `status` shows it
    pub subscriber: String,
    /// The limit, such as "5 Mbit/s", or "unlimited"
    #[arg(long, value_name = "RATE", required_unless_present = "clear", value_parser = rate)]
    pub rate: Option<Rate>,
    /// Duration, such as 1h or "30 min"
    #[arg(long = "for", value_name = "TIME", required_unless_present = "clear")]
    pub time: Option<Span>,
    /// End an override
    #[arg(long, conflicts_with_all = ["rate", "time"])]
    pub clear: bool,
    /// Only downstream
    #[arg(long)]
    pub down: bool,
    /// Only upstream
    #[arg(long)]
    pub up: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub ask: AskArgs,
}

/// A limit on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate(pub Option<BitRate>);

fn rate(text: &str) -> Result<Rate, String> {
    if text.trim() == "unlimited" {
        return Ok(Rate(None));
    }
    text.parse().map(|r| Rate(Some(r))).map_err(|e| format!("{e}, or \"unlimited\""))
}

/// `ubus`.
#[derive(Debug, Subcommand)]
pub enum UbusCommand {
    /// Print the methods and their arguments
    List,
    /// Call a method with the arguments on standard input
    Call {
        /// Name of the method
        method: String,
        /// Configuration file
        #[arg(long, value_name = "FILE", default_value = CONFIG_PATH)]
        config: PathBuf,
    },
}

/// `guard`.
#[derive(Args, Debug)]
pub struct GuardArgs {
    /// Limits to undo, as JSON.
    #[arg(long)]
    pub limits: String,
    /// Lock that the guard holds while it works.
    #[arg(long)]
    pub lock: PathBuf,
    /// Identity of the daemon's run.
    #[arg(long)]
    pub run: String,
}

/// Checks a grammar: every command has an example and `--json`.
#[cfg(test)]
pub(crate) fn assert_sound(command: clap::Command) {
    command.clone().debug_assert();
    for sub in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        let help = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
        assert!(help.contains("Example"), "{}", sub.get_name());
        let json = sub.get_arguments().any(|a| a.get_id() == "json");
        assert!(json, "{} has no --json", sub.get_name());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_grammar_is_sound_and_every_command_has_an_example() {
        assert_sound(Cli::command());
    }

    #[test]
    fn times_before_now() {
        let read = |text: &str| ago(text).map(|a| a.0);
        assert_eq!(read("7d"), Ok(7 * 86_400));
        assert_eq!(read("24h"), Ok(86_400));
        assert_eq!(read("90 min"), Ok(5400));
        for wrong in ["7", "d", "-1d", "1.5d", "soon"] {
            assert!(read(wrong).is_err_and(|e| e.contains("7d")), "{wrong}");
        }
    }

    #[test]
    fn overrides() {
        let read = |line: &[&str]| {
            let words = ["fairmesh-gateway", "override", "roof 7"].iter().chain(line);
            Cli::try_parse_from(words)
        };
        let ok = read(&["--rate", "5 Mbit/s", "--for", "1h", "--down"]).unwrap();
        let GatewayCommand::Override(o) = ok.command else { panic!() };
        assert_eq!(o.rate, Some(Rate(Some(BitRate(5_000_000)))));
        assert_eq!(o.time, Some(Span::from_secs(3600)));
        assert!(read(&["--rate", "unlimited", "--for", "1h"]).is_ok());
        assert!(read(&["--clear"]).is_ok());
        for wrong in [
            &[][..],
            &["--rate", "5 Mbit/s"],
            &["--rate", "5", "--for", "1h"],
            &["--rate", "5 Mbit/s", "--for", "soon"],
            &["--clear", "--rate", "5 Mbit/s"],
        ] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }
}
