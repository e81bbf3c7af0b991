//! Several gateways: a control at each, alone or told of the others, against one box that sees all.

use fairmesh_control::Registry;
use fairmesh_engine::measures;
use fairmesh_scenario::Scenario;

use super::Network;
use fairmesh_lab::changes::with_control;
use fairmesh_lab::{LabError, Pool, batch};

/// What a network's subscribers have under one control, as parts of what one box gives.
#[derive(Clone, Debug)]
pub struct Beside {
    /// Index of the network.
    pub network: usize,
    /// The control.
    pub control: String,
    /// Goodput of whoever has least, bit/s, and under the box.
    pub worst_bps: (f64, f64),
    /// The sum of all, bit/s, and under the box.
    pub sum_bps: (f64, f64),
    /// Jain's index of goodputs, and under the box.
    pub jain: (f64, f64),
}

impl Beside {
    /// The least of all over the least under one box.
    pub fn worst(&self) -> f64 {
        self.worst_bps.0 / self.worst_bps.1
    }
}

/// Runs each control at each gateway, and `reference` in one box; goodputs are means over seeds 1 to `seeds`.
///
/// # Errors
/// What the engine refuses, and controls that do not exist.
pub fn beside_one_box(
    networks: &[Network],
    controls: &[String],
    reference: &str,
    seeds: u32,
    registry: &Registry,
    pool: &Pool<'_>,
) -> Result<Vec<Beside>, LabError> {
    let mut jobs: Vec<(Scenario, u64)> = Vec::new();
    for network in networks {
        let scenario = network.scenario()?;
        let boxed = with_control(&scenario, reference, registry)?.with_one_box();
        let apart = controls.iter().map(|c| with_control(&scenario, c, registry));
        let arms = core::iter::once(Ok(boxed)).chain(apart).collect::<Result<Vec<_>, _>>()?;
        for arm in arms {
            jobs.extend((1..=u64::from(seeds)).map(|seed| (arm.clone(), seed)));
        }
    }
    let rates = batch::all(pool, "comparing", &jobs, |(scenario, seed)| {
        let record = batch::once(scenario, *seed, None)?;
        Ok(record.subscribers.iter().map(|s| s.goodput_bps).collect::<Vec<_>>())
    })?;
    let means: Vec<Vec<f64>> = rates
        .chunks(seeds as usize)
        .map(|runs| {
            let mean = |s: usize| runs.iter().map(|r| r[s]).sum::<f64>() / runs.len() as f64;
            (0..runs[0].len()).map(mean).collect()
        })
        .collect();
    let least = |rates: &[f64]| rates.iter().copied().fold(f64::INFINITY, f64::min);
    let mut out = Vec::new();
    for (network, arms) in means.chunks(controls.len() + 1).enumerate() {
        let one = &arms[0];
        for (rates, control) in arms[1..].iter().zip(controls) {
            out.push(Beside {
                network,
                control: control.clone(),
                worst_bps: (least(rates), least(one)),
                sum_bps: (rates.iter().sum(), one.iter().sum()),
                jain: (measures::jain(rates), measures::jain(one)),
            });
        }
    }
    Ok(out)
}
