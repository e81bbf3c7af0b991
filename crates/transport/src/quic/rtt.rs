//! Round trips, and the timeouts derived from them (RFC 9002 §5, §6.2).

use fairmesh_units::Span;

/// Round trip assumed before a measurement. RFC 9002 §6.2.2
const INITIAL_RTT: Span = Span::from_millis(333);
/// Granularity of timers. RFC 9002 §6.1.2
pub(super) const TIMER_GRANULARITY: Span = Span::from_millis(1);

/// Round-trip estimator of a path, in whole nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct Rtt {
    latest: Option<Span>,
    smoothed: Span,
    variation: Span,
    least: Span,
}

impl Rtt {
    pub(super) const fn new() -> Self {
        let half = Span::from_nanos(INITIAL_RTT.as_nanos() / 2);
        Rtt { latest: None, smoothed: INITIAL_RTT, variation: half, least: INITIAL_RTT }
    }

    /// Adds a measured round trip with a reported acknowledgement delay (RFC 9002 §5.3).
    pub(super) fn sample(&mut self, rtt: Span, delay: Span) {
        if self.latest.replace(rtt).is_none() {
            (self.smoothed, self.least) = (rtt, rtt);
            self.variation = Span::from_nanos(rtt.as_nanos() / 2);
            return;
        }
        // RFC 9002 §5.2: the minimum ignores the delay.
        self.least = self.least.min(rtt);
        let adjusted = if rtt >= self.least + delay { rtt.saturating_sub(delay) } else { rtt };
        let (smoothed, adjusted) = (self.smoothed.as_nanos(), adjusted.as_nanos());
        let variation = 3 * self.variation.as_nanos() + smoothed.abs_diff(adjusted);
        self.variation = Span::from_nanos(variation / 4);
        self.smoothed = Span::from_nanos((7 * smoothed + adjusted) / 8);
    }

    /// Returns the smoothed round trip, once one was measured.
    pub(super) fn srtt(&self) -> Option<Span> {
        self.latest.map(|_| self.smoothed)
    }

    /// Returns the smoothed round trip, or the assumed one before a measurement.
    pub(super) const fn smoothed(&self) -> Span {
        self.smoothed
    }

    /// Returns the smoothed round trip plus four times its variation.
    ///
    /// This is a probe timeout without the peer's delay. RFC 9002 §6.2.1
    pub(super) fn probe_timeout(&self) -> Span {
        self.smoothed + (self.variation * 4).max(TIMER_GRANULARITY)
    }

    /// Returns the time after which a packet is lost if a later one has arrived. RFC 9002 §6.1.2
    pub(super) fn loss_delay(&self) -> Span {
        let rtt = self.latest.map_or(self.smoothed, |latest| latest.max(self.smoothed));
        Span::from_nanos(rtt.as_nanos() / 8 * 9).max(TIMER_GRANULARITY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Span {
        Span::from_millis(n)
    }

    #[test]
    fn values_of_rfc_9002() {
        let mut rtt = Rtt::new();
        assert_eq!(rtt.probe_timeout(), ms(999));
        rtt.sample(ms(100), ms(20)); // the first is not adjusted
        assert_eq!((rtt.smoothed, rtt.variation), (ms(100), ms(50)));
        assert_eq!(rtt.probe_timeout(), ms(300));
        // 140 - 20: |100 - 120| = 20; variation (3 * 50 + 20) / 4, smoothed (7 * 100 + 120) / 8
        rtt.sample(ms(140), ms(20));
        assert_eq!(rtt.variation, Span::from_micros(42_500));
        assert_eq!(rtt.smoothed, Span::from_micros(102_500));
        assert_eq!(rtt.loss_delay(), Span::from_micros(157_500));
        // Subtracting the delay would give less than the minimum: the delay is ignored.
        let before = rtt.smoothed;
        rtt.sample(ms(105), ms(20));
        assert_eq!(rtt.smoothed, Span::from_nanos((7 * before.as_nanos() + 105_000_000) / 8));
    }

    #[test]
    fn nothing_is_shorter_than_the_timers_granularity() {
        let mut rtt = Rtt::new();
        for _ in 0..200 {
            rtt.sample(Span::from_micros(10), Span::ZERO);
        }
        assert_eq!(rtt.loss_delay(), TIMER_GRANULARITY);
        assert_eq!(rtt.probe_timeout(), Span::from_micros(10) + TIMER_GRANULARITY);
    }
}
