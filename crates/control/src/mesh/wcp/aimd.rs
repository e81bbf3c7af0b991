//! Additive increase, multiplicative decrease of a rate (Rangwala 2008 §3.1).

use fairmesh_units::{Span, Time};

/// Bounds of control intervals for any content of a header.
pub(super) const INTERVAL_BOUNDS: (Span, Span) = (Span::from_millis(5), Span::from_millis(4095));
/// Maximum number of missed increases that are made up for at once.
///
/// These are the increases of the shortest intervals between two deadlines.
const MAX_MISSED_INCREASES: u32 = 4;

/// A rate that rises by α every t_ai and is halved at most once in t_md.
#[derive(Debug)]
pub(super) struct Aimd {
    /// r, packets per second.
    pub rate: f64,
    least: f64,
    most: f64,
    /// True while the rate doubles every t_ai: until the first notification, with `+doubling`.
    doubling: bool,
    /// t_ai, the interval between increases.
    pub interval: Span,
    next: Option<Time>,
    /// Time until which notifications are ignored.
    quiet: Time,
}

impl Aimd {
    pub fn new(start: f64, least: f64, most: f64, doubling: bool) -> Self {
        let most = most.max(least);
        Aimd {
            rate: start.clamp(least, most),
            least,
            most,
            doubling,
            interval: Span::from_millis(100),
            next: None,
            quiet: Time::ZERO,
        }
    }

    /// Returns the control interval for a round trip from a header, or for the flow's own.
    pub fn interval_of(ms: u32, own: u32) -> Span {
        let ms = if ms > 0 { ms } else { own };
        Span::from_millis(u64::from(ms)).clamp(INTERVAL_BOUNDS.0, INTERVAL_BOUNDS.1)
    }

    /// Advances to `now`: r = r + α at the end of every t_ai, up to `cap`; a higher rate stays.
    pub fn rise(&mut self, now: Time, alpha: f64, cap: f64) {
        let mut next = self.next.unwrap_or(now + self.interval);
        // The time in which a host was suspended is not made up for.
        for _ in 0..MAX_MISSED_INCREASES {
            if next > now {
                break;
            }
            next += self.interval;
            let step = if self.doubling { self.rate } else { alpha };
            self.rate = self.rate.max((self.rate + step).min(cap.min(self.most)));
        }
        self.next = Some(if next > now { next } else { now + self.interval });
    }

    /// Handles a notification; returns true if the rate was halved.
    /// r = r / 2, unless the last notification was less than t_md (`wait`) ago.
    pub fn fall(&mut self, now: Time, wait: Span) -> bool {
        if now < self.quiet {
            return false;
        }
        self.doubling = false;
        self.rate = (self.rate / 2.0).max(self.least);
        self.quiet = now + wait;
        true
    }
}
