//! `[wired]` and `[[wire]]`.

use std::collections::BTreeSet;

use fairmesh_units::{BitRate, NodeId, Span};

use super::nodes::Nodes;
use super::{Result, fail};
use crate::draft::Draft;
use crate::error::{KeyPath, Problem, ScenarioError};
use crate::name::Name;
use crate::scenario::Wire;

const USUAL_RATE: BitRate = BitRate(100_000_000);
const USUAL_DELAY: Span = Span::from_millis(1);
const USUAL_QUEUE: u32 = 1000;

/// Wire settings of both sections.
struct Details {
    rate: Option<BitRate>,
    delay: Option<Span>,
    queue: Option<u32>,
}

#[derive(Default)]
struct Wires {
    list: Vec<Wire>,
    taken: BTreeSet<(NodeId, NodeId)>,
}

pub(super) fn build(draft: &Draft, nodes: &Nodes) -> Result<Vec<Wire>> {
    let mut wires = Wires::default();
    if let Some(wired) = &draft.wired {
        let key = KeyPath::from("wired");
        let gateways = draft.topology.all_gateways().map(|g| g.0);
        let at: Vec<&Name> = match &wired.at {
            Some(at) => vec![at],
            None => gateways.collect(),
        };
        if at.is_empty() {
            let problem =
                Problem::refused("the hosts are joined to nothing", "`at`, or `topology.gateway`");
            return fail(key, problem);
        }
        let details = Details { rate: wired.rate, delay: wired.delay, queue: wired.queue };
        for host in &wired.hosts {
            for at in &at {
                push(&mut wires, nodes, (at, host), &details, &key, "at", "hosts")?;
            }
        }
    }
    for (i, wire) in draft.wire.iter().enumerate() {
        let key = KeyPath::from("wire").index(i);
        let details = Details { rate: wire.rate, delay: wire.delay, queue: wire.queue };
        push(&mut wires, nodes, (&wire.from, &wire.to), &details, &key, "from", "to")?;
    }
    Ok(wires.list)
}

fn push(
    wires: &mut Wires,
    nodes: &Nodes,
    (from, to): (&Name, &Name),
    details: &Details,
    key: &KeyPath,
    from_key: &str,
    to_key: &str,
) -> Result<()> {
    let a = nodes.find(from, key.clone().key(from_key))?;
    let b = nodes.find(to, key.clone().key(to_key))?;
    if a == b {
        return fail(key.clone().key(to_key), Problem::SelfLink(from.to_string()));
    }
    if !wires.taken.insert((a.min(b), a.max(b))) {
        let problem = Problem::DuplicateLink(from.to_string(), to.to_string());
        return Err(ScenarioError::at(key.clone(), problem));
    }
    let rate = details.rate.unwrap_or(USUAL_RATE);
    if rate.0 == 0 {
        return fail(key.clone().key("rate"), Problem::range(rate, "above 0 bit/s"));
    }
    let queue_packets = details.queue.unwrap_or(USUAL_QUEUE);
    if queue_packets == 0 {
        return fail(key.clone().key("queue"), Problem::range(queue_packets, "at least 1 packet"));
    }
    wires.list.push(Wire {
        a,
        b,
        rate,
        delay: details.delay.unwrap_or(USUAL_DELAY),
        queue_packets,
    });
    Ok(())
}
