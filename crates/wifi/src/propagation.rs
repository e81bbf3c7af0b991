//! Received power and delay from distance.
//!
//! The `ns2` profile is the two-ray ground model with the 914 MHz radio that ns-2 ships: frames
//! decode up to 250 m, are sensed and interfere up to 550 m, and have no effect beyond, not even as
//! summed noise. The `graph` profile has two flat levels only.
//!
//! Sources: Rappaport, *Wireless Communications*, §4.6 (two-ray model, crossover distance);
//! Jamshaid 2010 §3.1.2 (ranges and radio).

use fairmesh_units::{Distance, Power, Span};

/// Speed of light in vacuum, m/s.
const SPEED_OF_LIGHT: f64 = 299_792_458.0;
/// Transmit power of ns-2's radio, W (24.5 dBm).
const TRANSMIT_WATTS: f64 = 0.281_838_15;
/// Carrier wavelength of ns-2's radio, m: 914 MHz with light at 3e8 m/s, as ns-2 computes it.
const WAVELENGTH: f64 = 3e8 / 914e6;
/// Height of both antennas above ground, in m.
const ANTENNA_HEIGHT: f64 = 1.5;
/// Minimum distance between antennas, m: the models diverge at zero.
const MIN_DISTANCE: f64 = 1.0;
/// Slack on range comparisons, m, so that nodes placed exactly at the range are within it.
const RANGE_SLACK: f64 = 1e-6;

/// Power of every decodable frame with flat levels, in dBm.
pub const FLAT_DECODE_DBM: f64 = -60.0;
/// Power of every frame that is sensed but not decoded with flat levels, in dBm.
///
/// It is less than the usual 10 dB capture margin below [`FLAT_DECODE_DBM`], so any overlap destroys a frame.
pub const FLAT_SENSE_DBM: f64 = -65.0;

/// Power above which frames are detected, in dBm.
///
/// It is the sensitivity at the lowest rate, and the level at which carrier sense must detect a
/// frame, for 20 MHz (IEEE 802.11-2020 §17.3.10.2, §17.3.10.6).
pub const SENSITIVITY_DBM: f64 = -82.0;

/// Path loss model.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Law {
    /// Free space up to the crossover distance (86 m), fourth power beyond.
    TwoRayGround,
    /// [`FLAT_DECODE_DBM`] within decode range, [`FLAT_SENSE_DBM`] within sense range.
    Flat,
    /// A power of the distance.
    LogDistance(LogDistance),
}

/// Log-distance path loss (Rappaport §4.9.1): free space for the first metre.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LogDistance {
    /// Transmit power with antenna gains, in dBm.
    pub power_dbm: f64,
    /// Path loss exponent: 2 in free space, 3 to 4 among houses.
    pub exponent: f64,
    /// Carrier frequency, Hz.
    pub carrier: f64,
}

impl LogDistance {
    /// Returns the power received at a distance, in dBm.
    pub fn dbm(&self, distance: Distance) -> f64 {
        let d = distance.0.max(MIN_DISTANCE);
        self.power_dbm - self.first_metre() - 10.0 * self.exponent * libm::log10(d)
    }

    /// Returns the distance at which the power has fallen to `dbm`; at least a metre.
    pub fn reach(&self, dbm: f64) -> Distance {
        let loss = self.power_dbm - self.first_metre() - dbm;
        Distance(libm::pow(10.0, (loss / (10.0 * self.exponent)).max(0.0)))
    }

    /// Returns the free-space loss over a metre, in dB.
    fn first_metre(&self) -> f64 {
        20.0 * libm::log10(4.0 * core::f64::consts::PI * self.carrier / SPEED_OF_LIGHT)
    }
}

/// A propagation model: path loss and two ranges.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Propagation {
    /// Path loss model.
    pub law: Law,
    /// Maximum distance at which frames decode.
    pub decode: Distance,
    /// Maximum distance at which frames are sensed and interfere; at least `decode`.
    pub sense: Distance,
}

impl Propagation {
    /// The `ns2` profile: two-ray ground, 250 m and 550 m.
    pub const NS2: Propagation =
        Propagation { law: Law::TwoRayGround, decode: Distance(250.0), sense: Distance(550.0) };

    /// Returns the power at a distance, and true if a receiver there can decode.
    ///
    /// For a frame without interference; `None` beyond sense range.
    pub fn received(&self, distance: Distance) -> Option<(Power, bool)> {
        if distance.0 > self.sense.0 + RANGE_SLACK {
            return None;
        }
        let decodes = distance.0 <= self.decode.0 + RANGE_SLACK;
        let power = match self.law {
            Law::TwoRayGround => two_ray_ground(distance),
            Law::Flat => flat(decodes),
            Law::LogDistance(law) => Power::from_dbm(law.dbm(distance)),
        };
        Some((power, decodes))
    }
}

/// Returns the flat power level of a decodable frame, or of one that is only sensed.
pub fn flat(decodes: bool) -> Power {
    Power::from_dbm(if decodes { FLAT_DECODE_DBM } else { FLAT_SENSE_DBM })
}

/// Returns the power received over flat ground, with ns-2's radio.
///
/// Antenna gains and system loss are 1.
///
/// P·(λ/4πd)² up to the crossover distance 4πh²/λ, P·h⁴/d⁴ from there on.
pub fn two_ray_ground(distance: Distance) -> Power {
    use core::f64::consts::PI;
    let d = distance.0.max(MIN_DISTANCE);
    let crossover = 4.0 * PI * ANTENNA_HEIGHT * ANTENNA_HEIGHT / WAVELENGTH;
    let gain = if d < crossover {
        let g = WAVELENGTH / (4.0 * PI * d);
        g * g
    } else {
        let g = ANTENNA_HEIGHT / d;
        g * g * g * g
    };
    Power::from_watts(TRANSMIT_WATTS * gain)
}

/// Returns the propagation time of the distance, in whole nanoseconds, rounded.
pub fn delay(distance: Distance) -> Span {
    Span::from_nanos((distance.0 / SPEED_OF_LIGHT * 1e9 + 0.5) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_of_the_ns2_radio() {
        // ns-2's own constants for this radio: RXThresh 3.652e-10 W at 250 m, CSThresh 1.559e-11 W
        // at 550 m.
        let watts = |d| two_ray_ground(Distance(d)).as_watts();
        assert!((watts(250.0) / 3.652e-10 - 1.0).abs() < 1e-3);
        assert!((watts(550.0) / 1.559e-11 - 1.0).abs() < 1e-3);
    }

    #[test]
    fn an_interferer_at_twice_the_distance_is_12_db_below() {
        let db =
            two_ray_ground(Distance(200.0)).as_dbm() - two_ray_ground(Distance(400.0)).as_dbm();
        assert!((db - 12.04).abs() < 0.01);
    }

    /// Free space (Friis) up to the crossover at 86.1 m:
    /// 6 dB per doubling, and its power at 80 m.
    #[test]
    fn short_links_are_in_free_space() {
        let dbm = |d| two_ray_ground(Distance(d)).as_dbm();
        assert!((dbm(40.0) - dbm(80.0) - 6.02).abs() < 0.01);
        let (wave, watts) = (0.328_228, 0.281_838_15);
        let friis = watts * (wave / (4.0 * core::f64::consts::PI * 80.0f64)).powi(2);
        assert!((dbm(80.0) - 10.0 * (friis * 1e3).log10()).abs() < 0.01);
    }

    #[test]
    fn the_two_laws_meet_at_the_crossover() {
        let near = two_ray_ground(Distance(86.14)).as_dbm();
        let far = two_ray_ground(Distance(86.15)).as_dbm();
        assert!((near - far).abs() < 0.01 && near > far);
    }

    #[test]
    fn ranges_are_inclusive_and_nothing_is_received_beyond() {
        let p = Propagation::NS2;
        assert!(p.received(Distance(250.0)).unwrap().1);
        assert!(!p.received(Distance(250.1)).unwrap().1);
        assert!(p.received(Distance(550.0)).is_some());
        assert!(p.received(Distance(550.1)).is_none());
        assert_eq!(p.received(Distance(0.0)), p.received(Distance(1.0)));
    }

    #[test]
    fn flat_levels_are_within_the_capture_margin() {
        let p = Propagation { law: Law::Flat, ..Propagation::NS2 };
        let (near, _) = p.received(Distance(10.0)).unwrap();
        let (far, decodes) = p.received(Distance(500.0)).unwrap();
        assert!(!decodes);
        assert!((near.as_dbm() - far.as_dbm() - 5.0).abs() < 1e-6);
    }

    #[test]
    fn light_takes_667_ns_for_200_m() {
        assert_eq!(delay(Distance(200.0)), Span::from_nanos(667));
        assert_eq!(delay(Distance(250.0)), Span::from_nanos(834)); // 833.9
        assert_eq!(delay(Distance(0.0)), Span::ZERO);
    }
}
