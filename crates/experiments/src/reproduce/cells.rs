//! The numbers of an experiment, each with its row and column.

use fairmesh_engine::record::RunRecord;
use fairmesh_lab::Estimate;

use super::cell::Cell;
use super::declare::{Dimension, Experiment, Fold, Measure, Statistic, flow_name};
use super::kind::Kind;
use super::plan::{Case, Plan, Runs};

/// Returns all numbers of a plan, in the order of the declaration.
pub fn cells(plan: &Plan, index: usize, runs: &Runs) -> Vec<Cell> {
    let experiment = &plan.entry.experiment;
    let mut out = Vec::new();
    let mut start = 0;
    while start < plan.cases.len() {
        let first = &plan.cases[start];
        let same = |c: &Case| (c.arm, c.point) == (first.arm, first.point);
        let end = start + plan.cases[start..].iter().take_while(|c| same(c)).count();
        // Every topology has the same flows, or the layout has no flows.
        let group: Vec<(&Case, &[RunRecord])> =
            (start..end).map(|i| (&plan.cases[i], runs.of_case(plan, index, i))).collect();
        let places = experiment.lays_out(Dimension::Place);
        if !places {
            out.extend(of_group(experiment, &group, ""));
        }
        if places || experiment.lays_out(Dimension::Family) {
            let mut families: Vec<&str> = Vec::new();
            for (case, _) in &group {
                if !families.contains(&case.family.as_str()) {
                    families.push(&case.family);
                }
            }
            for family in families {
                let members: Vec<_> =
                    group.iter().filter(|(c, _)| c.family == family).copied().collect();
                out.extend(of_group(experiment, &members, family));
            }
        }
        if places {
            for member in &group {
                let label = &plan.topologies[member.0.topology].label;
                out.extend(of_group(experiment, core::slice::from_ref(member), label));
            }
        }
        start = end;
    }
    out
}

/// Returns the numbers of one arm at one point over some topologies.
///
/// `place` is a family, one topology, or `""` for all topologies.
fn of_group(experiment: &Experiment, group: &[(&Case, &[RunRecord])], place: &str) -> Vec<Cell> {
    let first = group[0].0;
    let arm = &experiment.arms[first.arm].label;
    let point = experiment.points.get(first.point).map_or("", |p| p.label.as_str());
    let per_flow = experiment.lays_out(Dimension::Flow);
    let phases: Vec<Option<usize>> = match experiment.phases.len() {
        0 => vec![None],
        n => (0..n).map(Some).collect(),
    };
    let mut out = Vec::new();
    for phase in phases {
        let phase_label = phase.map_or("", |p| experiment.phases[p].label.as_str());
        for (m, measure) in experiment.measures.iter().enumerate() {
            // By topology and seed: one number per flow, or one number.
            let values: Vec<Vec<Vec<Option<f64>>>> = group
                .iter()
                .map(|(case, records)| {
                    let read = |r| read(measure, case, r, phase, per_flow);
                    records.iter().map(read).collect()
                })
                .collect();
            let names: Vec<String> = if per_flow && measure.of.is_per_flow() {
                let names = first.reading.flows().into_iter();
                names.map(|ends| flow_name(&experiment.layout.names, ends)).collect()
            } else {
                vec![String::new()]
            };
            for (k, flow) in names.iter().enumerate() {
                let of_flow: Vec<Vec<f64>> = values
                    .iter()
                    .map(|seeds| seeds.iter().filter_map(|v| v.get(k).copied().flatten()).collect())
                    .collect();
                let Some(value) =
                    statistic(measure, &of_flow, experiment.lays_out(Dimension::Place))
                else {
                    continue;
                };
                let label = |d: &Dimension| match d {
                    Dimension::Arm => arm.clone(),
                    Dimension::Point => point.to_owned(),
                    Dimension::Family | Dimension::Place => place.to_owned(),
                    Dimension::Phase => phase_label.to_owned(),
                    Dimension::Flow => flow.clone(),
                    Dimension::Measure => measure.label.clone(),
                };
                out.push(Cell {
                    row: join(experiment.layout.rows.iter().map(label)),
                    column: join(experiment.layout.columns.iter().map(label)),
                    arm: arm.clone(),
                    point: point.to_owned(),
                    line: join([flow.clone(), measure.label.clone()].into_iter()),
                    measure: m,
                    value,
                });
            }
        }
    }
    out
}

fn join(parts: impl Iterator<Item = String>) -> String {
    parts.filter(|p| !p.is_empty()).collect::<Vec<_>>().join(", ")
}

/// Returns a value without its constant part, in the unit of the measure.
fn scaled(measure: &Measure, value: f64) -> f64 {
    (value - measure.less) * measure.scale
}

/// Returns the numbers of one run: one per flow if the layout has flows.
fn read(
    measure: &Measure,
    case: &Case,
    run: &RunRecord,
    phase: Option<usize>,
    per_flow: bool,
) -> Vec<Option<f64>> {
    if measure.of.is_at() || measure.of == Kind::Delivered {
        let value = case.reading.at(measure.of, &measure.at, run, phase);
        return vec![value.map(|v| scaled(measure, v))];
    }
    let mut values = match measure.share {
        Some(share) => case.reading.over_share(share, run, phase),
        None => case.reading.read(measure.of, run, phase),
    };
    if measure.of.is_per_flow() && !per_flow {
        let there: Vec<f64> = values.into_iter().flatten().collect();
        let folded = match measure.flows {
            Fold::Mean if there.is_empty() => None,
            Fold::Mean => Some(there.iter().sum::<f64>() / there.len() as f64),
            Fold::Sum => Some(there.iter().sum()),
            Fold::Min => there.into_iter().reduce(f64::min),
            Fold::Max => there.into_iter().reduce(f64::max),
            Fold::Below => {
                let all = there.len() as f64;
                let below = there.iter().filter(|v| measure.below.is_some_and(|b| **v < b)).count();
                (all > 0.0).then(|| 100.0 * below as f64 / all)
            }
        };
        values = vec![folded];
    }
    values.into_iter().map(|v| v.map(|v| scaled(measure, v))).collect()
}

/// Returns the statistic of one number; `None` without values.
///
/// With one topology the interval is over seeds. With several it is over the topologies' means, so
/// that each topology has the same weight. With `by_seed` it is over the mean of all topologies
/// with each seed; the spread between topologies is then not part of the interval.
fn statistic(measure: &Measure, topologies: &[Vec<f64>], by_seed: bool) -> Option<Estimate> {
    let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
    let several = || topologies.iter().filter(|v| !v.is_empty()).map(|v| mean(v));
    if measure.statistic == Statistic::BelowTenth {
        return Some(Estimate::exact(several().filter(|m| *m < 0.1).count() as f64));
    }
    let means: Vec<f64>;
    let values: &[f64] = match topologies {
        [one] => one,
        _ if by_seed => {
            let seeds = topologies.iter().map(Vec::len).max().unwrap_or(0);
            let of_seed = |s: usize| -> Vec<f64> {
                topologies.iter().filter_map(|v| v.get(s).copied()).collect()
            };
            means = (0..seeds).map(of_seed).filter(|v| !v.is_empty()).map(|v| mean(&v)).collect();
            &means
        }
        _ => {
            means = several().collect();
            &means
        }
    };
    if values.is_empty() {
        return None;
    }
    let mean = Estimate::of(values);
    let least = || values.iter().copied().fold(f64::INFINITY, f64::min);
    Some(match measure.statistic {
        Statistic::Mean => mean,
        Statistic::Deviation => Estimate::exact(deviation(values, mean.mean)),
        Statistic::Least => Estimate::exact(least()),
        Statistic::BelowTenth => return None,
    })
}

fn deviation(values: &[f64], mean: f64) -> f64 {
    let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
    if values.len() > 1 { (squares / (values.len() - 1) as f64).sqrt() } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measure(statistic: &str) -> Measure {
        toml::from_str(&format!("of = \"jain\"\nstatistic = \"{statistic}\"\n")).unwrap()
    }

    #[test]
    fn topologies_have_equal_weight_with_any_number_of_seeds() {
        let topologies = [vec![1.0, 1.0, 1.0], vec![0.0]];
        let v = super::statistic(&measure("mean"), &topologies, false).unwrap();
        assert_eq!(v.mean, 0.5);
        let v = super::statistic(&measure("deviation"), &topologies, false).unwrap();
        assert!((v.mean - 0.5f64.sqrt()).abs() < 1e-12 && v.ci95.is_none());
    }

    #[test]
    fn a_constant_part_is_taken_off_before_the_scale() {
        let read = |text: &str| -> super::Measure { toml::from_str(text).unwrap() };
        assert_eq!(super::scaled(&read("of = \"packet-delay\"\n"), 30.0), 30.0);
        let wired = read("of = \"packet-delay\"\nless = 25.0\nscale = 2.0\n");
        assert_eq!(super::scaled(&wired, 30.0), 10.0);
    }

    #[test]
    fn by_seed_the_distance_of_topologies_is_no_uncertainty() {
        let topologies = [vec![1.0, 0.8], vec![0.6, 0.8]];
        let v = super::statistic(&measure("mean"), &topologies, true).unwrap();
        assert_eq!(v, Estimate { mean: 0.8, ci95: Some(0.0) });
        let v = super::statistic(&measure("below-tenth"), &[vec![0.0, 0.1], vec![0.1, 0.2]], true);
        assert_eq!(v, Some(Estimate::exact(1.0)));
    }

    #[test]
    fn one_topology_is_judged_over_its_seeds() {
        let v = super::statistic(&measure("mean"), &[vec![1.0, 2.0, 3.0]], false).unwrap();
        // t(0.975, 2) = 4.3027, s = 1
        assert!(v.mean == 2.0 && (v.ci95.unwrap() - 4.3027 / 3f64.sqrt()).abs() < 1e-3);
        assert_eq!(super::statistic(&measure("mean"), &[vec![2.0]], false).unwrap().ci95, None);
        assert_eq!(super::statistic(&measure("mean"), &[vec![]], false), None);
    }
}
