//! Queues in classes: which kind, and from when on.
//!
//! A `fq_codel`, as all that have several queues, is a place for filters, and so is each class of HTB. For each such
//! place that is made the kernel goes over all there are on interfaces whose drivers do no traffic control of their
//! own (`flow_indr_dev_setup_offload`). With ten thousand subscribers these queues are half of the places, three
//! quarters of the steps, and 100 MB. So where there are groups a class begins with a FIFO of bytes, which is short and
//! no such place, and gets its own queue once it has been seen with traffic.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use fairmesh_units::BitRate;

use super::tree::Port;
use super::{HtbShaper, PART, State, ids, lower};
use crate::error::Error;
use crate::netlink::{Batch, Netlink};
use crate::shaper::*;
use crate::tc::stats::Dumped;
use crate::tc::{Handle, Head, leaf};

/// Classes of one direction that get their own queue at one look.
const AT_A_LOOK: usize = 32;
/// The longest that limits are lifted meanwhile: what waits at a limit as low as 300 kbit/s is paid for by then.
const WITHOUT_LIMIT: Duration = Duration::from_millis(50);

/// Which kinds of queues classes have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Leaves {
    /// The kind asked for.
    pub kind: LeafKind,
    /// Whether the kernel has what classes can begin with.
    fifo: bool,
}

impl Leaves {
    /// As this kernel can have them.
    pub fn on(netlink: &mut Netlink, port: &Port, kind: LeafKind) -> Result<Self, Error> {
        let plain = matches!(kind, LeafKind::Bfifo | LeafKind::Pfifo);
        Ok(Leaves { kind, fifo: !plain && has_fifo(netlink, port)? })
    }

    /// What a class has, or is to begin with, with as many groups. Its own it keeps.
    pub fn first(self, groups: usize, there: Option<LeafKind>) -> LeafKind {
        let own = there == Some(self.kind) || !self.fifo || groups == 0;
        if own { self.kind } else { LeafKind::Bfifo }
    }
}

/// Whether the kernel has a FIFO of bytes (`tbf`), tried on a class that nobody uses.
fn has_fifo(netlink: &mut Netlink, port: &Port) -> Result<bool, Error> {
    let mut batch = Batch::new();
    let class = port.trial(&mut batch, port.root());
    let refused = netlink.apply(&mut batch)?;
    port.refused(refused, "adding a class")?;
    let has = put(netlink, port, ids::PROBE, LeafKind::Bfifo, Layout::LEAST_BYTES);
    batch.clear();
    port.delete(&mut batch, class);
    netlink.apply(&mut batch)?;
    match has {
        Ok(()) => Ok(true),
        Err(e) if e.errno() == Some(libc::ENOENT) => Ok(false),
        Err(e) => Err(e),
    }
}

/// Queues of subscribers' classes that are there already, where they are of our kinds.
pub(super) fn there(netlink: &mut Netlink, port: &Port) -> Result<BTreeMap<u16, LeafKind>, Error> {
    let mut found = BTreeMap::new();
    let head = Head::new(port.index, Handle::NONE, Handle::NONE);
    let read = |_, payload: &[u8]| {
        let Some(dumped) = Dumped::read(payload) else { return };
        let minor = dumped.head.parent.minor();
        // The kernel tells of all interfaces.
        let ours = dumped.head.index == port.index && dumped.head.parent == port.class(minor);
        let kind = LeafKind::ALL.into_iter().find(|kind| leaf::module(*kind) == dumped.kind);
        if let Some(kind) =
            kind.filter(|_| ours && dumped.head.handle == port.leaf_head(minor).handle)
        {
            found.insert(minor, kind);
        }
    };
    netlink.dump("queues", libc::RTM_GETQDISC, |out| head.write(out), read)?;
    Ok(found)
}

/// What classes of subscribers are made with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Making<'a> {
    pub layout: &'a Layout,
    pub leaves: Leaves,
    pub groups: usize,
    /// What everybody together may have.
    pub whole: Option<BitRate>,
}

/// Makes or changes classes, without limits of their own, each with a queue. `there`: the queues of those that were
/// there before. `part` is called now and then.
pub(super) fn make(
    netlink: &mut Netlink,
    port: &Port,
    making: Making<'_>,
    (who, there): (&[&Subscriber], &BTreeMap<u16, LeafKind>),
    mut part: impl FnMut(),
) -> Result<(), Error> {
    let Making { layout, leaves, groups, whole } = making;
    let mut batch = Batch::new();
    // Each class has a FIFO of the kernel's until it has ours, and all of those are in one list, so there are never many.
    for some in who.chunks(PART) {
        batch.clear();
        for s in some {
            let class = port.class_of(s.class.0, None, whole.is_some(), s.turn, layout.burst);
            port.subscriber(&mut batch, s.class.0, &class, libc::NLM_F_CREATE as u16);
        }
        let refused = netlink.apply(&mut batch)?;
        port.refused(refused, "adding a class")?;
        batch.clear();
        let queue = |minor: u16| {
            let before = there.get(&minor).copied();
            let kind = leaves.first(groups, before);
            (kind, before == Some(kind), layout.queue_at(kind, whole))
        };
        for s in some {
            match queue(s.class.0) {
                (LeafKind::FqCodel, true, _) => port.rewrite_fq_codel(&mut batch, s.class.0),
                (kind, _, queue) => port.leaf(&mut batch, s.class.0, kind, queue),
            }
        }
        // Of another kind before, or of one that takes no such message twice.
        for refused in netlink.apply(&mut batch)? {
            let minor = some[refused.index].class.0;
            let (kind, _, queue) = queue(minor);
            put(netlink, port, minor, kind, queue)?;
        }
        part();
    }
    Ok(())
}

/// Gives classes the queues that they have waited for. What is in the FIFO until then goes out first, for a moment
/// without limit, since nothing can be moved from one queue to another. `who`: with the packets waiting in each.
pub(super) fn give(
    plane: &mut HtbShaper,
    direction: Direction,
    mut who: Vec<(u32, u16)>,
) -> Result<(), Error> {
    let Some(State { layout, ports, leaves, members, aggregate, .. }) = &mut plane.state else {
        return Ok(());
    };
    let d = direction as usize;
    let (port, whole) = (&ports[d], aggregate[d]);
    // Where everybody together has a limit, lifting one's own lets nothing out.
    who.retain(|(waiting, _)| *waiting == 0 || whole.is_none());
    who.sort_unstable();
    who.truncate(AT_A_LOOK);
    let change = |batch: &mut Batch, minor: u16, turn: u32, limit: Option<BitRate>| {
        let class = port.class_of(minor, limit, whole.is_some(), turn, layout.burst);
        port.subscriber(batch, minor, &class, 0);
    };
    let batch = &mut plane.batch;
    batch.clear();
    for (_, minor) in &who {
        change(batch, *minor, members[minor].turn, None);
    }
    let refused = plane.netlink.apply(batch)?;
    port.refused(refused, "lifting a limit")?;
    let start = Instant::now();
    let mut full: Vec<u16> = who.iter().map(|(_, minor)| *minor).collect();
    loop {
        let mut waiting = Vec::new();
        for minor in full {
            if port.waiting(&mut plane.netlink, minor)? > 0 {
                waiting.push(minor);
            }
        }
        full = waiting;
        if full.is_empty() || start.elapsed() > WITHOUT_LIMIT {
            break;
        }
        thread::sleep(Duration::from_millis(2));
    }
    batch.clear();
    for (_, minor) in who {
        let Some(member) = members.get_mut(&minor) else { continue };
        if !full.contains(&minor) {
            member.leaves[d] = leaves.kind;
            member.queues[d] = layout.queue_at(leaves.kind, lower(member.limits[d], whole));
            port.drop_leaf(batch, minor);
            port.leaf(batch, minor, leaves.kind, member.queues[d]);
        }
        change(batch, minor, member.turn, member.limits[d]);
    }
    let refused = plane.netlink.apply(batch)?;
    port.refused(refused, "changing a leaf queue")
}

/// Tries kinds on the class of nobody known.
pub(super) fn find(
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
        match put(netlink, port, ids::UNMAPPED, kind, unlimited.queue_at(kind, None)) {
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
pub(super) fn put(
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
