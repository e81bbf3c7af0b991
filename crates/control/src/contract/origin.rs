//! Whose a mechanism is: published, or ours.

use core::fmt;
use std::borrow::Cow;

/// Whose a mechanism, or a variant of one, is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// As it is published, what the text leaves open decided: the paper.
    Published(Cow<'static, str>),
    /// Not published, or not as it is here.
    Ours {
        /// The paper that it builds on; empty where it builds on none.
        after: Cow<'static, str>,
    },
}

impl Origin {
    /// As it is published in this paper.
    pub fn published(paper: impl Into<Cow<'static, str>>) -> Self {
        Origin::Published(paper.into())
    }

    /// Not published; it builds on this paper, or on none if that is empty.
    pub fn ours(after: impl Into<Cow<'static, str>>) -> Self {
        Origin::Ours { after: after.into() }
    }

    /// Whether it is not published.
    pub const fn is_ours(&self) -> bool {
        matches!(self, Origin::Ours { .. })
    }

    /// The paper that it is published in, or builds on; empty where there is none.
    pub fn paper(&self) -> &str {
        match self {
            Origin::Published(paper) | Origin::Ours { after: paper } => paper,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Published(paper) => f.write_str(paper),
            Origin::Ours { after } if after.is_empty() => f.write_str("ours"),
            Origin::Ours { after } => write!(f, "ours, after {after}"),
        }
    }
}
