//! The congestion controllers.
//!
//! A new one is one file that implements [`CongestionControl`], one variant of [`Controller`] and
//! one of [`crate::Congestion`].

use super::cubic::Cubic;
use super::newreno::NewReno;
use super::window::{CongestionControl, Progress, Window};
use crate::config::{Congestion, Dialect, TcpConfig};

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
