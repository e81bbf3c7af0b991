//! An emulation from beginning to end.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fairmesh_engine::fair_rates;
use fairmesh_engine::record::{
    Drops, EmulationRecord, FlowRecord, InterfaceRecord, RunRecord, Series, TcpRecord,
    TransferRecord,
};
use fairmesh_linux::realtime::{self, Preferred, Waiter};
use fairmesh_scenario::{Scenario, Transport};
use fairmesh_units::{Span, Time};

use crate::children::Children;
use crate::error::EmulatorError;
use crate::lateness::{Lateness, bound};
use crate::network::{Network, NetworkOptions};
use crate::plan::Plan;
use crate::settings::{KernelCongestion, TcpSettings};
use crate::switch::{Input, Switch, SwitchCounters};
use crate::traffic::{FlowOutcome, Job, Meter};

/// Priority of the engine's thread, and of the traffic's threads below it.
const ENGINE_PRIORITY: i32 = 50;
const TRAFFIC_PRIORITY: i32 = 10;

/// From the end of the preparations to time zero, ns: time for the traffic's threads to wake up.
const LEAD: u64 = 200_000_000;

/// Emulations of this process so far, to tell their namespaces apart.
static RUNS: AtomicU64 = AtomicU64::new(0);

/// How to emulate.
#[derive(Clone, Debug)]
pub struct EmulateOptions {
    /// Seed of the radio and of the traffic.
    pub seed: u64,
    /// Interval of the curves; `None`: no curves.
    pub sample: Option<Span>,
    /// Who finds the ways.
    pub routing: Routing,
    /// The kernel's congestion control.
    pub congestion: KernelCongestion,
    /// The kernel's TCP.
    pub tcp: TcpSettings,
    /// Resolve hardware addresses over the air.
    pub arp: bool,
    /// Run the scenario's traffic.
    pub traffic: bool,
    /// Commands to start at time zero: node, command line.
    pub exec: Vec<(String, String)>,
    /// A shell at this node; the run ends when it does.
    pub shell: Option<String>,
    /// Let the time that the kernel takes to forward or answer a frame pass on the air, too.
    pub kernel_time: bool,
    /// Keep everything that enters the engine.
    pub log: bool,
}

impl Default for EmulateOptions {
    fn default() -> Self {
        EmulateOptions {
            seed: 1,
            sample: None,
            routing: Routing::Static,
            congestion: KernelCongestion::Reno,
            tcp: TcpSettings::Scenario,
            arp: false,
            traffic: true,
            exec: Vec::new(),
            shell: None,
            kernel_time: false,
            log: false,
        }
    }
}

/// Who finds the ways.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Routing {
    /// The scenario's routes.
    Static,
    /// babeld in every namespace.
    Babeld,
    /// The kernel's batman-adv in every namespace.
    Batman,
}

/// What an emulation leaves behind.
#[derive(Debug)]
pub struct Outcome {
    /// As a simulated run's, with `emulation` filled in.
    pub record: RunRecord,
    /// What entered the engine, if it was kept.
    pub inputs: Vec<Input>,
    /// Hash of the transmissions.
    pub air_fingerprint: u64,
    /// End of the emulated time.
    pub end: Time,
}

/// What can be watched while an emulation runs.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Emulated time.
    pub now: Time,
    /// Per flow: application bytes delivered.
    pub delivered: Vec<u64>,
    /// Transmissions on the air.
    pub transmissions: u64,
}

/// Emulates a scenario in real time. `watch` is called a few times a second; `ready` once, when the
/// namespaces are there. When `stop` becomes true the run is given up.
///
/// # Errors
/// What the system refuses, or [`EmulatorError::Interrupted`]. Nothing is left behind.
pub fn emulate(
    scenario: &Scenario,
    options: &EmulateOptions,
    stop: &AtomicBool,
    ready: &mut dyn FnMut(&Network),
    watch: &mut dyn FnMut(&Progress),
) -> Result<Outcome, EmulatorError> {
    if !nix::unistd::geteuid().is_root() {
        return Err(EmulatorError::NotRoot);
    }
    check(scenario, options)?;
    let fair = fair_rates(scenario)?;
    let run = format!("{}.{}", std::process::id(), RUNS.fetch_add(1, Ordering::Relaxed));
    let plan = Plan::new(scenario, &run)?;
    // The engine lives in its own thread; here it only says whether it takes the scenario.
    drop(Switch::new(scenario, &plan, options.seed, options.log)?);
    let network = Network::build(
        plan,
        &NetworkOptions {
            static_routes: options.routing == Routing::Static,
            arp: options.arp,
            tcp: options.tcp,
            congestion: options.congestion,
        },
    )?;
    let mut children = Children::start(scenario, &network, options)?;
    ready(&network);

    // Clock reading at time zero: the engine's thread sets it when it is ready to be on time.
    let epoch = OnceLock::new();
    let measure_from = Time::ZERO + scenario.warmup;
    let meters: Vec<Meter> = scenario.flows.iter().map(|_| Meter::default()).collect();
    let (over, transmissions) = (AtomicBool::new(false), AtomicU64::new(0));
    let end = AtomicU64::new(match options.shell {
        None => scenario.duration.as_nanos(),
        Some(_) => u64::MAX,
    });

    let (engine, outcomes) = std::thread::scope(|threads| {
        let mut traffic = Vec::new();
        for (index, flow) in scenario.flows.iter().enumerate().filter(|_| options.traffic) {
            let ends = [flow.from.index(), flow.to.index()];
            let (network, meters, epoch, over) = (&network, &meters, &epoch, &over);
            traffic.push(threads.spawn(move || {
                realtime::fifo(TRAFFIC_PRIORITY);
                let job = Job {
                    flow,
                    index,
                    at: ends.map(|n| &network.namespaces[n]),
                    addresses: ends.map(|n| network.plan.nodes[n].address),
                    seed: options.seed,
                    congestion: options.congestion,
                    epoch: *epoch.wait(),
                    measure_from,
                    meter: &meters[index],
                };
                realtime::sleep_until(job.epoch);
                job.run(over)
            }));
        }
        let (network, end, meters, transmissions) = (&network, &end, &meters, &transmissions);
        let clock = &epoch;
        let engine = threads.spawn(move || {
            let prepare = || -> Result<Engine<'_>, EmulatorError> {
                let preferred = realtime::prefer(ENGINE_PRIORITY);
                let failed = EmulatorError::system("the engine");
                let waiter = watch_all(network).map_err(failed)?;
                Ok(Engine {
                    switch: Switch::new(scenario, &network.plan, options.seed, options.log)?,
                    network,
                    waiter,
                    preferred,
                    epoch: 0,
                    end,
                    stop,
                    meters,
                    sample: options.sample.unwrap_or(Span::MAX),
                    kernel_time: options.kernel_time,
                    transmissions,
                    lateness: Lateness::default(),
                    series: Series::default(),
                })
            };
            let prepared = prepare();
            // Also if that failed: others wait for it.
            let epoch = *clock.get_or_init(|| realtime::now() + LEAD);
            let engine = Engine { epoch, ..prepared? };
            engine.run().map_err(EmulatorError::system("the engine"))
        });
        let epoch = *epoch.wait();
        while !engine.is_finished() {
            std::thread::sleep(std::time::Duration::from_millis(100));
            let now = Time::from_nanos(realtime::now().saturating_sub(epoch));
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

/// Refuses what cannot be had before anything is built.
fn check(scenario: &Scenario, options: &EmulateOptions) -> Result<(), EmulatorError> {
    match options.routing {
        Routing::Static => {}
        Routing::Babeld if Children::finds("babeld") => {}
        Routing::Babeld => {
            return Err(EmulatorError::Routing(
                "babeld is not installed (Debian: apt install babeld)".into(),
            ));
        }
        Routing::Batman => {
            return Err(EmulatorError::Routing(
                "batman is not there: this build drives static routes and babeld".into(),
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

/// A waiter that knows every interface by its number.
fn watch_all(network: &Network) -> std::io::Result<Waiter> {
    let waiter = Waiter::new()?;
    for (i, tap) in network.taps.iter().enumerate() {
        waiter.add(tap, i as u64)?;
    }
    Ok(waiter)
}

/// The engine's thread.
struct Engine<'a> {
    switch: Switch<'a>,
    network: &'a Network,
    waiter: Waiter,
    preferred: Preferred,
    epoch: u64,
    /// End of the run, ns; `u64::MAX` while it is open.
    end: &'a AtomicU64,
    stop: &'a AtomicBool,
    meters: &'a [Meter],
    sample: Span,
    kernel_time: bool,
    transmissions: &'a AtomicU64,
    lateness: Lateness,
    series: Series,
}

/// The engine when it is done.
struct Done {
    /// What the radio has to tell.
    record: RunRecord,
    inputs: Vec<Input>,
    /// Per interface.
    counters: Vec<SwitchCounters>,
    lateness: Lateness,
    series: Series,
    preferred: Preferred,
    air_fingerprint: u64,
    end: Time,
}

impl<'a> Engine<'a> {
    fn run(mut self) -> std::io::Result<Done> {
        let taps = &self.network.taps;
        realtime::sleep_until(self.epoch);
        let mut buffer = vec![0u8; 1 << 16];
        // Interfaces that may have frames which the engine has not yet had room for.
        let mut held: Vec<usize> = (0..taps.len()).collect();
        let (mut ready, mut answers) = (Vec::new(), Vec::new());
        let mut next_sample = Time::ZERO + self.sample;
        let mut sampled = (Time::ZERO, vec![0; self.meters.len()]);
        let end = loop {
            self.refill(&mut held, &mut buffer)?;
            let now = Time::from_nanos(realtime::now().saturating_sub(self.epoch));
            let end = Time::from_nanos(self.end.load(Ordering::Relaxed));
            let due = self.switch.next_deadline();
            if now >= next_sample && next_sample <= end {
                self.take_sample(next_sample, &mut sampled);
                next_sample += self.sample;
            }
            if self.stop.load(Ordering::Relaxed) || (now >= end && due >= end) {
                break end.min(now);
            }
            if due <= now {
                self.switch.step(|interface, at, frame| {
                    // An interface that is down loses it, as a real one would.
                    let _ = taps[interface].write(frame);
                    if !self.kernel_time {
                        answers.push((interface, at));
                    }
                });
                self.take_answers(&mut answers, &mut buffer)?;
                // Until the kernel has what arrived.
                let done = Time::from_nanos(realtime::now().saturating_sub(self.epoch));
                self.lateness.record(done - due);
                self.transmissions.store(self.switch.live().transmissions(), Ordering::Relaxed);
                continue;
            }
            // At least that often it sees that the run is over.
            let until = due.min(end).min(next_sample).min(now + Span::from_millis(50));
            self.waiter.wait(until.as_nanos() + self.epoch, &mut ready)?;
            held.extend(ready.drain(..).map(|i| i as usize));
        };
        if self.sample != Span::MAX && sampled.0 < end {
            self.take_sample(end, &mut sampled);
        }
        let counters = (0..taps.len()).map(|i| self.switch.counters(i)).collect();
        let (live, inputs) = self.switch.into_parts();
        Ok(Done {
            air_fingerprint: live.air_fingerprint(),
            record: live.finish(end, &[]),
            inputs,
            counters,
            lateness: self.lateness,
            series: self.series,
            preferred: self.preferred,
            end,
        })
    }

    /// Takes from the kernel what the engine has room for. An interface leaves `held` when it has
    /// no more frames; the waiter tells when it has.
    fn refill(&mut self, held: &mut Vec<usize>, buffer: &mut [u8]) -> std::io::Result<()> {
        let mut k = 0;
        while k < held.len() {
            let i = held[k];
            if !self.switch.has_room(i) {
                k += 1;
                continue;
            }
            match self.network.taps[i].read(buffer)? {
                Some(n) => {
                    let now = Time::from_nanos(realtime::now().saturating_sub(self.epoch));
                    // Never past an event that is due: it comes first, a little late.
                    let at = now.min(self.switch.next_deadline()).max(self.switch.now());
                    self.switch.accept(at, i, &buffer[..n]);
                }
                None => {
                    held.swap_remove(k);
                    self.waiter.arm(&self.network.taps[i], i as u64)?;
                }
            }
        }
        Ok(())
    }

    /// Takes what nodes sent while they were given a frame: forwarded packets, acknowledgements.
    /// They enter at the instant at which the frame arrived, as in the simulator, so that the
    /// kernel's work takes no emulated time.
    fn take_answers(
        &mut self,
        answers: &mut Vec<(usize, Time)>,
        buffer: &mut [u8],
    ) -> std::io::Result<()> {
        for (interface, at) in answers.drain(..) {
            let all = &self.network.plan.interfaces;
            let node = all[interface].node;
            // Interfaces of one node are together.
            let first = all[..interface].iter().rposition(|i| i.node != node).map_or(0, |i| i + 1);
            for i in (first..all.len()).take_while(|i| all[*i].node == node) {
                while self.switch.has_room(i)
                    && let Some(n) = self.network.taps[i].read(buffer)?
                {
                    self.switch.accept(at.max(self.switch.now()), i, &buffer[..n]);
                }
            }
        }
        Ok(())
    }

    fn take_sample(&mut self, at: Time, before: &mut (Time, Vec<u64>)) {
        let interval = (at - before.0).as_secs_f64();
        before.0 = at;
        let s = &mut self.series;
        s.time_s.push(at.as_secs_f64());
        s.goodput_bps.resize(self.meters.len(), Vec::new());
        s.cwnd_bytes.resize(self.meters.len(), Vec::new());
        s.limit_bps.resize(self.meters.len(), Vec::new());
        for (f, meter) in self.meters.iter().enumerate() {
            let total = meter.delivered.load(Ordering::Relaxed);
            let bytes = total - std::mem::replace(&mut before.1[f], total);
            s.goodput_bps[f].push(bytes as f64 * 8.0 / interval);
            let cwnd = meter.cwnd.load(Ordering::Relaxed);
            if cwnd > 0 || !s.cwnd_bytes[f].is_empty() {
                s.cwnd_bytes[f].push(cwnd as f64);
            }
        }
        let radios = self.network.plan.interfaces.iter();
        let nodes: Vec<_> = radios
            .filter(|i| i.side == crate::plan::Side::Radio)
            .map(|i| self.switch.live().queued(i.node))
            .collect();
        s.queue_packets.resize(nodes.len(), Vec::new());
        for (n, length) in nodes.into_iter().enumerate() {
            s.queue_packets[n].push(f64::from(length));
        }
    }
}

impl Done {
    fn finish(
        self,
        scenario: &Scenario,
        options: &EmulateOptions,
        network: &Network,
        fair: &[f64],
        outcomes: Vec<Option<FlowOutcome>>,
    ) -> Outcome {
        let Done { mut record, inputs, counters, lateness, series, preferred, .. } = self;
        let (air_fingerprint, end) = (self.air_fingerprint, self.end);
        let mut problems = Vec::new();
        let mut interfaces = Vec::new();
        let mut kernel_drops = 0;
        for (i, plan) in network.plan.interfaces.iter().enumerate() {
            let c = counters[i];
            let queue_drops = network.queue_drops(i).unwrap_or_else(|e| {
                problems.push(format!("the drops of {} are not known: {e}", plan.name));
                0
            });
            kernel_drops += queue_drops;
            interfaces.push(InterfaceRecord {
                node: scenario.nodes[plan.node.index()].name.clone(),
                interface: plan.name.clone(),
                from_kernel: c.accepted,
                to_kernel: c.delivered,
                queue_drops,
                unreachable: c.unreachable,
            });
        }
        let measured = end.as_secs_f64() - scenario.warmup.as_secs_f64();
        let mut flows = Vec::new();
        for ((i, flow), outcome) in scenario
            .flows
            .iter()
            .enumerate()
            .zip(outcomes.into_iter().map(Some).chain(std::iter::repeat(None)))
        {
            let name = |n: fairmesh_units::NodeId| scenario.nodes[n.index()].name.clone();
            let label = format!("flow {} → {}", name(flow.from), name(flow.to));
            let o = match outcome {
                Some(Some(o)) => Some(o),
                Some(None) => {
                    problems.push(format!("{label}: its thread panicked"));
                    None
                }
                None => None,
            };
            if let Some(problem) = o.as_ref().and_then(|o| o.problem.as_ref()) {
                problems.push(format!("{label}: {problem}"));
            }
            let bytes = o.as_ref().map_or(0, |o| o.measured);
            let cwnd = series.cwnd_bytes.get(i).filter(|c| !c.is_empty());
            let tcp =
                o.as_ref().and_then(|o| o.tcp).map(|(segments, retransmits, timeouts)| TcpRecord {
                    segments,
                    retransmits,
                    timeouts,
                    mean_cwnd_bytes: cwnd.map_or(0.0, |c| c.iter().sum::<f64>() / c.len() as f64),
                });
            let mss = match &flow.transport {
                Transport::Tcp(tcp) => u64::from(tcp.mss),
                Transport::Udp => 0,
            };
            let (sent, delivered) = match (&o, &tcp) {
                (Some(_), Some(tcp)) => (tcp.segments, bytes.div_ceil(mss.max(1))),
                (Some(o), None) => (o.packets_sent, o.packets_delivered),
                (None, _) => (0, 0),
            };
            let transfers = o.as_ref().and_then(|o| o.transfers.as_ref()).map(|t| {
                let s = t.summary();
                TransferRecord { completed: t.count(), mean_s: s.mean, p95_s: s.p95 }
            });
            flows.push(FlowRecord {
                name: flow.name.clone(),
                from: name(flow.from),
                to: name(flow.to),
                hops: flow.wireless_hops,
                goodput_bps: if measured > 0.0 { bytes as f64 * 8.0 / measured } else { 0.0 },
                fair_bps: fair.get(i).copied().unwrap_or(0.0),
                weight: flow.weight,
                delay_s: o.as_ref().map_or_else(Default::default, |o| o.delay.summary()),
                packets_sent: sent,
                packets_delivered: delivered,
                drops: Drops::default(),
                tcp,
                transfers,
            });
        }
        record.control = format!("emulated {}", options.congestion.name());
        record.duration_s = end.as_secs_f64();
        record.totals.drops.queue += kernel_drops;
        record.flows = flows;
        record.series = series;
        let bound = bound_of(scenario);
        let lateness = lateness.summary();
        if lateness.p99 > bound.as_secs_f64() {
            problems.insert(
                0,
                format!(
                    "1 % of the events ran more than {:.0} µs late; the bound is {:.0} µs",
                    lateness.p99 * 1e6,
                    bound.as_secs_f64() * 1e6
                ),
            );
        }
        let mut traffic = network.notes.clone();
        if !preferred.fifo {
            traffic.push("the engine's thread is an ordinary one: SCHED_FIFO was refused".into());
        }
        if !preferred.locked {
            traffic.push("memory is not locked: mlockall was refused".into());
        }
        record.emulation = Some(EmulationRecord {
            valid: problems.is_empty(),
            problems,
            lateness_s: lateness,
            bound_s: bound.as_secs_f64(),
            notes: traffic,
            interfaces,
        });
        Outcome { record, inputs, air_fingerprint, end }
    }
}

/// The lateness that a scenario's frames allow.
fn bound_of(scenario: &Scenario) -> Span {
    let mac = &scenario.mac;
    let own = scenario.links.iter().filter_map(|l| l.rate);
    let fastest = own.chain([mac.rate]).map(|r| mac.phy.airtime(r, 1500)).min();
    bound(fastest.unwrap_or(Span::ZERO))
}
