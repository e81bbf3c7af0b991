//! Marks and early drops, packet by packet and between network stacks.

#![allow(clippy::disallowed_methods)] // what runs in real time must wait

#[path = "../common/mod.rs"]
mod common;
mod reference;

use std::io::{Read, Write};
use std::net::{SocketAddr, UdpSocket};

use common::*;
use fairmesh_linux::bpf::asm::{Assembler, Reg};
use fairmesh_linux::bpf::program::Program;
use fairmesh_linux::bpf::{Hook, MarkCounters, MarkRule, Marker, NotEct, Spacing};
use fairmesh_linux::{Error, Interface, MacAddr, NextHopShaper};
use fairmesh_units::{Probability, Span};
use nix::sys::socket::{setsockopt, sockopt};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use reference::{Fate, Frame, NEXT_HOP, apply, frames, sum};

const LONG: Span = Span::from_nanos(3600 * 1_000_000_000);
/// `TC_ACT_UNSPEC`: the packet continues.
const CONTINUE: i32 = -1;
/// `TC_ACT_SHOT`.
const SHOT: i32 = 2;

fn all(spacing: Spacing) -> MarkRule {
    MarkRule { spacing, not_ect: NotEct::Drop, ect1: true }
}

fn loaded(rule: MarkRule, chance: f64) -> Marker {
    let mut marker = Marker::load(rule).unwrap_or_else(|e| panic!("{e}"));
    marker.set(Some(MacAddr(NEXT_HOP)), Probability(chance), LONG).unwrap();
    marker
}

fn counters(marker: &Marker) -> MarkCounters {
    marker.counters(Some(MacAddr(NEXT_HOP))).unwrap().unwrap()
}

fn rules() -> Vec<MarkRule> {
    let mut rules = Vec::new();
    for spacing in [Spacing::Even, Spacing::Random] {
        for not_ect in [NotEct::Pass, NotEct::Drop] {
            rules.extend([false, true].map(|ect1| MarkRule { spacing, not_ect, ect1 }));
        }
    }
    rules
}

/// True if the kernel's test takes a frame.
///
/// It takes more than an Ethernet header, and a whole IP header if that follows. The others are sent in `truncated_frames_pass_an_interface_unchanged`.
fn can_be_tested(frame: &[u8]) -> bool {
    let least = match frame[12..14] {
        [0x08, 0x00] => 34,
        [0x86, 0xdd] => 54,
        _ => 15,
    };
    frame.len() >= least
}

/// Runs frames through the kernel's program and the reference.
fn agrees(marker: &Marker, rule: MarkRule, bytes: &[u8]) -> Result<Fate, TestCaseError> {
    let mut expected = bytes.to_vec();
    let fate = apply(rule, &mut expected);
    if !can_be_tested(bytes) {
        prop_assert_eq!(fate, Fate::Passes);
        return Ok(fate);
    }
    let run = marker.test_run(bytes, 1).map_err(|e| TestCaseError::fail(e.to_string()))?;
    prop_assert_eq!(run.verdict, if fate == Fate::Dropped { SHOT } else { CONTINUE });
    prop_assert_eq!(&run.packet, &expected);
    Ok(fate)
}

#[test]
fn frames_equal_those_of_the_reference() {
    if !root("frames_equal_those_of_the_reference") {
        return;
    }
    for rule in rules() {
        let mut marker = loaded(rule, 1.0);
        // Chance of all other next hops.
        marker.set(None, Probability(1.0), LONG).unwrap();
        let mut fates = [0; 3];
        // The kernel's test takes at least one byte behind the Ethernet header.
        let cases =
            (frames(), any::<prop::sample::Index>(), any::<bool>(), 0usize..80, any::<u8>());
        let mut runner =
            TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(400) });
        let ran = runner.run(&cases, |(frame, cut, whole, at, bits)| {
            let mut bytes = frame.bytes();
            if !whole {
                bytes.truncate(cut.index(bytes.len()).max(15));
            }
            agrees(&marker, rule, &bytes)?;
            // Any byte may be another one.
            let mut other = bytes.clone();
            let at = at.min(other.len() - 1);
            other[at] ^= bits;
            agrees(&marker, rule, &other)?;
            Ok(())
        });
        ran.unwrap_or_else(|e| panic!("{rule:?}: {e}"));
        for v6 in [false, true] {
            for ecn in 0..4 {
                fates[agrees(&marker, rule, &Frame::plain(v6, ecn).bytes()).unwrap() as usize] += 1;
            }
        }
        let dropped = if rule.not_ect == NotEct::Drop { 2 } else { 0 };
        let marked = if rule.ect1 { 4 } else { 2 };
        assert_eq!(fates, [8 - dropped - marked, marked, dropped], "{rule:?}");
    }
}

#[test]
fn marked_headers_have_right_checksums_at_every_place() {
    if !root("marked_headers_have_right_checksums_at_every_place") {
        return;
    }
    let marker = loaded(all(Spacing::Even), 1.0);
    let tags = [None, Some(0x8100), Some(0x88a8)];
    let headers = [None, Some((0x40, 15)), Some((0x42, 15))];
    let mut marked = 0;
    for (tag, batman) in tags.into_iter().flat_map(|t| headers.map(|b| (t, b))) {
        for inner_tag in tags {
            for (v6, ecn, options) in
                [(false, 1, 0), (false, 2, 0), (false, 2, 3), (true, 1, 0), (true, 2, 0)]
            {
                let frame = Frame { tag, batman, inner_tag, options, ..Frame::plain(v6, ecn) };
                let (bytes, at) = (frame.bytes(), frame.ip());
                let run = marker.test_run(&bytes, 1).unwrap();
                let ip = &run.packet[at..];
                assert_eq!(run.verdict, CONTINUE);
                if v6 {
                    assert_eq!(ip[1] >> 4 & 3, 3, "{frame:?}");
                } else {
                    assert_eq!(ip[1], 10 << 2 | 3, "{frame:?}");
                    assert_eq!(sum(&ip[..20 + 4 * usize::from(options)]), 0xffff, "{frame:?}");
                }
                marked += 1;
                // Each cut passes as it is, up to the end of the IP header.
                let whole = at + if v6 { 40 } else { 20 + 4 * usize::from(options) };
                for length in (15..whole).step_by(if v6 { 3 } else { 1 }) {
                    if !can_be_tested(&bytes[..length]) {
                        continue;
                    }
                    let cut = marker.test_run(&bytes[..length], 1).unwrap();
                    assert_eq!((cut.verdict, &cut.packet[..]), (CONTINUE, &bytes[..length]));
                }
            }
        }
    }
    assert_eq!(counters(&marker), MarkCounters { packets: marked, marked, dropped: 0 });
}

/// Headers of other versions and lengths that no IP header has.
#[test]
fn false_headers_pass() {
    if !root("false_headers_pass") {
        return;
    }
    let marker = loaded(all(Spacing::Even), 1.0);
    let batman = [None, Some((0x40, 15)), Some((0x42, 15))];
    for (batman, v6) in batman.into_iter().flat_map(|b| [false, true].map(|v6| (b, v6))) {
        let frame = Frame { batman, ..Frame::plain(v6, 2) };
        for first in 0..=255 {
            let mut bytes = frame.bytes();
            bytes[frame.ip()] = first;
            let passes = if v6 { first >> 4 != 6 } else { first >> 4 != 4 || first & 15 < 5 };
            let run = marker.test_run(&bytes, 1).unwrap();
            assert_eq!(run.packet == bytes, passes, "{batman:?} {first:#x}");
            assert_eq!(
                agrees(&marker, all(Spacing::Even), &bytes).unwrap() == Fate::Passes,
                passes
            );
        }
    }
}

#[test]
fn the_ratio_of_marks_is_the_chance() {
    if !root("the_ratio_of_marks_is_the_chance") {
        return;
    }
    const RUNS: u64 = 100_000;
    let (v4, v6) = (Frame::plain(false, 2).bytes(), Frame::plain(true, 1).bytes());
    let lost = Frame::plain(false, 0).bytes();
    for (spacing, chance) in [Spacing::Even, Spacing::Random]
        .into_iter()
        .flat_map(|s| [0.01, 0.05, 0.2].map(|chance| (s, chance)))
    {
        let marker = loaded(all(spacing), chance);
        let (mut marked, mut dropped) = (0, 0);
        let (mut last, mut nearest, mut farthest) = (0, u64::MAX, 0);
        for run in 1..=RUNS {
            let frame = [&v4, &v6, &lost][(run % 3) as usize];
            let done = marker.test_run(frame, 1).unwrap();
            let chosen = done.verdict == SHOT || done.packet != *frame;
            dropped += u64::from(done.verdict == SHOT);
            marked += u64::from(done.packet != *frame);
            if chosen {
                let since = run - last;
                (last, nearest, farthest) = (run, nearest.min(since), farthest.max(since));
            }
        }
        assert_eq!(counters(&marker), MarkCounters { packets: RUNS, marked, dropped });
        let (count, asked) = ((marked + dropped) as f64, chance * RUNS as f64);
        eprintln!("{spacing:?} {chance}: {count} of {RUNS}, distances {nearest} to {farthest}");
        match spacing {
            Spacing::Even => {
                assert!((count - asked).abs() <= 1.0, "{chance}: {count} of {RUNS}");
                let distance = (1.0 / chance) as u64;
                assert!(nearest >= distance && farthest <= distance + 1, "{nearest}, {farthest}");
            }
            // Five standard deviations of a binomial number.
            Spacing::Random => {
                let deviation = (asked * (1.0 - chance)).sqrt();
                assert!((count - asked).abs() <= 5.0 * deviation, "{chance}: {count} of {RUNS}");
                assert!(nearest < (0.5 / chance) as u64 && farthest > (2.0 / chance) as u64);
            }
        }
    }
}

#[test]
fn chances_belong_to_next_hops_and_lapse() {
    if !root("chances_belong_to_next_hops_and_lapse") {
        return;
    }
    let mut marker = Marker::load(MarkRule::default()).unwrap();
    let mac = |n: u16| MacAddr([2, 0, 0, 9, (n >> 8) as u8, n as u8]);
    let frame = |n: u16| Frame { to: mac(n).0, ..Frame::plain(false, 2) }.bytes();
    let is_marked =
        |marker: &Marker, n: u16| marker.test_run(&frame(n), 1).unwrap().packet != frame(n);
    assert!(!is_marked(&marker, 1), "the first chance of all is 0");
    marker.set(Some(mac(1)), Probability(0.5), LONG).unwrap();
    marker.set(Some(mac(2)), Probability(7.0), LONG).unwrap();
    marker.set(Some(mac(3)), Probability(f64::NAN), LONG).unwrap();
    let marks = |marker: &Marker, n| (0..8).map(|_| is_marked(marker, n)).collect::<Vec<_>>();
    // Each next hop has its own distance to the next mark; a renewal keeps it.
    assert_eq!(marks(&marker, 1), [false, true].repeat(4));
    assert!(!is_marked(&marker, 1));
    assert_eq!(marks(&marker, 2), [true; 8]);
    marker.set(Some(mac(1)), Probability(0.5), LONG).unwrap();
    assert!(is_marked(&marker, 1));
    assert_eq!(marks(&marker, 3), [false; 8]);
    assert_eq!(
        marker.counters(Some(mac(1))).unwrap(),
        Some(MarkCounters { packets: 10, marked: 5, dropped: 0 })
    );
    assert_eq!(marker.counters(None).unwrap().unwrap().packets, 1);
    assert_eq!(marker.counters(Some(mac(4))).unwrap(), None);
    // A process that does not renew its chances marks nothing, and packets are counted still.
    marker.set(Some(mac(2)), Probability(1.0), Span::from_nanos(1)).unwrap();
    assert_eq!(marks(&marker, 2), [false; 8]);
    assert_eq!(marker.counters(Some(mac(2))).unwrap().unwrap().packets, 16);
    // A next hop that is gone is one of the others.
    marker.set(None, Probability(1.0), LONG).unwrap();
    marker.forget(mac(2)).unwrap();
    marker.forget(mac(2)).unwrap();
    assert_eq!((is_marked(&marker, 2), marker.counters(Some(mac(2))).unwrap()), (true, None));
    // Thousands of neighbours: as many as there is room for.
    let known = (10..).take_while(|n| marker.set(Some(mac(*n)), Probability(0.0), LONG).is_ok());
    assert_eq!(known.count() as u32, Marker::NEXT_HOPS - 2);
    let full = marker.set(Some(mac(9999)), Probability(0.0), LONG).unwrap_err().to_string();
    assert!(full.contains("02:00:00:09:27:0f") && full.contains("512 next hops"), "{full}");
    marker.set(Some(mac(1)), Probability(1.0), LONG).unwrap();
    // A group of stations is not a next hop.
    let group = Frame { to: [0xff; 6], ..Frame::plain(false, 2) }.bytes();
    assert_eq!(marker.test_run(&group, 1).unwrap().packet, group);
}

/// Returns the numbers of received packets (IPv4, IPv6): all, and those with CE.
fn received(ns: &Namespace) -> ([u64; 2], [u64; 2]) {
    let read = |file: &'static str| {
        let path = format!("/proc/thread-self/net/{file}");
        ns.within(move || std::fs::read_to_string(path).unwrap())
    };
    let netstat = read("netstat");
    let ext: Vec<&str> = netstat.lines().filter(|l| l.starts_with("IpExt:")).collect();
    let columns = || ext[0].split_whitespace().zip(ext[1].split_whitespace());
    let v4 = |name: &str| columns().find(|c| c.0 == name).unwrap().1.parse::<u64>().unwrap();
    let snmp6 = read("snmp6");
    let v6 = |name: &str| {
        let line = snmp6.lines().find(|l| l.split_whitespace().next() == Some(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    let any = ["InNoECTPkts", "InECT1Pkts", "InECT0Pkts", "InCEPkts"];
    let any6 = ["Ip6InNoECTPkts", "Ip6InECT1Pkts", "Ip6InECT0Pkts", "Ip6InCEPkts"];
    let (all, all6) = (any.map(v4).iter().sum(), any6.map(v6).iter().sum());
    ([all, all6], [v4("InCEPkts"), v6("Ip6InCEPkts")])
}

fn hooks(path: &Path) -> Vec<Hook> {
    let there = path.gateway.within(|| {
        let mut marker = Marker::load(MarkRule::default()).unwrap();
        marker.attach_by(&wan(), Hook::Tcx).map(drop)
    });
    match there {
        Ok(()) => vec![Hook::Tcx, Hook::Clsact],
        Err(Error::Missing { .. }) => vec![Hook::Clsact],
        Err(e) => panic!("{e}"),
    }
}

fn wan() -> Interface {
    Interface::new("wan0").unwrap()
}

/// Sends ECT(0) datagrams through the gateway: half of them IPv4, half IPv6.
fn send(path: &Path, packets: usize) {
    const ECT0: i32 = 2;
    let v4 = path.mesh.udp("10.2.0.1:5000");
    let v6 = path.mesh.udp("[fd02::1]:5000");
    setsockopt(&v4, sockopt::Ipv4Tos, &ECT0).unwrap();
    setsockopt(&v6, sockopt::Ipv6TClass, &ECT0).unwrap();
    let (a, b) = (path.wired.udp("10.9.0.2:6000"), path.wired.udp("[fd09::2]:6000"));
    let each = |from: &UdpSocket, to: &UdpSocket| {
        let address: SocketAddr = to.local_addr().unwrap();
        for _ in 0..packets / 2 / 50 {
            blast(from, address, 200, 50);
            await_datagrams(to, 50);
        }
    };
    each(&v4, &a);
    each(&v6, &b);
}

#[test]
fn a_receiver_counts_the_marks_of_the_map() {
    if !root("a_receiver_counts_the_marks_of_the_map") {
        return;
    }
    let path = Path::new();
    let before = path.gateway.sh("tc qdisc show");
    let next_hop = path.wired.sh("ip -o link show eth0");
    let next_hop = next_hop.split("link/ether ").nth(1).unwrap().split(' ').next().unwrap();
    let next_hop: MacAddr = next_hop.parse().unwrap();
    send(&path, 100); // addresses are resolved
    for hook in hooks(&path) {
        let mut marker = path.gateway.within(move || {
            let mut marker = Marker::load(MarkRule::default()).unwrap();
            marker.attach_by(&wan(), hook).unwrap();
            marker
        });
        for chance in [0.02, 0.05, 0.2] {
            marker.set(Some(next_hop), Probability(chance), LONG).unwrap();
            let (counted, (_, ce)) =
                (marker.counters(Some(next_hop)).unwrap().unwrap(), received(&path.wired));
            send(&path, 2000);
            settle();
            let (now, (_, after)) =
                (marker.counters(Some(next_hop)).unwrap().unwrap(), received(&path.wired));
            let (packets, marked) = (now.packets - counted.packets, now.marked - counted.marked);
            let [v4, v6] = [0, 1].map(|at| after[at] - ce[at]);
            eprintln!("{hook:?} {chance}: {marked} of {packets}, received {v4} and {v6}");
            assert_eq!(packets, 2000, "{hook:?}");
            assert_eq!(v4 + v6, marked, "{hook:?} {chance}");
            assert!((marked as f64 - chance * 2000.0).abs() <= 1.0, "{hook:?} {chance}: {marked}");
            assert!(v4.abs_diff(v6) <= 1, "{v4} of IPv4, {v6} of IPv6");
        }
        let mut marker = path.gateway.within(move || {
            marker.verify().unwrap();
            marker.detach().unwrap();
            assert!(matches!(marker.verify(), Err(Error::NotInstalled)));
            marker
        });
        let (_, ce) = received(&path.wired);
        marker.set(Some(next_hop), Probability(1.0), LONG).unwrap();
        send(&path, 100);
        assert_eq!(received(&path.wired).1, ce, "{hook:?}: detached");
        assert_eq!(path.gateway.sh("tc qdisc show"), before);
    }
}

/// Three stations of a real batman-adv in a row; the middle one relays.
#[test]
#[ignore = "in scripts/kernel's machine"]
fn relayed_frames_of_batman_adv_are_marked_and_limited() {
    assert!(std::env::var_os("FAIRMESH_VM").is_some(), "only in scripts/kernel's machine");
    namespace::sh("modprobe batman_adv");
    let [a, relay, b] = [(); 3].map(|()| Namespace::new());
    let next_hop = MacAddr([2, 0, 0, 0, 0, 9]);
    let links = [
        format!("link add h0 netns {} type veth peer name h1 netns {}", a.name, relay.name),
        format!(
            "link add h2 netns {} type veth peer name h3 address {next_hop} netns {}",
            relay.name, b.name
        ),
    ];
    ip(&[], &links.each_ref().map(String::as_str));
    for (at, (ns, interfaces)) in
        [(&a, &["h0"][..]), (&relay, &["h1", "h2"]), (&b, &["h3"])].into_iter().enumerate()
    {
        ns.ip(&["link set lo up", "link add bat0 type batadv"]);
        for interface in interfaces {
            let batman = format!("link set {interface} mtu 1532 master bat0 up");
            ns.ip(&[&batman]);
        }
        ns.ip(&[
            "link set bat0 up",
            &format!("addr add 10.8.0.{}/24 dev bat0", at + 1),
            &format!("addr add fd08::{}/64 dev bat0 nodad", at + 1),
        ]);
    }
    let to = [b.udp("10.8.0.3:6000"), b.udp("[fd08::3]:6000")];
    let from = [a.udp("10.8.0.1:5000"), a.udp("[fd08::1]:5000")];
    setsockopt(&from[0], sockopt::Ipv4Tos, &2).unwrap();
    setsockopt(&from[1], sockopt::Ipv6TClass, &2).unwrap();
    for (from, to) in from.iter().zip(&to) {
        to.set_nonblocking(true).unwrap();
        await_condition("a route through batman-adv", || {
            blast(from, to.local_addr().unwrap(), 100, 1);
            settle();
            to.recv(&mut [0; 2048]).is_ok()
        });
        // Those that waited for addresses.
        settle();
        while to.recv(&mut [0; 2048]).is_ok() {}
        to.set_nonblocking(false).unwrap();
    }
    let (mut marker, mut shaper) = relay.within(move || {
        let interface = Interface::new("h2").unwrap();
        let mut marker = Marker::load(MarkRule::default()).unwrap();
        marker.attach(&interface).unwrap();
        (marker, NextHopShaper::install(&interface, 1600).unwrap())
    });
    marker.set(Some(next_hop), Probability(0.2), LONG).unwrap();
    shaper.set_rates(&[(next_hop, None)]).unwrap();
    let (_, ce) = received(&b);
    for (from, to) in from.iter().zip(&to) {
        for _ in 0..10 {
            blast(from, to.local_addr().unwrap(), 1000, 50);
            await_datagrams(to, 50);
        }
    }
    let counted = marker.counters(Some(next_hop)).unwrap().unwrap();
    let (_, now) = received(&b);
    let ce = [now[0] - ce[0], now[1] - ce[1]];
    eprintln!("batman-adv: {counted:?}, received {ce:?}");
    assert_eq!((counted.packets, counted.marked), (1000, 200));
    assert_eq!(ce, [100, 100]);
    let mut classes = Vec::new();
    shaper.sample(&mut classes).unwrap();
    // With batman-adv's 24 bytes and an outer Ethernet header; besides datagrams there are few frames.
    let [(_, stats)] = classes[..] else { panic!("{classes:?}") };
    assert!((1000..1050).contains(&stats.packets), "{stats:?}");
    assert!(stats.bytes >= 500 * (1028 + 1048 + 2 * 38), "{stats:?}");
}

#[test]
fn packets_without_ecn_are_dropped_by_the_same_chance() {
    if !root("packets_without_ecn_are_dropped_by_the_same_chance") {
        return;
    }
    let path = Path::new();
    let (from, to) = (path.mesh.udp("10.2.0.1:5000"), path.wired.udp(HOST));
    blast(&from, to.local_addr().unwrap(), 200, 1);
    await_datagrams(&to, 1);
    let rule = MarkRule { not_ect: NotEct::Drop, ..MarkRule::default() };
    let marker = path.gateway.within(move || {
        let mut marker = Marker::load(rule).unwrap();
        marker.set(None, Probability(0.2), LONG).unwrap();
        marker.attach(&wan()).unwrap();
        marker
    });
    let ([v4, _], _) = received(&path.wired);
    for _ in 0..10 {
        blast(&from, to.local_addr().unwrap(), 200, 50);
        await_datagrams(&to, 40);
    }
    settle();
    let counted = marker.counters(None).unwrap().unwrap();
    assert_eq!((counted.marked, counted.dropped, counted.packets), (0, 100, 500));
    assert_eq!(received(&path.wired).0[0] - v4, 400);
}

/// Returns a socket for frames of an interface.
#[allow(unsafe_code)] // nix cannot make a packet address
fn frames_of(ns: &Namespace, interface: &'static str) -> std::os::fd::OwnedFd {
    use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, socket};
    ns.within(move || {
        let all = SockProtocol::EthAll;
        let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::empty(), all).unwrap();
        // SAFETY: all zeros are a valid address.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = nix::net::if_::if_nametoindex(interface).unwrap() as i32;
        let size = size_of::<libc::sockaddr_ll>() as u32;
        // SAFETY: the address lives and has the given size.
        let done = unsafe {
            let address = (&raw const address).cast();
            libc::bind(std::os::fd::AsRawFd::as_raw_fd(&socket), address, size)
        };
        assert_eq!(done, 0);
        let second = nix::sys::time::TimeVal::new(60, 0);
        setsockopt(&socket, sockopt::ReceiveTimeout, &second).unwrap();
        socket
    })
}

#[test]
fn truncated_frames_pass_an_interface_unchanged() {
    if !root("truncated_frames_pass_an_interface_unchanged") {
        return;
    }
    let path = Path::new();
    let rule = all(Spacing::Even);
    let _marker = path.gateway.within(move || {
        let mut marker = Marker::load(rule).unwrap();
        marker.set(None, Probability(1.0), LONG).unwrap();
        marker.attach(&wan()).unwrap();
        marker
    });
    let (from, to) = (frames_of(&path.gateway, "wan0"), frames_of(&path.wired, "eth0"));
    let (mut buffer, mut fates) = ([0; 2048], [0; 3]);
    for (v6, options, batman) in
        [(false, 0, None), (false, 2, None), (true, 0, None), (true, 0, Some((0x42, 15)))]
    {
        // To no station here, so that no stack replies.
        let frame = Frame { to: [2, 7, 7, 7, 7, 7], options, batman, ..Frame::plain(v6, 2) };
        let whole = frame.bytes();
        for length in 15..whole.len() {
            let mut expected = whole[..length].to_vec();
            fates[apply(rule, &mut expected) as usize] += 1;
            nix::unistd::write(&from, &whole[..length]).unwrap();
            loop {
                let read = nix::unistd::read(&to, &mut buffer).unwrap();
                // Other frames are those of the kernels' own protocols.
                if buffer[..6] == frame.to {
                    assert_eq!(buffer[..read], expected, "{frame:?} {length}");
                    break;
                }
            }
        }
    }
    assert!(fates[0] > 100 && fates[1] > 100 && fates[2] == 0, "{fates:?}");
}

#[test]
fn a_killed_process_leaves_traffic_alone() {
    if !root("a_killed_process_leaves_traffic_alone") {
        return;
    }
    let path = Path::new();
    let before = path.gateway.sh("tc qdisc show");
    send(&path, 100);
    for hook in hooks(&path) {
        let (mut ready, attached) = std::io::pipe().unwrap();
        let child = path.gateway.within(move || child(hook, attached));
        ready.read_exact(&mut [0]).unwrap();
        let (_, ce) = received(&path.wired);
        send(&path, 100);
        let (_, marked) = received(&path.wired);
        assert_eq!([marked[0] - ce[0], marked[1] - ce[1]], [50; 2], "{hook:?}: alive");
        nix::sys::signal::kill(child, nix::sys::signal::Signal::SIGKILL).unwrap();
        nix::sys::wait::waitpid(child, None).unwrap();
        // TCX detaches at once, or a little later as the kernel's workers close files; on clsact the chance lapses.
        await_condition("marks after death", || {
            let (_, ce) = received(&path.wired);
            send(&path, 100);
            received(&path.wired).1 == ce
        });
        let filters = path.gateway.sh("tc filter show dev wan0 egress");
        assert_eq!(filters.contains("fairmesh-mark+clsact"), hook == Hook::Clsact, "{filters}");
        let removed = path.gateway.within(|| Marker::remove(&wan()).unwrap());
        assert_eq!(removed.qdiscs.len(), usize::from(hook == Hook::Clsact));
        assert_eq!(path.gateway.sh("tc qdisc show"), before, "{hook:?}");
    }
}

/// Marks every packet for 3 s from another process, until that is killed.
#[allow(unsafe_code)]
fn child(hook: Hook, mut ready: std::io::PipeWriter) -> nix::unistd::Pid {
    // SAFETY: the child makes system calls and allocates, which the C library permits after fork, and does not return.
    match unsafe { nix::unistd::fork() }.unwrap() {
        nix::unistd::ForkResult::Parent { child } => child,
        nix::unistd::ForkResult::Child => {
            let marks = || -> Result<Marker, Error> {
                let mut marker = Marker::load(MarkRule::default())?;
                marker.attach_by(&wan(), hook)?;
                marker.set(None, Probability(1.0), Span::from_nanos(3_000_000_000))?;
                Ok(marker)
            };
            let marker = marks();
            let _ = ready.write_all(if marker.is_ok() { b"+" } else { b"-" });
            loop {
                nix::unistd::pause();
            }
        }
    }
}

#[test]
fn filters_of_other_programs_stay() {
    if !root("filters_of_other_programs_stay") {
        return;
    }
    let path = Path::new();
    let clsact = |marker: &mut Option<Marker>| {
        *marker = Some(path.gateway.within(|| {
            let mut marker = Marker::load(MarkRule::default()).unwrap();
            marker.attach_by(&wan(), Hook::Clsact).unwrap();
            marker
        }));
    };
    let detach = |marker: &mut Option<Marker>| {
        let marker = marker.take().unwrap();
        path.gateway.within(move || drop(marker));
    };
    let mut marker = None;
    // A clsact of another program, without filters.
    path.gateway.sh("tc qdisc add dev wan0 clsact");
    let theirs = path.gateway.sh("tc qdisc show");
    clsact(&mut marker);
    detach(&mut marker);
    assert_eq!(path.gateway.sh("tc qdisc show"), theirs);
    path.gateway.sh("tc qdisc del dev wan0 clsact");
    // A filter that another program adds to ours, in either direction.
    for hook in ["ingress", "egress"] {
        clsact(&mut marker);
        let name = &path.gateway.name;
        let place =
            ["-n", name, "filter", "add", "dev", "wan0", hook, "protocol", "ip", "prio", "5"];
        let passes = ["bpf", "bytecode", "1,6 0 0 4294967295,"];
        let added = run("tc", &[&place[..], &passes[..]].concat()).unwrap();
        assert!(added.status.success(), "{added:?}");
        detach(&mut marker);
        assert!(path.gateway.sh(&format!("tc filter show dev wan0 {hook}")).contains("pref 5 bpf"));
        assert_eq!(path.gateway.sh("tc qdisc show"), theirs);
        path.gateway.sh("tc qdisc del dev wan0 clsact");
    }
    // Another program removes ours.
    clsact(&mut marker);
    path.gateway.sh("tc qdisc del dev wan0 clsact");
    let gone = marker.as_mut().unwrap().verify().unwrap_err();
    assert!(gone.is_interface_lost() && gone.to_string().contains("wan0"), "{gone}");
    detach(&mut marker);
    let refused = path.gateway.within(|| {
        let mut marker = Marker::load(MarkRule::default()).unwrap();
        [Interface::new("nothing0"), Interface::new("lo")]
            .map(|i| marker.attach(&i.unwrap()).unwrap_err())
    });
    assert!(
        matches!(&refused[0], Error::NoInterface(name) if name == "nothing0"),
        "{}",
        refused[0]
    );
    // The end of the interface ends the marks, by any hook.
    let lost = path.gateway.within(|| {
        let mut marker = Marker::load(MarkRule::default()).unwrap();
        marker.attach(&wan()).unwrap();
        sh_del();
        let lost = marker.verify().unwrap_err();
        marker.detach().unwrap();
        lost
    });
    assert!(lost.is_interface_lost(), "{lost}");
}

/// Deletes `wan0` in this thread's namespace.
fn sh_del() {
    common::namespace::sh("ip link del wan0");
}

#[test]
#[allow(unsafe_code)]
fn without_privileges_the_error_names_them() {
    if !root("without_privileges_the_error_names_them") {
        return;
    }
    let refused = std::thread::spawn(|| {
        // SAFETY: the system call changes the identity of this thread only, unlike that of the C library.
        let done = unsafe { nix::libc::syscall(nix::libc::SYS_setresuid, 65534, 65534, 65534) };
        assert_eq!(done, 0);
        Marker::load(MarkRule::default()).unwrap_err().to_string()
    });
    let refused = refused.join().unwrap();
    assert!(refused.contains("CAP_BPF and CAP_NET_ADMIN"), "{refused}");
}

/// The cost of a packet, as a ratio; nothing is asserted about time.
#[test]
fn the_cost_is_printed() {
    if !root("the_cost_is_printed") {
        return;
    }
    let mut empty = Assembler::new();
    empty.set(Reg::R0, CONTINUE);
    empty.exit();
    let empty = Program::load("empty", &empty.finish().unwrap()).unwrap();
    let batman = Frame { batman: Some((0x40, 15)), ..Frame::plain(false, 2) };
    for (name, frame, chance) in [
        ("ARP or other", vec![2; 80], 0.0),
        ("IPv4, chance 0", Frame::plain(false, 2).bytes(), 0.0),
        ("IPv4, not chosen", Frame::plain(false, 2).bytes(), 1e-9),
        ("IPv6, not chosen", Frame::plain(true, 2).bytes(), 1e-9),
        ("batman-adv, not chosen", batman.bytes(), 1e-9),
    ] {
        let marker = loaded(MarkRule::default(), chance);
        let [ours, none] = [marker.test_run(&frame, 200_000), empty.test_run(&frame, 200_000)]
            .map(|r| r.unwrap().nanos);
        eprintln!("{name}: {ours} ns, empty program {none} ns");
        assert_eq!(marker.test_run(&frame, 1).unwrap().packet, frame);
    }
}
