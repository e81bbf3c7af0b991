//! Maps of real networks: NetJSON NetworkGraph and meshviewer.json.
//!
//! Links decode with their delivery probability. Nodes within two hops sense and disturb each other
//! by default. Every reachable node gets a bulk TCP flow to or from the gateway. Locations are used
//! for drawings and propagation delays only.

mod band;
mod channels;
mod graph;
mod json;
mod location;
mod map;
mod meshviewer;
mod metric;
mod models;
mod netjson;
mod notes;
mod radios;

use fairmesh_units::{BitRate, Frequency, Span};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::draft::{Direction, Draft, PhyName};
use crate::error::{KeyPath, Problem, ScenarioError};
use crate::origin::Origin;
use crate::scenario::Scenario;
use crate::toml_file::{draft_from_toml, stem};
use json::{Object, json, without_python_numbers};

pub use metric::Metric;

/// Maximum size of a file, bytes; maps of whole cities have a few megabytes.
pub const MAX_FILE_BYTES: usize = 64 << 20;
/// Maximum size of a TOML file, in bytes.
///
/// TOML files are written by hand, and the parser needs up to seventy times as much memory.
pub const MAX_TOML_BYTES: usize = 8 << 20;

/// Options for importing a map.
///
/// TOML scenarios specify all of this themselves and ignore the options.
#[derive(Clone, PartialEq, Debug)]
pub struct ImportOptions {
    /// Gateways, each by id, label or address.
    ///
    /// By default the map's own: a marked gateway, otherwise a node with a tunnel (meshviewer), or
    /// the writer of the file (`router_id`). Of several, or without any, the node with most links
    /// in the largest component.
    pub gateways: Vec<String>,
    /// Graph of a NetworkCollection, by topology id, label, router id, protocol or number.
    ///
    /// Required if there are several.
    pub graph: Option<String>,
    /// Direction of the flows.
    pub direction: Direction,
    /// Number of nodes with a flow, evenly spaced among the reachable ones from near to far.
    ///
    /// All by default.
    pub flows: Option<usize>,
    /// Connections of each of these nodes in each direction; 1 by default.
    pub connections: Option<u32>,
    /// True if each node is a subscriber with all its flows.
    pub subscribers: bool,
    /// PHY.
    ///
    /// By default 802.11g if there is a `rate`; otherwise that of the routers' models; without
    /// models 802.11n (802.11ac on a channel at 5 GHz).
    pub phy: Option<PhyName>,
    /// Data rate of 802.11a, b and g.
    ///
    /// With 802.11g 24 Mbit/s by default, the highest mandatory rate of OFDM.
    pub rate: Option<BitRate>,
    /// With 802.11n, ac and ax: width of the channel.
    ///
    /// By default 20 MHz at 2.4 GHz; at 5 GHz 40 MHz with 802.11n, otherwise 80 MHz.
    pub width: Option<Frequency>,
    /// With these PHYs: spatial streams of every router.
    ///
    /// By default those of its model, or 2 if it is unknown.
    pub streams: Option<u8>,
    /// With these PHYs: one channel for all links; by default those of the map, or 6 or 36.
    pub channel: Option<u32>,
    /// Meaning of link costs; by default from the map's `metric` and `protocol`.
    pub metric: Option<Metric>,
    /// Maximum number of hops, 1 or 2, between nodes that sense each other.
    pub sense_hops: u32,
    /// Simulated time.
    pub duration: Span,
}

impl Default for ImportOptions {
    fn default() -> Self {
        ImportOptions {
            gateways: Vec::new(),
            graph: None,
            direction: Direction::Down,
            flows: None,
            connections: None,
            subscribers: false,
            phy: None,
            rate: None,
            width: None,
            streams: None,
            channel: None,
            metric: None,
            sense_hops: 2,
            duration: Span::from_secs(60),
        }
    }
}

/// Formats of scenario files.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// TOML (docs/scenarios.md).
    Toml,
    /// NetJSON NetworkGraph.
    NetJson,
    /// meshviewer.json of version 4 and later.
    Meshviewer,
}

type Result<T> = core::result::Result<T, ScenarioError>;

/// Reads a scenario in any of the formats.
///
/// `file_name` is for messages, and names the scenario if the file does not.
///
/// # Errors
/// Returns the first problem found.
pub fn parse(file_name: &str, bytes: &[u8], options: &ImportOptions) -> Result<Scenario> {
    draft(file_name, bytes, options)?.build()
}

/// Reads a scenario in any of the formats without resolving it.
///
/// It can then be edited first.
///
/// # Errors
/// Returns the first invalid value.
pub fn draft(file_name: &str, bytes: &[u8], options: &ImportOptions) -> Result<Draft> {
    match format_of(bytes).map_err(|e| in_file(file_name, e))? {
        (Format::Toml, text) => draft_from_toml(file_name, text),
        _ => Ok(draft_from_map(file_name, bytes, options)?.0),
    }
}

/// Detects a file's format, and returns its text without a byte-order mark.
///
/// # Errors
/// A file that is too large, empty, not UTF-8, or JSON of another kind.
pub fn format_of(bytes: &[u8]) -> Result<(Format, &str)> {
    let fail = |problem| Err(ScenarioError::at(KeyPath::root(), problem));
    if bytes.len() > MAX_FILE_BYTES {
        return fail(Problem::FileTooLarge { bytes: bytes.len(), most: MAX_FILE_BYTES });
    }
    let text = match core::str::from_utf8(bytes) {
        Ok(text) => text.strip_prefix('\u{feff}').unwrap_or(text),
        Err(e) => return fail(Problem::NotUtf8 { offset: e.valid_up_to() }),
    };
    if text.trim().is_empty() {
        return fail(Problem::Empty);
    }
    // A TOML document does not start with a brace, but may start with a bracket.
    let trimmed = text.trim_start();
    if !trimmed.starts_with('{') {
        if is_json_list(trimmed) {
            return fail(Problem::UnknownFormat);
        }
        if bytes.len() > MAX_TOML_BYTES {
            return fail(Problem::FileTooLarge { bytes: bytes.len(), most: MAX_TOML_BYTES });
        }
        return Ok((Format::Toml, text));
    }
    #[derive(Deserialize)]
    struct Kind {
        r#type: Option<String>,
        nodes: Option<IgnoredAny>,
        links: Option<IgnoredAny>,
    }
    let Object(kind) = json::<Object<Kind>>(&without_python_numbers(text))?;
    match (kind.r#type.as_deref(), kind.nodes, kind.links) {
        (Some("NetworkGraph" | "NetworkCollection"), ..) => Ok((Format::NetJson, text)),
        (None, Some(_), Some(_)) => Ok((Format::Meshviewer, text)),
        _ => fail(Problem::UnknownFormat),
    }
}

/// Returns true if a text is a JSON list, as opposed to TOML that starts with a table header.
fn is_json_list(text: &str) -> bool {
    let Some(mut rest) = text.strip_prefix('[') else { return false };
    // A table header is on one line and begins with a name or another bracket.
    loop {
        rest = rest.trim_start();
        match rest.strip_prefix('[') {
            Some(inner) => rest = inner,
            None => break,
        }
    }
    rest.starts_with(['{', ']']) || serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// Returns the scenario of a map as it would be written, and notes.
///
/// The notes are on changed or ignored data.
///
/// # Errors
/// Returns the first problem found; TOML is refused, since it is not a map.
pub fn draft_from_map(
    file_name: &str,
    bytes: &[u8],
    options: &ImportOptions,
) -> Result<(Draft, Vec<String>)> {
    let draft = || {
        let map = match format_of(bytes)? {
            (Format::NetJson, text) => netjson::read(&without_python_numbers(text), options)?,
            (Format::Meshviewer, text) => meshviewer::read(&without_python_numbers(text))?,
            (Format::Toml, _) => {
                return Err(ScenarioError::at(KeyPath::root(), Problem::UnknownFormat));
            }
        };
        let (draft, notes) = map.draft(options, stem(file_name))?;
        Ok((Draft { origin: Origin::map(file_name, notes.clone()), ..draft }, notes))
    };
    draft().map_err(|e| in_file(file_name, e))
}

fn in_file(file_name: &str, mut e: ScenarioError) -> ScenarioError {
    e.file.get_or_insert_with(|| file_name.into());
    e
}
