//! The measuring bench: what each flow receives when every source is limited.

use fairmesh_control::Mechanism;
use fairmesh_engine::record::RunRecord;
use fairmesh_engine::{RunOptions, run};
use fairmesh_scenario::{Flow, Scenario, Transport};
use fairmesh_transport::traffic::TrafficSpec;
use fairmesh_units::{BitRate, Span, Stream};
use rayon::prelude::*;

use super::meter::{Halt, Meter};
use super::settings::{OptimumError, Settings};
use super::steady::Steady;

/// Packets of the slowest flow that a measurement lasts for, where that takes no longer than …
const PACKETS: f64 = 800.0;
/// … so many times the shortest measurement.
const LONGER: f64 = 6.0;
/// Packets of the slowest flow that it lasts for in any case, up to the longest measurement.
const LEAST_PACKETS: f64 = 120.0;
/// Packets of the slowest flow that the start-up lasts for.
const START_PACKETS: f64 = 20.0;
/// Start-up, s: at least and at most.
const START_S: (f64, f64) = (5.0, 40.0);

/// By how much a flow's limit differs from run to run, at most: sources of one exact rate would stay
/// in step for a whole run, and then never collide or always.
const DITHER: f64 = 0.01;

/// Rates of all flows of a stretch, bit/s of application data.
pub(super) type Rates = Vec<f64>;

/// What every flow received, over seeds.
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

    /// With the runs of more seeds.
    pub fn and(mut self, more: Received) -> Self {
        self.runs.extend(more.runs);
        Received::of(self.runs)
    }

    /// Standard error of a flow's mean.
    pub fn error(&self, flow: usize) -> f64 {
        self.variance(flow).sqrt()
    }

    /// Variance of a flow's mean.
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
}

impl<'a> Bench<'a> {
    pub fn new(steady: &'a Steady, settings: &Settings, meter: &'a Meter<'a>) -> Self {
        Bench { steady, times_s: settings.times_s, meter }
    }

    /// Measured time of a run in which flows are to receive `targets`, s.
    pub fn duration(&self, targets: &[f64]) -> f64 {
        let (least, most) = self.times_s;
        let usual = self.lasting(targets, PACKETS).clamp(least, (LONGER * least).min(most));
        usual.max(self.lasting(targets, LEAST_PACKETS).min(most))
    }

    /// How long the slowest flow that is to receive anything takes for so many packets, s.
    fn lasting(&self, targets: &[f64], packets: f64) -> f64 {
        let flows = targets.iter().zip(&self.steady.flows).filter(|(t, _)| **t > 0.0);
        flows.map(|(t, f)| packets * 8.0 * f.payload / t).fold(0.0, f64::max)
    }

    /// How long a run is in which flows are to receive `targets`, s: start-up, and `longer` times the
    /// measured time.
    pub fn lasts(&self, targets: &[f64], longer: f64) -> (f64, f64) {
        let start = self.lasting(targets, START_PACKETS).clamp(START_S.0, START_S.1);
        (start, start + longer * self.duration(targets))
    }

    /// One run per seed under each of several limits, of application data. `targets` says how long
    /// they last, and `longer` how many times that. Begins nothing that is more than what may be
    /// spent.
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
        let (duration, warmup) = (Span::from_secs_f64(end), Span::from_secs_f64(start));
        let scenario = self.steady.scenario.clone().with_times(duration, warmup)?;
        let jobs: Vec<(&[f64], u64)> =
            limits.iter().flat_map(|l| seeds.iter().map(|&s| (*l, s))).collect();
        let done: Result<Vec<Rates>, OptimumError> = jobs
            .par_iter()
            .with_max_len(1)
            .map(|&(limits, seed)| {
                let (record, parts) = limited(&scenario, limits, seed)?;
                self.meter.count(record.totals.events, end);
                Ok(record.flows.iter().zip(parts).map(|(f, part)| f.goodput_bps / part).collect())
            })
            .collect();
        Ok(done?.chunks(seeds.len().max(1)).map(|runs| Received::of(runs.to_vec())).collect())
    }

    /// The fingerprint of a short run under limits: another program has another one.
    pub fn witness(&self, limits: &[f64]) -> Result<String, OptimumError> {
        let scenario = self.steady.scenario.clone();
        let scenario = scenario.with_times(Span::from_secs(4), Span::from_secs(1))?;
        Ok(limited(&scenario, limits, 1)?.0.fingerprint)
    }
}

/// One run in which no application writes more than its limit; and, by flow, its limit in this run
/// over the one that was asked for.
fn limited(
    scenario: &Scenario,
    limits: &[f64],
    seed: u64,
) -> Result<(RunRecord, Vec<f64>), OptimumError> {
    let scenario = scenario.clone().with_control_everywhere(Mechanism::none());
    let mut parts = Vec::with_capacity(limits.len());
    let scenario = scenario.map_flows(|i, flow| parts.push(limit(flow, limits[i], seed)))?;
    Ok((run(&scenario, &RunOptions { seed, ..RunOptions::default() })?, parts))
}

/// Limits a flow to about `at`, bit/s. Returns the part of `at` that it was limited to.
fn limit(flow: &mut Flow, at: f64, seed: u64) -> f64 {
    let off = 2.0 * Stream::new(seed, &format!("optimum/{}", flow.name)).unit() - 1.0;
    let asked = (at * (1.0 + DITHER * off)).round().max(1.0) as u64;
    let cap = |rate: &mut BitRate| {
        // What would ask for less goes on asking for it.
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
