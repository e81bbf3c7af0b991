//! The picture of controls: fairness over utilisation, a panel per group of topologies.
//!
//! Each control is a point. Its colour shows the place of deployment, its size the airtime of its
//! signalling; a hollow point is a control that receives the fair rates. Names are placed without
//! overlap.

use fairmesh_report::palette::{ACCENT, GRID_COLOUR, SERIES, TEXT_COLOUR};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::answers::{Row, rows};
use super::view::View;
use crate::reproduce::registry::Deployment;

const WIDTH: u32 = 1000;
const PANEL: u32 = 470;
const LEGEND: u32 = 92;
/// Size of names; the drawing library renders it as 11 px.
const NAME_SIZE: i32 = 14;
/// Width of a character and height of a line of names, px.
const CHARACTER_WIDTH_PX: f64 = 6.6;
const LINE_HEIGHT_PX: f64 = 12.0;

fn colour(d: Deployment) -> RGBColor {
    match d {
        Deployment::Nowhere => SERIES[7],
        Deployment::Gateway => SERIES[0],
        Deployment::Neighbours => SERIES[4],
        Deployment::Sources => SERIES[2],
        Deployment::Everywhere => ACCENT,
    }
}

/// Returns the radius of a point, by the airtime of signalling in ms per second.
fn radius(airtime_ms: f64) -> f64 {
    (3.5 + 1.6 * airtime_ms.max(0.0).sqrt()).min(16.0)
}

/// Returns the picture as SVG.
///
/// # Errors
/// Returns the drawing library's error as text.
pub(super) fn svg(view: &View<'_>) -> Result<String, String> {
    let mut text = String::new();
    draw(view, &mut text).map_err(|e| e.to_string())?;
    Ok(text)
}

type Failure = Box<dyn std::error::Error>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn draw(view: &View<'_>, text: &mut String) -> Result<(), Failure> {
    let groups = view.families();
    let height = LEGEND + PANEL * groups.len().max(1) as u32;
    let root = SVGBackend::with_string(text, (WIDTH, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let (top, rest) = root.split_vertically(LEGEND);
    legend(&top)?;
    for (area, group) in rest.split_evenly((groups.len().max(1), 1)).iter().zip(&groups) {
        panel(area, view, group)?;
    }
    root.present()?;
    Ok(())
}

fn legend(area: &Area<'_>) -> Result<(), Failure> {
    let font = ("sans-serif", 16).into_font().color(&TEXT_COLOUR);
    let left = font.clone().pos(Pos::new(HPos::Left, VPos::Center));
    let mut x = 20;
    area.draw_text("deployed at", &left, (x, 20))?;
    x += 100;
    for d in Deployment::ALL {
        area.draw(&Circle::new((x, 20), 6, colour(d).filled()))?;
        area.draw_text(d.words(), &left, (x + 12, 20))?;
        x += 34 + (7.6 * d.words().chars().count() as f64) as i32;
    }
    let mut x = 20;
    area.draw_text("airtime of signalling", &left, (x, 50))?;
    x += 165;
    for (ms, words) in [(0.0, "none"), (1.0, "1 ms/s"), (10.0, "10 ms/s"), (50.0, "50 ms/s")] {
        let r = radius(ms);
        area.draw(&Circle::new((x, 50), r as i32, TEXT_COLOUR.mix(0.5).filled()))?;
        area.draw_text(words, &left, (x + r as i32 + 6, 50))?;
        x += 92;
    }
    area.draw(&Circle::new((x + 4, 50), 5, TEXT_COLOUR.stroke_width(2)))?;
    area.draw_text("hollow: has the fair rates as input", &left, (x + 16, 50))?;
    area.draw_text(
        "up: fairer; right: faster; dashed line: utilisation of the max-min rates; bars: 95 % interval over seeds",
        &left,
        (20, 78),
    )?;
    Ok(())
}

/// A control in a panel.
struct Point {
    row: Row,
    /// Utilisation and fairness.
    at: (f64, f64),
    /// Half of their intervals.
    around: (f64, f64),
    radius: f64,
}

fn points(view: &View<'_>, family: &str) -> Vec<Point> {
    let point = |row: Row| {
        let (u, j) = (row.utilization, row.jain);
        Point {
            at: (u.mean, j.mean),
            around: (u.half_width(), j.half_width()),
            radius: radius(row.airtime_ms.mean),
            row,
        }
    };
    rows(view, family).into_iter().map(point).collect()
}

/// Returns an axis that contains all values and ends on a tenth.
fn range(values: impl Iterator<Item = f64>, most: f64) -> (f64, f64) {
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for v in values {
        low = low.min(v);
        high = high.max(v);
    }
    if low > high {
        return (0.0, 1.0);
    }
    let low = ((low - 0.02) * 10.0).floor() / 10.0;
    let high = ((high + 0.02) * 10.0).ceil() / 10.0;
    (low.max(0.0), high.min(most).max(low.max(0.0) + 0.1))
}

fn panel(area: &Area<'_>, view: &View<'_>, family: &str) -> Result<(), Failure> {
    let points = points(view, family);
    let x = range(points.iter().map(|p| p.at.0).chain([1.0]), f64::INFINITY);
    // Space above 1 for the points on it.
    let y = range(points.iter().map(|p| p.at.1), 1.02);
    let y = (y.0, y.1.max(1.02));
    let ran = view.topologies(family).len();
    let plural = if ran == 1 { "topology" } else { "topologies" };
    let title = format!("{}: mean over {ran} {plural}", family);
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 20).into_font().color(&TEXT_COLOUR))
        .margin(8)
        .margin_right(24)
        .x_label_area_size(40)
        .y_label_area_size(56)
        .build_cartesian_2d(x.0..x.1, y.0..y.1)?;
    let number = |v: &f64| format!("{}", (v * 1000.0).round() / 1000.0);
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(GRID_COLOUR)
        .axis_style(TEXT_COLOUR.mix(0.4))
        .label_style(("sans-serif", 15).into_font().color(&TEXT_COLOUR))
        .axis_desc_style(("sans-serif", 16).into_font().color(&TEXT_COLOUR))
        .x_desc("utilisation over that of the fair rates")
        .y_desc("Jain's index of goodput over fair rate")
        .x_label_formatter(&number)
        .y_label_formatter(&number)
        .draw()?;
    chart.draw_series(DashedLineSeries::new(
        [(1.0, y.0), (1.0, y.1)],
        4,
        4,
        TEXT_COLOUR.mix(0.35).stroke_width(1),
    ))?;
    for p in &points {
        let line = colour(p.row.facts.deployment).mix(0.5).stroke_width(1);
        let (u, j) = p.at;
        let across = [((u - p.around.0).max(x.0), j), ((u + p.around.0).min(x.1), j)];
        let along = [(u, (j - p.around.1).max(y.0)), (u, (j + p.around.1).min(y.1))];
        chart.draw_series([PathElement::new(across, line), PathElement::new(along, line)])?;
    }
    // Large points first, so that no point is hidden.
    let mut order: Vec<&Point> = points.iter().collect();
    order.sort_by(|a, b| b.radius.total_cmp(&a.radius).then(a.row.name.cmp(&b.row.name)));
    for p in &order {
        let (c, r) = (colour(p.row.facts.deployment), p.radius as i32);
        if p.row.facts.knows_fair_rates {
            chart.draw_series([Circle::new(p.at, r, WHITE.filled())])?;
            chart.draw_series([Circle::new(p.at, r, c.stroke_width(2))])?;
        } else {
            chart.draw_series([Circle::new(p.at, r, c.mix(0.85).filled())])?;
        }
    }
    let place = |p: &Point| {
        let (px, py) = chart.backend_coord(&p.at);
        (f64::from(px), f64::from(py))
    };
    let (left, top) = chart.backend_coord(&(x.0, y.1));
    let (right, bottom) = chart.backend_coord(&(x.1, y.0));
    let frame = Box2 {
        left: f64::from(left) + 2.0,
        top: f64::from(top) + 2.0,
        right: f64::from(right) - 2.0,
        bottom: f64::from(bottom) - 2.0,
    };
    let marks: Vec<(f64, f64, f64)> = points
        .iter()
        .map(|p| {
            let (px, py) = place(p);
            (px, py, p.radius)
        })
        .collect();
    let names: Vec<&str> = points.iter().map(|p| p.row.name.as_str()).collect();
    // Names are placed in pixels of the whole picture; this panel has an offset.
    let (ox, oy) = area.get_base_pixel();
    for (p, (spot, mark)) in points.iter().zip(labels(&names, &marks, frame).iter().zip(&marks)) {
        let c = colour(p.row.facts.deployment);
        let style =
            ("sans-serif", NAME_SIZE).into_font().color(&c).pos(Pos::new(HPos::Left, VPos::Center));
        let here = |x: f64, y: f64| (x as i32 - ox, y as i32 - oy);
        if spot.far {
            let end = spot.nearest(mark.0, mark.1);
            let ends = [here(mark.0, mark.1), here(end.0, end.1)];
            area.draw(&PathElement::new(ends, c.mix(0.4).stroke_width(1)))?;
        }
        area.draw_text(
            &p.row.name,
            &style,
            here(spot.at.left, (spot.at.top + spot.at.bottom) / 2.0),
        )?;
    }
    Ok(())
}

/// A rectangle in pixels.
#[derive(Clone, Copy, Debug)]
struct Box2 {
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
}

impl Box2 {
    fn meets(&self, o: &Box2) -> bool {
        self.left < o.right && o.left < self.right && self.top < o.bottom && o.top < self.bottom
    }

    fn inside(&self, o: &Box2) -> bool {
        self.left >= o.left && self.right <= o.right && self.top >= o.top && self.bottom <= o.bottom
    }
}

/// Position of a name.
#[derive(Clone, Copy, Debug)]
struct NamePosition {
    at: Box2,
    /// True if a line must lead to the name.
    far: bool,
}

impl NamePosition {
    /// Returns the point of its rectangle that is nearest to a mark.
    fn nearest(&self, x: f64, y: f64) -> (f64, f64) {
        (x.clamp(self.at.left, self.at.right), y.clamp(self.at.top, self.at.bottom))
    }
}

/// Returns places for names, beside their marks or further away.
///
/// They overlap no mark and no other name.
fn labels(names: &[&str], marks: &[(f64, f64, f64)], frame: Box2) -> Vec<NamePosition> {
    let mut taken: Vec<Box2> = marks
        .iter()
        .map(|&(x, y, r)| Box2 { left: x - r, top: y - r, right: x + r, bottom: y + r })
        .collect();
    let mut spots = Vec::new();
    for (name, &(x, y, r)) in names.iter().zip(marks) {
        let size = (CHARACTER_WIDTH_PX * name.chars().count() as f64 + 2.0, LINE_HEIGHT_PX);
        let free = |b: &Box2| b.inside(&frame) && !taken.iter().any(|t| t.meets(b));
        let spot = candidates(x, y, r, size).find(|s| free(&s.at));
        // Without free space: beside the mark, with an overlap.
        let spot = spot.unwrap_or(NamePosition { at: beside(x + r + 3.0, y, size), far: false });
        taken.push(spot.at);
        spots.push(spot);
    }
    spots
}

fn beside(left: f64, middle: f64, size: (f64, f64)) -> Box2 {
    Box2 { left, top: middle - size.1 / 2.0, right: left + size.0, bottom: middle + size.1 / 2.0 }
}

/// Returns places to the right, left, above and below, then around in growing circles.
fn candidates(x: f64, y: f64, r: f64, size: (f64, f64)) -> impl Iterator<Item = NamePosition> {
    let gap = r + 3.0;
    let near = [
        (x + gap, y),
        (x - gap - size.0, y),
        (x - size.0 / 2.0, y - gap - size.1 / 2.0),
        (x - size.0 / 2.0, y + gap + size.1 / 2.0),
    ];
    let near = near.map(|(l, m)| NamePosition { at: beside(l, m, size), far: false });
    let far = (1..40).flat_map(move |ring| {
        let out = gap + 7.0 * f64::from(ring);
        (0..24).map(move |k| {
            let angle = f64::from(k) * std::f64::consts::TAU / 24.0;
            let (cx, cy) = (x + out * angle.cos(), y + out * angle.sin());
            let left = if angle.cos() >= 0.0 { cx } else { cx - size.0 };
            NamePosition { at: beside(left, cy, size), far: true }
        })
    });
    near.into_iter().chain(far)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_overlap_nothing() {
        let frame = Box2 { left: 0.0, top: 0.0, right: 900.0, bottom: 400.0 };
        let names: Vec<String> = (0..40).map(|i| format!("control+{i}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        // All points in one corner.
        let marks: Vec<(f64, f64, f64)> =
            (0..40).map(|i| (800.0 + f64::from(i % 7), 20.0 + f64::from(i), 4.0)).collect();
        let spots = labels(&names, &marks, frame);
        for (i, s) in spots.iter().enumerate() {
            assert!(s.at.inside(&frame), "{s:?}");
            assert!(spots[..i].iter().all(|o| !o.at.meets(&s.at)), "{i}");
        }
    }

    #[test]
    fn axes_hold_everything() {
        assert_eq!(range([0.53, 1.27].into_iter(), 9.0), (0.5, 1.3));
        assert_eq!(range([].into_iter(), 9.0), (0.0, 1.0));
        let (low, high) = range([0.97, 1.0].into_iter(), 1.02);
        assert!(low <= 0.95 && (1.0..=1.02).contains(&high));
    }

    #[test]
    fn dearer_is_larger() {
        assert!(radius(0.0) < radius(1.0) && radius(1.0) < radius(10.0));
        assert!(radius(1e9) <= 16.0);
    }
}
