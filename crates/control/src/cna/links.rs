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

/// One of the node's links.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    pub to: NodeId,
    pub out: Flows,
    pub back: Flows,
    /// Airtime used since the last tick.
    pub airtime: Span,
    /// When a packet last went out.
    pub spoke: Option<Time>,
    /// When a packet was last given up, if none has got through since.
    pub failed: Option<Time>,
    /// Flows on the link by a message of its other end, and when it came.
    pub claimed: Option<(Time, f64)>,
    /// The next header carries the two-hop values.
    pub two_next: bool,
    /// Header words in force.
    pub words: Option<[u32; 2]>,
    /// Share in force.
    pub share: f64,
}

impl Meter {
    pub fn new(to: NodeId, share: f64) -> Self {
        Meter {
            to,
            out: Flows::default(),
            back: Flows::default(),
            airtime: Span::ZERO,
            spoke: None,
            failed: None,
            claimed: None,
            two_next: false,
            words: None,
            share,
        }
    }

    /// Brings both counts up to date: what was last seen a window ago is gone. Flows whose packets
    /// do not get through are silent because of that, and stay.
    pub fn count(&mut self, now: Time, window: Span, patience: Span) -> (f64, f64) {
        let ago = |span: Span| Time::from_nanos(now.as_nanos().saturating_sub(span.as_nanos()));
        self.failed = self.failed.filter(|at| *at >= ago(patience));
        self.claimed = self.claimed.filter(|c| c.0 >= ago(window));
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
pub(super) struct Outside {
    last: Option<Channel>,
    /// Moving average of its share.
    share: f64,
}

/// Counters that cannot be right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BadCounters;

impl Outside {
    /// Takes a survey. `gain`: weight of the new sample.
    pub fn survey(&mut self, c: &Channel, gain: f64) -> Result<(), BadCounters> {
        let Some(last) = self.last.replace(*c) else { return Ok(()) };
        let ran = |now: Span, then: Span| Some(now.as_nanos().checked_sub(then.as_nanos())? as f64);
        let sample = (|| {
            let active = ran(c.active, last.active)?;
            let (busy, own) = (ran(c.busy, last.busy)?, ran(c.transmit, last.transmit)?);
            let heard = ran(c.receive, last.receive)?;
            // A frame that has begun may be counted as a whole on one side only.
            let possible = active > 0.0 && busy <= active * 1.1 + 30e6;
            possible.then(|| ((busy - own - heard) / active).clamp(0.0, 1.0))
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
        let mut o = Outside::default();
        o.survey(&channel(0, 0, 0, 0), 1.0).unwrap();
        o.survey(&channel(1000, 700, 200, 100), 1.0).unwrap();
        assert!((o.available(0.1) - 0.6).abs() < 1e-12);
        o.survey(&channel(2000, 1050, 500, 100), 1.0).unwrap();
        assert_eq!(o.available(0.1), 1.0, "5 % are put down to lost frames");
    }

    #[test]
    fn counters_that_jump_or_freeze_change_nothing() {
        let mut o = Outside::default();
        o.survey(&channel(1000, 400, 0, 0), 1.0).unwrap();
        o.survey(&channel(2000, 800, 0, 0), 1.0).unwrap();
        for bad in [channel(2000, 800, 0, 0), channel(3000, 100, 0, 0), channel(3100, 9000, 0, 0)] {
            assert_eq!(o.survey(&bad, 1.0), Err(BadCounters));
            assert!((o.available(0.1) - 0.6).abs() < 1e-12);
        }
    }
}
