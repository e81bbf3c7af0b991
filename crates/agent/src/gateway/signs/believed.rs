//! What is believed of what was read.

use serde::{Deserialize, Serialize};

use super::Read;

/// What TCP's headers say of a subscriber in one direction.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct DirectionSignsReport {
    /// Bytes under way that are not acknowledged; `None`: not known, and the control goes by counters.
    pub awaited_bytes: Option<u64>,
    /// Segments that brought nothing new.
    pub repeated: u64,
    /// Part of its traffic of late that was TCP's; `None`: there was none.
    pub tcp_ratio: Option<f64>,
}

/// Part of what a subscriber has that must be TCP's: who is served by QUIC as well says nothing by having no TCP
/// under way.
const MOSTLY: f64 = 0.9;
/// Part of what was known of that which a look with traffic keeps.
const KEEPS: f64 = 0.8;

/// What TCP's headers say of one direction.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct DirectionSigns {
    /// Bytes under way that are not acknowledged; `None`: nothing is known.
    pub awaited: Option<u64>,
    /// Segments that brought nothing new, since somebody reads headers.
    pub repeated: u64,
    /// Part of its traffic of late that was TCP's, 0 to 1; `None`: there was none.
    pub tcp: Option<f64>,
    read: Option<Read>,
    /// Bytes of TCP and of everything at the last look.
    last: Option<[u64; 2]>,
    /// Of late.
    lately: [f64; 2],
}

impl DirectionSigns {
    /// What `why` tells of it, where anything was read.
    pub fn report(&self) -> Option<DirectionSignsReport> {
        let (awaited_bytes, repeated, tcp_ratio) = (self.awaited, self.repeated, self.tcp);
        self.last.map(|_| DirectionSignsReport { awaited_bytes, repeated, tcp_ratio })
    }

    /// What was read at this look; `None`: nobody reads.
    pub fn take(&mut self, read: Option<Read>) {
        self.read = read;
    }

    /// Weighs what was read by the bytes that the class has counted.
    pub fn weigh(&mut self, counted: u64) {
        let Some(read) = self.read.take() else {
            (self.awaited, self.last) = (None, None);
            return;
        };
        let last = self.last.replace([read.bytes, counted]).unwrap_or([read.bytes, counted]);
        let moved = [read.bytes.saturating_sub(last[0]), counted.saturating_sub(last[1])];
        if moved != [0, 0] {
            for (lately, moved) in self.lately.iter_mut().zip(moved) {
                *lately = KEEPS * *lately + moved as f64;
            }
        }
        let [tcp, all] = self.lately;
        self.tcp = (all > 0.0).then(|| (tcp / all).min(1.0));
        self.repeated = read.repeated;
        self.awaited = read.awaited.filter(|_| tcp >= MOSTLY * all);
    }
}
