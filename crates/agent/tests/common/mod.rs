//! A path of four network namespaces: wired host – gateway – mesh router – subscribers.
//!
//! The mesh router forwards 8 Mbit/s in each direction, first in, first out, in place of the mesh.
#![allow(dead_code)]

pub mod meter;
#[path = "../../../linux/tests/common/namespace.rs"]
pub mod namespace;
mod root;

use std::collections::BTreeSet;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fairmesh_agent::gateway::request::{Request, ask};
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{setsockopt, sockopt};
use nix::unistd::Pid;
use serde_json::Value;

pub use namespace::{Namespace, ip, run, sh};
pub use root::root;

/// Growing pause between two checks of a condition: 20 ms to 300 ms, by a factor of 1.5.
///
/// A check may start a process, which is slow where time is counted in instructions.
pub struct Pause(Duration);

impl Pause {
    pub fn new() -> Pause {
        Pause(Duration::from_millis(20))
    }

    pub fn take(&mut self) {
        thread::sleep(self.0);
        self.0 = (self.0 * 3 / 2).min(Duration::from_millis(300));
    }
}

pub struct Path {
    pub wired: Namespace,
    pub gateway: Namespace,
    pub router: Namespace,
    pub subs: Namespace,
    /// Prefix of its homes' addresses, and its server's address.
    homes: &'static str,
    server: &'static str,
}

pub const SUBSCRIBERS: usize = 3;

impl Path {
    pub fn new() -> Path {
        let [wired, gateway, router, subs] = [(); 4].map(|()| Namespace::new());
        let (w, g, r, s) = (&wired.name, &gateway.name, &router.name, &subs.name);
        let links = [
            format!("link add name w0 netns {w} type veth peer name wan netns {g}"),
            format!("link add name mesh netns {g} type veth peer name r0 netns {r}"),
            format!("link add name r1 netns {r} type veth peer name s0 netns {s}"),
        ];
        ip(&[], &links.each_ref().map(String::as_str));
        let homes: Vec<String> =
            (1..=SUBSCRIBERS).map(|i| format!("addr add 10.1.{i}.1/32 dev lo")).collect();
        wired.ip(&[
            "link set lo up",
            "link set w0 up",
            "addr add 10.99.0.2/24 dev w0",
            "route add default via 10.99.0.1",
        ]);
        gateway.ip(&[
            "link set lo up",
            "link set wan up",
            "link set mesh up",
            "addr add 10.99.0.1/24 dev wan",
            "addr add 10.98.0.1/24 dev mesh",
            "route add default via 10.99.0.2",
        ]);
        router.ip(&[
            "link set lo up",
            "link set r0 up",
            "link set r1 up",
            "addr add 10.98.0.2/24 dev r0",
            "addr add 10.97.0.1/24 dev r1",
            "route add default via 10.98.0.1",
            "route add 10.1.0.0/16 via 10.97.0.2",
        ]);
        subs.ip(&["link set lo up", "link set s0 up", "addr add 10.97.0.2/24 dev s0"]);
        subs.ip(&homes.iter().map(String::as_str).collect::<Vec<_>>());
        subs.ip(&["route add default via 10.97.0.1"]);
        let path = Path { wired, gateway, router, subs, homes: "10.1", server: "10.99.0.2" };
        path.routes();
        for ns in [&path.gateway, &path.router] {
            ns.sh("sysctl -qw net.ipv4.ip_forward=1");
        }
        for dev in ["r0", "r1"] {
            path.router
                .sh(&format!("tc qdisc add dev {dev} root tbf rate 8mbit burst 5k limit 15000"));
        }
        path
    }

    fn routes(&self) {
        self.gateway.sh("ip route replace 10.1.0.0/16 via 10.98.0.2");
    }

    /// Creates a second gateway of the mesh for homes behind the same router, wired to the first.
    ///
    /// The addresses on the wire are 192.0.2.1 here, and 192.0.2.2 and .3 there.
    pub fn beside(&self) -> Path {
        let [wired, gateway] = [(); 2].map(|()| Namespace::new());
        let (w, g, r, first) = (&wired.name, &gateway.name, &self.router.name, &self.gateway.name);
        let links = [
            format!("link add name w0 netns {w} type veth peer name wan netns {g}"),
            format!("link add name mesh netns {g} type veth peer name r2 netns {r}"),
            format!("link add name wire netns {first} type veth peer name wire netns {g}"),
        ];
        ip(&[], &links.each_ref().map(String::as_str));
        let homes: Vec<String> =
            (1..=SUBSCRIBERS).map(|i| format!("addr add 10.2.{i}.1/32 dev lo")).collect();
        wired.ip(&[
            "link set lo up",
            "link set w0 up",
            "addr add 10.89.0.2/24 dev w0",
            "route add default via 10.89.0.1",
        ]);
        self.router.ip(&[
            "link set r2 up",
            "addr add 10.88.0.2/24 dev r2",
            "route add 10.2.0.0/16 via 10.97.0.2",
            "route add 10.89.0.0/24 via 10.88.0.1",
        ]);
        self.router.sh("sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.r2.rp_filter=0");
        gateway.ip(&[
            "link set lo up",
            "link set wan up",
            "link set mesh up",
            "link set wire up",
            "addr add 10.89.0.1/24 dev wan",
            "addr add 10.88.0.1/24 dev mesh",
            "addr add 192.0.2.2/24 dev wire",
            "addr add 192.0.2.3/24 dev wire",
            "route add default via 10.89.0.2",
            "route add 10.2.0.0/16 via 10.88.0.2",
        ]);
        gateway.sh("sysctl -qw net.ipv4.ip_forward=1");
        self.gateway.ip(&["link set wire up", "addr add 192.0.2.1/24 dev wire"]);
        self.subs.ip(&homes.iter().map(String::as_str).collect::<Vec<_>>());
        let (router, subs) = (self.router.again(), self.subs.again());
        Path { wired, gateway, router, subs, homes: "10.2", server: "10.89.0.2" }
    }

    /// Deletes the mesh interface.
    pub fn lose_mesh(&self) {
        self.gateway.sh("ip link del mesh");
    }
    pub fn restore_mesh(&self) {
        let (g, r) = (&self.gateway.name, &self.router.name);
        sh(&format!("ip link add name mesh netns {g} type veth peer name r0 netns {r}"));
        self.gateway.sh("ip addr add 10.98.0.1/24 dev mesh");
        self.gateway.sh("ip link set mesh up");
        self.router.sh("ip addr add 10.98.0.2/24 dev r0");
        self.router.sh("ip link set r0 up");
        self.router.sh("ip route replace default via 10.98.0.1");
        self.routes();
    }

    /// Returns the queues and tables of the daemon in the kernel.
    pub fn ours(&self) -> String {
        let qdiscs = self.gateway.sh("tc qdisc show");
        let tables = self.gateway.sh("nft list tables");
        let ours = |l: &&str| l.contains(" fa1:") || l.contains("fairmesh");
        qdiscs.lines().chain(tables.lines()).filter(ours).collect::<Vec<_>>().join("\n")
    }

    /// Returns the daemon's classes that have a limit.
    pub fn limited(&self) -> String {
        let classes =
            ["mesh", "wan"].map(|dev| self.gateway.sh(&format!("tc class show dev {dev}")));
        // The rate of `Class::UNLIMITED`.
        let limited = |l: &&str| l.contains(" fa1") && !l.contains(" ceil 1Tbit ");
        classes.concat().lines().filter(limited).collect::<Vec<_>>().join("\n")
    }

    /// Returns true if a packet passes downstream within some time.
    pub fn flows(&self) -> bool {
        let from = self.wired.udp("10.99.0.2:0");
        let to = self.subs.udp("10.1.1.1:4000");
        to.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let mut buffer = [0; 100];
        (0..100).any(|_| {
            let _ = from.send_to(b"hello", "10.1.1.1:4000");
            to.recv(&mut buffer).is_ok()
        })
    }

    /// Starts a stream to a subscriber.
    pub fn stream(&self, subscriber: usize, mbps: f64) -> Stream {
        self.stream_to(subscriber, 5000 + subscriber as u16, mbps)
    }

    /// Starts a stream to a port of a subscriber.
    pub fn stream_to(&self, subscriber: usize, port: u16, mbps: f64) -> Stream {
        let to = format!("{}.{subscriber}.1:{port}", self.homes);
        let sink = self.subs.udp(&to);
        // No loss is due to a receiver that was not scheduled.
        setsockopt(&sink, sockopt::RcvBufForce, &(16 << 20)).unwrap();
        sink.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let source = self.wired.udp(format!("{}:0", self.server));
        let stop = Arc::new(AtomicBool::new(false));
        let [sent, bytes, received] = [(); 3].map(|()| Arc::new(AtomicU64::new(0)));
        let (halt, count) = (stop.clone(), sent.clone());
        let sender = thread::spawn(move || {
            let mut payload = [0; 1372];
            let gap = Duration::from_secs_f64(1400.0 * 8.0 / (mbps * 1e6));
            let mut next = Instant::now();
            while !halt.load(Ordering::Relaxed) {
                payload[..8].copy_from_slice(&count.load(Ordering::Relaxed).to_be_bytes());
                if source.send_to(&payload, &to).is_ok() {
                    count.fetch_add(1, Ordering::Relaxed);
                }
                // A delay by a busy machine must not be followed by a burst.
                next = (next + gap).max(Instant::now() - 4 * gap);
                thread::sleep(next.saturating_duration_since(Instant::now()));
            }
        });
        let (halt, b, n) = (stop.clone(), bytes.clone(), received.clone());
        let seen = Arc::new(Mutex::new(BTreeSet::new()));
        let numbers = seen.clone();
        let receiver = thread::spawn(move || {
            let mut buffer = [0; 2000];
            let mut quiet = 0;
            while quiet < 5 {
                match sink.recv(&mut buffer) {
                    Ok(length) => {
                        b.fetch_add(length as u64, Ordering::Relaxed);
                        n.fetch_add(1, Ordering::Relaxed);
                        let number = u64::from_be_bytes(buffer[..8].try_into().unwrap());
                        numbers.lock().unwrap().insert(number);
                        quiet = 0;
                    }
                    Err(_) if halt.load(Ordering::Relaxed) => quiet += 1,
                    Err(_) => {}
                }
            }
        });
        Stream { stop, sent, bytes, received, seen, threads: vec![sender, receiver] }
    }
}

pub struct Stream {
    stop: Arc<AtomicBool>,
    pub sent: Arc<AtomicU64>,
    pub bytes: Arc<AtomicU64>,
    pub received: Arc<AtomicU64>,
    seen: Arc<Mutex<BTreeSet<u64>>>,
    threads: Vec<JoinHandle<()>>,
}

impl Stream {
    /// Ends the stream when all packets have arrived; returns the packets sent and received.
    pub fn end(self) -> (u64, u64) {
        let (sent, received, _) = self.end_with_gaps();
        (sent, received)
    }

    /// Like `end`, with the number of gaps of one or more missing packets.
    pub fn end_with_gaps(self) -> (u64, u64, u64) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().unwrap();
        }
        let sent = self.sent.load(Ordering::Relaxed);
        let seen = self.seen.lock().unwrap();
        // A gap begins at a missing packet with a received predecessor.
        let begins = |n: &u64| !seen.contains(n) && (*n == 0 || seen.contains(&(n - 1)));
        let gaps = (0..sent).filter(begins).count() as u64;
        (sent, self.received.load(Ordering::Relaxed), gaps)
    }
}

/// Returns the rates of streams over some time, bit/s.
pub fn rates(streams: &[Stream], over: Duration) -> Vec<f64> {
    let read = || streams.iter().map(|s| s.bytes.load(Ordering::Relaxed)).collect::<Vec<_>>();
    let (before, start) = (read(), Instant::now());
    thread::sleep(over);
    let seconds = start.elapsed().as_secs_f64();
    read().iter().zip(before).map(|(a, b)| (a - b) as f64 * 8.0 / seconds).collect()
}

pub fn jain(x: &[f64]) -> f64 {
    let (sum, squares) = (x.iter().sum::<f64>(), x.iter().map(|v| v * v).sum::<f64>());
    sum * sum / (x.len() as f64 * squares)
}

/// A folder with a configuration, and its daemons.
pub struct Box {
    pub folder: tempfile::TempDir,
    pub namespace: String,
}

impl Box {
    pub fn new(path: &Path, config: &str) -> Box {
        let folder = tempfile::tempdir().unwrap();
        let b = Box { folder, namespace: path.gateway.name.clone() };
        b.write(config);
        b
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, config: &str) {
        let folder = self.folder.path().display();
        let paths = format!(
            "\n[paths]\nstate = \"{folder}/state\"\nsocket = \"{folder}/gateway.sock\"\n\
             [metrics]\nlisten = \"127.0.0.1:9742\"\n"
        );
        let paths = if config.contains("[paths]") { String::new() } else { paths };
        std::fs::write(self.file("gateway.toml"), config.to_owned() + &paths).unwrap();
    }

    pub fn program(&self) -> Command {
        let mut command = Command::new("ip");
        // A virtual machine has the shipped program, not the one that cargo built beside the tests.
        let program = std::env::var("FAIRMESH_GATEWAY");
        let program = program.as_deref().unwrap_or(env!("CARGO_BIN_EXE_fairmesh-gateway"));
        command.args(["netns", "exec", &self.namespace, program]);
        command
    }

    /// Starts a daemon, with its output in the file `log`.
    pub fn start(&self) -> Daemon {
        self.start_by(self.program())
    }

    /// Starts a daemon without a capability.
    pub fn start_without(&self, capability: &str) -> Daemon {
        let program = self.program();
        let words: Vec<_> = program.get_args().collect();
        let (namespace, program) = words.split_at(3);
        let mut command = Command::new("ip");
        let without = format!("--bounding-set=-{capability}");
        command.args(namespace).args(["setpriv", &without]).args(program);
        self.start_by(command)
    }

    /// Starts a daemon in a separate mount namespace, after a shell command in it.
    pub fn start_after(&self, line: &str) -> Daemon {
        let program = self.program();
        let words: Vec<_> = program.get_args().collect();
        let (namespace, program) = words.split_at(3);
        let mut command = Command::new("ip");
        let line = format!("{line} && exec \"$@\"");
        command.args(namespace).args(["sh", "-c", &line, "sh"]).args(program);
        self.start_by(command)
    }

    fn start_by(&self, mut command: Command) -> Daemon {
        let log = File::options().create(true).append(true).open(self.file("log")).unwrap();
        let child = command
            .args(["run", "--config"])
            .arg(self.file("gateway.toml"))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Daemon { child }
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.file("log")).unwrap_or_default()
    }

    /// Runs a command of the program; returns exit code, standard output and standard error.
    pub fn command(&self, words: &[&str]) -> (i32, String, String) {
        let mut command = self.program();
        let out =
            command.args(words).arg("--config").arg(self.file("gateway.toml")).output().unwrap();
        let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
        (out.status.code().unwrap_or(-1), text(&out.stdout), text(&out.stderr))
    }

    /// Returns the output of a command without a configuration.
    pub fn output_without_configuration(&self, words: &[&str]) -> String {
        let out = self.program().args(words).output().unwrap();
        assert!(out.status.success(), "{words:?}");
        String::from_utf8(out.stdout).unwrap()
    }

    /// Runs a command with `--json`; returns `None` if it fails.
    pub fn json(&self, words: &[&str]) -> Option<Value> {
        let (code, out, _) = self.command(&[words, &["--json"]].concat());
        if code == 0 { serde_json::from_str(&out).ok() } else { None }
    }

    /// Returns the output of `status --json`, read from the default socket without a process.
    fn status(&self) -> Option<Value> {
        let socket = self.file("gateway.sock");
        let config = std::fs::read_to_string(self.file("gateway.toml")).unwrap();
        if !config.contains(&format!("{:?}", socket.display().to_string())) {
            return self.json(&["status"]);
        }
        ask(&socket, &Request::Status).ok()
    }

    /// Waits until the status fulfils a condition.
    pub fn wait(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let (end, mut pause) = (Instant::now() + Duration::from_secs(120), Pause::new());
        loop {
            if let Some(status) = self.status().filter(&wanted) {
                return status;
            }
            assert!(Instant::now() < end, "{what}: never came\n{}", self.log());
            pause.take();
        }
    }

    pub fn wait_running(&self) -> Value {
        self.wait("running", |s| s["phase"] == "running")
    }

    /// Waits until the log has an event.
    pub fn wait_event(&self, code: &str) {
        let (end, mut pause) = (Instant::now() + Duration::from_secs(120), Pause::new());
        while !self.log().lines().any(|l| l.starts_with(code)) {
            assert!(Instant::now() < end, "{code}: never came\n{}", self.log());
            pause.take();
        }
    }
}

/// A running daemon.
///
/// `ip netns exec` executes the program, so the child process is the daemon.
pub struct Daemon {
    child: Child,
}

impl Daemon {
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }
    pub fn signal(&self, signal: Signal) {
        let _ = kill(Pid::from_raw(self.child.id() as i32), signal);
    }
    /// Ends the daemon with a signal and waits for its end.
    pub fn end(mut self, signal: Signal) -> Option<i32> {
        self.signal(signal);
        self.child.wait().unwrap().code()
    }
    /// Waits until the daemon ends.
    pub fn exit_code(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a configuration for the path.
pub fn config(mode: &str, control: &str, ceiling: &str) -> String {
    let mut text = format!(
        "mode = \"{mode}\"\nunmapped = \"pass\"\n[mesh]\ninterface = \"mesh\"\n[wired]\ninterface = \"wan\"\n\
         [shaping]\nsample = \"1 s\"\n[control]\nuse = \"{control}\"\n\
         [[neighbour]]\nname = \"router\"\ncapacity = \"8 Mbit/s\"\n[plan.all]\n{ceiling}\n"
    );
    if control != "fifo" {
        text = text.replace("\n[[neighbour]]", "\nepoch = 1\n[[neighbour]]");
    }
    for i in 1..=SUBSCRIBERS {
        text += &format!(
            "[[subscriber]]\nname = \"sub {i}\"\nplan = \"all\"\nprefixes = [\"10.1.{i}.0/24\"]\n"
        );
    }
    text
}
