//! The program that gives packets of subscribers their earliest departure time.
//!
//! A packet's priority names its class, as nftables has set it. Each class is a virtual FIFO: a packet departs when the
//! class has sent all packets before it at its limit. The queueing discipline `fq` holds the packet until then.

use super::asm::{AsmError, Assembler, Helper, If, Instruction, Op};
use super::asm::{Reg::*, Width::*};
use super::headers::{ETH_P_BATMAN, wire};
use super::hook::{FilterName, HookDirection};
use super::rule::{CONTINUE, DROP};

/// Names of the filter.
pub(crate) const FILTER: FilterName = FilterName {
    name: "fairmesh-pace",
    on_ours: "fairmesh-pace+clsact",
    prio: 0xfa1,
    what: "the program that limits subscribers",
    direction: HookDirection::Out,
};

/// Words of a class's record.
pub(crate) const WORDS: usize = 8;
/// Earliest departure of the next packet, ns of `CLOCK_MONOTONIC`. The program writes it.
pub(crate) const NEXT: usize = 0;
/// Time per byte, in units of 2^-[`COST_BITS`] ns; 0 without a limit.
pub(crate) const COST: usize = 1;
/// Time that an idle class can make up for, ns: its burst.
pub(crate) const CREDIT: usize = 2;
/// Time in which a full queue is sent, ns. A packet that would not fit is dropped.
pub(crate) const HORIZON: usize = 3;
/// Bytes that were not dropped, in frames.
pub(crate) const BYTES: usize = 4;
/// Packets that were not dropped.
pub(crate) const PACKETS: usize = 5;
/// Dropped packets.
pub(crate) const DROPS: usize = 6;
/// Packets that the limit delayed.
pub(crate) const DELAYED: usize = 7;

/// Bits of [`COST`] below a nanosecond.
pub(crate) const COST_BITS: i32 = 16;
/// Largest [`COST`]: with it the time of a packet of 2^19 bytes fits into 64 bits.
pub(crate) const MAX_COST: u64 = 1 << 44;

/// Attempts to take a departure time while other processors do the same.
const MAX_ATTEMPTS: usize = 3;
/// Bit of a packet's hash that distinguishes subscribers from other traffic.
pub(crate) const SUBSCRIBER_BIT: i32 = 1 << 16;

// Offsets in `struct __sk_buff` (`linux/bpf.h`).
const SKB_PROTOCOL: i16 = 16;
const SKB_PRIORITY: i16 = 32;
const SKB_TSTAMP: i16 = 152;
const SKB_WIRE_LEN: i16 = 160;
const SKB_GSO_SEGS: i16 = 164;

const ETH_P_ARP: u16 = libc::ETH_P_ARP as u16;
/// `TC_PRIO_CONTROL`.
const PRIO_CONTROL: i32 = 7;

/// Place of the record's number on the stack.
const KEY_OFFSET: i16 = -8;

/// Numbers of records and of the classes that have them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbers {
    /// Major number of the classes.
    pub major: u16,
    /// Largest number of a subscriber.
    pub last: u16,
    /// Class of routing and management.
    pub bypass: u16,
    /// Record of routing and management; that of unmapped traffic is 0.
    pub bypass_record: u16,
}

const fn at(word: usize) -> i16 {
    word as i16 * 8
}

/// Returns the program; `classes` is the file descriptor of the array of records.
///
/// Registers: `R6` the packet, `R7` the number of the class, then an expected departure time, `R8` the record, `R9` the
/// present time.
pub(crate) fn program(numbers: Numbers, classes: i32) -> Result<Vec<Instruction>, AsmError> {
    let mut a = Assembler::new();
    let [bypass, unmapped, plain, taken, on_time, count, drop, out] = [(); 8].map(|()| a.label());
    a.set(R6, R1);
    a.load(Word, R1, R6, SKB_PROTOCOL);
    a.jump_if(R1, If::Equal, wire(ETH_P_ARP), bypass);
    a.jump_if(R1, If::Equal, wire(ETH_P_BATMAN), bypass);
    a.load(Word, R1, R6, SKB_PRIORITY);
    a.set(R7, R1);
    a.op(Op::And, R7, 0xffff);
    a.op(Op::ShiftRight, R1, 16);
    a.jump_if(R1, If::Differs, i32::from(numbers.major), unmapped);
    a.jump_if(R7, If::Equal, i32::from(numbers.bypass), bypass);
    a.jump_if(R7, If::Equal, 0, unmapped);
    a.jump_if(R7, If::Greater, i32::from(numbers.last), unmapped);
    // `fq` would read a band from the class.
    a.set(R1, 0);
    a.store(Word, R6, SKB_PRIORITY, R1);
    find(&mut a, classes, out);
    a.call(Helper::KtimeGetNs);
    a.set(R9, R0);
    a.load(Word, R1, R6, SKB_WIRE_LEN);
    a.load(Double, R2, R8, at(COST));
    a.op(Op::Mul, R1, R2);
    a.op(Op::ShiftRight, R1, COST_BITS);
    // R1: the packet's time at the limit, R2: the earliest start, R3: the longest wait.
    a.set(R2, R9);
    a.load(Double, R3, R8, at(CREDIT));
    let enough = a.label();
    a.jump_if(R2, If::NotLess, R3, enough);
    a.set(R3, R2);
    a.bind(enough);
    a.op(Op::Sub, R2, R3);
    // R3 becomes the longest wait that leaves room for the packet, or for half the horizon: a merged packet may be longer
    // than the horizon.
    a.load(Double, R3, R8, at(HORIZON));
    a.set(R4, R3);
    a.op(Op::ShiftRight, R4, 1);
    let short = a.label();
    a.jump_if(R4, If::Less, R1, short);
    a.set(R4, R1);
    a.bind(short);
    a.op(Op::Sub, R3, R4);
    for _ in 0..MAX_ATTEMPTS {
        let [busy, fits] = [(); 2].map(|()| a.label());
        a.load(Double, R7, R8, at(NEXT));
        a.set(R4, R7);
        a.jump_if(R4, If::NotLess, R2, busy);
        a.set(R4, R2);
        a.bind(busy);
        a.jump_if(R9, If::NotLess, R4, fits);
        a.set(R5, R4);
        a.op(Op::Sub, R5, R9);
        a.jump_if(R5, If::Greater, R3, drop);
        a.bind(fits);
        a.set(R5, R4);
        a.op(Op::Add, R5, R1);
        a.set(R0, R7);
        a.compare_exchange(R8, at(NEXT), R5);
        a.jump_if(R0, If::Equal, R7, taken);
    }
    // Other processors were faster each time: the packet goes behind theirs.
    a.set(R4, R1);
    a.atomic_fetch_add(R8, at(NEXT), R4);
    a.bind(taken);
    a.jump_if(R9, If::NotLess, R4, on_time);
    a.store(Double, R6, SKB_TSTAMP, R4);
    a.set(R1, 1);
    a.atomic_add(R8, at(DELAYED), R1);
    a.op(Op::Sub, R4, R9);
    a.load(Double, R3, R8, at(HORIZON));
    a.op(Op::ShiftRight, R3, 1);
    a.jump_if(R3, If::NotLess, R4, on_time);
    // Has no effect on packets without ECN.
    a.set(R1, R6);
    a.call(Helper::SkbEcnSetCe);
    a.bind(on_time);
    // One flow of `fq` for each subscriber: its packets keep their order and wait for no other's.
    a.load(Word, R2, R10, KEY_OFFSET);
    a.op(Op::Or, R2, SUBSCRIBER_BIT);
    a.set(R1, R6);
    a.call(Helper::SetHash);
    a.jump(count);

    a.bind(unmapped);
    a.set(R7, 0);
    a.jump(plain);
    a.bind(bypass);
    a.set(R7, i32::from(numbers.bypass_record));
    a.set(R1, PRIO_CONTROL);
    a.store(Word, R6, SKB_PRIORITY, R1);
    a.bind(plain);
    find(&mut a, classes, out);
    a.set(R1, R6);
    a.call(Helper::GetHashRecalc);
    a.op(Op::And, R0, SUBSCRIBER_BIT - 1);
    a.set(R1, R6);
    a.set(R2, R0);
    a.call(Helper::SetHash);
    a.bind(count);
    a.load(Word, R1, R6, SKB_WIRE_LEN);
    a.atomic_add(R8, at(BYTES), R1);
    a.load(Word, R1, R6, SKB_GSO_SEGS);
    let several = a.label();
    a.jump_if(R1, If::Differs, 0, several);
    a.set(R1, 1);
    a.bind(several);
    a.atomic_add(R8, at(PACKETS), R1);
    a.bind(out);
    a.set(R0, CONTINUE);
    a.exit();
    a.bind(drop);
    a.set(R1, 1);
    a.atomic_add(R8, at(DROPS), R1);
    a.set(R0, DROP);
    a.exit();
    a.finish()
}

/// Appends the look-up of the record with the number in `R7`; `R8` gets its address.
fn find(a: &mut Assembler, classes: i32, out: super::asm::Label) {
    a.store(Word, R10, KEY_OFFSET, R7);
    a.map(R1, classes);
    a.set(R2, R10);
    a.op(Op::Add, R2, i32::from(KEY_OFFSET));
    a.call(Helper::MapLookup);
    a.jump_if(R0, If::Equal, 0, out);
    a.set(R8, R0);
}
