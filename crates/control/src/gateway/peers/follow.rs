//! A gateway with flows that another gateway governs.

use fairmesh_units::{NodeId, Span, Time};

use super::Own;
use super::message::FlowReport;

/// Fraction of a control period after the leader's message at which the next report is sent.
///
/// The rest is for the transmission.
const REPORT_PHASE: (u64, u64) = (7, 8);

#[derive(Debug)]
pub(super) struct Follower {
    pub leader: NodeId,
    /// Time of its next report.
    pub due: Time,
    /// Version of the last limits that it received.
    pub version: u64,
}

impl Follower {
    pub fn new(leader: NodeId, now: Time) -> Self {
        Follower { leader, due: now, version: 0 }
    }

    /// Records the start of the leader's control period.
    pub fn period_started(&mut self, now: Time, version: u64, look: Span) {
        self.version = version;
        self.due = now + Span::from_nanos(look.as_nanos() / REPORT_PHASE.1 * REPORT_PHASE.0);
    }
}

/// Returns the report of a flow to the leader.
pub(super) fn report(own: &Own) -> FlowReport {
    FlowReport {
        flow: own.here.flow,
        bytes: own.bytes,
        packets: own.packets,
        drops: own.drops,
        weight: own.here.weight as f32,
        hops: own.here.hops,
        branch: own.here.branch,
        guarantee: own.here.guarantee,
        ceiling: own.here.ceiling,
        packet: own.here.packet,
        queued: own.queued,
        trip: own.signs.and_then(|s| s.round_trip),
        oldest: own.signs.and_then(|s| s.oldest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reports_an_eighth_of_a_look_before_its_leader_looks_again() {
        let at = |ms: u64| Time::ZERO + Span::from_millis(ms);
        let mut follower = Follower::new(NodeId(1), at(0));
        assert_eq!((follower.due, follower.version), (at(0), 0), "at once, of no limits");
        follower.period_started(at(500), 7, Span::from_millis(1000));
        assert_eq!((follower.due, follower.version), (at(1375), 7));
    }
}
