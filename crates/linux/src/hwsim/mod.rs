//! The medium's side of `mac80211_hwsim`: frames of radios, receptions and statuses.
//!
//! The source is `drivers/net/wireless/virtual/mac80211_hwsim.h`. A program that registers gets
//! every frame that a radio sends, and decides which radios receive it. This module handles bytes;
//! [`Hwsim`] has the socket. `scripts/kernel/hwsim/patch.py` adds airtime to both messages.

mod socket;

pub use socket::{Hwsim, Radio};

use crate::mac::MacAddr;
use crate::tc::{attributes, put, put_u32, put_u64};

/// Name of the generic netlink family.
pub const FAMILY: &str = "MAC80211_HWSIM";

const GENL_HEADER: usize = 4;

/// `enum hwsim_commands`.
mod command {
    pub const REGISTER: u8 = 1;
    pub const FRAME: u8 = 2;
    pub const TX_INFO_FRAME: u8 = 3;
    pub const GET_RADIO: u8 = 6;
    pub const ADD_MAC_ADDR: u8 = 7;
    pub const DEL_MAC_ADDR: u8 = 8;
}

/// `enum hwsim_attrs`.
mod attribute {
    pub const ADDR_RECEIVER: u16 = 1;
    pub const ADDR_TRANSMITTER: u16 = 2;
    pub const FRAME: u16 = 3;
    pub const FLAGS: u16 = 4;
    pub const RX_RATE: u16 = 5;
    pub const SIGNAL: u16 = 6;
    pub const TX_INFO: u16 = 7;
    pub const COOKIE: u16 = 8;
    pub const RADIO_ID: u16 = 10;
    pub const RADIO_NAME: u16 = 17;
    pub const FREQ: u16 = 19;
    pub const TX_INFO_FLAGS: u16 = 21;
}

/// `HWSIM_TX_CTL_NO_ACK` of the flags of a frame.
pub const NO_ACK: u32 = 1 << 1;
/// `HWSIM_TX_STAT_ACK` of the flags of a status.
const ACKED: u32 = 1 << 2;
/// `IEEE80211_TX_MAX_RATES`.
const MAX_RATES: usize = 4;

/// One entry of a rate series: index, attempts, flags (`enum mac80211_hwsim_tx_rate_flags`).
///
/// A negative index ends the series.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SeriesEntry {
    /// Index of a legacy rate, HT MCS or VHT index.
    pub index: i8,
    /// Attempts.
    pub attempts: u8,
    /// Flags.
    pub flags: u16,
}

/// A frame that a radio sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SentFrame<'a> {
    /// Number of the radio, from 0.
    pub radio: u32,
    /// MPDU without FCS.
    pub bytes: &'a [u8],
    /// Flags; see [`NO_ACK`].
    pub flags: u32,
    /// Centre frequency, MHz; 0 if unknown.
    pub frequency: u32,
    /// Rates to try.
    pub series: [SeriesEntry; MAX_RATES],
    /// Handle of the frame, for its status.
    pub cookie: u64,
}

/// A message of the driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event<'a> {
    /// A radio sends.
    Frame(SentFrame<'a>),
    /// A radio has this address from now on.
    Address(u32, MacAddr),
}

/// A reception that the medium reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceivedFrame<'a> {
    /// Number of the receiving radio.
    pub radio: u32,
    /// MPDU without FCS.
    pub bytes: &'a [u8],
    /// Legacy rate index.
    pub rate_index: u32,
    /// Signal, dBm.
    pub signal: i32,
    /// Centre frequency of the sender, MHz; 0: the receiver's.
    pub frequency: u32,
    /// Medium time of the frame, µs.
    pub airtime_us: u32,
}

/// Transmit status of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SentStatus {
    /// Number of the radio that sent it.
    pub radio: u32,
    /// The frame's handle.
    pub cookie: u64,
    /// The frame's flags.
    pub flags: u32,
    /// True if it was acknowledged.
    pub acked: bool,
    /// Rate index and attempts by entry of the series; 0 attempts: not used.
    pub tried: [(i8, u8); MAX_RATES],
    /// Signal of the response, dBm.
    pub signal: i32,
    /// Medium time of the exchange, µs.
    pub airtime_us: u32,
}

/// Returns the address by which the driver names a radio: `42:00:00:HH:LL:00`.
pub fn radio_address(radio: u32) -> MacAddr {
    MacAddr([0x42, 0, 0, (radio >> 8) as u8, radio as u8, 0])
}

fn radio_of(address: &[u8]) -> Option<u32> {
    match address {
        [0x42, 0, 0, high, low, 0] => Some(u32::from(*high) << 8 | u32::from(*low)),
        _ => None,
    }
}

/// Reads a message of the driver. `None` if it is of another kind or malformed.
pub fn read_event(payload: &[u8]) -> Option<Event<'_>> {
    use attribute as a;
    let command = *payload.first()?;
    let ended = SeriesEntry { index: -1, attempts: 0, flags: 0 };
    let (mut radio, mut mac, mut bytes, mut cookie) = (None, None, None, None);
    let (mut flags, mut frequency, mut series) = (0, 0, [ended; MAX_RATES]);
    for (kind, value) in attributes(payload.get(GENL_HEADER..)?) {
        match kind {
            a::ADDR_TRANSMITTER => radio = radio_of(value),
            a::ADDR_RECEIVER => mac = value.try_into().ok().map(MacAddr),
            a::FRAME => bytes = Some(value),
            a::FLAGS => flags = u32::from_ne_bytes(value.try_into().ok()?),
            a::FREQ => frequency = u32::from_ne_bytes(value.try_into().ok()?),
            a::COOKIE => cookie = value.try_into().ok().map(u64::from_ne_bytes),
            a::TX_INFO => {
                for (entry, pair) in series.iter_mut().zip(value.chunks_exact(2)) {
                    (entry.index, entry.attempts) = (pair[0] as i8, pair[1]);
                }
            }
            a::TX_INFO_FLAGS => {
                for (entry, t) in series.iter_mut().zip(value.chunks_exact(3)) {
                    entry.flags = u16::from_ne_bytes([t[1], t[2]]);
                }
            }
            _ => {}
        }
    }
    match command {
        command::FRAME => Some(Event::Frame(SentFrame {
            radio: radio?,
            bytes: bytes?,
            flags,
            frequency,
            series,
            cookie: cookie?,
        })),
        command::ADD_MAC_ADDR => Some(Event::Address(radio?, mac?)),
        // A frame to an address that is gone reaches no station that takes it.
        command::DEL_MAC_ADDR => None,
        _ => None,
    }
}

/// Appends the body of a reception.
pub fn put_received(out: &mut Vec<u8>, f: &ReceivedFrame<'_>) {
    use attribute as a;
    out.extend([command::FRAME, 1, 0, 0]);
    put(out, a::ADDR_RECEIVER, &radio_address(f.radio).0);
    put(out, a::FRAME, f.bytes);
    put_u32(out, a::RX_RATE, f.rate_index);
    put(out, a::SIGNAL, &f.signal.to_ne_bytes());
    if f.frequency > 0 {
        put_u32(out, a::FREQ, f.frequency);
    }
    if f.airtime_us > 0 {
        put_u32(out, a::FLAGS, f.airtime_us);
    }
}

/// Appends the body of a status.
pub fn put_status(out: &mut Vec<u8>, s: &SentStatus) {
    use attribute as a;
    out.extend([command::TX_INFO_FRAME, 1, 0, 0]);
    put(out, a::ADDR_TRANSMITTER, &radio_address(s.radio).0);
    let acked = if s.acked && s.flags & NO_ACK == 0 { ACKED } else { 0 };
    put_u32(out, a::FLAGS, s.flags | acked);
    put(out, a::SIGNAL, &s.signal.to_ne_bytes());
    let mut tried = [0; 2 * MAX_RATES];
    for (pair, &(index, attempts)) in tried.chunks_exact_mut(2).zip(&s.tried) {
        pair[0] = if attempts == 0 { 0xff } else { index as u8 };
        pair[1] = attempts;
    }
    put(out, a::TX_INFO, &tried);
    put_u64(out, a::COOKIE, s.cookie);
    put_u32(out, a::RX_RATE, s.airtime_us);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn radios_have_addresses_of_their_own() {
        assert_eq!(radio_address(3).to_string(), "42:00:00:00:03:00");
        for radio in [0, 1, 255, 256, 4000] {
            assert_eq!(radio_of(&radio_address(radio).0), Some(radio));
        }
        assert_eq!(radio_of(&[2, 0, 0, 0, 1, 0]), None);
        assert_eq!(radio_of(&[0x42, 0]), None);
    }

    /// A message that the driver of Linux 6.12 sent: a probe request of radio 1 at 5180 MHz.
    #[test]
    fn a_captured_frame_is_read() {
        let captured = include_bytes!("captured/frame.bin");
        let Some(Event::Frame(f)) = read_event(captured) else { panic!("no frame") };
        assert_eq!((f.radio, f.frequency), (1, 5180));
        assert_eq!(f.bytes[10..16], [2, 0, 0, 0, 1, 0], "transmitter address");
        assert!(f.series[0].index >= 0 && f.series[0].attempts > 0, "{:?}", f.series);
        for end in 0..captured.len() {
            let _ = read_event(&captured[..end]);
        }
    }
}
