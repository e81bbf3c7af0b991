//! `transport`: a word, or a table.

use core::fmt;

use fairmesh_units::{Bytes, Span};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::quic::QuicDraft;
use super::tcp::{CongestionDraft, DelayedAck, EcnDraft, TcpDraft, TcpPreset};
use crate::text;

/// A flow's transport: `"udp"`, `"tcp"`, `"quic"`, or a table for a TCP or a QUIC of other settings.
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

impl TransportDraft {
    fn word(word: &str) -> Option<Self> {
        Some(match word {
            "udp" => TransportDraft::Udp,
            "tcp" => TransportDraft::default(),
            "quic" => TransportDraft::Quic(QuicDraft::default()),
            _ => return None,
        })
    }
}

impl<'de> Deserialize<'de> for TransportDraft {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = TransportDraft;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(WORDS)
            }
            fn visit_str<E: de::Error>(self, word: &str) -> Result<TransportDraft, E> {
                TransportDraft::word(word)
                    .ok_or_else(|| E::invalid_value(de::Unexpected::Str(word), &self))
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<TransportDraft, A::Error> {
                let table =
                    TransportTable::deserialize(de::value::MapAccessDeserializer::new(map))?;
                table.split().map_err(de::Error::custom)
            }
        }
        d.deserialize_any(Visitor)
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
        let (tcp, quic) = (g.subschema_for::<TcpDraft>(), g.subschema_for::<QuicDraft>());
        json_schema!({ "anyOf": [{ "enum": ["tcp", "quic", "udp"] }, tcp, quic] })
    }
}

/// Every key of a table of `transport`. Tables are read key by key, and only the last may tell whose they are.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct TransportTable {
    tcp: Option<CongestionDraft>,
    quic: Option<CongestionDraft>,
    preset: Option<TcpPreset>,
    #[serde(with = "text::option")]
    mss: Option<Bytes>,
    #[serde(with = "text::option")]
    datagram: Option<Bytes>,
    sack: Option<bool>,
    ecn: Option<EcnDraft>,
    ecn_backoff: Option<bool>,
    delayed_ack: Option<DelayedAck>,
    #[serde(with = "text::option")]
    max_ack_delay: Option<Span>,
    initial_window: Option<u32>,
    max_window: Option<u32>,
    #[serde(with = "text::option")]
    initial_rto: Option<Span>,
    #[serde(with = "text::option")]
    min_rto: Option<Span>,
    #[serde(with = "text::option")]
    max_rto: Option<Span>,
    #[serde(with = "text::option")]
    syn_timeout: Option<Span>,
    #[serde(with = "text::option")]
    clock_granularity: Option<Span>,
    limited_transmit: Option<bool>,
    validate_window: Option<bool>,
    idle_restart: Option<bool>,
    pacing: Option<bool>,
    burst: Option<u32>,
    hystart: Option<bool>,
    rack: Option<bool>,
}

impl TransportTable {
    /// One transport or the other; else what is wrong and what was expected.
    fn split(self) -> Result<TransportDraft, String> {
        match self.quic {
            Some(_) if self.tcp.is_some() => {
                Err("both `tcp` and `quic`; expected one of them".to_owned())
            }
            Some(quic) => self.into_quic(quic).map(TransportDraft::Quic),
            None => self.into_tcp().map(TransportDraft::Tcp),
        }
    }

    fn into_quic(self, quic: CongestionDraft) -> Result<QuicDraft, String> {
        let of_tcp = [
            ("preset", self.preset.is_some()),
            ("mss", self.mss.is_some()),
            ("sack", self.sack.is_some()),
            ("ecn_backoff", self.ecn_backoff.is_some()),
            ("delayed_ack", self.delayed_ack.is_some()),
            ("max_window", self.max_window.is_some()),
            ("initial_rto", self.initial_rto.is_some()),
            ("min_rto", self.min_rto.is_some()),
            ("max_rto", self.max_rto.is_some()),
            ("syn_timeout", self.syn_timeout.is_some()),
            ("clock_granularity", self.clock_granularity.is_some()),
            ("limited_transmit", self.limited_transmit.is_some()),
            ("validate_window", self.validate_window.is_some()),
            ("idle_restart", self.idle_restart.is_some()),
            ("pacing", self.pacing.is_some()),
            ("rack", self.rack.is_some()),
        ];
        if let Some((key, _)) = of_tcp.into_iter().find(|(_, there)| *there) {
            return Err(format!(
                "`{key}` is no setting of QUIC; expected datagram, ecn, initial_window, max_ack_delay, burst or hystart"
            ));
        }
        Ok(QuicDraft {
            quic,
            datagram: self.datagram,
            ecn: self.ecn,
            initial_window: self.initial_window,
            max_ack_delay: self.max_ack_delay,
            burst: self.burst,
            hystart: self.hystart,
        })
    }

    fn into_tcp(self) -> Result<TcpDraft, String> {
        let of_quic = [
            ("datagram", self.datagram.is_some()),
            ("max_ack_delay", self.max_ack_delay.is_some()),
        ];
        if let Some((key, _)) = of_quic.into_iter().find(|(_, there)| *there) {
            return Err(format!("`{key}` is no setting of TCP; expected `quic` beside it"));
        }
        Ok(TcpDraft {
            tcp: self.tcp.unwrap_or_default(),
            preset: self.preset.unwrap_or_default(),
            mss: self.mss,
            sack: self.sack,
            ecn: self.ecn,
            ecn_backoff: self.ecn_backoff,
            delayed_ack: self.delayed_ack,
            initial_window: self.initial_window,
            max_window: self.max_window,
            initial_rto: self.initial_rto,
            min_rto: self.min_rto,
            max_rto: self.max_rto,
            syn_timeout: self.syn_timeout,
            clock_granularity: self.clock_granularity,
            limited_transmit: self.limited_transmit,
            validate_window: self.validate_window,
            idle_restart: self.idle_restart,
            pacing: self.pacing,
            burst: self.burst,
            hystart: self.hystart,
            rack: self.rack,
        })
    }
}
