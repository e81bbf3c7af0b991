//! The fuzz targets on their corpus, intact and damaged, on stable Rust.

#![allow(clippy::disallowed_methods)] // fuzzing ends after some seconds

use std::path::Path;

use fairmesh_units::Stream;

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 5, "the corpus of {target} is gone");
    paths.into_iter().map(|p| std::fs::read(p).unwrap()).collect()
}

/// Runs a target on every file, and on `damaged` damaged copies of each.
///
/// A copy is cut, has changed bytes, or is spliced into another file. With `FAIRMESH_FUZZ_SECONDS`
/// the damage is repeated for that time with different seeds, starting at `FAIRMESH_FUZZ_SEED`;
/// equal seeds give equal damage in every run.
fn hammer(target: &str, run: fn(&[u8]), damaged: usize) {
    let seconds = std::env::var("FAIRMESH_FUZZ_SECONDS").map_or(0, |s| s.parse().unwrap());
    let end = std::time::Instant::now() + std::time::Duration::from_secs(seconds);
    let first = std::env::var("FAIRMESH_FUZZ_SEED").map_or(1, |s| s.parse().unwrap());
    let mut seed = first;
    while seed == first || std::time::Instant::now() < end {
        round(target, run, damaged, seed);
        seed += 1;
    }
    println!("{target}: {} rounds from {first}", seed - first);
}

fn round(target: &str, run: fn(&[u8]), damaged: usize, seed: u64) {
    let files = corpus(target);
    let mut rng = Stream::new(seed, target);
    let mut below = |n: usize| rng.below(n as u32) as usize;
    for file in &files {
        run(file);
        for _ in 0..damaged {
            let mut bytes = file.clone();
            match below(4) {
                0 => bytes.truncate(below(file.len() + 1)),
                1 => {
                    for _ in 0..=below(4) {
                        let at = below(bytes.len());
                        bytes[at] = below(256) as u8;
                    }
                }
                2 => {
                    let (at, length) = (below(bytes.len()), below(40));
                    let end = (at + length).min(bytes.len());
                    let copy = bytes[at..end].to_vec();
                    let to = below(bytes.len() + 1);
                    bytes.splice(to..to, copy);
                }
                _ => {
                    let other = &files[below(files.len())];
                    let (cut, from) = (below(bytes.len()), below(other.len()));
                    bytes.truncate(cut);
                    bytes.extend_from_slice(&other[from..]);
                }
            }
            run(&bytes);
        }
    }
}

#[test]
fn toml() {
    hammer("toml", fairmesh_fuzz::toml, 200);
}

#[test]
fn map() {
    hammer("map", fairmesh_fuzz::map, 200);
}

#[test]
fn gateway() {
    hammer("gateway", fairmesh_fuzz::gateway, 200);
}

#[test]
fn store() {
    hammer("store", fairmesh_fuzz::store, 200);
}

/// Each input starts about a dozen processes.
#[test]
fn uci() {
    hammer("uci", fairmesh_fuzz::uci, 2);
}
