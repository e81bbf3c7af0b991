//! Existing objects: our own from an earlier run, or another program's.

use std::collections::BTreeSet;

use super::ids;
use super::place::Place;
use super::tree::Port;
use crate::error::Error;
use crate::link::Link;
use crate::netlink::{Batch, Netlink};
use crate::nft::{self, run::Table};
use crate::shaper::{ClassId, Layout};
use crate::tc::htb::Qdisc;
use crate::tc::stats::Dumped;
use crate::tc::{Handle, Head, fq};

/// Root qdisc of an interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::shaper) enum Root {
    /// Default qdisc of the kernel.
    Default(String),
    Ours,
    /// Ours, of the data plane of departure times.
    Fq,
    Foreign {
        kind: String,
        handle: Handle,
    },
}

pub(in crate::shaper) fn root(
    netlink: &mut Netlink,
    link: &Link,
    handle: u16,
) -> Result<Root, Error> {
    let head = Head::new(link.index, Handle::NONE, Handle::ROOT);
    let ours = Handle::new(handle, 0);
    let read = |_, payload: &[u8]| {
        let dumped = Dumped::read(payload)?;
        let there = dumped.head.handle;
        Some(match Qdisc::read(dumped.options) {
            _ if dumped.is_kernels_default() => Root::Default(dumped.kind.to_owned()),
            _ if dumped.kind == fq::KIND && there == ours => Root::Fq,
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

/// Refuses an interface with another program's root qdisc before anything is changed.
pub(in crate::shaper) fn survey(
    netlink: &mut Netlink,
    link: &Link,
    handle: u16,
) -> Result<Root, Error> {
    match root(netlink, link, handle)? {
        Root::Foreign { kind, handle } => Err(Error::ForeignQdisc {
            interface: link.name.clone(),
            kind,
            handle: handle.to_string(),
        }),
        root => Ok(root),
    }
}

/// Returns the nftables families in which our table exists.
pub(in crate::shaper) fn tables(
    layout: &Layout,
    egress_hook: bool,
) -> Result<Vec<&'static str>, Error> {
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

/// Existing classes and groups of subscribers.
#[derive(Default, Debug)]
pub(super) struct Existing {
    pub classes: BTreeSet<u16>,
    pub groups: BTreeSet<u16>,
    /// True if a class is not where it would be created now.
    ///
    /// It was created where groups could not be found, or by an earlier version.
    pub misplaced: bool,
}

/// Reads all of our trees on an interface.
pub(super) fn there(netlink: &mut Netlink, port: &Port) -> Result<Existing, Error> {
    let mut there = Existing::default();
    let mut trees = vec![port.root()];
    while let Some(tree) = trees.pop() {
        let head = Head::new(port.index, Handle::NONE, tree);
        let mut groups = Vec::new();
        let read = |_, payload: &[u8]| {
            let Some(dumped) = Dumped::read(payload) else { return };
            let minor = dumped.head.handle.minor();
            if minor <= ClassId::MAX.0 {
                there.classes.insert(minor);
                there.misplaced |= dumped.head.handle != port.class(minor);
            }
            groups.extend(Place::held(minor).filter(|_| tree == port.root()));
        };
        netlink.dump("classes", libc::RTM_GETTCLASS, |out| head.write(out), read)?;
        trees.extend(groups.iter().map(|group| Place::tree(*group)));
        there.groups.extend(groups);
    }
    Ok(there)
}

/// Lifts the limits of subscribers' classes outside the layout; returns their numbers.
pub(super) fn leftovers(
    netlink: &mut Netlink,
    port: &Port,
    layout: &Layout,
    there: &Existing,
) -> Result<BTreeSet<u16>, Error> {
    let known: BTreeSet<u16> = layout.subscribers.iter().map(|s| s.class.0).collect();
    let left: BTreeSet<u16> = there.classes.difference(&known).copied().collect();
    let mut batch = Batch::new();
    for &minor in &left {
        let class = port.class_of(minor, None, false, 1, layout.burst);
        port.subscriber(&mut batch, minor, &class, 0);
    }
    let refused = netlink.apply(&mut batch)?;
    port.refused(refused, "releasing a class")?;
    Ok(left)
}
