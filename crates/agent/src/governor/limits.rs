//! What limits are meant, which are in force, and what is to be told to the kernel.

use fairmesh_linux::{ClassId, Direction, RateChange, Slot};
use fairmesh_units::{BitRate, Time};

use super::{Change, Governor, Held, Limiter, Member, PACKET, Why, direction_name, rates, way};
use crate::config::Mode;
use crate::journal::Level;

impl Governor {
    /// Nobody knows what the kernel has now: all limits are to be set again.
    pub fn forget_limits(&mut self) {
        for way in self.members.iter_mut().flat_map(|m| &mut m.ways) {
            // A limit that nobody ever wants, so that every comparison fails.
            way.in_force = Some(BitRate(0));
        }
        self.aggregate.in_force = [Some(BitRate(0)); 2];
    }

    /// Every class is unlimited now.
    pub fn released(&mut self) {
        for way in self.members.iter_mut().flat_map(|m| &mut m.ways) {
            way.in_force = None;
        }
        self.aggregate.in_force = [None, None];
    }

    /// What must be told to the kernel so that what is meant is in force. [`Governor::applied`]
    /// says that it was.
    pub fn changes(&mut self, out: &mut Vec<RateChange>) {
        out.clear();
        self.pending.clear();
        let free = self.mode == Mode::Observe || self.held != Held::No;
        for (d, direction) in Direction::BOTH.into_iter().enumerate() {
            let slot = Slot { class: ClassId::ALL, direction };
            let part = if d == 0 { self.aggregate.down } else { 1.0 - self.aggregate.down };
            let meant = self.aggregate.wanted.filter(|_| !free);
            let meant = meant.map(|r| BitRate((r.0 as f64 * part) as u64 + 1));
            let old = self.aggregate.in_force[d];
            // The split follows the traffic; a change of less than 2 % is not worth a call.
            let near = |a: BitRate, b: BitRate| a.0.abs_diff(b.0) * 50 < b.0;
            let same = match (meant, old) {
                (Some(a), Some(b)) => near(a, b),
                (a, b) => a == b,
            };
            if !same {
                out.push(RateChange { slot, rate: meant.map(|r| frames(r, self.header[d])) });
                self.pending.push((slot, meant));
            }
        }
        for member in self.members.iter().filter(|m| m.laid_out) {
            for (d, direction) in Direction::BOTH.into_iter().enumerate() {
                let way = &member.ways[d];
                let meant = way.meant.filter(|_| !free && !way.meter.distrusted());
                if meant != way.in_force {
                    let slot = Slot { class: member.class, direction };
                    out.push(RateChange { slot, rate: meant.map(|r| frames(r, self.header[d])) });
                    self.pending.push((slot, meant));
                }
            }
        }
    }

    /// The last changes are in force.
    pub fn applied(&mut self) {
        for (slot, rate) in core::mem::take(&mut self.pending) {
            let d = way(slot.direction);
            if slot.class == ClassId::ALL {
                self.aggregate.in_force[d] = rate;
            } else if let Ok(i) = self.find(slot.class) {
                self.members[i].ways[d].in_force = rate;
            }
        }
    }

    /// What the control and the plan want in a direction, in IP bytes, and what limits it.
    pub fn meant(&self, member: &Member, d: usize) -> (Option<BitRate>, Limiter) {
        let way = &member.ways[d];
        if let Some(o) = way.overridden {
            return (o.rate, Limiter::Override);
        }
        let plan = rates(&member.subscriber.plan, d);
        // An operator's promise goes before what a control wants, its ceiling before both.
        let wanted = way.wanted.map(|r| r.max(plan.guarantee.unwrap_or(BitRate(0))));
        match (wanted, plan.ceiling) {
            (Some(w), Some(c)) if w < c => (Some(w), Limiter::Control),
            (_, Some(c)) => (Some(c), Limiter::Plan),
            (Some(w), None) => (Some(w), Limiter::Control),
            (None, None) if self.aggregate.wanted.is_some() => (None, Limiter::Aggregate),
            (None, None) => (None, Limiter::Nothing),
        }
    }

    /// Notes what has changed of what is meant, and why.
    pub(super) fn refresh(&mut self, now: Time) {
        self.expire(now);
        for i in 0..self.members.len() {
            for d in 0..2 {
                let (to, limiter) = self.meant(&self.members[i], d);
                let way = &mut self.members[i].ways[d];
                let why = way.why.take();
                if to != way.meant {
                    let why = match limiter {
                        Limiter::Override => Why::Override("override"),
                        _ => why.unwrap_or(Why::Reload),
                    };
                    way.change = Some(Change { at: now, from: way.meant, to, why });
                    way.meant = to;
                }
            }
        }
        let a = &mut self.aggregate;
        if a.wanted != a.meant {
            let why = a.why.take().unwrap_or(Why::Reload);
            a.change = Some(Change { at: now, from: a.meant, to: a.wanted, why });
            a.meant = a.wanted;
        }
    }

    /// Ends overrides whose time is up.
    fn expire(&mut self, now: Time) {
        let Governor { members, journal, .. } = self;
        for member in members {
            for (d, way) in member.ways.iter_mut().enumerate() {
                if way.overridden.is_some_and(|o| o.until <= now) {
                    way.overridden = None;
                    way.why = Some(Why::Override("override.ended"));
                    journal.note(now, Level::Info, "override.ended", || {
                        format!(
                            "\"{}\" ({}) has its limit back",
                            member.subscriber.name,
                            direction_name(d)
                        )
                    });
                }
            }
        }
    }
}

/// A limit in frames that lets through a limit in IP bytes in full packets, rounded up.
fn frames(ip: BitRate, header: u64) -> BitRate {
    let scaled = (u128::from(ip.0) * u128::from(PACKET + header)).div_ceil(u128::from(PACKET));
    BitRate(u64::try_from(scaled).unwrap_or(u64::MAX))
}
