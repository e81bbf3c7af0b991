//! The filter that lets only TCP through, as a classic BPF program (Documentation/networking/filter.rst). It lets
//! through what the parser could read, and little else: of IPv6 with extension headers all.

use std::io;
use std::os::fd::OwnedFd;

use super::{Begins, SNAP};

/// Ethertypes (IEEE 802, RFC 2516).
pub(super) const IPV4: u16 = 0x0800;
pub(super) const IPV6: u16 = 0x86dd;
pub(super) const TAGS: [u16; 2] = [0x8100, 0x88a8];
pub(super) const PPPOE_SESSION: u16 = 0x8864;
/// PPP's numbers of the same (RFC 1332, RFC 5072).
pub(super) const PPP_IPV4: u16 = 0x0021;
pub(super) const PPP_IPV6: u16 = 0x0057;

const TCP: u32 = 6;
/// Hop-by-hop options, routing, fragment, authentication, destination options (RFC 8200 §4, RFC 4302).
const EXTENSIONS: [u32; 5] = [0, 43, 44, 51, 60];

const LOAD_HALF: u16 = (libc::BPF_LD | libc::BPF_H | libc::BPF_ABS) as u16;
const LOAD_BYTE: u16 = (libc::BPF_LD | libc::BPF_B | libc::BPF_ABS) as u16;
const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const IF_ANY_BIT: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

const NO: libc::sock_filter = libc::sock_filter { code: RETURN, jt: 0, jf: 0, k: 0 };
const YES: libc::sock_filter = libc::sock_filter { code: RETURN, jt: 0, jf: 0, k: SNAP };

fn load(code: u16, at: usize) -> libc::sock_filter {
    libc::sock_filter { code, jt: 0, jf: 0, k: at as u32 }
}

/// If equal, what follows; else, so many steps further.
fn unless(value: u32, skip: usize) -> libc::sock_filter {
    libc::sock_filter { code: IF_EQUAL, jt: 0, jf: skip as u8, k: value }
}

/// If equal, so many steps further.
fn when(value: u32, skip: usize) -> libc::sock_filter {
    libc::sock_filter { code: IF_EQUAL, jt: skip as u8, jf: 0, k: value }
}

type Program = Vec<libc::sock_filter>;

/// Decides on an IPv4 packet at an offset: TCP, and a first or only fragment.
fn ipv4(at: usize) -> Program {
    let fragment = libc::sock_filter { code: IF_ANY_BIT, jt: 1, jf: 0, k: 0x1fff };
    vec![load(LOAD_BYTE, at + 9), unless(TCP, 3), load(LOAD_HALF, at + 6), fragment, YES, NO]
}

fn ipv6(at: usize) -> Program {
    let mut out = vec![load(LOAD_BYTE, at + 6)];
    let kinds = [TCP].into_iter().chain(EXTENSIONS);
    let many = kinds.clone().count();
    out.extend(kinds.enumerate().map(|(i, kind)| when(kind, many - i)));
    out.extend([NO, YES]);
    out
}

/// Decides by the type whose place is given, of what lies behind it.
fn typed(at: usize, tags: usize) -> Program {
    let session = at + 2 + 6;
    let mut pppoe = vec![load(LOAD_HALF, session)];
    pppoe.extend(branch(u32::from(PPP_IPV4), &ipv4(session + 2)));
    pppoe.extend(branch(u32::from(PPP_IPV6), &ipv6(session + 2)));
    pppoe.push(NO);
    let mut out = vec![load(LOAD_HALF, at)];
    out.extend(branch(u32::from(IPV4), &ipv4(at + 2)));
    out.extend(branch(u32::from(IPV6), &ipv6(at + 2)));
    out.extend(branch(u32::from(PPPOE_SESSION), &pppoe));
    if tags > 0 {
        let inner = typed(at + 4, tags - 1);
        // Either tag leads to the same.
        out.push(when(u32::from(TAGS[0]), 1));
        out.extend(branch(u32::from(TAGS[1]), &inner));
    }
    out.push(NO);
    out
}

/// If the value is this, a part that decides; else on to what follows.
fn branch(value: u32, part: &[libc::sock_filter]) -> Program {
    let mut out = vec![unless(value, part.len())];
    out.extend_from_slice(part);
    out
}

/// The program for what packets begin with.
pub(super) fn program(begins: Begins) -> Program {
    match begins {
        Begins::Ethernet => typed(12, 2),
        Begins::Ip => {
            let version = load((libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K) as u16, 4);
            let mut out = vec![load(LOAD_BYTE, 0), version];
            out.extend(branch(4, &ipv4(0)));
            out.extend(branch(6, &ipv6(0)));
            out.push(NO);
            out
        }
    }
}

/// Attaches it to a socket.
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

/// Runs a program as the kernel does; how many bytes it lets through.
#[cfg(test)]
pub(super) fn run(program: &[libc::sock_filter], packet: &[u8]) -> u32 {
    let (mut at, mut a) = (0, 0u32);
    loop {
        let step = program[at];
        at += 1;
        let k = step.k as usize;
        match step.code {
            LOAD_HALF => match packet.get(k..k + 2) {
                Some(two) => a = u32::from(u16::from_be_bytes([two[0], two[1]])),
                None => return 0,
            },
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
