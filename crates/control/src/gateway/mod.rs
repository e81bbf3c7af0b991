//! Mechanisms of the gateway: fixed or searched limits, for all traffic or for each flow.

mod aggregate_search;
pub(crate) mod arc;
mod bounds;
mod flows;
pub(crate) mod gateway_queue;
mod lower_bound;
mod peers;
pub(crate) mod pfrc;
mod promise;
pub(crate) mod rtt;
pub(crate) mod static_aggregate;
pub(crate) mod static_flow;
