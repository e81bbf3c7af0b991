//! Controls of the gateway, on families of networks and under floods.

use crate::study::families::{self, Family};
use crate::study::floods::{self, Flood};
use fairmesh_lab::Store;
use fairmesh_lab::{Estimate, LabError, Pool};

use super::{Found, row_of, seconds, settings_of, times_of, words};
use crate::reproduce::plan::Plan;
use crate::reproduce::record::Record;

/// Returns a family by its name.
fn family(plan: &Plan, name: &str) -> Result<Family, LabError> {
    Family::ALL.into_iter().find(|f| f.name() == name).ok_or_else(|| {
        let names = Family::ALL.map(Family::name).join(", ");
        let problem = format!("set.families: found \"{name}\"; expected some of {names}");
        LabError::run(&plan.entry.id, problem)
    })
}

/// Runs controls of the gateway on families of networks: rows by family and control.
///
/// Settings: `controls` and `families`, their names; `duration` and `warmup` of each run, s.
pub(super) fn gateway_families(
    plan: &Plan,
    cache: Option<&Store>,
    pool: &Pool<'_>,
) -> Result<Found, LabError> {
    let times = times_of(plan)?;
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

/// Measures the cost of floods to other homes under controls of the gateway.
///
/// Rows are by flood and control. Settings: `controls`; `networks`, names in the families;
/// `floods`, each `tcp`, a rate in kbit/s, or a multiple of the share; `start` and `end` of the
/// flood, s. A number of networks (`--networks`) selects the first of them.
pub(super) fn gateway_floods(
    plan: &Plan,
    cache: Option<&Store>,
    pool: &Pool<'_>,
) -> Result<Found, LabError> {
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
