//! Wording of the answer, the model and the page.

use fairmesh_lab::comparison::{Comparison, GENERATOR};
use fairmesh_lab::record::{
    DecisionRecord, LinkRecord, OverlapRecord, RunRecord, SubscriberRecord,
};
use fairmesh_lab::testing::record;

use super::build::{Sources, model};
use super::model::{Model, Reference, Role};
use super::sentence::unmarked;
use super::{page, render};
use crate::topology::Drawing;

/// Returns nodes in a row; the flow of node k goes to node 0.
fn drawing(flows: usize) -> Drawing {
    Drawing {
        names: (0..=flows).map(|i| i.to_string()).collect(),
        at: (0..=flows).map(|i| (200.0 * i as f64, 0.0)).collect(),
        surveyed: true,
        wired: vec![false; flows + 1],
        links: (1..=flows).map(|i| (i - 1, i)).collect(),
        wires: vec![],
        gateways: vec![0],
        paths: (1..=flows).map(|i| (0..=i).rev().collect()).collect(),
        radios: vec![],
    }
}

fn of(records: &[Vec<RunRecord>]) -> Model {
    let comparison = Comparison::of(records);
    let drawing = drawing(records[0][0].flows.len());
    model(&Sources {
        comparison: &comparison,
        records,
        drawing: &drawing,
        settings: &[],
        command: "fairmesh compare x",
    })
}

/// Returns runs with rates in kbit/s against 100 kbit/s each, one hop more for each flow.
fn runs(control: &str, rates: &[f64]) -> Vec<RunRecord> {
    let flows: Vec<_> = rates.iter().zip(1..).map(|(kbps, hops)| (kbps * 1e3, 1e5, hops)).collect();
    let run = |seed| {
        let mut r = record(control, seed, &flows);
        for f in &mut r.flows {
            f.goodput_bps *= 1.0 + 0.001 * seed as f64;
        }
        r
    };
    (1..=3).map(run).collect()
}

/// Returns the answer as text, one line per part.
fn answer_text(m: &Model) -> String {
    let headline = m.answer.headline.iter().map(unmarked);
    let facts = m.answer.facts.iter().map(|f| format!("{}: {}", f.title, unmarked(&f.text)));
    headline.chain(facts).collect::<Vec<_>>().join("\n")
}

/// Returns runs in which the hop of the last two flows loses frames to a hidden terminal.
fn with_a_hidden_terminal(
    mut runs: Vec<RunRecord>,
    sensed: bool,
    receiver: bool,
) -> Vec<RunRecord> {
    for r in &mut runs {
        r.links = vec![LinkRecord {
            from: "2".into(),
            to: "1".into(),
            attempts: 1000,
            unanswered: 730,
            answer_lost: 30,
            clean: 10,
            overlapped_by: vec![OverlapRecord {
                station: if receiver { "1".into() } else { "0".into() },
                frames: 600,
                sensed,
                receiver,
            }],
        }];
        let path = |i: usize| (0..=i + 1).rev().map(|n| n.to_string()).collect();
        r.flows.iter_mut().enumerate().for_each(|(i, f)| f.path = path(i));
    }
    runs
}

#[test]
fn a_remedy_is_named_with_its_cost() {
    let fifo = with_a_hidden_terminal(runs("fifo", &[900.0, 5.0, 2.0]), false, false);
    insta::assert_snapshot!(answer_text(&of(&[
        fifo,
        runs("source", &[100.0, 98.0, 97.0]),
        runs("pfrc", &[90.0, 90.0, 60.0])
    ])));
}

#[test]
fn a_control_under_which_another_flow_starves_in_each_run_feeds_none() {
    let mut each = runs("pfrc", &[95.0, 95.0, 95.0]);
    for (k, run) in each.iter_mut().enumerate() {
        run.flows[k].goodput_bps = 1e3;
    }
    let answer = answer_text(&of(&[runs("fifo", &[200.0, 1.0, 1.0]), each.clone()]));
    assert!(answer.contains("With pfrc, one starves in 3 of 3 runs."), "{answer}");
    let answer = answer_text(&of(&[each.clone(), runs("fq", &[90.0, 90.0, 90.0])]));
    assert!(answer.starts_with("With pfrc, one flow starves in 3 of 3 runs."), "{answer}");
    // A control that feeds all in each run is preferred.
    let fed = runs("source", &[20.0, 20.0, 20.0]);
    let answer = answer_text(&of(&[runs("fifo", &[200.0, 1.0, 1.0]), each, fed]));
    assert!(answer.contains("With source, none does."), "{answer}");
}

#[test]
fn the_answer_names_no_remedy_if_there_is_none() {
    let all = [
        runs("fifo", &[900.0, 5.0, 2.0]),
        runs("source", &[500.0, 60.0, 3.0]),
        runs("pfrc", &[900.0, 4.0, 3.0]),
    ];
    insta::assert_snapshot!(answer_text(&of(&all)));
    let none_better = [runs("fifo", &[900.0, 50.0, 2.0]), runs("source", &[500.0, 6.0, 3.0])];
    insta::assert_snapshot!(answer_text(&of(&none_better)));
}

#[test]
fn all_starving_one_starving_and_none() {
    insta::assert_snapshot!(answer_text(&of(&[
        runs("fifo", &[4.0, 3.0]),
        runs("source", &[100.0, 98.0])
    ])));
    insta::assert_snapshot!(answer_text(&of(&[
        runs("fifo", &[400.0, 3.0]),
        runs("source", &[100.0, 98.0])
    ])));
    insta::assert_snapshot!(answer_text(&of(&[
        runs("fifo", &[100.0, 90.0]),
        runs("source", &[100.0, 98.0])
    ])));
    // A control is not a remedy without starvation, and must not cause any.
    insta::assert_snapshot!(answer_text(&of(&[
        runs("fifo", &[100.0, 90.0]),
        runs("source", &[100.0, 8.0])
    ])));
}

#[test]
fn one_control_one_flow_no_flow_and_no_verdict() {
    insta::assert_snapshot!(answer_text(&of(&[runs("fifo", &[400.0, 3.0])])));
    insta::assert_snapshot!(answer_text(&of(&[runs("fifo", &[3.0]), runs("source", &[98.0])])));
    insta::assert_snapshot!(answer_text(&of(&[runs("fifo", &[95.0])])));
    insta::assert_snapshot!(answer_text(&of(&[runs("fifo", &[])])));
    let mut blind = runs("fifo", &[400.0, 3.0]);
    blind.iter_mut().flat_map(|r| &mut r.flows).for_each(|f| f.fair_bps = None);
    let m = of(&[blind]);
    assert_eq!((m.reference, m.controls[0].worst), (Reference::None, None));
    insta::assert_snapshot!(answer_text(&m));
}

#[test]
fn a_flow_that_asks_for_little_does_not_starve() {
    let mut all = runs("fifo", &[95.0, 3.0]);
    all.iter_mut().for_each(|r| r.flows[1].active_share = 0.03);
    let m = of(&[all]);
    let r = &m.controls[0].results[1];
    assert!(!r.starves && (r.share.unwrap() - 1.0).abs() < 0.01 && m.sharers[1].pauses);
    assert!(answer_text(&m).starts_with("No flow starves with fifo."), "{}", answer_text(&m));
}

#[test]
fn reasons_are_those_of_the_records() {
    let why = |runs: Vec<RunRecord>| {
        let m = of(&[runs]);
        unmarked(&m.answer.facts.iter().find(|f| f.title == "Why").unwrap().text)
    };
    let starving = || runs("fifo", &[900.0, 5.0, 2.0]);
    let near = "The flow one hop from the gateway takes 99 % of the sum. ";
    let cross = format!(
        "{near}Both cross 2 → 1, where 73 % of the frames get no ACK. 82 % of them met frames of 0, which 2"
    );
    let hidden = why(with_a_hidden_terminal(starving(), false, false));
    assert_eq!(hidden, format!("{cross} cannot sense: a hidden terminal."));
    let sensed = why(with_a_hidden_terminal(starving(), true, false));
    assert_eq!(sensed, format!("{cross} senses."));
    let busy = why(with_a_hidden_terminal(starving(), false, true));
    assert!(busy.ends_with("1 was itself sending during 82 % of them."), "{busy}");
    // Without losses on a hop, the queue is the reason.
    let mut even = runs("fifo", &[9.0, 5.0, 2.0]);
    even.iter_mut().for_each(|r| r.links.clear());
    assert_eq!(why(even), "Their packets are lost by queue overflow (60 % of 300 per run).");
    let mut nothing = runs("fifo", &[9.0]);
    nothing.iter_mut().flat_map(|r| &mut r.flows).for_each(|f| f.drops = Default::default());
    assert!(why(nothing).starts_with("The runs recorded no dominant cause"));
}

#[test]
fn long_lists_end_in_a_number() {
    let m = of(&[runs("fifo", &[1.0; 9])]);
    let starving = &m.answer.facts[0];
    assert_eq!(starving.text.iter().filter(|p| p.role == Some(Role::Sharer)).count(), 4);
    assert!(unmarked(&starving.text).ends_with("and 5 more."), "{}", unmarked(&starving.text));
}

#[test]
fn subscribers_stand_for_their_flows() {
    let subscribe = |mut runs: Vec<RunRecord>| {
        for r in &mut runs {
            let goodput_bps = r.flows[0].goodput_bps + r.flows[1].goodput_bps;
            r.subscribers = vec![SubscriberRecord {
                name: "home".into(),
                flows: vec![0, 1],
                weight: 1.0,
                goodput_bps,
                goodput_down_bps: 0.0,
                goodput_up_bps: goodput_bps,
                fair_bps: Some(2e5),
            }];
        }
        runs
    };
    let m = of(&[subscribe(runs("fifo", &[190.0, 2.0, 1.0]))]);
    assert_eq!(m.noun.many, "subscribers and flows");
    assert_eq!(m.sharers.len(), 2);
    assert_eq!((m.sharers[0].label.as_str(), m.sharers[0].flows.len()), ("home", 2));
    let home = &m.controls[0].results[0];
    assert!((home.share.unwrap() - 0.962).abs() < 0.01 && home.flows.len() == 2, "{home:?}");
    assert!(
        answer_text(&m).starts_with("With fifo, 1 of 2 subscribers and flows starves."),
        "{}",
        answer_text(&m)
    );
}

#[test]
fn decisions_know_their_flow_and_direction() {
    let mut fifo = runs("pfrc", &[95.0, 95.0]);
    let decision = |time_s, kbps: f64| DecisionRecord {
        time_s,
        node: "0".into(),
        code: "pfrc.limit".into(),
        reason: format!("flow 2-0: {kbps} kbit/s"),
        flow: Some("2-0".into()),
        rate_bps: Some(kbps * 1e3),
    };
    fifo[0].decisions =
        vec![decision(0.5, 100.0), decision(0.6, 104.0), decision(1.0, 50.0), decision(2.0, 80.0)];
    let m = of(&[fifo]);
    let d = &m.controls[0].decisions;
    assert_eq!((d.total, d.shown.len()), (4, 3), "a change of 4 % within 15 s is left out");
    let of = |k: usize| (d.shown[k].sharer, d.shown[k].before, d.shown[k].rate);
    assert_eq!(of(0), (Some(1), None, Some(100.0)));
    assert_eq!(of(1), (Some(1), Some(100.0), Some(50.0)));
    assert_eq!(of(2), (Some(1), Some(50.0), Some(80.0)));
}

#[test]
fn many_runs_keep_the_first_curves_and_fit() {
    // 60 flows and 10 controls: the page must be at most 5 MB.
    let names = ["fifo", "fq", "red", "pfrc", "source", "arc", "static", "gap", "ifa", "wcp"];
    let long = |control: &str| {
        let mut all = runs(control, &[95.0; 60]);
        for r in &mut all {
            r.series.time_s = (1..=200).map(f64::from).collect();
            let mut state = r.seed;
            for curve in &mut r.series.goodput_bps {
                let mut next = || {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (state >> 40) as f64
                };
                *curve = (0..200).map(|_| next()).collect();
            }
            r.series.limit_bps = r.series.goodput_bps.clone();
        }
        all
    };
    let records: Vec<_> = names.map(long).into();
    let m = of(&records);
    assert!(m.controls.iter().all(|c| c.curves.len() == 1), "one seed's curves fill the page");
    assert!(m.controls[0].curves[0].window.is_empty());
    let size = page(&m).len();
    assert!(size < 5_000_000, "{size}");
}

#[test]
fn an_emulation_beside_several_simulations_has_curves() {
    let timed = |control: &str| {
        let mut all = runs(control, &[95.0, 90.0]);
        all.iter_mut().for_each(|r| r.series.time_s = vec![1.0, 2.0]);
        all.iter_mut().flat_map(|r| &mut r.series.goodput_bps).for_each(|c| *c = vec![9e4, 9e4]);
        all
    };
    let (simulated, mut emulated) = (timed("rtt"), timed("emulated cubic rtt"));
    emulated.truncate(1);
    let m = of(&[simulated, emulated]);
    assert!(m.controls.iter().all(|c| c.curves.len() == 1 && !c.curves[0].goodput.is_empty()));
}

#[test]
fn the_page_needs_nothing_else() {
    let records = [runs("fifo", &[900.0, 5.0])];
    let comparison = Comparison::of(&records);
    let page = render(&Sources {
        comparison: &comparison,
        records: &records,
        drawing: &drawing(2),
        settings: &[("rate".into(), "1 Mbit/s".into())],
        command: "fairmesh compare \"</script><chain>\"",
    });
    for part in [
        "default-src 'none'",
        GENERATOR,
        "0000000000000003",
        "1 Mbit/s",
        "With fifo, 1 of 2 flows starves.",
    ] {
        assert!(page.contains(part), "{part}");
    }
    for fetch in [" src=", "@import", " url(", ":url(", "fetch(", "XMLHttpRequest", "<link"] {
        assert!(!page.contains(fetch), "{fetch}");
    }
    let ends = page.matches("</script>").count();
    assert_eq!(ends, 2, "no text of the data ends an element");
    assert!(
        page.contains("MIT License") || page.contains("The MIT License"),
        "licences are part of the page"
    );
}

#[test]
fn the_page_without_data_is_small() {
    // docs/explorer.md: the goal is 120 kB, the limit 500 kB.
    assert!(super::PAGE.len() < 200_000, "{}", super::PAGE.len());
}
