//! The stored records follow the declarations, and these follow the papers.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use fairmesh_control::Registry;
use fairmesh_experiments::reproduce::catalogue::{Catalogue, Entry, RECORDS_FOLDER};
use fairmesh_experiments::reproduce::kept::kept;
use fairmesh_experiments::reproduce::papers::{papers, reference_row};
use fairmesh_experiments::reproduce::record::Record;
use fairmesh_experiments::reproduce::sentence::sentences;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn catalogue() -> Catalogue {
    Catalogue::at(workspace().join("reproductions"), Registry::standard())
}

fn all() -> Vec<(Entry, Record)> {
    let catalogue = catalogue();
    let mut all = Vec::new();
    for id in catalogue.ids().unwrap() {
        let entry = catalogue.read(&id).unwrap();
        if let Some(record) = kept(&catalogue, &id).unwrap() {
            all.push((entry, record));
        }
    }
    assert!(all.len() > 70, "{}", all.len());
    all
}

/// Verdicts, statements and orders of every record are those of its current declaration.
#[test]
fn records_match_their_declarations() {
    for (entry, record) in all() {
        assert!(
            record.again(&entry) == record,
            "{}: fairmesh-experiments reproduce judge",
            entry.id
        );
        let asked: Vec<String> = entry.experiment.statements().iter().map(|c| c.asked()).collect();
        let answered: Vec<&String> = record.claims.iter().map(|c| &c.asked).collect();
        assert!(asked.iter().eq(answered), "{}", entry.id);
        let distinct: BTreeSet<&String> = asked.iter().collect();
        assert_eq!(distinct.len(), asked.len(), "{}: a statement stands there twice", entry.id);
    }
}

/// Every table and figure of a paper has an experiment or a reason, and none has both.
#[test]
fn nothing_of_a_paper_is_absent_without_a_reason() {
    let catalogue = catalogue();
    let ids = catalogue.ids().unwrap();
    let quoted = ids.iter().map(|id| catalogue.read(id).unwrap().experiment);
    let quoted: Vec<_> = quoted.filter(|e| e.is_quoted()).collect();
    let known = papers(&catalogue).unwrap();
    assert_eq!(known.len(), 5);
    for p in &known {
        assert_eq!(p.gaps(&quoted), Vec::<String>::new(), "{}", p.name);
    }
    for e in &quoted {
        assert!(known.iter().any(|p| p.name == e.paper), "{}: {}", e.title, e.paper);
    }
}

/// A number that a paper prints once is compared once, whatever the name of its row.
#[test]
fn no_row_is_judged_twice() {
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    for (entry, record) in all() {
        for row in &record.rows {
            let judged = row.cells.iter().filter(|c| c.verdict.is_some());
            let numbers: Vec<String> =
                judged.map(|c| format!("{}={}", c.column, c.paper.unwrap_or(f64::NAN))).collect();
            // Few numbers may be equal by chance; a line of a table is not.
            let distinct: BTreeSet<&String> = numbers.iter().collect();
            let values: BTreeSet<String> =
                row.cells.iter().filter_map(|c| c.paper).map(|v| v.to_string()).collect();
            let Some(quote) = entry.paper.quotes.get(&row.label).filter(|_| !numbers.is_empty())
            else {
                continue;
            };
            let table = distinct.len() > 2 && values.len() > 2;
            let line = if table { String::new() } else { quote.clone() };
            let key = format!("{} {line} {}", record.paper, numbers.join(" "));
            let here = format!("{}, {}", record.id, row.label);
            if let Some(before) = seen.insert(key, here.clone()) {
                // One sentence may give several flows one number; these are then rows of one
                // experiment.
                assert!(before.starts_with(&record.id), "{before} and {here}");
            }
        }
    }
    for (entry, _) in all() {
        for (row, at) in &entry.paper.repeats {
            let judged = catalogue().read(at).unwrap().paper;
            // A missing number of a line is NaN and equals nothing.
            let finite = |line: &Vec<f64>| -> Vec<f64> {
                line.iter().copied().filter(|v| v.is_finite()).collect()
            };
            let theirs = finite(&entry.paper.rows[row]);
            let mut held = judged.rows.iter().filter(|(r, _)| !judged.repeats.contains_key(*r));
            assert!(held.any(|(_, v)| finite(v) == theirs), "{}: {row} in {at}", entry.id);
        }
    }
}

/// Returns a paper's text without the artefacts of its extraction between the words.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("\\frac{") {
        out += &rest[..at];
        let parts: Vec<&str> = rest[at + 6..].splitn(3, '}').collect();
        out += &format!("{}/{}", parts[0], parts[1].trim_start_matches('{'));
        rest = parts.get(2).copied().unwrap_or_default();
    }
    out += rest;
    for (from, to) in [
        ("\\rightarrow", "→"),
        ("\\leftrightarrow", "↔"),
        ("\\text", ""),
        ("mathcal", ""),
        ("<b>", ""),
        ("</b>", ""),
    ] {
        out = out.replace(from, to);
    }
    out.retain(|c| !"\\${}_*".contains(c));
    let words: Vec<&str> = out.split_whitespace().collect();
    let mut out = words.join(" ");
    for arrow in ["→", "↔"] {
        out = out.replace(&format!(" {arrow}"), arrow).replace(&format!("{arrow} "), arrow);
    }
    out
}

/// Every quotation is in its paper, if the papers' texts are available.
///
/// They are in FAIRMESH_PAPERS or beside the checkout; the project may not distribute them.
#[test]
fn quotations_stand_in_the_papers() {
    let folder = std::env::var_os("FAIRMESH_PAPERS")
        .map_or_else(|| workspace().join("../shared/papers"), PathBuf::from);
    if !folder.is_dir() {
        eprintln!("the papers' texts are not at hand: quotations are compared with nothing");
        return;
    }
    let texts: BTreeMap<String, String> = papers(&catalogue())
        .unwrap()
        .into_iter()
        .map(|p| {
            let file = folder.join(p.text.unwrap());
            (p.name, plain(&fs::read_to_string(file).unwrap()))
        })
        .collect();
    let mut compared = 0;
    for (entry, _) in all().iter().filter(|(e, _)| e.experiment.is_quoted()) {
        let text = &texts[&entry.experiment.paper];
        let claims = entry.experiment.claims.iter().map(|c| &c.quote);
        let quotes = [&entry.experiment.quote].into_iter().chain(claims);
        for quote in quotes.chain(entry.paper.quotes.values()) {
            for part in quote.split('…') {
                let part = plain(part);
                assert!(text.contains(part.trim()), "{}: “{part}”", entry.id);
                compared += 1;
            }
        }
    }
    assert!(compared > 300, "{compared}");
}

/// A changed constant of a declaration is detected.
///
/// It is in no quotation, or the record has another value.
#[test]
fn changed_constants_are_noticed() {
    let changes = [
        ("jamshaid-table-6.2", "paper.toml", "0.41, 0.24", "0.45, 0.24"),
        (
            "jamshaid-table-6.2",
            "paper.toml",
            "\"Single FIFO queue 0.41",
            "\"Single FIFO queue 0.45",
        ),
        ("jamshaid-table-8.1", "paper.toml", "\"PFRC\" = [0.99", "\"PFRC\" = [0.9"),
        ("jamshaid-table-8.2", "experiment.toml", "times = 3", "times = 2.5"),
        ("jamshaid-figure-7.5", "experiment.toml", "above = 425", "above = 400"),
        ("jamshaid-figure-7.6", "experiment.toml", "times = 0.95", "times = 0.9"),
        ("rangwala-figure-9", "experiment.toml", "times = 0.8 ", "times = 0.7 "),
        ("rangwala-convergence", "experiment.toml", "below = 10", "below = 60"),
        ("triantafyllidou-table-3.2", "experiment.toml", "below = 15", "below = 16"),
        ("jang-figure-4", "experiment.toml", "above = 50", "above = 45"),
        ("mancuso-figure-8", "experiment.toml", "below = { cell", "above = { cell"),
        (
            "triantafyllidou-figure-3.3",
            "experiment.toml",
            "\"10\", \"15\", \"20\"]",
            "\"10\", \"15\"]",
        ),
        (
            "triantafyllidou-table-3.1",
            "experiment.toml",
            "of = \"packet-delay\"",
            "of = \"packet-delay\"\njudged = false",
        ),
        ("jamshaid-figure-3.6", "experiment.toml", "capture\"", "capture at all\""),
        ("jamshaid-table-8.3", "experiment.toml", "share = 75", "share = 80"),
        ("jang-activity", "experiment.toml", "below = 10", "below = 12"),
        (
            "jamshaid-table-8.1",
            "experiment.toml",
            "control = \"static-flow\"",
            "control = \"static-flow\"\nsecond = \"a reading\"",
        ),
        ("jang-figure-5", "experiment.toml", "fed = {", "about = {"),
        ("rangwala-figure-14", "experiment.toml", "unlike = {", "about = {"),
    ];
    let scratch = std::env::temp_dir().join(format!("fairmesh-referee-{}", std::process::id()));
    for (id, file, from, to) in changes {
        let source = workspace().join("reproductions");
        fs::create_dir_all(scratch.join(id)).unwrap();
        fs::create_dir_all(scratch.join(RECORDS_FOLDER)).unwrap();
        let record = format!("{RECORDS_FOLDER}/{id}.json");
        for name in [format!("{id}/experiment.toml"), format!("{id}/paper.toml"), record] {
            // Not every experiment has numbers of a paper.
            if source.join(&name).is_file() {
                fs::copy(source.join(&name), scratch.join(&name)).unwrap();
            }
        }
        let catalogue = Catalogue::at(scratch.clone(), Registry::standard());
        let noticed = || match catalogue.read(id) {
            Err(_) => true,
            Ok(entry) => {
                let record = kept(&catalogue, id).unwrap().unwrap();
                record.again(&entry) != record
            }
        };
        assert!(!noticed(), "{id} as it is");
        let path = scratch.join(id).join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{id}: {from}");
        fs::write(&path, text.replacen(from, to, 1)).unwrap();
        assert!(noticed(), "{id}: {from} became {to}");
        fs::remove_dir_all(&scratch).unwrap();
    }
}

/// An arm of an unpublished control is not an arm of the paper.
///
/// An example is PFRC with a moving lower bound.
#[test]
fn only_published_arms_are_judged() {
    let mut seen = 0;
    for (entry, record) in all().iter().filter(|(e, _)| e.experiment.is_quoted()) {
        for arm in &entry.experiment.arms {
            let Some(control) = &arm.control else { continue };
            let ours = Registry::standard().lookup(control).unwrap().is_ours();
            assert!(!ours || arm.second.is_some(), "{}: {}", entry.id, arm.label);
            seen += usize::from(arm.second.is_some());
        }
        let cells = record.cells(entry);
        let numbers = record.rows.iter().flat_map(|r| &r.cells);
        for (cell, number) in cells.iter().zip(numbers) {
            let judged = number.verdict.is_some() && entry.experiment.is_second(&cell.arm);
            assert!(!judged, "{}: {}, {}", entry.id, cell.row, cell.column);
        }
    }
    assert!(seen > 100, "{seen}");
}

/// Every failing sentence has a cause that an experiment shows, or is marked as unexplained.
#[test]
fn every_failing_sentence_has_a_cause() {
    let all = all();
    for paper in papers(&catalogue()).unwrap() {
        let records = all.iter().filter(|(e, _)| {
            let e = &e.experiment;
            e.paper == paper.name && e.is_quoted() && e.page.is_none()
        });
        let sentences = sentences(records.map(|(_, r)| r));
        assert!(sentences.len() > 10, "{}", paper.name);
        assert_eq!(paper.unexplained(&sentences), Vec::<String>::new(), "{}", paper.name);
        for (folder, row) in
            paper.cause.iter().flat_map(|c| &c.shown).filter_map(|s| reference_row(s))
        {
            let text = fs::read_to_string(workspace().join(folder).join("reference.json")).unwrap();
            let rows: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
            let found = rows.iter().find(|r| r["tag"] == row).unwrap();
            assert!(found.get("not_run").is_none(), "{folder}: {row}");
        }
    }
}

/// In the comparisons every arm is in the record on every topology, or has a reason.
#[test]
fn comparisons_have_every_arm_on_every_topology() {
    let mut seen = 0;
    for (entry, record) in all().into_iter().filter(|(e, _)| e.experiment.page.is_some()) {
        let missing: BTreeSet<&str> = record.missing.iter().map(|m| m.arm.as_str()).collect();
        for arm in &entry.experiment.arms {
            for topology in &entry.experiment.topologies {
                let label = format!("{}, {}", arm.label, topology.label);
                let row = record.rows.iter().any(|r| r.label == label);
                assert!(row != missing.contains(label.as_str()), "{}: {label}", entry.id);
                seen += usize::from(row);
            }
        }
        assert_eq!(record.seeds, entry.experiment.full.seeds, "{}", entry.id);
        assert_eq!(record.cases.len() * record.seeds as usize, record.runs, "{}", entry.id);
    }
    assert!(seen > 1000, "{seen}");
}
