//! RACK-TLP (RFC 8985).
//!
//! It is loss detection by time instead of by counting, and a probe for a lost tail.

use fairmesh_units::{Span, Time};

use super::scoreboard::{DUP_THRESH, Scoreboard};
use crate::congestion::delivery::Delivered;

/// Maximum delay of a receiver's acknowledgement of a single segment. RFC 8985 §7.2
const WORST_DELAYED_ACK: Span = Span::from_millis(200);

/// State of RACK and TLP.
#[derive(Clone, Debug, Default)]
pub(super) struct Rack {
    /// Latest sent segment that was delivered: sending time, end, and round trip.
    sent: Time,
    end: u64,
    rtt: Span,
    min_rtt: Option<Span>,
    /// Highest delivered end.
    highest: u64,
    reordered: bool,
    /// Instant of the next check.
    pub(super) reorder_timer: Time,
    /// Instant of the probe.
    pub(super) probe_timer: Time,
    pub(super) probe_due: bool,
    /// End of the probe's data, and true if it was a retransmission.
    probe: Option<(u64, bool)>,
}

impl Rack {
    pub(super) fn new() -> Self {
        Rack { reorder_timer: Time::NEVER, probe_timer: Time::NEVER, ..Rack::default() }
    }

    /// Processes delivered segments. RFC 8985 §6.2, steps 1 to 3
    pub(super) fn update(&mut self, now: Time, delivered: &[Delivered]) {
        for d in delivered {
            let rtt = now.since(d.stamp.sent);
            if !d.resent {
                self.min_rtt = Some(self.min_rtt.map_or(rtt, |least| least.min(rtt)));
            } else if self.min_rtt.is_some_and(|least| rtt < least) {
                continue; // It was the first transmission that arrived.
            }
            if (d.stamp.sent, d.end) > (self.sent, self.end) {
                (self.sent, self.end, self.rtt) = (d.stamp.sent, d.end, rtt);
            }
            if d.end < self.highest && !d.resent {
                self.reordered = true;
            }
            self.highest = self.highest.max(d.end);
        }
    }

    /// Returns the reordering window.
    ///
    /// Receivers here do not report duplicates, so it does not grow. RFC 8985 §6.2, step 4
    fn window(&self, recovering: bool, sacked: usize, srtt: Option<Span>) -> Span {
        if !self.reordered && (recovering || sacked >= DUP_THRESH as usize) {
            return Span::ZERO;
        }
        let quarter = Span::from_nanos(self.min_rtt.unwrap_or(Span::ZERO).as_nanos() / 4);
        quarter.min(srtt.unwrap_or(quarter))
    }

    /// Marks lost segments and sets the next check. RFC 8985 §6.2, step 5
    pub(super) fn detect(
        &mut self,
        now: Time,
        board: &mut Scoreboard,
        recovering: bool,
        srtt: Option<Span>,
    ) -> bool {
        let window = self.window(recovering, board.sacked(), srtt);
        let (sent, end, wait) = (self.sent, self.end, self.rtt + window);
        let (any, again) = board.lose_where(|at, segment_end| {
            if (at, segment_end) >= (sent, end) {
                return None;
            }
            let due = at + wait;
            Some(if due <= now { Time::ZERO } else { due })
        });
        self.reorder_timer = again;
        any
    }

    /// Sets the timer of the probe. RFC 8985 §7.2
    pub(super) fn arm_probe(&mut self, now: Time, srtt: Option<Span>, segments: usize, rto: Time) {
        let wait = match srtt {
            Some(srtt) if segments == 1 => srtt + srtt + WORST_DELAYED_ACK,
            Some(srtt) => srtt + srtt,
            None => Span::from_secs(1),
        };
        self.probe_timer = (now + wait).min(rto);
    }

    pub(super) fn disarm_probe(&mut self) {
        self.probe_timer = Time::NEVER;
        self.probe_due = false;
    }

    /// Records that a probe was sent. RFC 8985 §7.3
    pub(super) fn probed(&mut self, end: u64, again: bool) {
        self.probe_due = false;
        self.probe_timer = Time::NEVER;
        self.probe = Some((end, again));
    }

    pub(super) fn probing(&self) -> bool {
        self.probe.is_some()
    }

    /// Discards the probe: the retransmission timer has expired, or recovery began.
    pub(super) fn discard_probe(&mut self) {
        self.probe = None;
        self.disarm_probe();
    }

    /// True if this ACK shows that the probe repaired a loss (RFC 8985 §7.4.2).
    ///
    /// Congestion control must then respond.
    pub(super) fn repaired(&mut self, ack: u64, plain_duplicate: bool) -> bool {
        let Some((end, again)) = self.probe else { return false };
        if ack < end {
            return false;
        }
        if !again || (ack == end && plain_duplicate) {
            self.probe = None;
            return false;
        }
        if ack > end {
            self.probe = None;
            return true;
        }
        false
    }
}
