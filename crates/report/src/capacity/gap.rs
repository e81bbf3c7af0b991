//! GAP's fluid model: its table, its phase pictures and its page.

use std::fmt::Write as _;

use fairmesh_lab::analysis::gap::GapReport;

use super::phases;
use crate::html::escape;
use crate::table::{row, table};

/// Formats the report as text.
pub fn text(r: &GapReport) -> String {
    let k = |v: f64| format!("{:.0}", v / 1e3);
    let mut out = format!(
        "{}: GAP's fluid model (Mancuso 2010 §V); kbit/s of the gateway's air, in which two hops count twice\n\n\
         U* {}, U_S* {}, threshold (1 - gamma) U* {} with gamma {}; alpha {} kbit/s per s, beta {:.2} per s\n\
         t_rise {:.2} s, t_decay {:.2} s\n\n",
        r.scenario,
        k(r.capacity_bps),
        k(r.guarantee_bps),
        k(r.model().threshold()),
        r.gamma,
        k(r.increase_bps_per_s),
        r.decrease_per_s,
        r.rise_s,
        r.decay_s
    );
    let mut t = table(&[
        "load",
        "lambda_S",
        "lambda_M",
        "R_S",
        "U_S",
        "U_M",
        "a smaller limit",
        "a larger limit",
    ]);
    for c in &r.cases {
        row(
            &mut t,
            [
                c.regime.to_owned(),
                c.single_demand_bps.map_or("backlogged".to_owned(), k),
                k(c.multi_demand_bps),
                k(c.limit_bps),
                k(c.single_bps),
                k(c.multi_bps),
                c.below.clone(),
                c.above.clone(),
            ],
        );
    }
    let _ = writeln!(out, "{t}");
    out
}

/// Draws the phase pictures as SVG, a panel per load case.
///
/// # Errors
/// Returns the drawing library's error as text.
pub fn svg(r: &GapReport) -> Result<String, String> {
    phases::svg(r.model(), &r.cases)
}

/// Returns the page of `--html`.
///
/// # Errors
/// Returns the errors of [`svg`].
pub fn page(r: &GapReport, command: &str) -> Result<String, String> {
    let section = format!(
        "<section><h2>Phase pictures</h2><figure>{}</figure></section>\
         <section><h2>Where it rests</h2><pre>{}</pre></section>",
        svg(r)?,
        escape(&text(r))
    );
    Ok(super::page::frame(&r.scenario, "GAP's fluid model", &section, command))
}

#[cfg(test)]
mod tests {
    use fairmesh_lab::Changes;
    use fairmesh_lab::control::Registry;
    use fairmesh_lab::source::build;

    use super::*;

    #[test]
    fn every_case_is_drawn_with_its_point() {
        let tree = include_str!("../../../../scenarios/mancuso-branches-1.toml");
        let scenario =
            build("t.toml".as_ref(), tree.as_bytes(), &Changes::default(), &Registry::standard())
                .unwrap();
        let svg = svg(&GapReport::of(&scenario).unwrap()).unwrap();
        for title in ["light", "unsaturated", "threshold", "saturated"] {
            assert!(svg.contains(title), "{title}");
        }
        assert!(!svg.contains("NaN") && svg.matches("<circle").count() >= 4);
    }
}
