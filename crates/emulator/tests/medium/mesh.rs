//! Radios in namespaces, and the medium between them.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use fairmesh_linux::netns::{self, Namespace};
use nix::fcntl::{Flock, FlockArg};
use serde_json::Value;

/// Arguments of `iw … join`: 5180 MHz without HT.
pub const NOHT_5GHZ: &str = "5180 NOHT";
/// 2412 MHz, 20 MHz, 802.11n.
pub const HT20_2GHZ: &str = "2412 HT20";
/// Folder of the medium and its libraries, in memory: pages from the shared folder are slow.
const PROGRAMS: &str = "/tmp/medium";

/// Kind of the network.
#[derive(Clone, Copy)]
pub enum Mode {
    /// 802.11s with HWMP.
    Mesh(&'static str),
    /// Ad hoc, without routing.
    Ibss(&'static str),
}

/// A driver of simulated radios.
#[derive(Clone, Copy)]
pub enum Driver {
    /// The changed driver of scripts/kernel/hwsim.
    Ours { ring: u32 },
    /// The kernel's.
    Stock,
}

impl Driver {
    /// Loads it with some radios, in place of any other.
    pub fn load(self, radios: usize) {
        unload();
        match self {
            Driver::Ours { ring } => {
                let series = release().split('.').take(2).collect::<Vec<_>>().join(".");
                sh("modprobe mac80211");
                sh(&format!("insmod /host/hwsim-{series}.ko radios={radios} ring={ring}"));
            }
            Driver::Stock => _ = sh(&format!("modprobe mac80211_hwsim radios={radios}")),
        }
        sh("iw reg set US");
        thread::sleep(Duration::from_millis(300));
    }
}

/// Removes the driver, if it is loaded.
pub fn unload() {
    let _ = Command::new("rmmod").arg("mac80211_hwsim").stderr(Stdio::null()).status();
}

/// Keeps the figures of a run beside the machine's log, for `validation/medium`.
pub fn keep(name: &str, record: &Value) {
    let text = serde_json::to_string_pretty(record).unwrap() + "\n";
    // Only scripts/kernel's machine has the folder.
    let _ = fs::write(format!("/out/{name}.json"), text);
}

/// Release of the kernel.
pub fn release() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease").unwrap()
}

/// True if hwsim of this kernel has mac80211's intermediate queues.
pub fn has_txq() -> bool {
    !release().starts_with("6.1.")
}

/// Waits for the machine's radios.
pub fn lock() -> Flock<File> {
    let file = OpenOptions::new().create(true).append(true).open("/tmp/radios.lock").unwrap();
    Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, e)| e).unwrap()
}

#[track_caller]
pub fn sh(line: &str) -> String {
    let out = Command::new("sh").args(["-c", line]).output().unwrap();
    let error = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{line}: {error}");
    String::from_utf8(out.stdout).unwrap()
}

fn medium(text: &str, options: &[&str]) -> Command {
    if !Path::new(PROGRAMS).exists() {
        sh(&format!("mkdir -p {PROGRAMS} && cp -r /host/lib /host/fairmesh {PROGRAMS}"));
    }
    let scenario = format!("{PROGRAMS}/scenario.toml");
    fs::write(&scenario, whole(text)).unwrap();
    let mut command = Command::new(format!("{PROGRAMS}/lib/ld.so"));
    command.args(["--library-path", &format!("{PROGRAMS}/lib"), &format!("{PROGRAMS}/fairmesh")]);
    command.args(["medium", &scenario, "--json"]).args(options);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs a medium to its end; its results, or its exit code and message.
pub fn medium_json(text: &str, options: &[&str]) -> Result<Value, (i32, String)> {
    let out = medium(text, options).output().unwrap();
    match out.status.success() {
        true => Ok(serde_json::from_slice(&out.stdout).unwrap()),
        false => {
            Err((out.status.code().unwrap_or(-1), String::from_utf8_lossy(&out.stderr).into()))
        }
    }
}

/// A medium that runs, after it has registered.
fn start_medium(text: &str, options: &[&str]) -> Child {
    let mut child = medium(text, options).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut seen = String::new();
    while !seen.contains("the radio of") {
        if lines.read_line(&mut seen).unwrap() == 0 {
            panic!("the medium did not start: {seen}");
        }
    }
    // Read on, so that it never waits for us.
    thread::spawn(move || lines.read_to_string(&mut String::new()));
    child
}

/// Stations in namespaces `fm0`, `fm1`, …, each with `wlan0` and the address `10.9.0.(i+1)`.
pub struct Mesh {
    pub nodes: Vec<Namespace>,
    medium: Child,
}

impl Mesh {
    /// Loads radios, starts the medium, and joins all stations.
    pub fn start(text: &str, driver: Driver, mode: Mode, options: &[&str]) -> Mesh {
        for name in netns::list("fm") {
            netns::remove(&name).unwrap();
        }
        let stations = stations(text);
        driver.load(stations);
        let medium = start_medium(text, options);
        let mut nodes = Vec::new();
        for i in 0..stations {
            let phy = phy_of(i);
            let wlan = fs::read_dir(format!("/sys/class/ieee80211/{phy}/device/net")).unwrap();
            let wlan = wlan.flatten().next().unwrap().file_name().into_string().unwrap();
            let ns = Namespace::create(&format!("fm{i}")).unwrap();
            sh(&format!("iw phy {phy} set netns name {}", ns.name()));
            ns.ip(&format!("link set lo up\nlink set {wlan} name wlan0\n")).unwrap();
            nodes.push(ns);
        }
        let mesh = Mesh { nodes, medium };
        for i in 0..stations {
            let (kind, join) = match mode {
                Mode::Mesh(channel) => ("mp", format!("mesh join fairmesh freq {channel}")),
                Mode::Ibss(channel) => {
                    ("ibss", format!("ibss join fairmesh {channel} fixed-freq 02:11:22:33:44:55"))
                }
            };
            mesh.sh(i, &format!("iw dev wlan0 set type {kind}"));
            mesh.sh(i, "ip link set wlan0 up");
            mesh.sh(i, &format!("iw dev wlan0 {join}"));
            mesh.sh(i, &format!("ip addr add {}/24 dev wlan0", address(i)));
        }
        if matches!(mode, Mode::Ibss(_)) {
            // Peers are known from their beacons. Addresses are set, since a saturated hidden station loses
            // every request for them.
            for (i, node) in mesh.nodes.iter().enumerate() {
                let others = (0..stations).filter(|j| *j != i);
                let entry =
                    |j| format!("neigh replace {} lladdr {} dev wlan0\n", address(j), mac(j));
                node.ip(&others.map(entry).collect::<String>()).unwrap();
            }
            thread::sleep(Duration::from_secs(1));
        }
        mesh
    }

    /// Runs a shell line in a node's namespace.
    #[track_caller]
    pub fn sh(&self, node: usize, line: &str) -> String {
        sh(&format!("ip netns exec fm{node} {line}"))
    }

    /// Waits until node 0 reaches a node, within 20 s.
    #[track_caller]
    pub fn reach(&self, node: usize) {
        let start = Instant::now();
        let ping = format!("ip netns exec fm0 ping -c 1 -W 1 {} >/dev/null", address(node));
        while !Command::new("sh").args(["-c", &ping]).status().unwrap().success() {
            assert!(start.elapsed() < Duration::from_secs(20), "no path from 0 to {node}");
        }
    }

    /// True if the medium runs.
    pub fn medium_lives(&mut self) -> bool {
        self.medium.try_wait().unwrap().is_none()
    }

    /// Kills the medium at once.
    pub fn kill_medium(&self) {
        sh(&format!("kill -9 {}", self.medium.id()));
    }

    /// Starts another medium after the death of the last one.
    pub fn restart_medium(&mut self, text: &str, options: &[&str]) {
        let _ = self.medium.wait();
        self.medium = start_medium(text, options);
    }

    /// Ends the medium and returns its results.
    pub fn end(mut self) -> Value {
        assert!(self.medium_lives(), "the medium died: results are of the driver's own medium");
        sh(&format!("kill -TERM {}", self.medium.id()));
        let mut text = String::new();
        self.medium.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        serde_json::from_str(&text).unwrap()
    }
}

impl Drop for Mesh {
    fn drop(&mut self) {
        let _ = self.medium.kill();
        let _ = self.medium.wait();
        for node in &self.nodes {
            let _ = netns::remove(node.name());
        }
        unload();
    }
}

/// Address of a station.
pub fn address(node: usize) -> String {
    format!("10.9.0.{}", node + 1)
}

/// Returns a scenario with flows, which the medium does not use and a scenario must have.
fn whole(text: &str) -> String {
    format!("{text}[traffic]\nflows = \"up\"\n")
}

fn stations(text: &str) -> usize {
    let options = fairmesh_scenario::ImportOptions::default();
    fairmesh_scenario::parse("medium.toml", whole(text).as_bytes(), &options)
        .unwrap()
        .wireless()
        .count()
}

fn mac(radio: usize) -> String {
    format!("02:00:00:00:{radio:02x}:00")
}

fn phy_of(radio: usize) -> String {
    let wanted = mac(radio);
    let all = fs::read_dir("/sys/class/ieee80211").unwrap().flatten();
    let names = all.map(|e| e.file_name().into_string().unwrap());
    let is = |name: &String| {
        let path = format!("/sys/class/ieee80211/{name}/macaddress");
        fs::read_to_string(path).is_ok_and(|mac| mac.trim() == wanted)
    };
    names.into_iter().find(is).unwrap_or_else(|| panic!("no radio {wanted}"))
}
