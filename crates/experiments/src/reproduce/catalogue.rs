//! Locations of experiments, and lookup of an experiment by name.

use std::fs;
use std::path::{Path, PathBuf};

use fairmesh_control::Registry;
use fairmesh_lab::LabError;
use include_dir::{Dir, include_dir};

use super::declare::Experiment;
use super::paper::Paper;

/// Experiments at build time.
static BUILT_IN: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../reproductions");

/// Scenarios at build time.
static SCENARIOS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../scenarios");

/// File that marks a folder as an experiment.
const DECLARATION_FILE: &str = "experiment.toml";
/// Folder of the stored records.
pub const RECORDS_FOLDER: &str = "records";

/// The experiments and the mechanisms that they may name.
#[derive(Clone, Debug)]
pub struct Catalogue {
    place: Place,
    registry: Registry,
}

/// Source of experiments.
#[derive(Clone, Debug)]
enum Place {
    /// Embedded in the program.
    BuiltIn,
    /// A folder that can be edited.
    Folder(PathBuf),
}

/// One experiment with all its files.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Id of the experiment, which is the name of its folder.
    pub id: String,
    /// The declaration.
    pub experiment: Experiment,
    /// The paper's numbers.
    pub paper: Paper,
    /// Decisions where the paper gives no value, and reasons for deviating results.
    pub notes: Notes,
    /// Location of its files.
    pub(super) from: Catalogue,
}

/// The two parts of `notes.md`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// Values read from text, and decisions where the paper gives none.
    pub read: String,
    /// Reasons for differences between our results and the paper's.
    pub differs: String,
}

impl Catalogue {
    /// Returns the experiments of a folder.
    pub fn at(folder: PathBuf, registry: Registry) -> Self {
        Catalogue { place: Place::Folder(folder), registry }
    }

    /// Returns the mechanisms that experiments may name.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Returns the experiments of `given`, of `reproductions`, or those embedded in the program.
    ///
    /// `reproductions` is used if the current folder has one with experiments.
    ///
    /// # Errors
    /// Returns an error if `given` has no experiment.
    pub fn find(given: Option<&Path>, registry: Registry) -> Result<Self, LabError> {
        let folder = given.unwrap_or(Path::new("reproductions"));
        let found = Catalogue::at(folder.to_owned(), registry.clone());
        match (found.ids(), given) {
            (Ok(ids), _) if !ids.is_empty() => Ok(found),
            (_, None) => Ok(Catalogue { place: Place::BuiltIn, registry }),
            (Ok(_), Some(_)) => {
                let problem =
                    format!("holds no experiment; expected folders with {DECLARATION_FILE}");
                Err(LabError::file(folder, problem))
            }
            (Err(e), Some(_)) => Err(e),
        }
    }

    /// Returns the folder; `None` for embedded experiments.
    pub fn folder(&self) -> Option<&Path> {
        match &self.place {
            Place::BuiltIn => None,
            Place::Folder(f) => Some(f),
        }
    }

    /// Returns every id, tables and figures in the order of the paper.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be read.
    pub fn ids(&self) -> Result<Vec<String>, LabError> {
        let mut ids: Vec<String> = match &self.place {
            Place::BuiltIn => BUILT_IN
                .dirs()
                .filter(|d| d.get_file(d.path().join(DECLARATION_FILE)).is_some())
                .filter_map(|d| d.path().file_name())
                .map(|n| n.to_string_lossy().into_owned())
                .collect(),
            Place::Folder(folder) => {
                let unreadable = |e| {
                    LabError::file(
                        folder,
                        format!("cannot be read ({e}); expected a folder of experiments"),
                    )
                };
                let mut ids = Vec::new();
                for entry in fs::read_dir(folder).map_err(unreadable)? {
                    let entry = entry.map_err(unreadable)?;
                    if entry.path().join(DECLARATION_FILE).is_file() {
                        ids.push(entry.file_name().to_string_lossy().into_owned());
                    }
                }
                ids
            }
        };
        ids.sort_by(|a, b| key(a).cmp(&key(b)));
        Ok(ids)
    }

    /// Returns a file below the folder; `None` if there is none.
    ///
    /// # Errors
    /// Returns an error if it exists and cannot be read.
    pub fn file(&self, path: &str) -> Result<Option<String>, LabError> {
        match &self.place {
            Place::BuiltIn => {
                Ok(BUILT_IN.get_file(path).and_then(|f| f.contents_utf8()).map(str::to_owned))
            }
            Place::Folder(folder) => {
                let path = folder.join(path);
                match fs::read_to_string(&path) {
                    Ok(text) => Ok(Some(text)),
                    Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
                    Err(e) => Err(LabError::file(&path, format!("cannot be read: {e}"))),
                }
            }
        }
    }

    /// Returns a file of the folder `scenarios` beside that of the experiments.
    fn shared(&self, file: &str) -> Result<(PathBuf, String), LabError> {
        let (path, text) = match &self.place {
            Place::BuiltIn => {
                let text = SCENARIOS.get_file(file).and_then(|f| f.contents_utf8());
                (Path::new("scenarios").join(file), text.map(str::to_owned))
            }
            Place::Folder(folder) => {
                let path = folder.join("../scenarios").join(file);
                let text = fs::read_to_string(&path).ok();
                (path, text)
            }
        };
        let text = text
            .ok_or_else(|| LabError::file(&path, "there is no such file; expected a scenario"))?;
        Ok((path, text))
    }

    /// Returns the path of a file for messages.
    pub fn shown(&self, path: &str) -> PathBuf {
        match &self.place {
            Place::BuiltIn => Path::new("reproductions").join(path),
            Place::Folder(folder) => folder.join(path),
        }
    }

    /// Returns the ids for names on the command line; `all` stands for every id.
    ///
    /// # Errors
    /// Returns an error if a name matches no experiment, or several.
    pub fn resolve(&self, names: &[String]) -> Result<Vec<String>, LabError> {
        let ids = self.ids()?;
        let mut chosen: Vec<String> = Vec::new();
        for name in names {
            if name == "all" {
                return Ok(ids);
            }
            let id = meant(name, &ids).map_err(|e| LabError::run(name, e))?;
            if !chosen.contains(&id) {
                chosen.push(id);
            }
        }
        Ok(chosen)
    }

    /// Reads an experiment.
    ///
    /// # Errors
    /// Returns the problem with one of its files, and its position.
    pub fn read(&self, id: &str) -> Result<Entry, LabError> {
        let name = format!("{id}/{DECLARATION_FILE}");
        let text = self.file(&name)?.ok_or_else(|| {
            LabError::file(self.shown(&name), "there is no such file; expected an experiment")
        })?;
        let mut experiment: Experiment = self.toml(&name, &text)?;
        experiment.expand(&self.registry);
        experiment.mark_second(&self.registry);
        experiment.check(&self.registry).map_err(|e| LabError::file(self.shown(&name), e))?;
        let name = format!("{id}/paper.toml");
        let paper = match self.file(&name)? {
            Some(text) => self.toml(&name, &text)?,
            None => Paper::default(),
        };
        paper.check(experiment.is_quoted()).map_err(|e| LabError::file(self.shown(&name), e))?;
        let notes = Notes::of(&self.file(&format!("{id}/notes.md"))?.unwrap_or_default());
        Ok(Entry { id: id.to_owned(), experiment, paper, notes, from: self.clone() })
    }

    /// Reads a TOML file of the catalogue; errors have the line.
    pub(crate) fn toml<T: serde::de::DeserializeOwned>(
        &self,
        name: &str,
        text: &str,
    ) -> Result<T, LabError> {
        toml::from_str(text).map_err(|e| {
            let at = e.span().map_or(String::new(), |span| {
                format!("line {}: ", text[..span.start.min(text.len())].matches('\n').count() + 1)
            });
            LabError::file(self.shown(name), format!("{at}{}", e.message()))
        })
    }
}

impl Entry {
    /// Returns the mechanisms that the experiment may name.
    pub fn registry(&self) -> &Registry {
        self.from.registry()
    }

    /// Returns a scenario file of the experiment.
    ///
    /// # Errors
    /// Returns an error if it does not exist.
    pub fn scenario(&self, file: &str) -> Result<(PathBuf, String), LabError> {
        if let Some(shared) = file.strip_prefix("scenarios/") {
            return self.from.shared(shared);
        }
        let name = format!("{}/{file}", self.id);
        let path = self.from.shown(&name);
        match self.from.file(&name)? {
            Some(text) => Ok((path, text)),
            None => Err(LabError::file(path, "there is no such file; expected a scenario")),
        }
    }
}

impl Notes {
    /// Splits `notes.md` at its second heading.
    fn of(text: &str) -> Self {
        let mut parts = [String::new(), String::new()];
        let mut part = 0;
        for line in text.lines() {
            if let Some(heading) = line.strip_prefix("# ") {
                part = usize::from(heading.contains("differ"));
            } else {
                parts[part] += line;
                parts[part].push('\n');
            }
        }
        let [read, differs] = parts.map(|p| p.trim().to_owned());
        Notes { read, differs }
    }
}

/// Returns a sort key for ids: papers, tables before figures, then by number.
fn key(id: &str) -> (String, Vec<u32>, &str) {
    let (kind, number) = id.rsplit_once('-').unwrap_or((id, ""));
    let numbers: Vec<u32> = number.split('.').filter_map(|n| n.parse().ok()).collect();
    // "table" is sorted before "figure".
    (kind.replace("-table", "-a-table"), numbers, id)
}

/// Returns the id for `name`: the id itself, or the only id that ends with it after a dash.
fn meant(name: &str, ids: &[String]) -> Result<String, String> {
    let wanted = name.to_lowercase().replace(['_', ' '], "-");
    let wanted = match wanted.split_once("fig-") {
        Some((before, after)) if before.is_empty() || before.ends_with('-') => {
            format!("{before}figure-{after}")
        }
        _ => wanted,
    };
    if let Some(id) = ids.iter().find(|id| **id == wanted) {
        return Ok(id.clone());
    }
    let fitting: Vec<&String> = ids
        .iter()
        .filter(|id| id.strip_suffix(&wanted).is_some_and(|front| front.ends_with('-')))
        .collect();
    match fitting[..] {
        [one] => Ok(one.clone()),
        [] => Err("there is no such experiment; expected all, list, or one that fairmesh-experiments reproduce list shows".to_owned()),
        _ => {
            let all: Vec<&str> = fitting.iter().map(|s| s.as_str()).collect();
            Err(format!("may be any of {}; expected one of them", all.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_are_accepted_when_they_mean_one() {
        let ids = [
            "jamshaid-table-6.2",
            "jamshaid-figure-6.2",
            "jamshaid-figure-3.2",
            "mancuso-table-6.2",
        ]
        .map(String::from);
        let meant = |name: &str| meant(name, &ids);
        assert_eq!(meant("jamshaid-table-6.2").unwrap(), "jamshaid-table-6.2");
        assert_eq!(meant("fig-3.2").unwrap(), "jamshaid-figure-3.2");
        assert_eq!(meant("Figure 6.2").unwrap(), "jamshaid-figure-6.2");
        assert_eq!(meant("3.2").unwrap(), "jamshaid-figure-3.2");
        assert!(meant("table-6.2").unwrap_err().contains("mancuso-table-6.2"));
        assert!(meant("6.2").unwrap_err().contains("expected one of them"));
        assert!(meant("9").unwrap_err().contains("no such experiment"));
        assert!(meant("2").is_err(), "6.2 does not end with 2 at a dash");
    }

    #[test]
    fn ids_are_in_the_order_of_the_paper() {
        let mut ids = ["c-d", "a-figure-10.2", "a-figure-9.1", "c", "b-table-1.1", "a-table-4.1"]
            .map(String::from);
        ids.sort_by(|a, b| key(a).cmp(&key(b)));
        let sorted = ["a-table-4.1", "a-figure-9.1", "a-figure-10.2", "b-table-1.1", "c", "c-d"];
        assert_eq!(ids, sorted);
    }

    #[test]
    fn notes_have_two_parts() {
        let n = Notes::of("# Read and decided\n\nA.\n\n# Where ours differs\nB\nC.\n");
        assert_eq!((n.read.as_str(), n.differs.as_str()), ("A.", "B\nC."));
        assert_eq!(Notes::of(""), Notes::default());
    }
}
