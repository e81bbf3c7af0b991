//! Resolution of a [`Draft`] into a [`Scenario`].

mod access;
mod air;
mod flows;
mod gateways;
mod kinds;
mod layout;
mod leaks;
mod modern;
mod nodes;
mod places;
mod radio;
mod radio_path;
mod sensing;
mod subscribers;
mod wires;

use std::collections::BTreeSet;

use fairmesh_control::{Mechanism, Registry};
use fairmesh_phy::Rate;
use fairmesh_units::{NodeId, Power, Probability, Span};
use fairmesh_wifi::{Adaptation, MacConfig, propagation};

use crate::draft::{Draft, InterfererDraft, Routing};
use crate::error::{KeyPath, Problem, ScenarioError};
use crate::name::Name;
use crate::routing::{Graph, UNIT_COST};
use crate::scenario::{Flow, Interferer, Link, NodeKind, RateChange, RouteChange, Scenario, Wire};
use air::Air;
pub(crate) use flows::check as check_flow;
use gateways::Routes;
use kinds::Kind;
pub(crate) use modern::{VALID_CHANNELS, room_of};
use nodes::Nodes;
use sensing::Medium;

/// Maximum number of nodes in a scenario, including wired hosts.
pub const MAX_NODES: u64 = 50_000;
/// Maximum number of ordered pairs of nodes in range in a scenario.
pub const MAX_PAIRS: usize = 4_000_000;
/// Maximum number of flows in a scenario.
pub const MAX_FLOWS: usize = 100_000;

type Result<T> = core::result::Result<T, ScenarioError>;

fn fail<T>(key: KeyPath, problem: Problem) -> Result<T> {
    Err(ScenarioError::at(key, problem))
}

/// Checks the simulated time and the start of the measured interval.
pub(crate) fn check_times(duration: Span, warmup: Span) -> Result<()> {
    /// Longest duration: a century. Sums of a few such spans still fit.
    const MAX_DURATION: Span = Span::from_secs(100 * 365 * 86_400);
    if duration == Span::ZERO || duration > MAX_DURATION {
        let problem = Problem::range(duration, "a time above 0 s and below a century");
        return fail("duration".into(), problem);
    }
    if warmup >= duration {
        let problem = Problem::range(warmup, format!("less than `duration`, {duration}"));
        return Err(ScenarioError::at("warmup".into(), problem).bounded_by("duration"));
    }
    Ok(())
}

/// Refuses a time at or after the end of the run.
pub(crate) fn before_end(at: Span, end: Span, key: KeyPath) -> Result<()> {
    if at < end {
        return Ok(());
    }
    let problem = Problem::range(at, format!("a time before the end of the run, {end}"));
    Err(ScenarioError::at(key, problem).bounded_by("duration"))
}

impl Draft {
    /// Resolves with the mechanisms of `fairmesh-control`, as [`Draft::build_with`].
    ///
    /// # Errors
    /// As [`Draft::build_with`].
    pub fn build(&self) -> Result<Scenario> {
        self.build_with(&Registry::standard())
    }

    /// Checks all values and computes the world: nodes, the received power of each pair, routes.
    ///
    /// `registry` has the mechanisms that the draft may name.
    ///
    /// # Errors
    /// The first problem found, with its key; file, line and override if known.
    pub fn build_with(&self, registry: &Registry) -> Result<Scenario> {
        self.world(registry).map_err(|e| self.origin.locate(e))
    }

    fn world(&self, registry: &Registry) -> Result<Scenario> {
        let (duration, warmup) = self.times()?;
        let mut kinds = kinds::list(self)?;
        let mut nodes = Nodes::build(self, &kinds)?;
        let mut warnings = self.origin.warnings().to_vec();
        let Air { medium, leaks, further } = Air::build(self, &nodes, &kinds, &mut warnings)?;
        let wires = wires::build(self, &nodes)?;
        let edges = edges(self, &nodes, &kinds, &medium.links, &wires);
        let routes = Routes::build(self, &nodes, &wires, &edges)?;
        let (mut flows, written) = flows::build(self, &nodes, &routes, &wires, duration)?;
        let subscribers = subscribers::build(self, &nodes, &wires, &mut flows, &written)?;
        let interferers = self.interferers(&nodes, &medium)?;
        let control = self.control(registry)?;
        let at_gateways = self.at_gateways(registry, &routes.gateways)?;
        let agents = listed(&nodes, "agents", self.control.agents.as_deref())?;
        let taking_part = listed(&nodes, "nodes", self.control.nodes.as_deref())?;
        let rate_changes = self.rate_changes(&nodes, &medium.links, &kinds)?;
        let route_changes = self.route_changes(&nodes, &routes.all, &flows)?;
        let mut radio = kinds.swap_remove(0).radio;
        let own = nodes.list.iter_mut().filter_map(|n| n.queue.as_mut());
        own.chain([&mut radio.queue]).for_each(|q| q.weigh(&flows));
        Ok(Scenario {
            flow_numbers: Vec::new(),
            name: self.name.clone().unwrap_or_else(|| "scenario".to_owned()),
            description: self.description.clone(),
            duration,
            warmup,
            mac: radio.mac,
            channel: self.radio.channel,
            further,
            gateways: routes.gateways,
            nodes: nodes.list,
            sensed_pairs: medium.sensed_pairs,
            leaks,
            links: medium.links,
            wires,
            flows,
            subscribers,
            queue: radio.queue,
            interferers,
            rate_changes,
            route_changes,
            errors: radio.errors,
            control,
            at_gateways,
            agents,
            taking_part,
            warnings,
        })
    }

    fn times(&self) -> Result<(Span, Span)> {
        let usual = Span::from_nanos(self.duration.as_nanos() / 10);
        let warmup = self.warmup.unwrap_or(usual);
        check_times(self.duration, warmup)?;
        Ok((self.duration, warmup))
    }

    fn control(&self, registry: &Registry) -> Result<Mechanism> {
        let found = self.control.mechanism(registry);
        found.map_err(|(key, p)| ScenarioError::at(KeyPath::from("control").key(key), p))
    }

    fn at_gateways(
        &self,
        registry: &Registry,
        gateways: &crate::Gateways,
    ) -> Result<Option<Mechanism>> {
        let found = self.control.at_gateways(registry);
        let found =
            found.map_err(|(key, p)| ScenarioError::at(KeyPath::from("control").key(key), p))?;
        if found.is_some() && gateways.is_empty() {
            let key = KeyPath::from("control").key("gateway");
            return fail(
                key,
                Problem::refused("there is no gateway", "topology.gateway to name one"),
            );
        }
        Ok(found)
    }

    fn rate_changes(
        &self,
        nodes: &Nodes,
        links: &[Link],
        kinds: &[Kind<'_>],
    ) -> Result<Vec<RateChange>> {
        let mut all = Vec::new();
        for (i, draft) in self.rate_change.iter().enumerate() {
            let key = KeyPath::from("rate_change").index(i);
            before_end(draft.at, self.duration, key.clone().key("at"))?;
            let from = nodes.wireless(&draft.from, key.clone().key("from"))?;
            let mac = &kinds[usize::from(nodes.list[from.index()].radio)].radio.mac;
            if mac.adaptation != Adaptation::Fixed {
                let problem = Problem::refused("rates adapt", "`radio.adaptation = \"fixed\"`");
                return fail(key, problem);
            }
            let rate = radio::find_rate(&mac.phy, draft.rate, key.clone().key("rate"))?;
            let to = nodes.wireless(&draft.to, key.clone().key("to"))?;
            let ends = [(from, to), (to, from)];
            for &(from, to) in &ends[..if draft.directed { 1 } else { 2 }] {
                if links.binary_search_by_key(&(from, to), |l| (l.from, l.to)).is_err() {
                    let what = format!("{} does not decode {}", draft.to, draft.from);
                    return fail(key, Problem::refused(what, "two ends of a link"));
                }
                all.push(RateChange { at: draft.at, from, to, rate });
            }
        }
        all.sort_by_key(|c| c.at);
        Ok(all)
    }

    fn route_changes(
        &self,
        nodes: &Nodes,
        graph: &Graph,
        flows: &[Flow],
    ) -> Result<Vec<RouteChange>> {
        let mut all = Vec::new();
        for (i, draft) in self.route_change.iter().enumerate() {
            let key = KeyPath::from("route_change").index(i);
            before_end(draft.at, self.duration, key.clone().key("at"))?;
            let Some(flow) = flows.iter().position(|f| f.name == draft.flow) else {
                let problem = Problem::refused(
                    format!("no flow is called \"{}\"", draft.flow),
                    "the name of a flow",
                );
                return fail(key.key("flow"), problem);
            };
            let ends = (flows[flow].from, flows[flow].to);
            let path = flows::explicit(&draft.path, ends, &key, nodes, graph)?;
            all.push(RouteChange { at: draft.at, flow, path });
        }
        all.sort_by_key(|c| c.at);
        Ok(all)
    }

    fn interferers(&self, nodes: &Nodes, medium: &Medium) -> Result<Vec<Interferer>> {
        let mut taken = BTreeSet::new();
        let mut built = Vec::with_capacity(self.interferer.len());
        for (i, draft) in self.interferer.iter().enumerate() {
            let key = KeyPath::from("interferer").index(i);
            let name = draft.name.clone().unwrap_or_else(|| format!("interferer {}", i + 1));
            if !taken.insert(name.clone()) {
                return fail(key.key("name"), Problem::DuplicateName(name));
            }
            let mut sensed_by = sensed_by(draft, &key, nodes, medium)?;
            if !self.radios.is_empty() {
                let named = draft.radio.as_deref().unwrap_or(kinds::MAIN_RADIO);
                let main = (named == kinds::MAIN_RADIO).then_some(0);
                let place = self.radios.keys().position(|k| k == named).map(|p| p + 1);
                let kind = main.or(place).unwrap_or(0);
                let of = |(n, power)| Some((nodes.station(n, kind)?, power));
                sensed_by = sensed_by.into_iter().filter_map(of).collect();
                sensed_by.sort_unstable_by_key(|h| h.0);
            }
            let period = draft.period.unwrap_or(Span::from_millis(100));
            if period < Span::from_micros(100) {
                return fail(key.key("period"), Problem::range(period, "at least 100 us"));
            }
            let jitter = draft.jitter.unwrap_or(0.0);
            if !(0.0..1.0).contains(&jitter) {
                return fail(key.key("jitter"), Problem::range(jitter, "0 to below 1"));
            }
            // A burst must end before the next can start.
            if !(draft.duty > 0.0 && draft.duty < 1.0 - jitter) {
                let expected = "above 0 and below 1 - jitter";
                return fail(key.key("duty"), Problem::range(draft.duty, expected));
            }
            let start = draft.start.unwrap_or(Span::ZERO);
            before_end(start, self.duration, key.clone().key("start"))?;
            if draft.stop.is_some_and(|stop| stop <= start) {
                return fail(key.key("stop"), Problem::StopBeforeStart);
            }
            built.push(Interferer {
                name,
                position: draft.position.map(|[x, y]| (x, y)),
                sensed_by,
                period,
                duty: Probability(draft.duty),
                jitter,
                start,
                stop: draft.stop,
            });
        }
        Ok(built)
    }
}

fn sensed_by(
    draft: &InterfererDraft,
    key: &KeyPath,
    nodes: &Nodes,
    medium: &Medium,
) -> Result<Vec<(NodeId, Power)>> {
    let mut sensed = match (&draft.nodes, draft.position, &medium.propagation) {
        (Some(_), Some(_), _) | (None, None, _) => {
            let problem = Problem::refused(
                "the nodes that sense it are not given",
                "either `nodes` or `position`",
            );
            return fail(key.clone(), problem);
        }
        (None, Some(_), None) => {
            let problem = Problem::refused("explicit links have no propagation", "`nodes`");
            return fail(key.clone().key("position"), problem);
        }
        (Some(names), None, _) => {
            let dbm = draft.power.unwrap_or(propagation::FLAT_DECODE_DBM);
            if !(-110.0..=40.0).contains(&dbm) {
                return fail(key.clone().key("power"), Problem::range(dbm, "-110 to 40 dBm"));
            }
            let power = Power::from_dbm(dbm);
            let find = |(i, name)| {
                let key = key.clone().key("nodes").index(i);
                nodes.wireless(name, key).map(|node| (node, power))
            };
            names.iter().enumerate().map(find).collect::<Result<Vec<_>>>()?
        }
        (None, Some(position), Some(propagation)) => {
            if draft.power.is_some() {
                let problem = Problem::refused("`power` follows from `position`", "one of them");
                return fail(key.clone().key("power"), problem);
            }
            let at = places::place(position, key.clone().key("position"))?;
            let senses = |n: NodeId| {
                let place = nodes.list[n.index()].position?;
                let (power, _) = propagation.received(crate::neighbours::distance(at, place))?;
                Some((n, power))
            };
            (0..nodes.devices as u32).map(NodeId).filter_map(senses).collect()
        }
    };
    sensed.sort_unstable_by_key(|h| h.0);
    sensed.dedup_by_key(|h| h.0);
    Ok(sensed)
}

/// Returns the edges for routing, with costs.
///
/// These are pairs that decode in both directions, wires, and connections between radios of a node.
fn edges(
    draft: &Draft,
    nodes: &Nodes,
    kinds: &[Kind<'_>],
    links: &[Link],
    wires: &[Wire],
) -> Vec<(NodeId, NodeId, u64)> {
    let routing = draft.topology.routing;
    let mut edges = Vec::with_capacity(links.len() / 2 + wires.len());
    for link in links.iter().filter(|l| l.from < l.to) {
        // Acknowledgements need the reverse direction.
        let Ok(at) = links.binary_search_by_key(&(link.to, link.from), |l| (l.from, l.to)) else {
            continue;
        };
        // De Couto et al. 2003: 1 / (delivery forward × delivery back). `as` saturates.
        let both = link.delivery.0 * links[at].delivery.0;
        let cost = match routing {
            Routing::Hops => UNIT_COST,
            Routing::Etx => (UNIT_COST as f64 / both + 0.5).min(1e15) as u64,
            Routing::Airtime => {
                let kind = usize::from(nodes.list[link.from.index()].radio);
                let mac = &kinds[kind].radio.mac;
                let frame = airtime_cost(mac, link.rate.unwrap_or(mac.rate));
                (frame / both + 0.5).min(1e15) as u64
            }
        };
        edges.push((link.from, link.to, cost));
    }
    if draft.topology.alternate {
        radio_path::take_turns(nodes, &mut edges);
    }
    let wire = |w: &Wire| match routing {
        Routing::Airtime => 1 + 8 * METRIC_BYTES * 1_000_000_000 / w.rate.0.max(1),
        _ => UNIT_COST,
    };
    edges.extend(wires.iter().map(|w| (w.a, w.b, wire(w))));
    edges.extend(nodes.buses().map(|(a, b)| (a, b, radio_path::BUS_COST)));
    debug_assert!(nodes.list[..nodes.wireless].iter().all(|n| n.kind == NodeKind::Wireless));
    edges
}

/// Returns the nodes listed at a key of `[control]`.
fn listed(nodes: &Nodes, key: &str, names: Option<&[Name]>) -> Result<Option<Vec<NodeId>>> {
    let Some(names) = names else { return Ok(None) };
    let mut out = Vec::new();
    for (i, name) in names.iter().enumerate() {
        let key = KeyPath::from("control").key(key).index(i);
        let node = nodes.wireless(name, key.clone())?;
        if out.contains(&node) {
            let problem = Problem::refused(format!("{name} twice"), "every node once");
            return fail(key, problem);
        }
        out.push(node);
    }
    Ok(Some(out))
}

/// Bytes of the frame of the airtime link metric (IEEE 802.11-2020 §14.9.2: 8192 bits).
const METRIC_BYTES: u64 = 1024;

/// Returns the airtime of such a frame with its overhead, in ns.
fn airtime_cost(mac: &MacConfig, rate: Rate) -> f64 {
    let phy = &mac.phy;
    let air = phy.airtime(rate, METRIC_BYTES as u32) + phy.response(rate).ack;
    (air + phy.difs() + phy.sifs()).as_nanos() as f64
}
