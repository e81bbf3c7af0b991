//! Instructions of a mesh router per second, counted by valgrind and independent of the load.
//!
//! Without valgrind the test is skipped with a message. `scripts/node-cost.sh` counts for MIPS.

#![allow(clippy::disallowed_methods)] // the environment names the counted run

#[path = "../examples/node-cost.rs"]
mod node_cost;

use std::io::Write;
use std::process::Command;

/// Most instructions per second with 8 neighbours, of this machine's processor.
///
/// 3 % of a processor with 580 million instructions per second are 17.4 million. A test build checks overflows, and takes
/// half as many again as the shipped one.
const MOST: u64 = 12_000_000;
/// 3 % of a processor with 580 million instructions per second.
const PROMISED: u64 = 17_400_000;
/// Words of the run in a process that is counted.
const WORDS: &str = "FAIRMESH_COST_WORDS";
/// The counted time begins when mechanisms have settled.
const SHORT: u64 = 6;
const LONG: u64 = 12;

/// The counted process; without words it does nothing.
#[test]
fn a_router_in_virtual_time() {
    let Ok(words) = std::env::var(WORDS) else { return };
    let words: Vec<&str> = words.split(' ').collect();
    let [control, file, seconds, role, mode] = words[..] else { panic!("{words:?}") };
    let recorded = std::fs::read_to_string(file).unwrap();
    let seconds = seconds.parse().unwrap();
    println!("{}", node_cost::replay(control, &recorded, seconds, role, mode).unwrap());
}

/// Returns the instructions of a process, and the sentence that it printed.
fn count(words: &str) -> Option<(u64, String)> {
    let out = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "a_router_in_virtual_time", "--nocapture", "--test-threads=1"])
        .env(WORDS, words)
        .output()
        .ok()?;
    let (printed, report) =
        (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    let sentence = printed.lines().find(|l| l.contains("octets sent"));
    let line = report.lines().find(|l| l.contains("refs:"));
    let number = line.and_then(|l| l.rsplit(':').next()).map(|n| n.trim().replace(',', ""));
    let (Some(sentence), Some(number)) = (sentence, number) else { panic!("{printed}{report}") };
    Some((number.parse().unwrap(), sentence.to_owned()))
}

#[test]
fn a_router_with_eight_neighbours_takes_few_instructions() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("messages");
    for (control, role, mode) in [
        ("gap", "gateway", "apply"),
        ("gap", "router", "observe"),
        ("gap", "router", "apply"),
        ("lbm+multihop+messages+even", "router", "apply"),
    ] {
        let recorded = node_cost::text(&node_cost::record(control, LONG).unwrap());
        std::fs::write(&file, recorded).unwrap();
        let run =
            |seconds: u64| count(&format!("{control} {} {seconds} {role} {mode}", file.display()));
        let Some((short, _)) = run(SHORT) else {
            let _ =
                writeln!(std::io::stderr(), "SKIPPED a_router_with_eight_neighbours: no valgrind");
            assert!(std::env::var_os("FAIRMESH_NO_SKIP").is_none(), "nothing may be skipped here");
            return;
        };
        let (long, sentence) = run(LONG).unwrap();
        let each = (long - short) / (LONG - SHORT);
        let what = format!("{control}, {role} in mode {mode}");
        let _ = writeln!(std::io::stderr(), "{what}: {each} instructions per second");
        let _ = writeln!(std::io::stderr(), "in {LONG} s {sentence}");
        assert!(sentence.contains("runs: true"), "{sentence}");
        let octets: u64 =
            sentence.split_once(" octets").unwrap().0.rsplit(' ').next().unwrap().parse().unwrap();
        assert!(octets <= LONG * 1000, "at most 1 kB per second: {sentence}");
        assert!(each > 100_000, "{what}: it did nothing");
        // `lbm` samples queues every few milliseconds; its bound is the promise itself.
        let most = if control == "gap" { MOST } else { PROMISED };
        assert!(each < most, "{what}: {each} instructions per second, most {most}");
    }
}
