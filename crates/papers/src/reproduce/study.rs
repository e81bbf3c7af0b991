//! Experiments that are more than runs of scenarios: their numbers come from code.

use fairmesh_lab::Estimate;
use fairmesh_lab::LabError;
use fairmesh_lab::Pool;
use fairmesh_lab::optimum::Cache;
use fairmesh_lab::study::Settings;
use fairmesh_lab::study::accuracy;
use fairmesh_lab::study::families::{self, Family};
use fairmesh_lab::study::floods::{self, Flood};
use fairmesh_lab::study::meshes::{self, Kind};
use fairmesh_lab::study::section;
use fairmesh_scenario::{Direction, ReceptionDraft};
use toml::Value as Setting;

use super::cells::Cell;
use super::neighbourhood;
use super::plan::Plan;
use super::record::Record;

/// The studies, by name.
pub const KNOWN: [&str; 7] = [
    "model-accuracy",
    "region-section",
    "neighbourhood-limits",
    "neighbourhood-sums",
    "gateway-families",
    "gateway-floods",
    "mesh-families",
];

/// What a study leaves behind.
#[derive(Debug)]
pub struct Found {
    /// The table.
    pub record: Record,
    /// What is more than a table: names of files, and their text.
    pub files: Vec<(String, String)>,
}

impl From<Record> for Found {
    fn from(record: Record) -> Self {
        Found { record, files: Vec::new() }
    }
}

/// Runs the study of a plan; `None` where it has none. Optima are taken from `cache` and kept there.
///
/// # Errors
/// An unknown study or setting; what the study refuses.
pub fn record(
    plan: &Plan,
    cache: Option<&Cache>,
    pool: &Pool<'_>,
) -> Result<Option<Found>, LabError> {
    let Some(name) = &plan.entry.experiment.study else { return Ok(None) };
    match name.as_str() {
        "model-accuracy" => model_accuracy(plan, pool).map(|r| Some(r.into())),
        "region-section" => region_section(plan, pool).map(|r| Some(r.into())),
        "neighbourhood-limits" => Ok(Some(of_numbers(plan, &neighbourhood::limits()).into())),
        "neighbourhood-sums" => Ok(Some(of_numbers(plan, &neighbourhood::sums()).into())),
        "gateway-families" => gateway_families(plan, cache, pool).map(Some),
        "gateway-floods" => gateway_floods(plan, cache, pool).map(Some),
        "mesh-families" => mesh_families(plan, cache, pool).map(Some),
        _ => {
            let problem = format!("there is no study \"{name}\"; expected {}", KNOWN.join(", "));
            Err(LabError::Run { scenario: plan.entry.id.clone(), problem })
        }
    }
}

/// A record of numbers that have a row and a column and no spread.
fn of_numbers(plan: &Plan, numbers: &[(String, &str, f64)]) -> Record {
    let mut hash = 0u64;
    let cells: Vec<Cell> = numbers
        .iter()
        .map(|(row, column, value)| {
            hash = (hash ^ value.to_bits()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            Cell {
                row: row.clone(),
                column: (*column).to_owned(),
                arm: String::new(),
                point: String::new(),
                line: String::new(),
                measure: 0,
                value: Estimate::counted(*value),
            }
        })
        .collect();
    Record::from_cells(plan, &cells, 0, format!("{hash:016x}"))
}

/// Fig. 2 of Rangwala 2008: rows by the rate of the first group's flows (`rates`, kbit/s), columns
/// by the model and by the simulator. `first` has the indices of these flows.
fn region_section(plan: &Plan, pool: &Pool<'_>) -> Result<Record, LabError> {
    let experiment = &plan.entry.experiment;
    let bad = |problem: String| LabError::Run { scenario: plan.entry.id.clone(), problem };
    let file = experiment.scenario.as_ref().ok_or_else(|| bad("it has no scenario".to_owned()))?;
    let (path, text) = plan.entry.scenario(file)?;
    let draft = fairmesh_scenario::draft_from_toml(&path.display().to_string(), &text)?;
    let numbers = |key: &str| -> Result<Vec<f64>, LabError> {
        let list = experiment.set.get(key).and_then(Setting::as_array);
        let number = |v: &Setting| v.as_float().or_else(|| v.as_integer().map(|i| i as f64));
        list.and_then(|l| l.iter().map(number).collect())
            .ok_or_else(|| bad(format!("set.{key}: expected a list of numbers")))
    };
    let group = numbers("first")?;
    let first: Vec<bool> = (0..draft.flow.len()).map(|f| group.contains(&(f as f64))).collect();
    let rates: Vec<f64> = numbers("rates")?.iter().map(|r| r * 1e3).collect();
    let mut cells = Vec::new();
    let mut hash = 0u64;
    let mut all: Vec<Vec<section::Point>> = Vec::new();
    for seed in 1..=plan.seeds() {
        all.push(section::run(&draft, &first, &rates, u64::from(seed), pool)?);
    }
    for (k, rate) in rates.iter().enumerate() {
        let simulated: Vec<f64> = all.iter().map(|s| s[k].simulated / 1e3).collect();
        let model = Estimate::counted(all[0][k].model / 1e3);
        for (column, value) in [("region", model), ("simulated", Estimate::of(&simulated))] {
            hash = (hash ^ value.mean.to_bits()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            cells.push(Cell {
                row: format!("{:.0}", rate / 1e3),
                column: column.to_owned(),
                arm: String::new(),
                point: String::new(),
                line: String::new(),
                measure: 0,
                value,
            });
        }
    }
    Ok(Record::from_cells(plan, &cells, 0, format!("{hash:016x}")))
}

/// `set.KEY` of the study's declaration: words.
fn words(plan: &Plan, key: &str) -> Result<Vec<String>, LabError> {
    let list = plan.entry.experiment.set.get(key).and_then(Setting::as_array);
    list.and_then(|l| l.iter().map(|v| v.as_str().map(str::to_owned)).collect()).ok_or_else(|| {
        LabError::run(&plan.entry.id, format!("set.{key}: expected a list of words"))
    })
}

/// `set.KEY` of the study's declaration: whole seconds.
fn seconds(plan: &Plan, key: &str) -> Result<u32, LabError> {
    let given = plan.entry.experiment.set.get(key).and_then(Setting::as_integer);
    given.and_then(|s| u32::try_from(s).ok()).ok_or_else(|| {
        LabError::run(&plan.entry.id, format!("set.{key}: expected a number of seconds"))
    })
}

/// Controls and seeds of a study against optima.
fn settings_of(plan: &Plan) -> Result<Settings, LabError> {
    let controls = words(plan, "controls")?;
    Ok(Settings { controls, seeds: plan.seeds(), search: Default::default() })
}

/// One row: a value for each measure that the declaration names, in its order.
fn row_of(plan: &Plan, label: &str, values: &[Estimate]) -> Result<Vec<Cell>, LabError> {
    let measures = &plan.entry.experiment.measures;
    if measures.len() != values.len() {
        let problem = format!("measure: expected {} of them", values.len());
        return Err(LabError::run(&plan.entry.id, problem));
    }
    let cell = |(measure, value): (usize, &Estimate)| Cell {
        row: label.to_owned(),
        column: measures[measure].label.clone(),
        arm: String::new(),
        point: String::new(),
        line: String::new(),
        measure,
        value: *value,
    };
    Ok(values.iter().enumerate().map(cell).collect())
}

/// A family by its name.
fn family(plan: &Plan, name: &str) -> Result<Family, LabError> {
    Family::ALL.into_iter().find(|f| f.name() == name).ok_or_else(|| {
        let names = Family::ALL.map(Family::name).join(", ");
        let problem = format!("set.families: found \"{name}\"; expected some of {names}");
        LabError::run(&plan.entry.id, problem)
    })
}

/// Controls of the gateway on families of networks: rows by family and control. `controls`: their names;
/// `families`: theirs; `duration`, `warmup`: of each run, s.
fn gateway_families(
    plan: &Plan,
    cache: Option<&Cache>,
    pool: &Pool<'_>,
) -> Result<Found, LabError> {
    let times = families::Times {
        duration_s: seconds(plan, "duration")?,
        warmup_s: seconds(plan, "warmup")?,
    };
    let families: Vec<Family> =
        words(plan, "families")?.iter().map(|name| family(plan, name)).collect::<Result<_, _>>()?;
    let networks =
        families::networks(&families, plan.extent.networks(&plan.entry.experiment), times)?;
    let settings = settings_of(plan)?;
    let study = families::run(&networks, &settings, cache, pool)?;
    let mut cells = Vec::new();
    let all = families.iter().map(|f| Some(*f)).chain([None]);
    for (family, control) in all.flat_map(|f| (0..study.controls.len()).map(move |c| (f, c))) {
        let Some(row) = study.row(&networks, family, control) else { continue };
        let label = format!("{}, {}", family.map_or("all", Family::name), study.controls[control]);
        let values = [
            Estimate::counted(row.networks as f64),
            row.worst.mean,
            row.worst.least,
            row.sum.mean,
            row.jain.mean,
            row.jain.least,
            Estimate::counted(row.starved as f64),
        ];
        cells.extend(row_of(plan, &label, &values)?);
    }
    let fingerprint = format!("{:016x}", study.fingerprint);
    let mut files = vec![("networks.csv".to_owned(), study.csv(&networks))];
    files.extend(networks.into_iter().map(|n| (format!("{}.toml", n.name), n.text)));
    Ok(Found { record: Record::from_cells(plan, &cells, study.runs, fingerprint), files })
}

/// Controls at every node on random meshes: rows by kind and control. `controls`;
/// `duration`, `warmup`: of each run, s. A number of networks takes so many, one of each kind in turn.
fn mesh_families(plan: &Plan, cache: Option<&Cache>, pool: &Pool<'_>) -> Result<Found, LabError> {
    let times = families::Times {
        duration_s: seconds(plan, "duration")?,
        warmup_s: seconds(plan, "warmup")?,
    };
    let all = meshes::REPORTED * Kind::ALL.len() as u32;
    let most = plan.extent.networks(&plan.entry.experiment).unwrap_or(all);
    let nets = meshes::meshes(0, most, times)?;
    let settings = settings_of(plan)?;
    let study = meshes::run(&nets, &settings, cache, pool)?;
    let mut cells = Vec::new();
    let kinds = Kind::ALL.iter().map(|k| Some(*k)).chain([None]);
    for (kind, control) in kinds.flat_map(|k| (0..study.controls.len()).map(move |c| (k, c))) {
        let Some(row) = study.row(&nets, kind, control) else { continue };
        let label = format!("{}, {}", kind.map_or("all", Kind::name), study.controls[control]);
        let values = [
            Estimate::counted(row.meshes as f64),
            row.worst.mean,
            row.worst.least,
            row.sum.mean,
            row.delay_s.scaled(1e3),
            row.signalling,
        ];
        cells.extend(row_of(plan, &label, &values)?);
    }
    let fingerprint = format!("{:016x}", study.fingerprint);
    let mut files = vec![("networks.csv".to_owned(), study.csv(&nets))];
    files.extend(nets.into_iter().map(|n| (format!("{}.toml", n.name), n.text)));
    Ok(Found { record: Record::from_cells(plan, &cells, study.runs, fingerprint), files })
}

/// What floods cost the others under controls of the gateway: rows by flood and control. `controls`;
/// `networks`: names in the families; `floods`: `tcp`, kbit/s, or times the share; `start` and `end` of
/// the flood, s. A number of networks (`--networks`) takes the first of them.
fn gateway_floods(plan: &Plan, cache: Option<&Cache>, pool: &Pool<'_>) -> Result<Found, LabError> {
    let experiment = &plan.entry.experiment;
    let bad = |problem: String| LabError::run(&plan.entry.id, problem);
    let network = |name: &String| {
        let text = format!("set.networks: \"{name}\" is none; expected such as \"chains-0\"");
        floods::named_network(name).ok_or_else(|| bad(text))
    };
    let flood = |text: &String| {
        let problem =
            format!("set.floods: found \"{text}\"; expected \"tcp\", kbit/s or such as \"10x\"");
        Flood::parse(text).ok_or_else(|| bad(problem))
    };
    let mut networks: Vec<_> =
        words(plan, "networks")?.iter().map(network).collect::<Result<_, _>>()?;
    if let Some(most) = plan.extent.networks(experiment) {
        networks.truncate(most as usize);
    }
    let settings = floods::Settings {
        runs: settings_of(plan)?,
        networks,
        floods: words(plan, "floods")?.iter().map(flood).collect::<Result<_, _>>()?,
        start: seconds(plan, "start")?,
        end: seconds(plan, "end")?,
    };
    let study = floods::run(&settings, cache, pool)?;
    let mut cells = Vec::new();
    let pairs =
        (0..settings.floods.len()).flat_map(|f| (0..study.controls.len()).map(move |c| (f, c)));
    for (f, c) in pairs {
        let Some(row) = study.row(f, c, settings.runs.seeds) else { continue };
        let label = format!("{}, {}", settings.floods[f], study.controls[c]);
        let values = [
            row.sum.mean,
            row.sum.least,
            row.worst.mean,
            Estimate::counted(row.starved as f64),
            Estimate::counted(row.named.0),
            Estimate::counted(row.named.1),
            Estimate::counted(f64::from(row.wrong)),
        ];
        cells.extend(row_of(plan, &label, &values)?);
    }
    let fingerprint = format!("{:016x}", study.fingerprint);
    let files = vec![("networks.csv".to_owned(), study.csv(&settings.floods))];
    Ok(Found { record: Record::from_cells(plan, &cells, study.runs, fingerprint), files })
}

/// Table 4.1 of Jamshaid 2010: rows by model and statistic, columns without and with RTS/CTS.
fn model_accuracy(plan: &Plan, pool: &Pool<'_>) -> Result<Record, LabError> {
    let experiment = &plan.entry.experiment;
    let bad = |problem: String| LabError::Run { scenario: plan.entry.id.clone(), problem };
    let word = |key: &str| experiment.set.get(key).and_then(Setting::as_str);
    let direction = match word("flows") {
        None | Some("up") => Direction::Up,
        Some("down") => Direction::Down,
        Some(other) => {
            return Err(bad(format!("set.flows: found \"{other}\"; expected up or down")));
        }
    };
    let reception = match word("reception") {
        None | Some("ns2") => ReceptionDraft::Ns2,
        Some("sinr") => ReceptionDraft::Sinr,
        Some(other) => {
            return Err(bad(format!("set.reception: found \"{other}\"; expected ns2 or sinr")));
        }
    };
    let topologies = plan.extent.networks(experiment).unwrap_or(50);
    let study = accuracy::run(
        accuracy::Settings {
            topologies,
            seeds: plan.seeds(),
            direction,
            reception,
            ..accuracy::Settings::default()
        },
        pool,
    )?;
    let mut cells = Vec::new();
    let mut hash = 0u64;
    let models = [("cliques", "cliques (Ocl)"), ("domains", "collision domains (Rcd)")];
    for (statistic, what) in ["mean error of ", "std. dev. of the error of "].iter().enumerate() {
        for (model, label) in models {
            for row in study.rows.iter().filter(|r| r.model == model) {
                let value = if statistic == 0 {
                    Estimate { mean: row.mean, ci95: row.ci95 }
                } else {
                    Estimate::exact(row.std)
                };
                hash = (hash ^ value.mean.to_bits()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                cells.push(Cell {
                    row: format!("{what}{label}"),
                    column: if row.rts { "with RTS/CTS" } else { "no RTS/CTS" }.to_owned(),
                    arm: String::new(),
                    point: String::new(),
                    line: String::new(),
                    measure: statistic,
                    value,
                });
            }
        }
    }
    Ok(Record::from_cells(plan, &cells, 0, format!("{hash:016x}")))
}
