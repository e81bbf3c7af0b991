//! Thousands of subscribers: with groups' trees, creating a class walks few others.

#![allow(clippy::disallowed_methods)] // what runs in real time must wait

mod common;

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::time::Instant;

use common::*;
use fairmesh_linux::*;

/// Numbers at the edges of groups.
const EDGES: [u16; 7] = [1, 1023, 1024, 2047, 2048, 40_000, 64_000];

/// Returns the number of classes of the mesh side by their tree's handle.
fn trees(g: &Bench) -> BTreeMap<String, usize> {
    let mut trees = BTreeMap::new();
    for line in g.path.gateway.sh("tc class show dev mesh0").lines() {
        let Some(class) = line.strip_prefix("class htb ") else { continue };
        let (tree, _) = class.split_once(':').unwrap();
        *trees.entry(tree.to_owned()).or_default() += 1;
    }
    trees
}

/// Returns the kernel's name of a class's queue on the mesh side.
fn queue(g: &Bench, class: u16) -> String {
    let all = g.path.gateway.sh("tc qdisc show dev mesh0");
    let parent = format!(":{class:x}");
    let mut kinds = all.lines().filter_map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let at = words.iter().position(|w| *w == "parent")?;
        words[at + 1].ends_with(&parent).then(|| words[1].to_owned())
    });
    kinds.next().unwrap_or_else(|| panic!("no queue of {class}: {all}"))
}

/// Sends numbered datagrams to a class.
fn numbered(socket: &UdpSocket, class: u16, numbers: std::ops::Range<u64>) {
    for i in numbers {
        let mut packet = [0; 600];
        packet[..8].copy_from_slice(&i.to_be_bytes());
        socket.send_to(&packet, v4(class, 7000)).unwrap();
    }
}

/// Sends a datagram in each direction for each class; returns the counted packets.
fn exchange(g: &mut Bench, classes: &[u16]) -> Vec<[u64; 2]> {
    let host = g.path.wired.udp(HOST);
    for class in classes {
        // The socket is created first, so that no ICMP error is sent.
        let home = g.path.mesh.udp(v4(*class, 5000));
        blast(&host, v4(*class, 5000), 200, 1);
        blast(&home, HOST.parse().unwrap(), 200, 1);
        home.recv(&mut [0; 300]).unwrap();
    }
    settle();
    let counters = g.sample();
    classes.iter().map(|c| Direction::BOTH.map(|d| of(&counters, *c, d).packets)).collect()
}

/// For each new class the kernel walks all of its tree (`tc_bind_tclass`).
///
/// Those are 50 million steps per side with ten thousand classes in one tree.
#[test]
fn classes_by_the_thousand_walk_few_others() {
    if !root("classes_by_the_thousand_walk_few_others") {
        return;
    }
    let numbers: Vec<u16> = (1..).filter(|n| ClassId(*n).is_swift()).take(10_000).collect();
    let (path, mut plane) = (Path::new(), None);
    plane.replace(path.plane());
    let layout = path.layout(numbers.iter().copied().map(subscriber).collect());
    let l = layout.clone();
    let start = Instant::now();
    let installed = path.call(&mut plane, move |p| p.install(&l).unwrap());
    let took = start.elapsed().as_secs_f64();
    println!("10,000 subscribers installed in {took:.2} s");
    // In the virtual machine a second is a billion instructions, however busy the computer is.
    assert!(std::env::var_os("FAIRMESH_VM").is_none() || took < 5.0, "{took}");
    let mut g = Bench::of(path, plane, layout, installed);
    let made = trees(&g);
    let walked: usize = made.values().map(|n| n * (n - 1) / 2).sum();
    println!("{walked} steps in {} trees", made.len());
    // The root's tree has the first 1,023, three of our own, the aggregate class, and one for each
    // group.
    let groups: BTreeMap<_, usize> = numbers.iter().fold(BTreeMap::new(), |mut all, n| {
        *all.entry(ClassId(*n).group()).or_default() += 1;
        all
    });
    assert_eq!(made.len(), groups.len(), "{made:?}");
    assert_eq!(made["fa1"], 1023 + 3 + groups.len() - 1);
    assert!(groups.len() == 11 && made.values().all(|n| *n <= 1040), "{made:?}");
    assert!(walked < 5_300_000, "{walked}");
    let some = [1, 1023, 1024, 5000, numbers[9999]];
    assert_eq!(exchange(&mut g, &some), [[1, 1]; 5]);
    // The next process takes over everything.
    g.another();
    let layout = g.layout.clone();
    let start = Instant::now();
    let installed = g.call(move |p| p.install(&layout).unwrap());
    println!("taken over: {:.2} s", start.elapsed().as_secs_f64());
    assert!(installed.adopted && installed.replaced.is_empty() && installed.swept == 0);
    assert_eq!(exchange(&mut g, &some), [[2, 2]; 5]);
    assert_eq!(trees(&g), made);
    let queues = g.path.gateway.sh("tc qdisc show dev mesh0");
    let of_kind = |kind: &str| queues.lines().filter(|l| l.starts_with(kind)).count();
    if installed.leaf == LeafKind::FqCodel {
        // Unmapped traffic, and subscribers with traffic.
        assert_eq!(of_kind("qdisc fq_codel "), 1 + 5);
        assert_eq!(of_kind("qdisc tbf "), 10_000 - 5);
    }
    let layout = g.layout.clone();
    g.call(move |p| p.remove(&layout).unwrap());
    assert!(!g.path.gateway.sh("tc qdisc show").contains("htb"));
}

/// New subscribers of a group are found by every classifier.
///
/// Traffic of others is not affected.
#[test]
fn new_subscribers_find_their_group() {
    if !root("new_subscribers_find_their_group") {
        return;
    }
    let mut g = Bench::new(vec![subscriber(1)]);
    assert_eq!(g.installed.classifier, [Classifier::Priority; 2]);
    assert_eq!(exchange(&mut g, &[1]), [[1, 1]]);
    let mut layout = g.layout.clone();
    layout.subscribers = EDGES.map(subscriber).to_vec();
    g.layout = layout.clone();
    g.call(move |p| p.relayout(&layout).unwrap());
    let mut seen: Vec<[u64; 2]> = EDGES.map(|c| [u64::from(c == 1); 2]).to_vec();
    let mut more = |g: &mut Bench| {
        seen.iter_mut().flatten().for_each(|n| *n += 1);
        assert_eq!(exchange(g, &EDGES), seen);
    };
    more(&mut g);
    let there = g.call(|p| p.probe().unwrap()).classifiers;
    let mut ways = 0;
    for classifier in there {
        let used = g.call(move |p| {
            Direction::BOTH.map(|direction| p.use_classifier(direction, classifier).is_ok())
        });
        ways += usize::from(used == [true; 2]);
        if used == [true; 2] {
            more(&mut g);
        } else {
            // A classifier that finds no group is refused by name, and nothing changes.
            assert_ne!(classifier, Classifier::MarkBpf);
            more(&mut g);
        }
    }
    assert!(ways >= 1);
    if std::env::var_os("FAIRMESH_VM").is_some() {
        assert_eq!(ways, 2, "a distribution's kernel finds groups by priorities as well");
    }
    // A new process finds all of them, and tests its classifiers in one of them.
    g.another();
    let layout = g.layout.clone();
    let installed = g.call(move |p| p.install(&layout).unwrap());
    assert!(installed.adopted && installed.replaced.is_empty() && installed.swept == 0);
    more(&mut g);
    // All subscribers in groups leave, and so do their classes.
    let mut layout = g.layout.clone();
    layout.subscribers = vec![subscriber(1)];
    g.call(move |p| p.relayout(&layout).unwrap());
    g.sample();
    assert!(g.sample().len() == 2 && trees(&g).len() == 1, "{:?}", trees(&g));
}

/// Classes of unmapped traffic, and of Ethernet addresses, may be in a group.
#[test]
fn unmapped_traffic_can_be_in_a_group() {
    if !root("unmapped_traffic_can_be_in_a_group") {
        return;
    }
    let path = Path::new();
    let mac = path.mesh.sh("cat /sys/class/net/up0/address");
    let mut known = Subscriber::new(3000, [net("10.2.0.9/32")]);
    known.macs.push(mac.trim().parse().unwrap());
    let unmapped = Subscriber::new(2000, []);
    let mut g = Bench::on(path, vec![subscriber(4), known, unmapped], |l| {
        l.unmapped = Some(ClassId(2000));
    });
    // By its prefix, by its Ethernet address, and an unknown address of the wired side.
    let host = g.path.wired.udp(HOST);
    blast(&host, v4(4, 9), 64, 2);
    blast(&host, v4(77, 9), 64, 3);
    g.path.mesh.sh("ip link set up0 address 02:00:00:00:07:07");
    g.path.mesh.sh("ip route replace default via 10.1.0.1");
    blast(&g.path.mesh.udp(v4(78, 9)), HOST.parse().unwrap(), 64, 4);
    settle();
    let mut counters = g.sample();
    // On a busy machine addresses of the next hop are resolved late.
    for _ in 0..100 {
        let packets = |class, direction| of(&counters, class, direction).packets;
        if packets(4, Direction::Down) >= 2
            && packets(3000, Direction::Down) >= 3
            && packets(2000, Direction::Up) >= 4
        {
            break;
        }
        settle();
        counters = g.sample();
    }
    let packets = |class, direction| of(&counters, class, direction).packets;
    assert_eq!(packets(4, Direction::Down), 2);
    assert_eq!(packets(3000, Direction::Down), 3);
    assert_eq!(packets(2000, Direction::Up), 4);
}

/// Packets that wait in a group survive a take-over and the removal of their class.
#[test]
fn waiting_packets_of_a_group_are_kept() {
    if !root("waiting_packets_of_a_group_are_kept") {
        return;
    }
    let mut g = Bench::on(Path::new(), EDGES.map(subscriber).to_vec(), |l| l.queue = 10_000);
    let sink = traffic::receive(g.path.mesh.udp(v4(2047, 7000)));
    let slow = |class| change(class, Direction::Down, Some(10_000));
    let source = g.path.wired.udp(HOST);
    let send = |from: u64| numbered(&source, 2047, from..from + 100);
    let wait = |g: &mut Bench| {
        while of(&g.sample(), 2047, Direction::Down).backlog_packets < 50 {
            settle();
        }
    };
    g.set(vec![slow(2047)]);
    send(0);
    wait(&mut g);
    // It knows four of the seven, not this one.
    let mut layout = g.layout.clone();
    layout.subscribers.retain(|s| ![2047, 2048, 40_000].contains(&s.class.0));
    g.another();
    let l = layout.clone();
    let installed = g.call(move |p| p.install(&l).unwrap());
    assert!(installed.adopted && installed.replaced.is_empty() && installed.swept == 6);
    traffic::drained(&sink.progress, 100);
    g.sample();
    assert_eq!(g.sample().len(), 8, "empty classes of removed subscribers are deleted");
    // It returns, and then everything is removed.
    let l = g.layout.clone();
    g.call(move |p| p.relayout(&l).unwrap());
    g.set(vec![slow(2047)]);
    send(100);
    wait(&mut g);
    g.call(move |p| p.remove(&layout).unwrap());
    traffic::drained(&sink.progress, 200);
    assert_eq!(sink.stop().len(), 200);
}

/// With groups, a class begins with a FIFO and gets its own queue after traffic.
///
/// The change follows the first sample with traffic, with any number of waiting packets.
///
/// Limits are in force again afterwards, and no datagram is lost.
#[test]
fn among_thousands_a_queue_comes_with_traffic() {
    if !root("among_thousands_a_queue_comes_with_traffic") {
        return;
    }
    let mut g = Bench::on(Path::new(), EDGES.map(subscriber).to_vec(), |l| l.queue = 10_000);
    let own = g.installed.leaf.name();
    if g.installed.leaf == LeafKind::Bfifo {
        assert!(std::env::var_os("FAIRMESH_VM").is_none(), "a distribution's kernel has fq_codel");
        println!("this kernel has FIFOs only");
        return;
    }
    let kinds = |g: &Bench| EDGES.map(|class| queue(g, class) == own);
    assert_eq!(kinds(&g), [false; 7]);
    g.sample();
    assert_eq!(kinds(&g), [false; 7], "no traffic yet");
    // One that is empty at the sample, one with many waiting packets, one with a debt that lasts longer than
    // limits are lifted: a second for each packet.
    let limits = [(1024, 1_000_000), (2047, 1_000_000), (2048, 5_000)];
    g.set(limits.map(|(class, bits)| change(class, Direction::Down, Some(bits))).to_vec());
    let host = g.path.wired.udp(HOST);
    let sinks = [1024, 2047, 2048].map(|c| (c, traffic::receive(g.path.mesh.udp(v4(c, 7000)))));
    numbered(&host, 1024, 0..1);
    settle();
    numbered(&host, 2047, 0..100);
    numbered(&host, 2048, 0..20);
    drop(host);
    let waiting = of(&g.sample(), 2047, Direction::Down).backlog_packets;
    assert!(waiting > 20, "{waiting}");
    let seen = [1024, 2047];
    assert_eq!(kinds(&g), EDGES.map(|class| seen.contains(&class)));
    for round in 0.. {
        assert!(round < 100, "2048 has no queue of its own");
        g.sample();
        if queue(&g, 2048) == own {
            break;
        }
        settle();
    }
    for ((class, sink), all) in sinks.into_iter().zip([1, 100, 20]) {
        traffic::drained(&sink.progress, all);
        assert_eq!(sink.stop().len() as u64, all, "{class}");
    }
    let classes = g.path.gateway.sh("tc class show dev mesh0");
    for (class, bits) in limits {
        let name = format!(":{class:x} ");
        let line = classes.lines().find(|l| l.contains(&name)).unwrap();
        let rate = if bits == 5_000 { "rate 5Kbit" } else { "rate 1Mbit" };
        assert!(line.contains(rate), "{line}");
    }
    // The next process finds them unchanged.
    let before = kinds(&g);
    g.another();
    let layout = g.layout.clone();
    let installed = g.call(move |p| p.install(&layout).unwrap());
    assert!(installed.adopted && installed.leaf.name() == own);
    assert_eq!(kinds(&g), before);
    assert!(exchange(&mut g, &EDGES).iter().all(|n| n[1] == 1));
    g.sample();
    assert_eq!(kinds(&g), [true; 7], "each was seen with traffic");
}

/// Queues that are created later pass frames of the present MTU.
#[test]
fn a_larger_mtu_before_thousands_is_known_to_their_queues() {
    if !root("a_larger_mtu_before_thousands") {
        return;
    }
    let mut g = Bench::new(vec![subscriber(1)]);
    if g.installed.leaf == LeafKind::Bfifo {
        println!("this kernel has FIFOs only: they are changed in place");
        return;
    }
    for interface in ["mesh0", "wan0"] {
        g.path.gateway.sh(&format!("ip link set {interface} mtu 4000"));
    }
    g.call(|p| p.renew().unwrap());
    let mut layout = g.layout.clone();
    layout.subscribers = EDGES.map(subscriber).to_vec();
    g.call(move |p| {
        p.relayout(&layout).unwrap();
        // Neither after a lost frame nor as a lost interface.
        p.renew().unwrap();
    });
    g.path.mesh.sh("ip link set up0 mtu 4000");
    g.path.wired.sh("ip link set eth0 mtu 4000");
    let sink = g.path.mesh.udp(v4(2047, 5000));
    blast(&g.path.wired.udp(HOST), v4(2047, 5000), 3000, 1);
    assert_eq!(sink.recv(&mut [0; 4000]).unwrap(), 3000);
}

/// A subscriber that returns before its class was empty finds its packets.
///
/// This holds with and without groups.
#[test]
fn a_returning_subscriber_loses_nothing() {
    if !root("a_returning_subscriber_loses_nothing") {
        return;
    }
    for both in [[1, 2], [1, 2047]] {
        let all = both.map(subscriber).to_vec();
        let mut g = Bench::on(Path::new(), all, |l| l.queue = 10_000);
        let sinks = both.map(|class| traffic::receive(g.path.mesh.udp(v4(class, 7000))));
        g.set(both.map(|class| change(class, Direction::Down, Some(10_000))).to_vec());
        let host = g.path.wired.udp(HOST);
        for class in both {
            numbered(&host, class, 0..20);
        }
        let all = g.layout.clone();
        let without = Layout { subscribers: Vec::new(), ..all.clone() };
        // Each has a debt of half a second.
        g.call(move |p| {
            p.relayout(&without).unwrap();
            p.relayout(&all).unwrap();
        });
        for sink in sinks {
            traffic::drained(&sink.progress, 20);
            assert_eq!(sink.stop().len(), 20);
        }
    }
}

/// A tree without groups is created again once, with a note.
///
/// It is of an earlier version, or of a kernel that could not find groups.
#[test]
fn a_tree_without_groups_is_created_again_once() {
    if !root("a_tree_without_groups_is_created_again_once") {
        return;
    }
    let mut g = Bench::new([1, 2000].map(subscriber).to_vec());
    g.path.gateway.sh("tc class add dev mesh0 parent fa1:fffe classid fa1:7d1 htb rate 1mbit");
    for created_again in [true, false] {
        g.another();
        let layout = g.layout.clone();
        let installed = g.call(move |p| p.install(&layout).unwrap());
        let logged = |side: &str| {
            let note = format!("{side}: created again");
            installed.notes.iter().any(|n| n.starts_with(&note))
        };
        assert!(
            installed.adopted && logged("mesh0") == created_again && !logged("wan0"),
            "{installed:?}"
        );
    }
    assert_eq!(exchange(&mut g, &[1, 2000]), [[1, 1], [1, 1]]);
}

/// Another program deletes a group's tree.
///
/// The next sample reports it, and the next installation restores it.
#[test]
fn a_deleted_group_is_reported() {
    if !root("a_deleted_group_is_reported") {
        return;
    }
    let mut g = Bench::new(EDGES.map(subscriber).to_vec());
    g.path.gateway.sh("tc qdisc del dev mesh0 parent fa1:fa05 handle fa05:");
    let error = g.call(|p| p.sample(&mut Vec::new()).unwrap_err());
    assert!(error.is_interface_lost(), "{error}");
    let layout = g.layout.clone();
    let installed = g.call(move |p| p.install(&layout).unwrap());
    assert!(installed.adopted && installed.replaced.is_empty());
    assert_eq!(exchange(&mut g, &EDGES), [[1, 1]; 7]);
}
