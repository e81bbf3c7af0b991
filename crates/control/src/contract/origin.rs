//! Origin of a mechanism: a publication or this project.

use core::fmt;
use std::borrow::Cow;

/// Origin of a mechanism or of a variant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// As published in this paper; points that the text leaves open are decided.
    Published(Cow<'static, str>),
    /// Not published, or not in this form.
    Ours {
        /// Paper that it builds on; empty if there is none.
        after: Cow<'static, str>,
    },
}

impl Origin {
    /// Published in this paper.
    pub fn published(paper: impl Into<Cow<'static, str>>) -> Self {
        Origin::Published(paper.into())
    }

    /// Not published; builds on this paper, or on none if that is empty.
    pub fn ours(after: impl Into<Cow<'static, str>>) -> Self {
        Origin::Ours { after: after.into() }
    }

    /// True if it is not published.
    pub const fn is_ours(&self) -> bool {
        matches!(self, Origin::Ours { .. })
    }

    /// Returns the paper that publishes it or that it builds on; empty if there is none.
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
