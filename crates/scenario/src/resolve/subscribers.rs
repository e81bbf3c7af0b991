//! `[subscribers]` and `[[subscriber]]`: groups of flows with a common share at the gateway.

use std::collections::{BTreeMap, BTreeSet};

use fairmesh_units::{BitRate, NodeId};

use super::flows::Written;
use super::nodes::Nodes;
use super::{Result, fail};
use crate::draft::{Draft, PerDraft, SubscriberDraft};
use crate::error::{KeyPath, Problem};
use crate::scenario::{Flow, Share, SharedLeaf, Subscriber, Subscribers, Wire};
use crate::subscriber::{Crossing, crossing};

/// Groups `flows`, and sets their subscriber's weight and parts of ceiling and guarantee.
pub(super) fn build(
    draft: &Draft,
    nodes: &Nodes,
    wires: &[Wire],
    flows: &mut [Flow],
    written: &[Written],
) -> Result<Subscribers> {
    let per_node = draft.subscribers.per == Some(PerDraft::Node);
    if !per_node && draft.subscriber.is_empty() {
        if draft.subscribers.leaf.is_some() {
            let problem =
                Problem::refused("there are no subscribers", "`per = \"node\"`, or [[subscriber]]");
            return fail("subscribers.leaf".into(), problem);
        }
        return Ok(Subscribers::default());
    }
    if nodes.gateways.is_empty() {
        let key = if per_node { "subscribers.per" } else { "subscriber" };
        let problem = Problem::refused(
            "subscribers share at a gateway, and there is none",
            "`topology.gateway`",
        );
        return fail(key.into(), problem);
    }
    let wired: BTreeSet<(NodeId, NodeId)> =
        wires.iter().flat_map(|w| [(w.a, w.b), (w.b, w.a)]).collect();
    let wired = |a, b| wired.contains(&(a, b));
    let way = |f: &Flow| {
        let own = f.path.iter().filter(|n| nodes.gateways.contains(n));
        own.copied().find_map(|g| crossing(&f.path, g, wired))
    };
    let ways: Vec<Option<Crossing>> = flows.iter().map(way).collect();

    let mut owner: Vec<Option<usize>> = vec![None; flows.len()];
    let mut list: Vec<Subscriber> = Vec::new();
    let mut names = BTreeSet::new();
    for (i, entry) in draft.subscriber.iter().enumerate() {
        let key = KeyPath::from("subscriber").index(i);
        let name = name_of(entry, &key)?;
        if !names.insert(name.clone()) {
            return fail(key.key("name"), Problem::DuplicateName(name));
        }
        let members = members(entry, &key, nodes, flows, written, &ways)?;
        for &(flow, ref key) in &members {
            match owner[flow].replace(i) {
                Some(first) if first != i => {
                    let (flow, first) = (&flows[flow].name, &list[first].name);
                    let what = format!("flow \"{flow}\" belongs to subscriber \"{first}\" already");
                    return fail(key.clone(), Problem::refused(what, "each flow in one"));
                }
                _ => {}
            }
        }
        one_gateway(&members, &ways, &name, nodes)?;
        let mut own: Vec<usize> = members.into_iter().map(|m| m.0).collect();
        own.sort_unstable();
        own.dedup();
        let weight = weight(entry, &key, &name, &own, flows, written)?;
        list.push(Subscriber {
            weight,
            down: share(part(&own, &ways, true), &key, "down", entry.down, entry.guarantee_down)?,
            up: share(part(&own, &ways, false), &key, "up", entry.up, entry.guarantee_up)?,
            name,
        });
    }
    if per_node {
        others(nodes, flows, written, &ways, &owner, &names, &mut list)?;
    }
    for subscriber in &list {
        apply(subscriber, flows, written)?;
    }
    Ok(Subscribers { list, leaf: draft.subscribers.leaf.unwrap_or(SharedLeaf::Fq) })
}

/// Checks that all flows of a limited subscriber use one gateway.
fn one_gateway(
    members: &[(usize, KeyPath)],
    ways: &[Option<Crossing>],
    name: &str,
    nodes: &Nodes,
) -> Result<()> {
    let mut first = None;
    for (flow, key) in members {
        let Some(gateway) = ways[*flow].map(|w| w.gateway) else { continue };
        let first = *first.get_or_insert(gateway);
        if gateway != first {
            let (a, b) = (nodes.name(first), nodes.name(gateway));
            let what = format!("\"{name}\" goes through the gateways \"{a}\" and \"{b}\"");
            return fail(key.clone(), Problem::refused(what, "nodes and flows of one gateway"));
        }
    }
    Ok(())
}

/// Returns those of `flows` that go in one direction.
fn part(flows: &[usize], ways: &[Option<Crossing>], down: bool) -> Vec<usize> {
    flows.iter().copied().filter(|&f| ways[f].is_some_and(|w| w.down == down)).collect()
}

fn name_of(entry: &SubscriberDraft, key: &KeyPath) -> Result<String> {
    match (&entry.name, entry.nodes.as_deref(), &entry.flows) {
        (Some(name), _, _) if !name.is_empty() => Ok(name.clone()),
        (Some(_), _, _) => {
            fail(key.clone().key("name"), Problem::refused("the name is empty", "a name"))
        }
        (None, Some([node]), None) => Ok(node.to_string()),
        (None, _, _) => fail(key.clone(), Problem::MissingKey("name".to_owned())),
    }
}

/// Returns the flows of an entry, each with the key that names it.
fn members(
    entry: &SubscriberDraft,
    key: &KeyPath,
    nodes: &Nodes,
    flows: &[Flow],
    written: &[Written],
    ways: &[Option<Crossing>],
) -> Result<Vec<(usize, KeyPath)>> {
    let mut members = Vec::new();
    if entry.nodes.is_none() && entry.flows.is_none() {
        let problem = Problem::refused("it is not clear what is its own", "`nodes`, or `flows`");
        return fail(key.clone(), problem);
    }
    for (k, name) in entry.nodes.iter().flatten().enumerate() {
        let key = key.clone().key("nodes").index(k);
        let node = nodes.wireless(name, key.clone())?;
        let before = members.len();
        let own = (0..flows.len()).filter(|&f| ways[f].is_some_and(|w| w.home == node));
        members.extend(own.map(|f| (f, key.clone())));
        if members.len() == before {
            let what = format!("no flow of \"{name}\" crosses the gateway");
            return fail(key, Problem::refused(what, "a node with such a flow"));
        }
    }
    for (k, name) in entry.flows.iter().flatten().enumerate() {
        let key = key.clone().key("flows").index(k);
        // The name of an entry means all its connections.
        let named = |f: &usize| flows[*f].name == *name || written[*f].name.as_ref() == Some(name);
        let own: Vec<usize> = (0..flows.len()).filter(named).collect();
        if own.is_empty() {
            let what = format!("no flow is called \"{name}\"");
            return fail(key, Problem::refused(what, "the name of a flow"));
        }
        if own.iter().any(|&f| ways[f].is_none()) {
            let what = format!("flow \"{name}\" does not go from the mesh through the gateway");
            let expected = "a flow between a node of the mesh and the gateway or what is behind it";
            return fail(key, Problem::refused(what, expected));
        }
        members.extend(own.into_iter().map(|f| (f, key.clone())));
    }
    Ok(members)
}

/// Returns the weight of a subscriber: its own, or that of its flows.
fn weight(
    entry: &SubscriberDraft,
    key: &KeyPath,
    name: &str,
    own: &[usize],
    flows: &[Flow],
    written: &[Written],
) -> Result<f64> {
    if let Some(weight) = entry.weight
        && !(weight > 0.0 && weight.is_finite())
    {
        return fail(key.clone().key("weight"), Problem::range(weight, "a number above 0"));
    }
    let mut found = entry.weight;
    for &f in own.iter().filter(|&&f| written[f].weight) {
        let (weight, common) = (flows[f].weight, *found.get_or_insert(flows[f].weight));
        if weight != common {
            let what = format!("a weight of {weight} contradicts {common} of \"{name}\"");
            let problem = Problem::refused(what, "one weight for all flows of a subscriber");
            return fail(written[f].key.clone().key("weight"), problem);
        }
    }
    Ok(found.unwrap_or(1.0))
}

fn share(
    flows: Vec<usize>,
    key: &KeyPath,
    way: &str,
    ceiling: Option<BitRate>,
    guarantee: Option<BitRate>,
) -> Result<Share> {
    if let Some(ceiling) = ceiling.filter(|c| c.0 == 0) {
        return fail(key.clone().key(way), Problem::range(ceiling, "a rate above 0"));
    }
    let promised = format!("guarantee_{way}");
    if let (Some(most), Some(least)) = (ceiling, guarantee)
        && least > most
    {
        let problem = Problem::range(least, format!("at most `{way}`, {most}"));
        return fail(key.clone().key(&promised), problem);
    }
    if flows.is_empty() && (ceiling.is_some() || guarantee.is_some()) {
        let name = if ceiling.is_some() { way } else { &*promised };
        let what = format!("it has no flow {way}stream");
        return fail(key.clone().key(name), Problem::refused(what, "a direction that it uses"));
    }
    Ok(Share { flows, ceiling, guarantee })
}

/// Makes every node with flows that belong to no subscriber a subscriber of its own name.
fn others(
    nodes: &Nodes,
    flows: &[Flow],
    written: &[Written],
    ways: &[Option<Crossing>],
    owner: &[Option<usize>],
    names: &BTreeSet<String>,
    list: &mut Vec<Subscriber>,
) -> Result<()> {
    let mut homes: BTreeMap<NodeId, Vec<usize>> = BTreeMap::new();
    for (f, way) in ways.iter().enumerate() {
        if let (None, Some(way)) = (owner[f], way) {
            homes.entry(way.home).or_default().push(f);
        }
    }
    for (home, own) in homes {
        let name = nodes.name(home).to_owned();
        let key = KeyPath::from("subscribers").key("per");
        if names.contains(&name) {
            let what =
                format!("a [[subscriber]] has the name of node \"{name}\", but not its flows");
            return fail(key, Problem::refused(what, "`nodes` with that node, or another name"));
        }
        let members: Vec<_> = own.iter().map(|&f| (f, written[f].key.clone())).collect();
        one_gateway(&members, ways, &name, nodes)?;
        let weight = weight(&SubscriberDraft::default(), &key, &name, &own, flows, written)?;
        let share = |down| Share { flows: part(&own, ways, down), ..Share::default() };
        list.push(Subscriber { name, weight, down: share(true), up: share(false) });
    }
    Ok(())
}

/// Gives a subscriber's flows its weight, and equal parts of its ceiling and guarantee.
///
/// Mechanisms that act at sources, and the analytic models, know only flows.
fn apply(subscriber: &Subscriber, flows: &mut [Flow], written: &[Written]) -> Result<()> {
    for share in subscriber.shares() {
        let many = share.flows.len() as u64;
        for &f in &share.flows {
            let flow = &mut flows[f];
            let own = [("plan", flow.plan), ("guarantee", flow.guarantee)];
            if let Some((key, _)) = own.iter().find(|(_, rate)| rate.is_some()) {
                let what = format!("the flow belongs to subscriber \"{}\"", subscriber.name);
                let expected =
                    "`down`, `up`, `guarantee_down` or `guarantee_up` of its [[subscriber]]";
                let problem = Problem::refused(what, expected);
                return fail(written[f].key.clone().key(key), problem);
            }
            flow.weight = subscriber.weight;
            flow.plan = share.ceiling.map(|c| BitRate(c.0.div_ceil(many)));
            flow.guarantee = share.guarantee.map(|g| BitRate(g.0 / many));
        }
    }
    Ok(())
}
