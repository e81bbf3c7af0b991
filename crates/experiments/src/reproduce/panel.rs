//! Contents of a chart before it is drawn.

use super::catalogue::Entry;
use super::cell::Cell;
use super::record::{Curve, Curves};

/// One chart.
#[derive(Clone, Debug, Default)]
pub struct Panel {
    /// Title of the chart; the base of its file name.
    pub title: String,
    pub(super) x: String,
    pub(super) y: String,
    /// Lower end of the vertical axis.
    pub(super) bottom: f64,
    /// Labels below groups of bars; empty for lines.
    pub(super) groups: Vec<String>,
    pub(super) lines: Vec<Line>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    pub(super) label: String,
    pub(super) points: Vec<(f64, f64)>,
    /// Half of the 95 % interval of each point.
    pub(super) around: Vec<Option<f64>>,
    /// Points that the paper prints.
    pub(super) paper: Vec<(f64, f64)>,
    /// Points read from the paper's text.
    pub(super) shown: Vec<(f64, f64)>,
}

impl Line {
    pub(super) fn push(&mut self, x: f64, c: &Cell, entry: &Entry) {
        self.points.push((x, c.value.mean));
        self.around.push(c.value.ci95);
        if let Some(p) = entry.paper.get(&c.row, &c.column) {
            let marks = if p.printed { &mut self.paper } else { &mut self.shown };
            marks.push((x, p.value));
        }
    }
}

impl Panel {
    /// Returns a panel of curves over time by name.
    pub(super) fn over_time(
        title: String,
        y: &str,
        curves: Vec<(String, Vec<(f64, f64)>)>,
    ) -> Self {
        let line = |(label, points): (String, Vec<(f64, f64)>)| {
            let around = vec![None; points.len()];
            Line { label, points, around, ..Line::default() }
        };
        let lines = curves.into_iter().map(line).collect();
        let (x, y) = ("time, s".to_owned(), y.to_owned());
        Panel { title, x, y, lines, ..Panel::default() }
    }
}

/// Maximum number of points of a curve in a record.
const MAX_CURVE_POINTS: usize = 120;

impl Panel {
    /// Returns its curves for a record, thinned to at most a fixed number of means.
    pub fn curves(&self) -> Curves {
        let thin = |line: &Line| {
            let step = line.points.len().div_ceil(MAX_CURVE_POINTS).max(1);
            let mean = |part: &[(f64, f64)]| {
                let n = part.len() as f64;
                let (x, y) = part.iter().fold((0.0, 0.0), |(a, b), p| (a + p.0, b + p.1));
                let short = |v: f64| (v * 100.0).round() / 100.0;
                (short(x / n), short(y / n))
            };
            Curve {
                label: line.label.clone(),
                points: line.points.chunks(step).map(mean).collect(),
            }
        };
        let lines = self.lines.iter().map(thin).collect();
        Curves { title: self.title.clone(), y: self.y.clone(), lines }
    }

    /// Adds a mark: a line of one point.
    pub(super) fn mark(&mut self, label: &str, at: (f64, f64)) {
        let line = Line { points: vec![at], around: vec![None], ..Line::default() };
        self.lines.push(Line { label: label.to_owned(), ..line });
    }

    /// Returns the panel of stored curves.
    pub(super) fn of_curves(kept: &Curves) -> Self {
        let lines = kept.lines.iter().map(|l| (l.label.clone(), l.points.clone())).collect();
        Panel::over_time(kept.title.clone(), &kept.y, lines)
    }
}

/// Returns true for measures that share an axis.
///
/// They are those that the chart names, or all of the first one's kind.
pub(super) fn wanted(entry: &Entry, c: &Cell) -> bool {
    let experiment = &entry.experiment;
    let Some(chart) = &experiment.chart else { return false };
    let Some(measure) = experiment.measures.get(c.measure) else { return false };
    let over_time = chart.kind.is_over_time();
    match &chart.measures {
        Some(m) => m.contains(&measure.label),
        None => !over_time || measure.of == experiment.measures[0].of,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_curves_are_means_of_equal_parts() {
        let points: Vec<(f64, f64)> = (0..240).map(|t| (f64::from(t), f64::from(t % 2))).collect();
        let panel = Panel::over_time("t".into(), "y", vec![("f".into(), points)]);
        let kept = panel.curves();
        assert_eq!(kept.lines[0].points.len(), MAX_CURVE_POINTS);
        assert_eq!(kept.lines[0].points[..2], [(0.5, 0.5), (2.5, 0.5)]);
        assert_eq!(Panel::of_curves(&kept).curves(), kept);
    }
}
