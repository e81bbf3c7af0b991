//! Mechanisms by name.

use core::fmt;

use crate::mechanism::list;
use crate::{Entry, Mechanism};

/// Every mechanism, in the order in which they are listed. Adding one: its file and its line here.
static REGISTRY: &[&Entry] = &[
    &crate::fifo::ENTRY,
    &crate::gateway_queue::FQ,
    &crate::gateway_queue::RED,
    &crate::gateway_queue::FRED,
    &crate::static_aggregate::SHARED,
    &crate::static_aggregate::FAIR,
    &crate::static_flow::ENTRY,
    &crate::source::ENTRY,
    &crate::tcp_ap::ENTRY,
    &crate::arc::SHARED,
    &crate::arc::FAIR,
    &crate::pfrc::ENTRY,
    &crate::gap::ENTRY,
    &crate::ifa::ENTRY,
    &crate::lbm::ENTRY,
    &crate::nred::ENTRY,
    &crate::lred::ENTRY,
    &crate::cna::ENTRY,
    &crate::wcp::ENTRY,
    &crate::wcpcap::ENTRY,
];

/// Every mechanism.
pub fn all() -> impl Iterator<Item = &'static Entry> {
    REGISTRY.iter().copied()
}

/// Finds a mechanism: its name, then variants, each after a plus.
///
/// # Errors
/// A name or variant that does not exist, with those that do.
pub fn lookup(name: &str) -> Result<Mechanism, UnknownControl> {
    let mut parts = name.trim().split('+');
    let base = parts.next().unwrap_or_default();
    let entry = all()
        .find(|e| e.name == base)
        .ok_or_else(|| UnknownControl { given: base.to_owned(), of: None })?;
    let mut variants = Vec::new();
    for part in parts {
        let variant = entry
            .variants
            .iter()
            .find(|v| v.name == part && !variants.contains(&v.name))
            .ok_or_else(|| UnknownControl { given: part.to_owned(), of: Some(entry) })?;
        variants.push(variant.name);
    }
    // One spelling for one choice, whatever the order given: results are compared by name.
    variants.sort_by_key(|v| entry.variants.iter().position(|e| e.name == *v));
    Ok(Mechanism::with_variants(entry, variants))
}

/// A name that no mechanism, or variant of the mechanism, has.
#[derive(Clone, Debug)]
pub struct UnknownControl {
    /// The part of the name that was refused.
    pub given: String,
    /// The mechanism whose variant it should have been.
    pub of: Option<&'static Entry>,
}

impl fmt::Display for UnknownControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.of {
            None => {
                write!(f, "unknown control \"{}\"; known: ", self.given)?;
                list(f, all().map(|e| e.name))
            }
            Some(entry) => {
                let (given, name) = (&self.given, entry.name);
                write!(f, "\"{given}\" is not a variant of {name}, or given twice; variants: ")?;
                list(f, entry.variants.iter().map(|v| v.name))
            }
        }
    }
}
impl core::error::Error for UnknownControl {}
