//! Limits between real network stacks: they hold, are shared, and change without packet loss.

#![allow(clippy::disallowed_methods)] // what runs in real time must wait

mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use common::traffic::{drained, pace, receive};
use common::*;
use fairmesh_linux::*;
use nix::sys::socket::{setsockopt, sockopt};

fn host() -> SocketAddr {
    HOST.parse().unwrap()
}

/// Returns lower and upper bounds of classes' rates over `seconds`, bit/s.
///
/// The counters give them; the reader may be delayed.
fn rates(g: &mut Bench, classes: &[u16], direction: Direction, seconds: u64) -> Vec<[f64; 2]> {
    let read = |g: &mut Bench| {
        let before = Instant::now();
        let counters = g.sample();
        let bytes: Vec<u64> = classes.iter().map(|c| of(&counters, *c, direction).bytes).collect();
        (bytes, before, Instant::now())
    };
    let (first, from, since) = read(g);
    thread::sleep(Duration::from_secs(seconds));
    let (last, until, to) = read(g);
    let rate = |(b, a): (&u64, &u64)| {
        [to - from, until - since].map(|t| (a - b) as f64 * 8.0 / t.as_secs_f64())
    };
    first.iter().zip(&last).map(rate).collect()
}

/// Checks that classes downstream send at the expected rates.
///
/// A machine that is stopped costs a class its turns and a sender its time, so too little fails
/// only if it lasts; more than 2 % above the sum fails at once.
fn hold(g: &mut Bench, classes: &[u16], seconds: u64, want: &[f64], tolerance: f64) {
    let all = want.iter().sum::<f64>();
    let mut got = Vec::new();
    // With groups, the first sample once releases the waiting packets, up to 100 here, and gives
    // classes their queues.
    g.sample();
    thread::sleep(Duration::from_millis(200));
    for _ in 0..10 {
        got = rates(g, classes, Direction::Down, seconds);
        let sum = |at: usize| got.iter().map(|g| g[at]).sum::<f64>();
        assert!(sum(0) <= 1.02 * all, "{got:?}, want {want:?}");
        let near = |([least, most], want): (&[f64; 2], &f64)| {
            *least <= want * (1.0 + tolerance) && *most >= want * (1.0 - tolerance)
        };
        if sum(1) >= 0.98 * all && got.iter().zip(want).all(near) {
            return;
        }
    }
    panic!("{got:?}, want {want:?}");
}

/// Numbers of four subscribers: all in one tree, and in four places, two in one group.
const PLACES: [[u16; 4]; 2] = [[1, 2, 3, 4], [1, 2000, 40_000, 2001]];

#[test]
fn limits_hold_and_change_in_place() {
    if !root("limits_hold_and_change_in_place") {
        return;
    }
    for [a, b, c, d] in PLACES {
        let mut g = Bench::new([a, b, c, d].map(subscriber).to_vec());
        let down = |class, bits| change(class, Direction::Down, bits);
        g.set(vec![down(a, Some(500_000)), down(b, Some(1_000_000)), down(c, Some(2_000_000))]);
        let socket = g.path.wired.udp(host());
        let flood = pace(socket, [a, b, c, d].map(|c| v4(c, 9)).to_vec(), 1000, 300);
        thread::sleep(Duration::from_millis(500));
        hold(&mut g, &[a, b, c], 3, &[500e3, 1e6, 2e6], 0.02);
        g.set(vec![down(a, Some(1_500_000)), down(b, Some(250_000)), down(c, None)]);
        thread::sleep(Duration::from_millis(500));
        hold(&mut g, &[a, b], 3, &[1.5e6, 250e3], 0.02);
        let waiting = of(&g.sample(), c, Direction::Down);
        assert_eq!(waiting.backlog_packets, 0, "unlimited");
        flood.stop();
    }
}

/// A full queue delays a packet for at most the configured time.
///
/// It holds five packets at low limits.
#[test]
fn a_full_queue_is_as_long_as_its_limit_allows() {
    if !root("a_full_queue_is_as_long_as_its_limit_allows") {
        return;
    }
    let mut g = Bench::on(Path::new(), (1..=3).map(subscriber).collect(), |l| {
        l.leaf = LeafChoice::Only(LeafKind::Pfifo);
        l.delay_ms = 100;
    });
    let down = |class, bits| change(class, Direction::Down, Some(bits));
    g.set(vec![down(1, 300_000), down(2, 2_000_000), down(3, 100_000_000)]);
    let flood = pace(g.path.wired.udp(host()), [1, 2, 3].map(|c| v4(c, 9)).to_vec(), 1400, 2000);
    thread::sleep(Duration::from_secs(1));
    // A flood that is delayed by the machine sometimes leaves room for a packet.
    let fill = |g: &mut Bench, most: [u32; 2]| {
        let end = Instant::now() + Duration::from_secs(60);
        let mut longest = [0; 2];
        while longest != most {
            assert!(Instant::now() < end, "{longest:?} instead of {most:?}");
            let counters = g.sample();
            let waiting = [1, 2].map(|c| of(&counters, c, Direction::Down).backlog_packets);
            longest = [0, 1].map(|i| longest[i].max(waiting[i]));
            assert!(longest[0] <= most[0] && longest[1] <= most[1], "{longest:?}");
        }
    };
    // 2 Mbit/s are 16.5 packets of 1514 bytes in 100 ms.
    fill(&mut g, [5, 16]);
    let shown = g.path.gateway.sh("tc qdisc show dev mesh0");
    assert!(
        shown.contains("limit 5p") && shown.contains("limit 16p") && shown.contains("limit 100p"),
        "{shown}"
    );
    // In place: waiting packets stay, and a longer queue fills.
    g.set(vec![down(1, 2_000_000), down(2, 300_000)]);
    thread::sleep(Duration::from_secs(1));
    fill(&mut g, [16, 5]);
    flood.stop();
}

/// Packets of several frames, as of TCP and offloads, are split in the queue.
///
/// None is refused for its size.
///
/// The queue holds as many bytes as its limit requires, to the frame.
#[test]
fn a_queue_of_bytes_takes_large_packets_apart() {
    if !root("a_queue_of_bytes_takes_large_packets_apart") {
        return;
    }
    let mut g = Bench::on(Path::new(), (1..=2).map(subscriber).collect(), |l| {
        l.leaf = LeafChoice::Only(LeafKind::Bfifo);
        l.delay_ms = 100;
    });
    g.set(vec![change(1, Direction::Down, Some(300_000))]);
    // UDP's segmentation (udp(7), UDP_SEGMENT): one packet of ten frames, more than the 7570 bytes that fit.
    let source = g.path.wired.udp(host());
    setsockopt(&source, sockopt::UdpGsoSegment, &1400).unwrap();
    source.send_to(&[0; 14_000], v4(1, 9)).unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    let mut it = of(&g.sample(), 1, Direction::Down);
    while it.packets < 5 {
        assert!(Instant::now() < end, "{it:?}");
        it = of(&g.sample(), 1, Direction::Down);
    }
    // As many as fit, each with its own headers.
    let frame = 1400 + 28 + 14;
    assert_eq!((it.packets, it.bytes, it.backlog_bytes), (5, 5 * frame, 0), "{it:?}");
    // Larger frames than before: the leaf grows in place, and they pass.
    g.path.gateway.sh("ip link set mesh0 mtu 9000");
    g.path.mesh.sh("ip link set up0 mtu 9000");
    g.call(|p| p.renew().unwrap());
    let from = g.path.gateway.udp("10.1.0.1:0");
    let sink = g.path.mesh.udp(v4(2, 7000));
    sink.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    from.send_to(&[0; 8000], v4(2, 7000)).unwrap();
    assert_eq!(sink.recv(&mut [0; 9000]).unwrap(), 8000);
}

/// An aggregate limit sizes the queues below it, including those of new subscribers.
#[test]
fn a_shared_limit_sizes_the_queues_under_it() {
    if !root("a_shared_limit_sizes_the_queues_under_it") {
        return;
    }
    let mut g = Bench::on(Path::new(), (1..=2).map(subscriber).collect(), |l| {
        l.leaf = LeafChoice::Only(LeafKind::Pfifo);
        l.delay_ms = 100;
    });
    let limit = |g: &Bench, class: u16| {
        let shown = g.path.gateway.sh("tc qdisc show dev mesh0");
        let of_it = format!("parent fa1:{class} ");
        let line = shown.lines().find(|l| l.contains(&of_it)).unwrap_or_else(|| panic!("{shown}"));
        line.split_whitespace().last().unwrap().to_owned()
    };
    let down = |class, bits| change(class, Direction::Down, bits);
    g.set(vec![down(0, Some(2_000_000)), down(2, Some(300_000))]);
    assert_eq!([limit(&g, 1), limit(&g, 2)], ["16p", "5p"], "the lower of two counts");
    let mut layout = g.layout.clone();
    layout.subscribers.push(subscriber(3));
    g.layout = layout.clone();
    g.call(move |p| p.relayout(&layout).unwrap());
    assert_eq!(limit(&g, 3), "16p");
    g.set(vec![down(0, None)]);
    assert_eq!([limit(&g, 1), limit(&g, 2), limit(&g, 3)], ["100p", "5p", "100p"]);
}

/// Quanta are those of the subscribers, also in a group.
///
/// A group has the sum of its waiting members.
#[test]
fn an_aggregate_is_shared_by_weight() {
    if !root("an_aggregate_is_shared_by_weight") {
        return;
    }
    for [a, b, c, d] in PLACES {
        let mut subscribers = [a, b, c, d].map(subscriber).to_vec();
        subscribers[2].turn = 3 * Subscriber::QUANTUM;
        let mut g = Bench::new(subscribers);
        // The last one has its own limit below its share.
        g.set(vec![
            change(0, Direction::Down, Some(3_000_000)),
            change(d, Direction::Down, Some(500_000)),
        ]);
        let socket = g.path.wired.udp(host());
        let flood = pace(socket, [a, b, c, d].map(|c| v4(c, 9)).to_vec(), 1000, 400);
        // Until the first packets, sent from own tokens, no longer matter.
        thread::sleep(Duration::from_secs(1));
        hold(&mut g, &[a, b, c, d], 4, &[500e3, 500e3, 1.5e6, 500e3], 0.05);
        // All four by weight, with or without a common group.
        g.set(vec![change(d, Direction::Down, None)]);
        thread::sleep(Duration::from_secs(1));
        hold(&mut g, &[a, b, c, d], 4, &[500e3, 500e3, 1.5e6, 500e3], 0.05);
        g.set(vec![change(0, Direction::Down, None), change(d, Direction::Down, Some(500_000))]);
        // A class waits until its debt at the old rate is paid: some packets at 3 Mbit/s.
        thread::sleep(Duration::from_secs(1));
        hold(&mut g, &[d], 2, &[500e3], 0.02);
        // It no longer waits for others.
        assert_eq!(of(&g.sample(), c, Direction::Down).backlog_packets, 0);
        flood.stop();
    }
}

/// 100,000 changes of classes with traffic: every sequence number arrives.
///
/// `FAIRMESH_CHANGES` sets the number of changes.
///
/// Datagrams and a TCP connection run from before the first change.
#[test]
fn a_hundred_thousand_changes_lose_nothing() {
    if !root("a_hundred_thousand_changes_lose_nothing") {
        return;
    }
    let changes: usize = std::env::var("FAIRMESH_CHANGES").map_or(100_000, |n| n.parse().unwrap());
    // Datagrams to a class in a group, TCP to one in none.
    let classes = [2000, 2, 3, 4, 2001, 2002, 40_000, 40_001];
    let mut g = Bench::on(Path::new(), classes.map(subscriber).to_vec(), |l| l.queue = 10_000);
    let sink = receive(g.path.mesh.udp(v4(2000, 7000)));
    let source = pace(g.path.wired.udp(host()), vec![v4(2000, 7000)], 500, 2000);
    let listener = g.path.mesh.within(|| TcpListener::bind(v4(2, 7001)).unwrap());
    let received = thread::spawn(move || {
        let mut bytes = Vec::new();
        listener.accept().unwrap().0.read_to_end(&mut bytes).unwrap();
        bytes
    });
    let mut connection = g.path.wired.within(|| TcpStream::connect(v4(2, 7001)).unwrap());
    let stream = common::traffic::Running::start(Vec::new(), move |sent: &mut Vec<u8>, _| {
        let block: Vec<u8> = (0..1000).map(|i| (sent.len() / 1000 + i) as u8).collect();
        connection.write_all(&block).unwrap();
        sent.extend(block);
        thread::sleep(Duration::from_micros(500));
    });
    // Above and below the offered load (8.7 and 16 Mbit/s), so that queues fill and empty.
    let mut made = 0;
    let mut waited = 0;
    while made < changes {
        let tight = (made / 1000).is_multiple_of(2);
        let batch: Vec<RateChange> = (0..1000)
            .map(|n| {
                let base = if tight { 4_000_000 } else { 60_000_000 };
                let direction = if n % 3 == 0 { Direction::Up } else { Direction::Down };
                change(classes[n % 8], direction, Some(base + (made + n) as u64))
            })
            .collect();
        g.set(batch);
        made += 1000;
        thread::sleep(Duration::from_millis(20));
        waited += u64::from(of(&g.sample(), 2000, Direction::Down).backlog_packets > 0);
    }
    g.call(|p| p.release().unwrap());
    let sent = source.stop();
    let written = stream.stop();
    drained(&sink.progress, sent);
    let seen = sink.stop();
    assert_eq!(seen.len() as u64, sent, "datagrams lost among {sent}");
    assert!(received.join().unwrap() == written, "TCP carried {} bytes intact", written.len());
    assert!(waited >= 10, "classes were never under load ({waited})");
    let drops: u64 = g.sample().iter().map(|c| c.drops).sum();
    assert_eq!(drops, 0);
    eprintln!("{made} changes, {sent} datagrams, {} bytes of TCP, nothing lost", written.len());
}

/// Added, removed and changed subscribers cost no packet of the others.
///
/// The others stay, or move between classes.
#[test]
fn relayouts_under_load_lose_nothing() {
    if !root("relayouts_under_load_lose_nothing") {
        return;
    }
    let mut g = Bench::on(Path::new(), (1..=50).map(subscriber).collect(), |l| l.queue = 10_000);
    let sinks = [1, 2].map(|c| receive(g.path.mesh.udp(v4(c, 7000))));
    g.set((1..=50).map(|c| change(c, Direction::Down, Some(8_000_000))).collect());
    let source = pace(g.path.wired.udp(host()), vec![v4(1, 7000), v4(2, 7000)], 500, 1500);
    let mut total = RelayoutResult::default();
    for round in 0..50u16 {
        let mut layout = g.layout.clone();
        // One stays; the address of another moves to another class each time; others are added and
        // removed, with prefixes of another length every round.
        let mut people = vec![subscriber(1)];
        let moved = if round % 2 == 0 { 100 + round } else { 3000 + 300 * round };
        people.push(Subscriber::new(moved, [net("10.2.0.2/32"), net("fd02::2/128")]));
        people.extend((200..220).map(|c| subscriber(c + round * 7)));
        people.push(Subscriber::new(60, [net(&format!("10.99.0.0/{}", 16 + round % 8))]));
        people[0].turn = Subscriber::QUANTUM * (1 + u32::from(round % 5));
        layout.subscribers = people;
        g.layout = layout.clone();
        let relaid = g.call(move |p| p.relayout(&layout).unwrap());
        total.added += relaid.added;
        total.removed += relaid.removed;
        total.changed += relaid.changed;
        g.set(vec![change(moved, Direction::Down, Some(5_000_000 + u64::from(round)))]);
        thread::sleep(Duration::from_millis(20));
        g.sample(); // deletes empty classes
    }
    g.call(|p| p.release().unwrap());
    let sent = source.stop();
    for sink in sinks {
        drained(&sink.progress, sent);
        assert_eq!(sink.stop().len() as u64, sent, "datagrams lost among {sent}");
    }
    assert!(total.added > 300 && total.removed > 300 && total.changed >= 90, "{total:?}");
    g.sample();
    let shown = g.path.gateway.sh("tc class show dev mesh0");
    // Three more of our own, and one for each group.
    let left = shown.lines().filter(|l| l.starts_with("class htb ")).count();
    let groups = shown
        .lines()
        .filter(|l| l.starts_with("class htb fa1:f") && l.contains("fa1:fffe"))
        .count()
        - 1;
    assert!(groups > 10, "{shown}");
    assert_eq!(
        left - 3 - groups,
        g.layout.subscribers.len(),
        "classes of removed subscribers are deleted: {shown}"
    );
}

/// A removal first drains the waiting packets.
#[test]
fn a_class_is_removed_after_its_waiting_packets() {
    if !root("a_class_is_removed_after_its_waiting_packets") {
        return;
    }
    let mut g = Bench::on(Path::new(), (1..=4).map(subscriber).collect(), |l| l.queue = 10_000);
    let sink = receive(g.path.mesh.udp(v4(1, 7000)));
    // 200 packets; the limit passes two a second.
    g.set(vec![change(1, Direction::Down, Some(10_000))]);
    let source = g.path.wired.udp(host());
    for i in 0..200_u64 {
        let mut packet = [0; 600];
        packet[..8].copy_from_slice(&i.to_be_bytes());
        source.send_to(&packet, v4(1, 7000)).unwrap();
    }
    let end = Instant::now() + Duration::from_secs(60);
    while of(&g.sample(), 1, Direction::Down).backlog_packets < 150 {
        assert!(Instant::now() < end, "{:?}", of(&g.sample(), 1, Direction::Down));
    }
    let layout = g.layout.clone();
    g.call(move |p| p.remove(&layout).unwrap());
    drained(&sink.progress, 200);
    assert_eq!(sink.stop().len(), 200);
}

#[test]
fn changes_that_need_a_restart_are_refused() {
    if !root("changes_that_need_a_restart_are_refused") {
        return;
    }
    let mut g = Bench::new(vec![subscriber(1)]);
    let before =
        (g.path.gateway.sh("tc class show dev mesh0"), g.path.gateway.sh("nft -s list ruleset"));
    let mut layouts = [(); 4].map(|()| g.layout.clone());
    layouts[0].queue = 50;
    layouts[1].table = "other".into();
    layouts[2].mesh = Interface::new("lo").unwrap();
    layouts[3].subscribers.push(subscriber(1));
    for layout in layouts {
        let error = g.call(move |p| p.relayout(&layout).unwrap_err());
        assert!(matches!(error, Error::Layout(_)), "{error}");
    }
    let after =
        (g.path.gateway.sh("tc class show dev mesh0"), g.path.gateway.sh("nft -s list ruleset"));
    assert_eq!(before, after);
}
