//! Phase pictures of GAP's fluid model.
//!
//! They show the direction field over limit and multi-hop backlog, paths through it, and their
//! ends.

use fairmesh_lab::analysis::gap::Case;
use fairmesh_lab::models::gap::trajectory::State;
use fairmesh_lab::models::gap::{Gap, Stability, phase};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::palette::{ACCENT, GRID_COLOUR, SECONDARY_COLOUR, SERIES, TEXT_COLOUR};

const FIELD_COLOUR: RGBColor = SECONDARY_COLOUR;
const PATH_COLOUR: RGBColor = SERIES[0];
const EQUILIBRIUM_COLOUR: RGBColor = ACCENT;
const SIZE: (u32, u32) = (1000, 800);
const LEGEND_HEIGHT: u32 = 40;
/// End of the backlog axis, as the time in which the whole gateway transmits the backlog, s.
const LONGEST_DRAIN_S: f64 = 0.6;
/// Duration of paths, in s.
const PATH_DURATION_S: f64 = 20.0;
/// Integration step of paths, in s.
const INTEGRATION_STEP_S: f64 = 0.01;

type Failure = Box<dyn std::error::Error>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws the picture, a panel per case.
///
/// # Errors
/// Returns the drawing library's error as text.
pub(super) fn svg(gap: &Gap, cases: &[Case]) -> Result<String, String> {
    let mut text = String::new();
    draw(gap, cases, &mut text).map_err(|e| e.to_string())?;
    Ok(text)
}

fn draw(gap: &Gap, cases: &[Case], text: &mut String) -> Result<(), Failure> {
    let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let (top, rest) = root.split_vertically(LEGEND_HEIGHT);
    legend(&top)?;
    for (area, case) in rest.split_evenly((cases.len().div_ceil(2), 2)).iter().zip(cases) {
        panel(area, gap, case)?;
    }
    root.present()?;
    Ok(())
}

fn legend(area: &Area<'_>) -> Result<(), Failure> {
    let left =
        ("sans-serif", 15).into_font().color(&TEXT_COLOUR).pos(Pos::new(HPos::Left, VPos::Center));
    area.draw(&Circle::new((24, 20), 5, EQUILIBRIUM_COLOUR.filled()))?;
    area.draw_text("rests, stable", &left, (36, 20))?;
    area.draw(&PathElement::new([(150, 20), (180, 20)], EQUILIBRIUM_COLOUR.stroke_width(4)))?;
    area.draw_text("rests wherever it is here: the limit does not bind", &left, (188, 20))?;
    area.draw(&PathElement::new([(545, 20), (575, 20)], PATH_COLOUR.stroke_width(2)))?;
    area.draw_text("paths", &left, (583, 20))?;
    area.draw_text("dashed: U_S* and (1 − γ) U*", &left, (660, 20))?;
    Ok(())
}

fn panel(area: &Area<'_>, gap: &Gap, case: &Case) -> Result<(), Failure> {
    let kbit = |v: f64| v / 1e3;
    let most = LONGEST_DRAIN_S * gap.capacity();
    // Some space below the empty queue and around the limits.
    let (x0, x1) = (kbit(0.92 * gap.guarantee()), kbit(1.02 * gap.capacity()));
    let (y0, y1) = (kbit(-0.04 * most), kbit(1.02 * most));
    let demand = |v: f64| if v.is_finite() { format!("{:.0}", v / 1e3) } else { "∞".to_owned() };
    let title = format!(
        "{}: λ_S {}, λ_M {} kbit/s",
        case.regime,
        demand(case.load().single),
        demand(case.load().multi)
    );
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 18).into_font().color(&TEXT_COLOUR))
        .margin(8)
        .margin_right(18)
        .x_label_area_size(40)
        .y_label_area_size(56)
        .build_cartesian_2d(x0..x1, y0..y1)?;
    let number = |v: &f64| format!("{}", v.round());
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(GRID_COLOUR)
        .axis_style(TEXT_COLOUR.mix(0.4))
        .label_style(("sans-serif", 14).into_font().color(&TEXT_COLOUR))
        .axis_desc_style(("sans-serif", 14).into_font().color(&TEXT_COLOUR))
        .x_desc("limit R_S, kbit/s")
        .y_desc("multi-hop backlog q_M, kbit")
        .x_label_formatter(&number)
        .y_label_formatter(&number)
        .draw()?;
    for x in [gap.guarantee(), gap.threshold()] {
        let line = [(kbit(x), y0), (kbit(x), y1)];
        chart.draw_series(DashedLineSeries::new(
            line,
            4,
            4,
            TEXT_COLOUR.mix(0.45).stroke_width(1),
        ))?;
    }
    // Arrows have equal lengths: they show the direction, not the speed.
    let (width, height) = (x1 - x0, y1 - y0);
    for a in phase::field(gap, case.load(), most, 15, 10) {
        let to = (kbit(a.slope.limit) / width, kbit(a.slope.backlog) / height);
        // An empty queue cannot shrink.
        let to = if a.at.backlog == 0.0 { (to.0, to.1.max(0.0)) } else { to };
        let length = to.0.hypot(to.1);
        if length < 1e-9 {
            continue;
        }
        let at = (kbit(a.at.limit), kbit(a.at.backlog));
        let step = |part: f64, turn: f64| {
            let (sin, cos) = turn.sin_cos();
            // Scaled by the ratio of the panel's sides, 1.3 to 1.
            let (dx, dy) = (to.0 / length * 1.3, to.1 / length);
            let (tx, ty) = (dx * cos - dy * sin, dx * sin + dy * cos);
            (tx / 1.3 * part * width, ty * part * height)
        };
        let tip = (at.0 + step(0.03, 0.0).0, at.1 + step(0.03, 0.0).1);
        let barb = |turn: f64| {
            let (dx, dy) = step(-0.012, turn);
            (tip.0 + dx, tip.1 + dy)
        };
        let arrow = [at, tip, barb(0.5), tip, barb(-0.5)];
        chart.draw_series([PathElement::new(arrow, FIELD_COLOUR.stroke_width(1))])?;
    }
    for start in starts(gap, most) {
        let waiting = if case.load().single > start.limit { f64::MAX / 4.0 } else { 0.0 };
        let path = gap.follow(
            State { waiting, ..start },
            &[(PATH_DURATION_S, case.load())],
            INTEGRATION_STEP_S,
        );
        let mut points: Vec<(f64, f64)> = Vec::new();
        for m in &path {
            let p = (kbit(m.state.limit), kbit(m.state.backlog));
            if p.1 > y1 {
                break;
            }
            if points.last().is_none_or(|l| (l.0 - p.0).hypot(l.1 - p.1) > 0.002 * width) {
                points.push(p);
            }
        }
        chart.draw_series([PathElement::new(points, PATH_COLOUR.stroke_width(2))])?;
        let at = (kbit(start.limit), kbit(start.backlog));
        chart.draw_series([Circle::new(at, 3, PATH_COLOUR.filled())])?;
    }
    let rest = kbit(case.rest().limit);
    if case.rest().above == Stability::Neutral {
        let line = [(rest, 0.0), (kbit(gap.capacity()), 0.0)];
        chart.draw_series([PathElement::new(line, EQUILIBRIUM_COLOUR.stroke_width(4))])?;
    }
    chart.draw_series([Circle::new((rest, 0.0), 6, EQUILIBRIUM_COLOUR.filled())])?;
    Ok(())
}

/// Returns the starts of paths: the corners of the drawn area, and points between them.
fn starts(gap: &Gap, most: f64) -> Vec<State> {
    let at = |part: f64, backlog: f64| State {
        limit: gap.guarantee() + part * gap.multi_share(),
        waiting: 0.0,
        backlog: backlog * most,
    };
    vec![at(0.0, 0.5), at(0.0, 0.95), at(0.35, 0.7), at(0.7, 0.95), at(1.0, 0.0), at(1.0, 0.5)]
}
