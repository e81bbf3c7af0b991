//! Arrival and departure of a flow in a network with saturated air.
//!
//! The flow starts when the other flows saturate the air, stays for a while and ends. Its share is
//! its goodput under the same control if all flows are present from the start. The goodput that it
//! frees is compared with that of the others in runs without it.

use fairmesh_control::Registry;
use fairmesh_engine::RunOptions;
use fairmesh_engine::record::RunRecord;
use fairmesh_scenario::{Flow, Scenario, draft_from_toml};
use fairmesh_units::Span;

use super::against::hashed;
use super::families::Times;
use super::meshes::{Kind, mesh};
use fairmesh_lab::changes::with_controls;
use fairmesh_lab::{Estimate, LabError, Pool, batch};

/// Start of the flow, in s.
const FLOW_START_S: u64 = 20;
/// End of the flow, in s.
const FLOW_END_S: u64 = 60;
/// End of the run, in s.
const RUN_END_S: u64 = 75;
/// Start of the measured interval after a change, and its length, s.
const MEASURED_INTERVAL_S: f64 = 5.0;
/// Steady runs for the shares: duration, start of the measured interval (both s), and seeds.
const STEADY_RUNS: (u64, u64, u64) = (60, 30, 3);
/// Fraction of its share below which a newcomer is starved.
const STARVED_FRACTION: f64 = 0.1;
/// Fraction of its share above which a newcomer counts as served.
const SERVED_FRACTION: f64 = 0.9;

/// A network and its late flow.
#[derive(Clone, Debug)]
pub struct Network {
    /// Name of the network.
    pub name: String,
    /// All flows from the start.
    scenario: Scenario,
    /// The late flow of other runs.
    newcomer: usize,
}

const TOPOLOGIES: [(&str, &str, usize); 4] = [
    ("Stack", "links = [[1, 2], [2, 3], [4, 5], [5, 6], [7, 8], [8, 9], [2, 5], [5, 8]]", 1),
    (
        "Diamond",
        "links = [[1, 2], [2, 3], [4, 5], [5, 6], [7, 8], [8, 9], [2, 4], [2, 5], [2, 6], [8, 4], [8, 5], [8, 6]]",
        1,
    ),
    (
        "Half-Diamond",
        "links = [[1, 2], [2, 3], [4, 5], [5, 6], [7, 8], [8, 9], [2, 5], [8, 4], [8, 5], [8, 6]]",
        1,
    ),
    (
        "Chain-Cross",
        "links = [[1, 2], [2, 3], [3, 4], [4, 5], [5, 6], [6, 7], [8, 9], [9, 2], [2, 10], [10, 11]]",
        0,
    ),
];

/// Returns the topologies of Rangwala 2008 and random meshes.
///
/// The four topologies have the joined forms; the `random` meshes begin with number `first`. In the
/// topologies the middle or longest flow is late, in random meshes the last one.
///
/// # Errors
/// Only because of an error in this module.
pub fn networks(first: u32, random: u32) -> Result<Vec<Network>, LabError> {
    let four = TOPOLOGIES.iter().map(|&(name, topology, newcomer)| {
        let flows = match name {
            "Chain-Cross" => "[[1, 7], [1, 2], [8, 9], [10, 11], [6, 7]]",
            _ => "[[1, 3], [4, 6], [7, 9]]",
        };
        let pairs: Vec<[u32; 2]> = serde_json::from_str(flows).unwrap_or_default();
        let mut text = format!(
            "name = \"{name}\"\nduration = \"75 s\"\n[radio]\nphy = \"802.11b\"\nrate = \"11 Mbit/s\"\nrts = true\nqueue = 64\n\
             [topology]\n{topology}\n[traffic]\ntraffic = \"bulk\"\nstart_jitter = \"1 s\"\n\
             transport = {{ tcp = \"newreno\", mss = \"512 B\", sack = true, ecn = true }}\n"
        );
        for [from, to] in pairs {
            text += &format!("[[flow]]\nfrom = {from}\nto = {to}\n");
            if (from, to) == (4, 6) {
                text += "path = [4, 5, 6]\n";
            }
        }
        let scenario = draft_from_toml(&format!("{name}.toml"), &text)?.build()?;
        Ok(Network { name: name.to_owned(), scenario, newcomer })
    });
    let times = Times { duration_s: 75, warmup_s: 1 };
    let meshes = (first..first + random).map(|number| {
        let mesh = mesh(Kind::Eleven, number, times)?;
        let scenario = mesh.scenario()?;
        let newcomer = scenario.flows().len() - 1;
        Ok(Network { name: format!("mesh {number}"), scenario, newcomer })
    });
    four.chain(meshes).collect()
}

impl Network {
    /// Returns the network with the newcomer between these times, s; all time is measured.
    fn with(&self, flow_start: u64, flow_end: u64, ends: u64) -> Result<Scenario, LabError> {
        let scenario = self.scenario.clone().with_times(Span::from_secs(ends), Span::ZERO)?;
        let visit = |i: usize, flow: &mut Flow| {
            if i == self.newcomer {
                (flow.start, flow.start_jitter) = (Span::from_secs(flow_start), Span::ZERO);
                flow.stop = Some(Span::from_secs(flow_end));
            }
        };
        Ok(scenario.map_flows(visit)?)
    }
}

/// Effect of one control on one network's newcomer, seed by seed, as fractions.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Newcomer's goodput in the second five seconds after its start, as a fraction of its share.
    pub early_share: Vec<f64>,
    /// Time from its start until its goodput first reaches 90 % of its share, in s.
    ///
    /// The goodput is averaged over five seconds.
    pub took_s: Vec<f64>,
    /// Others' goodput in the second five seconds after its end, over theirs without it.
    pub freed: Vec<f64>,
}

impl Outcome {
    /// Returns the number of runs in which the newcomer had less than a tenth.
    pub fn starved(&self) -> usize {
        self.early_share.iter().filter(|h| **h < STARVED_FRACTION).count()
    }

    /// Returns the number of runs in which the newcomer had 90 % by then.
    pub fn served(&self) -> usize {
        self.early_share.iter().filter(|h| **h >= SERVED_FRACTION).count()
    }

    /// Returns the number of runs in which the others had 90 % of the freed goodput by then.
    pub fn reused(&self) -> usize {
        self.freed.iter().filter(|f| **f >= SERVED_FRACTION).count()
    }
}

/// A row of a table: effect of a control on the newcomers of one network or of all.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Row {
    /// Number of runs.
    pub runs: usize,
    /// Runs in which the newcomer had less than a tenth of its share in the second five seconds.
    pub starved: usize,
    /// Fraction of the runs in which the newcomer then had nine tenths of its share.
    pub served: f64,
    /// Fraction of the runs in which the others had nine tenths of the freed goodput.
    ///
    /// It is measured in the second five seconds after the newcomer left.
    pub reused: f64,
    /// Fraction of its share that the newcomer then had, over runs.
    pub early_share: Estimate,
    /// Goodput of the others after the newcomer left, over theirs without it, over runs.
    pub freed: Estimate,
    /// Median time until the newcomer has nine tenths of its share, in s.
    ///
    /// It is the whole stay in runs in which the newcomer never has them.
    pub took_s: f64,
}

/// All outcomes, by network and control.
#[derive(Clone, Debug)]
pub struct Study {
    /// Names of the controls in results.
    pub controls: Vec<String>,
    /// By network, then control.
    pub outcomes: Vec<Vec<Outcome>>,
    /// Number of runs.
    pub runs: usize,
    /// Hash of their fingerprints, in order.
    pub fingerprint: u64,
}

impl Study {
    /// Summarises a control's results on one network, or on all.
    pub fn row(&self, network: Option<usize>, control: usize) -> Option<Row> {
        let networks = 0..self.outcomes.len();
        let of = networks.filter(|n| network.is_none_or(|one| one == *n));
        let mut all = Outcome::default();
        for outcome in of.map(|n| &self.outcomes[n][control]) {
            all.early_share.extend(&outcome.early_share);
            all.took_s.extend(&outcome.took_s);
            all.freed.extend(&outcome.freed);
        }
        all.took_s.sort_by(f64::total_cmp);
        let runs = all.early_share.len();
        let part = |of: usize| of as f64 / runs as f64;
        Some(Row {
            runs,
            starved: all.starved(),
            served: part(all.served()),
            reused: part(all.reused()),
            early_share: Estimate::of(&all.early_share),
            freed: Estimate::of(&all.freed),
            took_s: all.took_s.get(runs / 2)?.min((FLOW_END_S - FLOW_START_S) as f64),
        })
    }

    /// Returns a line per network, control and run.
    pub fn csv(&self, networks: &[Network]) -> String {
        let mut out = "network,control,seed,heard,took_s,freed\n".to_owned();
        for (network, outcomes) in networks.iter().zip(&self.outcomes) {
            for (control, o) in self.controls.iter().zip(outcomes) {
                for (run, early_share) in o.early_share.iter().enumerate() {
                    let (took, freed, seed) = (o.took_s[run], o.freed[run], run + 1);
                    let name = &network.name;
                    out +=
                        &format!("{name},{control},{seed},{early_share:.3},{took:.0},{freed:.3}\n");
                }
            }
        }
        out
    }
}

/// Returns the mean rate of a flow between two times, in bit/s.
fn rate(record: &RunRecord, flow: usize, from: f64, to: f64) -> f64 {
    let times = record.series.time_s.iter().zip(&record.series.goodput_bps[flow]);
    let within: Vec<f64> =
        times.filter(|(t, _)| **t > from + 1e-9 && **t <= to + 1e-9).map(|(_, g)| *g).collect();
    within.iter().sum::<f64>() / within.len().max(1) as f64
}

/// Runs every control on every network with seeds 1 to `seeds`.
///
/// # Errors
/// Returns an error if the engine rejects a scenario, or if a control does not exist.
pub fn run(
    networks: &[Network],
    controls: &[String],
    seeds: u32,
    registry: &Registry,
    pool: &Pool<'_>,
) -> Result<Study, LabError> {
    let (lasts, counts, few) = STEADY_RUNS;
    let mut jobs = Vec::new();
    let mut names = Vec::new();
    for network in networks {
        let late =
            with_controls(&network.with(FLOW_START_S, FLOW_END_S, RUN_END_S)?, controls, registry)?;
        let all = with_controls(&network.with(0, lasts, lasts)?, controls, registry)?;
        let none = {
            let late = network.with(lasts - 1, lasts, lasts)?;
            let before = late.prefix(Span::from_secs(lasts - 1), Span::ZERO)?;
            with_controls(&before, controls, registry)?
        };
        names = late.iter().map(|s| s.control().to_string()).collect();
        for ((late, all), none) in late.iter().zip(&all).zip(&none) {
            jobs.extend((1..=few).map(|seed| (all.clone(), seed)));
            jobs.extend((1..=few).map(|seed| (none.clone(), seed)));
            jobs.extend((1..=u64::from(seeds)).map(|seed| (late.clone(), seed)));
        }
    }
    let options = |seed| {
        let sample = Some(Span::from_secs(1));
        RunOptions { seed, sample, ..RunOptions::default() }
    };
    let jobs: Vec<_> = jobs.iter().map(|(scenario, seed)| (scenario, options(*seed))).collect();
    pool.check_store(&jobs)?;
    let records = batch::all(pool, "simulating", &jobs, |(scenario, options)| {
        let mut record = pool.measured(scenario, options)?;
        record.decisions = Vec::new();
        Ok(record)
    })?;
    let fingerprint = hashed(&records);
    let few = few as usize;
    let mut arms = records.chunks(2 * few + seeds as usize);
    let mut outcomes = Vec::new();
    for network in networks {
        let of = |records: &[RunRecord]| {
            let (all, rest) = records.split_at(few);
            let (none, late) = rest.split_at(few);
            outcome(network, all, none, late, counts as f64)
        };
        outcomes.push(arms.by_ref().take(names.len()).map(of).collect());
    }
    Ok(Study { controls: names, outcomes, runs: records.len(), fingerprint })
}

fn outcome(
    network: &Network,
    all: &[RunRecord],
    none: &[RunRecord],
    late: &[RunRecord],
    counts: f64,
) -> Outcome {
    let newcomer = network.newcomer;
    let others = |r: &RunRecord, from: f64, to: f64| {
        (0..r.flows.len()).filter(|f| *f != newcomer).map(|f| rate(r, f, from, to)).sum::<f64>()
    };
    let mean = |rs: &[RunRecord], of: &dyn Fn(&RunRecord) -> f64| {
        rs.iter().map(of).sum::<f64>() / rs.len() as f64
    };
    let share = mean(all, &|r| rate(r, newcomer, counts, f64::INFINITY)).max(1.0);
    let free = mean(none, &|r| others(r, counts, f64::INFINITY)).max(1.0);
    let (flow_start, flow_end) = (FLOW_START_S as f64, FLOW_END_S as f64);
    let mut out = Outcome::default();
    for r in late {
        let start = flow_start;
        out.early_share.push(
            rate(r, newcomer, start + MEASURED_INTERVAL_S, start + 2.0 * MEASURED_INTERVAL_S)
                / share,
        );
        let has = |t: &u64| {
            rate(r, newcomer, *t as f64, *t as f64 + MEASURED_INTERVAL_S) >= SERVED_FRACTION * share
        };
        let first = (FLOW_START_S..=FLOW_END_S - MEASURED_INTERVAL_S as u64).find(has);
        out.took_s.push(first.map_or(f64::INFINITY, |t| t as f64 - flow_start));
        out.freed.push(
            others(r, flow_end + MEASURED_INTERVAL_S, flow_end + 2.0 * MEASURED_INTERVAL_S) / free,
        );
    }
    out
}
