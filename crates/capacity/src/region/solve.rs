//! The fixed point: rates → how long exchanges take → who finds whom busy → how long exchanges take.

use fairmesh_units::{NodeId, Span};

use super::chain::{Odds, Service, service};
use super::load::Times;
use super::sight::Sight;
use super::{LinkRegion, Load, Retries};
use crate::link::Access;

/// A link under some rates.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LinkState {
    /// Frames that arrive at its queue, 1/s.
    pub arrivals: f64,
    /// Share of the attempts that get no CTS, or without RTS/CTS collide.
    pub refused: f64,
    /// Probability that a data frame is lost although its receiver was ready.
    pub lost: f64,
    /// Attempts per frame.
    pub attempts: f64,
    /// E\[S\]: from the head of the queue until done with, s.
    pub service: f64,
    /// Probability that a frame is given up.
    pub dropped: f64,
}

/// A node that sends, under some rates.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NodeState {
    /// The node.
    pub node: NodeId,
    /// Share of the time in which it finds the medium idle, of that in which it does not send.
    pub idle: f64,
    /// Σ λ E\[S\] over its outgoing links.
    pub utilisation: f64,
}

/// The network under some rates.
#[derive(Clone, PartialEq, Debug)]
pub struct State {
    /// By link, in the order of [`super::Region::hops`].
    pub links: Vec<LinkState>,
    /// By sending node.
    pub nodes: Vec<NodeState>,
    /// By flow, the share of its packets that is given up on the way.
    pub loss: Vec<f64>,
}

impl State {
    /// Whether no node's queue is busy for more than this share of the time.
    pub fn stable(&self, utilisation: f64) -> bool {
        self.nodes.iter().all(|v| v.utilisation <= utilisation)
    }
}

/// Rounds of the fixed point.
const ROUNDS: usize = 250;
/// Change of a probability that no longer matters.
const SETTLED: f64 = 1e-5;
/// How well shares of time are met: this part of the change in the round before, within bounds.
const FITTING: f64 = 0.03;
const FITTED: f64 = 1e-6;
const ROUGH: f64 = 1e-3;
/// A utilisation from which the iteration does not come back.
const HOPELESS: f64 = 2.0;
/// A round that changes more than this part of what the one before did has stumbled; rounds are
/// combined where probabilities change by less than `CALM`, and damped after so many stumbles.
const SLOWING: f64 = 0.8;
const CALM: f64 = 0.1;
const STUMBLES: u32 = 4;

/// How a round's outcome becomes what the next one starts from.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// The share of it.
    part: f64,
    /// Whether it is combined with those of earlier rounds.
    combined: bool,
}

/// Whether rounds are taken whole and combined, or all of them damped.
#[derive(Clone, Copy, Debug)]
enum Haste {
    WhereCalm,
    Never,
}

impl Pace {
    const PLAIN: Pace = Pace { part: 1.0, combined: false };
    const FAST: Pace = Pace { part: 1.0, combined: true };
    const SLOW: Pace = Pace { part: 0.7, combined: false };
}

/// One link in the fixed point.
#[derive(Clone, Debug, Default)]
pub(super) struct Link {
    pub arrivals: f64,
    pub times: Times,
    pub odds: Odds,
    pub service: Service,
    /// Share of the time in which all that its sender is aware of is silent; and all that is
    /// hidden from it too.
    pub open: f64,
    pub clear: f64,
    /// Seconds of sending per frame, the DIFS after each attempt included.
    pub sending: f64,
    /// Σ λ E\[S\] of its sender.
    pub used: f64,
    /// The share of time in which the queue of its sender is not empty; and the probability that
    /// what arrives there over the air finds it so.
    pub load: f64,
    pub found: f64,
    /// Expected frames of each rival that an opening frame meets, by position in `Sight::rivals`.
    pub meets: Vec<f64>,
    /// Their sum.
    pub met: f64,
    /// The share of its frames that arrive at its sender over the air; of what is hidden from that,
    /// the share due to frames that passed the link before.
    pub via: f64,
    pub caused: f64,
    /// The share of their frames that follow on what this link's ends are aware of, by position in
    /// `Sight::rivals`; on what is hidden from its sender, by position in `Sight::members`; and on
    /// what the link itself silences, by bystander and the bystander's links.
    pub rivals_follow: Vec<f64>,
    pub members_follow: Vec<f64>,
    pub strays_follow: Vec<f64>,
    /// Attempts per open second of its sender while what is hidden is off, and while it is on.
    pub pace: (f64, f64),
}

/// Writes what every stream carries, given the share of frames that each link gives up.
pub(super) type Spread<'a> = dyn FnMut(&dyn Fn(usize) -> f64, &mut [Load]) + 'a;

/// The fixed point.
#[derive(Clone, Debug)]
pub(super) struct Fixed {
    pub links: Vec<Link>,
    /// By stream.
    pub streams: Vec<Load>,
    /// By user of the air: share of the time on, with and without the DIFS that follows; exchanges
    /// per second.
    pub with: Vec<f64>,
    pub bare: Vec<f64>,
    pub begun: Vec<f64>,
    /// Factors of the joint distribution.
    pub factor: Vec<f64>,
}

pub(super) fn secs(s: Span) -> f64 {
    s.as_secs_f64()
}

/// Moves a value by a part of the way; returns the whole way.
fn mix(old: &mut f64, new: f64, part: f64) -> f64 {
    let moved = (new - *old).abs();
    *old += part * (new - *old);
    moved
}

impl LinkRegion {
    /// The fixed point. `loads` writes what every stream carries, given what each link gives up.
    /// Probabilities rise towards it from `from`, the fixed point of smaller loads, or from where
    /// nothing collides.
    pub(super) fn solve(&mut self, from: Option<&Fixed>, loads: &mut Spread<'_>) -> Option<Fixed> {
        let mut f = from.cloned().unwrap_or_else(|| self.start());
        if self.settle(&mut f, loads) {
            return Some(f);
        }
        // From as far as where nothing collides, whole and combined rounds may leap past a fixed
        // point that is close to where there is none.
        let mut f = from.is_none().then(|| self.start())?;
        self.settle_by(&mut f, Haste::Never, loads).then_some(f)
    }

    /// The same in place, from anywhere. False where there is no fixed point; then `f` is nothing to
    /// start from.
    pub(super) fn settle(&mut self, f: &mut Fixed, loads: &mut Spread<'_>) -> bool {
        self.settle_by(f, Haste::WhereCalm, loads)
    }

    fn settle_by(&mut self, f: &mut Fixed, haste: Haste, loads: &mut Spread<'_>) -> bool {
        self.joint.factor.copy_from_slice(&f.factor);
        let (mut moved, mut pace, mut stumbles) = match haste {
            Haste::WhereCalm => (f64::INFINITY, Pace::PLAIN, 0),
            Haste::Never => (0.0, Pace::SLOW, STUMBLES),
        };
        self.hasten.reset();
        for round in 0..ROUNDS {
            // Frames that are given up are all that changes loads from round to round.
            if round == 0 || self.settings.retries == Retries::Mac {
                let links = &f.links;
                loads(&|h| links[h].service.dropped, &mut f.streams);
                self.arrive(f);
                self.send(f);
            }
            let fine = (FITTING * moved).clamp(FITTED, ROUGH);
            let Some(now) = self.round(f, fine, pace) else { return false };
            if now > SLOWING * moved {
                // What earlier rounds say does not hold here.
                self.hasten.reset();
                stumbles += 1;
            }
            pace = match stumbles {
                0..STUMBLES if now < CALM => Pace::FAST,
                0..STUMBLES => Pace::PLAIN,
                _ => Pace::SLOW,
            };
            moved = now;
            if moved < SETTLED {
                f.factor.copy_from_slice(&self.joint.factor);
                return true;
            }
            if f.links.iter().any(|l| l.used > HOPELESS) {
                return false;
            }
        }
        // It swings only where attempts pile up without end.
        false
    }

    /// Whether Σ λ E\[S\] of every node is at most this.
    pub(super) fn stable(f: &Fixed, utilisation: f64) -> bool {
        f.links.iter().all(|l| l.used <= utilisation)
    }

    pub(super) fn start(&self) -> Fixed {
        let users = self.user.iter().max().map_or(0, |&u| u as usize + 1);
        let link = |(l, s): (&crate::fair::LinkSpec, &Sight)| Link {
            odds: Odds {
                span: 1e-3,
                idle: 1.0,
                idle_beside: 1.0,
                faded: 1.0 - l.delivery,
                ..Odds::default()
            },
            service: Service { attempts: 1.0, data: 1.0, ..Service::default() },
            meets: vec![0.0; s.rivals.len()],
            rivals_follow: vec![0.0; s.rivals.len()],
            members_follow: vec![0.0; s.members.len()],
            strays_follow: vec![0.0; s.strays.iter().map(|s| s.own.len()).sum()],
            ..Link::default()
        };
        Fixed {
            links: self.links.iter().zip(&self.sights).map(link).collect(),
            streams: vec![Load::default(); self.streams.len()],
            with: vec![0.0; users],
            bare: vec![0.0; users],
            begun: vec![0.0; users],
            factor: vec![0.0; users],
        }
    }

    /// One round, with shares of time to `fine`; returns the largest change of a probability.
    fn round(&mut self, f: &mut Fixed, fine: f64, pace: Pace) -> Option<f64> {
        let part = pace.part;
        // After each exchange bystanders wait DIFS and lose the slot that was under way.
        let tail = self.spans.difs;
        f.with.fill(0.0);
        f.bare.fill(0.0);
        f.begun.fill(0.0);
        for (link, &u) in f.links.iter().zip(&self.user) {
            // With RTS the medium is taken once the CTS is sent; without, by every attempt.
            let exchanges = link.arrivals * link.service.data;
            f.with[u as usize] += exchanges * (link.times.exchange + tail);
            f.bare[u as usize] += exchanges * link.times.exchange;
            f.begun[u as usize] += exchanges;
        }
        if !self.joint.fit(&f.with, fine) {
            return None;
        }
        self.joint.look();
        for h in 0..f.links.len() {
            let (open, clear) = self.silence(h, f);
            f.links[h].open = open;
            f.links[h].clear = clear;
        }
        for h in 0..f.links.len() {
            let link = &f.links[h];
            let (s, beside) = (&link.service, (link.open - link.clear).max(0.0));
            let (free, vain) = (s.attempts - s.hidden, s.hidden);
            let per =
                |n: f64, share: f64| if share > 1e-9 { link.arrivals * n / share } else { 0.0 };
            f.links[h].pace = (per(free, link.clear), per(vain, beside));
        }
        let mut moved = 0.0f64;
        if pace.combined {
            self.hasten.give(&f.links);
        }
        for h in 0..f.links.len() {
            let idle = self.idle(h, f, tail)?;
            let odds = self.odds(h, f);
            let o = &mut f.links[h].odds;
            moved =
                moved.max(mix(&mut o.idle, idle, part)).max(mix(&mut o.hidden, odds.hidden, part));
            moved =
                moved.max(mix(&mut o.met, odds.met, part)).max(mix(&mut o.onset, odds.onset, part));
            moved = moved.max(mix(&mut o.struck, odds.struck, part));
            let beside = self.beside(h, f);
            let o = &mut f.links[h].odds;
            *o = Odds {
                hidden: o.hidden,
                met: o.met,
                onset: o.onset,
                struck: o.struck,
                idle: o.idle,
                idle_beside: beside.max(o.idle),
                faded: o.faded,
                ..odds
            };
        }
        if pace.combined {
            self.hasten.take(&mut f.links);
        }
        for link in &mut f.links {
            let s = service(&self.phy, self.access, self.settings.retries, &link.odds);
            moved = moved.max((s.dropped - link.service.dropped).abs());
            link.service = s;
        }
        self.send(f);
        for h in 0..f.links.len() {
            let (used, load) = self.busy(h, f);
            f.links[h].used = used;
            moved = moved.max(mix(&mut f.links[h].load, load, part));
            // Nothing arrives while it sends itself.
            let siblings = self.sights[h].siblings.iter();
            let sends: f64 = siblings.map(|&o| f.links[o].arrivals * f.links[o].sending).sum();
            let load = f.links[h].load;
            f.links[h].found = ((load - sends) / (1.0 - sends).max(1e-3)).clamp(0.0, load);
        }
        Some(moved)
    }

    /// The share of time in which a link's sender hears nothing of others, and that in which its
    /// receiver does not either.
    fn silence(&self, h: usize, f: &Fixed) -> (f64, f64) {
        let sight = &self.sights[h];
        let sifs = self.spans.sifs;
        let (mut open, mut clear) = (self.joint.off(sight.idle), self.joint.off(sight.clear));
        for u in &sight.unheard {
            let link = &f.links[u.link];
            let near = self.joint.off(u.near).max(1e-9);
            let rts = link.arrivals * link.service.data * (link.times.rts + sifs) / near;
            if u.seen {
                open += rts * self.joint.off(u.open);
            }
            clear += rts * self.joint.off(u.clear);
        }
        (open, clear)
    }

    /// The share of time in which a link's sender finds the medium idle, of that in which it does
    /// not send.
    fn idle(&self, h: usize, f: &Fixed, tail: f64) -> Option<f64> {
        let sight = &self.sights[h];
        let (mut sends, mut counted) = (0.0, 0.0);
        for &o in &sight.siblings {
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
        let refusals: f64 = sight
            .heard
            .iter()
            .map(|r| self.vain(r, f) * (f.links[r.link].times.refused_seen + tail))
            .sum();
        Some(still * libm::exp(-refusals / still) / rest)
    }

    /// The same while an exchange hidden from it is on.
    fn beside(&self, h: usize, f: &Fixed) -> f64 {
        let sight = &self.sights[h];
        let on = 1.0 - self.joint.off(sight.unhidden);
        if on > 1e-9 { (f.links[h].open - f.links[h].clear) / on } else { 1.0 }
    }

    /// Σ λ E\[S\] of a link's sender, which charges every frame a backoff, and the share of time in
    /// which its queue is not empty: a frame that finds it
    /// empty, and the medium idle, goes out without a backoff. Of what has just arrived over the
    /// air the latter is true.
    fn busy(&self, h: usize, f: &Fixed) -> (f64, f64) {
        let (mut all, mut spared) = (0.0, 0.0);
        for &o in &self.sights[h].siblings {
            let link = &f.links[o];
            all += link.arrivals * self.service_time(o, f);
            for &(s, _) in &self.sights[o].streams {
                let idle = if self.streams[s].after.is_some() { 1.0 } else { link.odds.idle };
                spared += f.streams[s].frames * link.service.first * idle;
            }
        }
        let load = if all < 1.0 { ((all - spared) / (1.0 - spared)).max(0.0) } else { 1.0 };
        (all, load)
    }

    /// E\[S\] of a link, s.
    pub(super) fn service_time(&self, h: usize, f: &Fixed) -> f64 {
        f.links[h].sending + f.links[h].service.backoff
    }

    /// Seconds of sending per packet, the DIFS after each attempt included.
    fn send(&self, f: &mut Fixed) {
        for link in &mut f.links {
            let (s, times) = (&link.service, &link.times);
            let done = 1.0 - s.dropped;
            let exchange = done * (times.exchange + self.spans.difs);
            link.sending = exchange
                + match self.access {
                    Access::RtsCts => {
                        (s.data - done) * times.lost + (s.attempts - s.data) * times.refused
                    }
                    Access::Basic => (s.attempts - done) * times.lost,
                };
        }
    }

    pub(super) fn report(&self, f: &Fixed) -> State {
        let mut nodes: Vec<NodeState> = Vec::new();
        let mut links = Vec::new();
        for (h, link) in f.links.iter().enumerate() {
            let s = &link.service;
            let service = self.service_time(h, f);
            links.push(LinkState {
                arrivals: link.arrivals,
                refused: (s.hidden + s.met) / s.attempts.max(1e-9),
                lost: 1.0 - (1.0 - link.odds.struck) * (1.0 - link.odds.faded),
                attempts: s.attempts,
                service,
                dropped: s.dropped,
            });
            let (node, busy) = (self.links[h].from, link.arrivals * service);
            match nodes.iter_mut().find(|v| v.node == node) {
                Some(v) => v.utilisation += busy,
                None => nodes.push(NodeState { node, idle: link.odds.idle, utilisation: busy }),
            }
        }
        nodes.sort_by_key(|v| v.node);
        State { links, nodes, loss: Vec::new() }
    }
}
