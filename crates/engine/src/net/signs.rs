//! What a box at the gateway reads from TCP's headers.

use fairmesh_control::host::Signs as Rule;
use fairmesh_transport::{Flags, Segment};

/// Of one flow, at one interface: the signs of its present connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Signs {
    generation: u32,
    tcp: bool,
    signs: Rule,
}

impl Signs {
    /// A segment passes, of the flow's data or of what answers it.
    pub fn see(&mut self, generation: u32, forward: bool, segment: &Segment) {
        if !self.tcp || generation > self.generation {
            (self.generation, self.tcp) = (generation, true);
            self.signs.begin();
        } else if generation < self.generation {
            // Of a connection that is over.
            return;
        }
        if forward {
            let ends = segment.flags.has(Flags::SYN) || segment.flags.has(Flags::FIN);
            let end = segment.seq + u64::from(segment.len) + u64::from(ends);
            self.signs.passed(end, segment.len > 0 || ends);
        } else if segment.flags.has(Flags::ACK) {
            self.signs.answered(segment.ack);
        }
    }

    /// Whether any segment of it was ever seen.
    pub fn is_tcp(&self) -> bool {
        self.tcp
    }

    /// Bytes that are not acknowledged.
    pub fn awaited(&self) -> u64 {
        self.signs.awaited()
    }

    /// Segments that had nothing beyond the highest seen.
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

    #[test]
    fn what_is_not_acknowledged_is_awaited_and_what_is_not_new_was_repeated() {
        let mut signs = Signs::default();
        assert!(!signs.is_tcp());
        signs.see(0, true, &data(1));
        signs.see(0, true, &data(1001));
        assert_eq!((signs.awaited(), signs.repeated()), (2001, 0));
        signs.see(0, false, &answer(1001));
        signs.see(0, true, &data(1001));
        assert_eq!((signs.awaited(), signs.repeated()), (1000, 1));
        signs.see(0, false, &answer(2001));
        // An old acknowledgement changes nothing, and one by itself repeats nothing.
        signs.see(0, false, &answer(1001));
        signs.see(0, true, &Segment { seq: 2001, ..answer(7) });
        assert_eq!((signs.awaited(), signs.repeated()), (0, 1));
    }

    #[test]
    fn a_new_connection_begins_anew_and_the_old_one_is_over() {
        let mut signs = Signs::default();
        signs.see(0, true, &data(5001));
        signs.see(1, true, &Segment { flags: Flags::SYN, ..Segment::default() });
        assert_eq!(signs.awaited(), 1);
        signs.see(0, true, &data(9001));
        signs.see(1, false, &answer(1));
        assert_eq!((signs.awaited(), signs.repeated()), (0, 0));
    }
}
