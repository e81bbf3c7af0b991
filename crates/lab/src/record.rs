//! Records of runs, written and read back.
//!
//! `run --json` prints one record; a result folder's `results.json` has those of every run,
//! without their curves. Both name the version of their layout and the program that wrote them, and
//! only a record of this version is accepted: another may give the same key another meaning.

use std::fs;
use std::path::Path;

pub use fairmesh_engine::record::*;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::files::folder::RESULTS_FILE;
use crate::layout::{GENERATOR, SCHEMA};
use crate::{FileProblem, LabError};

/// Reads the record of one run.
///
/// # Errors
/// If the file cannot be read, is not a record, or is one of another schema or version.
pub fn read(path: &Path) -> Result<RunRecord, LabError> {
    parse(path, open(path)?)
}

/// Reads the records of a result folder, or of its `results.json`.
/// Returns one list per control, in the order of the comparison, one record per seed. Their curves are in
/// `series.parquet`.
///
/// # Errors
/// If the file cannot be read, is not a result, or is one of another schema or version.
pub fn read_results(path: &Path) -> Result<Vec<Vec<RunRecord>>, LabError> {
    #[derive(Deserialize)]
    struct Runs {
        seeds: usize,
        runs: Vec<RunRecord>,
    }
    let path = if path.is_dir() { &path.join(RESULTS_FILE) } else { path };
    let Runs { seeds, runs } = parse(path, open(path)?)?;
    let n = runs.len();
    if seeds == 0 || n == 0 || n % seeds != 0 {
        return Err(LabError::at(
            path,
            FileProblem::Key {
                key: "runs".into(),
                found: n.to_string(),
                expected: format!("{seeds} for each control"),
            },
        ));
    }
    let mut runs = runs.into_iter();
    Ok((0..n / seeds).map(|_| runs.by_ref().take(seeds).collect()).collect())
}

fn open(path: &Path) -> Result<Value, LabError> {
    let expected = "a record of fairmesh";
    let bytes = fs::read(path)
        .map_err(|error| LabError::at(path, FileProblem::Unreadable { error, expected }))?;
    serde_json::from_slice(&bytes)
        .map_err(|error| LabError::at(path, FileProblem::NotJson { error, expected }))
}

/// Rejects content that this version did not write, and names the invalid key.
fn parse<T: DeserializeOwned>(path: &Path, value: Value) -> Result<T, LabError> {
    for (key, expected) in [("schema", Value::from(SCHEMA)), ("generator", GENERATOR.into())] {
        let found = &value[key];
        if *found != expected {
            let found = if found.is_null() { "nothing".to_owned() } else { found.to_string() };
            let (key, expected) = (key.to_owned(), expected.to_string());
            return Err(LabError::at(path, FileProblem::Key { key, found, expected }));
        }
    }
    serde_path_to_error::deserialize(value).map_err(|e| {
        let key = e.path().to_string();
        let key = if key == "." { String::new() } else { key };
        LabError::at(path, FileProblem::Value { key, error: e.into_inner() })
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::comparison::{Comparison, OneRun, ResultFile};
    use crate::testing::record;

    /// Returns a folder with one record in it, changed by `change`.
    fn kept(change: impl Fn(&mut Value)) -> (tempfile::TempDir, PathBuf) {
        let r = record("fifo", 7, &[(1e5 / 3.0, 2e5, 1), (0.1, 2e5, 3)]);
        let mut value = serde_json::to_value(OneRun::of(&r, &[])).unwrap();
        change(&mut value);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.json");
        fs::write(&path, value.to_string()).unwrap();
        (dir, path)
    }

    #[test]
    fn a_run_comes_back_to_the_last_bit() {
        let mut wanted = record("fifo", 7, &[(1e5 / 3.0, 2e5, 1), (0.1, 2e5, 3)]);
        let (_dir, path) = kept(|_| ());
        let found = read(&path).unwrap();
        let text = |r: &RunRecord| serde_json::to_string(r).unwrap();
        assert_eq!(text(&found), text(&wanted));
        assert_eq!(found.flows[0].goodput_bps.to_bits(), wanted.flows[0].goodput_bps.to_bits());
        wanted.seed = 8;
        assert_ne!(text(&found), text(&wanted));
    }

    #[test]
    fn results_come_back_by_control() {
        let records = ["fifo", "source"]
            .map(|c| (1..=3).map(|s| record(c, s, &[(s as f64 / 7.0, 2e5, 1)])).collect());
        let comparison = Comparison::of(&records);
        let file = ResultFile::new(&comparison, "fairmesh compare x", &records);
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(RESULTS_FILE), serde_json::to_vec(&file).unwrap()).unwrap();
        let back = read_results(dir.path()).unwrap();
        assert_eq!(back.iter().map(Vec::len).collect::<Vec<_>>(), [3, 3]);
        let again = Comparison::of(&back);
        let text = |c: &Comparison| serde_json::to_string(c).unwrap();
        assert_eq!(text(&again), text(&comparison));
    }

    #[test]
    fn another_schema_or_version_is_refused_in_a_line() {
        let refusal = |change: fn(&mut Value)| {
            let (_dir, path) = kept(change);
            let e = read(&path).unwrap_err().to_string();
            assert!(!e.contains('\n') && e.starts_with(&path.display().to_string()), "{e}");
            e.rsplit("run.json: ").next().unwrap().to_owned()
        };
        assert_eq!(refusal(|v| v["schema"] = 2.into()), "schema: found 2; expected 1");
        let old = refusal(|v| v["generator"] = "fairmesh 0.0.1".into());
        assert_eq!(old, format!("generator: found \"fairmesh 0.0.1\"; expected \"{GENERATOR}\""));
        let none = refusal(|v| {
            v.as_object_mut().unwrap().remove("schema");
        });
        assert_eq!(none, "schema: found nothing; expected 1");
        let wrong = refusal(|v| v["flows"][1]["hops"] = "three".into());
        assert!(wrong.starts_with("flows[1].hops: invalid type: string"), "{wrong}");
        let missing = refusal(|v| {
            v["flows"][0].as_object_mut().unwrap().remove("weight");
        });
        assert!(missing.starts_with("flows[0]: missing field `weight`"), "{missing}");
        assert!(missing.ends_with("expected a record of this version of fairmesh"), "{missing}");
    }

    #[test]
    fn files_without_a_record_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.json");
        assert!(read(&path).unwrap_err().to_string().contains("cannot be read"));
        fs::write(&path, "[1,").unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("is no JSON"));
        fs::write(&path, "[]").unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("schema: found nothing"));
    }
}
