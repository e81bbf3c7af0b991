//! The configuration: `/etc/fairmesh/gateway.toml`, checked.

mod build;
mod capacity;
mod draft;
mod peers;
mod refuse;
mod text;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use fairmesh_control::{Mechanism, Registry};
use fairmesh_document::{Document, KeyPath, Located, Problem};
use fairmesh_linux::{IpNet, Layout, LeafChoice, LeafKind, MacAddr};
use fairmesh_units::{BitRate, Span};

pub use draft::{Mode, OnExit};
pub(crate) use text::{is_plain, is_shown, prefix};

/// The subscriber that everybody is whom nobody knows.
pub const UNMAPPED: &str = "(unmapped)";

/// Where the configuration is unless another file is named.
pub const FILE: &str = "/etc/fairmesh/gateway.toml";
/// Where the control socket is unless the configuration says otherwise.
pub const SOCKET: &str = "/run/fairmesh/gateway.sock";
/// Where state is kept unless the configuration says otherwise.
pub const STATE: &str = "/var/lib/fairmesh";
/// Where the key of all gateways is unless the configuration says otherwise.
pub const KEY: &str = "/etc/fairmesh/peers.key";
/// The port of gateways that the examples use, and the default.
pub const PORT: u16 = 5247;
/// The largest file that is read: 10,000 subscribers take about 1 MB.
const MOST_BYTES: u64 = 64 << 20;

/// When TCP's headers are read (`signs.read`).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum ReadHeaders {
    /// Never.
    Never,
    /// While the control makes use of them.
    #[default]
    ForControl,
    /// Always: `status` and metrics show the round trips through the mesh under every control.
    Always,
}

impl ReadHeaders {
    /// True if they are to be read now; `asked`: the control makes use of them.
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
    /// Whether limits are set.
    pub mode: Mode,
    /// Interfaces, table and queues, still without subscribers; the queues as far as they are not
    /// the control's business ([`Config::layout_for`]).
    pub layout: Layout,
    /// Whether packets wait in subscribers' classes as the control asks, rather than as
    /// `layout` says.
    pub queues_by_control: bool,
    /// What is left behind on exit.
    pub on_exit: OnExit,
    /// The longest time between two looks at the counters.
    pub sample: Span,
    /// The control with its parameters.
    pub mechanism: Mechanism,
    /// Capacities of the links to the gateway's direct neighbours, in IP bytes.
    pub neighbours: Vec<Neighbour>,
    /// Who shares the mesh.
    pub subscribers: Vec<Subscriber>,
    /// How further subscribers are found.
    pub discover: Option<Discover>,
    /// The other gateways of the mesh.
    pub peers: Option<Peers>,
    /// When TCP's headers are read.
    pub signs: ReadHeaders,
    /// True if echo probes may be sent where headers give no round trip.
    pub probe: bool,
    /// Where metrics are served.
    pub metrics: Option<SocketAddr>,
    /// A file that always has the page of the metrics, for a collector of text files.
    pub textfile: Option<PathBuf>,
    /// Whether metrics have a line for every subscriber.
    pub per_subscriber: bool,
    /// Folder of what is kept over a restart.
    pub state: PathBuf,
    /// The control socket.
    pub socket: PathBuf,
}

/// Header of an Ethernet frame, which counts in the kernel's bursts.
const ETHERNET: u64 = 14;

impl Config {
    /// The layout for a control with these classes: with their burst, and with their queue where
    /// that is the control's business. A queue per flow is a queue per subscriber and direction, for
    /// that is what the control's flows are here, and the kernel serves them in turn.
    pub fn layout_for(&self, plan: Option<&fairmesh_control::Plan>) -> Layout {
        let mut layout = self.layout.clone();
        // They are all alike, or the control would have been refused.
        let class = plan.and_then(|p| p.classes.iter().chain(&p.template).next());
        if let Some(class) = class {
            if self.queues_by_control {
                layout.leaf = LeafChoice::Only(LeafKind::Pfifo);
                // Whatever the limit is.
                (layout.queue, layout.delay_ms) = (class.leaf.packets(), 0);
            }
            let burst = u32::try_from(class.burst.0 + ETHERNET).unwrap_or(Layout::LARGEST_BURST);
            layout.burst = layout.burst.max(burst);
        }
        layout
    }
}

/// A direct neighbour of the gateway in the mesh.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Neighbour {
    /// Its name.
    pub name: String,
    /// Nominal rate of the link.
    pub rate: BitRate,
    /// What a lone saturated sender gets across it in IP packets of 1500 bytes.
    pub capacity: BitRate,
}

/// What a subscriber is sold in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Rates {
    /// Never more than this.
    pub ceiling: Option<BitRate>,
    /// Never limited below this.
    pub guarantee: Option<BitRate>,
    /// Analytic fair rate of application data, for the static controls.
    pub fair: Option<BitRate>,
}

/// What a subscriber is sold.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Plan {
    /// Its weight among the others.
    pub weight: f64,
    /// Downstream.
    pub down: Rates,
    /// Upstream.
    pub up: Rates,
}

impl Default for Plan {
    fn default() -> Self {
        Plan { weight: 1.0, down: Rates::default(), up: Rates::default() }
    }
}

/// One who shares the mesh: a mesh node with everything behind it.
#[derive(Clone, PartialEq, Debug)]
pub struct Subscriber {
    /// Its name, unique.
    pub name: String,
    /// Its addresses.
    pub prefixes: Vec<IpNet>,
    /// Its Ethernet addresses.
    pub macs: Vec<MacAddr>,
    /// What it is sold.
    pub plan: Plan,
    /// Wireless hops from the gateway.
    pub hops: Option<u32>,
}

/// Where a daemon of this machine listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Endpoint {
    /// A TCP port.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Endpoint::Tcp(address) => address.fmt(f),
            Endpoint::Unix(path) => path.display().fmt(f),
        }
    }
}

/// Which of the kernel's routes belong to one home.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RoutesBy {
    /// Those with one next hop; a route of a routing daemon, whose next hop may be another home's router, is a
    /// home of its own.
    #[default]
    Origin,
    /// Those with one next hop.
    NextHop,
    /// Each route is a home of its own.
    Route,
}

/// How subscribers are found that the configuration does not list.
#[derive(Clone, PartialEq, Debug)]
pub struct Discover {
    /// A NetJSON NetworkGraph.
    pub netjson: Option<PathBuf>,
    /// A batman-adv interface, asked through `batctl`.
    pub batman: Option<String>,
    /// OLSR's jsoninfo.
    pub olsr: Option<SocketAddr>,
    /// Babel's local interface.
    pub babel: Option<Endpoint>,
    /// The kernel's neighbour table of the mesh interface.
    pub neighbours: bool,
    /// The kernel's routes over the mesh interface.
    pub routes: bool,
    /// Which routes belong to one home.
    pub routes_by: RoutesBy,
    /// What they are sold.
    pub plan: Plan,
    /// Time between looks.
    pub every: Span,
    /// How long one that is seen no more is kept.
    pub linger: Span,
    /// The most that are taken in.
    pub most: usize,
}

/// The other gateways of the mesh, with which this one is as one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peers {
    /// This gateway's number; each has its own.
    pub number: u32,
    /// Where it listens.
    pub listen: SocketAddr,
    /// Where the others do.
    pub peers: Vec<SocketAddr>,
    /// The file with the key that all of them have.
    pub key: PathBuf,
}

/// A refused configuration: one line with file, line, key and what was expected.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error("{}", .at.in_file(.file))]
pub struct ConfigError {
    /// The file.
    pub file: String,
    /// Where in it, and why.
    pub at: Located,
}

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// The first thing wrong with it.
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        let file = path.display().to_string();
        let refuse = |what: String, expected: &str| ConfigError {
            file: file.clone(),
            at: Located::at(KeyPath::root(), Problem::refused(what, expected)),
        };
        let readable = "a readable file; docs/gateway.md has an example";
        let meta = std::fs::metadata(path).map_err(|e| refuse(e.to_string(), readable))?;
        if !meta.is_file() {
            return Err(refuse("not a file".into(), readable));
        }
        if meta.len() > MOST_BYTES {
            let expected = format!("at most {MOST_BYTES}");
            return Err(refuse(format!("the file has {} bytes", meta.len()), &expected));
        }
        let bytes = std::fs::read(path).map_err(|e| refuse(e.to_string(), readable))?;
        let text = String::from_utf8(bytes).map_err(|e| {
            let offset = e.utf8_error().valid_up_to();
            refuse(format!("byte {offset} is not UTF-8 text"), "a text file")
        })?;
        Config::parse(&file, &text)
    }

    /// Checks a configuration's text with the shipped mechanisms; `file` is for messages.
    ///
    /// # Errors
    /// The first thing wrong with it.
    pub fn parse(file: &str, text: &str) -> Result<Config, ConfigError> {
        Config::parse_with(file, text, &Registry::standard())
    }

    /// Checks a configuration's text with the mechanisms of this registry; `file` is for messages.
    ///
    /// # Errors
    /// The first thing wrong with it.
    pub fn parse_with(file: &str, text: &str, registry: &Registry) -> Result<Config, ConfigError> {
        let refuse = |at: Located| ConfigError { file: file.to_owned(), at };
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let document = Document::parse(text).map_err(refuse)?;
        let draft: draft::Draft = document.decode().map_err(refuse)?;
        build::build(&draft, registry).map_err(|mut at| {
            at.line = document.line(&at.key);
            refuse(at)
        })
    }
}

#[cfg(test)]
mod tests;
