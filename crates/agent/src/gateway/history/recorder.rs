//! Minutes from the daemon's samples, without a clock and without a file.

use std::collections::BTreeMap;

use fairmesh_units::{Span, Time};

use super::{DirectionUse, HomeUse, LimitedBy, MeshUse, Period, Stamp, Usage, is_most};
use crate::daemon::service::Moment;
use crate::gateway::config::Mode;
use crate::gateway::governor::{DirectionState, Governor, Limiter, Member, rates};
use crate::gateway::verdict::{Carried, Demand, carried_level};

/// Part of a period after which it may end: a sample may be a little early.
const EARLY_END: (u64, u64) = (119, 120);
/// Part of a limit from which a home counts as held by it.
const HELD_FRACTION: f64 = 0.8;
/// Part of the bound of `[[neighbour]]` from which it counts as reached.
const AT_BOUND: f64 = 0.9;
/// Traffic from which a limit of the control shows congestion.
///
/// A part of the larger of the bound of `[[neighbour]]` and the largest traffic: several hops leave a sixth.
const CONGESTED_FRACTION: f64 = 0.125;
/// Factor of the largest traffic per period: half after five days.
const PEAK_DECAY: f64 = 0.9999;
/// Time above the least round trip from which the mesh counts as congested.
const CONGESTION_DELAY: Span = Span::from_millis(100);
/// Age of an unanswered packet from which its data counts as waiting.
const UNANSWERED_AGE: Span = Span::from_secs(2);
/// Mean size of packets with data, bytes; acknowledgements and keepalives are smaller.
const DATA_PACKET: u64 = 300;
/// Time between samples in which the daemon stood still: twice the largest `shaping.sample`.
const STANDSTILL: Span = Span::from_secs(1200);
/// Difference of the clocks from which the calendar has jumped, in s.
const CLOCK_JUMP: i128 = 5;

/// A finished period, and a jump of the clock in it.
#[derive(Clone, PartialEq, Debug)]
pub struct Recorded {
    /// The period.
    pub period: Period,
    /// Seconds by which the clock has jumped since the last period.
    pub jump: Option<i64>,
}

/// Counters at an earlier sample.
#[derive(Clone, Copy, Default, Debug)]
struct Totals {
    bytes: u64,
    packets: u64,
    drops: u64,
}

impl Totals {
    fn of(d: &DirectionState) -> Totals {
        Totals { bytes: d.meter.bytes, packets: d.meter.packets, drops: d.meter.drops }
    }

    /// Returns the growth since `before`; a class of another home begins again.
    fn since(self, before: Totals) -> Totals {
        let grown = |now: u64, before: u64| now.checked_sub(before).unwrap_or(now);
        Totals {
            bytes: grown(self.bytes, before.bytes),
            packets: grown(self.packets, before.packets),
            drops: grown(self.drops, before.drops),
        }
    }
}

/// Samples of one direction in a period.
#[derive(Clone, Copy, Default, Debug)]
struct Tally {
    start: Totals,
    last: Totals,
    /// Samples with data packets.
    active: u32,
    /// Samples with a queue or drops in the class.
    queued: u32,
    /// Samples in which headers were readable, and with data under way.
    read: u32,
    unacknowledged: u32,
    /// Samples at the control's limit.
    held: u32,
    /// Sum of the limits, and samples with one.
    limits: u128,
    limited: u32,
    trip: Option<Span>,
}

/// State of a period and of the homes in it.
#[derive(Clone, Debug)]
pub struct Recorder {
    run: u64,
    /// Least length of a period.
    length: Span,
    started: Time,
    sampled: Option<Time>,
    samples: u32,
    /// Samples by condition, as the fields of [`MeshUse`].
    visible: u32,
    congested: u32,
    at_bound: u32,
    held: u32,
    delayed: u32,
    enforced: u32,
    apply: u32,
    /// By class number.
    tallies: BTreeMap<u16, [Tally; 2]>,
    /// Largest traffic of all homes in a sample, bit/s, with decay.
    peak: f64,
    /// Difference of the clocks at the last period, in s.
    offset: Option<i128>,
}

impl Recorder {
    /// Starts at `now`.
    ///
    /// `run`: an identity that no other run has; `period`: length of the records.
    pub fn new(run: u64, now: Time, period: Span) -> Recorder {
        let (part, whole) = EARLY_END;
        Recorder {
            run,
            length: Span::from_nanos(period.as_nanos() / whole * part),
            started: now,
            sampled: None,
            samples: 0,
            visible: 0,
            congested: 0,
            at_bound: 0,
            held: 0,
            delayed: 0,
            enforced: 0,
            apply: 0,
            tallies: BTreeMap::new(),
            peak: 0.0,
            offset: None,
        }
    }

    /// Handles a turn of the daemon; returns a period once it has ended.
    ///
    /// `running`: true if the data plane has the intended limits.
    pub fn turn(&mut self, at: Moment, governor: &Governor, running: bool) -> Option<Recorded> {
        let sampled =
            governor.sampled_at().filter(|s| self.sampled.is_none_or(|last| *s > last))?;
        if self.sampled.replace(sampled).is_some_and(|last| sampled.since(last) > STANDSTILL) {
            self.restart(at.now);
        }
        self.sample(at.now, governor, running);
        (at.now.since(self.started) >= self.length).then(|| self.close(at, governor))
    }

    /// Begins a period without what came before: its samples do not stand for hours without any.
    fn restart(&mut self, now: Time) {
        let (run, length, sampled) = (self.run, self.length, self.sampled);
        let (peak, offset) = (self.peak, self.offset);
        let new = Recorder::new(run, now, length);
        *self = Recorder { length, sampled, peak, offset, ..new };
    }

    /// Returns the least time until the present period ends.
    pub fn remaining(&self, now: Time) -> Span {
        self.length.saturating_sub(now.since(self.started))
    }

    /// Ends the period early, such as at the end of the daemon; `None` without a sample.
    pub fn finish(&mut self, at: Moment, governor: &Governor) -> Option<Recorded> {
        (self.samples > 0).then(|| self.close(at, governor))
    }

    fn sample(&mut self, now: Time, governor: &Governor, running: bool) {
        let (mut total, mut held, mut delayed) = (0_u64, false, false);
        let (mut limits, mut trips) = (false, false);
        for member in governor.members() {
            let tallies = self.tallies.entry(member.class.0).or_insert_with(|| {
                // A home that appears has carried nothing yet.
                let tally = |d: usize| {
                    let start = Totals::of(&member.directions[d]);
                    Tally { start, last: start, ..Tally::default() }
                };
                [tally(0), tally(1)]
            });
            for (d, tally) in tallies.iter_mut().enumerate() {
                let state = &member.directions[d];
                let rate = state.meter.rate.map_or(0, |r| r.0);
                total = total.saturating_add(rate);
                let (limit, limiter) = governor.meant(member, d);
                if let Some(limit) = limit {
                    tally.limits += u128::from(limit.0);
                    tally.limited += 1;
                    limits |= limiter == Limiter::Control;
                    if limiter == Limiter::Control && rate as f64 >= HELD_FRACTION * limit.0 as f64
                    {
                        tally.held += 1;
                        held = true;
                    }
                }
                if let Some((_, trip)) = state.signs.trip(now) {
                    trips = true;
                    delayed |= trip.median >= trip.base + CONGESTION_DELAY;
                    tally.trip = tally.trip.max(Some(trip.median));
                }
                tally.look(state);
            }
        }
        if let Some(all) = governor.aggregate().wanted {
            limits = true;
            held |= total as f64 >= HELD_FRACTION * all.0 as f64;
        }
        self.peak = self.peak.max(total as f64);
        // A limit may be near the traffic of an idle mesh.
        let most = governor.bound().map_or(0.0, |b| b.0 as f64).max(self.peak);
        held &= total as f64 >= CONGESTED_FRACTION * most;
        let at_bound = governor.bound_used().is_some_and(|used| used >= AT_BOUND);
        self.samples += 1;
        for (count, holds) in [
            (&mut self.visible, limits || trips || governor.bound().is_some()),
            (&mut self.congested, held || delayed || at_bound),
            (&mut self.at_bound, at_bound),
            (&mut self.held, held),
            (&mut self.delayed, delayed),
            (&mut self.enforced, running && governor.mode() == Mode::Apply),
            (&mut self.apply, governor.mode() == Mode::Apply),
        ] {
            *count += u32::from(holds);
        }
    }

    fn close(&mut self, at: Moment, governor: &Governor) -> Recorded {
        let elapsed = at.now.since(self.started).as_secs_f64();
        let seconds = elapsed.round().clamp(0.0, f64::from(u32::MAX)) as u32;
        let samples = core::mem::take(&mut self.samples).max(1);
        let time = |count: &mut u32| share(core::mem::take(count), samples, seconds);
        let mut mesh = MeshUse {
            seconds,
            apply: time(&mut self.apply),
            enforced: time(&mut self.enforced),
            visible: time(&mut self.visible),
            congested: time(&mut self.congested),
            at_bound: time(&mut self.at_bound),
            held: time(&mut self.held),
            delayed: time(&mut self.delayed),
            bound: governor.bound().map(|b| b.0),
            ..MeshUse::default()
        };
        let mut tallies = core::mem::take(&mut self.tallies);
        let mut homes: Vec<(&Member, [Tally; 2])> = Vec::new();
        for member in governor.members() {
            let Some(tally) = tallies.remove(&member.class.0) else { continue };
            let next = tally.map(|t| Tally { start: t.last, last: t.last, ..Tally::default() });
            self.tallies.insert(member.class.0, next);
            homes.push((member, tally));
        }
        let carried: Vec<[Carried; 2]> = homes
            .iter()
            .map(|(member, tally)| [0, 1].map(|d| tally[d].carried(member, d, samples, elapsed)))
            .collect();
        let total: u64 = homes.iter().flat_map(|h| &h.1).map(|t| t.last.since(t.start).bytes).sum();
        // A minute counts as a whole: its rates cannot be divided.
        let congested = is_most(mesh.congested, seconds);
        let level = congested.then(|| carried_level(carried.as_flattened())).flatten();
        if congested {
            mesh.congested_bytes = total;
        }
        if let Some(level) = level {
            (mesh.level, mesh.level_seconds) = (Some(level.round() as u64), seconds);
        }
        let homes = homes.iter().zip(&carried).filter_map(|((member, tallies), carried)| {
            let directions = [0, 1].map(|d| {
                let verdict = level.filter(|level| carried[d].starves(*level));
                let verdict = verdict.map(|level| carried[d].due(level));
                let confirmed = carried[d].demand == Demand::Confirmed;
                let usage = tallies[d].usage(member, d, (samples, seconds), verdict, confirmed);
                let reason = member.directions[d].change.as_ref().map_or("", |c| c.why.code());
                let limiter = governor.meant(member, d).1;
                let usage = Usage { limited_by: limited_by(limiter), ..usage };
                DirectionUse { usage, reason: reason.to_owned() }
            });
            // A home that starves may carry nothing at all.
            let used = |u: &Usage| u.bytes > 0 || u.drops > 0 || u.starved > 0;
            let used = directions.iter().any(|d| used(&d.usage));
            used.then(|| HomeUse { name: member.subscriber.name.clone(), directions })
        });
        let homes = homes.collect();
        self.started = at.now;
        self.peak *= PEAK_DECAY;
        let up = at.now.since(Time::ZERO) / Span::from_secs(1);
        let offset = i128::from(at.wall) - i128::from(up);
        let before = self.offset.replace(offset);
        let jump = before.map(|before| offset - before).filter(|jump| jump.abs() > CLOCK_JUMP);
        let jump = jump.map(|jump| i64::try_from(jump).unwrap_or(i64::MAX));
        let stamp = Stamp { run: self.run, up, wall: at.wall, first: 0, last: 0 };
        Recorded { period: Period { stamp, end: at.wall, mesh, homes }, jump }
    }
}

/// Returns the part of a period's seconds that a number of samples stands for.
fn share(count: u32, samples: u32, seconds: u32) -> u32 {
    (u64::from(count.min(samples)) * u64::from(seconds) / u64::from(samples)) as u32
}

const fn limited_by(limiter: Limiter) -> LimitedBy {
    match limiter {
        Limiter::Nothing => LimitedBy::Nothing,
        Limiter::Control => LimitedBy::Control,
        Limiter::Aggregate => LimitedBy::Aggregate,
        Limiter::Plan => LimitedBy::Plan,
        Limiter::Override => LimitedBy::Override,
    }
}

impl Tally {
    /// Handles a sample of a direction.
    fn look(&mut self, state: &DirectionState) {
        let now = Totals::of(state);
        let moved = now.since(self.last);
        self.last = now;
        self.active += u32::from(moved.packets > 0 && moved.bytes >= DATA_PACKET * moved.packets);
        self.queued += u32::from(state.meter.backlog > 0 || moved.drops > 0);
        self.read += u32::from(state.signs.awaited.is_some());
        let waits = state.signs.awaited.is_some_and(|bytes| bytes > 0)
            || state.signs.oldest.is_some_and(|age| age >= UNANSWERED_AGE);
        self.unacknowledged += u32::from(waits);
    }

    /// Returns the sign of unmet demand: one that most samples show.
    fn demand(&self, samples: u32) -> Demand {
        let most = |count: u32| is_most(count, samples);
        match (most(self.queued) || most(self.unacknowledged), most(self.read)) {
            (true, _) => Demand::Confirmed,
            (false, true) => Demand::Met,
            (false, false) if most(self.active) => Demand::Continuous,
            (false, false) => Demand::Met,
        }
    }

    fn carried(&self, member: &Member, d: usize, samples: u32, seconds: f64) -> Carried {
        let bytes = self.last.since(self.start).bytes as f64;
        let plan = &member.subscriber.plan;
        let override_rate = member.directions[d].overridden.and_then(|o| o.rate);
        let ceiling = override_rate.or(rates(plan, d).ceiling).map(|r| r.0 as f64);
        let rate = if seconds > 0.0 { 8.0 * bytes / seconds } else { 0.0 };
        Carried { rate, weight: plan.weight, ceiling, demand: self.demand(samples) }
    }

    /// Returns the numbers of a period; `due`: the due rate in bit/s, if the home starved.
    fn usage(
        &self,
        member: &Member,
        d: usize,
        (samples, seconds): (u32, u32),
        due: Option<f64>,
        confirmed: bool,
    ) -> Usage {
        let moved = self.last.since(self.start);
        let time = |count: u32| share(count, samples, seconds);
        let starved = if due.is_some() { seconds } else { 0 };
        let mean = self.limits / u128::from(self.limited.max(1));
        Usage {
            bytes: moved.bytes,
            drops: moved.drops,
            limit: (self.limited > 0).then(|| u64::try_from(mean).unwrap_or(u64::MAX)),
            limited: time(self.limited),
            ceiling: rates(&member.subscriber.plan, d).ceiling.map(|r| r.0),
            limited_by: LimitedBy::Nothing,
            round_trip_ms: self.trip.map(|t| (1e3 * t.as_secs_f64()).round() as u32),
            active: time(self.active),
            held: time(self.held),
            starved,
            confirmed: if confirmed { starved } else { 0 },
            starved_bytes: if due.is_some() { moved.bytes } else { 0 },
            due_bytes: due.map_or(0, |due| (due / 8.0 * f64::from(seconds)) as u64),
        }
    }
}
