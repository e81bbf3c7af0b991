//! Datagrams to all neighbours on one interface.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::OwnedFd;

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, bind, setsockopt, socket, sockopt,
};

use crate::error::Error;

/// Opens a socket that sends to and receives from the neighbours on an interface only.
///
/// The interface needs no address. Its datagrams have this `priority` (`SO_PRIORITY`), and a receiver does not forward
/// them. Reads do not wait.
///
/// # Errors
/// No such interface, missing capabilities, or a port that another program uses there.
pub fn open(interface: &str, port: u16, priority: u32) -> Result<UdpSocket, Error> {
    let failed = || Error::io(format!("opening UDP port {port} on {interface}"));
    let os = |e: nix::Error| match e {
        nix::Error::ENODEV => Error::NoInterface(interface.to_owned()),
        nix::Error::EPERM | nix::Error::EACCES => {
            Error::NotPermitted { what: format!("UDP port {port} on {interface}") }
        }
        e => failed()(io::Error::from(e)),
    };
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket: OwnedFd =
        socket(AddressFamily::Inet, SockType::Datagram, flags, None).map_err(os)?;
    setsockopt(&socket, sockopt::BindToDevice, &interface.into()).map_err(os)?;
    setsockopt(&socket, sockopt::Broadcast, &true).map_err(os)?;
    setsockopt(&socket, sockopt::Priority, &priority.cast_signed()).map_err(os)?;
    let any = SockaddrIn::from(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port));
    bind(std::os::fd::AsRawFd::as_raw_fd(&socket), &any).map_err(os)?;
    Ok(socket.into())
}

/// Sends a datagram to all neighbours.
///
/// # Errors
/// The system's error: the interface is down or gone, or its queue is full.
pub fn send(socket: &UdpSocket, port: u16, bytes: &[u8]) -> io::Result<()> {
    socket.send_to(bytes, SocketAddrV4::new(Ipv4Addr::BROADCAST, port)).map(drop)
}
