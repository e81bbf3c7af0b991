//! Values from outside a file are refused like those in it, and the error names both.

use fairmesh_scenario::{Draft, Edit, draft_from_toml};
use fairmesh_units::Span;

const FILE: &str = r#"duration = "10 s"
warmup = "1 s"
[topology]
chain = { hops = 2 }
gateway = 0
[[flow]]
from = 2
to = 0
start = "5 s"
[[flow]]
from = 1
to = 0
stop = "8 s"
traffic = { kind = "cbr", rate = "100 kbit/s" }
[[rate_change]]
at = "7 s"
from = 0
to = 1
rate = "1 Mbit/s"
[[route_change]]
at = "6 s"
flow = "2->0"
path = [2, 1, 0]
[[interferer]]
nodes = [1]
duty = 0.1
start = "4 s"
"#;

fn draft() -> Draft {
    draft_from_toml("late.toml", FILE).unwrap()
}

/// Returns the error of the draft under an override of the duration.
fn at_duration(file: &str, duration: Span) -> String {
    let mut draft = draft_from_toml("late.toml", file).unwrap();
    draft.set_duration(duration, "--duration");
    draft.build().map(|_| ()).unwrap_err().to_string()
}

#[test]
fn the_file_and_an_override_that_fits_resolve() {
    assert_eq!(draft().build().unwrap().duration(), Span::from_secs(10));
    let mut longer = draft();
    longer.set_duration(Span::from_secs(20), "--duration");
    let world = longer.build().unwrap();
    assert_eq!((world.duration(), world.warmup()), (Span::from_secs(20), Span::from_secs(1)));
    // A warm-up of half of the run becomes a tenth.
    let mut short = draft_from_toml("x.toml", &FILE.replace("\"5 s\"", "\"0 s\"")).unwrap();
    (short.interferer, short.rate_change, short.route_change) = (vec![], vec![], vec![]);
    short.set_duration(Span::from_secs(2), "--duration");
    assert_eq!(short.build().unwrap().warmup(), Span::from_millis(200));
}

#[test]
fn values_beyond_an_overridden_duration_are_named_with_their_line() {
    let late = |line: u32, key: &str, at: &str| {
        format!("late.toml:{line}: {key}: {at} is out of range; expected a ")
    };
    let without = |key: &str| FILE.replace(key, "\"0 s\"");
    let message = at_duration(FILE, Span::from_secs(1));
    assert!(message.starts_with(&late(9, "flow[0].start", "5 s")), "{message}");
    assert!(
        message.ends_with("before the end of the run, 1 s (`duration` is given by --duration)"),
        "{message}"
    );
    let message = at_duration(&without("\"5 s\""), Span::from_secs(1));
    assert!(message.starts_with(&late(27, "interferer[0].start", "4 s")), "{message}");
    let message = at_duration(FILE, Span::from_millis(6_500));
    assert!(message.starts_with(&late(16, "rate_change[0].at", "7 s")), "{message}");
    let message = at_duration(&without("\"7 s\""), Span::from_millis(5_500));
    assert!(message.starts_with(&late(21, "route_change[0].at", "6 s")), "{message}");
    assert!(message.ends_with("(`duration` is given by --duration)"), "{message}");
    // The same value in the file is refused at the same key, without an override.
    let file = FILE.replace("\"10 s\"", "\"6500 ms\"");
    let same = draft_from_toml("late.toml", &file).unwrap().build().unwrap_err().to_string();
    assert!(same.starts_with(&late(16, "rate_change[0].at", "7 s")), "{same}");
    assert!(!same.contains("given by"), "{same}");
}

#[test]
fn a_wrong_override_is_named_with_its_key() {
    let mut d = draft();
    d.set_warmup(Span::from_secs(10), "--warmup");
    assert_eq!(
        d.build().map(|_| ()).unwrap_err().to_string(),
        "late.toml: warmup: 10 s is out of range; expected less than `duration`, 10 s \
         (`warmup` is given by --warmup)"
    );
    let edit = |key: &str, value: &str| {
        let mut d = draft();
        let edited = d.edit(&[Edit::text(key, value, "--vary")]);
        edited.and_then(|()| d.build().map(|_| ())).unwrap_err().to_string()
    };
    for (key, value, expected) in [
        ("flow.0.start", "12 s", "late.toml: flow[0].start: 12 s is out of range"),
        ("flow.*.stop", "3 s", "late.toml: flow[0].stop: "),
        ("flow.0.wait", "1", "late.toml: flow[0].wait: unknown key; expected one of name, "),
        ("radio.rts", "7", "late.toml: radio.rts: "),
        ("flow.9.start", "1 s", "flow.9.start: flow is a list of 2"),
        ("duration.x", "1 s", "duration.x: duration is string; expected a table"),
        ("flow.1.traffic.rate", "fast", "late.toml: flow[1].traffic.rate: "),
        ("duration", "5 parsecs", "late.toml: duration: "),
    ] {
        let message = edit(key, value);
        assert!(message.contains(expected), "{key}={value}: {message}");
        assert!(message.ends_with("is given by --vary)"), "{key}={value}: {message}");
        assert_eq!(message.lines().count(), 1);
    }
}

#[test]
fn edits_are_read_together_and_a_refused_edit_changes_nothing() {
    let mut d = draft();
    // Neither is valid alone: a constant rate needs datagrams and a rate.
    let edits = [
        Edit::text("flow.0.traffic.kind", "cbr", "set"),
        Edit::text("flow.0.traffic.rate", "64 kbit/s", "set"),
    ];
    d.edit(&edits).unwrap();
    assert!(d.build().unwrap().flows()[0].traffic.is_udp());
    let before = d.clone();
    assert!(d.edit(&[Edit::text("radio.phy", "802.11z", "set")]).is_err());
    assert_eq!(d, before);
}
