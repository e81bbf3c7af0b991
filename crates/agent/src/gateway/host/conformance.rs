//! The gateway under the suite for hosts, on a virtual clock and a plane without a kernel.

use fairmesh_control::host::EffectKind;
use fairmesh_control::host::conformance::{ClassInForce, Mutation, Subject, hold, mutants};
use fairmesh_control::{Class, Leaf, Limit, Mechanism, Offers, Site};
use fairmesh_linux::{ClassId, Direction, LeafChoice, LeafKind, Slot};
use fairmesh_units::{BitRate, Bytes, FlowId, NodeId, Span, Time};

use super::Host;
use crate::gateway::config::Config;
use crate::gateway::fake::FakePlane;
use crate::gateway::governor::{ClassIds, Governor};
use crate::gateway::offers::{OFFERS, SITE};

/// Of whom everything is known that a control may need to know.
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

struct Gateway {
    host: Option<Host<FakePlane>>,
    now: Time,
}

impl Gateway {
    fn new() -> Self {
        Gateway { host: None, now: Time::ZERO }
    }

    fn host(&self) -> &Host<FakePlane> {
        self.host.as_ref().expect("a mechanism that was started")
    }

    /// What the plane lets a class send, in IP bytes.
    fn limit(&self, class: ClassId, direction: Direction) -> Option<BitRate> {
        let frames = self.host().plane.classes[&Slot { class, direction }].rate?;
        Some(BitRate(frames.0 * 1500 / 1514))
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

impl Subject for Gateway {
    fn offers(&self) -> Offers {
        OFFERS
    }

    fn sites(&self) -> Vec<Site> {
        vec![SITE]
    }

    fn start(&mut self, mechanism: &Mechanism) -> Result<(), String> {
        let config = Config { mechanism: mechanism.clone(), ..config() };
        let governor = Governor::new(&config, ClassIds::default(), Time::ZERO);
        let governor = governor.map_err(|e| e.to_string())?;
        let plane = FakePlane { capacity: 9e6, ..FakePlane::default() };
        let mut host = Host::new(plane, governor);
        host.poll(Time::ZERO);
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
            self.now = next;
            if next < until && host.next_deadline() <= next {
                host.poll(next);
            }
        }
    }

    /// A queue for each flow in turn is a queue in each subscriber's class; one that all share there
    /// is not.
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
    assert_eq!(plain(&summary.ran), ["static-fq", "static-flow", "arc-fq", "pfrc", "maxmin"]);
    assert_eq!(summary.nothing, ["fifo"]);
    // One queue for all, another queue for the radio, and whatever runs or speaks at other nodes.
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
        "maxmin+peers",
        "pfrc+peers",
        "maxmin+agents",
    ] {
        assert!(summary.refused.iter().any(|n| n == refused), "{refused}");
    }
    assert!(summary.ran.len() > 8, "{:?}", summary.ran);
}

#[test]
fn a_gateway_that_loses_one_effect_is_caught() {
    let caught = mutants(Gateway::new).unwrap();
    for kind in [EffectKind::Build, EffectKind::SetRate, EffectKind::Remove] {
        assert!(caught.contains(&Mutation::Effect(kind, 1)), "{kind:?}");
    }
    assert!(caught.contains(&Mutation::Reason(1)));
}
