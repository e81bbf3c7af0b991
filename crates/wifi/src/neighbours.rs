//! Neighbours that sense each transmitter, in flat arrays.

use crate::config::{Reception, SensedPair};

/// One transmitter's effect on one receiver.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Neighbour {
    /// Received power, attowatts.
    pub power: u64,
    /// Energy limit at the receiver, its own power included, up to which the frame survives.
    pub limit: u64,
    pub to: u32,
    /// Propagation delay in ns, shifted left by two.
    ///
    /// Bit 0: decodes, bit 1: a receiver locks on it.
    packed: u32,
}

impl Neighbour {
    #[inline]
    pub fn delay(&self) -> u64 {
        u64::from(self.packed >> 2)
    }
    #[inline]
    pub fn decodes(&self) -> bool {
        self.packed & 1 != 0
    }
    #[inline]
    pub fn lockable(&self) -> bool {
        self.packed & 2 != 0
    }
}

/// Compressed sparse rows: the neighbours of each transmitter, by receiver.
#[derive(Clone, Debug)]
pub(crate) struct Neighbours {
    start: Vec<u32>,
    entries: Vec<Neighbour>,
}

/// Longest delay that fits, ns: over a second, far beyond any radio link.
const MAX_DELAY: u64 = (u32::MAX >> 2) as u64;

impl Neighbours {
    /// Builds the table.
    ///
    /// `capture` is a plain power ratio; `sensed_pairs` and `leaks` may come in any order.
    pub fn new(
        stations: usize,
        sensed_pairs: &[SensedPair],
        leaks: &[SensedPair],
        rule: Reception,
        capture: f64,
    ) -> Self {
        let own = sensed_pairs.iter().map(|h| (h, true));
        let mut sorted: Vec<_> = own.chain(leaks.iter().map(|h| (h, false))).collect();
        sorted.sort_unstable_by_key(|(h, _)| (h.from, h.to));
        let mut start = vec![0u32; stations + 1];
        for (h, _) in &sorted {
            start[h.from as usize + 1] += 1;
        }
        for i in 0..stations {
            start[i + 1] += start[i];
        }
        let entries = sorted
            .into_iter()
            .map(|(h, own)| {
                let decodes = own && h.decodes;
                let lockable = match rule {
                    Reception::Ns2 | Reception::NoCapture => own,
                    Reception::Sinr => decodes,
                };
                let delay = h.delay.as_nanos().min(MAX_DELAY) as u32;
                Neighbour {
                    power: h.power.0,
                    limit: h.power.0 + (h.power.0 as f64 / capture) as u64,
                    to: h.to,
                    packed: delay << 2 | u32::from(lockable) << 1 | u32::from(decodes),
                }
            })
            .collect();
        Neighbours { start, entries }
    }

    /// Returns the indices of the entries of one transmitter.
    #[inline]
    pub fn of(&self, from: u32) -> core::ops::Range<usize> {
        self.start[from as usize] as usize..self.start[from as usize + 1] as usize
    }

    #[inline]
    pub fn entry(&self, index: usize) -> &Neighbour {
        &self.entries[index]
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the index of the entry from one station to another.
    pub fn find(&self, from: u32, to: u32) -> Option<usize> {
        let r = self.of(from);
        let base = r.start;
        self.entries[r].binary_search_by_key(&to, |n| n.to).ok().map(|i| base + i)
    }

    /// Adds an external source sensed by `receivers`, after all stations.
    ///
    /// Never decoded or locked on.
    pub fn push_noise(&mut self, receivers: &[(u32, u64)]) {
        let mut receivers = receivers.to_vec();
        receivers.sort_unstable();
        receivers.dedup_by_key(|h| h.0);
        for (to, power) in receivers {
            self.entries.push(Neighbour { power, limit: 0, to, packed: 0 });
        }
        self.start.push(self.entries.len() as u32);
    }
}
