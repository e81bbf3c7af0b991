//! Mechanisms by name.

use core::fmt;

use super::mechanism::list;
use crate::{Entry, Mechanism};

/// Every mechanism, in the order in which they are listed. Adding one: its file and its line here.
static REGISTRY: &[&Entry] = &[
    &crate::fifo::ENTRY,
    &crate::gateway::gateway_queue::FQ,
    &crate::gateway::gateway_queue::RED,
    &crate::gateway::gateway_queue::FRED,
    &crate::gateway::static_aggregate::SHARED,
    &crate::gateway::static_aggregate::FAIR,
    &crate::gateway::static_flow::ENTRY,
    &crate::sources::source::ENTRY,
    &crate::sources::tcp_ap::ENTRY,
    &crate::gateway::arc::SHARED,
    &crate::gateway::arc::FAIR,
    &crate::gateway::pfrc::ENTRY,
    &crate::gateway::maxmin::ENTRY,
    &crate::mesh::gap::ENTRY,
    &crate::mesh::ifa::ENTRY,
    &crate::marking::lbm::ENTRY,
    &crate::marking::nred::ENTRY,
    &crate::marking::lred::ENTRY,
    &crate::mesh::cna::ENTRY,
    &crate::mesh::wcp::ENTRY,
    &crate::mesh::wcpcap::ENTRY,
    &crate::mesh::maxmin::ENTRY,
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
    let mut mechanism = Mechanism::of(entry);
    for part in parts {
        if !mechanism.add(part) {
            return Err(UnknownControl { given: part.to_owned(), of: Some(entry) });
        }
    }
    Ok(mechanism)
}

/// A name that no mechanism, or variant of the mechanism, has.
#[derive(Clone, Debug)]
pub struct UnknownControl {
    /// The part of the name that was refused.
    pub given: String,
    /// The mechanism whose variant it should have been.
    pub of: Option<&'static Entry>,
}

impl UnknownControl {
    /// The names that could have stood there: of all mechanisms, or of one with each variant.
    pub fn known(&self) -> Vec<String> {
        match self.of {
            None => all().map(|e| e.name.to_owned()).collect(),
            Some(entry) => {
                let variants = entry.variants.iter().map(|v| format!("{}+{}", entry.name, v.name));
                core::iter::once(entry.name.to_owned()).chain(variants).collect()
            }
        }
    }
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
