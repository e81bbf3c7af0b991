//! Sources that `init` asks, each by the reader that the daemon uses.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use fairmesh_linux::Interface;
use fairmesh_linux::link::Link;
use fairmesh_linux::nl80211::RadioMode;
use serde::Serialize;

use super::InitOptions;
use crate::gateway::config::{Discover, Endpoint, Subscriber};
use crate::gateway::directory::{self, Sources};
use crate::gateway::sources::{SourceError, SourceReport};

/// Default addresses of babeld's local interface (`babeld -G 33123`).
const BABEL_ADDRESSES: [&str; 2] = ["[::1]:33123", "127.0.0.1:33123"];
/// Unix sockets of babeld's local interface (`babeld -G /run/babeld.sock`) in packages.
const BABEL_SOCKETS: [&str; 3] = ["/run/babeld.sock", "/run/babel.sock", "/run/babeld/babeld.sock"];
/// Default addresses of olsrd's jsoninfo.
const OLSR_ADDRESSES: [&str; 2] = ["127.0.0.1:9090", "[::1]:9090"];

/// Kind of a source of homes.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum SourceKind {
    /// A NetJSON file.
    Netjson,
    /// batman-adv.
    Batman,
    /// babeld.
    Babel,
    /// olsrd.
    Olsr,
    /// Routes of the kernel.
    Routes,
    /// Paths of an 802.11s mesh point and its neighbour table.
    MeshPaths,
    /// Neighbour table of the kernel.
    Neighbours,
}

/// A source to ask.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub kind: SourceKind,
    /// The source alone, as in the configuration.
    pub discover: Discover,
    /// True if the operator has named it.
    pub named: bool,
    /// Interface that the source is bound to.
    pub mesh: Option<Interface>,
}

/// A source that was asked.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct QueriedSource {
    /// Kind.
    pub kind: SourceKind,
    /// True if nothing is there: no daemon listens at a default address.
    pub absent: bool,
    /// Counts, or the reason of the failure.
    #[serde(flatten)]
    pub report: SourceReport,
}

/// A source's answer.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub candidate: Candidate,
    pub asked: QueriedSource,
    pub homes: Vec<Subscriber>,
}

/// Returns files and routing daemons to ask: the named ones, else those at default places.
pub(super) fn daemons(options: &InitOptions, links: &[Link]) -> Vec<Candidate> {
    let mut all = Vec::new();
    let mut add = |kind, named, mesh, discover| all.push(Candidate { kind, discover, named, mesh });
    if let Some(path) = &options.netjson {
        let netjson = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let discover = Discover { netjson: Some(netjson), ..Discover::default() };
        add(SourceKind::Netjson, true, None, discover);
    }
    let batman = |name: &str| Discover { batman: Some(name.to_owned()), ..Discover::default() };
    match &options.batman {
        Some(i) => add(SourceKind::Batman, true, Some(i.clone()), batman(i.name())),
        None => {
            let of_kind = |l: &&Link| l.kind.as_deref() == Some("batadv");
            for link in links.iter().filter(of_kind) {
                let Ok(i) = Interface::new(&link.name) else { continue };
                let discover = batman(i.name());
                add(SourceKind::Batman, false, Some(i), discover);
            }
        }
    }
    let babel = |endpoint| Discover { babel: Some(endpoint), ..Discover::default() };
    match &options.babel {
        Some(endpoint) => add(SourceKind::Babel, true, None, babel(endpoint.clone())),
        None => {
            let sockets = BABEL_SOCKETS.into_iter().filter(|path| Path::new(path).exists());
            let sockets = sockets.map(|path| Endpoint::Unix(PathBuf::from(path)));
            for endpoint in
                BABEL_ADDRESSES.into_iter().filter_map(|a| a.parse().ok()).chain(sockets)
            {
                add(SourceKind::Babel, false, None, babel(endpoint));
            }
        }
    }
    let olsr = |address| Discover { olsr: Some(address), ..Discover::default() };
    match options.olsr {
        Some(address) => add(SourceKind::Olsr, true, None, olsr(address)),
        None => {
            for address in OLSR_ADDRESSES.into_iter().filter_map(|a| a.parse::<SocketAddr>().ok()) {
                add(SourceKind::Olsr, false, None, olsr(address));
            }
        }
    }
    all
}

/// Returns the kernel's tables to ask, for interfaces that could lead to a mesh.
///
/// The neighbour table of an interface without radio shows any local network, so it is not asked.
pub(super) fn tables(of: &[(Interface, Option<RadioMode>)]) -> Vec<Candidate> {
    let mut all = Vec::new();
    for (interface, mode) in of {
        let mut add = |kind, discover| {
            all.push(Candidate { kind, discover, named: false, mesh: Some(interface.clone()) });
        };
        add(SourceKind::Routes, Discover { routes: true, ..Discover::default() });
        match mode {
            None => {}
            Some(RadioMode::MeshPoint) => {
                let discover =
                    Discover { mesh_paths: true, neighbours: true, ..Discover::default() };
                add(SourceKind::MeshPaths, discover);
            }
            Some(_) => {
                add(SourceKind::Neighbours, Discover { neighbours: true, ..Discover::default() });
            }
        }
    }
    all
}

/// Asks sources at the same time: one that hangs delays none of the others.
pub(super) fn all(candidates: Vec<Candidate>) -> Vec<Answer> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = candidates.into_iter().map(|c| scope.spawn(move || ask(c))).collect();
        // `ask` reports a panic of a reader as a failure of the source.
        threads.into_iter().filter_map(|t| t.join().ok()).collect()
    })
}

fn ask(candidate: Candidate) -> Answer {
    let mesh = candidate.mesh.as_ref().map_or("lo", Interface::name).to_owned();
    let discover = candidate.discover.clone();
    let found = directory::ask(&mut Sources { discover, mesh: mesh.clone() });
    let nothing_there = |e: &SourceError| match e {
        SourceError::Io(e) => {
            matches!(e.kind(), std::io::ErrorKind::ConnectionRefused | std::io::ErrorKind::NotFound)
        }
        SourceError::Kernel(_) => true,
        _ => false,
    };
    // An interface of batman-adv without `batctl` has to be reported.
    let by_default = !candidate.named && candidate.kind != SourceKind::Batman;
    let absent = by_default && found.failed.iter().any(|f| nothing_there(&f.problem));
    let mut report = found.sources.into_iter().next().unwrap_or_else(|| SourceReport {
        failed: found.failed.first().map(|f| f.problem.to_string()),
        ..SourceReport::default()
    });
    // A mesh point's neighbour table adds addresses to the homes of its paths.
    report.addresses = found.found.iter().map(|s| (s.prefixes.len() + s.macs.len()) as u64).sum();
    report.subscribers = found.found.len();
    if matches!(candidate.kind, SourceKind::Routes | SourceKind::Neighbours | SourceKind::MeshPaths)
    {
        report.name = format!("{} of {mesh}", report.name);
    }
    Answer {
        asked: QueriedSource { kind: candidate.kind, absent, report },
        candidate,
        homes: found.found,
    }
}

/// Returns the index of the chosen source: a routing daemon, else the table with most homes.
///
/// If the operator has named sources, only those count.
pub(super) fn best(answers: &[Answer]) -> Option<usize> {
    let named = answers.iter().any(|a| a.candidate.named);
    let shows = |i: &usize| {
        let answer = &answers[*i];
        !answer.homes.is_empty() && (answer.candidate.named || !named)
    };
    let all = || (0..answers.len()).filter(shows);
    let daemon = |i: &usize| {
        matches!(
            answers[*i].candidate.kind,
            SourceKind::Netjson | SourceKind::Batman | SourceKind::Babel | SourceKind::Olsr
        )
    };
    let by_homes = || all().rev().max_by_key(|i| answers[*i].homes.len());
    all().find(daemon).or_else(by_homes)
}
