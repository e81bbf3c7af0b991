//! Scenarios, edited by key.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fairmesh_lab::changes::MapRadio;
use fairmesh_lab::control::Registry;
use fairmesh_lab::files::folder::write_file;
use fairmesh_lab::files::netjson;
use fairmesh_lab::frame::{flows_of, nodes_of};
use fairmesh_lab::job::Source;
use fairmesh_lab::scenario::{Direction, Format, Scenario as World, get};
use fairmesh_lab::units::Span;
use fairmesh_lab::{Changes, LabError, source};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyType};
use pythonize::pythonize;

use crate::errors::{OrRaise, setting};
use crate::frame::Frame;
use crate::mechanism;
use crate::results::Results;
use crate::values::{edit, quantity, toml_of};

/// A mesh with its radios, flows and control.
///
/// Keys are those of scenario files (docs/scenarios.md).
#[pyclass(module = "fairmesh")]
#[derive(Clone)]
pub struct Scenario {
    source: Source,
    changes: Changes,
    world: World,
}

impl Scenario {
    fn new(py: Python<'_>, source: Source, changes: Changes) -> PyResult<Self> {
        let registry = mechanism::registry(&Arc::default());
        let world = py.detach(|| resolve(&source, &changes, &registry)).or_raise(py)?;
        Ok(Scenario { source, changes, world })
    }

    /// Returns the checked scenario.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Returns the checked scenario for runs with the mechanisms of a registry.
    ///
    /// # Errors
    /// Returns an error if the registry lacks the scenario's control.
    pub fn world_with(&self, py: Python<'_>, registry: &Registry) -> PyResult<World> {
        match mechanism::any() {
            true => py.detach(|| resolve(&self.source, &self.changes, registry)).or_raise(py),
            false => Ok(self.world.clone()),
        }
    }

    /// Returns the text that was read, and its changes.
    pub fn parts(&self) -> (&Source, &Changes) {
        (&self.source, &self.changes)
    }

    fn changed(&self, py: Python<'_>, values: &Bound<'_, PyDict>) -> PyResult<Self> {
        Self::new(py, self.source.clone(), changed(py, &self.changes, values)?)
    }
}

/// Returns the changes with further ones, by key.
fn changed(py: Python<'_>, changes: &Changes, values: &Bound<'_, PyDict>) -> PyResult<Changes> {
    let mut changes = changes.clone();
    for (key, value) in values.iter() {
        let key: String = key.extract()?;
        // Times apply to maps too, and keep the warm-up consistent.
        match key.as_str() {
            "duration" => changes.duration = time(py, "duration", &value)?,
            "warmup" => changes.warmup = time(py, "warmup", &value)?,
            _ => {
                let edit = edit(&key, &value)?;
                changes.edits.retain(|e| e.key != edit.key);
                changes.edits.push(edit);
            }
        }
    }
    Ok(changes)
}

/// Returns nested dicts and lists as the text of a scenario file.
fn document_source(document: &Bound<'_, PyAny>, name: &str) -> PyResult<Source> {
    let py = document.py();
    let toml::Value::Table(table) = toml_of("document", document)? else {
        return Err(setting(py, "document", "expected a dict with the keys of a scenario file"));
    };
    let text = toml::to_string(&table).map_err(|e| setting(py, "document", e))?;
    Source::new(Path::new(name), text.as_bytes()).or_raise(py)
}

/// Reads a time with its unit.
fn time(py: Python<'_>, name: &'static str, value: &Bound<'_, PyAny>) -> PyResult<Option<Span>> {
    match value.cast::<PyString>() {
        Ok(text) => quantity(py, name, Some(&text.to_cow()?)),
        Err(_) => {
            Err(setting(py, name, format!("found {value}; expected a time such as \"60 s\"")))
        }
    }
}

/// Resolves a scenario.
pub(crate) fn resolve(
    source: &Source,
    changes: &Changes,
    registry: &Registry,
) -> Result<World, LabError> {
    source::build(Path::new(&source.file), source.text.as_bytes(), changes, registry)
}

/// Builds a scenario with a generated topology: the table `kind` of `[topology]`.
///
/// The table has these keys.
fn generated(
    py: Python<'_>,
    kind: &str,
    keys: &[(&str, Option<toml::Value>)],
    gateway: u32,
    flows: &str,
    duration: &str,
) -> PyResult<Scenario> {
    use toml::{Table, Value};

    let layout: Table =
        keys.iter().filter_map(|(key, value)| Some(((*key).to_owned(), value.clone()?))).collect();
    let table = |entries: &[(&str, Value)]| -> Value {
        entries.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect::<Table>().into()
    };
    let document = table(&[
        ("duration", duration.into()),
        ("topology", table(&[(kind, layout.into()), ("gateway", gateway.into())])),
        ("traffic", table(&[("flows", flows.into())])),
    ]);
    let text = toml::to_string(&document).map_err(|e| setting(py, "scenario", e))?;
    let source = Source::new(Path::new(kind), text.as_bytes()).or_raise(py)?;
    Scenario::new(py, source, Changes::default())
}

/// Reads a path, or uses a text: a string with a line break.
fn read(py: Python<'_>, given: &Bound<'_, PyAny>, name: &str) -> PyResult<Source> {
    if let Ok(text) = given.cast::<PyString>()
        && text.to_cow()?.contains('\n')
    {
        return Source::new(Path::new(name), text.to_cow()?.as_bytes()).or_raise(py);
    }
    let path: PathBuf = given.extract()?;
    py.detach(|| Source::new(&path, &source::read(&path)?)).or_raise(py)
}

#[pymethods]
impl Scenario {
    /// Reads a scenario file in TOML, or a text in that format (a string with a line break).
    #[classmethod]
    #[pyo3(signature = (source, *, name="scenario"))]
    fn from_toml(
        _class: &Bound<'_, PyType>,
        py: Python<'_>,
        source: &Bound<'_, PyAny>,
        name: &str,
    ) -> PyResult<Self> {
        let source = read(py, source, name)?;
        if source.format != Format::Toml {
            let problem = "is a map; expected a scenario in TOML (Scenario.from_map reads maps)";
            return Err(LabError::file(&source.file, problem)).or_raise(py);
        }
        Self::new(py, source, Changes::default())
    }

    /// Reads a map: NetJSON NetworkGraph or meshviewer.json, a path or a text.
    #[classmethod]
    #[pyo3(signature = (source, *, gateways=Vec::new(), flows=None, flow_count=None, connections=None,
                        subscribers=false, phy=None, rate=None, width=None, streams=None, channel=None,
                        metric=None, graph=None, duration=None, warmup=None, name="map"))]
    #[allow(clippy::too_many_arguments)] // One per setting, as keywords.
    fn from_map(
        _class: &Bound<'_, PyType>,
        py: Python<'_>,
        source: &Bound<'_, PyAny>,
        gateways: Vec<String>,
        flows: Option<&str>,
        flow_count: Option<u32>,
        connections: Option<u32>,
        subscribers: bool,
        phy: Option<&str>,
        rate: Option<&str>,
        width: Option<&str>,
        streams: Option<u8>,
        channel: Option<u32>,
        metric: Option<&str>,
        graph: Option<String>,
        duration: Option<&str>,
        warmup: Option<&str>,
        name: &str,
    ) -> PyResult<Self> {
        let source = read(py, source, name)?;
        if source.format == Format::Toml {
            let problem = "is a scenario; expected a map (Scenario.from_toml reads scenarios)";
            return Err(LabError::file(&source.file, problem)).or_raise(py);
        }
        let flows = match flows {
            None => None,
            Some("up") => Some(Direction::Up),
            Some("down") => Some(Direction::Down),
            Some("both") => Some(Direction::Both),
            Some(other) => {
                let problem = format!("found \"{other}\"; expected up, down or both");
                return Err(setting(py, "flows", problem));
            }
        };
        let radio = MapRadio {
            phy: quantity(py, "phy", phy)?,
            rate: quantity(py, "rate", rate)?,
            width: quantity(py, "width", width)?,
            streams,
            channel,
            metric: quantity(py, "metric", metric)?,
            graph,
        };
        let changes = Changes {
            duration: quantity(py, "duration", duration)?,
            warmup: quantity(py, "warmup", warmup)?,
            gateways,
            flows,
            flow_count,
            connections,
            subscribers,
            radio,
            edits: Vec::new(),
        };
        Self::new(py, source, changes)
    }

    /// Builds a scenario from nested dicts and lists, with the keys of a scenario file.
    #[classmethod]
    #[pyo3(signature = (document, *, name="scenario"))]
    fn from_dict(
        _class: &Bound<'_, PyType>,
        py: Python<'_>,
        document: &Bound<'_, PyAny>,
        name: &str,
    ) -> PyResult<Self> {
        Self::new(py, document_source(document, name)?, Changes::default())
    }

    #[classmethod]
    fn _from_document(
        _class: &Bound<'_, PyType>,
        py: Python<'_>,
        document: &Bound<'_, PyAny>,
        changes: &Bound<'_, PyDict>,
        name: &str,
    ) -> PyResult<Self> {
        let source = document_source(document, name)?;
        Self::new(py, source, changed(py, &Changes::default(), changes)?)
    }

    /// Builds the mesh of a networkx Graph or DiGraph.
    ///
    /// Edges are links, with the attributes `rate` (bit/s, or a text such as "11 Mbit/s"), `loss` or
    /// `delivery`, `signal`, `mcs`, `streams`, `width`, `guard` and `radio`. Without edges, or with
    /// `propagation`, links follow from the positions of the nodes. An edge of a DiGraph is one
    /// direction.
    ///
    /// gateway: a node, or a list of nodes; those with the attribute `gateway` by default.
    /// position: attribute of nodes with x and y in metres.
    /// propagation: True to ignore the edges.
    /// changes: keys of the scenario, such as {"radio.phy": "802.11g"}.
    #[classmethod]
    #[pyo3(signature = (graph, *, gateway=None, flows="up", duration="60 s", position="pos",
                        propagation=false, changes=None, name=None))]
    #[allow(clippy::too_many_arguments)] // Keywords.
    fn from_networkx<'py>(
        _class: &Bound<'py, PyType>,
        py: Python<'py>,
        graph: &Bound<'py, PyAny>,
        gateway: Option<Bound<'py, PyAny>>,
        flows: &str,
        duration: &str,
        position: &str,
        propagation: bool,
        changes: Option<Bound<'py, PyDict>>,
        name: Option<&str>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let args = (graph, gateway, flows, duration, position, propagation, changes, name);
        py.import("fairmesh._graph")?.call_method1("scenario", args)
    }

    /// Builds a line of `hops` + 1 nodes, 0 to `hops`, with a flow for each node but the gateway.
    #[classmethod]
    #[pyo3(signature = (hops, *, spacing=None, gateway=0, flows="up", duration="60 s"))]
    fn chain(
        _class: &Bound<'_, PyType>,
        py: Python<'_>,
        hops: u32,
        spacing: Option<&str>,
        gateway: u32,
        flows: &str,
        duration: &str,
    ) -> PyResult<Self> {
        let keys = [("hops", Some(hops.into())), ("spacing", spacing.map(Into::into))];
        generated(py, "chain", &keys, gateway, flows, duration)
    }

    /// Builds rows of nodes, 0 in the corner, with a flow for each node but the gateway.
    #[classmethod]
    #[pyo3(signature = (rows, columns, *, spacing=None, gateway=0, flows="up", duration="60 s"))]
    #[allow(clippy::too_many_arguments)] // Keywords.
    fn grid(
        _class: &Bound<'_, PyType>,
        py: Python<'_>,
        rows: u32,
        columns: u32,
        spacing: Option<&str>,
        gateway: u32,
        flows: &str,
        duration: &str,
    ) -> PyResult<Self> {
        let keys = [
            ("rows", Some(rows.into())),
            ("columns", Some(columns.into())),
            ("spacing", spacing.map(Into::into)),
        ];
        generated(py, "grid", &keys, gateway, flows, duration)
    }

    /// Builds a connected mesh of nodes at random places, with a flow for each other node.
    #[classmethod]
    #[pyo3(signature = (nodes, *, width, height=None, seed=1, gateway=0, flows="up", duration="60 s"))]
    #[allow(clippy::too_many_arguments)] // Keywords.
    fn random(
        _class: &Bound<'_, PyType>,
        py: Python<'_>,
        nodes: u32,
        width: &str,
        height: Option<&str>,
        seed: u32,
        gateway: u32,
        flows: &str,
        duration: &str,
    ) -> PyResult<Self> {
        let keys = [
            ("nodes", Some(nodes.into())),
            ("width", Some(width.into())),
            ("height", height.map(Into::into)),
            ("seed", Some(seed.into())),
        ];
        generated(py, "random", &keys, gateway, flows, duration)
    }

    /// Name of the scenario.
    #[getter]
    fn name(&self) -> &str {
        self.world.name()
    }

    /// Description of the scenario in words.
    #[getter]
    fn description(&self) -> &str {
        self.world.description()
    }

    /// Simulated time, in s.
    #[getter]
    fn duration(&self) -> f64 {
        self.world.duration().as_secs_f64()
    }

    /// Start of the measured interval, in s.
    #[getter]
    fn warmup(&self) -> f64 {
        self.world.warmup().as_secs_f64()
    }

    /// Name of the scenario's own control.
    #[getter]
    fn control(&self) -> String {
        self.world.controls()
    }

    /// Assumptions and omissions of the import, a sentence each.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.world.warnings().to_vec()
    }

    /// Nodes: name, position, kind.
    #[getter]
    fn nodes(&self) -> Frame {
        nodes_of(&self.world).into()
    }

    /// Flows: name, ends, hops, weight.
    #[getter]
    fn flows(&self) -> Frame {
        flows_of(&self.world).into()
    }

    /// Returns a changed copy.
    ///
    /// All keys are set before the scenario is checked, so they may depend on each other.
    fn with_changes(&self, py: Python<'_>, changes: &Bound<'_, PyDict>) -> PyResult<Self> {
        self.changed(py, changes)
    }

    fn __setitem__(&mut self, py: Python<'_>, key: &str, value: Bound<'_, PyAny>) -> PyResult<()> {
        let one = PyDict::new(py);
        one.set_item(key, value)?;
        *self = self.changed(py, &one)?;
        Ok(())
    }

    /// Value of a key as written; `KeyError` if the scenario leaves it at its default.
    fn __getitem__<'py>(&self, py: Python<'py>, key: &str) -> PyResult<Bound<'py, PyAny>> {
        let table = self.table(py)?;
        match get(&table, key) {
            Some(value) => Ok(pythonize(py, value)?),
            None => Err(PyKeyError::new_err(format!("{key} is not set in this scenario"))),
        }
    }

    fn __contains__(&self, py: Python<'_>, key: &str) -> PyResult<bool> {
        Ok(get(&self.table(py)?, key).is_some())
    }

    /// The scenario as nested dicts and lists, with the keys of a scenario file.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(pythonize(py, &self.table(py)?)?)
    }

    /// The scenario as the text of a scenario file, with all changes.
    fn to_toml(&self, py: Python<'_>) -> PyResult<String> {
        toml::to_string(&self.table(py)?).map_err(|e| setting(py, "scenario", e))
    }

    /// Writes a NetJSON NetworkGraph, with the measures of a run in `properties`.
    ///
    /// control, seed: the run of `results`; the first by default.
    #[pyo3(signature = (path, results=None, *, control=None, seed=None))]
    fn to_netjson(
        &self,
        py: Python<'_>,
        path: PathBuf,
        results: Option<&Results>,
        control: Option<&str>,
        seed: Option<u64>,
    ) -> PyResult<()> {
        let run = results.map(|r| r.record(py, control, seed)).transpose()?;
        let write = || {
            let graph = netjson::graph(&self.world, run)?;
            let text = serde_json::to_vec_pretty(&graph)
                .map_err(|e| LabError::file(&path, e.to_string()))?;
            write_file(&path, &text)
        };
        py.detach(write).or_raise(py)
    }

    fn __copy__(&self) -> Self {
        self.clone()
    }

    fn __deepcopy__(&self, _memo: &Bound<'_, PyAny>) -> Self {
        self.clone()
    }

    /// Pickles as the text that was read and the changes of it.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        let state = {
            let this = slf.borrow();
            serde_json::to_string(&(&this.source, &this.changes))
        };
        let state = state.map_err(|e| setting(slf.py(), "scenario", e))?;
        Ok((slf.get_type().getattr("_from_state")?, (state,)))
    }

    #[classmethod]
    fn _from_state(_class: &Bound<'_, PyType>, py: Python<'_>, state: &str) -> PyResult<Self> {
        let (source, changes) =
            serde_json::from_str(state).map_err(|e| setting(py, "scenario", e))?;
        Self::new(py, source, changes)
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        slf.py().import("fairmesh._show")?.call_method1("scenario_text", (slf,))?.extract()
    }

    fn _repr_html_(slf: &Bound<'_, Self>) -> PyResult<String> {
        slf.py().import("fairmesh._show")?.call_method1("scenario_html", (slf,))?.extract()
    }
}

impl Scenario {
    fn table(&self, py: Python<'_>) -> PyResult<toml::Table> {
        let Source { file, text, .. } = &self.source;
        let table = source::draft_of(Path::new(file), text.as_bytes(), &self.changes)
            .and_then(|draft| Ok(draft.table()?));
        table.or_raise(py)
    }
}
