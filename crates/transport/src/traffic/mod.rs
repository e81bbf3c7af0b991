//! Applications: the timing of their connections, writes, datagrams and closes.
//!
//! A [`Source`] is one flow's application, both ends of it. It takes the time and the delivered
//! bytes, and returns actions for the host ([`Action`]). It draws from its own random stream and never
//! uses a connection itself.
//!
//! **Direction.** A flow goes from a node to a node, and its goodput counts application bytes in
//! that direction. The client of a connection is the end that connects; [`TrafficSpec::opener`]
//! gives its place: the flow's origin for uploads, the destination for [`TrafficSpec::Http`], where
//! the responses are the flow's bytes.

mod cbr;
mod file;
mod http;
mod limited;
mod spec;
#[cfg(test)]
mod tests;

use fairmesh_units::{Span, Stream, Time};

pub use self::spec::{FlowEnd, Pause, RequestTiming, SizeLaw, TrafficError, TrafficSpec};
use self::{cbr::Cbr, file::Files, http::Http, limited::Limited};

/// An end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The end that connects.
    Client,
    /// The end that accepts.
    Server,
}

/// An action that an application requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Drop the flow's connection, if any, and open a new one.
    ///
    /// Segments of an earlier one that are still in transit must not reach the new one.
    Connect,
    /// Write to the connection; `u64::MAX` bytes is an endless source.
    Write {
        /// The end that writes.
        side: Side,
        /// Number of bytes.
        bytes: u64,
    },
    /// Send a UDP datagram from the flow's origin.
    Datagram {
        /// Payload, in bytes.
        bytes: u32,
    },
    /// Close the client's end; the server closes in response.
    Close,
}

/// Consumer of actions.
pub(crate) type Out<'a> = &'a mut dyn FnMut(Action);

/// The application of one flow.
#[derive(Clone, Debug)]
pub struct Source {
    kind: Kind,
    next: Time,
    stop: Time,
    rng: Stream,
}

#[derive(Clone, Debug)]
enum Kind {
    Bulk,
    Files(Files),
    Cbr(Cbr),
    Http(Http),
    Limited(Limited),
}

impl Source {
    /// Builds an application that starts at `start` and stops at `stop` ([`Time::NEVER`]: never).
    ///
    /// `spec` must be valid ([`TrafficSpec::validate`]).
    pub fn new(spec: &TrafficSpec, start: Time, stop: Time, rng: Stream) -> Self {
        let kind = match *spec {
            TrafficSpec::Bulk => Kind::Bulk,
            TrafficSpec::Files { size, pause, count } => {
                Kind::Files(Files::new(size, pause, count))
            }
            TrafficSpec::Cbr { rate, datagram, jitter } => {
                Kind::Cbr(Cbr::new(rate, datagram, jitter))
            }
            TrafficSpec::Http { request, response, asking, per_connection } => {
                Kind::Http(Http::new(request, response, asking, per_connection))
            }
            TrafficSpec::Limited { rate, chunk } => Kind::Limited(Limited::new(rate, chunk)),
        };
        Source { kind, next: if start < stop { start } else { Time::NEVER }, stop, rng }
    }

    /// Returns the instant at which [`on_deadline`](Source::on_deadline) must be called.
    ///
    /// [`Time::NEVER`] if the application only waits for data, or has finished.
    #[inline]
    pub fn next_deadline(&self) -> Time {
        self.next
    }

    /// Handles the deadline. Harmless when called early.
    pub fn on_deadline(&mut self, now: Time, out: &mut dyn FnMut(Action)) {
        if now < self.next {
            return;
        }
        if now >= self.stop {
            self.next = Time::NEVER;
            if !matches!(self.kind, Kind::Cbr(_)) {
                out(Action::Close);
            }
            return;
        }
        let next = match &mut self.kind {
            Kind::Bulk => {
                out(Action::Connect);
                out(Action::Write { side: Side::Client, bytes: u64::MAX });
                Time::NEVER
            }
            Kind::Files(files) => files.start(now, &mut self.rng, out),
            Kind::Cbr(cbr) => {
                let (bytes, next) = cbr.send(now, &mut self.rng);
                out(Action::Datagram { bytes });
                next
            }
            Kind::Http(http) => http.send_request(now, &mut self.rng, out),
            Kind::Limited(limited) => limited.write(now, out),
        };
        self.wait_until(next);
    }

    /// Returns the payload of the datagram that is due, bytes, without an action for it.
    ///
    /// It is the one that [`on_deadline`](Source::on_deadline) would have sent. `None`, without effect, if no
    /// datagram is due.
    #[inline]
    pub fn datagram(&mut self, now: Time) -> Option<u32> {
        let Kind::Cbr(cbr) = &mut self.kind else { return None };
        if now < self.next || now >= self.stop {
            return None;
        }
        let (bytes, next) = cbr.send(now, &mut self.rng);
        self.wait_until(next);
        Some(bytes)
    }

    /// Handles `bytes` of application data that are now in order at `side`.
    pub fn on_delivered(&mut self, now: Time, side: Side, bytes: u64, out: &mut dyn FnMut(Action)) {
        // After the stop there are no writes; data in transit may still arrive.
        let mut discard = |_| {};
        let out: Out = if now < self.stop { out } else { &mut discard };
        let next = match &mut self.kind {
            Kind::Files(files) => files.on_delivered(now, side, bytes, &mut self.rng),
            Kind::Http(http) => http.on_delivered(now, side, bytes, &mut self.rng, out),
            Kind::Bulk | Kind::Cbr(_) | Kind::Limited(_) => None,
        };
        if let Some(next) = next.filter(|_| now < self.stop) {
            self.wait_until(next);
        }
    }

    /// Returns the start of a file or request completed since the last call: each once, in order.
    pub fn completed(&mut self) -> Option<Time> {
        match &mut self.kind {
            Kind::Files(files) => files.arrived(),
            Kind::Http(http) => http.responses_completed(),
            Kind::Bulk | Kind::Cbr(_) | Kind::Limited(_) => None,
        }
    }

    /// Returns true if a file or response is in progress.
    ///
    /// Traffic without transfers always has something to send.
    #[inline]
    pub fn is_active(&self) -> bool {
        match &self.kind {
            Kind::Files(files) => files.is_active(),
            Kind::Http(http) => http.is_active(),
            Kind::Bulk | Kind::Cbr(_) | Kind::Limited(_) => true,
        }
    }

    /// Waits for `next` or the stop, whichever is earlier.
    #[inline]
    fn wait_until(&mut self, next: Time) {
        self.next = next.min(self.stop);
    }
}

/// Returns `span` multiplied by a factor.
#[inline]
fn scale(span: Span, factor: f64) -> Span {
    Span::from_nanos((span.as_nanos() as f64 * factor + 0.5) as u64)
}
