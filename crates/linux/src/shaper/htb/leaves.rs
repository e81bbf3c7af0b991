//! Queues in classes.

use super::ids;
use super::tree::Port;
use crate::error::Error;
use crate::netlink::{Batch, Netlink};
use crate::shaper::*;
use crate::tc::leaf;
use crate::tc::stats::Dumped;

/// Tries leaves on the class of nobody known.
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
