//! The five commands of an operator on batman-adv and on 802.11s over simulated radios.
//!
//! The mesh: gateway – a – b and gateway – c, with a client in b's bridge. All radios of mac80211_hwsim
//! receive each other, so peer links that the mesh should not have are blocked.

use std::fmt::Write;
use std::fs::read_to_string;
use std::process::{Command, Stdio};

use fairmesh_agent::gateway::config::{Config, Mode};
use fairmesh_agent::gateway::request::{Request, ask};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use serde_json::Value;

use crate::common::meter::{Meter, measure};
use crate::common::{Namespace, ip, root, run, sh};
use crate::{Background, keep, within};

/// Configuration and socket of an installed daemon.
const CONFIG: &str = "/etc/fairmesh/gateway.toml";
const SOCKET: &str = "/run/fairmesh/gateway.sock";

/// Layer 2 of the mesh.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// batman-adv over mesh points that do not forward.
    Batman,
    /// 802.11s with its own paths.
    MeshPoints,
}

struct Mesh {
    /// Interface to the mesh: `bat0` or `radio`.
    interface: &'static str,
    wired: Namespace,
    gateway: Namespace,
    /// a, b, c.
    nodes: [Namespace; 3],
    client: Namespace,
    /// Addresses of the radios: the gateway's, a's, b's, c's.
    radios: [String; 4],
}

impl Drop for Mesh {
    fn drop(&mut self) {
        run("rmmod", &["mac80211_hwsim"]);
        let _ = std::fs::remove_file(CONFIG);
        let _ = std::fs::remove_dir_all("/var/lib/fairmesh");
    }
}

fn mac(ns: &Namespace, dev: &str) -> String {
    let link: Value =
        serde_json::from_str(&ns.sh(&format!("ip -json link show dev {dev}"))).unwrap();
    link[0]["address"].as_str().unwrap().to_owned()
}

impl Mesh {
    fn new(kind: Kind) -> Mesh {
        let [wired, gateway, a, b, c, client] = [(); 6].map(|()| Namespace::new());
        let nodes = [a, b, c];
        let all = || std::iter::once(&gateway).chain(&nodes);
        sh("modprobe mac80211_hwsim radios=4");
        let mut phys: Vec<String> = std::fs::read_dir("/sys/class/ieee80211")
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        phys.sort();
        for (phy, ns) in phys.iter().zip(all()) {
            sh(&format!("iw phy {phy} set netns name {}", ns.name));
            let links = ns.sh("ip -o link show");
            let wlan = links.split_whitespace().find(|w| w.starts_with("wlan")).unwrap();
            let wlan = wlan.trim_end_matches(':');
            // Room for batman-adv's header.
            ns.ip(&[&format!("link set {wlan} name radio mtu 1560")]);
            ns.sh("iw dev radio set type mp");
            ns.ip(&["link set lo up", "link set radio up"]);
            ns.sh("iw dev radio mesh join fairmesh freq 2412 HT20");
        }
        let radios: Vec<String> = all().map(|ns| mac(ns, "radio")).collect();
        let radios: [String; 4] = radios.try_into().unwrap();
        let peers = |ns: &Namespace| ns.sh("iw dev radio station dump").matches("ESTAB").count();
        within(30, "peers", || all().all(|ns| peers(ns) == 3));
        let of: Vec<&Namespace> = all().collect();
        for (one, other) in [(0, 2), (3, 1), (3, 2)] {
            for (i, j) in [(one, other), (other, one)] {
                let peer = &radios[j];
                of[i].sh(&format!("iw dev radio station set {peer} plink_action block"));
            }
        }
        let interface = match kind {
            Kind::MeshPoints => "radio",
            Kind::Batman => {
                sh("modprobe batman_adv");
                for ns in all() {
                    ns.sh("iw dev radio set mesh_param mesh_fwding 0");
                    ns.sh("batctl meshif bat0 interface create");
                    ns.sh("batctl meshif bat0 interface -M add radio");
                    ns.ip(&["link set bat0 up"]);
                }
                "bat0"
            }
        };
        let (w, g) = (&wired.name, &gateway.name);
        let links = [
            format!("link add name w0 netns {w} type veth peer name wan netns {g}"),
            format!(
                "link add name lan netns {} type veth peer name eth0 netns {}",
                nodes[1].name, client.name
            ),
        ];
        ip(&[], &links.each_ref().map(String::as_str));
        let address = |ns: &Namespace, address: &str, dev: &str| {
            ns.ip(&[&format!("addr add {address}/24 dev {dev}"), &format!("link set {dev} up")]);
        };
        nodes[1].ip(&[
            "link add br0 type bridge",
            &format!("link set {interface} master br0"),
            "link set lan master br0 up",
        ]);
        for (ns, host, dev) in [
            (&gateway, 1, interface),
            (&nodes[0], 2, interface),
            (&nodes[1], 3, "br0"),
            (&nodes[2], 4, interface),
            (&client, 50, "eth0"),
        ] {
            address(ns, &format!("10.98.0.{host}"), dev);
        }
        address(&wired, "10.99.0.2", "w0");
        address(&gateway, "10.99.0.1", "wan");
        wired.ip(&["route add default via 10.99.0.1"]);
        client.ip(&["route add default via 10.98.0.1"]);
        gateway.ip(&["route add default via 10.99.0.2"]);
        gateway.sh("sysctl -qw net.ipv4.ip_forward=1");
        let mesh = Mesh { interface, wired, gateway, nodes, client, radios };
        for ns in mesh.nodes.iter().chain([&mesh.client]) {
            within(60, "the mesh", || mesh.reaches(ns));
        }
        mesh
    }

    /// Sends a packet to the gateway; returns true if it responds.
    fn reaches(&self, from: &Namespace) -> bool {
        let line = format!("netns exec {} ping -q -c 1 -W 1 10.98.0.1", from.name);
        let words: Vec<&str> = line.split(' ').collect();
        run("ip", &words).unwrap().status.success()
    }

    /// Runs a command of the installed program on the gateway; returns exit code and output.
    fn fairmesh(&self, transcript: &mut String, line: &str) -> (i32, String) {
        let program = std::env::var("FAIRMESH_GATEWAY").unwrap();
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.gateway.name, &program]).args(line.split(' '));
        let out = command.output().unwrap();
        let text = String::from_utf8([out.stdout, out.stderr].concat()).unwrap();
        let _ = write!(transcript, "# fairmesh-gateway {line}\n{text}");
        (out.status.code().unwrap_or(-1), text)
    }

    /// Returns the daemon's classes with a limit, for both interfaces.
    fn limited(&self) -> usize {
        let classes =
            [self.interface, "wan"].map(|dev| self.gateway.sh(&format!("tc class show dev {dev}")));
        let limited = |l: &&str| l.contains(" fa1") && !l.contains(" ceil 1Tbit ");
        classes.concat().lines().filter(limited).count()
    }

    fn wait(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        within(60, what, || {
            last = ask(SOCKET.as_ref(), &Request::Status).unwrap_or_default();
            wanted(&last)
        });
        last
    }

    /// Returns the driver's rate to a station, kbit/s.
    fn rate(&self, station: &str) -> f64 {
        let text = self.gateway.sh(&format!("iw dev radio station get {station}"));
        let line = text.lines().find_map(|l| l.trim().strip_prefix("tx bitrate:")).unwrap();
        line.split_whitespace().next().unwrap().parse::<f64>().unwrap() * 1000.0
    }
}

/// A home as the survey and the daemon should show it.
struct Home {
    radio: usize,
    hops: Option<u32>,
    prefixes: Vec<&'static str>,
    macs: Vec<String>,
}

/// Compares the homes of a survey.
fn compare(mesh: &Mesh, homes: &[Home], found: &Value) {
    assert_eq!(found["homes"].as_array().unwrap().len(), homes.len(), "{found}");
    for (home, seen) in homes.iter().zip(found["homes"].as_array().unwrap()) {
        assert_eq!(seen["name"], mesh.radios[home.radio], "{seen}");
        assert_eq!(seen["hops"], home.hops.map_or(Value::Null, Value::from), "{seen}");
        let sorted = |list: &Value| {
            let mut list: Vec<String> = serde_json::from_value(list.clone()).unwrap();
            list.sort();
            list
        };
        let mut macs = home.macs.clone();
        macs.sort();
        // A bridge may have the address of its port.
        macs.dedup();
        assert_eq!(
            (sorted(&seen["prefixes"]), sorted(&seen["macs"])),
            (home.prefixes.iter().map(|p| (*p).to_owned()).collect(), macs),
            "{seen}"
        );
    }
}

/// Runs init, check, run, apply and status, and stops the daemon.
fn five_commands(mesh: &Mesh, kind: &str, source: &str, homes: &[Home]) {
    let mut transcript = String::new();
    std::fs::create_dir_all("/etc/fairmesh").unwrap();
    let before = [1, 3].map(|n| mesh.rate(&mesh.radios[n]));
    let (code, found) = mesh.fairmesh(&mut transcript, "init --json");
    let found: Value = serde_json::from_str(&found).unwrap();
    assert_eq!(code, 0, "{found}");
    compare(mesh, homes, &found);
    transcript.clear();

    let (code, out) = mesh.fairmesh(&mut transcript, &format!("init --output {CONFIG} --force"));
    assert_eq!(code, 0, "{out}");
    for line in [
        format!("mesh       {}: ", mesh.interface),
        "wired      wan: ".into(),
        format!("source     {source}"),
    ] {
        assert!(out.lines().any(|l| l.starts_with(&line)), "{line}: {out}");
    }
    assert!(out.contains("3 homes") && out.contains("(used)") && !out.contains("FAILED"), "{out}");
    let text = read_to_string(CONFIG).unwrap();
    let config = Config::parse(CONFIG, &text).unwrap();
    assert_eq!(
        (config.mode, config.mechanism.to_string().as_str()),
        (Mode::Observe, "pfrc+bursts"),
        "{text}"
    );
    assert_eq!((config.layout.mesh.name(), config.layout.wired.name()), (mesh.interface, "wan"));
    let mut neighbours: Vec<_> = config
        .neighbours
        .iter()
        .map(|n| (n.mac.unwrap().to_string(), n.rate.0 as f64 / 1e3))
        .collect();
    neighbours.sort_by(|x, y| x.0.cmp(&y.0));
    let after = [1, 3].map(|n| mesh.rate(&mesh.radios[n]));
    assert_eq!(neighbours.len(), 2, "b is no peer: {text}");
    for (i, (mac, rate)) in neighbours.iter().enumerate() {
        assert_eq!(*mac, mesh.radios[[1, 3][i]]);
        assert!(
            *rate == before[i] || *rate == after[i],
            "{rate} kbit/s; the driver: {before:?}, {after:?}"
        );
    }
    assert_eq!(text.matches("\n#[[subscriber]]").count(), homes.len(), "{text}");

    let (code, out) = mesh.fairmesh(&mut transcript, "check");
    assert!(code == 0 && out.lines().all(|l| l.starts_with("ok ")), "{out}");

    let _ = writeln!(transcript, "# fairmesh-gateway run &");
    let program = std::env::var("FAIRMESH_GATEWAY").unwrap();
    let log = std::fs::File::create("/tmp/daemon.log").unwrap();
    let mut command = Command::new("ip");
    command
        .args(["netns", "exec", &mesh.gateway.name, &program, "run"])
        .stderr(log)
        .stdout(Stdio::null());
    let mut daemon = Background(command.spawn().unwrap());
    let names = |s: &Value| {
        homes.iter().all(|h| s["subscribers"].to_string().contains(&mesh.radios[h.radio]))
    };
    let status = mesh.wait("the homes", |s| s["phase"] == "running" && names(s));
    assert_eq!((status["mode"].as_str(), mesh.limited()), (Some("observe"), 0), "{status}");
    mesh.fairmesh(&mut transcript, "status");

    let (code, out) = mesh.fairmesh(&mut transcript, "apply");
    assert!(code == 0 && out.contains("limits are set"), "{out}");
    mesh.wait("limits", |s| s["mode"] == "apply" && s["phase"] == "running");
    within(30, "limits", || mesh.limited() == 2 * homes.len());
    // The client is limited as a part of b's home.
    let limit = |s: &Value| {
        let home =
            s["subscribers"].as_array().unwrap().iter().find(|h| h["name"] == *mesh.radios[2]);
        home?["ways"][0]["limit_bits_per_second"].as_f64()
    };
    let shown = || limit(&mesh.wait("the client's limit", |s| limit(s).is_some())).unwrap();
    let first = shown();
    let got = measure(vec![Meter::udp(
        (&mesh.wired, "10.99.0.2:0"),
        (&mesh.client, "10.98.0.50:5000"),
        1400,
        20_000.0,
    )]);
    let last = shown();
    let (least, most) = (first.min(last), first.max(last));
    let _ = writeln!(
        transcript,
        "# 20 Mbit/s of UDP to the client: {:.2} Mbit/s of {:.2} to {:.2}",
        got[0].rate / 1e6,
        least / 1e6,
        most / 1e6
    );
    assert!(
        got[0].rate > 0.9 * least && got[0].rate < most,
        "{} of {least} to {most}\n{transcript}",
        got[0].rate
    );
    let (_, out) = mesh.fairmesh(&mut transcript, "status");
    let (_, doctor) = mesh.fairmesh(&mut transcript, "doctor");
    assert!(!doctor.contains("WRONG"), "{doctor}");
    let log = read_to_string("/tmp/daemon.log").unwrap();
    assert!(!log.contains("counters."), "{out}\n{log}");

    nix::sys::signal::kill(Pid::from_raw(daemon.0.id() as i32), Signal::SIGTERM).unwrap();
    assert_eq!(daemon.0.wait().unwrap().code(), Some(0), "{log}");
    assert_eq!(mesh.limited(), 0, "stopped");
    assert_eq!(mesh.fairmesh(&mut transcript, "reset").0, 0);
    assert!(!mesh.gateway.sh("tc qdisc show").contains(" fa1:"));
    keep(&format!("five-commands-{kind}.txt"), &(transcript + &text));
}

#[test]
#[ignore = "in scripts/kernel's machine"]
fn five_commands_with_batman() {
    let _one = machine!("five_commands_with_batman");
    let mesh = Mesh::new(Kind::Batman);
    let [a, b, c] = &mesh.nodes;
    let home = |radio, hops, macs| Home { radio, hops, prefixes: Vec::new(), macs };
    let homes = [
        home(1, Some(1), vec![mac(a, "bat0")]),
        // batman-adv has no number of hops.
        home(2, None, vec![mac(b, "bat0"), mac(b, "br0"), mac(&mesh.client, "eth0")]),
        home(3, Some(1), vec![mac(c, "bat0")]),
    ];
    five_commands(&mesh, "batman-adv", "batctl: 3 nodes, ", &homes);
}

#[test]
#[ignore = "in scripts/kernel's machine"]
fn five_commands_with_80211s() {
    let _one = machine!("five_commands_with_80211s");
    let mesh = Mesh::new(Kind::MeshPoints);
    let own = |n: usize| mesh.radios[n].clone();
    let home = |radio, hops, prefixes, macs| Home { radio, hops, prefixes, macs };
    let homes = [
        home(1, Some(1), vec!["10.98.0.2/32"], vec![own(1)]),
        home(
            2,
            Some(2),
            vec!["10.98.0.3/32", "10.98.0.50/32"],
            vec![own(2), mac(&mesh.client, "eth0")],
        ),
        home(3, Some(1), vec!["10.98.0.4/32"], vec![own(3)]),
    ];
    five_commands(&mesh, "802.11s", "mesh paths of radio: 3 nodes, 8 addresses, ", &homes);
    // The mesh point in a bridge, as on OpenWrt.
    mesh.gateway.ip(&[
        "link add br-lan type bridge",
        "addr flush dev radio",
        "link set radio master br-lan",
        "addr add 10.98.0.1/24 dev br-lan",
        "link set br-lan up",
    ]);
    for ns in mesh.nodes.iter().chain([&mesh.client]) {
        within(60, "the bridge", || mesh.reaches(ns));
    }
    let mut found = String::new();
    // Paths and neighbours of the bridge come with its first packets.
    within(60, "the homes in the bridge", || {
        let (code, text) = mesh.fairmesh(&mut String::new(), "init --json");
        println!("{code}: {text}");
        found = text;
        code == 0 && found.contains("\"addresses\":8")
    });
    let found: Value = serde_json::from_str(&found).unwrap();
    let chosen = [&found["mesh"]["interface"], &found["source"]].map(|v| v.as_str().unwrap());
    assert_eq!(chosen, ["br-lan", "mesh-paths"], "{found}");
    compare(&mesh, &homes, &found);
    assert_eq!(found["neighbours"].as_array().unwrap().len(), 2, "{found}");
}
