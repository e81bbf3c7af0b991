//! The data plane between real network stacks.

#![allow(clippy::disallowed_methods)] // what runs in real time must wait

mod common;

use std::time::Duration;

use common::*;
use fairmesh_linux::*;

/// Sends `count` datagrams of `bytes` from one socket to an address.
fn blast(socket: &std::net::UdpSocket, to: std::net::SocketAddr, bytes: usize, count: usize) {
    for _ in 0..count {
        socket.send_to(&vec![0; bytes], to).unwrap();
    }
}

fn settle() {
    std::thread::sleep(Duration::from_millis(50));
}

fn of(counters: &[ClassCounters], class: u16, direction: Direction) -> ClassCounters {
    let slot = Slot { class: ClassId(class), direction };
    *counters.iter().find(|c| c.slot == slot).unwrap()
}

fn sample(path: &Path, plane: &mut Option<HtbPlane>) -> Vec<ClassCounters> {
    path.call(plane, |p| {
        let mut out = Vec::new();
        p.sample(&mut out).unwrap();
        out
    })
}

#[test]
fn traffic_is_counted_by_subscriber_and_direction() {
    if !root("traffic_is_counted_by_subscriber_and_direction") {
        return;
    }
    let path = Path::new();
    let mut plane = Some(path.plane());
    let layout = path.layout((1..=5).map(subscriber).collect());
    let before = path.gateway.sh("tc qdisc show");
    let l = layout.clone();
    let installed = path.call(&mut plane, move |p| p.install(&l).unwrap());
    assert_eq!(installed.replaced, ["mesh0: noqueue", "wan0: noqueue"]);
    assert!(!installed.adopted);
    let home = path.mesh.udp(v4(3, 5000));
    let host = path.wired.udp("10.9.0.2:6000".parse().unwrap());
    blast(&host, v4(3, 5000), 500, 10);
    blast(&home, "10.9.0.2:6000".parse().unwrap(), 300, 4);
    let _host6 = path.wired.udp("[fd09::2]:6000".parse().unwrap());
    let home6 = path.mesh.udp(v6(5, 5000));
    blast(&home6, "[fd09::2]:6000".parse().unwrap(), 100, 7);
    let stranger = path.mesh.udp(v4(77, 5000));
    blast(&stranger, "10.9.0.2:6000".parse().unwrap(), 100, 6);
    settle();
    let counters = sample(&path, &mut plane);
    assert_eq!(counters.len(), 10);
    let down = of(&counters, 3, Direction::Down);
    assert_eq!((down.packets, down.bytes), (10, 10 * (500 + 28 + 14)));
    let up = of(&counters, 3, Direction::Up);
    assert_eq!((up.packets, up.bytes), (4, 4 * (300 + 28 + 14)));
    assert_eq!(of(&counters, 5, Direction::Up).packets, 7);
    assert_eq!(counters.iter().map(|c| c.packets).sum::<u64>(), 21);
    let wired = path.call(&mut plane, |p| p.interface(Side::Wired).unwrap());
    assert_eq!((wired.subscriber_packets, wired.classified_packets), (11, 11));
    assert_eq!(wired.unmapped_packets, 6);
    let removed = path.call(&mut plane, move |p| p.remove(&layout).unwrap());
    assert_eq!(removed.qdiscs, ["mesh0", "wan0"]);
    assert_eq!(path.gateway.sh("tc qdisc show"), before);
    assert_eq!(path.gateway.sh("nft list ruleset"), "");
}
