//! Outstanding data, segment by segment (RFC 6675 §3).
//!
//! Segments keep their boundaries when they are retransmitted, so one entry per segment is
//! sufficient. The ring grows to the largest window and is not freed: no allocation per segment.

use std::collections::VecDeque;

use fairmesh_units::Time;

use crate::congestion::delivery::{Delivered, Stamp};
use crate::congestion::window::Loss;
use crate::segment::SackBlocks;

/// DupThresh of RFC 6675 §2.
pub(super) const DUP_THRESH: u32 = 3;

const FIN: u8 = 1;
/// Selectively acknowledged.
const SACKED: u8 = 2;
/// Presumed lost.
const LOST: u8 = 4;
/// Retransmitted since it was last presumed lost (or on suspicion).
const RESENT: u8 = 8;
/// The segment's round trip must not be measured.
const UNTIMED: u8 = 16;
/// The segment is skipped in the search for a round trip to measure.
const SKIPPED: u8 = 32;

/// One outstanding segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) seq: u64,
    time: Time,
    /// Sequence numbers it occupies: payload and FIN.
    len: u32,
    state: u8,
}

impl Sent {
    const fn is(self, state: u8) -> bool {
        self.state & state != 0
    }
    const fn end(self) -> u64 {
        self.seq + self.len as u64
    }
    pub(super) const fn fin(self) -> bool {
        self.is(FIN)
    }
    pub(super) const fn payload(self) -> u32 {
        self.len - self.fin() as u32
    }
    /// Returns true if it is lost and not yet retransmitted.
    const fn missing(self) -> bool {
        self.state & (LOST | RESENT | SACKED) == LOST
    }
    /// Returns its contribution to the data in the network. RFC 6675 §4, SetPipe
    const fn pipe(self) -> u64 {
        if self.is(SACKED) {
            return 0;
        }
        self.len as u64 * (!self.is(LOST) as u64 + self.is(RESENT) as u64)
    }
}

/// New information from selective acknowledgements.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct SackEffects {
    /// True if any segment was newly acknowledged.
    pub(super) any: bool,
    /// Departure of the latest newly acknowledged segment among those sent only once.
    pub(super) sent: Option<Time>,
}

/// The outstanding segments of one direction, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Scoreboard {
    ring: VecDeque<Sent>,
    /// Bytes believed to be in the network. RFC 6675 §4
    pipe: u64,
    /// Number of segments that are lost and not yet retransmitted.
    missing: u32,
    /// Sequence number below which no missing segment starts.
    missing_from: u64,
    /// Sequence number below which [`Scoreboard::find_lost`] has decided about every segment.
    decided_below: u64,
    /// End of the highest range acknowledged selectively.
    sacked_to: u64,
    /// Stamp of each segment, if RACK or a rate measurement needs it.
    stamps: Option<VecDeque<Stamp>>,
    /// Segments delivered since the last call, in order of their report.
    delivered: Vec<Delivered>,
    /// Total bytes declared lost, and losses not yet reported.
    lost: u64,
    losses: Option<Vec<Loss>>,
}

impl Scoreboard {
    /// Builds a board.
    ///
    /// `stamps`: true to store the time of every transmission; `losses`: true to store each loss.
    pub(super) fn new(stamps: bool, losses: bool) -> Self {
        Scoreboard {
            stamps: stamps.then(VecDeque::new),
            losses: losses.then(Vec::new),
            ..Scoreboard::default()
        }
    }

    /// Returns the total bytes declared lost; a retransmitted segment counts each time.
    pub(super) const fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns the losses since the last call, in order of detection.
    pub(super) fn take_losses(&mut self) -> Vec<Loss> {
        self.losses.as_mut().map(core::mem::take).unwrap_or_default()
    }

    #[inline]
    fn note_lost(&mut self, i: usize) {
        if self.losses.is_some() {
            self.keep_lost(i);
        }
    }

    #[cold]
    fn keep_lost(&mut self, i: usize) {
        let s = self.ring[i];
        self.lost += u64::from(s.len);
        let stamp = self.stamps.as_ref().and_then(|all| all.get(i));
        if let (Some(stamp), Some(losses)) = (stamp, &mut self.losses) {
            losses.push(Loss {
                seq: s.seq,
                len: s.len,
                in_flight: stamp.in_flight,
                lost: self.lost - stamp.lost,
                app_limited: stamp.app_limited,
            });
        }
    }

    /// Returns the segments delivered since the last call.
    ///
    /// The caller passes them to [`Scoreboard::give_back`] afterwards.
    pub(super) fn take_delivered(&mut self) -> Vec<Delivered> {
        core::mem::take(&mut self.delivered)
    }

    /// Reuses the allocation of the taken list.
    pub(super) fn give_back(&mut self, mut delivered: Vec<Delivered>) {
        delivered.clear();
        self.delivered = delivered;
    }

    #[inline]
    fn note_delivered(&mut self, i: usize) {
        if self.stamps.is_some() {
            self.keep_delivered(i);
        }
    }

    #[cold]
    fn keep_delivered(&mut self, i: usize) {
        let s = self.ring[i];
        if let Some(stamp) = self.stamps.as_ref().and_then(|all| all.get(i)) {
            let (end, len, resent) = (s.end(), s.len, s.is(RESENT | UNTIMED));
            self.delivered.push(Delivered { end, len, stamp: *stamp, resent });
        }
    }

    /// Marks segments as lost by RACK's rule `lost` over (time of the last transmission, end).
    ///
    /// Retransmitted segments can be lost again. Returns true if any was lost, and the earliest
    /// next check.
    pub(super) fn lose_where(
        &mut self,
        mut lost: impl FnMut(Time, u64) -> Option<Time>,
    ) -> (bool, Time) {
        let (mut any, mut again) = (false, Time::NEVER);
        for i in 0..self.ring.len() {
            let s = self.ring[i];
            if s.is(SACKED) || s.missing() {
                continue;
            }
            let Some(stamp) = self.stamps.as_ref().and_then(|all| all.get(i)) else { continue };
            match lost(stamp.sent, s.end()) {
                Some(Time::ZERO) => {
                    any = true;
                    if s.is(LOST) {
                        self.lose_again(i);
                    } else {
                        self.lose(i);
                    }
                }
                Some(at) => again = again.min(at),
                None => {}
            }
        }
        (any, again)
    }

    /// Marks a retransmitted segment as lost again.
    fn lose_again(&mut self, i: usize) {
        let s = &mut self.ring[i];
        self.pipe -= s.pipe();
        s.state &= !RESENT;
        self.pipe += s.pipe();
        self.missing += 1;
        self.missing_from = self.missing_from.min(s.seq);
        self.note_lost(i);
    }

    /// Returns the index of the last segment that has not been acknowledged selectively.
    pub(super) fn last_unsacked(&self) -> Option<usize> {
        (0..self.ring.len()).rev().find(|&i| !self.ring[i].is(SACKED))
    }

    /// Returns true if any segment was acknowledged selectively.
    pub(super) fn any_sacked(&self) -> bool {
        self.ring.front().is_some_and(|s| s.seq < self.sacked_to)
    }

    /// Returns the number of segments acknowledged selectively.
    pub(super) fn sacked(&self) -> usize {
        self.ring.iter().filter(|s| s.is(SACKED)).count()
    }

    /// Returns the number of outstanding segments.
    pub(super) fn len(&self) -> usize {
        self.ring.len()
    }

    /// Sets the stamp of a segment that was just sent, for measurements.
    pub(super) fn stamp(&mut self, i: usize, stamp: Stamp) {
        if let Some(slot) = self.stamps.as_mut().and_then(|all| all.get_mut(i)) {
            *slot = stamp;
        }
    }

    pub(super) const fn pipe(&self) -> u64 {
        self.pipe
    }
    pub(super) fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }
    pub(super) const fn any_missing(&self) -> bool {
        self.missing > 0
    }

    /// Adds a new segment.
    pub(super) fn push(&mut self, now: Time, seq: u64, payload: u32, fin: bool) {
        let len = payload + u32::from(fin);
        if let Some(stamps) = &mut self.stamps {
            let zero = Time::ZERO;
            stamps.push_back(Stamp {
                sent: now,
                delivered: 0,
                delivered_at: zero,
                first_sent: zero,
                app_limited: false,
                in_flight: 0,
                lost: 0,
            });
        }
        self.ring.push_back(Sent { seq, time: now, len, state: if fin { FIN } else { 0 } });
        self.pipe += u64::from(len);
    }

    /// Removes all data below `ack`, which was delivered.
    ///
    /// Returns the sending time of its oldest segment, unless that segment's round trip must not be
    /// measured (RFC 6298 §3, Karn).
    pub(super) fn discard(&mut self, ack: u64) -> Option<Time> {
        let (mut found, mut sample) = (false, None);
        while let Some(&s) = self.ring.front() {
            if s.end() > ack {
                if s.seq < ack {
                    self.trim_head(ack);
                }
                break;
            }
            if !found && !s.is(SKIPPED) {
                found = true;
                sample = (!s.is(UNTIMED)).then_some(s.time);
            }
            if !s.is(SACKED) {
                self.note_delivered(0);
            }
            self.pipe -= s.pipe();
            self.missing -= u32::from(s.missing());
            self.ring.pop_front();
            if let Some(stamps) = &mut self.stamps {
                stamps.pop_front();
            }
        }
        sample
    }

    /// Removes the delivered part of the oldest segment.
    fn trim_head(&mut self, ack: u64) {
        let head = &mut self.ring[0];
        self.pipe -= head.pipe();
        head.len -= (ack - head.seq) as u32;
        head.seq = ack;
        self.pipe += head.pipe();
    }

    /// Returns the index of the first segment at or after `seq`.
    fn index(&self, seq: u64) -> usize {
        self.ring.partition_point(|s| s.seq < seq)
    }

    /// Records selective acknowledgements (RFC 6675 §4, Update).
    pub(super) fn sack(&mut self, ack: u64, blocks: &SackBlocks) -> SackEffects {
        let mut effects = SackEffects::default();
        for &(from, to) in blocks.as_slice() {
            let (from, to) = (ack + u64::from(from), ack + u64::from(to));
            let mut i = self.index(from);
            while self.ring.get(i).is_some_and(|s| s.end() <= to) {
                if !self.ring[i].is(SACKED) {
                    self.note_delivered(i);
                    let s = &mut self.ring[i];
                    self.pipe -= s.pipe();
                    self.missing -= u32::from(s.missing());
                    s.state |= SACKED;
                    self.sacked_to = self.sacked_to.max(s.end());
                    effects.any = true;
                    if !s.is(UNTIMED) {
                        effects.sent = effects.sent.max(Some(s.time));
                    }
                }
                i += 1;
            }
        }
        effects
    }

    /// Marks the segments that are lost by RFC 6675 §4 (IsLost).
    ///
    /// For these, three separate ranges, or more than two segments' bytes, were selectively acknowledged
    /// above them.
    pub(super) fn find_lost(&mut self, mss: u64) {
        let mut i = self.index(self.sacked_to);
        let (mut bytes, mut ranges, mut in_range) = (0, 0, false);
        loop {
            if i == 0 || self.ring[i - 1].seq < self.decided_below {
                return;
            }
            i -= 1;
            let s = self.ring[i];
            if s.is(SACKED) {
                bytes += u64::from(s.len);
                ranges += u32::from(!in_range);
                if ranges >= DUP_THRESH || bytes > u64::from(DUP_THRESH - 1) * mss {
                    break;
                }
            }
            in_range = s.is(SACKED);
        }
        let top = i;
        while i > 0 && self.ring[i - 1].seq >= self.decided_below {
            i -= 1;
            if !self.ring[i].is(SACKED) {
                self.lose(i);
            }
        }
        self.decided_below = self.ring[top].seq;
    }

    /// Marks a segment as lost unless it already was.
    fn lose(&mut self, i: usize) {
        let s = &mut self.ring[i];
        if s.is(LOST) {
            return;
        }
        self.pipe -= s.pipe();
        s.state |= LOST;
        self.pipe += s.pipe();
        if s.missing() {
            self.missing += 1;
            self.missing_from = self.missing_from.min(s.seq);
            self.note_lost(i);
        }
    }

    /// Returns true if the oldest segment is presumed lost.
    pub(super) fn head_lost(&self) -> bool {
        self.ring.front().is_some_and(|s| s.is(LOST))
    }

    /// Marks the oldest segment as lost, even if it was retransmitted before.
    pub(super) fn lose_head(&mut self) {
        let Some(s) = self.ring.front_mut() else { return };
        self.pipe -= s.pipe();
        let new = !s.missing();
        self.missing += u32::from(new);
        s.state = (s.state | LOST) & !(RESENT | SACKED);
        self.missing_from = s.seq;
        if new {
            self.note_lost(0);
        }
    }

    /// Handles the expiry of the retransmission timer.
    ///
    /// The network is empty, and all data not selectively acknowledged has to be retransmitted.
    /// Reneging receivers are not modelled, so selective acknowledgements stay valid (RFC 6675
    /// §5.1, erratum 1610).
    ///
    /// Round trips that began before are not measured. `forget` (as ns-3 does) lets an ACK that
    /// covers such segments and newer ones measure the newer ones; otherwise it measures none.
    pub(super) fn lose_all(&mut self, forget: bool) {
        if self.losses.is_some() {
            for i in 0..self.ring.len() {
                let s = self.ring[i];
                if !s.is(SACKED) && !s.missing() {
                    self.note_lost(i);
                }
            }
        }
        self.pipe = 0;
        self.missing = 0;
        for s in &mut self.ring {
            s.state |= if forget { SKIPPED } else { UNTIMED };
            if !s.is(SACKED) {
                s.state = (s.state | LOST) & !RESENT;
                self.missing += 1;
            }
        }
        self.missing_from = 0;
        if let Some(s) = self.ring.back() {
            self.decided_below = s.end();
        }
    }

    /// Returns the first segment that is lost and not yet retransmitted.
    ///
    /// RFC 6675 §4, NextSeg (1)
    pub(super) fn first_missing(&mut self) -> Option<usize> {
        if self.missing == 0 {
            return None;
        }
        let from = self.index(self.missing_from);
        let i = (from..self.ring.len()).find(|&i| self.ring[i].missing())?;
        self.missing_from = self.ring[i].seq;
        Some(i)
    }

    /// Returns the first undecided segment below the highest selectively acknowledged one.
    ///
    /// It is neither acknowledged nor retransmitted. RFC 6675 §4, NextSeg (3)
    pub(super) fn first_doubtful(&self) -> Option<usize> {
        let below = self.ring.iter().take_while(|s| s.seq < self.sacked_to);
        below.enumerate().find(|(_, s)| !s.is(SACKED | RESENT)).map(|(i, _)| i)
    }

    /// Returns the rescue retransmission for a lost tail (RFC 6675 §4, NextSeg (4)).
    ///
    /// It is the highest segment not selectively acknowledged, unless it was already retransmitted.
    pub(super) fn unsacked_tail(&self) -> Option<usize> {
        let i = (0..self.ring.len()).rev().find(|&i| !self.ring[i].is(SACKED))?;
        (!self.ring[i].is(RESENT)).then_some(i)
    }

    pub(super) fn get(&self, i: usize) -> Sent {
        self.ring[i]
    }

    /// Records that segment `i` was retransmitted.
    pub(super) fn resend(&mut self, i: usize) -> Sent {
        let s = &mut self.ring[i];
        self.pipe -= s.pipe();
        self.missing -= u32::from(s.missing());
        s.state |= RESENT | UNTIMED;
        self.pipe += s.pipe();
        *s
    }
}
