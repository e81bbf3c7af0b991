//! Summary as a page of one file, without scripts or references.

use std::fmt::Write;

use super::Summary;
use super::text::{date, hours, shown, time};
use crate::gateway::report::short;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;\
    color:#1b1f24;background:#fff}h1{font-size:1.3rem}h2{font-size:1.05rem;margin-top:2rem}\
    table{border-collapse:collapse;width:100%}th,td{padding:.25rem .6rem;text-align:right;border-bottom:1px solid #d8dde3}\
    th:first-child,td:first-child,.t{text-align:left}.n{color:#57606a}svg{width:100%;height:7rem}rect{fill:#3867b5}\
    @media(prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}th,td{border-color:#30363d}\
    .n{color:#9aa4af}rect{fill:#6ea0f0}text{fill:#9aa4af}}";

/// Escapes text for HTML; characters that are not shown are escaped for readers.
fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            c => out.push(c),
        }
    }
    out
}

impl Summary {
    /// Returns a page of one file.
    pub fn html(&self) -> String {
        let mut out = format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width\"><title>fairmesh: history of a gateway</title>\
             <style>{STYLE}</style></head><body>\n<h1>{}</h1>\n",
            escape(&self.answer())
        );
        for line in self.conditions() {
            let _ = writeln!(out, "<p>{}</p>", escape(&line));
        }
        if self.mesh.congested > 0 {
            self.chart(&mut out);
        }
        if !self.starved.is_empty() {
            out += "<h2>Homes that starved</h2>\n<table><tr><th>home<th class=\"t\">direction<th>starved<th>confirmed\
                    <th>carried<th>due<th>replayed<th class=\"t\">bottleneck<th class=\"t\">hours (UTC)</tr>\n";
            for h in &self.starved {
                let _ = writeln!(
                    out,
                    "<tr><td>{}<td class=\"t\">{}<td>{}<td>{}<td>{}<td>{}<td>{}<td class=\"t\">{}<td class=\"t\">{}</tr>",
                    escape(&shown(&h.name)),
                    h.direction,
                    time(h.seconds),
                    time(h.confirmed_seconds),
                    short(Some(h.carried_bits_per_second)),
                    short(Some(h.due_bits_per_second)),
                    self.with_limits(h),
                    h.bottleneck.text(),
                    hours(&h.by_hour)
                );
            }
            out += "</table>\n";
        }
        if let Some(change) = self.change() {
            let _ = writeln!(out, "<p><strong>{}</strong></p>", escape(&change));
        }
        if self.plans.iter().any(|p| p.ratio < 0.995) {
            out += "<h2>Limits and plans</h2>\n<table><tr><th>home<th class=\"t\">direction<th>mean limit<th>plan\
                    <th>of the plan</tr>\n";
            for p in self.plans.iter().filter(|p| p.ratio < 0.995) {
                let _ = writeln!(
                    out,
                    "<tr><td>{}<td class=\"t\">{}<td>{}<td>{}<td>{:.0} %</tr>",
                    escape(&shown(&p.name)),
                    p.direction,
                    short(Some(p.limit_bits_per_second)),
                    short(Some(p.ceiling_bits_per_second)),
                    100.0 * p.ratio
                );
            }
            out += "</table>\n";
        }
        if !self.congested_hours.is_empty() {
            out += "<h2>Congested hours</h2>\n<table><tr><th>start (UTC)<th>congested<th>homes that starved</tr>\n";
            for h in &self.congested_hours {
                let (start, seconds) = (date(h.start), time(h.seconds));
                let _ = writeln!(out, "<tr><td>{start}<td>{seconds}<td>{}</tr>", h.starved_homes);
            }
            out += "</table>\n";
        }
        for note in &self.notes {
            let _ = writeln!(out, "<p class=\"n\">{}</p>", escape(note));
        }
        out += "</body></html>\n";
        out
    }

    /// Writes the congested time by hour of the day as bars.
    fn chart(&self, out: &mut String) {
        let most = self.congested_by_hour.iter().max().copied().unwrap_or(0).max(1) as f64;
        *out += "<h2>Congestion by hour of the day (UTC)</h2>\n<svg viewBox=\"0 0 480 110\" role=\"img\" \
                 aria-label=\"congested time by hour of the day\">";
        for (h, seconds) in self.congested_by_hour.iter().enumerate() {
            let (height, x) = (90.0 * *seconds as f64 / most, 20 * h);
            let _ = write!(
                out,
                "<rect x=\"{}\" y=\"{:.1}\" width=\"16\" height=\"{height:.1}\"><title>{h:02}: {}</title></rect>\
                 <text x=\"{}\" y=\"106\" font-size=\"9\" text-anchor=\"middle\">{h:02}</text>",
                x + 2,
                92.0 - height,
                time(*seconds),
                x + 10
            );
        }
        *out += "</svg>\n";
    }
}
