//! Generator of the page of parameters: all mechanisms, their variants and parameters.

use core::fmt::Write;

use super::definition::Definition;
use super::origin::Origin;
use super::registry::Registry;

/// Returns a registry's mechanisms with origins, variants and parameters, in Markdown.
///
/// `make site` builds the page from [`Registry::standard`].
pub fn reference(registry: &Registry) -> String {
    let mut page = String::from(
        "# Variants and parameters\n\n\
         The variants and parameters of each mechanism, as declared in the code.\n\n\
         A variant follows its mechanism after a plus (`pfrc+bursts`). Parameters are keys of `[control]` in a scenario \
         or a gateway's configuration, or `--set epoch=5` for one run. *Ours*: not published, or not \
         as it is here; `*` marks such controls in tables of results.\n",
    );
    for definition in registry.all() {
        section(&mut page, definition);
    }
    page
}

fn section(page: &mut String, definition: &Definition) {
    let Definition { name, about, origin, variants, parameters, .. } = definition;
    // Writing to a string does not fail.
    let _ = write!(page, "\n## {name}\n{}. {}.\n", sentence(about), origin_text(origin));
    if !variants.is_empty() {
        page.push_str("\n| variant | | origin |\n|---|---|---|\n");
        for v in variants {
            let _ = writeln!(
                page,
                "| `+{}` | {} | {} |",
                v.name,
                cell(&v.about),
                origin_text(&v.origin)
            );
        }
    }
    if !parameters.is_empty() {
        page.push_str("\n| parameter | | unit | default | range |\n|---|---|---|---|---|\n");
        for p in parameters {
            let (range, default) = (p.range(), p.default);
            let about = cell(&p.about);
            let _ = writeln!(page, "| `{}` | {about} | {} | {default} | {range} |", p.name, p.unit);
        }
    }
}

/// Capitalises the first letter.
fn sentence(about: &str) -> String {
    let mut letters = about.chars();
    letters.next().map(|l| l.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// Escapes text for a table cell in Markdown.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('*', "\\*")
}

fn origin_text(origin: &Origin) -> String {
    match origin {
        Origin::Published(paper) => paper.clone().into_owned(),
        Origin::Ours { after } if after.is_empty() => "*Ours*".to_owned(),
        Origin::Ours { after } => format!("*Ours*, after {after}"),
    }
}
