//! Newcomers and leavers.
//!
//! If the nodes that fill the air are hidden from a newcomer, the MAC discards its first packets, and reports
//! travel in packets. Until one is delivered, the node reports its link in messages, nodes that receive them
//! forward them, and the flows around give way. Departures are reported, too, and the capacity that is
//! freed is used.

use fairmesh_units::{NodeId, Span, Time};

use super::estimate::fastest;
use super::link::{MIN_REPORTED_RATE, OwnLink};
use super::link_report::{LinkReport, REPORT_WORDS};
use super::{Anomaly, EPOCH_BOUNDS, WcpCap, draw};
use crate::{Actions, Link, Reason, Value};

/// Minimum time between messages of a node; a random time of up to the same length is added.
///
/// Nodes that answer the same message at the same time are often hidden from each other.
const MESSAGE_INTERVAL: Span = Span::from_millis(60);
/// Time for which a new flow is reported by messages if none of its packets is delivered.
const NEW_FLOW_TIME: Span = Span::from_secs(1);
/// Longest time for which a flow is reported after a packet was discarded.
///
/// TCP pauses for 4 s after its third SYN (RFC 6298 §5.5).
const UNDELIVERED_TIME: Span = Span::from_secs(5);
/// Time without delivery after which a flow with earlier deliveries counts as undelivered.
const DELIVERY_TIMEOUT: Span = Span::from_millis(200);
/// Time for which a node that received such a message forwards its report.
const FORWARDING_TIME: Span = Span::from_millis(500);
/// Maximum number of reports in a message.
const MAX_REPORTS: usize = 6;
/// Bytes of a report.
const REPORT_BYTES: usize = 4 * REPORT_WORDS;
/// First byte of a message if the sender's own packets are not delivered.
const OWN_UNDELIVERED: u8 = 1;
/// First byte of a message that forwards reports.
const FORWARDED: u8 = 0;
/// Data rate reported for a link with undelivered packets, in bit/s.
///
/// It is less than for any other ([`MIN_REPORTED_RATE`]).
const UNDELIVERED_RATE: f64 = 1e3;
/// Upper bound of that value after decoding: rates are reported in steps of 1.4 %.
pub(super) const UNDELIVERED_RATE_BOUND: f64 = 1.02 * UNDELIVERED_RATE;
/// Assumed size of its packets in bytes, if none has been seen yet.
const ASSUMED_PACKET_BYTES: u32 = 500;
/// Idle time after which flows count as left, if their last packet was delivered.
///
/// Flows that return are newcomers.
const DEPARTURE_TIMEOUT: Span = Span::from_millis(1500);

/// Earliest time of a node's next message, and the time until which it forwards reports.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReportSchedule {
    pub next: Time,
    echo: Option<Time>,
    /// Number of messages sent.
    turn: u32,
}

impl OwnLink {
    /// Records a new flow with packets that go out on the link.
    pub fn flow_arrived(&mut self, now: Time) {
        self.undelivered_period = (now, self.undelivered_period.1.max(now + NEW_FLOW_TIME));
    }

    /// Records the outcome of a packet.
    pub fn packet_outcome(&mut self, now: Time, delivered: bool) {
        self.delivered_before |= delivered;
        let (from, until) = self.undelivered_period;
        let from = match (now < until, self.delivered_before) {
            (true, _) => from,
            (false, true) => now + DELIVERY_TIMEOUT,
            (false, false) => now,
        };
        self.undelivered_period =
            if delivered { Default::default() } else { (from, now + UNDELIVERED_TIME) };
    }

    /// True if none of its packets has been delivered yet, and messages report this.
    pub fn never_delivered(&self, now: Time) -> bool {
        !self.delivered_before && self.undelivered(now)
    }

    /// True if its flows have left, and messages report this.
    pub fn gone(&self, now: Time) -> bool {
        now < self.gone_until
    }

    /// True if packets of its flows are not delivered.
    pub fn undelivered(&self, now: Time) -> bool {
        (self.undelivered_period.0..self.undelivered_period.1).contains(&now)
    }
}

impl WcpCap {
    /// Sends the messages of this node that are due.
    pub(super) fn send_reports(&mut self, now: Time, actions: &mut Actions) {
        if self.ideal || now < self.schedule.next {
            return;
        }
        let undelivered: Vec<&OwnLink> = self.own.iter().filter(|o| o.undelivered(now)).collect();
        let echo = self.schedule.echo.is_some_and(|until| now < until);
        let gone = self.own.iter().filter(|o| o.gone(now));
        let gone: Vec<LinkReport> = gone.map(|o| empty(o, self.node)).take(MAX_REPORTS).collect();
        if undelivered.is_empty() && gone.is_empty() && !echo {
            return;
        }
        self.schedule.turn = self.schedule.turn.wrapping_add(1);
        // Sent to a node that receives no packets: short, and with the MAC's retries, which a broadcast lacks.
        let unreached = undelivered.get(self.schedule.turn as usize % undelivered.len().max(1));
        let flag =
            if unreached.is_some() || !gone.is_empty() { OWN_UNDELIVERED } else { FORWARDED };
        let mut reports: Vec<LinkReport> =
            unreached.map(|o| bare(o, self.node)).into_iter().collect();
        let to = unreached.map(|o| o.to);
        if to.is_none() {
            reports = gone;
            let mut rest: Vec<LinkReport> = self.reports.beyond().copied().collect();
            rest.extend(self.own.iter().filter_map(|o| o.measured));
            // Reports of links with almost no traffic come first: no other packets carry them.
            while reports.len() < MAX_REPORTS {
                let first = rest.iter().position(|n| undelivered_flows(n) || n.is_empty());
                let Some(at) = first.or_else(|| draw(&mut self.stream, rest.len())) else { break };
                reports.push(rest.swap_remove(at));
            }
        }
        let words = reports.iter().flat_map(LinkReport::words).flat_map(u32::to_be_bytes);
        let body: Vec<u8> = core::iter::once(flag).chain(words).collect();
        self.schedule.next = now + MESSAGE_INTERVAL + self.random_delay();
        actions.because(Reason::new(
            "wcpcap.unheard",
            "node {} does not get through, or has received from one that does not: it is sent {} links",
            &[Value::Node(self.node), Value::Count(reports.len() as u64)],
        ));
        actions.send(to, &body);
    }

    /// Handles a message from the air.
    pub(super) fn take_message(
        &mut self,
        now: Time,
        from: NodeId,
        body: &[u8],
        actions: &mut Actions,
    ) {
        let Some((flag, reports)) = body.split_first() else {
            return self.anomaly(Anomaly::Implausible, from, actions);
        };
        if *flag > OWN_UNDELIVERED
            || reports.len() % REPORT_BYTES != 0
            || reports.len() > REPORT_BYTES * MAX_REPORTS
        {
            return self.anomaly(Anomaly::Implausible, from, actions);
        }
        for report in reports.chunks_exact(REPORT_BYTES) {
            let word = |i: usize| {
                report[4 * i..4 * i + 4].iter().fold(0, |w: u32, b| w << 8 | u32::from(*b))
            };
            if let Some(report) = LinkReport::read(core::array::from_fn(word)) {
                self.take(now, from, report, actions);
            }
        }
        if *flag == OWN_UNDELIVERED {
            self.schedule.next = self.schedule.next.max(now + self.random_delay());
            self.schedule.echo = Some(now + FORWARDING_TIME);
            self.due = Some(self.due.map_or(self.schedule.next, |d| d.min(self.schedule.next)));
        }
    }

    fn random_delay(&mut self) -> Span {
        Span::from_nanos(u64::from(self.stream.below(MESSAGE_INTERVAL.as_nanos() as u32)))
    }

    /// True if it has messages to send soon.
    pub(super) fn speaks(&self, now: Time) -> bool {
        let echo = self.schedule.echo.is_some_and(|until| now < until);
        !self.ideal && (echo || self.own.iter().any(|o| o.undelivered(now) || o.gone(now)))
    }

    /// Returns the idle time after which flows of an own link count as gone.
    ///
    /// While packets of a node around are not delivered, flows may be waiting for them, for example for
    /// acknowledgements.
    pub(super) fn patience(&self, now: Time, i: usize) -> Span {
        let reported = self.reports.among(&self.own[i].middle).any(undelivered_flows);
        match (self.ideal, reported || self.own.iter().any(|o| o.undelivered(now))) {
            (true, _) => self.hold,
            (false, true) => UNDELIVERED_TIME,
            (false, false) => DEPARTURE_TIMEOUT,
        }
    }

    /// Ends the epoch of every own link around which flows have left.
    pub(super) fn end_epochs_after_departures(&mut self, now: Time) {
        for link in self.reports.fewer() {
            for own in &mut self.own {
                if own.middle.contains(&link.from) || own.middle.contains(&link.to) {
                    own.fewer = true;
                }
            }
        }
        for own in self.own.iter_mut().filter(|o| o.fewer) {
            own.shorten_epoch(now, EPOCH_BOUNDS.0);
        }
    }

    /// Raises R after flows have left to at least the common rate that all others could have.
    pub(super) fn use_freed_capacity(&mut self, i: usize, around: &[LinkReport]) {
        let own = &mut self.own[i];
        if self.ideal || !std::mem::take(&mut own.fewer) {
            return;
        }
        let in_range = self.reports.in_range(around);
        let model = self.model.as_ref();
        let alike = self.questions.alike(model, around, in_range, self.u, &mut own.even);
        if let Some(alike) = alike {
            own.set(own.limit.unwrap_or(0.0).max(alike.delta), self.least);
        }
    }
}

/// True if packets of its flows are not delivered.
fn undelivered_flows(report: &LinkReport) -> bool {
    report.flows > 0 && report.data <= UNDELIVERED_RATE_BOUND
}

/// Returns the report of a link that its flows have left.
fn empty(own: &OwnLink, node: NodeId) -> LinkReport {
    LinkReport { data: 0.0, flows: 0, top: 0.0, acks: 0.0, limit: 0.0, ..bare(own, node) }
}

/// Returns the report of a link that may not have carried any packet yet.
fn bare(own: &OwnLink, node: NodeId) -> LinkReport {
    let report =
        own.measured.filter(|n| n.flows > 0 && n.data > MIN_REPORTED_RATE).unwrap_or(LinkReport {
            link: Link { from: node, to: own.to },
            data: UNDELIVERED_RATE,
            size: ASSUMED_PACKET_BYTES,
            flows: 1,
            top: 0.0,
            acks: 0.0,
            rate: own.rate,
            delivery: 1.0,
            limit: 0.0,
            trip: 0.0,
        });
    LinkReport { limit: own.limit.unwrap_or(0.0), ..report }
}

/// Counts flows with undelivered packets as if they had the rate of the fastest flow around.
///
/// The load of their link does not show its demand, and the others give way before its packets are delivered.
pub(super) fn make_room(around: &mut [LinkReport]) {
    let fastest = fastest(around);
    for report in around.iter_mut().filter(|n| undelivered_flows(n)) {
        report.data = fastest * f64::from(report.flows);
    }
}
