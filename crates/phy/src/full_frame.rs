//! Content of a full frame: with A-MPDUs, with A-MSDUs, with both.

use crate::frame::{
    DELIMITER, QOS_OVERHEAD, SUBFRAME_HEADER, extended_ampdu as grown, extended_amsdu as joined,
};
use crate::mcs::Generation;
use crate::phy::Phy;
use crate::rates::Rate;

/// Content of a full frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FullFrame {
    /// Number of packets.
    pub packets: u32,
    /// Number of MPDUs that contain them.
    pub mpdus: u32,
    /// Length of the PSDU, in bytes.
    pub psdu: u32,
}

impl FullFrame {
    /// Returns a full frame of packets that are `mpdu` bytes each as a separate MPDU.
    pub fn of(phy: &Phy, rate: Rate, mpdu: u32) -> FullFrame {
        FullFrame::at_most(phy, rate, mpdu, u32::MAX)
    }

    /// Returns a frame of at most `packets` such packets, at least one.
    pub fn at_most(phy: &Phy, rate: Rate, mpdu: u32, packets: u32) -> FullFrame {
        let (mpdus, psdu) = full_aggregate(phy, rate, mpdu, packets);
        let plain = FullFrame { packets: mpdus, mpdus, psdu };
        let Some(m) = phy.as_modern().filter(|m| m.amsdu > 0) else { return plain };
        let longest = phy.response(rate).longest_psdu;
        if longest == 0 || mpdu < QOS_OVERHEAD {
            return plain;
        }
        let most = if m.ampdu > 0 { m.ampdu.min(longest) } else { longest };
        let places = if m.ampdu > 0 { m.window } else { 1 };
        let longest_mpdu = m.longest_mpdu_with_amsdu();
        let msdu = mpdu - QOS_OVERHEAD;
        let (mut frame, mut bytes) = (FullFrame { packets: 0, mpdus: 0, psdu: 0 }, 0);
        while frame.mpdus < places
            && (frame.mpdus == 0 || frame.packets < packets && grown(bytes, mpdu) <= most)
        {
            let before = bytes;
            let mut body = SUBFRAME_HEADER + msdu;
            (frame.mpdus, frame.packets) = (frame.mpdus + 1, frame.packets + 1);
            bytes = grown(before, mpdu);
            loop {
                body = joined(body, msdu);
                let whole = grown(before, body + QOS_OVERHEAD);
                if frame.packets >= packets
                    || body > m.amsdu
                    || body + QOS_OVERHEAD > longest_mpdu
                    || whole > most
                {
                    break;
                }
                (frame.packets, bytes) = (frame.packets + 1, whole);
            }
        }
        // A lone MPDU has no delimiter in 802.11n.
        let none = frame.mpdus == 1 && m.generation == Generation::Ht;
        frame.psdu = if none { bytes - DELIMITER } else { bytes };
        frame
    }
}

/// Returns the number of MPDUs, and the length of their PSDU, bytes.
fn full_aggregate(phy: &Phy, rate: Rate, mpdu: u32, packets: u32) -> (u32, u32) {
    let Some(m) = phy.as_modern() else { return (1, mpdu) };
    let longest = phy.response(rate).longest_psdu;
    if longest == 0 {
        return (1, mpdu);
    }
    let most = m.ampdu.min(longest);
    let subframe = (mpdu + DELIMITER).next_multiple_of(4);
    let length = |n: u32| (n - 1) * subframe + DELIMITER + mpdu;
    let fitting = 1 + most.saturating_sub(length(1)) / subframe;
    match fitting.min(m.window).min(packets) {
        0 | 1 if m.generation == Generation::Ht => (1, mpdu),
        0 | 1 => (1, mpdu + DELIMITER),
        n => (n, length(n)),
    }
}
