//! Network of a drawing: nodes, links, gateways, and each flow's path.

use fairmesh_lab::scenario::{Flow, Node, NodeKind, Scenario};

use super::layout;

/// The drawn parts of a scenario.
#[derive(Clone, Debug, Default)]
pub struct Drawing {
    /// Node names.
    pub names: Vec<String>,
    /// Position of each node in the drawing, at any scale, y upwards.
    pub at: Vec<(f64, f64)>,
    /// True if `at` has the nodes' real positions.
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
    /// Further radios of nodes: their names and their nodes.
    pub radios: Vec<(String, usize)>,
}

impl From<&Scenario> for Drawing {
    fn from(s: &Scenario) -> Self {
        // A node is drawn once for any number of radios.
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
        let known = surveyed(&shown, &wires);
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
            radios: s.nodes().iter().filter_map(|n| Some((n.name.clone(), place(n.of?)))).collect(),
        }
    }
}

/// Returns the positions of nodes if all with a radio have one.
///
/// Wired hosts without a position are placed beside their first neighbour.
fn surveyed(nodes: &[&Node], wires: &[(usize, usize)]) -> Option<Vec<(f64, f64)>> {
    let placed = |n: &&Node| n.position.is_some() || n.kind == NodeKind::Wired;
    if !nodes.iter().all(placed) {
        return None;
    }
    let known: Vec<(f64, f64)> = nodes.iter().filter_map(|n| n.position).collect();
    // Nodes at a single place do not make a map.
    let first = *known.first()?;
    if known.iter().all(|p| *p == first) && nodes.len() > 1 {
        return None;
    }
    let n = known.len() as f64;
    let centre = known.iter().fold((0.0, 0.0), |c, p| (c.0 + p.0 / n, c.1 + p.1 / n));
    let reach = known.iter().map(|p| (p.0 - centre.0).hypot(p.1 - centre.1)).fold(0.0, f64::max);
    let beside = |i: usize| {
        let other = wires.iter().find_map(|&(a, b)| match (a == i, b == i) {
            (true, _) => Some(b),
            (_, true) => Some(a),
            _ => None,
        });
        let (x, y) = other.and_then(|o| nodes[o].position).unwrap_or(centre);
        // Away from the middle of the mesh, or upwards in the middle.
        let (dx, dy) = (x - centre.0, y - centre.1);
        let length = dx.hypot(dy);
        let (ux, uy) = if length > 1e-6 { (dx / length, dy / length) } else { (0.0, 1.0) };
        (x + ux * reach * 0.2, y + uy * reach * 0.2)
    };
    Some((0..nodes.len()).map(|i| nodes[i].position.unwrap_or_else(|| beside(i))).collect())
}

pub(crate) const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 420.0;
const MARGIN: f64 = 34.0;

/// Scales to the drawing's size, equally on both axes; also returns the resulting height.
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

#[cfg(test)]
mod tests {
    use super::*;
    use fairmesh_lab::Changes;
    use fairmesh_lab::control::Registry;
    use fairmesh_lab::source::load;

    fn drawing(toml: &str) -> Drawing {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.toml");
        std::fs::write(&path, toml).unwrap();
        let loaded = load(&path, &Changes::default(), &Registry::standard()).unwrap();
        Drawing::from(&loaded.scenario)
    }

    #[test]
    fn a_wired_host_without_a_position_does_not_hide_those_of_the_mesh() {
        let scenario = |a: &str, b: &str| {
            format!(
                "name = \"x\"\nduration = \"10 s\"\n[topology]\ngateway = \"g\"\n[wired]\nhosts = [\"h\"]\n\
                 [[node]]\nid = \"g\"\n{a}[[node]]\nid = \"a\"\n{b}[[flow]]\nfrom = \"a\"\nto = \"h\"\n"
            )
        };
        let d = drawing(&scenario("position = [0, 0]\n", "position = [200, 0]\n"));
        assert!(d.surveyed);
        assert_eq!(d.at[..2], [(0.0, 0.0), (200.0, 0.0)]);
        let h = d.names.iter().position(|n| n == "h").unwrap();
        // Beside the gateway, away from the mesh.
        assert_eq!(d.at[h], (-20.0, 0.0));
        assert_eq!(d.wires, [(0, h)]);
    }

    #[test]
    fn drawings_stay_inside_their_box() {
        let chain = vec![(0.0, 0.0), (200.0, 0.0), (400.0, 0.0)];
        for at in [vec![(5.0, 5.0)], vec![(0.0, 0.0), (0.0, 900.0)], chain] {
            let (at, height) = fit(&at);
            assert!(height <= HEIGHT + 1.0);
            for (x, y) in at {
                assert!((0.0..=WIDTH).contains(&x) && (0.0..=height).contains(&y), "{x} {y}");
            }
        }
    }
}
