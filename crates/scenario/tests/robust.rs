//! Any input gives a scenario or an error of one line, never a panic.

use fairmesh_scenario::{ImportOptions, parse};
use proptest::prelude::*;

const OLSR: &str = include_str!("fixtures/olsr.netjson");
const MESHVIEWER: &str = include_str!("fixtures/meshviewer.json");
const TOML: &str = r#"
name = "all sections"
duration = "20 s"
warmup = "2 s"
[radio]
phy = "802.11b"
rate = "11 Mbit/s"
rts = "500 B"
queue = { kind = "red", packets = 50, min = 5, max = 15 }
errors = { frame = 0.01 }
[topology]
links = [[1, 2], [2, 3], { from = 3, to = 4, delivery = 0.9, rate = "2 Mbit/s" }]
senses = [[1, 4]]
sense_hops = 2
gateway = 1
routing = "etx"
[[node]]
id = 4
position = [10.5, -3]
[wired]
hosts = ["server"]
delay = "10 ms"
[traffic]
flows = "up"
nodes = [3, 4]
start_jitter = "1 s"
[[flow]]
from = "server"
to = 3
traffic = { kind = "file", size = "100 kB", shape = 1.5 }
transport = { tcp = "newreno", mss = "512 B", sack = true }
path = ["server", 1, 2, 3]
stop = "15 s"
weight = 2.0
[[interferer]]
nodes = [2]
duty = 0.2
[control]
use = "fifo"
"#;

fn try_it(bytes: &[u8]) {
    if let Err(e) = parse("fuzz", bytes, &ImportOptions::default()) {
        let line = e.to_string();
        assert!(line.starts_with("fuzz:") && !line.contains('\n'), "{line}");
    }
}

#[test]
fn the_seeds_are_right() {
    for text in [TOML, OLSR, MESHVIEWER] {
        parse("seed", text.as_bytes(), &ImportOptions::default()).unwrap();
    }
}

/// Tokens for mutations: parts of files, and numbers at limits.
const PIECES: &[&str] = &[
    "=",
    "[",
    "]",
    "{",
    "}",
    "\"",
    ",",
    "\n",
    "#",
    ".",
    "-",
    "0",
    "1e308",
    "nan",
    "-inf",
    "true",
    "4294967296",
    "18446744073709551615",
    "\"0 s\"",
    "\"1e300 s\"",
    "\"\"",
    "null",
    "\u{feff}",
    "[[flow]]\n",
    "[topology]\n",
    "chain = { hops = 49999 }\n",
    "\"source\": ",
    "-1",
    "\\u0000",
    "grid = { rows = 300, columns = 160, spacing = \"1 m\" }\n",
    "\u{301}",
    "0.0000001",
];

fn mutate(text: &str, edits: &[(u16, u16, u8)]) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    for &(at, length, piece) in edits {
        let start = usize::from(at) % (bytes.len() + 1);
        let end = (start + usize::from(length) % 12).min(bytes.len());
        let piece = PIECES[usize::from(piece) % PIECES.len()];
        bytes.splice(start..end, piece.bytes());
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn random_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        try_it(&bytes);
    }

    #[test]
    fn random_text(text in "\\PC{0,200}") {
        try_it(text.as_bytes());
        try_it(format!("{{{text}").as_bytes());
    }

    #[test]
    fn damaged_toml(edits in prop::collection::vec(any::<(u16, u16, u8)>(), 1..6)) {
        try_it(&mutate(TOML, &edits));
    }

    #[test]
    fn damaged_netjson(edits in prop::collection::vec(any::<(u16, u16, u8)>(), 1..4)) {
        try_it(&mutate(OLSR, &edits));
    }

    #[test]
    fn damaged_meshviewer(edits in prop::collection::vec(any::<(u16, u16, u8)>(), 1..4)) {
        try_it(&mutate(MESHVIEWER, &edits));
    }

    #[test]
    fn numbers_of_every_size(
        hops in any::<u32>(), spacing in any::<f64>(), x in any::<f64>(), weight in any::<f64>(),
        delivery in any::<f64>(), duty in any::<f64>(), count in any::<i64>(),
    ) {
        // Floats as TOML writes them.
        let float = |v: f64| {
            if v.is_finite() { format!("{v:?}") } else { v.to_string().to_lowercase() }
        };
        let (x, weight, delivery, duty) = (float(x), float(weight), float(delivery), float(duty));
        try_it(format!(
            "duration = \"{count} us\"\n[topology]\nchain = {{ hops = {hops}, spacing = \"{spacing} m\" }}\n\
             [[flow]]\nfrom = 1\nto = {count}\nweight = {weight}\n"
        ).as_bytes());
        try_it(format!(
            "duration = \"5 s\"\nradio.queue = {count}\n[topology]\npositions = [[0, 0], [{x}, 1]]\n\
             [[flow]]\nfrom = 0\nto = 1\nweight = {weight}\n\
             [[interferer]]\nduty = {duty}\nposition = [{x}, {duty}]\n"
        ).as_bytes());
        try_it(format!(
            "duration = \"5 s\"\n[topology]\nlinks = [{{ from = 1, to = 2, delivery = {delivery} }}]\n\
             [[flow]]\nfrom = 1\nto = 2\n"
        ).as_bytes());
    }
}
