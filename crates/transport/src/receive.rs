//! The receiving half: arrived and missing data, and the timing of acknowledgements.

use fairmesh_units::{Span, Time};

use crate::config::{Congestion, TcpConfig};
use crate::segment::{Flags, SackBlocks, Segment};

/// A range received out of order.
#[derive(Clone, Copy, Debug)]
struct Range {
    start: u64,
    end: u64,
    /// Sequence of its last change; larger is later.
    stamp: u64,
}

/// Reassembly and acknowledgement of one direction.
#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    /// Next byte expected.
    next: u64,
    /// Sorted, disjoint and not touching, all above `next`.
    ranges: Vec<Range>,
    stamp: u64,
    fin_at: u64,
    delay: Option<Span>,
    sack: bool,
    /// Segments in order since the last ACK.
    unacked: u32,
    /// True if an ACK is due; data may carry it.
    due: bool,
    /// Number of ACKs that must be sent without data.
    ///
    /// An ACK on data does not count as a duplicate.
    due_alone: u32,
    delayed_until: Time,
    /// True to echo congestion until the sender confirms its reduction.
    echo: bool,
    /// True if marks are counted instead of echoed.
    exact: bool,
    marks: u32,
}

impl Receiver {
    pub(crate) fn new(cfg: &TcpConfig) -> Self {
        Receiver {
            next: 0,
            ranges: Vec::new(),
            stamp: 0,
            fin_at: u64::MAX,
            delay: cfg.delayed_ack,
            sack: cfg.sack,
            // The first segment is acknowledged immediately.
            unacked: 1,
            due: false,
            due_alone: 0,
            delayed_until: Time::NEVER,
            echo: false,
            exact: cfg.congestion == Congestion::Prague,
            marks: 0,
        }
    }

    /// Records the peer's SYN.
    pub(crate) fn on_syn(&mut self) {
        self.next = 1;
    }

    /// Returns the next byte expected.
    pub(crate) const fn next(&self) -> u64 {
        self.next
    }
    /// Returns true if all data and the peer's FIN have arrived.
    pub(crate) const fn finished(&self) -> bool {
        self.next > self.fin_at
    }
    pub(crate) const fn deadline(&self) -> Time {
        self.delayed_until
    }
    /// Returns true if an ACK must be sent without data.
    pub(crate) const fn due_alone(&self) -> bool {
        self.due_alone > 0
    }
    /// Returns true if an ACK must be sent, with or without data.
    pub(crate) const fn due(&self) -> bool {
        self.due || self.due_alone > 0
    }
    /// Requests one ACK without data.
    pub(crate) fn request_ack(&mut self) {
        self.due_alone += 1;
    }

    /// Handles the expiry of the delayed-ACK timer.
    pub(crate) fn on_deadline(&mut self) {
        self.delayed_until = Time::NEVER;
        self.due = true;
    }

    /// Processes a segment with payload or FIN.
    ///
    /// Returns the application bytes that are now in order. `ce`: true if it was marked on the path
    /// (only if ECN was negotiated).
    pub(crate) fn on_data(&mut self, now: Time, seg: &Segment, ce: bool) -> u64 {
        // RFC 3168 §6.1.3: CWR first, because this segment may itself be marked
        if seg.flags.has(Flags::CWR) {
            self.echo = false;
        }
        self.echo |= ce && !self.exact;
        self.marks += u32::from(ce && self.exact);
        let end = seg.end();
        if seg.flags.has(Flags::FIN) {
            self.fin_at = end - 1;
        }
        if end <= self.next || seg.seq > self.next {
            // RFC 5681 §4.2: acknowledges immediately if it is out of order or a duplicate
            if seg.seq > self.next {
                self.insert(seg.seq, end);
            }
            self.due_alone += 1;
            return 0;
        }
        let before = self.next;
        self.next = end;
        let had_gap = !self.ranges.is_empty();
        if had_gap {
            self.absorb();
        }
        self.unacked += 1;
        // RFC 5681 §4.2: immediately when a gap was filled; otherwise every second segment
        let now_due = had_gap || self.finished() || self.unacked >= 2;
        match self.delay {
            Some(delay) if !now_due => {
                if self.delayed_until == Time::NEVER {
                    self.delayed_until = now + delay; // RFC 1122 §4.2.3.2
                }
            }
            _ => self.due = true,
        }
        self.next - before - u64::from(self.finished() && before <= self.fin_at)
    }

    /// Stores `start..end`, which is above `next`.
    fn insert(&mut self, mut start: u64, mut end: u64) {
        self.stamp += 1;
        // Merges the ranges that overlap or touch it.
        let from = self.ranges.partition_point(|r| r.end < start);
        let to = self.ranges.partition_point(|r| r.start <= end);
        if from < to {
            start = start.min(self.ranges[from].start);
            end = end.max(self.ranges[to - 1].end);
            self.ranges.drain(from + 1..to);
            self.ranges[from] = Range { start, end, stamp: self.stamp };
        } else {
            self.ranges.insert(from, Range { start, end, stamp: self.stamp });
        }
    }

    /// Advances `next` over the ranges that it has reached.
    fn absorb(&mut self) {
        let reached = self.ranges.partition_point(|r| r.start <= self.next);
        if let Some(last) = self.ranges[..reached].last() {
            self.next = self.next.max(last.end);
            self.ranges.drain(..reached);
        }
    }

    /// Records that an ACK was sent; `alone` if without data.
    pub(crate) fn on_ack_sent(&mut self, alone: bool) {
        if alone && self.due_alone > 0 {
            self.due_alone -= 1;
        }
        self.due = false;
        self.unacked = 0;
        self.delayed_until = Time::NEVER;
    }

    /// Returns the number of marked datagrams received, if they are counted.
    pub(crate) const fn marks(&self) -> u32 {
        self.marks
    }

    /// Returns ECE if congestion is to be echoed.
    pub(crate) fn echo(&self) -> Flags {
        Flags::NONE.with(Flags::ECE, self.echo)
    }

    /// Returns the SACK option: the most recently changed range first (RFC 2018 §4).
    pub(crate) fn blocks(&self) -> SackBlocks {
        let mut blocks = SackBlocks::default();
        if !self.sack || self.ranges.is_empty() {
            return blocks;
        }
        let mut below = u64::MAX;
        for _ in 0..SackBlocks::MAX {
            let newest = self.ranges.iter().filter(|r| r.stamp < below).max_by_key(|r| r.stamp);
            let Some(r) = newest else { break };
            below = r.stamp;
            let (start, end) = (r.start - self.next, r.end - self.next);
            if let (Ok(start), Ok(end)) = (u32::try_from(start), u32::try_from(end)) {
                blocks.push(start, end);
            }
        }
        blocks
    }
}
