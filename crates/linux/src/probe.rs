//! Probe of the kernel's and system's features in a temporary network namespace.
//!
//! No interface of the system is changed.

use std::thread;

use nix::sched::{CloneFlags, unshare};

use crate::error::Error;
use crate::netlink::{Batch, Netlink};
use crate::nft;
use crate::shaper::{Classifier, Features, LeafKind};
use crate::tc::filter::{self, Filter};
use crate::tc::htb::{Class, Qdisc};
use crate::tc::{Handle, Head, leaf};

/// Index of the loopback interface in every namespace.
const LOOPBACK_INDEX: u32 = 1;
/// Packet size that holds any frame of the loopback interface, in bytes.
const MAX_LOOPBACK_FRAME: u32 = 1 << 17;
const CREATE: u16 = libc::NLM_F_CREATE as u16;

/// Probes the features.
///
/// Without CAP_SYS_ADMIN there is no namespace, and features that need one stay unknown.
///
/// # Errors
/// None at present; fields show what is unknown.
pub fn features() -> Result<Features, Error> {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let tried = in_scratch_namespace(tried);
    let (htb, leaves, mut classifiers, bypass_filter) = match tried {
        Some(Ok(t)) => (Some(t.htb), t.leaves, t.classifiers, t.bypass_filter),
        _ => (None, Vec::new(), Vec::new(), true),
    };
    classifiers.insert(0, Classifier::Priority);
    Ok(Features {
        kernel: kernel.trim().to_owned(),
        nft: nft::run::version(),
        leaves,
        htb,
        classifiers,
        bypass_filter,
        egress_hook: egress_hook(),
        flowtables: nft::run::flowtables().unwrap_or_default(),
    })
}

/// True if nftables can process frames as they leave an interface.
pub(crate) fn egress_hook() -> bool {
    // `-c` makes the kernel check a rule set without putting it in force; a device that exists everywhere is
    // used.
    let rules = "table netdev fairmesh_probe {\n chain e {\n  \
                 type filter hook egress device \"lo\" priority 0;\n }\n}\n";
    nft::run::check(rules).is_ok()
}

struct Tried {
    htb: bool,
    leaves: Vec<LeafKind>,
    classifiers: Vec<Classifier>,
    bypass_filter: bool,
}

/// Runs a function in a new network namespace; `None` if the process may not create one.
pub(crate) fn in_scratch_namespace<T: Send + 'static>(
    run: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    // Only this thread enters the namespace, which ends with it.
    thread::spawn(move || unshare(CloneFlags::CLONE_NEWNET).ok().map(|()| run())).join().ok()?
}

fn tried() -> Result<Tried, Error> {
    let mut netlink = Netlink::open()?;
    let root = Handle::new(1, 0);
    let class = Handle::new(1, 1);
    let mut tried =
        Tried { htb: false, leaves: Vec::new(), classifiers: Vec::new(), bypass_filter: false };
    let mut works = |kind: u16, body: &dyn Fn(&mut Vec<u8>)| -> Result<bool, Error> {
        let mut batch = Batch::new();
        batch.push(kind, CREATE, body);
        Ok(netlink.apply(&mut batch)?.is_empty())
    };
    tried.htb = works(libc::RTM_NEWQDISC, &|out| {
        Head::new(LOOPBACK_INDEX, root, Handle::ROOT).write(out);
        Qdisc { default: 1, r2q: 10, direct: 1 }.write(out);
    })?;
    if !tried.htb {
        return Ok(tried);
    }
    works(libc::RTM_NEWTCLASS, &|out| {
        Head::new(LOOPBACK_INDEX, class, root).write(out);
        Class::limited(None, 1514, 0).write(out);
    })?;
    for (at, kind) in LeafKind::ALL.into_iter().enumerate() {
        // Each has a class of its own, so that none blocks another.
        let class = Handle::new(1, 16 + at as u16);
        works(libc::RTM_NEWTCLASS, &|out| {
            Head::new(LOOPBACK_INDEX, class, root).write(out);
            Class::limited(None, 1514, 0).write(out);
        })?;
        let there = works(libc::RTM_NEWQDISC, &|out| {
            Head::new(LOOPBACK_INDEX, Handle::new(16 + at as u16, 0), class).write(out);
            leaf::write(out, kind, 100, MAX_LOOPBACK_FRAME);
        })?;
        if there {
            tried.leaves.push(kind);
        }
    }
    let mut filter = |prio: u16, kind: Filter| {
        works(libc::RTM_NEWTFILTER, &|out| {
            filter::write(out, LOOPBACK_INDEX, root, prio, libc::ETH_P_ALL as u16, kind);
        })
    };
    if filter(1, Filter::MarkFw)? {
        tried.classifiers.push(Classifier::MarkFw);
    }
    if filter(2, Filter::MarkBpf)? {
        tried.classifiers.push(Classifier::MarkBpf);
    }
    tried.bypass_filter = filter(3, Filter::All(class))? || filter(4, Filter::AllBpf(class))?;
    Ok(tried)
}
