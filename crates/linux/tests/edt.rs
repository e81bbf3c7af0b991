//! Departure times between real network stacks: limits, counters, failures and removal.
//!
//! They need `fq`, which a distribution's kernel has.

#![allow(clippy::disallowed_methods)] // what runs in real time must wait

mod common;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use common::traffic::{drained, pace, receive};
use common::*;
use fairmesh_linux::*;

type Edt = Bench<EdtShaper>;

/// Returns true if this kernel has what the tests need; in the virtual machine it must.
fn able(test: &str) -> bool {
    if !root(test) {
        return false;
    }
    let works = EdtShaper::works();
    if !works {
        assert!(std::env::var_os("FAIRMESH_VM").is_none(), "Debian's kernel has fq");
        let _ = writeln!(io::stderr(), "SKIPPED {test}: this kernel lacks fq or BPF");
    }
    works
}

/// Installs departure times for the first subscribers.
fn bench(homes: u16) -> Edt {
    Bench::with(Path::new(), (1..=homes).map(subscriber).collect(), |l| l.delay_ms = 100)
}

fn host() -> SocketAddr {
    HOST.parse().unwrap()
}

fn down(class: u16, bits: u64) -> RateChange {
    change(class, Direction::Down, Some(bits))
}

/// Returns the rates of classes downstream over some seconds, bit/s.
fn rates(g: &mut Edt, classes: &[u16], seconds: u64) -> Vec<f64> {
    let read = |g: &mut Edt| {
        let counters = g.sample();
        let bytes = classes.iter().map(|c| of(&counters, *c, Direction::Down).bytes);
        (bytes.collect::<Vec<_>>(), Instant::now())
    };
    let (first, from) = read(g);
    thread::sleep(Duration::from_secs(seconds));
    let (last, to) = read(g);
    let seconds = (to - from).as_secs_f64();
    first.iter().zip(&last).map(|(a, b)| (b - a) as f64 * 8.0 / seconds).collect()
}

fn near(got: f64, want: f64, tolerance: f64) -> bool {
    (got - want).abs() <= want * tolerance
}

/// Promised in the specification: a home gets its limit, whatever other homes do.
#[test]
fn a_home_gets_its_limit_and_no_other_home_changes_it() {
    if !able("a_home_gets_its_limit_and_no_other_home_changes_it") {
        return;
    }
    let mut g = bench(4);
    g.set(vec![down(1, 500_000), down(2, 2_000_000), down(3, 8_000_000)]);
    let receiver = receive(g.path.mesh.udp(v4(2, 9)));
    let homes = [1, 2, 3, 4].map(|c| v4(c, 9)).to_vec();
    let flood = pace(g.path.wired.udp(host()), homes, 1000, 1500);
    thread::sleep(Duration::from_secs(1));
    let before = receiver.progress.load(std::sync::atomic::Ordering::Relaxed);
    let start = Instant::now();
    let got = rates(&mut g, &[1, 2, 3, 4], 4);
    let arrived = receiver.progress.load(std::sync::atomic::Ordering::Relaxed) - before;
    let arrived = arrived as f64 * 1042.0 * 8.0 / start.elapsed().as_secs_f64();
    println!("{got:.0?} bit/s, arrived at the second home {arrived:.0}");
    for (got, want) in got.iter().zip([500e3, 2e6, 8e6]) {
        assert!(near(*got, want, 0.06), "{got} instead of {want}");
    }
    assert!(near(arrived, 2e6, 0.06), "the counters are those of packets that leave: {arrived}");
    // Three full queues beside it delay and drop nothing of a home without a limit.
    let open = of(&g.sample(), 4, Direction::Down);
    assert_eq!((open.drops, open.overlimits, open.backlog_packets), (0, 0, 0));
    assert!(near(got[3], 1500.0 * 1042.0 * 8.0, 0.06), "{}", got[3]);
    // Changes in place, upwards and downwards.
    g.set(vec![down(1, 1_500_000), down(2, 250_000), change(3, Direction::Down, None)]);
    thread::sleep(Duration::from_secs(1));
    let changed = rates(&mut g, &[1, 2], 4);
    assert!(near(changed[0], 1.5e6, 0.06) && near(changed[1], 250e3, 0.06), "{changed:?}");
    flood.stop();
    receiver.stop();
}

/// A queue is as long as the time that its limit allows.
///
/// Every packet is sent, waiting or dropped.
#[test]
fn a_queue_is_bounded_and_every_packet_is_counted_once() {
    if !able("a_queue_is_bounded_and_every_packet_is_counted_once") {
        return;
    }
    let mut g = bench(2);
    g.set(vec![down(1, 1_000_000)]);
    let receiver = receive(g.path.mesh.udp(v4(1, 9)));
    let flood = pace(g.path.wired.udp(host()), vec![v4(1, 9)], 1000, 500);
    thread::sleep(Duration::from_secs(2));
    let waiting = of(&g.sample(), 1, Direction::Down);
    // 100 ms at 1 Mbit/s are 12.5 kB.
    assert!((10_000..=12_500).contains(&waiting.backlog_bytes), "{waiting:?}");
    assert!((10..=12).contains(&waiting.backlog_packets), "{waiting:?}");
    let sent = flood.stop();
    thread::sleep(Duration::from_millis(500));
    drained(&receiver.progress, sent);
    let received = receiver.stop().len() as u64;
    let c = of(&g.sample(), 1, Direction::Down);
    assert_eq!((c.backlog_packets, c.backlog_bytes), (0, 0));
    assert_eq!((c.packets + c.drops, c.packets, c.bytes), (sent, received, received * 1042));
    assert!(c.overlimits > 0 && c.drops > sent / 2, "{c:?}");
    let mesh = g.call(|p| p.interface(Side::Mesh).unwrap());
    assert_eq!((mesh.subscriber_packets, mesh.classified_packets), (c.packets, sent));
    assert!(mesh.shaped_drops >= c.drops);
    assert!(g.call(|p| p.verify().unwrap()).iter().all(|v| v.holds));
    assert_eq!(g.call(|p| p.audit().unwrap()), []);
}

/// Classes, counters and rules are those of HTB.
///
/// Both directions, both families, translated traffic and Ethernet addresses.
#[test]
fn traffic_is_classified_as_for_htb_and_removal_restores_the_interfaces() {
    if !able("traffic_is_classified_as_for_htb_and_removal_restores_the_interfaces") {
        return;
    }
    let path = Path::new();
    let before = path.gateway.sh("tc qdisc show");
    path.gateway.sh("nft add table ip nat");
    path.gateway.sh("nft add chain ip nat post { type nat hook postrouting priority srcnat ; }");
    path.gateway.sh("nft add rule ip nat post oifname wan0 masquerade");
    let mac = path.mesh.sh("cat /sys/class/net/up0/address");
    let mut by_mac = Subscriber::new(5, [net("10.2.9.9/32")]);
    by_mac.macs.push(mac.trim().parse().unwrap());
    let mut homes: Vec<Subscriber> = (1..=4).map(subscriber).collect();
    homes.push(by_mac);
    let mut g: Edt = Bench::with(path, homes, |_| ());
    assert_eq!(g.installed.replaced, ["mesh0: noqueue", "wan0: noqueue"]);
    assert_eq!((g.installed.shaper, g.installed.adopted), (ShaperKind::Edt, false));
    let wired = g.path.wired.udp(HOST);
    let wired6 = g.path.wired.udp("[fd09::2]:6000");
    let home = g.path.mesh.udp(v4(2, 5000));
    blast(&home, host(), 300, 4);
    let (_, translated) = wired.recv_from(&mut [0; 400]).unwrap();
    assert_eq!(translated.ip().to_string(), "10.9.0.1");
    blast(&wired, translated, 100, 5);
    blast(&wired6, v6(3, 9), 200, 6);
    blast(&wired, v4(77, 9), 64, 7); // of no prefix, with the Ethernet address of the fifth
    settle();
    let counters = g.sample();
    let up = of(&counters, 2, Direction::Up);
    assert_eq!((up.packets, up.bytes), (4, 4 * (300 + 28 + 14)));
    let got = [2, 3, 5].map(|c| of(&counters, c, Direction::Down).packets);
    assert_eq!(got, [5, 6, 7]);
    let mesh = g.call(|p| p.interface(Side::Mesh).unwrap());
    assert_eq!((mesh.subscriber_packets, mesh.classified_packets), (18, 18));
    assert!(mesh.bypass_packets > 0, "ARP and neighbour discovery: {mesh:?}");
    g.path.gateway.sh("nft delete table ip nat");
    let layout = g.layout.clone();
    let removed = g.call(move |p| p.remove(&layout).unwrap());
    assert_eq!(removed.qdiscs, ["mesh0", "wan0"]);
    assert_eq!(g.path.gateway.sh("tc qdisc show"), before);
    assert_eq!(g.path.gateway.sh("nft list ruleset"), "");
}

/// Sends more than a limit allows; returns the packets that arrive.
fn flooded(g: &Edt, count: u64) -> u64 {
    let receiver = receive(g.path.mesh.udp(v4(1, 9)));
    let socket = g.path.wired.udp("10.9.0.2:0");
    let flood = pace(socket, vec![v4(1, 9)], 1000, 1000);
    while flood.progress.load(std::sync::atomic::Ordering::Relaxed) < count {
        thread::sleep(Duration::from_millis(5));
    }
    let sent = flood.stop();
    drained(&receiver.progress, sent);
    let lost = sent - receiver.stop().len() as u64;
    count.saturating_sub(lost)
}

/// Limits end with the process, and when another process lifts or removes them.
#[test]
fn limits_end_with_the_daemon() {
    if !able("limits_end_with_the_daemon") {
        return;
    }
    let mut g = bench(1);
    let limit = |g: &mut Edt| {
        g.set(vec![down(1, 100_000)]);
        assert!(flooded(g, 500) < 100, "limited");
    };
    limit(&mut g);
    // Released in an orderly stop.
    g.call(|p| p.release().unwrap());
    assert_eq!(flooded(&g, 500), 500);
    limit(&mut g);
    // A daemon that hangs renews nothing.
    thread::sleep(Duration::from_secs(11));
    assert_eq!(flooded(&g, 500), 500, "without a renewal for 10 s");
    g.call(|p| p.renew().unwrap());
    assert!(flooded(&g, 500) < 100, "limited again");
    // The daemon ends without notice, and its guard lifts the limits.
    g.plane = None;
    let layout = g.layout.clone();
    let guard = move || HtbShaper::open().and_then(|mut p| p.lift(&layout)).unwrap();
    g.path.gateway.within(guard);
    assert_eq!(flooded(&g, 500), 500, "lifted");
    // The next one takes over.
    g.another();
    let layout = g.layout.clone();
    let installed = g.call(move |p| p.install(&layout).unwrap());
    assert!(installed.adopted && installed.replaced.is_empty(), "{installed:?}");
    limit(&mut g);
    let layout = g.layout.clone();
    g.plane = None;
    let removed = g
        .path
        .gateway
        .within(move || HtbShaper::open().and_then(|mut p| p.remove(&layout)).unwrap());
    assert_eq!(removed.qdiscs, ["mesh0", "wan0"]);
    assert_eq!(flooded(&g, 500), 500, "removed");
}

/// A reload and the take-over by the next process lose no packet of an unlimited home.
#[test]
fn a_reload_and_a_take_over_lose_nothing() {
    if !able("a_reload_and_a_take_over_lose_nothing") {
        return;
    }
    let mut g = bench(50);
    let receiver = receive(g.path.mesh.udp(v4(1, 9)));
    let flood = pace(g.path.wired.udp(host()), vec![v4(1, 9)], 200, 1000);
    for round in 0..5_u16 {
        let mut layout = g.layout.clone();
        layout.subscribers.extend((100 + round..1000 + round).map(subscriber));
        let relaid = g.call(move |p| p.relayout(&layout).unwrap());
        assert!(relaid.added >= 1, "{relaid:?}");
    }
    let layout = g.layout.clone();
    let relaid = g.call(move |p| p.relayout(&layout).unwrap());
    assert_eq!((relaid.added, relaid.removed), (0, 900));
    g.another();
    let layout = g.layout.clone();
    g.call(move |p| p.install(&layout).unwrap());
    let sent = flood.stop();
    drained(&receiver.progress, sent);
    assert_eq!(receiver.stop().len() as u64, sent, "none is lost");
}

/// A removed qdisc or program is noticed, and other programs' qdiscs stay.
#[test]
fn failures_and_foreign_objects_are_named() {
    if !able("failures_and_foreign_objects_are_named") {
        return;
    }
    let mut g = bench(1);
    let gone = |g: &mut Edt, expected: &str| {
        let error = g.call(|p| p.renew().unwrap_err()).to_string();
        assert!(error.contains(expected), "{error}");
        let layout = g.layout.clone();
        g.call(move |p| p.install(&layout).unwrap());
    };
    g.path.gateway.sh("tc qdisc del dev mesh0 root");
    gone(&mut g, "our queueing discipline was removed");
    g.path.gateway.sh("tc qdisc replace dev wan0 root handle 7: pfifo");
    let error = g.call(|p| p.renew().unwrap_err()).to_string();
    assert!(error.contains("the queues on `wan0` are gone"), "{error}");
    let layout = g.layout.clone();
    let error = g.call(move |p| p.install(&layout).unwrap_err()).to_string();
    assert!(
        error.contains("`wan0` already has a root qdisc that is not ours: pfifo 7:"),
        "{error}"
    );
    g.path.gateway.sh("tc qdisc del dev wan0 root");
    let layout = g.layout.clone();
    g.call(move |p| p.install(&layout).unwrap());
    // On kernels without TCX the program is a filter that another program can remove.
    if g.path.gateway.sh("tc qdisc show dev mesh0").contains("clsact") {
        g.path.gateway.sh("tc qdisc del dev mesh0 clsact");
        gone(&mut g, "the program that limits subscribers was detached");
    }
    let error = g.call(|p| p.set_rates(&[down(0, 1_000_000)]).unwrap_err()).to_string();
    assert!(error.contains("a limit of all subscribers together"), "{error}");
    // HTB takes the place of departure times, and the reverse.
    let layout = g.layout.clone();
    g.plane = None;
    let htb = g
        .path
        .gateway
        .within(move || HtbShaper::open().and_then(|mut p| p.install(&layout)).unwrap());
    assert!(htb.adopted);
    let shown = g.path.gateway.sh("tc qdisc show dev mesh0");
    assert!(shown.contains("qdisc htb fa1:") && !shown.contains("qdisc fq fa1:"), "{shown}");
    assert!(!shown.contains("clsact"), "{shown}");
    g.another();
    let layout = g.layout.clone();
    let edt = g.call(move |p| p.install(&layout).unwrap());
    assert_eq!(edt.notes.len(), 2, "{:?}", edt.notes);
    let shown = g.path.gateway.sh("tc qdisc show dev mesh0");
    assert!(shown.contains("qdisc fq fa1:") && !shown.contains("htb"), "{shown}");
}

/// Promised in the specification: cost of a packet and time to install, in instructions.
#[test]
fn thousands_of_classes_cost_as_much_as_one() {
    if !able("thousands_of_classes_cost_as_much_as_one") {
        return;
    }
    let numbers: Vec<u16> = (1..=10_000).collect();
    let measured = [1, 10_000].map(|classes| {
        let path = Path::new();
        // The mesh host drops packets as early as possible.
        path.mesh.sh("ip route del local 10.2.0.0/16 dev lo");
        path.mesh.sh("ip route add blackhole 10.2.0.0/16");
        let mut homes: Vec<Subscriber> =
            (1..=classes).map(|class| Subscriber::new(class, [])).collect();
        for n in &numbers {
            let at = usize::from(n % classes);
            homes[at].prefixes.extend(subscriber(*n).prefixes.iter().take(1));
        }
        let start = Instant::now();
        let mut g: Edt = Bench::with(path, homes, |l| l.delay_ms = 100);
        let installed = start.elapsed();
        g.set((1..=classes).map(|c| down(c, 100_000_000_000)).collect());
        let socket = g.path.wired.udp(host());
        let send = |count: u16| {
            for n in 0..count {
                // A step that does not divide their number.
                let to = v4((u32::from(n) * 61 % 10_000) as u16 + 1, 9);
                socket.send_to(&[0; 1400], to).unwrap();
            }
        };
        send(10_000);
        g.call(|p| p.renew().unwrap());
        let start = Instant::now();
        send(10_000);
        let packet = start.elapsed().as_nanos() as f64 / 10_000.0;
        println!("{classes} classes: installed in {installed:.2?}, {packet:.0} ns per packet");
        let counters = g.sample();
        let passed = counters.iter().filter(|c| c.slot.direction == Direction::Down);
        assert_eq!(passed.map(|c| c.packets).sum::<u64>(), 20_000);
        (installed, packet)
    });
    let [(_, one), (installed, many)] = measured;
    if std::env::var_os("FAIRMESH_VM").is_some() {
        assert!(many <= 1.05 * one, "{many} and {one} ns");
        assert!(installed < Duration::from_secs(2), "{installed:?}");
    }
}
