//! Offloads of an interface (`linux/ethtool.h`) that enlarge packets before shaping.
//!
//! Receive offloads merge packets of a flow into one of up to 64 KB. A class of 1 Mbit/s then sends
//! half a second's worth at once: limits still hold, but delay and fairness within a subscriber
//! suffer.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use serde::Serialize;

use crate::error::Error;

const ETHTOOL_GTSO: u32 = 0x1e;
const ETHTOOL_GGSO: u32 = 0x23;
const ETHTOOL_GFLAGS: u32 = 0x25;
const ETHTOOL_GGRO: u32 = 0x2b;
/// `ETH_FLAG_LRO`.
const FLAG_LRO: u32 = 1 << 15;

/// Offloads that are on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Offloads {
    /// Merging of received packets by the kernel (GRO).
    pub gro: bool,
    /// Merging of received packets by the hardware (LRO).
    pub lro: bool,
    /// Splitting of local TCP's large packets by the hardware (TSO).
    pub tso: bool,
    /// Late splitting of large packets by the kernel (GSO).
    pub gso: bool,
}

/// Reads an interface's offloads.
///
/// # Errors
/// Returns an error if there is no such interface, or its driver does not respond.
pub fn offloads(name: &str) -> Result<Offloads, Error> {
    let failed = || Error::io(format!("reading offloads of {name}"));
    let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)
        .map_err(|e| failed()(e.into()))?;
    let get = |command| match value(&socket, name, command) {
        Err(e) if e.raw_os_error() == Some(libc::ENODEV) => {
            Err(Error::NoInterface(name.to_owned()))
        }
        Err(e) if e.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(0),
        other => other.map_err(failed()),
    };
    Ok(Offloads {
        gro: get(ETHTOOL_GGRO)? != 0,
        lro: get(ETHTOOL_GFLAGS)? & FLAG_LRO != 0,
        tso: get(ETHTOOL_GTSO)? != 0,
        gso: get(ETHTOOL_GGSO)? != 0,
    })
}

/// `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

#[allow(unsafe_code)] // the kernel wants a pointer inside a struct
fn value(socket: &OwnedFd, name: &str, command: u32) -> io::Result<u32> {
    let mut value = Value { command, data: 0 };
    if name.len() >= libc::IFNAMSIZ {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    // SAFETY: all zeros is a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: SIOCETHTOOL reads the name, follows `ifru_data` to `value`, which is alive and of the
    // layout that the command expects, and writes its `data`.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(value.data) }
}
