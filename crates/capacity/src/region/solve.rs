//! The fixed point: rates → how long exchanges take → who finds whom busy → how long exchanges take.

use fairmesh_units::{NodeId, Span};

use super::chain::{Odds, Service, service};
use super::{LinkRegion, Load};
use crate::link::Access;

/// A link under some rates.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LinkState {
    /// Frames that arrive at its queue, 1/s.
    pub arrivals: f64,
    /// Probability that an attempt gets no CTS, or without RTS/CTS collides.
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
const SETTLED: f64 = 1e-7;

/// Durations at one hop, s.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    /// Mean data frame.
    data: f64,
    rts: f64,
    ack: f64,
    /// The exchange from the first bit to the last.
    exchange: f64,
    /// What a refused attempt costs its sender, DIFS included.
    refused: f64,
    /// What a lost data frame costs its sender, DIFS included.
    lost: f64,
    /// How long a refused attempt keeps those who heard it from counting.
    refused_seen: f64,
}

struct Fixed {
    refused: Vec<f64>,
    hidden: Vec<f64>,
    lost: Vec<f64>,
    service: Vec<Service>,
    times: Vec<Times>,
    arrivals: Vec<f64>,
    /// By hop, mean length of what its receiver hears and its sender does not.
    span: Vec<f64>,
    /// By hop, the idle share of its sender.
    idle: Vec<f64>,
    /// By hop, exchanges per idle second that its sender hears.
    heard: Vec<f64>,
    /// By hop, the utilisation of its sender.
    load: Vec<f64>,
    /// By stream.
    streams: Vec<Load>,
}

fn secs(s: Span) -> f64 {
    s.as_secs_f64()
}

impl LinkRegion {
    /// The fixed point. `loads` writes what every stream carries, given what each link gives up.
    pub(super) fn solve(
        &mut self,
        loads: &mut dyn FnMut(&dyn Fn(usize) -> f64, &mut [Load]),
    ) -> Option<State> {
        let n = self.links.len();
        let mut f = Fixed {
            refused: vec![0.0; n],
            hidden: vec![0.0; n],
            lost: self.links.iter().map(|h| 1.0 - h.delivery).collect(),
            service: vec![Service { attempts: 1.0, data: 1.0, ..Service::default() }; n],
            times: vec![Times::default(); n],
            arrivals: vec![0.0; n],
            span: vec![1e-3; n],
            idle: vec![1.0; n],
            heard: vec![0.0; n],
            load: vec![0.0; n],
            streams: vec![Load::default(); self.streams.len()],
        };
        for _ in 0..ROUNDS {
            let service = &f.service;
            loads(&|h| service[h].dropped, &mut f.streams);
            self.arrive(&mut f);
            let moved = self.round(&mut f)?;
            if moved < SETTLED {
                return Some(self.report(&f));
            }
        }
        // It swings only where attempts pile up without end.
        None
    }

    /// Frames per link and their mean durations.
    fn arrive(&self, f: &mut Fixed) {
        let n = self.links.len();
        let mut data = vec![0.0; n];
        f.arrivals.fill(0.0);
        for (s, load) in self.streams.iter().zip(&f.streams) {
            f.arrivals[s.link] += load.frames;
            let airtime = self.phy.airtime(self.links[s.link].rate, load.psdu);
            data[s.link] += load.frames * secs(airtime);
        }
        let t = self.phy.timing();
        let (sifs, difs) = (secs(t.sifs), secs(t.difs));
        for (h, times) in f.times.iter_mut().enumerate() {
            let rate = self.links[h].rate;
            let r = self.phy.response(rate);
            let d = if f.arrivals[h] > 0.0 { data[h] / f.arrivals[h] } else { 0.0 };
            let (rts, cts, ack) = (secs(r.rts), secs(r.cts), secs(r.ack));
            let answered = d + sifs + ack;
            *times = match self.access {
                Access::RtsCts => Times {
                    data: d,
                    rts,
                    ack,
                    exchange: rts + cts + 2.0 * sifs + answered,
                    refused: rts + secs(r.cts_timeout) + difs,
                    lost: rts + cts + 2.0 * sifs + d + secs(r.ack_timeout) + difs,
                    refused_seen: rts + secs(self.phy.nav_reset(r.rate)),
                },
                Access::Basic => Times {
                    data: d,
                    rts: 0.0,
                    ack,
                    exchange: answered,
                    refused: d + secs(r.ack_timeout) + difs,
                    lost: d + secs(r.ack_timeout) + difs,
                    refused_seen: answered,
                },
            };
        }
    }

    /// One round; returns the largest change of a probability.
    fn round(&mut self, f: &mut Fixed) -> Option<f64> {
        let t = *self.phy.timing();
        let (slot, difs, sifs) = (secs(t.slot), secs(t.difs), secs(t.sifs));
        let n = self.links.len();
        // After each exchange bystanders wait DIFS and lose the slot that was under way.
        let tail = difs;
        let users = self.user.iter().max().map_or(0, |&u| u as usize + 1);
        // By user: share of the time with and without what follows an exchange; by hop: the
        // sender's own.
        let (mut with, mut bare) = (vec![0.0; users], vec![0.0; users]);
        let mut begun = vec![0.0; users];
        for h in 0..n {
            let (s, times, u) = (&f.service[h], &f.times[h], self.user[h] as usize);
            // With RTS the medium is taken once the CTS is sent; without, by every attempt.
            with[u] += f.arrivals[h] * s.data * (times.exchange + tail);
            bare[u] += f.arrivals[h] * s.data * times.exchange;
            begun[u] += f.arrivals[h] * s.data;
        }
        let mut own = vec![0.0; n];
        for (h, own) in own.iter_mut().enumerate() {
            *own = f.arrivals[h] * self.sending(&f.service[h], &f.times[h], difs);
        }
        if !self.joint.fit(&with) {
            return None;
        }
        let view_idle: Vec<f64> = self.view.iter().map(|&v| self.joint.idle(v)).collect();
        for h in 0..n {
            // Busy by others, of the time in which the node does not send.
            let from = self.links[h].from;
            let mine = (0..n).filter(|&o| self.links[o].from == from);
            let (mut sends, mut counted) = (0.0, 0.0);
            for o in mine {
                sends += own[o];
                counted += f.arrivals[o] * f.service[o].data * (f.times[o].exchange + tail);
            }
            let refusals: f64 = (0..n)
                .filter(|&o| self.links[o].from != from)
                .filter(|&o| self.contention.hears(from, self.links[o].from))
                .map(|o| {
                    self.vain(o, f, self.view[h], &view_idle) * (f.times[o].refused_seen + tail)
                })
                .sum();
            let seen = (0..users).filter(|u| self.view[h] >> u & 1 == 1);
            f.heard[h] = seen.map(|u| begun[u]).sum::<f64>() / view_idle[h];
            let others = (1.0 - view_idle[h] - counted).max(0.0) + refusals;
            f.idle[h] = 1.0 - others / (1.0 - sends).max(1e-3);
            if f.idle[h] <= 1e-3 {
                return None;
            }
        }
        let mut moved = 0.0f64;
        for h in 0..n {
            let (refused, hidden, lost) =
                self.odds(h, f, &view_idle, &with, &bare, (slot, sifs, difs));
            let mix = |old: f64, new: f64| 0.5 * (old + new);
            moved = moved.max((refused - f.refused[h]).abs()).max((lost - f.lost[h]).abs());
            f.refused[h] = mix(f.refused[h], refused);
            f.hidden[h] = mix(f.hidden[h], hidden);
            f.lost[h] = mix(f.lost[h], lost);
        }
        for h in 0..n {
            let odds = Odds {
                refused: f.refused[h],
                hidden: f.hidden[h],
                span: f.span[h],
                resets: f.heard[h],
                waiting: f.load[h].min(1.0),
                relayed: self.relayed(h, f, &view_idle),
                caused: self.caused(h, f),
                lost: f.lost[h],
            };
            let (idle, after) = (f.idle[h], f.times[h].refused - f.times[h].rts);
            let gap = |backoff: f64| after + backoff / idle;
            let s = service(&self.phy, self.access, self.settings.retries, odds, gap);
            moved = moved.max((s.dropped - f.service[h].dropped).abs());
            f.service[h] = s;
        }
        for h in 0..n {
            let from = self.links[h].from;
            let mine = (0..n).filter(|&o| self.links[o].from == from);
            let load: f64 = mine.map(|o| f.arrivals[o] * self.service_time(o, f, difs)).sum();
            moved = moved.max((load.min(1.0) - f.load[h]).abs());
            f.load[h] = 0.5 * (f.load[h] + load.min(1.0));
        }
        Some(moved)
    }

    /// Attempts per second on a hop that are refused because of exchanges hidden from its sender,
    /// and come while all of `quiet` is off: they keep those who hear them from counting, where
    /// nothing else does. What is refused because frames met is not understood by anybody.
    fn vain(&self, o: usize, f: &Fixed, quiet: u128, view_idle: &[f64]) -> f64 {
        let s = &f.service[o];
        let rate = f.arrivals[o] * (s.attempts - s.data);
        if rate <= 0.0 {
            return 0.0;
        }
        let (view, hidden) = (self.view[o], self.hidden[o]);
        // Refused because of hidden exchanges, or of frames that began at the same time.
        let busy = view_idle[o] - self.joint.idle(view | hidden);
        let free = self.joint.idle(view | quiet) - self.joint.idle(view | quiet | hidden);
        let by_hidden = if busy > 1e-12 { free / busy } else { 1.0 };
        let share = if f.refused[o] > 0.0 { f.hidden[o] / f.refused[o] } else { 0.0 };
        rate * share * by_hidden
    }

    /// E\[S\] of a hop, s.
    fn service_time(&self, h: usize, f: &Fixed, difs: f64) -> f64 {
        self.sending(&f.service[h], &f.times[h], difs) + f.service[h].backoff / f.idle[h]
    }

    /// Seconds of sending per packet, the DIFS after each attempt included.
    fn sending(&self, s: &Service, times: &Times, difs: f64) -> f64 {
        let done = 1.0 - s.dropped;
        match self.access {
            Access::RtsCts => {
                done * (times.exchange + difs)
                    + (s.data - done) * times.lost
                    + (s.attempts - s.data) * times.refused
            }
            Access::Basic => done * (times.exchange + difs) + (s.attempts - done) * times.lost,
        }
    }

    /// The share of a hop's attempts that follow at once on the arrival of what causes them, over a
    /// user of the air that is among `known`.
    fn at_once(&self, o: usize, f: &Fixed, known: u128) -> f64 {
        let (mut relayed, mut all) = (0.0, 0.0);
        for (s, load) in self.streams.iter().zip(&f.streams).filter(|s| s.0.link == o) {
            all += load.frames;
            let cause = s.after.map(|a| self.user[self.streams[a].link]);
            if cause.is_some_and(|u| known >> u & 1 == 1) {
                relayed += load.frames;
            }
        }
        if all <= 0.0 {
            return 0.0;
        }
        relayed / all * (1.0 - f.load[o]) / f.service[o].attempts
    }

    /// The share of a hop's frames that are passed on at once after an exchange that kept the
    /// hidden ones silent too.
    fn relayed(&self, h: usize, f: &Fixed, view_idle: &[f64]) -> f64 {
        let (view, hidden) = (self.view[h], self.hidden[h]);
        let on = view_idle[h] - self.joint.idle(view | hidden);
        let (mut kept, mut all) = (0.0, 0.0);
        for (s, load) in self.streams.iter().zip(&f.streams).filter(|s| s.0.link == h) {
            all += load.frames;
            if let Some(a) = s.after {
                let cause = self.user[self.streams[a].link] as usize;
                let silent = hidden & self.joint.near(cause);
                let covered = view_idle[h] - self.joint.idle(view | silent);
                kept += if on > 1e-12 { load.frames * covered / on } else { 0.0 };
            }
        }
        if all > 0.0 { kept / all * (1.0 - f.load[h]) } else { 0.0 }
    }

    /// Of what is hidden from a hop's sender, the share due to frames that passed this hop before.
    fn caused(&self, h: usize, f: &Fixed) -> f64 {
        let hidden = self.hidden[h];
        let (mut own, mut all) = (0.0, 0.0);
        for (i, (s, load)) in self.streams.iter().zip(&f.streams).enumerate() {
            if hidden >> self.user[s.link] & 1 == 1 {
                let time = load.frames * f.times[s.link].exchange;
                all += time;
                if self.passed(i, h) {
                    own += time;
                }
            }
        }
        if all > 0.0 { own / all } else { 0.0 }
    }

    /// Whether a stream's frames crossed a link before.
    fn passed(&self, stream: usize, link: usize) -> bool {
        let mut at = self.streams[stream].after;
        while let Some(s) = at {
            if self.streams[s].link == link {
                return true;
            }
            at = self.streams[s].after;
        }
        false
    }

    /// Probabilities of a refused attempt, of the part that is due to hidden exchanges, and of a
    /// lost data frame.
    #[allow(clippy::too_many_arguments)]
    fn odds(
        &self,
        h: usize,
        f: &mut Fixed,
        view_idle: &[f64],
        with: &[f64],
        bare: &[f64],
        (slot, sifs, difs): (f64, f64, f64),
    ) -> (f64, f64, f64) {
        let (view, hidden) = (self.view[h], self.hidden[h]);
        let clear = self.joint.idle(view | hidden);
        // P(hidden | the sender finds the medium idle), less the pauses that follow exchanges.
        let (mut sum_with, mut sum_bare, mut starts) = (0.0, 0.0, 0.0);
        let mut rest = hidden;
        while rest != 0 {
            let u = rest.trailing_zeros() as usize;
            sum_with += with[u];
            sum_bare += bare[u];
            // Frames passed on at once prolong what is on instead of beginning anew, and so does
            // whatever begins while something else is on.
            let alone = clear / self.joint.idle(view | self.joint.near(u));
            let members = (0..self.links.len()).filter(|&o| self.user[o] as usize == u);
            starts += members
                .map(|o| {
                    let s = &f.service[o];
                    f.arrivals[o] * s.data * (1.0 - self.at_once(o, f, hidden) * s.attempts)
                })
                .sum::<f64>()
                * alone;
            rest &= rest - 1;
        }
        let share = if sum_with > 0.0 { sum_bare / sum_with } else { 0.0 };
        let on = (1.0 - clear / view_idle[h]).max(0.0) * share;
        // Refused attempts of others hold the receiver too.
        let to = self.links[h].to;
        let from = self.links[h].from;
        let vain: f64 = (0..self.links.len())
            .filter(|&o| o != h && self.links[o].from != to)
            .filter(|&o| {
                let sender = self.links[o].from;
                self.contention.hears(to, sender) && !self.contention.hears(from, sender)
            })
            .map(|o| self.vain(o, f, view | hidden, view_idle) * f.times[o].refused_seen)
            .sum();
        let on = (on + (vain / view_idle[h]).min(1.0 - on)).min(0.999);
        f.span[h] =
            if starts > 0.0 { (view_idle[h] - clear).max(0.0) * share / starts } else { 1e-3 };
        // Expected beginnings of others' frames that spoil this one.
        let (mut spoils, mut late) = (0.0, 0.0);
        let times = f.times[h];
        let opening = if self.access == Access::RtsCts { times.rts } else { times.data };
        for &(o, trouble) in &self.troubles[h] {
            let o = o as usize;
            let attempts = f.arrivals[o] * f.service[o].attempts;
            if attempts <= 0.0 {
                continue;
            }
            // Attempts fall into the idle time of their own sender.
            let together = self.joint.idle(view | hidden | self.view[o]) / clear;
            let pace = attempts / view_idle[o] * together;
            if trouble.same_slot {
                spoils += pace * slot;
            }
            let mut window = 0.0;
            if trouble.overtakes {
                window += opening;
            }
            if trouble.overtaken {
                window += f.times[o].rts;
            }
            // A relay that was idle passes a frame on a DIFS after its arrival. Where that arrival
            // keeps this link off the air too, the two can meet in that pause only.
            let at_once = self.at_once(o, f, view | hidden);
            spoils += pace * (at_once * window.min(difs) + (1.0 - at_once) * window);
            if trouble.misses_cts {
                late += pace * (1.0 - at_once) * (sifs + slot);
            }
            if trouble.acks {
                late += f.arrivals[o] * (times.data + f.times[o].ack);
            }
        }
        let refused = 1.0 - (1.0 - on) * libm::exp(-spoils);
        let lost = 1.0 - self.links[h].delivery * libm::exp(-late);
        (refused, on, lost)
    }

    fn report(&self, f: &Fixed) -> State {
        let difs = secs(self.phy.timing().difs);
        let links: Vec<LinkState> = (0..self.links.len())
            .map(|h| {
                let s = &f.service[h];
                LinkState {
                    arrivals: f.arrivals[h],
                    refused: f.refused[h],
                    lost: f.lost[h],
                    attempts: s.attempts,
                    service: self.service_time(h, f, difs),
                    dropped: s.dropped,
                }
            })
            .collect();
        let mut nodes: Vec<NodeState> = Vec::new();
        for (h, link) in links.iter().enumerate() {
            let node = self.links[h].from;
            let busy = link.arrivals * link.service;
            match nodes.iter_mut().find(|v| v.node == node) {
                Some(v) => v.utilisation += busy,
                None => nodes.push(NodeState { node, idle: f.idle[h], utilisation: busy }),
            }
        }
        nodes.sort_by_key(|v| v.node);
        State { links, nodes, loss: Vec::new() }
    }
}
