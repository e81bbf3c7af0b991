//! Selection and timing of sampled rates.

use fairmesh_units::{Stream, Time};

use super::statistics::{RateStatistics, SCALE};
use super::{Group, SAMPLE_INTERVAL};

/// Maximum number of pending samples of each kind (MINSTREL_SAMPLE_RATES).
const MAX_PENDING: usize = 5;

/// Order in which the kinds of sample take turns (minstrel_sample_seq).
const KIND_ORDER: [Kind; 6] =
    [Kind::Next, Kind::Jump, Kind::Next, Kind::Jump, Kind::Next, Kind::Slow];

/// Reason for sampling a rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// The next faster rate of its group.
    Next,
    /// Any faster rate.
    Jump,
    /// A rate between those in use.
    Slow,
}

/// The pending samples.
#[derive(Clone, Debug)]
pub(super) struct Samples {
    /// Earliest instant of the next sample.
    pub at: Time,
    turn: usize,
    waiting: [Vec<usize>; 3],
    /// Group after which the search for the next sample of each kind starts.
    group: [usize; 3],
    /// Per group: the indices of its rates in random order, and the position reached.
    orders: Vec<(Vec<usize>, usize)>,
}

impl Samples {
    pub fn new(groups: usize) -> Self {
        Samples {
            at: Time::ZERO,
            turn: 0,
            waiting: [vec![], vec![], vec![]],
            group: [0; 3],
            orders: vec![(vec![], 0); groups],
        }
    }

    /// Returns the sample that is due, if one is pending (minstrel_ht_get_rate).
    pub fn due(&mut self, now: Time) -> Option<usize> {
        if now < self.at {
            return None;
        }
        self.at = now + SAMPLE_INTERVAL;
        let kind = KIND_ORDER[self.turn];
        self.turn = (self.turn + 1) % KIND_ORDER.len();
        let list = &mut self.waiting[kind as usize];
        if list.is_empty() { None } else { Some(list.remove(0)) }
    }

    /// Finds rates worth sampling beside those in use: fastest, second fastest, most reliable.
    /// minstrel_ht_refill_sample_rates.
    pub fn refill(
        &mut self,
        known: &[RateStatistics],
        groups: &[Group],
        used: [usize; 3],
        rng: &mut Stream,
    ) {
        let used = used.map(|at| known[at].duration);
        let fast = used[0].min(used[1]).min(used[2]);
        let slow = used[0].max(used[1]).max(used[2]);
        for (kind, list) in self.waiting.iter_mut().enumerate() {
            list.retain(|&at| match kind {
                k if k == Kind::Slow as usize => {
                    known[at].duration > fast && known[at].duration < slow
                }
                _ => known[at].duration < fast,
            });
        }
        while self.waiting[Kind::Next as usize].len() < MAX_PENDING
            && let Some(at) = self.next_faster(known, groups, used[0])
        {
            self.waiting[Kind::Next as usize].push(at);
        }
        while self.waiting[Kind::Jump as usize].len() < MAX_PENDING
            && let Some(at) = self.jump(known, groups, fast, slow, rng)
        {
            self.waiting[Kind::Jump as usize].push(at);
        }
    }

    fn waits(&self, kind: Kind, at: usize) -> bool {
        self.waiting[kind as usize].contains(&at)
    }

    /// Returns the slowest rate faster than `than` of the next group, in round-robin order.
    /// minstrel_ht_next_inc_rate.
    fn next_faster(
        &mut self,
        known: &[RateStatistics],
        groups: &[Group],
        than: u32,
    ) -> Option<usize> {
        for _ in 0..groups.len() {
            let g = self.next_group(Kind::Next);
            let found = groups[g].rates.clone().find(|&at| known[at].duration < than);
            if let Some(at) = found.filter(|&at| !self.waits(Kind::Next, at)) {
                return Some(at);
            }
        }
        None
    }

    /// Returns the next rate that is faster than the fastest in use, in a random order per group.
    ///
    /// Groups take turns. Rates between those in use are added to a separate list
    /// (minstrel_ht_next_jump_rate).
    fn jump(
        &mut self,
        known: &[RateStatistics],
        groups: &[Group],
        fast: u32,
        slow: u32,
        rng: &mut Stream,
    ) -> Option<usize> {
        for _ in 0..groups.len() {
            let full = self.waiting[Kind::Slow as usize].len() >= MAX_PENDING;
            let g = self.next_group(Kind::Jump);
            let limit = if full { fast } else { slow };
            let mut rates = groups[g].rates.clone();
            let Some(first) = rates.find(|&at| known[at].duration < limit) else { continue };
            let Some(at) = self.next_in_order(g, &groups[g], first, rng) else { continue };
            let duration = known[at].duration;
            let kind = if duration < fast { Kind::Jump } else { Kind::Slow };
            if self.waits(kind, at) {
                continue;
            }
            if kind == Kind::Jump {
                return Some(at);
            }
            // Slow rates that are nearly certain need no sample.
            if !full && duration < slow && 100 * known[at].probability <= 95 * SCALE {
                self.waiting[Kind::Slow as usize].push(at);
            }
        }
        None
    }

    /// Returns the next rate of a group, from `first` on, in a random order.
    ///
    /// The order visits each rate once. minstrel_ht_next_group_sample_rate has a table of ten such
    /// orders.
    fn next_in_order(
        &mut self,
        group: usize,
        of: &Group,
        first: usize,
        rng: &mut Stream,
    ) -> Option<usize> {
        let (order, place) = &mut self.orders[group];
        for _ in 0..of.rates.len() {
            if *place >= order.len() {
                (*order, *place) = (of.rates.clone().collect(), 0);
                for k in (1..order.len()).rev() {
                    order.swap(k, rng.below(k as u32 + 1) as usize);
                }
            }
            let at = order[*place];
            *place += 1;
            if at >= first {
                return Some(at);
            }
        }
        None
    }

    fn next_group(&mut self, kind: Kind) -> usize {
        let turn = &mut self.group[kind as usize];
        *turn = (*turn + 1) % self.orders.len();
        *turn
    }
}
