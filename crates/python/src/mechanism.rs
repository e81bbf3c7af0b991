//! Mechanisms that are Python classes (docs/python.md, "Mechanisms").

mod actions;
mod control;
mod events;
mod guard;

use core::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

use fairmesh_lab::control::units::BitRate;
use fairmesh_lab::control::{
    Ability, AbilitySet, Chosen, Definition, Delivery, EventKind, EventSet, FlowHere, Instance,
    Knowledge, KnowledgeSet, Needs, Neighbour, Origin, Parameter, Place, Placement, PlacementSet,
    Refusal, Registry, Runs, Setting,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};

pub(crate) use guard::Guard;

use crate::errors::setting;
use control::PythonControl;

/// A registered class, with the constant parts of its definition.
#[derive(Clone)]
struct Own {
    definition: Definition,
    needs: Needs,
    class: Arc<Py<PyType>>,
}

static OWN_MECHANISMS: Mutex<Vec<Own>> = Mutex::new(Vec::new());

/// Returns the shipped mechanisms and those of Python.
///
/// An exception in the latter ends the guard's runs.
pub(crate) fn registry(guard: &Arc<Guard>) -> Registry {
    let mut registry = Registry::standard();
    for own in OWN_MECHANISMS.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        // Its name was free when it was registered.
        let _ = registry.add(own.definition(guard));
    }
    registry
}

/// Returns true if any mechanism of Python is registered.
pub(crate) fn any() -> bool {
    !OWN_MECHANISMS.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
}

impl Own {
    fn definition(&self, guard: &Arc<Guard>) -> Definition {
        let (needs, class, guard) = (self.needs, Arc::clone(&self.class), Arc::clone(guard));
        let name = self.definition.name.clone();
        let parameters = self.definition.parameters.clone();
        let build = move |chosen: &Chosen, setting: Setting| {
            let started =
                Python::attach(|py| start(py, &class, &parameters, chosen, setting, &guard, &name));
            started.map_err(|e| {
                guard.fail(e);
                Refusal::new("python.init", "the class raised an exception", &[])
            })
        };
        self.definition.clone().with_runs(Runs::at(move |_| vec![needs], build))
    }
}

fn start(
    py: Python<'_>,
    class: &Py<PyType>,
    parameters: &[Parameter],
    chosen: &Chosen,
    setting: Setting,
    guard: &Arc<Guard>,
    name: &str,
) -> PyResult<Instance> {
    let options = PyDict::new(py);
    for (i, parameter) in parameters.iter().enumerate() {
        options.set_item(&*parameter.name, chosen.value(i))?;
    }
    let object = class.bind(py).call1((options, facts(py, setting)?))?;
    let plan = actions::plan(&object.call_method0("plan")?)?;
    let control = PythonControl::new(py, object, Arc::clone(guard), name)?;
    Ok(Instance { control: Box::new(control), plan })
}

/// Returns the facts about a node as `fairmesh.mechanism.Setting`.
fn facts(py: Python<'_>, mut setting: Setting) -> PyResult<Bound<'_, PyAny>> {
    let types = py.import("fairmesh.mechanism")?;
    let (flow_type, neighbour_type) = (types.getattr("FlowInfo")?, types.getattr("Neighbour")?);
    let rate = |r: Option<BitRate>| r.map(|r| r.0 as f64);
    let flow = |f: &FlowHere| {
        let place = match f.place {
            Place::Source => "source",
            Place::Forwarder => "forwarder",
            Place::Sink => "sink",
        };
        flow_type.call1((
            f.flow.0,
            f.weight,
            place,
            f.next_hop.map(|n| n.0),
            f.payload,
            f.packet,
            rate(f.fair),
            f.hops,
        ))
    };
    let flows = setting.flows.iter().map(flow).collect::<PyResult<Vec<_>>>()?;
    let neighbour =
        |n: &Neighbour| neighbour_type.call1((n.node.0, n.rate.0 as f64, n.capacity.0 as f64));
    let neighbours = setting.neighbours.iter().map(neighbour).collect::<PyResult<Vec<_>>>()?;
    let seed = (setting.stream.unit() * 2f64.powi(53)) as u64;
    let random = py.import("random")?.getattr("Random")?.call1((seed,))?;
    types.getattr("Setting")?.call1((
        setting.node.0,
        setting.site.gateway,
        setting.site.hops,
        setting.gateways,
        flows,
        neighbours,
        random,
    ))
}

/// Registers a class as a mechanism; it replaces an earlier one of the same name.
#[pyfunction]
#[pyo3(signature = (class_, revision))]
pub(crate) fn register(py: Python<'_>, class_: Bound<'_, PyType>, revision: &str) -> PyResult<()> {
    let class = class_;
    let text = |name: &str| -> PyResult<String> { class.getattr(name)?.extract() };
    let name = text("name")?;
    let needs = class.getattr("needs")?;
    let needs = Needs {
        at: PlacementSet::of(&kinds(&needs, "at", Placement::ALL)?),
        events: EventSet::of(&kinds(&needs, "events", EventKind::ALL)?),
        abilities: AbilitySet::of(&kinds(&needs, "abilities", Ability::ALL)?),
        knowledge: KnowledgeSet::of(&kinds(&needs, "knowledge", Knowledge::ALL)?),
        header_bytes: needs.getattr("header_bytes")?.extract()?,
        delivery: Delivery::default(),
    };
    let mut definition = Definition::new(name.clone(), text("about")?, Origin::ours(""))
        .with_revision(format!("python {revision}"));
    for (key, option) in class.getattr("options")?.cast::<PyDict>()?.iter() {
        definition.parameters.push(Parameter {
            name: key.extract::<String>()?.into(),
            unit: option.getattr("unit")?.extract::<String>()?.into(),
            about: option.getattr("about")?.extract::<String>()?.into(),
            default: option.getattr("default")?.extract()?,
            min: option.getattr("min")?.extract()?,
            max: option.getattr("max")?.extract()?,
            whole: option.getattr("whole")?.extract()?,
        });
    }
    let own = Own { definition, needs, class: Arc::new(class.unbind()) };
    let definition = own.definition(&Arc::default());
    Registry::standard().add(definition).map_err(|e| setting(py, "mechanism", e.to_string()))?;
    let mut all = OWN_MECHANISMS.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|o| o.definition.name != name);
    all.push(own);
    Ok(())
}

/// Reads a list of kinds of a mechanism's needs.
fn kinds<K: Copy + Debug>(needs: &Bound<'_, PyAny>, what: &str, all: &[K]) -> PyResult<Vec<K>> {
    let given: Vec<String> = needs.getattr(what)?.extract()?;
    let one = |name: &String| {
        all.iter().copied().find(|kind| identifier(kind) == *name).ok_or_else(|| {
            let known: Vec<String> = all.iter().map(identifier).collect();
            let problem =
                format!("needs.{what}: found \"{name}\"; expected one of {}", known.join(", "));
            setting(needs.py(), "mechanism", problem)
        })
    };
    given.iter().map(one).collect()
}

/// Returns `flow_counters` for `FlowCounters`.
fn identifier(kind: &impl Debug) -> String {
    let mut out = String::new();
    for c in format!("{kind:?}").chars() {
        if c.is_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.extend(c.to_lowercase());
    }
    out
}
