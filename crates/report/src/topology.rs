//! The network as SVG: links, gateways, and each flow's path in the colour of its share.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use fairmesh_lab::scenario::{Flow, Node, NodeKind, Scenario};
use fairmesh_lab::summary::FlowSummary;
use fairmesh_lab::summary::flow_label;

use super::html::escape;
use super::layout;
use super::table::share;

/// The drawn parts of a scenario.
#[derive(Clone, Debug, Default)]
pub struct Drawing {
    /// Node names.
    pub names: Vec<String>,
    /// Position at which each node is drawn, any scale, y upwards.
    pub at: Vec<(f64, f64)>,
    /// True if `at` holds the nodes' real positions.
    pub surveyed: bool,
    /// Wired hosts.
    pub wired: Vec<bool>,
    /// Wireless links, each pair once.
    pub links: Vec<(usize, usize)>,
    /// Wired links.
    pub wires: Vec<(usize, usize)>,
    /// The gateways.
    pub gateways: Vec<usize>,
    /// Each flow's path.
    pub paths: Vec<Vec<usize>>,
}

impl From<&Scenario> for Drawing {
    fn from(s: &Scenario) -> Self {
        // A node is drawn once, whatever radios it has.
        let shown: Vec<&Node> = s.nodes().iter().filter(|n| n.of.is_none()).collect();
        let mut place = vec![0; s.nodes().len()];
        let own = (0..s.nodes().len()).filter(|&i| s.nodes()[i].of.is_none());
        own.enumerate().for_each(|(at, i)| place[i] = at);
        let place = |n| place[s.device(n).index()];
        let ends = |a, b| (place(a).min(place(b)), place(a).max(place(b)));
        let mut links: Vec<(usize, usize)> = s.links().iter().map(|l| ends(l.from, l.to)).collect();
        links.sort_unstable();
        links.dedup();
        let wires: Vec<_> = s.wires().iter().map(|w| (place(w.a), place(w.b))).collect();
        let known: Option<Vec<(f64, f64)>> = shown.iter().map(|n| n.position).collect();
        // Nodes at one and the same place are not a map.
        let known = known.filter(|p| p.iter().any(|q| *q != p[0]) || p.len() == 1);
        let surveyed = known.is_some();
        let at =
            known.unwrap_or_else(|| layout::place(shown.len(), &[&links[..], &wires[..]].concat()));
        let path = |f: &Flow| {
            let mut path: Vec<usize> = f.path.iter().map(|&n| place(n)).collect();
            path.dedup();
            path
        };
        Drawing {
            names: shown.iter().map(|n| n.name.clone()).collect(),
            at,
            surveyed,
            wired: shown.iter().map(|n| n.kind == NodeKind::Wired).collect(),
            links,
            wires,
            gateways: s.gateways().list().iter().map(|&g| place(g)).collect(),
            paths: s.flows().iter().map(path).collect(),
        }
    }
}

/// Bands of goodput over fair rate: upper bound, style class, label.
pub const BANDS: [(f64, &str, &str); 5] = [
    (0.1, "b0", "starves (under 10 % of its fair rate)"),
    (0.5, "b1", "10–50 %"),
    (0.9, "b2", "50–90 %"),
    (1.1, "b3", "fair (90–110 %)"),
    (f64::INFINITY, "b4", "more than its fair rate"),
];

/// The style class of a share of the rate that is due; none where no rate is due.
pub fn band(over_fair: Option<f64>) -> &'static str {
    let Some(over_fair) = over_fair else { return "" };
    BANDS.iter().find(|b| over_fair < b.0).map_or("b4", |b| b.1)
}

pub(crate) const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 420.0;
const MARGIN: f64 = 34.0;

/// Draws the network with the shares of one control.
pub fn svg(d: &Drawing, flows: &[FlowSummary]) -> String {
    let (at, height) = fit(&d.at);
    let n = at.len();
    // Crowded networks get small nodes and no labels.
    let radius = (90.0 / (n as f64).sqrt()).clamp(2.5, 13.0);
    let (left, width) = crop(&at, height);
    let mut out = format!(
        "<svg viewBox=\"{left:.0} 0 {width:.0} {height:.0}\" role=\"img\" aria-label=\"Topology with {n} nodes\">"
    );
    let mut line = |class: &str, &(a, b): &(usize, usize)| {
        let ((x, y), (u, v)) = (at[a], at[b]);
        let _ = write!(out, "<path class=\"{class}\" d=\"M{x:.1} {y:.1}L{u:.1} {v:.1}\"/>");
    };
    d.links.iter().for_each(|l| line("link", l));
    d.wires.iter().for_each(|l| line("wire", l));
    paths(&mut out, d, flows, &at, radius);
    let shares = node_shares(d, flows);
    for i in 0..n {
        node(&mut out, d, i, at[i], radius, shares[i]);
    }
    out.push_str("</svg>");
    out
}

/// Left edge and width of what a drawing needs: a tall map beside others would be tiny with the
/// empty air at its sides.
fn crop(at: &[(f64, f64)], height: f64) -> (f64, f64) {
    // Room for a label at the outermost nodes.
    const LABEL: f64 = 60.0;
    let reach = at.iter().map(|p| (p.0 - WIDTH / 2.0).abs()).fold(0.0, f64::max);
    // Not narrower than three quarters of its height: a chain upwards must not fill the page.
    let half = (reach + LABEL).max(0.375 * height).min(WIDTH / 2.0);
    (WIDTH / 2.0 - half, 2.0 * half)
}

/// Scales to the drawing's size, both axes alike; also returns the resulting height.
pub(crate) fn fit(at: &[(f64, f64)]) -> (Vec<(f64, f64)>, f64) {
    let range = |pick: &dyn Fn(&(f64, f64)) -> f64| {
        at.iter().map(pick).fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(v), h.max(v)))
    };
    let ((left, right), (bottom, top)) = (range(&|p| p.0), range(&|p| p.1));
    let (w, h) = ((right - left).max(1e-9), (top - bottom).max(1e-9));
    let scale = ((WIDTH - 2.0 * MARGIN) / w).min((HEIGHT - 2.0 * MARGIN) / h);
    let height = (h * scale + 2.0 * MARGIN).max(110.0);
    let place = |&(x, y): &(f64, f64)| {
        (
            WIDTH / 2.0 + (x - (left + right) / 2.0) * scale,
            height / 2.0 - (y - (bottom + top) / 2.0) * scale,
        )
    };
    (at.iter().map(place).collect(), height)
}

fn paths(out: &mut String, d: &Drawing, flows: &[FlowSummary], at: &[(f64, f64)], radius: f64) {
    // Flows that share a link are drawn side by side, all of them within the width of a node.
    let mut sharing: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
    for (k, path) in d.paths.iter().enumerate() {
        for hop in path.windows(2) {
            sharing.entry(ends(hop)).or_default().push(k);
        }
    }
    let most = sharing.values().map(Vec::len).max().unwrap_or(1) as f64;
    let spacing = (1.6 * radius / most).min(5.0);
    let width = (spacing * 0.8).clamp(1.2, 3.6);
    for (k, (path, f)) in d.paths.iter().zip(flows).enumerate() {
        let _ = write!(
            out,
            "<path class=\"flow {}\" style=\"stroke-width:{width:.1}\" d=\"",
            band(f.over_fair)
        );
        for hop in path.windows(2) {
            // Offset to one side of the link's own direction, the same for both directions.
            let (a, b) = ends(hop);
            let lanes = &sharing[&(a, b)];
            let at_lane = lanes.iter().position(|l| *l == k).unwrap_or(0);
            let lane = (at_lane as f64 - (lanes.len() as f64 - 1.0) / 2.0) * spacing;
            let (dx, dy) = (at[b].0 - at[a].0, at[b].1 - at[a].1);
            let length = dx.hypot(dy).max(1e-9);
            let (ox, oy) = (-dy / length * lane, dx / length * lane);
            let ((x, y), (u, v)) = (at[hop[0]], at[hop[1]]);
            let _ = write!(out, "M{:.1} {:.1}L{:.1} {:.1}", x + ox, y + oy, u + ox, v + oy);
        }
        let label = flow_label(&f.name, &f.from, &f.to);
        let _ = write!(
            out,
            "\"><title>{}: {} of its fair rate</title></path>",
            escape(&label),
            share(f.over_fair)
        );
    }
}

/// The two ends of a hop, the smaller first.
fn ends(hop: &[usize]) -> (usize, usize) {
    (hop[0].min(hop[1]), hop[0].max(hop[1]))
}

/// Returns per node the worst share among its flows.
///
/// A flow belongs to its end away from the gateway, or to its source if no end is a gateway.
fn node_shares(d: &Drawing, flows: &[FlowSummary]) -> Vec<Option<f64>> {
    let mut shares = vec![None; d.names.len()];
    for (path, f) in d.paths.iter().zip(flows) {
        let (Some(&from), Some(&to)) = (path.first(), path.last()) else { continue };
        let behind_gateway = |i: usize| d.gateways.contains(&i) || d.wired[i];
        let home = if behind_gateway(from) { to } else { from };
        let worst: &mut Option<f64> = &mut shares[home];
        *worst = match (*worst, f.over_fair) {
            (Some(w), Some(over)) => Some(w.min(over)),
            (w, over) => w.or(over),
        };
    }
    shares
}

fn node(
    out: &mut String,
    d: &Drawing,
    i: usize,
    (x, y): (f64, f64),
    radius: f64,
    share: Option<f64>,
) {
    let class = band(share);
    let gateway = d.gateways.contains(&i);
    if gateway || d.wired[i] {
        let (r, kind) = (radius * 1.05, if gateway { "gateway" } else { "host" });
        let _ = write!(
            out,
            "<rect class=\"node {kind} {class}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" \
             height=\"{:.1}\" rx=\"2\">",
            x - r,
            y - r,
            2.0 * r,
            2.0 * r
        );
    } else {
        let _ = write!(
            out,
            "<circle class=\"node {class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\">"
        );
    }
    let name = escape(&d.names[i]);
    let role = if gateway { " (gateway)" } else { "" };
    let told = share.map_or(String::new(), |s| format!(": {:.0} % of its fair rate", s * 100.0));
    let _ = write!(out, "<title>{name}{role}{told}</title>");
    out.push_str(if gateway || d.wired[i] { "</rect>" } else { "</circle>" });
    if d.names.len() <= 60 {
        // A short name fits inside; a longer one goes below.
        let inside = d.names[i].chars().count() <= 2 && radius >= 9.0;
        let dy = if inside { 4.0 } else { radius + 12.0 };
        let class = if !inside {
            "below"
        } else if share.is_some() {
            "inside on"
        } else {
            "inside"
        };
        let _ =
            write!(out, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{:.1}\">{name}</text>", y + dy);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairmesh_lab::summary::ControlSummary;
    use fairmesh_lab::testing::record;

    fn chain() -> Drawing {
        Drawing {
            names: ["<gw>", "1", "2"].map(String::from).to_vec(),
            at: vec![(0.0, 0.0), (200.0, 0.0), (400.0, 0.0)],
            surveyed: true,
            wired: vec![false; 3],
            links: vec![(0, 1), (1, 2)],
            wires: vec![],
            gateways: vec![0],
            paths: vec![vec![1, 0], vec![2, 1, 0]],
        }
    }

    #[test]
    fn flows_and_their_homes_carry_their_share() {
        let r = [record("fifo", 1, &[(3e5, 2e5, 1), (1e3, 2e5, 2)])];
        let s = svg(&chain(), &ControlSummary::of(&r).flows);
        assert_eq!(s.matches("class=\"link\"").count(), 2);
        assert!(s.contains("class=\"flow b4\"") && s.contains("class=\"flow b0\""));
        assert!(s.contains("class=\"node b4\"") && s.contains("class=\"node b0\""));
        assert!(s.contains("class=\"node gateway \""));
        assert!(s.contains("&lt;gw&gt;") && !s.contains("<gw>"));
    }

    #[test]
    fn bands_cover_everything() {
        assert_eq!(
            [0.0, 0.3, 0.7, 1.0, 5.0].map(|o| band(Some(o))),
            ["b0", "b1", "b2", "b3", "b4"]
        );
        assert_eq!(band(None), "", "no rate is due");
    }

    #[test]
    fn a_tall_map_is_drawn_as_wide_as_it_is() {
        for (at, most) in [
            (vec![(0.0, 0.0), (0.0, 900.0)], 0.75 * HEIGHT),
            (vec![(0.0, 0.0), (300.0, 600.0)], 0.75 * HEIGHT),
            (chain().at, WIDTH),
        ] {
            let (at, height) = fit(&at);
            let (left, width) = crop(&at, height);
            assert!(width <= most + 1.0 && left >= 0.0 && left + width <= WIDTH, "{left} {width}");
            assert!(at.iter().all(|p| (left..=left + width).contains(&p.0)));
        }
    }

    #[test]
    fn drawings_stay_inside_their_box() {
        for at in [vec![(5.0, 5.0)], vec![(0.0, 0.0), (0.0, 900.0)], chain().at] {
            let (at, height) = fit(&at);
            assert!(height <= HEIGHT + 1.0);
            for (x, y) in at {
                assert!((0.0..=WIDTH).contains(&x) && (0.0..=height).contains(&y), "{x} {y}");
            }
        }
    }
}
