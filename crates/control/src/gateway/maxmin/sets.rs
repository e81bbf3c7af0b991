//! Who may have more than the level: sets of subscribers that were raised together, and nobody
//! missed it.

use super::subscriber::Subscriber;

/// By what a set is raised at first, how that grows when nobody misses it, and the most.
const RAISE: f64 = 1.25;
const GROWTH: f64 = 1.6;
const MOST: f64 = 1.5;
/// Factors that are alike.
const LIKE: f64 = 1.02;
/// The least raise that is tried.
const LEAST: f64 = 1.1;
/// s between a try that failed and the next one, and how that grows from failure to failure.
const WAIT: f64 = 30.0;
const LONGER: f64 = 1.4;
const LONGEST: f64 = 90.0;

/// Subscribers, by place, that are tried together, and by what factor.
#[derive(Clone, Debug)]
pub(super) struct Set {
    pub who: Vec<usize>,
    pub raise: f64,
}

/// What was raised since nobody was short.
#[derive(Clone, Debug)]
enum Raise {
    Set(Set),
    /// The level, by a factor.
    Level(f64),
}

/// What a raise that is undone was.
pub(super) enum Undone {
    /// Somebody's, at this place.
    One(usize),
    /// The level's, by this factor.
    Level(f64),
}

#[derive(Clone, Default, Debug)]
pub(super) struct Sets {
    /// To be tried, the last first.
    waiting: Vec<Set>,
    /// What nobody missed just now, with a larger raise: cheap goes on at once.
    again: Option<Set>,
    /// What was raised, the last last.
    raised: Vec<Raise>,
    /// Tries that failed, less those that did not.
    failed: u32,
    /// s since the last one.
    since: f64,
}

impl Sets {
    pub fn pass(&mut self, elapsed: f64) {
        self.since += elapsed;
    }

    /// Whether the last failure is long enough ago.
    fn due(&self) -> bool {
        self.failed == 0
            || self.since >= (WAIT * LONGER.powi(self.failed.min(20) as i32)).min(LONGEST)
    }

    /// Whom to try now.
    pub fn next(&mut self, all: &[Subscriber]) -> Option<Set> {
        if !self.due() {
            return None;
        }
        if let Some(mut set) = self.again.take() {
            set.who.retain(|&i| all[i].ready());
            if !set.who.is_empty() {
                return Some(set);
            }
        }
        for set in &mut self.waiting {
            set.who.retain(|&i| all[i].ready());
        }
        self.waiting.retain(|set| !set.who.is_empty());
        // Who has least comes first: that is what max-min means.
        let level = |who: &[usize]| who.iter().map(|&i| all[i].factor).fold(0.0, f64::max);
        let waits = |i: usize| self.waiting.iter().any(|set| set.who.contains(&i));
        let ready: Vec<usize> = (0..all.len()).filter(|&i| all[i].ready()).collect();
        let rest: Vec<usize> = ready.iter().copied().filter(|&i| !waits(i)).collect();
        let least = rest.iter().map(|&i| all[i].factor).fold(f64::INFINITY, f64::min);
        let who: Vec<usize> = rest.into_iter().filter(|&i| all[i].factor <= LIKE * least).collect();
        // The last of those with equally little.
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
        if who.len() > 1 {
            self.split(Set { who, raise: RAISE }, all);
            return self.waiting.pop();
        }
        // All at once is what the level is for.
        let others = all.iter().filter(|s| s.sends()).count() > who.len();
        (others && !who.is_empty()).then_some(Set { who, raise: RAISE })
    }

    /// Nobody missed what these have more.
    pub fn keep(&mut self, set: Set) {
        (self.failed, self.since) = (self.failed / 2, 0.0);
        let raise = (1.0 + GROWTH * (set.raise - 1.0)).min(MOST);
        self.again = Some(Set { who: set.who.clone(), raise });
        self.raised.push(Raise::Set(set));
    }

    /// Somebody did.
    pub fn refuse(&mut self, set: Set, all: &mut [Subscriber]) {
        (self.failed, self.since) = (self.failed + 1, 0.0);
        if set.who.len() > 1 {
            return self.split(Set { who: set.who, raise: set.raise.min(RAISE) }, all);
        }
        let raise = 1.0 + 0.5 * (set.raise - 1.0);
        // One that has been raised before is near to its own edge.
        if raise >= LEAST && (set.raise > RAISE || all[set.who[0]].factor > 1.0) {
            self.waiting.push(Set { who: set.who, raise });
        } else {
            all[set.who[0]].put_off();
        }
    }

    /// Those at one distance together, the nearest first, because their packets take least air; of one
    /// distance, those of one branch; of one branch, halves.
    fn split(&mut self, set: Set, all: &[Subscriber]) {
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

    /// Nobody has more than the level.
    pub fn none(&self) -> bool {
        !self.raised.iter().any(|r| matches!(r, Raise::Set(_)))
    }

    /// What was raised last was the level.
    pub fn level_last(&self) -> bool {
        matches!(self.raised.last(), Some(Raise::Level(_)))
    }

    /// Some are to be tried.
    pub fn busy(&self) -> bool {
        (!self.waiting.is_empty() || self.again.is_some()) && self.due()
    }

    /// The level was raised by a factor, and nobody missed it.
    pub fn level(&mut self, factor: f64) {
        if factor > 1.0 {
            self.raised.push(Raise::Level(factor));
        }
    }

    /// The last raise is undone, the level's by the caller.
    pub fn undo(&mut self, all: &mut [Subscriber]) -> Option<Undone> {
        self.waiting.clear();
        self.again = None;
        match self.raised.pop()? {
            Raise::Level(factor) => Some(Undone::Level(factor)),
            Raise::Set(set) => {
                for &i in &set.who {
                    all[i].factor = (all[i].factor / set.raise).max(1.0);
                    all[i].put_off();
                }
                set.who.first().map(|&i| Undone::One(i))
            }
        }
    }

    /// The level has fallen below all that was raised.
    pub fn forget(&mut self) {
        self.raised.retain(|r| matches!(r, Raise::Set(_)));
    }
}
