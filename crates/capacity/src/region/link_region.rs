//! The decision procedure on links with loads, without flows: what a node that knows its
//! neighbourhood can ask (Rangwala 2008 §3.2, "Estimating available bandwidth").

use fairmesh_units::NodeId;

use super::fixed_point::{Solver, Spread, busiest};
use super::interference::Model;
use super::network::Network;
use super::pair::PairClass;
use super::timing::{Times, secs};
use super::types::{LinkMesh, Load, NoState, RegionError, Settings, State, Stream};
use super::unknowns::FixedPoint;
use crate::graph::Hop;

/// Rates beyond the boundary are not achievable: that is known.
pub(super) fn settled<T>(found: Result<T, NoState>) -> Result<Option<T>, NoState> {
    match found {
        Ok(f) => Ok(Some(f)),
        Err(NoState::Beyond) => Ok(None),
        Err(unknown) => Err(unknown),
    }
}

/// A network of links, prepared for asking about many loads. Everything that depends on the graph
/// only is computed once, here.
#[derive(Clone, Debug)]
pub struct LinkRegion {
    solver: Solver,
    /// The last answer of [`LinkRegion::busiest`].
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

    /// The links in use, one direction each.
    pub fn hops(&self) -> impl Iterator<Item = Hop> + '_ {
        let network = &self.solver.model.network;
        (0..network.links.len()).map(|h| network.hop(h))
    }

    /// How two links relate, by their indices.
    pub fn class(&self, one: usize, other: usize) -> PairClass {
        let network = &self.solver.model.network;
        PairClass::of(&network.contention, network.hop(one), network.hop(other))
    }

    /// The network under these loads, one per stream. `loss` is empty.
    ///
    /// # Errors
    /// Why there is none.
    pub fn state(&mut self, loads: &[Load]) -> Result<State, NoState> {
        let f = self.solver.solve(None, &mut |_, to| to.copy_from_slice(loads))?;
        Ok(self.solver.report(&f))
    }

    /// The largest Σ λ E\[S\] of a node. The same as from [`LinkRegion::state`], to the solver's
    /// tolerance, but found from the last answer on: for one question after another with loads that
    /// are near each other.
    ///
    /// # Errors
    /// Why there is none.
    pub fn busiest(&mut self, loads: &[Load]) -> Result<f64, NoState> {
        let mut given = |_: &dyn Fn(usize) -> f64, to: &mut [Load]| to.copy_from_slice(loads);
        let warm = self.last.take();
        let warm = warm.and_then(|mut f| self.solver.settle(&mut f, &mut given).ok().map(|()| f));
        // From elsewhere the way may lead through what cannot be carried.
        let f = match warm {
            Some(f) => f,
            None => self.solver.solve(None, &mut given)?,
        };
        let most = busiest(&f);
        self.last = Some(f);
        Ok(most)
    }

    /// Whether Σ λ E\[S\] ≤ U at every node.
    ///
    /// # Errors
    /// That nothing is known of these loads.
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

    /// What all frames together need if no two links are ever on at once: Σ of their backoffs and
    /// exchanges without collisions, in seconds per second. No more than 1 of it can be carried where the links
    /// share one channel, and it holds whatever hears what: what is left where the model says nothing.
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

    /// The largest δ in `range` with `base` + δ · `step` frames/s achievable, by bisection to
    /// `accuracy` in the unit of δ: WCPCap's question (Rangwala 2008 Fig 4). No step may be negative.
    /// Loads below zero are none; the range's lower end where nothing in it is achievable.
    ///
    /// # Errors
    /// That nothing is known of loads that were asked about.
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

    /// The PHY's fastest rate, bit/s.
    pub(super) fn fastest(&self) -> f64 {
        let phy = &self.solver.model.network.phy;
        phy.bit_rate(phy.highest()).0 as f64
    }

    /// The fixed point of loads that may depend on what each link gives up.
    pub(super) fn solve(
        &mut self,
        from: Option<&FixedPoint>,
        loads: &mut Spread<'_>,
    ) -> Result<FixedPoint, NoState> {
        self.solver.solve(from, loads)
    }

    /// The fixed point as it is told to others.
    pub(super) fn report(&self, f: &FixedPoint) -> State {
        self.solver.report(f)
    }
}
