//! The daemon on the kernels that operators have, with what only those have: every leaf and
//! classifier, radios, batman-adv, Babel. `make test-kernel` runs these in a virtual machine whose
//! time is counted in instructions (scripts/kernel), so that seconds may be asserted; elsewhere they
//! are ignored, since they load modules and rename them.

#![allow(clippy::disallowed_methods)] // the machine's time passes here

mod common;

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::{Box, Path, config, rates, root, run, sh};
use nix::sys::signal::Signal;
use serde_json::Value;

/// Takes the machine, which is the virtual one.
macro_rules! machine {
    ($name:literal) => {{
        assert!(std::env::var_os("FAIRMESH_VM").is_some(), "only in scripts/kernel's machine");
        root($name).unwrap()
    }};
}

/// A process that ends with the test.
struct Background(Child);

impl Background {
    /// Starts a command line in a namespace.
    fn start(namespace: &str, line: &str) -> Background {
        let words = line.split_whitespace();
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace]).args(words);
        Background(command.stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits for something that comes within some seconds of the machine's time.
fn within(seconds: u64, what: &str, mut come: impl FnMut() -> bool) -> f64 {
    let start = Instant::now();
    while !come() {
        assert!(start.elapsed() < Duration::from_secs(seconds), "{what}: not within {seconds} s");
        thread::sleep(Duration::from_millis(100));
    }
    start.elapsed().as_secs_f64()
}

/// What iperf3 gets through from the wired host to a subscriber, or back, in bit/s of payload.
fn iperf3(path: &Path, address: &str, words: &str) -> f64 {
    let bind = address.to_owned();
    let _server =
        Background::start(&path.subs.0, &format!("iperf3 --server --json --one-off --bind {bind}"));
    within(5, "iperf3", || path.subs.sh("ss -Hltn").contains(":5201"));
    let out = path
        .wired
        .sh(&format!("iperf3 --client {address} --json --get-server-output --time 6 {words}"));
    let report: Value = serde_json::from_str(&out).unwrap();
    let end = &report["end"];
    if words.contains("--udp") {
        // What the receiver got second by second, without the first, in which queues fill, and the
        // last: what still waits when the sender stops is in nobody's sum.
        let receiver =
            if words.contains("--reverse") { &report } else { &report["server_output_json"] };
        let seconds = receiver["intervals"].as_array().unwrap_or_else(|| panic!("{report}"));
        let middle = &seconds[1..5];
        let rates = middle.iter().map(|i| i["sum"]["bits_per_second"].as_f64().unwrap());
        return rates.sum::<f64>() / middle.len() as f64;
    }
    end["sum_received"]["bits_per_second"].as_f64().unwrap()
}

#[track_caller]
fn close_to(what: &str, got: f64, wanted: f64) {
    let off = got / wanted - 1.0;
    println!("{what}: {:.0} kbit/s, {:+.1} %", got / 1e3, 100.0 * off);
    assert!(off.abs() < 0.05, "{what}: {got:.0} bit/s instead of {wanted:.0}");
}

/// Payload of a limit on Ethernet frames: TCP with timestamps in full frames.
const TCP: f64 = 1448.0 / 1514.0;
/// The same of UDP datagrams of 1400 bytes.
const UDP: f64 = 1400.0 / 1442.0;

fn limits(b: &Box, path: &Path, kind: &str) {
    b.wait_running();
    close_to(&format!("{kind}, TCP down"), iperf3(path, "10.1.1.1", ""), 2e6 * TCP);
    close_to(&format!("{kind}, TCP up"), iperf3(path, "10.1.1.1", "--reverse"), 1e6 * TCP);
    let udp = "--udp --length 1400 --bandwidth 4M";
    close_to(&format!("{kind}, UDP down"), iperf3(path, "10.1.1.1", udp), 2e6 * UDP);
    let up = format!("{udp} --reverse");
    close_to(&format!("{kind}, UDP up"), iperf3(path, "10.1.1.1", &up), 1e6 * UDP);
}

const PLAN: &str = "down = \"2 Mbit/s\"\nup = \"1 Mbit/s\"";

#[test]
#[ignore = "in scripts/kernel's machine"]
fn every_leaf_holds_limits_both_ways() {
    let _one = machine!("every_leaf");
    let path = Path::new();
    for leaf in ["fq_codel", "cake", "sfq", "pfifo"] {
        let sample = "sample = \"1 s\"";
        let text = config("apply", "fifo", PLAN)
            .replace(sample, &format!("{sample}\nleaf = \"{leaf}\"\non_exit = \"remove\""));
        let b = Box::new(&path, &text);
        let daemon = b.start();
        let status = b.wait_running();
        assert_eq!(status["leaf"], leaf);
        for side in ["mesh", "wan"] {
            let there = path.gateway.sh(&format!("tc qdisc show dev {side}"));
            let ours = there.lines().filter(|l| l.starts_with(&format!("qdisc {leaf} ")));
            assert!(ours.count() >= common::SUBSCRIBERS, "{side}: {there}");
        }
        limits(&b, &path, leaf);
        assert_eq!(daemon.end(Signal::SIGTERM), Some(0));
        assert_eq!(path.ours(), "", "{leaf}");
    }
}

/// What a kernel lacks is found out, and the next best taken.
#[test]
#[ignore = "in scripts/kernel's machine"]
fn the_best_leaf_that_there_is() {
    let _one = machine!("the_best_leaf");
    let list = "/etc/modprobe.d/fairmesh-test.conf";
    let mut lacking = String::new();
    for (kind, lacks) in [
        ("fq_codel", None),
        ("cake", Some("sch_fq_codel")),
        ("sfq", Some("sch_cake")),
        ("pfifo", Some("sch_sfq")),
    ] {
        if let Some(module) = lacks {
            lacking += &format!("install {module} /bin/false\n");
            std::fs::write(list, &lacking).unwrap();
            // The interfaces of tests that ended are taken down after their namespaces.
            within(20, module, || {
                !std::path::Path::new(&format!("/sys/module/{module}")).exists()
                    || run("rmmod", &[module]).is_some_and(|o| o.status.success())
            });
        }
        let path = Path::new();
        let b = Box::new(&path, &config("apply", "fifo", PLAN));
        let daemon = b.start();
        let status = b.wait_running();
        assert_eq!(status["leaf"], kind, "{}", b.log());
        assert!(path.flows());
        daemon.end(Signal::SIGTERM);
    }
    // Asked for and missing: nothing is limited, and it is said by name.
    let path = Path::new();
    let sample = "sample = \"1 s\"";
    let text = config("apply", "fifo", PLAN).replace(sample, &format!("{sample}\nleaf = \"cake\""));
    let b = Box::new(&path, &text);
    let daemon = b.start();
    b.wait_event("install.failed");
    assert!(b.log().contains("sch_cake"), "{}", b.log());
    assert!(path.flows());
    daemon.end(Signal::SIGTERM);
    std::fs::remove_file(list).unwrap();
}

/// Prefixes of several lengths, IPv6 and an Ethernet address, all at once, each with a limit of its own.
#[test]
#[ignore = "in scripts/kernel's machine"]
fn every_kind_of_address_has_its_limit() {
    let _one = machine!("every_kind_of_address");
    let path = Path::new();
    // A second address of each subscriber's: nested prefixes, and one that only its router's Ethernet
    // address gives away.
    for line in ["ip addr add 10.1.1.9/32 dev lo", "ip addr add 10.1.9.1/32 dev lo"] {
        path.subs.sh(line);
    }
    let v6 = [
        (&path.wired, "addr add fd99::2/64 dev w0 nodad"),
        (&path.gateway, "addr add fd99::1/64 dev wan nodad"),
        (&path.gateway, "addr add fd98::1/64 dev mesh nodad"),
        (&path.router, "addr add fd98::2/64 dev r0 nodad"),
        (&path.router, "addr add fd97::1/64 dev r1 nodad"),
        (&path.subs, "addr add fd97::2/64 dev s0 nodad"),
        (&path.subs, "addr add fd01:2::1/128 dev lo"),
        (&path.wired, "route add default via fd99::1"),
        (&path.subs, "route add default via fd97::1"),
        (&path.router, "route add default via fd98::1"),
        (&path.router, "route add fd01::/16 via fd97::2"),
        (&path.gateway, "route add fd01::/16 via fd98::2"),
    ];
    for ns in [&path.gateway, &path.router] {
        ns.sh("sysctl -qw net.ipv6.conf.all.forwarding=1");
    }
    for (ns, line) in v6 {
        ns.sh(&format!("ip -6 {line}"));
    }
    let mac = path.router.sh("cat /sys/class/net/r0/address");
    let text = format!(
        "mode = \"apply\"\nunmapped = \"pass\"\n[mesh]\ninterface = \"mesh\"\n[wired]\ninterface = \"wan\"\n\
         [control]\nuse = \"fifo\"\n[[neighbour]]\nname = \"router\"\ncapacity = \"8 Mbit/s\"\n\
         [[subscriber]]\nname = \"wide\"\nprefixes = [\"10.1.1.0/24\"]\ndown = \"500 kbit/s\"\n\
         [[subscriber]]\nname = \"host\"\nprefixes = [\"10.1.1.9/32\"]\ndown = \"700 kbit/s\"\n\
         [[subscriber]]\nname = \"six\"\nprefixes = [\"fd01:2::/64\"]\ndown = \"900 kbit/s\"\n\
         [[subscriber]]\nname = \"frames\"\nmacs = [\"{}\"]\ndown = \"1100 kbit/s\"\n",
        mac.trim()
    );
    let b = Box::new(&path, &text);
    let daemon = b.start();
    b.wait_running();
    let udp = "--udp --length 1400 --bandwidth 2M";
    for (what, address, kbit, header) in [
        ("the /24", "10.1.1.1", 500.0, 42.0),
        ("the /32 in it", "10.1.1.9", 700.0, 42.0),
        ("the IPv6 /64", "fd01:2::1", 900.0, 62.0),
        ("the Ethernet address", "10.1.9.1", 1100.0, 42.0),
    ] {
        let got = iperf3(&path, address, udp);
        close_to(what, got, kbit * 1e3 * 1400.0 / (1400.0 + header));
    }
    assert_eq!(daemon.end(Signal::SIGTERM), Some(0));
}

/// Radios instead of the cable between gateway and mesh router; they leave with the test.
struct Radios;

impl Radios {
    fn new(path: &Path) -> Radios {
        path.gateway.sh("ip link del mesh");
        sh("modprobe mac80211_hwsim radios=2");
        let mut phys: Vec<String> = std::fs::read_dir("/sys/class/ieee80211")
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        phys.sort();
        for (phy, ns, name) in [(&phys[0], &path.gateway, "mesh"), (&phys[1], &path.router, "r0")] {
            sh(&format!("iw phy {phy} set netns name {}", ns.0));
            let links = ns.sh("ip -o link show");
            let wlan = links.split_whitespace().find(|w| w.starts_with("wlan")).unwrap();
            let wlan = wlan.trim_end_matches(':');
            ns.sh(&format!("ip link set {wlan} name {name}"));
            ns.sh(&format!("iw dev {name} set type mp"));
            ns.sh(&format!("ip link set {name} up"));
            ns.sh(&format!("iw dev {name} mesh join fairmesh freq 2412"));
        }
        path.gateway.sh("ip addr add 10.98.0.1/24 dev mesh");
        path.router.sh("ip addr add 10.98.0.2/24 dev r0");
        path.router.sh("ip route replace default via 10.98.0.1");
        path.gateway.sh("ip route replace 10.1.0.0/16 via 10.98.0.2");
        within(20, "peers", || path.gateway.sh("iw dev mesh station dump").contains("ESTAB"));
        assert!(path.flows());
        Radios
    }
}

impl Drop for Radios {
    fn drop(&mut self) {
        run("rmmod", &["mac80211_hwsim"]);
    }
}

/// mac80211 without intermediate queues overwrites priorities (Linux 6.1's hwsim): the daemon finds
/// another way, and says so, or says that there is none.
#[test]
#[ignore = "in scripts/kernel's machine"]
fn limits_hold_on_a_radio() {
    let _one = machine!("limits_hold_on_a_radio");
    let path = Path::new();
    let _radios = Radios::new(&path);
    let text = config("apply", "fifo", PLAN) + "[discover]\nneighbours = true\nevery = \"1 s\"\n";
    let b = Box::new(&path, &text);
    let daemon = b.start();
    limits(&b, &path, "802.11s");
    println!("{}", b.log());
    // The peer is in the neighbour table by its mesh address.
    let peer = path.router.sh("cat /sys/class/net/r0/address");
    b.wait("the peer", |s| s["subscribers"].to_string().contains(peer.trim()));
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let marks = path.gateway.sh("tc filter show dev mesh").contains("bpf");
    if release.starts_with("6.1.") {
        assert!(marks, "this is the driver that overwrites priorities\n{}", b.log());
        assert!(b.log().contains("marks are used"), "{}", b.log());
    } else {
        assert!(!marks, "{}", b.log());
    }
    daemon.end(Signal::SIGTERM);
    assert_eq!(b.command(&["reset"]).0, 0);
    assert_eq!(path.ours(), "");
}

/// batman-adv between gateway and mesh router; what batctl says names the router, and its limit holds.
#[test]
#[ignore = "in scripts/kernel's machine"]
fn batman_nodes_are_discovered_and_limited() {
    let _one = machine!("batman_nodes");
    sh("modprobe batman_adv");
    let path = Path::new();
    for (ns, link, address) in
        [(&path.gateway, "mesh", "10.98.0.1"), (&path.router, "r0", "10.98.0.2")]
    {
        ns.sh(&format!("ip addr flush dev {link}"));
        ns.sh("batctl meshif bat0 interface create");
        ns.sh(&format!("batctl meshif bat0 interface -M add {link}"));
        ns.sh("ip link set bat0 up");
        ns.sh(&format!("ip addr add {address}/24 dev bat0"));
    }
    path.router.sh("ip route replace default via 10.98.0.1");
    path.gateway.sh("ip route replace 10.1.0.0/16 via 10.98.0.2");
    within(60, "batman-adv", || path.flows());
    let text = "mode = \"apply\"\nunmapped = \"pass\"\n[mesh]\ninterface = \"bat0\"\n[wired]\ninterface = \"wan\"\n\
                [control]\nuse = \"fifo\"\n[[neighbour]]\nname = \"router\"\ncapacity = \"8 Mbit/s\"\n\
                [plan.all]\ndown = \"2 Mbit/s\"\nup = \"1 Mbit/s\"\n\
                [discover]\nbatman = \"bat0\"\nplan = \"all\"\nevery = \"1 s\"\n";
    let b = Box::new(&path, text);
    let daemon = b.start();
    let bat0 = path.router.sh("cat /sys/class/net/bat0/address");
    b.wait("the router", |s| s["subscribers"].to_string().contains(bat0.trim()));
    keep("batctl-originators.json", &path.gateway.sh("batctl meshif bat0 originators_json"));
    keep(
        "batctl-transtable_global.json",
        &path.gateway.sh("batctl meshif bat0 transtable_global_json"),
    );
    limits(&b, &path, "batman-adv");
    daemon.end(Signal::SIGTERM);
}

/// Leaves what a program printed where the machine's owner finds it, as a fixture.
fn keep(name: &str, text: &str) {
    if std::path::Path::new("/out").is_dir() {
        std::fs::write(std::path::Path::new("/out").join(name), text).unwrap();
    }
}

/// babeld on gateway and mesh router.
#[test]
#[ignore = "in scripts/kernel's machine"]
fn babel_routers_are_discovered_and_limited() {
    let _one = machine!("babel_routers");
    let path = Path::new();
    path.gateway.sh("ip route del 10.1.0.0/16");
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    let _gateway = Background::start(
        &path.gateway.0,
        &format!("babeld -I {at}/g.pid -S {at}/g.state -G 33123 -h 1 -H 1 mesh"),
    );
    path.router.sh("ip route replace 10.1.0.0/16 via 10.97.0.2 proto static");
    std::fs::write(
        folder.path().join("router.conf"),
        "redistribute ip 10.1.0.0/16\nredistribute local deny\n",
    )
    .unwrap();
    let _router = Background::start(
        &path.router.0,
        &format!("babeld -I {at}/r.pid -S {at}/r.state -h 1 -H 1 -c {at}/router.conf r0"),
    );
    within(60, "babeld", || path.gateway.sh("ip route show").contains("10.1.0.0/16"));
    assert!(path.flows());
    let text = "mode = \"apply\"\nunmapped = \"pass\"\n[mesh]\ninterface = \"mesh\"\n[wired]\ninterface = \"wan\"\n\
                [control]\nuse = \"fifo\"\n[[neighbour]]\nname = \"router\"\ncapacity = \"8 Mbit/s\"\n\
                [plan.all]\ndown = \"2 Mbit/s\"\nup = \"1 Mbit/s\"\n\
                [discover]\nbabel = \"[::1]:33123\"\nplan = \"all\"\nevery = \"1 s\"\n";
    let b = Box::new(&path, text);
    let daemon = b.start();
    let status = b.wait("the router", |s| s["subscribers"].to_string().contains("10.1.0.0/16"));
    println!("{}", status["subscribers"]);
    let dump = path.gateway.spawn(|| {
        use std::io::{Read, Write};
        let mut stream = std::net::TcpStream::connect("[::1]:33123").unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        stream.write_all(b"dump\n").unwrap();
        let (mut text, mut buffer) = (Vec::new(), [0; 4096]);
        while let Ok(n) = stream.read(&mut buffer) {
            text.extend_from_slice(&buffer[..n]);
        }
        String::from_utf8(text).unwrap()
    });
    keep("babeld-dump.txt", &dump.join().unwrap());
    limits(&b, &path, "Babel");
    daemon.end(Signal::SIGTERM);
}

/// Seconds that may be counted, since they are the machine's: how long limits outlive whoever set
/// them, and how long a gateway goes without them unknowingly.
#[test]
#[ignore = "in scripts/kernel's machine"]
fn deaths_and_floods_in_counted_seconds() {
    let _one = machine!("deaths_and_floods");
    let path = Path::new();
    path.gateway.sh("tc qdisc add dev mesh clsact");
    path.gateway.sh("tc filter add dev mesh egress prio 7 matchall action ok");
    let foreign = || path.gateway.sh("tc filter show dev mesh egress");
    let before = foreign();
    let b = Box::new(&path, &config("apply", "fifo", "down = \"1 Mbit/s\""));
    let streams = vec![path.stream(1, 4.0)];
    let free = || rates(&streams, Duration::from_secs(1))[0] > 2.5e6;
    let guard = b.file("gateway.guard.lock");
    for (who, daemon_too, guard_too) in
        [("the daemon", true, false), ("the guard", false, true), ("both", true, true)]
    {
        let daemon = b.start();
        b.wait_running();
        within(10, "limits", || !free());
        if guard_too {
            sh(&format!("pkill -KILL -f {}", guard.display()));
        }
        if daemon_too {
            assert_eq!(daemon.end(Signal::SIGKILL), None);
            // A look at the rate takes a second itself.
            let took = within(11, "free traffic", free);
            println!("{who} killed: no limit after {took:.1} s");
        } else {
            // It goes on, with another guard.
            b.wait_event("guard.gone");
            assert!(!free());
            daemon.end(Signal::SIGTERM);
        }
    }
    let daemon = b.start();
    b.wait_running();
    for harm in ["nft flush ruleset", "tc qdisc del dev mesh root", "tc qdisc del dev wan root"] {
        let events = || b.json(&["status"]).unwrap()["events"].to_string();
        let said = events();
        path.gateway.sh(harm);
        let took = within(3, harm, || events() != said);
        println!("{harm}: said after {took:.1} s");
        within(30, "limits again", || {
            b.json(&["status"]).is_some_and(|s| s["phase"] == "running") && !free()
        });
    }
    assert_eq!(daemon.end(Signal::SIGTERM), Some(0));
    assert_eq!(b.command(&["reset"]).0, 0);
    assert_eq!(path.ours(), "");
    assert_eq!(foreign(), before, "somebody else's filter stays");
    drop(streams);
}
