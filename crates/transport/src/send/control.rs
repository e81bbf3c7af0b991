//! The place of a congestion controller: what it sees and what it decides.
//!
//! A new controller is one file that implements [`CongestionControl`], one variant of
//! [`Controller`] and one of [`crate::Congestion`].

use fairmesh_units::{Span, Time};

use super::cubic::Cubic;
use super::newreno::NewReno;
use crate::config::{Congestion, Dialect, TcpConfig};

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

/// The controllers, chosen at run time without a virtual call.
#[derive(Clone, Debug)]
pub(super) enum Controller {
    NewReno(NewReno),
    Cubic(Cubic),
}

impl Controller {
    pub(super) fn new(cfg: &TcpConfig) -> Self {
        match cfg.congestion {
            Congestion::NewReno => {
                Controller::NewReno(NewReno { spill: cfg.dialect == Dialect::Ns3 })
            }
            Congestion::Cubic => Controller::Cubic(Cubic::default()),
        }
    }
}

impl CongestionControl for Controller {
    fn on_ack(&mut self, window: &mut Window, progress: Progress) {
        match self {
            Controller::NewReno(c) => c.on_ack(window, progress),
            Controller::Cubic(c) => c.on_ack(window, progress),
        }
    }

    fn reduce(&mut self, window: &Window, flight: u64) -> u64 {
        match self {
            Controller::NewReno(c) => c.reduce(window, flight),
            Controller::Cubic(c) => c.reduce(window, flight),
        }
    }

    fn on_timeout(&mut self) {
        match self {
            Controller::NewReno(c) => c.on_timeout(),
            Controller::Cubic(c) => c.on_timeout(),
        }
    }
}
