//! `init`: a survey of this machine and its mesh, written as an observe-only configuration.
//!
//! The survey uses the daemon's own sources and readers, so that its results are those of the daemon. Nothing
//! in the kernel is changed.

mod ask;
mod interfaces;
mod previous;
mod text;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use fairmesh_linux::netlink::Netlink;
use fairmesh_linux::{Interface, MacAddr};
use fairmesh_units::BitRate;
use serde::Serialize;

pub use ask::{QueriedSource, SourceKind};
pub use text::{configuration, summary};

use self::ask::Candidate;
use self::previous::Previous;
use super::config::{Config, Discover, Endpoint, Subscriber};
use super::governor::Governor;
use super::report;
use crate::daemon::clock::wall_clock;
use crate::daemon::store;
use crate::error::AgentError;
use crate::json;

/// File mode of the configuration: it has no secrets, and `status` of other users reads it.
const FILE_MODE: u32 = 0o644;

/// Options of `init`; a given value is not searched for.
#[derive(Clone, Default, Debug)]
pub struct InitOptions {
    /// Mesh interface.
    pub mesh: Option<Interface>,
    /// Interface to the Internet.
    pub wired: Option<Interface>,
    /// NetJSON file.
    pub netjson: Option<PathBuf>,
    /// batman-adv interface.
    pub batman: Option<Interface>,
    /// Address of babeld.
    pub babel: Option<Endpoint>,
    /// Address of olsrd's jsoninfo.
    pub olsr: Option<SocketAddr>,
    /// File to write; without it the configuration is printed.
    pub output: Option<PathBuf>,
    /// Replaces an existing file, of which a dated copy is kept.
    pub force: bool,
    /// Prints one JSON object.
    pub json: bool,
}

/// An interface and the reason why it was chosen.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct InterfaceChoice {
    /// The interface.
    pub interface: Interface,
    /// The reason.
    pub reason: String,
}

/// A home that a source shows.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Home {
    /// Name in the source.
    pub name: String,
    /// Prefixes.
    pub prefixes: Vec<String>,
    /// Ethernet addresses.
    pub macs: Vec<MacAddr>,
    /// Wireless hops, if the source has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hops: Option<u32>,
}

impl Home {
    fn of(s: &Subscriber) -> Self {
        Home {
            name: s.name.clone(),
            prefixes: s.prefixes.iter().map(ToString::to_string).collect(),
            macs: s.macs.clone(),
            hops: s.hops,
        }
    }
}

/// A direct neighbour from the radio's station dump.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct Station {
    /// Name of its home, else its address.
    pub name: String,
    /// Radio interface.
    pub interface: String,
    /// Address.
    pub mac: MacAddr,
    /// Rate at which the driver sends.
    #[serde(rename = "rate_bits_per_second", skip_serializing_if = "Option::is_none")]
    pub rate: Option<BitRate>,
    /// Throughput that the rate control expects.
    #[serde(rename = "expected_bits_per_second", skip_serializing_if = "Option::is_none")]
    pub expected: Option<BitRate>,
    /// Signal, in dBm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i8>,
}

/// An item that the operator has to fill in or to check.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct ToDo {
    /// Stable name.
    pub code: &'static str,
    /// Description and remedy.
    pub text: String,
}

/// Result of a survey.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Survey {
    /// Interface to the mesh.
    pub mesh: Option<InterfaceChoice>,
    /// Interface to the Internet.
    pub wired: Option<InterfaceChoice>,
    /// Source that the configuration names.
    pub source: Option<SourceKind>,
    /// All sources that were asked.
    pub sources: Vec<QueriedSource>,
    /// Homes of that source.
    pub homes: Vec<Home>,
    /// Direct neighbours by radio.
    pub neighbours: Vec<Station>,
    /// Items that were not found, and values that no source has.
    pub to_do: Vec<ToDo>,
    /// The `[discover]` table of the configuration.
    #[serde(skip)]
    pub discover: Discover,
}

impl Survey {
    /// True if a configuration can be written: both interfaces and a source with homes are known.
    pub fn is_complete(&self) -> bool {
        self.mesh.is_some() && self.wired.is_some() && self.source.is_some()
    }

    fn note(&mut self, code: &'static str, text: impl Into<String>) {
        self.to_do.push(ToDo { code, text: text.into() });
    }
}

/// Carries out `init`.
///
/// # Errors
/// A machine of which too little is known, a file that exists, or a disk that cannot be written. Nothing is written
/// then.
pub fn init(options: &InitOptions, out: &mut dyn Write) -> Result<(), AgentError> {
    // Asking takes seconds; a refusal should not.
    if let Some(path) = options.output.as_deref().filter(|_| !options.force)
        && std::fs::symlink_metadata(path).is_ok()
    {
        return Err(AgentError::Exists(path.to_owned()));
    }
    let survey = survey(options)?;
    let text = if survey.is_complete() { Some(proven(&survey)?) } else { None };
    let mut replaced = None;
    if let (Some(text), Some(path)) = (&text, &options.output) {
        if options.force {
            replaced = Previous::keep(path, text, wall_clock())?;
        }
        write(path, text, options.force)?;
    }
    let written = options.output.as_ref().filter(|_| text.is_some());
    if options.json {
        #[derive(Serialize)]
        struct Output<'a> {
            schema: u32,
            complete: bool,
            written: Option<&'a Path>,
            configuration: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            replaced: Option<&'a Previous>,
            #[serde(flatten)]
            survey: &'a Survey,
        }
        let written = written.map(PathBuf::as_path);
        let configuration = text.as_deref();
        let complete = survey.is_complete();
        let schema = report::SCHEMA;
        let replaced = replaced.as_ref();
        let survey = &survey;
        json::print(out, &Output { schema, complete, written, configuration, replaced, survey })?;
    } else if let (Some(text), None) = (&text, &options.output) {
        out.write_all(text.as_bytes())?;
    } else {
        out.write_all(summary(&survey, written.map(PathBuf::as_path)).as_bytes())?;
        if let Some(replaced) = &replaced {
            out.write_all(replaced.text().as_bytes())?;
        }
    }
    if survey.is_complete() { Ok(()) } else { Err(AgentError::Incomplete) }
}

/// Returns the configuration's text, which the daemon has accepted.
fn proven(survey: &Survey) -> Result<String, AgentError> {
    let text = configuration(survey);
    let config = Config::parse("init", &text)?;
    Governor::trial(&config).map_err(|e| super::start::refused(Path::new("init"), &config, e))?;
    Ok(text)
}

/// Writes the file as a whole or not at all.
fn write(path: &Path, text: &str, force: bool) -> Result<(), AgentError> {
    // Without --force a file that has appeared meanwhile stays: it is created here, or nothing is written.
    let create = || -> io::Result<()> {
        let mut file =
            std::fs::File::options().write(true).create_new(true).mode(FILE_MODE).open(path)?;
        let filled = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
        if filled.is_err() {
            let _ = std::fs::remove_file(path);
        }
        filled
    };
    let over = || {
        if std::fs::symlink_metadata(path).is_ok_and(|m| !m.is_file()) {
            let what = "is not a regular file; expected one, or a free path";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        store::replace(path, text.as_bytes(), FILE_MODE, true)
    };
    let written = if force { over() } else { create() };
    written.map_err(|problem| match problem.kind() {
        io::ErrorKind::AlreadyExists => AgentError::Exists(path.to_owned()),
        _ => AgentError::Unwritable { path: path.to_owned(), problem },
    })
}

/// Examines this machine and its mesh.
///
/// # Errors
/// Returns an error if the kernel does not list its interfaces.
pub fn survey(options: &InitOptions) -> Result<Survey, AgentError> {
    let mut netlink = Netlink::open()?;
    let links = fairmesh_linux::link::all(&mut netlink)?;
    let mut survey = Survey {
        mesh: None,
        wired: None,
        source: None,
        sources: Vec::new(),
        homes: Vec::new(),
        neighbours: Vec::new(),
        to_do: Vec::new(),
        discover: Discover::default(),
    };
    survey.wired = match &options.wired {
        Some(interface) => Some(interfaces::given(&links, interface, &mut survey, "--wired")),
        None => interfaces::uplink(&mut netlink, &links),
    };
    if survey.wired.is_none() {
        let text = "there is no default route; set --wired to the interface to the Internet";
        survey.note("uplink", text);
    }
    let wired = survey.wired.as_ref().map(|c| c.interface.name().to_owned());
    survey.mesh = options
        .mesh
        .as_ref()
        .map(|interface| interfaces::given(&links, interface, &mut survey, "--mesh"));
    let mut answers = ask::all(ask::daemons(options, &links));
    let named = answers.iter().any(|a| a.candidate.named);
    if !named && answers.iter().all(|a| a.homes.is_empty()) {
        let named = options.mesh.as_ref().map(Interface::name);
        let of_kernel = interfaces::candidates(&links, wired.as_deref(), named);
        answers.extend(ask::all(ask::tables(&of_kernel)));
    }
    let best = ask::best(&answers);
    if let Some(i) = best {
        let answer = &answers[i];
        survey.source = Some(answer.candidate.kind);
        survey.discover = answer.candidate.discover.clone();
        survey.homes = answer.homes.iter().map(Home::of).collect();
        interfaces::check_mesh(&mut netlink, &links, &answer.candidate, &answer.homes, &mut survey);
        let others: Vec<String> = answers
            .iter()
            .enumerate()
            .filter(|(j, a)| *j != i && !a.homes.is_empty())
            .map(|(_, a)| format!("{} ({} homes)", a.asked.report.name, a.homes.len()))
            .collect();
        if !others.is_empty() {
            let text = format!("{} could be used instead of the chosen source", others.join(", "));
            survey.note("sources", text);
        }
    } else {
        survey.note(
            "homes",
            "no source has homes: start the routing daemon with its local interface (babeld -G 33123, olsrd with \
             jsoninfo, batctl for batman-adv), or set --babel, --olsr, --batman or --netjson",
        );
    }
    for answer in &answers {
        let report = &answer.asked.report;
        match &report.failed {
            Some(e) if !answer.asked.absent => {
                survey.note("source", format!("{}: {e}", report.name))
            }
            None if report.omitted.iter().any(|(why, _)| why.suspicious()) => {
                survey.note("source", format!("{}: {}", report.name, report.counts()));
            }
            _ => {}
        }
    }
    survey.sources = answers.into_iter().map(|a| a.asked).collect();
    if survey.mesh.is_none() {
        let text = "no interface leads to the homes; set --mesh to the interface to the mesh";
        survey.note("mesh", text);
    }
    if let (Some(mesh), Some(wired)) = (&survey.mesh, &survey.wired)
        && mesh.interface == wired.interface
    {
        let text = format!("{} is both mesh and uplink; set --mesh and --wired", mesh.interface);
        (survey.mesh, survey.wired) = (None, None);
        survey.note("interfaces", text);
    }
    if let Some(mesh) = survey.mesh.clone() {
        interfaces::stations(&links, mesh.interface.name(), &mut survey);
    }
    survey.note(
        "plans",
        "no source has the subscribed rates of homes: fill in [plan.home], or keep equal shares",
    );
    Ok(survey)
}

impl Candidate {
    /// Returns the interface that a source is bound to, such as the one of batman-adv.
    fn interface(&self) -> Option<&Interface> {
        self.mesh.as_ref()
    }
}

#[cfg(test)]
mod tests;
