//! Queues that drop or mark by the average queue.

use fairmesh_queueing::{DisciplineSpec, FredSpec, RedSpec, ThresholdSpec};
use fairmesh_units::{Bytes, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{USUAL_PACKETS, limit};
use crate::error::Problem;
use crate::text;

/// Random early detection.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RedDraft {
    /// Buffer in packets; 50 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<u32>,
    /// Buffer in bytes instead.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Bytes>")]
    pub bytes: Option<Bytes>,
    /// Average queue below which no packet is dropped at random.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// Average queue at which the probability has risen to `max_p`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
    /// Drop probability at `max`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_p: Option<f64>,
    /// Weight of a new sample in the average; 0.002 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// True if the probability rises from `max_p` to 1 above `max`; true by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gentle: Option<bool>,
    /// True to mark packets of ECN-capable transports instead of dropping them; false by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn: Option<bool>,
    /// Length of the device queue below this one, packets; it serves its receivers in turn.
    ///
    /// 0, none, by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<u32>,
}

/// Flow random early drop.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FredDraft {
    /// Buffer in packets; 50 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<u32>,
    /// Average queue below which no packet is dropped at random.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// Average queue at which the probability has risen to `max_p`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
    /// Drop probability at `max`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_p: Option<f64>,
    /// Weight of a new sample in the average; 0.002 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// Packets that any flow may queue without random drops.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_q: Option<u32>,
    /// Packets that no flow may exceed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_q: Option<u32>,
    /// True if each flow keeps two packets above `max`; true by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub many_flows: Option<bool>,
    /// Length of the device queue below this one, packets; it serves its receivers in turn.
    ///
    /// 0, none, by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<u32>,
}

/// Drop-tail with marks above a threshold of the average queue.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MarkDraft {
    /// Buffer in packets; 50 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<u32>,
    /// Buffer in bytes instead.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Bytes>")]
    pub bytes: Option<Bytes>,
    /// Average queue above which ECN-capable packets are marked; 4 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// Weight of a new sample in the average; 0.02 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// Length of the device queue below this one, packets; it serves its receivers in turn.
    ///
    /// 0, none, by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<u32>,
}

impl RedDraft {
    pub(super) fn build(&self, packet_time: Span) -> Result<DisciplineSpec, Problem> {
        let limit = limit(self.packets, self.bytes, USUAL_PACKETS)?;
        let base = RedSpec::packets(self.packets.unwrap_or(USUAL_PACKETS), packet_time);
        // The default thresholds count packets.
        let unit = if self.bytes.is_some() { f64::from(base.mean_packet) } else { 1.0 };
        Ok(DisciplineSpec::Red(RedSpec {
            limit,
            min: self.min.unwrap_or(base.min * unit),
            max: self.max.unwrap_or(base.max * unit),
            max_p: self.max_p.unwrap_or(base.max_p),
            weight: self.weight.unwrap_or(base.weight),
            gentle: self.gentle.unwrap_or(base.gentle),
            ecn: self.ecn.unwrap_or(base.ecn),
            ..base
        }))
    }
}

impl FredDraft {
    pub(super) fn build(&self, packet_time: Span) -> DisciplineSpec {
        let base = FredSpec::packets(self.packets.unwrap_or(USUAL_PACKETS), packet_time);
        DisciplineSpec::Fred(FredSpec {
            min: self.min.unwrap_or(base.min),
            max: self.max.unwrap_or(base.max),
            max_p: self.max_p.unwrap_or(base.max_p),
            weight: self.weight.unwrap_or(base.weight),
            min_q: self.min_q.unwrap_or(base.min_q),
            max_q: self.max_q.unwrap_or(base.max_q),
            many_flows: self.many_flows.unwrap_or(base.many_flows),
            ..base
        })
    }
}

impl MarkDraft {
    pub(super) fn build(&self, packet_time: Span) -> Result<DisciplineSpec, Problem> {
        let limit = limit(self.packets, self.bytes, USUAL_PACKETS)?;
        let base = ThresholdSpec::packets(self.packets.unwrap_or(USUAL_PACKETS), packet_time);
        let threshold = match (self.threshold, self.bytes) {
            (Some(threshold), _) => threshold,
            (None, None) => base.threshold,
            (None, Some(_)) => {
                return Err(Problem::refused(
                    "`bytes` without `threshold`",
                    "a threshold in bytes",
                ));
            }
        };
        let weight = self.weight.unwrap_or(base.weight);
        Ok(DisciplineSpec::Threshold(ThresholdSpec { limit, threshold, weight, ..base }))
    }
}
