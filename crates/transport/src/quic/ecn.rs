//! ECN validation of a path by the counts that the peer reports.
//!
//! RFC 9000 §13.4.2, Appendix A.4.

use super::packet::{Ecn, EcnCounts};

/// Number of packets sent ECN-capable before the path is validated. RFC 9000 §13.4.2
const TESTING_PACKETS: u64 = 10;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Not wanted.
    Off,
    /// The first packets test the path.
    Testing,
    /// The test packets have been sent; the result is not known yet.
    Unknown,
    Capable,
    Failed,
}

/// ECN state of one direction of a path.
#[derive(Clone, Debug)]
pub(super) struct EcnPath {
    state: State,
    codepoint: Ecn,
    /// Packets sent ECN-capable.
    ///
    /// Of those, packets acknowledged, and packets lost before any was acknowledged.
    sent: u64,
    lost: u64,
    reported: EcnCounts,
}

impl EcnPath {
    pub(super) const fn new(ecn: bool, ect1: bool) -> Self {
        let state = if ecn { State::Testing } else { State::Off };
        let codepoint = if ect1 { Ecn::Ect1 } else { Ecn::Ect0 };
        let reported = EcnCounts { ect0: 0, ect1: 0, ce: 0 };
        EcnPath { state, codepoint, sent: 0, lost: 0, reported }
    }

    /// Returns the field of the next packet.
    pub(super) const fn codepoint(&self) -> Ecn {
        match self.state {
            State::Testing | State::Capable => self.codepoint,
            State::Off | State::Unknown | State::Failed => Ecn::NotEct,
        }
    }

    /// Records that a packet was sent with [`EcnPath::codepoint`].
    pub(super) fn on_sent(&mut self, ecn: Ecn) {
        self.sent += u64::from(ecn != Ecn::NotEct);
        if self.state == State::Testing && self.sent >= TESTING_PACKETS {
            self.state = State::Unknown;
        }
    }

    /// Records the loss of an ECN-capable packet.
    ///
    /// If all test packets are lost, the path drops them.
    pub(super) fn on_lost(&mut self) {
        self.lost += 1;
        if self.state == State::Unknown && self.lost >= self.sent {
            self.state = State::Failed;
        }
    }

    /// Processes an acknowledgement that raises the largest number (RFC 9000 §13.4.2.1).
    ///
    /// It newly acknowledges `newly` ECN-capable packets. Returns the number of new marks.
    pub(super) fn on_ack(&mut self, newly: u64, counts: Option<EcnCounts>) -> u64 {
        if matches!(self.state, State::Off | State::Failed) {
            return 0;
        }
        let Some(counts) = counts else {
            if newly > 0 {
                self.state = State::Failed;
            }
            return 0;
        };
        let (own, reported, other) = match self.codepoint {
            Ecn::Ect1 => (counts.ect1, self.reported.ect1, counts.ect0),
            _ => (counts.ect0, self.reported.ect0, counts.ect1),
        };
        let marks = counts.ce.checked_sub(self.reported.ce);
        let grown = (own + counts.ce).checked_sub(reported + self.reported.ce);
        let valid = grown.is_some_and(|g| g >= newly) && own + counts.ce <= self.sent && other == 0;
        let (true, Some(marks)) = (valid, marks) else {
            self.state = State::Failed;
            return 0;
        };
        self.reported = counts;
        if newly > 0 {
            self.state = State::Capable;
        }
        marks
    }

    pub(super) const fn failed(&self) -> bool {
        matches!(self.state, State::Failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(ect0: u64, ce: u64) -> Option<EcnCounts> {
        Some(EcnCounts { ect0, ect1: 0, ce })
    }

    fn path(sent: u64) -> EcnPath {
        let mut path = EcnPath::new(true, false);
        for _ in 0..sent {
            let ecn = path.codepoint();
            path.on_sent(ecn);
        }
        path
    }

    #[test]
    fn ten_packets_test_the_path_and_correct_counts_validate_it() {
        let mut p = path(12);
        assert_eq!((p.sent, p.codepoint()), (10, Ecn::NotEct));
        assert_eq!(p.on_ack(2, counts(2, 0)), 0);
        assert_eq!(p.codepoint(), Ecn::Ect0);
        // Marks replace ECT(0).
        assert_eq!(p.on_ack(3, counts(3, 2)), 2);
        assert_eq!(p.on_ack(2, counts(5, 2)), 0);
        assert!(!p.failed());
    }

    #[test]
    fn impossible_counts_end_it() {
        // No counts; too few; more than were sent; another codepoint; decreasing counts.
        let swapped = Some(EcnCounts { ect0: 0, ect1: 2, ce: 0 });
        for reported in [None, counts(1, 0), counts(9, 2), swapped] {
            let mut p = path(10);
            assert_eq!(p.on_ack(2, reported), 0);
            assert!(p.failed() && p.codepoint() == Ecn::NotEct, "{reported:?}");
        }
        let mut p = path(10);
        p.on_ack(2, counts(2, 1));
        p.on_ack(1, counts(5, 0));
        assert!(p.failed());
        // Later counts change nothing.
        assert_eq!(p.on_ack(2, counts(9, 1)), 0);
        assert!(p.failed());
    }

    #[test]
    fn a_path_that_drops_all_test_packets_has_no_ecn() {
        let mut p = path(10);
        for _ in 0..9 {
            p.on_lost();
        }
        assert!(!p.failed());
        p.on_lost();
        assert!(p.failed());
        // If some arrived, losses are not evidence.
        let mut p = path(10);
        p.on_ack(1, counts(1, 0));
        for _ in 0..50 {
            p.on_lost();
        }
        assert!(!p.failed());
    }

    #[test]
    fn off_is_off() {
        let mut p = EcnPath::new(false, false);
        assert_eq!(p.codepoint(), Ecn::NotEct);
        assert_eq!(p.on_ack(0, counts(5, 5)), 0);
        assert!(!p.failed());
    }
}
