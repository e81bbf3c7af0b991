//! `queue`: a number of packets, or a table with `kind`.

mod managed;
mod plain;
mod today;

use core::fmt;

use fairmesh_document::BY_KIND;
use fairmesh_queueing::{DisciplineSpec, Limit};
use fairmesh_units::{Bytes, Span};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

use super::by_kind::by_kind;
use crate::error::Problem;
use crate::scenario::InterfaceQueue;

pub use managed::{FredDraft, MarkDraft, RedDraft};
pub use plain::{DropTailDraft, FqDraft, WfqDraft};
pub use today::{CakeDraft, CodelDraft, DualPi2Draft, FqCodelDraft, IsolationDraft, Mac80211Draft};

/// Length of ns-2's interface queue, which the papers use, packets.
pub(crate) const USUAL_PACKETS: u32 = 50;

/// Maximum length of a device queue, packets.
const MOST_DEVICE: u32 = 100_000;

/// Queue of a wireless interface: a drop-tail length in packets, or a table with `kind`.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(untagged)]
pub enum QueueDraft {
    /// Drop-tail of this many packets, including the one in service.
    Packets(u32),
    /// With details.
    Table(Box<QueueTable>),
}

by_kind! {
    /// A queue of one kind, with its settings.
    QueueTable {
        /// First in, first out.
        "drop-tail" => DropTail(DropTailDraft),
        /// A buffer per flow, served in turn.
        "fq" => Fq(FqDraft),
        /// A buffer per flow, served by the flows' weights.
        "wfq" => Wfq(WfqDraft),
        /// Random early detection.
        "red" => Red(RedDraft),
        /// Flow random early drop.
        "fred" => Fred(FredDraft),
        /// Drop-tail with marks above a threshold of the average queue.
        "mark" => Mark(MarkDraft),
        /// CoDel over one queue.
        "codel" => Codel(CodelDraft),
        /// A queue per flow, CoDel in each.
        "fq_codel" => FqCodel(FqCodelDraft),
        /// CAKE: a shaper, round robin of hosts and their flows, COBALT.
        "cake" => Cake(CakeDraft),
        /// DualPI2: a shallow queue for L4S packets and a deep one for others, coupled.
        "dualpi2" => DualPi2(DualPi2Draft),
        /// The queues of mac80211.
        ///
        /// They have flows per neighbour with CoDel, and neighbours in turns of equal airtime.
        "mac80211" => Mac80211(Mac80211Draft),
    }
}

impl QueueTable {
    /// Returns the length of the device queue, packets.
    fn device(&self) -> u32 {
        let device = match self {
            QueueTable::DropTail(t) => t.device,
            QueueTable::Fq(t) => t.device,
            QueueTable::Wfq(t) => t.device,
            QueueTable::Red(t) => t.device,
            QueueTable::Fred(t) => t.device,
            QueueTable::Mark(t) => t.device,
            QueueTable::Codel(t) => t.device,
            QueueTable::FqCodel(t) => t.device,
            QueueTable::Cake(t) => t.device,
            QueueTable::DualPi2(t) => t.device,
            QueueTable::Mac80211(t) => t.device,
        };
        device.unwrap_or(0)
    }

    fn build(&self, packet_time: Span) -> Result<DisciplineSpec, Problem> {
        let device = self.device();
        if device > MOST_DEVICE {
            return Err(Problem::range(device, "at most 100000 packets"));
        }
        match self {
            QueueTable::DropTail(t) => t.build(),
            QueueTable::Fq(t) => t.build(),
            QueueTable::Wfq(t) => t.build(),
            QueueTable::Red(t) => t.build(packet_time),
            QueueTable::Fred(t) => Ok(t.build(packet_time)),
            QueueTable::Mark(t) => t.build(packet_time),
            QueueTable::Codel(t) => t.build(),
            QueueTable::FqCodel(t) => t.build(),
            QueueTable::Cake(t) => Ok(t.build()),
            QueueTable::DualPi2(t) => t.build(),
            QueueTable::Mac80211(t) => t.build(),
        }
    }
}

/// Returns the limit of a buffer given in packets or in bytes.
fn limit(packets: Option<u32>, bytes: Option<Bytes>, usual: u32) -> Result<Limit, Problem> {
    match (packets, bytes) {
        (Some(_), Some(_)) => {
            Err(Problem::refused("`packets` and `bytes` together", "one of them"))
        }
        (_, Some(b)) => Ok(Limit::Bytes(b.0)),
        (packets, None) => Ok(Limit::Packets(packets.unwrap_or(usual))),
    }
}

/// Returns the bytes that a flow may send per round.
fn quantum(given: Option<Bytes>, usual: u32) -> Result<u32, Problem> {
    given.map_or(Ok(usual), |b| {
        u32::try_from(b.0).map_err(|_| Problem::range(b, "a quantum of a few packets"))
    })
}

impl<T: Into<QueueTable>> From<T> for QueueDraft {
    fn from(table: T) -> Self {
        QueueDraft::Table(Box::new(table.into()))
    }
}

impl QueueDraft {
    /// Returns the discipline, checked; `packet_time` is the time to send a typical packet.
    pub(crate) fn build(&self, packet_time: Span) -> Result<InterfaceQueue, Problem> {
        let (discipline, device) = match self {
            QueueDraft::Packets(n) => (DisciplineSpec::drop_tail(*n), 0),
            QueueDraft::Table(t) => (t.build(packet_time)?, t.device()),
        };
        discipline
            .build()
            .map_err(|e| Problem::refused(e.to_string(), "settings a queue can work with"))?;
        Ok(InterfaceQueue { discipline, device })
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
            fn visit_enum<A: de::EnumAccess<'de>>(self, data: A) -> Result<QueueDraft, A::Error> {
                QueueTable::read(data).map(|t| QueueDraft::Table(Box::new(t)))
            }
        }
        d.deserialize_enum(BY_KIND, QueueTable::KINDS, Visitor)
    }
}

impl JsonSchema for QueueDraft {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Queue".into()
    }
    fn json_schema(g: &mut SchemaGenerator) -> Schema {
        let packets = g.subschema_for::<u32>().to_value();
        let branches: Vec<_> = [packets].into_iter().chain(QueueTable::schemas(g)).collect();
        json_schema!({ "anyOf": branches })
    }
}
