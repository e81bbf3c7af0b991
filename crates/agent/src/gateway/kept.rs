//! State of the gateway across restarts: class numbers, overrides, learned rates, layout.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use fairmesh_linux::{Direction, Layout};
use fairmesh_units::{BitRate, Span, Time};
use serde::{Deserialize, Serialize};

use crate::daemon::store::Store;
use crate::error::{AgentError, FallbackProblem};
use crate::gateway::config::is_plain;
use crate::gateway::config::{Config, ConfigError};
use crate::gateway::governor::{Override, Usage};

/// An override with its end by the system's clock.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct SavedOverride {
    /// Name of the subscriber.
    pub subscriber: String,
    /// "down" or "up".
    pub direction: String,
    /// Bits per second of IP packets; `None`: unlimited.
    pub rate: Option<u64>,
    /// End, seconds since 1970.
    pub until: u64,
    /// Seconds left when `until` was written.
    ///
    /// The override never gets more, and it has these on a machine that does not know the time yet.
    #[serde(default)]
    pub left: Option<u64>,
}

impl SavedOverride {
    /// Returns the override at `now` of the daemon's clock and `wall` seconds since 1970.
    ///
    /// `None` for values that no operator can set: another program may have written the file.
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

/// Stored state.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize, Debug)]
#[serde(default)]
pub struct SavedState {
    /// Version of this format; other versions are not read.
    pub version: u32,
    /// Class numbers by name.
    pub classes: BTreeMap<String, u16>,
    /// Overrides in force.
    pub overrides: Vec<SavedOverride>,
    /// Learned rate of the control.
    pub learned: Option<SavedRate>,
    /// Use of quotas by subscriber.
    pub quotas: BTreeMap<String, Usage>,
    /// Place of classes and rules, without subscribers.
    pub layout: Option<Layout>,
    /// Reason why the use of quotas since the last full state is lost.
    #[serde(skip)]
    pub lost_quotas: Option<String>,
}

/// Use of quotas, written every minute beside the state.
#[derive(Serialize, Deserialize)]
struct SavedQuotas {
    version: u32,
    quotas: BTreeMap<String, Usage>,
}

/// File with the use of quotas in the folder of the state.
pub const QUOTAS_FILE: &str = "quotas.json";

impl SavedState {
    /// Returns the state as the text of its file.
    pub fn text(&self) -> String {
        let kept = SavedState { version: STATE_VERSION, ..self.clone() };
        // Plain data with text as keys can always be serialized.
        serde_json::to_string_pretty(&kept).unwrap_or_default()
    }

    /// Reads the state in a store; the default at the first start.
    ///
    /// # Errors
    /// A file that cannot be read or is refused.
    pub fn load(store: &mut Store) -> Result<SavedState, io::Error> {
        let mut kept = match store.load()? {
            Some(text) => SavedState::read(&text)?,
            None => SavedState::default(),
        };
        let later = store.load_part(QUOTAS_FILE).and_then(|text| {
            let saved = text.map(|text| serde_json::from_str::<SavedQuotas>(&text)).transpose()?;
            match saved {
                Some(saved) if saved.version != STATE_VERSION => Err(io::Error::other(format!(
                    "version {} is not {STATE_VERSION}",
                    saved.version
                ))),
                saved => Ok(saved.map(|saved| saved.quotas).unwrap_or_default()),
            }
        });
        match later {
            Ok(later) => kept.add_quotas(later),
            Err(e) => kept.lost_quotas = Some(format!("{QUOTAS_FILE}: {e}")),
        }
        Ok(kept)
    }

    /// Takes over the use of quotas where it is of a later period, or larger.
    fn add_quotas(&mut self, later: BTreeMap<String, Usage>) {
        for (name, usage) in later {
            let known = self.quotas.entry(name).or_insert(usage);
            if (usage.since, usage.bytes) > (known.since, known.bytes) {
                *known = usage;
            }
        }
    }

    /// Returns the use of quotas as the text of its file.
    pub fn quotas_text(&self) -> String {
        let saved = SavedQuotas { version: STATE_VERSION, quotas: self.quotas.clone() };
        serde_json::to_string(&saved).unwrap_or_default()
    }

    /// Reads the state from the text of its file.
    ///
    /// # Errors
    /// It is invalid, or of another version.
    pub fn read(text: &str) -> Result<SavedState, io::Error> {
        let mut kept: SavedState = serde_json::from_str(text).map_err(io::Error::from)?;
        if kept.version != STATE_VERSION {
            return Err(io::Error::other(format!(
                "version {} is not {STATE_VERSION}",
                kept.version
            )));
        }
        // A layout that could not be installed was not installed.
        kept.layout = kept.layout.filter(|l| l.check().is_ok());
        Ok(kept)
    }
}

/// Learned rate of a control.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct SavedRate {
    /// Control with its variants.
    pub control: String,
    /// Rate of all subscribers together, bit/s of IP packets.
    pub rate: u64,
    /// Time, seconds since 1970.
    pub at: u64,
}

const STATE_VERSION: u32 = 1;

/// Reads the configuration, or the last valid one if that fails and `fall_back` is set.
///
/// The last valid one is returned with the error of the file. `folders` are its possible places, the most
/// likely first: the configured place is in the file that cannot be read.
///
/// # Errors
/// Returns the problem of the file, and that of the last valid configuration if it was requested.
pub fn load_config(
    file: &Path,
    fall_back: bool,
    folders: &[PathBuf],
) -> Result<(Config, Option<ConfigError>), AgentError> {
    let e = match Config::load(file) {
        Ok(config) => return Ok((config, None)),
        Err(e) if !fall_back => return Err(e.into()),
        Err(e) => e,
    };
    let mut first = None;
    for folder in folders {
        let store = Store::new(folder);
        match last_good_config(&store) {
            Ok(config) => return Ok((config, Some(e))),
            Err(problem) => _ = first.get_or_insert((store.good_config(), problem)),
        }
    }
    match first {
        None => Err(e.into()),
        Some((last_good, problem)) => {
            Err(AgentError::NoFallback { config: Box::new(e), last_good, problem })
        }
    }
}

/// Reads the last configuration that worked.
///
/// # Errors
/// It cannot be read, or is refused.
pub fn last_good_config(store: &Store) -> Result<Config, FallbackProblem> {
    let text = store.read_good_config()?;
    let file = store.good_config().display().to_string();
    Ok(Config::parse_stored(&file, &text).map_err(Box::new)?)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn an_invalid_file_falls_back_on_request_to_a_valid_one() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        let (file, good) = (at.join("gateway.toml"), Store::new(at).good_config());
        let text = "mesh = { interface = \"a\" }\nwired = { interface = \"b\" }\n\
                    control = { use = \"fifo\" }\n\
                    subscriber = [{ name = \"x\", prefixes = [\"10.0.0.1\"] }]";
        for broken in ["mood = 1", "mesh = {"] {
            fs::write(&file, broken).unwrap();
            let _ = fs::remove_file(&good);
            assert!(load_config(&file, true, &[at.to_owned()]).is_err(), "nothing ever worked");
            fs::write(&good, text).unwrap();
            assert!(load_config(&file, false, &[at.to_owned()]).is_err(), "not requested");
            let (config, fallen) = load_config(&file, true, &[at.to_owned()]).unwrap();
            assert_eq!(config.layout.mesh.name(), "a");
            assert!(fallen.unwrap().to_string().contains("gateway.toml"));
        }
        fs::write(&file, text.replace("\"a\"", "\"c\"")).unwrap();
        let (config, fallen) = load_config(&file, true, &[at.to_owned()]).unwrap();
        assert_eq!(config.layout.mesh.name(), "c", "the file goes first");
        assert!(fallen.is_none());
        fs::write(&file, "mood = 1").unwrap();
        fs::remove_file(&good).unwrap();
        nix::unistd::mkfifo(&good, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let line = load_config(&file, true, &[at.to_owned()]).unwrap_err().to_string();
        assert!(line.contains("gateway.last-good.toml: is a FIFO; expected a regular"), "{line}");
    }

    #[test]
    fn an_impossible_override_is_refused() {
        let now = Time::ZERO + Span::from_secs(7);
        let kept = |subscriber: &str, direction: &str, rate, until| {
            let (subscriber, direction) = (subscriber.to_owned(), direction.to_owned());
            SavedOverride { subscriber, direction, rate, until, left: None }
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
    fn garbage_and_other_versions_are_refused() {
        for text in ["{", "[]", "{\"version\": 99}", "{\"version\": 1, \"classes\": {\"a\": -1}}"] {
            assert!(SavedState::read(text).is_err(), "{text}");
        }
        let mut kept = SavedState::default();
        kept.classes.insert("alice".into(), 7);
        assert_eq!(SavedState::read(&kept.text()).unwrap().classes, kept.classes);
    }

    /// The name of its table would be part of a script for `nft`.
    #[test]
    fn an_invalid_layout_is_dropped() {
        let name = |n: &str| fairmesh_linux::Interface::new(n).unwrap();
        let layout = Layout::new(name("bat0"), name("eth0"));
        let text = SavedState { layout: Some(layout.clone()), ..SavedState::default() }.text();
        assert_eq!(SavedState::read(&text).unwrap().layout, Some(layout.clone()));
        let table = format!("\"{}\"", layout.table);
        let text = text.replace(&table, "\"x; flush ruleset\"");
        assert_eq!(SavedState::read(&text).unwrap().layout, None);
    }
}
