//! Rules that turn frame sizes into durations.

use fairmesh_units::Span;

/// aPPDUMaxTime of HT, VHT and HE (IEEE 802.11-2020 Tables 19-25 and 21-28).
pub const LONGEST_PPDU: Span = Span::from_micros(5484);

/// The rule that turns a PSDU size into a duration, one variant per family of waveforms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waveform {
    /// DSSS and HR/DSSS (IEEE 802.11-2020 clauses 15 and 16).
    Dsss {
        /// Bits sent in two microseconds: 2, 4, 11 or 22 (5.5 Mbit/s is not an integer in one).
        bits_per_2us: u32,
        /// PLCP preamble and header in microseconds: 192 long, 96 short.
        plcp_us: u32,
    },
    /// OFDM in a 20 MHz channel (clause 17) and ERP-OFDM (clause 18).
    Ofdm {
        /// N_DBPS, the data bits of one 4 µs symbol.
        bits_per_symbol: u32,
        /// Idle time after the frame that counts as part of it: 6 µs for ERP-OFDM, else 0.
        extension_us: u32,
    },
    /// HT, VHT and HE (IEEE 802.11-2020 clauses 19 and 21, IEEE 802.11ax-2021 clause 27).
    Mcs {
        /// N_DBPS.
        bits_per_symbol: u32,
        /// Tail bits, six per encoder.
        tail_bits: u32,
        /// One symbol with its guard interval, in ns.
        symbol_ns: u32,
        /// Unit that the payload duration is a multiple of, in ns.
        unit_ns: u32,
        /// Length of the preamble and header before the payload, in ns.
        preamble_ns: u32,
        /// Part of the preamble up to the end of HT-SIG or SIG-A, required for any reception, ns.
        header_ns: u32,
        /// Idle time after the frame that counts as part of it: 6 µs at 2.4 GHz, else 0.
        extension_us: u32,
    },
}

impl Waveform {
    /// Returns the airtime of a PSDU of `bytes` bytes, preamble included.
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
            // IEEE 802.11-2020 §19.4.3 and §21.4.3, IEEE 802.11ax-2021 §27.4.3, TXTIME
            Waveform::Mcs {
                bits_per_symbol,
                tail_bits,
                symbol_ns,
                unit_ns,
                preamble_ns,
                extension_us,
                ..
            } => {
                let bits = 16 + 8 * bytes as u64 + tail_bits as u64;
                let payload = bits.div_ceil(bits_per_symbol as u64) * symbol_ns as u64;
                let whole = payload.div_ceil(unit_ns as u64) * unit_ns as u64;
                let extension = 1000 * extension_us as u64;
                return Span::from_nanos(preamble_ns as u64 + whole + extension);
            }
        };
        Span::from_micros(us)
    }

    /// Returns aRxPHYStartDelay.
    ///
    /// It is the time from a frame's first bit on the air to the indication of a reception.
    pub const fn rx_start_delay(self) -> Span {
        Span::from_micros(match self {
            Waveform::Dsss { plcp_us, .. } => plcp_us as u64,
            Waveform::Ofdm { .. } => 20,
            Waveform::Mcs { preamble_ns, .. } => return Span::from_nanos(preamble_ns as u64),
        })
    }

    /// Returns the part of the preamble that is required for any reception.
    pub const fn header(self) -> Span {
        match self {
            Waveform::Mcs { header_ns, .. } => Span::from_nanos(header_ns as u64),
            Waveform::Dsss { .. } | Waveform::Ofdm { .. } => self.rx_start_delay(),
        }
    }

    /// Returns the time from the frame's start to the end of `bytes` bytes of its PSDU.
    ///
    /// It is not rounded to symbols; the 16 service bits come first.
    pub const fn reached(self, bytes: u32) -> Span {
        let start = self.rx_start_delay().as_nanos();
        let bits = 8 * bytes as u64;
        Span::from_nanos(
            start
                + match self {
                    Waveform::Dsss { bits_per_2us, .. } => bits * 2000 / bits_per_2us as u64,
                    Waveform::Ofdm { bits_per_symbol, .. } => {
                        (16 + bits) * 4000 / bits_per_symbol as u64
                    }
                    Waveform::Mcs { bits_per_symbol, symbol_ns, .. } => {
                        (16 + bits) * symbol_ns as u64 / bits_per_symbol as u64
                    }
                },
        )
    }

    /// Returns the longest PSDU of a frame that lasts at most `most`; 0 if there is none.
    pub const fn longest_within(self, most: Span) -> u32 {
        // No PSDU is longer than 6 500 631 bytes.
        let (mut low, mut high) = (0u32, 1u32 << 23);
        while low < high {
            let middle = (low + high).div_ceil(2);
            if self.duration(middle).as_nanos() <= most.as_nanos() {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        low
    }
}
