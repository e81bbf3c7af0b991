//! Rate indices of mac80211 as rates of a PHY.

use core::fmt;

use fairmesh_phy::mcs::{Generation, Mode};
use fairmesh_phy::{Modulation, Phy, Rate};
use fairmesh_units::BitRate;

/// One entry of a rate series: an index, the number of attempts, and flags.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RateChoice {
    /// Index of a legacy rate of the band, an HT MCS, or a VHT index.
    ///
    /// A VHT index has streams − 1 in its high four bits.
    ///
    /// Negative: the series has ended.
    pub index: i8,
    /// Number of attempts.
    pub attempts: u8,
    /// Flags.
    pub flags: RateFlags,
}

/// Flags of a rate (`enum mac80211_hwsim_tx_rate_flags` of `mac80211_hwsim.h`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RateFlags(pub u16);

impl RateFlags {
    /// The index is an HT MCS.
    pub const MCS: u16 = 1 << 3;
    /// 40 MHz.
    pub const WIDTH_40: u16 = 1 << 5;
    /// Short guard interval.
    pub const SHORT_GUARD: u16 = 1 << 7;
    /// The index is a VHT index.
    pub const VHT: u16 = 1 << 8;
    /// 80 MHz.
    pub const WIDTH_80: u16 = 1 << 9;
    /// 160 MHz.
    pub const WIDTH_160: u16 = 1 << 10;

    fn has(self, flag: u16) -> bool {
        self.0 & flag != 0
    }
}

/// A rate that the scenario's PHY does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownRate {
    /// The entry of the series.
    pub choice: RateChoice,
    /// Frequency of the frame, MHz.
    pub frequency: u32,
}

impl fmt::Display for UnknownRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RateChoice { index, flags, .. } = self.choice;
        let width = width(flags);
        if flags.has(RateFlags::VHT) {
            let streams = (index as u8 >> 4) + 1;
            write!(f, "VHT MCS {} with {streams} streams, {width} MHz", index & 0x0f)
        } else if flags.has(RateFlags::MCS) {
            write!(f, "HT MCS {index}, {width} MHz")
        } else {
            write!(f, "legacy rate {index} at {} MHz", self.frequency)
        }
    }
}

fn width(flags: RateFlags) -> u32 {
    match () {
        () if flags.has(RateFlags::WIDTH_160) => 160,
        () if flags.has(RateFlags::WIDTH_80) => 80,
        () if flags.has(RateFlags::WIDTH_40) => 40,
        () => 20,
    }
}

/// Bit rates of hwsim's legacy rates at 2.4 GHz, kbit/s; those at 5 GHz are the last eight.
const LEGACY: [u64; 12] =
    [1000, 2000, 5500, 11_000, 6000, 9000, 12_000, 18_000, 24_000, 36_000, 48_000, 54_000];
/// Number of DSSS rates, which the 5 GHz band lacks.
const DSSS: usize = 4;
/// Lowest frequency of the 5 GHz band, MHz.
const BAND_5GHZ: u32 = 4900;

/// Rates of a PHY by the kernel's indices.
#[derive(Clone, Debug)]
pub(crate) struct RateTable {
    legacy: [Option<Rate>; LEGACY.len()],
    /// By flags of width, guard interval and kind, and index.
    modes: Vec<(u16, i8, Rate)>,
    lowest: Rate,
}

impl RateTable {
    pub fn new(phy: &Phy) -> Self {
        let plain = |r: &Rate| !matches!(phy.info(*r).modulation, Modulation::Mcs(_));
        let legacy = LEGACY.map(|kbps| {
            phy.rates().filter(plain).find(|r| phy.bit_rate(*r) == BitRate(kbps * 1000))
        });
        let generation = phy.as_modern().map(|m| m.generation);
        let modes = phy.rates().filter_map(|rate| match phy.info(rate).modulation {
            Modulation::Mcs(mode) => {
                let (flags, index) = kernel_index(generation?, mode)?;
                Some((flags, index, rate))
            }
            _ => None,
        });
        RateTable { legacy, modes: modes.collect(), lowest: phy.lowest_basic() }
    }

    /// Returns the rate of an entry of a series.
    ///
    /// A DSSS rate that the PHY lacks is its lowest basic rate: mac80211 sends management frames with it at
    /// 2.4 GHz in any network.
    pub fn rate(&self, choice: RateChoice, frequency: u32) -> Result<Rate, UnknownRate> {
        const KIND: u16 = RateFlags::MCS | RateFlags::VHT;
        const WIDTH: u16 = RateFlags::WIDTH_40 | RateFlags::WIDTH_80 | RateFlags::WIDTH_160;
        let unknown = UnknownRate { choice, frequency };
        if choice.flags.0 & KIND != 0 {
            let flags = choice.flags.0 & (KIND | WIDTH | RateFlags::SHORT_GUARD);
            let found = self.modes.iter().find(|m| (m.0, m.1) == (flags, choice.index));
            return found.map(|m| m.2).ok_or(unknown);
        }
        let shift = if frequency >= BAND_5GHZ { DSSS } else { 0 };
        let at = usize::try_from(choice.index).map_err(|_| unknown)? + shift;
        match self.legacy.get(at) {
            Some(Some(rate)) => Ok(*rate),
            Some(None) if at < DSSS => Ok(self.lowest),
            _ => Err(unknown),
        }
    }

    /// Returns the index with which a reception is reported to the kernel.
    ///
    /// hwsim takes legacy indices only; the highest stands for an MCS.
    pub fn legacy_index(&self, choice: RateChoice, frequency: u32) -> u32 {
        let bands = if frequency >= BAND_5GHZ { LEGACY.len() - DSSS } else { LEGACY.len() };
        match u32::try_from(choice.index) {
            Ok(index) if choice.flags.0 & (RateFlags::MCS | RateFlags::VHT) == 0 => index,
            Ok(_) => bands as u32 - 1,
            Err(_) => 0,
        }
    }
}

/// Returns the flags and the index of a mode in mac80211; `None` for 802.11ax.
fn kernel_index(generation: Generation, mode: Mode) -> Option<(u16, i8)> {
    let mut flags = match mode.width_mhz() {
        20 => 0,
        40 => RateFlags::WIDTH_40,
        80 => RateFlags::WIDTH_80,
        _ => RateFlags::WIDTH_160,
    };
    if mode.guard_ns() == 400 {
        flags |= RateFlags::SHORT_GUARD;
    }
    let streams = mode.streams() - 1;
    match generation {
        Generation::Ht => Some((flags | RateFlags::MCS, (8 * streams + mode.mcs()) as i8)),
        Generation::Vht => Some((flags | RateFlags::VHT, (streams << 4 | mode.mcs()) as i8)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairmesh_phy::{Band, Compatibility, Modern, Preamble};

    fn choice(index: i8, flags: u16) -> RateChoice {
        RateChoice { index, attempts: 1, flags: RateFlags(flags) }
    }

    #[test]
    fn legacy_indices_depend_on_the_band() {
        let a = Phy::dot11a();
        let table = RateTable::new(&a);
        let rate = |i, mhz| a.bit_rate(table.rate(choice(i, 0), mhz).unwrap()).0;
        assert_eq!((rate(0, 5180), rate(7, 5180)), (6_000_000, 54_000_000));
        assert_eq!((rate(4, 2412), rate(11, 2412)), (6_000_000, 54_000_000));
        assert_eq!(rate(0, 2412), 6_000_000, "1 Mbit/s is the lowest basic rate");
        assert!(
            table.rate(choice(8, 0), 5180).is_err() && table.rate(choice(-1, 0), 5180).is_err()
        );
        let b = Phy::dot11g(Compatibility::WithB(Preamble::Long));
        let at = RateTable::new(&b).rate(choice(1, 0), 2412).unwrap();
        assert_eq!(b.bit_rate(at), BitRate(2_000_000));
    }

    #[test]
    fn mcs_indices_and_refusals() {
        let mode = |mcs, guard| Mode::new(Generation::Ht, mcs, 1, 20, guard).unwrap();
        let modes = (0..16).flat_map(|m| [mode(m, 800), mode(m, 400)]).collect();
        let phy = Phy::modern(Modern {
            generation: Generation::Ht,
            band: Band::Ghz2,
            modes,
            ampdu: 65_535,
            amsdu: 0,
            window: 64,
            ns3: false,
        });
        let table = RateTable::new(&phy);
        let kbps =
            |i, flags| table.rate(choice(i, flags), 2412).map(|r| phy.bit_rate(r).0 / 100_000);
        assert_eq!(kbps(0, RateFlags::MCS), Ok(65));
        assert_eq!(kbps(15, RateFlags::MCS), Ok(1300));
        assert_eq!(kbps(15, RateFlags::MCS | RateFlags::SHORT_GUARD), Ok(1444));
        let vht = kbps(0x28, RateFlags::VHT | RateFlags::WIDTH_80).unwrap_err();
        assert_eq!(vht.to_string(), "VHT MCS 8 with 3 streams, 80 MHz");
        let wide = kbps(7, RateFlags::MCS | RateFlags::WIDTH_40).unwrap_err();
        assert_eq!(wide.to_string(), "HT MCS 7, 40 MHz");
    }
}
