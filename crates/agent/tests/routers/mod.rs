//! Mesh routers in network namespaces, with the built `fairmesh-node`.

#![allow(dead_code)] // each test program uses a part

#[path = "../../../linux/tests/common/namespace.rs"]
mod namespace;
#[path = "../common/root.rs"]
mod root;

use std::fs::File;
use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub use namespace::{Namespace, ip, run};
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{setsockopt, sockopt};
use nix::unistd::Pid;
pub use root::root;
use serde_json::Value;

/// A router of the chain: its namespace, its files and its daemon.
pub struct Router {
    pub ns: Namespace,
    pub folder: tempfile::TempDir,
    pub daemon: Option<Child>,
    /// Environment of the daemon.
    pub environment: Vec<(&'static str, PathBuf)>,
}

impl Router {
    pub fn new() -> Router {
        let (ns, folder) = (Namespace::new(), tempfile::tempdir().unwrap());
        Router { ns, folder, daemon: None, environment: Vec::new() }
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes key and configuration.
    pub fn configure(&self, key: &str, interfaces: &str, more: &str) {
        let file = self.file("node.key");
        let _ = std::fs::remove_file(&file);
        let mut options = File::options();
        options
            .create(true)
            .write(true)
            .mode(0o600)
            .open(&file)
            .unwrap()
            .write_all(key.as_bytes())
            .unwrap();
        let at = self.folder.path().display();
        let text = format!(
            "interfaces = [{interfaces}]\nrouting = \"layer3\"\nrate = \"54 Mbit/s\"\nkey = \"{at}/node.key\"\n{more}\n\
             [paths]\nsocket = \"{at}/node.sock\"\nstate = \"{at}/state\"\n"
        );
        std::fs::write(self.file("node.toml"), text).unwrap();
    }

    pub fn program(&self) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.ns.name, env!("CARGO_BIN_EXE_fairmesh-node")]);
        command
    }

    pub fn start(&mut self) {
        let log = File::options().create(true).append(true).open(self.file("log")).unwrap();
        let mut command = self.program();
        command.args(["run", "--config"]).arg(self.file("node.toml"));
        command.envs(self.environment.iter().cloned());
        self.daemon = Some(command.stdout(Stdio::null()).stderr(log).spawn().unwrap());
    }

    /// Ends the daemon with a signal; returns its exit code.
    pub fn end(&mut self, signal: Signal) -> Option<i32> {
        let mut daemon = self.daemon.take().unwrap();
        kill(Pid::from_raw(daemon.id() as i32), signal).unwrap();
        daemon.wait().unwrap().code()
    }

    /// Runs a command; returns exit code, standard output and standard error.
    pub fn command(&self, words: &[&str]) -> (i32, String, String) {
        let out = self.program().args(words).arg("--config").arg(self.file("node.toml")).output();
        let out = out.unwrap();
        let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
        (out.status.code().unwrap_or(-1), text(&out.stdout), text(&out.stderr))
    }

    pub fn status(&self) -> Option<Value> {
        let (code, out, _) = self.command(&["status", "--json"]);
        (code == 0).then(|| serde_json::from_str(&out).unwrap())
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.file("log")).unwrap_or_default()
    }

    /// Waits until the status fulfils a condition.
    pub fn wait(&self, what: &str, mut holds: impl FnMut(&Value) -> bool) -> Value {
        self.eventually(what, || self.status().filter(&mut holds))
    }

    pub fn eventually<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(found) = look() {
                return found;
            }
            assert!(Instant::now() < end, "{what}: never\n{:#?}\n{}", self.status(), self.log());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    pub fn mac(&self, interface: &str) -> String {
        let text = self.ns.sh(&format!("ip -o link show dev {interface}"));
        let words: Vec<&str> = text.split_whitespace().collect();
        let at = words.iter().position(|w| *w == "link/ether").unwrap();
        words[at + 1].to_owned()
    }

    /// Addresses of the neighbours that send messages.
    pub fn senders(status: &Value) -> Vec<String> {
        let all = status["neighbours"].as_array().unwrap().iter();
        let sending = all.filter(|n| !n["role"].is_null());
        sending.map(|n| n["mac"].as_str().unwrap().to_owned()).collect()
    }

    pub fn qdiscs(&self) -> String {
        self.ns.sh("tc qdisc show")
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// Gateway, middle and far router in a chain.
pub fn chain() -> [Router; 3] {
    let routers = [Router::new(), Router::new(), Router::new()];
    let [g, m, f] = routers.each_ref().map(|r| r.ns.name.clone());
    let links = [
        format!("link add name m0 netns {g} type veth peer name m0 netns {m}"),
        format!("link add name m1 netns {m} type veth peer name m1 netns {f}"),
    ];
    ip(&[], &links.each_ref().map(String::as_str));
    let [gateway, middle, far] = routers.each_ref().map(|r| &r.ns);
    gateway.ip(&[
        "link set lo up",
        "link set m0 up",
        "addr add 10.5.0.1/24 dev m0",
        "route add 10.6.0.0/24 via 10.5.0.2",
    ]);
    middle.ip(&[
        "link set lo up",
        "link set m0 up",
        "link set m1 up",
        "addr add 10.5.0.2/24 dev m0",
        "addr add 10.6.0.2/24 dev m1",
    ]);
    far.ip(&[
        "link set lo up",
        "link set m1 up",
        "addr add 10.6.0.3/24 dev m1",
        "route add default via 10.6.0.2",
    ]);
    middle.sh("sysctl -qw net.ipv4.ip_forward=1");
    routers
}

pub fn key() -> String {
    let out = Command::new(env!("CARGO_BIN_EXE_fairmesh-node")).arg("key").output().unwrap();
    String::from_utf8(out.stdout).unwrap()
}

/// Sends datagrams of 1,000 bytes at once; returns the number that arrived.
pub fn blast(from: &UdpSocket, to: &UdpSocket, count: usize) -> usize {
    let address: SocketAddr = to.local_addr().unwrap();
    // All may wait in the receiver.
    setsockopt(to, sockopt::RcvBufForce, &(1 << 20)).unwrap();
    for _ in 0..count {
        let _ = from.send_to(&[7; 1000], address);
    }
    let mut buffer = [0; 1500];
    to.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let mut received = 0;
    while received < count && to.recv(&mut buffer).is_ok() {
        received += 1;
    }
    received
}
