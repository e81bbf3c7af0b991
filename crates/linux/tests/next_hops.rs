//! Limits by next hop of a mesh interface, and airtime shares, between network stacks.

#![allow(clippy::disallowed_methods)] // what runs in real time must wait

mod common;

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use common::traffic::{Running, pace};
use common::*;
use fairmesh_linux::tc::stats::Stats;
use fairmesh_linux::*;
use fairmesh_units::{BitRate, Span, Time};

/// Payload and frame of a datagram of these tests, in bytes.
const PAYLOAD: usize = 1400;
const FRAME: u64 = 1442;
/// Ethernet address of the router.
const ROUTER: &str = "02:00:00:00:00:01";

fn mesh0() -> Interface {
    Interface::new("mesh0").unwrap()
}

/// Next hop `n`: address and Ethernet address.
fn hop(n: u8) -> (SocketAddr, MacAddr) {
    (SocketAddr::from(([10, 1, 0, n], 9)), MacAddr([2, 0, 0, 0, 0, n]))
}

/// A router with three neighbours on one mesh interface.
struct Mesh {
    router: Namespace,
    // The order in which they end: interfaces of neighbours lie on one of the medium.
    _neighbours: Vec<Namespace>,
    _medium: Namespace,
}

impl Mesh {
    fn new() -> Self {
        let (router, medium) = (Namespace::new(), Namespace::new());
        let link = format!(
            "link add air netns {} type veth peer name mesh0 address {ROUTER} netns {}",
            medium.name, router.name
        );
        ip(&[], &[&link]);
        medium.ip(&["link set air up"]);
        router.ip(&["link set mesh0 up", "addr add 10.1.0.1/24 dev mesh0"]);
        let neighbours = [11, 12, 13].map(|n| {
            let ns = Namespace::new();
            let (_, mac) = hop(n);
            medium.ip(&[
                &format!("link add h{n} link air address {mac} type macvlan mode bridge"),
                &format!("link set h{n} netns {}", ns.name),
            ]);
            ns.ip(&[
                &format!("link set h{n} up"),
                &format!("addr add 10.1.0.{n}/24 dev h{n}"),
                &format!("neigh replace 10.1.0.1 lladdr {ROUTER} dev h{n} nud permanent"),
            ]);
            ns
        });
        // Without ARP only datagrams are counted.
        let entries = [11, 12, 13].map(|n| {
            format!("neigh replace 10.1.0.{n} lladdr {} dev mesh0 nud permanent", hop(n).1)
        });
        router.ip(&entries.each_ref().map(String::as_str));
        Mesh { router, _neighbours: neighbours.into(), _medium: medium }
    }

    /// Sends datagrams to a next hop at a rate per second.
    fn flood(&self, n: u8, per_second: u64) -> Running<u64> {
        let socket = self.router.udp(format!("10.1.0.1:50{n}"));
        pace(socket, vec![hop(n).0], PAYLOAD, per_second)
    }

    fn install(&self) -> Option<NextHopShaper> {
        Some(self.router.within(|| NextHopShaper::install(&mesh0(), 1600).unwrap()))
    }
}

fn sample(shaper: &mut NextHopShaper) -> Vec<(MacAddr, Stats)> {
    let mut out = Vec::new();
    shaper.sample(&mut out).unwrap();
    out
}

fn of_hop(shaper: &mut NextHopShaper, n: u8) -> Stats {
    let all = sample(shaper);
    all.into_iter().find(|(mac, _)| *mac == hop(n).1).unwrap().1
}

#[test]
fn a_limit_holds_for_its_next_hop_only() {
    if !root("a_limit_holds_for_its_next_hop_only") {
        return;
    }
    const LIMIT: u64 = 4_000_000;
    let mesh = Mesh::new();
    let before = mesh.router.sh("tc qdisc show");
    let mut shaper = mesh.install().unwrap();
    shaper.set_rates(&[(hop(11).1, Some(BitRate(LIMIT))), (hop(12).1, None)]).unwrap();
    assert_eq!(shaper.limit(hop(11).1), Some(Some(BitRate(LIMIT))));
    assert_eq!((shaper.limit(hop(12).1), shaper.limit(hop(13).1)), (Some(None), None));
    // 11.5 Mbit/s to each, also to a next hop without a class.
    // Each has a socket, since a full class blocks its sender.
    let floods = [11, 12, 13].map(|n| mesh.flood(n, 1000));
    thread::sleep(Duration::from_millis(500));
    let mut seen = Vec::new();
    let held = (0..10).any(|_| {
        let from = Instant::now();
        let first = [11, 12].map(|n| of_hop(&mut shaper, n));
        let since = Instant::now();
        thread::sleep(Duration::from_secs(2));
        let until = Instant::now();
        let last = [11, 12].map(|n| of_hop(&mut shaper, n));
        let bits = (last[0].bytes - first[0].bytes) as f64 * 8.0;
        let [least, most] = [from.elapsed(), until - since].map(|t| bits / t.as_secs_f64());
        eprintln!("{:.3} to {:.3} of {} Mbit/s", least / 1e6, most / 1e6, LIMIT / 1_000_000);
        assert!(least <= 1.01 * LIMIT as f64, "{least} bit/s");
        // The other next hop loses nothing and waits for nothing.
        assert_eq!((last[1].drops, last[1].queued_packets, last[1].overlimits), (0, 0, 0));
        assert!(last[1].bytes > first[1].bytes);
        seen.push(most);
        // A machine that stops costs the class its turns, so too little fails only if it lasts.
        most >= 0.94 * LIMIT as f64
    });
    assert!(held, "{seen:?} bit/s of {LIMIT}");
    let limited = of_hop(&mut shaper, 11);
    assert!(limited.queued_packets > 0 && limited.overlimits > 0, "{limited:?}");
    // In place, the packets that wait stay, and leave when the limit is lifted by another process.
    shaper.set_rates(&[(hop(11).1, Some(BitRate(100_000)))]).unwrap();
    let sent = floods.map(|flood| flood.stop());
    assert!(of_hop(&mut shaper, 11).queued_packets > 0);
    mesh.router.within(|| NextHopShaper::lift(&mesh0()).unwrap());
    settle();
    let (limited, other) = (of_hop(&mut shaper, 11), of_hop(&mut shaper, 12));
    assert_eq!(limited.queued_packets, 0);
    assert_eq!(other.packets, sent[1], "to the other next hop");
    // HTB does not count the drops of CoDel, which come late.
    let passed = limited.packets + u64::from(limited.drops);
    assert!(
        passed == sent[0] || (passed < sent[0] && shaper.leaf() == LeafKind::FqCodel),
        "{limited:?} of {sent:?}"
    );
    assert_eq!(other.bytes, sent[1] * FRAME);
    let shown = mesh.router.sh("tc qdisc show dev mesh0");
    let leaf = shaper.leaf().name();
    assert_eq!(shown.matches(&format!("qdisc {leaf} ")).count(), 3, "{shown}");
    // A distribution's kernel has it.
    assert!(leaf == "fq_codel" || std::env::var_os("FAIRMESH_VM").is_none(), "{shown}");
    let removed = mesh.router.within(|| NextHopShaper::remove(&mesh0()).unwrap());
    assert_eq!(removed.qdiscs, ["mesh0"]);
    assert_eq!(mesh.router.sh("tc qdisc show"), before);
    let gone = shaper.set_rates(&[(hop(11).1, None)]).unwrap_err();
    assert!(gone.is_interface_lost(), "{gone}");
    let gone = shaper.sample(&mut Vec::new()).unwrap_err();
    assert!(gone.is_interface_lost(), "{gone}");
}

#[test]
fn next_hops_come_and_go_without_loss() {
    if !root("next_hops_come_and_go_without_loss") {
        return;
    }
    let mesh = Mesh::new();
    let mut shaper = mesh.install().unwrap();
    let socket = mesh.router.udp("10.1.0.1:5000");
    let send = |n: u8, packets: usize| blast(&socket, hop(n).0, PAYLOAD, packets);
    send(11, 10);
    shaper.set_rates(&[(hop(11).1, None)]).unwrap();
    assert_eq!(of_hop(&mut shaper, 11).packets, 0, "sent before it had a class");
    send(11, 10);
    assert_eq!(of_hop(&mut shaper, 11).bytes, 10 * FRAME);
    // A next hop that goes keeps the packets that wait for it.
    shaper.set_rates(&[(hop(12).1, Some(BitRate(100_000)))]).unwrap();
    send(12, 20);
    let waiting = of_hop(&mut shaper, 12);
    assert!(waiting.queued_packets >= 10, "{waiting:?}");
    shaper.forget(hop(12).1).unwrap();
    shaper.forget(hop(12).1).unwrap();
    settle();
    let classes = mesh.router.sh("tc -s class show dev mesh0");
    assert!(
        classes.contains("class htb fa4:2 ")
            && classes.contains(&format!("Sent {} bytes 20 pkt", 20 * FRAME)),
        "{classes}"
    );
    assert_eq!(sample(&mut shaper).len(), 1);
    assert!(!mesh.router.sh("tc class show dev mesh0").contains("fa4:2 "));
    send(12, 5);
    // Its number is free again.
    shaper.set_rates(&[(hop(13).1, None), (hop(12).1, None)]).unwrap();
    send(13, 7);
    assert_eq!([11, 12, 13].map(|n| of_hop(&mut shaper, n).packets), [10, 0, 7]);
    // As many next hops as there is room for, and each finds its class.
    let many: Vec<_> =
        (0..509u16).map(|n| (MacAddr([2, 9, 0, 0, (n >> 8) as u8, n as u8]), None)).collect();
    shaper.set_rates(&many).unwrap();
    let full = shaper.set_rates(&[(MacAddr([2, 8, 0, 0, 0, 1]), None)]).unwrap_err().to_string();
    assert!(full.contains("02:08:00:00:00:01; 512 next hops"), "{full}");
    [11, 12, 13].into_iter().for_each(|n| send(n, 3));
    assert_eq!([11, 12, 13].map(|n| of_hop(&mut shaper, n).packets), [13, 3, 10]);
    // A second daemon begins without classes.
    let mut second = mesh.install().unwrap();
    assert!(sample(&mut second).is_empty());
}

#[test]
fn other_programs_qdiscs_stay() {
    if !root("other_programs_qdiscs_stay") {
        return;
    }
    let mesh = Mesh::new();
    mesh.router.sh("tc qdisc add dev mesh0 root handle 1: tbf rate 1mbit burst 10k limit 100k");
    let before = mesh.router.sh("tc qdisc show");
    let [refused, without, missing] = mesh.router.within(|| {
        [mesh0(), Interface::new("lo").unwrap(), Interface::new("nothing0").unwrap()]
            .map(|i| NextHopShaper::install(&i, 1600).unwrap_err().to_string())
    });
    assert!(refused.contains("tbf 1:; it is unchanged"), "{refused}");
    assert!(without.contains("an Ethernet header on lo"), "{without}");
    assert!(missing.contains("no interface `nothing0`"), "{missing}");
    let removed = mesh.router.within(|| NextHopShaper::remove(&mesh0()).unwrap());
    assert_eq!((removed.qdiscs.len(), removed.kept), (0, vec!["mesh0: tbf 1:".to_owned()]));
    assert_eq!(mesh.router.sh("tc qdisc show"), before);
}

/// Two next hops with shares, on a fake radio with known bytes per airtime that change.
#[test]
fn airtime_shares_hold_over_five_seconds() {
    if !root("airtime_shares_hold_over_five_seconds") {
        return;
    }
    let mesh = Mesh::new();
    let mut shaper = mesh.install().unwrap();
    let mut shares = AirtimeShares::new();
    let hops = [(11, 0.1), (12, 0.3)];
    for (n, share) in hops {
        shares.set(hop(n).1, share);
    }
    let limits = shares.renew(Time::ZERO, &[]);
    shaper.set_rates(&limits).unwrap();
    let floods = hops.map(|(n, _)| mesh.flood(n, 1500));
    let start = Instant::now();
    // Bytes per second of airtime: 30 and 20 Mbit/s, after 3 s 15 and 40.
    let speed = |n: usize, t: Duration| match (n, t.as_secs() < 3) {
        (0, true) => 3.75e6,
        (0, false) => 1.875e6,
        (_, true) => 2.5e6,
        (_, false) => 5e6,
    };
    let (mut sent, mut air) = ([0; 2], [0.0; 2]);
    let mut round = |sent: &mut [u64; 2], air: &mut [f64; 2]| {
        thread::sleep(Duration::from_millis(100));
        let now = start.elapsed();
        let samples = [0, 1].map(|at| {
            let bytes = of_hop(&mut shaper, hops[at].0).bytes;
            air[at] += (bytes - sent[at]) as f64 / speed(at, now);
            sent[at] = bytes;
            let airtime = Some(Span::from_nanos((air[at] * 1e9) as u64));
            let frames = (0, Span::ZERO);
            AirtimeSample { next_hop: hop(hops[at].0).1, bytes, frames, airtime }
        });
        let limits = shares.renew(Time::from_nanos(now.as_nanos() as u64), &samples);
        shaper.set_rates(&limits).unwrap();
    };
    while start.elapsed() < Duration::from_secs(5) {
        round(&mut sent, &mut air);
    }
    let mut seen = Vec::new();
    let held = (0..5).any(|_| {
        let (from, before) = (start.elapsed(), air);
        while start.elapsed() - from < Duration::from_secs(5) {
            round(&mut sent, &mut air);
        }
        let elapsed = (start.elapsed() - from).as_secs_f64();
        let got = [0, 1].map(|at| (air[at] - before[at]) / elapsed);
        eprintln!("airtime {got:.4?} of {:?}", hops.map(|h| h.1));
        seen.push(got);
        [0, 1].iter().all(|at| (got[*at] / hops[*at].1 - 1.0).abs() < 0.05)
    });
    floods.into_iter().for_each(|flood| _ = flood.stop());
    assert!(held, "{seen:?}");
}
