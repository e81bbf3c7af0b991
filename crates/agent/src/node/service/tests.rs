use fairmesh_linux::bpf::FlowCount;
use fairmesh_linux::nl80211::{Station, TransmitQueue};
use fairmesh_units::{BitRate, Stream};
use serde_json::Value;

use super::*;
use crate::gateway::config::capacity_of;
use crate::key::Key;
use crate::node::fake::{Fake, World};
use crate::node::machine::Carrier;
use crate::node::message::{self, Draft, Field, Role};
use crate::node::numbers;
use crate::node::report;

const GATEWAY: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const GAP: &str = "[control]\nuse = \"gap\"\nguarantee = 500\n";

fn key() -> MeshKey {
    MeshKey::new(Key::new([1; 32]))
}

fn config(routing: &str, more: &str) -> Config {
    let text = format!("interfaces = [\"m0\", \"m1\"]\nrouting = \"{routing}\"\n{more}");
    Config::parse("node.toml", &text).unwrap()
}

fn station(mac: MacAddr, mbit: u64) -> Station {
    Station {
        rx_bytes: Some(1000),
        tx_bytes: Some(1000),
        rx_packets: Some(10),
        tx_packets: Some(10),
        tx_rate: Some(BitRate(mbit * 1_000_000)),
        queue: Some(TransmitQueue::default()),
        ..Station::new(mac)
    }
}

/// A router on a fake machine, with virtual time.
struct Bench {
    fake: Fake,
    router: Router<Fake>,
    now: Time,
    /// The gateway's sender of messages.
    gateway: Announcer,
}

impl Bench {
    fn new(more: &str) -> Bench {
        Bench::at("hwmp", more)
    }

    fn at(routing: &str, more: &str) -> Bench {
        Bench::of(&format!("interfaces = [\"m0\", \"m1\"]\nrouting = \"{routing}\"\n"), more)
    }

    fn of(place: &str, more: &str) -> Bench {
        let fake = Fake::with(2);
        let reload = Config::parse("node.toml", &format!("{place}{more}")).unwrap();
        let parts = Parts {
            machine: fake.clone(),
            config: reload.clone(),
            file: "node.toml".into(),
            load: Box::new(move || Ok(reload.clone())),
            key: key(),
            run: 7,
            heartbeat: Box::new(|| ()),
            random: Box::new(|| 77),
        };
        let gateway = Announcer::new(key(), GATEWAY, 1);
        Bench { fake, router: Router::new(parts), now: Time::ZERO, gateway }
    }

    fn world(&self) -> std::cell::RefMut<'_, World> {
        self.fake.0.borrow_mut()
    }

    fn moment(&self) -> Moment {
        Moment { now: self.now, wall: 0 }
    }

    /// Runs for some milliseconds; `each` runs every 100 ms.
    fn run(&mut self, ms: u64, mut each: impl FnMut(&mut Bench)) {
        let end = self.now + Span::from_millis(ms);
        let mut next_each = self.now;
        while self.now < end {
            if self.now >= next_each {
                each(self);
                next_each = self.now + Span::from_millis(100);
            }
            let next = self.router.turn(self.moment());
            // Messages are inputs, so that time passes in steps of 100 ms at most.
            let next = next.min(next_each).min(end);
            self.now = next.max(self.now + Span::from_nanos(1));
        }
    }

    /// The gateway sends a message with these bodies of GAP.
    fn gateway_sends(&mut self, bodies: &[&[u8]]) {
        let mut draft = Draft::new();
        assert!(draft.push(Field::Role(Role::Gateway)) && draft.push(Field::Mechanism("gap")));
        assert!(bodies.iter().all(|body| draft.push(Field::Body(body))));
        if let Ok(bytes) = self.gateway.seal(self.now, &draft) {
            self.world().inbox.push_back((1, bytes));
        }
    }

    fn status(&mut self) -> Value {
        self.ask("status")
    }

    fn ask(&mut self, command: &str) -> Value {
        let at = self.moment();
        match self.router.request(at, &format!("{{\"command\":\"{command}\"}}")) {
            Response::Ok(value) => value,
            Response::Refused(refusal) => panic!("{refusal}"),
        }
    }

    fn limit(&self) -> Option<u64> {
        self.world().class.as_ref().and_then(|c| c.1).map(|r| r.0)
    }
}

#[test]
fn a_router_without_control_senses_and_sends_within_the_rate() {
    let mut b = Bench::new("");
    b.world().stations = vec![station(GATEWAY, 54)];
    b.run(5000, |_| ());
    let sent: Vec<_> = b.world().sent.drain(..).collect();
    assert_eq!(sent.len(), 2 * 5, "one message a second on each interface");
    let read = message::open(&key(), &sent[0].1).unwrap();
    assert_eq!((read.fields.role(), read.run, read.sequence), (Role::Router, 7, 1));
    let number = numbers::derived(MacAddr([2, 0, 0, 0, 9, 0]));
    assert_eq!(read.fields.number(), Some(number), "of the first interface, on both");
    assert_eq!(b.status()["number"], number);
    let status = b.status();
    assert_eq!(status["neighbours"][0]["mac"], GATEWAY.to_string());
    assert_eq!(status["neighbours"][0]["rate_bits_per_second"], 54_000_000);
    assert_eq!(status["neighbours"][0]["role"], Value::Null, "it sends no messages");
    assert_eq!(status["running"], false);
    assert!((status["channel_busy"].as_f64().unwrap() - 0.5).abs() < 0.01, "{status}");
    b.gateway_sends(&[]);
    b.run(100, |_| ());
    assert_eq!(b.status()["neighbours"][0]["role"], "gateway");
    b.world().stations.clear();
    b.run(6000, |_| ());
    assert_eq!(b.status()["neighbours"].as_array().unwrap().len(), 0);
}

/// GAP's bit: 0x50, I_U 1, I_S 2.
const HIGH: &[u8] = &[0x53];
const LOW: &[u8] = &[0x52];

/// Local traffic that uses its limit and waits.
#[test]
fn collisions_do_not_lower_the_capacity_of_a_link() {
    let mut b = Bench::new("");
    let mut expecting = |mbit: u64| {
        let mut found = station(GATEWAY, 54);
        found.expected_throughput = Some(BitRate(mbit * 1_000_000));
        b.world().stations = vec![found];
        b.run(1500, |_| ());
        b.status()["neighbours"][0]["capacity_bits_per_second"].as_u64().unwrap()
    };
    assert_eq!(expecting(7), capacity_of(BitRate(54_000_000)).0, "frames collide");
    assert_eq!(expecting(40), 40_000_000, "frames are sent as aggregates");
}

fn saturate(b: &mut Bench) {
    let limit = b.limit().unwrap_or(1_000_000);
    let mut world = b.world();
    world.counters.bytes += limit / 80;
    world.counters.packets += limit / 80 / 1500;
    world.counters.drops += 1;
    world.counters.queued_packets = 10;
}

#[test]
fn gap_limits_local_traffic_by_the_gateways_bit() {
    let mut b = Bench::new(&format!("mode = \"apply\"\n{GAP}"));
    b.world().stations = vec![station(GATEWAY, 54)];
    b.run(2000, |_| ());
    assert_eq!(b.world().installs, 0, "no gateway is known");
    assert!(b.status()["waits"].as_str().unwrap().contains("a gateway among the neighbours"));
    b.run(3000, |b| b.gateway_sends(&[LOW]));
    let first = b.limit().expect("a limit");
    assert_eq!(b.world().class.as_ref().unwrap().0.interface.name(), "m0", "the station's side");
    assert!(first >= 500_000, "the guarantee: {first}");
    b.run(5000, |b| {
        saturate(b);
        b.gateway_sends(&[LOW]);
    });
    let more = b.limit().unwrap();
    assert!(more > first, "{first} {more}");
    b.run(5000, |b| {
        saturate(b);
        b.gateway_sends(&[HIGH]);
    });
    let less = b.limit().unwrap();
    assert!(less < more && less >= 450_000, "{more} {less}");
    let status = b.status();
    assert_eq!(status["limit"]["applied"], true);
    assert_eq!(status["limit"]["bits_per_second"], less);
    let why = b.ask("why");
    let text = report::why_text(&serde_json::from_value(why.clone()).unwrap());
    assert!(text.contains("gap.decrease: the gateway is in use"), "{text}");
    // A link with a quarter of the rate, and one more neighbour: the limit stays.
    b.world().stations[0].tx_rate = Some(BitRate(12_000_000));
    b.world().stations.push(station(MacAddr([2, 0, 0, 0, 0, 9]), 54));
    b.run(3000, |b| {
        saturate(b);
        b.gateway_sends(&[HIGH]);
    });
    assert!((400_000..=less).contains(&b.limit().unwrap()), "{less} {:?}", b.limit());
    assert_eq!(b.world().installs, 1, "changed in place");
    // Without messages of the gateway the limit is removed.
    b.run(4000, |_| ());
    assert_eq!((b.limit(), b.world().class.is_some()), (None, false));
    b.run(12_000, |b| b.gateway_sends(&[LOW]));
    assert!(b.limit().is_some(), "it is back");
    b.router.stop(b.moment()).unwrap();
    assert!(b.world().class.is_none());
}

#[test]
fn observation_decides_and_sets_nothing() {
    let mut b = Bench::new(GAP);
    b.world().stations = vec![station(GATEWAY, 54)];
    b.run(5000, |b| {
        saturate(b);
        b.gateway_sends(&[HIGH]);
    });
    let status = b.status();
    assert_eq!(status["running"], true, "{status}");
    assert_eq!(status["limit"]["applied"], false);
    assert!(status["limit"]["bits_per_second"].as_u64().unwrap() > 0);
    assert_eq!(b.world().installs, 0);
    assert_eq!(b.world().rates, 0);
    assert!(
        report::status_text(&serde_json::from_value(status).unwrap()).contains("observed only")
    );
}

#[test]
fn a_gateway_sends_its_bit_at_most_ten_times_a_second() {
    let mut b = Bench::new(&format!("role = \"gateway\"\n{GAP}"));
    b.world().stations = vec![station(MacAddr([2, 0, 0, 0, 0, 8]), 54)];
    b.world().busy = Some(0.99);
    b.run(10_000, |b| b.world().stations[0].rx_bytes = Some(b.now.as_nanos() / 1000));
    let sent: Vec<_> = b.world().sent.drain(..).filter(|s| s.0 == 0).collect();
    assert!((80..=100).contains(&sent.len()), "{}", sent.len());
    let last = message::open(&key(), &sent.last().unwrap().1).unwrap();
    assert_eq!(last.fields.role(), Role::Gateway);
    assert_eq!(last.fields.bodies("gap", &[]).collect::<Vec<_>>(), [HIGH]);
}

#[test]
fn a_failing_kernel_lifts_the_limit_and_is_tried_again() {
    let mut b = Bench::new(&format!("mode = \"apply\"\n{GAP}"));
    b.world().stations = vec![station(GATEWAY, 54)];
    b.run(3000, |b| b.gateway_sends(&[LOW]));
    assert!(b.limit().is_some());
    // Another program removes the class, and it cannot be built again.
    b.world().class = None;
    b.world().broken = true;
    b.run(20_000, |b| b.gateway_sends(&[LOW]));
    assert!(b.router.rig.journal.total("limit.failed") > 1);
    assert!(b.status()["waits"].as_str().unwrap().contains("a test's fault"));
    b.world().broken = false;
    b.run(15_000, |b| b.gateway_sends(&[LOW]));
    assert!(b.limit().is_some(), "it is back");
    // The guard has removed it.
    b.world().class = None;
    let at = b.moment();
    b.router.lapsed(at);
    b.run(2000, |b| b.gateway_sends(&[LOW]));
    assert!(b.limit().is_some(), "it is back");
}

/// CNA at a router that relays one flow from a neighbour to the gateway.
#[test]
fn airtime_shares_become_limits_of_next_hops_that_follow_the_airtime() {
    const HOME: MacAddr = MacAddr([2, 0, 0, 0, 0, 3]);
    let more = "mode = \"apply\"\n[control]\nuse = \"cna+sampled+messages\"\n";
    let mut b = Bench::at("layer3", more);
    let with = |mac| Station { tx_airtime_us: Some(0), ..station(mac, 54) };
    b.world().stations = vec![with(GATEWAY), with(HOME)];
    let flow = |neighbour, out, ack| FlowCount {
        neighbour,
        out,
        ack,
        home: 0x0a09_0004,
        download: false,
        packets: 0,
        bytes: 0,
    };
    b.world().flows = vec![
        flow(HOME, false, false),
        flow(GATEWAY, true, false),
        flow(GATEWAY, false, true),
        flow(HOME, true, true),
    ];
    // Packets of 1514 bytes for .5 ms each, one for two of the home, and of as many acknowledgements.
    let relay = |b: &mut Bench| {
        let mut world = b.world();
        for f in &mut world.flows {
            let (packets, size) = if f.ack { (50, 52) } else { (100, 1500) };
            (f.packets, f.bytes) = (f.packets + packets, f.bytes + packets * size);
        }
        for s in &mut world.stations {
            let (packets, size, airtime) =
                if s.mac == HOME { (50, 66, 100) } else { (100, 1514, 500) };
            s.tx_packets = s.tx_packets.map(|n| n + packets);
            s.tx_bytes = s.tx_bytes.map(|n| n + u64::from(packets) * size);
            s.tx_airtime_us = s.tx_airtime_us.map(|us| us + u64::from(packets) * airtime);
        }
    };
    b.run(8000, relay);
    let status = b.status();
    assert_eq!(status["running"], true, "{status}");
    let shares = status["shares"].as_array().unwrap().clone();
    let of = |mac: MacAddr| {
        let found = shares.iter().find(|s| s["next_hop"] == mac.to_string()).unwrap();
        let part = |key: &str| found[key].as_f64().unwrap();
        (part("share"), part("bits_per_second"))
    };
    let (share, rate) = of(GATEWAY);
    assert!((0.2..0.9).contains(&share), "{status}");
    // 1514 bytes for .5 ms of airtime.
    let wanted = share * 1514.0 * 8.0 / 0.5e-3;
    assert!((rate / wanted - 1.0).abs() < 0.02, "{rate} {wanted}");
    let m0 = b.router.rig.config.interfaces[0].clone();
    let installed = b.world().hops[&m0][&GATEWAY].unwrap().0 as f64;
    assert!((installed / rate - 1.0).abs() < 0.011, "{installed} {rate}");
    let why = b.ask("why");
    assert!(why.to_string().contains("cna.limit"), "{why}");
    // The home leaves: its limit ends, and the others stay.
    b.world().stations.truncate(1);
    b.world().flows.clear();
    b.run(15_000, |_| ());
    let limit = b.world().hops[&m0].get(&HOME).copied();
    assert_eq!(limit, Some(None));
    assert!(b.ask("why").to_string().contains("is no longer a neighbour"));
    let shares = b.status()["shares"].clone();
    assert_eq!(shares.as_array().unwrap().len(), 1, "{shares}");
    b.router.stop(b.moment()).unwrap();
    assert!(b.world().hops.is_empty() && !b.world().counting);
}

/// `mesh-maxmin` limits the flow of the router's home, and not the one that it relays.
#[test]
fn a_flow_that_enters_here_has_a_class_until_it_ends() {
    const HOME: MacAddr = MacAddr([2, 0, 0, 0, 0, 3]);
    let more = "mode = \"apply\"\n[control]\nuse = \"mesh-maxmin+sampled+messages\"\n";
    // Classes of flows are on one mesh interface.
    let mut b = Bench::of("interfaces = [\"m0\"]\nrouting = \"layer3\"\n", more);
    b.world().ports.truncate(1);
    b.world().stations = vec![station(GATEWAY, 54), station(HOME, 54)];
    let flow = |neighbour, out, home| FlowCount {
        neighbour,
        out,
        ack: false,
        home,
        download: false,
        packets: 0,
        bytes: 0,
    };
    let (own, other) = (0x0a09_0003, 0x0a09_0004);
    b.world().flows =
        vec![flow(GATEWAY, true, own), flow(GATEWAY, true, other), flow(HOME, false, other)];
    let send = |b: &mut Bench| {
        let mut world = b.world();
        for f in &mut world.flows {
            (f.packets, f.bytes) = (f.packets + 20, f.bytes + 30_000);
        }
        for s in &mut world.stations {
            s.tx_packets = s.tx_packets.map(|n| n + 40);
            s.tx_bytes = s.tx_bytes.map(|n| n + 60_000);
        }
    };
    b.run(4000, send);
    let class = {
        let world = b.world();
        let classes: Vec<_> = world.flow_classes.values().copied().collect();
        let [class] = classes[..] else { panic!("{classes:?}") };
        assert_eq!((class.home, class.packets), ((own, false), 6));
        class
    };
    let status = b.status();
    assert_eq!(status["flows"][0]["home"], "10.9.0.3", "{status}");
    assert_eq!(status["flows"][0]["bits_per_second"], class.rate.unwrap().0);
    // Its limit moves, in place.
    b.run(10_000, send);
    let later = b.world().flow_classes[&class.number];
    assert!(later.rate.is_some() && later.rate != class.rate, "{later:?}");
    // A link with another rate, and a neighbour that comes: the limit continues from its present value.
    b.world().stations[0].tx_rate = Some(BitRate(6_000_000));
    b.world().stations.push(station(MacAddr([2, 0, 0, 0, 0, 9]), 54));
    b.run(3000, send);
    let goes_on = b.world().flow_classes[&class.number].rate.unwrap().0 as f64;
    let before = later.rate.unwrap().0 as f64;
    assert!((0.7..2.5).contains(&(goes_on / before)), "{before} {goes_on}");
    assert_eq!(b.world().installs, 1);
    // It ends, with packets that still wait: they leave without limit.
    b.world().waiting = 3;
    b.run(125_000, |b| {
        let mut world = b.world();
        world.flows[1].packets += 20;
        world.flows[2].packets += 20;
    });
    assert_eq!(b.world().flow_classes[&class.number].rate, None);
    assert_eq!(b.status()["flows"].as_array().unwrap().len(), 0);
    b.world().waiting = 0;
    b.run(2000, |_| ());
    assert!(b.world().flow_classes.is_empty());
    b.router.stop(b.moment()).unwrap();
    assert!(b.world().class.is_none() && !b.world().counting);
}

#[test]
fn observed_airtime_shares_install_nothing() {
    let mut b = Bench::at("layer3", "[control]\nuse = \"cna+sampled+messages\"\n");
    let with = |mac| Station { tx_airtime_us: Some(0), ..station(mac, 54) };
    b.world().stations = vec![with(GATEWAY)];
    b.run(3000, |_| ());
    let status = b.status();
    assert_eq!(
        (&status["running"], status["shares"][0]["applied"].as_bool()),
        (&true.into(), Some(false))
    );
    let world = b.world();
    assert_eq!((world.installs, world.hops.len(), world.counting), (0, 0, true));
}

/// A gateway with the same number is the only neighbour.
#[test]
fn a_number_that_two_routers_have_is_named() {
    let mut b = Bench::new(&format!("number = 5\n{GAP}"));
    b.world().stations = vec![station(GATEWAY, 54)];
    let announce = |b: &mut Bench, number: u16| {
        let mut draft = Draft::new();
        assert!(draft.push(Field::Role(Role::Gateway)) && draft.push(Field::Number(number)));
        if let Ok(bytes) = b.gateway.seal(b.now, &draft) {
            b.world().inbox.push_back((1, bytes));
        }
    };
    b.run(3000, |b| announce(b, 5));
    let waits = b.status()["waits"].as_str().unwrap().to_owned();
    assert!(waits.contains("has this router's number, 5; set `number`"), "{waits}");
    b.run(3000, |b| announce(b, 6));
    assert_eq!(b.status()["running"], true);
    let starts = b.router.next_start;
    b.run(9000, |b| announce(b, 6));
    assert_eq!(b.router.next_start, starts, "it was not started again");
    b.run(1000, |b| announce(b, 7));
    assert!(b.router.next_start > starts, "with the new number");
}

#[test]
fn interfaces_that_come_and_go_are_named() {
    let mut b = Bench::new("");
    b.world().ports[1] = Port::default();
    b.run(3000, |_| ());
    let events: Vec<String> =
        b.router.rig.journal.take().iter().map(|n| format!("{}: {}", n.code, n.text)).collect();
    assert_eq!(
        events,
        [
            "interface.up: m0: a radio, with the use of its channel",
            "carrier.chosen: m0: messages are sent by UDP",
            "interface.lost: m1: there is no such interface; waiting for it"
        ]
    );
    assert!(b.world().sent.iter().all(|s| s.0 == 0));
    let up = b.world().ports[0].clone();
    b.world().ports[1] = Port { mac: Some(MacAddr([2, 0, 0, 0, 9, 1])), ..up };
    b.run(3000, |_| ());
    assert!(b.world().sent.iter().any(|s| s.0 == 1));
}

/// Neighbours with the key that send whatever they like.
#[test]
fn hostile_neighbours_change_no_limit_and_use_bounded_memory() {
    let mut b = Bench::new(&format!("mode = \"apply\"\n{GAP}"));
    b.world().stations = vec![station(GATEWAY, 54)];
    b.run(3000, |b| b.gateway_sends(&[LOW]));
    let limit = b.limit();
    let mut stream = Stream::new(3, "hostile");
    b.run(20_000, |b| {
        b.gateway_sends(&[&[0xff; 100], &[]]);
        for _ in 0..50 {
            let n = stream.below(u32::MAX);
            let mac = MacAddr([2, 1, 0, (n >> 16) as u8, (n >> 8) as u8, n as u8]);
            let mut draft = Draft::new();
            assert!(draft.push(Field::Mechanism("gap")) && draft.push(Field::Body(&[n as u8; 60])));
            let bytes = message::seal(&key(), mac, n, n, &draft);
            b.world().inbox.push_back((0, bytes[..bytes.len() - (n % 3) as usize].to_vec()));
        }
    });
    assert!(b.router.neighbours.senders().count() <= crate::node::neighbours::MAX_NEIGHBOURS);
    assert!(b.router.links.len() <= 256, "{}", b.router.links.len());
    assert_eq!(b.limit(), limit, "no valid bit has come");
    let metrics = b.router.metrics(b.moment(), None);
    assert!(metrics.contains("messages_refused_total{cause=\"crowd\"}"), "{metrics}");
}

#[test]
fn a_reload_changes_the_control_and_refuses_the_rest() {
    let mut b = Bench::new("");
    b.world().stations = vec![station(GATEWAY, 54)];
    b.run(1000, |_| ());
    b.router.load =
        Box::new(|| Ok(config("hwmp", "role = \"access-point\"\n[control]\nuse = \"lbm\"\n")));
    let at = b.moment();
    b.router.reload(at);
    assert_eq!(b.router.rig.journal.total("config.refused"), 1, "HWMP permits no marks");
    b.router.load = Box::new(|| Ok(config("hwmp", "mode = \"apply\"\n")));
    b.router.reload(at);
    assert_eq!(b.router.rig.journal.total("config.refused"), 2, "it needs a restart");
    b.router.load = Box::new(|| Ok(config("hwmp", &format!("role = \"gateway\"\n{GAP}"))));
    b.router.reload(at);
    assert_eq!(b.router.rig.journal.total("config.reloaded"), 1);
    b.run(3000, |_| ());
    assert_eq!(b.status()["running"], true);
}

/// An 802.11s mesh forwards broadcasts.
#[test]
fn a_message_from_beyond_the_drivers_neighbours_is_no_neighbour() {
    let mut b = Bench::new(&format!("mode = \"apply\"\n{GAP}"));
    b.world().stations = vec![station(MacAddr([2, 0, 0, 0, 0, 8]), 54)];
    b.run(5000, |b| b.gateway_sends(&[LOW]));
    let neighbours = b.status()["neighbours"].clone();
    assert_eq!(neighbours.as_array().unwrap().len(), 1, "{neighbours}");
    assert!(b.world().class.is_none());
    b.world().stations.push(station(GATEWAY, 54));
    b.run(5000, |b| b.gateway_sends(&[LOW]));
    assert!(b.limit().is_some());
}

/// LBM at an access point, with and without a target delay: decided, not carried out.
#[test]
fn an_access_point_observes_the_marks_that_its_load_and_queues_demand() {
    let lbm = |control: &str| {
        let text = format!("role = \"access-point\"\n[control]\nuse = \"{control}\"\n");
        let mut config = config("hwmp", &text);
        config.routing = super::super::config::Routing::Layer3;
        let mut b = Bench::new("");
        b.router.rig.config = config;
        b.world().stations = vec![station(GATEWAY, 54)];
        b
    };
    let load = |b: &mut Bench| {
        // 40 of 54 Mbit/s.
        let station = &mut b.world().stations[0];
        station.tx_bytes = station.tx_bytes.map(|n| n + 500_000);
        station.tx_packets = station.tx_packets.map(|n| n + 333);
    };
    let mut b = lbm("lbm");
    b.run(10_000, |_| ());
    assert_eq!(b.status()["marking"], Value::Null, "idle");
    b.run(10_000, load);
    let marking = b.status()["marking"]["probability"].as_f64().unwrap();
    assert!(b.world().marks.is_none(), "observed only");
    // The load, with 84 octets for each packet, less the load without marks.
    assert!((marking - (0.741 * 1584.0 / 1500.0 - 0.2)).abs() < 0.05, "{marking}");
    assert!(
        report::status_text(&serde_json::from_value(b.status()).unwrap()).contains("observed only")
    );
    // The target needs the lengths of the queues.
    let mut b = lbm("lbm+pi");
    let mut queued = |b: &mut Bench| {
        load(b);
        b.world().stations[0].queue =
            Some(TransmitQueue { backlog_packets: 100, ..Default::default() });
    };
    b.run(30_000, &mut queued);
    let long = b.status()["marking"]["probability"].as_f64().unwrap();
    assert!(long > marking, "a delay of 30 ms: {long}");
    b.world().stations[0].queue = None;
    b.run(30_000, |_| ());
    let waits = b.status()["waits"].to_string();
    assert!(waits.contains("lbm+pi cannot run") && waits.contains("queue"), "{waits}");
}

#[test]
fn marks_are_renewed_end_with_the_daemon_and_are_tried_again() {
    let mut b = Bench::new("");
    let text = "mode = \"apply\"\nrole = \"access-point\"\nwired = \"eth0\"\n[control]\nuse = \"lbm+even\"\n";
    let mut config = config("hwmp", text);
    config.routing = super::super::config::Routing::Layer3;
    b.router.rig.config = config;
    b.world().stations = vec![station(GATEWAY, 54)];
    let load = |b: &mut Bench| {
        let station = &mut b.world().stations[0];
        station.tx_bytes = station.tx_bytes.map(|n| n + 500_000);
        station.tx_packets = station.tx_packets.map(|n| n + 333);
    };
    b.run(10_000, load);
    let (places, chance, how) = b.world().marks.clone().expect("marks");
    let places: Vec<&str> = places.iter().map(|i| i.name()).collect();
    assert_eq!(places, ["m0", "m1", "eth0"], "in both directions");
    assert!((chance - 0.58).abs() < 0.05 && how.even, "{chance}");
    assert_eq!(b.status()["marking"]["applied"], true);
    // At a constant load the mechanism decides nothing, and the marks must not lapse.
    let before = b.world().renewals;
    b.run(10_000, load);
    assert!(b.world().renewals >= before + 10);
    b.world().broken = true;
    b.run(3000, load);
    assert!(b.world().marks.is_none() && b.router.rig.journal.total("limit.failed") > 0);
    b.world().broken = false;
    b.run(20_000, load);
    assert!(b.world().marks.is_some());
    b.router.stop(b.moment()).unwrap();
    assert!(b.world().marks.is_none());
}

#[test]
fn neighbours_accept_a_router_after_its_interface_returns() {
    let mut b = Bench::new("");
    let mut neighbour = Neighbours::new(key(), Vec::new(), HELLO_INTERVAL, Time::ZERO);
    let mut accepted = |b: &mut Bench| {
        let sent: Vec<_> = b.world().sent.drain(..).filter(|(at, _)| *at == 1).collect();
        let now = b.now;
        let all = sent.iter().map(|(_, bytes)| neighbour.receive(now, Carrier::Udp, bytes));
        all.map(|m| m.unwrap().message.sequence).collect::<Vec<_>>()
    };
    b.run(5000, |_| ());
    assert_eq!(accepted(&mut b), [1, 2, 3, 4, 5]);
    let port = b.world().ports[1].clone();
    let other = Some(MacAddr([2, 0, 0, 0, 8, 8]));
    for gone in [Port { up: false, talks: false, ..port.clone() }, Port::default()] {
        for back in [port.clone(), Port { mac: other, ..port.clone() }, port.clone()] {
            b.world().ports[1] = gone.clone();
            b.run(3000, |_| ());
            assert!(accepted(&mut b).is_empty(), "nothing is sent over it");
            b.world().ports[1] = back;
            b.run(3000, |_| ());
            assert!(accepted(&mut b).len() >= 2);
        }
    }
}

#[test]
fn the_carrier_of_messages_is_chosen_reported_and_bridged() {
    let mut b = Bench::new("");
    let events = |b: &Bench, code: &str| {
        b.router.rig.journal.totals().find(|(c, ..)| *c == code).map_or(0, |(.., n)| n)
    };
    b.world().stations = vec![station(GATEWAY, 54)];
    b.world().ports[0].carrier = Carrier::ActionFrames;
    b.world().carrier = Carrier::ActionFrames;
    // The fake machine receives on the second interface; its driver reports the station on the first.
    let receive = |b: &mut Bench| {
        b.gateway_sends(&[]);
        b.world().inbox.iter_mut().for_each(|(at, _)| *at = 0);
    };
    b.run(3000, receive);
    let status = b.status();
    assert_eq!(status["interfaces"][0]["carrier"], "action-frames");
    assert_eq!(status["interfaces"][1]["carrier"], "udp");
    assert_eq!(status["neighbours"][0]["carrier"], "action-frames");
    assert!(!b.world().also_udp && events(&b, "carrier.mixed") == 0);
    assert_eq!(events(&b, "carrier.chosen"), 2);
    let page = b.router.metrics(b.moment(), None);
    let line = "fairmesh_node_interface_carrier{interface=\"m0\",carrier=\"action-frames\"} 1";
    assert!(page.contains(line), "{page}");
    // A neighbour that sends by UDP only gets messages by UDP.
    b.world().carrier = Carrier::Udp;
    b.run(5000, receive);
    assert!(b.router.also_udp.contains(&0) && !b.router.also_udp.contains(&1));
    assert_eq!(events(&b, "carrier.mixed"), 1);
    let text = report::status_text(&serde_json::from_value(b.status()).unwrap());
    assert!(text.contains("messages by action frames and UDP"), "{text}");
    assert!(text.contains("gateway by UDP"), "{text}");
    b.world().carrier = Carrier::ActionFrames;
    b.run(2000, receive);
    assert!(b.router.also_udp.is_empty());
    // The driver refuses action frames from now on.
    b.world().ports[0].carrier = Carrier::Udp;
    b.world().ports[0].refusal = Some("not supported".into());
    b.run(2000, receive);
    assert_eq!(events(&b, "carrier.fallback"), 1);
    let text = report::status_text(&serde_json::from_value(b.status()).unwrap());
    assert!(text.contains("messages by UDP (not supported)"), "{text}");
    let mut findings = Vec::new();
    let status = serde_json::from_value(b.status()).unwrap();
    super::super::doctor::of_daemon(&status, &mut |code, verdict, text| {
        findings.push((code, verdict, text));
    });
    let carrier = |f: &&(_, _, String)| f.0 == "carrier" && f.2.starts_with("m0 ");
    let (_, verdict, text) = findings.iter().find(carrier).unwrap();
    assert_eq!(*verdict, crate::gateway::doctor::Verdict::Suspicious, "{text}");
}

/// A gateway that floods are reported to limits the local traffic here.
#[test]
fn orders_of_a_gateway_limit_local_traffic_until_they_end() {
    use fairmesh_control::Leaf;
    let mut b =
        Bench::new("mode = \"apply\"\nfloor = \"50 kbit/s\"\n[control]\nuse = \"rtt+agents\"\n");
    b.world().stations = vec![station(GATEWAY, 54)];
    b.run(2000, |_| ());
    assert!(b.world().listens && b.status()["running"] == true, "{}", b.status());
    assert_eq!(b.world().installs, 0, "no limit before an order");
    let mut number = 0;
    let mut order = |b: &mut Bench, rate: u64, challenge: u64| {
        number += 1;
        // docs/controls/floods.md: a limit of 15 s.
        let mut body = vec![b'f', b'm', 1, if rate > 0 { 1 } else { 2 }, 0, 0, 0, number as u8];
        body.extend(rate.to_be_bytes());
        body.extend([0, if rate > 0 { 15 } else { 0 }]);
        let mut draft = Draft::new();
        let fields = [Field::Challenge(challenge), Field::Mechanism("rtt"), Field::Body(&body)];
        assert!(fields.iter().all(|f| draft.push(*f)));
        let bytes = message::seal_as(message::Kind::Order, &key(), GATEWAY, (1, number), &draft);
        b.world().orders.push_back(bytes.clone());
        b.run(200, |_| ());
        bytes
    };
    order(&mut b, 200_000, 0);
    assert_eq!((b.limit(), b.world().responses.len()), (None, 1), "not proved");
    let recorded = order(&mut b, 200_000, 77);
    assert_eq!(b.limit(), Some(200_000));
    assert_eq!(b.world().queue, Some(Leaf::Fair { packets: 20 }));
    // A claim of nothing leaves the floor.
    order(&mut b, 1, 77);
    assert_eq!(b.limit(), Some(50_000));
    let why = report::why_text(&serde_json::from_value(b.ask("why")).unwrap());
    assert!(why.contains("agent.limit: the gateway limits what starts here to"), "{why}");
    // Links that change do not matter; a neighbour more neither.
    b.world().stations[0].tx_rate = Some(BitRate(6_000_000));
    b.world().stations.push(station(MacAddr([2, 0, 0, 0, 0, 9]), 54));
    b.run(3000, |_| ());
    assert_eq!((b.limit(), b.world().installs), (Some(50_000), 1));
    order(&mut b, 0, 77);
    assert!(b.world().class.is_none(), "the gateway lifts it");
    order(&mut b, 100_000, 77);
    assert_eq!(b.limit(), Some(100_000));
    b.run(14_000, |_| ());
    assert_eq!(b.limit(), Some(100_000), "it holds for 15 s");
    b.run(2000, |_| ());
    assert!(b.world().class.is_none(), "not renewed");
    b.world().orders.push_back(recorded);
    b.run(1000, |_| ());
    assert!(b.world().class.is_none(), "replayed");
    let status = b.status();
    assert_eq!(status["orders"]["accepted"], 4, "{status}");
    let refused = status["orders"]["refused"].to_string();
    assert!(refused.contains("unproved") && refused.contains("replayed"), "{refused}");
}

#[test]
fn addresses_without_number_take_no_place_of_the_gateway() {
    let mut b = Bench::new(&format!("mode = \"apply\"\n{GAP}"));
    for round in 0..4_u8 {
        let mac = |n: u16| MacAddr([2, 1, round, 0, (n >> 8) as u8, n as u8]);
        b.world().stations = (0..100).map(|n| station(mac(n), 54)).collect();
        b.run(12_000, |_| ());
    }
    // With 300 neighbours at once, and the last address of all.
    let gateway = MacAddr([0xfe, 0, 0, 0, 0, 1]);
    b.gateway = Announcer::new(key(), gateway, 1);
    let mac = |n: u16| MacAddr([2, 2, 0, 0, (n >> 8) as u8, n as u8]);
    b.world().stations = (0..300).map(|n| station(mac(n), 54)).collect();
    b.world().stations.push(station(gateway, 54));
    b.run(15_000, |b| b.gateway_sends(&[&[0x50]]));
    assert_eq!(b.limit(), Some(500_000), "{}", b.status());
}
