//! The rules of judgement for a number, an order and a statement of a paper.
//!
//! - A number that the paper prints *agrees* when the whole 95 % interval of ours lies within [`EQUALITY_TOLERANCE`]
//!   of it, *differs* when the whole interval lies outside, and is else *open*. Where the paper
//!   prints an interval, the two are joined.
//! - An order of rows is a statement of its own: each pair of rows is ordered as in the paper, the
//!   other way round, or open, beyond the joint interval of both.
//! - A statement *holds* when the interval of its difference lies wholly on the side it names,
//!   *fails* when wholly on the other, and is else *open*.
//! - A number that the paper does not print is shown. A number that another table judges is not
//!   judged again, and an arm that is not the paper's ([`Arm::second`](super::declare::Arm)) is never judged.

use fairmesh_lab::Estimate;
use serde::{Deserialize, Serialize};

use super::cell::Cell;
use super::claim::{Bound, Claim};
use super::declare::{Experiment, Order};
use super::paper::{Paper, PublishedNumber};

/// Relative tolerance within which two numbers are the same.
pub const EQUALITY_TOLERANCE: f64 = 0.1;
/// Fraction of another flow's rate below which a flow starves.
pub const STARVATION_FRACTION: f64 = 0.1;

/// The outcome of a comparison of two numbers, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The interval lies within the tolerance.
    Agrees,
    /// The interval reaches inside and outside the tolerance, or there is none.
    Open,
    /// The interval lies outside the tolerance.
    Differs,
}

impl Verdict {
    /// Returns its word on pages.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Agrees => "agrees",
            Verdict::Open => "open",
            Verdict::Differs => "differs",
        }
    }
}

/// The outcome of a statement, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The statement holds beyond the interval of the difference.
    Holds,
    /// The interval of the difference reaches to both sides.
    Open,
    /// A number of the statement was not measured.
    NotRun,
    /// The statement does not hold, beyond the interval of the difference.
    Fails,
}

impl Outcome {
    /// Returns its word on pages.
    pub fn words(self) -> &'static str {
        match self {
            Outcome::Holds => "holds",
            Outcome::Open => "open",
            Outcome::NotRun => "not run",
            Outcome::Fails => "fails",
        }
    }
}

/// A number beside the paper's.
#[derive(Clone, Debug)]
pub struct Judged<'a> {
    /// Our number.
    pub cell: &'a Cell,
    /// The paper's number.
    pub paper: Option<PublishedNumber>,
    /// `None` if the paper prints no number or the number is not judged.
    pub verdict: Option<Verdict>,
}

/// A difference of two means and half of its 95 % interval; `None` if that is unknown.
#[derive(Clone, Copy, Debug)]
struct Margin(f64, Option<f64>);

impl Margin {
    /// Returns the outcome by the side of zero on which it lies.
    fn outcome(self) -> Outcome {
        match self.1 {
            Some(half) if self.0 > half => Outcome::Holds,
            Some(half) if self.0 < -half => Outcome::Fails,
            _ => Outcome::Open,
        }
    }
}

/// Returns `cell − times × other`; half-widths of independent means add as squares.
fn minus(cell: &Cell, times: f64, other: &Cell) -> Margin {
    let halves = cell.value.ci95.zip(other.value.ci95);
    let half = halves.map(|(a, b)| a.hypot(times * b));
    Margin(cell.value.mean - times * other.value.mean, half)
}

/// Compares every number with the paper's.
pub fn numbers<'a>(experiment: &Experiment, paper: &Paper, cells: &'a [Cell]) -> Vec<Judged<'a>> {
    let of = |cell: &'a Cell| {
        let published = paper.get(&cell.row, &cell.column);
        let asked = experiment.measures[cell.measure].judged && !experiment.is_second(&cell.arm);
        let verdict = published.filter(|t| t.is_judged() && asked).map(|t| number(cell, t));
        Judged { cell, paper: published, verdict }
    };
    cells.iter().map(of).collect()
}

fn number(cell: &Cell, published: PublishedNumber) -> Verdict {
    // No number is within a tenth of zero: ours must round to zero with the paper's digits.
    let tolerance = match published.value {
        0.0 => 0.5 * 10f64.powi(-(published.digits as i32)),
        // A number such as 0.85 is not exact in binary.
        value => EQUALITY_TOLERANCE * value.abs() * (1.0 + 1e-9),
    };
    let off = (cell.value.mean - published.value).abs();
    match cell.value.ci95.map(|half| half.hypot(published.half.unwrap_or(0.0))) {
        Some(half) if off + half <= tolerance => Verdict::Agrees,
        Some(half) if off - half > tolerance => Verdict::Differs,
        _ => Verdict::Open,
    }
}

/// Pairs of rows that the paper orders, `[lower, higher]` in the paper's terms.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pairs {
    /// Pairs that the paper orders.
    pub all: usize,
    /// Pairs in reverse order.
    pub wrong: Vec<[String; 2]>,
    /// Pairs that are left open.
    pub open: Vec<[String; 2]>,
}

/// Sorts pairs of rows by their outcome; rows that are not the paper's have no order.
pub fn order(experiment: &Experiment, order: &Order, paper: &Paper, cells: &[Cell]) -> Pairs {
    let chosen = |c: &&Cell| {
        c.column == order.column
            && order.rows.as_ref().is_none_or(|r| r.contains(&c.row))
            && !experiment.is_second(&c.arm)
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
                Outcome::Open | Outcome::NotRun => pairs.open.push(pair),
            }
        }
    }
    pairs
}

/// Returns the mean of one minus the quotient of each pair.
///
/// Relative half-widths of independent means add as squares.
fn distance(pairs: &[(Estimate, Estimate)]) -> Estimate {
    let n = pairs.len() as f64;
    let mut sum = Estimate { mean: 0.0, ci95: Some(0.0) };
    for (a, b) in pairs {
        let quotient = a.mean / b.mean;
        sum.mean += (1.0 - quotient) / n;
        let halves = a.ci95.zip(b.ci95).zip(sum.ci95);
        sum.ci95 = halves
            .map(|((ha, hb), sum)| sum.hypot(quotient * (ha / a.mean).hypot(hb / b.mean) / n));
    }
    sum
}

/// Returns the outcome of a statement and its number; `None` if that is missing.
pub fn claim(claim: &Claim, cells: &[Cell]) -> (Outcome, Option<f64>) {
    let find =
        |[row, column]: &[String; 2]| cells.iter().find(|c| c.row == *row && c.column == *column);
    let Some(own) = find(&claim.cell) else { return (Outcome::NotRun, None) };
    let mut ours = own.clone();
    if !claim.gaps.is_empty() {
        let pairs = claim.gaps.iter().map(|[a, b]| Some((find(a)?.value, find(b)?.value)));
        let Some(pairs) = pairs.collect::<Option<Vec<_>>>() else { return (Outcome::NotRun, None) };
        ours.value = distance(&pairs);
    }
    let ours = &ours;
    let over = |b: &Bound, part: f64| match b {
        Bound::Number(n) => Some(Margin(ours.value.mean - part * n, ours.value.ci95)),
        Bound::Cell { cell, times, less } => {
            let Margin(by, half) = minus(ours, part * times, find(cell)?);
            Some(Margin(by + part * less, half))
        }
        Bound::Line { line: [a, b] } => {
            // ours − part (2b − a)
            let Margin(by, half) = minus(ours, 2.0 * part, find(b)?);
            let a = find(a)?.value;
            let half = half.zip(a.ci95).map(|(h, a)| h.hypot(part * a));
            Some(Margin(by + part * a.mean, half))
        }
    };
    let above = |b: &Bound, part| over(b, part).map_or(Outcome::NotRun, Margin::outcome);
    let below =
        |b: &Bound, part| over(b, part).map_or(Outcome::NotRun, |m| Margin(-m.0, m.1).outcome());
    // The difference is within a tenth on either side, for any sign.
    let about = |b: &Bound| {
        let (low, high) = match b {
            Bound::Number(n) if *n < 0.0 => (1.0 + EQUALITY_TOLERANCE, 1.0 - EQUALITY_TOLERANCE),
            _ => (1.0 - EQUALITY_TOLERANCE, 1.0 + EQUALITY_TOLERANCE),
        };
        above(b, low).max(below(b, high))
    };
    let outcome = [
        claim.above.as_ref().map(|b| above(b, 1.0)),
        claim.below.as_ref().map(|b| below(b, 1.0)),
        claim.about.as_ref().map(about),
        claim.starves.as_ref().map(|b| below(b, STARVATION_FRACTION)),
        claim.fed.as_ref().map(|b| above(b, STARVATION_FRACTION)),
        claim.unlike.as_ref().map(|b| match about(b) {
            Outcome::Holds => Outcome::Fails,
            Outcome::Fails => Outcome::Holds,
            other => other,
        }),
    ];
    (outcome.into_iter().flatten().max().unwrap_or(Outcome::NotRun), Some(ours.value.mean))
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
