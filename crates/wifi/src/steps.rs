//! Events of the medium: actions at a station's deadline.

use fairmesh_units::{NodeId, Time};

use crate::air::Air;
use crate::frame::{FrameKind, Transmission};
use crate::station::{NEVER, NO_STATION, Phase};
use crate::upper::{Aggregating, ByCategory, Ns2, Upper};

impl Air {
    /// Returns the instant of the next event; [`Time::NEVER`] if there is none.
    #[inline]
    pub fn next_deadline(&mut self) -> Time {
        self.wakes.earliest().0
    }

    /// Processes the next event and returns its instant.
    #[inline]
    pub fn step<U: Upper>(&mut self, upper: &mut U) -> Time {
        if self.aggregates.is_some() || self.ns2 {
            self.act_special(upper)
        } else {
            self.act(upper)
        }
    }

    /// Dispatches to the other variants of the MAC.
    ///
    /// A separate function, so that the standard's 802.11a, b and g are compiled without them.
    #[inline(never)]
    fn act_special<U: Upper>(&mut self, upper: &mut U) -> Time {
        if self.ns2 {
            return self.act_ns2(upper);
        }
        if self.categories.is_some() {
            return self.act_by_category(upper);
        }
        self.act(&mut Aggregating::new(upper))
    }

    #[inline(never)]
    fn act_by_category<U: Upper>(&mut self, upper: &mut U) -> Time {
        self.act(&mut ByCategory::new(upper))
    }

    #[inline(never)]
    fn act_ns2<U: Upper>(&mut self, upper: &mut U) -> Time {
        self.act(&mut Ns2::new(upper))
    }

    #[inline]
    fn act<U: Upper>(&mut self, upper: &mut U) -> Time {
        let (at, i) = self.wakes.earliest();
        let now = at.as_nanos();
        if now == NEVER {
            return at;
        }
        self.steps += 1;
        if self.on_air[i].on_air {
            self.finish(i as u32, now, upper);
            return at;
        }
        let s = &self.stations[i];
        if s.response_at <= now {
            self.send_response(i as u32, now, upper);
            return at;
        }
        match s.phase {
            Phase::Contending => {
                if U::EDCA {
                    self.resolve(i as u32, now, upper);
                }
                self.send_own(i as u32, now, upper);
            }
            Phase::ClearToSend => self.send_data(i as u32, now, upper),
            Phase::AwaitAck | Phase::AwaitCts => self.time_out(i as u32, now, upper),
            Phase::Noise => self.make_noise(i as u32, now, upper),
            Phase::Idle | Phase::Broadcasting => self.wakes.set(i, Time::NEVER),
        }
        at
    }

    /// Returns true if a station's MAC is busy, so that [`Air::kick`] has no effect.
    ///
    /// With several access categories no station counts as busy, since another category may be
    /// idle.
    #[inline]
    pub fn is_busy(&self, node: NodeId) -> bool {
        self.categories.is_none() && self.stations[node.index()].phase != Phase::Idle
    }

    /// Notifies a MAC that the upper layer has queued a packet for [`Upper::pull`].
    #[inline]
    pub fn kick<U: Upper>(&mut self, at: Time, node: NodeId, upper: &mut U) {
        if self.is_busy(node) {
            return;
        }
        if self.aggregates.is_some() || self.ns2 {
            self.kick_special(at, node, upper);
        } else {
            self.take_next(node.0, at.as_nanos(), false, upper);
        }
    }

    #[inline(never)]
    fn kick_special<U: Upper>(&mut self, at: Time, node: NodeId, upper: &mut U) {
        if self.ns2 {
            self.take_next(node.0, at.as_nanos(), false, &mut Ns2::new(upper));
        } else if self.categories.is_some() {
            self.take_per_category(node.0, at.as_nanos(), false, &mut ByCategory::new(upper));
        } else {
            self.take_next(node.0, at.as_nanos(), false, &mut Aggregating::new(upper));
        }
    }

    /// Returns the time from the end of a frame until its response counts as missing, in ns.
    #[inline]
    fn response_timeout<U: Upper>(&self, f: &Transmission) -> u64 {
        if U::NS2 && self.rules.timeout {
            return self.response_timeout_ns2(f);
        }
        let response = self.phy.response(f.rate);
        let timeout = match f.kind {
            FrameKind::Rts => response.cts_timeout,
            _ => response.ack_timeout,
        };
        timeout.as_nanos()
    }

    /// Handles the end of a frame on the air.
    fn finish<U: Upper>(&mut self, from: u32, now: u64, upper: &mut U) {
        let i = from as usize;
        let f = self.on_air[i];
        self.on_air[i].on_air = false;
        match self.stations[i].phase {
            Phase::AwaitAck if f.kind == FrameKind::Data => {
                self.stations[i].wait_at = now + self.response_timeout::<U>(&f);
            }
            Phase::AwaitCts if f.kind == FrameKind::Rts => {
                self.stations[i].wait_at = now + self.response_timeout::<U>(&f);
            }
            _ => {}
        }
        self.rearm::<U>(from);
        for k in self.neighbours.of(from) {
            let n = *self.neighbours.entry(k);
            let s = &mut self.stations[n.to as usize];
            s.energy -= n.power;
            if U::AGGREGATION
                && let Some(a) = &mut self.aggregates
                && s.lock_from != NO_STATION
                && s.lock_from != from
            {
                a.energy(n.to as usize, now + n.delay(), s.energy, s.lock_limit);
            }
            if s.lock_from == from {
                self.complete(from, k, &n, now + n.delay(), &f, upper);
            }
        }
        match self.stations[i].phase {
            Phase::Broadcasting => self.succeed(from, now, upper),
            Phase::Noise => self.schedule_noise(from, now),
            _ => {}
        }
    }
}
