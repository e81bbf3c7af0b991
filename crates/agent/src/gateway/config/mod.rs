//! The configuration `/etc/fairmesh/gateway.toml`, checked.

pub(crate) mod build;
mod capacity;
pub(crate) mod draft;
mod files;
mod libreqos;
mod merge;
mod peers;
pub(crate) mod refuse;
mod schedule;
pub(crate) mod text;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use fairmesh_control::{Mechanism, Registry};
use fairmesh_document::{KeyPath, Located, Problem, excerpt};
use fairmesh_linux::{IpNet, Layout, LeafChoice, LeafKind, MacAddr};
use fairmesh_units::{BitRate, Span};

use crate::gateway::history::HistorySettings;

use files::Files;
use libreqos::Tables;
use merge::Merged;

pub use crate::daemon::endpoint::Endpoint;
pub(crate) use capacity::of_rate as capacity_of;
pub use draft::{Mode, OnExit};
pub use libreqos::Unused;
pub use schedule::{Period, Quota, Schedule, Window, Zone};
pub(crate) use text::{is_plain, is_shown, prefix};

/// Name of the subscriber of unmapped traffic.
pub const UNMAPPED: &str = "(unmapped)";

/// Default path of the configuration.
pub const CONFIG_PATH: &str = "/etc/fairmesh/gateway.toml";
/// Default path of the control socket.
pub const SOCKET_PATH: &str = "/run/fairmesh/gateway.sock";
/// Default folder of the state.
pub const STATE_FOLDER: &str = "/var/lib/fairmesh";
/// Default path of the key that all gateways share.
pub const PEER_KEY_PATH: &str = "/etc/fairmesh/peers.key";
/// Default port of the exchange between gateways.
pub const PEER_PORT: u16 = 5247;
/// Default address of the page, once there is a table `[page]`.
pub const PAGE_ADDRESS: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9743);
/// Largest configuration file, bytes: 10,000 subscribers take about 1 MB.
const MAX_BYTES: u64 = 64 << 20;
/// Most entries of a file that are listed as left out.
const LISTED_UNUSED: usize = 20;

/// Condition for reading TCP headers (`signs.read`).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum ReadHeaders {
    /// Never.
    Never,
    /// While the control uses them.
    #[default]
    ForControl,
    /// Always: `status` and metrics show the round trips through the mesh under every control.
    Always,
}

impl ReadHeaders {
    /// True if headers are to be read; `asked`: the control uses them.
    pub const fn wanted(self, asked: bool) -> bool {
        match self {
            ReadHeaders::Never => false,
            ReadHeaders::ForControl => asked,
            ReadHeaders::Always => true,
        }
    }
}

/// A checked configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// Mode: limits are set, or only observed.
    pub mode: Mode,
    /// Interfaces, table and queues, without subscribers.
    ///
    /// The queues apply unless the control decides on them ([`Config::layout_for`]).
    pub layout: Layout,
    /// True if the control decides on the queues in subscribers' classes, instead of `layout`.
    pub queues_by_control: bool,
    /// State that is left behind on exit.
    pub on_exit: OnExit,
    /// Longest time between two samples of the counters.
    pub sample: Span,
    /// The control with its parameters.
    pub mechanism: Mechanism,
    /// Capacities of the links to the gateway's direct neighbours, in IP bytes.
    pub neighbours: Vec<Neighbour>,
    /// Subscribers of the mesh.
    pub subscribers: Vec<Subscriber>,
    /// Reports of the files with subscribers, beside the main one.
    pub files: Vec<FileReport>,
    /// Schedules of plans and subscribers.
    pub schedules: Vec<Schedule>,
    /// Time zone of the schedules.
    pub zone: Zone,
    /// Text of all files.
    pub source: SourceText,
    /// Sources of further subscribers.
    pub discover: Option<Discover>,
    /// The other gateways of the mesh.
    pub peers: Option<Peers>,
    /// Key of orders to the routers of homes; `None`: the control sends none.
    pub agents: Option<PathBuf>,
    /// Condition for reading TCP headers.
    pub signs: ReadHeaders,
    /// True if echo probes may be sent where headers give no round trip.
    pub probe: bool,
    /// Address of the metrics.
    pub metrics: Option<SocketAddr>,
    /// File with the page of the metrics, for a collector of text files.
    pub textfile: Option<PathBuf>,
    /// True if metrics have a line for every subscriber.
    pub per_subscriber: bool,
    /// Folder and size of the history.
    pub history: HistorySettings,
    /// The page; `None`: none is served.
    pub page: Option<PageSettings>,
    /// Folder of the stored state.
    pub state: PathBuf,
    /// Path of the control socket.
    pub socket: PathBuf,
}

/// Header of an Ethernet frame, bytes; the kernel's bursts include it.
const ETHERNET: u64 = 14;

impl Config {
    /// Returns the layout for a control with these classes.
    ///
    /// It has their burst and, if the control decides on the queues, their queue. A queue per flow is a queue per
    /// subscriber and direction, since these are the control's flows on a gateway, and the kernel serves them in turn.
    pub fn layout_for(&self, plan: Option<&fairmesh_control::Plan>) -> Layout {
        let mut layout = self.layout.clone();
        // All classes are alike, or the control would have been refused.
        let class = plan.and_then(|p| p.classes.iter().chain(&p.template).next());
        let of_all = |c: &fairmesh_control::ClassPlan| c.class == fairmesh_control::Class::All;
        layout.aggregate = plan.is_some_and(|p| p.classes.iter().chain(&p.template).any(of_all));
        if let Some(class) = class {
            if self.queues_by_control {
                layout.leaf = LeafChoice::Only(LeafKind::Pfifo);
                // The same at every limit.
                (layout.queue, layout.delay_ms) = (class.leaf.packets(), 0);
            }
            let burst = u32::try_from(class.burst.0 + ETHERNET).unwrap_or(Layout::MAX_BURST);
            layout.burst = layout.burst.max(burst);
        }
        layout
    }
}

/// Text of all files of a configuration, from which it can be read again.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct SourceText(pub String);

impl core::fmt::Debug for SourceText {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("SourceText(…)")
    }
}

/// Report of one file with subscribers.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct FileReport {
    /// Path.
    pub file: String,
    /// Subscribers that were read.
    pub subscribers: usize,
    /// Kinds of values that are never used.
    pub ignored: &'static str,
    /// Rows and addresses that are not used.
    pub unused: Vec<Unused>,
}

impl FileReport {
    /// Returns the report of a file without subscribers.
    fn of(file: String) -> FileReport {
        FileReport { file, ..FileReport::default() }
    }

    /// Returns the result in words.
    pub fn summary(&self) -> String {
        let n = self.subscribers;
        let plural = if n == 1 { "" } else { "s" };
        let ignored = match self.ignored {
            "" => String::new(),
            ignored => format!("; not used: {ignored}"),
        };
        format!("{}: {n} subscriber{plural}{ignored}", self.file)
    }

    /// Iterates over the parts that are not used, `file:line: reason`; at most `LISTED_UNUSED`.
    pub fn left_out(&self) -> impl Iterator<Item = String> {
        let listed = self.unused.iter().take(LISTED_UNUSED);
        let lines = listed.map(|u| format!("{}:{}: {}", self.file, u.line, excerpt(&u.text)));
        let rest = self.unused.len().saturating_sub(LISTED_UNUSED);
        lines.chain((rest > 0).then(|| format!("{}: {rest} more entries left out", self.file)))
    }
}

/// A direct neighbour of the gateway in the mesh.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Neighbour {
    /// Name.
    pub name: String,
    /// Nominal rate of the link.
    pub rate: BitRate,
    /// Goodput of a lone saturated sender in IP packets of 1500 bytes.
    pub capacity: BitRate,
    /// Ethernet address, by which the driver's station dump shows the rate of the link.
    pub mac: Option<MacAddr>,
}

/// Rates of a subscriber's plan in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Rates {
    /// Largest limit.
    pub ceiling: Option<BitRate>,
    /// Smallest limit.
    pub guarantee: Option<BitRate>,
    /// Analytic fair rate of application data, for the static controls.
    pub fair: Option<BitRate>,
}

/// Plan of a subscriber.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Plan {
    /// Weight.
    pub weight: f64,
    /// Downstream.
    pub down: Rates,
    /// Upstream.
    pub up: Rates,
    /// Position of its schedule in [`Config::schedules`].
    pub schedule: Option<usize>,
    /// Weight outside of the schedule's windows.
    pub regular_weight: f64,
    /// Ceilings outside of the schedule's windows, downstream and upstream.
    pub regular: [Option<BitRate>; 2],
    /// Quota of both directions together.
    pub quota: Option<Quota>,
}

impl Plan {
    /// Returns the plan in a window of its schedule, or outside of all; `used_up`: its quota is.
    pub fn during(mut self, window: Option<&Window>, used_up: bool) -> Plan {
        let after = |d: usize| self.quota.filter(|_| used_up).and_then(|q| q.ceilings[d]);
        let ceiling = |d: usize| {
            let own = window.and_then(|w| w.ceilings[d]).or(self.regular[d]);
            own.into_iter().chain(after(d)).min()
        };
        (self.down.ceiling, self.up.ceiling) = (ceiling(0), ceiling(1));
        self.weight = window.and_then(|w| w.weight).unwrap_or(self.regular_weight);
        self
    }
}

impl Default for Plan {
    fn default() -> Self {
        let (down, up) = (Rates::default(), Rates::default());
        Plan {
            weight: 1.0,
            down,
            up,
            schedule: None,
            regular_weight: 1.0,
            regular: [None; 2],
            quota: None,
        }
    }
}

/// A subscriber of the mesh: a mesh node with the hosts behind it.
#[derive(Clone, PartialEq, Debug)]
pub struct Subscriber {
    /// Unique name.
    pub name: String,
    /// Addresses.
    pub prefixes: Vec<IpNet>,
    /// Ethernet addresses.
    pub macs: Vec<MacAddr>,
    /// Plan.
    pub plan: Plan,
    /// Wireless hops from the gateway.
    pub hops: Option<u32>,
}

impl Subscriber {
    /// Returns its first single address, at which its router takes orders.
    pub fn single_address(&self) -> Option<std::net::IpAddr> {
        let single = |p: &&IpNet| p.prefix_len() == p.max_prefix_len();
        self.prefixes.iter().find(single).map(IpNet::addr)
    }
}

/// Assignment of the kernel's routes to homes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RoutesBy {
    /// Routes with one next hop are one home.
    ///
    /// Each route of a routing daemon is a home of its own, since its next hop may be another home's router.
    #[default]
    Origin,
    /// Routes with one next hop are one home.
    NextHop,
    /// Each route is a home of its own.
    Route,
}

/// Discovery of subscribers that the configuration does not list.
#[derive(Clone, PartialEq, Debug)]
pub struct Discover {
    /// A NetJSON NetworkGraph.
    pub netjson: Option<PathBuf>,
    /// A batman-adv interface, read through `batctl`.
    pub batman: Option<String>,
    /// OLSR's jsoninfo.
    pub olsr: Option<SocketAddr>,
    /// Babel's local interface.
    pub babel: Option<Endpoint>,
    /// The kernel's neighbour table of the mesh interface.
    pub neighbours: bool,
    /// The paths of the mesh interface, an 802.11s mesh point.
    pub mesh_paths: bool,
    /// The kernel's routes over the mesh interface.
    pub routes: bool,
    /// Assignment of the kernel's routes to homes.
    pub routes_by: RoutesBy,
    /// Plan of the discovered subscribers.
    pub plan: Plan,
    /// Time between two queries.
    pub every: Span,
    /// Time for which a subscriber is kept after its last appearance.
    pub linger: Span,
    /// Most discovered subscribers.
    pub most: usize,
}

impl Default for Discover {
    /// No source, with the default times and limits.
    fn default() -> Self {
        Discover {
            netjson: None,
            batman: None,
            olsr: None,
            babel: None,
            neighbours: false,
            mesh_paths: false,
            routes: false,
            routes_by: RoutesBy::default(),
            plan: Plan::default(),
            every: Span::from_secs(10),
            linger: Span::from_secs(600),
            most: 1000,
        }
    }
}

/// The page that the daemon serves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageSettings {
    /// Address: a loopback address, or a Unix socket.
    pub listen: Endpoint,
    /// Names under which a proxy serves the page, beside those of the loopback interface.
    pub hosts: Vec<String>,
    /// File with the token that overrides need; `None`: the page only shows.
    pub token_file: Option<PathBuf>,
}

/// The other gateways of the mesh, which share one control.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peers {
    /// Unique number of this gateway.
    pub number: u32,
    /// Address at which this gateway listens.
    pub listen: SocketAddr,
    /// Addresses of the other gateways.
    pub peers: Vec<SocketAddr>,
    /// File with the key that all gateways share.
    pub key: PathBuf,
}

/// A refused configuration: one line with file, line, key and the expected value.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error("{}", .at.in_file(.file))]
pub struct ConfigError {
    /// The file.
    pub file: String,
    /// Position and problem.
    pub at: Located,
}

/// Reads the text of a configuration file; `readable` is the expectation in errors.
///
/// # Errors
/// Returns an error if it is not a readable text file of bounded size.
pub(crate) fn read_file(path: &Path, readable: &str) -> Result<String, ConfigError> {
    let file = path.display().to_string();
    let refuse = |what: String, expected: &str| ConfigError {
        file: file.clone(),
        at: Located::at(KeyPath::root(), Problem::refused(what, expected)),
    };
    let meta = std::fs::metadata(path).map_err(|e| refuse(e.to_string(), readable))?;
    if !meta.is_file() {
        return Err(refuse("not a regular file".into(), readable));
    }
    if meta.len() > MAX_BYTES {
        let expected = format!("at most {MAX_BYTES}");
        return Err(refuse(format!("the file has {} bytes", meta.len()), &expected));
    }
    let bytes = std::fs::read(path).map_err(|e| refuse(e.to_string(), readable))?;
    String::from_utf8(bytes).map_err(|e| {
        let offset = e.utf8_error().valid_up_to();
        refuse(format!("byte {offset} is not UTF-8 text"), "a text file")
    })
}

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// Returns the first problem.
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        let text = read_file(path, "a readable file; docs/gateway.md has an example")?;
        Config::parse(&path.display().to_string(), &text)
    }

    /// Checks a text with the shipped mechanisms; other files are beside `file`.
    ///
    /// # Errors
    /// Returns the first problem.
    pub fn parse(file: &str, text: &str) -> Result<Config, ConfigError> {
        Config::parse_with(file, text, &Registry::standard())
    }

    /// Checks a text with this registry's mechanisms; other files are beside `file`.
    ///
    /// # Errors
    /// Returns the first problem.
    pub fn parse_with(file: &str, text: &str, registry: &Registry) -> Result<Config, ConfigError> {
        Config::read(file, text, registry, &Files::beside(Path::new(file)))
    }

    /// Checks the text of [`SourceText`], which contains all files.
    ///
    /// # Errors
    /// Returns the first problem.
    pub fn parse_stored(file: &str, text: &str) -> Result<Config, ConfigError> {
        Config::read(file, text, &Registry::standard(), &Files::stored(text))
    }

    fn read(
        file: &str,
        text: &str,
        registry: &Registry,
        files: &Files,
    ) -> Result<Config, ConfigError> {
        let body = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut merged = Merged::read(file, body, files)?;
        let tables = Tables::read(&merged, files).map_err(|at| merged.refused(at))?;
        let mut config =
            build::build(&merged, &tables, registry).map_err(|at| merged.refused(at))?;
        merged.others.extend(tables.texts);
        config.source = match files {
            Files::Stored(_) => SourceText(text.to_owned()),
            Files::Disk(_) => SourceText(files::bundle(text, &merged.others)),
        };
        Ok(config)
    }
}

#[cfg(test)]
mod tests;
