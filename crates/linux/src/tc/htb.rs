//! HTB: the qdisc and its classes (`net/sched/sch_htb.c`).

use fairmesh_units::{BitRate, Bytes};

use super::{Head, attributes, nest, put, put_kind, put_u32, put_u64};

const TCA_OPTIONS: u16 = libc::TCA_OPTIONS;
const TCA_HTB_PARMS: u16 = 1;
const TCA_HTB_INIT: u16 = 2;
const TCA_HTB_DIRECT_QLEN: u16 = 5;
const TCA_HTB_RATE64: u16 = 6;
const TCA_HTB_CEIL64: u16 = 7;
/// `TC_HTB_PROTOVER`; the kernel compares its upper half with its own.
const HTB_VERSION: u32 = 3;
/// Tick of the packet scheduler's clock (`PSCHED_SHIFT` 6), in ns.
const TICK_NS: u64 = 64;
/// `TC_LINKLAYER_ETHERNET`: no cell tables.
const LINKLAYER_ETHERNET: u8 = 1;

/// Name of the kind.
pub(crate) const KIND: &str = "htb";

/// Options of the qdisc.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Qdisc {
    /// Minor number of the class of packets that no class claims.
    pub default: u16,
    /// Divisor of rates for quanta that are not given.
    pub r2q: u32,
    /// Most packets that may wait outside all classes.
    pub direct: u32,
}

impl Qdisc {
    /// Appends kind and options.
    pub fn write(&self, out: &mut Vec<u8>) {
        put_kind(out, KIND);
        nest(out, TCA_OPTIONS, |out| {
            let mut glob = Vec::with_capacity(20);
            // struct tc_htb_glob: version, rate2quantum, defcls, debug, direct_pkts
            for word in [HTB_VERSION, self.r2q, u32::from(self.default), 0, 0] {
                glob.extend(word.to_ne_bytes());
            }
            put(out, TCA_HTB_INIT, &glob);
            put_u32(out, TCA_HTB_DIRECT_QLEN, self.direct);
        });
    }

    /// Reads the options of a dumped qdisc (the value of `TCA_OPTIONS`).
    pub fn read(options: &[u8]) -> Option<Qdisc> {
        let mut qdisc = Qdisc { default: 0, r2q: 0, direct: 0 };
        let mut seen = false;
        for (kind, value) in attributes(options) {
            match kind {
                TCA_HTB_INIT => {
                    qdisc.r2q = word(value, 4)?;
                    qdisc.default = u16::try_from(word(value, 8)?).ok()?;
                    seen = true;
                }
                TCA_HTB_DIRECT_QLEN => qdisc.direct = word(value, 0)?,
                _ => {}
            }
        }
        seen.then_some(qdisc)
    }
}

/// Parameters of a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Class {
    /// Guaranteed rate, in whole bytes per second.
    pub rate: BitRate,
    /// Ceiling, never exceeded.
    pub ceil: BitRate,
    /// Length of a burst at `rate` after an idle time, in ns.
    pub buffer_ns: u64,
    /// Length of a burst at `ceil` after an idle time, in ns.
    pub cbuffer_ns: u64,
    /// Quantum, bytes per round.
    pub quantum: u32,
    /// Priority, 0 (first) to 7.
    pub prio: u32,
}

impl Class {
    /// Rate that means "no limit": beyond any interface.
    pub const UNLIMITED: BitRate = BitRate(1_000_000_000_000);
    /// Length of a burst at the class's rate, in ns.
    ///
    /// HTB's timer may be late; without this burst a class of hundreds of Mbit/s would lose the
    /// bytes that it could not send then.
    const BURST_NS: u64 = 1_000_000;
    /// Smallest burst, as `tc` chooses it: one packet.
    const MIN_BURST: u64 = 1600;

    /// Returns a class with one limit, or none.
    pub fn limited(rate: Option<BitRate>, quantum: u32, prio: u32) -> Self {
        let rate = whole(rate.unwrap_or(Class::UNLIMITED));
        let buffer = Class::burst_ns(rate);
        Class { rate, ceil: rate, buffer_ns: buffer, cbuffer_ns: buffer, quantum, prio }
    }

    /// Returns a class that borrows everything it sends from its parent, up to its own limit.
    ///
    /// Its own rate is the smallest possible: one packet a minute.
    pub fn borrowing(limit: Option<BitRate>, quantum: u32, prio: u32) -> Self {
        let ceil = Class::limited(limit, quantum, prio);
        let rate = BitRate(8);
        Class { rate, buffer_ns: Class::burst_ns(rate), ..ceil }
    }

    /// Returns the class with another burst, bytes; at least the bytes of one millisecond.
    pub fn bursting(self, burst: u32) -> Self {
        let ns = |rate: BitRate| rate.time_for(u64::from(burst)).as_nanos().max(Class::BURST_NS);
        Class { buffer_ns: ns(self.rate), cbuffer_ns: ns(self.ceil), ..self }
    }

    /// Returns the burst of a class of this rate, in bytes.
    pub fn burst(rate: BitRate) -> Bytes {
        Bytes((rate.0 / 8 * Class::BURST_NS / 1_000_000_000).max(Class::MIN_BURST))
    }

    fn burst_ns(rate: BitRate) -> u64 {
        rate.time_for(Class::MIN_BURST).as_nanos().max(Class::BURST_NS)
    }

    /// Appends kind and options.
    pub fn write(&self, out: &mut Vec<u8>) {
        put_kind(out, KIND);
        nest(out, TCA_OPTIONS, |out| {
            let mut parms = [0; 44]; // struct tc_htb_opt
            let (rate, ceil) = (self.rate.0 / 8, self.ceil.0 / 8);
            spec(&mut parms[..12], rate);
            spec(&mut parms[12..24], ceil);
            let rest = [ticks(self.buffer_ns), ticks(self.cbuffer_ns), self.quantum, 0, self.prio];
            for (at, value) in rest.into_iter().enumerate() {
                parms[24 + 4 * at..28 + 4 * at].copy_from_slice(&value.to_ne_bytes());
            }
            put(out, TCA_HTB_PARMS, &parms);
            if rate > u64::from(u32::MAX) {
                put_u64(out, TCA_HTB_RATE64, rate);
            }
            if ceil > u64::from(u32::MAX) {
                put_u64(out, TCA_HTB_CEIL64, ceil);
            }
        });
    }

    /// Reads the options of a dumped class (the value of `TCA_OPTIONS`).
    pub fn read(options: &[u8]) -> Option<Class> {
        let mut class = None;
        let (mut rate64, mut ceil64) = (None, None);
        for (kind, value) in attributes(options) {
            match kind {
                TCA_HTB_PARMS => {
                    class = Some(Class {
                        rate: BitRate(u64::from(word(value, 8)?) * 8),
                        ceil: BitRate(u64::from(word(value, 20)?) * 8),
                        buffer_ns: u64::from(word(value, 24)?) * TICK_NS,
                        cbuffer_ns: u64::from(word(value, 28)?) * TICK_NS,
                        quantum: word(value, 32)?,
                        prio: word(value, 40)?,
                    });
                }
                TCA_HTB_RATE64 => rate64 = long(value),
                TCA_HTB_CEIL64 => ceil64 = long(value),
                _ => {}
            }
        }
        let mut class = class?;
        // The kernel sends the long form only if the short one does not suffice.
        if let Some(rate) = rate64 {
            class.rate = BitRate(rate.saturating_mul(8));
        }
        if let Some(ceil) = ceil64 {
            class.ceil = BitRate(ceil.saturating_mul(8));
        }
        Some(class)
    }
}

/// Appends a message that makes or changes a class.
pub fn class(out: &mut Vec<u8>, head: Head, class: &Class) {
    head.write(out);
    class.write(out);
}

/// Rounds to a rate of whole bytes per second, at least one.
fn whole(rate: BitRate) -> BitRate {
    BitRate((rate.0.saturating_add(4) / 8).max(1) * 8)
}

fn ticks(ns: u64) -> u32 {
    u32::try_from(ns / TICK_NS).unwrap_or(u32::MAX)
}

/// Writes `struct tc_ratespec`: cell_log, linklayer, overhead, cell_align, mpu, rate.
pub(super) fn spec(out: &mut [u8], rate: u64) {
    out[1] = LINKLAYER_ETHERNET;
    let short = u32::try_from(rate).unwrap_or(u32::MAX);
    out[8..12].copy_from_slice(&short.to_ne_bytes());
}

pub(super) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes)
}

pub(super) fn long(bytes: &[u8]) -> Option<u64> {
    bytes.get(..8)?.try_into().ok().map(u64::from_ne_bytes)
}
