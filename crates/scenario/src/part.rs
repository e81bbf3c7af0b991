//! A part of a world as a separate world.

use fairmesh_units::{NodeId, Power};
use fairmesh_wifi::SensedPair;

use crate::gateways::Gateways;
use crate::scenario::{Interferer, Link, RateChange, RouteChange, Scenario, Share, Wire};

/// New numbers of the kept elements of a list.
struct Renumbered(Vec<Option<u32>>);

impl Renumbered {
    fn new(all: usize, kept: impl Iterator<Item = usize>) -> Self {
        let mut new = vec![None; all];
        for (number, old) in kept.enumerate() {
            new[old] = Some(number as u32);
        }
        Renumbered(new)
    }

    fn of(&self, old: usize) -> Option<u32> {
        self.0.get(old).copied().flatten()
    }

    fn node(&self, old: NodeId) -> Option<NodeId> {
        self.of(old.index()).map(NodeId)
    }

    fn nodes(&self, old: &[NodeId]) -> Vec<NodeId> {
        old.iter().filter_map(|n| self.node(*n)).collect()
    }
}

impl Scenario {
    /// Returns the world of some nodes and flows, both in ascending order.
    ///
    /// Names, order and settings are those of the whole, so that streams of random numbers are, too. A flow with a path
    /// that leaves the nodes is left out.
    #[must_use]
    pub fn part(&self, nodes: &[NodeId], flows: &[usize]) -> Scenario {
        let new = Renumbered::new(self.nodes.len(), nodes.iter().map(|n| n.index()));
        let inside = |path: &[NodeId]| path.iter().all(|n| new.node(*n).is_some());
        let flows: Vec<usize> =
            flows.iter().copied().filter(|&f| inside(&self.flows[f].path)).collect();
        let flow = Renumbered::new(self.flows.len(), flows.iter().copied());
        let mut part = Scenario {
            name: self.name.clone(),
            description: String::new(),
            mac: self.mac.clone(),
            further: self.further.clone(),
            queue: self.queue.clone(),
            errors: self.errors.clone(),
            control: self.control.clone(),
            at_gateways: self.at_gateways.clone(),
            duration: self.duration,
            warmup: self.warmup,
            channel: self.channel,
            nodes: nodes.iter().map(|n| self.nodes[n.index()].clone()).collect(),
            flows: flows.iter().map(|&f| self.flows[f].clone()).collect(),
            sensed_pairs: self.pairs_within(&self.sensed_pairs, nodes, &new),
            leaks: self.pairs_within(&self.leaks, nodes, &new),
            links: Vec::new(),
            wires: Vec::new(),
            subscribers: crate::Subscribers { list: Vec::new(), leaf: self.subscribers.leaf },
            interferers: Vec::new(),
            rate_changes: Vec::new(),
            route_changes: Vec::new(),
            gateways: Gateways::default(),
            agents: self.agents.as_ref().map(|list| new.nodes(list)),
            taking_part: self.taking_part.as_ref().map(|list| new.nodes(list)),
            warnings: Vec::new(),
            flow_numbers: flows.iter().map(|&f| f as u32).collect(),
        };
        for node in &mut part.nodes {
            node.of = node.of.and_then(|n| new.node(n));
        }
        for f in &mut part.flows {
            f.path = new.nodes(&f.path);
            if let (Some(from), Some(to)) = (f.path.first(), f.path.last()) {
                (f.from, f.to) = (*from, *to);
            }
        }
        for &from in nodes {
            let first = self.links.partition_point(|l| l.from < from);
            let own = self.links[first..].iter().take_while(|l| l.from == from);
            let kept = |l: &Link| Some(Link { from: new.node(l.from)?, to: new.node(l.to)?, ..*l });
            part.links.extend(own.filter_map(kept));
        }
        let wire = |w: &Wire| Some(Wire { a: new.node(w.a)?, b: new.node(w.b)?, ..*w });
        part.wires = self.wires.iter().filter_map(wire).collect();
        let interferer = |i: &Interferer| {
            let kept = |&(n, power): &(NodeId, Power)| Some((new.node(n)?, power));
            let sensed_by: Vec<_> = i.sensed_by.iter().filter_map(kept).collect();
            (!sensed_by.is_empty()).then(|| Interferer { sensed_by, ..i.clone() })
        };
        part.interferers = self.interferers.iter().filter_map(interferer).collect();
        let rate = |c: &RateChange| {
            Some(RateChange { from: new.node(c.from)?, to: new.node(c.to)?, ..*c })
        };
        part.rate_changes = self.rate_changes.iter().filter_map(rate).collect();
        let route = |c: &RouteChange| {
            let flow = flow.of(c.flow)? as usize;
            inside(&c.path).then(|| RouteChange { flow, path: new.nodes(&c.path), at: c.at })
        };
        part.route_changes = self.route_changes.iter().filter_map(route).collect();
        let share = |s: &Share| Share {
            flows: s.flows.iter().filter_map(|&f| flow.of(f)).map(|f| f as usize).collect(),
            ..s.clone()
        };
        for s in &self.subscribers.list {
            let (down, up) = (share(&s.down), share(&s.up));
            if !down.flows.is_empty() || !up.flows.is_empty() {
                part.subscribers.list.push(crate::Subscriber { down, up, ..s.clone() });
            }
        }
        part.gateways = match self.gateways.are_several() {
            true => {
                let of = nodes.iter().map(|n| new.node(self.gateways.of(*n)?)).collect();
                Gateways::several_of(self.gateways.total(), new.nodes(self.gateways.list()), of)
            }
            false => {
                let first = self.gateways.first().and_then(|g| new.node(g));
                first.map_or_else(Gateways::default, Gateways::one)
            }
        };
        part
    }

    fn pairs_within(
        &self,
        all: &[SensedPair],
        nodes: &[NodeId],
        new: &Renumbered,
    ) -> Vec<SensedPair> {
        let mut out = Vec::new();
        for from in nodes {
            let first = all.partition_point(|h| h.from < from.0);
            let own = all[first..].iter().take_while(|h| h.from == from.0);
            let kept = |h: &SensedPair| {
                let (from, to) = (new.of(h.from as usize)?, new.of(h.to as usize)?);
                Some(SensedPair { from, to, ..*h })
            };
            out.extend(own.filter_map(kept));
        }
        out
    }
}
