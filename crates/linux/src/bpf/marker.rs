//! The program that marks, at the egress of an interface, with a chance for each next hop.

use std::io;

use fairmesh_units::{Probability, Span};
use nix::time::{ClockId, clock_gettime};

use super::hook::{self, Attached, FilterName, Hook, HookDirection};
use super::program::{Map, Program, TestRun};
use super::rule::{self, CHANCE_BYTES, COUNTS_BYTES, KEY_BYTES, MarkRule};
use crate::error::Error;
use crate::link;
use crate::mac::MacAddr;
use crate::netlink::Netlink;
use crate::shaper::{Interface, Removed};

/// Name of the program.
const PROGRAM: &str = "fairmesh_mark";
/// Names of the filter.
const FILTER: FilterName = FilterName {
    name: "fairmesh-mark",
    on_ours: "fairmesh-mark+clsact",
    prio: 0xfa3,
    what: "the program that marks packets",
    direction: HookDirection::Out,
};

/// Counters of a next hop since it was first set.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MarkCounters {
    /// Packets to which the chance applies.
    ///
    /// They can be marked, or dropped if the rule drops. A packet that the kernel has merged from several (GRO, TSO) counts once.
    pub packets: u64,
    /// Packets with a new CE.
    pub marked: u64,
    /// Dropped packets.
    pub dropped: u64,
}

/// A loaded program that marks packets with CE (RFC 3168), or drops them, by next hop.
///
/// It handles IPv4 and IPv6, plain and inside unicast frames of batman-adv (`linux/batadv_packet.h`), each with at
/// most one VLAN tag. Other, truncated and group-addressed frames pass. It needs Linux 5.12, `CAP_BPF` and
/// `CAP_NET_ADMIN`.
#[derive(Debug)]
pub struct Marker {
    program: Program,
    chances: Map<KEY_BYTES, CHANCE_BYTES>,
    counts: Map<KEY_BYTES, COUNTS_BYTES>,
    attached: Option<Attached>,
}

impl Marker {
    /// Most next hops with a chance of their own.
    pub const NEXT_HOPS: u32 = 512;

    /// Loads the program. Nothing is attached yet, and all chances are 0.
    ///
    /// # Errors
    /// [`Error::Missing`] if bpf(2) is refused or absent; [`Error::Verifier`] if the kernel refuses the program.
    pub fn load(rule: MarkRule) -> Result<Self, Error> {
        // One place more for all other next hops.
        let chances = Map::create(Marker::NEXT_HOPS + 1)?;
        let counts = Map::create(Marker::NEXT_HOPS + 1)?;
        let code = rule::program(rule, chances.fd(), counts.fd())
            .map_err(|e| Error::io("assembling the program")(io::Error::other(e)))?;
        let program = Program::load(PROGRAM, &code)?;
        let mut marker = Marker { program, chances, counts, attached: None };
        marker.set(None, Probability(0.0), Span::ZERO)?;
        Ok(marker)
    }

    /// Attaches the program where packets leave an interface.
    ///
    /// TCX is preferred to `clsact`. The program is detached when this value is dropped. When the process dies, the kernel detaches it from TCX;
    /// from `clsact` it is removed by [`Marker::remove`] and by the next `attach`.
    ///
    /// # Errors
    /// The interface has no Ethernet header or does not exist, or the kernel's refusal.
    pub fn attach(&mut self, interface: &Interface) -> Result<Hook, Error> {
        match self.attach_by(interface, Hook::Tcx) {
            Err(Error::Missing { .. }) => {
                self.attach_by(interface, Hook::Clsact).map(|()| Hook::Clsact)
            }
            other => other.map(|()| Hook::Tcx),
        }
    }

    /// Attaches the program by one hook.
    ///
    /// # Errors
    /// As [`Marker::attach`]; [`Error::Missing`] if this kernel lacks the hook.
    pub fn attach_by(&mut self, interface: &Interface, hook: Hook) -> Result<(), Error> {
        self.detach()?;
        Marker::remove(interface)?;
        let mut netlink = Netlink::open()?;
        let link = link::find(&mut netlink, interface.name())?;
        if link.header == 0 {
            return Err(Error::Missing {
                what: format!("an Ethernet header on {}", link.name),
                hint: "mark on the interface below it".into(),
            });
        }
        self.attached = Some(Attached::put(netlink, link, &self.program, hook, &FILTER)?);
        Ok(())
    }

    /// Detaches the program; chances and counters stay.
    ///
    /// # Errors
    /// The kernel's refusal. An interface that is gone is none.
    pub fn detach(&mut self) -> Result<(), Error> {
        self.attached.take().map_or(Ok(()), Attached::detach)
    }

    /// Checks that the program is still attached.
    ///
    /// # Errors
    /// [`Error::Gone`] if another program or the end of the interface has detached it; [`Error::NotInstalled`] if it
    /// was not attached.
    pub fn verify(&mut self) -> Result<(), Error> {
        self.attached.as_mut().ok_or(Error::NotInstalled)?.verify()
    }

    /// Sets the chance of the packets to a next hop.
    ///
    /// `None` is every next hop without a chance of its own. The chance is clamped to 0…1 and lapses after `keep`, so that packets pass when the process hangs or dies.
    /// Setting it again renews it; counters and the distance to the next mark stay.
    ///
    /// # Errors
    /// There are [`Marker::NEXT_HOPS`] others, or the kernel's refusal.
    pub fn set(
        &mut self,
        next_hop: Option<MacAddr>,
        chance: Probability,
        keep: Span,
    ) -> Result<(), Error> {
        let failed = |e: io::Error| Error::Kernel {
            what: match next_hop {
                Some(mac) => format!("setting the chance of {mac}"),
                None => "setting the chance of other next hops".to_owned(),
            },
            message: (e.raw_os_error() == Some(libc::E2BIG))
                .then(|| format!("there are {} next hops already", Marker::NEXT_HOPS)),
            source: e,
        };
        let until = until(keep).map_err(failed)?;
        let mut value = [0; CHANCE_BYTES];
        value[..8].copy_from_slice(&scaled(chance).to_ne_bytes());
        value[8..].copy_from_slice(&until.to_ne_bytes());
        let key = key(next_hop);
        self.counts.put_new(&key, &[0; COUNTS_BYTES]).map_err(failed)?;
        self.chances.put(&key, &value).map_err(failed)
    }

    /// Removes a next hop with its counters; the chance of all others applies to it.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn forget(&mut self, next_hop: MacAddr) -> Result<(), Error> {
        let key = key(Some(next_hop));
        let removed = self.chances.delete(&key).and_then(|()| self.counts.delete(&key));
        removed.map_err(Error::io(format!("removing the chance of {next_hop}")))
    }

    /// Reads the counters of a next hop, or of all others; `None` if it was not set.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn counters(&self, next_hop: Option<MacAddr>) -> Result<Option<MarkCounters>, Error> {
        let value =
            self.counts.get(&key(next_hop)).map_err(Error::io("reading counters of marks"))?;
        Ok(value.map(|value| {
            let mut words =
                value.chunks_exact(8).map(|w| w.try_into().map_or(0, u64::from_ne_bytes));
            let [_, packets, marked, dropped] = [(); 4].map(|()| words.next().unwrap_or(0));
            MarkCounters { packets, marked, dropped }
        }))
    }

    /// Runs the program on a frame, for tests ([`Program::test_run`]).
    ///
    /// # Errors
    /// As [`Program::test_run`].
    pub fn test_run(&self, frame: &[u8], repeat: u32) -> Result<TestRun, Error> {
        self.program.test_run(frame, repeat)
    }

    /// Removes the filter that this or another process has left on an interface.
    ///
    /// Nothing else is changed. A `clsact` qdisc is removed if we made it and no other filter uses it.
    ///
    /// # Errors
    /// The kernel's refusal. A missing interface is none.
    pub fn remove(interface: &Interface) -> Result<Removed, Error> {
        let mut netlink = Netlink::open()?;
        match link::find(&mut netlink, interface.name()) {
            Err(Error::NoInterface(_)) => Ok(Removed::default()),
            Err(e) => Err(e),
            Ok(link) => hook::remove(&mut netlink, &link, &FILTER),
        }
    }
}

impl Drop for Marker {
    fn drop(&mut self) {
        // The chances lapse if this fails.
        let _ = self.detach();
    }
}

/// Returns the end of a time from now on, in ns of `CLOCK_MONOTONIC`.
pub(super) fn until(keep: Span) -> io::Result<u64> {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC)?;
    let now = now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64;
    Ok(now.saturating_add(keep.as_nanos()))
}

/// Returns a chance, clamped to 0…1, as a multiple of 2^-32.
///
/// Rounded up, so that 1 / n marks each n-th packet. NaN becomes 0.
pub(super) fn scaled(chance: Probability) -> u64 {
    (chance.0.clamp(0.0, 1.0) * f64::from(1 << 16) * f64::from(1 << 16)).ceil() as u64
}

fn key(next_hop: Option<MacAddr>) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    if let Some(mac) = next_hop {
        key[..6].copy_from_slice(&mac.0);
    }
    key
}
