//! Achievability of loads on links, without flows.
//!
//! These are the queries available to a node that knows its neighbourhood (Rangwala 2008 §3.2, "Estimating
//! available bandwidth").

use fairmesh_units::NodeId;

use super::fixed_point::{Solver, Spread, busiest};
use super::interference::Model;
use super::network::Network;
use super::pair::PairClass;
use super::timing::{Times, secs};
use super::types::{LinkMesh, Load, NoState, RegionError, Settings, State, Stream};
use super::unknowns::FixedPoint;
use crate::graph::Hop;

/// Maps rates beyond the boundary to `None`: not achievable.
pub(super) fn settled<T>(found: Result<T, NoState>) -> Result<Option<T>, NoState> {
    match found {
        Ok(f) => Ok(Some(f)),
        Err(NoState::Beyond) => Ok(None),
        Err(unknown) => Err(unknown),
    }
}

/// A network of links, prepared for queries with many loads.
///
/// Graph properties are computed once, here.
#[derive(Clone, Debug)]
pub struct LinkRegion {
    solver: Solver,
    /// Last result of [`LinkRegion::busiest`].
    last: Option<FixedPoint>,
}

impl LinkRegion {
    /// Prepares a network.
    ///
    /// # Errors
    /// See [`RegionError`].
    pub fn new<L: AsRef<[NodeId]>>(mesh: &LinkMesh<'_, L>) -> Result<Self, RegionError> {
        let model = Model::new(Network::new(mesh)?)?;
        Ok(LinkRegion { solver: Solver::new(model), last: None })
    }

    /// Returns the links in use, one direction each.
    pub fn hops(&self) -> impl Iterator<Item = Hop> + '_ {
        let network = &self.solver.model.network;
        (0..network.links.len()).map(|h| network.hop(h))
    }

    /// Returns the class of two links, by their indices.
    pub fn class(&self, one: usize, other: usize) -> PairClass {
        let network = &self.solver.model.network;
        PairClass::of(&network.contention, network.hop(one), network.hop(other))
    }

    /// Returns the network's state under these loads, one per stream. `loss` is empty.
    ///
    /// # Errors
    /// The reason for which there is none.
    pub fn state(&mut self, loads: &[Load]) -> Result<State, NoState> {
        let f = self.solver.solve(None, &mut |_, to| to.copy_from_slice(loads))?;
        Ok(self.solver.report(&f))
    }

    /// Returns the largest Σ λ E\[S\] of a node.
    ///
    /// Equals that of [`LinkRegion::state`] to the solver's tolerance, but starts from the last
    /// result: for sequences of similar loads.
    ///
    /// # Errors
    /// The reason for which there is none.
    pub fn busiest(&mut self, loads: &[Load]) -> Result<f64, NoState> {
        let mut given = |_: &dyn Fn(usize) -> f64, to: &mut [Load]| to.copy_from_slice(loads);
        let warm = self.last.take();
        let warm = warm.and_then(|mut f| self.solver.settle(&mut f, &mut given).ok().map(|()| f));
        // From another start the iteration may pass loads beyond the boundary.
        let f = match warm {
            Some(f) => f,
            None => self.solver.solve(None, &mut given)?,
        };
        let most = busiest(&f);
        self.last = Some(f);
        Ok(most)
    }

    /// Returns true if Σ λ E\[S\] ≤ U at every node.
    ///
    /// # Errors
    /// Returns an error if the state of these loads is unknown.
    pub fn achievable(&mut self, loads: &[Load]) -> Result<bool, NoState> {
        Ok(self.decide(None, loads)?.is_some())
    }

    fn decide(
        &mut self,
        from: Option<&FixedPoint>,
        loads: &[Load],
    ) -> Result<Option<FixedPoint>, NoState> {
        let found = self.solver.solve(from, &mut |_, to| to.copy_from_slice(loads));
        let utilisation = self.settings().utilisation;
        Ok(settled(found)?.filter(|f| Solver::stable(f, utilisation)))
    }

    /// Returns the airtime of all frames if no two links are ever active together, s/s.
    ///
    /// It is Σ of their backoffs and exchanges without collisions. At most 1 can be carried on one channel.
    /// Valid for any range relation: a fallback if the model has no result.
    pub fn airtime(&self, loads: &[Load]) -> f64 {
        let network = &self.solver.model.network;
        let of = |(stream, load): (&Stream, &Load)| {
            let link = &network.links[stream.link];
            let data = secs(network.phy.airtime(link.rate, load.psdu));
            let t = Times::of(&network.phy, network.access, link, data);
            let backoff = 0.5 * f64::from(network.phy.timing().cw_min) * network.spans.slot;
            load.frames * (backoff + network.spans.difs + t.exchange) / link.delivery
        };
        network.streams.iter().zip(loads).map(of).sum()
    }

    /// Returns the largest δ in `range` with `base` + δ · `step` frames/s achievable.
    ///
    /// This is WCPCap's query (Rangwala 2008 Fig 4), by bisection to `accuracy` in the unit of δ. Steps must
    /// not be negative. Loads below zero count as zero; the result is the lower end of the range if no δ in
    /// it is achievable.
    ///
    /// # Errors
    /// Returns an error if the state of queried loads is unknown.
    pub fn reach(
        &mut self,
        base: &[Load],
        step: &[f64],
        range: core::ops::RangeInclusive<f64>,
        accuracy: f64,
    ) -> Result<f64, NoState> {
        let (mut low, mut high) = (*range.start(), *range.end());
        let at = |delta: f64| -> Vec<Load> {
            let load = |(l, s): (&Load, &f64)| {
                let frames = (l.frames + s * delta).max(0.0);
                Load { frames, ..*l }
            };
            base.iter().zip(step).map(load).collect()
        };
        if self.decide(None, &at(high))?.is_some() {
            return Ok(high);
        }
        let mut inside: Option<FixedPoint> = None;
        while high - low > accuracy.max(f64::EPSILON * high.abs()) {
            let middle = 0.5 * (low + high);
            match self.decide(inside.as_ref(), &at(middle))? {
                Some(f) => (low, inside) = (middle, Some(f)),
                None => high = middle,
            }
        }
        Ok(low)
    }

    pub(super) fn settings(&self) -> Settings {
        self.solver.model.network.settings
    }

    /// Returns the PHY's fastest rate, in bit/s.
    pub(super) fn fastest(&self) -> f64 {
        let phy = &self.solver.model.network.phy;
        phy.bit_rate(phy.highest()).0 as f64
    }

    /// Returns the fixed point of loads that may depend on the frames that each link drops.
    pub(super) fn solve(
        &mut self,
        from: Option<&FixedPoint>,
        loads: &mut Spread<'_>,
    ) -> Result<FixedPoint, NoState> {
        self.solver.solve(from, loads)
    }

    /// Returns the fixed point in its public form.
    pub(super) fn report(&self, f: &FixedPoint) -> State {
        self.solver.report(f)
    }
}
