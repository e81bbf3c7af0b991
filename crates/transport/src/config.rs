//! Settings of a TCP endpoint.

use core::fmt;

use fairmesh_units::Span;

/// The congestion controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Congestion {
    /// Slow start and congestion avoidance of RFC 5681.
    NewReno,
    /// RFC 9438.
    Cubic,
    /// BBR version 1 (draft-cardwell-iccrg-bbr-congestion-control-00).
    ///
    /// It is a model of bandwidth and round trip.
    Bbr,
    /// BBR version 3 (draft-ietf-ccwg-bbr-06): losses and marks bound the model.
    Bbr3,
    /// Prague (draft-briscoe-iccrg-prague-congestion-control-04).
    ///
    /// It reduces by the fraction of marked data.
    Prague,
}

impl Congestion {
    /// Returns its name in scenarios.
    pub const fn name(self) -> &'static str {
        match self {
            Congestion::NewReno => "newreno",
            Congestion::Cubic => "cubic",
            Congestion::Bbr => "bbr",
            Congestion::Bbr3 => "bbr3",
            Congestion::Prague => "prague",
        }
    }

    /// Returns true if it paces by a model of the path instead of reducing a window.
    pub(crate) const fn is_model(self) -> bool {
        matches!(self, Congestion::Bbr | Congestion::Bbr3)
    }
}

/// Choices of an endpoint where the RFCs leave freedom, or where ns-3 differs from them.
///
/// `docs/notes/2026-11-transport.md` has the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dialect {
    /// The RFCs exactly.
    Rfc,
    /// As ns-3.37 behaves, so that goodputs can be compared with it.
    Ns3,
}

/// Settings of a TCP endpoint. Both ends of a connection share one.
///
/// `default()` is [`TcpConfig::ns3`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TcpConfig {
    /// Congestion controller.
    pub congestion: Congestion,
    /// Largest payload of a segment, in bytes.
    pub mss: u32,
    /// True to use selective acknowledgements (RFC 2018) and recovery from them (RFC 6675).
    pub sack: bool,
    /// True to negotiate explicit congestion notification (RFC 3168).
    pub ecn: bool,
    /// True if data carries ECT(1) instead of ECT(0).
    ///
    /// RFC 9331 reserves ECT(1) for senders that expect many small marks: [`Congestion::Prague`]
    /// here. Other controllers respond as to ECT(0), as RFC 3168 §5 permitted.
    pub ect1: bool,
    /// True if the wait after a mark at a window of one segment doubles from mark to mark.
    ///
    /// This is ns-2's rule; RFC 3168 §6.1.2 specifies one timeout each. For [`Dialect::Rfc`] only: in ns-3
    /// the window never falls below two segments.
    pub ecn_backoff: bool,
    /// Initial congestion window, segments.
    pub initial_window: u32,
    /// Retransmission timeout before the first round-trip sample (RFC 6298 §2.1).
    pub initial_rto: Span,
    /// Smallest retransmission timeout.
    ///
    /// RFC 6298 §2.4 specifies 1 s; simulators and Linux use 0.2 s.
    pub min_rto: Span,
    /// Largest retransmission timeout, backed off or not (RFC 6298 §2.5).
    pub max_rto: Span,
    /// Clock granularity G of RFC 6298 §2: lower bound of the variance term.
    pub clock_granularity: Span,
    /// Delay of acknowledgements; `None`: every segment is acknowledged.
    ///
    /// `Some(timeout)`: every second segment, or a single one after this delay (RFC 1122 §4.2.3.2).
    pub delayed_ack: Option<Span>,
    /// Maximum number of outstanding segments; `None`: no limit.
    pub max_window: Option<u32>,
    /// Time before the first retransmission of a SYN or SYN-ACK.
    ///
    /// It doubles each time, without limit.
    pub syn_timeout: Span,
    /// True to send new data on the first two duplicate ACKs (RFC 3042); always done with SACK.
    pub limited_transmit: bool,
    /// True to time one segment per round trip (RFC 6298 §3), as ns-2 does, instead of each.
    pub one_rtt_sample: bool,
    /// True to let the window grow only while it limits the sender (RFC 7661 §4.3).
    pub validate_window: bool,
    /// True to fall back to the initial window after one idle timeout (RFC 5681 §4.1).
    pub idle_restart: bool,
    /// True to spread each window over a round trip instead of sending bursts.
    ///
    /// New data leaves `srtt × segment / cwnd` apart (Aggarwal, Savage, Anderson 2000; Jamshaid
    /// 2010 §5.2.1). [`Connection::pace`](crate::Connection::pace) sets another spacing.
    pub pacing: bool,
    /// Segments per burst of paced data, as segmentation offload sends them.
    ///
    /// BBR sets its own value.
    pub burst: u32,
    /// True to end the first slow start by HyStart++ (RFC 9406) instead of by a loss.
    pub hystart: bool,
    /// True to detect losses by time and to probe for a lost tail (RACK-TLP, RFC 8985).
    ///
    /// Requires `sack`.
    pub rack: bool,
    /// Choices where the RFCs leave freedom.
    pub dialect: Dialect,
}

impl TcpConfig {
    /// Returns settings comparable with the TCP of ns-3.37.
    ///
    /// They are NewReno, 1460-byte segments, no SACK, no delayed ACK, no limited transmit, initial window 2,
    /// timeouts between 0.2 s and 60 s.
    pub const fn ns3() -> Self {
        TcpConfig {
            congestion: Congestion::NewReno,
            mss: 1460,
            sack: false,
            ecn: false,
            ect1: false,
            ecn_backoff: false,
            initial_window: 2,
            initial_rto: Span::from_secs(1),
            min_rto: Span::from_millis(200),
            max_rto: Span::from_secs(60),
            clock_granularity: Span::from_millis(10),
            delayed_ack: None,
            max_window: None,
            syn_timeout: Span::from_secs(3),
            limited_transmit: false,
            one_rtt_sample: false,
            validate_window: false,
            idle_restart: false,
            pacing: false,
            burst: 1,
            hystart: false,
            rack: false,
            dialect: Dialect::Ns3,
        }
    }

    /// Returns settings comparable with the one-way TCP of ns-2.34 in its default settings.
    ///
    /// The papers' simulations used it. NewReno, every segment acknowledged, at most 20 segments outstanding,
    /// limited transmit, first timeout after 3 s.
    ///
    /// Unlike ns-3 it applies Karn's rule: a backed-off timeout stays until a segment that was sent
    /// once is acknowledged. Without this rule a flow with packets that wait for longer than its
    /// timeout, as they do in a gateway's limiter, continuously sends each of them several times.
    pub const fn ns2() -> Self {
        TcpConfig {
            initial_rto: Span::from_secs(3),
            max_window: Some(20),
            ecn_backoff: true,
            limited_transmit: true,
            one_rtt_sample: false,
            idle_restart: true,
            dialect: Dialect::Rfc,
            ..TcpConfig::ns3()
        }
    }

    /// Returns the settings that the RFCs recommend to a modern host.
    ///
    /// They are NewReno with SACK, delayed ACKs after 200 ms, limited transmit, initial window 10 (RFC 6928),
    /// timeouts of at least 1 s.
    pub const fn rfc() -> Self {
        TcpConfig {
            congestion: Congestion::NewReno,
            mss: 1460,
            sack: true,
            ecn: false,
            ect1: false,
            ecn_backoff: false,
            initial_window: 10,
            initial_rto: Span::from_secs(1),
            min_rto: Span::from_secs(1),
            max_rto: Span::from_secs(60),
            clock_granularity: Span::from_millis(1),
            delayed_ack: Some(Span::from_millis(200)),
            max_window: None,
            syn_timeout: Span::from_secs(1),
            limited_transmit: true,
            one_rtt_sample: false,
            validate_window: true,
            idle_restart: true,
            pacing: false,
            burst: 1,
            hystart: false,
            rack: false,
            dialect: Dialect::Rfc,
        }
    }

    /// Returns settings comparable with a modern Linux host.
    ///
    /// They are CUBIC with HyStart++, SACK, RACK-TLP, initial window 10, ACKs delayed by 40 ms, timeouts 200
    /// ms above the round trip, ECN if requested. Linux has the HyStart of 2008 in place of RFC 9406's, and
    /// proportional rate reduction (docs/models/transport.md).
    pub const fn linux() -> Self {
        TcpConfig {
            congestion: Congestion::Cubic,
            min_rto: Span::from_millis(200),
            max_rto: Span::from_secs(120),
            // The variance term is at least the smallest timeout.
            clock_granularity: Span::from_millis(200),
            delayed_ack: Some(Span::from_millis(40)),
            hystart: true,
            rack: true,
            ..TcpConfig::rfc()
        }
    }

    /// Checks that an endpoint can work with these settings.
    ///
    /// # Errors
    /// The first setting that is zero or out of order.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let zero = |what, is_zero| if is_zero { Err(ConfigError::Zero(what)) } else { Ok(()) };
        zero("mss", self.mss == 0)?;
        zero("initial_window", self.initial_window == 0)?;
        zero("burst", self.burst == 0)?;
        zero("max_window", self.max_window == Some(0))?;
        zero("min_rto", self.min_rto == Span::ZERO)?;
        zero("initial_rto", self.initial_rto == Span::ZERO)?;
        zero("syn_timeout", self.syn_timeout == Span::ZERO)?;
        if self.mss > 65_495 {
            return Err(ConfigError::SegmentTooLarge(self.mss));
        }
        if self.rack && !self.sack {
            return Err(ConfigError::RackWithoutSack);
        }
        if self.congestion == Congestion::Prague && !(self.ecn && self.ect1) {
            return Err(ConfigError::PragueWithoutEct1);
        }
        if self.min_rto > self.max_rto {
            return Err(ConfigError::RtoOrder { min: self.min_rto, max: self.max_rto });
        }
        Ok(())
    }
}

impl Default for TcpConfig {
    fn default() -> Self {
        TcpConfig::ns3()
    }
}

/// Reason for rejecting settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConfigError {
    /// This setting must not be zero.
    Zero(&'static str),
    /// The segment does not fit an IPv4 datagram (65,495 bytes of payload at most).
    SegmentTooLarge(u32),
    /// RACK requires selective acknowledgements.
    RackWithoutSack,
    /// Prague requires ECT(1).
    PragueWithoutEct1,
    /// The smallest timeout is larger than the largest.
    RtoOrder {
        /// The smallest timeout given.
        min: Span,
        /// The largest timeout given.
        max: Span,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::Zero(what) => write!(f, "{what} must not be zero"),
            ConfigError::SegmentTooLarge(mss) => {
                write!(f, "mss is {mss} B; an IPv4 datagram carries at most 65495 B of TCP payload")
            }
            ConfigError::RackWithoutSack => f.write_str("rack needs sack"),
            ConfigError::PragueWithoutEct1 => f.write_str("prague needs ecn = \"ect1\""),
            ConfigError::RtoOrder { min, max } => {
                write!(f, "min_rto ({min}) is larger than max_rto ({max})")
            }
        }
    }
}

impl core::error::Error for ConfigError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_valid() {
        assert_eq!(TcpConfig::ns3().validate(), Ok(()));
        assert_eq!(TcpConfig::ns2().validate(), Ok(()));
        assert_eq!(TcpConfig::rfc().validate(), Ok(()));
    }

    #[test]
    fn errors_name_the_setting() {
        let cfg = TcpConfig { mss: 0, ..TcpConfig::ns3() };
        assert_eq!(cfg.validate(), Err(ConfigError::Zero("mss")));
        let cfg = TcpConfig { min_rto: Span::from_secs(61), ..TcpConfig::ns3() };
        let text = cfg.validate().unwrap_err().to_string();
        assert_eq!(text, "min_rto (61 s) is larger than max_rto (60 s)");
        let cfg = TcpConfig { mss: 70_000, ..TcpConfig::ns3() };
        assert_eq!(cfg.validate(), Err(ConfigError::SegmentTooLarge(70_000)));
    }
}
