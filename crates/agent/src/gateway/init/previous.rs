//! The file that `init --force` replaces: a dated copy, and its differences.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};

use fairmesh_document::Document;
use serde::Serialize;
use serde_json::Value;

use super::text::line;
use crate::daemon::files::{self, Links};
use crate::error::AgentError;
use crate::gateway::history;

/// Largest file that is compared, in bytes.
const MAX_BYTES: u64 = 64 << 20;
/// Most differences that are printed; JSON has all.
const MAX_LISTED: usize = 40;
/// Most copies of one second.
const MAX_COPIES: u32 = 100;

/// A setting with different values; `None`: it is absent.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub(super) struct Difference {
    /// Key, with the name or number of a list's entry.
    key: String,
    /// Value in the replaced file.
    before: Option<String>,
    /// Value in the new file.
    after: Option<String>,
}

/// A replaced file.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub(super) struct Previous {
    /// Path of its copy.
    copy: PathBuf,
    /// Settings that differ; `None`: the replaced file cannot be read as TOML.
    differences: Option<Vec<Difference>>,
}

impl Previous {
    /// Keeps a copy of a file under a dated name.
    ///
    /// `None`: there is no regular file, or it has the new text already.
    ///
    /// # Errors
    /// The copy cannot be made; the file stays.
    pub(super) fn keep(path: &Path, new: &str, wall: u64) -> Result<Option<Previous>, AgentError> {
        if !std::fs::symlink_metadata(path).is_ok_and(|m| m.is_file()) {
            return Ok(None);
        }
        let failed = |problem| AgentError::Unwritable { path: path.to_owned(), problem };
        // A file that is not UTF-8 is kept as well.
        let old = match files::read_text(path, MAX_BYTES, Links::Refuse) {
            Ok(old) => Some(old),
            Err(e) if e.kind() == io::ErrorKind::InvalidData => None,
            Err(e) => return Err(failed(e)),
        };
        if old.as_deref() == Some(new) {
            return Ok(None);
        }
        let copy = link(path, wall).map_err(failed)?;
        let differences = old.and_then(|old| Some(compare(&settings(&old)?, &settings(new)?)));
        Ok(Some(Previous { copy, differences }))
    }

    /// Returns the lines for the operator.
    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        let mut put = |what: &str, text: &str| {
            let _ = writeln!(out, "{what:10} {}", line(text));
        };
        put("kept", &format!("{}: the replaced file", self.copy.display()));
        let Some(differences) = &self.differences else {
            put("differs", "the replaced file is not TOML; its settings are not compared");
            return out;
        };
        if differences.is_empty() {
            put("differs", "in comments and order only");
        }
        for d in differences.iter().take(MAX_LISTED) {
            let text = match (&d.before, &d.after) {
                (Some(before), Some(after)) => format!("{}: {before} -> {after}", d.key),
                (Some(before), None) => format!("{}: {before} is removed", d.key),
                (None, after) => format!("{}: {} is new", d.key, after.as_deref().unwrap_or("-")),
            };
            put("differs", &text);
        }
        if differences.len() > MAX_LISTED {
            put("differs", &format!("{} more (--json has all)", differences.len() - MAX_LISTED));
        }
        out
    }
}

/// Gives a file a second, dated name; where there are no links, a copy.
///
/// The file's content is never absent from the disk, and an existing copy stays.
fn link(path: &Path, wall: u64) -> io::Result<PathBuf> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let date: String = history::instant(wall).chars().filter(char::is_ascii_digit).collect();
    let mut taken = io::Error::from(io::ErrorKind::AlreadyExists);
    for n in 0..MAX_COPIES {
        let more = if n == 0 { String::new() } else { format!("-{n}") };
        let copy = path.with_file_name(format!("{name}.{date}{more}"));
        match std::fs::hard_link(path, &copy) {
            Ok(()) => return Ok(copy),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => taken = e,
            Err(_) => match std::fs::File::options().write(true).create_new(true).open(&copy) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => taken = e,
                Err(e) => return Err(e),
                Ok(mut file) => {
                    let mut old = std::fs::File::open(path)?;
                    file.set_permissions(old.metadata()?.permissions())?;
                    io::copy(&mut old, &mut file)?;
                    file.sync_all()?;
                    return Ok(copy);
                }
            },
        }
    }
    Err(taken)
}

/// Returns all settings of a text by key; `None` if it is not TOML.
fn settings(text: &str) -> Option<BTreeMap<String, String>> {
    let value: Value = Document::parse(text).ok()?.decode().ok()?;
    let mut all = BTreeMap::new();
    flatten(&value, String::new(), &mut all);
    Some(all)
}

fn flatten(value: &Value, key: String, all: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(table) => {
            for (name, value) in table {
                let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
                flatten(value, key, all);
            }
        }
        Value::Array(list) if list.iter().any(Value::is_object) => {
            for (i, value) in list.iter().enumerate() {
                let name = value.get("name").and_then(Value::as_str);
                let entry = name.map_or_else(|| i.to_string(), |name| format!("{name:?}"));
                flatten(value, format!("{key}[{entry}]"), all);
            }
        }
        value => {
            all.insert(key, value.to_string());
        }
    }
}

fn compare(old: &BTreeMap<String, String>, new: &BTreeMap<String, String>) -> Vec<Difference> {
    let keys: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let of = |key: &&String| Difference {
        key: (*key).clone(),
        before: old.get(*key).cloned(),
        after: new.get(*key).cloned(),
    };
    keys.iter().map(of).filter(|d| d.before != d.after).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: &str = "mode = \"observe\"\n[control]\nuse = \"fifo\"\n[plan.home]\nweight = 1\n";
    const OLD: &str = "# mine\nmode = \"apply\"\n[control]\nuse = \"fifo\"\n[plan.home]\nweight = 1\n\
                       down = \"20 Mbit/s\"\n[[subscriber]]\nname = \"mill\"\nprefixes = [\"10.0.0.1\"]\n";

    #[test]
    fn a_replaced_file_is_kept_and_compared() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gateway.toml");
        assert_eq!(Previous::keep(&path, NEW, 0).unwrap(), None, "no file");
        std::fs::write(&path, OLD).unwrap();
        // 2026-03-28 01:00:05 UTC, twice in one second.
        let keep = || Previous::keep(&path, NEW, 1_774_659_605).unwrap().unwrap();
        let (first, second) = (keep(), keep());
        assert_eq!(first.copy, folder.path().join("gateway.toml.20260328010005"));
        assert_eq!(second.copy, folder.path().join("gateway.toml.20260328010005-1"));
        // As `init` replaces it: by a new file.
        crate::daemon::store::replace(&path, NEW.as_bytes(), 0o644, true).unwrap();
        for copy in [&first.copy, &second.copy] {
            assert_eq!(std::fs::read_to_string(copy).unwrap(), OLD);
        }
        let text = first.text();
        for line in [
            "differs    mode: \"apply\" -> \"observe\"\n",
            "differs    plan.home.down: \"20 Mbit/s\" is removed\n",
            "differs    subscriber[\"mill\"].prefixes: [\"10.0.0.1\"] is removed\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(!text.contains("weight") && text.starts_with("kept       /"), "{text}");
        assert_eq!(Previous::keep(&path, NEW, 0).unwrap(), None, "the same text");
    }

    #[test]
    fn a_file_that_is_not_toml_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gateway.toml");
        for content in [&b"a = [\n"[..], b"\xff\xfe\x00"] {
            std::fs::write(&path, content).unwrap();
            let previous = Previous::keep(&path, NEW, 7).unwrap().unwrap();
            assert!(previous.text().contains("is not TOML"), "{}", previous.text());
            assert_eq!(std::fs::read(&previous.copy).unwrap(), content);
        }
        assert!(Previous::keep(folder.path(), NEW, 7).unwrap().is_none(), "a folder");
    }
}
