//! What the control of a gateway sees as one flow: those of a subscriber in one direction, as the
//! daemon counts and limits them. A share has the number of its first flow.

use std::collections::BTreeMap;

use fairmesh_control::Leaf;
use fairmesh_queueing::{DisciplineSpec, FairSpec, Limit};
use fairmesh_scenario::{Scenario, Share, SharedLeaf};
use fairmesh_units::{FlowId, NodeId};

/// Bytes of a full-sized IP packet.
const FULL_PACKET: u64 = 1500;

/// Which flows are one. By default every flow stands for itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shares {
    /// By flow, the first flow of its share; empty where every flow stands for itself.
    first: Vec<u32>,
    /// By flow, whether it crosses another gateway than the control's; empty where there is one.
    elsewhere: Vec<bool>,
    /// By first flow.
    shares: BTreeMap<u32, Share>,
    leaf: SharedLeaf,
}

impl Shares {
    /// Those of a scenario's subscribers.
    pub fn of(scenario: &Scenario) -> Self {
        let subscribers = scenario.subscribers();
        if subscribers.list.is_empty() {
            return Shares::default();
        }
        let mut first: Vec<u32> = (0..scenario.flows().len() as u32).collect();
        let mut shares = BTreeMap::new();
        for share in subscribers.list.iter().flat_map(|s| s.shares()) {
            if let Some(&name) = share.flows.first() {
                share.flows.iter().for_each(|&f| first[f] = name as u32);
                shares.insert(name as u32, share.clone());
            }
        }
        Shares { first, elsewhere: Vec::new(), shares, leaf: subscribers.leaf }
    }

    /// What people call a control's flow: the subscriber and the direction, or the flow alone.
    pub fn name(&self, scenario: &Scenario, flow: FlowId) -> Option<String> {
        let index = flow.index();
        let own = self.shares.get(&flow.0).and_then(|_| {
            let mut all = scenario.subscribers().list.iter();
            all.find_map(|s| {
                let down = s.down.flows.contains(&index);
                let direction = if down { "down" } else { "up" };
                (down || s.up.flows.contains(&index)).then(|| format!("{} ({direction})", s.name))
            })
        });
        own.or_else(|| scenario.flows().get(index).map(|f| f.name.clone()))
    }

    /// Without what crosses another gateway, and at this one is in the air only.
    pub fn at_gateway(self, scenario: &Scenario, gateway: NodeId) -> Self {
        if !scenario.gateways().are_several() {
            return self;
        }
        let other = |f| scenario.gateway_of(f).is_some_and(|g| g != gateway);
        Shares { elsewhere: scenario.flows().iter().map(other).collect(), ..self }
    }

    /// Whether a flow crosses another gateway.
    pub fn is_elsewhere(&self, flow: FlowId) -> bool {
        self.elsewhere.get(flow.index()).copied().unwrap_or(false)
    }

    /// Whether every flow stands for itself.
    pub fn is_none(&self) -> bool {
        self.first.is_empty()
    }

    /// The share that a flow belongs to.
    #[inline]
    pub fn of_flow(&self, flow: FlowId) -> FlowId {
        FlowId(self.first.get(flow.index()).copied().unwrap_or(flow.0))
    }

    /// Whether a flow gives its number to its share.
    #[inline]
    pub fn names(&self, flow: FlowId) -> bool {
        self.of_flow(flow) == flow && !self.is_elsewhere(flow)
    }

    /// A subscriber's share; `None` for a flow that stands for itself.
    pub fn share(&self, share: FlowId) -> Option<&Share> {
        self.shares.get(&share.0)
    }

    /// The flows of a share.
    pub fn members(&self, share: FlowId) -> impl Iterator<Item = FlowId> + '_ {
        let several = self.share(share);
        let single = several.is_none().then_some(share);
        several.into_iter().flat_map(|s| &s.flows).map(|&f| FlowId(f as u32)).chain(single)
    }

    /// The sum over the flows of a share of what is known of them; `None` if nothing is.
    pub fn sum(&self, share: FlowId, of: impl Fn(usize) -> Option<f64>) -> Option<f64> {
        self.members(share).filter_map(|f| of(f.index())).reduce(|a, b| a + b)
    }

    /// How the packets of a share of several flows wait where a control asks for `leaf`; `None`: as it
    /// asks.
    pub fn queue(&self, share: FlowId, leaf: Leaf) -> Option<DisciplineSpec> {
        let several = self.share(share).is_some_and(|s| s.flows.len() > 1);
        let Leaf::DropTail { packets } = leaf else { return None };
        // In bytes, so that small packets, such as a call's, are not dropped for being many.
        let each = Limit::Bytes(u64::from(packets) * FULL_PACKET);
        let fair = several && self.leaf == SharedLeaf::Fq;
        fair.then(|| DisciplineSpec::Fair(FairSpec::per_flow(each)))
    }
}
