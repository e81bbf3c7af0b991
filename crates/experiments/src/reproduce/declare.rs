//! Contents of an experiment's `experiment.toml`.

use std::collections::BTreeMap;

use fairmesh_control::Registry;
use fairmesh_scenario::{Direction, PhyName};
use fairmesh_units::Span;
use serde::Deserialize;
use toml::{Table, Value};

use super::claim::Claim;
use super::kind::Kind;
use super::quote::{MAX_QUOTE_CHARS, bears_number};

/// One experiment: its runs, variations, measures and judgement.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Experiment {
    /// Subject of the table or figure, as a heading.
    pub title: String,
    /// Short name of the paper, or `fairmesh` for measurements of our own.
    pub paper: String,
    /// Place in the paper: the table or figure, and the section that describes it.
    pub place: String,
    /// The paper's words there: the caption, or the sentence that refers to it.
    #[serde(default)]
    pub quote: String,
    /// Reason for the absence of a quotation: own measurements, or a text that is not available.
    ///
    /// The numbers are then shown and not judged, and the statements are ours.
    #[serde(default)]
    pub unquoted: Option<String>,
    /// Tables and figures that it stands for; the first part of `place` by default.
    #[serde(default)]
    pub covers: Vec<String>,
    /// Description of the runs and their purpose, in a few sentences.
    pub about: String,
    /// Scenario file, beside this one; arms may name another.
    #[serde(default)]
    pub scenario: Option<String>,
    /// Name of a study in the program, for experiments that are more than runs of scenarios.
    #[serde(default)]
    pub study: Option<String>,
    /// Settings of every run, over the scenario file's.
    #[serde(default)]
    pub set: Table,
    /// Interval of the curves, for phases, windows or charts over time.
    #[serde(default)]
    pub sample: Option<String>,
    /// Seeds and topologies of a quick run.
    pub quick: Effort,
    /// Seeds and topologies of a full run.
    pub full: Effort,
    /// Compared cases: one arm per control or setting.
    #[serde(default, rename = "arm")]
    pub arms: Vec<Arm>,
    /// Variation within every arm: the x axis of a figure, the rows of a table.
    #[serde(default, rename = "point")]
    pub points: Vec<Point>,
    /// Topologies that results are averaged over.
    #[serde(default, rename = "topology")]
    pub topologies: Vec<Topology>,
    /// Intervals of time that are evaluated separately.
    #[serde(default, rename = "phase")]
    pub phases: Vec<Phase>,
    /// Measures that are read from every run.
    #[serde(default, rename = "measure")]
    pub measures: Vec<Measure>,
    /// Layout of the numbers in rows and columns.
    pub layout: Layout,
    /// Orders that are required.
    #[serde(default, rename = "order")]
    pub orders: Vec<Order>,
    /// Statements about single numbers.
    #[serde(default, rename = "claim")]
    pub claims: Vec<Claim>,
    /// The picture.
    #[serde(default)]
    pub chart: Option<Chart>,
    /// Arms for the controls of the registry.
    #[serde(default)]
    pub registry: Option<Controls>,
    /// Named settings that arms refer to.
    #[serde(default, rename = "preset")]
    pub presets: BTreeMap<String, Table>,
    /// Path of a separate page from the folder of the pages.
    ///
    /// The page is generated from the record and `page.md`.
    #[serde(default)]
    pub page: Option<String>,
}

/// Arms for the controls of the registry: every mechanism, and each of its variants alone.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Controls {
    /// Controls that are left out.
    #[serde(default)]
    pub leave_out: Vec<LeaveOut>,
}

/// Controls that are not run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeaveOut {
    /// Names of the controls.
    pub controls: Vec<String>,
    /// The reason.
    pub because: String,
    /// Labels of the topologies on which they are not run; empty for all.
    #[serde(default)]
    pub on: Vec<String>,
}

/// Effort of a mode: seeds, topologies and settings.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Effort {
    /// Largest seed; the first is 1.
    pub seeds: u32,
    /// Only these topologies; all by default.
    #[serde(default)]
    pub topologies: Option<Vec<String>>,
    /// Settings over all others.
    #[serde(default)]
    pub set: Table,
    /// Number of networks that a study draws.
    #[serde(default)]
    pub networks: Option<u32>,
    /// Runs of every arm in the emulator: seeds 1 to this, sequentially.
    #[serde(default)]
    pub emulated: Option<u32>,
}

/// Host on which an arm runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Host {
    /// Virtual time with the simulator's own transports.
    #[default]
    Simulator,
    /// Real time with the kernel's transports (docs/emulator.md).
    Emulator,
}

/// One compared case.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arm {
    /// Name of the arm in the table or picture.
    pub label: String,
    /// Control; the scenario's own by default.
    #[serde(default)]
    pub control: Option<String>,
    /// Scenario file instead of the experiment's.
    #[serde(default)]
    pub scenario: Option<String>,
    /// Host on which it runs.
    #[serde(default, rename = "in")]
    pub host: Host,
    /// Names of the presets that apply to it.
    #[serde(default)]
    pub with: Vec<String>,
    /// Settings that override all others except those of points.
    #[serde(default)]
    pub set: Table,
    /// Section of the page that it belongs to.
    #[serde(default)]
    pub section: String,
    /// Only these points; all by default.
    #[serde(default)]
    pub points: Option<Vec<String>>,
    /// Capacity model that replaces the simulator's goodputs.
    #[serde(default)]
    pub model: Option<Model>,
    /// Reason why the arm is not the paper's.
    ///
    /// Such an arm belongs to a second table, is not judged, and no statement of the paper may name
    /// it. An arm of an unpublished control has a reason by default.
    #[serde(default)]
    pub second: Option<String>,
}

/// Reason why an arm of an unpublished control is not the paper's.
const OUR_VARIANT: &str = "our variant";

impl Arm {
    /// Returns an arm with a control and no settings.
    pub fn of_control(control: &str) -> Self {
        Arm { label: control.to_owned(), control: Some(control.to_owned()), ..Arm::default() }
    }
}

/// A capacity model that gives the achievable rates of a scenario's flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Model {
    /// Max-min rates by the achievable rate region (Rangwala 2008 §3.2).
    Region,
    /// The highest max-min rates that the simulator itself carries (docs/models/optimum.md).
    Optimum,
}

/// A point of an axis: a label and its settings.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// Name of the point; a number if a chart has it on an axis.
    pub label: String,
    /// Settings.
    #[serde(default)]
    pub set: Table,
}

/// A network over which results are averaged.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// Name of the topology.
    pub label: String,
    /// Group that it belongs to, if the layout has families.
    #[serde(default)]
    pub family: String,
    /// Scenario file that replaces those of the arm and the experiment.
    ///
    /// It is beside the declaration, or in the project's folder `scenarios` if it begins with that.
    #[serde(default)]
    pub scenario: Option<String>,
    /// A map that is not part of the project; it runs if a file of this name is given.
    #[serde(default)]
    pub map: Option<MapUse>,
    /// Short name of the paper of the topology.
    #[serde(default)]
    pub paper: String,
    /// Settings.
    #[serde(default)]
    pub set: Table,
    /// Settings for arms with a preset, by its name.
    #[serde(default)]
    pub when: BTreeMap<String, Table>,
}

/// Gateway, flows and radios of a map.
///
/// Of the settings of its topology it uses `duration` and `warmup`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MapUse {
    /// Name of the file.
    pub file: String,
    /// The gateway.
    pub gateway: String,
    /// Direction of the flows.
    pub flows: Direction,
    /// PHY of the radios.
    pub phy: PhyName,
}

/// An interval of simulated time.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Name of the phase.
    pub label: String,
    /// Start, in s.
    pub from: f64,
    /// End, s.
    pub to: f64,
}

/// One column of numbers, or one kind of number.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// Name of the measure in the table; empty for a single measure.
    #[serde(default)]
    pub label: String,
    /// Kind of the number.
    pub of: Kind,
    /// Places at which it is read: links (`1→2`), nodes or flows, depending on its kind.
    #[serde(default)]
    pub at: Vec<String>,
    /// Statistic of the values of all topologies, or of all seeds for one topology.
    #[serde(default)]
    pub statistic: Statistic,
    /// Combination of the flows' values if the layout has no flows.
    #[serde(default)]
    pub flows: Fold,
    /// Share of every flow if all could use it, kbit/s; for `over-share`.
    #[serde(default)]
    pub share: Option<f64>,
    /// Limit below which `flows = "below"` counts a flow.
    #[serde(default)]
    pub below: Option<f64>,
    /// Constant that is subtracted before scaling, such as the delay of a wire.
    #[serde(default)]
    pub less: f64,
    /// Factor of every value.
    #[serde(default = "one")]
    pub scale: f64,
    /// Digits after the point.
    #[serde(default = "two")]
    pub digits: usize,
    /// True if numbers of the paper are compared with the measure.
    #[serde(default = "yes")]
    pub judged: bool,
}

fn one() -> f64 {
    1.0
}
fn two() -> usize {
    2
}
fn yes() -> bool {
    true
}

/// Statistic of several values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Statistic {
    /// Mean.
    #[default]
    Mean,
    /// Standard deviation of a sample.
    Deviation,
    /// Smallest.
    Least,
    /// Number of topologies with a mean over the seeds below a tenth.
    BelowTenth,
}

/// Combination of the values of several flows into one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fold {
    /// Mean.
    #[default]
    Mean,
    /// Sum.
    Sum,
    /// Smallest.
    Min,
    /// Largest.
    Max,
    /// Percentage of the flows with a value below the measure's `below`.
    Below,
}

/// The dimensions of the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dimension {
    /// [`Experiment::arms`].
    Arm,
    /// [`Experiment::points`].
    Point,
    /// [`Topology::family`], and all families together.
    Family,
    /// Families, then topologies.
    ///
    /// For families: the mean over topologies of each seed, then over seeds.
    Place,
    /// [`Experiment::phases`].
    Phase,
    /// Flows, by their ends.
    Flow,
    /// [`Experiment::measures`].
    Measure,
}

/// A table's rows and columns.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layout {
    /// Dimensions that make up a row.
    pub rows: Vec<Dimension>,
    /// Dimensions that make up a column.
    pub columns: Vec<Dimension>,
    /// Names of flows, by `from→to`.
    #[serde(default)]
    pub names: Table,
}

/// The rows of the table sorted by one column, as in the paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// The column.
    pub column: String,
    /// Rows that are compared; all rows of the paper by default.
    #[serde(default)]
    pub rows: Option<Vec<String>>,
    /// Distance below which two rows of the paper have no order.
    #[serde(default)]
    pub tie: f64,
}

/// A picture.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chart {
    /// Kind of the chart.
    pub kind: ChartKind,
    /// Title of the horizontal axis.
    #[serde(default)]
    pub x: String,
    /// Title of the vertical axis.
    pub y: String,
    /// Lower end of the vertical axis of a picture of lines.
    #[serde(default)]
    pub from: f64,
    /// Only columns of these measures; all by default.
    #[serde(default)]
    pub measures: Option<Vec<String>>,
    /// Marks of mechanisms, from records of other experiments; on pages only.
    #[serde(default, rename = "mark")]
    pub marks: Vec<Mark>,
}

/// A mark in a line chart: two numbers of one row of another record.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mark {
    /// Experiment of the record.
    pub of: String,
    /// Row of it, which is also the mark's name.
    pub row: String,
    /// Column of the horizontal coordinate.
    pub x: String,
    /// Column of the vertical one.
    pub y: String,
}

/// Kinds of pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChartKind {
    /// A group of bars per row, a bar per column, and the paper's number as a tick.
    Bars,
    /// A panel per arm, points on the horizontal axis, a line per column.
    Lines,
    /// A panel per arm, goodput of each flow over time.
    Goodput,
    /// A panel per arm, goodput and congestion window of each flow over time.
    GoodputAndWindow,
    /// A panel per arm, the rate that the control sets for each flow over time.
    Rate,
    /// A panel per family, and a point per control.
    ///
    /// The first measure of `measures` is vertical, the second horizontal.
    Scatter,
    /// A square per arm and topology, coloured by the measure.
    Squares,
    /// Panels per arm over time at the links and nodes of the measures.
    ///
    /// They show airtime limits, retries and available air.
    Links,
}

impl ChartKind {
    /// Returns true if it shows curves over time.
    pub fn is_over_time(self) -> bool {
        !matches!(
            self,
            ChartKind::Bars | ChartKind::Lines | ChartKind::Scatter | ChartKind::Squares
        )
    }
}

impl Experiment {
    /// Returns the sampling interval.
    ///
    /// # Errors
    /// Returns the problem with it.
    pub fn sampling(&self) -> Result<Option<Span>, String> {
        let Some(text) = &self.sample else { return Ok(None) };
        match text.parse::<Span>() {
            Ok(span) if span > Span::ZERO => Ok(Some(span)),
            Ok(_) => Err("sample: found 0 s; expected a longer time".to_owned()),
            Err(e) => Err(format!("sample: {e}")),
        }
    }

    /// Returns true if a dimension is part of the table.
    pub fn lays_out(&self, d: Dimension) -> bool {
        self.layout.rows.contains(&d) || self.layout.columns.contains(&d)
    }

    /// Returns true if an arm is not the paper's.
    pub fn is_second(&self, arm: &str) -> bool {
        self.arms.iter().any(|a| a.label == arm && a.second.is_some())
    }

    /// Marks every arm of an unpublished control as not the paper's.
    pub fn mark_second(&mut self, registry: &Registry) {
        if !self.is_quoted() {
            return;
        }
        for arm in self.arms.iter_mut().filter(|a| a.second.is_none()) {
            let control = arm.control.as_ref().and_then(|c| registry.lookup(c).ok());
            if control.is_some_and(|c| c.is_ours()) {
                arm.second = Some(OUR_VARIANT.to_owned());
            }
        }
    }

    /// Checks that no statement of a paper names an arm that is not the paper's.
    fn check_second(&self) -> Result<(), String> {
        let arm_of = |label: &String| {
            let named = |a: &&Arm| {
                let rest = label.strip_prefix(a.label.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(", "))
            };
            self.arms.iter().filter(named).max_by_key(|a| a.label.len())
        };
        for claim in self.statements().iter().filter(|_| self.is_quoted()) {
            let second = claim.cells().flatten().filter_map(arm_of);
            if let Some(arm) = second.into_iter().find(|a| a.second.is_some()) {
                return Err(format!(
                    "claim \"{}\": names the arm \"{}\", which is not the paper's ({}); expected an arm of the paper",
                    claim.says,
                    arm.label,
                    arm.second.as_deref().unwrap_or_default()
                ));
            }
        }
        Ok(())
    }

    /// Returns true if a quotation of a paper supports it.
    pub fn is_quoted(&self) -> bool {
        self.unquoted.is_none()
    }

    /// Returns the tables and figures of the paper that it stands for.
    pub fn covered(&self) -> Vec<&str> {
        match self.covers[..] {
            [] => self.place.split(',').take(1).collect(),
            _ => self.covers.iter().map(String::as_str).collect(),
        }
    }

    /// Returns every single statement.
    pub fn statements(&self) -> Vec<Claim> {
        self.claims.iter().flat_map(Claim::each).collect()
    }

    /// Checks that emulated arms and their number of runs are declared together, without a model.
    fn check_hosts(&self) -> Result<(), String> {
        let emulated = || self.arms.iter().filter(|a| a.host == Host::Emulator);
        if let Some(arm) = emulated().find(|a| a.model.is_some()) {
            return Err(format!(
                "arm \"{}\": has a model and is in the emulator; expected one of them",
                arm.label
            ));
        }
        match (emulated().next(), self.full.emulated.unwrap_or(0)) {
            (Some(arm), 0) => Err(format!(
                "full.emulated: is missing; expected the number of runs of \"{}\" in the emulator",
                arm.label
            )),
            _ => Ok(()),
        }
    }

    /// Checks that presets and left-out controls exist.
    fn check_arms(&self, registry: &Registry) -> Result<(), String> {
        let known = |name: &String| self.presets.contains_key(name);
        if let Some(name) = self.arms.iter().flat_map(|a| &a.with).find(|n| !known(n)) {
            return Err(format!(
                "with: there is no [preset.{name}]; expected the name of a preset"
            ));
        }
        if let Some(name) = self.topologies.iter().flat_map(|t| t.when.keys()).find(|n| !known(n)) {
            return Err(format!(
                "when: there is no [preset.{name}]; expected the name of a preset"
            ));
        }
        for left in self.registry.iter().flat_map(|r| &r.leave_out) {
            for control in &left.controls {
                // A name that no longer exists would hide the next control of that name.
                registry.lookup(control).map_err(|e| format!("leave-out: {e}"))?;
            }
            if let Some(on) =
                left.on.iter().find(|l| !self.topologies.iter().any(|t| t.label == **l))
            {
                return Err(format!("leave-out: on: there is no [[topology]] \"{on}\""));
            }
        }
        Ok(())
    }

    fn check_words(&self) -> Result<(), String> {
        let found = self.quote.chars().count();
        if self.is_quoted() && !(1..=MAX_QUOTE_CHARS).contains(&found) {
            return Err(format!(
                "quote: found {found} characters; expected 1 to {MAX_QUOTE_CHARS} of the paper, or unquoted with the reason"
            ));
        }
        self.statements().iter().try_for_each(|c| c.check(self.is_quoted()))
    }

    /// Returns the first inconsistency.
    ///
    /// # Errors
    /// Returns the problem, for the user.
    pub fn check(&self, registry: &Registry) -> Result<(), String> {
        self.sampling()?;
        self.check_words()?;
        self.check_second()?;
        if self.study.is_some() {
            return Ok(());
        }
        if self.arms.is_empty() {
            return Err("arm: is missing; expected at least one [[arm]]".to_owned());
        }
        if self.measures.is_empty() {
            return Err("measure: is missing; expected at least one [[measure]]".to_owned());
        }
        for (what, labels) in [
            ("arm", self.arms.iter().map(|a| &a.label).collect::<Vec<_>>()),
            ("point", self.points.iter().map(|a| &a.label).collect()),
            ("topology", self.topologies.iter().map(|a| &a.label).collect()),
            ("phase", self.phases.iter().map(|a| &a.label).collect()),
        ] {
            if let Some(i) = (1..labels.len()).find(|&i| labels[..i].contains(&labels[i])) {
                let twice = labels[i];
                return Err(format!("{what}: \"{twice}\" is given twice; expected each once"));
            }
        }
        let several = [
            (Dimension::Arm, "arm", self.arms.len()),
            (Dimension::Point, "point", self.points.len()),
            (Dimension::Phase, "phase", self.phases.len()),
            (Dimension::Measure, "measure", self.measures.len()),
        ];
        self.check_arms(registry)?;
        for (dimension, name, n) in several {
            if n > 1 && !self.lays_out(dimension) {
                return Err(format!(
                    "layout: there are {n} of \"{name}\"; expected it in rows or columns"
                ));
            }
        }
        if let Some(p) =
            self.phases.iter().find(|p| p.from.is_nan() || p.to.is_nan() || p.from >= p.to)
        {
            return Err(format!("phase \"{}\": expected from before to", p.label));
        }
        let curves = self.chart.as_ref().is_some_and(|c| c.kind.is_over_time());
        let sampled = |k: Kind| {
            matches!(
                k,
                Kind::Window
                    | Kind::LargestWindow
                    | Kind::Settled
                    | Kind::Rate
                    | Kind::Activity
                    | Kind::Delivered
            ) || k.is_at()
        };
        let windows = self.measures.iter().any(|m| sampled(m.of));
        if self.sample.is_none() && (curves || windows || !self.phases.is_empty()) {
            return Err("sample: is missing; expected a time, such as \"1 s\", since phases, windows and curves are read off samples".to_owned());
        }
        self.check_hosts()?;
        for m in &self.measures {
            let places = m.of.places(!m.at.is_empty());
            let at = |e: &str| format!("measure \"{}\": {e}", m.label);
            places.map_err(at)?;
            if m.share.is_some() != (m.of == Kind::OverShare) {
                return Err(at(
                    "share: expected a rate in kbit/s for over-share, and none for other kinds",
                ));
            }
            if m.below.is_some() != (m.flows == Fold::Below) {
                return Err(at(
                    "below: expected a number with flows = \"below\", and none without",
                ));
            }
            let mut constants = [m.share, m.below].into_iter().flatten();
            if let Some(c) = constants.find(|c| self.is_quoted() && !bears_number(&self.quote, *c))
            {
                return Err(at(&format!(
                    "found {c}; expected a constant that the experiment's quote prints"
                )));
            }
        }
        for p in self.arms.iter().flat_map(|a| a.points.iter().flatten()) {
            if !self.points.iter().any(|known| known.label == *p) {
                return Err(format!("points: there is no [[point]] \"{p}\""));
            }
        }
        for e in [&self.quick, &self.full] {
            if e.seeds == 0 {
                return Err("seeds: found 0; expected at least 1".to_owned());
            }
            for t in e.topologies.iter().flatten() {
                if !self.topologies.iter().any(|p| p.label == *t) {
                    return Err(format!("topologies: there is no [[topology]] \"{t}\""));
                }
            }
        }
        Ok(())
    }
}

/// Sets every key of `settings` (a dotted path each) in a scenario.
///
/// # Errors
/// Returns the key that cannot be set, and the reason.
pub fn apply(root: &mut Table, settings: &Table) -> Result<(), String> {
    settings.iter().try_for_each(|(key, value)| {
        fairmesh_scenario::put(root, key, value).map_err(|e| format!("{key}: {e}"))
    })
}

/// Returns the name of a flow in the declaration.
pub fn flow_name(names: &Table, ends: &str) -> String {
    names.get(ends).and_then(Value::as_str).unwrap_or(ends).to_owned()
}
