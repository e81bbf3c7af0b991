//! Changes to a scenario from outside: times, a map's flows, the control.

use core::fmt;
use core::str::FromStr;

use fairmesh_control::Registry;
use fairmesh_scenario::{Direction, Metric, PhyName, Scenario};
use fairmesh_units::{BitRate, Frequency, Span};
use serde::{Deserialize, Serialize};

use crate::{LabError, SettingProblem};

/// Changes to a scenario from outside. None by default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Changes {
    /// Simulated time, in place of the scenario's.
    pub duration: Option<Span>,
    /// Start of the measured interval, in place of the scenario's.
    pub warmup: Option<Span>,
    /// Gateways, for maps: names of nodes.
    pub gateways: Vec<String>,
    /// Direction of flows, for maps: from every node to the gateway, or the reverse.
    pub flows: Option<Direction>,
    /// Number of flows, for maps; one per node by default.
    pub flow_count: Option<u32>,
    /// Connections of each node in each direction, for maps; one by default.
    pub connections: Option<u32>,
    /// True if each node is a subscriber with all its flows, for maps.
    pub subscribers: bool,
    /// Radios, for maps.
    pub radio: MapRadio,
    /// Other values for keys of a TOML scenario, applied in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub edits: Vec<Edit>,
}

/// Another value for a key of a TOML scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// Dotted path; `*` stands for every element of a list, a number for one element.
    pub key: String,
    /// The value in TOML: a number, true or false, a quoted string, a list or table; else a text.
    pub value: String,
}

/// Radios and links of a map. The map's own by default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MapRadio {
    /// PHY.
    pub phy: Option<PhyName>,
    /// Data rate of 802.11a, b and g; 802.11g if there is no PHY.
    pub rate: Option<BitRate>,
    /// Width of the channel, with 802.11n, ac and ax.
    pub width: Option<Frequency>,
    /// Spatial streams of every router, with 802.11n, ac and ax.
    pub streams: Option<u8>,
    /// Channel number, with 802.11n, ac and ax.
    pub channel: Option<u32>,
    /// Meaning of the costs of links.
    pub metric: Option<Metric>,
    /// Graph of a NetworkCollection.
    pub graph: Option<String>,
}

impl MapRadio {
    /// Returns the given settings, by name.
    pub fn given(&self) -> Vec<(&'static str, String)> {
        let mut out = Vec::new();
        let mut add = |key, value: Option<String>| out.extend(value.map(|v| (key, v)));
        add("phy", self.phy.map(|p| p.to_string()));
        add("rate", self.rate.map(|r| r.to_string()));
        add("width", self.width.map(|w| w.to_string()));
        add("streams", self.streams.map(|n| n.to_string()));
        add("channel", self.channel.map(|n| n.to_string()));
        add("metric", self.metric.map(|m| m.to_string()));
        add("graph", self.graph.clone());
        out
    }
}

impl Changes {
    /// Returns the changes, one text per setting, for the record.
    pub fn list(&self) -> Vec<String> {
        let mut out = Vec::new();
        let mut add = |key: &str, value: Option<String>| {
            out.extend(value.map(|v| format!("{key} = {v}")));
        };
        add("duration", self.duration.map(|d| d.to_string()));
        add("warmup", self.warmup.map(|d| d.to_string()));
        self.gateways.iter().for_each(|g| add("gateway", Some(g.clone())));
        add("flows", self.flows.map(|w| format!("{w:?}").to_lowercase()));
        add("flow count", self.flow_count.map(|n| n.to_string()));
        add("connections", self.connections.map(|n| n.to_string()));
        add("subscribers", self.subscribers.then(|| "each node".to_owned()));
        self.radio.given().into_iter().for_each(|(key, value)| add(key, Some(value)));
        self.edits.iter().for_each(|e| add(&e.key, Some(e.value.clone())));
        out
    }
}

/// Returns the scenario with another duration and warm-up.
///
/// If no warm-up is given, the scenario keeps its own. If that is half of the run or more, it
/// becomes a tenth.
///
/// # Errors
/// If a run would measure nothing, or would end before a flow starts or a change happens.
pub fn set_times(
    scenario: Scenario,
    duration: Option<Span>,
    warmup: Option<Span>,
) -> Result<Scenario, LabError> {
    if duration.or(warmup).is_none() {
        return Ok(scenario);
    }
    let end = duration.unwrap_or(scenario.duration());
    if end == Span::ZERO {
        return Err(LabError::wrong("duration", SettingProblem::NoTime));
    }
    if let Some(warmup) = warmup.filter(|w| *w >= end) {
        let problem = SettingProblem::NothingMeasured { warmup, duration: end };
        return Err(LabError::wrong("warmup", problem));
    }
    let usual = || match scenario.warmup() {
        long if long.saturating_mul(2) >= end => Span::from_nanos(end.as_nanos() / 10),
        fitting => fitting,
    };
    let warmup = warmup.unwrap_or_else(usual);
    Ok(scenario.with_times(end, warmup)?)
}

/// Returns the scenario under another control.
///
/// Parameter values of the scenario's own control apply to that control only.
///
/// # Errors
/// Returns an error if there is no such control.
pub fn with_control(
    scenario: &Scenario,
    name: &str,
    registry: &Registry,
) -> Result<Scenario, LabError> {
    let chosen = registry.lookup(name).map_err(|e| LabError::wrong("control", e))?;
    let control = chosen.with_numbers_of(scenario.control());
    Ok(scenario.clone().with_control(control))
}

/// Returns one scenario per requested control; the scenario's own control if none is named.
///
/// # Errors
/// Returns an error if a control does not exist, or is named twice.
pub fn with_controls(
    scenario: &Scenario,
    names: &[impl AsRef<str>],
    registry: &Registry,
) -> Result<Vec<Scenario>, LabError> {
    if names.is_empty() {
        return Ok(vec![scenario.clone()]);
    }
    let all = names
        .iter()
        .map(|n| with_control(scenario, n.as_ref(), registry))
        .collect::<Result<Vec<_>, _>>()?;
    for (i, s) in all.iter().enumerate() {
        if all[..i].iter().any(|o| o.control() == s.control()) {
            let twice = SettingProblem::ControlTwice(s.control().to_string());
            return Err(LabError::wrong("control", twice));
        }
    }
    Ok(all)
}

/// Another value for a parameter of controls.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Assignment {
    /// The control, without variants; if `None`, all controls that have the parameter.
    pub control: Option<String>,
    /// The parameter's name.
    pub parameter: String,
    /// Value of the parameter.
    pub value: f64,
}

/// A text that is not an [`Assignment`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("found \"{found}\"; expected a parameter and a number, such as epoch=5")]
pub struct AssignmentError {
    /// The text.
    pub found: String,
}

impl FromStr for Assignment {
    type Err = AssignmentError;

    /// Parses `epoch=5` for all controls that have it, `pfrc.epoch=5` for one.
    fn from_str(text: &str) -> Result<Self, AssignmentError> {
        let bad = || AssignmentError { found: text.to_owned() };
        let (name, value) = text.split_once('=').ok_or_else(bad)?;
        let value = value.trim().parse().map_err(|_| bad())?;
        let name = name.trim();
        let (control, parameter) = match name.split_once('.') {
            Some((control, parameter)) => (Some(control.to_owned()), parameter),
            None => (None, name),
        };
        Ok(Assignment { control, parameter: parameter.to_owned(), value })
    }
}

impl fmt::Display for Assignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Assignment { control, parameter, value } = self;
        match control {
            Some(control) => write!(f, "{control}.{parameter} = {value}"),
            None => write!(f, "{parameter} = {value}"),
        }
    }
}

/// Returns the assignments that apply to a control.
/// They name it, or name no control and it has the parameter.
///
/// # Errors
/// Returns an error if there is no such control.
pub fn assignments_of(
    name: &str,
    set: &[Assignment],
    registry: &Registry,
) -> Result<Vec<Assignment>, LabError> {
    let control = registry.lookup(name).map_err(|e| LabError::wrong("control", e))?;
    let concerns = |a: &&Assignment| {
        a.control.as_ref().is_none_or(|c| control.definition().name == *c)
            && control.value(&a.parameter).is_some()
    };
    Ok(set.iter().filter(concerns).cloned().collect())
}

/// Changes parameters of the scenarios' controls.
///
/// # Errors
/// If none of the addressed controls has a parameter, or a value is out of its range.
pub fn set_parameters(scenarios: &mut [Scenario], set: &[Assignment]) -> Result<(), LabError> {
    for Assignment { control, parameter, value } in set {
        let meant =
            |s: &Scenario| control.as_ref().is_none_or(|c| s.control().definition().name == *c);
        let mut taken = false;
        for scenario in scenarios.iter_mut().filter(|s| meant(s)) {
            if scenario.control().value(parameter).is_some() {
                let mut changed = scenario.control().clone();
                let set = changed.set(parameter, *value);
                set.map_err(|e| LabError::wrong("options", e))?;
                *scenario = scenario.clone().with_control(changed);
                taken = true;
            }
        }
        if !taken {
            let options = |s: &Scenario| {
                let options = s.control().definition().parameters.iter();
                (s.control().to_string(), options.map(|p| p.name.to_string()).collect())
            };
            let known: Vec<_> = scenarios.iter().filter(|s| meant(s)).map(options).collect();
            let problem = match (control, known.is_empty()) {
                (Some(control), true) => SettingProblem::ControlNotRun(control.clone()),
                _ => SettingProblem::UnknownOption { option: parameter.clone(), known },
            };
            return Err(LabError::wrong("options", problem));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> Scenario {
        let text = "name = \"pair\"\nduration = \"1 s\"\n[topology]\nchain = { hops = 1 }\n\
                    [[flow]]\nfrom = 1\nto = 0\n";
        fairmesh_scenario::draft_from_toml("pair.toml", text).unwrap().build().unwrap()
    }

    fn scenarios(names: &[&str]) -> Vec<Scenario> {
        let scenario = pair();
        let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
        with_controls(&scenario, &names, &Registry::standard()).unwrap()
    }

    fn set(scenarios: &mut [Scenario], what: &[&str]) -> Result<(), String> {
        let set: Vec<Assignment> = what.iter().map(|w| w.parse().unwrap()).collect();
        set_parameters(scenarios, &set).map_err(|e| e.to_string())
    }

    #[test]
    fn every_control_that_has_the_parameter_gets_it() {
        let mut all = scenarios(&["fifo", "pfrc+bursts", "arc"]);
        set(&mut all, &["epoch=5", "arc.gamma=0.5"]).unwrap();
        let values = |name| all.iter().map(|s| s.control().value(name)).collect::<Vec<_>>();
        assert_eq!(values("epoch"), [None, Some(5.0), Some(5.0)]);
        assert_eq!(values("gamma"), [None, Some(0.7), Some(0.5)]);
        // Another variant keeps the numbers, another control has its own.
        assert_eq!(
            with_control(&all[1], "pfrc", &Registry::standard()).unwrap().control().value("epoch"),
            Some(5.0)
        );
        assert_eq!(
            with_control(&all[1], "gap", &Registry::standard()).unwrap().control().value("gamma"),
            Some(0.1)
        );
    }

    #[test]
    fn unknown_names_are_refused_with_the_known_ones() {
        let mut all = scenarios(&["fifo", "fq"]);
        let refused = set(&mut all, &["epoch=5"]).unwrap_err();
        assert_eq!(
            refused,
            "options: no control that runs has a parameter \"epoch\"; fifo has none; fq has queue"
        );
        let refused = set(&mut all, &["pfrc.epoch=5"]).unwrap_err();
        assert_eq!(refused, "options: pfrc is none of the controls that run");
        let refused = set(&mut all, &["queue=0"]).unwrap_err();
        assert_eq!(refused, "options: fq: queue must be a whole number from 1 to 1000, not 0");
        for bad in ["epoch", "epoch=", "epoch=5 s", "=x"] {
            let refused = bad.parse::<Assignment>().unwrap_err().to_string();
            assert!(refused.ends_with("such as epoch=5"), "{refused}");
        }
    }
}
