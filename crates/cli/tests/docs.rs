//! What the pages tell people to type can be typed, and what they link to is there.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;
use common::run;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Every page: those at the top and all below `docs`.
fn pages() -> Vec<PathBuf> {
    fn below(folder: &Path, pages: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                below(&path, pages);
            } else if path.extension().is_some_and(|e| e == "md") {
                pages.push(path);
            }
        }
    }
    let root = root();
    let mut pages: Vec<PathBuf> = ["README", "ARCHITECTURE", "CONTRIBUTING"]
        .map(|n| root.join(n).with_extension("md"))
        .into();
    below(&root.join("docs"), &mut pages);
    pages.sort();
    pages
}

/// A line as a shell takes it apart, up to a comment, a pipe or the next command.
fn words(line: &str) -> Vec<String> {
    let (mut all, mut word, mut quote, mut begun) = (Vec::new(), String::new(), None, false);
    for c in line.chars() {
        match (quote, c) {
            (None, '#') if !begun => break,
            (None, '|' | '&' | ';') => break,
            (None, '\'' | '"') => (quote, begun) = (Some(c), true),
            (Some(q), c) if q == c => quote = None,
            (None, c) if c.is_whitespace() => {
                if core::mem::take(&mut begun) {
                    all.push(core::mem::take(&mut word));
                }
            }
            _ => {
                word.push(c);
                begun = true;
            }
        }
    }
    if begun {
        all.push(word);
    }
    all
}

/// Commands of ours in a page, with their line and whether they stand in a block: in fenced blocks, and in inline code with arguments.
fn commands(text: &str) -> Vec<(usize, bool, Vec<String>)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (number, line) in text.lines().enumerate() {
        if line.starts_with("```") {
            fenced = !fenced;
            continue;
        }
        let inline = line.split('`').skip(1).step_by(2);
        let lines: Vec<&str> = if fenced { vec![line] } else { inline.collect() };
        for code in lines {
            let mut words = words(code.trim().trim_start_matches("$ "));
            if words.first().is_some_and(|w| w == "sudo") {
                words.remove(0);
            }
            let ours = words.first().is_some_and(|w| w == "fairmesh" || w == "fairmesh-gateway");
            // A bare name, or a synopsis with places to fill, is no command.
            let form = |w: &String| {
                w.contains(['[', '…', '\\']) || (w.len() > 1 && w.chars().all(|c| c.is_uppercase()))
            };
            if ours && words.len() > 1 && !words.iter().any(form) {
                found.push((number + 1, fenced, words));
            }
        }
    }
    found
}

#[test]
fn documented_commands_can_be_typed() {
    let (mut seen, mut wrong) = (0, Vec::new());
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for (line, fenced, words) in commands(&text) {
            let at = format!("{}:{line}: {}", page.display(), words.join(" "));
            let problem = if words[0] == "fairmesh" {
                fairmesh_cli::args::Cli::try_parse_from(&words).err()
            } else {
                fairmesh_agent::args::Cli::try_parse_from(&words).err()
            };
            // Naming a command in a sentence without what it needs is no mistake.
            let named = |k| {
                use clap::error::ErrorKind::{
                    DisplayHelpOnMissingArgumentOrSubcommand, MissingRequiredArgument,
                };
                !fenced
                    && [MissingRequiredArgument, DisplayHelpOnMissingArgumentOrSubcommand]
                        .contains(&k)
            };
            wrong.extend(problem.filter(|e| !named(e.kind())).map(|e| format!("{at}\n{e}")));
            for file in words.iter().filter(|w| w.starts_with("scenarios/")) {
                if !root().join(file).exists() && !file.contains('X') {
                    wrong.push(format!("{at}: there is no {file}"));
                }
            }
            seen += 1;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > 60, "{seen}: are the pages still read?");
}

/// Every help text of a command and those below it.
fn helps(command: &mut clap::Command, out: &mut Vec<(String, String)>) {
    out.push((command.get_name().to_owned(), command.render_long_help().to_string()));
    for sub in command.get_subcommands_mut() {
        helps(sub, out);
    }
}

#[test]
fn helps_name_files_that_exist_and_commands_that_can_be_typed() {
    let mut all = Vec::new();
    helps(&mut <fairmesh_cli::args::Cli as clap::CommandFactory>::command(), &mut all);
    let (mut files, mut examples) = (0, 0);
    for (command, help) in &all {
        // What is everybody's own (map.netjson, gateway.toml) has no folder of ours.
        for word in help.split(|c: char| c.is_whitespace() || "'\"(),;".contains(c)) {
            if word.starts_with("scenarios/") {
                assert!(root().join(word).exists(), "{command} --help: there is no {word}");
                files += 1;
            }
        }
        let text = help.replace("\\\n", " ");
        let lines = text.lines().map(str::trim).map(|l| l.trim_start_matches("sudo "));
        for line in lines.filter(|l| l.starts_with("fairmesh ") && !l.contains(" > ")) {
            let typed = fairmesh_cli::args::Cli::try_parse_from(words(line));
            assert!(typed.is_ok(), "{command} --help: {line}: {}", typed.unwrap_err());
            examples += 1;
        }
    }
    assert!(files > 8 && examples > 25, "{files} files, {examples} examples");
}

#[test]
fn documented_simulations_run() {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(root().join("scenarios"), folder.path().join("scenarios")).unwrap();
    let page = fs::read_to_string(root().join("docs/cli.md")).unwrap();
    let mut seen = 0;
    for (line, _, mut words) in commands(&page) {
        let simulates = matches!(words[1].as_str(), "run" | "compare");
        let shipped = words.get(2).is_some_and(|w| w.starts_with("scenarios/"));
        if !shipped || !(simulates || words[1] == "capacity") {
            continue;
        }
        if simulates {
            words.extend(["--duration", "2 s", "--warmup", "1 s"].map(str::to_owned));
        }
        let args: Vec<&str> = words[1..].iter().map(String::as_str).collect();
        let out = run(folder.path(), &args);
        let err = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "docs/cli.md:{line}: {words:?}: {err}");
        assert!(!out.stdout.is_empty(), "docs/cli.md:{line}");
        seen += 1;
    }
    assert!(seen >= 6, "{seen}");
}

/// Headings become anchors as GitHub makes them.
fn anchors(text: &str) -> Vec<String> {
    let heading = |l: &str| l.starts_with('#').then(|| l.trim_start_matches('#').trim().to_owned());
    let anchor = |h: String| {
        let plain = h.to_lowercase().replace(' ', "-");
        plain.chars().filter(|c| c.is_alphanumeric() || "-_".contains(*c)).collect()
    };
    text.lines().filter_map(heading).map(anchor).collect()
}

#[test]
fn links_lead_somewhere() {
    let mut seen = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for rest in text.split("](").skip(1) {
            let Some(link) = rest.split(')').next().filter(|l| !l.contains("://")) else {
                continue;
            };
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { page.clone() } else { page.with_file_name(file) };
            assert!(target.exists(), "{}: {link}", page.display());
            if !anchor.is_empty() {
                let there = anchors(&fs::read_to_string(&target).unwrap());
                assert!(there.iter().any(|a| a == anchor), "{}: {link}", page.display());
            }
            seen += 1;
        }
    }
    assert!(seen > 50, "{seen}");
}

#[test]
fn every_page_is_in_the_index() {
    let index = fs::read_to_string(root().join("docs/README.md")).unwrap();
    for page in pages() {
        let Ok(name) = page.strip_prefix(root().join("docs")) else { continue };
        let name = name.display().to_string();
        assert!(name == "README.md" || index.contains(&name), "docs/README.md lacks {name}");
    }
}
