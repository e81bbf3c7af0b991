//! Provenance of a draft's values: the file and its lines, and the overrides.

use core::fmt;
use std::sync::Arc;

use fairmesh_document::Document;

use crate::error::{KeyPath, Override, ScenarioError, Step};

/// Source of the values of a [`Draft`](crate::Draft).
///
/// Two drafts with the same values are equal whatever their origin.
#[derive(Clone, Default)]
pub struct Origin {
    file: Option<Arc<str>>,
    text: Option<Arc<str>>,
    overrides: Vec<Override>,
    warnings: Vec<String>,
}

impl PartialEq for Origin {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Origin")
            .field("file", &self.file)
            .field("overrides", &self.overrides)
            .finish_non_exhaustive()
    }
}

impl Origin {
    /// Returns the origin of values of a TOML file.
    pub(crate) fn text(file: &str, text: &str) -> Self {
        Origin { file: Some(file.into()), text: Some(text.into()), ..Origin::default() }
    }

    /// Returns the origin of values of a map, with the notes of its importer.
    ///
    /// Its keys differ from those of a draft.
    pub(crate) fn map(file: &str, warnings: Vec<String>) -> Self {
        Origin { file: Some(file.into()), warnings, ..Origin::default() }
    }

    /// Returns the notes of the importer.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Records that a key has another value than the file.
    pub(crate) fn add(&mut self, new: Override) {
        self.overrides.retain(|old| old.key != new.key);
        self.overrides.push(new);
    }

    /// Adds to an error the file, the line, and the override that caused it.
    pub(crate) fn locate(&self, mut e: ScenarioError) -> ScenarioError {
        let over = |key: &KeyPath| self.overrides.iter().rev().find(|o| inside(&o.key, key));
        let own = over(&e.key);
        let cause = own.or_else(|| over(e.bound()?)).cloned();
        if own.is_none() && e.line.is_none() {
            let document = self.text.as_deref().and_then(|text| Document::parse(text).ok());
            e.line = document.and_then(|d| d.line(&e.key));
        }
        if e.file.is_none() {
            e.file = self.file.as_deref().map(Box::from);
        }
        match cause {
            Some(o) => e.caused_by(o),
            None => e,
        }
    }
}

/// Returns true if `key` was set by an override of `whole`.
///
/// `*` in `whole` matches every element.
fn inside(whole: &KeyPath, key: &KeyPath) -> bool {
    let same = |(a, b): (&Step, &Step)| match (a, b) {
        (Step::Key(star), Step::Index(_)) if star == "*" => true,
        (Step::Key(number), Step::Index(i)) => *number == i.to_string(),
        (a, b) => a == b,
    };
    key.0.len() >= whole.0.len() && whole.0.iter().zip(&key.0).all(same)
}
