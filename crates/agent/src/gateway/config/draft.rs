//! The configuration file as it is written: `docs/gateway-keys.md`.

use core::fmt;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use fairmesh_control::Fairness;
use fairmesh_linux::{Interface, MacAddr};
use fairmesh_units::{BitRate, Bytes, Span};
use serde::{Deserialize, Deserializer, de};

use super::text::{self, Prefix};
use super::{Endpoint, RoutesBy};

/// The whole file.
#[derive(Clone, Default, Deserialize, Debug)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Draft {
    pub mode: Mode,
    pub mesh: Option<Side>,
    pub wired: Option<Side>,
    pub unmapped: Option<String>,
    pub include: Option<PathBuf>,
    pub time_zone: Option<String>,
    pub libreqos: Option<LibreQos>,
    pub shaping: Shaping,
    pub control: Control,
    pub neighbour: Vec<Neighbour>,
    pub plan: BTreeMap<String, Plan>,
    pub subscriber: Vec<Subscriber>,
    pub discover: Option<Discover>,
    pub peers: Option<Peers>,
    pub agents: Option<Agents>,
    pub signs: Signs,
    pub metrics: Metrics,
    pub history: History,
    pub page: Option<Page>,
    pub paths: Paths,
}

/// Routers of homes that take orders.
#[derive(Clone, Default, Deserialize, Debug)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Agents {
    pub key: Option<PathBuf>,
}

/// A file of the folder `include`.
#[derive(Clone, Default, Deserialize, Debug)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Fragment {
    pub plan: BTreeMap<String, Plan>,
    pub subscriber: Vec<Subscriber>,
}

/// LibreQoS's files.
#[derive(Clone, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct LibreQos {
    pub devices: PathBuf,
    #[serde(default)]
    pub network: Option<PathBuf>,
    #[serde(default)]
    pub plan: Option<String>,
}

/// Mode of the daemon: observing only, or setting limits.
#[derive(Clone, Copy, PartialEq, Eq, Default, Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Measures and reports the intended limits; sets none.
    #[default]
    Observe,
    /// Sets limits.
    Apply,
}

impl Mode {
    /// Returns the value in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Observe => "observe",
            Mode::Apply => "apply",
        }
    }
}

#[derive(Clone, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct Side {
    pub interface: Interface,
}

/// Queue of a subscriber's class.
///
/// There is no `pfifo`: it counts packets, and a TCP packet has up to 64 KB, so it does not bound the delay.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Leaf {
    /// The queue that the control requests.
    Control,
    /// The first of this list that the kernel has.
    Best,
    /// `fq_codel`.
    #[serde(rename = "fq_codel")]
    FqCodel,
    /// `cake`.
    Cake,
    /// `bfifo`: first in, first out within a subscriber, by bytes.
    Bfifo,
    /// `sfq`.
    Sfq,
}

/// Kind of the data plane.
#[derive(Clone, Copy, PartialEq, Eq, Default, Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ShaperName {
    /// Departure times for 1,024 and more subscribers with `bfifo`, otherwise HTB.
    #[default]
    Auto,
    /// HTB.
    Htb,
    /// Earliest departure times by an eBPF program, with `fq`.
    Edt,
}

#[derive(Clone, Default, Deserialize, Debug)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Shaping {
    pub leaf: Option<Leaf>,
    pub shaper: ShaperName,
    pub table: Option<String>,
    pub handle: Option<i64>,
    pub queue: Option<i64>,
    #[serde(deserialize_with = "text::deserialize")]
    pub delay: Option<Span>,
    pub bypass_udp: Option<Vec<u16>>,
    pub bypass_tcp: Option<Vec<u16>>,
    pub on_exit: OnExit,
    #[serde(deserialize_with = "text::deserialize")]
    pub sample: Option<Span>,
}

/// State that an orderly stop leaves in the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Default, Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum OnExit {
    /// Classes without limits: the next start takes them over and no packet is lost.
    #[default]
    Release,
    /// Nothing.
    Remove,
}

/// A control (`use`), its objective (`fairness`) and its parameters (all other keys).
#[derive(Clone, Default, Debug)]
pub(crate) struct Control {
    pub name: Option<String>,
    pub fairness: Option<Fairness>,
    pub parameters: BTreeMap<String, f64>,
}

// Not by serde's `flatten`, which loses the position of an invalid value.
impl<'de> Deserialize<'de> for Control {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Control;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table with `use = \"name of a control\"`")
            }
            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Control, A::Error> {
                let mut control = Control::default();
                while let Some(key) = map.next_key::<String>()? {
                    if key == "use" {
                        control.name = Some(map.next_value()?);
                    } else if key == "fairness" {
                        control.fairness = Some(map.next_value()?);
                    } else {
                        control.parameters.insert(key, map.next_value()?);
                    }
                }
                Ok(control)
            }
        }
        d.deserialize_map(Visitor)
    }
}

#[derive(Clone, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct Neighbour {
    pub name: String,
    #[serde(default, deserialize_with = "text::deserialize")]
    pub rate: Option<BitRate>,
    #[serde(default, deserialize_with = "text::deserialize")]
    pub capacity: Option<BitRate>,
    pub mac: Option<fairmesh_linux::MacAddr>,
}

/// A plan. Keys of a subscriber take precedence over those of its plan.
#[derive(Clone, Default, Deserialize, Debug)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Plan {
    pub weight: Option<f64>,
    #[serde(deserialize_with = "text::deserialize")]
    pub down: Option<BitRate>,
    #[serde(deserialize_with = "text::deserialize")]
    pub up: Option<BitRate>,
    #[serde(deserialize_with = "text::deserialize")]
    pub guarantee_down: Option<BitRate>,
    #[serde(deserialize_with = "text::deserialize")]
    pub guarantee_up: Option<BitRate>,
    #[serde(deserialize_with = "text::deserialize")]
    pub fair_down: Option<BitRate>,
    #[serde(deserialize_with = "text::deserialize")]
    pub fair_up: Option<BitRate>,
    pub during: Vec<Window>,
    pub quota: Option<Quota>,
}

/// Bytes of a period, and the ceilings after them.
#[derive(Clone, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct Quota {
    #[serde(default, deserialize_with = "text::deserialize")]
    pub bytes: Option<Bytes>,
    pub per: super::Period,
    #[serde(default, deserialize_with = "text::deserialize")]
    pub down: Option<BitRate>,
    #[serde(default, deserialize_with = "text::deserialize")]
    pub up: Option<BitRate>,
}

/// A time with another weight or other ceilings.
#[derive(Clone, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct Window {
    #[serde(default)]
    pub days: Option<Vec<String>>,
    pub from: String,
    pub to: String,
    #[serde(default)]
    pub weight: Option<f64>,
    #[serde(default, deserialize_with = "text::deserialize")]
    pub down: Option<BitRate>,
    #[serde(default, deserialize_with = "text::deserialize")]
    pub up: Option<BitRate>,
}

#[derive(Clone, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct Subscriber {
    pub name: String,
    #[serde(default)]
    pub prefixes: Vec<Prefix>,
    #[serde(default)]
    pub macs: Vec<MacAddr>,
    #[serde(default)]
    pub plan: Option<String>,
    #[serde(default)]
    pub during: Vec<Window>,
    #[serde(default)]
    pub hops: Option<i64>,
    #[serde(default)]
    pub weight: Option<f64>,
    #[serde(default, deserialize_with = "text::deserialize")]
    pub down: Option<BitRate>,
    #[serde(default, deserialize_with = "text::deserialize")]
    pub up: Option<BitRate>,
    #[serde(default, deserialize_with = "text::deserialize")]
    pub guarantee_down: Option<BitRate>,
    #[serde(default, deserialize_with = "text::deserialize")]
    pub guarantee_up: Option<BitRate>,
    #[serde(default, deserialize_with = "text::deserialize")]
    pub fair_down: Option<BitRate>,
    #[serde(default, deserialize_with = "text::deserialize")]
    pub fair_up: Option<BitRate>,
}

#[derive(Clone, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct Discover {
    #[serde(default)]
    pub netjson: Option<PathBuf>,
    #[serde(default)]
    pub batman: Option<Interface>,
    #[serde(default)]
    pub olsr: Option<SocketAddr>,
    #[serde(default)]
    pub babel: Option<Endpoint>,
    #[serde(default)]
    pub neighbours: bool,
    #[serde(default)]
    pub mesh_paths: bool,
    #[serde(default)]
    pub routes: bool,
    #[serde(default)]
    pub routes_by: RoutesBy,
    #[serde(default)]
    pub plan: Option<String>,
    #[serde(default, deserialize_with = "text::deserialize")]
    pub every: Option<Span>,
    #[serde(default, deserialize_with = "text::deserialize")]
    pub linger: Option<Span>,
    #[serde(default)]
    pub most: Option<i64>,
}

#[derive(Clone, Default, Deserialize, Debug)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Peers {
    pub number: Option<i64>,
    pub listen: Option<SocketAddr>,
    pub peer: Vec<SocketAddr>,
    pub key: Option<PathBuf>,
}

#[derive(Clone, Default, Deserialize, Debug)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Signs {
    pub read: Option<bool>,
    pub probe: Option<bool>,
}

#[derive(Clone, Default, Deserialize, Debug)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Metrics {
    pub listen: Option<SocketAddr>,
    pub textfile: Option<PathBuf>,
    pub per_subscriber: Option<bool>,
}

#[derive(Clone, Default, Deserialize, Debug)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct History {
    #[serde(deserialize_with = "text::deserialize")]
    pub size: Option<Bytes>,
    pub folder: Option<PathBuf>,
    #[serde(deserialize_with = "text::deserialize")]
    pub period: Option<Span>,
}

#[derive(Clone, Default, Deserialize, Debug)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Page {
    pub listen: Option<Endpoint>,
    pub hosts: Vec<String>,
    pub token_file: Option<PathBuf>,
}

#[derive(Clone, Default, Deserialize, Debug)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Paths {
    pub state: Option<PathBuf>,
    pub socket: Option<PathBuf>,
}
