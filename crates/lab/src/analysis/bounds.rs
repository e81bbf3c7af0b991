//! The bounds of Jamshaid 2010 §7.5.2, for the flows of a scenario.

use fairmesh_capacity::bounds::{Reuse, aggregate};
use serde::Serialize;

use super::FlowInfo;

/// Bounds on the aggregate of fair rates, bit/s, from the gateway's own links alone.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct GatewayBounds {
    /// W₁/3: lower bound for an allocation that fills a clique, if contention reaches one hop.
    pub lower_bps: f64,
    /// W₁/5: lower bound by collision domains.
    pub lower_domains_bps: f64,
    /// N / Σ 1/Wᵢ: upper bound, all nodes one hop away.
    pub upper_bps: f64,
}

/// Returns the bounds by the capacity of each flow's hop at the gateway.
///
/// `None` if a flow has no such hop.
pub(super) fn of(gateway: &str, flows: &[FlowInfo]) -> Option<GatewayBounds> {
    let at_gateway = |f: &FlowInfo| {
        if f.path.last().is_some_and(|n| n == gateway) {
            f.hop_capacity_bps.last().copied()
        } else if f.path.first().is_some_and(|n| n == gateway) {
            f.hop_capacity_bps.first().copied()
        } else {
            None
        }
    };
    let links: Vec<f64> = flows.iter().map(at_gateway).collect::<Option<_>>()?;
    let bounds = aggregate(&links, Reuse::Dcf).ok()?;
    let domains = aggregate(&links, Reuse::Domains(1)).ok()?;
    Some(GatewayBounds {
        lower_bps: bounds.lower,
        lower_domains_bps: domains.lower,
        upper_bps: bounds.upper,
    })
}
