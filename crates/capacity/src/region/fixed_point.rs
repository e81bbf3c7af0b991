//! The fixed point of the equations between rates, durations of exchanges and busy shares.

use super::anderson::Anderson;
use super::arrivals::arrive;
use super::collisions::{collisions, refused_rate};
use super::interference::{Model, Rival};
use super::retry_chain::{Collisions, service};
use super::types::{LinkState, Load, MEET_AGAIN, NoState, NodeState, Outside, Retries, State};
use super::unknowns::FixedPoint;
use crate::link::Access;

/// Maximum number of rounds: full or combined, and damped.
///
/// Loads near the limit of existence need many damped ones.
const MAX_ROUNDS: usize = 250;
const DAMPED_ROUNDS: usize = 4000;
/// Change of a probability that is negligible.
const CONVERGED_CHANGE: f64 = 1e-5;
/// Accuracy of the fitted shares of time, as a fraction of the previous round's change.
const FIT_ACCURACY_RATIO: f64 = 0.03;
/// Finest accuracy of the fitted shares.
const MIN_FIT_ACCURACY: f64 = 1e-6;
/// Coarsest accuracy of the fitted shares.
const MAX_FIT_ACCURACY: f64 = 1e-3;
/// Utilisation above which the iteration does not recover.
const DIVERGED_UTILISATION: f64 = 2.0;
/// Ratio of a round's change to the previous one above which it is a setback.
///
/// Rounds are combined if probabilities change by less than `COMBINED_CHANGE`, and damped after `MAX_SETBACKS`
/// setbacks.
const SETBACK_RATIO: f64 = 0.8;
const COMBINED_CHANGE: f64 = 0.1;
const MAX_SETBACKS: u32 = 4;

/// Rule that maps a round's outcome to the next input.
#[derive(Clone, Copy, Debug)]
struct Relaxation {
    /// Weight of the outcome.
    part: f64,
    /// True if it is combined with earlier rounds.
    combined: bool,
}

/// Acceleration of the rounds: whole and combined, or all damped.
#[derive(Clone, Copy, Debug)]
enum Acceleration {
    Adaptive,
    Never,
}

impl Relaxation {
    const PLAIN: Relaxation = Relaxation { part: 1.0, combined: false };
    const FAST: Relaxation = Relaxation { part: 1.0, combined: true };
    const SLOW: Relaxation = Relaxation { part: 0.7, combined: false };
}

/// Writes the load of every stream, given the share of frames that each link drops.
pub(super) type Spread<'a> = dyn FnMut(&dyn Fn(usize) -> f64, &mut [Load]) + 'a;

/// Moves a value by a fraction of the distance; returns the whole distance.
fn mix(old: &mut f64, new: f64, part: f64) -> f64 {
    let moved = (new - *old).abs();
    *old += part * (new - *old);
    moved
}

/// Returns the largest Σ λ E\[S\] of a node.
pub(super) fn busiest(f: &FixedPoint) -> f64 {
    f.links.iter().map(|l| l.used).fold(0.0, f64::max)
}

/// A network's equations and their solution.
#[derive(Clone, Debug)]
pub(super) struct Solver {
    pub model: Model,
    anderson: Anderson,
}

impl Solver {
    pub(super) fn new(model: Model) -> Self {
        Solver { model, anderson: Anderson::default() }
    }

    /// Finds the fixed point.
    ///
    /// `loads` writes the load of every stream, given the frames that each link drops.
    /// Probabilities rise towards it from `from`, the fixed point of smaller loads, or from the
    /// state without collisions.
    ///
    /// # Errors
    /// Beyond the boundary, not settled, or outside the model.
    pub(super) fn solve(
        &mut self,
        from: Option<&FixedPoint>,
        loads: &mut Spread<'_>,
    ) -> Result<FixedPoint, NoState> {
        let mut f = from.cloned().unwrap_or_else(|| FixedPoint::start(&self.model));
        let failed = match self.settle(&mut f, loads) {
            Ok(()) => return Ok(f),
            Err(NoState::Beyond) if from.is_some() => return Err(NoState::Beyond),
            Err(outside @ NoState::Outside(_)) => return Err(outside),
            Err(failed) => failed,
        };
        // Full and combined rounds may overshoot a fixed point near its limit of existence,
        // particularly from far away, or oscillate around it. Damped ones approach it slowly.
        let mut f = from.cloned().unwrap_or_else(|| FixedPoint::start(&self.model));
        match self.settle_by(&mut f, Acceleration::Never, loads) {
            Ok(()) => Ok(f),
            Err(NoState::Beyond) => Err(NoState::Beyond),
            Err(_) => Err(failed),
        }
    }

    /// Finds the fixed point in place, from any start.
    ///
    /// If there is none, `f` is not a usable start.
    pub(super) fn settle(
        &mut self,
        f: &mut FixedPoint,
        loads: &mut Spread<'_>,
    ) -> Result<(), NoState> {
        self.settle_by(f, Acceleration::Adaptive, loads)
    }

    fn settle_by(
        &mut self,
        f: &mut FixedPoint,
        acceleration: Acceleration,
        loads: &mut Spread<'_>,
    ) -> Result<(), NoState> {
        self.model.sets.factor.copy_from_slice(&f.factor);
        let (mut moved, mut relaxation, mut setbacks, rounds) = match acceleration {
            Acceleration::Adaptive => (f64::INFINITY, Relaxation::PLAIN, 0, MAX_ROUNDS),
            Acceleration::Never => (0.0, Relaxation::SLOW, MAX_SETBACKS, DAMPED_ROUNDS),
        };
        self.anderson.reset();
        for round in 0..rounds {
            // Only drops change the loads from round to round.
            if round == 0 || self.model.network.settings.retries == Retries::Mac {
                let links = &f.links;
                loads(&|h| links[h].service.dropped, &mut f.streams);
                arrive(&self.model, f);
                self.send(f);
            }
            if round == 0 {
                self.holds(f)?;
            }
            let fine = (FIT_ACCURACY_RATIO * moved).clamp(MIN_FIT_ACCURACY, MAX_FIT_ACCURACY);
            let now = self.round(f, fine, relaxation).ok_or(NoState::Beyond)?;
            if now > SETBACK_RATIO * moved {
                // The history is not valid after a restart.
                self.anderson.reset();
                setbacks += 1;
            }
            relaxation = match setbacks {
                0..MAX_SETBACKS if now < COMBINED_CHANGE => Relaxation::FAST,
                0..MAX_SETBACKS => Relaxation::PLAIN,
                _ => Relaxation::SLOW,
            };
            moved = now;
            if moved < CONVERGED_CHANGE {
                f.factor.copy_from_slice(&self.model.sets.factor);
                return Ok(());
            }
            // Attempts diverge.
            if f.links.iter().any(|l| l.used > DIVERGED_UTILISATION) {
                return Err(NoState::Beyond);
            }
        }
        Err(NoState::NotSettled { rounds, moved, utilisation: busiest(f) })
    }

    /// Checks that the model's assumptions hold under these loads.
    fn holds(&self, f: &FixedPoint) -> Result<(), NoState> {
        if self.model.network.access != Access::Basic {
            return Ok(());
        }
        let t = self.model.network.phy.timing();
        let window = f64::from(t.cw_max) * self.model.network.spans.slot;
        for (h, link) in f.links.iter().enumerate().filter(|l| l.1.arrivals > 0.0) {
            // Senders that sense each other collide only within a slot.
            let meets = |r: &&Rival| r.effects.mutual && r.effects.overtakes;
            for rival in self.model.interference[h].rivals.iter().filter(meets) {
                let other = &f.links[rival.link];
                if other.arrivals <= 0.0 {
                    continue;
                }
                // Both draw from this window: see `retry_chain`.
                let near = 0.5 * (link.times.data + other.times.data) / window;
                let apart = (1.0 - near).max(0.0);
                let again = 1.0 - apart * apart;
                if again > MEET_AGAIN {
                    let (one, other) =
                        (self.model.network.hop(h), self.model.network.hop(rival.link));
                    return Err(NoState::Outside(Outside::LongFrames { one, other, again }));
                }
            }
        }
        Ok(())
    }

    /// Returns true if Σ λ E\[S\] of every node is at most this.
    pub(super) fn stable(f: &FixedPoint, utilisation: f64) -> bool {
        f.links.iter().all(|l| l.used <= utilisation)
    }

    /// Runs one round, with shares of time to `fine`.
    ///
    /// Returns the largest change of a probability.
    fn round(&mut self, f: &mut FixedPoint, fine: f64, relaxation: Relaxation) -> Option<f64> {
        let part = relaxation.part;
        // After each exchange other stations wait DIFS and lose the current slot.
        let tail = self.model.network.spans.difs;
        f.with.fill(0.0);
        f.bare.fill(0.0);
        f.begun.fill(0.0);
        for (link, &u) in f.links.iter().zip(&self.model.network.user) {
            // With RTS the medium is occupied from the CTS on; without, by every attempt.
            let exchanges = link.arrivals * link.service.data;
            f.with[u as usize] += exchanges * (link.times.exchange + tail);
            f.bare[u as usize] += exchanges * link.times.exchange;
            f.begun[u as usize] += exchanges;
        }
        if !self.model.sets.fit(&f.with, fine) {
            return None;
        }
        self.model.sets.evaluate();
        for h in 0..f.links.len() {
            let (open, clear) = self.idle_shares(h, f);
            f.links[h].open = open;
            f.links[h].clear = clear;
        }
        for h in 0..f.links.len() {
            let link = &f.links[h];
            let (s, beside) = (&link.service, (link.open - link.clear).max(0.0));
            let (free, refused_rate) = (s.attempts - s.hidden, s.hidden);
            let per =
                |n: f64, share: f64| if share > 1e-9 { link.arrivals * n / share } else { 0.0 };
            f.links[h].attempt_rates = (per(free, link.clear), per(refused_rate, beside));
        }
        let mut moved = 0.0f64;
        if relaxation.combined {
            self.anderson.give(&f.links);
        }
        for h in 0..f.links.len() {
            let idle = self.idle(h, f, tail)?;
            let collisions = collisions(&self.model, h, f);
            let o = &mut f.links[h].collisions;
            moved = moved.max(mix(&mut o.idle, idle, part)).max(mix(
                &mut o.hidden,
                collisions.hidden,
                part,
            ));
            moved = moved.max(mix(&mut o.met, collisions.met, part)).max(mix(
                &mut o.onset,
                collisions.onset,
                part,
            ));
            moved = moved.max(mix(&mut o.data_collision, collisions.data_collision, part));
            let beside = self.beside(h, f);
            let o = &mut f.links[h].collisions;
            *o = Collisions {
                hidden: o.hidden,
                met: o.met,
                onset: o.onset,
                data_collision: o.data_collision,
                idle: o.idle,
                idle_beside: beside.max(o.idle),
                channel_loss: o.channel_loss,
                ..collisions
            };
        }
        if relaxation.combined {
            self.anderson.take(&mut f.links);
        }
        for link in &mut f.links {
            let s = service(
                &self.model.network.phy,
                self.model.network.access,
                self.model.network.settings.retries,
                &link.collisions,
            );
            moved = moved.max((s.dropped - link.service.dropped).abs());
            link.service = s;
        }
        self.send(f);
        for h in 0..f.links.len() {
            let (used, load) = self.busy(h, f);
            f.links[h].used = used;
            moved = moved.max(mix(&mut f.links[h].load, load, part));
            // No frame arrives while the node transmits.
            let siblings = self.model.interference[h].siblings.iter();
            let sends: f64 = siblings.map(|&o| f.links[o].arrivals * f.links[o].sending).sum();
            let load = f.links[h].load;
            f.links[h].found = ((load - sends) / (1.0 - sends).max(1e-3)).clamp(0.0, load);
        }
        Some(moved)
    }

    /// Returns the share of time in which a link's sender senses no other station.
    ///
    /// Also returns the share in which its receiver does not sense one either.
    fn idle_shares(&self, h: usize, f: &FixedPoint) -> (f64, f64) {
        let interference = &self.model.interference[h];
        let sifs = self.model.network.spans.sifs;
        let (mut open, mut clear) = (
            self.model.sets.probability_off(interference.idle),
            self.model.sets.probability_off(interference.clear),
        );
        for u in &interference.cts_only {
            let link = &f.links[u.link];
            let near = self.model.sets.probability_off(u.near).max(1e-9);
            let rts = link.arrivals * link.service.data * (link.times.rts + sifs) / near;
            if u.seen {
                open += rts * self.model.sets.probability_off(u.open);
            }
            clear += rts * self.model.sets.probability_off(u.clear);
        }
        (open, clear)
    }

    /// Returns the share of time without own transmissions in which the sender's medium is idle.
    fn idle(&self, h: usize, f: &FixedPoint, tail: f64) -> Option<f64> {
        let interference = &self.model.interference[h];
        let (mut sends, mut counted) = (0.0, 0.0);
        for &o in &interference.siblings {
            let link = &f.links[o];
            sends += link.arrivals * f.links[o].sending;
            counted += link.arrivals * link.service.data * (link.times.exchange + tail);
        }
        let rest = (1.0 - sends).max(1e-3);
        let others = (1.0 - f.links[h].open - counted).max(0.0);
        let still = rest - others;
        if still <= 1e-3 {
            return None;
        }
        let refusals: f64 = interference
            .received_by_sender
            .iter()
            .map(|r| refused_rate(&self.model, r, f) * (f.links[r.link].times.refused_seen + tail))
            .sum();
        Some(still * libm::exp(-refusals / still) / rest)
    }

    /// Returns the idle share while an exchange hidden from the sender is active.
    fn beside(&self, h: usize, f: &FixedPoint) -> f64 {
        let interference = &self.model.interference[h];
        let on = 1.0 - self.model.sets.probability_off(interference.unhidden);
        if on > 1e-9 { (f.links[h].open - f.links[h].clear) / on } else { 1.0 }
    }

    /// Returns Σ λ E\[S\] of a link's sender, and the share of time with a non-empty queue.
    ///
    /// The sum charges every frame a backoff. A frame that finds the queue empty and the medium idle is sent
    /// without one; the medium is idle for a frame that has just arrived over the air.
    fn busy(&self, h: usize, f: &FixedPoint) -> (f64, f64) {
        let (mut all, mut spared) = (0.0, 0.0);
        for &o in &self.model.interference[h].siblings {
            let link = &f.links[o];
            all += link.arrivals * self.service_time(o, f);
            for &(s, _) in &self.model.interference[o].streams {
                let idle = if self.model.network.streams[s].after.is_some() {
                    1.0
                } else {
                    link.collisions.idle
                };
                spared += f.streams[s].frames * link.service.first * idle;
            }
        }
        let load = if all < 1.0 { ((all - spared) / (1.0 - spared)).max(0.0) } else { 1.0 };
        (all, load)
    }

    /// Returns E\[S\] of a link, in s.
    pub(super) fn service_time(&self, h: usize, f: &FixedPoint) -> f64 {
        f.links[h].sending + f.links[h].service.backoff
    }

    /// Computes the transmission time per packet, including the DIFS after each attempt.
    fn send(&self, f: &mut FixedPoint) {
        for link in &mut f.links {
            let (s, times) = (&link.service, &link.times);
            let done = 1.0 - s.dropped;
            let exchange = done * (times.exchange + self.model.network.spans.difs);
            link.sending = exchange
                + match self.model.network.access {
                    Access::RtsCts => {
                        (s.data - done) * times.lost + (s.attempts - s.data) * times.refused
                    }
                    Access::Basic => (s.attempts - done) * times.lost,
                };
        }
    }

    pub(super) fn report(&self, f: &FixedPoint) -> State {
        let mut nodes: Vec<NodeState> = Vec::new();
        let mut links = Vec::new();
        for (h, link) in f.links.iter().enumerate() {
            let s = &link.service;
            let service = self.service_time(h, f);
            links.push(LinkState {
                arrivals: link.arrivals,
                refused: (s.hidden + s.met) / s.attempts.max(1e-9),
                lost: 1.0
                    - (1.0 - link.collisions.data_collision) * (1.0 - link.collisions.channel_loss),
                attempts: s.attempts,
                service,
                dropped: s.dropped,
            });
            let (node, busy) = (self.model.network.links[h].from, link.arrivals * service);
            match nodes.iter_mut().find(|v| v.node == node) {
                Some(v) => v.utilisation += busy,
                None => {
                    nodes.push(NodeState { node, idle: link.collisions.idle, utilisation: busy })
                }
            }
        }
        nodes.sort_by_key(|v| v.node);
        State { links, nodes, loss: Vec::new() }
    }
}
