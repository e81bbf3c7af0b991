//! Result folders and files that are complete or absent.
//!
//! A folder is filled under another name beside its final place and renamed when it is complete;
//! an interrupt (Ctrl-C) removes unfinished ones.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::{FileProblem, LabError};

/// File that marks a folder as a result of fairmesh.
pub const RESULTS_FILE: &str = "results.json";

/// Unfinished files and folders to remove on interrupt.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn unfinished() -> std::sync::MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn remove(path: &Path) {
    // Best effort: errors cannot be reported here, and the name identifies it.
    let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
}

/// Removes all unfinished files and folders; called by the interrupt handler.
pub fn remove_unfinished() {
    for path in unfinished().drain(..) {
        remove(&path);
    }
}

/// A file or folder being written beside its final place.
///
/// It is removed if it is dropped before it is finished.
#[derive(Debug)]
struct Pending {
    target: PathBuf,
    temporary: PathBuf,
    /// Parent folders that did not exist before, outermost first.
    created: Vec<PathBuf>,
    done: bool,
}

impl Pending {
    /// Creates the parent folders; the caller creates `temporary`.
    fn new(target: &Path) -> Result<Self, LabError> {
        let name = target.file_name().ok_or_else(|| LabError::at(target, FileProblem::NoName))?;
        let parent = match target.parent() {
            Some(p) if !p.as_os_str().is_empty() => p.to_owned(),
            _ => PathBuf::from("."),
        };
        let missing: Vec<PathBuf> = parent
            .ancestors()
            .take_while(|p| !p.as_os_str().is_empty() && !p.exists())
            .map(Path::to_owned)
            .collect();
        let mut created = Vec::new();
        for dir in missing.iter().rev() {
            match fs::create_dir(dir) {
                Ok(()) => created.push(dir.clone()),
                // Another file for the same folder created it first.
                Err(_) if dir.is_dir() => {}
                Err(e) => {
                    remove_empty(&created);
                    return Err(cannot_write(target, e));
                }
            }
        }
        let temporary =
            parent.join(format!(".{}.part-{}", name.to_string_lossy(), std::process::id()));
        Ok(Pending { target: target.to_owned(), temporary, created, done: false })
    }

    fn register(&self) {
        unfinished().push(self.temporary.clone());
    }

    fn forget(&self) {
        unfinished().retain(|p| p != &self.temporary);
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.forget();
        if !self.done {
            remove(&self.temporary);
            remove_empty(&self.created);
        }
    }
}

fn remove_empty(created: &[PathBuf]) {
    for dir in created.iter().rev() {
        let _ = fs::remove_dir(dir);
    }
}

fn cannot_write(path: &Path, e: io::Error) -> LabError {
    LabError::at(path, FileProblem::Unwritable(e))
}

/// Builds the error of a folder that cannot be listed.
pub(crate) fn unreadable(folder: &Path, error: io::Error) -> LabError {
    LabError::at(folder, FileProblem::Unreadable { error, expected: "a folder for results" })
}

/// A result folder being filled.
#[derive(Debug)]
pub struct ResultFolder(Pending);

impl ResultFolder {
    /// Claims `target`, before any simulation: a new folder, an empty one, or an earlier result.
    ///
    /// # Errors
    /// Returns an error if it cannot be written, or holds other content than a result of fairmesh.
    pub fn claim(target: &Path) -> Result<Self, LabError> {
        if target.exists() {
            if !target.is_dir() {
                return Err(LabError::at(
                    target,
                    FileProblem::File { expected: "a folder for results" },
                ));
            }
            if !is_ours(target)? {
                return Err(LabError::at(
                    target,
                    FileProblem::OtherContent { lacks: "not a result of fairmesh" },
                ));
            }
        }
        let pending = Pending::new(target)?;
        fs::create_dir(&pending.temporary).map_err(|e| cannot_write(target, e))?;
        pending.register();
        Ok(ResultFolder(pending))
    }

    /// Writes one file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<(), LabError> {
        let path = self.0.temporary.join(name);
        fs::write(&path, content).map_err(|e| cannot_write(&self.0.target.join(name), e))
    }

    /// Moves the folder to its place, replacing an earlier result.
    ///
    /// # Errors
    /// Returns an error if it cannot be renamed; an earlier result is then still there.
    pub fn finish(mut self) -> Result<(), LabError> {
        let p = &mut self.0;
        let old = p.temporary.with_extension("old");
        let replaces = p.target.exists();
        if replaces {
            fs::rename(&p.target, &old).map_err(|e| cannot_write(&p.target, e))?;
        }
        if let Err(e) = fs::rename(&p.temporary, &p.target) {
            if replaces {
                let _ = fs::rename(&old, &p.target);
            }
            return Err(cannot_write(&p.target, e));
        }
        p.done = true;
        if replaces {
            remove(&old);
        }
        Ok(())
    }
}

/// Returns true if `folder` may be replaced: empty, or marked by an earlier result.
fn is_ours(folder: &Path) -> Result<bool, LabError> {
    let mut entries = fs::read_dir(folder).map_err(|error| unreadable(folder, error))?;
    if entries.next().is_none() {
        return Ok(true);
    }
    let Ok(text) = fs::read_to_string(folder.join(RESULTS_FILE)) else { return Ok(false) };
    let mark = serde_json::from_str::<serde_json::Value>(&text).ok();
    let generator = mark.as_ref().and_then(|v| v["generator"].as_str());
    Ok(generator.is_some_and(|g| g.starts_with("fairmesh ")))
}

/// A single file being written.
#[derive(Debug)]
pub struct PendingFile(Pending);

impl PendingFile {
    /// Creates the file as [`create`](Self::create), in a folder that must exist already.
    ///
    /// # Errors
    /// Returns an error if the folder does not exist, or the file cannot be created.
    pub fn beside(target: &Path) -> Result<(Self, fs::File), LabError> {
        if let Some(parent) = target.parent().filter(|p| !p.as_os_str().is_empty()) {
            existing(parent)?;
        }
        Self::create(target)
    }

    /// Creates the file and the folders above it under its temporary name, before any simulation.
    ///
    /// # Errors
    /// Returns an error if it cannot be created, or `target` is a folder.
    pub fn create(target: &Path) -> Result<(Self, fs::File), LabError> {
        if target.is_dir() {
            return Err(LabError::at(
                target,
                FileProblem::Folder { expected: "the name of a file" },
            ));
        }
        let pending = Pending::new(target)?;
        let file = fs::File::create(&pending.temporary).map_err(|e| cannot_write(target, e))?;
        pending.register();
        Ok((PendingFile(pending), file))
    }

    /// Moves the file to its place.
    ///
    /// # Errors
    /// Returns an error if it cannot be renamed.
    pub fn finish(mut self) -> Result<(), LabError> {
        fs::rename(&self.0.temporary, &self.0.target)
            .map_err(|e| cannot_write(&self.0.target, e))?;
        self.0.done = true;
        Ok(())
    }
}

/// Rejects a folder that does not exist.
///
/// # Errors
/// Returns an error if it does not exist, or is a file.
pub fn existing(folder: &Path) -> Result<(), LabError> {
    match (folder.is_dir(), folder.exists()) {
        (true, _) => Ok(()),
        (_, true) => {
            Err(LabError::at(folder, FileProblem::File { expected: "an existing folder" }))
        }
        _ => Err(LabError::at(folder, FileProblem::NoFolder)),
    }
}

/// Replaces the file `target` by `content` in one step.
///
/// # Errors
/// Returns an error if it cannot be written; the earlier content is then unchanged.
pub fn write_file(target: &Path, content: &[u8]) -> Result<(), LabError> {
    let (pending, mut file) = PendingFile::create(target)?;
    file.write_all(content).and_then(|()| file.sync_all()).map_err(|e| cannot_write(target, e))?;
    pending.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: &[u8] = br#"{"generator":"fairmesh 0.0.0"}"#;

    #[test]
    fn appears_when_finished_and_not_before() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("a/b/result");
        let f = ResultFolder::claim(&target).unwrap();
        f.write(RESULTS_FILE, OURS).unwrap();
        assert!(!target.exists());
        f.finish().unwrap();
        assert!(target.join(RESULTS_FILE).exists());
        assert_eq!(fs::read_dir(dir.path().join("a/b")).unwrap().count(), 1);
    }

    #[test]
    fn leaves_nothing_when_abandoned() {
        let dir = tempfile::tempdir().unwrap();
        drop(ResultFolder::claim(&dir.path().join("a/b/result")).unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn replaces_its_own_and_refuses_others() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("result");
        for round in ["one", "two"] {
            let f = ResultFolder::claim(&target).unwrap();
            f.write(RESULTS_FILE, OURS).unwrap();
            f.write(round, b"").unwrap();
            f.finish().unwrap();
        }
        assert!(target.join("two").exists() && !target.join("one").exists());
        fs::write(target.join(RESULTS_FILE), "{}").unwrap();
        let e = ResultFolder::claim(&target).unwrap_err();
        assert!(e.to_string().contains("not a result of fairmesh"), "{e}");
        assert!(target.join("two").exists());
    }

    #[test]
    fn an_unwritable_place_is_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(ResultFolder::claim(&file).is_err());
        let e = ResultFolder::claim(&file.join("x/y")).unwrap_err();
        assert!(e.to_string().contains("cannot be written"), "{e}");
        assert!(PendingFile::create(dir.path()).is_err());
    }

    #[test]
    fn a_file_is_replaced_in_one_step() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("new/x.json");
        write_file(&target, b"1").unwrap();
        write_file(&target, b"2").unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"2");
        assert_eq!(fs::read_dir(dir.path().join("new")).unwrap().count(), 1);
    }

    #[test]
    fn a_file_beside_others_makes_no_folder() {
        let dir = tempfile::tempdir().unwrap();
        let e = PendingFile::beside(&dir.path().join("new/x.pcap")).unwrap_err().to_string();
        assert!(e.ends_with("new: is not there; expected an existing folder"), "{e}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        PendingFile::beside(&dir.path().join("x.pcap")).unwrap().0.finish().unwrap();
        assert!(existing(&dir.path().join("x.pcap")).is_err());
        existing(dir.path()).unwrap();
    }

    #[test]
    fn several_files_may_need_the_same_new_folder() {
        let dir = tempfile::tempdir().unwrap();
        for round in 0..50 {
            let folder = dir.path().join(round.to_string());
            std::thread::scope(|threads| {
                for file in ["a", "b", "c", "d"] {
                    let target = folder.join(file);
                    threads.spawn(move || write_file(&target, b"x").unwrap());
                }
            });
            assert_eq!(fs::read_dir(&folder).unwrap().count(), 4);
        }
    }
}
