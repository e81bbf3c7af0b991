//! One direction of a wire: a drop-tail queue, a transmitter, packets in transit.

use std::collections::VecDeque;

use fairmesh_units::{BitRate, Span, Time};

/// A wire from one node to another.
#[derive(Clone, Debug)]
pub(crate) struct WireDirection {
    pub to: u32,
    rate: BitRate,
    delay: Span,
    limit: usize,
    /// Arrival instants and packets, earliest first; packets still being sent included.
    under_way: VecDeque<(Time, u32)>,
    /// Instant at which the transmitter has sent all accepted packets.
    free_at: Time,
}

impl WireDirection {
    pub fn new(to: u32, rate: BitRate, delay: Span, limit: u32) -> Self {
        let limit = limit as usize;
        WireDirection { to, rate, delay, limit, under_way: VecDeque::new(), free_at: Time::ZERO }
    }

    /// Accepts a packet unless the queue is full.
    pub fn send(&mut self, now: Time, packet: u32, bytes: u32) -> bool {
        // Packets that wait or are being sent, hence still at the transmitter.
        let waiting =
            self.under_way.iter().rev().take_while(|(at, _)| *at > now + self.delay).count();
        if waiting >= self.limit {
            return false;
        }
        self.free_at = self.free_at.max(now) + self.rate.time_for(u64::from(bytes));
        self.under_way.push_back((self.free_at + self.delay, packet));
        true
    }

    /// Returns the arrival instant of the next packet.
    pub fn next_deadline(&self) -> Time {
        self.under_way.front().map_or(Time::NEVER, |p| p.0)
    }

    /// Takes the packet that has arrived.
    pub fn take(&mut self, now: Time) -> Option<u32> {
        if self.next_deadline() > now {
            return None;
        }
        self.under_way.pop_front().map(|p| p.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_delay_and_limit() {
        // 1 Mbit/s: a 1250-byte packet takes 10 ms; one-way delay 5 ms.
        let ms = |n| Time::ZERO + Span::from_millis(n);
        let mut w = WireDirection::new(0, BitRate(1_000_000), Span::from_millis(5), 2);
        assert!(w.send(ms(0), 1, 1250));
        assert!(w.send(ms(0), 2, 1250));
        assert!(!w.send(ms(0), 3, 1250), "two wait already");
        assert_eq!(w.next_deadline(), ms(15));
        assert_eq!(w.take(ms(14)), None);
        assert_eq!(w.take(ms(15)), Some(1));
        // The first left the transmitter at 10 ms.
        assert!(w.send(ms(15), 3, 1250));
        assert_eq!(w.take(ms(25)), Some(2));
        assert_eq!(w.next_deadline(), ms(35));
    }
}
