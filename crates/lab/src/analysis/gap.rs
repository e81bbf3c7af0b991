//! GAP's fluid model of a scenario (Mancuso 2010 §V).
//!
//! It has the equilibrium in the three load cases of §V.B, the stability and the convergence time.

use fairmesh_capacity::gap::{Equilibrium, Gap, GapError, Load, Stability};
use fairmesh_control::gap::Numbers;
use fairmesh_engine::fair_rates;
use fairmesh_scenario::{Flow, NodeKind, Scenario};
use serde::Serialize;

use super::AnalysisError;
use crate::LabError;
use crate::layout::{GENERATOR, SCHEMA};

/// Results of the model.
///
/// Rates are in bit/s of application data. A rate is a share of the gateway's air: a two-hop flow
/// of 1 Mbit/s is a load of 2 Mbit/s.
#[derive(Clone, Debug, Serialize)]
pub struct GapReport {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Scenario name.
    pub scenario: String,
    /// U\*, the gateway's throughput when saturated.
    pub capacity_bps: f64,
    /// U_S\*, the guaranteed rate of its neighbours.
    pub guarantee_bps: f64,
    /// Fraction of U\* reserved for signalling.
    pub gamma: f64,
    /// α, bit/s per second, all neighbours together.
    pub increase_bps_per_s: f64,
    /// β, per second.
    pub decrease_per_s: f64,
    /// Time from the guarantee to the threshold when all multi-hop load ends, in s.
    pub rise_s: f64,
    /// Time from the threshold to the guarantee when multi-hop nodes are backlogged, in s.
    pub decay_s: f64,
    /// The load cases.
    pub cases: Vec<Case>,
    /// [`GENERATOR`].
    pub generator: &'static str,
    #[serde(skip)]
    model: Gap,
}

/// A load and its equilibrium.
#[derive(Clone, Debug, Serialize)]
pub struct Case {
    /// Condition of §V.B.
    pub regime: &'static str,
    /// λ_S; `None` if backlogged.
    pub single_demand_bps: Option<f64>,
    /// λ_M.
    pub multi_demand_bps: f64,
    /// R_S; the smallest one if all larger limits are equilibria.
    pub limit_bps: f64,
    /// U_S.
    pub single_bps: f64,
    /// U_M.
    pub multi_bps: f64,
    /// Effect of a limit slightly too small, in words.
    pub below: String,
    /// Effect of a limit slightly too large, in words.
    pub above: String,
    #[serde(skip)]
    load: Load,
    #[serde(skip)]
    rest: Equilibrium,
}

impl GapReport {
    /// Returns the report of a scenario with a gateway and flows of its neighbours.
    ///
    /// # Errors
    /// If there is no gateway, no flow of a neighbour or of others, or if the model rejects parameters.
    pub fn of(scenario: &Scenario) -> Result<Self, LabError> {
        let bad = |e: AnalysisError| LabError::refused(scenario.name(), e);
        if scenario.gateways().is_empty() {
            return Err(bad(AnalysisError::NoGateway));
        }
        if let Some(radio) = scenario.further().first() {
            return Err(bad(AnalysisError::SeveralRadios { radio: radio.name.clone() }));
        }
        super::best_effort(scenario)?;
        if scenario.gateways().are_several() {
            return Err(bad(AnalysisError::SeveralGateways));
        }
        let fair = fair_rates(scenario).map_err(|e| bad(e.into()))?.rates_bps;
        let wireless = |f: &Flow| scenario.nodes()[f.from.index()].kind == NodeKind::Wireless;
        let sum = |near: bool, times: &dyn Fn(&Flow) -> f64| -> f64 {
            let of = scenario.flows().iter().zip(&fair);
            let of = of.filter(|(f, _)| wireless(f) && (f.wireless_hops == 1) == near);
            of.map(|(f, r)| r * times(f)).sum()
        };
        // Three hops from a node its air can be reused.
        let cost = |f: &Flow| f64::from(f.wireless_hops.clamp(1, 3));
        let numbers = Numbers::of(scenario.control());
        let efficiency = numbers.efficiency;
        let guarantee = efficiency * sum(true, &cost);
        let multi = efficiency * sum(false, &cost);
        if guarantee <= 0.0 || multi <= 0.0 {
            return Err(bad(AnalysisError::NoUploads));
        }
        let mut nodes: Vec<_> = scenario
            .flows()
            .iter()
            .filter(|f| f.wireless_hops == 1 && wireless(f))
            .map(|f| f.from)
            .collect();
        nodes.sort_unstable();
        nodes.dedup();
        let Numbers { gamma, period, .. } = numbers;
        let alpha = numbers.alpha * (guarantee + multi);
        let model = Gap::from_steps(
            guarantee + multi,
            guarantee,
            gamma,
            (alpha, numbers.beta),
            (nodes.len() as u32, period),
        )
        .map_err(|e: GapError| bad(e.into()))?;
        let slope = model.decay_time();
        Ok(GapReport {
            schema: SCHEMA,
            scenario: scenario.name().to_owned(),
            capacity_bps: model.capacity(),
            guarantee_bps: guarantee,
            gamma,
            increase_bps_per_s: f64::from(nodes.len() as u32) * alpha / period,
            decrease_per_s: (model.threshold() / guarantee).ln() / slope,
            rise_s: model.rise_time(),
            decay_s: model.decay_time(),
            cases: loads(&model).into_iter().map(|load| case(&model, load)).collect(),
            generator: GENERATOR,
            model,
        })
    }

    /// Returns the model itself.
    pub fn model(&self) -> &Gap {
        &self.model
    }
}

impl Case {
    /// Returns the load in the model's form.
    pub fn load(&self) -> Load {
        self.load
    }

    /// Returns the equilibrium of the model under it.
    pub fn rest(&self) -> Equilibrium {
        self.rest
    }
}

/// Returns a load in each condition of §V.B, and on the border of the second.
fn loads(g: &Gap) -> Vec<Load> {
    let (own, threshold) = (g.guarantee(), g.threshold());
    let single = (own + threshold) / 2.0;
    vec![
        // (a): their demand is below their guarantee, and the others have all the rest.
        Load { single: 0.6 * own, multi: 0.95 * (g.capacity() - 0.6 * own) },
        // (b): both demands are met.
        Load { single, multi: 0.6 * (threshold - single) },
        Load { single: f64::INFINITY, multi: 0.35 * (threshold - own) },
        // (c): the others use part of the capacity reserved for signalling.
        Load { single: f64::INFINITY, multi: threshold - own + 0.7 * g.signalling() },
    ]
}

fn case(g: &Gap, load: Load) -> Case {
    let rest = g.equilibrium(load);
    Case {
        regime: rest.regime.name(),
        single_demand_bps: load.single.is_finite().then_some(load.single),
        multi_demand_bps: load.multi,
        limit_bps: rest.limit,
        single_bps: rest.single,
        multi_bps: rest.multi,
        below: words(rest.below),
        above: words(rest.above),
        load,
        rest,
    }
}

fn words(s: Stability) -> String {
    match s {
        Stability::Neutral => "stays, and does not bind".to_owned(),
        Stability::Linear(speed) => format!("grows by {:.0} kbit/s per s", speed / 1e3),
        Stability::Exponential(rate) => format!("falls as exp(-{rate:.2} t)"),
        Stability::Floor => "cannot be: it is the floor".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Changes;
    use crate::source::build;
    use fairmesh_control::Registry;

    fn report(text: &str) -> Result<GapReport, LabError> {
        let scenario =
            build("t.toml".as_ref(), text.as_bytes(), &Changes::default(), &Registry::standard())
                .unwrap();
        GapReport::of(&scenario)
    }

    const TREE: &str = include_str!("../../../../scenarios/mancuso-branches-1.toml");

    #[test]
    fn one_branch_has_a_case_per_condition() {
        let r = report(TREE).unwrap();
        // A third of the model's TCP capacity, of which the mesh reaches 0.8.
        assert!((r.guarantee_bps / r.capacity_bps - 1.0 / 3.0).abs() < 1e-9);
        assert!((r.capacity_bps / 1e3 - 0.8 * 3254.0).abs() < 2.0, "{}", r.capacity_bps);
        let regimes: Vec<&str> = r.cases.iter().map(|c| c.regime).collect();
        assert_eq!(regimes, ["light", "unsaturated", "threshold", "saturated"]);
        assert!(r.cases.iter().all(|c| c.rest.is_stable()));
        assert!(r.cases.iter().any(|c| c.above == "falls as exp(-1.05 t)"), "{:?}", r.cases);
        assert!((r.decay_s - 0.94).abs() < 0.01, "{}", r.decay_s);
    }

    #[test]
    fn settings_of_the_scenario_count() {
        let with = |more: &str| report(&format!("{TREE}\n[control]\n{more}"));
        assert_eq!(with("use = \"gap\"\ngamma = 0.2").unwrap().gamma, 0.2);
        assert_eq!(with("use = \"fifo\"").unwrap().gamma, 0.1);
        let refused = with("use = \"gap\"\ngamma = 0.7").unwrap_err().to_string();
        assert!(refused.contains("gamma must be above 0 and at most 0.667"), "{refused}");
    }
}
