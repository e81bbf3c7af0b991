use fairmesh_lab::Estimate;

use super::*;

fn experiment() -> Experiment {
    toml::from_str(
        "title = \"t\"\npaper = \"p\"\nplace = \"\"\nabout = \"\"\nquick = { seeds = 1 }\n\
         full = { seeds = 1 }\nlayout = { rows = [\"arm\"], columns = [\"measure\"] }\n\
         measure = [{ label = \"a\", of = \"jain\" }, { label = \"b\", of = \"jain\", judged = false }]\n",
    )
    .unwrap()
}

fn cell(row: &str, column: &str, value: f64, half: impl Into<Option<f64>>) -> Cell {
    Cell {
        row: row.into(),
        column: column.into(),
        arm: row.into(),
        point: String::new(),
        line: column.into(),
        measure: usize::from(column == "b"),
        value: Estimate { mean: value, ci95: half.into() },
    }
}

fn paper(rows: &[(&str, f64)]) -> Paper {
    Paper {
        columns: vec!["a".into()],
        rows: rows.iter().map(|(r, v)| ((*r).to_owned(), vec![*v])).collect(),
        quotes: rows.iter().map(|(r, v)| ((*r).to_owned(), v.to_string())).collect(),
        ..Paper::default()
    }
}

use Verdict::{Agrees, Differs, NotDecided, SameDirection};

fn verdicts(p: &Paper, ours: [(f64, f64); 3]) -> Vec<Verdict> {
    let cells: Vec<Cell> =
        ["x", "y", "z"].iter().zip(ours).map(|(r, (v, h))| cell(r, "a", v, h)).collect();
    numbers(&experiment(), p, &cells).iter().map(|j| j.verdict.unwrap()).collect()
}

#[test]
fn a_tenth_and_no_more() {
    let p = paper(&[("x", 100.0), ("y", 200.0), ("z", 300.0)]);
    assert_eq!(verdicts(&p, [(110.0, 0.0), (180.0, 0.0), (330.0, 0.0)]), [Agrees; 3]);
    assert_ne!(verdicts(&p, [(110.1, 0.0), (179.9, 0.0), (330.1, 0.0)]), [Agrees; 3]);
    assert_eq!(verdicts(&p, [(110.1, 0.0), (179.9, 0.0), (330.1, 0.0)]), [SameDirection; 3]);
}

#[test]
fn order_counts_beyond_both_intervals() {
    let p = paper(&[("x", 0.4), ("y", 0.8), ("z", 0.82)]);
    let x = |ours: f64, half: f64, y: f64, y_half: f64| {
        verdicts(&p, [(ours, half), (y, y_half), (0.82, 0.0)])[0]
    };
    assert_eq!(x(0.1, 0.0, 0.8, 0.0), SameDirection);
    assert_eq!(x(0.7, 0.0, 0.6, 0.0), Differs, "above y");
    // 3 and 4 are 5 together.
    assert_eq!(x(0.5, 0.03, 0.551, 0.04), SameDirection);
    assert_eq!(x(0.5, 0.03, 0.549, 0.04), NotDecided);
    assert_eq!(x(0.5, 0.03, 0.451, 0.04), NotDecided);
    assert_eq!(x(0.5, 0.03, 0.449, 0.04), Differs);
    let tie = verdicts(&p, [(0.4, 0.0), (1.0, 0.0), (0.82, 0.0)])[1];
    assert_eq!(tie, SameDirection, "y and z are a tie in the paper");
}

#[test]
fn without_an_interval_nothing_is_decided() {
    let p = paper(&[("x", 0.4), ("y", 0.8)]);
    let cells = [cell("x", "a", 0.1, None), cell("y", "a", 0.8, 0.01)];
    let judged = numbers(&experiment(), &p, &cells);
    assert_eq!((judged[0].verdict, judged[1].verdict), (Some(NotDecided), Some(Agrees)));
}

#[test]
fn a_published_interval_is_joined_with_ours_and_a_deviation_is_none() {
    let mut p = paper(&[("x", 0.4), ("y", 0.8)]);
    let verdict = |p: &Paper, ours: f64| {
        let cells = [cell("x", "a", ours, 0.03), cell("y", "a", 0.1, 0.0)];
        numbers(&experiment(), p, &cells)[0].verdict.unwrap()
    };
    assert_eq!(verdict(&p, 0.449), Differs);
    p.intervals.insert("x".into(), vec![0.04]);
    assert_eq!(verdict(&p, 0.449), Agrees, "3 and 4 are 5 together");
    assert_eq!(verdict(&p, 0.451), Differs);
}

#[test]
fn what_the_paper_does_not_print_is_not_judged() {
    let cells = [cell("x", "a", 0.4, 0.0), cell("w", "a", 9.0, 0.0), cell("x", "b", 3.0, 0.0)];
    let mut p = paper(&[("x", 0.4)]);
    p.shown.insert("w".into(), vec![9.0]);
    let judged = |p: &Paper| -> Vec<bool> {
        numbers(&experiment(), p, &cells).iter().map(|j| j.verdict.is_some()).collect()
    };
    assert_eq!(judged(&p), [true, false, false]);
    p.repeats.insert("x".into(), "elsewhere".into());
    assert_eq!(judged(&p), [false; 3], "judged elsewhere");
}

#[test]
fn nothing_agrees_with_nothing_as_the_paper_prints_it() {
    let mut p = paper(&[("x", 0.0), ("y", 3.0)]);
    p.quotes.insert("x".into(), "0.00".into());
    let x = |ours| verdict_of(&p, ours);
    fn verdict_of(p: &Paper, ours: f64) -> Verdict {
        let cells = [cell("x", "a", ours, 0.0), cell("y", "a", 3.0, 0.0)];
        numbers(&experiment(), p, &cells)[0].verdict.unwrap()
    }
    assert_eq!((x(0.0049), x(0.0051)), (Agrees, SameDirection));
}

#[test]
fn pairs_are_right_wrong_or_open() {
    let p = paper(&[("x", 0.4), ("y", 0.8), ("z", 0.81)]);
    let o = Order { column: "a".into(), rows: None, tie: 0.02 };
    let of = |x, y, z, half: f64| {
        order(&o, &p, &[cell("x", "a", x, half), cell("y", "a", y, half), cell("z", "a", z, half)])
    };
    let pairs = of(0.9, 0.8, 0.95, 0.0);
    assert_eq!((pairs.all, pairs.wrong.len(), pairs.open.len()), (2, 1, 0));
    let pairs = of(0.1, 0.3, 0.2, 0.1);
    assert_eq!((pairs.all, pairs.wrong.len(), pairs.open), (2, 0, vec![["x".into(), "z".into()]]));
}

fn outcome(text: &str, x: (f64, f64), y: (f64, f64)) -> Outcome {
    let c: Claim = toml::from_str(&format!(
        "says = \"\"\nsource = \"\"\ncell = [\"x\", \"a\"]\n{text} = {{ cell = [\"y\", \"a\"], times = 2 }}\n"
    ))
    .unwrap();
    claim(&c, &[cell("x", "a", x.0, x.1), cell("y", "a", y.0, y.1)]).0
}

#[test]
fn statements_hold_outside_their_interval_only() {
    use Outcome::{Fails, Holds, NotDecided, NotRun};
    // 3 and twice 2 are 5 together.
    assert_eq!(outcome("above", (25.1, 3.0), (10.0, 2.0)), Holds);
    assert_eq!(outcome("above", (24.9, 3.0), (10.0, 2.0)), NotDecided);
    assert_eq!(outcome("above", (15.1, 3.0), (10.0, 2.0)), NotDecided);
    assert_eq!(outcome("above", (14.9, 3.0), (10.0, 2.0)), Fails);
    assert_eq!(outcome("below", (14.9, 3.0), (10.0, 2.0)), Holds);
    let absent: Claim = toml::from_str(
        "says = \"\"\nsource = \"\"\ncell = [\"x\", \"a\"]\nabove = { cell = [\"z\", \"a\"] }\n",
    )
    .unwrap();
    assert_eq!(claim(&absent, &[cell("x", "a", 3.0, 0.0)]), (NotRun, Some(3.0)));
    assert_eq!(claim(&absent, &[]), (NotRun, None));
}

#[test]
fn about_is_a_tenth_to_either_side_and_starving_less_than_a_tenth() {
    use Outcome::{Fails, Holds, NotDecided};
    assert_eq!(outcome("about", (21.9, 0.0), (10.0, 0.0)), Holds);
    assert_eq!(outcome("about", (18.1, 0.0), (10.0, 0.0)), Holds);
    assert_eq!(outcome("about", (22.1, 0.0), (10.0, 0.0)), Fails);
    assert_eq!(outcome("about", (17.9, 0.0), (10.0, 0.0)), Fails);
    assert_eq!(outcome("about", (21.0, 2.0), (10.0, 0.0)), NotDecided);
    assert_eq!(outcome("starves", (1.9, 0.0), (10.0, 0.0)), Holds);
    assert_eq!(outcome("starves", (2.1, 0.0), (10.0, 0.0)), Fails);
}
