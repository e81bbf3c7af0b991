//! Limits on local traffic of a mesh router, between real network stacks.

#![allow(clippy::disallowed_methods)] // what runs in real time must wait

mod common;

use std::net::UdpSocket;

use common::*;
use fairmesh_linux::*;
use fairmesh_units::BitRate;
use nix::sys::socket::{setsockopt, sockopt};

fn place(routed: &[&str]) -> LocalPlace {
    let name = |n: &&str| Interface::new(*n).unwrap();
    LocalPlace { interface: name(&"mesh0"), routed: routed.iter().map(name).collect() }
}

/// Sends frames of 1014 bytes; returns the number that the class counted.
///
/// The kernel's own packets to its neighbours are smaller in total.
fn send(path: &Path, shaper: &mut Option<LocalShaper>, from: &UdpSocket, packets: u64) -> u64 {
    let before = sample(path, shaper).bytes;
    blast(from, v4(1, 5000), 972, packets as usize);
    settle();
    (sample(path, shaper).bytes - before) / 1014
}

fn sample(path: &Path, shaper: &mut Option<LocalShaper>) -> fairmesh_linux::tc::stats::Stats {
    call(path, shaper, |s| s.sample().unwrap())
}

fn call<T: Send + 'static>(
    path: &Path,
    shaper: &mut Option<LocalShaper>,
    call: impl FnOnce(&mut LocalShaper) -> T + Send + 'static,
) -> T {
    let mut owned = shaper.take().unwrap();
    let (owned, result) = path.gateway.within(move || {
        let result = call(&mut owned);
        (owned, result)
    });
    *shaper = Some(owned);
    result
}

fn install(path: &Path, routed: &'static [&'static str]) -> Option<LocalShaper> {
    Some(path.gateway.within(|| LocalShaper::install(&place(routed), 50, 3000).unwrap()))
}

#[test]
fn local_traffic_has_a_limit_and_forwarded_traffic_has_none() {
    if !root("local_traffic_has_a_limit_and_forwarded_traffic_has_none") {
        return;
    }
    let path = Path::new();
    let before = path.gateway.sh("tc qdisc show");
    // Both links of the gateway belong to a routed mesh.
    let mut shaper = install(&path, &["mesh0", "wan0"]);
    let own = path.gateway.udp("10.1.0.1:5000");
    let other = path.wired.udp(HOST);
    // The first packets resolve the address of the next hop.
    send(&path, &mut shaper, &own, 1);
    assert_eq!(send(&path, &mut shaper, &own, 20), 20, "sent here");
    assert_eq!(send(&path, &mut shaper, &other, 20), 0, "sent elsewhere");
    setsockopt(&own, sockopt::Priority, &(UNLIMITED_PRIORITY as i32)).unwrap();
    assert_eq!(send(&path, &mut shaper, &own, 20), 0, "without limit by request");
    setsockopt(&own, sockopt::Priority, &0).unwrap();
    let babel = path.gateway.udp("10.1.0.1:6696");
    blast(&babel, "10.2.0.1:6696".parse().unwrap(), 100, 5);
    settle();
    assert_eq!(send(&path, &mut shaper, &own, 1), 1, "routing has no limit either");
    // 80 kbit/s are 10 packets of 1000 bytes in a second: the rest is dropped or waits.
    call(&path, &mut shaper, |s| s.set_rate(Some(BitRate(80_000))).unwrap());
    let from = sample(&path, &mut shaper);
    blast(&own, v4(1, 5000), 972, 200);
    let stats = sample(&path, &mut shaper);
    assert!(stats.drops - from.drops >= 100, "{stats:?}");
    assert!(stats.queued_packets > 0 && stats.overlimits > 0, "{stats:?}");
    // Another process lifts the limit, and the packets that wait leave.
    path.gateway.within(|| LocalShaper::lift(&place(&["mesh0", "wan0"])).unwrap());
    settle();
    let stats = sample(&path, &mut shaper);
    assert_eq!(stats.queued_packets, 0, "{stats:?}");
    // A second daemon replaces the classes; then nothing is left.
    let mut shaper = install(&path, &["mesh0", "wan0"]);
    assert!(sample(&path, &mut shaper).bytes < 1014);
    let removed = path.gateway.within(|| LocalShaper::remove(&place(&["mesh0", "wan0"])).unwrap());
    assert_eq!(
        (removed.qdiscs, removed.tables),
        (vec!["mesh0".into()], vec!["inet fairmesh-node".into()])
    );
    assert_eq!(path.gateway.sh("tc qdisc show"), before);
    assert_eq!(path.gateway.sh("nft list ruleset"), "");
    let gone = call(&path, &mut shaper, |s| s.sample().unwrap_err());
    assert!(gone.is_interface_lost(), "{gone}");
    let gone = call(&path, &mut shaper, |s| s.set_rate(None).unwrap_err());
    assert!(gone.is_interface_lost(), "{gone}");
}

#[test]
fn a_large_packet_of_local_traffic_waits_as_frames() {
    if !root("a_large_packet_of_local_traffic_waits_as_frames") {
        return;
    }
    let path = Path::new();
    let mut shaper = install(&path, &[]);
    let own = path.gateway.udp("10.1.0.1:5000");
    // The first packets resolve the address of the next hop.
    send(&path, &mut shaper, &own, 1);
    call(&path, &mut shaper, |s| s.set_rate(Some(BitRate(80_000))).unwrap());
    send_large(&own, v4(1, 5000), 972, 10);
    // The burst passes.
    let stats = sample(&path, &mut shaper);
    assert!((5..10).contains(&stats.queued_packets), "{stats:?}");
}

#[test]
fn rules_that_another_program_changes_are_missed() {
    if !root("rules_that_another_program_changes_are_missed") {
        return;
    }
    let path = Path::new();
    let mut shaper = install(&path, &["mesh0", "wan0"]);
    sample(&path, &mut shaper);
    path.gateway.sh("nft add table inet other");
    sample(&path, &mut shaper);
    let gone = |shaper: &mut Option<LocalShaper>| call(&path, shaper, |s| s.sample().unwrap_err());
    path.gateway.sh("nft flush chain inet fairmesh-node output");
    assert!(gone(&mut shaper).to_string().contains("table fairmesh-node"));
    let mut shaper = install(&path, &["mesh0", "wan0"]);
    sample(&path, &mut shaper);
    path.gateway.sh("nft flush ruleset");
    assert!(gone(&mut shaper).to_string().contains("table fairmesh-node"));
}

#[test]
fn objects_of_other_programs_stay() {
    if !root("objects_of_other_programs_stay") {
        return;
    }
    let path = Path::new();
    path.gateway.sh("tc qdisc add dev mesh0 root handle 1: tbf rate 1mbit burst 10k limit 100k");
    let before = path.gateway.sh("tc qdisc show");
    let refused = path.gateway.within(|| LocalShaper::install(&place(&[]), 50, 3000).unwrap_err());
    assert!(refused.to_string().contains("tbf 1:; it is unchanged"), "{refused}");
    let removed = path.gateway.within(|| LocalShaper::remove(&place(&[])).unwrap());
    assert_eq!((removed.qdiscs.len(), removed.kept), (0, vec!["mesh0: tbf 1:".to_owned()]));
    assert_eq!(path.gateway.sh("tc qdisc show"), before);
    path.gateway.sh("tc qdisc del dev mesh0 root");
    path.gateway.sh("nft add table inet fairmesh-node");
    let refused =
        path.gateway.within(|| LocalShaper::install(&place(&["wan0"]), 50, 1).unwrap_err());
    assert!(refused.to_string().contains("fairmesh-node` that is not ours"), "{refused}");
    // A batman-adv interface or a mesh point needs no rules.
    let mut shaper = install(&path, &[]);
    let own = path.gateway.udp("10.1.0.1:5000");
    let other = path.wired.udp(HOST);
    send(&path, &mut shaper, &own, 1);
    assert_eq!(send(&path, &mut shaper, &own, 7) + send(&path, &mut shaper, &other, 7), 14);
    assert!(path.gateway.within(|| LocalShaper::lift(&place(&[])).is_ok()));
    path.gateway.sh("ip link del mesh0");
    assert!(path.gateway.within(|| LocalShaper::remove(&place(&[])).is_ok()));
}
