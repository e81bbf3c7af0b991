//! An HTTP/1.1 server on one thread, with bounded connections, memory and time.
//!
//! A [`Site`] has the content; it never blocks. All readers of one body share it. The number of connections, the bodies
//! that are still being sent and the time of a transfer are bounded; the slowest readers are dropped first. A stream of
//! server-sent events skips what its reader is too slow for.

mod connection;
mod message;
mod metrics;

use std::io::{self, ErrorKind};
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::endpoint::Endpoint;
use connection::{Connection, Phase, Stream};
pub use message::{Body, Parsed, Request, Response, Status};
pub use metrics::Metrics;

/// Pause after a failed `accept`.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Time between two looks for a result that is on its way.
const RESULT_POLL: Duration = Duration::from_millis(5);
/// Longest time between two looks at deadlines.
const DEADLINE_POLL: Duration = Duration::from_secs(1);

/// Bounds of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Most connections, including the streams.
    pub connections: usize,
    /// Most streams of events.
    pub streams: usize,
    /// Most different bodies in memory, including the newest one.
    pub bodies: usize,
    /// Longest time of a request, of a response, and of one event of a stream.
    pub patience: Duration,
}

/// Connections that wait for content.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Demand {
    /// Requests without a response.
    pub requests: usize,
    /// Streams of events.
    pub streams: usize,
}

/// Result of a request.
#[derive(Debug)]
pub enum Answer {
    /// The response.
    Response(Response),
    /// Not known yet; the request is offered again.
    Wait,
    /// A stream of events, with these headers.
    Events(&'static [(&'static str, &'static str)]),
}

/// Content of a server. No call may block.
pub trait Site: Send + 'static {
    /// State of one request, such as a question to the daemon that has no answer yet.
    type Pending: Default + Send;

    /// True if the site would fetch new content now; room is made for it before [`Site::fetch`].
    fn wants(&self, now: Instant, demand: Demand) -> bool;

    /// Begins to fetch new content, and discards older content.
    fn fetch(&mut self, now: Instant);

    /// Takes what has arrived; returns true while something is on its way.
    fn poll(&mut self, now: Instant) -> bool;

    /// Responds to a request.
    fn respond(&mut self, now: Instant, request: &Request, pending: &mut Self::Pending) -> Answer;

    /// Returns the next event of a stream that has seen the event of this number, and its number.
    fn event(&mut self, seen: Option<u64>) -> Option<(u64, Body)>;
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    fn open(endpoint: &Endpoint) -> io::Result<Listener> {
        match endpoint {
            Endpoint::Tcp(address) => {
                let listener = TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                Ok(Listener::Tcp(listener))
            }
            Endpoint::Unix(path) => {
                // The daemon that created it is gone, since this process holds the lock.
                match std::fs::symlink_metadata(path) {
                    Ok(meta) if std::os::unix::fs::FileTypeExt::is_socket(&meta.file_type()) => {
                        std::fs::remove_file(path)?;
                    }
                    Ok(_) => {
                        let problem = "exists and is not a socket; expected a free path";
                        return Err(io::Error::new(ErrorKind::AlreadyExists, problem));
                    }
                    Err(_) => {}
                }
                let listener = UnixListener::bind(path)?;
                // As readable as a port of the loopback interface.
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666))?;
                listener.set_nonblocking(true)?;
                Ok(Listener::Unix(listener))
            }
        }
    }

    fn bound(&self, asked: &Endpoint) -> io::Result<Endpoint> {
        match self {
            Listener::Tcp(listener) => Ok(Endpoint::Tcp(listener.local_addr()?)),
            Listener::Unix(_) => Ok(asked.clone()),
        }
    }

    fn accept(&self) -> io::Result<Stream> {
        match self {
            Listener::Tcp(listener) => Ok(Stream::Tcp(listener.accept()?.0)),
            Listener::Unix(listener) => Ok(Stream::Unix(listener.accept()?.0)),
        }
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Tcp(listener) => listener.as_fd(),
            Listener::Unix(listener) => listener.as_fd(),
        }
    }
}

/// Serves a site on a separate thread until the process ends.
///
/// Returns the endpoint with the port that was chosen for port 0.
///
/// # Errors
/// Returns an error if the endpoint is in use, or does not belong to this machine.
pub fn serve<S: Site>(
    name: &str,
    endpoint: &Endpoint,
    site: S,
    limits: Limits,
) -> io::Result<Endpoint> {
    let listener = Listener::open(endpoint)?;
    let bound = listener.bound(endpoint)?;
    let mut server = Server { listener, connections: Vec::new(), site, limits };
    std::thread::Builder::new().name(name.into()).spawn(move || {
        loop {
            if catch_unwind(AssertUnwindSafe(|| server.turn(DEADLINE_POLL))).is_err() {
                // One of the connections caused it.
                server.connections.clear();
                std::thread::sleep(ACCEPT_PAUSE);
            }
        }
    })?;
    Ok(bound)
}

struct Server<S: Site> {
    listener: Listener,
    connections: Vec<Connection<S::Pending>>,
    site: S,
    limits: Limits,
}

impl<S: Site> Server<S> {
    /// Handles what is due, and waits at most this long for events.
    fn turn(&mut self, wait: Duration) {
        let now = Instant::now();
        let busy = self.site.poll(now);
        self.respond(now);
        if self.site.wants(now, self.demand()) {
            self.make_room();
            self.site.fetch(now);
            self.site.poll(now);
            self.respond(now);
        }
        self.feed(now);
        let waiting = self.demand().requests > 0;
        let readable = self.transfer(if busy || waiting { RESULT_POLL } else { wait });
        if readable {
            self.accept();
        }
    }

    fn demand(&self) -> Demand {
        let count =
            |of: fn(&Phase) -> bool| self.connections.iter().filter(|c| of(&c.phase)).count();
        Demand {
            requests: count(|p| matches!(p, Phase::Waiting(_))),
            streams: count(|p| matches!(p, Phase::Streaming { .. })),
        }
    }

    /// Waits, reads and writes; returns true if there is a new connection.
    fn transfer(&mut self, wait: Duration) -> bool {
        let ready: Vec<PollFlags> = {
            let mut fds = vec![PollFd::new(self.listener.as_fd(), PollFlags::POLLIN)];
            fds.extend(self.connections.iter().map(|c| PollFd::new(c.stream.as_fd(), c.wants())));
            let wait = PollTimeout::try_from(wait).unwrap_or(PollTimeout::MAX);
            if poll(&mut fds, wait).is_err() {
                std::thread::sleep(ACCEPT_PAUSE);
            }
            fds.iter().map(|fd| fd.revents().unwrap_or(PollFlags::empty())).collect()
        };
        let (now, patience) = (Instant::now(), self.limits.patience);
        let mut flags = ready[1..].iter();
        self.connections.retain_mut(|c| {
            let flags = flags.next().copied().unwrap_or(PollFlags::empty());
            let gone = flags.intersects(PollFlags::POLLHUP | PollFlags::POLLERR) && c.is_waiting();
            !gone && (flags.is_empty() || c.transfer(now)) && !c.is_late(now, patience)
        });
        !ready[0].is_empty()
    }

    /// Offers the site every request that has no response.
    fn respond(&mut self, now: Instant) {
        let mut streams = self.demand().streams;
        let (site, most) = (&mut self.site, self.limits.streams);
        self.connections.retain_mut(|c| {
            let Phase::Waiting(request) = &c.phase else { return true };
            let response = match site.respond(now, request, &mut c.pending) {
                Answer::Wait => return true,
                Answer::Response(response) if request.method == "HEAD" => response.without_body(),
                Answer::Response(response) => response,
                Answer::Events(_) if streams >= most => {
                    let text = "too many streams of events; poll instead\n";
                    let body = Body::Static(text.as_bytes());
                    let retry = [("Retry-After", "10")];
                    Response::new(Status::Unavailable, "text/plain; charset=utf-8", &retry, body)
                }
                Answer::Events(headers) => {
                    streams += 1;
                    let kind = "text/event-stream; charset=utf-8";
                    c.stream_events(now, Response::stream(Status::Ok, kind, headers));
                    return c.transfer(now);
                }
            };
            c.send(now, response);
            c.transfer(now)
        });
    }

    /// Gives idle streams their next event.
    fn feed(&mut self, now: Instant) {
        let site = &mut self.site;
        self.connections.retain_mut(|c| {
            while let Some(seen) = c.idle_stream() {
                match site.event(seen) {
                    Some((number, body)) => c.send_event(now, number, body),
                    None if c.is_quiet(now) => c.keep_alive(now),
                    None => return true,
                }
                if !c.transfer(now) {
                    return false;
                }
            }
            true
        });
    }

    /// Drops the readers of the oldest bodies until there is room for another body.
    fn make_room(&mut self) {
        loop {
            let mut bodies: Vec<(Instant, &Arc<Vec<u8>>)> = Vec::new();
            for (since, body) in self.connections.iter().filter_map(Connection::holds) {
                match bodies.iter_mut().find(|(_, b)| Arc::ptr_eq(b, body)) {
                    Some((first, _)) => *first = since.min(*first),
                    None => bodies.push((since, body)),
                }
            }
            if bodies.len() < self.limits.bodies {
                return;
            }
            let oldest = bodies.into_iter().min_by_key(|(since, _)| *since);
            let Some(oldest) = oldest.map(|(_, body)| body.clone()) else { return };
            self.connections.retain(|c| c.holds().is_none_or(|(_, b)| !Arc::ptr_eq(b, &oldest)));
        }
    }

    fn accept(&mut self) {
        loop {
            match self.listener.accept() {
                Ok(stream) => {
                    let Ok(connection) = Connection::new(stream, Instant::now()) else { continue };
                    if self.connections.len() >= self.limits.connections {
                        let slowest = slowest(&self.connections);
                        self.connections.remove(slowest);
                    }
                    self.connections.push(connection);
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    // Most likely no file descriptor is left: the connections make room.
                    self.connections.clear();
                    std::thread::sleep(ACCEPT_PAUSE);
                    return;
                }
            }
        }
    }
}

/// Returns the index of the slowest connection by bytes per second; of equals the oldest.
///
/// Streams come last: there are fewer of them than connections. `connections` must not be empty.
fn slowest<P: Default>(connections: &[Connection<P>]) -> usize {
    let now = Instant::now();
    let all = connections.iter().map(|c| (c.is_stream(), c.speed(now))).enumerate();
    all.min_by(|a, b| a.1.0.cmp(&b.1.0).then(a.1.1.total_cmp(&b.1.1))).map_or(0, |(i, _)| i)
}

#[cfg(test)]
mod tests;
