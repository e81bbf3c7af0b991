//! TAP devices: network interfaces with a file as their other end.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use crate::netns::Namespace;

/// Bytes of an Ethernet header.
pub const ETHERNET_BYTES: usize = 14;

/// A TAP device. It exists as long as this value.
///
/// The kernel keeps frames that the namespace sends in a ring of `txqueuelen` frames until they are
/// read; if the ring is full, the device drops and counts the frame. Without further options the
/// kernel delivers single frames with their checksums filled in.
#[derive(Debug)]
pub struct Tap {
    file: File,
}

impl Tap {
    /// Creates a device of this name in a namespace; it is down.
    ///
    /// # Errors
    /// Returns an error if a privilege is missing, or the kernel has no TUN/TAP.
    pub fn create(namespace: &Namespace, name: &str) -> io::Result<Self> {
        namespace.enter(|| {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
                .open("/dev/net/tun")?;
            attach(&file, name)?;
            Ok(Tap { file })
        })
    }

    /// Reads the next frame that the namespace sent into `buffer`. `None`: there is none.
    ///
    /// # Errors
    /// Returns an error if the device is gone.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match (&self.file).read(buffer) {
            Ok(n) => Ok(Some(n)),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    /// Sends a frame to the namespace.
    ///
    /// The kernel has processed it (received, forwarded, answered) on return.
    ///
    /// # Errors
    /// Returns an error if the interface is down, or the bytes are not a frame.
    pub fn write(&self, frame: &[u8]) -> io::Result<()> {
        (&self.file).write(frame).map(drop)
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Creates a TAP device and binds it to the file (`TUNSETIFF`).
#[allow(unsafe_code)]
fn attach(file: &File, name: &str) -> io::Result<()> {
    // SAFETY: all bytes zero are a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "the interface name is too long"));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the file is open, and the kernel reads and writes one `ifreq` for this request.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Returns the frames that a namespace's interface dropped on sending, as in `ip -s link`.
///
/// # Errors
/// Returns an error if there is no such interface.
pub fn send_drops(namespace: &Namespace, name: &str) -> io::Result<u64> {
    let table = namespace.enter(|| fs::read_to_string("/proc/thread-self/net/dev"))?;
    drops_in(&table, name).ok_or_else(|| io::Error::other(format!("no interface {name}")))
}

/// Returns the twelfth column of `/proc/net/dev`.
fn drops_in(table: &str, name: &str) -> Option<u64> {
    let row = table.lines().find_map(|l| l.trim().strip_prefix(name)?.strip_prefix(':'))?;
    row.split_whitespace().nth(11)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_in_the_twelfth_column() {
        let table = "Inter-|   Receive                            |  Transmit\n \
             face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop\n\
             mesh0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n mesh:7 7 7 7 7 7 7 7 7 7 7 99 7 7 7 7\n";
        assert_eq!(drops_in(table, "mesh0"), Some(12));
        assert_eq!(drops_in(table, "mesh"), Some(99));
        assert_eq!(drops_in(table, "lo"), None);
    }
}
