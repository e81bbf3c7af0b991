//! Counters of homes' packets on links, by frame and between network stacks.

#![allow(clippy::disallowed_methods)] // what runs in real time must wait

mod common;

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::thread;

use common::*;
use fairmesh_linux::bpf::{FlowCount, FlowMeter, home};
use fairmesh_linux::{Interface, IpNet, LocalPlace, LocalShaper, MacAddr};
use fairmesh_units::{BitRate, Probability, Span};

const NEIGHBOUR: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

fn homes() -> Vec<IpNet> {
    ["10.2.0.0/16", "192.168.7.9/32", "fd02::/64", "fd03:1:2::/56"].map(net).to_vec()
}

/// A frame to or from the neighbour, with a TCP header and some bytes of data.
fn frame(out: bool, source: &str, destination: &str, protocol: u8, data: usize) -> Vec<u8> {
    // The kernel's test takes a frame for its own if it is addressed to the loopback interface.
    let own = MacAddr([0; 6]);
    let (to, from) = if out { (NEIGHBOUR, own) } else { (own, NEIGHBOUR) };
    let mut bytes = [to.0, from.0].concat();
    let length = (20 + data) as u16;
    match (source.parse().unwrap(), destination.parse().unwrap()) {
        (IpAddr::V4(s), IpAddr::V4(d)) => {
            bytes.extend([0x08, 0x00, 0x45, 0]);
            bytes.extend((20 + length).to_be_bytes());
            bytes.extend([0, 0, 0, 0, 64, protocol, 0, 0]);
            bytes.extend(s.octets().into_iter().chain(d.octets()));
        }
        (IpAddr::V6(s), IpAddr::V6(d)) => {
            bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            bytes.extend(length.to_be_bytes());
            bytes.extend([protocol, 64]);
            bytes.extend(s.octets().into_iter().chain(d.octets()));
        }
        _ => panic!("{source} {destination}"),
    }
    bytes.resize(bytes.len() + usize::from(length), 0);
    bytes
}

/// Puts a frame of the mesh into a unicast frame of batman-adv.
fn in_batman(frame: &[u8]) -> Vec<u8> {
    let mut bytes = frame[..12].to_vec();
    bytes.extend([0x43, 0x05, 0x40, 15, 50, 0, 2, 0, 0, 0, 0, 1]);
    bytes.extend(frame);
    bytes
}

#[test]
fn a_frame_belongs_to_the_home_that_sends_or_gets_its_data() {
    if !root("a_frame_belongs_to_the_home_that_sends_or_gets_its_data") {
        return;
    }
    const WEB: &str = "93.184.216.34";
    const WEB6: &str = "2606:2800::1";
    const TCP: u8 = 6;
    const UDP: u8 = 17;
    // Out, source, destination, protocol, data: acknowledgement, home, download.
    let cases = [
        (false, "10.2.3.4", WEB, TCP, 1400, Some((false, "10.2.3.4", false))),
        (true, WEB, "10.2.3.4", TCP, 0, Some((true, "10.2.3.4", false))),
        (true, WEB, "10.2.3.4", TCP, 1400, Some((false, "10.2.3.4", true))),
        (false, "10.2.3.4", WEB, TCP, 12, Some((true, "10.2.3.4", true))),
        (false, "10.2.3.4", WEB, UDP, 12, Some((false, "10.2.3.4", false))),
        // Between homes: by the sender of data.
        (false, "10.2.3.4", "192.168.7.9", TCP, 1400, Some((false, "10.2.3.4", false))),
        (true, "192.168.7.9", "10.2.3.4", TCP, 0, Some((true, "10.2.3.4", false))),
        (true, "fd02::1:2:3:4", WEB6, TCP, 1300, Some((false, "fd02::9", false))),
        (false, WEB6, "fd03:1:2:ff::1", UDP, 1300, Some((false, "fd03:1:2:ff::2", true))),
        // Neither end is a home.
        (true, WEB, "192.168.7.8", TCP, 1400, None),
        (true, WEB6, "fd02:0:0:1::1", TCP, 1400, None),
        (true, WEB6, "fd03:1:2:100::1", TCP, 1400, None),
    ];
    for (out, source, destination, protocol, data, expected) in cases {
        let meter = FlowMeter::load(&homes(), &[]).unwrap();
        let plain = frame(out, source, destination, protocol, data);
        let mut group = plain.clone();
        group[0] = 1;
        for bytes in [&plain, &in_batman(&plain), &group] {
            assert_eq!(meter.test_run(out, bytes).unwrap().verdict, -1, "it continues");
        }
        let found = meter.read().unwrap();
        let ip = (plain.len() - 14) as u64;
        let expected: Vec<FlowCount> = expected
            .into_iter()
            .map(|(ack, address, download)| FlowCount {
                neighbour: NEIGHBOUR,
                out,
                ack,
                home: home(address.parse().unwrap()),
                download,
                packets: 2,
                bytes: 2 * ip,
            })
            .collect();
        assert_eq!(found, expected, "{source} {destination}");
    }
}

#[test]
fn thousands_of_homes_are_bounded() {
    if !root("thousands_of_homes_are_bounded") {
        return;
    }
    let meter = FlowMeter::load(&homes(), &[]).unwrap();
    for n in 0..10_000_u32 {
        let [_, _, hi, lo] = n.to_be_bytes();
        let bytes = frame(true, &format!("10.2.{hi}.{lo}"), "1.1.1.1", 17, 0);
        meter.test_run(true, &bytes).unwrap();
    }
    let found = meter.read().unwrap();
    assert!((1000..=4096).contains(&found.len()), "{}", found.len());
}

/// Marks are of data that enters here, not of acknowledgements or without ECT(0).
#[test]
fn data_of_a_flow_with_a_class_is_marked_by_its_chance() {
    if !root("data_of_a_flow_with_a_class_is_marked_by_its_chance") {
        return;
    }
    let mut meter = FlowMeter::load(&homes(), &[]).unwrap();
    let address: IpAddr = "10.2.3.4".parse().unwrap();
    let long = Span::from_secs(3600);
    let ecn = |meter: &FlowMeter, data: usize, ecn: u8| {
        let mut bytes = frame(true, "93.184.216.34", "10.2.3.4", 6, data);
        bytes[15] = ecn;
        meter.test_run(true, &bytes).unwrap().packet[15] & 3
    };
    assert_eq!(ecn(&meter, 1400, 2), 2, "it has no class");
    meter.assign((home(address), true), 0xfa2_0001, Probability(1.0), long).unwrap();
    assert_eq!([0, 1, 2, 3].map(|e| ecn(&meter, 1400, e)), [0, 1, 3, 3]);
    assert_eq!(ecn(&meter, 0, 2), 2, "an acknowledgement");
    meter.assign((home(address), true), 0xfa2_0001, Probability(1.0), Span::ZERO).unwrap();
    assert_eq!(ecn(&meter, 1400, 2), 2, "the chance has lapsed");
    meter.assign((home(address), true), 0xfa2_0001, Probability(0.25), long).unwrap();
    let marked = (0..4000).filter(|_| ecn(&meter, 1400, 2) == 3).count();
    assert!((800..1200).contains(&marked), "{marked} of 4000");
    meter.release((home(address), true)).unwrap();
    assert_eq!(ecn(&meter, 1400, 2), 2);
}

/// One home's downloads have a limit, another's have none.
#[test]
fn a_flow_that_enters_here_has_the_limit_of_its_class() {
    if !root("a_flow_that_enters_here_has_the_limit_of_its_class") {
        return;
    }
    const RATE: u64 = 4_000_000;
    let path = Path::new();
    let mesh0 = Interface::new("mesh0").unwrap();
    let place = LocalPlace { interface: mesh0.clone(), routed: vec![mesh0.clone()] };
    let limited: IpAddr = "10.2.0.6".parse().unwrap();
    let (meter, mut shaper) = path.gateway.within(move || {
        let mut meter = FlowMeter::load(&homes(), &[]).unwrap();
        meter.attach(&mesh0).unwrap();
        let mut shaper = LocalShaper::install(&place, 100, 3000).unwrap();
        let priority = shaper.set_flow(1, Some(BitRate(RATE)), 20).unwrap();
        meter.assign((home(limited), true), priority, Probability(0.0), Span::ZERO).unwrap();
        assert!(shaper.set_flow(0, None, 1).is_err() && shaper.set_flow(2000, None, 1).is_err());
        (meter, shaper)
    });
    let start = std::time::Instant::now();
    let floods: Vec<_> = [6, 7]
        .map(|n| {
            let socket = path.wired.udp("10.9.0.2:0");
            traffic::pace(socket, vec![SocketAddr::from(([10, 2, 0, n], 9))], 1400, 1000)
        })
        .into();
    thread::sleep(std::time::Duration::from_secs(2));
    let sent: u64 = floods.into_iter().map(traffic::Running::stop).sum();
    let seconds = start.elapsed().as_secs_f64();
    let flows = shaper.sample_flows().unwrap();
    let [(1, stats)] = flows[..] else { panic!("{flows:?}") };
    let most = RATE as f64 / 8.0 * seconds * 1.06 + 3000.0 + 1442.0;
    assert!(stats.drops > 0 && (stats.bytes as f64) < most, "{stats:?} in {seconds} s");
    let other = shaper.sample().unwrap();
    let all =
        other.packets + stats.packets + u64::from(stats.drops) + u64::from(stats.queued_packets);
    assert!(other.packets > stats.packets && all + 20 > sent, "{other:?} {stats:?} {sent}");
    shaper.set_flow(1, None, 20).unwrap();
    shaper.remove_flow(1).unwrap();
    assert!(shaper.sample_flows().unwrap().is_empty());
    path.gateway.within(move || drop((meter, shaper)));
}

/// Connects to a home and sends some bytes in one direction.
fn transfer(path: &Path, home: &str, upload: bool, bytes: usize) {
    let home: SocketAddr = home.parse().unwrap();
    let listener = path.mesh.within(move || TcpListener::bind(home).unwrap());
    let other = path.wired.within(move || TcpStream::connect(home).unwrap());
    let stream = listener.accept().unwrap().0;
    let (mut sender, mut receiver) = if upload { (stream, other) } else { (other, stream) };
    let read = thread::spawn(move || receiver.read_to_end(&mut Vec::new()).unwrap());
    sender.write_all(&vec![0; bytes]).unwrap();
    drop(sender);
    assert_eq!(read.join().unwrap(), bytes);
}

#[test]
fn connections_are_counted_by_home_and_direction() {
    if !root("connections_are_counted_by_home_and_direction") {
        return;
    }
    let path = Path::new();
    let mesh0 = Interface::new("mesh0").unwrap();
    let interface = mesh0.clone();
    let meter = path.gateway.within(move || {
        let mut meter = FlowMeter::load(&homes(), &[]).unwrap();
        meter.attach(&interface).unwrap();
        meter.verify().unwrap();
        meter
    });
    const BYTES: usize = 300_000;
    transfer(&path, "10.2.0.5:7001", true, BYTES);
    transfer(&path, "10.2.0.6:7002", false, BYTES);
    transfer(&path, "[fd02::7]:7003", true, BYTES);
    let found = meter.read().unwrap();
    let of = |address: &str, download: bool, ack: bool, out: bool| {
        let home = home(address.parse().unwrap());
        let is = |f: &&FlowCount| (f.home, f.download, f.ack, f.out) == (home, download, ack, out);
        found.iter().find(is).map_or((0, 0), |f| (f.packets, f.bytes))
    };
    for (address, download) in [("10.2.0.5", false), ("10.2.0.6", true), ("fd02::7", false)] {
        let (packets, bytes) = of(address, download, false, download);
        assert!((BYTES as u64..BYTES as u64 * 11 / 10).contains(&bytes), "{address}: {found:?}");
        // Merged packets count as those of which they were made.
        assert!((BYTES as u64 / 1500..BYTES as u64 / 500).contains(&packets), "{packets}");
        let (acks, small) = of(address, download, true, !download);
        assert!(acks > 0 && small <= 100 * acks, "{acks} {small}");
    }
    let mac = path.mesh.sh("cat /sys/class/net/up0/address");
    assert!(found.iter().all(|f| f.neighbour.to_string() == mac.trim()));
    // What a dead process leaves is removed by name.
    let interface = mesh0.clone();
    let mut meter = meter;
    path.gateway.within(move || {
        FlowMeter::remove(&interface).unwrap();
        drop(meter.verify());
        drop(meter);
    });
    let left = path.gateway.sh("tc qdisc show dev mesh0")
        + &path.gateway.sh("tc filter show dev mesh0 ingress");
    assert!(!left.contains("clsact") && !left.contains("fairmesh"), "{left}");
}
