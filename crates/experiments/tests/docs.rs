//! Commands of `fairmesh-experiments` on the pages and in its help texts.

#[path = "../../cli/tests/common/pages.rs"]
mod documents;

use clap::{CommandFactory, Parser};
use documents::{check_helps, refused};
use fairmesh_experiments::cli::args::Cli;

#[test]
fn documented_commands_can_be_typed() {
    let (seen, wrong) =
        refused(&["fairmesh-experiments"], |words| Cli::try_parse_from(words).map(|_| ()));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > 20, "{seen}: are the pages still read?");
}

/// The page on ns-2 and ns-3 and its pictures are generated.
///
/// They come from the stored rows of both simulators and of our radio.
#[test]
fn the_page_on_ns_2_and_ns_3_has_the_kept_rows() {
    let folder = tempfile::tempdir().unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../validation/chain/page.py");
    let run =
        std::process::Command::new("python3").arg(script).arg(folder.path()).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let text = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let page = text("ns2-and-ns3.md");
    assert!(page.lines().filter(|l| l.starts_with("| ")).count() > 10, "{page}");
    assert!(!page.contains("{{"), "{page}");
    for picture in ["img/ns2-and-ns3.svg", "img/ns2-rules.svg"] {
        assert!(page.contains(picture) && text(picture).ends_with("</svg>\n"), "{picture}");
    }
}

#[test]
fn examples_of_help_texts_can_be_typed() {
    let (_, examples) =
        check_helps(&mut Cli::command(), |words| Cli::try_parse_from(words).map(|_| ()));
    assert!(examples > 10, "{examples} examples");
}
