//! A token bucket in exact integer arithmetic.

use fairmesh_units::{BitRate, Bytes, Span, Time};

/// Tokens per byte: 8 × 10⁹ bit-nanoseconds per second.
///
/// With this unit `rate × elapsed` is an integer.
const PER_BYTE: i64 = 8_000_000_000;

/// Largest burst of a bucket, bytes; larger ones are reduced to it.
pub(crate) const MAX_BURST: Bytes = Bytes(512 * 1024 * 1024);

/// A token bucket: fills at `rate`, holds at most `burst`, may go into debt.
///
/// The arithmetic is exact: after `t` seconds it has gained exactly `rate × t` bits, regardless of
/// the number of calls.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    rate: u64,
    cap: i64,
    level: i64,
    at: Time,
}

impl TokenBucket {
    /// Returns a full bucket. A rate of zero never refills.
    pub fn new(rate: BitRate, burst: Bytes) -> Self {
        let cap = cap(burst);
        TokenBucket { rate: rate.0, cap, level: cap, at: Time::ZERO }
    }

    /// Returns the filling rate.
    pub fn rate(&self) -> BitRate {
        BitRate(self.rate)
    }

    /// Returns the size of the bucket.
    pub fn burst(&self) -> Bytes {
        Bytes((self.cap / PER_BYTE) as u64)
    }

    /// Changes rate and size from `now` on.
    ///
    /// Tokens gained so far stay; a level above the new size is reduced to it.
    pub fn set(&mut self, now: Time, rate: BitRate, burst: Bytes) {
        self.refill(now);
        self.rate = rate.0;
        self.cap = cap(burst);
        self.level = self.level.min(self.cap);
    }

    /// Returns the whole bytes that may be sent at `now`; negative when in debt.
    pub fn level(&self, now: Time) -> i64 {
        self.level_at(now).div_euclid(PER_BYTE)
    }

    /// Returns true if `bytes` are available at `now`.
    #[inline]
    pub fn covers(&self, now: Time, bytes: u32) -> bool {
        self.level_at(now) >= i64::from(bytes) * PER_BYTE
    }

    /// Returns the earliest instant from `now` on at which `bytes` are available.
    ///
    /// [`Time::NEVER`] if they exceed the burst or the rate is zero.
    pub fn ready_at(&self, now: Time, bytes: u32) -> Time {
        let want = i64::from(bytes) * PER_BYTE;
        let missing = want.saturating_sub(self.level_at(now));
        if missing <= 0 {
            return now;
        }
        if self.rate == 0 || want > self.cap {
            return Time::NEVER;
        }
        now + Span::from_nanos((missing as u64).div_ceil(self.rate))
    }

    /// Takes `bytes` at `now`, into debt if necessary.
    #[inline]
    pub fn take(&mut self, now: Time, bytes: u32) {
        self.refill(now);
        self.level = self.level.saturating_sub(i64::from(bytes) * PER_BYTE);
    }

    /// Limits a debt to the tokens gained in `seconds` of refilling.
    pub(crate) fn cap_debt(&mut self, seconds: u64) {
        let most = u128::from(self.rate) * u128::from(seconds) * 1_000_000_000;
        let most = i64::try_from(most).unwrap_or(i64::MAX / 2);
        self.level = self.level.max(-most);
    }

    /// Adds the tokens gained until `now`.
    #[inline]
    pub fn refill(&mut self, now: Time) {
        self.level = self.level_at(now);
        self.at = self.at.max(now);
    }

    #[inline]
    fn level_at(&self, now: Time) -> i64 {
        let gained = u128::from(self.rate) * u128::from(now.since(self.at).as_nanos());
        let room = self.cap.abs_diff(self.level);
        if gained >= u128::from(room) { self.cap } else { self.level + gained as i64 }
    }
}

fn cap(burst: Bytes) -> i64 {
    burst.0.min(MAX_BURST.0) as i64 * PER_BYTE
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ns(n: u64) -> Time {
        Time::from_nanos(n)
    }

    #[test]
    fn starts_full_and_refills_at_the_rate() {
        let mut b = TokenBucket::new(BitRate(8_000_000), Bytes(1500)); // one byte per µs
        assert_eq!(b.level(ns(0)), 1500);
        b.take(ns(0), 1500);
        assert_eq!(b.ready_at(ns(0), 1000), ns(1_000_000));
        assert!(!b.covers(ns(999_999), 1000));
        assert!(b.covers(ns(1_000_000), 1000));
        assert_eq!(b.level(ns(9_000_000)), 1500, "never above the burst");
        assert_eq!(b.ready_at(ns(0), 1501), Time::NEVER);
    }

    #[test]
    fn a_new_rate_counts_from_now_on() {
        let mut b = TokenBucket::new(BitRate(8_000_000), Bytes(1500));
        b.take(ns(0), 1500);
        b.set(ns(500_000), BitRate(800_000), Bytes(1500));
        assert_eq!(b.level(ns(500_000)), 500);
        assert_eq!(b.level(ns(1_500_000)), 600);
        b.set(ns(1_500_000), BitRate(0), Bytes(100));
        assert_eq!(b.level(ns(9_500_000)), 100);
        b.take(ns(9_500_000), 200);
        assert_eq!(b.ready_at(ns(9_500_000), 1), Time::NEVER);
    }

    proptest! {
        /// The level depends on elapsed time alone, not on the number of calls.
        #[test]
        fn never_drifts(rate in 1u64..100_000_000_000, steps in prop::collection::vec(0u64..1_000_000, 1..200)) {
            let mut often = TokenBucket::new(BitRate(rate), MAX_BURST);
            let mut once = often.clone();
            for b in [&mut often, &mut once] {
                b.take(Time::ZERO, 500_000_000);
            }
            let mut t = 0;
            for s in steps {
                t += s;
                often.refill(ns(t));
            }
            prop_assert_eq!(often.level_at(ns(t)), once.level_at(ns(t)));
        }

        /// `ready_at` is the first such instant: one nanosecond earlier is too early.
        #[test]
        fn ready_is_exact(rate in 1u64..10_000_000_000, spent in 0u32..3000, want in 1u32..1500, at in 0u64..1_000_000_000) {
            let mut b = TokenBucket::new(BitRate(rate), Bytes(1500));
            b.take(ns(at), spent);
            let t = b.ready_at(ns(at), want);
            prop_assert!(b.covers(t, want));
            prop_assert!(t == ns(at) || !b.covers(ns(t.as_nanos() - 1), want));
        }
    }
}
