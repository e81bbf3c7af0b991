//! Problems of a document and their positions.

use core::fmt;

use crate::path::KeyPath;

/// A rejected document, with the position and the reason.
#[derive(Clone, PartialEq, Debug)]
pub struct Located {
    /// The line, from 1, if known.
    pub line: Option<usize>,
    /// The offending key.
    pub key: KeyPath,
    /// The problem.
    pub problem: Problem,
}

impl Located {
    /// Returns the problem of a key that was found after decoding.
    ///
    /// [`crate::Document::line`] has its line.
    pub fn at(key: KeyPath, problem: Problem) -> Self {
        Located { line: None, key, problem }
    }

    /// Returns one line, `file:line: key: problem; expected …`.
    pub fn in_file(&self, file: &str) -> String {
        let line = self.line.map_or(String::new(), |line| format!("{line}:"));
        format!("{}:{line} {self}", one_line(file))
    }
}

impl fmt::Display for Located {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.key.0.is_empty() {
            write!(f, "{}: ", one_line(&self.key.to_string()))?;
        }
        f.write_str(&one_line(&self.problem.to_string()))
    }
}
impl core::error::Error for Located {}

/// Kinds of problems.
#[derive(Clone, PartialEq, Debug)]
pub enum Problem {
    /// The text is not TOML; with the parser's message.
    Syntax(String),
    /// An unknown key.
    UnknownKey {
        /// The keys that are accepted there.
        known: Vec<String>,
    },
    /// A required key is absent.
    MissingKey(String),
    /// A value of the wrong type, or an unknown word.
    Value {
        /// Value found.
        found: String,
        /// Description of the accepted values.
        expected: String,
    },
    /// A number outside its range.
    OutOfRange {
        /// Value found.
        found: String,
        /// The accepted range, in words.
        expected: String,
    },
    /// Any other problem.
    Refused {
        /// Description of the problem.
        what: String,
        /// Accepted alternative.
        expected: String,
    },
}

impl Problem {
    /// Returns the problem of a value of the wrong kind.
    pub fn value(found: impl Into<String>, expected: impl Into<String>) -> Self {
        Problem::Value { found: found.into(), expected: expected.into() }
    }
    /// Returns the problem of a number outside its range.
    pub fn range(found: impl fmt::Display, expected: impl Into<String>) -> Self {
        Problem::OutOfRange { found: found.to_string(), expected: expected.into() }
    }
    /// Returns a problem with its own description.
    pub fn refused(what: impl Into<String>, expected: impl Into<String>) -> Self {
        Problem::Refused { what: what.into(), expected: expected.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Syntax(text) => write!(f, "{}; expected well-formed TOML", excerpt(text)),
            Problem::UnknownKey { known } if known.is_empty() => {
                f.write_str("unknown key; expected no key here")
            }
            Problem::UnknownKey { known } => {
                write!(f, "unknown key; expected one of {}", known.join(", "))
            }
            Problem::MissingKey(key) => write!(f, "`{key}` is missing; expected it to be given"),
            Problem::Value { found, expected } => {
                write!(f, "found {}; expected {expected}", excerpt(found))
            }
            Problem::OutOfRange { found, expected } => {
                write!(f, "{} is out of range; expected {expected}", excerpt(found))
            }
            Problem::Refused { what, expected } => {
                write!(f, "{}; expected {expected}", excerpt(what))
            }
        }
    }
}

/// Returns the text without control characters, cut to a readable length.
///
/// It may quote a hostile file.
pub fn one_line(text: &str) -> String {
    cut(text, 400)
}

/// Returns the text, cut so that the expected value is on the same line.
pub fn excerpt(text: &str) -> String {
    cut(text, 300)
}

fn cut(text: &str, longest: usize) -> String {
    let mut out: String = text.chars().filter(|c| !c.is_control()).take(longest).collect();
    if text.chars().nth(longest).is_some() {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A missing quotation mark makes a string continue to the end of the file.
    #[test]
    fn the_expected_value_follows_any_found_text() {
        let whole = "a file\n".repeat(1000);
        for problem in [
            Problem::Syntax(whole.clone()),
            Problem::value(whole.clone(), "a number"),
            Problem::range(&whole, "1 to 2"),
            Problem::refused(whole.clone(), "a name"),
        ] {
            let line = Located::at(KeyPath(Vec::new()), problem).in_file("x.toml");
            assert!(line.contains("…") && line.contains("; expected "), "{line}");
            assert!(!line.chars().any(char::is_control) && line.len() < 400, "{line}");
        }
    }
}
