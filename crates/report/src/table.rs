//! Text tables.

use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use fairmesh_lab::Estimate;
use fairmesh_lab::summary::{
    ControlSummary, FlowSummary, MovingLimits, SubscriberSummary, flow_label, marked,
};
use fairmesh_lab::timeline::TimelineSummary;
use fairmesh_lab::verdict::{LossyHop, Starving};

/// Style of tables: one rule below the header, and no other lines for the sake of `cut`.
const STYLE: TableStyle = NOTHING.header_separator(LineStyle::none().fill('─').junction('─'));

/// Returns an empty table in the common style; the first column is left-aligned.
pub fn table(header: &[&str]) -> Table {
    let mut t = Table::new();
    t.load_style(STYLE)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header.iter().enumerate().map(|(i, h)| aligned(i, (*h).to_owned())));
    t
}

/// Adds a row, aligned as by [`table`].
pub fn row(t: &mut Table, cells: impl IntoIterator<Item = String>) {
    t.add_row(cells.into_iter().enumerate().map(|(i, c)| aligned(i, c)).collect::<Vec<_>>());
}

fn aligned(column: usize, text: String) -> Cell {
    let side = if column == 0 { CellAlignment::Left } else { CellAlignment::Right };
    Cell::new(text).set_alignment(side)
}

/// Formats a value, or a dash if it is absent.
pub fn optional(v: Option<f64>, scale: f64, digits: usize) -> String {
    v.map_or_else(|| "–".into(), |v| format!("{:.digits$}", v * scale))
}

/// Returns notes on the reference rates: upper bounds, and flows that pause.
pub fn rate_notes(results: &[ControlSummary]) -> Vec<&'static str> {
    let mut notes = Vec::new();
    if results.iter().any(|r| r.fair_is_upper_bound) {
        notes.push(
            "fair ≤: upper bound of the fair rate, computed for full-size aggregates; of share: goodput over this \
             bound or over an equal share of the carried sum, whichever is less (--optimum measures the optimum)",
        );
    }
    if results.iter().flat_map(|r| &r.flows).any(|f| f.active_share < 1.0) {
        notes.push(
            "flows that pause are judged by the time in which they had something to transfer",
        );
    }
    notes
}

/// Returns a table of some flows of a control, in the given order.
pub(crate) fn flows<'a>(r: &ControlSummary, which: impl Iterator<Item = &'a FlowSummary>) -> Table {
    let mut header = vec!["flow", "hops", "goodput kbit/s"];
    header.extend(fair_header(r.fair_is_upper_bound));
    let optimum = r.flows.iter().any(|f| f.optimum_bps.is_some());
    if optimum {
        header.extend(["optimum kbit/s", "of optimum"]);
    }
    header.extend(["delay ms", "p95 ms", "lost/run"]);
    let mut t = table(&header);
    for f in which {
        let mut cells = vec![
            flow_label(&f.name, &f.from, &f.to),
            f.hops.to_string(),
            f.goodput_bps.show(1e-3, 1),
            optional(f.fair_bps, 1e-3, 1),
            share(f.over_fair),
        ];
        if optimum {
            cells.push(optional(f.optimum_bps, 1e-3, 1));
            cells.push(of_optimum(f));
        }
        cells.push(optional(f.delay_s.mean, 1e3, 1));
        cells.push(optional(f.delay_s.p95, 1e3, 1));
        cells.push(format!("{:.0}", f.drops.total()));
        row(&mut t, cells);
    }
    t
}

/// Formats a flow's goodput over its optimum in percent; a dash if that is absent.
pub fn of_optimum(f: &FlowSummary) -> String {
    percent_of(f.goodput_bps.mean, f.optimum_bps)
}

fn percent_of(goodput: f64, optimum: Option<f64>) -> String {
    let optimum = optimum.filter(|o| *o > 0.0);
    optimum.map_or_else(|| "–".into(), |o| format!("{:.0} %", goodput / o * 100.0))
}

/// Labels of the values of [`measures_of_optimum`].
pub const OF_OPTIMUM: [&str; 3] = ["min/optimum", "sum/optimum", "Jain of optimum"];

/// Returns a control's measures relative to the optimum, if requested.
pub fn measures_of_optimum(r: &ControlSummary) -> Option<[String; 3]> {
    let all = [&r.min_over_optimum, &r.sum_over_optimum, &r.jain_optimum];
    r.min_over_optimum?;
    Some(all.map(|e| e.as_ref().map_or_else(|| "–".into(), |e| e.show(1.0, 3))))
}

pub(crate) fn controls(results: &[ControlSummary]) -> Table {
    let mut header = vec![
        "control",
        "sum kbit/s",
        "Jain",
        "Jain normalised",
        "min/fair",
        "max/fair",
        "utilisation ratio",
    ];
    // Most controls send no signalling.
    let signals = results.iter().any(|r| r.signalling_bytes_per_s.mean > 0.0);
    let optimum = results.iter().any(|r| r.min_over_optimum.is_some());
    if optimum {
        header.extend(OF_OPTIMUM);
    }
    if signals {
        header.extend(["signalling B/s", "signalling ms/s"]);
    }
    let mut t = table(&header);
    for r in results {
        let mut cells = vec![
            marked(&r.control, r.ours),
            r.sum_goodput_bps.show(1e-3, 1),
            r.jain.show(1.0, 3),
            estimate(r.jain_normalized, 3),
            estimate(r.min_over_fair, 3),
            estimate(r.max_over_fair, 2),
            estimate(r.utilization_ratio, 3),
        ];
        if optimum {
            cells.extend(measures_of_optimum(r).unwrap_or_default());
        }
        if signals {
            cells.push(r.signalling_bytes_per_s.show(1.0, 0));
            cells.push(r.signalling_airtime.show(1e3, 2));
        }
        row(&mut t, cells);
    }
    t
}

/// Formats a measure, or a dash if it is absent.
pub fn estimate(value: Option<Estimate>, digits: usize) -> String {
    value.map_or("–".to_owned(), |v| v.show(1.0, digits))
}

/// Returns the verdict on a control in at most three lines, then its gain and cost.
///
/// The verdict names the starving flows with the reason of each.
pub fn remarks(r: &ControlSummary) -> Vec<String> {
    let kind = if r.subscribers.is_empty() { "flow" } else { "subscriber" };
    let rate = if r.fair_is_upper_bound { "an equal share" } else { "its fair rate" };
    let starved = &r.starving;
    let mut lines: Vec<String> = starved.iter().take(3).map(|s| starving(s, rate)).collect();
    if starved.len() > 3 {
        lines.truncate(2);
        lines.push(format!("{} more {kind}s starve", starved.len() - 2));
    }
    let cost = r.tradeoff.as_ref().map(|t| t.sentence(kind));
    if starved.is_empty() {
        let cost = cost.map_or_else(String::new, |c| format!("; {c}"));
        lines.push(match r.min_over_fair {
            Some(least) => {
                let part = least.mean * 100.0;
                // The lowest flow may change from run to run, but rows are means of one flow each.
                let run = if least.ci95.is_some() { " (mean over runs)" } else { "" };
                let worst = format!("the lowest gets {part:.0} % of {rate}{run}");
                match in_some_runs(r) {
                    Some(runs) => {
                        format!("one {kind} starves in {runs}, none in their mean; {worst}{cost}")
                    }
                    None => format!("no {kind} starves; {worst}{cost}"),
                }
            }
            None => format!("no verdict: the runs had no fair rates{cost}"),
        });
    } else {
        lines.extend(cost);
    }
    lines.extend(moving(r));
    lines
}

/// Names the runs in which a sharer starves, if none does in the mean over runs.
///
/// The mean hides that another one starves in each.
pub fn in_some_runs(r: &ControlSummary) -> Option<String> {
    let runs = r.fingerprints.len();
    let hidden = r.starving.is_empty() && r.starving_runs > 0 && runs > 1;
    hidden.then(|| format!("{} of {runs} runs", r.starving_runs))
}

/// Returns a sentence if limits still moved at the end of the runs.
fn moving(r: &ControlSummary) -> Option<String> {
    let MovingLimits { flows, largest_change } = r.moving_limits?;
    Some(format!(
        "the limits of {flows} flow{} still moved at the end, by up to {:.0} % over the last quarter: \
         the run is too short to judge this control",
        if flows == 1 { "" } else { "s" },
        largest_change * 100.0
    ))
}

fn starving(s: &Starving, rate: &str) -> String {
    let why = match (&s.worst_hop, s.drops.main_cause()) {
        (Some(hop), _) => format!("; {}", lossy(hop)),
        (None, Some((cause, share))) => format!(
            "; {:.0} packets lost per run, {:.0} % by {cause}",
            s.drops.total(),
            share * 100.0
        ),
        (None, None) => String::new(),
    };
    format!("{} starves: {:.1} % of {rate}{why}", s.label, s.over_fair * 100.0)
}

/// Describes the reason for a hop's losses in one clause.
fn lossy(hop: &LossyHop) -> String {
    let percent = |part: f64| format!("{:.0} %", part * 100.0);
    let (from, to) = (&hop.from, &hop.to);
    let frames = format!(
        "{from} → {to} received no response to {} of {:.0} frames",
        percent(hop.unanswered),
        hop.attempts
    );
    let reason = match hop.main_overlap() {
        Some(o) if o.receiver => format!("{to} was sending during {} of them", percent(o.share)),
        Some(o) => {
            let senses = if o.sensed { "senses" } else { "cannot sense" };
            let share = percent(o.share);
            format!("{share} of them met frames of {}, which {from} {senses}", o.station)
        }
        None if hop.answer_lost > hop.clean => {
            format!("the response to {} of them was lost", percent(hop.answer_lost))
        }
        None => format!("{} of them met no other frame: a weak link", percent(hop.clean)),
    };
    format!("{frames}; {reason}")
}

/// Returns the header of a table of subscribers.
pub fn subscriber_header(r: &ControlSummary) -> Vec<&'static str> {
    let mut header = vec!["subscriber", "flows", "goodput kbit/s", "down", "up"];
    header.extend(fair_header(r.fair_is_upper_bound));
    if r.min_over_optimum.is_some() {
        header.extend(["optimum kbit/s", "of optimum"]);
    }
    header.extend(["lost/run"]);
    header
}

/// Returns the headers of the fair rate and of the goodput's fraction of the due rate.
///
/// An upper bound is marked; the fraction is then at most that of an equal share.
pub fn fair_header(upper_bound: bool) -> [&'static str; 2] {
    if upper_bound { ["fair ≤ kbit/s", "of share"] } else { ["fair kbit/s", "of fair"] }
}

/// Formats the fraction of the due rate in percent; a dash if no rate is due.
pub fn share(over_fair: Option<f64>) -> String {
    over_fair.map_or_else(|| "–".to_owned(), |o| format!("{:.0} %", o * 100.0))
}

/// Returns the rows of a table of subscribers.
pub fn subscriber_rows(r: &ControlSummary) -> Vec<Vec<String>> {
    r.subscribers.iter().map(|s| subscriber_cells(r, s)).collect()
}

fn subscriber_cells(r: &ControlSummary, s: &SubscriberSummary) -> Vec<String> {
    let mut cells = vec![
        s.name.clone(),
        s.flows.len().to_string(),
        s.goodput_bps.show(1e-3, 1),
        format!("{:.1}", s.goodput_down_bps.mean * 1e-3),
        format!("{:.1}", s.goodput_up_bps.mean * 1e-3),
        optional(s.fair_bps, 1e-3, 1),
        share(s.over_fair),
    ];
    if r.min_over_optimum.is_some() {
        cells.push(optional(s.optimum_bps, 1e-3, 1));
        cells.push(percent_of(s.goodput_bps.mean, s.optimum_bps));
    }
    cells.push(format!("{:.0}", s.drops.total()));
    cells
}

/// Returns a table of some subscribers of a control, in the given order.
pub(crate) fn subscribers<'a>(
    r: &ControlSummary,
    which: impl Iterator<Item = &'a SubscriberSummary>,
) -> Table {
    let mut t = table(&subscriber_header(r));
    which.for_each(|s| row(&mut t, subscriber_cells(r, s)));
    t
}

/// Returns the table of a timeline: attempts and losses of each link in the window.
pub fn timeline(summary: &TimelineSummary) -> String {
    let head = ["link", "frames", "answered", "overlapped", "response lost", "not overlapped"];
    let mut links = table(&head);
    let mut causes = String::new();
    for l in &summary.links {
        let counts = [l.frames, l.answered, l.overlapped, l.response_lost, l.not_overlapped];
        let label = format!("{} → {}", l.from, l.to);
        row(&mut links, [label].into_iter().chain(counts.map(|c| c.to_string())));
        let mut by: Vec<_> = l.overlapped_by.iter().collect();
        by.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
        if !by.is_empty() {
            let by: Vec<String> = by.iter().map(|(name, n)| format!("{name} {n}")).collect();
            let (from, to, of, lost) = (&l.from, &l.to, l.frames, l.overlapped);
            let by = by.join(", ");
            causes += &format!(
                "\n{lost} of {of} frames from {from} did not arrive at {to} while others were on the air there: {by}"
            );
        }
    }
    let (from, until) = (summary.from_s, summary.until_s);
    format!("RTS and data frames that began from {from} s to {until} s\n{links}{causes}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairmesh_lab::testing::record;

    #[test]
    fn many_starving_flows_stay_three_lines() {
        let r = [record("fifo", 1, &[(0.0, 1e5, 1); 9])];
        let lines = remarks(&ControlSummary::of(&r));
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[2], "7 more flows starve");
    }
}
