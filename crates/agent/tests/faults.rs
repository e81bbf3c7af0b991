//! Random faults of a mesh: traffic, limits and the kernel after each of them.
//!
//! Gateway, middle and far router in a chain; gateway and middle are ports of a bridge, the radio cell. The middle router
//! limits its own traffic by `gap`. A run has [`FAULTS`] faults, or `FAIRMESH_FAULTS=200`; `FAIRMESH_SEED` selects others.
//! The test prints the longest recovery from each kind of fault. Times are printed and not asserted, since they depend on
//! the load of the machine; the assertions have a cap of a minute.

#![allow(clippy::disallowed_methods)] // real time passes here

mod routers;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use fairmesh_agent::key::Key;
use fairmesh_agent::node::config::MESSAGE_PORT;
use fairmesh_agent::node::message::{Draft, Field, MeshKey, Role, seal};
use fairmesh_linux::{MacAddr, broadcast};
use fairmesh_units::Stream;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use routers::{Namespace, Router, key, root};
use serde_json::Value;

/// Faults without `FAIRMESH_FAULTS`.
const FAULTS: usize = 4;
/// Time after which a missing recovery is a failure, whatever the load.
const CAP: Duration = Duration::from_secs(60);
/// Guarantee of the middle router, in kbit/s.
const GUARANTEE: u64 = 200;

/// A kind of fault, and its recovery as far as it is not the daemon's own.
type Fault = fn(&mut Mesh);

const KINDS: [(&str, Fault); 27] = [
    ("daemon killed, started again", daemon_killed_and_started),
    ("daemon killed", daemon_killed),
    ("guard killed", guard_killed),
    ("daemon and guard killed", both_killed),
    ("daemon hangs", daemon_hangs),
    ("guard hangs", guard_hangs),
    ("interface down", interface_down),
    ("gateway's interface down", gateway_interface_down),
    ("interface deleted and created", interface_created),
    ("gateway's daemon gone", gateway_gone),
    ("gateway with another key", gateway_with_another_key),
    ("far router with another key", far_with_another_key),
    ("far router killed", far_killed),
    ("flood: forged, replayed, cut", flood),
    ("neighbours that claim everything", claims_everything),
    ("neighbour that claims nothing", claims_nothing),
    ("state truncated", state_truncated),
    ("disk full", disk_full),
    ("wall clock jumps", clock_jumps),
    ("wall clock before the state", clock_behind),
    ("configuration changed", reload),
    ("configuration broken", reload_broken),
    ("routes flushed and set", routes_flushed),
    ("medium restarted", medium_restarted),
    ("queues deleted", queues_deleted),
    ("rules flushed", rules_flushed),
    ("observation and back", observed),
];

/// Longest times of one kind of fault.
#[derive(Clone, Copy, Default)]
struct Longest {
    count: usize,
    traffic: Duration,
    limits: Duration,
    neighbours: Duration,
    removal: Option<Duration>,
}

struct Mesh {
    cell: Namespace,
    gateway: Router,
    middle: Router,
    far: Router,
    shared: String,
    /// Guarantee in force, in kbit/s.
    guarantee: u64,
    /// Run number of invented neighbours.
    run: u32,
    sent: u64,
    paths: Vec<(UdpSocket, UdpSocket)>,
    rng: Stream,
    now: Longest,
    _state: Mount,
}

/// A small file system, for the state of the middle router.
struct Mount(PathBuf);

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// A clock with the offset from the system's that stands in a file.
const CLOCK: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec *now) {
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, now);
    FILE *file = clock == CLOCK_REALTIME ? fopen(getenv("TEST_CLOCK"), "r") : NULL;
    long offset;
    if (file && fscanf(file, "%ld", &offset) == 1) now->tv_sec += offset;
    if (file) fclose(file);
    return result;
}
"#;

fn preload(folder: &Path) -> PathBuf {
    let (source, library) = (folder.join("clock.c"), folder.join("clock.so"));
    std::fs::write(&source, CLOCK).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).arg("-ldl");
    assert!(compiler.status().unwrap().success());
    library
}

fn pause(ms: u32) {
    std::thread::sleep(Duration::from_millis(ms.into()));
}

impl Mesh {
    fn new(seed: u64) -> Mesh {
        let (gateway, mut middle, far) = (Router::new(), Router::new(), Router::new());
        let state = middle.file("state");
        std::fs::create_dir(&state).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=64k,mode=0700", "fairmesh-test"])
            .arg(&state)
            .status();
        assert!(mounted.unwrap().success());
        std::fs::write(middle.file("clock"), "0").unwrap();
        let clock = preload(middle.folder.path());
        middle.environment = vec![("LD_PRELOAD", clock), ("TEST_CLOCK", middle.file("clock"))];
        let mut mesh = Mesh {
            cell: Namespace::new(),
            gateway,
            middle,
            far,
            shared: key(),
            guarantee: GUARANTEE,
            run: 0,
            sent: 0,
            paths: Vec::new(),
            rng: Stream::new(seed, "faults"),
            now: Longest::default(),
            _state: Mount(state),
        };
        mesh.make_cell();
        mesh.link_gateway();
        mesh.link_middle();
        let (middle, far) = (&mesh.middle.ns, &mesh.far.ns);
        let line = "link add name m1 netns";
        routers::ip(
            &[],
            &[&format!("{line} {} type veth peer name m1 netns {}", middle.name, far.name)],
        );
        for router in [&mesh.gateway, &mesh.middle, &mesh.far] {
            router.ns.ip(&["link set lo up"]);
        }
        middle.ip(&["link set m1 up", "addr add 10.6.0.2/24 dev m1"]);
        middle.sh("sysctl -qw net.ipv4.ip_forward=1");
        far.ip(&["link set m1 up", "addr add 10.6.0.3/24 dev m1"]);
        mesh.routes();
        let socket = |router: &Router, address: &str| {
            let socket = router.ns.udp(address);
            socket.set_nonblocking(true).unwrap();
            socket
        };
        let (g, m, f) = ("10.5.0.1", "10.5.0.2", "10.6.0.3");
        for (at, (a, b)) in
            [((&mesh.gateway, g), (&mesh.middle, m)), ((&mesh.gateway, g), (&mesh.far, f))]
                .into_iter()
                .enumerate()
        {
            let port = 6000 + at;
            let ends =
                (socket(a.0, &format!("{}:{port}", a.1)), socket(b.0, &format!("{}:{port}", b.1)));
            mesh.paths.push(ends);
        }
        mesh
    }

    fn make_cell(&self) {
        self.cell.ip(&[
            "link set lo up",
            "link add name air type bridge",
            "addr add 10.5.0.9/24 dev air",
            "link set air up",
        ]);
    }

    fn link(&self, router: &Router, port: &str, address: &str) {
        let (cell, there) = (&self.cell.name, &router.ns.name);
        routers::ip(
            &[],
            &[&format!("link add name {port} netns {cell} type veth peer name m0 netns {there}")],
        );
        self.cell.ip(&[&format!("link set {port} master air"), &format!("link set {port} up")]);
        router.ns.ip(&["link set m0 up", &format!("addr add {address}/24 dev m0")]);
    }

    fn link_gateway(&self) {
        self.link(&self.gateway, "cell-g", "10.5.0.1");
    }

    fn link_middle(&self) {
        self.link(&self.middle, "cell-m", "10.5.0.2");
    }

    /// Sets the routes, as a routing daemon.
    fn routes(&self) {
        self.gateway.ns.ip(&["route replace 10.6.0.0/24 via 10.5.0.2"]);
        self.far.ns.ip(&["route replace default via 10.6.0.2"]);
    }

    fn configure_gateway(&self, key: &str) {
        self.gateway.configure(key, "\"m0\"", "role = \"gateway\"");
    }

    fn configure_middle(&self, mode: &str) {
        let guarantee = self.guarantee;
        let more =
            format!("mode = \"{mode}\"\n[control]\nuse = \"gap\"\nguarantee = {guarantee}\n");
        self.middle.configure(&self.shared, "\"m0\", \"m1\"", &more);
    }

    fn configure_far(&self, key: &str) {
        let more = "mode = \"apply\"\n[control]\nuse = \"gap\"\nguarantee = 200\n";
        self.far.configure(key, "\"m1\"", more);
    }

    /// Sends a datagram over each path in both directions; returns true if all arrive.
    fn flows(&mut self) -> bool {
        self.sent += 1;
        let tag = self.sent.to_be_bytes();
        let mut waits = Vec::new();
        for (a, b) in &self.paths {
            for (from, to) in [(a, b), (b, a)] {
                let _ = from.send_to(&tag, to.local_addr().unwrap());
                waits.push(to);
            }
        }
        let end = Instant::now() + Duration::from_millis(300);
        while !waits.is_empty() && Instant::now() < end {
            waits.retain(|socket| {
                let mut buffer = [0; 64];
                while let Ok(n) = socket.recv(&mut buffer) {
                    if buffer[..n] == tag {
                        return false;
                    }
                }
                true
            });
            pause(2);
        }
        waits.is_empty()
    }

    /// Limit of the middle router's own traffic in the kernel, in bit/s; `None` without one.
    fn limit(&self) -> Option<u64> {
        let arguments = ["-n", &self.middle.ns.name, "class", "show", "dev", "m0"];
        let text = routers::run("tc", &arguments).filter(|o| o.status.success())?.stdout;
        let text = String::from_utf8(text).unwrap();
        let rate = |class: &str| {
            let ceil = class.split_once(" fa2:")?.1.split_once("ceil ")?.1.split_once("bit ")?.0;
            let unit = ceil.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
            let number: f64 = ceil.trim_end_matches(unit).parse().unwrap();
            let factor = ["", "K", "M", "G", "T"].iter().position(|u| *u == unit).unwrap();
            // Of frames with 1514 octets and 1500 octets of IP.
            Some((number * 1000_f64.powi(factor as i32) * 1500.0 / 1514.0) as u64)
        };
        let least = text.lines().filter_map(rate).min()?;
        (least < 1_000_000_000).then_some(least)
    }

    /// Kernel objects of ours at the routers.
    fn ours(&self) -> String {
        let mut all = String::new();
        for router in [&self.middle, &self.far, &self.gateway] {
            let qdiscs = router.qdiscs();
            for line in qdiscs.lines().filter(|l| l.contains(" fa2:")) {
                let _ = writeln!(all, "{line}");
            }
            let rules = router.ns.sh("nft list tables");
            for line in rules.lines().filter(|l| l.contains("fairmesh")) {
                let _ = writeln!(all, "{line}");
            }
        }
        all
    }

    fn eventually(&mut self, what: &str, mut holds: impl FnMut(&mut Mesh) -> bool) -> Duration {
        let start = Instant::now();
        while !holds(self) {
            assert!(
                start.elapsed() < CAP,
                "{what}: never; limit {:?}\n{}\n{:#?}\nmiddle:\n{}\ngateway:\n{}",
                self.limit(),
                self.ours(),
                self.middle.status(),
                self.middle.log(),
                self.gateway.log(),
            );
            pause(20);
        }
        start.elapsed()
    }

    /// Waits until traffic flows.
    fn traffic(&mut self) {
        let time = self.eventually("traffic", Mesh::flows);
        self.now.traffic = self.now.traffic.max(time);
    }

    /// Waits until the limit of the middle router is right, in the kernel and by its report.
    fn limited(&mut self, expected: Option<u64>) {
        let right = |mesh: &mut Mesh| {
            let near = |found: u64, wanted: u64| found.abs_diff(wanted) <= wanted / 100;
            let kernel = match (mesh.limit(), expected) {
                (Some(found), Some(wanted)) => near(found, 1000 * wanted),
                (found, wanted) => found.is_none() && wanted.is_none(),
            };
            let reported = |status: Option<Value>| {
                let limit = &status.as_ref()?["limit"];
                Some(
                    (limit["applied"] == true).then(|| limit["bits_per_second"].as_u64()).flatten(),
                )
            };
            kernel && reported(mesh.middle.status()) == Some(expected.map(|e| 1000 * e))
        };
        let time = self.eventually("the right limit", right);
        self.now.limits = self.now.limits.max(time);
    }

    /// Waits until nothing of ours is in the kernel.
    fn removed(&mut self) {
        let time = self.eventually("removal", |mesh| mesh.ours().is_empty());
        self.now.removal = self.now.removal.max(Some(time));
    }

    /// Traffic, limit and neighbours as without a fault.
    fn recovered(&mut self) {
        self.traffic();
        self.limited(Some(self.guarantee));
        self.traffic();
        let time = self.eventually("all neighbours", |mesh| {
            let middle = mesh.middle.mac("m0");
            let mut both = [mesh.gateway.mac("m0"), mesh.far.mac("m1")];
            both.sort();
            let senders = |r: &Router| r.status().map(|s| Router::senders(&s)).unwrap_or_default();
            senders(&mesh.gateway) == [middle] && senders(&mesh.middle) == both
        });
        self.now.neighbours = self.now.neighbours.max(time);
        let others = |r: &Router| r.qdiscs().contains(" fa2:");
        assert!(!others(&self.gateway) && !others(&self.far), "{}", self.ours());
    }

    /// Waits until the gateway has accepted new messages of the middle router.
    fn accepted(&mut self) {
        let mac = self.middle.mac("m0");
        let count = |mesh: &Mesh| {
            let status = mesh.gateway.status()?;
            let all = status["neighbours"].as_array()?;
            all.iter().find(|n| n["mac"] == mac.as_str())?["messages"].as_u64()
        };
        let before = count(self).unwrap_or(0);
        let time =
            self.eventually("new messages", |mesh| count(mesh).is_some_and(|n| n > before + 1));
        self.now.neighbours = self.now.neighbours.max(time);
    }

    /// The guard of the middle router's daemon, once it has one.
    fn guard(&mut self) -> Pid {
        let parent = self.middle.daemon.as_ref().unwrap().id().to_string();
        let mut found = None;
        self.eventually("a guard", |_| {
            let out = routers::run("pgrep", &["-P", &parent]).unwrap();
            let text = String::from_utf8_lossy(&out.stdout).into_owned();
            found = text.split_whitespace().next().and_then(|pid| pid.parse().ok());
            found.is_some()
        });
        Pid::from_raw(found.unwrap())
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.middle.daemon.as_ref().unwrap().id() as i32);
        kill(pid, signal).unwrap();
    }

    fn restart_middle(&mut self) {
        self.middle.end(Signal::SIGKILL);
        self.middle.start();
    }

    /// A socket of the cell, which receives all messages.
    fn outsider(&self) -> UdpSocket {
        self.cell.within(|| broadcast::open("air", MESSAGE_PORT, 0).unwrap())
    }

    /// Sends valid messages of invented neighbours for some seconds.
    ///
    /// With nothing but its guarantee the middle router has at least that, or no limit.
    fn lie(&mut self, seconds: u32, neighbours: u8, fields: &[Field<'_>]) {
        let mesh_key = MeshKey::new(Key::read(&self.shared).unwrap());
        let socket = self.outsider();
        let mut draft = Draft::new();
        assert!(fields.iter().all(|f| draft.push(*f)));
        self.run += 1;
        for sequence in 1..=4 * seconds {
            for n in 0..neighbours {
                let mac = MacAddr([2, 0, 0, self.run as u8, 0, n]);
                let bytes = seal(&mesh_key, mac, self.run, sequence, &draft);
                let _ = broadcast::send(&socket, MESSAGE_PORT, &bytes);
            }
            pause(250);
            if sequence % 4 == 0 {
                let limit = self.limit();
                let least = 990 * self.guarantee;
                assert!(limit.is_none_or(|l| l >= least), "{limit:?}\n{}", self.middle.log());
                self.traffic();
            }
        }
    }
}

fn daemon_killed_and_started(mesh: &mut Mesh) {
    mesh.middle.end(Signal::SIGKILL);
    mesh.traffic();
    pause(mesh.rng.below(9000));
    mesh.middle.start();
    mesh.recovered();
}

fn daemon_killed(mesh: &mut Mesh) {
    mesh.middle.end(Signal::SIGKILL);
    mesh.traffic();
    mesh.removed();
    mesh.traffic();
    mesh.middle.start();
    mesh.recovered();
}

fn guard_killed(mesh: &mut Mesh) {
    let guard = mesh.guard();
    kill(guard, Signal::SIGKILL).unwrap();
    mesh.recovered();
    mesh.eventually("another guard", |mesh| mesh.guard() != guard);
}

/// A service manager starts the daemon again.
fn both_killed(mesh: &mut Mesh) {
    kill(mesh.guard(), Signal::SIGKILL).unwrap();
    mesh.middle.end(Signal::SIGKILL);
    mesh.traffic();
    mesh.middle.start();
    mesh.recovered();
}

fn daemon_hangs(mesh: &mut Mesh) {
    mesh.signal(Signal::SIGSTOP);
    mesh.traffic();
    mesh.removed();
    mesh.traffic();
    mesh.signal(Signal::SIGCONT);
    mesh.recovered();
}

fn guard_hangs(mesh: &mut Mesh) {
    let guard = mesh.guard();
    kill(guard, Signal::SIGSTOP).unwrap();
    mesh.recovered();
    mesh.eventually("another guard", |mesh| mesh.guard() != guard);
}

fn interface_down(mesh: &mut Mesh) {
    mesh.middle.ns.ip(&["link set m0 down"]);
    pause(mesh.rng.below(6000));
    mesh.middle.ns.ip(&["link set m0 up"]);
    mesh.recovered();
}

fn gateway_interface_down(mesh: &mut Mesh) {
    mesh.gateway.ns.ip(&["link set m0 down"]);
    pause(mesh.rng.below(6000));
    mesh.gateway.ns.ip(&["link set m0 up"]);
    mesh.routes();
    mesh.recovered();
}

fn interface_created(mesh: &mut Mesh) {
    mesh.middle.ns.ip(&["link del m0"]);
    pause(mesh.rng.below(4000));
    mesh.link_middle();
    mesh.recovered();
}

fn gateway_gone(mesh: &mut Mesh) {
    let signal = if mesh.rng.chance(0.5) { Signal::SIGKILL } else { Signal::SIGTERM };
    mesh.gateway.end(signal);
    mesh.traffic();
    mesh.limited(None);
    mesh.removed();
    mesh.gateway.start();
    mesh.recovered();
}

fn gateway_with_another_key(mesh: &mut Mesh) {
    mesh.gateway.end(Signal::SIGTERM);
    mesh.configure_gateway(&key());
    mesh.gateway.start();
    mesh.traffic();
    mesh.limited(None);
    mesh.gateway.end(Signal::SIGTERM);
    mesh.configure_gateway(&mesh.shared);
    mesh.gateway.start();
    mesh.recovered();
}

fn far_with_another_key(mesh: &mut Mesh) {
    for key in [key(), mesh.shared.clone()] {
        mesh.far.end(Signal::SIGTERM);
        mesh.configure_far(&key);
        mesh.far.start();
        pause(mesh.rng.below(4000));
        mesh.traffic();
        mesh.limited(Some(mesh.guarantee));
    }
    mesh.recovered();
}

fn far_killed(mesh: &mut Mesh) {
    mesh.far.end(Signal::SIGKILL);
    pause(mesh.rng.below(4000));
    mesh.traffic();
    mesh.limited(Some(mesh.guarantee));
    mesh.far.start();
    mesh.recovered();
}

fn flood(mesh: &mut Mesh) {
    let outsider = mesh.outsider();
    let mut received = Vec::new();
    mesh.eventually("messages", |_| {
        let mut buffer = [0; 300];
        while let Ok(n) = outsider.recv(&mut buffer) {
            received.push(buffer[..n].to_vec());
        }
        received.len() > 6
    });
    let end = Instant::now() + Duration::from_secs(2);
    while Instant::now() < end {
        for _ in 0..200 {
            let mut bytes = received[mesh.rng.below(received.len() as u32) as usize].clone();
            match mesh.rng.below(5) {
                0 => {}
                1 => bytes.truncate(mesh.rng.below(bytes.len() as u32) as usize),
                2 => bytes.resize(bytes.len() + 1 + mesh.rng.below(1000) as usize, 7),
                _ => {
                    let at = mesh.rng.below(bytes.len() as u32) as usize;
                    bytes[at] ^= 1 << mesh.rng.below(8);
                }
            }
            let _ = broadcast::send(&outsider, MESSAGE_PORT, &bytes);
        }
        pause(5);
    }
    mesh.recovered();
}

fn claims_everything(mesh: &mut Mesh) {
    // Both bits of `gap`: the gateway is in use, and one neighbour uses it.
    let full = [0x53];
    let neighbours = if mesh.rng.chance(0.5) { 100 } else { 1 };
    mesh.lie(
        2,
        neighbours,
        &[Field::Role(Role::Gateway), Field::Mechanism("gap"), Field::Body(&full)],
    );
    mesh.recovered();
}

fn claims_nothing(mesh: &mut Mesh) {
    let empty = Draft::new();
    assert!(empty.size() < 40);
    mesh.lie(1, 1, &[]);
    let none = [0x50];
    mesh.lie(1, 1, &[Field::Role(Role::Gateway), Field::Mechanism("gap"), Field::Body(&none)]);
    mesh.recovered();
}

fn state_truncated(mesh: &mut Mesh) {
    let file = mesh.middle.file("state/state.json");
    let text = std::fs::read(&file).unwrap();
    std::fs::write(&file, &text[..mesh.rng.below(text.len() as u32) as usize]).unwrap();
    mesh.restart_middle();
    mesh.recovered();
    mesh.accepted();
}

fn disk_full(mesh: &mut Mesh) {
    let fill = mesh.middle.file("state/fill");
    let mut file = std::fs::File::create(&fill).unwrap();
    while file.write_all(&[1; 4096]).is_ok() {}
    mesh.restart_middle();
    mesh.recovered();
    let unsaved = |status: &Value| status["events"].to_string().contains("state.unsaved");
    assert!(mesh.middle.status().is_some_and(|s| unsaved(&s)), "{}", mesh.middle.log());
    drop(file);
    std::fs::remove_file(&fill).unwrap();
    mesh.restart_middle();
    mesh.recovered();
    assert!(mesh.middle.status().is_some_and(|s| !unsaved(&s)), "{}", mesh.middle.log());
}

fn clock_jumps(mesh: &mut Mesh) {
    let file = mesh.middle.file("clock");
    for offset in ["31536000", "-1000000000", "0"] {
        std::fs::write(&file, offset).unwrap();
        pause(1500);
        mesh.recovered();
    }
}

/// A router without a clock: its runs still rise, by the state.
fn clock_behind(mesh: &mut Mesh) {
    let file = mesh.middle.file("clock");
    std::fs::write(&file, "-1500000000").unwrap();
    mesh.restart_middle();
    mesh.recovered();
    mesh.accepted();
    std::fs::write(&file, "0").unwrap();
}

fn reload(mesh: &mut Mesh) {
    for guarantee in [300 + u64::from(mesh.rng.below(500)), GUARANTEE] {
        mesh.guarantee = guarantee;
        mesh.configure_middle("apply");
        mesh.signal(Signal::SIGHUP);
        mesh.recovered();
    }
}

fn reload_broken(mesh: &mut Mesh) {
    let file = mesh.middle.file("node.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let refused = |mesh: &Mesh| mesh.middle.log().matches("config.refused").count();
    let before = refused(mesh);
    let cut = mesh.rng.below(text.len() as u32 / 2) as usize;
    std::fs::write(&file, format!("{}\n[[[", &text[..cut])).unwrap();
    mesh.signal(Signal::SIGHUP);
    mesh.eventually("the refusal", |mesh| refused(mesh) > before);
    std::fs::write(&file, text).unwrap();
    mesh.recovered();
}

fn routes_flushed(mesh: &mut Mesh) {
    mesh.gateway.ns.ip(&["route del 10.6.0.0/24 via 10.5.0.2"]);
    mesh.far.ns.ip(&["route del default"]);
    pause(mesh.rng.below(3000));
    mesh.limited(Some(mesh.guarantee));
    mesh.routes();
    mesh.recovered();
}

fn medium_restarted(mesh: &mut Mesh) {
    if mesh.rng.chance(0.5) {
        mesh.cell.ip(&["link set air down"]);
        pause(mesh.rng.below(6000));
        mesh.cell.ip(&["link set air up"]);
    } else {
        mesh.cell.ip(&["link del air"]);
        pause(mesh.rng.below(6000));
        mesh.make_cell();
        mesh.cell.ip(&["link set cell-g master air", "link set cell-m master air"]);
    }
    mesh.recovered();
}

fn queues_deleted(mesh: &mut Mesh) {
    mesh.middle.ns.sh("tc qdisc del dev m0 root");
    mesh.recovered();
}

/// As firewalls do; relayed traffic must not get the limit of local traffic.
fn rules_flushed(mesh: &mut Mesh) {
    mesh.middle.ns.sh("nft flush ruleset");
    mesh.traffic();
    let table = |mesh: &mut Mesh| mesh.middle.ns.sh("nft list tables").contains("fairmesh-node");
    let time = mesh.eventually("the rules", table);
    mesh.now.limits = mesh.now.limits.max(time);
    mesh.recovered();
}

fn observed(mesh: &mut Mesh) {
    mesh.middle.end(Signal::SIGTERM);
    mesh.removed();
    mesh.configure_middle("observe");
    mesh.middle.start();
    let shown = |s: Option<Value>| s.is_some_and(|s| s["limit"]["applied"] == false);
    mesh.eventually("a decision", |mesh| shown(mesh.middle.status()));
    mesh.traffic();
    assert!(mesh.ours().is_empty(), "{}", mesh.ours());
    mesh.middle.end(Signal::SIGTERM);
    mesh.configure_middle("apply");
    mesh.middle.start();
    mesh.recovered();
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text}; expected a number")))
}

#[test]
fn a_mesh_recovers_from_random_faults() {
    let Some(_one) = root("a_mesh_recovers_from_random_faults") else { return };
    let count = number("FAIRMESH_FAULTS").map_or(FAULTS, |n| n as usize);
    let seed = number("FAIRMESH_SEED").unwrap_or(3);
    let only = std::env::var("FAIRMESH_FAULT").ok();
    let mut mesh = Mesh::new(seed);
    mesh.configure_gateway(&mesh.shared);
    mesh.configure_middle("apply");
    mesh.configure_far(&mesh.shared);
    for router in [&mut mesh.gateway, &mut mesh.middle, &mut mesh.far] {
        router.start();
    }
    mesh.recovered();
    let mut longest: BTreeMap<&str, Longest> = BTreeMap::new();
    let mut order: Vec<(&str, Fault)> = Vec::new();
    for n in 0..count {
        if order.is_empty() {
            order =
                KINDS.iter().filter(|k| only.as_ref().is_none_or(|o| k.0 == o)).copied().collect();
        }
        let (name, fault) = order.swap_remove(mesh.rng.below(order.len() as u32) as usize);
        let _ = writeln!(std::io::stderr(), "{:3} of {count}: {name}", n + 1);
        mesh.now = longest.get(name).copied().unwrap_or_default();
        mesh.now.count += 1;
        fault(&mut mesh);
        longest.insert(name, mesh.now);
    }
    for router in [&mut mesh.gateway, &mut mesh.middle, &mut mesh.far] {
        assert_eq!(router.end(Signal::SIGTERM), Some(0), "{}", router.log());
    }
    assert!(mesh.ours().is_empty(), "{}", mesh.ours());
    assert!(mesh.flows());
    let mut table =
        format!("{:36} count  traffic   limits neighbours  removal (longest, s)\n", "fault");
    for (name, l) in &longest {
        let removal = l.removal.map_or("-".into(), |r| format!("{:.1}", r.as_secs_f64()));
        let (traffic, limits) = (l.traffic.as_secs_f64(), l.limits.as_secs_f64());
        let _ = writeln!(
            table,
            "{name:36} {:5} {traffic:8.1} {limits:8.1} {:10.1} {removal:>8}",
            l.count,
            l.neighbours.as_secs_f64()
        );
    }
    let _ = writeln!(std::io::stderr(), "{table}");
}
