//! `radio.errors`: frames lost for reasons other than collisions.

use std::sync::Arc;

use fairmesh_units::Span;
use fairmesh_wifi::loss::{FrameErrors, ThreeState, ThreeStateModel};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Problem;
use crate::text;

/// Exactly one of `frame`, `bit`, `bursts` and `chain`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ErrorsDraft {
    /// Every frame is lost with this probability.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frame: Option<f64>,
    /// Bit error ratios, one per rate of the PHY from slow to fast; the last serves the faster ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bit: Option<Vec<f64>>,
    /// The three-state chain of Triantafyllidou 2005 with errors of this probability when bad, 5.5
    /// times as many when very bad.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bursts: Option<f64>,
    /// A three-state chain of one's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain: Option<ChainDraft>,
}

/// A three-state chain.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChainDraft {
    /// Transition probabilities per step, from row to column.
    pub transitions: [[f64; 3]; 3],
    /// Frame error probability in each state.
    pub errors: [f64; 3],
    /// Length of a step; 20 us by default.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub step: Option<Span>,
}

impl ErrorsDraft {
    /// The error process that every link starts from.
    pub(crate) fn build(&self) -> Result<FrameErrors, Problem> {
        let chain = |m: ThreeStateModel| FrameErrors::ThreeState(ThreeState::new(Arc::new(m)));
        let built = match (self.frame, &self.bit, self.bursts, &self.chain) {
            (None, None, None, None) => Ok(FrameErrors::None),
            (Some(p), None, None, None) => FrameErrors::per_frame(p),
            (None, Some(ratios), None, None) => FrameErrors::per_bit(ratios),
            (None, None, Some(p), None) => ThreeStateModel::triantafyllidou(p).map(chain),
            (None, None, None, Some(c)) => {
                let step = c.step.unwrap_or(Span::from_micros(20));
                ThreeStateModel::new(c.transitions, c.errors, step).map(chain)
            }
            _ => {
                return Err(Problem::refused(
                    "several error models",
                    "one of `frame`, `bit`, `bursts`, `chain`",
                ));
            }
        };
        built.map_err(|e| Problem::refused(e.to_string(), "probabilities between 0 and 1"))
    }
}
