//! History of every home by minute and by hour, in a folder of bounded size.
//!
//! [`Recorder`] turns the daemon's samples into [`Period`]s without a clock; [`HistoryWriter`] stores them on a thread of
//! its own; [`read`] returns them in the order of writing. Minutes are dropped before hours: half of the size is for hours.

mod block;
mod coarse;
mod curves;
mod reading;
mod recorder;
mod replay;
mod ring;
mod segment;
mod summary;
mod writer;

use std::io;
use std::path::Path;

use fairmesh_units::Span;
use serde::{Deserialize, Serialize};

pub use coarse::Coarse;
pub use curves::{AllCurves, Curve, Curves, Grid, HomeCurves};
pub use reading::{Damage, Reading};
pub use recorder::{Recorded, Recorder};
pub use replay::{Replay, ReplayedHome, replay};
pub use ring::Ring;
pub use summary::{Bottleneck, CongestedHour, PlanReport, StarvedHome, Summary, instant};
pub use writer::{HistoryReport, HistoryWriter};

/// Settings of the history.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HistorySettings {
    /// Folder of the records.
    pub folder: std::path::PathBuf,
    /// Largest size of all records together, bytes; 0: no history.
    pub size: u64,
    /// Length of the shortest records, a minute by default.
    pub period: Span,
}

impl HistorySettings {
    /// Default length of the shortest records.
    pub const PERIOD: Span = Span::from_secs(60);
    /// Default size, in bytes.
    pub const DEFAULT_SIZE: u64 = 32 << 20;
    /// Smallest size of a history, in bytes.
    pub const SMALLEST: u64 = 64 << 10;
    /// Largest size, in bytes.
    pub const LARGEST: u64 = 64 << 30;
}

/// Place of a period among all others, by both clocks.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stamp {
    /// Identity of the daemon's run.
    pub run: u64,
    /// End, seconds since the start of the run.
    pub up: u64,
    /// End, seconds since 1970 by the clock at that time.
    pub wall: u64,
    /// Number of its first minute; minutes count on over all runs.
    pub first: u64,
    /// Number of its last minute.
    pub last: u64,
}

/// True if a part is at least half of the whole; without overflow.
const fn is_most(part: u32, whole: u32) -> bool {
    part >= whole.div_ceil(2)
}

/// A minute, or minutes of one hour of the clock.
#[derive(Clone, PartialEq, Default, Serialize, Debug)]
pub struct Period {
    /// Place among all periods.
    #[serde(skip)]
    pub stamp: Stamp,
    /// End, seconds since 1970 by the last known clock of the daemon's run.
    pub end: u64,
    /// The mesh as a whole.
    pub mesh: MeshUse,
    /// Homes with traffic.
    pub homes: Vec<HomeUse>,
}

impl Period {
    /// Returns the hour of the clock with most of it, in hours since 1970.
    pub fn hour(&self) -> u64 {
        (self.start() / 2 + self.end / 2) / 3600
    }

    /// Returns the start, seconds since 1970.
    pub fn start(&self) -> u64 {
        self.end.saturating_sub(u64::from(self.mesh.seconds))
    }
}

/// The mesh as a whole in a period; times are in seconds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub struct MeshUse {
    /// Length of the period.
    pub seconds: u32,
    /// Time in mode `apply`.
    pub apply: u32,
    /// Time with limits in force.
    pub enforced: u32,
    /// Time in which congestion could be seen.
    ///
    /// It is seen by a limit of the control, `[[neighbour]]` or round trips.
    pub visible: u32,
    /// Time with congestion.
    pub congested: u32,
    /// Time at the bound of `[[neighbour]]`.
    pub at_bound: u32,
    /// Time with a home at the limit that the control sets, or would set.
    pub held: u32,
    /// Time with round trips through the mesh far above the least.
    pub delayed: u32,
    /// Bound of `[[neighbour]]`, bit/s.
    pub bound: Option<u64>,
    /// IP bytes of all homes in the congested time.
    pub congested_bytes: u64,
    /// Max-min level of the carried traffic, bit/s per weight.
    ///
    /// The mean of the congested time with a level.
    pub level: Option<u64>,
    /// Time of this level.
    pub level_seconds: u32,
}

/// A home in a period.
#[derive(Clone, PartialEq, Default, Serialize, Debug)]
pub struct HomeUse {
    /// Name of the subscriber.
    pub name: String,
    /// Downstream and upstream.
    pub directions: [DirectionUse; 2],
}

impl HomeUse {
    /// Returns the longer time of starvation of both directions, in s.
    pub fn starved(&self) -> u32 {
        self.directions[0].usage.starved.max(self.directions[1].usage.starved)
    }
}

/// A home in one direction in a period.
#[derive(Clone, PartialEq, Default, Serialize, Debug)]
pub struct DirectionUse {
    /// Numbers.
    #[serde(flatten)]
    pub usage: Usage,
    /// Code of the last change of the intended limit; empty: none.
    pub reason: String,
}

/// Origin of a limit.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum LimitedBy {
    /// Nothing.
    #[default]
    Nothing,
    /// The control.
    Control,
    /// The control's aggregate limit.
    Aggregate,
    /// The plan's ceiling.
    Plan,
    /// An operator's override.
    Override,
}

/// Numbers of a home in one direction; bytes are of IP packets, times in seconds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Debug)]
pub struct Usage {
    /// Carried bytes.
    pub bytes: u64,
    /// Packets dropped in the gateway's queue.
    pub drops: u64,
    /// Intended limit, bit/s: mean of the time with one. In mode `observe` it is not in force.
    pub limit: Option<u64>,
    /// Time with an intended limit.
    pub limited: u32,
    /// The plan's ceiling, in bit/s.
    pub ceiling: Option<u64>,
    /// Origin of the limit at the end.
    pub limited_by: LimitedBy,
    /// Largest median round trip through the mesh, in ms.
    pub round_trip_ms: Option<u32>,
    /// Time with data packets.
    pub active: u32,
    /// Time at the intended limit of the control.
    pub held: u32,
    /// Time with demand and less than a tenth of the due rate.
    pub starved: u32,
    /// Part of it in which headers or a queue show the demand; otherwise continuous traffic does.
    pub confirmed: u32,
    /// Bytes carried while starved.
    pub starved_bytes: u64,
    /// Bytes that were due while starved.
    pub due_bytes: u64,
}

/// Reads the periods of a folder that overlap a time, in the order of writing.
///
/// `since` and `until` are seconds since 1970. Minutes where they are kept, hours before. It may run beside the daemon.
///
/// # Errors
/// The folder cannot be read. Damaged records are skipped and counted in [`Reading::damage`].
pub fn read(folder: &Path, since: u64, until: u64) -> io::Result<Reading> {
    Reading::open(folder, since, until)
}

/// Returns true if a folder does not exist or has no records.
///
/// # Errors
/// The folder cannot be read.
pub fn is_absent(folder: &Path) -> io::Result<bool> {
    Ok(segment::segments(folder, segment::MINUTES)?.is_empty()
        && segment::segments(folder, segment::HOURS)?.is_empty())
}

#[cfg(test)]
mod tests;
