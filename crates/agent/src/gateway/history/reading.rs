//! Reading of a history, beside the daemon or after it.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use super::segment::{Block, HOURS, MINUTES, Segment, segments};
use super::{Period, Stamp};

/// Parts of a history that could not be read.
#[derive(Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize, Debug)]
pub struct Damage {
    /// Records with a wrong checksum.
    pub records: u64,
    /// Bytes without a record: an incomplete end, or the rest of a segment after damage.
    pub bytes: u64,
    /// Values of homes with names in a damaged record.
    pub homes: u64,
}

impl Damage {
    /// True if everything could be read.
    pub fn is_none(&self) -> bool {
        *self == Damage::default()
    }
}

/// A segment that is to be read, with the minutes that are wanted of it.
struct Part {
    path: PathBuf,
    /// Numbers of the wanted first minutes.
    first: core::ops::Range<u64>,
}

/// Iterator over the periods of a folder.
pub struct Reading {
    parts: std::vec::IntoIter<Part>,
    open: Option<(Segment, core::ops::Range<u64>)>,
    /// Difference between the calendar and the run's own clock, s, by run.
    offsets: HashMap<u64, i128>,
    since: u64,
    until: u64,
    damage: Damage,
}

/// Minutes that no hour contains, for the writer.
pub(super) struct Pending {
    pub minutes: Reading,
    /// Number of the next minute.
    pub next: u64,
}

/// Segments of a folder with their stamps.
struct Scan {
    minutes: Vec<(PathBuf, Vec<Stamp>)>,
    hours: Vec<(PathBuf, Vec<Stamp>)>,
    offsets: HashMap<u64, i128>,
}

impl Scan {
    fn new(folder: &Path) -> io::Result<Scan> {
        let tier = |name: &str| -> io::Result<Vec<(PathBuf, Vec<Stamp>)>> {
            let mut all = Vec::new();
            for (_, path) in segments(folder, name)? {
                // The daemon may have deleted it in between.
                let Ok(Some(mut segment)) = Segment::open(&path) else { continue };
                let stamps = std::iter::from_fn(|| segment.next_stamp()).flatten().collect();
                all.push((path, stamps));
            }
            Ok(all)
        };
        let (minutes, hours) = (tier(MINUTES)?, tier(HOURS)?);
        let mut offsets = HashMap::new();
        // The last clock of a run is the best: a router may know the time only later.
        let mut newest = HashMap::new();
        for stamp in hours.iter().chain(&minutes).flat_map(|(_, stamps)| stamps) {
            let known = newest.entry(stamp.run).or_insert(0);
            if stamp.up >= *known {
                *known = stamp.up;
                offsets.insert(stamp.run, i128::from(stamp.wall) - i128::from(stamp.up));
            }
        }
        Ok(Scan { minutes, hours, offsets })
    }

    fn stamps(&self) -> impl Iterator<Item = &Stamp> {
        self.hours.iter().chain(&self.minutes).flat_map(|(_, stamps)| stamps)
    }
}

impl Reading {
    pub(super) fn open(folder: &Path, since: u64, until: u64) -> io::Result<Reading> {
        let scan = Scan::new(folder)?;
        // Hours up to the one with the oldest minute, then the minutes after it.
        let minutes = scan.minutes.iter().flat_map(|m| &m.1);
        let oldest = minutes.map(|s| s.first).min().unwrap_or(u64::MAX);
        let hours = scan.hours.iter().flat_map(|h| &h.1).filter(|s| s.first < oldest);
        let from = hours.map(|s| s.last.saturating_add(1)).max().unwrap_or(0);
        Ok(Reading::of(scan, 0..oldest, from..u64::MAX, (since, until)))
    }

    /// Returns the minutes that no hour contains.
    pub(super) fn pending(folder: &Path) -> io::Result<Pending> {
        let scan = Scan::new(folder)?;
        let next = scan.stamps().map(|s| s.last.saturating_add(1)).max().unwrap_or(0);
        let hours = scan.hours.iter().flat_map(|h| &h.1);
        let from = hours.map(|s| s.last.saturating_add(1)).max().unwrap_or(0);
        let minutes = Reading::of(scan, 0..0, from..u64::MAX, (0, u64::MAX));
        Ok(Pending { minutes, next })
    }

    fn of(
        scan: Scan,
        hours: core::ops::Range<u64>,
        minutes: core::ops::Range<u64>,
        (since, until): (u64, u64),
    ) -> Reading {
        let Scan { minutes: fine, hours: coarse, offsets } = scan;
        let part = |(path, stamps): (PathBuf, Vec<Stamp>), first: core::ops::Range<u64>| {
            let inside = |s: &&Stamp| first.contains(&s.first);
            let wanted = stamps.iter().filter(inside).any(|s| corrected(&offsets, s) > since);
            // A segment without a readable record is read for the count of its bytes.
            (stamps.is_empty() || wanted).then_some(Part { path, first })
        };
        let parts: Vec<Part> = coarse
            .into_iter()
            .filter_map(|h| part(h, hours.clone()))
            .chain(fine.into_iter().filter_map(|m| part(m, minutes.clone())))
            .collect();
        let parts = parts.into_iter();
        Reading { parts, open: None, offsets, since, until, damage: Damage::default() }
    }

    /// Returns the damage that was met so far; complete after the last period.
    pub fn damage(&self) -> Damage {
        self.damage
    }
}

/// Returns the end of a period by the last known clock of its run.
fn corrected(offsets: &HashMap<u64, i128>, stamp: &Stamp) -> u64 {
    let offset = offsets.get(&stamp.run).copied();
    let end = offset.map_or(i128::from(stamp.wall), |o| i128::from(stamp.up) + o);
    u64::try_from(end.max(0)).unwrap_or(u64::MAX)
}

impl Iterator for Reading {
    type Item = Period;

    fn next(&mut self) -> Option<Period> {
        loop {
            let Some((segment, first)) = &mut self.open else {
                let part = self.parts.next()?;
                if let Ok(Some(segment)) = Segment::open(&part.path) {
                    self.open = Some((segment, part.first));
                }
                continue;
            };
            match segment.next() {
                Some(Block::Good(mut period, unknown)) => {
                    period.end = corrected(&self.offsets, &period.stamp);
                    let wanted = first.contains(&period.stamp.first)
                        && period.end > self.since
                        && period.start() < self.until;
                    if wanted {
                        self.damage.homes += unknown;
                        return Some(period);
                    }
                }
                Some(Block::Bad) => self.damage.records += 1,
                None => {
                    self.damage.bytes += segment.rest();
                    self.open = None;
                }
            }
        }
    }
}
