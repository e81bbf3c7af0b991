//! The achievable rate region: its tables, its boundary as a picture, and its page.

use std::fmt::Write as _;

use fairmesh_lab::analysis::region::RegionReport;

use super::text::kbps;
use crate::html::escape;
use crate::table::{row, table};

/// Returns the tables.
pub fn text(r: &RegionReport) -> String {
    let m = &r.mac;
    let mut out = format!(
        "{}: achievable rate region {} RTS/CTS, kbit/s of application data, U = {}, {}\n\
         slot {} µs, SIFS {}, DIFS {}, RTS {:.0}, CTS {:.0}, ACK {:.0}, CW {} to {}\n\n",
        r.scenario,
        if r.rts { "with" } else { "without" },
        r.utilization,
        if r.unlimited_retries {
            "retries without limit"
        } else {
            "retries as the MAC limits them"
        },
        m.slot_us,
        m.sifs_us,
        m.difs_us,
        m.rts_us,
        m.cts_us,
        m.ack_us,
        m.cw.0,
        m.cw.1,
    );
    let mut t = table(&["flow", "max-min", "proportional"]);
    for (k, f) in r.flows.iter().enumerate() {
        let cells = [r.max_min_bps[k], r.proportional_bps[k]].map(kbps);
        row(&mut t, [f.clone()].into_iter().chain(cells));
    }
    let _ = write!(out, "{t}\n\nLinks at the max-min point\n");
    let mut t = table(&["link", "frames/s", "refused", "attempts", "service ms", "queue busy", ""]);
    for l in &r.links {
        row(
            &mut t,
            [
                format!("{} → {}", l.from, l.to),
                format!("{:.1}", l.arrivals),
                format!("{:.2}", l.refused),
                format!("{:.2}", l.attempts),
                format!("{:.2}", l.service_s * 1e3),
                format!("{:.2}", l.utilization),
                if l.congested { "congested" } else { "" }.to_owned(),
            ],
        );
    }
    let _ = writeln!(out, "{t}");
    if !r.section_bps.is_empty() {
        let (x, y) = r.groups();
        let _ = writeln!(out, "\nBoundary: rate of each of {x} against rate of each of {y}");
        let mut t = table(&["", "", ""]);
        t.set_header(["", x.as_str(), y.as_str()]);
        for (a, b) in &r.section_bps {
            row(&mut t, [String::new(), kbps(*a), kbps(*b)]);
        }
        let _ = writeln!(out, "{t}");
    }
    out
}

/// Draws the boundary as SVG.
pub fn svg(r: &RegionReport) -> String {
    const WIDTH: f64 = 460.0;
    const HEIGHT: f64 = 380.0;
    const AXIS_LEFT: f64 = 60.0;
    const AXIS_BOTTOM: f64 = 330.0;
    let largest = |pick: fn(&(f64, f64)) -> f64| r.section_bps.iter().map(pick).fold(1.0, f64::max);
    let (top_x, top_y) = (nice(largest(|p| p.0)), nice(largest(|p| p.1)));
    let x = |v: f64| AXIS_LEFT + v / top_x * (WIDTH - AXIS_LEFT - 20.0);
    let y = |v: f64| AXIS_BOTTOM - v / top_y * (AXIS_BOTTOM - 20.0);
    let (name_x, name_y) = r.groups();
    let mut out = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"Achievable rate region\">\
         <path class=\"axis-line\" d=\"M{AXIS_LEFT} 20V{AXIS_BOTTOM}H{:.0}\"/>",
        WIDTH - 20.0
    );
    for k in 0..=4 {
        let (a, b) = (top_x * f64::from(k) / 4.0, top_y * f64::from(k) / 4.0);
        let _ = write!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\">{:.0}</text><text x=\"{:.1}\" y=\"{:.1}\">{:.0}</text>",
            x(a),
            AXIS_BOTTOM + 16.0,
            a / 1e3,
            AXIS_LEFT - 22.0,
            y(b) + 4.0,
            b / 1e3
        );
    }
    let mut path = String::new();
    for (k, (a, b)) in r.section_bps.iter().enumerate() {
        let _ = write!(path, "{}{:.1} {:.1}", if k == 0 { "M" } else { "L" }, x(*a), y(*b));
    }
    let _ = write!(
        out,
        "<path class=\"region\" d=\"{path}L{:.1} {:.1}Z\"/><path class=\"boundary\" d=\"{path}\"/>",
        x(0.0),
        y(0.0)
    );
    let of = |rates: &[f64]| {
        let least = |first: bool| {
            let mine = (0..rates.len()).filter(|k| r.first_group.contains(k) == first);
            mine.map(|k| rates[k]).fold(f64::INFINITY, f64::min)
        };
        (least(true), least(false))
    };
    for (rates, class, name) in
        [(&r.max_min_bps, "c1", "max-min"), (&r.proportional_bps, "c2", "proportional")]
    {
        let (a, b) = of(rates);
        let _ = write!(
            out,
            "<circle class=\"node {class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"5\"><title>{name}: {:.0}, {:.0} \
             kbit/s</title></circle>",
            x(a),
            y(b),
            a / 1e3,
            b / 1e3
        );
    }
    let _ = write!(
        out,
        "<text x=\"{:.0}\" y=\"{:.0}\">each of {}, kbit/s</text>\
         <text transform=\"translate(14 {:.0}) rotate(-90)\">each of {}, kbit/s</text></svg>",
        0.5 * (AXIS_LEFT + WIDTH),
        AXIS_BOTTOM + 38.0,
        escape(&name_x),
        0.5 * AXIS_BOTTOM,
        escape(&name_y)
    );
    out
}

/// Returns the page of `--html`.
pub fn page(r: &RegionReport, command: &str) -> String {
    let section = format!(
        "<section><h2>Achievable rate region</h2><figure style=\"max-width:640px\">{}</figure>\
         <p class=\"note\">Inside the line the DCF carries both; orange: max-min, green: proportional.</p>\
         </section><section><h2>Numbers</h2><pre>{}</pre></section>",
        if r.section_bps.is_empty() { String::new() } else { svg(r) },
        escape(&text(r))
    );
    let subtitle = format!("{} flows", r.flows.len());
    super::page::frame(&r.scenario, &subtitle, &section, command)
}

/// Returns the next round number: 1, 2 or 5 times a power of ten.
fn nice(top: f64) -> f64 {
    let magnitude = 10f64.powf(top.log10().floor());
    let step = [1.0, 1.5, 2.0, 3.0, 5.0, 7.5, 10.0].into_iter().find(|m| m * magnitude >= top);
    step.unwrap_or(10.0) * magnitude
}
