//! Test frames with a given priority or mark, for checking the class in which they arrive.

use std::io;
use std::net::{Ipv6Addr, SocketAddrV6, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, setsockopt, socket,
    sockopt::{Mark, Priority},
};

use crate::error::Error;
use crate::link::Link;
use crate::tc::Handle;

/// Ethertype for local experiments (IEEE 802-2014 §9.2.4), which no station processes.
const LOCAL_EXPERIMENTAL: u16 = 0x88b5;

/// Field of a packet that carries the class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Carrier {
    Priority,
    Mark,
}

/// Sends `count` frames of 60 bytes through the interface's queueing discipline.
///
/// They are addressed to the interface itself, so that no station accepts them. Without the
/// privilege for frames (CAP_NET_RAW), datagrams to a group without members are sent.
pub(crate) fn send(link: &Link, class: Handle, carrier: Carrier, count: u32) -> Result<(), Error> {
    match frames(link, class, carrier, count) {
        Err(Error::Io { source, .. }) if forbidden(&source) => {
            datagrams(link, class, carrier, count)
        }
        other => other,
    }
}

/// True if capabilities or the service manager's address families forbid the call.
fn forbidden(e: &io::Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::EPERM | libc::EACCES | libc::EAFNOSUPPORT))
}

/// Sends UDP to an unused link-local group and the discard port.
///
/// The group is transient (RFC 4291 §2.7); the port is that of RFC 863.
///
/// The datagrams are not forwarded beyond the link.
fn datagrams(link: &Link, class: Handle, carrier: Carrier, count: u32) -> Result<(), Error> {
    let failed = || Error::io(format!("sending a datagram on {}", link.name));
    let os = |e: nix::Error| failed()(io::Error::from(e));
    let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).map_err(failed())?;
    match carrier {
        Carrier::Priority => setsockopt(&socket, Priority, &(class.0 as i32)).map_err(os)?,
        Carrier::Mark => setsockopt(&socket, Mark, &class.0).map_err(os)?,
    }
    let group = Ipv6Addr::new(0xff12, 0, 0, 0, 0, 0, 0, 0xfa1);
    let to = SocketAddrV6::new(group, 9, 0, link.index);
    for _ in 0..count {
        socket.send_to(&[0], to).map_err(failed())?;
    }
    Ok(())
}

fn frames(link: &Link, class: Handle, carrier: Carrier, count: u32) -> Result<(), Error> {
    let failed = || Error::io(format!("sending a frame on {}", link.name));
    let mac = link.mac.ok_or_else(|| failed()(io::Error::from(io::ErrorKind::Unsupported)))?;
    let os = |e: nix::Error| failed()(io::Error::from(e));
    let socket =
        socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None).map_err(os)?;
    match carrier {
        Carrier::Priority => setsockopt(&socket, Priority, &(class.0 as i32)).map_err(os)?,
        Carrier::Mark => setsockopt(&socket, Mark, &class.0).map_err(os)?,
    }
    let mut frame = [0; 60];
    frame[..6].copy_from_slice(&mac.0);
    frame[6..12].copy_from_slice(&mac.0);
    frame[12..14].copy_from_slice(&LOCAL_EXPERIMENTAL.to_be_bytes());
    for _ in 0..count {
        send_on(&socket, link.index, &frame).map_err(failed())?;
    }
    Ok(())
}

#[allow(unsafe_code)] // nix cannot make a packet address
fn send_on(socket: &OwnedFd, index: u32, frame: &[u8]) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: LOCAL_EXPERIMENTAL.to_be(),
        sll_ifindex: index as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 6,
        sll_addr: [0; 8],
    };
    // SAFETY: the pointers are to live values of the lengths that are passed with them.
    let sent = unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            frame.as_ptr().cast(),
            frame.len(),
            0,
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
