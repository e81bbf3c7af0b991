//! Received packets, and the timing of their acknowledgement (RFC 9000 §13.2).

use fairmesh_units::{Span, Time};

use super::packet::{Ack, Ecn, EcnCounts};
use super::ranges::Ranges;

/// Maximum number of ranges stored and reported.
///
/// Older packets are discarded (RFC 9000 §13.2.3).
const MAX_RANGES: usize = 32;
/// Number of ack-eliciting packets that causes an immediate acknowledgement. RFC 9000 §13.2.2
const ACK_EVERY: u32 = 2;

/// Packet numbers received from the peer.
#[derive(Clone, Debug)]
pub(super) struct Received {
    numbers: Ranges,
    /// Packet number below which packets count as duplicates.
    floor: u64,
    /// Arrival of the largest number.
    largest_at: Time,
    /// Largest number of an ack-eliciting packet.
    largest_eliciting: Option<u64>,
    /// Ack-eliciting packets since the last acknowledgement.
    waiting: u32,
    due: bool,
    timer: Time,
    max_delay: Span,
    counts: EcnCounts,
}

impl Received {
    pub(super) fn new(max_delay: Span) -> Self {
        Received {
            numbers: Ranges::default(),
            floor: 0,
            largest_at: Time::ZERO,
            largest_eliciting: None,
            waiting: 0,
            due: false,
            timer: Time::NEVER,
            max_delay,
            counts: EcnCounts::default(),
        }
    }

    /// Records the arrival of a packet; returns true if it is new. RFC 9000 §12.3
    pub(super) fn on_packet(&mut self, now: Time, number: u64, eliciting: bool, ecn: Ecn) -> bool {
        if number < self.floor || self.numbers.around(number).is_some() {
            return false;
        }
        let largest = self.numbers.last().is_none_or(|r| number >= r.1);
        self.numbers.add(number, number + 1);
        if largest {
            self.largest_at = now;
        }
        while self.numbers.len() > MAX_RANGES {
            if let Some((_, end)) = self.numbers.pop_first() {
                self.floor = end;
            }
        }
        match ecn {
            Ecn::NotEct => {}
            Ecn::Ect0 => self.counts.ect0 += 1,
            Ecn::Ect1 => self.counts.ect1 += 1,
            Ecn::Ce => self.counts.ce += 1,
        }
        if eliciting {
            self.ask(now, number, ecn == Ecn::Ce);
        }
        true
    }

    fn ask(&mut self, now: Time, number: u64, marked: bool) {
        // RFC 9000 §13.2.1: immediately when it is out of order, on either side of a gap
        let next = self.largest_eliciting.map_or(0, |l| l + 1);
        let in_order = number >= next && self.numbers.around(number).is_some_and(|r| r.0 <= next);
        self.largest_eliciting = self.largest_eliciting.max(Some(number));
        self.waiting += 1;
        if !in_order || marked || self.waiting >= ACK_EVERY {
            self.due = true;
        } else if self.timer == Time::NEVER {
            self.timer = now + self.max_delay;
        }
    }

    pub(super) const fn deadline(&self) -> Time {
        self.timer
    }

    pub(super) fn on_deadline(&mut self, now: Time) {
        if now >= self.timer {
            self.timer = Time::NEVER;
            self.due = true;
        }
    }

    /// Returns true if an acknowledgement must leave.
    pub(super) fn due(&self) -> bool {
        self.due && !self.numbers.is_empty()
    }

    /// Returns true if there are unacknowledged ack-eliciting packets.
    pub(super) const fn waits(&self) -> bool {
        self.due || self.waiting > 0
    }

    /// Returns true if there are holes, which are reported until the peer confirms the report.
    pub(super) fn has_holes(&self) -> bool {
        self.numbers.len() > 1
    }

    /// Returns the present ACK frame, and records it as sent.
    pub(super) fn ack(&mut self, now: Time) -> Option<Ack> {
        self.numbers.last()?;
        self.due = false;
        self.waiting = 0;
        self.timer = Time::NEVER;
        let ranges = self.numbers.as_slice().iter().map(|r| (r.0, r.1 - 1)).collect();
        // RFC 9000 §19.3: in units of 8 us with the usual exponent
        let delay = Span::from_nanos((now - self.largest_at).as_nanos() / 8000 * 8000);
        let counted = self.counts != EcnCounts::default();
        Some(Ack { ranges, delay, ecn: counted.then_some(self.counts) })
    }

    /// Records that the peer has received an ACK frame with this largest number.
    ///
    /// Packets up to it need not be reported again (RFC 9000 §13.2.4).
    pub(super) fn forget(&mut self, largest: u64) {
        // The range that contains it stays, so that the next packet is recognised as in order.
        let keep = self.numbers.around(largest).map_or(largest + 1, |r| r.0);
        self.floor = self.floor.max(keep);
        self.numbers.remove_below(keep);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Time {
        Time::ZERO + Span::from_millis(n)
    }

    fn received() -> Received {
        Received::new(Span::from_millis(25))
    }

    #[test]
    fn every_second_packet_is_acknowledged_and_a_lone_one_after_the_delay() {
        let mut r = received();
        assert!(r.on_packet(ms(0), 0, true, Ecn::NotEct));
        assert!(!r.due());
        assert_eq!(r.deadline(), ms(25));
        r.on_packet(ms(1), 1, true, Ecn::NotEct);
        assert!(r.due());
        let ack = r.ack(ms(1)).unwrap();
        assert_eq!((ack.ranges, ack.delay, ack.ecn), (vec![(0, 1)], Span::ZERO, None));
        assert!(!r.due() && r.deadline() == Time::NEVER);
        r.on_packet(ms(2), 2, true, Ecn::NotEct);
        r.on_deadline(ms(27));
        assert!(r.due());
        assert_eq!(r.ack(ms(27)).unwrap().delay, Span::from_millis(25));
        // A packet that is not ack-eliciting is not acknowledged.
        r.on_packet(ms(30), 3, false, Ecn::NotEct);
        r.on_packet(ms(30), 4, false, Ecn::NotEct);
        assert!(!r.due() && r.deadline() == Time::NEVER);
    }

    #[test]
    fn both_sides_of_a_gap_and_marks_are_acknowledged_at_once() {
        let mut r = received();
        r.on_packet(ms(0), 0, true, Ecn::NotEct);
        r.on_packet(ms(0), 2, true, Ecn::NotEct);
        assert!(r.due());
        assert_eq!(r.ack(ms(0)).unwrap().ranges, [(0, 0), (2, 2)]);
        // The old hole was reported: in order, and the delay applies.
        r.on_packet(ms(1), 3, true, Ecn::NotEct);
        assert!(!r.due());
        // The missing packet arrives late.
        r.on_packet(ms(2), 1, true, Ecn::NotEct);
        assert!(r.due());
        assert_eq!(r.ack(ms(2)).unwrap().ranges, [(0, 3)]);
        r.on_packet(ms(3), 4, true, Ecn::Ce);
        assert!(r.due());
        assert_eq!(r.ack(ms(3)).unwrap().ecn, Some(EcnCounts { ce: 1, ..EcnCounts::default() }));
    }

    #[test]
    fn duplicates_are_ignored() {
        let mut r = received();
        r.on_packet(ms(0), 0, true, Ecn::Ect0);
        assert!(!r.on_packet(ms(0), 0, true, Ecn::Ect0));
        assert!(!r.due());
        assert_eq!(r.ack(ms(0)).unwrap().ecn.unwrap().ect0, 1);
    }

    #[test]
    fn holes_are_reported_until_confirmed_and_the_oldest_are_discarded() {
        let mut r = received();
        for n in 0..10 {
            r.on_packet(ms(0), 2 * n, true, Ecn::NotEct);
        }
        assert_eq!(r.ack(ms(0)).unwrap().ranges.len(), 10);
        r.forget(12);
        assert_eq!(r.ack(ms(0)).unwrap().ranges, [(12, 12), (14, 14), (16, 16), (18, 18)]);
        assert!(!r.on_packet(ms(1), 3, true, Ecn::NotEct), "below the reported numbers");
        for n in 10..100 {
            r.on_packet(ms(1), 2 * n, true, Ecn::NotEct);
        }
        let ack = r.ack(ms(1)).unwrap();
        assert_eq!((ack.ranges.len(), ack.largest()), (MAX_RANGES, 198));
        assert!(!r.on_packet(ms(2), 21, true, Ecn::NotEct));
    }
}
