//! Present subscribers: from the configuration and from discovery.

use std::collections::{BTreeMap, BTreeSet};

use fairmesh_control::{Event, FlowHere};
use fairmesh_linux::{ClassId, Direction, IpNet, Layout, MacAddr, Slot};
use fairmesh_units::{BitRate, Time};

use super::turns::{MAX_RATIO, Turns};
use super::{DirectionState, Governor, LimitReason, Member, Override, flow};
use crate::gateway::config::{Subscriber, UNMAPPED};
use crate::gateway::journal::Level;
use crate::gateway::sources::{Omission, Omissions};

/// Most addresses of one discovered subscriber; each is an element of the kernel's maps.
const MAX_ADDRESSES: usize = 1024;
/// Most addresses of all discovered subscribers together.
const MAX_TOTAL_ADDRESSES: usize = 65_536;
/// Most absent subscribers for which overrides are kept.
const MAX_ABSENT_OVERRIDES: usize = 10_000;

/// True if a prefix is a proper part of one of these.
fn lies_within(prefix: &IpNet, of: &BTreeSet<IpNet>) -> bool {
    core::iter::successors(prefix.supernet(), IpNet::supernet).any(|p| of.contains(&p))
}

impl Governor {
    /// Replaces the configured subscribers.
    ///
    /// Discovered ones stay unless their name or an address is now in the configuration.
    pub(super) fn settle(&mut self, configured: Vec<Subscriber>, now: Time) {
        let names: BTreeSet<&str> = configured.iter().map(|s| s.name.as_str()).collect();
        let prefixes: BTreeSet<IpNet> =
            configured.iter().flat_map(|s| s.prefixes.iter().copied()).collect();
        let macs: BTreeSet<MacAddr> =
            configured.iter().flat_map(|s| s.macs.iter().copied()).collect();
        let keeps = self.discover.is_some();
        self.leave(now, |m| {
            let s = &m.subscriber;
            !names.contains(s.name.as_str())
                && (m.seen.is_none()
                    || !keeps
                    || s.prefixes.iter().any(|p| prefixes.contains(p) || lies_within(p, &prefixes))
                    || s.macs.iter().any(|a| macs.contains(a)))
        });
        drop(names);
        let weights = configured.iter().map(|s| self.calendar.plan(&s.name, s.plan).weight);
        let discovered = self.discover.iter().map(|d| d.plan.weight);
        let turns = Turns::of(weights.chain(discovered));
        self.note_raised(now, turns);
        for subscriber in self.by_class(configured) {
            self.enter(now, subscriber, None);
        }
    }

    /// Warns of weights that a shared limit raises.
    pub(super) fn note_raised(&mut self, now: Time, turns: Turns) {
        if let Some(least) = turns.counted_as() {
            self.journal.note(now, Level::Warning, "weights.raised", || {
                format!(
                    "the largest weight is more than {MAX_RATIO} times the smallest; in a shared limit, weights below {least} count as {least}"
                )
            });
        }
    }

    /// Sorts by classes, so that thousands are appended and not inserted.
    fn by_class(&self, mut subscribers: Vec<Subscriber>) -> Vec<Subscriber> {
        subscribers.sort_by_key(|s| self.class_ids.known(&s.name).map_or(u16::MAX, |c| c.0));
        subscribers
    }

    /// Adds a subscriber, or applies its changes.
    fn enter(&mut self, now: Time, mut subscriber: Subscriber, seen: Option<Time>) {
        subscriber.plan = self.calendar.plan(&subscriber.name, subscriber.plan);
        if let Some(i) = self.place(&subscriber.name) {
            let m = &mut self.members[i];
            m.seen = seen;
            if m.subscriber == subscriber {
                return;
            }
            let moved = m.subscriber.prefixes != subscriber.prefixes
                || m.subscriber.macs != subscriber.macs;
            let weighed = m.subscriber.plan.weight != subscriber.plan.weight;
            self.layout_changed |= moved || weighed;
            m.subscriber = subscriber;
            for state in &mut m.directions {
                state.why = Some(LimitReason::Reload);
            }
            let flows = [Governor::here(m, 0), Governor::here(m, 1)];
            self.seen(now, &flows);
            return;
        }
        let room = self.members.len() < usize::from(ClassId::MAX.0);
        if self.class_ids.is_crowded(self.members.len())
            || room && self.class_ids.class(&subscriber.name).is_none()
        {
            let Governor { class_ids, members, .. } = self;
            class_ids.keep_only(members.iter().map(|m| &m.subscriber));
        }
        let Some(class) = self.class_ids.class(&subscriber.name) else {
            self.journal.note(now, Level::Warning, "subscriber.full", || {
                format!("no class number is left for \"{}\"", subscriber.name)
            });
            return;
        };
        let overridden = self.waiting.remove(&subscriber.name).unwrap_or_default();
        let directions =
            overridden.map(|overridden| DirectionState { overridden, ..DirectionState::default() });
        let member = Member { subscriber, class, seen, laid_out: false, directions };
        let flows = [Governor::here(&member, 0), Governor::here(&member, 1)];
        let at = self.find(class).unwrap_or_else(|at| at);
        self.members.insert(at, member);
        self.layout_changed = true;
        self.seen(now, &flows);
    }

    /// Reports flows and their fair rates to the control.
    pub(super) fn seen(&mut self, now: Time, flows: &[FlowHere]) {
        for here in flows {
            self.handle_event(now, &Event::FlowSeen(*here));
        }
        let fair: Vec<_> = flows.iter().filter_map(|h| Some((h.flow, h.fair?))).collect();
        self.allocate(now, &fair);
    }

    /// Removes several subscribers at once and returns their names. Their overrides are kept.
    fn leave(&mut self, now: Time, goes: impl Fn(&Member) -> bool) -> Vec<String> {
        let mut gone = Vec::new();
        self.members.retain_mut(|m| {
            let goes = goes(m);
            if goes {
                let name = core::mem::take(&mut m.subscriber.name);
                let overridden = m.directions.each_ref().map(|d| d.overridden);
                gone.push((name, m.class, overridden));
            }
            !goes
        });
        self.layout_changed |= !gone.is_empty();
        let mut names = Vec::new();
        for (name, class, overridden) in gone {
            for direction in Direction::BOTH {
                let gone = flow(Slot { class, direction });
                self.handle_event(now, &Event::FlowGone(gone));
                self.allocate(now, &[(gone, BitRate(0))]);
            }
            if overridden != [None; 2] {
                self.wait_for(&name, overridden);
            }
            names.push(name);
        }
        names
    }

    /// Keeps overrides for an absent subscriber.
    pub(super) fn wait_for(&mut self, name: &str, overridden: [Option<Override>; 2]) {
        if self.waiting.len() < MAX_ABSENT_OVERRIDES || self.waiting.contains_key(name) {
            let kept = self.waiting.entry(name.to_owned()).or_default();
            for (kept, new) in kept.iter_mut().zip(overridden) {
                *kept = new.or(*kept);
            }
        }
    }

    /// Renames a discovered member if all sources now show its addresses under another name.
    ///
    /// A router that returns with a new id is the same subscriber, with its class and history.
    fn follow_renames(&mut self, now: Time, found: &[Subscriber]) {
        let shown: BTreeSet<&str> = found.iter().map(|s| s.name.as_str()).collect();
        let mut prefixes: BTreeMap<IpNet, usize> = BTreeMap::new();
        let mut macs: BTreeMap<MacAddr, usize> = BTreeMap::new();
        for (i, m) in self.members.iter().enumerate() {
            if m.seen.is_some() && !shown.contains(m.subscriber.name.as_str()) {
                prefixes.extend(m.subscriber.prefixes.iter().map(|p| (*p, i)));
                macs.extend(m.subscriber.macs.iter().map(|a| (*a, i)));
            }
        }
        if prefixes.is_empty() && macs.is_empty() {
            return;
        }
        let mut renamed = BTreeSet::new();
        for s in found {
            if self.place(&s.name).is_some() {
                continue;
            }
            // Only addresses of one absent member.
            let of_prefixes = s.prefixes.iter().map(|p| prefixes.get(p).copied());
            let mut owners = of_prefixes.chain(s.macs.iter().map(|a| macs.get(a).copied()));
            let Some(Some(i)) = owners.next() else { continue };
            if !owners.all(|o| o == Some(i)) || !renamed.insert(i) {
                continue;
            }
            let old = core::mem::replace(&mut self.members[i].subscriber.name, s.name.clone());
            // The number that the new name had before is released.
            self.class_ids.forget(&s.name);
            self.class_ids.rename(&old, &s.name);
            self.journal.note(now, Level::Info, "subscriber.renamed", || {
                format!("\"{old}\" is renamed \"{}\": same addresses", s.name)
            });
        }
    }

    /// Removes discovered members without a source if one other member has all their addresses.
    ///
    /// Two names of one home have become one, for example when the neighbour table shows that two next hops are one
    /// router.
    fn merge_absent(&mut self, now: Time, found: &[Subscriber]) {
        let shown: BTreeSet<&str> = found.iter().map(|s| s.name.as_str()).collect();
        let mut prefixes: BTreeMap<IpNet, &str> = BTreeMap::new();
        let mut macs: BTreeMap<MacAddr, &str> = BTreeMap::new();
        for s in found.iter().filter(|s| self.place(&s.name).is_some()) {
            prefixes.extend(s.prefixes.iter().map(|p| (*p, s.name.as_str())));
            macs.extend(s.macs.iter().map(|a| (*a, s.name.as_str())));
        }
        let merged = |m: &Member| {
            let s = &m.subscriber;
            let of_prefixes = s.prefixes.iter().map(|p| prefixes.get(p));
            let mut owners = of_prefixes.chain(s.macs.iter().map(|a| macs.get(a)));
            m.seen.is_some()
                && !shown.contains(s.name.as_str())
                && matches!(owners.next(), Some(Some(first)) if owners.all(|o| o == Some(first)))
        };
        for name in self.leave(now, merged) {
            self.journal.note(now, Level::Info, "subscriber.merged", || {
                format!("\"{name}\" is merged: another subscriber has all its addresses")
            });
        }
    }

    /// Reports addresses that belong to others, once for each change.
    fn note_taken(&mut self, now: Time, taken: BTreeSet<String>) {
        if taken == self.taken {
            return;
        }
        if let Some(first) = taken.iter().find(|name| !self.taken.contains(*name)) {
            let more = taken.len() - 1;
            self.journal.note(now, Level::Info, "discover.taken", || {
                let others = match more {
                    0 => String::new(),
                    1 => " and 1 other".to_owned(),
                    n => format!(" and {n} others"),
                };
                format!("addresses of \"{first}\"{others} already belong to other subscribers")
            });
        }
        self.taken = taken;
    }

    /// Handles the results of the sources.
    ///
    /// Configured subscribers keep their names and addresses. Others are added up to the permitted number, and removed
    /// when they were not seen for the time `linger`.
    pub fn discovered(&mut self, now: Time, found: Vec<Subscriber>) {
        let Some(discover) = self.discover.clone() else { return };
        self.follow_renames(now, &found);
        self.merge_absent(now, &found);
        let mut taken = BTreeSet::new();
        let mut left_out = Omissions::default();
        let mut owners: BTreeMap<IpNet, String> = BTreeMap::new();
        let mut stations: BTreeMap<MacAddr, String> = BTreeMap::new();
        let mut claimed: BTreeSet<IpNet> = BTreeSet::new();
        let mut configured: BTreeSet<String> = BTreeSet::new();
        let mut known: BTreeSet<String> = BTreeSet::new();
        for m in &self.members {
            let s = &m.subscriber;
            owners.extend(s.prefixes.iter().map(|p| (*p, s.name.clone())));
            stations.extend(s.macs.iter().map(|a| (*a, s.name.clone())));
            known.insert(s.name.clone());
            if m.seen.is_none() {
                claimed.extend(&s.prefixes);
                configured.insert(s.name.clone());
            }
        }
        let mut count = known.len() - configured.len();
        let mut addresses = 0;
        for mut s in self.by_class(found) {
            if configured.contains(&s.name) {
                continue;
            }
            let before = s.prefixes.len() + s.macs.len();
            // No discovered subscriber gets a part of a configured subscriber's prefix.
            s.prefixes.retain(|p| {
                !lies_within(p, &claimed)
                    && owners.entry(*p).or_insert_with(|| s.name.clone()) == &s.name
            });
            s.macs.retain(|a| stations.entry(*a).or_insert_with(|| s.name.clone()) == &s.name);
            if s.prefixes.len() + s.macs.len() < before {
                taken.insert(s.name.clone());
                left_out.add(Omission::Taken, 1);
            }
            if s.prefixes.is_empty() && s.macs.is_empty() {
                continue;
            }
            if !known.contains(&s.name) && count >= discover.most {
                left_out.add(Omission::Full, 1);
                self.journal.note(now, Level::Warning, "discover.full", || {
                    format!(
                        "\"{}\" is left out: discover.most permits {} subscribers",
                        s.name, discover.most
                    )
                });
                continue;
            }
            let most = MAX_ADDRESSES.min(MAX_TOTAL_ADDRESSES - addresses);
            if s.prefixes.len() + s.macs.len() > most {
                left_out.add(Omission::TooManyAddresses, 1);
                self.journal.note(now, Level::Warning, "discover.addresses", || {
                    let n = s.prefixes.len() + s.macs.len();
                    format!("\"{}\" has {n} addresses; only {most} are used", s.name)
                });
                s.prefixes.truncate(most);
                s.macs.truncate(most - s.prefixes.len());
                if most == 0 {
                    continue;
                }
            }
            addresses += s.prefixes.len() + s.macs.len();
            if !known.contains(&s.name) {
                count += 1;
                self.journal.note(now, Level::Info, "subscriber.new", || {
                    format!("\"{}\" was discovered", s.name)
                });
            }
            s.plan = discover.plan;
            self.enter(now, s, Some(now));
        }
        self.note_taken(now, taken);
        self.left_out = left_out;
        let linger = discover.linger;
        for name in self.leave(now, |m| m.seen.is_some_and(|t| now.since(t) > linger)) {
            self.journal.note(now, Level::Info, "subscriber.gone", || {
                format!("\"{name}\" was not seen for {linger}")
            });
        }
        self.refresh(now);
    }

    /// True if the kernel's classes no longer match the subscribers.
    pub fn layout_changed(&self) -> bool {
        self.layout_changed
    }

    /// Returns the layout for the present subscribers.
    pub fn layout(&self) -> Layout {
        let turns = Turns::of(self.members.iter().map(|m| m.subscriber.plan.weight));
        let subscriber = |m: &Member| fairmesh_linux::Subscriber {
            class: m.class,
            prefixes: m.subscriber.prefixes.clone(),
            macs: m.subscriber.macs.clone(),
            turn: turns.bytes(m.subscriber.plan.weight),
        };
        let subscribers = self.members.iter().map(subscriber).collect();
        let unmapped = self.place(UNMAPPED).map(|i| self.members[i].class);
        Layout { subscribers, unmapped, ..self.base.clone() }
    }

    /// Returns the layout without subscribers.
    pub fn base_layout(&self) -> Layout {
        self.base.clone()
    }

    /// Records that the kernel's classes match the last [`Governor::layout`].
    pub fn laid_out(&mut self) {
        self.layout_changed = false;
        self.members.iter_mut().for_each(|m| m.laid_out = true);
    }
}
