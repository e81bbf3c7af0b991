//! Options that commands of several programs take.

use std::path::PathBuf;

use clap::Args;
use fairmesh_lab::Unfinished;
use fairmesh_lab::optimum::Cache;

/// How to spread runs over the machine.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct ThreadArgs {
    /// Runs at a time; all cores by default. Results do not depend on it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,
}

/// Where optima, and runs of what was broken off, are kept.
#[derive(Args, Clone, Debug, Default)]
pub struct CacheArgs {
    /// Keep optima in this folder, and take them from there; by default fairmesh in
    /// $XDG_CACHE_HOME or ~/.cache
    #[arg(long, value_name = "FOLDER")]
    pub cache: Option<PathBuf>,
    /// Search the optimum even if it is kept, and keep nothing
    #[arg(long, conflicts_with = "cache")]
    pub no_cache: bool,
}

impl CacheArgs {
    /// The folder; `None` where nothing is to be kept, or nobody says where.
    pub fn open(&self) -> Option<Cache> {
        self.folder().map(Cache::new)
    }

    /// Runs of a batch that was broken off, below the same folder; `None` as there, or where it cannot
    /// be used.
    pub fn unfinished(&self) -> Option<Unfinished> {
        Unfinished::of_this_program(&self.folder()?.join("unfinished"))
    }

    fn folder(&self) -> Option<PathBuf> {
        if self.no_cache {
            return None;
        }
        // The base directory specification ignores relative paths.
        let of = |key| std::env::var_os(key).map(PathBuf::from).filter(|p| p.is_absolute());
        let usual = || of("XDG_CACHE_HOME").or_else(|| Some(of("HOME")?.join(".cache")));
        self.cache.clone().or_else(|| Some(usual()?.join("fairmesh")))
    }
}
