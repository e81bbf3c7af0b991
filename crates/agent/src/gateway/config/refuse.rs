//! Errors of keys.

use fairmesh_document::{KeyPath, Located, Problem};

pub(crate) type Result<T> = core::result::Result<T, Located>;

pub(crate) fn fail<T>(key: KeyPath, problem: Problem) -> Result<T> {
    Err(Located::at(key, problem))
}

pub(crate) fn refused<T>(
    key: KeyPath,
    what: impl Into<String>,
    expected: impl Into<String>,
) -> Result<T> {
    fail(key, Problem::refused(what, expected))
}
