//! What a host reads from TCP's headers, as one rule for all hosts.

/// Of one direction of one connection, where it enters or leaves the mesh: the end of what has passed and what was
/// acknowledged, as sequence numbers that never begin again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Signs {
    top: u64,
    acknowledged: u64,
    repeated: u64,
}

impl Signs {
    /// Of a connection whose first sequence number, or the first that is seen of it, is this.
    #[must_use]
    pub const fn from(first: u64) -> Self {
        Signs { top: first, acknowledged: first, repeated: 0 }
    }

    /// A segment passes that ends here; `brings`: data, a SYN or a FIN, each of which has a number.
    pub fn passed(&mut self, end: u64, brings: bool) {
        if end > self.top {
            self.top = end;
        } else if brings {
            self.repeated += 1;
        }
    }

    /// All before this has arrived.
    pub fn answered(&mut self, before: u64) {
        self.acknowledged = self.acknowledged.max(before);
    }

    /// Another connection begins in place of this one.
    pub fn begin(&mut self) {
        *self = Signs { repeated: self.repeated, ..Signs::default() };
    }

    /// The end of what has passed.
    pub const fn top(&self) -> u64 {
        self.top
    }

    /// Bytes that are not acknowledged.
    pub const fn awaited(&self) -> u64 {
        self.top.saturating_sub(self.acknowledged)
    }

    /// Segments that had nothing beyond the highest seen.
    pub const fn repeated(&self) -> u64 {
        self.repeated
    }
}
