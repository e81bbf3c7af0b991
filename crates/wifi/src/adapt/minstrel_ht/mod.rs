//! Minstrel-HT: the rate with the most expected throughput, known from what was sent and from samples.
//!
//! Rules of Linux's mac80211 (net/mac80211/rc80211_minstrel_ht.c since 5.12, and the kernel's wiki page
//! "minstrel"), written anew; what is simplified stands in docs/models/rate-adaptation.md.

use fairmesh_units::{Span, Stream, Time};

use super::Attempt;
use crate::phy::{Modulation, Phy, Rate};
use crate::waveform::Waveform;

/// Statistics are renewed this often.
const UPDATE: Span = Span::from_millis(50);
/// At most one sample in this time.
const SAMPLE: Span = Span::from_millis(20);
/// Samples of each kind that wait.
const WAITING: usize = 5;
/// The frame whose duration rates are compared by, bits.
const PACKET_BITS: u64 = 1200 * 8;
/// One attempt's medium time beside the MPDUs, µs: an empty OFDM frame and an acknowledgement at 6 Mbit/s.
const OVERHEAD: f64 = 48.0 + 60.0;
/// Longest series of attempts at one rate, µs, and most attempts in it.
const SEGMENT: f64 = 6000.0;
const MOST_TRIES: u32 = 7;
/// Weight of an interval's mean length of frames.
const LENGTH_WEIGHT: f64 = 0.25;
/// A probability counts as no more than this: collisions come and go.
const SURE: f64 = 0.9;
/// Slot in µs, and contention windows, of the estimate how many attempts fit a series.
const SLOT: f64 = 9.0;
const CW_MIN: u32 = 15;
const CW_MAX: u32 = 1023;

/// What the kinds of sample are taken in turn.
const TURNS: [Kind; 6] = [Kind::Next, Kind::Jump, Kind::Next, Kind::Jump, Kind::Next, Kind::Slow];

/// Why a rate is sampled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// The next faster one of its group.
    Next,
    /// Any faster one.
    Jump,
    /// One between those in use.
    Slow,
}

/// What is known of a rate.
#[derive(Clone, Debug)]
struct Known {
    rate: Rate,
    /// Spatial streams: rates are grouped by them.
    streams: u8,
    /// Payload time of [`PACKET_BITS`], µs.
    duration: f64,
    attempts: u32,
    successes: u32,
    /// Whether it was ever tried.
    tried: bool,
    /// Smoothed probability of success, and its value one interval before.
    probability: f64,
    before: f64,
}

/// Rate choice by expected throughput.
#[derive(Clone, Debug)]
pub struct MinstrelHt {
    /// By streams, then speed.
    known: Vec<Known>,
    /// The best by throughput, best first, and the most certain one.
    fastest: [usize; 4],
    surest: usize,
    /// Mean MPDUs per frame, and frames and MPDUs of this interval.
    length: f64,
    frames: u32,
    mpdus: u32,
    updated: Time,
    sample_at: Time,
    turn: usize,
    waiting: [Vec<usize>; 3],
    /// The group after which the next sample of a kind is looked for.
    group: [u8; 3],
    /// The rate that this frame began with, where it is a sample, and attempts without an answer.
    sampling: Option<usize>,
    unanswered: u32,
}

/// The period of the low-pass filter, intervals.
const PERIOD: f64 = 16.0;

impl MinstrelHt {
    /// Over all MCS of `phy`; there must be one.
    pub fn new(phy: &Phy) -> Self {
        let of = |rate| match (phy.info(rate).modulation, phy.info(rate).waveform) {
            (Modulation::Mcs(mode), Waveform::Mcs { bits_per_symbol, symbol_ns, .. }) => {
                let symbols = PACKET_BITS.div_ceil(u64::from(bits_per_symbol));
                Some(Known {
                    rate,
                    streams: mode.streams(),
                    duration: (symbols * u64::from(symbol_ns)) as f64 / 1000.0,
                    attempts: 0,
                    successes: 0,
                    tried: false,
                    probability: 0.0,
                    before: 0.0,
                })
            }
            _ => None,
        };
        let mut known: Vec<Known> = phy.rates().filter_map(of).collect();
        known.sort_by(|a, b| {
            a.streams
                .cmp(&b.streams)
                .then(b.duration.total_cmp(&a.duration))
                .then(a.rate.cmp(&b.rate))
        });
        let mut m = MinstrelHt {
            known,
            fastest: [0; 4],
            surest: 0,
            length: 1.0,
            frames: 0,
            mpdus: 0,
            updated: Time::ZERO,
            sample_at: Time::ZERO,
            turn: 0,
            waiting: [vec![], vec![], vec![]],
            group: [0; 3],
            sampling: None,
            unanswered: 0,
        };
        m.choose();
        m
    }

    /// The rate of the next attempt. A frame begins with the fastest rate or a sample, goes on with the
    /// second fastest, and ends with the surest.
    pub fn rate_for(&mut self, now: Time, rng: &mut Stream) -> Rate {
        if self.known.is_empty() {
            return Rate(0);
        }
        if self.unanswered == 0 {
            if now >= self.updated + UPDATE {
                self.update(now, rng);
            }
            self.sampling = self.sample(now);
        }
        let first = match self.sampling {
            Some(sample) => (sample, 1),
            None => (self.fastest[0], self.tries(self.fastest[0])),
        };
        let second = (self.fastest[1], self.tries(self.fastest[1]));
        let mut left = self.unanswered;
        for (at, tries) in [first, second] {
            if left < tries {
                return self.known[at].rate;
            }
            left -= tries;
        }
        self.known[self.surest].rate
    }

    /// How an attempt ended.
    pub fn on_result(&mut self, attempt: &Attempt) {
        let Some(k) = self.known.iter_mut().find(|k| k.rate == attempt.rate) else { return };
        k.attempts += attempt.mpdus;
        k.successes += attempt.acked;
        self.unanswered += 1;
        if attempt.ok || attempt.last {
            self.unanswered = 0;
            self.sampling = None;
            self.frames += 1;
            self.mpdus += attempt.mpdus;
        }
        for place in 0..2 {
            let at = self.fastest[place];
            let k = &self.known[at];
            // Spatial multiplexing may die at once.
            if k.attempts > 30 && 4 * k.successes < k.attempts {
                self.fastest[place] = self.downgraded(at);
            }
        }
    }

    /// The best rate of the next group with fewer streams.
    fn downgraded(&self, at: usize) -> usize {
        let streams = self.known[at].streams;
        let below = self.known.iter().rposition(|k| k.streams < streams);
        let Some(last) = below else { return at };
        let group = self.known[last].streams;
        let of_group = (0..self.known.len()).filter(|&i| self.known[i].streams == group);
        of_group.fold(last, |best, i| if self.better(i, best) { i } else { best })
    }

    fn update(&mut self, now: Time, rng: &mut Stream) {
        if self.frames > 0 {
            let mean = f64::from(self.mpdus) / f64::from(self.frames);
            self.length += LENGTH_WEIGHT * (mean - self.length);
            (self.frames, self.mpdus) = (0, 0);
        }
        for k in &mut self.known {
            k.settle();
        }
        // Slower rates that nobody has tried do as well as the faster ones of their group.
        let (mut group, mut best) = (0, 0.0f64);
        for k in self.known.iter_mut().rev() {
            if k.streams != group {
                (group, best) = (k.streams, 0.0);
            }
            if k.tried {
                best = best.max(k.probability);
            } else {
                k.probability = best.max(k.probability);
            }
        }
        self.choose();
        self.refill(rng);
        (self.updated, self.sample_at) = (now, now);
    }

    /// Expected throughput; none where hardly anything arrives.
    fn throughput(&self, at: usize) -> f64 {
        let k = &self.known[at];
        if k.probability < 0.1 {
            return 0.0;
        }
        k.probability.min(SURE) / (OVERHEAD / self.length + k.duration)
    }

    fn better(&self, a: usize, b: usize) -> bool {
        let (ta, tb) = (self.throughput(a), self.throughput(b));
        ta > tb || (ta == tb && self.known[a].probability > self.known[b].probability)
    }

    /// Which rates are used from now on.
    fn choose(&mut self) {
        if self.known.is_empty() {
            return;
        }
        // As Linux: where nothing is known, the slowest of the first group.
        let mut fastest = [0; 4];
        for at in (0..self.known.len()).rev().filter(|&at| self.throughput(at) > 0.0) {
            let place = (0..4).find(|&p| self.better(at, fastest[p]));
            if let Some(place) = place {
                fastest[place..].rotate_right(1);
                fastest[place] = at;
            }
        }
        self.fastest = fastest;
        let top = &self.known[fastest[0]];
        let (mut surest, mut per_group) = (0, Vec::new());
        for at in 0..self.known.len() {
            let k = &self.known[at];
            if top.duration > k.duration && k.probability < top.probability {
                continue;
            }
            surest = self.surer(at, surest);
            match per_group.iter_mut().find(|(streams, _)| *streams == k.streams) {
                Some((_, best)) => *best = self.surer(at, *best),
                None => per_group.push((k.streams, at)),
            }
        }
        // Fewer streams than the fastest rate's are more robust.
        let fewer =
            per_group.iter().filter(|(streams, _)| *streams < top.streams).map(|&(_, at)| at);
        let mut most = 0.0;
        for at in fewer {
            if self.throughput(at) > most {
                (most, surest) = (self.throughput(at), at);
            }
        }
        self.surest = surest;
    }

    /// Of two rates: above three quarters the faster, else the more certain.
    fn surer(&self, a: usize, b: usize) -> usize {
        let k = &self.known[a];
        let better = if k.probability > 0.75 {
            self.throughput(a) > self.throughput(b)
        } else {
            k.probability > self.known[b].probability
        };
        if better { a } else { b }
    }

    /// Attempts at a rate: two, and as many more as a series has time for.
    fn tries(&self, at: usize) -> u32 {
        let k = &self.known[at];
        if k.probability < 0.2 {
            return 2;
        }
        let one = OVERHEAD + k.duration * self.length;
        let mut cw = CW_MIN;
        let mut wait = || {
            let mean = SLOT * f64::from(cw) / 2.0;
            cw = (2 * cw + 1).min(CW_MAX);
            mean
        };
        let (mut tries, mut time) = (2, wait() + wait() + 2.0 * one);
        while tries < MOST_TRIES {
            time += wait() + one;
            if time >= SEGMENT {
                break;
            }
            tries += 1;
        }
        tries
    }

    /// The sample that is due, if one waits.
    fn sample(&mut self, now: Time) -> Option<usize> {
        if now < self.sample_at {
            return None;
        }
        self.sample_at = now + SAMPLE;
        let kind = TURNS[self.turn];
        self.turn = (self.turn + 1) % TURNS.len();
        let list = &mut self.waiting[kind as usize];
        if list.is_empty() { None } else { Some(list.remove(0)) }
    }

    /// Looks for rates worth a sample.
    fn refill(&mut self, rng: &mut Stream) {
        let duration = |at: usize| self.known[at].duration;
        let used = [self.fastest[0], self.fastest[1], self.surest].map(duration);
        let fast = used[0].min(used[1]).min(used[2]);
        let slow = used[0].max(used[1]).max(used[2]);
        let known = &self.known;
        for (kind, list) in self.waiting.iter_mut().enumerate() {
            list.retain(|&at| match kind {
                k if k == Kind::Slow as usize => {
                    known[at].duration > fast && known[at].duration < slow
                }
                _ => known[at].duration < fast,
            });
        }
        let groups = self.groups();
        for _ in 0..groups.len() {
            let streams = self.next_group(Kind::Next, &groups);
            let next = (0..self.known.len())
                .find(|&i| self.known[i].streams == streams && self.known[i].duration < used[0]);
            let list = &mut self.waiting[Kind::Next as usize];
            if let Some(at) = next
                && list.len() < WAITING
                && !list.contains(&at)
            {
                list.push(at);
            }
        }
        for _ in 0..WAITING * groups.len() {
            if self.waiting[Kind::Jump as usize].len() >= WAITING {
                break;
            }
            let streams = self.next_group(Kind::Jump, &groups);
            let few: Vec<usize> = (0..self.known.len())
                .filter(|&i| self.known[i].streams == streams && self.known[i].duration < slow)
                .collect();
            if few.is_empty() {
                continue;
            }
            let at = few[rng.below(few.len() as u32) as usize];
            let kind = if self.known[at].duration < fast { Kind::Jump } else { Kind::Slow };
            let certain = kind == Kind::Slow && self.known[at].probability > 0.95;
            let list = &mut self.waiting[kind as usize];
            if !certain && list.len() < WAITING && !list.contains(&at) {
                list.push(at);
            }
        }
    }

    fn groups(&self) -> Vec<u8> {
        let mut groups: Vec<u8> = self.known.iter().map(|k| k.streams).collect();
        groups.dedup();
        groups
    }

    /// Groups take turns.
    fn next_group(&mut self, kind: Kind, groups: &[u8]) -> u8 {
        let turn = &mut self.group[kind as usize];
        *turn = (*turn + 1) % groups.len() as u8;
        groups[usize::from(*turn)]
    }
}

impl Known {
    /// An interval is over: its share of successes goes through a low-pass filter of second order.
    fn settle(&mut self) {
        if self.attempts == 0 {
            return;
        }
        let now = f64::from(self.successes) / f64::from(self.attempts);
        if self.tried {
            let a = libm::exp(-core::f64::consts::PI * core::f64::consts::SQRT_2 / PERIOD);
            let turn = core::f64::consts::SQRT_2 * 2.0 * core::f64::consts::PI / PERIOD;
            let (c2, c3) = (2.0 * a * libm::cos(turn), -a * a);
            let filtered = (1.0 - c2 - c3) * now + c2 * self.probability + c3 * self.before;
            self.before = self.probability;
            self.probability = filtered.clamp(0.0, 1.0);
        } else {
            (self.probability, self.before) = (now, now);
        }
        self.tried = true;
        (self.attempts, self.successes) = (0, 0);
    }
}

#[cfg(test)]
mod tests;
