//! The table of a sweep, and its first figure.

use fairmesh_lab::frame::measures;
use fairmesh_lab::summary::{OURS_NOTE, marked};
use fairmesh_lab::sweep::summary::{Figure, Line, Summary};
use plotters::prelude::*;
use serde_json::Value;

use crate::palette::{GRID_COLOUR, SERIES, TEXT_COLOUR};
use crate::table;

const SIZE: (u32, u32) = (720, 440);
type Failure = Box<dyn std::error::Error>;

/// Formats the sweep as a text table of its first rows.
pub fn text(s: &Summary) -> String {
    let mut header: Vec<&str> = s.keys.iter().map(String::as_str).collect();
    header.push("control");
    if s.adaptive {
        header.push("seeds");
    }
    header.extend(["sum kbit/s", "Jain normalised", "min/fair", "max/fair", "utilisation ratio"]);
    let mut t = table::table(&header);
    for r in &s.results {
        // The map has its keys in their own order.
        let value = |key: &String| r.point.get(key).and_then(Value::as_str);
        let point = s.keys.iter().map(|k| value(k).unwrap_or_default().to_owned());
        let seeds = s.adaptive.then(|| r.seeds.to_string());
        let measures = [
            r.sum_goodput_bps.show(1e-3, 1),
            table::estimate(r.jain_normalized, 3),
            table::estimate(r.min_over_fair, 3),
            table::estimate(r.max_over_fair, 2),
            table::estimate(r.utilization_ratio, 3),
        ];
        let control = std::iter::once(marked(&r.control, r.ours));
        table::row(&mut t, point.chain(control).chain(seeds).chain(measures));
    }
    let more = match s.rows - s.results.len() {
        0 => String::new(),
        more => format!("{more} more rows are in sweep.json\n"),
    };
    let note = match s.results.iter().any(|r| r.ours) {
        true => format!("{OURS_NOTE}\n"),
        false => String::new(),
    };
    let most = if s.adaptive { "at most " } else { "" };
    format!("{}: {most}{} seeds per point\n\n{t}\n{more}{note}", s.scenario, s.seeds)
}

/// Draws the first figure as SVG: a line per control, or the distribution over all points.
///
/// # Errors
/// Returns the drawing library's error as text.
pub fn figure(f: &Figure) -> Result<String, String> {
    let mut text = String::new();
    draw(f, &mut text).map_err(|e| e.to_string())?;
    Ok(text)
}

/// Returns the title of an axis and the factor of its numbers.
fn axis(measure: &str) -> (String, f64) {
    let (unit, scale) = match measures::find(measure).map_or("", |m| m.unit) {
        "bit/s" => ("kbit/s", 1e-3),
        unit => (unit, 1.0),
    };
    let name = measure.trim_end_matches("_bps").replace('_', " ");
    (if unit.is_empty() { name } else { format!("{name}, {unit}") }, scale)
}

/// Returns the points of a line: place, value and half-width of its interval.
fn points(line: &Line, distribution: bool, scale: f64) -> Vec<(f64, f64, f64)> {
    let n = line.values.len() as f64;
    let point = |(i, e): (usize, &Option<fairmesh_lab::Estimate>)| {
        let e = e.as_ref()?.scaled(scale);
        Some(match distribution {
            true => (e.mean, (i + 1) as f64 / n, 0.0),
            false => (i as f64, e.mean, e.half_width()),
        })
    };
    let all: Vec<_> = line.values.iter().enumerate().filter_map(point).collect();
    // A distribution of many points is a line through a thousand of them.
    let step = if distribution { all.len().div_ceil(1000).max(1) } else { 1 };
    let last = all.len().saturating_sub(1);
    let kept = all.iter().enumerate().filter(|(i, _)| i % step == 0 || *i == last);
    kept.map(|(_, p)| *p).collect()
}

fn draw(f: &Figure, text: &mut String) -> Result<(), Failure> {
    let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let (title, scale) = axis(f.measure);
    let distribution = f.key.is_none();
    let lines: Vec<_> = f.lines.iter().map(|l| points(l, distribution, scale)).collect();
    let all = || lines.iter().flatten();
    let most = |values: &mut dyn Iterator<Item = f64>| {
        let most = values.fold(0.0, f64::max);
        if most > 0.0 { 1.05 * most } else { 1.0 }
    };
    let (x, y) = match distribution {
        true => (0.0..most(&mut all().map(|p| p.0)), 0.0..1.02),
        false => {
            let x = -0.3..f.labels.len() as f64 - 0.7;
            // A wide interval (two seeds) must not squeeze the lines; it is cut instead.
            (x, 0.0..most(&mut all().map(|p| p.1 + p.2.min(0.5 * p.1))))
        }
    };
    let mut chart = ChartBuilder::on(&root)
        .margin(12)
        .margin_right(24)
        .x_label_area_size(48)
        .y_label_area_size(64)
        .build_cartesian_2d(x, y.clone())?;
    let style = |size: u32| ("sans-serif", size).into_font().color(&TEXT_COLOUR);
    let place = |x: &f64| match distribution {
        true => short(*x),
        // Only whole numbers are places.
        false if (x - x.round()).abs() > 1e-6 => String::new(),
        false => f.labels.get(x.round() as usize).cloned().unwrap_or_default(),
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(WHITE)
        .bold_line_style(GRID_COLOUR)
        .axis_style(TEXT_COLOUR.mix(0.4))
        .label_style(style(14))
        .axis_desc_style(style(15))
        .x_labels(if distribution { 8 } else { f.labels.len() + 1 })
        .x_label_formatter(&place)
        .y_label_formatter(&|y| short(*y))
        .x_desc(f.key.as_deref().unwrap_or(&title))
        .y_desc(if distribution { "fraction of points" } else { &title })
        .draw()?;
    for (i, (line, points)) in f.lines.iter().zip(&lines).enumerate() {
        let colour = SERIES[i % SERIES.len()];
        let path = points.iter().map(|p| (p.0, p.1)).collect::<Vec<_>>();
        let stroke = colour.stroke_width(2);
        // Dashes distinguish lines in black and white.
        let legend = move |(x, y): (i32, i32)| PathElement::new([(x, y), (x + 24, y)], stroke);
        match i {
            0 => chart.draw_series(LineSeries::new(path, stroke))?,
            _ => {
                let dash = 12 / i.min(4) as i32;
                chart.draw_series(DashedLineSeries::new(path, dash, 3 + i as i32, stroke))?
            }
        }
        .label(&line.name)
        .legend(legend);
        if distribution {
            continue;
        }
        for &(x, mean, half) in points {
            let side = 3 + 2 * (i as i32 % 3);
            chart.draw_series([Circle::new((x, mean), side, colour.filled())])?;
            let (low, high) = ((mean - half).max(y.start), (mean + half).min(y.end));
            if half > 0.0 {
                let whisker = [(x, low), (x, high)];
                chart.draw_series([PathElement::new(whisker, colour.stroke_width(1))])?;
            }
        }
    }
    chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.8))
        .label_font(style(14))
        .draw()?;
    root.present()?;
    Ok(())
}

/// Returns a number with at most four digits.
fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use fairmesh_lab::Estimate;

    use super::*;

    fn drawn(key: Option<&str>, values: usize) -> String {
        let value = |i: usize| Some(Estimate { mean: i as f64 / values as f64, ci95: Some(0.1) });
        let line =
            |name: &str| Line { name: name.into(), values: (0..values).map(value).collect() };
        figure(&Figure {
            measure: "min_over_fair",
            key: key.map(str::to_owned),
            labels: (0..if key.is_some() { values } else { 0 }).map(|i| format!("v{i}")).collect(),
            lines: vec![line("fifo"), line("source")],
        })
        .unwrap()
    }

    #[test]
    fn a_figure_names_the_key_its_values_the_measure_and_the_controls() {
        let svg = drawn(Some("radio.rts"), 3);
        for text in ["radio.rts", "v0", "v1", "v2", "min over fair", "fifo", "source"] {
            assert!(svg.contains(&format!("\n{text}\n")), "{text}: {svg}");
        }
        assert_eq!(svg.matches("<circle").count(), 6);
    }

    #[test]
    fn a_distribution_of_many_points_is_a_small_picture() {
        let svg = drawn(None, 100_000);
        assert!(svg.contains("fraction of points") && svg.len() < 120_000, "{}", svg.len());
    }
}
