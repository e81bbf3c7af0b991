//! Collisions of an attempt.
//!
//! These are hidden exchanges, frames that start in its vulnerable period, and stations that missed the CTS.

use super::independent_sets::{OffSet, bits};
use super::interference::{Bystander, Model, RefusedLink, Rival};
use super::retry_chain::Collisions;
use super::timing::Spans;
use super::unknowns::{FixedPoint, Link};

/// Returns the collisions of an attempt on a link when its sender finds the medium idle.
///
/// It also records the rivals that the attempt collides with. `idle` and its related fields are not set.
pub(super) fn collisions(m: &Model, h: usize, f: &mut FixedPoint) -> Collisions {
    let (hidden, span) = hidden(m, h, f);
    let link = &f.links[h];
    let via = link.via;
    let sensed = bits(m.interference[h].view).map(|u| f.begun[u]).sum::<f64>();
    let mut collisions = Collisions {
        hidden,
        span,
        resets: sensed / link.open.max(1e-9),
        waiting: via * link.found + (1.0 - via) * link.load,
        relayed: relayed(m, h, f),
        caused: link.caused,
        at_once: via * (1.0 - link.found),
        chased: chase(m, h, f),
        after: link.times.refused - link.times.rts,
        ..Collisions::default()
    };
    opening_collisions(m, h, f, &mut collisions);
    collisions
}

/// Returns P(the receiver is occupied by hidden traffic | the sender finds the medium idle).
///
/// Hidden from the sender. Also returns the mean length of the trains that occupy it.
fn hidden(m: &Model, h: usize, f: &FixedPoint) -> (f64, f64) {
    let (interference, link) = (&m.interference[h], &f.links[h]);
    let (mut with, mut bare, mut starts) = (0.0, 0.0, 0.0);
    let mut follow = interference.members.iter().zip(&link.members_follow);
    for &(u, around, all) in &interference.trains {
        with += f.with[u];
        bare += f.bare[u];
        // Frames forwarded immediately prolong an active train instead of starting one, as does any
        // frame that starts during one.
        let alone = m.sets.probability_off(all) / m.sets.probability_off(around).max(1e-12);
        let starts_of = |(&o, &follows): (&usize, &f64)| {
            let (l, s) = (&f.links[o], &f.links[o].service);
            let at_once = at_once(l, follows) * s.attempts;
            l.arrivals * s.data * (1.0 - at_once)
        };
        let members = m.network.members[u].len();
        starts += follow.by_ref().take(members).map(starts_of).sum::<f64>() * alone;
    }
    // Subtracts the pauses that follow exchanges.
    let share = if with > 0.0 { bare / with } else { 0.0 };
    let on = (1.0 - link.clear / link.open).max(0.0) * share;
    // Trains also continue and start while the sender senses other traffic.
    let (open, clear) =
        (m.sets.probability_off(interference.idle), m.sets.probability_off(interference.clear));
    let sensed =
        if open > clear { (link.open - link.clear).max(0.0) / (open - clear) } else { 1.0 };
    let trains = (1.0 - m.sets.probability_off(interference.unhidden)) * sensed * share;
    let span = if starts > 0.0 { trains / starts } else { 1e-3 };
    // Refused attempts of other links occupy the receiver, too.
    let refused_rate: f64 = interference
        .received_by_receiver
        .iter()
        .map(|r| refused_rate(m, r, f) * f.links[r.link].times.refused_held)
        .sum();
    let held = 1.0 - libm::exp(-refused_rate / link.clear.max(1e-9));
    ((on + (1.0 - on) * held).min(0.999), span.max(1e-5))
}

/// Returns the attempts per second on a link that are refused because of hidden exchanges.
///
/// Hidden from its sender. Only attempts while the receiving station's medium is otherwise idle
/// count: only they suspend its countdown. Attempts refused because frames collided are not
/// decodable.
pub(super) fn refused_rate(m: &Model, r: &RefusedLink, f: &FixedPoint) -> f64 {
    let quiet = m.sets.probability_off(r.open) - m.sets.probability_off(r.clear);
    f.links[r.link].attempt_rates.1 * quiet.max(0.0)
}

/// Returns the expected frames of other links that collide with opening frame or data.
fn opening_collisions(m: &Model, h: usize, f: &mut FixedPoint, collisions: &mut Collisions) {
    let Spans { slot, difs, sifs, .. } = m.network.spans;
    let interference = &m.interference[h];
    let times = f.links[h].times;
    let clear = m.sets.probability_off(interference.clear).max(1e-9);
    let (mut met, mut onset, mut late) = (0.0, 0.0, 0.0);
    let (mut weighted, mut mutual) = (0.0, 0.0);
    let mut meets = core::mem::take(&mut f.links[h].meets);
    for (at, (rival, meets)) in interference.rivals.iter().zip(&mut meets).enumerate() {
        let (o, effects) = (rival.link, rival.effects);
        let other = &f.links[o];
        if other.arrivals <= 0.0 {
            continue;
        }
        let (free, refused_rate) = attempt_rates(m, rival, f, clear);
        let rate = free + refused_rate;
        // Share of those not refused by hidden traffic that become exchanges.
        let served =
            (other.service.data / (other.service.attempts - other.service.hidden)).min(1.0) * free
                / rate.max(1e-9);
        let mut window = 0.0;
        if effects.same_slot {
            window += slot;
        }
        if effects.overtakes {
            window += times.opening();
        }
        if effects.overtaken {
            window += other.times.opening();
        }
        // An idle relay forwards a frame a DIFS after its arrival. If that arrival also defers this
        // link, the two can collide only in that pause.
        let at_once = at_once(other, f.links[h].rivals_follow[at]);
        // Attempts closer than that collide with the same frame.
        let again = 1.0 - 1.0 / other.service.attempts;
        let own = 1.0 - again * (1.0 - (apart(other) / window.max(1e-9)).min(1.0));
        let expected = rate * (at_once * window.min(difs) + (1.0 - at_once) * own * window);
        if effects.mutual {
            *meets = expected;
            met += expected;
            mutual += expected;
            // Either may start first: within half of the window.
            weighted += expected * 0.5 * window;
        } else {
            onset += expected * served;
            met += expected * (1.0 - served);
        }
        if effects.cts {
            onset += rate * served * times.rts;
        }
        if effects.misses_cts {
            late += rate * (1.0 - at_once) * (sifs + slot);
        }
        if effects.acks {
            late += other.arrivals * (times.data + other.times.ack);
        }
    }
    let mut follow = f.links[h].bystanders_follow.as_slice();
    for bystander in &interference.bystanders {
        late += data_collisions(m, h, bystander, follow, f);
        follow = &follow[bystander.own.len()..];
    }
    f.links[h].meets = meets;
    f.links[h].met = met;
    collisions.met = 1.0 - libm::exp(-met);
    collisions.onset = 1.0 - libm::exp(-onset);
    collisions.data_collision = 1.0 - libm::exp(-late);
    collisions.window = if mutual > 0.0 { weighted / mutual } else { 0.0 };
}

/// Returns a rival's attempts per second while an attempt on a link finds the medium idle.
///
/// Retries after a collision of the two do not count: the chain contains them. Attempts during
/// traffic hidden from the rival are returned separately.
fn attempt_rates(m: &Model, rival: &Rival, f: &FixedPoint, clear: f64) -> (f64, f64) {
    let other = &f.links[rival.link];
    let (free, refused_rate) = other.attempt_rates;
    let mine = rival.back.map_or(0.0, |at| other.meets[at]);
    let share = if other.met > 0.0 { mine / other.met } else { 0.0 };
    let again = other.service.met * share;
    let first = (other.service.attempts - other.service.hidden - again).max(0.0)
        / (other.service.attempts - other.service.hidden).max(1e-9);
    let off = m.sets.probability_off(rival.clear);
    let beside = (m.sets.probability_off(rival.open) - off).max(0.0);
    (free * first * off / clear, refused_rate * beside / clear)
}

/// Returns a bystander's expected frames that hit a link's data frame after a lost CTS.
///
/// The bystander lost the CTS to an exchange that ends before the data frame does, or to a refused
/// RTS.
fn data_collisions(
    m: &Model,
    h: usize,
    bystander: &Bystander,
    follow: &[f64],
    f: &FixedPoint,
) -> f64 {
    let near = m.sets.probability_off(bystander.near).max(1e-9);
    let times = &f.links[h].times;
    let Spans { slot, sifs, difs, eifs, second } = m.network.spans;
    // Traffic beside the link destroys the CTS only while one of its frames is on the air there:
    // CTS and ACK, if only the exchange's receiver is in range.
    let (mut taken, mut sensed, mut long) = (0.0, 0.0, 0.0);
    for &(o, sender, receiver) in &bystander.others {
        let (link, t) = (&f.links[o], &f.links[o].times);
        let (mut on, begun) = (0.0, link.arrivals * link.service.data);
        if sender {
            on += t.rts + t.data + 2.0 * times.cts;
        }
        if receiver {
            on += t.cts + t.ack + 2.0 * times.cts;
        }
        let on = begun * on.min(t.exchange);
        taken += begun * t.exchange;
        sensed += on;
        long += on * t.exchange;
    }
    let on = (1.0 - m.sets.probability_off(bystander.quiet) / near).max(0.0);
    let on = if taken > 0.0 { on * sensed / taken } else { 0.0 };
    let length = if sensed > 0.0 { long / sensed } else { 1.0 };
    // Rest of the data frame at the end of the RTS that destroyed the CTS, plus or minus half of
    // the overlap.
    let spread = 0.5 * (times.cts + times.rts);
    let after = |late: f64| left_over(times.data - late, spread);
    let own = waits(bystander, follow, f);
    let room = |probability_off: OffSet| (m.sets.probability_off(probability_off) / near).min(1.0);
    let destroys = |&(o, probability_off): &(usize, OffSet)| {
        room(probability_off) * f.links[o].attempt_rates.0 * (times.cts + f.links[o].times.rts)
    };
    let destroyed: f64 =
        bystander.responds.iter().chain(&bystander.rts_interferers).map(destroys).sum();
    let mut late = on * own.beside(times.data - difs, length) + destroyed * own.within(after(eifs));
    // A response is preceded by an RTS.
    let rts = times.rts + sifs;
    for answer in &bystander.responds {
        let link = &f.links[answer.0];
        let room = room(answer.1);
        let rate = room * link.arrivals * link.service.attempts / link.open.max(1e-9);
        let timing = AttemptTiming::of(link, rate, room);
        let mine = destroys(answer);
        late += on * timing.beside(times.data - rts, length);
        late += (destroyed - mine) * timing.within(after(rts));
        // The sender of the RTS that destroyed the CTS retries at a uniform time in its next
        // window, which may be long by then.
        let backoff = (2.0 * retry(link)).max(second * slot / link.collisions.idle_beside);
        let again = after(rts + link.times.refused - link.times.rts) / backoff;
        late += mine * again.min(1.0);
    }
    late
}

/// Returns the mean backoff before an attempt that is not the first, in s.
fn retry(link: &Link) -> f64 {
    let s = &link.service;
    (s.backoff - s.first) / (s.attempts - 1.0).max(1e-3)
}

/// Returns the time from the start of one attempt to that of the next, in s.
fn apart(link: &Link) -> f64 {
    retry(link) + link.times.refused
}

/// Timing of a sender's attempts.
///
/// It is a constant rate while it has a frame, until the first attempt.
#[derive(Clone, Copy, Debug, Default)]
struct AttemptTiming {
    /// Attempts per second while it has a frame.
    rate: f64,
    /// Probability that it has a frame.
    has: f64,
}

impl AttemptTiming {
    /// Returns a sender's attempts on a link: consecutive, a backoff apart, while it has a frame.
    fn of(link: &Link, rate: f64, room: f64) -> Self {
        let s = &link.service;
        let apart = s.backoff / s.attempts.max(1e-9) + link.times.refused;
        AttemptTiming { rate, has: (rate * apart).min(room).max(1e-9) }
    }

    /// Returns the probability of an attempt within a time, in s.
    fn within(self, seconds: f64) -> f64 {
        let some = self.rate * seconds.max(0.0) / self.has.max(1e-9);
        self.has * (1.0 - libm::exp(-some))
    }

    /// Returns the probability of an attempt in the rest of `window` after an exchange.
    ///
    /// The exchange has this length and ends at any time.
    fn beside(self, window: f64, length: f64) -> f64 {
        let window = window.max(0.0);
        let rate = self.rate / self.has.max(1e-9);
        let least = (window - length).max(0.0);
        if rate * window < 1e-6 {
            return 0.5 * self.rate * (window * window - least * least) / length;
        }
        let tail = (libm::exp(-rate * least) - libm::exp(-rate * window)) / rate;
        self.has * (window - least - tail) / length
    }
}

/// Returns a bystander's own attempts, for frames that already wait.
///
/// None arrives while the link is active.
fn waits(bystander: &Bystander, follow: &[f64], f: &FixedPoint) -> AttemptTiming {
    let mut all = AttemptTiming::default();
    for (&o, &follows) in bystander.own.iter().zip(follow) {
        let link = &f.links[o];
        let waits = 1.0 - at_once(link, follows);
        let rate = link.arrivals * link.service.attempts * waits / link.open.max(1e-9);
        let one = AttemptTiming::of(link, rate, 1.0);
        all = AttemptTiming { rate: all.rate + one.rate, has: (all.has + one.has).min(1.0) };
    }
    all
}

/// Returns the share of a link's frames that are forwarded immediately.
///
/// Only after an exchange that also deferred the hidden stations.
fn relayed(m: &Model, h: usize, f: &FixedPoint) -> f64 {
    let link = &f.links[h];
    let on = link.open - link.clear;
    let (mut kept, mut all) = (0.0, 0.0);
    for &(s, covered) in &m.interference[h].streams {
        let frames = f.streams[s].frames;
        all += frames;
        if let Some(covered) = covered.filter(|_| on > 1e-12) {
            kept += frames * (link.open - m.sets.probability_off(covered)) / on;
        }
    }
    if all > 0.0 { kept / all * (1.0 - link.found) } else { 0.0 }
}

/// Returns the probability that the previous frame blocks a waiting frame's first attempt.
///
/// It blocks the receiver if it was forwarded immediately over a hop that the sender senses, and again over a
/// hidden one.
fn chase(m: &Model, h: usize, f: &FixedPoint) -> f64 {
    let link = &f.links[h];
    let all: f64 = m.interference[h].streams.iter().map(|&(s, _)| f.streams[s].frames).sum();
    let chased = |&(s, one, two): &(usize, usize, usize)| {
        let relayed = m.network.streams[s].after.is_some();
        let waited = if relayed { link.found } else { link.load };
        f.streams[s].frames * waited * (1.0 - f.links[one].found) * (1.0 - f.links[two].found)
    };
    let sum: f64 = m.interference[h].chased.iter().map(chased).sum();
    if all > 0.0 { (sum / all).min(1.0) } else { 0.0 }
}

/// Returns the share of a link's attempts that follow the arrival of their frame immediately.
///
/// `follows` is the share of its frames to consider.
fn at_once(link: &Link, follows: f64) -> f64 {
    follows * (1.0 - link.found) / link.service.attempts
}

/// Returns the mean rest of a window that varies by up to `spread`.
fn left_over(window: f64, spread: f64) -> f64 {
    if window > spread {
        return window;
    }
    let part = (window + spread).max(0.0);
    part * part / (4.0 * spread)
}
