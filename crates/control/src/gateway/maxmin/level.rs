//! The common level, and what is known of how high it can be.

/// A level below this part of where the search began is none.
const LEAST: f64 = 1e-4;
/// Factor of a step while no edge is known, and below where one is likely.
const FIRST: f64 = 1.25;
const FAST: f64 = 1.5;
/// Edges after which the next is believed at once.
const ENOUGH: u32 = 3;
/// Edges that are known so well are not looked for further.
const CLOSE: f64 = 1.07;
/// Factor of the first step above a known edge, and how it grows.
const AGAIN: f64 = 1.04;
const GROWTH: f64 = 1.5;
/// How long an edge is believed, s: at first, how that grows when it is met again, at most.
const TRUST: f64 = 60.0;
const LONGER: f64 = 1.5;
const MOST: f64 = 240.0;
/// Edges that differ by less are one.
const SAME: f64 = 0.08;

/// Rate per weight, bit/s.
#[derive(Clone, Debug)]
pub(super) struct Level {
    now: f64,
    begin: f64,
    upper: f64,
    /// Part of `carried` at which it rests.
    rest: f64,
    /// The highest at which nobody was short.
    carried: f64,
    /// Part of it that is left while others are tried with more.
    low: f64,
    /// The same while nobody had more than the level.
    common: f64,
    /// The lowest above it at which somebody was.
    edge: Option<f64>,
    /// Levels in a row that were carried.
    row: u32,
    /// Part of a step above the edge.
    stride: f64,
    /// No edge was ever met.
    young: bool,
    /// Somebody was short before any edge was met.
    startled: bool,
    firm: bool,
    /// Below this it climbs faster.
    pub early: f64,
    met: u32,
    /// s since the edge was met, and how long it is believed.
    age: f64,
    trust: f64,
    /// s since limits changed.
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

    /// The search begins at a part of where it would, and climbs fast up to another.
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

    /// No edge was ever met.
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
        // A NaN, which no arithmetic here should give, is the least.
        level.max(LEAST * self.begin).min(self.upper)
    }

    /// The same air for others: everything that is known of the level moves with it.
    pub fn scale(&mut self, factor: f64) {
        self.now = self.bounded(self.now * factor);
        self.carried = self.bounded(self.carried * factor);
        self.common = self.bounded(self.common * factor);
        self.early *= factor;
        self.edge = self.edge.map(|e| e * factor);
    }

    /// An earlier run had found this.
    pub fn recall(&mut self, level: f64) {
        self.set(level);
        self.carried = self.now;
    }

    /// Nobody is short at the present level; by what factor it is above what was known.
    pub fn carries(&mut self) -> f64 {
        let rise = (self.now / self.carried).max(1.0);
        self.carried = self.carried.max(self.now);
        // What the others have while some have more, all could have.
        self.common = self.common.max(self.carried);
        self.row += 1;
        if self.edge.is_none_or(|e| e <= self.carried) {
            // What was the edge is none: the search goes on above it.
            (self.edge, self.stride) = (None, (GROWTH * self.stride).min(FIRST - 1.0));
            if !self.firm {
                (self.young, self.stride) = (true, FIRST - 1.0);
            }
        }
        rise
    }

    /// Somebody is short at the present level.
    pub fn meet(&mut self) {
        let same = self.edge.is_some_and(|e| (self.now / e - 1.0).abs() < SAME);
        self.firm |= same || !self.young && self.met >= ENOUGH;
        self.met += 1;
        self.trust = if same { (LONGER * self.trust).min(MOST) } else { TRUST };
        (self.edge, self.age, self.row, self.stride) = (Some(self.now), 0.0, 0, AGAIN - 1.0);
        self.carried = self.carried.min(self.now);
        self.young = false;
    }

    /// Whether somebody short at rest is no edge: once, before any was met, it may be an accident of
    /// TCP's start, and the climb goes on after it.
    pub fn startles(&mut self) -> bool {
        let first = self.young && !self.startled;
        self.startled |= first;
        first
    }

    /// Nobody has more than the level.
    pub fn level(&mut self) {
        self.common = self.carried;
    }

    /// What all could have.
    pub fn common(&self) -> f64 {
        self.common
    }

    /// Goes down, below what was thought to be carried.
    pub fn lower(&mut self, part: f64) {
        self.set(self.now * part);
        self.carried = self.carried.min(self.now);
    }

    /// Returns to what is known to be carried.
    pub fn back(&mut self) {
        self.set(self.carried);
    }

    /// Somebody may have more: all give way to this part, for at the very edge nobody can.
    pub fn give_way(&mut self, part: f64) {
        self.low = part;
        self.set(part * self.carried);
    }

    /// It was worth it.
    pub fn keep_low(&mut self) {
        self.carried *= self.low;
        self.low = 1.0;
    }

    /// It was for nothing.
    pub fn recover(&mut self) {
        self.low = 1.0;
    }

    /// A little below what is carried; whether that is another level.
    pub fn relax(&mut self) -> bool {
        let to = if self.edge.is_some() { self.rest * self.carried } else { self.carried };
        let moved = (to / self.now - 1.0).abs() > 0.002;
        if moved {
            self.set(to);
        }
        moved
    }

    /// The edge is known well.
    pub fn close(&self) -> bool {
        self.edge.is_some_and(|edge| edge <= CLOSE * self.carried)
    }

    /// Which level to try next; `None`: the edge is known and believed.
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
