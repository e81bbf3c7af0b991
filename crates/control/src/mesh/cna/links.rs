//! What a node counts itself: flows and airtime on its links, and foreign energy.

use fairmesh_units::{FlowId, NodeId, Span, Time};

use crate::Channel;

/// Flows on one direction of a link, by when their latest packet passed.
#[derive(Clone, Debug, Default)]
pub(super) struct Flows(Vec<(FlowId, bool, Time)>);

impl Flows {
    /// A packet of a flow, or of its acknowledgements, has passed. Returns whether it is new.
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

    /// Leaves out what was last seen before `since`. Returns whether that was anything.
    pub fn forget(&mut self, since: Time) -> bool {
        let before = self.0.len();
        self.0.retain(|f| f.2 >= since);
        self.0.len() < before
    }

    /// W of this direction.
    pub fn count(&self) -> f64 {
        self.0.len() as f64
    }
}

/// A link that uses this part of its limit is held back by it.
const HELD: f64 = 0.9;
/// How long flows count that a neighbour told of: most of what else it says does not get through,
/// and TCP tries again after 3, 6, 12 s.
const CLAIM: Span = Span::from_secs(10);
/// Weight of each packet in the average of those given up, and what is too many.
const LOSS: f64 = 0.01;
const LOSES: f64 = 0.02;
/// Packets that the averages of a link's use reach back over at least.
const SEEN: f64 = 10.0;

/// One of the node's links.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    pub to: NodeId,
    pub out: Flows,
    pub back: Flows,
    /// Since the last tick: airtime used, the same as the bucket charges it, and packets.
    pub airtime: Span,
    pub charged: Span,
    pub packets: u32,
    /// Moving averages: share of the air used, the share in force, packets per tick, and how much
    /// more the bucket charges than is counted.
    pub used: f64,
    pub allowed: f64,
    pub pace: f64,
    pub ratio: f64,
    /// When a packet last went out.
    pub spoke: Option<Time>,
    /// When a flow was last seen for the first time.
    pub newcomer: Option<Time>,
    /// It has not been told of yet.
    pub untold: bool,
    /// When a packet was last given up, if none has got through since.
    pub failed: Option<Time>,
    /// Part of its packets that are given up, a moving average over packets.
    pub lost: f64,
    /// Flows on the link by a message of its other end, and when it came.
    pub claimed: Option<(Time, f64)>,
    /// The next header carries the two-hop values.
    pub two_next: bool,
    /// Header words in force.
    pub words: Option<[u32; 2]>,
    /// Share in force, as it is counted; and as the bucket has it.
    pub share: f64,
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
            spoke: None,
            newcomer: None,
            untold: false,
            failed: None,
            lost: 0.0,
            claimed: None,
            two_next: false,
            words: None,
            share,
            bucket: share,
        }
    }

    /// Counts a packet that has left: `airtime` as charged, of which `uncounted` costs nobody
    /// anything.
    pub fn spent(&mut self, airtime: Span, uncounted: Span) {
        self.charged += airtime;
        self.airtime += airtime.saturating_sub(uncounted);
        self.packets += 1;
    }

    /// A packet got through, or was given up.
    pub fn got_through(&mut self, delivered: bool) {
        self.lost += LOSS * (f64::from(u8::from(!delivered)) - self.lost);
    }

    /// Whether so many packets are given up that a flow may be silent because of that.
    pub fn loses(&self) -> bool {
        self.lost > LOSES
    }

    /// Moves the averages on by `seconds`. A link with few packets is looked at for as long as it
    /// takes to see about [`SEEN`] of them.
    pub fn average(&mut self, seconds: f64, gain: f64) {
        let (airtime, charged) =
            (core::mem::take(&mut self.airtime), core::mem::take(&mut self.charged));
        self.pace += gain * (f64::from(core::mem::take(&mut self.packets)) - self.pace);
        let gain = gain * (self.pace / (SEEN * gain)).clamp(0.1, 1.0);
        let used = airtime.as_secs_f64();
        self.used += gain * (used / seconds - self.used);
        self.allowed += gain * (self.share - self.allowed);
        if used > 0.0 {
            self.ratio += gain * (charged.as_secs_f64() / used - self.ratio);
        }
    }

    /// U, "the proportion of the assigned airtime-limit used by the link" (Jang 2010 §3): of the
    /// `entitled` share of the air, or of the limit in force where that has been scaled down below it.
    pub fn part(&self, entitled: f64) -> f64 {
        (self.used / entitled.min(self.allowed)).min(1.0)
    }

    /// U with `+tolerant`: 1 where the link uses nearly all of the limit in force, whatever that is.
    pub fn part_or_held(&self, entitled: f64) -> f64 {
        if self.used >= HELD * self.allowed { 1.0 } else { (self.used / entitled).min(1.0) }
    }

    /// A link that is new or idle no more: nothing is known of its use, so none of it is given away.
    pub fn begin(&mut self) {
        (self.used, self.allowed) = (self.share, self.share);
    }

    /// Brings both counts up to date: what was last seen a window ago is gone. Flows whose packets
    /// do not get through are silent because of that, and stay.
    pub fn count(&mut self, now: Time, window: Span, patience: Span) -> (f64, f64) {
        let ago = |span: Span| Time::from_nanos(now.as_nanos().saturating_sub(span.as_nanos()));
        self.failed = self.failed.filter(|at| *at >= ago(patience));
        self.claimed = self.claimed.filter(|c| c.0 >= ago(window.max(CLAIM)));
        self.out.forget(ago(if self.failed.is_some() { patience } else { window }));
        self.back.forget(ago(window));
        let out = self.out.count();
        let claimed = self.claimed.map_or(0.0, |(_, weight)| weight - out);
        (out, self.back.count().max(claimed))
    }
}

/// Foreign energy, from the counters of a survey: busy time that is neither own transmission nor
/// reception (Jang 2010 §4, "Measuring External Interference").
#[derive(Clone, Debug, Default)]
pub(super) struct ForeignEnergy {
    last: Option<Channel>,
    /// Moving average of its share.
    share: f64,
}

/// Counters that cannot be right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BadCounters;

impl ForeignEnergy {
    /// Takes a survey. `gain`: weight of the new sample.
    pub fn survey(&mut self, c: &Channel, gain: f64) -> Result<(), BadCounters> {
        let Some(last) = self.last.replace(*c) else { return Ok(()) };
        let ran = |now: Span, then: Span| Some(now.as_nanos().checked_sub(then.as_nanos())? as f64);
        let sample = (|| {
            let active = ran(c.active, last.active)?;
            let (busy, own) = (ran(c.busy, last.busy)?, ran(c.transmit, last.transmit)?);
            let heard = ran(c.receive, last.receive)?;
            let possible = active > 0.0 && busy <= active * 1.1 + 30e6;
            // A frame under way may be counted on one side only, either way.
            possible.then(|| ((busy - own - heard) / active).clamp(-1.0, 1.0))
        })();
        match sample {
            Some(s) => {
                self.share += gain * (s - self.share);
                Ok(())
            }
            None => Err(BadCounters),
        }
    }

    /// ACA: what is left; `floor`: less than that is put down to lost frames.
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
    fn foreign_energy_is_what_is_busy_and_not_ours() {
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
