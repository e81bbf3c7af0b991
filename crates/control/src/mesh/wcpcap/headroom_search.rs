//! Search for the point at which the busiest queue reaches its allowed utilisation.
//!
//! It is the root of a rising function that is expensive to evaluate, near the last root.

use core::ops::RangeInclusive;

/// Relative distance from the level that is near enough.
///
/// The rest is followed along the curve.
const LEVEL_TOLERANCE: f64 = 0.01;
/// Maximum number of evaluations for one root.
const MAX_EVALUATIONS: usize = 40;
/// Number of evaluations from which the bracket is halved each time.
const BISECT_AFTER: usize = 8;
/// Largest factor by which a step may raise the load.
const MAX_LOAD_FACTOR: f64 = 4.0;

/// A curve near its edge: its slope, and the load at the edge.
///
/// A queue under load T is busy for about u = T / (c − bend · T) of the time: T / u falls in a straight line.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct QueueCurve {
    load: Option<f64>,
    bend: f64,
}

/// Parameters of a search.
pub(super) struct HeadroomSearch {
    /// Level to be reached.
    pub level: f64,
    pub range: RangeInclusive<f64>,
    /// Start if nothing is known.
    pub first: f64,
    /// Load at 0.
    pub base: f64,
    /// Further load for each step of 1.
    pub step: f64,
    /// Width at which a bracket is narrow enough.
    pub fine: f64,
}

impl HeadroomSearch {
    fn load(&self, point: f64) -> f64 {
        (self.base + self.step * point).max(0.0)
    }

    /// Returns the largest point of the range where the function is at most at its level.
    ///
    /// It is exact to `fine` or [`LEVEL_TOLERANCE`]; the range's lower end if there is none. `None` of the function is above
    /// everything.
    pub fn run(&self, last: &mut QueueCurve, mut at: impl FnMut(f64) -> Option<f64>) -> f64 {
        let (least, most) = (*self.range.start(), *self.range.end());
        let (mut low, mut high) = (None::<f64>, None::<f64>);
        let mut before: Option<(f64, f64)> = None;
        let expected = last.load.filter(|_| self.step > 0.0);
        let mut point =
            expected.map_or(self.first, |t| (t - self.base) / self.step).clamp(least, most);
        for asked in 1..=MAX_EVALUATIONS {
            let value = at(point);
            let load = self.load(point);
            match value {
                Some(v) if v <= self.level => low = Some(point),
                _ => high = Some(point),
            }
            let mut ahead = None;
            if let Some(v) = value.filter(|v| *v > 0.0 && load > 0.0 && self.step > 0.0) {
                if let Some((t, h)) = before.filter(|b| (b.0 - load).abs() > 1e-6 * load) {
                    last.bend = ((h - load / v) / (load - t)).max(0.0);
                }
                before = Some((load, load / v));
                let edge = (load / v + last.bend * load) / (1.0 / self.level + last.bend);
                let there = (edge - self.base) / self.step;
                if (v - self.level).abs() <= LEVEL_TOLERANCE {
                    last.load = Some(edge);
                    return there.clamp(least, most);
                }
                ahead = Some(there);
            }
            point = match (low, high) {
                (Some(l), _) if l >= most => return most,
                (None, Some(h)) if h <= least => return least,
                (Some(l), Some(h)) if h - l <= self.fine => {
                    last.load = Some(self.load(l));
                    return l;
                }
                (Some(l), Some(h)) => {
                    let margin = 0.05 * (h - l);
                    let inside = ahead.filter(|a| (l + margin..=h - margin).contains(a));
                    inside.filter(|_| asked < BISECT_AFTER).unwrap_or(0.5 * (l + h))
                }
                (Some(l), None) => {
                    let leap = ((MAX_LOAD_FACTOR - 1.0) * load / self.step.max(1e-12))
                        .max(10.0 * self.fine);
                    (l + ahead.map_or(leap, |a| (a - l).clamp(self.fine, leap))).min(most)
                }
                (None, Some(h)) => {
                    let back = ahead.map_or((1.0 - 1.0 / MAX_LOAD_FACTOR) * (h - least), |a| h - a);
                    (h - back.max(self.fine)).max(least)
                }
                (None, None) => return 0.0,
            };
        }
        low.unwrap_or(least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(base: f64) -> HeadroomSearch {
        HeadroomSearch {
            level: 0.7,
            range: -base..=1000.0,
            first: 0.0,
            base,
            step: 1.0,
            fine: 0.05,
        }
    }

    /// Returns the root, and the number of evaluations.
    fn found(
        s: &HeadroomSearch,
        last: &mut QueueCurve,
        f: impl Fn(f64) -> Option<f64>,
    ) -> (f64, u32) {
        let mut asked = 0;
        let at = |x: f64| {
            asked += 1;
            f(s.load(x))
        };
        (s.run(last, at), asked)
    }

    #[test]
    fn a_queue_is_found_in_a_few_questions_and_then_in_one() {
        let mut last = QueueCurve::default();
        let queue = |t: f64| (t < 400.0).then_some(t / (400.0 - 0.7 * t));
        let edge = 0.7 * 400.0 / (1.0 + 0.49);
        let (at, asked) = found(&search(50.0), &mut last, queue);
        assert!((at + 50.0 - edge).abs() < 0.2 && asked <= 4, "{at} after {asked}");
        for base in [55.0, 180.0, 300.0] {
            let (at, asked) = found(&search(base), &mut last, queue);
            assert!((at + base - edge).abs() < 0.2 && asked == 1, "{at} after {asked}");
        }
    }

    #[test]
    fn other_shapes_are_found_too() {
        let cubic = |t: f64| Some((t / 300.0).powi(3));
        let cliff = |t: f64| (t < 210.0).then_some(t / 1000.0);
        let curves: [fn(f64) -> Option<f64>; 2] = [cubic, cliff];
        for (f, edge) in curves.into_iter().zip([300.0 * libm::cbrt(0.7), 210.0]) {
            for base in [10.0, 200.0, 500.0] {
                let mut last = QueueCurve::default();
                let (at, asked) = found(&search(base), &mut last, f);
                assert!((at + base - edge).abs() < 1.0 && asked < 30, "{at} after {asked}");
                let (again, asked) = found(&search(base), &mut last, f);
                assert!((again - at).abs() < 1.0 && asked < 20, "{again} after {asked}");
            }
        }
    }

    #[test]
    fn where_there_is_no_edge_it_is_the_end_of_the_range() {
        let s = search(10.0);
        assert_eq!(s.run(&mut QueueCurve::default(), |_| Some(0.1)), 1000.0);
        assert_eq!(s.run(&mut QueueCurve::default(), |_| Some(0.0)), 1000.0);
        assert_eq!(s.run(&mut QueueCurve::default(), |_| None), -10.0);
        assert_eq!(s.run(&mut QueueCurve::default(), |_| Some(0.9)), -10.0);
        let still = HeadroomSearch { step: 0.0, ..search(10.0) };
        assert_eq!(still.run(&mut QueueCurve::default(), |_| Some(0.1)), 1000.0);
        assert_eq!(still.run(&mut QueueCurve::default(), |_| Some(0.9)), -10.0);
    }
}
