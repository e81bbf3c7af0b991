//! Service: the state machine that a daemon runs.

use std::fmt::Display;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use fairmesh_units::Time;

use super::journal::Journal;
use super::process::Resources;
use super::socket::Response;

/// An instant by both clocks of a daemon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moment {
    /// Time since the start of the daemon; never runs backwards.
    pub now: Time,
    /// Seconds since 1970 as far as the machine knows; may jump.
    pub wall: u64,
}

/// An effect on files, carried out by the runtime after the call that asked for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Replace the state that outlives a restart.
    Save(String),
    /// Keep the configuration in force as the last one that worked.
    KeepConfiguration,
    /// Replace a file for other readers.
    Publish {
        /// Its path.
        file: PathBuf,
        /// Its content.
        text: String,
    },
}

/// A daemon's state machine: inputs and time in; requests, metrics, state and effects out.
///
/// A service owns no clock, no control socket and no file; the [runtime](super::runtime) has them.
/// Calls return soon: whatever takes long belongs on a thread that sends an [`Service::Input`].
pub trait Service {
    /// An event from outside, such as a change of an interface or an answer of a source.
    type Input: Send + 'static;
    /// Reason why the service could not end in order.
    type Error: Display;

    /// Does everything that is due; returns the time of the next call at the latest.
    fn turn(&mut self, at: Moment) -> Time;

    /// Takes in an event.
    fn input(&mut self, at: Moment, input: Self::Input);

    /// Answers a request of the control socket: one line, without its end.
    fn request(&mut self, at: Moment, line: &str) -> Response;

    /// Reads the configuration again; a wrong one changes nothing and is an event.
    fn reload(&mut self, at: Moment);

    /// Returns the page of the metrics in Prometheus text format.
    fn metrics(&self, at: Moment, process: Option<Resources>) -> String;

    /// Named events, which the runtime prints.
    fn journal(&mut self) -> &mut Journal;

    /// Takes the effects that were asked for since the last call, in order.
    fn effects(&mut self) -> Vec<Effect>;

    /// Takes in the result of an effect.
    fn performed(&mut self, at: Moment, effect: &Effect, result: io::Result<()>);

    /// Longest time without a call for which the guard takes the daemon for alive.
    fn patience(&self) -> Duration;

    /// Takes in that the guard has taken the daemon for dead and undone its effects.
    fn lapsed(&mut self, at: Moment);

    /// Ends in order. State that is to be saved is among the [effects](Service::effects) afterwards.
    ///
    /// # Errors
    /// Effects that stay; the guard undoes them.
    fn stop(&mut self, at: Moment) -> Result<(), Self::Error>;
}
