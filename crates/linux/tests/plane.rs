//! The data plane between real network stacks.
//!
//! Covers installation, refusals, take-over, removal, and counters.

#![allow(clippy::disallowed_methods)] // what runs in real time must wait

mod common;

use common::*;
use fairmesh_linux::*;
use nix::sys::socket::{setsockopt, sockopt};

#[test]
fn traffic_is_counted_by_subscriber_and_direction() {
    if !root("traffic_is_counted_by_subscriber_and_direction") {
        return;
    }
    let path = Path::new();
    let before = path.gateway.sh("tc qdisc show");
    let mut g = Bench::on(path, (1..=5).map(subscriber).collect(), |_| ());
    assert_eq!(g.installed.replaced, ["mesh0: noqueue", "wan0: noqueue"]);
    assert!(!g.installed.adopted);
    let home = g.path.mesh.udp(v4(3, 5000));
    let host = g.path.wired.udp(HOST);
    blast(&host, v4(3, 5000), 500, 10);
    blast(&home, HOST.parse().unwrap(), 300, 4);
    let _host6 = g.path.wired.udp("[fd09::2]:6000");
    let home6 = g.path.mesh.udp(v6(5, 5000));
    blast(&home6, "[fd09::2]:6000".parse().unwrap(), 100, 7);
    let stranger = g.path.mesh.udp(v4(77, 5000));
    blast(&stranger, HOST.parse().unwrap(), 100, 6);
    settle();
    let counters = g.sample();
    assert_eq!(counters.len(), 10);
    let down = of(&counters, 3, Direction::Down);
    assert_eq!((down.packets, down.bytes), (10, 10 * (500 + 28 + 14)));
    let up = of(&counters, 3, Direction::Up);
    assert_eq!((up.packets, up.bytes), (4, 4 * (300 + 28 + 14)));
    assert_eq!(of(&counters, 5, Direction::Up).packets, 7);
    assert_eq!(counters.iter().map(|c| c.packets).sum::<u64>(), 21);
    let wired = g.call(|p| p.interface(Side::Wired).unwrap());
    assert_eq!((wired.subscriber_packets, wired.classified_packets), (11, 11));
    // The kernel may send to its own neighbours, too.
    assert!((6..12).contains(&wired.unmapped_packets), "{wired:?}");
    assert_eq!((wired.name.as_str(), wired.up), ("wan0", true));
    let layout = g.layout.clone();
    let removed = g.call(move |p| p.remove(&layout).unwrap());
    assert_eq!(removed.qdiscs, ["mesh0", "wan0"]);
    assert_eq!(removed.tables, ["inet fairmesh"]);
    assert_eq!(g.path.gateway.sh("tc qdisc show"), before);
    assert_eq!(g.path.gateway.sh("nft list ruleset"), "");
}

/// Address translation hides no subscriber.
///
/// Upstream, the address before masquerading counts; downstream, the one after conntrack has restored it.
#[test]
fn address_translation_hides_no_subscriber() {
    if !root("address_translation_hides_no_subscriber") {
        return;
    }
    let path = Path::new();
    path.gateway.sh("nft add table ip nat");
    path.gateway.sh("nft add chain ip nat post { type nat hook postrouting priority srcnat ; }");
    path.gateway.sh("nft add rule ip nat post oifname wan0 masquerade");
    let mut g = Bench::on(path, (1..=3).map(subscriber).collect(), |_| ());
    let home = g.path.mesh.udp(v4(2, 5000));
    let host = g.path.wired.udp(HOST);
    blast(&home, HOST.parse().unwrap(), 100, 8);
    let mut buffer = [0; 200];
    let (_, seen) = host.recv_from(&mut buffer).unwrap();
    assert_eq!(seen.ip().to_string(), "10.9.0.1", "masqueraded");
    blast(&host, seen, 100, 5);
    settle();
    let counters = g.sample();
    assert_eq!(of(&counters, 2, Direction::Up).packets, 8);
    assert_eq!(of(&counters, 2, Direction::Down).packets, 5);
    let layout = g.layout.clone();
    g.call(move |p| p.remove(&layout).unwrap());
    assert!(g.path.gateway.sh("nft list ruleset").contains("masquerade"), "not ours, so it stays");
}

#[test]
fn the_longest_prefix_decides() {
    if !root("the_longest_prefix_decides") {
        return;
    }
    let subscribers = vec![
        Subscriber::new(10, [net("10.2.0.0/16"), net("fd02::/64")]),
        Subscriber::new(20, [net("10.2.7.0/24"), net("fd02::7:0/112")]),
        Subscriber::new(30, [net("10.2.7.7/32")]),
    ];
    let mut g = Bench::new(subscribers);
    let host = g.path.wired.udp(HOST);
    let host6 = g.path.wired.udp("[fd09::2]:6000");
    for (to, count) in [("10.2.1.1:9", 1), ("10.2.7.1:9", 2), ("10.2.7.7:9", 4)] {
        blast(&host, to.parse().unwrap(), 64, count);
    }
    for (to, count) in [("[fd02::9:1]:9", 8), ("[fd02::7:1]:9", 16)] {
        blast(&host6, to.parse().unwrap(), 64, count);
    }
    let expected = [1 + 8, 2 + 16, 4];
    let mut packets = [0; 3];
    // On a busy machine addresses of the next hop are resolved late.
    for _ in 0..100 {
        settle();
        let counters = g.sample();
        packets = [10, 20, 30].map(|class| of(&counters, class, Direction::Down).packets);
        if packets == expected {
            break;
        }
    }
    assert_eq!(packets, expected);
}

/// Ethernet addresses: upstream in the packet's frame, downstream on egress.
#[test]
fn subscribers_known_by_ethernet_address() {
    if !root("subscribers_known_by_ethernet_address") {
        return;
    }
    let path = Path::new();
    let mac = path.mesh.sh("cat /sys/class/net/up0/address");
    let mut known = Subscriber::new(9, [net("10.2.0.9/32")]);
    known.macs.push(mac.trim().parse().unwrap());
    let mut g = Bench::on(path, vec![known, subscriber(4)], |_| ());
    let home = g.path.mesh.udp(v4(1, 5000));
    let host = g.path.wired.udp(HOST);
    blast(&home, HOST.parse().unwrap(), 64, 3);
    blast(&host, v4(1, 5000), 64, 5);
    let other = g.path.mesh.udp(v4(4, 5000));
    blast(&other, HOST.parse().unwrap(), 64, 7);
    blast(&host, v4(4, 5000), 64, 11);
    settle();
    let counters = g.sample();
    let packets = |class, direction| of(&counters, class, direction).packets;
    assert_eq!((packets(9, Direction::Up), packets(9, Direction::Down)), (3, 5));
    // A prefix takes precedence over an Ethernet address.
    assert_eq!((packets(4, Direction::Up), packets(4, Direction::Down)), (7, 11));
    let mesh = g.call(|p| p.interface(Side::Mesh).unwrap());
    assert_eq!(mesh.classified_packets, 16);
    // Without Ethernet addresses the egress table is removed.
    let mut layout = g.layout.clone();
    layout.subscribers[0].macs.clear();
    g.call(move |p| p.relayout(&layout).unwrap());
    assert!(!g.path.gateway.sh("nft list tables").contains("netdev"));
}

#[test]
fn routing_and_management_bypass_limits() {
    if !root("routing_and_management_bypass_limits") {
        return;
    }
    // The mesh router's address belongs to a subscriber.
    let router = Subscriber::new(1, [net("10.1.0.2/32")]);
    let mut g = Bench::on(Path::new(), vec![router], |l| l.bypass.tcp = vec![22]);
    // A minimal limit for it, so that it would show.
    g.set(vec![change(1, Direction::Down, Some(8_000))]);
    let daemon = g.path.gateway.udp("10.1.0.1:698");
    let before = g.call(|p| p.interface(Side::Mesh).unwrap());
    blast(&daemon, "10.1.0.2:698".parse().unwrap(), 100, 12); // OLSR
    blast(&daemon, "10.1.0.2:6696".parse().unwrap(), 100, 3); // Babel
    g.path.gateway.sh("ip neigh flush dev mesh0");
    blast(&daemon, "10.1.0.2:698".parse().unwrap(), 100, 1); // and an ARP request
    settle();
    let after = g.call(|p| p.interface(Side::Mesh).unwrap());
    assert!(after.bypass_packets - before.bypass_packets >= 17, "{before:?} {after:?}");
    assert_eq!(after.subscriber_packets, before.subscriber_packets);
    // A host behind the gateway that uses such a port is an ordinary subscriber.
    let host = g.path.wired.udp(HOST);
    blast(&host, "10.1.0.2:698".parse().unwrap(), 100, 2);
    settle();
    let counters = g.sample();
    let it = of(&counters, 1, Direction::Down);
    assert_eq!(it.packets + u64::from(it.backlog_packets), 2);
}

#[test]
fn foreign_objects_are_refused_and_stay() {
    if !root("foreign_objects_are_refused_and_stay") {
        return;
    }
    let path = Path::new();
    let g = &path.gateway;
    let mut plane = Some(path.plane());
    let layout = path.layout(vec![subscriber(1)]);
    let mut refused = |want: &str| {
        let before =
            (g.sh("tc qdisc show"), g.sh("tc class show dev wan0"), g.sh("nft list ruleset"));
        let l = layout.clone();
        let error = path.call(&mut plane, move |p| p.install(&l).unwrap_err()).to_string();
        assert!(error.contains(want), "{error} should contain {want}");
        let l = layout.clone();
        path.call(&mut plane, move |p| p.remove(&l).unwrap());
        let after =
            (g.sh("tc qdisc show"), g.sh("tc class show dev wan0"), g.sh("nft list ruleset"));
        assert_eq!(before, after);
    };
    g.sh("tc qdisc add dev wan0 root handle 1: tbf rate 10mbit burst 10k latency 50ms");
    refused("`wan0` already has a root qdisc that is not ours: tbf 1:");
    g.sh("tc qdisc replace dev wan0 root pfifo limit 7");
    refused("`wan0` already has a root qdisc that is not ours: pfifo 8");
    // Even HTB with our own handle, created by hand.
    g.sh("tc qdisc replace dev wan0 root handle fa1: htb default 1");
    g.sh("tc class add dev wan0 parent fa1: classid fa1:1 htb rate 1mbit");
    refused("`wan0` already has a root qdisc that is not ours: htb fa1:");
    g.sh("tc qdisc del dev wan0 root");
    g.sh("nft add table inet fairmesh");
    refused("nftables has a table `inet fairmesh` that is not ours");
    g.sh("nft delete table inet fairmesh");
    g.sh("nft add table netdev fairmesh");
    refused("that is not ours");
    g.sh("nft delete table netdev fairmesh");
    // Filters and ingress qdiscs of other programs do not conflict with ours.
    g.sh("tc qdisc add dev wan0 clsact");
    g.sh("tc filter add dev wan0 egress protocol ip prio 7 u32 match u32 0 0 action mirred egress redirect dev mesh0");
    let l = layout.clone();
    path.call(&mut plane, move |p| p.install(&l).unwrap());
    let l = layout.clone();
    path.call(&mut plane, move |p| p.remove(&l).unwrap());
    assert!(g.sh("tc qdisc show dev wan0").contains("clsact"));
    assert!(g.sh("tc filter show dev wan0 egress").contains("mirred"));
}

#[test]
fn objects_of_an_earlier_run_are_taken_over() {
    if !root("objects_of_an_earlier_run_are_taken_over") {
        return;
    }
    let mut g = Bench::new((1..=6).map(subscriber).collect());
    g.set(vec![
        change(2, Direction::Down, Some(100_000)),
        change(5, Direction::Down, Some(100_000)),
        change(0, Direction::Up, Some(5_000_000)),
    ]);
    let host = g.path.wired.udp(HOST);
    // ECT(0) (RFC 3168 §5): CoDel marks delayed packets, so every loss is due to us.
    setsockopt(&host, sockopt::Ipv4Tos, &2).unwrap();
    blast(&host, v4(2, 9), 1000, 30);
    blast(&host, v4(5, 9), 1000, 30);
    settle();
    let waiting = of(&g.sample(), 2, Direction::Down);
    assert!(waiting.backlog_packets > 0 && waiting.drops == 0);
    // A new process: it knows three of the six, and one more.
    let mut layout = g.layout.clone();
    layout.subscribers = [1, 2, 3, 9].map(subscriber).to_vec();
    g.layout = layout.clone();
    g.another();
    let l = layout.clone();
    let installed = g.call(move |p| p.install(&l).unwrap());
    assert!(installed.adopted);
    assert_eq!(installed.swept, 2 * 3);
    assert!(installed.replaced.is_empty());
    let shown = g.path.gateway.sh("tc class show dev wan0");
    assert!(!shown.contains("rate 5Mbit"), "all are unlimited: {shown}");
    // Waiting packets are sent, in classes that stay and in those that leave. The new limit counts
    // once the debt of the last packet at the old one is paid (85 ms).
    for _ in 0..100 {
        settle();
        if of(&g.sample(), 2, Direction::Down).backlog_packets == 0 {
            break;
        }
    }
    let counters = g.sample();
    let of_two = of(&counters, 2, Direction::Down);
    assert_eq!((of_two.packets, of_two.drops, of_two.backlog_packets), (30, 0, 0));
    let mut classes: Vec<u16> = counters.iter().map(|c| c.slot.class.0).collect();
    classes.sort_unstable();
    assert_eq!(classes, [1, 1, 2, 2, 3, 3, 9, 9]);
    // The sample has deleted the empty ones.
    let shown = g.path.gateway.sh("tc class show dev mesh0");
    assert!(!shown.contains("fa1:4 ") && !shown.contains("fa1:5 "), "{shown}");
    let mesh = g.call(|p| p.interface(Side::Mesh).unwrap());
    assert_eq!(mesh.subscriber_packets, 60);
    // A process can remove everything without installing anything.
    g.another();
    let removed = g.call(move |p| p.remove(&layout).unwrap());
    assert_eq!((removed.qdiscs.len(), removed.tables.len(), removed.kept.len()), (2, 1, 0));
}

#[test]
fn a_lost_interface_is_named_and_announced() {
    if !root("a_lost_interface_is_named_and_announced") {
        return;
    }
    let mut g = Bench::new(vec![subscriber(1)]);
    let mut events = g.path.gateway.within(|| link::LinkEvents::open().unwrap());
    let expect_lost = |result: Result<(), Error>| {
        let error = result.unwrap_err();
        assert!(error.is_interface_lost() && error.to_string().contains("mesh0"), "{error}");
    };
    // Down and up again: everything stays.
    g.path.gateway.sh("ip link set mesh0 down");
    g.sample();
    g.path.gateway.sh("ip link set mesh0 up");
    g.sample();
    // The kernel checks carriers once a second.
    let mut states = Vec::new();
    for _ in 0..100 {
        for event in events.read().unwrap() {
            match event {
                link::LinkEvent::Changed(l) if l.name == "mesh0" => states.push(l.up),
                _ => {}
            }
        }
        if states.last() == Some(&true) {
            break;
        }
        settle();
    }
    assert!(states.contains(&false) && states.last() == Some(&true), "{states:?}");
    // Another program removes our qdisc.
    g.path.gateway.sh("tc qdisc del dev mesh0 root");
    expect_lost(g.call(|p| p.sample(&mut Vec::new())));
    let layout = g.layout.clone();
    let installed = g.call(move |p| p.install(&layout).unwrap());
    assert!(installed.adopted);
    // The interface itself is removed.
    g.path.gateway.sh("ip link del mesh0");
    expect_lost(g.call(|p| p.sample(&mut Vec::new())));
    expect_lost(g.call(|p| p.set_rates(&[change(1, Direction::Down, None)])));
    expect_lost(g.call(|p| p.interface(Side::Mesh).map(|_| ())));
    let gone = |e: &link::LinkEvent| matches!(e, link::LinkEvent::Gone(l) if l.name == "mesh0");
    assert!(events.read().unwrap().iter().any(gone));
    let layout = g.layout.clone();
    expect_lost(g.call(move |p| p.install(&layout).map(|_| ())));
    // An interface of another kind with the same name, as with PPP and tunnels: without a header.
    assert_eq!(g.installed.headers, [14, 14]);
    g.path.gateway.sh("ip tuntap add mesh0 mode tun");
    g.path.gateway.sh("ip link set mesh0 up");
    let layout = g.layout.clone();
    let installed = g.call(move |p| p.install(&layout).unwrap());
    assert_eq!((installed.headers, installed.adopted), ([0, 14], true));
    g.call(|p| p.renew().unwrap());
    g.path.gateway.sh("ip link del mesh0");
    // The other side can still be removed.
    let layout = g.layout.clone();
    let removed = g.call(move |p| p.remove(&layout).unwrap());
    assert_eq!(removed.qdiscs, ["wan0"]);
}

#[test]
fn an_unknown_class_is_refused_and_the_others_are_set() {
    if !root("an_unknown_class_is_refused_and_the_others_are_set") {
        return;
    }
    let mut g = Bench::new(vec![subscriber(1), subscriber(2)]);
    let changes = vec![
        change(1, Direction::Down, Some(1_000_000)),
        change(7, Direction::Down, Some(1_000_000)),
        change(2, Direction::Down, Some(2_000_000)),
    ];
    let error = g.call(move |p| p.set_rates(&changes).unwrap_err()).to_string();
    assert!(error.contains("class 7"), "{error}");
    let shown = g.path.gateway.sh("tc class show dev mesh0");
    assert!(
        shown.contains("rate 1Mbit ceil 1Mbit") && shown.contains("rate 2Mbit ceil 2Mbit"),
        "{shown}"
    );
    g.call(|p| p.release().unwrap());
    let shown = g.path.gateway.sh("tc class show dev mesh0");
    assert!(!shown.contains("Mbit"), "{shown}");
}

#[test]
fn before_installing_nothing_works_and_nothing_breaks() {
    if !root("before_installing_nothing_works_and_nothing_breaks") {
        return;
    }
    let path = Path::new();
    let before = path.gateway.sh("tc qdisc show");
    let mut plane = Some(path.plane());
    let features = path.call(&mut plane, |p| p.probe().unwrap());
    assert_eq!(features.htb, Some(true));
    assert_eq!(features.classifiers[0], Classifier::Priority);
    assert!(features.leaves.contains(&LeafKind::Pfifo) && features.flowtables.is_empty());
    assert_eq!(path.gateway.sh("tc qdisc show"), before, "probing touches nothing");
    for on in [false, true] {
        let word = if on { "on" } else { "off" };
        let tool = run(
            "ip",
            &[
                "netns",
                "exec",
                &path.gateway.name,
                "ethtool",
                "-K",
                "mesh0",
                "gro",
                word,
                "tso",
                word,
            ],
        );
        if tool.is_some_and(|t| t.status.success()) {
            let seen = path.gateway.within(|| link::offloads("mesh0").unwrap());
            assert_eq!((seen.gro, seen.tso, seen.lro), (on, on, false));
        }
    }
    let absent = path.gateway.within(|| link::offloads("none0").unwrap_err());
    assert!(matches!(absent, Error::NoInterface(_)));
    let none = path.call(&mut plane, |p| p.sample(&mut Vec::new()).unwrap_err());
    assert!(matches!(none, Error::NotInstalled));
}

/// Elements are compared only when another program has changed its own table, or ours.
#[test]
fn a_deleted_element_is_reported() {
    if !root("an_element_that_somebody_takes") {
        return;
    }
    let mut g = Bench::new((1..=3).map(subscriber).collect());
    g.call(|p| p.renew().unwrap());
    g.path.gateway.sh("nft add table inet operator");
    g.call(|p| p.renew().unwrap());
    g.call(|p| p.renew().unwrap());
    for harm in
        ["delete element inet fairmesh p4_32 { 10.2.0.2 }", "flush map inet fairmesh p6_128"]
    {
        g.path.gateway.sh(&format!("nft {harm}"));
        let error = g.call(|p| p.renew().unwrap_err());
        assert!(matches!(error, Error::RulesGone { .. }), "{harm}: {error}");
        let layout = g.layout.clone();
        g.call(move |p| p.install(&layout).unwrap());
        g.call(|p| p.renew().unwrap());
    }
    // A new subscriber does no harm.
    let mut layout = g.layout.clone();
    layout.subscribers.push(subscriber(4));
    g.call(move |p| p.relayout(&layout).unwrap());
    g.call(|p| p.renew().unwrap());
}
