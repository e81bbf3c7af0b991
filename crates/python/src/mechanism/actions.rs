//! Actions and plans that a mechanism of Python returns.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use fairmesh_lab::control::units::{BitRate, Bytes, FlowId, NodeId, Span};
use fairmesh_lab::control::{
    Actions, Class, ClassPlan, HEADER_FIELDS, Leaf, Limit, Marking, Merge, Plan, Point, Reason,
    Share, Value,
};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyTuple, PyType};

/// Maximum number of different texts of reasons that are stored until the process ends.
const MOST_TEXTS: usize = 4096;

static TYPES: PyOnceLock<Arc<Types>> = PyOnceLock::new();
static TEXTS: Mutex<Option<HashMap<String, &'static str>>> = Mutex::new(None);

/// The classes of actions.
#[derive(Debug)]
pub(super) struct Types {
    kinds: Vec<(Kind, Py<PyType>)>,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    SetRate,
    Because,
    SetAirtime,
    Remove,
    Mark,
    Drop,
    Pace,
    Send,
    Route,
    Annotate,
    AckBits,
}

/// Returns the exception for a value that is not an action, plan or deadline.
pub(super) fn nonsense(py: Python<'_>, message: String) -> PyErr {
    let build = || {
        let class = py.import("fairmesh.errors")?.getattr("MechanismError")?;
        Ok(PyErr::from_value(class.call1((message,))?))
    };
    build().unwrap_or_else(|e| e)
}

impl Types {
    /// Returns the classes, imported once.
    pub fn get(py: Python<'_>) -> PyResult<Arc<Self>> {
        let read = || {
            use Kind::{
                AckBits, Annotate, Because, Drop, Mark, Pace, Remove, Route, Send, SetAirtime,
                SetRate,
            };
            let module = py.import("fairmesh.mechanism")?;
            let all = [
                SetRate, Because, SetAirtime, Remove, Mark, Drop, Pace, Send, Route, Annotate,
                AckBits,
            ];
            let one = |kind: Kind| {
                Ok((kind, module.getattr(format!("{kind:?}"))?.cast_into::<PyType>()?.unbind()))
            };
            let kinds = all.into_iter().map(one).collect::<PyResult<_>>()?;
            Ok::<_, PyErr>(Arc::new(Types { kinds }))
        };
        TYPES.get_or_try_init(py, read).cloned()
    }

    /// Adds the returned actions to a buffer.
    ///
    /// # Errors
    /// `MechanismError` for any value other than an iterable of actions.
    pub fn take(
        &self,
        given: &Bound<'_, PyAny>,
        name: &str,
        actions: &mut Actions,
    ) -> PyResult<()> {
        let py = given.py();
        let wrong = |found: &Bound<'_, PyAny>| {
            let found = found.repr().map_or_else(|_| "a value".to_owned(), |r| r.to_string());
            let found: String = found.chars().take(200).collect();
            nonsense(py, format!("{name}.on returned {found}; expected None or a list of actions"))
        };
        let items = given.try_iter().map_err(|_| wrong(given))?;
        for item in items {
            let item = item?;
            let kind = item.get_type();
            let Some((kind, _)) = self.kinds.iter().find(|(_, t)| kind.is(t.bind(py))) else {
                return Err(wrong(&item));
            };
            let values = item.cast::<PyTuple>()?;
            add(*kind, values, actions).map_err(|e| {
                let error = nonsense(py, format!("{name}.on returned {item}: {}", e.value(py)));
                error.set_cause(py, Some(e));
                error
            })?;
        }
        Ok(())
    }
}

fn add(kind: Kind, v: &Bound<'_, PyTuple>, actions: &mut Actions) -> PyResult<()> {
    match kind {
        Kind::SetRate => match v.get_item(1)?.extract::<Option<f64>>()? {
            Some(rate) => actions.set_rate(class(v)?, BitRate(whole(v, rate)?)),
            None => actions.lift_limit(class(v)?),
        },
        Kind::Because => actions.because(reason(v)?),
        Kind::SetAirtime => actions.set_airtime(class(v)?, Share::new(v.get_item(1)?.extract()?)),
        Kind::Remove => actions.remove(class(v)?),
        Kind::Mark => {
            let how = Marking { even: v.get_item(2)?.extract()? };
            actions.mark_as(class(v)?, v.get_item(1)?.extract()?, how);
        }
        Kind::Drop => actions.drop(class(v)?, v.get_item(1)?.extract()?),
        Kind::Pace => {
            let flow = FlowId(v.get_item(0)?.extract()?);
            let span = |s: f64| Span::from_secs_f64(s.clamp(0.0, 1e9));
            match (v.get_item(1)?.extract::<Option<f64>>()?, v.get_item(2)?.extract::<bool>()?) {
                (None, _) => actions.unpace(flow),
                (Some(interval), true) => actions.pace(flow, span(interval)),
                (Some(interval), false) => actions.clock(flow, span(interval)),
            }
        }
        Kind::Send => {
            let to = v.get_item(0)?.extract::<Option<u32>>()?.map(NodeId);
            actions.send(to, &v.get_item(1)?.extract::<Vec<u8>>()?);
        }
        Kind::Route => {
            let to = NodeId(v.get_item(0)?.extract()?);
            actions.route(to, &v.get_item(1)?.extract::<Vec<u8>>()?);
        }
        Kind::Annotate => {
            let merge = match v.get_item(2)?.extract::<String>()?.as_str() {
                "set" => Merge::Set,
                "max" => Merge::Max,
                "min" => Merge::Min,
                "or" => Merge::Or,
                _ => return Err(nonsense(v.py(), "expected the merge set, max, min or or".into())),
            };
            let slot: u8 = v.get_item(1)?.extract()?;
            if usize::from(slot) >= HEADER_FIELDS {
                return Err(nonsense(v.py(), format!("expected a slot below {HEADER_FIELDS}")));
            }
            actions.annotate(class(v)?, slot, merge, v.get_item(3)?.extract()?);
        }
        Kind::AckBits => actions.ack_bits(v.get_item(0)?.extract()?),
    }
    Ok(())
}

fn whole(v: &Bound<'_, PyTuple>, rate: f64) -> PyResult<u64> {
    match rate.is_finite() && rate >= 0.0 {
        true => Ok(rate as u64),
        false => Err(nonsense(v.py(), "expected a rate of 0 bit/s or more".to_owned())),
    }
}

/// Reads the class of traffic from the first element: `"all"`, `Flow(3)` or `Link(2)`.
fn class(v: &Bound<'_, PyTuple>) -> PyResult<Class> {
    class_of(&v.get_item(0)?)
}

fn class_of(target: &Bound<'_, PyAny>) -> PyResult<Class> {
    let wrong = || nonsense(target.py(), "expected \"all\", Flow(id) or Link(node)".to_owned());
    if let Ok(text) = target.cast::<PyString>() {
        return if text.to_cow()? == "all" { Ok(Class::All) } else { Err(wrong()) };
    }
    let number: u32 = target
        .cast::<PyTuple>()
        .map_err(|_| wrong())?
        .get_item(0)
        .and_then(|n| n.extract())
        .map_err(|_| wrong())?;
    match target.get_type().name()?.to_cow()?.as_ref() {
        "Flow" => Ok(Class::Flow(FlowId(number))),
        "Link" => Ok(Class::Link(NodeId(number))),
        _ => Err(wrong()),
    }
}

fn reason(v: &Bound<'_, PyTuple>) -> PyResult<Reason> {
    let (code, sentence): (String, String) = (v.get_item(0)?.extract()?, v.get_item(1)?.extract()?);
    let given = v.get_item(2)?;
    let mut values = Vec::new();
    for value in given.try_iter()? {
        let value = value?;
        values.push(match value.extract::<u64>() {
            Ok(count) => Value::Count(count),
            Err(_) => match value.extract::<f64>() {
                Ok(number) => Value::Number(number),
                Err(_) => Value::Class(class_of(&value)?),
            },
        });
    }
    let code = kept(&code);
    Ok(Reason::new(code, kept(&sentence), &values))
}

/// Returns a text with the lifetime of the process; beyond [`MOST_TEXTS`], a general one.
fn kept(text: &str) -> &'static str {
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    let texts = texts.get_or_insert_default();
    match texts.get(text) {
        Some(kept) => kept,
        None if texts.len() >= MOST_TEXTS => "python.reason",
        None => {
            let kept: &'static str = Box::leak(text.to_owned().into_boxed_str());
            texts.insert(text.to_owned(), kept);
            kept
        }
    }
}

/// Reads a plan: `None` or `fairmesh.mechanism.Plan`.
///
/// # Errors
/// `MechanismError` for any other value.
pub(super) fn plan(given: &Bound<'_, PyAny>) -> PyResult<Plan> {
    if given.is_none() {
        return Ok(Plan::none());
    }
    let py = given.py();
    let point = match given.getattr("point")?.extract::<String>()?.as_str() {
        "local" => Point::Local,
        "transit" => Point::Transit,
        "interface" => Point::Interface,
        other => {
            let message =
                format!("plan.point: found \"{other}\"; expected local, transit or interface");
            return Err(nonsense(py, message));
        }
    };
    let mut classes = Vec::new();
    for class in given.getattr("classes")?.try_iter()? {
        classes.push(class_plan(&class?)?);
    }
    let template = given.getattr("template")?;
    let template = if template.is_none() { None } else { Some(class_plan(&template)?) };
    Ok(Plan { point, classes, template })
}

fn class_plan(given: &Bound<'_, PyAny>) -> PyResult<ClassPlan> {
    let py = given.py();
    let packets: u32 = given.getattr("packets")?.extract()?;
    let leaf = match given.getattr("leaf")?.extract::<String>()?.as_str() {
        "drop-tail" => Leaf::DropTail { packets },
        "fair" => Leaf::Fair { packets },
        "red" => Leaf::Red { packets, ecn: false },
        "red-ecn" => Leaf::Red { packets, ecn: true },
        "fred" => Leaf::Fred { packets },
        other => {
            let message =
                format!("leaf: found \"{other}\"; expected drop-tail, fair, red, red-ecn or fred");
            return Err(nonsense(py, message));
        }
    };
    let rate: Option<f64> = given.getattr("rate")?.extract()?;
    let airtime: Option<f64> = given.getattr("airtime")?.extract()?;
    let limit = match (rate, airtime) {
        (Some(rate), None) if rate >= 1.0 => Limit::Rate(BitRate(rate as u64)),
        (None, Some(share)) => Limit::Airtime(Share::new(share)),
        (None, None) => Limit::None,
        _ => {
            return Err(nonsense(
                py,
                "expected a rate of 1 bit/s or more, or an airtime".to_owned(),
            ));
        }
    };
    let class = class_of(&given.getattr("target")?)?;
    Ok(ClassPlan { class, limit, burst: Bytes(given.getattr("burst")?.extract()?), leaf })
}
