//! Filters on the root qdisc.

use super::stats::Dumped;
use super::{Handle, Head, attributes, nest, put, put_kind, put_str, put_u32};
use crate::mac::MacAddr;

const TCA_OPTIONS: u16 = libc::TCA_OPTIONS;
const TCA_U32_CLASSID: u16 = 1;
const TCA_U32_SEL: u16 = 5;
const TC_U32_TERMINAL: u8 = 1;
const TCA_FLOW_KEYS: u16 = 1;
const TCA_FLOW_MODE: u16 = 2;
const TCA_FLOW_BASECLASS: u16 = 3;
const TCA_FLOW_RSHIFT: u16 = 4;
const TCA_FLOW_MASK: u16 = 6;
const FLOW_KEY_PRIORITY: u32 = 6;
const FLOW_MODE_MAP: u32 = 0;
const TCA_BPF_OPS_LEN: u16 = 4;
const TCA_BPF_OPS: u16 = 5;
const TCA_BPF_FD: u16 = 6;
const TCA_BPF_NAME: u16 = 7;
const TCA_BPF_FLAGS: u16 = 8;
const TCA_BPF_FLAG_ACT_DIRECT: u32 = 1;

/// A filter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Filter {
    /// Sends every packet of the protocol to a class (`u32`).
    All(Handle),
    /// Sends every packet of the protocol to a class (a BPF program of one instruction).
    AllBpf(Handle),
    /// Sends a packet to the class that its mark names (`fw` without further options).
    MarkFw,
    /// Sends a packet to the class that its mark names (a BPF program of two instructions).
    MarkBpf,
    /// Sends a packet to a class by its priority (`flow`).
    ///
    /// The minor number is that of this class plus the lower twelve bits of the priority's upper half.
    PriorityGroup(Handle),
    /// Sends a packet to a class by its mark (`bpf`).
    ///
    /// If the mark's upper half begins with the four bits of this class's minor number, that half is the minor number
    /// of the class; otherwise the mark names the class.
    MarkBpfGroup(Handle),
}

/// Appends a message about a filter on `root`.
///
/// The filter with the lowest `prio` is tried first; `protocol` is an ethertype, `ETH_P_ALL` for any.
pub fn write(
    out: &mut Vec<u8>,
    index: u32,
    root: Handle,
    prio: u16,
    protocol: u16,
    filter: Filter,
) {
    let info = u32::from(prio) << 16 | u32::from(protocol.to_be());
    // Only `flow` does not number its filters by itself.
    let handle = match filter {
        Filter::PriorityGroup(_) => Handle(1),
        _ => Handle::NONE,
    };
    Head { index, handle, parent: root, info }.write(out);
    match filter {
        Filter::All(class) => {
            put_kind(out, "u32");
            nest(out, TCA_OPTIONS, |out| {
                put_u32(out, TCA_U32_CLASSID, class.0);
                // struct tc_u32_sel: flags, offshift, nkeys, …; then one key (mask, value, offset,
                // offset mask) that any packet matches.
                let mut selector = [0; 32];
                selector[0] = TC_U32_TERMINAL;
                selector[2] = 1;
                put(out, TCA_U32_SEL, &selector);
            });
        }
        Filter::AllBpf(class) => bpf(out, &[RET_K(class.0)]),
        Filter::MarkFw => put_kind(out, "fw"),
        Filter::MarkBpf => bpf(out, &[LD_MARK, RET_A]),
        Filter::PriorityGroup(first) => {
            put_kind(out, "flow");
            nest(out, TCA_OPTIONS, |out| {
                put_u32(out, TCA_FLOW_KEYS, 1 << FLOW_KEY_PRIORITY);
                put_u32(out, TCA_FLOW_MODE, FLOW_MODE_MAP);
                put_u32(out, TCA_FLOW_BASECLASS, first.0);
                put_u32(out, TCA_FLOW_RSHIFT, 16);
                put_u32(out, TCA_FLOW_MASK, 0x0fff_0000);
            });
        }
        Filter::MarkBpfGroup(first) => {
            let major = u32::from(first.major()) << 16;
            let program = [
                LD_MARK,
                RSH_K(28),
                JEQ_ELSE(u32::from(first.minor() >> 12), 4), // else to where the mark is loaded last
                LD_MARK,
                RSH_K(16),
                OR_K(major),
                RET_A,
                LD_MARK,
                RET_A,
            ];
            bpf(out, &program);
        }
    }
}

/// Most addresses of [`write_destinations`]: the kernel takes 4096 instructions.
pub const MAX_DESTINATIONS: usize = 512;

/// Appends a message about a filter that sends frames to classes by Ethernet destination.
///
/// It is the only one of its priority. Creating it again replaces it, without a moment between. Other frames match
/// nothing.
pub fn write_destinations(
    out: &mut Vec<u8>,
    index: u32,
    root: Handle,
    prio: u16,
    classes: &[(MacAddr, Handle)],
) {
    let info = u32::from(prio) << 16 | u32::from((libc::ETH_P_ALL as u16).to_be());
    Head { index, handle: Handle(1), parent: root, info }.write(out);
    let mut program = Vec::with_capacity(5 * classes.len() + 1);
    for (MacAddr([a, b, c, d, e, f]), class) in classes {
        program.extend([
            LD_WORD(0),
            JEQ_ELSE(u32::from_be_bytes([*a, *b, *c, *d]), 3), // else to the next address
            LD_HALF(4),
            JEQ_ELSE(u32::from_be_bytes([0, 0, *e, *f]), 1),
            RET_K(class.0),
        ]);
    }
    program.push(RET_K(0));
    bpf(out, &program);
}

/// A loaded eBPF program as a filter; its result is the packet's fate (`direct-action`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AttachedBpf<'a> {
    /// File descriptor of the program.
    pub fd: i32,
    /// Name that `tc filter show` prints.
    pub name: &'a str,
}

/// Appends a message about an eBPF program for all packets of a hook ([`Handle::EGRESS`]).
pub fn write_attached(
    out: &mut Vec<u8>,
    index: u32,
    hook: Handle,
    prio: u16,
    program: &AttachedBpf<'_>,
) {
    let info = u32::from(prio) << 16 | u32::from((libc::ETH_P_ALL as u16).to_be());
    Head { index, handle: Handle::NONE, parent: hook, info }.write(out);
    put_kind(out, "bpf");
    nest(out, TCA_OPTIONS, |out| {
        put(out, TCA_BPF_FD, &program.fd.to_ne_bytes());
        put_str(out, TCA_BPF_NAME, program.name);
        put_u32(out, TCA_BPF_FLAGS, TCA_BPF_FLAG_ACT_DIRECT);
    });
}

/// Returns the name of a dumped filter of kind `bpf`.
pub(crate) fn bpf_name(dumped: &Dumped<'_>) -> Option<String> {
    let options = Some(dumped.options).filter(|_| dumped.kind == "bpf")?;
    let (_, name) = attributes(options).find(|(kind, _)| *kind == TCA_BPF_NAME)?;
    Some(String::from_utf8_lossy(name).trim_end_matches('\0').to_owned())
}

/// One instruction of classic BPF (`struct sock_filter`): code, jumps, operand.
type Instruction = [u8; 8];

/// `BPF_LD | BPF_W | BPF_ABS` at `SKF_AD_OFF + SKF_AD_MARK`: load the packet's mark.
const LD_MARK: Instruction = instruction(0x20, 0xffff_f014);
/// `BPF_RET | BPF_A`: the class is the loaded value; 0 means no match.
const RET_A: Instruction = instruction(0x16, 0);

/// `BPF_LD | BPF_W | BPF_ABS`: load four bytes of the frame.
#[allow(non_snake_case)]
const fn LD_WORD(at: u32) -> Instruction {
    instruction(0x20, at)
}

/// `BPF_LD | BPF_H | BPF_ABS`: load two bytes of the frame.
#[allow(non_snake_case)]
const fn LD_HALF(at: u32) -> Instruction {
    instruction(0x28, at)
}

/// `BPF_RET | BPF_K`: the class is `value`.
#[allow(non_snake_case)]
const fn RET_K(value: u32) -> Instruction {
    instruction(0x06, value)
}

/// `BPF_ALU | BPF_RSH | BPF_K`.
#[allow(non_snake_case)]
const fn RSH_K(by: u32) -> Instruction {
    instruction(0x74, by)
}

/// `BPF_ALU | BPF_OR | BPF_K`.
#[allow(non_snake_case)]
const fn OR_K(value: u32) -> Instruction {
    instruction(0x44, value)
}

/// `BPF_JMP | BPF_JEQ | BPF_K`: continues on a match, else skips `skip` instructions.
#[allow(non_snake_case)]
const fn JEQ_ELSE(value: u32, skip: u8) -> Instruction {
    let [a, b, _, _, k @ ..] = instruction(0x15, value);
    let [k0, k1, k2, k3] = k;
    [a, b, 0, skip, k0, k1, k2, k3]
}

const fn instruction(code: u16, operand: u32) -> Instruction {
    let (c, k) = (code.to_ne_bytes(), operand.to_ne_bytes());
    [c[0], c[1], 0, 0, k[0], k[1], k[2], k[3]]
}

fn bpf(out: &mut Vec<u8>, program: &[Instruction]) {
    put_kind(out, "bpf");
    nest(out, TCA_OPTIONS, |out| {
        put(out, TCA_BPF_OPS_LEN, &(program.len() as u16).to_ne_bytes());
        put(out, TCA_BPF_OPS, &program.concat());
    });
}
