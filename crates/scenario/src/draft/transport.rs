//! `transport`: a name, or a table.

use core::fmt;

use fairmesh_document::WORD_OR_KEY;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, VariantAccess};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::quic::QuicDraft;
use super::tcp::TcpDraft;

/// A flow's transport:
/// `"udp"`, `"tcp"`, `"quic"`, or a table for a TCP or QUIC with other settings.
#[derive(Clone, PartialEq, Debug)]
pub enum TransportDraft {
    /// Datagrams.
    Udp,
    /// A stream.
    Tcp(TcpDraft),
    /// A stream over datagrams.
    Quic(QuicDraft),
}

impl Default for TransportDraft {
    fn default() -> Self {
        TransportDraft::Tcp(TcpDraft::default())
    }
}

impl From<TcpDraft> for TransportDraft {
    fn from(tcp: TcpDraft) -> Self {
        TransportDraft::Tcp(tcp)
    }
}

const WORDS: &str =
    "\"tcp\", \"quic\", \"udp\", or a table such as { tcp = \"newreno\", mss = \"512 B\" }";

/// Names of transports; the first is the default of a table.
const NAMES: [&str; 3] = ["tcp", "quic", "udp"];

/// UDP has no settings.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UdpDraft {}

impl<'de> Deserialize<'de> for TransportDraft {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = TransportDraft;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(WORDS)
            }
            fn visit_enum<A: de::EnumAccess<'de>>(
                self,
                data: A,
            ) -> Result<TransportDraft, A::Error> {
                let (name, keys) = data.variant::<String>()?;
                match name.as_str() {
                    "tcp" => keys.newtype_variant().map(TransportDraft::Tcp),
                    "quic" => keys.newtype_variant().map(TransportDraft::Quic),
                    _ => keys.newtype_variant::<UdpDraft>().map(|UdpDraft {}| TransportDraft::Udp),
                }
            }
        }
        d.deserialize_enum(WORD_OR_KEY, &NAMES, Visitor)
    }
}

impl Serialize for TransportDraft {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            TransportDraft::Udp => s.serialize_str("udp"),
            TransportDraft::Tcp(tcp) => tcp.serialize(s),
            TransportDraft::Quic(quic) => quic.serialize(s),
        }
    }
}

impl JsonSchema for TransportDraft {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Transport".into()
    }
    fn json_schema(g: &mut SchemaGenerator) -> Schema {
        let tcp = g.subschema_for::<TcpDraft>();
        // A table without `quic` is a TCP.
        let mut quic = QuicDraft::json_schema(g).to_value();
        quic["required"] = serde_json::json!(["quic"]);
        json_schema!({ "anyOf": [{ "enum": NAMES }, tcp, quic] })
    }
}
