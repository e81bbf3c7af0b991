use std::net::{IpAddr, Ipv4Addr};

use fairmesh_control::host::Signs;
use fairmesh_linux::capture::Flags;
use fairmesh_linux::{Direction, Interface, Subscriber};
use proptest::prelude::*;

use super::*;

const DATA: Flags = Flags { syn: false, fin: false, rst: false, ack: true };
const SYN: Flags = Flags { syn: true, fin: false, rst: false, ack: false };
const SYN_ACK: Flags = Flags { syn: true, ..DATA };
const FIN: Flags = Flags { fin: true, ..DATA };
const RST: Flags = Flags { rst: true, ..DATA };

fn at(seconds: u64) -> Time {
    Time::ZERO + Span::from_secs(seconds)
}

fn layout(classes: &[u16]) -> Layout {
    let name = |n: &str| Interface::new(n).unwrap();
    let subscriber =
        |c: &u16| Subscriber::new(*c, [format!("10.{}.{}.0/24", c >> 8, c & 255).parse().unwrap()]);
    let subscribers = classes.iter().map(subscriber).collect();
    Layout { subscribers, ..Layout::new(name("mesh0"), name("wan0")) }
}

fn reader() -> Reader {
    let mut reader = Reader::default();
    reader.settle(&layout(&[1, 2]));
    reader.opened(Time::ZERO, true);
    reader
}

/// One end of a connection of home 1 to a server.
#[derive(Clone, Copy)]
struct Ends {
    near: (IpAddr, u16),
    far: (IpAddr, u16),
}

fn ends(port: u16) -> Ends {
    let near = (IpAddr::from([10, 0, 1, 5]), port);
    Ends { near, far: (IpAddr::from([192, 0, 2, 1]), 443) }
}

impl Ends {
    fn header(self, direction: Direction, flags: Flags, seq: u32, len: u32, ack: u32) -> Header {
        let Ends { near, far } = self;
        Header {
            direction,
            near,
            far,
            mac: None,
            seq,
            ack,
            len,
            flags,
            stamps: None,
            selective: None,
            bytes: 40 + len,
        }
    }
    fn up(self, flags: Flags, seq: u32, len: u32, ack: u32) -> Header {
        self.header(Direction::Up, flags, seq, len, ack)
    }
    fn down(self, flags: Flags, seq: u32, len: u32, ack: u32) -> Header {
        self.header(Direction::Down, flags, seq, len, ack)
    }
    /// Opens a connection by the subscriber: its numbers from 100, the server's from `server`.
    fn opens(self, reader: &mut Reader, now: Time, server: u32) {
        reader.see(now, &self.up(SYN, 99, 0, 0));
        reader.see(now, &self.down(SYN_ACK, server.wrapping_sub(1), 0, 100));
        reader.see(now, &self.up(DATA, 100, 0, server));
    }
}

fn awaited(reader: &Reader, now: Time) -> [Option<u64>; 2] {
    reader.read(now, 1).unwrap().map(|r| r.awaited)
}

#[test]
fn a_download_awaits_unacknowledged_data_across_a_sequence_number_wrap() {
    for server in [5000, u32::MAX - 1500] {
        let (mut reader, c) = (reader(), ends(40_000));
        assert_eq!(reader.read(at(0), 1), None);
        c.opens(&mut reader, at(0), server);
        assert_eq!(awaited(&reader, at(0)), [Some(0), Some(0)]);
        for i in 0..3 {
            reader.see(at(0), &c.down(DATA, server.wrapping_add(1000 * i), 1000, 100));
        }
        assert_eq!(awaited(&reader, at(0)), [Some(3000), Some(0)]);
        reader.see(at(1), &c.up(DATA, 100, 0, server.wrapping_add(2000)));
        // A retransmission and an old acknowledgement do not change the awaited bytes.
        reader.see(at(1), &c.down(DATA, server.wrapping_add(2000), 1000, 100));
        reader.see(at(1), &c.up(DATA, 100, 0, server.wrapping_add(1000)));
        let [down, up] = reader.read(at(1), 1).unwrap();
        assert_eq!((down.awaited, down.repeated, up.repeated), (Some(1000), 1, 0));
        assert_eq!((down.bytes, up.bytes), (4 * 1040 + 40, 4 * 40));
        reader.see(at(1), &c.up(DATA, 100, 0, server.wrapping_add(3000)));
        assert_eq!(awaited(&reader, at(1)), [Some(0), Some(0)]);
        assert_eq!(reader.read(at(1), 2), None, "the other home's");
    }
}

#[test]
fn a_subscribers_answer_that_is_lost_shows_and_so_does_a_gap_of_an_upload() {
    let (mut reader, c) = (reader(), ends(40_000));
    // The server's SYN gets no response: a connection that starves at its start is seen.
    reader.see(at(0), &c.up(SYN, 99, 0, 0));
    assert_eq!(awaited(&reader, at(0)), [Some(0), Some(0)]);
    reader.see(at(0), &c.down(SYN_ACK, 4999, 0, 100));
    assert_eq!(awaited(&reader, at(0)), [Some(1), Some(0)]);
    reader.see(at(1), &c.down(SYN_ACK, 4999, 0, 100));
    assert_eq!(reader.read(at(1), 1).unwrap()[0].repeated, 1);
    reader.see(at(1), &c.up(DATA, 100, 1000, 5000));
    reader.see(at(1), &c.up(DATA, 2100, 1000, 5000));
    reader.see(at(1), &c.down(DATA, 5000, 0, 1100));
    assert_eq!(awaited(&reader, at(1)), [Some(0), Some(2000)]);
}

#[test]
fn a_connection_that_was_there_before_is_picked_up() {
    let (mut reader, c) = (reader(), ends(40_000));
    reader.see(at(0), &c.down(DATA, 70_000, 1000, 300));
    assert_eq!(awaited(&reader, at(0)), [Some(0), Some(0)], "not proven");
    reader.see(at(0), &c.up(DATA, 300, 0, 71_000));
    reader.see(at(0), &c.down(DATA, 71_000, 1000, 300));
    assert_eq!(awaited(&reader, at(0)), [Some(1000), Some(0)]);
}

/// Neither packets from outside nor unanswered attempts make a subscriber look starved.
///
/// None of them takes memory.
#[test]
fn floods_do_not_change_the_signs() {
    let mut reader = reader();
    for i in 0..200_000u32 {
        let c = Ends {
            far: (Ipv4Addr::from(i.wrapping_mul(2_654_435_761)).into(), 80),
            ..ends(i as u16)
        };
        let header = match i % 4 {
            0 => c.down(SYN, i, 0, 0),
            1 => c.down(DATA, i, 1000, i),
            2 => c.up(SYN, i, 0, 0),
            // The host responds to a caller with a forged address.
            _ => {
                reader.see(at(1), &c.down(SYN, i, 0, 0));
                c.up(SYN_ACK, 77, 0, i + 1)
            }
        };
        reader.see(at(1), &header);
        if i % 1000 == 0 {
            assert!(awaited(&reader, at(1)).iter().all(|a| a.is_none_or(|a| a == 0)));
        }
    }
    let home = &reader.homes[&1];
    assert!(home.connections.len() <= MAX_UNPROVEN && reader.proven == 0);
    // While more connections come than are kept the data is unknown, rather than zero.
    assert_eq!(awaited(&reader, at(1)), [None, None]);
    assert_eq!(awaited(&reader, at(12)), [Some(0), Some(0)]);
}

#[test]
fn one_subscriber_has_so_many_connections_and_all_together_too() {
    let mut reader = Reader::default();
    let classes: Vec<u16> = (1..=600).collect();
    reader.settle(&layout(&classes));
    reader.opened(Time::ZERO, true);
    for class in &classes {
        for port in 0..150 {
            let near = (IpAddr::from([10, (class >> 8) as u8, *class as u8, 5]), port);
            Ends { near, ..ends(port) }.opens(&mut reader, at(0), 1);
        }
        assert!(reader.homes[class].connections.len() <= MAX_PER_HOME);
    }
    assert!(reader.proven <= MAX_CONNECTIONS, "{}", reader.proven);
    assert_eq!(reader.proven, MAX_CONNECTIONS);
    assert!(reader.report().connections <= MAX_CONNECTIONS + 600 * MAX_UNPROVEN);
    // Removal of idle connections is not a loss; a connection without room makes the data unknown.
    assert_eq!(reader.read(at(0), 1).unwrap()[0].awaited, Some(0));
    assert_eq!(reader.read(at(0), 600).unwrap()[0].awaited, None);
    // Idle time makes room again.
    reader.tidy(at(400));
    assert_eq!((reader.report().connections, reader.proven), (0, 0));
}

#[test]
fn connections_end_and_their_ports_are_used_again() {
    let (mut reader, c) = (reader(), ends(40_000));
    c.opens(&mut reader, at(0), 5000);
    reader.see(at(0), &c.down(FIN, 5000, 10, 100));
    assert_eq!(awaited(&reader, at(0))[0], Some(11));
    reader.see(at(0), &c.up(FIN, 100, 0, 5011));
    reader.see(at(0), &c.down(DATA, 5011, 0, 101));
    assert_eq!(reader.report().connections, 0);
    c.opens(&mut reader, at(1), 9_000_000);
    reader.see(at(1), &c.down(DATA, 9_000_000, 500, 100));
    assert_eq!(awaited(&reader, at(1))[0], Some(500));
    // Without an end, the next connection begins at another number.
    reader.see(at(2), &c.up(SYN, 7_000, 0, 0));
    assert_eq!(awaited(&reader, at(2)), [Some(0), Some(0)]);
    reader.see(at(2), &c.down(SYN_ACK, 3_999_999_999, 0, 7_001));
    reader.see(at(2), &c.up(DATA, 7_001, 0, 4_000_000_000));
    reader.see(at(2), &c.down(DATA, 4_000_000_000, 700, 7_001));
    assert_eq!(awaited(&reader, at(2))[0], Some(700));
    reader.see(at(2), &c.up(RST, 7_001, 0, 0));
    assert_eq!((awaited(&reader, at(2))[0], reader.report().connections), (Some(0), 0));
}

/// A telephone that left without closing counts for a minute.
///
/// It is sent to for a quarter of an hour.
#[test]
fn an_abandoned_connection_counts_for_a_minute() {
    let (mut reader, c) = (reader(), ends(40_000));
    c.opens(&mut reader, at(0), 5000);
    for second in [1, 2, 4, 8, 16, 32, 60] {
        reader.see(at(second), &c.down(DATA, 5000, 1000, 100));
        assert_eq!(awaited(&reader, at(second))[0], Some(1000));
    }
    assert_eq!(awaited(&reader, at(65))[0], Some(1000));
    reader.see(at(66), &c.down(DATA, 5000, 1000, 100));
    assert_eq!(awaited(&reader, at(66))[0], Some(0));
    // An acknowledgement of new data restarts the time.
    reader.see(at(70), &c.up(DATA, 100, 0, 5500));
    assert_eq!(awaited(&reader, at(71))[0], Some(500));
}

#[test]
fn after_lost_headers_data_is_unknown_until_the_next_acknowledgement() {
    let (mut reader, c, idle) = (reader(), ends(40_000), ends(40_001));
    c.opens(&mut reader, at(0), 5000);
    idle.opens(&mut reader, at(0), 5000);
    reader.see(at(1), &c.down(DATA, 5000, 1000, 100));
    reader.counted(at(2), 500, 3);
    assert_eq!(awaited(&reader, at(2)), [None, None]);
    // Its acknowledgement may be among the lost headers. The idle one is unchanged.
    assert_eq!(awaited(&reader, at(15)), [None, Some(0)]);
    reader.see(at(16), &c.up(DATA, 100, 0, 6000));
    assert_eq!(awaited(&reader, at(16)), [Some(0), Some(0)]);
    let report = reader.report();
    assert_eq!((report.packets, report.lost), (500, 3));
}

#[test]
fn data_of_changed_addresses_is_discarded() {
    let (mut reader, c) = (reader(), ends(40_000));
    c.opens(&mut reader, at(0), 5000);
    reader.settle(&layout(&[1, 2, 3]));
    assert!(reader.read(at(0), 1).is_some());
    let mut moved = layout(&[1, 2]);
    moved.subscribers[0].prefixes = vec!["10.9.0.0/16".parse().unwrap()];
    reader.settle(&moved);
    assert_eq!((reader.read(at(0), 1), reader.proven), (None, 0));
    c.opens(&mut reader, at(0), 5000);
    assert_eq!(reader.report().connections, 0, "the address belongs to no subscriber");
    // Data is unknown while headers are not read.
    reader.settle(&layout(&[1, 2]));
    c.opens(&mut reader, at(0), 5000);
    reader.opened(at(1), false);
    assert_eq!(reader.read(at(1), 1), None);
}

proptest! {
    /// For any order of segments the result equals the simulator's rule with unwrapped numbers.
    #[test]
    fn it_is_the_simulators_rule(first: u32, steps in proptest::collection::vec((any::<bool>(), 0u32..20), 1..60)) {
        let (mut reader, c) = (reader(), ends(40_000));
        c.opens(&mut reader, at(0), first);
        let mut rule = Signs::from(1);
        let mut end = 0u32;
        for (data, step) in steps {
            if data {
                // Mostly new data, sometimes repeated.
                let from = if step < 15 { end } else { end.saturating_sub((step - 14) * 1000) };
                end = end.max(from + 1000);
                reader.see(at(1), &c.down(DATA, first.wrapping_add(from), 1000, 100));
                rule.passed(u64::from(from) + 1001, true);
            } else {
                let before = end.saturating_sub(step * 500);
                reader.see(at(1), &c.up(DATA, 100, 0, first.wrapping_add(before)));
                rule.answered(u64::from(before) + 1);
            }
            let [down, _] = reader.read(at(1), 1).unwrap();
            prop_assert_eq!((down.awaited, down.repeated), (Some(rule.awaited()), rule.repeated()));
        }
    }

    /// Any received headers leave memory within its bounds and counts right.
    #[test]
    fn memory_is_bounded(headers in proptest::collection::vec(
        (any::<bool>(), 0u16..300, any::<u32>(), any::<u32>(), 0u8..16, 0u32..70_000, 0u64..3), 0..600,
    )) {
        let mut reader = reader();
        let mut now = 0;
        for (up, port, seq, ack, flags, len, step) in headers {
            now += step;
            let bit = |n: u8| flags >> n & 1 != 0;
            let flags = Flags { syn: bit(0), fin: bit(1), rst: bit(2) && bit(0), ack: bit(3) };
            let direction = if up { Direction::Up } else { Direction::Down };
            reader.see(at(now), &ends(port % 150).header(direction, flags, seq % 5000, len, ack % 5000));
            reader.tidy(at(now));
            if let Some(home) = reader.homes.get(&1) {
                let unproven = home.connections.iter().filter(|c| !c.proven).count();
                prop_assert_eq!((unproven, home.keys.len()), (home.unproven, home.connections.len()));
                prop_assert!(unproven <= MAX_UNPROVEN && home.keys.len() <= MAX_PER_HOME);
                prop_assert_eq!(reader.proven, home.keys.len() - unproven);
            }
        }
    }
}

fn ms(n: u64) -> Time {
    Time::ZERO + Span::from_millis(n)
}

fn stamped(header: Header, value: u32, echo: u32) -> Header {
    Header { stamps: Some([value, echo]), ..header }
}

/// Returns medians in ms, and numbers of round trips.
fn trips(reader: &mut Reader) -> [Option<(u64, u32)>; 2] {
    let of = |s: RoundTripSample| (s.median.as_nanos() / 1_000_000, s.count);
    reader.round_trips(1).map(|s| s.map(of))
}

#[test]
fn a_download_gives_the_round_trip_of_its_data_also_without_timestamps() {
    let (mut reader, c) = (reader(), ends(40_000));
    c.opens(&mut reader, ms(0), 5000);
    for k in 0..4 {
        reader.see(ms(100 + u64::from(k)), &c.down(DATA, 5000 + 1000 * k, 1000, 100));
    }
    assert_eq!(reader.read(ms(120), 1).unwrap()[0].oldest, Some(Span::from_millis(20)));
    reader.see(ms(140), &c.up(DATA, 100, 0, 7000));
    let selective = Header { selective: Some(9000), ..c.up(DATA, 100, 0, 7000) };
    reader.see(ms(163), &selective);
    assert_eq!(trips(&mut reader), [Some((60, 2)), None], "39 and 60 ms");
    assert_eq!(trips(&mut reader), [None; 2], "the next look has none");
    assert_eq!(reader.read(ms(170), 1).unwrap().map(|r| r.oldest), [None; 2]);
}

#[test]
fn an_upload_gives_the_round_trip_of_the_acknowledgement_that_releases_data() {
    let (mut reader, c) = (reader(), ends(40_000));
    c.opens(&mut reader, ms(0), 5000);
    reader.see(ms(10), &stamped(c.up(DATA, 100, 1000, 5000), 1, 900));
    reader.see(ms(11), &stamped(c.up(DATA, 1100, 1000, 5000), 1, 900));
    // More data is in flight: the sender waits for this acknowledgement.
    reader.see(ms(20), &stamped(c.down(DATA, 5000, 0, 1100), 950, 1));
    reader.see(ms(55), &stamped(c.up(DATA, 2100, 1000, 5000), 2, 950));
    assert_eq!(trips(&mut reader), [None, Some((35, 1))]);
    // All data is acknowledged: the next data comes when the sender has some.
    reader.see(ms(60), &stamped(c.down(DATA, 5000, 0, 3100), 990, 2));
    reader.see(ms(9000), &stamped(c.up(DATA, 3100, 1000, 5000), 2, 990));
    assert_eq!(trips(&mut reader), [None; 2]);
}

#[test]
fn nothing_is_measured_over_lost_headers_or_of_a_connection_that_is_not_proven() {
    let (mut reader, c) = (reader(), ends(40_000));
    c.opens(&mut reader, ms(0), 5000);
    reader.see(ms(100), &c.down(DATA, 5000, 1000, 100));
    reader.counted(ms(110), 10, 1);
    reader.see(ms(140), &c.up(DATA, 100, 0, 6000));
    assert_eq!(trips(&mut reader), [None; 2]);
    let stranger = ends(50_000);
    reader.see(ms(200), &stranger.down(DATA, 1, 1000, 7));
    reader.see(ms(240), &stranger.up(DATA, 7, 0, 1001));
    assert_eq!(trips(&mut reader), [None; 2]);
}

/// An end that withholds acknowledgements or forges echoes cannot cause a false round trip.
///
/// An upload with unacknowledged data waits for its sender's timer.
#[test]
fn forged_echoes_measure_nothing() {
    let (mut reader, c) = (reader(), ends(40_000));
    c.opens(&mut reader, ms(0), 5000);
    reader.see(ms(10), &stamped(c.up(DATA, 100, 1000, 5000), 1, 900));
    reader.see(ms(11), &stamped(c.up(DATA, 1100, 1000, 5000), 1, 900));
    reader.see(ms(20), &stamped(c.down(DATA, 5000, 0, 1100), 950, 1));
    for (k, echo) in [0, 949, 951, u32::MAX, 950 + (1 << 31)].into_iter().enumerate() {
        let seq = 2100 + 1000 * k as u32;
        reader.see(ms(30), &stamped(c.up(DATA, seq, 1000, 5000), 2, echo));
    }
    assert_eq!(trips(&mut reader), [None; 2]);
    reader.see(ms(40), &stamped(c.down(DATA, 5000, 0, 1200), 960, 1));
    // The first data of the flow are missing, so its sender's timer runs. `Reader::stalled` bounds the age.
    for second in [2, 4, 50] {
        let oldest = reader.read(ms(1000 * second), 1).unwrap()[1].oldest;
        assert_eq!(oldest, Some(Span::from_millis(1000 * second - 40)));
    }
}

/// The bound of docs/gateway-signs.md holds.
///
/// It is for 10,000 flooded homes, with every connection full both ways.
#[test]
fn memory_is_bounded_as_documented() {
    use fairmesh_control::host::{Trip, Trips};
    const HOMES: usize = 10_000;
    let connection = size_of::<u64>() + size_of::<Connection>();
    let full = connection + 2 * (Trips::LARGEST - size_of::<Trips>());
    // The round trips of a sample, both ways.
    let quic = MAX_SPINNING * size_of::<(u64, Time, Spin)>();
    let home = size_of::<Home>() + 2 * 32 * size_of::<Trip>() + quic;
    let most = MAX_CONNECTIONS * full + HOMES * MAX_UNPROVEN * connection + HOMES * home;
    assert!(most < 100_000_000, "{most}");
    assert!(connection <= 256, "{connection}");
    println!("{most} bytes at most, {connection} a connection");
}

fn datagram(direction: Direction, home: [u8; 4], spin: Option<bool>) -> Datagram {
    Datagram {
        direction,
        near: (home.into(), 50_000),
        far: ([192, 0, 2, 1].into(), 443),
        mac: None,
        spin,
    }
}

/// Probes go to the address of a home's traffic.
///
/// Before any header is read, they go to a single configured address. A home with TCP round trips is not
/// probed.
#[test]
fn probes_go_where_traffic_is_and_no_round_trip() {
    let mut reader = reader();
    let sends = |reader: &mut Reader, at| {
        (1..=2).for_each(|class| reader.want_probe(ms(at), class, [50, 0]));
        core::iter::from_fn(|| reader.poll_probe(ms(at))).next()
    };
    assert_eq!(sends(&mut reader, 0), None, "no address is known");
    reader.see_datagram(ms(100), &datagram(Direction::Down, [10, 0, 1, 7], None));
    let (to, sequence) = sends(&mut reader, 1000).unwrap();
    assert_eq!(to, IpAddr::from([10, 0, 1, 7]));
    reader.probe_answered(ms(1030), sequence.wrapping_add(1));
    assert_eq!(trips(&mut reader), [None; 2], "another number");
    reader.probe_answered(ms(1040), sequence);
    reader.probe_answered(ms(1900), sequence);
    assert_eq!(
        trips(&mut reader),
        [Some((40, 1)), None],
        "once, and for the direction with traffic"
    );
    // TCP's own round trips take precedence.
    let c = ends(40_000);
    c.opens(&mut reader, ms(2000), 5000);
    reader.see(ms(2100), &c.down(DATA, 5000, 1000, 100));
    reader.see(ms(2150), &c.up(DATA, 100, 0, 6000));
    assert_eq!(sends(&mut reader, 3000), None);
    assert!(sends(&mut reader, 6000).is_some());

    let mut moved = layout(&[1, 2]);
    moved.subscribers[1].prefixes = vec!["10.0.2.9/32".parse().unwrap()];
    reader.settle(&moved);
    reader.want_probe(ms(8000), 2, [50, 0]);
    assert_eq!(reader.poll_probe(ms(8000)).map(|s| s.0), Some([10, 0, 2, 9].into()));
    reader.opened(ms(9000), false);
    assert_eq!(sends(&mut reader, 10_000), None, "headers are not read");
}

/// One direction on another path, or a clock that jumps, causes no round trip and no stall.
#[test]
fn one_direction_alone_gives_nothing() {
    for seen in Direction::BOTH {
        let (mut reader, c) = (reader(), ends(40_000));
        for k in 0..100 {
            let at = ms(50 * k);
            let (up, down) =
                (c.up(DATA, 100, 0, 5000), c.down(DATA, 5000 + 1000 * k as u32, 1000, 100));
            reader.see(at, if seen == Direction::Up { &up } else { &down });
        }
        assert_eq!(trips(&mut reader), [None; 2]);
        assert_eq!(reader.read(ms(9000), 1).unwrap().map(|r| r.oldest), [None; 2]);
    }
}

/// A home that acknowledges nothing any more counts as stalled for a minute and is reported.
///
/// A home that withholds on one connection and acknowledges on another one does not.
#[test]
fn withheld_acknowledgements_count_for_a_minute_and_are_named() {
    let (mut reader, c, other) = (reader(), ends(40_000), ends(40_001));
    c.opens(&mut reader, ms(0), 5000);
    reader.see(ms(100), &c.down(DATA, 5000, 1000, 100));
    let look = |reader: &mut Reader, at| {
        let oldest = reader.read(ms(at), 1).unwrap().map(|r| r.oldest);
        reader.stalled(ms(at), 1, oldest)[0]
    };
    assert_eq!(look(&mut reader, 3100), Some(Span::from_secs(3)));
    other.opens(&mut reader, ms(3200), 5000);
    reader.see(ms(4000), &other.down(DATA, 5000, 1000, 100));
    reader.see(ms(4050), &other.up(DATA, 100, 0, 6000));
    assert_eq!(look(&mut reader, 4100), Some(Span::from_millis(100)));
    for second in 5..70 {
        // The server retransmits.
        reader.see(ms(1000 * second), &c.down(DATA, 5000, 1000, 100));
        assert_eq!(look(&mut reader, 1000 * second).is_some(), second <= 64, "{second}");
    }
    assert_eq!(reader.withholding(), [1]);
    assert_eq!(reader.withholding(), [0u16; 0], "once");
}

/// A hundred thousand QUIC connections of one home, each with its spin bit.
#[test]
fn quic_connections_are_bounded() {
    let mut reader = reader();
    for i in 0..100_000u32 {
        let d = datagram(Direction::BOTH[(i % 2) as usize], [10, 0, 1, 7], Some(i % 3 == 0));
        let far = (IpAddr::from(i.to_be_bytes()), 443);
        reader.see_datagram(ms(u64::from(i)), &Datagram { far, ..d });
    }
    assert_eq!(reader.homes[&1].spinning.len(), MAX_SPINNING);
    assert_eq!(trips(&mut reader), [None; 2]);
}
