//! Hostile surroundings of the daemon.
//!
//! Slow readers, a guard that wakes late, other programs that change limits, special files, a broken
//! configuration, a program that hangs.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn};
use nix::sys::socket::{connect, setsockopt, socket, sockopt};
use nix::unistd::Pid;
use serde_json::Value;

use crate::common::{Box, Path, Pause, SUBSCRIBERS, config, root};
use crate::deaths::{holders, within_a_minute};

/// Returns the memory of a process (`VmRSS`), bytes.
fn resident(pid: i32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().trim().parse::<usize>().unwrap() * 1024
}

/// Connects with a small receive buffer, requests the page and reads nothing.
fn slow_reader(address: SocketAddr) -> TcpStream {
    let SocketAddr::V4(address) = address else { panic!("{address}") };
    let socket =
        socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
    setsockopt(&socket, sockopt::RcvBuf, &2048).unwrap();
    connect(std::os::fd::AsRawFd::as_raw_fd(&socket), &SockaddrIn::from(address)).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    stream
}

/// 64 readers that read nothing, for longer than the longest connection.
///
/// Memory grows by a few pages, not by one page per reader, and a reader that reads gets its page.
#[test]
fn slow_readers_of_the_metrics_take_no_memory() {
    const HOMES: usize = 4000;
    let Some(_one) = root("slow_readers_of_the_metrics") else { return };
    let path = Path::new();
    // Nothing is installed: the page has the same length without an interface.
    let mut text = "mode = \"apply\"\nunmapped = \"pass\"\n[mesh]\ninterface = \"absent\"\n\
        [wired]\ninterface = \"wan\"\n[control]\nuse = \"fifo\"\n"
        .to_owned();
    for i in 0..HOMES {
        let name = format!("{i:0>60}");
        let net = format!("10.{}.{}.0/24", i / 200, i % 200);
        text += &format!("[[subscriber]]\nname = \"{name}\"\nprefixes = [\"{net}\"]\n");
    }
    let b = Box::new(&path, &text);
    let daemon = b.start();
    b.wait("an answer", |_| true);
    let address: SocketAddr = "127.0.0.1:9742".parse().unwrap();
    let page = move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        bytes.len()
    };
    let pid = daemon.pid();
    path.gateway.within(move || {
        let length = page();
        assert!(length > 1_500_000, "{length} bytes: too short a page for this test");
        let before = resident(pid);
        let mut most = 0;
        for _ in 0..4 {
            // Each round has another page.
            let _slow: Vec<TcpStream> = (0..64).map(|_| slow_reader(address)).collect();
            for _ in 0..8 {
                std::thread::sleep(Duration::from_millis(250));
                most = most.max(resident(pid));
            }
            assert!(page().abs_diff(length) < 1000, "a reader that reads is served");
        }
        let grown = most.saturating_sub(before);
        println!("page {length} bytes, memory before {before}, grown by {grown}");
        assert!(grown < 6 * length, "page {length} bytes, grown by {grown}");
    });
    daemon.end(Signal::SIGTERM);
}

/// A guard of a killed daemon that is stopped, and wakes when the next daemon sets limits.
///
/// (The kernel wakes a stopped process when its parent dies, so it is stopped before and after
/// that.)
#[test]
fn a_guard_that_wakes_late_lifts_nothing_of_the_next_daemon() {
    let Some(_one) = root("a_guard_that_wakes_late") else { return };
    let path = Path::new();
    let limited = config("apply", "fifo", "down = \"1 Mbit/s\"");
    let b = Box::new(&path, &limited);
    let guard_of = |b: &Box| {
        let lock = b.file("gateway.guard.lock");
        let none = || if holders(&lock).is_empty() { "no guard".into() } else { String::new() };
        within_a_minute(none, || b.log());
        Pid::from_raw(holders(&lock)[0])
    };
    let keeps = |b: &Box| {
        let end = Instant::now() + Duration::from_secs(4);
        while Instant::now() < end {
            assert!(!path.limited().is_empty(), "lifted\n{}", b.log());
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    let stop_and_kill = |b: &Box, daemon: crate::common::Daemon| {
        let guard = guard_of(b);
        kill(guard, Signal::SIGSTOP).unwrap();
        daemon.end(Signal::SIGKILL);
        // On a busy machine the guard may have finished.
        let _ = kill(guard, Signal::SIGSTOP);
        guard
    };
    let daemon = b.start();
    b.wait_running();
    let guard = stop_and_kill(&b, daemon);
    // Another socket and another lock of the guard, the same interfaces.
    let other = Box::new(&path, &limited);
    let next = other.start();
    other.wait_running();
    soon("limits", &other, || !path.limited().is_empty());
    let _ = kill(guard, Signal::SIGCONT);
    keeps(&other);
    // The same socket: the next daemon ends the stopped guard instead of waiting for it.
    let guard = stop_and_kill(&other, next);
    let last = other.start();
    other.wait_running();
    soon("limits", &other, || !path.limited().is_empty());
    let _ = kill(guard, Signal::SIGCONT);
    keeps(&other);
    assert_eq!(last.end(Signal::SIGTERM), Some(0));
}

/// Waits for an event that must come within seconds; a busy machine has more time.
fn soon(what: &str, b: &Box, holds: impl Fn() -> bool) -> Duration {
    let (start, mut pause) = (Instant::now(), Pause::new());
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(30), "{what}: never came\n{}", b.log());
        pause.take();
    }
    start.elapsed()
}

/// Changes by other programs are repaired within two audits.
///
/// The changes: a rate changed by hand, all rates lifted by hand, an element of another class, a dormant
/// table.
#[test]
fn limits_that_other_programs_change_are_set_again() {
    let Some(_one) = root("limits_that_other_programs_change") else { return };
    let path = Path::new();
    let b = Box::new(&path, &config("apply", "fifo", "down = \"1 Mbit/s\""));
    let daemon = b.start();
    b.wait_running();
    let limits = || path.gateway.sh("tc class show dev mesh");
    let of = |class: &str| {
        let all = limits();
        let line = all.lines().find(|l| l.contains(&format!("class htb fa1:{class} ")));
        line.unwrap().split(" rate ").nth(1).unwrap().to_owned()
    };
    soon("limits", &b, || !path.limited().is_empty());
    let meant = of("1");
    for rate in ["7mbit", "1tbit"] {
        path.gateway.sh(&format!(
            "tc class change dev mesh parent fa1:fffe classid fa1:1 htb rate {rate} ceil {rate}"
        ));
        let took =
            soon("the rate", &b, || of("1").split(" burst").next() == meant.split(" burst").next());
        println!("rate {rate}: set again after {took:?}");
    }
    b.wait_event("limits.changed");
    let maps = || path.gateway.sh("nft list table inet fairmesh");
    let before = maps();
    assert!(before.contains("10.1.1.0 : fa1:1"), "{before}");
    path.gateway.sh("nft delete element inet fairmesh p4_24 { 10.1.1.0 } ; add element inet fairmesh p4_24 { 10.1.1.0 : fa1:2 }");
    let took = soon("the element", &b, || maps().contains("10.1.1.0 : fa1:1"));
    println!("element: put back after {took:?}");
    b.wait_event("rules.gone");
    b.wait_running();
    path.gateway.sh("nft add table inet fairmesh { flags dormant ; }");
    soon("the table", &b, || !maps().contains("dormant"));
    b.wait_running();
    soon("limits", &b, || of("1").split(" burst").next() == meant.split(" burst").next());
    assert_eq!(daemon.end(Signal::SIGTERM), Some(0));
}

/// A later chain that sets the priority, and the mesh interface in a bridge.
///
/// `status` reports ineffective limits.
#[test]
fn ineffective_limits_are_not_reported_as_running() {
    let Some(_one) = root("limits_that_do_not_act") else { return };
    let path = Path::new();
    let b = Box::new(&path, &config("apply", "fifo", "down = \"1 Mbit/s\""));
    let daemon = b.start();
    b.wait_running();
    path.gateway.sh("ip link add br0 type bridge");
    path.gateway.sh("ip link set mesh master br0");
    let status = b.wait("degraded", |s| s["phase"] == "degraded");
    let fault = status["faults"][0].as_str().unwrap().to_owned();
    assert!(fault.contains("mesh is a port of br0"), "{fault}");
    let (_, text, _) = b.command(&["status"]);
    assert!(text.contains("FAULT: mesh is a port of br0"), "{text}");
    path.gateway.sh("ip link set mesh nomaster");
    b.wait_running();
    path.gateway.sh("ip link del br0");
    let stream = path.stream(1, 4.0);
    path.gateway.sh("nft add table inet other ; add chain inet other post \
         { type filter hook postrouting priority 100 ; } ; \
         add rule inet other post oif mesh meta priority set 0:1");
    b.wait_event("classifier.failed");
    let status = b.wait("another classifier", |s| s["classifiers"][0] != "priority");
    println!("classified by {} from now on", status["classifiers"][0]);
    path.gateway.sh("nft add rule inet other post oif mesh meta mark set 0");
    let status = b.wait("degraded", |s| s["phase"] == "degraded");
    assert!(status["faults"][0].as_str().unwrap().contains("down: only "), "{status}");
    path.gateway.sh("nft delete table inet other");
    b.wait_running();
    // Every packet in the class of one home: counters agree, so the rule itself has to be found.
    path.gateway.sh("nft add table ip other ; add chain ip other post \
         { type filter hook postrouting priority 100 ; } ; \
         add rule ip other post oif mesh meta priority set fa1:1");
    let status = b.wait("degraded", |s| s["phase"] == "degraded");
    let fault = status["faults"][0].as_str().unwrap();
    let rule = "chain `ip other post` of another program moves packets of all subscribers into class fa1:1";
    assert!(fault.contains(rule), "{status}");
    path.gateway.sh("nft delete table ip other");
    b.wait_running();
    drop(stream);
    assert_eq!(daemon.end(Signal::SIGTERM), Some(0));
}

/// Rules with maps and filters that set a class are named.
///
/// Programs and computed priorities are a warning.
///
/// Filters with actions are in `kernel/filters.rs`.
#[test]
fn classes_that_maps_and_filters_change_are_named() {
    let Some(_one) = root("classes_that_maps_and_filters_change") else { return };
    let path = Path::new();
    let b = Box::new(&path, &config("apply", "fifo", "down = \"1 Mbit/s\""));
    let daemon = b.start();
    b.wait_running();
    let nft = |rule: &str| {
        format!(
            "nft add table ip other ; add chain ip other post {{ type filter hook postrouting priority 100 ; }} ; \
             add rule ip other post meta priority set {rule}"
        )
    };
    let (no_table, no_filter) =
        ("nft delete table ip other", "tc filter del dev mesh parent fa1: prio 7");
    let u32 = "protocol ip u32 match ip dst 10.1.9.1/32 flowid fa1:1";
    for (make, by, undo) in [
        (nft("ip daddr map { 10.1.9.1 : fa1:1 }"), "a rule in chain `ip other post`", no_table),
        (
            format!("tc filter add dev mesh parent fa1: prio 7 {u32}"),
            "filter 7 (u32) on root of mesh",
            no_filter,
        ),
    ] {
        path.gateway.sh(&make);
        let status = b.wait("degraded", |s| s["phase"] == "degraded");
        let fault = status["faults"][0].as_str().unwrap();
        let gives =
            format!("{by} of another program moves packets of all subscribers into class fa1:1");
        assert!(fault.contains(&gives), "{make}: {fault}");
        b.wait_event("classifier.foreign");
        path.gateway.sh(undo);
        b.wait_running();
    }
    let program = b.file("program");
    std::fs::write(&program, "1,6 0 0 4294967295").unwrap();
    let bpf = format!("bpf direct-action bytecode-file {}", program.display());
    path.gateway.sh("tc qdisc add dev mesh clsact");
    let doubt = |s: &Value| s["doubts"].get(0).and_then(Value::as_str).map(str::to_owned);
    for (make, by, undo) in [
        (nft("meta priority and 0x1"), "a rule in chain `ip other post`", no_table),
        (
            format!("tc filter add dev mesh egress prio 7 {bpf}"),
            "the program of filter 7 (bpf) on egress of mesh",
            "tc filter del dev mesh egress",
        ),
    ] {
        path.gateway.sh(&make);
        let status = b.wait("doubtful", |s| doubt(s).is_some());
        let expected = format!("{by} of another program may change the class");
        assert!(doubt(&status).unwrap().contains(&expected), "{status}");
        assert_eq!(status["phase"], "running", "{status}");
        let (_, text, _) = b.command(&["status"]);
        assert!(text.contains("NOT VERIFIED: "), "{text}");
        path.gateway.sh(undo);
        b.wait("verified", |s| doubt(s).is_none());
    }
    b.wait_event("classifier.unverified");
    assert_eq!(daemon.end(Signal::SIGTERM), Some(0));
}

/// Another object in place of the daemon's state: it starts and reports it in one line.
#[test]
fn special_files_in_place_of_the_state_are_refused() {
    let Some(_one) = root("special_files_in_place_of_the_state") else { return };
    let path = Path::new();
    let b = Box::new(&path, &config("apply", "fifo", "down = \"1 Mbit/s\""));
    let state = b.file("state");
    std::fs::create_dir(&state).unwrap();
    type Make = fn(&std::path::Path);
    let make: [(&str, Make); 5] = [
        ("is a FIFO", |p| nix::unistd::mkfifo(p, nix::sys::stat::Mode::S_IRWXU).unwrap()),
        ("is a directory", |p| std::fs::create_dir(p).unwrap()),
        ("is a symbolic link", |p| std::os::unix::fs::symlink("/dev/zero", p).unwrap()),
        ("is larger than", |p| std::fs::File::create(p).unwrap().set_len(1 << 40).unwrap()),
        ("EOF while parsing", |p| std::fs::write(p, "{").unwrap()),
    ];
    for (expected, make) in make {
        let (kept, good) = (state.join("state.json"), state.join("gateway.last-good.toml"));
        let clear = || {
            for file in [&kept, &good] {
                let _ = std::fs::remove_file(file);
                let _ = std::fs::remove_dir(file);
            }
            let _ = std::fs::remove_file(b.file("log"));
        };
        clear();
        make(&kept);
        make(&good);
        let (code, _, err) = b.command(&["reset"]);
        assert_eq!(code, 0, "{err}");
        let line = err.lines().find(|l| l.contains("state.json")).unwrap_or_default();
        assert!(line.contains(expected), "{expected}: {err}");
        clear();
        make(&kept);
        make(&good);
        let daemon = b.start();
        b.wait_running();
        b.wait_event("state.unreadable");
        assert!(b.log().contains(expected), "{expected}: {}", b.log());
        assert_eq!(daemon.end(Signal::SIGTERM), Some(0));
        clear();
    }
}

/// An invalid file while it is edited; the daemon continues.
#[test]
fn a_running_daemon_responds_with_an_invalid_file() {
    let Some(_one) = root("a_living_daemon_answers") else { return };
    let path = Path::new();
    let b = Box::new(&path, &config("apply", "fifo", "down = \"1 Mbit/s\""));
    let good = std::fs::read_to_string(b.file("gateway.toml")).unwrap();
    let daemon = b.start();
    b.wait_running();
    for broken in ["mood = 1\n", "mesh = {", "\0\0", ""] {
        std::fs::write(b.file("gateway.toml"), broken).unwrap();
        for words in [
            &["status"][..],
            &["why", "sub 1"],
            &["override", "sub 1", "--rate", "2 Mbit/s", "--for", "1h"],
            &["override", "sub 1", "--clear"],
        ] {
            let (code, out, err) = b.command(words);
            assert_eq!(code, 0, "{broken:?} {words:?}: {err}");
            assert!(out.contains("sub 1"), "{broken:?} {words:?}: {out}");
            assert!(err.contains("gateway.toml") && err.lines().count() == 1, "{err}");
        }
        let (code, out, err) = b.command(&["doctor"]);
        assert!(out.contains("WRONG configuration: "), "{broken:?} {code}: {out} {err}");
        let (code, _, err) = b.command(&["reset", "--fall-back"]);
        assert!(code == 2 && err.contains("the daemon is running"), "{broken:?}: {err}");
        let socket = b.file("gateway.sock").display().to_string();
        let (code, _, err) = b.command(&["status", "--socket", &socket]);
        assert_eq!((code, err.as_str()), (0, ""), "{broken:?}");
    }
    assert_eq!(daemon.end(Signal::SIGKILL), None);
    std::fs::write(b.file("gateway.toml"), "mood = 1\n").unwrap();
    let (code, _, err) = b.command(&["reset", "--fall-back"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(path.ours(), "");
    b.write(&good);
}

/// The MTU grows under queues that pass no larger packet: classes keep their limits.
#[test]
fn a_growing_mtu_takes_no_limit_away() {
    let Some(_one) = root("a_growing_mtu") else { return };
    let path = Path::new();
    let text = config("apply", "fifo", "down = \"1 Mbit/s\"");
    let b = Box::new(&path, &text.replace("[shaping]", "[shaping]\nleaf = \"bfifo\""));
    let daemon = b.start();
    b.wait_running();
    soon("limits", &b, || path.limited().lines().count() == SUBSCRIBERS);
    let queues = || {
        let all = path.gateway.sh("tc qdisc show dev mesh");
        all.lines().filter(|l| l.contains("tbf")).count()
    };
    let before = queues();
    assert!(before >= SUBSCRIBERS, "{before}");
    for mtu in [1600, 1800, 2300] {
        path.gateway.sh(&format!("ip link set mesh mtu {mtu}"));
        let end = Instant::now() + Duration::from_secs(5);
        while Instant::now() < end {
            assert_eq!(path.limited().lines().count(), SUBSCRIBERS, "MTU {mtu}: {}", b.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    assert!(!b.log().contains("interface.lost"), "{}", b.log());
    assert_eq!(queues(), before);
    assert_eq!(daemon.end(Signal::SIGTERM), Some(0));
}

/// `nft` does not end: the daemon responds, and other limits are renewed.
///
/// The change follows later. `status` names the program.
#[test]
fn a_hung_nft_stops_nothing_else() {
    let Some(_one) = root("a_hung_nft") else { return };
    let path = Path::new();
    let b = Box::new(&path, &config("apply", "fifo", "down = \"1 Mbit/s\""));
    let hang = b.file("hang");
    let fake = b.file("nft");
    let real = "/usr/sbin/nft";
    let copy = b.file("nft.real");
    std::fs::copy(real, &copy).unwrap();
    let script = format!(
        "#!/bin/sh\n[ -e {} ] && exec sleep 1000\nexec {} \"$@\"\n",
        hang.display(),
        copy.display()
    );
    std::fs::write(&fake, script).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&fake, mode).unwrap();
    let daemon = b.start_after(&format!("mount --bind {} {real}", fake.display()));
    b.wait_running();
    soon("limits", &b, || !path.limited().is_empty());
    std::fs::write(&hang, "").unwrap();
    let more = format!(
        "{}[[subscriber]]\nname = \"new\"\nplan = \"all\"\nprefixes = [\"10.1.9.0/24\"]\n",
        config("apply", "fifo", "down = \"1 Mbit/s\"")
    );
    b.write(&more);
    daemon.signal(Signal::SIGHUP);
    let status = b.wait("degraded", |s| s["phase"] == "degraded");
    assert!(status["faults"][0].as_str().unwrap().contains("nft has not ended"), "{status}");
    // Longer than limits last without renewal.
    let end = Instant::now() + Duration::from_secs(14);
    let mut longest = Duration::ZERO;
    while Instant::now() < end {
        let asked = Instant::now();
        b.wait("an answer", |_| true);
        longest = longest.max(asked.elapsed());
        std::thread::sleep(Duration::from_millis(100));
    }
    println!("the longest answer took {longest:?} while nft hung");
    assert!(longest < Duration::from_secs(6), "{longest:?}");
    let alive = path.gateway.sh("nft list set inet fairmesh alive");
    assert!(alive.contains("expires"), "limits have lapsed: {alive}");
    std::fs::remove_file(&hang).unwrap();
    b.wait("the newcomer", |s| {
        s["phase"] == "running" && s["subscribers"].to_string().contains("new")
    });
    soon("its element", &b, || {
        // The table may be missing while it is installed again.
        path.gateway.sh("nft list ruleset").contains("10.1.9.0")
    });
    assert_eq!(daemon.end(Signal::SIGTERM), Some(0));
}
