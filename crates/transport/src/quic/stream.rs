//! One stream, both ways: data to send and resend, and data received in order.
//!
//! The end of the stream counts as a byte after the last one.

use super::packet::StreamFrame;
use super::ranges::Ranges;

/// The sending half.
#[derive(Clone, Debug, Default)]
pub(super) struct Outgoing {
    /// Offset below which all bytes were acknowledged.
    una: u64,
    /// Next byte never sent.
    next: u64,
    /// End of the written data; `u64::MAX` if it is endless.
    end: u64,
    closing: bool,
    /// Ranges acknowledged above `una`.
    acked: Ranges,
    /// Ranges lost and not yet resent.
    lost: Ranges,
}

impl Outgoing {
    pub(super) fn write(&mut self, bytes: u64) {
        if !self.closing {
            self.end = self.end.saturating_add(bytes);
        }
    }

    /// Closes the stream; an endless source ends at the data sent so far.
    pub(super) fn close(&mut self) {
        self.closing = true;
        if self.end == u64::MAX {
            self.end = self.next;
        }
    }

    /// Returns the bytes never sent.
    pub(super) fn unsent(&self) -> u64 {
        self.end.saturating_sub(self.next)
    }

    /// Returns the bytes sent and not yet contiguously acknowledged.
    pub(super) const fn outstanding(&self) -> u64 {
        self.next - self.una
    }

    /// Returns true if all data and the stream's end were acknowledged.
    pub(super) fn finished(&self) -> bool {
        self.closing && self.una > self.end
    }

    /// Returns true if there is anything to send.
    pub(super) fn wants(&self) -> bool {
        !self.lost.is_empty() || self.has_new()
    }

    fn has_new(&self) -> bool {
        self.next < self.end || (self.closing && self.next == self.end)
    }

    /// Returns the next frame, and true if it was sent before; lost data goes first.
    ///
    /// `room` gives the bytes that fit from an offset on.
    pub(super) fn peek(&self, room: impl Fn(u64) -> u32) -> Option<(StreamFrame, bool)> {
        if let Some((from, to)) = self.lost.first() {
            return Some((self.frame(from, to, room(from)), true));
        }
        let to = self.end.saturating_add(u64::from(self.closing));
        self.has_new().then(|| (self.frame(self.next, to, room(self.next)), false))
    }

    /// Records that the frame of [`Outgoing::peek`] was sent.
    pub(super) fn on_sent(&mut self, frame: &StreamFrame) {
        self.lost.remove(frame.offset, frame.end());
        self.next = self.next.max(frame.end());
    }

    /// Returns the oldest unacknowledged bytes from `from` on, for a probe. RFC 9002 §6.2.4
    pub(super) fn again(&mut self, from: u64, room: impl Fn(u64) -> u32) -> Option<StreamFrame> {
        let (from, to) = self.acked.missing(from.max(self.una), self.next).next()?;
        Some(self.frame(from, to, room(from)))
    }

    /// Returns the part of `from..to` that fits.
    fn frame(&self, from: u64, to: u64, room: u32) -> StreamFrame {
        let data = to.min(self.end).saturating_sub(from);
        let len = data.min(u64::from(room)) as u32;
        let fin = self.closing && to > self.end && from + u64::from(len) == self.end;
        StreamFrame { offset: from, len, fin }
    }

    /// Records the acknowledgement of a frame.
    ///
    /// Returns the growth of the contiguously acknowledged part, bytes.
    pub(super) fn on_acked(&mut self, frame: &StreamFrame) -> u64 {
        let before = self.una.min(self.end);
        self.lost.remove(frame.offset, frame.end());
        self.acked.add(frame.offset.max(self.una), frame.end());
        if let Some((from, to)) = self.acked.first()
            && from <= self.una
        {
            self.una = to;
            self.acked.pop_first();
        }
        self.una.min(self.end) - before
    }

    /// Records the loss of a frame; its data has to be resent unless it arrived otherwise.
    pub(super) fn on_lost(&mut self, frame: &StreamFrame) {
        for (from, to) in self.acked.missing(frame.offset.max(self.una), frame.end()) {
            self.lost.add(from, to);
        }
    }
}

/// The receiving half.
#[derive(Clone, Debug, Default)]
pub(super) struct Incoming {
    /// Next byte in order.
    next: u64,
    /// Ranges that arrived above it.
    ranges: Ranges,
    /// End of the stream, once known.
    end: Option<u64>,
}

impl Incoming {
    /// Processes a frame; returns the bytes that are now in order.
    pub(super) fn on_frame(&mut self, frame: &StreamFrame) -> u64 {
        if frame.fin {
            self.end = Some(frame.offset + u64::from(frame.len));
        }
        let before = self.next;
        self.ranges.add(frame.offset.max(self.next), frame.end());
        if let Some((from, to)) = self.ranges.first()
            && from <= self.next
        {
            self.next = to;
            self.ranges.pop_first();
        }
        self.next - before - u64::from(self.finished() && self.next > before)
    }

    /// Returns true if all data and the stream's end have arrived.
    pub(super) fn finished(&self) -> bool {
        self.end.is_some_and(|end| self.next > end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(offset: u64, len: u32, fin: bool) -> StreamFrame {
        StreamFrame { offset, len, fin }
    }

    impl Outgoing {
        fn take(&mut self, room: impl Fn(u64) -> u32) -> Option<(StreamFrame, bool)> {
            let taken = self.peek(room);
            if let Some((frame, _)) = &taken {
                self.on_sent(frame);
            }
            taken
        }
    }

    #[test]
    fn lost_data_goes_first_unless_it_arrived_meanwhile() {
        let mut out = Outgoing::default();
        out.write(5000);
        out.close();
        let mut sent = Vec::new();
        while let Some((f, again)) = out.take(|_| 1000) {
            assert!(!again);
            sent.push(f);
        }
        assert_eq!(sent.len(), 5);
        assert_eq!(sent[4], frame(4000, 1000, true));
        assert_eq!(out.on_acked(&sent[2]), 0);
        out.on_lost(&sent[1]);
        out.on_lost(&sent[4]);
        // A late acknowledgement of part of it.
        assert_eq!(out.on_acked(&frame(1000, 400, false)), 0);
        assert_eq!(out.take(|_| 1000), Some((frame(1400, 600, false), true)));
        // The stream's end is lost with its last bytes.
        assert_eq!(out.take(|_| 600), Some((frame(4000, 600, false), true)));
        assert_eq!(out.take(|_| 600), Some((frame(4600, 400, true), true)));
        assert_eq!(out.take(|_| 600), None);
        assert_eq!(out.again(0, |_| 1000), Some(frame(0, 1000, false)));
        assert_eq!(out.on_acked(&sent[0]), 1400);
        assert_eq!(out.again(0, |_| 1000), Some(frame(1400, 600, false)));
        for f in &sent {
            out.on_acked(f);
        }
        assert!(out.finished());
        assert_eq!(out.outstanding(), 0);
    }

    #[test]
    fn a_source_without_end_stops_where_it_is() {
        let mut out = Outgoing::default();
        out.write(u64::MAX);
        out.take(|_| 1000);
        assert!(out.wants() && out.unsent() > 1 << 60);
        out.close();
        assert_eq!(out.take(|_| 1000), Some((frame(1000, 0, true), false)));
        assert_eq!(out.take(|_| 1000), None);
    }

    #[test]
    fn bytes_come_in_order_and_once() {
        let mut stream = Incoming::default();
        assert_eq!(stream.on_frame(&frame(1000, 1000, true)), 0);
        assert_eq!(stream.on_frame(&frame(0, 600, false)), 600);
        assert_eq!(stream.on_frame(&frame(0, 600, false)), 0);
        assert!(!stream.finished());
        assert_eq!(stream.on_frame(&frame(500, 700, false)), 1400);
        assert!(stream.finished());
        assert_eq!(stream.on_frame(&frame(1000, 1000, true)), 0);
    }
}
