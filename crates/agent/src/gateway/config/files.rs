//! The files of a configuration: on disk, or stored together in one file.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};

use super::MAX_BYTES;
use crate::daemon::files::{self, Links};

/// Comment that begins a stored file; its path follows.
const FILE_COMMENT: &str = "#:file ";
/// Beginning of each line of a stored file.
const LINE_COMMENT: &str = "#:|";

/// The files beside the main one.
#[derive(Debug)]
pub(super) enum Files {
    /// On disk; relative paths are relative to this folder.
    Disk(PathBuf),
    /// Stored in the comments of the main file, by path.
    Stored(BTreeMap<PathBuf, String>),
}

impl Files {
    /// Returns the files beside a main file on disk.
    pub fn beside(main: &Path) -> Files {
        Files::Disk(main.parent().unwrap_or(Path::new("")).to_owned())
    }

    /// Returns the files that [`bundle`] stored in a text.
    pub fn stored(text: &str) -> Files {
        let mut stored: BTreeMap<PathBuf, String> = BTreeMap::new();
        let mut current: Option<(PathBuf, Vec<&str>)> = None;
        for line in text.split('\n') {
            if let Some(path) = line.strip_prefix(FILE_COMMENT) {
                stored.extend(current.take().map(|(path, lines)| (path, lines.join("\n"))));
                current = Some((PathBuf::from(path), Vec::new()));
            } else if let (Some(rest), Some((_, lines))) =
                (line.strip_prefix(LINE_COMMENT), &mut current)
            {
                lines.push(rest);
            }
        }
        stored.extend(current.map(|(path, lines)| (path, lines.join("\n"))));
        Files::Stored(stored)
    }

    /// Returns the full path of a path in the main file.
    pub fn path(&self, given: &Path) -> PathBuf {
        match self {
            Files::Disk(folder) => folder.join(given),
            Files::Stored(_) => given.to_owned(),
        }
    }

    /// Reads a file as text.
    ///
    /// # Errors
    /// The system's; a stored file that is not there.
    pub fn read(&self, given: &Path) -> io::Result<String> {
        match self {
            Files::Disk(folder) => files::read_text(&folder.join(given), MAX_BYTES, Links::Follow)
                .map_err(|e| match e.kind() {
                    io::ErrorKind::InvalidData => io::Error::other("is not UTF-8 text"),
                    _ => e,
                }),
            Files::Stored(stored) => {
                stored.get(given).cloned().ok_or_else(|| io::Error::other("was not stored"))
            }
        }
    }

    /// Returns the `*.toml` files of a folder, by name; hidden ones are left out.
    ///
    /// # Errors
    /// Returns the system's.
    pub fn fragments(&self, given: &Path) -> io::Result<Vec<PathBuf>> {
        let mut found = match self {
            Files::Disk(folder) => std::fs::read_dir(folder.join(given))?
                .map(|entry| Ok(given.join(entry?.file_name())))
                .collect::<io::Result<Vec<_>>>()?,
            Files::Stored(stored) => stored.keys().cloned().collect(),
        };
        let fragment = |path: &PathBuf| {
            let hidden = path.file_name().is_none_or(|n| n.as_encoded_bytes().starts_with(b"."));
            path.parent() == Some(given) && !hidden && path.extension().is_some_and(|e| e == "toml")
        };
        found.retain(fragment);
        found.sort();
        Ok(found)
    }
}

/// Returns the main file's text with the other files in comments.
pub(super) fn bundle(main: &str, others: &[(PathBuf, String)]) -> String {
    let mut out = main.to_owned();
    for (path, text) in others {
        // Writing to a string cannot fail. A path with a newline was refused.
        let _ = write!(out, "\n{FILE_COMMENT}{}", path.display());
        for line in text.split('\n') {
            let _ = write!(out, "\n{LINE_COMMENT}{line}");
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_files_come_back_to_the_byte() {
        let texts = ["", "a", "a\r\nb;\"c\nd\"\n", "\u{feff}#:file x\n#:|y\n\n"];
        let path = |i| PathBuf::from(format!("gateway.d/{i}.toml"));
        let others: Vec<_> =
            texts.iter().enumerate().map(|(i, t)| (path(i), (*t).into())).collect();
        let text = bundle("mode = \"apply\"", &others);
        let files = Files::stored(&text);
        for (i, expected) in texts.iter().enumerate() {
            assert_eq!(files.read(&path(i)).unwrap(), *expected);
        }
        assert_eq!(files.fragments(Path::new("gateway.d")).unwrap().len(), texts.len());
        assert_eq!(bundle(&text, &[]), text);
        assert!(files.read(Path::new("other")).is_err());
    }
}
