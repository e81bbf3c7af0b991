//! Results by key: a folder of append-only files that several processes can write.
//!
//! Every writer has its own shard, a file of JSON lines that begins with the revision of the
//! program; readers read all shards. There is no lock between writers: the same key may be written
//! twice, with equal content. A record is on disk when [`Store::put`] returns (`fdatasync`). A
//! writer that is stopped loses at most the record that it was writing; [`Store::notices`] names
//! its file and line. In memory a store has an index of keys and offsets, not the records.

pub(crate) mod error;
mod shard;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use error::{Damage, Notice, Operation, Place, StoreError};
use shard::{Reader, Span, Writer};

use crate::job::key::{JobKey, Revision};
use crate::record::RunRecord;

/// A type of record that stores hold.
pub trait Stored: Serialize + DeserializeOwned {
    /// Name of the kind in the store.
    ///
    /// It is part of each record, so that a key never gives a record of another kind.
    const KIND: &'static str;
}

impl Stored for RunRecord {
    const KIND: &'static str = "run";
}

/// Treatment of records of another revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OtherRevisions {
    /// A store that has any is rejected with [`StoreError::OtherRevision`].
    #[default]
    Refuse,
    /// Other records stay in the folder and are not used ([`Notice::Unused`]).
    ///
    /// Programs of their revision can use them again.
    Keep,
    /// All records are removed, those of this revision too.
    /// Rejected while another process writes the store.
    Fresh,
}

/// An open store. Usable from several threads.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    revision: Revision,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    shards: Vec<Reader>,
    index: HashMap<JobKey, (u32, Span)>,
    writer: Option<(u32, Writer)>,
    notices: Vec<Notice>,
}

impl Store {
    /// Opens the store in `folder` for records of this program.
    /// The folder is created if it does not exist.
    ///
    /// # Errors
    /// If the folder cannot be used, a shard is damaged, or records of another revision are rejected.
    pub fn open(folder: &Path, others: OtherRevisions) -> Result<Self, StoreError> {
        Self::open_at(folder, Revision::current(), others)
    }

    /// Opens a store for records of a given revision.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_at(
        folder: &Path,
        revision: Revision,
        others: OtherRevisions,
    ) -> Result<Self, StoreError> {
        if folder.exists() && !folder.is_dir() {
            return Err(StoreError::NotAFolder(folder.to_owned()));
        }
        fs::create_dir_all(folder).map_err(StoreError::io(folder, Operation::Create))?;
        if others == OtherRevisions::Fresh {
            shard::remove_all(folder)?;
        }
        let store = Store { folder: folder.to_owned(), revision, inner: Mutex::default() };
        store.check(others)?;
        Ok(store)
    }

    /// Reads all shards, and reports other revisions and incomplete lines.
    fn check(&self, others: OtherRevisions) -> Result<(), StoreError> {
        self.refresh()?;
        let mut inner = self.lock();
        let mut unused: BTreeMap<&str, usize> = BTreeMap::new();
        for shard in &inner.shards {
            if let Some(found) = shard.revision.as_deref()
                && found != self.revision.as_str()
            {
                *unused.entry(found).or_default() += 1;
            }
        }
        if others == OtherRevisions::Refuse && !unused.is_empty() {
            return Err(StoreError::OtherRevision {
                folder: self.folder.clone(),
                found: unused.into_keys().map(str::to_owned).collect(),
                expected: self.revision.to_string(),
            });
        }
        let unused = unused.into_iter().map(|(revision, shards)| Notice::Unused {
            folder: self.folder.clone(),
            revision: revision.to_owned(),
            shards,
        });
        let unused: Vec<Notice> = unused.collect();
        inner.notices.extend(unused);
        Ok(())
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the revision of its records.
    pub fn revision(&self) -> &Revision {
        &self.revision
    }

    /// Returns facts to report when the store is opened: incomplete lines, unused shards.
    pub fn notices(&self) -> Vec<Notice> {
        self.lock().notices.clone()
    }

    /// Returns the number of records.
    pub fn len(&self) -> usize {
        self.lock().index.len()
    }

    /// Returns true if there are no records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the keys of all records, sorted.
    pub fn keys(&self) -> Vec<JobKey> {
        let mut keys: Vec<JobKey> = self.lock().index.keys().copied().collect();
        keys.sort();
        keys
    }

    /// Returns true if there is a record of this key.
    pub fn contains(&self, key: &JobKey) -> bool {
        self.lock().index.contains_key(key)
    }

    /// Returns file and line of a record.
    pub fn place(&self, key: &JobKey) -> Option<Place> {
        let inner = self.lock();
        let (shard, span) = inner.index.get(key)?;
        Some(Place::new(&inner.shards[*shard as usize].file, span.line))
    }

    /// Returns the record of a key; `None` if there is none of this kind.
    ///
    /// # Errors
    /// If a shard cannot be read, or its line was damaged since the store was opened.
    pub fn get<T: Stored>(&self, key: &JobKey) -> Result<Option<T>, StoreError> {
        let Some((file, span)) = self.find(key) else { return Ok(None) };
        shard::read_at(&file, &span, |_, kind, value| {
            if kind != T::KIND {
                return Ok(None);
            }
            let place = || Place::new(&file, span.line);
            serde_json::from_str(value).map(Some).map_err(|source| StoreError::Value {
                place: place(),
                kind: T::KIND,
                source,
            })
        })
    }

    fn find(&self, key: &JobKey) -> Option<(PathBuf, Span)> {
        let inner = self.lock();
        let (shard, span) = inner.index.get(key)?;
        Some((inner.shards[*shard as usize].file.clone(), *span))
    }

    /// Adds a record; it is on disk when this returns.
    /// A record that is already present is not written again.
    ///
    /// # Errors
    /// A full disk or another error of the system: all records that were complete before are still
    /// there, and the next call tries again. A different record of the same key.
    pub fn put<T: Stored>(&self, key: JobKey, value: &T) -> Result<(), StoreError> {
        let (line, sum) = shard::encode(&key, T::KIND, value)
            .map_err(|source| StoreError::Encode { key, source })?;
        if let Some(handle) = self.append(key, line, sum)? {
            handle.sync_data().map_err(StoreError::io(&self.folder, Operation::Write))?;
        }
        Ok(())
    }

    /// Appends a line, unless an equal record is there. Returns the file to synchronise.
    fn append(&self, key: JobKey, line: Vec<u8>, sum: u32) -> Result<Option<File>, StoreError> {
        let mut inner = self.lock();
        if let Some((shard, span)) = inner.index.get(&key) {
            if span.sum == sum {
                return Ok(None);
            }
            let first = Place::new(&inner.shards[*shard as usize].file, span.line);
            return Err(StoreError::Conflict { key, first, second: None });
        }
        if inner.writer.is_none() {
            let writer = Writer::create(&self.folder, &self.revision)?;
            let number = inner.shards.len() as u32;
            inner.shards.push(Reader::new(writer.path.clone()));
            inner.writer = Some((number, writer));
        }
        let Some((number, mut writer)) = inner.writer.take() else { return Ok(None) };
        let handle = writer.handle()?;
        let span = writer.append(line, sum)?;
        // Only a writer without an error is used again.
        inner.writer = Some((number, writer));
        inner.index.insert(key, (number, span));
        Ok(Some(handle))
    }

    /// Reads what other writers have added since the store was opened or last refreshed.
    ///
    /// # Errors
    /// Returns an error if a shard cannot be read or is damaged, or two records of one key differ.
    pub fn refresh(&self) -> Result<(), StoreError> {
        let paths = shard::shards_of(&self.folder)?;
        let mut inner = self.lock();
        let inner = &mut *inner;
        for path in paths {
            let number = match inner.shards.iter().position(|s| s.file == path) {
                Some(number) => number,
                None => {
                    inner.shards.push(Reader::new(path));
                    inner.shards.len() - 1
                }
            };
            if inner.writer.as_ref().is_some_and(|(own, _)| *own as usize == number) {
                continue;
            }
            let mut shard = inner.shards[number].clone();
            let file = shard.file.clone();
            let rest = shard.advance(&self.revision, |key, span| {
                match inner.index.get(&key) {
                    Some((at, other)) if other.sum != span.sum => {
                        let first = Place::new(&inner.shards[*at as usize].file, other.line);
                        let second = Some(Place::new(&file, span.line));
                        return Err(StoreError::Conflict { key, first, second });
                    }
                    Some(_) => {}
                    None => {
                        inner.index.insert(key, (number as u32, span));
                    }
                }
                Ok(())
            })?;
            if rest > 0 && !shard.has_writer() {
                let place = Place::new(&shard.file, shard.next_line());
                let notice = Notice::Truncated { place, bytes: rest };
                if !inner.notices.contains(&notice) {
                    inner.notices.push(notice);
                }
            }
            inner.shards[number] = shard;
        }
        Ok(())
    }

    /// Copies the records of another store of the same revision that are missing here.
    /// Returns their number.
    ///
    /// # Errors
    /// Another revision; records of one key that differ; a store that cannot be read or written.
    pub fn merge(&self, other: &Store) -> Result<usize, StoreError> {
        if self.revision != other.revision {
            return Err(StoreError::OtherRevision {
                folder: other.folder.clone(),
                found: vec![other.revision.to_string()],
                expected: self.revision.to_string(),
            });
        }
        let (mut copied, mut last) = (0, None);
        for key in other.keys() {
            let Some((file, span)) = other.find(&key) else { continue };
            if let Some((_, own)) = self.find(&key)
                && own.sum == span.sum
            {
                continue;
            }
            let line = shard::read_at(&file, &span, |line, _, _| Ok(line.to_vec()))?;
            match self.append(key, line, span.sum) {
                Ok(handle) => last = handle.or(last),
                Err(StoreError::Conflict { key, first, .. }) => {
                    let second = Some(Place::new(&file, span.line));
                    return Err(StoreError::Conflict { key, first, second });
                }
                Err(e) => return Err(e),
            }
            copied += 1;
        }
        if let Some(file) = last {
            file.sync_data().map_err(StoreError::io(&self.folder, Operation::Write))?;
        }
        Ok(copied)
    }

    /// Removes the shards of a store that is no longer needed.
    ///
    /// # Errors
    /// A shard that another process writes, or that cannot be removed.
    pub fn remove(self) -> Result<(), StoreError> {
        let folder = self.folder.clone();
        // Closes the own shard, and with it its lock.
        drop(self);
        shard::remove_all(&folder)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A thread that panicked left the index in the state before or after an insertion.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
