//! The rate of one flow at its source (Rangwala 2008 §3.1, rate adaptation).

use fairmesh_units::{FlowId, Span, Time};

use super::word::{Word, millis, rate_code};

/// Weight of a round trip in the average, as TCP's (RFC 6298 §2).
const SMOOTH: f64 = 0.125;
/// Weight of a packet in the loss rate.
const LOSS: f64 = 0.01;
/// Control intervals stay within these, whatever a header says.
pub(super) const INTERVALS: (Span, Span) = (Span::from_millis(20), Span::from_millis(4095));
/// How often it is looked at what of the rate is used.
const LOOK: Span = Span::from_secs(1);
/// A rate is at most this many times what is delivered: a flow that is not held back by its rate
/// must not save up for a burst.
const AHEAD: f64 = 2.0;

/// One flow of this node.
#[derive(Debug)]
pub(super) struct Rate {
    pub flow: FlowId,
    payload: u32,
    /// r, packets per second.
    pub rate: f64,
    least: f64,
    most: f64,
    /// Until the first notification the rate doubles.
    pub starting: bool,
    /// Smoothed and latest round trip.
    average: Option<f64>,
    latest: Span,
    /// t_ai, when it ends, and the instant up to which notifications are not reacted to.
    pub interval: Span,
    next: Option<Time>,
    pub quiet: Time,
    /// Loss rate.
    pub loss: f64,
    acked: u64,
    looked: Option<Time>,
    delivered: Option<f64>,
    /// The spacing in force.
    pub spacing: Span,
}

impl Rate {
    /// A flow with this many bytes of data in a packet, whose first link carries `most` packets
    /// per second.
    pub fn new(flow: FlowId, payload: u32, start: f64, least: f64, most: f64) -> Self {
        let most = most.max(least);
        Rate {
            flow,
            payload: payload.max(1),
            rate: start.clamp(least, most),
            least,
            most,
            starting: true,
            average: None,
            latest: Span::ZERO,
            interval: Span::from_millis(100),
            next: None,
            quiet: Time::ZERO,
            loss: 0.0,
            acked: 0,
            looked: None,
            delivered: None,
            spacing: Span::ZERO,
        }
    }

    /// An acknowledgement came: round trip, data bytes and losses it told of.
    pub fn measure(&mut self, rtt: Span, acked: u32, lost: u32) {
        if rtt > Span::ZERO {
            let s = rtt.as_secs_f64();
            self.average = Some(self.average.map_or(s, |a| a + SMOOTH * (s - a)));
            self.latest = rtt;
        }
        self.acked += u64::from(acked);
        let packets = (f64::from(acked) / f64::from(self.payload)).min(64.0);
        let gone = f64::from(lost.min(64));
        if packets + gone > 0.0 {
            let part = gone / (packets + gone);
            self.loss += (1.0 - libm::pow(1.0 - LOSS, packets + gone)) * (part - self.loss);
        }
    }

    /// What its packets say of it.
    pub fn word(&self) -> Word {
        let average = self.average.map_or(0, |a| millis(Span::from_secs_f64(a)));
        Word { average, instant: millis(self.latest), rate: rate_code(self.rate) }
    }

    /// The control interval for a round trip from a header; the flow's own where there is none.
    pub fn interval_of(ms: u32, own: u32) -> Span {
        let ms = if ms > 0 { ms } else { own };
        Span::from_millis(u64::from(ms)).clamp(INTERVALS.0, INTERVALS.1)
    }

    /// Goes on to `now`: r = r + α at the end of every t_ai. Returns whether the rate has changed.
    pub fn rise(&mut self, now: Time, alpha: f64) -> bool {
        self.look(now);
        let before = self.rate;
        let mut next = self.next.unwrap_or(now + self.interval);
        // A host that was away is not made up for.
        for _ in 0..4 {
            if next > now {
                break;
            }
            next += self.interval;
            let cap = self.delivered.map_or(self.rate, |d| AHEAD * d + AHEAD).min(self.most);
            let step = if self.starting { self.rate } else { alpha };
            self.rate = self.rate.max((self.rate + step).min(cap));
        }
        self.next = Some(if next > now { next } else { now + self.interval });
        self.rate != before
    }

    fn look(&mut self, now: Time) {
        let since = *self.looked.get_or_insert(now);
        if now.since(since) >= LOOK {
            let packets = self.acked as f64 / f64::from(self.payload);
            self.delivered = Some(packets / now.since(since).as_secs_f64());
            (self.acked, self.looked) = (0, Some(now));
        }
    }

    /// A notification came: r = r / 2, unless the last one was less than t_md ago. Returns whether
    /// it was reacted to.
    pub fn fall(&mut self, now: Time, wait: Span) -> bool {
        if now < self.quiet {
            return false;
        }
        self.starting = false;
        self.rate = (self.rate / 2.0).max(self.least);
        self.quiet = now + wait;
        true
    }

    /// Spacing of packets, new and repeated: r / (1 - p) are sent so that r arrive; without the
    /// correction r counts what is sent.
    pub fn space(&self, corrected: bool) -> Span {
        let rate = if corrected { self.rate / (1.0 - self.loss).max(0.1) } else { self.rate };
        Span::from_secs_f64(1.0 / rate.max(0.01)).max(Span::from_nanos(1))
    }
}
