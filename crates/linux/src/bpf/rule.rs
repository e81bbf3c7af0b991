//! The program that marks and drops, as instructions.

use super::asm::{AsmError, Assembler, Helper, If, Instruction, Label, Op, Reg};
use super::asm::{Reg::*, Width::*};
use super::headers::{
    self, ETH_P_IP, ETH_P_IPV6, FRAME_OFFSET, IPV4_BYTES, IPV6_BYTES, SCRATCH_OFFSET, read,
    read_at, wire,
};

/// Distribution of marks over the packets that may be marked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spacing {
    /// Every 1 / chance-th packet of a next hop.
    Even,
    /// An independent chance for each packet.
    Random,
}

/// Treatment of packets without ECN (Not-ECT).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotEct {
    /// Packets without ECN pass.
    Pass,
    /// Packets without ECN are dropped by the chance by which others are marked (RFC 3168 §5).
    Drop,
}

/// Rule by which packets are chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MarkRule {
    /// Distribution of marks.
    pub spacing: Spacing,
    /// Packets without ECN.
    pub not_ect: NotEct,
    /// True if ECT(1) packets are marked like ECT(0) packets (RFC 3168).
    ///
    /// False lets them pass, because senders with L4S expect other marks (RFC 9331 §5).
    pub ect1: bool,
}

impl Default for MarkRule {
    /// Even marks on ECT(0) packets only.
    fn default() -> Self {
        MarkRule { spacing: Spacing::Even, not_ect: NotEct::Pass, ect1: false }
    }
}

/// `TC_ACT_UNSPEC`, also `TCX_NEXT`: the packet continues.
pub(super) const CONTINUE: i32 = -1;
/// `TC_ACT_SHOT`, also `TCX_DROP`.
pub(super) const DROP: i32 = 2;

/// Key of a next hop in both maps: its Ethernet address and two zeros.
pub(super) const KEY_BYTES: usize = 8;
/// Value of the map of chances: two words.
///
/// The chance as a multiple of 2^-32, and the end of its validity in ns of `CLOCK_MONOTONIC`.
pub(super) const CHANCE_BYTES: usize = 16;
/// Value of the map of counters: accumulator of chances, packets, marked, dropped.
pub(super) const COUNTS_BYTES: usize = 32;

const PACKETS_OFFSET: i16 = 8;
const MARKED_OFFSET: i16 = 16;
const DROPPED_OFFSET: i16 = 24;

const IPV4_CHECKSUM: i32 = 10;
/// `BPF_F_RECOMPUTE_CSUM`.
const RECOMPUTE_CHECKSUM: i32 = 1;

// Places on the stack, from its end. The first eight bytes of the Ethernet header become the key.
pub(super) const IP_OFFSET: i16 = -64;
const TRAFFIC_CLASS_OFFSET: i16 = IP_OFFSET + 1;
const CHANCE_OFFSET: i16 = -72;
const EXPIRY_OFFSET: i16 = -80;

/// Returns the program for a rule, with the file descriptors of both maps.
///
/// Registers: those of [`headers::find_ip`], then `R8` the ECN field, `R9` the counters.
pub(super) fn program(
    rule: MarkRule,
    chances: i32,
    counts: i32,
) -> Result<Vec<Instruction>, AsmError> {
    let mut a = Assembler::new();
    let out = a.label();
    headers::find_ip(&mut a, out);
    // Frames to a group are beacons and routing, and have no next hop.
    a.load(Byte, R0, R10, FRAME_OFFSET);
    a.jump_if(R0, If::AnyBit, 1, out);
    a.store(Half, R10, FRAME_OFFSET + 6, 0);
    read_ecn(&mut a, out);
    a.jump_if(R8, If::Equal, 3, out);
    if !rule.ect1 {
        a.jump_if(R8, If::Equal, 1, out);
    }
    if rule.not_ect == NotEct::Pass {
        a.jump_if(R8, If::Equal, 0, out);
    }
    choose(&mut a, rule.spacing, chances, counts, out);
    let drop = a.label();
    if rule.not_ect == NotEct::Drop {
        a.jump_if(R8, If::Equal, 0, drop);
    }
    mark(&mut a, out);
    count(&mut a, MARKED_OFFSET);
    a.bind(out);
    a.set(R0, CONTINUE);
    a.exit();
    if rule.not_ect == NotEct::Drop {
        a.bind(drop);
        count(&mut a, DROPPED_OFFSET);
        a.set(R0, DROP);
        a.exit();
    }
    a.finish()
}

/// Copies the IP header at `R7` to the stack and sets `R8` to its ECN field.
fn read_ecn(a: &mut Assembler, out: Label) {
    let (v4, whole, done) = (a.label(), a.label(), a.label());
    a.jump_if(R8, If::Equal, wire(ETH_P_IP), v4);
    a.jump_if(R8, If::Differs, wire(ETH_P_IPV6), out);
    read(a, 0, IP_OFFSET, IPV6_BYTES, out);
    a.load(Byte, R0, R10, IP_OFFSET);
    a.op(Op::ShiftRight, R0, 4);
    a.jump_if(R0, If::Differs, 6, out);
    // RFC 8200 §3: the traffic class is bits 4 to 11 of the header, and ECN the last two of them.
    a.load(Byte, R8, R10, TRAFFIC_CLASS_OFFSET);
    a.op(Op::ShiftRight, R8, 4);
    a.jump(done);
    a.bind(v4);
    read(a, 0, IP_OFFSET, IPV4_BYTES, out);
    a.load(Byte, R8, R10, IP_OFFSET);
    a.set(R0, R8);
    a.op(Op::ShiftRight, R0, 4);
    a.jump_if(R0, If::Differs, 4, out);
    a.op(Op::And, R8, 15);
    a.jump_if(R8, If::Less, 5, out);
    a.jump_if(R8, If::Equal, 5, whole);
    // With options the last byte of the header must be there.
    a.op(Op::ShiftLeft, R8, 2);
    a.set(R2, R7);
    a.op(Op::Add, R2, R8);
    a.op(Op::Add, R2, -1);
    read_at(a, SCRATCH_OFFSET, 1, out);
    a.bind(whole);
    a.load(Byte, R8, R10, TRAFFIC_CLASS_OFFSET);
    a.bind(done);
    a.op(Op::And, R8, 3);
}

/// Counts the packet, with `R9` for the counters, and continues if it is chosen.
fn choose(a: &mut Assembler, spacing: Spacing, chances: i32, counts: i32, out: Label) {
    let known = a.label();
    find(a, chances);
    a.jump_if(R0, If::Differs, 0, known);
    // The key of zeros is that of all other next hops.
    a.store(Double, R10, FRAME_OFFSET, 0);
    find(a, chances);
    a.jump_if(R0, If::Equal, 0, out);
    a.bind(known);
    a.load(Double, R1, R0, 0);
    a.store(Double, R10, CHANCE_OFFSET, R1);
    a.load(Double, R1, R0, 8);
    a.store(Double, R10, EXPIRY_OFFSET, R1);
    find(a, counts);
    a.jump_if(R0, If::Equal, 0, out);
    a.set(R9, R0);
    count(a, PACKETS_OFFSET);
    a.load(Double, R1, R10, CHANCE_OFFSET);
    a.jump_if(R1, If::Equal, 0, out);
    a.call(Helper::KtimeGetNs);
    a.load(Double, R1, R10, EXPIRY_OFFSET);
    a.jump_if(R0, If::NotLess, R1, out);
    match spacing {
        Spacing::Even => {
            // A packet is chosen when the sum of all chances passes a whole number. One atomic addition, so that
            // processors that send at once choose as many as one.
            a.load(Double, R1, R10, CHANCE_OFFSET);
            a.set(R2, R1);
            a.atomic_fetch_add(R9, 0, R1);
            a.op(Op::Add, R2, R1);
            a.op(Op::ShiftRight, R1, 32);
            a.op(Op::ShiftRight, R2, 32);
            a.jump_if(R1, If::Equal, R2, out);
        }
        Spacing::Random => {
            a.call(Helper::PrandomU32);
            a.load(Double, R1, R10, CHANCE_OFFSET);
            a.jump_if(R0, If::NotLess, R1, out);
        }
    }
}

/// Sets the ECN field to 11 and updates the checksum of IPv4 (RFC 1624).
///
/// The header is at [`IP_OFFSET`] on the stack and at `R7` in the packet.
pub(super) fn mark(a: &mut Assembler, out: Label) {
    let (v6, write) = (a.label(), a.label());
    // After this the packet is writable and contiguous, so that checksum and field change both or not at all.
    a.set(R1, R6);
    a.set(R2, R7);
    a.op(Op::Add, R2, IPV4_BYTES);
    a.call(Helper::SkbPullData);
    a.jump_if(R0, If::Differs, 0, out);
    a.load(Byte, R0, R10, IP_OFFSET);
    a.op(Op::ShiftRight, R0, 4);
    a.jump_if(R0, If::Equal, 6, v6);
    a.load(Half, R3, R10, IP_OFFSET);
    a.set(R4, R3);
    a.op(Op::Or, R4, i32::from(u16::from_ne_bytes([0, 3])));
    a.store(Half, R10, IP_OFFSET, R4);
    a.set(R1, R6);
    a.set(R2, R7);
    a.op(Op::Add, R2, IPV4_CHECKSUM);
    a.set(R5, 2);
    a.call(Helper::L3CsumReplace);
    a.jump_if(R0, If::Differs, 0, out);
    a.set(R5, 0);
    a.jump(write);
    a.bind(v6);
    a.load(Byte, R1, R10, TRAFFIC_CLASS_OFFSET);
    a.op(Op::Or, R1, 0x30);
    a.store(Byte, R10, TRAFFIC_CLASS_OFFSET, R1);
    a.set(R5, RECOMPUTE_CHECKSUM);
    a.bind(write);
    a.set(R1, R6);
    a.set(R2, R7);
    a.op(Op::Add, R2, 1);
    a.set(R3, R10);
    a.op(Op::Add, R3, i32::from(TRAFFIC_CLASS_OFFSET));
    a.set(R4, 1);
    a.call(Helper::SkbStoreBytes);
    a.jump_if(R0, If::Differs, 0, out);
}

/// Looks the key up; `R0` is the address of its value, or 0.
fn find(a: &mut Assembler, map: i32) {
    a.map(R1, map);
    a.set(R2, R10);
    a.op(Op::Add, R2, i32::from(FRAME_OFFSET));
    a.call(Helper::MapLookup);
}

fn count(a: &mut Assembler, at: i16) {
    a.set(Reg::R1, 1);
    a.atomic_add(Reg::R9, at, Reg::R1);
}
