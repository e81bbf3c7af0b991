//! Airtime cost of packets.

use fairmesh_phy::frame::DATA_OVERHEAD;
use fairmesh_phy::{Phy, Rate};
use fairmesh_units::{BitRate, Span};
use fairmesh_wifi::{MacConfig, SendReport};

/// Airtime cost of packets, including gaps and mean backoff.
#[derive(Clone, Debug)]
pub(crate) struct Cost {
    phy: Phy,
    llc_bytes: u32,
    rts_threshold: u32,
}

impl Cost {
    pub fn new(mac: &MacConfig) -> Self {
        Cost {
            phy: mac.phy.clone(),
            llc_bytes: mac.llc_bytes,
            rts_threshold: mac.rts_threshold.unwrap_or(u32::MAX),
        }
    }

    fn psdu(&self, ip: u32) -> u32 {
        ip + self.llc_bytes + DATA_OVERHEAD
    }

    /// Returns a DIFS before each of `attempts` attempts, and the mean initial backoff.
    ///
    /// Jang 2010 §4. The longer backoffs of retries are idle time that other stations use, so they
    /// are not airtime.
    fn access(&self, attempts: u32) -> Span {
        self.phy.difs() * u64::from(attempts) + self.backoff()
    }

    /// Returns the mean initial backoff, counted once in every packet's cost.
    pub fn backoff(&self) -> Span {
        let slots = u64::from(self.phy.timing().cw_min);
        Span::from_nanos(self.phy.slot().as_nanos() * slots / 2)
    }

    /// Returns the cost of a unicast packet delivered at the first attempt.
    pub fn expected(&self, ip: u32, rate: Rate) -> Span {
        let psdu = self.psdu(ip);
        self.access(1) + self.phy.exchange(rate, psdu, psdu >= self.rts_threshold)
    }

    /// Returns the actual cost of a packet.
    ///
    /// It covers every attempt, the initial backoff, and the responses.
    pub fn actual(&self, report: &SendReport) -> Span {
        let attempts = report.data_attempts.max(report.rts_attempts);
        // SIFS before each response that arrived, and before the data that followed a CTS.
        let answered = u64::from(report.packet.link.is_some());
        let gaps = if report.rts_attempts > 0 { 2 * report.data_attempts } else { 0 };
        self.access(attempts) + report.airtime + self.phy.sifs() * (answered + u64::from(gaps))
    }

    /// Returns the airtime of `bytes` additional bytes in each of a packet's data frames.
    pub fn extra(&self, ip: u32, bytes: u32, rate: Rate, attempts: u32) -> Span {
        let without = self.phy.airtime(rate, self.psdu(ip.saturating_sub(bytes)));
        self.phy.airtime(rate, self.psdu(ip)).saturating_sub(without) * u64::from(attempts)
    }

    pub fn bit_rate(&self, rate: Rate) -> BitRate {
        self.phy.bit_rate(rate)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use fairmesh_phy::Preamble;
    use fairmesh_wifi::{LinkId, Outcome, Outgoing};

    pub fn cost() -> Cost {
        Cost { phy: Phy::dot11b(Preamble::Long), llc_bytes: 8, rts_threshold: u32::MAX }
    }

    /// Returns a report of a packet of 1500 bytes that arrived at the last of these attempts.
    pub fn report(packet: u32, attempts: u32, rate: u8) -> SendReport {
        let phy = cost().phy;
        let frames = phy.airtime(Rate(rate), 1536) * u64::from(attempts);
        SendReport {
            packet: Outgoing { packet, link: Some(LinkId(0)), bytes: 1500 },
            outcome: Outcome::Sent,
            data_attempts: attempts,
            rts_attempts: 0,
            rate: Rate(rate),
            airtime: frames + phy.response(Rate(rate)).ack,
            service: Span::ZERO,
        }
    }

    /// 802.11b at 11 Mbit/s: DIFS 50, mean backoff 310, 192 + 1536 bytes, SIFS 10, ACK 248 µs.
    pub const ONE: Span = Span::from_micros(50 + 310 + 192 + 1118 + 10 + 248);

    #[test]
    fn a_packet_costs_frames_gaps_backoff_and_answer() {
        assert_eq!(cost().expected(1500, Rate(3)), ONE);
        assert_eq!(cost().actual(&report(0, 1, 3)), ONE);
        // The second attempt waits a DIFS and sends the frame again.
        let again = Span::from_micros(50 + 192 + 1118);
        assert_eq!(cost().actual(&report(0, 2, 3)), ONE + again);
        assert!(cost().actual(&report(0, 1, 0)) > ONE * 5, "1 Mbit/s");
        assert_eq!(cost().extra(1500, 11, Rate(3), 2), Span::from_micros(16));
    }
}
