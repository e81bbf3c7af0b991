//! Delivery rate (draft-cheng-iccrg-delivery-rate-estimation-00), the input of BBR.

use fairmesh_units::{Span, Time};

use super::window::RateSample;

/// Last transmission of a segment and the data delivered by then.
/// draft-cheng-iccrg-delivery-rate-estimation-00 §3.2.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    pub(crate) sent: Time,
    pub(crate) delivered: u64,
    pub(crate) delivered_at: Time,
    pub(crate) first_sent: Time,
    pub(crate) app_limited: bool,
    /// Bytes in the network including it, and total bytes declared lost.
    /// draft-ietf-ccwg-bbr-06 §4.1.2.1.2.
    pub(crate) in_flight: u64,
    pub(crate) lost: u64,
}

/// A segment that has arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivered {
    pub(crate) end: u64,
    pub(crate) len: u32,
    pub(crate) stamp: Stamp,
    pub(crate) resent: bool,
}

/// Counter of delivered data.
#[derive(Clone, Debug, Default)]
pub(crate) struct Delivery {
    delivered: u64,
    delivered_at: Time,
    first_sent: Time,
    /// Delivered bytes up to which samples are limited by the application.
    app_limited: u64,
}

impl Delivery {
    /// Returns the stamp of a departing segment; `idle`: the network was empty.
    pub(crate) fn stamp(&mut self, now: Time, idle: bool) -> Stamp {
        if idle {
            (self.first_sent, self.delivered_at) = (now, now);
        }
        Stamp {
            sent: now,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
            app_limited: self.is_starved(),
            in_flight: 0,
            lost: 0,
        }
    }

    /// Returns true if the application limits the rate.
    pub(crate) const fn is_starved(&self) -> bool {
        self.app_limited > self.delivered
    }

    /// Returns the total of bytes delivered.
    pub(crate) const fn total(&self) -> u64 {
        self.delivered
    }

    /// Records that the application has no more data while the window has room.
    pub(crate) fn starved(&mut self, in_flight: u64) {
        self.app_limited = (self.delivered + in_flight).max(1);
    }

    /// Returns the delivery sample of an ACK; `None` if it delivered no data.
    ///
    /// `lost`: total bytes declared lost.
    pub(crate) fn on_ack(
        &mut self,
        now: Time,
        delivered: &[Delivered],
        lost: u64,
    ) -> Option<RateSample> {
        let before = self.delivered;
        let mut latest: Option<&Delivered> = None;
        for d in delivered {
            self.delivered += u64::from(d.len);
            self.delivered_at = now;
            // The segment sent last is the most recent sample.
            if latest.is_none_or(|l| (d.stamp.delivered, d.end) >= (l.stamp.delivered, l.end)) {
                latest = Some(d);
                self.first_sent = d.stamp.sent;
            }
        }
        let Delivered { stamp, resent, .. } = latest?;
        let sending = stamp.sent.since(stamp.first_sent);
        let arriving = now.since(stamp.delivered_at);
        let interval = sending.max(arriving);
        let bytes = self.delivered - stamp.delivered;
        let rtt = now.since(stamp.sent);
        let rate = (interval > Span::ZERO).then(|| bytes as f64 / interval.as_secs_f64());
        Some(RateSample {
            rate,
            prior: stamp.delivered,
            total: self.delivered,
            now: self.delivered - before,
            app_limited: stamp.app_limited,
            rtt: (!resent).then_some(rtt),
            interval,
            in_flight: stamp.in_flight,
            lost: lost - stamp.lost,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Time {
        Time::ZERO + Span::from_millis(n)
    }

    #[test]
    fn a_steady_stream_is_measured_and_a_burst_of_acks_is_not_believed() {
        let mut d = Delivery::default();
        // A segment of 1000 bytes each ms, 10 ms in transit: 1 MB/s.
        let stamps: Vec<Stamp> = Vec::new();
        let mut stamps = stamps;
        for t in 0..30u64 {
            if t >= 10 {
                let stamp = stamps[(t - 10) as usize];
                let end = 1000 * (t - 9);
                let delivered = [Delivered { end, len: 1000, stamp, resent: false }];
                let sample = d.on_ack(ms(t), &delivered, 0).unwrap();
                assert_eq!(sample.rtt, Some(Span::from_millis(10)));
                if t >= 21 {
                    let rate = sample.rate.unwrap();
                    assert!((rate / 1e6 - 1.0).abs() < 0.01, "{t}: {rate}");
                }
            }
            stamps.push(d.stamp(ms(t), t == 0));
        }
        // The next ten ACKs arrive together, 10 ms late.
        let delivered: Vec<Delivered> = (20..30)
            .map(|t| Delivered {
                end: 1000 * (t + 1),
                len: 1000,
                stamp: stamps[t as usize],
                resent: false,
            })
            .collect();
        let sample = d.on_ack(ms(40), &delivered, 0).unwrap();
        assert!(sample.rate.unwrap() <= 1.01e6, "{:?}", sample.rate);
        assert_eq!(sample.now, 10_000);
    }

    #[test]
    fn samples_know_when_the_application_was_the_limit() {
        let mut d = Delivery::default();
        d.starved(0);
        let stamp = d.stamp(ms(0), true);
        assert!(stamp.app_limited);
        let delivered = [Delivered { end: 1000, len: 1000, stamp, resent: true }];
        let sample = d.on_ack(ms(5), &delivered, 0).unwrap();
        assert!(sample.app_limited && sample.rtt.is_none());
        assert!(!d.stamp(ms(6), true).app_limited);
        assert_eq!(d.on_ack(ms(7), &[], 0), None);
    }
}
