//! The gateway's daemon inside an emulation: its configuration from the scenario, its life, and what
//! it decided.
//!
//! The daemon is this very program (`fairmesh gateway run`) in the gateway's namespace. It sees what
//! a gateway sees: two interfaces, addresses of its subscribers, the rates of its own links.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fairmesh_agent::daemon::socket::{Request, ask};
use fairmesh_agent::gateway::config::Config;
use fairmesh_agent::gateway::governor::Governor;
use fairmesh_agent::gateway::report::Status;
use fairmesh_emulator::{Network, Progress, plan};
use fairmesh_engine::fair_rates;
use fairmesh_engine::record::{DecisionRecord, RunRecord};
use fairmesh_scenario::{NodeKind, Scenario, Share};
use fairmesh_units::{NodeId, Span, Time};
use serde::Deserialize;

use crate::error::CliError;
use crate::interrupt;

/// How often the limits in force are asked for.
const LOOK: Span = Span::from_secs(1);

/// The longest that the mesh waits for the daemon to start.
const START: Duration = Duration::from_secs(30);

/// Names of the file that the daemon reads and of what it said, in its folder.
pub const CONFIGURATION: &str = "gateway.toml";
/// See [`CONFIGURATION`].
pub const EVENTS: &str = "gateway.jsonl";

/// A daemon that an emulation can start: everything is checked, nothing has happened.
#[derive(Debug)]
pub struct Daemon {
    gateway: NodeId,
    name: String,
    flows: Vec<Subscribed>,
    folder: PathBuf,
    start: Option<Time>,
    command: Option<Command>,
    child: Option<Child>,
    reader: Option<JoinHandle<()>>,
    heard: Arc<Mutex<Vec<(Instant, String)>>>,
    /// A moment by both clocks.
    clock: Option<(Instant, Time)>,
    next_look: Time,
    limits: Vec<(Time, Vec<Option<f64>>)>,
    problem: Option<String>,
}

/// The daemons of several emulations, each with a folder of its own while they run.
#[derive(Debug)]
pub struct Work {
    folder: PathBuf,
    prepared: Vec<(String, RefCell<Option<Daemon>>)>,
}

impl Work {
    /// Prepares the daemons that are asked for by name; refuses before anything is built.
    ///
    /// # Errors
    /// See [`Daemon::prepare`]; a temporary folder that cannot be made.
    pub fn new(scenarios: &[Scenario], asked: bool) -> Result<Self, CliError> {
        Self::at(scenarios, asked, Time::ZERO)
    }

    /// The same, with daemons that start at `start`.
    ///
    /// # Errors
    /// See [`Daemon::prepare`]; a temporary folder that cannot be made.
    pub fn at(scenarios: &[Scenario], asked: bool, start: Time) -> Result<Self, CliError> {
        static WORKS: AtomicU64 = AtomicU64::new(0);
        let number = WORKS.fetch_add(1, Ordering::Relaxed);
        // Short: a socket's path has at most 107 bytes.
        let name = format!("fairmesh-{}.{number}", std::process::id());
        let mut work = Work { folder: std::env::temp_dir().join(name), prepared: Vec::new() };
        for scenario in scenarios {
            let mut daemon = None;
            if asked && !scenario.control.is_none() {
                let folder = work.folder.join(scenario.control.to_string());
                std::fs::create_dir_all(&folder).map_err(|e| CliError::file(&folder, e))?;
                daemon = Some(Daemon::prepare(scenario, &folder, start)?);
            }
            work.prepared.push((scenario.control.to_string(), RefCell::new(daemon)));
        }
        Ok(work)
    }

    /// The daemon of one emulation, if it has one; once.
    pub fn daemon(&self, scenario: usize) -> Option<Daemon> {
        self.prepared.get(scenario)?.1.take()
    }

    /// What the daemons read and said: names and contents for a result folder.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn files(&self) -> Result<Vec<(String, Vec<u8>)>, CliError> {
        let mut all = Vec::new();
        for (control, _) in &self.prepared {
            for name in [CONFIGURATION, EVENTS] {
                let file = self.folder.join(control).join(name);
                if file.exists() {
                    let bytes = std::fs::read(&file).map_err(|e| CliError::file(&file, e))?;
                    all.push((name.replace('.', &format!("-{control}.")), bytes));
                }
            }
        }
        Ok(all)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Which subscriber and direction a flow belongs to.
type Subscribed = Option<(String, &'static str)>;

/// An event as the daemon prints it with `--json`.
#[derive(Deserialize)]
struct Told {
    code: String,
    level: String,
    text: String,
}

impl Daemon {
    /// Prepares a daemon with the scenario's control, to be started at `at`. Its files go to
    /// `folder`, which exists.
    ///
    /// # Errors
    /// A scenario without a gateway or without a wire behind it, or a control that the daemon
    /// cannot run.
    pub fn prepare(scenario: &Scenario, folder: &Path, at: Time) -> Result<Self, CliError> {
        let refused = |problem: String| CliError::run(&scenario.name, problem);
        let text = configuration(scenario, folder).map_err(refused)?;
        let file = folder.join(CONFIGURATION);
        let control = &scenario.control;
        let no = |e: &dyn std::fmt::Display| {
            refused(format!("the gateway's daemon does not run \"{control}\": {e}"))
        };
        let config = Config::parse("the daemon's configuration", &text).map_err(|e| no(&e))?;
        Governor::trial(&config).map_err(|e| no(&e))?;
        std::fs::write(&file, &text).map_err(|e| CliError::file(&file, e))?;
        let gateway = the_gateway(scenario).map_err(refused)?;
        Ok(Daemon {
            gateway,
            name: scenario.nodes[gateway.index()].name.clone(),
            flows: owners(scenario, gateway),
            folder: folder.to_owned(),
            start: Some(at),
            command: None,
            child: None,
            reader: None,
            heard: Arc::default(),
            clock: None,
            next_look: Time::ZERO,
            limits: Vec::new(),
            problem: None,
        })
    }

    /// Takes the gateway's namespace, and starts the daemon if it is to run from the beginning.
    pub fn ready(&mut self, network: &Network) {
        match std::env::current_exe() {
            Ok(program) => {
                let namespace = &network.namespaces[self.gateway.index()];
                let mut command = namespace.command(&program.to_string_lossy());
                command
                    .args(["gateway", "run", "--json", "--config"])
                    .arg(self.folder.join(CONFIGURATION))
                    .stdin(Stdio::null())
                    .stdout(Stdio::null())
                    .stderr(Stdio::piped());
                self.command = Some(command);
            }
            Err(e) => self.problem = Some(format!("this program's file is not known: {e}")),
        }
        if self.start == Some(Time::ZERO) {
            self.launch();
            self.await_it();
        }
    }

    /// Waits until the daemon runs: time zero is not to come before, however long it takes to start.
    /// One that does not is found later.
    fn await_it(&mut self) {
        let until = Instant::now() + START;
        while Instant::now() < until && self.status().is_none_or(|s| s.phase != "running") {
            let ended = self.child.as_mut().is_none_or(|c| !matches!(c.try_wait(), Ok(None)));
            if ended || interrupt::awaited().load(Ordering::Relaxed) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn status(&self) -> Option<Status> {
        let answer = ask(&self.folder.join("gateway.sock"), &Request::Status).ok()?;
        serde_json::from_value(answer).ok()
    }

    fn launch(&mut self) {
        self.start = None;
        let Some(mut command) = self.command.take() else { return };
        match command.spawn() {
            Err(e) => self.problem = Some(format!("the gateway's daemon cannot be started: {e}")),
            Ok(mut child) => {
                let heard = self.heard.clone();
                self.reader = child.stderr.take().map(|err| {
                    std::thread::spawn(move || {
                        for line in BufReader::new(err).lines().map_while(Result::ok) {
                            let mut all = heard.lock().unwrap_or_else(PoisonError::into_inner);
                            all.push((Instant::now(), line));
                        }
                    })
                });
                self.child = Some(child);
            }
        }
    }

    /// Starts the daemon when its time has come; keeps the limits that it has set.
    pub fn watch(&mut self, p: &Progress) {
        self.clock = Some((Instant::now(), p.now));
        if self.start.is_some_and(|at| p.now >= at) {
            self.launch();
            self.next_look = p.now + LOOK;
        }
        let Some(child) = self.child.as_mut().filter(|_| p.now >= self.next_look) else { return };
        self.next_look = p.now + LOOK;
        if let Ok(Some(status)) = child.try_wait() {
            self.hear_out();
            let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
            let last = heard.last().map_or("nothing", |(_, line)| line);
            let said =
                format!("the gateway's daemon ended early ({status}); it said {last:?} last");
            self.problem.get_or_insert(said);
            return;
        }
        let Some(status) = self.status() else { return };
        let limit = |of: &Subscribed| {
            let (name, direction) = of.as_ref()?;
            let subscriber = status.subscribers.iter().find(|s| s.name == *name)?;
            let state = subscriber.directions.iter().find(|w| w.direction == *direction)?;
            state.limit_bits_per_second.map(|b| b as f64)
        };
        self.limits.push((p.now, self.flows.iter().map(limit).collect()));
    }

    /// Ends the daemon and gives the record its decisions, their curves and its control's name.
    /// What it said, and its configuration, stay in the folder.
    ///
    /// # Errors
    /// When its events cannot be written.
    pub fn finish(mut self, control: &str, record: &mut RunRecord) -> Result<(), CliError> {
        self.stop();
        let heard = std::mem::take(&mut *self.heard.lock().unwrap_or_else(PoisonError::into_inner));
        let file = self.folder.join(EVENTS);
        let mut kept = String::new();
        for (at, line) in &heard {
            let time_s =
                self.clock.map_or(0.0, |(instant, now)| now.as_secs_f64() + signed(*at, instant));
            // What it said while it started.
            let time_s = time_s.max(0.0);
            // The mesh is being taken down around it, and around its guard.
            if time_s > record.duration_s {
                continue;
            }
            match serde_json::from_str::<Told>(line) {
                Ok(told) => {
                    let event = serde_json::json!({
                        "time_s": time_s, "code": told.code, "level": told.level, "text": told.text
                    });
                    let _ = writeln!(kept, "{event}");
                    record.decisions.push(DecisionRecord {
                        time_s,
                        node: self.name.clone(),
                        code: told.code.into(),
                        reason: told.text,
                    });
                }
                // Not an event: what the daemon has to say when it cannot start.
                Err(_) => {
                    let _ = writeln!(kept, "{}", serde_json::json!({ "text": line }));
                    self.problem.get_or_insert(line.clone());
                }
            }
        }
        std::fs::write(&file, kept).map_err(|e| CliError::file(&file, e))?;
        record.control = format!("{} {control}", record.control);
        let series = &mut record.series;
        for (f, curve) in series.limit_bps.iter_mut().enumerate() {
            let at = |t: &f64| {
                let before = self.limits.iter().rev().find(|l| l.0.as_secs_f64() <= *t);
                before.and_then(|l| l.1[f])
            };
            let all: Vec<Option<f64>> = series.time_s.iter().map(at).collect();
            // A curve has no gaps: it begins where the first limit was set.
            let first = all.iter().flatten().next().copied();
            *curve = first.map_or(Vec::new(), |first| {
                let hold = |last: &mut f64, l: &Option<f64>| {
                    *last = l.unwrap_or(*last);
                    Some(*last)
                };
                all.iter().scan(first, hold).collect()
            });
        }
        if let (Some(problem), Some(e)) = (&self.problem, record.emulation.as_mut()) {
            e.valid = false;
            e.problems.push(problem.clone());
        }
        Ok(())
    }

    fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Its namespace is gone, and it with it; this only makes sure.
            let _ = child.kill();
            let _ = child.wait();
        }
        self.hear_out();
    }

    /// Waits for what it still has to say: the pipe's other end closes with the last process that has
    /// it, and the guard may take a moment more.
    fn hear_out(&mut self) {
        let until = Instant::now() + Duration::from_secs(2);
        while let Some(reader) = self.reader.take_if(|r| !r.is_finished()) {
            if Instant::now() > until {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
            self.reader = Some(reader);
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Seconds from `b` to `a`.
fn signed(a: Instant, b: Instant) -> f64 {
    match a.checked_duration_since(b) {
        Some(d) => d.as_secs_f64(),
        None => -b.duration_since(a).as_secs_f64(),
    }
}

/// The subscriber at the mesh's end of a flow, if the flow passes between it and the wired side.
fn subscribed(scenario: &Scenario, gateway: NodeId, flow: &fairmesh_scenario::Flow) -> Subscribed {
    let home = |n: NodeId| n != gateway && scenario.nodes[n.index()].kind == NodeKind::Wireless;
    let name = |n: NodeId| scenario.nodes[n.index()].name.clone();
    match (home(flow.from), home(flow.to)) {
        (true, false) if flow.to != gateway => Some((name(flow.from), "up")),
        (false, true) if flow.from != gateway => Some((name(flow.to), "down")),
        _ => None,
    }
}

/// By flow, its subscriber by the name that the daemon knows, and the direction.
fn owners(scenario: &Scenario, gateway: NodeId) -> Vec<Subscribed> {
    let flows = scenario.flows.iter();
    let mut all: Vec<Subscribed> = flows.map(|f| subscribed(scenario, gateway, f)).collect();
    for s in &scenario.subscribers.list {
        for f in s.flows() {
            if let Some((name, _)) = &mut all[f] {
                name.clone_from(&s.name);
            }
        }
    }
    all
}

/// A subscriber as the daemon has one: addresses, and what it has in each direction.
struct Home {
    name: String,
    nodes: Vec<NodeId>,
    shares: [(&'static str, Share); 2],
}

/// The scenario's subscribers, and every other node by itself: of several flows of such a one in a direction
/// the first speaks for all.
///
/// # Errors
/// A subscriber with some flows of a node and not with others: the daemon goes by addresses.
fn homes(scenario: &Scenario, gateway: NodeId) -> Result<Vec<Home>, String> {
    let of_node = |f: usize| {
        let (name, _) = subscribed(scenario, gateway, &scenario.flows[f])?;
        scenario.node(&name)
    };
    let mut taken = vec![false; scenario.nodes.len()];
    let mut homes = Vec::new();
    for s in &scenario.subscribers.list {
        let mut nodes: Vec<NodeId> = s.flows().filter_map(of_node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let all =
            (0..scenario.flows.len()).filter(|&f| of_node(f).is_some_and(|n| nodes.contains(&n)));
        let mut own: Vec<usize> = s.flows().collect();
        own.sort_unstable();
        if !all.eq(own) {
            return Err(format!(
                "subscriber \"{}\" does not have all flows of its nodes between them and the wired side; expected that, \
                 for the daemon tells subscribers by their addresses",
                s.name
            ));
        }
        for node in &nodes {
            taken[node.index()] = true;
        }
        let shares = [("down", s.down.clone()), ("up", s.up.clone())];
        homes.push(Home { name: s.name.clone(), nodes, shares });
    }
    for node in scenario.wireless().filter(|n| *n != gateway && !taken[n.index()]) {
        let share = |way: &'static str| {
            let own = |(_, f): &(usize, &fairmesh_scenario::Flow)| {
                let home = subscribed(scenario, gateway, f);
                home.is_some_and(|(home, w)| home == scenario.nodes[node.index()].name && w == way)
            };
            let first = scenario.flows.iter().enumerate().find(own);
            let share = first.map(|(i, f)| Share {
                flows: vec![i],
                ceiling: f.plan,
                guarantee: f.guarantee,
            });
            (way, share.unwrap_or_default())
        };
        let name = scenario.nodes[node.index()].name.clone();
        homes.push(Home { name, nodes: vec![node], shares: [share("down"), share("up")] });
    }
    Ok(homes)
}

/// The gateway whose daemon runs.
pub fn the_gateway(scenario: &Scenario) -> Result<NodeId, String> {
    match scenario.gateways.list() {
        [] => Err("the scenario names no gateway, where the daemon runs".into()),
        [one] => Ok(*one),
        several => Err(format!(
            "the scenario has {} gateways; expected one: an emulation runs one daemon",
            several.len()
        )),
    }
}

/// What the daemon is told about a scenario: interfaces, subscribers with the weights, plans and
/// guarantees of their flows, its own links' rates, the control with its settings.
///
/// # Errors
/// In words, what the scenario lacks.
pub fn configuration(scenario: &Scenario, folder: &Path) -> Result<String, String> {
    let gateway = the_gateway(scenario)?;
    let uplinks = scenario.wires.iter().filter(|w| w.a == gateway || w.b == gateway).count();
    if uplinks != 1 {
        return Err(format!(
            "{uplinks} wires at the gateway; expected one, for upstream traffic is limited where it \
             leaves the mesh"
        ));
    }
    let quoted = |s: &str| serde_json::Value::from(s).to_string();
    let path = |name: &str| quoted(&folder.join(name).display().to_string());
    let mut out = format!(
        "# Written by fairmesh emulate for the scenario {}.\nmode = \"apply\"\nunmapped = \"pass\"\n\n\
         [mesh]\ninterface = \"mesh0\"\n\n[wired]\ninterface = \"wire0\"\n\n\
         [metrics]\nlisten = \"127.0.0.1:0\"\n\n[paths]\nstate = {}\nsocket = {}\n\n\
         [control]\nuse = {}\n",
        quoted(&scenario.name),
        path("state"),
        path("gateway.sock"),
        quoted(&scenario.control.to_string()),
    );
    for (parameter, value) in scenario.control.changed() {
        let _ = writeln!(out, "{} = {value:?}", parameter.name);
    }
    let phy = &scenario.mac.phy;
    for link in scenario.links.iter().filter(|l| l.from == gateway) {
        let rate = phy.bit_rate(link.rate.unwrap_or(scenario.mac.rate));
        let name = quoted(&scenario.nodes[link.to.index()].name);
        let _ = write!(out, "\n[[neighbour]]\nname = {name}\nrate = \"{rate}\"\n");
    }
    let fair = fair_rates(scenario).map_err(|e| e.to_string())?.rates_bps;
    for home in homes(scenario, gateway)? {
        let prefix = |n: &NodeId| format!("\"{}/32\"", plan::address(n.index()));
        let prefixes: Vec<String> = home.nodes.iter().map(prefix).collect();
        let _ = write!(
            out,
            "\n[[subscriber]]\nname = {}\nprefixes = [{}]\n",
            quoted(&home.name),
            prefixes.join(", ")
        );
        if let Some(&first) = home.shares.iter().flat_map(|(_, s)| &s.flows).min() {
            let flow = &scenario.flows[first];
            let _ = writeln!(out, "weight = {:?}\nhops = {}", flow.weight, flow.wireless_hops);
        }
        for (way, share) in home.shares.iter().filter(|(_, s)| !s.flows.is_empty()) {
            if let Some(ceiling) = share.ceiling {
                let _ = writeln!(out, "{way} = \"{ceiling}\"");
            }
            if let Some(guarantee) = share.guarantee {
                let _ = writeln!(out, "guarantee_{way} = \"{guarantee}\"");
            }
            let fair: f64 = share.flows.iter().map(|&f| fair[f]).sum();
            let _ = writeln!(out, "fair_{way} = \"{fair:.0} bit/s\"");
        }
    }
    Ok(out)
}
