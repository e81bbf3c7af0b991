//! Modulation and coding schemes of 802.11n (HT), 802.11ac (VHT) and 802.11ax (HE, one user).

use core::fmt;

use fairmesh_units::BitRate;

use crate::waveform::Waveform;

/// Generations of PPDU.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Generation {
    /// 802.11n, high throughput, mixed format (IEEE 802.11-2020 clause 19).
    Ht,
    /// 802.11ac, very high throughput (clause 21).
    Vht,
    /// 802.11ax, high efficiency, to a single user (IEEE 802.11ax-2021 clause 27).
    He,
}

impl Generation {
    /// Returns the name of the amendment.
    pub const fn name(self) -> &'static str {
        match self {
            Generation::Ht => "802.11n",
            Generation::Vht => "802.11ac",
            Generation::He => "802.11ax",
        }
    }

    /// Returns the highest MCS per stream.
    pub const fn highest_mcs(self) -> u8 {
        match self {
            Generation::Ht => 7,
            Generation::Vht => 9,
            Generation::He => 11,
        }
    }

    /// Returns the largest modelled number of spatial streams.
    ///
    /// MCS 0–15 are two streams of 802.11n.
    pub const fn most_streams(self) -> u8 {
        match self {
            Generation::Ht => 2,
            Generation::Vht | Generation::He => 4,
        }
    }

    /// Returns the length of the longest A-MPDU, in bytes.
    ///
    /// It is 2^16 − 1, 2^20 − 1 (IEEE 802.11-2020 Tables 9-184 and 9-272) and 6 500 631 (IEEE 802.11ax-2021 §27.2.2,
    /// the longest PSDU).
    pub const fn longest_ampdu(self) -> u32 {
        match self {
            Generation::Ht => 65_535,
            Generation::Vht => 1_048_575,
            Generation::He => 6_500_631,
        }
    }

    /// Returns the length of the longest A-MSDU, in bytes.
    ///
    /// It is 7935 (IEEE 802.11-2020 §9.4.2.55.2), or the longest MPDU of 11 454 less its header and FCS (§9.4.2.157.2,
    /// Table 9-34).
    pub const fn longest_amsdu(self) -> u32 {
        match self {
            Generation::Ht => 7935,
            Generation::Vht | Generation::He => 11_454 - 30,
        }
    }

    /// Returns the largest number of MPDUs under one block acknowledgement.
    ///
    /// It is 64, with 802.11ax 256.
    pub const fn most_mpdus(self) -> u32 {
        match self {
            Generation::Ht | Generation::Vht => 64,
            Generation::He => 256,
        }
    }

    pub(crate) const fn widths(self) -> &'static [u32] {
        match self {
            Generation::Ht => &[20, 40],
            Generation::Vht | Generation::He => &[20, 40, 80, 160],
        }
    }

    pub(crate) const fn guards(self) -> &'static [u32] {
        match self {
            Generation::Ht | Generation::Vht => &[400, 800],
            Generation::He => &[800, 1600, 3200],
        }
    }

    /// Returns N_SD, data subcarriers.
    ///
    /// IEEE 802.11-2020 Tables 19-6 and 21-5, IEEE 802.11ax-2021 Table 27-61.
    const fn subcarriers(self, width_mhz: u32) -> u64 {
        match (self, width_mhz) {
            (Generation::He, 20) => 234,
            (Generation::He, 40) => 468,
            (Generation::He, 80) => 980,
            (Generation::He, _) => 1960,
            (_, 20) => 52,
            (_, 40) => 108,
            (_, 80) => 234,
            (_, _) => 468,
        }
    }
}

/// Schemes by MCS: N_BPSCS, code rate as a fraction, non-HT reference rate in Mbit/s.
///
/// IEEE 802.11-2020 Tables 19-27 ff., 21-29 ff., IEEE 802.11ax-2021 Table 27-54 ff.; the reference rates are of Table
/// 10-10.
const SCHEMES: [(u64, (u64, u64), u64); 12] = [
    (1, (1, 2), 6),
    (2, (1, 2), 12),
    (2, (3, 4), 18),
    (4, (1, 2), 24),
    (4, (3, 4), 36),
    (6, (2, 3), 48),
    (6, (3, 4), 54),
    (6, (5, 6), 54),
    (8, (3, 4), 54),
    (8, (5, 6), 54),
    (10, (3, 4), 54),
    (10, (5, 6), 54),
];

/// A modulation and coding scheme with all parameters of its duration.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Mode {
    mcs: u8,
    streams: u8,
    width_mhz: u32,
    guard_ns: u32,
}

/// Reason for rejecting a mode.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ModeError {
    /// No such MCS.
    Mcs(Generation, u8),
    /// Too many spatial streams, or none.
    Streams(Generation, u8),
    /// No channels of this width.
    Width(Generation, u32),
    /// No such guard interval.
    Guard(Generation, u32),
    /// The MCS is not defined with these streams at this width.
    Excluded(Mode),
}

impl ModeError {
    /// Returns the accepted values.
    pub fn expected(&self) -> String {
        let list = |values: &[u32], unit: &str| {
            let words: Vec<String> = values.iter().map(|v| format!("\"{v} {unit}\"")).collect();
            words.join(", ")
        };
        match self {
            ModeError::Mcs(Generation::Ht, _) => "an MCS from 0 to 15".into(),
            ModeError::Mcs(g, _) => format!("an MCS from 0 to {}", g.highest_mcs()),
            ModeError::Streams(g, _) => format!("1 to {} streams", g.most_streams()),
            ModeError::Width(g, _) => list(g.widths(), "MHz"),
            ModeError::Guard(g, _) => list(g.guards(), "ns"),
            ModeError::Excluded(_) => "a lower MCS, or another width or number of streams".into(),
        }
    }
}

impl fmt::Display for ModeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ModeError::Mcs(g, mcs) => write!(f, "{} has no MCS {mcs}", g.name()),
            ModeError::Streams(g, n) => write!(f, "{} with {n} streams", g.name()),
            ModeError::Width(g, w) => write!(f, "{} has no channels of {w} MHz", g.name()),
            ModeError::Guard(g, ns) => write!(f, "{} has no guard interval of {ns} ns", g.name()),
            ModeError::Excluded(m) => write!(
                f,
                "802.11ac has no MCS {} with {} streams at {} MHz",
                m.mcs, m.streams, m.width_mhz
            ),
        }
    }
}
impl core::error::Error for ModeError {}

impl Mode {
    /// Returns a mode of one generation. In 802.11n, MCS 8 to 15 are MCS 0 to 7 with two streams.
    ///
    /// # Errors
    /// Returns an error if the generation lacks a value; see [`ModeError`].
    pub fn new(
        generation: Generation,
        mcs: u8,
        streams: u8,
        width_mhz: u32,
        guard_ns: u32,
    ) -> Result<Self, ModeError> {
        let (scheme, streams) = match generation {
            Generation::Ht if mcs <= 15 => (mcs % 8, if mcs >= 8 { 2 } else { streams }),
            _ => (mcs, streams),
        };
        if scheme > generation.highest_mcs() {
            return Err(ModeError::Mcs(generation, mcs));
        }
        if !(1..=generation.most_streams()).contains(&streams) {
            return Err(ModeError::Streams(generation, streams));
        }
        if !generation.widths().contains(&width_mhz) {
            return Err(ModeError::Width(generation, width_mhz));
        }
        if !generation.guards().contains(&guard_ns) {
            return Err(ModeError::Guard(generation, guard_ns));
        }
        let mode = Mode { mcs: scheme, streams, width_mhz, guard_ns };
        if generation == Generation::Vht && !mode.divides() {
            return Err(ModeError::Excluded(mode));
        }
        Ok(mode)
    }

    /// Returns the fastest mode with these streams, at this width.
    ///
    /// # Errors
    /// As [`Mode::new`].
    pub fn fastest(g: Generation, streams: u8, width: u32, guard: u32) -> Result<Self, ModeError> {
        let modes = (0..=g.highest_mcs()).rev().map(|mcs| Mode::new(g, mcs, streams, width, guard));
        let mut last = Err(ModeError::Mcs(g, 0));
        for mode in modes {
            if mode.is_ok() {
                return mode;
            }
            last = mode;
        }
        last
    }

    /// Returns the MCS per stream: modulation and code rate.
    pub const fn mcs(self) -> u8 {
        self.mcs
    }
    /// Returns the number of spatial streams.
    pub const fn streams(self) -> u8 {
        self.streams
    }
    /// Returns the width of the channel, MHz.
    pub const fn width_mhz(self) -> u32 {
        self.width_mhz
    }
    /// Returns the guard interval, in ns.
    pub const fn guard_ns(self) -> u32 {
        self.guard_ns
    }

    /// Returns the coded bits per subcarrier and stream, and the code rate as a fraction.
    pub const fn scheme(self) -> (u32, (u64, u64)) {
        let (bits, code, _) = SCHEMES[self.mcs as usize];
        (bits as u32, code)
    }

    /// Returns the rate of the non-HT table with the same modulation and code rate.
    ///
    /// It determines control responses (IEEE 802.11-2020 Table 10-10).
    pub const fn reference_rate(self) -> BitRate {
        BitRate(SCHEMES[self.mcs as usize].2 * 1_000_000)
    }

    /// Returns N_CBPS.
    fn coded_bits(self, g: Generation) -> u64 {
        g.subcarriers(self.width_mhz) * SCHEMES[self.mcs as usize].0 * u64::from(self.streams)
    }

    /// Returns N_DBPS, rounded down as in 802.11ax.
    fn data_bits(self, g: Generation) -> u64 {
        let (over, under) = SCHEMES[self.mcs as usize].1;
        self.coded_bits(g) * over / under
    }

    /// Returns N_ES of 802.11ac.
    ///
    /// There is an encoder for each 600 Mbit/s at the short guard interval (IEEE 802.11-2020 §21.5), and one
    /// more where the tables differ from that rule.
    fn encoders(self) -> u64 {
        if (self.width_mhz, self.streams, self.mcs) == (160, 4, 7) {
            return 6;
        }
        // Data bits in 3.6 µs, and 2160 of them per encoder.
        self.data_bits(Generation::Vht).div_ceil(2160)
    }

    /// Returns true if the coded bits divide among the encoders and puncturing blocks.
    ///
    /// 802.11ac excludes the combinations for which they do not (IEEE 802.11-2020 §21.5).
    fn divides(self) -> bool {
        let (bits, encoders) = (self.coded_bits(Generation::Vht), self.encoders());
        bits.is_multiple_of(encoders)
            && (bits / encoders).is_multiple_of(SCHEMES[self.mcs as usize].1.1)
    }

    /// Returns the duration rule.
    ///
    /// `ns3`: ns-3.37's preambles, without VHT-SIG-B and with HE-LTFs of 8 µs, and its symbols at the short guard
    /// interval, which it does not round to 4 µs.
    pub(crate) fn waveform(self, g: Generation, ns3: bool, extension_us: u32) -> Waveform {
        // N_LTF: 1, 2, 4, 4 (IEEE 802.11-2020 Tables 19-13 and 21-13).
        let training = [1, 2, 4, 4][usize::from(self.streams) - 1];
        let symbol_ns = match g {
            Generation::He => 12_800 + self.guard_ns,
            _ => 3200 + self.guard_ns,
        };
        // L-STF, L-LTF, L-SIG 20 µs; HT-SIG or SIG-A 8, before it RL-SIG 4; STF 4; LTFs; SIG-B 4.
        let (header_ns, preamble_ns) = match g {
            Generation::Ht => (28_000, 32_000 + 4000 * training),
            Generation::Vht => (28_000, 32_000 + 4000 * training + if ns3 { 0 } else { 4000 }),
            Generation::He => {
                // HE-LTF symbols with their guard interval: 2×, and 4× with 3200 ns.
                let ltf = match self.guard_ns {
                    _ if ns3 => 8000,
                    800 => 7200,
                    1600 => 8000,
                    _ => 16_000,
                };
                (32_000, 36_000 + ltf * training)
            }
        };
        let tail_bits = match g {
            Generation::Vht => 6 * self.encoders() as u32,
            _ => 6,
        };
        Waveform::Mcs {
            bits_per_symbol: self.data_bits(g) as u32,
            tail_bits,
            symbol_ns,
            // IEEE 802.11-2020 §19.4.3, §21.4.3: short symbols are filled up to a multiple of the
            // long one.
            unit_ns: if self.guard_ns == 400 && !ns3 { 4000 } else { symbol_ns },
            preamble_ns,
            header_ns,
            extension_us,
        }
    }

    /// Returns the nominal bit rate: data bits per symbol time.
    pub fn bit_rate(self, g: Generation) -> BitRate {
        let symbol = match g {
            Generation::He => 12_800 + self.guard_ns,
            _ => 3200 + self.guard_ns,
        };
        BitRate(self.data_bits(g) * 1_000_000_000 / u64::from(symbol))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mbps(g: Generation, mcs: u8, streams: u8, width: u32, guard: u32) -> f64 {
        let mode = Mode::new(g, mcs, streams, width, guard).unwrap();
        (mode.bit_rate(g).0 as f64 / 1e5).round() / 10.0
    }

    /// Rates as the standard's tables print them, to 0.1 Mbit/s.
    #[test]
    fn rates_of_the_tables() {
        use Generation::{He, Ht, Vht};
        let ht = [6.5, 13.0, 19.5, 26.0, 39.0, 52.0, 58.5, 65.0];
        for (mcs, rate) in ht.into_iter().enumerate() {
            assert_eq!(mbps(Ht, mcs as u8, 1, 20, 800), rate);
            assert_eq!(mbps(Ht, mcs as u8 + 8, 1, 20, 800), 2.0 * rate);
        }
        assert_eq!(mbps(Ht, 7, 1, 20, 400), 72.2);
        assert_eq!(mbps(Ht, 15, 2, 40, 400), 300.0);
        assert_eq!(mbps(Vht, 8, 1, 20, 800), 78.0);
        assert_eq!(mbps(Vht, 9, 1, 80, 400), 433.3);
        assert_eq!(mbps(Vht, 9, 4, 80, 400), 1733.3);
        assert_eq!(mbps(Vht, 9, 4, 160, 400), 3466.7);
        assert_eq!(mbps(Vht, 7, 4, 160, 800), 2340.0);
        assert_eq!(mbps(He, 0, 1, 20, 800), 8.6);
        assert_eq!(mbps(He, 11, 1, 20, 800), 143.4);
        assert_eq!(mbps(He, 11, 2, 80, 800), 1201.0);
        assert_eq!(mbps(He, 11, 2, 160, 3200), 2041.6);
    }

    /// IEEE 802.11-2020 §21.5: the combinations without a row, for one to four streams.
    #[test]
    fn excluded_modes_of_vht() {
        let mut missing = vec![];
        for width in [20, 40, 80, 160] {
            for streams in 1..=4 {
                for mcs in 0..=9 {
                    if Mode::new(Generation::Vht, mcs, streams, width, 800).is_err() {
                        missing.push((width, streams, mcs));
                    }
                }
            }
        }
        assert_eq!(missing, [(20, 1, 9), (20, 2, 9), (20, 4, 9), (80, 3, 6), (160, 3, 9)]);
        let fastest = Mode::fastest(Generation::Vht, 1, 20, 800).unwrap();
        assert_eq!(fastest.mcs(), 8);
    }

    #[test]
    fn unsupported_modes_are_refused_with_the_supported_values() {
        let refused = |g, mcs, streams, width, guard| {
            let e = Mode::new(g, mcs, streams, width, guard).unwrap_err();
            format!("{e}; expected {}", e.expected())
        };
        use Generation::{He, Ht, Vht};
        assert_eq!(
            refused(Ht, 16, 1, 20, 800),
            "802.11n has no MCS 16; expected an MCS from 0 to 15"
        );
        assert_eq!(
            refused(Vht, 10, 1, 80, 800),
            "802.11ac has no MCS 10; expected an MCS from 0 to 9"
        );
        assert_eq!(refused(He, 5, 5, 80, 800), "802.11ax with 5 streams; expected 1 to 4 streams");
        assert_eq!(
            refused(Ht, 7, 1, 80, 800),
            "802.11n has no channels of 80 MHz; expected \"20 MHz\", \"40 MHz\""
        );
        assert!(refused(He, 7, 1, 80, 400).starts_with("802.11ax has no guard interval of 400 ns"));
    }
}
