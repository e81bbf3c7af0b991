//! The daemon on the kernels that operators have, with what only those have: every leaf and
//! classifier, radios, batman-adv, Babel. `make test-kernel` runs these in a virtual machine whose
//! time is counted in instructions (scripts/kernel), so that seconds may be asserted; elsewhere they
//! are ignored, since they load modules and rename them.

#![allow(clippy::disallowed_methods)] // the machine's time passes here

mod common;

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::meter::{Meter, measure};
use common::{Box, Namespace, Path, config, rates, root, run, sh};
use fairmesh_linux::LeafKind;
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

/// One subscriber's limits: full datagrams both ways, then a connection each way.
fn limits(b: &Box, path: &Path, kind: &str) {
    b.wait_running();
    let (home, host) = ((&path.subs, "10.1.1.1:5000"), (&path.wired, "10.99.0.2:5000"));
    let udp = measure(vec![
        Meter::udp((&path.wired, "10.99.0.2:0"), home, 1400, 3000.0),
        Meter::udp((&path.subs, "10.1.1.1:0"), host, 1400, 1500.0),
    ]);
    close_to(&format!("{kind}, UDP down"), udp[0].rate, 2e6 * UDP);
    close_to(&format!("{kind}, UDP up"), udp[1].rate, 1e6 * UDP);
    let down = measure(vec![Meter::tcp(&path.wired, &path.subs, "10.1.1.1:5001")]);
    close_to(&format!("{kind}, TCP down"), down[0].rate, 2e6 * TCP);
    // Only what comes from the subscriber's address is its.
    path.subs.sh("ip route replace default via 10.97.0.1 src 10.1.1.1");
    let up = measure(vec![Meter::tcp(&path.subs, &path.wired, "10.99.0.2:5001")]);
    close_to(&format!("{kind}, TCP up"), up[0].rate, 1e6 * TCP);
}

const PLAN: &str = "down = \"2 Mbit/s\"\nup = \"1 Mbit/s\"";

/// Small datagrams of an application that talks ten times a second.
const SMALL: usize = 100;

/// Three homes at once, each with the same leaves: one downloads, one uploads, one sends more datagrams both ways than its
/// limits let through. Beside each load small datagrams of the same home tell how long its queue is.
#[test]
#[ignore = "in scripts/kernel's machine"]
fn every_leaf_holds_limits_both_ways() {
    let _one = machine!("every_leaf");
    let path = Path::new();
    path.subs.sh("ip route replace default via 10.97.0.1 src 10.1.2.1");
    for leaf in LeafKind::ALL.map(LeafKind::name) {
        let sample = "sample = \"1 s\"";
        let text = config("apply", "fifo", PLAN)
            .replace(sample, &format!("{sample}\nleaf = \"{leaf}\"\non_exit = \"remove\""));
        let b = Box::new(&path, &text);
        let daemon = b.start();
        let status = b.wait_running();
        assert_eq!(status["leaf"], leaf);
        for (side, bits) in [("mesh", 2e6), ("wan", 1e6)] {
            let there = path.gateway.sh(&format!("tc qdisc show dev {side}"));
            let ours = there.lines().filter(|l| l.starts_with(&format!("qdisc {leaf} ")));
            assert!(ours.count() >= common::SUBSCRIBERS, "{side}: {there}");
            // These do not know by themselves what 100 ms at the limit are. It is of packets, the queue's are frames.
            let bits: f64 = bits * 1514.0 / 1500.0;
            let limit = match leaf {
                "bfifo" => format!("limit {}b", (bits * 0.1 / 8.0) as u32),
                "pfifo" => format!("limit {}p", (bits * 0.1 / 8.0 / 1514.0) as u32),
                _ => continue,
            };
            let sized = there.lines().filter(|l| l.contains(leaf) && l.contains(&limit));
            assert_eq!(sized.count(), common::SUBSCRIBERS, "{side}: {there}");
        }
        let host = |port| format!("10.99.0.2:{port}");
        let home = |i: usize, port| format!("10.1.{i}.1:{port}");
        let mut meters = vec![
            Meter::tcp(&path.wired, &path.subs, &home(1, 5001)),
            Meter::tcp(&path.subs, &path.wired, &host(5001)),
            Meter::udp((&path.wired, &host(0)), (&path.subs, &home(3, 5000)), 1400, 3000.0),
            Meter::udp((&path.subs, &home(3, 0)), (&path.wired, &host(5000)), 1400, 1500.0),
        ];
        let small = SMALL as f64 * 8.0 / 100.0;
        let down = |i, port| {
            Meter::udp((&path.wired, &host(0)), (&path.subs, &home(i, port)), SMALL, small)
        };
        let up = |i, port| {
            Meter::udp((&path.subs, &home(i, 0)), (&path.wired, &host(port + i)), SMALL, small)
        };
        // Two of them, since one may share a queue with the load by chance (one in 64).
        for port in [5020, 5030] {
            meters.extend([down(1, port), up(2, port), down(3, port), up(3, port)]);
        }
        let got = measure(meters);
        let small = small * 1e3 * (SMALL + 42) as f64 / SMALL as f64;
        let mut failed = Vec::new();
        let ways = ["TCP down", "TCP up", "UDP down", "UDP up"];
        for (at, way) in ways.into_iter().enumerate() {
            let limit = [2e6, 1e6][at % 2];
            let both = [&got[4 + at], &got[8 + at]];
            let beside = if both[0].p95() < both[1].p95() { both[0] } else { both[1] };
            let share = if at < 2 { TCP } else { UDP };
            // What the small datagrams took is not the load's.
            let arrived: usize = both.iter().map(|m| m.delays.len()).sum();
            let wanted = (limit - small * arrived as f64 / 50.0) * share;
            let off = got[at].rate / wanted - 1.0;
            // The queue's 100 ms, and the frame before it.
            let (p95, bound) = (beside.p95(), 100.0 + 1514.0 * 8e3 / limit);
            println!(
                "{leaf}, {way}: {:.0} kbit/s, {:+.1} %; beside it {p95:.0} ms, {} of {} lost",
                got[at].rate / 1e3,
                100.0 * off,
                beside.lost,
                beside.lost + beside.delays.len() as f64
            );
            if off.abs() > 0.05 || p95 > bound {
                failed.push(format!("{leaf}, {way}: {off:+.3}, {p95:.0} of {bound:.0} ms"));
            }
        }
        assert_eq!(failed, Vec::<String>::new());
        assert_eq!(daemon.end(Signal::SIGTERM), Some(0));
        assert_eq!(path.ours(), "", "{leaf}");
    }
}

/// The best there is, which no Debian lacks (fq_codel is no module there); asked for another that is
/// missing, it says so by name and limits nobody.
#[test]
#[ignore = "in scripts/kernel's machine"]
fn the_best_leaf_and_one_that_is_missing() {
    let _one = machine!("the_best_leaf");
    let path = Path::new();
    let b = Box::new(&path, &config("apply", "fifo", PLAN));
    let daemon = b.start();
    assert_eq!(b.wait_running()["leaf"], "fq_codel", "{}", b.log());
    assert!(path.flows());
    assert_eq!(daemon.end(Signal::SIGTERM), Some(0));
    assert_eq!(b.command(&["reset"]).0, 0);

    let list = "/etc/modprobe.d/fairmesh-test.conf";
    std::fs::write(list, "install sch_cake /bin/false\n").unwrap();
    // The interfaces of tests that ended are taken down after their namespaces.
    within(20, "sch_cake", || {
        !std::path::Path::new("/sys/module/sch_cake").exists()
            || run("rmmod", &["sch_cake"]).is_some_and(|o| o.status.success())
    });
    let sample = "sample = \"1 s\"";
    let text = config("apply", "fifo", PLAN).replace(sample, &format!("{sample}\nleaf = \"cake\""));
    let b = Box::new(&path, &text);
    let daemon = b.start();
    b.wait_event("install.failed");
    assert!(b.log().contains("sch_cake"), "{}", b.log());
    assert!(path.flows());
    daemon.end(Signal::SIGTERM);
    std::fs::remove_file(list).unwrap();
    assert_eq!(path.ours(), "");
}

/// What datagrams of 1400 bytes get through at once, each pair at some rate: bit/s of payload.
fn exchange(
    (from, sources): (&Namespace, &[String]),
    (to, sinks): (&Namespace, &[String]),
    kbit: &[f64],
) -> Vec<f64> {
    let pairs = sources.iter().zip(sinks).zip(kbit);
    let meters = pairs.map(|((source, sink), k)| Meter::udp((from, source), (to, sink), 1400, *k));
    measure(meters.collect()).into_iter().map(|m| m.rate).collect()
}

/// Ten kinds of subscribers at once, nested in each other, each with a limit of its own in both
/// directions: prefixes of four lengths of either family, an Ethernet address, both families in one.
#[test]
#[ignore = "in scripts/kernel's machine"]
fn every_kind_of_address_has_its_limit() {
    let _one = machine!("every_kind_of_address");
    let path = Path::new();
    let v6 = [
        (&path.wired, "addr add fd99::2/64 dev w0 nodad"),
        (&path.gateway, "addr add fd99::1/64 dev wan nodad"),
        (&path.gateway, "addr add fd98::1/64 dev mesh nodad"),
        (&path.router, "addr add fd98::2/64 dev r0 nodad"),
        (&path.router, "addr add fd97::1/64 dev r1 nodad"),
        (&path.subs, "addr add fd97::2/64 dev s0 nodad"),
        (&path.wired, "route add default via fd99::1"),
        (&path.gateway, "route add default via fd99::2"),
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
    let mac = format!("macs = [\"{}\"]", mac.trim());
    let prefixes = |list: &[&str]| format!("prefixes = {list:?}");
    // What there is in the configuration, and an address that only this one has.
    let kinds = [
        (prefixes(&["10.1.1.9/32"]), "10.1.1.9"),
        (prefixes(&["10.1.1.8/30"]), "10.1.1.10"),
        (prefixes(&["10.1.1.0/24"]), "10.1.1.77"),
        (prefixes(&["10.1.0.0/17"]), "10.1.100.1"),
        (prefixes(&["fd01:2::9/128"]), "fd01:2::9"),
        (prefixes(&["fd01:2::/112"]), "fd01:2::77"),
        (prefixes(&["fd01:2::/64"]), "fd01:2::1:1"),
        (prefixes(&["fd01:2::/32"]), "fd01:2:7::1"),
        (prefixes(&["10.1.200.0/24", "fd01:3::/56"]), "10.1.200.1"),
        (mac, "10.1.250.1"),
    ];
    // Together, a third more than that is less than the mesh router lets through.
    let limits: Vec<f64> = (0..kinds.len()).map(|i| 300.0 + 50.0 * i as f64).collect();
    let mut text = "mode = \"apply\"\nunmapped = \"pass\"\n[mesh]\ninterface = \"mesh\"\n[wired]\ninterface = \"wan\"\n\
                    [control]\nuse = \"fifo\"\n[[neighbour]]\nname = \"router\"\ncapacity = \"8 Mbit/s\"\n"
        .to_owned();
    for (i, ((place, address), limit)) in kinds.iter().zip(&limits).enumerate() {
        text += &format!(
            "[[subscriber]]\nname = \"kind {i}\"\n{place}\ndown = \"{limit} kbit/s\"\nup = \"{limit} kbit/s\"\n"
        );
        let v6 = address.contains(':');
        let (length, nodad) = if v6 { (128, " nodad") } else { (32, "") };
        path.subs.sh(&format!("ip addr add {address}/{length} dev lo{nodad}"));
    }
    let b = Box::new(&path, &text);
    let daemon = b.start();
    b.wait_running();
    let end = |v6: bool, address: &str, port: usize| {
        if v6 { format!("[{address}]:{port}") } else { format!("{address}:{port}") }
    };
    let homes = |port: usize| -> Vec<String> {
        kinds.iter().map(|(_, a)| end(a.contains(':'), a, port)).collect()
    };
    let hosts = |port: usize| -> Vec<String> {
        let host = |v6: bool| if v6 { "fd99::2" } else { "10.99.0.2" };
        let each = kinds.iter().enumerate();
        let port = |i| if port == 0 { 0 } else { port + i };
        each.map(|(i, (_, a))| end(a.contains(':'), host(a.contains(':')), port(i))).collect()
    };
    let offered: Vec<f64> = limits.iter().map(|l| 1.3 * l).collect();
    let down = exchange((&path.wired, &hosts(0)), (&path.subs, &homes(5000)), &offered);
    let up = exchange((&path.subs, &homes(0)), (&path.wired, &hosts(5000)), &offered);
    for (way, got) in [("down", down), ("up", up)] {
        for (((place, address), limit), got) in kinds.iter().zip(&limits).zip(got) {
            let header = if address.contains(':') { 62.0 } else { 42.0 };
            close_to(&format!("{place} {way}"), got, limit * 1e3 * 1400.0 / (1400.0 + header));
        }
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

/// A map of the mesh in a file, the kernel's routes, its neighbour table: who is found there is limited.
#[test]
#[ignore = "in scripts/kernel's machine"]
fn maps_routes_and_neighbours_are_discovered_and_limited() {
    let _one = machine!("maps_routes_and_neighbours");
    let path = Path::new();
    let folder = tempfile::tempdir().unwrap();
    let map = folder.path().join("map.json");
    let graph = r#"{"type": "NetworkGraph", "protocol": "static", "version": null, "metric": null,
        "nodes": [{"id": "10.1.3.1", "label": "mill", "local_addresses": ["10.1.30.0/24"]}], "links": []}"#;
    std::fs::write(&map, graph).unwrap();
    path.gateway.sh("ip route add 10.1.2.0/24 via 10.98.0.2");
    path.gateway.sh("ip route del 10.1.0.0/16");
    path.gateway.sh("ip route add 10.1.3.1 via 10.98.0.2 proto kernel");
    let text = format!(
        "mode = \"apply\"\nunmapped = \"pass\"\n[mesh]\ninterface = \"mesh\"\n[wired]\ninterface = \"wan\"\n\
         [control]\nuse = \"fifo\"\n[[neighbour]]\nname = \"router\"\ncapacity = \"8 Mbit/s\"\n\
         [plan.all]\ndown = \"900 kbit/s\"\nup = \"600 kbit/s\"\n\
         [discover]\nnetjson = \"{}\"\nroutes = true\nneighbours = true\nplan = \"all\"\nevery = \"1 s\"\n",
        map.display()
    );
    let b = Box::new(&path, &text);
    let daemon = b.start();
    // In the neighbour table once somebody wants to get there.
    let found = |s: &Value| {
        let _ = path.router.sh("ping -q -c 1 10.98.0.1");
        let peer = path.router.sh("cat /sys/class/net/r0/address");
        let all = s["subscribers"].to_string();
        ["mill", "10.1.2.0/24", peer.trim()].iter().all(|name| all.contains(name))
    };
    b.wait("all three", found);
    let strings = |list: [&str; 2]| list.map(str::to_owned);
    let hosts = strings(["10.99.0.2:5001", "10.99.0.2:5002"]);
    let any = strings(["10.99.0.2:0", "10.99.0.2:0"]);
    let homes = strings(["10.1.2.1:5000", "10.1.3.1:5000"]);
    let own = ["10.98.0.2:5000".to_owned()];
    let offered = [1200.0, 1200.0];
    let down = exchange((&path.wired, &any), (&path.subs, &homes), &offered);
    let up = exchange((&path.subs, &homes), (&path.wired, &hosts), &offered);
    let router = exchange((&path.wired, &any[..1]), (&path.router, &own), &offered);
    for (what, got, kbit) in [
        ("route, down", down[0], 900.0),
        ("map, down", down[1], 900.0),
        ("route, up", up[0], 600.0),
        ("map, up", up[1], 600.0),
        ("neighbour, down", router[0], 900.0),
    ] {
        close_to(what, got, kbit * 1e3 * UDP);
    }
    assert_eq!(daemon.end(Signal::SIGTERM), Some(0));
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
