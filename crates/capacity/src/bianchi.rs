//! Saturated stations in one cell: Bianchi's fixed point, with a retry limit.
//!
//! G. Bianchi, "Performance analysis of the IEEE 802.11 distributed coordination function", IEEE
//! JSAC 18(3), 2000, with the finite number of attempts of H. Wu et al., INFOCOM 2002. Every
//! station senses every other and always has a frame to send.

use fairmesh_phy::{Phy, PhyTiming, Rate};

use crate::link::{Access, Traffic};

/// The steady state of n saturated stations.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Saturation {
    /// Probability that a station transmits in a slot (Bianchi's τ).
    pub attempt: f64,
    /// Probability that an attempt collides (Bianchi's p).
    pub collision: f64,
    /// Probability that a frame is dropped at the retry limit.
    pub drop: f64,
    /// Goodput of all stations together in bit/s of payload.
    pub goodput: f64,
}

/// Returns the attempts per slot of a station at collision probability `p`.
///
/// These are attempts per frame over slots per frame. A stage lasts the slot of its attempt and (W_i − 1)/2
/// slots of backoff.
fn attempt_probability(t: &PhyTiming, attempts: u32, p: f64) -> f64 {
    let (mut timing, mut slots) = (0.0, 0.0);
    let (mut reached, mut cw) = (1.0, t.cw_min);
    for _ in 0..attempts {
        timing += reached;
        slots += reached * (1.0 + f64::from(cw) / 2.0);
        reached *= p;
        cw = t.next_cw(cw);
    }
    timing / slots
}

/// Returns `x` to the power `n` by libm, for equal rounding on all machines.
fn pow(x: f64, n: u32) -> f64 {
    libm::pow(x, f64::from(n))
}

/// Solves the fixed point for stations that send the forward frames of `traffic` at `rate`.
///
/// A collision occupies the channel for the data frame (or the RTS) and EIFS, which every other
/// station waits. The colliding stations may return slightly earlier, after their ACK timeout and
/// DIFS.
pub fn saturation(
    phy: &Phy,
    rate: Rate,
    traffic: &Traffic,
    access: Access,
    stations: u32,
) -> Saturation {
    let t = phy.timing();
    // With RTS, collisions hit RTS frames; without, data frames: the short limit applies to both.
    let attempts = t.short_retry_limit;
    let tau = |p| attempt_probability(t, attempts, p);
    if stations == 0 {
        return Saturation { attempt: tau(0.0), collision: 0.0, drop: 0.0, goodput: 0.0 };
    }
    // 1 − (1 − τ(p))^(n−1) falls with p, so it crosses p exactly once.
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..100 {
        let p = 0.5 * (low + high);
        if 1.0 - pow(1.0 - tau(p), stations - 1) > p {
            low = p;
        } else {
            high = p;
        }
    }
    let p = if stations == 1 { 0.0 } else { 0.5 * (low + high) };
    let tau = tau(p);

    let rts = access == Access::RtsCts;
    let colliding = if rts { phy.response(rate).rts } else { phy.airtime(rate, traffic.psdu) };
    let success = (phy.exchange(rate, traffic.psdu, rts) + t.difs).as_secs_f64();
    let collision = (colliding + t.eifs).as_secs_f64();
    let idle = pow(1.0 - tau, stations);
    let one = f64::from(stations) * tau * pow(1.0 - tau, stations - 1);
    let slot =
        idle * t.slot.as_secs_f64() + one * success + (1.0 - idle - one).max(0.0) * collision;
    Saturation {
        attempt: tau,
        collision: p,
        drop: pow(p, attempts),
        goodput: one * f64::from(8 * traffic.payload) / slot,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::saturated_goodput;
    use fairmesh_phy::Preamble;

    const R1: Rate = Rate(0);
    const R11: Rate = Rate(3);

    fn kbps(rate: Rate, access: Access, n: u32) -> f64 {
        let phy = Phy::dot11b(Preamble::Long);
        saturation(&phy, rate, &Traffic::udp(1500, true), access, n).goodput / 1e3
    }

    /// ns-3.37, 802.11b, 1500 bytes of payload: measured goodput, mean of five seeds (kb/s).
    #[test]
    fn agrees_with_ns3() {
        let measured = [
            (R11, [(2, 6439.8), (5, 6286.5), (10, 5919.8), (20, 5463.8), (50, 4769.2)]),
            (R1, [(2, 880.8), (5, 824.2), (10, 769.5), (20, 705.2), (50, 616.0)]),
        ];
        for (rate, cases) in measured {
            for (n, expected) in cases {
                let got = kbps(rate, Access::Basic, n);
                let tolerance = if n == 50 { 0.025 } else { 0.01 };
                assert!((got / expected - 1.0).abs() < tolerance, "{n}: {got}, {expected}");
            }
        }
    }

    /// Solutions of the same equations by an independent program (to 0.1 kb/s).
    #[test]
    fn agrees_with_an_independent_solution() {
        let expected = [(2, 6470.6), (5, 6327.0), (10, 5945.6), (20, 5460.5), (50, 4702.5)];
        for (n, kb) in expected {
            assert!((kbps(R11, Access::Basic, n) - kb).abs() < 0.06);
        }
        let expected = [(2, 880.5), (5, 825.9), (10, 766.5), (20, 700.1), (50, 601.4)];
        for (n, kb) in expected {
            assert!((kbps(R1, Access::Basic, n) - kb).abs() < 0.06);
        }
    }

    #[test]
    fn one_station_is_the_lone_link() {
        let phy = Phy::dot11a();
        for access in [Access::Basic, Access::RtsCts] {
            for rate in phy.rates() {
                let udp = Traffic::udp(700, true);
                let s = saturation(&phy, rate, &udp, access, 1);
                let lone = saturated_goodput(&phy, rate, &udp, access);
                assert!((s.goodput / lone - 1.0).abs() < 1e-9);
                assert_eq!((s.collision, s.drop), (0.0, 0.0));
            }
        }
    }

    #[test]
    fn rts_pays_off_in_large_cells_only() {
        let gain = |n| kbps(R1, Access::RtsCts, n) / kbps(R1, Access::Basic, n);
        assert!(gain(1) < 1.0);
        assert!(gain(50) > 1.2);
    }

    #[test]
    fn the_fixed_point_is_unique() {
        let phy = Phy::dot11b(Preamble::Long);
        for n in [2, 3, 10, 100, 1000] {
            let s = saturation(&phy, R1, &Traffic::udp(1500, true), Access::Basic, n);
            let p = 1.0 - (1.0 - s.attempt).powi(n as i32 - 1);
            assert!((p - s.collision).abs() < 1e-9);
            assert!((s.drop - s.collision.powi(7)).abs() < 1e-9);
        }
        assert_eq!(saturation(&phy, R1, &Traffic::udp(1, true), Access::Basic, 0).goodput, 0.0);
    }
}
