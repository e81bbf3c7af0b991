//! One connection: a request, and its response or its stream of events.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::poll::PollFlags;
use nix::sys::socket::{setsockopt, sockopt};

use super::message::{Body, MAX_BODY, MAX_HEAD, Parsed, Request, Response};

/// Bytes of a response that wait in the kernel, which charges them to the daemon's memory.
const SEND_BUFFER: usize = 128 * 1024;
/// Time without an event after which a stream sends a comment.
const COMMENT_INTERVAL: Duration = Duration::from_secs(15);

pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }

    fn prepare(&self) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_nonblocking(true)?,
            Stream::Unix(stream) => stream.set_nonblocking(true)?,
        }
        let _ = setsockopt(&self.as_fd(), sockopt::SndBuf, &SEND_BUFFER);
        Ok(())
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        }
    }
}

/// State of a connection.
pub(super) enum Phase {
    /// The request arrives.
    Reading(Vec<u8>),
    /// The request has no response yet.
    Waiting(Request),
    /// The response leaves.
    Sending { response: Response, sent: usize },
    /// Events leave; `seen`: number of the last one.
    Streaming { seen: Option<u64>, current: Option<(Response, usize)> },
}

pub(super) struct Connection<P> {
    pub stream: Stream,
    pub phase: Phase,
    pub pending: P,
    opened: Instant,
    /// Begin of the phase, or of the present event.
    since: Instant,
    /// Bytes sent since the connection was opened.
    total: usize,
}

impl<P: Default> Connection<P> {
    pub(super) fn new(stream: Stream, now: Instant) -> io::Result<Self> {
        stream.prepare()?;
        let phase = Phase::Reading(Vec::new());
        Ok(Connection { stream, phase, pending: P::default(), opened: now, since: now, total: 0 })
    }

    pub(super) fn wants(&self) -> PollFlags {
        match &self.phase {
            Phase::Sending { .. } | Phase::Streaming { current: Some(_), .. } => PollFlags::POLLOUT,
            // A stream's reader sends nothing: its end becomes visible.
            Phase::Reading(_) | Phase::Streaming { .. } => PollFlags::POLLIN,
            Phase::Waiting(_) => PollFlags::empty(),
        }
    }

    pub(super) fn is_stream(&self) -> bool {
        matches!(self.phase, Phase::Streaming { .. })
    }

    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.phase, Phase::Waiting(_))
    }

    /// Returns bytes per second since the connection was opened.
    pub(super) fn speed(&self, now: Instant) -> f64 {
        self.total as f64 / (now.duration_since(self.opened).as_secs_f64() + 1e-3)
    }

    /// True if a request, a response or an event has taken too long.
    pub(super) fn is_late(&self, now: Instant, patience: Duration) -> bool {
        let idle = matches!(self.phase, Phase::Streaming { current: None, .. });
        !idle && now.duration_since(self.since) >= patience
    }

    pub(super) fn send(&mut self, now: Instant, response: Response) {
        (self.phase, self.since) = (Phase::Sending { response, sent: 0 }, now);
        self.pending = P::default();
    }

    pub(super) fn stream_events(&mut self, now: Instant, head: Response) {
        self.phase = Phase::Streaming { seen: None, current: Some((head, 0)) };
        self.since = now;
        self.pending = P::default();
    }

    /// Returns the number of the last event of a stream that has sent all of it.
    pub(super) fn idle_stream(&self) -> Option<Option<u64>> {
        match &self.phase {
            Phase::Streaming { seen, current: None } => Some(*seen),
            _ => None,
        }
    }

    pub(super) fn is_quiet(&self, now: Instant) -> bool {
        now.duration_since(self.since) >= COMMENT_INTERVAL
    }

    pub(super) fn send_event(&mut self, now: Instant, number: u64, body: Body) {
        let event = Response::event(body);
        self.phase = Phase::Streaming { seen: Some(number), current: Some((event, 0)) };
        self.since = now;
    }

    pub(super) fn keep_alive(&mut self, now: Instant) {
        if let Phase::Streaming { current, .. } = &mut self.phase {
            *current = Some((Response::event(Body::Static(b":\n\n")), 0));
            self.since = now;
        }
    }

    /// Returns the shared body that is being sent, and the begin of its transfer.
    pub(super) fn holds(&self) -> Option<(Instant, &Arc<Vec<u8>>)> {
        let response = match &self.phase {
            Phase::Sending { response, .. } => response,
            Phase::Streaming { current: Some((response, _)), .. } => response,
            _ => return None,
        };
        Some((self.since, response.body().shared()?))
    }

    /// Reads or writes what is possible at once; returns `false` at the end of the connection.
    pub(super) fn transfer(&mut self, now: Instant) -> bool {
        match self.try_transfer(now) {
            Ok(open) => open,
            Err(e) => matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }

    fn try_transfer(&mut self, now: Instant) -> io::Result<bool> {
        match &mut self.phase {
            Phase::Reading(bytes) => {
                let mut buffer = [0; 2048];
                let n = self.stream.read(&mut buffer)?;
                bytes.extend_from_slice(&buffer[..n]);
                match Request::parse(bytes) {
                    Parsed::Partial if n == 0 || bytes.len() > MAX_HEAD + MAX_BODY => {
                        return Ok(false);
                    }
                    Parsed::Partial => {}
                    Parsed::Complete(request) => {
                        (self.phase, self.since) = (Phase::Waiting(request), now);
                    }
                    Parsed::Refused(status, text) => {
                        self.send(now, Response::text(status, text));
                        return self.try_transfer(now);
                    }
                }
                Ok(true)
            }
            // Its end is noticed when the response is sent.
            Phase::Waiting(_) => Ok(true),
            Phase::Sending { response, sent } => {
                let n = self.stream.write(response.rest(*sent))?;
                (*sent, self.total) = (*sent + n, self.total + n);
                // Whether the reader is fast shows at the next turn: others come first.
                Ok(n > 0 && *sent < response.len())
            }
            Phase::Streaming { current: Some((response, sent)), seen } => {
                let n = self.stream.write(response.rest(*sent))?;
                (*sent, self.total) = (*sent + n, self.total + n);
                if *sent >= response.len() {
                    let seen = *seen;
                    (self.phase, self.since) = (Phase::Streaming { seen, current: None }, now);
                }
                Ok(n > 0)
            }
            Phase::Streaming { current: None, .. } => {
                let mut buffer = [0; 512];
                Ok(self.stream.read(&mut buffer)? > 0)
            }
        }
    }
}
