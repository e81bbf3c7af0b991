//! `radio.errors`: frame losses without collisions.

use std::sync::Arc;

use fairmesh_phy::Phy;
use fairmesh_units::{Decibel, Power, Span};
use fairmesh_wifi::loss::{Fading, FrameErrors, SnrErrors, SnrTable, ThreeState, ThreeStateModel};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Problem;
use crate::text;

/// Frame errors: exactly one of `frame`, `bit`, `bursts`, `chain` and `snr`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ErrorsDraft {
    /// Probability of loss of every frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frame: Option<f64>,
    /// Bit error ratios, one per rate of the PHY from slow to fast.
    ///
    /// The last applies to all faster ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bit: Option<Vec<f64>>,
    /// The three-state chain of Triantafyllidou 2005, with this error probability when bad.
    ///
    /// When very bad, it is 5.5 times that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bursts: Option<f64>,
    /// A three-state chain with custom parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain: Option<ChainDraft>,
    /// Errors by signal-to-noise ratio, with OFDM: `{}` for the defaults.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snr: Option<SnrDraft>,
}

/// Errors by signal-to-noise ratio.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SnrDraft {
    /// Noise figure of receivers, relative to 290 K; 7 dB by default.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Decibel>")]
    pub noise_figure: Option<Decibel>,
    /// Variation of power between frames; `none` by default.
    #[serde(skip_serializing_if = "FadingDraft::is_default")]
    pub fading: FadingDraft,
}

/// Variation of power between the frames of one link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FadingDraft {
    /// No variation.
    #[default]
    None,
    /// An exponential factor of mean one for each frame.
    Rayleigh,
}

impl FadingDraft {
    fn is_default(&self) -> bool {
        *self == FadingDraft::None
    }
}

impl SnrDraft {
    fn build(&self, phy: &Phy) -> Result<FrameErrors, Problem> {
        let figure = self.noise_figure.unwrap_or(Decibel(7.0));
        if !(0.0..=40.0).contains(&figure.0) {
            return Err(Problem::range(format!("{} dB", figure.0), "0 dB to 40 dB"));
        }
        let fading = match self.fading {
            FadingDraft::None => Fading::None,
            FadingDraft::Rayleigh => Fading::Rayleigh,
        };
        let table = SnrTable::new(phy, figure).map_err(|e| {
            Problem::refused(e.to_string(), "`radio.phy` of OFDM alone, such as \"802.11n\"")
        })?;
        Ok(FrameErrors::Snr(SnrErrors::new(Arc::new(table), Power::ZERO, fading)))
    }
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
    /// Builds the initial error process of every link.
    pub(crate) fn build(&self, phy: &Phy) -> Result<FrameErrors, Problem> {
        let others =
            (self.frame.is_some(), self.bit.is_some(), self.bursts.is_some(), self.chain.is_some());
        if let (Some(snr), (false, false, false, false)) = (&self.snr, others) {
            return snr.build(phy);
        }
        let chain = |m: ThreeStateModel| FrameErrors::ThreeState(ThreeState::new(Arc::new(m)));
        let built = match (self.frame, &self.bit, self.bursts, &self.chain) {
            (None, None, None, None) => Ok(FrameErrors::None),
            _ if self.snr.is_some() => return Err(several()),
            (Some(p), None, None, None) => FrameErrors::per_frame(p),
            (None, Some(ratios), None, None) => FrameErrors::per_bit(ratios),
            (None, None, Some(p), None) => ThreeStateModel::triantafyllidou(p).map(chain),
            (None, None, None, Some(c)) => {
                let step = c.step.unwrap_or(Span::from_micros(20));
                ThreeStateModel::new(c.transitions, c.errors, step).map(chain)
            }
            _ => return Err(several()),
        };
        built.map_err(|e| Problem::refused(e.to_string(), "probabilities between 0 and 1"))
    }
}

fn several() -> Problem {
    Problem::refused("several error models", "one of `frame`, `bit`, `bursts`, `chain`, `snr`")
}
