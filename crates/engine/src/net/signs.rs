//! Signs of a flow's state that a middlebox at the gateway reads from TCP headers.

use fairmesh_control::host::{Answer, Data, RoundTrips, Side, Signs as Rule, Spin, Trips};
use fairmesh_transport::{Flags, Segment};
use fairmesh_units::{Span, Time};

/// Signs of a flow's present connection at an interface, and its round trips in the mesh.
#[derive(Clone, Debug, Default)]
pub(crate) struct Signs {
    generation: u32,
    tcp: bool,
    signs: Rule,
    trips: Trips,
    spin: Spin,
    /// Round trips since the last sample.
    pub round_trips: RoundTrips,
}

impl Signs {
    /// Processes a segment with its timestamps.
    ///
    /// `forward` is true for the flow's data, false for the reverse direction.
    pub fn see(
        &mut self,
        now: Time,
        generation: u32,
        forward: bool,
        side: Side,
        segment: &Segment,
        [value, echo]: [u32; 2],
    ) {
        if !self.tcp || generation > self.generation {
            (self.generation, self.tcp) = (generation, true);
            self.signs.begin();
            self.trips = Trips::default();
        } else if generation < self.generation {
            // It belongs to a former connection.
            return;
        }
        let ends = segment.flags.has(Flags::SYN) || segment.flags.has(Flags::FIN);
        let end = segment.seq + u64::from(segment.len) + u64::from(ends);
        let repeated = self.signs.repeated();
        if forward {
            self.signs.passed(end, segment.len > 0 || ends);
        } else if segment.flags.has(Flags::ACK) {
            self.signs.answered(segment.ack);
        }
        let trip = if forward {
            let again = self.signs.repeated() > repeated;
            let echo = (echo > 0).then_some(echo);
            self.trips.data(now, side, &Data { end, len: segment.len, again, echo })
        } else if segment.flags.has(Flags::ACK) {
            let covered = segment.sack.as_slice().iter().map(|r| segment.ack + u64::from(r.1));
            let (before, selective) = (segment.ack, covered.max());
            let (value, more) = (Some(value), self.awaited() > 0);
            self.trips.answer(now, side, &Answer { before, selective, value, more })
        } else {
            None
        };
        if let Some(trip) = trip {
            self.round_trips.add(now, trip);
        }
    }

    /// Processes the spin bit of a QUIC packet.
    pub fn see_spin(&mut self, now: Time, generation: u32, side: Side, bit: bool) {
        if generation > self.generation {
            (self.generation, self.spin) = (generation, Spin::default());
        }
        if let Some(trip) = self.spin.see(now, side, bit) {
            self.round_trips.add(now, trip);
        }
    }

    /// Returns the age of a stall of the flow's packets in the mesh.
    pub fn stalled(&mut self, now: Time) -> Option<Span> {
        self.round_trips.stalled(now, self.trips.oldest(now))
    }

    /// Returns true if any TCP segment of the flow was seen.
    pub fn is_tcp(&self) -> bool {
        self.tcp
    }

    /// Returns the number of unacknowledged bytes.
    pub fn awaited(&self) -> u64 {
        self.signs.awaited()
    }

    /// Returns the number of segments that did not exceed the highest sequence number so far.
    pub fn repeated(&self) -> u64 {
        self.signs.repeated()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(seq: u64) -> Segment {
        Segment { seq, len: 1000, flags: Flags::ACK, ..Segment::default() }
    }

    fn answer(ack: u64) -> Segment {
        Segment { ack, flags: Flags::ACK, ..Segment::default() }
    }

    /// Reads a segment of a download at one instant.
    fn see(signs: &mut Signs, generation: u32, forward: bool, segment: &Segment) {
        let side = if forward { Side::Enters } else { Side::Leaves };
        signs.see(Time::ZERO, generation, forward, side, segment, [1, 0]);
    }

    #[test]
    fn unacknowledged_bytes_are_awaited_and_old_segments_are_repetitions() {
        let mut signs = Signs::default();
        assert!(!signs.is_tcp());
        see(&mut signs, 0, true, &data(1));
        see(&mut signs, 0, true, &data(1001));
        assert_eq!((signs.awaited(), signs.repeated()), (2001, 0));
        see(&mut signs, 0, false, &answer(1001));
        see(&mut signs, 0, true, &data(1001));
        assert_eq!((signs.awaited(), signs.repeated()), (1000, 1));
        see(&mut signs, 0, false, &answer(2001));
        // An old acknowledgement has no effect, and a bare one is not a repetition.
        see(&mut signs, 0, false, &answer(1001));
        see(&mut signs, 0, true, &Segment { seq: 2001, ..answer(7) });
        assert_eq!((signs.awaited(), signs.repeated()), (0, 1));
    }

    #[test]
    fn a_new_connection_resets_the_signs_of_the_old_one() {
        let mut signs = Signs::default();
        see(&mut signs, 0, true, &data(5001));
        see(&mut signs, 1, true, &Segment { flags: Flags::SYN, ..Segment::default() });
        assert_eq!(signs.awaited(), 1);
        see(&mut signs, 0, true, &data(9001));
        see(&mut signs, 1, false, &answer(1));
        assert_eq!((signs.awaited(), signs.repeated()), (0, 0));
    }
}
