//! Locks: one daemon per socket, and one per shared resource of a network namespace.
//!
//! A daemon holds a [`Claim`] on its resources while it runs and registers itself as their [`Owner`]. The registration
//! stays after its end, so a process that acts for a dead daemon can find out if another daemon has taken the resources
//! since.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::fcntl::{Flock, FlockArg};
use nix::libc::{O_NOFOLLOW, O_NONBLOCK};
use serde::{Deserialize, Serialize};

use super::files::{self, Links};

/// Longest time for which a process keeps a lock that it does not use.
///
/// A child of a killed daemon has the daemon's locks until it executes another program.
pub const LOCK_PATIENCE: Duration = Duration::from_secs(3);
/// Largest registration, in bytes.
const MAX_REGISTRATION_BYTES: u64 = 16 * 1024;

/// A locked file; the kernel releases the lock when the process ends.
#[derive(Debug)]
pub struct Lock {
    file: Flock<File>,
}

impl Lock {
    /// Takes the lock; waits at most `patience`.
    ///
    /// # Errors
    /// The file cannot be created or is not a regular file, or another process holds the lock.
    pub fn take(path: &Path, patience: Duration) -> io::Result<Lock> {
        if let Some(folder) = path.parent() {
            make(folder)?;
        }
        let end = Instant::now() + patience;
        let mut file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .custom_flags(O_NOFOLLOW | O_NONBLOCK)
            .open(path)?;
        if !file.metadata()?.is_file() {
            let problem = "is not a regular file; remove it";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
        }
        loop {
            match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(file) => return Ok(Lock { file }),
                Err((back, _)) if Instant::now() < end => {
                    file = back;
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err((_, errno)) => return Err(errno.into()),
            }
        }
    }

    /// Replaces the content of the locked file.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn write(&mut self, text: &str) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.write_all_at(text.as_bytes(), 0)?;
        self.file.flush()
    }
}

/// Creates a folder if there is none.
///
/// systemd removes the folder of a `DynamicUser` with the service and keeps the link to it: then the link's target is
/// created, if the link belongs to this user.
fn make(folder: &Path) -> io::Result<()> {
    let Err(e) = std::fs::create_dir_all(folder) else { return Ok(()) };
    let link = std::fs::symlink_metadata(folder)
        .is_ok_and(|m| m.is_symlink() && m.uid() == nix::unistd::geteuid().as_raw());
    let (true, Some(beside)) = (link, folder.parent()) else { return Err(e) };
    std::fs::create_dir_all(beside.join(std::fs::read_link(folder)?))
}

/// A named resource of a network namespace for at most one daemon, such as an interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resource {
    /// Kind of the resource, in one word.
    pub kind: &'static str,
    /// Name of the resource.
    pub name: String,
}

/// Error of a claim: another process holds a resource, or its lock cannot be created.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}; another daemon uses the {} {}: stop it first", path.display(), resource.kind, resource.name)]
pub struct ClaimError {
    /// The resource.
    pub resource: Resource,
    /// Path of its lock.
    pub path: PathBuf,
    /// The system's error.
    #[source]
    pub problem: io::Error,
}

/// Identity of one run of a daemon.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Owner {
    /// Random identity of the run.
    pub run: String,
    /// Process number.
    pub pid: u32,
    /// Path of the control socket.
    pub socket: PathBuf,
    /// Folder of the persistent state.
    pub state: PathBuf,
}

impl Owner {
    /// Returns this process as a new run.
    pub fn new(socket: &Path, state: &Path) -> Owner {
        use std::hash::{BuildHasher, Hasher, RandomState};
        let random = || RandomState::new().build_hasher().finish();
        Owner {
            run: format!("{:016x}{:016x}", random(), random()),
            pid: std::process::id(),
            socket: socket.to_owned(),
            state: state.to_owned(),
        }
    }
}

/// Folder and network namespace of the locks of resources.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Registry {
    folder: PathBuf,
    namespace: u64,
}

/// Exclusive right to use some resources.
#[derive(Debug)]
pub struct Claim {
    locks: Vec<Lock>,
}

impl Claim {
    /// Registers the owner of all claimed resources.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn register(&mut self, owner: &Owner) -> io::Result<()> {
        let text = serde_json::to_string(owner).map_err(io::Error::from)?;
        self.locks.iter_mut().try_for_each(|lock| lock.write(&text))
    }
}

impl Registry {
    /// Returns the registry of the calling thread's network namespace.
    ///
    /// It lies in the service manager's folder for the daemon (`RUNTIME_DIRECTORY`) if there is one: dynamic users of
    /// two services share no folder. A queue of the other service is another program's then, and stays.
    pub fn here() -> Registry {
        // OpenWrt has only /var/run.
        let run = if Path::new("/run").is_dir() { "/run" } else { "/var/run" };
        let given = std::env::var_os("RUNTIME_DIRECTORY").map(PathBuf::from);
        let folder = given.filter(|f| f.is_absolute() && f.is_dir());
        let namespace = std::fs::metadata("/proc/self/ns/net").map_or(0, |m| m.ino());
        Registry { folder: folder.unwrap_or_else(|| Path::new(run).join("fairmesh")), namespace }
    }

    /// Returns a registry in a folder of a test's own.
    #[cfg(test)]
    pub(crate) fn at(folder: &Path, namespace: u64) -> Registry {
        Registry { folder: folder.to_owned(), namespace }
    }

    /// Returns the path of a resource's lock.
    pub fn path(&self, resource: &Resource) -> PathBuf {
        let Resource { kind, name } = resource;
        self.folder.join(format!("{}-{kind}-{name}.lock", self.namespace))
    }

    /// Claims resources; waits at most `patience` for each.
    ///
    /// # Errors
    /// The first resource that another process holds.
    pub fn claim(&self, resources: &[Resource], patience: Duration) -> Result<Claim, ClaimError> {
        let one = |resource: &Resource| {
            let path = self.path(resource);
            Lock::take(&path, patience).map_err(|problem| ClaimError {
                resource: resource.clone(),
                path,
                problem,
            })
        };
        Ok(Claim { locks: resources.iter().map(one).collect::<Result<_, _>>()? })
    }

    /// Returns the run that owns the resource now or owned it last; `None` if none is known.
    pub fn owner(&self, resource: &Resource) -> Option<Owner> {
        read(&self.path(resource))
    }

    /// Returns the runs with a resource of a kind in this namespace, each once, the newest first.
    pub fn owners(&self, kind: &str) -> Vec<Owner> {
        let begins = format!("{}-{kind}-", self.namespace);
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let ours = entries.filter(|e| e.file_name().to_string_lossy().starts_with(&begins));
        let mut found: Vec<(std::time::SystemTime, Owner)> = ours
            .filter_map(|e| Some((e.metadata().ok()?.modified().ok()?, read(&e.path())?)))
            .collect();
        found.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        let mut owners: Vec<Owner> = Vec::new();
        for (_, owner) in found {
            if !owners.iter().any(|o| o.run == owner.run) {
                owners.push(owner);
            }
        }
        owners
    }
}

fn read(path: &Path) -> Option<Owner> {
    serde_json::from_str(&files::read_text(path, MAX_REGISTRATION_BYTES, Links::Refuse).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_not_taken_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (lock, victim) = (folder.path().join("lock"), folder.path().join("victim"));
        std::os::unix::fs::symlink(&victim, &lock).unwrap();
        assert!(Lock::take(&lock, Duration::ZERO).is_err());
        assert!(!victim.exists());
        std::fs::remove_file(&lock).unwrap();
        let held = Lock::take(&lock, Duration::ZERO).unwrap();
        assert!(Lock::take(&lock, Duration::ZERO).is_err(), "it is locked");
        let mode = std::fs::metadata(&lock).unwrap().mode() & 0o777;
        assert_eq!(mode & 0o077, 0, "{mode:o}: no other user can lock it");
        drop(held);
        assert!(Lock::take(&lock, Duration::ZERO).is_ok());
    }

    #[test]
    fn a_folder_that_went_with_the_service_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("fairmesh");
        std::os::unix::fs::symlink("private/fairmesh", &link).unwrap();
        assert!(Lock::take(&link.join("a.lock"), Duration::ZERO).is_ok());
        assert!(folder.path().join("private/fairmesh/a.lock").is_file());
    }

    fn registry(folder: &Path, namespace: u64) -> Registry {
        Registry::at(folder, namespace)
    }

    fn resources(mesh: &str, wired: &str, table: &str) -> Vec<Resource> {
        let resource = |kind, name: &str| Resource { kind, name: name.to_owned() };
        vec![resource("interface", mesh), resource("interface", wired), resource("table", table)]
    }

    #[test]
    fn two_daemons_share_no_interface_and_no_table() {
        let folder = tempfile::tempdir().unwrap();
        let take =
            |namespace, r: &[Resource]| registry(folder.path(), namespace).claim(r, Duration::ZERO);
        let held = take(1, &resources("bat0", "eth0", "a")).unwrap();
        for other in [
            resources("bat0", "eth1", "b"),
            resources("bat1", "eth0", "b"),
            resources("bat1", "eth1", "a"),
        ] {
            let e = take(1, &other).unwrap_err().to_string();
            assert!(e.contains("another daemon uses the"), "{e}");
        }
        assert!(take(2, &resources("bat0", "eth0", "a")).is_ok(), "another namespace");
        assert!(take(1, &resources("bat1", "eth1", "b")).is_ok());
        drop(held);
        assert!(take(1, &resources("bat0", "eth0", "a")).is_ok());
    }

    #[test]
    fn the_owner_is_known_during_and_after_its_run() {
        let folder = tempfile::tempdir().unwrap();
        let registry = registry(folder.path(), 1);
        let all = resources("bat0", "eth0", "a");
        assert_eq!(registry.owner(&all[0]), None);
        let first = Owner::new(Path::new("/a.sock"), Path::new("/a"));
        let second = Owner::new(Path::new("/b.sock"), Path::new("/b"));
        assert_ne!(first.run, second.run);
        let mut claim = registry.claim(&all, Duration::ZERO).unwrap();
        claim.register(&first).unwrap();
        assert_eq!(registry.owner(&all[2]), Some(first.clone()));
        drop(claim);
        assert_eq!(registry.owners("table"), std::slice::from_ref(&first));
        registry.claim(&all[..1], Duration::ZERO).unwrap().register(&second).unwrap();
        assert_eq!(registry.owner(&all[0]), Some(second.clone()));
        assert_eq!(registry.owners("interface").len(), 2);
        assert_eq!(registry.owners("table"), std::slice::from_ref(&first), "it claimed no table");
        std::fs::write(registry.path(&all[0]), "{").unwrap();
        assert_eq!(registry.owners("interface"), [first], "an unreadable registration is none");
    }

    #[test]
    fn a_fifo_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let lock = folder.path().join("lock");
        nix::unistd::mkfifo(&lock, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(Lock::take(&lock, Duration::ZERO).is_err());
    }
}
