//! Tree of one side: messages that build and change it, and the meaning of their refusals.

use fairmesh_units::BitRate;

use super::place::Place;
use super::{ids, mark_filter};
use crate::error::Error;
use crate::netlink::{Batch, Netlink, Refusal};
use crate::shaper::{Classifier, Layout, LeafKind};
use crate::tc::htb::{self, Class, Qdisc};
use crate::tc::stats::Dumped;
use crate::tc::{Handle, Head, filter, leaf};

const CREATE: u16 = libc::NLM_F_CREATE as u16;
const EXCLUSIVE: u16 = libc::NLM_F_EXCL as u16;
const REPLACE: u16 = libc::NLM_F_REPLACE as u16;

/// Priority of the filter that finds a packet's group by its priority.
///
/// It matches every packet, so it is never used beside marks.
const GROUP_PRIO: u16 = 0xfffd;
/// Priority of the filter on marks: the last.
///
/// `tc filter show` ends its list at a filter of kind `fw`.
const MARK_PRIO: u16 = 0xfffe;
/// Priority of a temporary filter that tests if the kernel has its kind.
///
/// It is after all others, so that it gets no packet that another filter takes.
const TRIAL_PRIO: u16 = 0xffff;
/// Ethertype of batman-adv.
const ETH_P_BATMAN: u16 = 0x4305;

/// Priority of the filter of ARP; that of batman-adv follows.
///
/// Their frames bypass all classes.
const BYPASS_PRIO: u16 = 1;
/// Priorities of all our filters on a root.
pub(super) const OWN_PRIOS: [u16; 5] =
    [BYPASS_PRIO, BYPASS_PRIO + 1, GROUP_PRIO, MARK_PRIO, TRIAL_PRIO];

/// An interface with our tree on it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::shaper) struct Port {
    pub name: String,
    pub index: u32,
    /// Our root qdisc and the placement of classes below it.
    pub place: Place,
    /// Largest packet without the link's header, in bytes.
    pub mtu: u32,
    /// Link's header, in bytes.
    pub header: u16,
}

/// Maximum number of bytes that headers may add to a packet.
///
/// These are Ethernet's, tags, and those that a driver puts before them.
const MAX_HEADER_BYTES: u32 = 64;

/// Returns a subscriber's class.
///
/// With `shared` there is an aggregate limit, so the class borrows.
fn class_of(limit: Option<BitRate>, shared: bool, turn: u32, burst: u32) -> Class {
    let make = if shared { Class::borrowing } else { Class::limited };
    make(limit, turn, 1).bursting(burst)
}

impl Port {
    /// Returns the handle of one of our classes.
    pub fn class(&self, minor: u16) -> Handle {
        self.place.class(minor)
    }

    /// Returns our root qdisc.
    pub fn root(&self) -> Handle {
        self.place.root
    }

    /// Returns a subscriber's class as requested.
    ///
    /// Within a group no class borrows: the group does.
    pub fn class_of(
        &self,
        minor: u16,
        limit: Option<BitRate>,
        shared: bool,
        turn: u32,
        burst: u32,
    ) -> Class {
        class_of(limit, shared && self.place.group(minor).is_none(), turn, burst)
    }

    fn head(&self, handle: Handle, parent: Handle) -> Head {
        Head::new(self.index, handle, parent)
    }

    /// Adds the root, if only a default of the kernel's is there.
    pub fn put_root(&self, batch: &mut Batch) {
        let head = self.head(self.root(), Handle::ROOT);
        // Quanta are always given, so r2q divides nothing.
        let options = Qdisc { default: ids::UNMAPPED, r2q: 10, direct: 1000 };
        batch.push(libc::RTM_NEWQDISC, CREATE | EXCLUSIVE, |out| {
            head.write(out);
            options.write(out);
        });
    }

    /// Adds or changes the aggregate class.
    pub fn aggregate(&self, batch: &mut Batch, limit: Option<BitRate>, burst: u32) {
        let class = Class::limited(limit, 1514, 0).bursting(burst);
        self.put(batch, self.class(ids::AGGREGATE), self.root(), &class, CREATE);
    }

    /// Adds a group's class and the tree in it. An existing one is refused (`EEXIST`).
    pub fn put_group(&self, batch: &mut Batch, group: u16, shared: bool, turn: u32) {
        self.group(batch, group, shared, turn);
        let head = self.head(Place::tree(group), self.place.holder(group));
        // Packets that no class claims, for example of a class that was just removed, pass at once.
        let options = Qdisc { default: 0, r2q: 10, direct: 1000 };
        batch.push(libc::RTM_NEWQDISC, CREATE | EXCLUSIVE, |out| {
            head.write(out);
            options.write(out);
        });
    }

    /// Adds or changes a group's class: without limit, or borrowing under an aggregate limit.
    ///
    /// `turn`: bytes.
    pub fn group(&self, batch: &mut Batch, group: u16, shared: bool, turn: u32) {
        let make = if shared { Class::borrowing } else { Class::limited };
        let class = make(None, turn, 1);
        let parent = self.class(ids::AGGREGATE);
        self.put(batch, self.place.holder(group), parent, &class, CREATE);
    }

    /// Adds a class of our own beside the subscribers', without limit.
    pub fn own(&self, batch: &mut Batch, minor: u16, prio: u32) {
        let class = Class::limited(None, 1514, prio);
        self.put(batch, self.class(minor), self.root(), &class, CREATE);
    }

    /// Returns the handle of the class for testing a classifier in a tree.
    pub fn trial_class(&self, tree: Handle) -> Handle {
        Handle::new(tree.major(), ids::PROBE)
    }

    /// Adds or changes the class of a router's local traffic: packets that no class claims.
    pub fn local(&self, batch: &mut Batch, limit: Option<BitRate>, burst: u32) {
        let class = Class::limited(limit, 1514, 1).bursting(burst);
        self.put(batch, self.class(ids::UNMAPPED), self.root(), &class, CREATE);
    }

    /// Adds or changes the class of a next hop.
    pub fn next_hop(&self, batch: &mut Batch, minor: u16, limit: Option<BitRate>, burst: u32) {
        let class = Class::limited(limit, 1514, 1).bursting(burst);
        self.put(batch, self.class(minor), self.root(), &class, CREATE);
    }

    /// Adds the class for testing a classifier.
    pub fn trial(&self, batch: &mut Batch, tree: Handle) -> Handle {
        let class = self.trial_class(tree);
        self.put(batch, class, tree, &Class::limited(None, 1514, 0), CREATE);
        class
    }

    /// Adds or changes a subscriber's class.
    pub fn subscriber(&self, batch: &mut Batch, minor: u16, class: &Class, flags: u16) {
        self.put(batch, self.class(minor), self.place.parent(minor), class, flags);
    }

    /// Lifts a subscriber's limit, in any tree.
    pub fn release(&self, batch: &mut Batch, class: Handle) {
        let parent = match class.major() {
            major if major == self.root().major() => self.class(ids::AGGREGATE),
            major => Handle::new(major, 0),
        };
        self.put(batch, class, parent, &class_of(None, false, 1, Layout::DEFAULT_BURST), 0);
    }

    fn put(&self, batch: &mut Batch, handle: Handle, parent: Handle, class: &Class, flags: u16) {
        let head = self.head(handle, parent);
        batch.push(libc::RTM_NEWTCLASS, flags, |out| htb::class(out, head, class));
    }

    /// Adds or changes a class's queue.
    pub fn leaf(&self, batch: &mut Batch, minor: u16, kind: LeafKind, queue: u32) {
        let head = self.leaf_head(minor);
        batch.push(libc::RTM_NEWQDISC, CREATE | REPLACE, |out| {
            head.write(out);
            leaf::write(out, kind, queue, self.mtu + MAX_HEADER_BYTES);
        });
    }

    /// Changes a class's `fq_codel` in place.
    pub fn rewrite_fq_codel(&self, batch: &mut Batch, minor: u16) {
        let head = self.leaf_head(minor);
        batch.push(libc::RTM_NEWQDISC, REPLACE, |out| {
            head.write(out);
            leaf::rewrite_fq_codel(out);
        });
    }

    /// Returns the message head of a class's queue.
    pub fn leaf_head(&self, minor: u16) -> Head {
        self.head(self.leaf_handle(minor), self.class(minor))
    }

    /// Removes a class's queue; HTB puts a FIFO of its own in its place.
    pub fn drop_leaf(&self, batch: &mut Batch, minor: u16) {
        let head = self.leaf_head(minor);
        batch.push(libc::RTM_DELQDISC, 0, |out| head.write(out));
    }

    fn leaf_handle(&self, minor: u16) -> Handle {
        let major = if minor == self.root().major() { ids::SPARE_LEAF } else { minor };
        Handle::new(major, 0)
    }

    /// Returns the packets that wait in a subscriber's class.
    pub fn waiting(&self, netlink: &mut Netlink, minor: u16) -> Result<u32, Error> {
        let head = self.head(self.class(minor), Handle::NONE);
        let read = |_, payload: &[u8]| Some(Dumped::read(payload)?.stats?.queued_packets);
        let what = "a class";
        let there = netlink.get(what, libc::RTM_GETTCLASS, |out| head.write(out), read);
        Ok(there.map_err(|e| self.lost(e))?.unwrap_or(0))
    }

    /// Deletes a class.
    pub fn delete(&self, batch: &mut Batch, class: Handle) {
        let head = self.head(class, Handle::NONE);
        batch.push(libc::RTM_DELTCLASS, 0, |out| head.write(out));
    }

    /// Adds the filters that a classifier needs: at the root, and in each of these groups.
    pub fn filter(
        &self,
        netlink: &mut Netlink,
        classifier: Classifier,
        groups: &[u16],
    ) -> Result<(), Error> {
        let all = libc::ETH_P_ALL as u16;
        let by_mark = mark_filter(classifier);
        // In the groups first: until the root has its filter, no packet reaches them.
        for group in groups {
            if let Some(kind) = by_mark {
                self.add_filter(netlink, Place::tree(*group), MARK_PRIO, all, kind)?;
            }
        }
        let finder = self.place.finder(classifier).filter(|_| !groups.is_empty());
        match (by_mark, finder) {
            (None, None) => {}
            (None, Some(finder)) => {
                return self.add_filter(netlink, self.root(), GROUP_PRIO, all, finder);
            }
            (Some(kind), finder) => {
                let kind = finder.unwrap_or(kind);
                self.add_filter(netlink, self.root(), MARK_PRIO, all, kind)?;
            }
        }
        self.remove_filter(netlink, GROUP_PRIO);
        Ok(())
    }

    /// Removes the filter on marks, if there is one.
    pub fn remove_mark_filter(&self, netlink: &mut Netlink) {
        self.remove_filter(netlink, MARK_PRIO);
    }

    /// True if this kernel has the filter of a classifier, tried on our own tree.
    pub fn has(&self, netlink: &mut Netlink, classifier: Classifier) -> bool {
        mark_filter(classifier).is_some_and(|kind| self.takes(netlink, kind))
    }

    /// True if the kernel can find a group by a packet's priority.
    pub fn finds_groups(&self, netlink: &mut Netlink) -> bool {
        let kind = self.place.finder(Classifier::Priority);
        kind.is_some_and(|kind| self.takes(netlink, kind))
    }

    fn takes(&self, netlink: &mut Netlink, kind: filter::Filter) -> bool {
        let all = libc::ETH_P_ALL as u16;
        let taken = self.add_filter(netlink, self.root(), TRIAL_PRIO, all, kind).is_ok();
        self.remove_filter(netlink, TRIAL_PRIO);
        taken
    }

    fn remove_filter(&self, netlink: &mut Netlink, prio: u16) {
        let mut batch = Batch::new();
        self.delete_filter(&mut batch, self.root(), prio, libc::ETH_P_ALL as u16);
        let _ = netlink.apply(&mut batch);
    }

    fn delete_filter(&self, batch: &mut Batch, tree: Handle, prio: u16, protocol: u16) {
        let info = u32::from(prio) << 16 | u32::from(protocol.to_be());
        let head = Head { info, ..self.head(Handle::NONE, tree) };
        batch.push(libc::RTM_DELTFILTER, 0, |out| head.write(out));
    }

    /// Sends ARP and batman-adv frames to the bypass class. Returns true if the kernel can.
    pub fn bypass_frames(&self, netlink: &mut Netlink) -> Result<bool, Error> {
        let class = self.class(ids::BYPASS);
        for (at, protocol) in [libc::ETH_P_ARP as u16, ETH_P_BATMAN].into_iter().enumerate() {
            let prio = BYPASS_PRIO + at as u16;
            let kinds = [filter::Filter::All(class), filter::Filter::AllBpf(class)];
            let mut done = false;
            for kind in kinds {
                match self.add_filter(netlink, self.root(), prio, protocol, kind) {
                    Ok(()) => {
                        done = true;
                        break;
                    }
                    Err(e) if e.errno() == Some(libc::ENOENT) => {}
                    Err(e) => return Err(e),
                }
            }
            if !done {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn add_filter(
        &self,
        netlink: &mut Netlink,
        tree: Handle,
        prio: u16,
        protocol: u16,
        kind: filter::Filter,
    ) -> Result<(), Error> {
        // The kernel would add to an old filter at this priority instead of replacing it.
        let mut old = Batch::new();
        self.delete_filter(&mut old, tree, prio, protocol);
        netlink.apply(&mut old)?;
        let what = || format!("adding a filter on {}", self.name);
        netlink
            .change(what, libc::RTM_NEWTFILTER, CREATE | EXCLUSIVE, |out| {
                filter::write(out, self.index, tree, prio, protocol, kind);
            })
            .map_err(|e| self.lost(e))
    }

    /// Converts the first refusal of a batch to an error.
    pub fn refused(&self, refusals: Vec<Refusal>, what: &str) -> Result<(), Error> {
        match refusals.into_iter().next() {
            None => Ok(()),
            Some(refusal) => Err(self.lost(refusal.into_error(format!("{what} on {}", self.name)))),
        }
    }

    /// Returns the error that our tree is no longer there.
    pub fn gone(&self, what: &str) -> Error {
        Error::Gone { interface: self.name.clone(), what: what.to_owned() }
    }

    /// Converts the kernel's error about a missing class or tree.
    pub fn gone_or(&self, error: Error) -> Error {
        match error.errno() {
            Some(libc::ENOENT | libc::EINVAL) => {
                self.gone("another program removed or replaced them")
            }
            _ => self.lost(error),
        }
    }

    /// Names the interface in the error if it is missing.
    pub fn lost(&self, error: Error) -> Error {
        match error.errno() {
            Some(libc::ENODEV) => Error::NoInterface(self.name.clone()),
            _ => error,
        }
    }
}
