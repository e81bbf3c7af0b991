//! Whose a mechanism is: published, or ours.

use core::fmt;

/// Whose a mechanism, or a variant of one, is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// As it is published, what the text leaves open decided: the paper.
    Published(&'static str),
    /// Of this project.
    Ours {
        /// The paper that it builds on; empty where it does on none.
        after: &'static str,
    },
}

impl Origin {
    /// Whether it is of this project.
    pub const fn is_ours(self) -> bool {
        matches!(self, Origin::Ours { .. })
    }

    /// The paper that it is published in, or builds on; empty where there is none.
    pub const fn paper(self) -> &'static str {
        match self {
            Origin::Published(paper) | Origin::Ours { after: paper } => paper,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Published(paper) => f.write_str(paper),
            Origin::Ours { after: "" } => f.write_str("ours"),
            Origin::Ours { after } => write!(f, "ours, after {after}"),
        }
    }
}
