//! The result of a comparison in one line, and tables of many flows in few lines.

use std::collections::BTreeMap;

use fairmesh_lab::comparison::Comparison;
use fairmesh_lab::summary::{ControlSummary, FlowSummary, SubscriberSummary};
use fairmesh_lab::verdict::STARVATION_FRACTION;

use crate::table::{self, optional, row, share, table};

/// Number of flows or subscribers up to which each has a line; of more, only the worst have.
const MOST_LISTED_FLOWS: usize = 10;

/// Extent of the tables of flows and subscribers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rows {
    /// The worst ten of more than ten, and a summary by hops.
    Worst,
    /// Every flow and subscriber.
    All,
}

/// Starving subscribers and flows of one control.
struct Verdict<'a> {
    summary: &'a ControlSummary,
    /// Number of subscribers, and of flows without a subscriber.
    all: usize,
    starving: usize,
}

impl<'a> Verdict<'a> {
    /// Returns the verdict; `None` if the runs had no fair rates.
    fn of(r: &'a ControlSummary) -> Option<Self> {
        r.min_over_fair?;
        let members: usize = r.subscribers.iter().map(|s| s.flows.len()).sum();
        let all = r.subscribers.len() + r.flows.len().saturating_sub(members);
        Some(Verdict { summary: r, all, starving: r.starving.len() })
    }

    /// Returns the smallest fraction of the due rate, mean over seeds.
    fn least(&self) -> f64 {
        self.summary.min_over_fair.map_or(0.0, |least| least.mean)
    }

    fn kind(&self) -> &'static str {
        if self.summary.subscribers.is_empty() { "flow" } else { "subscriber" }
    }

    fn rate(&self) -> &'static str {
        if self.summary.fair_is_upper_bound { "an equal share" } else { "its fair rate" }
    }
}

/// Returns the result in one line: the starving flows, and the effect of each other control.
///
/// The first part is about `fifo` if it was run, else about the first control.
pub fn answer(c: &Comparison) -> String {
    let verdicts: Option<Vec<Verdict>> = c.results.iter().map(Verdict::of).collect();
    let Some(verdicts) = verdicts.filter(|v| !v.is_empty()) else {
        return "No verdict: the runs had no fair rates.".to_owned();
    };
    let base = verdicts.iter().position(|v| v.summary.control == "fifo").unwrap_or(0);
    let first = &verdicts[base];
    let (name, kind) = (&first.summary.control, first.kind());
    // The lowest flow may change from run to run, but rows are means of one flow each.
    let run = if c.seeds > 1 { " (mean over runs)" } else { "" };
    let in_runs = table::in_some_runs(first.summary);
    let now = match (first.summary.starving.first(), &in_runs) {
        (Some(worst), _) => format!(
            "Under {name} {} of {} {kind}s starve{}: {} gets {:.1} % of {}",
            first.starving,
            first.all,
            if first.starving == 1 { "s" } else { "" },
            worst.label,
            worst.over_fair * 100.0,
            first.rate()
        ),
        (None, Some(runs)) => {
            format!("Under {name} one of {} {kind}s starves in {runs}", first.all)
        }
        (None, None) => format!(
            "Under {name} none of {} {kind}s starves: the lowest gets {:.0} % of {}{run}",
            first.all,
            first.least() * 100.0,
            first.rate()
        ),
    };
    let others: Vec<&Verdict> =
        verdicts.iter().enumerate().filter(|(i, _)| *i != base).map(|(_, v)| v).collect();
    let change = |v: &&Verdict| {
        let name = &v.summary.control;
        let unsettled = if v.summary.moving_limits.is_some() { " (not settled)" } else { "" };
        match (v.starving, table::in_some_runs(v.summary)) {
            (0, Some(runs)) => format!("under {name} one starves in {runs}{unsettled}"),
            (0, None) if first.starving == 0 && in_runs.is_none() => {
                format!("under {name} it gets {:.0} %{unsettled}", v.least() * 100.0)
            }
            (0, None) => format!(
                "under {name} none starves, the lowest gets {:.0} %{run}{unsettled}",
                v.least() * 100.0
            ),
            (n, _) => {
                format!("under {name} {n} starve{}{unsettled}", if n == 1 { "s" } else { "" })
            }
        }
    };
    let changes: Vec<String> = others.iter().map(change).collect();
    match changes.as_slice() {
        [] => format!("{now}. Add controls by --control to see what would change."),
        changes => format!("{now}; {}.", changes.join("; ")),
    }
}

/// Returns the tables of one control's subscribers and flows.
pub fn rows(r: &ControlSummary, rows: Rows) -> String {
    let mut out = String::new();
    let every = |n: usize| rows == Rows::All || n <= MOST_LISTED_FLOWS;
    if !r.subscribers.is_empty() {
        let mut all: Vec<&SubscriberSummary> = r.subscribers.iter().collect();
        if !every(all.len()) {
            worst(&mut all, |s| s.over_fair);
            out +=
                &format!("the worst {MOST_LISTED_FLOWS} of {} subscribers\n", r.subscribers.len());
        }
        out += &format!("{}\n\n", table::subscribers(r, all.into_iter()));
    }
    let mut all: Vec<&FlowSummary> = r.flows.iter().collect();
    if !every(all.len()) {
        worst(&mut all, |f| f.over_fair);
        out += &format!(
            "{}\n\nthe worst {MOST_LISTED_FLOWS} of {} flows\n",
            by_hops(r),
            r.flows.len()
        );
    }
    out += &table::flows(r, all.into_iter()).to_string();
    out
}

/// Keeps the [`MOST_LISTED_FLOWS`] entries furthest below their due rates, worst first.
///
/// Entries without a due rate are last.
fn worst<T>(all: &mut Vec<&T>, part: impl Fn(&T) -> Option<f64>) {
    let key = |t: &T| part(t).unwrap_or(f64::INFINITY);
    all.sort_by(|a, b| key(a).total_cmp(&key(b)));
    all.truncate(MOST_LISTED_FLOWS);
}

/// Returns the flows of a control by their number of wireless hops.
fn by_hops(r: &ControlSummary) -> comfy_table::Table {
    let mut groups: BTreeMap<u32, Vec<&FlowSummary>> = BTreeMap::new();
    for f in &r.flows {
        groups.entry(f.hops).or_default().push(f);
    }
    let [fair, of_fair] = table::fair_header(r.fair_is_upper_bound);
    let least_of_fair = format!("least {of_fair}");
    let header = [
        "hops",
        "flows",
        "below 10 %",
        "goodput kbit/s",
        "least",
        fair,
        of_fair,
        &least_of_fair,
        "delay ms",
        "lost/run",
    ];
    let mut t = table(&header);
    for (hops, flows) in groups {
        let mean = |of: &dyn Fn(&FlowSummary) -> Option<f64>| {
            let values: Vec<f64> = flows.iter().filter_map(|f| of(f)).collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        let least = |of: &dyn Fn(&FlowSummary) -> Option<f64>| {
            flows.iter().filter_map(|f| of(f)).min_by(f64::total_cmp)
        };
        let below =
            flows.iter().filter(|f| f.over_fair.is_some_and(|o| o < STARVATION_FRACTION)).count();
        let cells = [
            hops.to_string(),
            flows.len().to_string(),
            below.to_string(),
            optional(mean(&|f| Some(f.goodput_bps.mean)), 1e-3, 1),
            optional(least(&|f| Some(f.goodput_bps.mean)), 1e-3, 1),
            optional(mean(&|f| f.fair_bps), 1e-3, 1),
            share(mean(&|f| f.over_fair)),
            share(least(&|f| f.over_fair)),
            optional(mean(&|f| f.delay_s.mean), 1e3, 1),
            format!("{:.0}", flows.iter().map(|f| f.drops.total()).sum::<f64>()),
        ];
        row(&mut t, cells);
    }
    t
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairmesh_lab::record::{RunRecord, SubscriberRecord};
    use fairmesh_lab::testing::record;

    /// Returns runs of `n` flows with these fractions of a fair rate of 100 kbit/s.
    ///
    /// The flows have one to four hops.
    fn runs(control: &str, n: usize, part: impl Fn(usize) -> f64) -> Vec<RunRecord> {
        let flows: Vec<(f64, f64, u32)> =
            (0..n).map(|i| (part(i) * 100e3, 100e3, 1 + i as u32 % 4)).collect();
        (1..=2).map(|seed| record(control, seed, &flows)).collect()
    }

    fn compared(all: &[Vec<RunRecord>]) -> Comparison {
        Comparison::of(all)
    }

    #[test]
    fn the_answer_names_starving_flows_and_the_effect_of_controls() {
        let fifo = || runs("fifo", 40, |i| if i < 12 { 0.004 * (i + 1) as f64 } else { 1.2 });
        let none = runs("source", 40, |_| 0.85);
        let some = runs("pfrc", 40, |i| if i < 1 { 0.05 } else { 0.9 });
        assert_eq!(
            answer(&compared(&[some, fifo(), none])),
            "Under fifo 12 of 40 flows starve: 1 → 0 gets 0.4 % of its fair rate; under pfrc 1 starves; \
             under source none starves, the lowest gets 85 % (mean over runs)."
        );
        assert!(
            answer(&compared(&[fifo()]))
                .ends_with("Add controls by --control to see what would change.")
        );
        // Without starvation no control is recommended.
        let calm = answer(&compared(&[runs("fifo", 3, |_| 0.7), runs("fq", 3, |_| 0.05)]));
        assert_eq!(
            calm,
            "Under fifo none of 3 flows starves: the lowest gets 70 % of its fair rate (mean over runs); under fq 3 starve."
        );
    }

    /// A mean over runs hides a flow that starves in one of them.
    #[test]
    fn another_flow_that_starves_in_each_run_is_named() {
        let each = |control: &str| -> Vec<RunRecord> {
            let run = |k: usize| runs(control, 3, |i| if i == k { 0.02 } else { 0.9 }).remove(k);
            (0..2).map(run).collect()
        };
        assert_eq!(
            answer(&compared(&[runs("fifo", 3, |_| 0.05), each("pfrc")])),
            "Under fifo 3 of 3 flows starve: 1 → 0 gets 5.0 % of its fair rate; \
             under pfrc one starves in 2 of 2 runs."
        );
        assert_eq!(
            answer(&compared(&[each("fifo"), runs("fq", 3, |_| 0.9)])),
            "Under fifo one of 3 flows starves in 2 of 2 runs; \
             under fq none starves, the lowest gets 90 % (mean over runs)."
        );
        let remarks = table::remarks(&compared(&[each("fifo")]).results[0]);
        assert_eq!(
            remarks,
            [
                "one flow starves in 2 of 2 runs, none in their mean; the lowest gets 2 % of its fair rate (mean over runs)"
            ]
        );
    }

    /// Without fair rates there is no verdict.
    #[test]
    fn no_fair_rates_are_no_verdict() {
        let mut all = runs("fifo", 3, |_| 0.0);
        for f in all.iter_mut().flat_map(|r| &mut r.flows) {
            f.fair_bps = None;
        }
        assert_eq!(answer(&compared(&[all])), "No verdict: the runs had no fair rates.");
    }

    #[test]
    fn many_flows_are_a_summary_and_the_worst() {
        let c = compared(&[runs("fifo", 40, |i| (i + 1) as f64 / 40.0)]);
        let text = rows(&c.results[0], Rows::Worst);
        let table: Vec<Vec<&str>> = text.lines().map(|l| l.split_whitespace().collect()).collect();
        let hop = |n: &str| table.iter().find(|row| row.first() == Some(&n)).unwrap().clone();
        // Ten flows per number of hops; one of those over one hop has 2.5 % of its fair rate.
        assert_eq!(hop("1")[1..5], ["10", "1", "47.5", "2.5"]);
        assert_eq!(hop("4")[1..5], ["10", "0", "55.0", "10.0"]);
        let at = table
            .iter()
            .position(|row| row[..] == ["the", "worst", "10", "of", "40", "flows"])
            .unwrap();
        let listed: Vec<&str> = table[at + 3..].iter().map(|row| row[0]).collect();
        assert_eq!(listed, ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10"]);
        let all = rows(&c.results[0], Rows::All);
        assert_eq!(all.lines().count(), 42, "a line each: {all}");
        let few = compared(&[runs("fifo", 10, |_| 1.0)]);
        assert_eq!(rows(&few.results[0], Rows::Worst), rows(&few.results[0], Rows::All));
    }

    #[test]
    fn the_worst_homes_are_listed() {
        let mut all = runs("fifo", 24, |i| (i + 1) as f64 / 24.0);
        for r in &mut all {
            let home = |i: usize| SubscriberRecord {
                name: format!("home {i}"),
                weight: 1.0,
                goodput_bps: r.flows[i].goodput_bps,
                goodput_down_bps: r.flows[i].goodput_bps,
                goodput_up_bps: 0.0,
                fair_bps: Some(100e3),
                flows: vec![i],
            };
            r.subscribers = (0..24).map(home).collect();
        }
        let c = compared(&[all]);
        let text = rows(&c.results[0], Rows::Worst);
        assert!(text.starts_with("the worst 10 of 24 subscribers\n"), "{text}");
        assert!(text.contains("home 9 ") && !text.contains("home 10 "), "{text}");
        assert!(
            answer(&c).starts_with("Under fifo 2 of 24 subscribers starve: home 0 gets 4.2 %"),
            "{}",
            answer(&c)
        );
    }
}
