//! Band and generation from the router models of a map, and the unknown models.

use std::collections::BTreeMap;

use fairmesh_phy::Band;
use fairmesh_phy::mcs::Generation;

use super::models::Model;
use crate::draft::PhyName;

/// Maximum number of names in a note.
const MAX_LISTED_NAMES: usize = 5;

/// Returns the band of most known models; 5 GHz on a tie, and 2.4 GHz without known models.
pub(super) fn band(g: Option<Generation>, known: &[Option<&Model>]) -> Band {
    if g == Some(Generation::Vht) {
        return Band::Ghz5;
    }
    let has = |band| known.iter().flatten().filter(|m| m.at(band).is_some()).count();
    let (two, five) = (has(Band::Ghz2), has(Band::Ghz5));
    let nothing = two + five == 0;
    match g {
        Some(Generation::He) if nothing => Band::Ghz5,
        _ if nothing || two > five => Band::Ghz2,
        _ => Band::Ghz5,
    }
}

/// Returns the generation of most known models in a band, the older on a tie.
///
/// Without known models 802.11n, at 5 GHz 802.11ac.
pub(super) fn usual(band: Band, known: &[Option<&Model>]) -> Generation {
    let mut counts = BTreeMap::<Generation, usize>::new();
    for (g, _) in known.iter().flatten().filter_map(|m| m.at(band)) {
        *counts.entry(g).or_default() += 1;
    }
    let most = counts.iter().max_by_key(|(g, n)| (**n, std::cmp::Reverse(**g)));
    most.map_or(if band == Band::Ghz2 { Generation::Ht } else { Generation::Vht }, |m| *m.0)
}

/// Returns a note on the nodes without a known model, by name.
pub(super) fn of_models(
    names: &[Option<String>],
    known: &[Option<&Model>],
    band: Band,
    usual: &str,
) -> Vec<String> {
    let mut notes = Vec::new();
    let nameless = names.iter().filter(|n| n.is_none()).count();
    if nameless > 0 {
        notes.push(format!("{nameless} of {} nodes name no model and {usual}", names.len()));
    }
    let mut listed = |what: &str, then: &str, of: &dyn Fn(Option<&Model>) -> bool| {
        let mut counts = BTreeMap::<&str, usize>::new();
        for (name, model) in names.iter().zip(known) {
            if let (Some(name), true) = (name, of(*model)) {
                *counts.entry(name).or_default() += 1;
            }
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by_key(|&(name, n)| (std::cmp::Reverse(n), name));
        let all: usize = counts.iter().map(|c| c.1).sum();
        if all > 0 {
            let shown =
                counts.iter().take(MAX_LISTED_NAMES).map(|(name, n)| format!("{name} ({n})"));
            let mut shown: Vec<String> = shown.collect();
            if counts.len() > MAX_LISTED_NAMES {
                shown.push("…".to_owned());
            }
            let shown = shown.join(", ");
            notes.push(format!("{all} of {} nodes {what} and {then}: {shown}", names.len()));
        }
    };
    listed("have a model that is not known", usual, &|m| m.is_none());
    let at = if band == Band::Ghz2 { "2.4 GHz" } else { "5 GHz" };
    let (what, then) = (format!("have no radio at {at}"), format!("{usual} all the same"));
    listed(&what, &then, &|m| m.is_some_and(|m| m.at(band).is_none()));
    notes
}

pub(super) fn generation(phy: PhyName) -> Option<Generation> {
    match phy {
        PhyName::N => Some(Generation::Ht),
        PhyName::Ac => Some(Generation::Vht),
        PhyName::Ax => Some(Generation::He),
        _ => None,
    }
}

pub(super) fn name(g: Generation) -> PhyName {
    match g {
        Generation::Ht => PhyName::N,
        Generation::Vht => PhyName::Ac,
        Generation::He => PhyName::Ax,
    }
}
