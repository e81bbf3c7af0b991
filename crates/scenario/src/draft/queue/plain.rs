//! Queues that drop packets only when full.

use fairmesh_queueing::{DisciplineSpec, FairSpec, WfqSpec};
use fairmesh_units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{USUAL_PACKETS, limit, quantum};
use crate::error::Problem;
use crate::text;

/// First in, first out.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DropTailDraft {
    /// Buffer in packets; 50 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<u32>,
    /// Buffer in bytes instead.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Bytes>")]
    pub bytes: Option<Bytes>,
    /// Length of the device queue below this one, packets; it serves its receivers in turn.
    ///
    /// 0, none, by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<u32>,
}

/// A buffer per flow, served in turn.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FqDraft {
    /// Buffer of each flow in packets; 50 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<u32>,
    /// Buffer of each flow in bytes instead.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Bytes>")]
    pub bytes: Option<Bytes>,
    /// Maximum number of packets of all flows; unlimited by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u32>,
    /// Bytes that a flow may send per round; 1500 B by default.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Bytes>")]
    pub quantum: Option<Bytes>,
    /// Length of the device queue below this one, packets; it serves its receivers in turn.
    ///
    /// 0, none, by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<u32>,
}

/// A buffer per flow, served by the flows' weights.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WfqDraft {
    /// Buffer of each flow in packets; 50 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<u32>,
    /// Buffer of each flow in bytes instead.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Bytes>")]
    pub bytes: Option<Bytes>,
    /// Length of the device queue below this one, packets; it serves its receivers in turn.
    ///
    /// 0, none, by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<u32>,
}

impl DropTailDraft {
    pub(super) fn build(&self) -> Result<DisciplineSpec, Problem> {
        limit(self.packets, self.bytes, USUAL_PACKETS).map(DisciplineSpec::DropTail)
    }
}

impl FqDraft {
    pub(super) fn build(&self) -> Result<DisciplineSpec, Problem> {
        let base = FairSpec::per_flow(limit(self.packets, self.bytes, USUAL_PACKETS)?);
        let quantum = quantum(self.quantum, base.quantum)?;
        Ok(DisciplineSpec::Fair(FairSpec { total: self.total, quantum, ..base }))
    }
}

impl WfqDraft {
    /// Builds the discipline.
    ///
    /// Flows have weight 1 until `InterfaceQueue::weigh` sets their weights.
    pub(super) fn build(&self) -> Result<DisciplineSpec, Problem> {
        let limit = limit(self.packets, self.bytes, USUAL_PACKETS)?;
        Ok(DisciplineSpec::Wfq(WfqSpec::per_flow(limit)))
    }
}
