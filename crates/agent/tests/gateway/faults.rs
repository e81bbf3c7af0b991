//! Faults of interfaces, disks, rules and processes; foreign objects stay.

use fairmesh_agent::gateway::history::{
    DirectionUse, HistorySettings, HistoryWriter, HomeUse, Period, Stamp, Usage, read,
};

use crate::common::{Box, Path, Pause, config, root, sh};
use nix::sys::signal::Signal;

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
    // Only down and up: classes stay.
    path.gateway.sh("ip link set mesh down");
    b.wait_event("interface.down");
    path.gateway.sh("ip link set mesh up");
    path.gateway.sh("ip route replace 10.1.0.0/16 via 10.98.0.2");
    b.wait_running();
    assert!(path.flows());
    // Another program deletes our queue: it is restored.
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
fn a_stopped_daemon_is_overruled_and_recovers() {
    let Some(_one) = root("a_daemon_that_stands_still") else { return };
    let path = Path::new();
    let b = Box::new(&path, &config("apply", "fifo", "down = \"1 Mbit/s\""));
    let daemon = b.start();
    b.wait_running();
    daemon.signal(Signal::SIGSTOP);
    b.wait_event("<3>guard.late");
    let mut pause = Pause::new();
    let mut left = String::new();
    for _ in 0..30 {
        left = path.ours();
        if left.is_empty() {
            break;
        }
        pause.take();
    }
    assert_eq!(left, "");
    assert!(path.flows());
    daemon.signal(Signal::SIGCONT);
    b.wait_event("daemon.late");
    b.wait("running again", |s| s["phase"] == "running");
    let mut pause = Pause::new();
    let mut back = false;
    for _ in 0..100 {
        back = path.ours().contains("mesh");
        if back {
            break;
        }
        pause.take();
    }
    assert!(back, "{}", b.log());
    daemon.end(Signal::SIGTERM);
}

/// A full disk and a read-only one: an event, and the daemon continues.
#[test]
fn disks_that_do_not_write() {
    let Some(_one) = root("disks_that_do_not_write") else { return };
    let path = Path::new();
    let b = Box::new(&path, "");
    let disk = b.file("disk");
    std::fs::create_dir(&disk).unwrap();
    let at = disk.display();
    for options in ["size=4k", "size=64k,ro"] {
        sh(&format!("mount -t tmpfs -o {options} tmpfs {at}"));
        if options == "size=4k" {
            // The only page is in use.
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
        sh(&format!("umount {at}"));
    }
}

/// A history on a full disk has whole records only, and continues once there is space.
#[test]
fn a_history_on_a_full_disk_stays_readable() {
    let Some(_one) = root("a_history_on_a_full_disk") else { return };
    let folder = tempfile::tempdir().unwrap();
    let (at, ballast) = (folder.path().display(), folder.path().join("ballast"));
    sh(&format!("mount -t tmpfs -o size=64k tmpfs {at}"));
    std::fs::write(&ballast, vec![1; 40 << 10]).unwrap();
    let settings = HistorySettings {
        folder: folder.path().join("history"),
        size: 1 << 20,
        period: HistorySettings::PERIOD,
    };
    let mut writer = HistoryWriter::direct(&settings);
    let minute = |i: u64| {
        let home = |h: u64| {
            let usage = Usage { bytes: 1_000_000 * i + h, active: 60, ..Usage::default() };
            let down = DirectionUse { usage, reason: "pfrc.starved".into() };
            HomeUse { name: format!("home {h}"), directions: [down, DirectionUse::default()] }
        };
        let stamp = Stamp { run: 1, up: 60 * i, wall: 60 * i, ..Stamp::default() };
        Period { stamp, homes: (0..30).map(home).collect(), ..Period::default() }
    };
    let mut n = 0;
    while writer.report().problem.is_none() {
        n += 1;
        writer.store(minute(n));
        assert!(n < 60, "the disk never was full");
    }
    let whole = || {
        let mut reading = read(&settings.folder, 0, u64::MAX).unwrap();
        let homes: Vec<usize> = reading.by_ref().map(|p| p.homes.len()).collect();
        assert!(reading.damage().is_none() && homes.iter().all(|h| *h == 30), "{homes:?}");
        homes.len() as u64
    };
    let report = writer.report();
    println!("{n} minutes, then: {:?}", report.problem);
    assert_eq!((report.lost, report.written, whole()), (1, n - 1, n - 1));
    std::fs::remove_file(&ballast).unwrap();
    writer.store(minute(n + 1));
    assert_eq!((writer.report().problem, whole()), (None, n));
    drop(writer);
    sh(&format!("umount {at}"));
}

#[test]
fn foreign_objects_stay() {
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
    // The operator removes the foreign queue.
    path.gateway.sh("tc qdisc del dev wan root");
    b.wait_running();
    daemon.end(Signal::SIGTERM);
    assert_eq!(b.command(&["reset"]).0, 0);
    assert_eq!(path.ours(), "");
    assert!(path.gateway.sh("nft list tables").contains("operator"));
}

/// A flushed rule set, as by a firewall that is reloaded.
#[test]
fn a_flushed_rule_set_is_restored_and_reported() {
    let Some(_one) = root("a_flushed_rule_set") else { return };
    let path = Path::new();
    let b = Box::new(&path, &config("apply", "fifo", "down = \"1 Mbit/s\""));
    let daemon = b.start();
    b.wait_running();
    let rules = || path.gateway.sh("nft list table inet fairmesh");
    for flush in
        ["nft flush ruleset", "nft flush table inet fairmesh", "nft flush map inet fairmesh p4_24"]
    {
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
    assert!(other.log().contains("another daemon uses the interface mesh"), "{}", other.log());
    // Nor does its `reset` remove anything.
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
    assert!(b.log().contains("it was renamed to `mesh9`"), "{}", b.log());
    assert!(!path.gateway.sh("tc qdisc show dev mesh9").contains("fa1:"), "nothing of ours on it");
    path.gateway.sh("ip link set mesh9 down");
    path.gateway.sh("ip link set mesh9 name mesh");
    path.gateway.sh("ip link set mesh up");
    b.wait_running();
    assert_eq!(daemon.end(Signal::SIGTERM), Some(0));
}
