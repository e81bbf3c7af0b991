//! Priority or mark: classifiers are tested on the interface, and replaced if ineffective.

#![allow(clippy::disallowed_methods)] // what runs in real time must wait

mod common;

use common::*;
use fairmesh_linux::*;

/// Overwrites every packet's priority after routing and before queueing.
///
/// A Wi-Fi driver without intermediate queues does so.
fn overwrite_priorities(path: &Path) {
    let g = &path.gateway;
    g.sh("nft add table netdev driver");
    g.sh("nft add chain netdev driver e { type filter hook egress device mesh0 priority 100 ; }");
    g.sh("nft add rule netdev driver e meta priority set 0:5");
}

fn exchange(g: &mut Bench, count: usize) -> (u64, u64) {
    let home = g.path.mesh.udp(v4(3, 5000));
    let host = g.path.wired.udp(HOST);
    blast(&host, v4(3, 5000), 200, count);
    blast(&home, HOST.parse().unwrap(), 200, count);
    // A class counts a packet before it is sent on.
    await_datagrams(&home, count);
    await_datagrams(&host, count);
    let counters = g.sample();
    (of(&counters, 3, Direction::Down).packets, of(&counters, 3, Direction::Up).packets)
}

#[test]
fn marks_are_chosen_where_priorities_do_not_hold() {
    if !root("marks_are_chosen_where_priorities_do_not_hold") {
        return;
    }
    let path = Path::new();
    overwrite_priorities(&path);
    let mut g = Bench::on(path, (1..=4).map(subscriber).collect(), |_| ());
    let [down, up] = g.installed.classifier;
    assert!(matches!(down, Classifier::MarkFw | Classifier::MarkBpf), "{down:?}");
    assert_eq!(up, Classifier::Priority);
    assert!(g.installed.notes.iter().any(|n| n.contains("mesh0") && n.contains("marks")));
    assert_eq!(exchange(&mut g, 25), (25, 25));
    let router = Subscriber::new(9, [net("10.1.0.2/32")]);
    let mut layout = g.layout.clone();
    layout.subscribers.push(router);
    g.call(move |p| p.relayout(&layout).unwrap());
    let daemon = g.path.gateway.udp("10.1.0.1:698");
    blast(&daemon, "10.1.0.2:698".parse().unwrap(), 100, 12);
    settle();
    assert_eq!(of(&g.sample(), 9, Direction::Down).packets, 0, "the bypass holds with marks too");
    let layout = g.layout.clone();
    g.call(move |p| p.remove(&layout).unwrap());
    assert_eq!(g.path.gateway.sh("tc filter show dev mesh0"), "");
    assert!(g.path.gateway.sh("nft list tables").contains("driver"), "not ours, so it stays");
}

#[test]
fn a_classifier_that_stops_holding_is_replaced() {
    if !root("a_classifier_that_stops_holding_is_replaced") {
        return;
    }
    let mut g = Bench::new((1..=4).map(subscriber).collect());
    assert_eq!(g.installed.classifier, [Classifier::Priority; 2]);
    assert_eq!(exchange(&mut g, 30), (30, 30));
    let verdicts = g.call(|p| p.verify().unwrap());
    assert!(
        verdicts.iter().all(|v| v.holds && v.classified == 30 && v.arrived >= 30),
        "{verdicts:?}"
    );
    // Absence of traffic is not evidence.
    let verdicts = g.call(|p| p.verify().unwrap());
    assert!(verdicts.iter().all(|v| v.holds && v.classified == 0), "{verdicts:?}");
    overwrite_priorities(&g.path);
    assert_eq!(exchange(&mut g, 30), (30, 60), "downstream nothing arrives in its class");
    let verdicts = g.call(|p| p.verify().unwrap());
    let (down, up) = (verdicts[0], verdicts[1]);
    assert!(!down.holds && down.classified == 30 && down.classifier != Classifier::Priority);
    assert!(up.holds && up.classifier == Classifier::Priority);
    assert_eq!(exchange(&mut g, 30), (60, 90));
    let verdicts = g.call(|p| p.verify().unwrap());
    assert!(verdicts.iter().all(|v| v.holds), "{verdicts:?}");
}

/// The class survives on the way to a queueing discipline that sits on a bridge.
#[test]
fn a_bridge_keeps_the_class() {
    if !root("a_bridge_keeps_the_class") {
        return;
    }
    let path = Path::new();
    let g = &path.gateway;
    g.sh("ip link add br0 type bridge");
    g.sh("ip addr flush dev mesh0");
    g.sh("ip link set mesh0 master br0");
    g.sh("ip addr add 10.1.0.1/24 dev br0");
    g.sh("ip link set br0 up");
    // Until then it drops all frames, including the test frames of a classifier.
    await_condition("carrier of br0", || g.sh("ip -o link show dev br0").contains("state UP"));
    g.sh("ip route add 10.2.0.0/16 via 10.1.0.2");
    let subscribers = (1..=4).map(subscriber).collect();
    let mut g = Bench::on(path, subscribers, |l| l.mesh = Interface::new("br0").unwrap());
    assert_eq!(g.installed.classifier, [Classifier::Priority; 2], "{:?}", g.installed.notes);
    assert_eq!(exchange(&mut g, 20), (20, 20));
}

/// A VLAN that writes priorities into its tags, by a map without entries for classes.
#[test]
fn a_vlan_with_a_map_of_priorities_gets_marks() {
    if std::env::var_os("FAIRMESH_VM").is_none() {
        return; // not every kernel has VLANs
    }
    if !root("a_vlan_with_a_map_of_priorities_gets_marks") {
        return;
    }
    let path = Path::new();
    path.gateway.sh("ip addr flush dev mesh0");
    let address = path.mesh.sh("ip -o -4 addr show dev up0");
    let address = address.split_whitespace().nth(3).unwrap().to_owned();
    path.mesh.sh("ip addr flush dev up0");
    for (ns, link, address) in
        [(&path.gateway, "mesh0", "10.1.0.1/24"), (&path.mesh, "up0", address.as_str())]
    {
        ns.sh(&format!("ip link add link {link} name v7 type vlan id 7 egress-qos-map 5:5"));
        ns.sh(&format!("ip addr add {address} dev v7"));
        ns.sh("ip link set v7 up");
    }
    path.gateway.sh("ip route add 10.2.0.0/16 via 10.1.0.2");
    path.mesh.sh("ip route replace default via 10.1.0.1");
    let subscribers = (1..=4).map(subscriber).collect();
    let mut g = Bench::on(path, subscribers, |l| l.mesh = Interface::new("v7").unwrap());
    assert_eq!(g.installed.classifier, [Classifier::MarkBpf, Classifier::Priority]);
    assert!(g.installed.notes.iter().any(|n| n.contains("egress-qos-map")));
    assert_eq!(exchange(&mut g, 20), (20, 20));
}

/// Each classifier that this kernel has, with packets in both directions.
#[test]
fn every_classifier_there_is_counts() {
    if !root("every_classifier_there_is_counts") {
        return;
    }
    let mut g = Bench::new((1..=4).map(subscriber).collect());
    let there = g.call(|p| p.probe().unwrap()).classifiers;
    if std::env::var_os("FAIRMESH_VM").is_some() {
        // A distribution's kernel has all of them.
        for wanted in [Classifier::Priority, Classifier::MarkBpf, Classifier::MarkFw] {
            assert!(there.contains(&wanted), "{there:?}");
        }
    }
    let mut all = 0;
    for classifier in there {
        for direction in Direction::BOTH {
            g.call(move |p| p.use_classifier(direction, classifier).unwrap());
        }
        if classifier == Classifier::MarkFw {
            // Ours is the last: the kernel's list ends at it, with an error that `tc` prints.
            let shown = run(
                "ip",
                &["netns", "exec", &g.path.gateway.name, "tc", "filter", "show", "dev", "mesh0"],
            )
            .unwrap();
            let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
            for kind in ["protocol arp pref 1 u32", "pref 2 u32", "pref 65534 fw"] {
                assert!(shown.contains(kind), "{kind}: {shown}");
            }
        }
        all += 20;
        assert_eq!(exchange(&mut g, 20), (all, all), "{classifier:?}");
    }
}
