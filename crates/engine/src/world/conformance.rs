//! The simulator under the conformance suite for hosts.

use std::sync::Arc;

use fairmesh_control::ActionKind;
use fairmesh_control::host::conformance::{
    ChanceInForce, ClassInForce, Mutation, Subject, hold, mutants,
};
use fairmesh_control::{Class, EventKind, Limit, Mechanism, Merge, Offers, Site};
use fairmesh_scenario::{Scenario, draft_from_toml};
use fairmesh_units::{Bytes, FlowId, NodeId, Span, Time};

use super::{RunOptions, World};
use crate::classes::{self, in_force};
use crate::host::{self, ControlAt, Controls};
use crate::island_rates::fair_rates;

/// Two branches of two hops with traffic in both directions.
///
/// Every hop's load exceeds most limits.
const MESH: &str = r#"
name = "branches"
duration = "100 s"
[radio]
phy = "802.11b"
rate = "11 Mbit/s"
[topology]
links = [[0, 1], [1, 2], [0, 3], [3, 4]]
gateway = 0
[traffic]
traffic = { kind = "limited", rate = "500 kbit/s", packet = "1000 B" }
transport = { tcp = "newreno", mss = "1000 B", ecn = true }
[[flow]]
from = 0
to = 2
[[flow]]
from = 2
to = 0
[[flow]]
from = 0
to = 3
[[flow]]
from = 4
to = 0
"#;

/// Worlds with or without listeners, as a run chooses.
enum Worlds {
    Plain(World<false, false>),
    Listening(World<false, true>),
}

struct Simulator {
    scenario: &'static Scenario,
    world: Option<Worlds>,
}

macro_rules! world {
    ($simulator:expr, $world:ident => $ask:expr) => {
        match $simulator.world.as_ref().expect("a mechanism that was started") {
            Worlds::Plain($world) => $ask,
            Worlds::Listening($world) => $ask,
        }
    };
}

impl Simulator {
    fn new(scenario: &'static Scenario) -> Self {
        Simulator { scenario, world: None }
    }
}

fn mesh() -> &'static Scenario {
    Box::leak(Box::new(draft_from_toml("mesh.toml", MESH).unwrap().build().unwrap()))
}

impl Subject for Simulator {
    fn offers(&self) -> Offers {
        host::OFFERS
    }

    fn sites(&self) -> Vec<Site> {
        host::sites(self.scenario)
    }

    fn start(&mut self, mechanism: &Mechanism) -> Result<(), String> {
        let fair = fair_rates(self.scenario).unwrap();
        let only = Controls { mechanism, at_gateways: None };
        let controls =
            host::start(self.scenario, only, Some(&fair), 1).map_err(|e| e.to_string())?;
        let (scenario, options) = (Arc::new(self.scenario.clone()), RunOptions::default());
        let fair = Some(fair);
        let world = if controls.iter().any(ControlAt::needs_listeners) {
            World::new(scenario, &options, fair, controls, None).map(Worlds::Listening)
        } else {
            World::new(scenario, &options, fair, controls, None).map(Worlds::Plain)
        };
        self.world = Some(world.map_err(|e| e.to_string())?);
        Ok(())
    }

    fn advance(&mut self, until: Time) {
        match self.world.as_mut().expect("a mechanism that was started") {
            Worlds::Plain(world) => world.advance(until),
            Worlds::Listening(world) => world.advance(until),
        }
    }

    fn class(&self, node: NodeId, class: Class) -> Option<ClassInForce> {
        world!(self, w => class_at(w, node, class))
    }

    fn chance(&self, node: NodeId, class: Class) -> ChanceInForce {
        world!(self, w => w.net.listeners.chance_of(node, class))
    }

    fn field(&self, node: NodeId, class: Class, slot: u8) -> Option<(Merge, u32)> {
        world!(self, w => w.net.listeners.field_of(node, class, slot))
    }

    fn ack_bits(&self, node: NodeId) -> u8 {
        world!(self, w => w.net.listeners.ack_bits_of(node))
    }

    fn pace(&self, flow: FlowId) -> Option<(Option<Span>, bool)> {
        world!(self, w => w.net.flows.get(flow.index()).map(|f| f.pace_of()))
    }

    fn messages(&self) -> (u64, u64) {
        let signalling = world!(self, w => &w.net.listeners.signalling);
        (signalling.messages, signalling.outside)
    }

    fn lost(&self) -> u64 {
        world!(self, w => {
            let net = &w.net;
            net.packets.created() - net.packets.live() - net.arrived - net.stale
        })
    }

    fn decided(&self, node: NodeId, code: &str) -> u64 {
        let name = &self.scenario.nodes()[node.index()].name;
        let decisions = world!(self, w => &w.decisions);
        decisions.iter().filter(|d| d.node == *name && d.code == code).count() as u64
    }
}

fn class_at<const HOST: bool>(
    world: &World<false, HOST>,
    node: NodeId,
    class: Class,
) -> Option<ClassInForce> {
    let net = &world.net;
    if let Some(set) = net.classes.iter().find(|s| s.node == node) {
        return set.in_force(class);
    }
    let interface = &net.interfaces[node.index()];
    if let Some(classes) = &interface.classes {
        return classes.in_force(class);
    }
    // The queue of the radio itself, or its replacement.
    let leaf = in_force::leaf(&interface.queue, |p| classes::leaf(p).build().unwrap());
    let burst = Bytes(u64::MAX);
    (class == Class::All).then_some(ClassInForce { limit: Limit::None, leaf, burst })
}

/// The simulator has every capability, so every registered mechanism runs there.
#[test]
fn the_simulator_keeps_the_contract_with_every_mechanism() {
    let scenario = mesh();
    let summary = hold(|| Simulator::new(scenario)).unwrap();
    assert_eq!(summary.refused, [""; 0]);
    assert_eq!(summary.nothing, ["fifo"]);
    assert!(summary.ran.len() > 40, "{:?}", summary.ran);
}

#[test]
fn a_simulator_that_loses_one_action_is_caught() {
    let scenario = mesh();
    let caught = mutants(|| Simulator::new(scenario)).unwrap();
    assert!(caught.contains(&Mutation::Class(1)));
    for &kind in ActionKind::ALL.iter().filter(|k| **k != ActionKind::Because) {
        assert!(caught.contains(&Mutation::Action(kind, 1)), "{kind:?}");
    }
    assert!(caught.contains(&Mutation::Sample(EventKind::Stations)));
    assert!(caught.contains(&Mutation::Reason(1)));
}
