//! Minstrel-HT: the rate with the highest expected throughput, by frames and samples.
//!
//! Rules of Linux's mac80211 (net/mac80211/rc80211_minstrel_ht.c of 6.1 and 6.12, identical in
//! both), reimplemented with its integer arithmetic, so that ties are the same. Function names in
//! comments are from that file. docs/models/rate-adaptation.md lists the simplifications.

mod samples;
mod statistics;

use core::ops::Range;

use fairmesh_units::{Span, Stream, Time};

use self::samples::Samples;
use self::statistics::{LENGTH_WEIGHT, RateStatistics, SCALE, tries};
use super::Attempt;
use fairmesh_phy::{Phy, Rate};

/// Interval between updates of the statistics (update_interval).
///
/// The clock has ticks of a few ms.
const UPDATE_INTERVAL: Span = Span::from_millis(50);
/// Minimum interval between samples (MINSTREL_SAMPLE_INTERVAL).
const SAMPLE_INTERVAL: Span = Span::from_millis(20);
/// Number of best rates by throughput that are kept in order (MAX_THR_RATES).
const BEST_RATES: usize = 4;
/// Number of rates for the attempts of a frame, for drivers that take four.
///
/// IEEE80211_TX_MAX_RATES.
const RATES_PER_FRAME: usize = 4;

/// Rates with the same number of streams.
#[derive(Clone, Debug)]
struct Group {
    /// Indices of its rates in the list of all rates, slowest first.
    rates: Range<usize>,
    streams: u8,
    /// The two rates with the highest throughput.
    fastest: [usize; 2],
    /// The rate with the highest probability of success.
    most_reliable: usize,
}

/// Rate choice by expected throughput.
#[derive(Clone, Debug)]
pub struct MinstrelHt {
    /// By streams, then speed.
    known: Vec<RateStatistics>,
    groups: Vec<Group>,
    /// The best rates by throughput, best first, and the most reliable rate.
    fastest: [usize; BEST_RATES],
    most_reliable: usize,
    /// Attempts at the three fastest rates and at the most reliable one.
    tries: [u32; RATES_PER_FRAME],
    /// Mean MPDUs per frame in parts of [`SCALE`], and frames and MPDUs of this interval.
    length: i32,
    frames: u32,
    mpdus: u32,
    started: bool,
    interval: Span,
    updated: Time,
    samples: Samples,
    /// Rate that this frame began with if it is a sample, and attempts without a response.
    sampling: Option<usize>,
    unanswered: u32,
}

impl MinstrelHt {
    /// Builds the choice over all MCS of `phy`; there must be one.
    pub fn new(phy: &Phy) -> Self {
        MinstrelHt::with_interval(phy, UPDATE_INTERVAL)
    }

    /// Builds the choice with another update interval than 50 ms.
    ///
    /// A kernel's timer may give another one, such as 52 ms at 250 Hz.
    pub fn with_interval(phy: &Phy, interval: Span) -> Self {
        let mut known: Vec<RateStatistics> =
            phy.rates().filter_map(|r| RateStatistics::of(phy, r)).collect();
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
                    most_reliable: at,
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
            fastest: [0; BEST_RATES],
            most_reliable: 0,
            tries: [2; RATES_PER_FRAME],
            length: SCALE as i32,
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

    /// Returns the rate of the next attempt.
    ///
    /// A frame starts at the fastest rate or a sample, continues at the second and third fastest,
    /// and ends at the most reliable one (minstrel_ht_update_rates, minstrel_ht_get_rate).
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
        self.known[self.most_reliable].rate
    }

    /// Reports the result of an attempt (minstrel_ht_tx_status).
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
            // Spatial multiplexing may fail suddenly: falls back to the best, or second best, rate
            // of the next group with fewer streams (minstrel_downgrade_rate).
            if k.attempts > 30
                && k.successes < k.attempts / 4
                && let Some(below) = self.groups.iter().rposition(|g| g.streams < k.streams)
            {
                self.fastest[place] = self.groups[below].fastest[place];
                self.set_tries();
            }
        }
    }

    /// Returns the first rate of a frame.
    pub fn fastest(&self) -> Rate {
        self.known.get(self.fastest[0]).map_or(Rate(0), |k| k.rate)
    }

    /// Returns the fallback rates: the second and third fastest, and the most reliable.
    pub fn fallbacks(&self) -> [Rate; 3] {
        let of = |at: usize| self.known.get(at).map_or(Rate(0), |k| k.rate);
        [self.fastest[1], self.fastest[2], self.most_reliable].map(of)
    }

    /// Returns the number of attempts of each of the four rates.
    pub fn tries(&self) -> [u32; 4] {
        self.tries
    }

    /// Returns the expected throughput of the fastest rate.
    ///
    /// Unit: tens of packets of 1200 bytes per second of medium time.
    pub fn expected_packets(&self) -> u32 {
        if self.known.is_empty() { 0 } else { self.throughput(self.fastest[0]) }
    }

    /// Updates the statistics (minstrel_ht_update_stats).
    fn update(&mut self, now: Time, rng: &mut Stream) {
        if let Some(mean) = (self.mpdus * SCALE).checked_div(self.frames) {
            self.length += (mean as i32 - self.length) / LENGTH_WEIGHT;
            (self.frames, self.mpdus) = (0, 0);
        }
        self.choose();
        self.set_tries();
        let used = [self.fastest[0], self.fastest[1], self.most_reliable];
        self.samples.refill(&self.known, &self.groups, used, rng);
        self.samples.at = now;
        (self.updated, self.started) = (now, true);
    }

    /// Ends the interval's counts and chooses the rates of the next one.
    fn choose(&mut self) {
        let mut fastest = [0; BEST_RATES];
        for g in 0..self.groups.len() {
            let rates = self.groups[g].rates.clone();
            let mut of_group = [rates.start; BEST_RATES];
            let mut best = 0;
            for at in rates.rev() {
                let k = &mut self.known[at];
                k.settle();
                // An untried rate counts as equal to the faster rates of its group.
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
        let mut most_reliable = 0;
        for g in 0..self.groups.len() {
            self.groups[g].most_reliable = self.groups[g].rates.start;
            for at in self.groups[g].rates.clone() {
                self.consider(at, g, &mut most_reliable);
            }
        }
        // Fewer streams than those of the fastest rate are more robust
        // (minstrel_ht_prob_rate_reduce_streams).
        let streams = self.known[fastest[0]].streams;
        let mut most = 0;
        for g in self.groups.iter().filter(|g| g.streams < streams) {
            if self.throughput(g.most_reliable) > most {
                (most, most_reliable) = (self.throughput(g.most_reliable), g.most_reliable);
            }
        }
        self.most_reliable = most_reliable;
    }

    /// Inserts a rate into the list of the best; of equal rates the earlier one stays first.
    /// minstrel_ht_sort_best_tp_rates.
    fn insert(&self, at: usize, list: &mut [usize; BEST_RATES]) {
        let worth = |at: usize| (self.throughput(at), self.known[at].probability);
        let place = list.iter().rposition(|&other| worth(other) >= worth(at)).map_or(0, |p| p + 1);
        if place < BEST_RATES {
            list[place..].rotate_right(1);
            list[place] = at;
        }
    }

    /// Updates the most reliable rate, overall and of its group, with a candidate.
    ///
    /// Above a probability of three quarters the faster rate wins, otherwise the more reliable one
    /// (minstrel_ht_set_best_prob_rate).
    fn consider(&mut self, at: usize, group: usize, most_reliable: &mut usize) {
        let (k, top) = (&self.known[at], &self.known[self.fastest[0]]);
        if top.duration > k.duration && k.probability < top.probability {
            return;
        }
        let surer = |than: usize| {
            if 100 * k.probability > 75 * SCALE {
                self.throughput(at) > self.throughput(than)
            } else {
                k.probability > self.known[than].probability
            }
        };
        let of_group = surer(self.groups[group].most_reliable);
        if surer(*most_reliable) {
            *most_reliable = at;
        }
        if of_group {
            self.groups[group].most_reliable = at;
        }
    }

    fn throughput(&self, at: usize) -> u32 {
        self.known[at].throughput(self.whole_length())
    }

    /// Returns the mean length of frames, as a whole number (minstrel_ht_avg_ampdu_len).
    fn whole_length(&self) -> u32 {
        (self.length as u32 / SCALE).max(1)
    }

    fn set_tries(&mut self) {
        let length = self.whole_length();
        let of = |at: usize, protected| tries(&self.known[at], length, protected);
        // Fallbacks count their attempts as if RTS went before them (minstrel_ht_set_rate).
        let [first, second, third, _] = self.fastest;
        self.tries =
            [of(first, false), of(second, true), of(third, true), of(self.most_reliable, true)];
    }
}

#[cfg(test)]
mod tests;
