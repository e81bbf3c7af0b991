//! TCP signs of real connections through the gateway's interfaces.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::common::{Box, Path, config, root};
use nix::sys::signal::Signal;
use serde_json::Value;

/// A download of a home that lasts until it is ended.
struct Download {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Download {
    fn of(path: &Path, home: usize) -> Self {
        let server = path.wired.spawn(|| TcpListener::bind("10.99.0.2:0").unwrap()).join().unwrap();
        let to = server.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let halt = stop.clone();
        let sends = thread::spawn(move || {
            let (mut stream, _) = server.accept().unwrap();
            stream.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
            while !halt.load(Ordering::Relaxed) {
                let _ = stream.write(&[7; 16_384]);
            }
        });
        let halt = stop.clone();
        let takes = path.subs.spawn(move || {
            let mut stream = connect_from(home, to);
            stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
            let mut buffer = [0; 65_536];
            while !halt.load(Ordering::Relaxed) {
                let _ = stream.read(&mut buffer);
            }
        });
        Download { stop, threads: vec![sends, takes] }
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|t| t.join().unwrap());
    }
}

/// An upload of a home that lasts until it is ended.
struct Upload {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Upload {
    fn of(path: &Path, home: usize) -> Self {
        let server = path.wired.spawn(|| TcpListener::bind("10.99.0.2:0").unwrap()).join().unwrap();
        let to = server.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let halt = stop.clone();
        let takes = thread::spawn(move || {
            let (mut stream, _) = server.accept().unwrap();
            stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
            let mut buffer = [0; 65_536];
            while !halt.load(Ordering::Relaxed) {
                let _ = stream.read(&mut buffer);
            }
        });
        let halt = stop.clone();
        let sends = path.subs.spawn(move || {
            let mut stream = connect_from(home, to);
            stream.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
            while !halt.load(Ordering::Relaxed) {
                let _ = stream.write(&[7; 16_384]);
            }
        });
        Upload { stop, threads: vec![takes, sends] }
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|t| t.join().unwrap());
    }
}

/// The page of the metrics.
fn metrics() -> String {
    let mut stream = TcpStream::connect("127.0.0.1:9742").unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// Connects from the address of a home.
fn connect_from(home: usize, to: std::net::SocketAddr) -> TcpStream {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, connect, socket};
    use std::os::fd::AsRawFd;
    let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::empty(), None).unwrap();
    bind(socket.as_raw_fd(), &SockaddrIn::new(10, 1, home as u8, 1, 0)).unwrap();
    let std::net::SocketAddr::V4(to) = to else { unreachable!() };
    connect(socket.as_raw_fd(), &SockaddrIn::from(to)).unwrap();
    socket.into()
}

fn signs(status: &Value, home: usize) -> &Value {
    let all = status["subscribers"].as_array().unwrap();
    let name = format!("sub {home}");
    &all.iter().find(|s| s["name"] == *name).unwrap()["ways"][0]["signs"]
}

/// Real TCP connections, and their signs in `status` and `why`.
#[test]
fn rtt_counts_awaited_repeated_and_ended_data() {
    let Some(_one) = root("rtt_counts_awaited_repeated_and_ended_data") else { return };
    let path = Path::new();
    let b = Box::new(&path, &config("apply", "rtt", "").replace("epoch = 1\n", ""));
    let daemon = b.start();
    b.wait("headers are read", |s| s["signs"]["state"] == "reading");
    let (first, second) = (Download::of(&path, 1), Download::of(&path, 2));
    let status = b.wait("both are under way", |s| {
        let awaits = |h: &usize| signs(s, *h)["awaited_bytes"].as_u64().is_some_and(|n| n > 1000);
        [1, 2].iter().all(awaits) && signs(s, 1)["tcp_ratio"].as_f64().is_some_and(|p| p > 0.95)
    });
    assert!(signs(&status, 3).is_null(), "it has no TCP: {status}");
    let read =
        b.wait("packets are counted", |s| s["signs"]["packets"].as_u64().is_some_and(|n| n > 0));
    assert!(read["signs"]["connections"].as_u64().is_some_and(|n| n >= 2), "{read}");

    // Lost packets behind the gateway are retransmitted; while all are lost nothing is
    // acknowledged.
    let repeated = |s: &Value| signs(s, 1)["repeated"].as_u64().unwrap_or(0);
    let before = repeated(&status);
    path.router.sh("nft add table ip away");
    path.router.sh("nft add chain ip away f { type filter hook forward priority 0 ; }");
    path.router.sh("nft add rule ip away f ip daddr 10.1.1.1 drop");
    let status = b.wait("segments are repeated", |s| repeated(s) > before + 1);
    assert!(signs(&status, 1)["awaited_bytes"].as_u64().unwrap() > 0, "{status}");
    path.router.sh("nft delete table ip away");

    // A connection that has ended has nothing in flight.
    first.end();
    second.end();
    b.wait("both have ended", |s| [1, 2].iter().all(|h| signs(s, *h)["awaited_bytes"] == 0));

    // The text has the same values.
    let (_, text, _) = b.command(&["why", "sub 1"]);
    assert!(text.contains("TCP: all data is acknowledged"), "{text}");
    let (_, text, _) = b.command(&["status"]);
    assert!(text.contains("TCP headers: reading: "), "{text}");
    let page = path.gateway.spawn(metrics).join().unwrap();
    assert!(page.contains("fairmesh_gateway_signs_reading 1"), "{page}");
    assert!(page.contains("fairmesh_gateway_signs_lost_packets_total "), "{page}");
    assert_eq!(daemon.end(Signal::SIGTERM), Some(0));
}

/// A queue in the mesh shows in the round trip of the home behind it, in both directions.
///
/// The queue of the gateway's own class does not. The control requests no headers.
#[test]
fn a_queue_in_the_mesh_shows_in_the_round_trip() {
    let Some(_one) = root("a_queue_in_the_mesh_shows_in_the_round_trip") else { return };
    let path = Path::new();
    // A kernel's default may be BBR, which keeps queues short. Every namespace may use Reno.
    for ns in [&path.wired, &path.subs] {
        ns.sh("sysctl -qw net.ipv4.tcp_congestion_control=reno");
    }
    for dev in ["r0", "r1"] {
        path.router
            .sh(&format!("tc qdisc change dev {dev} root tbf rate 8mbit burst 5k limit 300k"));
    }
    let text =
        config("apply", "fifo", "").replace("[plan.all]", "[signs]\nread = true\n[plan.all]");
    let b = Box::new(&path, &text);
    let daemon = b.start();
    b.wait("headers are read", |s| s["signs"]["state"] == "reading");
    let trip = |s: &Value, home: usize, direction: usize| {
        let all = s["subscribers"].as_array().unwrap().iter();
        let name = format!("sub {home}");
        let of = all.clone().find(|s| s["name"] == *name).unwrap();
        of["ways"][direction]["signs"]["round_trip_seconds"].as_f64()
    };
    // 300 kB at 8 Mbit/s are .3 s.
    let down = Download::of(&path, 1);
    let up = Upload::of(&path, 2);
    let status = b.wait("both queues show", |s| {
        [trip(s, 1, 0), trip(s, 2, 1)].iter().all(|t| t.is_some_and(|t| t > 0.1))
    });
    assert_eq!(trip(&status, 3, 0), None, "it has no TCP: {status}");
    let (_, text, _) = b.command(&["status"]);
    assert!(text.contains("mesh RTT") && text.contains(" ms  "), "{text}");
    let (_, text, _) = b.command(&["why", "sub 1"]);
    assert!(text.contains("round trip through the mesh "), "{text}");
    let page = path.gateway.spawn(metrics).join().unwrap();
    for measure in ["round_trip", "base_round_trip"] {
        let line =
            format!("subscriber_{measure}_seconds{{subscriber=\"sub 2\",direction=\"up\"}} 0.");
        assert!(page.contains(&line), "{page}");
    }
    down.end();
    up.end();
    // Without a queue in the mesh a limit keeps packets in the home's own class, and the mesh is
    // empty.
    let own = b.command(&["override", "sub 1", "--rate", "1 Mbit/s", "--for", "1h"]);
    assert_eq!(own.0, 0, "{own:?}");
    let down = Download::of(&path, 1);
    b.wait("the queue is ours", |s| {
        let way = &s["subscribers"][0]["ways"][0];
        way["backlog_bytes"].as_u64().is_some_and(|n| n > 5_000)
            && trip(s, 1, 0).is_some_and(|t| t < 0.1)
    });
    down.end();
    assert_eq!(daemon.end(Signal::SIGTERM), Some(0));
}

/// `rtt` keeps two homes with downloads at one limit.
///
/// The round trip is below that of a full queue in the mesh.
#[test]
fn rtt_holds_homes_at_one_limit_below_a_full_mesh() {
    let Some(_one) = root("rtt_holds_homes_at_one_limit_below_a_full_mesh") else { return };
    let path = Path::new();
    for dev in ["r0", "r1"] {
        path.router
            .sh(&format!("tc qdisc change dev {dev} root tbf rate 8mbit burst 5k limit 600k"));
    }
    let b = Box::new(&path, &config("apply", "rtt", "").replace("epoch = 1\n", ""));
    let daemon = b.start();
    b.wait("headers are read", |s| s["signs"]["state"] == "reading");
    b.wait("it learns", |s| s["level"]["state"] == "learning");
    let (first, second) = (Download::of(&path, 1), Download::of(&path, 2));
    let limit = |s: &Value, home: usize| {
        s["subscribers"][home - 1]["ways"][0]["limit_bits_per_second"].as_u64().unwrap_or(0)
    };
    // 600 kB at 8 Mbit/s would be .6 s.
    b.wait("both are held, and the mesh is not full", |s| {
        let (one, other) = (limit(s, 1), limit(s, 2));
        let trip = signs(s, 1)["round_trip_seconds"].as_f64();
        one > 600_000
            && one.abs_diff(other) * 50 < one
            && trip.is_some_and(|t| t < 0.3)
            && s["subscribers"][0]["ways"][0]["backlog_bytes"].as_u64().is_some_and(|n| n > 0)
    });
    let (_, text, _) = b.command(&["why", "sub 1"]);
    assert!(text.contains("[rtt.") && text.contains("level: "), "{text}");
    let status = b.wait("the level is found", |s| s["level"]["state"] == "found");
    assert!(status["level"]["bound"].is_string(), "{status}");
    let page = path.gateway.spawn(metrics).join().unwrap();
    assert!(page.contains("fairmesh_gateway_level_learning 0"), "{page}");
    first.end();
    second.end();
    assert_eq!(daemon.end(Signal::SIGTERM), Some(0));
}

/// Homes without TCP have round trips by echo probes.
///
/// These include the queue of the mesh and not that of the class. Probes are rare, and end if a home does not
/// respond.
#[test]
fn homes_without_tcp_are_probed() {
    let Some(_one) = root("homes_without_tcp_are_probed") else { return };
    let path = Path::new();
    for dev in ["r0", "r1"] {
        path.router
            .sh(&format!("tc qdisc change dev {dev} root tbf rate 8mbit burst 5k limit 300k"));
    }
    // Like a home with a firewall.
    path.router.sh("nft add table ip away");
    path.router.sh("nft add chain ip away f { type filter hook forward priority 0 ; }");
    path.router.sh("nft add rule ip away f ip daddr 10.1.2.1 icmp type echo-request drop");
    let text = config("apply", "rtt", "").replace("epoch = 1\n", "");
    let b = Box::new(&path, &text);
    let daemon = b.start();
    b.wait("headers are read", |s| s["signs"]["state"] == "reading");
    // Nothing is sent to homes without traffic.
    b.wait("nothing is sent", |s| s["signs"]["probes"]["sent"] == 0);
    for home in [1, 2] {
        let own =
            b.command(&["override", &format!("sub {home}"), "--rate", "1 Mbit/s", "--for", "1h"]);
        assert_eq!(own.0, 0, "{own:?}");
    }
    let trip = |s: &Value, home: usize| signs(s, home)["round_trip_seconds"].as_f64();
    let streams = [path.stream(1, 3.0), path.stream(2, 3.0)];
    let status = b.wait("the home's class is full and the mesh is not", |s| {
        let way = &s["subscribers"][0]["ways"][0];
        way["backlog_bytes"].as_u64().is_some_and(|n| n > 5_000)
            && trip(s, 1).is_some_and(|t| t < 0.1)
    });
    assert_eq!(signs(&status, 1)["round_trip_source"], "probe", "{status}");
    assert!(signs(&status, 1)["awaited_bytes"].is_null(), "{status}");
    let (_, text, _) = b.command(&["why", "sub 1"]);
    assert!(text.contains("round trip through the mesh by echo probes "), "{text}");
    let status = b.wait("the other one is given up", |s| s["signs"]["probes"]["silent"] == 1);
    assert_eq!(trip(&status, 2), None, "{status}");
    b.wait_event("probe.unanswered");
    assert!(b.log().contains("sub 2 does not respond to echo requests at 10.1.2.1"), "{}", b.log());
    let (_, text, _) = b.command(&["status"]);
    assert!(text.contains("echo probes: ") && text.contains("1 home does not respond"), "{text}");
    let page = path.gateway.spawn(metrics).join().unwrap();
    assert!(page.contains("fairmesh_gateway_probes_silent 1"), "{page}");
    for stream in streams {
        stream.end();
    }

    // A queue in the mesh shows: 300 kB at 8 Mbit/s take 0.3 s.
    let own = b.command(&["override", "sub 1", "--rate", "20 Mbit/s", "--for", "1h"]);
    assert_eq!(own.0, 0, "{own:?}");
    let stream = path.stream(1, 12.0);
    b.wait("the queue of the mesh shows", |s| trip(s, 1).is_some_and(|t| t > 0.2));
    stream.end();

    // Disabled by a reload.
    let off = config("apply", "rtt", "").replace("epoch = 1\n", "");
    b.write(&off.replace("[plan.all]", "[signs]\nprobe = false\n[plan.all]"));
    daemon.signal(Signal::SIGHUP);
    b.wait("no probes", |s| s["signs"]["state"] == "reading" && s["signs"]["probes"].is_null());
    assert_eq!(daemon.end(Signal::SIGTERM), Some(0));
}

/// Both ends of a QUIC connection of a home as the path sees it.
///
/// Packets have short headers, one each 10 ms; the client inverts their spin bit and the server returns it
/// (RFC 9000 §17.4).
struct Spinning {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Spinning {
    fn of(path: &Path, home: usize) -> Self {
        let server = path.wired.udp("10.99.0.2:443");
        let client = path.subs.udp(format!("10.1.{home}.1:0"));
        client.connect("10.99.0.2:443").unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let end = |socket: std::net::UdpSocket, client: bool| {
            let halt = stop.clone();
            thread::spawn(move || {
                socket.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
                let (mut peer, mut bit) = (None, false);
                let mut next = Instant::now();
                while !halt.load(Ordering::Relaxed) {
                    let mut packet = [0; 100];
                    if let Ok((_, from)) = socket.recv_from(&mut packet) {
                        (peer, bit) = (Some(from), (packet[0] & 0x20 != 0) != client);
                    }
                    if Instant::now() >= next {
                        next = Instant::now() + Duration::from_millis(10);
                        packet[0] = 0x40 | u8::from(bit) << 5;
                        let _ = match (client, peer) {
                            (true, _) => socket.send(&packet),
                            (false, Some(peer)) => socket.send_to(&packet, peer),
                            (false, None) => Ok(0),
                        };
                    }
                }
            })
        };
        let threads = vec![end(server, false), end(client, true)];
        Spinning { stop, threads }
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|t| t.join().unwrap());
    }
}

/// QUIC's spin bit gives the round trip of the mesh with its queue; the home is not probed.
#[test]
fn the_spin_bit_gives_the_round_trip_of_quic() {
    let Some(_one) = root("the_spin_bit_gives_the_round_trip_of_quic") else { return };
    let path = Path::new();
    for dev in ["r0", "r1"] {
        path.router
            .sh(&format!("tc qdisc change dev {dev} root tbf rate 8mbit burst 5k limit 300k"));
    }
    let text =
        config("apply", "fifo", "").replace("[plan.all]", "[signs]\nread = true\n[plan.all]");
    let b = Box::new(&path, &text);
    let daemon = b.start();
    b.wait("headers are read", |s| s["signs"]["state"] == "reading");
    let quic = Spinning::of(&path, 1);
    let trip = |s: &Value, d: usize| {
        let signs = &s["subscribers"][0]["ways"][d]["signs"];
        signs["round_trip_seconds"].as_f64().filter(|_| signs["round_trip_source"] == "spin")
    };
    // The ends respond within 10 ms.
    b.wait("both directions have it", |s| (0..2).all(|d| trip(s, d).is_some_and(|t| t < 0.1)));
    let sent = |s: &Value| s["signs"]["probes"]["sent"].as_u64().unwrap();
    let before = b.wait("the first seconds are over", |s| trip(s, 0).is_some());
    let stream = path.stream(1, 12.0);
    let status = b.wait("the queue of the mesh shows", |s| trip(s, 0).is_some_and(|t| t > 0.2));
    assert_eq!(sent(&before), sent(&status), "it needs no probes");
    let (_, text, _) = b.command(&["why", "sub 1"]);
    assert!(text.contains("round trip through the mesh by QUIC's spin bit "), "{text}");
    stream.end();
    quic.end();
    assert_eq!(daemon.end(Signal::SIGTERM), Some(0));
}

/// With UDP traffic beside its TCP, the bytes in flight of a home are unknown.
#[test]
fn a_home_with_mostly_udp_has_no_signs() {
    let Some(_one) = root("who_is_served_by_something_else") else { return };
    let path = Path::new();
    let b = Box::new(&path, &config("apply", "rtt", "").replace("epoch = 1\n", ""));
    let daemon = b.start();
    b.wait("headers are read", |s| s["signs"]["state"] == "reading");
    let download = Download::of(&path, 1);
    b.wait("it is under way", |s| signs(s, 1)["awaited_bytes"].as_u64().is_some_and(|n| n > 0));
    let stream = path.stream(1, 3.0);
    b.wait("mostly something else", |s| {
        signs(s, 1)["awaited_bytes"].is_null()
            && signs(s, 1)["tcp_ratio"].as_f64().is_some_and(|p| p < 0.9)
    });
    stream.end();
    download.end();
    daemon.end(Signal::SIGTERM);
}

/// Headers are read only if the control or the configuration requests it.
///
/// The kernel must permit it too. Otherwise counters are used.
#[test]
fn headers_are_read_by_permission_only() {
    let Some(_one) = root("headers_are_read_by_permission_only") else { return };
    let path = Path::new();
    let sockets = || path.gateway.sh("cat /proc/net/packet").lines().count() - 1;
    let text = config("apply", "rtt", "").replace("epoch = 1\n", "");
    let b = Box::new(&path, &config("apply", "pfrc", ""));
    let daemon = b.start();
    assert!(b.wait_running()["signs"].is_null());
    assert_eq!(sockets(), 0);
    // The control and the permission can change while it runs.
    b.write(&text.replace("[plan.all]", "[signs]\nread = false\n[plan.all]"));
    daemon.signal(Signal::SIGHUP);
    b.wait("off", |s| s["signs"]["state"] == "off");
    assert_eq!(sockets(), 0);
    b.write(&text);
    daemon.signal(Signal::SIGHUP);
    b.wait("reading", |s| s["signs"]["state"] == "reading");
    assert_eq!(sockets(), 1);
    // An interface that is created again is read again.
    path.lose_mesh();
    b.wait("nothing to read", |s| s["signs"]["state"] == "unavailable");
    path.restore_mesh();
    b.wait("reading again", |s| s["signs"]["state"] == "reading" && s["phase"] == "running");
    b.write(&config("apply", "pfrc", ""));
    daemon.signal(Signal::SIGHUP);
    b.wait("not asked for", |s| s["signs"].is_null() && s["control"] == "pfrc");
    let closed = (0..100).any(|_| {
        thread::sleep(Duration::from_millis(50));
        sockets() == 0
    });
    assert!(closed, "the socket stays");
    daemon.end(Signal::SIGTERM);

    // Without CAP_NET_RAW, as the shipped unit has it.
    b.write(&text);
    let daemon = b.start_without("net_raw");
    let status =
        b.wait("without", |s| s["phase"] == "running" && s["signs"]["problem"].is_string());
    assert_eq!(status["signs"]["state"], "unavailable");
    b.wait_event("signs.unavailable");
    assert!(b.log().contains("signs.conf"), "{}", b.log());
    let download = Download::of(&path, 1);
    b.wait("limited all the same", |s| {
        s["subscribers"][0]["ways"][0]["limit_bits_per_second"].as_u64().is_some()
    });
    download.end();
    daemon.end(Signal::SIGTERM);
}
