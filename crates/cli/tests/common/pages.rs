//! Pages of the documentation and the commands on them.

// Each test file uses some of the items.
#![allow(dead_code)]

use std::fs;
use std::path::{Path, PathBuf};

/// The project's programs.
const PROGRAMS: [&str; 3] = ["fairmesh", "fairmesh-gateway", "fairmesh-experiments"];

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Returns every page: those at the top and all below `docs`.
pub fn pages() -> Vec<PathBuf> {
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

/// Splits a line as a shell does, up to a comment, a pipe or the next command.
pub fn words(line: &str) -> Vec<String> {
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

/// Returns the commands of the project in a page, with their line.
///
/// Commands are in fenced blocks, for which the flag is true, and in inline code with arguments.
pub fn commands(text: &str) -> Vec<(usize, bool, Vec<String>)> {
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
            let ours = words.first().is_some_and(|w| PROGRAMS.contains(&w.as_str()));
            // A bare name, or a synopsis with placeholders, is not a command.
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

/// Returns true if a command is only named in a sentence, without its arguments.
pub fn named(e: &clap::Error) -> bool {
    use clap::error::ErrorKind::{
        DisplayHelpOnMissingArgumentOrSubcommand, MissingRequiredArgument,
    };
    [MissingRequiredArgument, DisplayHelpOnMissingArgumentOrSubcommand].contains(&e.kind())
}

/// Returns the commands of the pages that `parse` rejects, and the number of checked ones.
pub fn refused(
    programs: &[&str],
    parse: impl Fn(&[String]) -> Result<(), clap::Error>,
) -> (usize, Vec<String>) {
    let (mut seen, mut wrong) = (0, Vec::new());
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for (line, fenced, words) in commands(&text) {
            if !programs.contains(&words[0].as_str()) {
                continue;
            }
            let at = format!("{}:{line}: {}", page.display(), words.join(" "));
            let problem = parse(&words).err().filter(|e| fenced || !named(e));
            wrong.extend(problem.map(|e| format!("{at}\n{e}")));
            for file in words.iter().filter(|w| w.starts_with("scenarios/")) {
                if !root().join(file).exists() && !file.contains('X') {
                    wrong.push(format!("{at}: there is no {file}"));
                }
            }
            seen += 1;
        }
    }
    (seen, wrong)
}

/// Collects every help text of a command and of its subcommands.
fn helps(command: &mut clap::Command, out: &mut Vec<(String, String)>) {
    out.push((command.get_name().to_owned(), command.render_long_help().to_string()));
    for sub in command.get_subcommands_mut() {
        helps(sub, out);
    }
}

/// Checks that the help texts name existing files and commands that `parse` accepts.
///
/// Returns the numbers of files and of examples.
pub fn check_helps(
    command: &mut clap::Command,
    parse: impl Fn(&[String]) -> Result<(), clap::Error>,
) -> (usize, usize) {
    let program = format!("{} ", command.get_name());
    let mut all = Vec::new();
    helps(command, &mut all);
    let (mut files, mut examples) = (0, 0);
    for (command, help) in &all {
        // A user's own files (map.netjson, gateway.toml) have no folder of the project.
        for word in help.split(|c: char| c.is_whitespace() || "'\"(),;".contains(c)) {
            if word.starts_with("scenarios/") {
                assert!(root().join(word).exists(), "{command} --help: there is no {word}");
                files += 1;
            }
        }
        let text = help.replace("\\\n", " ");
        let lines = text.lines().map(str::trim).map(|l| l.trim_start_matches("sudo "));
        for line in lines.filter(|l| l.starts_with(&program) && !l.contains(" > ")) {
            let typed = parse(&words(line));
            assert!(typed.is_ok(), "{command} --help: {line}: {}", typed.unwrap_err());
            examples += 1;
        }
    }
    (files, examples)
}
