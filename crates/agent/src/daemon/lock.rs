//! Who has what: one daemon per socket, and per interface of a network namespace.

use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fairmesh_linux::Layout;

/// How long a process may hold a lock that will not keep it: a child of a daemon that was killed has its locks until it has
/// become another program.
pub const SOON: Duration = Duration::from_secs(3);

/// A file that is held until this goes; the kernel sees to that, however the process ends.
#[derive(Debug)]
pub struct Lock {
    _file: nix::fcntl::Flock<File>,
}

impl Lock {
    /// Takes the lock, waiting at most so long.
    ///
    /// # Errors
    /// The file cannot be made, or somebody holds it.
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
            .custom_flags(nix::libc::O_NOFOLLOW)
            .open(path)?;
        loop {
            match nix::fcntl::Flock::lock(file, nix::fcntl::FlockArg::LockExclusiveNonblock) {
                Ok(file) => return Ok(Lock { _file: file }),
                Err((back, errno)) if Instant::now() < end => {
                    let _ = errno;
                    file = back;
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err((_, errno)) => return Err(errno.into()),
            }
        }
    }
}

/// Makes a folder where there is none. systemd takes a user's own away with the service and leaves the
/// link that led there (`DynamicUser`): then it is made where that leads, if nobody else could have
/// laid it.
fn make(folder: &Path) -> io::Result<()> {
    let Err(e) = std::fs::create_dir_all(folder) else { return Ok(()) };
    let link = std::fs::symlink_metadata(folder)
        .is_ok_and(|m| m.is_symlink() && m.uid() == nix::unistd::geteuid().as_raw());
    let (true, Some(beside)) = (link, folder.parent()) else { return Err(e) };
    std::fs::create_dir_all(beside.join(std::fs::read_link(folder)?))
}

/// What two daemons in one network namespace must not share: the mesh side, the wired side, the
/// table. Held as long as this lives; waited for [`SOON`].
///
/// # Errors
/// One line that names what somebody holds, and the file.
pub fn take_interfaces(layout: &Layout) -> Result<Vec<Lock>, String> {
    // Not every system has /run, and /var/run is where it leads where there is one.
    let folder = Path::new(if Path::new("/run").is_dir() { "/run" } else { "/var/run" });
    let namespace = std::fs::metadata("/proc/self/ns/net").map_or(0, |m| m.ino());
    take_in(&folder.join("fairmesh"), namespace, layout, SOON)
}

fn take_in(
    folder: &Path,
    namespace: u64,
    layout: &Layout,
    patience: Duration,
) -> Result<Vec<Lock>, String> {
    let names = [
        ("interface", layout.mesh.name()),
        ("interface", layout.wired.name()),
        ("table", layout.table.as_str()),
    ];
    let one = |(what, name): (&str, &str)| {
        let path: PathBuf = folder.join(format!("{namespace}-{what}-{name}.lock"));
        Lock::take(&path, patience).map_err(|e| {
            format!(
                "{}: {e}; expected no other gateway daemon to have the {what} {name}",
                path.display()
            )
        })
    };
    names.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use fairmesh_linux::Interface;

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
        assert!(Lock::take(&lock, Duration::ZERO).is_err(), "somebody holds it");
        let mode = std::fs::metadata(&lock).unwrap().mode() & 0o777;
        assert_eq!(mode & 0o077, 0, "{mode:o}: nobody else can hold it for ever");
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

    #[test]
    fn two_daemons_share_no_interface_and_no_table() {
        let folder = tempfile::tempdir().unwrap();
        let layout = |mesh: &str, wired: &str, table: &str| {
            let name = |n: &str| Interface::new(n).unwrap();
            Layout { table: table.into(), ..Layout::new(name(mesh), name(wired)) }
        };
        let take = |namespace, l: &Layout| take_in(folder.path(), namespace, l, Duration::ZERO);
        let held = take(1, &layout("bat0", "eth0", "a")).unwrap();
        for other in
            [layout("bat0", "eth1", "b"), layout("bat1", "eth0", "b"), layout("bat1", "eth1", "a")]
        {
            let e = take(1, &other).unwrap_err();
            assert!(e.contains("expected no other gateway daemon"), "{e}");
        }
        assert!(take(2, &layout("bat0", "eth0", "a")).is_ok(), "another namespace");
        assert!(take(1, &layout("bat1", "eth1", "b")).is_ok());
        drop(held);
        assert!(take(1, &layout("bat0", "eth0", "a")).is_ok());
    }
}
