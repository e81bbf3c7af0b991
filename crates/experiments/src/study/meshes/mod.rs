//! Controls at every node on random meshes, compared with the optimum.

mod networks;

use std::collections::BTreeSet;

use fairmesh_engine::record::RunRecord;
use fairmesh_scenario::Scenario;

pub use networks::{FIRST_TUNING_MESH, Kind, Mesh, REPORTED_MESHES, mesh, meshes};

use super::Settings;
use super::against::{Compared, MeasureSummary, Optima, over_runs};
use fairmesh_lab::Store;
use fairmesh_lab::optimum::Optimum;
use fairmesh_lab::{Estimate, LabError, Pool};

/// Goodputs of one mesh's flows under one control.
///
/// Goodputs are means over seeds, as the optimum is one, and intervals are over seeds.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// Index of the control.
    pub control: usize,
    /// Index of the mesh.
    pub mesh: usize,
    /// Smallest fraction of its optimum that a flow has.
    pub worst: Estimate,
    /// Sum of all goodputs over that of all optima.
    pub sum: Estimate,
    /// Mean of the mean delays of flows that delivered anything, in s.
    pub delay_s: f64,
    /// Signalling of all nodes together, bytes per second.
    pub signalling: f64,
}

/// All outcomes.
#[derive(Clone, Debug)]
pub struct Study {
    /// Names of the controls in results.
    pub controls: Vec<String>,
    /// By mesh and control.
    pub outcomes: Vec<Outcome>,
    /// Meshes with a search that ended at its bound of effort.
    pub bounded: BTreeSet<usize>,
    /// Number of optima that were searched; the others were stored.
    pub searched: usize,
    /// Number of runs, without those of searches.
    pub runs: usize,
    /// Hash of their fingerprints, in order.
    pub fingerprint: u64,
}

/// A row of a table: the results of a control on a kind of mesh.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Row {
    /// Meshes.
    pub meshes: usize,
    /// Fraction of the worst flow.
    pub worst: MeasureSummary,
    /// Sum over that of the optimum.
    pub sum: MeasureSummary,
    /// Mean delay, in s.
    pub delay_s: Estimate,
    /// Signalling, bytes per second.
    pub signalling: Estimate,
}

/// Runs every control on every mesh.
///
/// # Errors
/// Returns an error if the engine or the search rejects a scenario, or if a control does not exist.
pub fn run(
    meshes: &[Mesh],
    settings: &Settings,
    cache: Option<&Store>,
    pool: &Pool<'_>,
) -> Result<Study, LabError> {
    let scenarios: Vec<Scenario> = meshes.iter().map(Mesh::scenario).collect::<Result<_, _>>()?;
    let optima = Optima::of(&scenarios, &settings.search, cache, pool)?;
    let compared = Compared::run(&scenarios, settings, optima, false, pool)?;
    let arms = compared.arms();
    let outcomes = arms.map(|(mesh, control, records)| {
        outcome(&compared.optima.list[mesh], records, mesh, control)
    });
    Ok(Study {
        outcomes: outcomes.collect(),
        bounded: compared.optima.bounded(),
        searched: compared.optima.searched,
        runs: compared.runs(),
        fingerprint: compared.fingerprint,
        controls: compared.controls,
    })
}

fn outcome(optimum: &Optimum, records: &[RunRecord], mesh: usize, control: usize) -> Outcome {
    let best = optimum.rates_bps();
    let (mut delay, mut delivering) = (0.0, 0u32);
    let mut signalling = 0.0;
    for record in records {
        for flow in &record.flows {
            if flow.packets_delivered > 0 {
                delay += flow.delay_s.mean;
                delivering += 1;
            }
        }
        signalling += record.totals.signalling.bytes_per_s / records.len() as f64;
    }
    let worst = |goodput: &[f64]| {
        let parts = goodput.iter().zip(&best).filter(|(_, b)| **b > 0.0).map(|(g, b)| g / b);
        parts.reduce(f64::min).unwrap_or(0.0)
    };
    Outcome {
        control,
        mesh,
        worst: over_runs(records, worst),
        sum: over_runs(records, |rates| optimum.sum_over(rates)),
        delay_s: delay / f64::from(delivering.max(1)),
        signalling,
    }
}

impl Study {
    /// Summarises a control's results on the meshes of a kind, or on all.
    ///
    /// `None` if there are none.
    pub fn row(&self, meshes: &[Mesh], kind: Option<Kind>, control: usize) -> Option<Row> {
        let of =
            |o: &&Outcome| o.control == control && kind.is_none_or(|k| meshes[o.mesh].kind == k);
        let own: Vec<&Outcome> = self.outcomes.iter().filter(of).collect();
        let mean = |of: &dyn Fn(&Outcome) -> f64| {
            Estimate::of(&own.iter().map(|o| of(o)).collect::<Vec<_>>())
        };
        Some(Row {
            meshes: own.len(),
            worst: MeasureSummary::of(own.iter().map(|o| o.worst))?,
            sum: MeasureSummary::of(own.iter().map(|o| o.sum))?,
            delay_s: mean(&|o| o.delay_s),
            signalling: mean(&|o| o.signalling),
        })
    }

    /// Returns one line per mesh and control, as comma-separated values.
    pub fn csv(&self, meshes: &[Mesh]) -> String {
        let mut out = "mesh,about,optimum,control,worst_of_optimum,sum_of_optimum,delay_ms,\
                       signalling_bytes_per_s\n"
            .to_owned();
        for o in &self.outcomes {
            let m = &meshes[o.mesh];
            let bounded = if self.bounded.contains(&o.mesh) { "bounded" } else { "found" };
            out += &format!(
                "{},\"{}\",{bounded},{},{:.3},{:.3},{:.1},{:.0}\n",
                m.name,
                m.about,
                self.controls[o.control],
                o.worst.mean,
                o.sum.mean,
                1e3 * o.delay_s,
                o.signalling
            );
        }
        out
    }
}
