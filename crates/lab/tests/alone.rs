//! The laboratory is independent of any program.
//!
//! It has no argument parser, no terminal and no system call, and its errors name no option of a
//! command line.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn nothing_of_a_command_line_or_a_system_is_below_it() {
    let out = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "-p", "fairmesh-lab", "-e", "normal", "--prefix", "none"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let tree = String::from_utf8(out.stdout).unwrap();
    let names: Vec<&str> = tree.lines().filter_map(|l| l.split(' ').next()).collect();
    assert!(names.contains(&"fairmesh-engine") && names.len() > 20, "{tree}");
    for none in [
        "clap",
        "comfy-table",
        "fairmesh-agent",
        "fairmesh-emulator",
        "fairmesh-linux",
        "indicatif",
        "nix",
        "plotters",
    ] {
        assert!(!names.contains(&none), "the laboratory depends on {none}");
    }
}

fn sources(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

/// "--name" or " --name" anywhere but in comments.
#[test]
fn no_sentence_names_an_option() {
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    assert!(files.len() > 20);
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        for (n, line) in text.lines().enumerate().filter(|(_, l)| !l.trim().starts_with("//")) {
            let option = line.split(['"', ' ', '`', '(']).any(|word| {
                word.strip_prefix("--").is_some_and(|w| w.starts_with(|c: char| c.is_alphabetic()))
            });
            assert!(!option, "{}:{}: {line}", file.display(), n + 1);
        }
    }
}
