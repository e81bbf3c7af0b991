//! Installing, taking over, finding out what is there, removing.

use std::thread;
use std::time::{Duration, Instant};

use super::tree::{Port, class_of};
use super::{HtbPlane, Member, State, ids, mark_filter};
use crate::error::Error;
use crate::link::{self, Link};
use crate::netlink::{Batch, Netlink};
use crate::nft::{self, Maps, Rules, run::Table};
use crate::packet::{self, Carrier};
use crate::shaper::*;
use crate::tc::htb::{Class, Qdisc};
use crate::tc::stats::Dumped;
use crate::tc::{Handle, Head, leaf};

/// Frames that try out a classifier.
const PROBES: u32 = 3;
/// How long to wait for them.
const PROBE_PATIENCE: Duration = Duration::from_millis(300);
/// How long what waits in our classes gets to leave before they go.
const DRAIN: Duration = Duration::from_millis(500);

/// What sits at an interface's root.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Root {
    /// What the kernel put there.
    Default(String),
    Ours,
    Foreign {
        kind: String,
        handle: Handle,
    },
}

fn root(netlink: &mut Netlink, link: &Link, handle: u16) -> Result<Root, Error> {
    let head = Head::new(link.index, Handle::NONE, Handle::ROOT);
    let ours = Handle::new(handle, 0);
    let read = |_, payload: &[u8]| {
        let dumped = Dumped::read(payload)?;
        let there = dumped.head.handle;
        Some(match Qdisc::read(dumped.options) {
            _ if dumped.is_kernels_default() => Root::Default(dumped.kind.to_owned()),
            Some(options)
                if dumped.kind == "htb" && there == ours && options.default == ids::UNMAPPED =>
            {
                Root::Ours
            }
            _ => Root::Foreign { kind: dumped.kind.to_owned(), handle: there },
        })
    };
    let answer = netlink.get("the root qdisc", libc::RTM_GETQDISC, |out| head.write(out), read);
    match answer {
        Ok(found) => Ok(found.unwrap_or(Root::Default("none".into()))),
        Err(e) if e.errno() == Some(libc::ENOENT) => Ok(Root::Default("none".into())),
        Err(e) => Err(e),
    }
}

/// Refuses what is not ours before anything is touched.
fn survey(netlink: &mut Netlink, link: &Link, handle: u16) -> Result<Root, Error> {
    match root(netlink, link, handle)? {
        Root::Foreign { kind, handle } => Err(Error::ForeignQdisc {
            interface: link.name.clone(),
            kind,
            handle: handle.to_string(),
        }),
        root => Ok(root),
    }
}

/// nftables families in which our table may be.
fn tables(layout: &Layout, egress_hook: bool) -> Result<Vec<&'static str>, Error> {
    let mut ours = Vec::new();
    let families: &[&str] = if egress_hook { &["inet", "netdev"] } else { &["inet"] };
    for &family in families {
        match nft::run::table(family, &layout.table)? {
            Table::Absent => {}
            Table::Ours => ours.push(family),
            Table::Foreign => {
                return Err(Error::ForeignTable { table: layout.table.clone() });
            }
        }
    }
    Ok(ours)
}

pub(super) fn install(plane: &mut HtbPlane, layout: &Layout) -> Result<Installed, Error> {
    layout.check()?;
    plane.state = None;
    let egress_hook = crate::probe::egress_hook();
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
    let built = build(plane, layout, &links, &roots, egress_hook, adopted);
    if built.is_err() && !adopted {
        // Nothing was there before, so nothing stays.
        let _ = remove(&mut plane.netlink, layout);
    }
    built
}

fn build(
    plane: &mut HtbPlane,
    layout: &Layout,
    links: &[Link; 2],
    roots: &[Root; 2],
    egress_hook: bool,
    adopted: bool,
) -> Result<Installed, Error> {
    let netlink = &mut plane.netlink;
    let mut notes = Vec::new();
    let mut replaced = Vec::new();
    let mut swept = 0;
    let mut leaf = None;
    let mut retiring = [Default::default(), Default::default()];
    let ports = [0, 1].map(|side: usize| Port {
        name: links[side].name.clone(),
        index: links[side].index,
        root: Handle::new(layout.handle, 0),
        mtu: links[side].mtu,
        header: links[side].header,
    });
    for (side, port) in ports.iter().enumerate() {
        if let Root::Default(kind) = &roots[side] {
            replaced.push(format!("{}: {kind}", port.name));
            let mut batch = Batch::new();
            port.root(&mut batch);
            let refused = netlink.apply(&mut batch)?;
            if refused.iter().any(|r| r.source.raw_os_error() == Some(libc::ENOENT)) {
                return Err(Error::Missing {
                    what: "HTB (kernel module sch_htb)".into(),
                    hint: "modprobe sch_htb; on OpenWrt install kmod-sched-core".into(),
                });
            }
            port.refused(refused, "adding HTB")?;
        }
        let mut batch = Batch::new();
        port.everybody(&mut batch, None, layout.burst);
        port.own(&mut batch, ids::UNMAPPED, 1);
        port.own(&mut batch, ids::BYPASS, 0);
        let refused = netlink.apply(&mut batch)?;
        port.refused(refused, "adding our classes")?;
        let choice = match leaf {
            None => layout.leaf,
            Some(kind) => LeafChoice::Only(kind),
        };
        let kind = find_leaf(netlink, port, choice, layout)?;
        leaf = Some(kind);
        put_leaf(netlink, port, ids::BYPASS, LeafKind::Pfifo, Layout::QUEUE)?;
        let left =
            if roots[side] == Root::Ours { leftovers(netlink, port, layout)? } else { vec![] };
        swept += left.len();
        retiring[side] = left.into_iter().collect();
        subscribers(netlink, port, layout, kind)?;
        if !port.bypass_frames(netlink)? {
            notes.push(format!(
                "{}: the kernel has neither u32 nor bpf filters; ARP counts as unmapped traffic",
                port.name
            ));
        }
    }
    let leaf = leaf.unwrap_or(LeafKind::Pfifo);
    if matches!(leaf, LeafKind::Bfifo | LeafKind::Pfifo) && layout.leaf == LeafChoice::Best {
        notes.push(
            "this kernel has neither fq_codel nor cake: every subscriber has one FIFO".into(),
        );
    }
    let available = classifiers(netlink, &ports[0]);
    let mut classifier = [Classifier::Priority; 2];
    for side in [0, 1] {
        let (held, note) = try_out(netlink, &ports[side], &links[side], &available)?;
        classifier[side] = held;
        notes.extend(note);
    }
    if !egress_hook && layout.subscribers.iter().any(|s| !s.macs.is_empty()) {
        notes.push(
            "nftables has no egress hook here (Linux 5.16): downstream traffic is not classified by \
             Ethernet address"
                .into(),
        );
    }
    let maps = Maps::of(&layout.subscribers);
    let rules = Rules {
        layout,
        maps: &maps,
        classifier,
        egress_hook,
        bypass: Handle::new(layout.handle, ids::BYPASS),
        indexes: ports.each_ref().map(|p| p.index),
    };
    nft::run::apply(&rules.install())?;
    let fresh =
        |s: &Subscriber| (s.class.0, Member::new(s.weight, [layout.queue_at(leaf, None); 2]));
    let mut state = State {
        layout: layout.clone(),
        leaf,
        classifier,
        available,
        egress_hook,
        members: layout.subscribers.iter().map(fresh).collect(),
        maps,
        ports,
        aggregate: [None; 2],
        retiring,
        seen: [(0, 0); 2],
        rules: 0,
        generation: None,
    };
    // Classes that were taken over have counted before; nftables' counters are new.
    for side in [Side::Mesh, Side::Wired] {
        plane.state = Some(state);
        let everybody = plane.read(side, ids::EVERYBODY)?;
        let root = plane.read(side, 0)?;
        let arrived = everybody.packets + u64::from(root.drops) + u64::from(root.queued_packets);
        state = plane.state.take().ok_or(Error::NotInstalled)?;
        state.seen[side as usize] = (0, arrived);
    }
    plane.state = Some(state);
    plane.count_rules()?;
    plane.renew()?;
    let headers = links.each_ref().map(|l| l.header);
    Ok(Installed { leaf, classifier, adopted, swept, headers, replaced, notes })
}

/// Makes or changes all subscribers' classes, unlimited.
fn subscribers(
    netlink: &mut Netlink,
    port: &Port,
    layout: &Layout,
    kind: LeafKind,
) -> Result<(), Error> {
    let queue = layout.queue_at(kind, None);
    let mut batch = Batch::new();
    for s in &layout.subscribers {
        let class = class_of(None, false, s.weight, layout.burst);
        port.subscriber(&mut batch, s.class.0, &class, libc::NLM_F_CREATE as u16);
    }
    let refused = netlink.apply(&mut batch)?;
    port.refused(refused, "adding a class")?;
    batch.clear();
    for s in &layout.subscribers {
        port.leaf(&mut batch, s.class.0, kind, queue);
    }
    let refused = netlink.apply(&mut batch)?;
    // Of an earlier run with another kind of leaf.
    let other: Vec<u16> = refused.iter().map(|r| layout.subscribers[r.index].class.0).collect();
    for minor in other {
        put_leaf(netlink, port, minor, kind, queue)?;
    }
    Ok(())
}

/// Classes of subscribers that are not in the layout; they become unlimited.
fn leftovers(netlink: &mut Netlink, port: &Port, layout: &Layout) -> Result<Vec<u16>, Error> {
    let known: std::collections::BTreeSet<u16> =
        layout.subscribers.iter().map(|s| s.class.0).collect();
    let head = Head::new(port.index, Handle::NONE, port.root);
    let mut left = Vec::new();
    netlink.dump(
        "classes",
        libc::RTM_GETTCLASS,
        |out| head.write(out),
        |_, payload| {
            let Some(dumped) = Dumped::read(payload) else { return };
            let minor = dumped.head.handle.minor();
            if minor <= ClassId::MAX.0 && !known.contains(&minor) {
                left.push(minor);
            }
        },
    )?;
    let mut batch = Batch::new();
    for &minor in &left {
        port.subscriber(&mut batch, minor, &class_of(None, false, 1, layout.burst), 0);
    }
    let refused = netlink.apply(&mut batch)?;
    port.refused(refused, "releasing a class")?;
    Ok(left)
}

/// Tries leaves on the class of nobody known.
fn find_leaf(
    netlink: &mut Netlink,
    port: &Port,
    choice: LeafChoice,
    layout: &Layout,
) -> Result<LeafKind, Error> {
    let unlimited = Layout { queue: layout.queue.max(1000), ..layout.clone() };
    let candidates = match choice {
        LeafChoice::Best => LeafKind::ALL.to_vec(),
        LeafChoice::Only(kind) => vec![kind],
    };
    for kind in candidates {
        match put_leaf(netlink, port, ids::UNMAPPED, kind, unlimited.queue_at(kind, None)) {
            Ok(()) => return Ok(kind),
            Err(e) if e.errno() == Some(libc::ENOENT) => {}
            Err(e) => return Err(e),
        }
    }
    let LeafChoice::Only(kind) = choice else {
        return Err(Error::Missing {
            what: "any leaf qdisc, even pfifo".into(),
            hint: "use a kernel with CONFIG_NET_SCH_FIFO".into(),
        });
    };
    Err(Error::Missing {
        what: format!("the leaf qdisc {kind} (kernel module sch_{})", leaf::module(kind)),
        hint: "choose another, or `best` for what there is".into(),
    })
}

/// Puts a queue into a class; one of another kind is thrown out, with what it holds.
fn put_leaf(
    netlink: &mut Netlink,
    port: &Port,
    minor: u16,
    kind: LeafKind,
    queue: u32,
) -> Result<(), Error> {
    let mut batch = Batch::new();
    port.leaf(&mut batch, minor, kind, queue);
    let mut refused = netlink.apply(&mut batch)?;
    if refused.iter().any(|r| r.source.raw_os_error() == Some(libc::EINVAL)) {
        if stays(netlink, port, minor, kind, queue)? {
            return Ok(());
        }
        let mut drop = Batch::new();
        port.drop_leaf(&mut drop, minor);
        netlink.apply(&mut drop)?;
        refused = netlink.apply(&mut batch)?;
    }
    port.refused(refused, "adding a leaf queue")
}

/// Whether a class's queue is as wanted already, or could be made so, with what waits in it. Of these kinds the kernel
/// refuses a message that would make a new one.
fn stays(
    netlink: &mut Netlink,
    port: &Port,
    minor: u16,
    kind: LeafKind,
    queue: u32,
) -> Result<bool, Error> {
    match kind {
        LeafKind::FqCodel => {
            let mut batch = Batch::new();
            port.rewrite_fq_codel(&mut batch, minor);
            Ok(netlink.apply(&mut batch)?.is_empty())
        }
        LeafKind::Sfq => {
            let head = port.leaf_head(minor);
            let read = |_, payload: &[u8]| {
                let dumped = Dumped::read(payload)?;
                Some(dumped.kind == "sfq" && leaf::sfq_limit(dumped.options) == Some(queue))
            };
            let there = netlink.get("a leaf", libc::RTM_GETQDISC, |out| head.write(out), read);
            // Whatever else is there is not one of these.
            Ok(matches!(there, Ok(Some(true))))
        }
        _ => Ok(false),
    }
}

/// Ways to classify that this kernel has, found out on our own tree.
fn classifiers(netlink: &mut Netlink, port: &Port) -> Vec<Classifier> {
    let mut there = vec![Classifier::Priority];
    // BPF first: a `fw` filter without options, which is the one that names a class by the mark, ends
    // the kernel's list of filters, and `tc filter show` shows nothing after it.
    for classifier in [Classifier::MarkBpf, Classifier::MarkFw] {
        if mark_filter(classifier).is_some() && port.filter(netlink, classifier).is_ok() {
            there.push(classifier);
            port.remove_mark_filter(netlink);
        }
    }
    there
}

/// Sends frames of our own and looks where they end up.
fn try_out(
    netlink: &mut Netlink,
    port: &Port,
    link: &Link,
    available: &[Classifier],
) -> Result<(Classifier, Option<String>), Error> {
    let unknown = |why: &str| {
        let note = format!("{}: classification could not be tried out ({why})", port.name);
        Ok((Classifier::Priority, Some(note)))
    };
    if link.mac.is_none() {
        return unknown("no Ethernet");
    }
    if !link.up {
        return unknown("the interface is down");
    }
    let mut order = available.to_vec();
    if link.maps_priorities {
        // A class number as priority is in nobody's map: the operator's markings would be lost.
        order.sort_by_key(|c| *c == Classifier::Priority);
    }
    for classifier in order {
        port.filter(netlink, classifier)?;
        let carrier = match classifier {
            Classifier::Priority => Carrier::Priority,
            _ => Carrier::Mark,
        };
        match arrives(netlink, port, link, carrier) {
            Ok(true) if classifier == Classifier::Priority => {
                let note = link.maps_priorities.then(|| {
                    format!(
                        "{}: its map of priorities (egress-qos-map) does not see those of \
                         subscribers' packets, and this kernel has no filter for marks instead",
                        port.name
                    )
                });
                return Ok((classifier, note));
            }
            Ok(true) if link.maps_priorities => {
                let note =
                    format!("{}: it maps priorities (egress-qos-map); marks are used", port.name);
                return Ok((classifier, Some(note)));
            }
            Ok(true) => {
                // Those before may have been lost otherwise: a bridge that has just come up is without
                // carrier for a moment, and then all is dropped.
                if arrives(netlink, port, link, Carrier::Priority)? {
                    port.remove_mark_filter(netlink);
                    return Ok((Classifier::Priority, None));
                }
                let note =
                    format!("{}: the driver overwrites priorities; marks are used", port.name);
                return Ok((classifier, Some(note)));
            }
            Ok(false) => port.remove_mark_filter(netlink),
            Err(e @ Error::Io { .. }) => return unknown(&e.to_string()),
            Err(e) => return Err(e),
        }
    }
    let note = format!(
        "{}: frames of our own did not reach their class by any of {} ways to classify",
        port.name,
        available.len()
    );
    Ok((Classifier::Priority, Some(note)))
}

fn arrives(
    netlink: &mut Netlink,
    port: &Port,
    link: &Link,
    carrier: Carrier,
) -> Result<bool, Error> {
    let mut batch = Batch::new();
    port.delete(&mut batch, ids::PROBE); // of an earlier run, maybe
    netlink.apply(&mut batch)?;
    batch.clear();
    port.own(&mut batch, ids::PROBE, 0);
    let refused = netlink.apply(&mut batch)?;
    port.refused(refused, "adding a class")?;
    let sent = packet::send(link, port.class(ids::PROBE), carrier, PROBES);
    let head = Head::new(port.index, port.class(ids::PROBE), Handle::NONE);
    let start = Instant::now();
    let mut arrived = false;
    while sent.is_ok() && !arrived && start.elapsed() < PROBE_PATIENCE {
        let packets = netlink.get(
            "the trial class",
            libc::RTM_GETTCLASS,
            |out| head.write(out),
            |_, payload| Some(Dumped::read(payload)?.stats?.packets),
        )?;
        arrived = packets.is_some_and(|p| p >= u64::from(PROBES));
        if !arrived {
            thread::sleep(Duration::from_millis(5));
        }
    }
    batch.clear();
    port.delete(&mut batch, ids::PROBE);
    netlink.apply(&mut batch)?;
    sent.map(|()| arrived)
}

/// Lets out what waits in our classes on an interface: without limits it is gone within moments,
/// unless the interface itself has no room. What cannot be done is left: all goes anyway.
fn drain(netlink: &mut Netlink, port: &Port) {
    let mut limited = Batch::new();
    let classes = Head::new(port.index, Handle::NONE, port.root);
    let read = |_, payload: &[u8]| {
        let Some(dumped) = Dumped::read(payload) else { return };
        let minor = dumped.head.handle.minor();
        match Class::read(dumped.options) {
            Some(class) if minor == ids::EVERYBODY && class.ceil < Class::UNLIMITED => {
                port.everybody(&mut limited, None, Layout::BURST);
            }
            Some(class) if minor <= ClassId::MAX.0 && class.ceil < Class::UNLIMITED => {
                let class = class_of(None, false, 1, Layout::BURST);
                port.subscriber(&mut limited, minor, &class, 0);
            }
            _ => {}
        }
    };
    if netlink.dump("classes", libc::RTM_GETTCLASS, |out| classes.write(out), read).is_err() {
        return;
    }
    let _ = netlink.apply(&mut limited);
    let root = Head::new(port.index, port.root, Handle::NONE);
    let start = Instant::now();
    while start.elapsed() < DRAIN {
        let waiting = |_, payload: &[u8]| Some(Dumped::read(payload)?.stats?.queued_packets);
        let what = "the root qdisc";
        match netlink.get(what, libc::RTM_GETQDISC, |out| root.write(out), waiting) {
            Ok(Some(1..)) => thread::sleep(Duration::from_millis(2)),
            _ => return,
        }
    }
}

pub(super) fn remove(netlink: &mut Netlink, layout: &Layout) -> Result<Removed, Error> {
    let mut removed = Removed::default();
    let mut result = Ok(());
    // A queueing discipline takes with it what waits there.
    let drain_ours = |netlink: &mut Netlink| {
        for interface in [&layout.mesh, &layout.wired] {
            let Ok(link) = link::find(netlink, interface.name()) else { continue };
            if matches!(root(netlink, &link, layout.handle), Ok(Root::Ours)) {
                let root = Handle::new(layout.handle, 0);
                let Link { name, index, mtu, header, .. } = link;
                drain(netlink, &Port { name, index, root, mtu, header });
            }
        }
    };
    drain_ours(netlink);
    // Rules first: from then on everything goes through the class without limit.
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
            Ok((Root::Ours, link)) => {
                let head = Head::new(link.index, Handle::new(layout.handle, 0), Handle::ROOT);
                let what = || format!("removing HTB from {interface}");
                let gone = netlink.change(what, libc::RTM_DELQDISC, 0, |out| head.write(out));
                match gone {
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
