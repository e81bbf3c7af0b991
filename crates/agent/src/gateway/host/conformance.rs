//! The gateway under the conformance suite for hosts, on a virtual clock and a fake plane.

use fairmesh_control::ActionKind;
use fairmesh_control::host::conformance::{ClassInForce, Mutation, Subject, hold, mutants};
use fairmesh_control::{Class, Leaf, Limit, Mechanism, Offers, Site};
use fairmesh_linux::capture::{Flags, Header};
use fairmesh_linux::{ClassId, Direction, LeafChoice, LeafKind, Slot};
use fairmesh_units::{BitRate, Bytes, FlowId, NodeId, Span, Time};

use super::Host;
use crate::gateway::config::{Config, Peers};
use crate::gateway::fake::FakeShaper;
use crate::gateway::governor::{ClassIds, Governor};
use crate::gateway::offers::{SITE, offers};

/// Configuration with all knowledge that a control may need.
const CONFIG: &str = r#"
mode = "apply"
[mesh]
interface = "bat0"
[wired]
interface = "eth0"
[shaping]
leaf = "control"
[[neighbour]]
name = "n"
capacity = "10 Mbit/s"
[plan.all]
fair_down = "1 Mbit/s"
fair_up = "300 kbit/s"
"#;

/// Addition for another gateway.
const PEERS: &str = "[peers]\nnumber = 3\npeer = [\"192.0.2.2:5247\"]\n";

struct Gateway {
    host: Option<Host<FakeShaper>>,
    now: Time,
    peers: bool,
    agents: bool,
    /// Messages sent to the others.
    messages: Vec<Vec<u8>>,
    /// Number of orders to routers of homes.
    orders: u64,
}

impl Gateway {
    fn new() -> Self {
        Gateway {
            host: None,
            now: Time::ZERO,
            peers: false,
            agents: false,
            messages: Vec::new(),
            orders: 0,
        }
    }

    fn with_peers() -> Self {
        Gateway { peers: true, ..Gateway::new() }
    }

    fn with_agents() -> Self {
        Gateway { agents: true, ..Gateway::new() }
    }

    fn host(&self) -> &Host<FakeShaper> {
        self.host.as_ref().expect("a mechanism that was started")
    }

    /// Returns the plane's limit of a class, in IP bytes.
    fn limit(&self, class: ClassId, direction: Direction) -> Option<BitRate> {
        let frames = self.host().plane.classes[&Slot { class, direction }].rate?;
        Some(BitRate(frames.0 * 1500 / 1514))
    }
}

/// Reads all passed packets as segments of one connection per class and direction.
///
/// Each is acknowledged but the last.
fn read_all(host: &mut Host<FakeShaper>, now: Time) {
    let passed: Vec<_> = host.plane().classes.iter().map(|(s, c)| (*s, c.packets)).collect();
    let signs = host.signs().clone();
    let mut reader = signs.lock().unwrap();
    if !reader.is_open() {
        reader.opened(now, true);
    }
    for (slot, packets) in passed.into_iter().filter(|p| p.0.class != ClassId::ALL) {
        let Slot { class, direction } = slot;
        let name = (class.0 - 1) as u8;
        let port = 1000 + direction as u16;
        let near = (core::net::IpAddr::from([10, 0, name, 1]), port);
        let far = (core::net::IpAddr::from([192, 0, 2, 1]), 443);
        let end = (packets * 1460) as u32;
        let flags = Flags { ack: true, ..Flags::default() };
        let own = Header {
            direction,
            near,
            far,
            mac: None,
            seq: end,
            ack: 1,
            len: 0,
            flags,
            stamps: None,
            selective: None,
            bytes: 0,
        };
        let known = reader.read(now, class.0).map_or(0, |r| r[direction as usize].bytes);
        let bytes = (packets * 1500).saturating_sub(known) as u32;
        let opposite = Direction::BOTH[1 - direction as usize];
        let back = Header { direction: opposite, seq: 1, ack: end, ..own };
        for header in [Header { bytes, ..own }, back, own] {
            reader.see(now, &header);
        }
    }
}

fn config() -> Config {
    let mut text = CONFIG.to_owned();
    for i in 0..3 {
        text += &format!(
            "[[subscriber]]\nname = \"s{i}\"\nprefixes = [\"10.0.{i}.0/24\"]\nplan = \"all\"\nhops = 2\n"
        );
    }
    Config::parse("test.toml", &text).unwrap()
}

fn others() -> Peers {
    let text = CONFIG.replace("[plan.all]", "[control]\nuse = \"rtt+peers\"\n[plan.all]");
    let text = format!("{text}{PEERS}[[subscriber]]\nname = \"s\"\nprefixes = [\"10.0.0.0/24\"]\n");
    Config::parse("test.toml", &text).unwrap().peers.unwrap()
}

impl Subject for Gateway {
    fn offers(&self) -> Offers {
        offers(self.peers, self.agents)
    }

    fn sites(&self) -> Vec<Site> {
        vec![SITE]
    }

    fn start(&mut self, mechanism: &Mechanism) -> Result<(), String> {
        let peers = self.peers.then(others);
        let agents = self.agents.then(|| "/etc/fairmesh/node.key".into());
        let config = Config { mechanism: mechanism.clone(), peers, agents, ..config() };
        let governor = Governor::new(&config, ClassIds::default(), Time::ZERO);
        let governor = governor.map_err(|e| e.to_string())?;
        let plane = FakeShaper { capacity: 9e6, ..FakeShaper::default() };
        let mut host = Host::new(plane, governor);
        host.poll(Time::ZERO);
        self.messages.extend(host.governor.take_messages());
        self.orders += host.governor.take_orders().len() as u64;
        for (slot, class) in &mut host.plane().classes {
            class.demand = if slot.direction == Direction::Down { 6e6 } else { 1e6 };
        }
        self.host = Some(host);
        Ok(())
    }

    fn advance(&mut self, until: Time) {
        let host = self.host.as_mut().expect("a mechanism that was started");
        while self.now < until {
            let step = self.now + Span::from_millis(250);
            let next = host.next_deadline().max(self.now).min(step).min(until);
            host.plane().run(next.since(self.now).as_secs_f64());
            read_all(host, next);
            self.now = next;
            if next < until && host.next_deadline() <= next {
                host.poll(next);
                self.messages.extend(host.governor.take_messages());
                self.orders += host.governor.take_orders().len() as u64;
            }
        }
    }

    /// Compares the queue of a class with the requested one.
    ///
    /// A fair queue per flow corresponds to a queue in each subscriber's class; one shared queue does not.
    fn class(&self, _: NodeId, class: Class) -> Option<ClassInForce> {
        let host = self.host();
        let layout = host.plane.layout.as_ref()?;
        assert_eq!(layout.leaf, LeafChoice::Only(LeafKind::Pfifo), "as the control asks");
        let packets = layout.queue;
        let (leaf, rate) = match class {
            Class::All => {
                let halves = Direction::BOTH.map(|d| self.limit(ClassId::ALL, d));
                let sum = halves[0].zip(halves[1]).map(|(down, up)| BitRate(down.0 + up.0));
                (Leaf::Fair { packets }, sum)
            }
            Class::Flow(FlowId(f)) => {
                let direction = Direction::BOTH[f as usize % 2];
                (Leaf::DropTail { packets }, self.limit(ClassId((f / 2) as u16), direction))
            }
            Class::Link(_) => return None,
        };
        let burst = Bytes(u64::from(layout.burst - 14));
        let limit = rate.map_or(Limit::None, Limit::Rate);
        host.governor.planned(class).then_some(ClassInForce { limit, leaf, burst })
    }

    fn messages(&self) -> (u64, u64) {
        (self.orders, self.messages.len() as u64)
    }

    fn lost(&self) -> u64 {
        0
    }

    fn decided(&self, _: NodeId, code: &str) -> u64 {
        self.host().governor.journal.total(code)
    }
}

#[test]
fn the_gateway_keeps_the_contract_with_every_mechanism() {
    let summary = hold(Gateway::new).unwrap();
    let plain = |names: &[String]| -> Vec<String> {
        names.iter().filter(|n| !n.contains('+')).cloned().collect()
    };
    assert_eq!(plain(&summary.ran), ["static-fq", "static-flow", "arc-fq", "pfrc", "rtt"]);
    assert_eq!(summary.nothing, ["fifo"]);
    // One queue for all, another queue for the radio, and controls that run at or send to other nodes.
    for refused in [
        "static",
        "arc",
        "fq",
        "red",
        "fred",
        "source",
        "gap",
        "cna",
        "lbm",
        "wcp",
        "rtt+peers",
        "pfrc+peers",
        "rtt+agents",
    ] {
        assert!(summary.refused.iter().any(|n| n == refused), "{refused}");
    }
    assert!(summary.ran.len() > 8, "{:?}", summary.ran);
}

/// With other gateways, the controls that send to them run, too, and nothing else changes.
#[test]
fn the_gateway_with_peers_keeps_the_contract_with_every_mechanism() {
    let (alone, summary) = (hold(Gateway::new).unwrap(), hold(Gateway::with_peers).unwrap());
    let more: Vec<_> = summary.ran.iter().filter(|n| !alone.ran.contains(n)).collect();
    assert!(more.iter().all(|n| n.contains("+peers")) && more.len() >= 2, "{more:?}");
    assert!(alone.ran.iter().all(|n| summary.ran.contains(n)));
}

/// With routers that take orders, controls that send them run, too.
#[test]
fn the_gateway_with_agents_keeps_the_contract_with_every_mechanism() {
    let (alone, summary) = (hold(Gateway::new).unwrap(), hold(Gateway::with_agents).unwrap());
    let more: Vec<_> = summary.ran.iter().filter(|n| !alone.ran.contains(n)).collect();
    assert!(more.iter().all(|n| n.contains("+agents")) && !more.is_empty(), "{more:?}");
    assert!(alone.ran.iter().all(|n| summary.ran.contains(n)));
}

#[test]
fn messages_to_other_gateways_are_sent() {
    let mut gateway = Gateway::with_peers();
    gateway.start(&fairmesh_control::Registry::standard().lookup("rtt+peers").unwrap()).unwrap();
    gateway.advance(Time::ZERO + Span::from_secs(10));
    assert!((8..=12).contains(&gateway.messages.len()), "one a second: {}", gateway.messages.len());
    // Not while limits are lifted, and not while no limit applies.
    let host = gateway.host.as_mut().unwrap();
    host.governor.suspend(crate::gateway::governor::Suspension::Fault("test"));
    host.poll(Time::ZERO + Span::from_secs(11));
    assert!(!host.governor.exchanges() && host.governor.take_messages().is_empty());
}

#[test]
fn a_gateway_that_loses_one_action_is_caught() {
    let caught = mutants(Gateway::new).unwrap();
    assert!(caught.contains(&Mutation::Class(1)), "classes");
    for kind in [ActionKind::SetRate, ActionKind::Remove] {
        assert!(caught.contains(&Mutation::Action(kind, 1)), "{kind:?}");
    }
    assert!(caught.contains(&Mutation::Reason(1)));
    let caught = mutants(Gateway::with_peers).unwrap();
    assert!(caught.contains(&Mutation::Action(ActionKind::HandOver, 1)));
}
