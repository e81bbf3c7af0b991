//! Text tables.

use std::collections::BTreeSet;

use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use fairmesh_lab::Estimate;
use fairmesh_lab::comparison::Comparison;
use fairmesh_lab::record::RunRecord;
use fairmesh_lab::summary::{
    ControlSummary, FlowSummary, MovingLimits, OURS, SubscriberSummary, flow_label, marked,
};
use fairmesh_lab::timeline::TimelineSummary;
use fairmesh_lab::verdict::{LossyHop, Starving};

use crate::brief::{self, Rows};

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

/// Returns the tables of `compare`.
///
/// They are: the result in one line, one table per control, the controls side by side, and at the
/// end every assumption once.
pub fn comparison(c: &Comparison, rows: Rows) -> String {
    let flows = c.results.first().map_or(0, |r| r.flows.len());
    let mut out = format!(
        "{}\n{}: {} s simulated, measured from {} s on, {} seed{}, {flows} flow{}\n",
        brief::answer(c),
        c.scenario,
        c.duration_s,
        c.warmup_s,
        c.seeds,
        if c.seeds == 1 { "" } else { "s" },
        if flows == 1 { "" } else { "s" },
    );
    for r in &c.results {
        out += &format!("\n{}\n{}\n", r.control, brief::rows(r, rows));
        for line in remarks(r) {
            out += &format!("{line}\n");
        }
    }
    out += &format!("\n{}\n", controls(&c.results));
    if c.results.iter().any(|r| r.ours) {
        out += &format!("{OURS}\n");
    }
    for note in rate_notes(&c.results) {
        out += &format!("{note}\n");
    }
    if !c.notes.is_empty() {
        out += "\nAssumptions, changes and omissions:\n";
        let mut seen = BTreeSet::new();
        for note in c.notes.iter().filter(|note| seen.insert(note.as_str())) {
            out += &format!("- {}\n", one_line(note));
        }
    }
    out
}

/// Puts a note on one line, because names of a map are part of it.
fn one_line(note: &str) -> String {
    note.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Returns notes on the reference rates: upper bounds, and flows that pause.
pub fn rate_notes(results: &[ControlSummary]) -> Vec<&'static str> {
    let mut notes = Vec::new();
    if results.iter().any(|r| r.fair_is_upper_bound) {
        notes.push(
            "fair ≤: an upper bound, for aggregates of full size; \"of share\" is of that or of an equal share \
             of what was carried, whichever is less (compare --optimum measures what fits)",
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

fn controls(results: &[ControlSummary]) -> Table {
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
                // The worst flow may change from run to run, but rows are means of one flow each.
                let run = if least.ci95.is_some() { "in an average run " } else { "" };
                let worst = format!("{run}the worst-off {kind} gets {part:.0} % of {rate}");
                format!("no {kind} starves; {worst}{cost}")
            }
            None => format!("no verdict: the runs had no fair rates{cost}"),
        });
    } else {
        lines.extend(cost);
    }
    lines.extend(moving(r));
    lines
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
        "{from} → {to} got no answer to {} of {:.0} frames",
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
            format!("the answer to {} of them was lost", percent(hop.answer_lost))
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

/// Returns the tables of `run`: flows, losses by cause, airtime per node.
pub fn run(r: &RunRecord) -> String {
    let summary = ControlSummary::of(std::slice::from_ref(r));
    let mut drops = table(&[
        "flow",
        "sent",
        "delivered",
        "queue",
        "wire",
        "retry limit",
        "limiter",
        "answers",
        "warm-up",
    ]);
    for f in &r.flows {
        let d = f.data_drops;
        let answers = f.answer_drops.total();
        let warmup = f.drops.total() - d.total() - answers;
        let data = [d.queue, d.wire, d.retry_limit, d.limiter];
        let cells = [f.packets_sent, f.packets_delivered].into_iter().chain(data);
        let cells = cells.chain([answers, warmup]);
        let label = flow_label(&f.name, &f.from, &f.to);
        row(&mut drops, [label].into_iter().chain(cells.map(|c| c.to_string())));
    }
    // If frames carry several MPDUs, the table shows frames and MPDUs.
    let aggregates = r.nodes.iter().any(|n| n.mac.block_ack > 0 || n.mac.mpdus > n.mac.data);
    let mut head = vec!["node", "transmits", "senses", "idle", "mean queue", "data"];
    head.extend(aggregates.then_some("MPDUs"));
    head.extend(["RTS", "CTS", "ACK"]);
    head.extend(aggregates.then_some("BlockAck"));
    head.extend(["timeouts", "collided", "gave up"]);
    let mut nodes = table(&head);
    for n in &r.nodes {
        let (m, percent) = (&n.mac, |v: f64| format!("{:.1} %", v * 100.0));
        let shares = [n.airtime_tx, n.airtime_busy, n.airtime_idle].map(percent);
        let mut counts = vec![m.data];
        counts.extend(aggregates.then_some(m.mpdus));
        counts.extend([m.rts, m.cts, m.ack]);
        counts.extend(aggregates.then_some(m.block_ack));
        counts.extend([m.timeouts, m.collided, m.gave_up]);
        row(
            &mut nodes,
            [n.name.clone()]
                .into_iter()
                .chain(shares)
                .chain([format!("{:.1}", n.mean_queue)])
                .chain(counts.into_iter().map(|c| c.to_string())),
        );
    }
    let remarks: String = remarks(&summary).iter().map(|l| format!("{l}\n")).collect();
    format!(
        "{} under {}: {} s {}, measured from {} s on, seed {}, fingerprint {}\n\n{}\n{remarks}\n{}\n\n\
         Data packets and their losses in the measured interval, by cause; then lost acknowledgements and requests,\n\
         and all packets lost that were sent during the warm-up\n{drops}\n\nAirtime and frames per node\n{nodes}\n",
        r.scenario,
        r.control,
        r.duration_s,
        if r.emulation.is_some() { "emulated" } else { "simulated" },
        r.warmup_s,
        r.seed,
        r.fingerprint,
        brief::rows(&summary, Rows::All),
        controls(std::slice::from_ref(&summary)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairmesh_lab::record::SubscriberRecord;
    use fairmesh_lab::testing::record;

    #[test]
    fn compare_tables() {
        let flows = |s: f64| [(614.3e3 + s, 300e3, 2), (0.1e3, 300e3, 2), (614e3 - s, 300e3, 2)];
        let fifo = (1..=3).map(|s| record("fifo", s, &flows(s as f64 * 900.0))).collect();
        let source = (1..=3).map(|s| record("source", s, &[(299e3, 300e3, 2); 3])).collect();
        insta::assert_snapshot!(comparison(&Comparison::of(&[fifo, source]), Rows::Worst));
    }

    /// Notes contain names of maps, which may have any character.
    #[test]
    fn assumptions_are_listed_once_on_lines_of_their_own() {
        let c = Comparison::of(&[vec![record("fifo", 1, &[(1e5, 1e5, 1)])]]);
        let text = |notes: &[&str]| {
            let notes = notes.iter().map(|n| (*n).to_owned()).collect();
            comparison(&c.clone().noted(notes), Rows::Worst)
        };
        let end =
            "\nAssumptions, changes and omissions:\n- node \"a b\" has no radio\n- routes by ETX\n";
        let noted = text(&["node \"a\nb\" has no radio", "routes by ETX", "routes by ETX"]);
        assert!(noted.ends_with(end), "{noted}");
        assert!(!text(&[]).contains("Assumptions"));
    }

    #[test]
    fn run_tables() {
        let mut r = record("fifo", 7, &[(299e3, 300e3, 1), (1e3, 300e3, 3)]);
        r.flows[1].packets_delivered = 0;
        insta::assert_snapshot!(run(&r));
    }

    #[test]
    fn subscribers_stand_above_their_flows() {
        let mut r = record("pfrc", 1, &[(150e3, 100e3, 1), (40e3, 100e3, 1), (90e3, 100e3, 2)]);
        let home = |name: &str, flows: Vec<usize>, down: f64, up: f64| SubscriberRecord {
            name: name.to_owned(),
            weight: 1.0,
            goodput_bps: down + up,
            goodput_down_bps: down,
            goodput_up_bps: up,
            fair_bps: Some(100e3 * flows.len() as f64),
            flows,
        };
        r.subscribers =
            vec![home("mill", vec![0, 1], 150e3, 40e3), home("farm", vec![2], 0.0, 9e3)];
        let text = run(&r);
        let rows: Vec<Vec<&str>> = text.lines().map(|l| l.split_whitespace().collect()).collect();
        assert!(
            rows.contains(&vec!["mill", "2", "190.0", "150.0", "40.0", "200.0", "95", "%", "200"]),
            "{text}"
        );
        assert!(text.contains("farm starves: 9.0 % of its fair rate"), "{text}");
        let head = text.find("subscriber").unwrap();
        assert!(head < text.find(" flow ").unwrap(), "{text}");
    }

    #[test]
    fn many_starving_flows_stay_three_lines() {
        let r = [record("fifo", 1, &[(0.0, 1e5, 1); 9])];
        let lines = remarks(&ControlSummary::of(&r));
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[2], "7 more flows starve");
    }
}
