//! Frames that a radio of mac80211_hwsim sends, and their rate series.

use fairmesh_linux::hwsim::{NO_ACK, SentFrame, SeriesEntry};

/// Kinds of rate: MAC80211_HWSIM_TX_RC_MCS, …_SHORT_GI, …_VHT_MCS.
const MCS: u16 = 1 << 3;
const SHORT_GUARD: u16 = 1 << 7;
const VHT_MCS: u16 = 1 << 8;

/// One position of a frame's series: a rate, and its permitted or used number of attempts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tries {
    /// `None`: unused position.
    pub rate: Option<Mcs>,
    /// Index of the rate in the message.
    pub index: i8,
    pub count: u8,
}

impl Tries {
    /// An unused position.
    pub const NONE: Tries = Tries { rate: None, index: -1, count: 0 };
}

impl From<SeriesEntry> for Tries {
    fn from(entry: SeriesEntry) -> Tries {
        let SeriesEntry { index, attempts, flags } = entry;
        Tries { rate: mcs(index, flags), index, count: attempts }
    }
}

/// A rate of 802.11n or ac at 20 MHz or more; others have none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Mcs {
    pub streams: u8,
    /// Number within the streams.
    pub mcs: u8,
    pub short_guard: bool,
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

/// A sent frame that outlives the driver's message.
#[derive(Clone, PartialEq, Debug)]
pub struct Sent {
    pub radio: u32,
    /// The 802.11 frame without FCS.
    pub bytes: Vec<u8>,
    pub flags: u32,
    pub series: [Tries; 4],
    pub cookie: u64,
    pub frequency: u32,
}

impl From<&SentFrame<'_>> for Sent {
    fn from(frame: &SentFrame<'_>) -> Sent {
        let SentFrame { radio, bytes, flags, frequency, series, cookie } = *frame;
        let series = series.map(Tries::from);
        Sent { radio, bytes: bytes.to_vec(), flags, series, cookie, frequency }
    }
}

impl Sent {
    /// True if a receiver acknowledges it.
    pub fn unicast(&self) -> bool {
        self.flags & NO_ACK == 0 && self.bytes.get(4).is_some_and(|first| first & 1 == 0)
    }

    /// True if it is QoS data with a payload (IEEE 802.11-2020 §9.2.4.1.3).
    pub fn qos_data(&self) -> bool {
        self.bytes.first().is_some_and(|control| control & 0xfc == 0x88)
    }
}
