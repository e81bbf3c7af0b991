//! Scenario errors and their positions.

use core::fmt;

use fairmesh_document::{Located, excerpt, one_line};
use fairmesh_units::{BitRate, QuantityError};

pub use fairmesh_document::{KeyPath, Step};

/// A refused scenario: one line, `file:line: key: problem; expected …`.
#[derive(Clone, PartialEq, Debug)]
pub struct ScenarioError {
    /// The file, if the scenario came from one.
    pub file: Option<Box<str>>,
    /// Line in the file, from 1, if known.
    pub line: Option<usize>,
    /// Invalid key.
    pub key: KeyPath,
    /// The problem.
    pub problem: Problem,
    /// Boxed, because most errors have no context.
    context: Option<Box<Context>>,
}

#[derive(Clone, PartialEq, Debug, Default)]
struct Context {
    overridden: Option<Override>,
    bound: Option<KeyPath>,
}

/// A key with a value from outside the file.
#[derive(Clone, PartialEq, Debug)]
pub struct Override {
    /// The key; `*` stands for every element of a list.
    pub key: KeyPath,
    /// Setting or option that set it.
    pub by: String,
}

impl ScenarioError {
    pub(crate) fn at(key: KeyPath, problem: Problem) -> Self {
        ScenarioError { file: None, line: None, key, problem, context: None }
    }

    /// Names the key with the value that bounds the refused one.
    pub(crate) fn bounded_by(mut self, key: &str) -> Self {
        self.context.get_or_insert_default().bound = Some(key.into());
        self
    }

    pub(crate) fn bound(&self) -> Option<&KeyPath> {
        self.context.as_ref()?.bound.as_ref()
    }

    pub(crate) fn caused_by(mut self, o: Override) -> Self {
        self.context.get_or_insert_default().overridden = Some(o);
        self
    }

    /// Returns the override that set the value at `key`, or the one that the value contradicts.
    pub fn overridden(&self) -> Option<&Override> {
        self.context.as_ref()?.overridden.as_ref()
    }

    /// Renames the source of the override: the user's option instead of a setting.
    #[must_use]
    pub fn with_override_by(self, by: impl Into<String>) -> Self {
        match self.overridden().cloned() {
            Some(o) => self.caused_by(Override { by: by.into(), ..o }),
            None => self,
        }
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}:", one_line(file))?;
            if let Some(line) = self.line {
                write!(f, "{line}:")?;
            }
            f.write_str(" ")?;
        }
        if !self.key.0.is_empty() {
            write!(f, "{}: ", one_line(&self.key.to_string()))?;
        }
        write!(f, "{}", one_line(&self.problem.to_string()))?;
        match self.overridden() {
            Some(Override { key, by }) if key.to_string() == *by => {
                write!(f, " (`{key}` is overridden)")
            }
            Some(Override { key, by }) => {
                write!(f, " (`{}` is given by {})", one_line(&key.to_string()), one_line(by))
            }
            None => Ok(()),
        }
    }
}
impl core::error::Error for ScenarioError {}

/// Kinds of scenario errors.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Problem {
    /// An empty file, or only white space.
    Empty,
    /// A file above the size limit.
    FileTooLarge {
        /// The file's size.
        bytes: usize,
        /// Maximum size.
        most: usize,
    },
    /// Not text.
    NotUtf8 {
        /// Offset of the first wrong byte.
        offset: usize,
    },
    /// JSON, but neither NetJSON nor meshviewer.json.
    UnknownFormat,
    /// Invalid TOML or JSON, with the parser's message.
    Syntax(String),
    /// An unknown key.
    UnknownKey {
        /// Keys that are known at this place.
        known: Vec<String>,
    },
    /// A required key is absent.
    MissingKey(String),
    /// A value of the wrong type, or an unknown name.
    Value {
        /// Value found.
        found: String,
        /// Description of the accepted values.
        expected: String,
    },
    /// A quantity's text was refused.
    Quantity(QuantityError),
    /// A number outside its range.
    OutOfRange {
        /// Value found.
        found: String,
        /// Accepted range, in words.
        expected: String,
    },
    /// Any other problem: keys that exclude each other, unusable settings.
    Refused {
        /// Description of the problem.
        what: String,
        /// Accepted alternative.
        expected: String,
    },
    /// A node name that does not exist.
    UnknownNode(String),
    /// Two nodes with the same name.
    DuplicateNode(String),
    /// Two other objects with the same name.
    DuplicateName(String),
    /// A link or wire from a node to itself.
    SelfLink(String),
    /// A duplicate link.
    DuplicateLink(String, String),
    /// A pair of nodes without a link.
    NoSuchLink(String, String),
    /// No path between a flow's ends.
    Unreachable {
        /// The flow's source.
        from: String,
        /// The flow's destination.
        to: String,
    },
    /// A flow to its own source.
    SameEnds(String),
    /// A flow that stops before or when it starts.
    StopBeforeStart,
    /// A rate that the PHY does not have.
    NoSuchRate {
        /// The refused rate.
        rate: BitRate,
        /// The PHY's table.
        table: Vec<BitRate>,
    },
    /// An unknown control, variant or setting.
    UnknownControl {
        /// The refused name.
        name: String,
        /// Names that exist.
        known: Vec<String>,
    },
    /// More nodes than the limit.
    TooManyNodes {
        /// Number of nodes requested.
        nodes: u64,
        /// Maximum number accepted.
        most: u64,
    },
    /// More pairs of nodes in range of each other than the limit.
    TooDense {
        /// Maximum number accepted.
        most: usize,
    },
    /// No connected random placement was found.
    NotConnected {
        /// Placements tried.
        attempts: u32,
    },
    /// An empty simulation: no node, or no flow.
    Nothing {
        /// Missing item.
        what: &'static str,
    },
}

impl Problem {
    /// A number outside its range.
    pub(crate) fn range(found: impl fmt::Display, expected: impl Into<String>) -> Self {
        Problem::OutOfRange { found: found.to_string(), expected: expected.into() }
    }
    /// Returns a problem with its own text.
    pub(crate) fn refused(what: impl Into<String>, expected: impl Into<String>) -> Self {
        Problem::Refused { what: what.into(), expected: expected.into() }
    }

    /// Describes the problem, without the accepted values.
    pub fn description(&self) -> String {
        match self {
            Problem::Empty => "the file is empty".into(),
            Problem::FileTooLarge { bytes, .. } => format!("the file has {bytes} bytes"),
            Problem::NotUtf8 { offset } => format!("byte {offset} is not UTF-8 text"),
            Problem::UnknownFormat => "the file's format is not recognised".into(),
            Problem::Syntax(message) => message.clone(),
            Problem::UnknownKey { .. } => "unknown key".into(),
            Problem::MissingKey(key) => format!("`{key}` is missing"),
            Problem::Value { found, .. } => format!("found {found}"),
            Problem::Quantity(e) => e.description(),
            Problem::OutOfRange { found, .. } => format!("{found} is out of range"),
            Problem::Refused { what, .. } => what.clone(),
            Problem::UnknownNode(name) => format!("there is no node \"{name}\""),
            Problem::DuplicateNode(name) => format!("node \"{name}\" is declared twice"),
            Problem::DuplicateName(name) => format!("the name \"{name}\" is used twice"),
            Problem::SelfLink(name) => format!("node \"{name}\" is linked to itself"),
            Problem::DuplicateLink(a, b) => format!("the link {a} to {b} is given twice"),
            Problem::NoSuchLink(a, b) => format!("there is no link {a} to {b}"),
            Problem::Unreachable { from, to } => {
                format!("\"{to}\" cannot be reached from \"{from}\"")
            }
            Problem::SameEnds(name) => format!("the flow starts and ends at \"{name}\""),
            Problem::StopBeforeStart => "the flow stops before it starts".into(),
            Problem::NoSuchRate { rate, .. } => format!("the PHY has no rate of {rate}"),
            Problem::UnknownControl { name, .. } => format!("there is no control \"{name}\""),
            Problem::TooManyNodes { nodes, .. } => format!("{nodes} nodes"),
            Problem::TooDense { .. } => "too many nodes receive each other".into(),
            Problem::NotConnected { attempts } => {
                format!("none of {attempts} random placements is connected")
            }
            Problem::Nothing { what } => format!("the scenario has no {what}"),
        }
    }

    /// Describes the accepted values.
    pub fn expected(&self) -> String {
        match self {
            Problem::Empty => {
                "a scenario in TOML, a NetJSON NetworkGraph or meshviewer.json".into()
            }
            Problem::FileTooLarge { most, .. } => format!("at most {most} bytes"),
            Problem::NotUtf8 { .. } => "a text file".into(),
            Problem::UnknownFormat => {
                "TOML, NetJSON with `type` \"NetworkGraph\" or \"NetworkCollection\", or \
                 meshviewer.json with lists `nodes` and `links`"
                    .into()
            }
            Problem::Syntax(_) => "well-formed TOML or JSON".into(),
            Problem::UnknownKey { known } => list("one of", known),
            Problem::MissingKey(_) => "it to be given".into(),
            Problem::Value { expected, .. }
            | Problem::OutOfRange { expected, .. }
            | Problem::Refused { expected, .. } => expected.clone(),
            Problem::Quantity(e) => e.expected.expected().to_owned(),
            Problem::UnknownNode(_) => "a node of the topology or a wired host".into(),
            Problem::DuplicateNode(_) | Problem::DuplicateName(_) => "each name once".into(),
            Problem::SelfLink(_) => "two different nodes".into(),
            Problem::DuplicateLink(..) => {
                "each link once; a link counts for both directions unless \
                 `directed = true`"
                    .into()
            }
            Problem::NoSuchLink(..) => "two nodes that decode each other or share a wire".into(),
            Problem::Unreachable { .. } => "a path of links that decode in both directions".into(),
            Problem::SameEnds(_) => "two different nodes".into(),
            Problem::StopBeforeStart => "`stop` after `start`".into(),
            Problem::NoSuchRate { table, .. } => {
                list("one of", &table.iter().map(ToString::to_string).collect::<Vec<_>>())
            }
            Problem::UnknownControl { known, .. } => list("one of", known),
            Problem::TooManyNodes { most, .. } => format!("at most {most}"),
            Problem::TooDense { most } => {
                format!("at most {most} ordered pairs within sensing range")
            }
            Problem::NotConnected { .. } => {
                "more nodes, a smaller area, or `connected = false`".into()
            }
            Problem::Nothing { what } => format!("at least one {what}"),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; expected {}", excerpt(&self.description()), self.expected())
    }
}

fn list(head: &str, items: &[String]) -> String {
    if items.is_empty() {
        return "no key here".to_owned();
    }
    format!("{head} {}", items.join(", "))
}

impl From<QuantityError> for Problem {
    fn from(e: QuantityError) -> Self {
        Problem::Quantity(e)
    }
}

impl From<fairmesh_document::Problem> for Problem {
    fn from(problem: fairmesh_document::Problem) -> Self {
        use fairmesh_document::Problem as Wrong;
        match problem {
            Wrong::Syntax(text) => Problem::Syntax(text),
            Wrong::UnknownKey { known } => Problem::UnknownKey { known },
            Wrong::MissingKey(key) => Problem::MissingKey(key),
            Wrong::Value { found, expected } => Problem::Value { found, expected },
            Wrong::OutOfRange { found, expected } => Problem::OutOfRange { found, expected },
            Wrong::Refused { what, expected } => Problem::Refused { what, expected },
        }
    }
}

impl From<Located> for ScenarioError {
    fn from(e: Located) -> Self {
        ScenarioError { line: e.line, ..ScenarioError::at(e.key, e.problem.into()) }
    }
}
