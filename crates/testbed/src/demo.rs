//! Live demonstration: an emulated mesh to watch, and a daemon that is turned on part-way.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};

use fairmesh_control::Mechanism;
use fairmesh_emulator::{EmulateOptions, Progress};
use fairmesh_engine::measures::jain;
use fairmesh_engine::record::RunRecord;
use fairmesh_scenario::{NodeKind, Scenario};
use fairmesh_units::{NodeId, Span, Time};

use crate::configuration::the_gateway;
use crate::error::TestbedError;
use crate::process::Programs;
use crate::run::{Hooks, run};
use crate::workspace::{Daemons, Workspace};

/// Scenario of a demonstration without a scenario file, as TOML.
pub const SCENARIO: &str = include_str!("../assets/demo-live.toml");

/// Redraw interval of the view on a terminal.
const REDRAW_INTERVAL: Span = Span::from_millis(500);

/// Interval of the view's lines elsewhere.
const LINE_INTERVAL: Span = Span::from_secs(5);

/// Averaging window of the rates shown.
const AVERAGING_WINDOW: Span = Span::from_secs(3);

/// Columns of a bar.
const BAR_COLUMNS: usize = 40;

/// Settling time after the start, and after the daemon was turned on.
///
/// It is at most half of each phase.
const SETTLING_TIME: Span = Span::from_secs(10);

/// The daemon of a demonstration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Controller {
    /// The gateway daemon, with the control of the scenario.
    Daemon(Programs),
    /// A shell command; docs/cli-root.md lists the environment variables that it receives.
    Command(String),
}

/// Rates of a demonstration's two phases, each after its settling time.
#[derive(Clone, PartialEq, Debug)]
pub struct Verdict {
    /// One label per flow: its ends and its number of wireless hops.
    pub flows: Vec<String>,
    /// Bit/s per flow before the daemon; `None` if that phase was too short.
    pub without: Option<Vec<f64>>,
    /// Bit/s per flow under the daemon; `None` if that phase was too short.
    pub with: Option<Vec<f64>>,
}

/// Emulates the scenario, turns the controller on after `on`, and draws the rates to `view`.
///
/// Nothing limits the flows before `on`. The scenario has a control if the controller is the
/// gateway daemon.
///
/// # Errors
/// See [`crate::run()`] and [`crate::Daemon::prepare`]. A `view` that cannot be written is not an error.
pub fn show(
    scenario: &Scenario,
    controller: &Controller,
    on: Span,
    hooks: Hooks<'_>,
    view: &mut dyn Write,
) -> Result<(RunRecord, Verdict), TestbedError> {
    let gateway = the_gateway(scenario).map_err(TestbedError::scenario(scenario.name()))?;
    let mut options = EmulateOptions::default();
    let mut files = None;
    match controller {
        Controller::Daemon(programs) => {
            let one = std::slice::from_ref(scenario);
            files = Some(Workspace::new(
                one,
                Some(Daemons { start: Time::ZERO + on, ..Daemons::default() }),
                programs,
            )?);
        }
        Controller::Command(line) => {
            let name = scenario.nodes()[gateway.index()].name.clone();
            options.exec.push((name, environment(scenario, gateway, on, line)));
        }
    }
    let mut mesh = scenario.clone();
    mesh = mesh.with_control_everywhere(Mechanism::none());
    let drawn = RefCell::new(View::new(scenario, on));
    let Hooks { stop, ready, progress } = hooks;
    let mut draw = |p: &Progress| {
        progress(p);
        // A closed terminal does not end the run; the verdict is printed at its end.
        let _ = drawn.borrow_mut().show(p, view);
    };
    let daemon = files.as_ref().and_then(|f| f.agent(0));
    let record = run(&mesh, &options, daemon, Hooks { stop, ready, progress: &mut draw })?;
    Ok((record, drawn.into_inner().verdict()))
}

/// Returns a shell command that exports the network's facts, waits for `on` and runs `line`.
fn environment(scenario: &Scenario, gateway: NodeId, on: Span, line: &str) -> String {
    let address = fairmesh_emulator::plan::address;
    let mut subscribers = String::new();
    for (i, node) in scenario.nodes().iter().enumerate() {
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

/// The live view, and the readings that its verdict needs.
struct View {
    labels: Vec<String>,
    /// Time at which the daemon is turned on.
    on: Time,
    /// Settling times after the start and after `on`.
    settle: (Span, Span),
    /// Bytes delivered per flow at recent instants.
    recent: VecDeque<(Time, Vec<u64>)>,
    /// Bytes delivered when the daemon was turned on.
    before: Option<(Time, Vec<u64>)>,
    /// Bytes delivered after the daemon's settling time.
    settled: Option<(Time, Vec<u64>)>,
    /// Bytes delivered after the first settling time.
    first: Option<(Time, Vec<u64>)>,
    /// Bytes delivered at the latest instant.
    last: (Time, Vec<u64>),
    terminal: bool,
    drawn: usize,
    next: Time,
}

impl View {
    fn new(scenario: &Scenario, on: Span) -> Self {
        let name = |n: NodeId| &scenario.nodes()[n.index()].name;
        let label = |f: &fairmesh_scenario::Flow| {
            format!("{} → {} ({} hops)", name(f.from), name(f.to), f.wireless_hops)
        };
        let half = |of: Span| Span::from_nanos(of.as_nanos() / 2).min(SETTLING_TIME);
        View {
            settle: (half(on), half(scenario.duration().saturating_sub(on))),
            labels: scenario.flows().iter().map(label).collect(),
            on: Time::ZERO + on,
            recent: VecDeque::new(),
            before: None,
            settled: None,
            first: None,
            last: (Time::ZERO, vec![0; scenario.flows().len()]),
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
        while self.recent.len() > 1 && p.now - self.recent[0].0 > AVERAGING_WINDOW {
            self.recent.pop_front();
        }
        if p.now < self.next {
            return Ok(());
        }
        self.next = p.now + if self.terminal { REDRAW_INTERVAL } else { LINE_INTERVAL };
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
            let bar = "█".repeat((rate / most * BAR_COLUMNS as f64).round() as usize);
            let _ = writeln!(text, "  {label:width$}  {:>7.1} kbit/s  {bar}", rate * 1e-3);
        }
        text
    }

    /// Returns the rates without and with the daemon.
    fn verdict(&self) -> Verdict {
        let until = self.before.as_ref().unwrap_or(&self.last);
        Verdict {
            flows: self.labels.clone(),
            without: self.first.as_ref().and_then(|from| rates(from, until)),
            with: self.settled.as_ref().and_then(|from| rates(from, &self.last)),
        }
    }
}

/// Returns bit/s per flow between two readings; `None` unless the second is the later one.
fn rates(from: &(Time, Vec<u64>), to: &(Time, Vec<u64>)) -> Option<Vec<f64>> {
    let seconds = to.0.since(from.0).as_secs_f64();
    let rate = |(b, a): (&u64, &u64)| b.saturating_sub(*a) as f64 * 8.0 / seconds;
    (seconds > 0.0).then(|| to.1.iter().zip(&from.1).map(rate).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario() -> Scenario {
        fairmesh_scenario::parse("x.toml", SCENARIO.as_bytes(), &Default::default()).unwrap()
    }

    #[test]
    fn the_command_receives_interfaces_and_subscribers() {
        let s = scenario();
        let line =
            environment(&s, s.gateways().first().unwrap(), Span::from_secs(30), "exec daemon");
        assert_eq!(
            line,
            "export FAIRMESH_MESH=mesh0 FAIRMESH_WIRED=wire0 \
             FAIRMESH_SUBSCRIBERS='1=10.66.0.2 2=10.66.0.3 3=10.66.0.4 4=10.66.0.5'; sleep 30; exec daemon"
        );
    }

    /// The daemon starts before the full settling time has passed.
    #[test]
    fn a_short_demo_has_rates_too() {
        let mut short = scenario();
        short = short.with_times(Span::from_secs(24), Span::from_secs(1)).unwrap();
        let mut view = View::new(&short, Span::from_secs(8));
        for s in 0..=24u64 {
            let p = Progress {
                now: Time::ZERO + Span::from_secs(s),
                delivered: vec![s * 100_000, 0, 0, 0],
                transmissions: 0,
            };
            view.show(&p, &mut Vec::new()).unwrap();
        }
        let verdict = view.verdict();
        assert_eq!(verdict.flows[0], "1 → server (1 hops)");
        assert_eq!(verdict.without.unwrap()[0], 800e3);
        assert_eq!(verdict.with.unwrap()[0], 800e3);
        let reading = |s, bytes| (Time::ZERO + Span::from_secs(s), vec![bytes]);
        assert_eq!(rates(&reading(10, 7), &reading(8, 5)), None, "not backwards");
    }

    #[test]
    fn rates_of_both_phases_are_measured() {
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
        let verdict = view.verdict();
        let (without, with) = (verdict.without.unwrap(), verdict.with.unwrap());
        assert_eq!((without[0], with[0]), (800e3, 80e3));
        assert_eq!((jain(&without), jain(&with)), (0.25, 1.0));
    }
}
