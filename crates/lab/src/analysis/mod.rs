//! The capacity of a scenario by every model and criterion.
//!
//! It is one plain summary: the source of its JSON object, and of tables and pages.

mod bounds;
pub(crate) mod error;
pub mod gap;
pub mod region;

use std::collections::BTreeMap;

use fairmesh_capacity::analysis::{Analysis, Criterion, ModelRates, Network, Sharing};
use fairmesh_capacity::clique::Budget;
use fairmesh_capacity::fair::{FairError, FlowSpec};
use fairmesh_capacity::link::Access;
use fairmesh_capacity::maxmin::Limit;
use fairmesh_engine::{CapacityModel, measures};
use fairmesh_scenario::Scenario;
use fairmesh_units::NodeId;
use serde::Serialize;

use crate::LabError;
use crate::layout::{GENERATOR, SCHEMA};
pub use bounds::GatewayBounds;
pub use error::AnalysisError;

/// Relation that decides which nodes contend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentionRange {
    /// Nodes that decode each other: transmission range.
    Decode,
    /// Nodes that sense each other: interference range.
    Sense,
}

/// Results of the analytic models for a scenario. Rates in bit/s of application data.
#[derive(Clone, Debug, Serialize)]
pub struct Capacity {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Scenario name.
    pub scenario: String,
    /// Wireless nodes.
    pub nodes: usize,
    /// True if the scenario itself uses RTS/CTS.
    pub rts: bool,
    /// True if flows differ in weight.
    pub weighted: bool,
    /// Flows that use the air, in scenario order.
    pub flows: Vec<FlowInfo>,
    /// Each model without and with RTS/CTS.
    pub models: Vec<Model>,
    /// Bounds of a gateway without a map; `None` if a flow does not cross the gateway's radio.
    pub bounds: Option<GatewayBounds>,
    /// [`GENERATOR`].
    pub generator: &'static str,
}

/// A flow in the models.
#[derive(Clone, Debug, Serialize)]
pub struct FlowInfo {
    /// Name.
    pub name: String,
    /// Source.
    pub from: String,
    /// Destination.
    pub to: String,
    /// Wireless hops.
    pub hops: u32,
    /// Share relative to other flows.
    pub weight: f64,
    /// Maximum offered load; `None` if backlogged.
    pub demand_bps: Option<f64>,
    /// Names along its path, wires left out.
    pub path: Vec<String>,
    /// Nominal capacity of each hop if the flow were alone there.
    ///
    /// It is computed with the scenario's RTS setting.
    pub hop_capacity_bps: Vec<f64>,
}

/// One model, without or with RTS/CTS.
#[derive(Clone, Debug, Serialize)]
pub struct Model {
    /// `domains` (Jamshaid 2010 §4.1.2, collision domains) or `cliques`.
    pub model: &'static str,
    /// `decode` or `sense`: the relation that decides contention.
    pub hears: &'static str,
    /// True for the cost of a frame with RTS/CTS.
    pub rts: bool,
    /// The links that flows use, by the names of their ends.
    pub links: Vec<[String; 2]>,
    /// By link, the later links that contend with it.
    pub contends: Vec<Vec<u32>>,
    /// Number of domains or maximal cliques; 0 if rejected.
    pub sets: usize,
    /// Reason for the absence of results, if there are none.
    pub refused: Option<String>,
    /// Lower bound of the sum of any allocation that fills a domain.
    pub floor_bps: f64,
    /// One entry per criterion.
    pub criteria: Vec<Allocation>,
    /// Criteria missing because their solver failed; not written if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unsolved: Vec<Unsolved>,
    /// The domains or cliques that limit any flow.
    pub bottlenecks: Vec<Bottleneck>,
}

/// Rates by one criterion.
#[derive(Clone, Debug, Serialize)]
pub struct Allocation {
    /// `max-min`, `weighted max-min`, `proportional`, `max aggregate` or `max utilisation`.
    pub criterion: &'static str,
    /// Per flow.
    pub rates_bps: Vec<f64>,
    /// Per flow, its bottleneck as an index into [`Model::bottlenecks`].
    ///
    /// `None` if the flow is limited by its own demand.
    pub bottleneck: Vec<Option<usize>>,
    /// Σ rate.
    pub aggregate_bps: f64,
    /// The smallest rate.
    pub min_bps: f64,
    /// Jain's index of the rates.
    pub jain: f64,
    /// Σ rate × hops (§2.1.5).
    pub utilization_bps: f64,
    /// Ratio to the largest utilisation under this model; `None` if that is unsolved.
    pub utilization_ratio: Option<f64>,
}

/// A criterion that its solver did not reach.
#[derive(Clone, Debug, Serialize)]
pub struct Unsolved {
    /// As in [`Allocation::criterion`].
    pub criterion: &'static str,
    /// Progress of the solver before it stopped.
    pub problem: String,
}

/// A set of links that shares one unit of air and limits a flow.
#[derive(Clone, Debug, Serialize)]
pub struct Bottleneck {
    /// A, B, … in the order of the flows they limit.
    pub label: String,
    /// Link at the center of a collision domain; `None` for a clique.
    pub center: Option<u32>,
    /// Links of the set, as indices into [`Model::links`].
    pub links: Vec<u32>,
}

impl Model {
    /// Returns the rates by a criterion.
    /// `None` if the model was rejected or the criterion is unsolved.
    pub fn by(&self, criterion: Criterion) -> Option<&Allocation> {
        self.criteria.iter().find(|a| a.criterion == criterion.name())
    }
}

/// Rejects access categories, which no model supports.
///
/// # Errors
/// Names the first flow that is not best effort.
fn best_effort(scenario: &Scenario) -> Result<(), LabError> {
    if let Some(flow) = scenario.flows().iter().find(|f| f.access != Default::default()) {
        let (flow, access) = (flow.name.clone(), flow.access.to_string());
        let problem = AnalysisError::AccessCategory { flow, access };
        return Err(LabError::refused(scenario.name(), problem));
    }
    Ok(())
}

/// Rejects radios of different settings, which these models do not support.
///
/// # Errors
/// Names the first radio that differs from `[radio]`.
fn one_phy(scenario: &Scenario) -> Result<(), LabError> {
    match scenario.further().iter().find(|r| r.medium != 0) {
        None => Ok(()),
        Some(radio) => {
            let problem = AnalysisError::RadioKind { radio: radio.name.clone() };
            Err(LabError::refused(scenario.name(), problem))
        }
    }
}

/// Returns the flows that use the air; at least one.
fn on_air(model: &CapacityModel<'_>) -> Result<Vec<usize>, LabError> {
    let flows = model.on_air(|_| true);
    if flows.is_empty() {
        return Err(LabError::refused(model.scenario.name(), AnalysisError::NoFlow));
    }
    Ok(flows)
}

impl Capacity {
    /// Returns the target criterion of a fair gateway.
    pub fn fair(&self) -> Criterion {
        if self.weighted { Criterion::MaxMin } else { Criterion::Unweighted }
    }

    /// Returns a model with the scenario's RTS setting.
    pub fn own(&self, model: &str) -> Option<&Model> {
        self.models.iter().find(|m| m.model == model && m.rts == self.rts)
    }

    /// Runs every model. `hears` overrides the contention relation in both.
    ///
    /// # Errors
    /// If the models reject the scenario: no flow uses the air, or a link never delivers.
    pub fn of(scenario: &Scenario, hears: Option<ContentionRange>) -> Result<Self, LabError> {
        one_phy(scenario)?;
        best_effort(scenario)?;
        let model = CapacityModel::new(scenario);
        let on_air = on_air(&model)?;
        let refused = |e: FairError| LabError::refused(scenario.name(), AnalysisError::from(e));
        let specs: Vec<FlowSpec<'_>> = on_air.iter().map(|&i| model.flow(i)).collect();
        let analyse = |hears: ContentionRange, access, budget| {
            let network = Network {
                phy: &scenario.mac().phy,
                access,
                in_range: match hears {
                    ContentionRange::Decode => &model.decodes,
                    ContentionRange::Sense => &model.senses,
                },
                links: &model.links,
                flows: &specs,
                sharing: Sharing::Links,
                minimum: &[],
                budget,
            };
            network.analyse().map_err(refused)
        };
        let mut models = Vec::new();
        let mut capacities = Vec::new();
        // Contention does not depend on RTS: a model with too many cliques has too many in both
        // runs.
        let mut affordable = Budget::default();
        for access in [Access::Basic, Access::RtsCts] {
            let rts = access == Access::RtsCts;
            // The thesis's readings: "realistic" domains, "omniscient" cliques (§4.1.4).
            let (near, far) =
                (hears.unwrap_or(ContentionRange::Decode), hears.unwrap_or(ContentionRange::Sense));
            let nothing = Budget { cliques: 0, work: 0 };
            let first = if near == far { affordable } else { nothing };
            let by_domains = analyse(near, access, first)?;
            models.push(summary(scenario, &by_domains, "domains", near, rts));
            let by_cliques =
                if near == far { by_domains.clone() } else { analyse(far, access, affordable)? };
            let mut cliques = summary(scenario, &by_cliques, "cliques", far, rts);
            if let Some(why) = &mut cliques.refused {
                affordable = nothing;
                let earlier = models.iter().find_map(|m: &Model| m.refused.clone());
                *why = earlier.unwrap_or_else(|| why.clone());
            }
            models.push(cliques);
            if access == model.access {
                capacities = by_domains.capacities;
            }
        }
        let name = |n: &NodeId| scenario.nodes()[n.index()].name.clone();
        let flows: Vec<FlowInfo> = on_air
            .iter()
            .zip(&specs)
            .zip(capacities)
            .map(|((&i, spec), hop_capacity_bps)| {
                let f = &scenario.flows()[i];
                FlowInfo {
                    name: f.name.clone(),
                    from: name(&f.from),
                    to: name(&f.to),
                    hops: f.wireless_hops,
                    weight: f.weight,
                    demand_bps: spec.demand.limit.is_finite().then_some(spec.demand.limit),
                    path: spec.path.iter().map(name).collect(),
                    hop_capacity_bps,
                }
            })
            .collect();
        Ok(Capacity {
            schema: SCHEMA,
            scenario: scenario.name().to_owned(),
            nodes: scenario.wireless().count(),
            rts: model.access == Access::RtsCts,
            weighted: flows.iter().any(|f| f.weight != flows[0].weight),
            bounds: one_gateway(scenario).and_then(|g| bounds::of(&name(&g), &flows)),
            flows,
            models,
            generator: GENERATOR,
        })
    }
}

/// Returns the gateway if there is exactly one.
///
/// The bounds do not hold for the links of several gateways together.
fn one_gateway(scenario: &Scenario) -> Option<NodeId> {
    scenario.gateways().first().filter(|_| !scenario.gateways().are_several())
}

fn summary(
    scenario: &Scenario,
    a: &Analysis,
    model: &'static str,
    hears: ContentionRange,
    rts: bool,
) -> Model {
    let name = |n: NodeId| scenario.nodes()[n.index()].name.clone();
    let later = |v: usize| {
        let near = a.graph.neighbours(v as u32).iter().copied();
        near.filter(|&other| other as usize > v).collect()
    };
    let found = if model == "domains" { Ok(&a.collision) } else { a.cliques.as_ref() };
    let mut out = Model {
        model,
        hears: match hears {
            ContentionRange::Decode => "decode",
            ContentionRange::Sense => "sense",
        },
        rts,
        links: a.hops.iter().map(|h| [name(h.from), name(h.to)]).collect(),
        contends: (0..a.hops.len()).map(later).collect(),
        sets: 0,
        refused: None,
        floor_bps: 0.0,
        criteria: Vec::new(),
        unsolved: Vec::new(),
        bottlenecks: Vec::new(),
    };
    match found {
        Ok(rates) => fill(&mut out, rates),
        Err(e) => out.refused = Some(e.to_string()),
    }
    out
}

fn fill(out: &mut Model, found: &ModelRates) {
    out.sets = found.domains.len();
    out.floor_bps = found.floor;
    let mut known: BTreeMap<usize, usize> = BTreeMap::new();
    // The bottlenecks of fair rates are listed first.
    for criterion in [
        Criterion::Unweighted,
        Criterion::MaxMin,
        Criterion::Proportional,
        Criterion::Aggregate,
        Criterion::Utilisation,
    ] {
        let rates = match found.by(criterion) {
            Ok(rates) => rates,
            Err(e) => {
                let problem = e.to_string();
                out.unsolved.push(Unsolved { criterion: criterion.name(), problem });
                continue;
            }
        };
        let mut label = |limit: &Limit| match *limit {
            Limit::Demand | Limit::Wire(_) => None,
            Limit::Domain(d) => Some(*known.entry(d).or_insert_with(|| {
                out.bottlenecks.push(Bottleneck {
                    label: letters(out.bottlenecks.len()),
                    center: (out.model == "domains").then_some(d as u32),
                    links: found.domains.links(d).to_vec(),
                });
                out.bottlenecks.len() - 1
            })),
        };
        out.criteria.push(Allocation {
            criterion: criterion.name(),
            bottleneck: rates.limits.iter().map(&mut label).collect(),
            aggregate_bps: rates.aggregate,
            min_bps: rates.rates.iter().copied().fold(f64::INFINITY, f64::min),
            jain: measures::jain(&rates.rates),
            utilization_bps: rates.utilisation,
            utilization_ratio: rates.utilisation_ratio,
            rates_bps: rates.rates.clone(),
        });
    }
}

/// Returns a label of letters: A, B, … Z, AA, AB, and so on.
fn letters(mut i: usize) -> String {
    let mut out = Vec::new();
    loop {
        out.push(b'A' + (i % 26) as u8);
        if i < 26 {
            break;
        }
        i = i / 26 - 1;
    }
    out.iter().rev().map(|&c| char::from(c)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Changes;
    use crate::source::build;
    use fairmesh_capacity::convex::ConvexError;
    use fairmesh_control::Registry;

    /// A criterion that a solver does not reach is named, and all other criteria remain.
    #[test]
    fn a_criterion_that_is_missed_is_named_and_the_others_stay() {
        let text = include_str!("../../../../scenarios/jamshaid-fig-7.3.toml");
        let scenario =
            build("t.toml".as_ref(), text.as_bytes(), &Changes::default(), &Registry::standard())
                .unwrap();
        let model = CapacityModel::new(&scenario);
        let flows: Vec<FlowSpec<'_>> =
            on_air(&model).unwrap().into_iter().map(|i| model.flow(i)).collect();
        let network = Network {
            phy: &scenario.mac().phy,
            access: model.access,
            in_range: &model.decodes,
            links: &model.links,
            flows: &flows,
            sharing: Sharing::Links,
            minimum: &[],
            budget: Budget::default(),
        };
        let mut analysis = network.analyse().unwrap();
        let summarized =
            |a: &Analysis| summary(&scenario, a, "domains", ContentionRange::Decode, false);
        let all = summarized(&analysis);
        let whole = serde_json::to_value(&all).unwrap();
        assert!(whole.get("unsolved").is_none(), "not written where nothing is missed");
        analysis.collision.solved[0] = Err(ConvexError::Unsolved(2.5e-6));
        let rest = summarized(&analysis);
        let json = serde_json::to_value(&rest).unwrap();
        let problem = "the solver came no closer to the optimum than 2.5e-6";
        let expected = serde_json::json!([{ "criterion": "proportional", "problem": problem }]);
        assert_eq!(json["unsolved"], expected);
        assert!(
            all.by(Criterion::Proportional).is_some() && rest.by(Criterion::Proportional).is_none()
        );
        assert_eq!(rest.criteria.len(), all.criteria.len() - 1);
        let rates = |m: &Model, c| m.by(c).map(|a| a.rates_bps.clone());
        for criterion in
            [Criterion::Unweighted, Criterion::MaxMin, Criterion::Aggregate, Criterion::Utilisation]
        {
            assert_eq!(rates(&rest, criterion), rates(&all, criterion));
            assert!(rates(&rest, criterion).is_some());
        }
    }

    #[test]
    fn access_categories_are_refused_by_the_flows_name() {
        let text = |access: &str| {
            format!(
                "duration = \"2 s\"\n[radio]\nphy = \"802.11n\"\nmcs = 3\n[topology]\nchain = {{ hops = 1 }}\n[[flow]]\n\
                 name = \"call\"\nfrom = 1\nto = 0\naccess = \"{access}\"\n"
            )
        };
        let asked = |access: &str| {
            let text = text(access);
            best_effort(
                &build(
                    "t.toml".as_ref(),
                    text.as_bytes(),
                    &Changes::default(),
                    &Registry::standard(),
                )
                .unwrap(),
            )
        };
        assert!(asked("best-effort").is_ok());
        let refused = asked("voice").unwrap_err().to_string();
        assert!(refused.contains("flow \"call\"") && refused.contains("expected"), "{refused}");
    }

    #[test]
    fn labels_go_on_after_z() {
        assert_eq!(
            [0, 1, 25, 26, 51, 52, 701, 702].map(letters).join(" "),
            "A B Z AA AZ BA ZZ AAA"
        );
    }
}
