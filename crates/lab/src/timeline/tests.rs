//! Tests of the timeline against the record of the same run and against a run without one.

use std::collections::{BTreeMap, HashMap};

use fairmesh_engine::RunOptions;
use prost::Message;

use super::perfetto::{EventKind, Trace};
use super::*;

/// Two senders out of each other's carrier sense, and a receiver between them.
const HIDDEN: &str = r#"
duration = "2 s"
[radio]
phy = "802.11b"
rate = "1 Mbit/s"
[topology]
links = [["hill", "relay"], ["church", "relay"]]
[[flow]]
from = "hill"
to = "relay"
traffic = { kind = "cbr", rate = "600 kbit/s" }
[[flow]]
from = "church"
to = "relay"
traffic = { kind = "cbr", rate = "600 kbit/s" }
"#;

/// Three hops with an upload from each node; nodes sense farther than they receive.
const CHAIN: &str = r#"
duration = "2 s"
[radio]
phy = "802.11b"
rate = "1 Mbit/s"
[topology]
chain = { hops = 3, spacing = "200 m" }
gateway = 0
[traffic]
flows = "up"
"#;

fn scenario(text: &str) -> Scenario {
    fairmesh_scenario::draft_from_toml("test.toml", text).unwrap().build().unwrap()
}

fn window(from_ms: u64, length_ms: u64) -> Window {
    Window { from: Span::from_millis(from_ms), length: Span::from_millis(length_ms) }
}

/// Returns the record, the summary and the trace, read back.
fn trace(text: &str, window: Window) -> (RunRecord, TimelineSummary, Trace) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.pftrace");
    let options = RunOptions::default();
    let (record, summary) =
        traced(&scenario(text), &options, window, &file, &Pool::default()).unwrap();
    let trace = Trace::decode(&*std::fs::read(file).unwrap()).unwrap();
    (record, summary, trace)
}

/// Slices by the names of their group and track: start, end, name, arrows.
type Slices = BTreeMap<(String, String), Vec<(u64, u64, String, Vec<u64>)>>;

fn slices(trace: &Trace) -> Slices {
    let mut names = HashMap::new();
    let mut found = Slices::new();
    for packet in &trace.packet {
        if let Some(d) = &packet.track_descriptor {
            let parent = d.parent_uuid.map(|p| names[&p] as &(String, String)).map(|p| p.1.clone());
            let name = (parent.unwrap_or_default(), d.name.clone().unwrap());
            names.insert(d.uuid.unwrap(), &*Box::leak(Box::new(name)));
        }
        let Some(event) = &packet.track_event else { continue };
        let at = packet.timestamp.unwrap();
        let track = found.entry(names[&event.track_uuid.unwrap()].clone()).or_default();
        match event.r#type() {
            EventKind::SliceBegin => {
                track.push((at, 0, event.name.clone().unwrap(), event.flow_ids.clone()));
            }
            EventKind::SliceEnd => track.last_mut().unwrap().1 = at,
            _ => {}
        }
    }
    found
}

#[test]
fn a_timeline_changes_nothing_in_the_run() {
    let (record, ..) = trace(HIDDEN, window(500, 300));
    let plain = crate::batch::once(&scenario(HIDDEN), 1, None).unwrap();
    let json = |r: &RunRecord| serde_json::to_string(r).unwrap();
    assert_eq!(json(&record), json(&plain));
}

#[test]
fn a_whole_run_has_the_attempts_and_losses_of_the_record() {
    let (record, summary, _) = trace(HIDDEN, window(0, 2_000));
    for link in &summary.links {
        let node = record.nodes.iter().find(|n| n.name == link.from).unwrap();
        assert_eq!(link.frames, node.mac.data, "{link:?}");
        let unanswered = link.response_lost + link.not_overlapped + link.overlapped;
        assert_eq!(unanswered, node.mac.timeouts, "{link:?}");
        // At most the last frame has no outcome.
        assert!(link.frames - link.answered - unanswered <= 1, "{link:?}");
        assert!(link.overlapped > 10, "hidden senders destroy each other's frames: {link:?}");
        let other = if link.from == "hill" { "church" } else { "hill" };
        assert_eq!(link.overlapped_by[other], link.overlapped);
    }
    assert_eq!(summary.links.len(), 2);
}

#[test]
fn slices_of_a_track_follow_each_other() {
    let (.., trace) = trace(CHAIN, window(500, 500));
    let slices = slices(&trace);
    let tracks: Vec<(&str, &str)> =
        slices.keys().map(|(group, track)| (&**group, &**track)).collect();
    for track in ["frames", "medium", "NAV", "EIFS", "backoff", "queue"] {
        let count = tracks.iter().filter(|t| t.1 == track).count();
        assert!(count >= 1, "{track}: {tracks:?}");
    }
    for (track, slices) in &slices {
        for pair in slices.windows(2) {
            assert!(pair[0].1 <= pair[1].0, "{track:?}: {pair:?}");
        }
        for slice in slices {
            assert!(slice.0 < slice.1, "{track:?}: {slice:?}");
        }
    }
}

#[test]
fn a_backoff_runs_only_while_the_medium_is_idle() {
    let (.., trace) = trace(HIDDEN, window(500, 500));
    let slices = slices(&trace);
    for node in ["hill", "church"] {
        let track = |name: &str| &slices[&(node.to_owned(), name.to_owned())];
        let countdowns = track("backoff");
        assert!(countdowns.len() > 20);
        for countdown in countdowns {
            for busy in track("medium") {
                // Energy is noticed only after aCCATime, and a countdown in its last slot continues.
                let overlap = countdown.1.min(busy.1).saturating_sub(countdown.0.max(busy.0));
                assert!(overlap <= 20_000, "{node}: {countdown:?} beside {busy:?}");
            }
        }
    }
}

#[test]
fn arrows_lead_to_responses_and_from_destroyers() {
    let (.., trace) = trace(HIDDEN, window(500, 500));
    let slices = slices(&trace);
    let mut ends: HashMap<u64, Vec<(u64, String)>> = HashMap::new();
    for ((_, track), slices) in &slices {
        for (at, _, name, arrows) in slices.iter().filter(|_| track == "frames") {
            arrows.iter().for_each(|a| ends.entry(*a).or_default().push((*at, name.clone())));
        }
    }
    let (mut responses, mut overlapped) = (0, 0);
    for ends in ends.values_mut() {
        ends.sort();
        assert_eq!(ends.len(), 2, "{ends:?}");
        match ends[1].1.starts_with("ACK") {
            true => responses += 1,
            false => overlapped += 1,
        }
    }
    assert!(responses >= 5 && overlapped >= 20, "{responses} {overlapped}");
}

#[test]
fn an_aggregate_is_one_slice() {
    let text = r#"
duration = "1 s"
[radio]
phy = "802.11n"
[topology]
links = [["a", "b"]]
[[flow]]
from = "a"
to = "b"
"#;
    let (record, summary, trace) = trace(text, window(0, 1_000));
    let sent = &record.nodes[0].mac;
    let slices = slices(&trace);
    let frames = slices[&("a".to_owned(), "frames".to_owned())].len() as u64;
    assert_eq!(frames, sent.data + sent.ack + sent.block_ack + sent.rts + sent.cts);
    let link = summary.links.iter().find(|l| l.from == "a").unwrap();
    assert_eq!(link.frames, sent.data + sent.rts);
    assert!(sent.mpdus > 2 * sent.data);
}

#[test]
fn windows_outside_of_the_run_are_refused() {
    let duration = Span::from_secs(2);
    for (bad, word) in [
        (window(2_000, 10), "from: found 2 s; expected less than the duration"),
        (window(0, 0), "for: found 0 s; expected more than 0 s and at most 60 s"),
        (window(0, 60_001), "at most 60 s"),
    ] {
        let error = bad.check(duration).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
    // A window may reach beyond the end.
    window(1_999, 60_000).check(duration).unwrap();
}

#[test]
fn nothing_is_left_when_the_run_is_cancelled_or_the_folder_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.pftrace");
    let cancel = CancelToken::default();
    cancel.cancel();
    let pool = Pool { cancel: Some(&cancel), ..Pool::default() };
    let options = RunOptions::default();
    traced(&scenario(HIDDEN), &options, window(0, 100), &file, &pool).unwrap_err();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let nowhere = folder.path().join("no/t.pftrace");
    let error = traced(&scenario(HIDDEN), &options, window(0, 100), &nowhere, &Pool::default())
        .unwrap_err();
    assert!(error.to_string().contains("no"), "{error}");
}
