//! An emulation from start to end.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fairmesh_engine::fair_rates;
use fairmesh_engine::record::Series;
use fairmesh_linux::realtime;
use fairmesh_scenario::Scenario;
use fairmesh_units::{Span, Time};

use crate::children::Children;
use crate::clock::RadioClock;
use crate::engine::{Engine, watch_all};
use crate::error::EmulatorError;
use crate::lateness::Lateness;
use crate::network::{Network, NetworkOptions};
use crate::options::{EmulateOptions, Routing};
use crate::outcome::{Outcome, slack, timer};
use crate::plan::Plan;
use crate::switch::Switch;
use crate::traffic::{FlowOutcome, Job, Meter};

/// Priority of the engine's thread, and of the traffic's threads below it.
const ENGINE_PRIORITY: i32 = 50;
const TRAFFIC_PRIORITY: i32 = 10;

/// Time from the end of the preparations to time zero, in ns.
///
/// The traffic's threads wake up in this time.
const STARTUP_DELAY_NS: u64 = 200_000_000;

/// Number of emulations of this process so far, to make names of namespaces unique.
static RUN_COUNT: AtomicU64 = AtomicU64::new(0);

/// Progress of a running emulation.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Emulated time.
    pub now: Time,
    /// Per flow: application bytes delivered.
    pub delivered: Vec<u64>,
    /// Transmissions on the air.
    pub transmissions: u64,
}

/// Emulates a scenario in real time.
///
/// `watch` is called a few times a second; `ready` once, when the namespaces exist. The run is
/// aborted when `stop` becomes true.
///
/// # Errors
/// Returns the system's error, or [`EmulatorError::Interrupted`]. All namespaces are removed.
pub fn emulate(
    scenario: &Scenario,
    options: &EmulateOptions,
    stop: &AtomicBool,
    ready: &mut dyn FnMut(&Network),
    watch: &mut dyn FnMut(&Progress),
) -> Result<Outcome, EmulatorError> {
    check(scenario, options)?;
    let fair = fair_rates(scenario)?;
    let run = format!("{}.{}", std::process::id(), RUN_COUNT.fetch_add(1, Ordering::Relaxed));
    let plan = Plan::new(scenario, &run)?;
    // The engine runs in its own thread; this one only checks that it accepts the scenario.
    drop(Switch::new(scenario, &plan, options.seed, options.log)?);
    let network = Network::build(
        plan,
        &NetworkOptions {
            static_routes: options.routing == Routing::Static,
            arp: options.arp,
            tcp: options.tcp,
            congestion: options.congestions(scenario)[0],
        },
    )?;
    let mut children = Children::start(scenario, &network, options)?;
    ready(&network);

    // Radio time: starts when the engine's thread is ready.
    let clock: OnceLock<RadioClock> = OnceLock::new();
    let measure_from = Time::ZERO + scenario.warmup();
    let meters: Vec<Meter> = scenario.flows().iter().map(|_| Meter::default()).collect();
    let (over, transmissions) = (AtomicBool::new(false), AtomicU64::new(0));
    let end = AtomicU64::new(match options.shell {
        None => scenario.duration().as_nanos(),
        Some(_) => u64::MAX,
    });

    let (engine, outcomes) = std::thread::scope(|threads| {
        let mut traffic = Vec::new();
        for (index, flow) in scenario.flows().iter().enumerate().filter(|_| options.traffic) {
            let ends = [flow.from.index(), flow.to.index()];
            let (network, meters, clock, over) = (&network, &meters, &clock, &over);
            traffic.push(threads.spawn(move || {
                realtime::fifo(TRAFFIC_PRIORITY);
                let job = Job {
                    flow,
                    index,
                    at: ends.map(|n| &network.namespaces[n]),
                    addresses: ends.map(|n| network.plan.nodes[n].address),
                    seed: options.seed,
                    congestion: options.congestion_of(flow),
                    clock: clock.wait(),
                    measure_from,
                    meter: &meters[index],
                };
                job.clock.wait_for_zero();
                job.run(over)
            }));
        }
        let (network, end, meters, transmissions) = (&network, &end, &meters, &transmissions);
        let began = &clock;
        let engine = threads.spawn(move || {
            let prepare = || -> Result<_, EmulatorError> {
                let preferred = realtime::prefer(ENGINE_PRIORITY);
                let failed = EmulatorError::system("the engine");
                let waiter = watch_all(network).map_err(failed)?;
                let switch = Switch::new(scenario, &network.plan, options.seed, options.log)?;
                Ok((switch, waiter, preferred))
            };
            let prepared = prepare();
            // Also after a failure: other threads wait for it.
            let clock = began.get_or_init(|| RadioClock::new(realtime::now() + STARTUP_DELAY_NS));
            let (switch, waiter, preferred) = prepared?;
            let engine = Engine {
                switch,
                network,
                waiter,
                preferred,
                clock,
                slack: slack(scenario),
                timer: timer(network, options),
                end,
                stop,
                meters,
                sample: options.sample.unwrap_or(Span::MAX),
                kernel_time: options.kernel_time,
                transmissions,
                lateness: Lateness::default(),
                series: Series::default(),
            };
            engine.run().map_err(EmulatorError::system("the engine"))
        });
        let clock = clock.wait();
        while !engine.is_finished() {
            std::thread::sleep(std::time::Duration::from_millis(100));
            let now = clock.now();
            if children.shell_ended() {
                let _ = end.compare_exchange(
                    u64::MAX,
                    now.as_nanos(),
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                );
            }
            watch(&Progress {
                now,
                delivered: meters.iter().map(|m| m.delivered.load(Ordering::Relaxed)).collect(),
                transmissions: transmissions.load(Ordering::Relaxed),
            });
        }
        over.store(true, Ordering::Relaxed);
        let outcomes: Vec<Option<FlowOutcome>> =
            traffic.into_iter().map(|t| t.join().ok()).collect();
        let panicked = |_| {
            let problem = std::io::Error::other("its thread panicked");
            Err(EmulatorError::System { what: "the engine".into(), problem })
        };
        (engine.join().unwrap_or_else(panicked), outcomes)
    });
    drop(children);
    if stop.load(Ordering::Relaxed) {
        return Err(EmulatorError::Interrupted);
    }
    Ok(engine?.finish(scenario, options, &network, &fair.rates_bps, outcomes))
}

/// Rejects unavailable options and flows before anything is built.
///
/// # Errors
/// Returns [`EmulatorError::NotRoot`], or the option or flow that is not available.
pub fn check(scenario: &Scenario, options: &EmulateOptions) -> Result<(), EmulatorError> {
    if !nix::unistd::geteuid().is_root() {
        return Err(EmulatorError::NotRoot);
    }
    options.check_congestion(scenario)?;
    match options.routing {
        Routing::Static => {}
        Routing::Babeld if Children::is_installed("babeld") => {}
        Routing::Babeld => {
            return Err(EmulatorError::Routing(
                "babeld is not installed (Debian: apt install babeld)".into(),
            ));
        }
    }
    let nodes = options.exec.iter().map(|e| &e.0).chain(&options.shell);
    for node in nodes {
        if scenario.node(node).is_none() {
            return Err(EmulatorError::NoNode(node.clone()));
        }
    }
    Ok(())
}
