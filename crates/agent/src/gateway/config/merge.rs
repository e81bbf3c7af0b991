//! The main file and its fragments as one draft, with the place of each entry.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use fairmesh_document::{Document, KeyPath, Located, Problem, Step, one_line};

use super::draft::{Draft, Fragment};
use super::files::Files;
use super::{ConfigError, FileReport};

/// One file with plans and subscribers.
#[derive(Debug)]
struct Part {
    file: String,
    text: String,
    /// Positions of its subscribers among all.
    subscribers: Range<usize>,
}

/// Draft of all files, with their texts.
#[derive(Debug)]
pub(super) struct Merged {
    /// All plans and subscribers.
    pub draft: Draft,
    /// Path and text of every file beside the main one.
    pub others: Vec<(PathBuf, String)>,
    /// Reports of the fragments.
    pub reports: Vec<FileReport>,
    /// The main file first.
    parts: Vec<Part>,
    /// Part of each plan.
    plans: BTreeMap<String, usize>,
}

impl Merged {
    /// Decodes the main file and its fragments.
    ///
    /// # Errors
    /// Returns the first problem.
    pub fn read(file: &str, text: &str, files: &Files) -> Result<Merged, ConfigError> {
        let refuse = |at: Located| ConfigError { file: file.to_owned(), at };
        let document = Document::parse(text).map_err(refuse)?;
        let draft: Draft = document.decode().map_err(refuse)?;
        let plans = draft.plan.keys().map(|name| (name.clone(), 0)).collect();
        let subscribers = 0..draft.subscriber.len();
        let main = Part { file: file.to_owned(), text: text.to_owned(), subscribers };
        let (others, reports, parts) = (Vec::new(), Vec::new(), vec![main]);
        let mut merged = Merged { draft, others, reports, parts, plans };
        let Some(folder) = merged.draft.include.clone() else { return Ok(merged) };
        let key = KeyPath::from("include");
        let listed = files.fragments(&folder).map_err(|e| {
            let what = format!("{}: {e}", files.path(&folder).display());
            let expected = "a folder with *.toml files, relative to this file";
            merged.refused(Located::at(key.clone(), Problem::refused(what, expected)))
        })?;
        for path in listed {
            merged.add(&path, files)?;
        }
        Ok(merged)
    }

    fn add(&mut self, path: &Path, files: &Files) -> Result<(), ConfigError> {
        let file = files.path(path).display().to_string();
        let refuse = |at: Located| ConfigError { file: file.clone(), at };
        let unreadable = |what: String| {
            let expected = "a readable text file with [plan.NAME] and [[subscriber]]";
            refuse(Located::at(KeyPath::root(), Problem::refused(what, expected)))
        };
        if file.contains('\n') {
            return Err(unreadable("the name of the file has a newline".to_owned()));
        }
        let text = files.read(path).map_err(|e| unreadable(e.to_string()))?;
        let body = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let document = Document::parse(body).map_err(refuse)?;
        let fragment: Fragment = document.decode().map_err(refuse)?;
        for (name, plan) in fragment.plan {
            let key = KeyPath::from("plan").key(&name);
            if self.draft.plan.contains_key(&name) {
                let what = format!("plan \"{name}\" is in {} already", self.place(&key));
                let line = document.line(&key);
                let problem = Problem::refused(what, "each plan once");
                return Err(refuse(Located { line, key, problem }));
            }
            self.plans.insert(name.clone(), self.parts.len());
            self.draft.plan.insert(name, plan);
        }
        let first = self.draft.subscriber.len();
        self.draft.subscriber.extend(fragment.subscriber);
        let subscribers = first..self.draft.subscriber.len();
        let report = FileReport { subscribers: subscribers.len(), ..FileReport::of(file.clone()) };
        self.reports.push(report);
        self.parts.push(Part { file, text: body.to_owned(), subscribers });
        self.others.push((path.to_owned(), text));
        Ok(())
    }

    /// Returns the part of a key, and the key in it.
    fn find(&self, key: &KeyPath) -> (&Part, KeyPath) {
        let main = &self.parts[0];
        match key.0.as_slice() {
            [Step::Key(table), Step::Index(i), rest @ ..] if table == "subscriber" => {
                let part = self.parts.iter().find(|p| p.subscribers.contains(i)).unwrap_or(main);
                let local = i - part.subscribers.start;
                let mut path = KeyPath::from("subscriber").index(local);
                path.0.extend_from_slice(rest);
                (part, path)
            }
            [Step::Key(table), Step::Key(name), ..] if table == "plan" => {
                let part = self.plans.get(name).and_then(|i| self.parts.get(*i));
                (part.unwrap_or(main), key.clone())
            }
            _ => (main, key.clone()),
        }
    }

    /// Returns the file and line of a key, `gateway.toml:12`.
    pub fn place(&self, key: &KeyPath) -> String {
        let (part, key) = self.find(key);
        // Only for errors, so a text is parsed again instead of being kept parsed.
        let line = Document::parse(&part.text).ok().and_then(|d| d.line(&key));
        let file = one_line(&part.file);
        line.map_or(file.clone(), |line| format!("{file}:{line}"))
    }

    /// Returns an error in its file, with its line.
    pub fn refused(&self, at: Located) -> ConfigError {
        let (part, key) = self.find(&at.key);
        let line = Document::parse(&part.text).ok().and_then(|d| d.line(&key));
        ConfigError { file: part.file.clone(), at: Located { line, key, problem: at.problem } }
    }
}
