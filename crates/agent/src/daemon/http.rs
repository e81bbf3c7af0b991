//! The metrics page over HTTP/1, on one thread, with bounded connections, memory and time.
//!
//! All readers of one page share its text. The number of connections, the bytes of all pages that are still being sent
//! and the time of a connection are bounded; the slowest readers are dropped first.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{setsockopt, sockopt};

/// Largest number of connections.
const CONNECTIONS: usize = 32;
/// Largest request, bytes.
const REQUEST: usize = 8 * 1024;
/// Longest duration of a connection.
const DEADLINE: Duration = Duration::from_secs(10);
/// Longest age of a page that is served again.
const FRESH: Duration = Duration::from_millis(500);
/// Largest number of pages in memory, including the newest one.
const PAGES: usize = 2;
/// Bytes of a response that wait in the kernel, which charges them to the daemon's memory.
const SEND_BUFFER: usize = 128 * 1024;
/// Pause after a failed `accept`.
const PAUSE: Duration = Duration::from_millis(100);

/// A page, shared by all of its readers.
type Page = Arc<String>;

struct Connection {
    stream: TcpStream,
    since: Instant,
    request: Vec<u8>,
    response: Option<Response>,
    /// Bytes of the response that are sent.
    sent: usize,
}

/// Status line and headers, and the body that follows them.
#[derive(Debug)]
pub struct Response {
    head: Vec<u8>,
    body: Page,
}

impl Response {
    /// Returns the response as one piece.
    pub fn bytes(&self) -> Vec<u8> {
        [&self.head, self.body.as_bytes()].concat()
    }

    fn len(&self) -> usize {
        self.head.len() + self.body.len()
    }

    /// Returns the next bytes after the first `sent`.
    fn rest(&self, sent: usize) -> &[u8] {
        match self.head.get(sent..) {
            Some(head) if !head.is_empty() => head,
            _ => self.body.as_bytes().get(sent - self.head.len()..).unwrap_or_default(),
        }
    }
}

/// Serves `/metrics` on a separate thread until the process ends.
///
/// `page` returns the text, or `None` if it is not available in time.
///
/// # Errors
/// The address is in use, or does not belong to this machine.
pub fn serve(
    address: SocketAddr,
    page: impl Fn() -> Option<String> + Send + 'static,
) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let bound = listener.local_addr()?;
    let mut server = Server { listener, connections: Vec::new(), last: None };
    std::thread::Builder::new().name("metrics".into()).spawn(move || {
        loop {
            let turn = catch_unwind(AssertUnwindSafe(|| server.turn(&page)));
            if turn.is_err() {
                // One of the connections caused it.
                server.connections.clear();
                std::thread::sleep(PAUSE);
            }
        }
    })?;
    Ok(bound)
}

struct Server {
    listener: TcpListener,
    connections: Vec<Connection>,
    /// The newest page and its time; `None` inside if it was not available.
    last: Option<(Instant, Option<Page>)>,
}

impl Server {
    /// Waits for events and handles them.
    fn turn(&mut self, page: &impl Fn() -> Option<String>) {
        let (readable, ready) = {
            let mut fds = vec![PollFd::new(self.listener.as_fd(), PollFlags::POLLIN)];
            fds.extend(self.connections.iter().map(|c| {
                let wants =
                    if c.response.is_none() { PollFlags::POLLIN } else { PollFlags::POLLOUT };
                PollFd::new(c.stream.as_fd(), wants)
            }));
            if poll(&mut fds, PollTimeout::from(1000_u16)).is_err() {
                std::thread::sleep(PAUSE);
            }
            let some = |fd: &PollFd<'_>| fd.revents().is_some_and(|r| !r.is_empty());
            (some(&fds[0]), fds[1..].iter().map(some).collect::<Vec<_>>())
        };
        let mut requested = false;
        let mut ready = ready.into_iter();
        self.connections.retain_mut(|c| {
            let open = !ready.next().unwrap_or(false) || c.transfer();
            requested |= open && c.is_complete();
            open && c.since.elapsed() < DEADLINE
        });
        if requested {
            self.respond(page);
        }
        if readable {
            self.accept();
        }
    }

    /// Responds to all complete requests, from one page.
    fn respond(&mut self, page: &impl Fn() -> Option<String>) {
        if self.last.as_ref().is_none_or(|(at, _)| at.elapsed() > FRESH) {
            self.last = None;
            self.drop_slowest_page();
            let text = page().map(|mut text| {
                text.shrink_to_fit();
                Arc::new(text)
            });
            self.last = Some((Instant::now(), text));
        }
        let newest = self.last.as_ref().and_then(|(_, page)| page.clone());
        self.connections.retain_mut(|c| {
            if !c.is_complete() {
                return true;
            }
            c.response = Some(respond(&c.request, || newest.clone()));
            c.request = Vec::new();
            c.transfer()
        });
    }

    /// Drops the readers of old pages until there is room for another page.
    fn drop_slowest_page(&mut self) {
        loop {
            let mut pages: Vec<&Page> = Vec::new();
            let bodies = self.connections.iter().filter_map(|c| Some(&c.response.as_ref()?.body));
            for body in bodies {
                if !pages.iter().any(|p| Arc::ptr_eq(p, body)) {
                    pages.push(body);
                }
            }
            if pages.len() < PAGES {
                return;
            }
            // Connections are in the order of their arrival, so the first page is the oldest.
            let oldest = pages[0].clone();
            self.connections
                .retain(|c| c.response.as_ref().is_none_or(|r| !Arc::ptr_eq(&r.body, &oldest)));
        }
    }

    fn accept(&mut self) {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    if stream.set_nonblocking(true).is_err() {
                        continue;
                    }
                    let _ = setsockopt(&stream, sockopt::SndBuf, &SEND_BUFFER);
                    if self.connections.len() >= CONNECTIONS {
                        let slowest = slowest(&self.connections);
                        self.connections.remove(slowest);
                    }
                    let (since, request) = (Instant::now(), Vec::new());
                    let response = None;
                    self.connections.push(Connection { stream, since, request, response, sent: 0 });
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    // Most likely no file descriptor is left: the connections make room.
                    self.connections.clear();
                    std::thread::sleep(PAUSE);
                    return;
                }
            }
        }
    }
}

/// Returns the index of the slowest connection by bytes per second; of equals the oldest.
///
/// `connections` must not be empty.
fn slowest(connections: &[Connection]) -> usize {
    let rate = |c: &Connection| c.sent as f64 / (c.since.elapsed().as_secs_f64() + 1e-3);
    let all = connections.iter().map(rate).enumerate();
    all.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(i, _)| i)
}

impl Connection {
    /// True if the request is complete and has no response yet.
    fn is_complete(&self) -> bool {
        let ends = |end: &[u8]| self.request.windows(end.len()).any(|w| w == end);
        self.response.is_none() && (ends(b"\r\n\r\n") || ends(b"\n\n"))
    }

    /// Reads or writes what is possible at once; returns `false` at the end of the connection.
    fn transfer(&mut self) -> bool {
        let transferred = match &self.response {
            None => {
                let mut buffer = [0; 2048];
                self.stream.read(&mut buffer).map(|n| {
                    self.request.extend_from_slice(&buffer[..n]);
                    n > 0 && (self.request.len() <= REQUEST || self.is_complete())
                })
            }
            Some(response) => self.stream.write(response.rest(self.sent)).map(|n| {
                self.sent += n;
                self.sent < response.len()
            }),
        };
        transferred
            .unwrap_or_else(|e| matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted))
    }
}

/// Returns the response to a request (RFC 9112 §4, RFC 9110 §15).
pub fn respond(request: &[u8], page: impl FnOnce() -> Option<Page>) -> Response {
    let line = request.split(|b| *b == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_whitespace();
    let (method, target) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let text = |text: &str| Arc::new(text.to_owned());
    let (status, body) = match (method, target.split('?').next()) {
        ("GET" | "HEAD", Some("/metrics")) => match page() {
            Some(page) => ("200 OK", page),
            None => ("503 Service Unavailable", text("busy\n")),
        },
        ("GET" | "HEAD", Some(path)) if path.starts_with('/') => {
            ("404 Not Found", text("try /metrics\n"))
        }
        _ => ("400 Bad Request", text("expected GET /metrics\n")),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    let body = if method == "HEAD" { Page::default() } else { body };
    Response { head: head.into_bytes(), body }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(page: impl Fn() -> Option<String> + Send + 'static) -> SocketAddr {
        serve("127.0.0.1:0".parse().unwrap(), page).unwrap()
    }

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn only_the_page_is_served() {
        let address = served(|| Some("a 1\n".into()));
        let page = ask(address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(
            page.starts_with("HTTP/1.1 200 OK\r\n") && page.ends_with("\r\n\r\na 1\n"),
            "{page}"
        );
        assert!(ask(address, "GET /metrics?x=1 HTTP/1.0\n\n").contains("a 1"));
        assert!(ask(address, "HEAD /metrics HTTP/1.0\r\n\r\n").ends_with("\r\n\r\n"));
        assert!(ask(address, "GET / HTTP/1.0\r\n\r\n").contains(" 404 "));
        assert!(ask(address, "POST /metrics HTTP/1.0\r\n\r\n").contains(" 400 "));
        assert!(ask(address, "\r\n\r\n").contains(" 400 "));
        assert!(ask(served(|| None), "GET /metrics HTTP/1.0\r\n\r\n").contains(" 503 "));
    }

    #[test]
    fn a_long_page_arrives_whole() {
        let text = "x".repeat(5_000_000);
        let address = served(move || Some(text.clone()));
        let page = ask(address, "GET /metrics HTTP/1.0\r\n\r\n");
        assert_eq!(page.split("\r\n\r\n").nth(1).unwrap().len(), 5_000_000);
    }

    /// Readers of the same time have one copy of the page, and at most two pages are in memory.
    #[test]
    fn slow_readers_share_a_page_and_the_slowest_are_dropped() {
        let mut made = Vec::new();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let mut server = Server { listener, connections: Vec::new(), last: None };
        let page = || Some("x".repeat(4_000_000));
        let mut readers = Vec::new();
        for _ in 0..4 {
            for _ in 0..8 {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
                readers.push(stream);
            }
            for _ in 0..20 {
                server.turn(&page);
                if server.connections.iter().all(|c| c.response.is_some())
                    && !server.connections.is_empty()
                {
                    break;
                }
            }
            let bodies = server.connections.iter().filter_map(|c| Some(&c.response.as_ref()?.body));
            made.extend(bodies.map(Arc::downgrade));
            let alive = made.iter().filter_map(std::sync::Weak::upgrade);
            let mut distinct: Vec<*const String> = alive.map(|p| Arc::as_ptr(&p)).collect();
            distinct.sort_unstable();
            distinct.dedup();
            assert!((1..=PAGES).contains(&distinct.len()), "{} pages", distinct.len());
            std::thread::sleep(FRESH + Duration::from_millis(10));
        }
    }

    #[test]
    fn half_open_requests_leave_room_for_others() {
        let address = served(|| Some("a 1\n".into()));
        let mut half = Vec::new();
        for _ in 0..600 {
            let mut stream = TcpStream::connect(address).unwrap();
            // Earlier ones may be closed already.
            let _ = stream.write_all(b"GET /met");
            half.push(stream);
        }
        assert!(ask(address, "GET /metrics HTTP/1.0\r\n\r\n").contains("a 1"));
        drop(half);
    }

    #[test]
    fn a_request_without_end_is_cut_off() {
        let address = served(|| Some("a 1\n".into()));
        let mut stream = TcpStream::connect(address).unwrap();
        let cut = (0..10_000).any(|_| stream.write_all(&[b'x'; 1024]).is_err());
        assert!(cut);
    }
}
