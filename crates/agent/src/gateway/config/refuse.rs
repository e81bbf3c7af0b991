//! Errors of keys.

use fairmesh_document::{KeyPath, Located, Problem};

pub(super) type Result<T> = core::result::Result<T, Located>;

pub(super) fn fail<T>(key: KeyPath, problem: Problem) -> Result<T> {
    Err(Located::at(key, problem))
}

pub(super) fn refused<T>(
    key: KeyPath,
    what: impl Into<String>,
    expected: impl Into<String>,
) -> Result<T> {
    fail(key, Problem::refused(what, expected))
}
