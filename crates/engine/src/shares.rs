//! Flows that a gateway's control treats as one.
//!
//! They are a subscriber's in one direction, as the daemon counts and limits them. A share has the number of
//! its first flow.

use std::collections::BTreeMap;

use fairmesh_control::Leaf;
use fairmesh_queueing::{CodelSpec, DisciplineSpec, FairSpec, FqCodelSpec, Limit};
use fairmesh_scenario::{Scenario, Share, SharedLeaf};
use fairmesh_units::{FlowId, NodeId, Span};

/// Bytes of a full-sized IP packet.
const FULL_PACKET: u64 = 1500;

/// The `fq_codel` of a class, as the daemon configures it.
const FQ_CODEL: FqCodelSpec = FqCodelSpec {
    packets: 1024,
    memory: 4 << 20,
    flows: 64,
    quantum: 1514,
    drop_batch: 64,
    codel: CodelSpec {
        target: Span::from_millis(20),
        interval: Span::from_millis(120),
        ecn: true,
        ce_threshold: None,
        ce_ect1: false,
        mtu: 1514,
    },
};

/// Grouping of flows into shares. By default every flow is alone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shares {
    /// By flow, the first flow of its share; empty if every flow is alone.
    first: Vec<u32>,
    /// By flow, true if it crosses another gateway than the control's.
    ///
    /// Empty if there is one gateway.
    elsewhere: Vec<bool>,
    /// By first flow.
    shares: BTreeMap<u32, Share>,
    leaf: SharedLeaf,
    /// Numbers of flows in queues, where they are not their indices.
    numbers: Vec<u32>,
}

impl Shares {
    /// Returns the shares of a scenario's subscribers.
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
        Shares {
            first,
            elsewhere: Vec::new(),
            shares,
            leaf: subscribers.leaf,
            numbers: scenario.flow_numbers().to_vec(),
        }
    }

    /// Returns the display name of a control's flow.
    ///
    /// It is the subscriber and direction, or the flow's own name.
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

    /// Excludes flows that use another gateway and only pass this one over the air.
    pub fn at_gateway(self, scenario: &Scenario, gateway: NodeId) -> Self {
        if !scenario.gateways().are_several() {
            return self;
        }
        let other = |f| scenario.gateway_of(f).is_some_and(|g| g != gateway);
        Shares { elsewhere: scenario.flows().iter().map(other).collect(), ..self }
    }

    /// Returns true if a flow crosses another gateway.
    pub fn is_elsewhere(&self, flow: FlowId) -> bool {
        self.elsewhere.get(flow.index()).copied().unwrap_or(false)
    }

    /// Returns true if every flow is alone.
    pub fn is_none(&self) -> bool {
        self.first.is_empty()
    }

    /// Returns the share that a flow belongs to.
    #[inline]
    pub fn of_flow(&self, flow: FlowId) -> FlowId {
        FlowId(self.first.get(flow.index()).copied().unwrap_or(flow.0))
    }

    /// Returns the number in queues of the share of a flow, from that of the flow.
    pub fn of_number(&self, number: u32) -> u32 {
        if self.numbers.is_empty() {
            return self.of_flow(FlowId(number)).0;
        }
        let flow = self.numbers.binary_search(&number).map_or(number, |f| f as u32);
        let share = self.of_flow(FlowId(flow)).index();
        self.numbers.get(share).copied().unwrap_or(number)
    }

    /// Returns true if a flow's number is that of its share.
    #[inline]
    pub fn names(&self, flow: FlowId) -> bool {
        self.of_flow(flow) == flow && !self.is_elsewhere(flow)
    }

    /// Returns a subscriber's share; `None` for a flow that is alone.
    pub fn share(&self, share: FlowId) -> Option<&Share> {
        self.shares.get(&share.0)
    }

    /// Returns the flows of a share.
    pub fn members(&self, share: FlowId) -> impl Iterator<Item = FlowId> + '_ {
        let several = self.share(share);
        let single = several.is_none().then_some(share);
        several.into_iter().flat_map(|s| &s.flows).map(|&f| FlowId(f as u32)).chain(single)
    }

    /// Returns the sum of the known values of a share's flows; `None` if none is known.
    pub fn sum(&self, share: FlowId, of: impl Fn(usize) -> Option<f64>) -> Option<f64> {
        self.members(share).filter_map(|f| of(f.index())).reduce(|a, b| a + b)
    }

    /// Returns the queue of a share for which a control requests `leaf`.
    ///
    /// `None`: the queue that the control requests.
    pub fn queue(&self, share: FlowId, leaf: Leaf) -> Option<DisciplineSpec> {
        let several = self.share(share).is_some_and(|s| s.flows.len() > 1);
        let Leaf::DropTail { packets } = leaf else { return None };
        if self.leaf == SharedLeaf::FqCodel && self.share(share).is_some() {
            return Some(DisciplineSpec::FqCodel(FQ_CODEL));
        }
        // In bytes, so that small packets, such as those of a call, are not dropped because of
        // their number.
        let each = Limit::Bytes(u64::from(packets) * FULL_PACKET);
        let fair = several && self.leaf == SharedLeaf::Fq;
        fair.then(|| DisciplineSpec::Fair(FairSpec::per_flow(each)))
    }
}
