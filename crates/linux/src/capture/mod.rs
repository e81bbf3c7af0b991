//! Capture of the TCP headers that pass an interface in both directions.
//!
//! Packets that leave are captured after queueing and shaping, packets that arrive before any other
//! processing. The source is a packet socket (packet(7)) with a ring that the kernel fills with the first
//! bytes of each packet. A filter in the kernel passes only TCP, and on request QUIC and a sample of other
//! UDP. No payload is kept.

mod filter;
mod header;
mod ring;

pub use header::{Datagram, Flags, Header, Packet};

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use self::ring::Ring;
use crate::error::Error;
use crate::link::Link;
use crate::shaper::Direction;

/// Captured bytes of each packet.
///
/// An Ethernet header with two tags, PPPoE, IPv6 and the longest TCP header fit (130), or some extension headers and
/// TCP's usual options.
pub const SNAP_BYTES: u32 = 144;

/// Longest time that a packet can wait in the ring, on a busy machine.
const MAX_AGE: Duration = Duration::from_secs(2);

/// Linux's number for all protocols, in network byte order.
const ALL_PROTOCOLS: u16 = (libc::ETH_P_ALL as u16).to_be();

/// First header of the packets of an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FirstHeader {
    /// An Ethernet header.
    Ethernet,
    /// An IP header, as on PPP and TUN.
    Ip,
}

/// Counters of a packet socket since the last read.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SocketCounters {
    /// Packets that passed the filter, including the lost ones.
    pub packets: u32,
    /// Packets that found the ring full.
    pub lost: u32,
}

/// An open capture.
#[derive(Debug)]
pub struct Capture {
    ring: Ring,
    socket: OwnedFd,
    begins: FirstHeader,
    name: String,
}

impl Capture {
    /// Opens a capture on an interface.
    ///
    /// `bytes`: size of the kernel's ring, as whole blocks of 64 KB, at least two. `udp`: also captures QUIC and a
    /// sample of other datagrams.
    ///
    /// # Errors
    /// CAP_NET_RAW is missing, a service manager blocks these sockets, or the kernel has none.
    pub fn open(link: &Link, bytes: usize, udp: bool) -> Result<Self, Error> {
        let what = || format!("reading TCP headers on {}", link.name);
        let failed = || Error::io(what());
        let begins = if link.header == 0 { FirstHeader::Ip } else { FirstHeader::Ethernet };
        // No protocol yet: no packet is queued before filter and ring are in place.
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket =
            socket(AddressFamily::Packet, SockType::Raw, flags, None).map_err(|e| match e {
                nix::Error::EPERM | nix::Error::EACCES | nix::Error::EAFNOSUPPORT => {
                    Error::Missing {
                        what: format!(
                            "permission to read TCP headers on {} (CAP_NET_RAW, AF_PACKET)",
                            link.name
                        ),
                        hint: "install the example signs.conf for the unit, or set signs.read \
                           = false"
                            .into(),
                    }
                }
                e => failed()(io::Error::from(e)),
            })?;
        filter::attach(&socket, &filter::program(begins, udp)).map_err(failed())?;
        let ring = Ring::new(&socket, bytes, SNAP_BYTES).map_err(failed())?;
        bind(&socket, link.index).map_err(failed())?;
        Ok(Capture { ring, socket, begins, name: link.name.clone() })
    }

    /// Waits at most `longest` for a full block; returns true if there is one.
    ///
    /// # Errors
    /// Returns an error if the interface is gone or down.
    pub fn wait(&self, longest: Duration) -> Result<bool, Error> {
        if self.ring.is_ready() {
            return Ok(true);
        }
        let timeout = PollTimeout::try_from(longest).unwrap_or(PollTimeout::MAX);
        let mut fds = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, timeout) {
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(e) => return Err(self.failed(e.into())),
        }
        let events = fds[0].revents().unwrap_or(PollFlags::empty());
        if events.contains(PollFlags::POLLERR) {
            let e =
                nix::sys::socket::getsockopt(&self.socket, nix::sys::socket::sockopt::SocketError);
            let e = e.map_or_else(io::Error::from, io::Error::from_raw_os_error);
            return Err(self.failed(e));
        }
        Ok(self.ring.is_ready())
    }

    /// Passes the packets of one block to `take`, each with its age; returns their number.
    ///
    /// A block has some hundreds of packets at most. Returns `None` if no block is full. A packet with an incomplete
    /// header is skipped.
    pub fn read(&mut self, mut take: impl FnMut(&Packet, Duration)) -> Option<usize> {
        let begins = self.begins;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.ring.block(|packet| {
            let direction = if packet.outgoing { Direction::Down } else { Direction::Up };
            if let Some(read) = Packet::read(packet.bytes, begins, direction, packet.length) {
                // An age is not valid if the clock was set in between: a block is handed over after 50 ms.
                let age = now.checked_sub(packet.at).filter(|age| *age <= MAX_AGE);
                take(&read, age.unwrap_or_default());
            }
        })
    }

    /// Returns the counters since the last call.
    ///
    /// # Errors
    /// Returns the kernel's refusal.
    pub fn counted(&self) -> Result<SocketCounters, Error> {
        ring::counted(&self.socket).map_err(|e| self.failed(e))
    }

    fn failed(&self, e: io::Error) -> Error {
        match e.raw_os_error() {
            Some(libc::ENETDOWN | libc::ENODEV | libc::ENXIO) => Error::Gone {
                interface: self.name.clone(),
                what: "it is down or was created again".into(),
            },
            _ => Error::io(format!("reading TCP headers on {}", self.name))(e),
        }
    }
}

impl AsFd for Capture {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[allow(unsafe_code)] // nix cannot make a packet address
fn bind(socket: &OwnedFd, index: u32) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: ALL_PROTOCOLS,
        sll_ifindex: index as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    // SAFETY: the pointer is to a live address of the length that is passed with it.
    let done = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
