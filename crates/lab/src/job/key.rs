//! The key of a run: a hash of everything on which its result depends.

use std::fmt;
use std::str::FromStr;

use fairmesh_engine::RunOptions;
use fairmesh_scenario::Scenario;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest, Sha256};

/// Version of the layout of stored records; raised when older records become unreadable.
const RECORD_VERSION: u32 = 2;

/// Identity of the program's results: programs of the same revision give the same records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision(String);

impl Revision {
    /// Returns the revision of this program: the engine's, and the layout of its records.
    pub fn current() -> Self {
        Revision(format!("{}.{RECORD_VERSION}", fairmesh_engine::REVISION))
    }

    /// Returns another revision, for tests and for tools that read stores of other programs.
    pub fn named(name: impl Into<String>) -> Self {
        Revision(name.into())
    }

    /// Returns its text, as in stores.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// SHA-256 of a job's canonical form and the revision. Printed as 64 hexadecimal digits.
///
/// The canonical form has the resolved scenario with the values of all options of its controls, the
/// seed and the measures. Comments, the order of keys and the notation of a value have no
/// effect. Each kind of result (`run`, `optimum`) has its own form.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobKey([u8; 32]);

/// SHA-256 of a scenario's canonical text: the part that all seeds of a scenario share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScenarioHash([u8; 32]);

impl ScenarioHash {
    /// Returns the hash of everything on which a record of a run depends.
    pub fn of_run(scenario: &Scenario) -> Self {
        Self::of(|out| scenario.write_canonical(out))
    }

    /// Returns the hash of the network and its flows, without control, subscribers and name.
    pub fn of_network(scenario: &Scenario) -> Self {
        Self::of(|out| scenario.write_network(out))
    }

    fn of(write: impl FnOnce(&mut Hasher) -> fmt::Result) -> Self {
        let mut hasher = Hasher(Sha256::new());
        let written = write(&mut hasher);
        debug_assert!(written.is_ok(), "a hash accepts every text");
        ScenarioHash(hasher.0.finalize().into())
    }
}

impl JobKey {
    /// Returns the key of one run of a scenario.
    pub fn of_run(revision: &Revision, scenario: &ScenarioHash, options: &RunOptions) -> Self {
        // Without `..`: a new option must be added here or excluded explicitly.
        let RunOptions { seed, sample, acknowledged, links } = options;
        let text = format!(
            "seed = {seed}\nsample = {sample:?}\nacknowledged = {acknowledged}\nlinks = {links}\n"
        );
        Self::of(revision, "run", scenario, &text)
    }

    /// Returns the key of a result of another form, which depends on a scenario and on `text`.
    pub(crate) fn of(
        revision: &Revision,
        form: &'static str,
        scenario: &ScenarioHash,
        text: &str,
    ) -> Self {
        // Revision and form have one line each; the scenario's hash has a fixed length.
        let head = format!("fairmesh {revision}\n{form}\n");
        let hash = Sha256::new().chain_update(head).chain_update(scenario.0).chain_update(text);
        JobKey(hash.finalize().into())
    }
}

struct Hasher(Sha256);

impl fmt::Write for Hasher {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text);
        Ok(())
    }
}

impl fmt::Display for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is not a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("found \"{found}\"; expected 64 hexadecimal digits in lower case")]
pub struct KeyError {
    /// The text.
    pub found: String,
}

impl FromStr for JobKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let plain = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
        let wrong = || KeyError { found: text.chars().map(plain).take(80).collect() };
        let digit = |c: u8| match c {
            b'0'..=b'9' => Ok(c - b'0'),
            b'a'..=b'f' => Ok(c - b'a' + 10),
            _ => Err(wrong()),
        };
        let mut key = [0; 32];
        if text.len() != 2 * key.len() {
            return Err(wrong());
        }
        for (byte, pair) in key.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Ok(JobKey(key))
    }
}

impl Serialize for JobKey {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for JobKey {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Text;
        impl de::Visitor<'_> for Text {
            type Value = JobKey;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("64 hexadecimal digits in lower case")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<JobKey, E> {
                text.parse().map_err(E::custom)
            }
        }
        d.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: ScenarioHash = ScenarioHash([0; 32]);

    #[test]
    fn revision_form_scenario_and_text_are_part_of_the_key() {
        let key = |revision: &str, form, scenario: ScenarioHash, text| {
            JobKey::of(&Revision::named(revision), form, &scenario, text)
        };
        let one = key("1", "run", NOTHING, "a");
        assert_eq!(one, key("1", "run", NOTHING, "a"));
        for other in [
            key("2", "run", NOTHING, "a"),
            key("1", "optimum", NOTHING, "a"),
            key("1", "run", ScenarioHash([1; 32]), "a"),
            key("1", "run", NOTHING, "b"),
        ] {
            assert_ne!(one, other);
        }
    }

    #[test]
    fn a_key_reads_back_from_its_text_and_nothing_else_does() {
        let key = JobKey::of(&Revision::named("1"), "run", &NOTHING, "");
        let text = key.to_string();
        assert_eq!((text.len(), text.parse()), (64, Ok(key)));
        assert_eq!(serde_json::from_str::<JobKey>(&format!("\"{text}\"")).unwrap(), key);
        for wrong in ["", &text[1..], &format!("{}A", &text[1..]), &format!("{}ä", &text[2..])] {
            assert!(wrong.parse::<JobKey>().is_err(), "{wrong}");
        }
    }
}
