//! The page of the metrics over HTTP/1: one thread, so many connections, each for so long and of
//! such a size. Whatever comes in, the rest of the daemon does not notice.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Connections at a time; for one more the oldest goes.
const MOST: usize = 32;
/// The longest request.
const LONGEST: usize = 8 * 1024;
/// The longest that a connection lasts.
const PATIENCE: Duration = Duration::from_secs(10);
/// A page is this old at most.
const FRESH: Duration = Duration::from_millis(500);
/// The wait after a failure to accept.
const PAUSE: Duration = Duration::from_millis(100);

struct Connection {
    stream: TcpStream,
    since: Instant,
    request: Vec<u8>,
    response: Vec<u8>,
    sent: usize,
}

/// Serves `/metrics` on a thread of its own, until the process ends. `page` gives the text, or
/// nothing when it cannot now.
///
/// # Errors
/// The address is taken or not this machine's.
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
                // Whoever made it fail is among them.
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
    last: Option<(Instant, Option<String>)>,
}

impl Server {
    /// Waits for something to do and does it.
    fn turn(&mut self, page: &impl Fn() -> Option<String>) {
        let (readable, ready) = {
            let mut fds = vec![PollFd::new(self.listener.as_fd(), PollFlags::POLLIN)];
            fds.extend(self.connections.iter().map(|c| {
                let wants =
                    if c.response.is_empty() { PollFlags::POLLIN } else { PollFlags::POLLOUT };
                PollFd::new(c.stream.as_fd(), wants)
            }));
            if poll(&mut fds, PollTimeout::from(1000_u16)).is_err() {
                std::thread::sleep(PAUSE);
            }
            let some = |fd: &PollFd<'_>| fd.revents().is_some_and(|r| !r.is_empty());
            (some(&fds[0]), fds[1..].iter().map(some).collect::<Vec<_>>())
        };
        let mut ready = ready.into_iter();
        let last = &mut self.last;
        self.connections.retain_mut(|c| {
            let go_on = !ready.next().unwrap_or(false) || c.step(|| cached(last, page));
            go_on && c.since.elapsed() < PATIENCE
        });
        if readable {
            self.accept();
        }
    }

    fn accept(&mut self) {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    if stream.set_nonblocking(true).is_err() {
                        continue;
                    }
                    if self.connections.len() >= MOST {
                        self.connections.remove(0);
                    }
                    let since = Instant::now();
                    let (request, response) = (Vec::new(), Vec::new());
                    self.connections.push(Connection { stream, since, request, response, sent: 0 });
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    // Out of files, likely: those that wait make room.
                    self.connections.clear();
                    std::thread::sleep(PAUSE);
                    return;
                }
            }
        }
    }
}

/// The page, made anew at most so often: a flood of questions is no work for the daemon.
fn cached(
    last: &mut Option<(Instant, Option<String>)>,
    page: &impl Fn() -> Option<String>,
) -> Option<String> {
    if last.as_ref().is_none_or(|(at, _)| at.elapsed() > FRESH) {
        let text = page();
        *last = Some((Instant::now(), text));
    }
    last.as_ref().and_then(|(_, text)| text.clone())
}

impl Connection {
    /// Reads or writes what is possible; `false` when it is over.
    fn step(&mut self, page: impl FnOnce() -> Option<String>) -> bool {
        if self.response.is_empty() {
            let mut buffer = [0; 2048];
            match self.stream.read(&mut buffer) {
                Ok(0) => return false,
                Ok(n) => self.request.extend_from_slice(&buffer[..n]),
                Err(e) => {
                    return matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted);
                }
            }
            let whole = |end: &[u8]| self.request.windows(end.len()).any(|w| w == end);
            if whole(b"\r\n\r\n") || whole(b"\n\n") {
                self.response = respond(&self.request, page);
            } else {
                return self.request.len() <= LONGEST;
            }
        }
        match self.stream.write(&self.response[self.sent..]) {
            Ok(n) => self.sent += n,
            Err(e) => return matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
        self.sent < self.response.len()
    }
}

/// The answer to a request (RFC 9112 §4, RFC 9110 §15).
pub fn respond(request: &[u8], page: impl FnOnce() -> Option<String>) -> Vec<u8> {
    let line = request.split(|b| *b == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_whitespace();
    let (method, target) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let (status, text) = match (method, target.split('?').next()) {
        ("GET" | "HEAD", Some("/metrics")) => match page() {
            Some(text) => ("200 OK", text),
            None => ("503 Service Unavailable", "busy\n".to_owned()),
        },
        ("GET" | "HEAD", Some(path)) if path.starts_with('/') => {
            ("404 Not Found", "try /metrics\n".to_owned())
        }
        _ => ("400 Bad Request", "expected GET /metrics\n".to_owned()),
    };
    let mut out = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        text.len()
    );
    if method != "HEAD" {
        out += &text;
    }
    out.into_bytes()
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
    fn the_page_and_what_is_none() {
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

    /// So many ended the daemon once.
    #[test]
    fn half_open_requests_keep_nobody_out() {
        let address = served(|| Some("a 1\n".into()));
        let mut half = Vec::new();
        for _ in 0..600 {
            let mut stream = TcpStream::connect(address).unwrap();
            // Those that came before may be gone already.
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
