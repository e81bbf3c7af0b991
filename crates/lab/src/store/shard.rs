//! A shard: the append-only file of one writer, a JSON object per line.
//!
//! The first line is a [`Header`]; each other line is a record. A line counts if its line end is
//! present: a stopped writer leaves an unfinished last line.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::error::{Damage, Operation, StoreError};
use crate::job::key::{JobKey, Revision};
use crate::layout::GENERATOR;

/// Version of the layout of shards.
const LAYOUT_VERSION: u32 = 1;
/// Extension of shards. Other files of the folder are not touched.
const SHARD_EXTENSION: &str = "jsonl";
const SHARD_PREFIX: &str = "shard-";
/// Longest line, bytes: no record is larger, and a damaged shard does not fill the memory.
const MAX_LINE_BYTES: usize = 256 << 20;

/// First line of a shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    /// [`LAYOUT_VERSION`].
    pub store: u32,
    /// Revision of the program that wrote it.
    pub revision: String,
    /// Name and version of that program, for readers.
    pub generator: String,
}

/// A line of a shard, as written and as read.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    key: &'a str,
    kind: &'a str,
    /// Checksum of key, kind and the value's text.
    crc32: u32,
    #[serde(borrow)]
    value: &'a RawValue,
}

/// A record's place in its shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// Offset of its line, in bytes.
    pub offset: u64,
    /// Length of its line without the line end, in bytes.
    pub length: u32,
    /// Line of the record, counted from 1.
    pub line: u64,
    /// Checksum of the record: all records of one key must have the same.
    pub sum: u32,
}

/// Reads complete lines of a shard from a position on.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    pub file: PathBuf,
    /// Bytes read so far, all of them complete lines.
    position: u64,
    /// Lines read so far.
    lines: u64,
    /// Revision of its header; `None` until that is complete.
    pub revision: Option<String>,
}

impl Reader {
    pub fn new(file: PathBuf) -> Self {
        Reader { file, position: 0, lines: 0, revision: None }
    }

    /// Calls `found` for each record that was completed since the last call.
    /// Returns the length of the incomplete last line. Records of a revision other than `revision` are not read.
    pub fn advance(
        &mut self,
        revision: &Revision,
        mut found: impl FnMut(JobKey, Span) -> Result<(), StoreError>,
    ) -> Result<u64, StoreError> {
        let unreadable = |e| StoreError::io(&self.file, Operation::Read)(e);
        let mut file = match File::open(&self.file) {
            Ok(file) => file,
            // Removed by another process that empties the store.
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(0),
            Err(e) => return Err(unreadable(e)),
        };
        file.seek(SeekFrom::Start(self.position)).map_err(unreadable)?;
        let mut reader = BufReader::with_capacity(1 << 16, file);
        let mut line = Vec::new();
        loop {
            if self.revision.as_deref().is_some_and(|r| r != revision.as_str()) {
                return Ok(0);
            }
            line.clear();
            let n = reader
                .by_ref()
                .take(MAX_LINE_BYTES as u64 + 1)
                .read_until(b'\n', &mut line)
                .map_err(StoreError::io(&self.file, Operation::Read))?;
            let number = self.lines + 1;
            let damaged = |damage| StoreError::damaged(&self.file, number, damage);
            if n > MAX_LINE_BYTES {
                return Err(damaged(Damage::Length { most: MAX_LINE_BYTES }));
            }
            if line.pop() != Some(b'\n') {
                return Ok(n as u64);
            }
            if self.revision.is_none() {
                let header: Header =
                    serde_json::from_slice(&line).map_err(|e| damaged(Damage::Header(e)))?;
                if header.store != LAYOUT_VERSION {
                    let found = header.store;
                    return Err(damaged(Damage::HeaderLayout { found, expected: LAYOUT_VERSION }));
                }
                self.revision = Some(header.revision);
            } else {
                let (key, _, _, sum) = parse(&line).map_err(damaged)?;
                let length = line.len() as u32;
                found(key, Span { offset: self.position, length, line: number, sum })?;
            }
            self.position += n as u64;
            self.lines = number;
        }
    }

    /// Returns the line number of an incomplete rest.
    pub fn next_line(&self) -> u64 {
        self.lines + 1
    }

    /// Returns true if the process that writes the shard is running.
    pub fn has_writer(&self) -> bool {
        let Ok(file) = File::open(&self.file) else { return false };
        matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
    }
}

/// Returns key, kind, text and checksum of a record's line.
fn parse(line: &[u8]) -> Result<(JobKey, &str, &str, u32), Damage> {
    let Line { key, kind, crc32, value } = serde_json::from_slice(line).map_err(Damage::Layout)?;
    let found = checksum(key, kind, value.get());
    if found != crc32 {
        return Err(Damage::Checksum { found, expected: crc32 });
    }
    Ok((key.parse()?, kind, value.get(), found))
}

fn checksum(key: &str, kind: &str, value: &str) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for part in [key, "\n", kind, "\n", value] {
        hasher.update(part.as_bytes());
    }
    hasher.finalize()
}

/// Returns a record's line without its line end, and its checksum.
pub(super) fn encode(
    key: &JobKey,
    kind: &str,
    value: &impl Serialize,
) -> Result<(Vec<u8>, u32), serde_json::Error> {
    let value = serde_json::value::to_raw_value(value)?;
    let key = key.to_string();
    let crc32 = checksum(&key, kind, value.get());
    let line = Line { key: &key, kind, crc32, value: &value };
    Ok((serde_json::to_vec(&line)?, crc32))
}

/// Reads one record's line and passes its kind and the text of its value to `then`.
pub(super) fn read_at<T>(
    file: &Path,
    span: &Span,
    then: impl FnOnce(&[u8], &str, &str) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let unreadable = |e| StoreError::io(file, Operation::Read)(e);
    let mut shard = File::open(file).map_err(unreadable)?;
    shard.seek(SeekFrom::Start(span.offset)).map_err(unreadable)?;
    let mut line = vec![0; span.length as usize];
    shard.read_exact(&mut line).map_err(unreadable)?;
    let (_, kind, value, _) =
        parse(&line).map_err(|damage| StoreError::damaged(file, span.line, damage))?;
    then(&line, kind, value)
}

/// Returns the shards of a folder, sorted by name.
pub(super) fn shards_of(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    list(folder, |name| {
        name.starts_with(SHARD_PREFIX) && name.ends_with(&format!(".{SHARD_EXTENSION}"))
    })
}

fn list(folder: &Path, wanted: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>, StoreError> {
    let unreadable = |e| StoreError::io(folder, Operation::Read)(e);
    let mut out = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        if entry.file_name().to_str().is_some_and(&wanted) {
            out.push(entry.path());
        }
    }
    out.sort();
    Ok(out)
}

/// Removes every shard of a folder, and unfinished new shards of stopped writers.
/// Nothing is removed while another process writes one of them.
pub(super) fn remove_all(folder: &Path) -> Result<(), StoreError> {
    let ours = |name: &str| name.trim_start_matches('.').starts_with(SHARD_PREFIX);
    let mut locked = Vec::new();
    for path in list(folder, ours)? {
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            Err(e) => return Err(StoreError::io(&path, Operation::Read)(e)),
        };
        if matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
            return Err(StoreError::InUse(path));
        }
        locked.push((path, file));
    }
    for (path, _lock) in &locked {
        fs::remove_file(path).map_err(StoreError::io(path, Operation::Remove))?;
    }
    Ok(())
}

/// The shard that a store appends to.
#[derive(Debug)]
pub(super) struct Writer {
    pub path: PathBuf,
    file: File,
    /// Bytes of complete lines.
    length: u64,
    /// Number of complete lines.
    lines: u64,
}

impl Writer {
    /// Creates a shard under a name that no other writer has.
    ///
    /// The file appears with a complete header.
    pub fn create(folder: &Path, revision: &Revision) -> Result<Self, StoreError> {
        let header = Header {
            store: LAYOUT_VERSION,
            revision: revision.to_string(),
            generator: GENERATOR.to_owned(),
        };
        let encode = |e: serde_json::Error| StoreError::io(folder, Operation::Create)(e.into());
        let mut line = serde_json::to_vec(&header).map_err(encode)?;
        line.push(b'\n');
        let process = std::process::id();
        for n in 0_u64.. {
            let name = format!("{SHARD_PREFIX}{process}-{n}.{SHARD_EXTENSION}");
            let path = folder.join(&name);
            let temporary = folder.join(format!(".{name}"));
            if path.exists() {
                continue;
            }
            let options = OpenOptions::new().append(true).create_new(true).clone();
            let mut file = match options.open(&temporary) {
                Ok(file) => file,
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(e) => return Err(StoreError::io(folder, Operation::Create)(e)),
            };
            // The writer with the temporary name may use the final one, unless it exists already.
            if path.exists() {
                let _ = fs::remove_file(&temporary);
                continue;
            }
            // File systems without locks have no check for running writers.
            let _ = file.try_lock();
            let created = file
                .write_all(&line)
                .and_then(|()| file.sync_data())
                .and_then(|()| fs::rename(&temporary, &path));
            if let Err(e) = created {
                let _ = fs::remove_file(&temporary);
                return Err(StoreError::io(&path, Operation::Create)(e));
            }
            return Ok(Writer { path, file, length: line.len() as u64, lines: 1 });
        }
        Err(StoreError::io(folder, Operation::Create)(io::ErrorKind::AlreadyExists.into()))
    }

    /// Appends a record's line.
    ///
    /// After an error the shard must not be written again, because its last line may be incomplete.
    pub fn append(&mut self, mut line: Vec<u8>, sum: u32) -> Result<Span, StoreError> {
        if line.len() >= MAX_LINE_BYTES {
            return Err(StoreError::damaged(
                &self.path,
                self.lines + 1,
                Damage::Length { most: MAX_LINE_BYTES },
            ));
        }
        let length = line.len() as u32;
        line.push(b'\n');
        if let Err(e) = self.file.write_all(&line) {
            // If this fails too, readers ignore the incomplete line.
            let _ = self.file.set_len(self.length);
            return Err(StoreError::io(&self.path, Operation::Write)(e));
        }
        let span = Span { offset: self.length, length, line: self.lines + 1, sum };
        self.length += line.len() as u64;
        self.lines += 1;
        Ok(span)
    }

    /// Returns a second handle of the file, for synchronising while other threads append.
    pub fn handle(&self) -> Result<File, StoreError> {
        self.file.try_clone().map_err(StoreError::io(&self.path, Operation::Write))
    }
}
