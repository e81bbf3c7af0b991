//! The analytic max-min allocation of a scenario, printed beside every measurement.

use fairmesh_capacity::fair::{FlowSpec, LinkSpec, fair_allocation};
use fairmesh_capacity::link::{Access, Traffic};
use fairmesh_capacity::maxmin::{Demand, Limit};
use fairmesh_scenario::{Flow, NodeKind, Scenario, Transport};
use fairmesh_transport::traffic::TrafficSpec;
use fairmesh_units::{NodeId, Span, Time};
use fairmesh_wifi::airtime::DATA_OVERHEAD;

use crate::error::EngineError;

/// Fair rates by the collision-domain model over transmission ranges (Jamshaid 2010 §4.1, §7.2).
///
/// Flows that start late or stop early have a share only while they are there, so the allocation
/// changes with them.
#[derive(Clone, Debug)]
pub struct FairRates {
    /// Per flow: application goodput averaged over the measured interval, bit/s.
    pub rates_bps: Vec<f64>,
    /// Σ rate × wireless hops of these rates, bit/s.
    pub utilization: f64,
    /// Per flow: a link in the middle of the collision domain that limits it while all flows are
    /// there; `None` if it asked for no more.
    pub bottleneck: Vec<Option<(NodeId, NodeId)>>,
    /// From when on which rates hold, earliest first.
    pub changes: Vec<(Time, Vec<f64>)>,
}

impl FairRates {
    /// The rates that hold first.
    pub fn at_start(&self) -> &[f64] {
        self.changes.first().map_or(&[], |c| &c.1)
    }
}

/// Application bytes and IP bytes of a full packet of a flow.
pub(crate) fn packet_sizes(flow: &Flow) -> (u32, u32) {
    let t = traffic(flow, 0);
    (t.payload, t.psdu - DATA_OVERHEAD)
}

/// What each application packet of a flow puts on the air.
fn traffic(flow: &Flow, llc: u32) -> Traffic {
    let psdu = |ip: u32| ip + llc + DATA_OVERHEAD;
    match &flow.transport {
        Transport::Tcp(tcp) => Traffic {
            payload: tcp.mss,
            psdu: psdu(tcp.mss + 40),
            reverse_psdu: psdu(40),
            reverse_per_packet: if tcp.delayed_ack.is_some() { 0.5 } else { 1.0 },
        },
        Transport::Udp => {
            let payload = match flow.traffic {
                TrafficSpec::Cbr { datagram, .. } => datagram,
                _ => 1472,
            };
            Traffic { payload, psdu: psdu(payload + 28), reverse_psdu: 0, reverse_per_packet: 0.0 }
        }
    }
}

fn demand(flow: &Flow) -> Demand {
    let limit = match flow.traffic {
        TrafficSpec::Cbr { rate, .. } | TrafficSpec::Limited { rate, .. } => rate.0 as f64,
        TrafficSpec::Bulk | TrafficSpec::Files { .. } | TrafficSpec::Http { .. } => f64::INFINITY,
    };
    Demand { weight: flow.weight, limit }
}

/// What the model computes for a set of active flows.
struct Model<'a> {
    scenario: &'a Scenario,
    hears: Vec<Vec<NodeId>>,
    links: Vec<LinkSpec>,
    /// Per flow: its path without wires, which are no part of the air.
    paths: Vec<Vec<NodeId>>,
}

/// A rate and a limiting link per flow.
type Rates = Vec<(f64, Option<(NodeId, NodeId)>)>;

impl<'a> Model<'a> {
    fn new(scenario: &'a Scenario) -> Self {
        let mut hears = vec![Vec::new(); scenario.nodes.len()];
        let mut links = Vec::with_capacity(scenario.links.len());
        for link in &scenario.links {
            hears[link.to.index()].push(link.from);
            let rate = link.rate.unwrap_or(scenario.mac.rate);
            let errors = scenario.errors_of(link);
            // A full-sized frame stands for the flow's data.
            let delivery = errors.delivery(1500 + scenario.mac.llc_bytes + DATA_OVERHEAD, rate);
            links.push(LinkSpec { from: link.from, to: link.to, rate, delivery });
        }
        let wireless = |n: &&NodeId| scenario.nodes[n.index()].kind == NodeKind::Wireless;
        let paths = scenario
            .flows
            .iter()
            .map(|f| f.path.iter().filter(wireless).copied().collect())
            .collect();
        Model { scenario, hears, links, paths }
    }

    fn solve(&self, active: impl Fn(usize) -> bool) -> Result<Rates, EngineError> {
        let scenario = self.scenario;
        let on_air: Vec<usize> =
            (0..self.paths.len()).filter(|&i| active(i) && self.paths[i].len() > 1).collect();
        let flows: Vec<FlowSpec<'_>> = on_air
            .iter()
            .map(|&i| FlowSpec {
                path: &self.paths[i],
                traffic: traffic(&scenario.flows[i], scenario.mac.llc_bytes),
                demand: demand(&scenario.flows[i]),
            })
            .collect();
        // One threshold for all frames: data of full size decides.
        let access = match scenario.mac.rts_threshold {
            Some(t) if t <= 1500 => Access::RtsCts,
            _ => Access::Basic,
        };
        let found = fair_allocation(&scenario.mac.phy, access, &self.hears, &self.links, &flows)
            .map_err(|e| EngineError::Capacity(e.to_string()))?;
        let mut rates = vec![(0.0, None); self.paths.len()];
        for (k, &i) in on_air.iter().enumerate() {
            rates[i].0 = found.rates[k];
            rates[i].1 = match found.limits[k] {
                Limit::Demand => None,
                Limit::Domain(d) => found.links.get(d).map(|l| l.ends().into()),
            };
        }
        Ok(rates)
    }
}

/// Computes the fair rate of each flow.
///
/// # Errors
/// If the capacity model refuses the scenario: a path over a link that never delivers.
pub fn fair_rates(scenario: &Scenario) -> Result<FairRates, EngineError> {
    let model = Model::new(scenario);
    let until = |f: &Flow| f.stop.unwrap_or(Span::MAX);
    let mut instants: Vec<Span> = vec![Span::ZERO];
    for f in &scenario.flows {
        instants.extend([f.start, until(f)].into_iter().filter(|&t| t < scenario.duration));
    }
    instants.sort_unstable();
    instants.dedup();

    let mut rates_bps = vec![0.0; scenario.flows.len()];
    let mut changes = Vec::with_capacity(instants.len());
    let measured = scenario.duration.saturating_sub(scenario.warmup).as_secs_f64();
    for (k, &from) in instants.iter().enumerate() {
        let active = |i: usize| {
            let f = &scenario.flows[i];
            f.start <= from && from < until(f)
        };
        let rates = model.solve(active)?;
        let to = instants.get(k + 1).copied().unwrap_or(scenario.duration);
        let share = to.saturating_sub(from.max(scenario.warmup)).as_secs_f64() / measured;
        for (mean, (rate, _)) in rates_bps.iter_mut().zip(&rates) {
            *mean += rate * share;
        }
        changes.push((Time::ZERO + from, rates.into_iter().map(|r| r.0).collect()));
    }
    let hops: Vec<u32> = scenario.flows.iter().map(|f| f.wireless_hops).collect();
    Ok(FairRates {
        utilization: crate::measures::utilization(&rates_bps, &hops),
        rates_bps,
        bottleneck: model.solve(|_| true)?.into_iter().map(|r| r.1).collect(),
        changes,
    })
}
