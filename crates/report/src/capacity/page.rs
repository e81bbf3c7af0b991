//! The page of `fairmesh capacity --html`.
//!
//! It is one file that opens from disk and loads nothing.

use std::fmt::Write as _;

use fairmesh_lab::analysis::{Capacity, Model};
use fairmesh_lab::comparison::GENERATOR;
use fairmesh_lab::models::analysis::Criterion;

use super::drawing;
use super::text::{self, heading, kbps, label, summarize_bottleneck};
use crate::html::{self, escape};
use crate::topology::Drawing;

/// Maximum number of bottlenecks with a separate drawing.
const MOST_DRAWN: usize = 12;

/// Returns the whole page.
pub fn render(c: &Capacity, d: &Drawing, command: &str) -> String {
    let subtitle = format!(
        "{} nodes · {} flow{} · {} RTS/CTS · rates in kbit/s of application data",
        c.nodes,
        c.flows.len(),
        if c.flows.len() == 1 { "" } else { "s" },
        if c.rts { "with" } else { "without" },
    );
    let sections: String =
        c.models.iter().filter(|m| m.rts == c.rts).map(|m| section(c, m, d)).collect();
    let all = format!(
        "{sections}<section><h2>All models and criteria</h2>{}<p class=\"note\">Σ rate × hops: effective \
         network utilisation; its largest value under each model is 1.</p><p>{}</p></section>",
        html::table(&text::CRITERIA, &text::criteria(c)),
        escape(&(text::unsolved(c) + &text::bounds(c))).replace('\n', "<br>")
    );
    frame(&c.scenario, &subtitle, &all, command)
}

/// Returns a page around sections that are already escaped.
pub(super) fn frame(scenario: &str, subtitle: &str, sections: &str, command: &str) -> String {
    let scenario = escape(scenario);
    let body = html::fill(
        include_str!("../../assets/capacity.html"),
        &[
            ("title", &scenario),
            ("subtitle", &escape(subtitle)),
            ("sections", sections),
            ("command", &escape(command)),
            ("generator", GENERATOR),
        ],
    );
    let own = include_str!("../../assets/capacity.css");
    html::page(&format!("Capacity of {scenario}"), &[html::STYLE, own], &body)
}

fn section(c: &Capacity, m: &Model, d: &Drawing) -> String {
    let mut out = format!("<section><h2>{}</h2>", escape(&heading(m)));
    if let Some(why) = &m.refused {
        let _ = write!(out, "<p class=\"note\">{}</p></section>", escape(why));
        return out;
    }
    let fair = c.fair();
    let limits: Vec<usize> = (0..m.bottlenecks.len())
        .filter(|i| m.by(fair).is_some_and(|a| a.bottleneck.contains(&Some(*i))))
        .collect();
    out.push_str("<div class=\"grid\">");
    for &i in limits.iter().take(MOST_DRAWN) {
        let b = &m.bottlenecks[i];
        let summary = summarize_bottleneck(c, m, i, b);
        let _ = write!(
            out,
            "<figure><figcaption><span class=\"dot {}\"></span>{}: {}, limits {} flow{} at {} \
             </figcaption>{}</figure>",
            drawing::colour(i),
            b.label,
            escape(&summary.description),
            summary.limited,
            if summary.limited == 1 { "" } else { "s" },
            kbps(summary.rate_bps),
            drawing::bottleneck(c, m, i, d)
        );
    }
    match drawing::contention(c, m) {
        Some(svg) => {
            let _ = write!(
                out,
                "<figure><figcaption>Contention graph: a dot per link, a line where two exclude \
                 each other</figcaption>{svg}</figure></div>"
            );
        }
        None => {
            let _ = write!(
                out,
                "</div><p class=\"note\">The contention graph of {} links is not drawn; up to {} \
                 are.</p>",
                m.links.len(),
                drawing::MOST_VERTICES
            );
        }
    }
    if limits.len() > MOST_DRAWN {
        let _ = write!(
            out,
            "<p class=\"note\">{} of {} bottlenecks are drawn.</p>",
            MOST_DRAWN,
            limits.len()
        );
    }
    out + &flows(c, m) + "</section>"
}

fn flows(c: &Capacity, m: &Model) -> String {
    let shown: Vec<_> = [Criterion::Unweighted, Criterion::MaxMin, Criterion::Proportional]
        .into_iter()
        .filter(|k| c.weighted || *k != Criterion::MaxMin)
        .filter_map(|k| m.by(k))
        .collect();
    let mut header = vec!["flow", "hops", "weight"];
    for a in &shown {
        header.extend([a.criterion, "limit"]);
    }
    let rows: Vec<Vec<String>> = c
        .flows
        .iter()
        .enumerate()
        .map(|(i, f)| {
            let mut cells = vec![escape(&label(f)), f.hops.to_string(), f.weight.to_string()];
            for a in &shown {
                cells.push(kbps(a.rates_bps[i]));
                cells.push(match a.bottleneck[i] {
                    Some(b) => m.bottlenecks[b].label.clone(),
                    None => "demand".to_owned(),
                });
            }
            cells
        })
        .collect();
    html::table(&header, &rows)
}
