//! How long frames last: duration rules, frame sizes, network allocation values and timeouts.
//!
//! Everything here is integer arithmetic on microseconds and bits, as the standard writes it
//! (docs/models/airtime.md).

use fairmesh_units::Span;

use crate::phy::{Phy, Rate};

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
/// The longest MPDU without aggregation: 2304 bytes of body and the longest header.
pub const MAX_PSDU: u32 = 2346;

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

/// The control frames that go with data at one rate, precomputed by [`Phy`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Response {
    /// The rate of the ACK, the CTS and (by the same rule) the RTS.
    pub rate: Rate,
    /// Duration of an ACK.
    pub ack: Span,
    /// Duration of a CTS.
    pub cts: Span,
    /// Duration of an RTS.
    pub rts: Span,
    /// How long a sender waits for the ACK to *begin*, counted from the end of its frame:
    /// SIFS + slot + aRxPHYStartDelay (IEEE 802.11-2020 §10.3.2.11).
    ///
    /// 222 µs for 802.11b with the long preamble, whether the ACK is sent at 1 or at 2 Mbit/s,
    /// because only its preamble and header (192 µs) count. If no reception has begun by then the
    /// attempt has failed, and the next backoff may begin a DIFS after the timeout: 272 µs after
    /// the end of the frame, where stations that heard the same collision wait EIFS (364 µs).
    pub ack_timeout: Span,
    /// The same for a CTS, counted from the end of the RTS; the same length.
    pub cts_timeout: Span,
}

/// Duration fields (NAV) and total lengths of a frame exchange.
impl Phy {
    /// The Duration field of a data frame sent without RTS: SIFS and the ACK.
    pub fn nav_data(&self, rate: Rate) -> Span {
        self.sifs() + self.response(rate).ack
    }

    /// The Duration field of the RTS before a data frame that lasts `data`: CTS, data, ACK and
    /// three SIFS (IEEE 802.11-2020 §9.2.5.2).
    pub fn nav_rts(&self, rate: Rate, data: Span) -> Span {
        let r = self.response(rate);
        self.sifs() * 3 + r.cts + data + r.ack
    }

    /// The Duration field of the CTS that answers an RTS whose field was `nav_rts`.
    pub fn nav_cts(&self, rate: Rate, nav_rts: Span) -> Span {
        nav_rts.saturating_sub(self.sifs() + self.response(rate).cts)
    }

    /// How long after the end of an RTS overheard at `rts_rate` a station may drop the NAV it set
    /// for it, if no frame has begun: 2 SIFS + CTS + aRxPHYStartDelay + 2 slots
    /// (IEEE 802.11-2020 §10.3.2.4).
    pub fn nav_reset(&self, rts_rate: Rate) -> Span {
        let start = self.info(rts_rate).waveform.rx_start_delay();
        self.sifs() * 2 + self.airtime(rts_rate, CTS) + start + self.slot() * 2
    }

    /// From the first bit of data (or RTS) to the last bit of the ACK, when nothing fails.
    pub fn exchange(&self, rate: Rate, psdu: u32, rts: bool) -> Span {
        let r = self.response(rate);
        let bare = self.airtime(rate, psdu) + self.sifs() + r.ack;
        if rts { r.rts + r.cts + self.sifs() * 2 + bare } else { bare }
    }
}

/// Durations by rate and size, looked up instead of computed.
#[derive(Clone, Debug)]
pub struct AirtimeTable {
    nanos: Vec<u32>,
    waveforms: Vec<Waveform>,
}

impl AirtimeTable {
    /// One row of [`MAX_PSDU`]` + 1` sizes per rate of `phy`.
    pub fn new(phy: &Phy) -> Self {
        let waveforms: Vec<Waveform> = phy.rates().map(|r| phy.info(r).waveform).collect();
        let nanos = waveforms
            .iter()
            // At 1 Mbit/s the longest frame lasts 19 ms; u32 holds 4.2 s.
            .flat_map(|w| (0..=MAX_PSDU).map(|b| w.duration(b).as_nanos() as u32))
            .collect();
        AirtimeTable { nanos, waveforms }
    }

    /// The same as [`Phy::airtime`]; sizes beyond [`MAX_PSDU`] are computed.
    ///
    /// # Panics
    /// If `rate` is not one of the PHY's.
    pub fn airtime(&self, rate: Rate, bytes: u32) -> Span {
        if bytes > MAX_PSDU {
            return self.waveforms[rate.index()].duration(bytes);
        }
        let i = rate.index() * (MAX_PSDU as usize + 1) + bytes as usize;
        Span::from_nanos(u64::from(self.nanos[i]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phy::{Compatibility, Preamble};
    use fairmesh_units::BitRate;
    use proptest::prelude::*;

    const US: fn(u64) -> Span = Span::from_micros;

    #[test]
    fn durations_of_802_11b() {
        let phy = Phy::dot11b(Preamble::Long);
        let [r1, r2, r55, r11] = [0, 1, 2, 3].map(Rate);
        // 1500 bytes of UDP payload: 1564-byte MPDU.
        assert_eq!(phy.airtime(r1, 1564), US(192 + 12_512));
        assert_eq!(phy.airtime(r11, 1564), US(192 + 1138)); // 1137.45 rounded up
        assert_eq!(phy.airtime(r55, 1564), US(192 + 2275)); // 2274.9 rounded up
        assert_eq!(phy.airtime(r1, ACK), US(304));
        assert_eq!(phy.airtime(r2, ACK), US(248));
        assert_eq!(phy.airtime(r2, RTS), US(272));
        let short = Phy::dot11b(Preamble::Short);
        assert_eq!(short.airtime(r1, ACK), US(304), "1 Mbit/s has no short preamble");
        assert_eq!(short.airtime(r2, ACK), US(96 + 56));
        assert_eq!(short.airtime(r11, 1564), US(96 + 1138));
    }

    #[test]
    fn durations_of_ofdm() {
        let a = Phy::dot11a();
        let at = |mbps: u64| a.rate(BitRate(mbps * 1_000_000)).unwrap();
        assert_eq!(a.airtime(at(6), ACK), US(44));
        assert_eq!(a.airtime(at(24), ACK), US(28));
        // 16 + 12288 + 6 bits are 56.99 symbols of 216.
        assert_eq!(a.airtime(at(54), 1536), US(20 + 4 * 57));
        let g = Phy::dot11g(Compatibility::Pure);
        let g54 = g.rate(BitRate(54_000_000)).unwrap();
        assert_eq!(g.airtime(g54, 1536), US(20 + 4 * 57 + 6));
    }

    #[test]
    fn timeouts_and_navs_of_802_11b() {
        let phy = Phy::dot11b(Preamble::Long);
        let (r1, r11) = (Rate(0), Rate(3));
        for r in phy.rates() {
            assert_eq!(phy.response(r).ack_timeout, US(222));
            assert_eq!(phy.response(r).cts_timeout, US(222));
        }
        assert_eq!(phy.nav_data(r1), US(10 + 304));
        assert_eq!(phy.nav_data(r11), US(10 + 248));
        let data = phy.airtime(r11, 1564);
        let nav = phy.nav_rts(r11, data);
        assert_eq!(nav, US(30 + 248 + 1330 + 248));
        // What is left after SIFS and the CTS: SIFS, data, SIFS, ACK.
        assert_eq!(phy.nav_cts(r11, nav), US(20 + 1330 + 248));
        assert_eq!(phy.nav_reset(Rate(1)), US(20 + 248 + 192 + 40));
        assert_eq!(phy.exchange(r11, 1564, false), US(1330 + 10 + 248));
        assert_eq!(phy.exchange(r11, 1564, true), US(272 + 10 + 248 + 10 + 1330 + 10 + 248));
    }

    #[test]
    fn timeouts_of_the_other_phys() {
        let a = Phy::dot11a();
        assert_eq!(a.response(Rate(7)).ack_timeout, US(16 + 9 + 20));
        let short = Phy::dot11b(Preamble::Short);
        assert_eq!(short.response(Rate(0)).ack_timeout, US(222));
        assert_eq!(short.response(Rate(3)).ack_timeout, US(10 + 20 + 96));
    }

    proptest! {
        #[test]
        fn table_agrees_with_the_formula(bytes in 0u32..4000, kind in 0usize..5) {
            let phy = match kind {
                0 => Phy::dot11b(Preamble::Long),
                1 => Phy::dot11b(Preamble::Short),
                2 => Phy::dot11a(),
                3 => Phy::dot11g(Compatibility::Pure),
                _ => Phy::dot11g(Compatibility::WithB(Preamble::Long)),
            };
            let table = AirtimeTable::new(&phy);
            for r in phy.rates() {
                prop_assert_eq!(table.airtime(r, bytes), phy.airtime(r, bytes));
                prop_assert!(phy.airtime(r, bytes) <= phy.airtime(r, bytes + 1));
                // Never faster than the nominal rate.
                let ideal = phy.bit_rate(r).time_for(u64::from(bytes));
                prop_assert!(phy.airtime(r, bytes) >= ideal);
            }
        }
    }
}
