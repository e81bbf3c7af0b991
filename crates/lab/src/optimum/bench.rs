//! Measurement of each flow's received rate when every source is limited.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use fairmesh_control::Mechanism;
use fairmesh_engine::{CancelToken, EngineError, Inputs, RunOptions, Simulation, Snapshot};
use fairmesh_scenario::{Flow, Scenario, Transport};
use fairmesh_transport::traffic::TrafficSpec;
use fairmesh_units::{BitRate, Span, Stream, Time};
use rayon::prelude::*;

use super::error::OptimumError;
use super::meter::{Halt, Meter};
use super::settings::Settings;
use super::steady::Steady;

/// Packets of the slowest flow that determine the length of a measurement.
///
/// The length is at most `MAX_LENGTH_FACTOR` times the shortest one.
const MEASURED_PACKETS: f64 = 800.0;
/// Upper bound of that length, in multiples of the shortest measurement.
const MAX_LENGTH_FACTOR: f64 = 10.0;
/// Minimum packets of the slowest flow in a measurement, up to the longest measurement.
const LEAST_PACKETS: f64 = 120.0;
/// Minimum measured time of the longer runs of the check, in s.
const CHECK_S: f64 = 45.0;
/// Packets of the slowest flow in the start-up.
const START_PACKETS: f64 = 20.0;
/// Minimum and maximum start-up, in s.
const START_S: (f64, f64) = (3.0, 40.0);

/// Maximum relative variation of a flow's limit from run to run.
///
/// Sources with exactly equal rates would stay in phase for a whole run, and collide never or
/// always.
const RATE_DITHER: f64 = 0.01;

/// Fraction of its target below which more room does not help a flow.
pub(super) const HOPELESS_TARGET_FRACTION: f64 = 0.5;
/// Fraction of the measured time after which a glance ends if a flow is far below its target.
const PREVIEW_FRACTION: f64 = 1.0 / 3.0;

/// Rates of all flows of a stretch, bit/s of application data.
pub(super) type Rates = Vec<f64>;

/// Identity of a run on one bench: the bits of its limits, its seed, its end in ns.
type RunKey = (Vec<u64>, u64, u64);

/// Received rates of every flow, over seeds.
#[derive(Clone, Debug, Default)]
pub(super) struct Received {
    /// By seed and flow.
    runs: Vec<Rates>,
    /// By flow, the mean over seeds.
    pub mean: Rates,
}

impl Received {
    fn of(runs: Vec<Rates>) -> Self {
        let flows = runs.first().map_or(0, Vec::len);
        let n = runs.len().max(1) as f64;
        let mean = (0..flows).map(|f| runs.iter().map(|r| r[f]).sum::<f64>() / n).collect();
        Received { runs, mean }
    }

    /// Returns it with the runs of more seeds.
    pub fn and(mut self, more: Received) -> Self {
        self.runs.extend(more.runs);
        Received::of(self.runs)
    }

    /// Returns it with the additional runs of `other`, each changed by `change`.
    pub fn completed(&self, other: &Received, change: impl Fn(&mut Rates)) -> Received {
        let mut runs = self.runs.clone();
        runs.extend(other.runs.iter().skip(self.runs.len()).cloned().map(|mut run| {
            change(&mut run);
            run
        }));
        Received::of(runs)
    }

    /// Returns the standard error of a flow's mean.
    pub fn error(&self, flow: usize) -> f64 {
        self.variance(flow).sqrt()
    }

    /// Returns the variance of a flow's mean.
    pub fn variance(&self, flow: usize) -> f64 {
        let n = self.runs.len();
        if n < 2 {
            return 0.0;
        }
        let square = |r: &Rates| (r[flow] - self.mean[flow]).powi(2);
        self.runs.iter().map(square).sum::<f64>() / ((n - 1) * n) as f64
    }
}

/// Runs one stretch under limits at its sources.
pub(super) struct Bench<'a> {
    pub steady: &'a Steady,
    times_s: (f64, f64),
    pub meter: &'a Meter<'a>,
    /// Results of whole runs, so that none is repeated.
    made: Mutex<BTreeMap<RunKey, Rates>>,
}

impl<'a> Bench<'a> {
    pub fn new(steady: &'a Steady, settings: &Settings, meter: &'a Meter<'a>) -> Self {
        Bench { steady, times_s: settings.times_s, meter, made: Mutex::default() }
    }

    /// Returns the time in which the slowest flow with a target receives `packets` packets, in s.
    fn lasting(&self, targets: &[f64], packets: f64) -> f64 {
        let flows = targets.iter().zip(&self.steady.flows).filter(|(t, _)| **t > 0.0);
        flows.map(|(t, f)| packets * 8.0 * f.payload / t).fold(0.0, f64::max)
    }

    /// Returns start-up and length of a run in which flows are to receive `targets`, s.
    ///
    /// The length is the start-up plus the measured time, which is multiplied by `longer`.
    pub fn lasts(&self, targets: &[f64], longer: f64) -> (f64, f64) {
        let start = self.lasting(targets, START_PACKETS).clamp(START_S.0, START_S.1);
        (start, start + self.measured(targets, longer))
    }

    /// Returns the measured time of a run in which flows are to receive `targets`, s.
    pub fn measured(&self, targets: &[f64], longer: f64) -> f64 {
        let (least, most) = self.times_s;
        let usual = self
            .lasting(targets, MEASURED_PACKETS)
            .clamp(least, (MAX_LENGTH_FACTOR * least).min(most));
        let measured = longer * usual.max(self.lasting(targets, LEAST_PACKETS).min(most));
        if longer > 1.0 { measured.max(CHECK_S.min(most)) } else { measured }
    }

    /// Runs once per seed under each of several limits, of application data.
    ///
    /// `targets` determines the length of the runs, and `longer` multiplies it. No run starts that
    /// exceeds the remaining budget.
    pub fn measure(
        &self,
        limits: &[&[f64]],
        targets: &[f64],
        seeds: &[u64],
        longer: f64,
    ) -> Result<Vec<Received>, Halt> {
        let (start, end) = self.lasts(targets, longer);
        if self.meter.affords(end) < limits.len() * seeds.len() {
            return Err(Halt::Spent);
        }
        let scenario = self.lasting_until(start, end)?;
        let key = |limits: &[f64], seed: u64| -> RunKey {
            (limits.iter().map(|l| l.to_bits()).collect(), seed, scenario.duration().as_nanos())
        };
        let jobs: Vec<(&[f64], u64)> =
            limits.iter().flat_map(|l| seeds.iter().map(|&s| (*l, s))).collect();
        let done: Result<Vec<Rates>, OptimumError> = jobs
            .par_iter()
            .with_max_len(1)
            .map(|&(limits, seed)| {
                let key = key(limits, seed);
                if let Some(rates) = self.made().get(&key) {
                    return Ok(rates.clone());
                }
                let rates =
                    Limited::new(&scenario, limits, seed, &self.meter.cancel)?.rates(self.meter)?;
                self.made().insert(key, rates.clone());
                Ok(rates)
            })
            .collect();
        Ok(done?.chunks(seeds.len().max(1)).map(|runs| Received::of(runs.to_vec())).collect())
    }

    fn made(&self) -> std::sync::MutexGuard<'_, BTreeMap<RunKey, Rates>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs once under each of several limits, with the length for the last of `targets`.
    ///
    /// A run ends after a part of its time if a flow has less than [`HOPELESS_TARGET_FRACTION`] of its target
    /// there.
    pub fn preview(
        &self,
        limits: &[Rates],
        targets: &[Rates],
        seed: u64,
    ) -> Result<Vec<Received>, Halt> {
        let (start, end) = self.lasts(targets.last().map_or(&[], Vec::as_slice), 1.0);
        if self.meter.affords(end) < limits.len() {
            return Err(Halt::Spent);
        }
        let scenario = self.lasting_until(start, end)?;
        let early = Time::ZERO + Span::from_secs_f64(start + PREVIEW_FRACTION * (end - start));
        let jobs: Vec<(&Rates, &Rates)> = limits.iter().zip(targets).collect();
        let done: Result<Vec<Received>, OptimumError> = jobs
            .par_iter()
            .with_max_len(1)
            .map(|(limits, targets)| {
                let mut run = Limited::new(&scenario, limits, seed, &self.meter.cancel)?;
                let so_far = run.rates_at(early);
                let short = |(got, target): (&f64, &f64)| *got < HOPELESS_TARGET_FRACTION * target;
                if self.meter.cancel.is_cancelled() {
                    return Err(EngineError::Cancelled.into());
                }
                let rates = if so_far.iter().zip(*targets).any(short) {
                    run.count(self.meter);
                    so_far
                } else {
                    run.rates(self.meter)?
                };
                Ok(Received::of(vec![rates]))
            })
            .collect();
        Ok(done?)
    }

    fn lasting_until(&self, start: f64, end: f64) -> Result<Scenario, OptimumError> {
        let (duration, warmup) = (Span::from_secs_f64(end), Span::from_secs_f64(start));
        Ok(self.steady.scenario.clone().with_times(duration, warmup)?)
    }

    /// Returns the fingerprint of a short run under limits; it differs between programs.
    pub fn witness(&self, limits: &[f64]) -> Result<String, OptimumError> {
        let scenario = self.lasting_until(1.0, 4.0)?;
        let run = Limited::new(&scenario, limits, 1, &self.meter.cancel)?;
        Ok(run.simulation.finish()?.fingerprint)
    }
}

/// One run in which no application writes more than its limit.
struct Limited {
    simulation: Simulation,
    /// Ratio of the applied to the requested limit, by flow.
    parts: Vec<f64>,
}

impl Limited {
    fn new(
        scenario: &Scenario,
        limits: &[f64],
        seed: u64,
        cancel: &CancelToken,
    ) -> Result<Self, OptimumError> {
        let scenario = scenario.clone().with_control_everywhere(Mechanism::none());
        let mut parts = Vec::with_capacity(limits.len());
        let scenario = scenario.map_flows(|i, flow| parts.push(limit(flow, limits[i], seed)))?;
        let options = RunOptions { seed, ..RunOptions::default() };
        let inputs = Inputs { cancel: cancel.clone(), ..Inputs::default() };
        let simulation = Simulation::new(Arc::new(scenario), &options, inputs)?;
        Ok(Limited { simulation, parts })
    }

    /// Returns the rate that each flow received from the start-up until an instant, in bit/s.
    ///
    /// Rates are scaled to the requested limit.
    fn rates_at(&mut self, until: Time) -> Rates {
        self.simulation.advance(until);
        let Snapshot { flows, .. } = self.simulation.snapshot();
        let rate = |(f, part): (&fairmesh_engine::FlowSnapshot, &f64)| {
            f.goodput_bps.unwrap_or_default() / part
        };
        flows.iter().zip(&self.parts).map(rate).collect()
    }

    /// Returns the rates of the whole run, and counts the run.
    fn rates(self, meter: &Meter<'_>) -> Result<Rates, EngineError> {
        let record = self.simulation.finish()?;
        meter.count(record.totals.events, record.duration_s);
        let rates = record.flows.iter().zip(&self.parts);
        Ok(rates.map(|(f, part)| f.goodput_bps / part).collect())
    }

    /// Counts a run that ends here.
    fn count(&self, meter: &Meter<'_>) {
        let Snapshot { events, time_s, .. } = self.simulation.snapshot();
        meter.count(events, time_s);
    }
}

/// Limits a flow to about `at`, bit/s; returns the fraction of `at` that was applied.
fn limit(flow: &mut Flow, at: f64, seed: u64) -> f64 {
    let off = 2.0 * Stream::new(seed, &format!("optimum/{}", flow.name)).unit() - 1.0;
    let asked = (at * (1.0 + RATE_DITHER * off)).round().max(1.0) as u64;
    let cap = |rate: &mut BitRate| {
        // An application with a lower demand keeps it.
        let demand = rate.0;
        *rate = BitRate(asked.min(demand));
        if at >= demand as f64 { 1.0 } else { rate.0 as f64 / at.max(1.0) }
    };
    match &mut flow.traffic {
        TrafficSpec::Cbr { rate, .. } | TrafficSpec::Limited { rate, .. } => cap(rate),
        other => {
            let mut rate = BitRate(u64::MAX);
            let part = cap(&mut rate);
            let chunk = match &flow.transport {
                Transport::Tcp(tcp) => Some(tcp.mss),
                Transport::Quic(quic) => Some(quic.full_packet().0),
                Transport::Udp => None,
            };
            if let Some(chunk) = chunk {
                *other = TrafficSpec::Limited { rate, chunk };
            }
            part
        }
    }
}
