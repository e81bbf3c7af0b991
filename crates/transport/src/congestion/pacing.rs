//! Pacing of new data.
//!
//! Retransmissions are not delayed, as in TCP-AP's released code, unless a model of the path sets
//! the rate.

use fairmesh_units::{Span, Time};

/// Pacing state: the departure of the next segment of new data.
#[derive(Clone, Debug)]
pub(crate) struct Pacing {
    /// True to space by the window: `srtt × segment / cwnd`.
    by_window: bool,
    /// Interval set by a control; has priority over `by_window`.
    interval: Option<Span>,
    /// Instant from which new data may leave.
    from: Time,
    /// `from` while a segment waits for it; otherwise never.
    due: Time,
    /// Rate set by a model of the path, bytes per second; 0 if not known yet.
    rate: f64,
    /// Bytes per burst (GSO), and the number sent of the present one.
    quantum: u64,
    spent: u64,
    /// True if `quantum` is a bucket that also fills while sending is otherwise blocked.
    bucket: bool,
}

impl Pacing {
    /// Builds the pacing. `burst`: bytes per burst.
    pub(crate) fn new(by_window: bool, burst: u64) -> Self {
        Pacing {
            by_window,
            interval: None,
            from: Time::ZERO,
            due: Time::NEVER,
            rate: 0.0,
            quantum: burst,
            spent: 0,
            bucket: false,
        }
    }

    /// Builds pacing by the window with a bucket of this many bytes. RFC 9002 §7.7
    pub(crate) fn leaky_bucket(burst: u64) -> Self {
        Pacing { bucket: true, ..Pacing::new(true, burst) }
    }

    pub(crate) fn set(&mut self, interval: Option<Span>) {
        self.interval = interval;
    }

    /// Sets a model's rate, bytes per second, and its bytes per burst.
    pub(crate) fn set_rate(&mut self, rate: f64, quantum: u64) {
        (self.rate, self.quantum) = (rate, quantum);
    }

    pub(crate) fn is_on(&self) -> bool {
        self.by_window || self.interval.is_some() || self.rate > 0.0
    }

    /// Returns the instant of the next check.
    pub(crate) const fn due(&self) -> Time {
        self.due
    }

    /// Handles the deadline.
    pub(crate) fn on_deadline(&mut self, now: Time) {
        if now >= self.due {
            self.due = Time::NEVER;
        }
    }

    /// Returns true if a segment that the window allows may leave.
    ///
    /// If not, `due` is the next instant.
    pub(crate) fn may_send(&mut self, now: Time) -> bool {
        let may = now >= self.from || !self.is_on();
        self.due = if may { Time::NEVER } else { self.from };
        may
    }

    /// Records that a segment of `len` bytes of new data was sent.
    pub(crate) fn sent(&mut self, now: Time, len: u32, cwnd: u64, srtt: Option<Span>) {
        // Controls and models have their own spacing.
        let bucket = self.bucket && self.interval.is_none() && self.rate == 0.0;
        let bytes = if self.interval.is_some() || bucket {
            u64::from(len)
        } else {
            self.spent += u64::from(len);
            // The pause for a burst starts when the burst is complete.
            if self.spent < self.quantum {
                return;
            }
            core::mem::take(&mut self.spent)
        };
        let spacing = self.interval.or_else(|| {
            if self.rate > 0.0 {
                return Some(Span::from_secs_f64(bytes as f64 / self.rate));
            }
            // Without a round-trip sample there is no interval to spread over.
            let srtt = u128::from(srtt?.as_nanos());
            Some(Span::from_nanos((srtt * u128::from(bytes) / u128::from(cwnd.max(1))) as u64))
        });
        let spacing = spacing.unwrap_or(Span::ZERO);
        let since = if bucket { self.filled(now, spacing, bytes) } else { now };
        self.from = since + spacing;
    }

    /// Returns the instant from which the bucket has been filling.
    ///
    /// After sending was blocked for another reason, the sender catches up by at most the bucket's
    /// content in addition to this packet.
    fn filled(&self, now: Time, spacing: Span, bytes: u64) -> Time {
        let more = u128::from(self.quantum.saturating_sub(bytes));
        let most = u128::from(spacing.as_nanos()) * more / u128::from(bytes.max(1));
        let earliest = now.as_nanos().saturating_sub(u64::try_from(most).unwrap_or(u64::MAX));
        self.from.max(Time::from_nanos(earliest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends all it may at each of these instants, in ms; ten packets of 1000 bytes in 100 ms.
    fn run(mut pacing: Pacing, at: &[u64]) -> Vec<u32> {
        let (cwnd, srtt) = (10_000, Some(Span::from_millis(100)));
        let mut all = Vec::new();
        for &ms in at {
            let now = Time::ZERO + Span::from_millis(ms);
            let mut n = 0;
            while pacing.may_send(now) && n < 100 {
                pacing.sent(now, 1000, cwnd, srtt);
                n += 1;
            }
            all.push(n);
        }
        all
    }

    #[test]
    fn unused_credit_is_kept_up_to_the_depth_of_the_bucket() {
        let at = [1000, 1005, 1010, 1020, 1030, 1045, 1050, 2000, 2005, 2010];
        // One packet per 10 ms; a delay of 5 ms is recovered once.
        let bucket = Pacing::leaky_bucket(2000);
        assert_eq!(run(bucket, &at), [2, 0, 1, 1, 1, 1, 1, 2, 0, 1]);
        assert_eq!(run(Pacing::leaky_bucket(5000), &at)[..3], [5, 0, 1]);
        // Without a bucket, a late packet delays the next.
        assert_eq!(run(Pacing::new(true, 1000), &at), [1, 0, 1, 1, 1, 1, 0, 1, 0, 1]);
    }
}
