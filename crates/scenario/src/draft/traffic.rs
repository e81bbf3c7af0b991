//! `[traffic]` and `[[flow]]`.

use fairmesh_transport::traffic::{Asking, Pause, SizeLaw, TrafficSpec};
use fairmesh_units::{BitRate, Bytes, Span};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::{AccessDraft, DscpDraft, TransportDraft};
use crate::error::Problem;
use crate::name::Name;
use crate::text;

/// `[traffic]`: what every flow is unless it says otherwise, and the shorthand for one flow per
/// node.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FlowsDraft {
    /// Makes one flow for every node of `nodes`, beside those of `[[flow]]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flows: Option<Direction>,
    /// The nodes that get a flow; by default every wireless node but the gateways.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Vec<Name>>,
    /// The other end of those flows; by default the gateway, of several each node's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<Name>,
    /// How many flows of each kind there are side by side; 1 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// What the application does; `bulk` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traffic: Option<TrafficDraft>,
    /// Transport; by default `udp` for `cbr`, else `tcp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<TransportDraft>,
    /// Access category of every flow's packets, both ways and over all hops; best effort by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access: Option<AccessDraft>,
    /// The same by the packets' DSCP, as Linux maps it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dscp: Option<DscpDraft>,
    /// Start of every flow; 0 s by default.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub start: Option<Span>,
    /// Each start is late by a random time up to this; 1 s by default.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub start_jitter: Option<Span>,
    /// End of every flow; that of the run by default.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub stop: Option<Span>,
}

/// Which way the flows of the shorthand go.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From every node to the host.
    Up,
    /// From the host to every node.
    Down,
    /// One each way.
    Both,
}

/// `[[flow]]`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowDraft {
    /// Name; `from->to` by default, with a number where that is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Source of the data; for `http`, the server.
    pub from: Name,
    /// Destination of the data; for `http`, the client that asks.
    pub to: Name,
    /// So many of them side by side; `traffic.connections` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<u32>,
    /// What the application does; `traffic.traffic` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic: Option<TrafficDraft>,
    /// Transport; `traffic.transport` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<TransportDraft>,
    /// Access category of its packets, both ways and over all hops; that of `[traffic]` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<AccessDraft>,
    /// The same by the packets' DSCP, as Linux maps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dscp: Option<DscpDraft>,
    /// Start; `traffic.start` by default.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub start: Option<Span>,
    /// The start is late by a random time up to this; `traffic.start_jitter` by default.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub start_jitter: Option<Span>,
    /// End; `traffic.stop` by default.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub stop: Option<Span>,
    /// Share relative to other flows, where the control knows weights; 1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// The subscriber's plan: never more than this in IP bytes, where the control knows plans.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<BitRate>")]
    pub plan: Option<BitRate>,
    /// Guaranteed minimum in IP bytes, where the control knows guarantees.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<BitRate>")]
    pub guarantee: Option<BitRate>,
    /// The nodes on the way, both ends included; the shortest route by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Vec<Name>>,
}

impl FlowDraft {
    /// A flow with every default.
    pub fn new(from: impl Into<Name>, to: impl Into<Name>) -> Self {
        FlowDraft {
            name: None,
            from: from.into(),
            to: to.into(),
            connections: None,
            traffic: None,
            transport: None,
            access: None,
            dscp: None,
            start: None,
            start_jitter: None,
            stop: None,
            weight: None,
            plan: None,
            guarantee: None,
            path: None,
        }
    }
}

/// The kinds of application.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TrafficKind {
    /// Always has data.
    Bulk,
    /// One file after another, of random size.
    File,
    /// Datagrams at a constant rate.
    Cbr,
    /// Requests and answers.
    Http,
    /// A stream that the application itself limits.
    Limited,
}

/// What an application does: a word, or a table with `kind`.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(untagged)]
pub enum TrafficDraft {
    /// With default settings.
    Word(TrafficKind),
    /// With settings.
    Table(TrafficTable),
}

impl TrafficDraft {
    /// Datagrams of `packet` bytes of payload at `rate`, each gap multiplied by a random factor
    /// from 1 − `jitter` to 1 + `jitter`.
    pub fn cbr(rate: BitRate, packet: Bytes, jitter: f64) -> Self {
        TrafficDraft::Table(TrafficTable {
            rate: Some(rate),
            packet: Some(packet),
            jitter: Some(jitter),
            ..TrafficTable::new(TrafficKind::Cbr)
        })
    }

    /// The settings.
    pub(crate) fn table(&self) -> TrafficTable {
        match self {
            TrafficDraft::Word(kind) => TrafficTable::new(*kind),
            TrafficDraft::Table(table) => table.clone(),
        }
    }

    fn word(word: &str) -> Option<Self> {
        Some(TrafficDraft::Word(match word {
            "bulk" => TrafficKind::Bulk,
            "file" => TrafficKind::File,
            "cbr" => TrafficKind::Cbr,
            "http" => TrafficKind::Http,
            "limited" => TrafficKind::Limited,
            _ => return None,
        }))
    }
}

impl From<TrafficTable> for TrafficDraft {
    fn from(table: TrafficTable) -> Self {
        TrafficDraft::Table(table)
    }
}

const WORDS: &str =
    "\"bulk\", \"file\", \"http\", or a table such as { kind = \"cbr\", rate = \"100 kbit/s\" }";

word_or_table!(TrafficDraft, TrafficTable, WORDS);

impl JsonSchema for TrafficDraft {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Traffic".into()
    }
    fn json_schema(g: &mut SchemaGenerator) -> Schema {
        let word = g.subschema_for::<TrafficKind>();
        let table = g.subschema_for::<TrafficTable>();
        json_schema!({ "anyOf": [word, table] })
    }
}

/// Settings of the applications; those of another kind are refused.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrafficTable {
    /// Which application.
    pub kind: TrafficKind,
    /// `cbr`, `limited`: rate of application data. Required.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<BitRate>")]
    pub rate: Option<BitRate>,
    /// `cbr`: payload of a datagram, 1472 B by default. `limited`: size of a write, 1460 B.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Bytes>")]
    pub packet: Option<Bytes>,
    /// `cbr`: each gap is multiplied by a random factor from 1 − jitter to 1 + jitter; 0.5 by
    /// default, since periodic sources lock into phase at a full queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<f64>,
    /// `file`: mean size, 500 kB by default. `http`: mean answer, 50 kB.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Bytes>")]
    pub size: Option<Bytes>,
    /// `file`, `http`: shape of the Pareto distribution of sizes, above 1; 1.5 by default for
    /// files. 0: all of the same size, the default for answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<f64>,
    /// `file`: how many; without end by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// `file`, `http`: standard deviation of sizes that are normally distributed; not with `shape`.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Bytes>")]
    pub deviation: Option<Bytes>,
    /// `file`, `http`: mean time from the end of one transfer to the next; 0 s for files, 1 s for
    /// requests.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub pause: Option<Span>,
    /// `http`: mean time from one request to the next, whatever has become of it (an open loop, over one
    /// connection), in place of `pause` and `per_connection`.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub every: Option<Span>,
    /// `file`, `http`: pauses, or times between requests, are exponentially distributed; true by default for `http`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub random_pause: Option<bool>,
    /// `http`: size of a request, 500 B by default.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Bytes>")]
    pub request: Option<Bytes>,
    /// `http`: the most that a request has; sizes are then uniform from `request` on.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Bytes>")]
    pub request_max: Option<Bytes>,
    /// `http`: requests before the connection is replaced; 10 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_connection: Option<u32>,
}

impl TrafficTable {
    /// An application with default settings.
    pub fn new(kind: TrafficKind) -> Self {
        TrafficTable {
            kind,
            rate: None,
            packet: None,
            jitter: None,
            size: None,
            shape: None,
            deviation: None,
            count: None,
            pause: None,
            every: None,
            random_pause: None,
            request: None,
            request_max: None,
            per_connection: None,
        }
    }

    /// Refuses settings of other kinds.
    fn check(&self) -> Result<(), Problem> {
        use TrafficKind::{Cbr, File, Http, Limited};
        let given: [(&str, bool, &[TrafficKind]); 13] = [
            ("rate", self.rate.is_some(), &[Cbr, Limited]),
            ("packet", self.packet.is_some(), &[Cbr, Limited]),
            ("jitter", self.jitter.is_some(), &[Cbr]),
            ("size", self.size.is_some(), &[File, Http]),
            ("shape", self.shape.is_some(), &[File, Http]),
            ("deviation", self.deviation.is_some(), &[File, Http]),
            ("count", self.count.is_some(), &[File]),
            ("pause", self.pause.is_some(), &[File, Http]),
            ("every", self.every.is_some(), &[Http]),
            ("random_pause", self.random_pause.is_some(), &[File, Http]),
            ("request", self.request.is_some(), &[Http]),
            ("request_max", self.request_max.is_some(), &[Http]),
            ("per_connection", self.per_connection.is_some(), &[Http]),
        ];
        if let Some((key, ..)) =
            given.iter().find(|(_, is, kinds)| *is && !kinds.contains(&self.kind))
        {
            return Err(Problem::refused(
                format!("`{key}` is no setting of this kind of traffic"),
                "the settings of one kind",
            ));
        }
        let apart = [
            ("every", self.every.is_some(), "pause", self.pause.is_some()),
            ("every", self.every.is_some(), "per_connection", self.per_connection.is_some()),
            ("deviation", self.deviation.is_some(), "shape", self.shape.is_some()),
        ];
        match apart.iter().find(|(_, one, _, other)| *one && *other) {
            None => Ok(()),
            Some((one, _, other, _)) => Err(Problem::refused(
                format!("`{one}` and `{other}` exclude each other"),
                "one of them",
            )),
        }
    }

    /// The application, checked.
    pub(crate) fn build(&self) -> Result<TrafficSpec, Problem> {
        self.check()?;
        let rate = || self.rate.ok_or_else(|| Problem::MissingKey("rate".to_owned()));
        let packet = |usual: u32| {
            let bytes = self.packet.unwrap_or(Bytes(u64::from(usual)));
            u32::try_from(bytes.0).map_err(|_| Problem::range(bytes, "a packet of at most 65507 B"))
        };
        let size = |usual_bytes, usual_shape| {
            let mean = self.size.unwrap_or(Bytes(usual_bytes));
            if let Some(deviation) = self.deviation {
                return SizeLaw::Normal { mean, deviation };
            }
            match self.shape.unwrap_or(usual_shape) {
                0.0 => SizeLaw::Fixed(mean),
                shape => SizeLaw::Pareto { mean, shape },
            }
        };
        let random = |mean, usually_random| {
            if self.random_pause.unwrap_or(usually_random) {
                Pause::Exponential(mean)
            } else {
                Pause::Fixed(mean)
            }
        };
        let spec = match self.kind {
            TrafficKind::Bulk => TrafficSpec::Bulk,
            TrafficKind::File => TrafficSpec::Files {
                size: size(500_000, 1.5),
                pause: random(self.pause.unwrap_or(Span::ZERO), false),
                count: self.count,
            },
            TrafficKind::Cbr => TrafficSpec::Cbr {
                rate: rate()?,
                datagram: packet(1472)?,
                jitter: self.jitter.unwrap_or(0.5),
            },
            TrafficKind::Http => TrafficSpec::Http {
                request: match (self.request.unwrap_or(Bytes(500)), self.request_max) {
                    (request, None) => SizeLaw::Fixed(request),
                    (least, Some(most)) => SizeLaw::Uniform { least, most },
                },
                response: size(50_000, 0.0),
                asking: match self.every {
                    Some(gap) => Asking::Every(random(gap, true)),
                    None => {
                        let pause = self.pause.unwrap_or(Span::from_secs(1));
                        Asking::AfterAnswer(random(pause, true))
                    }
                },
                per_connection: self.per_connection.unwrap_or(10),
            },
            TrafficKind::Limited => TrafficSpec::Limited { rate: rate()?, chunk: packet(1460)? },
        };
        spec.validate().map_err(|e| {
            Problem::refused(e.to_string(), "settings an application can work with")
        })?;
        Ok(spec)
    }
}
