//! Frames as a driver passes them, and the fields of the header that the medium reads.

use crate::rates::RateChoice;

/// MAC address.
pub type Address = [u8; 6];

/// Type bits of the frame control field (IEEE 802.11-2020 §9.2.4.1.3).
const TYPE: u8 = 0x0c;
const DATA: u8 = 0x08;
const KIND: u8 = 0xfc;
const QOS_BIT: u8 = 0x80;
const BEACON: u8 = 0x80;
const ACTION: u8 = 0xd0;
/// ToDS and FromDS in the second byte: both mean a header of four addresses.
const FOUR_ADDRESSES: u8 = 0x03;
/// Protected Frame bit in the second byte.
const PROTECTED: u8 = 0x40;
const HEADER: usize = 24;
/// Shortest frame with a transmitter address.
const MIN_FRAME: usize = 16;
/// Longest MPDU without FCS that the medium takes (IEEE 802.11-2020 Table 9-25, VHT).
const MAX_MPDU: usize = 11_450;
/// Bytes of the FCS, which drivers leave out.
const FCS: u32 = 4;

/// A frame of a station, with the sender's instructions.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    /// MPDU without FCS.
    pub bytes: Vec<u8>,
    /// Rates to try, in order; an entry without attempts ends the series.
    pub series: [RateChoice; 4],
    /// True if the sender expects no acknowledgement.
    pub no_ack: bool,
    /// Centre frequency, MHz; 0 if the sender does not give it.
    pub frequency: u32,
    /// The sender's handle, returned with the status.
    pub cookie: u64,
    /// The sender's flags, returned with the status.
    pub flags: u32,
}

impl Frame {
    /// Returns true if the frame has the addresses that the medium needs, and a possible length.
    pub fn is_whole(&self) -> bool {
        (MIN_FRAME..=MAX_MPDU).contains(&self.bytes.len())
    }

    /// Returns the length with FCS, in bytes.
    pub fn length(&self) -> u32 {
        self.bytes.len() as u32 + FCS
    }

    /// Returns the receiver address.
    pub fn receiver(&self) -> Address {
        self.address(4)
    }

    /// Returns the transmitter address.
    pub fn transmitter(&self) -> Address {
        self.address(10)
    }

    fn address(&self, at: usize) -> Address {
        self.bytes.get(at..at + 6).and_then(|b| b.try_into().ok()).unwrap_or_default()
    }

    /// Returns true if the frame is for a group.
    pub fn is_for_group(&self) -> bool {
        self.receiver()[0] & 1 == 1
    }

    /// Returns true for a data frame.
    pub fn is_data(&self) -> bool {
        self.control() & TYPE == DATA
    }

    /// Returns true for a beacon.
    pub fn is_beacon(&self) -> bool {
        self.control() & KIND == BEACON
    }

    /// Returns the TID of a QoS data frame, 0 to 7.
    pub fn tid(&self) -> Option<u8> {
        if !self.is_data() || self.control() & QOS_BIT == 0 {
            return None;
        }
        let four = self.bytes.get(1)? & FOUR_ADDRESSES == FOUR_ADDRESSES;
        let at = if four { HEADER + 6 } else { HEADER };
        Some(self.bytes.get(at)? & 0x07)
    }

    /// Returns the change of a block acknowledgement agreement in the frame.
    pub(crate) fn agreement(&self) -> Option<Agreement> {
        /// Block Ack action category and its actions (IEEE 802.11-2020 Tables 9-51 and 9-363).
        const BLOCK_ACK: u8 = 3;
        const ADDBA_RESPONSE: u8 = 1;
        const DELBA: u8 = 2;
        if self.control() & KIND != ACTION || self.bytes.get(1)? & PROTECTED != 0 {
            return None;
        }
        let body = self.bytes.get(HEADER..)?;
        let word = |at: usize| Some(u16::from_le_bytes([*body.get(at)?, *body.get(at + 1)?]));
        match (*body.first()?, *body.get(1)?) {
            (BLOCK_ACK, ADDBA_RESPONSE) => {
                let (status, parameters) = (word(3)?, word(5)?);
                let tid = (parameters >> 2 & 0x0f) as u8;
                (status == 0).then_some(Agreement::Accepted { tid })
            }
            (BLOCK_ACK, DELBA) => {
                let parameters = word(2)?;
                let by_originator = parameters & 0x0800 != 0;
                Some(Agreement::Ended { tid: (parameters >> 12) as u8, by_originator })
            }
            _ => None,
        }
    }

    fn control(&self) -> u8 {
        self.bytes.first().copied().unwrap_or_default()
    }
}

/// Change of a block acknowledgement agreement (IEEE 802.11-2020 §9.6.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Agreement {
    /// The sender accepts that the receiver of this frame sends it A-MPDUs.
    Accepted { tid: u8 },
    /// The agreement ends.
    ///
    /// `by_originator`: the sender of this frame is the one that sends A-MPDUs.
    Ended { tid: u8, by_originator: bool },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(bytes: Vec<u8>) -> Frame {
        Frame { bytes, ..Frame::default() }
    }

    #[test]
    fn the_tid_follows_three_or_four_addresses() {
        let mut three = vec![0u8; 26];
        (three[0], three[24]) = (0x88, 6);
        assert_eq!(frame(three.clone()).tid(), Some(6));
        let mut four = vec![0u8; 32];
        (four[0], four[1], four[30]) = (0x88, 3, 5);
        assert_eq!(frame(four).tid(), Some(5));
        three[0] = 0x08;
        assert_eq!(frame(three).tid(), None, "a data frame without QoS");
        assert_eq!(frame(vec![0x88, 0]).tid(), None, "truncated");
    }

    /// Parameters as in IEEE 802.11-2020 §9.4.1.13 and §9.4.1.15.
    #[test]
    fn agreements_are_read() {
        let action = |body: &[u8]| {
            let mut bytes = vec![0xd0, 0];
            bytes.resize(24, 0);
            bytes.extend(body);
            frame(bytes).agreement()
        };
        // TID 2, immediate, 64 MPDUs.
        let parameters = (64u16 << 6 | 2 << 2 | 1 << 1).to_le_bytes();
        let response = [3, 1, 9, 0, 0, parameters[0], parameters[1], 0, 0];
        assert_eq!(action(&response), Some(Agreement::Accepted { tid: 2 }));
        let mut refused = response;
        refused[3] = 37;
        assert_eq!(action(&refused), None);
        let delba = |initiator: u16| (2u16 << 12 | initiator << 11).to_le_bytes();
        for (initiator, by_originator) in [(1, true), (0, false)] {
            let p = delba(initiator);
            let ended = Agreement::Ended { tid: 2, by_originator };
            assert_eq!(action(&[3, 2, p[0], p[1], 1, 0]), Some(ended));
        }
        assert_eq!(action(&[3, 1, 9]), None, "truncated");
        assert_eq!(action(&[5, 1, 9, 0, 0, 0, 0]), None, "another category");
    }
}
