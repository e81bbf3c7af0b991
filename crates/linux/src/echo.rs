//! Echo requests to hosts behind an interface, and their replies, over raw ICMP sockets.
//!
//! Sources: RFC 792, RFC 4443 §4.

use std::io;
use std::net::{IpAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use etherparse::{IcmpEchoHeader, Icmpv4Header, Icmpv4Type};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, SockaddrIn6,
    SockaddrStorage, recvfrom, sendto, setsockopt, socket, sockopt,
};

use crate::error::Error;

/// Data of a request, bytes, as `ping` sends.
pub const DATA_BYTES: usize = 56;

const HEADER_BYTES: usize = 8;
const REPLY_V4: u8 = 0;
const REQUEST_V6: u8 = 128;
const REPLY_V6: u8 = 129;
/// Replies that are read in one call; others wait in the socket.
const MAX_REPLIES_PER_CALL: usize = 64;

/// A reply to an echo request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EchoReply {
    /// Address of the host that replied.
    pub from: IpAddr,
    /// Sequence number of the request.
    pub sequence: u16,
    /// First bytes of the data.
    pub nonce: u64,
}

impl EchoReply {
    /// Reads an ICMP message of a socket; `None` unless it is a reply to this identifier.
    pub fn read(from: IpAddr, message: &[u8], identifier: u16) -> Option<EchoReply> {
        let kind = if from.is_ipv4() { REPLY_V4 } else { REPLY_V6 };
        let (&[k, 0, _, _, i0, i1, s0, s1], data) = message.split_first_chunk()? else {
            return None;
        };
        let nonce = u64::from_be_bytes(*data.first_chunk()?);
        let ours = k == kind && u16::from_be_bytes([i0, i1]) == identifier;
        ours.then_some(EchoReply { from, sequence: u16::from_be_bytes([s0, s1]), nonce })
    }
}

/// Removes the header that a raw IPv4 socket puts before each message (raw(7)).
fn without_header(packet: &[u8]) -> Option<&[u8]> {
    let words = packet.first()? & 15;
    packet.get(usize::from(words) * 4..).filter(|_| words >= 5)
}

/// Returns the bytes of a request.
///
/// The kernel fills in the checksum of ICMPv6 (RFC 3542 §3.1).
fn request(v4: bool, identifier: u16, sequence: u16, nonce: u64) -> Vec<u8> {
    let mut data = [0; DATA_BYTES];
    data[..8].copy_from_slice(&nonce.to_be_bytes());
    let mut out = Vec::with_capacity(HEADER_BYTES + DATA_BYTES);
    if v4 {
        let echo = IcmpEchoHeader { id: identifier, seq: sequence };
        let header = Icmpv4Header::with_checksum(Icmpv4Type::EchoRequest(echo), &data);
        out.extend_from_slice(&header.to_bytes());
    } else {
        out.extend([REQUEST_V6, 0, 0, 0]);
        out.extend(identifier.to_be_bytes());
        out.extend(sequence.to_be_bytes());
    }
    out.extend(data);
    out
}

/// Sockets for echo requests over one interface.
#[derive(Debug)]
pub struct Echo {
    v4: OwnedFd,
    /// `None` if the kernel has no IPv6.
    v6: Option<OwnedFd>,
    identifier: u16,
}

impl Echo {
    /// Opens the sockets. `identifier` distinguishes the requests of one program from another's.
    ///
    /// # Errors
    /// CAP_NET_RAW is missing, or there is no such interface.
    pub fn open(interface: &str, identifier: u16) -> Result<Self, Error> {
        let v4 = open(AddressFamily::Inet, SockProtocol::Icmp, interface)?;
        let v6 = match open(AddressFamily::Inet6, SockProtocol::IcmpV6, interface) {
            Err(Error::Io { source, .. }) if source.raw_os_error() == Some(libc::EAFNOSUPPORT) => {
                None
            }
            v6 => Some(v6?),
        };
        let failed = || Error::io(format!("sending echo requests over {interface}"));
        // Only replies: bits of the types that are rejected (icmp(7), RFC 3542 §3.2).
        filter(&v4, libc::IPPROTO_RAW, 1, &(!(1u32 << REPLY_V4))).map_err(failed())?;
        if let Some(v6) = &v6 {
            let mut kept_back = [u32::MAX; 8];
            kept_back[usize::from(REPLY_V6) / 32] &= !(1 << (REPLY_V6 % 32));
            filter(v6, libc::IPPROTO_ICMPV6, 1, &kept_back).map_err(failed())?;
        }
        Ok(Echo { v4, v6, identifier })
    }

    /// Sends a request.
    ///
    /// # Errors
    /// Returns an error if there is no route over the interface, or a packet filter blocks it.
    pub fn send(&self, to: IpAddr, sequence: u16, nonce: u64) -> Result<(), Error> {
        let bytes = request(to.is_ipv4(), self.identifier, sequence, nonce);
        let flags = MsgFlags::MSG_DONTWAIT;
        let sent = match (to, &self.v6) {
            (IpAddr::V4(to), _) => {
                let to = SockaddrIn::from(SocketAddrV4::new(to, 0));
                sendto(self.v4.as_raw_fd(), &bytes, &to, flags)
            }
            (IpAddr::V6(to), Some(v6)) => {
                let to = SockaddrIn6::from(SocketAddrV6::new(to, 0, 0, 0));
                sendto(v6.as_raw_fd(), &bytes, &to, flags)
            }
            (IpAddr::V6(_), None) => Err(nix::Error::EAFNOSUPPORT),
        };
        let what = || format!("sending an echo request to {to}");
        sent.map(|_| ()).map_err(|e| Error::io(what())(e.into()))
    }

    /// Waits at most `longest` for a reply; returns true if there is one.
    ///
    /// # Errors
    /// Returns the system's refusal.
    pub fn wait(&self, longest: Duration) -> Result<bool, Error> {
        let timeout = PollTimeout::try_from(longest).unwrap_or(PollTimeout::MAX);
        let mut fds: Vec<PollFd<'_>> =
            self.sockets().map(|s| PollFd::new(s.as_fd(), PollFlags::POLLIN)).collect();
        match poll(&mut fds, timeout) {
            Ok(ready) => Ok(ready > 0),
            Err(nix::Error::EINTR) => Ok(false),
            Err(e) => Err(Error::io("waiting for echoes")(e.into())),
        }
    }

    /// Passes the replies that have arrived to `take`.
    ///
    /// # Errors
    /// Returns an error if the interface is gone.
    pub fn read(&self, mut take: impl FnMut(EchoReply)) -> Result<(), Error> {
        let mut buffer = [0; 256];
        for socket in self.sockets() {
            for _ in 0..MAX_REPLIES_PER_CALL {
                match recvfrom::<SockaddrStorage>(socket.as_raw_fd(), &mut buffer) {
                    Ok((length, from)) => {
                        let message = &buffer[..length];
                        let Some(from) = from.as_ref().and_then(address) else { continue };
                        let message =
                            if from.is_ipv4() { without_header(message) } else { Some(message) };
                        let answer =
                            message.and_then(|m| EchoReply::read(from, m, self.identifier));
                        answer.into_iter().for_each(&mut take);
                    }
                    Err(nix::Error::EAGAIN | nix::Error::EINTR) => break,
                    Err(e) => return Err(Error::io("reading echoes")(e.into())),
                }
            }
        }
        Ok(())
    }

    fn sockets(&self) -> impl Iterator<Item = &OwnedFd> {
        [&self.v4].into_iter().chain(&self.v6)
    }
}

fn address(from: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = || from.as_sockaddr_in().map(|a| a.ip().into());
    let v6 = || from.as_sockaddr_in6().map(|a| a.ip().into());
    v4().or_else(v6)
}

fn open(family: AddressFamily, protocol: SockProtocol, interface: &str) -> Result<OwnedFd, Error> {
    let failed = || Error::io(format!("sending echo requests over {interface}"));
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(family, SockType::Raw, flags, protocol).map_err(|e| match e {
        nix::Error::EPERM | nix::Error::EACCES => Error::Missing {
            what: format!("permission to send echo requests over {interface} (CAP_NET_RAW)"),
            hint: "install the example signs.conf for the unit, or set signs.probe = false".into(),
        },
        e => failed()(io::Error::from(e)),
    })?;
    setsockopt(&socket, sockopt::BindToDevice, &interface.into()).map_err(|e| match e {
        nix::Error::ENODEV => Error::NoInterface(interface.to_owned()),
        e => failed()(e.into()),
    })?;
    Ok(socket)
}

#[allow(unsafe_code)] // nix has no such option
fn filter<T>(socket: &OwnedFd, level: i32, option: i32, value: &T) -> io::Result<()> {
    // SAFETY: the pointer is to a live value of the length that is passed with it.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            core::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_request_follows_the_rfcs_and_only_its_reply_is_read() {
        let v4 = request(true, 0x1234, 7, 99);
        assert_eq!((v4.len(), v4[0], v4[1]), (HEADER_BYTES + DATA_BYTES, 8, 0));
        // The sum of a message with its checksum is all ones (RFC 1071).
        let sum: u32 = v4.chunks(2).map(|c| u32::from(u16::from_be_bytes([c[0], c[1]]))).sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
        for (from, kind) in [("10.1.1.1", 0), ("fd00::1", 129)] {
            let from: IpAddr = from.parse().unwrap();
            let mut message = request(from.is_ipv4(), 0x1234, 7, 99);
            assert_eq!(EchoReply::read(from, &message, 0x1234), None, "a request");
            message[0] = kind;
            let answer = EchoReply::read(from, &message, 0x1234);
            assert_eq!(answer, Some(EchoReply { from, sequence: 7, nonce: 99 }));
            assert_eq!(EchoReply::read(from, &message, 0x1235), None, "of another program");
            assert_eq!(EchoReply::read(from, &message[..12], 0x1234), None, "cut off");
        }
        assert_eq!(without_header(&[0x46; 30]).map(<[u8]>::len), Some(6), "an option");
        assert_eq!(without_header(&[0x41; 30]), None);
    }

    proptest! {
        /// No received message causes a read outside it.
        #[test]
        fn any_message_is_read(bytes: Vec<u8>, identifier: u16) {
            let from = IpAddr::from([10, 0, 0, 1]);
            let _ = without_header(&bytes).and_then(|m| EchoReply::read(from, m, identifier));
            let _ = EchoReply::read(Ipv6Addr::LOCALHOST.into(), &bytes, identifier);
        }
    }
}
