//! Signs of a flow's path from TCP headers, by one rule for all hosts.

/// State of one direction of one connection, where it enters or leaves the mesh.
///
/// It has the end of the data that have passed and of those acknowledged, as sequence numbers that do not wrap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Signs {
    top: u64,
    acknowledged: u64,
    repeated: u64,
}

impl Signs {
    /// State of a connection that starts, or is first seen, at sequence number `first`.
    #[must_use]
    pub const fn from(first: u64) -> Self {
        Signs { top: first, acknowledged: first, repeated: 0 }
    }

    /// Records a segment that ends here.
    ///
    /// `brings` is true for data, a SYN or a FIN, which take sequence numbers.
    pub fn passed(&mut self, end: u64, brings: bool) {
        if end > self.top {
            self.top = end;
        } else if brings {
            self.repeated += 1;
        }
    }

    /// Records that all data before this number have arrived.
    pub fn answered(&mut self, before: u64) {
        self.acknowledged = self.acknowledged.max(before);
    }

    /// Resets the state for another connection in place of this one.
    pub fn begin(&mut self) {
        *self = Signs { repeated: self.repeated, ..Signs::default() };
    }

    /// Returns the end of the data that have passed.
    pub const fn top(&self) -> u64 {
        self.top
    }

    /// Returns the bytes that are not acknowledged.
    pub const fn awaited(&self) -> u64 {
        self.top.saturating_sub(self.acknowledged)
    }

    /// Returns the number of segments without data beyond the highest seen.
    pub const fn repeated(&self) -> u64 {
        self.repeated
    }
}
