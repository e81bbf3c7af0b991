//! Why a mechanism does not start.

use core::fmt;

use fairmesh_units::{BitRate, FlowId, NodeId};

use crate::Missing;

/// What a mechanism cannot accept in its [`crate::Setting`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Refused {
    /// A weight that is zero, negative or no number.
    Weight {
        /// Whose.
        flow: FlowId,
        /// As given.
        weight: f64,
    },
    /// Guarantees that not even the worst mesh with these links is sure to carry.
    Guarantees {
        /// Their sum.
        sum: BitRate,
        /// What the mesh is sure to carry: the lower bound of Jamshaid 2010 §7.5.2.
        bound: BitRate,
    },
    /// A plan that promises more than it allows.
    Ceiling {
        /// Whose.
        flow: FlowId,
        /// What it promises.
        guarantee: BitRate,
        /// What it allows.
        ceiling: BitRate,
    },
    /// A part reserved for signalling that leaves the neighbours less than their guarantee.
    Gamma {
        /// As given.
        gamma: f64,
        /// The most that is left.
        limit: f64,
    },
    /// A target for a delay that ends before it begins.
    Delays {
        /// The smallest delay wanted, seconds.
        least: f64,
        /// The largest, seconds.
        most: f64,
    },
    /// Two variants of which one leaves the other nothing to do.
    Together {
        /// The one.
        one: &'static str,
        /// The other.
        other: &'static str,
    },
    /// A lower threshold that is not below the upper one.
    Thresholds {
        /// The lower one.
        min: f64,
        /// The upper one.
        max: f64,
    },
    /// The host says that it has a model of its links, and gives none.
    NoModel,
    /// No neighbour: there is no mesh behind this gateway.
    NoNeighbour,
    /// A link that carries nothing.
    DeadLink {
        /// The neighbour at its other end.
        node: NodeId,
    },
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Weight { flow, weight } => {
                write!(f, "flow {}: a weight must be above 0, not {weight}", flow.0)
            }
            Refused::Guarantees { sum, bound } => write!(
                f,
                "guarantees add up to {sum}; the links of this gateway are only sure to carry {bound}"
            ),
            Refused::Ceiling { flow, guarantee, ceiling } => write!(
                f,
                "flow {}: a guarantee of {guarantee} above its ceiling of {ceiling}",
                flow.0
            ),
            Refused::Gamma { gamma, limit } => write!(
                f,
                "gamma must be at most {limit:.3}, what the guarantees leave of the gateway, not \
                 {gamma}"
            ),
            Refused::Delays { least, most } => {
                write!(f, "delay_min must not be above delay_max, {least} s is above {most} s")
            }
            Refused::Together { one, other } => {
                write!(f, "the variants {one} and {other} do not go together; take one of them")
            }
            Refused::Thresholds { min, max } => {
                write!(f, "min must be below max, {min} is not below {max}")
            }
            Refused::NoModel => f.write_str("the host gives no model of what its links can carry"),
            Refused::NoNeighbour => f.write_str("the gateway has no neighbour"),
            Refused::DeadLink { node } => {
                write!(f, "the link to neighbour {} has a capacity of 0", node.0)
            }
        }
    }
}
impl core::error::Error for Refused {}

/// Why [`crate::Mechanism::start`] failed.
#[derive(Clone, PartialEq, Debug)]
pub enum StartError {
    /// The host lacks something.
    Missing(Missing),
    /// The setting is not acceptable.
    Refused {
        /// The mechanism, variants included.
        mechanism: String,
        /// What is wrong.
        why: Refused,
    },
}

impl From<Missing> for StartError {
    fn from(missing: Missing) -> Self {
        StartError::Missing(missing)
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Missing(missing) => missing.fmt(f),
            StartError::Refused { mechanism, why } => write!(f, "{mechanism}: {why}"),
        }
    }
}

impl core::error::Error for StartError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            StartError::Missing(missing) => Some(missing),
            StartError::Refused { why, .. } => Some(why),
        }
    }
}
