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
/// Neighbours.
const NEIGHBOURS: &str = "8";
/// Words of the run in a process that is counted.
const WORDS: &str = "FAIRMESH_COST_WORDS";

/// The counted process; without words it does nothing.
#[test]
fn a_router_in_virtual_time() {
    let Ok(words) = std::env::var(WORDS) else { return };
    let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
    println!("{}", node_cost::run(&words).unwrap());
}

/// Returns the instructions of a process, and the sentence that it printed.
fn count(role: &str, mode: &str, seconds: u32) -> Option<(u64, String)> {
    let out = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "a_router_in_virtual_time", "--nocapture", "--test-threads=1"])
        .env(WORDS, format!("{role} {mode} {NEIGHBOURS} {seconds}"))
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
    for (role, mode) in [("gateway", "apply"), ("router", "observe"), ("router", "apply")] {
        let Some((short, _)) = count(role, mode, 2) else {
            let _ =
                writeln!(std::io::stderr(), "SKIPPED a_router_with_eight_neighbours: no valgrind");
            assert!(std::env::var_os("FAIRMESH_NO_SKIP").is_none(), "nothing may be skipped here");
            return;
        };
        let (long, sentence) = count(role, mode, 12).unwrap();
        let each = (long - short) / 10;
        let _ =
            writeln!(std::io::stderr(), "{role} in mode {mode}: {each} instructions per second");
        let _ = writeln!(std::io::stderr(), "in 12 s {sentence}");
        assert!(sentence.contains("gap runs: true"), "{sentence}");
        let octets: u64 =
            sentence.split_once(" octets").unwrap().0.rsplit(' ').next().unwrap().parse().unwrap();
        assert!(octets <= 12 * 1000, "at most 1 kB per second: {sentence}");
        assert!(each > 100_000, "{role}: it did nothing");
        assert!(each < MOST, "{role} in mode {mode}: {each} instructions per second, most {MOST}");
    }
}
