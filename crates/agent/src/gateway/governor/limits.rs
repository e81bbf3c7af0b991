//! Intended limits, limits in force, and the changes between them.

use fairmesh_linux::{ClassId, Direction, RateChange, Slot};
use fairmesh_units::{BitRate, Time};

use super::{
    Change, Governor, LEAST_PART, LimitReason, Limiter, Member, PACKET_BYTES, Suspension,
    direction_name, rates,
};
use crate::gateway::config::Mode;
use crate::gateway::journal::Level;

impl Governor {
    /// Marks the limits in the kernel as unknown: all limits are to be set again.
    pub fn forget_limits(&mut self) {
        for state in self.members.iter_mut().flat_map(|m| &mut m.directions) {
            // A limit that is never requested, so that every comparison fails.
            state.in_force = Some(BitRate(0));
        }
        self.aggregate.in_force = [Some(BitRate(0)); 2];
        self.aggregate.split = Some(BitRate(0));
    }

    /// Records that every class is unlimited.
    pub fn released(&mut self) {
        for state in self.members.iter_mut().flat_map(|m| &mut m.directions) {
            state.in_force = None;
        }
        self.aggregate.in_force = [None, None];
        self.aggregate.split = None;
    }

    /// Returns the changes that put the intended limits in force.
    ///
    /// [`Governor::applied`] confirms them.
    pub fn changes(&mut self, out: &mut Vec<RateChange>) {
        out.clear();
        self.pending.clear();
        let free = self.mode == Mode::Observe || self.suspension != Suspension::None;
        let wanted = self.aggregate.wanted.filter(|_| !free).map(|r| r.max(BitRate(2)));
        let meant = split(wanted, self.aggregate.down);
        // The split follows the traffic; a change of less than 2 % is not worth a call. Both parts
        // change together.
        let near = |d: usize| match (meant[d], self.aggregate.in_force[d]) {
            (Some(a), Some(b)) => a.0.abs_diff(b.0) * 50 < b.0,
            (a, b) => a == b,
        };
        if wanted != self.aggregate.split || !near(0) || !near(1) {
            for (d, direction) in Direction::BOTH.into_iter().enumerate() {
                let slot = Slot { class: ClassId::ALL, direction };
                out.push(RateChange { slot, rate: meant[d].map(|r| frames(r, self.header[d])) });
                self.pending.push((slot, meant[d]));
            }
            self.aggregate.splitting = wanted;
        }
        for member in self.members.iter().filter(|m| m.laid_out) {
            for (d, direction) in Direction::BOTH.into_iter().enumerate() {
                let state = &member.directions[d];
                let meant = state.meant.filter(|_| !free && !state.meter.distrusted());
                if meant != state.in_force {
                    let slot = Slot { class: member.class, direction };
                    out.push(RateChange { slot, rate: meant.map(|r| frames(r, self.header[d])) });
                    self.pending.push((slot, meant));
                }
            }
        }
    }

    /// Records that the last changes are in force.
    pub fn applied(&mut self) {
        for (slot, rate) in core::mem::take(&mut self.pending) {
            let d = slot.direction.index();
            if slot.class == ClassId::ALL {
                self.aggregate.in_force[d] = rate;
                self.aggregate.split = self.aggregate.splitting;
            } else if let Ok(i) = self.find(slot.class) {
                self.members[i].directions[d].in_force = rate;
            }
        }
    }

    /// Returns the intended limit in a direction, in IP bytes, and its origin.
    pub fn meant(&self, member: &Member, d: usize) -> (Option<BitRate>, Limiter) {
        let state = &member.directions[d];
        if let Some(o) = state.overridden {
            return (o.rate, Limiter::Override);
        }
        let plan = rates(&member.subscriber.plan, d);
        // The plan's guarantee takes precedence over the control's limit, its ceiling over both.
        let wanted = state.wanted.filter(|_| !state.initial);
        let wanted = wanted.map(|r| r.max(plan.guarantee.unwrap_or(BitRate(0))));
        match (wanted, plan.ceiling) {
            (Some(w), Some(c)) if w < c => (Some(w), Limiter::Control),
            (_, Some(c)) => (Some(c), Limiter::Plan),
            (Some(w), None) => (Some(w), Limiter::Control),
            (None, None) if self.aggregate.wanted.is_some() => (None, Limiter::Aggregate),
            (None, None) => (None, Limiter::Nothing),
        }
    }

    /// Records changes of the intended limits, and their reasons.
    pub(super) fn refresh(&mut self, now: Time) {
        self.expire(now);
        for i in 0..self.members.len() {
            for d in 0..2 {
                let (to, limiter) = self.meant(&self.members[i], d);
                let state = &mut self.members[i].directions[d];
                let why = state.why.take();
                if to != state.meant {
                    let why = match limiter {
                        Limiter::Override => LimitReason::Override("override"),
                        _ => why.unwrap_or(LimitReason::Reload),
                    };
                    state.change = Some(Change { at: now, from: state.meant, to, why });
                    state.meant = to;
                }
            }
        }
        let a = &mut self.aggregate;
        if a.wanted != a.meant {
            let why = a.why.take().unwrap_or(LimitReason::Reload);
            a.change = Some(Change { at: now, from: a.meant, to: a.wanted, why });
            a.meant = a.wanted;
        }
    }

    /// Ends overrides that have expired.
    fn expire(&mut self, now: Time) {
        let Governor { members, journal, waiting, .. } = self;
        waiting.retain(|_, both| both.iter().flatten().any(|o| o.until > now));
        for member in members {
            for (d, state) in member.directions.iter_mut().enumerate() {
                if state.overridden.is_some_and(|o| o.until <= now) {
                    state.overridden = None;
                    state.why = Some(LimitReason::Override("override.ended"));
                    journal.note(now, Level::Info, "override.ended", || {
                        format!(
                            "the override of \"{}\" ({}) has ended",
                            member.subscriber.name,
                            direction_name(d)
                        )
                    });
                }
            }
        }
    }
}

/// Splits a limit of both directions together; `down` is downstream's part of the traffic.
///
/// Each direction has its part, but at least [`LEAST_PART`] of the limit and 1 bit/s. Parts above that add up to the
/// limit.
pub(super) fn split(whole: Option<BitRate>, down: f64) -> [Option<BitRate>; 2] {
    let Some(BitRate(whole)) = whole else { return [None, None] };
    let part = |of: f64| (whole as f64 * of).round() as u64;
    let (down, least) = (part(down).min(whole), part(LEAST_PART).max(1));
    [down, whole - down].map(|r| Some(BitRate(r.max(least))))
}

/// Converts a limit of IP bytes to one of frames for full packets, rounded up.
pub(super) fn frames(ip: BitRate, header: u64) -> BitRate {
    let scaled =
        (u128::from(ip.0) * u128::from(PACKET_BYTES + header)).div_ceil(u128::from(PACKET_BYTES));
    BitRate(u64::try_from(scaled).unwrap_or(u64::MAX))
}
