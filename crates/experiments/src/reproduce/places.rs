//! Measures of links and nodes.
//!
//! They are airtime limits, retries, available air, and delivered traffic.

use fairmesh_engine::record::{LinkSeries, RunRecord};
use fairmesh_scenario::Scenario;

use super::declare::Experiment;
use super::kind::Kind;
use super::measure::{Reading, between};

/// Checks that every place named by a measure is in the scenario.
///
/// # Errors
/// Returns the first place that is missing, for the user.
pub(super) fn check(experiment: &Experiment, scenario: &Scenario) -> Result<(), String> {
    for m in &experiment.measures {
        if let Some(at) = m.at.iter().find(|at| !known(scenario, m.of, at)) {
            return Err(format!("measure \"{}\": there is no \"{at}\" in the scenario", m.label));
        }
    }
    Ok(())
}

fn known(scenario: &Scenario, kind: Kind, at: &str) -> bool {
    let ends: Vec<_> = at.split('→').map(|n| scenario.node(n)).collect();
    match (kind, &ends[..]) {
        (Kind::AvailableAir | Kind::IdleAir, [Some(_)]) => true,
        (Kind::AirtimeLimit | Kind::Retries, [Some(a), Some(b)]) => scenario.link(*a, *b).is_some(),
        (Kind::Delivered, [Some(a), Some(b)]) => {
            scenario.flows().iter().any(|f| (f.from, f.to) == (*a, *b))
        }
        _ => false,
    }
}

impl Reading {
    /// Returns the number of a kind that is read at places, over a phase or all measured time.
    ///
    /// Places are links, nodes or flows. `None` if nothing was measured: no curves of links, or no
    /// packet.
    pub fn at(
        &self,
        kind: Kind,
        at: &[String],
        run: &RunRecord,
        phase: Option<usize>,
    ) -> Option<f64> {
        let (from, to) =
            phase.map_or((run.warmup_s, run.duration_s), |p| (self.phases[p].0, self.phases[p].1));
        let series = &run.series;
        if self.model.is_some() || self.emulated {
            return None;
        }
        let links = || series.links.iter().filter(|l| at.contains(&format!("{}→{}", l.from, l.to)));
        match kind {
            Kind::AirtimeLimit => {
                let means = links().map(|l| 100.0 * between(&series.time_s, &l.airtime, from, to));
                // If nothing limits airtime, there is no limit to report.
                means.reduce(|a, b| a + b).filter(|sum| *sum > 0.0)
            }
            Kind::Retries => {
                let inside = |t: f64| t > from && t <= to;
                let sum = |of: fn(&LinkSeries) -> &Vec<u64>| -> f64 {
                    let counts = links().flat_map(|l| series.time_s.iter().zip(of(l)));
                    counts.filter(|(t, _)| inside(**t)).map(|(_, n)| *n as f64).sum()
                };
                let (packets, frames) = (sum(|l| &l.packets), sum(|l| &l.frames));
                (packets > 0.0).then(|| frames / packets - 1.0)
            }
            Kind::AvailableAir => {
                let here = run.nodes.iter().zip(&series.foreign);
                let foreign = here
                    .filter(|(n, _)| at.contains(&n.name))
                    .map(|(_, curve)| between(&series.time_s, curve, from, to));
                foreign.map(|f| 100.0 * (1.0 - f)).reduce(f64::min)
            }
            Kind::IdleAir => {
                let here = run.nodes.iter().filter(|n| at.contains(&n.name));
                here.map(|n| 100.0 * n.airtime_idle).reduce(f64::min)
            }
            Kind::Delivered => {
                let wanted = |ends: &str| at.is_empty() || at.iter().any(|a| a == ends);
                let curves = (0..self.ends.len()).filter(|f| wanted(&self.ends[*f]));
                let rate =
                    |f: usize| Some(between(&series.time_s, series.goodput_bps.get(f)?, from, to));
                let sum: Option<f64> = curves.map(rate).sum();
                sum.map(|bps: f64| bps * (to - from) / 8e3)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::declare::{Measure, Phase};
    use super::*;
    use fairmesh_engine::record::NodeRecord;
    use fairmesh_lab::testing::record;

    fn reading() -> Reading {
        let text = "duration = \"5 s\"\n[radio]\nrate = \"1 Mbit/s\"\n[topology]\nchain = { hops = 2 }\n\
            [[flow]]\nfrom = 2\nto = 0\ntraffic = \"bulk\"\n";
        let options = fairmesh_scenario::ImportOptions::default();
        let scenario = fairmesh_scenario::parse("t.toml", text.as_bytes(), &options).unwrap();
        let phase = Phase { label: "p".into(), from: 1.0, to: 3.0 };
        let measure = |of: &str, at: &str| -> Measure {
            toml::from_str(&format!("of = \"{of}\"\nat = [\"{at}\"]\n")).unwrap()
        };
        let known = |of, at| places_known(&scenario, measure(of, at));
        assert!(
            known("airtime-limit", "2→1")
                && known("available-air", "1")
                && known("idle-air", "1")
                && known("delivered", "2→0")
        );
        assert!(
            !known("airtime-limit", "2→0") && !known("retries", "2") && !known("delivered", "2→1")
        );
        Reading::of(&scenario, &[phase]).unwrap()
    }

    fn places_known(scenario: &Scenario, measure: Measure) -> bool {
        super::known(scenario, measure.of, &measure.at[0])
    }

    #[test]
    fn links_and_nodes_are_read_over_a_phase() {
        let r = reading();
        let mut run = record("cna", 1, &[(1e5, 2e5, 2)]);
        run.series.time_s = vec![1.0, 2.0, 3.0, 4.0];
        run.series.goodput_bps = vec![vec![0.0, 8e3, 16e3, 8e6]];
        let link = |from: &str, to: &str, airtime: f64| LinkSeries {
            from: from.into(),
            to: to.into(),
            airtime: vec![0.9, airtime, airtime, 0.9],
            packets: vec![9, 4, 6, 9],
            frames: vec![9, 5, 10, 99],
        };
        run.series.links = vec![link("2", "1", 0.25), link("1", "0", 0.3)];
        run.series.foreign = vec![vec![0.0; 4], vec![0.9, 0.3, 0.5, 0.9], vec![0.0; 4]];
        let node = |name: &str| NodeRecord {
            name: name.into(),
            position: None,
            airtime_tx: 0.0,
            airtime_busy: 0.0,
            airtime_idle: if name == "1" { 0.4 } else { 1.0 },
            mac: Default::default(),
            mean_queue: 0.0,
        };
        run.nodes = vec![node("0"), node("1"), node("2")];
        let at = |kind, places: &[&str]| {
            let places: Vec<String> = places.iter().map(|p| (*p).to_owned()).collect();
            r.at(kind, &places, &run, Some(0))
        };
        let near = |found: Option<f64>, wanted: f64| (found.unwrap() - wanted).abs() < 1e-9;
        assert!(near(at(Kind::AirtimeLimit, &["2→1", "1→0"]), 55.0));
        assert!(near(at(Kind::Retries, &["2→1"]), 0.5));
        assert!(near(at(Kind::AvailableAir, &["1", "0"]), 60.0));
        assert!(near(at(Kind::IdleAir, &["1", "0"]), 40.0));
        assert!(near(at(Kind::Delivered, &[]), 3.0) && near(at(Kind::Delivered, &["2→0"]), 3.0));
        assert_eq!(at(Kind::Retries, &["0→1"]), None);
    }
}
