//! The picture of cases: a square per case and topology, coloured by the worst flow.

use std::fmt::Write as _;

use fairmesh_report::palette::{SECONDARY_COLOUR, SERIES, TEXT_COLOUR};
use plotters::style::RGBColor;

use super::view::View;

/// Fraction of the mean below which a flow starves.
const STARVATION_FRACTION: f64 = 0.1;

/// Left edge of the squares, px.
const SQUARES_LEFT_PX: usize = 190;
/// Width and height of a square, px.
const SQUARE_SIZE_PX: (usize, usize) = (76, 26);
/// Height of a section's heading, px.
const HEADING_HEIGHT_PX: usize = 34;
/// Height of the head of the picture, px.
const HEAD_HEIGHT_PX: usize = 150;
/// Fraction of the mean above which a flow counts as well served.
const WELL_SERVED_FRACTION: f64 = 0.5;

fn hex(c: RGBColor) -> String {
    format!("#{:02x}{:02x}{:02x}", c.0, c.1, c.2)
}

/// Returns the colour of a starving flow, one below half of the mean, or a higher one.
fn colour(worst: f64) -> RGBColor {
    if worst < STARVATION_FRACTION {
        SERIES[5]
    } else if worst < WELL_SERVED_FRACTION {
        SERIES[1]
    } else {
        SERIES[2]
    }
}

fn safe(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

/// Returns the picture as SVG.
pub(super) fn svg(view: &View<'_>) -> String {
    let (r, experiment) = (view.record, &view.entry.experiment);
    let chart = experiment.chart.as_ref().and_then(|c| c.measures.as_ref()?.first());
    let measure = chart.map_or("", String::as_str);
    let mut sections: Vec<&str> = Vec::new();
    for arm in &experiment.arms {
        if !sections.contains(&arm.section.as_str()) {
            sections.push(&arm.section);
        }
    }
    let rows = experiment.arms.len() * (SQUARE_SIZE_PX.1 + 2) + sections.len() * HEADING_HEIGHT_PX;
    let (width, height) = (
        SQUARES_LEFT_PX + r.topologies.len() * (SQUARE_SIZE_PX.0 + 2) + 20,
        HEAD_HEIGHT_PX + rows + 10,
    );
    let ink = hex(TEXT_COLOUR);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"13\" fill=\"{ink}\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n\
         <text x=\"16\" y=\"26\" font-size=\"18\">Goodput of the worst-off home, in % of an equal share</text>\n\
         <text x=\"16\" y=\"46\" fill=\"{}\">One square per network (column) and equipment (row). An equal share is the mean of all homes.</text>\n",
        hex(SECONDARY_COLOUR)
    );
    let legend = [(0.0, "below 10 %: a flow starves"), (0.2, "10 to 50 %"), (0.9, "50 % or more")];
    let mut x = 16;
    for (worst, words) in legend {
        let _ = writeln!(
            out,
            "<rect x=\"{x}\" y=\"60\" width=\"16\" height=\"16\" fill=\"{}\"/><text x=\"{}\" y=\"73\">{words}</text>",
            hex(colour(worst)),
            x + 22
        );
        x += 60 + 7 * words.chars().count();
    }
    for (t, topology) in r.topologies.iter().enumerate() {
        let (x, y) = (
            SQUARES_LEFT_PX + t * (SQUARE_SIZE_PX.0 + 2) + SQUARE_SIZE_PX.0 / 2,
            HEAD_HEIGHT_PX - 12,
        );
        // Two words are placed below each other.
        let words: Vec<&str> = topology.label.splitn(2, ' ').collect();
        for (i, word) in words.iter().enumerate() {
            let up = 16 * (words.len() - 1 - i);
            let _ = writeln!(
                out,
                "<text x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                y - up,
                safe(word)
            );
        }
    }
    let mut y = HEAD_HEIGHT_PX;
    for section in sections {
        let _ = writeln!(
            out,
            "<text x=\"16\" y=\"{}\" font-weight=\"bold\">{}</text>",
            y + HEADING_HEIGHT_PX - 10,
            safe(section)
        );
        y += HEADING_HEIGHT_PX;
        for arm in experiment.arms.iter().filter(|a| a.section == section) {
            let _ = writeln!(out, "<text x=\"16\" y=\"{}\">{}</text>", y + 18, safe(&arm.label));
            for (t, topology) in r.topologies.iter().enumerate() {
                let x = SQUARES_LEFT_PX + t * (SQUARE_SIZE_PX.0 + 2);
                let worst = view.value(&arm.label, &topology.label, measure);
                square(&mut out, x, y, worst.map(|w| w.mean));
            }
            y += SQUARE_SIZE_PX.1 + 2;
        }
    }
    out += "</svg>\n";
    out
}

fn square(out: &mut String, x: usize, y: usize, worst: Option<f64>) {
    let (fill, text, words) = match worst {
        None => ("#ffffff".to_owned(), "–".to_owned(), hex(SECONDARY_COLOUR)),
        Some(worst) => {
            // The measure is in per cent.
            let shown = format!("{:.0}", worst);
            (hex(colour(worst / 100.0)), shown, "#ffffff".to_owned())
        }
    };
    let _ = writeln!(
        out,
        "<rect x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" fill=\"{fill}\"/><text x=\"{}\" y=\"{}\" text-anchor=\"middle\" fill=\"{words}\">{text}</text>",
        SQUARE_SIZE_PX.0,
        SQUARE_SIZE_PX.1,
        x + SQUARE_SIZE_PX.0 / 2,
        y + 18
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starving_is_red_and_a_half_is_enough() {
        assert_eq!([0.0, 0.099].map(colour), [SERIES[5]; 2]);
        assert_eq!([0.1, 0.49].map(colour), [SERIES[1]; 2]);
        assert_eq!([0.5, 1.0].map(colour), [SERIES[2]; 2]);
    }
}
