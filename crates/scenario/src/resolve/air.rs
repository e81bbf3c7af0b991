//! The medium of all kinds of radio.

use super::kinds::{self, Kind, Members};
use super::leaks;
use super::nodes::Nodes;
use super::sensing::Medium;
use super::{Result, fail};
use crate::draft::Draft;
use crate::error::{KeyPath, Problem};
use crate::scenario::FurtherRadio;
use fairmesh_units::NodeId;
use fairmesh_wifi::SensedPair;

/// Reception between stations, on all channels.
pub(super) struct Air {
    pub medium: Medium,
    pub leaks: Vec<SensedPair>,
    pub further: Vec<FurtherRadio>,
}

impl Air {
    pub fn build(
        draft: &Draft,
        nodes: &Nodes,
        kinds: &[Kind<'_>],
        warnings: &mut Vec<String>,
    ) -> Result<Self> {
        if let [only] = kinds {
            let medium = Medium::build(draft, nodes, &only.radio, None, warnings)?;
            return Ok(Air { medium, leaks: Vec::new(), further: Vec::new() });
        }
        let of = |k: usize| (0..nodes.devices as u32).map(move |n| nodes.station(NodeId(n), k));
        let members: Vec<Members<'_>> = kinds
            .iter()
            .enumerate()
            .map(|(k, kind)| Members { kind, station: of(k).collect() })
            .collect();
        let mut each = Vec::with_capacity(kinds.len());
        for (kind, own) in kinds.iter().zip(&members) {
            let medium = Medium::build(&kind.draft, nodes, &kind.radio, Some(own), warnings);
            each.push(medium.map_err(|e| kind.at_home(e, draft))?);
        }
        for (i, link) in draft.link.iter().enumerate() {
            if each.iter().all(|m| m.missed.contains(&i)) {
                let problem = Problem::NoSuchLink(link.from.to_string(), link.to.to_string());
                return fail(KeyPath::from("link").index(i), problem);
            }
        }
        let media = kinds::media(kinds)?;
        let leaks = leaks::build(draft, nodes, kinds, &members, &each)?;
        let further = kinds.iter().zip(media).skip(1).map(|(kind, medium)| FurtherRadio {
            name: kind.name.clone(),
            channel: kind.channel.unwrap_or_default(),
            mac: kind.radio.mac.clone(),
            errors: kind.radio.errors.clone(),
            medium: medium as u8,
        });
        let further = further.collect();
        let mut all: Option<Medium> = None;
        for (medium, own) in each.into_iter().zip(&members) {
            let medium = at_stations(medium, own);
            match &mut all {
                None => all = Some(medium),
                Some(all) => {
                    all.sensed_pairs.extend(medium.sensed_pairs);
                    all.links.extend(medium.links);
                }
            }
        }
        let Some(mut medium) = all else {
            return fail("radio".into(), Problem::Nothing { what: "radio" });
        };
        medium.sensed_pairs.sort_unstable_by_key(|h| (h.from, h.to));
        medium.links.sort_unstable_by_key(|l| (l.from, l.to));
        Ok(Air { medium, leaks, further })
    }
}

/// Maps nodes to their stations on this medium.
fn at_stations(mut medium: Medium, members: &Members<'_>) -> Medium {
    let at = |n: NodeId| members.station[n.index()].unwrap_or(n);
    for h in &mut medium.sensed_pairs {
        (h.from, h.to) = (at(NodeId(h.from)).0, at(NodeId(h.to)).0);
    }
    for l in &mut medium.links {
        (l.from, l.to) = (at(l.from), at(l.to));
    }
    medium
}
