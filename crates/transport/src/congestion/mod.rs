//! The congestion controllers, which TCP and QUIC share.
//!
//! A new controller is a file that implements [`CongestionControl`], a variant of [`Controller`]
//! and one of [`crate::Congestion`].

mod bbr;
mod bbr3;
mod cubic;
pub(crate) mod delivery;
pub(crate) mod hystart;
mod newreno;
pub(crate) mod pacing;
pub(crate) mod prague;
pub(crate) mod window;

use self::bbr::Bbr;
use self::bbr3::Bbr3;
use self::cubic::Cubic;
use self::hystart::HyStart;
use self::newreno::NewReno;
use self::prague::Prague;
use self::window::{CongestionControl, Model, Progress, Window};
use crate::config::Congestion;

/// Parameters from which a controller is built.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) congestion: Congestion,
    /// The initial window, in bytes.
    pub(crate) initial: u64,
    /// True if losses are reported one by one.
    pub(crate) each_loss: bool,
    /// ns-3's end of slow start ([`NewReno`]).
    pub(crate) spill: bool,
}

/// The controllers, with static dispatch.
#[derive(Clone, Debug)]
pub(crate) enum Controller {
    NewReno(NewReno),
    Cubic(Cubic),
    /// Uses counted marks.
    Prague(Prague),
    /// Uses a model of the path.
    Bbr(Box<Bbr>),
    Bbr3(Box<Bbr3>),
}

impl Controller {
    /// Returns the model, if the controller uses one.
    pub(crate) fn as_model(&mut self) -> Option<&mut dyn Model> {
        match self {
            Controller::Bbr(bbr) => Some(&mut **bbr),
            Controller::Bbr3(bbr) => Some(&mut **bbr),
            Controller::NewReno(_) | Controller::Cubic(_) | Controller::Prague(_) => None,
        }
    }

    /// Returns the controller, if it uses counted marks.
    pub(crate) fn as_prague(&mut self) -> Option<&mut Prague> {
        match self {
            Controller::Prague(prague) => Some(prague),
            _ => None,
        }
    }

    pub(crate) const fn is_prague(&self) -> bool {
        matches!(self, Controller::Prague(_))
    }

    pub(crate) const fn is_model(&self) -> bool {
        matches!(self, Controller::Bbr(_) | Controller::Bbr3(_))
    }

    /// Returns HyStart++ for a controller that has a slow start.
    ///
    /// `paced`: true if departures are spread over the round trip.
    pub(crate) fn hystart(of: Congestion, on: bool, paced: bool) -> Option<HyStart> {
        (on && !of.is_model()).then(|| HyStart::new(paced))
    }

    pub(crate) fn new(setup: &Setup) -> Self {
        match setup.congestion {
            Congestion::NewReno => Controller::NewReno(NewReno::new(setup.spill)),
            Congestion::Cubic => Controller::Cubic(Cubic::default()),
            Congestion::Prague => Controller::Prague(Prague::default()),
            Congestion::Bbr => Controller::Bbr(Box::new(Bbr::new(setup.initial))),
            Congestion::Bbr3 => {
                Controller::Bbr3(Box::new(Bbr3::new(setup.initial, setup.each_loss)))
            }
        }
    }
}

impl CongestionControl for Controller {
    fn on_ack(&mut self, window: &mut Window, progress: Progress) {
        match self {
            Controller::NewReno(c) => c.on_ack(window, progress),
            Controller::Cubic(c) => c.on_ack(window, progress),
            Controller::Prague(c) => c.on_ack(window, progress),
            // It receives every ACK, also in recovery: `Model::on_ack`.
            Controller::Bbr(_) | Controller::Bbr3(_) => {}
        }
    }

    fn reduce(&mut self, window: &Window, flight: u64) -> u64 {
        match self {
            Controller::NewReno(c) => c.reduce(window, flight),
            Controller::Cubic(c) => c.reduce(window, flight),
            Controller::Prague(c) => c.reduce(window, flight),
            Controller::Bbr(_) | Controller::Bbr3(_) => window.cwnd,
        }
    }

    fn on_timeout(&mut self) {
        match self {
            Controller::NewReno(c) => c.on_timeout(),
            Controller::Cubic(c) => c.on_timeout(),
            Controller::Prague(c) => c.on_timeout(),
            Controller::Bbr(_) | Controller::Bbr3(_) => {}
        }
    }
}
