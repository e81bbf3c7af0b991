//! Quantities that a node counts itself: flows and airtime on its links, and foreign energy.

use fairmesh_units::{FlowId, NodeId, Span, Time};

use crate::{Channel, SentSum};

/// Flows on one direction of a link, with the time of their latest packet.
#[derive(Clone, Debug, Default)]
pub(super) struct Flows(Vec<(FlowId, bool, Time)>);

impl Flows {
    /// Records a packet of a flow, or of its acknowledgements; returns true if the flow is new.
    pub fn saw(&mut self, now: Time, flow: FlowId, ack: bool) -> bool {
        match self.0.iter_mut().find(|f| (f.0, f.1) == (flow, ack)) {
            Some(f) => {
                f.2 = now;
                false
            }
            None => {
                self.0.push((flow, ack, now));
                true
            }
        }
    }

    /// Removes flows last seen before `since`; returns true if there were any.
    pub fn forget(&mut self, since: Time) -> bool {
        let before = self.0.len();
        self.0.retain(|f| f.2 >= since);
        self.0.len() < before
    }

    /// Returns W of this direction.
    pub fn count(&self) -> f64 {
        self.0.len() as f64
    }
}

/// Fraction of its limit above which a link counts as limited by it.
const LIMITED_FRACTION: f64 = 0.9;
/// Time for which flows count that a neighbour reported.
///
/// Most of its other messages are not delivered, and TCP tries again after 3, 6, 12 s.
const CLAIM_LIFETIME: Span = Span::from_secs(10);
/// Weight of each packet in the average of discarded packets.
const LOSS_GAIN: f64 = 0.01;
/// Fraction of discarded packets above which a link loses too many.
const MAX_LOSS: f64 = 0.02;
/// Minimum number of packets in the averages of a link's use.
const MIN_PACKETS: f64 = 10.0;

/// One of the node's links.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    pub to: NodeId,
    pub out: Flows,
    pub back: Flows,
    /// Airtime used since the last tick.
    pub airtime: Span,
    /// Airtime that the bucket charged since the last tick.
    pub charged: Span,
    /// Packets since the last tick.
    pub packets: u32,
    /// Moving average of the share of the air used.
    pub used: f64,
    /// Moving average of the share in force.
    pub allowed: f64,
    /// Moving average of the packets per tick.
    pub pace: f64,
    /// Moving average of the ratio of charged to counted airtime.
    pub ratio: f64,
    /// Time at which a packet last went out.
    pub last_sent: Option<Time>,
    /// Time at which a new flow was last seen.
    pub newcomer: Option<Time>,
    /// True if the new flow was not reported yet.
    pub unreported: bool,
    /// Time at which a packet was last discarded, if none has been delivered since.
    pub failed: Option<Time>,
    /// Moving average over packets of the discarded fraction.
    pub lost: f64,
    /// Time of the last message of its other end, and the flows on the link by that message.
    pub claimed: Option<(Time, f64)>,
    /// True if the next header carries the two-hop values.
    pub two_next: bool,
    /// Header words in force.
    pub words: Option<[u32; 2]>,
    /// Share in force, as counted.
    pub share: f64,
    /// Share in force, as set in the bucket.
    pub bucket: f64,
}

impl Meter {
    pub fn new(to: NodeId, share: f64) -> Self {
        Meter {
            to,
            out: Flows::default(),
            back: Flows::default(),
            airtime: Span::ZERO,
            charged: Span::ZERO,
            packets: 0,
            used: share,
            allowed: share,
            pace: 0.0,
            ratio: 1.0,
            last_sent: None,
            newcomer: None,
            unreported: false,
            failed: None,
            lost: 0.0,
            claimed: None,
            two_next: false,
            words: None,
            share,
            bucket: share,
        }
    }

    /// Counts a packet that has left.
    ///
    /// `airtime` is charged; `uncounted` is the part of it that costs no other node anything.
    pub fn spent(&mut self, airtime: Span, uncounted: Span) {
        self.charged += airtime;
        self.airtime += airtime.saturating_sub(uncounted);
        self.packets += 1;
    }

    /// Counts the packets of a period; what their backoffs cost is not known.
    pub fn spent_sum(&mut self, sum: &SentSum) {
        self.charged += sum.airtime;
        self.airtime += sum.airtime;
        self.packets = self.packets.saturating_add(sum.packets);
    }

    /// Records the delivered and discarded packets of a period.
    pub fn got_through_sum(&mut self, sum: &SentSum) {
        let part = f64::from(sum.failed) / f64::from(sum.packets.max(1));
        let kept = libm::pow(1.0 - LOSS_GAIN, f64::from(sum.packets));
        self.lost = part + kept * (self.lost - part);
    }

    /// Records a delivered or discarded packet.
    pub fn got_through(&mut self, delivered: bool) {
        self.lost += LOSS_GAIN * (f64::from(u8::from(!delivered)) - self.lost);
    }

    /// True if discarded packets may be the reason that a flow is idle.
    pub fn loses(&self) -> bool {
        self.lost > MAX_LOSS
    }

    /// Updates the averages by `seconds`.
    ///
    /// For a link with few packets they reach back over about [`MIN_PACKETS`] of them.
    pub fn average(&mut self, seconds: f64, gain: f64) {
        let (airtime, charged) =
            (core::mem::take(&mut self.airtime), core::mem::take(&mut self.charged));
        self.pace += gain * (f64::from(core::mem::take(&mut self.packets)) - self.pace);
        let gain = gain * (self.pace / (MIN_PACKETS * gain)).clamp(0.1, 1.0);
        let used = airtime.as_secs_f64();
        self.used += gain * (used / seconds - self.used);
        self.allowed += gain * (self.share - self.allowed);
        if used > 0.0 {
            self.ratio += gain * (charged.as_secs_f64() / used - self.ratio);
        }
    }

    /// Returns U, "the proportion of the assigned airtime-limit used by the link" (Jang 2010 §3).
    ///
    /// It is relative to the `entitled` share of the air, or to the limit in force if that was scaled down below it.
    pub fn part(&self, entitled: f64) -> f64 {
        (self.used / entitled.min(self.allowed)).min(1.0)
    }

    /// Returns U with `+tolerant`: 1 if the link uses nearly all of the limit in force.
    pub fn part_or_held(&self, entitled: f64) -> f64 {
        if self.used >= LIMITED_FRACTION * self.allowed {
            1.0
        } else {
            (self.used / entitled).min(1.0)
        }
    }

    /// Resets a new or reactivated link: its use is unknown, so none of it is given away.
    pub fn begin(&mut self) {
        (self.used, self.allowed) = (self.share, self.share);
    }

    /// Updates both counts: removes flows last seen a window ago.
    ///
    /// Flows with undelivered packets are idle for this reason, and stay.
    pub fn count(&mut self, now: Time, window: Span, patience: Span) -> (f64, f64) {
        let ago = |span: Span| Time::from_nanos(now.as_nanos().saturating_sub(span.as_nanos()));
        self.failed = self.failed.filter(|at| *at >= ago(patience));
        self.claimed = self.claimed.filter(|c| c.0 >= ago(window.max(CLAIM_LIFETIME)));
        self.out.forget(ago(if self.failed.is_some() { patience } else { window }));
        self.back.forget(ago(window));
        let out = self.out.count();
        let claimed = self.claimed.map_or(0.0, |(_, weight)| weight - out);
        (out, self.back.count().max(claimed))
    }
}

/// Foreign energy in the counters of a survey (Jang 2010 §4).
///
/// The section is "Measuring External Interference".
///
/// It is busy time that is neither own transmission nor reception.
#[derive(Clone, Debug, Default)]
pub(super) struct ForeignEnergy {
    last: Option<Channel>,
    /// Moving average of its share.
    share: f64,
}

/// Counters that cannot be correct.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BadCounters;

impl ForeignEnergy {
    /// Handles a survey; `gain` is the weight of the new sample.
    pub fn survey(&mut self, c: &Channel, gain: f64) -> Result<(), BadCounters> {
        let Some(last) = self.last.replace(*c) else { return Ok(()) };
        let ran = |now: Span, then: Span| Some(now.as_nanos().checked_sub(then.as_nanos())? as f64);
        let sample = (|| {
            let active = ran(c.active, last.active)?;
            let (busy, own) = (ran(c.busy, last.busy)?, ran(c.transmit, last.transmit)?);
            let receiving = ran(c.receive, last.receive)?;
            let possible = active > 0.0 && busy <= active * 1.1 + 30e6;
            // A frame in flight may be counted on one side only, in either direction.
            possible.then(|| ((busy - own - receiving) / active).clamp(-1.0, 1.0))
        })();
        match sample {
            Some(s) => {
                self.share += gain * (s - self.share);
                Ok(())
            }
            None => Err(BadCounters),
        }
    }

    /// Returns ACA, the remaining share.
    ///
    /// Foreign energy below `floor` is attributed to lost frames.
    pub fn available(&self, floor: f64) -> f64 {
        if self.share <= floor { 1.0 } else { 1.0 - self.share }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel(active: u64, busy: u64, receive: u64, transmit: u64) -> Channel {
        let ms = Span::from_millis;
        Channel { active: ms(active), busy: ms(busy), receive: ms(receive), transmit: ms(transmit) }
    }

    #[test]
    fn foreign_energy_is_busy_time_without_own_frames() {
        let mut o = ForeignEnergy::default();
        o.survey(&channel(0, 0, 0, 0), 1.0).unwrap();
        o.survey(&channel(1000, 700, 200, 100), 1.0).unwrap();
        assert!((o.available(0.1) - 0.6).abs() < 1e-12);
        o.survey(&channel(2000, 1050, 500, 100), 1.0).unwrap();
        assert_eq!(o.available(0.1), 1.0, "5 % are put down to lost frames");
    }

    /// Drivers read busy and active time one after the other, a frame apart.
    #[test]
    fn a_channel_may_be_busy_for_a_little_longer_than_it_was_watched() {
        let mut o = ForeignEnergy::default();
        o.survey(&channel(0, 0, 0, 0), 1.0).unwrap();
        // A tenth and 30 ms.
        assert_eq!(o.survey(&channel(1000, 1130, 1130, 0), 1.0), Ok(()));
        assert_eq!(o.survey(&channel(2000, 2261, 2261, 0), 1.0), Err(BadCounters));
    }

    #[test]
    fn counters_that_jump_or_freeze_change_nothing() {
        let mut o = ForeignEnergy::default();
        o.survey(&channel(1000, 400, 0, 0), 1.0).unwrap();
        o.survey(&channel(2000, 800, 0, 0), 1.0).unwrap();
        for bad in [channel(2000, 800, 0, 0), channel(3000, 100, 0, 0), channel(3100, 9000, 0, 0)] {
            assert_eq!(o.survey(&bad, 1.0), Err(BadCounters));
            assert!((o.available(0.1) - 0.6).abs() < 1e-12);
        }
    }
}
