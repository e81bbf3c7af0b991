//! From the declaration to runs.

use std::fs;
use std::path::{Path, PathBuf};

use fairmesh_lab::LabError;
use fairmesh_lab::batch;
use fairmesh_lab::changes::{MapRadio, with_control};
use fairmesh_lab::source::{self, build};
use fairmesh_lab::{Changes, Pool};
use fairmesh_scenario::Scenario;
use include_dir::{Dir, include_dir};

use super::DECLARATION;
use super::arms::{Arm, arms};
use super::declare::{Declaration, LeaveOut, Map, time};
use super::topology::{Group, TopologyInfo};
use crate::reproduce::catalogue::Catalogue;

/// The scenarios as they were when the program was built.
static SCENARIOS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../scenarios");

/// What the command line chooses.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Map files.
    pub maps: Vec<PathBuf>,
    /// A quick look.
    pub quick: bool,
    /// Seeds instead of the declaration's.
    pub seeds: Option<u32>,
    /// Only these controls; all if there are none.
    pub controls: Vec<String>,
}

/// Everything that is run.
#[derive(Debug)]
pub struct Plan {
    /// The controls.
    pub arms: Vec<Arm>,
    /// The topologies; those that are not run have no scenario.
    pub topologies: Vec<(TopologyInfo, Option<Scenario>)>,
    /// Seeds 1 to this.
    pub seeds: u32,
    /// What is left out, and why.
    pub left_out: Vec<(String, String)>,
    /// What is not run on some topologies.
    pub somewhere: Vec<LeaveOut>,
}

/// What one seed of a control on a topology gave; `None` for a measure that has no value.
#[derive(Clone, Debug)]
pub struct Reading {
    /// Jain's index of goodput over fair rate.
    pub jain: f64,
    /// Smallest goodput over fair rate.
    pub least: f64,
    /// Σ goodput × hops over that of the fair rates.
    pub utilization: f64,
    /// Mean over flows of the mean one-way delay of their data, ms.
    pub delay_ms: Option<f64>,
    /// Bytes of signalling per second.
    pub bytes_per_s: f64,
    /// Its airtime, ms per second.
    pub airtime_ms: f64,
    /// The run's fingerprint.
    pub fingerprint: u64,
}

/// What a control did on a topology.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// It ran: one reading per seed.
    Ran(Vec<Reading>),
    /// It has no node to run at there, so it would be `fifo`.
    Idle,
    /// It refused, and why.
    Refused(String),
}

impl Plan {
    /// Builds every scenario.
    ///
    /// # Errors
    /// What is wrong with a scenario, a map or a control.
    pub fn of(
        catalogue: &Catalogue,
        declaration: &Declaration,
        choice: &Choice,
    ) -> Result<Self, LabError> {
        let mut topologies = Vec::new();
        for t in &declaration.topologies {
            if choice.quick && !declaration.quick.topologies.contains(&t.label) {
                continue;
            }
            let times = times(declaration, choice.quick, &t.duration, &t.warmup);
            let (path, text) = scenario(catalogue, &t.scenario)?;
            let args = Changes { duration: times.0, warmup: times.1, ..Default::default() };
            let scenario = build(&path, text.as_bytes(), &args)?;
            let group = Group::of(&scenario);
            topologies.push(described(&t.label, &t.paper, group, scenario));
        }
        for m in &declaration.maps {
            topologies.push(map(declaration, m, choice)?);
        }
        if let Some(unknown) = choice.maps.iter().find(|p| which(declaration, p).is_none()) {
            let known: Vec<&str> = declaration.maps.iter().map(|m| m.file.as_str()).collect();
            let problem = format!(
                "{} is none of the maps that are compared; expected a file called {}",
                unknown.display(),
                known.join(" or ")
            );
            return Err(LabError::setting("map", problem));
        }
        let mut arms = arms(declaration);
        if !choice.controls.is_empty() {
            let mut names = Vec::new();
            for c in &choice.controls {
                let m = fairmesh_control::Registry::standard()
                    .lookup(c)
                    .map_err(|e| LabError::setting("control", e))?;
                names.push(m.to_string());
            }
            arms.retain(|a| names.contains(&a.name));
        }
        let (everywhere, somewhere): (Vec<_>, Vec<_>) =
            declaration.leave_out.iter().cloned().partition(|l| l.on.is_empty());
        let left_out = everywhere
            .iter()
            .flat_map(|l| l.controls.iter().map(|c| (c.clone(), l.because.clone())))
            .collect();
        let wanted = if choice.quick { declaration.quick.seeds } else { declaration.seeds };
        Ok(Plan { arms, topologies, seeds: choice.seeds.unwrap_or(wanted), left_out, somewhere })
    }

    /// Runs everything. Outcomes by control, then topology; `None` where a topology is not run.
    ///
    /// # Errors
    /// An unknown control; a run that the engine refuses for another reason than its control.
    pub fn run(&self, pool: &Pool<'_>) -> Result<Vec<Vec<Option<Outcome>>>, LabError> {
        let mut outcomes: Vec<Vec<Option<Outcome>>> = Vec::new();
        let mut scenarios = Vec::new();
        for (a, arm) in self.arms.iter().enumerate() {
            let mut row = Vec::new();
            for (t, (_, scenario)) in self.topologies.iter().enumerate() {
                let Some(scenario) = scenario else {
                    row.push(None);
                    continue;
                };
                let left = |l: &&LeaveOut| {
                    l.on.contains(&self.topologies[t].0.label)
                        && l.controls.iter().any(|c| is(c, &arm.name))
                };
                if let Some(left) = self.somewhere.iter().find(left) {
                    row.push(Some(Outcome::Refused(left.because.clone())));
                    continue;
                }
                let scenario = with_control(scenario, &arm.name)?;
                let idle = arm.name != "fifo" && fairmesh_engine::controlled_nodes(&scenario) == 0;
                row.push(Some(if idle { Outcome::Idle } else { Outcome::Ran(Vec::new()) }));
                if !idle {
                    scenarios.push((a, t, scenario));
                }
            }
            outcomes.push(row);
        }
        // One seed of everything before the next: the long ones are spread over the whole time.
        let jobs: Vec<(usize, u64)> = (1..=u64::from(self.seeds))
            .flat_map(|seed| (0..scenarios.len()).map(move |i| (i, seed)))
            .collect();
        let done =
            batch::all(pool, "side by side", &jobs, |&(i, seed)| Ok(read(&scenarios[i].2, seed)))?;
        for (&(i, _), reading) in jobs.iter().zip(done) {
            let (a, t, _) = &scenarios[i];
            let outcome = &mut outcomes[*a][*t];
            match (outcome.as_mut(), reading) {
                (Some(Outcome::Ran(readings)), Ok(r)) => readings.push(r),
                (_, Err(why)) => *outcome = Some(Outcome::Refused(why)),
                _ => {}
            }
        }
        Ok(outcomes)
    }
}

/// Whether a name, as somebody writes it, is that of this control.
fn is(written: &str, name: &str) -> bool {
    fairmesh_control::Registry::standard().lookup(written).is_ok_and(|m| m.to_string() == name)
}

fn read(scenario: &Scenario, seed: u64) -> Result<Reading, String> {
    use fairmesh_engine::{RunOptions, measures};
    let run = fairmesh_engine::run(scenario, &RunOptions { seed, ..RunOptions::default() })
        .map_err(|e| e.to_string())?;
    let goodput: Vec<f64> = run.flows.iter().map(|f| f.goodput_bps).collect();
    let fair: Option<Vec<f64>> = run.flows.iter().map(|f| f.fair_bps).collect();
    let hops: Vec<u32> = run.flows.iter().map(|f| f.hops).collect();
    let (shared, fair_shared) = run.sharers();
    let (Some(fair), Some(fair_shared)) = (fair, fair_shared) else {
        return Err("the capacity model has no fair rates for it".to_owned());
    };
    let optimum = measures::utilization(&fair, &hops);
    let delays: Vec<f64> = run
        .flows
        .iter()
        .filter(|f| f.packets_delivered > 0)
        .map(|f| 1e3 * f.delay_s.mean)
        .collect();
    let signalling = &run.totals.signalling;
    Ok(Reading {
        jain: measures::jain_normalized(&shared, &fair_shared),
        least: measures::min_over_fair(&shared, &fair_shared),
        utilization: if optimum > 0.0 {
            measures::utilization(&goodput, &hops) / optimum
        } else {
            0.0
        },
        delay_ms: (!delays.is_empty()).then(|| delays.iter().sum::<f64>() / delays.len() as f64),
        bytes_per_s: signalling.bytes_per_s,
        airtime_ms: 1e3 * signalling.airtime_share,
        fingerprint: u64::from_str_radix(&run.fingerprint, 16).unwrap_or_default(),
    })
}

type Times = (Option<fairmesh_units::Span>, Option<fairmesh_units::Span>);

/// Duration and start of the measured interval.
fn times(declaration: &Declaration, quick: bool, duration: &str, warmup: &str) -> Times {
    // All of them were checked when the declaration was read.
    if quick {
        let all = time(&declaration.quick.duration).ok();
        let half = all.map(|d| fairmesh_units::Span::from_nanos(d.as_nanos() / 2));
        return (all, half);
    }
    (time(duration).ok(), time(warmup).ok())
}

fn described(
    label: &str,
    paper: &str,
    group: Group,
    scenario: Scenario,
) -> (TopologyInfo, Option<Scenario>) {
    let info = TopologyInfo {
        label: label.to_owned(),
        paper: paper.to_owned(),
        group,
        nodes: scenario.nodes().len(),
        flows: scenario.flows().len(),
        duration_s: scenario.duration().as_secs_f64(),
        warmup_s: scenario.warmup().as_secs_f64(),
        ran: true,
    };
    (info, Some(scenario))
}

/// A scenario's text: beside the folder of experiments, or as the program brings it along.
fn scenario(catalogue: &Catalogue, file: &str) -> Result<(PathBuf, String), LabError> {
    let missing = |path: &Path| {
        LabError::file(path, "there is no such file; expected a scenario of side-by-side.toml")
    };
    match catalogue {
        Catalogue::BuiltIn => {
            let path = Path::new("scenarios").join(file);
            let text = SCENARIOS.get_file(file).and_then(|f| f.contents_utf8());
            Ok((path.clone(), text.ok_or_else(|| missing(&path))?.to_owned()))
        }
        Catalogue::Folder(folder) => {
            let path = folder.join("../scenarios").join(file);
            let text = fs::read_to_string(&path).map_err(|_| missing(&path))?;
            Ok((path, text))
        }
    }
}

/// The declared map that a file is, by its name.
fn which<'a>(declaration: &'a Declaration, path: &Path) -> Option<&'a Map> {
    let name = path.file_name()?.to_string_lossy();
    declaration.maps.iter().find(|m| m.file == name)
}

fn map(
    declaration: &Declaration,
    m: &Map,
    choice: &Choice,
) -> Result<(TopologyInfo, Option<Scenario>), LabError> {
    let given =
        choice.maps.iter().find(|p| which(declaration, p).is_some_and(|w| w.label == m.label));
    let Some(path) = given else {
        let info = TopologyInfo {
            label: m.label.clone(),
            paper: "real maps".to_owned(),
            group: Group::Maps,
            nodes: 0,
            flows: 0,
            duration_s: 0.0,
            warmup_s: 0.0,
            ran: false,
        };
        return Ok((info, None));
    };
    let (duration, warmup) = times(declaration, choice.quick, &m.duration, &m.warmup);
    let phy = m.phy.parse().map_err(|e: String| LabError::file(DECLARATION, e))?;
    let args = Changes {
        duration,
        warmup,
        gateways: vec![m.gateway.clone()],
        flows: Some(m.flows.into()),
        radio: MapRadio { phy: Some(phy), ..MapRadio::default() },
        ..Default::default()
    };
    let scenario = source::load(path, &args)?.scenario;
    Ok(described(&m.label, "real maps", Group::Maps, scenario))
}
