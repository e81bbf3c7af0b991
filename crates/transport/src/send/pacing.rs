//! Spacing of new data. Retransmissions are never held back, as in TCP-AP's released code.

use fairmesh_units::{Span, Time};

/// When the next segment of new data may leave.
#[derive(Clone, Debug)]
pub(super) struct Pacing {
    /// By the window: `srtt × segment / cwnd`.
    by_window: bool,
    /// Set from outside; comes before `by_window`.
    interval: Option<Span>,
    /// New data may leave from here on.
    from: Time,
    /// `from` while a segment waits for it, else never.
    due: Time,
}

impl Pacing {
    pub(super) fn new(by_window: bool) -> Self {
        Pacing { by_window, interval: None, from: Time::ZERO, due: Time::NEVER }
    }

    pub(super) fn set(&mut self, interval: Option<Span>) {
        self.interval = interval;
    }

    pub(super) const fn is_on(&self) -> bool {
        self.by_window || self.interval.is_some()
    }

    /// When to ask again.
    pub(super) const fn due(&self) -> Time {
        self.due
    }

    /// The deadline was noticed.
    pub(super) fn on_deadline(&mut self, now: Time) {
        if now >= self.due {
            self.due = Time::NEVER;
        }
    }

    /// Whether a segment that the window allows may leave; if not, `due` says when.
    pub(super) fn may_send(&mut self, now: Time) -> bool {
        let may = now >= self.from || !self.is_on();
        self.due = if may { Time::NEVER } else { self.from };
        may
    }

    /// A segment of `len` bytes of new data has left.
    pub(super) fn sent(&mut self, now: Time, len: u32, cwnd: u64, srtt: Option<Span>) {
        let spacing = self.interval.or_else(|| {
            // Before the first sample there is nothing to spread over.
            let srtt = u128::from(srtt?.as_nanos());
            Some(Span::from_nanos((srtt * u128::from(len) / u128::from(cwnd.max(1))) as u64))
        });
        self.from = now + spacing.unwrap_or(Span::ZERO);
    }
}
