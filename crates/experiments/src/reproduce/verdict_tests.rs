use fairmesh_lab::Estimate;

use super::*;

fn experiment() -> Experiment {
    toml::from_str(
        "title = \"t\"\npaper = \"p\"\nplace = \"\"\nabout = \"\"\nquick = { seeds = 1 }\n\
         full = { seeds = 1 }\nlayout = { rows = [\"arm\"], columns = [\"measure\"] }\n\
         arm = [{ label = \"x\" }, { label = \"ours\", second = \"our variant\" }]\n\
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

use Verdict::{Agrees, Differs, Open};

fn verdict_of(p: &Paper, ours: f64, half: impl Into<Option<f64>>) -> Verdict {
    numbers(&experiment(), p, &[cell("x", "a", ours, half)])[0].verdict.unwrap()
}

#[test]
fn a_number_is_judged_by_its_whole_interval() {
    let p = paper(&[("x", 100.0)]);
    let x = |ours, half: f64| verdict_of(&p, ours, half);
    assert_eq!([x(110.0, 0.0), x(90.0, 0.0), x(105.0, 5.0), x(95.0, 5.0)], [Agrees; 4]);
    assert_eq!([x(110.1, 0.0), x(89.9, 0.0), x(115.1, 5.0), x(84.9, 5.0)], [Differs; 4]);
    assert_eq!(
        [x(105.1, 5.0), x(94.9, 5.0), x(114.9, 5.0), x(85.1, 5.0), x(100.0, 10.1)],
        [Open; 5]
    );
}

#[test]
fn without_an_interval_a_number_is_open() {
    let p = paper(&[("x", 0.4)]);
    assert_eq!([verdict_of(&p, 0.4, None), verdict_of(&p, 4.0, None)], [Open; 2]);
}

#[test]
fn a_published_interval_is_joined_with_ours() {
    let mut p = paper(&[("x", 0.4)]);
    assert_eq!(verdict_of(&p, 0.471, 0.03), Differs);
    p.intervals.insert("x".into(), vec![0.04]);
    // 3 and 4 combine to 5.
    assert_eq!(verdict_of(&p, 0.489, 0.03), Open);
    assert_eq!(verdict_of(&p, 0.491, 0.03), Differs);
}

#[test]
fn an_arm_that_is_not_the_papers_is_never_judged() {
    let p = paper(&[("x", 0.4), ("ours", 0.4)]);
    let cells = [cell("x", "a", 0.4, 0.0), cell("ours", "a", 0.4, 0.0)];
    let judged: Vec<_> = numbers(&experiment(), &p, &cells).iter().map(|j| j.verdict).collect();
    assert_eq!(judged, [Some(Agrees), None]);
    let o = Order { column: "a".into(), rows: None, tie: 0.0 };
    let p = paper(&[("x", 0.4), ("ours", 0.5)]);
    assert_eq!(order(&experiment(), &o, &p, &cells).all, 0);
}

#[test]
fn values_that_a_paper_does_not_print_are_not_judged() {
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
fn zero_agrees_with_zero_as_the_paper_prints_it() {
    let mut p = paper(&[("x", 0.0)]);
    p.quotes.insert("x".into(), "0.00".into());
    assert_eq!((verdict_of(&p, 0.0049, 0.0), verdict_of(&p, 0.0051, 0.0)), (Agrees, Differs));
}

#[test]
fn pairs_are_right_wrong_or_open() {
    let p = paper(&[("x", 0.4), ("y", 0.8), ("z", 0.81)]);
    let o = Order { column: "a".into(), rows: None, tie: 0.02 };
    let of = |x, y, z, half: f64| {
        order(
            &experiment(),
            &o,
            &p,
            &[cell("x", "a", x, half), cell("y", "a", y, half), cell("z", "a", z, half)],
        )
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
    use Outcome::{Fails, Holds, NotRun};
    // 3 and twice 2 combine to 5.
    assert_eq!(outcome("above", (25.1, 3.0), (10.0, 2.0)), Holds);
    assert_eq!(outcome("above", (24.9, 3.0), (10.0, 2.0)), Outcome::Open);
    assert_eq!(outcome("above", (15.1, 3.0), (10.0, 2.0)), Outcome::Open);
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
    use Outcome::{Fails, Holds};
    assert_eq!(outcome("about", (21.9, 0.0), (10.0, 0.0)), Holds);
    assert_eq!(outcome("about", (18.1, 0.0), (10.0, 0.0)), Holds);
    assert_eq!(outcome("about", (22.1, 0.0), (10.0, 0.0)), Fails);
    assert_eq!(outcome("about", (17.9, 0.0), (10.0, 0.0)), Fails);
    assert_eq!(outcome("about", (21.0, 2.0), (10.0, 0.0)), Outcome::Open);
    assert_eq!(outcome("starves", (1.9, 0.0), (10.0, 0.0)), Holds);
    assert_eq!(outcome("starves", (2.1, 0.0), (10.0, 0.0)), Fails);
}

#[test]
fn unlike_is_outside_a_tenth_and_fed_a_tenth_or_more() {
    use Outcome::{Fails, Holds};
    assert_eq!(outcome("unlike", (22.1, 0.0), (10.0, 0.0)), Holds);
    assert_eq!(outcome("unlike", (17.9, 0.0), (10.0, 0.0)), Holds);
    assert_eq!(outcome("unlike", (21.9, 0.0), (10.0, 0.0)), Fails);
    assert_eq!(outcome("unlike", (21.0, 2.0), (10.0, 0.0)), Outcome::Open);
    assert_eq!(outcome("fed", (2.1, 0.0), (10.0, 0.0)), Holds);
    assert_eq!(outcome("fed", (1.9, 0.0), (10.0, 0.0)), Fails);
}

#[test]
fn a_line_is_continued_by_one_step() {
    let c: Claim = toml::from_str(
        "says = \"\"\nsource = \"\"\ncell = [\"z\", \"a\"]\nabove = { line = [[\"x\", \"a\"], [\"y\", \"a\"]] }\n",
    )
    .unwrap();
    let of = |z: f64, half: f64| {
        let cells = [cell("x", "a", 1.0, half), cell("y", "a", 3.0, half), cell("z", "a", z, half)];
        claim(&c, &cells).0
    };
    assert_eq!((of(5.1, 0.0), of(4.9, 0.0)), (Outcome::Holds, Outcome::Fails));
    // √(1 + 4 + 1) times a half-width of 0.04 is 0.098.
    assert_eq!((of(5.1, 0.04), of(5.1, 0.042)), (Outcome::Holds, Outcome::Open));
}

#[test]
fn less_is_taken_off_the_other_number() {
    let c: Claim = toml::from_str(
        "says = \"\"\nsource = \"\"\ncell = [\"x\", \"a\"]\nbelow = { cell = [\"y\", \"a\"], times = 2, less = 5 }\n",
    )
    .unwrap();
    // 2 × 10 − 5 is 15.
    let of = |x| claim(&c, &[cell("x", "a", x, 1.0), cell("y", "a", 10.0, 0.0)]).0;
    assert_eq!(
        [13.9, 14.1, 15.9, 16.1].map(of),
        [Outcome::Holds, Outcome::Open, Outcome::Open, Outcome::Fails]
    );
}

#[test]
fn a_mean_distance_is_of_all_pairs() {
    let c: Claim = toml::from_str(
        "says = \"\"\nsource = \"\"\ncell = [\"x\", \"a\"]\ngaps = [[[\"x\", \"a\"], [\"o\", \"a\"]], [[\"y\", \"a\"], [\"o\", \"a\"]]]\nabout = 0.2\n",
    )
    .unwrap();
    let of = |x, y, half| {
        let cells = [cell("x", "a", x, half), cell("y", "a", y, half), cell("o", "a", 10.0, 0.0)];
        claim(&c, &cells)
    };
    // Relative distances of 0.1 and 0.3.
    let (outcome, mean) = of(9.0, 7.0, 0.0);
    assert_eq!(outcome, Outcome::Holds);
    assert!((mean.unwrap() - 0.2).abs() < 1e-12);
    assert_eq!(of(9.0, 6.5, 0.0).0, Outcome::Fails);
    // √2 × 0.5 / 10 / 2 is 0.035, more than a tenth of 0.2.
    assert_eq!(of(9.0, 7.0, 0.5).0, Outcome::Open);
    assert_eq!(
        claim(&c, &[cell("x", "a", 9.0, 0.0), cell("o", "a", 10.0, 0.0)]).0,
        Outcome::NotRun
    );
}
