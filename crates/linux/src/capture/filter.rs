//! Classic BPF program of a capture (Documentation/networking/filter.rst).
//!
//! It passes TCP, and on request some UDP: the packets that the parser can read and few others. IPv6 packets
//! with extension headers all pass.

use std::io;
use std::os::fd::OwnedFd;

use super::{FirstHeader, SNAP_BYTES};

/// Ethertypes (IEEE 802, RFC 2516).
pub(super) const IPV4: u16 = 0x0800;
pub(super) const IPV6: u16 = 0x86dd;
pub(super) const VLAN_ETHERTYPES: [u16; 2] = [0x8100, 0x88a8];
pub(super) const PPPOE_SESSION: u16 = 0x8864;
/// PPP's numbers of the same protocols (RFC 1332, RFC 5072).
pub(super) const PPP_IPV4: u16 = 0x0021;
pub(super) const PPP_IPV6: u16 = 0x0057;

const TCP: u32 = 6;
const UDP: u32 = 17;
/// Port of QUIC (RFC 9114 §3.1).
pub(super) const QUIC: u16 = 443;
/// Sampling interval of datagrams of other ports: one in this number passes, at random.
///
/// That is enough to find the addresses in use. A power of two.
const SAMPLING_INTERVAL: u32 = 64;
/// IPv6 extension headers (RFC 8200 §4, RFC 4302).
///
/// They are hop-by-hop options, routing, fragment, authentication, destination options.
const EXTENSION_HEADERS: [u32; 5] = [0, 43, 44, 51, 60];

const LOAD_HALF: u16 = (libc::BPF_LD | libc::BPF_H | libc::BPF_ABS) as u16;
const LOAD_BYTE: u16 = (libc::BPF_LD | libc::BPF_B | libc::BPF_ABS) as u16;
/// Load relative to the end of the IPv4 header; [`LOAD_LENGTH`] finds the header's length.
const LOAD_BEHIND: u16 = (libc::BPF_LD | libc::BPF_H | libc::BPF_IND) as u16;
const LOAD_LENGTH: u16 = (libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH) as u16;
const LOAD_WORD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
/// Offset that stands for a random number (SKF_AD_OFF + SKF_AD_RANDOM of linux/filter.h).
const RANDOM_OFFSET: u32 = 0xffff_f000 + 56;
const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const IF_ANY_BIT: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

const REJECT: libc::sock_filter = libc::sock_filter { code: RETURN, jt: 0, jf: 0, k: 0 };
const ACCEPT: libc::sock_filter = libc::sock_filter { code: RETURN, jt: 0, jf: 0, k: SNAP_BYTES };

fn load(code: u16, at: usize) -> libc::sock_filter {
    libc::sock_filter { code, jt: 0, jf: 0, k: at as u32 }
}

/// Continues with the next step if equal; otherwise skips `skip` steps.
fn unless(value: u32, skip: usize) -> libc::sock_filter {
    libc::sock_filter { code: IF_EQUAL, jt: 0, jf: skip as u8, k: value }
}

/// Skips `skip` steps if equal.
fn when(value: u32, skip: usize) -> libc::sock_filter {
    libc::sock_filter { code: IF_EQUAL, jt: skip as u8, jf: 0, k: value }
}

type Program = Vec<libc::sock_filter>;

/// Decides on an IPv4 packet at an offset: TCP or UDP, and a first or only fragment.
fn ipv4(at: usize, udp: bool) -> Program {
    let fragment = libc::sock_filter { code: IF_ANY_BIT, jt: 1, jf: 0, k: 0x1fff };
    let mut out = vec![load(LOAD_BYTE, at + 9)];
    out.extend(branch(TCP, &[load(LOAD_HALF, at + 6), fragment, ACCEPT, REJECT]));
    if udp {
        let ports = [load(LOAD_BEHIND, at), load(LOAD_BEHIND, at + 2)];
        let begin = [load(LOAD_HALF, at + 6), fragment_to(8), load(LOAD_LENGTH, at)];
        out.extend(branch(UDP, &[&begin[..], &datagram(ports)].concat()));
    }
    out.push(REJECT);
    out
}

fn ipv6(at: usize, udp: bool) -> Program {
    let mut out = vec![load(LOAD_BYTE, at + 6)];
    if udp {
        let ports = [load(LOAD_HALF, at + 40), load(LOAD_HALF, at + 42)];
        out.extend(branch(UDP, &datagram(ports)));
    }
    let kinds = [TCP].into_iter().chain(EXTENSION_HEADERS);
    let many = kinds.clone().count();
    out.extend(kinds.enumerate().map(|(i, kind)| when(kind, many - i)));
    out.extend([REJECT, ACCEPT]);
    out
}

/// Skips this number of steps if the packet is a later fragment.
fn fragment_to(skip: u8) -> libc::sock_filter {
    libc::sock_filter { code: IF_ANY_BIT, jt: skip, jf: 0, k: 0x1fff }
}

/// Decides on a datagram by its ports: passes QUIC, and a sample of the others.
///
/// `ports` are the instructions that load the ports.
///
/// Eight steps; the last one rejects the packet.
fn datagram(ports: [libc::sock_filter; 2]) -> Program {
    let [from, to] = ports;
    let others = libc::sock_filter { code: IF_ANY_BIT, jt: 1, jf: 0, k: SAMPLING_INTERVAL - 1 };
    let random = libc::sock_filter { code: LOAD_WORD, jt: 0, jf: 0, k: RANDOM_OFFSET };
    let quic = u32::from(QUIC);
    vec![from, when(quic, 4), to, when(quic, 2), random, others, ACCEPT, REJECT]
}

/// Decides by the type at offset `at` on the packet behind that type.
fn typed(at: usize, tags: usize, udp: bool) -> Program {
    let session = at + 2 + 6;
    let mut pppoe = vec![load(LOAD_HALF, session)];
    pppoe.extend(branch(u32::from(PPP_IPV4), &ipv4(session + 2, udp)));
    pppoe.extend(branch(u32::from(PPP_IPV6), &ipv6(session + 2, udp)));
    pppoe.push(REJECT);
    let mut out = vec![load(LOAD_HALF, at)];
    out.extend(branch(u32::from(IPV4), &ipv4(at + 2, udp)));
    out.extend(branch(u32::from(IPV6), &ipv6(at + 2, udp)));
    out.extend(branch(u32::from(PPPOE_SESSION), &pppoe));
    if tags > 0 {
        let inner = typed(at + 4, tags - 1, udp);
        // Both tags are handled alike.
        out.push(when(u32::from(VLAN_ETHERTYPES[0]), 1));
        out.extend(branch(u32::from(VLAN_ETHERTYPES[1]), &inner));
    }
    out.push(REJECT);
    out
}

/// Runs `part`, which decides, if the value matches; otherwise continues behind it.
fn branch(value: u32, part: &[libc::sock_filter]) -> Program {
    let mut out = vec![unless(value, part.len())];
    out.extend_from_slice(part);
    out
}

/// Returns the program for packets that begin so; with `udp`, some datagrams pass, too.
pub(super) fn program(begins: FirstHeader, udp: bool) -> Program {
    match begins {
        FirstHeader::Ethernet => typed(12, 2, udp),
        FirstHeader::Ip => {
            let version = load((libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K) as u16, 4);
            let mut out = vec![load(LOAD_BYTE, 0), version];
            out.extend(branch(4, &ipv4(0, udp)));
            out.extend(branch(6, &ipv6(0, udp)));
            out.push(REJECT);
            out
        }
    }
}

/// Attaches a program to a socket.
#[allow(unsafe_code)] // nix has no such option
pub(super) fn attach(socket: &OwnedFd, program: &[libc::sock_filter]) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let program = libc::sock_fprog {
        len: program.len() as u16,
        // The kernel only reads it.
        filter: program.as_ptr().cast_mut(),
    };
    // SAFETY: the kernel reads `len` steps from `filter`, which lives longer than the call.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Runs a program as the kernel does; returns the number of bytes that pass.
///
/// The random number is one that lets datagrams pass.
#[cfg(test)]
pub(super) fn run(program: &[libc::sock_filter], packet: &[u8]) -> u32 {
    let (mut at, mut a, mut x) = (0, 0u32, 0);
    loop {
        let step = program[at];
        at += 1;
        let k = step.k as usize;
        match step.code {
            LOAD_HALF | LOAD_BEHIND => {
                let k = if step.code == LOAD_BEHIND { k + x } else { k };
                match packet.get(k..k + 2) {
                    Some(two) => a = u32::from(u16::from_be_bytes([two[0], two[1]])),
                    None => return 0,
                }
            }
            LOAD_LENGTH => match packet.get(k) {
                Some(byte) => x = usize::from(byte & 15) * 4,
                None => return 0,
            },
            LOAD_WORD if step.k == RANDOM_OFFSET => a = 0,
            LOAD_BYTE => match packet.get(k) {
                Some(byte) => a = u32::from(*byte),
                None => return 0,
            },
            IF_EQUAL => at += usize::from(if a == step.k { step.jt } else { step.jf }),
            IF_ANY_BIT => at += usize::from(if a & step.k != 0 { step.jt } else { step.jf }),
            RETURN => return step.k,
            // Right shift, the only arithmetic here.
            _ => a >>= step.k,
        }
    }
}
