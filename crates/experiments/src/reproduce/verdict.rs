//! The one rule: when a number, an order and a statement of a paper come out here too.
//!
//! - A number that the paper prints *agrees* when ours is within [`SAME`] of it, or inside the joint
//!   95 % interval of both means where the paper prints one. A deviation over other networks is no
//!   tolerance.
//! - Else its *direction is the same* if it lies to every other number of its column (or row) as
//!   the paper's does, beyond both intervals; numbers that the paper has within [`SAME`] of each
//!   other are in no order.
//! - If an interval leaves that open it is *not decided*; if one lies the other way it *differs*.
//! - A statement *holds* when the interval of its difference lies wholly on the side it names,
//!   *fails* when wholly on the other, and else is *not decided*.
//! - What the paper does not print is shown, and what another table judges is not judged again.

use serde::{Deserialize, Serialize};

use super::cells::Cell;
use super::claim::{Bound, Claim};
use super::declare::{Experiment, Order, Way};
use super::paper::{Paper, Theirs};

/// Two numbers are the same within this part of the paper's.
pub const SAME: f64 = 0.1;
/// A flow starves below this part of another's rate.
pub const STARVED: f64 = 0.1;

/// The outcome of a comparison, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Within the tolerance.
    Agrees,
    /// Ordered as in the paper.
    SameDirection,
    /// Ordered as in the paper, or not: the intervals leave it open.
    NotDecided,
    /// Neither.
    Differs,
}

impl Verdict {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Agrees => "agrees",
            Verdict::SameDirection => "same direction",
            Verdict::NotDecided => "not decided",
            Verdict::Differs => "differs",
        }
    }
}

/// What became of a statement, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It holds beyond its interval.
    Holds,
    /// Its interval reaches to both sides.
    NotDecided,
    /// A number is not there.
    NotRun,
    /// It does not hold, beyond its interval.
    Fails,
}

impl Outcome {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Outcome::Holds => "holds",
            Outcome::NotDecided => "not decided",
            Outcome::NotRun => "not run",
            Outcome::Fails => "fails",
        }
    }
}

/// A number beside the paper's.
#[derive(Clone, Debug)]
pub struct Judged<'a> {
    /// Ours.
    pub cell: &'a Cell,
    /// The paper's.
    pub paper: Option<Theirs>,
    /// `None` where the paper prints no number or it is not judged.
    pub verdict: Option<Verdict>,
}

/// A difference of two means and half of its 95 % interval; `None` where that is not known.
#[derive(Clone, Copy, Debug)]
struct Margin(f64, Option<f64>);

impl Margin {
    /// On which side of nothing it lies.
    fn outcome(self) -> Outcome {
        match self.1 {
            Some(half) if self.0 > half => Outcome::Holds,
            Some(half) if self.0 < -half => Outcome::Fails,
            _ => Outcome::NotDecided,
        }
    }
}

/// `cell − times × other`. Half-widths of independent means add as squares.
fn minus(cell: &Cell, times: f64, other: &Cell) -> Margin {
    let halves = cell.value.ci95.zip(other.value.ci95);
    let half = halves.map(|(a, b)| a.hypot(times * b));
    Margin(cell.value.mean - times * other.value.mean, half)
}

/// Holds every number against the paper's.
pub fn numbers<'a>(experiment: &Experiment, paper: &Paper, cells: &'a [Cell]) -> Vec<Judged<'a>> {
    let known: Vec<(&Cell, Option<Theirs>)> =
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
    let verdict = |cell: &Cell, theirs: Theirs| {
        if agrees(cell, theirs) {
            return Verdict::Agrees;
        }
        let others = known.iter().filter(|(other, _)| beside(cell, other)).filter_map(|(o, p)| {
            let p = p.filter(|p| p.printed && !p.twin)?;
            (!close(p.value, theirs.value) && !close(theirs.value, p.value)).then(|| {
                let Margin(by, half) = minus(cell, 1.0, o);
                Margin(if theirs.value > p.value { by } else { -by }, half).outcome()
            })
        });
        match others.max() {
            Some(Outcome::Holds) => Verdict::SameDirection,
            Some(Outcome::NotDecided | Outcome::NotRun) => Verdict::NotDecided,
            Some(Outcome::Fails) | None => Verdict::Differs,
        }
    };
    known
        .iter()
        .map(|&(cell, theirs)| {
            let verdict =
                theirs.filter(|t| t.is_judged() && judged(cell)).map(|t| verdict(cell, t));
            Judged { cell, paper: theirs, verdict }
        })
        .collect()
}

fn agrees(cell: &Cell, theirs: Theirs) -> bool {
    let (ours, value) = (cell.value.mean, theirs.value);
    // Nothing is within a tenth of nothing: then ours shows as nothing with the paper's digits.
    let nothing = value == 0.0 && ours.abs() < 0.5 * 10f64.powi(-(theirs.digits as i32));
    let interval = cell.value.ci95.zip(theirs.half);
    let joint = interval.is_some_and(|(a, b)| (ours - value).abs() <= a.hypot(b));
    nothing || joint || close(ours, value)
}

fn close(ours: f64, theirs: f64) -> bool {
    // A number that is written 0.85 is not exactly that in binary.
    (ours - theirs).abs() <= SAME * theirs.abs() * (1.0 + 1e-9)
}

/// What became of the pairs of rows that the paper orders: how many there are, and the pairs that
/// come out the other way round and those left open, `[lower, higher]` in the paper's terms.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pairs {
    /// Pairs that the paper orders.
    pub all: usize,
    /// The other way round.
    pub wrong: Vec<[String; 2]>,
    /// Left open.
    pub open: Vec<[String; 2]>,
}

/// Sorts pairs of rows by what became of them.
pub fn order(order: &Order, paper: &Paper, cells: &[Cell]) -> Pairs {
    let chosen = |c: &&Cell| {
        c.column == order.column && order.rows.as_ref().is_none_or(|r| r.contains(&c.row))
    };
    let printed = |c: &Cell| paper.get(&c.row, &c.column).filter(|p| p.printed);
    let rows: Vec<(&Cell, f64)> =
        cells.iter().filter(chosen).filter_map(|c| Some((c, printed(c)?.value))).collect();
    let mut pairs = Pairs::default();
    for (i, (a, pa)) in rows.iter().enumerate() {
        for (b, pb) in &rows[i + 1..] {
            if (pa - pb).abs() <= order.tie + 1e-9 {
                continue;
            }
            pairs.all += 1;
            let (low, high) = if pa < pb { (a, b) } else { (b, a) };
            let pair = [low.row.clone(), high.row.clone()];
            match minus(high, 1.0, low).outcome() {
                Outcome::Holds => {}
                Outcome::Fails => pairs.wrong.push(pair),
                Outcome::NotDecided | Outcome::NotRun => pairs.open.push(pair),
            }
        }
    }
    pairs
}

/// What became of a statement, and the number it is about; `None` where that is missing.
pub fn claim(claim: &Claim, cells: &[Cell]) -> (Outcome, Option<f64>) {
    let find =
        |[row, column]: &[String; 2]| cells.iter().find(|c| c.row == *row && c.column == *column);
    let Some(ours) = find(&claim.cell) else { return (Outcome::NotRun, None) };
    let over = |b: &Bound, part: f64| match b {
        Bound::Number(n) => Some(Margin(ours.value.mean - part * n, ours.value.ci95)),
        Bound::Cell { cell, times } => Some(minus(ours, part * times, find(cell)?)),
    };
    let above = |b: &Bound, part| over(b, part).map_or(Outcome::NotRun, Margin::outcome);
    let below =
        |b: &Bound, part| over(b, part).map_or(Outcome::NotRun, |m| Margin(-m.0, m.1).outcome());
    // Between minus a tenth and a tenth beyond, whatever the sign.
    let about = |b: &Bound| {
        let (low, high) = match b {
            Bound::Number(n) if *n < 0.0 => (1.0 + SAME, 1.0 - SAME),
            _ => (1.0 - SAME, 1.0 + SAME),
        };
        above(b, low).max(below(b, high))
    };
    let outcome = [
        claim.above.as_ref().map(|b| above(b, 1.0)),
        claim.below.as_ref().map(|b| below(b, 1.0)),
        claim.about.as_ref().map(about),
        claim.starves.as_ref().map(|b| below(b, STARVED)),
    ];
    (outcome.into_iter().flatten().max().unwrap_or(Outcome::NotRun), Some(ours.value.mean))
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
