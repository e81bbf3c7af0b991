//! The common level and the bounds known for it.

/// Lowest level, as a fraction of the level where the search began.
const LEAST: f64 = 1e-4;
/// Factor of a step while no edge is known.
const FIRST: f64 = 1.25;
/// Maximum factor of a step below `early`, the level to which the search climbs faster.
const FAST: f64 = 1.5;
/// Number of edges met after which the next one is accepted at once.
const ENOUGH: u32 = 3;
/// Ratio of edge to carried level below which the edge is not narrowed down further.
const CLOSE: f64 = 1.07;
/// Factor of the first step above a known edge.
const AGAIN: f64 = 1.04;
/// Growth of the steps above a known edge.
const GROWTH: f64 = 1.5;
/// Time for which a new edge is trusted, s.
const TRUST: f64 = 60.0;
/// Factor by which that time grows if the edge is met again.
const LONGER: f64 = 1.5;
/// Maximum time for which an edge is trusted, s.
const MOST: f64 = 240.0;
/// Relative difference below which two edges are the same.
const SAME: f64 = 0.08;

/// Rate per weight, bit/s.
#[derive(Clone, Debug)]
pub(super) struct Level {
    now: f64,
    begin: f64,
    upper: f64,
    /// Fraction of `carried` at which the level rests.
    rest: f64,
    /// Highest level at which no subscriber was short.
    carried: f64,
    /// Fraction of `carried` that is left while other subscribers are tried with more.
    low: f64,
    /// Highest carried level while no subscriber had more than the level.
    common: f64,
    /// Lowest level above `carried` at which a subscriber was short.
    edge: Option<f64>,
    /// Number of consecutive levels that were carried.
    row: u32,
    /// Relative size of a step above the edge.
    stride: f64,
    /// True if no edge was ever met.
    young: bool,
    /// True if a subscriber was short before any edge was met.
    startled: bool,
    firm: bool,
    /// Level below which it climbs faster.
    pub early: f64,
    met: u32,
    /// Time since the edge was met, s.
    age: f64,
    /// Time for which the edge is trusted, s.
    trust: f64,
    /// Time since limits changed, s.
    pub since: f64,
}

impl Level {
    pub fn new(begin: f64, upper: f64, rest: f64) -> Self {
        Level {
            now: begin,
            begin,
            upper,
            rest,
            carried: begin,
            low: 1.0,
            common: begin,
            edge: None,
            row: 0,
            stride: FIRST - 1.0,
            young: true,
            startled: false,
            firm: false,
            early: 0.0,
            met: 0,
            age: 0.0,
            trust: TRUST,
            since: 0.0,
        }
    }

    /// Starts the search at a fraction of its level, with fast climbing up to `early`.
    pub fn begin(&mut self, part: f64, early: f64) {
        self.scale(part);
        self.early = early;
    }

    pub fn now(&self) -> f64 {
        self.now
    }

    pub fn carried(&self) -> f64 {
        self.carried
    }

    /// Returns true if no edge was ever met.
    pub fn young(&self) -> bool {
        self.young
    }

    pub fn pass(&mut self, elapsed: f64) {
        self.since += elapsed;
        self.age += elapsed;
    }

    pub fn set(&mut self, level: f64) {
        self.now = self.bounded(level);
        self.since = 0.0;
    }

    fn bounded(&self, level: f64) -> f64 {
        // A NaN, which no arithmetic here should produce, becomes the lowest level.
        level.max(LEAST * self.begin).min(self.upper)
    }

    /// Scales all known levels by a factor, when the same air is shared by another set of flows.
    pub fn scale(&mut self, factor: f64) {
        self.now = self.bounded(self.now * factor);
        self.carried = self.bounded(self.carried * factor);
        self.common = self.bounded(self.common * factor);
        self.early *= factor;
        self.edge = self.edge.map(|e| e * factor);
    }

    /// Takes over the level that an earlier run found.
    pub fn recall(&mut self, level: f64) {
        self.set(level);
        self.carried = self.now;
    }

    /// Records that the present level is carried; returns its factor over the level known before.
    pub fn carries(&mut self) -> f64 {
        let rise = (self.now / self.carried).max(1.0);
        self.carried = self.carried.max(self.now);
        // A level that the others have while some have more could be had by all.
        self.common = self.common.max(self.carried);
        self.row += 1;
        if self.edge.is_none_or(|e| e <= self.carried) {
            // The edge was wrong: the search continues above it.
            (self.edge, self.stride) = (None, (GROWTH * self.stride).min(FIRST - 1.0));
            if !self.firm {
                (self.young, self.stride) = (true, FIRST - 1.0);
            }
        }
        rise
    }

    /// Records the present level as an edge: a subscriber is short at it.
    pub fn meet(&mut self) {
        let same = self.edge.is_some_and(|e| (self.now / e - 1.0).abs() < SAME);
        self.firm |= same || !self.young && self.met >= ENOUGH;
        self.met += 1;
        self.trust = if same { (LONGER * self.trust).min(MOST) } else { TRUST };
        (self.edge, self.age, self.row, self.stride) = (Some(self.now), 0.0, 0, AGAIN - 1.0);
        self.carried = self.carried.min(self.now);
        self.young = false;
    }

    /// Returns true if a shortage at rest is not an edge.
    ///
    /// This holds once, before any edge was met: the shortage may be an accident of TCP's start, and the climb
    /// continues after it.
    pub fn startles(&mut self) -> bool {
        let first = self.young && !self.startled;
        self.startled |= first;
        first
    }

    /// Sets the common level to the carried one; no subscriber has more than the level.
    pub fn level(&mut self) {
        self.common = self.carried;
    }

    /// Returns the level that all subscribers could have.
    pub fn common(&self) -> f64 {
        self.common
    }

    /// Lowers the level, also below the level that was assumed to be carried.
    pub fn lower(&mut self, part: f64) {
        self.set(self.now * part);
        self.carried = self.carried.min(self.now);
    }

    /// Returns to the level known to be carried.
    pub fn back(&mut self) {
        self.set(self.carried);
    }

    /// Lowers the level to a fraction of the carried one so that some may have more: at the edge there is no room.
    pub fn give_way(&mut self, part: f64) {
        self.low = part;
        self.set(part * self.carried);
    }

    /// Keeps the lowered level because the trial succeeded.
    pub fn keep_low(&mut self) {
        self.carried *= self.low;
        self.low = 1.0;
    }

    /// Drops the lowered level because the trial failed.
    pub fn recover(&mut self) {
        self.low = 1.0;
    }

    /// Moves to the resting level, slightly below the carried one; returns true if the level changed.
    pub fn relax(&mut self) -> bool {
        let to = if self.edge.is_some() { self.rest * self.carried } else { self.carried };
        let moved = (to / self.now - 1.0).abs() > 0.002;
        if moved {
            self.set(to);
        }
        moved
    }

    /// Returns true if the edge is known precisely.
    pub fn close(&self) -> bool {
        self.edge.is_some_and(|edge| edge <= CLOSE * self.carried)
    }

    /// Returns the level to try next; `None` if the edge is known and trusted.
    pub fn next(&self) -> Option<f64> {
        match self.edge {
            None if self.carried >= self.upper => None,
            None if self.young && self.carried < 0.99 * self.early => {
                Some(self.bounded((self.carried * FAST).min(self.early)))
            }
            None => Some(self.bounded(self.carried * (1.0 + self.stride))),
            Some(edge) if edge > CLOSE * self.carried && self.row >= 2 => Some(edge),
            Some(edge) if edge > CLOSE * self.carried => Some((edge * self.carried).sqrt()),
            Some(edge) if self.age > self.trust => {
                Some(self.bounded(edge.max(AGAIN * self.carried)))
            }
            Some(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_gave_way_by_is_kept_if_it_was_worth_it() {
        let carried = |ends: fn(&mut Level)| {
            let mut level = Level::new(1000.0, 1e6, 0.97);
            level.give_way(0.95);
            assert_eq!((level.now(), level.carried()), (950.0, 1000.0));
            ends(&mut level);
            // Only once.
            level.keep_low();
            level.carried()
        };
        assert_eq!(carried(Level::keep_low), 950.0);
        assert_eq!(carried(Level::recover), 1000.0);
    }
}
