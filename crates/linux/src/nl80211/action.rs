//! Messages to all peers of a mesh point, as vendor-specific public action frames.
//!
//! A mesh point floods broadcast data over the mesh. An action frame reaches neighbours only, and mac80211 passes on
//! those of established peers (IEEE 802.11-2020 §9.6.7.32, vendor-specific public action).

use std::os::fd::{AsFd, BorrowedFd};

use super::{ATTR_IFINDEX, CONTROLLER, FAMILY, ask_family, attributes, read_family, u32_of};
use crate::error::Error;
use crate::link;
use crate::mac::MacAddr;
use crate::netlink::Netlink;
use crate::tc::{put, put_u32};

const NL80211_CMD_REGISTER_FRAME: u8 = 58;
const NL80211_CMD_FRAME: u8 = 59;
const ATTR_FRAME: u16 = 51;
const ATTR_FRAME_MATCH: u16 = 91;
const ATTR_FRAME_TYPE: u16 = 101;
const ATTR_DONT_WAIT_FOR_ACK: u16 = 142;

/// Frame control of an action frame.
const FRAME_CONTROL: u16 = 0x00d0;
/// Bytes of a management frame's header (§9.3.3.1).
const HEADER_BYTES: usize = 24;
/// Start of a frame's body.
///
/// Public category, vendor-specific action, a locally administered identifier, and a type for these messages.
const ACTION_PREFIX: [u8; 8] = [4, 9, 0x0a, b'F', b'M', 0x14, 0x80, 1];

/// Sends to and receives from the peers of a mesh point.
#[derive(Debug)]
pub struct ActionFrames {
    requests: Netlink,
    /// Socket that the kernel sends received frames to.
    received: Netlink,
    family: u16,
    index: u32,
    address: MacAddr,
}

impl ActionFrames {
    /// Opens them on a mesh point in the calling thread's network namespace.
    ///
    /// # Errors
    /// Returns an error if there is no such interface, its driver sends no frames of programs, or another program
    /// receives these.
    pub fn open(interface: &str) -> Result<Self, Error> {
        let found = link::named(interface)?;
        let (mut requests, mut received) = (Netlink::generic()?, Netlink::generic()?);
        let read = |_, payload: &[u8]| read_family(payload);
        let no_family = || Error::Missing {
            what: format!("{FAMILY} (kernel module cfg80211)"),
            hint: format!("{interface} needs a Wi-Fi driver"),
        };
        let family = requests.get(FAMILY, CONTROLLER, ask_family, read)?.ok_or_else(no_family)?;
        let no_address = || Error::NoInterface(interface.to_owned());
        let address = found.mac.ok_or_else(no_address)?;
        let index = found.index;
        let what = || format!("action frames of {interface}");
        received.change(what, family, 0, |out| register(out, index))?;
        Ok(ActionFrames { requests, received, family, index, address })
    }

    /// Sends a message of at most 250 bytes to all peers.
    ///
    /// # Errors
    /// Returns an error if the interface is down or gone, or its queue is full.
    pub fn send(&mut self, message: &[u8]) -> Result<(), Error> {
        let (index, address) = (self.index, self.address);
        let body = |out: &mut Vec<u8>| put_frame(out, index, address, message);
        self.requests.get("an action frame", self.family, body, |_, _| Some(())).map(drop)
    }

    /// Passes the messages of one read to `each`; returns false if none waits.
    ///
    /// # Errors
    /// Returns an error if the socket fails.
    pub fn receive(&mut self, mut each: impl FnMut(&[u8])) -> Result<bool, Error> {
        let (family, index) = (self.family, self.index);
        self.received.pending(|kind, payload| {
            if kind == family
                && let Some(message) = read_frame(payload, index)
            {
                each(message);
            }
        })
    }
}

impl AsFd for ActionFrames {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.received.as_fd()
    }
}

/// Appends a request for received frames with our prefix.
fn register(out: &mut Vec<u8>, index: u32) {
    out.extend([NL80211_CMD_REGISTER_FRAME, 0, 0, 0]);
    put_u32(out, ATTR_IFINDEX, index);
    put(out, ATTR_FRAME_TYPE, &FRAME_CONTROL.to_ne_bytes());
    put(out, ATTR_FRAME_MATCH, &ACTION_PREFIX);
}

/// Appends a request to send a message to all peers.
fn put_frame(out: &mut Vec<u8>, index: u32, from: MacAddr, message: &[u8]) {
    let mut frame = Vec::with_capacity(HEADER_BYTES + ACTION_PREFIX.len() + message.len());
    frame.extend(FRAME_CONTROL.to_le_bytes());
    frame.extend([0; 2]);
    frame.extend([0xff; 6]);
    // Of a frame to all, the third address is the sender's in a mesh.
    frame.extend(from.0);
    frame.extend(from.0);
    frame.extend([0; 2]);
    frame.extend(ACTION_PREFIX);
    frame.extend(message);
    out.extend([NL80211_CMD_FRAME, 0, 0, 0]);
    put_u32(out, ATTR_IFINDEX, index);
    put(out, ATTR_FRAME, &frame);
    put(out, ATTR_DONT_WAIT_FOR_ACK, &[]);
}

/// Returns the message in a report of a received frame.
///
/// `None` if it is of another kind or interface.
fn read_frame(payload: &[u8], index: u32) -> Option<&[u8]> {
    if payload.first() != Some(&NL80211_CMD_FRAME) {
        return None;
    }
    let (mut on, mut frame) = (None, None);
    for (kind, value) in attributes(payload)? {
        match kind {
            ATTR_IFINDEX => on = u32_of(value),
            ATTR_FRAME => frame = Some(value),
            _ => {}
        }
    }
    let frame =
        frame.filter(|f| on == Some(index) && f.starts_with(&FRAME_CONTROL.to_le_bytes()))?;
    frame.get(HEADER_BYTES..)?.strip_prefix(&ACTION_PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sent_frame_is_read_as_its_message() {
        let from = MacAddr([2, 0, 0, 0, 0, 7]);
        let mut out = Vec::new();
        put_frame(&mut out, 5, from, b"message");
        assert_eq!(read_frame(&out, 5), Some(&b"message"[..]));
        assert_eq!(read_frame(&out, 6), None, "another interface");
        for cut in 0..out.len() {
            // Truncated reports are shorter messages at most.
            assert!(read_frame(&out[..cut], 5).is_none_or(|m| b"message".starts_with(m)));
        }
        // The vendor's identifier differs.
        let at = out.windows(ACTION_PREFIX.len()).position(|w| w == ACTION_PREFIX).unwrap();
        out[at + 2] ^= 1;
        assert_eq!(read_frame(&out, 5), None);
        assert_eq!(read_frame(b"", 5), None);
    }
}
