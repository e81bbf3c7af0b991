//! `fairmesh list` and `fairmesh schema`.

use std::io::Write;

use comfy_table::{ContentArrangement, Table};
use fairmesh_control::{Definition, Mechanism, Needs, Registry};
use fairmesh_lab::comparison::{GENERATOR, SCHEMA};
use fairmesh_report::table;
use fairmesh_units::Span;
use serde_json::{Value, json};

use crate::args::{FileKind, ListArgs, SchemaArgs};
use crate::commands::print_json;
use crate::error::CliError;

/// Number of columns if the terminal does not report its width.
const DEFAULT_WIDTH: u16 = 110;

/// Lists the controls, or describes one in full.
///
/// # Errors
/// An unknown control; standard output that cannot be written.
pub fn run(args: &ListArgs, registry: &Registry, out: &mut dyn Write) -> Result<(), CliError> {
    let chosen = args.control.as_deref().map(|name| registry.lookup(name)).transpose();
    let chosen = chosen.map_err(|e| CliError::option("CONTROL", e))?;
    if args.json {
        let controls: Vec<Value> = match &chosen {
            Some(one) => vec![object(one)],
            None => registry.all().map(|d| object(&Mechanism::of(d.clone()))).collect(),
        };
        let all = json!({ "schema": SCHEMA, "controls": controls, "generator": GENERATOR });
        return print_json(out, &all);
    }
    if let Some(one) = chosen {
        return Ok(describe(&one, out)?);
    }
    let mut t = words(["control", "effect", "source"]);
    for d in registry.all() {
        t.add_row([d.name.to_string(), d.about.to_string(), d.origin.to_string()]);
        for v in &d.variants {
            let name = format!("{}+{}", d.name, v.name);
            t.add_row([name, v.about.to_string(), v.origin.to_string()]);
        }
    }
    writeln!(out, "{t}\n\nFor the parameters of a control: fairmesh list pfrc")?;
    Ok(())
}

/// Returns a left-aligned table of words, no wider than the terminal.
fn words<const N: usize>(header: [&str; N]) -> Table {
    let mut t = table::table(&[]);
    t.set_content_arrangement(ContentArrangement::Dynamic).set_header(header);
    if t.width().is_none() {
        t.set_width(DEFAULT_WIDTH);
    }
    t
}

/// Returns a period in words; empty for none.
fn every(period: Option<Span>) -> String {
    period.map_or(String::new(), |p| format!("every {} s", p.as_secs_f64()))
}

/// Returns the place of a kind of node and its requirements, by name.
fn needs(n: &Needs) -> [(&'static str, String); 8] {
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
        ("sums", every(n.delivery.sums)),
        ("queue samples", every(n.delivery.queues)),
        ("header fields in messages", every(n.delivery.messages)),
    ]
}

fn describe(one: &Mechanism, out: &mut dyn Write) -> std::io::Result<()> {
    let Definition { about, origin, variants, parameters, .. } = &**one.definition();
    writeln!(out, "{one}: {about}\n{origin}")?;
    for n in one.all_needs() {
        writeln!(out)?;
        for (what, which) in needs(&n).into_iter().filter(|w| !w.1.is_empty()) {
            writeln!(out, "{what}: {which}")?;
        }
    }
    if !variants.is_empty() {
        let mut t = words(["variant", "effect", "source"]);
        for v in variants {
            t.add_row([format!("+{}", v.name), v.about.to_string(), v.origin.to_string()]);
        }
        writeln!(out, "\n{t}")?;
    }
    if !parameters.is_empty() {
        let mut t = words(["parameter", "meaning", "unit", "default", "from", "to"]);
        for p in parameters {
            let numbers = [p.default, p.min, p.max].map(|v| v.to_string());
            t.add_row(
                [&p.name, &p.about, &p.unit].map(ToString::to_string).into_iter().chain(numbers),
            );
        }
        let first = &parameters[0];
        let (name, value) = (&first.name, first.default);
        writeln!(
            out,
            "\n{t}\n\nIn a scenario or a gateway's configuration:\n  [control]\n  use = \"{one}\"\n  \
             {name} = {value}\nFor one run, compare, sweep or emulate: --control {one} --set {name}={value}",
        )?;
    }
    Ok(())
}

fn object(one: &Mechanism) -> Value {
    let e = one.definition();
    let needs = one.all_needs().into_iter().map(|n| {
        json!({
            "at": n.at.to_string(),
            "events": n.events.to_string(),
            "abilities": n.abilities.to_string(),
            "knowledge": n.knowledge.to_string(),
            "header_bytes": n.header_bytes,
        })
    });
    let variants = e.variants.iter().map(|v| {
        let (ours, paper) = (v.origin.is_ours(), v.origin.paper());
        json!({ "name": v.name, "about": v.about, "ours": ours, "paper": paper })
    });
    let settings = e.parameters.iter().map(|p| {
        json!({
            "name": p.name,
            "about": p.about,
            "unit": p.unit,
            "whole": p.whole,
            "default": p.default,
            "min": p.min,
            "max": p.max,
        })
    });
    json!({
        "name": one.to_string(),
        "about": e.about,
        "ours": one.is_ours(),
        "paper": e.origin.paper(),
        "needs": needs.collect::<Vec<_>>(),
        "variants": variants.collect::<Vec<_>>(),
        "settings": settings.collect::<Vec<_>>(),
    })
}

/// Prints the JSON schema of a kind of file.
///
/// # Errors
/// Standard output that cannot be written.
pub fn schema(args: SchemaArgs, registry: &Registry, out: &mut dyn Write) -> Result<(), CliError> {
    let schema = match args.of {
        FileKind::Scenario => fairmesh_scenario::json_schema(registry),
        FileKind::Plan => fairmesh_lab::sweep::json_schema(),
    };
    serde_json::to_writer_pretty(&mut *out, &schema).map_err(std::io::Error::from)?;
    writeln!(out)?;
    Ok(())
}
