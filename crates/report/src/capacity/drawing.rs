//! Contention graphs and bottlenecks as SVG, in the style of the report.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use fairmesh_lab::analysis::{Capacity, Model};

use crate::html::escape;
use crate::layout;
use crate::topology::Drawing;
use crate::topology::{WIDTH, fit};

/// Number of links above which a contention graph is unreadable and its layout slow.
pub const MOST_VERTICES: usize = 400;
/// Number of colours for bottlenecks.
const BOTTLENECK_COLOURS: usize = 6;

/// Returns the colour class of a bottleneck.
pub fn colour(bottleneck: usize) -> String {
    format!("c{}", bottleneck % BOTTLENECK_COLOURS)
}

fn open(height: f64, label: &str) -> String {
    let label = escape(label);
    format!("<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{label}\">")
}

fn line(out: &mut String, class: &str, (x, y): (f64, f64), (u, v): (f64, f64), title: &str) {
    let _ = write!(out, "<path class=\"{class}\" d=\"M{x:.1} {y:.1}L{u:.1} {v:.1}\">");
    if !title.is_empty() {
        let _ = write!(out, "<title>{}</title>", escape(title));
    }
    out.push_str("</path>");
}

/// Draws the network with the links of one bottleneck in its colour, and its limited flows.
pub fn bottleneck(c: &Capacity, m: &Model, index: usize, d: &Drawing) -> String {
    let (at, height) = fit(&d.at);
    let b = &m.bottlenecks[index];
    let number: BTreeMap<&str, usize> =
        d.names.iter().enumerate().map(|(i, n)| (n.as_str(), i)).collect();
    let ends = |link: &u32| m.links[*link as usize].each_ref().map(|n| number.get(n.as_str()));
    let mut out = open(height, &format!("Bottleneck {}", b.label));
    for &(p, q) in &d.links {
        line(&mut out, "link", at[p], at[q], "");
    }
    for &(p, q) in &d.wires {
        line(&mut out, "wire", at[p], at[q], "");
    }
    for link in 0..m.links.len() as u32 {
        let [Some(&p), Some(&q)] = ends(&link) else { continue };
        let inside = b.links.contains(&link);
        let class = match (inside, b.center == Some(link)) {
            (true, true) => format!("used center {}", colour(index)),
            (true, false) => format!("used {}", colour(index)),
            _ => "used".to_owned(),
        };
        line(&mut out, &class, at[p], at[q], &m.links[link as usize].join("–"));
    }
    let limited = m.by(c.fair()).map_or(&[][..], |a| &a.bottleneck);
    // The end of a flow other than the gateway represents its home.
    let home = |f: &fairmesh_lab::analysis::FlowInfo| {
        let ends = [f.path.first(), f.path.last()].map(|n| number.get(n?.as_str()).copied());
        ends.into_iter().flatten().find(|n| !d.gateways.contains(n))
    };
    let homes: Vec<usize> = c
        .flows
        .iter()
        .zip(limited)
        .filter(|(_, l)| **l == Some(index))
        .filter_map(|(f, _)| home(f))
        .collect();
    let radius = (90.0 / (at.len() as f64).sqrt()).clamp(2.5, 13.0);
    for (i, &(x, y)) in at.iter().enumerate() {
        let class = if homes.contains(&i) { colour(index) } else { String::new() };
        let gateway = if d.gateways.contains(&i) { " gateway" } else { "" };
        let _ = write!(
            out,
            "<circle class=\"node{gateway} {class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\">\
             <title>{}</title></circle>",
            escape(&d.names[i])
        );
        if at.len() <= 60 {
            let inside = d.names[i].chars().count() <= 2 && radius >= 9.0;
            let (class, dy) = match (inside, class.is_empty()) {
                (false, _) => ("below", radius + 12.0),
                (true, true) => ("inside", 4.0),
                (true, false) => ("inside on", 4.0),
            };
            let name = escape(&d.names[i]);
            let _ = write!(
                out,
                "<text class=\"{class}\" x=\"{x:.1}\" y=\"{:.1}\">{name}</text>",
                y + dy
            );
        }
    }
    out.push_str("</svg>");
    out
}

/// Draws the contention graph; `None` if it is too large.
///
/// It has a vertex per link that flows use, and an edge between two links that exclude each other.
pub fn contention(c: &Capacity, m: &Model) -> Option<String> {
    let n = m.links.len();
    if n > MOST_VERTICES {
        return None;
    }
    let edges: Vec<(usize, usize)> = m
        .contends
        .iter()
        .enumerate()
        .flat_map(|(v, near)| near.iter().map(move |&u| (v, u as usize)))
        .collect();
    let (at, height) = fit(&layout::place(n, &edges));
    let mut out = open(height, &format!("Contention graph of {n} links, {} edges", edges.len()));
    for &(v, u) in &edges {
        line(&mut out, "link", at[v], at[u], "");
    }
    let fair = m.by(c.fair());
    let radius = (110.0 / (n as f64).sqrt()).clamp(3.0, 15.0);
    for (v, &(x, y)) in at.iter().enumerate() {
        let limits = |i: usize| fair.is_some_and(|a| a.bottleneck.contains(&Some(i)));
        let mut centers = m.bottlenecks.iter().map(|b| b.center).enumerate();
        let center = centers.any(|(i, at)| at == Some(v as u32) && limits(i));
        // The first bottleneck that contains it; they are in the order of the flows that they
        // limit.
        let holds = |i: &usize| m.bottlenecks[*i].links.contains(&(v as u32)) && limits(*i);
        let held = (0..m.bottlenecks.len()).find(holds);
        let class = held.map(colour).unwrap_or_default();
        let mark = if center { " gateway" } else { "" };
        let name = escape(&m.links[v].join("–"));
        let place = held.map_or(String::new(), |i| format!(" in {}", m.bottlenecks[i].label));
        let _ = write!(
            out,
            "<circle class=\"node{mark} {class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\">\
             <title>{name}{place}</title></circle>"
        );
        if n <= 60 {
            let _ = write!(
                out,
                "<text class=\"below\" x=\"{x:.1}\" y=\"{:.1}\">{name}</text>",
                y + radius + 11.0
            );
        }
    }
    out.push_str("</svg>");
    Some(out)
}
