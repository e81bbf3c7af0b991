//! Requirements of `run`, checked by `check` without changing anything.
//!
//! `run` uses the same functions. A line with [`CheckLine::stops`] keeps it from limiting anything: [`socket`] here and
//! locks end it, and the conflicts of [`HtbShaper::conflicts`] keep it from installing until they are gone. It logs the
//! other lines that are not ok as warnings. Traffic flows in either case.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;

use fairmesh_linux::{Error, HtbShaper, Layout};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag};
use nix::sys::stat::Mode;
use nix::sys::statfs::{PROC_SUPER_MAGIC, SYSFS_MAGIC};
use nix::unistd::{AccessFlags, access};
use serde::Serialize;

use crate::daemon::lock::Registry;
use crate::error::SocketPathError;
use crate::gateway::config::{self, Config};
use crate::gateway::doctor::{self, Verdict};
use crate::gateway::history::HistorySettings;
use crate::gateway::rescue;
use crate::gateway::sources;

/// One line of `check`.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct CheckLine {
    /// The subject.
    pub what: &'static str,
    /// True if `run` would start and work.
    pub ok: bool,
    /// True if `run` limits nothing because of it: it ends, or installs nothing and tries again.
    ///
    /// Otherwise it runs and warns.
    pub stops: bool,
    /// Result.
    pub text: String,
}

impl CheckLine {
    /// Returns a line with an error that keeps `run` from limiting anything.
    pub fn of(what: &'static str, result: Result<String, String>) -> Self {
        let stops = result.is_err();
        let (Ok(text) | Err(text)) = result;
        CheckLine { what, ok: !stops, stops, text }
    }

    /// Returns a line with an error that is a warning of `run`.
    pub(crate) fn warning(what: &'static str, result: Result<String, String>) -> Self {
        CheckLine { stops: false, ..CheckLine::of(what, result) }
    }

    /// Returns the line's first word.
    pub fn word(&self) -> &'static str {
        match (self.ok, self.stops) {
            (true, _) => "ok",
            (false, false) => "WARN",
            (false, true) => "BAD",
        }
    }
}

/// Checks that the daemon may listen at a path: it is free, or a replaceable socket.
///
/// # Errors
/// The object that is there instead.
pub fn socket(path: &Path) -> Result<(), SocketPathError> {
    match std::fs::symlink_metadata(path) {
        Ok(meta) if meta.file_type().is_socket() => Ok(()),
        Ok(meta) if meta.is_dir() => Err(SocketPathError::Directory(path.to_owned())),
        Ok(_) => Err(SocketPathError::NotASocket(path.to_owned())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(problem) => Err(SocketPathError::Unusable { path: path.to_owned(), problem }),
    }
}

/// Reports the files with subscribers, and their entries that are not used.
pub fn subscribers(config: &Config) -> Vec<CheckLine> {
    let mut lines = Vec::new();
    for file in &config.files {
        lines.push(CheckLine::of("subscribers", Ok(file.summary())));
        lines.extend(file.left_out().map(|text| CheckLine::warning("left out", Err(text))));
    }
    lines
}

/// Checks the folders and files of the daemon.
pub fn files(config: &Config) -> Vec<CheckLine> {
    if !nix::unistd::geteuid().is_root() {
        // The daemon runs as another user with other permissions.
        let text = "not checked without root".to_owned();
        return vec![CheckLine::of("state", Ok(text))];
    }
    let folder = writable(&config.state);
    let folder = folder.map_err(|e| format!("paths.state: {}: {e}", config.state.display()));
    let free = socket(&config.socket).map_err(|e| e.to_string());
    let listen = free.and_then(|()| {
        let parent = config.socket.parent().unwrap_or(Path::new("/"));
        writable(parent).map_err(|e| format!("paths.socket: {}: {e}", parent.display()))
    });
    let shown = |path: &Path| path.display().to_string();
    let history = match &config.history {
        HistorySettings { size: 0, .. } => Ok("none (history.size = \"0 B\")".to_owned()),
        HistorySettings { folder, size, .. } => match writable(folder) {
            Ok(()) => Ok(format!("{}, at most {} KiB", shown(folder), size >> 10)),
            Err(e) => Err(format!("history.folder: {}: {e}", shown(folder))),
        },
    };
    vec![
        CheckLine::of("state", folder.map(|()| format!("{} is writable", shown(&config.state)))),
        CheckLine::warning("history", history),
        CheckLine::of("socket", listen.map(|()| format!("{} is free", shown(&config.socket)))),
        CheckLine::of("daemon", living(config)),
    ]
}

/// Checks that a folder, or the one in which it would be created, can be written to.
fn writable(folder: &Path) -> Result<(), String> {
    let mut there = folder;
    loop {
        match std::fs::metadata(there) {
            Ok(meta) if !meta.is_dir() => {
                return Err(format!("{} is not a directory; expected one", there.display()));
            }
            Ok(_) => break,
            Err(e) if e.kind() == io::ErrorKind::NotFound => match there.parent() {
                Some(parent) if parent.as_os_str().is_empty() => there = Path::new("."),
                Some(parent) => there = parent,
                None => return Err(e.to_string()),
            },
            // A file is in the place of a folder.
            Err(e) if e.kind() == io::ErrorKind::NotADirectory => match there.parent() {
                Some(parent) => there = parent,
                None => return Err(e.to_string()),
            },
            Err(e) => return Err(format!("{e}; expected a writable directory")),
        }
    }
    let refuse = |e: &dyn std::fmt::Display| {
        Err(format!("{} is not writable ({e}); expected a writable directory", there.display()))
    };
    if let Err(e) = access(there, AccessFlags::W_OK | AccessFlags::X_OK) {
        return refuse(&e);
    }
    // A file without a name leaves no trace. Root passes the check above on any file system.
    let flags = OFlag::O_TMPFILE | OFlag::O_RDWR | OFlag::O_CLOEXEC;
    let unnamed = nix::fcntl::open(there, flags, Mode::S_IRUSR | Mode::S_IWUSR);
    match unnamed {
        Ok(_) => Ok(()),
        Err(e @ (Errno::EOPNOTSUPP | Errno::EISDIR | Errno::EINVAL | Errno::ENOENT)) => {
            let kind = nix::sys::statfs::statfs(there).map(|s| s.filesystem_type());
            let virtual_only = [PROC_SUPER_MAGIC, SYSFS_MAGIC];
            if kind.is_ok_and(|k| virtual_only.contains(&k)) { refuse(&e) } else { Ok(()) }
        }
        Err(e) => refuse(&e),
    }
}

/// Checks if another daemon has the socket or the interfaces.
///
/// One with this socket can be reloaded.
fn living(config: &Config) -> Result<String, String> {
    if held(&config.socket.with_extension("lock")) && UnixStream::connect(&config.socket).is_ok() {
        return Ok(format!(
            "a daemon is running with the socket {}: use `reload`; `run` would be refused",
            config.socket.display()
        ));
    }
    let registry = Registry::here();
    for resource in rescue::resources(&config.layout) {
        let path = registry.path(&resource);
        if held(&path) {
            return Err(format!(
                "another daemon uses the {} {} ({} is locked); stop it first",
                resource.kind,
                resource.name,
                path.display()
            ));
        }
    }
    Ok("no daemon uses this socket or these interfaces".to_owned())
}

/// True if a process holds a lock file. Nothing is created.
fn held(path: &Path) -> bool {
    let opened = File::options().read(true).custom_flags(nix::libc::O_NONBLOCK).open(path);
    let Ok(file) = opened else { return false };
    Flock::lock(file, FlockArg::LockSharedNonblock).is_err()
}

/// Checks existing objects on the interfaces, and that the interfaces are not swapped.
pub fn kernel(config: &Config, layout: &Layout) -> Vec<CheckLine> {
    let mut lines = Vec::new();
    // A missing interface has a line of its own.
    let there = [layout.mesh.name(), layout.wired.name()]
        .into_iter()
        .all(|name| fairmesh_linux::link::named(name).is_ok());
    if let Ok(mut plane) = HtbShaper::open()
        && there
    {
        let placed = |(i, s): (usize, &config::Subscriber)| {
            fairmesh_linux::Subscriber::new(i as u16 + 1, s.prefixes.iter().copied())
        };
        let subscribers = config.subscribers.iter().enumerate().map(placed).collect();
        let found = plane.conflicts(&Layout { subscribers, ..layout.clone() });
        let none = "no conflicting queue or table".to_owned();
        match found.as_slice() {
            [] => lines.push(CheckLine::of("conflicts", Ok(none))),
            found => lines.extend(found.iter().map(|e| match e {
                // As for the kernel's features: an unprivileged user may check the rest.
                Error::NotPermitted { .. } => {
                    CheckLine::of("conflicts", Ok(format!("not checked: {e}")))
                }
                e => CheckLine::of("conflicts", Err(e.to_string())),
            })),
        }
    }
    lines.extend(sides(config));
    lines
}

/// Checks that the interfaces are not swapped.
///
/// Routes change, so only interfaces that are certainly swapped are a conflict.
pub fn sides(config: &Config) -> Vec<CheckLine> {
    let directions = doctor::sides(config).into_iter().filter(|f| f.code == "direction");
    let line = |f: doctor::Finding| match f.verdict {
        Verdict::Wrong => Err(f.text),
        Verdict::Fine | Verdict::Unknown | Verdict::Suspicious => Ok(f.text),
    };
    directions.map(|f| CheckLine::warning("direction", line(f))).collect()
}

/// Checks the sources of subscribers: each is queried once.
pub fn discovery(config: &Config) -> Vec<CheckLine> {
    let Some(discover) = &config.discover else { return Vec::new() };
    let seen = sources::fetch(discover, config.layout.mesh.name());
    let line = |s: sources::SourceReport| {
        let result = match (&s.failed, s.subscribers) {
            (Some(e), _) => Err(format!("{}: {e}", s.name)),
            (None, 0) => Err(format!("{}: {}", s.name, s.counts())),
            (None, _) => Ok(format!("{}: {}", s.name, s.counts())),
        };
        CheckLine::warning("source", result)
    };
    seen.sources.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_is_no_socket_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        assert!(socket(&at("gw.sock")).is_ok());
        let _listener = std::os::unix::net::UnixListener::bind(at("gw.sock")).unwrap();
        assert!(socket(&at("gw.sock")).is_ok());
        std::fs::write(at("file"), "precious").unwrap();
        assert!(
            socket(&at("file")).unwrap_err().to_string().contains("exists and is not a socket")
        );
        assert!(socket(folder.path()).unwrap_err().to_string().contains("is a directory"));
        assert!(socket(&at("file/gw.sock")).is_err());
        assert_eq!(std::fs::read_to_string(at("file")).unwrap(), "precious");
    }

    #[test]
    fn a_folder_that_cannot_be_written_to_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        assert_eq!(writable(&at("new/deeper")), Ok(()));
        assert!(!at("new").exists(), "nothing is made");
        std::fs::write(at("file"), "").unwrap();
        assert!(writable(&at("file")).unwrap_err().contains("is not a directory"));
        assert!(writable(&at("file/state")).unwrap_err().contains("is not a directory"));
        assert!(writable(Path::new("/proc/fairmesh")).is_err());
    }

    #[test]
    fn a_held_lock_is_seen_and_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.lock");
        assert!(!held(&path) && !path.exists());
        let lock = crate::daemon::lock::Lock::take(&path, std::time::Duration::ZERO).unwrap();
        assert!(held(&path));
        drop(lock);
        assert!(!held(&path));
    }
}
