//! The separate page of an experiment, from a template `page.md` beside its declaration.
//!
//! Tables, pictures and numbers from the record replace the `{{ … }}` of the template. Between the
//! braces is a line of TOML, such as `{{ table = { family = "maps" } }}` or `{{ value = ["fifo",
//! "maps", "Jain"] }}`.

mod answers;
mod scatter;
mod squares;
mod view;

use serde::Deserialize;

use self::view::{Matrix, Table, View};
use super::catalogue::Entry;
use super::declare::ChartKind;
use super::record::Record;

/// Template of the page, beside the declaration.
const PAGE_TEMPLATE: &str = "page.md";

/// Element between braces.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum Element {
    /// The picture, with its description.
    Picture(String),
    /// Numbers of arms, topologies and runs, the fingerprint and the command.
    Origin {},
    /// The best controls of a family, in sentences.
    Answers(String),
    /// Arms of a family, or of a section, in rows; measures in columns.
    Table(Table),
    /// Arms in rows, topologies in columns.
    Matrix(Matrix),
    /// Entries of the registry that the experiment leaves out.
    LeftOut {},
    /// One number: label of the arm, family or topology, label of the measure.
    Value(String, String, String),
}

/// A file of a page: its path from the folder of the pages, and its text.
pub type File = (String, String);

/// Returns the page and the picture of an experiment; none if it declares no page.
///
/// # Errors
/// A template that cannot be read or names missing data; a picture that cannot be drawn.
pub fn files(entry: &Entry, record: &Record) -> Result<Vec<File>, String> {
    let Some(path) = &entry.experiment.page else { return Ok(Vec::new()) };
    let name = format!("{}/{PAGE_TEMPLATE}", entry.id);
    let template = entry.from.file(&name).map_err(|e| e.to_string())?;
    let template = template.ok_or_else(|| format!("{name}: there is no such file"))?;
    let picture = format!("img/{}.svg", entry.id);
    let view = View::of(entry, record);
    let up = "../".repeat(path.matches('/').count());
    let text = fill(&template, &view, &format!("{up}img/{}.svg", entry.id))
        .map_err(|e| format!("{name}: {e}"))?;
    let made = format!(
        "<!-- Made by `fairmesh-experiments reproduce page` from reproductions/{} and its record. Do not edit. -->\n\n",
        entry.id
    );
    let svg = match entry.experiment.chart.as_ref().map(|c| c.kind) {
        Some(ChartKind::Scatter) => scatter::svg(&view)?,
        Some(ChartKind::Squares) => squares::svg(&view),
        _ => return Err("chart: expected kind \"scatter\" or \"squares\" for a page".to_owned()),
    };
    Ok(vec![(path.clone(), made + &text), (picture, svg)])
}

fn fill(template: &str, view: &View<'_>, picture: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let (inner, after) = after.split_once("}}").ok_or("{{ is not closed; expected }}")?;
        #[derive(Deserialize)]
        struct One {
            x: Element,
        }
        let one: One = toml::from_str(&format!("x = {{ {inner} }}"))
            .map_err(|e| format!("{{{{{inner}}}}}: {}", e.message()))?;
        out += before;
        out += &match one.x {
            Element::Picture(words) => format!("![{words}]({picture})"),
            Element::Origin {} => view.origin(),
            Element::Answers(family) => answers::of(view, &family),
            Element::Table(table) => view.table(&table)?,
            Element::Matrix(matrix) => view.matrix(&matrix)?,
            Element::LeftOut {} => view.left_out(),
            Element::Value(arm, place, measure) => view.shown(&arm, &place, &measure)?,
        };
        rest = after;
    }
    Ok(out + rest)
}
