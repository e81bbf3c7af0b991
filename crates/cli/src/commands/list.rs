//! `fairmesh list` and `fairmesh schema`.

use std::io::Write;

use comfy_table::{ContentArrangement, Table};
use fairmesh_control::{Entry, Mechanism, Needs, lookup};
use serde_json::{Value, json};

use crate::args::ListArgs;
use crate::commands::print_json;
use crate::error::CliError;
use crate::output::json::{GENERATOR, SCHEMA};
use crate::output::table;

/// Columns where the terminal does not say how many it has.
const WIDTH: u16 = 110;

/// Lists the controls, or says all of one.
///
/// # Errors
/// An unknown control; when standard output cannot be written.
pub fn run(args: &ListArgs, out: &mut dyn Write) -> Result<(), CliError> {
    let chosen = args.control.as_deref().map(lookup).transpose();
    let chosen = chosen.map_err(|e| CliError::option("CONTROL", e))?;
    if args.json {
        let controls: Vec<Value> = match &chosen {
            Some(one) => vec![object(one)],
            None => fairmesh_control::all().map(|e| object(&Mechanism::of(e))).collect(),
        };
        let all = json!({ "schema": SCHEMA, "controls": controls, "generator": GENERATOR });
        return print_json(out, &all);
    }
    if let Some(one) = chosen {
        return Ok(describe(&one, out)?);
    }
    let mut t = words(["control", "what it does", "source"]);
    for e in fairmesh_control::all() {
        t.add_row([e.name, e.about, e.paper]);
        for v in e.variants {
            t.add_row([format!("{}+{}", e.name, v.name), v.about.to_owned(), String::new()]);
        }
    }
    writeln!(out, "{t}\n\nOne of them, with its settings: fairmesh list pfrc")?;
    Ok(())
}

/// A table of words, which read better from the left, no wider than the terminal.
fn words<const N: usize>(header: [&str; N]) -> Table {
    let mut t = table::table(&[]);
    t.set_content_arrangement(ContentArrangement::Dynamic).set_header(header);
    if t.width().is_none() {
        t.set_width(WIDTH);
    }
    t
}

/// Where a kind of node stands and what it must have, name by name.
fn needs(n: &Needs) -> [(&'static str, String); 5] {
    let header = match n.header_bytes {
        0 => String::new(),
        bytes => format!("{bytes} bytes in every packet"),
    };
    [
        ("runs at", n.at.to_string()),
        ("observes", n.events.to_string()),
        ("must be able to", n.abilities.to_string()),
        ("must know", n.knowledge.to_string()),
        ("header", header),
    ]
}

fn describe(one: &Mechanism, out: &mut dyn Write) -> std::io::Result<()> {
    let Entry { about, paper, variants, knobs, .. } = one.entry();
    writeln!(out, "{one}: {about}")?;
    if !paper.is_empty() {
        writeln!(out, "{paper}")?;
    }
    for n in one.all_needs() {
        writeln!(out)?;
        for (what, which) in needs(&n).into_iter().filter(|w| !w.1.is_empty()) {
            writeln!(out, "{what}: {which}")?;
        }
    }
    if !variants.is_empty() {
        let mut t = words(["variant", "what it does"]);
        for v in *variants {
            t.add_row([format!("+{}", v.name), v.about.to_owned()]);
        }
        writeln!(out, "\n{t}")?;
    }
    if !knobs.is_empty() {
        let mut t = words(["setting", "what it is", "default", "from", "to"]);
        for k in *knobs {
            let numbers = [k.default, k.min, k.max].map(|v| v.to_string());
            t.add_row([k.name.to_owned(), k.about.to_owned()].into_iter().chain(numbers));
        }
        let first = &knobs[0];
        writeln!(
            out,
            "\n{t}\n\nIn a scenario or a gateway's configuration:\n  [control]\n  use = \"{one}\"\n  {} = {}",
            first.name, first.default
        )?;
    }
    Ok(())
}

fn object(one: &Mechanism) -> Value {
    let e = one.entry();
    let needs = one.all_needs().into_iter().map(|n| {
        json!({
            "at": n.at.to_string(),
            "events": n.events.to_string(),
            "abilities": n.abilities.to_string(),
            "knowledge": n.knowledge.to_string(),
            "header_bytes": n.header_bytes,
        })
    });
    let variants = e.variants.iter().map(|v| json!({ "name": v.name, "about": v.about }));
    let settings = e.knobs.iter().map(|k| {
        let (default, min, max) = (k.default, k.min, k.max);
        json!({ "name": k.name, "about": k.about, "default": default, "min": min, "max": max })
    });
    json!({
        "name": one.to_string(),
        "about": e.about,
        "paper": e.paper,
        "needs": needs.collect::<Vec<_>>(),
        "variants": variants.collect::<Vec<_>>(),
        "settings": settings.collect::<Vec<_>>(),
    })
}

/// Prints the JSON schema of scenario files.
///
/// # Errors
/// When standard output cannot be written.
pub fn schema(out: &mut dyn Write) -> Result<(), CliError> {
    serde_json::to_writer_pretty(&mut *out, &fairmesh_scenario::json_schema())
        .map_err(std::io::Error::from)?;
    writeln!(out)?;
    Ok(())
}
