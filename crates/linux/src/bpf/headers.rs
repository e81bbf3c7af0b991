//! The headers of a frame, found by a program's instructions.

use super::asm::{Assembler, Helper, If, Label, Op};
use super::asm::{Reg::*, Width::*};

const ETHERNET_BYTES: i32 = 14;
pub(super) const ETH_P_IP: u16 = 0x0800;
pub(super) const ETH_P_IPV6: u16 = 0x86dd;
const ETH_P_8021Q: u16 = 0x8100;
const ETH_P_8021AD: u16 = 0x88a8;
pub(super) const ETH_P_BATMAN: u16 = 0x4305;
// uapi/linux/batadv_packet.h: `enum batadv_packettype`, `BATADV_COMPAT_VERSION`, sizes of `struct
// batadv_unicast_packet` and of what `struct batadv_unicast_4addr_packet` has more.
const BATADV_UNICAST: i32 = 0x40;
const BATADV_UNICAST_4ADDR: i32 = 0x42;
const BATADV_VERSION: i32 = 15;
const BATADV_UNICAST_BYTES: i32 = 10;
const BATADV_4ADDR_EXTRA_BYTES: i32 = 8;

pub(super) const IPV4_BYTES: i32 = 20;
pub(super) const IPV6_BYTES: i32 = 40;

/// Eight bytes of the stack for values that are read.
pub(super) const SCRATCH_OFFSET: i16 = -8;
/// Place of the outer Ethernet header on the stack.
pub(super) const FRAME_OFFSET: i16 = -24;
const ETHERTYPE_OFFSET: i16 = FRAME_OFFSET + 12;

/// Appends the search for the IP header of a frame, plain or in a frame of batman-adv.
///
/// Registers: `R6` the packet, `R7` the offset of the IP header, `R8` its ethertype. The outer Ethernet header is at
/// [`FRAME_OFFSET`]. Other and truncated frames jump to `out`.
pub(super) fn find_ip(a: &mut Assembler, out: Label) {
    let (ip, three) = (a.label(), a.label());
    a.set(R6, R1);
    a.set(R7, 0);
    read(a, 0, FRAME_OFFSET, ETHERNET_BYTES, out);
    a.load(Half, R8, R10, ETHERTYPE_OFFSET);
    a.set(R7, ETHERNET_BYTES);
    skip_tag(a, out);
    a.jump_if(R8, If::Differs, wire(ETH_P_BATMAN), ip);
    read(a, 0, SCRATCH_OFFSET, 2, out);
    a.load(Byte, R0, R10, SCRATCH_OFFSET + 1);
    a.jump_if(R0, If::Differs, BATADV_VERSION, out);
    a.load(Byte, R0, R10, SCRATCH_OFFSET);
    a.jump_if(R0, If::Equal, BATADV_UNICAST, three);
    a.jump_if(R0, If::Differs, BATADV_UNICAST_4ADDR, out);
    a.op(Op::Add, R7, BATADV_4ADDR_EXTRA_BYTES);
    a.bind(three);
    a.op(Op::Add, R7, BATADV_UNICAST_BYTES + ETHERNET_BYTES);
    read(a, -2, SCRATCH_OFFSET, 2, out);
    a.load(Half, R8, R10, SCRATCH_OFFSET);
    skip_tag(a, out);
    a.bind(ip);
}

/// Returns an ethertype as it is loaded from a packet.
pub(super) const fn wire(ethertype: u16) -> i32 {
    ethertype.to_be() as i32
}

/// Copies bytes from `R7 + offset` to the stack; jumps if the packet is shorter.
pub(super) fn read(a: &mut Assembler, offset: i32, to: i16, bytes: i32, short: Label) {
    a.set(R2, R7);
    if offset != 0 {
        a.op(Op::Add, R2, offset);
    }
    read_at(a, to, bytes, short);
}

/// Does the same from `R2`.
pub(super) fn read_at(a: &mut Assembler, to: i16, bytes: i32, short: Label) {
    a.set(R1, R6);
    a.set(R3, R10);
    a.op(Op::Add, R3, i32::from(to));
    a.set(R4, bytes);
    a.call(Helper::SkbLoadBytes);
    a.jump_if(R0, If::Differs, 0, short);
}

/// Skips one VLAN tag: `R7` and `R8` become those behind it.
fn skip_tag(a: &mut Assembler, short: Label) {
    let (tag, none) = (a.label(), a.label());
    a.jump_if(R8, If::Equal, wire(ETH_P_8021Q), tag);
    a.jump_if(R8, If::Differs, wire(ETH_P_8021AD), none);
    a.bind(tag);
    read(a, 2, SCRATCH_OFFSET, 2, short);
    a.load(Half, R8, R10, SCRATCH_OFFSET);
    a.op(Op::Add, R7, 4);
    a.bind(none);
}
