//! The medium behind a simple stack against the engine's external world.
//!
//! The same frames at the same instants give the same transmissions, bit for bit.

use std::sync::Arc;

use fairmesh_engine::external::ExternalWorld;
use fairmesh_medium::{Frame, Kernel, Medium, RateChoice, RateFlags, Reception, Status};
use fairmesh_scenario::{ImportOptions, Scenario, parse};
use fairmesh_transport::quic::Ecn;
use fairmesh_units::{NodeId, Span, Stream, Time};

/// Counts what arrives and what the statuses report.
#[derive(Default)]
struct Counting {
    arrived: Vec<(u32, u64)>,
    acked: u64,
    lost: u64,
    airtime: Span,
}

impl Kernel for Counting {
    fn deliver(&mut self, _: Time, to: NodeId, frame: &Frame, _: &Reception) {
        self.arrived.push((to.0, frame.cookie));
    }
    fn report(&mut self, _: Time, _: NodeId, _: &Frame, status: &Status) {
        *(if status.acked { &mut self.acked } else { &mut self.lost }) += 1;
        self.airtime += status.airtime;
    }
}

fn address(station: u32) -> [u8; 6] {
    [2, 0, 0, 0, station as u8, 0]
}

/// Bytes of the 802.11 header, with the QoS field, and of LLC.
const QOS: usize = 26;
const LLC: usize = 8;
const HEADER: usize = 24;

fn frame(from: u32, to: Option<u32>, qos: bool, ip: u32, choice: RateChoice, cookie: u64) -> Frame {
    let header = if qos { QOS } else { HEADER };
    let mut bytes = vec![0; header + LLC + ip as usize];
    bytes[0] = if qos { 0x88 } else { 0x08 };
    bytes[4..10].copy_from_slice(&to.map_or([0xff; 6], address));
    bytes[10..16].copy_from_slice(&address(from));
    let mut series = [RateChoice { index: -1, ..choice }; 4];
    series[0] = choice;
    Frame { bytes, series, cookie, frequency: 2437, ..Frame::default() }
}

/// The action frame with which `from` accepts A-MPDUs of `to`.
///
/// It has the length of a data frame.
fn agreement(from: u32, to: u32, ip: u32, choice: RateChoice) -> Frame {
    let mut f = frame(from, Some(to), true, ip, choice, 0);
    f.bytes[0] = 0xd0;
    f.bytes[HEADER..HEADER + 9].copy_from_slice(&[3, 1, 1, 0, 0, 0x02, 0x10, 0, 0]);
    f
}

fn scenario(radio: &str) -> Arc<Scenario> {
    let text = format!(
        "duration = \"60 s\"\n[radio]\nqueue = 5000\n{radio}\n[topology]\nlinks = [[0, 1], [1, 2], [2, 3]]\n\
         sense_hops = 1\ngateway = 0\n[traffic]\nflows = \"up\"\n"
    );
    Arc::new(parse("chain.toml", text.as_bytes(), &ImportOptions::default()).unwrap())
}

/// Offers the same random frames to both, and compares transmissions and arrivals.
fn agree(radio: &str, choice: RateChoice, seed: u64) -> Counting {
    let scenario = scenario(radio);
    let modern = scenario.mac().phy.as_modern().is_some();
    let mut engine = ExternalWorld::new(Arc::clone(&scenario), seed).unwrap();
    let mut medium = Medium::new(&scenario, seed).unwrap();
    let mut kernel = Counting::default();
    for i in 0..4 {
        medium.learn(address(i), NodeId(i));
    }
    let links = [(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2)];
    let mut draws = Stream::new(seed, "offers");
    let mut at = Time::ZERO;
    let step =
        |at: Time, engine: &mut ExternalWorld, medium: &mut Medium, kernel: &mut Counting| {
            while engine.next_deadline() < at {
                engine.step();
            }
            while medium.next_deadline() < at {
                medium.step(kernel);
            }
        };
    let mut ports = Vec::new();
    for k in 0..3000u64 {
        at += Span::from_nanos(u64::from(draws.below(400_000)) + 1);
        let (from, to) = links[draws.below(6) as usize];
        if modern && k < 6 {
            let (to, from) = links[k as usize];
            at += Span::from_millis(50);
            step(at, &mut engine, &mut medium, &mut kernel);
            let port = engine.link(NodeId(from), NodeId(to)).unwrap();
            engine.offer(at, port, 200, Ecn::NotEct);
            medium
                .transmit(at, NodeId(from), agreement(from, to, 200, choice), &mut kernel)
                .unwrap();
            continue;
        }
        let ip = 20 + draws.below(1480);
        step(at, &mut engine, &mut medium, &mut kernel);
        // Broadcasts are at the lowest basic rate in the engine, and so is the fake stack's.
        let group = draws.below(20) == 0;
        let port = match group {
            true => engine.broadcast(NodeId(from)),
            false => engine.link(NodeId(from), NodeId(to)).unwrap(),
        };
        engine.offer(at, port, ip, Ecn::NotEct);
        // Without QoS field, as broadcasts of the engine are.
        let basic = RateChoice { index: 4, attempts: 1, flags: RateFlags::default() };
        let f = match group {
            true => frame(from, None, false, ip, basic, k),
            false => frame(from, Some(to), modern, ip, choice, k),
        };
        medium.transmit(at, NodeId(from), f, &mut kernel).unwrap();
        ports.push(port);
    }
    at += Span::from_secs(20);
    step(at, &mut engine, &mut medium, &mut kernel);
    assert_eq!(engine.next_deadline(), Time::NEVER, "the queues are empty");
    assert_eq!(medium.fingerprint(), engine.air_fingerprint(), "{radio}");
    assert_eq!(medium.transmissions(), engine.transmissions());
    let arrivals: Vec<u32> = engine.arrivals().iter().map(|a| a.node.0).collect();
    let same: Vec<u32> = kernel.arrived.iter().map(|a| a.0).collect();
    assert_eq!(same, arrivals, "{radio}");
    for i in 0..4 {
        assert_eq!(medium.counters(NodeId(i)).in_flight, 0);
        assert_eq!(medium.mac_counters(NodeId(i)).collided > 0, i == 1 || i == 2, "n{i}");
    }
    kernel
}

#[test]
fn as_the_engine_with_802_11a() {
    let choice = RateChoice { index: 9, attempts: 7, flags: RateFlags::default() };
    for seed in 1..4 {
        let done = agree(
            "phy = \"802.11g\"\nrate = \"24 Mbit/s\"",
            RateChoice { index: 8, ..choice },
            seed,
        );
        assert!(done.lost > 0 && done.acked > 2000, "{} {}", done.acked, done.lost);
        assert!(done.airtime > Span::from_millis(500));
    }
}

#[test]
fn as_the_engine_with_aggregates() {
    let choice = RateChoice { index: 4, attempts: 7, flags: RateFlags(RateFlags::MCS) };
    for seed in 1..4 {
        let done = agree("phy = \"802.11n\"\nmcs = 4\nchannel = 6", choice, seed);
        assert!(done.acked > 2000, "{} {}", done.acked, done.lost);
    }
}

/// Runs one lone link; its frames have a series of two rates.
#[test]
fn the_series_decides_rates_and_attempts() {
    let text = "duration = \"1 s\"\n[radio]\nphy = \"802.11a\"\n[topology]\nlinks = [[0, 1]]\ngateway = 0\n\
                [traffic]\nflows = \"up\"\n";
    let scenario = parse("pair.toml", text.as_bytes(), &ImportOptions::default()).unwrap();
    let mut medium = Medium::new(&scenario, 1).unwrap();
    struct Last(Option<Status>);
    impl Kernel for Last {
        fn deliver(&mut self, _: Time, _: NodeId, _: &Frame, _: &Reception) {}
        fn report(&mut self, _: Time, _: NodeId, _: &Frame, status: &Status) {
            self.0 = Some(*status);
        }
    }
    let mut kernel = Last(None);
    // Station 1 is known, but its address is not: the frame goes out once, without acknowledgement.
    let choice = RateChoice { index: 7, attempts: 2, flags: RateFlags::default() };
    let mut f = frame(0, Some(1), false, 500, choice, 1);
    f.frequency = 5180;
    f.series[1] = RateChoice { index: 0, attempts: 9, flags: RateFlags::default() };
    medium.transmit(Time::ZERO, NodeId(0), f.clone(), &mut kernel).unwrap();
    while medium.next_deadline() != Time::NEVER {
        medium.step(&mut kernel);
    }
    let status = kernel.0.take().unwrap();
    assert!(!status.acked && status.attempts == [1, 0, 0, 0], "{status:?}");
    medium.learn(address(1), NodeId(1));
    let at = medium.now();
    medium.transmit(at, NodeId(0), f.clone(), &mut kernel).unwrap();
    while medium.next_deadline() != Time::NEVER {
        medium.step(&mut kernel);
    }
    let status = kernel.0.take().unwrap();
    assert!(status.acked && status.attempts == [1, 0, 0, 0], "{status:?}");
    // The scenario's rate instead: one attempt at 54 Mbit/s takes a ninth of the time at 6.
    let lasting = |medium: &mut Medium, f: &Frame| {
        let mut kernel = Last(None);
        medium.transmit(medium.now(), NodeId(0), f.clone(), &mut kernel).unwrap();
        while medium.next_deadline() != Time::NEVER {
            medium.step(&mut kernel);
        }
        kernel.0.unwrap().airtime
    };
    let mut slow = f.clone();
    slow.series[0] = slow.series[1];
    let by_series = lasting(&mut medium, &slow);
    let mut fixed = Medium::new(&scenario, 1).unwrap().with_scenario_rates(&scenario);
    fixed.learn(address(1), NodeId(1));
    let by_scenario = lasting(&mut fixed, &slow);
    assert!(by_series > by_scenario * 3, "{by_series:?} {by_scenario:?}");
    // A rate that 802.11a lacks ends the run with the rate's name.
    f.series[0].flags = RateFlags(RateFlags::VHT);
    f.series[0].index = 0x28;
    let refused = medium.transmit(medium.now(), NodeId(0), f, &mut kernel).unwrap_err();
    assert!(
        refused.to_string().starts_with("0 sends at VHT MCS 8 with 3 streams, 20 MHz"),
        "{refused}"
    );
}
