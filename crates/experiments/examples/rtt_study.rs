//! Compares variants of `rtt` on networks of the families with each optimum.
//!
//! Arguments: `rtt_study NETWORKS SECONDS SEEDS FOLDER CONTROL...`, such as
//! `rtt_study random:80-95,trees:0-3 160 2 /tmp/optima rtt rtt@gain=0.03 pfrc+bursts`. A control after `@` has other
//! constants. Three eighths of the time are not measured. The folder keeps the optima. Networks of the family
//! `evenings` are compared with the rates that are due to their homes, since pages have pauses, and their sums with that
//! of `source`.

use std::collections::BTreeMap;
use std::path::Path;

use fairmesh_control::{Registry, rtt_with};
use fairmesh_engine::RunOptions;
use fairmesh_engine::record::RunRecord;
use fairmesh_experiments::study::families::{Family, Times, network};
use fairmesh_lab::changes::with_controls;
use fairmesh_lab::optimum::{Settings, SharingUnit, find, unobserved};
use fairmesh_scenario::Scenario;
use rayon::prelude::*;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Simulation events of a search for an optimum: a fifth of the usual.
const EVENTS: u64 = 400_000_000;

/// Results of a control on one network.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    family: Family,
    worst: f64,
    sum: f64,
    jain: f64,
    delay_s: f64,
}

/// Rates by home, in bit/s.
fn by_home(scenario: &Scenario, record: &RunRecord) -> Vec<f64> {
    let rate = |flow: &usize| record.flows[*flow].goodput_bps;
    let homes = SharingUnit::usual(scenario).groups(scenario);
    homes.iter().map(|home| home.flows.iter().map(rate).sum()).collect()
}

/// Searches the optimum by home in bit/s, or reads it from the folder.
fn optimum(scenario: &Scenario, folder: &Path) -> Result<Vec<f64>, Error> {
    let file = folder.join(format!("{}.json", scenario.name()));
    if let Ok(text) = std::fs::read_to_string(&file) {
        return Ok(serde_json::from_str(&text)?);
    }
    let homes = SharingUnit::usual(scenario).groups(scenario);
    let settings = Settings { most_events: EVENTS, ..Settings::default() };
    let rates = find(scenario, &homes, &settings, &unobserved)?.rates_bps();
    let best: Vec<f64> =
        homes.iter().map(|home| home.flows.iter().map(|&flow| rates[flow]).sum()).collect();
    std::fs::write(file, serde_json::to_string(&best)?)?;
    Ok(best)
}

fn runs(scenario: &Scenario, control: &str, seeds: u64) -> Result<Vec<RunRecord>, Error> {
    let mut registry = Registry::standard();
    let mut name = control.to_owned();
    if let Some((known, changes)) = control.split_once('@') {
        let change = |c: &'_ str| -> Result<(String, f64), Error> {
            let (name, value) = c.split_once('=').ok_or("expected CONSTANT=VALUE")?;
            Ok((name.to_owned(), value.parse()?))
        };
        let changes: Vec<_> = changes.split('+').map(change).collect::<Result<_, _>>()?;
        let changes: Vec<_> = changes.iter().map(|(name, value)| (&name[..], *value)).collect();
        registry.add(rtt_with("moved".to_owned(), &changes).ok_or("no such constant")?)?;
        name = known.replacen("rtt", "moved", 1);
    }
    let controlled = with_controls(scenario, &[name], &registry)?;
    (1..=seeds)
        .map(|seed| {
            let options = RunOptions { seed, ..RunOptions::default() };
            Ok(fairmesh_engine::run(&controlled[0], &options)?)
        })
        .collect()
}

/// Mean over the runs of a value by home.
fn mean(runs: &[RunRecord], value: impl Fn(&RunRecord) -> Vec<f64>) -> Vec<f64> {
    let mut sums = value(&runs[0]);
    for run in &runs[1..] {
        sums.iter_mut().zip(value(run)).for_each(|(sum, value)| *sum += value);
    }
    sums.iter().map(|sum| sum / runs.len() as f64).collect()
}

fn outcomes(
    (family, scenario): &(Family, Scenario),
    controls: &[String],
    seeds: u64,
    folder: &Path,
) -> Result<Vec<Outcome>, Error> {
    let evening = *family == Family::Evenings;
    let best = match evening {
        true => mean(&runs(scenario, "source", seeds)?, |run| by_home(scenario, run)),
        false => optimum(scenario, folder)?,
    };
    let outcome = |control: &String| {
        let runs = runs(scenario, control, seeds)?;
        let rates = mean(&runs, |run| by_home(scenario, run));
        let parts = match evening {
            true => mean(&runs, |run| {
                let (rates, due) = run.sharers();
                rates.iter().zip(due.unwrap_or_default()).map(|(rate, due)| rate / due).collect()
            }),
            false => rates
                .iter()
                .zip(&best)
                .filter(|(_, best)| **best > 0.0)
                .map(|(r, b)| r / b)
                .collect(),
        };
        let mut delays: Vec<f64> =
            runs.iter().flat_map(|run| &run.flows).map(|f| f.delay_s.p50).collect();
        delays.sort_by(f64::total_cmp);
        Ok(Outcome {
            family: *family,
            worst: parts.iter().copied().fold(f64::INFINITY, f64::min),
            sum: rates.iter().sum::<f64>() / best.iter().sum::<f64>(),
            jain: fairmesh_engine::measures::jain(&parts),
            delay_s: delays[delays.len() / 2],
        })
    };
    controls.iter().map(outcome).collect()
}

/// Networks from a list such as `random:80-95+97,trees:0`.
fn networks(list: &str, times: Times) -> Result<Vec<(Family, Scenario)>, Error> {
    let mut networks = Vec::new();
    for part in list.split(',') {
        let (family, ranges) = part.split_once(':').ok_or("expected FAMILY:NUMBERS")?;
        let family = *Family::ALL.iter().find(|f| f.name() == family).ok_or("no such family")?;
        for range in ranges.split('+') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            for number in first.parse()?..=last.parse()? {
                networks.push((family, network(family, number, times)?.scenario()?));
            }
        }
    }
    Ok(networks)
}

fn row(family: &str, control: &str, own: &[Outcome]) {
    let mean = |of: fn(&Outcome) -> f64| own.iter().map(of).sum::<f64>() / own.len() as f64;
    let least = own.iter().map(|o| o.worst).fold(f64::INFINITY, f64::min);
    let below = own.iter().filter(|o| o.worst < 0.75).count();
    println!(
        "| {family} | {} | {control} | {:.3} | {least:.2} | {below} | {:.3} | {:.3} | {:.2} |",
        own.len(),
        mean(|o| o.worst),
        mean(|o| o.sum),
        mean(|o| o.jain),
        mean(|o| o.delay_s.max(1e-3).ln()).exp()
    );
}

fn main() -> Result<(), Error> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let [list, seconds, seeds, folder, controls @ ..] = &given[..] else {
        return Err("expected: rtt_study NETWORKS SECONDS SEEDS FOLDER CONTROL..., such as \
                    rtt_study random:80-95 160 2 /tmp/optima rtt rtt@gain=0.03"
            .into());
    };
    let (duration_s, seeds) = (seconds.parse::<u32>()?, seeds.parse::<u64>()?);
    if controls.is_empty() || seeds == 0 {
        return Err("expected at least one control and one seed".into());
    }
    let networks = networks(list, Times { duration_s, warmup_s: duration_s * 3 / 8 })?;
    let folder = Path::new(folder);
    std::fs::create_dir_all(folder)?;
    let all: Vec<Vec<Outcome>> = networks
        .par_iter()
        .map(|network| outcomes(network, controls, seeds, folder))
        .collect::<Result<_, _>>()?;
    println!("| network | homes' worst, sum, Jain by control |\n|---|---|");
    for ((_, scenario), outcomes) in networks.iter().zip(&all) {
        let cell = |o: &Outcome| format!("{:.2}, {:.2}, {:.3}", o.worst, o.sum, o.jain);
        let cells: Vec<String> = outcomes.iter().map(cell).collect();
        println!("| {} | {} |", scenario.name(), cells.join(" | "));
    }
    println!(
        "\n| family | networks | control | worst | least | below .75 | sum | Jain | delay, s |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let mut families: BTreeMap<&str, Vec<&Vec<Outcome>>> = BTreeMap::new();
    for outcomes in &all {
        families.entry(outcomes[0].family.name()).or_default().push(outcomes);
    }
    for (family, own) in families {
        for (k, control) in controls.iter().enumerate() {
            row(family, control, &own.iter().map(|o| o[k]).collect::<Vec<_>>());
        }
    }
    Ok(())
}
