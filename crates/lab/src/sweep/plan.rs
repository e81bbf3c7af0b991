//! Plans of sweeps: the scenarios, the varied keys, the controls and the seeds.

use std::fmt::Display;
use std::path::Path;
use std::str::FromStr;

use fairmesh_document::{Document, Located, Problem};
use fairmesh_scenario::{Format, KeyPath, ScenarioError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::axes::{Axis, Filter};
use super::until::StopRule;
use crate::changes::{Assignment, Edit};
use crate::job::Source;
use crate::{Changes, LabError, Seeds, SettingProblem};

/// Column of the scenario's name in a sweep of several.
pub const SCENARIO_COLUMN: &str = "scenario";

/// A scenario of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Base {
    /// Name of the scenario in results.
    pub name: String,
    /// The scenario as it was read.
    pub source: Source,
    /// Changes that apply to every point.
    pub changes: Changes,
}

/// Everything that a sweep runs. [`super::Sweep::new`] checks it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The scenarios, at least one.
    pub bases: Vec<Base>,
    /// Varied keys; all combinations of their rows are points.
    pub axes: Vec<Axis>,
    /// If any, only points that match one of them run.
    pub only: Vec<Filter>,
    /// Points that match one of these do not run.
    pub skip: Vec<Filter>,
    /// Controls; if none, the scenario's own.
    pub controls: Vec<String>,
    /// Options of controls.
    pub options: Vec<Assignment>,
    /// Seeds of every point.
    pub seeds: Seeds,
    /// Rule that ends a point before its last seed.
    pub until: Option<StopRule>,
}

impl Plan {
    /// Builds the plan of one scenario with its own control, its default values and one seed.
    pub fn of(source: Source, changes: Changes) -> Self {
        let name = stem(&source.file);
        Plan {
            bases: vec![Base { name, source, changes }],
            axes: Vec::new(),
            only: Vec::new(),
            skip: Vec::new(),
            controls: Vec::new(),
            options: Vec::new(),
            seeds: Seeds::default(),
            until: None,
        }
    }

    /// Returns true if a text is that of a plan: TOML with the key `scenario`.
    pub fn is_plan(content: &[u8]) -> bool {
        let table = std::str::from_utf8(content).ok().and_then(|t| t.parse::<Table>().ok());
        table.is_some_and(|t| t.contains_key("scenario"))
    }

    /// Varies a key of `KEY=V1,V2,…` beside those that vary already.
    ///
    /// # Errors
    /// Returns an error if the text does not have this form.
    pub fn vary(&mut self, text: &str) -> Result<(), LabError> {
        self.axes.push(Axis::parse(text).map_err(|e| LabError::wrong("vary", e))?);
        Ok(())
    }
}

/// Returns an option of the controls.
/// `control.epoch` applies to the requested controls, regardless of the file's.
pub(super) fn number_of(key: &str, value: &str) -> Option<Assignment> {
    let parameter = key.strip_prefix("control.").filter(|p| !["use", "gateway"].contains(p))?;
    let value = value.parse().ok()?;
    Some(Assignment { control: None, parameter: parameter.to_owned(), value })
}

/// Returns the name of a scenario by its file's.
pub(super) fn stem(file: &str) -> String {
    Path::new(file).file_stem().map_or(file.into(), |s| s.to_string_lossy()).into_owned()
}

/// Sets a key for every run of a base: a key of a scenario file, or a setting of a map.
pub(super) fn set(base: &mut Base, key: &str, value: &str) -> Result<(), LabError> {
    match base.source.format {
        Format::Toml => {
            base.changes.edits.push(Edit { key: key.to_owned(), value: value.to_owned() });
            Ok(())
        }
        _ => {
            base.changes = of_map(&base.changes, key, value)?;
            Ok(())
        }
    }
}

/// Settings of a map that a plan may give.
const OF_MAPS: [&str; 14] = [
    "duration",
    "warmup",
    "gateways",
    "flows",
    "flow_count",
    "connections",
    "subscribers",
    "radio.phy",
    "radio.rate",
    "radio.width",
    "radio.streams",
    "radio.channel",
    "radio.metric",
    "radio.graph",
];

/// Returns the changes of a map with another value for one, such as `radio.phy`.
pub(super) fn of_map(changes: &Changes, key: &str, text: &str) -> Result<Changes, LabError> {
    let mut changed = changes.clone();
    let c = &mut changed;
    let outcome = match key {
        "duration" => quantity(text).map(|v| c.duration = Some(v)),
        "warmup" => quantity(text).map(|v| c.warmup = Some(v)),
        "gateways" => list(text).map(|v| c.gateways = v),
        "flows" => decoded(text).map(|v| c.flows = Some(v)),
        "flow_count" => decoded(text).map(|v| c.flow_count = Some(v)),
        "connections" => decoded(text).map(|v| c.connections = Some(v)),
        "subscribers" => decoded(text).map(|v| c.subscribers = v),
        "radio.phy" => decoded(text).map(|v| c.radio.phy = Some(v)),
        "radio.rate" => quantity(text).map(|v| c.radio.rate = Some(v)),
        "radio.width" => quantity(text).map(|v| c.radio.width = Some(v)),
        "radio.streams" => decoded(text).map(|v| c.radio.streams = Some(v)),
        "radio.channel" => decoded(text).map(|v| c.radio.channel = Some(v)),
        "radio.metric" => quantity(text).map(|v| c.radio.metric = Some(v)),
        "radio.graph" => decoded(text).map(|v| c.radio.graph = Some(v)),
        _ => Err(Problem::UnknownKey { known: OF_MAPS.map(str::to_owned).to_vec() }),
    };
    outcome.map(|()| changed).map_err(|problem| {
        let point = vec![(key.to_owned(), text.to_owned())];
        let error = ScenarioError::from(Located::at(KeyPath::from(key), problem));
        LabError::wrong("vary", SettingProblem::Point { point, error })
    })
}

/// Returns the text of a value, without quotes.
fn plain(text: &str) -> String {
    match fairmesh_scenario::value(text) {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

fn quantity<T: FromStr<Err: Display>>(text: &str) -> Result<T, Problem> {
    plain(text).parse::<T>().map_err(|e| {
        let reason = e.to_string();
        let expected = reason.rsplit_once("expected ").map_or(reason.as_str(), |(_, e)| e);
        Problem::value(text, expected)
    })
}

fn decoded<T: DeserializeOwned>(text: &str) -> Result<T, Problem> {
    /// A value as the only key of a document, for errors that name the accepted values.
    #[derive(Deserialize)]
    struct One<T> {
        value: T,
    }
    let whole = Table::from_iter([("value".to_owned(), fairmesh_scenario::value(text))]);
    let document = toml::to_string(&whole).map_err(|e| Problem::Syntax(e.to_string()))?;
    let one: Result<One<T>, Located> = Document::parse(&document).and_then(|d| d.decode());
    one.map(|one| one.value).map_err(|e| e.problem)
}

/// Returns the elements of a list; one alone is a list of one.
fn list(text: &str) -> Result<Vec<String>, Problem> {
    match fairmesh_scenario::value(text) {
        Value::String(one) => Ok(vec![one]),
        _ => decoded(text),
    }
}
