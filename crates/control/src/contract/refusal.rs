//! Reasons for which a mechanism does not start.

use core::fmt;

use fairmesh_units::{BitRate, FlowId, NodeId};

use crate::host::Unbuildable;
use crate::{Missing, PlacementSet, Reason, Value};

/// A property of a [`crate::Setting`] or of parameters that a mechanism cannot accept.
///
/// It has a stable code, a sentence and values, like a [`Reason`]. Each mechanism has its own.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Refusal(Reason);

impl Refusal {
    /// Builds a refusal; the code is `"cna.topology"`: the mechanism or `any`, a dot, the case.
    pub fn new(code: &'static str, sentence: &'static str, given: &[Value]) -> Self {
        Refusal(Reason::new(code, sentence, given))
    }

    /// Returns its stable code.
    ///
    /// Those of several mechanisms: `any.weight` (flow, weight), `any.guarantees` (sum, bound), `any.dead-link` (node),
    /// `any.no-neighbour`, `any.thresholds` (lower, upper), `any.gateways` (number).
    pub fn code(&self) -> &'static str {
        self.0.code
    }

    /// Converts it to the reason of a decision.
    ///
    /// It is used for input that arrives too late to be refused and is ignored.
    pub fn reason(&self, code: &'static str) -> Reason {
        Reason { code, ..self.0 }
    }

    /// Returns the values of its sentence.
    pub fn values(&self) -> &[Value] {
        &self.0.values
    }

    /// A weight that is zero, negative or not a number.
    pub(crate) fn weight(flow: FlowId, weight: f64) -> Self {
        let values = [Value::Flow(flow), Value::Number(weight)];
        Refusal::new("any.weight", "flow {}: a weight must be above 0, not {}", &values)
    }

    /// A link without capacity.
    pub(crate) fn dead_link(node: NodeId) -> Self {
        let sentence = "the link to neighbour {} has a capacity of 0";
        Refusal::new("any.dead-link", sentence, &[Value::Node(node)])
    }

    /// No neighbour: there is no mesh behind this gateway.
    pub(crate) fn no_neighbour() -> Self {
        Refusal::new("any.no-neighbour", "the gateway has no neighbour", &[])
    }

    /// Several gateways, for a mechanism that supports one.
    pub(crate) fn gateways(number: u32) -> Self {
        let sentence = "it knows one gateway; the mesh has {}";
        Refusal::new("any.gateways", sentence, &[Value::Count(u64::from(number))])
    }

    /// Guarantees that the worst mesh with these links may not carry.
    ///
    /// The values are their sum and the capacity that is certain: the lower bound of Jamshaid 2010 §7.5.2.
    pub(crate) fn guarantees(sum: BitRate, bound: BitRate) -> Self {
        let sentence =
            "guarantees add up to {}; the links of this gateway are only sure to carry {}";
        Refusal::new("any.guarantees", sentence, &[Value::Rate(sum), Value::Rate(bound)])
    }

    /// A lower threshold that is not below the upper one.
    pub(crate) fn thresholds(min: f64, max: f64) -> Self {
        let values = [Value::Number(min), Value::Number(max)];
        Refusal::new("any.thresholds", "min must be below max, {} is not below {}", &values)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
impl core::error::Error for Refusal {}

/// Reason for which [`crate::Mechanism::start`] failed.
#[derive(Clone, PartialEq, Debug)]
pub enum StartError {
    /// The host lacks a capability.
    Missing(Missing),
    /// The host does not build the classes of the plan.
    Unbuildable(Unbuildable),
    /// No node of the host is of a kind at which the mechanism runs.
    Elsewhere {
        /// The mechanism, variants included.
        mechanism: String,
        /// The host.
        host: &'static str,
        /// Kinds of nodes at which the mechanism runs.
        at: PlacementSet,
    },
    /// The mechanism does not accept the setting.
    Refused {
        /// The mechanism, variants included.
        mechanism: String,
        /// The property that is not accepted.
        why: Refusal,
    },
}

impl From<Missing> for StartError {
    fn from(missing: Missing) -> Self {
        StartError::Missing(missing)
    }
}

impl From<Unbuildable> for StartError {
    fn from(unbuildable: Unbuildable) -> Self {
        StartError::Unbuildable(unbuildable)
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Missing(missing) => missing.fmt(f),
            StartError::Unbuildable(unbuildable) => unbuildable.fmt(f),
            StartError::Elsewhere { mechanism, host, at } => {
                write!(f, "{mechanism} cannot run on {host}: it runs at {at}")
            }
            StartError::Refused { mechanism, why } => write!(f, "{mechanism}: {why}"),
        }
    }
}

impl core::error::Error for StartError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            StartError::Missing(missing) => Some(missing),
            StartError::Unbuildable(unbuildable) => Some(unbuildable),
            StartError::Refused { why, .. } => Some(why),
            StartError::Elsewhere { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::error::Error;

    #[test]
    fn a_refusal_has_a_code_to_act_on_and_a_sentence_to_read() {
        let sum = Refusal::guarantees(BitRate(500_000), BitRate(300_000));
        assert_eq!(sum.code(), "any.guarantees");
        assert_eq!(sum.values()[..2], [BitRate(500_000), BitRate(300_000)].map(Value::Rate));
        assert_eq!(
            sum.to_string(),
            "guarantees add up to 500 kbit/s; the links of this gateway are only sure to carry 300 kbit/s"
        );
        let weight = Refusal::weight(FlowId(3), -1.0).reason("pfrc.refused");
        assert_eq!(weight.code, "pfrc.refused");
        assert_eq!(weight.to_string(), "flow 3: a weight must be above 0, not -1");
    }

    #[test]
    fn an_error_names_the_mechanism_and_has_its_refusal_as_source() {
        let why = Refusal::no_neighbour();
        let refused = StartError::Refused { mechanism: "pfrc+bursts".to_owned(), why };
        assert_eq!(refused.to_string(), "pfrc+bursts: the gateway has no neighbour");
        assert_eq!(refused.source().unwrap().to_string(), "the gateway has no neighbour");
    }
}
