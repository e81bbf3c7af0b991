//! One run as data: its inputs, and the key that names its result.

pub(crate) mod key;

use std::path::Path;
use std::sync::Arc;

use fairmesh_control::Registry;
use fairmesh_engine::RunOptions;
use fairmesh_scenario::{Format, Scenario, format_of};
use fairmesh_units::Span;
use serde::{Deserialize, Serialize};

pub use key::{JobKey, KeyError, Revision, ScenarioHash};

use crate::changes::{Assignment, set_parameters, with_control};
use crate::{Changes, LabError, source};

/// One run of one scenario under one control with one seed.
/// It contains everything that another process, or another machine, needs to run it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// The scenario as it was read.
    pub source: Source,
    /// Changes of the scenario.
    #[serde(default)]
    pub changes: Changes,
    /// The control.
    #[serde(default)]
    pub control: Choice,
    /// Seed of every random stream.
    pub seed: u64,
    /// Quantities to measure beyond those of every record.
    #[serde(default)]
    pub measures: Measures,
}

/// A scenario as it was read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Name of the file, for messages; names the scenario if the text does not.
    pub file: String,
    /// Format of the text.
    pub format: Format,
    /// The text.
    pub text: Arc<str>,
}

impl Source {
    /// Builds the source from a file's content.
    ///
    /// # Errors
    /// Returns an error if the content is not a scenario in any format.
    pub fn new(file: &Path, content: &[u8]) -> Result<Self, LabError> {
        let file = file.to_string_lossy().into_owned();
        match format_of(content) {
            Ok((format, text)) => Ok(Source { file, format, text: text.into() }),
            Err(mut e) => {
                e.file.get_or_insert(file.into());
                Err(e.into())
            }
        }
    }
}

/// Choice of a control.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// Name of the control with variants; `None`: the scenario's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Values of its options other than their defaults.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<Assignment>,
}

/// Quantities to measure beyond those of every record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measures {
    /// Interval of the curves over time; `None`: no curves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<Span>,
    /// True to measure the delay until the sender has the acknowledgement.
    #[serde(default)]
    pub acknowledged: bool,
    /// True to record curves of links and of foreign energy.
    #[serde(default)]
    pub links: bool,
}

impl Measures {
    /// Returns the options of a run with this seed.
    pub fn options(&self, seed: u64) -> RunOptions {
        let Measures { sample, acknowledged, links } = *self;
        RunOptions { seed, sample, acknowledged, links }
    }
}

/// A job with a scenario that was read, changed and checked.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The scenario under its control.
    pub scenario: Scenario,
    /// Seed and measures.
    pub options: RunOptions,
}

impl Job {
    /// Reads the scenario, applies the changes and the control.
    /// `registry` has the mechanisms that they may name.
    ///
    /// # Errors
    /// Returns an error if the text, the changes or the control are invalid.
    pub fn resolve(&self, registry: &Registry) -> Result<Resolved, LabError> {
        let Job { source: Source { file, text, .. }, changes, control, seed, measures } = self;
        let mut scenario = source::build(Path::new(file), text.as_bytes(), changes, registry)?;
        if let Some(name) = &control.name {
            scenario = with_control(&scenario, name, registry)?;
        }
        set_parameters(std::slice::from_mut(&mut scenario), &control.options)?;
        Ok(Resolved { scenario, options: measures.options(*seed) })
    }

    /// Returns the key of its result.
    ///
    /// # Errors
    /// As [`Job::resolve`].
    pub fn key(&self, revision: &Revision, registry: &Registry) -> Result<JobKey, LabError> {
        Ok(self.resolve(registry)?.key(revision))
    }
}

impl Resolved {
    /// Returns the key of its result.
    pub fn key(&self, revision: &Revision) -> JobKey {
        JobKey::of_run(revision, &ScenarioHash::of_run(&self.scenario), &self.options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# a comment\nduration = \"4 s\"\nwarmup = \"1 s\"\n[radio]\nrate = \"1 Mbit/s\"\n\
        [topology]\nchain = { hops = 3, spacing = \"200 m\" }\ngateway = 0\n\
        [[flow]]\nname = \"f\"\nfrom = 3\nto = 0\n[control]\nuse = \"pfrc\"\n";

    fn job(text: &str) -> Job {
        Job {
            source: Source::new(Path::new("x.toml"), text.as_bytes()).unwrap(),
            changes: Changes::default(),
            control: Choice::default(),
            seed: 1,
            measures: Measures::default(),
        }
    }

    fn key(job: &Job) -> JobKey {
        job.key(&Revision::named("1"), &Registry::standard()).unwrap()
    }

    #[test]
    fn the_way_in_which_a_scenario_is_written_is_no_part_of_its_key() {
        let first = key(&job(TEXT));
        let pfrc = Registry::standard().lookup("pfrc").unwrap();
        let epoch = pfrc.value("epoch").unwrap();
        for same in [
            TEXT.replace("# a comment\n", "description = \"words\"\n"),
            TEXT.replace("\"4 s\"", "\"4000 ms\"").replace("\"1 Mbit/s\"", "\"1000 kbit/s\""),
            TEXT.replace(
                "duration = \"4 s\"\nwarmup = \"1 s\"",
                "warmup='1000ms'\nduration  =  \"4 s\"",
            ),
            TEXT.replace("name = \"f\"\nfrom = 3\nto = 0", "to = 0\nfrom = 3\nname = \"f\""),
            TEXT.replace("chain = { hops = 3, spacing", "chain = { spacing")
                .replace("200 m\"", "0.2 km\", hops = 3"),
            // The default, written out.
            TEXT.replace("use = \"pfrc\"", &format!("use = \"pfrc\"\nepoch = {epoch}")),
        ] {
            assert_eq!(key(&job(&same)), first, "{same}");
        }
    }

    #[test]
    fn every_value_is_part_of_the_key() {
        let mut keys = vec![key(&job(TEXT))];
        for other in [
            TEXT.replace("4 s", "5 s"),
            TEXT.replace("\"1 s\"", "\"1.000000001 s\""),
            TEXT.replace("200 m", "200.01 m"),
            TEXT.replace("from = 3", "from = 2"),
            TEXT.replace("\"f\"", "\"g\""),
            TEXT.replace("\"pfrc\"", "\"fifo\""),
            TEXT.replace("use = \"pfrc\"", "use = \"pfrc\"\nepoch = 2"),
        ] {
            assert_ne!(other, TEXT);
            keys.push(key(&job(&other)));
        }
        keys.push(key(&Job { seed: 2, ..job(TEXT) }));
        let sample = Some(Span::from_secs(1));
        keys.push(key(&Job { measures: Measures { sample, ..Measures::default() }, ..job(TEXT) }));
        keys.push(key(&Job {
            measures: Measures { links: true, ..Measures::default() },
            ..job(TEXT)
        }));
        keys.push(job(TEXT).key(&Revision::named("2"), &Registry::standard()).unwrap());
        let all = keys.len();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), all);
    }

    #[test]
    fn overrides_give_the_key_of_an_equal_file() {
        let mut changed = job(TEXT);
        changed.changes.duration = Some(Span::from_secs(5));
        changed.control.options = vec!["epoch=2".parse().unwrap()];
        let text = TEXT.replace("4 s", "5 s").replace("\"pfrc\"", "\"pfrc\"\nepoch = 2");
        assert_eq!(key(&changed), key(&job(&text)));
        changed.control.name = Some("arc".into());
        assert_ne!(key(&changed), key(&job(&text)));
    }

    #[test]
    fn a_mechanism_of_another_crate_has_keys_of_its_own() {
        use fairmesh_control::{Definition, Origin};

        let registry = |revision: &str| {
            let own = Definition::new("pfrc", "another meaning", Origin::ours(""));
            let mut registry = Registry::empty();
            registry.add(own.with_revision(revision.to_owned())).unwrap();
            registry
        };
        let key = |registry: &Registry| job(TEXT).key(&Revision::named("1"), registry).unwrap();
        let keys = [key(&Registry::standard()), key(&registry("own 1")), key(&registry("own 2"))];
        assert!(keys[0] != keys[1] && keys[1] != keys[2] && keys[0] != keys[2]);
        assert_eq!(keys[1], key(&registry("own 1")));
    }

    #[test]
    fn a_job_reads_back_from_its_text() {
        let mut one = job(TEXT);
        one.changes.duration = Some(Span::from_secs(5));
        one.changes.gateways = vec!["a".into()];
        one.control =
            Choice { name: Some("pfrc".into()), options: vec!["pfrc.epoch=0.1".parse().unwrap()] };
        one.measures.sample = Some(Span::from_millis(500));
        let text = serde_json::to_string(&one).unwrap();
        assert_eq!(serde_json::from_str::<Job>(&text).unwrap(), one, "{text}");
        let wrong = text.replacen("\"seed\"", "\"sead\"", 1);
        assert!(serde_json::from_str::<Job>(&wrong).is_err());
    }
}
