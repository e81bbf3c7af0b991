//! Summaries of written histories.

use super::*;
use crate::gateway::config::is_shown;
use crate::gateway::history::{HistorySettings, Ring, Stamp};

const WALL: u64 = 1_800_000_000;

/// Writes minutes in which each home of the list starves, and one that does not.
fn written(folder: &Path, names: &[&str], mesh: MeshUse) -> Summary {
    let settings = HistorySettings {
        folder: folder.to_owned(),
        size: 1 << 20,
        period: HistorySettings::PERIOD,
    };
    let mut ring = Ring::open(&settings).unwrap();
    for i in 1..=10_u64 {
        let home = |(n, name): (usize, &&str)| {
            let usage = Usage {
                bytes: 1000,
                starved: 60 - n as u32,
                confirmed: 60 - n as u32,
                starved_bytes: 75_000,
                due_bytes: 7_500_000,
                limit: Some(5_000_000),
                limited: 60,
                ceiling: Some(20_000_000),
                ..Usage::default()
            };
            let up = DirectionUse { usage, reason: "pfrc.starved".into() };
            HomeUse { name: (*name).to_owned(), directions: [DirectionUse::default(), up] }
        };
        let mut homes: Vec<HomeUse> = names.iter().enumerate().map(home).collect();
        homes.push(HomeUse { name: "fed".into(), ..HomeUse::default() });
        homes[names.len()].directions[0].usage.bytes = 1_000_000;
        let stamp = Stamp { run: 1, up: 60 * i, wall: WALL + 60 * i, first: 0, last: 0 };
        ring.store(Period { stamp, end: 0, mesh, homes }).unwrap();
    }
    Summary::read(folder, WALL, WALL + 600, None).unwrap()
}

fn mesh() -> MeshUse {
    MeshUse { seconds: 60, visible: 60, congested: 60, ..MeshUse::default() }
}

/// Names of every source stay in their cells and lines, and JSON has them unchanged.
#[test]
fn no_name_leaves_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let long = "x".repeat(10_000);
    let names =
        ["<script>alert(1)</script>", "a\"b'c&d", "two\nlines\t|", "\u{1b}[2J\u{202e}", &long];
    let summary = written(folder.path(), &names, mesh());
    assert_eq!(summary.worst().collect::<Vec<_>>(), names);
    let text = summary.text();
    assert!(text.lines().all(|l| l.chars().all(is_shown)), "{text:?}");
    assert_eq!(text.lines().filter(|l| l.contains("  up  ")).count(), 2 * names.len(), "{text}");
    let html = summary.html();
    assert!(!html.contains("<script") && !html.contains("\u{1b}"), "{html}");
    assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    assert_eq!(html.matches("<tr>").count(), 3 + 2 * names.len() + 1, "{html}");
    let json: serde_json::Value =
        serde_json::from_str(&serde_json::to_string(&summary).unwrap()).unwrap();
    for (home, name) in json["starved"].as_array().unwrap().iter().zip(names) {
        assert_eq!(home["name"], name);
    }
}

#[test]
fn rates_times_and_bottlenecks_are_those_of_the_records() {
    let bound = Some(10_000_000);
    for (mesh, expected) in [
        (mesh(), Bottleneck::Unknown),
        (MeshUse { bound, ..mesh() }, Bottleneck::MeshBehind),
        (MeshUse { bound, at_bound: 40, ..mesh() }, Bottleneck::GatewayLinks),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let summary = written(folder.path(), &["a", "b"], mesh);
        let [a, b] = summary.starved.as_slice() else { panic!("{:?}", summary.starved) };
        assert_eq!((a.name.as_str(), a.direction, a.seconds, b.seconds), ("a", "up", 600, 590));
        assert_eq!((a.carried_bits_per_second, a.due_bits_per_second), (10_000, 1_000_000));
        assert_eq!((a.bottleneck, a.confirmed_seconds), (expected, 600));
        assert_eq!((summary.homes, summary.congested_hours.len()), (3, 1));
        assert_eq!(summary.congested_hours[0].starved_homes, 2);
        assert_eq!(summary.plans[0].ratio, 0.25);
        let change = summary.change().unwrap();
        assert!(change.contains("is not known: no configuration names a control"), "{change}");
        assert_eq!(summary.text().matches("not known").count(), 3, "{}", summary.text());
        assert_eq!(summary.html().matches("not known").count(), 3, "{}", summary.html());
        assert!(!summary.notes.iter().any(|n| n.contains("are recorded")), "{:?}", summary.notes);
    }
}

/// Limits in force: the estimate of a change would be of what was there already.
#[test]
fn starvation_under_limits_is_no_estimate() {
    let folder = tempfile::tempdir().unwrap();
    let summary = written(folder.path(), &["a"], MeshUse { apply: 60, enforced: 60, ..mesh() });
    assert_eq!((summary.starved[0].unlimited_seconds, summary.change()), (0, None));
}

#[test]
fn missing_time_and_damage_are_notes() {
    let folder = tempfile::tempdir().unwrap();
    let empty = Summary::read(folder.path(), WALL, WALL + 600, None).unwrap();
    assert_eq!(empty.answer(), "nothing is recorded in this time");
    written(folder.path(), &["a"], mesh());
    let file = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    let mut bytes = std::fs::read(&file).unwrap();
    let end = bytes.len() - 2;
    bytes[end] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let summary = Summary::read(folder.path(), WALL - 86_400, WALL + 600, None).unwrap();
    let notes = summary.notes.join("\n");
    assert!(notes.contains("9 min of 24.2 h are recorded"), "{notes}");
    assert!(notes.contains("damaged and left out: 1 records"), "{notes}");
}
