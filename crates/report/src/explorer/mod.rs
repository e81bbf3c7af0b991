//! `report.html`: the explorer, one file that opens from disk and requests nothing.
//!
//! The page's program is TypeScript (`ui/`), built into `assets/explorer.html`;
//! building the crate does not need Node.js. [`model`] is the data
//! of the page; [`build`] computes it from the laboratory's results.

pub mod build;
pub mod codec;
pub mod model;
pub mod sentence;

#[cfg(test)]
mod tests;

use std::fmt::Write as _;

pub use build::Sources;

use crate::html::{escape, script_json};
use model::Model;

/// The page without data.
const PAGE: &str = include_str!("../../assets/explorer.html");

/// Renders the page of a result.
pub fn render(sources: &Sources<'_>) -> String {
    page(&build::model(sources))
}

/// Fills the page with a model.
///
/// # Panics
/// Panics if the page lacks a mark; it is part of the program.
pub fn page(model: &Model) -> String {
    let data = serde_json::to_value(model).expect("a model has no keys but texts");
    let values = [
        ("<!--title-->", escape(&model.scenario)),
        ("<!--without-script-->", without_script(model)),
        ("<!--data-->", script_json(&data)),
    ];
    let mut out = String::with_capacity(PAGE.len() + values[2].1.len());
    let mut rest = PAGE;
    for (mark, value) in values {
        let (before, after) = rest.split_once(mark).expect("the page has all marks, in this order");
        out.push_str(before);
        out.push_str(&value);
        rest = after;
    }
    out + rest
}

/// Returns the answer and the results, for browsers without JavaScript.
fn without_script(m: &Model) -> String {
    let mut out = String::new();
    for line in &m.answer.headline {
        let _ = write!(out, "<p><b>{}</b></p>", escape(&sentence::unmarked(line)));
    }
    for fact in &m.answer.facts {
        let _ = write!(out, "<p>{}: {}</p>", fact.title, escape(&sentence::unmarked(&fact.text)));
    }
    out + "<p>The explorer needs JavaScript; its numbers are in results.json and the .parquet files beside it.</p>"
}
