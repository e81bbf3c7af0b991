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

/// docs/ns2-and-ns3.md and its pictures are current.
///
/// They are generated from the stored rows of both simulators and of our radio.
#[test]
fn the_page_on_ns_2_and_ns_3_is_of_the_kept_rows() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../validation/chain/page.py");
    let run = std::process::Command::new("python3").args([script, "--check"]).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}

#[test]
fn examples_of_help_texts_can_be_typed() {
    let (_, examples) =
        check_helps(&mut Cli::command(), |words| Cli::try_parse_from(words).map(|_| ()));
    assert!(examples > 10, "{examples} examples");
}
