//! What is kept over a restart, in `/var/lib/fairmesh`: class numbers, overrides, and the last
//! configuration that worked. Written only when something has changed, so that flash lasts.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use fairmesh_linux::{Direction, Layout};
use fairmesh_units::{BitRate, Span, Time};
use serde::{Deserialize, Serialize};

use crate::gateway::config::is_plain;
use crate::gateway::config::{Config, ConfigError};
use crate::gateway::governor::Override;

/// An override with the end of its time on the clock of the wall.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct KeptOverride {
    /// Whose.
    pub subscriber: String,
    /// "down" or "up".
    pub direction: String,
    /// Bits per second of IP packets; `None`: unlimited.
    pub rate: Option<u64>,
    /// Seconds since 1970.
    pub until: u64,
    /// Seconds that it had left when `until` was written: it never gets more, and it has them on a
    /// machine that has yet to learn what time it is.
    #[serde(default)]
    pub left: Option<u64>,
}

impl KeptOverride {
    /// What it says at `now` of the daemon's clock and `wall` seconds since 1970; `None` for what
    /// nobody could have set: the file may be anybody's.
    pub fn read(&self, now: Time, wall: u64) -> Option<(Direction, Override)> {
        let direction = match self.direction.as_str() {
            "down" => Direction::Down,
            "up" => Direction::Up,
            _ => return None,
        };
        let mut left = self.until.checked_sub(wall)?;
        if let Some(most) = self.left {
            left = left.min(most);
        }
        let sensible = self.rate.is_none_or(|r| Override::RATES.contains(&r))
            && left as f64 <= Override::LONGEST.as_secs_f64()
            && self.subscriber.chars().count() <= 64
            && is_plain(&self.subscriber);
        let until = || now + Span::from_secs(left);
        sensible.then(|| (direction, Override { rate: self.rate.map(BitRate), until: until() }))
    }
}

/// Everything that is kept.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize, Debug)]
#[serde(default)]
pub struct Kept {
    /// Of this layout; another one is not read.
    pub version: u32,
    /// Class numbers by name.
    pub classes: BTreeMap<String, u16>,
    /// Overrides in force.
    pub overrides: Vec<KeptOverride>,
    /// What the control had found out.
    pub learned: Option<KeptLearning>,
    /// Where classes and rules were put, without subscribers.
    pub layout: Option<Layout>,
}

impl Kept {
    /// Reads what was kept, as a file has it.
    ///
    /// # Errors
    /// It makes no sense, or is another version's.
    pub fn read(text: &str) -> Result<Kept, io::Error> {
        let mut kept: Kept = serde_json::from_str(text).map_err(io::Error::from)?;
        if kept.version != VERSION {
            return Err(io::Error::other(format!("version {} is not {VERSION}", kept.version)));
        }
        // What could not have been installed was not.
        kept.layout = kept.layout.filter(|l| l.check().is_ok());
        Ok(kept)
    }
}

/// What a control had found out.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct KeptLearning {
    /// Which control, with its variants.
    pub control: String,
    /// Bits per second of IP packets for everybody together.
    pub rate: u64,
    /// When, in seconds since 1970.
    pub at: u64,
}

const VERSION: u32 = 1;
/// The longest state that is read: 60,000 class numbers with the longest names are 17 MB.
const MOST: u64 = 32 << 20;

/// The folder where it is kept.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    last: Option<String>,
}

impl Store {
    /// In this folder, which is made when something is to be kept.
    pub fn new(folder: &Path) -> Store {
        Store { folder: folder.to_owned(), last: None }
    }

    fn file(&self) -> PathBuf {
        self.folder.join("state.json")
    }

    /// Where the last configuration that worked is.
    pub fn good_config(&self) -> PathBuf {
        self.folder.join("gateway.last-good.toml")
    }

    /// What was kept; nothing on the first start.
    ///
    /// # Errors
    /// A file that cannot be read, or makes no sense: then nothing is known.
    pub fn load(&mut self) -> Result<Kept, io::Error> {
        let mut text = String::new();
        match fs::File::open(self.file()) {
            Ok(file) => _ = file.take(MOST).read_to_string(&mut text)?,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Kept::default()),
            Err(e) => return Err(e),
        }
        let kept = Kept::read(&text)?;
        self.last = Some(text);
        Ok(kept)
    }

    /// Keeps it, if it differs from what is kept.
    ///
    /// # Errors
    /// The disk is full, read-only or gone; what was kept before still is.
    pub fn save(&mut self, kept: &Kept) -> Result<(), io::Error> {
        let kept = Kept { version: VERSION, ..kept.clone() };
        let text = serde_json::to_string_pretty(&kept).map_err(io::Error::from)?;
        if self.last.as_deref() == Some(&text) {
            return Ok(());
        }
        write(&self.file(), text.as_bytes())?;
        self.last = Some(text);
        Ok(())
    }

    /// Keeps a configuration that worked, if it differs from what is kept.
    ///
    /// # Errors
    /// As [`Store::save`].
    pub fn save_good_config(&self, from: &Path) -> Result<(), io::Error> {
        let text = fs::read(from)?;
        let to = self.good_config();
        if from == to || fs::read(&to).is_ok_and(|old| old == text) {
            return Ok(());
        }
        write(&to, &text)
    }
}

/// A configuration; where it is wrong or gone and `fall_back` is set, the last one that worked, with
/// what is wrong. Where that one is kept stands in the file that cannot be read: `folder` is the
/// usual place.
///
/// # Errors
/// What is wrong with the file, and there is no other.
pub fn load_config(
    file: &Path,
    fall_back: bool,
    folder: &Path,
) -> Result<(Config, Option<ConfigError>), ConfigError> {
    match Config::load(file) {
        Ok(config) => Ok((config, None)),
        Err(e) if fall_back => match Config::load(&Store::new(folder).good_config()) {
            Ok(config) => Ok((config, Some(e))),
            Err(_) => Err(e),
        },
        Err(e) => Err(e),
    }
}

/// Replaces a file that others read, such as a page of metrics: they see the old or the new. Not
/// forced onto the disk, and readable by all.
///
/// # Errors
/// It cannot be written; what was there stays.
pub fn publish(path: &Path, text: &str) -> io::Result<()> {
    replace(path, text.as_bytes(), 0o644, false)
}

/// Writes beside and renames, so that a reader sees the old or the new and a full disk loses
/// nothing.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    replace(path, bytes, 0o600, true)
}

/// Puts a new file in the place of one. The new one has a name that nobody foresees and is made
/// here: in a folder where others may write, too, nothing of theirs is written through.
fn replace(path: &Path, bytes: &[u8], mode: u32, lasting: bool) -> io::Result<()> {
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
    fn what_is_kept_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("a/b");
        let mut store = Store::new(&at);
        assert_eq!(store.load().unwrap(), Kept::default(), "the first start");
        let mut kept = Kept::default();
        kept.classes.insert("alice".into(), 7);
        store.save(&kept).unwrap();
        let again = Store::new(&at).load().unwrap();
        assert_eq!(again.classes, kept.classes);
        // Nothing is written when nothing has changed.
        let written = |s: &Store| fs::metadata(s.file()).unwrap().modified().unwrap();
        let before = written(&store);
        store.save(&kept).unwrap();
        assert_eq!(written(&store), before);
    }

    #[test]
    fn garbage_and_other_versions_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::new(folder.path());
        for text in ["{", "[]", "{\"version\": 99}", "{\"version\": 1, \"classes\": {\"a\": -1}}"] {
            fs::write(store.file(), text).unwrap();
            assert!(store.load().is_err(), "{text}");
        }
    }

    /// Its table's name would go into a script for `nft`.
    #[test]
    fn a_place_that_cannot_be_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::new(folder.path());
        let name = |n: &str| fairmesh_linux::Interface::new(n).unwrap();
        let layout = Layout::new(name("bat0"), name("eth0"));
        store.save(&Kept { layout: Some(layout.clone()), ..Kept::default() }).unwrap();
        assert_eq!(store.load().unwrap().layout, Some(layout.clone()));
        let text = fs::read_to_string(store.file()).unwrap();
        let table = format!("\"{}\"", layout.table);
        fs::write(store.file(), text.replace(&table, "\"x; flush ruleset\"")).unwrap();
        assert_eq!(store.load().unwrap().layout, None);
    }

    #[test]
    fn a_wrong_file_falls_back_only_if_told_and_to_one_that_worked() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        let (file, good) = (at.join("gateway.toml"), Store::new(at).good_config());
        let text = "mesh = { interface = \"a\" }\nwired = { interface = \"b\" }\n\
                    control = { use = \"fifo\" }\n\
                    subscriber = [{ name = \"x\", prefixes = [\"10.0.0.1\"] }]";
        for broken in ["mood = 1", "mesh = {"] {
            fs::write(&file, broken).unwrap();
            let _ = fs::remove_file(&good);
            assert!(load_config(&file, true, at).is_err(), "nothing ever worked");
            fs::write(&good, text).unwrap();
            assert!(load_config(&file, false, at).is_err(), "not told to");
            let (config, fallen) = load_config(&file, true, at).unwrap();
            assert_eq!(config.layout.mesh.name(), "a");
            assert!(fallen.unwrap().to_string().contains("gateway.toml"));
        }
        fs::write(&file, text.replace("\"a\"", "\"c\"")).unwrap();
        let (config, fallen) = load_config(&file, true, at).unwrap();
        assert_eq!((config.layout.mesh.name(), fallen), ("c", None), "the file goes first");
    }

    #[test]
    fn what_is_published_is_whole_and_readable() {
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join("fairmesh.prom");
        publish(&page, "a 1\n").unwrap();
        publish(&page, "a 2\n").unwrap();
        assert_eq!(fs::read_to_string(&page).unwrap(), "a 2\n");
        assert_eq!(fs::metadata(&page).unwrap().permissions().mode() & 0o777, 0o644);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing beside it");
        assert!(publish(Path::new("/dev/full/fairmesh.prom"), "a 3\n").is_err());
    }

    /// In a folder such as /tmp somebody has laid a link where the page is, and where it would be
    /// made.
    #[test]
    fn what_is_published_goes_through_no_link() {
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
    fn an_override_that_nobody_could_have_set_is_refused() {
        let now = Time::ZERO + Span::from_secs(7);
        let kept = |subscriber: &str, direction: &str, rate, until| {
            let (subscriber, direction) = (subscriber.to_owned(), direction.to_owned());
            KeptOverride { subscriber, direction, rate, until, left: None }
        };
        let (direction, value) = kept("a", "up", Some(5_000), 1_060).read(now, 1_000).unwrap();
        assert_eq!((direction, value.rate), (Direction::Up, Some(BitRate(5_000))));
        assert_eq!(value.until, now + Span::from_secs(60));
        for wrong in [
            kept("a", "sideways", None, 1_060),
            kept("a", "up", Some(0), 1_060),
            kept("a", "up", Some(u64::MAX), 1_060),
            kept("a", "up", None, u64::MAX),
            kept("a", "up", None, 999),
            kept("", "up", None, 1_060),
            kept("a\u{202e}", "up", None, 1_060),
            kept(&"x".repeat(65), "up", None, 1_060),
        ] {
            assert_eq!(wrong.read(now, 1_000), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_full_disk_loses_nothing() {
        // /dev/full stands for it: a folder that cannot be made.
        let mut store = Store::new(Path::new("/dev/full/x"));
        assert!(store.save(&Kept::default()).is_err());
    }
}
