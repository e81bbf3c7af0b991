//! Cost of a flood of datagrams to other homes, under controls of the gateway.
//!
//! The networks are those of [`super::families`], with their own transfers. From the start time on,
//! one more home sends upstream without congestion control. The others are compared with the
//! optimum of the same network in which that home sends by TCP instead of the flood, and so takes
//! its share.

use core::fmt::Write as _;

use fairmesh_engine::record::RunRecord;
use fairmesh_scenario::{Scenario, draft_from_toml};

use super::against::{Compared, MeasureSummary, Optima, goodput_bps, over_runs};
use super::families::{Family, Times, network};
use fairmesh_lab::Store;
use fairmesh_lab::{Estimate, LabError, Pool};

/// Time from a flood's start to the measurement of its effect, in s.
///
/// The flood has been detected by then.
const DETECTION_WAIT_S: u32 = 20;
/// Fraction of its optimum below which a home starves.
const STARVATION_FRACTION: f64 = 0.1;

/// Traffic that the flooding home sends.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Flood {
    /// A backlogged TCP flow, for comparison.
    Tcp,
    /// Datagrams at a constant rate, in kbit/s.
    Rate(u32),
    /// Datagrams at this multiple of its share.
    Times(u32),
}

impl core::fmt::Display for Flood {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Flood::Tcp => f.write_str("a TCP"),
            Flood::Rate(kbps) => write!(f, "{} Mbit/s", f64::from(*kbps) / 1e3),
            Flood::Times(times) => write!(f, "{times} times its share"),
        }
    }
}

impl Flood {
    /// Parses `tcp`, a rate in kbit/s such as `400`, or a multiple of the share such as `10x`.
    ///
    /// `None` for any other text.
    pub fn parse(text: &str) -> Option<Flood> {
        match text.strip_suffix('x') {
            _ if text == "tcp" => Some(Flood::Tcp),
            Some(times) => times.parse().ok().filter(|t| *t > 0).map(Flood::Times),
            None => text.parse().ok().filter(|r| *r > 0).map(Flood::Rate),
        }
    }
}

/// Returns a network of the families by its name, such as `chains-0`; `None` if unknown.
pub fn named_network(name: &str) -> Option<(Family, u32)> {
    let (family, number) = name.rsplit_once('-')?;
    let family = *Family::ALL.iter().find(|f| f.name() == family)?;
    number.parse().ok().filter(|n| *n < family.size()).map(|n| (family, n))
}

/// Controls, networks and floods of a study.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Controls, seeds and settings of the search for optima.
    pub runs: super::Settings,
    /// Networks: family and number.
    pub networks: Vec<(Family, u32)>,
    /// Floods, each in separate runs.
    pub floods: Vec<Flood>,
    /// Start of the flood, s; runs end at `end`.
    pub start: u32,
    /// End of runs, in s.
    pub end: u32,
}

/// Goodputs of the other homes in one network under one control.
///
/// Goodputs are means over seeds, intervals are over seeds.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// Index of the control, the network and the flood.
    pub control: usize,
    /// Index of the network.
    pub network: usize,
    /// Index of the flood.
    pub flood: usize,
    /// Smallest fraction of its optimum that another home has.
    pub worst: Estimate,
    /// Sum of the other homes' goodputs over that of their optima.
    pub sum: Estimate,
    /// Number of other homes with less than a tenth.
    pub starved: usize,
    /// Runs in which the flood was detected, and the longest detection time, s.
    pub named: (u32, f64),
    /// Flows of other homes that were wrongly detected, over all seeds.
    pub wrong: u32,
}

/// All outcomes.
#[derive(Clone, Debug)]
pub struct Study {
    /// Names of the controls in results.
    pub controls: Vec<String>,
    /// Names of the networks.
    pub networks: Vec<String>,
    /// By network, flood and control.
    pub outcomes: Vec<Outcome>,
    /// Number of runs.
    pub runs: usize,
    /// Hash of their fingerprints, in order.
    pub fingerprint: u64,
}

/// A row of a table: the results of a control for the other homes under one kind of flood.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Row {
    /// Networks.
    pub networks: usize,
    /// Fraction of the worst other home.
    pub worst: MeasureSummary,
    /// Sum of the other homes' goodputs over that of their optima.
    pub sum: MeasureSummary,
    /// Number of other homes that starve, in all networks.
    pub starved: usize,
    /// Fraction of the runs in which the flood was detected, and the longest detection time, s.
    pub named: (f64, f64),
    /// Flows of other homes that were wrongly detected.
    pub wrong: u32,
}

/// Returns one network with the traffic of one of its homes.
fn text(settings: &Settings, (family, number): (Family, u32)) -> Result<(String, u32), LabError> {
    let times = Times { duration_s: settings.end, warmup_s: settings.start + DETECTION_WAIT_S };
    let network = network(family, number, times)?;
    let scenario = network.scenario()?;
    // The home in the middle, with some homes before and some behind it.
    let mut homes: Vec<(u32, u32)> = scenario
        .subscribers()
        .list
        .iter()
        .filter_map(|s| s.flows().next())
        .map(|f| {
            let flow = &scenario.flows()[f];
            let wireless = |n: fairmesh_units::NodeId| n.index() < scenario.wireless().count();
            let home = if wireless(flow.from) { flow.from } else { flow.to };
            (flow.wireless_hops, home.0)
        })
        .collect();
    homes.sort_unstable();
    Ok((network.text, homes[homes.len() / 2].1))
}

/// Returns a network with a flood.
fn with(
    settings: &Settings,
    text: &str,
    home: u32,
    kbps: Option<u32>,
) -> Result<Scenario, LabError> {
    let mut text = text.to_owned();
    let _ = write!(text, "\n[[flow]]\nname = \"flood\"\nfrom = {home}\nto = \"server\"\n");
    if let Some(kbps) = kbps {
        let start = settings.start;
        let _ = write!(
            text,
            "start = \"{start} s\"\ntraffic = {{ kind = \"cbr\", rate = \"{kbps} kbit/s\" }}\n"
        );
    }
    Ok(draft_from_toml("floods.toml", &text)?.build()?)
}

/// Runs every control on every network with every flood.
///
/// # Errors
/// Returns an error if the engine or the search rejects a scenario, or if a control does not exist.
pub fn run(settings: &Settings, cache: Option<&Store>, pool: &Pool<'_>) -> Result<Study, LabError> {
    let texts: Vec<(String, u32)> =
        settings.networks.iter().map(|&n| text(settings, n)).collect::<Result<_, _>>()?;
    let shared: Vec<Scenario> = texts
        .iter()
        .map(|(text, home)| with(settings, text, *home, None))
        .collect::<Result<_, _>>()?;
    let optima = Optima::of(&shared, &settings.runs.search, cache, pool)?;
    let best: Vec<Vec<f64>> = optima.list.iter().map(|o| o.rates_bps()).collect();
    let mut flooded = Vec::new();
    for (n, (text, home)) in texts.iter().enumerate() {
        for flood in &settings.floods {
            let share = best[n].last().copied().unwrap_or(0.0);
            flooded.push(match *flood {
                Flood::Tcp => shared[n].clone(),
                Flood::Rate(kbps) => with(settings, text, *home, Some(kbps))?,
                Flood::Times(times) => {
                    let kbps = (f64::from(times) * share / 1e3).ceil() as u32;
                    with(settings, text, *home, Some(kbps.max(1)))?
                }
            });
        }
    }
    let compared = Compared::run(&flooded, &settings.runs, optima, true, pool)?;
    let floods = settings.floods.len();
    let outcomes = compared.arms().map(|(scenario, control, records)| {
        let (network, flood) = (scenario / floods, scenario % floods);
        let (worst, sum, starved) = others(&shared[network], &best[network], records);
        let (named, wrong) = named(&shared[network], records, settings.start);
        Outcome { control, network, flood, worst, sum, starved, named, wrong }
    });
    Ok(Study {
        outcomes: outcomes.collect(),
        networks: shared.iter().map(|s| s.name().to_owned()).collect(),
        runs: compared.runs(),
        fingerprint: compared.fingerprint,
        controls: compared.controls,
    })
}

/// Returns the other homes' smallest fraction, their sum, and the number below a tenth.
fn others(scenario: &Scenario, best: &[f64], records: &[RunRecord]) -> (Estimate, Estimate, usize) {
    let flood = scenario.flows().len() - 1;
    let homes: Vec<Vec<usize>> =
        scenario.subscribers().list.iter().map(|s| s.flows().collect()).collect();
    let homes: Vec<Vec<usize>> = homes.into_iter().filter(|f| !f.contains(&flood)).collect();
    let of = |rates: &[f64], home: &[usize]| home.iter().map(|&f| rates[f]).sum::<f64>();
    let parts = |rates: &[f64]| -> Vec<f64> {
        let able = homes.iter().filter(|h| of(best, h) > 0.0);
        able.map(|h| of(rates, h) / of(best, h)).collect()
    };
    let worst = |rates: &[f64]| parts(rates).into_iter().reduce(f64::min).unwrap_or(0.0);
    let all = |rates: &[f64]| homes.iter().map(|h| of(rates, h)).sum::<f64>();
    let starved = parts(&goodput_bps(records)).iter().filter(|p| **p < STARVATION_FRACTION).count();
    (over_runs(records, worst), over_runs(records, |rates| all(rates) / all(best)), starved)
}

/// Returns the number of runs with a detected flood, the longest detection time and errors.
///
/// Errors are flows of other homes that were detected.
fn named(scenario: &Scenario, records: &[RunRecord], start: u32) -> ((u32, f64), u32) {
    let flood = scenario.flows().len() - 1;
    let own = scenario.subscribers().list.iter().find(|s| s.flows().any(|f| f == flood));
    // A gateway names a home's direction; another node names a flow.
    let names: Vec<String> = match own {
        Some(home) => ["up", "down"].map(|d| format!("flow {} ({d}) ", home.name)).into(),
        None => vec![format!("flow {} ", scenario.flows()[flood].name)],
    };
    let (mut runs, mut longest, mut wrong) = (0, 0.0_f64, 0);
    for record in records {
        let detections = record.decisions.iter().filter(|d| d.code == "rtt.flood");
        let detections = detections.map(|d| (d.reason.as_str(), d.time_s - f64::from(start)));
        let (right, others): (Vec<_>, Vec<_>) =
            detections.partition(|(reason, _)| names.iter().any(|n| reason.starts_with(n)));
        wrong += others.len() as u32;
        if let Some((_, after)) = right.first() {
            runs += 1;
            longest = longest.max(*after);
        }
    }
    ((runs, longest), wrong)
}

impl Study {
    /// Summarises a control's results under one kind of flood; `None` if there are no networks.
    pub fn row(&self, flood: usize, control: usize, seeds: u32) -> Option<Row> {
        let of = |o: &&Outcome| o.control == control && o.flood == flood;
        let own: Vec<&Outcome> = self.outcomes.iter().filter(of).collect();
        let networks = own.len();
        let mean =
            |of: &dyn Fn(&Outcome) -> f64| own.iter().map(|o| of(o)).sum::<f64>() / networks as f64;
        Some(Row {
            networks,
            worst: MeasureSummary::of(own.iter().map(|o| o.worst))?,
            sum: MeasureSummary::of(own.iter().map(|o| o.sum))?,
            starved: own.iter().map(|o| o.starved).sum(),
            named: (
                mean(&|o| f64::from(o.named.0)) / f64::from(seeds),
                own.iter().map(|o| o.named.1).fold(0.0, f64::max),
            ),
            wrong: own.iter().map(|o| o.wrong).sum(),
        })
    }

    /// Returns one line per network, flood and control, as comma-separated values.
    pub fn csv(&self, floods: &[Flood]) -> String {
        let mut out = "network,flood,control,worst_of_optimum,sum_of_optimum,starved,named,\
                       named_after_s,named_wrongly\n"
            .to_owned();
        for o in &self.outcomes {
            let _ = writeln!(
                out,
                "{},{},{},{:.3},{:.3},{},{},{:.1},{}",
                self.networks[o.network],
                floods[o.flood],
                self.controls[o.control],
                o.worst.mean,
                o.sum.mean,
                o.starved,
                o.named.0,
                o.named.1,
                o.wrong
            );
        }
        out
    }
}
