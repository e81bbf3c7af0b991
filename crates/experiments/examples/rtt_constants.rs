//! Moves each constant of `rtt` by ±30 % and prints the change of the worst home.
//!
//! Arguments: `rtt_constants FAMILY FIRST END SECONDS [CONSTANT...]`, such as `rtt_constants random 70 76 120`. A third of
//! the time is not measured. Values are of the worst home over its analytic fair rate: the change of the mean over the
//! networks, the least of them, and the number of networks with other results at all.

use fairmesh_control::{Registry, rtt_constants, rtt_with};
use fairmesh_engine::RunOptions;
use fairmesh_experiments::study::families::{Family, Times, network};
use fairmesh_lab::changes::with_controls;
use fairmesh_scenario::Scenario;

const FACTORS: [f64; 2] = [0.7, 1.3];

/// Results of a control on all networks.
struct Row {
    worst: Vec<f64>,
    sum: f64,
    fingerprints: Vec<String>,
}

impl Row {
    fn mean(&self) -> f64 {
        self.worst.iter().sum::<f64>() / self.worst.len() as f64
    }
    fn least(&self) -> f64 {
        self.worst.iter().copied().fold(f64::INFINITY, f64::min)
    }
}

fn run(
    scenarios: &[Scenario],
    control: &str,
    registry: &Registry,
) -> Result<Row, Box<dyn std::error::Error>> {
    let mut row = Row { worst: Vec::new(), sum: 0.0, fingerprints: Vec::new() };
    for scenario in scenarios {
        let controlled = with_controls(scenario, &[control.to_owned()], registry)?;
        let record = fairmesh_engine::run(&controlled[0], &RunOptions::default())?;
        let (rates, fair) = record.sharers();
        let fair = fair.ok_or("a network without fair rates")?;
        let parts = rates.iter().zip(&fair).filter(|(_, fair)| **fair > 0.0);
        row.worst.push(parts.map(|(rate, fair)| rate / fair).fold(f64::INFINITY, f64::min));
        row.sum += rates.iter().sum::<f64>() / fair.iter().sum::<f64>();
        row.fingerprints.push(record.fingerprint);
    }
    Ok(row)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let [family, first, end, seconds, chosen @ ..] = &given[..] else {
        return Err(
            "expected: rtt_constants FAMILY FIRST END SECONDS [CONSTANT...], such as rtt_constants random 70 76 120"
                .into(),
        );
    };
    let family = *Family::ALL.iter().find(|f| f.name() == family).ok_or("no such family")?;
    let duration_s: u32 = seconds.parse()?;
    let times = Times { duration_s, warmup_s: duration_s / 3 };
    let scenarios = (first.parse()?..end.parse()?)
        .map(|number| network(family, number, times)?.scenario())
        .collect::<Result<Vec<_>, _>>()?;
    let mut constants = rtt_constants();
    if let Some(unknown) = chosen.iter().find(|c| constants.iter().all(|(name, _)| name != c)) {
        let names: Vec<&str> = constants.iter().map(|c| c.0).collect();
        return Err(
            format!("{unknown}: no such constant; expected one of {}", names.join(", ")).into()
        );
    }
    constants.retain(|(name, _)| chosen.is_empty() || chosen.iter().any(|c| c == name));
    let base = run(&scenarios, "rtt", &Registry::standard())?;
    println!("| constant | value | factor | worst, mean | least | sum | networks |");
    println!("|---|---|---|---|---|---|---|");
    println!("| as shipped | | 1 | {:.3} | {:.3} | 1.000 | |", base.mean(), base.least());
    for (name, value) in constants {
        for factor in FACTORS {
            let mut registry = Registry::standard();
            let moved = rtt_with("moved".to_owned(), &[(name, value * factor)])
                .ok_or("no such constant")?;
            registry.add(moved)?;
            let row = run(&scenarios, "moved", &registry)?;
            let changed = row.fingerprints.iter().zip(&base.fingerprints).filter(|(a, b)| a != b);
            println!(
                "| `{name}` | {value} | {factor} | {:+.3} | {:.3} | {:.3} | {} |",
                row.mean() - base.mean(),
                row.least(),
                row.sum / base.sum,
                changed.count()
            );
        }
    }
    Ok(())
}
