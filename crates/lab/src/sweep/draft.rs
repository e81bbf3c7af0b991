//! The file of a plan, as it is written.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use fairmesh_control::Registry;
use fairmesh_document::{Document, Located, Problem};
use fairmesh_scenario::{KeyPath, ScenarioError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer};
use toml::{Table, Value};

use super::axes::{Axis, Filter, range, written};
use super::plan::{self, Base, Plan, stem};
use super::until::{StopRule, Width, measures};
use crate::changes::Assignment;
use crate::job::Source;
use crate::source::read;
use crate::{Changes, LabError, Seeds, SettingProblem};

/// Number of seeds before the first decision, by default.
const DEFAULT_MIN_SEEDS: usize = 5;

/// A plan file.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PlanDraft {
    /// The scenario: a file relative to the plan, a table, or a list of these.
    scenario: Sources,
    /// Controls that run at every point; the scenario's own by default.
    #[serde(default)]
    controls: Vec<String>,
    /// Seeds of every point: `10` for 1 to 10, or a range such as "11..=20"; 5 by default.
    #[serde(default)]
    #[schemars(with = "Option<SeedsSchema>")]
    seeds: Option<Value>,
    /// Values of scenario keys for all points.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    set: Table,
    /// Options of controls for all points.
    /// `epoch` is for all controls that have it, `pfrc.epoch` for one.
    #[serde(default)]
    options: BTreeMap<String, f64>,
    /// Varied keys, each crossed with the others: lists of values, or ranges such as "1..=20".
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    vary: Table,
    /// Tables of keys that vary together; tables are crossed.
    /// Row `i` has the `i`-th value of each key.
    #[serde(default)]
    #[schemars(with = "Vec<BTreeMap<String, serde_json::Value>>")]
    zip: Vec<Table>,
    /// Tables of which a point must match one to run, if there is any.
    /// A key has a value, a list or a range.
    #[serde(default)]
    #[schemars(with = "Vec<BTreeMap<String, serde_json::Value>>")]
    only: Vec<Table>,
    /// Points that match one of these tables do not run.
    #[serde(default)]
    #[schemars(with = "Vec<BTreeMap<String, serde_json::Value>>")]
    skip: Vec<Table>,
    /// Rule that ends a point before its last seed.
    until: Option<UntilDraft>,
}

/// Adaptive number of seeds.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UntilDraft {
    /// Measure of a run, such as `min_over_fair`.
    measure: String,
    /// Half-width of the 95 % interval that ends a point.
    /// It is a number in the measure's unit, or a text such as "5 %" of the mean.
    #[schemars(with = "WidthSchema")]
    half_width: Value,
    /// Number of seeds before the first decision; 5 by default. The most are those of `seeds`.
    least: Option<usize>,
}

#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "Describes the type only.")]
enum SeedsSchema {
    Number(u64),
    Range(String),
}

#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "Describes the type only.")]
enum WidthSchema {
    Absolute(f64),
    OfMean(String),
}

/// One scenario of a plan.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct SourceDraft {
    /// Name in results; by default the file's without its ending.
    name: Option<String>,
    /// Scenario file or map, relative to the plan.
    file: Option<PathBuf>,
    /// The scenario itself, with the keys of a scenario file.
    #[schemars(with = "Option<BTreeMap<String, serde_json::Value>>")]
    inline: Option<Table>,
    /// Content of the file, for plans that are sent.
    text: Option<String>,
    /// Values of keys.
    /// Maps have `gateways`, `flows`, `flow_count`, `connections`, `subscribers`, `duration`, `warmup`, `radio`.
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    set: Table,
    /// Changes as programs write them.
    #[schemars(skip)]
    changes: Changes,
}

#[derive(Debug, JsonSchema)]
#[serde(untagged)]
enum OneSource {
    /// A file.
    File(PathBuf),
    /// A table.
    Table(Box<SourceDraft>),
}

/// One scenario or a list.
#[derive(Debug, JsonSchema)]
#[serde(untagged)]
enum Sources {
    /// One.
    One(OneSource),
    /// Several, each crossed with all keys.
    List(Vec<OneSource>),
}

impl<'de> Deserialize<'de> for OneSource {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct One;
        impl<'de> Visitor<'de> for One {
            type Value = OneSource;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a scenario file or a table with file or inline")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<OneSource, E> {
                Ok(OneSource::File(text.into()))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<OneSource, A::Error> {
                let table = SourceDraft::deserialize(MapAccessDeserializer::new(map))?;
                Ok(OneSource::Table(Box::new(table)))
            }
        }
        d.deserialize_any(One)
    }
}

impl<'de> Deserialize<'de> for Sources {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = Sources;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a scenario file, a table with file or inline, or a list of these")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Sources, E> {
                Ok(Sources::One(OneSource::File(text.into())))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Sources, A::Error> {
                OneSource::deserialize(MapAccessDeserializer::new(map)).map(Sources::One)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Sources, A::Error> {
                let mut list = Vec::new();
                while let Some(one) = seq.next_element()? {
                    list.push(one);
                }
                Ok(Sources::List(list))
            }
        }
        d.deserialize_any(All)
    }
}

/// The JSON Schema of plan files.
pub fn json_schema() -> serde_json::Value {
    let mut schema: serde_json::Value = schemars::schema_for!(PlanDraft).into();
    schema["title"] = "fairmesh plan".into();
    schema
}

/// A plan that is being read.
struct Reader<'a> {
    name: &'a str,
    folder: &'a Path,
    document: &'a Document<'a>,
}

impl Plan {
    /// Reads a plan file (docs/sweeps.md).
    ///
    /// # Errors
    /// If the file or a scenario cannot be read, or a key or value is invalid.
    pub fn read(path: &Path, registry: &Registry) -> Result<Self, LabError> {
        let bytes = read(path)?;
        let text = String::from_utf8_lossy(&bytes);
        let folder = path.parent().unwrap_or(Path::new(""));
        parse(&path.to_string_lossy(), &text, folder, registry)
    }

    /// Reads the text of a plan, in which paths are relative to `folder`.
    ///
    /// # Errors
    /// As [`Plan::read`].
    pub fn parse(
        name: &str,
        text: &str,
        folder: &Path,
        registry: &Registry,
    ) -> Result<Self, LabError> {
        parse(name, text, folder, registry)
    }
}

/// Reads the text of a plan.
fn parse(name: &str, text: &str, folder: &Path, registry: &Registry) -> Result<Plan, LabError> {
    let refused = |e: Located| in_file(name, e);
    let document = Document::parse(text).map_err(refused)?;
    let draft: PlanDraft = document.decode().map_err(refused)?;
    Reader { name, folder, document: &document }.plan(draft, registry)
}

fn in_file(name: &str, e: Located) -> LabError {
    let mut e = ScenarioError::from(e);
    e.file = Some(name.into());
    e.into()
}

fn key(name: &str) -> KeyPath {
    KeyPath::root().key(name)
}

impl Reader<'_> {
    fn wrong(&self, at: KeyPath, problem: Problem) -> LabError {
        let mut e = Located::at(at, problem);
        e.line = self.document.line(&e.key);
        in_file(self.name, e)
    }

    fn plan(&self, draft: PlanDraft, registry: &Registry) -> Result<Plan, LabError> {
        let seeds = self.seeds(draft.seeds.as_ref())?;
        for (i, control) in draft.controls.iter().enumerate() {
            registry.lookup(control).map_err(|e| {
                let expected = format!("one of {}", e.known.join(", "));
                self.wrong(
                    key("controls").index(i),
                    Problem::value(format!("\"{control}\""), expected),
                )
            })?;
        }
        let mut options: Vec<Assignment> = draft.options.iter().map(option).collect();
        let mut bases = self.bases(draft.scenario)?;
        for (at, name, value) in flat(key("set"), &draft.set) {
            match number_of(&name, &value).filter(|_| !draft.controls.is_empty()) {
                Some(number) => options.push(number),
                None => {
                    for base in &mut bases {
                        plan::set(base, &name, &value.to_string())
                            .map_err(|e| self.placed(&at, e))?;
                    }
                }
            }
        }
        let axes = self.axes(&draft.vary, &draft.zip)?;
        let mut known: Vec<&str> = axes.iter().flat_map(|a| &a.keys).map(String::as_str).collect();
        known.extend(["control", plan::SCENARIO_COLUMN]);
        let only = self.filters("only", &draft.only, &known)?;
        let skip = self.filters("skip", &draft.skip, &known)?;
        let until = draft.until.map(|u| self.until(u)).transpose()?;
        let controls = draft.controls;
        Ok(Plan { bases, axes, only, skip, controls, options, seeds, until })
    }

    /// Gives an error without a line the place of a key of the plan.
    fn placed(&self, at: &KeyPath, e: LabError) -> LabError {
        let place = e.place();
        let expected = place.expected.unwrap_or_else(|| "a value that the scenario accepts".into());
        let what = match &e {
            LabError::Setting { problem, .. } => match &**problem {
                SettingProblem::Point { error, .. } => error.problem.to_string(),
                other => other.to_string(),
            },
            other => other.to_string(),
        };
        let what = what.split("; expected ").next().unwrap_or_default().to_owned();
        self.wrong(at.clone(), Problem::refused(what, expected))
    }

    fn seeds(&self, given: Option<&Value>) -> Result<Seeds, LabError> {
        let seeds = match given {
            None => return Ok(Seeds::default()),
            Some(Value::Integer(n)) => n.to_string().parse(),
            Some(Value::String(text)) => text.parse::<Seeds>(),
            Some(other) => Err(crate::seeds::SeedsError { found: other.to_string() }),
        };
        seeds.map_err(|e| {
            let text = e.to_string();
            let expected = text.split_once("; expected ").map_or("", |(_, expected)| expected);
            self.wrong(key("seeds"), Problem::value(e.found, expected))
        })
    }

    fn bases(&self, sources: Sources) -> Result<Vec<Base>, LabError> {
        let at = key("scenario");
        let list = match sources {
            Sources::One(one) => return Ok(vec![self.base(one, at)?]),
            Sources::List(list) if list.is_empty() => {
                return Err(self.wrong(at, Problem::value("no scenario", "one or more")));
            }
            Sources::List(list) => list,
        };
        let mut bases: Vec<Base> = Vec::with_capacity(list.len());
        for (i, one) in list.into_iter().enumerate() {
            let base = self.base(one, at.clone().index(i))?;
            if bases.iter().any(|b| b.name == base.name) {
                let what = format!("two scenarios have the name \"{}\"", base.name);
                let problem = Problem::refused(
                    what,
                    "a name for each, such as { name = \"…\", file = \"…\" }",
                );
                return Err(self.wrong(at.index(i), problem));
            }
            bases.push(base);
        }
        Ok(bases)
    }

    fn base(&self, one: OneSource, at: KeyPath) -> Result<Base, LabError> {
        let draft = match one {
            OneSource::File(file) => SourceDraft { file: Some(file), ..SourceDraft::default() },
            OneSource::Table(table) => *table,
        };
        let SourceDraft { name, file, inline, text, set, changes } = draft;
        let source = match (file, inline, text) {
            (Some(file), None, Some(text)) => Source::new(&file, text.as_bytes())?,
            (Some(file), None, None) => {
                let path = self.folder.join(file);
                let bytes = read(&path).map_err(|e| self.placed(&at, e))?;
                Source::new(&path, &bytes)?
            }
            (None, Some(table), None) => {
                let text = toml::to_string(&table).map_err(|e| {
                    self.wrong(at.clone().key("inline"), Problem::Syntax(e.to_string()))
                })?;
                let file = format!("{} ({at})", self.name);
                Source::new(Path::new(&file), text.as_bytes())?
            }
            _ => {
                let problem = Problem::refused(
                    "no scenario is given, or several",
                    "either file = \"…\" or inline = { … }",
                );
                return Err(self.wrong(at, problem));
            }
        };
        let usual = || match source.file.ends_with(')') {
            true => "inline".to_owned(),
            false => stem(&source.file),
        };
        let mut base = Base { name: name.unwrap_or_else(usual), source, changes };
        for (place, name, value) in flat(at.key("set"), &set) {
            plan::set(&mut base, &name, &value.to_string()).map_err(|e| self.placed(&place, e))?;
        }
        Ok(base)
    }

    fn axes(&self, vary: &Table, zip: &[Table]) -> Result<Vec<Axis>, LabError> {
        let mut axes: Vec<Axis> = Vec::new();
        let twice = |axes: &[Axis], at: &KeyPath, name: &str| match axes
            .iter()
            .any(|a| a.keys.iter().any(|k| k == name))
        {
            true => {
                let what = format!("{name} varies twice");
                Err(self.wrong(at.clone(), Problem::refused(what, "each key once")))
            }
            false => Ok(()),
        };
        for (i, table) in zip.iter().enumerate() {
            let at = key("zip").index(i);
            let mut axis = Axis { keys: Vec::new(), rows: Vec::new() };
            for (place, name, value) in flat(at.clone(), table) {
                twice(&axes, &place, &name)?;
                let values = self.values(&place, &value)?;
                if axis.keys.is_empty() {
                    axis.rows = vec![Vec::new(); values.len()];
                } else if axis.rows.len() != values.len() {
                    let (found, wanted) = (values.len(), axis.rows.len());
                    let problem = Problem::value(
                        format!("{found} values"),
                        format!("{wanted}, as {} has", axis.keys[0]),
                    );
                    return Err(self.wrong(place, problem));
                }
                axis.keys.push(name);
                axis.rows.iter_mut().zip(values).for_each(|(row, v)| row.push(v));
            }
            if axis.keys.is_empty() {
                return Err(self.wrong(at, Problem::value("no key", "keys with lists of values")));
            }
            axes.push(axis);
        }
        for (at, name, value) in flat(key("vary"), vary) {
            twice(&axes, &at, &name)?;
            let values = self.values(&at, &value)?;
            let axis = Axis::of(&name, values).map_err(|_| {
                self.wrong(at, Problem::refused("a value is given twice", "each value once"))
            })?;
            axes.push(axis);
        }
        Ok(axes)
    }

    /// Returns the values of a varied key: a list, or a range.
    fn values(&self, at: &KeyPath, value: &Value) -> Result<Vec<String>, LabError> {
        let expected = "a list of values, or a range such as \"1..=20\"";
        match value {
            Value::Array(values) if !values.is_empty() => Ok(values.iter().map(written).collect()),
            Value::String(text) if range(text).is_some() => Ok(numbers(text)),
            other => Err(self.wrong(at.clone(), Problem::value(other.to_string(), expected))),
        }
    }

    fn filters(
        &self,
        kind: &str,
        tables: &[Table],
        known: &[&str],
    ) -> Result<Vec<Filter>, LabError> {
        let mut filters = Vec::with_capacity(tables.len());
        for (i, table) in tables.iter().enumerate() {
            let mut filter = Filter(Vec::new());
            for (at, name, value) in flat(key(kind).index(i), table) {
                if !known.contains(&name.as_str()) {
                    let known = known.iter().map(|&k| k.to_owned()).collect();
                    return Err(self.wrong(at, Problem::UnknownKey { known }));
                }
                let values = match &value {
                    Value::Array(values) => values.iter().map(written).collect(),
                    Value::String(text) if range(text).is_some() => numbers(text),
                    other => vec![written(other)],
                };
                filter.0.push((name, values));
            }
            filters.push(filter);
        }
        Ok(filters)
    }

    fn until(&self, draft: UntilDraft) -> Result<StopRule, LabError> {
        let at = key("until");
        let known = measures();
        if !known.contains(&draft.measure) {
            let expected = format!("one of {}", known.join(", "));
            let problem = Problem::value(format!("\"{}\"", draft.measure), expected);
            return Err(self.wrong(at.key("measure"), problem));
        }
        let percent = |text: &str| text.trim().strip_suffix('%')?.trim().parse::<f64>().ok();
        let width = match &draft.half_width {
            Value::Float(width) => Some(Width::Absolute(*width)),
            Value::Integer(width) => Some(Width::Absolute(*width as f64)),
            Value::String(text) => percent(text).map(|p| Width::OfMean(p / 100.0)),
            _ => None,
        };
        let positive = |w: &Width| match *w {
            Width::Absolute(w) | Width::OfMean(w) => w > 0.0 && w.is_finite(),
        };
        let Some(width) = width.filter(positive) else {
            let expected = "a number above 0 in the measure's unit, or a text such as \"5 %\"";
            let problem = Problem::value(draft.half_width.to_string(), expected);
            return Err(self.wrong(at.key("half_width"), problem));
        };
        let least = draft.least.unwrap_or(DEFAULT_MIN_SEEDS);
        if least < 2 {
            return Err(self.wrong(at.key("least"), Problem::range(least, "2 or more")));
        }
        Ok(StopRule { measure: draft.measure, width, least })
    }
}

fn numbers(text: &str) -> Vec<String> {
    range(text).into_iter().flatten().map(|n| n.to_string()).collect()
}

fn option((name, value): (&String, &f64)) -> Assignment {
    let (control, parameter) = match name.split_once('.') {
        Some((control, parameter)) => (Some(control.to_owned()), parameter.to_owned()),
        None => (None, name.clone()),
    };
    Assignment { control, parameter, value: *value }
}

fn number_of(key: &str, value: &Value) -> Option<Assignment> {
    plan::number_of(key, &written(value))
}

/// Returns the keys of a table in dotted form.
/// Tables of bare dotted keys are entered; a key that is written in quotes with its dots is set as a whole.
fn flat(at: KeyPath, table: &Table) -> Vec<(KeyPath, String, Value)> {
    fn enter(at: &KeyPath, prefix: &str, table: &Table, out: &mut Vec<(KeyPath, String, Value)>) {
        for (name, value) in table {
            let (place, whole) = (at.clone().key(name), format!("{prefix}{name}"));
            match value {
                Value::Table(inner) if !name.contains('.') && !inner.is_empty() => {
                    enter(&place, &format!("{whole}."), inner, out);
                }
                other => out.push((place, whole, other.clone())),
            }
        }
    }
    let mut out = Vec::new();
    enter(&at, "", table, &mut out);
    out
}
