//! Sources of subscribers that the configuration does not list.
//!
//! Each format is a pure function from text to subscribers; [`fetch`] reads files, sockets and commands. All input is
//! untrusted: invalid entries are left out and counted.

mod babel;
mod batman;
mod error;
mod kernel;
mod netjson;
mod olsr;
mod paths;
mod reading;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use fairmesh_linux::netlink::Netlink;
use fairmesh_linux::nl80211::{MeshPath, Nl80211, Proxied, RadioMode};
use fairmesh_linux::{IpNet, MacAddr, command, link};

pub use error::{FailedSource, SourceError};
pub use paths::{NextNode, Paths};
use reading::{Nodes, once};
pub use reading::{Omission, Omissions, Reading, SourceReport};

use crate::gateway::config::{Discover, Endpoint, RoutesBy, Subscriber, is_shown};

/// A mesh node as a source shows it.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Found {
    /// Name in the source.
    pub name: String,
    /// Addresses of the node and those behind it.
    pub prefixes: Vec<IpNet>,
    /// Ethernet addresses of the node and those behind it.
    pub macs: Vec<MacAddr>,
    /// Wireless hops from the gateway, if the source has them.
    pub hops: Option<u32>,
}

/// Format of a text for [`read`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// NetJSON NetworkGraph.
    NetJson,
    /// `batctl … originators_json`, and `transtable_global_json` as the second text.
    Batman,
    /// OLSR's jsoninfo: `/routes`, `/hna` and `/mid`.
    Olsr,
    /// `dump` of babeld's local interface.
    Babel,
    /// `ip -json neigh show`.
    Neighbours,
    /// `ip -json route show`, and `ip -json neigh show` as the second text.
    Routes,
}

/// Reads nodes from a text.
///
/// `more` has the further texts of the form: batman-adv's clients, OLSR's `/hna` and `/mid`, the neighbour table of
/// routes; each may be absent or empty.
///
/// # Errors
/// A text that is not of that form, or that is truncated. Single invalid entries are left out and counted.
pub fn read(form: Form, text: &str, more: &[&str]) -> Result<Reading, SourceError> {
    let further = |i: usize| more.get(i).copied().unwrap_or_default();
    match form {
        Form::NetJson => netjson::read(text),
        Form::Batman => batman::read(text, further(0)),
        Form::Olsr => olsr::read(text, further(0), further(1)),
        Form::Babel => babel::read(text),
        Form::Neighbours => kernel::neighbours(text, None),
        Form::Routes => kernel::routes(&[text], further(0), RoutesBy::default()),
    }
}

/// Longest excerpt of untrusted text in an event.
const MAX_EXCERPT_CHARS: usize = 80;

/// Returns the beginning of an untrusted text, on one line and safe for a terminal.
pub(crate) fn excerpt(text: &str) -> String {
    let shown = text.trim().chars().take(MAX_EXCERPT_CHARS).filter(|c| is_shown(*c));
    let mut out = shown.collect::<String>().trim().to_owned();
    if text.trim().chars().nth(MAX_EXCERPT_CHARS).is_some() {
        out.push('…');
    }
    out
}

/// Result of a query of all sources.
#[derive(Default, Debug)]
pub struct Discovery {
    /// Nodes, each once.
    pub found: Vec<Subscriber>,
    /// Sources that failed.
    pub failed: Vec<FailedSource>,
    /// All sources.
    pub sources: Vec<SourceReport>,
    /// Paths of nodes to the gateway, by the names of the nodes.
    pub paths: Paths,
}

/// Longest response, bytes: 60,000 nodes with their addresses are shorter.
const MAX_RESPONSE: u64 = 16 << 20;
/// Maximum number of JSON values of a response.
///
/// A router can bear at most some hundred bytes of memory for each.
const MAX_VALUES: usize = 1 << 20;
/// Longest time of a source.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Queries every source.
pub fn fetch(discover: &Discover, mesh: &str) -> Discovery {
    let mut discovery = Discovery::default();
    let mut nodes: BTreeMap<String, Subscriber> = BTreeMap::new();
    let mut paths = Paths::default();
    let mut take = |source: &str, result: Result<Reading, SourceError>| {
        let report = match result {
            Err(problem) => {
                let failed = Some(problem.to_string());
                discovery.failed.push(FailedSource { name: source.to_owned(), problem });
                SourceReport { name: source.to_owned(), failed, ..SourceReport::default() }
            }
            Ok(reading) => {
                let report = SourceReport::of(source, &reading);
                paths.add(source, reading.paths, reading.whole);
                for n in reading.homes {
                    let s = nodes.entry(n.name.clone()).or_insert_with(|| Subscriber {
                        name: n.name.clone(),
                        prefixes: Vec::new(),
                        macs: Vec::new(),
                        plan: discover.plan,
                        hops: None,
                    });
                    s.prefixes.extend(n.prefixes);
                    s.macs.extend(n.macs);
                    s.hops = s.hops.or(n.hops);
                }
                report
            }
        };
        discovery.sources.push(report);
    };
    if let Some(path) = &discover.netjson {
        let source = path.display().to_string();
        take(&source, file(path).and_then(|text| read(Form::NetJson, &text, &[])));
    }
    if let Some(interface) = &discover.batman {
        let table = |table: &str| run("batctl", &["meshif", interface, table]);
        let result = table("originators_json").and_then(|originators| {
            read(Form::Batman, &originators, &[&table("transtable_global_json")?])
        });
        take("batctl", result);
    }
    if let Some(address) = discover.olsr {
        let endpoint = Endpoint::Tcp(address);
        let ask = |what: &str| {
            let request = format!("GET /{what} HTTP/1.0\r\nHost: localhost\r\n\r\n");
            talk(&endpoint, &request, |_| false, true)
        };
        let look = || read(Form::Olsr, &ask("routes")?, &[&ask("hna")?, &ask("mid")?]);
        take(&format!("olsr {address}"), look());
    }
    if let Some(endpoint) = &discover.babel {
        let mut progress = babel::Progress::default();
        let text = talk(endpoint, "dump\n", |bytes| progress.complete(bytes), false);
        take(&format!("babel {endpoint}"), text.and_then(|text| read(Form::Babel, &text, &[])));
    }
    let mut proxied: Option<Vec<Proxied>> = None;
    if discover.mesh_paths {
        let mut look = || {
            let (paths, behind) = mesh_points(mesh)?;
            Ok(kernel::paths(&paths, proxied.insert(behind)))
        };
        take("mesh paths", look());
    }
    let neighbours = || run("ip", &["-json", "neigh", "show", "dev", mesh]);
    if discover.neighbours {
        let read = |text: String| kernel::neighbours(&text, proxied.as_deref());
        take("ip neigh", neighbours().and_then(read));
    }
    if discover.routes {
        let of = |family: &str| run("ip", &["-json", family, "route", "show", "dev", mesh]);
        let look = || kernel::routes(&[&of("-4")?, &of("-6")?], &neighbours()?, discover.routes_by);
        take("ip route", look());
    }
    discovery.paths = paths;
    discovery.found = nodes.into_values().collect();
    for s in &mut discovery.found {
        once(&mut s.prefixes);
        once(&mut s.macs);
    }
    discovery
}

/// Returns paths and proxied addresses of a mesh point, or of the mesh points in a bridge.
fn mesh_points(name: &str) -> Result<(Vec<MeshPath>, Vec<Proxied>), SourceError> {
    let (mut paths, mut behind) = (Vec::new(), Vec::new());
    for radio in &mesh_point_names(&link::all(&mut Netlink::open()?)?, name) {
        let mut radio = Nl80211::open(radio)?;
        paths.extend(radio.paths()?);
        behind.extend(radio.proxied()?);
    }
    Ok((paths, behind))
}

/// Returns the names of the mesh points in a bridge; the name itself if there are none.
pub(crate) fn mesh_point_names(links: &[link::Link], name: &str) -> Vec<String> {
    let is = |l: &link::Link| {
        let mode = Nl80211::open(&l.name).and_then(|mut radio| radio.mode());
        mode.is_ok_and(|mode| mode == Some(RadioMode::MeshPoint))
    };
    let bridge = links.iter().find(|l| l.name == name && l.kind.as_deref() == Some("bridge"));
    let ports =
        links.iter().filter(|l| l.controller.is_some() && l.controller == bridge.map(|b| b.index));
    let names: Vec<String> = ports.filter(|l| is(l)).map(|l| l.name.clone()).collect();
    if names.is_empty() { vec![name.to_owned()] } else { names }
}

/// Parses a text as JSON, unless it would fill the memory.
pub(crate) fn json(text: &str) -> Result<serde_json::Value, SourceError> {
    // Between two of these characters is at most one value; few of them are within strings.
    let values = text.bytes().filter(|b| matches!(b, b',' | b'[' | b'{')).count();
    if values > MAX_VALUES {
        return Err(SourceError::TooManyValues(values));
    }
    // Editors of some systems add a byte-order mark in front.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Err(SourceError::Empty);
    }
    Ok(serde_json::from_str(text)?)
}

fn file(path: &std::path::Path) -> Result<String, SourceError> {
    // A pipe without a writer must not block this thread.
    let mut options = std::fs::File::options();
    let file = options.read(true).custom_flags(nix::libc::O_NONBLOCK).open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(SourceError::NotAFile);
    }
    let mut bytes = Vec::new();
    file.take(MAX_RESPONSE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_RESPONSE {
        return Err(SourceError::TooLarge);
    }
    String::from_utf8(bytes).map_err(|_| SourceError::NotText)
}

/// Runs a command and returns its output.
fn run(program: &str, args: &[&str]) -> Result<String, SourceError> {
    let out = command::run(program, args, &[], TIMEOUT)?;
    let program = program.to_owned();
    if !out.status.success() {
        let output = excerpt(&String::from_utf8_lossy(&out.stderr));
        return Err(SourceError::Failed { program, status: out.status, output });
    }
    String::from_utf8(out.stdout).map_err(|_| SourceError::NoText { program })
}

/// A connection to a local daemon.
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    fn open(endpoint: &Endpoint) -> std::io::Result<Self> {
        Ok(match endpoint {
            Endpoint::Tcp(address) => {
                let stream = TcpStream::connect_timeout(address, TIMEOUT)?;
                stream.set_read_timeout(Some(TIMEOUT))?;
                stream.set_write_timeout(Some(TIMEOUT))?;
                Stream::Tcp(stream)
            }
            Endpoint::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(TIMEOUT))?;
                stream.set_write_timeout(Some(TIMEOUT))?;
                Stream::Unix(stream)
            }
        })
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Stream::Tcp(s) => s.read(buffer),
            Stream::Unix(s) => s.read(buffer),
        }
    }
}

/// Sends a request and reads the response until `end` is satisfied.
///
/// With `closes`, the response ends when the other side closes the connection.
fn talk(
    endpoint: &Endpoint,
    request: &str,
    mut end: impl FnMut(&[u8]) -> bool,
    closes: bool,
) -> Result<String, SourceError> {
    let failed = |e: std::io::Error| match e.kind() {
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => SourceError::Timeout,
        _ => e.into(),
    };
    let mut stream = Stream::open(endpoint).map_err(failed)?;
    match &mut stream {
        Stream::Tcp(s) => s.write_all(request.as_bytes()),
        Stream::Unix(s) => s.write_all(request.as_bytes()),
    }
    .map_err(failed)?;
    let limit = Instant::now() + TIMEOUT;
    let mut bytes = Vec::new();
    let mut buffer = [0; 16 * 1024];
    loop {
        let n = stream.read(&mut buffer).map_err(failed)?;
        bytes.extend_from_slice(&buffer[..n]);
        if n == 0 && !closes {
            return Err(SourceError::Closed);
        }
        if n == 0 || end(&bytes) {
            return Ok(String::from_utf8_lossy(&bytes).into_owned());
        }
        if bytes.len() as u64 > MAX_RESPONSE || Instant::now() > limit {
            return Err(SourceError::Endless);
        }
    }
}

#[cfg(test)]
mod tests;
