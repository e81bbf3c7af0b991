//! Frame sizes, and the rules that turn them into durations.

use fairmesh_units::Span;

/// Bytes of a unicast data frame's MAC header and FCS (three addresses, no QoS, no HT control).
pub const DATA_OVERHEAD: u32 = 28;
/// Bytes of the LLC/SNAP header in front of an IP datagram. ns-2 has none.
pub const LLC_SNAP: u32 = 8;
/// Bytes of an ACK frame.
pub const ACK: u32 = 14;
/// Bytes of a CTS frame.
pub const CTS: u32 = 14;
/// Bytes of an RTS frame.
pub const RTS: u32 = 20;

/// The rule that turns a PSDU size into a duration, one variant per family of waveforms.
///
/// HT, VHT and HE fit as further variants (another preamble, another symbol time, streams).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waveform {
    /// DSSS and HR/DSSS (IEEE 802.11-2020 clauses 15 and 16).
    Dsss {
        /// Bits sent in two microseconds: 2, 4, 11 or 22 (5.5 Mbit/s is not whole in one).
        bits_per_2us: u32,
        /// PLCP preamble and header in microseconds: 192 long, 96 short.
        plcp_us: u32,
    },
    /// OFDM in a 20 MHz channel (clause 17) and ERP-OFDM (clause 18).
    Ofdm {
        /// N_DBPS, the data bits of one 4 µs symbol.
        bits_per_symbol: u32,
        /// Silence after the frame that counts as part of it: 6 µs for ERP-OFDM, else 0.
        extension_us: u32,
    },
}

impl Waveform {
    /// The time a PSDU of `bytes` bytes occupies the air, preamble included.
    pub const fn duration(self, bytes: u32) -> Span {
        let us = match self {
            // IEEE 802.11-2020 §16.3.4, TXTIME
            Waveform::Dsss { bits_per_2us, plcp_us } => {
                plcp_us as u64 + (bytes as u64 * 16).div_ceil(bits_per_2us as u64)
            }
            // IEEE 802.11-2020 §17.4.3 and §18.5.3, TXTIME: 16 service bits, 6 tail bits
            Waveform::Ofdm { bits_per_symbol, extension_us } => {
                let symbols = (16 + 8 * bytes as u64 + 6).div_ceil(bits_per_symbol as u64);
                20 + 4 * symbols + extension_us as u64
            }
        };
        Span::from_micros(us)
    }

    /// aRxPHYStartDelay: from the first bit of a frame on the air to the indication that a
    /// reception has begun.
    pub const fn rx_start_delay(self) -> Span {
        Span::from_micros(match self {
            Waveform::Dsss { plcp_us, .. } => plcp_us as u64,
            Waveform::Ofdm { .. } => 20,
        })
    }
}
