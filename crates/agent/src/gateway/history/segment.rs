//! Segments of a history on disk: their names, and the blocks of one.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::libc::{O_NOFOLLOW, O_NONBLOCK};

use super::block::{self, Names};
use super::{Period, Stamp};

/// Names of the segments with minutes and with hours.
pub(super) const MINUTES: &str = "minutes";
pub(super) const HOURS: &str = "hours";

/// Returns the segments of a tier in the order of writing: number and path.
pub(super) fn segments(folder: &Path, tier: &str) -> io::Result<Vec<(u64, PathBuf)>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let number = path.file_name().and_then(|n| n.to_str()).and_then(|name| {
            name.strip_prefix(tier)?.strip_prefix('-')?.strip_suffix(".fmh")?.parse().ok()
        });
        found.extend(number.map(|n| (n, path)));
    }
    found.sort_unstable();
    Ok(found)
}

/// Reader of one segment.
pub(super) struct Segment {
    file: BufReader<File>,
    length: u64,
    /// Position after the last complete block.
    pub good: u64,
    names: Names,
}

/// A block of a segment.
pub(super) enum Block {
    Good(Period, u64),
    Bad,
}

impl Segment {
    /// Opens a segment; `None`: another file.
    pub fn open(path: &Path) -> io::Result<Option<Segment>> {
        let opened = File::options().read(true).custom_flags(O_NOFOLLOW | O_NONBLOCK).open(path)?;
        let metadata = opened.metadata()?;
        if !metadata.is_file() {
            return Ok(None);
        }
        let mut file = BufReader::new(opened);
        let mut magic = [0; 8];
        let known = file.read_exact(&mut magic).is_ok() && magic == *block::MAGIC;
        let (length, good) = (metadata.len(), magic.len() as u64);
        Ok(known.then(|| Segment { file, length, good, names: Names::new() }))
    }

    /// Reads the frame of the next block; `None` at the end and at damage.
    fn frame(&mut self) -> Option<(usize, u32)> {
        let mut head = [0; 8];
        self.file.read_exact(&mut head).ok()?;
        let (length, sum) = block::frame(&head)?;
        // Memory is only taken for bytes that exist.
        (self.good + 8 + length as u64 <= self.length).then_some((length, sum))
    }

    /// Reads the next block; `None` at the end or where no block follows.
    pub fn next(&mut self) -> Option<Block> {
        let (length, sum) = self.frame()?;
        let mut content = vec![0; length];
        self.file.read_exact(&mut content).ok()?;
        self.good += 8 + length as u64;
        Some(match block::decode(&content, sum, &mut self.names) {
            Some((period, unknown)) => Block::Good(period, unknown),
            None => Block::Bad,
        })
    }

    /// Reads the next stamp and skips its values; the inner `None` is a damaged one.
    pub fn next_stamp(&mut self) -> Option<Option<Stamp>> {
        let (length, _) = self.frame()?;
        let mut stamp = [0; block::HEAD_BYTES - 8];
        self.file.read_exact(&mut stamp).ok()?;
        self.file.seek_relative((length - stamp.len()) as i64).ok()?;
        self.good += 8 + length as u64;
        Some(block::stamp(&stamp))
    }

    /// Returns the bytes behind the last complete block.
    pub fn rest(&self) -> u64 {
        self.length.saturating_sub(self.good)
    }

    /// Returns the names of the segment; `None` if some were in a damaged record.
    pub fn words(self) -> Option<Vec<String>> {
        self.names.into_iter().collect()
    }
}
