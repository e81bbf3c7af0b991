//! The journal of a sweep: one line per finished run, on disk before the next one counts.
//!
//! The first line says what is being swept. A journal whose first line says something else is not
//! continued; a last line cut short by a crash is dropped.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::LabError;

/// The first line: whatever must be equal for old results to count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Version that wrote it; another version may give other results.
    pub generator: String,
    /// The scenario file's text.
    pub scenario: String,
    /// Changes from the command line, such as `duration = 60 s`.
    pub changes: Vec<String>,
    /// The varied keys, in order.
    pub keys: Vec<String>,
}

/// One run of a sweep and its outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Value of every key.
    pub point: Vec<String>,
    /// Control.
    pub control: String,
    /// Seed.
    pub seed: u64,
    /// Fingerprint of the run.
    pub fingerprint: String,
    /// Goodput per flow, bit/s.
    pub goodput_bps: Vec<f64>,
    /// Fair rate per flow, bit/s; `None` if the run was given none.
    pub fair_bps: Option<Vec<f64>>,
    /// Wireless hops per flow.
    pub hops: Vec<u32>,
    /// Flow names.
    pub flows: Vec<String>,
    /// Indices of the flows of each subscriber; absent where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subscribers: Vec<Vec<usize>>,
    /// Mean delay per flow, s; absent where nothing arrived.
    pub delay_s: Vec<Option<f64>>,
    /// PHY transmissions.
    pub transmissions: u64,
    /// Packets lost.
    pub drops: u64,
}

impl Cell {
    /// Sums over each subscriber, and the values of flows that belong to none.
    pub fn shared(&self, values: &[f64]) -> Vec<f64> {
        let value = |i: usize| values.get(i).copied().unwrap_or(0.0);
        let homes = self.subscribers.iter().map(|s| s.iter().map(|&i| value(i)).sum());
        let member = |i: &usize| self.subscribers.iter().any(|s| s.contains(i));
        homes.chain((0..values.len()).filter(|i| !member(i)).map(value)).collect()
    }
}

/// An open journal.
pub struct Journal {
    file: File,
}

impl Journal {
    /// Opens the journal at `path`, or starts it, and returns the runs that it already holds.
    ///
    /// # Errors
    /// When it cannot be read or written, or belongs to another sweep.
    pub fn open(path: &Path, header: &Header) -> Result<(Self, Vec<Cell>), LabError> {
        let problem = |e: std::io::Error| LabError::file(path, format!("cannot be used: {e}"));
        let mut file =
            OpenOptions::new().read(true).append(true).create(true).open(path).map_err(problem)?;
        let (cells, good) = read(path, &file, header)?;
        // Drops a line that a crash cut short; appending after it would spoil the next one too.
        file.set_len(good).map_err(problem)?;
        file.seek(SeekFrom::End(0)).map_err(problem)?;
        let mut journal = Journal { file };
        if good == 0 {
            journal.line(path, header)?;
        }
        Ok((journal, cells))
    }

    /// Adds a finished run; it is on disk when this returns.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn add(&mut self, path: &Path, cell: &Cell) -> Result<(), LabError> {
        self.line(path, cell)
    }

    fn line(&mut self, path: &Path, value: &impl Serialize) -> Result<(), LabError> {
        let mut text = serde_json::to_vec(value).map_err(|e| LabError::file(path, e))?;
        text.push(b'\n');
        self.file
            .write_all(&text)
            .and_then(|()| self.file.sync_data())
            .map_err(|e| LabError::file(path, format!("cannot be written: {e}")))
    }
}

/// The runs in the file and the length of its undamaged part.
fn read(path: &Path, file: &File, header: &Header) -> Result<(Vec<Cell>, u64), LabError> {
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    let mut next = |line: &mut Vec<u8>| -> Result<bool, LabError> {
        line.clear();
        reader.read_until(b'\n', line).map_err(|e| LabError::file(path, e))?;
        Ok(line.last() == Some(&b'\n'))
    };
    if !next(&mut line)? {
        // A first line without an end was never finished, unless it is no journal at all.
        return if line.is_empty() || line.starts_with(b"{\"generator\"") {
            Ok((vec![], 0))
        } else {
            Err(LabError::file(path, "is not the journal of a sweep; expected a new folder"))
        };
    }
    let old: Header = serde_json::from_slice(&line).map_err(|_| {
        LabError::file(path, "is not the journal of a sweep; expected a new folder")
    })?;
    if let Some(what) = difference(&old, header) {
        let expected = "expected the same sweep, or a new folder";
        return Err(LabError::file(path, format!("holds a sweep with another {what}; {expected}")));
    }
    let (mut cells, mut good) = (Vec::new(), line.len() as u64);
    while next(&mut line)? {
        match serde_json::from_slice::<Cell>(&line) {
            Ok(cell) => cells.push(cell),
            Err(e) => {
                let n = cells.len() + 2;
                return Err(LabError::file(path, format!("line {n} is damaged: {e}")));
            }
        }
        good += line.len() as u64;
    }
    Ok((cells, good))
}

fn difference(old: &Header, new: &Header) -> Option<&'static str> {
    [
        ("version of fairmesh", old.generator == new.generator),
        ("scenario text", old.scenario == new.scenario),
        ("duration, gateway or flows", old.changes == new.changes),
        ("set of varied keys", old.keys == new.keys),
    ]
    .into_iter()
    .find_map(|(what, same)| (!same).then_some(what))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn header() -> Header {
        Header {
            generator: "fairmesh 1".into(),
            scenario: "a\nb".into(),
            changes: vec![],
            keys: vec!["radio.rts".into()],
        }
    }

    fn cell(seed: u64) -> Cell {
        Cell {
            point: vec!["true".into()],
            control: "fifo".into(),
            seed,
            fingerprint: "f".into(),
            goodput_bps: vec![1.5],
            fair_bps: Some(vec![2.0]),
            hops: vec![1],
            flows: vec!["a".into()],
            delay_s: vec![None],
            subscribers: vec![],
            transmissions: 3,
            drops: 0,
        }
    }

    #[test]
    fn what_was_added_is_there_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.jsonl");
        let (mut j, cells) = Journal::open(&path, &header()).unwrap();
        assert!(cells.is_empty());
        j.add(&path, &cell(1)).unwrap();
        drop(j);
        let (mut j, cells) = Journal::open(&path, &header()).unwrap();
        assert_eq!(cells, [cell(1)]);
        j.add(&path, &cell(2)).unwrap();
        assert_eq!(Journal::open(&path, &header()).unwrap().1, [cell(1), cell(2)]);
    }

    #[test]
    fn a_line_cut_short_anywhere_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.jsonl");
        let (mut j, _) = Journal::open(&path, &header()).unwrap();
        j.add(&path, &cell(1)).unwrap();
        j.add(&path, &cell(2)).unwrap();
        let whole = fs::read(&path).unwrap();
        let ends: Vec<usize> =
            whole.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(i, _)| i + 1).collect();
        for cut in 0..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            // Cut inside the first bytes it cannot be told from a foreign file, and is refused.
            let Ok((mut j, cells)) = Journal::open(&path, &header()) else {
                assert!((1..12).contains(&cut), "{cut}");
                continue;
            };
            assert_eq!(cells.len(), ends.iter().filter(|e| **e <= cut).count().saturating_sub(1));
            j.add(&path, &cell(9)).unwrap();
            assert_eq!(Journal::open(&path, &header()).unwrap().1.last(), Some(&cell(9)));
        }
    }

    #[test]
    fn another_sweep_is_not_continued() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.jsonl");
        drop(Journal::open(&path, &header()).unwrap());
        let other = Header { scenario: "c".into(), ..header() };
        let e = Journal::open(&path, &other).err().unwrap().to_string();
        assert!(e.contains("another scenario text"), "{e}");
        fs::write(&path, "hello\n").unwrap();
        assert!(Journal::open(&path, &header()).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"hello\n", "a foreign file is left alone");
    }
}
