//! Errors by signal-to-noise ratio: bit error tables per rate, thermal noise, block fading.
//!
//! Closed form of the NIST model (docs/models/frame-errors.md): uncoded bit error ratio of square
//! Gray-coded constellations in white noise (Proakis, *Digital Communications*, §4.3), and the union
//! bound on the first error events of a hard-decision Viterbi decoder of the code (133, 171) with its
//! punctured rates. Distance spectra: Frenger, Orten, Ottosson and Svensson, *Multi-rate convolutional
//! codes*, Chalmers 1998 (1/2, 2/3, 3/4); Haccoun and Bégin, *IEEE Trans. Commun.* 37(11), 1989 (5/6).

use std::sync::Arc;

use fairmesh_phy::Waveform;
use fairmesh_phy::{Modulation, Phy, Rate};
use fairmesh_units::{Decibel, Power, Stream};

use super::LossError;

/// Boltzmann's constant times 290 K, W/Hz.
///
/// IEEE 802.11-2020 §17.3.10.2 assumes the same temperature.
const THERMAL_NOISE_DENSITY: f64 = 1.380_649e-23 * 290.0;
/// The table's first and last signal-to-noise ratio, dB, and its steps per dB.
const FROM_DB: f64 = -10.0;
const TO_DB: f64 = 60.0;
const PER_DB: f64 = 16.0;
/// Natural logarithm of a probability too small to be observed.
const LN_NEGLIGIBLE: f64 = -700.0;
/// The legacy preamble before the first SIGNAL symbol, ns (IEEE 802.11-2020 §17.3.3).
const PREAMBLE_NS: u32 = 16_000;
/// A SIGNAL symbol: BPSK at rate 1/2 (§17.3.4, §19.3.9.4.3).
const SIGNAL: (u32, u64) = (4_000, 24);
/// Number of quantiles of the fading distribution over which a mean is taken.
const FADING_QUANTILES: usize = 256;

/// Deviation of a frame's power from its link's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Fading {
    /// No deviation.
    #[default]
    None,
    /// An exponential factor of mean one, drawn for each frame and constant throughout it.
    ///
    /// This is Rayleigh fading in blocks.
    Rayleigh,
}

/// Per rate: ln of the probability that a bit begins an error, by signal-to-noise ratio.
#[derive(Clone, Debug)]
pub struct SnrTable {
    rows: Vec<Row>,
    signal: Vec<f64>,
}

#[derive(Clone, Debug)]
struct Row {
    /// Thermal noise in the rate's width, aW.
    noise: f64,
    /// Number of bits of its SIGNAL fields.
    header_bits: f64,
    errors: Vec<f64>,
}

/// Modulation and code of a rate: bits per subcarrier, code rate.
type Scheme = (u32, (u64, u64));

impl SnrTable {
    /// Builds the table for every rate of a PHY, for receivers of this noise figure.
    ///
    /// # Errors
    /// Returns an error if the PHY has DSSS rates, which the model does not cover.
    pub fn new(phy: &Phy, noise_figure: Decibel) -> Result<Self, LossError> {
        let row = |rate: Rate| {
            let info = phy.info(rate);
            let (scheme, mhz) = match (info.modulation, info.waveform) {
                (Modulation::Mcs(mode), _) => (mode.scheme(), mode.width_mhz()),
                (_, Waveform::Ofdm { bits_per_symbol, .. }) => (ofdm(bits_per_symbol), 20),
                _ => return Err(LossError::NoTable),
            };
            let header = (info.waveform.header().as_nanos() as u32).saturating_sub(PREAMBLE_NS);
            Ok(Row {
                noise: THERMAL_NOISE_DENSITY * f64::from(mhz) * 1e6 * noise_figure.ratio() * 1e18,
                header_bits: f64::from(header / SIGNAL.0) * SIGNAL.1 as f64,
                errors: tabulated(scheme),
            })
        };
        let rows = phy.rates().map(row).collect::<Result<_, _>>()?;
        Ok(SnrTable { rows, signal: tabulated((1, (1, 2))) })
    }

    /// Returns ln of the probability that a bit of the payload survives.
    #[inline]
    fn bit(&self, rate: Rate, signal: f64, interference: f64) -> f64 {
        let row = &self.rows[rate.index()];
        keeps(&row.errors, signal / (row.noise + interference))
    }

    /// Returns ln of the probability that a bit of the SIGNAL fields survives.
    #[inline]
    fn header_bit(&self, rate: Rate, signal: f64, interference: f64) -> f64 {
        keeps(&self.signal, signal / (self.rows[rate.index()].noise + interference))
    }
}

/// Returns N_DBPS of clause 17 as modulation and code (IEEE 802.11-2020 Table 17-4).
fn ofdm(bits_per_symbol: u32) -> Scheme {
    match bits_per_symbol {
        24 => (1, (1, 2)),
        36 => (1, (3, 4)),
        48 => (2, (1, 2)),
        72 => (2, (3, 4)),
        96 => (4, (1, 2)),
        144 => (4, (3, 4)),
        192 => (6, (2, 3)),
        _ => (6, (3, 4)),
    }
}

fn tabulated(scheme: Scheme) -> Vec<f64> {
    let steps = ((TO_DB - FROM_DB) * PER_DB) as usize;
    let ln = |k: usize| {
        let snr = Decibel(FROM_DB + k as f64 / PER_DB).ratio();
        libm::log(bit_error(scheme, snr)).max(LN_NEGLIGIBLE)
    };
    (0..=steps).map(ln).collect()
}

/// Returns ln of a bit's survival, interpolated between two entries of a table.
#[inline]
fn keeps(errors: &[f64], snr: f64) -> f64 {
    let at = (10.0 * libm::log10(snr) - FROM_DB) * PER_DB;
    if at.is_nan() || at < 0.0 {
        return f64::NEG_INFINITY;
    }
    let (below, last) = (at as usize, errors.len() - 1);
    if below >= last {
        return 0.0;
    }
    let part = at - below as f64;
    let ln = errors[below] + part * (errors[below + 1] - errors[below]);
    libm::log1p(-libm::exp(ln))
}

/// Returns the probability that a decoded bit begins an error at a signal-to-noise ratio.
fn bit_error((bits, code): Scheme, snr: f64) -> f64 {
    let uncoded = match bits {
        1 => 0.5 * libm::erfc(libm::sqrt(snr)),
        _ => {
            let points = f64::from(1u32 << bits);
            let side = libm::sqrt(points);
            let z = libm::sqrt(snr * 3.0 / (2.0 * (points - 1.0)));
            (side - 1.0) / (side * libm::log2(side)) * libm::erfc(z)
        }
    };
    let (step, first, spectrum): (i32, i32, &[f64]) = match code {
        (1, 2) => {
            (2, 10, &[36., 211., 1404., 11633., 77433., 502690., 3322763., 21292910., 134365911.])
        }
        (2, 3) => {
            (1, 6, &[3., 70., 285., 1276., 6160., 27128., 117019., 498860., 2103891., 8784123.])
        }
        (3, 4) => (
            1,
            5,
            &[
                42., 201., 1492., 10469., 62935., 379644., 2253373., 13073811., 75152755.,
                428005675.,
            ],
        ),
        _ => (
            1,
            4,
            &[
                92.,
                528.,
                8694.,
                79453.,
                792114.,
                7375573.,
                67884974.,
                610875423.,
                5427275376.,
                47664215639.,
            ],
        ),
    };
    let distance = libm::sqrt(4.0 * uncoded * (1.0 - uncoded));
    let mut power = libm::pow(distance, f64::from(first));
    let ratio = libm::pow(distance, f64::from(step));
    let mut sum = 0.0;
    for count in spectrum {
        sum += count * power;
        power *= ratio;
    }
    (sum / (2.0 * code.0 as f64)).min(1.0)
}

/// The errors of one directed link by its signal-to-noise ratio.
#[derive(Clone, Debug)]
pub struct SnrErrors {
    table: Arc<SnrTable>,
    /// Mean received power, aW.
    signal: f64,
    fading: Fading,
}

/// ln of the survival of a part of a frame: under noise alone, and in total.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Survival {
    pub noise: f64,
    pub all: f64,
}

/// Outcome of a part of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PartOutcome {
    Good,
    /// Lost to noise.
    Errored,
    /// Lost to other frames; noise alone would not have destroyed it.
    Collided,
}

impl Survival {
    /// Draws the outcome; one draw decides both causes.
    pub fn outcome(self, rng: &mut Stream) -> PartOutcome {
        let u = rng.unit();
        if u < libm::exp(self.all) {
            PartOutcome::Good
        } else if u < libm::exp(self.noise) {
            PartOutcome::Collided
        } else {
            PartOutcome::Errored
        }
    }
}

impl SnrErrors {
    /// Builds the errors of a link with this mean received power.
    pub fn new(table: Arc<SnrTable>, signal: Power, fading: Fading) -> Self {
        SnrErrors { table, signal: signal.0 as f64, fading }
    }

    /// Returns this link's errors at another mean received power.
    pub fn with_signal(&self, signal: Power) -> Self {
        SnrErrors { signal: signal.0 as f64, ..self.clone() }
    }

    /// Draws the power of a frame, aW.
    pub(crate) fn draw(&self, rng: &mut Stream) -> f64 {
        match self.fading {
            Fading::None => self.signal,
            Fading::Rayleigh => self.signal * -libm::log(1.0 - rng.unit()),
        }
    }

    /// Returns the survival of the SIGNAL fields, of which `share` has this interference, aW.
    pub(crate) fn header(&self, rate: Rate, signal: f64, interference: f64, share: f64) -> f64 {
        let bits = self.table.rows[rate.index()].header_bits;
        part(self.table.header_bit(rate, signal, interference), bits * share)
    }

    /// Returns the survival of this number of payload bits.
    pub(crate) fn payload(&self, rate: Rate, signal: f64, interference: f64, bits: f64) -> f64 {
        part(self.table.bit(rate, signal, interference), bits)
    }

    /// Returns ln of the survival of a whole frame in noise alone.
    fn frame(&self, bytes: u32, rate: Rate, signal: f64) -> f64 {
        self.header(rate, signal, 0.0, 1.0)
            + self.payload(rate, signal, 0.0, 8.0 * f64::from(bytes))
    }

    /// Returns true if a frame is lost to noise.
    pub(super) fn lost(&self, bytes: u32, rate: Rate, rng: &mut Stream) -> bool {
        let signal = self.draw(rng);
        rng.unit() >= libm::exp(self.frame(bytes, rate, signal))
    }

    /// Returns the probability that a frame of one MPDU survives noise and fading.
    pub fn delivery(&self, bytes: u32, rate: Rate) -> f64 {
        let keep = |signal| libm::exp(self.frame(bytes, rate, signal));
        match self.fading {
            Fading::None => keep(self.signal),
            Fading::Rayleigh => {
                let quantile = |k: usize| {
                    let u = (k as f64 + 0.5) / FADING_QUANTILES as f64;
                    keep(self.signal * -libm::log(u))
                };
                (0..FADING_QUANTILES).map(quantile).sum::<f64>() / FADING_QUANTILES as f64
            }
        }
    }
}

/// Returns the survival of a number of bits; zero bits survive with certainty.
#[inline]
fn part(ln_keep: f64, bits: f64) -> f64 {
    if bits > 0.0 { ln_keep * bits } else { 0.0 }
}

#[cfg(test)]
mod tests;
