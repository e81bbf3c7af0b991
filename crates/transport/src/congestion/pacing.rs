//! Spacing of new data. Retransmissions are never held back, as in TCP-AP's released code, unless a
//! model of the path sets the rate.

use fairmesh_units::{Span, Time};

/// When the next segment of new data may leave.
#[derive(Clone, Debug)]
pub(crate) struct Pacing {
    /// By the window: `srtt × segment / cwnd`.
    by_window: bool,
    /// Set from outside; comes before `by_window`.
    interval: Option<Span>,
    /// New data may leave from here on.
    from: Time,
    /// `from` while a segment waits for it, else never.
    due: Time,
    /// Set by a model of the path, bytes per second; 0: not known yet.
    rate: f64,
    /// Bytes that leave at once (GSO), and how many of them have.
    quantum: u64,
    spent: u64,
}

impl Pacing {
    /// `burst`: bytes that leave at once.
    pub(crate) fn new(by_window: bool, burst: u64) -> Self {
        Pacing {
            by_window,
            interval: None,
            from: Time::ZERO,
            due: Time::NEVER,
            rate: 0.0,
            quantum: burst,
            spent: 0,
        }
    }

    pub(crate) fn set(&mut self, interval: Option<Span>) {
        self.interval = interval;
    }

    /// A model's rate in bytes per second, and what leaves at once.
    pub(crate) fn set_rate(&mut self, rate: f64, quantum: u64) {
        (self.rate, self.quantum) = (rate, quantum);
    }

    pub(crate) fn is_on(&self) -> bool {
        self.by_window || self.interval.is_some() || self.rate > 0.0
    }

    /// When to ask again.
    pub(crate) const fn due(&self) -> Time {
        self.due
    }

    /// The deadline was noticed.
    pub(crate) fn on_deadline(&mut self, now: Time) {
        if now >= self.due {
            self.due = Time::NEVER;
        }
    }

    /// Whether a segment that the window allows may leave; if not, `due` says when.
    pub(crate) fn may_send(&mut self, now: Time) -> bool {
        let may = now >= self.from || !self.is_on();
        self.due = if may { Time::NEVER } else { self.from };
        may
    }

    /// A segment of `len` bytes of new data has left.
    pub(crate) fn sent(&mut self, now: Time, len: u32, cwnd: u64, srtt: Option<Span>) {
        let bytes = if self.interval.is_some() {
            u64::from(len)
        } else {
            self.spent += u64::from(len);
            // What has left of a burst is waited for when the burst is over.
            if self.spent < self.quantum {
                return;
            }
            core::mem::take(&mut self.spent)
        };
        let spacing = self.interval.or_else(|| {
            if self.rate > 0.0 {
                return Some(Span::from_secs_f64(bytes as f64 / self.rate));
            }
            // Before the first sample there is nothing to spread over.
            let srtt = u128::from(srtt?.as_nanos());
            Some(Span::from_nanos((srtt * u128::from(bytes) / u128::from(cwnd.max(1))) as u64))
        });
        self.from = now + spacing.unwrap_or(Span::ZERO);
    }
}
