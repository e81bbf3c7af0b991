//! The socket of the medium.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_packet_core::NetlinkBuffer;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_GENERIC};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{RcvBufForce, SndBufForce};

use super::{Event, FAMILY, GENL_HEADER, ReceivedFrame, SentStatus, attribute, command};
use super::{put_received, put_status, read_event};
use crate::error::Error;
use crate::netlink::{Batch, Netlink};
use crate::nl80211::{CONTROLLER, ask_named_family, read_family};
use crate::tc::attributes;

/// Size of the socket's buffers: bursts of all radios fit.
const BUFFER_BYTES: usize = 64 << 20;
/// Longest message: an A-MSDU and its attributes.
const MAX_MESSAGE_BYTES: usize = 1 << 16;

/// A radio of the driver.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Radio {
    /// Number of the radio.
    pub number: u32,
    /// Name of its wireless device, as `iw phy` prints it.
    pub phy: String,
}

/// The registered medium of all radios of this network namespace.
///
/// When it is dropped, the driver takes its own medium again, which loses nothing.
pub struct Hwsim {
    socket: Socket,
    family: u16,
    out: Batch,
    input: Vec<u8>,
    refused: u64,
    overruns: u64,
}

impl Hwsim {
    /// Returns the radios, by number.
    ///
    /// The driver lists those of this network namespace only; radios that were moved to others are found in
    /// debugfs. Numbers and names of devices both count up, so that one pair gives all others.
    ///
    /// # Errors
    /// Returns an error if the driver is not loaded.
    pub fn radios() -> Result<Vec<Radio>, Error> {
        let listed = Hwsim::listed()?;
        let anchor = listed.first().and_then(|r| Some((index_of(&r.phy)?, r.number)));
        Ok(complete(listed, anchor, &devices()))
    }

    fn listed() -> Result<Vec<Radio>, Error> {
        let mut netlink = Netlink::generic()?;
        let family = family(&mut netlink)?;
        let mut radios = Vec::new();
        let ask = |out: &mut Vec<u8>| out.extend([command::GET_RADIO, 1, 0, 0]);
        netlink.dump("radios of mac80211_hwsim", family, ask, |_, payload| {
            let (mut number, mut phy) = (None, None);
            for (kind, value) in attributes(payload.get(GENL_HEADER..).unwrap_or_default()) {
                match kind {
                    attribute::RADIO_ID => number = value.try_into().ok().map(u32::from_ne_bytes),
                    attribute::RADIO_NAME => {
                        let name = String::from_utf8_lossy(value);
                        phy = Some(name.trim_end_matches('\0').to_owned());
                    }
                    _ => {}
                }
            }
            radios.extend(number.zip(phy).map(|(number, phy)| Radio { number, phy }));
        })?;
        radios.sort();
        Ok(radios)
    }

    /// Registers as the medium of all radios.
    ///
    /// # Errors
    /// Returns an error if the driver is not loaded, rights are missing, or there is a medium already.
    pub fn register() -> Result<Self, Error> {
        let family = family(&mut Netlink::generic()?)?;
        let failed = || Error::io("opening a netlink socket");
        let mut socket = Socket::new(NETLINK_GENERIC).map_err(failed())?;
        socket.bind_auto().map_err(failed())?;
        let _ = socket.set_cap_ack(true);
        // Without the right the default size remains, and bursts are counted as overruns.
        let _ = setsockopt(&socket, RcvBufForce, &BUFFER_BYTES);
        let _ = setsockopt(&socket, SndBufForce, &BUFFER_BYTES);
        let mut medium = Hwsim {
            socket,
            family,
            out: Batch::new(),
            input: Vec::with_capacity(MAX_MESSAGE_BYTES),
            refused: 0,
            overruns: 0,
        };
        let ask = |out: &mut Vec<u8>| out.extend([command::REGISTER, 1, 0, 0]);
        medium.out.push(family, libc::NLM_F_ACK as u16, ask);
        medium.flush()?;
        medium.input.clear();
        medium.socket.recv(&mut medium.input, 0).map_err(Error::io("registering the medium"))?;
        let reply = NetlinkBuffer::new_checked(&medium.input)
            .map_err(|e| Error::Malformed { what: FAMILY, why: e.to_string() })?;
        match reply.payload().first_chunk().map_or(-libc::EPROTO, |c| i32::from_ne_bytes(*c)) {
            0 => Ok(medium),
            code if -code == libc::EPERM => {
                Err(Error::NotPermitted { what: "registering a medium".into() })
            }
            code if -code == libc::EBUSY => Err(Error::Missing {
                what: "radios without a medium".into(),
                hint: "another program is the medium of mac80211_hwsim: end it".into(),
            }),
            code => Err(Error::io("registering the medium")(io::Error::from_raw_os_error(-code))),
        }
    }

    /// Reads one message of the driver, without waiting; returns `false` if there is none.
    ///
    /// # Errors
    /// Returns an error if the socket fails.
    pub fn receive(&mut self, each: impl FnOnce(Event<'_>)) -> Result<bool, Error> {
        self.input.clear();
        match self.socket.recv(&mut self.input, libc::MSG_DONTWAIT) {
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return Ok(true),
            Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => {
                self.overruns += 1;
                return Ok(true);
            }
            Err(e) => return Err(Error::io("reading frames of mac80211_hwsim")(e)),
        }
        let Ok(message) = NetlinkBuffer::new_checked(&self.input) else { return Ok(true) };
        if message.message_type() == self.family {
            if let Some(event) = read_event(message.payload()) {
                each(event);
            }
        } else if message.message_type() == libc::NLMSG_ERROR as u16 {
            self.refused += 1;
        }
        Ok(true)
    }

    /// Adds a reception to the next [`Hwsim::flush`].
    pub fn received(&mut self, frame: &ReceivedFrame<'_>) {
        self.out.push(self.family, 0, |out| put_received(out, frame));
    }

    /// Adds a status to the next [`Hwsim::flush`].
    pub fn sent(&mut self, status: &SentStatus) {
        self.out.push(self.family, 0, |out| put_status(out, status));
    }

    /// Returns true if [`Hwsim::flush`] has something to send.
    pub fn has_output(&self) -> bool {
        !self.out.is_empty()
    }

    /// Sends what was added. The driver handles each message on its own.
    ///
    /// # Errors
    /// Returns an error if the socket fails.
    pub fn flush(&mut self) -> Result<(), Error> {
        let sent = self.socket.send_to(self.out.bytes(), &SocketAddr::new(0, 0), 0);
        self.out.clear();
        sent.map(|_| ()).map_err(Error::io("sending to mac80211_hwsim"))
    }

    /// Returns the number of messages that the driver refused.
    ///
    /// A few are usual: a frame for a radio that is down, or on another channel.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Returns how often the socket's buffer was full, so that the driver lost frames.
    pub fn overruns(&self) -> u64 {
        self.overruns
    }
}

impl AsFd for Hwsim {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Folder with a subfolder for each wireless device, of all namespaces.
const DEVICES_FOLDER: &str = "/sys/kernel/debug/ieee80211";

/// Returns the index of a device's name: 3 of `phy3`.
fn index_of(phy: &str) -> Option<u32> {
    phy.strip_prefix("phy")?.parse().ok()
}

/// Returns the indices of the driver's devices in all namespaces; none without debugfs.
fn devices() -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir(DEVICES_FOLDER) else { return Vec::new() };
    let ours = entries.flatten().filter(|e| e.path().join("hwsim").is_dir());
    ours.filter_map(|e| index_of(e.file_name().to_str()?)).collect()
}

/// Adds the devices that the driver does not list.
///
/// `anchor` is index and number of a listed device. Without it the first device is radio 0.
fn complete(listed: Vec<Radio>, anchor: Option<(u32, u32)>, devices: &[u32]) -> Vec<Radio> {
    let first = devices.iter().min().map(|first| (*first, 0));
    let mut radios = listed;
    if let Some((index, number)) = anchor.or(first) {
        for &device in devices {
            let Some(number) = (device + number).checked_sub(index) else { continue };
            if radios.iter().all(|r| r.number != number) {
                radios.push(Radio { number, phy: format!("phy{device}") });
            }
        }
    }
    radios.sort();
    radios
}

fn family(netlink: &mut Netlink) -> Result<u16, Error> {
    let ask = |out: &mut Vec<u8>| ask_named_family(out, FAMILY);
    let read = |_, payload: &[u8]| read_family(payload);
    match netlink.get(FAMILY, CONTROLLER, ask, read) {
        Ok(Some(family)) => Ok(family),
        Err(e) if e.errno() != Some(libc::ENOENT) => Err(e),
        Ok(None) | Err(_) => Err(Error::Missing {
            what: "kernel module mac80211_hwsim".into(),
            hint: "load it with one radio per node: modprobe mac80211_hwsim radios=N".into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn radios_of_other_namespaces_are_found() {
        let radio = |number, phy: &str| Radio { number, phy: phy.into() };
        let four = [radio(0, "phy5"), radio(1, "phy6"), radio(2, "phy7")];
        assert_eq!(complete(Vec::new(), None, &[6, 5, 7]), four);
        assert_eq!(complete(vec![radio(1, "phy6")], Some((6, 1)), &[7, 5, 6]), four);
        // Without debugfs only those that the driver lists.
        assert_eq!(complete(vec![radio(1, "phy6")], Some((6, 1)), &[]), [radio(1, "phy6")]);
    }
}
