//! Rules of nftables and filters of `tc` of other programs that change packets' classes.

use super::place::Place;
use super::tree::{self, Port};
use super::{HtbShaper, ids};
use crate::error::Error;
use crate::netlink::Netlink;
use crate::nft::foreign::Value;
use crate::shaper::rules::RulesInForce;
use crate::shaper::{Classifier, Deviation, Direction};
use crate::tc::foreign::{EGRESS, Filter};
use crate::tc::{Handle, Head};

/// Reports the rules that the last comparison with the kernel found.
pub(in crate::shaper) fn rules(rules: &RulesInForce, found: &mut Vec<Deviation>) {
    found.extend(rules.foreign.iter().map(|rule| {
        let (by, list) = (format!("a rule in chain `{rule}`"), "nft -a list ruleset".to_owned());
        match rule.value {
            Value::Constant(class) => {
                Deviation::Foreign { by, class: Some(Handle(class).to_string()), list }
            }
            Value::Map(_) | Value::Computed => Deviation::Unverified { by, list },
        }
    }));
}

/// Reports filters on egress of our interfaces, and other filters on our root.
///
/// Filters on ingress are left out: forwarding sets the priority again.
pub(super) fn filters(plane: &mut HtbShaper, found: &mut Vec<Deviation>) -> Result<(), Error> {
    for direction in Direction::BOTH {
        let state = plane.state.as_ref().ok_or(Error::NotInstalled)?;
        let Port { index, name, place, .. } = &state.ports[direction.index()];
        let parents = [
            (EGRESS, "egress"),
            (place.root, "root"),
            (place.class(ids::AGGREGATE), "the class of all subscribers"),
        ];
        let classifier = state.classifier[direction.index()];
        let on = (*index, name.as_str());
        filters_on(&mut plane.netlink, on, *place, classifier, &parents, found)?;
    }
    Ok(())
}

/// Reports filters of other programs at some places of an interface.
pub(in crate::shaper) fn filters_on(
    netlink: &mut Netlink,
    (index, name): (u32, &str),
    place: Place,
    classifier: Classifier,
    parents: &[(Handle, &str)],
    found: &mut Vec<Deviation>,
) -> Result<(), Error> {
    let ours = |class: u32| place.owns(class).then_some(class);
    let own = [Handle::NONE, place.class(ids::BYPASS), place.base()];
    for &(parent, at) in parents {
        let mut filters = Vec::new();
        let head = Head::new(index, Handle::NONE, parent);
        let read = |_, payload: &[u8]| filters.extend(Filter::read(payload));
        netlink.dump("filters", libc::RTM_GETTFILTER, |out| head.write(out), read)?;
        for filter in &filters {
            let mut by = format!("filter {} ({}) on {at} of {}", filter.prio, filter.kind, name);
            let list = match parent {
                EGRESS => format!("tc filter show dev {} egress", name),
                parent => format!("tc filter show dev {} parent {parent}", name),
            };
            let classified = parent != EGRESS;
            if !classified && filter.prio == crate::bpf::pace::FILTER.prio && filter.kind == "bpf" {
                continue;
            }
            let named = filter.class.filter(|_| classified).unwrap_or(Handle::NONE);
            if classified && tree::OWN_PRIOS.contains(&filter.prio) && own.contains(&named) {
                continue;
            }
            let constants = filter.priorities.iter().flatten().chain(&filter.marks);
            let class = ours(named.0).or_else(|| constants.copied().find_map(ours));
            // Egress overwrites the values that the rules wrote before it.
            let overwritten = !classified
                && match classifier {
                    Classifier::Priority => !filter.priorities.is_empty(),
                    Classifier::MarkFw | Classifier::MarkBpf => !filter.marks.is_empty(),
                };
            if class.is_some() || overwritten {
                let class = class.map(|class| Handle(class).to_string());
                found.push(Deviation::Foreign { by, class, list });
            } else if filter.program {
                by = by.replacen("filter", "the program of filter", 1);
                found.push(Deviation::Unverified { by, list });
            }
        }
    }
    Ok(())
}
