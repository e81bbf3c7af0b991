//! Statistics and expected throughput of a rate.

use fairmesh_phy::Waveform;
use fairmesh_phy::{Modulation, Phy, Rate};

/// Fixed-point value of one for probabilities and mean lengths (MINSTREL_SCALE).
pub(super) const SCALE: u32 = 1 << 12;
/// Inverse weight of an interval's mean length of frames (EWMA_LEVEL).
pub(super) const LENGTH_WEIGHT: i32 = 4;
/// Number of packets over which a packet's duration is averaged (AVG_AMPDU_SIZE).
///
/// Rates are compared by that duration.
const AVERAGED_PACKETS: u64 = 16;
/// Size of these packets of 1200 bytes, bits (MCS_NBITS).
const AVERAGED_BITS: u64 = AVERAGED_PACKETS * 1200 * 8;
/// Duration of an empty OFDM frame at 6 Mbit/s with SIFS, in µs.
const EMPTY_FRAME_US: u32 = 48;
/// Duration of an acknowledgement at 6 Mbit/s with SIFS, in µs.
const ACK_US: u32 = 60;
/// Medium time of one attempt without its MPDUs, µs (`overhead`, `overhead_rtscts`).
const ATTEMPT_OVERHEAD_US: u32 = EMPTY_FRAME_US + ACK_US;
const OVERHEAD_RTS: u32 = ATTEMPT_OVERHEAD_US + 2 * ACK_US;
/// Longest series of attempts at one rate, in µs.
const MAX_SERIES_US: u32 = 6000;
/// Longest series of attempts at one rate unless the driver sets one.
const MAX_SERIES_ATTEMPTS: u32 = 7;
/// Slot, µs, and contention windows, to estimate the attempts that fit into a series.
const SLOT_US: u32 = 9;
const CW_MIN: u32 = 15;
const CW_MAX: u32 = 1023;
/// The low-pass filter of second order (Butterworth, period 16), in parts of [`SCALE`].
const FILTER: [i32; 3] = [SCALE as i32 - FILTER_1 - FILTER_2, FILTER_1, FILTER_2];
const FILTER_1: i32 = 0x1499;
const FILTER_2: i32 = -0x92e;

/// Statistics of a rate.
#[derive(Clone, Debug)]
pub(super) struct RateStatistics {
    pub rate: Rate,
    /// Spatial streams: rates are grouped by them.
    pub streams: u8,
    /// Payload time of a packet, in ns.
    pub duration: u32,
    pub attempts: u32,
    pub successes: u32,
    /// True if the rate has been tried.
    pub tried: bool,
    /// Smoothed probability of success in parts of [`SCALE`], and its value one interval before.
    pub probability: u32,
    pub before: u32,
}

impl RateStatistics {
    /// Returns empty statistics; `None` if the rate is not an MCS.
    pub fn of(phy: &Phy, rate: Rate) -> Option<RateStatistics> {
        let info = phy.info(rate);
        let (Modulation::Mcs(mode), Waveform::Mcs { bits_per_symbol, symbol_ns, .. }) =
            (info.modulation, info.waveform)
        else {
            return None;
        };
        let symbols = AVERAGED_BITS.div_ceil(u64::from(bits_per_symbol));
        // MCS_SYMBOL_TIME: a frame at the short guard interval of 802.11n and ac is 800 ns longer.
        let more = if symbol_ns == 3_600 { 800 } else { 0 };
        Some(RateStatistics {
            rate,
            streams: mode.streams(),
            duration: ((symbols * u64::from(symbol_ns) + more) / AVERAGED_PACKETS) as u32,
            attempts: 0,
            successes: 0,
            tried: false,
            probability: 0,
            before: 0,
        })
    }

    /// Processes the end of an interval (minstrel_ht_calc_rate_stats, minstrel_filter_avg_add).
    pub fn settle(&mut self) {
        if self.attempts == 0 {
            return;
        }
        let now = (self.successes * SCALE / self.attempts).max(1);
        let (last, before) = (self.probability as i32, self.before as i32);
        if last == 0 {
            (self.probability, self.before) = (now, now);
        } else {
            let filtered = (FILTER[0] * now as i32 + FILTER[1] * last + FILTER[2] * before) >> 12;
            self.before = self.probability;
            self.probability = if filtered < 0 { 1 } else { (filtered as u32).min(SCALE) };
        }
        self.tried = true;
        (self.attempts, self.successes) = (0, 0);
    }

    /// Returns the expected throughput with frames of `length` MPDUs.
    ///
    /// Zero if almost no frame arrives. A probability above nine tenths counts as nine tenths,
    /// since collisions vary (minstrel_ht_get_tp_avg).
    pub fn throughput(&self, length: u32) -> u32 {
        if self.probability < SCALE / 10 {
            return 0;
        }
        let ns = 1000 * ATTEMPT_OVERHEAD_US / length + self.duration;
        let arrives = self.probability.min(9 * SCALE / 10);
        (100 * (arrives * 1_000_000 / ns)) >> 12
    }
}

/// Rounds durations of a group to sixteen bits (GROUP_SHIFT).
pub(super) fn round(group: &mut [RateStatistics]) {
    let longest = group.iter().map(|k| k.duration).max().unwrap_or(0);
    let shift = (u32::BITS - longest.leading_zeros()).saturating_sub(16);
    group.iter_mut().for_each(|k| k.duration = k.duration >> shift << shift);
}

/// Returns the number of attempts at a rate: two, and as many more as fit a series.
///
/// `protected`: with the time of RTS and CTS (minstrel_calc_retransmit).
pub(super) fn tries(k: &RateStatistics, length: u32, protected: bool) -> u32 {
    if 5 * k.probability < SCALE {
        return 2;
    }
    let data = k.duration * length / 1000;
    let mut cw = CW_MIN;
    let mut wait = || {
        let mean = SLOT_US * cw / 2;
        cw = (2 * cw + 1).min(CW_MAX);
        mean
    };
    let contention = wait() + wait();
    let (mut plain, mut with_rts) =
        (contention + 2 * (ATTEMPT_OVERHEAD_US + data), contention + 2 * (OVERHEAD_RTS + data));
    let mut tries = [2, 2];
    loop {
        let contention = wait();
        plain += contention + ATTEMPT_OVERHEAD_US + data;
        with_rts += contention + OVERHEAD_RTS + data;
        tries[1] += u32::from(with_rts < MAX_SERIES_US);
        if plain >= MAX_SERIES_US {
            break;
        }
        tries[0] += 1;
        if tries[0] >= MAX_SERIES_ATTEMPTS {
            break;
        }
    }
    tries[usize::from(protected)]
}
