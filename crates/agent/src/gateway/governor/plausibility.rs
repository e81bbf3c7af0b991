//! Plausibility of a direction's counters as a whole.

use fairmesh_linux::SentCounters;
use fairmesh_units::{Span, Time};

use super::direction::MAX_FAULTS;

/// Plausibility of a sample of all counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sanity {
    /// Plausible.
    Sane,
    /// Implausible for the first time.
    Doubtful,
    /// The classes' counters do not change while the interface sends.
    Stuck,
    /// Most counters are missing, decreased or are beyond the bytes that the interface sent.
    Nonsense,
}

/// Bytes that classes may count more than their interface between two samples.
///
/// Their packets wait in the driver, and the kernel counts the headers of segments that the driver
/// has yet to create.
const SLACK: u64 = 256 * 1024;
/// Largest plausible rate of an interface, bytes/s: 1 Tbit/s.
const MAX_RATE_BYTES_PER_S: u64 = 125_000_000_000;
/// Bytes sent for subscribers from which a direction without a byte counts as stuck.
const STUCK_BYTES: u64 = 64 * 1024;

#[derive(Clone, Copy, Default, Debug)]
struct Side {
    /// Bytes sent by the interface at the last sample, and the part outside subscribers' classes.
    last: Option<(u64, u64)>,
    /// Increase of both values since the last sample; `None`: unknown.
    sent: Option<(u64, u64)>,
    credible: u64,
    moved: u64,
    based: u32,
    good: u32,
    bad: u32,
    /// Consecutive samples without traffic in classes.
    stuck: u8,
    /// Consecutive samples with mostly implausible counters.
    nonsense: u8,
}

/// Both directions.
#[derive(Clone, Default, Debug)]
pub(super) struct Plausibility {
    sides: [Side; 2],
    sampled_at: Option<Time>,
}

impl Plausibility {
    /// Begins a sample, with the counters of the interfaces if they could be read.
    pub fn look(&mut self, now: Time, interfaces: [Option<SentCounters>; 2]) {
        let elapsed = self.sampled_at.replace(now).map_or(Span::ZERO, |t| now.since(t));
        for (side, counters) in self.sides.iter_mut().zip(interfaces) {
            let new = counters.map(|c| (c.bytes, c.unmapped.saturating_add(c.bypass)));
            let differ = |(new, old): ((u64, u64), (u64, u64))| {
                Some((new.0.checked_sub(old.0)?, new.1.checked_sub(old.1)?))
            };
            side.sent = new.zip(side.last).and_then(differ);
            side.last = new;
            let fastest = (elapsed.as_secs_f64() * MAX_RATE_BYTES_PER_S as f64) as u64;
            let sent = side.sent.map_or(u64::MAX, |(sent, _)| sent.saturating_add(sent / 4));
            side.credible = sent.min(fastest).saturating_add(SLACK);
            (side.moved, side.based, side.good, side.bad) = (0, 0, 0, 0);
        }
    }

    /// Returns the largest plausible increase of a class in this sample.
    pub fn credible(&self, d: usize) -> u64 {
        self.sides[d].credible
    }
    pub fn moved(&mut self, d: usize, bytes: u64) {
        self.sides[d].moved = self.sides[d].moved.saturating_add(bytes);
        self.sides[d].good += 1;
    }
    pub fn based(&mut self, d: usize) {
        self.sides[d].based += 1;
    }
    pub fn bad(&mut self, d: usize) {
        self.sides[d].bad += 1;
    }

    /// Returns the mean of the last value and a direction's part of the bytes in this sample.
    pub fn part(&self, d: usize, before: f64) -> f64 {
        let all: f64 = self.sides.iter().map(|s| s.moved as f64).sum();
        if all < STUCK_BYTES as f64 {
            return before;
        }
        (before + self.sides[d].moved as f64 / all) / 2.0
    }

    /// Ends a sample and returns its plausibility.
    pub fn judge(&mut self) -> Sanity {
        let mut verdict = Sanity::Sane;
        for side in &mut self.sides {
            let others = side.sent.is_some_and(|(sent, nobodys)| {
                sent.saturating_sub(nobodys) > STUCK_BYTES + sent / 10
            });
            let stuck = side.moved == 0 && side.good > 0 && side.bad == 0 && others;
            let nonsense = side.bad > side.good + side.based;
            // Traffic may be in a class of which this is the first counter.
            let stuck = stuck && side.based == 0;
            side.stuck = match () {
                () if stuck => side.stuck.saturating_add(1),
                () if side.based > 0 && side.moved == 0 => side.stuck,
                () => 0,
            };
            side.nonsense = if nonsense { side.nonsense.saturating_add(1) } else { 0 };
            let this = match () {
                () if side.stuck >= MAX_FAULTS => Sanity::Stuck,
                () if side.nonsense >= MAX_FAULTS => Sanity::Nonsense,
                () if stuck || nonsense => Sanity::Doubtful,
                () => Sanity::Sane,
            };
            if verdict == Sanity::Sane || (verdict == Sanity::Doubtful && this != Sanity::Sane) {
                verdict = this;
            }
        }
        verdict
    }
}
