//! Messages of mac80211_hwsim (mac80211_hwsim.h) as bytes, without a socket.
//!
//! They are frames to, and responses of, a medium in user space.
//!
//! A payload is a 4-byte head (command, version, 2 reserved) and attributes.

use fairmesh_linux::tc::{attributes, put};

/// Name of the generic netlink family.
pub const FAMILY: &str = "MAC80211_HWSIM";

const REGISTER: u8 = 1;
const FRAME: u8 = 2;
const TX_INFO_FRAME: u8 = 3;
const VERSION: u8 = 1;

mod attr {
    pub const ADDR_RECEIVER: u16 = 1;
    pub const ADDR_TRANSMITTER: u16 = 2;
    pub const FRAME: u16 = 3;
    pub const FLAGS: u16 = 4;
    pub const RX_RATE: u16 = 5;
    pub const SIGNAL: u16 = 6;
    pub const TX_INFO: u16 = 7;
    pub const COOKIE: u16 = 8;
    pub const FREQ: u16 = 19;
    pub const TX_INFO_FLAGS: u16 = 21;
}

/// HWSIM_TX_CTL_NO_ACK and HWSIM_TX_STAT_ACK.
const NO_ACK: u32 = 1 << 1;
const ACKED: u32 = 1 << 2;
/// Kinds of rate: MAC80211_HWSIM_TX_RC_MCS, …_SHORT_GI, …_VHT_MCS.
const MCS: u16 = 1 << 3;
const SHORT_GUARD: u16 = 1 << 7;
const VHT_MCS: u16 = 1 << 8;

/// Address of a radio on the medium.
pub type Address = [u8; 6];

/// One position of a frame's series: a rate, and its permitted or used number of attempts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tries {
    /// `None`: unused position.
    pub rate: Option<Mcs>,
    /// Index of the rate in the message.
    pub index: i8,
    pub count: u8,
}

/// A rate of 802.11n or ac at 20 MHz or more; others have none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Mcs {
    pub streams: u8,
    /// Number within the streams.
    pub mcs: u8,
    pub short_guard: bool,
}

/// A frame that a radio sends.
#[derive(Clone, PartialEq, Debug)]
pub struct Sent {
    pub from: Address,
    /// The 802.11 frame without FCS.
    pub frame: Vec<u8>,
    pub flags: u32,
    pub series: [Tries; 4],
    pub cookie: u64,
    pub mhz: Option<u32>,
}

impl Sent {
    /// True if a receiver acknowledges it.
    pub fn unicast(&self) -> bool {
        self.flags & NO_ACK == 0 && self.frame.get(4).is_some_and(|first| first & 1 == 0)
    }

    /// True if it is QoS data with a payload (IEEE 802.11-2020 §9.2.4.1.3).
    pub fn qos_data(&self) -> bool {
        self.frame.first().is_some_and(|control| control & 0xfc == 0x88)
    }
}

/// Appends the request for the family's number, for the generic netlink controller.
pub fn ask_family(out: &mut Vec<u8>) {
    const GETFAMILY: u8 = 3;
    const FAMILY_NAME: u16 = 2;
    out.extend([GETFAMILY, 1, 0, 0]);
    put(out, FAMILY_NAME, format!("{FAMILY}\0").as_bytes());
}

/// Appends the request to become the medium.
pub fn register(out: &mut Vec<u8>) {
    out.extend([REGISTER, VERSION, 0, 0]);
}

/// Reads a sent frame; `None` for other messages.
pub fn read_sent(payload: &[u8]) -> Option<Sent> {
    let (head, rest) = payload.split_at_checked(4)?;
    if head[0] != FRAME {
        return None;
    }
    let (mut from, mut frame, mut flags, mut cookie, mut mhz) = (None, None, 0, None, None);
    let (mut counts, mut kinds) = (None, None);
    for (kind, value) in attributes(rest) {
        match kind {
            attr::ADDR_TRANSMITTER => from = value.try_into().ok(),
            attr::FRAME => frame = Some(value.to_vec()),
            attr::FLAGS => flags = u32::from_ne_bytes(value.try_into().ok()?),
            attr::COOKIE => cookie = Some(u64::from_ne_bytes(value.try_into().ok()?)),
            attr::FREQ => mhz = Some(u32::from_ne_bytes(value.try_into().ok()?)),
            attr::TX_INFO => counts = <[u8; 8]>::try_from(value).ok(),
            attr::TX_INFO_FLAGS => kinds = <[u8; 12]>::try_from(value).ok(),
            _ => {}
        }
    }
    let (counts, kinds) = (counts?, kinds?);
    let series = std::array::from_fn(|place| {
        let index = counts[2 * place] as i8;
        let kind = u16::from_ne_bytes([kinds[3 * place + 1], kinds[3 * place + 2]]);
        Tries { rate: mcs(index, kind), index, count: counts[2 * place + 1] }
    });
    Some(Sent { from: from?, frame: frame?, flags, series, cookie: cookie?, mhz })
}

fn mcs(index: i8, kind: u16) -> Option<Mcs> {
    let index = u8::try_from(index).ok()?;
    let short_guard = kind & SHORT_GUARD != 0;
    match kind {
        k if k & MCS != 0 => Some(Mcs { streams: index / 8 + 1, mcs: index % 8, short_guard }),
        k if k & VHT_MCS != 0 => {
            Some(Mcs { streams: (index >> 4) + 1, mcs: index & 15, short_guard })
        }
        _ => None,
    }
}

/// Appends the result of a frame: the used attempts, and the acknowledgement.
pub fn status(out: &mut Vec<u8>, sent: &Sent, tried: &[Tries; 4], acked: bool, dbm: i32) {
    out.extend([TX_INFO_FRAME, VERSION, 0, 0]);
    put(out, attr::ADDR_TRANSMITTER, &sent.from);
    let flags = sent.flags | if acked { ACKED } else { 0 };
    put(out, attr::FLAGS, &flags.to_ne_bytes());
    put(out, attr::SIGNAL, &dbm.to_ne_bytes());
    let info: Vec<u8> = tried.iter().flat_map(|t| [t.index as u8, t.count]).collect();
    put(out, attr::TX_INFO, &info);
    put(out, attr::COOKIE, &sent.cookie.to_ne_bytes());
}

/// Appends a frame for a radio that receives it.
pub fn deliver(out: &mut Vec<u8>, to: Address, sent: &Sent, dbm: i32) {
    out.extend([FRAME, VERSION, 0, 0]);
    put(out, attr::ADDR_RECEIVER, &to);
    put(out, attr::FRAME, &sent.frame);
    put(out, attr::RX_RATE, &0u32.to_ne_bytes());
    put(out, attr::SIGNAL, &dbm.to_ne_bytes());
    if let Some(mhz) = sent.mhz {
        put(out, attr::FREQ, &mhz.to_ne_bytes());
    }
}
