//! Trees below the root's, for subscribers beyond the first thousand.
//!
//! A limit holds in any tree. The round robin differs: under an aggregate limit, or on a congested interface, the root
//! serves groups and the first thousand subscribers in turn, and each group serves its own. So a group's quantum is the
//! sum of the quanta of its members that were backlogged at the last sample without being delayed by their own limit.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::Port;
use super::{HtbShaper, State};
use crate::error::Error;
use crate::netlink::{Batch, Netlink};
use crate::shaper::{Classifier, Direction, Subscriber};

/// Quantum of one subscriber, bytes: a full frame.
pub(super) const QUANTUM: u32 = Subscriber::QUANTUM;

/// Returns the groups that these numbers need.
pub(super) fn of(port: &Port, numbers: impl IntoIterator<Item = u16>) -> BTreeSet<u16> {
    numbers.into_iter().filter_map(|minor| port.place.group(minor)).collect()
}

/// Adds missing groups and changes existing ones.
pub(super) fn put(
    netlink: &mut Netlink,
    port: &Port,
    groups: impl IntoIterator<Item = u16>,
    shared: bool,
) -> Result<(), Error> {
    let mut batch = Batch::new();
    for group in groups {
        port.put_group(&mut batch, group, shared, QUANTUM);
    }
    let mut refused = netlink.apply(&mut batch)?;
    refused.retain(|r| r.source.raw_os_error() != Some(libc::EEXIST));
    port.refused(refused, "adding a group of classes")
}

/// Adds the groups that new subscribers need, and the filters that find them.
///
/// If that needs another classifier, all packets get it.
pub(super) fn make(plane: &mut HtbShaper, come: &[u16]) -> Result<(), Error> {
    for direction in Direction::BOTH {
        let d = direction as usize;
        let state = plane.state.as_mut().ok_or(Error::NotInstalled)?;
        let port = &state.ports[d];
        let mut new = of(port, come.iter().copied());
        new.retain(|group| !state.groups[d].contains_key(group));
        if new.is_empty() {
            continue;
        }
        let shared = state.aggregate[d].is_some();
        put(&mut plane.netlink, port, new.iter().copied(), shared)?;
        state.groups[d].extend(new.into_iter().map(|group| (group, QUANTUM)));
        let classifier = state.classifier[d];
        if state.available.finds_groups(classifier) {
            let all: Vec<u16> = state.groups[d].keys().copied().collect();
            port.filter(&mut plane.netlink, classifier, &all)?;
        } else {
            plane.use_classifier(direction, Classifier::MarkBpf)?;
        }
    }
    Ok(())
}

/// Sets each group's quantum to the sum of the quanta that wait in it.
pub(super) fn update_quanta(
    plane: &mut HtbShaper,
    direction: Direction,
    waiting: &BTreeMap<u16, u32>,
) -> Result<(), Error> {
    let Some(State { ports, groups, aggregate, .. }) = &mut plane.state else { return Ok(()) };
    let d = direction as usize;
    plane.batch.clear();
    for (group, turn) in &mut groups[d] {
        let now = waiting.get(group).copied().unwrap_or(0).max(QUANTUM);
        if now != *turn {
            *turn = now;
            ports[d].group(&mut plane.batch, *group, aggregate[d].is_some(), now);
        }
    }
    let refused = plane.netlink.apply(&mut plane.batch)?;
    ports[d].refused(refused, "changing a group's turn")
}
