//! Both capacity models and every criterion side by side, for one network and its flows.

use core::fmt;

use fairmesh_units::NodeId;
use fairmesh_wifi::phy::Phy;

use crate::bounds;
use crate::clique::{Budget, TooManyCliques};
use crate::convex::{ConvexError, Optimum, Region};
use crate::domain::{Contention, Domains, Link};
use crate::fair::{Directory, FairError, FlowSpec, LinkSpec};
use crate::graph::{ConflictGraph, Exclusion, Hop};
use crate::link::Access;
use crate::maxmin::{Allocation, Demand, Limit, max_min_above};

/// What shares the air.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Sharing {
    /// Links, both of their directions as one (Jamshaid 2010 §4.1.2).
    #[default]
    Links,
    /// Each direction of a link on its own, under a rule that depends on it.
    Directed(Exclusion),
}

/// The network whose capacity is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Network<'a, L> {
    /// The physical layer of all nodes.
    pub phy: &'a Phy,
    /// With or without RTS: what a frame costs. Who excludes whom is up to `sharing`.
    pub access: Access,
    /// By node id, the nodes each node hears: its decode neighbours for the model a real network
    /// can compute ("realistic"), its interference neighbours for the "omniscient" one.
    pub hears: &'a [L],
    /// The links, at least all that flows cross.
    pub links: &'a [LinkSpec],
    /// The flows.
    pub flows: &'a [FlowSpec<'a>],
    /// What shares the air.
    pub sharing: Sharing,
    /// Guaranteed rate of each flow in bit/s of payload; empty for none.
    pub minimum: &'a [f64],
    /// How far to go for the clique model.
    pub budget: Budget,
}

/// What is optimised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Criterion {
    /// Weighted max-min fairness.
    MaxMin,
    /// Weighted proportional fairness.
    Proportional,
    /// The largest Σ rate, fair or not.
    Aggregate,
    /// The largest Σ rate × hops, fair or not.
    Utilisation,
    /// Max-min fairness as if all weights were equal.
    Unweighted,
}

impl Criterion {
    /// All of them, in the order in which they are reported.
    pub const ALL: [Criterion; 5] = [
        Criterion::MaxMin,
        Criterion::Proportional,
        Criterion::Aggregate,
        Criterion::Utilisation,
        Criterion::Unweighted,
    ];

    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Criterion::MaxMin => "weighted max-min",
            Criterion::Proportional => "proportional",
            Criterion::Aggregate => "max aggregate",
            Criterion::Utilisation => "max utilisation",
            Criterion::Unweighted => "max-min",
        }
    }
}

/// The rates under one model and criterion.
#[derive(Clone, PartialEq, Debug)]
pub struct Rates {
    /// What they optimise.
    pub criterion: Criterion,
    /// Goodput per flow, bit/s of payload delivered at the destination.
    pub rates: Vec<f64>,
    /// What limits each flow; domains are numbered as in [`ModelRates::domains`].
    pub limits: Vec<Limit>,
    /// Used fraction of each domain's air.
    pub load: Vec<f64>,
    /// Σ rate, bit/s.
    pub aggregate: f64,
    /// Effective network utilisation, Σ rate × hops, bit/s (Jamshaid 2010 §2.1.5).
    pub utilisation: f64,
    /// Utilisation over the largest one under the same model; 1 for [`Criterion::Utilisation`].
    /// Where no flow can have anything, 1.
    pub utilisation_ratio: f64,
}

/// The rates under one model.
#[derive(Clone, PartialEq, Debug)]
pub struct ModelRates {
    /// The sets of [`Analysis::hops`] of which each has one unit of air: the collision domain of
    /// each, or the maximal cliques.
    pub domains: Domains,
    /// The least that flows which fill a domain can have in sum, bit/s ([`crate::bounds::floor`]).
    pub floor: f64,
    /// One for each of [`Criterion::ALL`], in that order.
    pub criteria: [Rates; 5],
}

impl ModelRates {
    /// The rates under a criterion.
    pub const fn by(&self, criterion: Criterion) -> &Rates {
        &self.criteria[criterion as usize]
    }

    /// The members of the domain or clique that limits a flow, as indices into
    /// [`Analysis::hops`]; `None` if its own demand does.
    pub fn bottleneck(&self, criterion: Criterion, flow: usize) -> Option<&[u32]> {
        match self.by(criterion).limits[flow] {
            Limit::Demand => None,
            Limit::Domain(d) => Some(self.domains.links(d)),
        }
    }
}

/// All there is to say about the capacity of a network.
#[derive(Clone, PartialEq, Debug)]
pub struct Analysis {
    /// What shares the air, as far as flows use it, in order. With [`Sharing::Links`], the
    /// smaller id comes first and stands for both directions.
    pub hops: Vec<Hop>,
    /// Which of them exclude each other.
    pub graph: ConflictGraph,
    /// By flow, the nominal capacity of each hop of its path if it were alone there, bit/s of
    /// payload.
    pub capacities: Vec<Vec<f64>>,
    /// Under the collision-domain model; domain i is that of hop i.
    pub collision: ModelRates,
    /// Under the clique model, if its cliques could be counted.
    pub cliques: Result<ModelRates, TooManyCliques>,
}

/// Why a network has no analysis.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum AnalysisError {
    /// The network or a flow is wrong, or the minima do not fit.
    Fair(FairError),
    /// A solver failed under this criterion.
    Convex(Criterion, ConvexError),
}

impl fmt::Display for AnalysisError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AnalysisError::Fair(e) => e.fmt(f),
            AnalysisError::Convex(criterion, e) => write!(f, "{}: {e}", criterion.name()),
        }
    }
}
impl core::error::Error for AnalysisError {}

impl<E: Into<FairError>> From<E> for AnalysisError {
    fn from(e: E) -> Self {
        AnalysisError::Fair(e.into())
    }
}

impl<L: AsRef<[NodeId]>> Network<'_, L> {
    /// Computes everything. A clique model that is too large is not an error: the rest is there.
    ///
    /// # Errors
    /// See [`AnalysisError`].
    pub fn analyse(&self) -> Result<Analysis, AnalysisError> {
        let contention = Contention::new(self.hears)?;
        let directory = Directory::new(self.phy, self.access, self.links)?;
        let costs = directory.costs(self.flows)?;
        let mut hops: Vec<Hop> = costs.iter().flatten().map(|c| self.unit(c.0)).collect();
        hops.sort_unstable();
        hops.dedup();
        let graph = match self.sharing {
            Sharing::Directed(rule) => ConflictGraph::of_hops(&contention, &hops, rule)?,
            Sharing::Links => {
                let links: Vec<Link> = hops.iter().map(|h| Link::new(h.from, h.to)).collect();
                ConflictGraph::of_links(&contention, &links)?
            }
        };
        let by_index = |cost: &Vec<(Hop, f64)>| {
            let index = |hop| hops.binary_search(&self.unit(hop)).map_or(0, |i| i as u32);
            cost.iter().map(|&(hop, seconds)| (index(hop), seconds)).collect()
        };
        let costs: Vec<Vec<(u32, f64)>> = costs.iter().map(by_index).collect();
        let collision = self.model(&costs, graph.neighbourhoods())?;
        let cliques = match graph.cliques(self.budget) {
            Ok(cliques) => Ok(self.model(&costs, cliques)?),
            Err(e) => Err(e),
        };
        let capacities = self.flows.iter().map(|f| directory.capacities(f)).collect();
        Ok(Analysis { hops, graph, capacities, collision, cliques })
    }

    /// What stands for a hop among those that share the air.
    fn unit(&self, hop: Hop) -> Hop {
        match self.sharing {
            Sharing::Links => Hop { from: hop.from.min(hop.to), to: hop.from.max(hop.to) },
            Sharing::Directed(_) => hop,
        }
    }

    fn model(
        &self,
        costs: &[Vec<(u32, f64)>],
        domains: Domains,
    ) -> Result<ModelRates, AnalysisError> {
        let usage: Vec<Vec<(u32, f64)>> = costs.iter().map(|c| domains.usage(c)).collect();
        let demands: Vec<Demand> = self.flows.iter().map(|f| f.demand).collect();
        let region = Region {
            demands: &demands,
            minimum: self.minimum,
            usage: &usage,
            domains: domains.len(),
        };
        let hops: Vec<f64> = self.flows.iter().map(|f| (f.path.len() - 1) as f64).collect();
        let fair = max_min_above(&demands, self.minimum, &usage, domains.len())?;
        let alike: Vec<Demand> = demands.iter().map(|d| Demand { weight: 1.0, ..*d }).collect();
        let unweighted = max_min_above(&alike, self.minimum, &usage, domains.len())?;
        let failed = |criterion| move |e| AnalysisError::Convex(criterion, e);
        let solved = |criterion, found: Result<Optimum, ConvexError>| {
            let Optimum { rates, limits, load, .. } = found.map_err(failed(criterion))?;
            Ok::<_, AnalysisError>(Allocation { rates, limits, load })
        };
        let ones = vec![1.0; hops.len()];
        let widest = solved(Criterion::Utilisation, region.maximise(&hops))?;
        let optimum = utilisation(&widest.rates, &hops);
        let named = |criterion, a: Allocation| {
            let used = utilisation(&a.rates, &hops);
            Rates {
                criterion,
                aggregate: a.rates.iter().sum(),
                utilisation: used,
                utilisation_ratio: if optimum > 0.0 { used / optimum } else { 1.0 },
                rates: a.rates,
                limits: a.limits,
                load: a.load,
            }
        };
        let criteria = [
            named(Criterion::MaxMin, fair),
            named(Criterion::Proportional, solved(Criterion::Proportional, region.proportional())?),
            named(Criterion::Aggregate, solved(Criterion::Aggregate, region.maximise(&ones))?),
            named(Criterion::Utilisation, widest),
            named(Criterion::Unweighted, unweighted),
        ];
        Ok(ModelRates { domains, floor: bounds::floor(&usage), criteria })
    }
}

/// Σ rate × hops.
fn utilisation(rates: &[f64], hops: &[f64]) -> f64 {
    rates.iter().zip(hops).map(|(rate, hops)| rate * hops).sum()
}
