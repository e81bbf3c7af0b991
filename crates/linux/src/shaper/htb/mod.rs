//! The data plane on HTB and nftables.
//!
//! On each side a root qdisc `<handle>:` with
//! - `ffff`-range classes of our own ([`ids`]): the aggregate of all subscribers, unmapped traffic, routing and
//!   management;
//! - a leaf class per subscriber under the aggregate class, beyond the first thousand in HTBs of their own below it
//!   ([`place`]).
//!
//! A subscriber's class has its limit as both rate and ceiling and never borrows. Under an aggregate limit,
//! subscribers' classes have a minimal rate of their own and borrow, so that deficit round robin shares the aggregate.
//!
//! Files: `mod` the calls, `audit` effectiveness of limits, `build` installation, `find` existing objects, `trial` test
//! of classifiers, `leaves` queues in classes, `groups` trees below the root's, `place` placement of classes, `tree`
//! messages and their errors.

pub(super) mod audit;
pub(super) mod build;
pub(super) mod find;
pub(super) mod foreign;
mod groups;
mod leaves;
pub(crate) mod local;
pub(crate) mod next_hops;
pub(crate) mod place;
pub(super) mod sides;
mod tree;
mod trial;

pub(crate) use super::ids;
use std::collections::{BTreeMap, BTreeSet};

use fairmesh_units::BitRate;

use super::rules::RulesInForce;
use super::*;
use crate::link;
use crate::netlink::{Batch, Netlink};
use crate::nft;
use crate::tc::stats::Dumped;
use crate::tc::{Handle, Head, filter};
use leaves::ClassParameters;
use place::Place;
use tree::Port;

/// Classes that are created between two heartbeats.
const BATCH_CLASSES: usize = 500;

/// Least packets for a verdict on a classifier.
const VERDICT_PACKETS: u64 = 20;

/// A subscriber as installed.
#[derive(Clone, Copy, Debug)]
struct Member {
    /// Quantum, bytes per round.
    turn: u32,
    /// Limits, by direction.
    limits: [Option<BitRate>; 2],
    /// Kinds of the queues, by direction.
    leaves: [LeafKind; 2],
    /// Lengths of the queues, by direction: see [`Layout::queue_at`].
    queues: [u32; 2],
    /// Times that its limits had delayed packets at the last sample, by direction.
    waited: [u64; 2],
}

impl Member {
    /// Returns a member without limits of its own.
    fn new(turn: u32, leaves: [LeafKind; 2], queues: [u32; 2]) -> Self {
        Member { turn, limits: [None; 2], leaves, queues, waited: [0; 2] }
    }

    /// Adapts the queue's length to its own limit and the aggregate limit.
    ///
    /// Kinds that measure delay themselves stay as they are.
    fn hold(
        &mut self,
        port: &Port,
        batch: &mut Batch,
        (minor, d): (u16, usize),
        (layout, whole): (&Layout, Option<BitRate>),
    ) {
        let kind = self.leaves[d];
        let queue = layout.queue_at(kind, lower(self.limits[d], whole));
        if matches!(kind, LeafKind::Bfifo | LeafKind::Pfifo) && self.queues[d] != queue {
            // Changed in place: waiting packets stay.
            self.queues[d] = queue;
            port.leaf(batch, minor, kind, queue);
        }
    }
}

/// Returns the lower of two limits that both apply.
fn lower(a: Option<BitRate>, b: Option<BitRate>) -> Option<BitRate> {
    a.into_iter().chain(b).min()
}

/// Installed state.
#[derive(Debug)]
struct State {
    layout: Layout,
    ports: [Port; 2],
    leaves: leaves::Leaves,
    classifier: [Classifier; 2],
    available: trial::Available,
    /// Groups that have a tree, with their quanta in bytes, by direction.
    groups: [BTreeMap<u16, u32>; 2],
    members: BTreeMap<u16, Member>,
    /// Aggregate limits, by direction.
    aggregate: [Option<BitRate>; 2],
    /// Classes to be deleted once they are empty, with the kinds of their queues, by direction.
    retiring: [BTreeMap<u16, Option<LeafKind>>; 2],
    /// Last counters of `verify`: classified and arrived.
    seen: [(u64, u64); 2],
    rules: RulesInForce,
    watch: audit::AuditState,
}

/// The data plane on HTB and nftables, in the network namespace in which it was opened.
#[derive(Debug)]
pub struct HtbShaper {
    netlink: Netlink,
    netfilter: Netlink,
    batch: Batch,
    state: Option<State>,
}

impl HtbShaper {
    /// Opens the netlink sockets; changes nothing.
    ///
    /// # Errors
    /// Returns the system's refusal.
    pub fn open() -> Result<Self, Error> {
        let (netlink, netfilter) = (Netlink::open()?, Netlink::netfilter()?);
        Ok(HtbShaper { netlink, netfilter, batch: Batch::new(), state: None })
    }

    /// Limits the time that calls on this thread wait for `nft`.
    ///
    /// A call that would take longer returns [`Error::Busy`] and can be repeated.
    pub fn limit_wait(&mut self, limit: std::time::Duration) {
        nft::run::limit_wait(limit);
    }

    /// Sets a callback for long operations, such as creating thousands of classes.
    ///
    /// When it runs, the kernel has responded.
    pub fn on_progress(&mut self, report: impl FnMut() + Send + 'static) {
        self.netlink.on_progress(report);
    }

    /// Lifts the limits that another process has set with this layout's interfaces and handle.
    ///
    /// All else stays, for the next [`Shaper::install`] to take over.
    ///
    /// # Errors
    /// The kernel's refusal; the other interface's limits are lifted all the same.
    pub fn lift(&mut self, layout: &Layout) -> Result<(), Error> {
        build::lift(&mut self.netlink, layout)
    }

    /// Sets the aggregate limit or limits of subscribers in one direction.
    fn apply(&mut self, direction: Direction, changes: &[RateChange]) -> Result<(), Error> {
        let state = self.state.as_mut().ok_or(Error::NotInstalled)?;
        let d = direction as usize;
        let port = &state.ports[d];
        let burst = state.layout.burst;
        self.batch.clear();
        let mut unknown = None;
        let aggregate = changes.iter().rev().find(|c| c.slot.class == ClassId::ALL).map(|c| c.rate);
        if let Some(limit) = aggregate {
            let toggled = limit.is_some() != state.aggregate[d].is_some();
            state.aggregate[d] = limit;
            port.aggregate(&mut self.batch, limit, burst);
            if toggled {
                let shared = limit.is_some();
                for (&group, &turn) in &state.groups[d] {
                    port.group(&mut self.batch, group, shared, turn);
                }
                for (&minor, m) in &state.members {
                    let class = port.class_of(minor, m.limits[d], shared, m.turn, burst);
                    port.subscriber(&mut self.batch, minor, &class, 0);
                }
            }
            for (&minor, member) in &mut state.members {
                member.hold(port, &mut self.batch, (minor, d), (&state.layout, limit));
            }
        }
        let whole = state.aggregate[d];
        let shared = whole.is_some();
        for change in changes.iter().filter(|c| c.slot.class != ClassId::ALL) {
            let Some(member) = state.members.get_mut(&change.slot.class.0) else {
                unknown = Some(change.slot.class);
                continue;
            };
            member.limits[d] = change.rate;
            let minor = change.slot.class.0;
            let class = port.class_of(minor, change.rate, shared, member.turn, burst);
            port.subscriber(&mut self.batch, minor, &class, 0);
            member.hold(port, &mut self.batch, (minor, d), (&state.layout, whole));
        }
        let refused = self.netlink.apply(&mut self.batch)?;
        port.refused(refused, "changing a limit")?;
        match unknown {
            None => Ok(()),
            Some(class) => Err(LayoutError::Class(class).into()),
        }
    }

    /// Reads one class or the root qdisc (`minor` 0).
    fn read(&mut self, side: Side, minor: u16) -> Result<crate::tc::stats::Stats, Error> {
        let state = self.state.as_ref().ok_or(Error::NotInstalled)?;
        let port = &state.ports[side as usize];
        let (kind, head) = match minor {
            0 => (libc::RTM_GETQDISC, Head::new(port.index, port.root(), Handle::NONE)),
            minor => (libc::RTM_GETTCLASS, Head::new(port.index, port.class(minor), Handle::NONE)),
        };
        let answer = self.netlink.get(
            "a class",
            kind,
            |out| head.write(out),
            |_, payload| Dumped::read(payload).filter(|d| d.kind == "htb")?.stats,
        );
        match answer {
            Ok(Some(stats)) => Ok(stats),
            Ok(None) => Err(port.gone("there is no such class")),
            Err(e) => Err(port.lost(e)),
        }
    }

    /// Deletes classes that were found empty. A class that has filled again stays until later.
    fn delete_empty(&mut self, direction: Direction, empty: &[u16]) -> Result<(), Error> {
        let Some(state) = self.state.as_mut() else { return Ok(()) };
        let d = direction as usize;
        self.batch.clear();
        for minor in empty {
            let port = &state.ports[d];
            port.delete(&mut self.batch, port.class(*minor));
        }
        let refused = self.netlink.apply(&mut self.batch)?;
        let busy: BTreeSet<usize> = refused
            .iter()
            .filter(|r| r.source.raw_os_error() == Some(libc::EBUSY))
            .map(|r| r.index)
            .collect();
        for (index, minor) in empty.iter().enumerate() {
            if !busy.contains(&index) {
                state.retiring[d].remove(minor);
            }
        }
        Ok(())
    }

    /// Replaces the classifier, even if the one in use works.
    ///
    /// # Errors
    /// The kernel lacks it, or cannot find groups by it although there are some.
    pub fn use_classifier(&mut self, direction: Direction, to: Classifier) -> Result<(), Error> {
        let state = self.state.as_mut().ok_or(Error::NotInstalled)?;
        let port = &state.ports[direction as usize];
        let groups: Vec<u16> = state.groups[direction as usize].keys().copied().collect();
        if !groups.is_empty() && !state.available.finds_groups(to) {
            let what = format!("a filter for subscribers from number {} on", ClassId::GROUP);
            return Err(Error::Missing {
                what: format!("{what}, by {to:?}"),
                hint: "use a kernel with cls_bpf, or cls_flow for priorities".into(),
            });
        }
        port.filter(&mut self.netlink, to, &groups)?;
        let before = core::mem::replace(&mut state.classifier[direction as usize], to);
        let State { rules, layout, classifier, .. } = &mut *state;
        if let Err(e) = rules.put(&mut self.netfilter, layout, *classifier) {
            // The rules in force still write the field that the previous classifier reads.
            classifier[direction as usize] = before;
            return Err(e);
        }
        state.seen = [(0, 0); 2];
        state.watch.restart();
        Ok(())
    }

    /// Checks that interfaces have their names and headers; removes our qdisc from a renamed one.
    ///
    /// Queues that reject frames larger than the MTU are changed in place when it grows.
    fn check_links(&mut self) -> Result<(), Error> {
        let state = self.state.as_mut().ok_or(Error::NotInstalled)?;
        for (side, port) in state.ports.iter_mut().enumerate() {
            let link = link::by_index(&mut self.netlink, port.index, &port.name)?;
            if link.name != port.name {
                let head = Head::new(port.index, port.root(), Handle::ROOT);
                let what = || format!("removing HTB from {}", link.name);
                self.netlink.change(what, libc::RTM_DELQDISC, 0, |out| head.write(out))?;
                return Err(port.gone(&format!("it was renamed to `{}`", link.name)));
            }
            if link.mtu > port.mtu {
                port.mtu = link.mtu;
                self.batch.clear();
                for (&minor, member) in &state.members {
                    if member.leaves[side] == LeafKind::Bfifo {
                        port.leaf(&mut self.batch, minor, LeafKind::Bfifo, member.queues[side]);
                    }
                }
                let refused = self.netlink.apply(&mut self.batch)?;
                port.refused(refused, "changing a queue for a larger MTU")?;
            }
            if link.header != port.header {
                // Limits and counters are of IP bytes, and the kernel counts the header, too.
                return Err(port.gone(&format!("its header has changed to {} bytes", link.header)));
            }
        }
        Ok(())
    }
}

impl HtbShaper {
    /// Returns the obstacles for which [`Shaper::install`] would refuse; changes nothing.
    pub fn conflicts(&mut self, layout: &Layout) -> Vec<Error> {
        let mut found: Vec<Error> = layout.check().err().map(Error::from).into_iter().collect();
        for name in [layout.mesh.name(), layout.wired.name()] {
            let surveyed = link::find(&mut self.netlink, name)
                .and_then(|link| find::survey(&mut self.netlink, &link, layout.handle));
            found.extend(surveyed.err());
        }
        found.extend(find::tables(layout, true).err());
        found.extend(sides::check(&mut self.netlink, layout).err());
        found
    }
}

impl Shaper for HtbShaper {
    fn probe(&mut self) -> Result<Features, Error> {
        crate::probe::features()
    }

    fn install(&mut self, layout: &Layout) -> Result<Installed, Error> {
        build::install(self, layout)
    }

    fn relayout(&mut self, layout: &Layout) -> Result<RelayoutResult, Error> {
        layout.check()?;
        let state = self.state.as_mut().ok_or(Error::NotInstalled)?;
        state.layout.refuse_fixed(layout)?;
        let mut relaid = RelayoutResult::default();
        let old: BTreeMap<u16, &Subscriber> =
            state.layout.subscribers.iter().map(|s| (s.class.0, s)).collect();
        let new: BTreeMap<u16, &Subscriber> =
            layout.subscribers.iter().map(|s| (s.class.0, s)).collect();
        let come: Vec<u16> = new.keys().filter(|c| !old.contains_key(c)).copied().collect();
        let gone: Vec<u16> = old.keys().filter(|c| !new.contains_key(c)).copied().collect();
        for (class, s) in &new {
            relaid.changed += usize::from(old.get(class).is_some_and(|before| before != s));
        }
        // First the classes of new subscribers, then the rules that fill them; after that nothing fills the classes to
        // remove.
        groups::make(self, &come)?;
        let state = self.state.as_mut().ok_or(Error::NotInstalled)?;
        let mut kinds: BTreeMap<u16, [LeafKind; 2]> = BTreeMap::new();
        for direction in Direction::BOTH {
            let d = direction as usize;
            let shared = state.aggregate[d].is_some();
            let port = &state.ports[d];
            let groups = state.groups[d].len();
            let parameters =
                ClassParameters { layout, leaves: state.leaves, groups, whole: state.aggregate[d] };
            let newcomers: Vec<&Subscriber> = come.iter().map(|minor| new[minor]).collect();
            // Subscribers may return before their class was empty.
            let back = |minor: &u16| Some((*minor, (*state.retiring[d].get(minor)?)?));
            let there: BTreeMap<u16, LeafKind> = come.iter().filter_map(back).collect();
            leaves::make(&mut self.netlink, port, parameters, (&newcomers, &there), || {
                // Thousands of classes take longer than limits last; the limits of the other subscribers must stay in
                // force.
                let _ = state.rules.keep(&mut self.netfilter, &layout.table);
            })?;
            for minor in &come {
                state.retiring[d].remove(minor);
                let kind = state.leaves.first(groups, there.get(minor).copied());
                kinds.entry(*minor).or_insert([kind; 2])[d] = kind;
            }
            self.batch.clear();
            for (&minor, s) in &new {
                let Some(member) = state.members.get(&minor) else { continue };
                if member.turn != s.turn {
                    let limit = member.limits[d];
                    let class = port.class_of(minor, limit, shared, s.turn, layout.burst);
                    port.subscriber(&mut self.batch, minor, &class, 0);
                }
            }
            let refused = self.netlink.apply(&mut self.batch)?;
            port.refused(refused, "changing a class")?;
        }
        let State { rules, layout: old, classifier, .. } = &mut *state;
        if rules.change(&mut self.netfilter, (&*old, layout), *classifier)? {
            state.seen.iter_mut().for_each(|(classified, _)| *classified = 0);
            state.watch.restart();
        }
        for direction in Direction::BOTH {
            let d = direction as usize;
            self.batch.clear();
            for &minor in &gone {
                let port = &state.ports[d];
                let class = port.class_of(minor, None, false, Subscriber::QUANTUM, layout.burst);
                port.subscriber(&mut self.batch, minor, &class, 0);
                state.retiring[d].insert(minor, state.members.get(&minor).map(|m| m.leaves[d]));
            }
            // A class that is gone already needs no deletion.
            self.netlink.apply(&mut self.batch)?;
        }
        for minor in &gone {
            state.members.remove(minor);
        }
        for (&minor, s) in &new {
            let kinds = kinds.get(&minor).copied().unwrap_or([state.leaves.kind; 2]);
            let queue = |d: usize| layout.queue_at(kinds[d], state.aggregate[d]);
            let fresh = Member::new(s.turn, kinds, [queue(0), queue(1)]);
            state.members.entry(minor).or_insert(fresh).turn = s.turn;
        }
        (relaid.added, relaid.removed) = (come.len(), gone.len());
        state.layout = layout.clone();
        Ok(relaid)
    }

    fn set_rates(&mut self, changes: &[RateChange]) -> Result<(), Error> {
        let mut result = Ok(());
        for direction in Direction::BOTH {
            let of_it: Vec<RateChange> =
                changes.iter().filter(|c| c.slot.direction == direction).copied().collect();
            if !of_it.is_empty() {
                result = result.and(self.apply(direction, &of_it));
            }
        }
        result
    }

    fn sample(&mut self, out: &mut Vec<ClassCounters>) -> Result<(), Error> {
        out.clear();
        for direction in Direction::BOTH {
            let state = self.state.as_mut().ok_or(Error::NotInstalled)?;
            let d = direction as usize;
            let State { ports, members, retiring, groups, leaves, .. } = state;
            let (port, retiring, groups) = (&ports[d], &retiring[d], &groups[d]);
            let mut late = Vec::new();
            let mut alive = false;
            let mut empty = Vec::new();
            let mut turns: BTreeMap<u16, u32> = groups.keys().map(|g| (*g, 0)).collect();
            let mut seen = BTreeSet::new();
            let mut look = |_, payload: &[u8]| {
                let Some(dumped) = Dumped::read(payload) else { return };
                let Some(stats) = dumped.stats else { return };
                let minor = dumped.head.handle.minor();
                alive |= minor == ids::AGGREGATE;
                if minor > ClassId::MAX.0 {
                    return;
                }
                if let Some(group) = port.place.group(minor) {
                    seen.insert(group);
                }
                if retiring.contains_key(&minor) {
                    if stats.queued_packets == 0 {
                        empty.push(minor);
                    }
                    return;
                }
                if let Some(member) = members.get_mut(&minor) {
                    // A subscriber that waits for others and not for its own limit counts for the group's quantum.
                    let overlimits = u64::from(stats.overlimits);
                    if stats.queued_packets > 0
                        && member.waited[d] == overlimits
                        && let Some(turn) = port.place.group(minor).and_then(|g| turns.get_mut(&g))
                    {
                        *turn += member.turn;
                    }
                    member.waited[d] = overlimits;
                    if stats.packets > 0 && member.leaves[d] != leaves.kind {
                        late.push((stats.queued_packets, minor));
                    }
                }
                out.push(ClassCounters {
                    slot: Slot { class: ClassId(minor), direction },
                    bytes: stats.bytes,
                    packets: stats.packets,
                    drops: u64::from(stats.drops),
                    overlimits: u64::from(stats.overlimits),
                    backlog_packets: stats.queued_packets,
                    backlog_bytes: u64::from(stats.queued_bytes),
                });
            };
            for tree in std::iter::once(port.root()).chain(groups.keys().map(|g| Place::tree(*g))) {
                let head = Head::new(port.index, Handle::NONE, tree);
                self.netlink.dump("classes", libc::RTM_GETTCLASS, |m| head.write(m), &mut look)?;
            }
            let in_groups = members.keys().filter_map(|m| port.place.group(*m));
            alive &= in_groups.collect::<BTreeSet<_>>().is_subset(&seen);
            if !alive {
                let error = match link::by_index(&mut self.netlink, port.index, &port.name) {
                    Ok(_) => port.gone("our queueing discipline was removed"),
                    Err(e) => e,
                };
                return Err(error);
            }
            groups::update_quanta(self, direction, &turns)?;
            if !late.is_empty() {
                leaves::replace_queues(self, direction, late)?;
            }
            if !empty.is_empty() {
                self.delete_empty(direction, &empty)?;
            }
        }
        Ok(())
    }

    fn interface(&mut self, which: Side) -> Result<InterfaceCounters, Error> {
        let state = self.state.as_ref().ok_or(Error::NotInstalled)?;
        let port = &state.ports[which as usize];
        let table = state.layout.table.clone();
        let unmapped_class = state.layout.unmapped;
        let link = link::by_index(&mut self.netlink, port.index, &port.name)?;
        let root = self.read(which, 0)?;
        let aggregate = self.read(which, ids::AGGREGATE)?;
        let unmapped = self.read(which, ids::UNMAPPED)?;
        let bypass = self.read(which, ids::BYPASS)?;
        // Unmapped traffic that has a share is in one of the subscribers' classes.
        let shared = match unmapped_class {
            Some(class) => self.read(which, class.0)?,
            None => crate::tc::stats::Stats::default(),
        };
        let d = if which == Side::Mesh { "down" } else { "up" };
        let counters = nft::counters::packets(&mut self.netfilter, &table)?;
        let count = |name: &str| counters.get(&format!("{name}_{d}")).copied().unwrap_or(0);
        Ok(InterfaceCounters {
            name: link.name,
            index: link.index,
            up: link.up,
            tx_bytes: link.counters.tx_bytes,
            tx_packets: link.counters.tx_packets,
            tx_dropped: link.counters.tx_dropped,
            rx_bytes: link.counters.rx_bytes,
            rx_packets: link.counters.rx_packets,
            shaped_bytes: root.bytes,
            shaped_packets: root.packets,
            shaped_drops: u64::from(root.drops),
            subscriber_bytes: aggregate.bytes.saturating_sub(shared.bytes),
            subscriber_packets: aggregate.packets.saturating_sub(shared.packets),
            unmapped_bytes: unmapped.bytes.saturating_add(shared.bytes),
            unmapped_packets: unmapped.packets.saturating_add(shared.packets),
            bypass_bytes: bypass.bytes,
            bypass_packets: bypass.packets,
            classified_packets: count("classified"),
            unmapped_ipv6_packets: count("unmapped6"),
        })
    }

    fn sent(&mut self, which: Side) -> Result<SentCounters, Error> {
        let state = self.state.as_ref().ok_or(Error::NotInstalled)?;
        let port = &state.ports[which as usize];
        let link = link::by_index(&mut self.netlink, port.index, &port.name)?;
        let unmapped = self.read(which, ids::UNMAPPED)?.bytes;
        let bypass = self.read(which, ids::BYPASS)?.bytes;
        Ok(SentCounters { bytes: link.counters.tx_bytes, unmapped, bypass })
    }

    fn verify(&mut self) -> Result<Vec<Verification>, Error> {
        let table = self.state.as_ref().ok_or(Error::NotInstalled)?.layout.table.clone();
        let counters = nft::counters::packets(&mut self.netfilter, &table)?;
        let mut result = Vec::new();
        for direction in Direction::BOTH {
            let d = direction as usize;
            let aggregate = self.read(direction.egress(), ids::AGGREGATE)?;
            let root = self.read(direction.egress(), 0)?;
            let name = ["classified_down", "classified_up"][d];
            let classified = counters.get(name).copied().unwrap_or(0);
            let arrived =
                aggregate.packets + u64::from(root.drops) + u64::from(root.queued_packets);
            let Some(state) = self.state.as_mut() else { return Err(Error::NotInstalled) };
            let (before, arrived_before) = state.seen[d];
            let classified_now = classified.saturating_sub(before);
            let arrived_now = arrived.saturating_sub(arrived_before);
            // A packet of many segments counts once in nftables and often in HTB, so an excess of arrivals means
            // nothing; some packets are lost in between for lack of a neighbour.
            let holds = classified_now < VERDICT_PACKETS || arrived_now * 2 >= classified_now;
            if classified_now >= VERDICT_PACKETS {
                state.seen[d] = (classified, arrived);
            }
            let mut classifier = state.classifier[d];
            if !holds {
                let grouped = !state.groups[d].is_empty();
                if let Some(next) = state.available.after(classifier, grouped) {
                    self.use_classifier(direction, next)?;
                    classifier = next;
                }
            }
            result.push(Verification {
                direction,
                classified: classified_now,
                arrived: arrived_now,
                holds,
                classifier,
            });
        }
        Ok(result)
    }

    fn audit(&mut self) -> Result<Vec<Deviation>, Error> {
        audit::audit(self)
    }

    fn classifiers(&self) -> Option<[Classifier; 2]> {
        self.state.as_ref().map(|state| state.classifier)
    }

    fn renew(&mut self) -> Result<(), Error> {
        self.check_links()?;
        let state = self.state.as_mut().ok_or(Error::NotInstalled)?;
        state.rules.renew(&mut self.netfilter, &state.layout, state.classifier)
    }

    fn release(&mut self) -> Result<(), Error> {
        let state = self.state.as_ref().ok_or(Error::NotInstalled)?;
        let classes: Vec<u16> =
            std::iter::once(ClassId::ALL.0).chain(state.members.keys().copied()).collect();
        let mut result = Ok(());
        for direction in Direction::BOTH {
            let changes: Vec<RateChange> = classes
                .iter()
                .map(|c| RateChange { slot: Slot { class: ClassId(*c), direction }, rate: None })
                .collect();
            result = result.and(self.apply(direction, &changes));
        }
        result
    }

    fn remove(&mut self, layout: &Layout) -> Result<Removed, Error> {
        self.state = None;
        build::remove(&mut self.netlink, layout)
    }
}

/// Returns the filter that reads a class from the packet's mark; `None` for priorities.
fn mark_filter(classifier: Classifier) -> Option<filter::Filter> {
    match classifier {
        Classifier::Priority => None,
        Classifier::MarkFw => Some(filter::Filter::MarkFw),
        Classifier::MarkBpf => Some(filter::Filter::MarkBpf),
    }
}
