//! Commands on the pages are valid, and links lead to existing targets.

mod common;
#[path = "common/pages.rs"]
mod documents;

use std::fs;
use std::path::Path;

use clap::{CommandFactory, Parser};
use common::run;
use documents::{check_helps, commands, pages, refused, root};
use fairmesh_agent::args::Cli as Gateway;
use fairmesh_cli::args::Cli;

#[test]
fn documented_commands_can_be_typed() {
    let (seen, wrong) = refused(&["fairmesh", "fairmesh-gateway"], |words| {
        if words[0] == "fairmesh" {
            Cli::try_parse_from(words).map(|_| ())
        } else {
            Gateway::try_parse_from(words).map(|_| ())
        }
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > 60, "{seen}: are the pages still read?");
}

#[test]
fn helps_name_files_that_exist_and_commands_that_can_be_typed() {
    let (files, examples) =
        check_helps(&mut Cli::command(), |words| Cli::try_parse_from(words).map(|_| ()));
    assert!(files > 8 && examples > 20, "{files} files, {examples} examples");
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

/// Returns the anchors of headings, as GitHub builds them.
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

/// Returns true if `index` links to `page`, a path relative to it.
fn links_to(index: &str, page: &str) -> bool {
    let link = format!("]({page}");
    index.split(&link).skip(1).any(|rest| rest.starts_with([')', '#']))
}

/// The front page links to every page, directly or through the index of its folder.
#[test]
fn every_page_is_in_the_index() {
    let docs = root().join("docs");
    let front = fs::read_to_string(docs.join("README.md")).unwrap();
    let listed = |page: &Path| {
        let name = page.strip_prefix(&docs).unwrap().display().to_string();
        name == "README.md" || links_to(&front, &name)
    };
    for page in pages().iter().filter(|p| p.starts_with(&docs)) {
        let index = page.with_file_name("README.md");
        let file = page.file_name().unwrap().to_str().unwrap();
        let in_folder =
            || listed(&index) && fs::read_to_string(&index).is_ok_and(|text| links_to(&text, file));
        assert!(
            listed(page) || in_folder(),
            "{}: no link in docs/README.md, or in a README.md of its folder that docs/README.md links to",
            page.display()
        );
    }
}

/// Number of words, as runs of ASCII letters.
fn words(page: &Path) -> usize {
    let text = fs::read_to_string(page).unwrap();
    text.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| !word.is_empty()).count()
}

#[test]
fn front_pages_keep_their_budgets() {
    for (page, most) in [("README.md", 700), ("ARCHITECTURE.md", 1800)] {
        let words = words(&root().join(page));
        assert!(words <= most, "{page}: {words} words; expected at most {most}");
    }
}

#[test]
fn decisions_are_numbered_complete_and_short() {
    let mut pages: Vec<_> =
        pages().into_iter().filter(|p| p.parent().unwrap().ends_with("docs/decisions")).collect();
    pages.retain(|p| !p.ends_with("README.md"));
    assert!(pages.len() > 60, "{}", pages.len());
    for (number, page) in (1..).zip(&pages) {
        let name = page.file_name().unwrap().to_str().unwrap();
        assert!(name.starts_with(&format!("{number:04}-")), "{name}: expected number {number:04}");
        let text = fs::read_to_string(page).unwrap();
        for part in ["# ", "Status: ", "**Context.** ", "**Decision.** ", "**Consequence.** "] {
            assert!(text.lines().any(|l| l.starts_with(part)), "{name}: expected a line {part}…");
        }
        let words = words(page);
        assert!(words <= 200, "{name}: {words} words; expected at most 200");
    }
}
