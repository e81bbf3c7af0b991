//! Arguments of commands of several programs.

use std::path::{Path, PathBuf};

use clap::Args;
use fairmesh_lab::{LabError, OtherRevisions, Store, StoreError};

use crate::output::warn;

/// Distribution of runs over threads.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct ThreadArgs {
    /// Number of concurrent runs; all cores by default. Results do not depend on it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,
}

/// Treatment of stored results of another revision of the program.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct RevisionArgs {
    /// Remove all stored results of every revision first. Rejected while another process writes the store
    #[arg(long, conflicts_with = "keep")]
    pub fresh: bool,
    /// Keep stored results of another revision in place and use none of them; without --keep or
    /// --fresh, a store with such results is rejected
    #[arg(long)]
    pub keep: bool,
}

impl RevisionArgs {
    /// Returns the laboratory's form of the choice.
    pub fn others(self) -> OtherRevisions {
        match (self.fresh, self.keep) {
            (true, _) => OtherRevisions::Fresh,
            (_, true) => OtherRevisions::Keep,
            _ => OtherRevisions::Refuse,
        }
    }
}

/// Store of the runs of a command.
#[derive(Args, Clone, Debug, Default)]
pub struct StoreArgs {
    /// Store each run in this folder when it is complete, and take runs of earlier commands from
    /// there; several commands may use one folder at a time
    #[arg(long, value_name = "FOLDER")]
    pub store: Option<PathBuf>,
}

impl StoreArgs {
    /// Opens the store, if one is requested.
    ///
    /// # Errors
    /// A store that cannot be used.
    pub fn open(&self, revision: RevisionArgs) -> Result<Option<Store>, LabError> {
        let store = self.store.as_deref().map(|folder| open(folder, revision.others()));
        store.transpose()
    }
}

/// Store of optima.
#[derive(Args, Clone, Debug, Default)]
pub struct CacheArgs {
    /// Store optima in this folder, and take them from there; by default fairmesh in
    /// $XDG_CACHE_HOME or ~/.cache
    #[arg(long, value_name = "FOLDER")]
    pub cache: Option<PathBuf>,
    /// Search the optimum even if it is stored, and store nothing
    #[arg(long, conflicts_with = "cache")]
    pub no_cache: bool,
}

impl CacheArgs {
    /// Opens the store of optima.
    ///
    /// `None` with --no-cache, and if the default folder cannot be used. In the default folder,
    /// optima of other revisions stay unused unless --fresh removes them.
    ///
    /// # Errors
    /// A store that cannot be used, in a folder that the user names.
    pub fn open(&self, revision: RevisionArgs) -> Result<Option<Store>, LabError> {
        self.open_in(revision, None)
    }

    /// Opens the store of runs of incomplete experiments, below the same folder.
    ///
    /// # Errors
    /// As [`CacheArgs::open`].
    pub fn unfinished(&self, revision: RevisionArgs) -> Result<Option<Store>, LabError> {
        self.open_in(revision, Some("unfinished"))
    }

    fn open_in(
        &self,
        revision: RevisionArgs,
        below: Option<&str>,
    ) -> Result<Option<Store>, LabError> {
        let at = |folder: &Path| below.map_or(folder.to_owned(), |name| folder.join(name));
        if let Some(folder) = &self.cache {
            return open(&at(folder), revision.others()).map(Some);
        }
        let Some(folder) = self.usual() else { return Ok(None) };
        let others = match revision.others() {
            OtherRevisions::Refuse => OtherRevisions::Keep,
            other => other,
        };
        match open(&at(&folder), others) {
            Err(LabError::Store(e)) if matches!(*e, StoreError::Io { .. }) => {
                warn(&[format!("{e}; optima and runs are not kept")]);
                Ok(None)
            }
            store => store.map(Some),
        }
    }

    fn usual(&self) -> Option<PathBuf> {
        if self.no_cache {
            return None;
        }
        // The base directory specification ignores relative paths.
        let of = |key| std::env::var_os(key).map(PathBuf::from).filter(|p| p.is_absolute());
        let folder = of("XDG_CACHE_HOME").or_else(|| Some(of("HOME")?.join(".cache")));
        Some(folder?.join("fairmesh"))
    }
}

/// Opens a store and reports its notices.
fn open(folder: &Path, others: OtherRevisions) -> Result<Store, LabError> {
    let store = Store::open(folder, others)?;
    report(&store);
    Ok(store)
}

/// Reports incomplete lines and unused files of a store.
pub fn report(store: &Store) {
    let notices: Vec<String> = store.notices().iter().map(ToString::to_string).collect();
    warn(&notices);
}
