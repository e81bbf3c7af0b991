//! When a number, a row, an order and a statement of the paper come out here too.
//!
//! - A number *agrees* within the tolerance of its measure, or within the standard deviation over
//!   networks where the paper states one: its networks are not ours.
//! - Else its *direction is the same* if it is ordered against every other number of its column
//!   (or row) as the paper's are, those apart that the paper has within the tolerance of each
//!   other.
//! - Else it *differs*.
//!
//! A row is as good as the worst of its judged numbers.

use serde::{Deserialize, Serialize};

use super::cells::Cell;
use super::declare::{Bound, Claim, Experiment, Order, Tolerance, Way};
use super::paper::Paper;

/// The outcome of a comparison, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Within the tolerance.
    Agrees,
    /// Ordered as in the paper.
    SameDirection,
    /// Neither.
    Differs,
}

impl Verdict {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Agrees => "agrees",
            Verdict::SameDirection => "same direction",
            Verdict::Differs => "differs",
        }
    }
}

/// A number beside the paper's.
#[derive(Clone, Debug)]
pub struct Judged<'a> {
    /// Ours.
    pub cell: &'a Cell,
    /// The paper's.
    pub paper: Option<f64>,
    /// `None` where the paper has no number or it is not judged.
    pub verdict: Option<Verdict>,
}

/// Holds every number against the paper's.
pub fn numbers<'a>(experiment: &Experiment, paper: &Paper, cells: &'a [Cell]) -> Vec<Judged<'a>> {
    let tolerance = |c: &Cell| {
        let measure = &experiment.measures[c.measure];
        let mut t = measure.within.unwrap_or(experiment.verdict);
        let spread = measure.spread.as_ref().and_then(|s| paper.get(&c.row, s));
        t.absolute = t.absolute.max(spread.unwrap_or(0.0));
        t
    };
    let known: Vec<(&Cell, Option<f64>)> =
        cells.iter().map(|c| (c, paper.get(&c.row, &c.column))).collect();
    let judged = |c: &Cell| experiment.measures[c.measure].judged;
    let way = experiment.layout.direction.unwrap_or({
        let first = cells.first().map(|c| &c.row);
        if cells.iter().all(|c| Some(&c.row) == first) { Way::Row } else { Way::Column }
    });
    let beside = |a: &Cell, b: &Cell| match way {
        Way::Column => a.column == b.column && a.row != b.row,
        Way::Row => a.row == b.row && a.column != b.column && a.measure == b.measure,
    };
    known
        .iter()
        .map(|&(cell, theirs)| {
            let verdict = theirs.filter(|_| judged(cell)).map(|theirs| {
                let t = tolerance(cell);
                if close(cell.value.mean, theirs, t) {
                    return Verdict::Agrees;
                }
                let others: Vec<(f64, f64)> = known
                    .iter()
                    .filter(|(other, _)| beside(cell, other))
                    .filter_map(|(other, p)| Some((other.value.mean, (*p)?)))
                    .filter(|&(_, p)| !close(p, theirs, t) && !close(theirs, p, t))
                    .collect();
                let ordered = |&(ours, p): &(f64, f64)| {
                    (cell.value.mean - ours).total_cmp(&0.0) == (theirs - p).total_cmp(&0.0)
                };
                if !others.is_empty() && others.iter().all(ordered) {
                    Verdict::SameDirection
                } else {
                    Verdict::Differs
                }
            });
            Judged { cell, paper: theirs, verdict }
        })
        .collect()
}

fn close(ours: f64, theirs: f64, t: Tolerance) -> bool {
    // A number that is written 0.85 is not exactly that in binary.
    (ours - theirs).abs() <= t.of(theirs) * (1.0 + 1e-9)
}

/// Pairs of rows that the paper orders and that come out the other way round, `better < worse`
/// in the paper's terms, and how many pairs there are.
pub fn order(order: &Order, paper: &Paper, cells: &[Cell]) -> (Vec<[String; 2]>, usize) {
    let chosen = |c: &&Cell| {
        c.column == order.column && order.rows.as_ref().is_none_or(|r| r.contains(&c.row))
    };
    let rows: Vec<(&Cell, f64)> = cells
        .iter()
        .filter(chosen)
        .filter_map(|c| Some((c, paper.get(&c.row, &c.column)?)))
        .collect();
    let (mut wrong, mut pairs) = (Vec::new(), 0);
    for (i, (a, pa)) in rows.iter().enumerate() {
        for (b, pb) in &rows[i + 1..] {
            if (pa - pb).abs() <= order.tie + 1e-9 {
                continue;
            }
            pairs += 1;
            let (low, high) = if pa < pb { (a, b) } else { (b, a) };
            if low.value.mean >= high.value.mean {
                wrong.push([low.row.clone(), high.row.clone()]);
            }
        }
    }
    (wrong, pairs)
}

/// Whether a statement holds, and the number it is about; `None` where a number is missing.
pub fn claim(claim: &Claim, cells: &[Cell]) -> Option<(bool, f64)> {
    let find = |[row, column]: &[String; 2]| {
        cells.iter().find(|c| c.row == *row && c.column == *column).map(|c| c.value.mean)
    };
    let bound = |b: &Bound| match b {
        Bound::Number(n) => Some(*n),
        Bound::Cell { cell, times } => find(cell).map(|v| v * times),
    };
    let ours = find(&claim.cell)?;
    let mut holds = true;
    if let Some(b) = &claim.above {
        holds &= ours > bound(b)?;
    }
    if let Some(b) = &claim.below {
        holds &= ours < bound(b)?;
    }
    Some((holds, ours))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairmesh_lab::Estimate;

    fn experiment() -> Experiment {
        toml::from_str(
            "title = \"t\"\npaper = \"p\"\nplace = \"\"\nabout = \"\"\nquick = { seeds = 1 }\n\
             full = { seeds = 1 }\nlayout = { rows = [\"arm\"], columns = [\"measure\"] }\n\
             verdict = { relative = 0.1, absolute = 0.05 }\n\
             measure = [{ label = \"a\", of = \"jain\" }, { label = \"b\", of = \"jain\", judged = false }]\n",
        )
        .unwrap()
    }

    fn cell(row: &str, column: &str, value: f64) -> Cell {
        Cell {
            row: row.into(),
            column: column.into(),
            arm: row.into(),
            point: String::new(),
            line: column.into(),
            measure: usize::from(column == "b"),
            value: Estimate::exact(value),
        }
    }

    fn paper(rows: &[(&str, f64)]) -> Paper {
        Paper {
            columns: vec!["a".into()],
            rows: rows.iter().map(|(r, v)| ((*r).to_owned(), vec![*v])).collect(),
            ..Paper::default()
        }
    }

    #[test]
    fn three_verdicts() {
        let p = paper(&[("x", 0.4), ("y", 0.8), ("z", 0.82)]);
        let verdicts = |x, y, z| {
            let cells = [cell("x", "a", x), cell("y", "a", y), cell("z", "a", z)];
            numbers(&experiment(), &p, &cells)
                .iter()
                .map(|j| j.verdict.unwrap())
                .collect::<Vec<_>>()
        };
        use Verdict::{Agrees, Differs, SameDirection};
        assert_eq!(verdicts(0.44, 0.73, 0.89), [Agrees; 3]);
        assert_eq!(verdicts(0.1, 0.8, 0.82), [SameDirection, Agrees, Agrees]);
        assert_eq!(verdicts(0.7, 0.6, 0.82)[0], Differs, "above y");
        assert_eq!(verdicts(0.4, 1.0, 0.82)[1], SameDirection, "y and z are a tie in the paper");
    }

    #[test]
    fn a_published_deviation_widens_the_tolerance() {
        let mut e = experiment();
        e.measures[0].spread = Some("sd".into());
        let mut p = paper(&[("x", 0.4)]);
        p.columns.push("sd".into());
        p.rows.insert("x".into(), vec![0.4, 0.24]);
        let verdict = |value| numbers(&e, &p, &[cell("x", "a", value)])[0].verdict.unwrap();
        assert_eq!(verdict(0.63), Verdict::Agrees);
        assert_eq!(verdict(0.65), Verdict::Differs);
    }

    #[test]
    fn what_the_paper_has_not_is_not_judged() {
        let cells = [cell("x", "a", 0.4), cell("w", "a", 9.0), cell("x", "b", 3.0)];
        let p = paper(&[("x", 0.4)]);
        let e = experiment();
        let judged = numbers(&e, &p, &cells);
        assert!(judged[0].verdict.is_some() && judged[1].verdict.is_none());
        assert!(judged[2].verdict.is_none());
    }

    #[test]
    fn orders_name_the_pairs_that_are_wrong() {
        let p = paper(&[("x", 0.4), ("y", 0.8), ("z", 0.81)]);
        let o = Order { column: "a".into(), rows: None, tie: 0.02 };
        let cells = [cell("x", "a", 0.9), cell("y", "a", 0.8), cell("z", "a", 0.95)];
        assert_eq!(order(&o, &p, &cells), (vec![["x".into(), "y".into()]], 2));
        let cells = [cell("x", "a", 0.1), cell("y", "a", 0.3), cell("z", "a", 0.2)];
        assert_eq!(order(&o, &p, &cells), (vec![], 2));
    }

    #[test]
    fn statements_compare_numbers_with_numbers() {
        let c: Claim = toml::from_str(
            "says = \"\"\nsource = \"\"\ncell = [\"x\", \"a\"]\nabove = 2\n\
             below = { cell = [\"y\", \"a\"], times = 0.5 }\n",
        )
        .unwrap();
        let check = |x, y| claim(&c, &[cell("x", "a", x), cell("y", "a", y)]);
        assert_eq!(check(3.0, 7.0), Some((true, 3.0)));
        assert_eq!(check(3.0, 6.0), Some((false, 3.0)));
        assert_eq!(check(1.0, 6.0), Some((false, 1.0)));
        assert_eq!(claim(&c, &[cell("x", "a", 3.0)]), None);
    }
}
