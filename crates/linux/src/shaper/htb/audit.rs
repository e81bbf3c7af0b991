//! Audit of the limits, by objects and by effects.
//!
//! Objects: rate and ceiling of classes, read back from the kernel. Rules and map elements are compared in
//! [`Shaper::renew`]. Effects: packets that rules gave a class against packets that arrived in classes, bytes that a
//! driver sent against bytes that passed our root qdisc.

use std::collections::BTreeSet;

use super::place::Place;
use super::tree::Port;
use super::{HtbShaper, State, foreign, ids};
use crate::error::Error;
use crate::link;
use crate::netlink::Netlink;
use crate::nft;
use crate::shaper::*;
use crate::tc::htb::Class;
use crate::tc::stats::Dumped;
use crate::tc::{Handle, Head};

/// Trees of groups that one call checks, each of up to [`ClassId::GROUP`] classes.
const TREES_PER_CALL: usize = 5;
/// Packets between two calls that suffice to judge a classifier.
const MIN_JUDGED_PACKETS: u64 = 100;
/// Bytes between two calls that suffice to judge if traffic passes our root qdisc.
const MIN_JUDGED_BYTES: u64 = 100_000;
/// Consecutive calls that must agree: counters of one instant are read one after the other.
const AGREEING_CALLS: u8 = 2;

/// Counters of one direction at the last call.
///
/// Each effect has the number of consecutive calls that found it missing.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::shaper) struct Counted {
    pub classified: u64,
    pub arrived: u64,
    pub sent: u64,
    pub shaped: u64,
    pub misrouted: u8,
    pub bypassed: u8,
}

/// State of the audit between two calls.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::shaper) struct AuditState {
    /// Counters by direction; `None` until the first call.
    counted: [Option<Counted>; 2],
    /// Position in the order of groups at which the next call begins.
    next: usize,
}

impl AuditState {
    /// Discards the counters: those of nftables restart with the rules.
    pub fn restart(&mut self) {
        self.counted = [None; 2];
    }

    /// Compares the counters of a direction with those of the last call.
    pub fn judge(&mut self, direction: Direction, mut now: Counted) -> Verdict {
        let d = direction.index();
        let mut verdict = Verdict::default();
        let Some(before) = self.counted[d] else {
            self.counted[d] = Some(now);
            return verdict;
        };
        let classified = now.classified.saturating_sub(before.classified);
        let arrived = now.arrived.saturating_sub(before.arrived);
        if classified >= MIN_JUDGED_PACKETS && arrived * 2 < classified {
            now.misrouted = before.misrouted.saturating_add(1);
        } else if classified < MIN_JUDGED_PACKETS {
            // Too few to judge: the counters accumulate until there are enough.
            now.misrouted = before.misrouted;
            (now.classified, now.arrived) = (before.classified, before.arrived);
        }
        let sent = now.sent.saturating_sub(before.sent);
        let shaped = now.shaped.saturating_sub(before.shaped);
        if sent >= MIN_JUDGED_BYTES && shaped * 2 < sent {
            now.bypassed = before.bypassed.saturating_add(1);
        } else if sent < MIN_JUDGED_BYTES {
            now.bypassed = before.bypassed;
            (now.sent, now.shaped) = (before.sent, before.shaped);
        }
        self.counted[d] = Some(now);
        verdict.bypassed = (now.bypassed >= AGREEING_CALLS).then_some((sent, shaped));
        verdict.misrouted = (now.misrouted >= AGREEING_CALLS).then_some((classified, arrived));
        verdict
    }
}

/// Effects that are missing.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(in crate::shaper) struct Verdict {
    /// Bytes that the driver sent, and those that passed our qdisc.
    pub bypassed: Option<(u64, u64)>,
    /// Packets that were given a class, and those that arrived in classes.
    pub misrouted: Option<(u64, u64)>,
}

pub(super) fn audit(plane: &mut HtbShaper) -> Result<Vec<Deviation>, Error> {
    let mut found = Vec::new();
    for direction in Direction::BOTH {
        let state = plane.state.as_ref().ok_or(Error::NotInstalled)?;
        let Port { index, name, .. } = &state.ports[direction.index()];
        port(&mut plane.netlink, (*index, name), &mut found)?;
        limits(plane, direction, &mut found)?;
    }
    effects(plane, &mut found)?;
    if let Some(state) = &plane.state {
        foreign::rules(&state.rules, &mut found);
    }
    foreign::filters(plane, &mut found)?;
    if let Some(state) = &mut plane.state {
        let groups = state.groups.iter().map(|g| g.len()).max().unwrap_or(0);
        state.watch.next = (state.watch.next + TREES_PER_CALL) % groups.max(1);
    }
    Ok(found)
}

/// Reports an interface that is a port of another one.
pub(in crate::shaper) fn port(
    netlink: &mut Netlink,
    (index, name): (u32, &str),
    found: &mut Vec<Deviation>,
) -> Result<(), Error> {
    let link = link::by_index(netlink, index, name)?;
    // A port of batman-adv carries batman-adv frames, which have no class of their own; a VRF is not a bridge.
    let Some(index) = link.controller else { return Ok(()) };
    let Ok(controller) = link::by_index(netlink, index, "") else { return Ok(()) };
    if matches!(controller.kind.as_deref(), Some("bridge" | "bond" | "team" | "openvswitch")) {
        found.push(Deviation::Port { interface: link.name, controller: controller.name });
    }
    Ok(())
}

/// Compares rates and ceilings, and restores those that differ.
fn limits(plane: &mut HtbShaper, way: Direction, found: &mut Vec<Deviation>) -> Result<(), Error> {
    let d = way.index();
    let state = plane.state.as_ref().ok_or(Error::NotInstalled)?;
    let port = &state.ports[d];
    let groups: Vec<u16> = state.groups[d].keys().copied().collect();
    let some = groups.iter().cycle().skip(state.watch.next).take(TREES_PER_CALL.min(groups.len()));
    let groups: BTreeSet<u16> = some.copied().collect();
    let trees = std::iter::once(port.root()).chain(groups.iter().map(|g| Place::tree(*g)));
    let in_question = |minor: u16| port.place.group(minor).is_none_or(|g| groups.contains(&g));
    let mut seen = BTreeSet::new();
    let mut wrong = Vec::new();
    for tree in trees {
        let head = Head::new(port.index, Handle::NONE, tree);
        let look = |_, payload: &[u8]| {
            let Some(dumped) = Dumped::read(payload) else { return };
            let minor = dumped.head.handle.minor();
            let Some(expected_class) = expected_class(state, way, minor) else { return };
            seen.insert(minor);
            let same = |there: &Class| {
                (there.rate, there.ceil) == (expected_class.rate, expected_class.ceil)
            };
            if !Class::read(dumped.options).as_ref().is_some_and(same) {
                wrong.push(minor);
            }
        };
        plane.netlink.dump("classes", libc::RTM_GETTCLASS, |m| head.write(m), look)?;
    }
    let members = state.members.keys().copied().filter(|m| in_question(*m));
    let missing = members.chain([ids::AGGREGATE]).filter(|m| !seen.contains(m)).count();
    if missing > 0 {
        return Err(port.gone(&format!("{missing} classes were removed")));
    }
    if wrong.is_empty() {
        return Ok(());
    }
    plane.batch.clear();
    for &minor in &wrong {
        match expected_class(state, way, minor) {
            None => {}
            Some(_) if minor == ids::AGGREGATE => {
                port.aggregate(&mut plane.batch, state.aggregate[d], state.layout.burst);
            }
            Some(class) => port.subscriber(&mut plane.batch, minor, &class, 0),
        }
    }
    let refused = plane.netlink.apply(&mut plane.batch)?;
    port.refused(refused, "setting a limit again")?;
    found.push(Deviation::Limits { direction: way, classes: wrong.len() });
    Ok(())
}

/// Returns the class as it was set; `None` for a class with a limit that we do not maintain.
fn expected_class(state: &State, way: Direction, minor: u16) -> Option<Class> {
    let d = way.index();
    let (port, whole, burst) = (&state.ports[d], state.aggregate[d], state.layout.burst);
    if minor == ids::AGGREGATE {
        return Some(Class::limited(whole, 1514, 0).bursting(burst));
    }
    let member = state.members.get(&minor)?;
    Some(port.class_of(minor, member.limits[d], whole.is_some(), member.turn, burst))
}

/// Compares counters with those of the last call.
fn effects(plane: &mut HtbShaper, found: &mut Vec<Deviation>) -> Result<(), Error> {
    let table = plane.state.as_ref().ok_or(Error::NotInstalled)?.layout.table.clone();
    let counters = nft::counters::packets(&mut plane.netfilter, &table)?;
    for direction in Direction::BOTH {
        let d = direction.index();
        let name = ["classified_down", "classified_up"][d];
        let aggregate = plane.read(direction.egress(), ids::AGGREGATE)?;
        let root = plane.read(direction.egress(), 0)?;
        let state = plane.state.as_mut().ok_or(Error::NotInstalled)?;
        let port = &state.ports[d];
        let link = link::by_index(&mut plane.netlink, port.index, &port.name)?;
        let verdict = state.watch.judge(
            direction,
            Counted {
                classified: counters.get(name).copied().unwrap_or(0),
                arrived: aggregate.packets + u64::from(root.drops) + u64::from(root.queued_packets),
                sent: link.counters.tx_bytes,
                shaped: root.bytes,
                ..Counted::default()
            },
        );
        if let Some((sent, shaped)) = verdict.bypassed {
            found.push(Deviation::Bypassed { direction, sent, shaped });
        }
        if let Some((classified, arrived)) = verdict.misrouted {
            let grouped = !state.groups[d].is_empty();
            let replaced_by = state.available.after(state.classifier[d], grouped);
            if let Some(next) = replaced_by {
                plane.use_classifier(direction, next)?;
            }
            found.push(Deviation::Misrouted { direction, classified, arrived, replaced_by });
        }
    }
    Ok(())
}
