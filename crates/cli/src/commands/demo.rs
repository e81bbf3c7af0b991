//! `fairmesh demo --live`: an emulated mesh to watch, and the gateway's daemon turned on half-way.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use fairmesh_control::Mechanism;
use fairmesh_emulator::{EmulateOptions, Network, Progress, emulate};
use fairmesh_engine::measures::jain;
use fairmesh_lab::Changes;
use fairmesh_lab::changes::{set_times, with_control};
use fairmesh_lab::source::{build, load};
use fairmesh_report::table;
use fairmesh_scenario::{NodeKind, Scenario};
use fairmesh_units::{NodeId, Span, Time};

use crate::args::DemoArgs;
use crate::commands::emulate::{judged, refused, summary};
use crate::daemon::{Work, the_gateway};
use crate::error::CliError;
use crate::interrupt;

/// The scenario of those who bring none.
const BUILT_IN: &str = include_str!("../../assets/demo-live.toml");

/// What the daemon does where the scenario names no control.
const DEFAULT_CONTROL: &str = "pfrc";

/// The view is drawn this often on a terminal, and this often elsewhere.
const REDRAW: Span = Span::from_millis(500);
const REPORT: Span = Span::from_secs(5);

/// Rates are means over this long.
const WINDOW: Span = Span::from_secs(3);

/// Columns of a bar.
const BAR: usize = 40;

/// Emulates, shows and compares.
///
/// # Errors
/// Bad input, missing rights, an interrupt; namespaces are gone then. A run that did not keep its
/// time is [`CliError::Verdict`], after what it showed.
pub fn run(args: &DemoArgs, out: &mut dyn Write) -> Result<(), CliError> {
    let scenario = match &args.scenario {
        Some(path) => load(path, &Changes::default())?.scenario,
        None => {
            let name = PathBuf::from("demo-live.toml");
            build(&name, BUILT_IN.as_bytes(), &Changes::default())?
        }
    };
    let mut scenario = scenario;
    set_times(&mut scenario, args.duration, None)?;
    let on = args.after.unwrap_or(Span::from_nanos(scenario.duration.as_nanos() / 3));
    if on >= scenario.duration {
        let problem =
            format!("found {on}; expected less than the duration of {}", scenario.duration);
        return Err(CliError::option("--after", problem));
    }
    let gateway = the_gateway(&scenario).map_err(|e| CliError::option("demo", e))?;
    let daemon = args.daemon.as_ref().map(|line| hook(&scenario, gateway, on, line));
    let name = scenario.nodes[gateway.index()].name.clone();
    let mut own = None;
    let mut work = None;
    if daemon.is_none() {
        let mut controlled = scenario.clone();
        if controlled.control.is_none() {
            controlled = with_control(&controlled, DEFAULT_CONTROL)?;
        }
        let made = Work::at(&[controlled], true, Time::ZERO + on)?;
        own = made.daemon(0);
        work = Some(made);
        scenario.set_control(Mechanism::none());
    }
    let own = RefCell::new(own);
    let options = EmulateOptions {
        exec: daemon.iter().map(|line| (name.clone(), line.clone())).collect(),
        ..EmulateOptions::default()
    };
    let mut view = View::new(&scenario, on);
    let mut ready = |network: &Network| {
        if let Some(d) = own.borrow_mut().as_mut() {
            d.ready(network);
        }
    };
    let outcome = emulate(&scenario, &options, interrupt::awaited(), &mut ready, &mut |p| {
        if let Some(d) = own.borrow_mut().as_mut() {
            d.watch(p);
        }
        // A closed terminal is no reason to stop; the result comes at the end.
        let _ = view.show(p, &mut io::stderr());
    });
    let mut record = outcome.map_err(|e| refused(&scenario, &e))?.record;
    write!(out, "{}", view.verdict(Time::ZERO + scenario.duration))?;
    if let Some(daemon) = own.into_inner() {
        daemon.finish(DEFAULT_CONTROL, &mut record)?;
        writeln!(out, "What the daemon decided last, and why:")?;
        let last = &record.decisions;
        for d in &last[last.len().saturating_sub(5)..] {
            writeln!(out, "{:>5.0} s  {}: {}", d.time_s, d.code, d.reason)?;
        }
        for problem in record.emulation.iter().flat_map(|e| &e.problems) {
            writeln!(io::stderr(), "fairmesh: warning: {problem}")?;
        }
    }
    drop(work);
    if let Some(e) = &record.emulation {
        write!(out, "\n{}", summary(e))?;
    }
    out.flush()?;
    judged(std::iter::once(&record))
}

/// The daemon's command line with what it needs to know, started after a while.
fn hook(scenario: &Scenario, gateway: NodeId, on: Span, line: &str) -> String {
    let address = fairmesh_emulator::plan::address;
    let mut subscribers = String::new();
    for (i, node) in scenario.nodes.iter().enumerate() {
        if node.kind == NodeKind::Wireless && i != gateway.index() {
            let _ = write!(subscribers, "{}={} ", node.name, address(i));
        }
    }
    format!(
        "export FAIRMESH_MESH=mesh0 FAIRMESH_WIRED=wire0 FAIRMESH_SUBSCRIBERS='{}'; sleep {}; {line}",
        subscribers.trim_end(),
        on.as_secs_f64()
    )
}

/// What is shown, and what was.
struct View {
    labels: Vec<String>,
    /// When the daemon is turned on.
    on: Time,
    /// How long rates have to settle after the start and after that.
    settle: (Span, Span),
    /// Recent instants with what had been delivered.
    recent: VecDeque<(Time, Vec<u64>)>,
    /// Delivered when the daemon was turned on, when the rates had settled after it, and last.
    before: Option<(Time, Vec<u64>)>,
    settled: Option<(Time, Vec<u64>)>,
    first: Option<(Time, Vec<u64>)>,
    last: (Time, Vec<u64>),
    terminal: bool,
    drawn: usize,
    next: Time,
}

/// Rates count from this long after the start, and after the daemon was turned on, or from half of
/// the time there is.
const SETTLE: Span = Span::from_secs(10);

impl View {
    fn new(scenario: &Scenario, on: Span) -> Self {
        let name = |n: NodeId| &scenario.nodes[n.index()].name;
        let label = |f: &fairmesh_scenario::Flow| {
            format!("{} → {} ({} hops)", name(f.from), name(f.to), f.wireless_hops)
        };
        let half = |of: Span| Span::from_nanos(of.as_nanos() / 2).min(SETTLE);
        View {
            settle: (half(on), half(scenario.duration.saturating_sub(on))),
            labels: scenario.flows.iter().map(label).collect(),
            on: Time::ZERO + on,
            recent: VecDeque::new(),
            before: None,
            settled: None,
            first: None,
            last: (Time::ZERO, vec![0; scenario.flows.len()]),
            terminal: io::stderr().is_terminal(),
            drawn: 0,
            next: Time::ZERO,
        }
    }

    fn show(&mut self, p: &Progress, out: &mut dyn Write) -> io::Result<()> {
        let now = (p.now, p.delivered.clone());
        let past = |at: Time| p.now >= at;
        if self.first.is_none() && past(Time::ZERO + self.settle.0) {
            self.first = Some(now.clone());
        }
        if self.before.is_none() && past(self.on) {
            self.before = Some(now.clone());
        }
        if self.settled.is_none() && past(self.on + self.settle.1) {
            self.settled = Some(now.clone());
        }
        self.last = now.clone();
        self.recent.push_back(now);
        while self.recent.len() > 1 && p.now - self.recent[0].0 > WINDOW {
            self.recent.pop_front();
        }
        if p.now < self.next {
            return Ok(());
        }
        self.next = p.now + if self.terminal { REDRAW } else { REPORT };
        let rates =
            rates(&self.recent[0], &self.last).unwrap_or_else(|| vec![0.0; self.labels.len()]);
        let controlled = past(self.on);
        let text = self.draw(p.now, &rates, controlled);
        if self.terminal && self.drawn > 0 {
            write!(out, "\u{1b}[{}A\u{1b}[J", self.drawn)?;
        }
        self.drawn = text.lines().count();
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    fn draw(&self, now: Time, rates: &[f64], controlled: bool) -> String {
        let state = if controlled {
            "the gateway's daemon is on".to_owned()
        } else {
            let left = self.on.since(now).as_secs_f64();
            format!("no control; the daemon comes in {left:.0} s")
        };
        let mut text = format!("{:>5.0} s  {state}, Jain {:.2}\n", now.as_secs_f64(), jain(rates));
        if !self.terminal {
            let all: Vec<String> = rates.iter().map(|r| format!("{:.0}", r * 1e-3)).collect();
            return format!("{}  kbit/s {}\n", text.trim_end(), all.join(" "));
        }
        let most = rates.iter().copied().fold(1.0, f64::max);
        let width = self.labels.iter().map(|l| l.chars().count()).max().unwrap_or(0);
        for (label, rate) in self.labels.iter().zip(rates) {
            let bar = "█".repeat((rate / most * BAR as f64).round() as usize);
            let _ = writeln!(text, "  {label:width$}  {:>7.1} kbit/s  {bar}", rate * 1e-3);
        }
        text
    }

    /// Rates without and with the daemon.
    fn verdict(&self, end: Time) -> String {
        let until = self.before.as_ref().unwrap_or(&self.last);
        let without = self.first.as_ref().and_then(|from| rates(from, until));
        let with = self.settled.as_ref().and_then(|from| rates(from, &self.last));
        let mut t = table::table(&["flow", "without kbit/s", "with kbit/s"]);
        let cell = |r: &Option<Vec<f64>>, f: usize| {
            table::optional(r.as_ref().and_then(|r| r.get(f).copied()), 1e-3, 1)
        };
        for (f, label) in self.labels.iter().enumerate() {
            table::row(&mut t, [label.clone(), cell(&without, f), cell(&with, f)]);
        }
        let fairness = |r: &Option<Vec<f64>>| table::optional(r.as_ref().map(|r| jain(r)), 1.0, 3);
        table::row(&mut t, ["Jain".to_owned(), fairness(&without), fairness(&with)]);
        format!("After {} s, without and with the daemon\n{t}\n", end.as_secs_f64())
    }
}

/// Bit/s per flow between two readings; `None` unless the second is the later one.
fn rates(from: &(Time, Vec<u64>), to: &(Time, Vec<u64>)) -> Option<Vec<f64>> {
    let seconds = to.0.since(from.0).as_secs_f64();
    let rate = |(b, a): (&u64, &u64)| b.saturating_sub(*a) as f64 * 8.0 / seconds;
    (seconds > 0.0).then(|| to.1.iter().zip(&from.1).map(rate).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario() -> Scenario {
        build(&PathBuf::from("x.toml"), BUILT_IN.as_bytes(), &Changes::default()).unwrap()
    }

    #[test]
    fn the_daemon_is_told_who_its_subscribers_are() {
        let s = scenario();
        let line = hook(&s, s.gateways.first().unwrap(), Span::from_secs(30), "exec daemon");
        assert_eq!(
            line,
            "export FAIRMESH_MESH=mesh0 FAIRMESH_WIRED=wire0 \
             FAIRMESH_SUBSCRIBERS='1=10.66.0.2 2=10.66.0.3 3=10.66.0.4 4=10.66.0.5'; sleep 30; exec daemon"
        );
    }

    /// The daemon comes before rates would have settled, were there time.
    #[test]
    fn a_short_demo_has_rates_too() {
        let mut short = scenario();
        short.duration = Span::from_secs(24);
        let mut view = View::new(&short, Span::from_secs(8));
        for s in 0..=24u64 {
            let p = Progress {
                now: Time::ZERO + Span::from_secs(s),
                delivered: vec![s * 100_000, 0, 0, 0],
                transmissions: 0,
            };
            view.show(&p, &mut Vec::new()).unwrap();
        }
        let verdict = view.verdict(Time::ZERO + Span::from_secs(24));
        let row = verdict.lines().find(|l| l.contains("1 → server")).unwrap();
        assert_eq!(row.matches("800.0").count(), 2, "{verdict}");
        let reading = |s, bytes| (Time::ZERO + Span::from_secs(s), vec![bytes]);
        assert_eq!(rates(&reading(10, 7), &reading(8, 5)), None, "not backwards");
    }

    #[test]
    fn a_run_that_was_late_is_a_failure() {
        let mut record = fairmesh_lab::testing::record("fifo", 1, &[(1e5, 1e5, 1)]);
        assert!(judged(std::iter::once(&record)).is_ok(), "a simulated one is never late");
        let mut e = fairmesh_engine::record::EmulationRecord { valid: true, ..Default::default() };
        record.emulation = Some(e.clone());
        assert!(judged(std::iter::once(&record)).is_ok());
        (e.valid, e.problems) = (false, vec!["late".to_owned()]);
        record.emulation = Some(e);
        assert_eq!(judged(std::iter::once(&record)).unwrap_err().exit_code(), 1);
    }

    #[test]
    fn rates_before_and_after_are_told() {
        let mut view = View::new(&scenario(), Span::from_secs(30));
        view.terminal = true;
        let mut shown = Vec::new();
        for s in 0..=60u64 {
            // 800 kbit/s for the first alone, then 80 kbit/s for each.
            let early = s.min(30) * 100_000;
            let late = s.saturating_sub(30) * 10_000;
            let p = Progress {
                now: Time::ZERO + Span::from_secs(s),
                delivered: vec![early + late, late, late, late],
                transmissions: 0,
            };
            view.show(&p, &mut shown).unwrap();
        }
        let shown = String::from_utf8(shown).unwrap();
        assert!(shown.contains("800.0 kbit/s  ████"), "{shown}");
        assert!(shown.contains("no control; the daemon comes in 20 s, Jain 0.25"), "{shown}");
        let verdict = view.verdict(Time::ZERO + Span::from_secs(60));
        let row = verdict.lines().find(|l| l.contains("1 → server")).unwrap();
        assert!(row.contains("800.0") && row.contains("80.0"), "{verdict}");
        let jain = verdict.lines().find(|l| l.contains("Jain")).unwrap();
        assert!(jain.contains("0.250") && jain.contains("1.000"), "{verdict}");
    }
}
