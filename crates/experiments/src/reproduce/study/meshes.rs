//! Controls at every node, on random meshes.

use crate::study::meshes::{self, Kind};
use crate::study::newcomers;
use fairmesh_lab::Store;
use fairmesh_lab::{Estimate, LabError, Pool};

use super::{Found, row_of, settings_of, times_of, words};
use crate::reproduce::plan::Plan;
use crate::reproduce::record::Record;

/// Measures controls at every node on random meshes: rows by kind and control.
///
/// Settings: `controls`; `duration` and `warmup` of each run, s. A number of networks selects that
/// many, one of each kind in turn.
pub(super) fn mesh_families(
    plan: &Plan,
    cache: Option<&Store>,
    pool: &Pool<'_>,
) -> Result<Found, LabError> {
    let times = times_of(plan)?;
    let all = meshes::REPORTED_MESHES * Kind::ALL.len() as u32;
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

/// Number of the first random mesh of newcomers; no mechanism was tuned on these meshes.
const FIRST_MESH: u32 = 0;

/// Measures arriving and departing flows under controls at every node.
///
/// Rows are by network and control. The networks are the four topologies of Rangwala 2008 and
/// random meshes; the number of networks is that of the meshes. Setting: `controls`.
pub(super) fn mesh_newcomers(plan: &Plan, pool: &Pool<'_>) -> Result<Found, LabError> {
    let random = plan.extent.networks(&plan.entry.experiment).unwrap_or(0);
    let networks = newcomers::networks(FIRST_MESH, random)?;
    let study = newcomers::run(
        &networks,
        &words(plan, "controls")?,
        plan.seeds(),
        plan.entry.registry(),
        pool,
    )?;
    let mut cells = Vec::new();
    let all = (0..networks.len()).map(Some).chain([None]);
    for (network, control) in all.flat_map(|n| (0..study.controls.len()).map(move |c| (n, c))) {
        let Some(row) = study.row(network, control) else { continue };
        let name = network.map_or("all", |n| networks[n].name.as_str());
        let label = format!("{name}, {}", study.controls[control]);
        let values = [
            Estimate::counted(row.starved as f64),
            Estimate::counted(row.served),
            row.early_share,
            Estimate::counted(row.took_s),
            Estimate::counted(row.reused),
            row.freed,
        ];
        cells.extend(row_of(plan, &label, &values)?);
    }
    let fingerprint = format!("{:016x}", study.fingerprint);
    let files = vec![("runs.csv".to_owned(), study.csv(&networks))];
    Ok(Found { record: Record::from_cells(plan, &cells, study.runs, fingerprint), files })
}
