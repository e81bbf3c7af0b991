//! The radiotap header (radiotap.org, "Defined fields"): time, rate, channel.

use fairmesh_engine::observe::AirFrame;
use fairmesh_units::Span;

/// Length of the header of a lone frame, in bytes.
pub const HEADER_LENGTH: usize = 24;
/// Length of the A-MPDU status field, in bytes.
const AMPDU_LENGTH: usize = 8;
/// Present: A-MPDU status.
const AMPDU_PRESENT: u32 = 1 << 20;
/// A-MPDU status: the last MPDU is known, and this is the last.
const LAST_KNOWN: u16 = 0x0004;
const IS_LAST: u16 = 0x0008;

/// Present: TSFT (bit 0), Flags (1), Rate (2), Channel (3).
const PRESENT_FIELDS: u32 = 0b1111;
/// Flags: the frame ends with its FCS.
const FCS_AT_END: u8 = 0x10;
/// Flags: short preamble.
const SHORT_PREAMBLE: u8 = 0x02;
/// DSSS preambles and headers last 192 µs, or 96 µs when short (IEEE 802.11-2020 §16.2.2).
const LONGEST_SHORT_PREAMBLE: Span = Span::from_micros(100);
/// Channel flags: 2.4 GHz spectrum, and the kind of modulation.
const CCK_2GHZ: u16 = 0x0080 | 0x0020;
const OFDM_2GHZ: u16 = 0x0080 | 0x0040;
const OFDM_5GHZ: u16 = 0x0100 | 0x0040;
/// Channel 1, MHz, used if the scenario gives none.
const DEFAULT_FREQUENCY: u16 = 2412;

/// Returns the length of the header of `frame`, bytes.
pub fn length(frame: &AirFrame) -> usize {
    HEADER_LENGTH + if frame.aggregate.is_some() { AMPDU_LENGTH } else { 0 }
}

/// Appends the header of `frame`. Little-endian; each field aligned to its size.
pub fn write(out: &mut Vec<u8>, frame: &AirFrame) {
    let half_megabits = frame.rate.0 / 500_000;
    // 1, 2, 5.5 and 11 Mbit/s are DSSS or CCK, everything else of 802.11a/g is OFDM.
    let dsss = matches!(half_megabits, 2 | 4 | 11 | 22);
    let preamble =
        (frame.end - frame.start).saturating_sub(frame.rate.time_for(frame.mpdu_bytes.into()));
    let short = dsss && preamble <= LONGEST_SHORT_PREAMBLE;
    // TSFT is the arrival of the first bit of the MPDU, after the preamble.
    // In an A-MPDU it is the start of the frame.
    let mpdu_start = frame.start + if frame.aggregate.is_some() { Span::ZERO } else { preamble };
    out.extend_from_slice(&[0, 0]);
    let ampdu = if frame.aggregate.is_some() { AMPDU_PRESENT } else { 0 };
    out.extend_from_slice(&(length(frame) as u16).to_le_bytes());
    out.extend_from_slice(&(PRESENT_FIELDS | ampdu).to_le_bytes());
    out.extend_from_slice(&(mpdu_start.as_nanos() / 1000).to_le_bytes());
    out.push(FCS_AT_END | if short { SHORT_PREAMBLE } else { 0 });
    out.push(u8::try_from(half_megabits).unwrap_or(0));
    let frequency = frame.channel_mhz.unwrap_or(DEFAULT_FREQUENCY);
    let modulation = match (frequency, dsss) {
        (5000.., _) => OFDM_5GHZ,
        (_, true) => CCK_2GHZ,
        (_, false) => OFDM_2GHZ,
    };
    out.extend_from_slice(&frequency.to_le_bytes());
    out.extend_from_slice(&modulation.to_le_bytes());
    // Padding to a multiple of four, so that the frame after it is aligned.
    out.extend_from_slice(&[0, 0]);
    if let Some(a) = frame.aggregate {
        let last = if a.index + 1 == a.count { IS_LAST } else { 0 };
        out.extend_from_slice(&a.reference.to_le_bytes());
        out.extend_from_slice(&(LAST_KNOWN | last).to_le_bytes());
        // Delimiter CRC (not given), reserved.
        out.extend_from_slice(&[0, 0]);
    }
    debug_assert!(out.len().is_multiple_of(4));
}
