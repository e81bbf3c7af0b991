//! Module layering inside the crate: siblings must not depend on each other in a cycle.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Dependencies among the modules in one folder.
fn uses(folder: &Path, path: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let file = entry.unwrap().path();
        let name = file.file_stem().unwrap().to_str().unwrap().to_string();
        if file.is_dir() {
            let inside = fs::read_dir(&file).unwrap().map(|f| f.unwrap().path());
            files.insert(name, inside.filter(|f| f.is_file()).collect());
        } else if name != "mod" && name != "lib" {
            files.insert(name, vec![file]);
        }
    }
    let names: Vec<String> = files.keys().cloned().collect();
    files
        .into_iter()
        .map(|(name, files)| {
            let text: String = files.iter().map(|f| fs::read_to_string(f).unwrap()).collect();
            let code = text.split("#[cfg(test)]").next().unwrap().to_string();
            let code: String = code.lines().filter(|l| !l.trim().starts_with("//")).collect();
            let other = |n: &&String| **n != name && code.contains(&format!("{path}::{n}::"));
            let used = names.iter().filter(other).cloned().collect();
            (name, used)
        })
        .collect()
}

/// Removes modules without dependencies until none is left, or only cycles.
fn cycle(mut uses: BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    loop {
        let free: Vec<String> =
            uses.iter().filter(|u| u.1.is_empty()).map(|u| u.0.clone()).collect();
        if free.is_empty() {
            return uses.into_keys().collect();
        }
        for name in free {
            uses.remove(&name);
            uses.values_mut().for_each(|u| _ = u.remove(&name));
        }
    }
}

#[test]
fn modules_use_those_below_them_only() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let region = uses(&source.join("region"), "super");
    assert!(region["fixed_point"].contains("collisions"), "the test reads nothing: {region:?}");
    assert_eq!(cycle(region), [""; 0]);
    let all = uses(&source, "crate");
    assert!(all["region"].contains("fair"), "the test reads nothing: {all:?}");
    assert_eq!(cycle(all), [""; 0]);
}
