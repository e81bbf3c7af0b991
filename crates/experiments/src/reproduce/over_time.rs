//! Charts over time of measures at links and nodes.

use fairmesh_engine::record::RunRecord;

use super::catalogue::Entry;
use super::cell::Cell;
use super::declare::{Arm, Experiment, Phase};
use super::kind::Kind;
use super::panel::{Panel, wanted};

/// Returns panels over time at the places of the measures, one per kind in use.
pub(super) fn panels(experiment: &Experiment, arm: &str, run: &RunRecord) -> Vec<Panel> {
    let series = &run.series;
    let link = |at: &str| series.links.iter().find(|l| format!("{}→{}", l.from, l.to) == at);
    let per_packet = |(packets, frames): (&u64, &u64)| match packets {
        0 => 0.0,
        n => *frames as f64 / *n as f64 - 1.0,
    };
    let curve = |kind: Kind, at: &str| -> Option<Vec<f64>> {
        match kind {
            Kind::AirtimeLimit => Some(link(at)?.airtime.iter().map(|a| 100.0 * a).collect()),
            Kind::Retries => {
                let l = link(at)?;
                Some(l.packets.iter().zip(&l.frames).map(per_packet).collect())
            }
            Kind::AvailableAir => {
                let n = run.nodes.iter().position(|n| n.name == at)?;
                Some(series.foreign.get(n)?.iter().map(|f| 100.0 * (1.0 - f)).collect())
            }
            _ => None,
        }
    };
    let kinds = [
        (Kind::AirtimeLimit, "airtime limits", "part of the air, %"),
        (Kind::Retries, "retries", "per packet"),
        (Kind::AvailableAir, "available air", "part of the time, %"),
    ];
    let panel = |(kind, what, y): &(Kind, &str, &str)| {
        let mut lines: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
        let places = experiment.measures.iter().filter(|m| m.of == *kind).flat_map(|m| &m.at);
        for at in places {
            if lines.iter().any(|l| l.0 == *at) {
                continue;
            }
            let Some(values) = curve(*kind, at) else { continue };
            lines.push((at.clone(), series.time_s.iter().copied().zip(values).collect()));
        }
        (!lines.is_empty()).then(|| Panel::over_time(format!("{arm}, {what}"), y, lines))
    };
    kinds.iter().filter_map(panel).collect()
}

/// Returns panels over time from a record's means over phases: steps, one panel per arm.
///
/// If phases overlap, the first counts.
pub(super) fn steps(entry: &Entry, cells: &[Cell]) -> Vec<Panel> {
    let experiment = &entry.experiment;
    let mut phases: Vec<&Phase> = Vec::new();
    for p in &experiment.phases {
        if phases.last().is_none_or(|last| last.to <= p.from) {
            phases.push(p);
        }
    }
    let y = experiment.chart.as_ref().map_or("", |c| c.y.as_str());
    let panel = |arm: &Arm| {
        let mut lines: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
        for p in &phases {
            let row = format!("{}, {}", arm.label, p.label);
            for c in cells.iter().filter(|c| c.row == row && wanted(entry, c)) {
                let name = experiment.measures[c.measure].at.join(" and ");
                let at = lines.iter().position(|l| l.0 == name).unwrap_or_else(|| {
                    lines.push((name, Vec::new()));
                    lines.len() - 1
                });
                lines[at].1.extend([(p.from, c.value.mean), (p.to, c.value.mean)]);
            }
        }
        (!lines.is_empty()).then(|| Panel::over_time(arm.label.clone(), y, lines))
    };
    experiment.arms.iter().filter_map(panel).collect()
}
