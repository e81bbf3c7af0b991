//! Queues of current kernels: CoDel, fq_codel, CAKE, DualPI2 and those of mac80211.

use fairmesh_queueing::{
    AqlSpec, CakeSpec, CodelSpec, DisciplineSpec, DualPi2Spec, FqCodelSpec, HostFairness,
    StationsSpec,
};
use fairmesh_units::{BitRate, Bytes, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{limit, quantum};
use crate::error::Problem;
use crate::text;

/// CoDel over one queue.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CodelDraft {
    /// Buffer in packets; 1000 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<u32>,
    /// Buffer in bytes instead.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Bytes>")]
    pub bytes: Option<Bytes>,
    /// Waiting time without drops; 5 ms by default.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub target: Option<Span>,
    /// Time for which waiting times must exceed `target`; 100 ms by default.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub interval: Option<Span>,
    /// True to mark packets of ECN-capable transports instead of dropping them; false by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn: Option<bool>,
    /// Waiting time above which every ECN-capable packet is marked; never by default.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub ce_threshold: Option<Span>,
    /// True if `ce_threshold` marks only packets with ECT(1); false by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ce_ect1: Option<bool>,
    /// Length of the device queue below this one, packets; it serves its receivers in turn.
    ///
    /// 0, none, by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<u32>,
}

/// A queue per flow, CoDel in each.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FqCodelDraft {
    /// Buffer in packets; 10240 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<u32>,
    /// Bytes of all flows together; 32 MiB by default.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Bytes>")]
    pub memory: Option<Bytes>,
    /// Number of hash buckets for flows; 1024 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flows: Option<u32>,
    /// Bytes that a flow may send per round; 1514 B by default.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Bytes>")]
    pub quantum: Option<Bytes>,
    /// Maximum number of packets that the longest flow loses at once when a limit is reached.
    ///
    /// 64 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drop_batch: Option<u32>,
    /// Waiting time without drops; 5 ms by default.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub target: Option<Span>,
    /// Time for which waiting times must exceed `target`; 100 ms by default.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub interval: Option<Span>,
    /// True to mark packets of ECN-capable transports instead of dropping them; true by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn: Option<bool>,
    /// Waiting time above which every ECN-capable packet is marked; never by default.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub ce_threshold: Option<Span>,
    /// True if `ce_threshold` marks only packets with ECT(1); false by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ce_ect1: Option<bool>,
    /// Length of the device queue below this one, packets; it serves its receivers in turn.
    ///
    /// 0, none, by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<u32>,
}

/// CAKE: a shaper, round robin of hosts and their flows, COBALT.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CakeDraft {
    /// Shaping rate; unlimited by default.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<BitRate>")]
    pub rate: Option<BitRate>,
    /// Bytes of all flows together; by default from the rate, or 16 MiB.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Bytes>")]
    pub memory: Option<Bytes>,
    /// Number of hash buckets for flows; 1024 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flows: Option<u32>,
    /// Waiting time without drops; 5 ms by default.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub target: Option<Span>,
    /// Time for which waiting times must exceed `target`; 100 ms by default.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub interval: Option<Span>,
    /// Hosts that share fairly before their flows; `triple` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolation: Option<IsolationDraft>,
    /// Length of the device queue below this one, packets; it serves its receivers in turn.
    ///
    /// 0, none, by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<u32>,
}

/// Hosts that share fairly before their flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IsolationDraft {
    /// None.
    Flows,
    /// Hosts that send.
    Sources,
    /// Hosts that receive.
    Destinations,
    /// Both.
    Triple,
}

/// DualPI2: a shallow queue for L4S packets and a deep one for others, coupled.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DualPi2Draft {
    /// Buffer in packets; 10000 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<u32>,
    /// Buffer in bytes instead.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Bytes>")]
    pub bytes: Option<Bytes>,
    /// Waiting time without drops, for packets without ECT(1); 15 ms by default.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub target: Option<Span>,
    /// Waiting time above which packets with ECT(1) are marked; 800 us by default.
    ///
    /// Above one and a half times this, all of them are marked.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub ce_threshold: Option<Span>,
    /// True to mark packets of ECN-capable transports instead of dropping them; true by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn: Option<bool>,
    /// Length of the device queue below this one, packets; it serves its receivers in turn.
    ///
    /// 0, none, by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<u32>,
}

/// The queues of mac80211.
///
/// They have flows per neighbour with CoDel, and neighbours in turns of equal airtime.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Mac80211Draft {
    /// Buffer in packets; 8192 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<u32>,
    /// Bytes of all flows together; 16 MiB by default.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Bytes>")]
    pub memory: Option<Bytes>,
    /// Number of hash buckets for flows; 4096 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flows: Option<u32>,
    /// Bytes that a flow may send per round; 300 B by default.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Bytes>")]
    pub quantum: Option<Bytes>,
    /// Waiting time without drops; by default 20 ms, and 50 ms for slow neighbours.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub target: Option<Span>,
    /// Time for which waiting times must exceed `target`.
    ///
    /// By default 100 ms, and 300 ms for slow neighbours.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub interval: Option<Span>,
    /// True to mark packets of ECN-capable transports instead of dropping them; true by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn: Option<bool>,
    /// Waiting time above which every ECN-capable packet is marked; never by default.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub ce_threshold: Option<Span>,
    /// True if `ce_threshold` marks only packets with ECT(1); false by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ce_ect1: Option<bool>,
    /// Airtime of a neighbour of weight 1 per turn; 256 us by default, 0: a turn is a frame.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub airtime: Option<Span>,
    /// True to limit the airtime queued in the card (`device`); true by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aql: Option<bool>,
    /// Airtime limit of one neighbour in the card while the card is heavily loaded.
    ///
    /// 5 ms by default.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub aql_low: Option<Span>,
    /// Airtime limit of one neighbour in the card otherwise; 12 ms by default.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub aql_high: Option<Span>,
    /// Total airtime above which the card is heavily loaded; 24 ms by default.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub aql_total: Option<Span>,
    /// Length of the device queue below this one, packets; it serves its receivers in turn.
    ///
    /// 0, none, by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<u32>,
}

/// CoDel settings that several kinds have.
struct Codel {
    target: Option<Span>,
    interval: Option<Span>,
    ecn: Option<bool>,
    ce_threshold: Option<Span>,
    ce_ect1: Option<bool>,
}

impl Codel {
    /// Builds the settings given, with `usual` for the others.
    fn build(self, usual: CodelSpec) -> Result<CodelSpec, Problem> {
        if self.ce_ect1.is_some() && self.ce_threshold.is_none() {
            return Err(Problem::refused("`ce_ect1` without `ce_threshold`", "a step to mark at"));
        }
        Ok(CodelSpec {
            target: self.target.unwrap_or(usual.target),
            interval: self.interval.unwrap_or(usual.interval),
            ecn: self.ecn.unwrap_or(usual.ecn),
            ce_threshold: self.ce_threshold.or(usual.ce_threshold),
            ce_ect1: self.ce_ect1.unwrap_or(usual.ce_ect1),
            ..usual
        })
    }
}

macro_rules! codel_of {
    ($draft:expr) => {
        Codel {
            target: $draft.target,
            interval: $draft.interval,
            ecn: $draft.ecn,
            ce_threshold: $draft.ce_threshold,
            ce_ect1: $draft.ce_ect1,
        }
    };
}

impl CodelDraft {
    pub(super) fn build(&self) -> Result<DisciplineSpec, Problem> {
        let codel = codel_of!(self).build(CodelSpec::default())?;
        Ok(DisciplineSpec::Codel(limit(self.packets, self.bytes, 1000)?, codel))
    }
}

impl FqCodelDraft {
    pub(super) fn build(&self) -> Result<DisciplineSpec, Problem> {
        let base = FqCodelSpec::default();
        Ok(DisciplineSpec::FqCodel(FqCodelSpec {
            packets: self.packets.unwrap_or(base.packets),
            memory: self.memory.map_or(base.memory, |b| b.0),
            flows: self.flows.unwrap_or(base.flows),
            quantum: quantum(self.quantum, base.quantum)?,
            drop_batch: self.drop_batch.unwrap_or(base.drop_batch),
            codel: codel_of!(self).build(base.codel)?,
        }))
    }
}

impl CakeDraft {
    pub(super) fn build(&self) -> DisciplineSpec {
        let base = CakeSpec::default();
        DisciplineSpec::Cake(CakeSpec {
            rate: self.rate,
            memory: self.memory,
            flows: self.flows.unwrap_or(base.flows),
            target: self.target.unwrap_or(base.target),
            interval: self.interval.unwrap_or(base.interval),
            hosts: match self.isolation {
                Some(IsolationDraft::Flows) => HostFairness::None,
                Some(IsolationDraft::Sources) => HostFairness::Sources,
                Some(IsolationDraft::Destinations) => HostFairness::Destinations,
                Some(IsolationDraft::Triple) | None => HostFairness::Both,
            },
        })
    }
}

impl DualPi2Draft {
    pub(super) fn build(&self) -> Result<DisciplineSpec, Problem> {
        let base = DualPi2Spec::default();
        let min_threshold = self.ce_threshold.unwrap_or(base.min_threshold);
        Ok(DisciplineSpec::DualPi2(DualPi2Spec {
            limit: limit(self.packets, self.bytes, 10_000)?,
            target: self.target.unwrap_or(base.target),
            min_threshold,
            range: Span::from_nanos(min_threshold.as_nanos() / 2),
            ecn: self.ecn.unwrap_or(base.ecn),
            ..base
        }))
    }
}

impl Mac80211Draft {
    pub(super) fn build(&self) -> Result<DisciplineSpec, Problem> {
        let limits = [self.aql_low, self.aql_high, self.aql_total];
        let limited = limits.iter().any(Option::is_some);
        if self.aql == Some(false) && limited {
            return Err(Problem::refused("limits of `aql = false`", "`aql = true`, or no limits"));
        }
        let device = self.device.unwrap_or(0) > 0;
        if !device && (self.aql.is_some() || limited) {
            return Err(Problem::refused("`aql` without `device`", "a card with a queue to limit"));
        }
        let base = StationsSpec::default();
        let chosen = self.target.is_some() || self.interval.is_some();
        let aql = AqlSpec::default();
        let aql = AqlSpec {
            low: self.aql_low.unwrap_or(aql.low),
            high: self.aql_high.unwrap_or(aql.high),
            total: self.aql_total.unwrap_or(aql.total),
        };
        Ok(DisciplineSpec::Stations(StationsSpec {
            packets: self.packets.unwrap_or(base.packets),
            memory: self.memory.map_or(base.memory, |b| b.0),
            flows: self.flows.unwrap_or(base.flows),
            quantum: quantum(self.quantum, base.quantum)?,
            codel: codel_of!(self).build(base.codel)?,
            slow: base.slow.filter(|_| !chosen),
            airtime: self.airtime.or(base.airtime).filter(|a| *a > Span::ZERO),
            aql: (device && self.aql.unwrap_or(true)).then_some(aql),
        }))
    }
}
