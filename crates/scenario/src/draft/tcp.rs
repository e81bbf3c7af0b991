//! Settings of a TCP transport, and those shared with QUIC.

use core::fmt;

use fairmesh_transport::{Congestion, TcpConfig};
use fairmesh_units::{Bytes, Span};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::error::Problem;
use crate::text;

/// Preset of TCP settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TcpPreset {
    /// Comparable with ns-3.
    #[default]
    Ns3,
    /// Comparable with ns-2, and with the papers that used it.
    Ns2,
    /// Recommendations of the RFCs to a modern host.
    Rfc,
    /// Comparable with a modern Linux host.
    Linux,
}

/// Congestion controller of a TCP or a QUIC.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CongestionDraft {
    /// RFC 5681.
    #[default]
    NewReno,
    /// RFC 9438.
    Cubic,
    /// BBR version 1.
    Bbr,
    /// BBR version 3.
    Bbr3,
    /// Prague: small reductions for many marks of ECT(1).
    Prague,
}

impl From<CongestionDraft> for Congestion {
    fn from(draft: CongestionDraft) -> Self {
        match draft {
            CongestionDraft::NewReno => Congestion::NewReno,
            CongestionDraft::Cubic => Congestion::Cubic,
            CongestionDraft::Bbr => Congestion::Bbr,
            CongestionDraft::Bbr3 => Congestion::Bbr3,
            CongestionDraft::Prague => Congestion::Prague,
        }
    }
}

/// A TCP transport and its differences from its preset.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TcpDraft {
    /// Congestion controller.
    pub tcp: CongestionDraft,
    /// Preset that the other keys change.
    pub preset: TcpPreset,
    /// Largest payload of a segment; 1460 B by default.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Bytes>")]
    pub mss: Option<Bytes>,
    /// Selective acknowledgements.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sack: Option<bool>,
    /// Explicit congestion notification: true, which is ECT(0), false, or a codepoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn: Option<EcnDraft>,
    /// True if the wait after a mark at a window of one segment doubles from mark to mark.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn_backoff: Option<bool>,
    /// True: after 200 ms, or the time given. False: every segment is acknowledged immediately.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delayed_ack: Option<DelayedAck>,
    /// Initial congestion window in segments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_window: Option<u32>,
    /// Maximum number of outstanding segments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_window: Option<u32>,
    /// Retransmission timeout before the first sample of the round-trip time.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub initial_rto: Option<Span>,
    /// Smallest retransmission timeout.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub min_rto: Option<Span>,
    /// Largest retransmission timeout.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub max_rto: Option<Span>,
    /// Time before the first retransmission of a SYN.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub syn_timeout: Option<Span>,
    /// Clock granularity of the retransmission timer.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub clock_granularity: Option<Span>,
    /// True to time one segment per round trip instead of each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub one_rtt_sample: Option<bool>,
    /// True to send new data on the first two duplicate acknowledgements.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limited_transmit: Option<bool>,
    /// True to let the window grow only while it limits the sender.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validate_window: Option<bool>,
    /// True to fall back to the initial window after an idle period.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_restart: Option<bool>,
    /// True to spread each window over a round trip instead of sending bursts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pacing: Option<bool>,
    /// Segments per burst of paced data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
    /// True to end the first slow start when round trips grow (HyStart++).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hystart: Option<bool>,
    /// True to detect losses by time, and to probe for a lost tail (RACK-TLP).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rack: Option<bool>,
}

/// `delayed_ack`: true, false, or a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DelayedAck(pub Option<Span>);

/// RFC 1122 §4.2.3.2 permits up to 500 ms; 200 ms is common.
const USUAL_DELAY: Span = Span::from_millis(200);

impl<'de> Deserialize<'de> for DelayedAck {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = DelayedAck;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true, false, or a time such as \"200 ms\"")
            }
            fn visit_bool<E: de::Error>(self, on: bool) -> Result<DelayedAck, E> {
                Ok(DelayedAck(on.then_some(USUAL_DELAY)))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<DelayedAck, E> {
                text.parse().map(|t| DelayedAck(Some(t))).map_err(E::custom)
            }
        }
        d.deserialize_any(Visitor)
    }
}

impl Serialize for DelayedAck {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            None => s.serialize_bool(false),
            Some(t) => text::serialize(&t, s),
        }
    }
}

impl JsonSchema for DelayedAck {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "DelayedAck".into()
    }
    fn json_schema(g: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "boolean" }, text::schema::<Span>(g)] })
    }
}

/// `ecn`: true, false, or the codepoint of data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EcnDraft {
    /// No notification.
    Off,
    /// ECT(0), as in RFC 3168.
    Ect0,
    /// ECT(1) (RFC 9331).
    Ect1,
}

impl From<bool> for EcnDraft {
    fn from(on: bool) -> Self {
        if on { EcnDraft::Ect0 } else { EcnDraft::Off }
    }
}

impl<'de> Deserialize<'de> for EcnDraft {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = EcnDraft;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true, false, \"ect0\" or \"ect1\"")
            }
            fn visit_bool<E: de::Error>(self, on: bool) -> Result<EcnDraft, E> {
                Ok(on.into())
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<EcnDraft, E> {
                match text {
                    "ect0" => Ok(EcnDraft::Ect0),
                    "ect1" => Ok(EcnDraft::Ect1),
                    _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                }
            }
        }
        d.deserialize_any(Visitor)
    }
}

impl Serialize for EcnDraft {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            EcnDraft::Off => s.serialize_bool(false),
            EcnDraft::Ect0 => s.serialize_bool(true),
            EcnDraft::Ect1 => s.serialize_str("ect1"),
        }
    }
}

impl JsonSchema for EcnDraft {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Ecn".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "boolean" }, { "enum": ["ect0", "ect1"] }] })
    }
}

impl TcpDraft {
    /// Returns the settings, checked.
    pub(crate) fn build(&self) -> Result<TcpConfig, Problem> {
        let base = match self.preset {
            TcpPreset::Ns3 => TcpConfig::ns3(),
            TcpPreset::Ns2 => TcpConfig::ns2(),
            TcpPreset::Rfc => TcpConfig::rfc(),
            TcpPreset::Linux => TcpConfig::linux(),
        };
        let mss = match self.mss {
            None => base.mss,
            Some(b) => {
                u32::try_from(b.0).map_err(|_| Problem::range(b, "an mss of at most 65495 B"))?
            }
        };
        // RFC 9331 §4.1: a sender that responds to many small marks sends ECT(1).
        let usual = match self.tcp {
            CongestionDraft::Prague => (true, true),
            _ => (base.ecn, base.ect1),
        };
        let config = TcpConfig {
            congestion: self.tcp.into(),
            mss,
            sack: self.sack.unwrap_or(base.sack),
            ecn: self.ecn.map_or(usual.0, |e| e != EcnDraft::Off),
            ect1: self.ecn.map_or(usual.1, |e| e == EcnDraft::Ect1),
            ecn_backoff: self.ecn_backoff.unwrap_or(base.ecn_backoff),
            initial_window: self.initial_window.unwrap_or(base.initial_window),
            initial_rto: self.initial_rto.unwrap_or(base.initial_rto),
            min_rto: self.min_rto.unwrap_or(base.min_rto),
            max_rto: self.max_rto.unwrap_or(base.max_rto),
            clock_granularity: self.clock_granularity.unwrap_or(base.clock_granularity),
            delayed_ack: self.delayed_ack.map_or(base.delayed_ack, |d| d.0),
            max_window: self.max_window.or(base.max_window),
            syn_timeout: self.syn_timeout.unwrap_or(base.syn_timeout),
            limited_transmit: self.limited_transmit.unwrap_or(base.limited_transmit),
            one_rtt_sample: self.one_rtt_sample.unwrap_or(base.one_rtt_sample),
            validate_window: self.validate_window.unwrap_or(base.validate_window),
            idle_restart: self.idle_restart.unwrap_or(base.idle_restart),
            pacing: self.pacing.unwrap_or(base.pacing),
            burst: self.burst.unwrap_or(base.burst),
            hystart: self.hystart.unwrap_or(base.hystart),
            rack: self.rack.unwrap_or(base.rack),
            dialect: base.dialect,
        };
        config
            .validate()
            .map_err(|e| Problem::refused(e.to_string(), "settings an endpoint can work with"))?;
        Ok(config)
    }
}
