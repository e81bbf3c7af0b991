//! The pages of the kept records, made from them, the declarations and the notes, and nothing else:
//! an overview, a page per paper, and a picture per figure.

use std::fmt::Write as _;

use fairmesh_lab::LabError;

use super::catalogue::{Catalogue, Entry, RECORDS};
use super::chart;
use super::papers::{Known, papers};
use super::present;
use super::record::Record;
use super::section::section;
use super::tally::Tally;

/// Folder of the pages and pictures, beside the overview and named after it.
pub const FIGURES: &str = "figures";
/// Page of what belongs to no paper of the list.
const OTHERS: &str = "others";

const MADE: &str =
    "<!-- Made by `fairmesh-experiments reproduce page` from reproductions/. Do not edit. -->\n\n";

const RULE: &str = "\
**The rule**, one for all. A number *agrees* (✓) within a tenth of the one that the paper prints, or inside the joint 95 % interval of both
means where the paper prints one; how far other networks are apart is no tolerance. Else its *direction is the same* (~) if it is above
and below the other numbers of its column as the paper's is, beyond both intervals; where an interval leaves that open it is *not
decided* (?), otherwise it *differs* (✗). A statement *holds* when its interval lies wholly where it says, *fails* when wholly elsewhere, and is
else *not decided*; \"the same\" is within a tenth, \"starves\" is below a tenth. What a paper does not print (≈) is shown, not judged, and no row is judged
twice. Every number and constant stands in a quotation of the paper. ± is half of the 95 % interval (Student's t) over seeds, or over networks
where there are several.
";

/// A file of the pages: its path from the folder of the overview, and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// Path, with slashes.
    pub path: String,
    /// Text.
    pub text: String,
}

/// One experiment with its record, where it has one.
struct Kept {
    entry: Entry,
    record: Option<Record>,
}

impl Kept {
    fn tally(&self) -> Tally {
        self.record.as_ref().map_or(Tally::default(), Tally::of)
    }
}

/// Every page and picture. `name`: that of the overview, without an extension.
///
/// # Errors
/// When a declaration or a record cannot be read, or a picture cannot be drawn.
pub fn pages(catalogue: &Catalogue, name: &str) -> Result<Vec<Made>, LabError> {
    let mut all = Vec::new();
    for id in catalogue.ids()? {
        all.push(Kept { record: kept(catalogue, &id)?, entry: catalogue.read(&id)? });
    }
    let known = papers(catalogue)?;
    let of = |paper: Option<&Known>| -> Vec<&Kept> {
        let listed = |k: &Kept| {
            let e = &k.entry.experiment;
            known.iter().find(|p| p.name == e.paper && e.is_quoted()).map(|p| &p.name)
        };
        // An experiment with a page of its own is on no other.
        let shared = all.iter().filter(|k| k.entry.experiment.page.is_none());
        shared.filter(|k| listed(k) == paper.map(|p| &p.name)).collect()
    };
    let mut made =
        vec![Made { path: format!("{name}.md"), text: overview(name, &known, &|p| of(p)) }];
    let mut page = |file: &str, head: String, part: &[&Kept]| -> Result<(), LabError> {
        let mut text = MADE.to_owned() + &head;
        for k in part {
            let Some(record) = &k.record else { continue };
            let mut pictures = Vec::new();
            let drawn = match record.id.contains("figure") {
                true => chart::drawn(&k.entry, &record.cells(&k.entry)),
                false => Vec::new(),
            };
            for (i, panel) in drawn.iter().enumerate() {
                let number = if i == 0 { String::new() } else { format!("-{}", i + 1) };
                let picture = format!("{FIGURES}/{}{number}.svg", record.id);
                let svg = panel.svg().map_err(|e| LabError::run(&record.id, e))?;
                made.push(Made { path: format!("{name}/{picture}"), text: svg });
                pictures.push(picture);
            }
            text += &section(record, &k.entry, &pictures);
        }
        made.push(Made { path: format!("{name}/{file}.md"), text });
        Ok(())
    };
    for p in &known {
        let part = of(Some(p));
        page(&p.page, head(name, p, &part), &part)?;
    }
    let rest = of(None);
    if rest.iter().any(|k| k.record.is_some()) {
        let head = "# Other measurements\n\nMeasurements of our own, with targets of our own, and papers whose text is not at hand.\n";
        page(OTHERS, head.to_owned(), &rest)?;
    }
    for k in &all {
        let Some(record) = &k.record else { continue };
        let files = present::files(&k.entry, record).map_err(|e| LabError::run(&k.entry.id, e))?;
        let path = |path: String| path.strip_prefix("docs/").unwrap_or(&path).to_owned();
        made.extend(files.into_iter().map(|(p, text)| Made { path: path(p), text }));
    }
    Ok(made)
}

/// What fits one screen: the counts by paper, and the rule.
fn overview<'a>(
    name: &str,
    known: &[Known],
    of: &dyn Fn(Option<&Known>) -> Vec<&'a Kept>,
) -> String {
    let mut out = format!(
        "{MADE}# Reproductions\n\n`fairmesh-experiments reproduce ID` runs the experiment behind a table or figure and puts its numbers beside the\n\
         paper's; `fairmesh-experiments reproduce list` names all, and what is absent with the reason. An experiment is a folder of\n`reproductions/`.\n\n\
         | | numbers judged | agree | same direction | not decided | differ | statements | hold | not decided | fail | not run | not printed | absent |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|\n"
    );
    let mut line = |title: String, t: &Tally, absent: usize| {
        let _ = writeln!(
            out,
            "| {title} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {absent} |",
            t.judged(),
            t.agree,
            t.same_direction,
            t.open,
            t.differ,
            t.statements(),
            t.hold,
            t.claims_open,
            t.fail,
            t.claims_not_run,
            t.not_printed,
        );
    };
    let mut sum = (Tally::default(), 0);
    for p in known {
        let t = total(&of(Some(p)));
        line(format!("[{}]({name}/{}.md)", p.name, p.page), &t, p.absent.len());
        sum.0 += t;
        sum.1 += p.absent.len();
    }
    if !known.is_empty() {
        line("all".to_owned(), &sum.0, sum.1);
    }
    let _ = write!(
        out,
        "\n*Not printed*: numbers read out of a paper's sentences or worked out from them, shown beside ours. *Absent*: tables and figures\n\
         without an experiment. Not counted: [measurements of our own]({name}/{OTHERS}.md).\n\n{RULE}"
    );
    out
}

fn total(part: &[&Kept]) -> Tally {
    let mut sum = Tally::default();
    part.iter().for_each(|k| sum += k.tally());
    sum
}

/// The first screen of a paper's page.
fn head(name: &str, p: &Known, part: &[&Kept]) -> String {
    let t = total(part);
    let names = |of: &dyn Fn(&Tally) -> bool| -> String {
        let some = part.iter().filter(|k| k.record.is_some() && of(&k.tally()));
        let links = some.map(|k| {
            let anchor: String = k.entry.id.replace(['.', '(', ')'], "");
            format!("[{}](#{anchor})", k.entry.experiment.covered().first().unwrap_or(&""))
        });
        let all: Vec<String> = links.collect();
        if all.is_empty() { "none".to_owned() } else { all.join(", ") }
    };
    let bad = |t: &Tally| t.differ + t.fail;
    let mut out = format!("# {}\n\n{}. [The rule](../{}.md).\n\n", p.name, p.title, name);
    let _ = writeln!(
        out,
        "- Of {} printed numbers {} agree, {} have the same direction, {} are not decided, {} differ.",
        t.judged(),
        t.agree,
        t.same_direction,
        t.open,
        t.differ
    );
    let _ = writeln!(
        out,
        "- Of {} statements {} hold, {} are not decided, {} fail, {} wait for runs.",
        t.statements(),
        t.hold,
        t.claims_open,
        t.fail,
        t.claims_not_run
    );
    let compared = |t: &Tally| t.judged() + t.statements() > 0;
    let as_theirs = |t: &Tally| compared(t) && !t.differs() && t.not_run == 0;
    let _ = writeln!(out, "- Agrees throughout: {}.", names(&as_theirs));
    let _ = writeln!(out, "- Something differs or fails: {}.", names(&|t| bad(t) > 0));
    let between = |t: &Tally| compared(t) && bad(t) == 0 && !as_theirs(t);
    let _ =
        writeln!(out, "- Between: same direction, not decided or not run: {}.", names(&between));
    let few: Vec<String> = part
        .iter()
        .filter_map(|k| {
            let (r, full) = (k.record.as_ref()?, k.entry.experiment.full.seeds);
            let what = *k.entry.experiment.covered().first()?;
            (r.seeds < full).then(|| format!("{what} {} of {full}", r.seeds))
        })
        .collect();
    if !few.is_empty() {
        let _ = writeln!(out, "- Fewer seeds than declared: {}.", few.join(", "));
    }
    let _ =
        writeln!(out, "- {} numbers are not printed by the paper and only shown.", t.not_printed);
    if !p.absent.is_empty() {
        let all: Vec<&str> = p.absent.iter().map(|a| a.what.as_str()).collect();
        let _ = writeln!(out, "- Absent ([why](#absent)): {}.", all.join(", "));
    }
    if !p.open.is_empty() {
        let _ = writeln!(out, "- To know: {}", p.open);
    }
    if !p.absent.is_empty() {
        out += "\n## Absent\n";
        for a in &p.absent {
            let _ = write!(out, "\n- {}: {}.", a.what, a.because);
        }
        out.push('\n');
    }
    out
}

/// The kept record of an experiment.
///
/// # Errors
/// When it is there and cannot be read.
pub fn kept(catalogue: &Catalogue, id: &str) -> Result<Option<Record>, LabError> {
    let name = format!("{RECORDS}/{id}.json");
    let Some(text) = catalogue.file(&name)? else { return Ok(None) };
    serde_json::from_str(&text).map(Some).map_err(|e| {
        let problem = format!(
            "{e}; expected a record, as fairmesh-experiments reproduce {id} --record writes it"
        );
        LabError::file(catalogue.shown(&name), problem)
    })
}
