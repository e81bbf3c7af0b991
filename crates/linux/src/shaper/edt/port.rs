//! One interface: the program, its records and `fq` at the root.

use std::collections::BTreeMap;

use nix::time::{ClockId, clock_gettime};

use super::pace::Pace;
use crate::bpf::hook::Attached;
use crate::bpf::pace::{self, FILTER, Numbers};
use crate::bpf::program::{Array, Program};
use crate::error::Error;
use crate::link::{self, Link};
use crate::netlink::Netlink;
use crate::shaper::ids;
use crate::shaper::{ClassCounters, ClassId, Layout, Slot};
use crate::tc::stats::{Dumped, Stats};
use crate::tc::{Handle, Head, fq};

const CREATE: u16 = libc::NLM_F_CREATE as u16;
const EXCLUSIVE: u16 = libc::NLM_F_EXCL as u16;

/// Name of the program.
const PROGRAM_NAME: &str = "fairmesh_pace";

/// Record of unmapped traffic.
const UNMAPPED_RECORD: usize = 0;
/// Record of routing and management traffic.
const BYPASS_RECORD: usize = ClassId::MAX.0 as usize + 1;

/// Bounds of the packets that one interface holds.
const QUEUE_BOUNDS: std::ops::RangeInclusive<u32> = 10_000..=1_000_000;
/// Bits of a packet's hash that make a flow of `fq`.
const FLOW_HASH_MASK: u32 = 2 * pace::SUBSCRIBER_BIT as u32 - 1;

/// Index of the interface `lo` in a new network namespace.
const LOOPBACK_INDEX: u32 = 1;

/// Counters of some records.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Totals {
    /// Bytes that were not dropped.
    pub bytes: u64,
    /// Packets that were not dropped.
    pub packets: u64,
    /// Dropped packets.
    pub drops: u64,
}

/// The program and the records of its classes.
#[derive(Debug)]
pub(super) struct Pacer {
    classes: Array<{ pace::WORDS }>,
    program: Program,
}

impl Pacer {
    /// Loads the program; no class has a limit.
    pub fn load(handle: u16) -> Result<Self, Error> {
        let classes = Array::create(BYPASS_RECORD as u32 + 1)?;
        let numbers = Numbers {
            major: handle,
            last: ClassId::MAX.0,
            bypass: ids::BYPASS,
            bypass_record: BYPASS_RECORD as u16,
        };
        let code = pace::program(numbers, classes.fd())
            .map_err(|e| Error::io("assembling the program")(std::io::Error::other(e)))?;
        Ok(Pacer { program: Program::load(PROGRAM_NAME, &code)?, classes })
    }

    /// Changes a limit.
    pub fn set(&self, class: ClassId, pace: Pace) {
        let class = usize::from(class.0);
        self.classes.store(class, pace::HORIZON, pace.horizon);
        self.classes.store(class, pace::CREDIT, pace.credit);
        self.classes.store(class, pace::COST, pace.cost);
    }

    /// Runs the program on a frame with a priority.
    #[cfg(test)]
    pub fn test_run(
        &self,
        frame: &[u8],
        priority: Handle,
        repeat: u32,
    ) -> Result<crate::bpf::program::TestRun, Error> {
        self.program.test_run_as(frame, priority.0, repeat)
    }

    fn totals(&self, record: usize) -> Totals {
        let word = |word| self.classes.load(record, word);
        Totals { bytes: word(pace::BYTES), packets: word(pace::PACKETS), drops: word(pace::DROPS) }
    }
}

/// One interface.
#[derive(Debug)]
pub(super) struct Port {
    pub name: String,
    pub index: u32,
    header: u16,
    root: Handle,
    pacer: Pacer,
    attached: Attached,
    /// Bytes and packets that were last reported as sent, by class.
    sent: BTreeMap<u16, (u64, u64)>,
    /// Counters of subscribers that are gone and have lost their number.
    gone: Totals,
    /// Most packets that `fq` holds.
    packets: u32,
}

impl Port {
    /// Puts `fq` and the program on an interface. `there`: our `fq` is there already.
    pub fn put(
        netlink: &mut Netlink,
        link: &Link,
        layout: &Layout,
        there: bool,
    ) -> Result<Self, Error> {
        let pacer = Pacer::load(layout.handle)?;
        let root = Handle::new(layout.handle, 0);
        let packets = packets(layout);
        let flags = if there { 0 } else { CREATE | EXCLUSIVE };
        put_root(netlink, (link.index, &link.name), root, packets, flags)?;
        let attached = Attached::put_by_best(link, &pacer.program, &FILTER)?;
        let Link { name, index, header, .. } = link.clone();
        let (sent, gone) = (BTreeMap::new(), Totals::default());
        Ok(Port { name, index, header, root, pacer, attached, sent, gone, packets })
    }

    /// Adapts the packets that `fq` holds to the number of subscribers.
    pub fn resize(&mut self, netlink: &mut Netlink, layout: &Layout) -> Result<(), Error> {
        let packets = packets(layout);
        if packets != self.packets {
            self.packets = packets;
            put_root(netlink, (self.index, &self.name), self.root, packets, 0)?;
        }
        Ok(())
    }

    /// Changes a limit.
    pub fn set(&mut self, class: ClassId, pace: Pace) {
        self.pacer.set(class, pace);
    }

    /// Begins the counters of a new subscriber.
    pub fn begin(&mut self, class: ClassId) {
        let record = usize::from(class.0);
        let Totals { bytes, packets, drops } = self.pacer.totals(record);
        self.gone.bytes += bytes;
        self.gone.packets += packets;
        self.gone.drops += drops;
        for word in [pace::BYTES, pace::PACKETS, pace::DROPS, pace::DELAYED] {
            self.pacer.classes.store(record, word, 0);
        }
        self.sent.remove(&class.0);
    }

    /// Returns a subscriber's counters; `now` in ns of the monotonic clock.
    ///
    /// Packets that wait are estimated from the departure time of the last one.
    pub fn counters(&mut self, slot: Slot, now: u64) -> ClassCounters {
        let record = usize::from(slot.class.0);
        let word = |word| self.pacer.classes.load(record, word);
        let Totals { bytes, packets, drops } = self.pacer.totals(record);
        let sent = self.sent.entry(slot.class.0).or_default();
        let most = bytes.saturating_sub(sent.0);
        let backlog = backlog(word(pace::NEXT).saturating_sub(now), word(pace::COST)).min(most);
        let mean = bytes.checked_div(packets).unwrap_or(1).max(1);
        let waiting = backlog.div_ceil(mean).min(packets.saturating_sub(sent.1));
        *sent = (bytes - backlog, packets - waiting);
        ClassCounters {
            slot,
            bytes: sent.0,
            packets: sent.1,
            drops,
            overlimits: word(pace::DELAYED),
            backlog_packets: u32::try_from(waiting).unwrap_or(u32::MAX),
            backlog_bytes: backlog,
        }
    }

    /// Returns the counters of a subscriber without its queue.
    pub fn of(&self, class: ClassId) -> Totals {
        self.pacer.totals(usize::from(class.0))
    }

    /// Returns the counters of all subscribers.
    pub fn all(&self) -> Totals {
        (1..BYPASS_RECORD).map(|record| self.pacer.totals(record)).fold(self.gone, |a, b| Totals {
            bytes: a.bytes.saturating_add(b.bytes),
            packets: a.packets.saturating_add(b.packets),
            drops: a.drops.saturating_add(b.drops),
        })
    }

    /// Returns the counters of unmapped traffic.
    pub fn unmapped(&self) -> Totals {
        self.pacer.totals(UNMAPPED_RECORD)
    }

    /// Returns the counters of routing and management traffic.
    pub fn bypass(&self) -> Totals {
        self.pacer.totals(BYPASS_RECORD)
    }

    /// Reads the counters of our root qdisc.
    pub fn root(&self, netlink: &mut Netlink) -> Result<Stats, Error> {
        let head = Head::new(self.index, self.root, Handle::NONE);
        let read = |_, payload: &[u8]| Dumped::read(payload).filter(|d| d.kind == fq::KIND)?.stats;
        let what = "our queueing discipline was removed";
        match netlink.get("the root qdisc", libc::RTM_GETQDISC, |out| head.write(out), read) {
            Ok(Some(stats)) => Ok(stats),
            Ok(None) => Err(self.lost(what)),
            Err(e) if e.errno() == Some(libc::ENODEV) => Err(Error::NoInterface(self.name.clone())),
            Err(e) if e.errno() == Some(libc::ENOENT) => Err(self.lost(what)),
            Err(e) => Err(e),
        }
    }

    /// Checks that the interface has its name and header, and our program and qdisc.
    pub fn check(&mut self, netlink: &mut Netlink) -> Result<(), Error> {
        let link = link::by_index(netlink, self.index, &self.name)?;
        self.root(netlink)?;
        self.attached.verify()?;
        if link.name != self.name {
            let head = Head::new(self.index, self.root, Handle::ROOT);
            let what = || format!("removing fq from {}", link.name);
            netlink.change(what, libc::RTM_DELQDISC, 0, |out| head.write(out))?;
            return Err(self.lost(&format!("it was renamed to `{}`", link.name)));
        }
        if link.header != self.header {
            // Limits and counters are of IP bytes, and the kernel counts the header, too.
            return Err(self.lost(&format!("its header has changed to {} bytes", link.header)));
        }
        Ok(())
    }

    fn lost(&self, what: &str) -> Error {
        Error::Gone { interface: self.name.clone(), what: what.to_owned() }
    }
}

/// Returns the bytes that leave within a time.
fn backlog(ns: u64, cost: u64) -> u64 {
    let bytes = (u128::from(ns) << pace::COST_BITS).checked_div(u128::from(cost));
    bytes.map_or(0, |bytes| u64::try_from(bytes).unwrap_or(u64::MAX))
}

/// Returns the present time, ns of the monotonic clock.
pub(super) fn now() -> Result<u64, Error> {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_err(|e| Error::io("reading the clock")(e.into()))?;
    Ok(now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64)
}

/// Returns the most packets that one interface holds: a queue for each subscriber.
fn packets(layout: &Layout) -> u32 {
    let homes = u32::try_from(layout.subscribers.len()).unwrap_or(u32::MAX);
    homes.saturating_mul(layout.queue).clamp(*QUEUE_BOUNDS.start(), *QUEUE_BOUNDS.end())
}

/// Adds `fq` at the root, or changes it without `flags`.
fn put_root(
    netlink: &mut Netlink,
    (index, name): (u32, &str),
    root: Handle,
    packets: u32,
    flags: u16,
) -> Result<(), Error> {
    let head = Head::new(index, root, Handle::ROOT);
    let what = || format!("adding fq to {name}");
    let put = netlink.change(what, libc::RTM_NEWQDISC, flags, |out| {
        head.write(out);
        fq::write(out, packets, FLOW_HASH_MASK);
    });
    match put {
        Err(e) if e.errno() == Some(libc::ENOENT) => Err(Error::Missing {
            what: "fq (kernel module sch_fq)".into(),
            hint: "modprobe sch_fq, or set shaping.shaper = \"htb\"".into(),
        }),
        other => other,
    }
}

/// Tries the program and `fq` in a network namespace of their own.
pub(super) fn works() -> bool {
    let tried = || {
        let mut netlink = Netlink::open()?;
        let root = Handle::new(Layout::DEFAULT_HANDLE, 0);
        put_root(&mut netlink, (LOOPBACK_INDEX, "lo"), root, 100, CREATE | EXCLUSIVE)?;
        let pacer = Pacer::load(Layout::DEFAULT_HANDLE)?;
        let lo = link::find(&mut netlink, "lo")?;
        Attached::put_by_best(&lo, &pacer.program, &FILTER)?.verify()
    };
    crate::probe::in_scratch_namespace(move || tried().is_ok()).unwrap_or(false)
}

#[cfg(test)]
mod tests;
