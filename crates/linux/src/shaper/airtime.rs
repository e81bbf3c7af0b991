//! Rates of classes that have shares of the airtime.
//!
//! A class of share `s` has the rate `s` × bytes per airtime of its next hop, from the counters of the class and of the
//! station (`tx_duration` of nl80211). Renewed every 100 ms, the class keeps its share while the radio's rate and
//! retries change.

use std::collections::BTreeMap;

use fairmesh_units::{BitRate, Span, Time};

use crate::mac::MacAddr;

/// Weight of a new sample.
const SAMPLE_WEIGHT: f64 = 0.2;
/// Largest ratio of a sample to the estimate; a larger one counts as this.
const MAX_STEP: f64 = 4.0;
/// Least bytes of a sample. Fewer are added to the next one.
const MIN_BYTES: u64 = 3000;
/// Estimates, in bytes per second of airtime: from 100 kbit/s to 10 Gbit/s.
const ESTIMATE_BOUNDS: [f64; 2] = [12.5e3, 1.25e9];
/// Lowest rate of a class: with less, no sample would show that a link has recovered.
const MIN_RATE: BitRate = BitRate(16_000);
/// Airtime beyond the elapsed time for which a counter is still believed.
///
/// The counters of class and station are read one after the other, and a radio counts frames when they are done.
const AIRTIME_TOLERANCE: Span = Span::from_nanos(50_000_000);

/// Counters of a next hop at one time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AirtimeSample {
    /// Next hop.
    pub next_hop: MacAddr,
    /// Bytes that its class has sent ([`NextHopShaper`](super::NextHopShaper)).
    pub bytes: u64,
    /// Frames to it, and the time for which each contends, which counts as airtime.
    pub frames: (u64, Span),
    /// Airtime of frames to it, retries included; `None` if the driver does not report it.
    pub airtime: Option<Span>,
}

/// Estimate of the bytes per airtime of a link.
#[derive(Clone, Copy, Debug, Default)]
struct LinkSpeed {
    last: Option<(Time, u64, u64, Span)>,
    /// Bytes per second of airtime.
    estimate: Option<f64>,
}

impl LinkSpeed {
    fn sample(&mut self, now: Time, bytes: u64, (frames, each): (u64, Span), airtime: Span) {
        let present = (now, bytes, frames, airtime);
        let Some((then, from, first, since)) = self.last.replace(present) else { return };
        let elapsed = now.as_nanos().saturating_sub(then.as_nanos());
        let deltas = (
            bytes.checked_sub(from),
            frames.checked_sub(first),
            airtime.as_nanos().checked_sub(since.as_nanos()),
        );
        // A counter that went back, by a restart or a wrap, or faster than time: begin again.
        let (Some(sent), Some(frames), Some(used)) = deltas else { return };
        if used > elapsed.saturating_add(AIRTIME_TOLERANCE.as_nanos()) {
            return;
        }
        if sent >= MIN_BYTES && used > 0 {
            let contended = frames.saturating_mul(each.as_nanos());
            self.smooth(sent as f64 * 1e9 / used.saturating_add(contended) as f64);
        } else {
            // Too few bytes are added to the next sample.
            self.last = Some((then, from, first, since));
        }
    }

    fn smooth(&mut self, sample: f64) {
        let sample = sample.clamp(ESTIMATE_BOUNDS[0], ESTIMATE_BOUNDS[1]);
        self.estimate = Some(match self.estimate {
            None => sample,
            Some(old) => {
                let sample = sample.clamp(old / MAX_STEP, old * MAX_STEP);
                old + SAMPLE_WEIGHT * (sample - old)
            }
        });
    }

    fn rate(&self, share: f64) -> Option<BitRate> {
        let rate = (share * self.estimate? * 8.0) as u64;
        Some(BitRate(rate).max(MIN_RATE))
    }
}

/// Airtime shares of next hops, and the limits that give them.
///
/// It has no clock and makes no system call: [`NextHopShaper::set_rates`](super::NextHopShaper::set_rates) carries the
/// limits out in one batch.
#[derive(Clone, Debug, Default)]
pub struct AirtimeShares {
    hops: BTreeMap<MacAddr, (f64, LinkSpeed)>,
}

impl AirtimeShares {
    /// Returns an object without next hops.
    pub fn new() -> Self {
        AirtimeShares::default()
    }

    /// Sets the share of a next hop, clamped to 0…1; NaN is 0. Its estimate stays.
    pub fn set(&mut self, next_hop: MacAddr, share: f64) {
        let share = if share > 0.0 { share.min(1.0) } else { 0.0 };
        self.hops.entry(next_hop).or_default().0 = share;
    }

    /// Removes a next hop.
    pub fn forget(&mut self, next_hop: MacAddr) {
        self.hops.remove(&next_hop);
    }

    /// Takes samples and returns the limits of all next hops with a share.
    ///
    /// A limit is in Ethernet frames' bytes, at least 16 kbit/s, and changes by at most +60 % or −15 % with a sample.
    /// `None`, no limit, until a sample of 3000 bytes has an airtime. Samples of other next hops are ignored.
    pub fn renew(
        &mut self,
        now: Time,
        samples: &[AirtimeSample],
    ) -> Vec<(MacAddr, Option<BitRate>)> {
        for sample in samples {
            let hop = self.hops.get_mut(&sample.next_hop);
            if let Some(((_, speed), airtime)) = hop.zip(sample.airtime) {
                speed.sample(now, sample.bytes, sample.frames, airtime);
            }
        }
        self.hops.iter().map(|(mac, (share, speed))| (*mac, speed.rate(*share))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
    const PERIOD: u64 = 100_000_000;

    fn sample(bytes: u64, airtime: u64) -> [AirtimeSample; 1] {
        let frames = (bytes / 1514, Span::ZERO);
        [AirtimeSample { next_hop: MAC, bytes, frames, airtime: Some(Span::from_nanos(airtime)) }]
    }

    /// Returns the airtime of a saturated class in each period.
    ///
    /// `speed`: bytes per second of airtime. The class is served by a token bucket in frames of 1514 bytes, and the radio is `lag` frames behind it.
    fn run(share: f64, periods: u64, lag: u64, speed: impl Fn(u64) -> f64) -> Vec<f64> {
        const FRAME: f64 = 1514.0;
        let mut shares = AirtimeShares::new();
        shares.set(MAC, share);
        let (mut frames, mut done, mut air, mut tokens) = (0u64, 0u64, 0.0, 0.0);
        let mut used = Vec::new();
        for at in 0..periods {
            let limits =
                shares.renew(Time::from_nanos(at * PERIOD), &sample(frames * 1514, air as u64));
            // Without a limit the radio itself is the limit.
            let per_period = limits[0].1.map_or(speed(at) * 0.1, |r| r.0 as f64 / 80.0);
            tokens += per_period;
            // The radio has no more than the period's airtime, and its ring stops the class.
            let fits = (speed(at) * 0.1 / FRAME) as u64;
            let wanted = (tokens / FRAME) as u64;
            let sent = wanted.min(done + fits + lag - frames);
            tokens = if sent < wanted { 0.0 } else { tokens - sent as f64 * FRAME };
            frames += sent;
            let reached = frames.saturating_sub(lag).clamp(done, done + fits);
            let spent = (reached - done) as f64 * FRAME / speed(at) * 1e9;
            (air, done) = (air + spent, reached);
            used.push(spent / PERIOD as f64);
        }
        used
    }

    #[test]
    fn a_share_holds_within_five_percent_over_five_seconds() {
        let mean = |used: &[f64]| used.iter().sum::<f64>() / used.len() as f64;
        for (share, speed) in [(0.1, 3e6), (0.05, 100e6), (0.6, 0.5e6), (0.3, 12e6)] {
            let steady = run(share, 60, 4, |_| speed);
            assert!(
                (mean(&steady[10..]) / share - 1.0).abs() < 0.05,
                "{share} of {speed}: {steady:?}"
            );
            // Retries double and fall again each second: the mean is kept.
            let moving = run(share, 60, 4, |at| if at / 10 % 2 == 0 { speed } else { speed / 2.0 });
            let got = mean(&moving[20..60]);
            assert!((got / share - 1.0).abs() < 0.15, "{share} of {speed}: {got}");
            // A rate that changes once has its share after a second.
            let changed = run(share, 80, 4, |at| if at < 10 { speed } else { speed / 3.0 });
            assert!((mean(&changed[30..]) / share - 1.0).abs() < 0.05, "{share} of {speed}");
        }
    }

    #[test]
    fn drivers_without_airtime_and_unknown_stations_give_no_limit() {
        let mut shares = AirtimeShares::new();
        shares.set(MAC, f64::NAN);
        let frames = (1, Span::ZERO);
        let other = AirtimeSample { next_hop: MacAddr([2; 6]), bytes: 1, frames, airtime: None };
        for at in 0..20 {
            let none = AirtimeSample { airtime: None, ..sample(at * 100_000, 0)[0] };
            let limits = shares.renew(Time::from_nanos(at * PERIOD), &[none, other]);
            assert_eq!(limits, [(MAC, None)]);
        }
        shares.forget(MAC);
        assert!(shares.renew(Time::ZERO, &sample(1, 1)).is_empty());
    }

    #[test]
    fn contention_counts_as_airtime() {
        let mut shares = AirtimeShares::new();
        shares.set(MAC, 0.5);
        for at in 0..30 {
            // Ten frames of 1514 bytes, of 300 µs each, and 100 µs before each.
            let frames = (10 * at, Span::from_micros(100));
            let [sample] = sample(15_140 * at, 3_000_000 * at);
            let limits =
                shares.renew(Time::from_nanos(at * PERIOD), &[AirtimeSample { frames, ..sample }]);
            if at > 1 {
                assert_eq!(
                    limits,
                    [(MAC, Some(BitRate(15_140_000)))],
                    "half of 1514 bytes in 400 µs"
                );
            }
        }
    }

    #[test]
    fn a_share_of_zero_still_probes() {
        let mut shares = AirtimeShares::new();
        shares.set(MAC, -3.0);
        shares.renew(Time::ZERO, &sample(0, 0));
        let limits = shares.renew(Time::from_nanos(PERIOD), &sample(100_000, PERIOD / 2));
        assert_eq!(limits, [(MAC, Some(MIN_RATE))]);
    }

    #[derive(Clone, Copy, Debug)]
    enum Fault {
        Steady,
        Still,
        Back,
        Jump,
        Wrap,
        Any(u64, u64),
    }

    fn faults() -> impl Strategy<Value = Fault> {
        prop_oneof![
            4 => Just(Fault::Steady),
            1 => Just(Fault::Still),
            1 => Just(Fault::Back),
            1 => Just(Fault::Jump),
            1 => Just(Fault::Wrap),
            1 => (any::<u64>(), any::<u64>()).prop_map(|(b, a)| Fault::Any(b, a)),
        ]
    }

    proptest! {
        /// Counters that wrap, stand still or jump move the limit by bounded steps, and it recovers.
        #[test]
        fn limits_are_bounded_under_any_counters(
            faults in proptest::collection::vec(faults(), 1..60),
            share in 0.01f64..1.0,
        ) {
            let mut shares = AirtimeShares::new();
            shares.set(MAC, share);
            // 5 MB/s of airtime, used by half.
            let (sent, spent) = (250_000u64, PERIOD / 2);
            let (mut bytes, mut air, mut last): (u64, u64, Option<BitRate>) = (0, 0, None);
            let clean = vec![Fault::Steady; 60];
            for (at, fault) in faults.into_iter().chain(clean).enumerate() {
                (bytes, air) = match fault {
                    Fault::Steady => (bytes.wrapping_add(sent), air.wrapping_add(spent)),
                    Fault::Still => (bytes.wrapping_add(sent), air),
                    Fault::Back => (0, 0),
                    Fault::Jump => (bytes.wrapping_add(1 << 40), air.wrapping_add(spent)),
                    Fault::Wrap => (u64::MAX - 1000, u64::MAX - 1000),
                    Fault::Any(b, a) => (b, a),
                };
                let now = Time::from_nanos(at as u64 * PERIOD);
                let limit = shares.renew(now, &sample(bytes, air))[0].1;
                if let Some(rate) = limit {
                    prop_assert!(rate >= MIN_RATE && rate.0 as f64 <= share * ESTIMATE_BOUNDS[1] * 8.0 + 1.0);
                }
                if let (Some(old), Some(new)) = (last, limit) {
                    let [old, new] = [old.0 as f64, new.0 as f64];
                    prop_assert!(new <= old * 1.6 + 2.0 && new >= old * 0.85 - 2.0, "{} to {}", old, new);
                }
                prop_assert!(last.is_none() || limit.is_some());
                last = limit;
            }
            let right = share * 5e6 * 8.0;
            let got = last.unwrap().0 as f64;
            prop_assert!((got / right - 1.0).abs() < 0.05, "{} instead of {}", got, right);
        }
    }
}
