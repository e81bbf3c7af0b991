//! Settings of a QUIC endpoint.

use core::fmt;

use fairmesh_units::Span;

use crate::config::Congestion;

use super::packet::MIN_DATAGRAM;

/// Settings of a QUIC endpoint. Both ends of a connection share one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Config {
    /// Congestion controller.
    pub congestion: Congestion,
    /// Largest UDP payload, bytes, as found by path MTU discovery (RFC 9000 §14).
    pub datagram: u32,
    /// True to mark packets as ECN-capable until the path fails validation (RFC 9000 §13.4).
    pub ecn: bool,
    /// True to use ECT(1) instead of ECT(0); for [`Congestion::Prague`] (RFC 9331).
    pub ect1: bool,
    /// Initial congestion window, datagrams of the largest size.
    ///
    /// At most 14,720 bytes or two of them (RFC 9002 §7.2).
    pub initial_window: u32,
    /// Maximum delay of an acknowledgement (RFC 9000 §18.2).
    pub max_ack_delay: Span,
    /// Size of the pacing bucket, datagrams: the maximum number sent together (RFC 9002 §7.7).
    ///
    /// Segmentation offload causes such bursts; BBR sets its own value. An ACK releases two; with a
    /// smaller bucket, one of them waits.
    pub burst: u32,
    /// True to end the first slow start by HyStart++ (RFC 9406) instead of by a loss.
    pub hystart: bool,
    /// True to set the spin bit, so that the path can measure round trips (RFC 9000 §17.4).
    pub spin: bool,
}

/// Maximum UDP payload of an IPv4 datagram, in bytes.
const MAX_DATAGRAM: u32 = 65_507;
/// Upper bound of the acknowledgement delay; RFC 9000 §18.2: larger values are invalid.
const MAX_ACK_DELAY: Span = Span::from_millis(1 << 14);

impl Config {
    /// Returns settings of RFC 9000 and RFC 9002 with this controller.
    ///
    /// Datagrams have 1472 bytes, which fill 1500 of IPv4; acknowledgements are delayed by at most
    /// 25 ms. CUBIC has HyStart++ (RFC 9438 §4.10 recommends it); Prague uses ECT(1). The spin bit
    /// is off, as in most implementations on the internet.
    pub const fn new(congestion: Congestion) -> Self {
        let prague = matches!(congestion, Congestion::Prague);
        Config {
            congestion,
            datagram: 1472,
            ecn: prague,
            ect1: prague,
            initial_window: 10,
            max_ack_delay: Span::from_millis(25),
            burst: 2,
            hystart: matches!(congestion, Congestion::Cubic),
            spin: false,
        }
    }

    /// Checks that an endpoint can work with these settings.
    ///
    /// # Errors
    /// The first setting that is out of its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if !(MIN_DATAGRAM..=MAX_DATAGRAM).contains(&self.datagram) {
            return Err(ConfigError::Datagram(self.datagram));
        }
        if self.initial_window == 0 {
            return Err(ConfigError::Zero("initial_window"));
        }
        if self.burst == 0 {
            return Err(ConfigError::Zero("burst"));
        }
        if self.max_ack_delay >= MAX_ACK_DELAY {
            return Err(ConfigError::AckDelay(self.max_ack_delay));
        }
        if matches!(self.congestion, Congestion::Prague) && !(self.ecn && self.ect1) {
            return Err(ConfigError::PragueWithoutEct1);
        }
        Ok(())
    }

    /// Returns the initial window, bytes. RFC 9002 §7.2
    pub(super) fn initial_cwnd(&self) -> u64 {
        let datagram = u64::from(self.datagram);
        (u64::from(self.initial_window) * datagram).min((2 * datagram).max(14_720))
    }

    /// Returns the stream bytes of a full packet at a large offset, and its IPv4 length, bytes.
    pub fn full_packet(&self) -> (u32, u32) {
        (
            self.datagram - super::packet::PACKET_OVERHEAD - super::packet::STREAM_HEADER,
            self.datagram + 28,
        )
    }
}

/// Reason for rejecting settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConfigError {
    /// This setting must not be zero.
    Zero(&'static str),
    /// The UDP payload is out of range.
    Datagram(u32),
    /// The acknowledgement delay is too long.
    AckDelay(Span),
    /// Prague requires ECT(1).
    PragueWithoutEct1,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::Zero(what) => write!(f, "{what} must not be zero"),
            ConfigError::Datagram(n) => {
                write!(
                    f,
                    "datagram is {n} B; QUIC needs {MIN_DATAGRAM} B, and IPv4 carries at most {MAX_DATAGRAM} B"
                )
            }
            ConfigError::AckDelay(span) => {
                write!(f, "max_ack_delay is {span}; RFC 9000 allows less than {MAX_ACK_DELAY}")
            }
            ConfigError::PragueWithoutEct1 => f.write_str("prague needs ecn = \"ect1\""),
        }
    }
}

impl core::error::Error for ConfigError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_setting() {
        let cubic = Config::new(Congestion::Cubic);
        assert_eq!(cubic.validate(), Ok(()));
        let error = |cfg: Config| cfg.validate().unwrap_err().to_string();
        assert_eq!(
            error(Config { datagram: 1199, ..cubic }),
            "datagram is 1199 B; QUIC needs 1200 B, and IPv4 carries at most 65507 B"
        );
        assert_eq!(error(Config { burst: 0, ..cubic }), "burst must not be zero");
        assert_eq!(
            error(Config { max_ack_delay: Span::from_secs(17), ..cubic }),
            "max_ack_delay is 17 s; RFC 9000 allows less than 16.384 s"
        );
        let prague = Config::new(Congestion::Prague);
        assert_eq!(prague.validate(), Ok(()));
        assert_eq!(error(Config { ect1: false, ..prague }), "prague needs ecn = \"ect1\"");
    }

    #[test]
    fn the_initial_window_is_that_of_rfc_9002() {
        let cfg = Config::new(Congestion::NewReno);
        assert_eq!(Config { datagram: 1200, ..cfg }.initial_cwnd(), 12_000);
        assert_eq!(cfg.initial_cwnd(), 14_720);
        assert_eq!(Config { datagram: 9000, ..cfg }.initial_cwnd(), 18_000);
    }
}
