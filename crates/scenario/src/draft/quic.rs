//! A QUIC, and the table of `transport` before it is known to be one.

use fairmesh_transport::quic::Config;
use fairmesh_units::{Bytes, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::transport::{
    CongestionDraft, DelayedAck, EcnDraft, TcpDraft, TcpPreset, TransportDraft,
};
use crate::error::Problem;
use crate::text;

/// A QUIC and where it differs from RFC 9000 and RFC 9002.
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
    /// How long an acknowledgement may wait; 25 ms by default.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text::schema::<Span>")]
    pub max_ack_delay: Option<Span>,
    /// Datagrams that leave at once, as pacing is; 2 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
    /// End the first slow start when round trips grow (HyStart++); only `cubic` does by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hystart: Option<bool>,
}

impl QuicDraft {
    /// The settings, checked.
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
            ..base
        };
        config
            .validate()
            .map_err(|e| Problem::refused(e.to_string(), "settings an endpoint can work with"))?;
        Ok(config)
    }
}

/// Every key of a table of `transport`. Tables are read key by key, and only the last may tell whose they are.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TransportTable {
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
    pub(super) fn split(self) -> Result<TransportDraft, String> {
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
