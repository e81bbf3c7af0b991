//! Sets of subscribers that may have more than the level.
//!
//! They were raised together without making any other subscriber short.

use super::subscriber::Subscriber;

/// Initial factor of a raise.
const RAISE: f64 = 1.4;
/// Growth of the raise after a success.
const GROWTH: f64 = 1.6;
/// Maximum factor of a raise.
const MOST: f64 = 1.5;
/// Ratio below which two factors are alike.
const LIKE: f64 = 1.02;
/// Smallest raise that is tried.
const LEAST: f64 = 1.1;
/// Fraction of time that the subscriber with the largest loss may lose to failed trials.
const COST: f64 = 0.04;
/// Maximum and initial credit of lost time, s.
const CREDIT: f64 = 8.0;
/// Expected cost of a trial, s.
const EXPECTED: f64 = 1.5;

/// Subscribers, by place, that are tried together, and the factor of their raise.
#[derive(Clone, Debug)]
pub(super) struct Set {
    pub who: Vec<usize>,
    pub raise: f64,
}

/// A raise after which no subscriber was short.
#[derive(Clone, Debug)]
enum Raise {
    Set(Set),
    /// The level, by a factor.
    Level(f64),
}

/// The raise that was undone.
pub(super) enum Undone {
    /// A raise of the subscriber at this place.
    One(usize),
    /// A raise of the level by this factor.
    Level(f64),
}

#[derive(Clone, Debug)]
pub(super) struct Sets {
    /// Sets to be tried, the last first.
    waiting: Vec<Set>,
    /// Factor for the next set that was raised before without loss to others; it grows with each success.
    raise: f64,
    /// Raises kept, in order of time.
    raised: Vec<Raise>,
    /// Lost time that trials may still cost, s.
    credit: f64,
}

impl Default for Sets {
    fn default() -> Self {
        Sets { waiting: Vec::new(), raise: RAISE, raised: Vec::new(), credit: CREDIT }
    }
}

impl Sets {
    pub fn pass(&mut self, elapsed: f64) {
        self.credit = (self.credit + COST * elapsed).min(CREDIT);
    }

    /// True if the credit covers a failure.
    fn due(&self) -> bool {
        self.credit >= EXPECTED
    }

    /// Returns the set to try next.
    ///
    /// The subscribers with the least come first, and all with equally little together, as max-min fairness requires.
    pub fn next(&mut self, all: &[Subscriber]) -> Option<Set> {
        if !self.due() {
            return None;
        }
        for set in &mut self.waiting {
            set.who.retain(|&i| all[i].ready());
        }
        self.waiting.retain(|set| !set.who.is_empty());
        let level = |who: &[usize]| who.iter().map(|&i| all[i].factor).fold(0.0, f64::max);
        let waits = |i: usize| self.waiting.iter().any(|set| set.who.contains(&i));
        let ready: Vec<usize> = (0..all.len()).filter(|&i| all[i].ready()).collect();
        let rest: Vec<usize> = ready.iter().copied().filter(|&i| !waits(i)).collect();
        let least = rest.iter().map(|&i| all[i].factor).fold(f64::INFINITY, f64::min);
        let who: Vec<usize> = rest.into_iter().filter(|&i| all[i].factor <= LIKE * least).collect();
        // The last set of those with equally little.
        let mut next = None;
        for (at, set) in self.waiting.iter().enumerate() {
            let this = level(&set.who);
            if next.is_none_or(|(_, best)| this <= best) {
                next = Some((at, this));
            }
        }
        if let Some((at, level)) = next
            && level <= LIKE * least
        {
            return Some(self.waiting.remove(at));
        }
        if who.is_empty() {
            return None;
        }
        // A raise of all at once is a raise of the level.
        if all.iter().filter(|s| s.sends() && s.service.backlogged()).count() > who.len() {
            let raise = if level(&who) > 1.0 { self.raise } else { RAISE };
            return Some(Set { who, raise });
        }
        if who.len() > 1 {
            self.split(Set { who, raise: RAISE }, &[], all);
            return self.waiting.pop();
        }
        all.iter().any(|s| s.sends()).then_some(Set { who, raise: RAISE })
    }

    /// Records a raise that no other subscriber lost by.
    pub fn keep(&mut self, set: Set) {
        self.raise = (1.0 + GROWTH * (set.raise - 1.0)).min(MOST);
        self.raised.push(Raise::Set(set));
    }

    /// Records a failed raise: its victims, and the time that it cost, s.
    pub fn refuse(&mut self, set: Set, victims: &[usize], cost: f64, all: &mut [Subscriber]) {
        self.credit -= cost;
        self.raise = RAISE;
        if set.who.len() > 1 {
            return self.split(Set { who: set.who, raise: set.raise.min(RAISE) }, victims, all);
        }
        let raise = 1.0 + 0.5 * (set.raise - 1.0);
        // A subscriber that was raised before is close to its own edge.
        if raise >= LEAST && (set.raise > RAISE || all[set.who[0]].factor > 1.0) {
            self.waiting.push(Set { who: set.who, raise });
        } else {
            all[set.who[0]].put_off();
        }
    }

    /// Postpones the trials of the victims and their neighbours.
    ///
    /// The victims were short when all had more. Subscribers behind the same neighbour of the gateway probably share
    /// their bottleneck, so the others are tried first.
    pub fn bound(victims: &[usize], all: &mut [Subscriber]) {
        let held: Vec<bool> = (0..all.len()).map(|i| near(i, victims, all)).collect();
        let others = held.iter().zip(all.iter()).any(|(h, s)| !h && s.service.backlogged());
        if others {
            all.iter_mut().zip(held).filter(|(_, held)| *held).for_each(|(s, _)| s.hold());
        }
    }

    /// Splits a set.
    ///
    /// If only a part is near the victims, the rest comes first. Otherwise those at one distance stay together, the
    /// nearest first, because their packets take least air; at one distance, those of one branch; in one branch,
    /// halves.
    fn split(&mut self, set: Set, victims: &[usize], all: &[Subscriber]) {
        let (near, far): (Vec<usize>, Vec<usize>) =
            set.who.iter().partition(|&&i| near(i, victims, all));
        if !near.is_empty() && !far.is_empty() {
            self.waiting.push(Set { who: near, raise: set.raise });
            self.waiting.push(Set { who: far, raise: set.raise });
            return;
        }
        let hops = |i: usize| all[i].hops.unwrap_or(1);
        let branch = |i: usize| all[i].branch;
        let mut who = set.who;
        who.sort_by_key(|&i| (hops(i), branch(i)));
        let first = who[0];
        let alike = |same: &dyn Fn(usize) -> bool| who.iter().take_while(|&&i| same(i)).count();
        let at = [alike(&|i| hops(i) == hops(first)), alike(&|i| branch(i) == branch(first))];
        let at = at.into_iter().find(|&at| at < who.len()).unwrap_or(who.len().div_ceil(2));
        let far = who.split_off(at);
        for who in [far, who] {
            if !who.is_empty() {
                self.waiting.push(Set { who, raise: set.raise });
            }
        }
    }

    /// True if no subscriber has more than the level.
    pub fn none(&self) -> bool {
        !self.raised.iter().any(|r| matches!(r, Raise::Set(_)))
    }

    /// True if the last raise was of the level.
    pub fn level_last(&self) -> bool {
        matches!(self.raised.last(), Some(Raise::Level(_)))
    }

    /// True if sets wait for a trial and the credit allows it.
    pub fn busy(&self) -> bool {
        !self.waiting.is_empty() && self.due()
    }

    /// Records a raise of the level by a factor that made no subscriber short.
    pub fn level(&mut self, factor: f64) {
        if factor > 1.0 {
            self.raised.push(Raise::Level(factor));
        }
    }

    /// Undoes half of the last raise, a raise of sets only if the level stays; the caller lowers the level.
    pub fn undo(&mut self, stays: bool, all: &mut [Subscriber]) -> Option<Undone> {
        self.waiting.clear();
        self.raise = RAISE;
        let at = self.raised.iter().rposition(|r| !stays || matches!(r, Raise::Set(_)))?;
        match self.raised.remove(at) {
            Raise::Level(factor) => Some(Undone::Level(factor)),
            Raise::Set(set) => {
                for &i in &set.who {
                    all[i].factor = (all[i].factor / set.raise.sqrt()).max(1.0);
                    all[i].put_off();
                }
                set.who.first().map(|&i| Undone::One(i))
            }
        }
    }

    /// Drops the raises of the level, which has fallen below them.
    pub fn forget(&mut self) {
        self.raised.retain(|r| matches!(r, Raise::Set(_)));
    }
}

/// True if a subscriber is a victim, or is behind the same neighbour of the gateway as one and over half as far.
fn near(i: usize, victims: &[usize], all: &[Subscriber]) -> bool {
    let (branch, hops) = (|i: usize| all[i].branch, |i: usize| all[i].hops.unwrap_or(1));
    let long = |v: usize| 2 * hops(i) > hops(v);
    victims.iter().any(|&v| v == i || branch(v).is_some() && branch(v) == branch(i) && long(v))
}

#[cfg(test)]
mod tests {
    use fairmesh_units::FlowId;

    use super::super::service::{PACKET, Passed, Rules};
    use super::*;

    /// Returns two backlogged subscribers that use their full limit.
    fn two() -> Vec<Subscriber> {
        let rules = Rules { full: 0.93, debt: 2.5, packets: 5.0 };
        let mut all: Vec<Subscriber> = (0..2).map(|f| Subscriber::new(FlowId(f))).collect();
        for s in &mut all {
            s.limit = 1e6;
            let (elapsed, bits, packets) = (1.0, 1e6, 1e6 / PACKET);
            let passed = Passed { elapsed, bits, packets, bound: false, under_way: None };
            (0..30).for_each(|_| s.service.look(&passed, s.limit, &rules));
            assert!(s.ready());
        }
        all
    }

    #[test]
    fn who_was_raised_before_is_tried_with_half_until_that_is_little() {
        let mut all = two();
        all[0].factor = 1.4;
        let mut sets = Sets::default();
        let mut raise = 1.4;
        let mut tried = Vec::new();
        while all[0].ready() {
            sets.refuse(Set { who: vec![0], raise }, &[], 0.0, &mut all);
            let Some(set) = sets.waiting.pop() else { break };
            assert_eq!(set.who, [0]);
            raise = set.raise;
            tried.push((100.0 * raise).round());
        }
        assert_eq!(tried, [120.0, 110.0]);
        assert!(!all[0].ready(), "it is put off");
        // A subscriber that never had more than the level is postponed at once.
        sets.refuse(Set { who: vec![1], raise: RAISE }, &[], 0.0, &mut all);
        assert!(sets.waiting.is_empty() && !all[1].ready());
    }
}
