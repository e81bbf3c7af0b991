//! SampleRate: the rate with the lowest mean frame time over the last ten seconds.
//!
//! After J. Bicket, "Bit-rate Selection in Wireless Networks", MSc thesis, MIT 2005, ch. 5.
//! Differences from it: the window moves in steps of one second, and a sample that fails twice is
//! finished at the current rate (docs/models/rate-adaptation.md).

use fairmesh_phy::{Phy, Rate};
use fairmesh_units::{Span, Stream, Time};

use super::Attempt;

/// Seconds in the window, one bucket each.
const WINDOW_SECONDS: usize = 10;
/// Interval between samples, frames.
const SAMPLE_EVERY: u32 = 10;
/// Number of frames lost in a row that excludes a rate.
const EXCLUDE_AFTER: u32 = 4;
/// Attempts of a sample at its own rate.
const SAMPLE_ATTEMPTS: u32 = 2;
/// Upper bound and nominal PSDU size of each size class, in bytes.
///
/// Classes keep the speed of short frames from affecting the rate of long ones.
const SIZES: [u32; 2] = [250, 1600];
/// Number of attempts with tabulated duration; later attempts count as this many.
const MAX_ATTEMPTS: usize = 8;

/// Statistics of one rate in one second.
#[derive(Clone, Copy, Default, Debug)]
struct Bucket {
    nanos: u64,
    frames: u32,
    delivered: u32,
}

/// One rate's record for one size class.
#[derive(Clone, Debug)]
struct Record {
    buckets: [Bucket; WINDOW_SECONDS],
    total: Bucket,
    /// Frames lost since the last one delivered.
    lost_in_a_row: u32,
    /// Time of a frame of the nominal size when delivered at attempt 1, 2 and so on.
    cost: [u64; MAX_ATTEMPTS],
}

impl Record {
    fn excluded(&self) -> bool {
        self.lost_in_a_row >= EXCLUDE_AFTER
    }

    /// Returns the time spent per delivered frame; `None` without deliveries.
    fn mean(&self) -> Option<u64> {
        self.total.nanos.checked_div(u64::from(self.total.delivered))
    }
}

/// A frame being sent.
#[derive(Clone, Copy, Debug)]
struct Current {
    rate: Rate,
    /// Attempts so far at `rate`.
    attempts: u32,
    sampling: bool,
}

/// Rate choice by lowest mean transmission time.
#[derive(Clone, Debug)]
pub struct SampleRate {
    /// By size class, then rate.
    records: [Vec<Record>; SIZES.len()],
    /// Second since the start of the run that the newest bucket covers.
    second: u64,
    frames: u32,
    current: Option<Current>,
}

impl SampleRate {
    /// Builds the choice over all rates of `phy`.
    pub fn new(phy: &Phy) -> Self {
        let record = |size, rate| Record {
            buckets: [Bucket::default(); WINDOW_SECONDS],
            total: Bucket::default(),
            lost_in_a_row: 0,
            cost: costs(phy, rate, size),
        };
        SampleRate {
            records: SIZES.map(|size| phy.rates().map(|rate| record(size, rate)).collect()),
            second: 0,
            frames: 0,
            current: None,
        }
    }

    /// Returns the rate of the next attempt.
    pub fn rate_for(&mut self, now: Time, bytes: u32, attempt: u32, rng: &mut Stream) -> Rate {
        self.expire(now);
        let class = class_of(bytes);
        match self.current {
            Some(c) if attempt > 0 && !(c.sampling && c.attempts >= SAMPLE_ATTEMPTS) => c.rate,
            Some(c) if attempt > 0 => {
                self.settle(class, c, false);
                self.begin(self.best(class), false)
            }
            _ => {
                self.frames = self.frames.wrapping_add(1);
                let best = self.best(class);
                match self.sample(class, best, rng) {
                    Some(rate) => self.begin(rate, true),
                    None => self.begin(best, false),
                }
            }
        }
    }

    /// Reports the end of an attempt.
    pub fn on_result(&mut self, now: Time, attempt: &Attempt) {
        self.expire(now);
        let Some(mut c) = self.current else { return };
        c.attempts += 1;
        self.current = Some(c);
        if attempt.last || attempt.ok {
            self.settle(class_of(attempt.bytes), c, attempt.ok);
            self.current = None;
        }
    }

    fn begin(&mut self, rate: Rate, sampling: bool) -> Rate {
        self.current = Some(Current { rate, attempts: 0, sampling });
        rate
    }

    /// Returns the rate with the lowest mean time.
    ///
    /// Without deliveries, the fastest rate not excluded.
    fn best(&self, class: usize) -> Rate {
        let records = &self.records[class];
        let known = (0..records.len())
            .filter(|&i| !records[i].excluded())
            .filter_map(|i| records[i].mean().map(|mean| (mean, i)));
        let index = known.min().map(|(_, i)| i);
        Rate(index.or_else(|| records.iter().rposition(|r| !r.excluded())).unwrap_or(0) as u8)
    }

    /// Returns, for every tenth frame, a random rate that could beat the current mean.
    fn sample(&self, class: usize, best: Rate, rng: &mut Stream) -> Option<Rate> {
        if !self.frames.is_multiple_of(SAMPLE_EVERY) {
            return None;
        }
        let records = &self.records[class];
        let mean = records[best.index()].mean()?;
        let eligible =
            |i: &usize| *i != best.index() && !records[*i].excluded() && records[*i].cost[0] < mean;
        let count = (0..records.len()).filter(eligible).count();
        let pick = rng.below(count as u32) as usize;
        (0..records.len()).filter(eligible).nth(pick).map(|i| Rate(i as u8))
    }

    /// Records a frame's attempts at one rate.
    fn settle(&mut self, class: usize, c: Current, delivered: bool) {
        if c.attempts == 0 {
            return;
        }
        let record = &mut self.records[class][c.rate.index()];
        let nanos = record.cost[(c.attempts as usize).min(MAX_ATTEMPTS) - 1];
        record.lost_in_a_row = if delivered { 0 } else { record.lost_in_a_row + 1 };
        let bucket = &mut record.buckets[self.second as usize % WINDOW_SECONDS];
        for b in [bucket, &mut record.total] {
            b.nanos += nanos;
            b.frames += 1;
            b.delivered += u32::from(delivered);
        }
    }

    /// Removes buckets older than the window.
    fn expire(&mut self, now: Time) {
        let second = now.since(Time::ZERO) / Span::from_secs(1);
        let steps = second.saturating_sub(self.second).min(WINDOW_SECONDS as u64);
        if steps == 0 {
            return;
        }
        for record in self.records.iter_mut().flatten() {
            for s in second + 1 - steps..=second {
                let old = core::mem::take(&mut record.buckets[s as usize % WINDOW_SECONDS]);
                record.total.nanos -= old.nanos;
                record.total.frames -= old.frames;
                record.total.delivered -= old.delivered;
            }
            // A rate that failed long ago may be tried again.
            if record.total.frames == 0 {
                record.lost_in_a_row = 0;
            }
        }
        self.second = second;
    }
}

fn class_of(bytes: u32) -> usize {
    usize::from(bytes > SIZES[0])
}

/// Returns DIFS, the mean backoff of each attempt, data, SIFS and ACK, for 1, 2, … attempts.
fn costs(phy: &Phy, rate: Rate, size: u32) -> [u64; MAX_ATTEMPTS] {
    let t = phy.timing();
    let (mut cw, mut sum) = (t.cw_min, t.difs);
    core::array::from_fn(|_| {
        let backoff = t.slot.as_nanos() * u64::from(cw) / 2;
        sum += Span::from_nanos(backoff) + phy.exchange(rate, size, false);
        cw = t.next_cw(cw);
        sum.as_nanos()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairmesh_phy::Preamble;

    struct Bench {
        adapter: SampleRate,
        rng: Stream,
        channel: Stream,
        now: Time,
    }

    impl Bench {
        fn new() -> Self {
            Bench {
                adapter: SampleRate::new(&Phy::dot11b(Preamble::Long)),
                rng: Stream::new(1, "adapt"),
                channel: Stream::new(1, "channel"),
                now: Time::ZERO,
            }
        }

        /// Sends one frame, 10 ms after the last, with these delivery probabilities per rate.
        ///
        /// Returns the rates tried.
        fn frame(&mut self, bytes: u32, delivery: [f64; 4]) -> Vec<u8> {
            self.now += Span::from_millis(10);
            let mut tried = Vec::new();
            for attempt in 0..7 {
                let rate = self.adapter.rate_for(self.now, bytes, attempt, &mut self.rng);
                tried.push(rate.0);
                let ok = self.channel.chance(delivery[rate.index()]);
                let last = ok || attempt == 6;
                self.adapter.on_result(
                    self.now,
                    &Attempt { rate, bytes, mpdus: 1, acked: u32::from(ok), ok, last },
                );
                if ok {
                    break;
                }
            }
            tried
        }

        fn share_of(&mut self, rate: u8, frames: usize, delivery: [f64; 4]) -> f64 {
            let hits = (0..frames).filter(|_| self.frame(1500, delivery)[0] == rate).count();
            hits as f64 / frames as f64
        }
    }

    /// Bicket 2005 ch. 5: the duration of an attempt with its mean backoff.
    ///
    /// The window doubles from one attempt to the next. 802.11b at 11 Mbit/s, 1600 bytes: 1356 µs,
    /// SIFS, and an ACK of 248 µs.
    #[test]
    fn an_attempt_costs_its_exchange_and_its_mean_backoff() {
        let phy = Phy::dot11b(Preamble::Long);
        let exchange = 1356 + 10 + 248;
        let backoffs = [31, 63, 127, 255, 511, 1023, 1023, 1023].map(|cw| cw * 20 / 2);
        let mut sum = 50;
        let expected = backoffs.map(|backoff| {
            sum += backoff + exchange;
            sum * 1000
        });
        assert_eq!(costs(&phy, Rate(3), 1600), expected);
    }

    #[test]
    fn a_perfect_link_stays_at_the_fastest_rate() {
        let mut b = Bench::new();
        // No slower rate can beat 11 Mbit/s, so no rate is sampled.
        assert_eq!(b.share_of(3, 1000, [1.0; 4]), 1.0);
    }

    #[test]
    fn a_dead_fast_rate_is_left_after_four_frames() {
        let mut b = Bench::new();
        let d = [1.0, 1.0, 1.0, 0.0];
        for _ in 0..4 {
            assert_eq!(b.frame(1500, d), [3; 7]);
        }
        assert_eq!(b.frame(1500, d), [2]);
        assert!(b.share_of(2, 500, d) > 0.9);
    }

    #[test]
    fn prefers_the_rate_with_the_shorter_mean_time() {
        // 11 Mbit/s delivers 30 %: about 3.3 attempts of 1.9 ms, more than one of 2.7 ms or so.
        let mut b = Bench::new();
        let d = [1.0, 1.0, 1.0, 0.3];
        b.share_of(2, 500, d);
        assert!(b.share_of(2, 2000, d) > 0.85);
        // 80 % at 11 beats a perfect 5.5.
        let mut b = Bench::new();
        assert!(b.share_of(3, 2000, [1.0, 1.0, 1.0, 0.8]) > 0.85);
    }

    #[test]
    fn finds_a_rate_that_becomes_good() {
        let mut b = Bench::new();
        b.share_of(2, 500, [1.0, 1.0, 1.0, 0.0]);
        // Exclusion ends with the window, ten seconds or a thousand frames later.
        b.share_of(3, 1500, [1.0; 4]);
        assert!(b.share_of(3, 500, [1.0; 4]) > 0.95);
    }

    #[test]
    fn one_frame_in_ten_is_a_sample_and_falls_back_after_two_attempts() {
        let mut b = Bench::new();
        let d = [1.0, 1.0, 1.0, 0.0];
        for _ in 0..4 {
            b.frame(1500, d);
        }
        // From here on 5.5 is current; the exclusion of 11 ends after ten seconds.
        let tried: Vec<Vec<u8>> = (0..3000).map(|_| b.frame(1500, d)).collect();
        let samples: Vec<&Vec<u8>> = tried.iter().filter(|t| t[0] == 3).collect();
        assert!(!samples.is_empty());
        assert!(samples.iter().all(|t| t[..] == [3, 3, 2]), "{samples:?}");
        assert!(samples.len() <= 12, "four in each of three windows");
    }

    #[test]
    fn slow_rates_that_cannot_win_are_not_sampled() {
        let mut b = Bench::new();
        // 5.5 is perfect, 11 fails: 1 and 2 Mbit/s can never beat 5.5.
        let tried: Vec<Vec<u8>> = (0..2000).map(|_| b.frame(1500, [1., 1., 1., 0.])).collect();
        assert!(tried.iter().flatten().all(|&r| r >= 2));
    }

    #[test]
    fn size_classes_are_separate() {
        let mut b = Bench::new();
        for _ in 0..200 {
            b.frame(100, [1.0; 4]);
        }
        let small = b.adapter.records[0][3].total;
        let large = b.adapter.records[1][3].total;
        assert_eq!((small.delivered, large.delivered), (200, 0));
    }

    #[test]
    fn the_window_forgets() {
        let mut b = Bench::new();
        b.frame(1500, [1.0; 4]);
        assert_eq!(b.adapter.records[1][3].total.delivered, 1);
        b.now += Span::from_secs(9);
        b.adapter.expire(b.now);
        assert_eq!(b.adapter.records[1][3].total.delivered, 1);
        b.now += Span::from_secs(1);
        b.adapter.expire(b.now);
        assert_eq!(b.adapter.records[1][3].total.delivered, 0);
        assert_eq!(b.adapter.records[1][3].total.nanos, 0);
    }

    #[test]
    fn a_frame_dropped_before_any_data_attempt_leaves_no_trace() {
        let mut b = Bench::new();
        // RTS failures: rates are requested, no result is reported.
        for attempt in 0..7 {
            b.adapter.rate_for(b.now, 1500, attempt, &mut b.rng);
        }
        b.frame(1500, [1.0; 4]);
        assert_eq!(b.adapter.records[1][3].total.frames, 1);
        assert_eq!(b.adapter.records[1][3].total.delivered, 1);
    }
}
