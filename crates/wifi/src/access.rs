//! Access categories of EDCA and their contention parameters.
//!
//! IEEE 802.11-2020 §10.2.3.2, §10.23.2.

use core::fmt;

use fairmesh_phy::Phy;
use fairmesh_units::Span;

/// An access category, in increasing priority (IEEE 802.11-2020 Table 10-1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Access {
    /// AC_BK.
    Background,
    /// AC_BE, the default.
    #[default]
    BestEffort,
    /// AC_VI.
    Video,
    /// AC_VO.
    Voice,
}

impl Access {
    /// Number of categories.
    pub const COUNT: usize = 4;
    /// All categories, from the lowest to the highest priority.
    pub const ALL: [Access; Access::COUNT] =
        [Access::Background, Access::BestEffort, Access::Video, Access::Voice];

    /// Returns its index in [`Access::ALL`].
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns its name in a scenario.
    pub const fn name(self) -> &'static str {
        match self {
            Access::Background => "background",
            Access::BestEffort => "best-effort",
            Access::Video => "video",
            Access::Voice => "voice",
        }
    }

    /// Returns the user priority of its frames, which is their TID.
    ///
    /// It is the lower of the category's two, except that best effort has 0 (IEEE 802.11-2020 Table
    /// 10-1).
    pub const fn user_priority(self) -> u8 {
        match self {
            Access::Background => 1,
            Access::BestEffort => 0,
            Access::Video => 4,
            Access::Voice => 6,
        }
    }

    /// Returns the category of a user priority, 0 to 7 (IEEE 802.11-2020 Table 10-1).
    ///
    /// Higher values count as 7.
    pub const fn of_user_priority(priority: u8) -> Self {
        match priority {
            1 | 2 => Access::Background,
            0 | 3 => Access::BestEffort,
            4 | 5 => Access::Video,
            _ => Access::Voice,
        }
    }

    /// Returns the category that Linux assigns to this DSCP, 0 to 63 (cfg80211 from 6.8 on).
    ///
    /// The three highest bits are the user priority, except for code points that RFC 8325 §4 maps
    /// differently.
    pub const fn of_dscp(dscp: u8) -> Self {
        Access::of_user_priority(match dscp {
            // AF1x, CS2.
            10 | 12 | 14 | 16 => 0,
            // AF2x.
            18 | 20 | 22 => 3,
            // CS3, AF3x.
            24 | 26 | 28 | 30 => 4,
            // VOICE-ADMIT, EF.
            44 | 46 => 6,
            // CS6.
            48 => 7,
            other => other >> 3,
        })
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Contention parameters of one category.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AccessParameters {
    /// Slots from SIFS after the medium until the countdown starts.
    ///
    /// At least 2, the minimum for stations that are not access points.
    pub aifsn: u32,
    /// Smallest contention window.
    pub cw_min: u32,
    /// Largest contention window.
    pub cw_max: u32,
    /// TXOP limit; zero: one frame.
    pub txop: Span,
}

impl AccessParameters {
    /// Returns the contention window after a failed attempt: 2(CW + 1) − 1, at most `cw_max`.
    #[inline]
    pub const fn next_cw(&self, cw: u32) -> u32 {
        let doubled = 2 * cw + 1;
        if doubled < self.cw_max { doubled } else { self.cw_max }
    }
}

/// The parameters of all categories, equal at every station.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Edca(pub [AccessParameters; Access::COUNT]);

impl Edca {
    /// Returns the parameters of IEEE 802.11-2020 Table 9-155 for OFDM, HT, VHT and HE.
    ///
    /// They follow from the PHY's aCWmin and aCWmax.
    pub fn standard(phy: &Phy) -> Self {
        Edca::with_txops(phy, [2528, 2528, 4096, 2080])
    }

    /// Returns the parameters that mac80211 sets by default, for example in a mesh.
    ///
    /// TXOP limits are those of IEEE 802.11-2012 Table 8-105; best effort and background have one
    /// frame.
    pub fn linux(phy: &Phy) -> Self {
        Edca::with_txops(phy, [0, 0, 3008, 1504])
    }

    fn with_txops(phy: &Phy, us: [u64; Access::COUNT]) -> Self {
        let (min, max) = (phy.timing().cw_min, phy.timing().cw_max);
        // (n + 1)/2 − 1 for odd n.
        let half = |n: u32| n / 2;
        let windows =
            [(7, min, max), (3, min, max), (2, half(min), min), (2, half(half(min)), half(min))];
        Edca(core::array::from_fn(|i| {
            let (aifsn, cw_min, cw_max) = windows[i];
            AccessParameters { aifsn, cw_min, cw_max, txop: Span::from_micros(us[i]) }
        }))
    }

    /// Returns the parameters of one category.
    pub const fn of(&self, access: Access) -> &AccessParameters {
        &self.0[access.index()]
    }
}

impl fmt::Display for Edca {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, access) in Access::ALL.into_iter().rev().enumerate() {
            let p = self.of(access);
            let between = if i == 0 { "" } else { "; " };
            write!(
                f,
                "{between}{access}: AIFSN {}, window {} to {}, TXOP {}",
                p.aifsn, p.cw_min, p.cw_max, p.txop
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairmesh_phy::Preamble;

    #[test]
    fn defaults_are_those_of_the_table() {
        // IEEE 802.11-2020 Table 9-155 with aCWmin 15, aCWmax 1023: CWmin, CWmax, AIFSN, TXOP limit in units of 32 µs.
        let table = [(15, 1023, 7, 79), (15, 1023, 3, 79), (7, 15, 2, 128), (3, 7, 2, 65)];
        let own = Edca::standard(&Phy::dot11a()).0;
        for (p, (cw_min, cw_max, aifsn, limit)) in own.iter().zip(table) {
            assert_eq!((p.cw_min, p.cw_max, p.aifsn), (cw_min, cw_max, aifsn));
            assert_eq!(p.txop, Span::from_micros(32 * limit));
        }
        // mac80211: 94 and 47 units.
        let txops = Edca::linux(&Phy::dot11a()).0.map(|p| p.txop.as_nanos() / 32_000);
        assert_eq!(txops, [0, 0, 94, 47]);
        // aCWmin of 31, as with 802.11b.
        let b = Edca::standard(&Phy::dot11b(Preamble::Long)).0.map(|p| (p.cw_min, p.cw_max));
        assert_eq!(b, [(31, 1023), (31, 1023), (15, 31), (7, 15)]);
    }

    #[test]
    fn windows_double_up_to_the_largest() {
        let voice = *Edca::standard(&Phy::dot11a()).of(Access::Voice);
        let windows: Vec<u32> =
            std::iter::successors(Some(voice.cw_min), |&cw| Some(voice.next_cw(cw)))
                .take(4)
                .collect();
        assert_eq!(windows, [3, 7, 7, 7]);
    }

    #[test]
    fn priorities_and_code_points() {
        for access in Access::ALL {
            assert_eq!(Access::of_user_priority(access.user_priority()), access);
        }
        let named = |dscp| Access::of_dscp(dscp).name();
        // DF, LE, CS1, AF11, CS2, AF21: RFC 8325 §4.
        assert_eq!(
            [0, 1, 8, 10, 16, 18].map(named),
            [
                "best-effort",
                "best-effort",
                "background",
                "best-effort",
                "best-effort",
                "best-effort"
            ]
        );
        // CS3, AF31, CS4, AF41, CS5.
        assert_eq!([24, 26, 32, 34, 40].map(named), ["video"; 5]);
        // VOICE-ADMIT, EF, CS6, CS7.
        assert_eq!([44, 46, 48, 56].map(named), ["voice"; 4]);
    }
}
