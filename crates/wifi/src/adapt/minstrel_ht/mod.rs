//! Minstrel-HT: the rate with the most expected throughput, known from what was sent and from samples.
//!
//! Rules of Linux's mac80211 (net/mac80211/rc80211_minstrel_ht.c of 6.1 and 6.12, the same in both), written
//! anew, in its integers: two rates that it takes for equal are equal here. Functions in comments are that
//! file's. What is simplified stands in docs/models/rate-adaptation.md.

mod samples;
mod statistics;

use core::ops::Range;

use fairmesh_units::{Span, Stream, Time};

use self::samples::Samples;
use self::statistics::{Known, LENGTH_WEIGHT, ONE, tries};
use super::Attempt;
use fairmesh_phy::{Phy, Rate};

/// Statistics are renewed this often (update_interval), by a clock of ticks of a few ms.
const UPDATE: Span = Span::from_millis(50);
/// At most one sample in this time (MINSTREL_SAMPLE_INTERVAL).
const SAMPLE: Span = Span::from_millis(20);
/// Best rates by throughput that are kept in order (MAX_THR_RATES).
const BEST: usize = 4;
/// Rates that a frame has for its attempts: as of drivers that take four (IEEE80211_TX_MAX_RATES).
const PLACES: usize = 4;

/// The rates of as many streams.
#[derive(Clone, Debug)]
struct Group {
    /// Their places in the list of all, slowest first.
    rates: Range<usize>,
    streams: u8,
    /// The two best by throughput.
    fastest: [usize; 2],
    /// The most certain one.
    surest: usize,
}

/// Rate choice by expected throughput.
#[derive(Clone, Debug)]
pub struct MinstrelHt {
    /// By streams, then speed.
    known: Vec<Known>,
    groups: Vec<Group>,
    /// The best by throughput, best first, and the most certain one.
    fastest: [usize; BEST],
    surest: usize,
    /// Attempts at the three fastest and at the surest.
    tries: [u32; PLACES],
    /// Mean MPDUs per frame in parts of [`ONE`], and frames and MPDUs of this interval.
    length: i32,
    frames: u32,
    mpdus: u32,
    started: bool,
    interval: Span,
    updated: Time,
    samples: Samples,
    /// The rate that this frame began with, where it is a sample, and attempts without an answer.
    sampling: Option<usize>,
    unanswered: u32,
}

impl MinstrelHt {
    /// Over all MCS of `phy`; there must be one.
    pub fn new(phy: &Phy) -> Self {
        MinstrelHt::with_interval(phy, UPDATE)
    }

    /// The same with another time between two looks at the statistics than 50 ms, as a kernel's clock has it: 52 ms where
    /// it ticks 250 times a second.
    pub fn with_interval(phy: &Phy, interval: Span) -> Self {
        let mut known: Vec<Known> = phy.rates().filter_map(|r| Known::of(phy, r)).collect();
        known.sort_by(|a, b| {
            (a.streams.cmp(&b.streams)).then(b.duration.cmp(&a.duration)).then(a.rate.cmp(&b.rate))
        });
        let mut groups: Vec<Group> = Vec::new();
        for (at, k) in known.iter().enumerate() {
            match groups.last_mut() {
                Some(g) if g.streams == k.streams => g.rates.end = at + 1,
                _ => groups.push(Group {
                    rates: at..at + 1,
                    streams: k.streams,
                    fastest: [at; 2],
                    surest: at,
                }),
            }
        }
        for g in &groups {
            statistics::round(&mut known[g.rates.clone()]);
        }
        let samples = Samples::new(groups.len());
        MinstrelHt {
            known,
            groups,
            fastest: [0; BEST],
            surest: 0,
            tries: [2; PLACES],
            length: ONE as i32,
            frames: 0,
            mpdus: 0,
            started: false,
            interval,
            updated: Time::ZERO,
            samples,
            sampling: None,
            unanswered: 0,
        }
    }

    /// The rate of the next attempt. A frame begins with the fastest rate or a sample, goes on with the
    /// second and third fastest, and ends with the surest (minstrel_ht_update_rates, minstrel_ht_get_rate).
    pub fn rate_for(&mut self, now: Time, rng: &mut Stream) -> Rate {
        if self.known.is_empty() {
            return Rate(0);
        }
        if self.unanswered == 0 {
            if now >= self.updated + self.interval || !self.started {
                self.update(now, rng);
            }
            self.sampling = self.samples.due(now);
        }
        let first = match self.sampling {
            Some(sample) => (sample, 1),
            None => (self.fastest[0], self.tries[0]),
        };
        let next = |place: usize| (self.fastest[place], self.tries[place]);
        let mut left = self.unanswered;
        for (at, tries) in [first, next(1), next(2)] {
            if left < tries {
                return self.known[at].rate;
            }
            left -= tries;
        }
        self.known[self.surest].rate
    }

    /// How an attempt ended (minstrel_ht_tx_status).
    pub fn on_result(&mut self, attempt: &Attempt) {
        let Some(k) = self.known.iter_mut().find(|k| k.rate == attempt.rate) else { return };
        k.attempts += attempt.mpdus;
        k.successes += attempt.acked;
        self.unanswered += 1;
        if !attempt.ok && !attempt.last {
            return;
        }
        self.unanswered = 0;
        self.sampling = None;
        self.frames += 1;
        self.mpdus += attempt.mpdus;
        for place in 0..2 {
            let at = self.fastest[place];
            let k = &self.known[at];
            // Spatial multiplexing may die at once: the best, or the second best, of the next group with fewer
            // streams (minstrel_downgrade_rate).
            if k.attempts > 30
                && k.successes < k.attempts / 4
                && let Some(below) = self.groups.iter().rposition(|g| g.streams < k.streams)
            {
                self.fastest[place] = self.groups[below].fastest[place];
                self.set_tries();
            }
        }
    }

    /// The rate that frames begin with.
    pub fn fastest(&self) -> Rate {
        self.known.get(self.fastest[0]).map_or(Rate(0), |k| k.rate)
    }

    /// The rates that frames go on with: the second and third fastest, and the surest.
    pub fn fallbacks(&self) -> [Rate; 3] {
        let of = |at: usize| self.known.get(at).map_or(Rate(0), |k| k.rate);
        [self.fastest[1], self.fastest[2], self.surest].map(of)
    }

    /// How many attempts each of these four has.
    pub fn tries(&self) -> [u32; 4] {
        self.tries
    }

    /// What is expected of the fastest rate, in tens of packets of 1200 bytes per second of its frames' time.
    pub fn expected_packets(&self) -> u32 {
        if self.known.is_empty() { 0 } else { self.throughput(self.fastest[0]) }
    }

    /// minstrel_ht_update_stats.
    fn update(&mut self, now: Time, rng: &mut Stream) {
        if let Some(mean) = (self.mpdus * ONE).checked_div(self.frames) {
            self.length += (mean as i32 - self.length) / LENGTH_WEIGHT;
            (self.frames, self.mpdus) = (0, 0);
        }
        self.choose();
        self.set_tries();
        let used = [self.fastest[0], self.fastest[1], self.surest];
        self.samples.refill(&self.known, &self.groups, used, rng);
        self.samples.at = now;
        (self.updated, self.started) = (now, true);
    }

    /// Settles the interval's counts, and chooses the rates that are used from now on.
    fn choose(&mut self) {
        let mut fastest = [0; BEST];
        for g in 0..self.groups.len() {
            let rates = self.groups[g].rates.clone();
            let mut of_group = [rates.start; BEST];
            let mut best = 0;
            for at in rates.rev() {
                let k = &mut self.known[at];
                k.settle();
                // What nobody has tried does as well as the faster rates of its group.
                if k.tried {
                    best = best.max(k.probability);
                } else {
                    k.probability = best.max(k.probability);
                }
                if self.throughput(at) > 0 {
                    self.insert(at, &mut fastest);
                    self.insert(at, &mut of_group);
                }
            }
            self.groups[g].fastest = [of_group[0], of_group[1]];
        }
        self.fastest = fastest;
        let mut surest = 0;
        for g in 0..self.groups.len() {
            self.groups[g].surest = self.groups[g].rates.start;
            for at in self.groups[g].rates.clone() {
                self.consider(at, g, &mut surest);
            }
        }
        // Fewer streams than the fastest rate's are more robust (minstrel_ht_prob_rate_reduce_streams).
        let streams = self.known[fastest[0]].streams;
        let mut most = 0;
        for g in self.groups.iter().filter(|g| g.streams < streams) {
            if self.throughput(g.surest) > most {
                (most, surest) = (self.throughput(g.surest), g.surest);
            }
        }
        self.surest = surest;
    }

    /// Puts a rate where it belongs among the best; of equals the one that came first stays first
    /// (minstrel_ht_sort_best_tp_rates).
    fn insert(&self, at: usize, list: &mut [usize; BEST]) {
        let worth = |at: usize| (self.throughput(at), self.known[at].probability);
        let place = list.iter().rposition(|&other| worth(other) >= worth(at)).map_or(0, |p| p + 1);
        if place < BEST {
            list[place..].rotate_right(1);
            list[place] = at;
        }
    }

    /// Whether a rate is the surest so far, of all and of its group: above three quarters the faster, else the
    /// more certain (minstrel_ht_set_best_prob_rate).
    fn consider(&mut self, at: usize, group: usize, surest: &mut usize) {
        let (k, top) = (&self.known[at], &self.known[self.fastest[0]]);
        if top.duration > k.duration && k.probability < top.probability {
            return;
        }
        let surer = |than: usize| {
            if 100 * k.probability > 75 * ONE {
                self.throughput(at) > self.throughput(than)
            } else {
                k.probability > self.known[than].probability
            }
        };
        let of_group = surer(self.groups[group].surest);
        if surer(*surest) {
            *surest = at;
        }
        if of_group {
            self.groups[group].surest = at;
        }
    }

    fn throughput(&self, at: usize) -> u32 {
        self.known[at].throughput(self.whole_length())
    }

    /// The mean length of frames, as a whole number (minstrel_ht_avg_ampdu_len).
    fn whole_length(&self) -> u32 {
        (self.length as u32 / ONE).max(1)
    }

    fn set_tries(&mut self) {
        let length = self.whole_length();
        let of = |at: usize, protected| tries(&self.known[at], length, protected);
        // Fallbacks count their attempts as if RTS went before them (minstrel_ht_set_rate).
        let [first, second, third, _] = self.fastest;
        self.tries = [of(first, false), of(second, true), of(third, true), of(self.surest, true)];
    }
}

#[cfg(test)]
mod tests;
