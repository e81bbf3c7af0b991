//! Arrival and departure of flows.

use fairmesh_units::{BitRate, FlowId};

use super::Pfrc;
use super::flow::Share;
use crate::gateway::promise::Promise;
use crate::{Actions, Class, FlowHere, Reason, Refusal, Value};

impl Pfrc {
    /// Updates a flow's weight and plan; leaves them unchanged if the plan is refused.
    pub(super) fn admit(&mut self, here: &FlowHere) -> Result<(), Refusal> {
        let bursts = self.bursts;
        let share = &mut self.flows.entry(here.flow, || Share::new(bursts)).1;
        let others = self.promised - share.guarantee as u64;
        let promise = Promise::of(here, others, &self.bounds, "pfrc.ceiling")?;
        share.weight = promise.weight;
        share.guarantee = promise.guarantee;
        share.ceiling = promise.ceiling;
        self.promised = promise.sum;
        self.search.promise(promise.sum as f64);
        Ok(())
    }

    /// Handles the announcement of a flow: without a class, it gets one at a newcomer's rate.
    pub(super) fn seen(&mut self, here: &FlowHere, actions: &mut Actions) {
        let flow = here.flow;
        if let Err(refusal) = self.admit(here) {
            actions.because(match (refusal.code(), refusal.values()) {
                ("any.guarantees", [sum, ..]) => Reason::new(
                    "pfrc.refused",
                    "flow {}: guarantees would add up to {}, more than is sure",
                    &[Value::Flow(flow), *sum],
                ),
                _ => refusal.reason("pfrc.refused"),
            });
        }
        let (total, weights, bursts) = (self.search.estimate(), self.weights(), self.bursts);
        let (meter, share) = self.flows.entry(flow, || Share::new(bursts));
        if !meter.active && !share.class {
            share.class = true;
            share.allow(total / (weights + share.weight), self.headroom);
            actions.because(Reason::new(
                "pfrc.newcomer",
                "flow {} may start at {}",
                &[Value::Flow(flow), Value::Rate(share.limit)],
            ));
            actions.set_rate(Class::Flow(flow), share.limit);
        }
    }

    /// Handles the host's report that a flow is gone.
    pub(super) fn gone(&mut self, flow: FlowId, actions: &mut Actions) {
        let Some(share) = self.flows.end(flow) else { return };
        share.limit = BitRate(0);
        if core::mem::replace(&mut share.class, false) {
            actions.because(Reason::new("pfrc.gone", "flow {} is gone", &[Value::Flow(flow)]));
            actions.remove(Class::Flow(flow));
        }
    }
}
