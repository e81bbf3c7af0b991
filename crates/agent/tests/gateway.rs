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
