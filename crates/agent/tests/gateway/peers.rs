//! Two daemons that exchange messages, with an attacker between them.
//!
//! The attacker reads, stores, drops and replays messages.

use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::common::meter::Meter;
use crate::common::{Box, Path, config, root};

const FIRST: &str = "192.0.2.1:5247";
const SECOND: &str = "192.0.2.2:5247";
const MIDDLE: &str = "192.0.2.3:5247";

/// Receiver and datagram.
type Datagram = (SocketAddr, Vec<u8>);

/// An attacker on the path: each gateway takes its address for the other's.
struct OnPathAttacker {
    socket: Arc<UdpSocket>,
    /// Datagrams that have passed.
    kept: Arc<Mutex<Vec<Datagram>>>,
    drops: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl OnPathAttacker {
    fn new(second: &Path) -> OnPathAttacker {
        let socket = Arc::new(second.gateway.udp(MIDDLE));
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let kept = Arc::new(Mutex::new(Vec::new()));
        let [drops, stop] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let (wire, keep, lose, halt) = (socket.clone(), kept.clone(), drops.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            let [first, second]: [SocketAddr; 2] = [FIRST, SECOND].map(|a| a.parse().unwrap());
            let mut buffer = [0; 2000];
            while !halt.load(Ordering::Relaxed) {
                let Ok((n, from)) = wire.recv_from(&mut buffer) else { continue };
                let to = if from == first { second } else { first };
                if from != first && from != second {
                    continue;
                }
                keep.lock().unwrap().push((to, buffer[..n].to_vec()));
                if !lose.load(Ordering::Relaxed) {
                    let _ = wire.send_to(&buffer[..n], to);
                }
            }
        });
        OnPathAttacker { socket, kept, drops, stop, thread: Some(thread) }
    }

    /// Replays all datagrams to one of the two.
    fn repeat(&self, to: &str) -> usize {
        let to: SocketAddr = to.parse().unwrap();
        let kept = self.kept.lock().unwrap().clone();
        let mut sent = 0;
        for (to, bytes) in kept.iter().filter(|k| k.0 == to) {
            // Slowly, so that they are examined and not dropped as a flood.
            std::thread::sleep(Duration::from_millis(3));
            self.socket.send_to(bytes, to).unwrap();
            sent += 1;
        }
        sent
    }
}

impl Drop for OnPathAttacker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Returns a gateway with a key made by the program.
fn gateway(path: &Path, number: u32, listen: &str, key: &str, homes: &str) -> Box {
    let text = config("apply", "rtt+peers", "").replace("epoch = 1\n", "");
    let b = Box::new(path, &text);
    let text = format!(
        "{}[peers]\nnumber = {number}\nlisten = \"{listen}\"\npeer = [\"{MIDDLE}\"]\nkey = {:?}\n",
        text.replace("10.1.", homes),
        b.file("peers.key")
    );
    b.write(&text);
    set_key(&b, key);
    b
}

fn set_key(b: &Box, key: &str) {
    std::fs::write(b.file("peers.key"), key).unwrap();
    std::fs::set_permissions(b.file("peers.key"), std::fs::Permissions::from_mode(0o600)).unwrap();
}

fn peer<'a>(status: &'a Value, what: &str) -> &'a Value {
    &status["peers"]["peers"][0][what]
}

fn here(status: &Value) -> bool {
    peer(status, "state") == "here"
}

fn rejected(status: &Value, cause: &str) -> u64 {
    let all = status["peers"]["rejected"].as_array().unwrap();
    all.iter().find(|r| r[0] == cause).unwrap()[1].as_u64().unwrap()
}

#[test]
fn two_gateways_are_one_and_each_alone_without_the_other() {
    let Some(_one) = root("two_gateways_are_one") else { return };
    let first = Path::new();
    let second = first.beside();
    let middle = OnPathAttacker::new(&second);
    let probe = Box::new(&first, &config("observe", "fifo", ""));
    let key = probe.output_without_configuration(&["key"]);
    let a = gateway(&first, 1, FIRST, &key, "10.1.");
    let b = gateway(&second, 2, SECOND, &key, "10.2.");
    let first_daemon = a.start();
    let mut second_daemon = b.start();
    a.wait("the second is active", here);
    let status = b.wait("the first governs", |s| s["peers"]["governed_by"] == 1);
    assert_eq!((peer(&status, "number"), &status["phase"]), (&1.into(), &"running".into()));

    // Homes of both send more than the mesh carries: the limits of one are decided at the other.
    let streams = [first.stream(1, 6.0), second.stream(1, 6.0), second.stream(2, 6.0)];
    let limited = |s: &Value| s["events"].to_string().contains("rtt.peer-limit");
    b.wait("a limit by the first", limited);
    let (code, why, _) = b.command(&["why", "sub 1"]);
    assert!(code == 0 && why.contains("governed by gateway 1"), "{why}");
    let (_, why, _) = a.command(&["why", "sub 1"]);
    assert!(why.contains("governed here, together with gateway 2"), "{why}");
    a.wait("a decision for the second's home", |s| {
        s["recent"].to_string().contains("of gateway 2")
            || s["events"].to_string().contains("joined")
    });
    let metrics = scrape(&second);
    for line in ["peer_up{peer=\"192.0.2.3:5247\"} 1", "governed_by 1", "peer_starts_total"] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }

    // Earlier datagrams are replayed: none is accepted.
    let before = a.wait("nothing", |_| true);
    let again = middle.repeat(FIRST) as u64;
    assert!(again > 2, "{again}");
    a.wait("all of it was refused", |s| {
        rejected(s, "replayed") >= rejected(&before, "replayed") + again && here(s)
    });

    // Killed, and its datagrams replayed: the second continues alone.
    assert_eq!(first_daemon.end(Signal::SIGKILL), None);
    b.wait("the first has timed out", |s| !here(s));
    middle.repeat(SECOND);
    let status = b.wait("it governs itself", |s| s["peers"]["governed_by"].is_null());
    assert!(!here(&status) && status["phase"] == "running", "{status}");
    b.wait_event("peer.silent");
    assert!(b.command(&["why", "sub 1"]).1.contains("governed alone: no other gateway is active"));
    streams.into_iter().for_each(|s| _ = s.end());

    // Restarted, without its state.
    std::fs::remove_dir_all(a.file("state")).unwrap();
    let first_daemon = a.start();
    let status = b.wait("the first governs again", |s| here(s) && s["peers"]["governed_by"] == 1);
    assert_eq!(peer(&status, "starts"), 2);

    // The second restarts: no earlier datagram to it is accepted.
    assert_eq!(second_daemon.end(Signal::SIGTERM), Some(0));
    middle.drops.store(true, Ordering::Relaxed);
    second_daemon = b.start();
    b.wait_running();
    let again = middle.repeat(SECOND) as u64;
    assert!(again > 5, "{again}");
    let status = b.wait("all of it was looked at", |s| rejected(s, "unproved") >= again);
    assert_eq!(peer(&status, "state"), "never received");
    middle.drops.store(false, Ordering::Relaxed);
    b.wait("they meet again", here);

    // With another key it is not accepted, which both report; each governs its own homes.
    assert_eq!(second_daemon.end(Signal::SIGTERM), Some(0));
    a.wait("the second has timed out", |s| !here(s));
    set_key(&b, &probe.output_without_configuration(&["key"]));
    let second_daemon = b.start();
    for g in [&a, &b] {
        let status =
            g.wait("another key", |s| peer(s, "problem").to_string().contains("same key file"));
        assert!(rejected(&status, "tag") > 0 && !here(&status));
        assert_eq!(status["phase"], "running");
        g.wait_event("peer.refused");
    }
    assert_eq!(first_daemon.end(Signal::SIGTERM), Some(0));
    assert_eq!(second_daemon.end(Signal::SIGTERM), Some(0));
}

/// Three homes with ten connections each at one gateway, a home with one at the other.
///
/// All are in one collision domain. If each gateway governs alone, shares depend on chance: the one home had
/// 1.9 times its share.
#[test]
fn homes_behind_two_gateways_have_the_same_share() {
    let Some(_one) = root("homes_behind_two_gateways") else { return };
    let first = Path::new();
    let second = first.beside();
    let _middle = OnPathAttacker::new(&second);
    let key =
        Box::new(&first, &config("observe", "fifo", "")).output_without_configuration(&["key"]);
    let a = gateway(&first, 1, FIRST, &key, "10.1.");
    let b = gateway(&second, 2, SECOND, &key, "10.2.");
    let mut greedy = Vec::new();
    for home in 1..=3 {
        for port in 0..10 {
            let at = format!("10.1.{home}.1:{}", 5100 + port);
            greedy.push(Meter::tcp(&first.wired, &first.subs, &at));
        }
    }
    let modest = Meter::tcp(&second.wired, &second.subs, "10.2.1.1:5100");
    // Its share is a quarter of the mesh's capacity.
    let share = |seconds| {
        let all = || (modest.received(), greedy.iter().map(Meter::received).sum::<u64>());
        let before = all();
        std::thread::sleep(Duration::from_secs(seconds));
        let after = all();
        let (one, others) = (after.0 - before.0, after.1 - before.1);
        4.0 * one as f64 / (one + others) as f64
    };
    // First each alone: the same control without messages.
    let alone = [(&a, &first), (&b, &second)].map(|(g, path)| {
        let text = std::fs::read_to_string(g.file("gateway.toml")).unwrap();
        let cut = text.find("[peers]").unwrap();
        Box::new(path, &text[..cut].replace("+peers", ""))
    });
    let daemons = alone.each_ref().map(Box::start);
    alone.iter().for_each(|g| _ = g.wait_running());
    std::thread::sleep(Duration::from_secs(20));
    let apart = share(10);
    daemons.into_iter().for_each(|d| _ = d.end(Signal::SIGTERM));
    let daemons = [a.start(), b.start()];
    b.wait("the first governs", |s| s["peers"]["governed_by"] == 1);
    let mut got = Vec::new();
    let fair = (0..12).any(|_| {
        got.push(share(10));
        got.last().is_some_and(|share| (0.85..1.15).contains(share))
    });
    println!("of its share: {apart:.2} where each governs alone, {got:.2?} together");
    assert!(fair, "{got:?}, {apart} alone\n{}\n{}", a.log(), b.log());
    daemons.into_iter().for_each(|d| assert_eq!(d.end(Signal::SIGTERM), Some(0)));
}

/// Faults of the exchange do not end the daemon.
///
/// They are reported, and can be repaired while it runs.
#[test]
fn a_gateway_without_key_or_address_governs_alone() {
    let Some(_one) = root("a_gateway_without_key") else { return };
    let path = Path::new();
    let second = path.beside();
    let key =
        Box::new(&path, &config("observe", "fifo", "")).output_without_configuration(&["key"]);
    let b = gateway(&second, 2, SECOND, &key, "10.2.");
    std::fs::set_permissions(b.file("peers.key"), std::fs::Permissions::from_mode(0o644)).unwrap();
    let (code, out, err) = b.command(&["check"]);
    assert!(code == 1 && out.contains("BAD  other gateways: peers.key: "), "{out}{err}");
    assert!(out.contains("is readable by other users (mode 0644); run `chmod 0600"), "{out}");
    let daemon = b.start();
    let status = b.wait_running();
    assert!(status["peers"]["problem"].to_string().contains("mode 0644"), "{status}");
    b.wait_event("peers.unavailable");
    let (_, text, _) = b.command(&["status"]);
    assert!(text.contains("messages of other gateways cannot be received: "), "{text}");
    set_key(&b, &key);
    b.wait("it was mended", |s| s["peers"]["problem"].is_null());
    // A reload does not change the peers.
    let text = std::fs::read_to_string(b.file("gateway.toml")).unwrap();
    b.write(&text.replace("number = 2", "number = 3"));
    let (code, out, err) = b.command(&["reload"]);
    assert!(
        code == 2 && (out.clone() + &err).contains("peers: cannot change while the daemon runs"),
        "{err}"
    );
    assert_eq!(daemon.end(Signal::SIGTERM), Some(0));
}

fn scrape(path: &Path) -> String {
    use std::io::{Read, Write};
    let fetch = || {
        let mut stream = std::net::TcpStream::connect("127.0.0.1:9742").unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).unwrap();
        page
    };
    path.gateway.spawn(fetch).join().unwrap()
}
