//! Common parts of the tests of the programs; `fairmesh-experiments` includes this file.

// Each test file uses some of the items.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Returns the package's program in a separate folder, so that the sources stay unchanged.
pub fn fairmesh(folder: &Path) -> Command {
    let mut c = Command::new(env!(concat!("CARGO_BIN_EXE_", env!("CARGO_PKG_NAME"))));
    // The program would report stores of other builds in the user's cache.
    c.current_dir(folder).env("XDG_CACHE_HOME", folder.join(".cache"));
    c
}

/// Runs the program in `folder`.
pub fn run(folder: &Path, args: &[&str]) -> Output {
    fairmesh(folder).args(args).output().unwrap()
}

/// Runs the program and returns its standard output; it must succeed.
pub fn ok(folder: &Path, args: &[&str]) -> String {
    let out = run(folder, args);
    let problem = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{args:?}: {problem}");
    String::from_utf8(out.stdout).unwrap()
}

/// Three hops, three uploads, four seconds.
pub const CHAIN: &str = r#"
duration = "4 s"
[radio]
rate = "1 Mbit/s"
[topology]
chain = { hops = 3 }
gateway = 0
[traffic]
flows = "up"
"#;

/// Returns a folder with `chain.toml` in it.
pub fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("chain.toml"), CHAIN).unwrap();
    dir
}

/// Returns the names of the files in a folder, sorted.
pub fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Returns the shards of a store, sorted by name; empty without a store.
pub fn shards(store: &Path) -> Vec<PathBuf> {
    let all = std::fs::read_dir(store).into_iter().flatten().map(|e| e.unwrap().path());
    let mut shards: Vec<PathBuf> =
        all.filter(|p| p.extension().is_some_and(|e| e == "jsonl")).collect();
    shards.sort();
    shards
}

/// Returns the folder of the workspace.
pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}
