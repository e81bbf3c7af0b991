//! The interface of congestion controllers: their inputs and decisions.

use fairmesh_units::{Span, Time};

use crate::config::TcpConfig;

/// The sending window, in bytes.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    pub(crate) cwnd: u64,
    pub(crate) ssthresh: u64,
    pub(crate) mss: u64,
}

impl Window {
    pub(crate) fn new(cfg: &TcpConfig) -> Self {
        let mss = u64::from(cfg.mss);
        // RFC 5681 §3.1: the initial ssthresh is arbitrarily high, or the largest possible window
        // (as in ns-2).
        let ssthresh = cfg.max_window.map_or(u64::MAX, |most| mss * u64::from(most));
        Window { cwnd: mss * u64::from(cfg.initial_window), ssthresh, mss }
    }

    pub(crate) const fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }
}

/// An ACK of new data outside loss recovery.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    pub(crate) now: Time,
    /// Newly acknowledged bytes.
    pub(crate) acked: u64,
    pub(crate) srtt: Option<Span>,
    /// True if the window limited the sender.
    pub(crate) limited: bool,
    /// The round trip that this ACK measured.
    pub(crate) rtt: Option<Span>,
    /// Oldest byte not acknowledged, this ACK included.
    pub(crate) una: u64,
    /// Next byte never sent.
    pub(crate) next: u64,
    /// Bytes in the network, this ACK included.
    pub(crate) in_flight: u64,
    /// True if the window was full when this ACK arrived.
    pub(crate) full: bool,
    /// True if an acknowledgement counts by its bytes (RFC 9002 §7.3), not as one segment.
    ///
    /// RFC 5681 §3.1.
    pub(crate) by_bytes: bool,
}

/// Delivery rate over about one round trip (draft-cheng-iccrg-delivery-rate-estimation-00).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RateSample {
    /// Bytes per second; `None` if the interval is too short.
    pub(crate) rate: Option<f64>,
    /// Total bytes delivered when the acknowledged segment left.
    pub(crate) prior: u64,
    /// Total bytes delivered.
    pub(crate) total: u64,
    /// Bytes delivered by this ACK.
    pub(crate) now: u64,
    /// True if the application limited the rate meanwhile.
    pub(crate) app_limited: bool,
    /// Round trip of the latest acknowledged segment, unless it was retransmitted.
    pub(crate) rtt: Option<Span>,
    /// Interval over which the rate was measured.
    pub(crate) interval: Span,
    /// Bytes in the network when that segment had left, itself included.
    pub(crate) in_flight: u64,
    /// Bytes declared lost since that segment left.
    pub(crate) lost: u64,
}

/// A segment that was declared lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loss {
    pub(crate) seq: u64,
    pub(crate) len: u32,
    /// Bytes in the network when it had left, itself included.
    pub(crate) in_flight: u64,
    /// Bytes declared lost since it left, itself included.
    pub(crate) lost: u64,
    /// True if it left while the application limited the rate.
    pub(crate) app_limited: bool,
}

/// Growth and reduction of a window.
pub(crate) trait CongestionControl {
    /// Grows `window.cwnd`.
    fn on_ack(&mut self, window: &mut Window, progress: Progress);

    /// Returns the reduced amount after a loss or mark with `flight` bytes in the network.
    ///
    /// The caller sets threshold and window from it, and enforces their minima.
    fn reduce(&mut self, window: &Window, flight: u64) -> u64;

    /// Handles the expiry of the retransmission timer.
    ///
    /// Called after [`CongestionControl::reduce`].
    fn on_timeout(&mut self) {}
}

/// A controller with a model of the path.
///
/// It sets the window and paces all segments, also retransmissions.
pub(crate) trait Model {
    /// Returns the rate at which segments leave, bytes per second; 0 if not known yet.
    fn pacing_rate(&self) -> f64;

    /// Returns the bytes per burst.
    fn quantum(&self, mss: u64) -> u64;

    /// Handles the end of the handshake; `rtt`: its round trip, unless a SYN was retransmitted.
    fn start(&mut self, _now: Time, _window: &Window, _rtt: Option<Span>) {}

    /// Handles data sent after an idle period, with `delivered` bytes delivered in total.
    fn restart(&mut self, _now: Time, _window: &mut Window, _delivered: u64) {}

    /// Handles a segment declared lost, with `delivered` bytes delivered in total.
    fn on_lost(&mut self, _now: Time, _window: &mut Window, _loss: &Loss, _delivered: u64) {}

    /// Handles a mark at the receiver, at most once per window; `flight`: the outstanding bytes.
    fn on_mark(&mut self, _now: Time, _window: &mut Window, _flight: u64, _delivered: u64) {}

    /// Returns true if it responds to marks.
    fn takes_marks(&self) -> bool {
        false
    }

    /// Processes an acknowledgement that delivered data.
    fn on_ack(&mut self, window: &mut Window, p: &Progress, sample: RateSample);

    /// Returns true if data sent now is not a sample of the path's rate.
    fn hides_samples(&self) -> bool {
        false
    }

    /// Handles the start of a repair; `in_flight`: bytes in the network.
    fn enter_recovery(&mut self, window: &mut Window, in_flight: u64);

    /// Handles the end of the repair.
    fn leave_recovery(&mut self, window: &mut Window);

    /// Treats all outstanding data as lost.
    fn on_timeout(&mut self, window: &mut Window);
}
