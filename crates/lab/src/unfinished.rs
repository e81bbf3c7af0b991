//! Runs of a batch that was broken off, for whoever starts it again.
//!
//! A file per run, believed only by the very program that made it; what another one left is removed. When the
//! batch is through, its files go.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use fairmesh_engine::RunOptions;
use fairmesh_engine::record::RunRecord;
use fairmesh_scenario::Scenario;

use crate::LabError;
use crate::files::folder::write_file;
use crate::hash::Hash;

/// No kept run is larger, bytes.
const MAX_BYTES: u64 = 256 << 20;

/// A folder of runs that are through, of batches that are not.
#[derive(Debug)]
pub struct Unfinished {
    folder: PathBuf,
    program: String,
    used: Mutex<Vec<PathBuf>>,
}

impl Unfinished {
    /// In this folder, of the program that is running: of its file to the last byte, as any change in it
    /// may change its runs. What another program left there is removed. `None` where the folder or the
    /// file cannot be used: nothing is kept then.
    pub fn of_this_program(folder: &Path) -> Option<Self> {
        // Linux knows its own even where a newer one took its name.
        let itself = fs::read("/proc/self/exe").or_else(|_| fs::read(std::env::current_exe()?));
        Self::open(folder, &Hash::of_bytes(&itself.ok()?))
    }

    fn open(folder: &Path, program: &str) -> Option<Self> {
        fs::create_dir_all(folder).ok()?;
        for entry in fs::read_dir(folder).ok()?.flatten() {
            let old = entry.file_name();
            let old = old.to_string_lossy();
            // And what it was writing when it was killed.
            let of_runs = old.ends_with(".run") || old.contains(".run.part-");
            if of_runs && !old.trim_start_matches('.').starts_with(program) {
                fs::remove_file(entry.path()).ok()?;
            }
        }
        Some(Unfinished {
            folder: folder.to_owned(),
            program: program.to_owned(),
            used: Mutex::default(),
        })
    }

    /// The kept outcome of a run, or the one that `make` gives, which is then kept.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn or(
        &self,
        scenario: &Scenario,
        options: &RunOptions,
        make: impl FnOnce() -> Result<RunRecord, LabError>,
    ) -> Result<RunRecord, LabError> {
        let key = Hash::of(format_args!("{scenario:?} {options:?}"));
        let path = self.folder.join(format!("{}-{key}.run", self.program));
        let kept = read(&path);
        let record = match kept {
            Some(record) => record,
            None => {
                let record = make()?;
                if let Ok(text) = serde_json::to_vec(&record) {
                    // Whoever cannot keep it runs it again.
                    let _ = write_file(&path, &text);
                }
                record
            }
        };
        self.used.lock().unwrap_or_else(PoisonError::into_inner).push(path);
        Ok(record)
    }

    /// The batch is through: removes the runs that it made or took.
    pub fn finish(self) {
        for path in self.used.into_inner().unwrap_or_else(PoisonError::into_inner) {
            // Another batch that shares a run may have been first.
            let _ = fs::remove_file(path);
        }
    }
}

fn read(path: &Path) -> Option<RunRecord> {
    let mut text = Vec::new();
    File::open(path).ok()?.take(MAX_BYTES).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

#[cfg(test)]
mod tests {
    use fairmesh_scenario::draft_from_toml;

    use super::*;
    use crate::batch;

    const SHORT: &str = "name = \"short\"\nduration = \"2 s\"\n[topology]\nchain = { hops = 2 }\n[[flow]]\nfrom = 2\nto = 0\n";

    #[test]
    fn a_kept_run_is_the_run_and_only_its_own_program_believes_it() {
        let folder = tempfile::tempdir().unwrap();
        let open = |program| Unfinished::open(folder.path(), program).unwrap();
        let scenario = draft_from_toml("short.toml", SHORT).unwrap().build().unwrap();
        let options = RunOptions { seed: 3, ..RunOptions::default() };
        let made = std::cell::Cell::new(0);
        let make = || {
            made.set(made.get() + 1);
            batch::measured(&scenario, &options)
        };
        let first = open("a").or(&scenario, &options, make).unwrap();
        let again = open("a").or(&scenario, &options, make).unwrap();
        assert_eq!(made.get(), 1);
        let text = |r: &RunRecord| serde_json::to_string(r).unwrap();
        assert_eq!(text(&first), text(&again));
        let other = RunOptions { seed: 4, ..options };
        open("a").or(&scenario, &other, || batch::measured(&scenario, &other)).unwrap();
        open("b").or(&scenario, &options, make).unwrap();
        assert_eq!(made.get(), 2, "another program's runs are not believed");
        // Cut off: as good as none. Through: gone.
        let kept = || {
            let all = fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().path());
            all.filter(|p| p.extension().is_some_and(|e| e == "run")).collect::<Vec<_>>()
        };
        assert_eq!(kept().len(), 1);
        fs::write(&kept()[0], &text(&first)[..100]).unwrap();
        let mended = open("b");
        mended.or(&scenario, &options, make).unwrap();
        assert_eq!(made.get(), 3);
        mended.finish();
        assert!(kept().is_empty());
    }
}
