//! Durations of frame exchanges, and network allocation values (docs/models/airtime.md).

use fairmesh_units::Span;

use crate::frame::CTS;
use crate::phy::Phy;
use crate::rates::Rate;

/// Duration fields (NAV) and total lengths of frame exchanges.
impl Phy {
    /// Returns the Duration field of a data frame sent without RTS: SIFS and the ACK.
    pub fn nav_data(&self, rate: Rate) -> Span {
        self.sifs() + self.response(rate).ack
    }

    /// Returns the Duration field of the RTS before a data frame that lasts `data`.
    ///
    /// The response lasts `response`; the field covers CTS, data, response and three SIFS (IEEE 802.11-2020 §9.2.5.2).
    pub fn nav_rts(&self, rate: Rate, data: Span, response: Span) -> Span {
        self.sifs() * 3 + self.response(rate).cts + data + response
    }

    /// Returns the Duration field of the CTS that responds to an RTS with the field `nav_rts`.
    pub fn nav_cts(&self, rate: Rate, nav_rts: Span) -> Span {
        nav_rts.saturating_sub(self.sifs() + self.response(rate).cts)
    }

    /// Returns the time after which a station may reset the NAV set by an overheard RTS.
    ///
    /// From the end of the RTS at `rts_rate`, if no frame has begun. It is 2 SIFS + CTS +
    /// aRxPHYStartDelay + 2 slots (IEEE 802.11-2020 §10.3.2.4).
    pub fn nav_reset(&self, rts_rate: Rate) -> Span {
        let start = self.info(rts_rate).waveform.rx_start_delay();
        self.sifs() * 2 + self.airtime(rts_rate, CTS) + start + self.slot() * 2
    }

    /// Returns the time from the first bit of data (or RTS) to the last bit of the ACK.
    ///
    /// Without failures.
    pub fn exchange(&self, rate: Rate, psdu: u32, rts: bool) -> Span {
        let r = self.response(rate);
        let bare = self.airtime(rate, psdu) + self.sifs() + r.ack;
        if rts { r.rts + r.cts + self.sifs() * 2 + bare } else { bare }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{ACK, RTS};
    use crate::{Compatibility, Preamble};
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
        let nav = phy.nav_rts(r11, data, phy.response(r11).ack);
        assert_eq!(nav, US(30 + 248 + 1330 + 248));
        // The time left after SIFS and the CTS: SIFS, data, SIFS, ACK.
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
        fn durations_grow_with_size_and_are_never_below_the_nominal_rate(bytes in 0u32..4000, kind in 0usize..5) {
            let phy = match kind {
                0 => Phy::dot11b(Preamble::Long),
                1 => Phy::dot11b(Preamble::Short),
                2 => Phy::dot11a(),
                3 => Phy::dot11g(Compatibility::Pure),
                _ => Phy::dot11g(Compatibility::WithB(Preamble::Long)),
            };
            for r in phy.rates() {
                prop_assert!(phy.airtime(r, bytes) <= phy.airtime(r, bytes + 1));
                // Not below the nominal duration.
                let ideal = phy.bit_rate(r).time_for(u64::from(bytes));
                prop_assert!(phy.airtime(r, bytes) >= ideal);
            }
        }
    }
}
