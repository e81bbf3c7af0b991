//! `queue`: a number of packets, or a table.

use core::fmt;

use fairmesh_queueing::{
    AqlSpec, CakeSpec, CodelSpec, DisciplineSpec, DualPi2Spec, FairSpec, FqCodelSpec, FredSpec,
    HostFairness, Limit, RedSpec, StationsSpec, ThresholdSpec,
};
use fairmesh_units::{BitRate, Bytes, Span};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

use crate::error::Problem;
use crate::scenario::InterfaceQueue;
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
    Table(Box<QueueTable>),
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
    /// CoDel over one queue.
    Codel,
    /// A queue per flow, CoDel in each.
    #[serde(rename = "fq_codel")]
    FqCodel,
    /// CAKE: a shaper, flows in turns within hosts in turns, COBALT.
    Cake,
    /// DualPI2: a shallow queue for L4S packets and a deep one for others, coupled.
    #[serde(rename = "dualpi2")]
    DualPi2,
    /// The queues of mac80211: flows per neighbour, CoDel in each, neighbours in turns of airtime.
    #[serde(rename = "mac80211")]
    Mac80211,
}

impl QueueKind {
    /// Under CoDel.
    const TODAY: &'static [QueueKind] =
        &[QueueKind::Codel, QueueKind::FqCodel, QueueKind::Cake, QueueKind::Mac80211];
}

/// Settings of a queue; those of another kind are refused.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueTable {
    /// Which discipline.
    pub kind: QueueKind,
    /// Buffer in packets (`fq`: of each flow); 50 by default, `codel` 1000, `dualpi2` 10000, `fq_codel` 10240, `mac80211` 8192.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<u32>,
    /// Buffer in bytes instead; not `fred`, `fq_codel`, `mac80211`.
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
    /// `red`, `codel`, `fq_codel`, `dualpi2`, `mac80211`: mark packets of ECN-capable transports instead of dropping them;
    /// false by default with the first two, true with the others.
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
    /// `fq`, `fq_codel`, `mac80211`: bytes that a flow may send per round; 1500 B, 1514 B, 300 B by default.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Bytes>")]
    pub quantum: Option<Bytes>,
    /// `codel`, `fq_codel`, `cake`, `mac80211`: waiting time that is no cause to drop; 5 ms by default, `mac80211`
    /// 20 ms, and 50 ms for slow neighbours. `dualpi2`: that of packets without ECT(1), 15 ms.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub target: Option<Span>,
    /// The same without `dualpi2`: for how long packets must have waited longer than that; 100 ms by default, 300 ms
    /// for slow neighbours of `mac80211`.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub interval: Option<Span>,
    /// `codel`, `fq_codel`, `mac80211`: mark every ECN-capable packet that has waited longer than this; never by default.
    /// `dualpi2`: mark packets with ECT(1) from here on, all of them from half as long again; 800 us by default.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub ce_threshold: Option<Span>,
    /// `codel`, `fq_codel`, `mac80211`: `ce_threshold` marks packets with ECT(1) only; false by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ce_ect1: Option<bool>,
    /// `fq_codel`, `cake`, `mac80211`: bytes of all flows together; 32 MiB, with `cake` by its rate, 16 MiB by default.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Bytes>")]
    pub memory: Option<Bytes>,
    /// `fq_codel`, `cake`, `mac80211`: buckets that flows are hashed into; 1024, 1024, 4096 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<u32>,
    /// `fq_codel`: packets that the fattest flow loses at once, at most, when a limit is reached; 64 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drop_batch: Option<u32>,
    /// `mac80211`: airtime that a neighbour of weight 1 gets per turn; 256 us by default, 0: a turn is a frame.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub airtime: Option<Span>,
    /// `mac80211`: limit the airtime that waits in the card (`device`); true by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aql: Option<bool>,
    /// `mac80211`: what the card may hold of one neighbour while it holds much of all; 5 ms by default.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub aql_low: Option<Span>,
    /// `mac80211`: what it may hold of one neighbour otherwise; 12 ms by default.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub aql_high: Option<Span>,
    /// `mac80211`: what is much of all; 24 ms by default.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub aql_total: Option<Span>,
    /// Packets that the card's own queue takes, below this one, serving its receivers in turn; 0 by default: it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<u32>,
    /// `cake`: what it shapes to; by default nothing.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<BitRate>")]
    pub rate: Option<BitRate>,
    /// `cake`: whose hosts share fairly before their flows do; `triple` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<IsolationDraft>,
}

/// Who shares fairly before flows do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IsolationDraft {
    /// Nobody.
    Flows,
    /// Hosts that send.
    Sources,
    /// Hosts that receive.
    Destinations,
    /// Both.
    Triple,
}

/// Places of a card's own queue that anybody has seen.
const MOST_DEVICE: u32 = 100_000;

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
            target: None,
            interval: None,
            ce_threshold: None,
            ce_ect1: None,
            memory: None,
            flows: None,
            drop_batch: None,
            airtime: None,
            aql: None,
            aql_low: None,
            aql_high: None,
            aql_total: None,
            device: None,
            rate: None,
            isolation: None,
        }
    }

    /// Refuses settings of other kinds.
    fn check(&self) -> Result<(), Problem> {
        use QueueKind::{Cake, Codel, DropTail, DualPi2, Fq, FqCodel, Fred, Mac80211, Mark, Red};
        let hashed: &[QueueKind] = &[FqCodel, Cake, Mac80211];
        let given: [(&str, bool, &[QueueKind]); 28] = [
            ("packets", self.packets.is_some() && self.kind == Cake, &[]),
            ("rate", self.rate.is_some(), &[Cake]),
            ("isolation", self.isolation.is_some(), &[Cake]),
            ("target", self.target.is_some() && self.kind != DualPi2, QueueKind::TODAY),
            ("interval", self.interval.is_some(), QueueKind::TODAY),
            ("ce_threshold", self.ce_threshold.is_some(), &[Codel, FqCodel, DualPi2, Mac80211]),
            ("ce_ect1", self.ce_ect1.is_some(), &[Codel, FqCodel, Mac80211]),
            ("memory", self.memory.is_some(), hashed),
            ("flows", self.flows.is_some(), hashed),
            ("drop_batch", self.drop_batch.is_some(), &[FqCodel]),
            ("airtime", self.airtime.is_some(), &[Mac80211]),
            ("aql", self.aql.is_some(), &[Mac80211]),
            ("aql_low", self.aql_low.is_some(), &[Mac80211]),
            ("aql_high", self.aql_high.is_some(), &[Mac80211]),
            ("aql_total", self.aql_total.is_some(), &[Mac80211]),
            ("quantum", self.quantum.is_some(), &[Fq, FqCodel, Mac80211]),
            ("bytes", self.bytes.is_some(), &[DropTail, Fq, Red, Mark, Codel, DualPi2]),
            ("min", self.min.is_some(), &[Red, Fred]),
            ("max", self.max.is_some(), &[Red, Fred]),
            ("max_p", self.max_p.is_some(), &[Red, Fred]),
            ("threshold", self.threshold.is_some(), &[Mark]),
            ("weight", self.weight.is_some(), &[Red, Fred, Mark]),
            ("gentle", self.gentle.is_some(), &[Red]),
            ("ecn", self.ecn.is_some(), &[Red, Codel, FqCodel, DualPi2, Mac80211]),
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
        if let Some(device) = self.device.filter(|&d| d > MOST_DEVICE) {
            return Err(Problem::range(device, "at most 100000 packets"));
        }
        let limits = [self.aql_low, self.aql_high, self.aql_total];
        if self.aql == Some(false) && limits.iter().any(Option::is_some) {
            return Err(Problem::refused("limits of `aql = false`", "`aql = true`, or no limits"));
        }
        if self.device.unwrap_or(0) == 0
            && (self.aql.is_some() || limits.iter().any(Option::is_some))
        {
            return Err(Problem::refused("`aql` without `device`", "a card with a queue to limit"));
        }
        if self.ce_ect1.is_some() && self.ce_threshold.is_none() {
            return Err(Problem::refused("`ce_ect1` without `ce_threshold`", "a step to mark at"));
        }
        if self.packets.is_some() && self.bytes.is_some() {
            return Err(Problem::refused("`packets` and `bytes` together", "one of them"));
        }
        Ok(())
    }

    fn limit(&self, usual: u32) -> Limit {
        match self.bytes {
            Some(b) => Limit::Bytes(b.0),
            None => Limit::Packets(self.packets.unwrap_or(usual)),
        }
    }

    /// CoDel as told, and else as `usual`.
    fn codel(&self, usual: CodelSpec) -> CodelSpec {
        CodelSpec {
            target: self.target.unwrap_or(usual.target),
            interval: self.interval.unwrap_or(usual.interval),
            ecn: self.ecn.unwrap_or(usual.ecn),
            ce_threshold: self.ce_threshold.or(usual.ce_threshold),
            ce_ect1: self.ce_ect1.unwrap_or(usual.ce_ect1),
            ..usual
        }
    }

    fn quantum(&self, usual: u32) -> Result<u32, Problem> {
        self.quantum.map_or(Ok(usual), |b| {
            u32::try_from(b.0).map_err(|_| Problem::range(b, "a quantum of a few packets"))
        })
    }

    fn mac80211(&self) -> Result<StationsSpec, Problem> {
        let base = StationsSpec::default();
        let told = self.target.is_some() || self.interval.is_some();
        let aql = AqlSpec::default();
        let aql = AqlSpec {
            low: self.aql_low.unwrap_or(aql.low),
            high: self.aql_high.unwrap_or(aql.high),
            total: self.aql_total.unwrap_or(aql.total),
        };
        let on = self.device.unwrap_or(0) > 0 && self.aql.unwrap_or(true);
        Ok(StationsSpec {
            packets: self.packets.unwrap_or(base.packets),
            memory: self.memory.map_or(base.memory, |b| b.0),
            flows: self.flows.unwrap_or(base.flows),
            quantum: self.quantum(base.quantum)?,
            codel: self.codel(base.codel),
            slow: base.slow.filter(|_| !told),
            airtime: self.airtime.or(base.airtime).filter(|a| *a > Span::ZERO),
            aql: on.then_some(aql),
        })
    }

    fn build(&self, packet_time: Span) -> Result<DisciplineSpec, Problem> {
        self.check()?;
        let packets = self.packets.unwrap_or(USUAL_PACKETS);
        Ok(match self.kind {
            QueueKind::DropTail => DisciplineSpec::DropTail(self.limit(USUAL_PACKETS)),
            QueueKind::Codel => {
                DisciplineSpec::Codel(self.limit(1000), self.codel(CodelSpec::default()))
            }
            QueueKind::FqCodel => {
                let base = FqCodelSpec::default();
                DisciplineSpec::FqCodel(FqCodelSpec {
                    packets: self.packets.unwrap_or(base.packets),
                    memory: self.memory.map_or(base.memory, |b| b.0),
                    flows: self.flows.unwrap_or(base.flows),
                    quantum: self.quantum(base.quantum)?,
                    drop_batch: self.drop_batch.unwrap_or(base.drop_batch),
                    codel: self.codel(base.codel),
                })
            }
            QueueKind::Cake => {
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
            QueueKind::DualPi2 => {
                let base = DualPi2Spec::default();
                let min_threshold = self.ce_threshold.unwrap_or(base.min_threshold);
                DisciplineSpec::DualPi2(DualPi2Spec {
                    limit: self.limit(10_000),
                    target: self.target.unwrap_or(base.target),
                    min_threshold,
                    range: Span::from_nanos(min_threshold.as_nanos() / 2),
                    ecn: self.ecn.unwrap_or(base.ecn),
                    ..base
                })
            }
            QueueKind::Mac80211 => DisciplineSpec::Stations(self.mac80211()?),
            QueueKind::Fq => {
                let base = FairSpec::per_flow(self.limit(USUAL_PACKETS));
                let quantum = self.quantum(base.quantum)?;
                DisciplineSpec::Fair(FairSpec { total: self.total, quantum, ..base })
            }
            QueueKind::Red => {
                let base = RedSpec::packets(packets, packet_time);
                // The usual thresholds count packets.
                let unit = if self.bytes.is_some() { f64::from(base.mean_packet) } else { 1.0 };
                DisciplineSpec::Red(RedSpec {
                    limit: self.limit(USUAL_PACKETS),
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
                    limit: self.limit(USUAL_PACKETS),
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
    pub(crate) fn build(&self, packet_time: Span) -> Result<InterfaceQueue, Problem> {
        let discipline = match self {
            QueueDraft::Packets(n) => DisciplineSpec::drop_tail(*n),
            QueueDraft::Table(t) => t.build(packet_time)?,
        };
        discipline
            .build()
            .map_err(|e| Problem::refused(e.to_string(), "settings a queue can work with"))?;
        let device = match self {
            QueueDraft::Packets(_) => 0,
            QueueDraft::Table(t) => t.device.unwrap_or(0),
        };
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
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<QueueDraft, A::Error> {
                QueueTable::deserialize(de::value::MapAccessDeserializer::new(map))
                    .map(|t| QueueDraft::Table(Box::new(t)))
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
