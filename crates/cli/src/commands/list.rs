//! `fairmesh list` and `fairmesh schema`.

use std::io::Write;

use crate::args::ListArgs;
use crate::commands::print_json;
use crate::error::CliError;
use crate::output::table;

/// Lists the controls.
///
/// # Errors
/// When standard output cannot be written.
pub fn run(args: &ListArgs, out: &mut dyn Write) -> Result<(), CliError> {
    if args.json {
        let entries: Vec<_> = fairmesh_control::all()
            .map(|e| {
                serde_json::json!({
                    "name": e.name,
                    "about": e.about,
                    "paper": e.paper,
                    "variants": e.variants.iter().map(|v| v.name).collect::<Vec<_>>(),
                    "settings": e.knobs.iter().map(|k| k.name).collect::<Vec<_>>(),
                })
            })
            .collect();
        return print_json(out, &entries);
    }
    let mut t = table::table(&[]);
    // Words read better from the left.
    t.set_header(["control", "what it does", "source"]);
    for e in fairmesh_control::all() {
        t.add_row([e.name, e.about, e.paper]);
        for v in e.variants {
            t.add_row([format!("{}+{}", e.name, v.name), v.about.to_owned(), String::new()]);
        }
    }
    writeln!(out, "{t}")?;
    Ok(())
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
