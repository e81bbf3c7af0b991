//! Bytes of a period: a checksum, its stamp, and its values in postcard's format.
//!
//! Names stand once per segment: a block brings those that its segment does not have yet.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::{DirectionUse, HomeUse, MeshUse, Period, Stamp, Usage};

/// First bytes of a segment; they change with the format.
pub(super) const MAGIC: &[u8; 8] = b"fmhist1\n";
/// Bytes before the values: length, checksum of the rest, and the stamp with its own.
pub(super) const HEAD_BYTES: usize = 4 + 4 + STAMP_BYTES;
const STAMP_BYTES: usize = 5 * 8 + 4;
/// Largest block, bytes: 60,000 homes with long names take 16 MB.
pub(super) const MAX_BLOCK: usize = 64 << 20;

/// Most names of a segment.
const MAX_WORDS: usize = 1 << 20;

/// Names of a segment, by their numbers.
#[derive(Clone, Default, Debug)]
pub(super) struct Words {
    numbers: HashMap<String, u32>,
}

#[derive(Serialize, Deserialize)]
struct Values {
    mesh: MeshUse,
    /// Number of the first of the new words.
    first_word: u32,
    words: Vec<String>,
    homes: Vec<Home>,
}

#[derive(Serialize, Deserialize)]
struct Home {
    name: u32,
    directions: [Option<(Usage, u32)>; 2],
}

impl Words {
    fn number(&self, new: &mut Vec<String>, fresh: &mut HashMap<String, u32>, word: &str) -> u32 {
        if let Some(n) = self.numbers.get(word).or_else(|| fresh.get(word)) {
            return *n;
        }
        let n = (self.numbers.len() + new.len()) as u32;
        new.push(word.to_owned());
        fresh.insert(word.to_owned(), n);
        n
    }

    /// Returns the bytes of a period, and the words that the segment has from then on.
    pub fn encode(&self, period: &Period) -> (Vec<u8>, Vec<String>) {
        let (mut words, mut fresh) = (Vec::new(), HashMap::new());
        let mut homes = Vec::with_capacity(period.homes.len());
        for home in &period.homes {
            let mut number = |word: &str| self.number(&mut words, &mut fresh, word);
            let name = number(&home.name);
            let mut direction = |d: &DirectionUse| {
                let used = *d != DirectionUse::default();
                used.then(|| (d.usage, number(&d.reason)))
            };
            let directions = [direction(&home.directions[0]), direction(&home.directions[1])];
            homes.push(Home { name, directions });
        }
        let first_word = self.numbers.len() as u32;
        let values = Values { mesh: period.mesh, first_word, words, homes };
        let Stamp { run, up, wall, first, last } = period.stamp;
        let mut bytes = vec![0; 8];
        bytes.extend([run, up, wall, first, last].iter().flat_map(|n| n.to_le_bytes()));
        bytes.extend(crc32fast::hash(&bytes[8..]).to_le_bytes());
        // Plain numbers and text can always be serialized to memory.
        let values_bytes = postcard::to_allocvec(&values).unwrap_or_default();
        bytes.extend(values_bytes);
        let length = (bytes.len() - 8) as u32;
        let sum = crc32fast::hash(&bytes[8..]);
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        bytes[4..8].copy_from_slice(&sum.to_le_bytes());
        (bytes, values.words)
    }

    /// Adds the new words of a block that was written.
    pub fn add(&mut self, words: Vec<String>) {
        for word in words {
            let n = self.numbers.len() as u32;
            self.numbers.insert(word, n);
        }
    }
}

/// Length and checksum at the start of a block; `None`: not a block.
pub(super) fn frame(head: &[u8; 8]) -> Option<(usize, u32)> {
    let word = |i: usize| u32::from_le_bytes([head[i], head[i + 1], head[i + 2], head[i + 3]]);
    let length = word(0) as usize;
    (STAMP_BYTES..=MAX_BLOCK).contains(&length).then(|| (length, word(4)))
}

/// Reads the stamp at the start of a block's content; `None`: it is damaged.
pub(super) fn stamp(content: &[u8]) -> Option<Stamp> {
    let (numbers, sum) = content.get(..STAMP_BYTES)?.split_at(STAMP_BYTES - 4);
    if crc32fast::hash(numbers).to_le_bytes() != sum {
        return None;
    }
    let mut numbers = numbers.chunks_exact(8).map(|c| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(c);
        u64::from_le_bytes(bytes)
    });
    let mut next = || numbers.next().unwrap_or(0);
    Some(Stamp { run: next(), up: next(), wall: next(), first: next(), last: next() })
}

/// Names of a segment while it is read; `None` for those of a damaged block.
pub(super) type Names = Vec<Option<String>>;

/// Reads a block's content; returns the period and the number of homes without a known name.
///
/// `None`: the checksum is that of another content.
pub(super) fn decode(content: &[u8], sum: u32, names: &mut Names) -> Option<(Period, u64)> {
    if crc32fast::hash(content) != sum {
        return None;
    }
    let stamp = stamp(content)?;
    let values: Values = postcard::from_bytes(&content[STAMP_BYTES..]).ok()?;
    let first = values.first_word as usize;
    // A damaged block before this one had the words between.
    if first > MAX_WORDS {
        return None;
    }
    names.resize(first.max(names.len()), None);
    names.truncate(first);
    names.extend(values.words.into_iter().map(Some));
    let word = |n: u32| names.get(n as usize).cloned().flatten();
    let mut unknown = 0;
    let mut homes = Vec::with_capacity(values.homes.len());
    for home in values.homes {
        let direction = |d: Option<(Usage, u32)>| match d {
            Some((usage, reason)) => {
                DirectionUse { usage, reason: word(reason).unwrap_or_default() }
            }
            None => DirectionUse::default(),
        };
        let [down, up] = home.directions;
        match word(home.name) {
            Some(name) => {
                homes.push(HomeUse { name, directions: [direction(down), direction(up)] })
            }
            None => unknown += 1,
        }
    }
    Some((Period { stamp, end: stamp.wall, mesh: values.mesh, homes }, unknown))
}
