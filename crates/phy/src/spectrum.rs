//! Channels, and the power that a radio on one of them leaks into receivers on another.
//!
//! A transmitter is assumed to use all that its standard permits: its power follows the transmit
//! spectral mask up to the frequency at which the mask ends, and is zero beyond. A receiver takes
//! the power within its own width.
//!
//! Sources: IEEE 802.11-2020 §15.4.4.5 (DSSS), §16.3.7.4 (HR/DSSS), §17.3.9.3 (OFDM), §19.3.18.1
//! (HT), §21.3.17.1 (VHT); IEEE 802.11ax-2021 §27.3.19.1 (HE). The masks of 40 MHz and more are
//! scaled from that of 20 MHz.

/// Band occupied by a radio's channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Occupied {
    /// Centre of the occupied band, MHz.
    pub middle_mhz: u32,
    /// Width, MHz.
    pub width_mhz: u32,
    /// True for DSSS (802.11b), false for OFDM.
    pub spread: bool,
}

/// Width of an 802.11b channel between the ends of its mask's main lobe, MHz.
const SPREAD_MHZ: u32 = 22;

impl Occupied {
    /// Returns the channel of a number with the requested width, MHz; `None` if no band has it.
    ///
    /// At 5 GHz wide channels lie as in IEEE 802.11-2020 Annex E, around the primary one; at 2.4 GHz the
    /// second 20 MHz are above channels up to 7, and below the others.
    pub fn of(number: u32, width_mhz: u32, spread: bool) -> Option<Self> {
        let width_mhz = if spread { SPREAD_MHZ } else { width_mhz };
        let middle_mhz = match number {
            1..=13 => {
                let primary = 2407 + 5 * number;
                match (width_mhz, number) {
                    (40, ..=7) => primary + 10,
                    (40, _) => primary - 10,
                    _ => primary,
                }
            }
            36..=165 => {
                let first = match number {
                    36..=64 => 36,
                    100..=144 => 100,
                    149..=165 => 149,
                    _ => return None,
                };
                let place = (number - first) / 4;
                let wide = (width_mhz / 20).max(1);
                let start = first + place / wide * wide * 4;
                5000 + 5 * start + 10 * (wide - 1)
            }
            _ => return None,
        };
        Some(Occupied { middle_mhz, width_mhz, spread })
    }

    /// Returns the mask `offset` MHz from the centre, dB below its top; `None` beyond its end.
    fn mask(&self, offset: f64) -> Option<f64> {
        let offset = libm::fabs(offset);
        if self.spread {
            return match offset {
                o if o <= 11.0 => Some(0.0),
                o if o <= 22.0 => Some(30.0),
                _ => None,
            };
        }
        let width = f64::from(self.width_mhz);
        let half = width / 2.0;
        // Corner, dB: flat to 1 MHz before the edge, 20 dB down 1 MHz after it.
        let corners =
            [(0.0, 0.0), (half - 1.0, 0.0), (half + 1.0, 20.0), (width, 28.0), (1.5 * width, 40.0)];
        let at = corners.windows(2).find(|c| offset <= c[1].0)?;
        let ((a, from), (b, to)) = (at[0], at[1]);
        Some(from + (to - from) * (offset - a) / (b - a))
    }

    /// Returns the power between two offsets from the centre, MHz, in units of the mask's top.
    fn between(&self, low: f64, high: f64) -> f64 {
        /// Integration steps per MHz.
        const FINE: f64 = 20.0;
        let steps = libm::round((high - low) * FINE) as u32;
        let at = |k: u32| low + (f64::from(k) + 0.5) / FINE;
        let density = |k| self.mask(at(k)).map_or(0.0, |db| libm::pow(10.0, -db / 10.0));
        (0..steps).map(density).sum::<f64>() / FINE
    }

    /// Returns the attenuation at a receiver on `other` relative to one on this channel, in dB.
    ///
    /// `None` if no power reaches it.
    pub fn leak(&self, other: &Occupied) -> Option<f64> {
        let apart = f64::from(other.middle_mhz) - f64::from(self.middle_mhz);
        let (own, half) = (1.5 * f64::from(self.width_mhz), f64::from(other.width_mhz) / 2.0);
        let taken = self.between(apart - half, apart + half);
        if taken <= 0.0 {
            return None;
        }
        Some(-10.0 * libm::log10((taken / self.between(-own, own)).min(1.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leak(a: u32, b: u32, width: u32) -> Option<f64> {
        let of = |n| Occupied::of(n, width, false).unwrap();
        of(a).leak(&of(b))
    }

    #[test]
    fn channel_centres_follow_the_standard() {
        let middle = |n, w| Occupied::of(n, w, false).map(|o| o.middle_mhz);
        // Annex E: channel centre frequency indices 42, 50, 58, 106, 155; channel 6 is 2437 MHz.
        assert_eq!(middle(6, 20), Some(2437));
        assert_eq!(middle(36, 20), Some(5180));
        assert_eq!(middle(40, 40), Some(5190));
        assert_eq!(middle(48, 80), Some(5000 + 5 * 42));
        assert_eq!(middle(36, 160), Some(5000 + 5 * 50));
        assert_eq!(middle(60, 80), Some(5000 + 5 * 58));
        assert_eq!(middle(100, 80), Some(5000 + 5 * 106));
        assert_eq!(middle(149, 80), Some(5000 + 5 * 155));
        assert_eq!((middle(14, 20), middle(68, 20), middle(170, 20)), (None, None, None));
    }

    #[test]
    fn leakage_falls_with_channel_distance_to_zero() {
        // All of the power, except for the part outside its own width.
        assert!(leak(36, 36, 20).unwrap() < 0.1);
        let steps: Vec<f64> = (1..=8).map(|n| leak(1, n, 20).unwrap()).collect();
        assert!(steps.windows(2).all(|w| w[0] < w[1]), "{steps:?}");
        // 5 MHz apart three quarters overlap: 1.2 dB; 20 MHz apart little more than the mask at 20
        // dB.
        assert!((steps[1] - 1.2).abs() < 0.15, "{steps:?}");
        let next = leak(36, 40, 20).unwrap();
        assert!((22.0..27.0).contains(&next), "{next}");
        // Beyond one and a half widths no power remains: 1 and 11, 36 and 48.
        assert_eq!((leak(1, 11, 20), leak(36, 48, 20), leak(36, 149, 20)), (None, None, None));
        // 802.11b: 1 and 6 are 25 MHz apart: main lobes do not overlap, side lobes do.
        let b = |n| Occupied::of(n, 20, true).unwrap();
        assert!(b(1).leak(&b(6)).unwrap() > 30.0);
        assert_eq!(b(1).leak(&b(11)), None);
    }

    #[test]
    fn wide_channels_reach_wider() {
        let wide = Occupied::of(36, 80, false).unwrap();
        let near = Occupied::of(52, 20, false).unwrap();
        assert!(wide.leak(&near).is_some());
        // A narrow receiver within a wide channel takes a quarter of its power: 6 dB.
        let within = Occupied::of(40, 20, false).unwrap();
        assert!((wide.leak(&within).unwrap() - 6.0).abs() < 0.2);
    }
}
