//! A node's own links and its own flows.

use std::collections::BTreeSet;

use fairmesh_units::{BitRate, FlowId, NodeId, Span, Time};

use super::headroom_search::QueueCurve;
use super::link_report::{FlowReport, LinkReport};
use super::neighbourhood::Topology;
use crate::{Link, LinkModel, Neighbour};

/// Weight of a round trip in the average, as TCP's (RFC 6298 §2).
const ROUND_TRIP_GAIN: f64 = 0.125;
/// Number of packets to forward from which a missing transmit status is detected.
///
/// No transmission of them was reported.
const UNREPORTED_PACKETS: u64 = 20;
/// Number of samples that characterise a queue.
///
/// They span a second, since a single lost frame makes any queue wait for a moment.
const QUEUE_SAMPLES: u32 = 20;
/// Packets in transit through a queue: one in service, one behind.
const TRANSIT_PACKETS: u32 = 2;
/// Relative distance of R above the fastest flow around, at most.
///
/// It is more than a step of the codes of rates, or small increases would always be rounded away.
const RATE_MARGIN: f64 = 0.02;
/// Fraction of R below which δ leaves a link almost no room.
const FULL_HEADROOM: f64 = 0.05;
/// Fraction of R above which δ leaves much room: more than the noise of a full link.
const AMPLE_HEADROOM: f64 = 0.25;
/// Smallest data rate reported for a link that has flows, in bit/s.
pub(super) const MIN_REPORTED_RATE: f64 = 2e3;
/// Time for which the departure of a link's flows is reported.
const DEPARTURE_REPORT_TIME: Span = Span::from_millis(500);

/// Packets that have crossed a link since the start of the epoch.
///
/// Their rate is measured from packet to packet: an epoch has ten packets of a flow, and a random difference of a tenth
/// would matter.
#[derive(Clone, Copy, Debug, Default)]
struct Meter {
    bytes: u64,
    packets: u64,
    /// Time of the last packet of the preceding epoch.
    from: Option<Time>,
    /// Time of the last packet.
    last: Option<Time>,
}

impl Meter {
    fn count(&mut self, now: Time, bytes: u32) {
        self.bytes += u64::from(bytes);
        self.packets += 1;
        self.last = Some(now);
    }

    /// Returns mean size in bytes, and packets per second; `epoch` is used without two packets.
    fn rate(&self, epoch: Span) -> (u32, f64) {
        let between = self.from.zip(self.last).map(|(from, last)| last.since(from));
        let seconds = between.filter(|s| *s > Span::ZERO).unwrap_or(epoch).as_secs_f64();
        let size = self.bytes.checked_div(self.packets).unwrap_or(0);
        (u32::try_from(size).unwrap_or(u32::MAX), self.packets as f64 / seconds.max(1e-3))
    }

    /// Starts the next epoch.
    fn again(&mut self) {
        *self = Meter { bytes: 0, packets: 0, from: self.last, last: self.last };
    }
}

/// A flow with data on a link: the time of its last data and the bytes in this epoch.
#[derive(Clone, Copy, Debug)]
struct Crossing {
    flow: FlowId,
    at: Time,
    bytes: u64,
}

/// Samples of the node's queue, and the bytes delivered meanwhile, over one or more epochs.
#[derive(Clone, Copy, Debug, Default)]
struct QueueSamples {
    since: Time,
    bytes: u64,
    all: u32,
    /// Number of samples with more packets than in transit.
    waiting: u32,
}

/// A link from this node.
#[derive(Debug)]
pub(super) struct OwnLink {
    pub to: NodeId,
    /// Nodes with all of their links in L(i→j).
    pub middle: BTreeSet<NodeId>,
    pub rate: BitRate,
    /// Throughput of a lone sender, IP bits/s.
    pub capacity: f64,
    data: Meter,
    acks: Meter,
    /// Data that came in to be sent on it.
    came: Meter,
    looks: QueueSamples,
    flows: Vec<Crossing>,
    used: Time,
    /// Start of the epoch.
    since: Time,
    /// Length of the epoch.
    pub epoch: Span,
    /// Number of epochs since it came into use.
    pub epochs: u32,
    /// Time at which it came into use.
    pub born: Time,
    pub next: Option<Time>,
    /// Report to other nodes; `None` before its first epoch is over.
    pub measured: Option<LinkReport>,
    /// R, IP bits/s.
    pub limit: Option<f64>,
    /// Position of the last answer about it.
    pub edge: QueueCurve,
    /// Position of the last answer with equal flows.
    pub even: QueueCurve,
    /// True if packets waited in the last epoch for more of the time than allowed.
    pub backlogged: bool,
    /// Fraction of its flows' allowed rate that has been delivered.
    pub passed: f64,
    /// True if it has had room since its first epoch, or has much of it again.
    open: bool,
    /// True if it had much room in the last epoch.
    roomy: bool,
    /// True if flows have left it, or a link around it, since its last epoch.
    pub fewer: bool,
    /// Time until which messages report that its flows have left.
    pub gone_until: Time,
    /// Time in which messages report its flows if none of their packets is delivered: start, end.
    pub undelivered_period: (Time, Time),
    /// True if a packet has been delivered since it came into use.
    pub delivered_before: bool,
    /// Feedback in force.
    pub written: u32,
}

/// Conditions under which a link is full for any result of the model.
#[derive(Clone, Copy, Debug)]
pub(super) struct Full {
    /// Fraction of the samples above which waiting packets mean a full link.
    pub u: f64,
    /// Fraction of the allowed rate below which its flows lack throughput.
    pub short: f64,
}

impl OwnLink {
    pub fn new(neighbour: &Neighbour, around: &Topology) -> Self {
        OwnLink {
            to: neighbour.node,
            middle: around.middle(neighbour.node),
            rate: neighbour.rate,
            capacity: neighbour.capacity.0 as f64,
            data: Meter::default(),
            acks: Meter::default(),
            came: Meter::default(),
            looks: QueueSamples::default(),
            flows: Vec::new(),
            used: Time::ZERO,
            since: Time::ZERO,
            epoch: Span::ZERO,
            epochs: 0,
            born: Time::ZERO,
            next: None,
            measured: None,
            limit: None,
            edge: QueueCurve::default(),
            even: QueueCurve::default(),
            backlogged: false,
            passed: 1.0,
            open: true,
            roomy: false,
            fewer: false,
            gone_until: Time::ZERO,
            undelivered_period: Default::default(),
            delivered_before: false,
            written: 0,
        }
    }

    /// Starts an epoch at the first frame for some time.
    pub fn begin(&mut self, now: Time, next: Time) {
        (self.since, self.next) = (now, Some(next));
        (self.data, self.acks, self.came) = Default::default();
        (self.looks, self.epochs) = (QueueSamples { since: now, ..QueueSamples::default() }, 0);
        (self.born, self.backlogged, self.passed) = (now, false, 1.0);
        self.delivered_before = false;
        self.epoch = next.since(now);
    }

    /// Handles the length of the node's queue.
    pub fn sample_queue(&mut self, packets: u32) {
        if self.next.is_some() {
            self.looks.all += 1;
            self.looks.waiting += u32::from(packets > TRANSIT_PACKETS);
        }
    }

    /// Records a received packet that is to be sent on it.
    pub fn packet_received(&mut self, flow: FlowId, bytes: u32, now: Time) {
        self.came.count(now, bytes);
        // If the host reports transmissions, those count.
        if self.unreported() {
            self.touch(flow, now, bytes);
        }
    }

    /// Records a frame that was sent on it.
    pub fn sent(&mut self, now: Time, flow: FlowId, ack: bool, bytes: u32) {
        self.used = now;
        if ack {
            self.acks.count(now, bytes);
        } else {
            self.data.count(now, bytes);
            self.looks.bytes += u64::from(bytes);
            self.touch(flow, now, bytes);
        }
    }

    fn touch(&mut self, flow: FlowId, now: Time, bytes: u32) {
        self.used = now;
        let bytes = u64::from(bytes);
        match self.flows.iter_mut().find(|f| f.flow == flow) {
            Some(known) => (known.at, known.bytes) = (now, known.bytes + bytes),
            None => self.flows.push(Crossing { flow, at: now, bytes }),
        }
    }

    /// Returns the relative distance of the fastest flow above the mean: [`LinkReport::top`].
    fn top(&self) -> f64 {
        let most = self.flows.iter().map(|f| f.bytes).max().unwrap_or(0) as f64;
        let all = self.flows.iter().map(|f| f.bytes).sum::<u64>() as f64;
        let n = self.flows.len() as f64;
        if n > 1.0 && all > 0.0 {
            ((most * n / all - 1.0) / (n - 1.0)).clamp(0.0, 1.0)
        } else {
            0.0
        }
    }

    /// True if data arrives for the link and no transmission is reported.
    pub fn unreported(&self) -> bool {
        self.came.packets >= UNREPORTED_PACKETS && self.data.packets == 0
    }

    /// Ends the epoch: computes x, n and the round trip; `None` if the link is no longer in use.
    pub fn close(
        &mut self,
        now: Time,
        node: NodeId,
        hold: Span,
        full: Full,
        model: &dyn LinkModel,
        of: impl Fn(FlowId) -> Option<FlowReport>,
    ) {
        // TCP pauses for seconds between packets that are discarded.
        let undelivered = self.undelivered(now);
        let before = self.flows.len();
        self.flows.retain(|f| undelivered || now.since(f.at) < hold);
        self.fewer |= self.flows.len() < before;
        if !undelivered && now.since(self.used) >= hold {
            if self.measured.is_some() {
                self.gone_until = now + DEPARTURE_REPORT_TIME;
            }
            (self.measured, self.limit, self.next, self.open) = (None, None, None, true);
            return;
        }
        let epoch = now.since(self.since);
        let (size, packets) = if self.unreported() { self.came } else { self.data }.rate(epoch);
        let flows = self.flows.len() as u32;
        // No packet in this epoch from flows that exist: they are slow.
        let size = if size > 0 { size } else { self.measured.map_or(0, |n| n.size) };
        let reports: Vec<FlowReport> = self.flows.iter().filter_map(|f| of(f.flow)).collect();
        let trips: Vec<f64> = reports.iter().map(|s| s.trip).filter(|t| *t > 0.0).collect();
        let link = Link { from: node, to: self.to };
        self.judge(now, full, reports.iter().map(|s| s.rate).sum());
        // If bits are lost, acknowledgements are delivered more often than data.
        let frames = self.data.packets + self.acks.packets;
        let bytes = (self.data.bytes + self.acks.bytes).checked_div(frames).unwrap_or(0);
        let mean = u32::try_from(bytes).ok().filter(|b| *b > 0).unwrap_or(size);
        let data = (8.0 * f64::from(size) * packets).clamp(MIN_REPORTED_RATE, self.rate.0 as f64);
        self.measured = Some(LinkReport {
            link,
            data: if flows > 0 && size > 0 { data } else { 0.0 },
            size,
            flows: if size > 0 { flows } else { 0 },
            top: self.top(),
            acks: self.acks.rate(epoch).1,
            rate: self.rate,
            delivery: model.delivery(link, mean).clamp(0.01, 1.0),
            limit: self.limit.unwrap_or(0.0),
            trip: if trips.is_empty() {
                0.0
            } else {
                trips.iter().sum::<f64>() / trips.len() as f64
            },
        });
    }

    /// Updates the state of the queue and the fraction of the allowed rate that is delivered.
    ///
    /// This needs enough samples. The queue is backlogged if packets wait for more of the time than allowed.
    fn judge(&mut self, now: Time, full: Full, allowed: f64) {
        self.passed = 1.0;
        let QueueSamples { since, bytes, all, waiting } = self.looks;
        if all < QUEUE_SAMPLES {
            return;
        }
        self.backlogged = f64::from(waiting) > full.u * f64::from(all);
        let part = 8.0 * bytes as f64 / now.since(since).as_secs_f64().max(1e-3) / allowed.max(1.0);
        if allowed > 0.0 && part < full.short && !self.unreported() {
            self.passed = part;
        }
        self.looks = QueueSamples { since: now, ..QueueSamples::default() };
    }

    /// Ends the epoch now, or after the minimum length.
    pub fn shorten_epoch(&mut self, now: Time, shortest: Span) {
        let soonest = self.since + shortest;
        self.next = self.next.map(|n| n.min(soonest.max(now)));
    }

    /// Starts the next epoch.
    pub fn again(&mut self, now: Time, epoch: Span) {
        self.data.again();
        self.acks.again();
        self.came.again();
        self.flows.iter_mut().for_each(|f| f.bytes = 0);
        self.epochs += 1;
        (self.since, self.epoch) = (now, epoch);
        self.next = self.next.map(|_| now + epoch);
    }

    /// Moves R by δ, upwards by a fraction of it only.
    ///
    /// The fraction is `opening` from the link's first epoch until there is almost no room, and `rho` from
    /// then on. A flow that R does not limit must not let it rise without bound: R is never farther above the
    /// fastest flow around than that and one step.
    ///
    /// If packets wait for more of the time than U there is no more room, for any result of the model. If in
    /// addition the link's flows have less throughput than their allowed rate, x is the link's capacity and
    /// not its demand: R falls by that fraction.
    ///
    /// `anew`: if there is much room in two epochs in a row, a flow has left, and R rises as at first.
    pub fn adapt(
        &mut self,
        delta: f64,
        (opening, rho): (f64, f64),
        fastest: f64,
        (least, anew): (f64, bool),
    ) {
        let (most, delta) = match self.backlogged {
            true if self.passed < 1.0 => (self.passed * fastest, delta.min(0.0)),
            true => (fastest * (1.0 + RATE_MARGIN), delta.min(0.0)),
            false => (fastest * (1.0 + RATE_MARGIN), delta),
        };
        let from = self.limit.unwrap_or(most).min(most);
        let roomy = delta > AMPLE_HEADROOM * from;
        self.open = (self.open && delta > FULL_HEADROOM * from) || (anew && roomy && self.roomy);
        self.roomy = roomy;
        let part = if self.open { opening } else { rho };
        // Traffic above R is a queue that drains, or a reduction in progress: it is subtracted once.
        let to =
            if delta > 0.0 { from + part * delta } else { from.min(fastest.max(from) + delta) };
        self.set(to, least);
    }

    /// Sets R, within its bounds.
    pub fn set(&mut self, to: f64, least: f64) {
        let bits = 8.0 * f64::from(self.measured.map_or(0, |n| n.size).max(40));
        let most = self.capacity.max(least * bits);
        let limit = to.clamp(least * bits, most);
        self.limit = Some(limit);
        if let Some(report) = &mut self.measured {
            report.limit = limit;
        }
    }
}

/// A flow of this node.
#[derive(Debug)]
pub(super) struct Source {
    pub flow: FlowId,
    /// Size of its packets in IP bits.
    bits: f64,
    /// Rate, IP bits/s.
    pub rate: f64,
    least: f64,
    most: f64,
    /// Smoothed round trip, in s.
    pub trip: Option<f64>,
    /// Spacing in force; zero if there is none yet.
    pub spacing: Span,
    /// True if a rate was fed back to it.
    pub limited: bool,
}

impl Source {
    pub fn new(flow: FlowId, bits: f64, rate: f64, (least, most): (f64, f64)) -> Self {
        let (trip, spacing, limited) = (None, Span::ZERO, false);
        Source { flow, bits, rate, least, most: most.max(least), trip, spacing, limited }
    }

    /// Handles a round trip; returns true if its mean is to be reported again.
    pub fn measure(&mut self, rtt: Span) -> bool {
        if rtt == Span::ZERO {
            return false;
        }
        let s = rtt.as_secs_f64();
        self.trip = Some(self.trip.map_or(s, |a| a + ROUND_TRIP_GAIN * (s - a)));
        true
    }

    /// Returns the report in its packets.
    pub fn report(&self) -> FlowReport {
        FlowReport { trip: self.trip.unwrap_or(0.0), rate: self.rate }
    }

    /// Sets the allowed rate; returns true if its spacing has changed by more than `part`.
    pub fn allow(&mut self, rate: f64, part: f64) -> bool {
        self.rate = rate.clamp(self.least, self.most);
        let spacing = Span::from_secs_f64(self.bits / self.rate).max(Span::from_nanos(1));
        let change = spacing.as_secs_f64() / self.spacing.as_secs_f64();
        let changes = !(1.0 - part..=1.0 + part).contains(&change);
        if changes {
            self.spacing = spacing;
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_flow_is_encoded_from_equal_to_alone() {
        let top = |bytes: &[u32]| {
            let to = Link { from: NodeId(0), to: NodeId(1) };
            let around = Topology::new(NodeId(0), [to].into_iter());
            let neighbour = Neighbour::new(NodeId(1), BitRate(2_000_000), BitRate(1_000_000));
            let mut link = OwnLink::new(&neighbour, &around);
            for (flow, bytes) in bytes.iter().enumerate() {
                link.sent(Time::ZERO, FlowId(flow as u32), false, *bytes);
            }
            link.top()
        };
        assert_eq!((top(&[]), top(&[700])), (0.0, 0.0), "nobody to be above");
        assert_eq!((top(&[500, 500, 500]), top(&[0, 0])), (0.0, 0.0), "alike");
        assert_eq!(top(&[300, 100]), 0.5);
        assert_eq!(top(&[0, 900, 0, 0]), 1.0, "alone");
    }
}
