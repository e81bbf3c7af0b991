//! Checks of single values.

use fairmesh_document::{KeyPath, Located, Problem};
use fairmesh_units::{BitRate, Span};

use crate::gateway::config::refuse::{Result, fail};
use crate::gateway::config::text::{MAX_RATE, MIN_RATE, valid_name};

/// Checks a time in whole or fractional seconds against limits in seconds.
pub(super) fn span(
    given: Option<Span>,
    key: &str,
    default: u64,
    limits: (u64, u64),
) -> Result<Span> {
    let span = given.unwrap_or(Span::from_secs(default));
    let (least, most) = (Span::from_secs(limits.0), Span::from_secs(limits.1));
    if !(least..=most).contains(&span) {
        return fail(KeyPath::from(key), Problem::range(span, format!("{least} to {most}")));
    }
    Ok(span)
}

pub(super) fn limit(rate: BitRate, key: impl FnOnce() -> KeyPath) -> Result<()> {
    if (MIN_RATE..=MAX_RATE).contains(&rate) {
        return Ok(());
    }
    fail(key(), Problem::range(rate, format!("{MIN_RATE} to {MAX_RATE}")))
}

/// Checks a name: readable text of one line.
pub(super) fn name(given: &str, key: KeyPath) -> Result<String> {
    valid_name(given).ok_or_else(|| {
        let what = format!("\"{given}\" is not a valid name");
        Located::at(key, Problem::refused(what, "1 to 64 printable characters"))
    })
}
