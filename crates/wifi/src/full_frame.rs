//! How much a full frame carries: with A-MPDUs, with A-MSDUs, with both.

use crate::airtime::QOS_OVERHEAD;
use crate::amsdu::{Bundles, SUBFRAME_HEADER, joined};
use crate::batch::grown;
use crate::mcs::Generation;
use crate::phy::{Phy, Rate};
use crate::waveform::DELIMITER;

/// What a full frame carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FullFrame {
    /// Packets.
    pub packets: u32,
    /// MPDUs that they are in.
    pub mpdus: u32,
    /// Length of the PSDU, bytes.
    pub psdu: u32,
}

impl FullFrame {
    /// What a full frame at a rate carries of packets that are `mpdu` bytes each as an MPDU of their own.
    pub fn of(phy: &Phy, rate: Rate, mpdu: u32) -> FullFrame {
        FullFrame::at_most(phy, rate, mpdu, u32::MAX)
    }

    /// What a frame carries where no more than so many packets are there, at least one.
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
        let bundles = Bundles::new(m, 0);
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
                    || body > bundles.longest
                    || body + QOS_OVERHEAD > bundles.mpdu
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

/// MPDUs, and the length of their PSDU, bytes.
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
