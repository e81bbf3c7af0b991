//! Both capacity models and every criterion, for one network and its flows.

use fairmesh_phy::Phy;
use fairmesh_units::NodeId;

use crate::bounds;
use crate::clique::{Budget, TooManyCliques};
use crate::convex::{ConvexError, Optimum, Region};
use crate::domain::{Contention, Domains, Link};
use crate::fair::{Directory, FairError, FlowSpec, LinkSpec, add_wires, limit};
use crate::graph::{ConflictGraph, Exclusion, Hop};
use crate::link::Access;
use crate::maxmin::{Allocation, Demand, Limit, max_min_above};

/// Unit that occupies the air.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Sharing {
    /// Links, both directions as one (Jamshaid 2010 §4.1.2).
    #[default]
    Links,
    /// Each direction of a link separately, under a rule that depends on it.
    Directed(Exclusion),
}

/// Network to be analysed.
#[derive(Clone, Copy, Debug)]
pub struct Network<'a, L> {
    /// The physical layer of all nodes.
    pub phy: &'a Phy,
    /// Access with or without RTS, which determines the airtime of a frame.
    ///
    /// Mutual exclusion follows from `sharing`.
    pub access: Access,
    /// By node id, the nodes in range of each node.
    ///
    /// Decode ranges give the model that a real network can compute ("realistic"), interference
    /// ranges the "omniscient" one.
    pub in_range: &'a [L],
    /// Links, at least all that flows cross.
    pub links: &'a [LinkSpec],
    /// The flows.
    pub flows: &'a [FlowSpec<'a>],
    /// Unit that occupies the air.
    pub sharing: Sharing,
    /// Guaranteed rate of each flow in bit/s of payload; empty for none.
    pub minimum: &'a [f64],
    /// Budget for the clique model.
    pub budget: Budget,
}

/// Optimisation criterion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Criterion {
    /// Weighted max-min fairness.
    MaxMin,
    /// Weighted proportional fairness.
    Proportional,
    /// The largest Σ rate, regardless of fairness.
    Aggregate,
    /// The largest Σ rate × hops, regardless of fairness.
    Utilisation,
    /// Max-min fairness with equal weights.
    Unweighted,
}

impl Criterion {
    /// All criteria, in the order in which they are reported.
    pub const ALL: [Criterion; 5] = [
        Criterion::MaxMin,
        Criterion::Proportional,
        Criterion::Aggregate,
        Criterion::Utilisation,
        Criterion::Unweighted,
    ];

    /// Criteria that need a solver, which may fail for each of them separately.
    pub const SOLVED: [Criterion; 3] =
        [Criterion::Proportional, Criterion::Aggregate, Criterion::Utilisation];

    /// Returns its name in tables.
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
    /// Criterion that they optimise.
    pub criterion: Criterion,
    /// Goodput per flow, bit/s of payload delivered at the destination.
    pub rates: Vec<f64>,
    /// Limit of each flow; domains are numbered as in [`ModelRates::domains`].
    pub limits: Vec<Limit>,
    /// Used fraction of each domain's air.
    pub load: Vec<f64>,
    /// Σ rate, in bit/s.
    pub aggregate: f64,
    /// Effective network utilisation, Σ rate × hops, bit/s (Jamshaid 2010 §2.1.5).
    pub utilisation: f64,
    /// Utilisation divided by the largest one under the same model.
    ///
    /// 1 for [`Criterion::Utilisation`], and if no flow can have a positive rate; `None` if the
    /// largest is not known.
    pub utilisation_ratio: Option<f64>,
}

/// The rates under one model.
#[derive(Clone, PartialEq, Debug)]
pub struct ModelRates {
    /// Sets of [`Analysis::hops`], each with one unit of air.
    ///
    /// They are the collision domain of each hop, or the maximal cliques.
    pub domains: Domains,
    /// Lower bound of the sum of rates that fill a domain, bit/s ([`crate::bounds::floor`]).
    pub floor: f64,
    /// Rates under weighted max-min fairness, which needs no solver.
    pub max_min: Rates,
    /// Rates under max-min fairness with equal weights.
    pub unweighted: Rates,
    /// Results of the solver for each criterion of [`Criterion::SOLVED`], in that order.
    pub solved: [Result<Rates, ConvexError>; 3],
}

impl ModelRates {
    /// Returns the rates under a criterion.
    ///
    /// # Errors
    /// Returns an error if the solver failed.
    pub fn by(&self, criterion: Criterion) -> Result<&Rates, ConvexError> {
        let [proportional, aggregate, utilisation] = &self.solved;
        let solved = match criterion {
            Criterion::MaxMin => return Ok(&self.max_min),
            Criterion::Unweighted => return Ok(&self.unweighted),
            Criterion::Proportional => proportional,
            Criterion::Aggregate => aggregate,
            Criterion::Utilisation => utilisation,
        };
        solved.as_ref().map_err(|e| *e)
    }

    /// Returns the members of the domain or clique that limits a flow.
    ///
    /// They are indices into [`Analysis::hops`]; `None` if its own demand or a wire limits it.
    pub fn bottleneck(&self, rates: &Rates, flow: usize) -> Option<&[u32]> {
        match rates.limits[flow] {
            Limit::Demand | Limit::Wire(_) => None,
            Limit::Domain(d) => Some(self.domains.links(d)),
        }
    }
}

/// Complete capacity analysis of a network.
#[derive(Clone, PartialEq, Debug)]
pub struct Analysis {
    /// Units that share the air and that flows use, in order.
    ///
    /// With [`Sharing::Links`], the smaller id comes first and stands for both directions.
    pub hops: Vec<Hop>,
    /// Mutual exclusion between these units.
    pub graph: ConflictGraph,
    /// By flow, the nominal capacity of each hop without other traffic, bit/s of payload.
    pub capacities: Vec<Vec<f64>>,
    /// Rates under the collision-domain model; domain i is that of hop i.
    pub collision: ModelRates,
    /// Rates under the clique model, if its cliques could be enumerated.
    pub cliques: Result<ModelRates, TooManyCliques>,
}

impl<L: AsRef<[NodeId]>> Network<'_, L> {
    /// Computes the whole analysis.
    ///
    /// A clique model that is too large, or a criterion that its solver does not reach, is not an
    /// error: the other results are present.
    ///
    /// # Errors
    /// Returns an error if the network or a flow is invalid, or the minima do not fit.
    pub fn analyse(&self) -> Result<Analysis, FairError> {
        let contention = Contention::new(self.in_range)?;
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
        let most = directory.most(self.flows);
        let collision = self.model(&costs, &most, graph.neighbourhoods())?;
        let cliques = match graph.cliques(self.budget) {
            Ok(cliques) => Ok(self.model(&costs, &most, cliques)?),
            Err(e) => Err(e),
        };
        let capacities = self.flows.iter().map(|f| directory.capacities(f)).collect();
        Ok(Analysis { hops, graph, capacities, collision, cliques })
    }

    /// Returns the air-sharing unit of a hop.
    fn unit(&self, hop: Hop) -> Hop {
        match self.sharing {
            Sharing::Links => Hop { from: hop.from.min(hop.to), to: hop.from.max(hop.to) },
            Sharing::Directed(_) => hop,
        }
    }

    fn model(
        &self,
        costs: &[Vec<(u32, f64)>],
        most: &[f64],
        domains: Domains,
    ) -> Result<ModelRates, FairError> {
        let mut usage: Vec<Vec<(u32, f64)>> = costs.iter().map(|c| domains.usage(c)).collect();
        let floor = bounds::floor(&usage);
        let resources = add_wires(self.flows, most, &mut usage, domains.len());
        let demands: Vec<Demand> = self.flows.iter().map(|f| f.demand).collect();
        let region =
            Region { demands: &demands, minimum: self.minimum, usage: &usage, domains: resources };
        let hops: Vec<f64> = self.flows.iter().map(FlowSpec::length).collect();
        let fair = max_min_above(&demands, self.minimum, &usage, resources)?;
        let alike: Vec<Demand> = demands.iter().map(|d| Demand { weight: 1.0, ..*d }).collect();
        let unweighted = max_min_above(&alike, self.minimum, &usage, resources)?;
        let ones = vec![1.0; hops.len()];
        let widest = region.maximise(&hops);
        let optimum = widest.as_ref().ok().map(|o| utilisation(&o.rates, &hops));
        let named = |criterion, mut a: Allocation| {
            a.load.truncate(domains.len());
            let used = utilisation(&a.rates, &hops);
            Rates {
                criterion,
                aggregate: a.rates.iter().sum(),
                utilisation: used,
                utilisation_ratio: optimum.map(|o| if o > 0.0 { used / o } else { 1.0 }),
                rates: a.rates,
                limits: a.limits.into_iter().map(|l| limit(l, domains.len())).collect(),
                load: a.load,
            }
        };
        let solved = |criterion, found: Result<Optimum, ConvexError>| {
            let allocation =
                |Optimum { rates, limits, load, .. }| Allocation { rates, limits, load };
            found.map(|o| named(criterion, allocation(o)))
        };
        Ok(ModelRates {
            floor,
            max_min: named(Criterion::MaxMin, fair),
            unweighted: named(Criterion::Unweighted, unweighted),
            solved: [
                solved(Criterion::Proportional, region.proportional()),
                solved(Criterion::Aggregate, region.maximise(&ones)),
                solved(Criterion::Utilisation, widest),
            ],
            domains,
        })
    }
}

/// Returns Σ rate × hops.
fn utilisation(rates: &[f64], hops: &[f64]) -> f64 {
    rates.iter().zip(hops).map(|(rate, hops)| rate * hops).sum()
}
