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

#[test]
fn examples_of_help_texts_can_be_typed() {
    let (_, examples) =
        check_helps(&mut Cli::command(), |words| Cli::try_parse_from(words).map(|_| ()));
    assert!(examples > 10, "{examples} examples");
}
