//! Text output of `run` and `compare`.

use std::collections::BTreeSet;

use fairmesh_lab::comparison::Comparison;
use fairmesh_lab::record::RunRecord;
use fairmesh_lab::summary::{ControlSummary, OURS_NOTE, flow_label};

use crate::brief::{self, Rows};
use crate::table::{controls, rate_notes, remarks, row, table};

/// Returns the text of `compare`.
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
        out += &format!("{OURS_NOTE}\n");
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

/// Returns the text of `run`: flows, losses by cause, airtime per node.
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
         Data packets of the measured interval and their losses by cause; answers: lost acknowledgements and\n\
         requests; warm-up: losses of packets sent in the warm-up\n{drops}\n\nAirtime and frames per node\n{nodes}\n",
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
}
