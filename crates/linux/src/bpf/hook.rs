//! Attachment of programs where packets enter or leave an interface.

use super::program::{Program, TcxLink};
use crate::error::Error;
use crate::link::Link;
use crate::netlink::Netlink;
use crate::shaper::Removed;
use crate::tc::filter::{self, AttachedBpf};
use crate::tc::stats::Dumped;
use crate::tc::{Handle, Head};

const CREATE: u16 = libc::NLM_F_CREATE as u16;
const EXCLUSIVE: u16 = libc::NLM_F_EXCL as u16;

/// Place of the program in the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hook {
    /// TCX (Linux 6.6): the kernel detaches the program when the process that attached it ends.
    Tcx,
    /// A filter on a `clsact` qdisc: it outlives the process, so its effect must lapse.
    Clsact,
}

/// Direction of packets at an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HookDirection {
    In,
    Out,
}

impl HookDirection {
    const fn handle(self) -> Handle {
        match self {
            HookDirection::In => Handle::INGRESS,
            HookDirection::Out => Handle::EGRESS,
        }
    }
}

/// Names and place of one kind of program's filter.
#[derive(Debug)]
pub(crate) struct FilterName {
    /// Name.
    pub name: &'static str,
    /// Name on a `clsact` that we made.
    pub on_ours: &'static str,
    /// Priority.
    pub prio: u16,
    /// The program, for errors.
    pub what: &'static str,
    /// Packets that it handles.
    pub direction: HookDirection,
}

/// A program on an interface.
#[derive(Debug)]
pub(crate) enum Attached {
    Tcx { link: TcxLink, index: u32, interface: String, name: &'static FilterName },
    Clsact { netlink: Netlink, link: Link, name: &'static FilterName },
}

impl Attached {
    /// Attaches a program by TCX, or by `clsact` where there is none.
    ///
    /// It replaces that of an earlier run.
    pub fn put_by_best(
        link: &Link,
        program: &Program,
        name: &'static FilterName,
    ) -> Result<Self, Error> {
        let mut netlink = Netlink::open()?;
        match Attached::put(Netlink::open()?, link.clone(), program, Hook::Tcx, name) {
            Err(Error::Missing { .. }) => {
                Attached::put(netlink, link.clone(), program, Hook::Clsact, name)
            }
            Ok(attached) => remove(&mut netlink, link, name).map(|_| attached),
            refused => refused,
        }
    }

    /// Attaches a program by one hook.
    ///
    /// # Errors
    /// [`Error::Missing`] if this kernel lacks the hook, or the kernel's refusal.
    pub fn put(
        mut netlink: Netlink,
        link: Link,
        program: &Program,
        hook: Hook,
        name: &'static FilterName,
    ) -> Result<Self, Error> {
        match hook {
            Hook::Tcx => {
                match TcxLink::attach(program, link.index, name.direction == HookDirection::In)? {
                    Some(tcx) => Ok(Attached::Tcx {
                        link: tcx,
                        index: link.index,
                        interface: link.name,
                        name,
                    }),
                    None => Err(Error::Missing {
                        what: "TCX".into(),
                        hint: "use Linux 6.6 or later, or clsact".into(),
                    }),
                }
            }
            Hook::Clsact => {
                // The qdisc stays if it is ours: adding or removing it stops the interface, which loses packets.
                let made = remove_filters(&mut netlink, &link, name)?;
                let added = put_clsact(&mut netlink, &link)? || made;
                // The last of our filters must know that the qdisc is ours.
                let ours = added || all(&mut netlink, &link)?.iter().any(Found::on_ours);
                let attached = put_filter(&mut netlink, &link, program.fd(), name, ours);
                if attached.is_err() && added && all(&mut netlink, &link)?.is_empty() {
                    let _ = remove_clsact(&mut netlink, &link);
                }
                attached?;
                Ok(Attached::Clsact { netlink, link, name })
            }
        }
    }

    /// Detaches the program, unless the interface is gone.
    pub fn detach(self) -> Result<(), Error> {
        match self {
            Attached::Tcx { .. } => Ok(()),
            Attached::Clsact { mut netlink, link, name } => {
                match remove(&mut netlink, &link, name) {
                    Err(e) if e.is_interface_lost() => Ok(()),
                    removed => removed.map(drop),
                }
            }
        }
    }

    /// Checks that the program is still attached.
    ///
    /// # Errors
    /// [`Error::Gone`] if another program or the end of the interface has detached it.
    pub fn verify(&mut self) -> Result<(), Error> {
        let (there, interface, name) = match self {
            Attached::Tcx { link, index, interface, name } => {
                (link.index()? == Some(*index), &*interface, name)
            }
            Attached::Clsact { netlink, link, name } => {
                let there = match filters(netlink, link, name.direction.handle()) {
                    Err(e) if e.is_interface_lost() => false,
                    found => found?.iter().any(|f| f.is(name)),
                };
                (there, &link.name, name)
            }
        };
        if there {
            Ok(())
        } else {
            let what = format!("{} was detached", name.what);
            Err(Error::Gone { interface: interface.clone(), what })
        }
    }
}

/// Adds the qdisc unless there is one; returns true if it was added.
fn put_clsact(netlink: &mut Netlink, link: &Link) -> Result<bool, Error> {
    let head = Head::new(link.index, Handle::CLSACT, Handle::CLSACT_PARENT);
    let what = || format!("adding clsact to {}", link.name);
    let added = netlink.change(what, libc::RTM_NEWQDISC, CREATE | EXCLUSIVE, |out| {
        head.write(out);
        crate::tc::put_kind(out, "clsact");
    });
    match added {
        Ok(()) => Ok(true),
        Err(e) if e.errno() == Some(libc::EEXIST) => Ok(false),
        Err(e) if e.errno() == Some(libc::ENOENT) => Err(Error::Missing {
            what: "clsact (kernel module sch_ingress)".into(),
            hint: "modprobe sch_ingress; on OpenWrt install kmod-sched-core".into(),
        }),
        Err(e) => Err(e),
    }
}

fn remove_clsact(netlink: &mut Netlink, link: &Link) -> Result<(), Error> {
    let head = Head::new(link.index, Handle::CLSACT, Handle::CLSACT_PARENT);
    let what = || format!("removing clsact from {}", link.name);
    netlink.change(what, libc::RTM_DELQDISC, 0, |out| head.write(out))
}

fn put_filter(
    netlink: &mut Netlink,
    link: &Link,
    fd: i32,
    name: &FilterName,
    ours: bool,
) -> Result<(), Error> {
    let what = || format!("adding {} to {}", name.what, link.name);
    let parent = name.direction.handle();
    let (prio, name) = (name.prio, if ours { name.on_ours } else { name.name });
    let added = netlink.change(what, libc::RTM_NEWTFILTER, CREATE | EXCLUSIVE, |out| {
        filter::write_attached(out, link.index, parent, prio, &AttachedBpf { fd, name });
    });
    match added {
        Err(e) if e.errno() == Some(libc::ENOENT) => Err(Error::Missing {
            what: "filters of kind bpf (kernel module cls_bpf)".into(),
            hint: "modprobe cls_bpf; on OpenWrt install kmod-sched-bpf".into(),
        }),
        added => added,
    }
}

/// A filter as found on a hook.
struct Found {
    info: u32,
    /// Name, if it is a BPF program.
    name: Option<String>,
}

impl Found {
    /// True if it is one of our programs on a `clsact` that we made.
    fn on_ours(&self) -> bool {
        self.name.as_deref().is_some_and(|n| n.starts_with("fairmesh-") && n.ends_with("+clsact"))
    }

    fn is(&self, name: &FilterName) -> bool {
        self.name.as_deref().is_some_and(|there| [name.name, name.on_ours].contains(&there))
    }
}

/// Reads the filters in both directions.
fn all(netlink: &mut Netlink, link: &Link) -> Result<Vec<Found>, Error> {
    let mut all = filters(netlink, link, Handle::EGRESS)?;
    all.extend(filters(netlink, link, Handle::INGRESS)?);
    Ok(all)
}

/// Reads the filters on a hook; none without a `clsact`.
fn filters(netlink: &mut Netlink, link: &Link, hook: Handle) -> Result<Vec<Found>, Error> {
    let head = Head::new(link.index, Handle::NONE, hook);
    let mut found = Vec::new();
    let read = |_, payload: &[u8]| {
        let Some(dumped) = Dumped::read(payload) else { return };
        // The kernel also lists the priority itself, without options.
        if !dumped.options.is_empty() {
            let name = filter::bpf_name(&dumped);
            found.push(Found { info: dumped.head.info, name });
        }
    };
    match netlink.dump("filters", libc::RTM_GETTFILTER, |out| head.write(out), read) {
        Err(e) if matches!(e.errno(), Some(libc::EINVAL | libc::ENOENT)) => Ok(Vec::new()),
        other => other.map(|()| found),
    }
}

/// Removes the filter that this or another process has left on an interface.
///
/// A `clsact` qdisc is removed if we made it and no other filter uses it.
pub(crate) fn remove(
    netlink: &mut Netlink,
    link: &Link,
    name: &FilterName,
) -> Result<Removed, Error> {
    let mut removed = Removed::default();
    let made = remove_filters(netlink, link, name)?;
    if made && all(netlink, link)?.is_empty() {
        remove_clsact(netlink, link)?;
        removed.qdiscs.push(format!("{}: clsact", link.name));
    }
    Ok(removed)
}

/// Removes our filters; returns true if their `clsact` is ours, too.
fn remove_filters(netlink: &mut Netlink, link: &Link, name: &FilterName) -> Result<bool, Error> {
    let mut made = false;
    let hook = name.direction.handle();
    for filter in filters(netlink, link, hook)?.iter().filter(|f| f.is(name)) {
        let head = Head { info: filter.info, ..Head::new(link.index, Handle::NONE, hook) };
        let what = || format!("removing our filter from {}", link.name);
        netlink.change(what, libc::RTM_DELTFILTER, 0, |out| head.write(out))?;
        made |= filter.name.as_deref() == Some(name.on_ours);
    }
    Ok(made)
}
