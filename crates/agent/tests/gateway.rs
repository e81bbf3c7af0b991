//! The daemon on real kernels: four network namespaces, real packets, real signals.
//! Skipped, with a line that says so, without root.

#![allow(clippy::disallowed_methods)] // real time passes here

mod common;

use std::io::{Read, Write};
use std::time::Duration;

use common::{Box, Path, config, jain, rates, root};
use nix::sys::signal::Signal;

/// Three streams of 16, 3 and 3 Mbit/s through 8: without limits the first takes nearly all.
#[test]
fn pfrc_makes_an_unfair_path_fair() {
    let Some(_one) = root("pfrc_makes_an_unfair_path_fair") else { return };
    let path = Path::new();
    let b = Box::new(&path, &config("observe", "pfrc", ""));
    let streams: Vec<_> =
        [(1, 16.0), (2, 3.0), (3, 3.0)].map(|(i, mbps)| path.stream(i, mbps)).into();
    let daemon = b.start();
    b.wait_running();
    std::thread::sleep(Duration::from_secs(2));
    let before = rates(&streams, Duration::from_secs(4));
    assert!(jain(&before) < 0.85, "it was fair already: {before:?}");
    // Observing says what it would do and does nothing.
    let why = b.json(&["why", "sub 1"]).unwrap();
    let way = &why["ways"][0];
    assert!(way["limit_bits_per_second"].is_null(), "{way}");
    assert!(way["meant_bits_per_second"].as_u64().unwrap() > 0, "{way}");
    assert_eq!(way["not_in_force_because"], "observe");
    assert_eq!(b.json(&["status"]).unwrap()["released_because"], "observe");

    b.write(&config("apply", "pfrc", ""));
    daemon.signal(Signal::SIGHUP);
    b.wait("applied", |s| s["mode"] == "apply");
    // A busy machine delays senders and epochs; the fair state comes and stays all the same.
    let mut after = Vec::new();
    for _ in 0..20 {
        after = rates(&streams, Duration::from_secs(3));
        if jain(&after) > 0.97 {
            break;
        }
    }
    println!("without limits {before:.0?} (Jain {:.3})", jain(&before));
    println!("with pfrc      {after:.0?} (Jain {:.3})", jain(&after));
    assert!(jain(&after) > 0.97, "{after:?}\n{}", b.log());
    let (total, total_before) = (after.iter().sum::<f64>(), before.iter().sum::<f64>());
    assert!(total > 0.6 * total_before, "{after:?} {before:?}");
    let why = b.json(&["why", "sub 1"]).unwrap();
    assert!(why["ways"][0]["last_change"]["code"].as_str().unwrap().starts_with("pfrc."), "{why}");

    // The metrics say the same.
    let page = path.gateway.spawn(|| {
        let mut stream = std::net::TcpStream::connect("127.0.0.1:9742").unwrap();
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    });
    let page = page.join().unwrap();
    for line in [
        "fairmesh_gateway_enforcing{} 1",
        "fairmesh_gateway_subscriber_sent_bytes_total{subscriber=\"sub 1\",direction=\"down\"}",
        "fairmesh_gateway_phase{phase=\"running\"} 1",
    ] {
        assert!(page.contains(line), "{line}\n{page}");
    }
    drop(streams);
    assert_eq!(daemon.end(Signal::SIGTERM), Some(0));
    assert!(!path.gateway.sh("tc class show dev mesh").contains("rate 1Mbit"), "limits are gone");
    let (code, out, err) = b.command(&["reset"]);
    assert_eq!(code, 0, "{out}{err}");
    assert_eq!(path.ours(), "");
}

#[test]
fn killed_fifty_times_at_random_moments_traffic_flows_and_nothing_is_left() {
    let Some(_one) = root("killed_fifty_times") else { return };
    let path = Path::new();
    let b = Box::new(&path, &config("apply", "pfrc", ""));
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let (mut installed, mut flowed) = (0, 0);
    for round in 0..50 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let daemon = b.start();
        if round % 2 == 0 {
            // While it works; every other time while it starts.
            b.wait_running();
        }
        std::thread::sleep(Duration::from_millis(random >> 33 & 0xff));
        installed += usize::from(!path.ours().is_empty());
        assert_eq!(daemon.end(Signal::SIGKILL), None, "it ended by itself\n{}", b.log());
        assert!(path.flows(), "round {round}: nothing flows");
        flowed += 1;
        // The guard removes what limits; within two epochs, but a busy machine may take longer.
        let mut left = String::new();
        for _ in 0..400 {
            left = path.gateway.sh("tc class show dev mesh")
                + &path.gateway.sh("tc class show dev wan");
            if left.trim().is_empty() {
                break;
            }
            std::thread::sleep(Duration::from_millis(25));
        }
        assert_eq!(left.trim(), "", "round {round}: limits are left\n{}", b.log());
    }
    println!(
        "killed 50 times, {installed} of them with classes installed; traffic flowed {flowed} times"
    );
    assert!(installed >= 25, "{installed}");
    let (code, _, err) = b.command(&["reset"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(path.ours(), "");
}

#[test]
fn a_hundred_reloads_under_load_lose_no_packet_and_no_connection() {
    let Some(_one) = root("a_hundred_reloads") else { return };
    let path = Path::new();
    let ceilings = |down: u32| format!("down = \"{down} Mbit/s\"\nup = \"{down} Mbit/s\"");
    let b = Box::new(&path, &config("apply", "fifo", &ceilings(6)));
    let daemon = b.start();
    b.wait_running();
    // One connection that lives through all of it, and a stream below every limit.
    let listener =
        path.subs.spawn(|| std::net::TcpListener::bind("10.1.2.1:7000").unwrap()).join().unwrap();
    let mut client =
        path.wired.spawn(|| std::net::TcpStream::connect("10.1.2.1:7000").unwrap()).join().unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let stream = path.stream(1, 3.0);
    std::thread::sleep(Duration::from_millis(500));
    for i in 0..100_u32 {
        // Rates, subscribers and mode change in turn.
        let mode = if i % 10 == 9 { "observe" } else { "apply" };
        let mut text = config(mode, "fifo", &ceilings(5 + i % 3));
        if i % 2 == 0 {
            text += "[[subscriber]]\nname = \"late\"\nprefixes = [\"10.1.77.0/24\"]\n";
        }
        b.write(&text);
        let (code, _, err) = b.command(&["reload"]);
        assert_eq!(code, 0, "{err}");
        client.write_all(&[i as u8]).unwrap();
        let mut byte = [0];
        server.read_exact(&mut byte).unwrap();
        assert_eq!(byte, [i as u8]);
        std::thread::sleep(Duration::from_millis(20));
    }
    // A restart, as for an upgrade, takes over what the last one left.
    assert_eq!(daemon.end(Signal::SIGTERM), Some(0));
    let daemon = b.start();
    b.wait_running();
    assert!(b.log().contains("taken over"), "{}", b.log());
    let (sent, received) = stream.end();
    println!("100 reloads: {sent} packets sent, {received} received");
    assert!(sent > 300, "{sent}");
    assert_eq!(received, sent, "lost {}\n{}", sent - received, b.log());
    assert!(path.gateway.sh("tc class show dev mesh").contains("ceil"), "still installed");
    daemon.end(Signal::SIGTERM);
}

#[test]
fn a_wrong_configuration_changes_nothing() {
    let Some(_one) = root("a_wrong_configuration") else { return };
    let path = Path::new();
    let good = config("apply", "fifo", "down = \"3 Mbit/s\"");
    let b = Box::new(&path, &good.replace("capacity = \"8 Mbit/s\"", "capacity = \"8\""));
    // It does not start, says why, and touches nothing.
    assert_eq!(b.start().exit_code(), Some(2));
    let log = b.log();
    assert!(log.contains("gateway.toml:") && log.contains("has no unit; expected a rate"), "{log}");
    assert_eq!(path.ours(), "");
    let (code, _, err) = b.command(&["check"]);
    assert_eq!(code, 2);
    assert!(err.contains("neighbour[0].capacity"), "{err}");

    b.write(&good);
    assert_eq!(b.command(&["check"]).0, 0);
    assert_eq!(path.ours(), "", "check touches nothing");
    let daemon = b.start();
    b.wait_running();
    let classes = || path.gateway.sh("tc class show dev mesh");
    let before = classes();
    b.write(&good.replace("down = \"3 Mbit/s\"", "down = \"fast\""));
    let (code, _, err) = b.command(&["reload"]);
    assert_eq!(code, 2);
    assert!(err.contains("plan.all.down: \"fast\" has no number; expected a rate"), "{err}");
    daemon.signal(Signal::SIGHUP);
    b.wait_event("config.refused");
    assert_eq!(classes(), before);
    // What only a restart can change is refused too.
    b.write(&good.replace("\"wan\"", "\"lo\""));
    let (code, _, err) = b.command(&["reload"]);
    assert!(code == 2 && err.contains("wired.interface"), "{err}");
    assert_eq!(classes(), before);
    // The last configuration that worked is kept.
    let kept = std::fs::read_to_string(b.file("state/gateway.last-good.toml")).unwrap();
    assert!(kept.starts_with(&good));
    // While it runs there is one, and nobody pulls the carpet.
    assert_eq!(b.start().exit_code(), Some(2));
    let (code, _, err) = b.command(&["reset"]);
    assert!(code == 2 && err.contains("running"), "{err}");
    assert_eq!(classes(), before);
    daemon.end(Signal::SIGTERM);
    let (code, _, err) = b.command(&["status"]);
    assert!(code == 2 && err.contains("expected a running daemon"), "{err}");
}

#[test]
fn overrides_survive_a_restart_and_end() {
    let Some(_one) = root("overrides") else { return };
    let path = Path::new();
    let b = Box::new(&path, &config("apply", "fifo", "down = \"3 Mbit/s\""));
    let daemon = b.start();
    b.wait_running();
    let (code, out, err) =
        b.command(&["override", "sub 2", "--rate", "500 kbit/s", "--for", "1h", "--down"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("limited by override"), "{out}");
    daemon.end(Signal::SIGKILL);
    let daemon = b.start();
    b.wait_running();
    let way = || b.json(&["why", "sub 2"]).unwrap()["ways"][0].clone();
    let w = way();
    assert_eq!(w["limit_bits_per_second"], 500_000);
    assert!(w["override_seconds_left"].as_f64().unwrap() > 3000.0, "{w}");
    assert_eq!(b.command(&["override", "sub 2", "--clear"]).0, 0);
    b.wait("cleared", |s| s["subscribers"][1]["ways"][0]["limited_by"] == "plan");
    let (code, _, err) = b.command(&["why", "nobody"]);
    assert!(code == 2 && err.contains("there is no subscriber \"nobody\""), "{err}");
    daemon.end(Signal::SIGTERM);
}

#[test]
fn an_interface_that_goes_and_comes_back() {
    let Some(_one) = root("an_interface_that_goes") else { return };
    let path = Path::new();
    let b = Box::new(&path, &config("apply", "pfrc", ""));
    let daemon = b.start();
    b.wait_running();
    for _ in 0..3 {
        path.lose_mesh();
        b.wait("absent", |s| s["phase"] == "absent");
        path.restore_mesh();
        b.wait_running();
        assert!(path.flows());
    }
    b.wait_event("interface.lost");
    // Only switched off and on: classes stay.
    path.gateway.sh("ip link set mesh down");
    b.wait_event("interface.down");
    path.gateway.sh("ip link set mesh up");
    path.gateway.sh("ip route replace 10.1.0.0/16 via 10.98.0.2");
    b.wait_running();
    assert!(path.flows());
    // Somebody deletes our queue: it comes back.
    path.gateway.sh("tc qdisc del dev mesh root");
    b.wait("absent or back", |s| {
        s["events"]
            .as_array()
            .unwrap()
            .iter()
            .any(|e| e[0] == "interface.lost" && e[1].as_u64() > Some(3))
    });
    b.wait_running();
    assert!(path.ours().contains("mesh"));
    daemon.end(Signal::SIGTERM);
}

#[test]
fn a_daemon_that_stands_still_is_overruled_and_comes_back() {
    let Some(_one) = root("a_daemon_that_stands_still") else { return };
    let path = Path::new();
    let b = Box::new(&path, &config("apply", "fifo", "down = \"1 Mbit/s\""));
    let daemon = b.start();
    b.wait_running();
    daemon.signal(Signal::SIGSTOP);
    b.wait_event("<3>guard.late");
    let mut left = String::new();
    for _ in 0..200 {
        left = path.ours();
        if left.is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    assert_eq!(left, "");
    assert!(path.flows());
    daemon.signal(Signal::SIGCONT);
    b.wait_event("daemon.late");
    b.wait("running again", |s| s["phase"] == "running");
    let mut back = false;
    for _ in 0..400 {
        back = path.ours().contains("mesh");
        if back {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(back, "{}", b.log());
    daemon.end(Signal::SIGTERM);
}

/// A disk that is full, and one that cannot be written: an event, and the daemon goes on.
#[test]
fn disks_that_do_not_write() {
    let Some(_one) = root("disks_that_do_not_write") else { return };
    let path = Path::new();
    let b = Box::new(&path, "");
    let disk = b.file("disk");
    std::fs::create_dir(&disk).unwrap();
    let at = disk.display();
    for options in ["size=4k", "size=64k,ro"] {
        common::sh(&format!("mount -t tmpfs -o {options} tmpfs {at}"));
        if options == "size=4k" {
            // The only page is taken.
            std::fs::write(disk.join("full"), [1; 4096]).unwrap();
        }
        let _ = std::fs::remove_file(b.file("log"));
        let socket = b.file("gateway.sock");
        b.write(&format!(
            "{}\n[paths]\nstate = \"{at}/state\"\nsocket = \"{}\"\n",
            config("apply", "fifo", "down = \"3 Mbit/s\""),
            socket.display()
        ));
        let daemon = b.start();
        b.wait_running();
        b.wait_event("state.unwritable");
        assert_eq!(b.command(&["override", "sub 1", "--rate", "1 Mbit/s", "--for", "1h"]).0, 0);
        assert!(path.flows());
        assert_eq!(daemon.end(Signal::SIGTERM), Some(0));
        common::sh(&format!("umount {at}"));
    }
}

#[test]
fn what_is_somebody_elses_stays() {
    let Some(_one) = root("what_is_somebody_elses") else { return };
    let path = Path::new();
    path.gateway.sh("tc qdisc add dev wan root handle 7: tbf rate 50mbit burst 10k limit 30000");
    path.gateway.sh("nft add table inet operator");
    let b = Box::new(&path, &config("apply", "pfrc", ""));
    let daemon = b.start();
    b.wait_event("install.failed");
    assert!(b.log().contains("not ours"), "{}", b.log());
    assert!(path.gateway.sh("tc qdisc show dev wan").contains("tbf 7:"));
    assert!(path.flows());
    // The operator makes room.
    path.gateway.sh("tc qdisc del dev wan root");
    b.wait_running();
    daemon.end(Signal::SIGTERM);
    assert_eq!(b.command(&["reset"]).0, 0);
    assert_eq!(path.ours(), "");
    assert!(path.gateway.sh("nft list tables").contains("operator"));
}

#[test]
fn subscribers_are_discovered_from_routes_and_go_with_them() {
    let Some(_one) = root("subscribers_are_discovered") else { return };
    let path = Path::new();
    path.gateway.sh("ip route add 10.77.1.0/24 via 10.98.0.2");
    let mut text = config("apply", "fifo", "down = \"2 Mbit/s\"");
    text += "[discover]\nroutes = true\nbabel = \"127.0.0.1:1\"\nplan = \"all\"\nevery = \"1 s\"\nlinger = \"0 s\"\n";
    let b = Box::new(&path, &text);
    let daemon = b.start();
    let names = |s: &serde_json::Value| -> Vec<String> {
        let all = s["subscribers"].as_array().unwrap();
        all.iter().map(|s| s["name"].as_str().unwrap().to_owned()).collect()
    };
    let has = |name: &'static str| move |s: &serde_json::Value| names(s).iter().any(|n| n == name);
    let status = b.wait("discovered", has("10.77.1.0/24"));
    assert!(!names(&status).contains(&"10.98.0.0/24".to_owned()), "the gateway's own network");
    b.wait("limited", |s| {
        let all = s["subscribers"].as_array().unwrap();
        all.iter().all(|s| s["ways"][0]["limit_bits_per_second"] == 2_000_000)
    });
    // A source that does not answer is named and takes nobody away.
    b.wait_event("source.failed");
    path.gateway.sh("ip route del 10.77.1.0/24");
    b.wait("gone", |s| !has("10.77.1.0/24")(s));
    daemon.end(Signal::SIGTERM);
}

/// As a firewall does that is loaded anew.
#[test]
fn a_flushed_rule_set_is_put_back_and_said() {
    let Some(_one) = root("a_flushed_rule_set") else { return };
    let path = Path::new();
    let b = Box::new(&path, &config("apply", "fifo", "down = \"1 Mbit/s\""));
    let daemon = b.start();
    b.wait_running();
    let rules = || path.gateway.sh("nft list table inet fairmesh");
    for flush in ["nft flush ruleset", "nft flush table inet fairmesh"] {
        let before = rules().lines().count();
        let _ = std::fs::remove_file(b.file("log"));
        path.gateway.sh(flush);
        b.wait("put back", |s| {
            let tables = path.gateway.sh("nft list tables");
            s["phase"] == "running"
                && tables.contains("fairmesh")
                && rules().lines().count() == before
        });
        let events = b.json(&["status"]).unwrap()["events"].to_string();
        assert!(events.contains("rules.gone"), "{flush}: {events}");
        let limit = path.gateway.sh("tc class show dev mesh");
        assert!(limit.contains("rate 1Mbit") || limit.contains("ceil 1009Kbit"), "{limit}");
    }
    assert_eq!(daemon.end(Signal::SIGTERM), Some(0));
}

/// Both processes killed at once: nobody is left who could clean up, and still nobody is limited
/// for long, since the kernel itself stops classifying.
#[test]
fn killed_with_its_guard_limits_lapse_by_themselves() {
    let Some(_one) = root("killed_with_its_guard") else { return };
    let path = Path::new();
    let b = Box::new(&path, &config("apply", "fifo", "down = \"1 Mbit/s\""));
    let daemon = b.start();
    b.wait_running();
    let streams = vec![path.stream(1, 4.0)];
    let limited = |seconds| rates(&streams, Duration::from_secs(seconds))[0];
    let before = limited(3);
    assert!(before < 1.5e6, "it is limited: {before}");
    let lock = b.file("gateway.guard.lock");
    kill_holder(&lock);
    daemon.signal(Signal::SIGKILL);
    daemon.exit_code();
    let after = (0..20).map(|_| limited(1)).find(|rate| *rate > 2.5e6);
    assert!(after.is_some(), "limits stay");
    assert!(path.ours().contains("fairmesh"), "nobody removed anything");
    drop(streams);
    assert_eq!(b.command(&["reset"]).0, 0);
    assert_eq!(path.ours(), "");
}

/// Kills the guard: the only process with this lock on its command line.
fn kill_holder(lock: &std::path::Path) {
    assert_eq!(kill_holders(lock), 1, "guards of {}", lock.display());
}

fn kill_holders(lock: &std::path::Path) -> u32 {
    let lock = lock.to_str().unwrap();
    let mut killed = 0;
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|n| n.parse::<i32>().ok()) else {
            continue;
        };
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        if line.split(|b| *b == 0).any(|word| word == lock.as_bytes()) {
            // It may end by itself meanwhile.
            let sent = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), Signal::SIGKILL);
            killed += u32::from(sent.is_ok());
        }
    }
    killed
}

#[test]
fn a_guard_that_is_killed_is_started_again() {
    let Some(_one) = root("a_guard_that_is_killed") else { return };
    let path = Path::new();
    let b = Box::new(&path, &config("apply", "fifo", "down = \"1 Mbit/s\""));
    let daemon = b.start();
    b.wait_running();
    kill_holder(&b.file("gateway.guard.lock"));
    b.wait_event("guard.gone");
    assert!(b.log().contains("another one was started"), "{}", b.log());
    // And it does what it is there for.
    daemon.end(Signal::SIGKILL);
    b.wait_event("<3>guard.died");
    assert!((0..400).any(|_| {
        std::thread::sleep(Duration::from_millis(25));
        path.ours().is_empty()
    }));
}

#[test]
fn two_daemons_do_not_share_an_interface() {
    let Some(_one) = root("two_daemons") else { return };
    let path = Path::new();
    let b = Box::new(&path, &config("apply", "fifo", ""));
    let daemon = b.start();
    b.wait_running();
    // Another socket and another state, the same interfaces.
    let other = Box::new(&path, &config("apply", "fifo", ""));
    assert_eq!(other.start().exit_code(), Some(2));
    assert!(
        other.log().contains("expected no other gateway daemon to have the interface mesh"),
        "{}",
        other.log()
    );
    // Nor does its `reset` pull the carpet.
    let (code, _, err) = other.command(&["reset"]);
    assert!(code == 2 && err.contains("the daemon is running"), "{err}");
    assert!(path.ours().contains("mesh"));
    assert_eq!(daemon.end(Signal::SIGTERM), Some(0));
}

#[test]
fn a_renamed_interface_is_noticed() {
    let Some(_one) = root("a_renamed_interface") else { return };
    let path = Path::new();
    let b = Box::new(&path, &config("apply", "fifo", "down = \"1 Mbit/s\""));
    let daemon = b.start();
    b.wait_running();
    path.gateway.sh("ip link set mesh down");
    path.gateway.sh("ip link set mesh name mesh9");
    path.gateway.sh("ip link set mesh9 up");
    b.wait("absent", |s| s["phase"] == "absent");
    assert!(b.log().contains("it is called `mesh9` now"), "{}", b.log());
    assert!(!path.gateway.sh("tc qdisc show dev mesh9").contains("fa1:"), "nothing of ours on it");
    path.gateway.sh("ip link set mesh9 down");
    path.gateway.sh("ip link set mesh9 name mesh");
    path.gateway.sh("ip link set mesh up");
    b.wait_running();
    assert_eq!(daemon.end(Signal::SIGTERM), Some(0));
}

/// The configuration names other interfaces after a crash: what is on the old ones goes.
#[test]
fn what_is_left_on_other_interfaces_is_found() {
    let Some(_one) = root("what_is_left_on_other_interfaces") else { return };
    let path = Path::new();
    path.gateway.sh("ip link add other type veth peer name other-peer");
    path.gateway.sh("ip link set other up");
    let old = config("apply", "fifo", "down = \"1 Mbit/s\"");
    let b = Box::new(&path, &old);
    let crash = || {
        let daemon = b.start();
        b.wait_running();
        kill_holder(&b.file("gateway.guard.lock"));
        daemon.end(Signal::SIGKILL);
    };
    crash();
    let new = old.replace("interface = \"wan\"", "interface = \"other\"");
    b.write(&new);
    assert_eq!(b.command(&["reset"]).0, 0);
    assert_eq!(path.ours(), "");
    b.write(&old);
    crash();
    b.write(&new);
    let daemon = b.start();
    b.wait_running();
    assert!(!path.gateway.sh("tc qdisc show dev wan").contains("fa1:"), "{}", b.log());
    assert_eq!(daemon.end(Signal::SIGTERM), Some(0));
}

/// Whoever is not in the configuration shares one class with all others who are not, and what the
/// gateway itself sends is not theirs.
#[test]
fn made_up_addresses_gain_nothing() {
    let Some(_one) = root("made_up_addresses") else { return };
    let path = Path::new();
    let known = "[[subscriber]]\nname = \"sub 3\"";
    let text =
        config("apply", "fifo", "").replace("unmapped = \"pass\"", "unmapped = \"limit 1 Mbit/s\"");
    // The first two are unknown.
    let (head, tail) = (text.find("[[subscriber]]").unwrap(), text.find(known).unwrap());
    let b = Box::new(&path, &format!("{}{}", &text[..head], &text[tail..]));
    let daemon = b.start();
    b.wait_running();
    let streams: Vec<_> = [1, 2, 3].map(|i| path.stream(i, 2.0)).into();
    std::thread::sleep(Duration::from_secs(1));
    let got = rates(&streams, Duration::from_secs(4));
    assert!(got[0] + got[1] < 1.2e6, "two addresses, one limit: {got:?}");
    assert!(got[2] > 1.5e6, "{got:?}");
    // From the gateway itself.
    let from = path.gateway.udp("10.98.0.1:0");
    let to = path.subs.udp("10.1.1.1:4000");
    to.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let count = || {
        let classes = path.gateway.sh("tc -s class show dev mesh classid fa1:fff0");
        let words: Vec<&str> = classes.split_whitespace().collect();
        let at = words.iter().position(|w| *w == "Sent").unwrap();
        words[at + 1].parse::<u64>().unwrap()
    };
    let before = count();
    for _ in 0..5 {
        from.send_to(&[0; 1000], "10.1.1.1:4000").unwrap();
        to.recv(&mut [0; 2000]).unwrap();
    }
    assert!(count() >= before + 5_000, "not in anybody's class");
    // It is one of those whom `status` shows.
    let status = b.json(&["status"]).unwrap();
    assert!(status["subscribers"].to_string().contains("(unmapped)"), "{status}");
    streams.into_iter().for_each(|s| _ = s.end());
    // The policy can be changed while it runs.
    let now = std::fs::read_to_string(b.file("gateway.toml")).unwrap();
    b.write(&now.replace("limit 1 Mbit/s", "pass"));
    assert_eq!(b.command(&["reload"]).0, 0);
    let streams = vec![path.stream(1, 3.0)];
    std::thread::sleep(Duration::from_secs(1));
    let got = rates(&streams, Duration::from_secs(3));
    assert!(got[0] > 2e6, "{got:?}");
    assert_eq!(daemon.end(Signal::SIGTERM), Some(0));
}

/// What a control asks of its classes stands in the kernel, and two words about one queue are one too
/// many.
#[test]
fn the_queue_of_a_control_is_built_or_refused() {
    let Some(_one) = root("the_queue_of_a_control_is_built_or_refused") else { return };
    let path = Path::new();
    let asked = config("apply", "pfrc", "").replace("use = \"pfrc\"", "use = \"pfrc\"\nqueue = 7");
    assert!(asked.contains("queue = 7"), "{asked}");
    let b = Box::new(&path, &asked);
    let daemon = b.start();
    b.wait_running();
    for side in ["mesh", "wan"] {
        let leaves = path.gateway.sh(&format!("tc qdisc show dev {side}"));
        let of_ours = leaves.lines().filter(|l| l.contains("pfifo") && l.contains("limit 7p"));
        assert_eq!(of_ours.count(), 3, "a queue of 7 for each subscriber\n{leaves}");
        assert!(!leaves.contains("fq_codel"), "{leaves}");
    }
    assert_eq!(daemon.end(Signal::SIGTERM), Some(0));
    for (leaf, refused) in [("pfifo", true), ("control", false)] {
        let sample = "sample = \"1 s\"";
        b.write(&asked.replace(sample, &format!("{sample}\nleaf = \"{leaf}\"")));
        let (code, out, err) = b.command(&["check"]);
        let named =
            (out.clone() + &err).contains("control.queue: shaping.leaf says how packets wait");
        assert_eq!((code == 2, named), (refused, refused), "{out}{err}");
    }
}

/// Daemon, guard, or both, at any moment of their lives, with a stream and a connection running:
/// `FAIRMESH_KILLS=1000` for as often as it takes to believe it.
#[test]
fn whoever_is_killed_under_load_no_limit_stays_and_nothing_is_lost() {
    let Some(_one) = root("whoever_is_killed_under_load") else { return };
    let kills: u32 = std::env::var("FAIRMESH_KILLS").map_or(24, |n| n.parse().unwrap());
    let path = Path::new();
    let ceilings = "down = \"3 Mbit/s\"\nup = \"3 Mbit/s\"";
    let b = Box::new(&path, &config("apply", "fifo", ceilings));
    let lock = b.file("gateway.guard.lock");
    let listener =
        path.subs.spawn(|| std::net::TcpListener::bind("10.1.2.1:7000").unwrap()).join().unwrap();
    let client =
        path.wired.spawn(|| std::net::TcpStream::connect("10.1.2.1:7000").unwrap()).join().unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let halt = stop.clone();
    // Below the limit, as the stream is: whatever is lost is nobody's but ours.
    let writer = std::thread::spawn(move || {
        let mut client = client;
        let mut sent = 0_u64;
        while !halt.load(std::sync::atomic::Ordering::Relaxed) {
            let block: Vec<u8> = (0..1000).map(|i| ((sent + i) % 251) as u8).collect();
            client.write_all(&block).unwrap();
            sent += 1000;
            std::thread::sleep(Duration::from_millis(8));
        }
        sent
    });
    let reader = std::thread::spawn(move || {
        let (mut got, mut buffer) = (0_u64, [0; 16 * 1024]);
        loop {
            let n = server.read(&mut buffer).unwrap();
            if n == 0 {
                return got;
            }
            for byte in &buffer[..n] {
                assert_eq!(u64::from(*byte), got % 251, "byte {got} of the connection");
                got += 1;
            }
        }
    });
    let stream = path.stream(1, 1.0);
    let mut random = 0x1234_5678_9abc_def1_u64;
    let (mut ours_before, mut exchanges, mut lapsed) = (false, 0_u32, 0);
    for round in 0..kills {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let daemon = b.start();
        if round % 2 == 0 {
            b.wait_running();
        }
        std::thread::sleep(Duration::from_millis(random >> 33 & 0xff));
        let who = random >> 50 & 3;
        if who == 1 {
            // The guard first: the daemon goes on, and finds another one or dies without.
            kill_holders(&lock);
            std::thread::sleep(Duration::from_millis(random >> 20 & 0x1ff));
        }
        if who == 2 {
            // Both in one moment, in which neither can do anything.
            daemon.signal(Signal::SIGSTOP);
            kill_holders(&lock);
        }
        let ours = !path.ours().is_empty();
        exchanges += u32::from(ours && !ours_before) * 2;
        assert_eq!(daemon.end(Signal::SIGKILL), None, "it ended by itself\n{}", b.log());
        let end = std::time::Instant::now() + Duration::from_secs(60);
        let guarded = who == 0 || who == 3;
        loop {
            let left = path.ours();
            if left.is_empty() {
                break;
            }
            if !guarded {
                // Nobody is left to clean up: the kernel stops by itself, which is tried now and then.
                if round % 10 != 0 {
                    break;
                }
                let set = path.gateway.sh("nft list ruleset");
                if !set.contains("expires") {
                    lapsed += 1;
                    break;
                }
            }
            assert!(std::time::Instant::now() < end, "round {round}, {who}: {left}\n{}", b.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        ours_before = !path.ours().is_empty();
        exchanges += u32::from(ours && !ours_before) * 2;
        let _ = std::fs::remove_file(b.file("log"));
    }
    assert_eq!(b.command(&["reset"]).0, 0);
    exchanges += 2;
    assert_eq!(path.ours(), "");
    let (sent, received) = stream.end();
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let written = writer.join().unwrap();
    assert_eq!(reader.join().unwrap(), written);
    println!(
        "{kills} kills, {lapsed} lapses waited for, {exchanges} exchanges of a root qdisc: {sent} \
         datagrams sent, {} lost; {written} bytes by TCP intact",
        sent - received
    );
    assert!(sent > u64::from(kills) * 10, "{sent}");
    // While it exchanges an interface's root qdisc the kernel sends nothing there (dev_deactivate).
    assert!(sent - received <= u64::from(exchanges), "{} lost", sent - received);
}

/// One identity or two hundred: whoever makes up addresses shares one share with all who do.
#[test]
fn made_up_addresses_share_one_share() {
    let Some(_one) = root("made_up_addresses_share") else { return };
    let path = Path::new();
    let text = config("apply", "pfrc", "").replace("unmapped = \"pass\"", "unmapped = \"share\"");
    let known = text.find("[[subscriber]]\nname = \"sub 3\"").unwrap();
    let head = text.find("[[subscriber]]").unwrap();
    let b = Box::new(&path, &format!("{}{}", &text[..head], &text[known..]));
    let daemon = b.start();
    b.wait_running();
    // Upstream, from a new address with every packet; beside an honest one.
    let sink = path.wired.udp("10.99.0.2:6000");
    sink.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    for i in 0..200 {
        path.subs.sh(&format!("ip addr add 10.1.50.{i}/32 dev lo"));
    }
    let send = |sources: Vec<std::net::UdpSocket>, gap: Duration| {
        let halt = stop.clone();
        std::thread::spawn(move || {
            let mut next = std::time::Instant::now();
            for source in sources.iter().cycle() {
                if halt.load(std::sync::atomic::Ordering::Relaxed) {
                    return;
                }
                let _ = source.send_to(&[0; 1372], "10.99.0.2:6000");
                next = (next + gap).max(std::time::Instant::now() - 4 * gap);
                std::thread::sleep(next.saturating_duration_since(std::time::Instant::now()));
            }
        })
    };
    let many = (0..200).map(|i| path.subs.udp(&format!("10.1.50.{i}:0"))).collect();
    // 7 Mbit/s by 200 identities, 7 by one: more together than the path has.
    let threads = [
        send(many, Duration::from_micros(1600)),
        send(vec![path.subs.udp("10.1.3.1:0")], Duration::from_micros(1600)),
    ];
    let mut got = [0_u64; 2];
    let mut fair = false;
    let mut buffer = [0; 2000];
    for _ in 0..40 {
        got = [0; 2];
        let end = std::time::Instant::now() + Duration::from_secs(3);
        while std::time::Instant::now() < end {
            if let Ok((n, from)) = sink.recv_from(&mut buffer) {
                got[usize::from(from.ip().to_string() == "10.1.3.1")] += n as u64;
            }
        }
        // Half and half, as two households would have it.
        fair = got[1] * 10 > 9 * got[0];
        if fair {
            break;
        }
    }
    println!("{} bytes by 200 identities, {} by an honest one", got[0], got[1]);
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    threads.into_iter().for_each(|t| t.join().unwrap());
    assert!(fair, "{got:?}\n{}", b.log());
    // And somebody's Ethernet address after the other.
    let classes = || path.gateway.sh("tc -s class show dev wan classid fa1:fff0");
    let sent = |text: String| {
        let words: Vec<&str> = text.split_whitespace().collect();
        let at = words.iter().position(|w| *w == "Sent").unwrap();
        words[at + 1].parse::<u64>().unwrap()
    };
    let before = sent(classes());
    let source = path.subs.udp("10.1.50.7:0");
    let mut arrived = 0;
    for i in 0..20 {
        path.router.sh(&format!("ip link set r0 address 02:00:00:00:77:{i:02x}"));
        path.gateway
            .sh(&format!("ip neigh replace 10.98.0.2 lladdr 02:00:00:00:77:{i:02x} dev mesh"));
        source.send_to(&[0; 1000], "10.99.0.2:6000").unwrap();
        arrived += u32::from(sink.recv_from(&mut buffer).is_ok());
    }
    assert!(arrived > 10, "{arrived}");
    assert_eq!(sent(classes()), before, "no way around everybody's class");
    assert_eq!(daemon.end(Signal::SIGTERM), Some(0));
}

/// Thousands who come while it runs, on a configuration that is read again: it settles, and nobody takes
/// it for dead meanwhile.
#[test]
fn ten_thousand_who_come_later_settle() {
    let Some(_one) = root("ten_thousand_who_come_later") else { return };
    let path = Path::new();
    let few = config("apply", "fifo", "down = \"3 Mbit/s\"");
    let b = Box::new(&path, &few);
    let daemon = b.start();
    b.wait_running();
    let mut many = few.clone();
    for i in 0..10_000 {
        let (x, y) = (i / 250, i % 250);
        many += &format!(
            "[[subscriber]]\nname = \"n{i}\"\nplan = \"all\"\nprefixes = [\"10.2{}.{x}.{y}\"]\n",
            i % 10
        );
    }
    b.write(&many);
    daemon.signal(Signal::SIGHUP);
    let end = std::time::Instant::now() + Duration::from_secs(300);
    let limited = || {
        let classes = path.gateway.sh("tc class show dev mesh");
        classes.lines().filter(|l| l.contains("ceil 3028Kbit")).count()
    };
    while limited() < 10_003 {
        assert!(std::time::Instant::now() < end, "{} of them\n{}", limited(), b.log());
        std::thread::sleep(Duration::from_millis(500));
    }
    assert!(path.flows());
    let log = b.log();
    for late in ["guard.late", "daemon.late", "guard.gone", "relayout.failed", "shaping.released"] {
        assert!(!log.contains(late), "{log}");
    }
    println!("{}", log.lines().filter(|l| l.starts_with("shaping")).collect::<Vec<_>>().join("\n"));
    assert_eq!(daemon.end(Signal::SIGTERM), Some(0));
    assert_eq!(b.command(&["reset"]).0, 0);
    assert_eq!(path.ours(), "");
}
