//! Starting point of the search: the highest level if nodes alone limited it.

use fairmesh_capacity::link::saturated_goodput;
use fairmesh_engine::CapacityModel;
use fairmesh_scenario::Scenario;
use fairmesh_units::NodeId;

/// Ratio of a node's capacity to the computed capacity of a lone sender.
///
/// Several senders share idle slots.
const CAPACITY_MARGIN: f64 = 1.3;

/// Time that a bit of each flow uses at each node and wire.
#[derive(Clone, Debug)]
pub(super) struct Bound {
    /// By resource: (flow, seconds per bit).
    uses: Vec<Vec<(usize, f64)>>,
}

impl Bound {
    pub fn new(scenario: &Scenario) -> Self {
        let model = CapacityModel::new(scenario);
        let mut uses = vec![Vec::new(); scenario.nodes().len() + scenario.wires().len()];
        let wired = |a: NodeId, b: NodeId| {
            scenario.wires().iter().position(|w| (w.a, w.b) == (a, b) || (w.b, w.a) == (a, b))
        };
        for (f, flow) in scenario.flows().iter().enumerate() {
            let traffic = model.flow(f).traffic;
            for hop in flow.path.windows(2) {
                if let Some(w) = wired(hop[0], hop[1]) {
                    let rate = scenario.wires()[w].rate.0.max(1) as f64;
                    uses[scenario.nodes().len() + w].push((f, 1.0 / rate));
                } else if let Some(link) = scenario.link(hop[0], hop[1]) {
                    let mac = scenario.mac_of(link.from);
                    let rate = link.rate.unwrap_or(mac.rate);
                    let one = saturated_goodput(&mac.phy, rate, &traffic, model.access);
                    for node in hop {
                        uses[node.index()].push((f, 1.0 / one));
                    }
                }
            }
        }
        Bound { uses }
    }

    /// Returns the level at which the first node or wire is full.
    /// Flow `f` has `now[f]` and `each[f]` more bit/s per level.
    pub fn top(&self, now: &[f64], each: &[f64]) -> f64 {
        let full = |uses: &Vec<(usize, f64)>| {
            // Rising flows have no present usage: their rate is the whole level.
            let used: f64 = uses.iter().filter(|u| each[u.0] == 0.0).map(|u| u.1 * now[u.0]).sum();
            let slope: f64 = uses.iter().map(|u| u.1 * each[u.0]).sum();
            if slope > 0.0 { (CAPACITY_MARGIN - used).max(0.0) / slope } else { f64::INFINITY }
        };
        let top = self.uses.iter().map(full).fold(f64::INFINITY, f64::min);
        if top.is_finite() { top } else { 1e6 }
    }

    /// Returns the time that a bit of a flow uses at all nodes and wires together, in s.
    pub fn cost(&self, flow: usize) -> f64 {
        self.uses.iter().flatten().filter(|u| u.0 == flow).map(|u| u.1).sum()
    }
}
