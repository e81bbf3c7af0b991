//! Settings of a QUIC transport.

use fairmesh_transport::quic::Config;
use fairmesh_units::{Bytes, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::tcp::{CongestionDraft, EcnDraft};
use crate::error::Problem;
use crate::text;

/// A QUIC transport and its differences from RFC 9000 and RFC 9002.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct QuicDraft {
    /// Congestion controller.
    pub quic: CongestionDraft,
    /// Largest UDP payload; 1472 B by default.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Bytes>")]
    pub datagram: Option<Bytes>,
    /// Explicit congestion notification: true, which is ECT(0), false, or a codepoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn: Option<EcnDraft>,
    /// Initial congestion window in datagrams, 14,720 B at most; 10 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_window: Option<u32>,
    /// Maximum delay of an acknowledgement; 25 ms by default.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub max_ack_delay: Option<Span>,
    /// Datagrams per burst of paced data; 2 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
    /// True to end the first slow start when round trips grow (HyStart++).
    ///
    /// By default only with `cubic`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hystart: Option<bool>,
    /// True to set the spin bit, from which a gateway measures round trips (RFC 9000 §17.4).
    ///
    /// False by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spin: Option<bool>,
}

impl QuicDraft {
    /// Returns the settings, checked.
    pub(crate) fn build(&self) -> Result<Config, Problem> {
        let base = Config::new(self.quic.into());
        let datagram = match self.datagram {
            None => base.datagram,
            Some(b) => u32::try_from(b.0)
                .map_err(|_| Problem::range(b, "a datagram of at most 65507 B"))?,
        };
        let config = Config {
            datagram,
            ecn: self.ecn.map_or(base.ecn, |e| e != EcnDraft::Off),
            ect1: self.ecn.map_or(base.ect1, |e| e == EcnDraft::Ect1),
            initial_window: self.initial_window.unwrap_or(base.initial_window),
            max_ack_delay: self.max_ack_delay.unwrap_or(base.max_ack_delay),
            burst: self.burst.unwrap_or(base.burst),
            hystart: self.hystart.unwrap_or(base.hystart),
            spin: self.spin.unwrap_or(base.spin),
            ..base
        };
        config
            .validate()
            .map_err(|e| Problem::refused(e.to_string(), "settings an endpoint can work with"))?;
        Ok(config)
    }
}
