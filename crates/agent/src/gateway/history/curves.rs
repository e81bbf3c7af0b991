//! Rates, limits and starved time of homes over slots of equal length.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::Serialize;

use super::{DirectionUse, Period, read};

/// Most homes with curves.
pub const MAX_HOMES: usize = 2_000;

/// Slots of the calendar; the last one is the present slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grid {
    /// Length of a slot, in s.
    step: u32,
    /// Number of slots.
    slots: usize,
}

impl Grid {
    /// The last hour by minutes.
    pub const HOUR: Grid = Grid { step: 60, slots: 61 };
    /// The last week by hours.
    pub const WEEK: Grid = Grid { step: 3600, slots: 169 };
}

/// Sums of a home in one direction and slot.
#[derive(Clone, Copy, Default, Debug)]
struct Cell {
    bits: f32,
    /// Limit times its time, in bit.
    limit: f32,
    limited: f32,
    starved: f32,
}

/// Values of one direction by slot, the oldest first; `null` where nothing was recorded.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Debug)]
pub struct Curve {
    /// Carried rate, in kbit/s of IP packets.
    pub rate: Vec<Option<u64>>,
    /// Intended limit, in kbit/s; empty without one. In mode `observe` it is not in force.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limit: Vec<Option<u64>>,
    /// Starved time, in s; empty without one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub starved: Vec<u32>,
}

/// Curves of all homes.
#[derive(Clone, Debug)]
pub struct Curves {
    grid: Grid,
    /// End of the last slot, seconds since 1970.
    end: u64,
    /// Recorded time of each slot, in s.
    covered: Vec<f32>,
    homes: BTreeMap<String, [Vec<Cell>; 2]>,
    /// True if there are more homes than one answer has.
    pub more: bool,
}

impl Curves {
    /// Returns curves up to `now`, seconds since 1970, without a record.
    pub fn new(grid: Grid, now: u64) -> Curves {
        let step = u64::from(grid.step);
        // A clock near the end of its range has no slot after it.
        let end = (now / step).saturating_add(1).saturating_mul(step);
        let covered = vec![0.0; grid.slots];
        Curves { grid, end, covered, homes: BTreeMap::new(), more: false }
    }

    /// Reads the history of a folder up to `now`, seconds since 1970.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be read.
    pub fn read(folder: &Path, grid: Grid, now: u64) -> io::Result<Curves> {
        let mut curves = Curves::new(grid, now);
        let periods = read(folder, curves.start(), curves.end)?;
        periods.for_each(|period| curves.add(&period));
        Ok(curves)
    }

    fn start(&self) -> u64 {
        self.end.saturating_sub(u64::from(self.grid.step) * self.grid.slots as u64)
    }

    /// Adds a period; slots that it overlaps in part have that part of its sums.
    pub fn add(&mut self, period: &Period) {
        let (from, to, origin) = (period.start(), period.end, self.start());
        let (step, length) = (u64::from(self.grid.step), to.saturating_sub(from));
        if length == 0 || to <= origin || from >= self.end {
            return;
        }
        let first = (from.max(origin) - origin) / step;
        let last = (to.min(self.end) - 1 - origin) / step;
        let parts: Vec<(usize, f32)> = (first..=last)
            .map(|slot| {
                let begin = origin + slot * step;
                let overlap = to.min(begin + step).saturating_sub(from.max(begin));
                self.covered[slot as usize] += overlap as f32;
                (slot as usize, (overlap as f64 / length as f64) as f32)
            })
            .collect();
        for home in &period.homes {
            if !self.homes.contains_key(&home.name) {
                if self.homes.len() >= MAX_HOMES {
                    self.more = true;
                    continue;
                }
                let cells = || vec![Cell::default(); self.grid.slots];
                self.homes.insert(home.name.clone(), [cells(), cells()]);
            }
            let Some(ways) = self.homes.get_mut(&home.name) else { continue };
            for (cells, DirectionUse { usage, .. }) in ways.iter_mut().zip(&home.directions) {
                for (slot, part) in &parts {
                    let cell = &mut cells[*slot];
                    cell.bits += part * 8.0 * usage.bytes as f32;
                    cell.starved += part * usage.starved as f32;
                    if let Some(limit) = usage.limit {
                        let limited = part * usage.limited as f32;
                        cell.limit += limited * limit as f32;
                        cell.limited += limited;
                    }
                }
            }
        }
    }

    fn curve(&self, cells: &[Cell]) -> Curve {
        let kbps = |bits: f32, seconds: f32| {
            (seconds > 0.0).then(|| (bits / seconds / 1e3).round() as u64)
        };
        let all = || cells.iter().zip(&self.covered);
        let limit: Vec<_> = all().map(|(c, _)| kbps(c.limit, c.limited)).collect();
        let starved: Vec<u32> = all().map(|(c, _)| c.starved.round() as u32).collect();
        Curve {
            rate: all().map(|(c, covered)| kbps(c.bits, *covered)).collect(),
            limit: if limit.iter().any(Option::is_some) { limit } else { Vec::new() },
            starved: if starved.iter().any(|s| *s > 0) { starved } else { Vec::new() },
        }
    }

    /// Returns the curves of a home, down and up; zeros for a home without traffic.
    pub fn home(&self, name: &str) -> HomeCurves {
        let idle = || vec![Cell::default(); self.grid.slots];
        let ways = self.homes.get(name).map(|ways| ways.each_ref().map(|w| self.curve(w)));
        let ways = ways.unwrap_or_else(|| [self.curve(&idle()), self.curve(&idle())]);
        HomeCurves { end: self.end, step: self.grid.step, ways }
    }

    /// Returns the rates downstream and the starved time of all homes.
    pub fn all(&self) -> AllCurves<'_> {
        let homes = self.homes.iter().map(|(name, [down, up])| {
            let (Curve { rate, starved, .. }, up) = (self.curve(down), self.curve(up));
            let starved = match (starved.is_empty(), up.starved.is_empty()) {
                (false, false) => starved.iter().zip(&up.starved).map(|(a, b)| *a.max(b)).collect(),
                (true, _) => up.starved,
                _ => starved,
            };
            (name.as_str(), Curve { rate, limit: Vec::new(), starved })
        });
        AllCurves {
            end: self.end,
            step: self.grid.step,
            more: self.more,
            idle: self.curve(&vec![Cell::default(); self.grid.slots]).rate,
            homes: homes.collect(),
        }
    }
}

/// Curves of one home.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct HomeCurves {
    /// End of the last slot, seconds since 1970.
    pub end: u64,
    /// Length of a slot, in s.
    pub step: u32,
    /// Down and up.
    pub ways: [Curve; 2],
}

/// Rates downstream of all homes with traffic, and starved time of the worse direction.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct AllCurves<'a> {
    /// End of the last slot, seconds since 1970.
    pub end: u64,
    /// Length of a slot, in s.
    pub step: u32,
    /// True if homes are left out, since there are too many.
    pub more: bool,
    /// Rates of a home without traffic: 0, and `null` where nothing was recorded.
    pub idle: Vec<Option<u64>>,
    /// By name.
    pub homes: BTreeMap<&'a str, Curve>,
}

#[cfg(test)]
mod tests {
    use super::super::{HomeUse, MeshUse, Stamp, Usage};
    use super::*;

    const NOON: u64 = 1_800_000_000 / 3600 * 3600;

    /// Returns a period in which a home carries 8 kbit/s under a limit and starves.
    fn period(end: u64, seconds: u32, name: &str) -> Period {
        let usage = Usage {
            bytes: 1000 * u64::from(seconds),
            limit: Some(90_000),
            limited: seconds,
            starved: seconds,
            ..Usage::default()
        };
        let down = DirectionUse { usage, reason: String::new() };
        Period {
            stamp: Stamp::default(),
            end,
            mesh: MeshUse { seconds, ..MeshUse::default() },
            homes: vec![HomeUse { name: name.into(), directions: [down, DirectionUse::default()] }],
        }
    }

    #[test]
    fn a_record_is_divided_over_the_slots_that_it_overlaps() {
        let mut curves = Curves::new(Grid::HOUR, NOON + 90);
        // Of the minute before the present one all, of the present one a half.
        curves.add(&period(NOON + 90, 90, "a"));
        let home = curves.home("a");
        assert_eq!((home.end, home.step), (NOON + 120, 60));
        let [down, up] = &home.ways;
        assert_eq!(down.rate.len(), 61);
        assert_eq!(down.rate[58..], [None, Some(8), Some(8)], "a rate is of the recorded time");
        assert_eq!(down.limit[58..], [None, Some(90), Some(90)]);
        assert_eq!(down.starved[58..], [0, 60, 30]);
        assert_eq!(up.rate[58..], [None, Some(0), Some(0)]);
        assert!(up.limit.is_empty() && up.starved.is_empty());
        assert_eq!(curves.home("without traffic").ways[0], *up);
        let all = curves.all();
        assert_eq!(all.homes["a"].starved[59], 60);
        assert_eq!(all.idle, up.rate);
    }

    #[test]
    fn hours_are_the_week_and_older_records_are_not_in_it() {
        let mut curves = Curves::new(Grid::WEEK, NOON + 1);
        for hour in 0..400 {
            curves.add(&period(NOON - hour * 3600, 3600, "a"));
        }
        let [down, _] = curves.home("a").ways;
        assert_eq!(down.rate.len(), 169);
        assert!(down.rate[..168].iter().all(|r| *r == Some(8)));
        assert!(down.rate[168].is_none(), "the present hour has no record");
        assert!(down.starved[..168].iter().all(|s| *s == 3600));
    }

    /// Clocks and lengths of any value are skipped or divided; homes are bounded.
    #[test]
    fn any_record_is_bounded() {
        for now in [0, 1, NOON, u64::MAX - 1, u64::MAX] {
            for end in [0, 1, 59, NOON, u64::MAX] {
                for seconds in [0, 1, 60, u32::MAX] {
                    let mut curves = Curves::new(Grid::HOUR, now);
                    curves.add(&period(end, seconds, "a"));
                    assert_eq!(curves.home("a").ways[0].rate.len(), 61);
                }
            }
        }
        let mut curves = Curves::new(Grid::HOUR, NOON);
        (0..MAX_HOMES + 5).for_each(|i| curves.add(&period(NOON, 60, &format!("home {i}"))));
        assert!(curves.more && curves.all().homes.len() == MAX_HOMES);
        let text = serde_json::to_string(&curves.all()).unwrap();
        assert!(text.len() < 2_000_000, "{} bytes", text.len());
    }
}
