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
    /// Seconds since 1970 by the system's clock; may jump.
    pub wall: u64,
}

/// An effect on files, carried out by the runtime after the call that requested it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Replaces the stored state.
    Save(String),
    /// Replaces a small part of the state that changes often, and is not forced onto the disk.
    SavePart {
        /// File name in the folder of the state.
        name: &'static str,
        /// Content.
        text: String,
    },
    /// Stores the text of the configuration in force as the last one that worked.
    KeepConfiguration(String),
    /// Replaces a file for other readers.
    Publish {
        /// Path.
        file: PathBuf,
        /// Content.
        text: String,
    },
}

/// A daemon's state machine: inputs and time in; responses, metrics, state and effects out.
///
/// A service owns no clock, no control socket and no file; the [runtime](super::runtime) has them. Calls return soon:
/// long operations belong on a thread that sends an [`Service::Input`].
pub trait Service {
    /// An event from outside, such as a change of an interface or the result of a source.
    type Input: Send + 'static;
    /// Reason why the service could not end properly.
    type Error: Display;

    /// Carries out everything that is due; returns the latest time of the next call.
    fn turn(&mut self, at: Moment) -> Time;

    /// Handles an event.
    fn input(&mut self, at: Moment, input: Self::Input);

    /// Handles a request of the control socket: one line, without its end.
    fn request(&mut self, at: Moment, line: &str) -> Response;

    /// Reads the configuration again; an invalid one changes nothing and is an event.
    fn reload(&mut self, at: Moment);

    /// Returns the page of the metrics in Prometheus text format.
    fn metrics(&self, at: Moment, process: Option<Resources>) -> String;

    /// Returns the named events, which the runtime prints.
    fn journal(&mut self) -> &mut Journal;

    /// Returns the effects requested since the last call, in order.
    fn effects(&mut self) -> Vec<Effect>;

    /// Handles the result of an effect.
    fn performed(&mut self, at: Moment, effect: &Effect, result: io::Result<()>);

    /// Returns the longest time between two calls before the guard acts.
    fn patience(&self) -> Duration;

    /// Handles the case that the guard has undone the effects because of a late heartbeat.
    fn lapsed(&mut self, at: Moment);

    /// Ends the service. State to be saved is among the [effects](Service::effects) afterwards.
    ///
    /// # Errors
    /// Effects that stay; the guard undoes them.
    fn stop(&mut self, at: Moment) -> Result<(), Self::Error>;
}
