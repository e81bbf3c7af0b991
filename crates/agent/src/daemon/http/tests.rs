//! The server under readers that behave badly.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Weak, mpsc};

use super::*;

fn any() -> Endpoint {
    Endpoint::Tcp("127.0.0.1:0".parse().unwrap())
}

fn port(endpoint: Endpoint) -> SocketAddr {
    match endpoint {
        Endpoint::Tcp(address) => address,
        Endpoint::Unix(path) => panic!("{}", path.display()),
    }
}

/// Returns a site with pages that a function provides at once.
fn metrics(page: impl Fn() -> Option<String> + Send + 'static) -> Metrics {
    Metrics::new(move || {
        let (give, take) = mpsc::sync_channel(1);
        give.try_send(page()?).unwrap();
        Some(take)
    })
}

fn served(page: impl Fn() -> Option<String> + Send + 'static) -> SocketAddr {
    port(serve("metrics", &any(), metrics(page), Metrics::LIMITS).unwrap())
}

fn server<S: Site>(site: S, limits: Limits) -> (Server<S>, SocketAddr) {
    let listener = Listener::open(&any()).unwrap();
    let address = port(listener.bound(&any()).unwrap());
    (Server { listener, connections: Vec::new(), site, limits }, address)
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
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n") && page.ends_with("\r\n\r\na 1\n"), "{page}");
    assert!(ask(address, "GET /metrics?x=1 HTTP/1.0\n\n").contains("a 1"));
    assert!(ask(address, "HEAD /metrics HTTP/1.0\r\n\r\n").ends_with("\r\n\r\n"));
    assert!(ask(address, "GET / HTTP/1.0\r\n\r\n").contains(" 404 "));
    assert!(ask(address, "POST /metrics HTTP/1.0\r\n\r\n").contains(" 400 "));
    assert!(ask(address, "nonsense\r\n\r\n").contains(" 400 "));
    assert!(ask(served(|| None), "GET /metrics HTTP/1.0\r\n\r\n").contains(" 503 "));
}

/// The loop may take its time: the server serves other readers until then.
#[test]
fn a_page_that_is_on_its_way_blocks_no_other_reader() {
    let (ask_for, asked) = mpsc::channel();
    let address = served_later(ask_for);
    let waiting = std::thread::spawn(move || ask(address, "GET /metrics HTTP/1.0\r\n\r\n"));
    let give: mpsc::SyncSender<String> = asked.recv().unwrap();
    assert!(ask(address, "GET / HTTP/1.0\r\n\r\n").contains(" 404 "));
    give.send("late 1\n".into()).unwrap();
    assert!(waiting.join().unwrap().ends_with("late 1\n"));
}

fn served_later(ask_for: mpsc::Sender<mpsc::SyncSender<String>>) -> SocketAddr {
    let site = Metrics::new(move || {
        let (give, take) = mpsc::sync_channel(1);
        ask_for.send(give).ok()?;
        Some(take)
    });
    port(serve("metrics", &any(), site, Metrics::LIMITS).unwrap())
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
    let mut made: Vec<Weak<Vec<u8>>> = Vec::new();
    let (mut server, address) = server(metrics(|| Some("x".repeat(4_000_000))), Metrics::LIMITS);
    let mut readers = Vec::new();
    for _ in 0..4 {
        for _ in 0..8 {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
            readers.push(stream);
        }
        for _ in 0..40 {
            server.turn(Duration::from_millis(1));
            let held = server.connections.iter().filter(|c| c.holds().is_some()).count();
            if held == server.connections.len() && held > 0 {
                break;
            }
        }
        let bodies = server.connections.iter().filter_map(Connection::holds);
        made.extend(bodies.map(|(_, body)| Arc::downgrade(body)));
        let alive = made.iter().filter_map(Weak::upgrade);
        let mut distinct: Vec<*const Vec<u8>> = alive.map(|p| Arc::as_ptr(&p)).collect();
        distinct.sort_unstable();
        distinct.dedup();
        assert!((1..=2).contains(&distinct.len()), "{} pages", distinct.len());
        std::thread::sleep(Duration::from_millis(510));
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

/// A site of events: each is a megabyte and has the number of its moment.
struct Ticks(Arc<AtomicU64>);

impl Site for Ticks {
    type Pending = ();

    fn wants(&self, _: Instant, _: Demand) -> bool {
        false
    }

    fn fetch(&mut self, _: Instant) {}

    fn poll(&mut self, _: Instant) -> bool {
        false
    }

    fn respond(&mut self, _: Instant, _: &Request, (): &mut ()) -> Answer {
        Answer::Events(&[])
    }

    fn event(&mut self, seen: Option<u64>) -> Option<(u64, Body)> {
        let number = self.0.load(Ordering::Relaxed);
        let text = || format!("data: {number}{}\n\n", "x".repeat(1_000_000));
        (seen != Some(number)).then(|| (number, Body::of(text())))
    }
}

const STREAMS: Limits =
    Limits { connections: 8, streams: 2, bodies: 4, patience: Duration::from_secs(10) };

/// A reader that pauses gets the newest event afterwards, and none of those between.
#[test]
fn a_slow_reader_of_a_stream_skips_to_the_newest_event() {
    let number = Arc::new(AtomicU64::new(0));
    let (mut server, address) = server(Ticks(number.clone()), STREAMS);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    for _ in 0..20 {
        number.fetch_add(1, Ordering::Relaxed);
        server.turn(Duration::from_millis(1));
    }
    let in_memory = server.connections.iter().filter(|c| c.holds().is_some()).count();
    assert_eq!((server.connections.len(), in_memory), (1, 1));
    stream.set_nonblocking(true).unwrap();
    let (mut text, mut buffer) = (Vec::new(), vec![0; 1 << 20]);
    while !text.windows(8).any(|w| w == b"data: 20") {
        server.turn(Duration::from_millis(1));
        while let Ok(n) = stream.read(&mut buffer) {
            text.extend_from_slice(&buffer[..n]);
        }
    }
    let events = String::from_utf8(text).unwrap().matches("data: ").count();
    assert!(events <= 3, "{events} events");
}

/// A reader that stalls in the middle of an event is dropped.
#[test]
fn a_stream_with_a_stalled_reader_is_dropped() {
    let limits = Limits { patience: Duration::from_millis(1), ..STREAMS };
    let (mut server, address) = server(Ticks(Arc::new(AtomicU64::new(1))), limits);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let dropped = (0..1000).any(|_| {
        server.turn(Duration::from_millis(1));
        std::thread::sleep(Duration::from_millis(1));
        server.connections.is_empty() && stream.peek(&mut [0]).is_ok()
    });
    assert!(dropped);
}

/// Streams beyond the bound are refused, and a thousand browsers leave room for a reader.
#[test]
fn a_thousand_browsers_leave_room_for_one_more() {
    let number = Arc::new(AtomicU64::new(1));
    let address = port(serve("page", &any(), Ticks(number), STREAMS).unwrap());
    let browsers: Vec<TcpStream> = (0..1000)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            let _ = stream.write_all(b"GET / HTTP/1.1\r\n\r\n");
            stream
        })
        .collect();
    let last = ask(address, "GET / HTTP/1.1\r\n\r\n");
    assert!(last.contains(" 503 ") && last.contains("Retry-After: 10\r\n"), "{last}");
    drop(browsers);
    let mut stream = TcpStream::connect(address).unwrap();
    let again = (0..200).any(|_| {
        stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let mut begin = [0; 12];
        std::thread::sleep(Duration::from_millis(10));
        stream.read_exact(&mut begin).is_ok() && &begin == b"HTTP/1.1 200"
    });
    assert!(again, "closed streams make room");
}

#[test]
fn a_unix_socket_is_served_and_another_file_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("page.sock");
    let endpoint = Endpoint::Unix(path.clone());
    for _ in 0..2 {
        // The second one replaces the socket that the first one left.
        serve("metrics", &endpoint, metrics(|| Some("a 1\n".into())), Metrics::LIMITS).unwrap();
        let mut stream = std::os::unix::net::UnixStream::connect(&path).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(text.ends_with("a 1\n"));
    }
    let file = folder.path().join("file");
    std::fs::write(&file, "kept").unwrap();
    let endpoint = Endpoint::Unix(file.clone());
    let e = serve("metrics", &endpoint, metrics(|| None), Metrics::LIMITS).unwrap_err();
    assert!(e.to_string().contains("not a socket"), "{e}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "kept");
}
