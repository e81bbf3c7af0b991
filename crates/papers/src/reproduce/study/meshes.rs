//! Controls at every node, on random meshes.

use fairmesh_lab::optimum::Cache;
use fairmesh_lab::study::families;
use fairmesh_lab::study::meshes::{self, Kind};
use fairmesh_lab::{Estimate, LabError, Pool};

use super::{Found, row_of, seconds, settings_of};
use crate::reproduce::plan::Plan;
use crate::reproduce::record::Record;

/// Controls at every node on random meshes: rows by kind and control. `controls`;
/// `duration`, `warmup`: of each run, s. A number of networks takes so many, one of each kind in turn.
pub(super) fn mesh_families(
    plan: &Plan,
    cache: Option<&Cache>,
    pool: &Pool<'_>,
) -> Result<Found, LabError> {
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
