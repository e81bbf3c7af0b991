//! `report.html`: one file that opens from disk, with nothing to fetch.

use std::fmt::Write as _;

use fairmesh_lab::comparison::{Comparison, GENERATOR};
use fairmesh_lab::record::RunRecord;
use fairmesh_lab::summary::{ControlSummary, OURS, flow_label, marked};

use crate::html::{self, escape};
use crate::table::{
    OF_OPTIMUM, fair_header, measures_of_optimum, of_optimum, optional, rate_notes, remarks, share,
    subscriber_header, subscriber_rows,
};
use crate::topology::Drawing;
use crate::{charts, table, topology};

/// Everything a report shows.
pub struct Report<'a> {
    /// The summaries.
    pub comparison: &'a Comparison,
    /// The runs behind them: one list per control, one record per seed.
    pub records: &'a [Vec<RunRecord>],
    /// The network.
    pub drawing: &'a Drawing,
    /// Settings to list, name and value.
    pub parameters: &'a [(String, String)],
    /// The command line that made it.
    pub command: &'a str,
}

impl Report<'_> {
    /// The whole page.
    pub fn render(&self) -> String {
        let c = self.comparison;
        let curves = charts::curves(&c.results, self.records);
        let title = escape(&c.scenario);
        let body = html::fill(
            include_str!("../assets/report.html"),
            &[
                ("title", &title),
                ("uplot", include_str!("../assets/uPlot.iife.min.js")),
                ("script", include_str!("../assets/report.js")),
                ("subtitle", &self.subtitle()),
                ("verdicts", &self.verdicts()),
                ("summary", &summary(&c.results)),
                ("topologies", &self.topologies()),
                ("bands", &bands()),
                ("legend", &legend(&c.results)),
                ("bars", &charts::bars(&c.results)),
                ("data", &html::script_json(&curves)),
                ("flows", &self.flow_tables()),
                ("decisions", &self.decisions()),
                ("parameters", &self.parameters()),
                ("command", &escape(self.command)),
                ("generator", GENERATOR),
                ("fingerprints", &self.fingerprints()),
            ],
        );
        html::page(&title, &[include_str!("../assets/uPlot.min.css"), html::STYLE], &body)
    }

    fn subtitle(&self) -> String {
        let (c, d) = (self.comparison, self.drawing);
        format!(
            "{} nodes · {} links · {} flow{} · {} s simulated, measured from {} s on · {} seed{}",
            d.names.len(),
            d.links.len() + d.wires.len(),
            d.paths.len(),
            if d.paths.len() == 1 { "" } else { "s" },
            c.duration_s,
            c.warmup_s,
            c.seeds,
            if c.seeds == 1 { "" } else { "s" }
        )
    }

    fn verdicts(&self) -> String {
        let mut out = String::new();
        for r in &self.comparison.results {
            let text = remarks(r).join(". ");
            let class = match r.min_over_fair.map(|least| least.mean) {
                _ if !r.starving.is_empty() => "bad",
                Some(worst) if worst >= 0.5 => "good",
                _ => "middling",
            };
            let _ = write!(
                out,
                "<li class=\"{class}\"><b>{}</b>: {}.</li>",
                escape(&r.control),
                escape(&text)
            );
        }
        for r in self.records.iter().flatten() {
            let Some(e) = &r.emulation else { continue };
            let (class, text) = if e.valid {
                ("good", crate::stalls::text(&e.stalls))
            } else {
                let why = escape(&e.problems.join("; "));
                ("bad", format!("<strong style=\"color:#c00\">INVALID</strong>: {why}"))
            };
            let control = escape(&r.control);
            let _ = write!(out, "<li class=\"{class}\"><b>{control}</b>: {text}.</li>");
        }
        out
    }

    fn topologies(&self) -> String {
        self.comparison
            .results
            .iter()
            .map(|r| {
                format!(
                    "<figure><figcaption>{}</figcaption>{}</figure>",
                    escape(&r.control),
                    topology::svg(self.drawing, &r.flows)
                )
            })
            .collect()
    }

    fn flow_tables(&self) -> String {
        let optimum = self.comparison.results.iter().any(|r| r.min_over_optimum.is_some());
        let bound = self.comparison.results.iter().any(|r| r.fair_is_upper_bound);
        let mut header = vec!["flow", "hops", "goodput kbit/s"];
        header.extend(fair_header(bound));
        if optimum {
            header.extend(["optimum kbit/s", "of optimum"]);
        }
        header.extend([
            "delay ms",
            "p95 ms",
            "lost: queue",
            "wire",
            "retry limit",
            "limiter",
            "resent",
        ]);
        let mut out = String::new();
        for r in &self.comparison.results {
            let rows: Vec<Vec<String>> = r
                .flows
                .iter()
                .map(|f| {
                    let d = &f.drops;
                    let mut cells = vec![
                        escape(&flow_label(&f.name, &f.from, &f.to)),
                        f.hops.to_string(),
                        f.goodput_bps.show(1e-3, 1),
                        optional(f.fair_bps, 1e-3, 1),
                        format!(
                            "<span class=\"dot {}\"></span>{}",
                            topology::band(f.over_fair),
                            share(f.over_fair)
                        ),
                    ];
                    if optimum {
                        cells.extend([optional(f.optimum_bps, 1e-3, 1), of_optimum(f)]);
                    }
                    cells.extend([
                        optional(f.delay_s.mean, 1e3, 1),
                        optional(f.delay_s.p95, 1e3, 1),
                        format!("{:.0}", d.queue),
                        format!("{:.0}", d.wire),
                        format!("{:.0}", d.retry_limit),
                        format!("{:.0}", d.limiter),
                        f.retransmit_share.map_or("–".into(), |s| format!("{:.1} %", s * 100.0)),
                    ]);
                    cells
                })
                .collect();
            let _ = write!(out, "<h3>{}</h3>", escape(&r.control));
            if !r.subscribers.is_empty() {
                let mut homes = subscriber_rows(r);
                homes.iter_mut().for_each(|cells| cells[0] = escape(&cells[0]));
                out += &html::table(&subscriber_header(r), &homes);
            }
            out += &html::table(&header, &rows);
        }
        out
    }

    fn decisions(&self) -> String {
        const MOST: usize = 200;
        let mut out = String::new();
        for r in self.records.iter().map(|r| &r[0]).filter(|r| !r.decisions.is_empty()) {
            let rows: Vec<_> = r
                .decisions
                .iter()
                .take(MOST)
                .map(|d| vec![format!("{:.3}", d.time_s), escape(&d.node), escape(&d.reason)])
                .collect();
            let _ = write!(
                out,
                "<details><summary>What {} decided, and why ({} decisions, seed {})</summary>{}</details>",
                escape(&r.control),
                r.decisions.len(),
                r.seed,
                html::table(&["time s", "node", "reason"], &rows)
            );
        }
        out
    }

    fn parameters(&self) -> String {
        let rows: Vec<_> =
            self.parameters.iter().map(|(k, v)| vec![escape(k), escape(v)]).collect();
        html::table(&["setting", "value"], &rows)
    }

    fn fingerprints(&self) -> String {
        let c = self.comparison;
        let rows: Vec<_> = c
            .results
            .iter()
            .flat_map(|r| c.seed_list.iter().zip(&r.fingerprints).map(move |(s, f)| (r, s, f)))
            .map(|(r, seed, f)| {
                vec![escape(&r.control), seed.to_string(), format!("<code>{}</code>", escape(f))]
            })
            .collect();
        html::table(&["control", "seed", "fingerprint"], &rows)
    }
}

fn summary(results: &[ControlSummary]) -> String {
    let optimum = results.iter().any(|r| r.min_over_optimum.is_some());
    let mut header = vec![
        "control",
        "sum kbit/s",
        "Jain",
        "Jain normalised",
        "min / fair",
        "max / fair",
        "utilisation ratio",
    ];
    if optimum {
        header.extend(OF_OPTIMUM);
    }
    let rows: Vec<_> = results
        .iter()
        .enumerate()
        .map(|(i, r)| {
            let mut cells = vec![
                format!(
                    "<span class=\"dot c{}\"></span>{}",
                    i % 6,
                    escape(&marked(&r.control, r.ours))
                ),
                r.sum_goodput_bps.show(1e-3, 1),
                r.jain.show(1.0, 3),
                table::estimate(r.jain_normalized, 3),
                table::estimate(r.min_over_fair, 3),
                table::estimate(r.max_over_fair, 2),
                table::estimate(r.utilization_ratio, 3),
            ];
            if optimum {
                cells.extend(measures_of_optimum(r).unwrap_or_default());
            }
            cells
        })
        .collect();
    let note =
        if results.iter().any(|r| r.ours) { format!("<p>{OURS}</p>") } else { String::new() };
    let rates: String =
        rate_notes(results).iter().map(|n| format!("<p>{}</p>", escape(n))).collect();
    html::table(&header, &rows) + &note + &rates
}

fn bands() -> String {
    topology::BANDS
        .iter()
        .map(|(_, class, label)| {
            format!("<span class=\"key\"><span class=\"dot {class}\"></span>{label}</span>")
        })
        .collect()
}

fn legend(results: &[ControlSummary]) -> String {
    let key = |(i, r): (usize, &ControlSummary)| {
        let name = escape(&r.control);
        format!("<span class=\"key\"><span class=\"dot c{}\"></span>{name}</span>", i % 6)
    };
    results.iter().enumerate().map(key).collect::<String>()
        + "<span class=\"key\"><span class=\"tick\"></span>fair rate</span>"
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairmesh_lab::testing::record;

    #[test]
    fn many_starving_flows_are_listed_in_whole_sentences() {
        let records = [vec![record("fifo", 1, &[(0.0, 1e5, 1); 28])]];
        let comparison = Comparison::of(&records);
        let drawing = &Drawing::default();
        let report = Report {
            comparison: &comparison,
            records: &records,
            drawing,
            parameters: &[],
            command: "",
        };
        let told = report.verdicts();
        assert!(
            told.ends_with("retry limit. 26 more flows starve.</li>")
                || told.ends_with("queue overflow. 26 more flows starve.</li>"),
            "{told}"
        );
        assert!(!told.contains(". and"), "{told}");
    }

    /// The page for two controls on a chain of three.
    pub(crate) fn example() -> String {
        let run = |c: &str, a: f64, b: f64| {
            (1..=3).map(|s| record(c, s, &[(a, 2e5, 1), (b + s as f64, 2e5, 2)])).collect()
        };
        let records = [run("fifo", 390e3, 1e3), run("source", 199e3, 198e3)];
        let drawing = Drawing {
            names: ["0", "1", "2"].map(String::from).to_vec(),
            at: vec![(0.0, 0.0), (200.0, 0.0), (400.0, 0.0)],
            surveyed: true,
            wired: vec![false; 3],
            links: vec![(0, 1), (1, 2)],
            wires: vec![],
            gateways: vec![0],
            paths: vec![vec![1, 0], vec![2, 1, 0]],
        };
        let comparison = Comparison::of(&records);
        Report {
            comparison: &comparison,
            records: &records,
            drawing: &drawing,
            parameters: &[("rate".into(), "1 Mbit/s".into())],
            command: "fairmesh compare \"<chain>\"",
        }
        .render()
    }

    #[test]
    fn the_page_needs_nothing_else() {
        let page = example();
        for fetch in ["src=", "href=", "@import", "url(", "fetch(", "XMLHttpRequest"] {
            assert!(!page.contains(fetch), "{fetch}");
        }
        for outside in page.match_indices("http") {
            // The one address is the credit in the charting library's first comment.
            let at = &page[outside.0..(outside.0 + 40).min(page.len())];
            assert!(at.starts_with("https://github.com/leeoniya/uPlot"), "{at}");
        }
    }

    #[test]
    fn the_page_holds_what_it_promises() {
        let page = example();
        assert_eq!(page.matches("<svg").count(), 2, "one drawing per control");
        for part in [
            "fairmesh compare &quot;&lt;chain&gt;&quot;",
            GENERATOR,
            "0000000000000003",
            "1 Mbit/s",
            "2 → 0 starves",
            "no flow starves; in an average run the worst-off flow gets 99 % of its fair rate; against fifo: the slowest flow gets",
            "Jain normalised",
        ] {
            assert!(page.contains(part), "{part}");
        }
    }
}
