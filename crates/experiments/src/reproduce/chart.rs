//! The chart of a figure.

use fairmesh_engine::record::RunRecord;
use fairmesh_report::palette::{GRID_COLOUR, SERIES, TEXT_COLOUR};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::catalogue::Entry;
use super::cell::Cell;
use super::declare::{Arm, ChartKind, flow_name};
use super::over_time;
use super::panel::{Line, Panel, wanted};
use super::plan::{Plan, Runs};
use super::record::Record;

const SIZE: (u32, u32) = (640, 360);

/// Returns the panels of a plan; none if it declares no chart.
pub fn panels(plan: &Plan, index: usize, runs: &Runs, cells: &[Cell]) -> Vec<Panel> {
    let Some(chart) = &plan.entry.experiment.chart else { return Vec::new() };
    match chart.kind {
        kind if !kind.is_over_time() => drawn(&plan.entry, cells),
        kind => curves(plan, index, runs, kind),
    }
}

/// Returns the panels of a record: its curves over time, or those drawn from its numbers.
///
/// `first`: only the paper's arms.
pub fn of_record(entry: &Entry, record: &Record, first: bool) -> Vec<Panel> {
    let experiment = &entry.experiment;
    let shown = |arm: &str| !(first && experiment.is_second(arm));
    if record.curves.is_empty() {
        let cells: Vec<Cell> = record.cells(entry).into_iter().filter(|c| shown(&c.arm)).collect();
        return drawn(entry, &cells);
    }
    let arm_of = |title: &str| {
        let named = |a: &&Arm| {
            title.strip_prefix(&a.label).is_some_and(|r| r.is_empty() || r.starts_with(", "))
        };
        let arms = experiment.arms.iter().filter(named);
        arms.max_by_key(|a| a.label.len()).map_or("", |a| a.label.as_str())
    };
    let kept = record.curves.iter().filter(|c| shown(arm_of(&c.title)));
    kept.map(Panel::of_curves).collect()
}

/// Returns the panels drawn from numbers alone.
///
/// A chart over time becomes a chart of its means.
fn drawn(entry: &Entry, cells: &[Cell]) -> Vec<Panel> {
    match entry.experiment.chart.as_ref().map(|c| c.kind) {
        // Charts of a separate page are drawn from the record.
        None | Some(ChartKind::Scatter | ChartKind::Squares) => Vec::new(),
        Some(ChartKind::Lines) => lines(entry, cells),
        Some(ChartKind::Links) => over_time::steps(entry, cells),
        Some(_) => vec![bars(entry, cells)],
    }
}

fn bars(entry: &Entry, cells: &[Cell]) -> Panel {
    let (mut groups, mut lines): (Vec<String>, Vec<Line>) = (Vec::new(), Vec::new());
    for c in cells.iter().filter(|c| wanted(entry, c)) {
        let group = groups.iter().position(|g| *g == c.row).unwrap_or_else(|| {
            groups.push(c.row.clone());
            groups.len() - 1
        });
        line(&mut lines, &c.column).push(group as f64, c, entry);
    }
    let y = entry.experiment.chart.as_ref().map_or(String::new(), |c| c.y.clone());
    Panel { title: entry.experiment.title.clone(), y, groups, lines, ..Panel::default() }
}

fn line<'a>(lines: &'a mut Vec<Line>, label: &str) -> &'a mut Line {
    let at = lines.iter().position(|l| l.label == label).unwrap_or_else(|| {
        lines.push(Line { label: label.to_owned(), ..Line::default() });
        lines.len() - 1
    });
    &mut lines[at]
}

fn lines(entry: &Entry, cells: &[Cell]) -> Vec<Panel> {
    let experiment = &entry.experiment;
    let mut panels: Vec<Panel> = Vec::new();
    for c in cells.iter().filter(|c| wanted(entry, c)) {
        let at =
            panels.iter().position(|p| p.title == c.arm || c.arm.is_empty()).unwrap_or_else(|| {
                let chart = experiment.chart.as_ref();
                let title = if c.arm.is_empty() { &experiment.title } else { &c.arm };
                panels.push(Panel {
                    title: title.clone(),
                    x: chart.map_or(String::new(), |c| c.x.clone()),
                    y: chart.map_or(String::new(), |c| c.y.clone()),
                    bottom: chart.map_or(0.0, |c| c.from),
                    ..Panel::default()
                });
                panels.len() - 1
            });
        let place = experiment.points.iter().position(|p| p.label == c.point).unwrap_or(0);
        // Rows of a study are its points.
        let x = c.point.parse().or_else(|_| c.row.parse()).unwrap_or(place as f64);
        let label = if c.line.is_empty() { &c.column } else { &c.line };
        line(&mut panels[at].lines, label).push(x, c, entry);
    }
    // A single point makes no line; the table has its number.
    panels.retain(|p| p.lines.iter().any(|l| l.points.len() > 1));
    if panels.len() < 2 || panels.iter().any(|p| p.lines.len() != 1) {
        return panels;
    }
    // A curve per arm gives one panel of several curves, as papers draw it.
    let (x, y, bottom) = (panels[0].x.clone(), panels[0].y.clone(), panels[0].bottom);
    let named = |p: Panel| p.lines.into_iter().map(move |l| Line { label: p.title.clone(), ..l });
    let lines = panels.into_iter().flat_map(named).collect();
    vec![Panel { title: experiment.title.clone(), x, y, bottom, lines, ..Panel::default() }]
}

/// Returns goodput, goodput and windows, or rates of the first seed of every arm.
fn curves(plan: &Plan, index: usize, runs: &Runs, kind: ChartKind) -> Vec<Panel> {
    let experiment = &plan.entry.experiment;
    let mut panels = Vec::new();
    for (i, case) in plan.cases.iter().enumerate() {
        let Some(record) = runs.of_case(plan, index, i).first() else { continue };
        let arm = &experiment.arms[case.arm].label;
        let mut add =
            |title: String, y: &str, of: &dyn Fn(&RunRecord, usize) -> Option<Vec<f64>>| {
                let mut lines: Vec<Line> = Vec::new();
                for f in 0..record.flows.len() {
                    let Some(values) = of(record, f) else { continue };
                    let ends = format!("{}→{}", record.flows[f].from, record.flows[f].to);
                    let line = line(&mut lines, &flow_name(&experiment.layout.names, &ends));
                    for (k, (t, v)) in record.series.time_s.iter().zip(values).enumerate() {
                        // Flows with the same ends count as one.
                        match line.points.get_mut(k) {
                            Some(p) => p.1 += v,
                            None => line.points.push((*t, v)),
                        }
                    }
                }
                for l in &mut lines {
                    l.around = vec![None; l.points.len()];
                }
                let x = "time, s".to_owned();
                panels.push(Panel { title, x, y: y.to_owned(), lines, ..Panel::default() });
            };
        if kind == ChartKind::Links {
            panels.extend(over_time::panels(experiment, arm, record));
            continue;
        }
        if kind == ChartKind::Rate {
            add(arm.clone(), "rate, kbit/s", &|r, f| {
                let curve = r.series.limit_bps.get(f).filter(|c| !c.is_empty())?;
                Some(curve.iter().map(|v| v / 1e3).collect())
            });
            continue;
        }
        add(arm.clone(), "goodput, kbit/s", &|r, f| {
            r.series.goodput_bps.get(f).map(|c| c.iter().map(|v| v / 1e3).collect())
        });
        if kind == ChartKind::GoodputAndWindow {
            add(format!("{arm}, congestion window"), "packets", &|r, f| {
                let curve = r.series.cwnd_bytes.get(f).filter(|c| !c.is_empty())?;
                Some(curve.iter().map(|v| v / case.reading.segment(f)).collect())
            });
        }
    }
    panels
}

/// Height of a row of names below a chart, px.
const NAMES_ROW_HEIGHT_PX: u32 = 18;
/// Left end of these rows and the right end after which the next row begins, px.
const NAMES_RANGE_PX: (u32, u32) = (56, 630);
/// Width of the colour before a name, of a character, and of the gap after it, px.
const NAME_WIDTHS_PX: (u32, f64, u32) = (20, 6.6, 18);

/// Position of a line's name.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Place {
    x: u32,
    row: u32,
}

/// Arranges names in rows.
fn legend<'a>(names: impl Iterator<Item = &'a str>) -> Vec<Place> {
    let (mut x, mut row) = (NAMES_RANGE_PX.0, 0);
    let place = |name: &str| {
        let width = NAME_WIDTHS_PX.0
            + (NAME_WIDTHS_PX.1 * name.chars().count() as f64) as u32
            + NAME_WIDTHS_PX.2;
        if x > NAMES_RANGE_PX.0 && x + width > NAMES_RANGE_PX.1 {
            (x, row) = (NAMES_RANGE_PX.0, row + 1);
        }
        let entry = Place { x, row };
        x += width;
        entry
    };
    names.map(place).collect()
}

impl Place {
    fn draw(
        &self,
        area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
        colour: RGBColor,
        name: &str,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let (x, y) = (self.x as i32, (NAMES_ROW_HEIGHT_PX * self.row) as i32 + 7);
        area.draw(&Rectangle::new([(x, y - 4), (x + 14, y + 4)], colour.filled()))?;
        let style = ("sans-serif", 12)
            .into_font()
            .color(&TEXT_COLOUR)
            .pos(Pos::new(HPos::Left, VPos::Center));
        area.draw_text(name, &style, (x + NAME_WIDTHS_PX.0 as i32, y))?;
        Ok(())
    }
}

impl Panel {
    /// Returns the chart as SVG.
    ///
    /// # Errors
    /// Returns the drawing library's error as text.
    pub fn svg(&self) -> Result<String, String> {
        let mut text = String::new();
        self.draw(&mut text).map_err(|e| e.to_string())?;
        Ok(text)
    }

    /// Returns the entries of the legend: several lines, and the paper's marks.
    fn named(&self) -> Vec<(&str, RGBColor)> {
        let mut all = Vec::new();
        if self.lines.len() > 1 {
            let colours = SERIES.iter().cycle();
            all.extend(self.lines.iter().zip(colours).map(|(l, c)| (l.label.as_str(), *c)));
        }
        if self.lines.iter().any(|l| !l.paper.is_empty()) {
            all.push(("printed by the paper", TEXT_COLOUR));
        }
        if self.lines.iter().any(|l| !l.shown.is_empty()) {
            all.push(("worked out from its text", GRID_COLOUR));
        }
        all
    }

    /// Returns a file name.
    pub fn file_name(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        let name: String = self.title.chars().map(plain).collect();
        let words: Vec<&str> = name.split('-').filter(|w| !w.is_empty()).collect();
        format!("{}.svg", words.join("-").chars().take(80).collect::<String>())
    }

    fn draw(&self, text: &mut String) -> Result<(), Box<dyn std::error::Error>> {
        // The names of the lines have separate space, where they hide nothing.
        let named = self.named();
        let names = legend(named.iter().map(|(name, _)| *name));
        let below = NAMES_ROW_HEIGHT_PX * names.last().map_or(0, |e| e.row + 1);
        let whole = SVGBackend::with_string(text, (SIZE.0, SIZE.1 + below)).into_drawing_area();
        whole.fill(&WHITE)?;
        let (root, rest) = whole.split_vertically(SIZE.1);
        for (entry, (name, colour)) in names.iter().zip(&named) {
            entry.draw(&rest, *colour, name)?;
        }
        let all =
            || self.lines.iter().flat_map(|l| l.points.iter().chain(&l.paper).chain(&l.shown));
        let top = all().map(|p| p.1).fold(0.0, f64::max) * 1.08;
        let top = if top > 0.0 { top } else { 1.0 };
        let bars = !self.groups.is_empty();
        let (from, to) = if bars {
            (-0.5, self.groups.len() as f64 - 0.5)
        } else {
            let from = all().map(|p| p.0).fold(f64::INFINITY, f64::min);
            let to = all().map(|p| p.0).fold(f64::NEG_INFINITY, f64::max);
            if from < to { (from, to) } else { (from - 1.0, from + 1.0) }
        };
        let mut chart = ChartBuilder::on(&root)
            .caption(&self.title, ("sans-serif", 15).into_font().color(&TEXT_COLOUR))
            .margin(8)
            .margin_right(20)
            .x_label_area_size(40)
            .y_label_area_size(52)
            .build_cartesian_2d(from..to, self.bottom..top)?;
        let label = |x: &f64| {
            let near = x.round();
            let group =
                self.groups.get(near as usize).filter(|_| near >= 0.0 && (x - near).abs() < 0.2);
            group.map_or(String::new(), |g| shorten(g, 120 / self.groups.len().max(1)))
        };
        let number = |v: &f64| format!("{}", (v * 1000.0).round() / 1000.0);
        let mut mesh = chart.configure_mesh();
        mesh.light_line_style(WHITE)
            .bold_line_style(GRID_COLOUR)
            .axis_style(TEXT_COLOUR.mix(0.4))
            .label_style(("sans-serif", 12).into_font().color(&TEXT_COLOUR))
            .axis_desc_style(("sans-serif", 12).into_font().color(&TEXT_COLOUR))
            .x_desc(&self.x)
            .y_desc(&self.y)
            .y_label_formatter(&number);
        if bars {
            mesh.disable_x_mesh().x_labels(0).x_label_formatter(&label).draw()?;
        } else {
            mesh.x_label_formatter(&number).draw()?;
        }
        let width = 0.8 / self.lines.len().max(1) as f64;
        for (k, line) in self.lines.iter().enumerate() {
            let colour = SERIES[k % SERIES.len()];
            let shift = |x: f64| if bars { x - 0.4 + (k as f64 + 0.5) * width } else { x };
            if bars {
                let bar = |&(x, y): &(f64, f64)| {
                    let middle = shift(x);
                    let corners = [(middle - 0.45 * width, 0.0), (middle + 0.45 * width, y)];
                    Rectangle::new(corners, colour.filled())
                };
                chart.draw_series(line.points.iter().map(bar))?;
            } else {
                let points = line.points.iter().copied();
                chart.draw_series(LineSeries::new(points, colour.stroke_width(2)))?;
                if let [mark] = line.points[..] {
                    chart.draw_series([Circle::new(mark, 5, colour.filled())])?;
                }
            }
            let whiskers = line.points.iter().zip(&line.around).filter_map(|(&(x, y), ci)| {
                let ci = (*ci)?;
                let x = shift(x);
                Some(PathElement::new(
                    [(x, (y - ci).max(self.bottom)), (x, (y + ci).min(top))],
                    TEXT_COLOUR.mix(0.7),
                ))
            });
            chart.draw_series(whiskers)?;
            for (theirs, colour) in
                [(&line.paper, TEXT_COLOUR.mix(1.0)), (&line.shown, TEXT_COLOUR.mix(0.4))]
            {
                if bars {
                    let tick = |&(x, y): &(f64, f64)| {
                        let middle = shift(x);
                        let ends = [(middle - 0.5 * width, y), (middle + 0.5 * width, y)];
                        PathElement::new(ends, colour.stroke_width(3))
                    };
                    chart.draw_series(theirs.iter().map(tick))?;
                } else {
                    let mark = |&p: &(f64, f64)| Circle::new(p, 4, colour.stroke_width(2));
                    chart.draw_series(theirs.iter().map(mark))?;
                }
            }
        }
        if bars {
            self.group_labels(&root, &chart, top)?;
        }
        drop(chart);
        whole.present()?;
        Ok(())
    }

    /// Draws the names below groups of bars, in two lines if they are long.
    fn group_labels<DB: DrawingBackend>(
        &self,
        root: &DrawingArea<DB, plotters::coord::Shift>,
        chart: &ChartContext<
            '_,
            DB,
            Cartesian2d<
                plotters::coord::types::RangedCoordf64,
                plotters::coord::types::RangedCoordf64,
            >,
        >,
        _top: f64,
    ) -> Result<(), Box<dyn std::error::Error>>
    where
        DB::ErrorType: 'static,
    {
        let style = ("sans-serif", 12)
            .into_font()
            .color(&TEXT_COLOUR)
            .pos(Pos::new(HPos::Center, VPos::Top));
        let room = 100 / self.groups.len().max(1);
        for (i, group) in self.groups.iter().enumerate() {
            let (x, y) = chart.backend_coord(&(i as f64, 0.0));
            for (k, part) in wrap(group, room.max(6)).into_iter().take(3).enumerate() {
                root.draw_text(&part, &style, (x, y + 5 + 12 * k as i32))?;
            }
        }
        Ok(())
    }
}

fn shorten(text: &str, most: usize) -> String {
    if text.chars().count() <= most { text.to_owned() } else { text.chars().take(most).collect() }
}

/// Breaks a label at spaces.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(l) if l.chars().count() + 1 + word.chars().count() <= width => {
                l.push(' ');
                l.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns nine lines that fill the upper left corner, as in Jamshaid's Fig. 3.2.
    fn panel(lines: usize) -> Panel {
        let line = |k: usize| Line {
            label: format!("node {k}, goodput"),
            points: (0..10).map(|x| (f64::from(x), 10.0 - 0.1 * k as f64)).collect(),
            around: vec![None; 10],
            ..Line::default()
        };
        Panel {
            title: "t".into(),
            x: "x".into(),
            y: "y".into(),
            lines: (0..lines).map(line).collect(),
            ..Panel::default()
        }
    }

    /// Returns the height of every text that contains `word`.
    fn heights(svg: &str, word: &str) -> Vec<f64> {
        let texts = svg.split("<text ").skip(1).filter(|t| t.contains(word));
        let y = |t: &str| t.split(" y=\"").nth(1)?.split('"').next()?.parse().ok();
        texts.map(|t| y(t).unwrap()).collect()
    }

    #[test]
    fn names_stand_below_the_picture_and_hide_no_curve() {
        let svg = panel(9).svg().unwrap();
        let names = heights(&svg, "node ");
        assert_eq!(names.len(), 9);
        assert!(names.iter().all(|y| *y >= f64::from(SIZE.1)), "{names:?}");
        let height = names.iter().copied().fold(0.0, f64::max) + 8.0;
        let whole = svg.split("height=\"").nth(1).unwrap().split('"').next().unwrap();
        assert!(whole.parse::<f64>().unwrap() >= height, "{whole} {height}");
        assert!(heights(&panel(1).svg().unwrap(), "node ").is_empty());
    }

    #[test]
    fn rows_of_names_do_not_overlap() {
        let names = ["a", "a rather long name of a line indeed", "b", "another long name", "c"];
        let all: Vec<&str> = names.into_iter().cycle().take(20).collect();
        let places = legend(all.iter().copied());
        for (pair, name) in places.windows(2).zip(&all) {
            let end = pair[0].x
                + NAME_WIDTHS_PX.0
                + (NAME_WIDTHS_PX.1 * name.chars().count() as f64) as u32;
            assert!(pair[1].row > pair[0].row || pair[1].x >= end, "{pair:?}");
            assert!(end <= SIZE.0);
        }
        assert!(places.last().unwrap().row > 1);
    }
}
