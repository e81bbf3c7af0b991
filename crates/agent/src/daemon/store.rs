//! Files that survive the daemon: replaced as a whole, so that readers never see a part.

use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::files::{self, Links};

/// Largest state and configuration, bytes: 60,000 class numbers take 17 MB at most.
const MAX_FILE_BYTES: u64 = 32 << 20;

/// Folder of a service's state.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    last: Option<String>,
}

impl Store {
    /// Returns the store in a folder, which is created with the first file.
    pub fn new(folder: &Path) -> Store {
        Store { folder: folder.to_owned(), last: None }
    }

    /// Returns the path of the state file.
    pub fn file(&self) -> PathBuf {
        self.folder.join("state.json")
    }

    /// Returns the path of the last configuration that worked.
    pub fn good_config(&self) -> PathBuf {
        self.folder.join("gateway.last-good.toml")
    }

    /// Reads the state; `None` at the first start.
    ///
    /// # Errors
    /// A file that cannot be read or is not a regular file of bounded size.
    pub fn load(&mut self) -> io::Result<Option<String>> {
        match files::read_text(&self.file(), MAX_FILE_BYTES, Links::Refuse) {
            Ok(text) => {
                self.last = Some(text.clone());
                Ok(Some(text))
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Writes the state if it differs from the last one, to limit writes to flash.
    ///
    /// # Errors
    /// A disk that is full, read-only or gone; the old file stays.
    pub fn save(&mut self, text: &str) -> io::Result<()> {
        if self.last.as_deref() == Some(text) {
            return Ok(());
        }
        write(&self.file(), text.as_bytes())?;
        self.last = Some(text.to_owned());
        Ok(())
    }

    /// Reads a part of the state; `None` if it was never written.
    ///
    /// # Errors
    /// As for [`Store::load`].
    pub fn load_part(&self, name: &str) -> io::Result<Option<String>> {
        match files::read_text(&self.folder.join(name), MAX_FILE_BYTES, Links::Refuse) {
            Ok(text) => Ok(Some(text)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Writes a part of the state. It is not forced onto the disk.
    ///
    /// # Errors
    /// As for [`Store::save`].
    pub fn save_part(&self, name: &str, text: &str) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        replace(&self.folder.join(name), text.as_bytes(), 0o600, false)
    }

    /// Stores a configuration that works, if it differs from the stored one.
    ///
    /// # Errors
    /// As for [`Store::save`].
    pub fn save_good_config(&self, text: &str) -> io::Result<()> {
        let same = self.read_good_config().is_ok_and(|old| old == text);
        if same { Ok(()) } else { write(&self.good_config(), text.as_bytes()) }
    }

    /// Reads the last configuration that worked.
    ///
    /// # Errors
    /// A file that does not exist, cannot be read or is not a regular file of bounded size.
    pub fn read_good_config(&self) -> io::Result<String> {
        files::read_text(&self.good_config(), MAX_FILE_BYTES, Links::Refuse)
    }
}

/// Replaces a file for other readers, such as a page of metrics.
///
/// It is readable by all users and not forced onto the disk.
///
/// # Errors
/// It cannot be written; the old file stays.
pub fn publish(path: &Path, text: &str) -> io::Result<()> {
    replace(path, text.as_bytes(), 0o644, false)
}

/// Replaces a file of the daemon's own, and forces it onto the disk.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    replace(path, bytes, 0o600, true)
}

/// Writes a new file of a random name and renames it.
///
/// Links of other users in the same folder are therefore not followed, and a full disk loses nothing.
///
/// # Errors
/// The system's; the old file stays.
pub(crate) fn replace(path: &Path, bytes: &[u8], mode: u32, lasting: bool) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let chance = RandomState::new().build_hasher().finish();
    let beside = path.with_file_name(format!(".{name}.{chance:016x}.new"));
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .custom_flags(nix::libc::O_NOFOLLOW)
        .open(&beside)?;
    let written = (|| {
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        file.write_all(bytes)?;
        if lasting {
            file.sync_all()?;
        }
        fs::rename(&beside, path)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_comes_back_and_is_written_when_it_changes() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("a/b");
        let mut store = Store::new(&at);
        assert_eq!(store.load().unwrap(), None, "the first start");
        store.save("{\"a\": 7}").unwrap();
        assert_eq!(Store::new(&at).load().unwrap().as_deref(), Some("{\"a\": 7}"));
        let written = |s: &Store| fs::metadata(s.file()).unwrap().modified().unwrap();
        let before = written(&store);
        store.save("{\"a\": 7}").unwrap();
        assert_eq!(written(&store), before);
    }

    #[test]
    fn a_published_file_is_whole_and_readable() {
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join("fairmesh.prom");
        publish(&page, "a 1\n").unwrap();
        publish(&page, "a 2\n").unwrap();
        assert_eq!(fs::read_to_string(&page).unwrap(), "a 2\n");
        assert_eq!(fs::metadata(&page).unwrap().permissions().mode() & 0o777, 0o644);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing beside it");
        assert!(publish(Path::new("/dev/full/fairmesh.prom"), "a 3\n").is_err());
    }

    /// Another user has placed a link at the path of the page and of its temporary file.
    ///
    /// The folder is shared, as /tmp.
    #[test]
    fn publishing_follows_no_link() {
        let folder = tempfile::tempdir().unwrap();
        let victim = folder.path().join("victim");
        let page = folder.path().join("fairmesh.prom");
        for name in ["fairmesh.prom", "fairmesh.new", "fairmesh.prom.new"] {
            fs::write(&victim, "mine").unwrap();
            let link = folder.path().join(name);
            let _ = fs::remove_file(&link);
            std::os::unix::fs::symlink(&victim, &link).unwrap();
            publish(&page, "a 1\n").unwrap();
            assert_eq!(fs::read_to_string(&victim).unwrap(), "mine", "{name}");
            assert_eq!(fs::read_to_string(&page).unwrap(), "a 1\n");
            assert!(fs::symlink_metadata(&page).unwrap().is_file());
        }
    }

    #[test]
    fn a_full_disk_loses_nothing() {
        // Stands for a folder that cannot be created.
        let mut store = Store::new(Path::new("/dev/full/x"));
        assert!(store.save("{}").is_err());
    }
}
