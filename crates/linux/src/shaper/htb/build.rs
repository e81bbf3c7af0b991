//! Installation, take-over and removal.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use super::find::{Root, leftovers, root, survey, tables, there};
use super::leaves::{ClassParameters, Leaves};
use super::place::Place;
use super::tree::Port;
use super::trial::{Available, try_out};
use super::{HtbShaper, Member, State, groups, ids, leaves, sides};
use crate::error::Error;
use crate::link::{self, Link};
use crate::netlink::{Batch, Netlink};
use crate::nft::{self, Rules, run::Table};
use crate::shaper::rules::RulesInForce;
use crate::shaper::*;
use crate::tc::htb::Class;
use crate::tc::stats::Dumped;
use crate::tc::{Handle, Head};

/// Time for which packets in our classes may drain before the classes are removed.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);

pub(super) fn install(plane: &mut HtbShaper, layout: &Layout) -> Result<Installed, Error> {
    layout.check()?;
    plane.state = None;
    sides::check(&mut plane.netlink, layout)?;
    let links = [
        link::find(&mut plane.netlink, layout.mesh.name())?,
        link::find(&mut plane.netlink, layout.wired.name())?,
    ];
    let roots = [
        survey(&mut plane.netlink, &links[0], layout.handle)?,
        survey(&mut plane.netlink, &links[1], layout.handle)?,
    ];
    let adopted_tables = tables(layout, true)?;
    let adopted = roots.contains(&Root::Ours) || !adopted_tables.is_empty();
    let built = build(plane, layout, &links, &roots, adopted);
    if built.as_ref().is_err_and(|e| !e.is_busy()) && !adopted {
        // Nothing was there before, so all is removed. A busy call continues when it is repeated.
        let _ = remove(&mut plane.netlink, layout);
    }
    built
}

fn build(
    plane: &mut HtbShaper,
    layout: &Layout,
    links: &[Link; 2],
    roots: &[Root; 2],
    adopted: bool,
) -> Result<Installed, Error> {
    let netlink = &mut plane.netlink;
    let mut notes = Vec::new();
    let mut replaced = Vec::new();
    let mut swept = 0;
    let mut leaf: Option<Leaves> = None;
    let mut before = [BTreeMap::new(), BTreeMap::new()];
    let mut retiring = [BTreeMap::new(), BTreeMap::new()];
    let mut in_groups = [BTreeSet::new(), BTreeSet::new()];
    let mut ports = [0, 1].map(|side: usize| port(&links[side], layout.handle));
    for (side, port) in ports.iter().enumerate() {
        match &roots[side] {
            Root::Default(kind) => {
                replaced.push(format!("{}: {kind}", port.name));
                put_root(netlink, port)?;
            }
            Root::Fq => {
                drain(netlink, port);
                detach(netlink, &links[side])?;
                remove_root(netlink, port)?;
                put_root(netlink, port)?;
            }
            Root::Ours | Root::Foreign { .. } => {}
        }
    }
    let available = Available::on(netlink, &ports[0]);
    for port in &mut ports {
        port.place.grouped = available.any_group();
    }
    for (side, port) in ports.iter().enumerate() {
        let mut left = there(netlink, port)?;
        if left.misplaced {
            // Two trees at once would share queues, since queues are numbered as their classes.
            drain(netlink, port);
            remove_root(netlink, port)?;
            put_root(netlink, port)?;
            left = Default::default();
            notes.push(format!(
                "{}: created again, since classes were placed otherwise; queued packets are lost",
                port.name
            ));
        }
        let mut batch = Batch::new();
        port.aggregate(&mut batch, None, layout.burst);
        port.own(&mut batch, ids::UNMAPPED, 1);
        port.own(&mut batch, ids::BYPASS, 0);
        let refused = netlink.apply(&mut batch)?;
        port.refused(refused, "adding our classes")?;
        let choice = leaf.map_or(layout.leaf, |l| LeafChoice::Only(l.kind));
        let kind = leaves::find(netlink, port, choice, layout)?;
        let leaves = leaf.map_or_else(|| Leaves::on(netlink, port, kind), Ok)?;
        leaf = Some(leaves);
        leaves::put(netlink, port, ids::BYPASS, LeafKind::Pfifo, Layout::DEFAULT_QUEUE)?;
        let mut trees = groups::of(port, layout.subscribers.iter().map(|s| s.class.0));
        trees.extend(&left.groups);
        groups::put(netlink, port, trees.iter().copied(), false)?;
        in_groups[side] = trees;
        if !left.classes.is_empty() {
            before[side] = leaves::there(netlink, port)?;
        }
        let gone = leftovers(netlink, port, layout, &left)?;
        swept += gone.len();
        retiring[side] =
            gone.into_iter().map(|minor| (minor, before[side].get(&minor).copied())).collect();
        let all: Vec<&Subscriber> = layout.subscribers.iter().collect();
        let parameters =
            ClassParameters { layout, leaves, groups: in_groups[side].len(), whole: None };
        leaves::make(netlink, port, parameters, (&all, &before[side]), || ())?;
        if !port.bypass_frames(netlink)? {
            notes.push(format!(
                "{}: the kernel has neither u32 nor bpf filters; ARP counts as unmapped traffic",
                port.name
            ));
        }
    }
    let leaves = leaf.ok_or(Error::NotInstalled)?;
    let leaf = leaves.kind;
    if matches!(leaf, LeafKind::Bfifo | LeafKind::Pfifo) && layout.leaf == LeafChoice::Best {
        notes.push(
            "this kernel has neither fq_codel nor cake: every subscriber has one FIFO".into(),
        );
    }
    let mut classifier = [Classifier::Priority; 2];
    for side in [0, 1] {
        let trees: Vec<u16> = in_groups[side].iter().copied().collect();
        let (held, note) = try_out(netlink, &ports[side], &links[side], &available, &trees)?;
        if held == Classifier::Priority {
            // A filter of an earlier run would still map marks to classes, and the operator uses the marks now.
            ports[side].remove_mark_filter(netlink);
        }
        classifier[side] = held;
        notes.extend(note);
    }
    if !crate::probe::egress_hook() && layout.subscribers.iter().any(|s| !s.macs.is_empty()) {
        notes.push(NO_EGRESS_HOOK.into());
    }
    let indexes = ports.each_ref().map(|p| p.index);
    let rules =
        RulesInForce::install(&mut plane.netfilter, layout, classifier, ports[0].place, indexes)?;
    let fresh = |s: &Subscriber| {
        let minor = s.class.0;
        let first = |d: usize| leaves.first(in_groups[d].len(), before[d].get(&minor).copied());
        let kinds = [first(0), first(1)];
        (minor, Member::new(s.turn, kinds, kinds.map(|kind| layout.queue_at(kind, None))))
    };
    let members = layout.subscribers.iter().map(fresh).collect();
    let mut state = State {
        layout: layout.clone(),
        leaves,
        classifier,
        available,
        groups: in_groups.map(|g| g.into_iter().map(|g| (g, groups::QUANTUM)).collect()),
        members,
        ports,
        aggregate: [None; 2],
        retiring,
        seen: [(0, 0); 2],
        rules,
        watch: Default::default(),
    };
    // Classes that were taken over have counted before; nftables' counters are new.
    for side in [Side::Mesh, Side::Wired] {
        plane.state = Some(state);
        let aggregate = plane.read(side, ids::AGGREGATE)?;
        let root = plane.read(side, 0)?;
        let arrived = aggregate.packets + u64::from(root.drops) + u64::from(root.queued_packets);
        state = plane.state.take().ok_or(Error::NotInstalled)?;
        state.seen[side as usize] = (0, arrived);
    }
    plane.state = Some(state);
    plane.renew()?;
    let headers = links.each_ref().map(|l| l.header);
    let shaper = ShaperKind::Htb;
    Ok(Installed { shaper, leaf, classifier, adopted, swept, headers, replaced, notes })
}

/// Removes our root qdisc from an interface after its packets have drained.
pub(in crate::shaper) fn clear(
    netlink: &mut Netlink,
    link: &Link,
    handle: u16,
) -> Result<(), Error> {
    let port = port(link, handle);
    drain(netlink, &port);
    remove_root(netlink, &port)
}

/// Removes the filter that sets departure times, which lifts its limits.
fn detach(netlink: &mut Netlink, link: &Link) -> Result<(), Error> {
    crate::bpf::hook::remove(netlink, link, &crate::bpf::pace::FILTER).map(drop)
}

/// Returns an interface with our tree on it, all classes in that of the root.
fn port(link: &Link, handle: u16) -> Port {
    let place = Place { root: Handle::new(handle, 0), grouped: false };
    let Link { name, index, mtu, header, .. } = link.clone();
    Port { name, index, place, mtu, header }
}

pub(super) fn put_root(netlink: &mut Netlink, port: &Port) -> Result<(), Error> {
    let mut batch = Batch::new();
    port.put_root(&mut batch);
    let refused = netlink.apply(&mut batch)?;
    if refused.iter().any(|r| r.source.raw_os_error() == Some(libc::ENOENT)) {
        return Err(Error::Missing {
            what: "HTB (kernel module sch_htb)".into(),
            hint: "modprobe sch_htb; on OpenWrt install kmod-sched-core".into(),
        });
    }
    port.refused(refused, "adding HTB")
}

pub(super) fn remove_root(netlink: &mut Netlink, port: &Port) -> Result<(), Error> {
    let head = Head::new(port.index, port.root(), Handle::ROOT);
    let what = || format!("removing our root qdisc from {}", port.name);
    netlink.change(what, libc::RTM_DELQDISC, 0, |out| head.write(out))
}

/// Lifts all limits of an interface, in place.
fn lift_on(netlink: &mut Netlink, port: &Port) -> Result<(), Error> {
    let mut limited = Batch::new();
    let mut trees = vec![port.root()];
    while let Some(tree) = trees.pop() {
        let classes = Head::new(port.index, Handle::NONE, tree);
        let read = |_, payload: &[u8]| {
            let Some(dumped) = Dumped::read(payload) else { return };
            let handle = dumped.head.handle;
            trees.extend(
                Place::held(handle.minor()).filter(|_| tree == port.root()).map(Place::tree),
            );
            match Class::read(dumped.options) {
                Some(class) if class.ceil >= Class::UNLIMITED => {}
                Some(_) if handle.minor() == ids::AGGREGATE => {
                    port.aggregate(&mut limited, None, Layout::DEFAULT_BURST);
                }
                Some(_) if handle.minor() <= ClassId::MAX.0 => port.release(&mut limited, handle),
                _ => {}
            }
        };
        netlink.dump("classes", libc::RTM_GETTCLASS, |out| classes.write(out), read)?;
    }
    let refused = netlink.apply(&mut limited)?;
    port.refused(refused, "lifting a limit")
}

/// Drains our classes on an interface.
///
/// Without limits this takes moments, unless the interface itself is congested. Failures are ignored: everything is
/// removed anyway.
fn drain(netlink: &mut Netlink, port: &Port) {
    let _ = lift_on(netlink, port);
    let root = Head::new(port.index, port.root(), Handle::NONE);
    let start = Instant::now();
    while start.elapsed() < DRAIN_TIMEOUT {
        let waiting = |_, payload: &[u8]| Some(Dumped::read(payload)?.stats?.queued_packets);
        let what = "the root qdisc";
        match netlink.get(what, libc::RTM_GETQDISC, |out| root.write(out), waiting) {
            Ok(Some(1..)) => thread::sleep(Duration::from_millis(2)),
            _ => return,
        }
    }
}

/// Implements [`HtbShaper::lift`].
pub(super) fn lift(netlink: &mut Netlink, layout: &Layout) -> Result<(), Error> {
    let mut result = Ok(());
    for interface in [&layout.mesh, &layout.wired] {
        let lifted = match link::find(netlink, interface.name()) {
            Ok(link) => match root(netlink, &link, layout.handle) {
                Ok(Root::Ours) => lift_on(netlink, &port(&link, layout.handle)),
                Ok(Root::Fq) => detach(netlink, &link),
                other => other.map(drop),
            },
            Err(Error::NoInterface(_)) => Ok(()),
            Err(e) => Err(e),
        };
        result = result.and(lifted);
    }
    result
}

pub(in crate::shaper) fn remove(netlink: &mut Netlink, layout: &Layout) -> Result<Removed, Error> {
    let mut removed = Removed::default();
    let mut result = Ok(());
    // Removing a queueing discipline drops the packets that wait in it.
    let drain_ours = |netlink: &mut Netlink| {
        for interface in [&layout.mesh, &layout.wired] {
            let Ok(link) = link::find(netlink, interface.name()) else { continue };
            if matches!(root(netlink, &link, layout.handle), Ok(Root::Ours | Root::Fq)) {
                drain(netlink, &port(&link, layout.handle));
            }
        }
    };
    drain_ours(netlink);
    // Rules first: afterwards all packets pass through the class without limit.
    for family in ["inet", "netdev"] {
        match nft::run::table(family, &layout.table) {
            Ok(Table::Absent) => {}
            Ok(Table::Foreign) => {
                removed.kept.push(format!("table {family} {}: not ours", layout.table));
            }
            Ok(Table::Ours) => {
                result = result.and(nft::run::apply(&Rules::remove(&layout.table, &[family])));
                removed.tables.push(format!("{family} {}", layout.table));
            }
            Err(Error::Missing { .. }) => {} // without nft there is no table of ours
            Err(e) => result = result.and(Err(e)),
        }
    }
    drain_ours(netlink);
    for interface in [&layout.mesh, &layout.wired] {
        let found = link::find(netlink, interface.name())
            .and_then(|link| Ok((root(netlink, &link, layout.handle)?, link)));
        match found {
            Ok((Root::Ours | Root::Fq, link)) => {
                result = result.and(detach(netlink, &link));
                match remove_root(netlink, &port(&link, layout.handle)) {
                    Ok(()) => removed.qdiscs.push(interface.to_string()),
                    Err(e) => result = result.and(Err(e)),
                }
            }
            Ok((Root::Foreign { kind, handle }, _)) => {
                removed.kept.push(format!("{interface}: {kind} {handle}"));
            }
            Ok((Root::Default(_), _)) | Err(Error::NoInterface(_)) => {}
            Err(e) => result = result.and(Err(e)),
        }
    }
    result.map(|()| removed)
}
