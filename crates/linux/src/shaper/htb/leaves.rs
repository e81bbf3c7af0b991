//! Queues in classes: their kind, and the time of their creation.
//!
//! A `fq_codel`, like every qdisc with several queues, is an attachment point for filters, and so is each
//! class of HTB. For each new point the kernel walks all existing ones on interfaces with drivers without
//! traffic control of their own (`flow_indr_dev_setup_offload`). With ten thousand subscribers these queues
//! are half of the points, three quarters of the steps, and 100 MB. So if there are groups, a class begins
//! with a FIFO of bytes, which is short and not such a point, and gets its own queue once it has had traffic.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use fairmesh_units::BitRate;

use super::tree::Port;
use super::{BATCH_CLASSES, HtbShaper, State, ids, lower};
use crate::error::Error;
use crate::netlink::{Batch, Netlink};
use crate::shaper::*;
use crate::tc::stats::Dumped;
use crate::tc::{Handle, Head, leaf};

/// Most classes of one direction that get their own queue in one sample.
const MAX_PER_SAMPLE: usize = 32;
/// Longest time for which limits are lifted meanwhile.
///
/// Packets that wait at a limit as low as 300 kbit/s have drained by then.
const UNLIMITED_TIME: Duration = Duration::from_millis(50);

/// Kinds of queues in classes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Leaves {
    /// Requested kind.
    pub kind: LeafKind,
    /// True if the kernel has the FIFO that classes can begin with.
    fifo: bool,
}

impl Leaves {
    /// Returns the kinds that this kernel supports.
    pub fn on(netlink: &mut Netlink, port: &Port, kind: LeafKind) -> Result<Self, Error> {
        let plain = matches!(kind, LeafKind::Bfifo | LeafKind::Pfifo);
        Ok(Leaves { kind, fifo: !plain && has_fifo(netlink, port)? })
    }

    /// Returns the kind of queue that a class has or begins with, given the number of groups.
    ///
    /// A class that has the requested kind keeps it.
    pub fn first(self, groups: usize, there: Option<LeafKind>) -> LeafKind {
        let own = there == Some(self.kind) || !self.fifo || groups == 0;
        if own { self.kind } else { LeafKind::Bfifo }
    }
}

/// True if the kernel has a FIFO of bytes (`tbf`), tried on an unused class.
fn has_fifo(netlink: &mut Netlink, port: &Port) -> Result<bool, Error> {
    let mut batch = Batch::new();
    let class = port.trial(&mut batch, port.root());
    let refused = netlink.apply(&mut batch)?;
    port.refused(refused, "adding a class")?;
    let has = put(netlink, port, ids::PROBE, LeafKind::Bfifo, Layout::MIN_LEAF_BYTES);
    batch.clear();
    port.delete(&mut batch, class);
    netlink.apply(&mut batch)?;
    match has {
        Ok(()) => Ok(true),
        Err(e) if e.errno() == Some(libc::ENOENT) => Ok(false),
        Err(e) => Err(e),
    }
}

/// Reads the existing queues of subscribers' classes, if they are of our kinds.
pub(super) fn there(netlink: &mut Netlink, port: &Port) -> Result<BTreeMap<u16, LeafKind>, Error> {
    let mut found = BTreeMap::new();
    let head = Head::new(port.index, Handle::NONE, Handle::NONE);
    let read = |_, payload: &[u8]| {
        let Some(dumped) = Dumped::read(payload) else { return };
        let minor = dumped.head.parent.minor();
        // The kernel reports all interfaces.
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

/// Parameters for creating classes of subscribers.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClassParameters<'a> {
    pub layout: &'a Layout,
    pub leaves: Leaves,
    pub groups: usize,
    /// Aggregate limit.
    pub whole: Option<BitRate>,
}

/// Creates or changes classes, without limits of their own, each with a queue.
///
/// `there`: queues that existed before. `part` is called after each part of the classes.
pub(super) fn make(
    netlink: &mut Netlink,
    port: &Port,
    parameters: ClassParameters<'_>,
    (classes, there): (&[&Subscriber], &BTreeMap<u16, LeafKind>),
    mut part: impl FnMut(),
) -> Result<(), Error> {
    let ClassParameters { layout, leaves, groups, whole } = parameters;
    let mut batch = Batch::new();
    // Each class has a FIFO of the kernel's until it has ours, and all of those FIFOs are in one list, so their number
    // stays small.
    for some in classes.chunks(BATCH_CLASSES) {
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
        // The queue had another kind before, or is of a kind that refuses a repeated message.
        for refused in netlink.apply(&mut batch)? {
            let minor = some[refused.index].class.0;
            let (kind, _, queue) = queue(minor);
            put(netlink, port, minor, kind, queue)?;
        }
        part();
    }
    Ok(())
}

/// Gives classes the queues of the requested kind.
///
/// The FIFO before it drains first, briefly without limit, since packets cannot be moved from one queue to another.
/// `classes`: the waiting packets and the number of each class.
pub(super) fn replace_queues(
    plane: &mut HtbShaper,
    direction: Direction,
    mut classes: Vec<(u32, u16)>,
) -> Result<(), Error> {
    let Some(State { layout, ports, leaves, members, aggregate, .. }) = &mut plane.state else {
        return Ok(());
    };
    let d = direction as usize;
    let (port, whole) = (&ports[d], aggregate[d]);
    // Under an aggregate limit, lifting a class's own limit does not drain its queue.
    classes.retain(|(waiting, _)| *waiting == 0 || whole.is_none());
    classes.sort_unstable();
    classes.truncate(MAX_PER_SAMPLE);
    let change = |batch: &mut Batch, minor: u16, turn: u32, limit: Option<BitRate>| {
        let class = port.class_of(minor, limit, whole.is_some(), turn, layout.burst);
        port.subscriber(batch, minor, &class, 0);
    };
    let batch = &mut plane.batch;
    batch.clear();
    for (_, minor) in &classes {
        change(batch, *minor, members[minor].turn, None);
    }
    let refused = plane.netlink.apply(batch)?;
    port.refused(refused, "lifting a limit")?;
    let start = Instant::now();
    let mut full: Vec<u16> = classes.iter().map(|(_, minor)| *minor).collect();
    loop {
        let mut waiting = Vec::new();
        for minor in full {
            if port.waiting(&mut plane.netlink, minor)? > 0 {
                waiting.push(minor);
            }
        }
        full = waiting;
        if full.is_empty() || start.elapsed() > UNLIMITED_TIME {
            break;
        }
        thread::sleep(Duration::from_millis(2));
    }
    batch.clear();
    for (_, minor) in classes {
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

/// Tries kinds of queues on the class of unmapped traffic.
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
    let LeafChoice::Only(kind) = choice else { return Err(no_queue()) };
    Err(Error::Missing {
        what: format!("the leaf qdisc {kind} (kernel module sch_{})", leaf::module(kind)),
        hint: "choose another, or `best`".into(),
    })
}

/// Puts a queue into a class; a queue of another kind is dropped with its packets.
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

/// Puts a FIFO into a class that splits packets of many frames, if this kernel has one.
///
/// TCP makes such packets (GSO); sent whole, one fills the radio's queue. `packets`: as large as the MTU.
pub(super) fn put_splitting(
    netlink: &mut Netlink,
    port: &Port,
    minor: u16,
    packets: u32,
) -> Result<LeafKind, Error> {
    let frame = port.mtu + u32::from(port.header);
    for (kind, queue) in
        [(LeafKind::Bfifo, packets.saturating_mul(frame)), (LeafKind::Pfifo, packets)]
    {
        match put(netlink, port, minor, kind, queue) {
            Ok(()) => return Ok(kind),
            Err(e) if e.errno() == Some(libc::ENOENT) => {}
            Err(e) => return Err(e),
        }
    }
    Err(no_queue())
}

fn no_queue() -> Error {
    Error::Missing {
        what: "any leaf qdisc, even pfifo".into(),
        hint: "use a kernel with CONFIG_NET_SCH_FIFO".into(),
    }
}

/// True if a class's queue is as requested already or could be changed in place.
///
/// For these kinds the kernel refuses a message that would create another queue.
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
            // Any other result is not one of these kinds.
            Ok(matches!(there, Ok(Some(true))))
        }
        _ => Ok(false),
    }
}
