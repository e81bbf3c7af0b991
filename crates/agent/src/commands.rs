//! Implementation of the commands.

use std::io::Write;
use std::process::ExitCode;

use fairmesh_linux::{HtbShaper, Layout, Shaper};
use serde_json::Value;

use crate::args::{
    AskArgs, CheckArgs, Cli, GatewayCommand, GuardArgs, KeyArgs, OverrideArgs, Rate, ReportArgs,
    ResetArgs, RunArgs, UbusCommand,
};
use crate::daemon::clock::Clock;
use crate::daemon::guard;
use crate::daemon::guard::GuardedRun;
use crate::daemon::lock::{LOCK_PATIENCE, Lock, Registry};
use crate::daemon::runtime::StartError;
use crate::daemon::store::{self, Store};
use crate::error::AgentError;
use crate::gateway::config::{Config, Subscriber, UNMAPPED};
use crate::gateway::governor::Governor;
use crate::gateway::history::{self, HistoryReport, Summary};
use crate::gateway::preflight::{self, CheckLine};
use crate::gateway::report::{Status, SubscriberReport};
use crate::gateway::request::{OverrideRate, Request};
use crate::gateway::rescue::{Limits, resources};
use crate::gateway::start::{self, RunOptions};
use crate::gateway::{apply, doctor, exchange, init, kept, report, request};
use crate::{json, locate, program, ubus};

/// Runs `fairmesh-gateway` with the arguments of this process.
pub fn main() -> ExitCode {
    program::run("fairmesh-gateway", |cli: Cli, out| dispatch(cli.command, &Clock::system(), out))
}

/// Carries out a command; the daemon and the times of `report` follow `clock`.
///
/// # Errors
/// See [`AgentError`].
pub fn dispatch(
    command: GatewayCommand,
    clock: &Clock,
    out: &mut dyn Write,
) -> Result<(), AgentError> {
    match command {
        GatewayCommand::Run(a) => run(&a, clock),
        GatewayCommand::Init(a) => init::init(&a.into(), out),
        GatewayCommand::Check(a) => check(&a, out),
        GatewayCommand::Status(a) => status(&a, out),
        GatewayCommand::Apply(a) => apply::apply(&a.ask.config, a.mode(), a.ask.json, out),
        GatewayCommand::Why(a) => {
            let value = ask(&a.ask, &Request::Why { subscriber: a.subscriber.clone() })?;
            subscriber(&a.ask, &value, out)
        }
        GatewayCommand::Override(a) => set_override(&a, out),
        GatewayCommand::Reload(a) => {
            // An invalid file is reported here, with or without a running daemon.
            if a.socket.is_none() {
                Config::load(&a.config)?;
            }
            let value = ask(&a, &Request::Reload)?;
            if a.json {
                return json::print(out, &value);
            }
            writeln!(out, "reloaded: {} subscribers", value["subscribers"])?;
            Ok(())
        }
        GatewayCommand::Report(a) => summarize(&a, clock.wall(), out),
        GatewayCommand::Reset(a) => reset(&a, out),
        GatewayCommand::Doctor(a) => {
            let (config, broken) = match Config::load(&a.config) {
                Ok(config) => (config, None),
                Err(e) => match locate::daemon(&a.config, a.socket.as_deref()) {
                    Ok(l) => match locate::last_good(&l.socket) {
                        Some(config) => (config, Some(e)),
                        None => return Err(e.into()),
                    },
                    Err(_) => return Err(e.into()),
                },
            };
            let inside = ask(&a, &Request::Doctor).ok();
            let mut findings = doctor::examine(&config, inside.as_ref());
            findings.extend(broken.map(|e| doctor::Finding {
                code: "configuration",
                verdict: doctor::Verdict::Wrong,
                text: format!("{e}; the daemon runs with the last configuration that worked"),
            }));
            doctor::print(&findings, inside.is_some(), a.json, out)
        }
        GatewayCommand::Key(a) => print_key(&a, out),
        GatewayCommand::Guard(a) => watch(&a),
        GatewayCommand::Ubus(UbusCommand::List) => ubus::list(out),
        GatewayCommand::Ubus(UbusCommand::Call { method, config }) => {
            let dispatch = |command, out: &mut dyn Write| -> Result<(), AgentError> {
                dispatch(command, clock, out)
            };
            ubus::call(&method, &mut std::io::stdin(), &config, &dispatch, out)
        }
    }
}

fn run(a: &RunArgs, clock: &Clock) -> Result<(), AgentError> {
    let options = RunOptions {
        config: a.config.clone(),
        fall_back: a.fall_back,
        no_guard: a.no_guard,
        json: a.json,
    };
    start::run(&options, clock)
}

/// Sends a request to the daemon. An invalid configuration is reported and not needed.
fn ask(a: &AskArgs, request: &Request) -> Result<Value, AgentError> {
    let located = locate::daemon(&a.config, a.socket.as_deref())?;
    if let Some(e) = located.broken {
        let line = AgentError::from(e).line();
        let socket = located.socket.display();
        let _ = writeln!(std::io::stderr(), "{line}; asking the daemon at {socket}");
    }
    Ok(request::ask(&located.socket, request)?)
}

fn status(a: &AskArgs, out: &mut dyn Write) -> Result<(), AgentError> {
    let value = ask(a, &Request::Status)?;
    if a.json {
        return json::print(out, &value);
    }
    let status: Status = serde_json::from_value(value).map_err(AgentError::Answer)?;
    out.write_all(report::status_text(&status).as_bytes())?;
    Ok(())
}

fn subscriber(a: &AskArgs, value: &Value, out: &mut dyn Write) -> Result<(), AgentError> {
    if a.json {
        return json::print(out, value);
    }
    let s: SubscriberReport = serde_json::from_value(value.clone()).map_err(AgentError::Answer)?;
    out.write_all(report::why_text(&s).as_bytes())?;
    Ok(())
}

/// Sums up the history, with or without a running daemon.
fn summarize(a: &ReportArgs, now: u64, out: &mut dyn Write) -> Result<(), AgentError> {
    let (folder, configured) = match &a.folder {
        Some(folder) => (folder.clone(), None),
        None => {
            let config = Config::load(&a.config)?;
            if config.history.size == 0 {
                return Err(AgentError::NoHistory(a.config.clone()));
            }
            (config.history.folder.clone(), Some(config))
        }
    };
    let (since, until) =
        (now.saturating_sub(a.since.0), a.until.map_or(now, |u| now.saturating_sub(u.0)));
    if since >= until {
        return Err(AgentError::EmptyTime);
    }
    let unreadable = |problem| AgentError::History { folder: folder.clone(), problem };
    let summary = match &configured {
        Some(config) if history::is_absent(&folder).map_err(unreadable)? => {
            Summary::none(since, until, no_history_yet(config))
        }
        _ => {
            // A folder on the command line that does not exist is not an empty history.
            std::fs::read_dir(&folder).map_err(unreadable)?;
            Summary::read(&folder, since, until, configured.as_ref()).map_err(unreadable)?
        }
    };
    if let Some(file) = &a.html {
        let written = store::publish(file, &summary.html());
        written.map_err(|problem| AgentError::Unwritable { path: file.clone(), problem })?;
    }
    if a.json {
        return json::print(out, &summary);
    }
    out.write_all(summary.text().as_bytes())?;
    Ok(())
}

/// Returns the reason why the configured folder has no history, from the daemon if it runs.
fn no_history_yet(config: &Config) -> String {
    let folder = config.history.folder.display();
    let Ok(value) = request::ask(&config.socket, &Request::Status) else {
        return format!(
            "no history yet; no daemon responds at {}, and `fairmesh-gateway run` writes one",
            config.socket.display()
        );
    };
    let history: Option<HistoryReport> =
        serde_json::from_value(value["history"].clone()).unwrap_or_default();
    match history {
        Some(h) if h.folder != config.history.folder => format!(
            "no history yet in {folder}; the running daemon writes to {}: restart it",
            h.folder.display()
        ),
        Some(HistoryReport { problem: Some(problem), .. }) => {
            format!("no history yet; the daemon cannot write to {folder}: {problem}")
        }
        Some(HistoryReport { first_minute: Some(end), .. }) => {
            format!("no history yet; the first minute ends at {}", history::instant(end))
        }
        Some(_) => "no history yet; the first minute is being written".to_owned(),
        None => "no history yet; the running daemon keeps none: restart it".to_owned(),
    }
}

fn set_override(a: &OverrideArgs, out: &mut dyn Write) -> Result<(), AgentError> {
    let rate = match a.rate {
        _ if a.clear => OverrideRate::Clear,
        Some(Rate(Some(rate))) => OverrideRate::Limit(rate.0),
        _ => OverrideRate::Unlimited,
    };
    let mut directions = Vec::new();
    if a.down {
        directions.push("down".to_owned());
    }
    if a.up {
        directions.push("up".to_owned());
    }
    let request = Request::Override {
        subscriber: a.subscriber.clone(),
        directions,
        rate,
        seconds: a.time.map_or(0.0, |t| t.as_secs_f64()),
    };
    subscriber(&a.ask, &ask(&a.ask, &request)?, out)
}

fn check(a: &CheckArgs, out: &mut dyn Write) -> Result<(), AgentError> {
    let config = Config::load(&a.config)?;
    let layout = Governor::trial(&config).map_err(|e| start::refused(&a.config, &config, e))?;
    let text = format!(
        "{}, control {}, mode {}",
        count(config.subscribers.iter().filter(|s| s.name != UNMAPPED).count()),
        config.mechanism,
        config.mode.name()
    );
    let mut lines = vec![CheckLine::of("configuration", Ok(text))];
    if let Some(others) = &config.peers {
        let key =
            exchange::read_key(&others.key).map_err(|problem| format!("peers.key: {problem}"));
        let text = key.map(|_| format!("gateway {} of {}", others.number, others.peers.len() + 1));
        lines.push(CheckLine::of("other gateways", text));
    }
    if let Some(file) = &config.agents {
        let single = |s: &&Subscriber| s.single_address().is_some();
        let reached = config.subscribers.iter().filter(single).count();
        let text = exchange::read_key(file)
            .map(|_| format!("orders reach {} with a single address", count(reached)))
            .map_err(|problem| format!("agents.key: {problem}"));
        lines.push(CheckLine::of("routers of homes", text));
    }
    lines.extend(preflight::subscribers(&config));
    kernel(&config, &layout, &mut lines);
    lines.extend(preflight::kernel(&config, &layout));
    lines.extend(preflight::files(&config));
    lines.extend(preflight::discovery(&config));
    let bad = lines.iter().filter(|l| !l.ok).count();
    if a.json {
        json::print(
            out,
            &serde_json::json!({ "schema": report::SCHEMA, "ok": bad == 0, "checks": lines }),
        )?;
    } else {
        for l in &lines {
            writeln!(out, "{:4} {}: {}", l.word(), l.what, l.text)?;
        }
    }
    match bad {
        0 => Ok(()),
        n => Err(AgentError::ChecksFailed(n)),
    }
}

fn count(subscribers: usize) -> String {
    match subscribers {
        1 => "1 subscriber".to_owned(),
        n => format!("{n} subscribers"),
    }
}

/// Checks the features of the kernel without changing an interface.
fn kernel(config: &Config, layout: &Layout, lines: &mut Vec<CheckLine>) {
    let mut add = |what, ok, text: String| {
        lines.push(CheckLine::of(what, if ok { Ok(text) } else { Err(text) }));
    };
    for (what, interface) in
        [("mesh interface", &config.layout.mesh), ("wired interface", &config.layout.wired)]
    {
        let (exists, state) = match fairmesh_linux::link::named(interface.name()) {
            Ok(_) => (true, "exists".to_owned()),
            Err(fairmesh_linux::Error::NoInterface(_)) => (false, "no such interface".to_owned()),
            Err(e) => (false, e.to_string()),
        };
        add(what, exists, format!("{interface}: {state}"));
    }
    let features = HtbShaper::open().and_then(|mut plane| plane.probe());
    let features = match features {
        Ok(features) => features,
        Err(e) => return add("kernel", false, e.to_string()),
    };
    let unknown = "cannot be checked without root";
    match features.htb {
        Some(ok) => add(
            "HTB",
            ok,
            if ok { "available" } else { "missing: load the module sch_htb" }.to_owned(),
        ),
        None => add("HTB", true, unknown.to_owned()),
    }
    let nft = features.nft.clone();
    add("nft", nft.is_some(), nft.unwrap_or_else(|| "missing: install nftables".to_owned()));
    match features.leaves.as_slice() {
        [] => add("queue", true, unknown.to_owned()),
        leaves => {
            let chosen = match layout.leaf {
                fairmesh_linux::LeafChoice::Best => leaves.first().copied(),
                fairmesh_linux::LeafChoice::Only(kind) => {
                    leaves.iter().copied().find(|l| *l == kind)
                }
            };
            let names: Vec<&str> = leaves.iter().map(|l| l.name()).collect();
            let has = names.join(", ");
            match chosen {
                Some(l) => add("queue", true, format!("{l} (this kernel has {has})")),
                None => add(
                    "queue",
                    false,
                    format!("the configured queue is missing; this kernel has {has}"),
                ),
            }
        }
    }
    let flow = features.flowtables.join(", ");
    let ok = flow.is_empty();
    let text = if ok { "none".to_owned() } else { format!("{flow}: traffic bypasses the limits") };
    add("flow offload", ok, text);
}

fn reset(a: &ResetArgs, out: &mut dyn Write) -> Result<(), AgentError> {
    let (config, fallen) = kept::load_config(&a.config, a.fall_back, &locate::states())?;
    if let Some(e) = fallen {
        // The configuration in the kernel is the one that worked.
        let e = AgentError::from(e).line();
        let _ = writeln!(std::io::stderr(), "{e}; using the last configuration that worked");
    }
    // A daemon that is busy or stopped also holds its locks.
    let lock = config.socket.with_extension("lock");
    let _one = Lock::take(&lock, LOCK_PATIENCE)
        .map_err(|problem| AgentError::Running(StartError::Running { lock, problem }))?;
    let _guard = guard::wait_for(&config.socket).map_err(|problem| AgentError::GuardAtWork {
        lock: guard::lock_of(&config.socket),
        problem,
    })?;
    let _claim = Registry::here()
        .claim(&resources(&config.layout), LOCK_PATIENCE)
        .map_err(|e| AgentError::Running(e.into()))?;
    let mut plane = HtbShaper::open()?;
    // The file may name other interfaces than those that were shaped.
    let mut store = Store::new(&config.state);
    let kept = kept::SavedState::load(&mut store).unwrap_or_else(|e| {
        let file = store.file();
        let _ = writeln!(
            std::io::stderr(),
            "{}: {e}; starting without the state of earlier runs",
            file.display()
        );
        Default::default()
    });
    let mut layouts: Vec<Layout> = kept.layout.into_iter().collect();
    layouts.retain(|l| !l.same_place(&config.layout));
    layouts.push(config.layout);
    if a.lift {
        // If limits cannot be lifted, removing everything frees the subscribers.
        match layouts.iter().try_for_each(|layout| plane.lift(layout)) {
            Ok(()) if a.json => return json::print(out, &serde_json::json!({ "lifted": true })),
            Ok(()) => return Ok(writeln!(out, "all limits are lifted; queues and rules remain")?),
            Err(e) => {
                let _ = writeln!(
                    std::io::stderr(),
                    "cannot lift limits: {e}; removing queues and rules instead"
                );
            }
        }
    }
    let mut removed = fairmesh_linux::Removed::default();
    for layout in &layouts {
        removed.add(plane.remove(layout)?);
    }
    if a.json {
        return json::print(out, &removed);
    }
    let list = |words: &[String]| match words {
        [] => "none".to_owned(),
        _ => words.join(", "),
    };
    writeln!(
        out,
        "removed: qdiscs on {}; tables {}",
        list(&removed.qdiscs),
        list(&removed.tables)
    )?;
    if !removed.kept.is_empty() {
        writeln!(out, "not created by this program, unchanged: {}", list(&removed.kept))?;
    }
    Ok(())
}

/// Prints a new key.
pub(crate) fn print_key(a: &KeyArgs, out: &mut dyn Write) -> Result<(), AgentError> {
    let key = exchange::new_key()?;
    if a.json {
        return json::print(out, &serde_json::json!({ "schema": report::SCHEMA, "key": key }));
    }
    writeln!(out, "{key}")?;
    Ok(())
}

fn watch(a: &GuardArgs) -> Result<(), AgentError> {
    let layout: Layout = serde_json::from_str(&a.limits).map_err(AgentError::GuardLayout)?;
    let guarded_run = GuardedRun {
        lock: a.lock.clone(),
        run: a.run.clone(),
        resources: resources(&layout),
        registry: Registry::here(),
    };
    Ok(guard::watch(&guarded_run, &mut Limits(layout))?)
}
