//! Position of a value in a document.

use core::fmt;

/// One step of a [`KeyPath`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// A key of a table.
    Key(String),
    /// An element of an array, from 0.
    Index(usize),
}

/// Position of a value in a file: `flow[2].to`.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct KeyPath(pub Vec<Step>);

impl KeyPath {
    /// Returns the path of the whole file.
    pub const fn root() -> Self {
        KeyPath(Vec::new())
    }
    /// Returns the path of a key in this table.
    pub fn key(mut self, key: &str) -> Self {
        self.0.push(Step::Key(key.to_owned()));
        self
    }
    /// Returns the path of an element of this array, from 0.
    pub fn index(mut self, index: usize) -> Self {
        self.0.push(Step::Index(index));
        self
    }
}

impl From<&str> for KeyPath {
    /// Returns a path of plain keys, separated by dots.
    fn from(keys: &str) -> Self {
        KeyPath(keys.split('.').map(|k| Step::Key(k.to_owned())).collect())
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(k) if i == 0 => f.write_str(k)?,
                Step::Key(k) => write!(f, ".{k}")?,
                Step::Index(n) => write!(f, "[{n}]")?,
            }
        }
        Ok(())
    }
}
