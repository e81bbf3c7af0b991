//! The place of a congestion controller: what it sees and what it decides.

use fairmesh_units::{Span, Time};

use crate::config::TcpConfig;

/// The sending window, bytes.
#[derive(Clone, Debug)]
pub(super) struct Window {
    pub(super) cwnd: u64,
    pub(super) ssthresh: u64,
    pub(super) mss: u64,
}

impl Window {
    pub(super) fn new(cfg: &TcpConfig) -> Self {
        let mss = u64::from(cfg.mss);
        // RFC 5681 §3.1: the initial ssthresh is arbitrarily high, or the largest window that
        // there can be (as in ns-2).
        let ssthresh = cfg.max_window.map_or(u64::MAX, |most| mss * u64::from(most));
        Window { cwnd: mss * u64::from(cfg.initial_window), ssthresh, mss }
    }

    pub(super) const fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }
}

/// An ACK of new data outside loss recovery.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    pub(super) now: Time,
    /// Newly acknowledged bytes.
    pub(super) acked: u64,
    pub(super) srtt: Option<Span>,
    /// Whether the window was what limited the sender.
    pub(super) limited: bool,
}

/// How a window grows and shrinks.
pub(super) trait CongestionControl {
    /// Grows `window.cwnd`.
    fn on_ack(&mut self, window: &mut Window, progress: Progress);

    /// Returns what a loss or mark, found with `flight` bytes in the network, leaves of them. The
    /// caller sets threshold and window from it, and keeps both from falling too low.
    fn reduce(&mut self, window: &Window, flight: u64) -> u64;

    /// The retransmission timer expired; called after [`CongestionControl::reduce`].
    fn on_timeout(&mut self) {}
}
