//! The configuration `/etc/fairmesh/node.toml`, checked.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use fairmesh_control::{Mechanism, Registry};
use fairmesh_document::{Document, KeyPath, Located, Problem};
use fairmesh_linux::bpf::FlowMeter;
use fairmesh_linux::{Interface, IpNet, LocalPlace};
use fairmesh_units::BitRate;
use serde::Deserialize;

use super::message::Role;
use crate::gateway::config::build::mechanism;
use crate::gateway::config::draft::Control;
use crate::gateway::config::refuse::{Result, fail, refused};
use crate::gateway::config::{ConfigError, Mode, read_file, text};
use crate::key::NODE_KEY_PATH;

/// Default path of the configuration.
pub const CONFIG_PATH: &str = "/etc/fairmesh/node.toml";
/// Default path of the control socket.
pub const SOCKET_PATH: &str = "/run/fairmesh-node/node.sock";
/// Default folder of the state.
pub const STATE_FOLDER: &str = "/var/lib/fairmesh-node";
/// UDP port of messages between routers.
pub const MESSAGE_PORT: u16 = 5248;
/// UDP port of a gateway's orders to this router.
pub const ORDER_PORT: u16 = 5249;
/// Least rate to which orders limit this router without `floor`.
const DEFAULT_FLOOR: BitRate = BitRate(64_000);
/// Most mesh interfaces.
const MAX_INTERFACES: usize = 8;
/// Addresses of homes without `homes`: private ones (RFC 1918, RFC 6598, RFC 4193).
const PRIVATE_PREFIXES: [&str; 5] =
    ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"];
/// Control without `control.use`: none.
const DEFAULT_CONTROL: &str = "fifo";

/// Forwarding of packets over the mesh.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Routing {
    /// batman-adv, on interfaces that it uses as its own.
    BatmanAdv,
    /// Routes of the kernel: static ones, or those of Babel, OLSR or another daemon.
    Layer3,
    /// 802.11s with HWMP, which forwards inside the Wi-Fi stack.
    Hwmp,
}

impl Routing {
    /// Value in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Routing::BatmanAdv => "batman-adv",
            Routing::Layer3 => "layer3",
            Routing::Hwmp => "hwmp",
        }
    }
}

#[derive(Clone, Default, Deserialize, Debug)]
#[serde(default, deny_unknown_fields)]
struct Draft {
    mode: Mode,
    interfaces: Vec<Interface>,
    routing: Option<Routing>,
    batman: Option<Interface>,
    wired: Option<Interface>,
    role: Role,
    key: Option<PathBuf>,
    homes: Option<Vec<String>>,
    number: Option<u16>,
    #[serde(deserialize_with = "text::deserialize")]
    rate: Option<BitRate>,
    #[serde(deserialize_with = "text::deserialize")]
    capacity: Option<BitRate>,
    #[serde(deserialize_with = "text::deserialize")]
    floor: Option<BitRate>,
    control: Control,
    metrics: Metrics,
    paths: Paths,
}

#[derive(Clone, Default, Deserialize, Debug)]
#[serde(default, deny_unknown_fields)]
struct Metrics {
    listen: Option<SocketAddr>,
}

#[derive(Clone, Default, Deserialize, Debug)]
#[serde(default, deny_unknown_fields)]
struct Paths {
    socket: Option<PathBuf>,
    state: Option<PathBuf>,
}

/// A checked configuration.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// Mode: limits are set, or only observed.
    pub mode: Mode,
    /// Mesh interfaces: radios, or other interfaces to the neighbours.
    pub interfaces: Vec<Interface>,
    /// Forwarding over the mesh.
    pub routing: Routing,
    /// The batman-adv interface; used with [`Routing::BatmanAdv`].
    pub batman: Interface,
    /// Interface to the wire behind an access point, where traffic of its hosts is marked.
    pub wired: Option<Interface>,
    /// Role of this router.
    pub role: Role,
    /// File with the key that all routers share.
    pub key: PathBuf,
    /// Prefixes of addresses of homes, which identify flows.
    pub homes: Vec<IpNet>,
    /// Number of this router in the mesh; `None`: derived from its address.
    pub number: Option<u16>,
    /// Nominal rate of links for which no radio reports one.
    pub rate: Option<BitRate>,
    /// Capacity of each link in IP bytes; `None`: derived from its rate.
    pub capacity: Option<BitRate>,
    /// Least rate to which a gateway's orders limit this router's traffic.
    pub floor: BitRate,
    /// The control with its parameters.
    pub mechanism: Mechanism,
    /// Address of the metrics.
    pub metrics: Option<SocketAddr>,
    /// Path of the control socket.
    pub socket: PathBuf,
    /// Folder of the stored state.
    pub state: PathBuf,
}

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// Returns the first problem.
    pub fn load(path: &Path) -> std::result::Result<Config, ConfigError> {
        let text = read_file(path, "a readable file; docs/node.md has an example")?;
        Config::parse(&path.display().to_string(), &text)
    }

    /// Checks a text.
    ///
    /// # Errors
    /// Returns the first problem.
    pub fn parse(file: &str, text: &str) -> std::result::Result<Config, ConfigError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let refuse = |at| ConfigError { file: file.to_owned(), at };
        let document = Document::parse(text).map_err(refuse)?;
        let draft: Draft = document.decode().map_err(refuse)?;
        build(&draft).map_err(|mut at: Located| {
            at.line = at.line.or_else(|| document.line(&at.key));
            refuse(at)
        })
    }

    /// Places at which local traffic may get a limit.
    pub fn places(&self) -> Vec<LocalPlace> {
        let place = |interface: &Interface, routed: &[Interface]| LocalPlace {
            interface: interface.clone(),
            routed: routed.to_vec(),
        };
        match self.routing {
            Routing::BatmanAdv => vec![place(&self.batman, &[])],
            Routing::Hwmp => self.interfaces.iter().map(|i| place(i, &[])).collect(),
            Routing::Layer3 => self.interfaces.iter().map(|i| place(i, &self.interfaces)).collect(),
        }
    }

    /// Place of the limit if the next hop of local traffic is reached over this mesh interface.
    pub fn place(&self, interface: usize) -> LocalPlace {
        let mut places = self.places();
        let at = if places.len() == 1 { 0 } else { interface.min(places.len() - 1) };
        places.swap_remove(at)
    }

    /// Interfaces at which packets are marked as they leave.
    pub fn marked(&self) -> Vec<Interface> {
        self.interfaces.iter().chain(&self.wired).cloned().collect()
    }

    /// True if a running daemon can continue with the other configuration.
    pub fn same_place(&self, other: &Config) -> bool {
        let place = |c: &Config| Config {
            role: Role::default(),
            rate: None,
            capacity: None,
            floor: DEFAULT_FLOOR,
            mechanism: Mechanism::none(),
            ..c.clone()
        };
        place(self) == place(other)
    }
}

fn build(draft: &Draft) -> Result<Config> {
    if draft.interfaces.is_empty() {
        let expected = "the interfaces to the mesh: interfaces = [\"mesh0\"]";
        return refused(KeyPath::root(), "there is no mesh interface", expected);
    }
    if draft.interfaces.len() > MAX_INTERFACES {
        let found = format!("{} interfaces", draft.interfaces.len());
        return fail(KeyPath::from("interfaces"), Problem::range(found, "at most 8"));
    }
    for (i, name) in draft.interfaces.iter().enumerate() {
        if draft.interfaces[..i].contains(name) {
            let at = KeyPath::from("interfaces").index(i);
            return refused(at, format!("{name} is listed twice"), "each interface once");
        }
    }
    let Some(routing) = draft.routing else {
        let expected = "routing = \"batman-adv\", \"layer3\" or \"hwmp\"";
        return refused(KeyPath::root(), "the routing of the mesh is not given", expected);
    };
    let batman = match (&draft.batman, routing) {
        (Some(name), Routing::BatmanAdv) => name.clone(),
        (Some(_), _) => {
            return refused(
                KeyPath::from("batman"),
                format!("it is not used with routing = \"{}\"", routing.name()),
                "routing = \"batman-adv\", or no key `batman`",
            );
        }
        (None, _) => Interface::new("bat0").or_else(|e| {
            let at = KeyPath::from("batman");
            refused(at, e.to_string(), "the name of the batman-adv interface")
        })?,
    };
    if draft.interfaces.contains(&batman) && routing == Routing::BatmanAdv {
        return refused(
            KeyPath::from("interfaces"),
            format!("{batman} is the batman-adv interface"),
            "the interfaces below it, which `batctl if` lists",
        );
    }
    let wired = draft.wired.clone();
    if wired.is_some() && draft.role != Role::AccessPoint {
        return refused(
            KeyPath::from("wired"),
            format!("it is not used with role = \"{}\"", draft.role.name()),
            "role = \"access-point\", or no key `wired`",
        );
    }
    if let Some(wired) = wired.as_ref().filter(|w| draft.interfaces.contains(w)) {
        let found = format!("{wired} is one of the interfaces to the wireless hosts");
        return refused(KeyPath::from("wired"), found, "the interface to the wire");
    }
    for (key, rate) in [("rate", draft.rate), ("capacity", draft.capacity), ("floor", draft.floor)]
    {
        if rate.is_some_and(|r| !(text::MIN_RATE..=text::MAX_RATE).contains(&r)) {
            let range = "1 kbit/s to 1 Tbit/s";
            return fail(KeyPath::from(key), Problem::range(rate.unwrap_or(BitRate(0)), range));
        }
    }
    if draft.number == Some(0) {
        return fail(
            KeyPath::from("number"),
            Problem::range(0, "1 to 65535, another at each router"),
        );
    }
    let prefix = |(i, text): (usize, &str)| {
        let expected = "a prefix such as \"10.0.0.0/8\"";
        let at = || KeyPath::from("homes").index(i);
        text.parse::<IpNet>().or_else(|_| refused(at(), format!("\"{text}\""), expected))
    };
    let homes = match &draft.homes {
        Some(homes) => homes.iter().map(String::as_str).enumerate().map(prefix).collect(),
        None => PRIVATE_PREFIXES.into_iter().enumerate().map(prefix).collect::<Result<Vec<_>>>(),
    }?;
    if homes.is_empty() || homes.len() > FlowMeter::MAX_PREFIXES {
        let found = format!("{} prefixes", homes.len());
        return fail(KeyPath::from("homes"), Problem::range(found, "1 to 32 prefixes"));
    }
    let listen = draft.metrics.listen;
    if let Some(listen) = listen.filter(|l| !l.ip().is_loopback()) {
        return refused(
            KeyPath::from("metrics.listen"),
            format!("{listen} is reachable"),
            "a loopback address such as \"127.0.0.1:9744\": metrics are not protected",
        );
    }
    let path = |given: &Option<PathBuf>, key: &str, default: &str| match given {
        Some(p) if p.is_absolute() => Ok(p.clone()),
        Some(p) => refused(KeyPath::from(key), format!("\"{}\"", p.display()), "an absolute path"),
        None => Ok(PathBuf::from(default)),
    };
    Ok(Config {
        mode: draft.mode,
        interfaces: draft.interfaces.clone(),
        routing,
        batman,
        wired,
        role: draft.role,
        key: path(&draft.key, "key", NODE_KEY_PATH)?,
        homes,
        number: draft.number,
        rate: draft.rate,
        capacity: draft.capacity,
        floor: draft.floor.unwrap_or(DEFAULT_FLOOR),
        mechanism: mechanism(&draft.control, DEFAULT_CONTROL, &Registry::standard())?,
        metrics: listen,
        socket: path(&draft.paths.socket, "paths.socket", SOCKET_PATH)?,
        state: path(&draft.paths.state, "paths.state", STATE_FOLDER)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINIMAL: &str = "interfaces = [\"mesh0\"]\nrouting = \"hwmp\"\n";

    fn refused(text: &str) -> String {
        Config::parse("node.toml", text).expect_err(text).to_string()
    }

    #[test]
    fn two_lines_are_a_configuration_that_only_observes() {
        let config = Config::parse("node.toml", MINIMAL).unwrap();
        assert_eq!((config.mode, config.role), (Mode::Observe, Role::Router));
        assert!(config.mechanism.is_none());
        assert_eq!((config.key, config.metrics), (PathBuf::from(NODE_KEY_PATH), None));
        assert_eq!(config.homes.len(), PRIVATE_PREFIXES.len());
    }

    #[test]
    fn errors_name_line_key_and_expectation() {
        let more = |line: &str| refused(&format!("{MINIMAL}{line}\n"));
        let of = |text: String, parts: [&str; 3]| {
            assert!(parts.iter().all(|p| text.contains(p)), "{text}");
        };
        of(refused("routing = \"hwmp\"\n"), ["node.toml", "no mesh interface", "interfaces = ["]);
        of(refused("interfaces = [\"m\"]\n"), ["routing", "not given", "\"batman-adv\""]);
        of(refused("interfaces = [\"m\"]\nrouting = \"ospf\"\n"), [":2:", "ospf", "layer3"]);
        of(refused("interfaces = [\"m\", \"m\"]\nrouting = \"hwmp\"\n"), [":1:", "twice", "once"]);
        of(more("batman = \"bat1\""), [":3: batman", "not used", "routing = \"batman-adv\""]);
        of(more("wired = \"eth0\""), [":3: wired", "role = \"router\"", "access-point"]);
        let both = "role = \"access-point\"\nwired = \"mesh0\"";
        of(more(both), [":4: wired", "mesh0 is one of", "the interface to the wire"]);
        of(more("mode = \"on\""), [":3:", "on", "observe"]);
        of(more("role = \"ap\""), [":3:", "ap", "access-point"]);
        of(more("key = \"node.key\""), [":3: key", "node.key", "an absolute path"]);
        of(more("rate = \"54\""), [":3:", "54", "Mbit/s"]);
        of(more("capacity = \"1 bit/s\""), [":3: capacity", "1 bit/s", "1 kbit/s to"]);
        of(more("floor = \"1 bit/s\""), [":3: floor", "1 bit/s", "1 kbit/s to"]);
        of(more("homes = []"), [":3: homes", "0 prefixes", "1 to 32"]);
        of(more("homes = [\"10.0.0.0/40\"]"), [":3: homes[0]", "10.0.0.0/40", "a prefix"]);
        of(more("number = 0"), [":3: number", "0", "1 to 65535"]);
        of(more("number = 70000"), [":3:", "70000", "65535"]);
        of(more("speed = 5"), [":3:", "speed", "interfaces"]);
        of(more("[control]\nuse = \"gaap\""), [":4: control.use", "gaap", "gap"]);
        of(more("[control]\nuse = \"gap\"\ngamma = 7"), [":5: control.gamma", "7", "0.9"]);
        of(more("[metrics]\nlisten = \"0.0.0.0:1\""), [":4:", "reachable", "loopback"]);
        let bat = "interfaces = [\"bat0\"]\nrouting = \"batman-adv\"\n";
        of(refused(bat), [":1: interfaces", "is the batman-adv interface", "batctl if"]);
    }

    #[test]
    fn the_place_of_limits_follows_the_routing() {
        let of = |routing: &str, more: &str| {
            let text = format!("interfaces = [\"a\", \"b\"]\nrouting = \"{routing}\"\n{more}");
            let config = Config::parse("node.toml", &text).unwrap();
            let place = config.place(1);
            assert!(config.places().contains(&place));
            (place.interface.name().to_owned(), place.routed.len())
        };
        assert_eq!(of("batman-adv", ""), ("bat0".into(), 0));
        assert_eq!(of("batman-adv", "batman = \"bat7\""), ("bat7".into(), 0));
        assert_eq!(of("hwmp", ""), ("b".into(), 0));
        assert_eq!(of("layer3", ""), ("b".into(), 2));
    }
}
