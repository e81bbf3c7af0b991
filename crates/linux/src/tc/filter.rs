//! Filters that hang on the root qdisc.

use super::{Handle, Head, nest, put, put_kind, put_u32};

const TCA_OPTIONS: u16 = libc::TCA_OPTIONS;
const TCA_U32_CLASSID: u16 = 1;
const TCA_U32_SEL: u16 = 5;
const TC_U32_TERMINAL: u8 = 1;
const TCA_BPF_OPS_LEN: u16 = 4;
const TCA_BPF_OPS: u16 = 5;

/// A filter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Filter {
    /// Every packet of the protocol goes to a class (`u32`).
    All(Handle),
    /// The same as a BPF program of one instruction.
    AllBpf(Handle),
    /// A packet goes to the class that its mark names (`fw` without further options).
    MarkFw,
    /// The same as a BPF program of two instructions.
    MarkBpf,
}

/// Appends a message about a filter on `root`. Among filters the lowest `prio` is asked first;
/// `protocol` is an ethertype, `ETH_P_ALL` for any.
pub fn write(
    out: &mut Vec<u8>,
    index: u32,
    root: Handle,
    prio: u16,
    protocol: u16,
    filter: Filter,
) {
    let info = u32::from(prio) << 16 | u32::from(protocol.to_be());
    Head { index, handle: Handle::NONE, parent: root, info }.write(out);
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
    }
}

/// One instruction of classic BPF (`struct sock_filter`): code, jumps, operand.
type Instruction = [u8; 8];

/// `BPF_LD | BPF_W | BPF_ABS` at `SKF_AD_OFF + SKF_AD_MARK`: load the packet's mark.
const LD_MARK: Instruction = instruction(0x20, 0xffff_f014);
/// `BPF_RET | BPF_A`: the class is what was loaded; 0 means no match.
const RET_A: Instruction = instruction(0x16, 0);

/// `BPF_RET | BPF_K`: the class is this.
#[allow(non_snake_case)]
const fn RET_K(value: u32) -> Instruction {
    instruction(0x06, value)
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
