//! Implementation of the commands of `fairmesh-node`.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use fairmesh_control::{Ability, EventKind, Needs};
use fairmesh_linux::{Error, Interface, LocalShaper, NextHopShaper};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::args::{AskArgs, Cli, ConfigArgs, NodeCommand};
use super::config::Config;
use super::doctor;
use super::machine::Kernel;
use super::places::{self, Places};
use super::report::{self, Request};
use super::start::{self, RunOptions};
use super::state::SavedState;
use crate::args::GuardArgs;
use crate::commands::print_key;
use crate::daemon::guard::{self, GuardedRun};
use crate::daemon::lock::{LOCK_PATIENCE, Lock, Registry};
use crate::daemon::runtime::StartError;
use crate::daemon::socket;
use crate::daemon::store::Store;
use crate::error::AgentError;
use crate::gateway::config::Mode;
use crate::gateway::exchange::read_key;
use crate::gateway::preflight::{self, CheckLine};
use crate::{json, program};

/// Name of the program.
const NAME: &str = "fairmesh-node";

/// Returns true if this process was started by the name `fairmesh-node`, such as by a link.
pub fn is_called() -> bool {
    let called = std::env::args_os().next().unwrap_or_default();
    let file = Path::new(&called).file_name().unwrap_or_default();
    file.to_string_lossy().starts_with(NAME)
}

/// Runs `fairmesh-node` with the arguments of this process.
pub fn main() -> ExitCode {
    program::run(NAME, |cli: Cli, out| dispatch(cli.command, out))
}

/// Carries out a command.
///
/// # Errors
/// See [`AgentError`].
pub fn dispatch(command: NodeCommand, out: &mut dyn Write) -> Result<(), AgentError> {
    match command {
        NodeCommand::Check(a) => check(&a, out),
        NodeCommand::Run(a) => {
            start::run(&RunOptions { config: a.config, no_guard: a.no_guard, json: a.json })
        }
        NodeCommand::Status(a) => ask(&a, Request::Status, report::status_text, out),
        NodeCommand::Why(a) => ask(&a, Request::Why, report::why_text, out),
        NodeCommand::Reset(a) => reset(&a, out),
        NodeCommand::Doctor(a) => {
            let config = Config::load(&a.config)?;
            let status = socket::ask(&config.socket, &Request::Status).ok();
            let running = status.is_some();
            let status = status.and_then(|v| serde_json::from_value(v).ok());
            let findings = doctor::examine(&config, status.as_ref());
            crate::gateway::doctor::print(&findings, running, a.json, out)
        }
        NodeCommand::Key(a) => print_key(&a, out),
        NodeCommand::Guard(a) => watch(&a),
    }
}

/// Sends a request to the daemon, and prints the result as JSON or as text.
fn ask<T: DeserializeOwned>(
    a: &AskArgs,
    request: Request,
    text: impl Fn(&T) -> String,
    out: &mut dyn Write,
) -> Result<(), AgentError> {
    let config = Config::load(&a.config)?;
    let value: Value = socket::ask(&config.socket, &request)?;
    if a.json {
        return json::print(out, &value);
    }
    let value: T = serde_json::from_value(value).map_err(AgentError::Answer)?;
    out.write_all(text(&value).as_bytes())?;
    Ok(())
}

fn check(a: &ConfigArgs, out: &mut dyn Write) -> Result<(), AgentError> {
    let config = Config::load(&a.config)?;
    let names: Vec<&str> = config.interfaces.iter().map(|i| i.name()).collect();
    let text = format!(
        "{} on {}, {}, control {}, mode {}",
        config.role.name(),
        names.join(", "),
        config.routing.name(),
        config.mechanism,
        config.mode.name()
    );
    let mut lines = vec![CheckLine::of("configuration", Ok(text))];
    let key = read_key(&config.key).map(|_| format!("{}: readable", config.key.display()));
    lines.push(CheckLine::of("key", key.map_err(|e| format!("key: {e}"))));
    let mut machine = Kernel::new(&config.interfaces, Box::new(|| true));
    for (name, port) in config.interfaces.iter().zip(machine_ports(&mut machine)) {
        let text = match (port.mac, port.stations, port.survey) {
            (None, ..) => Err(format!("{name}: no such interface")),
            (_, true, true) => Ok(format!("{name}: a radio that reports neighbours and channel")),
            (_, true, false) => Ok(format!("{name}: a radio that reports neighbours")),
            (_, false, _) => Ok(format!("{name}: no radio")),
        };
        lines.push(CheckLine::of("interface", text));
    }
    let control = match start::check_control(&a.config, &config, &mut machine) {
        Ok(None) => Err("not checked: an interface does not exist".to_owned()),
        Ok(Some(_)) if config.mechanism.is_none() => Ok("none: fairmesh-node only measures".into()),
        Ok(Some(_)) => Ok(format!("{} can run here", config.mechanism)),
        Err(e) => Err(e.to_string()),
    };
    lines.push(CheckLine::of("control", control));
    let needs = config.mechanism.all_needs();
    let able = |ability| needs.iter().any(|n: &Needs| n.abilities.has(ability));
    let counts = needs.iter().any(|n| n.events.has(EventKind::FlowLinks));
    if able(Ability::Mark) || counts {
        let text = machine.programs().map(|()| "the kernel runs our programs".to_owned());
        lines.push(match config.mode {
            Mode::Observe if !counts => CheckLine::warning("eBPF", text),
            _ => CheckLine::of("eBPF", text),
        });
    }
    if config.mode == Mode::Apply {
        let free = |interface: &Interface, result: Result<(), Error>| {
            let text = result.map(|()| format!("{interface} is free for a limit"));
            CheckLine::of("limit", text.map_err(|e| e.to_string()))
        };
        let places = Places::of(&config);
        if able(Ability::LimitLocal) {
            let local = places.local.iter();
            lines.extend(local.map(|p| free(&p.interface, LocalShaper::check(p))));
        }
        if able(Ability::LinkClasses) {
            lines.extend(places.next_hops.iter().map(|i| free(i, NextHopShaper::check(i))));
        }
    }
    let socket = preflight::socket(&config.socket).map_err(|e| e.to_string());
    let socket = socket.map(|()| format!("{} is free", config.socket.display()));
    lines.push(CheckLine::of("socket", socket));
    let bad = lines.iter().filter(|l| !l.ok).count();
    if a.json {
        let value =
            serde_json::json!({ "schema": report::SCHEMA, "ok": bad == 0, "checks": lines });
        json::print(out, &value)?;
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

fn machine_ports(machine: &mut Kernel) -> Vec<super::machine::Port> {
    super::machine::Machine::refresh(machine)
}

fn reset(a: &ConfigArgs, out: &mut dyn Write) -> Result<(), AgentError> {
    let config = Config::load(&a.config)?;
    let lock = config.socket.with_extension("lock");
    let _one = Lock::take(&lock, LOCK_PATIENCE)
        .map_err(|problem| AgentError::Running(StartError::Running { lock, problem }))?;
    let _guard = guard::wait_for(&config.socket).map_err(|problem| AgentError::GuardAtWork {
        lock: guard::lock_of(&config.socket),
        problem,
    })?;
    let mut store = Store::new(&config.state);
    let saved = SavedState::load(&mut store).unwrap_or_else(|e| {
        let file = store.file();
        let _ = writeln!(
            std::io::stderr(),
            "{}: {e}; looking at the configured interfaces only",
            file.display()
        );
        SavedState::default()
    });
    let mut all = Places::of(&config);
    all.add(saved.places);
    let (mut removed, errors) = all.clear();
    if let Some((_, e)) = errors.into_iter().next() {
        return Err(e.into());
    }
    for interface in config.marked() {
        removed.add(places::remove_programs(&interface)?);
    }
    if a.json {
        return json::print(out, &removed);
    }
    let list = |words: &[String]| match words {
        [] => "none".to_owned(),
        _ => words.join(", "),
    };
    let (qdiscs, tables) = (list(&removed.qdiscs), list(&removed.tables));
    writeln!(out, "removed: qdiscs on {qdiscs}; tables {tables}")?;
    if !removed.kept.is_empty() {
        writeln!(out, "not created by this program, unchanged: {}", list(&removed.kept))?;
    }
    Ok(())
}

fn watch(a: &GuardArgs) -> Result<(), AgentError> {
    let mut places: Places = serde_json::from_str(&a.limits).map_err(AgentError::GuardLayout)?;
    let resource = |kind, name: &str| crate::daemon::lock::Resource { kind, name: name.to_owned() };
    let resources = places.interfaces().map(|i| resource("interface", i.name())).collect();
    let guarded_run = GuardedRun {
        lock: a.lock.clone(),
        run: a.run.clone(),
        resources,
        registry: Registry::here(),
    };
    Ok(guard::watch(&guarded_run, &mut places)?)
}
