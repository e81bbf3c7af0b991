//! The place of a congestion controller: what it sees and what it decides.

use fairmesh_units::{Span, Time};

use crate::config::TcpConfig;

/// The sending window, bytes.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    pub(crate) cwnd: u64,
    pub(crate) ssthresh: u64,
    pub(crate) mss: u64,
}

impl Window {
    pub(crate) fn new(cfg: &TcpConfig) -> Self {
        let mss = u64::from(cfg.mss);
        // RFC 5681 §3.1: the initial ssthresh is arbitrarily high, or the largest window that
        // there can be (as in ns-2).
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
    /// Whether the window was what limited the sender.
    pub(crate) limited: bool,
    /// The round trip that this ACK measured.
    pub(crate) rtt: Option<Span>,
    /// Oldest byte not acknowledged, this ACK taken in.
    pub(crate) una: u64,
    /// Next byte never sent.
    pub(crate) next: u64,
    /// Bytes in the network, this ACK taken in.
    pub(crate) in_flight: u64,
    /// The window was full when this ACK came.
    pub(crate) full: bool,
    /// An acknowledgement counts for as much as it acknowledges (RFC 9002 §7.3), not for one segment (RFC 5681 §3.1).
    pub(crate) by_bytes: bool,
}

/// How fast data was delivered over about a round trip (draft-cheng-iccrg-delivery-rate-estimation-00).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RateSample {
    /// Bytes per second; `None`: too short a time to tell.
    pub(crate) rate: Option<f64>,
    /// Delivered in all when the segment left that was acknowledged.
    pub(crate) prior: u64,
    /// Delivered in all.
    pub(crate) total: u64,
    /// Delivered by this ACK.
    pub(crate) now: u64,
    /// The application was the limit meanwhile.
    pub(crate) app_limited: bool,
    /// The round trip of the latest segment that was acknowledged, if it was sent once.
    pub(crate) rtt: Option<Span>,
    /// Over how long the rate was measured.
    pub(crate) interval: Span,
    /// Bytes in the network when that segment had left, itself included.
    pub(crate) in_flight: u64,
    /// Bytes found lost since that segment left.
    pub(crate) lost: u64,
}

/// A segment that was found lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loss {
    pub(crate) seq: u64,
    pub(crate) len: u32,
    /// Bytes in the network when it had left, itself included.
    pub(crate) in_flight: u64,
    /// Bytes found lost since it left, itself included.
    pub(crate) lost: u64,
    /// It left while the application was the limit.
    pub(crate) app_limited: bool,
}

/// How a window grows and shrinks.
pub(crate) trait CongestionControl {
    /// Grows `window.cwnd`.
    fn on_ack(&mut self, window: &mut Window, progress: Progress);

    /// Returns what a loss or mark, found with `flight` bytes in the network, leaves of them. The
    /// caller sets threshold and window from it, and keeps both from falling too low.
    fn reduce(&mut self, window: &Window, flight: u64) -> u64;

    /// The retransmission timer expired; called after [`CongestionControl::reduce`].
    fn on_timeout(&mut self) {}
}

/// A controller that goes by a model of the path: it sets the window and paces everything, repairs too.
pub(crate) trait Model {
    /// The rate at which segments leave, bytes per second; 0: not known yet.
    fn pacing_rate(&self) -> f64;

    /// Bytes that leave at once.
    fn quantum(&self, mss: u64) -> u64;

    /// The handshake is over; `rtt`: its round trip, unless a SYN was repeated.
    fn start(&mut self, _now: Time, _window: &Window, _rtt: Option<Span>) {}

    /// Data leaves after a silence of the application, `delivered` bytes having arrived in all.
    fn restart(&mut self, _now: Time, _window: &mut Window, _delivered: u64) {}

    /// A segment was found lost, `delivered` bytes having arrived in all.
    fn on_lost(&mut self, _now: Time, _window: &mut Window, _loss: &Loss, _delivered: u64) {}

    /// The receiver saw a mark, at most once per window; `flight`: what was outstanding.
    fn on_mark(&mut self, _now: Time, _window: &mut Window, _flight: u64, _delivered: u64) {}

    /// Whether it answers marks.
    fn takes_marks(&self) -> bool {
        false
    }

    /// An acknowledgement that delivered something.
    fn on_ack(&mut self, window: &mut Window, p: &Progress, sample: RateSample);

    /// Whether what is sent now says nothing of the path's rate.
    fn hides_samples(&self) -> bool {
        false
    }

    /// A loss was found, and is being repaired; `in_flight`: bytes in the network.
    fn enter_recovery(&mut self, window: &mut Window, in_flight: u64);

    /// The losses are repaired.
    fn leave_recovery(&mut self, window: &mut Window);

    /// Everything is taken for lost.
    fn on_timeout(&mut self, window: &mut Window);
}
