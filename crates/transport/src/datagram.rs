//! UDP: numbered datagrams, and the receiver's statistics from their numbers.

use fairmesh_units::{Span, Time};

/// A UDP datagram of a numbered stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Datagram {
    /// Position in its stream, from 0.
    pub seq: u64,
    /// Payload, in bytes.
    pub len: u32,
    /// Instant at which the application sent it.
    pub sent: Time,
}

impl Datagram {
    /// Returns the size of the IPv4 datagram, bytes: 20 of IP, 8 of UDP and the payload.
    #[inline]
    pub const fn ip_bytes(&self) -> u32 {
        28 + self.len
    }
}

/// Statistics of a received numbered stream.
#[derive(Clone, Debug, Default)]
pub struct DatagramSink {
    received: u64,
    bytes: u64,
    expected: u64,
    late: u64,
    last: Option<(Time, Time)>,
    /// Jitter in sixteenths of a nanosecond: RFC 3550 §6.4.1 keeps four fractional bits.
    jitter16: u64,
}

impl DatagramSink {
    /// Counts a datagram, which must not be a duplicate. Returns its one-way delay.
    #[inline]
    pub fn on_datagram(&mut self, now: Time, datagram: &Datagram) -> Span {
        self.received += 1;
        self.bytes += u64::from(datagram.len);
        if datagram.seq < self.expected {
            self.late += 1;
        } else {
            self.expected = datagram.seq + 1;
        }
        if let Some((sent, arrived)) = self.last {
            // RFC 3550 §6.4.1: J += (|D| - J) / 16, D the change in one-way delay
            let there = now.as_nanos().wrapping_sub(arrived.as_nanos()) as i64;
            let here = datagram.sent.as_nanos().wrapping_sub(sent.as_nanos()) as i64;
            let d = there.wrapping_sub(here).unsigned_abs();
            self.jitter16 = self.jitter16 + d - (self.jitter16 + 8) / 16;
        }
        self.last = Some((datagram.sent, now));
        now - datagram.sent
    }

    /// Returns the number of datagrams received.
    pub const fn received(&self) -> u64 {
        self.received
    }
    /// Returns the payload received, in bytes.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }
    /// Returns the number of datagrams missing below the highest number received.
    pub const fn lost(&self) -> u64 {
        self.expected - self.received
    }
    /// Returns the number of datagrams that arrived after a later one.
    pub const fn reordered(&self) -> u64 {
        self.late
    }
    /// Returns the interarrival jitter (RFC 3550 §6.4.1).
    pub const fn jitter(&self) -> Span {
        Span::from_nanos(self.jitter16 / 16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_millis(ms)
    }

    #[test]
    fn counts_loss_reordering_and_delay() {
        let mut sink = DatagramSink::default();
        let d = |seq: u64| Datagram { seq, len: 100, sent: at(10 * seq) };
        assert_eq!(sink.on_datagram(at(5), &d(0)), Span::from_millis(5));
        sink.on_datagram(at(35), &d(3));
        assert_eq!((sink.lost(), sink.reordered()), (2, 0));
        sink.on_datagram(at(36), &d(1));
        assert_eq!((sink.lost(), sink.reordered()), (1, 1));
        assert_eq!((sink.received(), sink.bytes()), (3, 300));
        assert_eq!(d(0).ip_bytes(), 128);
    }

    #[test]
    fn jitter_follows_the_rfc() {
        // Delay alternates 0, 16 ms: |D| is always 16 ms, so J = 16 (1 - (15/16)^n) ms.
        let mut sink = DatagramSink::default();
        let mut expected = 0.0;
        for seq in 0..50 {
            let sent = at(100 * seq);
            sink.on_datagram(
                sent + Span::from_millis(16 * (seq % 2)),
                &Datagram { seq, len: 1, sent },
            );
            if seq > 0 {
                expected += (0.016 - expected) / 16.0;
            }
            assert!((sink.jitter().as_secs_f64() - expected).abs() < 1e-6);
        }
    }
}
