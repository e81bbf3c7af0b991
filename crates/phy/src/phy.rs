//! A physical layer as configured: its rate table, timing, and control-response rates.

use core::fmt;

use fairmesh_units::{BitRate, Span};

use crate::frame::{
    ACK, BLOCK_ACK, BLOCK_ACK_256, CTS, LONGEST_MPDU_IN_HT_AMPDU, QOS_OVERHEAD, RTS,
};
use crate::mcs::{Generation, Mode};
use crate::rates::{Modulation, Preamble, Rate, RateInfo, dsss, ofdm};
use crate::timing::{PhyTiming, Response};
use crate::waveform::LONGEST_PPDU;

/// Compatibility of an 802.11g network with 802.11b stations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compatibility {
    /// ERP-OFDM rates only, 9 µs slots, CWmin 15.
    Pure,
    /// Also DSSS rates, all of them basic; 20 µs slots, CWmin 31.
    ///
    /// Protection (CTS to self) is not sent.
    WithB(Preamble),
}

/// Frequency bands of 802.11n, ac and ax.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Band {
    /// 2.4 GHz: SIFS 10 µs, frames extended by 6 µs.
    Ghz2,
    /// 5 GHz: SIFS 16 µs.
    Ghz5,
}

/// A network of 802.11n, ac or ax.
#[derive(Clone, PartialEq, Debug)]
pub struct Modern {
    /// Generation.
    pub generation: Generation,
    /// Band.
    pub band: Band,
    /// Modes in use, beside the OFDM rates of the band.
    pub modes: Vec<Mode>,
    /// Longest A-MPDU, bytes with delimiters and padding; 0: every MPDU is sent alone.
    pub ampdu: u32,
    /// Longest A-MSDU, bytes with its subframes' headers and padding.
    ///
    /// 0: every packet is a separate MPDU.
    pub amsdu: u32,
    /// Maximum number of MPDUs in an A-MPDU, and length of the block acknowledgement window.
    ///
    /// At most 64, or 256 with a longer BlockAck.
    pub window: u32,
    /// True for ns-3.37's deviations from the standard.
    ///
    /// They concern preambles ([`Mode`]), control rates by the bit rate of one stream at 20 MHz, RTS at the
    /// highest basic rate, and a CTS for every RTS, regardless of the NAV.
    pub ns3: bool,
}

impl Modern {
    /// Returns the length of the longest MPDU that carries an A-MSDU, in bytes.
    pub const fn longest_mpdu_with_amsdu(&self) -> u32 {
        match self.generation {
            Generation::Ht if self.ampdu > 0 => LONGEST_MPDU_IN_HT_AMPDU,
            _ => self.amsdu + QOS_OVERHEAD,
        }
    }
}

/// A physical layer as configured in one network.
#[derive(Clone, PartialEq, Debug)]
pub struct Phy {
    timing: PhyTiming,
    rates: Vec<RateInfo>,
    responses: Vec<Response>,
    modern: Option<Modern>,
}

/// Most modes of a rate table.
const MOST_MODES: usize = 200;

/// Reason for rejecting a PHY's configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PhyError {
    /// The PHY has no such rate.
    UnknownRate(BitRate),
    /// The basic rate set is empty.
    NoBasicRate,
    /// A retry limit of zero would send nothing.
    ZeroRetryLimit,
    /// Not of the form 2^k − 1, or the largest window is below the smallest.
    BadWindow {
        /// The refused CWmin.
        cw_min: u32,
        /// The refused CWmax.
        cw_max: u32,
    },
    /// More modes than a rate table holds, which is 200.
    TooManyModes(usize),
}

impl fmt::Display for PhyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PhyError::UnknownRate(r) => write!(f, "the PHY has no rate of {r}"),
            PhyError::NoBasicRate => f.write_str("the basic rate set is empty"),
            PhyError::ZeroRetryLimit => f.write_str("a retry limit is zero"),
            PhyError::TooManyModes(n) => write!(f, "{n} modes are more than the table's 200"),
            PhyError::BadWindow { cw_min, cw_max } => write!(
                f,
                "contention window {cw_min}..{cw_max}: both must be 2^k - 1 and in this order"
            ),
        }
    }
}
impl core::error::Error for PhyError {}

/// Returns the rate with which ns-3.37 compares control rates.
///
/// It is the mode's at 20 MHz with one stream.
fn one_stream_rate(g: Generation, mode: Mode) -> BitRate {
    let guard = if g == Generation::He { 800 } else { mode.guard_ns() };
    // 802.11ac has no MCS 9 there; the response already uses the highest basic rate.
    let mcs = if g == Generation::Vht { mode.mcs().min(8) } else { mode.mcs() };
    Mode::new(g, mcs, 1, 20, guard).map_or(mode.reference_rate(), |m| m.bit_rate(g))
}

impl Phy {
    /// Returns 802.11b with basic rates 1 and 2 Mbit/s.
    ///
    /// Slot 20, SIFS 10, DIFS 50, EIFS 364 µs, CW 31..1023.
    pub fn dot11b(preamble: Preamble) -> Self {
        let rates = [(1000, true), (2000, true), (5500, false), (11_000, false)];
        Phy::build(20, 10, 31, rates.into_iter().map(|(k, b)| dsss(k, preamble, b)).collect())
    }

    /// Returns 802.11a in a 20 MHz channel with basic rates 6, 12 and 24 Mbit/s.
    ///
    /// Slot 9, SIFS 16 µs, CW 15..1023.
    pub fn dot11a() -> Self {
        Phy::build(9, 16, 15, ofdm(Modulation::Ofdm, 0, true).collect())
    }

    /// Returns 802.11g: ERP-OFDM, with or without support of 802.11b stations. SIFS 10 µs.
    pub fn dot11g(compatibility: Compatibility) -> Self {
        match compatibility {
            Compatibility::Pure => {
                Phy::build(9, 10, 15, ofdm(Modulation::ErpOfdm, 6, true).collect())
            }
            Compatibility::WithB(preamble) => {
                let mut rates: Vec<RateInfo> = ofdm(Modulation::ErpOfdm, 6, false).collect();
                rates.extend([1000, 2000, 5500, 11_000].map(|k| dsss(k, preamble, true)));
                rates.sort_by_key(|r| r.bit_rate);
                Phy::build(20, 10, 31, rates)
            }
        }
    }

    /// Returns 802.11n, ac or ax as best-effort stations use it.
    ///
    /// AIFS is SIFS + 3 slots, CW 15..1023, slot 9 µs, basic rates 6, 12 and 24 Mbit/s.
    ///
    /// # Panics
    /// If there are more modes than a table holds, which is 200.
    pub fn modern(modern: Modern) -> Self {
        assert!(modern.modes.len() <= MOST_MODES, "too many modes");
        let (sifs, family, extension) = match modern.band {
            Band::Ghz2 => (10, Modulation::ErpOfdm, 6),
            Band::Ghz5 => (16, Modulation::Ofdm, 0),
        };
        let g = modern.generation;
        let mut rates: Vec<RateInfo> = ofdm(family, extension, true).collect();
        for &mode in &modern.modes {
            let info = RateInfo {
                bit_rate: mode.bit_rate(g),
                modulation: Modulation::Mcs(mode),
                waveform: mode.waveform(g, modern.ns3, extension),
                mandatory: false,
                basic: false,
            };
            if !rates.contains(&info) {
                rates.push(info);
            }
        }
        // Stable sort: of equal rates, the non-HT one is first.
        rates.sort_by_key(|r| r.bit_rate);
        Phy::build_with(9, sifs, 15, rates, Some(modern))
    }

    /// Returns the settings of 802.11n, ac or ax, if this is such a network.
    pub fn as_modern(&self) -> Option<&Modern> {
        self.modern.as_ref()
    }

    /// Returns the length of a BlockAck, in bytes.
    pub fn block_ack_bytes(&self) -> u32 {
        let long = self.modern.as_ref().is_some_and(|m| m.window > 64);
        if long { BLOCK_ACK_256 } else { BLOCK_ACK }
    }

    /// Returns the rate of a mode.
    pub fn rate_of(&self, mode: Mode) -> Option<Rate> {
        self.rates().find(|&r| self.info(r).modulation == Modulation::Mcs(mode))
    }

    fn build(slot_us: u64, sifs_us: u64, cw_min: u32, rates: Vec<RateInfo>) -> Self {
        Phy::build_with(slot_us, sifs_us, cw_min, rates, None)
    }

    fn build_with(
        slot_us: u64,
        sifs_us: u64,
        cw_min: u32,
        rates: Vec<RateInfo>,
        modern: Option<Modern>,
    ) -> Self {
        let (slot, sifs) = (Span::from_micros(slot_us), Span::from_micros(sifs_us));
        // IEEE 802.11-2020 §10.3.2.3.5; AIFS of best effort: AIFSN 3 (Table 9-155).
        let slots = if modern.is_some() { 3 } else { 2 };
        let timing = PhyTiming {
            slot,
            sifs,
            difs: sifs + slot * slots,
            eifs: Span::ZERO,
            cw_min,
            cw_max: 1023,
            short_retry_limit: 7,
            long_retry_limit: 4,
        };
        let mut phy = Phy { timing, rates, responses: Vec::new(), modern };
        phy.refresh();
        phy
    }

    /// Recomputes the values that depend on the basic rate set.
    fn refresh(&mut self) {
        self.responses = self.rates().map(|r| self.response_to(r)).collect();
        let t = &self.timing;
        // IEEE 802.11-2020 §10.3.2.3.7, with the lowest basic rate in place of the lowest mandatory
        // one.
        self.timing.eifs = t.sifs + self.airtime(self.lowest_basic(), ACK) + t.difs;
    }

    fn response_to(&self, data: Rate) -> Response {
        // IEEE 802.11-2020 §10.6.6.5.2: highest basic rate not above, else highest mandatory one; an MCS
        // counts as its non-HT reference rate (§10.6.11).
        let (family, most) = match (self.info(data).modulation, &self.modern) {
            (Modulation::Mcs(mode), Some(m)) => {
                let family =
                    if m.band == Band::Ghz2 { Modulation::ErpOfdm } else { Modulation::Ofdm };
                let most =
                    if m.ns3 { one_stream_rate(m.generation, mode) } else { mode.reference_rate() };
                (family, most)
            }
            (family, _) => (family, self.bit_rate(data)),
        };
        let best = |eligible: fn(&RateInfo) -> bool| {
            self.rates()
                .filter(|&r| self.bit_rate(r) <= most && self.info(r).modulation == family)
                .rfind(|&r| eligible(self.info(r)))
        };
        let rate = best(|r| r.basic).or_else(|| best(|r| r.mandatory)).unwrap_or(data);
        let rts_rate = match &self.modern {
            Some(m) if m.ns3 => self.rates().rfind(|&r| self.info(r).basic).unwrap_or(rate),
            _ => rate,
        };
        let is_mcs = matches!(self.info(data).modulation, Modulation::Mcs(_));
        let wait = |rate: Rate| {
            self.timing.sifs + self.timing.slot + self.info(rate).waveform.rx_start_delay()
        };
        Response {
            rate,
            rts_rate,
            ack: self.airtime(rate, ACK),
            block_ack: self.airtime(rate, self.block_ack_bytes()),
            longest_psdu: if is_mcs {
                self.info(data).waveform.longest_within(LONGEST_PPDU)
            } else {
                0
            },
            cts: self.airtime(rts_rate, CTS),
            rts: self.airtime(rts_rate, RTS),
            ack_timeout: wait(rate),
            cts_timeout: wait(rts_rate),
        }
    }

    /// Returns the same PHY with exactly these basic rates.
    ///
    /// # Errors
    /// Returns an error if the set is empty or names a rate the PHY does not have.
    pub fn with_basic_rates(mut self, basic: &[BitRate]) -> Result<Self, PhyError> {
        if basic.is_empty() {
            return Err(PhyError::NoBasicRate);
        }
        if let Some(&r) = basic.iter().find(|&&r| self.rate(r).is_none()) {
            return Err(PhyError::UnknownRate(r));
        }
        for info in &mut self.rates {
            info.basic = basic.contains(&info.bit_rate);
        }
        self.refresh();
        Ok(self)
    }

    /// Returns the same PHY with all modes up to its own streams and width.
    ///
    /// These are all MCS and guard intervals of its generation.
    ///
    /// 802.11a, b and g are unchanged. Rates have other indices afterwards.
    ///
    /// # Errors
    /// [`PhyError::TooManyModes`] if a table cannot hold them.
    pub fn with_all_modes(mut self) -> Result<Self, PhyError> {
        let Some(modern) = &mut self.modern else { return Ok(self) };
        let g = modern.generation;
        let streams = modern.modes.iter().map(|m| m.streams()).max().unwrap_or(1);
        let width = modern.modes.iter().map(|m| m.width_mhz()).max().unwrap_or(20);
        let mut modes = Vec::new();
        for &w in g.widths().iter().filter(|w| **w <= width) {
            for (s, &guard) in (1..=streams).flat_map(|s| g.guards().iter().map(move |g| (s, g))) {
                // In 802.11n the number of streams is part of the MCS.
                let base = if g == Generation::Ht { 8 * (s - 1) } else { 0 };
                let of = |mcs| Mode::new(g, base + mcs, s, w, guard).ok();
                modes.extend((0..=g.highest_mcs()).filter_map(of));
            }
        }
        if modes.len() > MOST_MODES {
            return Err(PhyError::TooManyModes(modes.len()));
        }
        modern.modes = modes;
        let timing = self.timing;
        let plain = |r: &RateInfo| !matches!(r.modulation, Modulation::Mcs(_));
        let kept: Vec<RateInfo> = self.rates.iter().copied().filter(plain).collect();
        let mut phy = Phy::modern(modern.clone());
        for info in &mut phy.rates {
            info.basic = kept.iter().any(|k| k.basic && k.bit_rate == info.bit_rate && plain(info));
        }
        phy.timing = timing;
        phy.refresh();
        Ok(phy)
    }

    /// Returns the same PHY with these retry limits (attempts, the first included).
    ///
    /// # Errors
    /// Returns an error if either is zero.
    pub fn with_retry_limits(mut self, short: u32, long: u32) -> Result<Self, PhyError> {
        if short == 0 || long == 0 {
            return Err(PhyError::ZeroRetryLimit);
        }
        self.timing.short_retry_limit = short;
        self.timing.long_retry_limit = long;
        Ok(self)
    }

    /// Returns the same PHY with this contention window range.
    ///
    /// # Errors
    /// Returns an error if a bound is not 2^k − 1 with 1 ≤ k ≤ 16, or they are in the wrong order.
    pub fn with_contention_window(mut self, cw_min: u32, cw_max: u32) -> Result<Self, PhyError> {
        let fits = |w: u32| w > 0 && w < 1 << 16 && (w + 1).is_power_of_two();
        if !fits(cw_min) || !fits(cw_max) || cw_min > cw_max {
            return Err(PhyError::BadWindow { cw_min, cw_max });
        }
        self.timing.cw_min = cw_min;
        self.timing.cw_max = cw_max;
        Ok(self)
    }

    /// Returns interframe spaces, windows and retry limits.
    pub const fn timing(&self) -> &PhyTiming {
        &self.timing
    }
    /// Returns the slot time.
    pub const fn slot(&self) -> Span {
        self.timing.slot
    }
    /// Returns the short interframe space.
    pub const fn sifs(&self) -> Span {
        self.timing.sifs
    }
    /// Returns the DCF interframe space.
    pub const fn difs(&self) -> Span {
        self.timing.difs
    }
    /// Returns the extended interframe space.
    pub const fn eifs(&self) -> Span {
        self.timing.eifs
    }

    /// Returns every rate, from slow to fast.
    pub fn rates(&self) -> impl DoubleEndedIterator<Item = Rate> + use<> {
        (0..self.rates.len() as u8).map(Rate)
    }

    /// Returns the row of a rate.
    ///
    /// # Panics
    /// If `rate` is not one of this PHY's, as all methods that take a rate.
    pub fn info(&self, rate: Rate) -> &RateInfo {
        &self.rates[rate.index()]
    }
    /// Returns the nominal bit rate.
    pub fn bit_rate(&self, rate: Rate) -> BitRate {
        self.info(rate).bit_rate
    }
    /// Returns the rate with exactly this bit rate.
    pub fn rate(&self, bit_rate: BitRate) -> Option<Rate> {
        self.rates().find(|&r| self.bit_rate(r) == bit_rate)
    }
    /// Returns the slowest rate of the table.
    pub const fn lowest(&self) -> Rate {
        Rate(0)
    }
    /// Returns the fastest rate of the table.
    pub fn highest(&self) -> Rate {
        Rate(self.rates.len() as u8 - 1)
    }
    /// Returns the slowest basic rate, at which broadcasts are sent.
    pub fn lowest_basic(&self) -> Rate {
        self.rates().find(|&r| self.info(r).basic).unwrap_or(Rate(0))
    }

    /// Returns the rate of the ACK or CTS that responds to a frame sent at `data`.
    pub fn control_rate(&self, data: Rate) -> Rate {
        self.response(data).rate
    }
    /// Returns the control frames for data at this rate.
    pub fn response(&self, data: Rate) -> &Response {
        &self.responses[data.index()]
    }
    /// Returns the airtime of a PSDU (MAC header to FCS) of `bytes` bytes, preamble included.
    pub fn airtime(&self, rate: Rate, bytes: u32) -> Span {
        self.info(rate).waveform.duration(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: fn(u64) -> Span = Span::from_micros;
    const MBPS: fn(u64) -> BitRate = |m| BitRate(m * 1_000_000);

    #[test]
    fn timing_of_each_phy() {
        let b = *Phy::dot11b(Preamble::Long).timing();
        assert_eq!((b.slot, b.sifs, b.difs, b.eifs), (US(20), US(10), US(50), US(364)));
        assert_eq!((b.cw_min, b.cw_max), (31, 1023));
        assert_eq!((b.short_retry_limit, b.long_retry_limit), (7, 4));
        let a = *Phy::dot11a().timing();
        assert_eq!((a.slot, a.sifs, a.difs, a.eifs), (US(9), US(16), US(34), US(94)));
        assert_eq!(a.cw_min, 15);
        let g = *Phy::dot11g(Compatibility::Pure).timing();
        assert_eq!((g.slot, g.difs, g.eifs, g.cw_min), (US(9), US(28), US(88), 15));
        let bg = *Phy::dot11g(Compatibility::WithB(Preamble::Long)).timing();
        assert_eq!((bg.slot, bg.difs, bg.eifs, bg.cw_min), (US(20), US(50), US(364), 31));
    }

    #[test]
    fn windows_double_up_to_the_limit() {
        let t = *Phy::dot11b(Preamble::Long).timing();
        let windows = std::iter::successors(Some(t.cw_min), |&cw| Some(t.next_cw(cw)));
        let seen: Vec<u32> = windows.take(7).collect();
        assert_eq!(seen, [31, 63, 127, 255, 511, 1023, 1023]);
    }

    #[test]
    fn tables_are_sorted_and_found_by_bit_rate() {
        let phy = Phy::dot11g(Compatibility::WithB(Preamble::Short));
        let mbps: Vec<f64> = phy.rates().map(|r| phy.bit_rate(r).0 as f64 / 1e6).collect();
        assert_eq!(mbps, [1., 2., 5.5, 6., 9., 11., 12., 18., 24., 36., 48., 54.]);
        assert_eq!(phy.rate(MBPS(11)), Some(Rate(5)));
        assert_eq!(phy.rate(MBPS(7)), None);
        assert_eq!((phy.lowest(), phy.highest()), (Rate(0), Rate(11)));
    }

    #[test]
    fn control_responses() {
        let control = |phy: &Phy, mbps: u64| {
            phy.bit_rate(phy.control_rate(phy.rate(MBPS(mbps)).unwrap())).0 / 1_000_000
        };
        let b = Phy::dot11b(Preamble::Long);
        assert_eq!([1, 2, 11].map(|r| control(&b, r)), [1, 2, 2]);
        let one = b.clone().with_basic_rates(&[MBPS(1)]).unwrap();
        assert_eq!([1, 2, 11].map(|r| control(&one, r)), [1, 1, 1]);
        let a = Phy::dot11a();
        assert_eq!([6, 9, 12, 18, 24, 54].map(|r| control(&a, r)), [6, 6, 12, 12, 24, 24]);
        // No OFDM rate is basic here: the response uses the highest mandatory one of the family.
        let bg = Phy::dot11g(Compatibility::WithB(Preamble::Long));
        assert_eq!([6, 9, 11, 18, 54].map(|r| control(&bg, r)), [6, 6, 11, 12, 24]);
    }

    #[test]
    fn eifs_follows_the_basic_rates() {
        let two = Phy::dot11b(Preamble::Long).with_basic_rates(&[MBPS(2)]).unwrap();
        assert_eq!(two.eifs(), US(10 + 248 + 50));
        // 1 Mbit/s data cannot be acknowledged at a basic rate: mandatory 1 Mbit/s.
        assert_eq!(two.control_rate(Rate(0)), Rate(0));
    }

    #[test]
    fn configuration_errors() {
        let b = || Phy::dot11b(Preamble::Long);
        assert_eq!(b().with_basic_rates(&[]), Err(PhyError::NoBasicRate));
        assert_eq!(b().with_basic_rates(&[MBPS(54)]), Err(PhyError::UnknownRate(MBPS(54))));
        assert_eq!(b().with_retry_limits(0, 4), Err(PhyError::ZeroRetryLimit));
        assert_eq!(b().with_retry_limits(5, 3).unwrap().timing().long_retry_limit, 3);
        assert!(b().with_contention_window(30, 1023).is_err());
        assert!(b().with_contention_window(63, 31).is_err());
        assert_eq!(b().with_contention_window(15, 15).unwrap().timing().cw_max, 15);
    }

    #[test]
    fn all_modes_up_to_the_fastest() {
        let fastest = Mode::new(Generation::Ht, 15, 2, 20, 800).unwrap();
        let one = Phy::modern(Modern {
            generation: Generation::Ht,
            band: Band::Ghz2,
            modes: vec![fastest],
            ampdu: 65_535,
            amsdu: 0,
            window: 64,
            ns3: false,
        });
        let one = one.with_contention_window(31, 1023).unwrap();
        let all = one.clone().with_all_modes().unwrap();
        assert_eq!(all.rates().count(), 8 + 16 * 2, "OFDM, 16 MCS, two guard intervals");
        assert_eq!(all.timing(), one.timing());
        assert_eq!(all.lowest_basic(), one.lowest_basic());
        let short = Mode::new(Generation::Ht, 15, 2, 20, 400).unwrap();
        assert!(all.rate_of(short).is_some() && one.rate_of(short).is_none());
        assert_eq!(Phy::dot11a().with_all_modes(), Ok(Phy::dot11a()));
        let wide = Mode::fastest(Generation::Vht, 4, 160, 400).unwrap();
        let ac = Modern {
            generation: Generation::Vht,
            modes: vec![wide],
            ..one.as_modern().unwrap().clone()
        };
        assert!(matches!(Phy::modern(ac).with_all_modes(), Err(PhyError::TooManyModes(_))));
    }
}
