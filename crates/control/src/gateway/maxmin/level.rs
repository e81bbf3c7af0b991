//! The common level, and what is known of how high it can be.

/// Factor of a step while no edge is known.
const FIRST: f64 = 1.25;
/// The same, and the part of the edge to which it goes so, after an edge that was met in such steps.
const AGAIN: f64 = 1.08;
const NEAR: f64 = 0.8;
/// Part of the first small step, how it grows from step to step, and the largest.
const STRIDE: f64 = 0.025;
const GROWTH: f64 = 1.2;
const LONGEST: f64 = 0.15;
/// Edges that differ by less are one.
const SAME: f64 = 0.08;
/// How long an edge is believed, s: at first, how that grows when it is met again, at most.
const TRUST: f64 = 30.0;
const LONGER: f64 = 1.5;
const MOST: f64 = 240.0;
/// Part of the edge that the level keeps when somebody can have more than it.
const SPARE: f64 = 0.93;
/// A level below this part of where the search began is none.
const LEAST: f64 = 1e-4;

/// Rate per weight, bit/s.
#[derive(Clone, Debug)]
pub(super) struct Level {
    now: f64,
    begin: f64,
    upper: f64,
    /// Part of the edge at which it rests.
    rest: f64,
    /// Where somebody was short.
    edge: Option<f64>,
    /// The edge was met in large steps.
    coarse: bool,
    stride: f64,
    /// The edge while nobody had more than the level.
    common: Option<f64>,
    /// s since the edge was met, and how long it is believed.
    age: f64,
    trust: f64,
    /// s since the level changed, and since it was raised.
    pub since: f64,
    raised: f64,
}

impl Level {
    pub fn new(begin: f64, upper: f64, rest: f64) -> Self {
        Level {
            now: begin,
            begin,
            upper,
            rest,
            edge: None,
            coarse: false,
            stride: STRIDE,
            common: None,
            age: 0.0,
            trust: TRUST,
            since: 0.0,
            raised: f64::INFINITY,
        }
    }

    pub fn now(&self) -> f64 {
        self.now
    }

    pub fn pass(&mut self, elapsed: f64) {
        self.since += elapsed;
        self.raised += elapsed;
        self.age += elapsed;
    }

    pub fn set(&mut self, level: f64) {
        if level > self.now {
            self.raised = 0.0;
        }
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
        self.edge = self.edge.map(|e| e * factor);
        self.common = self.common.map(|e| e * factor);
    }

    pub fn known(&self) -> bool {
        self.edge.is_some()
    }

    pub fn coarse(&self) -> bool {
        self.coarse
    }

    /// Whether what happens now may come from a step up: within so many paces, s each.
    pub fn fresh(&self, paces: f64, pace: f64) -> bool {
        self.raised <= paces * pace
    }

    /// Whether it is as low as it may be for the sake of those who have more than it.
    pub fn spent(&self) -> bool {
        self.common.is_none_or(|edge| self.now < SPARE * edge)
    }

    /// Somebody is short at this level; `above`: somebody else has more than it.
    pub fn meet(&mut self, above: bool) {
        self.common = match self.common {
            Some(edge) if above => Some(edge.max(self.now)),
            _ => Some(self.now),
        };
        let same = self.edge.is_some_and(|e| (self.now / e - 1.0).abs() < SAME);
        self.trust = if same { (LONGER * self.trust).min(MOST) } else { TRUST };
        self.coarse = self.edge.is_none();
        (self.edge, self.age, self.stride) = (Some(self.now), 0.0, STRIDE);
    }

    /// The edge was met in small steps, or slowly.
    pub fn refine(&mut self) {
        self.coarse = false;
    }

    /// Who suffered could recover here: that says more than where it suffered.
    pub fn recovered(&mut self) {
        self.edge = self.edge.map(|e| (e * self.now).sqrt().min(e));
        self.since = 0.0;
    }

    /// Where it goes while nobody is short, and after how many paces; `None`: it rests. `calm`:
    /// nobody is near to being short.
    pub fn next(&mut self, calm: bool) -> Option<(f64, f64)> {
        let Some(edge) = self.edge else { return Some((FIRST * self.now, 1.0)) };
        let step = match () {
            () if self.coarse && self.now < NEAR * edge => (AGAIN * self.now, 1.0),
            () if self.coarse => self.small(),
            () if self.now < 0.985 * self.rest * edge => (self.rest * edge, 1.0),
            () if self.age > self.trust && calm => self.small(),
            () => return None,
        };
        Some(step)
    }

    fn small(&self) -> (f64, f64) {
        (self.now * (1.0 + (GROWTH * self.stride).min(LONGEST)), 1.5)
    }

    /// Takes a step up.
    pub fn rise(&mut self, to: f64) {
        if self.edge.is_some() {
            self.stride = (GROWTH * self.stride).min(LONGEST);
        }
        if self.edge.is_some_and(|edge| to > edge) {
            self.edge = Some(to);
        }
        self.set(to);
    }
}
