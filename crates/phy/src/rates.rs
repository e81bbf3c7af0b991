//! Rates: modulation families, rows of the rate tables, the tables of 802.11b, a and g.

use fairmesh_units::BitRate;

use crate::mcs::Mode;
use crate::waveform::Waveform;

/// A rate: its index in the PHY's table, which is sorted from slow to fast.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Rate(pub u8);

impl Rate {
    /// Returns the rate as an array index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Modulation family.
///
/// A control response is sent in the family of the frame to which it responds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Modulation {
    /// DSSS and HR/DSSS: 1, 2, 5.5, 11 Mbit/s.
    Dsss,
    /// OFDM at 5 GHz: 6 to 54 Mbit/s.
    Ofdm,
    /// ERP-OFDM at 2.4 GHz: 6 to 54 Mbit/s with a signal extension.
    ErpOfdm,
    /// HT, VHT or HE. Its control frames are sent as OFDM or ERP-OFDM.
    Mcs(Mode),
}

/// One row of a rate table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RateInfo {
    /// Nominal bit rate of the PSDU.
    pub bit_rate: BitRate,
    /// Family.
    pub modulation: Modulation,
    /// Duration rule.
    pub waveform: Waveform,
    /// True if every station of the PHY can receive it.
    pub mandatory: bool,
    /// True if in the basic rate set: broadcasts and control responses may use it.
    pub basic: bool,
}

/// PLCP preamble of DSSS frames. 1 Mbit/s frames always have the long one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Preamble {
    /// 144 + 48 µs at 1 Mbit/s.
    #[default]
    Long,
    /// 72 µs at 1 Mbit/s + 24 µs at 2 Mbit/s.
    Short,
}

/// Returns the row of a DSSS or HR/DSSS rate.
pub(crate) const fn dsss(kbps: u64, preamble: Preamble, basic: bool) -> RateInfo {
    // IEEE 802.11-2020 §16.2.2.2: the short preamble is not used at 1 Mbit/s.
    let plcp_us = match preamble {
        Preamble::Short if kbps > 1000 => 96,
        _ => 192,
    };
    RateInfo {
        bit_rate: BitRate(kbps * 1000),
        modulation: Modulation::Dsss,
        waveform: Waveform::Dsss { bits_per_2us: (kbps / 500) as u32, plcp_us },
        mandatory: true,
        basic,
    }
}

/// OFDM rates: Mbit/s, N_DBPS, mandatory. IEEE 802.11-2020 Table 17-4.
const OFDM: [(u64, u32, bool); 8] = [
    (6, 24, true),
    (9, 36, false),
    (12, 48, true),
    (18, 72, false),
    (24, 96, true),
    (36, 144, false),
    (48, 192, false),
    (54, 216, false),
];

/// Returns the rows of the OFDM rates, from slow to fast.
pub(crate) fn ofdm(
    modulation: Modulation,
    extension_us: u32,
    basic: bool,
) -> impl Iterator<Item = RateInfo> {
    OFDM.into_iter().map(move |(mbps, bits_per_symbol, mandatory)| RateInfo {
        bit_rate: BitRate(mbps * 1_000_000),
        modulation,
        waveform: Waveform::Ofdm { bits_per_symbol, extension_us },
        mandatory,
        basic: basic && mandatory,
    })
}
