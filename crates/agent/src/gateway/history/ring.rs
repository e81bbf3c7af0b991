//! Files of a history: segments of minutes and of hours, of which the oldest are deleted.
//!
//! A record is appended by one write. A segment is never changed afterwards, except that an incomplete end is cut off, so
//! that neither a crash nor a full disk can damage more than the last record.

use std::collections::VecDeque;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::libc::O_NOFOLLOW;

use super::block::{MAGIC, Words};
use super::segment::{Block, HOURS, MINUTES, Segment, segments};
use super::{Coarse, HistorySettings, Period, Reading};

/// Segments of a full tier: one is deleted as a whole.
const SEGMENTS: u64 = 8;
/// Part of the size that hours have: one of this many.
const HOURS_PART: u64 = 2;

/// A segment on disk.
struct Stored {
    number: u64,
    bytes: u64,
    /// End of its first period, seconds since 1970 by the clock at that time.
    first: Option<u64>,
}

/// Segments of one length of periods.
struct Tier {
    folder: PathBuf,
    name: &'static str,
    /// Largest size of all segments, in bytes.
    bound: u64,
    /// Segments in the order of writing; the last one is open.
    segments: VecDeque<Stored>,
    open: Option<(File, Words)>,
    /// Number of the last segment.
    number: u64,
}

impl Tier {
    /// Opens the segments of a folder.
    ///
    /// Cuts off an incomplete end of the last one and returns its bytes.
    fn open(folder: &Path, name: &'static str, bound: u64) -> io::Result<(Tier, u64)> {
        let found = segments(folder, name)?;
        let mut tier = Tier {
            folder: folder.to_owned(),
            name,
            bound,
            segments: VecDeque::new(),
            open: None,
            number: found.last().map_or(0, |s| s.0),
        };
        for (number, path) in &found {
            let bytes = fs::symlink_metadata(path)?.len();
            let first =
                Segment::open(path).ok().flatten().and_then(|mut s| s.next_stamp()).flatten();
            let first = first.map(|s| s.wall);
            tier.segments.push_back(Stored { number: *number, bytes, first });
        }
        let mut cut = 0;
        if let Some((_, path)) = found.last()
            && let Ok(Some(mut segment)) = Segment::open(path)
        {
            let mut words = Words::default();
            let mut whole = true;
            while let Some(block) = segment.next() {
                match block {
                    Block::Good(..) => {}
                    Block::Bad => whole = false,
                }
            }
            let good = segment.good;
            cut = segment.rest();
            if let Some(known) = segment.words().filter(|_| whole) {
                words.add(known);
                let file = File::options().append(true).custom_flags(O_NOFOLLOW).open(path)?;
                if cut > 0 {
                    file.set_len(good)?;
                }
                if let Some(last) = tier.segments.back_mut() {
                    last.bytes = good;
                }
                tier.open = Some((file, words));
            }
        }
        tier.evict(0);
        Ok((tier, cut))
    }

    fn path(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{}-{number:010}.fmh", self.name))
    }

    fn bytes(&self) -> u64 {
        self.segments.iter().map(|s| s.bytes).sum()
    }

    /// Deletes the oldest segments until `more` bytes fit.
    fn evict(&mut self, more: u64) {
        while self.bytes() + more > self.bound
            && let Some(Stored { number, .. }) = self.segments.pop_front()
        {
            if self.segments.is_empty() {
                self.open = None;
            }
            // A file that another program has deleted is gone as well.
            let _ = fs::remove_file(self.path(number));
        }
    }

    fn append(&mut self, period: &Period) -> io::Result<()> {
        let empty = Words::default();
        let largest = (self.bound / SEGMENTS).max(1);
        let words = self.open.as_ref().map_or(&empty, |(_, words)| words);
        let (mut bytes, mut new) = words.encode(period);
        let length = self.segments.back().map_or(0, |s| s.bytes);
        if self.open.is_none() || length + bytes.len() as u64 > largest {
            // A new segment begins with all names.
            (bytes, new) = empty.encode(period);
            let more = (MAGIC.len() + bytes.len()) as u64;
            if more > self.bound {
                let text = format!(
                    "a record of {} homes has {more} bytes, more than the part of history.size for {}; \
                     expected a larger history.size",
                    period.homes.len(),
                    self.name
                );
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
            }
            self.start(more)?;
        }
        let more = bytes.len() as u64;
        self.evict(more);
        let length = self.segments.back().map_or(0, |s| s.bytes);
        let Some((file, words)) = &mut self.open else {
            return Err(io::Error::other("the segment was deleted"));
        };
        if let Err(e) = file.write_all(&bytes) {
            // Part of a record would end the segment for readers. If it stays, a new segment follows.
            if file.set_len(length).is_err() {
                self.open = None;
            }
            return Err(e);
        }
        words.add(new);
        if let Some(last) = self.segments.back_mut() {
            last.bytes = length + more;
            last.first.get_or_insert(period.stamp.wall);
        }
        Ok(())
    }

    /// Starts a segment for a record of this size.
    fn start(&mut self, more: u64) -> io::Result<()> {
        self.open = None;
        self.evict(more);
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let number = self.number.saturating_add(1);
        let path = self.path(number);
        let mut file = File::options()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(O_NOFOLLOW)
            .open(&path)?;
        if let Err(e) = file.write_all(MAGIC) {
            let _ = fs::remove_file(&path);
            return Err(e);
        }
        self.number = number;
        let bytes = MAGIC.len() as u64;
        self.segments.push_back(Stored { number, bytes, first: None });
        self.open = Some((file, Words::default()));
        Ok(())
    }
}

/// A history on disk, as its only writer has it.
pub struct Ring {
    minutes: Tier,
    hours: Tier,
    hour: Coarse,
    next: u64,
    /// Bytes of incomplete records that were cut off when it was opened.
    pub cut: u64,
}

impl Ring {
    /// Opens the history of a folder, which is created with the first record.
    ///
    /// Minutes that no hour contains yet, such as after a crash, become hours.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be read or repaired.
    pub fn open(settings: &HistorySettings) -> io::Result<Ring> {
        let folder = &settings.folder;
        let hours = settings.size / HOURS_PART;
        let (hours, cut_hours) = Tier::open(folder, HOURS, hours)?;
        let (minutes, cut_minutes) =
            Tier::open(folder, MINUTES, settings.size - settings.size / HOURS_PART)?;
        let cut = cut_hours + cut_minutes;
        let mut ring = Ring { minutes, hours, hour: Coarse::default(), next: 0, cut };
        let pending = Reading::pending(folder)?;
        ring.next = pending.next;
        for minute in pending.minutes {
            if let Some(hour) = ring.hour.add(&minute) {
                ring.hours.append(&hour)?;
            }
        }
        Ok(ring)
    }

    /// Stores a minute, and the hour before it if that has ended.
    ///
    /// # Errors
    /// Returns the system's, such as a full disk. The minute is lost, earlier ones stay.
    pub fn store(&mut self, mut minute: Period) -> io::Result<()> {
        (minute.stamp.first, minute.stamp.last) = (self.next, self.next);
        self.minutes.append(&minute)?;
        self.next = self.next.saturating_add(1);
        match self.hour.add(&minute) {
            Some(hour) => self.hours.append(&hour),
            None => Ok(()),
        }
    }

    /// Returns the bytes of all records.
    pub fn bytes(&self) -> u64 {
        self.minutes.bytes() + self.hours.bytes()
    }

    /// Returns the end of the oldest period, seconds since 1970 by the clock at that time.
    pub fn oldest(&self) -> Option<u64> {
        let first = |tier: &Tier| tier.segments.iter().find_map(|s| s.first);
        first(&self.hours).or_else(|| first(&self.minutes))
    }
}
