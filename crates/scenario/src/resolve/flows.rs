//! `[traffic]` and `[[flow]]`: sources, destinations, traffic and paths.

use std::collections::{BTreeMap, BTreeSet};

use fairmesh_transport::traffic::TrafficSpec;
use fairmesh_units::{NodeId, Span};

use super::gateways::Routes;
use super::nodes::Nodes;
use super::radio_path;
use super::{MAX_FLOWS, Result, access, fail};
use crate::draft::{Direction, Draft, FlowDraft, FlowsDraft, TrafficDraft, TransportDraft};
use crate::error::{KeyPath, Problem, ScenarioError};
use crate::name::Name;
use crate::routing::Graph;
use crate::scenario::{Flow, Gateways, NodeKind, Transport, Wire};

/// Default start jitter.
///
/// Flows start one by one within the first second, as in the ns-3 reference runs.
const USUAL_JITTER: Span = Span::from_secs(1);

/// A flow and the keys of its ends.
struct Entry {
    draft: FlowDraft,
    key: KeyPath,
    from_key: KeyPath,
    to_key: KeyPath,
}

/// Position and settings of a flow as written in the file.
pub(super) struct Written {
    pub key: KeyPath,
    /// Given name, shared by its connections.
    pub name: Option<String>,
    /// True if a weight was given.
    pub weight: bool,
}

pub(super) fn build(
    draft: &Draft,
    nodes: &Nodes,
    routes: &Routes,
    wires: &[Wire],
    duration: Span,
) -> Result<(Vec<Flow>, Vec<Written>)> {
    let ends = wires.iter().map(|w| (w.a, w.b)).chain(nodes.buses());
    let wired = ends.flat_map(|(a, b)| [(a, b), (b, a)]).collect();
    let mut entries = shorthand(draft, nodes, &routes.gateways)?;
    for (i, flow) in draft.flow.iter().enumerate() {
        let key = KeyPath::from("flow").index(i);
        let (from_key, to_key) = (key.clone().key("from"), key.clone().key("to"));
        entries.push(Entry { draft: flow.clone(), key, from_key, to_key });
    }
    if entries.is_empty() {
        return fail("flow".into(), Problem::Nothing { what: "flow" });
    }
    let mut many = 0;
    for e in &mut entries {
        let count = e.draft.connections.or(draft.traffic.connections).unwrap_or(1);
        if count == 0 {
            let own = e.draft.connections.is_some();
            let key = if own { e.key.clone() } else { KeyPath::from("traffic") };
            return fail(key.key("connections"), Problem::range(count, "at least 1"));
        }
        e.draft.connections = Some(count);
        many += u64::from(count);
    }
    if many > MAX_FLOWS as u64 {
        let expected = format!("at most {MAX_FLOWS}");
        return fail("flow".into(), Problem::range(format!("{many} flows"), expected));
    }
    let names = names(&entries)?;
    let mut ends = Vec::with_capacity(entries.len());
    let mut uses: BTreeMap<NodeId, u32> = BTreeMap::new();
    for e in &entries {
        let from = nodes.find(&e.draft.from, e.from_key.clone())?;
        let to = nodes.find(&e.draft.to, e.to_key.clone())?;
        if from == to {
            return fail(e.to_key.clone(), Problem::SameEnds(e.draft.to.to_string()));
        }
        *uses.entry(from).or_default() += 1;
        *uses.entry(to).or_default() += 1;
        ends.push((from, to));
    }
    let mut router = routes.finder();
    let mut flows = Vec::with_capacity(many as usize);
    let mut written = Vec::with_capacity(many as usize);
    for ((entry, names), (from, to)) in entries.iter().zip(names).zip(ends) {
        let path = match &entry.draft.path {
            Some(path) => explicit(path, (from, to), &entry.key, nodes, &routes.all)?,
            None => {
                // Distances from a shared end are computed once.
                let hub = if uses[&from] > uses[&to] { from } else { to };
                match router.path(from, to, hub) {
                    Some(path) => path,
                    None => {
                        let (from, to) = (entry.draft.from.to_string(), entry.draft.to.to_string());
                        return fail(entry.to_key.clone(), Problem::Unreachable { from, to });
                    }
                }
            }
        };
        let flow = finish(entry, path, &wired, &draft.traffic, duration)?;
        for name in names {
            flows.push(Flow { name, ..flow.clone() });
            written.push(Written {
                key: entry.key.clone(),
                name: entry.draft.name.clone(),
                weight: entry.draft.weight.is_some(),
            });
        }
    }
    Ok((flows, written))
}

/// Returns the flows of `traffic.flows`.
fn shorthand(draft: &Draft, nodes: &Nodes, gateways: &Gateways) -> Result<Vec<Entry>> {
    let t = &draft.traffic;
    let Some(direction) = t.flows else {
        let idle = if t.nodes.is_some() {
            "traffic.nodes"
        } else if t.host.is_some() {
            "traffic.host"
        } else {
            return Ok(Vec::new());
        };
        let problem =
            Problem::refused("it serves `traffic.flows` only", "`flows = \"up\"`, for one");
        return fail(idle.into(), problem);
    };
    if t.host.is_none() && gateways.is_empty() {
        let problem =
            Problem::refused("the flows have no other end", "`host`, or `topology.gateway`");
        return fail("traffic.flows".into(), problem);
    }
    let host_key = if t.host.is_some() { "traffic.host" } else { "topology.gateway" };
    if let Some(host) = &t.host {
        nodes.find(host, host_key.into())?;
    }
    let other_end = |home: &Name, key: &KeyPath| -> Result<Name> {
        if let Some(host) = &t.host {
            return Ok(host.clone());
        }
        // A node that reaches no gateway fails when its route is looked up.
        let own = gateways.of(nodes.find(home, key.clone())?).or(gateways.first());
        Ok(own.map_or_else(|| home.clone(), |g| Name::from(nodes.name(g))))
    };
    let homes: Vec<(Name, KeyPath)> = match &t.nodes {
        Some(names) => {
            let key = |i| KeyPath::from("traffic.nodes").index(i);
            names.iter().enumerate().map(|(i, n)| (n.clone(), key(i))).collect()
        }
        None => {
            let wireless =
                nodes.list.iter().filter(|n| n.kind == NodeKind::Wireless && n.of.is_none());
            let names = wireless.map(|n| Name::from(n.name.as_str()));
            let ends = |n: &Name| {
                let gateway = |&g: &NodeId| Name::from(nodes.name(g)) == *n;
                t.host.as_ref() == Some(n) || gateways.list().iter().any(gateway)
            };
            let homes = names.filter(|n| !ends(n));
            homes.map(|n| (n, KeyPath::from("traffic.flows"))).collect()
        }
    };
    let mut entries = Vec::new();
    for (home, key) in homes {
        let (host, host_key) = (other_end(&home, &key)?, KeyPath::from(host_key));
        if direction != Direction::Down {
            entries.push(Entry {
                draft: FlowDraft::new(home.clone(), host.clone()),
                key: key.clone(),
                from_key: key.clone(),
                to_key: key.clone(),
            });
        }
        if direction != Direction::Up {
            entries.push(Entry {
                draft: FlowDraft::new(host, home),
                key: key.clone(),
                from_key: host_key,
                to_key: key,
            });
        }
    }
    Ok(entries)
}

/// Returns the names of flows, given or generated to be unique.
///
/// They are listed by entry, for each of its connections.
fn names(entries: &[Entry]) -> Result<Vec<Vec<String>>> {
    let mut taken = BTreeSet::new();
    for e in entries {
        if let Some(name) = &e.draft.name
            && !taken.insert(name.clone())
        {
            return fail(e.key.clone().key("name"), Problem::DuplicateName(name.clone()));
        }
    }
    // Requests per generated name: many flows between two nodes stay linear.
    let mut wanted: BTreeMap<String, u32> = BTreeMap::new();
    let mut make = |plain: String| {
        let count = wanted.entry(plain.clone()).or_default();
        loop {
            *count += 1;
            let name = if *count == 1 { plain.clone() } else { format!("{plain} #{count}") };
            if taken.insert(name.clone()) {
                return name;
            }
        }
    };
    let of = |e: &Entry| {
        let plain =
            e.draft.name.clone().unwrap_or_else(|| format!("{}->{}", e.draft.from, e.draft.to));
        let many = e.draft.connections.unwrap_or(1);
        let first = e.draft.name.clone().unwrap_or_else(|| make(plain.clone()));
        let more = (1..many).map(|_| make(plain.clone())).collect::<Vec<_>>();
        [first].into_iter().chain(more).collect()
    };
    Ok(entries.iter().map(of).collect())
}

/// Returns a path given node by node.
pub(super) fn explicit(
    names: &[Name],
    (from, to): (NodeId, NodeId),
    key: &KeyPath,
    nodes: &Nodes,
    graph: &Graph,
) -> Result<Vec<NodeId>> {
    let key = key.clone().key("path");
    let mut path = Vec::with_capacity(names.len());
    let mut seen = BTreeSet::new();
    for (i, name) in names.iter().enumerate() {
        let (node, on) = nodes.find_on(name, key.clone().index(i))?;
        if !seen.insert(node) {
            let problem =
                Problem::refused(format!("the path visits \"{name}\" twice"), "each node once");
            return fail(key.index(i), problem);
        }
        if let Some(&(last, _)) = path.last()
            && !nodes.joined(graph, last, node, on)
        {
            let (a, b) = (nodes.name(last).to_owned(), name.to_string());
            return fail(key.index(i), Problem::NoSuchLink(a, b));
        }
        path.push((node, on));
    }
    let ends = path.first().map(|n| n.0).zip(path.last().map(|n| n.0));
    if ends != Some((from, to)) {
        let problem = Problem::refused(
            "the path does not join the flow's ends",
            "a path from `from` to `to`",
        );
        return fail(key, problem);
    }
    Ok(radio_path::cheapest(&path, nodes, graph))
}

/// Returns a flow without its name.
fn finish(
    entry: &Entry,
    path: Vec<NodeId>,
    wired: &BTreeSet<(NodeId, NodeId)>,
    defaults: &FlowsDraft,
    duration: Span,
) -> Result<Flow> {
    let Entry { draft, key, .. } = entry;
    // An error in an inherited value is reported at its own position.
    let at = |own: bool, name: &str| {
        if own { key.clone().key(name) } else { KeyPath::from("traffic").key(name) }
    };
    let traffic_draft = draft.traffic.as_ref().or(defaults.traffic.as_ref());
    let traffic_key = at(draft.traffic.is_some(), "traffic");
    let traffic = traffic_draft
        .map_or(Ok(TrafficSpec::Bulk), TrafficDraft::build)
        .map_err(|p| ScenarioError::at(traffic_key, p))?;

    // An inherited transport is dropped if the application supports only the other one.
    let own = draft.transport.as_ref();
    let inherited = defaults.transport.as_ref().filter(|t| {
        draft.traffic.is_none() || traffic.is_udp() == matches!(t, TransportDraft::Udp)
    });
    let transport_key = at(own.is_some(), "transport");
    let transport = match own.or(inherited) {
        None if traffic.is_udp() => Transport::Udp,
        None => built(&TransportDraft::default(), transport_key.clone())?,
        Some(given) => built(given, transport_key.clone())?,
    };
    let start = draft.start.or(defaults.start).unwrap_or(Span::ZERO);
    let stop = draft.stop.or(defaults.stop);
    let start_jitter = draft.start_jitter.or(defaults.start_jitter).unwrap_or(USUAL_JITTER);
    // If two nodes share a wire and a link, the wire is used.
    let hops = path.windows(2).filter(|w| !wired.contains(&(w[0], w[1]))).count();
    let flow = Flow {
        name: String::new(),
        from: path[0],
        to: path[path.len() - 1],
        wireless_hops: hops as u32,
        path,
        traffic,
        transport,
        access: access::of_flow(draft, key, defaults)?,
        start,
        start_jitter,
        stop,
        weight: draft.weight.unwrap_or(1.0),
        plan: draft.plan,
        guarantee: draft.guarantee,
    };
    match check(&flow, duration) {
        Ok(()) => Ok(flow),
        Err((wrong, problem)) => {
            let inherited = match wrong {
                "transport" => draft.transport.is_none(),
                "traffic" => draft.traffic.is_none(),
                "start" => draft.start.is_none(),
                "stop" => draft.stop.is_none(),
                _ => false,
            };
            let e = ScenarioError::at(at(!inherited, wrong), problem);
            Err(if wrong == "start" { e.bounded_by("duration") } else { e })
        }
    }
}

/// Checks the conditions that hold for every flow of a world; an error names the key.
pub(crate) fn check(
    flow: &Flow,
    duration: Span,
) -> core::result::Result<(), (&'static str, Problem)> {
    let Flow { traffic, transport, start, stop, weight, plan, guarantee, .. } = flow;
    traffic.validate().map_err(|e| {
        ("traffic", Problem::refused(e.to_string(), "settings an application can work with"))
    })?;
    if traffic.is_udp() != (*transport == Transport::Udp) {
        let problem = if traffic.is_udp() {
            Problem::refused(
                "`cbr` traffic over a stream",
                "`transport = \"udp\"`, or `limited` traffic",
            )
        } else {
            Problem::refused("this traffic needs a stream", "TCP, QUIC, or `cbr` traffic")
        };
        return Err(("transport", problem));
    }
    if *start >= duration {
        let expected = format!("a start before the end of the run, {duration}");
        return Err(("start", Problem::range(start, expected)));
    }
    if stop.is_some_and(|stop| stop <= *start) {
        return Err(("stop", Problem::StopBeforeStart));
    }
    if !(*weight > 0.0 && weight.is_finite()) {
        return Err(("weight", Problem::range(weight, "a number above 0")));
    }
    if let Some(plan) = plan.filter(|p| p.0 == 0) {
        return Err(("plan", Problem::range(plan, "a rate above 0")));
    }
    if let (Some(plan), Some(least)) = (plan, guarantee)
        && least > plan
    {
        let expected = format!("at most the flow's plan of {plan}");
        return Err(("guarantee", Problem::range(least, expected)));
    }
    Ok(())
}

fn built(draft: &TransportDraft, key: KeyPath) -> Result<Transport> {
    match draft {
        TransportDraft::Udp => Ok(Transport::Udp),
        TransportDraft::Tcp(tcp) => {
            tcp.build().map(Transport::Tcp).map_err(|p| ScenarioError::at(key, p))
        }
        TransportDraft::Quic(quic) => {
            quic.build().map(Transport::Quic).map_err(|p| ScenarioError::at(key, p))
        }
    }
}
