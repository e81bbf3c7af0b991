//! Conversion of the file's text to a checked configuration.

mod control;
mod discover;
mod plans;
mod shaping;
mod subscribers;
mod values;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use fairmesh_control::Registry;
use fairmesh_document::{KeyPath, Problem};

use super::draft;
use super::libreqos::Tables;
use super::merge::Merged;
use super::refuse::{Result, fail, refused};
use super::{Config, Endpoint, PageSettings, ReadHeaders, SourceText, Zone, peers};
use crate::gateway::history::HistorySettings;
use control::{knowledge, neighbours};
use discover::discover;
use plans::Plans;
use shaping::{layout, queues_by_control};
use subscribers::{subscribers, with_unmapped};
use values::span;

pub(crate) use control::mechanism;

/// Control without `control.use`.
///
/// The published `pfrc` takes a subscriber that pauses for a starved one.
const DEFAULT_CONTROL: &str = "pfrc+bursts";

pub(super) fn build(merged: &Merged, tables: &Tables, registry: &Registry) -> Result<Config> {
    let draft = &merged.draft;
    let layout = layout(draft)?;
    let queues_by_control = queues_by_control(draft)?;
    let mechanism = mechanism(&draft.control, DEFAULT_CONTROL, registry)?;
    let neighbours = neighbours(&draft.neighbour)?;
    let mut schedules = Vec::new();
    let zone = match &draft.time_zone {
        None => Zone::of_machine(),
        Some(name) => Zone::named(name).or_else(|e| {
            let expected = "a name such as \"Europe/Berlin\", or a POSIX string such as \"CET-1CEST,M3.5.0,M10.5.0/3\"";
            refused(KeyPath::from("time_zone"), e, expected)
        })?,
    };
    let plans = Plans::read(&draft.plan, &mut schedules)?;
    let (subscribers, files) = subscribers(merged, &plans, tables, &mut schedules)?;
    let discover = draft.discover.as_ref().map(|d| discover(d, &plans)).transpose()?;
    if subscribers.is_empty() && discover.is_none() {
        let expected = "[[subscriber]] entries, include, [libreqos] or [discover]";
        return refused(KeyPath::root(), "there is no subscriber", expected);
    }
    let subscribers = with_unmapped(draft, subscribers, discover.as_ref(), &plans)?;
    let peers = draft.peers.as_ref().map(peers::build).transpose()?;
    peers::match_control(&mechanism, peers.is_some())?;
    let agents = peers::agents(&mechanism, draft.agents.as_ref())?;
    knowledge(&mechanism, &neighbours, &subscribers, discover.as_ref(), draft)?;
    let listen = draft.metrics.listen.unwrap_or(SocketAddr::from(([127, 0, 0, 1], 9742)));
    if !listen.ip().is_loopback() {
        let expected = "a loopback address such as \"127.0.0.1:9742\": metrics are not protected";
        return refused(
            KeyPath::from("metrics.listen"),
            format!("{listen} is reachable"),
            expected,
        );
    }
    let path = |given: &Option<PathBuf>, key: &str, default: &str| match given {
        Some(p) if p.is_absolute() => Ok(p.clone()),
        Some(p) => refused(KeyPath::from(key), format!("\"{}\"", p.display()), "an absolute path"),
        None => Ok(PathBuf::from(default)),
    };
    let state = path(&draft.paths.state, "paths.state", super::STATE_FOLDER)?;
    Ok(Config {
        mode: draft.mode,
        layout,
        queues_by_control,
        on_exit: draft.shaping.on_exit,
        sample: span(draft.shaping.sample, "shaping.sample", 10, (1, 600))?,
        mechanism,
        neighbours,
        subscribers,
        files,
        schedules,
        zone,
        source: SourceText::default(),
        discover,
        peers,
        agents,
        signs: match draft.signs.read {
            None => ReadHeaders::ForControl,
            Some(true) => ReadHeaders::Always,
            Some(false) => ReadHeaders::Never,
        },
        probe: draft.signs.probe.unwrap_or(true),
        metrics: (listen.port() != 0).then_some(listen),
        textfile: textfile(draft.metrics.textfile.as_ref())?,
        per_subscriber: draft.metrics.per_subscriber.unwrap_or(true),
        history: history(&draft.history, &state)?,
        page: draft.page.as_ref().map(page).transpose()?.flatten(),
        state,
        socket: path(&draft.paths.socket, "paths.socket", super::SOCKET_PATH)?,
    })
}

/// Checks the address of the page, its names and the path of its token; port 0 disables it.
fn page(draft: &draft::Page) -> Result<Option<PageSettings>> {
    let listen = draft.listen.clone().unwrap_or(Endpoint::Tcp(super::PAGE_ADDRESS));
    match &listen {
        Endpoint::Tcp(address) if !address.ip().is_loopback() => {
            let expected = "a loopback address such as \"127.0.0.1:9743\", or the path of a Unix socket; a proxy \
                            or `ssh -L` makes it reachable";
            let what = format!("{address} is reachable from other machines");
            return refused(KeyPath::from("page.listen"), what, expected);
        }
        Endpoint::Tcp(address) if address.port() == 0 => return Ok(None),
        _ => {}
    }
    for (i, name) in draft.hosts.iter().enumerate() {
        let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':');
        if name.is_empty() || !name.chars().all(valid) {
            let at = KeyPath::from("page.hosts").index(i);
            return refused(at, format!("\"{name}\""), "a name such as \"gateway.example\"");
        }
    }
    if let Some(file) = draft.token_file.as_ref().filter(|file| !file.is_absolute()) {
        let what = format!("\"{}\"", file.display());
        return refused(KeyPath::from("page.token_file"), what, "an absolute path");
    }
    let (hosts, token_file) = (draft.hosts.clone(), draft.token_file.clone());
    Ok(Some(PageSettings { listen, hosts, token_file }))
}

/// Checks folder, size and period of the history; by default it is beside the state.
fn history(draft: &draft::History, state: &Path) -> Result<HistorySettings> {
    let size = draft.size.map_or(HistorySettings::DEFAULT_SIZE, |size| size.0);
    if size != 0 && !(HistorySettings::SMALLEST..=HistorySettings::LARGEST).contains(&size) {
        let expected = "64 KiB to 64 GiB, or 0 B for no history";
        return fail(KeyPath::from("history.size"), Problem::range(format!("{size} B"), expected));
    }
    let folder = match &draft.folder {
        Some(folder) if !folder.is_absolute() => {
            let what = format!("\"{}\"", folder.display());
            return refused(KeyPath::from("history.folder"), what, "an absolute path");
        }
        Some(folder) => folder.clone(),
        None => state.join("history"),
    };
    let period = span(draft.period, "history.period", 60, (1, 60))?;
    Ok(HistorySettings { folder, size, period })
}

/// Checks the path of the text file: collectors read only files that end in `.prom`.
fn textfile(given: Option<&PathBuf>) -> Result<Option<PathBuf>> {
    match given {
        Some(p) if !p.is_absolute() || p.extension().is_none_or(|e| e != "prom") => refused(
            KeyPath::from("metrics.textfile"),
            format!("\"{}\"", p.display()),
            "an absolute path that ends in .prom",
        ),
        other => Ok(other.cloned()),
    }
}
