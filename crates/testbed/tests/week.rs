//! A week of six homes in three minutes: those that starved, by daemon and by emulator.
//!
//! The daemon runs in the gateway's namespace of an emulated mesh, over the kernel's TCP, with its data plane and its
//! capture of headers. Its clock is injected by this program, which is also the daemon (`week gateway run …`): it runs
//! at the speed of the radio while homes have traffic, and passes over the idle hours between mornings and evenings in
//! one step. Rates, limits and records are therefore those of real time, only shorter (`history.period`); a clock that
//! ran fast throughout would divide each rate by its speed.
//!
//! Three nights in mode "observe", then `apply`, then four nights. A run that the machine's stalls have bent is
//! repeated. It needs root, and is skipped with a message without it.

use std::cell::Cell;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::AtomicBool;

use clap::Parser;
use fairmesh_agent::args::Cli;
use fairmesh_agent::commands::dispatch;
use fairmesh_agent::daemon::clock::{Clock, wall_clock};
use fairmesh_agent::gateway::config::Mode;
use fairmesh_emulator::EmulateOptions;
use fairmesh_engine::record::RunRecord;
use fairmesh_scenario::{ImportOptions, Scenario, parse};
use fairmesh_testbed::configuration::CONFIGURATION;
use fairmesh_testbed::{Agent, Daemon, Hooks, Program};
use fairmesh_units::{Span, Time};
use serde_json::Value;

/// Name of the test.
const NAME: &str = "the_worst_homes_of_an_emulated_week_are_those_that_starved";
/// Days of the week, and those before `apply`.
const DAYS: u64 = 7;
const OBSERVED: u64 = 3;
/// Length of a day, s of radio time.
const DAY: f64 = 24.5;
/// Morning and evening, in s of the day. The idle seconds around them let queues drain.
const MORNING: (f64, f64) = (1.5, 5.0);
const EVENING: (f64, f64) = (8.0, 16.5);
/// Steps of the clock, in s of the day: to the evening, and to the next morning.
///
/// A step is in one record with the samples of up to five seconds before it. These are idle: after an evening the last
/// retransmissions of starved connections come within six seconds.
const STEPS: [f64; 2] = [6.5, 23.0];
/// Hours of the clock to which they lead.
const HOURS: [u64; 2] = [19, 24 + 7];
/// Monday, 00:00 UTC.
const MONDAY: u64 = 1_799_625_600;
/// Near homes with streams, and far homes with downloads.
const NEAR: [&str; 3] = ["1", "2", "3"];
const FAR: [&str; 3] = ["4", "5", "6"];
/// Part of the mean rate below which a home starves, as for the daemon and the simulator.
const STARVED: f64 = 0.1;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let word = |i: usize| words.get(i).and_then(|w| w.to_str()).unwrap_or_default();
    if word(1) == "gateway" {
        return gateway(&words[1..]);
    }
    let others = (1..words.len()).map(word).filter(|w| !w.starts_with('-'));
    if word(1) == "--list" {
        println!("{NAME}: test");
    } else if others.into_iter().all(|filter| NAME.contains(filter)) {
        if nix::unistd::geteuid().is_root() {
            week();
            println!("test {NAME} ... ok");
        } else {
            println!("SKIPPED {NAME}: needs root for network namespaces");
            assert!(std::env::var_os("FAIRMESH_NO_SKIP").is_none(), "nothing may be skipped here");
        }
    }
    ExitCode::SUCCESS
}

// ---- The daemon and its commands, by the clock of the week.

/// File with the seconds by which the week's calendar is ahead of the system's clock.
fn dial(folder: &Path) -> PathBuf {
    folder.join("clock")
}

fn ahead(dial: &Path) -> i64 {
    std::fs::read_to_string(dial).unwrap().parse().unwrap()
}

fn turn(folder: &Path, ahead: i64) {
    let new = folder.join("clock.new");
    std::fs::write(&new, ahead.to_string()).unwrap();
    std::fs::rename(new, dial(folder)).unwrap();
}

/// Returns the clock of a folder: the system's, and all later steps of the calendar.
fn clock(folder: &Path) -> Clock {
    let (system, dial) = (Clock::system(), dial(folder));
    let (before, other) = (ahead(&dial), dial.clone());
    let steps = move || Span::from_secs((ahead(&dial) - before).unsigned_abs());
    let wall = move || wall_clock().saturating_add_signed(ahead(&other));
    Clock::new(move || system.now() + steps(), wall)
}

/// Runs a command of the gateway; a guard has no configuration, and the system's clock.
fn gateway(words: &[OsString]) -> ExitCode {
    let cli = Cli::try_parse_from(words).unwrap_or_else(|e| e.exit());
    let config = words.iter().skip_while(|w| *w != "--config").nth(1).map(Path::new);
    let clock = config.map_or_else(Clock::system, |file| clock(file.parent().unwrap()));
    match dispatch(cli.command, &clock, &mut std::io::stdout()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{}", e.line());
            ExitCode::from(e.exit_code())
        }
    }
}

fn program() -> Program {
    Program { file: std::env::current_exe().unwrap(), arguments: vec!["gateway".to_owned()] }
}

/// Returns the output of a command, which must succeed.
fn command(folder: &Path, words: &[&str]) -> String {
    let Program { file, arguments } = program();
    let mut command = Command::new(file);
    command.args(arguments).args(words).arg("--config").arg(folder.join(CONFIGURATION));
    let out = command.output().unwrap();
    assert!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

// ---- The week.

/// Returns the scenario.
///
/// In the evening streams of the near homes leave next to nothing to downloads of the far ones.
fn scenario() -> Scenario {
    let mut text = format!(
        "name = \"week\"\nduration = \"{} s\"\nwarmup = \"0 s\"\n\
         [radio]\nphy = \"802.11b-short\"\nrate = \"11 Mbit/s\"\nqueue = 50\n\
         [topology]\nchain = {{ hops = 6, spacing = \"200 m\" }}\ngateway = 0\n\
         [wired]\nhosts = [\"server\"]\ndelay = \"5 ms\"\n\
         [traffic]\nstart_jitter = \"0 s\"\ntransport = {{ tcp = \"newreno\", preset = \"rfc\", \
         min_rto = \"200 ms\", delayed_ack = false }}\n\
         [control]\nuse = \"pfrc+bursts\"\nepoch = 1\n",
        DAYS as f64 * DAY
    );
    let mut flow = |day: u64, home: &str, (from, to): (f64, f64), traffic: &str| {
        let at = |s: f64| day as f64 * DAY + s;
        let _ = write!(
            text,
            "[[flow]]\nname = \"{home} day {day} at {from}\"\nfrom = \"server\"\nto = {home}\n\
             start = \"{} s\"\nstop = \"{} s\"\n{traffic}\n",
            at(from),
            at(to)
        );
    };
    for day in 0..DAYS {
        // News: well below the capacity.
        for home in ["2", "5"] {
            flow(day, home, MORNING, "traffic = { kind = \"limited\", rate = \"64 kbit/s\" }");
        }
        for home in FAR {
            flow(day, home, EVENING, "traffic = \"bulk\"");
        }
        let stream = "transport = \"udp\"\n\
                      traffic = { kind = \"cbr\", rate = \"2 Mbit/s\", packet = \"1200 B\", jitter = 0.5 }";
        for home in NEAR {
            flow(day, home, (EVENING.0 + 0.3, EVENING.1), stream);
        }
    }
    parse("week.toml", text.as_bytes(), &ImportOptions::default()).unwrap()
}

/// Emulates the week; returns the record and the time of `apply` by the calendar.
fn emulated(folder: &Path, scenario: &Scenario) -> (RunRecord, u64) {
    let set = |calendar: u64| turn(folder, calendar as i64 - wall_clock() as i64);
    set(MONDAY + 7 * 3600);
    let daemon =
        Daemon::prepare(scenario, folder, (Time::ZERO, Mode::Observe), &program()).unwrap();
    let file = folder.join(CONFIGURATION);
    let text = std::fs::read_to_string(&file).unwrap();
    let more = "\n[shaping]\nsample = \"1 s\"\n[signs]\nread = true\n[history]\nperiod = \"4 s\"\n";
    std::fs::write(&file, text + more).unwrap();
    let (step, applied) = (Cell::new(0), Cell::new(0));
    let mut watch = |p: &fairmesh_emulator::Progress| {
        let (day, i) = (step.get() / 2, (step.get() % 2) as usize);
        if day == DAYS || p.now.as_secs_f64() < day as f64 * DAY + STEPS[i] {
            return;
        }
        step.set(step.get() + 1);
        if (day + 1, i) == (DAYS, 1) {
            return; // The week ends on Sunday evening.
        }
        set(MONDAY + day * 86_400 + HOURS[i] * 3600);
        if (day + 1, i) == (OBSERVED, 1) {
            print!("{}", command(folder, &["apply"]));
            applied.set(MONDAY + OBSERVED * 86_400);
        }
    };
    let options = EmulateOptions { sample: Some(Span::from_millis(500)), ..Default::default() };
    let hooks = Hooks { stop: &AtomicBool::new(false), ready: &mut |_| {}, progress: &mut watch };
    let record =
        fairmesh_testbed::run(scenario, &options, Some(Agent::Gateway(Box::new(daemon))), hooks)
            .unwrap();
    (record, applied.get())
}

/// Returns the rate of each home in the evening of a day, bit/s, by the emulator's record.
fn evening(record: &RunRecord, day: u64) -> Vec<(&str, f64)> {
    let inside = |t: f64| {
        // From the first second on, in which the streams fill the queue.
        let t = t - day as f64 * DAY;
        t > EVENING.0 + 1.01 && t <= EVENING.1 + 0.01
    };
    let series = &record.series;
    let rate = |f: usize| {
        let all = series.time_s.iter().zip(&series.goodput_bps[f]);
        let rates: Vec<f64> = all.filter(|(t, _)| inside(**t)).map(|(_, r)| *r).collect();
        rates.iter().sum::<f64>() / rates.len() as f64
    };
    let of = |home: &'static str| {
        let flows = record.flows.iter().enumerate().filter(|(_, f)| f.to == home);
        (home, flows.map(|(f, _)| rate(f)).sum::<f64>())
    };
    NEAR.into_iter().chain(FAR).map(of).collect()
}

/// Returns the homes with less than a tenth of the mean over some evenings.
fn starved(record: &RunRecord, days: std::ops::Range<u64>) -> Vec<&str> {
    let mut sums: Vec<(&str, f64)> = Vec::new();
    for day in days {
        let rates = evening(record, day);
        let shown: Vec<String> =
            rates.iter().map(|(home, rate)| format!("{home}: {:.0}", rate / 1e3)).collect();
        println!("evening {day}, kbit/s: {}", shown.join(", "));
        sums.resize(rates.len(), ("", 0.0));
        for (sum, (home, rate)) in sums.iter_mut().zip(rates) {
            *sum = (home, sum.1 + rate);
        }
    }
    let mean = sums.iter().map(|s| s.1).sum::<f64>() / sums.len() as f64;
    sums.into_iter().filter(|s| s.1 < STARVED * mean).map(|s| s.0).collect()
}

fn names(report: &Value) -> Vec<&str> {
    let all = report["starved"].as_array().unwrap().iter();
    all.map(|home| home["name"].as_str().unwrap()).collect()
}

fn week() {
    let scenario = scenario();
    for _ in 0..4 {
        let folder = tempfile::tempdir().unwrap();
        let (record, applied) = emulated(folder.path(), &scenario);
        let e = record.emulation.as_ref().unwrap();
        if e.stalls.bent > e.stalls.bent_bound {
            println!("repeated: {}", e.problems.join("; "));
            continue;
        }
        assert!(e.valid, "{:?}", e.problems);
        return judge(folder.path(), &record, applied);
    }
    panic!("this machine stood still in four emulations");
}

fn judge(folder: &Path, record: &RunRecord, applied: u64) {
    println!("{}", command(folder, &["report", "--since", "7d"]));
    let week: Value =
        serde_json::from_str(&command(folder, &["report", "--since", "7d", "--json"])).unwrap();
    let now = wall_clock().saturating_add_signed(ahead(&dial(folder)));
    let since = format!("{}s", now - applied);
    println!("{}", command(folder, &["report", "--since", &since]));
    let after: Value =
        serde_json::from_str(&command(folder, &["report", "--since", &since, "--json"])).unwrap();

    // By the emulator, the far homes starved before `apply`, and none after it.
    assert_eq!(starved(record, 0..OBSERVED), FAR);
    assert_eq!(starved(record, OBSERVED..DAYS), [""; 0]);
    // The report names them, and only the evenings.
    let mut worst = names(&week);
    worst.sort_unstable();
    assert_eq!(worst, FAR, "{week:#}");
    for home in week["starved"].as_array().unwrap() {
        let (seconds, at) = (home["seconds"].as_u64().unwrap(), &home["by_hour"][19]);
        assert_eq!(at.as_u64(), Some(seconds), "at 19 o'clock: {home}");
        // Of three evenings of 8 s, with records of 4 or 5 s at any offset; demand is not seen in each.
        assert!((8..=36).contains(&seconds), "{home}");
        assert_eq!(home["unlimited_seconds"], home["seconds"], "without limits: {home}");
        let at = home["bottleneck"].as_str().unwrap();
        assert!(["gateway-links", "mesh-behind"].contains(&at), "{home}");
    }
    assert_eq!(names(&after), [""; 0], "{after:#}");
    assert_eq!(after["homes"], 6);
    let recorded = &week["recorded"];
    let length = recorded[1].as_u64().unwrap() - recorded[0].as_u64().unwrap();
    assert!(length > 6 * 86_400, "{recorded}");
    let hours = |report: &Value| report["congested_hours"].as_array().unwrap().len();
    // Evenings under limits are congested, too.
    assert!(hours(&week) >= 7 && hours(&after) >= 4, "{week:#}");
    assert_eq!(week["damage"]["records"], 0);
}
