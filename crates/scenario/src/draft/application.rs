//! Applications: a name, or a table with `kind`.

use core::fmt;

use fairmesh_document::WORD_OR_KIND;
use fairmesh_transport::traffic::{Pause, RequestTiming, SizeLaw, TrafficSpec};
use fairmesh_units::{BitRate, Bytes, Span};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

use super::by_kind::by_kind;
use crate::error::Problem;
use crate::text;

by_kind! {
    /// An application with its settings.
    TrafficDraft {
        /// Endless data.
        "bulk" => Bulk(BulkDraft),
        /// Consecutive files of random size.
        "file" => File(FileDraft),
        /// Datagrams at a constant rate.
        "cbr" => Cbr(CbrDraft),
        /// Requests and responses.
        "http" => Http(HttpDraft),
        /// A stream limited by the application.
        "limited" => Limited(LimitedDraft),
    }
}

/// An application with endless data.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BulkDraft {}

/// Consecutive files of random size.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileDraft {
    /// Mean size; 500 kB by default.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Bytes>")]
    pub size: Option<Bytes>,
    /// Shape of the Pareto distribution of sizes, above 1; 1.5 by default. 0: all of equal size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<f64>,
    /// Standard deviation of normally distributed sizes; not with `shape`.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Bytes>")]
    pub deviation: Option<Bytes>,
    /// Number of files; unlimited by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// Mean time from the end of one transfer to the start of the next; 0 s by default.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub pause: Option<Span>,
    /// True if pauses are exponentially distributed; false by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub random_pause: Option<bool>,
}

/// Datagrams at a constant rate.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CbrDraft {
    /// Rate of application data.
    #[serde(with = "text")]
    #[schemars(schema_with = "text::schema::<BitRate>")]
    pub rate: BitRate,
    /// Payload of a datagram; 1472 B by default.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Bytes>")]
    pub packet: Option<Bytes>,
    /// Jitter: each gap is multiplied by a random factor from 1 − jitter to 1 + jitter.
    ///
    /// 0.5 by default, since periodic sources lock into phase at a full queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<f64>,
}

/// Requests and responses.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpDraft {
    /// Mean size of a response; 50 kB by default.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Bytes>")]
    pub size: Option<Bytes>,
    /// Shape of the Pareto distribution of sizes, above 1; 0 by default: all of equal size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<f64>,
    /// Standard deviation of normally distributed sizes; not with `shape`.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Bytes>")]
    pub deviation: Option<Bytes>,
    /// Mean time from the end of one response to the next request; 1 s by default.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub pause: Option<Span>,
    /// Mean time from one request to the next, independent of the responses.
    ///
    /// This is an open loop over one connection, instead of `pause` and `per_connection`.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub every: Option<Span>,
    /// True if pauses, or times between requests, are exponentially distributed; true by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub random_pause: Option<bool>,
    /// Size of a request; 500 B by default.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Bytes>")]
    pub request: Option<Bytes>,
    /// Largest size of a request; sizes are then uniform from `request` on.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Bytes>")]
    pub request_max: Option<Bytes>,
    /// Requests per connection; 10 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_connection: Option<u32>,
}

/// A stream limited by the application.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitedDraft {
    /// Rate of application data.
    #[serde(with = "text")]
    #[schemars(schema_with = "text::schema::<BitRate>")]
    pub rate: BitRate,
    /// Size of a write; 1460 B by default.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Bytes>")]
    pub packet: Option<Bytes>,
}

impl TrafficDraft {
    /// Names of applications without required settings.
    const WORDS: [&str; 3] = ["bulk", "file", "http"];

    /// Returns an application with endless data.
    pub fn bulk() -> Self {
        TrafficDraft::Bulk(BulkDraft {})
    }

    /// Returns datagrams of `packet` bytes of payload at `rate`, with jitter.
    ///
    /// Each gap is multiplied by a random factor from 1 − `jitter` to 1 + `jitter`.
    pub fn cbr(rate: BitRate, packet: Bytes, jitter: f64) -> Self {
        CbrDraft { rate, packet: Some(packet), jitter: Some(jitter) }.into()
    }

    /// Returns the application, checked.
    pub(crate) fn build(&self) -> Result<TrafficSpec, Problem> {
        let spec = match self {
            TrafficDraft::Bulk(BulkDraft {}) => TrafficSpec::Bulk,
            TrafficDraft::File(t) => t.build()?,
            TrafficDraft::Cbr(t) => TrafficSpec::Cbr {
                rate: t.rate,
                datagram: packet(t.packet, 1472)?,
                jitter: t.jitter.unwrap_or(0.5),
            },
            TrafficDraft::Http(t) => t.build()?,
            TrafficDraft::Limited(t) => {
                TrafficSpec::Limited { rate: t.rate, chunk: packet(t.packet, 1460)? }
            }
        };
        spec.validate().map_err(|e| {
            Problem::refused(e.to_string(), "settings an application can work with")
        })?;
        Ok(spec)
    }
}

fn packet(given: Option<Bytes>, usual: u32) -> Result<u32, Problem> {
    given.map_or(Ok(usual), |bytes| {
        u32::try_from(bytes.0).map_err(|_| Problem::range(bytes, "a packet of at most 65507 B"))
    })
}

/// Returns the distribution of sizes around a mean.
fn sizes(
    mean: Bytes,
    shape: Option<f64>,
    deviation: Option<Bytes>,
    usual_shape: f64,
) -> Result<SizeLaw, Problem> {
    match (shape, deviation) {
        (Some(_), Some(_)) => Err(apart("deviation", "shape")),
        (None, Some(deviation)) => Ok(SizeLaw::Normal { mean, deviation }),
        (shape, None) => Ok(match shape.unwrap_or(usual_shape) {
            0.0 => SizeLaw::Fixed(mean),
            shape => SizeLaw::Pareto { mean, shape },
        }),
    }
}

fn pause(mean: Span, random: bool) -> Pause {
    if random { Pause::Exponential(mean) } else { Pause::Fixed(mean) }
}

fn apart(one: &str, other: &str) -> Problem {
    Problem::refused(format!("`{one}` and `{other}` exclude each other"), "one of them")
}

impl FileDraft {
    fn build(&self) -> Result<TrafficSpec, Problem> {
        let mean = self.size.unwrap_or(Bytes(500_000));
        Ok(TrafficSpec::Files {
            size: sizes(mean, self.shape, self.deviation, 1.5)?,
            pause: pause(self.pause.unwrap_or(Span::ZERO), self.random_pause.unwrap_or(false)),
            count: self.count,
        })
    }
}

impl HttpDraft {
    fn build(&self) -> Result<TrafficSpec, Problem> {
        let random = self.random_pause.unwrap_or(true);
        let asking = match self.every {
            Some(_) if self.pause.is_some() => return Err(apart("every", "pause")),
            Some(_) if self.per_connection.is_some() => {
                return Err(apart("every", "per_connection"));
            }
            Some(gap) => RequestTiming::Every(pause(gap, random)),
            None => {
                RequestTiming::AfterAnswer(pause(self.pause.unwrap_or(Span::from_secs(1)), random))
            }
        };
        let mean = self.size.unwrap_or(Bytes(50_000));
        Ok(TrafficSpec::Http {
            request: match (self.request.unwrap_or(Bytes(500)), self.request_max) {
                (request, None) => SizeLaw::Fixed(request),
                (least, Some(most)) => SizeLaw::Uniform { least, most },
            },
            response: sizes(mean, self.shape, self.deviation, 0.0)?,
            asking,
            per_connection: self.per_connection.unwrap_or(10),
        })
    }
}

impl<'de> Deserialize<'de> for TrafficDraft {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = TrafficDraft;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "\"bulk\", \"file\", \"http\", or a table such as \
                     { kind = \"cbr\", rate = \"100 kbit/s\" }",
                )
            }
            fn visit_enum<A: de::EnumAccess<'de>>(self, data: A) -> Result<TrafficDraft, A::Error> {
                TrafficDraft::read(data)
            }
        }
        d.deserialize_enum(WORD_OR_KIND, TrafficDraft::KINDS, Visitor)
    }
}

impl JsonSchema for TrafficDraft {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Traffic".into()
    }
    fn json_schema(g: &mut SchemaGenerator) -> Schema {
        let words = serde_json::json!({ "enum": TrafficDraft::WORDS });
        let branches: Vec<_> = [words].into_iter().chain(TrafficDraft::schemas(g)).collect();
        json_schema!({ "anyOf": branches })
    }
}
