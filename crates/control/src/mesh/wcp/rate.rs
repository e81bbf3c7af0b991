//! One flow of this node: its rate, and its delivery (Rangwala 2008 §3.1).

use fairmesh_units::{FlowId, Span, Time};

use super::aimd::Aimd;
use super::link_state::{LinkState, millis, rate_code};

/// Weight of a round trip in the average, as TCP's (RFC 6298 §2).
const ROUND_TRIP_GAIN: f64 = 0.125;
/// Weight of a packet in the loss rate.
const LOSS_GAIN: f64 = 0.01;
/// Time between evaluations of the used fraction of the rate.
const USE_PERIOD: Span = Span::from_secs(1);
/// Largest ratio of the rate to the delivered rate.
///
/// A flow that its rate does not limit must not accumulate a burst.
pub(super) const MAX_RATE_RATIO: f64 = 2.0;

/// One flow of this node.
#[derive(Debug)]
pub(super) struct Rate {
    pub flow: FlowId,
    payload: u32,
    pub aimd: Aimd,
    /// Slowest rate of the routers on the path, if they have rates of their own.
    pub path_rate: Option<f64>,
    /// Smoothed round trip, in s.
    average: Option<f64>,
    /// Latest round trip.
    latest: Span,
    /// Loss rate.
    pub loss: f64,
    acked: u64,
    looked: Option<Time>,
    delivered: Option<f64>,
    /// Spacing in force.
    pub spacing: Span,
}

impl Rate {
    /// A flow with this many bytes of data in a packet.
    pub fn new(flow: FlowId, payload: u32, aimd: Aimd) -> Self {
        Rate {
            flow,
            payload: payload.max(1),
            aimd,
            path_rate: None,
            average: None,
            latest: Span::ZERO,
            loss: 0.0,
            acked: 0,
            looked: None,
            delivered: None,
            spacing: Span::ZERO,
        }
    }

    /// Returns r, packets per second.
    pub fn rate(&self) -> f64 {
        self.path_rate.map_or(self.aimd.rate, |t| self.aimd.rate.min(t))
    }

    /// Handles an acknowledgement: its round trip, data bytes and losses.
    pub fn measure(&mut self, rtt: Span, acked: u32, lost: u32) {
        if rtt > Span::ZERO {
            let s = rtt.as_secs_f64();
            self.average = Some(self.average.map_or(s, |a| a + ROUND_TRIP_GAIN * (s - a)));
            self.latest = rtt;
        }
        self.acked += u64::from(acked);
        let packets = (f64::from(acked) / f64::from(self.payload)).min(64.0);
        let gone = f64::from(lost.min(64));
        if packets + gone > 0.0 {
            let part = gone / (packets + gone);
            self.loss += (1.0 - libm::pow(1.0 - LOSS_GAIN, packets + gone)) * (part - self.loss);
        }
    }

    /// Returns the state of the flow in its packets.
    pub fn word(&self) -> LinkState {
        let average = self.average.map_or(0, |a| millis(Span::from_secs_f64(a)));
        LinkState { average, instant: millis(self.latest), rate: rate_code(self.rate()) }
    }

    /// Advances to `now`: additive increase, up to a little more than the used rate.
    pub fn rise(&mut self, now: Time, alpha: f64) {
        self.look(now);
        let cap = self.delivered.map_or(self.aimd.rate, |d| MAX_RATE_RATIO * d + MAX_RATE_RATIO);
        self.aimd.rise(now, alpha, cap);
    }

    fn look(&mut self, now: Time) {
        let since = *self.looked.get_or_insert(now);
        if now.since(since) >= USE_PERIOD {
            let packets = self.acked as f64 / f64::from(self.payload);
            self.delivered = Some(packets / now.since(since).as_secs_f64());
            (self.acked, self.looked) = (0, Some(now));
        }
    }

    /// Handles a notification; returns true if the rate was halved.
    pub fn fall(&mut self, now: Time, wait: Span) -> bool {
        self.aimd.fall(now, wait)
    }

    /// Returns the spacing of packets, new and repeated.
    /// r / (1 - p) are sent so that r arrive; without the correction r counts the packets sent.
    pub fn space(&self, corrected: bool) -> Span {
        let rate = self.rate();
        let rate = if corrected { rate / (1.0 - self.loss).max(0.1) } else { rate };
        Span::from_secs_f64(1.0 / rate.max(0.01)).max(Span::from_nanos(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_trip_that_is_not_known_changes_no_average() {
        let mut rate = Rate::new(FlowId(0), 1460, Aimd::new(10.0, 1.0, 100.0, false));
        let coded = |r: &Rate| (r.word().average, r.word().instant);
        rate.measure(Span::ZERO, 1460, 0);
        assert_eq!(coded(&rate), (0, 0), "not known");
        rate.measure(Span::from_millis(80), 1460, 0);
        assert_eq!(coded(&rate), (80, 80), "the first is the average");
        rate.measure(Span::ZERO, 1460, 0);
        assert_eq!(coded(&rate), (80, 80));
        rate.measure(Span::from_millis(160), 1460, 0);
        assert_eq!(coded(&rate), (90, 160), "an eighth");
        // A measurement without packets gives no information on losses either.
        rate.measure(Span::from_millis(80), 0, 0);
        assert_eq!(rate.loss, 0.0);
        rate.measure(Span::from_millis(80), 0, 1);
        assert!(rate.loss > 0.0);
    }
}
