//! `queue`: a number of packets, or a table.

use core::fmt;

use fairmesh_queueing::{DisciplineSpec, FairSpec, FredSpec, Limit, RedSpec, ThresholdSpec};
use fairmesh_units::{Bytes, Span};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

use crate::error::Problem;
use crate::text;

/// Packets in ns-2's interface queue, which the papers use.
pub(crate) const USUAL_PACKETS: u32 = 50;

/// A wireless interface's queue: drop-tail of so many packets, or a table with `kind`.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(untagged)]
pub enum QueueDraft {
    /// Drop-tail of this many packets, the one in service included.
    Packets(u32),
    /// With details.
    Table(QueueTable),
}

/// The kinds of queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum QueueKind {
    /// First in, first out.
    DropTail,
    /// A buffer per flow, served in turn.
    Fq,
    /// Random early detection.
    Red,
    /// Flow random early drop.
    Fred,
    /// Drop-tail that marks above a threshold of the average queue.
    Mark,
}

/// Settings of a queue; those of another kind are refused.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueTable {
    /// Which discipline.
    pub kind: QueueKind,
    /// Buffer in packets (`fq`: of each flow); 50 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<u32>,
    /// Buffer in bytes instead; not `fred`.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Bytes>")]
    pub bytes: Option<Bytes>,
    /// `red`, `fred`: average queue below which nothing is dropped at random.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// `red`, `fred`: average queue at which the probability has risen to `max_p`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
    /// `red`, `fred`: drop probability at `max`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_p: Option<f64>,
    /// `mark`: average queue above which ECN-capable packets are marked; 4 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// `red`, `fred`, `mark`: weight of a new sample in the average; 0.002 by default, `mark` 0.02.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// `red`: let the probability rise from `max_p` to 1 beyond `max`; true by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gentle: Option<bool>,
    /// `red`: mark packets of ECN-capable transports instead of dropping them; false by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ecn: Option<bool>,
    /// `fred`: packets that any flow may queue without random drops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_q: Option<u32>,
    /// `fred`: packets that no flow may exceed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_q: Option<u32>,
    /// `fred`: above `max`, let each flow keep two packets; true by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub many_flows: Option<bool>,
    /// `fq`: packets of all flows together; no limit by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u32>,
    /// `fq`: bytes that a flow may send per round; 1500 B by default.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Bytes>")]
    pub quantum: Option<Bytes>,
}

impl QueueTable {
    /// A queue with default settings.
    pub fn new(kind: QueueKind) -> Self {
        QueueTable {
            kind,
            packets: None,
            bytes: None,
            min: None,
            max: None,
            max_p: None,
            threshold: None,
            weight: None,
            gentle: None,
            ecn: None,
            min_q: None,
            max_q: None,
            many_flows: None,
            total: None,
            quantum: None,
        }
    }

    /// Refuses settings of other kinds.
    fn check(&self) -> Result<(), Problem> {
        use QueueKind::{DropTail, Fq, Fred, Mark, Red};
        let given: [(&str, bool, &[QueueKind]); 12] = [
            ("bytes", self.bytes.is_some(), &[DropTail, Fq, Red, Mark]),
            ("min", self.min.is_some(), &[Red, Fred]),
            ("max", self.max.is_some(), &[Red, Fred]),
            ("max_p", self.max_p.is_some(), &[Red, Fred]),
            ("threshold", self.threshold.is_some(), &[Mark]),
            ("weight", self.weight.is_some(), &[Red, Fred, Mark]),
            ("gentle", self.gentle.is_some(), &[Red]),
            ("ecn", self.ecn.is_some(), &[Red]),
            ("min_q", self.min_q.is_some(), &[Fred]),
            ("max_q", self.max_q.is_some(), &[Fred]),
            ("many_flows", self.many_flows.is_some(), &[Fred]),
            ("total", self.total.is_some(), &[Fq]),
        ];
        let foreign = given.iter().find(|(_, is, kinds)| *is && !kinds.contains(&self.kind));
        if let Some((key, ..)) = foreign {
            return Err(Problem::refused(
                format!("`{key}` is no setting of this kind of queue"),
                "the settings of one kind",
            ));
        }
        if self.quantum.is_some() && self.kind != Fq {
            return Err(Problem::refused(
                "`quantum` without `kind = \"fq\"`",
                "the settings of one kind",
            ));
        }
        if self.packets.is_some() && self.bytes.is_some() {
            return Err(Problem::refused("`packets` and `bytes` together", "one of them"));
        }
        Ok(())
    }

    fn limit(&self) -> Limit {
        match self.bytes {
            Some(b) => Limit::Bytes(b.0),
            None => Limit::Packets(self.packets.unwrap_or(USUAL_PACKETS)),
        }
    }

    fn build(&self, packet_time: Span) -> Result<DisciplineSpec, Problem> {
        self.check()?;
        let packets = self.packets.unwrap_or(USUAL_PACKETS);
        Ok(match self.kind {
            QueueKind::DropTail => DisciplineSpec::DropTail(self.limit()),
            QueueKind::Fq => {
                let base = FairSpec::per_flow(self.limit());
                let quantum = match self.quantum {
                    None => base.quantum,
                    Some(b) => u32::try_from(b.0)
                        .map_err(|_| Problem::range(b, "a quantum of a few packets"))?,
                };
                DisciplineSpec::Fair(FairSpec { total: self.total, quantum, ..base })
            }
            QueueKind::Red => {
                let base = RedSpec::packets(packets, packet_time);
                // The usual thresholds count packets.
                let unit = if self.bytes.is_some() { f64::from(base.mean_packet) } else { 1.0 };
                DisciplineSpec::Red(RedSpec {
                    limit: self.limit(),
                    min: self.min.unwrap_or(base.min * unit),
                    max: self.max.unwrap_or(base.max * unit),
                    max_p: self.max_p.unwrap_or(base.max_p),
                    weight: self.weight.unwrap_or(base.weight),
                    gentle: self.gentle.unwrap_or(base.gentle),
                    ecn: self.ecn.unwrap_or(base.ecn),
                    ..base
                })
            }
            QueueKind::Mark => {
                let base = ThresholdSpec::packets(packets, packet_time);
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
                DisciplineSpec::Threshold(ThresholdSpec {
                    limit: self.limit(),
                    threshold,
                    weight: self.weight.unwrap_or(base.weight),
                    ..base
                })
            }
            QueueKind::Fred => {
                let base = FredSpec::packets(packets, packet_time);
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
        })
    }
}

impl QueueDraft {
    /// The discipline, checked; `packet_time` is the time to send a typical packet.
    pub(crate) fn build(&self, packet_time: Span) -> Result<DisciplineSpec, Problem> {
        let spec = match self {
            QueueDraft::Packets(n) => DisciplineSpec::drop_tail(*n),
            QueueDraft::Table(t) => t.build(packet_time)?,
        };
        spec.build()
            .map_err(|e| Problem::refused(e.to_string(), "settings a queue can work with"))?;
        Ok(spec)
    }
}

impl<'de> Deserialize<'de> for QueueDraft {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = QueueDraft;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a number of packets, or a table such as { kind = \"red\", packets = 50 }",
                )
            }
            fn visit_u64<E: de::Error>(self, n: u64) -> Result<QueueDraft, E> {
                u32::try_from(n)
                    .map(QueueDraft::Packets)
                    .map_err(|_| E::invalid_value(de::Unexpected::Unsigned(n), &self))
            }
            fn visit_i64<E: de::Error>(self, n: i64) -> Result<QueueDraft, E> {
                u32::try_from(n)
                    .map(QueueDraft::Packets)
                    .map_err(|_| E::invalid_value(de::Unexpected::Signed(n), &self))
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<QueueDraft, A::Error> {
                QueueTable::deserialize(de::value::MapAccessDeserializer::new(map))
                    .map(QueueDraft::Table)
            }
        }
        d.deserialize_any(Visitor)
    }
}

impl JsonSchema for QueueDraft {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Queue".into()
    }
    fn json_schema(g: &mut SchemaGenerator) -> Schema {
        let table = g.subschema_for::<QueueTable>();
        json_schema!({ "anyOf": [{ "type": "integer", "minimum": 1 }, table] })
    }
}
